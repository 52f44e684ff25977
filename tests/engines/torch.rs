//! PyTorch: the operators that are recorded are those of its own profiler, in order, and steps are the model's runs. Needs
//! root (or CAP_BPF and CAP_PERFMON), and PyPI the first time.

use crate::invocation::{json, lines, profinfer, succeeds};
use crate::packages::{installed, scripts};
use serde_json::{Value, json};

const RUNS: usize = 5;

#[test]
#[ignore = "needs root"]
fn operators_of_torch_are_those_of_its_own_profiler() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("run.pfi").display().to_string();
    let mut command = profinfer(&["record", "pytorch", "-o", &trace, "--"]);
    command.arg(installed("install_torch.sh")).arg(scripts().join("run_torch.py"));
    succeeds(command.arg(folder.path()).arg(RUNS.to_string()));
    let profile: Value =
        serde_json::from_str(&std::fs::read_to_string(folder.path().join("profile.json")).unwrap()).unwrap();
    let theirs: Vec<&str> =
        profile["operators"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    assert!(theirs.len() > 200, "{theirs:?}");

    let mut events = lines(&succeeds(profinfer(&["dump"]).arg(&trace)).stdout);
    events.retain(|event| event["fields"]["op"].is_string());
    events.sort_by_key(|event| (event["start_ns"].as_u64(), std::cmp::Reverse(event["duration_ns"].as_u64())));
    let op = |event: &Value| event["fields"]["op"].as_str().unwrap().to_owned();
    let first: Vec<usize> = (0..events.len()).filter(|at| op(&events[*at]) == "conv2d").collect();
    assert_eq!(first.len(), RUNS + 1, "one convolution a run");
    for pair in first.windows(2) {
        let run = &events[pair[0]..pair[1]];
        let last = run.iter().rposition(|event| op(event) == "stack").unwrap();
        let until = run[last]["start_ns"].as_u64().unwrap() + run[last]["duration_ns"].as_u64().unwrap();
        let run: Vec<&Value> = run.iter().filter(|event| event["start_ns"].as_u64().unwrap() < until).collect();
        let ours: Vec<&str> = run.iter().map(|event| profile["names"][op(event)].as_str().unwrap()).collect();
        assert_eq!(ours, theirs);
        let of = |name: &str| run.iter().find(|event| op(event) == name).unwrap()["fields"].clone();
        assert_eq!(of("conv2d")["shape"], json!([1, 8, 24, 24]));
        assert_eq!(of("conv2d")["dtype"], "Float");
        assert_eq!(of("linear")["shape"], json!([1, 576, 64]));

        // Six extents, which a tensor does not have in place.

        let six = run.iter().rev().find(|event| op(event) == "contiguous").unwrap();
        assert_eq!(six["fields"]["shape"], json!([1, 12, 12, 2, 2, 64]));
        // Several results, and a list: no shape.
        assert_eq!((&of("topk")["shape"], &of("split_Tensor")["shape"]), (&Value::Null, &Value::Null));
        assert_eq!(of("stack")["shape"], json!([5, 1]));
    }
    let report = json(&["report", &trace, "--json"]);
    let notes = report["completeness"]["notes"].to_string();
    assert!(notes.contains("found by operators that recur"), "{notes}");
    assert_eq!(report["completeness"]["complete"], true, "{}", report["completeness"]);
    let steps = report["completeness"]["steps"].as_u64().unwrap() as usize;
    assert!((RUNS..=RUNS + 1).contains(&steps), "{report}");
}

/// Two buffers for inputs are used in turn: each run is one, and not every two.
#[test]
#[ignore = "needs root"]
fn runs_with_inputs_in_turn_are_as_many_as_the_program_makes() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("in_turn.py");
    std::fs::write(
        &script,
        r"
import torch

torch.set_num_threads(1)
layers, inputs = [torch.nn.Linear(32, 32) for _ in range(3)], [torch.randn(1, 32), torch.randn(1, 32)]
with torch.inference_mode():
    for run in range(41):
        x = torch.tanh(inputs[run % 2] * 2)
        for layer in layers:
            x = torch.relu(layer(x))
        torch.softmax(x, 1).sum()
",
    )
    .unwrap();
    let trace = folder.path().join("run.pfi").display().to_string();
    let mut command = profinfer(&["record", "pytorch", "-o", &trace, "--"]);
    succeeds(command.arg(installed("install_torch.sh")).arg(script));
    let report = json(&["report", &trace, "--json"]);
    assert_eq!(report["completeness"]["steps"], 41, "{}", report["completeness"]);
}
