//! Requests of a server as the report has them, compared with the server's own timings: queued, batched, cancelled, and
//! with a prompt that it has a part of.

use crate::engine::{alone, here, model, python, script};
use crate::recording::Recording;
use crate::rows;
use serde_json::Value;

/// One run of the server.
struct Case {
    slots: u64,
    requests: u64,
    options: &'static [&'static str],
}

const CASES: &[Case] = &[
    // One client; then the same prompt once more, all but a token of it cached.
    Case { slots: 1, requests: 1, options: &["--again"] },
    // In the process, some waiting for a slot: whatever the machine's speed, they come while others decode.
    Case { slots: 2, requests: 4, options: &["--stagger", "10", "--tokens", "48"] },
    Case { slots: 2, requests: 2, options: &["--http"] },
    // All at once, a fifth that hangs up, and one that waits.
    Case { slots: 4, requests: 5, options: &["--http", "--cancel", "--stagger", "5", "--tokens", "48"] },
];

/// The server's clock is read some microseconds beside the steps; its own work between them grows with a busy machine.
fn near(ours: &Value, ns_of_server: f64) -> bool {
    let ours = ours.as_f64().unwrap();
    (ours - ns_of_server).abs() <= (0.02 * ns_of_server).max(1e6)
}

#[test]
#[ignore = "needs root"]
fn requests_have_the_server_s_own_times() {
    let _alone = alone();
    for case in CASES {
        let words = [python().display().to_string(), here().join("run_xllamacpp_server.py").display().to_string()];
        let (model, slots) = (model("small-dense").display().to_string(), case.slots.to_string());
        let requests = case.requests.to_string();
        let recording = Recording::new(
            "llama",
            &["--level", "step"],
            |command| {
                command.arg("--").args(&words).args(["--model", &model, "--slots", &slots]);
                command.args(["--requests", &requests]).args(case.options);
            },
            0,
        );
        assert_case(case, &recording);
    }
}

/// What the target printed: lines of JSON among others.
fn printed(recording: &Recording) -> Vec<Value> {
    let lines = recording.output.stdout.split(|byte| *byte == b'\n');
    lines.filter_map(|line| serde_json::from_slice(line).ok()).collect()
}

fn assert_case(case: &Case, recording: &Recording) {
    let report = recording.report(&["--by", "request"]);
    let what = format!("{} slots, {} requests, {:?}", case.slots, case.requests, case.options);
    let mut of_server = printed(recording);
    let cancelled = u64::from(case.options.contains(&"--cancel"));
    let ours: Vec<&Value> = rows(&report["requests"]).collect();
    assert_eq!(ours.len() as u64, of_server.len() as u64 + cancelled, "{what}: {ours:#?}");
    assert_eq!(report["requests_total"], ours.len());
    let mut apart = 0;
    for row in &ours {
        let same = |server: &Value| {
            let ms = |key: &str| server[key].as_f64().unwrap() * 1e6;
            server["prompt_n"] == row["input_tokens"]
                && server["predicted_n"] == row["output_tokens"]
                && server["cache_n"] == row["cached_tokens"]
                && near(&row["prefill_ns"], ms("prompt_ms"))
                && near(&row["decode_ns"], ms("predicted_ms"))
        };
        match of_server.iter().position(same) {
            Some(found) => drop(of_server.remove(found)),
            None => apart += 1,
        }
    }
    assert_eq!(apart, cancelled, "{what}: {of_server:#?} are not in {ours:#?}");
    assert!(of_server.is_empty(), "{what}: {of_server:#?}");
    for row in &ours {
        let ns = |key: &str| row[key].as_u64().unwrap();
        assert_eq!(ns("time_to_first_token_ns"), ns("queued_ns") + ns("prefill_ns"), "{row:#}");
        assert!(row["request"].is_u64() && ns("sequence") < case.slots, "{row:#}");
        let share = row["batch_share"].as_f64().unwrap();
        assert!(share > 0.0 && share <= 1.0 + 1e-9 && (case.requests > 1 || share > 0.999), "{row:#}");
    }
    // More requests than slots: the last ones wait for a slot, longer than a step.
    if case.requests > case.slots {
        let longest = ours.iter().map(|row| row["queued_ns"].as_u64().unwrap()).max().unwrap();
        assert!(longest > 20_000_000, "{what}: {longest} ns");
    }
    // A step in which each sequence gets one token is decode, however many there are.
    let decode = crate::find(&report["phases"], "phase", "decode");
    let prefill = crate::find(&report["phases"], "phase", "prefill");
    assert!(decode["steps"].as_u64().unwrap() > prefill["steps"].as_u64().unwrap(), "{what}: {decode:#} {prefill:#}");
}

/// Clients of another package, by their own clocks: these begin before the engine's step, and end after it.
#[test]
#[ignore = "needs root"]
fn requests_of_node_llama_cpp_are_its_clients() {
    let _alone = alone();
    let folder = script("install_node.sh", &[]);
    for clients in [1, 2, 4] {
        let recording = Recording::new(
            "llama",
            &["--level", "step"],
            |command| {
                command.arg("--").arg(folder.join("bin/node")).arg(here().join("clients_llama_node.mjs")).arg(&folder);
                command.arg(model("small-dense")).args([&clients.to_string(), "40"]);
            },
            0,
        );
        let report = recording.report(&["--by", "request"]);
        let ours: Vec<&Value> = rows(&report["requests"]).collect();
        let clocks = printed(&recording);
        assert_eq!((ours.len(), clocks.len()), (clients, clients), "{ours:#?}");
        for clock in &clocks {
            let row = ours.iter().find(|row| row["input_tokens"] == clock["prompt_n"]);
            let row = row.unwrap_or_else(|| panic!("{clock}: {ours:#?}"));
            assert_eq!(row["output_tokens"], clock["predicted_n"], "{row:#}");
            let ns = |key: &str| clock[key].as_f64().unwrap() * 1e6;
            // The client gets the first token, and the last one, when its thread has the time.
            let (prefill, decode) = (row["prefill_ns"].as_f64().unwrap(), row["decode_ns"].as_f64().unwrap());
            let first_late = ns("prompt_ms") - prefill;
            let last_late = first_late + ns("predicted_ms") - decode;
            for late in [first_late, last_late] {
                assert!((-1e6..25e6).contains(&late), "{clients} clients: {row:#} {clock}");
            }
            assert!(clients > 1 || near(&row["decode_ns"], ns("predicted_ms")), "{row:#} {clock}");
        }
    }
}

/// The engine tries its own cache with two tokens at load: they are no part of the first prompt.
#[test]
#[ignore = "needs root"]
fn time_to_first_token_is_the_engine_s_own() {
    let _alone = alone();
    for engine in [crate::engine::Engine::Wheel, crate::engine::Engine::Shared] {
        let workload = crate::engine::Workload { prompt: 64, tokens: 4, ..crate::engine::workload("small-dense", 1) };
        let recording = crate::models::record(engine, &workload, &["--level", "step"]);
        let engine_s: Value = serde_json::from_slice(&recording.output.stdout).unwrap();
        let report = recording.report(&["--by", "request"]);
        assert_eq!(report["ttft"]["count"], 1, "{:#}", report["ttft"]);
        let prefill = engine_s["prefill_ms"].as_f64().unwrap() * 1e6;
        let request = &report["requests"][0];
        assert!(near(&request["prefill_ns"], prefill), "{engine:?}: {request:#} and {prefill} ns");
        // The engine's own time does not have what it took to be given a slot.
        let queued = request["queued_ns"].as_f64().unwrap_or(0.0);
        let first = request["prefill_ns"].as_f64().unwrap() + queued;
        assert_eq!(report["ttft"]["mean_ns"].as_f64(), Some(first), "{request:#}");
    }
}
