//! Whole traces through the writer and the reader to a report.

use super::*;
use profinfer_analysis::testing::{Put, Records};
use profinfer_analysis::{Completeness, Rules, Statistics, Timeline, Visitor};
use profinfer_schema::{End, Host, Loss, LossKind, Origin};

use profinfer_trace::{Item, TraceReader, TraceWriter};

/// A prefill and two decode steps on two lanes, in ns; the second operator of each step waits.
fn records() -> Records {
    let mut r = Records::default();
    for tid in [1, 2] {
        r.push("thread", tid, (0, 0), &[("pid", Put::Int(100))]);
    }
    for (address, name) in [(0xa, "up-0"), (0xb, "up-1")] {
        let fields = [
            ("address", Put::Int(address)),
            ("op", Put::Text("MUL_MAT")),
            ("name", Put::Text(name)),
            ("dtype", Put::Text("f32")),
            ("shape", Put::List(&[64, 2, 1, 1])),
        ];
        r.push("tensor", 1, (1, 1), &fields);
    }
    for (at, tokens, scale) in [(0, 8, 10_000), (2_000_000, 1, 1000), (2_200_000, 1, 1000)] {
        let s = |n: u64| at + n * scale;
        for (tid, lane) in [(1, 0), (2, 1)] {
            for (node, from, to, waiting) in [(0xa, 10, 40, 0), (0xb, 40, 60, lane * 5)] {
                let fields =
                    [("lane", Put::Int(lane)), ("node", Put::Int(node)), ("waiting", Put::Int(waiting * scale))];
                r.push("operator", tid, (s(from), s(to)), &fields);
            }
        }
        r.push("barrier", 1, (s(62), s(64)), &[]);
        r.push("graph", 1, (s(5), s(65)), &[("backend", Put::Text("CPU"))]);
        r.push("step", 1, (at, s(100)), &[("tokens", Put::Int(tokens))]);
    }
    r
}

struct Both(Statistics, StepFinder);

impl Visitor for Both {
    fn step(
        &mut self,
        step: &profinfer_analysis::Step,
        catalogue: &profinfer_analysis::Catalogue,
        decoder: &profinfer_analysis::Decoder,
    ) {
        self.0.step(step, catalogue, decoder);
        self.1.step(step, catalogue, decoder);
    }
}

fn trace(records: &Records, losses: &[Loss], end: bool) -> Vec<u8> {
    let host = Host { cpu_model: "Some CPU".into(), cpus: 2, kernel: "6.18".into(), ..Host::default() };
    let command = vec!["serve".to_owned(), "-m".to_owned(), "model".to_owned()];
    let origin = Origin { engine: "engine".into(), command, host, ..Origin::default() };
    let mut bytes = Vec::new();
    let mut writer = TraceWriter::new(&mut bytes, &origin, &records.schema).unwrap();
    for record in &records.records {
        writer.push(record).unwrap();
    }
    writer.losses(losses).unwrap();
    if end {
        writer.finish(&End { time: 3_000_000, reason: "the target ended".into(), ..End::default() }).unwrap();
    } else {
        writer.flush().unwrap();
    }
    bytes
}

fn reports(bytes: &[u8], options: &Options, number: u64) -> (Report, Option<StepReport>) {
    reports_by(bytes, options, number, Rules::default())
}

fn reports_by(bytes: &[u8], options: &Options, number: u64, rules: Rules) -> (Report, Option<StepReport>) {
    let mut reader = TraceReader::new(bytes).unwrap();
    let mut timeline = Timeline::new(&reader.meta().schema, rules, 100);
    let mut both = Both(Statistics::default(), StepFinder::new(number));
    while let Some(item) = reader.next() {
        if let Item::Record(record) = item {
            timeline.record(record.bytes(), &mut both);
        }
    }
    timeline.finish(&mut both);
    let meta = reader.into_meta();
    let judged = Completeness::judge(&meta, timeline.findings(), &both.0);
    (build(&meta, judged.clone(), &both.0, &timeline, options), both.1.finish(&meta, judged))
}

/// After a gap in a recording a request begins unseen: of these the time to the first token is not part of the mean.
#[test]
fn the_first_screen_counts_the_requests_whose_first_token_was_recorded() {
    let (mut report, _) = reports(&trace(&records(), &[], true), &Options::default(), 0);
    report.requests_total = 11;
    let shown = |report: &Report| first_screen_text(report, &TextStyle::default());
    assert_eq!(report.ttft.count, 1);
    assert!(shown(&report).contains("first token 1.00 ms ·"), "{}", shown(&report));
    report.ttft.count = 2;
    assert!(shown(&report).contains("first token 1.00 ms (mean of 2 requests) ·"), "{}", shown(&report));
}

/// Of four sequences in a step, a request may have all as candidates for one token.
#[test]
fn tokens_of_several_sequences_are_not_called_output() {
    use profinfer_schema::{FieldLayout, FieldType};
    let mut r = Records::default();
    let step = r.schema.records.iter_mut().find(|record| record.name == "step").unwrap();
    step.fields.push(FieldLayout { name: "sequence_count".into(), offset: step.size, ty: FieldType::Int(4) });
    step.size += 8;
    r.push("thread", 1, (0, 0), &[("pid", Put::Int(100))]);
    for (at, tokens) in [(0, 8), (2_000_000, 4), (2_200_000, 4)] {
        let fields = [("tokens", Put::Int(tokens)), ("sequence_count", Put::Int(4))];
        r.push("step", 1, (at, at + 100_000), &fields);
    }
    let (mut report, _) = reports(&trace(&r, &[], true), &Options::default(), 0);
    let shown = |report: &Report| {
        let style = TextStyle::default();
        first_screen_text(report, &style) + &report_text(report, &style)
    };
    let text = shown(&report);
    for part in [
        " computed tokens/s (4.0 sequences) · ",
        " per step",
        "Time per step: ",
        "A decode step computes 4.0 sequences on average, of several requests or as candidates (beams) of one; its tokens are those",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("per token") && !text.contains("output token"), "{text}");
    // Requests tell what is output.
    report.requests_total = 4;
    let text = shown(&report);
    assert!(text.contains("per token") && !text.contains("computed tokens"), "{text}");
}

#[test]
fn the_text_opens_with_the_verdict_and_adds_up() {
    let (report, _) = reports(&trace(&records(), &[], true), &Options::default(), 0);
    let text = report_text(&report, &TextStyle::default());
    insta::assert_snapshot!(text, @r"
    Complete: 3 steps, 25 records, nothing lost.

    Decode is overhead-bound: 40.0 % of its time is outside graphs and 10.0 % around operators within graphs. The limit of another 47.5 % is unknown.
    Prefill is overhead-bound: 40.0 % of its time is outside graphs and 10.0 % around operators within graphs. The limit of another 47.5 % is unknown.
      The probeset has no costs of operators: memory-bound and compute-bound work cannot be distinguished.
      Scheduler events were not recorded: run-queue delay is unknown.

    engine · serve -m model · Some CPU · 2 CPUs · Linux 6.18

    Steps
               steps  tokens  tokens/s     mean      p50      p90      p99  longest
      prefill      1       8      8000  1.00 ms  1.00 ms  1.00 ms  1.00 ms  1.00 ms
      decode       2       2      1538   100 µs   100 µs   100 µs   100 µs   100 µs
      Time to first token: 1.00 ms.
      Time per output token: mean 650 µs, p50 200 µs, p90 1.10 ms, p99 1.10 ms, of 2 steps, sampling included.

    Where the time went (share of lane time, 2 lanes)
               operators  waiting  outside operators  outside graphs
      prefill     47.5 %    2.5 %             10.0 %          40.0 %
      decode      47.5 %    2.5 %             10.0 %          40.0 %

    What limits operators (decode)
       share     mean  limited by  confidence  op       name
      50.0 %  25.0 µs  unknown     low         MUL_MAT  up-*

    Operators (prefill and decode, total and share: work of 2 lanes, mean: elapsed)
       share    total  waiting  count    mean     max  op       dtype  name
      47.5 %  1.14 ms  60.0 µs      6  100 µs  300 µs  MUL_MAT  f32    up-*

    Operator types
       share    total  waiting  count    mean     max  op       dtype
      47.5 %  1.14 ms  60.0 µs      6  100 µs  300 µs  MUL_MAT  f32

    Graphs by backend
       share   total  graphs    mean     max  operators  backend
      60.0 %  720 µs       3  240 µs  600 µs          6  CPU

    Lanes
      lane    busy  waiting    work  operators  slowest in
         0  50.0 %           600 µs          6     100.0 %
         1  45.0 %    5.0 %  540 µs          6

    Regions
      share    total  count     mean      max  region
      1.0 %  24.0 µs      3  8.00 µs  20.0 µs  barrier
    ");
}

#[test]
fn one_step_is_shown_in_the_order_of_execution() {
    let (_, step) = reports(&trace(&records(), &[], true), &Options::default(), 2);
    insta::assert_snapshot!(step_text(&step.unwrap(), &TextStyle::default()), @r"
    Complete: 3 steps, 25 records, nothing lost.
    engine · serve -m model · Some CPU · 2 CPUs · Linux 6.18

    Step 2: decode, 1 token, 100 µs
      graph on CPU at 5.00 µs, 60.0 µs

    Operators in the order of execution
           at  elapsed   lane 0   lane 1  waiting  op       dtype  shape  name
      10.0 µs  30.0 µs  30.0 µs  30.0 µs           MUL_MAT  f32    64×2   up-0
      40.0 µs  20.0 µs  20.0 µs  15.0 µs  5.00 µs  MUL_MAT  f32    64×2   up-1
    ");
}

#[test]
fn a_step_that_is_not_there_has_no_report() {
    let (_, step) = reports(&trace(&records(), &[], true), &Options::default(), 4);
    assert_eq!(step, None);
}

#[test]
fn losses_and_a_cut_make_it_incomplete() {
    let losses = [
        Loss { record: "operator".into(), kind: LossKind::RingFull, count: 1200 },
        Loss { record: "operator".into(), kind: LossKind::StillOpen, count: 1 },
    ];
    let mut lossy = records();
    lossy.lose(2, 1);
    lossy.push("operator", 2, (2_500_000, 2_500_010), &[]);
    let (report, _) = reports(&trace(&lossy, &losses, false), &Options::default(), 0);
    assert!(!report.completeness.complete);
    assert_eq!(
        report.completeness.verdict,
        "Incomplete: the trace was cut off before its end; 1,200 `operator` lost because the ring buffer was full. \
         1 of 3 steps has lost records: 3; excluded from totals."
    );
    let text = report_text(&report, &TextStyle::default());
    assert!(text.starts_with("Incomplete: "));
    assert!(text.contains("\n  1 `operator` still open when the recording ended\n"));
}

#[test]
fn tables_are_of_the_phase_and_by_what_is_asked_for() {
    let bytes = trace(&records(), &[], true);
    let options = Options { by: By::Shape, phase: Some(profinfer_analysis::Phase::Decode), ..Options::default() };
    let (report, _) = reports(&bytes, &options, 0);
    assert_eq!(
        (report.table_phases.as_slice(), report.lane_time_ns, report.lanes),
        (["decode"].as_slice(), 400_000, 2)
    );
    let [row] = report.operators.as_slice() else { panic!("{:?}", report.operators) };
    assert_eq!((row.op.as_deref(), row.shape.as_deref()), (Some("MUL_MAT"), Some([64, 2, 1, 1].as_slice())));
    assert_eq!((row.count, row.total_ns, row.waiting_ns), (4, 2 * 95_000, Some(2 * 5000)));
    assert!((row.share - 190.0 / 400.0).abs() < 1e-9);
    let options = Options { top: Some(1), by: By::Name, ..Options::default() };
    let (report, _) = reports(&bytes, &options, 0);
    assert_eq!((report.operators.len(), report.operators_total), (1, 1));
    assert_eq!(report.operators[0].name.as_deref(), Some("up-*"));
}

#[test]
fn without_steps_shares_are_of_the_recorded_time() {
    let mut records = Records::default();
    records.schema.records.retain(|of| of.role != Some(profinfer_schema::Role::Step));
    records.push("thread", 1, (0, 0), &[("pid", Put::Int(100))]);
    records.push("operator", 1, (100_000, 130_000), &[("lane", Put::Int(0)), ("node", Put::Int(0xa))]);
    records.push("barrier", 1, (0, 1_500_000), &[]);
    let (report, _) = reports(&trace(&records, &[], true), &Options::default(), 0);
    let ([operator], [region]) = (report.operators.as_slice(), report.regions.as_slice()) else { panic!("{report:?}") };
    assert!((operator.share - 0.01).abs() < 1e-9 && (region.share - 0.5).abs() < 1e-9, "{operator:?} {region:?}");
    assert!(report_text(&report, &TextStyle::default()).contains("share: of the recorded time"));
}

#[test]
fn totals_over_both_phases_without_an_interval_have_a_hint_how_to_get_one() {
    let (mut report, _) = reports(&trace(&records(), &[], true), &Options::default(), 0);
    let hint = "Use `--phase decode` for the other";
    report.table_phases = vec!["prefill", "decode"];
    let mut text_with = |high_ns| {
        let low_ns = high_ns;
        report.operators[0].estimate =
            Some(EstimateRow { estimate: true, total_ns: 5e6, low_ns, high_ns, step_ns: 1e6 });
        report_text(&report, &TextStyle::default())
    };
    assert!(text_with(None).contains(hint));
    assert!(!text_with(Some(6e6)).contains(hint));
    report.operators[0].estimate = None;
    assert!(!report_text(&report, &TextStyle::default()).contains(hint), "nothing was estimated");
}

#[test]
fn json_has_every_documented_key() {
    let (report, step) = reports_by(&trace(&counted(), &[], true), &Options::default(), 1, rules(METRICS));
    let documented = concat!(include_str!("../../../docs/report.md"), include_str!("../../../docs/verdicts.md"));
    let mut missing = Vec::new();
    for value in [serde_json::to_value(&report).unwrap(), serde_json::to_value(step.unwrap()).unwrap()] {
        keys(&value, &mut |key| {
            if !documented.contains(&format!("`{key}`")) {
                missing.push(key.to_owned());
            }
        });
    }
    assert_eq!(missing, Vec::<String>::new(), "neither in docs/report.md nor in docs/verdicts.md");
}

fn keys(value: &serde_json::Value, take: &mut impl FnMut(&str)) {
    match value {
        serde_json::Value::Object(object) => {
            for (key, value) in object {
                take(key);
                keys(value, take);
            }
        }
        serde_json::Value::Array(items) => items.iter().for_each(|item| keys(item, take)),
        _ => {}
    }
}

/// The rules of a probeset with such an `analysis:`.
pub(crate) fn rules(analysis: &str) -> Rules {
    let text = format!(
        "profinfer: 1\nengine: e\nmodules: {{ m: m }}\ncounters: {{ cycles: cycles, refills: r17 }}\n\
         probes: {{ s: {{ at: 'm:s(i32 n)', role: step, fields: {{ tokens: n }} }} }}\nanalysis: {{ {analysis} }}"
    );
    let (probeset, _) = profinfer_probeset::load_text("t.yaml", &text, &profinfer_probeset::Library::SHIPPED).unwrap();
    Rules::new(&probeset.analysis).unwrap()
}

/// The usual records, in which operators count cycles: as many as ns, and of the second operator's second lane scaled.
fn counted() -> Records {
    use profinfer_schema::{CounterInfo, FieldLayout, FieldType};
    let mut r = records();
    let index = r.schema.records.iter().position(|t| t.name == "operator").unwrap();
    let ty = &mut r.schema.records[index];
    let (offset, bit) = (ty.size, 1_u64 << ty.fields.len());
    for (name, offset, kind) in [("cycles", offset, FieldType::Counter), ("scaled", offset + 8, FieldType::Scaled)] {
        ty.fields.push(FieldLayout { name: name.into(), offset, ty: kind });
    }
    ty.size += 16;
    for record in r.records.iter_mut().filter(|record| usize::from(record[0]) == index) {
        let (tid, duration) = (record[8], u64::from_le_bytes(*record[24..].first_chunk().unwrap()));
        let scaled = if tid == 2 && duration % 3 != 0 { bit } else { 0 };
        record.extend(duration.to_le_bytes());
        record.extend(scaled.to_le_bytes());
    }
    let counter = |absent: Option<&str>| CounterInfo { absent: absent.map(str::to_owned), ..CounterInfo::default() };
    r.schema.counters.insert("cycles".into(), counter(None));
    r.schema.counters.insert("refills".into(), counter(Some("this machine has no such event")));
    r
}

const METRICS: &str = "dtypes: { f32: 4 }, costs: { MUL_MAT: { bytes: bytes } }, metrics: { traffic: bytes / duration, \
    clock: cycles / time, busy: { value: time / duration / lanes, unit: '%' }, lines: 'refills * 64' }";

#[test]
fn metrics_and_counters_stand_by_operator_and_by_lane() {
    let bytes = trace(&counted(), &[], true);
    let decode = Some(profinfer_analysis::Phase::Decode);
    let table = |by: By| {
        let options = Options { by, phase: decode, ..Options::default() };
        let (report, _) = reports_by(&bytes, &options, 0, rules(METRICS));
        let text = report_text(&report, &TextStyle { main_only: true, ..TextStyle::default() });
        let metrics = text[text.find("\nMetrics").unwrap()..].trim_start();
        let cells =
            |line: &str| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect::<Vec<_>>().join("|");
        metrics.lines().map(cells).collect::<Vec<_>>()
    };
    let estimate = "≈ estimated: the counter ran for a part of the time, or slightly longer than it.";
    let absent = [
        "refills is absent: this machine has no such event.",
        "lines is absent: `refills` is absent: this machine has no such event.",
    ];
    let by_name = [
        "Metrics (decode, from the sums of each row)",
        "share|traffic|clock|busy|cycles|op|dtype|name",
        "47.5 %|20.5 MB/s|≈ 1.05 G/s|95.0 %|≈ 200 k|MUL_MAT|f32|up-*",
        estimate,
    ];
    assert_eq!(table(By::Name), [&by_name[..], &absent].concat());
    let by_lane = [
        "Metrics (decode, from the sums of each row)",
        "lane|busy|clock|busy|cycles",
        "0|50.0 %|1 G/s|100.0 %|100 k",
        "1|45.0 %|≈ 1.11 G/s|100.0 %|≈ 100 k",
        estimate,
    ];
    assert_eq!(table(By::Lane), [&by_lane[..], &absent].concat());
}

#[test]
fn an_empty_trace_has_a_report() {
    let (report, _) = reports(&trace(&Records::default(), &[], true), &Options::default(), 0);
    let text = report_text(&report, &TextStyle { width: Some(20), colour: true, ..TextStyle::default() });
    assert!(text.contains("no step was seen") && !text.contains("Complete:"), "{text}");
    assert!(text.contains("No steps."));
}
