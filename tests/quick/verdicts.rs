//! What `profinfer report` opens with, of traces that are made to be of a kind, and what it must not claim of them.
//! Runs of real engines are in `tests/engines/verdicts.rs`.

use crate::toy;
use crate::toy::{Kept, MEMORY, NEIGHBOUR, Run};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

fn report(trace: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_profinfer"));
    let output = command.arg("report").arg(trace).args(arguments).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A trace's verdicts, whose sentences say no more of any time than there is.
fn verdict_of(trace: &Path) -> Value {
    let verdict = serde_json::from_str::<Value>(&report(trace, &["--json"])).unwrap()["verdict"].clone();
    verdict["phases"].as_array().unwrap().iter().for_each(assert_stated_shares_add_up);
    verdict
}

/// The shares that a phase's sentences state are parts of one whole, and no share stands in them that is not known to
/// be one.
#[track_caller]
fn assert_stated_shares_add_up(phase: &Value) {
    let stated = phase["stated"].as_array().unwrap();
    let sum = |what: Option<&str>| -> f64 {
        let parts = stated.iter().filter(|one| one["overlaps"] == false && what.is_none_or(|what| one["what"] == what));
        parts.map(|one| share(&one["share"])).sum()
    };
    assert!(sum(None) <= 1.0 + 1e-9, "{phase:#}");
    for (what, part) in phase["parts"].as_object().unwrap() {
        assert!(sum(Some(what)) <= share(part) + 1e-9, "{what}: {phase:#}");
    }
    let texts: Vec<String> = stated.iter().map(|one| format!("{:.1}", share(&one["share"]) * 100.0)).collect();
    for sentence in phase["evidence"].as_array().unwrap() {
        let sentence = sentence.as_str().unwrap();
        let pieces: Vec<&str> = sentence.split(" %").collect();
        for (before, after) in pieces.iter().zip(&pieces[1..]) {
            let number = before.rsplit(' ').next().unwrap();
            let is_known = after.starts_with(" of operators") || number == "<0.1" || texts.iter().any(|t| t == number);
            assert!(is_known, "{number} of what? {sentence}\n{stated:?}");
        }
    }
}

struct Trace(toy::Trace);

impl Trace {
    fn new(run: Run) -> Self {
        Self(toy::Trace::new(run))
    }

    fn report(&self, arguments: &[&str]) -> String {
        report(&self.0.path, arguments)
    }

    fn verdict(&self) -> Value {
        verdict_of(&self.0.path)
    }
}

fn share(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value}"))
}

#[test]
fn a_report_opens_with_what_limits_the_model_and_what_would_help() {
    let trace = Trace::new(MEMORY);
    let text = trace.report(&["--all"]);
    let opening: Vec<&str> = text.lines().take(4).collect();
    assert!(opening[0].starts_with("Complete: 20 steps"), "{text}");
    assert_eq!(opening[1], "");
    let expected = "Decode is memory-bound: 99.0 % of its time is in MUL_MAT (2 per layer), which moves 19.0 of this \
                    machine's 20 GB/s.";
    assert_eq!(opening[2], expected);
    let expected = "  → Use f16 weights instead of f32. Estimated gain: decode up to 51.9 % (weights read per step drop \
                    from 32.0 MiB to 16.0 MiB, read at no more than 20 GB/s, this machine's limit).";
    assert_eq!(opening[3], expected);
    assert!(text.contains("What limits operators (decode; memory, peak:"), "{text}");
    let verdict = trace.verdict();
    assert_eq!(verdict["sentences"][0], opening[2]);
    assert_eq!(
        verdict["cannot_say"],
        serde_json::json!(["Scheduler events were not recorded: run-queue delay is unknown."])
    );
    let decode = &verdict["phases"][0];
    assert_eq!(
        (&decode["phase"], &decode["bound"], &decode["confidence"]),
        (&"decode".into(), &"memory".into(), &"high".into())
    );
    assert_eq!((&decode["also"], &decode["caches"]), (&Value::Null, &"exceeds".into()));
    let sum: f64 = decode["parts"].as_object().unwrap().values().map(share).sum();
    assert!((sum - 1.0).abs() < 1e-9, "{decode}");
    for row in verdict["operators"].as_array().unwrap() {
        let expected = if row["op"] == "MUL_MAT" { "memory" } else { "overhead" };
        assert_eq!(row["bound"], expected, "{row}");
    }
    let layers = verdict["layers"].as_array().unwrap();
    assert_eq!(layers.iter().map(|row| row["layer"].as_str().unwrap()).collect::<Vec<_>>(), ["0", "1", "2", "3"]);
    assert!(layers.iter().all(|row| row["bound"] == "memory"), "{layers:?}");
    assert!((layers.iter().map(|row| share(&row["share"])).sum::<f64>() - 0.999).abs() < 0.001, "{layers:?}");
}

#[test]
fn a_rate_above_a_limit_is_no_share_of_it() {
    let fast = Trace::new(Run { product_ns: MEMORY.product_ns * 9 / 10, ..MEMORY }).verdict();
    let expected = "which moves 21.1 GB/s, more than the 20 GB/s measured as this machine's limit (measure again while \
                    it is idle: profinfer roofline --remeasure).";
    let sentence = fast["sentences"][0].as_str().unwrap();
    assert!(sentence.starts_with("Decode is memory-bound:") && sentence.ends_with(expected), "{sentence}");
}

#[test]
fn a_prompt_that_uses_each_byte_often_is_compute_bound() {
    // 512 tokens: 1.07 GFLOP a product, 50 GFLOP/s.
    let run = Run { tokens: 512, product_ns: 21_470_000, steps: 2, ..MEMORY };
    let verdict = Trace::new(run).verdict();
    let prefill = &verdict["phases"][0];
    assert_eq!((&prefill["phase"], &prefill["bound"]), (&"prefill".into(), &"compute".into()));
    assert_eq!(prefill["parts"]["memory"], 0.0);
    let sentence = verdict["sentences"][0].as_str().unwrap();
    let expected = "Prefill is compute-bound: 100.0 % of its time is in MUL_MAT (2 per layer), at 50.0 of this machine's \
                    200 GFLOP/s; 128 operations per byte: memory is not the limit.";
    assert_eq!(sentence, expected);
    // What the probeset has to say, and what the peak leaves.
    let advice = &verdict["advice"][0];
    assert_eq!(advice["what"], "Use the faster products");
    assert!((share(&advice["gain_at_most"]) - 0.75).abs() < 0.01, "{advice}");
    let fast = Trace::new(Run { product_ns: 10_000_000, ..run }).verdict();
    assert_eq!(fast["advice"], serde_json::json!([]), "at more than 0.4 of the peak it does not apply");
}

#[test]
fn without_the_machines_limits_no_bandwidth_is_claimed() {
    let trace = Trace::new(Run { roofline: false, ..MEMORY });
    let verdict = trace.verdict();
    assert_eq!(verdict["phases"][0]["bound"], "unknown");
    assert_eq!(verdict["phases"][0]["parts"]["memory"], 0.0);
    let text = trace.report(&[]);
    assert!(!text.contains("memory-bound:") && !text.contains("this machine's"), "{text}");
    assert!(text.contains("`profinfer roofline` once"), "it says how to have them: {text}");
    assert_eq!(verdict["advice"], serde_json::json!([]), "no gain without a limit");
}

#[test]
fn without_costs_nothing_is_reported_of_rates() {
    let verdict = Trace::new(Run { costs: false, ..MEMORY }).verdict();
    assert_eq!(verdict["phases"][0]["bound"], "unknown");
    assert_eq!(verdict["phases"][0]["bytes_per_step"], Value::Null);
    let reported = verdict["cannot_say"][0].as_str().unwrap();
    assert!(reported.starts_with("The probeset has no costs of operators"), "{reported}");
}

#[test]
fn a_limit_that_costs_do_not_explain_comes_with_what_would() {
    let verdict = Trace::new(Run { product_ns: 200 * MEMORY.product_ns, steps: 2, ..MEMORY }).verdict();
    assert_eq!(verdict["phases"][0]["bound"], "unknown");
    let reason = verdict["cannot_say"][0].as_str().unwrap();
    assert!(reason.contains("Record with `--sample 999`"), "{reason}");
}

#[test]
fn what_fits_the_caches_is_not_memory_bound() {
    // Eight weights of 64 KiB at 19 GB/s, as fast as memory; but a cache holds them.
    let small = Run { size: 128, product_ns: 3_500, ..MEMORY };
    let verdict = Trace::new(small).verdict();
    let decode = &verdict["phases"][0];
    assert_eq!((&decode["caches"], &decode["parts"]["memory"]), (&"fits".into(), &0.0.into()));
    let larger = Run { size: 256, product_ns: 40_000, ..MEMORY };
    let verdict = Trace::new(larger).verdict();
    assert_eq!(verdict["phases"][0]["parts"]["memory"], 0.0);
    assert_eq!(verdict["phases"][0]["confidence"], "low");
}

#[test]
fn many_small_operators_are_overhead() {
    let tiny = Run { size: 64, product_ns: 4_000, ..MEMORY };
    let trace = Trace::new(tiny);
    let verdict = trace.verdict();
    assert_eq!(verdict["phases"][0]["bound"], "overhead");
    let sentence = verdict["sentences"][0].as_str().unwrap();
    let expected = "Decode is overhead-bound: a step has 16 operators of 3.06 µs each; 100.0 % of its time is in operators \
                    too small to matter and around operators.";
    assert_eq!(sentence, expected);
}

#[test]
fn uneven_lanes_wait_for_the_slowest() {
    let run = Run { waiting_ns: 600_000, ..MEMORY };
    let verdict = Trace::new(run).verdict();
    let decode = &verdict["phases"][0];
    // Lane 0 works for 821 µs, lane 1 for 221 µs.
    assert!((share(&decode["parts"]["synchronisation"]) - 0.36).abs() < 0.02, "{decode}");
    let sentences = verdict["sentences"].as_array().unwrap();
    let waiting = "36.4 % of thread time is waiting for the slowest thread (lane 0 in 100.0 % of operators).";
    assert!(sentences.iter().any(|sentence| sentence == waiting), "{sentences:?}");
}

/// Recordings of real engines, and what is recorded otherwise is of the other tests here.
#[test]
fn stored_traces_state_no_more_than_there_is() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/traces/v1");
    let mut phases = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "pfi") {
            let verdict = serde_json::from_str::<Value>(&report_of_any(&path)).unwrap()["verdict"].clone();
            let of = verdict["phases"].as_array().unwrap();
            phases += of.len();
            of.iter().for_each(assert_stated_shares_add_up);
        }
    }
    assert!(phases >= 2, "one of them has operators");
}

/// Of a trace that may have lost records, which is told by the exit code.
fn report_of_any(trace: &Path) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_profinfer"));
    String::from_utf8(command.arg("report").arg(trace).arg("--json").output().unwrap().stdout).unwrap()
}

#[test]
fn what_lies_around_operators_is_stated_in_parts_that_add_up() {
    // A step of 1,000 ns outside its graph, and of operators that take less.
    let run = Run { size: 8, product_ns: 40, small_ns: 20, lanes: 1, ..MEMORY };
    let verdict = Trace::new(run).verdict();
    let decode = &verdict["phases"][0];
    assert_eq!(decode["bound"], "overhead");
    let sentence = verdict["sentences"][0].as_str().unwrap();
    let expected = "Decode is overhead-bound: 67.6 % of its time is outside graphs and 32.4 % in operators too small to \
                    matter.";
    assert_eq!(sentence, expected);
    let stated: Vec<f64> = decode["stated"].as_array().unwrap().iter().map(|one| share(&one["share"])).collect();
    assert!((stated.iter().sum::<f64>() - share(&decode["parts"]["overhead"])).abs() < 1e-9, "{decode:#}");
}

/// Without the machine's limits nothing is known of the products; what lies around them is.
#[test]
fn what_is_not_known_of_most_of_the_time_is_the_verdict() {
    for (outside_ns, bound, also) in [(1_280_000, "unknown", "overhead"), (2_400_000, "overhead", "unknown")] {
        let trace = Trace::new(Run { roofline: false, outside_ns, ..MEMORY });
        let verdict = trace.verdict();
        let decode = &verdict["phases"][0];
        assert_eq!((&decode["bound"], &decode["also"]), (&bound.into(), &also.into()), "{decode:#}");
        let sentence = verdict["sentences"][0].as_str().unwrap();
        if bound == "unknown" {
            let expected = "The limit of decode is unknown: 57.7 % of its time is in MUL_MAT (2 per layer), at 19.0 GB/s \
                            and 9.49 GFLOP/s. Another 42.3 % is overhead: operators too small to matter, and time around \
                            operators.";
            assert_eq!(sentence, expected);
            assert!(trace.report(&[]).contains("`profinfer roofline` once"), "what would tell");
        } else {
            assert!(
                sentence.starts_with("Decode is overhead-bound: ") && sentence.ends_with(" % is unknown."),
                "{sentence}"
            );
        }
    }
}

#[test]
fn lanes_that_mostly_wait_for_the_slowest_are_synchronisation_bound() {
    // Three of four lanes wait for 2,000 µs of 2,221.
    let run = Run { waiting_ns: 2_000_000, lanes: 4, ..MEMORY };
    let verdict = Trace::new(run).verdict();
    let decode = &verdict["phases"][0];
    assert_eq!((&decode["bound"], &decode["confidence"]), (&"synchronisation".into(), &"high".into()), "{decode:#}");
    let sentence = verdict["sentences"][0].as_str().unwrap();
    let expected = "Decode is synchronisation-bound: 67.5 % of thread time is waiting for the slowest thread (lane 0 in \
                    100.0 % of operators).";
    assert_eq!(sentence, expected);
    let products = verdict["operators"].as_array().unwrap().iter().filter(|row| row["op"] == "MUL_MAT");
    assert!(products.clone().all(|row| row["bound"] == "synchronisation"), "{:#}", verdict["operators"]);
    assert_eq!(products.count(), 2);
}

#[test]
fn lanes_that_wait_for_the_disk_are_disk_bound() {
    let run = Run { kept: Kept::Disk(500_000), ..MEMORY };
    let verdict = Trace::new(run).verdict();
    let decode = &verdict["phases"][0];
    // Lane 1 is blocked, and lane 0 waits for it.
    assert_eq!((&decode["bound"], &decode["confidence"]), (&"disk".into(), &"high".into()), "{decode:#}");
    let disk = share(&decode["parts"]["disk"]);
    assert!((disk - 500.0 / 723.0).abs() < 0.01, "{decode:#}");
    let sentences = verdict["sentences"].as_array().unwrap();
    let expected = format!(
        "Decode is disk-bound: {:.1} % of thread time is waiting for the disk, or for a thread that does (160 major faults).",
        disk * 100.0
    );
    assert_eq!(sentences[0], expected);
    assert!(sentences[1].as_str().unwrap().ends_with(" of the time and is memory-bound."), "{sentences:?}");
    let advice = &verdict["advice"][0];
    let what = "Keep the model in memory: preload the file, free memory for it, or lock it (mlock)";
    assert_eq!((&advice["phase"], &advice["what"]), (&"decode".into(), &what.into()), "{:#}", verdict["advice"]);
    assert!((share(&advice["gain_at_most"]) - disk).abs() < 1e-9, "{advice}");
}

#[test]
fn experts_that_are_not_in_memory_are_named() {
    let run = Run { kept: Kept::Disk(500_000), experts: true, ..MEMORY };
    let verdict = Trace::new(run).verdict();
    let advice = &verdict["advice"][0];
    let what = "Keep the experts in memory: preload the file, free memory for it, or lock it (mlock)";
    assert_eq!(advice["what"], what, "{:#}", verdict["advice"]);
    let decode = &verdict["phases"][0];
    assert_eq!(decode["bound"], "disk", "{decode:#}");
    assert!((share(&advice["gain_at_most"]) - share(&decode["parts"]["disk"])).abs() < 1e-9, "{advice}");
    assert_eq!(advice["how"], "time waiting for the disk, or for a thread that does");
}

#[test]
fn a_neighbour_on_its_cpu_starves_a_lane() {
    let run = Run { kept: Kept::Neighbour(500_000), ..MEMORY };
    let verdict = Trace::new(run).verdict();
    let decode = &verdict["phases"][0];
    assert_eq!((&decode["bound"], &decode["confidence"]), (&"starved".into(), &"high".into()), "{decode:#}");
    let starved = share(&decode["parts"]["starved"]);
    let expected = format!(
        "Decode is starved: {:.1} % of thread time is run-queue delay, or waiting at barriers because of it: lane 1 shared \
         CPU 1 with `neighbour` (pid {NEIGHBOUR}).",
        starved * 100.0
    );
    assert_eq!(verdict["sentences"][0], expected);
    let advice = &verdict["advice"][0];
    let what = "Reserve CPUs for it (taskset, cpuset): `neighbour` used them too";
    assert_eq!(advice["what"], what, "{:#}", verdict["advice"]);
    assert!((share(&advice["gain_at_most"]) - starved).abs() < 0.01, "it took all of it: {advice}");
}

#[test]
fn lanes_that_share_one_of_two_cpus_are_to_be_pinned() {
    let run = Run { kept: Kept::EachOther, ..MEMORY };
    let verdict = Trace::new(run).verdict();
    let decode = &verdict["phases"][0];
    assert_eq!(decode["bound"], "starved", "{decode:#}");
    assert!(decode["evidence"][0].as_str().unwrap().contains(": 2 lanes share 1 CPU."), "{decode:#}");
    let advice = &verdict["advice"][0];
    assert_eq!(advice["what"], "Pin its 2 threads to separate CPUs: they ran on 1 CPU", "{:#}", verdict["advice"]);
    // Side by side, a product takes half as long as one after the other; at the memory's limit a little less.
    assert!((share(&advice["gain_as_recorded"]) - 0.5).abs() < 0.02, "{advice}");
    assert!((0.5..0.55).contains(&share(&advice["gain_at_most"])), "{advice}");
    assert!(advice["how"].as_str().unwrap().ends_with(" of operator work, spread evenly over 2 CPUs"), "{advice}");
}

#[test]
fn small_operators_on_several_lanes_want_fewer_threads() {
    let tiny = Run { size: 64, product_ns: 4_000, waiting_ns: 3_000, ..MEMORY };
    let verdict = Trace::new(tiny).verdict();
    assert_eq!(verdict["phases"][0]["bound"], "overhead");
    let what = "Try fewer than 2 threads: its operators are too small to share";
    let advice = &verdict["advice"][0];
    assert_eq!(advice["what"], what, "{:#}", verdict["advice"]);
    // One lane of two waits for 3 µs of the 9 that a product and the small operator after it take.
    assert!((share(&advice["gain_at_most"]) - 3.0 / 18.0).abs() < 0.01, "{advice}");
    let alone = Trace::new(Run { lanes: 1, ..tiny }).verdict();
    assert_eq!(alone["advice"], serde_json::json!([]), "a lane alone waits for nobody");
}
