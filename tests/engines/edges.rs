//! The graph of engines whose operators say which addresses they read and write: each operator reads what the engine's own
//! account of the model says. Needs root (or CAP_BPF and CAP_PERFMON), and PyPI the first time.

use crate::invocation::{json, lines, profinfer, succeeds};
use crate::packages::{installed, installed_version, scripts};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// What each operator reads, by name: operators by theirs, data by its kind.
type Edges = BTreeMap<String, BTreeSet<String>>;

/// The mean step's graph, those of its operators that `wanted` holds for.
fn recorded(trace: &Path, wanted: impl Fn(&str) -> bool) -> Edges {
    let graph: Value = json(&["graph", "--format", "json", "--unfold", trace.to_str().unwrap()]);
    let nodes = graph["nodes"].as_array().unwrap();
    let text = |node: &Value, key: &str| node[key].as_str().unwrap().to_owned();
    let by_id: BTreeMap<&str, &Value> = nodes.iter().map(|node| (node["id"].as_str().unwrap(), node)).collect();
    let is_wanted = |node: &&Value| node["kind"] == "operator" && wanted(&text(node, "name"));
    let mut edges: Edges = nodes.iter().filter(is_wanted).map(|node| (text(node, "name"), BTreeSet::new())).collect();
    for edge in graph["edges"].as_array().unwrap() {
        let [from, to] = ["from", "to"].map(|end| by_id[edge[end].as_str().unwrap()]);
        let Some(reads) = edges.get_mut(&text(to, "name")) else { continue };
        reads.insert(text(from, if from["kind"] == "operator" { "name" } else { "kind" }));
    }
    edges
}

/// Records one build of an engine, whose script writes a file into its folder: the mean step's graph, and that file.
fn of_build<T: DeserializeOwned>(engine: &str, build: &str, arguments: [&str; 2], file: &str) -> (Edges, T) {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("run.pfi");
    let mut command = profinfer(&["record", engine, "-o"]);
    command.arg(&trace).arg("--").arg(installed_version(&format!("install_{engine}.sh"), build));
    succeeds(command.arg(scripts().join(format!("run_{engine}.py"))).arg(folder.path()).args(arguments));
    let text = std::fs::read(folder.path().join(file)).unwrap();
    (recorded(&trace, |_| true), serde_json::from_slice(&text).unwrap())
}

/// The engine writes the model as it runs it, after its fusions.
fn of_onnxruntime(which: &str) {
    let (recorded, reported): (Edges, BTreeMap<String, Vec<String>>) =
        of_build("onnxruntime", which, ["20", "edges"], "edges.json");
    assert!(recorded.len() > 20, "{recorded:?}");
    assert!(reported["cos"] == ["split"] && reported["sin"] == ["split"], "{reported:?}");
    for (name, reads) in &recorded {
        // Weights that the engine has packed are missing; weights that stay where they are may be inputs.
        let expected: BTreeSet<&str> = reported[name].iter().map(String::as_str).collect();
        let [expected, recorded]: [BTreeSet<&str>; 2] = [expected.clone(), reads.iter().map(String::as_str).collect()]
            .map(|names| names.into_iter().filter(|name| !["weight", "data", "unknown"].contains(name)).collect());
        assert_eq!(recorded, expected, "{name}");
        let is_data = |name: &String| ["data", "unknown"].contains(&name.as_str());
        assert!(!reads.iter().any(is_data) || reported[name].iter().any(|name| name == "weight"), "{name}: {reads:?}");
    }
}

#[test]
#[ignore = "needs root"]
fn kernels_of_onnxruntime_read_what_its_model_says() {
    of_onnxruntime("newest");
}

#[test]
#[ignore = "needs root"]
fn kernels_of_an_older_onnxruntime_read_what_its_model_says() {
    of_onnxruntime("older");
}

/// By the net's file, which lists the blobs of each layer. Layers within others have no names.
#[test]
#[ignore = "needs root"]
fn layers_of_ncnn_read_what_their_net_says() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, net) = (folder.path().join("run.pfi"), folder.path().join("net").display().to_string());
    let python = installed("install_ncnn.sh");
    let script = |what: &str| {
        let mut command = Command::new(&python);
        command.arg(scripts().join("run_ncnn.py")).args([what, &net]);
        command
    };
    succeeds(&mut script("make"));
    let mut record = profinfer(&["record", "ncnn", "-o"]);
    record.arg(&trace).arg("--").arg(&python).arg(scripts().join("run_ncnn.py"));
    succeeds(record.args(["run", &net, "5"]));
    let listed = String::from_utf8(succeeds(&mut script("edges")).stdout).unwrap();
    let of = |line: &str| {
        let mut words = line.split_whitespace().map(|word| if word == "in" { "input" } else { word }.to_owned());
        (words.next().unwrap(), words.collect())
    };
    let mut expected: Edges = listed.lines().map(of).collect();
    expected.remove("input");
    assert_eq!(recorded(&trace, |name| expected.contains_key(name)), expected);
}

/// By the model as it is executed; constants, and what a node passes on that is not executed, are data.
fn of_openvino(build: &str) {
    let (recorded, profile): (Edges, Value) = of_build("openvino", build, ["5", "2"], "profile.json");
    let nodes = profile["nodes"].as_array().unwrap().iter();
    let executed: BTreeSet<&str> = nodes.map(|node| node["name"].as_str().unwrap()).collect();
    let source = |name: &Value| executed.get(name.as_str().unwrap()).map_or("data", |name| name).to_owned();
    let reads = |name: &str| profile["edges"][name].as_array().unwrap().iter().map(source).collect();
    let expected: Edges = executed.iter().map(|name| ((*name).to_owned(), reads(name))).collect();
    assert!(expected["residual1"].len() == 2 && expected.len() > 8, "{expected:?}");
    assert_eq!(recorded, expected);
}

#[test]
#[ignore = "needs root"]
fn nodes_of_openvino_read_what_its_executed_model_says() {
    of_openvino("newest");
}

#[test]
#[ignore = "needs root"]
fn nodes_of_an_older_openvino_read_what_its_executed_model_says() {
    of_openvino("older");
}

/// By the interpreter, which names the tensors of each node.
#[test]
#[ignore = "needs root"]
fn nodes_of_litert_read_what_the_interpreter_says() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let mut record = profinfer(&["record", "litert", "-o", &path("run.pfi"), "--"]);
    record.arg(installed("install_litert.sh")).arg(scripts().join("run_litert.py")).arg(path("small.tflite"));
    succeeds(record.args(["--make", "--kernels", "--runs", "5", "--operators", &path("reported")]));
    let reported = lines(&std::fs::read(path("reported")).unwrap());
    let name = |value: &Value| value.as_str().unwrap().to_owned();
    let results: BTreeSet<String> = reported.iter().map(|node| name(&node["name"])).collect();
    let read = |input: &Value| match name(input) {
        result if results.contains(&result) => result,
        image if image == "image" => "input".to_owned(),
        _ => "weight".to_owned(),
    };
    let reads = |node: &Value| node["inputs"].as_array().unwrap().iter().map(read).collect();
    let expected: Edges = reported.iter().map(|node| (name(&node["name"]), reads(node))).collect();
    assert_eq!(recorded(Path::new(&path("run.pfi")), |_| true), expected);
}
