//! The verdicts as data. `docs/verdicts.md` explains each; keys are only ever added.

use serde::Serialize;
use std::ops::{Index, IndexMut};

/// Why something takes its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Memory delivers no more.
    Memory,
    /// The processors do no more, or no more of what they are given.
    Compute,
    /// The data is not in memory and is read from disk.
    Disk,
    /// Lanes wait for each other.
    Synchronisation,
    /// Lanes could run and do not.
    Starved,
    /// The quota of their control group does not let lanes run.
    Throttled,
    /// A signal or a debugger stopped lanes.
    Stopped,
    /// The recorder stopped lanes, while it placed probes.
    Attaching,
    /// A memory limit has data evicted and read again.
    Reclaim,
    /// The kernel works within operators: page faults, system calls.
    Kernel,
    /// Too small to matter: what lies around the work takes longer than it.
    Overhead,
    /// The trace does not tell.
    Unknown,
}

impl Bound {
    /// Every one.
    pub const ALL: [Self; 12] = [
        Self::Memory,
        Self::Compute,
        Self::Disk,
        Self::Synchronisation,
        Self::Starved,
        Self::Throttled,
        Self::Stopped,
        Self::Attaching,
        Self::Reclaim,
        Self::Kernel,
        Self::Overhead,
        Self::Unknown,
    ];

    /// As the JSON has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Compute => "compute",
            Self::Disk => "disk",
            Self::Synchronisation => "synchronisation",
            Self::Starved => "starved",
            Self::Throttled => "throttled",
            Self::Stopped => "stopped",
            Self::Attaching => "attaching",
            Self::Reclaim => "reclaim",
            Self::Kernel => "kernel",
            Self::Overhead => "overhead",
            Self::Unknown => "unknown",
        }
    }

    /// As a person reads it.
    pub fn words(self) -> &'static str {
        match self {
            Self::Memory => "memory-bound",
            Self::Compute => "compute-bound",
            Self::Disk => "disk-bound",
            Self::Synchronisation => "synchronisation-bound",
            Self::Starved => "starved",
            Self::Throttled => "throttled",
            Self::Stopped => "stopped",
            Self::Attaching => "stopped by profinfer",
            Self::Reclaim => "limited by the size of memory",
            Self::Kernel => "limited by the kernel",
            Self::Overhead => "overhead-bound",
            Self::Unknown => "unknown",
        }
    }
}

/// How sure it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// It is the best explanation of several.
    Low,
    /// Little else explains it.
    Medium,
    /// It was measured, and is far from where it could be something else.
    High,
}

impl Confidence {
    /// So much less sure.
    pub(super) fn lowered(self, by: u32) -> Self {
        match (self, by) {
            (same, 0) => same,
            (Self::High, 1) => Self::Medium,
            _ => Self::Low,
        }
    }

    /// As the JSON has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// Time, or shares of it, by what it was spent on.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct TimeParts {
    /// Work at the memory's limit.
    pub memory: f64,
    /// Work at the processors' limit.
    pub compute: f64,
    /// Waiting for the disk, and for lanes that wait for it.
    pub disk: f64,
    /// Waiting for the slowest lane, and sleep.
    pub synchronisation: f64,
    /// Run-queue delay, and waiting for lanes that are delayed.
    pub starved: f64,
    /// Not let run by the quota of the control group, and waiting for lanes that are not.
    pub throttled: f64,
    /// Stopped by a signal or a debugger, and waiting for lanes that are.
    pub stopped: f64,
    /// Stopped by the recorder while it placed probes, and waiting for lanes that are.
    pub attaching: f64,
    /// In the kernel, or waiting for the disk, because a memory limit had data evicted.
    pub reclaim: f64,
    /// The kernel's work within operators, by timer samples.
    pub kernel: f64,
    /// Operators that are too small, and time around operators.
    pub overhead: f64,
    /// Unknown.
    pub unknown: f64,
}

impl TimeParts {
    /// All of it.
    pub fn total(&self) -> f64 {
        Bound::ALL.iter().map(|bound| self[*bound]).sum()
    }

    pub(super) fn add(&mut self, other: &Self) {
        for bound in Bound::ALL {
            self[bound] += other[bound];
        }
    }

    pub(super) fn by(&self, whole: f64) -> Self {
        let mut shares = *self;
        for bound in Bound::ALL {
            shares[bound] = if whole > 0.0 { self[bound] / whole } else { 0.0 };
        }
        shares
    }

    /// The largest part, and the largest of the others.
    pub(super) fn largest(&self) -> (Bound, Bound) {
        let mut order = Bound::ALL;
        order.sort_by(|a, b| self[*b].total_cmp(&self[*a]));
        (order[0], order[1])
    }
}

impl Index<Bound> for TimeParts {
    type Output = f64;

    fn index(&self, bound: Bound) -> &f64 {
        match bound {
            Bound::Memory => &self.memory,
            Bound::Compute => &self.compute,
            Bound::Disk => &self.disk,
            Bound::Synchronisation => &self.synchronisation,
            Bound::Starved => &self.starved,
            Bound::Throttled => &self.throttled,
            Bound::Stopped => &self.stopped,
            Bound::Attaching => &self.attaching,
            Bound::Reclaim => &self.reclaim,
            Bound::Kernel => &self.kernel,
            Bound::Overhead => &self.overhead,
            Bound::Unknown => &self.unknown,
        }
    }
}

impl IndexMut<Bound> for TimeParts {
    fn index_mut(&mut self, bound: Bound) -> &mut f64 {
        match bound {
            Bound::Memory => &mut self.memory,
            Bound::Compute => &mut self.compute,
            Bound::Disk => &mut self.disk,
            Bound::Synchronisation => &mut self.synchronisation,
            Bound::Starved => &mut self.starved,
            Bound::Throttled => &mut self.throttled,
            Bound::Stopped => &mut self.stopped,
            Bound::Attaching => &mut self.attaching,
            Bound::Reclaim => &mut self.reclaim,
            Bound::Kernel => &mut self.kernel,
            Bound::Overhead => &mut self.overhead,
            Bound::Unknown => &mut self.unknown,
        }
    }
}

/// What the report opens with.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Verdict {
    /// Why it takes its time, in two or three sentences.
    pub sentences: Vec<String>,
    /// What would help, the most first.
    pub advice: Vec<Advice>,
    /// What is missing, and how to record it.
    pub cannot_say: Vec<String>,
    /// By phase.
    pub phases: Vec<PhaseVerdict>,
    /// By phase, of steps that gave work to a device: the device or the host.
    pub devices: Vec<DeviceVerdict>,
    /// By operator and phase, the most time first.
    pub operators: Vec<OperatorVerdict>,
    /// By layer and phase, in the order of the model.
    pub layers: Vec<LayerVerdict>,
}

/// A phase.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PhaseVerdict {
    /// `prefill`, `decode`.
    pub phase: &'static str,
    /// What takes most of its time.
    pub bound: Bound,
    /// How sure that is.
    pub confidence: Confidence,
    /// The other explanation, where it is close.
    pub also: Option<Bound>,
    /// Shares of its lane time.
    pub parts: TimeParts,
    /// Of `parts.reclaim`: in the kernel's reclaim or compaction, by its tracepoints. `None`: these were not recorded, and
    /// the part is an estimate.
    pub reclaim_measured: Option<f64>,
    /// Bytes that its operators move in a step, each operator's once; `None` where the probeset has no costs.
    pub bytes_per_step: Option<f64>,
    /// Whether these are more than the caches hold: `fits`, `partly`, `exceeds`, `not_known`.
    pub caches: &'static str,
    /// What the operators that decide did.
    pub rates: Rates,
    /// The reasons, in sentences with numbers.
    pub evidence: Vec<String>,
    /// The shares of its lane time that these sentences state.
    pub stated: Vec<StatedShare>,
    /// What functions were sampled within its operators; `None` without samples there.
    pub sampled: Option<SampledClasses>,
}

/// What limits steps that give work to a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceBound {
    /// The host waits for the device.
    Device,
    /// The host encodes, or does what no probe records, while the device has nothing to do.
    Host,
    /// Calls that submit work.
    Submission,
    /// Copies.
    Copy,
    /// Operators on the CPU.
    Operators,
    /// Work is pending, and the host makes no recorded call.
    Unknown,
}

impl DeviceBound {
    /// Every one.
    pub const ALL: [Self; 6] = [Self::Device, Self::Host, Self::Submission, Self::Copy, Self::Operators, Self::Unknown];
}

/// Shares of the time of steps that give work to a device, by what the host does. They add up to 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct DeviceParts {
    /// It waits for the device; or it makes no recorded call, and the device measured that it works.
    pub device: f64,
    /// It encodes operators.
    pub encoding: f64,
    /// It makes no recorded call, and no work is pending.
    pub host: f64,
    /// It submits work.
    pub submitting: f64,
    /// It copies data, or waits for a copy.
    pub copying: f64,
    /// It computes operators.
    pub operators: f64,
    /// It makes no recorded call, and work is pending.
    pub unknown: f64,
}

/// A phase's steps that give work to a device.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeviceVerdict {
    /// `prefill`, `decode`, `outside`.
    pub phase: &'static str,
    /// What takes most of their time.
    pub bound: DeviceBound,
    /// How sure that is.
    pub confidence: Confidence,
    /// The second cause, where it is close.
    pub also: Option<DeviceBound>,
    /// Steps.
    pub steps: u64,
    /// Mean time of one: to its results, and for decode from those of the step before it.
    pub step_ns: f64,
    /// Shares of this time.
    pub parts: DeviceParts,
    /// The device had nothing to do in at least this share.
    pub idle_at_least: f64,
    /// It worked in at most this share: work was pending.
    pub busy_at_most: f64,
    /// Operators took this share on it, if it measured every one.
    pub busy_measured: Option<f64>,
    /// What an infinitely fast device would save at most.
    pub faster_device_saves_at_most: f64,
    /// The reasons, in sentences.
    pub evidence: Vec<String>,
}

/// Timer samples within a phase's operators, without those in which a lane waited for others.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SampledClasses {
    /// How many.
    pub samples: u64,
    /// By what the interrupted function does, the most first.
    pub classes: Vec<ClassShare>,
}

/// Samples in functions that do the same.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClassShare {
    /// `page_faults`, `kernel`, `probes`, `wait`, `copy`, `dequantise`, `multiply`, `other`, `unnamed`.
    pub what: &'static str,
    /// Samples.
    pub samples: u64,
    /// Their share.
    pub share: f64,
    /// The share's 95 % interval.
    pub interval: [f64; 2],
    /// Fewer than 20 samples.
    pub few: bool,
    /// The function with most of them.
    pub function: String,
}

/// A share of a phase's lane time that a sentence states.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct StatedShare {
    /// What that time was spent on.
    pub what: Bound,
    /// Of the phase's lane time.
    pub share: f64,
    /// It lies within other parts. Those that do not overlap come to no more than 1.
    pub overlaps: bool,
}

/// How fast operators were while their lanes ran, and what the machine can do at most.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Rates {
    /// Bytes a second.
    pub bytes_per_s: Option<f64>,
    /// Operations a second.
    pub flops_per_s: Option<f64>,
    /// Operations for each byte.
    pub intensity: Option<f64>,
    /// What memory delivers at most to as many processors, bytes a second; or the last cache, where that is what limits.
    pub bandwidth_limit: Option<f64>,
    /// `bandwidth_limit` is the last cache's.
    pub limited_by_cache: bool,
    /// What as many processors compute at most, 32-bit floats, operations a second.
    pub peak_limit: Option<f64>,
}

/// A rate that is so many times a limit is not within the limit's noise.
pub(super) const NOISE: f64 = 1.15;

impl Rates {
    /// `bytes_per_s` by its limit.
    pub fn of_bandwidth(&self) -> Option<f64> {
        Some(self.bytes_per_s? / self.bandwidth_limit?)
    }

    /// `flops_per_s` by its limit.
    pub fn of_peak(&self) -> Option<f64> {
        Some(self.flops_per_s? / self.peak_limit?)
    }

    /// More was computed than the limit allows, by more than the measurement's noise.
    pub(super) fn exceed_peak(&self) -> bool {
        self.of_peak().is_some_and(|part| part > NOISE)
    }

    /// How near it is to the nearer of both limits, at most 1; 1 if one is missing.
    pub(super) fn of_limits(&self) -> f64 {
        self.of_bandwidth().zip(self.of_peak()).map_or(1.0, |(bandwidth, peak)| bandwidth.max(peak).min(1.0))
    }
}

/// An operator in a phase.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OperatorVerdict {
    /// `prefill`, `decode`.
    pub phase: &'static str,
    /// Name, numbers as `*`.
    pub name: String,
    /// Type.
    pub op: String,
    /// What takes most of its time.
    pub bound: Bound,
    /// How sure that is.
    pub confidence: Confidence,
    /// The other explanation, where it is close.
    pub also: Option<Bound>,
    /// Its part of the phase's lane time, waiting included.
    pub share: f64,
    /// Shares of its lane time.
    pub parts: TimeParts,
    /// How many were computed.
    pub count: u64,
    /// Mean time from the first lane's start to the last lane's end of work.
    pub mean_ns: f64,
    /// What it did.
    pub rates: Rates,
    /// Why, in a sentence.
    pub why: String,
}

/// A layer in a phase.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LayerVerdict {
    /// `prefill`, `decode`.
    pub phase: &'static str,
    /// The layer; `None` for operators of none.
    pub layer: Option<String>,
    /// What takes most of its time.
    pub bound: Bound,
    /// How sure that is.
    pub confidence: Confidence,
    /// The other explanation, where it is close.
    pub also: Option<Bound>,
    /// Its part of the phase's lane time, waiting included.
    pub share: f64,
    /// Shares of its lane time.
    pub parts: TimeParts,
}

/// What would help.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Advice {
    /// `prefill`, `decode`: whose time it saves.
    pub phase: &'static str,
    /// As a reader knows its steps: the phase, or `runs` where there are no tokens.
    pub steps: &'static str,
    /// What to do.
    pub what: String,
    /// The part of the phase's time that it saves at most. `None` where that is far more than `gain_as_recorded`: the
    /// gain depends on how much data then stays in caches.
    pub gain_at_most: Option<f64>,
    /// The part that it saves if all else stays as recorded.
    /// Advice on the verdict's cause comes first; then it is in descending order of the most, or else of this.
    pub gain_as_recorded: f64,
    /// How that was worked out.
    pub how: String,
}
