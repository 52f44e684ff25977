//! The page's timeline: what is collected of each step while the trace is read ([`SpanCollector`]), and the columns and
//! tables that it becomes. It works on tracks and steps, without colours and HTML.

use super::columns::Columns;
use super::device_spans;
use super::selection::Selection;
use super::span::{Line, OfLane, Span, What};
use crate::flows::{SourceFinder, Sources};
use crate::model::frequency;
use profinfer_analysis::{
    Catalogue, Decoder, KindId, LaneSpan, Missing, Phase, Region, Step, TextId, ThreadState, Visitor, counted,
    group_digits,
};
use profinfer_trace::Meta;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;

/// Spans that a page holds at most: browsers draw as many smoothly, and the page stays below 20 MB.
pub const MOST_SPANS: usize = 400_000;
/// The last steps of a page are in so many bytes at the end of a trace: a span takes some three of them.
const LAST_BYTES: u64 = 32 << 20;
/// Operators whose results one operator reads, as far as the page has it.
const MOST_SOURCES: usize = 16;
/// Changes of a processor's frequency that a page holds.
const MOST_CHANGES: usize = 4000;
/// Threads of a step, and steps, whose losses a page marks.
const MOST_LOSSES: usize = 64;
const MOST_LOSSY_STEPS: usize = 4000;
/// Lines of the timeline; spans of further ones are left out.
const MOST_TRACKS: usize = 512;

/// A step as the page's timeline has it.
#[derive(Debug, Clone, Default)]
pub(super) struct StepSpans {
    pub(super) number: u64,
    pub(super) start: u64,
    pub(super) end: u64,
    pid: u32,
    /// The thread that ran it; 0 for what no step contains.
    tid: u32,
    pub(super) spans: Vec<Span>,
    operators: Vec<What>,
    /// What was encoded for devices.
    encoded: Vec<What>,
    /// Of each operator, those whose results it reads.
    sources: Sources,
    /// Counters of the lanes' shares, one after the other.
    counts: Vec<Option<u64>>,
    backends: Vec<TextId>,
    /// Records that are missing: how many, of which lane or thread.
    losses: Vec<(u64, String)>,
    /// Spans beyond the limit of one step.
    left_out: u64,
}

impl StepSpans {
    pub(super) fn duration(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// Takes a step in the place of another, whose memory it uses. `sources` are not taken.
    fn take(&mut self, step: &Step, counters: usize, most: usize) {
        let is_step = step.phase != Some(Phase::Outside);
        let (collected, mut spans) = (self, Vec::new());
        (collected.number, collected.start, collected.end) = (step.number, step.start, step.end);
        (collected.pid, collected.tid) = (step.pid, if is_step { step.tid } else { 0 });
        std::mem::swap(&mut spans, &mut collected.spans);
        spans.clear();
        collected.backends.clear();
        collected.counts.clear();
        // Only these need the lane of a thread.
        let has_threads = !step.regions.is_empty() || !step.states.is_empty();
        let of_lanes = if has_threads { step.lanes.as_slice() } else { &[] };
        let lanes: HashMap<u32, u32> = of_lanes.iter().map(|span| (span.tid, span.lane)).collect();
        let whole = Span { start: step.start, end: step.end, ..Span::default() };
        spans.extend(is_step.then_some(whole));
        for graph in &step.graphs {
            let backend = position(&mut collected.backends, graph.backend);
            spans.push(Span { line: Line::Graphs(backend), start: graph.start, end: graph.end, ..Span::default() });
        }
        for (index, operator) in step.operators.iter().enumerate() {
            let what = u32::try_from(index).unwrap_or(u32::MAX);
            for share in step.lanes_of(operator) {
                let counts = u32::try_from(collected.counts.len()).unwrap_or(u32::MAX);
                collected.counts.extend((0..counters).map(|column| step.count_of(share, column).value()));
                spans.push(operator_span(share, what, counts));
            }
        }
        spans.extend(step.regions.iter().map(|region| region_span(region, &lanes)));
        let with_state = step.states.iter().filter(|span| span.state != ThreadState::Unknown);
        spans.extend(with_state.filter_map(|span| {
            let line = Line::Lane(*lanes.get(&span.tid)?, OfLane::States);
            let cpu = span.cpu.map_or(0, |cpu| u32::from(cpu) + 1);
            let what = cpu << 2 | state_number(span.state);
            Some(Span { line, start: span.start, end: span.end, what, ..Span::default() })
        }));
        collected.encoded.clear();
        device_spans::add(step, &mut spans, &mut collected.encoded);
        collected.losses =
            step.missing.iter().take(MOST_LOSSES).map(|missing| (missing.records, whose(missing))).collect();
        collected.left_out = spans.len().saturating_sub(most) as u64;
        spans.truncate(most);
        collected.operators.clear();
        collected.operators.extend(step.operators.iter().map(what_of));
        shrink(&mut spans);
        shrink(&mut collected.operators);
        shrink(&mut collected.counts);
        shrink(&mut collected.encoded);
        collected.spans = spans;
    }
}

/// A small step must not hold the memory of a large one before it.
fn shrink<T>(values: &mut Vec<T>) {
    if values.capacity() > values.len() + values.len() / 4 + 4 {
        values.shrink_to_fit();
    }
}

fn whose(missing: &Missing) -> String {
    missing.lane.map_or_else(|| format!("thread {}", missing.tid), |lane| format!("lane {lane}"))
}

fn position(backends: &mut Vec<TextId>, backend: TextId) -> u32 {
    let found = backends.iter().position(|earlier| *earlier == backend);
    let index = found.unwrap_or_else(|| {
        backends.push(backend);
        backends.len() - 1
    });
    u32::try_from(index).unwrap_or(u32::MAX)
}

fn operator_span(share: &LaneSpan, what: u32, counts: u32) -> Span {
    let line = Line::Lane(share.lane, OfLane::Operators);
    Span { line, start: share.start, end: share.end, waiting: share.waiting, what, counts, more: 0 }
}

fn region_span(region: &Region, lanes: &HashMap<u32, u32>) -> Span {
    let line = lanes.get(&region.tid).map_or(Line::Thread(region.tid), |lane| Line::Lane(*lane, OfLane::Regions));
    Span { line, start: region.start, end: region.end, what: u32::from(region.record_type), ..Span::default() }
}

fn what_of(operator: &profinfer_analysis::Operator) -> What {
    let cost = &operator.cost;
    What { kind: operator.kind, flops: cost.flops, bytes: cost.bytes, bound: cost.flops_bound || cost.bytes_bound }
}

/// As `timeline.js` has them.
fn state_number(state: ThreadState) -> u32 {
    match state {
        ThreadState::Running | ThreadState::Unknown => 0,
        ThreadState::Runnable => 1,
        ThreadState::Sleeping | ThreadState::Stopped | ThreadState::Attaching => 2,
        ThreadState::Blocked => 3,
    }
}

/// Collects the spans of a page's timeline.
#[derive(Debug)]
pub struct SpanCollector {
    selection: Selection,
    sources: SourceFinder,
    /// Of the whole trace.
    steps: u64,
    not_wanted: u64,
    /// Bytes of the trace, and how many of them are not read yet; 0 where that is unknown.
    bytes: u64,
    bytes_left: u64,
}

impl SpanCollector {
    /// Of these steps; of all, as far as they fit, where none are named.
    pub fn new(steps: Option<RangeInclusive<u64>>) -> Self {
        Self::with_most(steps, MOST_SPANS)
    }

    /// Of a trace of so many bytes: steps that cannot be in the page then take next to no time.
    #[must_use]
    pub fn of_bytes(self, bytes: u64) -> Self {
        Self { bytes, ..self }
    }

    /// The same, with a given bound.
    pub fn with_most(steps: Option<RangeInclusive<u64>>, most: usize) -> Self {
        let (selection, sources) = (Selection::new(most, steps), SourceFinder::default());
        Self { selection, sources, steps: 0, not_wanted: 0, bytes: 0, bytes_left: 0 }
    }

    /// What the page holds of them.
    pub(super) fn finish(self, catalogue: &Catalogue, decoder: &Decoder, meta: &Meta) -> Spans {
        let (steps, too_many) = self.selection.finish();
        let mut spans = Spans::new(&steps, catalogue, decoder, meta);
        spans.facts.steps = self.steps;
        spans.facts.steps_left_out = too_many + self.not_wanted;
        spans.facts.sentence = spans.facts.describe(self.not_wanted > 0);
        spans
    }
}

impl Visitor for SpanCollector {
    fn step(&mut self, step: &Step, catalogue: &Catalogue, decoder: &Decoder) {
        self.steps += u64::from(step.number > 0);
        if self.selection.wants(step.number) {
            let is_far_from_the_end = self.bytes_left > LAST_BYTES;
            if is_far_from_the_end && self.selection.leaves_out(step.duration(), step.number) {
                return;
            }
            let counters = decoder.counters().len();
            let mut spans = self.selection.spare();
            spans.take(step, counters, self.selection.most_of_a_step());
            self.sources.find(step, catalogue, MOST_SOURCES, &mut spans.sources);
            self.selection.push(spans);
        } else {
            self.not_wanted += u64::from(step.number > 0);
        }
    }

    fn offset(&mut self, bytes: u64) {
        self.bytes_left = self.bytes.saturating_sub(bytes);
    }
}

/// The timeline as the page holds it.
#[derive(Debug)]
pub(super) struct Spans {
    pub(super) facts: SpanFacts,
    pub(super) columns: Columns,
}

/// What goes with the columns, as JSON.
#[derive(Debug, Default, Serialize)]
pub(super) struct SpanFacts {
    /// What times count from: ns, CLOCK_MONOTONIC, as text, since not every number of the trace is one of JavaScript's.
    origin: String,
    /// Spans in the columns.
    spans: u64,
    /// Steps of the trace.
    steps: u64,
    steps_left_out: u64,
    spans_left_out: u64,
    /// Omitted steps, as a sentence; empty if there are none.
    sentence: String,
    /// Numbers of the steps on the track of steps, in the order of its spans, one list a track of steps.
    numbers: Vec<Vec<u64>>,
    texts: Vec<String>,
    /// name, op, shape, dtype, layer, covers (`-1`: none); flops, bytes, and whether they are of the most experts.
    kinds: Vec<KindRow>,
    /// Names of the counters that each span of an operator has.
    counters: Vec<String>,
    /// Where records are missing.
    losses: Vec<LossRow>,
    /// Operators in the columns, which follow the tracks: how many others each reads from, and how far back these are.
    operators: u64,
    tracks: Vec<TrackRow>,
}

/// The step's number, when it began, how many records of which lane or thread.
type LossRow = (u64, u64, Vec<(u64, String)>);
type KindRow = (u32, u32, String, i64, i64, i64, Option<f64>, Option<f64>, bool);

#[derive(Debug, Serialize)]
struct TrackRow {
    /// `steps`, `graphs`, `encoding`, `calls`, `queue`, `operators`, `regions`, `states`, `frequency`.
    kind: &'static str,
    label: String,
    /// The lane, where it belongs to one.
    lane: Option<u32>,
    spans: u64,
}

impl SpanFacts {
    /// What the page's timeline lacks; empty where it has all.
    pub(super) fn sentence_text(&self) -> &str {
        &self.sentence
    }

    fn describe(&self, by_choice: bool) -> String {
        let steps = counted(self.steps, "step");
        let shown = group_digits(self.steps.saturating_sub(self.steps_left_out));
        let mut sentence = match (self.steps_left_out, by_choice) {
            (0, _) => String::new(),
            (_, true) => format!("The timeline has {shown} of {steps}: those that were asked for, as far as they fit."),
            (_, false) => format!(
                "The timeline has {shown} of {steps}: the first, the last, and the slowest of those between. \
                 `profinfer html --steps N..M` takes others."
            ),
        };
        if self.spans_left_out > 0 {
            let left_out = counted(self.spans_left_out, "span");
            sentence.push_str(&format!(" {left_out} of large steps are left out."));
        }
        sentence.trim_start().to_owned()
    }
}

/// Whose track: process, thread that runs the steps, line. Backends are by their text here.
type Key = (u32, u32, Line);

impl Spans {
    fn new(steps: &[StepSpans], catalogue: &Catalogue, decoder: &Decoder, meta: &Meta) -> Self {
        let mut tables = Tables { catalogue, decoder, texts: HashMap::new(), kinds: HashMap::new() };
        let counters = decoder.counters().iter().map(ToString::to_string).collect();
        let mut facts = SpanFacts { counters, ..SpanFacts::default() };
        let origin = steps.iter().flat_map(|s| s.spans.iter().map(|span| span.start)).min().unwrap_or(0);
        facts.origin = origin.to_string();
        let mut tracks: BTreeMap<Key, Vec<Shown<'_>>> = BTreeMap::new();
        for step in steps {
            let first = facts.operators;
            facts.operators += step.operators.len() as u64;
            facts.spans_left_out += step.left_out;
            for span in &step.spans {
                let line = match span.line {
                    Line::Graphs(backend) => match step.backends.get(backend as usize) {
                        Some(text) => Line::Graphs(tables.text(catalogue.text(*text), &mut facts)),
                        None => continue,
                    },
                    line => line,
                };
                let key = (step.pid, step.tid, line);
                if tracks.len() >= MOST_TRACKS && !tracks.contains_key(&key) {
                    facts.spans_left_out += 1;
                    continue;
                }
                let what = match line {
                    Line::Steps => step.number,
                    Line::Graphs(_) => 0,
                    Line::Lane(_, OfLane::Operators) => match step.operators.get(span.what as usize) {
                        Some(what) => u64::from(tables.kind(what, &mut facts)),
                        None => continue,
                    },
                    Line::Lane(_, OfLane::Regions) | Line::Thread(_) => {
                        let probe = u16::try_from(span.what).unwrap_or(u16::MAX);
                        u64::from(tables.text(tables.decoder.name(probe), &mut facts))
                    }
                    Line::Encoding(_) => match step.encoded.get(span.what as usize) {
                        Some(what) => u64::from(tables.kind(what, &mut facts)),
                        None => continue,
                    },
                    Line::Calls(_) => {
                        let probe = u16::try_from(span.what >> 2).unwrap_or(u16::MAX);
                        let name = tables.text(tables.decoder.name(probe), &mut facts);
                        (u64::from(name) << 2) | u64::from(span.what & 3)
                    }
                    Line::Queue(_) | Line::Lane(_, OfLane::States) => u64::from(span.what),
                    Line::Frequency(_) => continue,
                };
                let number = first + u64::from(span.what);
                let counts = step.counts.get(span.counts as usize..).unwrap_or(&[]);
                let counts = counts.get(..facts.counters.len()).unwrap_or(&[]);
                tracks.entry(key).or_default().push(Shown { span: *span, what, number, counts });
            }
        }
        let lossy = steps.iter().filter(|step| !step.losses.is_empty()).take(MOST_LOSSY_STEPS);
        facts.losses =
            lossy.map(|step| (step.number, step.start.saturating_sub(origin), step.losses.clone())).collect();
        add_frequencies(&mut tracks, meta, origin);
        let first = First {
            runs_steps: tracks.keys().find(|key| key.1 != 0).map(|key| (key.0, key.1)),
            outside: tracks.keys().find(|key| key.1 == 0).map(|key| key.0),
        };
        let mut columns = Columns::default();
        for (key, mut spans) in tracks {
            spans.sort_by_key(|shown| (shown.span.start, std::cmp::Reverse(shown.span.end)));
            facts.spans += spans.len() as u64;
            facts.tracks.push(track_row(key, first, spans.len(), &facts.texts));
            if key.2 == Line::Steps {
                facts.numbers.push(spans.iter().map(|shown| shown.what).collect());
                spans.iter_mut().enumerate().for_each(|(index, shown)| shown.what = index as u64);
            }
            write(&mut columns, key.2, &spans, origin, facts.counters.len());
        }
        for step in steps {
            for (index, sources) in (0_u32..).zip(step.sources.iter()) {
                columns.uint(sources.len() as u64);
                sources.iter().for_each(|source| columns.uint(u64::from(index.saturating_sub(*source))));
            }
        }
        Self { facts, columns }
    }
}

/// A span on its track.
#[derive(Debug, Clone, Copy)]
struct Shown<'a> {
    span: Span,
    what: u64,
    /// Of the operator, through all steps.
    number: u64,
    counts: &'a [Option<u64>],
}

/// How fast each processor ran while there were steps, where the trace tells it.
fn add_frequencies(tracks: &mut BTreeMap<Key, Vec<Shown<'_>>>, meta: &Meta, origin: u64) {
    let whose = tracks.keys().next().map(|key| key.0);
    let ends = tracks.values().flatten().map(|shown| shown.span.end);
    let (Some(pid), Some(last)) = (whose, ends.max()) else { return };
    for (cpu, told) in frequency::changes(meta).0 {
        let ends = told.iter().skip(1).map(|(time, _)| *time).chain([last]);
        let spans = told.iter().zip(ends).map(|((start, khz), end)| {
            let (start, end) = ((*start).max(origin), end.min(last));
            let span = Span { line: Line::Frequency(cpu), start, end, ..Span::default() };
            Shown { span, what: u64::from(*khz), number: 0, counts: &[] }
        });
        let spans: Vec<Shown<'_>> =
            spans.filter(|shown| shown.span.end > shown.span.start).take(MOST_CHANGES).collect();
        if !spans.is_empty() && tracks.len() < MOST_TRACKS {
            tracks.insert((pid, u32::MAX, Line::Frequency(cpu)), spans);
        }
    }
}

/// A track's columns: starts, counted from the end before; durations; what. Of operators: waiting; their numbers, each
/// from the one before; each counter, one more than it is, and 0 where it was not recorded. Of devices' lines: `more`.
fn write(columns: &mut Columns, line: Line, spans: &[Shown<'_>], origin: u64, counters: usize) {
    let mut before = origin;
    for Shown { span, .. } in spans {
        columns.difference(span.start, before);
        before = span.end.max(span.start);
    }
    let lasts = |span: &Span| span.end.saturating_sub(span.start);
    spans.iter().for_each(|shown| columns.uint(lasts(&shown.span)));
    spans.iter().for_each(|shown| columns.uint(shown.what));
    if matches!(line, Line::Encoding(_) | Line::Calls(_) | Line::Queue(_)) {
        spans.iter().for_each(|shown| columns.uint(shown.span.more));
    }
    if !matches!(line, Line::Lane(_, OfLane::Operators)) {
        return;
    }
    spans.iter().for_each(|shown| columns.uint(shown.span.waiting.min(lasts(&shown.span))));
    let mut before = 0;
    for shown in spans {
        columns.difference(shown.number, before);
        before = shown.number;
    }
    for column in 0..counters {
        let count = |shown: &Shown<'_>| shown.counts.get(column).copied().flatten();
        spans.iter().for_each(|shown| columns.uint(count(shown).map_or(0, |count| count.saturating_add(1))));
    }
}

/// Whose tracks need not be named: the first thread that runs steps, and the first process with spans outside of steps.
#[derive(Debug, Clone, Copy)]
struct First {
    runs_steps: Option<(u32, u32)>,
    outside: Option<u32>,
}

fn track_row((pid, tid, line): Key, first: First, spans: usize, texts: &[String]) -> TrackRow {
    let (kind, label, lane) = match line {
        Line::Steps => ("steps", "steps".to_owned(), None),
        Line::Graphs(backend) => {
            let backend = texts.get(backend as usize).map_or("", String::as_str);
            ("graphs", format!("graphs on {backend}"), None)
        }
        Line::Encoding(thread) => of_thread("encoding", "encoding", thread, tid),
        Line::Calls(thread) => of_thread("calls", "queue calls", thread, tid),
        Line::Queue(queue) => ("queue", format!("queue {queue:#x}"), None),
        Line::Lane(lane, OfLane::Operators) => ("operators", format!("lane {lane}"), Some(lane)),
        Line::Lane(lane, OfLane::Regions) => ("regions", format!("lane {lane}: regions"), Some(lane)),
        Line::Lane(lane, OfLane::States) => ("states", format!("lane {lane}: thread"), Some(lane)),
        Line::Thread(thread) => ("regions", format!("thread {thread}"), None),
        Line::Frequency(cpu) => {
            let label = format!("CPU {cpu}: MHz");
            return TrackRow { kind: "frequency", label, lane: None, spans: spans as u64 };
        }
    };
    let label = match tid {
        0 if first.outside != Some(pid) => format!("{label}, outside steps (process {pid})"),
        0 => format!("{label}, outside steps"),
        tid if first.runs_steps != Some((pid, tid)) => format!("{label} (thread {tid})"),
        _ => label,
    };
    TrackRow { kind, label, lane, spans: spans as u64 }
}

/// Of the thread that runs the steps, the track has no number.
fn of_thread(kind: &'static str, label: &str, thread: u32, steps: u32) -> (&'static str, String, Option<u32>) {
    let label = if thread == steps { label.to_owned() } else { format!("{label}, thread {thread}") };
    (kind, label, None)
}

/// Texts and kinds by number.
struct Tables<'a> {
    catalogue: &'a Catalogue,
    decoder: &'a Decoder,
    texts: HashMap<std::sync::Arc<str>, u32>,
    kinds: HashMap<(KindId, Option<u64>, Option<u64>, bool), u32>,
}

impl Tables<'_> {
    fn text(&mut self, text: &std::sync::Arc<str>, facts: &mut SpanFacts) -> u32 {
        if let Some(id) = self.texts.get(text) {
            return *id;
        }
        let id = u32::try_from(facts.texts.len()).unwrap_or(u32::MAX);
        facts.texts.push(text.to_string());
        self.texts.insert(std::sync::Arc::clone(text), id);
        id
    }

    fn kind(&mut self, what: &What, facts: &mut SpanFacts) -> u32 {
        let key = (what.kind, what.flops.map(f64::to_bits), what.bytes.map(f64::to_bits), what.bound);
        if let Some(id) = self.kinds.get(&key) {
            return *id;
        }
        let kind = self.catalogue.kind(what.kind).clone();
        let name = self.text(&kind.name, facts);
        let op = self.text(&kind.op, facts);
        let [dtype, layer, covers] = [&kind.dtype, &kind.layer, &kind.covers]
            .map(|text| text.as_ref().map_or(-1, |text| i64::from(self.text(text, facts))));
        let shape = if kind.shape.is_empty() { String::new() } else { crate::numbers::units::shape(&kind.shape) };
        let id = u32::try_from(facts.kinds.len()).unwrap_or(u32::MAX);
        facts.kinds.push((name, op, shape, dtype, layer, covers, what.flops, what.bytes, what.bound));
        self.kinds.insert(key, id);
        id
    }
}

#[cfg(test)]
#[path = "spans_tests.rs"]
mod tests;
