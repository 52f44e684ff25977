//! What has arrived of a process and is not yet part of a finished step. Records come when their spans end: an
//! operator before its graph, a graph before its step, and the last operator of a thread only with its next one.

use super::catalogue::{InlineId, ObjectId, TextId};
use super::counters::Count;
use super::faults::RawFetch;
use super::fields::Header;
use super::states::{RawInstead, RawState};
use super::threads::Gap;
use std::collections::VecDeque;

/// Gaps that are kept apart; older ones are then taken together.
const MAX_GAPS: usize = 4096;

/// One thread's span of an operator.
#[derive(Debug)]
pub(super) struct RawOperator {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) waiting: u64,
    pub(super) thread: u32,
    pub(super) lane: Option<u32>,
    pub(super) object: Option<ObjectId>,
    pub(super) covers: Option<ObjectId>,
    pub(super) inline: InlineId,
    pub(super) record: u16,
    pub(super) bytes: Option<Box<[u8]>>,
    pub(super) counts: Option<Box<[Count]>>,
}

/// One graph.
#[derive(Debug)]
pub(super) struct RawGraph {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) thread: u32,
    pub(super) backend: TextId,
    pub(super) tokens: Option<u64>,
    pub(super) bytes: Box<[u8]>,
}

/// One region.
#[derive(Debug)]
pub(super) struct RawRegion {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) thread: u32,
    pub(super) probe: u16,
    pub(super) tokens: Option<u64>,
    pub(super) bytes: Option<Box<[u8]>>,
}

/// Experts of one operator.
#[derive(Debug)]
pub(super) struct RawExperts {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) thread: u32,
    pub(super) object: Option<ObjectId>,
    pub(super) inline: InlineId,
    pub(super) record: u16,
    pub(super) per_token: Option<u32>,
    pub(super) ids: Vec<u32>,
}

/// Events in the order of their arrival.
#[derive(Debug, Default)]
pub(super) struct Bucket {
    pub(super) operators: Vec<RawOperator>,
    pub(super) graphs: Vec<RawGraph>,
    pub(super) regions: Vec<RawRegion>,
    pub(super) experts: Vec<RawExperts>,
    pub(super) fetches: Vec<RawFetch>,
}

impl Bucket {
    pub(super) fn len(&self) -> usize {
        self.operators.len() + self.graphs.len() + self.regions.len() + self.experts.len() + self.fetches.len()
    }

    /// Moves the events for which `wanted(start, thread)` holds from another bucket into this one.
    pub(super) fn take(&mut self, from: &mut Self, wanted: impl Fn(u64, u32) -> bool) {
        move_if(&mut self.operators, &mut from.operators, |e| wanted(e.start, e.thread));
        move_if(&mut self.graphs, &mut from.graphs, |e| wanted(e.start, e.thread));
        move_if(&mut self.regions, &mut from.regions, |e| wanted(e.start, e.thread));
        move_if(&mut self.experts, &mut from.experts, |e| wanted(e.start, e.thread));
        move_if(&mut self.fetches, &mut from.fetches, |e| wanted(e.start, e.thread));
    }

    /// A time such that events that start before it can be given out: the start of a late graph, so that operators
    /// stay with theirs; where there are few graphs, of a late operator or region.
    pub(super) fn horizon(&self) -> u64 {
        let three_quarters = |n: usize| n - n / 4;
        if let Some(graph) = self.graphs.get(three_quarters(self.graphs.len())) {
            return graph.start;
        }
        let mut starts: Vec<u64> = self.operators.iter().map(|e| e.start).collect();
        starts.extend(self.regions.iter().map(|e| e.start));
        starts.extend(self.experts.iter().map(|e| e.start));
        starts.extend(self.fetches.iter().map(|e| e.start));
        let middle = starts.len() / 2;
        if starts.is_empty() { u64::MAX } else { *starts.select_nth_unstable(middle).1 }
    }

    /// From the first start to the last end.
    pub(super) fn extent(&self) -> Option<(u64, u64)> {
        let operators = self.operators.iter().map(|e| (e.start, e.end));
        let graphs = self.graphs.iter().map(|e| (e.start, e.end));
        let regions = self.regions.iter().map(|e| (e.start, e.end));
        let experts = self.experts.iter().map(|e| (e.start, e.end));
        let fetches = self.fetches.iter().map(|e| (e.start, e.start));
        let all = operators.chain(graphs).chain(regions).chain(experts).chain(fetches);
        all.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }
}

/// Most events are wanted, and mostly all of them: then nothing is moved one by one.
fn move_if<T>(to: &mut Vec<T>, from: &mut Vec<T>, wanted: impl Fn(&T) -> bool) {
    if from.iter().all(&wanted) {
        if to.is_empty() { std::mem::swap(to, from) } else { to.append(from) }
    } else {
        to.extend(from.extract_if(.., |e| wanted(e)));
    }
}

/// A step whose record has arrived.
#[derive(Debug)]
pub(super) struct ClosedStep {
    pub(super) header: Header,
    pub(super) thread: u32,
    pub(super) bytes: Box<[u8]>,
    /// Its number, once it is certain that it is no part of another step.
    pub(super) number: u64,
    /// Records of steps within it that say tokens, with their starts and ends.
    pub(super) inner_tokens: Vec<(u64, u64, u64)>,
    pub(super) bucket: Bucket,
}

impl ClosedStep {
    pub(super) fn contains(&self, time: u64) -> bool {
        self.header.start <= time && time < self.header.end
    }

    pub(super) fn overlaps(&self, other: &Header) -> bool {
        self.header.start < other.end && other.start < self.header.end
    }
}

/// A thread that runs steps, and the start of the last of them that was numbered.
#[derive(Debug)]
pub(super) struct StepThread {
    pub(super) thread: u32,
    pub(super) numbered: Option<u64>,
}

/// Everything open of one process.
#[derive(Debug, Default)]
pub(super) struct Process {
    /// Events that no closed step contains.
    pub(super) window: Bucket,
    /// Events older than the last closed step that were in none.
    pub(super) aside: Bucket,
    /// The latest start in `aside`.
    pub(super) aside_until: u64,
    /// The last few steps, oldest first: they may turn out to be parts of one.
    pub(super) recent: VecDeque<ClosedStep>,
    /// Numbered steps that wait for a thread whose last operator is still open.
    pub(super) waiting: Vec<ClosedStep>,
    /// Threads that run operators and have not ended.
    pub(super) active: Vec<u32>,
    /// Threads that run steps and have not ended.
    pub(super) step_threads: Vec<StepThread>,
    pub(super) gaps: Vec<Gap>,
    pub(super) states: Vec<RawState>,
    pub(super) instead: Vec<RawInstead>,
}

impl Process {
    /// Where an event belongs by its start alone: to a closed step (of its own thread, if one is), else the window.
    pub(super) fn bucket(&mut self, start: u64, thread: u32) -> &mut Bucket {
        let newest = self.recent.back().map_or(0, |s| s.header.end);
        if start >= newest && self.waiting.is_empty() {
            return &mut self.window;
        }
        let containing = || self.recent.iter().rev().chain(&self.waiting).filter(|s| s.contains(start));
        let Some(step) = containing().find(|s| s.thread == thread).or_else(|| containing().next()) else {
            return &mut self.window;
        };
        let (start, thread) = (step.header.start, step.thread);
        let mut steps = self.recent.iter_mut().rev().chain(&mut self.waiting);
        steps.find(|s| s.header.start == start && s.thread == thread).map_or(&mut self.window, |step| &mut step.bucket)
    }

    /// Keeps a gap.
    pub(super) fn lost(&mut self, gap: Gap) {
        if self.gaps.len() >= MAX_GAPS {
            let old = self.gaps.drain(..MAX_GAPS / 2);
            let merged = old.reduce(|a, b| Gap {
                from: a.from.min(b.from),
                to: a.to.max(b.to),
                records: a.records.saturating_add(b.records),
                thread: a.thread.filter(|thread| b.thread == Some(*thread)),
            });
            self.gaps.extend(merged);
        }
        self.gaps.push(gap);
    }

    /// Where records may be missing of a time.
    pub(super) fn gaps(&self, start: u64, end: u64) -> impl Iterator<Item = &Gap> {
        self.gaps.iter().filter(move |gap| gap.from < end && gap.to > start)
    }

    /// The start of the oldest step that is not finished.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.recent.iter().chain(&self.waiting).map(|s| s.header.start).min()
    }
}
