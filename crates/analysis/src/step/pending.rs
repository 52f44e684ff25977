//! Events of a process that are not yet part of a finished step. Records come when their spans end: an
//! operator before its graph, a graph before its step, and the last operator of a thread only with its next one.

use super::captures::Captures;
use super::faults::RawFetch;
use super::offload_model::Queued;
use super::offload_raw::{RawOffload, RawWhat};
use super::recurring::Recurring;
use super::thread_state::{RawInstead, RawState};
use super::threads::Gap;
use crate::ids::{InlineId, ObjectId, TextId};
use crate::raw::{Count, Header, Operands};
use profinfer_schema::FieldMeaning;
use std::collections::VecDeque;

/// Separate gaps; beyond, older ones are merged.
const MAX_GAPS: usize = 4096;

/// One thread's span of an operator.
#[derive(Debug)]
pub(crate) struct RawOperator {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) waiting: u64,
    /// Its waiting was not recorded, though its type has it.
    pub(crate) undivided: bool,
    pub(crate) thread: u32,
    pub(crate) lane: Option<u32>,
    pub(crate) object: Option<ObjectId>,
    pub(crate) covers: Option<ObjectId>,
    pub(crate) inline: InlineId,
    pub(crate) record_type: u16,
    /// It is a part of an operator of another thread, of which nothing else was recorded.
    pub(crate) is_share: bool,
    pub(crate) site: u16,
    pub(crate) record: Option<Box<[u8]>>,
    pub(crate) counts: Option<Box<[Count]>>,
    pub(crate) operands: Option<Box<Operands>>,
}

/// One graph.
#[derive(Debug)]
pub(crate) struct RawGraph {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) thread: u32,
    pub(crate) backend: TextId,
    pub(crate) tokens: Option<u64>,
    pub(crate) record: Box<[u8]>,
}

/// One region.
#[derive(Debug)]
pub(crate) struct RawRegion {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) thread: u32,
    pub(crate) record_type: u16,
    pub(crate) tokens: Option<u64>,
    pub(crate) record: Option<Box<[u8]>>,
}

/// Experts of one operator.
#[derive(Debug)]
pub(crate) struct RawExperts {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) thread: u32,
    pub(crate) object: Option<ObjectId>,
    pub(crate) inline: InlineId,
    pub(crate) record_type: u16,
    pub(crate) per_token: Option<u32>,
    pub(crate) ids: Vec<u32>,
}

/// A list of values, one for each token of a batch.
#[derive(Debug)]
pub(crate) struct RawBatch {
    pub(crate) start: u64,
    pub(crate) thread: u32,
    pub(crate) meaning: FieldMeaning,
    pub(crate) values: Vec<i64>,
}

/// Events in the order of their arrival.
#[derive(Debug, Default)]
pub(crate) struct Bucket {
    pub(crate) operators: Vec<RawOperator>,
    pub(crate) graphs: Vec<RawGraph>,
    pub(crate) regions: Vec<RawRegion>,
    pub(crate) experts: Vec<RawExperts>,
    pub(crate) fetches: Vec<RawFetch>,
    pub(crate) batches: Vec<RawBatch>,
    pub(crate) offloads: Vec<RawOffload>,
}

impl Bucket {
    pub(crate) fn len(&self) -> usize {
        self.operators.len()
            + self.graphs.len()
            + self.regions.len()
            + self.experts.len()
            + self.fetches.len()
            + self.batches.len()
            + self.offloads.len()
    }

    /// Moves the events for which `wanted(start, thread)` holds from another bucket into this one.
    pub(crate) fn take(&mut self, from: &mut Self, wanted: impl Fn(u64, u32) -> bool) {
        move_if(&mut self.operators, &mut from.operators, |e| wanted(e.start, e.thread));
        move_if(&mut self.graphs, &mut from.graphs, |e| wanted(e.start, e.thread));
        move_if(&mut self.regions, &mut from.regions, |e| wanted(e.start, e.thread));
        move_if(&mut self.experts, &mut from.experts, |e| wanted(e.start, e.thread));
        move_if(&mut self.fetches, &mut from.fetches, |e| wanted(e.start, e.thread));
        move_if(&mut self.batches, &mut from.batches, |e| wanted(e.start, e.thread));
        move_if(&mut self.offloads, &mut from.offloads, |e| wanted(e.start, e.thread));
    }

    /// A time such that events that start before it can be given out: the start of a late graph, so that operators
    /// stay with theirs; where there are few graphs, of a late operator or region.
    pub(crate) fn horizon(&self) -> u64 {
        let three_quarters = |n: usize| n - n / 4;
        if let Some(graph) = self.graphs.get(three_quarters(self.graphs.len())) {
            return graph.start;
        }
        let mut starts: Vec<u64> = self.operators.iter().map(|e| e.start).collect();
        starts.extend(self.regions.iter().map(|e| e.start));
        starts.extend(self.experts.iter().map(|e| e.start));
        starts.extend(self.fetches.iter().map(|e| e.start));
        starts.extend(self.batches.iter().map(|e| e.start));
        starts.extend(self.offloads.iter().map(|e| e.start));
        let middle = starts.len() / 2;
        if starts.is_empty() { u64::MAX } else { *starts.select_nth_unstable(middle).1 }
    }

    /// Moves the events that start at a time or later into a new bucket. Events must be in order, by [`Self::sort`].
    pub(super) fn split_off(&mut self, time: u64) -> Self {
        fn later<T>(events: &mut Vec<T>, time: u64, start: impl Fn(&T) -> u64) -> Vec<T> {
            let at = events.partition_point(|event| start(event) < time);
            events.split_off(at)
        }
        Self {
            operators: later(&mut self.operators, time, |e| e.start),
            graphs: later(&mut self.graphs, time, |e| e.start),
            regions: later(&mut self.regions, time, |e| e.start),
            experts: later(&mut self.experts, time, |e| e.start),
            fetches: later(&mut self.fetches, time, |e| e.start),
            batches: later(&mut self.batches, time, |e| e.start),
            offloads: later(&mut self.offloads, time, |e| e.start),
        }
    }

    /// Adds another bucket's events.
    pub(super) fn append(&mut self, mut from: Self) {
        self.take(&mut from, |_, _| true);
    }

    /// Orders the events by their start.
    pub(super) fn sort(&mut self) {
        self.operators.sort_by_key(|e| e.start);
        self.graphs.sort_by_key(|e| e.start);
        self.regions.sort_by_key(|e| e.start);
        self.experts.sort_by_key(|e| e.start);
        self.fetches.sort_by_key(|e| e.start);
        self.batches.sort_by_key(|e| e.start);
        self.offloads.sort_by_key(|e| e.start);
    }

    /// The threads of its events.
    fn threads(&self) -> impl Iterator<Item = u32> {
        let operators = self.operators.iter().map(|e| e.thread);
        let graphs = self.graphs.iter().map(|e| e.thread);
        let regions = self.regions.iter().map(|e| e.thread);
        let experts = self.experts.iter().map(|e| e.thread);
        let marks = self.fetches.iter().map(|e| e.thread).chain(self.batches.iter().map(|e| e.thread));
        let offloads = self.offloads.iter().map(|e| e.thread);
        operators.chain(graphs).chain(regions).chain(experts).chain(marks).chain(offloads)
    }

    /// From the first start to the last end.
    pub(crate) fn extent(&self) -> Option<(u64, u64)> {
        let operators = self.operators.iter().map(|e| (e.start, e.end));
        let graphs = self.graphs.iter().map(|e| (e.start, e.end));
        let regions = self.regions.iter().map(|e| (e.start, e.end));
        let experts = self.experts.iter().map(|e| (e.start, e.end));
        let fetches = self.fetches.iter().map(|e| (e.start, e.start));
        let batches = self.batches.iter().map(|e| (e.start, e.start));
        let offloads = self.offloads.iter().map(|e| (e.start, e.end));
        let all = operators.chain(graphs).chain(regions).chain(experts).chain(fetches).chain(batches).chain(offloads);
        all.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }
}

/// Most events are wanted, and mostly all of them: then nothing is moved one by one.
fn move_if<T>(to: &mut Vec<T>, from: &mut Vec<T>, wanted: impl Fn(&T) -> bool) {
    if from.iter().all(&wanted) {
        if to.is_empty() {
            std::mem::swap(to, from);
            // The next step is mostly as large.
            from.reserve(to.len());
        } else {
            to.append(from);
        }
    } else {
        to.extend(from.extract_if(.., |e| wanted(e)));
    }
}

/// A step whose record has arrived.
#[derive(Debug)]
pub(crate) struct ClosedStep {
    pub(crate) header: Header,
    pub(crate) thread: u32,
    pub(crate) record: Box<[u8]>,
    /// Its number, once it is certain that it is no part of another step.
    pub(crate) number: u64,
    /// The end of its thread's step before.
    pub(crate) since: Option<u64>,
    /// Start, end and tokens of the steps within it that have a token count.
    pub(crate) inner_tokens: Vec<(u64, u64, u64)>,
    pub(crate) bucket: Bucket,
}

impl ClosedStep {
    pub(crate) fn contains(&self, time: u64) -> bool {
        self.header.start <= time && time < self.header.end
    }

    pub(crate) fn overlaps(&self, other: &Header) -> bool {
        self.header.start < other.end && other.start < self.header.end
    }
}

/// A thread that runs steps.
#[derive(Debug)]
pub(crate) struct StepThread {
    pub(crate) thread: u32,
    /// The start of the last of its steps that was numbered.
    pub(crate) numbered: Option<u64>,
    /// The start of its first event that is in none of its steps: one has probably begun, and not ended.
    pub(crate) open_since: Option<u64>,
}

/// Everything open of one process.
#[derive(Debug, Default)]
pub(crate) struct Process {
    /// Events that no closed step contains.
    pub(crate) window: Bucket,
    /// Events older than the last closed step that were in none.
    pub(crate) aside: Bucket,
    /// The latest start in `aside`.
    pub(crate) aside_until: u64,
    /// The last few steps, oldest first: they may turn out to be parts of one.
    pub(crate) recent: VecDeque<ClosedStep>,
    /// Numbered steps that wait for a thread whose last operator is still open.
    pub(crate) waiting: Vec<ClosedStep>,
    /// The end of the last step that was finished while it waited so: more waited than may.
    pub(crate) unready_until: u64,
    /// Some of its steps contain others.
    pub(crate) nests: bool,
    /// Threads that run operators and have not ended.
    pub(crate) active: Vec<u32>,
    /// Threads that run steps and have not ended.
    pub(crate) step_threads: Vec<StepThread>,
    pub(crate) gaps: Vec<Gap>,
    pub(crate) states: Vec<RawState>,
    pub(crate) instead: Vec<RawInstead>,
    /// Work that its queues capture for later.
    pub(super) captures: Captures,
    /// Of a trace without steps: those that recur.
    pub(super) recurring: Recurring,
}

impl Process {
    /// Where an event belongs by its start: to a closed step of its thread, or of the thread that its own computes for
    /// (`home`). Where neither of them runs steps, to any step around it. Else the window.
    pub(crate) fn bucket(&mut self, start: u64, thread: u32, home: Option<u32>) -> &mut Bucket {
        let newest = self.recent.back().map_or(0, |s| s.header.end);
        let containing = || self.recent.iter().rev().chain(&self.waiting).filter(|s| s.contains(start));
        let mut step = None;
        if start < newest || !self.waiting.is_empty() {
            step = containing().find(|s| s.thread == thread).or_else(|| containing().find(|s| Some(s.thread) == home));
        }
        if step.is_none() {
            if let Some(of) = self.step_threads.iter_mut().find(|of| of.thread == thread) {
                of.open_since = Some(of.open_since.map_or(start, |since| since.min(start)));
                return &mut self.window;
            }
            if !home.is_some_and(|home| self.has_open_step(home, start)) {
                step = containing().next();
            }
        }
        let Some(step) = step else { return &mut self.window };
        let (start, thread) = (step.header.start, step.thread);
        let mut steps = self.recent.iter_mut().rev().chain(&mut self.waiting);
        steps.find(|s| s.header.start == start && s.thread == thread).map_or(&mut self.window, |step| &mut step.bucket)
    }

    /// Whether a thread's step has probably begun by a time, and not ended.
    pub(crate) fn has_open_step(&self, thread: u32, by: u64) -> bool {
        self.step_threads.iter().any(|of| of.thread == thread && of.open_since.is_some_and(|since| since <= by))
    }

    /// The threads that something open refers to.
    pub(crate) fn threads(&self) -> impl Iterator<Item = u32> {
        let steps = || self.recent.iter().chain(&self.waiting);
        let buckets = [&self.window, &self.aside].into_iter().chain(steps().map(|step| &step.bucket));
        let running = self.active.iter().copied().chain(self.step_threads.iter().map(|of| of.thread));
        let states = self.states.iter().map(|state| state.thread);
        let instead = self.instead.iter().map(|instead| instead.thread);
        let gaps = self.gaps.iter().filter_map(|gap| gap.thread);
        let events = buckets.flat_map(Bucket::threads).chain(steps().map(|step| step.thread));
        events.chain(running).chain(states).chain(instead).chain(gaps)
    }

    /// Adds a gap.
    pub(crate) fn lost(&mut self, gap: Gap) {
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
    pub(crate) fn gaps(&self, start: u64, end: u64) -> impl Iterator<Item = &Gap> {
        self.gaps.iter().filter(move |gap| gap.from < end && gap.to > start)
    }

    /// The start of the oldest step that is not finished.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.recent.iter().chain(&self.waiting).map(|s| s.header.start).min()
    }

    /// The end of the last step, of those that are not finished.
    pub(crate) fn latest_end(&self) -> Option<u64> {
        self.recent.iter().chain(&self.waiting).map(|s| s.header.end).max()
    }

    /// A device computed in the last step, and it ended after a time.
    pub(crate) fn awaits_results(&self, since: u64) -> bool {
        self.recent.back().is_some_and(|step| step.header.end > since && !step.bucket.offloads.is_empty())
    }

    /// When work of a device was encoded or submitted first after the last step, or after all that was given.
    pub(crate) fn encodes_next(&self) -> Option<u64> {
        let after = self.latest_end().unwrap_or(0);
        let encoded = |raw: &&RawOffload| match &raw.what {
            RawWhat::Dispatch(_) => true,
            RawWhat::Queued(queued) => matches!(queued, Queued::Submit { .. }),
        };
        self.window.offloads.iter().filter(|raw| raw.start >= after).filter(encoded).map(|raw| raw.start).min()
    }

    /// The end of a thread's last step before a time, of those that are not finished.
    pub(crate) fn step_before(&self, thread: u32, time: u64) -> Option<u64> {
        let ends = self.recent.iter().chain(&self.waiting).filter(|s| s.thread == thread).map(|s| s.header.end);
        ends.filter(|end| *end <= time).max()
    }

    /// Forgets what threads did before all that is not finished.
    pub(crate) fn forget_states(&mut self) {
        let needed = self.recent.iter().chain(&self.waiting).map(|s| s.since.unwrap_or(s.header.start)).min();
        let Some(needed) = needed else { return };
        self.states.retain(|state| state.end > needed);
        self.instead.retain(|instead| instead.end > needed);
    }
}
