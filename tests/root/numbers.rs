//! Numbers of 64 bits without a sign, beyond those with one: each result is that of C.

use crate::invocation::{lines, profinfer, succeeds};
use serde_json::json;
use std::process::Command;

const TARGETS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/targets");

#[test]
#[ignore = "needs root"]
fn numbers_without_a_sign_are_computed_as_in_c() {
    let folder = tempfile::tempdir().unwrap();
    let (program, trace) = (folder.path().join("numbers"), folder.path().join("run.pfi").display().to_string());
    succeeds(Command::new("cc").args(["-O1", "-g", "-o"]).arg(&program).arg(format!("{TARGETS}/numbers.c")));
    let mut record = profinfer(&["record", &format!("{TARGETS}/numbers.yaml"), "--force", "-o", &trace, "--"]);
    let output = record.arg(&program).output().unwrap();
    // 4: it has no step.
    assert!(matches!(output.status.code(), Some(0 | 4)), "{}", String::from_utf8_lossy(&output.stderr));
    let events = lines(&succeeds(&mut profinfer(&["dump", &trace])).stdout);
    let event = events.iter().find(|event| event["probe"] == "numbers").expect("its condition holds");
    let big = u64::MAX - 10;
    let expected = json!({
        "big": big,
        "more": big + 1,
        "half": big / 2,
        "by_one": big,
        "rest": big % 10,
        "top": 15,
        "low": 0xf5,
        "either": big,
        "less": -1,
        "is_more": 1,
        "is_less": 0,
        "is_largest": 1,
        "mode": "FAST",
    });
    assert_eq!(event["fields"], expected);
}
