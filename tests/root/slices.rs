//! Parts of vectors and arrays: what lies behind their end, or before their beginning, is none of theirs.

use crate::invocation::{lines, profinfer, succeeds};
use serde_json::{Value, json};
use std::process::Command;

const TARGETS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/targets");

#[test]
#[ignore = "needs root"]
fn a_slice_has_nothing_from_beyond_its_vector_or_array() {
    let folder = tempfile::tempdir().unwrap();
    let (program, trace) = (folder.path().join("slices"), folder.path().join("run.pfi").display().to_string());
    succeeds(Command::new("g++").args(["-O1", "-g", "-o"]).arg(&program).arg(format!("{TARGETS}/slices.cpp")));
    let mut record = profinfer(&["record", &format!("{TARGETS}/slices.yaml"), "--force", "-o", &trace, "--"]);
    let output = record.arg(&program).output().unwrap();
    // 4: it has no step, and elements that are not there are counted.
    assert!(matches!(output.status.code(), Some(0 | 4)), "{}", String::from_utf8_lossy(&output.stderr));
    let mut events = lines(&succeeds(&mut profinfer(&["dump", &trace])).stdout);
    events.sort_by_key(|event| event["start_ns"].as_u64());
    let of = |probe: &str, field: &str| -> Vec<Value> {
        events.iter().filter(|event| event["probe"] == probe).map(|event| event["fields"][field].clone()).collect()
    };
    assert_eq!(
        of("three", "list"),
        [json!([]), json!([10]), json!([10, 11]), json!([10, 11, 12]), json!([10, 11, 12])]
    );
    assert_eq!(of("three", "second"), [Value::Null, Value::Null, json!(11), json!(11), json!(11)]);
    // From -2, -1, 0, 1 and 2 on.
    assert_eq!(of("tail", "list"), [Value::Null, Value::Null, json!([10, 11]), json!([11, 12]), json!([12, 13])]);
    let pointers = |count: u64| Value::from((0..count).map(|i| format!("{:#x}", 0x1000 + i)).collect::<Vec<_>>());
    assert_eq!(of("until", "list"), [0, 1, 2, 3, 3].map(pointers));
    let summary = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!summary.contains("truncated"), "{summary}");
}
