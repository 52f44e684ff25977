//! What `profinfer report` opens with, of traces that are made to be of a kind, and what it must not claim of them.
//! Runs of real engines are in `tests/engines/verdicts.rs`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what went wrong by panicking")]

use profinfer::analysis::testing::{Put, Records};
use profinfer::trace::{CacheSize, End, Figure, Host, Level, Origin, Quantity, Roofline, TraceWriter};
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;

const PROBESET: &str = r#"profinfer: 1
engine: toy
summary: Matrix products
types:
  tensor_t: { name: "char[32]" }
objects:
  tensor: { of: tensor_t, fields: { name: name } }
modules: { engine: engine }
probes:
  step: { at: engine:step(i32 tokens), role: step, fields: { tokens: tokens } }
analysis:
  layer: name ~ "-(\d+)$"
  dtypes: { f32: 4, f16: 2, q8: 1.0625, i64: 8 }
  weights: { of: name ~ "weight$", types: [f32, f16, q8] }
  costs:
    MUL_MAT:
      flops: 2 * shape[0] * shape[1] * inputs[0].shape[0]
      bytes: inputs[0].bytes + inputs[1].bytes + bytes
    ADD: { flops: "shape[0] * shape[1]", bytes: "inputs[*].bytes + bytes" }
  advice:
    library:
      when: phase == "prefill" && bound == "compute" && of_peak < 0.4
      say: Use the faster products
"#;

fn figure(quantity: Quantity, level: Option<Level>, cpus: u32, best: u64) -> Figure {
    let kind = "loop".to_owned();
    Figure {
        quantity,
        level,
        cpus,
        core_type: None,
        instructions: kind,
        working_set: 0,
        repetitions: 9,
        best,
        median: best,
        low: best,
        high: best,
        off_cpu_percent: 0,
    }
}

/// 10 and 20 GB/s out of memory, 40 GB/s out of a cache of 8 MiB, 100 and 200 GFLOP/s.
fn machine() -> Roofline {
    let figures = vec![
        figure(Quantity::Read, Some(Level::Memory), 1, 10_000_000_000),
        figure(Quantity::Read, Some(Level::Memory), 2, 20_000_000_000),
        figure(Quantity::Read, Some(Level::L3), 2, 40_000_000_000),
        figure(Quantity::Fp32, None, 1, 100_000_000_000),
        figure(Quantity::Fp32, None, 2, 200_000_000_000),
    ];
    let caches = vec![CacheSize { level: 3, bytes: 8 << 20, shared_by: 2 }];
    Roofline { cpus: 2, caches, figures, ..Roofline::default() }
}

/// What the toy engine does.
#[derive(Clone, Copy)]
struct Run {
    /// Rows and columns of a weight; there are two in each of four layers, and a small operator after each.
    size: i64,
    tokens: i64,
    /// Of a product on each of two lanes, and how long lane 1 waits for lane 0 on top.
    product_ns: u64,
    waiting_ns: u64,
    steps: u64,
    roofline: bool,
    costs: bool,
}

/// Eight weights of 4 MiB, read at 19 GB/s.
const MEMORY: Run =
    Run { size: 1024, tokens: 1, product_ns: 221_000, waiting_ns: 0, steps: 20, roofline: true, costs: true };

struct Trace {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl Trace {
    fn new(run: Run) -> Self {
        let records = records(run);
        let mut source = PROBESET.to_owned();
        if !run.costs {
            source.truncate(source.find("  costs:").unwrap());
        }
        let host = Host { cpus: 2, ..Host::default() };
        let origin = Origin {
            engine: "toy".into(),
            sources: vec![("toy.yaml".to_owned(), source)],
            pid: 100,
            host,
            roofline: run.roofline.then(machine),
            ..Origin::default()
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.pfi");
        let mut writer = TraceWriter::new(std::fs::File::create(&path).unwrap(), &origin, &records.schema).unwrap();
        for record in &records.records {
            writer.push(record).unwrap();
        }
        writer.finish(&End { time: 1 << 40, reason: "the target ended".into(), ..End::default() }).unwrap();
        Self { _folder: folder, path }
    }

    fn report(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_profinfer"));
        let output = command.arg("report").arg(&self.path).args(arguments).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn verdict(&self) -> Value {
        serde_json::from_str::<Value>(&self.report(&["--json"])).unwrap()["verdict"].clone()
    }
}

fn records(run: Run) -> Records {
    let mut r = Records::default();
    for tid in [1, 2] {
        r.push("thread", tid, (0, 0), &[("pid", Put::Int(100))]);
    }
    let Run { size, tokens, .. } = run;
    let mut describe = |address: u64, op: &str, name: &str, shape: [i64; 2], inputs: &[i64]| {
        let shape = [shape[0], shape[1], 1, 1];
        let fields = [
            ("address", Put::Int(address)),
            ("op", Put::Text(op)),
            ("name", Put::Text(name)),
            ("dtype", Put::Text("f32")),
            ("shape", Put::List(&shape)),
            ("inputs", Put::List(inputs)),
        ];
        r.push("tensor", 1, (1, 1), &fields);
    };
    describe(0x10, "NONE", "input", [size, tokens], &[]);
    for layer in 0..4_u64 {
        for (i, name) in ["up", "down"].into_iter().enumerate() {
            let at = 0x100 + layer * 0x20 + i as u64 * 0x10;
            let weight = 0x1000 + at;
            describe(weight, "NONE", &format!("blk.{layer}.{name}.weight"), [size, size], &[]);
            describe(at, "MUL_MAT", &format!("{name}-{layer}"), [size, tokens], &[weight.cast_signed(), 0x10]);
            describe(at + 8, "ADD", &format!("{name}_add-{layer}"), [64, 1], &[]);
        }
    }
    let mut at = 1000;
    for _ in 0..run.steps {
        let start = at;
        at += 500;
        let graph = at;
        for node in (0..8).map(|n| 0x100 + n * 0x10) {
            for (node, work, waiting) in [(node, run.product_ns, run.waiting_ns), (node + 8, 2000, 0)] {
                for (tid, lane) in [(1, 0), (2, 1)] {
                    let wait = if lane == 1 { waiting } else { 0 };
                    let fields = [("lane", Put::Int(lane)), ("node", Put::Int(node)), ("waiting", Put::Int(wait))];
                    r.push("operator", tid, (at, at + work + waiting), &fields);
                }
                at += work + waiting;
            }
        }
        r.push("graph", 1, (graph, at), &[("backend", Put::Text("CPU"))]);
        at += 500;
        r.push("step", 1, (start, at), &[("tokens", Put::Int(tokens.cast_unsigned()))]);
    }
    r
}

fn share(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value}"))
}

#[test]
fn a_report_opens_with_what_limits_the_model_and_what_would_help() {
    let trace = Trace::new(MEMORY);
    let text = trace.report(&[]);
    let opening: Vec<&str> = text.lines().take(4).collect();
    assert!(opening[0].starts_with("Complete: 20 steps"), "{text}");
    assert_eq!(opening[1], "");
    let expected = "Decode is memory-bound: 99.0 % of its time is in MUL_MAT (2 per layer), which moves 19.0 of this \
                    machine's 20 GB/s.";
    assert_eq!(opening[2], expected);
    let expected = "  → Keep the weights in f16 instead of f32. Decode takes at most 49.4 % less time: 32.0 MiB of \
                    weights a step would be 16.0 MiB, and reading them takes 98.9 % of the time.";
    assert_eq!(opening[3], expected);
    assert!(text.contains("What limits operators (decode; memory, peak:"), "{text}");
    let verdict = trace.verdict();
    assert_eq!(verdict["sentences"][0], opening[2]);
    assert_eq!(
        verdict["cannot_say"],
        serde_json::json!(["Whether lanes were kept from running was not recorded (the scheduler's events)."])
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
fn a_prompt_that_uses_each_byte_often_is_compute_bound() {
    // 512 tokens: 1.07 GFLOP a product, 50 GFLOP/s.
    let run = Run { tokens: 512, product_ns: 21_470_000, steps: 2, ..MEMORY };
    let verdict = Trace::new(run).verdict();
    let prefill = &verdict["phases"][0];
    assert_eq!((&prefill["phase"], &prefill["bound"]), (&"prefill".into(), &"compute".into()));
    assert_eq!(prefill["parts"]["memory"], 0.0);
    let sentence = verdict["sentences"][0].as_str().unwrap();
    let expected = "Prefill is compute-bound: 100.0 % of its time is in MUL_MAT (2 per layer), at 50.0 of this machine's \
                    200 GFLOP/s; with 128 operations for each byte, memory is not what limits it.";
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
fn without_costs_nothing_is_said_of_rates() {
    let verdict = Trace::new(Run { costs: false, ..MEMORY }).verdict();
    assert_eq!(verdict["phases"][0]["bound"], "unknown");
    assert_eq!(verdict["phases"][0]["bytes_per_step"], Value::Null);
    let said = verdict["cannot_say"][0].as_str().unwrap();
    assert!(said.starts_with("The probeset does not say what operators cost"), "{said}");
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
    let expected = "Decode is overhead-bound: a step is 16 operators of 3.06 µs each, and 100.0 % of its time is in those \
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
    let waiting = "Its 2 lanes wait for the slowest 36.4 % of the time, which is lane 0 in 100.0 % of operators.";
    assert!(sentences.iter().any(|sentence| sentence == waiting), "{sentences:?}");
}
