//! Why two traces differ, as `profinfer diff` has it: traces are written with a cause in one of them, and what is found
//! must be what was written. Pairs without a cause must not differ in any line.

use crate::written;
use profinfer_analysis::testing::{Put, Records};
use profinfer_schema::{FieldLayout, FieldType, Notice, Pressure};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Names of the operators of a layer, and ns of each.
const OPERATORS: [(&str, &str, u64); 4] = [
    ("RMS_NORM", "norm", 4000),
    ("MUL_MAT", "attn_q", 40_000),
    ("SOFT_MAX", "soft", 9000),
    ("MUL_MAT", "ffn_up", 90_000),
];
/// Between two steps.
const PERIOD: u64 = 100_000_000;

/// What a trace is written of.
#[derive(Debug, Clone, Copy)]
struct Written {
    layers: u64,
    steps: u64,
    seed: u64,
    /// The time of one operator of a step: number of the step, layer, place in it, ns.
    change: fn(u64, u64, usize, u64) -> u64,
    /// Tokens of a step.
    tokens: fn(u64) -> u64,
    /// Another process that takes so much of each step, ns.
    neighbour: Option<(u32, &'static str, u64)>,
    /// A signal stops it for so much of each step, ns.
    stopped: u64,
    /// A quota, and how much it throttles in each step, ns.
    quota: Option<(f64, u64)>,
}

const PLAIN: Written = Written {
    layers: 8,
    steps: 30,
    seed: 1,
    change: |_, _, _, ns| ns,
    tokens: |_| 1,
    neighbour: None,
    stopped: 0,
    quota: None,
};

/// The same numbers at every run (xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, most: u64) -> u64 {
        (self.next() >> 16) % most
    }

    /// From -0.5 to 0.5.
    fn around_zero(&mut self) -> f64 {
        self.below(1 << 32) as f64 / (1_u64 << 32) as f64 - 0.5
    }
}

/// Adds a field to a kind of record.
fn field(r: &mut Records, kind: &str, name: &str, ty: FieldType) {
    let record = r.schema.records.iter_mut().find(|record| record.name == kind).unwrap();
    let offset = record.size.next_multiple_of(ty.align());
    record.size = (offset + ty.size()).next_multiple_of(8);
    record.fields.push(FieldLayout { name: name.to_owned(), offset, ty });
}

fn switch(r: &mut Records, time: u64, prev: (u32, u64), next: u32, comms: [&str; 2]) {
    let fields = [
        ("prev_state", Put::Int(prev.1)),
        ("prev_pid", Put::Int(if prev.0 == 1 { 100 } else { prev.0.into() })),
        ("next_tid", Put::Int(next.into())),
        ("next_pid", Put::Int(if next == 1 { 100 } else { next.into() })),
        ("prev_comm", Put::Text(comms[0])),
        ("next_comm", Put::Text(comms[1])),
    ];
    r.push("switch", prev.0, (time, time), &fields);
}

impl Written {
    fn write(&self, path: &Path) -> PathBuf {
        let mut r = written::begin();
        let comm = || FieldType::Text(16);
        for (name, ty) in [
            ("prev_pid", FieldType::Uint(4)),
            ("next_pid", FieldType::Uint(4)),
            ("prev_comm", comm()),
            ("next_comm", comm()),
        ] {
            field(&mut r, "switch", name, ty);
        }
        for layer in 0..self.layers {
            for (place, (op, name, _)) in OPERATORS.iter().enumerate() {
                let name = format!("{name}-{layer}");
                written::describe(&mut r, 1, address(layer, place), (op, &name), &[64, 1, 1, 1], &[]);
            }
        }
        switch(&mut r, 10, (50, 0), 1, ["init", "engine"]);
        let mut random = Random(self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let mut notices = vec![Notice { time: PERIOD, ..Notice::default() }];
        let mut level = 0.0;
        for step in 1..=self.steps {
            let at = step * PERIOD;
            // Disturbances last for some steps, and some operators are interrupted.
            level = 0.7 * level + 0.004 * random.around_zero();
            let mut now = at + 2000;
            for layer in 0..self.layers {
                for (place, (_, _, ns)) in OPERATORS.iter().enumerate() {
                    let own = (self.change)(step, layer, place, *ns) as f64;
                    let noise = 1.0 + level + 0.03 * random.around_zero();
                    let interrupted = if random.below(500) == 0 { 4000 } else { 0 };
                    let mut end = now + (own * noise) as u64 + interrupted;
                    if (layer, place) == (step % self.layers, 1) {
                        end += self.interrupt(&mut r, now + 1000);
                    }
                    r.push("operator", 1, (now, end), &[("node", Put::Int(address(layer, place)))]);
                    now = end + 300;
                }
            }
            r.push("graph", 1, (at + 1500, now + 200), &[("backend", Put::Text("cpu"))]);
            r.push("step", 1, (at, now + 1000), &[("tokens", Put::Int((self.tokens)(step)))]);
            let pressure = Pressure {
                since: at,
                user_ns: 80_000_000,
                system_ns: 10_000_000,
                cpu_quota: self.quota.map(|(quota, _)| quota),
                throttled_ns: Some(self.quota.map_or(0, |(_, ns)| ns)),
                ..Pressure::default()
            };
            notices.push(Notice { time: now + 1000, pressure: Some(pressure), ..Notice::default() });
        }
        written::write_with(path, &written::origin(written::PROBESET), &r, &notices);
        path.to_owned()
    }

    /// What keeps the thread from running, from a time on; gives how long.
    fn interrupt(&self, r: &mut Records, from: u64) -> u64 {
        let mut now = from;
        if let Some((pid, name, ns)) = self.neighbour {
            switch(r, now, (1, 0), pid, ["engine", name]);
            switch(r, now + ns, (pid, 0), 1, [name, "engine"]);
            now += ns;
        }
        if let Some((_, ns)) = self.quota {
            switch(r, now, (1, 0), 0, ["engine", "swapper"]);
            switch(r, now + ns, (0, 0), 1, ["swapper", "engine"]);
            now += ns;
        }
        if self.stopped > 0 {
            switch(r, now, (1, 4), 0, ["engine", "swapper"]);
            r.push("wakeup", 1, (now + self.stopped, now + self.stopped), &[("target_cpu", Put::Int(0))]);
            switch(r, now + self.stopped, (0, 0), 1, ["swapper", "engine"]);
            now += self.stopped;
        }
        now - from
    }
}

fn address(layer: u64, place: usize) -> u64 {
    0x1000 + 0x10 * layer + place as u64
}

fn diff(a: &Path, b: &Path, arguments: &[&str]) -> Value {
    let output =
        Command::new(env!("CARGO_BIN_EXE_profinfer")).arg("diff").args([a, b]).args(arguments).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)))
}

fn compared(a: Written, b: Written, arguments: &[&str]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (a.write(&folder.path().join("a.pfi")), b.write(&folder.path().join("b.pfi")));
    diff(&a, &b, &[&["--json"], arguments].concat())
}

fn phase<'a>(report: &'a Value, name: &str) -> &'a Value {
    report["phases"].as_array().unwrap().iter().find(|phase| phase["phase"] == name).unwrap()
}

fn cause<'a>(phase: &'a Value, name: &str) -> &'a Value {
    let causes = phase["causes"].as_array().unwrap();
    causes.iter().find(|row| row["cause"] == name).unwrap_or_else(|| panic!("no {name}: {causes:#?}"))
}

fn difference(row: &Value) -> f64 {
    row["time"]["difference"].as_f64().unwrap()
}

fn is_significant(row: &Value) -> bool {
    row["time"]["judgement"] == "more" || row["time"]["judgement"] == "less"
}

/// Causes that differ.
fn differing(phase: &Value) -> Vec<&str> {
    let causes = phase["causes"].as_array().unwrap().iter().filter(|row| is_significant(row));
    causes.map(|row| row["cause"].as_str().unwrap()).collect()
}

fn why(phase: &Value) -> String {
    phase["why"].as_array().unwrap().iter().map(|why| why.as_str().unwrap()).collect::<Vec<_>>().join("\n")
}

/// The causes of a step are all of it, on both sides.
fn assert_adds_up(phase: &Value) {
    for side in ["a", "b"] {
        let sum: f64 = phase["causes"].as_array().unwrap().iter().map(|row| row["time"][side].as_f64().unwrap()).sum();
        let whole = phase["time"][side].as_f64().unwrap();
        assert!((sum - whole).abs() < 1e-6 * whole, "{side}: {sum} of {whole}");
    }
}

#[test]
fn a_neighbour_is_named_with_what_it_took() {
    let disturbed = Written { neighbour: Some((4711, "sh", 300_000)), seed: 2, ..PLAIN };
    let report = compared(PLAIN, disturbed, &["--fail-above", "3%"]);
    let decode = phase(&report, "decode");
    assert_adds_up(decode);
    assert_eq!(differing(decode), ["run_queue"], "{}", why(decode));
    let queue = cause(decode, "run_queue");
    assert!((difference(queue) - 300_000.0).abs() < 1.0, "{queue:#}");
    assert!((queue["of_difference"].as_f64().unwrap() - 1.0).abs() < 0.05, "{queue:#}");
    let because = &queue["because"][0];
    assert_eq!(
        (&because["name"], &because["pids"][0], &because["pids"][1]),
        (&"sh".into(), &Value::Null, &4711.into())
    );
    assert!((because["ns"][1].as_f64().unwrap() - 300_000.0).abs() < 1.0, "{because:#}");
    assert!(why(decode).starts_with("Run queue: +300 µs per step"), "{}", why(decode));
    assert!(why(decode).contains("because of `sh` (pid 4711)"), "{}", why(decode));
    assert_eq!(report["failures"].as_array().unwrap().len(), 1);
    // In the other direction it is gone, and nobody fails.
    let report = compared(disturbed, PLAIN, &["--fail-above", "3%"]);
    assert_eq!(cause(phase(&report, "decode"), "run_queue")["time"]["judgement"], "less");
    assert_eq!(report["failures"].as_array().unwrap().len(), 0);
}

#[test]
fn each_cause_is_that_which_was_made() {
    let stopped = Written { stopped: 200_000, seed: 3, ..PLAIN };
    let report = compared(PLAIN, stopped, &[]);
    assert_eq!(differing(phase(&report, "decode")), ["stopped"]);
    assert!((difference(cause(phase(&report, "decode"), "stopped")) - 200_000.0).abs() < 1.0);
    let throttled = Written { quota: Some((0.3, 250_000)), seed: 4, ..PLAIN };
    let report = compared(PLAIN, throttled, &[]);
    let decode = phase(&report, "decode");
    assert_adds_up(decode);
    assert_eq!(differing(decode), ["throttled"], "{}", why(decode));
    assert!(why(decode).contains("because of the quota of 0.30 CPUs"), "{}", why(decode));
    // A slower product is its own time, and no layer is unlike the others.
    let slower = Written { change: |_, _, place, ns| if place == 3 { ns * 6 / 5 } else { ns }, seed: 5, ..PLAIN };
    let report = compared(PLAIN, slower, &[]);
    let decode = phase(&report, "decode");
    assert!(differing(decode).contains(&"operators"), "{:?}", differing(decode));
    assert!(!why(decode).contains("Layer"), "{}", why(decode));
    // Two at once are two.
    let both = Written { neighbour: Some((9, "cc1", 150_000)), stopped: 150_000, seed: 6, ..PLAIN };
    let report = compared(PLAIN, both, &[]);
    assert_eq!(differing(phase(&report, "decode")), ["run_queue", "stopped"]);
}

/// One of sixteen layers takes 45.7 % longer: a step hardly does.
#[test]
fn one_layer_of_sixteen_reaches_the_headline_and_the_limit() {
    let plain = Written { layers: 16, ..PLAIN };
    let one = |_: u64, layer: u64, _: usize, ns: u64| if layer == 7 { ns * 1457 / 1000 } else { ns };
    let one = Written { change: one, seed: 7, ..plain };
    let report = compared(plain, one, &["--fail-above", "5%"]);
    let decode = phase(&report, "decode");
    let layer = decode["layers"].as_array().unwrap().iter().find(|row| row["layer"] == "7").unwrap();
    assert!((layer["time"]["relative"].as_f64().unwrap() - 0.457).abs() < 0.02, "{layer:#}");
    assert!(layer["unlike_others"].as_f64().unwrap().abs() < 0.01, "{layer:#}");
    let odd = decode["layers"].as_array().unwrap().iter().filter(|row| !row["unlike_others"].is_null());
    assert_eq!(odd.count(), 1);
    assert!(why(decode).contains("Layer 7 is slower: +45."), "{}", why(decode));
    assert!(why(decode).contains("most of it: MUL_MAT ffn_up-*"), "{}", why(decode));
    assert!(decode["time"]["relative"].as_f64().unwrap() < 0.05, "{decode:#}");
    let failures = report["failures"].as_array().unwrap();
    assert_eq!(failures.len(), 1, "{failures:?}");
    assert!(failures[0].as_str().unwrap().starts_with("layer 7 of decode is slower: "), "{failures:?}");
    // Faster is named, too, and fails nothing.
    let report = compared(one, plain, &["--fail-above", "5%"]);
    assert!(why(phase(&report, "decode")).contains("Layer 7 is faster: −31."), "{}", why(phase(&report, "decode")));
    assert!(report["failures"].as_array().unwrap().is_empty());
}

/// The prefill of one prompt is one step: that all of it takes 86 % longer is found, and one disturbance is not.
#[test]
fn one_prefill_step_is_judged_by_its_operators() {
    let prompt = |step: u64| if step == 1 { 64 } else { 1 };
    let plain = Written { tokens: prompt, ..PLAIN };
    let slower = Written { change: |step, _, _, ns| if step == 1 { ns * 186 / 100 } else { ns }, seed: 8, ..plain };
    let report = compared(plain, slower, &["--fail-above", "10%"]);
    let prefill = phase(&report, "prefill");
    assert_eq!((&prefill["few"], &prefill["time"]["judgement"]), (&true.into(), &"more".into()), "{prefill:#}");
    assert!((prefill["time"]["relative"].as_f64().unwrap() - 0.85).abs() < 0.03, "{}", prefill["time"]);
    assert!(prefill["compared"]["text"].as_str().unwrap().contains("operator by operator"));
    assert_eq!(report["failures"].as_array().unwrap().len(), 1, "{}", report["failures"]);
    assert_eq!(phase(&report, "decode")["time"]["judgement"], "not_significant");
    let once =
        |step: u64, layer: u64, place: usize, ns: u64| if (step, layer, place) == (1, 2, 3) { ns * 9 } else { ns };
    let report = compared(plain, Written { change: once, seed: 9, ..plain }, &[]);
    assert_eq!(phase(&report, "prefill")["time"]["judgement"], "not_significant");
}

/// Half of the steps of one trace, and a fifth of the other's, have eight times the tokens.
#[test]
fn steps_of_equal_size_are_compared() {
    let half = |step: u64| if step.is_multiple_of(2) { 64 } else { 8 };
    let fifth = |step: u64| if step.is_multiple_of(5) { 64 } else { 8 };
    let of_half = |step: u64, _: u64, _: usize, ns: u64| if step.is_multiple_of(2) { ns * 5 } else { ns };
    let of_fifth = |step: u64, _: u64, _: usize, ns: u64| if step.is_multiple_of(5) { ns * 5 } else { ns };
    let a = Written { tokens: half, change: of_half, ..PLAIN };
    let b = Written { tokens: fifth, change: of_fifth, seed: 11, ..PLAIN };
    let report = compared(a, b, &[]);
    let prefill = phase(&report, "prefill");
    assert_eq!(prefill["time"]["judgement"], "not_significant", "{}", prefill["time"]);
    assert_eq!((&prefill["compared"]["equal_in"], &prefill["compared"]["sizes"]), (&"size".into(), &2.into()));
    assert_eq!(prefill["compared"]["steps"], serde_json::json!([30, 30]));
    // What is slower in steps of the same size is found in the other mixture.
    let slower = |step: u64, _: u64, _: usize, ns: u64| if step.is_multiple_of(5) { ns * 5 } else { ns * 11 / 10 };
    let report = compared(a, Written { change: slower, ..b }, &[]);
    assert_eq!(phase(&report, "prefill")["time"]["judgement"], "more");
}

/// Every line of a comparison that is reported as different.
fn lines(report: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for phase in report["phases"].as_array().unwrap() {
        let mut rows = vec![("phase", phase)];
        for table in ["causes", "layers", "operators", "parts"] {
            rows.extend(phase[table].as_array().unwrap().iter().map(|row| (table, row)));
        }
        found.extend(rows.iter().filter(|(_, row)| is_significant(row)).map(|(table, row)| format!("{table} {row}")));
        found.extend(phase["why"].as_array().unwrap().iter().map(ToString::to_string));
    }
    found
}

#[test]
fn equal_traces_have_no_line_that_differs() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random(1977);
    let mut wrong = Vec::new();
    for pair in 0..28_u64 {
        let of = Written {
            layers: 4 + random.below(8),
            steps: 12 + random.below(40),
            neighbour: (pair % 4 == 0).then_some((77, "sh", 20_000)),
            stopped: if pair % 7 == 0 { 30_000 } else { 0 },
            tokens: if pair % 3 == 0 { |step| if step == 1 { 32 } else { 1 } } else { |_| 1 },
            ..PLAIN
        };
        let [a, b] = ["a.pfi", "b.pfi"]
            .map(|name| Written { seed: random.next(), ..of }.write(&folder.path().join(format!("{pair}{name}"))));
        wrong.extend(lines(&diff(&a, &b, &["--json"])).into_iter().map(|line| format!("{pair}: {line}")));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
