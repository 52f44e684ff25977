//! What the page's timeline consists of: spans on lines. It works on numbers, without texts.

use profinfer_analysis::KindId;

/// A span of a step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) line: Line,
    pub(super) start: u64,
    pub(super) end: u64,
    /// ns at its end in which a lane waited.
    pub(super) waiting: u64,
    /// By the line: an index into the step's operators, a probe, or a state and cpu.
    pub(super) what: u32,
    /// Of a lane's share of an operator: where its counters are among the step's.
    pub(super) counts: u32,
    /// Of devices' lines, one more than: the device's time, ns, of what was encoded or is pending; a copy's bytes. 0 if
    /// not recorded.
    pub(super) more: u64,
}

/// What a line of the timeline is for, in the order of display.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Line {
    /// The steps themselves.
    #[default]
    Steps,
    /// Graphs of a backend.
    Graphs(u32),
    /// What a thread encodes for devices.
    Encoding(u32),
    /// A thread's calls of queues.
    Calls(u32),
    /// Pending work of a queue.
    Queue(u64),
    /// A lane: its operators, what lies within them or between, what its thread did.
    Lane(u32, OfLane),
    /// Regions of a thread that is no lane.
    Thread(u32),
    /// How fast a processor ran.
    Frequency(u16),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum OfLane {
    Operators,
    Regions,
    States,
}

/// What an operator of a step is and costs.
#[derive(Debug, Clone, Copy)]
pub(super) struct What {
    pub(super) kind: KindId,
    pub(super) flops: Option<f64>,
    pub(super) bytes: Option<f64>,
    pub(super) bound: bool,
}

impl What {
    /// Without costs.
    pub(super) fn of_kind(kind: KindId) -> Self {
        Self { kind, flops: None, bytes: None, bound: false }
    }
}
