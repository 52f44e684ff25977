//! The contents of a timeline, independent of the file format: tracks and their slices.

use std::io;
use std::sync::Arc;

/// Number of a track, from 1.
pub(super) type TrackId = u64;

/// A line of the timeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Track {
    pub(super) id: TrackId,
    pub(super) name: String,
    /// The track that it is shown under; `None` for a process.
    pub(super) parent: Option<TrackId>,
    /// The process's number in the kernel.
    pub(super) pid: u32,
    /// Its place among those of the same parent.
    pub(super) rank: u32,
    /// Of several engines whose it is.
    pub(super) engine: Option<Arc<str>>,
    /// Values over time, in this unit, instead of slices.
    pub(super) counter: Option<&'static str>,
}

/// A value that is shown with a slice.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Argument {
    Text(Arc<str>),
    Int(i64),
}

impl From<&str> for Argument {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

/// Something that takes time; an instant where start and end are the same. Slices of one track are nested or apart.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Slice {
    pub(super) track: TrackId,
    /// ns, CLOCK_MONOTONIC.
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) name: Arc<str>,
    pub(super) category: &'static str,
    pub(super) arguments: Vec<(Arc<str>, Argument)>,
    /// Arrows that begin here, and that end here, by number.
    pub(super) flows_out: Vec<u64>,
    pub(super) flows_in: Vec<u64>,
}

/// A value of a counter's track from a time on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sample {
    pub(super) track: TrackId,
    pub(super) time: u64,
    pub(super) value: f64,
}

/// What happened during some time, in no order.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) slices: Vec<Slice>,
    pub(super) samples: Vec<Sample>,
}

/// A file format.
pub(super) trait Sink {
    /// Declares a track, before anything is on it.
    fn track(&mut self, track: &Track) -> io::Result<()>;

    /// Takes what happened.
    fn batch(&mut self, batch: &Batch) -> io::Result<()>;

    /// Ends the file.
    fn finish(&mut self) -> io::Result<()>;
}
