//! What the analysis takes the records of a probe for.

use serde::{Deserialize, Serialize};

/// What the analysis takes an event for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// One decode or prefill call.
    Step,
    /// One computation of a graph on one backend.
    Graph,
    /// One operator (on one thread: a lane).
    Operator,
    /// A part of an operator that another thread computes.
    Share,
    /// The ids of the experts that an operator used.
    Experts,
    /// Tokens of a step and the sequences that they belong to; no duration.
    Batch,
    /// A request arrived, was given a sequence, or left it.
    Request,
    /// Any other span: a barrier, a copy, a load.
    Region,
    /// The host encodes or launches an operator for a device.
    Dispatch,
    /// Work is given to a device's queue.
    Submit,
    /// The host waits for a device.
    Wait,
    /// Data is copied to a device or from it.
    Copy,
    /// What a device is, or what it measured.
    Device,
    /// Work is captured for later, instead of given to a queue.
    Capture,
    /// The kernel's driver ran a job on a device.
    Job,
    /// A thread left a processor for another.
    SchedSwitch,
    /// A thread became runnable.
    SchedWakeup,
    /// An instant.
    Mark,
    /// A thread went on after a page of its memory had to be fetched.
    Fault,
    /// A part of a file was put into the page cache.
    PageCache,
    /// Memory was taken back, or moved together, for a thread.
    Reclaim,
    /// Where spans of other probes end, or their waiting begins; nothing is recorded.
    Boundary,
}

impl Role {
    /// Whether its events are the kernel's: they happen at a fixed place, with fixed fields.
    pub fn is_of_the_kernel(self) -> bool {
        matches!(
            self,
            Self::SchedSwitch | Self::SchedWakeup | Self::Fault | Self::PageCache | Self::Reclaim | Self::Job
        )
    }

    /// Whether its events are about other processors than the host's.
    pub fn is_of_a_device(self) -> bool {
        matches!(
            self,
            Self::Dispatch | Self::Submit | Self::Wait | Self::Copy | Self::Device | Self::Capture | Self::Job
        )
    }
}
