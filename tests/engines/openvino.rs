//! OpenVINO as its users install it: the nodes that are recorded are those of its own profile, with names, types and the
//! shapes of the model. Needs root (or CAP_BPF and CAP_PERFMON), and PyPI the first time.

use crate::invocation::{json, lines, profinfer, succeeds};
use crate::packages::{installed_version, scripts};
use serde_json::Value;

const RUNS: usize = 4;

fn assert_recorded(build: &str, version: &str, words: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("run.pfi").display().to_string();
    let mut command = profinfer(&["record", "openvino", "-o", &trace, "--"]);
    command.arg(installed_version("install_openvino.sh", build)).arg(scripts().join("run_openvino.py"));
    succeeds(command.arg(folder.path()).arg(RUNS.to_string()).arg("1").args(words));
    let profile: Value =
        serde_json::from_str(&std::fs::read_to_string(folder.path().join("profile.json")).unwrap()).unwrap();
    assert!(profile["version"].as_str().unwrap().starts_with(version), "{}", profile["version"]);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let theirs: Vec<(String, String)> =
        profile["nodes"].as_array().unwrap().iter().map(|node| (text(&node["name"]), text(&node["type"]))).collect();
    assert!(theirs.len() >= 8, "{theirs:?}");

    let mut events = lines(&succeeds(profinfer(&["dump"]).arg(&trace)).stdout);
    events.sort_by_key(|event| event["start_ns"].as_u64());
    let steps: Vec<(u64, u64)> = events
        .iter()
        .filter(|event| event["probe"] == "infer")
        .map(|event| (event["start_ns"].as_u64().unwrap(), event["duration_ns"].as_u64().unwrap()))
        .collect();
    assert_eq!(steps.len(), RUNS);
    for (start, duration) in steps {
        let within = |event: &&Value| {
            event["probe"] == "node" && (start..start + duration).contains(&event["start_ns"].as_u64().unwrap())
        };
        let nodes: Vec<&Value> = events.iter().filter(within).collect();
        let ours: Vec<(String, String)> =
            nodes.iter().map(|node| (text(&node["fields"]["name"]), text(&node["fields"]["op"]))).collect();
        assert_eq!(ours, theirs, "{version} {words:?}");
        // The probeset reads shapes that are stated.
        if words.contains(&"dynamic") {
            continue;
        }
        let shape = |name: &str| {
            let node = nodes.iter().find(|node| node["fields"]["name"] == name).unwrap();
            node["fields"]["shape"].clone()
        };
        assert_eq!(shape("stem"), serde_json::json!([1, 16, 32, 32]));
        assert_eq!(shape("residual"), serde_json::json!([1, 16, 32, 32]));
        assert_eq!(shape("pool"), serde_json::json!([1, 16, 16, 16]));
        assert_eq!(shape("scores"), serde_json::json!([1, 10]));
    }
    let report = json(&["report", &trace, "--json"]);
    assert_eq!(report["completeness"]["complete"], true, "{}", report["completeness"]);
}

#[test]
#[ignore = "needs root"]
fn nodes_of_openvino_are_those_of_its_own_profile() {
    assert_recorded("newest", "2026.4.1", &["asynchronous"]);
}

/// The same probeset on a release of a year before, which has old C++ strings and another layout.
#[test]
#[ignore = "needs root"]
fn nodes_of_an_older_openvino_are_those_of_its_own_profile() {
    assert_recorded("older", "2025.3.0", &["asynchronous"]);
}

/// Where shapes are not stated, nodes are executed by another method, which may call the one for stated shapes, or not.
#[test]
#[ignore = "needs root"]
fn nodes_with_dynamic_shapes_are_those_of_the_engine_s_own_profile() {
    assert_recorded("newest", "2026.4.1", &["dynamic"]);
    assert_recorded("older", "2025.3.0", &["dynamic"]);
}

/// A probeset that has several slots for the method and none as the right one finds the one that the shipped one records.
fn assert_slot_is_found(build: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let text = succeeds(&mut profinfer(&["engines", "openvino", "--print"]));
    let text = String::from_utf8(text.stdout).unwrap();
    let (before, rest) = text.split_once("ov::intel_cpu::Node[").unwrap();
    let (_, after) = rest.split_once("](").unwrap();
    let of_slots = |slots: &str| format!("{before}ov::intel_cpu::Node[{slots}]({after}");
    std::fs::write(path("open.yaml"), of_slots("39|40|41|42|43")).unwrap();
    std::fs::write(path("known.yaml"), of_slots("42")).unwrap();
    let nodes = |probeset: &str| {
        let (spec, trace) = (path(&format!("{probeset}.yaml")), path(&format!("{probeset}.pfi")));
        let mut command = profinfer(&["record", &spec, "-o", &trace, "--"]);
        command.arg(installed_version("install_openvino.sh", build)).arg(scripts().join("run_openvino.py"));
        succeeds(command.arg(folder.path()).arg(RUNS.to_string()).env("PROFINFER_CACHE", path("cache")));
        let mut nodes = lines(&succeeds(profinfer(&["dump"]).arg(&trace)).stdout);
        nodes.retain(|event| event["probe"] == "node");
        nodes.sort_by_key(|event| event["start_ns"].as_u64());
        let report = json(&["report", &trace, "--json"]);
        assert_eq!(report["completeness"]["complete"], true, "{}", report["completeness"]);
        let name = |field: &str, node: &Value| node["fields"][field].as_str().unwrap_or_default().to_owned();
        nodes.iter().map(|node| (name("name", node), name("kernel", node))).collect::<Vec<_>>()
    };
    let (open, known) = (nodes("open"), nodes("known"));
    assert!(known.len() >= 8 * RUNS, "{known:?}");
    assert_eq!(open, known);
}

#[test]
#[ignore = "needs root"]
fn the_slot_that_executes_nodes_is_found_in_both_releases() {
    assert_slot_is_found("newest");
    assert_slot_is_found("older");
}
