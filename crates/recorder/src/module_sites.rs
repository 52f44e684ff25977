//! Sites as they are attached: by open file, in groups of one program.

use crate::bpf::{FailedSite, FileSite};
use profinfer_binary::{FileId, InspectedFile};
use profinfer_schema::Site;
use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

/// A file that has probes: it stays open, so that they go to it and to no other.
#[derive(Debug)]
pub(super) struct ModuleFile {
    pub(super) file: Arc<InspectedFile>,
    pub(super) path: PathBuf,
}

/// A site, and the bytes that were there when it was chosen.
#[derive(Debug)]
pub(super) struct InspectedSite {
    pub(super) site: Site,
    pub(super) place: FileSite,
    pub(super) code: Vec<u8>,
}

/// Sites of one program in one file.
#[derive(Debug, Clone)]
pub(super) struct ProgramSites {
    pub(super) program: usize,
    pub(super) values: Arc<BTreeMap<String, u64>>,
    pub(super) module: Arc<ModuleFile>,
    pub(super) sites: Arc<[InspectedSite]>,
}

/// A group of these sites that are attached again at once.
#[derive(Debug, Clone)]
pub(super) struct Group {
    pub(super) of: ProgramSites,
    pub(super) range: Range<usize>,
    pub(super) attached: bool,
}

impl Group {
    pub(super) fn sites(&self) -> &[InspectedSite] {
        self.of.sites.get(self.range.clone()).unwrap_or_default()
    }

    pub(super) fn file(&self) -> FileId {
        self.of.module.file.id()
    }
}

/// Places of programs that could not be attached. With a budget, attaching is tried again in each window.
#[derive(Debug, Default)]
pub(super) struct FailedSites(HashSet<(usize, FileId, u64)>);

impl FailedSites {
    /// Adds a program's places in a file: gives those that had not failed before.
    pub(super) fn add<'f>(&mut self, program: usize, file: FileId, failed: &'f [FailedSite]) -> Vec<&'f FailedSite> {
        failed.iter().filter(|failure| self.0.insert((program, file, failure.site.file_offset))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_fails_in_each_window_fails_once() {
        let failed = [5, 9].map(|file_offset| FailedSite {
            site: FileSite { file_offset, cookie: 0, semaphore: None },
            reason: "refused".to_owned(),
        });
        let mut all = FailedSites::default();
        assert_eq!(all.add(0, (1, 2), &failed[..1]), [&failed[0]]);
        assert_eq!(all.add(0, (1, 2), &failed), [&failed[1]]);
        assert_eq!(all.add(0, (1, 2), &failed), [] as [&FailedSite; 0]);
        assert_eq!(
            all.add(0, (1, 3), &failed).len() + all.add(1, (1, 2), &failed).len(),
            4,
            "another file, another program"
        );
    }
}
