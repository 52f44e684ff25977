//! Where lanes' time in an operator went, besides work: waiting is put down to what it was waited for.

use super::model::{Bound, TimeParts};
use profinfer_analysis::{Divided, TimeSplit};

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
    /// Not let run by the quota of the control group.
    pub(super) throttled: f64,
    /// Stopped by a signal or a debugger.
    pub(super) stopped: f64,
    /// In the kernel, or in uninterruptible wait, for a memory limit.
    pub(super) reclaim: f64,
    /// In the kernel, within operators.
    pub(super) kernel: f64,
    /// Asleep.
    pub(super) sleeping: f64,
    /// In uninterruptible wait.
    pub(super) blocked: f64,
    /// Unknown.
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
            throttled: 0.0,
            stopped: split.stopped as f64,
            reclaim: 0.0,
            kernel: 0.0,
            sleeping: split.sleeping as f64,
            blocked: split.blocked as f64,
            unknown: split.unknown as f64,
        }
    }

    /// Without the scheduler's events: work is taken for running.
    pub(super) fn of_work(divided: &Divided) -> Self {
        Self { running: divided.work as f64, waiting: divided.waiting.unwrap_or(0) as f64, ..Self::default() }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.running += other.running;
        self.fetching += other.fetching;
        self.waiting += other.waiting;
        self.runnable += other.runnable;
        self.throttled += other.throttled;
        self.stopped += other.stopped;
        self.reclaim += other.reclaim;
        self.kernel += other.kernel;
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

    /// Takes parts of the time on CPUs for what samples found there: work of the kernel, of which that for faults may be
    /// taken already, and waiting without sleep.
    pub(super) fn take_samples(&mut self, shares: SampledShares) {
        let on_cpu = self.running + self.fetching;
        let kernel = (on_cpu * shares.kernel.clamp(0.0, 1.0) - self.fetching).clamp(0.0, self.running);
        let waiting = (on_cpu * shares.waiting.clamp(0.0, 1.0)).min(self.running - kernel);
        self.running -= kernel + waiting;
        self.kernel += kernel;
        self.waiting += waiting;
    }

    /// Takes parts of it for what limits of control groups did to the process as a whole: of the time in which it could
    /// have run, and of that in which it ran; where that is for a memory limit, all waits for the disk are.
    pub(super) fn take_limits(&mut self, limits: GroupLimits) {
        let throttled = self.runnable * limits.throttled.clamp(0.0, 1.0);
        self.runnable -= throttled;
        self.throttled += throttled;
        if let Some(in_kernel) = limits.reclaim {
            let kernel = self.running * in_kernel.clamp(0.0, 1.0);
            self.running -= kernel;
            self.reclaim += kernel + self.blocked + self.fetching;
            (self.blocked, self.fetching) = (0.0, 0.0);
        }
    }

    /// By what it was spent on, the work being limited by `bound`. Of the waiting, as much is put down to lanes that
    /// could not run as the other `lanes` can have waited for them; the rest is uneven work. A lane alone
    /// waits for nobody: what it spends at a boundary is the boundary's time. So is what lanes wait in operators
    /// that are too small to be shared.
    pub(super) fn parts(&self, lanes: u64, bound: Bound) -> TimeParts {
        let off = [
            (Bound::Disk, self.blocked + self.fetching),
            (Bound::Starved, self.runnable),
            (Bound::Throttled, self.throttled),
            (Bound::Stopped, self.stopped),
            (Bound::Reclaim, self.reclaim),
        ];
        let mut parts = TimeParts { unknown: self.unknown, ..TimeParts::default() };
        off.iter().for_each(|(bound, ns)| parts[*bound] += ns);
        parts[bound] += self.running;
        parts.kernel += self.kernel;
        if lanes <= 1 {
            parts.overhead += self.waiting;
            parts.synchronisation += self.sleeping;
            return parts;
        }
        let prevented: f64 = off.iter().map(|(_, ns)| ns).sum();
        let explained = self.waiting.min(prevented * (lanes - 1) as f64);
        if prevented > 0.0 {
            off.iter().for_each(|(bound, ns)| parts[*bound] += explained * ns / prevented);
        }
        let uneven = self.waiting - explained;
        parts[if bound == Bound::Overhead { Bound::Overhead } else { Bound::Synchronisation }] += uneven;
        parts.synchronisation += self.sleeping;
        parts
    }
}

/// Parts of the time on CPUs within operators.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct SampledShares {
    /// In the kernel.
    pub(super) kernel: f64,
    /// In functions that wait for other threads.
    pub(super) waiting: f64,
}

/// What limits of control groups did in a phase.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct GroupLimits {
    /// The part of the time in which lanes could have run that they were throttled.
    pub(super) throttled: f64,
    /// The part of the time on CPUs that was the kernel's, where a memory limit had it evict and read again.
    pub(super) reclaim: Option<f64>,
}
