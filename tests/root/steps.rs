//! Which steps are recorded, where those of several threads overlap: as calls, and as spans that another entry ends.

use crate::invocation::{lines, profinfer, succeeds};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};

const HEAD: &str = "profinfer: 1
engine: overlapping
modules: { toy: overlapping }
probes:
  operator: { at: 'toy:operator_of(i32 step)', role: region, fields: { step: step } }
";
const CALL: &str = "  step: { at: 'toy:run_step(i32 step)', role: step, fields: { step: step } }\n";
const SPAN: &str = "  step: { at: 'toy:step_begin(i32 step) until [step_end]', role: step, fields: { step: step } }
  step_end: { at: 'toy:step_end(i32 step)', role: mark }
";

/// Records the toy in a folder, whose input ends with the recording: what it prints, and what is told.
fn record(folder: &Path, step: &str, options: &[&str], arguments: &[&str]) -> (String, String) {
    let program = folder.join("overlapping");
    if !program.exists() {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/targets/overlapping.c");
        succeeds(Command::new("gcc").args(["-O1", "-pthread", "-o"]).arg(&program).arg(source));
    }
    std::fs::write(folder.join("toy.yaml"), format!("{HEAD}{step}")).unwrap();
    let mut record = profinfer(&["record", "toy.yaml", "--force", "-o", "run.pfi"]);
    record.current_dir(folder).args(options).arg("--").arg(&program).args(arguments);
    record.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = record.spawn().unwrap();
    let input = child.stdin.take();
    let mut told = String::new();
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    while !told.contains("the target is still running") && errors.read_line(&mut told).unwrap() > 0 {}
    drop(input);
    errors.read_to_string(&mut told).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{step}: {told}");
    (String::from_utf8(output.stdout).unwrap(), told)
}

/// The numbers of the steps that are recorded, and how many operators of each step.
fn recorded(folder: &Path) -> (Vec<u64>, BTreeMap<u64, usize>) {
    let (mut steps, mut operators) = (Vec::new(), BTreeMap::new());
    for event in lines(&succeeds(profinfer(&["dump", "run.pfi"]).current_dir(folder)).stdout) {
        let number = event["fields"]["step"].as_u64();
        match (event["probe"].as_str(), number) {
            (Some("step"), Some(step)) => steps.push(step),
            (Some("operator"), Some(step)) => *operators.entry(step).or_default() += 1,
            _ => {}
        }
    }
    steps.sort_unstable();
    (steps, operators)
}

fn report(folder: &Path) -> Value {
    let output = profinfer(&["report", "run.pfi", "--json"]).current_dir(folder).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
#[ignore = "needs root"]
fn steps_that_were_asked_for_are_whole_where_others_overlap_them() {
    let folder = tempfile::tempdir().unwrap();
    for step in [CALL, SPAN] {
        let (printed, told) = record(folder.path(), step, &["--steps", "3..4"], &["9", "open"]);
        assert_eq!(printed, "9\n", "the program runs on to its end");
        let (steps, operators) = recorded(folder.path());
        assert_eq!(steps, [3, 4], "{step}: {told}");
        assert!([3, 4].iter().all(|step| operators[step] == 5), "{step}: {operators:?}");
        // What runs beside them on the other thread is theirs as far as one can tell.
        assert!(operators.keys().all(|step| (2..=5).contains(step)), "{step}: {operators:?}");
        let end = succeeds(profinfer(&["info", "run.pfi"]).current_dir(folder.path())).stdout;
        let end = String::from_utf8(end).unwrap();
        assert!(end.contains("the steps asked for were recorded"), "{step}: {end}");
    }
}

#[test]
#[ignore = "needs root"]
fn a_step_that_the_end_of_the_recording_cuts_is_still_open_and_not_whole() {
    let folder = tempfile::tempdir().unwrap();
    for step in [CALL, SPAN] {
        let (_, told) = record(folder.path(), step, &["--duration", "1s"], &["4", "open"]);
        let (steps, operators) = recorded(folder.path());
        assert_eq!(steps, [1, 2, 3, 4], "{step}: {told}");
        assert_eq!(operators, (1..=4).map(|step| (step, 5)).chain([(5, 1)]).collect(), "{step}: {told}");
        let open = &report(folder.path())["completeness"]["lost"];
        let open = open.as_array().unwrap().iter().find(|lost| lost["kind"] == "still_open");
        let expected = (step == SPAN).then_some((Some("step"), Some(1)));
        assert_eq!(open.map(|lost| (lost["record"].as_str(), lost["count"].as_u64())), expected, "{step}: {told}");
    }
}

/// Operators' probes come and go with the budget; those that end steps stay, whatever their role.
#[test]
#[ignore = "needs root"]
fn with_a_budget_steps_end_where_they_end() {
    let folder = tempfile::tempdir().unwrap();
    for role in ["mark", "boundary"] {
        let step = SPAN.replace("role: mark", &format!("role: {role}"));
        let (_, told) = record(folder.path(), &step, &["--budget", "5%"], &["400"]);
        let (steps, _) = recorded(folder.path());
        assert_eq!(steps, (1..=400).collect::<Vec<u64>>(), "{role}: {told}");
    }
}

#[test]
#[ignore = "needs root"]
fn the_last_step_has_the_operators_that_other_threads_end_later() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("late_lane");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/targets/late_lane.c");
    succeeds(Command::new("gcc").args(["-O1", "-pthread", "-o"]).arg(&program).arg(source));
    let probeset = "profinfer: 1
engine: late
modules: { toy: late_lane }
probes:
  step: { at: 'toy:step(i64 number) -> void', role: step, fields: { number: number } }
  operator: { at: 'toy:compute(i32 lane) until [operator]', role: operator, fields: { lane: lane, node: lane } }
";
    std::fs::write(folder.path().join("late.yaml"), probeset).unwrap();
    let mut record = profinfer(&["record", "late.yaml", "--steps", "2..3", "-o", "run.pfi", "--"]);
    record.current_dir(folder.path()).arg(&program).arg("6");
    let told = String::from_utf8(succeeds(&mut record).stderr).unwrap();
    let events = lines(&succeeds(profinfer(&["dump", "run.pfi"]).current_dir(folder.path())).stdout);
    let of = |lane: u64| {
        let operators = events.iter().filter(|event| event["probe"] == "operator");
        operators.filter(|event| event["fields"]["lane"].as_u64() == Some(lane)).count()
    };
    assert_eq!((of(0), of(1)), (2, 2), "{told}");
    assert!(told.contains("the steps asked for were recorded"), "{told}");
}
