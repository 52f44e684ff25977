//! Arguments of the call that encloses another one: what runs an item has only its number, what runs the plan has the
//! items. The program prints what each call was.

use crate::invocation::{lines, profinfer, succeeds};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

const TARGETS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/targets");
const ROUNDS: usize = 3;
/// As the program calls them.
const KINDS: [&str; 3] = ["Nothing (NC)", "Product (NC, F32)", "Binary (ND)"];

/// What the program prints of each call, and what is recorded of each.
fn recorded(folder: &Path, arguments: &[&str]) -> (Vec<String>, Vec<Value>, Value) {
    let program = folder.join("enclosing");
    if !program.exists() {
        // Without debug information: layouts are written, and names are from its tables.
        let source = format!("{TARGETS}/enclosing.c");
        succeeds(Command::new("gcc").args(["-O1", "-fno-inline", "-rdynamic", "-o"]).arg(&program).arg(source));
    }
    let trace = folder.join("run.pfi").display().to_string();
    let mut record = profinfer(&["record", &format!("{TARGETS}/enclosing.yaml"), "--force", "-o", &trace, "--"]);
    let output = record.arg(&program).args(arguments).output().unwrap();
    // 4: it is reported as incomplete, for what was not within a plan.
    let (status, problems) = (output.status.code(), String::from_utf8_lossy(&output.stderr));
    assert!(matches!(status, Some(0 | 4)), "{problems}");
    let why = problems.lines().find(|line| line.starts_with("incomplete: ") && line.contains("read_failed in `item`"));
    assert_eq!(why.is_some(), status == Some(4), "{problems}");
    let printed = String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
    let mut items = lines(&succeeds(&mut profinfer(&["dump", &trace])).stdout);
    items.retain(|event| event["probe"] == "item");
    items.sort_by_key(|event| event["start_ns"].as_u64());
    let report = serde_json::from_slice(&profinfer(&["report", &trace, "--json"]).output().unwrap().stdout).unwrap();
    (printed, items, report)
}

/// As the program prints it.
fn line(item: &Value) -> String {
    let fields = &item["fields"];
    match (fields["op"].as_str(), fields["shape"][0].as_i64()) {
        (Some(op), Some(size)) => format!("{op} {size}"),
        // What it has of its own is recorded in any case.
        (None, None) => format!("{} outside", KINDS[fields["kind"].as_u64().unwrap() as usize]),
        other => panic!("{other:?}"),
    }
}

#[test]
#[ignore = "needs root"]
fn what_a_call_does_is_read_through_the_arguments_of_the_call_around_it() {
    let folder = tempfile::tempdir().unwrap();
    let (printed, items, report) = recorded(folder.path(), &[&ROUNDS.to_string()]);
    assert_eq!(printed.len(), 6 * ROUNDS);
    assert_eq!(items.iter().map(line).collect::<Vec<_>>(), printed);
    // The call outside of a plan is counted, for each of two fields.
    let lost = report["completeness"]["lost"].as_array().unwrap();
    assert!(lost.iter().any(|lost| lost["kind"] == "read_failed" && lost["count"] == 2 * ROUNDS), "{lost:?}");
}

#[test]
#[ignore = "needs root"]
fn a_plan_within_a_plan_and_one_that_was_left_are_not_mistaken_for_others() {
    let folder = tempfile::tempdir().unwrap();
    let (printed, items, _) = recorded(folder.path(), &["1", "more"]);
    let seen: Vec<String> = items.iter().filter(|item| item["fields"]["kind"].as_i64() >= Some(0)).map(line).collect();
    // A step, the item of the outer plan, those of the inner one, and that of the plan that is left.
    let (before, rest) = seen.split_at(7);
    assert_eq!(before, &printed[..7]);
    assert!(rest[..3].iter().all(|seen| seen.ends_with(" outside")), "{rest:?}");
    assert_eq!(rest[3], printed[10]);
    assert!(rest[4..].iter().all(|seen| seen.ends_with(" outside")), "{rest:?}");
}
