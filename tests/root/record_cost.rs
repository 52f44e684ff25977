//! What is left undone to make a hit cheap must not show in the trace: an object is looked at once a graph, and is still
//! described whenever it has changed; a boundary is not recorded, and still splits spans. These need root, a C compiler
//! and clang.

use crate::invocation::{json, profinfer, succeeds};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const PROBESET: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/targets/things.yaml");
const PLANNED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/targets/planned.yaml");
const WITHIN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/targets/calls_within.yaml");
/// Calls that `things.c` makes in its step and in graphs, outside graphs, and on its other thread.
const IN_GRAPHS: usize = 6 * 4;
const OUTSIDE: usize = 5;
const ELSEWHERE: usize = 3;

/// Records a run of `things.c`; the trace, record by record.
fn record(arguments: &[&str]) -> Vec<Value> {
    let (records, status) = run(PROBESET, arguments, &[]);
    assert_eq!(status, Some(0));
    records
}

/// Records a run of the C program beside a probeset; the trace, record by record, and the recorder's exit status.
fn run(probeset: &str, arguments: &[&str], words: &[&str]) -> (Vec<Value>, Option<i32>) {
    let folder = tempfile::tempdir().unwrap();
    let (target, trace) = (built(probeset, folder.path()), folder.path().join("run.pfi"));
    let profinfer = env!("CARGO_BIN_EXE_profinfer");
    let mut recorder = Command::new(profinfer);
    recorder.args(["record", probeset, "-o"]).arg(&trace).args(arguments).arg("--").arg(&target).args(words);
    let output = recorder.stdin(Stdio::null()).output().unwrap();
    let reported = String::from_utf8_lossy(&output.stderr);
    let status = output.status.code();
    assert!(matches!(status, Some(0 | 4)), "{reported}");
    let dump = Command::new(profinfer).arg("dump").arg(&trace).output().unwrap();
    assert!(matches!(dump.status.code(), Some(0 | 4)), "{}", String::from_utf8_lossy(&dump.stderr));
    let lines = String::from_utf8(dump.stdout).unwrap();
    let records = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let report = Command::new(profinfer).args(["report", "--all"]).arg(&trace).output().unwrap();
    let report = String::from_utf8_lossy(&report.stdout);
    assert_eq!(
        report.contains("1 `thing` changed while its graph counted as unchanged"),
        status == Some(4),
        "{report}"
    );
    (records, status)
}

/// The C program beside a probeset.
fn built(probeset: &str, folder: &Path) -> PathBuf {
    let source = Path::new(probeset).with_extension("c");
    let target = folder.join(source.file_stem().unwrap());
    let built = Command::new("cc").args(["-O2", "-g", "-o"]).arg(&target).arg(source).arg("-lpthread").status();
    assert!(built.expect("a C compiler").success());
    target
}

/// In which step, from 0, each description of a thing was made, and the kind it told.
fn descriptions(records: &[Value], name: &str) -> Vec<(usize, i64)> {
    let steps = of(records, "step");
    let began = |record: &Value| record["start_ns"].as_u64().unwrap();
    let described = records.iter().filter(|r| r["kind"] == "object" && r["fields"]["name"] == name);
    let step_of = |record: &Value| steps.iter().filter(|step| began(step) <= began(record)).count() - 1;
    described.map(|record| (step_of(record), record["fields"]["kind"].as_i64().unwrap())).collect()
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

#[test]
#[ignore = "needs root"]
fn graphs_of_one_identity_are_looked_at_once() {
    let (records, status) = run(PLANNED, &[], &[]);
    assert_eq!(status, Some(0), "nothing is missing");
    assert_eq!(of(&records, "operator").len(), 58 * 4);
    let changes = [(0, 0), (10, 1), (50, 2), (55, 3), (56, 4), (57, 5)];
    assert_eq!(descriptions(&records, "thing 1"), changes, "each change has another plan, or none");
    assert_eq!(descriptions(&records, "thing 2"), [(0, 0)]);
}

#[test]
#[ignore = "needs root"]
fn an_identity_that_does_not_hold_is_found_out_and_used_no_more() {
    let (records, status) = run(PLANNED, &[], &["lie"]);
    assert_eq!(status, Some(4), "the trace says that it is not right");
    assert_eq!(of(&records, "operator").len(), 58 * 4);
    // The change of step 10 is seen by the check of step 32; from then on each graph is looked at.
    let changes = [(0, 0), (32, 1), (50, 2), (55, 3), (56, 4), (57, 5)];
    assert_eq!(descriptions(&records, "thing 1"), changes);
}

/// Calls within one that stands for them are no operators. They take the target time all the same: the overhead has them.
#[test]
#[ignore = "needs root"]
fn calls_within_an_operator_are_part_of_the_overhead() {
    let cost_of_a_record = |parts: &str| {
        let folder = tempfile::tempdir().unwrap();
        let target = built(WITHIN, folder.path());
        let trace = folder.path().join("run.pfi").display().to_string();
        succeeds(profinfer(&["record", WITHIN, "-o", &trace, "--"]).arg(target).arg(parts));
        let report = json(&["report", &trace, "--json"]);
        assert_eq!(report["completeness"]["complete"], true, "{}", report["completeness"]);
        json(&["info", &trace, "--json"])["end"]["price"]["record_ns"]["operator"].as_f64().unwrap()
    };
    let (few, many) = (cost_of_a_record("0"), cost_of_a_record("100"));
    // Each record stands for 101 calls.
    assert!((50.0..200.0).contains(&(many / few)), "{few} and {many} ns");
}
