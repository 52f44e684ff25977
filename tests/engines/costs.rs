//! What operators cost, by the probeset, compared with what follows from the shapes and types that the engine itself
//! says, each written down here anew; and what a machine without counters shows of the metrics.

use crate::engine::{Engine, Workload, alone, python, workload};
use crate::models::record;
use crate::recording::Recording;
use crate::work::{Operator, Step, Tensor};
use crate::{find, rows};
use regex::Regex;
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::Command;

fn elements(tensor: &Tensor) -> f64 {
    tensor.shape.iter().map(|extent| *extent as f64).product()
}

fn element_size(dtype: &str) -> f64 {
    match dtype {
        "f32" | "i32" => 4.0,
        "f16" => 2.0,
        "i64" => 8.0,
        // Blocks of 32 elements: a scale of two bytes and half a byte each.
        "q4_0" => (2.0 + 16.0) / 32.0,
        other => panic!("an element of {other}"),
    }
}

fn size(tensor: &Tensor) -> f64 {
    elements(tensor) * element_size(&tensor.dtype)
}

/// Operations and bytes of an operator for which so many experts were used.
fn cost(operator: &Operator, experts: usize) -> (f64, f64) {
    let (result, inputs) = (&operator.result, &operator.inputs);
    let all: f64 = size(result) + inputs.iter().map(size).sum::<f64>();
    let count = elements(result);
    match result.op.as_str() {
        "MUL_MAT" => (count * 2.0 * inputs[0].shape[0] as f64, all),
        "MUL_MAT_ID" => {
            let matrix = size(&inputs[0]) / inputs[0].shape[2] as f64;
            let others = size(result) + size(&inputs[1]) + size(&inputs[2]);
            (count * 2.0 * inputs[0].shape[0] as f64, matrix * experts as f64 + others)
        }
        "FLASH_ATTN_EXT" => {
            // Each query of each head by each key, and the values by that.
            let keys = inputs[1].shape[1] as f64;
            (2.0 * keys * (elements(&inputs[0]) + count), all)
        }
        "GET_ROWS" => {
            let rows = count / result.shape[0] as f64;
            let row = inputs[0].shape[0] as f64 * element_size(&inputs[0].dtype);
            (0.0, rows * row + size(&inputs[1]) + size(result))
        }
        "SET_ROWS" => {
            let written = elements(&inputs[0]) * element_size(&result.dtype);
            (0.0, size(&inputs[0]) + size(&inputs[1]) + written)
        }
        "CPY" | "CONT" | "DUP" => (0.0, size(&inputs[0]) + size(result)),
        "ARGSORT" => (0.0, all),
        "ADD" | "MUL" | "DIV" | "CLAMP" | "SCALE" => (count, all),
        "SUM_ROWS" => (elements(&inputs[0]), all),
        "GLU" => (2.0 * count, all),
        "RMS_NORM" | "ROPE" => (3.0 * count, all),
        "SOFT_MAX" => (6.0 * count, all),
        other => panic!("what does {other} cost?"),
    }
}

/// Every operator of a step costs what its shapes say. Returns the operations of products with weights.
fn assert_costs(recording: &Recording, truth: &Step, number: usize, bound: bool) -> f64 {
    let step = &recording.report(&["--step", &number.to_string()])["step"];
    let mut parts = truth.operators();
    let mut of_weights = 0.0;
    for reported in rows(&step["operators"]) {
        let fused = reported["covers"].is_string();
        let operator = parts.nth(usize::from(fused)).unwrap();
        let used: BTreeSet<u64> = rows(&reported["experts"]).map(|id| id.as_u64().unwrap()).collect();
        let is_of_experts = operator.result.op == "MUL_MAT_ID";
        let shape = operator.result.shape;
        let most = operator.inputs[0].shape[2].min(shape[1] * shape[2]);
        let experts = if bound { usize::try_from(most).unwrap() } else { used.len() };
        let (mut flops, bytes) = cost(operator, experts);
        if fused {
            // The norm that goes before the product: square, sum, scale.
            assert_eq!(reported["op"], "rms_norm_mul");
            flops += 3.0 * elements(&operator.result);
        }
        let found = (reported["flops"].as_f64(), reported["bytes"].as_f64());
        assert_eq!(found, (Some(flops), Some(bytes)), "step {number}: {reported:#}, {operator:?}");
        assert_eq!(reported["bound"], bound && is_of_experts, "{reported:#}");
        if operator.result.op == "MUL_MAT" && operator.inputs[0].name.ends_with(".weight") {
            assert_eq!(
                flops,
                2.0 * elements(&operator.inputs[0]) * elements(&operator.inputs[1])
                    / operator.inputs[1].shape[0] as f64
            );
            of_weights += flops;
        }
    }
    assert_eq!(parts.next(), None);
    of_weights
}

/// Rates are there; what needs counters is absent and says so.
fn assert_metrics(recording: &Recording) {
    let report = recording.report(&["--by", "op"]);
    let metrics = &report["metrics"]["metrics"];
    for name in ["throughput", "traffic"] {
        assert_eq!(find(metrics, "metric", name)["absent"], Value::Null);
    }
    for name in ["ipc", "stalled", "bandwidth"] {
        let absent = find(metrics, "metric", name)["absent"].as_str().unwrap_or_else(|| panic!("{name} is there"));
        assert!(absent.contains("not recorded") && absent.contains("record --counter "), "{absent}");
    }
    let of = |row: &Value, name: &str| find(&row["metrics"], "metric", name)["value"].as_f64().unwrap();
    for row in rows(&report["operators"]) {
        assert_eq!(row["counts"], serde_json::json!([]));
        let names: Vec<&str> = rows(&row["metrics"]).map(|m| m["metric"].as_str().unwrap()).collect();
        assert_eq!(names, ["throughput", "traffic"], "{row:#}");
        assert!(rows(&row["metrics"]).all(|m| m["of_operators"] == row["count"] && m["of_work"] == 1.0), "{row:#}");
        assert!(of(row, "traffic") > 0.0);
    }
    // Sums before quotients.
    let row = find(&report["operators"], "op", "MUL_MAT");
    let steps = report["completeness"]["steps"].as_u64().unwrap();
    let (mut flops, mut bytes, mut time) = (0.0, 0.0, 0.0);
    for step in 1..=steps {
        let step = recording.report(&["--step", &step.to_string()]);
        for operator in rows(&step["step"]["operators"]).filter(|o| o["op"] == "MUL_MAT") {
            flops += operator["flops"].as_f64().unwrap();
            bytes += operator["bytes"].as_f64().unwrap();
            time += operator["duration_ns"].as_f64().unwrap() / 1e9;
        }
    }
    for (name, expected) in [("throughput", flops / time), ("traffic", bytes / time)] {
        let value = of(row, name);
        assert!((value / expected - 1.0).abs() < 1e-9, "{name}: {value}, {expected}");
    }
}

#[test]
#[ignore = "needs root"]
fn costs_are_those_of_the_engines_shapes() {
    let _alone = alone();
    for engine in [Engine::Shared, Engine::Wheel] {
        for model in ["tiny-dense", "tiny-moe", "tiny-dense-q4_0"] {
            let workload = Workload { tokens: 2, ..workload(model, 1) };
            let truth = engine.truth(&workload, false).steps;
            let recording = record(engine, &workload, &[]);
            recording.assert_complete();
            let of_weights: Vec<f64> =
                (1..=truth.len()).map(|n| assert_costs(&recording, &truth[n - 1], n, false)).collect();
            assert!(of_weights.iter().all(|flops| *flops > 0.0), "{of_weights:?}");
            assert_metrics(&recording);
        }
    }
}

/// What the engine takes for an element of each of its types, by number: `type_size / blck_size`.
const SIZES: &str = "\
import ctypes, sys
engine = ctypes.CDLL(sys.argv[1])
engine.ggml_type_size.restype = ctypes.c_size_t
engine.ggml_blck_size.restype = ctypes.c_int64
for word in sys.argv[2:]:
    print(engine.ggml_type_size(int(word)) / engine.ggml_blck_size(int(word)))
";

/// The names of the engine's operators. `GLU` is the last.
const OPERATORS: &str = "\
import ctypes, itertools, sys
engine = ctypes.CDLL(sys.argv[1])
engine.ggml_op_name.restype = ctypes.c_char_p
for number in itertools.count():
    name = engine.ggml_op_name(number).decode()
    print(name)
    if name == 'GLU':
        break
";

/// Those of training, of programs' own functions, and of few models.
const WITHOUT_A_COST: [&str; 28] = [
    "ACC",
    "ADD_REL_POS",
    "COUNT_EQUAL",
    "CROSS_ENTROPY_LOSS",
    "CROSS_ENTROPY_LOSS_BACK",
    "CUSTOM",
    "DIAG_MASK_ZERO",
    "DSV4_HC_COMB",
    "DSV4_HC_POST",
    "DSV4_HC_PRE",
    "FLASH_ATTN_BACK",
    "GET_REL_POS",
    "GET_ROWS_BACK",
    "IM2COL_BACK",
    "MAP_CUSTOM1",
    "MAP_CUSTOM2",
    "MAP_CUSTOM3",
    "OPT_STEP_ADAMW",
    "OPT_STEP_SGD",
    "POOL_2D_BACK",
    "REPEAT_BACK",
    "RMS_NORM_BACK",
    "ROPE_BACK",
    "SET",
    "SILU_BACK",
    "SOFT_MAX_BACK",
    "WIN_PART",
    "WIN_UNPART",
];

/// One operator without a cost is enough for a device's time not to be shared out in its graph.
#[test]
#[ignore = "needs an engine"]
fn the_engine_s_operators_have_costs() {
    let text = include_str!("../../probesets/ggml.yaml");
    let costs = &text[text.find("\n  costs:").unwrap()..];
    let keys = Regex::new(r"(?m)^    ([A-Z][A-Z0-9_, ]*):").unwrap();
    let costed: BTreeSet<&str> =
        keys.captures_iter(costs).flat_map(|key| key.extract::<1>().1[0].split(", ")).collect();
    let library = Engine::Shared.target().join("libggml-base.so");
    let output = Command::new(python()).args(["-c", OPERATORS]).arg(library).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let names = String::from_utf8(output.stdout).unwrap();
    let without: Vec<&str> = names.lines().filter(|name| !costed.contains(name)).collect();
    let listed: BTreeSet<&str> = WITHOUT_A_COST.into();
    assert!(without.iter().all(|name| listed.contains(name)), "{without:?}");
    assert!(listed.is_disjoint(&costed));
}

#[test]
#[ignore = "needs an engine"]
fn elements_are_as_large_as_the_engine_says() {
    let text = include_str!("../../probesets/ggml.yaml");
    let types = &text[text.find("  ggml_type:").unwrap()..text.find("\ncounters:").unwrap()];
    let numbers = Regex::new(r"(\d+): (\w+)").unwrap();
    let numbers: Vec<(&str, &str)> = numbers.captures_iter(types).map(|found| found.extract().1.into()).collect();
    assert!(numbers.len() > 30);
    let library = Engine::Shared.target().join("libggml-base.so");
    let mut command = Command::new(python());
    let output = command.args(["-c", SIZES]).arg(library).args(numbers.iter().map(|(n, _)| n)).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let sizes = String::from_utf8(output.stdout).unwrap();
    let mut sizes = sizes.lines().map(|line| line.parse::<f64>().unwrap());
    for (_, name) in numbers {
        let told = Regex::new(&format!(r"(?m)^    {name}: ([\d.]+)(?: / (\d+))?$")).unwrap();
        let told = told.captures(text).unwrap_or_else(|| panic!("{name} has no size"));
        let number = |group: usize| told.get(group).map_or(1.0, |found| found.as_str().parse::<f64>().unwrap());
        assert_eq!(Some(number(1) / number(2)), sizes.next(), "{name}");
    }
}

#[test]
#[ignore = "needs root"]
fn costs_of_experts_that_are_not_recorded_are_bounds() {
    let _alone = alone();
    let workload = Workload { tokens: 2, ..workload("tiny-moe", 2) };
    let truth = Engine::Shared.truth(&workload, false).steps;
    let recording = record(Engine::Shared, &workload, &["--no-probe", "experts"]);
    for (index, step) in truth.iter().enumerate() {
        assert_costs(&recording, step, index + 1, true);
    }
    let report = recording.report(&["--by", "op"]);
    let bound = |op: &str| find(&find(&report["operators"], "op", op)["metrics"], "metric", "traffic")["bound"].clone();
    assert_eq!((bound("MUL_MAT_ID"), bound("MUL_MAT")), (true.into(), false.into()));
}
