//! A trace's metadata, gathered while it is read.

use super::format::{MAX_MODULES, MAX_NOTICES, MAX_STORED, NOTICE_BYTES};
use super::part::resolve;
use indexmap::IndexMap;
use profinfer_diagnostics::{Code, Diagnostic, Diagnostics};
use profinfer_schema::{
    CpuFrequency, End, EngineId, KernelFunction, Loss, ModuleInfo, NO_SITE, Notice, Origin, SampledModule, Sampling,
    Schema, Site,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};

/// The maximum number of problems; a damaged trace may have one in every frame.
const MAX_PROBLEMS: usize = 32;

/// Constants by enumeration, as in [`Schema::enums`].
type Enums = IndexMap<String, BTreeMap<i64, String>>;

/// Modules and sites that were added together: the payload of a sites frame.
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

/// The metadata of a trace, as far as it has been read.
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
    /// The sites, in the order of their frames.
    pub sites: Vec<Site>,
    /// The losses up to the last time they were written.
    pub losses: Vec<Loss>,
    /// What changed while recording: of each notice what is read afterwards, which `mapped` and `overhead` are not.
    pub notices: Vec<Notice>,
    /// How the target was sampled; `None` where it was not.
    pub sampling: Option<Sampling>,
    /// Timer samples read.
    pub samples: u64,
    /// How the recording ended; `None` where the trace is cut, or not yet read to its end.
    pub end: Option<End>,
    /// Records read, but for those of other engines than the one that is wanted.
    pub records: u64,
    /// What is wrong with the file.
    pub problems: Diagnostics,
    /// Where each site is in `sites`, by its number.
    site_index: HashMap<u16, usize>,
    /// Bytes of sites, of what samples refer to, and of notices that are stored.
    stored_sites: usize,
    stored_sampling: usize,
    stored_notices: usize,
    /// There were more notices than are stored.
    has_more_notices: bool,
    /// Problems beyond the maximum.
    dropped: usize,
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

    /// How many of the type's records were lost or are incomplete, for each reason.
    pub fn losses_of<'a>(&'a self, record: &'a str) -> impl Iterator<Item = &'a Loss> {
        self.losses.iter().filter(move |loss| loss.record == record)
    }

    /// Keeps a problem, of which a damaged file may have millions.
    pub(super) fn problem(&mut self, problem: Diagnostic) {
        if self.problems.0.len() < MAX_PROBLEMS {
            self.problems.push(problem);
            return;
        }
        self.dropped += 1;
        let more = Diagnostic::error(Code::TraceCorrupt, format!("{} further problems in this trace", self.dropped));
        self.problems.0.truncate(MAX_PROBLEMS);
        self.problems.push(more);
    }

    /// The engine that a probe belongs to, where several were recorded together.
    pub fn engine_of(&self, probe: &str) -> Option<EngineId> {
        resolve(&self.schema.names, &self.origin.parts, probe).map(|(engine, _)| engine)
    }

    /// Appends modules and sites; gives how many of each there were before.
    pub(super) fn add_sites(&mut self, frame: SitesFrame) -> Result<(usize, usize), String> {
        let modules = frame.first_module.saturating_add(frame.modules.len());
        if frame.first_module < self.modules.len() || modules > MAX_MODULES {
            return Err("its modules are not numbered consecutively".into());
        }
        // Those of a frame that was damaged: later ones must keep their numbers.
        let unknown = ModuleInfo { name: "?".into(), path: "?".into(), build_id: None, size: 0 };
        self.modules.resize(frame.first_module, unknown);
        let before = (self.modules.len(), self.sites.len());
        self.modules.extend(frame.modules);
        self.schema.enums.extend(frame.enums);
        for site in frame.sites {
            if site.id == NO_SITE || self.site_index.contains_key(&site.id) {
                return Err(format!("it repeats site {}", site.id));
            }
            self.site_index.insert(site.id, self.sites.len());
            self.sites.push(site);
        }
        Ok(before)
    }

    /// Appends what samples refer to.
    pub(super) fn add_sampling(&mut self, news: Sampling) -> Result<(), String> {
        let all = self.sampling.get_or_insert_default();
        let modules = news.first_module.saturating_add(news.modules.len());
        if news.first_module < all.modules.len() || modules > MAX_MODULES {
            return Err("its modules are not numbered consecutively".into());
        }
        // A frame that only counts stores nothing: there may be one each second.
        let of_modules = news.modules.iter().map(|module| size_of::<SampledModule>() + module.path.len());
        let of_kernel = news.kernel.iter().map(|function| size_of::<KernelFunction>() + function.name.len());
        store(&mut self.stored_sampling, of_modules.chain(of_kernel).sum(), "what samples refer to exceeds")?;
        let (mut modules, mut kernel) = (std::mem::take(&mut all.modules), std::mem::take(&mut all.kernel));
        // Those of a frame that was damaged: later ones must keep their numbers.
        modules.resize(news.first_module, SampledModule { path: "?".into(), ..SampledModule::default() });
        modules.extend(news.modules);
        kernel.extend(news.kernel);
        *all = Sampling { first_module: 0, modules, kernel, ..news };
        Ok(())
    }

    /// Counts the stored bytes of a payload of sites; small compressed frames can be large ones.
    pub(super) fn count_sites(&mut self, bytes: usize) -> Result<(), String> {
        store(&mut self.stored_sites, bytes, "sites exceed")
    }

    /// Stores a notice, and only the last so many; without such a number, as many as there is space for.
    pub(super) fn remember(&mut self, notice: &Notice, last: Option<usize>) {
        let Some(bytes) = remembered(notice) else { return };
        match last {
            Some(last) => {
                let old = (self.notices.len() + 1).saturating_sub(last);
                self.notices.drain(..old);
            }
            None if self.stored_notices + bytes <= MAX_NOTICES => self.stored_notices += bytes,
            None if self.has_more_notices => return,
            None => {
                self.has_more_notices = true;
                let after = notice.time.saturating_sub(self.origin.monotonic_ns) / 1_000_000_000;
                let message = format!("the trace has more than {MAX_NOTICES} bytes of notices");
                let hint =
                    format!("what they tell of the time after {after} s is missing: resources, frequencies, windows");
                return self.problem(Diagnostic::warning(Code::TraceCorrupt, message).hint(hint));
            }
        }
        self.notices.push(Notice {
            time: notice.time,
            text: notice.text.clone(),
            detail: notice.detail,
            waiting: notice.waiting,
            mapped: None,
            frequencies: notice.frequencies.clone(),
            pressure: notice.pressure,
            overhead: None,
        });
    }
}

/// Bytes that a notice counts for where it is stored; `None`: nothing of it is.
pub(super) fn remembered(notice: &Notice) -> Option<usize> {
    let Notice { text, detail, waiting, frequencies, pressure, .. } = notice;
    let is_nothing =
        text.is_empty() && detail.is_none() && waiting.is_none() && frequencies.is_none() && pressure.is_none();
    let frequencies = frequencies.as_ref().map_or(0, |of| of.len() * size_of::<CpuFrequency>());
    (!is_nothing).then_some(NOTICE_BYTES + text.len() + frequencies)
}

/// Counts bytes that are to be stored; what is refused does not count.
fn store(stored: &mut usize, bytes: usize, what: &str) -> Result<(), String> {
    let sum = stored.saturating_add(bytes);
    if sum > MAX_STORED {
        return Err(format!("{what} {MAX_STORED} bytes"));
    }
    *stored = sum;
    Ok(())
}
