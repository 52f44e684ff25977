//! What a step gives to other processors: operators that are encoded or launched, submissions, waits and copies. The
//! host's time for each is what was recorded; the device's own is separate, and either measured or a bound.

use crate::ids::{KindId, ObjectId};

/// An operator that the host encoded or launched. Its span is the host's work, not the device's.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    pub fused: Vec<KindId>,
    /// Nothing was given to the device: it has nothing to compute.
    pub is_empty: bool,
    /// The device's time for it as the engine had it measured, ns.
    pub device_ns: Option<u64>,
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

/// What an event of a queue is.
#[derive(Debug, Clone, PartialEq)]
pub enum Queued {
    /// Work was submitted.
    Submit {
        /// The queue; 0 if not recorded.
        queue: u64,
        /// What its end is recognised by.
        fence: Option<u64>,
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
    /// Data was copied.
    Copy {
        /// How much, if recorded.
        bytes: Option<u64>,
        /// Where, if recorded.
        direction: Option<CopyDirection>,
    },
    /// Times that the device took, in ticks, in order.
    Timestamps(Box<[u64]>),
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
