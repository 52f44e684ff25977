//! `profinfer statistics` on traces whose slopes, outliers, crossings and rounds are known, and on a stored one.

use crate::written;
use crate::written::{begin, describe, drafts, step, with_streams};
use profinfer_analysis::testing::{Put, Records};
use serde_json::Value;
use std::process::{Command, Output};

const PROBESET: &str = "profinfer: 1
engine: toy
summary: Steps of a toy
modules: { toy: libtoy.so }
probes:
  step: { at: 'toy:toy_step(i32 n)', role: step, fields: { tokens: n } }
analysis:
  layer: name ~ \"-(\\d+)$\"
  dtypes: { f32: 4 }
  costs:
    MUL_MAT: { flops: '2 * shape[0] * 1000', bytes: bytes }
    ATTENTION: { flops: '2 * inputs[1].shape[1]', bytes: 'inputs[1].bytes' }
";

const CONTEXT: &str = "  context: { ATTENTION: 'inputs[1].shape[1]' }\n";

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_profinfer")).arg("statistics").args(arguments).output().unwrap()
}

/// The JSON and the text of a complete trace.
fn statistics(r: &Records, probeset: &str) -> (Value, String) {
    statistics_ending(r, probeset, 0)
}

/// The same of a trace for which the program ends with this status.
fn statistics_ending(r: &Records, probeset: &str, status: i32) -> (Value, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.pfi");
    written::write(&path, &written::origin(probeset), r);
    let file = path.to_str().unwrap();
    let (json, text) = (run(&[file, "--json"]), run(&[file]));
    assert_eq!(String::from_utf8_lossy(&json.stderr), "");
    assert_eq!((json.status.code(), text.status.code()), (Some(status), Some(status)));
    (serde_json::from_slice(&json.stdout).unwrap(), String::from_utf8(text.stdout).unwrap())
}

fn row<'a>(rows: &'a Value, key: &str, value: &str) -> &'a Value {
    rows.as_array().unwrap().iter().find(|row| row[key] == value).unwrap_or_else(|| panic!("no {value} in {rows:#}"))
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[track_caller]
fn near(value: &Value, expected: f64, off: f64) {
    assert!((number(value) - expected).abs() <= off, "{value} is not {expected} ± {off}");
}

/// Attention takes 1000 ns and 5 ns for each key, a product 4000 ns whatever the context is. Each token has ten keys.
fn growing() -> Records {
    let mut r = begin();
    describe(&mut r, 1, 0x1, ("NONE", "query"), &[64, 1, 1, 1], &[]);
    describe(&mut r, 1, 0xa, ("ATTENTION", "attention-0"), &[64, 1, 1, 1], &[1, 2]);
    describe(&mut r, 1, 0xb, ("MUL_MAT", "product-0"), &[64, 1, 1, 1], &[1]);
    let keys = |r: &mut Records, at: u64, tokens: i64| {
        describe(r, at, 0x2, ("NONE", "keys"), &[64, 10 * tokens, 1, 1], &[]);
    };
    keys(&mut r, 90, 4);
    step(&mut r, 100, 4, ("step", &[]), &[(0xa, 1200), (0xb, 4000)]);
    for i in 5..=404_u64 {
        let at = i * 100_000;
        keys(&mut r, at, i64::try_from(i).unwrap());
        let noise = |n: u64| (i * n) % 41;
        step(&mut r, at, 1, ("step", &[]), &[(0xa, 980 + 50 * i + noise(17)), (0xb, 3980 + noise(23))]);
    }
    r
}

#[test]
fn what_grows_with_the_context_has_its_slope_and_what_does_not_is_constant() {
    let (found, text) = statistics(&growing(), &format!("{PROBESET}{CONTEXT}"));
    let growth = &found["growth"];
    assert_eq!(
        (&growth["source"], &growth["absent"], &growth["steps"]),
        (&"operators".into(), &Value::Null, &400.into())
    );
    assert_eq!((number(&growth["from_tokens"]), number(&growth["to_tokens"])), (50.0, 4040.0));
    let attention = row(&growth["operators"], "op", "ATTENTION");
    assert_eq!((&attention["change"], &attention["work_grows"]), (&"grows".into(), &true.into()));
    near(&attention["slope_ns"], 5.0, 0.01);
    near(&attention["robust_slope_ns"], 5.0, 0.01);
    near(&attention["intercept_ns"], 1000.0, 10.0);
    near(&attention["bytes_per_token"], 256.0, 1e-6);
    near(&attention["flops_per_token"], 2.0, 1e-6);
    assert!(number(&attention["r2"]) > 0.999 && number(&attention["slope_half_width_ns"]) < 0.01, "{attention:#}");
    assert!(attention["points"].as_array().unwrap().len() <= 64);
    let product = row(&growth["operators"], "op", "MUL_MAT");
    assert_eq!((&product["change"], &product["work_grows"]), (&"constant".into(), &false.into()));
    near(&product["slope_ns"], 0.0, 0.01);
    let whole = &growth["step"][0];
    assert_eq!(whole["change"], "grows");
    near(&whole["slope_ns"], 5.0, 0.01);
    assert!(text.contains("(50 to 4,040 tokens, of 400 steps)") && text.contains("grows"), "{text}");
}

#[test]
fn without_shapes_the_context_is_counted_in_tokens() {
    let (found, text) = statistics(&growing(), PROBESET);
    let growth = &found["growth"];
    assert_eq!((&growth["source"], number(&growth["from_tokens"])), (&"tokens".into(), 5.0));
    near(&row(&growth["operators"], "op", "ATTENTION")["slope_ns"], 50.0, 0.1);
    assert!(text.contains("the tokens of the generation so far"), "{text}");
    let short = {
        let mut r = begin();
        describe(&mut r, 1, 0xb, ("MUL_MAT", "product-0"), &[64, 1, 1, 1], &[]);
        (1..10).for_each(|i| step(&mut r, i * 10_000, 1, ("step", &[]), &[(0xb, 100)]));
        r
    };
    // Nobody saw a prefill: how many tokens lie behind these steps is not known.
    let (found, _) = statistics(&short, PROBESET);
    assert_eq!(found["growth"]["operators"], Value::Array(Vec::new()));
    assert_eq!(found["growth"]["absent"], "No decode step with a recorded context was recorded whole.");
}

#[test]
fn rates_are_those_of_the_steps() {
    let (found, _) = statistics(&growing(), PROBESET);
    let steps = &found["steps"];
    assert_eq!((steps["windows"].as_array().unwrap().len(), &steps["tpot"]["count"]), (25, &400.into()));
    let tokens: u64 = steps["windows"].as_array().unwrap().iter().map(|w| w["tokens"].as_u64().unwrap()).sum();
    assert_eq!(tokens, 400);
    // One token in 100 µs.
    near(&steps["windows"][12]["tokens_per_s"], 10_000.0, 700.0);
}

/// Sizes on two backends: `slow` takes 2 ns a unit, `quick` 1000 ns to begin with and half a nanosecond a unit: they
/// are equal at 667 units. With an outlier, one size of `slow` takes five times as long in prefill.
fn sizes(with_outlier: bool) -> Records {
    let mut r = begin();
    let all = [100_u64, 200, 400, 800, 1600, 3200];
    for (i, size) in (0_u64..).zip(all) {
        let shape = [i64::try_from(size).unwrap(), 1, 1, 1];
        describe(&mut r, 1, 0x100 + i, ("MUL_MAT", &format!("product-{i}")), &shape, &[]);
    }
    for (n, backend) in (0_u64..).zip(["slow", "quick"]) {
        for repeat in 0..5 {
            let at = 1_000_000 * (1 + 10 * n + repeat);
            let mut time = at + 20;
            for (i, size) in (0_u64..).zip(all) {
                let duration = if n == 0 { 2 * size } else { 1000 + size / 2 };
                r.push("operator", 1, (time, time + duration), &[("node", Put::Int(0x100 + i))]);
                time += duration + 5;
            }
            r.push("graph", 1, (at + 10, time + 10), &[("backend", Put::Text(backend))]);
            r.push("step", 1, (at, time + 20), &[("tokens", Put::Int(1))]);
        }
    }
    if !with_outlier {
        return r;
    }
    let at = 90_000_000;
    r.push("operator", 1, (at + 20, at + 20 + 8000), &[("node", Put::Int(0x103))]);
    r.push("graph", 1, (at + 10, at + 9000), &[("backend", Put::Text("slow"))]);
    r.push("step", 1, (at, at + 10_000), &[("tokens", Put::Int(7))]);
    r
}

#[test]
fn time_goes_with_work_and_what_does_not_fit_is_named() {
    let slow_only = {
        let mut r = sizes(true);
        // All steps of the other backend; the last one stays.
        let all = r.records.len();
        let (prefill, of_backend) = (3, 5 * 8);
        r.records.drain(all - prefill - of_backend..all - prefill);
        // What is left is numbered without a gap.
        let mut again = Records { schema: r.schema.clone(), ..Records::default() };
        for (seq, mut record) in (1_u32..).zip(r.records) {
            record[12..16].copy_from_slice(&seq.to_le_bytes());
            again.records.push(record);
        }
        again
    };
    let (found, text) = statistics(&slow_only, PROBESET);
    let product = row(&found["work"]["types"], "op", "MUL_MAT");
    // 2000 operations a unit, 2 ns a unit: the seventh point, the outlier, moves the line a little.
    near(&product["flops_per_s"], 1e12, 2.5e11);
    assert_eq!(product["points"].as_array().unwrap().len(), 7);
    let outliers: Vec<&Value> =
        product["points"].as_array().unwrap().iter().filter(|point| point["outlier"] == true).collect();
    assert_eq!(outliers.len(), 1, "{product:#}");
    assert_eq!((&outliers[0]["phase"], &outliers[0]["mean_ns"]), (&"prefill".into(), &8000.0.into()));
    assert!(text.contains("Operators far from the line of their type"), "{text}");
    assert!(found["backends"]["absent"].as_str().unwrap().contains("one backend, `slow`"));
}

#[test]
fn one_backend_overtakes_the_other_where_they_are_equal() {
    let (found, text) = statistics(&sizes(false), PROBESET);
    let backends = &found["backends"];
    assert_eq!(backends["pairs"].as_array().unwrap().len(), 6);
    let crossings = backends["crossings"].as_array().unwrap();
    assert_eq!(crossings.len(), 1, "{backends:#}");
    let crossing = &crossings[0];
    assert_eq!((&crossing["below"], &crossing["above"]), (&"slow".into(), &"quick".into()));
    // Sizes are in operations, 2000 a unit.
    near(&crossing["size"], 2000.0 * 666.7, 30_000.0);
    near(&crossing["seen_below"], 800_000.0, 1.0);
    near(&crossing["seen_above"], 1_600_000.0, 1.0);
    assert!(text.contains("`slow` is faster up to about"), "{text}");
}

#[test]
fn experts_have_their_balance_and_the_tokens_between_two_uses() {
    let mut r = begin();
    describe(&mut r, 1, 0xe, ("MUL_MAT_ID", "experts-3"), &[64, 2, 1, 1], &[]);
    for token in 0..40_u64 {
        let at = 1000 + token * 100_000;
        // Two experts a token: 0 and 1, and at the 1st and 21st token 0 and 7.
        let rare = token % 20 == 0;
        let ids = [0, if rare { 7 } else { 1 }];
        r.push("experts", 1, (at + 20, at + 20), &[("node", Put::Int(0xe)), ("ids", Put::List(&ids))]);
        step(&mut r, at, 1, ("step", &[]), &[(0xe, if rare { 9000 } else { 1000 })]);
    }
    let (found, text) = statistics(&r, PROBESET);
    let experts = &found["experts"];
    let layer = row(&experts["layers"], "layer", "3");
    let counts = ["choices", "experts", "used", "for_90"].map(|key| layer[key].as_u64().unwrap());
    assert_eq!(counts, [80, 8, 3, 2], "{layer}");
    near(&layer["max_over_mean"], 4.0, 1e-9);
    let uses = |from: u64| experts["reuse"].as_array().unwrap().iter().find(|row| row["from_tokens"] == from).unwrap();
    // First uses: 0, 7 and 1. At distance 20: 7. At 2: 1, after the token of 7.
    assert_eq!([0, 1, 2, 16].map(|from| uses(from)["uses"].as_u64().unwrap()), [3, 39 + 36, 1, 1]);
    assert_eq!((&uses(16)["operators"], &uses(16)["operator_ns"]), (&1.into(), &9000.0.into()));
    assert_eq!(uses(1)["operator_ns"], 1000.0);
    assert_eq!(uses(1)["faults"], Value::Null, "not recorded");
    let series = &experts["series"][0];
    assert_eq!((&series["tokens"], &series["uses"][0], &series["uses"][7]), (&40.into(), &40.into(), &2.into()));
    assert_eq!((&series["mean_distance"][7], &series["mean_distance"][5]), (&20.0.into(), &Value::Null));
    let of_expert_0 = series["stretches"].as_array().unwrap().iter().map(|stretch| stretch[0].as_u64().unwrap());
    assert_eq!(of_expert_0.sum::<u64>(), 40);
    assert_eq!((&experts["hottest"][0]["expert"], &experts["coldest"][0]["share"]), (&0.into(), &0.0.into()));
    assert!(text.contains("Experts: balance") && text.contains("Major faults were not recorded."), "{text}");
}

#[test]
fn drafts_and_what_is_accepted_of_them_are_told_by_instances_and_positions() {
    let r = drafts();
    let (found, text) = statistics(&r, PROBESET);
    let models = &found["models"];
    assert_eq!((models["models"].as_array().unwrap().len(), &models["told_by"]), (2, &"instance".into()));
    let rounds = models["rounds"].as_array().unwrap();
    assert_eq!(rounds.len(), 1, "{models:#}");
    let counts = ["draft", "verify", "rounds", "draft_steps", "drafted", "known_rounds", "accepted"]
        .map(|key| rounds[0][key].as_u64());
    assert_eq!(counts, [0, 1, 30, 90, 90, 29, 58].map(Some), "{models:#}");
    near(&rounds[0]["accepted_share"], 2.0 / 3.0, 1e-9);
    assert!(text.contains("Drafting and verifying") && text.contains("66.7 %"), "{text}");
    // The context is where the step stands.
    assert_eq!(found["growth"]["source"], "position");
}

#[test]
fn catching_up_and_reading_the_prompt_are_no_drafts() {
    let mut r = begin();
    with_streams(&mut r);
    describe(&mut r, 1, 0xa, ("MUL_MAT", "small-0"), &[64, 1, 1, 1], &[]);
    describe(&mut r, 1, 0xb, ("MUL_MAT", "large-0"), &[256, 1, 1, 1], &[]);
    let of = |instance: u64, position: u64| {
        [("instance", Put::Int(instance)), ("position", Put::Int(position)), ("sequence_count", Put::Int(1))]
    };
    // Both models read the prompt, the small one first.
    step(&mut r, 100_000, 8, ("decode", &of(0x7000, 0)), &[(0xa, 900)]);
    step(&mut r, 200_000, 8, ("decode", &of(0x8000, 0)), &[(0xb, 9000)]);
    for round in 0..10_u64 {
        let (at, position) = (1_000_000 * (1 + round), 8 + 2 * round);
        // What was verified in the round before, the small model computes at once; then it goes on one by one.
        step(&mut r, at, 3, ("decode", &of(0x7000, position.saturating_sub(2))), &[(0xa, 700)]);
        for draft in 0..2 {
            step(&mut r, at + (1 + draft) * 20_000, 1, ("decode", &of(0x7000, position + draft)), &[(0xa, 500)]);
        }
        // Of two drafts one is accepted each time.
        step(&mut r, at + 100_000, 3, ("decode", &of(0x8000, position)), &[(0xb, 8000)]);
    }
    let (found, _) = statistics(&r, PROBESET);
    let rounds = found["models"]["rounds"].as_array().unwrap();
    assert_eq!(rounds.len(), 1, "{:#}", found["models"]);
    let counts =
        ["draft", "verify", "rounds", "drafted", "known_rounds", "accepted"].map(|key| rounds[0][key].as_u64());
    // What was accepted of the last round's drafts nothing says.
    assert_eq!(counts, [0, 1, 10, 20, 9, 9].map(Some), "{:#}", found["models"]);
}

#[test]
fn steps_are_told_apart_by_the_sequences_that_they_advance() {
    let mut r = begin();
    with_streams(&mut r);
    describe(&mut r, 1, 0xa, ("MUL_MAT", "product-0"), &[64, 1, 1, 1], &[]);
    for i in 0..20_u64 {
        let sequences = 1 + i % 2;
        let fields = [("instance", Put::Int(1)), ("sequence_count", Put::Int(sequences))];
        step(&mut r, 1000 + i * 100_000, sequences, ("decode", &fields), &[(0xa, 1000 * sequences)]);
    }
    let (found, _) = statistics(&r, PROBESET);
    let rows = found["models"]["sequences"].as_array().unwrap();
    let counts: Vec<_> = rows.iter().map(|row| ["sequences", "steps", "tokens", "one_each"].map(|k| &row[k])).collect();
    assert_eq!(counts, [[1, 10, 10, 10], [2, 10, 20, 10]]);
    assert_eq!(found["models"]["rounds"], Value::Array(Vec::new()));
    assert!(found["models"]["sentences"][0].as_str().unwrap().contains("one model"));
}

#[test]
fn a_stored_trace_has_the_numbers_of_its_report() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/traces/v1/llama.pfi");
    let output = run(&[file, "--json"]);
    assert_eq!(output.status.code(), Some(0));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_profinfer")).args(["report", file, "--json"]).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&found["format"], &found["version"]), (&"profinfer-statistics".into(), &1.into()));
    assert_eq!((&found["steps"]["tpot"], &found["steps"]["ttft"]), (&report["tpot"], &report["ttft"]));
    for (layer, of) in report["expert_layers"].as_array().unwrap().iter().map(|row| (&row["layer"], row)) {
        let balance = row(&found["experts"]["layers"], "layer", layer.as_str().unwrap());
        assert_eq!((&balance["choices"], &balance["used"]), (&of["activations"], &of["experts"]));
        near(&balance["max_over_mean"], number(&of["imbalance"]), 1e-9);
        // Each token's choices are in the series too.
        let series = row(&found["experts"]["series"], "layer", layer.as_str().unwrap());
        let uses: u64 = series["uses"].as_array().unwrap().iter().map(|uses| uses.as_u64().unwrap()).sum();
        assert_eq!(uses, of["activations"].as_u64().unwrap());
    }
    for row_of_type in found["work"]["types"].as_array().unwrap() {
        let of = row(&report["operator_types"], "op", row_of_type["op"].as_str().unwrap());
        assert_eq!(row_of_type["count"], of["count"]);
    }
    assert_eq!(found["lanes"]["lanes"][0]["work_ns"], report["lane_rows"][0]["work_ns"]);
}

#[test]
fn sections_are_chosen_and_an_incomplete_trace_exits_with_4() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.pfi");
    let file = path.to_str().unwrap();
    let mut r = growing();
    written::write(&path, &written::origin(PROBESET), &r);
    let output = run(&[file, "--only", "growth,layers", "--json"]);
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let there: Vec<bool> = ["steps", "growth", "work", "counters", "backends", "experts", "lanes", "layers", "models"]
        .iter()
        .map(|section| !found[section].is_null())
        .collect();
    assert_eq!(there, [false, true, false, false, false, false, false, true, false]);
    assert!(found["layers"]["absent"].as_str().unwrap().contains("four layers"));
    assert_eq!(run(&[file, "--only", "colours"]).status.code(), Some(2));
    assert_eq!(run(&["/nonexistent.pfi"]).status.code(), Some(1));
    r.lose(1, 3);
    step(&mut r, 900_000_000, 1, ("step", &[]), &[(0xb, 100)]);
    written::write(&path, &written::origin(PROBESET), &r);
    let output = run(&[file]);
    assert_eq!(output.status.code(), Some(4));
    assert!(String::from_utf8(output.stdout).unwrap().starts_with("Incomplete: "));
}

#[test]
fn a_trace_without_steps_says_what_it_lacks() {
    let (found, text) = statistics_ending(&begin(), PROBESET, 4);
    for section in ["steps", "growth", "work", "counters", "backends", "experts", "lanes", "layers", "models"] {
        assert!(found[section]["absent"].is_string(), "{section}: {}", found[section]);
    }
    assert!(text.contains("The trace has no steps.") && text.contains("No operators were recorded."), "{text}");
}

#[test]
fn counters_and_their_metrics_are_sums_by_operator() {
    let metrics = "  metrics:
    stalled_share: { value: 'stalled / cycles', unit: '%' }
    bandwidth: { value: 'misses * 64 / time', unit: B/s }
";
    let mut r = begin();
    for (counter, event) in
        [("cycles", "cpu-cycles"), ("stalled", "stalled-cycles-backend"), ("misses", "cache-misses")]
    {
        written::count(&mut r, "operator", counter, event);
    }
    describe(&mut r, 1, 0xa, ("MUL_MAT", "product-0"), &[64, 1, 1, 1], &[]);
    describe(&mut r, 1, 0xb, ("ADD", "sum-0"), &[64, 1, 1, 1], &[]);
    for i in 0..10_u64 {
        let at = 1000 + i * 100_000;
        // Of a product three of four cycles are stalled, and a line is missed every 4 ns; a sum misses nothing.
        for (node, from, lasts, counts) in
            [(0xa, at + 20, 4000, [12_000 + i, 9000, 1000]), (0xb, at + 5000, 1000, [3000, 300, 0])]
        {
            let [cycles, stalled, misses] = counts.map(Put::Int);
            let fields = [("node", Put::Int(node)), ("cycles", cycles), ("stalled", stalled), ("misses", misses)];
            r.push("operator", 1, (from, from + lasts), &fields);
        }
        r.push("graph", 1, (at + 10, at + 7000), &[("backend", Put::Text("cpu"))]);
        r.push("step", 1, (at, at + 8000), &[("tokens", Put::Int(1))]);
    }
    let declared = "counters: { cycles: cpu-cycles, stalled: stalled-cycles-backend, misses: cache-misses }\nprobes:";
    let (found, text) = statistics(&r, &format!("{}{metrics}", PROBESET.replace("probes:", declared)));
    let counters = &found["counters"];
    assert_eq!((&counters["absent"], counters["counters"].as_array().unwrap().len()), (&Value::Null, 3));
    let of = |op: &str, list: &str, key: &str, name: &str| {
        let operator = row(&counters["operators"], "op", op);
        row(&operator[list], key, name)["value"].clone()
    };
    let count = |op: &str, counter: &str| of(op, "counts", "counter", counter);
    assert_eq!((count("MUL_MAT", "cycles"), count("MUL_MAT", "misses")), (120_045.into(), 10_000.into()));
    assert_eq!((count("ADD", "stalled"), count("ADD", "misses")), (3000.into(), 0.into()));
    let metric = |op: &str, metric: &str| of(op, "metrics", "metric", metric);
    near(&metric("MUL_MAT", "stalled_share"), 90_000.0 / 120_045.0, 1e-9);
    near(&metric("ADD", "stalled_share"), 0.1, 1e-9);
    // 64 bytes every 4 ns.
    near(&metric("MUL_MAT", "bandwidth"), 16e9, 1.0);
    near(&metric("ADD", "bandwidth"), 0.0, 1e-9);
    assert!(text.contains("Counters by operator") && text.contains("75.0 %") && text.contains("16.0 GB/s"), "{text}");
}
