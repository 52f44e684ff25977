//! What the target has mapped, and the probes attached to it: at the start, and each time a process of the target has
//! mapped a library or runs another program.

use super::alike::{self, Alike};
use super::consumer::Consumer;
use super::process::state;
use super::sought::Sought;
use crate::bpf::{AttachMode, FailedSite, FileSite, Session};
use crate::diag::{Code, Diagnostic, Diagnostics, Severity};
use crate::path::NamePattern;
use crate::plan::{PlacedSite, Placement, ProbePlan, Tier, Unplaced};
use crate::spec::Part;
use crate::target::{DebugFolders, Files, ProcessTarget, Target};
use crate::trace::{Loss, LossKind, ModuleInfo, NO_SITE, Schema, Site};
use indexmap::IndexMap;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Instant;

/// The dynamic linker's function that is there for debuggers to stop in.
const LINKER_NOTICE: &str = "_dl_debug_state";
/// Sites that come and go are attached in groups of at most so many: one at a time takes the kernel milliseconds each.
const GROUP: usize = 256;
const SINGLE_GROUP: usize = 4;
/// Places that failed are named one by one up to this many.
const FAILURES_SHOWN: usize = 5;
/// Processes that are remembered before it is asked which of them have ended.
const MOST_TARGETS: usize = 64;

/// From a target to sites and values.
pub(super) type Placer<'a> = dyn Fn(&dyn Target) -> Result<(Placement, Diagnostics), Diagnostics> + 'a;

/// Device and inode: what the kernel attaches to.
type FileId = (u64, u64);

/// Sites of one program that come and go, attached at once.
#[derive(Debug)]
struct Group {
    program: usize,
    values: BTreeMap<String, u64>,
    path: PathBuf,
    sites: Vec<(Site, FileSite)>,
    attached: bool,
}

/// The probes of a recording on its target.
pub(super) struct Modules<'a> {
    plan: &'a ProbePlan,
    place: &'a Placer<'a>,
    /// The only process that probes fire in; `None` to have them fire in all, for the programs to pick.
    process: Option<i32>,
    debug_folders: &'a DebugFolders,
    targets: HashMap<i32, ProcessTarget>,
    most_targets: usize,
    alike: Alike,
    linkers: HashSet<FileId>,
    attached: HashSet<(usize, FileId, u64)>,
    files: Vec<ModuleInfo>,
    sites: u16,
    schema: Schema,
    not_attached: BTreeMap<String, u64>,
    /// What was looked for, and where.
    pub(super) sought: Sought<'a>,
    /// What placing said of each process the last time.
    said: HashMap<i32, Diagnostics>,
    problems: Diagnostics,
    /// Sites whose programs may come and go.
    groups: Vec<Group>,
    /// The last tier that is attached all the time; `None`: not even steps are.
    stays: Option<Tier>,
    detail_attached: bool,
    /// Somebody may be waited for.
    waiting_wanted: bool,
    /// Each site's program, and the cost of its trap.
    traps: Vec<(usize, Option<u32>)>,
}

impl<'a> Modules<'a> {
    pub(super) fn new(
        plan: &'a ProbePlan,
        place: &'a Placer<'a>,
        process: Option<i32>,
        debug_folders: &'a DebugFolders,
        sought: Sought<'a>,
    ) -> Self {
        Self {
            plan,
            place,
            process,
            debug_folders,
            targets: HashMap::new(),
            most_targets: MOST_TARGETS,
            alike: Alike::default(),
            linkers: HashSet::new(),
            attached: HashSet::new(),
            files: Vec::new(),
            sites: 0,
            schema: plan.schema.clone(),
            not_attached: BTreeMap::new(),
            sought,
            said: HashMap::new(),
            problems: Diagnostics::new(),
            groups: Vec::new(),
            stays: Some(Tier::Waiting),
            detail_attached: true,
            waiting_wanted: true,
            traps: Vec::new(),
        }
    }

    /// Has the probes of operators come and go, if they are to.
    pub(super) fn switching(self, switching: bool) -> Self {
        Self { stays: Some(if switching { Tier::Graph } else { Tier::Waiting }), ..self }
    }

    /// Whether there are sites of operators.
    pub(super) fn any_detail(&self) -> bool {
        self.groups.iter().any(|group| self.tier(group.program) == Tier::Detail)
    }

    /// Whether what is mapped from now on gets its probes of operators at once.
    pub(super) fn set_detail_attached(&mut self, attached: bool) {
        self.detail_attached = attached;
    }

    /// The last tier that is attached all the time.
    pub(super) fn stays(&self) -> Option<Tier> {
        self.stays
    }

    /// Has more come and go with operators, of which none are attached now.
    pub(super) fn set_stays(&mut self, stays: Option<Tier>, session: &mut Session<'_>) {
        self.stays = stays;
        let _ = self.detach(|modules, program| modules.switches(program), session);
    }

    /// Whether the boundaries that only say since when a lane waits are attached with the operators.
    pub(super) fn set_waiting_wanted(&mut self, wanted: bool) {
        self.waiting_wanted = wanted;
    }

    /// Whether there are such.
    pub(super) fn any_waiting(&self) -> bool {
        self.groups.iter().any(|group| group.attached && self.tier(group.program) == Tier::Waiting)
    }

    /// Attaches these boundaries, if operators are; gives how many sites.
    pub(super) fn attach_waiting(&mut self, session: &mut Session<'_>) -> usize {
        let is_one = |number: &usize| self.tier_of_group(*number) == Some(Tier::Waiting);
        let numbers: Vec<usize> = (0..self.groups.len()).filter(is_one).collect();
        let wanted = self.is_attached_now(Tier::Waiting);
        numbers.into_iter().filter(|_| wanted).map(|number| self.attach_one(number, session)).sum()
    }

    /// Detaches them, on a thread of its own; gives how many sites.
    pub(super) fn detach_waiting(&mut self, session: &mut Session<'_>) -> (JoinHandle<()>, usize) {
        self.detach(|modules, program| modules.tier(program) == Tier::Waiting, session)
    }

    /// Detaches what comes and goes, on a thread of its own; gives how many sites.
    pub(super) fn detach_detail(&mut self, session: &mut Session<'_>) -> (JoinHandle<()>, usize) {
        self.detail_attached = false;
        self.detach(|modules, program| modules.switches(program), session)
    }

    fn detach(&mut self, which: fn(&Self, usize) -> bool, session: &mut Session<'_>) -> (JoinHandle<()>, usize) {
        let wanted: BTreeSet<usize> =
            self.groups.iter().map(|group| group.program).filter(|program| which(self, *program)).collect();
        let mut sites = 0;
        for group in self.groups.iter_mut().filter(|group| group.attached && wanted.contains(&group.program)) {
            group.attached = false;
            sites += group.sites.len();
        }
        (session.detach_aside(&wanted), sites)
    }

    fn tier_of_group(&self, number: usize) -> Option<Tier> {
        Some(self.tier(self.groups.get(number)?.program))
    }

    /// Whether probes of a tier stay where others come and go. What describes objects that are made once always does:
    /// nobody would name them afterwards.
    fn remains(&self, tier: Tier) -> bool {
        tier == Tier::Always || Some(tier) <= self.stays
    }

    /// Whether what is mapped now gets probes of a tier at once.
    fn is_attached_now(&self, tier: Tier) -> bool {
        (self.detail_attached || self.remains(tier)) && (tier != Tier::Waiting || self.waiting_wanted)
    }

    fn tier(&self, program: usize) -> Tier {
        self.plan.programs.get(program).map_or(Tier::Step, |program| self.plan.tier(program))
    }

    /// Whether a program comes and goes.
    fn switches(&self, program: usize) -> bool {
        !self.remains(self.tier(program))
    }

    /// Attaches the sites of a group, if it is wanted now; gives how many. `None`: there are no more groups.
    pub(super) fn attach_group(&mut self, number: usize, session: &mut Session<'_>) -> Option<usize> {
        let tier = self.tier_of_group(number)?;
        Some(if self.is_attached_now(tier) { self.attach_one(number, session) } else { 0 })
    }

    fn attach_one(&mut self, number: usize, session: &mut Session<'_>) -> usize {
        let Some(group) = self.groups.get_mut(number).filter(|group| !group.attached) else { return 0 };
        group.attached = true;
        let places: Vec<FileSite> = group.sites.iter().map(|(_, place)| *place).collect();
        let failed = session.attach(group.program, &group.values, &group.path, self.process, &places);
        if !failed.is_empty() {
            let (path, sites) = (group.path.clone(), group.sites.clone());
            let sites: Vec<(&Site, FileSite)> = sites.iter().map(|(site, place)| (site, *place)).collect();
            self.account_failures(&path, &sites, &failed);
        }
        places.len()
    }

    /// The program of each site, and what its trap costs by the table.
    pub(super) fn trap_costs(&self) -> &[(usize, Option<u32>)] {
        &self.traps
    }

    /// Looks at what a process has mapped, and attaches what is not attached yet. `anew`: it runs another program.
    ///
    /// # Errors
    /// The target is not what the probeset expects, or the kernel does not take the programs.
    pub(super) fn look(
        &mut self,
        pid: i32,
        anew: bool,
        session: &mut Session<'_>,
        consumer: &Consumer,
    ) -> Result<(), Diagnostics> {
        if anew && self.process.is_some() && !self.attached.is_empty() {
            // Probes of one process are the kernel's first thread's, which another one may have taken the place of.
            session.detach_files();
            self.attached.clear();
            self.linkers.clear();
            self.groups.clear();
            self.alike.clear();
        }
        self.forget_ended();
        let files = alike::files_of(pid);
        if self.alike.is_known(files.as_ref()) {
            if anew {
                self.targets.remove(&pid);
            }
            self.sought.passed(pid.cast_unsigned());
            return Ok(());
        }
        let Some(target) = self.refresh(pid, anew).inspect_err(|_| {
            self.targets.remove(&pid);
        })?
        else {
            return Ok(());
        };
        if let Err(problem) = self.watch_linker(&target, session) {
            self.problems.push(problem);
        }
        let placed = (self.place)(&target);
        self.sought.looked(&target, placed.as_ref().ok().map(|(placement, _)| placement));
        self.targets.insert(pid, target);
        let (placement, said) = placed?;
        self.sought.warned(&said);
        self.said.insert(pid, said);
        if let Some(refusal) = self.refusal(&placement) {
            return Err(refusal);
        }
        let known = &self.schema.enums;
        let new = placement.enums.iter().filter(|(name, constants)| known.get(*name) != Some(*constants));
        let new: IndexMap<_, _> = new.map(|(name, constants)| (name.clone(), constants.clone())).collect();
        self.schema.enums.extend(new.clone());
        consumer.set_enums(&self.schema, &new);
        self.attach(&placement, session, consumer)?;
        self.alike.add(files);
        Ok(())
    }

    /// Forgets processes that have ended, now and then: shells make thousands.
    fn forget_ended(&mut self) {
        if self.targets.len() >= self.most_targets {
            self.targets.retain(|pid, _| state(*pid).is_some_and(|state| state != 'Z'));
            self.most_targets = MOST_TARGETS.max(2 * self.targets.len());
        }
    }

    /// The target of a process, if it has files that were not there at the last look.
    fn refresh(&mut self, pid: i32, anew: bool) -> Result<Option<ProcessTarget>, Diagnostic> {
        match self.targets.remove(&pid).filter(|_| !anew) {
            None => {
                let files = Files::with_user_cache().with_debug_folders(self.debug_folders.clone());
                ProcessTarget::open_with(pid.cast_unsigned(), files).map(Some)
            }
            Some(mut target) => {
                if target.refresh()?.is_empty() {
                    self.targets.insert(pid, target);
                    return Ok(None);
                }
                Ok(Some(target))
            }
        }
    }

    /// Has the dynamic linker tell when it has mapped something.
    fn watch_linker(&mut self, target: &ProcessTarget, session: &mut Session<'_>) -> Result<(), Diagnostic> {
        let Some(number) = target.dynamic_linker() else { return Ok(()) };
        let Some(file) = target.files().get(number) else { return Ok(()) };
        let unseen = file_id(&file.path).is_none_or(|id| self.linkers.insert(id));
        if !unseen {
            return Ok(());
        }
        let failed = |reason: &str| {
            let message = format!("libraries mapped later will not be probed: {reason}");
            Diagnostic::warning(Code::AttachFailed, message).with_note(file.path.display().to_string())
        };
        let found = target.functions(number, &NamePattern(LINKER_NOTICE.to_owned()));
        let function = found.first().ok_or_else(|| failed("the dynamic linker has no `_dl_debug_state`"))?;
        session.attach_linker(&file.path, self.process, function.file_offset).map_err(|reason| failed(&reason))
    }

    fn attach(
        &mut self,
        placement: &Placement,
        session: &mut Session<'_>,
        consumer: &Consumer,
    ) -> Result<(), Diagnostics> {
        let new = self.new_sites(placement);
        if new.is_empty() {
            return Ok(());
        }
        self.detach_replaced(placement, session);
        let values: BTreeMap<String, u64> =
            placement.values.iter().map(|value| (value.symbol.clone(), value.value)).collect();
        let started = Instant::now();
        let known = self.files.len();
        let sites: Vec<Site> = new.iter().filter_map(|site| self.number(site.placed, placement)).collect();
        consumer.add_sites(self.files.get(known..).unwrap_or_default(), &sites);
        let mut by_values: BTreeMap<BTreeMap<String, u64>, Vec<(&Site, &NewSite<'_>)>> = BTreeMap::new();
        for (site, new) in sites.iter().zip(&new) {
            self.traps.push((new.placed.program, new.placed.cost_ns));
            let mut own_values = new.placed.values.clone();
            own_values.extend(session.constant_of_site(new.cookie(site.id)));
            by_values.entry(own_values).or_default().push((site, new));
            self.attached.insert((new.placed.program, new.file, site.file_offset));
        }
        for (own_values, sites) in by_values {
            let mut values = values.clone();
            values.extend(own_values);
            session.load(&sites.iter().map(|(_, new)| new.placed.program).collect(), &values)?;
            self.attach_with(&values, &sites, session);
        }
        session.enable();
        let ms = started.elapsed().as_secs_f64() * 1e3;
        consumer.notice(format!("attached {} sites in {ms:.1} ms, their programs loaded", sites.len()));
        Ok(())
    }

    /// Attaches sites whose programs were loaded with these constants.
    fn attach_with(
        &mut self,
        values: &BTreeMap<String, u64>,
        sites: &[(&Site, &NewSite<'_>)],
        session: &mut Session<'_>,
    ) {
        let mut groups: BTreeMap<(usize, &Path), Vec<(&Site, FileSite)>> = BTreeMap::new();
        for (site, new) in sites {
            let cookie = new.cookie(site.id);
            // Old kernels refuse any cookie but none.
            let cookie = session.constant_of_site(cookie).map_or(cookie, |_| 0);
            let place = FileSite { file_offset: site.file_offset, cookie, semaphore: new.placed.semaphore };
            groups.entry((new.placed.program, &new.placed.path)).or_default().push((site, place));
        }
        for ((program, path), sites) in groups {
            let attached = self.is_attached_now(self.tier(program));
            self.keep_groups(program, values, path, &sites, (session.mode(), attached));
            if !attached {
                continue;
            }
            let places: Vec<FileSite> = sites.iter().map(|(_, place)| *place).collect();
            let failed = session.attach(program, values, path, self.process, &places);
            self.account_failures(path, &sites, &failed);
        }
    }

    /// Keeps what may have to be attached again.
    fn keep_groups(
        &mut self,
        program: usize,
        values: &BTreeMap<String, u64>,
        path: &Path,
        sites: &[(&Site, FileSite)],
        (mode, attached): (AttachMode, bool),
    ) {
        let most = if mode == AttachMode::Single { SINGLE_GROUP } else { GROUP };
        self.groups.extend(sites.chunks(most).map(|sites| Group {
            program,
            values: values.clone(),
            path: path.to_owned(),
            sites: sites.iter().map(|(site, place)| ((*site).clone(), *place)).collect(),
            attached,
        }));
    }

    /// A probe is at one of its alternatives: one that was attached for want of a better goes when that is mapped.
    fn detach_replaced(&mut self, placement: &Placement, session: &mut Session<'_>) {
        let root = |program: usize| self.plan.programs.get(program).and_then(|p| p.probes.first());
        let placed: BTreeSet<usize> = placement.sites.iter().map(|site| site.program).collect();
        let is_replaced =
            |program: usize| !placed.contains(&program) && placed.iter().any(|other| root(*other) == root(program));
        let replaced: BTreeSet<usize> =
            self.attached.iter().map(|(program, ..)| *program).filter(|program| is_replaced(*program)).collect();
        if !replaced.is_empty() {
            session.detach_programs(&replaced);
            self.groups.retain(|group| !replaced.contains(&group.program));
            self.attached.retain(|(program, ..)| !replaced.contains(program));
        }
    }

    /// Sites that are not attached yet.
    fn new_sites<'p>(&self, placement: &'p Placement) -> Vec<NewSite<'p>> {
        let room = usize::from(NO_SITE - self.sites);
        let mut ids: HashMap<&Path, Option<FileId>> = HashMap::new();
        let sites = placement.sites.iter().filter_map(|placed| {
            let file = (*ids.entry(&placed.path).or_insert_with(|| file_id(&placed.path)))?;
            let unseen = !self.attached.contains(&(placed.program, file, placed.site.file_offset));
            unseen.then_some(NewSite { placed, file })
        });
        sites.take(room).collect()
    }

    /// A site as the whole recording numbers it and its module.
    fn number(&mut self, placed: &PlacedSite, placement: &Placement) -> Option<Site> {
        let module = placement.modules.get(placed.site.module)?;
        let known = self.files.iter().position(|file| file == module);
        let module = known.unwrap_or_else(|| {
            self.files.push(module.clone());
            self.files.len() - 1
        });
        let site = Site { id: self.sites, module, ..placed.site.clone() };
        self.sites += 1;
        Some(site)
    }

    fn account_failures(&mut self, path: &Path, sites: &[(&Site, FileSite)], failed: &[FailedSite]) {
        for (shown, failure) in failed.iter().enumerate() {
            let Some((site, _)) = sites.iter().find(|(_, place)| *place == failure.site) else { continue };
            for probe in &site.probes {
                *self.not_attached.entry(probe.clone()).or_default() += 1;
            }
            if shown < FAILURES_SHOWN {
                let message = format!("`{}` could not be attached: {}", site.function, failure.reason);
                let place = format!("{} at file offset {:#x}", path.display(), site.file_offset);
                self.problems.push(Diagnostic::warning(Code::AttachFailed, message).with_note(place));
            }
        }
    }

    /// Why the recording cannot go on: a probe that must have a site has none, though its module is mapped.
    fn refusal(&self, placement: &Placement) -> Option<Diagnostics> {
        let is_mapped = |probe: &str| {
            let programs = self.plan.programs.iter().filter(|program| program.probes.iter().any(|name| name == probe));
            let mut modules = programs.filter_map(|program| Some(&program.place.module()?.value));
            modules.any(|name| placement.modules.iter().any(|module| module.name.split(", ").any(|one| one == name)))
        };
        let for_good = |probe: &&Unplaced| match probe.problem.code {
            _ if !probe.required || probe.problem.severity != Severity::Error => false,
            Code::ModuleNotFound => false,
            Code::GroupNotAttached => is_mapped(&probe.probe),
            _ => true,
        };
        let problems = placement.unplaced.iter().filter(for_good).map(|probe| probe.problem.clone());
        let problems = Diagnostics(problems.collect());
        problems.has_errors().then_some(problems)
    }

    /// Keeps what went wrong without ending the recording.
    pub(super) fn add_problems(&mut self, problems: Diagnostics) {
        self.problems.0.extend(problems.0);
    }

    /// Sites that could not be attached, by record.
    pub(super) fn losses(&self) -> impl Iterator<Item = Loss> {
        let loss = |(record, count): (&String, &u64)| Loss {
            record: record.clone(),
            kind: LossKind::NotAttached,
            count: *count,
        };
        self.not_attached.iter().map(loss)
    }

    /// How many sites there are.
    pub(super) fn sites(&self) -> u16 {
        self.sites
    }

    /// Whether any probe has a site.
    pub(super) fn any_site(&self) -> bool {
        self.sites > 0
    }

    /// Which of several engines have a site, by name.
    pub(super) fn engines(&self, parts: &[Part]) -> Vec<String> {
        let probes =
            || self.attached.iter().filter_map(|(program, ..)| self.plan.programs.get(*program)?.probes.first());
        let is_there = |part: &&Part| probes().any(|probe| part.own(probe).is_some());
        parts.iter().filter(is_there).map(|part| part.engine.clone()).collect()
    }

    /// Everything that went wrong without ending the recording.
    pub(super) fn take_problems(&mut self) -> Diagnostics {
        let mut problems = std::mem::take(&mut self.problems);
        for problem in self.said.drain().flat_map(|(_, said)| said.0) {
            if !problems.0.contains(&problem) {
                problems.push(problem);
            }
        }
        problems
    }
}

struct NewSite<'p> {
    placed: &'p PlacedSite,
    file: FileId,
}

impl NewSite<'_> {
    /// What the program is told at this site.
    fn cookie(&self, site: u16) -> u64 {
        self.placed.cookie & !0xffff | u64::from(site)
    }
}

fn file_id(path: &Path) -> Option<FileId> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}
