//! Two recordings of real engines, compared by `profinfer diff`: what is known to differ is found and named.

use crate::engine::{Engine, Workload, alone, workload};
use crate::models::record;
use crate::process::{profinfer, run};
use crate::recording::Recording;
use serde_json::Value;

/// `profinfer diff A B --json …`.
fn diff(a: &Recording, b: &Recording, arguments: &[&str]) -> Value {
    ended(a, b, arguments, 0)
}

/// The same with another exit code.
fn ended(a: &Recording, b: &Recording, arguments: &[&str], code: i32) -> Value {
    let mut command = profinfer(&["diff", "--json"]);
    command.args([a.path(), b.path()]).args(arguments);
    serde_json::from_slice(&run(&mut command, code).stdout).unwrap()
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
    // Others use the machine, too: runs that they made longer do differ.
    let mut runs: Vec<(i64, Recording)> = Vec::new();
    let alike = loop {
        let run = record(Engine::Wheel, &workload, &[]);
        runs.push((middle(run.step_durations()), run));
        runs.sort_by_key(|(typical, _)| *typical);
        if let Some(first) = runs.windows(4).position(|of| (of[3].0 as f64) < 1.08 * of[0].0 as f64) {
            break &runs[first..first + 4];
        }
        let typical: Vec<i64> = runs.iter().map(|(typical, _)| *typical).collect();
        assert!(typical.len() < 20, "no four runs take the same time: {typical:?} ns a step");
    };
    let [a, again, b, more] = [0, 1, 2, 3].map(|n| &alike[n].1);
    let again = [again, more].map(|recording| recording.path().to_str().unwrap());
    // What runs of the same differ by is let pass, and some more.
    let report = diff(a, b, &["--again", again[0], "--again", again[1], "--noise", "15%"]);
    assert_eq!(unlike(&report), Vec::<&str>::new());
    assert!(matched(&report, "name").len() > 10);
    assert_eq!(matched(&report, "name").len(), decode(&report)["operators"].as_array().unwrap().len());
    let significant = |of: &&Value| of["time"]["judgement"] != "not_significant";
    let found: Vec<&Value> = decode(&report)["operators"].as_array().unwrap().iter().filter(significant).collect();
    assert!(found.is_empty(), "{found:#?}");
    assert_eq!(decode(&report)["time"]["judgement"], "not_significant", "{}", decode(&report)["verdict"]);
    let words = ["diff", "--json", "--fail-above", "15%", "--again", again[0], "--again", again[1]];
    let judged = profinfer(&words).args([a.path(), b.path()]).output().unwrap();
    let report: Value = serde_json::from_slice(&judged.stdout).unwrap();
    // A prefill is one step, which others may have made longer.
    let [prefill, other] = [a, b].map(|run| run.step_durations()[0] as f64);
    let is_alike = prefill.max(other) < 1.1 * prefill.min(other);
    let failures = report["failures"].as_array().unwrap();
    let false_alarms = failures.iter().filter(|text| is_alike || !text.as_str().unwrap().contains("prefill"));
    assert_eq!(false_alarms.count(), 0, "{failures:#?}");
    assert_eq!(judged.status.code(), Some(if failures.is_empty() { 0 } else { 5 }));
}

/// The median.
fn middle(mut durations: Vec<i64>) -> i64 {
    durations.sort_unstable();
    durations[durations.len() / 2]
}

#[test]
#[ignore = "needs root"]
fn threads_are_reported_first() {
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

/// A process that never stops computing; it ends with this.
struct Neighbour(std::process::Child);

impl Neighbour {
    fn on(cpu: &str) -> Self {
        // It has more of the CPU than whatever else runs there.
        let busy = ["-n", "-5", "taskset", "-c", cpu, "sh", "-c", "while :; do :; done"];
        Self(std::process::Command::new("nice").args(busy).spawn().unwrap())
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn cause<'a>(phase: &'a Value, name: &str) -> &'a Value {
    phase["causes"].as_array().unwrap().iter().find(|row| row["cause"] == name).unwrap()
}

/// The same run twice on one CPU, the second time with another process there: the run queue is why, by whom is named, and
/// how long is what the kernel counted for the engine's threads.
#[test]
#[ignore = "needs root"]
fn a_neighbour_is_why_and_is_named() {
    let _alone = alone();
    // The scheduler gives turns of milliseconds. In a step that is no longer than one, it need not wait: what the engine
    // does between steps would.
    let words = Engine::Wheel.command(&Workload { tokens: 60, ..steps("wide-dense", 1) });
    let record = |before: &[&str]| {
        let pinned = |command: &mut std::process::Command| {
            command.arg("--").args(before).args(["taskset", "-c", "1"]).args(&words);
        };
        Recording::new("llama", &[], pinned, 0)
    };
    // Other programs that use the machine do not disturb what has this priority.
    let quiet = record(&["chrt", "-f", "1"]);
    let neighbour = Neighbour::on("1");
    let disturbed = record(&[]);
    let report = ended(&quiet, &disturbed, &["--fail-above", "10%"], 5);
    let queue = cause(decode(&report), "run_queue");
    assert_eq!(queue["time"]["judgement"], "more", "{queue:#}");
    let mut of_neighbour = queue["because"].as_array().unwrap().iter();
    let pid = u64::from(neighbour.0.id());
    let named = of_neighbour.find(|row| row["pids"][1] == pid).unwrap_or_else(|| panic!("{queue:#}"));
    assert_eq!(named["name"], "sh");
    let why = decode(&report)["why"].to_string();
    assert!(why.contains(&format!("`sh` (pid {pid})")), "{why}");
    assert!(report["failures"].to_string().contains("decode is slower: "), "{}", report["failures"]);
    let engine: Value = serde_json::from_slice(&disturbed.output.stdout).unwrap();
    let ns = |key: &str| engine[key].as_f64().unwrap();
    let (kernel, request) = (ns("run_delay_ns"), 1e6 * (ns("prefill_ms") + ns("decode_ms")));
    let steps = decode(&report)["b"]["whole_steps"].as_f64().unwrap();
    let [ours, in_steps] = [queue, decode(&report)].map(|row| row["time"]["b"].as_f64().unwrap() * steps);
    // The kernel's account has the prompt and what lies between steps, too.
    assert!(ours <= kernel + 20e6, "{ours} and {kernel} ns");
    assert!(kernel - ours <= request - in_steps + 50e6, "{ours} and {kernel} ns, {in_steps} of {request} ns in steps");
}

#[test]
#[ignore = "needs root"]
fn one_layer_with_other_weights_is_named() {
    let _alone = alone();
    // A preemption of some milliseconds is as long as ten of a layer's steps: no other program has this priority.
    let [plain, one] = ["small-dense", "small-dense-one-f16"].map(|model| {
        let words = Engine::Wheel.command(&Workload { tokens: 160, ..steps(model, 1) });
        let undisturbed = |command: &mut std::process::Command| {
            command.args(["--", "chrt", "-f", "1"]).args(&words);
        };
        Recording::new("llama", &[], undisturbed, 0)
    });
    let report = diff(&plain, &one, &[]);
    let layers = decode(&report)["layers"].as_array().unwrap();
    let odd: Vec<&Value> = layers.iter().filter(|row| !row["unlike_others"].is_null()).collect();
    let named = odd.iter().any(|row| row["layer"] == "5");
    assert!(named, "{odd:#?}\n{layers:#?}");
    assert!(decode(&report)["why"].to_string().contains("Layer 5 is "), "{}", decode(&report)["why"]);
}
