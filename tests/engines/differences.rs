//! Two recordings of real engines, compared by `profinfer diff`: what is known to differ is found and named.

use crate::engine::{Engine, Workload, alone, workload};
use crate::process::{profinfer, run};
use crate::record;
use crate::recording::Recording;
use serde_json::Value;

/// `profinfer diff A B --json …`.
fn diff(a: &Recording, b: &Recording, arguments: &[&str]) -> Value {
    let mut command = profinfer(&["diff", "--json"]);
    command.args([a.path(), b.path()]).args(arguments);
    serde_json::from_slice(&run(&mut command, 0).stdout).unwrap()
}

/// Enough steps to tell.
fn steps(model: &'static str, threads: u64) -> Workload {
    Workload { tokens: 40, ..workload(model, threads) }
}

fn decode(report: &Value) -> &Value {
    report["phases"].as_array().unwrap().iter().find(|phase| phase["phase"] == "decode").unwrap()
}

/// What the traces are not alike in.
fn unlike(report: &Value) -> Vec<&str> {
    report["unlike"].as_array().unwrap().iter().map(|found| found["what"].as_str().unwrap()).collect()
}

/// Operators that were matched so.
fn matched<'a>(report: &'a Value, fit: &str) -> Vec<&'a Value> {
    decode(report)["operators"].as_array().unwrap().iter().filter(|of| of["fit"] == fit).collect()
}

/// Types of one side.
fn types(operator: &Value, side: &str) -> Vec<String> {
    operator[side].as_array().unwrap().iter().map(|of| of["op"].as_str().unwrap().to_owned()).collect()
}

#[test]
#[ignore = "needs root"]
fn the_same_twice_does_not_differ() {
    let _alone = alone();
    let workload = steps("small-dense", 1);
    let record = || record(Engine::Wheel, &workload, &[]);
    let (a, again, b, more) = (record(), record(), record(), record());
    let again = [again.path(), more.path()].map(|path| path.to_str().unwrap());
    // Others use the machine, too: what runs of the same differ by is let pass, and some more.
    let report = diff(&a, &b, &["--again", again[0], "--again", again[1], "--noise", "15%"]);
    assert_eq!(unlike(&report), Vec::<&str>::new());
    assert!(matched(&report, "name").len() > 10);
    assert_eq!(matched(&report, "name").len(), decode(&report)["operators"].as_array().unwrap().len());
    let significant = |of: &&Value| of["time"]["judgement"] != "not_significant";
    let found: Vec<&Value> = decode(&report)["operators"].as_array().unwrap().iter().filter(significant).collect();
    assert!(found.is_empty(), "{found:#?}");
    assert_eq!(decode(&report)["time"]["judgement"], "not_significant", "{}", decode(&report)["verdict"]);
    let mut command = profinfer(&["diff", "--fail-above", "15%", "--again", again[0], "--again", again[1]]);
    run(command.args([a.path(), b.path()]), 0);
}

#[test]
#[ignore = "needs root"]
fn threads_are_said_first() {
    let _alone = alone();
    let [one, two] = [1, 2].map(|threads| record(Engine::Wheel, &steps("tiny-dense", threads), &[]));
    let report = diff(&one, &two, &[]);
    let found = report["unlike"].as_array().unwrap();
    let lanes = found.iter().find(|found| found["what"] == "lanes in decode").unwrap();
    assert_eq!((&lanes["a"], &lanes["b"]), (&"1".into(), &"2".into()));
    let command = found.iter().find(|found| found["what"] == "command").unwrap();
    assert_eq!((&command["a"], &command["b"]), (&"--threads 1".into(), &"--threads 2".into()));
    assert_eq!(matched(&report, "gone").len() + matched(&report, "new").len(), 0);
}

#[test]
#[ignore = "needs root"]
fn products_with_other_weights_are_matched_by_name() {
    let _alone = alone();
    let [full, q4] = ["tiny-dense", "tiny-dense-q4_0"].map(|model| record(Engine::Wheel, &steps(model, 1), &[]));
    let report = diff(&full, &q4, &[]);
    assert_eq!(unlike(&report), ["command", "types of weights"]);
    let operators = decode(&report)["operators"].as_array().unwrap();
    let products: Vec<&Value> = operators.iter().filter(|of| types(of, "a") == ["MUL_MAT"]).collect();
    assert!(products.len() >= 7, "{products:#?}");
    assert!(products.iter().all(|of| of["fit"] == "name"), "{products:#?}");
}

/// Eight bits against four, and against whole floats: the products of matrices differ, and their weights' types are why.
#[test]
#[ignore = "needs root"]
fn quantised_weights_are_named() {
    let _alone = alone();
    let [full, q8, q4] = ["small-dense", "small-dense-q8_0", "small-dense-q4_0"]
        .map(|model| record(Engine::Wheel, &steps(model, 1), &[]));
    for (a, b, types_of) in [(&full, &q8, ["F32", "Q8_0"]), (&q8, &q4, ["Q8_0", "Q4_0"])] {
        let report = diff(a, b, &[]);
        let found = report["unlike"].as_array().unwrap();
        let weights =
            found.iter().find(|found| found["what"] == "types of weights").unwrap_or_else(|| panic!("{found:#?}"));
        for (side, expected) in ["a", "b"].iter().zip(types_of) {
            assert!(weights[side].as_str().unwrap().contains(expected), "{weights}");
        }
        let operators = decode(&report)["operators"].as_array().unwrap();
        let products: Vec<&Value> = operators.iter().filter(|of| types(of, "a") == ["MUL_MAT"]).collect();
        assert!(products.len() >= 7 && products.iter().all(|of| of["fit"] == "name"), "{products:#?}");
        // Most of the difference is theirs. Between weights of eight bits and of four there is none to rely on.
        if types_of[0] != "F32" || decode(&report)["time"]["judgement"] == "not_significant" {
            continue;
        }
        let significant = products.iter().filter(|of| of["time"]["judgement"] != "not_significant");
        assert!(significant.count() >= 3, "{products:#?}");
    }
}

#[test]
#[ignore = "needs root"]
fn flash_attention_replaces_what_it_does() {
    let _alone = alone();
    let [off, on] = [&["--flash-attention", "off"][..], &["--flash-attention", "on"]]
        .map(|options| record(Engine::Wheel, &Workload { options, ..steps("tiny-dense", 1) }, &[]));
    let report = diff(&off, &on, &[]);
    let [replaced] = matched(&report, "replaced")[..] else { panic!("{:#?}", matched(&report, "replaced")) };
    assert_eq!(types(replaced, "b"), ["FLASH_ATTN_EXT"]);
    let before = types(replaced, "a");
    assert!(before.contains(&"SOFT_MAX".to_owned()) && before.contains(&"MUL_MAT".to_owned()), "{before:?}");
    // All of the rest is the same.
    assert!(matched(&report, "name").len() >= 12);
}

#[test]
#[ignore = "needs root"]
fn fusion_is_found() {
    let _alone = alone();
    let plain = Workload { environment: &[("GGML_CPU_DISABLE_FUSION", "1")], ..steps("tiny-dense", 1) };
    let (apart, fused) = (record(Engine::Wheel, &plain, &[]), record(Engine::Wheel, &steps("tiny-dense", 1), &[]));
    let report = diff(&apart, &fused, &[]);
    let found = matched(&report, "fused");
    assert!(!found.is_empty(), "{:#?}", decode(&report)["operators"]);
    for operator in &found {
        assert!(types(operator, "b").iter().all(|op| op == "rms_norm_mul"), "{operator:#}");
        let before = types(operator, "a");
        assert!(before.contains(&"RMS_NORM".to_owned()) && before.contains(&"MUL".to_owned()), "{before:?}");
        // Twice the operators before.
        let calls: Vec<f64> = operator["calls"].as_array().unwrap().iter().map(|n| n.as_f64().unwrap()).collect();
        assert!((calls[0] - 2.0 * calls[1]).abs() < 1e-9, "{calls:?}");
    }
    let back = diff(&fused, &apart, &[]);
    assert_eq!(matched(&back, "split").len(), found.len());
}
