//! Waiting for the disk: a mixture of experts that is put out of memory before each batch. What the process says of
//! its own major faults is what the report has, and the tensors and experts are named.

use crate::engine::{Engine, model, workload};
use crate::process::run;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

fn text(output: &std::process::Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
#[ignore = "needs root"]
fn a_model_that_was_put_out_of_memory_is_waited_for_by_tensor_and_expert() {
    // Not in memory, and not what other tests have mapped: that cannot be put out of it.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (evict, copy, trace) = (path("evict.so"), path("moe.gguf"), path("run.pfi"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/engines/evict.c");
    run(Command::new("cc").args(["-O2", "-shared", "-fPIC", "-o", &evict]).arg(source).arg("-ldl"), 0);
    std::fs::copy(model("tiny-moe"), &copy).unwrap();
    run(Command::new("sync").arg(&copy), 0);

    let mut work = workload("tiny-moe", 1);
    work.tokens = 3;
    let words = Engine::Shared.command(&work);
    let cached = model("tiny-moe").display().to_string();
    let words = words.iter().map(|word| if *word == cached { &copy } else { word });
    let profinfer = env!("CARGO_BIN_EXE_profinfer");
    let preload = format!("LD_PRELOAD={evict}");
    let mut record = Command::new(profinfer);
    record.args(["record", "llama", "-o", &trace, "--", "env", &preload]).args(words);
    let reported = text(&run(&mut record, 0));
    let own = reported.lines().find_map(|line| line.strip_prefix("major faults ")).expect("the process prints it");
    let own: u64 = own.parse().unwrap();
    assert!(own > 100, "the file system gives nothing back: {own} major faults");

    let report = run(Command::new(profinfer).args(["report", "--json", &trace]), 0);
    let faults = &serde_json::from_str::<Value>(&text(&report)).unwrap()["faults"];
    let rows = |table: &str| faults[table].as_array().unwrap().clone();
    let counted = |row: &Value| row["faults"].as_u64().unwrap();
    let in_steps = rows("phases").iter().filter(|row| row["phase"] != "outside").map(counted).sum::<u64>();
    assert_eq!(in_steps, own);
    let tensors = rows("tensors");
    let named = |row: &&Value| row["name"].as_str().is_some_and(|name| name.ends_with(".weight"));
    let of_weights = tensors.iter().filter(named).map(counted).sum::<u64>();
    assert!(of_weights * 100 >= own * 99, "{of_weights} of {own} faults are of weights");
    let of_experts = tensors.iter().filter(|row| row["expert"].is_u64());
    let of_experts: Vec<&str> = of_experts.map(|row| row["name"].as_str().unwrap()).collect();
    assert!(!of_experts.is_empty() && of_experts.iter().all(|name| name.ends_with("_exps.weight")), "{of_experts:?}");
    let sentence = rows("steps")[0]["sentence"].as_str().unwrap().to_owned();
    assert!(sentence.contains(" for the disk: ") && sentence.contains(" of layer "), "{sentence}");

    // What experts cost that were not used for long: of each fault it is known how long ago its expert was used.
    let statistics = run(Command::new(profinfer).args(["statistics", "--json", "--only", "experts", &trace]), 0);
    let experts = &serde_json::from_str::<Value>(&text(&statistics)).unwrap()["experts"];
    let sum = |list: &str, of: &dyn Fn(&Value) -> u64| experts[list].as_array().unwrap().iter().map(of).sum::<u64>();
    let by_distance = sum("reuse", &counted);
    let by_expert =
        sum("series", &|layer| layer["faults"].as_array().unwrap().iter().map(|faults| faults.as_u64().unwrap()).sum());
    assert!(by_distance > 0 && by_distance <= by_expert && by_expert <= own, "{by_distance} {by_expert} {own}");
    // Experts of which a page lies in that of their neighbour are no more than a few.
    assert!(by_distance * 10 >= by_expert * 9, "{by_distance} of {by_expert}");
    let waited = sum("reuse", &|row| row["waited_ns"].as_u64().unwrap());
    assert!(waited > 0, "{experts:#}");
}
