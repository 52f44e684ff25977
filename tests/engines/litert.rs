//! LiteRT as its users install it, with a small network of random weights: what is recorded of each invocation is what
//! the interpreter itself says of its nodes, in the same order, with types, names and shapes; and where the XNNPACK
//! delegate has taken them, that delegate's operators. This needs root.

use crate::invocation::{lines, profinfer, succeeds};
use crate::packages::{installed, packaged, python_with, replaced_bytes, scripts};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

const RUNS: usize = 4;
/// What the model has, in its order, as XNNPACK calls it.
const MODEL: [&str; 8] = [
    "Convolution (NHWC, F32)",
    "Convolution (NHWC, F32)",
    "Sigmoid (NC)",
    "Multiply (ND)",
    "Add (ND)",
    "Average Pooling (NHWC, F32)",
    "Fully Connected (NC, F32)",
    "Softmax (NC, F32)",
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

/// The delegate's operators that compute: their types and shapes. What is only moved has no counterpart in the model.
fn computed<'e>(operators: impl IntoIterator<Item = &'e Value>) -> Vec<(&'e str, &'e Value)> {
    let fields = operators.into_iter().map(|operator| &operator["fields"]);
    let all = fields.map(|fields| (fields["op"].as_str().unwrap(), &fields["shape"]));
    all.filter(|(op, _)| !op.starts_with("Copy")).collect()
}

/// The shapes of the interpreter's nodes, where it computes itself, but for those that only reshape.
fn shapes_of_nodes() -> Vec<Value> {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let mut run = Command::new(python());
    run.arg(scripts().join("run_litert.py")).arg(path("small.tflite"));
    succeeds(run.args(["--make", "--runs", "1", "--kernels", "--operators", &path("reported")]));
    let mut nodes = lines(&std::fs::read(path("reported")).unwrap());
    nodes.retain(|node| node["type"] != "RESHAPE");
    nodes.into_iter().map(|node| node["shape"].clone()).collect()
}

/// Each operator that computes has the type and the shape of its node.
fn assert_model<'e>(operators: impl IntoIterator<Item = &'e Value>, model: &[&str], shapes: &[Value]) {
    let seen = computed(operators);
    assert_eq!(seen, model.iter().copied().zip(shapes).collect::<Vec<_>>());
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
    let shapes = shapes_of_nodes();
    for operators in &recorded.steps {
        let (nodes, inner): (Vec<_>, Vec<_>) = operators.iter().partition(|operator| operator["probe"] == "node");
        assert_eq!(nodes.len(), 1, "{nodes:#?}");
        assert_eq!(nodes[0]["fields"]["op"], "DELEGATE");
        assert_eq!(nodes[0]["fields"]["name"], reported["name"]);
        assert_eq!(nodes[0]["fields"]["shape"], reported["shape"]);
        // Each reads what another one, or the graph, has made, and weights.
        let made: Vec<&Value> = inner.iter().map(|operator| &operator["fields"]["writes"][0]).collect();
        let of_address = |input: &Value| {
            let digits = input.as_str().unwrap().trim_start_matches("0x");
            made.contains(&&Value::from(u64::from_str_radix(digits, 16).unwrap()))
        };
        let edges = inner.iter().flat_map(|operator| operator["fields"]["inputs"].as_array().unwrap());
        assert_eq!(
            edges.filter(|input| of_address(input)).count(),
            inner.len() + 1,
            "a multiplication and a sum read two"
        );
        assert_model(inner, &MODEL, &shapes);
    }
}

/// The library of a Python's wheel.
fn library(python: &Path) -> PathBuf {
    packaged(python, "ai_edge_litert", "libpywrap_litert_common", ".so")
}

/// What `check` has of XNNPACK: which attach point was taken, and messages about what is absent.
fn of_the_delegate(target: &Path) -> (u64, String) {
    let mut command = profinfer(&["check", "litert", "--json", "--target", &target.display().to_string()]);
    let check: Value = serde_json::from_slice(&succeeds(&mut command).stdout).unwrap();
    let sites = check["sites"].as_array().unwrap();
    let site = sites.iter().find(|site| site["probes"][0] == "xnnpack").unwrap();
    (site["alternative"].as_u64().unwrap(), check["problems"].to_string())
}

#[test]
#[ignore = "needs root"]
fn of_a_version_with_other_code_what_that_code_shows_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let library = library(python());
    let (alternative, absent) = of_the_delegate(&library);
    assert!(alternative == 0 && !absent.contains("xnn_"), "{absent}");
    // `mov eax, [rax+88]`, beside which the function is; `mov edx, [rdi+144]`, the type of a value.
    let other = folder.path().join("libpywrap_litert_common.so");
    let reads_at = |offset| [0x8b, 0x40, offset, 0x83, 0xc0, 0xe7, 0x83, 0xf8];
    replaced_bytes(&library, &reads_at(0x58), &reads_at(0x60), &other);
    let (alternative, absent) = of_the_delegate(&other);
    assert!(alternative == 1 && !absent.contains("xnn_value"), "it is read as one without a function: {absent}");
    let reads_at = |offset| [0x48, 0x8b, 0x47, 0x08, 0x8b, 0x97, offset, 0, 0, 0];
    replaced_bytes(&library, &reads_at(0x90), &reads_at(0x98), &other);
    let (alternative, absent) = of_the_delegate(&other);
    assert!(alternative == 0 && absent.contains("xnn_value"), "{absent}");
}

#[test]
#[ignore = "needs root"]
fn older_versions_have_the_same_operators_by_other_numbers() {
    let shapes = shapes_of_nodes();
    let without_functions = MODEL.map(|op| match op {
        "Sigmoid (NC)" => "Unary Elementwise (NC)",
        "Multiply (ND)" | "Add (ND)" => "Binary Elementwise (ND)",
        op => op,
    });
    for (version, model) in [("2.2.0", MODEL), ("1.4.0", MODEL), ("1.2.0", without_functions)] {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let python = python_with(&["litert", &format!("ai-edge-litert=={version}"), "numpy==2.4.6"]);
        let mut make = Command::new(self::python());
        succeeds(make.arg(scripts().join("run_litert.py")).arg(path("small.tflite")).args(["--make", "--runs", "1"]));
        let trace = path("run.pfi");
        let mut record = profinfer(&["record", "litert", "-o", &trace, "--"]);
        record.arg(python).arg(scripts().join("run_litert.py")).arg(path("small.tflite"));
        succeeds(record.args(["--runs", &RUNS.to_string()]));
        let mut events = lines(&succeeds(&mut profinfer(&["dump", &trace])).stdout);
        events.retain(|event| event["probe"] == "xnnpack");
        events.sort_by_key(|event| event["start_ns"].as_u64().unwrap());
        let shapes: Vec<Value> = (0..RUNS).flat_map(|_| shapes.clone()).collect();
        assert_model(&events, &model.repeat(RUNS), &shapes);
    }
}
