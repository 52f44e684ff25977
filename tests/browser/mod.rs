//! Headless Chromium, and what it makes of a page.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

fn in_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// A Python that drives the browser.
pub(crate) fn installed() -> String {
    let installed = Command::new(in_repository("tests/html/browser.sh")).output().unwrap();
    assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
    String::from_utf8(installed.stdout).unwrap()
}

/// What a browser makes of a page.
pub(crate) fn looked_at(page: &str, options: &[&str]) -> Value {
    let python = installed();
    let mut look = Command::new(python.trim());
    let output = look.arg(in_repository("tests/html/look.py")).arg(page).args(options).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[track_caller]
pub(crate) fn loads_quietly(seen: &Value) {
    assert_eq!(seen["errors"], serde_json::json!([]));
    let requests: Vec<&str> = seen["requests"].as_array().unwrap().iter().map(|url| url.as_str().unwrap()).collect();
    assert!(requests.len() == 1 && requests[0].starts_with("file://"), "{requests:?}");
    assert_eq!(seen["nameless"], serde_json::json!([]), "every control has a name");
    assert_eq!(seen["overflow"], 0, "the page is no wider than its window");
}
