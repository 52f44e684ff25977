//! Which files the target has in its memory: read again whenever parts of files come into the page cache, so that the
//! analysis can say whose memory a part of a file is.

use super::consumer::Consumer;
use crate::spec::Role;
use crate::target::maps;
use crate::trace::{MappedFile, Notice, Schema};
use std::time::{Duration, Instant};

/// Time between two looks while files are read.
const INTERVAL: Duration = Duration::from_millis(50);
/// Parts of files that are told of; libraries and a model are some hundreds.
const MOST: usize = 4096;

/// The files that were last seen mapped.
#[derive(Debug, Default)]
pub(super) struct MappedFiles {
    /// Types of the records that say that a part of a file was read.
    records: Vec<usize>,
    /// How many of them there were at the last look.
    seen: u64,
    looked: Option<Instant>,
    known: Vec<MappedFile>,
}

impl MappedFiles {
    /// For recordings of a schema: without such records nothing is looked at.
    pub(super) fn new(schema: &Schema) -> Self {
        let is_read = |role: Option<Role>| role == Some(Role::PageCache);
        let records = schema.records.iter().enumerate().filter(|(_, r)| is_read(r.role)).map(|(index, _)| index);
        Self { records: records.collect(), ..Self::default() }
    }

    /// Looks, where something was read since the last time, and writes down what has changed.
    pub(super) fn look(&mut self, process: i32, consumer: &Consumer) {
        let now: u64 = self.records.iter().map(|record| consumer.counts().of_type(*record)).sum();
        if now == self.seen || self.looked.is_some_and(|looked| looked.elapsed() < INTERVAL) {
            return;
        }
        self.looked = Some(Instant::now());
        // A process that has ended has nothing mapped, but had.
        let Some(files) = files_of(process).filter(|files| !files.is_empty()) else { return };
        self.seen = now;
        if files == self.known {
            return;
        }
        self.known.clone_from(&files);
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
