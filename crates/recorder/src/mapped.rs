//! Which files the target has in its memory: read again whenever parts of files come into the page cache, so that the
//! analysis can name whose memory a part of a file is.

use super::consumer::Consumer;
use profinfer_binary::maps;
use profinfer_schema::Role;
use profinfer_schema::{MappedFile, Notice, Schema};
use std::time::{Duration, Instant};

/// Time between two polls while files are read.
const INTERVAL: Duration = Duration::from_millis(50);
/// The largest number of mapped parts of files in the trace; libraries and a model have some hundreds.
const MOST: usize = 4096;

/// The files that were last seen mapped.
#[derive(Debug, Default)]
pub(super) struct MappedFiles {
    /// Types of the records that tell that a part of a file was read.
    records: Vec<usize>,
    /// How many of them there were at the last poll.
    seen: u64,
    polled: Option<Instant>,
    recorded: Vec<MappedFile>,
}

impl MappedFiles {
    /// For recordings of a schema: without such records nothing is read.
    pub(super) fn new(schema: &Schema) -> Self {
        let is_read = |role: Option<Role>| role == Some(Role::PageCache);
        let records = schema.records.iter().enumerate().filter(|(_, r)| is_read(r.role)).map(|(index, _)| index);
        Self { records: records.collect(), ..Self::default() }
    }

    /// Reads the mappings, if part of a file was read since the last time, and records what has changed.
    pub(super) fn poll(&mut self, process: impl FnOnce() -> i32, consumer: &Consumer) {
        let now: u64 = self.records.iter().map(|record| consumer.counts().of_type(*record)).sum();
        if now == self.seen || self.polled.is_some_and(|polled| polled.elapsed() < INTERVAL) {
            return;
        }
        self.polled = Some(Instant::now());
        // A process that has ended has nothing mapped, but had.
        let Some(files) = files_of(process()).filter(|files| !files.is_empty()) else { return };
        self.seen = now;
        if files == self.recorded {
            return;
        }
        self.recorded.clone_from(&files);
        let text = format!("the target has {} parts of files mapped", files.len());
        let time = super::clock::monotonic_ns();
        consumer.notice_of(|| Notice { time, text, mapped: Some(files), ..Notice::default() });
    }
}

/// What a process has mapped of files, code left out.
fn files_of(process: i32) -> Option<Vec<MappedFile>> {
    let text = std::fs::read(format!("/proc/{process}/maps")).ok()?;
    let data = maps::parse(&text).filter(|mapping| !mapping.executable);
    let file = |mapping: maps::Mapping| MappedFile {
        start: mapping.start,
        end: mapping.end,
        offset: mapping.offset,
        device: mapping.device.0 << 20 | mapping.device.1,
        inode: mapping.inode,
        path: mapping.path.display().to_string(),
    };
    Some(data.take(MOST).map(file).collect())
}
