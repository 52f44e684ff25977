//! Traces with predetermined differences, through the writer and the reader to the comparison.

use super::*;
use crate::TextStyle;
use profinfer_analysis::testing::{Put, Records};
use profinfer_analysis::{Catalogue, Completeness, Decoder, Rules, Series, Statistics, Step, Timeline, Visitor};
use profinfer_schema::{End, Origin};

use profinfer_trace::{Item, Meta, TraceReader, TraceWriter};
use proptest::prelude::*;

/// An operator of each step: type, name, what it covers, ns.
type Node<'a> = (&'a str, &'a str, Option<&'a str>, u64);

/// Steps of such operators, one after the other, `gap` ns between them; `noise` of a step's number is added to each.
fn records(nodes: &[Node<'_>], steps: u64, noise: impl Fn(u64, usize) -> u64) -> Records {
    let mut r = Records::default();
    r.push("thread", 1, (0, 0), &[("pid", Put::Int(100))]);
    for (at, (op, name, covers, _)) in nodes.iter().enumerate() {
        let at = at as u64;
        let described = [("address", Put::Int(0x100 + at)), ("op", Put::Text(op)), ("name", Put::Text(name))];
        r.push("tensor", 1, (1, 1), &described);
        if let Some(covers) = covers {
            let described = [("address", Put::Int(0x900 + at)), ("op", Put::Text("X")), ("name", Put::Text(covers))];
            r.push("tensor", 1, (1, 1), &described);
        }
    }
    for step in 0..steps {
        let start = 10_000 + step * 10_000_000;
        let mut now = start + 1000;
        for (at, (_, _, covers, ns)) in nodes.iter().enumerate() {
            let end = now + ns + noise(step, at);
            let address = Put::Int(0x100 + at as u64);
            match covers {
                None => r.push("operator", 1, (now, end), &[("node", address)]),
                Some(_) => {
                    let covered = Put::Int(0x900 + at as u64);
                    r.push("fused", 1, (now, end), &[("node", address), ("covers", covered)])
                }
            };
            now = end + 100;
        }
        r.push("graph", 1, (start + 500, now), &[("backend", Put::Text("CPU"))]);
        r.push("step", 1, (start, now + 500), &[("tokens", Put::Int(1))]);
    }
    r
}

struct Side {
    meta: Meta,
    completeness: Completeness,
    both: Both,
    timeline: Timeline,
}

#[derive(Default)]
struct Both(Statistics, Series);

impl Visitor for Both {
    fn step(&mut self, step: &Step, catalogue: &Catalogue, decoder: &Decoder) {
        self.0.step(step, catalogue, decoder);
        self.1.step(step, catalogue, decoder);
    }
}

impl Side {
    fn new(records: &Records, command: &[&str]) -> Self {
        let command = command.iter().map(|word| (*word).to_owned()).collect();
        let origin = Origin { engine: "engine".into(), command, ..Origin::default() };
        let mut bytes = Vec::new();
        let mut writer = TraceWriter::new(&mut bytes, &origin, &records.schema).unwrap();
        records.records.iter().for_each(|record| writer.push(record).unwrap());
        writer.finish(&End { time: u64::MAX / 2, reason: "the target ended".into(), ..End::default() }).unwrap();
        let mut reader = TraceReader::new(bytes.as_slice()).unwrap();
        let mut timeline = Timeline::new(&reader.meta().schema, Rules::default(), 100);
        let mut both = Both::default();
        while let Some(item) = reader.next() {
            if let Item::Record(record) = item {
                timeline.record(record.bytes(), &mut both);
            }
        }
        timeline.finish(&mut both);
        let meta = reader.into_meta();
        let completeness = Completeness::judge(&meta, timeline.findings(), &both.0);
        Self { meta, completeness, both, timeline }
    }

    fn of(&self, name: &str) -> DiffSide<'_> {
        DiffSide {
            name: name.to_owned(),
            meta: &self.meta,
            completeness: self.completeness.clone(),
            statistics: &self.both.0,
            series: &self.both.1,
            timeline: &self.timeline,
        }
    }
}

const LAYERED: &[Node<'static>] =
    &[("GET", "embd", None, 1000), ("MUL", "up-0", None, 20_000), ("MUL", "down-0", None, 30_000)];

/// A few percent of noise, another one in each trace.
fn noise(seed: u64) -> impl Fn(u64, usize) -> u64 {
    move |step, at| {
        let mut random = fastrand::Rng::with_seed(seed ^ (step << 8) ^ at as u64);
        random.u64(0..600)
    }
}

fn compared(a: &Records, b: &Records, limits: (f64, Option<f64>)) -> DiffReport {
    let (a, b) = (Side::new(a, &["run", "-t", "1"]), Side::new(b, &["run", "-t", "2"]));
    diff(&a.of("a.pfi"), &b.of("b.pfi"), &[], limits)
}

/// `FIT title` of the operators.
fn fits(report: &DiffReport) -> Vec<String> {
    let of_phase =
        |phase: &PhaseDiff| phase.operators.iter().map(|of| format!("{} {}", of.fit, of.title())).collect::<Vec<_>>();
    report.phases.iter().flat_map(of_phase).collect()
}

#[test]
fn an_operator_that_became_slower_explains_the_difference() {
    let slower = [LAYERED[0], LAYERED[1], ("MUL", "down-0", None, 36_000)];
    let (a, b) = (records(LAYERED, 40, noise(1)), records(&slower, 40, noise(2)));
    let report = compared(&a, &b, (0.02, Some(0.03)));
    let [decode] = report.phases.as_slice() else { panic!("{report:?}") };
    assert_eq!((decode.phase, decode.time.judgement, decode.explained_by), ("decode", "more", 1), "{decode:?}");
    let first = &decode.operators[0];
    assert_eq!((first.title().as_str(), first.fit, first.time.judgement), ("MUL down-*", "name", "more"));
    assert!((first.time.difference - 6000.0).abs() < 200.0, "{first:?}");
    assert!(first.time.low.unwrap() > 5500.0 && first.time.high.unwrap() < 6500.0, "{first:?}");
    assert!((first.of_difference.unwrap() - 1.0).abs() < 0.05, "{first:?}");
    for other in &decode.operators[1..] {
        assert_eq!(other.time.judgement, "not_significant", "{other:?}");
    }
    assert_eq!(report.failures.len(), 1, "{:?}", report.failures);
    assert!(report.failures[0].starts_with("decode is slower: "), "{:?}", report.failures);
    assert!(compared(&a, &b, (0.02, Some(0.5))).failures.is_empty());
    assert!(compared(&b, &a, (0.02, Some(0.03))).failures.is_empty(), "faster is no failure");
}

#[test]
fn parts_add_up_to_the_step() {
    let (a, b) = (records(LAYERED, 30, noise(1)), records(&LAYERED[1..], 25, noise(2)));
    let report = compared(&a, &b, (0.02, None));
    let decode = &report.phases[0];
    for side in [|row: &ChangeRow| row.a, |row: &ChangeRow| row.b, |row: &ChangeRow| row.difference] {
        let operators: f64 = decode.operators.iter().map(|of| side(&of.time)).sum();
        let parts: f64 = decode.parts.iter().map(|of| side(&of.time)).sum();
        assert!((operators + parts - side(&decode.time)).abs() < 1e-6, "{decode:?}");
    }
    let of_difference: f64 = decode.lines().iter().filter_map(|(_, part)| *part).sum();
    assert!((of_difference - 1.0).abs() < 1e-9, "{of_difference}");
    let layers: f64 = decode.layers.iter().map(|of| of.time.a).sum();
    assert!((layers - decode.operators.iter().map(|of| of.time.a).sum::<f64>()).abs() < 1e-6);
}

#[test]
fn noise_is_not_significant_and_further_runs_measure_noise() {
    let (a, b) = (records(LAYERED, 40, noise(1)), records(LAYERED, 40, noise(2)));
    let report = compared(&a, &b, (0.02, Some(0.0)));
    let decode = &report.phases[0];
    assert!(decode.verdict.starts_with("no significant difference: "), "{}", decode.verdict);
    assert!(decode.lines().iter().all(|(time, _)| !time.is_significant()), "{decode:?}");
    assert!(report.failures.is_empty());
    // A run of the same that is slower all along, as other memory or another clock makes it.
    let slower: Vec<Node<'_>> =
        LAYERED.iter().map(|(op, name, covers, ns)| (*op, *name, *covers, ns * 11 / 10)).collect();
    let (again, b) = (records(&slower, 40, noise(3)), records(&slower, 40, noise(4)));
    let (a, b, again) = (Side::new(&a, &[]), Side::new(&b, &[]), Side::new(&again, &[]));
    let judged = |again: &[&Series]| {
        let report = diff(&a.of("a"), &b.of("b"), again, (0.02, Some(0.03)));
        (report.phases[0].time.judgement, report.failures.len(), report.again)
    };
    assert_eq!(judged(&[]), ("more", 1, 0));
    assert_eq!(judged(&[&again.both.1]), ("not_significant", 0, 1));
}

#[test]
fn operators_are_matched_by_name_by_parts_and_by_place() {
    let a = [
        ("GET", "embd", None, 1000),
        ("NORM", "norm-0", None, 2000),
        ("SCALE", "attn_norm-0", None, 2000),
        ("MUL", "kq-0", None, 9000),
        ("SOFT", "soft-0", None, 3000),
        ("MUL", "kqv-0", None, 9000),
        ("MUL", "out-0", None, 5000),
        ("ADD", "sum-0", None, 1000),
        ("CPY", "left-0", None, 1000),
    ];
    let b = [
        ("GET", "embd", None, 1000),
        ("norm_mul", "attn_norm-0", Some("norm-0"), 2500),
        ("FLASH", "attention-0", None, 12_000),
        ("MUL", "out-0", None, 5000),
        ("ADD", "residual-0", None, 1000),
    ];
    let report = compared(&records(&a, 20, noise(1)), &records(&b, 20, noise(2)), (0.02, None));
    let mut found = fits(&report);
    found.sort();
    insta::assert_snapshot!(found.join("\n"), @r"
    fused NORM norm-* + SCALE attn_norm-* → norm_mul attn_norm-* (with norm-*)
    gone CPY left-*
    name GET embd
    name MUL out-*
    place ADD sum-* → ADD residual-*
    replaced MUL kq-* + SOFT soft-* + MUL kqv-* → FLASH attention-*
    ");
}

#[test]
fn the_text_begins_with_how_the_recordings_differ() {
    let slower = [LAYERED[0], LAYERED[1], ("MUL", "down-0", None, 36_000)];
    let constant = |_: u64, _: usize| 0;
    let report = compared(&records(LAYERED, 30, constant), &records(&slower, 40, constant), (0.02, Some(0.03)));
    insta::assert_snapshot!(diff_text(&report, &TextStyle::default()), @r"
    A  a.pfi  Complete: 30 steps, 154 records, nothing lost.
    B  b.pfi  Complete: 40 steps, 204 records, nothing lost.

    Differences between the recordings
                       A     B
      command          -t 1  -t 2
      steps in decode  30    40

    Decode: slower: 52.8 µs → 58.8 µs per step, +11.4 % (+11.4 to +11.4 %). The first line below explains 100.0 % of it.
      Compared: 30 of 30 and 40 of 40 steps, equal in tokens, sequences and context (one size).
      Significant: 95 % confidence among all phases, and among all 6 lines below (Benjamini-Hochberg), and a change of more than 2.0 %.
    Fails: decode is slower: 52.8 µs → 58.8 µs, +11.4 % (+11.4 to +11.4 %) per step.

    Decode: wall time per step
      difference    of it        A        B               change (95 %)                   share of a step  operator
        +6.00 µs  100.0 %  30.0 µs  36.0 µs  +20.0 % (+20.0 to +20.0 %)  slower           56.8 % → 61.2 %  MUL down-*
               0    0.0 %   800 ns   800 ns     +0.0 % (+0.0 to +0.0 %)  not significant    1.5 % → 1.4 %  (between operators)
               0    0.0 %  1.00 µs  1.00 µs     +0.0 % (+0.0 to +0.0 %)  not significant    1.9 % → 1.7 %  (outside graphs)
               0    0.0 %  1.00 µs  1.00 µs     +0.0 % (+0.0 to +0.0 %)  not significant    1.9 % → 1.7 %  GET embd
               0    0.0 %  20.0 µs  20.0 µs     +0.0 % (+0.0 to +0.0 %)  not significant  37.9 % → 34.0 %  MUL up-*
    ");
}

#[test]
fn too_few_steps_decide_nothing_and_no_steps_are_reported() {
    let slower = [LAYERED[0], LAYERED[1], ("MUL", "down-0", None, 90_000)];
    let (a, b) = (records(LAYERED, 3, noise(1)), records(&slower, 3, noise(2)));
    let report = compared(&a, &b, (0.02, Some(0.03)));
    assert_eq!((report.phases[0].time.judgement, report.failures.len()), ("unknown", 0));
    assert!(report.phases[0].verdict.ends_with("3 and 3 steps are too few to tell"), "{}", report.phases[0].verdict);
    let none = records(LAYERED, 0, noise(1));
    let report = compared(&none, &none, (0.02, Some(0.03)));
    assert!(diff_text(&report, &TextStyle::default()).contains("No steps to compare."));
    let report = compared(&none, &a, (0.02, Some(0.03)));
    assert_eq!(report.phases[0].verdict, "B has steps of this phase, A has none");
}

#[test]
fn the_page_needs_nothing_and_shows_no_text_as_markup() {
    let hostile = [("MUL", "<script>x</script>", None, 20_000)];
    let report = compared(&records(&hostile, 10, noise(1)), &records(&hostile, 10, noise(2)), (0.02, None));
    let page = diff_html(&report);
    assert!(!page.contains("<script") && page.contains("&lt;script&gt;"), "{page}");
    assert!(!page.contains("http") && !page.contains("url("), "{page}");
    for tag in ["table", "tr", "td", "div", "p", "h2", "body", "html"] {
        let opened = page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
        assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "{tag}");
    }
}

#[test]
fn json_has_every_documented_key() {
    let report = compared(&records(LAYERED, 10, noise(1)), &records(LAYERED, 12, noise(2)), (0.02, Some(0.03)));
    let documented = concat!(include_str!("../../../../docs/diff.md"), include_str!("../../../../docs/report.md"));
    let mut missing = Vec::new();
    let mut rest = vec![serde_json::to_value(&report).unwrap()];
    while let Some(value) = rest.pop() {
        match value {
            serde_json::Value::Object(object) => {
                for (key, value) in object {
                    if !documented.contains(&format!("`{key}`")) {
                        missing.push(key);
                    }
                    rest.push(value);
                }
            }
            serde_json::Value::Array(items) => rest.extend(items),
            _ => {}
        }
    }
    assert_eq!(missing, Vec::<String>::new(), "not in docs/diff.md");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_trace_does_not_differ_from_itself(
        durations in proptest::collection::vec(1_u64..50_000, 1..6), steps in 1_u64..30, seed in any::<u64>(),
    ) {
        let names: Vec<String> = (0..durations.len()).map(|n| format!("op{n}")).collect();
        let nodes: Vec<Node<'_>> =
            durations.iter().zip(&names).map(|(ns, name)| ("MUL", name.as_str(), None, *ns)).collect();
        let trace = records(&nodes, steps, noise(seed));
        let side = Side::new(&trace, &[]);
        let report = diff(&side.of("a"), &side.of("a"), &[], (0.0, Some(0.0)));
        prop_assert!(report.unlike.is_empty() && report.failures.is_empty());
        for phase in &report.phases {
            for (time, _) in phase.lines() {
                prop_assert_eq!(time.difference, 0.0);
                prop_assert!(!time.is_significant());
            }
            prop_assert!(phase.operators.iter().all(|of| of.fit == "name"));
        }
    }
}
