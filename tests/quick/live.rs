//! A trace as live figures, on a terminal.

use crate::invocation;
use crate::toy::{MEMORY, Run, Trace};
use serde_json::Value;
use std::process::{Command, Stdio};

#[test]
fn a_trace_is_shown_on_a_terminal() {
    let trace = Trace::new(Run { steps: 40, more_steps: &[9], ..MEMORY });
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/in_a_terminal.py");
    let keys = "15:?the target ended,0:s,3:?waiting▾,0:q";
    let mut python = Command::new("python3");
    python.args([script, "80", "24", keys, env!("CARGO_BIN_EXE_profinfer"), "top", "--trace", trace.file()]);
    let output = python.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let seen: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&seen["status"], &seen["restored"], &seen["left"]),
        (&0.into(), &true.into(), &true.into()),
        "{seen:#}"
    );
    assert_eq!(seen["missed"], serde_json::json!([]), "{seen:#}");
    let screens = seen["screens"].as_array().unwrap();
    let last = screens.last().unwrap().as_str().unwrap();
    let lines: Vec<&str> = last.split('\n').collect();
    assert!(lines.len() == 24 && lines.iter().all(|line| line.chars().count() <= 80), "{last}");
    // As the report has it.
    let report = invocation::json(&["report", "--json", trace.file()]);
    let sentence = report["verdict"]["sentences"][0].as_str().unwrap();
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words(last).contains(&words(sentence)), "{sentence}\n{last}");
    assert!(last.contains("MUL_MAT") && last.contains("(of 41 steps)"), "{last}");
}

#[test]
fn a_trace_without_the_engine_is_an_error() {
    let trace = Trace::new(MEMORY);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/in_a_terminal.py");
    let mut python = Command::new("python3");
    python.args([script, "80", "24", "15:?has no engine,0:q", env!("CARGO_BIN_EXE_profinfer"), "top"]);
    python.args(["--engine", "nothing", "--trace", trace.file()]);
    let output = python.stdin(Stdio::null()).output().unwrap();
    let seen: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&seen["status"], &seen["missed"]), (&1.into(), &serde_json::json!([])), "{seen:#}");
}
