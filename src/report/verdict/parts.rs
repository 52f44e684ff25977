//! Where lanes' time in an operator went, besides work: waiting is put down to what it was waited for.

use super::model::{Bound, TimeParts};
use crate::analysis::TimeSplit;

/// A lane's time in operators, all lanes together, ns.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct LaneTime {
    /// At work, on a cpu.
    pub(super) running: f64,
    /// On a cpu, having what was touched read into memory.
    pub(super) fetching: f64,
    /// Done, and waiting for the slowest lane.
    pub(super) waiting: f64,
    /// Able to run.
    pub(super) runnable: f64,
    /// Asleep.
    pub(super) sleeping: f64,
    /// In uninterruptible wait.
    pub(super) blocked: f64,
    /// Not known.
    pub(super) unknown: f64,
}

impl LaneTime {
    /// As the scheduler's events tell it.
    pub(super) fn of_split(split: &TimeSplit) -> Self {
        Self {
            running: split.compute as f64,
            fetching: 0.0,
            waiting: split.waiting as f64,
            runnable: split.runnable as f64,
            sleeping: split.sleeping as f64,
            blocked: split.blocked as f64,
            unknown: split.unknown as f64,
        }
    }

    /// Without the scheduler's events: work is taken for running.
    pub(super) fn of_work(work_ns: u64, waiting_ns: u64) -> Self {
        Self { running: work_ns as f64, waiting: waiting_ns as f64, ..Self::default() }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.running += other.running;
        self.fetching += other.fetching;
        self.waiting += other.waiting;
        self.runnable += other.runnable;
        self.sleeping += other.sleeping;
        self.blocked += other.blocked;
        self.unknown += other.unknown;
    }

    /// Takes so much of the work for what faults need of a cpu.
    pub(super) fn take_faults(&mut self, on_cpu_ns: u64) {
        let ns = (on_cpu_ns as f64).min(self.running);
        self.running -= ns;
        self.fetching += ns;
    }

    /// By what it was spent on, the work being limited by `bound`. Of the waiting, as much is put down to lanes that
    /// were kept from running as the other `lanes` can have waited for them; the rest is uneven work. A lane alone
    /// waits for nobody: what it spends at a boundary is the boundary's own time. So is what lanes wait in operators
    /// that are too small to be shared.
    pub(super) fn parts(&self, lanes: u64, bound: Bound) -> TimeParts {
        let disk = self.blocked + self.fetching;
        let mut parts = TimeParts { disk, starved: self.runnable, unknown: self.unknown, ..TimeParts::default() };
        parts[bound] += self.running;
        if lanes <= 1 {
            parts.overhead += self.waiting;
            parts.synchronisation += self.sleeping;
            return parts;
        }
        let kept = disk + self.runnable;
        let explained = self.waiting.min(kept * (lanes - 1) as f64);
        if kept > 0.0 {
            parts.disk += explained * disk / kept;
            parts.starved += explained * self.runnable / kept;
        }
        let uneven = self.waiting - explained;
        parts[if bound == Bound::Overhead { Bound::Overhead } else { Bound::Synchronisation }] += uneven;
        parts.synchronisation += self.sleeping;
        parts
    }
}
