//! Shipped probesets, recording programs that have an engine's functions and structures and call them in forms that the
//! engines at hand do not have.

use crate::invocation::{lines, profinfer, succeeds};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Records a program of `tests/targets`: its events, and what `report` prints.
fn recorded(probeset: &str, source: &str, flags: &[&str], arguments: &[&str]) -> (Vec<Value>, Value) {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/targets").join(source);
    let mut compile = Command::new("cc");
    succeeds(compile.args(["-O2", "-Wl,--build-id=sha1", "-o"]).arg(&program).arg(source).args(flags).arg("-lpthread"));
    let trace = folder.path().join("run.pfi").display().to_string();
    succeeds(profinfer(&["record", probeset, "-o", &trace, "--"]).arg(&program).args(arguments));
    let report = succeeds(&mut profinfer(&["report", &trace, "--json"])).stdout;
    (lines(&succeeds(&mut profinfer(&["dump", &trace])).stdout), serde_json::from_slice(&report).unwrap())
}

/// A field of all records of a probe.
fn fields<'a>(events: &'a [Value], probe: &str, field: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["probe"] == probe).map(|event| &event["fields"][field]).collect()
}

#[test]
#[ignore = "needs root"]
fn whisper_s_steps_of_several_sequences_are_decode() {
    let (events, report) = recorded("whisper", "whisper_functions.cpp", &[], &[]);
    assert_eq!(fields(&events, "decode", "tokens"), [4, 5, 5, 2, 1]);
    assert_eq!(fields(&events, "decode", "sequence_count"), [1, 5, 5, 2, 1]);
    let phases = report["phases"].as_array().unwrap();
    let steps: BTreeMap<&str, u64> =
        phases.iter().map(|phase| (phase["phase"].as_str().unwrap(), phase["steps"].as_u64().unwrap())).collect();
    assert_eq!(steps, BTreeMap::from([("prefill", 1), ("decode", 4)]));
}

/// Releases before batches have another function of the same name, whose third argument is no batch.
#[test]
#[ignore = "needs root"]
fn whisper_s_steps_in_releases_without_batches_have_their_tokens() {
    let (events, _) = recorded("whisper", "whisper_functions.cpp", &["-DTOKENS"], &[]);
    assert_eq!(fields(&events, "decode_tokens", "tokens"), [4, 5, 5, 2, 1]);
    assert_eq!(fields(&events, "decode_tokens", "sequence_count"), [1; 5]);
    assert!(fields(&events, "decode", "tokens").is_empty());
}

const STEPS: usize = 3;
/// The program's steps, and the two of its other functions.
const GRAPHS: usize = STEPS + 2;
const NODES: usize = 6;

#[test]
#[ignore = "needs root"]
fn llama_s_steps_in_releases_without_batches_have_their_tokens() {
    let flags = ["-DDISPATCHER=SYMBOL", "-DEVAL", "-g"];
    let (events, _) = recorded("llama", "llama_functions.c", &flags, &[&STEPS.to_string(), "1"]);
    assert_eq!(fields(&events, "eval", "tokens"), [4, 1, 1]);
    assert!(fields(&events, "decode", "tokens").is_empty());
}

fn llama(form: &str) -> Vec<Value> {
    recorded("llama", "llama_functions.c", &[&format!("-DDISPATCHER={form}"), "-g"], &[&STEPS.to_string(), "1"]).0
}

/// Whether a batch's result is a class, returned through a hidden argument, or not.
#[test]
#[ignore = "needs root"]
fn llama_s_batches_are_read_in_releases_that_return_a_class_too() {
    for form in ["SYMBOL", "INLINED"] {
        let events = llama(form);
        assert_eq!(fields(&events, "ubatch", "tokens"), [4, 4, 1, 1, 1], "{form}");
        assert_eq!(fields(&events, "sequences", "sequence_count"), [1; GRAPHS], "{form}");
        assert_eq!(fields(&events, "batch_outputs", "outputs").len(), GRAPHS, "{form}");
    }
}

/// Once for each node, although the older forms are called twice.
#[test]
#[ignore = "needs root"]
fn each_form_of_vulkan_s_encoder_is_recorded_once_a_node() {
    let events = llama("SYMBOL");
    for probe in ["dispatch", "dispatch_twice", "dispatch_of_tensor"] {
        let nodes = fields(&events, probe, "node");
        assert_eq!(nodes.len(), GRAPHS * NODES, "{probe}");
        assert!(nodes.iter().all(|node| node.is_string()), "{probe}: {nodes:?}");
    }
}

/// Without debug information types have the numbers that the probeset lists. One that it does not list, or a new one,
/// takes nothing from other tensors.
#[test]
#[ignore = "needs root"]
fn a_tensor_of_an_unlisted_type_leaves_others_theirs() {
    let flags = ["-DDISPATCHER=SYMBOL"];
    let (events, _) = recorded("llama", "llama_functions.c", &flags, &[&STEPS.to_string(), "1"]);
    let described = events.iter().filter(|event| event["object"] == "tensor").map(|event| &event["fields"]);
    let types: BTreeMap<&str, &Value> =
        described.map(|fields| (fields["name"].as_str().unwrap(), &fields["dtype"])).collect();
    assert_eq!((types["weight"], types["norm-0"]), (&"Q2_0".into(), &200.into()));
    let others = types.iter().filter(|(name, _)| name.starts_with("node-") || **name == "scaled-0");
    assert_eq!(others.map(|(_, dtype)| *dtype).collect::<Vec<_>>(), ["F32"; NODES + 1]);
}
