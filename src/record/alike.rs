//! Processes that have the same files mapped: shells start the same few programs over and over, and what was looked for in
//! a set of files need not be looked for in it again.

use crate::target::maps;
use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;

/// Sets that are remembered.
const MOST: usize = 1024;

/// A file as it is now: inode numbers are used again.
type FileNow = (u64, u64, u64, i64, i64);

/// Sets of files that were looked at.
#[derive(Debug, Default)]
pub(super) struct Alike {
    known: HashSet<Vec<FileNow>>,
}

impl Alike {
    /// Whether this set was looked at.
    pub(super) fn is_known(&self, files: Option<&Vec<FileNow>>) -> bool {
        files.is_some_and(|files| self.known.contains(files))
    }

    /// This set was looked at.
    pub(super) fn add(&mut self, files: Option<Vec<FileNow>>) {
        if self.known.len() < MOST {
            self.known.extend(files);
        }
    }

    /// What is attached is attached no more.
    pub(super) fn clear(&mut self) {
        self.known.clear();
    }
}

/// The files that a process has mapped as code; `None` where one of them cannot be told from others.
pub(super) fn files_of(pid: i32) -> Option<Vec<FileNow>> {
    let text = std::fs::read(format!("/proc/{pid}/maps")).ok()?;
    let file = |mapping: maps::Mapping| {
        let path = mapping.path.strip_prefix("/").ok()?;
        let file = std::fs::metadata(format!("/proc/{pid}/root/{}", path.display())).ok()?;
        let is_it = !mapping.deleted && file.ino() == mapping.inode;
        is_it.then(|| (file.dev(), file.ino(), file.size(), file.ctime(), file.ctime_nsec()))
    };
    let mut files: Vec<FileNow> =
        maps::parse(&text).filter(|mapping| mapping.executable).map(file).collect::<Option<_>>()?;
    files.sort_unstable();
    files.dedup();
    Some(files).filter(|files| !files.is_empty())
}
