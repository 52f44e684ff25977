//! Costs of operators of engines beside ggml's, compared with those that follow from how their models are made, and what
//! limits products that are made to be limited by memory or by arithmetic. Needs root (or CAP_BPF and CAP_PERFMON), and
//! PyPI the first time.

use crate::engine::{alone, cache_bytes, with_limits};
use crate::invocation::{json, profinfer, succeeds};
use crate::packages::{installed_version, scripts};
use crate::{find, rows};
use serde_json::Value;
use std::path::Path;

const RUNS: usize = 6;
const PRODUCTS: [&str; 2] = ["row", "square"];

/// Records a script that writes down what its operators cost: the trace's path, and the costs by name.
fn recorded(probeset: &str, install: &str, build: &str, script: &[&str], folder: &Path) -> (String, Value) {
    let trace = folder.join("run.pfi").display().to_string();
    // Without what a script starts besides, such as a converter.
    let mut command = profinfer(&["record", probeset, "--no-inherit", "-o", &trace, "--"]);
    command.arg(installed_version(install, build)).arg(scripts().join(script[0])).args(&script[1..]);
    succeeds(command.arg(folder).arg(RUNS.to_string()));
    let text = std::fs::read_to_string(folder.join("costs.json")).unwrap();
    (trace, serde_json::from_str(&text).unwrap())
}

/// Operations and bytes of an operator with those of all that it calls.
fn whole_cost(operators: &Value, operator: &Value) -> (f64, f64) {
    let number = |row: &Value, field: &str| row[field].as_f64();
    let span = |row: &Value| {
        let start = row["start_ns"].as_u64().unwrap();
        (start, start + row["duration_ns"].as_u64().unwrap())
    };
    assert!(number(operator, "flops").is_some() && number(operator, "bytes").is_some(), "no cost: {operator:#}");
    let (start, end) = span(operator);
    let within = rows(operators).filter(|row| start <= span(row).0 && span(row).1 <= end);
    let cost = |row: &Value| (number(row, "flops").unwrap_or(0.0), number(row, "bytes").unwrap_or(0.0));
    within.map(cost).fold((0.0, 0.0), |sum, of| (sum.0 + of.0, sum.1 + of.1))
}

/// Every operator of every step costs what its extents say, and a step has the operations of all of them, none twice.
/// Operators without names are found by their types.
fn assert_costs(trace: &str, known: &Value) {
    let costs = known["costs"].as_object().unwrap();
    let of_all: f64 = costs.values().map(|cost| cost["flops"].as_f64().unwrap()).sum();
    assert_eq!(json(&["report", trace, "--json"])["completeness"]["steps"], RUNS);
    for step in 1..=RUNS {
        let report = json(&["report", trace, "--step", &step.to_string(), "--json"]);
        let operators = &report["step"]["operators"];
        for (name, cost) in costs {
            let key = if cost["op"] == *name { "op" } else { "name" };
            let reported = find(operators, key, name);
            assert_eq!(reported["op"], cost["op"], "{reported:#}");
            let expected = (cost["flops"].as_f64().unwrap(), cost["bytes"].as_f64().unwrap());
            assert_eq!(whole_cost(operators, reported), expected, "step {step}: {reported:#}");
        }
        let sum: f64 = rows(operators).filter_map(|row| row["flops"].as_f64()).sum();
        assert_eq!(sum, of_all, "step {step}");
    }
}

/// What limits an operator, of the time in which nothing kept it from running.
fn assert_limited(verdict: &Value, name: &str, bound: &str) {
    let row = find(&verdict["operators"], "name", name);
    let part = |of: &str| row["parts"][of].as_f64().unwrap();
    // Where the state of its thread is not known, nothing is.
    assert!(part("unknown") < 0.1, "{row:#}");
    let left = 1.0 - part("starved") - part("disk") - part("unknown");
    assert!(part(bound) > 0.7 * left, "{name} {bound}? {row:#}");
}

/// A product of one row, and one of matrices.
fn assert_products(trace: &str, known: &Value, [of_row, of_square]: [&str; 2]) {
    let verdict = json(&["report", trace, "--json"])["verdict"].clone();
    let row = find(&verdict["operators"], "name", of_row);
    // Servers have caches of 480 MiB: the weights come out of these, not out of memory, and the report says so.
    let fits = known["costs"][of_row]["bytes"].as_f64().unwrap() < cache_bytes() as f64;
    if !fits || !row["why"].as_str().unwrap().contains("its data fits the caches") {
        assert_limited(&verdict, of_row, "memory");
    }
    assert_limited(&verdict, of_square, "compute");
    assert!(!verdict["phases"].to_string().contains("no cost"), "{verdict:#}");
}

/// On the interpreter's own kernels.
#[test]
#[ignore = "needs root"]
fn costs_of_litert_are_those_of_its_model() {
    assert_limits("litert", ("litert", "newest"), PRODUCTS);
}

/// On those of its default delegate: the same operations and bytes, by operators without names. The reshapes that the
/// delegate makes of a product's input are copies.
#[test]
#[ignore = "needs root"]
fn costs_of_a_delegates_operators_are_those_of_the_model() {
    let folder = tempfile::tempdir().unwrap();
    let script = ["run_litert_costs.py", "--delegate"];
    let (trace, written) = recorded("litert", "install_litert.sh", "newest", &script, folder.path());
    let of = |cost: &Value| [cost["flops"].as_f64().unwrap(), cost["bytes"].as_f64().unwrap()].map(|of| of as u64);
    let mut model: Vec<[u64; 2]> = written["costs"].as_object().unwrap().values().map(of).collect();
    model.sort_unstable();
    for step in 1..=RUNS {
        let report = json(&["report", &trace, "--step", &step.to_string(), "--json"]);
        let operators = report["step"]["operators"].as_array().unwrap();
        let mut seen: Vec<[u64; 2]> = operators.iter().map(of).filter(|[flops, _]| *flops > 0).collect();
        seen.sort_unstable();
        assert_eq!(seen, model, "step {step}");
    }
}

#[test]
#[ignore = "needs root"]
fn costs_of_torch_are_those_of_its_tensors() {
    assert_limits("pytorch", ("torch", "2.15.0"), ["addmm", "mm"]);
}

#[test]
#[ignore = "needs root"]
fn costs_of_mnn_are_those_of_its_model() {
    assert_limits("mnn", ("mnn", "newest"), ["row", "full"]);
}

/// Extractors in Python are made before the last one is gone: a run ends with its last layer.
#[test]
#[ignore = "needs root"]
fn costs_of_ncnn_are_those_of_its_net() {
    assert_limits("ncnn", ("ncnn", "newest"), ["row", "full"]);
}

#[test]
#[ignore = "needs root"]
fn costs_of_an_older_ncnn_are_those_of_its_net() {
    assert_limits("ncnn", ("ncnn", "older"), ["row", "full"]);
}

/// Of a build of an engine, whose version begins so.
fn assert_known(engine: &str, build: &str, version: &str) {
    let known = assert_limits(engine, (engine, build), PRODUCTS);
    assert!(known["version"].as_str().unwrap().starts_with(version), "{}", known["version"]);
}

/// Gives what the script wrote down. The products are one of a row and one of matrices.
fn assert_limits(probeset: &str, (package, build): (&str, &str), products: [&str; 2]) -> Value {
    let _alone = alone();
    with_limits();
    let folder = tempfile::tempdir().unwrap();
    let (install, script) = (format!("install_{package}.sh"), format!("run_{package}_costs.py"));
    let (trace, known) = recorded(probeset, &install, build, &[&script], folder.path());
    assert_costs(&trace, &known);
    assert_products(&trace, &known, products);
    known
}

#[test]
#[ignore = "needs root"]
fn costs_of_openvino_are_those_of_its_model() {
    assert_known("openvino", "newest", "2026.4.1");
}

/// With weights that the engine has packed.
#[test]
#[ignore = "needs root"]
fn costs_of_onnxruntime_are_those_of_its_model() {
    assert_known("onnxruntime", "newest", "1.31");
}

#[test]
#[ignore = "needs root"]
fn costs_of_an_older_onnxruntime_are_those_of_its_model() {
    assert_known("onnxruntime", "older", "1.20");
}

/// With members at other offsets.
#[test]
#[ignore = "needs root"]
fn costs_of_an_older_openvino_are_those_of_its_model() {
    assert_known("openvino", "older", "2025.3.0");
}
