//! Sites as they are attached: by open file, in groups of one program.

use crate::bpf::FileSite;
use profinfer_binary::{FileId, InspectedFile};
use profinfer_schema::Site;
use std::collections::BTreeMap;
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
