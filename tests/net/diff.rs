//! The page that `profinfer diff --html` writes, in a browser.

use crate::browser;
use crate::written::counted;
use std::process::Command;

#[test]
#[ignore = "needs a browser"]
fn the_page_loads_without_an_error_or_a_request() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (a, b) = (counted(&path("a.pfi"), 1000), counted(&path("b.pfi"), 2000));
    let page = path("diff.html").to_str().unwrap().to_owned();
    let mut diff = Command::new(env!("CARGO_BIN_EXE_profinfer"));
    assert_eq!(diff.arg("diff").args([&a, &b]).args(["--html", &page]).status().unwrap().code(), Some(0));
    let light = browser::looked_at(&page, &["--plain"]);
    browser::loads_quietly(&light);
    assert!(light["text"].as_str().unwrap().contains("product"), "{}", light["text"]);
    let dark = browser::looked_at(&page, &["--plain", "--dark", "--width", "400"]);
    browser::loads_quietly(&dark);
    assert_ne!(light["ground"], dark["ground"]);
}
