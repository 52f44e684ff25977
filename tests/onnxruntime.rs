//! ONNX Runtime as its users install it, stripped: what is recorded of a run is what its own profiler writes down of the
//! same run. Needs root (or CAP_BPF and CAP_PERFMON), and PyPI the first time.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test says what went wrong by panicking")]

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const RUNS: usize = 20;
/// What our probe takes of the time that the engine sees, and the engine's own texts, which it puts together before it
/// looks at its clock again: microseconds a node, far more than was ever seen.
const MOST_BESIDE: f64 = 100.0;

fn run(command: &mut Command) -> Output {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// A Python that has the engine.
fn python() -> PathBuf {
    let script = format!("{ROOT}/tests/engines/install_onnxruntime.sh");
    let output = Command::new(script).stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success(), "install_onnxruntime.sh failed: {}", output.status);
    PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())
}

struct Kernel {
    name: String,
    op: String,
    us: f64,
}

fn recorded(trace: &Path, probe: &str) -> Vec<Value> {
    let dump = run(Command::new(env!("CARGO_BIN_EXE_profinfer")).arg("dump").arg(trace)).stdout;
    let lines = String::from_utf8(dump).unwrap();
    let events = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut events: Vec<Value> = events.filter(|event| event["probe"] == probe).collect();
    events.sort_by_key(|event| event["start_ns"].as_u64());
    events
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn medians(kernels: &[Kernel]) -> BTreeMap<&str, f64> {
    let mut by_name: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for kernel in kernels {
        by_name.entry(&kernel.name).or_default().push(kernel.us);
    }
    by_name.into_iter().map(|(name, values)| (name, median(values))).collect()
}

#[test]
#[ignore = "needs root"]
fn kernels_of_the_stripped_wheel_are_those_of_the_engine_s_own_profile() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("run.pfi");
    let mut command = Command::new(env!("CARGO_BIN_EXE_profinfer"));
    command.args(["record", "onnxruntime", "-o"]).arg(&trace).arg("--").arg(python());
    command.arg(format!("{ROOT}/tests/engines/run_onnxruntime.py")).arg(folder.path());
    run(command.args([&RUNS.to_string(), "profile"]));

    let text = std::fs::read_to_string(folder.path().join("profile.json")).unwrap();
    let profile: Value = serde_json::from_str(&text).unwrap();
    let mut events: Vec<&Value> = profile["kernels"].as_array().unwrap().iter().collect();
    events.sort_by_key(|event| event["start"].as_u64());
    let said = |event: &&Value, name: &str| event[name].as_str().unwrap().to_owned();
    let theirs: Vec<Kernel> = events
        .iter()
        .map(|event| Kernel { name: said(event, "name"), op: said(event, "op"), us: event["us"].as_f64().unwrap() })
        .collect();
    let field = |event: &Value, name: &str| event["fields"][name].as_str().unwrap().to_owned();
    let ours: Vec<Kernel> = recorded(&trace, "kernel")
        .iter()
        .map(|event| {
            let us = event["duration_ns"].as_f64().unwrap() / 1000.0;
            Kernel { name: field(event, "name").chars().take(63).collect(), op: field(event, "op"), us }
        })
        .collect();

    // The same nodes, in the same order.
    let names = |kernels: &[Kernel]| -> Vec<(String, String)> {
        kernels.iter().map(|k| (k.name.chars().take(63).collect(), k.op.clone())).collect()
    };
    assert_eq!(names(&ours), names(&theirs));
    assert!(ours.len() >= 20 * RUNS, "{} kernels", ours.len());

    // Each in a run of the engine, of which there are as many.
    let steps = recorded(&trace, "run");
    assert_eq!((steps.len(), profile["runs"].as_array().unwrap().len()), (RUNS, RUNS));
    let total = |kernels: &[Kernel]| kernels.iter().map(|k| k.us).sum::<f64>();
    let step_us: f64 = steps.iter().map(|step| step["duration_ns"].as_f64().unwrap() / 1000.0).sum();
    assert!(step_us >= total(&ours) * 0.9, "runs take {step_us} µs, their kernels {}", total(&ours));

    // The same times, but for what each of both adds: the middle of 20 runs, for most nodes.
    let (ours, theirs) = (medians(&ours), medians(&theirs));
    let theirs: BTreeMap<String, f64> =
        theirs.into_iter().map(|(name, us)| (name.chars().take(63).collect(), us)).collect();
    let beside = median(ours.iter().map(|(name, us)| theirs[*name] - us).collect());
    assert!((-2.0..MOST_BESIDE).contains(&beside), "{beside} µs a node are in theirs, and not in ours");
    let near = |(name, us): &(&&str, &f64)| (theirs[**name] - beside - **us).abs() <= (0.05 * theirs[**name]).max(4.0);
    let share = ours.iter().filter(near).count() as f64 / ours.len() as f64;
    assert!(share >= 0.6, "{share} of the nodes have the engine's times: {ours:?} {theirs:?}");
}
