//! `profinfer statistics` on real runs whose course is known: a long answer, a model that drafts for another, and
//! several requests at once.

use crate::engine::{Engine, Workload, alone, model, workload};
use crate::recording::Recording;
use serde_json::Value;

fn record(workload: &Workload, more: &[&str]) -> Value {
    let mut words = Engine::Wheel.command(workload);
    words.extend(more.iter().map(|&word| word.to_owned()));
    let set = |command: &mut std::process::Command| {
        command.arg("--").args(&words);
    };
    Recording::new("llama", &[], set, 0).statistics()
}

#[test]
#[ignore = "needs root"]
fn attention_grows_with_the_context_and_products_do_not() {
    let _alone = alone();
    let found = record(&Workload { tokens: 1500, ..workload("tiny-dense", 1) }, &[]);
    let growth = &found["growth"];
    assert_eq!((&growth["source"], &growth["absent"]), (&"position".into(), &Value::Null));
    // The prompt, and each token after it; the cache in which they lie grows by 256 at a time.
    assert_eq!((&growth["from_tokens"], &growth["to_tokens"]), (&9.0.into(), &1507.0.into()));
    let rows = growth["operators"].as_array().unwrap();
    let of = |op: &'static str| rows.iter().filter(move |row| row["op"] == op);
    let attention: Vec<&Value> = of("FLASH_ATTN_EXT").collect();
    assert_eq!(attention.len(), 1, "{rows:#?}");
    assert_eq!((&attention[0]["change"], &attention[0]["work_grows"]), (&"grows".into(), &true.into()));
    // Four layers, keys and values of two heads of 32 numbers of two bytes; and the mask's two bytes a layer.
    let bytes = attention[0]["bytes_per_token"].as_f64().unwrap();
    assert!((bytes - (4 * (2 * 2 * 32 * 2 + 2)) as f64).abs() < 1.0, "{bytes}");
    assert!(of("MUL_MAT").count() >= 7);
    for row in of("MUL_MAT") {
        assert_ne!(row["change"], "grows", "{row}");
        assert_eq!(row["work_grows"], false, "{row}");
    }
}

/// Without flash attention it is two products and what lies between them: their work grows with the context, and
/// that of no other product. A stall of the machine changes no median of slopes, so the three together grow in time.
#[test]
#[ignore = "needs root"]
fn products_with_keys_and_values_grow_without_flash_attention() {
    let _alone = alone();
    let options = &["--flash-attention", "off"];
    let found = record(&Workload { tokens: 800, options, ..workload("tiny-dense", 1) }, &[]);
    let growth = &found["growth"];
    assert_eq!((&growth["source"], &growth["absent"]), (&"position".into(), &Value::Null));
    let rows = growth["operators"].as_array().unwrap();
    assert!(rows.iter().all(|row| row["op"] != "FLASH_ATTN_EXT"), "{rows:#?}");
    let is_attention = |row: &&Value| {
        let name = row["name"].as_str().unwrap();
        name == "kq-*" || name == "kqv-*" || name.starts_with("kq_soft_max")
    };
    let (attention, others): (Vec<&Value>, Vec<&Value>) = rows.iter().partition(is_attention);
    let ops: Vec<&str> = attention.iter().map(|row| row["op"].as_str().unwrap()).collect();
    let products = ops.iter().filter(|op| **op == "MUL_MAT").count();
    assert_eq!((ops.len(), products), (3, 2), "{attention:#?}");
    for row in attention.iter().filter(|row| row["op"] == "MUL_MAT") {
        assert_eq!(row["work_grows"], true, "{row}");
        assert!(row["bytes_per_token"].as_f64().unwrap() > 0.0, "{row}");
    }
    let slope: f64 = attention.iter().map(|row| row["robust_slope_ns"].as_f64().unwrap()).sum();
    assert!(slope > 0.0, "{attention:#?}");
    for row in others.iter().filter(|row| row["op"] == "MUL_MAT") {
        assert_eq!(row["work_grows"], false, "{row}");
    }
}

/// One model drafts for another: the statistics' models, and what the engine says.
fn speculative(draft: &str, tokens: u64) -> (Value, Value) {
    let draft = model(draft).display().to_string();
    let mut words = Engine::Wheel.command(&Workload { tokens, ..workload("small-dense", 1) });
    words.extend(["--draft".to_owned(), draft]);
    let set = |command: &mut std::process::Command| {
        command.arg("--").args(&words);
    };
    let recording = Recording::new("llama", &[], set, 0);
    let reported = serde_json::from_slice(&recording.output.stdout).unwrap();
    let mut models = recording.statistics()["models"].take();
    assert_eq!((&models["told_by"], models["models"].as_array().unwrap().len()), (&"instance".into(), 2));
    assert_eq!(models["rounds"].as_array().unwrap().len(), 1, "{models:#}");
    (models["rounds"][0].take(), reported)
}

fn numbers<const N: usize>(of: &Value, keys: [&str; N]) -> [u64; N] {
    keys.map(|key| of[key].as_u64().unwrap_or_else(|| panic!("no {key} in {of:#}")))
}

/// What was kept of the last round's drafts no later step says.
fn assert_drafts(round: &Value, reported: &Value) -> [u64; 2] {
    let [rounds, drafted, known_rounds, accepted] = numbers(round, ["rounds", "drafted", "known_rounds", "accepted"]);
    let [reported_drafted, reported_accepted] = numbers(reported, ["drafted", "accepted"]);
    assert_eq!(drafted, reported_drafted, "{round:#} {reported:#}");
    // A last step without drafts says it of the last round, too.
    assert!((rounds - 1..=rounds).contains(&known_rounds), "{round:#}");
    // Three at a time.
    assert!((accepted..=accepted + 3).contains(&reported_accepted), "{round:#} {reported:#}");
    [accepted, reported_accepted]
}

#[test]
#[ignore = "needs root"]
fn a_model_that_drafts_for_another() {
    let _alone = alone();
    let (round, reported) = speculative("tiny-dense", 12);
    // The models have nothing in common but their words.
    assert_eq!(assert_drafts(&round, &reported), [0, 0]);
    assert!(round["draft_ns"].as_f64() < round["verify_ns"].as_f64(), "{round:#}");
}

#[test]
#[ignore = "needs root"]
fn drafts_that_are_accepted() {
    let _alone = alone();
    let (round, reported) = speculative("small-dense-q8_0", 24);
    let [accepted, _] = assert_drafts(&round, &reported);
    assert!(accepted >= 6, "{round:#}");
}

#[test]
#[ignore = "needs root"]
fn several_requests_at_once() {
    let _alone = alone();
    let found = record(&Workload { tokens: 20, ..workload("tiny-dense", 1) }, &["--parallel", "3"]);
    let rows = found["models"]["sequences"].as_array().unwrap();
    let together = rows.iter().find(|row| row["sequences"] == 3).unwrap_or_else(|| panic!("{rows:#?}"));
    assert!(together["one_each"].as_u64().unwrap() >= 5, "{rows:#?}");
    assert!(rows.iter().all(|row| row["sequences"].as_u64().unwrap() <= 3), "{rows:#?}");
}

/// The same prompts with the CPU's products of matrices and with a library's.
#[test]
#[ignore = "needs root"]
fn two_backends_side_by_side() {
    let _alone = alone();
    let mut script = String::new();
    let mut expected = std::collections::BTreeSet::new();
    for (name, prompt) in [("tiny-dense", 32), ("tiny-dense", 128), ("small-dense", 64), ("small-dense", 192)] {
        let workload = Workload { prompt, tokens: 1, ..workload(name, 1) };
        let words = Engine::Blas.command(&workload).join(" ");
        script += &format!("{words} && {words} --only-cpu && ");
        expected.insert(prompt);
    }
    script += "true";
    let set = |command: &mut std::process::Command| {
        command.args(["--", "sh", "-c", &script]);
    };
    let recording = Recording::new("llama", &[], set, 0);
    recording.assert_complete();
    let backends = recording.statistics()["backends"].take();
    let pairs = backends["pairs"].as_array().unwrap();
    assert_eq!(backends["absent"], Value::Null);
    // Products of the prompt's tokens with the weights, by both.
    let side = |pair: &Value, backend: &str| {
        let found = ["first", "second"].into_iter().find(|side| pair[side]["backend"] == backend);
        pair[found.unwrap_or_else(|| panic!("no {backend}: {pair:#}"))].clone()
    };
    let products: Vec<&Value> = pairs.iter().filter(|pair| pair["op"] == "MUL_MAT").collect();
    assert!(products.len() >= 8, "{backends:#}");
    for pair in &products {
        assert_eq!(pair["measure"], "flops");
        let [rows, columns] = [0, 1].map(|i| pair["shape"][i].as_u64().unwrap());
        assert!(rows >= 32 && expected.contains(&columns), "{pair:#}");
        // Each layer once on each; two operations for each element of a row of weights.
        assert_eq!(side(pair, "blas")["count"], side(pair, "cpu")["count"], "{pair:#}");
        let row = pair["size"].as_f64().unwrap() / (2 * rows * columns) as f64;
        assert!([128.0, 256.0, 384.0, 1024.0].contains(&row), "{pair:#}");
    }
    assert_eq!(pairs.len(), products.len(), "what the library does not compute the CPU does in both");
    // Where one overtakes the other depends on the machine; it must be what the shortest times say, or nothing.
    for crossing in backends["crossings"].as_array().unwrap() {
        for (at, faster) in [("seen_below", "below"), ("seen_above", "above")] {
            let size = crossing[at].as_f64().unwrap();
            let of_size = products.iter().filter(|pair| (pair["size"].as_f64().unwrap() / size - 1.0).abs() < 1e-6);
            let ratios: Vec<f64> = of_size
                .map(|pair| ["blas", "cpu"].map(|backend| side(pair, backend)["min_ns"].as_f64().unwrap()))
                .map(|[blas, cpu]| (blas / cpu).ln())
                .collect();
            assert!(!ratios.is_empty(), "{crossing:#}");
            assert_eq!(ratios.iter().sum::<f64>() < 0.0, crossing[faster] == "blas", "{crossing:#} {products:#?}");
        }
    }
    let text = recording.text(&["statistics", "--only", "backends"]);
    let reported = if backends["crossings"].as_array().unwrap().is_empty() {
        "No backend becomes faster than another within the recorded sizes."
    } else {
        "is faster up to about"
    };
    assert!(text.contains(reported), "{text}");
}
