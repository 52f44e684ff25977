//! The figures of a whole trace are those that the report has of it; labels are bounded; nothing hostile breaks a view.

use super::*;
use profinfer_analysis::testing::{Put, Records};
use profinfer_analysis::{Catalogue, Decoder, Phase, Rules, Statistics, Step, Timeline, Visitor};
use profinfer_schema::{
    Detail, DetailReason, DetailState, End, FieldLayout, FieldType, HEADER_SIZE, Loss, LossKind, Notice, Origin,
    Pressure, RecordKind, RecordType, Role,
};
use profinfer_trace::{Item, Meta, TraceReader, TraceWriter};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Record types of a server, beside those of an engine.
fn with_requests(r: &mut Records) {
    let mut add = |name: &str, role: Role, fields: &[(&str, FieldType)]| {
        let mut offset = HEADER_SIZE;
        let layouts = fields.iter().map(|(name, ty)| {
            let layout = FieldLayout { name: (*name).to_owned(), offset, ty: ty.clone() };
            offset += ty.size().next_multiple_of(8);
            layout
        });
        let fields: Vec<FieldLayout> = layouts.collect();
        let name = name.to_owned();
        r.schema.records.push(RecordType { name, kind: RecordKind::Mark, role: Some(role), size: offset, fields });
    };
    let list = || FieldType::List(Box::new(FieldType::Int(4)), 512);
    add("batch_sequences", Role::Batch, &[("sequences", list())]);
    add("batch_positions", Role::Batch, &[("positions", list())]);
    add("batch_outputs", Role::Batch, &[("outputs", list())]);
    add("arrived", Role::Request, &[("request", FieldType::Int(4))]);
    add("started", Role::Request, &[("request", FieldType::Int(4)), ("sequence", FieldType::Int(4))]);
    add("token", Role::Request, &[("sequence", FieldType::Int(4)), ("tokens", FieldType::Int(4))]);
    add("ended", Role::Request, &[("sequence", FieldType::Int(4))]);
}

/// What a server is made to do.
#[derive(Debug, Clone)]
struct Server {
    slots: u64,
    /// Of each request: tokens of its prompt, tokens that it is given, and when it arrives, in steps.
    requests: Vec<(u64, u64, u64)>,
    /// The most tokens of a step.
    batch: u64,
    /// The server's own events are recorded, and the batches.
    events: bool,
    batches: bool,
    operators: bool,
    /// Every so many steps some records are lost.
    lose: Option<u64>,
    /// Time between two steps, ns.
    gap: u64,
}

/// A request in its slot.
#[derive(Debug, Clone)]
struct Slot {
    left: u64,
    at: u64,
    to_give: u64,
}

impl Server {
    fn records(&self) -> Records {
        let mut r = Records::default();
        with_requests(&mut r);
        r.push("thread", 1, (0, 0), &[("pid", Put::Int(100))]);
        for operator in 0..30_u64 {
            let (op, name) = (format!("OP_{operator}"), format!("name-{operator}"));
            let fields = [("address", Put::Int(0x100 + operator)), ("op", Put::Text(&op)), ("name", Put::Text(&name))];
            r.push("tensor", 1, (1, 1), &fields);
        }
        let mut slots: Vec<Option<Slot>> = vec![None; self.slots as usize];
        let (mut queued, mut next, mut time) = (Vec::new(), 0, 1_000_000_000_u64);
        for step in 0..400_u64 {
            while let Some(request) = self.requests.get(next).filter(|(_, _, arrives)| *arrives <= step) {
                if self.events {
                    r.push("arrived", 1, (time, time), &[("request", Put::Int(next as u64))]);
                }
                queued.push((next, *request));
                (next, time) = (next + 1, time + 10);
            }
            for (sequence, slot) in slots.iter_mut().enumerate().filter(|(_, slot)| slot.is_none()) {
                if queued.is_empty() {
                    break;
                }
                let (request, (prompt, tokens, _)) = queued.remove(0);
                *slot = Some(Slot { left: prompt, at: 0, to_give: tokens });
                if self.events {
                    let fields = [("request", Put::Int(request as u64)), ("sequence", Put::Int(sequence as u64))];
                    r.push("started", 1, (time, time), &fields);
                    time += 10;
                }
            }
            if slots.iter().all(Option::is_none) {
                time += self.gap;
                continue;
            }
            time = self.step(&mut r, &mut slots, step, time);
            if self.lose.is_some_and(|every| step % every == every - 1) {
                r.lose(1, 2);
            }
            time += self.gap;
        }
        r
    }

    fn step(&self, r: &mut Records, slots: &mut [Option<Slot>], step: u64, start: u64) -> u64 {
        let (mut sequences, mut positions, mut outputs) = (Vec::new(), Vec::new(), Vec::new());
        let mut given = Vec::new();
        let mut space = self.batch;
        for (sequence, slot) in slots.iter_mut().enumerate() {
            let Some(slot) = slot else { continue };
            let take = if slot.left > 0 { slot.left.min(space) } else { 1.min(space) };
            space -= take;
            for token in 0..take {
                sequences.push(sequence as i64);
                positions.push((slot.at + token).cast_signed());
                let is_last = slot.left <= take && token + 1 == take;
                outputs.push(i64::from(is_last));
                if is_last {
                    given.push(sequence);
                }
            }
            slot.at += take;
            slot.left = slot.left.saturating_sub(take);
        }
        let tokens = sequences.len() as u64;
        let mut at = start + 100;
        if self.batches {
            for (name, field, list) in [
                ("batch_sequences", "sequences", &sequences),
                ("batch_positions", "positions", &positions),
                ("batch_outputs", "outputs", &outputs),
            ] {
                r.push(name, 1, (at, at), &[(field, Put::List(list))]);
                at += 1;
            }
        }
        let graph = at;
        if self.operators {
            for operator in 0..6 {
                let node = 0x100 + (step * 7 + operator * 5) % 30;
                r.push(
                    "operator",
                    1,
                    (at, at + 900 * (1 + operator)),
                    &[("node", Put::Int(node)), ("waiting", Put::Int(50))],
                );
                at += 1000 * (1 + operator);
            }
        }
        r.push("graph", 1, (graph, at + 10), &[("backend", Put::Text("cpu"))]);
        let end = at + 1000 * tokens + 77 * (step % 5);
        r.push("step", 1, (start, end), &[("tokens", Put::Int(tokens))]);
        let mut time = end + 20;
        for sequence in given {
            let of_sequence = ("sequence", Put::Int(sequence as u64));
            if self.events {
                r.push("token", 1, (time, time), &[of_sequence.clone(), ("tokens", Put::Int(1))]);
                time += 5;
            }
            let Some(slot) = &mut slots[sequence] else { continue };
            slot.to_give = slot.to_give.saturating_sub(1);
            if slot.to_give == 0 {
                slots[sequence] = None;
                if self.events {
                    r.push("ended", 1, (time, time), &[of_sequence]);
                    time += 5;
                }
            }
        }
        time
    }

    fn any() -> impl Strategy<Value = Self> {
        let request = (1_u64..40, 1_u64..12, 0_u64..60);
        let requests = prop::collection::vec(request, 0..12);
        let flags = (any::<bool>(), any::<bool>(), any::<bool>(), prop::option::of(5_u64..60));
        (1_u64..5, requests, 4_u64..64, flags, prop::sample::select(vec![100, 50_000_000, 400_000_000])).prop_map(
            |(slots, mut requests, batch, (events, batches, operators, lose), gap)| {
                requests.sort_by_key(|(_, _, arrives)| *arrives);
                Self { slots, requests, batch, events, batches, operators, lose, gap }
            },
        )
    }
}

const PROBESET: &str = "profinfer: 1
engine: toy \"engine\"
modules: { toy: libtoy.so }
probes:
  step: { at: 'toy:toy_step(i32 n)', role: step, fields: { tokens: n } }
";

/// When recordings began, ns of UNIX time.
const STARTED: u64 = 1_780_000_000_000_000_007;

/// The trace, with a notice after every so many records.
fn trace(records: &Records, every: usize) -> Vec<u8> {
    let sources = vec![("toy.yaml".to_owned(), PROBESET.to_owned())];
    let origin =
        Origin { engine: "toy \"engine\"".into(), sources, pid: 100, wall_clock_ns: STARTED, ..Origin::default() };
    let mut writer = TraceWriter::new(Vec::new(), &origin, &records.schema).unwrap();
    for (number, record) in records.records.iter().enumerate() {
        writer.push(record).unwrap();
        if number % every == every - 1 {
            let time = u64::from_le_bytes(record[16..24].try_into().unwrap());
            let pressure = Some(Pressure { since: 0, user_ns: 1000, major_faults: 2, ..Pressure::default() });
            writer.notice(&Notice { time, pressure, ..Notice::default() }).unwrap();
        }
    }
    writer.losses(&[Loss { record: "step".into(), kind: LossKind::RingFull, count: 7 }]).unwrap();
    writer.finish(&End { time: 1 << 50, reason: "the target ended".into(), ..End::default() }).unwrap()
}

fn live(trace: &[u8]) -> Snapshot {
    let mut reader = TraceReader::new(trace).unwrap();
    let (mut model, problems) = Model::new(reader.meta());
    assert!(!problems.has_errors(), "{problems:?}");
    while let Some(item) = reader.next() {
        model.take(&item, None);
        // Looking changes nothing.
        if matches!(item, Item::Notice(_)) {
            let _ = model.snapshot();
        }
    }
    model.finish(None);
    model.judge(reader.meta());
    model.snapshot()
}

fn whole(trace: &[u8]) -> (Statistics, Timeline) {
    let mut reader = TraceReader::new(trace).unwrap();
    let mut timeline = Timeline::new(&reader.meta().schema, Rules::default(), 100);
    let mut statistics = Statistics::default();
    while let Some(item) = reader.next() {
        match item {
            Item::Record(record) => timeline.record(record.bytes(), &mut statistics),
            Item::Notice(notice) => timeline.notice(notice),
            _ => {}
        }
    }
    timeline.finish(&mut statistics);
    (statistics, timeline)
}

fn histogram(bounds: &'static [f64], all: impl IntoIterator<Item = u64>) -> Histogram {
    let mut histogram = Histogram::new(bounds);
    all.into_iter().for_each(|ns| histogram.add(ns));
    histogram
}

fn assert_same(snapshot: &Snapshot, (statistics, timeline): &(Statistics, Timeline)) {
    for phase in [Phase::Prefill, Phase::Decode] {
        let ours = snapshot.phases.iter().find(|of| of.phase == phase.as_str());
        let theirs = statistics.phase(phase);
        let figures = |of: &PhaseFigures| {
            [
                of.steps.count,
                of.steps.sum_ns,
                of.tokens,
                of.whole_steps,
                of.whole_ns,
                of.lane_ns,
                of.work_ns,
                of.waiting_ns,
            ]
        };
        let ours_figures = ours.map(figures).unwrap_or_default();
        let theirs_figures = theirs.map_or([0; 8], |of| {
            [of.steps, of.time, of.tokens, of.whole_steps, of.whole_time, of.lane_time, of.work, of.waiting]
        });
        assert_eq!(ours_figures, theirs_figures, "{phase:?}");
        let times = statistics.step_times(phase);
        assert_eq!(times.count, theirs.map_or(0, |of| of.steps));
    }
    let incomplete: u64 = snapshot.phases.iter().map(|of| of.incomplete).sum();
    assert_eq!(incomplete, statistics.left_out());
    let generations = statistics.generations();
    assert_eq!((snapshot.tpot.count, snapshot.tpot.sum_ns), (generations.tpot.count, generations.tpot.total_ns));
    assert_eq!((snapshot.ttft.count, snapshot.ttft.sum_ns), (generations.ttft.count, generations.ttft.total_ns));
    let requests = statistics.requests();
    assert_eq!(snapshot.requests.is_some(), requests.were_recorded());
    if let Some(ours) = &snapshot.requests {
        let list = requests.list();
        assert_eq!(ours.duration.count + ours.running.unwrap(), requests.count());
        let first = list.iter().filter_map(profinfer_analysis::Request::ttft);
        assert_eq!(snapshot.ttft, histogram(TIME_TO_FIRST_TOKEN, first));
    }
    let mut ops: BTreeMap<String, (u64, u64, u64)> = BTreeMap::new();
    for (kind, _, _, totals) in statistics.operators() {
        let of = ops.entry(timeline.catalogue().kind(kind).op.to_string()).or_default();
        *of = (of.0 + totals.count, of.1 + totals.work, of.2 + totals.waiting);
    }
    let sum =
        |of: &mut dyn Iterator<Item = (u64, u64, u64)>| of.fold((0, 0, 0), |a, b| (a.0 + b.0, a.1 + b.1, a.2 + b.2));
    let rows = || snapshot.operators.iter().map(|row| (row.count, row.work_ns, row.waiting_ns));
    assert_eq!(sum(&mut rows()), sum(&mut ops.values().copied()));
    assert!(snapshot.operators.len() <= operators::LABELS + 1);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn the_figures_of_a_whole_trace_are_the_report_s(server in Server::any(), every in prop::sample::select(vec![3_usize, 40, 1 << 30])) {
        let trace = trace(&server.records(), every);
        let snapshot = live(&trace);
        assert_same(&snapshot, &whole(&trace));
        let text = prometheus(std::slice::from_ref(&snapshot), None);
        assert_text(&text);
        let screen = Screen { width: 80, height: 24, ..Screen::default() };
        let lines = screen.lines(&[snapshot], None);
        prop_assert!(lines.len() == 24 && lines.iter().all(|line| line.chars().count() <= 80), "{lines:#?}");
    }

    #[test]
    fn no_bytes_break_it(mut bytes in Just(trace(&server().records(), 7)), at in any::<prop::sample::Index>(), value in any::<u8>()) {
        let at = at.index(bytes.len());
        bytes[at] = value;
        if let Ok(mut reader) = TraceReader::new(&bytes[..]) {
            let (mut model, _) = Model::new(reader.meta());
            while let Some(item) = reader.next() {
                model.take(&item, None);
            }
            model.finish(None);
            model.judge(reader.meta());
            let snapshot = model.snapshot();
            assert_text(&prometheus(std::slice::from_ref(&snapshot), None));
            Screen { width: 40, height: 10, ..Screen::default() }.lines(&[snapshot], Some("a message"));
        }
    }
}

fn server() -> Server {
    Server {
        slots: 2,
        requests: vec![(9, 6, 0), (20, 4, 3), (5, 9, 3)],
        batch: 16,
        events: true,
        batches: true,
        operators: true,
        lose: None,
        gap: 50_000_000,
    }
}

/// The last token of the prompt has a step of its own, which looks like a decode step until the engine tells of the token.
#[test]
fn times_of_steps_wait_for_what_the_engine_tells() {
    let one = Server { slots: 1, requests: vec![(12, 1, 0)], batch: 11, batches: false, operators: false, ..server() };
    let trace = trace(&one.records(), 3);
    let snapshot = live(&trace);
    assert_eq!((snapshot.ttft.count, snapshot.tpot.count), (1, 0));
    assert_same(&snapshot, &whole(&trace));
}

/// Every line is a comment or a sample; no series occurs twice, and those of a metric stand together.
fn assert_text(text: &str) {
    let mut series = std::collections::BTreeSet::new();
    let (mut metrics, mut current) = (std::collections::BTreeSet::new(), "");
    for line in text.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let mut words = comment.split(' ');
            let (kind, name) = (words.next().unwrap(), words.next().unwrap());
            if kind == "HELP" {
                assert!(metrics.insert(name), "{name} twice");
                current = name;
            } else {
                assert!(kind == "TYPE" && name == current, "{line}");
            }
            continue;
        }
        let (name, rest) = line.split_once('{').unwrap();
        let (_, value) = rest.rsplit_once("} ").unwrap();
        assert!(
            name.starts_with(current) && !value.is_empty() && value.parse::<f64>().is_ok_and(f64::is_finite),
            "{line}"
        );
        assert!(series.insert(line.rsplit_once(' ').unwrap().0.to_owned()), "{line} twice");
    }
    assert!(series.len() < 500, "{} series", series.len());
}

#[test]
fn a_server_s_requests_are_there_while_they_run() {
    let records = server().records();
    let trace = trace(&records, 1 << 30);
    let mut reader = TraceReader::new(&trace[..]).unwrap();
    let (mut model, _) = Model::new(reader.meta());
    assert_eq!(model.snapshot().state, State::Waiting);
    let mut seen = Vec::new();
    while let Some(item) = reader.next() {
        model.take(&item, None);
        if let Item::Record(record) = item {
            let header = record.header();
            // Long after each step nothing more comes: it is over.
            if record.kind().name == "step" {
                model.pass(header.start + header.duration + 400_000_000, None);
                seen.push(model.snapshot());
            }
        }
    }
    let running: Vec<u64> = seen.iter().map(|of| of.requests.as_ref().map_or(0, |r| r.running.unwrap())).collect();
    assert_eq!((running.iter().max(), running.first()), (Some(&2), Some(&1)), "{running:?}");
    let first = seen[0].requests.as_ref().unwrap();
    assert_eq!(
        (first.open[0].request, first.open[0].input_tokens, first.open[0].is_in_decode),
        (Some(0), Some(9), true)
    );
    // The third one waits for a slot.
    assert!(seen.iter().any(|of| of.requests.as_ref().is_some_and(|requests| requests.queued == Some(1))));
    // A figure never falls, and the first token is there long before the request's end.
    assert!(seen.windows(2).all(|pair| pair[0].ttft.count <= pair[1].ttft.count));
    let told = seen.iter().position(|of| of.ttft.count == 1).unwrap();
    assert!(seen[told].requests.as_ref().unwrap().duration.count == 0);
    model.finish(None);
    let end = model.snapshot();
    let requests = end.requests.unwrap();
    assert_eq!((requests.duration.count, requests.running, requests.queued), (3, Some(0), Some(0)));
    assert_eq!((requests.input_tokens, requests.output_tokens), (34, 19));
    assert_eq!((end.ttft.count, end.tpot.count), (3, 16));
}

#[test]
fn labels_are_bounded_and_no_count_falls() {
    let mut records = Records::default();
    records.push("thread", 1, (0, 0), &[("pid", Put::Int(100))]);
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    let mut model: Option<Model> = None;
    for step in 0..60_u64 {
        let start = 1_000_000_000 * (step + 1);
        for operator in 0..(step * 12) {
            let op = format!("OP_{operator}");
            let address = 0x1000 + operator;
            if operator >= step.saturating_sub(1) * 12 {
                records.push("tensor", 1, (start, start), &[("address", Put::Int(address)), ("op", Put::Text(&op))]);
            }
            let at = start + 10 + operator * 20;
            records.push("operator", 1, (at, at + 1 + operator % 17), &[("node", Put::Int(address))]);
        }
        records.push("step", 1, (start, start + 500_000_000), &[("tokens", Put::Int(1))]);
        let bytes = trace(&records, 1 << 30);
        let mut reader = TraceReader::new(&bytes[..]).unwrap();
        let model = model.get_or_insert_with(|| Model::new(reader.meta()).0);
        while let Some(item) = reader.next() {
            if let Item::Record(_) = item {
                model.take(&item, None);
            }
        }
        records.records.clear();
        model.pass(start + 900_000_000, None);
        let snapshot = model.snapshot();
        for row in &snapshot.operators {
            let before = counts.insert(row.op.clone(), row.count).unwrap_or(0);
            assert!(row.count >= before, "{}: {before}, then {}", row.op, row.count);
        }
        assert_text(&prometheus(&[snapshot], None));
    }
    assert_eq!(counts.len(), operators::LABELS + 1, "{counts:?}");
    assert!(counts.contains_key("other"));
    assert_eq!(counts.values().sum::<u64>(), (0..60).map(|step| step * 12).sum::<u64>());
}

#[test]
fn metrics_have_the_names_and_bounds_of_the_conventions() {
    let container = Container {
        id: "c0".into(),
        name: Some("a \"b\"".into()),
        image: Some("llm:1".into()),
        ..Container::default()
    };
    let snapshot = live(&trace(&server().records(), 11));
    let snapshot = Snapshot { instance: "server".into(), container: Some(container), ..snapshot };
    let pod =
        Container { pod: Some("llm-0".into()), namespace: Some("prod".into()), ..snapshot.container.clone().unwrap() };
    let other = Snapshot { instance: "other".into(), pid: 7, container: Some(pod), ..snapshot.clone() };
    let waiting = Snapshot { instance: "third".into(), ..Snapshot::empty(9, State::Waiting) };
    let text = prometheus(&[snapshot, other, waiting], None);
    assert_text(&text);
    let labels = r#"gen_ai_provider_name="toy \"engine\"",service_instance_id="server""#;
    let of_others = labels.replace("server", "other");
    for line in [
        "# TYPE gen_ai_server_time_to_first_token_seconds histogram".to_owned(),
        format!("gen_ai_server_time_to_first_token_seconds_bucket{{{labels},le=\"+Inf\"}} 3"),
        format!("gen_ai_server_time_to_first_token_seconds_count{{{labels}}} 3"),
        format!("gen_ai_server_time_per_output_token_seconds_bucket{{{labels},le=\"+Inf\"}} 16"),
        format!("gen_ai_server_request_duration_seconds_count{{{labels}}} 3"),
        format!("profinfer_request_tokens_total{{{labels},gen_ai_token_type=\"output\"}} 19"),
        format!("profinfer_losses_total{{{labels},reason=\"ring_full\"}} 7"),
        format!("profinfer_losses_total{{{labels},reason=\"missing_return\"}} 0"),
        format!("profinfer_recording{{{labels}}} 0"),
        "profinfer_recording{gen_ai_provider_name=\"\",service_instance_id=\"third\"} 0".to_owned(),
        "profinfer_target_info{gen_ai_provider_name=\"\",service_instance_id=\"third\",process_pid=\"9\"} 1".to_owned(),
        format!(
            "profinfer_target_info{{{labels},process_pid=\"100\",container_id=\"c0\",container_name=\"a \\\"b\\\"\",\
             container_image_name=\"llm:1\"}} 1"
        ),
        format!(
            "profinfer_target_info{{{of_others},process_pid=\"7\",container_id=\"c0\",k8s_container_name=\"a \\\"b\\\"\",\
             container_image_name=\"llm:1\",k8s_pod_name=\"llm-0\",k8s_namespace_name=\"prod\"}} 1"
        ),
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    assert!(!text.contains("profinfer_throttled"), "absent is absent");
    assert!(!text.contains("reason=\"still_open\""), "which loses no record");
}

/// What a model was just given: a record that begins at this time, a notice of this time.
enum Given {
    Record(u64),
    Notice(u64),
}

/// A model that watches for a condition, after each record and notice of a trace.
fn watching(condition: &str, records: &Records, notices: &[Notice], mut act: impl FnMut(&mut Model, &Meta, Given)) {
    let mut writer = TraceWriter::new(Vec::new(), &Origin { pid: 100, ..Origin::default() }, &records.schema).unwrap();
    let mut left = notices.iter().peekable();
    for record in &records.records {
        let start = u64::from_le_bytes(record[16..24].try_into().unwrap());
        while let Some(notice) = left.next_if(|notice| notice.time <= start) {
            writer.notice(notice).unwrap();
        }
        writer.push(record).unwrap();
    }
    left.for_each(|notice| writer.notice(notice).unwrap());
    let trace = writer.finish(&End::default()).unwrap();
    let mut reader = TraceReader::new(&trace[..]).unwrap();
    let mut model = Model::new(reader.meta()).0;
    model.watch(Condition::parse("--when", condition).unwrap(), 1);
    while let Some(item) = reader.next() {
        model.take(&item, None);
        let given = match item {
            Item::Record(record) => Given::Record(record.header().start),
            Item::Notice(notice) => Given::Notice(notice.time),
            _ => continue,
        };
        act(&mut model, reader.meta(), given);
    }
}

const SECOND: u64 = 1_000_000_000;

/// The end of a request may lie in a time in which nothing was recorded: it does not run for ever.
#[test]
fn what_no_window_shows_does_not_run() {
    let records = server().records();
    let trace = trace(&records, 1 << 30);
    let mut reader = TraceReader::new(&trace[..]).unwrap();
    let (mut model, _) = Model::new(reader.meta());
    let (mut steps, mut begin) = (0, 0);
    while let Some(item) = reader.next().filter(|_| steps < 2) {
        model.take(&item, None);
        if let Item::Record(record) = item {
            begin = record.header().start;
            steps += u64::from(record.kind().name == "step");
        }
    }
    let running = |model: &mut Model, time: u64| {
        model.pass(begin + time, None);
        model.snapshot().requests.unwrap().running
    };
    let detail = |model: &mut Model, time: u64, state| {
        let detail = Some(Detail { state, reason: DetailReason::Budget, steps_too: true, planned_end: None });
        model.take(&Item::Notice(&Notice { time: begin + time, detail, ..Notice::default() }), None);
    };
    assert_eq!(running(&mut model, SECOND), Some(1));
    detail(&mut model, 2 * SECOND, DetailState::Off);
    assert_eq!([5, 13].map(|time| running(&mut model, time * SECOND)), [Some(1), None]);
    detail(&mut model, 14 * SECOND, DetailState::On);
    detail(&mut model, 14 * SECOND + SECOND / 10, DetailState::Off);
    assert_eq!(running(&mut model, 16 * SECOND), Some(0));
}

/// A second is complete when no step of it is still waited for: rates are of seconds with all of their steps.
#[test]
fn rates_do_not_fall_where_steps_contain_steps() {
    let mut records = Records::default();
    records.push("thread", 1, (0, 0), &[("pid", Put::Int(100))]);
    let mut notices = Vec::new();
    for step in 0..200_u64 {
        let start = (100 + step) * SECOND / 2;
        records.push("step", 1, (start + 1000, start + 2000), &[("tokens", Put::Int(1))]);
        records.push("step", 1, (start, start + 9000), &[("tokens", Put::Int(1))]);
        notices.push(Notice { time: start + SECOND / 4, ..Notice::default() });
    }
    let mut rates = Vec::new();
    watching("tokens_per_second < 2 for 2s", &records, &notices, |model, _, given| {
        if let Given::Notice(time) = given {
            assert_eq!(model.happened(), None, "at {time}");
            // Once the window is full.
            if time > 80 * SECOND {
                rates.push(model.snapshot().window.steps_per_s);
            }
        }
    });
    assert!(rates.len() > 50 && rates.iter().all(|rate| *rate == Some(2.0)), "{rates:?}");
}

/// With a small budget, steps are recorded in windows: what no window has was not recorded, which is no low rate.
#[test]
fn a_second_that_was_not_all_recorded_has_no_rate_of_tokens() {
    let mut records = Records::default();
    records.push("thread", 1, (0, 0), &[("pid", Put::Int(100))]);
    let mut notices = Vec::new();
    for second in 50..90_u64 {
        let start = second * SECOND;
        let mut detail = |time: u64, state: DetailState| {
            let detail = Some(Detail { state, reason: DetailReason::Budget, steps_too: true, planned_end: None });
            notices.push(Notice { time, detail, ..Notice::default() });
        };
        // Windows are about when a second is judged, too.
        detail(start + SECOND / 3, DetailState::On);
        records.push("step", 1, (start + SECOND / 3 + 1000, start + SECOND / 3 + 9000), &[("tokens", Put::Int(1))]);
        detail(start + SECOND / 2, DetailState::Off);
    }
    let (mut passed, mut rates) = (0, Vec::new());
    watching("tokens_per_second < 5 for 3s", &records, &notices, |model, _, given| {
        if let Given::Record(time) = given {
            model.pass(time + SECOND / 10, None);
            assert_eq!(model.happened(), None);
            passed += 1;
            rates.push(model.snapshot().window);
        }
    });
    assert!(passed > 30);
    // A step in a sixth of each second.
    let window = rates.last().unwrap();
    assert!(window.rates_are_estimated && window.output_is_estimated);
    assert!(window.steps_per_s.is_some_and(|rate| (5.0..7.0).contains(&rate)), "{window:?}");
}

#[test]
fn a_verdict_that_begins_anew_interrupts_no_condition() {
    let mut records = Records::default();
    records.push("thread", 1, (0, 0), &[("pid", Put::Int(100))]);
    let fields = [("address", Put::Int(0x100)), ("op", Put::Text("MUL")), ("name", Put::Text("a"))];
    records.push("tensor", 1, (1, 1), &fields);
    let mut notices = Vec::new();
    // A whole step every three seconds for a while, and then none.
    for second in 50..240_u64 {
        let start = second * SECOND;
        if second % 3 == 0 && second < 170 {
            records.push("operator", 1, (start + 10, start + 900), &[("node", Put::Int(0x100))]);
            records.push("step", 1, (start, start + 1000), &[("tokens", Put::Int(1))]);
        }
        notices.push(Notice { time: start + SECOND / 2, ..Notice::default() });
    }
    let mut happened = Vec::new();
    watching("memory >= 0% for 60s", &records, &notices, |model, meta, given| {
        if let Given::Notice(_) = given {
            model.judge(meta);
            happened.extend(model.happened().map(|of| (of.from / SECOND, of.to / SECOND)));
        }
    });
    let [(from, to)] = happened[..] else { panic!("{happened:?}") };
    assert!(from < 60 && to - from >= 60, "{happened:?}");
}

fn as_json(request: &OtlpRequest) -> serde_json::Value {
    serde_json::from_slice(&request.json()).unwrap()
}

/// Steps in a phase.
struct Counted(u64);

impl Visitor for Counted {
    fn step(&mut self, step: &Step, _: &Catalogue, _: &Decoder) {
        self.0 += u64::from(step.phase.is_some_and(|phase| phase != Phase::Outside));
    }
}

#[test]
fn whom_steps_are_shown_to_besides_sees_all() {
    let (mut counted, mut all) = (Counted(0), 0);
    // With time that passes, steps end without a record after them.
    for passes in [false, true] {
        let bytes = trace(&server().records(), 11);
        let mut reader = TraceReader::new(&bytes[..]).unwrap();
        let mut model = Model::new(reader.meta()).0;
        while let Some(item) = reader.next() {
            model.take(&item, Some(&mut counted));
            if let (Item::Record(record), true) = (&item, passes) {
                let header = record.header();
                model.pass(header.start + header.duration + 400_000_000, Some(&mut counted));
            }
        }
        model.finish(Some(&mut counted));
        all += model.snapshot().phases.iter().map(|phase| phase.steps.count + phase.incomplete).sum::<u64>();
        assert_eq!(counted.0, all, "time passes: {passes}");
    }
    assert!(all > 0);
}

/// The points of an OTLP metric of the first recording.
fn otlp_points(request: &serde_json::Value, name: &str, kind: &str) -> Vec<serde_json::Value> {
    let metrics = request["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().unwrap();
    let metric = metrics.iter().find(|metric| metric["name"] == name).unwrap();
    metric[kind]["dataPoints"].as_array().unwrap().clone()
}

#[test]
fn otlp_has_the_numbers_of_prometheus() {
    let snapshot = live(&trace(&server().records(), 11));
    let clock = UnixClock { offset_ns: 1_790_000_000_000_000_000, now_ns: 5_000_000_000 };
    let request = as_json(&otlp_metrics(&[snapshot.clone(), Snapshot::empty(9, State::Waiting)], clock));
    let name = "gen_ai.server.time_to_first_token";
    let point = &otlp_points(&request, name, "histogram")[0];
    assert_eq!(point["count"], "3");
    assert_eq!(point["timeUnixNano"], "1790000005000000000");
    assert_eq!(point["startTimeUnixNano"], STARTED.to_string());
    // Whatever a clock is set to, the start stays: with another one it would be another target. Time goes on from there.
    for (offset_ns, now) in [(1_790_000_000_000_000_321, 1_790_000_005_000_000_321), (5, STARTED)] {
        let later = as_json(&otlp_metrics(std::slice::from_ref(&snapshot), UnixClock { offset_ns, ..clock }));
        for (metric, kind) in [(name, "histogram"), ("profinfer.request_tokens", "sum")] {
            let point = &otlp_points(&later, metric, kind)[0];
            assert_eq!(point["startTimeUnixNano"], STARTED.to_string(), "{metric}");
            assert_eq!(point["timeUnixNano"], now.to_string(), "{metric}");
        }
    }
    let counts = point["bucketCounts"].as_array().unwrap();
    assert_eq!(counts.len(), point["explicitBounds"].as_array().unwrap().len() + 1);
    let sum: u64 = counts.iter().map(|count| count.as_str().unwrap().parse::<u64>().unwrap()).sum();
    assert_eq!(sum, 3);
    let tokens = otlp_points(&request, "profinfer.request_tokens", "sum");
    assert_eq!(tokens[1]["asDouble"], 19.0);
    assert_eq!(tokens[1]["attributes"][0]["key"], "gen_ai.token.type");
    assert_eq!(request["resourceMetrics"].as_array().unwrap().len(), 2);
    assert_eq!(request["resourceMetrics"][1]["resource"]["attributes"][0]["value"]["intValue"], "9");
    // Each metric of the one is in the other; what `target_info` has is the resource there.
    let text = prometheus(&[snapshot], None);
    let metrics = request["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().unwrap();
    assert_eq!(text.lines().filter(|line| line.starts_with("# TYPE")).count(), metrics.len() + 1);
}

#[test]
fn each_request_is_a_span_with_its_parts() {
    let bytes = trace(&server().records(), 11);
    let mut reader = TraceReader::new(&bytes[..]).unwrap();
    let mut model = Model::new(reader.meta()).0;
    model.remember_ended();
    while let Some(item) = reader.next() {
        model.take(&item, None);
    }
    model.finish(None);
    let (ended, snapshot) = (model.take_ended(), model.snapshot());
    assert_eq!((ended.requests.len(), ended.left_out), (3, 0));
    assert_eq!(model.take_ended().requests.len(), 0);
    let clock = UnixClock { offset_ns: 1_790_000_000_000_000_000, now_ns: 5_000_000_000 };
    let request = otlp_spans([(&snapshot, &ended.requests[..])], clock);
    assert_eq!(request, otlp_spans([(&snapshot, &ended.requests[..])], clock), "sent again, it is the same");
    let request = as_json(&request);
    // By another second of the clock, too.
    let later = UnixClock { offset_ns: clock.offset_ns + 999_999_999_999, ..clock };
    let later = as_json(&otlp_spans([(&snapshot, &ended.requests[..])], later));
    let ids = |request: &serde_json::Value| {
        let spans = request["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone();
        spans.iter().map(|span| [&span["traceId"], &span["spanId"]].map(ToString::to_string)).collect::<Vec<_>>()
    };
    assert_eq!(ids(&request), ids(&later));
    let spans = request["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap();
    let roots: Vec<_> = spans.iter().filter(|span| span["name"] == "request").collect();
    assert_eq!(roots.len(), 3);
    let time = |span: &serde_json::Value, key: &str| span[key].as_str().unwrap().parse::<u64>().unwrap();
    for (root, request) in roots.iter().zip(&ended.requests) {
        assert!(root.get("parentSpanId").is_none());
        assert_eq!(root["traceId"].as_str().unwrap().len(), 32);
        let parts: Vec<_> = spans.iter().filter(|span| span["parentSpanId"] == root["spanId"]).collect();
        let names: Vec<_> = parts.iter().map(|part| part["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["queued", "prefill", "decode"]);
        let of_parts: u64 =
            parts.iter().map(|part| time(part, "endTimeUnixNano") - time(part, "startTimeUnixNano")).sum();
        assert_eq!(of_parts, request.duration());
        assert_eq!(time(root, "endTimeUnixNano") - time(root, "startTimeUnixNano"), request.duration());
    }
}

#[test]
fn the_screen_has_what_it_says_in_80_by_24() {
    let snapshot = live(&trace(&server().records(), 11));
    let screen = Screen { width: 80, height: 24, ..Screen::default() };
    let lines = screen.lines(std::slice::from_ref(&snapshot), Some("a message"));
    let text = lines.join("\n");
    assert!(!text.contains("too many to be asked"), "{text}");
    let pressure = snapshot.pressure.map(|pressure| Pressures { left_out: 3, ..pressure });
    let many = Snapshot { pressure, ..snapshot.clone() };
    let many = screen.lines(&[many], None).join("\n");
    assert!(many.contains("without 3 processes, too many to be asked"), "{many}");
    for words in [
        "process 100",
        "ended: the target ended",
        "0 running, 0 queued, 3 ended",
        "first token",
        "7 records lost",
        "work▾",
        "OP_",
        "a message",
        "q quit  f freeze  s sort by waiting",
    ] {
        assert!(text.contains(words), "{words}\n{text}");
    }
    let by_count = Screen { sort: Sort::Count, is_frozen: true, selected: 5, ..screen };
    let text = by_count.lines(&[snapshot.clone(), snapshot], None).join("\n");
    assert!(text.contains("count▾") && text.contains("f FROZEN") && text.contains("2 of 2"), "{text}");
    let text = screen.lines(&[], None).join("\n");
    assert!(text.contains("Waiting for the first record"), "{text}");
}
