//! Events of a process that are not yet part of a finished step. Records come when their spans end: an
//! operator before its graph, a graph before its step, and the last operator of a thread only with its next one.

use super::bucket::Bucket;
use super::captures::Captures;
use super::offload_model::Queued;
use super::offload_raw::{RawOffload, RawWhat};
use super::recurring::Recurring;
use super::thread_state::{RawInstead, RawState};
use super::threads::Gap;
use crate::raw::Header;
use std::collections::VecDeque;

/// Separate gaps; beyond, older ones are merged.
const MAX_GAPS: usize = 4096;

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
