//! What a step gives to other processors: operators that are encoded or launched, submissions, waits and copies. The
//! host's time for each is what was recorded; the device's own is separate, and measured, a bound, or an estimate.

use crate::catalogue::Cost;
use crate::ids::{KindId, ObjectId};
use std::sync::Arc;

/// An operator that the host encoded or launched. Its span is the host's work, not the device's.
#[derive(Debug, Clone, PartialEq)]
pub struct Dispatch {
    /// What it is; of several that are fused, the last.
    pub kind: KindId,
    /// The object that it computes.
    pub object: Option<ObjectId>,
    /// Index into [`Step::graphs`](super::Step::graphs); `None` outside graphs.
    pub graph: Option<u32>,
    /// The thread that encoded it.
    pub tid: u32,
    /// When encoding began, ns.
    pub start: u64,
    /// When it ended, ns.
    pub end: u64,
    /// Index of its first operator in the graph, if recorded.
    pub index: Option<u32>,
    /// Operators of the graph that it covers: 1, or more that are fused.
    pub operators: u32,
    /// Of these, in order, all that are described but the last.
    pub fused: Vec<FusedPart>,
    /// What was launched while it was encoded, in order: the device's programs, by name.
    pub launches: Vec<KindId>,
    /// Nothing was given to the device: it has nothing to compute.
    pub is_empty: bool,
    /// What it costs, with all that is fused.
    pub cost: Cost,
    /// The device's time for it as the engine had it measured, ns.
    pub device_ns: Option<u64>,
    /// Its part of its submission's or graph's time on the device, by costs, ns: an estimate.
    pub device_estimate_ns: Option<u64>,
}

/// An operator that is computed with a later one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FusedPart {
    /// What it is.
    pub kind: KindId,
    /// The object that it computes.
    pub object: ObjectId,
}

/// An event of a device's queue.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueEvent {
    /// What happened.
    pub what: Queued,
    /// The thread.
    pub tid: u32,
    /// Index of its record type in the schema.
    pub record_type: u16,
    /// When the call began, ns. It may lie after the step: up to the next step its results are waited for.
    pub start: u64,
    /// When it returned, ns.
    pub end: u64,
}

impl QueueEvent {
    /// A job of the kernel's driver, and when it was done, ns.
    pub fn job(&self) -> Option<(&DriverJob, u64)> {
        match &self.what {
            Queued::Job(job) => Some((job, self.end)),
            _ => None,
        }
    }
}

/// What an event of a queue is.
#[derive(Debug, Clone, PartialEq)]
pub enum Queued {
    /// Work was submitted.
    Submit {
        /// The queue; 0 if not recorded.
        queue: u64,
        /// What its end is recognised by.
        fence: Option<u64>,
        /// Later work of the queue comes after what was submitted with this fence last.
        after: Option<u64>,
        /// What was captured before and is now computed, in the order of its encoding.
        replays: Option<Arc<[KindId]>>,
        /// The call failed.
        failed: bool,
    },
    /// The host waited, or saw that something is done.
    Wait {
        /// For what.
        on: WaitsOn,
        /// It did not come: a timeout, a failure.
        failed: bool,
    },
    /// A queue ended. Of the work that it had, no end is known; its address can be another queue's.
    Destroyed {
        /// The queue.
        queue: u64,
    },
    /// Work was captured for later: nothing was given to the device.
    Captured,
    /// Data was copied.
    Copy {
        /// How much, if recorded.
        bytes: Option<u64>,
        /// Where, if recorded.
        direction: Option<CopyDirection>,
        /// From one object to another, if recorded.
        objects: Option<(ObjectId, ObjectId)>,
    },
    /// Times that the device took, in ticks, in order.
    Timestamps(Box<[u64]>),
    /// A job of the kernel's driver. The event lasts from when it was given to the driver until it was done.
    Job(Box<DriverJob>),
}

/// Where data is copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CopyDirection {
    /// From the host to a device.
    ToDevice,
    /// From a device to the host.
    FromDevice,
    /// Between buffers of devices.
    OnDevice,
}

impl CopyDirection {
    /// By the number that a probeset gives.
    pub(crate) fn of(number: u64) -> Option<Self> {
        [Self::ToDevice, Self::FromDevice, Self::OnDevice].get(usize::try_from(number).ok()?).copied()
    }
}

/// What a wait is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitsOn {
    /// The work that was submitted with this fence, and all before it in its queue.
    Fence(u64),
    /// All work of a queue.
    Queue(u64),
    /// All work.
    Everything,
    /// Something that no submission was recorded with.
    Unknown,
}

/// Work that was submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Submission {
    /// The queue; 0 if not recorded.
    pub queue: u64,
    /// Index into [`Step::graphs`](super::Step::graphs); `None` outside graphs.
    pub graph: Option<u32>,
    /// The device cannot have begun before, ns: the call began.
    pub start: u64,
    /// When the call returned, ns.
    pub end: u64,
    /// The device must have been done by then, ns: a wait for it ended. `None`: no such wait was recorded.
    pub done: Option<u64>,
    /// What the kernel's driver reports of it.
    pub ran: Option<Ran>,
}

/// Jobs that the kernel's driver ran on a device for a submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ran {
    /// When the first began, ns.
    pub start: u64,
    /// When the last was done, ns.
    pub end: u64,
    /// Time in which one of them ran, ns.
    pub busy: u64,
    /// How many.
    pub jobs: u32,
    /// Since when jobs are known to have run.
    pub since: JobSince,
}

/// What the beginning of a driver's job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JobSince {
    /// The scheduler gave it to the device, which had done all jobs before it.
    Run,
    /// It was given to the device, which may have had others to do.
    Emitted,
    /// It was made: the device cannot have begun before.
    Created,
}

impl JobSince {
    /// By the number that the kernel's program gives.
    pub(crate) fn of(number: u64) -> Option<Self> {
        [Self::Run, Self::Emitted, Self::Created].get(usize::try_from(number).ok()?.checked_sub(1)?).copied()
    }
}

/// A job of a device, as the kernel's driver reports it.
#[derive(Debug, Clone, PartialEq)]
pub struct DriverJob {
    /// When it was given to the driver, ns.
    pub queued: u64,
    /// When it began, ns.
    pub start: u64,
    /// What that is.
    pub since: JobSince,
    /// The device's ring or queue, as the driver calls it.
    pub ring: Option<Arc<str>>,
    /// The driver or the device.
    pub driver: Option<Arc<str>>,
}

/// What the probes describe of a device.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DeviceInfo {
    /// Its name.
    pub name: Option<String>,
    /// Its kind, by the probeset's names.
    pub device_type: Option<String>,
    /// Nanoseconds of a tick of its clock.
    pub period: Option<f64>,
}
