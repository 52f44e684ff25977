//! What the programs and the kernel count of records that are missing, asked for as seldom as serves: the map of counts is
//! read once it has changed, and a count of skipped runs takes a system call for each program.

use crate::bpf::Session;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The counts, as they were read last.
#[derive(Debug, Default)]
pub(super) struct KernelLosses {
    /// How often they had changed by then.
    changes: u64,
    /// By record type and kind, as [`Session::losses`].
    pub(super) counted: Vec<u64>,
    /// By record, as [`Session::recursions`].
    pub(super) skipped: BTreeMap<String, u64>,
    skipped_read: Option<Instant>,
}

impl KernelLosses {
    /// Reads what is new; skipped runs if what is stored of them is that old.
    pub(super) fn read(&mut self, session: &Session<'_>, at_most: Duration) {
        // Read first: what is counted meanwhile is new at the next reading.
        let changes = session.loss_changes();
        if changes != self.changes {
            self.changes = changes;
            self.counted = session.losses();
        }
        if self.skipped_read.is_none_or(|read| read.elapsed() >= at_most) {
            self.skipped_read = Some(Instant::now());
            self.skipped = session.recursions();
        }
    }
}
