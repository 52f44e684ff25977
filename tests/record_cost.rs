//! What is left undone to make a hit cheap must not show in the trace: an object is looked at once a graph, and is still
//! described whenever it has changed; a boundary is not recorded, and still splits spans. These need root, a C compiler
//! and clang.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test says what went wrong by panicking")]

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

const PROBESET: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/targets/things.yaml");
/// Calls that `things.c` makes in its step and in graphs, outside graphs, and on its other thread.
const IN_GRAPHS: usize = 6 * 4;
const OUTSIDE: usize = 5;
const ELSEWHERE: usize = 3;

/// Records a run of `things.c`; the trace, record by record.
fn record(arguments: &[&str]) -> Vec<Value> {
    let folder = tempfile::tempdir().unwrap();
    let (target, trace) = (folder.path().join("things"), folder.path().join("run.pfi"));
    let source = Path::new(PROBESET).with_extension("c");
    let built = Command::new("cc").args(["-O2", "-g", "-o"]).arg(&target).arg(source).arg("-lpthread").status();
    assert!(built.expect("a C compiler").success());
    let profinfer = env!("CARGO_BIN_EXE_profinfer");
    let mut recorder = Command::new(profinfer);
    recorder.args(["record", PROBESET, "-o"]).arg(&trace).args(arguments).arg("--").arg(&target);
    let output = recorder.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let dump = Command::new(profinfer).arg("dump").arg(&trace).output().unwrap();
    assert!(dump.status.success(), "{}", String::from_utf8_lossy(&dump.stderr));
    let lines = String::from_utf8(dump.stdout).unwrap();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn of<'r>(records: &'r [Value], name: &str) -> Vec<&'r Value> {
    records.iter().filter(|record| record["probe"] == name).collect()
}

#[test]
#[ignore = "needs root"]
fn an_object_is_described_whenever_it_has_changed_and_only_then() {
    let records = record(&[]);
    let described = |name: &str| {
        let of_name = records.iter().filter(|r| r["kind"] == "object" && r["fields"]["name"] == name);
        of_name.map(|r| r["fields"]["kind"].as_i64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(described("leaf"), [0, 1], "seen as an input only");
    assert_eq!(described("thing 0"), [0, 1, 2, 3, 4, 5], "outside a graph every look counts");
    assert_eq!(described("thing 1"), [0]);
    assert_eq!(described("thing 2"), [0, 1, 0], "there and back");
    assert_eq!(described("thing 3"), [0]);
    assert_eq!(described("other"), [8, 9, 10], "in graphs of another thread");
    assert_eq!(of(&records, "operator").len(), IN_GRAPHS + OUTSIDE + ELSEWHERE);
}

#[test]
#[ignore = "needs root"]
fn a_boundary_splits_spans_and_is_not_recorded() {
    let records = record(&[]);
    assert_eq!(of(&records, "barrier").len(), 0);
    let operators = of(&records, "operator");
    let waiting = |operator: &&Value| operator["fields"].get("waiting").and_then(Value::as_u64);
    let main_thread = operators[0]["tid"].clone();
    let (here, elsewhere): (Vec<&Value>, Vec<&Value>) = operators.iter().partition(|o| o["tid"] == main_thread);
    let waits = here.iter().filter(|o| waiting(o).is_some_and(|ns| ns > 0)).count();
    assert_eq!(waits, IN_GRAPHS, "each that a barrier follows");
    let never = here.iter().filter(|o| waiting(o) == Some(0)).count();
    assert_eq!(never, OUTSIDE, "none follows, where others were seen");
    assert_eq!(elsewhere.iter().filter(|o| waiting(o).is_none()).count(), ELSEWHERE, "no barrier was ever seen");
}

#[test]
#[ignore = "needs root"]
fn without_the_boundary_waiting_is_absent() {
    let records = record(&["--no-probe", "barrier"]);
    let operators = of(&records, "operator");
    assert_eq!(operators.len(), IN_GRAPHS + OUTSIDE + ELSEWHERE);
    assert!(operators.iter().all(|o| o["fields"].get("waiting").is_none_or(Value::is_null)));
}
