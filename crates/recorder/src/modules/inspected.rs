//! The processes that were inspected, and what was read of the files that they have mapped.

use crate::process::has_ended;
use profinfer_binary::{DebugFolders, FileStore, Files, ProcessTarget};
use profinfer_diagnostics::Diagnostic;
use std::collections::HashMap;

/// Processes that are remembered before it is asked which of them have ended.
const MOST_PROCESSES: usize = 64;

/// Processes by number.
pub(super) struct InspectedProcesses<'a> {
    debug_folders: &'a DebugFolders,
    store: FileStore,
    processes: HashMap<i32, ProcessTarget>,
    most: usize,
    inspections: u64,
}

impl<'a> InspectedProcesses<'a> {
    pub(super) fn new(debug_folders: &'a DebugFolders) -> Self {
        let (store, processes) = (FileStore::default(), HashMap::new());
        Self { debug_folders, store, processes, most: MOST_PROCESSES, inspections: 0 }
    }

    /// Whether it is time to [forget those that have ended](Self::forget_ended).
    pub(super) fn are_many(&self) -> bool {
        self.processes.len() >= self.most
    }

    /// Forgets processes that have ended: shells make thousands.
    pub(super) fn forget_ended(&mut self) {
        self.processes.retain(|pid, _| !has_ended(*pid));
        self.most = MOST_PROCESSES.max(2 * self.processes.len());
    }

    /// Whether a process that was inspected before is mapping files just now.
    pub(super) fn is_mapping_files(&self, pid: i32) -> bool {
        self.processes.get(&pid).is_some_and(ProcessTarget::is_mapping_files)
    }

    /// Takes a process, if it has files that were not there at the last inspection.
    pub(super) fn refresh(&mut self, pid: i32, anew: bool) -> Result<Option<ProcessTarget>, Diagnostic> {
        self.inspections += 1;
        match self.processes.remove(&pid).filter(|_| !anew) {
            None => {
                let files = Files::with_user_cache().with_debug_folders(self.debug_folders.clone());
                ProcessTarget::open_stored(pid.cast_unsigned(), files, self.store.clone()).map(Some)
            }
            Some(mut process) => {
                if process.refresh()?.is_empty() {
                    self.insert(pid, process);
                    return Ok(None);
                }
                Ok(Some(process))
            }
        }
    }

    /// Puts one back.
    pub(super) fn insert(&mut self, pid: i32, process: ProcessTarget) {
        self.processes.insert(pid, process);
    }

    /// How often a process was inspected.
    pub(super) fn inspections(&self) -> u64 {
        self.inspections
    }

    /// Forgets what was read of files: probes have been placed.
    pub(super) fn forget_contents(&mut self) {
        self.store.forget_contents(self.processes.values_mut());
    }
}
