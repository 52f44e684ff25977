//! Attaching to an engine at work.

use crate::engine::{Engine, Workload, alone, command, workload};
use crate::process::{profinfer, run, stderr, wait};
use crate::recording::Recording;
use crate::work::Step;
use serde_json::Value;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Long enough to be attached to in the middle, twice: some seconds.
const LONG: u64 = 4000;

/// Records a running engine; it must run on after that.
fn attach(target: &mut Child, arguments: &[&str]) -> Recording {
    let pid = target.id().to_string();
    let set = |command: &mut Command| {
        command.args(["-p", &pid]);
    };
    let recording = Recording::new("llama", arguments, set, 0);
    assert_eq!(target.try_wait().unwrap(), None, "the engine runs on");
    recording.assert_complete();
    assert_eq!(recording.info()["origin"]["pid"].to_string(), pid);
    assert!(recording.info()["end"]["exit_code"].is_null());
    recording
}

/// What a decode step computes, without the shapes, which grow from step to step.
pub(crate) fn names(step: &Step) -> Vec<(String, String, String, Vec<String>)> {
    let inputs = |operator: &crate::work::Operator| operator.inputs.iter().map(|input| input.name.clone()).collect();
    let names = step.operators().map(|operator| {
        let result = operator.result.clone();
        (result.op, result.name, result.dtype, inputs(operator))
    });
    names.collect()
}

/// Every step in the recording is a decode step, whole.
fn decode_steps(recording: &Recording, truth: &Step) -> usize {
    let steps = recording.work();
    for step in &steps {
        assert_eq!((step.tokens, step.graphs.len()), (1, 1));
        assert_eq!(names(step), names(truth));
    }
    steps.len()
}

pub(crate) fn end(recording: &Recording) -> String {
    recording.info()["end"]["reason"].as_str().unwrap().to_owned()
}

#[test]
#[ignore = "needs root"]
fn a_running_engine_for_some_steps_and_then_for_a_time() {
    let _alone = alone();
    let short = Workload { tokens: 1, ..workload("tiny-dense", 1) };
    let truth = Engine::Shared.truth(&short, false).steps;
    let words = Engine::Shared.command(&Workload { tokens: LONG, ..short });
    let mut target = command(&words).process_group(0).stdout(Stdio::piped()).spawn().unwrap();
    let some_steps = attach(&mut target, &["--steps", "3..7"]);
    assert_eq!(decode_steps(&some_steps, &truth[1]), 5);
    some_steps.assert_lanes(1);
    assert!(end(&some_steps).contains("steps"), "{}", end(&some_steps));
    let a_time = attach(&mut target, &["--duration", "200ms"]);
    assert!(decode_steps(&a_time, &truth[1]) > 0);
    assert!(end(&a_time).contains("duration"), "{}", end(&a_time));
    let output = wait(target, "a recorded engine");
    assert!(output.status.success(), "unharmed: {:?}", output.status);
    let reported: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(reported["steps"], 1 + LONG);
}

/// Without a probeset: what the process has mapped says which it is.
#[test]
#[ignore = "needs root"]
fn a_running_engine_is_known_without_a_probeset() {
    let _alone = alone();
    let words = Engine::Shared.command(&Workload { tokens: 4 * LONG, ..workload("tiny-dense", 1) });
    let mut target = command(&words).process_group(0).stdout(Stdio::null()).spawn().unwrap();
    let pid = target.id().to_string();
    let until = Instant::now() + Duration::from_secs(60);
    while !std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default().contains("libllama") {
        assert!(Instant::now() < until, "the engine does not load its library");
        std::thread::sleep(Duration::from_millis(20));
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.pfi");
    let path = path.to_str().unwrap();
    let output = run(&mut profinfer(&["record", "-p", &pid, "--duration", "2s", "-o", path]), 0);
    assert_eq!(target.try_wait().unwrap(), None, "the engine runs on");
    target.kill().unwrap();
    target.wait().unwrap();
    assert!(stderr(&output).contains("recording llama"), "{}", stderr(&output));
    let report = run(&mut profinfer(&["report", path, "--json"]), 0);
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    assert!(report["completeness"]["steps"].as_u64().unwrap() > 0, "{report}");
    assert!(report["operator_types"].as_array().unwrap().iter().any(|row| row["op"] == "MUL_MAT"));
}
