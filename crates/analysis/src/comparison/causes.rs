//! Where a step's time went: on what its lanes spent it. The parts of a step add up to its duration: each lane's time,
//! divided by the number of lanes. What a lane waits for others that could not run is time of what prevented these.

use crate::step::ThreadState;
use crate::step::{Step, TimeSplit};

/// Something that a step's time was spent on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// Operators' own code, on a CPU.
    Operators,
    /// The kernel, on behalf of the target.
    Kernel,
    /// Having data read: major faults, and other waits for a disk.
    Faults,
    /// A memory limit had data evicted and read again.
    Reclaim,
    /// Able to run, while others ran.
    RunQueue,
    /// Not let run by the quota of the control group.
    Throttled,
    /// Stopped by a signal, a debugger or the recorder.
    Stopped,
    /// Waiting for the slowest lane, which had more to do.
    Barrier,
    /// Asleep.
    Sleeping,
    /// On a CPU, in no operator.
    Around,
    /// Unknown.
    Unknown,
}

impl Cause {
    /// As the JSON has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Operators => "operators",
            Self::Kernel => "kernel",
            Self::Faults => "faults",
            Self::Reclaim => "reclaim",
            Self::RunQueue => "run_queue",
            Self::Throttled => "throttled",
            Self::Stopped => "stopped",
            Self::Barrier => "barrier",
            Self::Sleeping => "sleeping",
            Self::Around => "around_operators",
            Self::Unknown => "unknown",
        }
    }
}

/// What is measured in each step.
pub(super) const MEASURED: usize = 9;
const RUNNING: usize = 0;
const AROUND: usize = 1;
const FAULTS: usize = 2;
const RUN_QUEUE: usize = 3;
const STOPPED: usize = 4;
const BARRIER: usize = 5;
const SLEEPING: usize = 6;
const UNKNOWN: usize = 7;
/// On a CPU in operators whose waiting was not recorded.
const UNDIVIDED: usize = 8;

/// ns of a step, lanes on average.
pub(super) type Measured = [f64; MEASURED];

/// What the kernel counted for the whole process in a phase, as parts of the time that lanes were in a state.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct KernelShares {
    /// Of the time in which lanes could have run: throttled.
    pub throttled: f64,
    /// Of the time on CPUs: in the kernel; `None` where that is unknown.
    pub kernel: Option<f64>,
    /// Ticks of the clock that this was counted with.
    pub ticks: f64,
    /// A memory limit made the kernel do it, and lanes wait for the disk.
    pub reclaims: bool,
}

/// Fewer ticks show no part of anything.
const FEWEST_TICKS: f64 = 30.0;

impl KernelShares {
    fn kernel_share(&self) -> Option<f64> {
        self.kernel.filter(|_| self.ticks >= FEWEST_TICKS)
    }

    /// Variance of the kernel's part, as a number of ticks shows it.
    fn variance(&self) -> f64 {
        let share = self.kernel_share().unwrap_or(0.0);
        (share * (1.0 - share) + 1.0 / self.ticks.max(1.0)) / self.ticks.max(1.0)
    }
}

/// Measures a step. `None` where its threads' states were not recorded.
pub(super) fn measure(step: &Step) -> Option<Measured> {
    if step.states.is_empty() || step.splits.is_empty() {
        return None;
    }
    let lanes = step.lane_numbers.len().max(1) as f64;
    let whole = step.duration() as f64 * lanes;
    let mut sum: Measured = [0.0; MEASURED];
    let mut within = TimeSplit::default();
    for operator in &step.operators {
        let split = step.split_of(operator).unwrap_or_default();
        within = within.plus(&split);
        add_operator(&mut sum, &split, step.lanes_of(operator).len());
    }
    let on_cpu = step.fetched.iter().filter(|fetched| fetched.operator.is_some()).map(|of| of.totals.on_cpu);
    // Reclaim is most often for what a fault reads again.
    let mut on_cpu = on_cpu.fold(within.reclaiming, u64::saturating_add) as f64;
    for place in [RUNNING, UNDIVIDED] {
        let part = on_cpu.min(sum[place]);
        sum[place] -= part;
        sum[FAULTS] += part;
        on_cpu -= part;
    }
    let mut left = (whole - sum.iter().sum::<f64>()).max(0.0);
    let state = |state: ThreadState| {
        let of_state = step.states.iter().filter(|span| span.state == state);
        of_state.map(|span| span.end.saturating_sub(span.start)).fold(0, u64::saturating_add) as f64
    };
    let stopped = state(ThreadState::Stopped) + state(ThreadState::Attaching);
    // A lane that waits may be unable to run meanwhile: that is in the waiting of operators.
    let around = [
        (FAULTS, state(ThreadState::Blocked) - within.blocked as f64),
        (STOPPED, stopped - (within.stopped + within.attaching) as f64),
        (RUN_QUEUE, state(ThreadState::Runnable) - within.runnable as f64 - within.waiting as f64),
    ];
    for (place, ns) in around {
        let ns = ns.clamp(0.0, left);
        sum[place] += ns;
        left -= ns;
    }
    sum[AROUND] += left;
    // Recorded times of lanes may come to a little more than the step.
    let all: f64 = sum.iter().sum();
    let scale = if all > 0.0 { step.duration() as f64 / all } else { 0.0 };
    Some(sum.map(|ns| ns * scale))
}

/// An operator's time, all lanes together. As much of the waiting is put down to lanes that could not run as the others
/// can have waited for them.
fn add_operator(sum: &mut Measured, split: &TimeSplit, lanes: usize) {
    sum[RUNNING] += split.compute.saturating_sub(split.undivided) as f64;
    sum[UNDIVIDED] += split.undivided as f64;
    sum[SLEEPING] += split.sleeping as f64;
    sum[UNKNOWN] += split.unknown as f64;
    let off = [
        (FAULTS, split.blocked),
        (RUN_QUEUE, split.runnable),
        (STOPPED, split.stopped.saturating_add(split.attaching)),
    ];
    let prevented: f64 = off.iter().map(|(_, ns)| *ns as f64).sum();
    let waiting = split.waiting as f64;
    let explained = waiting.min(prevented * lanes.saturating_sub(1) as f64);
    for (place, ns) in off {
        let part = if prevented > 0.0 { explained * ns as f64 / prevented } else { 0.0 };
        sum[place] += ns as f64 + part;
    }
    // A lane alone waits for nobody: that is the boundary's time.
    sum[if lanes > 1 { BARRIER } else { AROUND }] += waiting - explained;
}

/// What of each measured time is a cause's, and the variance of that part.
#[derive(Debug, Clone, Copy)]
pub(super) struct Weights {
    pub(super) cause: Cause,
    of: Measured,
    variance: f64,
    pub(super) estimate: bool,
}

impl Weights {
    /// Of a step, or the sum of some.
    pub(super) fn apply(&self, measured: &Measured) -> f64 {
        self.of.iter().zip(measured).map(|(of, ns)| of * ns).sum()
    }

    /// The variance of it, of a mean step.
    pub(super) fn variance(&self, measured: &Measured) -> f64 {
        self.variance * (measured[RUNNING] + measured[UNDIVIDED] + measured[AROUND]).powi(2)
    }
}

/// The share of waiting for the slowest lane in the time on CPUs of operators whose waiting was recorded, by the means of a
/// phase; `None` where it was recorded of none of them.
pub(super) fn barrier_share(mean: &Measured) -> Option<f64> {
    let divided = mean[RUNNING] + mean[BARRIER];
    match (divided > 0.0, mean[UNDIVIDED] > 0.0) {
        (true, _) => Some(mean[BARRIER] / divided),
        (false, undivided) => (!undivided).then_some(0.0),
    }
}

/// All causes of a trace's phase. `kernel`: the other trace tells the kernel's part, too. `barrier`: the trace's
/// [`barrier_share`]; `None` where one of the traces has none: then waiting is a part of operators.
pub(super) fn weights(shares: &KernelShares, kernel: bool, barrier: Option<f64>) -> Vec<Weights> {
    let share = shares.kernel_share().filter(|_| kernel);
    let in_kernel = share.unwrap_or(0.0).clamp(0.0, 1.0);
    let throttled = shares.throttled.clamp(0.0, 1.0);
    let variance = if share.is_some() { shares.variance() } else { 0.0 };
    let of = |parts: &[(usize, f64)]| {
        let mut of: Measured = [0.0; MEASURED];
        parts.iter().for_each(|(place, part)| of[*place] = *part);
        of
    };
    let nothing: &[(usize, f64)] = &[];
    let by_kernel = [(RUNNING, in_kernel), (AROUND, in_kernel), (UNDIVIDED, in_kernel)];
    let reclaim = [by_kernel[0], by_kernel[1], by_kernel[2], (FAULTS, 1.0)];
    let faults = [(FAULTS, 1.0)];
    let (kernel, reclaim, faults) =
        if shares.reclaims { (nothing, &reclaim[..], nothing) } else { (&by_kernel[..], nothing, &faults[..]) };
    let weights = |cause, parts: &[(usize, f64)], from_ticks: bool, estimate: bool| Weights {
        cause,
        of: of(parts),
        variance: if from_ticks { variance } else { 0.0 },
        estimate,
    };
    let ticks = share.is_some();
    let (user, waits) = (1.0 - in_kernel, barrier.unwrap_or(0.0));
    let exact = if barrier.is_some() { 1.0 } else { 0.0 };
    let operators = [(RUNNING, user), (UNDIVIDED, user * (1.0 - waits)), (BARRIER, 1.0 - exact)];
    vec![
        weights(Cause::Operators, &operators, ticks, ticks),
        weights(Cause::Kernel, kernel, ticks, true),
        weights(Cause::Reclaim, reclaim, ticks, true),
        weights(Cause::Faults, faults, false, false),
        weights(Cause::RunQueue, &[(RUN_QUEUE, 1.0 - throttled)], false, throttled > 0.0),
        weights(Cause::Throttled, &[(RUN_QUEUE, throttled)], false, true),
        weights(Cause::Stopped, &[(STOPPED, 1.0)], false, false),
        weights(Cause::Barrier, &[(BARRIER, exact), (UNDIVIDED, user * waits)], false, false),
        weights(Cause::Sleeping, &[(SLEEPING, 1.0)], false, false),
        weights(Cause::Around, &[(AROUND, user)], ticks, ticks),
        weights(Cause::Unknown, &[(UNKNOWN, 1.0)], false, false),
    ]
}

/// Whether the traces tell the kernel's part.
pub(super) fn kernel_of_both(a: &KernelShares, b: &KernelShares) -> bool {
    a.kernel_share().is_some() && b.kernel_share().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(compute: u64, waiting: u64, runnable: u64, blocked: u64) -> TimeSplit {
        TimeSplit { compute, waiting, runnable, blocked, ..TimeSplit::default() }
    }

    #[test]
    fn waiting_for_a_lane_that_could_not_run_is_time_of_the_run_queue() {
        let mut sum = [0.0; MEASURED];
        add_operator(&mut sum, &split(100, 40, 30, 0), 2);
        assert_eq!((sum[RUNNING], sum[RUN_QUEUE], sum[BARRIER]), (100.0, 60.0, 10.0));
        let mut alone = [0.0; MEASURED];
        add_operator(&mut alone, &split(100, 7, 0, 0), 1);
        assert_eq!((alone[AROUND], alone[BARRIER]), (7.0, 0.0));
    }

    #[test]
    fn causes_add_up_whatever_the_kernel_counted() {
        let measured: Measured = [40.0, 10.0, 8.0, 20.0, 4.0, 3.0, 2.0, 3.0, 10.0];
        let barriers = [None, Some(0.0), Some(0.25), barrier_share(&measured)];
        for (shares, barrier) in [
            KernelShares::default(),
            KernelShares { throttled: 0.7, kernel: Some(0.2), ticks: 500.0, reclaims: false },
            KernelShares { throttled: 0.0, kernel: Some(0.4), ticks: 500.0, reclaims: true },
            KernelShares { throttled: 1.0, kernel: Some(0.4), ticks: 5.0, reclaims: false },
        ]
        .into_iter()
        .flat_map(|shares| barriers.map(|barrier| (shares, barrier)))
        {
            let all = weights(&shares, true, barrier);
            let sum: f64 = all.iter().map(|cause| cause.apply(&measured)).sum();
            assert!((sum - 100.0).abs() < 1e-9, "{shares:?}: {sum}");
            let of = |cause| all.iter().find(|of| of.cause == cause).map_or(0.0, |of| of.apply(&measured));
            assert!((of(Cause::Throttled) - 20.0 * shares.throttled).abs() < 1e-9);
            assert_eq!(of(Cause::Reclaim) > 0.0, shares.reclaims);
            assert_eq!(of(Cause::Kernel) > 0.0, !shares.reclaims && shares.kernel.is_some() && shares.ticks > 100.0);
        }
    }
}
