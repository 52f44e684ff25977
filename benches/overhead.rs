//! What being recorded costs an engine: decoding time by the engine's own clock, bare and recorded at each level, in
//! random order within each round, so that the machine's mood hits all alike. Needs root and the wheel's environment.
//!
//! `cargo bench --bench overhead -- PYTHON MODEL [ROUNDS]`

#![allow(clippy::expect_used, reason = "a benchmark that cannot run says so by panicking")]

use std::path::Path;
use std::process::{Command, Stdio};

const TOKENS: f64 = 200.0;
/// Each is run once a round. The first is what the others are compared with; the second must come out as 1.
const CONDITIONS: [(&str, Option<&[&str]>); 6] = [
    ("bare", None),
    ("bare again", None),
    ("steps", Some(&["--level", "step"])),
    ("graphs", Some(&["--level", "graph"])),
    ("operators", Some(&["--no-probe", "barrier"])),
    ("operators and barriers", Some(&[])),
];

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let [python, model, rest @ ..] = words.as_slice() else {
        println!("overhead: give the wheel's interpreter and a model; nothing measured");
        return;
    };
    let rounds: usize = rest.first().and_then(|rounds| rounds.parse().ok()).unwrap_or(25);
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); CONDITIONS.len()];
    for _ in 0..rounds {
        let mut order: Vec<usize> = (0..CONDITIONS.len()).collect();
        for at in (1..order.len()).rev() {
            order.swap(at, random.below(at + 1));
        }
        for condition in order {
            times[condition].push(decode_ms(Path::new(python), model, CONDITIONS[condition].1));
        }
    }
    println!("{rounds} rounds; a token alone: {:.3} ms", median(times[0].clone()) / TOKENS);
    println!("{:<24} {:>8}  {:<16} {:>14}", "", "ratio", "95 % interval", "added, µs/token");
    for (condition, (name, _)) in CONDITIONS.iter().enumerate().skip(1) {
        let ratios: Vec<f64> = times[condition].iter().zip(&times[0]).map(|(a, b)| a / b).collect();
        let added: Vec<f64> = times[condition].iter().zip(&times[0]).map(|(a, b)| (a - b) / TOKENS * 1e3).collect();
        let (low, high) = interval(&ratios, &mut random);
        println!("{name:<24} {:>8.3}  [{low:.3}, {high:.3}]   {:>14.0}", median(ratios), median(added));
    }
}

/// Decoding time of one run by the engine's own clock.
fn decode_ms(python: &Path, model: &str, recorded: Option<&[&str]>) -> f64 {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/engines/run_xllamacpp.py");
    let tokens = TOKENS.to_string();
    let engine = [script, "--model", model, "--threads", "1", "--tokens", tokens.as_str()];
    let trace = std::env::temp_dir().join("profinfer-overhead.pfi");
    let mut command = match recorded {
        None => Command::new(python),
        Some(options) => {
            let mut command = Command::new(env!("CARGO_BIN_EXE_profinfer"));
            command.args(["record", "llama", "-o"]).arg(&trace).args(options).arg("--").arg(python);
            command
        }
    };
    let output = command.args(engine).stderr(Stdio::null()).output().expect("the engine runs");
    let _ = std::fs::remove_file(trace);
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it says how long it took, as JSON");
    said["decode_ms"].as_f64().expect("a number")
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The middle 95 % of the medians of 2,000 samples drawn with replacement (percentile bootstrap).
fn interval(values: &[f64], random: &mut Random) -> (f64, f64) {
    let mut draw = || median((0..values.len()).map(|_| values[random.below(values.len())]).collect());
    let mut medians: Vec<f64> = (0..2000).map(|_| draw()).collect();
    medians.sort_unstable_by(f64::total_cmp);
    (medians[50], medians[1949])
}

/// A linear congruential generator (Knuth's MMIX constants): order and samples need no better.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % bound
    }
}
