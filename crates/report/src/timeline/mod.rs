//! A timeline for viewers: requests, steps, graphs by backend, lanes with their operators, waiting, threads, losses, and
//! arrows from each operator to those that use its result. It works on steps and operators; the formats on tracks.

mod chrome;
mod counts;
mod flows;
mod offload;
pub(crate) mod perfetto;
pub(crate) mod protobuf;
mod requests;
mod sink;
#[cfg(test)]
mod tests;
mod tracks;

use crate::model::frequency;
use profinfer_analysis::{
    Catalogue, Decoder, Kind, LaneSpan, Phase, Reclaim, Recorded, Region, Requests, Step, ThreadState, Visitor,
};
use profinfer_trace::Meta;

use chrome::Chrome;
use counts::Counted;
use flows::Flows;
use offload::DeviceTimes;
use perfetto::Perfetto;
use profinfer_schema::{Origin, ReclaimKind};
pub use requests::RequestsShown;
use sink::{Argument, Batch, Sample, Sink, Slice};
use std::collections::HashMap;
use std::io::{self, Write};
use std::ops::RangeInclusive;
use std::sync::Arc;
use tracks::{Line, Owner, Tracks};

/// The file's format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Format {
    /// Perfetto's protobuf, for ui.perfetto.dev
    #[default]
    Perfetto,
    /// Chrome's JSON, for many viewers
    Chrome,
}

/// Writes the steps that it is shown into a file for viewers. The first error stops it.
pub struct TimelineWriter<'a> {
    sink: Box<dyn Sink + 'a>,
    tracks: Tracks,
    steps: RangeInclusive<u64>,
    flows: Flows,
    device_times: DeviceTimes,
    written: u64,
    /// Of several engines the one whose steps come, by number; 0 where there is one.
    engine: u16,
    /// Whose the first step was; from when and until when there are steps.
    first: Option<Owner>,
    extent: (u64, u64),
    /// The same of this engine; and its requests, of all steps.
    extent_of_engine: (u64, u64),
    requests: Requests,
    shown: RequestsShown,
    error: Option<io::Error>,
}

impl std::fmt::Debug for TimelineWriter<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TimelineWriter").field("steps", &self.steps).finish_non_exhaustive()
    }
}

impl<'a> TimelineWriter<'a> {
    /// Into `out`, of the steps with these numbers. What no step contains is written where all are.
    pub fn new(out: impl Write + 'a, format: Format, steps: RangeInclusive<u64>, origin: &Origin) -> Self {
        let sink: Box<dyn Sink + 'a> = match format {
            Format::Perfetto => Box::new(Perfetto::new(out)),
            Format::Chrome => Box::new(Chrome::new(out, origin.monotonic_ns)),
        };
        let program = origin.command.first().map_or("", |word| word.rsplit('/').next().unwrap_or(word));
        let name = [program, origin.engine.as_str()].into_iter().find(|name| !name.is_empty()).unwrap_or("target");
        Self {
            sink,
            tracks: Tracks::new(name.to_owned()),
            steps,
            flows: Flows::default(),
            device_times: DeviceTimes::default(),
            written: 0,
            engine: 0,
            first: None,
            extent: (u64::MAX, 0),
            extent_of_engine: (u64::MAX, 0),
            requests: Requests::default(),
            shown: RequestsShown::default(),
            error: None,
        }
    }

    /// Of several engines in one timeline the one whose steps come now, those with these numbers.
    pub fn engine(&mut self, name: &str, steps: RangeInclusive<u64>) {
        self.requests();
        self.engine = self.tracks.engine(name);
        self.steps = steps;
    }

    /// The requests of the steps so far: after all steps of an engine. Gives how many have a track.
    pub fn requests(&mut self) -> RequestsShown {
        if self.error.is_none() {
            self.error = self.write_requests().err();
        }
        self.shown
    }

    /// How fast processors ran while there were steps, where the trace tells it: after all steps.
    pub fn frequencies(&mut self, meta: &Meta) {
        if let (Some(owner), None) = (self.first, &self.error) {
            self.error = self.write_frequencies(meta, owner).err();
        }
    }

    fn write_frequencies(&mut self, meta: &Meta, owner: Owner) -> io::Result<()> {
        let (from, until) = self.extent;
        for (cpu, told) in frequency::changes(meta).0 {
            let track =
                self.tracks.id(Owner { tid: 0, engine: 0, ..owner }, Line::Frequency(cpu), self.sink.as_mut())?;
            // What was in effect when the first step began, and what changed until the last one's end.
            let initial = told.iter().take_while(|(time, _)| *time <= from).last().map(|(_, khz)| (from, *khz));
            let later = told.iter().filter(|(time, _)| *time > from && *time <= until).copied();
            let sample = |(time, khz)| Sample { track, time, value: f64::from(khz) / 1e3 };
            let samples = initial.into_iter().chain(later).map(sample).collect();
            self.sink.batch(&Batch { samples, ..Batch::default() })?;
        }
        Ok(())
    }

    /// Ends the file; gives how many steps are in it.
    ///
    /// # Errors
    /// The first one that writing met.
    pub fn finish(mut self) -> io::Result<u64> {
        match self.error {
            Some(error) => Err(error),
            None => self.sink.finish().map(|()| self.written),
        }
    }

    fn write(&mut self, step: &Step, catalogue: &Catalogue, decoder: &Decoder) -> io::Result<()> {
        let tid = if step.phase == Some(Phase::Outside) { 0 } else { step.tid };
        let owner = Owner { pid: step.pid, tid, engine: self.engine };
        let mut batch = Batch::default();
        self.step_slice(step, owner, &mut batch)?;
        for graph in &step.graphs {
            let backend = catalogue.text(graph.backend);
            let track = self.tracks.id(owner, Line::Graphs(backend.to_string()), self.sink.as_mut())?;
            let tokens = graph.tokens.map(|tokens| ("tokens".into(), count(tokens)));
            let (start, end) = (graph.start, graph.end);
            batch.slices.push(slice(track, (start, end), "graph", "graph", tokens.into_iter().collect()));
        }
        let arrows = self.flows.of(step, catalogue);
        let mut counted = Vec::new();
        for (operator, arrows) in step.operators.iter().zip(arrows) {
            let kind = catalogue.kind(operator.kind);
            let arguments = operator_arguments(kind);
            for (position, span) in step.lanes_of(operator).iter().enumerate() {
                let track = self.tracks.id(owner, Line::Lane(span.lane), self.sink.as_mut())?;
                let works = (span.start, span.end.saturating_sub(span.waiting).max(span.start));
                let mut shown = slice(track, works, Arc::clone(&kind.name), "operator", arguments.clone());
                for (column, counter) in decoder.counters().iter().enumerate() {
                    let Some(value) = step.count_of(span, column).value() else { continue };
                    shown.arguments.push((Arc::clone(counter), count(value)));
                    let track =
                        self.tracks.id(owner, Line::Count(span.lane, Arc::clone(counter)), self.sink.as_mut())?;
                    counted.push(Counted { track, start: span.start, end: span.end.max(span.start), value });
                }
                let bandwidth = operator.cost.bytes.filter(|bytes| position == 0 && *bytes >= LEAST_BYTES);
                shown.arguments.extend(bandwidth.map(|bytes| {
                    // Bytes by ns are GB/s.
                    let rate = bytes * 1e3 / operator.end.saturating_sub(operator.start).max(1) as f64;
                    let name = if operator.cost.bytes_bound { "MB/s at most" } else { "MB/s" };
                    (name.into(), count(two_digits(rate)))
                }));
                if position == 0 {
                    // An arrow goes from the first share of one to the first of the other.
                    (shown.flows_in, shown.flows_out) = (arrows.ins.clone(), arrows.outs.clone());
                }
                batch.slices.push(shown);
                if span.waiting > 0 {
                    let waits = (span.end.saturating_sub(span.waiting), span.end);
                    batch.slices.push(slice(track, waits, "waiting", "waiting", Vec::new()));
                }
            }
        }
        counts::samples(counted, &mut batch.samples);
        for region in &step.regions {
            let line = region_line(region, step);
            let track = self.tracks.id(owner, line, self.sink.as_mut())?;
            let name = Arc::clone(decoder.name(region.record_type));
            batch.slices.push(slice(track, (region.start, region.end), name, "region", Vec::new()));
        }
        for reclaim in &step.reclaims {
            let (line, until) = reclaim_line(reclaim, step);
            let track = self.tracks.id(owner, line, self.sink.as_mut())?;
            let name = if reclaim.kind == Some(ReclaimKind::Compaction) { "compaction" } else { "reclaim" };
            batch.slices.push(slice(track, (reclaim.start, reclaim.end.min(until)), name, "reclaim", Vec::new()));
        }
        self.offload(step, owner, (catalogue, decoder), &mut batch)?;
        self.states(step, owner, &mut batch)?;
        self.sink.batch(&batch)
    }

    fn step_slice(&mut self, step: &Step, owner: Owner, batch: &mut Batch) -> io::Result<()> {
        if owner.tid == 0 {
            return Ok(());
        }
        let track = self.tracks.id(owner, Line::Steps, self.sink.as_mut())?;
        let phase = step.phase.map_or("step", Phase::as_str);
        let mut arguments = vec![("step".into(), count(step.number)), ("phase".into(), phase.into())];
        if let Some(tokens) = step.tokens {
            arguments.push(("tokens".into(), count(tokens)));
        }
        if step.recorded != Recorded::Whole {
            arguments.push(("recorded".into(), step.recorded.as_str().into()));
        }
        let name = format!("{phase} {}", step.number);
        batch.slices.push(slice(track, (step.start, step.end), name, "step", arguments));
        for missing in &step.missing {
            let whose = missing.lane.map_or_else(|| format!("thread {}", missing.tid), |lane| format!("lane {lane}"));
            let name = format!("{} records lost, {whose}", missing.records);
            batch.slices.push(slice(track, (step.start, step.start), name, "loss", Vec::new()));
        }
        if let Some(tokens) = step.tokens.filter(|_| step.duration() > 0) {
            let track = self.tracks.id(owner, Line::Speed, self.sink.as_mut())?;
            #[allow(clippy::cast_precision_loss)]
            let value = tokens as f64 * 1e9 / step.duration() as f64;
            batch.samples.push(Sample { track, time: step.start, value });
            batch.samples.push(Sample { track, time: step.end, value: 0.0 });
        }
        Ok(())
    }

    /// What the lanes' threads did on their cpus, or off them.
    fn states(&mut self, step: &Step, owner: Owner, batch: &mut Batch) -> io::Result<()> {
        let lanes: HashMap<u32, u32> = step.lanes.iter().map(|span| (span.tid, span.lane)).collect();
        for span in &step.states {
            let (Some(lane), Some(name)) = (lanes.get(&span.tid), state_name(span.state)) else { continue };
            let track = self.tracks.id(owner, Line::State(*lane), self.sink.as_mut())?;
            let cpu = span.cpu.map(|cpu| ("cpu".into(), count(u64::from(cpu))));
            batch.slices.push(slice(track, (span.start, span.end), name, "thread", cpu.into_iter().collect()));
        }
        Ok(())
    }
}

impl Visitor for TimelineWriter<'_> {
    fn step(&mut self, step: &Step, catalogue: &Catalogue, decoder: &Decoder) {
        self.requests.add(step, decoder);
        let outside = step.phase == Some(Phase::Outside) && *self.steps.start() <= 1 && *self.steps.end() == u64::MAX;
        if self.error.is_some() || !(outside || self.steps.contains(&step.number) && step.number > 0) {
            return;
        }
        self.written += u64::from(step.number > 0);
        if step.number > 0 {
            self.first.get_or_insert(Owner { pid: step.pid, tid: step.tid, engine: self.engine });
            let with = |(from, until): (u64, u64)| (from.min(step.start), until.max(step.end));
            (self.extent, self.extent_of_engine) = (with(self.extent), with(self.extent_of_engine));
        }
        self.error = self.write(step, catalogue, decoder).err();
    }
}

fn slice(
    track: sink::TrackId,
    (start, end): (u64, u64),
    name: impl Into<Arc<str>>,
    category: &'static str,
    arguments: Vec<(Arc<str>, Argument)>,
) -> Slice {
    Slice { track, start, end, name: name.into(), category, arguments, flows_out: Vec::new(), flows_in: Vec::new() }
}

fn operator_arguments(kind: &Kind) -> Vec<(Arc<str>, Argument)> {
    let text = |name: &str, value: &Option<Arc<str>>| {
        value.as_ref().map(|value| (Arc::from(name), Argument::Text(Arc::clone(value))))
    };
    let mut arguments = vec![(Arc::from("op"), Argument::Text(Arc::clone(&kind.op)))];
    if !kind.shape.is_empty() {
        arguments.push(("shape".into(), crate::numbers::units::shape(&kind.shape).as_str().into()));
    }
    arguments.extend(text("dtype", &kind.dtype));
    let layer = if kind.layer_inferred { "layer, inferred" } else { "layer" };
    arguments.extend(text(layer, &kind.layer));
    arguments.extend(text("covers", &kind.covers));
    arguments
}

/// A region within an operator is shown in it; others have their thread's own track, since they may overlap operators.
fn region_line(region: &Region, step: &Step) -> Line {
    let operator = region.operator.and_then(|index| step.operators.get(index as usize));
    let span = operator.and_then(|operator| {
        let holds = |span: &&LaneSpan| {
            let work_ends = span.end.saturating_sub(span.waiting);
            span.tid == region.tid && span.start <= region.start && region.end <= work_ends
        };
        step.lanes_of(operator).iter().find(holds)
    });
    span.map_or(Line::Regions(region.tid), |span| Line::Lane(span.lane))
}

/// Reclaim within an operator is shown in its work, up to the end of that; other on its thread's own track.
fn reclaim_line(reclaim: &Reclaim, step: &Step) -> (Line, u64) {
    let operator = reclaim.operator.and_then(|index| step.operators.get(index as usize));
    let works = |span: &&LaneSpan| {
        let work_ends = span.end.saturating_sub(span.waiting);
        span.tid == reclaim.tid && span.start <= reclaim.start && reclaim.start < work_ends
    };
    let span = operator.and_then(|operator| step.lanes_of(operator).iter().find(works));
    span.map_or((Line::Regions(reclaim.tid), u64::MAX), |span| {
        (Line::Lane(span.lane), span.end.saturating_sub(span.waiting))
    })
}

/// `None` where the trace does not have it.
fn state_name(state: ThreadState) -> Option<&'static str> {
    match state {
        ThreadState::Running => Some("running"),
        ThreadState::Runnable => Some("runnable"),
        ThreadState::Sleeping => Some("sleeping"),
        ThreadState::Blocked => Some("blocked"),
        ThreadState::Stopped => Some("stopped"),
        ThreadState::Attaching => Some("stopped by profinfer"),
        ThreadState::Unknown => None,
    }
}

/// Operators that move less than this have no bandwidth to speak of: beginning and ending is most of their time.
const LEAST_BYTES: f64 = 65536.0;

/// As precise as a bandwidth of one operator is, and as few different numbers as keep the file small.
fn two_digits(value: f64) -> u64 {
    let scale = 10_f64.powf((value.max(1.0).log10().floor() - 1.0).max(0.0));
    ((value / scale).round() * scale) as u64
}

fn count(n: u64) -> Argument {
    Argument::Int(i64::try_from(n).unwrap_or(i64::MAX))
}
