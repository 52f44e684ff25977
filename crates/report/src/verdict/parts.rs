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
    /// Stopped by the recorder, while it placed probes.
    pub(super) attaching: f64,
    /// On a cpu, in the kernel's reclaim or compaction, as that was measured.
    pub(super) reclaiming: f64,
    /// In uninterruptible wait in it; and what a memory limit has the kernel do beside it: reading again, and waiting for
    /// that.
    pub(super) reclaim: f64,
    /// In the kernel, within operators.
    pub(super) kernel: f64,
    /// Asleep.
    pub(super) sleeping: f64,
    /// In uninterruptible wait.
    pub(super) blocked: f64,
    /// Of lanes that the engine leaves out of the graph: what takes the time is what limits the others.
    pub(super) unused: f64,
    /// Unknown.
    pub(super) unknown: f64,
}

impl LaneTime {
    /// As the scheduler's events tell it.
    pub(super) fn of_split(split: &TimeSplit) -> Self {
        let reclaiming = split.reclaiming.min(split.compute);
        let reclaim_blocked = split.reclaim_blocked.min(split.blocked);
        Self {
            running: (split.compute - reclaiming) as f64,
            reclaiming: reclaiming as f64,
            fetching: 0.0,
            waiting: split.waiting as f64,
            runnable: split.runnable as f64,
            throttled: 0.0,
            stopped: split.stopped as f64,
            attaching: split.attaching as f64,
            reclaim: reclaim_blocked as f64,
            kernel: 0.0,
            sleeping: split.sleeping as f64,
            blocked: (split.blocked - reclaim_blocked) as f64,
            unused: 0.0,
            unknown: split.unknown as f64,
        }
    }

    /// Without the scheduler's events: work is taken for running.
    pub(super) fn of_work(divided: &Divided) -> Self {
        Self { running: divided.work as f64, waiting: divided.waiting.unwrap_or(0) as f64, ..Self::default() }
    }

    /// At work. Unknown time is taken as running: a rate is never made higher than it was by not knowing.
    pub(super) fn work(&self) -> f64 {
        self.running + self.unknown
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.running += other.running;
        self.fetching += other.fetching;
        self.waiting += other.waiting;
        self.runnable += other.runnable;
        self.throttled += other.throttled;
        self.stopped += other.stopped;
        self.attaching += other.attaching;
        self.reclaiming += other.reclaiming;
        self.reclaim += other.reclaim;
        self.kernel += other.kernel;
        self.sleeping += other.sleeping;
        self.blocked += other.blocked;
        self.unused += other.unused;
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
        let on_cpu = self.running + self.fetching + self.reclaiming;
        let kernel = self.other_kernel(shares.kernel);
        let waiting = (on_cpu * shares.waiting.clamp(0.0, 1.0)).min(self.running - kernel);
        self.running -= kernel + waiting;
        self.kernel += kernel;
        self.waiting += waiting;
    }

    /// The kernel's work besides what is taken already, where so much of the time on CPUs was the kernel's.
    fn other_kernel(&self, share: f64) -> f64 {
        let taken = self.fetching + self.reclaiming;
        ((self.running + taken) * share.clamp(0.0, 1.0) - taken).clamp(0.0, self.running)
    }

    /// Takes parts of it for what limits of control groups did to the process as a whole: of the time in which it could
    /// have run, and of that in which it ran; where that is for a memory limit, all waits for the disk are.
    pub(super) fn take_limits(&mut self, limits: GroupLimits) {
        let throttled = self.runnable * limits.throttled.clamp(0.0, 1.0);
        self.runnable -= throttled;
        self.throttled += throttled;
        if let Some(in_kernel) = limits.reclaim {
            let kernel = self.other_kernel(in_kernel);
            self.running -= kernel;
            self.reclaim += kernel + self.blocked + self.fetching;
            (self.blocked, self.fetching) = (0.0, 0.0);
        }
    }

    /// By what it was spent on, the work being limited by `bound`. Of the waiting, as much is put down to lanes that
    /// could not run as the other `lanes` can have waited for them; the rest is uneven work. A lane alone
    /// waits for nobody: what it spends at a boundary is the boundary's time. So is what lanes wait briefly in operators
    /// that are too small to be shared: `uneven` says which it is.
    pub(super) fn parts(&self, lanes: u64, bound: Bound, uneven: Bound) -> TimeParts {
        let off = [
            (Bound::Disk, self.blocked + self.fetching),
            (Bound::Starved, self.runnable),
            (Bound::Throttled, self.throttled),
            (Bound::Stopped, self.stopped),
            (Bound::Attaching, self.attaching),
            (Bound::Reclaim, self.reclaiming + self.reclaim),
        ];
        let mut parts = TimeParts { unknown: self.unknown, ..TimeParts::default() };
        off.iter().for_each(|(bound, ns)| parts[*bound] += ns);
        parts[bound] += self.running + self.unused;
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
        parts[uneven] += self.waiting - explained;
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
