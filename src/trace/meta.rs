//! What a trace says beside its records, gathered while it is read.

use super::format::{MAX_KEPT, MAX_MODULES};
use super::schema::{End, Loss, ModuleInfo, NO_SITE, Notice, Origin, Schema, Site};
use crate::diag::{Code, Diagnostic, Diagnostics};
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};

/// Problems that are kept; a damaged trace may have one in every frame.
const MAX_PROBLEMS: usize = 32;

/// Constants by enumeration, as in [`Schema::enums`].
type Enums = IndexMap<String, BTreeMap<i64, String>>;

/// Modules and sites that became known together: the payload of a sites frame.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct SitesFrame {
    /// The number of the first of `modules`: how many there were before.
    pub(super) first_module: usize,
    /// Further modules.
    pub(super) modules: Vec<ModuleInfo>,
    /// Further sites.
    pub(super) sites: Vec<Site>,
    /// Enumerations that only these modules' debug information has.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub(super) enums: Enums,
}

/// What a trace says beside its records, as far as it has been read.
#[derive(Debug, Clone, Default)]
pub struct Meta {
    /// The file's format version.
    pub version: u32,
    /// Where the trace comes from.
    pub origin: Origin,
    /// Its record types; enumerations of libraries that were mapped later are added as they come.
    pub schema: Schema,
    /// The binaries that were probed, numbered as in sites.
    pub modules: Vec<ModuleInfo>,
    /// The sites, in the order they became known.
    pub sites: Vec<Site>,
    /// The losses up to the last time they were written.
    pub losses: Vec<Loss>,
    /// What changed while recording.
    pub notices: Vec<Notice>,
    /// How the recording ended; `None` where the trace is cut, or not yet read to its end.
    pub end: Option<End>,
    /// Records read, but for those of other engines than the one that is wanted.
    pub records: u64,
    /// What is wrong with the file.
    pub problems: Diagnostics,
    /// Where each site is in `sites`, by its number.
    site_index: HashMap<u16, usize>,
    /// Bytes of the payloads of which everything is kept.
    kept: usize,
    /// Problems beyond those kept.
    unkept: usize,
}

impl Meta {
    /// Of a trace of which nothing has been read.
    pub(super) fn of_version(version: u32) -> Self {
        Self { version, ..Self::default() }
    }

    /// The site of that number.
    pub fn site(&self, id: u16) -> Option<&Site> {
        if id == NO_SITE {
            return None;
        }
        // Sites are numbered as they come, unless a damaged frame is missing.
        match self.sites.get(usize::from(id)) {
            Some(site) if site.id == id => Some(site),
            _ => self.site_index.get(&id).and_then(|index| self.sites.get(*index)),
        }
    }

    /// The module that a site is in.
    pub fn module_of(&self, site: &Site) -> Option<&ModuleInfo> {
        self.modules.get(site.module)
    }

    /// How many of the type's records were lost or are incomplete, so far as is known, for each reason.
    pub fn losses_of<'a>(&'a self, record: &'a str) -> impl Iterator<Item = &'a Loss> {
        self.losses.iter().filter(move |loss| loss.record == record)
    }

    /// Keeps a problem, of which a damaged file may have millions.
    pub(super) fn problem(&mut self, problem: Diagnostic) {
        if self.problems.0.len() < MAX_PROBLEMS {
            self.problems.push(problem);
            return;
        }
        self.unkept += 1;
        let more = Diagnostic::error(Code::TraceCorrupt, format!("{} further problems in this trace", self.unkept));
        self.problems.0.truncate(MAX_PROBLEMS);
        self.problems.push(more);
    }

    /// Appends modules and sites; gives how many of each there were before.
    pub(super) fn add_sites(&mut self, frame: SitesFrame) -> Result<(usize, usize), String> {
        let modules = frame.first_module.saturating_add(frame.modules.len());
        if frame.first_module < self.modules.len() || modules > MAX_MODULES {
            return Err("its modules are not numbered as they must be".into());
        }
        // Those of a frame that was damaged: later ones must keep their numbers.
        let unknown = ModuleInfo { name: "?".into(), path: "?".into(), build_id: None, size: 0 };
        self.modules.resize(frame.first_module, unknown);
        let before = (self.modules.len(), self.sites.len());
        self.modules.extend(frame.modules);
        self.schema.enums.extend(frame.enums);
        for site in frame.sites {
            if site.id == NO_SITE || self.site_index.contains_key(&site.id) {
                return Err(format!("it gives site {} again", site.id));
            }
            self.site_index.insert(site.id, self.sites.len());
            self.sites.push(site);
        }
        Ok(before)
    }

    /// Counts what is kept of a payload; small compressed frames can be large ones.
    pub(super) fn keep(&mut self, bytes: usize) -> Result<(), String> {
        self.kept += bytes;
        if self.kept > MAX_KEPT {
            Err(format!("there are more than {MAX_KEPT} bytes of sites and notices"))
        } else {
            Ok(())
        }
    }
}
