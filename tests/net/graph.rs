//! Layers that differ from the others, in the page of `profinfer html`.

use crate::browser::installed;
use crate::invocation::{profinfer, succeeds};
use crate::toy::{ODD, Run, Trace};
use serde_json::Value;
use std::process::Command;

const READ_PAGE: &str = "
import json, sys
from playwright.sync_api import sync_playwright
with sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path='/usr/bin/chromium', args=['--no-sandbox'])
    page = browser.new_page()
    errors = []
    page.on('pageerror', lambda error: errors.append(str(error)))
    page.goto('file://' + sys.argv[1])
    page.wait_for_selector('html[data-ready]', timeout=60000)
    texts = lambda of: [element.inner_text().split() for element in page.query_selector_all(of)]
    reported = [' '.join(words) for words in texts('#layers > p')]
    print(json.dumps({'odd': [words[0] for words in texts('#layers .bars .odd')], 'reported': reported, 'errors': errors}))
    browser.close()
";

#[test]
#[ignore = "needs a browser"]
fn a_page_marks_the_layers_that_its_statistics_call_odd() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let page = page.to_str().unwrap();
    let python = installed();
    // The second is as far off, in too few steps to say so.
    for (run, odd) in [(ODD, vec!["2"]), (Run { steps: 3, ..ODD }, vec![])] {
        let trace = Trace::new(run);
        succeeds(&mut profinfer(&["html", trace.file(), "-o", page]));
        let output = succeeds(Command::new(python.trim()).args(["-c", READ_PAGE, page]));
        let seen: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&seen["errors"], &seen["odd"]), (&serde_json::json!([]), &serde_json::json!(odd)), "{seen}");
        let expected = "Odd beside the median layer of the same step: layer 2 (decode, +22.4 %, mostly down-*).";
        assert_eq!(
            seen["reported"].as_array().unwrap().iter().any(|reported| reported == expected),
            !odd.is_empty(),
            "{seen}"
        );
    }
}
