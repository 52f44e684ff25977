//! Times in which the kernel took memory back, or moved it together, for a thread: by operator, and beside what the thread
//! did meanwhile.

use super::faults::{RawFetch, What};
use super::threads::Threads;
use profinfer_schema::ReclaimKind;

/// A time in which a thread was in the kernel's reclaim or compaction, clipped to the step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reclaim {
    /// The thread.
    pub tid: u32,
    /// What for; `None` where this version does not know it.
    pub kind: Option<ReclaimKind>,
    /// Index into `Step::operators`: it began in a span of it. `None` outside operators.
    pub operator: Option<u32>,
    /// ns.
    pub start: u64,
    /// ns.
    pub end: u64,
}

impl Reclaim {
    /// Nanoseconds.
    pub fn duration(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }
}

/// Those of a step from `start` to `end`, by thread, then start; no two of a thread overlap. `operator_at` finds the
/// operator that a thread was in.
pub(crate) fn gather(
    raw: &[RawFetch],
    threads: &Threads,
    (start, end): (u64, u64),
    operator_at: impl Fn(u32, u64) -> Option<u32>,
) -> Vec<Reclaim> {
    let of = |fetch: &RawFetch| match fetch.what {
        What::Reclaim { kind, end: ended } => Some(Reclaim {
            tid: threads.get(fetch.thread).tid,
            kind,
            operator: operator_at(fetch.thread, fetch.start),
            start: fetch.start.max(start),
            end: ended.min(end),
        }),
        _ => None,
    };
    let mut found: Vec<Reclaim> = raw.iter().filter_map(of).collect();
    found.sort_by_key(|of| (of.tid, of.start));
    // Damaged traces may have what cannot be.
    let (mut tid, mut until) = (0, 0);
    found.retain_mut(|of| {
        if of.tid == tid {
            of.start = of.start.max(until);
        }
        let is_left = of.start < of.end;
        if is_left {
            (tid, until) = (of.tid, of.end);
        }
        is_left
    });
    found
}

/// Walks through a step's times beside others that are by thread, then start, too.
#[derive(Debug)]
pub(crate) struct Beside<'a> {
    left: &'a [Reclaim],
}

impl<'a> Beside<'a> {
    pub(crate) fn new(reclaims: &'a [Reclaim]) -> Self {
        Self { left: reclaims }
    }

    /// How much of a thread's time from `start` to `end` was in one of them, ns.
    pub(crate) fn within(&mut self, tid: u32, start: u64, end: u64) -> u64 {
        let passed = self.left.iter().take_while(|of| (of.tid, of.end) <= (tid, start)).count();
        self.left = &self.left[passed..];
        let during = self.left.iter().take_while(|of| of.tid == tid && of.start < end);
        during.map(|of| of.end.min(end).saturating_sub(of.start.max(start))).fold(0, u64::saturating_add)
    }
}
