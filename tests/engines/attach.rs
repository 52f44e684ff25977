//! Attaching to an engine at work.

use crate::engine::{Engine, Workload, alone, command, workload};
use crate::recording::Recording;
use crate::work::Step;
use serde_json::Value;
use std::process::{Child, Stdio};

/// Long enough to be attached to in the middle: some seconds.
const LONG: u64 = 6000;

fn launch(engine: Engine, workload: &Workload) -> Child {
    command(&engine.command(workload)).stdout(Stdio::piped()).spawn().unwrap()
}

/// Records the running engine; it must run on after the recording, to its own end.
fn attach(arguments: &[&str]) -> Recording {
    let workload = Workload { tokens: LONG, ..workload("tiny-dense", 1) };
    let mut target = launch(Engine::Shared, &workload);
    let pid = target.id().to_string();
    let recording = Recording::new(
        "llama",
        arguments,
        |command| {
            command.args(["-p", &pid]);
        },
        0,
    );
    assert_eq!(target.try_wait().unwrap(), None, "the engine runs on");
    let output = target.wait_with_output().unwrap();
    assert!(output.status.success(), "unharmed: {:?}", output.status);
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(said["steps"], 1 + LONG);
    assert_eq!(recording.info()["origin"]["pid"].to_string(), pid);
    recording.assert_complete();
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

fn assert_decode_steps(recording: &Recording) -> usize {
    let truth = Engine::Shared.truth(&Workload { tokens: 1, ..workload("tiny-dense", 1) }, false).steps;
    let steps = recording.work();
    for step in &steps {
        assert_eq!((step.tokens, step.graphs.len()), (1, 1));
        assert_eq!(names(step), names(&truth[1]));
    }
    steps.len()
}

#[test]
#[ignore = "needs root"]
fn a_running_engine_for_a_time() {
    let _alone = alone();
    let recording = attach(&["--duration", "500ms"]);
    let steps = assert_decode_steps(&recording);
    assert!(steps > 5, "{steps}");
    let end = &recording.info()["end"];
    assert!(end["exit_code"].is_null() && end["reason"].as_str().unwrap().contains("duration"), "{end}");
}

#[test]
#[ignore = "needs root"]
fn a_running_engine_for_some_steps() {
    let _alone = alone();
    let recording = attach(&["--steps", "3..7"]);
    assert_eq!(assert_decode_steps(&recording), 5);
    recording.assert_lanes(1);
    assert!(recording.info()["end"]["reason"].as_str().unwrap().contains("steps"));
}
