//! The last minutes of a recording: segments without names in the folder of kept traces, so that nothing of them stays
//! whatever ends this program. Together they have no hole: after a failed write they begin anew.

use super::tell_failure;
use profinfer_files::output::Beside;
use profinfer_trace::{Item, Meta, Segment, Segments};
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Segments of the time that is wanted: so much more than it may be on disk.
const PARTS: u64 = 8;
/// The shortest time of a segment, ns.
const SHORTEST: u64 = 1_000_000_000;
/// Bytes of all segments.
const MOST_BYTES: u64 = 256 << 20;

/// A segment on disk, and when it begins.
struct Stored {
    beside: Arc<Beside>,
    from: u64,
    bytes: u64,
}

/// The segments of a recording.
pub(super) struct Ring {
    folder: PathBuf,
    keep_ns: u64,
    segments: Segments,
    stored: VecDeque<Stored>,
    /// The one that is written: the last of these.
    current: Option<Segment<File>>,
    /// Writes that failed and nobody has counted yet.
    pub(super) failures: u64,
    is_told: bool,
}

impl Ring {
    pub(super) fn new(folder: &Path, keep: Duration, meta: &Meta) -> Self {
        let keep_ns = u64::try_from(keep.as_nanos()).unwrap_or(u64::MAX);
        let mut ring = Self {
            folder: folder.to_owned(),
            keep_ns,
            segments: Segments::new(meta),
            stored: VecDeque::new(),
            current: None,
            failures: 0,
            is_told: false,
        };
        ring.begin(meta, meta.origin.monotonic_ns);
        ring
    }

    /// When the first segment begins; the end of time without any.
    pub(super) fn from(&self) -> u64 {
        self.stored.front().map_or(u64::MAX, |first| first.from)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.stored.iter().map(|of| of.bytes).sum()
    }

    pub(super) fn segments(&self) -> Vec<Arc<Beside>> {
        self.stored.iter().map(|of| Arc::clone(&of.beside)).collect()
    }

    pub(super) fn take(&mut self, item: &Item<'_>) {
        let taken = self.segments.take(item, self.current.as_mut());
        self.check(taken);
    }

    pub(super) fn refer(&mut self, meta: &Meta) {
        let referred = self.current.as_mut().map_or(Ok(()), |segment| segment.refer(meta));
        self.check(referred);
    }

    /// Writes what was gathered; begins another segment where that is due, and removes what is too old or too much.
    pub(super) fn flush(&mut self, meta: &Meta, now: u64) {
        let Some(segment) = &mut self.current else { return self.begin(meta, now) };
        let flushed = segment.refer(meta).and_then(|()| segment.flush());
        let bytes = segment.bytes();
        if let Some(last) = self.stored.back_mut() {
            last.bytes = bytes;
        }
        self.check(flushed);
        let since = self.stored.back().map_or(now, |last| last.from);
        let is_old = now.saturating_sub(since) >= (self.keep_ns / PARTS).max(SHORTEST);
        if self.current.is_none() || is_old || bytes >= MOST_BYTES / PARTS {
            self.begin(meta, now);
        }
        let oldest = now.saturating_sub(self.keep_ns);
        while self.stored.get(1).is_some_and(|second| second.from <= oldest || self.bytes() > MOST_BYTES) {
            self.stored.pop_front();
        }
    }

    fn begin(&mut self, meta: &Meta, time: u64) {
        match self.new_segment(meta, time) {
            Ok((segment, beside)) => {
                let bytes = segment.bytes();
                self.stored.push_back(Stored { beside: Arc::new(beside), from: time, bytes });
                self.current = Some(segment);
                // It works again once a second segment has begun.
                self.is_told &= self.stored.len() < 2;
            }
            Err(error) => self.check(Err(error)),
        }
    }

    fn new_segment(&self, meta: &Meta, time: u64) -> io::Result<(Segment<File>, Beside)> {
        let beside = Beside::create(&self.folder.join("segment"), Some(0o600))?;
        let file = beside.file().try_clone()?;
        Ok((self.segments.begin(file, meta, time)?, beside))
    }

    fn check(&mut self, result: io::Result<()>) {
        let Err(error) = result else { return };
        (self.current, self.failures) = (None, self.failures + 1);
        self.stored.clear();
        if !std::mem::replace(&mut self.is_told, true) {
            tell_failure(&error);
        }
    }
}
