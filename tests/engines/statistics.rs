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
    assert_eq!((&growth["source"], &growth["absent"]), (&"operators".into(), &Value::Null));
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

#[test]
#[ignore = "needs root"]
fn a_model_that_drafts_for_another() {
    let _alone = alone();
    let draft = model("tiny-dense").display().to_string();
    let found = record(&Workload { tokens: 12, ..workload("small-dense", 1) }, &["--draft", &draft]);
    let models = &found["models"];
    assert_eq!((&models["told_by"], models["models"].as_array().unwrap().len()), (&"instance".into(), 2));
    let layers: Vec<u64> = [0, 1].iter().map(|i| models["models"][*i]["layers"].as_u64().unwrap()).collect();
    let rounds = models["rounds"].as_array().unwrap();
    assert_eq!(rounds.len(), 1, "{models:#}");
    let model_of = |key: &str| layers[usize::try_from(rounds[0][key].as_u64().unwrap()).unwrap()];
    assert_eq!((model_of("draft"), model_of("verify")), (4, 8), "{models:#}");
    assert!(rounds[0]["drafted"].as_u64() >= rounds[0]["rounds"].as_u64(), "{models:#}");
    assert_eq!(rounds[0]["accepted"], Value::Null, "the engine's steps do not say where they stand");
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
