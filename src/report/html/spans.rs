//! The page's timeline: what is kept of each step while the trace is read ([`SpanCollector`]), and the columns and
//! tables that it becomes. It knows tracks and steps, no colours and no HTML.

use super::columns::Columns;
use super::selection::Selection;
use crate::analysis::{
    Catalogue, Decoder, KindId, LaneSpan, Phase, Region, Step, TextId, ThreadState, Visitor, counted, group_digits,
};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;

/// Spans that a page holds at most: browsers draw as many smoothly, and the page stays below 20 MB.
pub const MOST_SPANS: usize = 400_000;
/// Lines of the timeline; spans of further ones are left out.
const MOST_TRACKS: usize = 512;

/// A span of a step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) line: Line,
    pub(super) start: u64,
    pub(super) end: u64,
    /// ns at its end in which a lane waited.
    pub(super) waiting: u64,
    /// By the line: an index into the step's operators, a probe, or a state and cpu.
    pub(super) what: u32,
}

/// What a line of the timeline is for, in the order of display.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Line {
    /// The steps themselves.
    #[default]
    Steps,
    /// Graphs of a backend.
    Graphs(u32),
    /// A lane: its operators, what lies within them or between, what its thread did.
    Lane(u32, OfLane),
    /// Regions of a thread that is no lane.
    Thread(u32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum OfLane {
    Operators,
    Regions,
    States,
}

/// What an operator of a step is and costs.
#[derive(Debug, Clone, Copy)]
struct What {
    kind: KindId,
    flops: Option<f64>,
    bytes: Option<f64>,
    bound: bool,
}

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
    backends: Vec<TextId>,
    /// Spans beyond what is kept of one step.
    left_out: u64,
}

impl StepSpans {
    pub(super) fn duration(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    fn new(step: &Step, most: usize) -> Self {
        let is_step = step.phase != Some(Phase::Outside);
        let mut kept = Self {
            number: step.number,
            start: step.start,
            end: step.end,
            pid: step.pid,
            tid: if is_step { step.tid } else { 0 },
            ..Self::default()
        };
        let lanes: HashMap<u32, u32> = step.lanes.iter().map(|span| (span.tid, span.lane)).collect();
        let whole = Span { start: step.start, end: step.end, ..Span::default() };
        let steps = is_step.then_some(whole).into_iter();
        let mut spans: Vec<Span> = steps.collect();
        for graph in &step.graphs {
            let backend = position(&mut kept.backends, graph.backend);
            spans.push(Span { line: Line::Graphs(backend), start: graph.start, end: graph.end, ..Span::default() });
        }
        for (index, operator) in step.operators.iter().enumerate() {
            let what = u32::try_from(index).unwrap_or(u32::MAX);
            spans.extend(step.lanes_of(operator).iter().map(|share| operator_span(share, what)));
        }
        spans.extend(step.regions.iter().map(|region| region_span(region, &lanes)));
        let known = step.states.iter().filter(|span| span.state != ThreadState::Unknown);
        spans.extend(known.filter_map(|span| {
            let line = Line::Lane(*lanes.get(&span.tid)?, OfLane::States);
            let cpu = span.cpu.map_or(0, |cpu| u32::from(cpu) + 1);
            let what = cpu << 2 | state_number(span.state);
            Some(Span { line, start: span.start, end: span.end, waiting: 0, what })
        }));
        kept.left_out = spans.len().saturating_sub(most) as u64;
        spans.truncate(most);
        spans.shrink_to_fit();
        kept.operators = step.operators.iter().map(what_of).collect();
        kept.spans = spans;
        kept
    }
}

fn position(backends: &mut Vec<TextId>, backend: TextId) -> u32 {
    let found = backends.iter().position(|known| *known == backend);
    let index = found.unwrap_or_else(|| {
        backends.push(backend);
        backends.len() - 1
    });
    u32::try_from(index).unwrap_or(u32::MAX)
}

fn operator_span(share: &LaneSpan, what: u32) -> Span {
    let line = Line::Lane(share.lane, OfLane::Operators);
    Span { line, start: share.start, end: share.end, waiting: share.waiting, what }
}

fn region_span(region: &Region, lanes: &HashMap<u32, u32>) -> Span {
    let line = lanes.get(&region.tid).map_or(Line::Thread(region.tid), |lane| Line::Lane(*lane, OfLane::Regions));
    Span { line, start: region.start, end: region.end, waiting: 0, what: u32::from(region.probe) }
}

fn what_of(operator: &crate::analysis::Operator) -> What {
    let cost = &operator.cost;
    What { kind: operator.kind, flops: cost.flops, bytes: cost.bytes, bound: cost.flops_bound || cost.bytes_bound }
}

/// As `timeline.js` has them.
fn state_number(state: ThreadState) -> u32 {
    match state {
        ThreadState::Running | ThreadState::Unknown => 0,
        ThreadState::Runnable => 1,
        ThreadState::Sleeping => 2,
        ThreadState::Blocked => 3,
    }
}

/// Collects the spans of a page's timeline.
#[derive(Debug)]
pub struct SpanCollector {
    selection: Selection,
    /// Of the whole trace.
    steps: u64,
    not_wanted: u64,
}

impl SpanCollector {
    /// Of these steps; of all, as far as they fit, where none are named.
    pub fn new(steps: Option<RangeInclusive<u64>>) -> Self {
        Self::with_most(steps, MOST_SPANS)
    }

    /// The same, with a bound of one's own.
    pub fn with_most(steps: Option<RangeInclusive<u64>>, most: usize) -> Self {
        Self { selection: Selection::new(most, steps), steps: 0, not_wanted: 0 }
    }

    /// What the page holds of them.
    pub(super) fn finish(self, catalogue: &Catalogue, decoder: &Decoder) -> Spans {
        let (steps, too_many) = self.selection.finish();
        let mut spans = Spans::new(&steps, catalogue, decoder);
        spans.facts.steps = self.steps;
        spans.facts.steps_left_out = too_many + self.not_wanted;
        spans.facts.sentence = spans.facts.say(self.not_wanted > 0);
        spans
    }
}

impl Visitor for SpanCollector {
    fn step(&mut self, step: &Step, _: &Catalogue, _: &Decoder) {
        self.steps += u64::from(step.number > 0);
        if self.selection.wants(step.number) {
            self.selection.push(StepSpans::new(step, self.selection.most_of_a_step()));
        } else {
            self.not_wanted += u64::from(step.number > 0);
        }
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
    /// What is left out; empty where nothing is.
    sentence: String,
    /// Numbers of the steps on the track of steps, in the order of its spans, one list a track of steps.
    numbers: Vec<Vec<u64>>,
    texts: Vec<String>,
    /// name, op, shape, dtype, layer, covers (`-1`: none); flops, bytes, and whether they are of the most experts.
    kinds: Vec<KindRow>,
    tracks: Vec<TrackRow>,
}

type KindRow = (u32, u32, String, i64, i64, i64, Option<f64>, Option<f64>, bool);

#[derive(Debug, Serialize)]
struct TrackRow {
    /// `steps`, `graphs`, `operators`, `regions`, `states`.
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

    fn say(&self, by_choice: bool) -> String {
        let steps = counted(self.steps, "step");
        let held = group_digits(self.steps.saturating_sub(self.steps_left_out));
        let mut said = match (self.steps_left_out, by_choice) {
            (0, _) => String::new(),
            (_, true) => format!("The timeline has {held} of {steps}: those that were asked for, as far as they fit."),
            (_, false) => format!(
                "The timeline has {held} of {steps}: the first, the last, and the slowest of those between. \
                 `profinfer html --steps N..M` takes others."
            ),
        };
        if self.spans_left_out > 0 {
            let left_out = counted(self.spans_left_out, "span");
            said.push_str(&format!(" {left_out} of large steps are left out."));
        }
        said.trim_start().to_owned()
    }
}

/// Whose track: process, thread that runs the steps, line. Backends are by their text here.
type Key = (u32, u32, Line);

impl Spans {
    fn new(steps: &[StepSpans], catalogue: &Catalogue, decoder: &Decoder) -> Self {
        let mut tables = Tables { catalogue, decoder, texts: HashMap::new(), kinds: HashMap::new() };
        let mut facts = SpanFacts::default();
        let origin = steps.iter().flat_map(|s| s.spans.iter().map(|span| span.start)).min().unwrap_or(0);
        facts.origin = origin.to_string();
        let mut tracks: BTreeMap<Key, Vec<(Span, u64)>> = BTreeMap::new();
        for step in steps {
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
                    Line::Lane(_, OfLane::States) => u64::from(span.what),
                };
                tracks.entry(key).or_default().push((*span, what));
            }
        }
        let first = tracks.keys().find(|key| key.1 != 0).map(|key| (key.0, key.1));
        let mut columns = Columns::default();
        for (key, mut spans) in tracks {
            spans.sort_by_key(|(span, _)| (span.start, std::cmp::Reverse(span.end)));
            facts.spans += spans.len() as u64;
            facts.tracks.push(track_row(key, first, spans.len(), &facts.texts));
            if key.2 == Line::Steps {
                facts.numbers.push(spans.iter().map(|(_, number)| *number).collect());
                spans.iter_mut().enumerate().for_each(|(index, (_, what))| *what = index as u64);
            }
            write(&mut columns, key.2, &spans, origin);
        }
        Self { facts, columns }
    }
}

/// A track's columns: starts, counted from the end before; durations; what; waiting, where it has operators.
fn write(columns: &mut Columns, line: Line, spans: &[(Span, u64)], origin: u64) {
    let mut before = origin;
    for (span, _) in spans {
        columns.difference(span.start, before);
        before = span.end.max(span.start);
    }
    spans.iter().for_each(|(span, _)| columns.uint(span.end.saturating_sub(span.start)));
    spans.iter().for_each(|(_, what)| columns.uint(*what));
    if matches!(line, Line::Lane(_, OfLane::Operators)) {
        spans.iter().for_each(|(span, _)| columns.uint(span.waiting.min(span.end.saturating_sub(span.start))));
    }
}

fn track_row((pid, tid, line): Key, first: Option<(u32, u32)>, spans: usize, texts: &[String]) -> TrackRow {
    let (kind, label, lane) = match line {
        Line::Steps => ("steps", "steps".to_owned(), None),
        Line::Graphs(backend) => {
            let backend = texts.get(backend as usize).map_or("", String::as_str);
            ("graphs", format!("graphs on {backend}"), None)
        }
        Line::Lane(lane, OfLane::Operators) => ("operators", format!("lane {lane}"), Some(lane)),
        Line::Lane(lane, OfLane::Regions) => ("regions", format!("lane {lane}: regions"), Some(lane)),
        Line::Lane(lane, OfLane::States) => ("states", format!("lane {lane}: thread"), Some(lane)),
        Line::Thread(thread) => ("regions", format!("thread {thread}"), None),
    };
    // The first thread that runs steps need not be named.
    let label = match tid {
        0 => format!("{label}, outside steps"),
        tid if first != Some((pid, tid)) => format!("{label} (thread {tid})"),
        _ => label,
    };
    TrackRow { kind, label, lane, spans: spans as u64 }
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
        let shape = if kind.shape.is_empty() { String::new() } else { super::super::units::shape(&kind.shape) };
        let id = u32::try_from(facts.kinds.len()).unwrap_or(u32::MAX);
        facts.kinds.push((name, op, shape, dtype, layer, covers, what.flops, what.bytes, what.bound));
        self.kinds.insert(key, id);
        id
    }
}

#[cfg(test)]
#[path = "spans_tests.rs"]
mod tests;
