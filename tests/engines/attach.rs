//! Attaching to an engine at work.

use crate::engine::{Engine, Workload, alone, command, workload};
use crate::process::wait;
use crate::recording::Recording;
use crate::work::Step;
use serde_json::Value;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

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
fn names(step: &Step) -> Vec<(String, String, String, Vec<String>)> {
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

fn end(recording: &Recording) -> String {
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
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(said["steps"], 1 + LONG);
}
