//! LiteRT as its users install it, with a small network of random weights: what is recorded of each invocation is what
//! the interpreter itself says of its nodes, in the same order, with types, names and shapes; and where the XNNPACK
//! delegate has taken them, that delegate's operators. This needs root.

use crate::invocation::{lines, profinfer, succeeds};
use crate::packages::{installed, packaged, python_with, scripts};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

const RUNS: usize = 4;
/// What the model has, in its order.
const MODEL: [&str; 8] = [
    "convolution_nhwc_f32",
    "convolution_nhwc_f32",
    "sigmoid_nc",
    "multiply_nd",
    "add_nd",
    "average_pooling_nhwc_f32",
    "fully_connected_nc_f32",
    "softmax_nc_f32",
];

/// A Python that has LiteRT.
fn python() -> &'static Path {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    PYTHON.get_or_init(|| installed("install_litert.sh"))
}

/// What was recorded of each invocation, and what the interpreter says of its nodes.
struct Recorded {
    /// The records of each step, by start.
    steps: Vec<Vec<Value>>,
    reported: Vec<Value>,
    output: Output,
}

impl Recorded {
    /// A run of the model with these arguments, with the probeset that is named, or the one that is found.
    fn of(extra: &[&str], probeset: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let run = |more: &[&str]| {
            let mut words = vec![scripts().join("run_litert.py").display().to_string(), path("small.tflite")];
            words.extend(["--make".to_owned(), "--runs".to_owned(), RUNS.to_string()]);
            words.extend(extra.iter().chain(more).map(|word| (*word).to_owned()));
            words
        };
        succeeds(Command::new(python()).args(run(&["--operators", &path("reported")])));
        let reported = lines(&std::fs::read(path("reported")).unwrap());
        assert!(reported.len() > 8, "{reported:?}");
        let trace = path("run.pfi");
        let mut record = profinfer(&["record"]);
        record.args(probeset).args(["-o", &trace, "--"]);
        let output = succeeds(record.arg(python()).args(run(&[])));
        let mut events = lines(&succeeds(&mut profinfer(&["dump", &trace])).stdout);
        events.retain(|event| event["probe"].is_string());
        // Where several probesets were looked for, names have the engine's before them.
        for event in &mut events {
            let name = event["probe"].as_str().unwrap();
            let plain = name.strip_prefix("litert__").unwrap_or(name).to_owned();
            event["probe"] = Value::String(plain);
        }
        let start = |event: &Value| event["start_ns"].as_u64().unwrap();
        let end = |event: &Value| start(event) + event["duration_ns"].as_u64().unwrap();
        events.sort_by_key(start);
        let steps: Vec<_> = events.iter().filter(|event| event["probe"] == "invoke").collect();
        let within = |step: &Value, event: &&Value| {
            (start(step)..end(step)).contains(&start(event)) && event["role"] == "operator"
        };
        let steps = steps.iter().map(|step| events.iter().filter(|event| within(step, event)).cloned().collect());
        Self { steps: steps.collect(), reported, output }
    }
}

/// What a delegate's operators compute; what is only moved has no counterpart in the model.
fn computed<'e>(operators: impl IntoIterator<Item = &'e Value>) -> Vec<&'e str> {
    let ops = operators.into_iter().map(|operator| operator["fields"]["op"].as_str().unwrap());
    ops.filter(|op| !op.starts_with("copy_")).collect()
}

#[test]
#[ignore = "needs root"]
fn kernels_are_the_nodes_that_the_interpreter_names() {
    let recorded = Recorded::of(&["--kernels"], &["litert"]);
    assert_eq!(recorded.steps.len(), RUNS);
    for operators in &recorded.steps {
        let mut seen: Vec<Value> = operators.iter().map(|operator| operator["fields"].clone()).collect();
        // Addresses, which the interpreter does not say.
        for name in ["inputs", "writes"] {
            seen.iter_mut().for_each(|fields| drop(fields.as_object_mut().unwrap().remove(name)));
        }
        let reported = |reported: &Value| {
            serde_json::json!({
                "op": reported["type"], "name": reported["name"], "dtype": reported["dtype"], "shape": reported["shape"],
            })
        };
        assert_eq!(seen, recorded.reported.iter().map(reported).collect::<Vec<_>>());
    }
}

#[test]
#[ignore = "needs root"]
fn a_delegates_operators_are_within_its_node_and_the_probeset_is_found() {
    let recorded = Recorded::of(&[], &[]);
    let printed = String::from_utf8_lossy(&recorded.output.stderr).into_owned();
    assert!(printed.contains("litert"), "it says which probeset it took: {printed}");
    let reported = recorded.reported.last().unwrap();
    assert_eq!(reported["type"], "DELEGATE", "XNNPACK has taken the model");
    assert_eq!(recorded.steps.len(), RUNS);
    for operators in &recorded.steps {
        let (nodes, inner): (Vec<_>, Vec<_>) = operators.iter().partition(|operator| operator["probe"] == "node");
        assert_eq!(nodes.len(), 1, "{nodes:#?}");
        assert_eq!(nodes[0]["fields"]["op"], "DELEGATE");
        assert_eq!(nodes[0]["fields"]["name"], reported["name"]);
        assert_eq!(nodes[0]["fields"]["shape"], reported["shape"]);
        assert_eq!(computed(inner), MODEL);
    }
}

/// A Python that has the version before, in which XNNPACK's operators have other numbers.
fn python_before() -> PathBuf {
    python_with(&["litert", "ai-edge-litert==2.2.0", "numpy==2.4.6"])
}

/// The library of a Python's wheel.
fn library(python: &Path) -> PathBuf {
    packaged(python, "ai_edge_litert", "libpywrap_litert_common", ".so")
}

/// The probes of XNNPACK's operators that a target has, and those that are left out, with why.
fn of_the_delegate(target: &Path) -> (Vec<String>, Vec<(String, String)>) {
    let mut command = profinfer(&["check", "litert", "--json", "--target", &target.display().to_string()]);
    let check: Value = serde_json::from_slice(&succeeds(&mut command).stdout).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let is_its = |probe: &str| probe.starts_with("xnnpack");
    let mut placed: Vec<String> =
        check["sites"].as_array().unwrap().iter().map(|site| text(&site["probes"][0])).collect();
    placed.retain(|probe| is_its(probe));
    let missing = check["missing"].as_array().unwrap().iter();
    let mut missing: Vec<(String, String)> =
        missing.map(|missing| (text(&missing["probe"]), text(&missing["why"]))).collect();
    missing.retain(|(probe, _)| is_its(probe));
    (placed, missing)
}

#[test]
#[ignore = "needs root"]
fn a_version_whose_operators_nobody_has_looked_at_is_not_guessed() {
    let left_out = |view: &str| format!("no layout of {view} is this target's");
    let (new, old) = ("xnnpack".to_owned(), "xnnpack_2_2".to_owned());
    let before = python_before();
    let (placed, missing) = of_the_delegate(&library(python()));
    assert_eq!((placed, missing), (vec![new.clone()], vec![(old.clone(), left_out("xnn_operator_2_2"))]));
    let (placed, missing) = of_the_delegate(&library(&before));
    assert_eq!((placed, missing), (vec![old.clone()], vec![(new.clone(), left_out("xnn_operator"))]));
    // The same library with one type of operator more.
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = std::fs::read(library(python())).unwrap();
    let compare = [0x83, 0xff, 0x7f, 0x74, 0x1a, 0x83, 0xff, 0x0e];
    let at = bytes.windows(compare.len()).position(|window| window == compare).unwrap();
    bytes[at + 2] = 0x7e;
    let other = folder.path().join("libpywrap_litert_common.so");
    std::fs::write(&other, bytes).unwrap();
    let (placed, missing) = of_the_delegate(&other);
    assert!(placed.is_empty(), "{placed:?}");
    assert_eq!(missing, [(new, left_out("xnn_operator")), (old, left_out("xnn_operator_2_2"))]);
}

#[test]
#[ignore = "needs root"]
fn the_version_before_has_the_same_operators_by_other_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let trace = path("run.pfi");
    let mut record = profinfer(&["record", "litert", "-o", &trace, "--"]);
    record.arg(python_before()).arg(scripts().join("run_litert.py")).arg(path("small.tflite"));
    succeeds(record.args(["--make", "--runs", &RUNS.to_string()]));
    let mut events = lines(&succeeds(&mut profinfer(&["dump", &trace])).stdout);
    events.retain(|event| event["probe"].as_str().is_some_and(|probe| probe.starts_with("xnnpack")));
    events.sort_by_key(|event| event["start_ns"].as_u64().unwrap());
    assert_eq!(computed(&events), MODEL.repeat(RUNS));
}
