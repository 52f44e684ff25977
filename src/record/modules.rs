//! What the target has mapped, and the probes attached to it: at the start, and each time a process of the target has
//! mapped a library or runs another program.

use super::alike::{self, Alike};
use super::consumer::Consumer;
use super::file_watch::FileWatch;
use super::process::state;
use super::sought::Sought;
use crate::bpf::{AttachMode, FailedSite, FileSite, ProbedFile, Session};
use crate::diag::{Code, Diagnostic, Diagnostics, Severity};
use crate::path::NamePattern;
use crate::plan::{PlacedSite, Placement, ProbePlan, Tier, Unplaced};
use crate::spec::Part;
use crate::target::{DebugFolders, FileId, FileStore, Files, InspectedFile, ProcessTarget, Target, mapped_by_anyone};
use crate::trace::{Loss, LossKind, ModuleInfo, NO_SITE, Schema, Site};
use indexmap::IndexMap;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

/// The dynamic linker's function that is there for debuggers to stop in.
const LINKER_NOTICE: &str = "_dl_debug_state";
/// Sites that come and go are attached in groups of at most so many: one at a time takes the kernel milliseconds each.
const GROUP: usize = 256;
const SINGLE_GROUP: usize = 4;
/// Deleted files that keep their probes without anybody being asked who runs them.
const MOST_DELETED: usize = 32;
/// Places that failed are named one by one up to this many.
const FAILURES_SHOWN: usize = 5;
/// Processes that are remembered before it is asked which of them have ended.
const MOST_TARGETS: usize = 64;

/// From a target to sites and values.
pub(super) type Placer<'a> = dyn Fn(&dyn Target) -> Result<(Placement, Diagnostics), Diagnostics> + 'a;

/// Bytes at a site that must be what they were when it was chosen.
const CODE: usize = 16;

/// A file that has probes: it stays open, so that they go to it and to no other.
#[derive(Debug)]
struct ModuleFile {
    file: Arc<InspectedFile>,
    path: PathBuf,
}

/// A site, and the bytes that were there when it was chosen.
#[derive(Debug)]
struct InspectedSite {
    site: Site,
    place: FileSite,
    code: Vec<u8>,
}

/// Sites of one program that come and go, attached at once.
#[derive(Debug, Clone)]
struct Group {
    program: usize,
    values: Arc<BTreeMap<String, u64>>,
    module: Arc<ModuleFile>,
    sites: Arc<[InspectedSite]>,
    attached: bool,
}

/// The probes of a recording on its target.
pub(super) struct Modules<'a> {
    plan: &'a ProbePlan,
    place: &'a Placer<'a>,
    /// The only process that probes fire in; `None` to have them fire in all, for the programs to pick.
    process: Option<i32>,
    debug_folders: &'a DebugFolders,
    store: FileStore,
    targets: HashMap<i32, ProcessTarget>,
    most_targets: usize,
    alike: Alike,
    linkers: HashMap<FileId, Arc<InspectedFile>>,
    watch: FileWatch,
    /// Files that were written to since they were inspected: nothing is attached to them any more.
    overwritten: HashMap<FileId, Arc<ModuleFile>>,
    /// Sentences for the trace.
    notices: Vec<String>,
    attached: HashSet<(usize, FileId, u64)>,
    files: Vec<ModuleInfo>,
    sites: u16,
    schema: Schema,
    /// The constants of what each process has mapped.
    enums_of: HashMap<i32, IndexMap<String, BTreeMap<i64, String>>>,
    not_attached: BTreeMap<String, u64>,
    /// What was looked for, and where.
    pub(super) sought: Sought<'a>,
    /// What placing said of each process the last time.
    said: HashMap<i32, Diagnostics>,
    problems: Diagnostics,
    /// Sites whose programs may come and go; each keeps its number when others are given up.
    groups: Vec<Option<Group>>,
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
            store: FileStore::default(),
            targets: HashMap::new(),
            most_targets: MOST_TARGETS,
            alike: Alike::default(),
            linkers: HashMap::new(),
            watch: FileWatch::new(),
            overwritten: HashMap::new(),
            notices: Vec::new(),
            attached: HashSet::new(),
            files: Vec::new(),
            sites: 0,
            schema: plan.schema.clone(),
            enums_of: HashMap::new(),
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
        self.groups.iter().flatten().any(|group| self.tier(group.program) == Tier::Detail)
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
        self.groups.iter().flatten().any(|group| group.attached && self.tier(group.program) == Tier::Waiting)
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
            self.groups.iter().flatten().map(|group| group.program).filter(|program| which(self, *program)).collect();
        let mut sites = 0;
        for group in self.groups.iter_mut().flatten().filter(|group| group.attached && wanted.contains(&group.program))
        {
            group.attached = false;
            sites += group.sites.len();
        }
        (session.detach_aside(&wanted), sites)
    }

    fn tier_of_group(&self, number: usize) -> Option<Tier> {
        Some(self.tier(self.groups.get(number)?.as_ref()?.program))
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
        let group = self.groups.get(number)?;
        let tier = group.as_ref().map(|group| self.tier(group.program));
        let is_wanted = tier.is_some_and(|tier| self.is_attached_now(tier));
        Some(if is_wanted { self.attach_one(number, session) } else { 0 })
    }

    fn attach_one(&mut self, number: usize, session: &mut Session<'_>) -> usize {
        let group = self.groups.get_mut(number).and_then(Option::as_mut);
        let Some(group) = group.filter(|group| !group.attached) else { return 0 };
        group.attached = true;
        let group = group.clone();
        self.attach_sites(&group, session);
        group.sites.len()
    }

    /// Attaches the sites of a group to its file, if that is still what was inspected: before, and still afterwards.
    fn attach_sites(&mut self, group: &Group, session: &mut Session<'_>) {
        let Group { program, values, module, sites, .. } = group;
        let is_there = |site: &InspectedSite| module.file.has(site.place.file_offset, &site.code);
        if !module.file.is_unchanged() || !sites.iter().all(is_there) {
            return self.give_up(module, session);
        }
        let places: Vec<FileSite> = sites.iter().map(|site| site.place).collect();
        let path = module.file.path();
        let failed =
            session.attach(*program, values, ProbedFile { path: &path, id: module.file.id() }, self.process, &places);
        if !module.file.is_unchanged() {
            return self.give_up(module, session);
        }
        self.account_failures(module, sites, &failed);
    }

    /// Removes the probes of files that were written to.
    pub(super) fn check_files(&mut self, session: &mut Session<'_>, consumer: &Consumer) {
        let changed: BTreeMap<FileId, Arc<ModuleFile>> = self
            .groups
            .iter()
            .flatten()
            .filter(|group| !group.module.file.is_unchanged())
            .map(|group| (group.module.file.id(), Arc::clone(&group.module)))
            .collect();
        for module in changed.values() {
            self.give_up(module, session);
        }
        for notice in self.notices.drain(..) {
            consumer.notice(notice);
        }
    }

    /// Removes the probes of a file that was written to.
    fn give_up(&mut self, module: &Arc<ModuleFile>, session: &mut Session<'_>) {
        let id = module.file.id();
        if self.overwritten.insert(id, Arc::clone(module)).is_some() {
            return;
        }
        session.detach_file(id);
        for group in self.take_groups(|group| group.module.file.id() == id) {
            for probe in group.sites.iter().flat_map(|site| &site.site.probes) {
                *self.not_attached.entry(probe.clone()).or_default() += 1;
            }
        }
        let path = module.path.display();
        self.notices.push(format!("{path} was overwritten: its probes were removed"));
        self.problems.push(overwritten(&path.to_string()));
    }

    /// Takes groups, and leaves their numbers empty: groups may be being attached one after the other.
    fn take_groups(&mut self, which: impl Fn(&Group) -> bool) -> Vec<Group> {
        self.groups.iter_mut().filter_map(|group| group.take_if(|group| which(group))).collect()
    }

    /// Readable once a file that has probes was written to.
    pub(super) fn written(&self) -> Option<BorrowedFd<'_>> {
        self.watch.written()
    }

    /// Whether one was, since this was last asked.
    pub(super) fn any_written(&self) -> bool {
        self.watch.take()
    }

    /// Whether so many files that were deleted have probes that it is worth asking who still runs them.
    pub(super) fn has_many_deleted(&self) -> bool {
        self.deleted().len() > MOST_DELETED
    }

    fn deleted(&self) -> BTreeMap<FileId, &Arc<ModuleFile>> {
        let deleted = self.groups.iter().flatten().filter(|group| group.module.file.is_deleted());
        deleted.map(|group| (group.module.file.id(), &group.module)).collect()
    }

    /// Removes the probes of deleted files that no process has mapped: nobody can run them any more. It takes some
    /// milliseconds for each 10 processes of the system.
    pub(super) fn release_deleted(&mut self, session: &mut Session<'_>) {
        self.targets.retain(|pid, _| Path::new(&format!("/proc/{pid}")).exists());
        let Some(mapped) = mapped_by_anyone() else { return };
        let devices: HashSet<u64> = mapped.iter().map(|(device, _)| *device).collect();
        // Some file systems (overlayfs, btrfs) show other numbers in the maps than to stat.
        let is_free = |id: &FileId| devices.contains(&id.0) && !mapped.contains(id);
        let released: BTreeSet<FileId> = self.deleted().into_keys().filter(is_free).collect();
        for id in &released {
            session.detach_file(*id);
        }
        drop(self.take_groups(|group| released.contains(&group.module.file.id())));
        self.attached.retain(|(_, file, _)| !released.contains(file));
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
        // Before anything of it can run: what was overwritten since would be given breakpoints where there are none.
        self.check_files(session, consumer);
        self.forget_ended();
        let files = alike::files_of(pid);
        if self.alike.is_known(files.as_ref()) {
            if anew {
                self.targets.remove(&pid);
            }
            self.sought.passed(pid.cast_unsigned());
            return Ok(());
        }
        let Some(mut target) = self.refresh(pid, anew).inspect_err(|_| {
            self.targets.remove(&pid);
        })?
        else {
            return Ok(());
        };
        if let Err(problem) = self.watch_linker(&target, session) {
            self.problems.push(problem);
        }
        for path in target.take_overwritten() {
            let problem = overwritten(&path.display().to_string());
            if !self.problems.0.contains(&problem) {
                self.problems.push(problem);
            }
        }
        let placed = (self.place)(&target);
        self.sought.looked(&target, placed.as_ref().ok().map(|(placement, _)| placement));
        let (placement, said) = match placed {
            Ok(placed) => placed,
            Err(problems) => {
                self.targets.insert(pid, target);
                return Err(problems);
            }
        };
        self.sought.warned(&said);
        self.said.insert(pid, said);
        let refusal = self.refusal(&placement);
        if refusal.is_none() {
            self.set_enums(pid, &placement, consumer);
        }
        let attached = refusal.map_or_else(|| self.attach(&placement, &target, session, consumer), Err);
        self.targets.insert(pid, target);
        attached?;
        self.alike.add(files);
        Ok(())
    }

    /// Names the constants of what a process has mapped now. Where another process still runs a build that numbers them
    /// otherwise, the numbers that the two disagree on have no name.
    fn set_enums(&mut self, pid: i32, placement: &Placement, consumer: &Consumer) {
        self.enums_of.retain(|other, _| Path::new(&format!("/proc/{other}")).exists());
        self.enums_of.insert(pid, placement.enums.clone());
        let mut new = IndexMap::new();
        for (name, constants) in &placement.enums {
            let mut agreed = constants.clone();
            let others = self.enums_of.iter().filter(|(other, _)| **other != pid);
            for other in others.filter_map(|(_, enums)| enums.get(name)) {
                agreed.retain(|number, text| other.get(number).is_none_or(|its| its == text));
            }
            if agreed.len() < constants.len() {
                let message = format!("two builds that run at once number `{name}` differently");
                let problem = Diagnostic::warning(Code::LayoutsDiffer, message)
                    .hint("numbers that they disagree on are shown without names; record one process at a time");
                if !self.problems.0.contains(&problem) {
                    self.problems.push(problem);
                }
            }
            if self.schema.enums.get(name) != Some(&agreed) {
                new.insert(name.clone(), agreed);
            }
        }
        self.schema.enums.extend(new.clone());
        consumer.set_enums(&self.schema, &new);
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
                ProcessTarget::open_stored(pid.cast_unsigned(), files, self.store.clone()).map(Some)
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
        let Some(inspected) = target.inspected(file.id).map(Arc::clone) else { return Ok(()) };
        if self.linkers.insert(inspected.id(), Arc::clone(&inspected)).is_some() {
            return Ok(());
        }
        let failed = |reason: &str| {
            let message = format!("libraries mapped later will not be probed: {reason}");
            Diagnostic::warning(Code::AttachFailed, message).with_note(file.path.display().to_string())
        };
        let found = target.functions(number, &NamePattern(LINKER_NOTICE.to_owned()));
        let function = found.first().ok_or_else(|| failed("the dynamic linker has no `_dl_debug_state`"))?;
        if !inspected.is_unchanged() {
            return Err(failed("it was overwritten since it was read"));
        }
        let path = inspected.path();
        let probed = ProbedFile { path: &path, id: inspected.id() };
        session.attach_linker(probed, self.process, function.file_offset).map_err(|reason| failed(&reason))
    }

    fn attach(
        &mut self,
        placement: &Placement,
        target: &ProcessTarget,
        session: &mut Session<'_>,
        consumer: &Consumer,
    ) -> Result<(), Diagnostics> {
        let new = self.new_sites(placement, target);
        if new.is_empty() {
            return Ok(());
        }
        self.detach_replaced(placement, target, session);
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
            self.attached.insert((new.placed.program, new.module.file.id(), site.file_offset));
        }
        for (own_values, sites) in by_values {
            let mut values = values.clone();
            values.extend(own_values);
            session.load(&sites.iter().map(|(_, new)| new.placed.program).collect(), &values)?;
            self.attach_with(&Arc::new(values), &sites, session);
        }
        session.enable();
        let ms = started.elapsed().as_secs_f64() * 1e3;
        consumer.notice(format!("attached {} sites in {ms:.1} ms, their programs loaded", sites.len()));
        Ok(())
    }

    /// Attaches sites whose programs were loaded with these constants.
    fn attach_with(
        &mut self,
        values: &Arc<BTreeMap<String, u64>>,
        sites: &[(&Site, &NewSite<'_>)],
        session: &mut Session<'_>,
    ) {
        let mut of_files: BTreeMap<(usize, FileId), (Arc<ModuleFile>, Vec<InspectedSite>)> = BTreeMap::new();
        for (site, new) in sites {
            let cookie = new.cookie(site.id);
            // Old kernels refuse any cookie but none.
            let cookie = session.constant_of_site(cookie).map_or(cookie, |_| 0);
            let place = FileSite { file_offset: site.file_offset, cookie, semaphore: new.placed.semaphore };
            let key = (new.placed.program, new.module.file.id());
            let (_, of_file) = of_files.entry(key).or_insert_with(|| (Arc::clone(&new.module), Vec::new()));
            of_file.push(InspectedSite { site: (*site).clone(), place, code: new.code.clone() });
        }
        let most = if session.mode() == AttachMode::Single { SINGLE_GROUP } else { GROUP };
        for ((program, _), (module, mut sites)) in of_files {
            self.watch.add(&module.file);
            while !sites.is_empty() {
                let rest = sites.split_off(sites.len().min(most));
                let group = Group {
                    program,
                    values: Arc::clone(values),
                    module: Arc::clone(&module),
                    sites: std::mem::replace(&mut sites, rest).into(),
                    attached: self.is_attached_now(self.tier(program)),
                };
                self.groups.push(Some(group.clone()));
                if group.attached {
                    self.attach_sites(&group, session);
                }
            }
        }
    }

    /// A probe is at one of its alternatives: one that was attached for want of a better goes when that is mapped. It
    /// goes from the files of this target alone: another process may have mapped another build.
    fn detach_replaced(&mut self, placement: &Placement, target: &ProcessTarget, session: &mut Session<'_>) {
        let files: HashSet<FileId> =
            target.files().iter().filter_map(|file| Some(target.inspected(file.id)?.id())).collect();
        let root = |program: usize| self.plan.programs.get(program).and_then(|p| p.probes.first());
        let placed: BTreeSet<usize> = placement.sites.iter().map(|site| site.program).collect();
        let is_replaced =
            |program: usize| !placed.contains(&program) && placed.iter().any(|other| root(*other) == root(program));
        let attached = self.attached.iter().map(|(program, file, _)| (*program, *file));
        let replaced: BTreeSet<(usize, FileId)> =
            attached.filter(|(program, file)| files.contains(file) && is_replaced(*program)).collect();
        if !replaced.is_empty() {
            session.detach_programs(&replaced);
            drop(self.take_groups(|group| replaced.contains(&(group.program, group.module.file.id()))));
            self.attached.retain(|(program, file, _)| !replaced.contains(&(*program, *file)));
        }
    }

    /// Sites that are not attached yet. Those that there are no numbers for are counted as lost.
    fn new_sites<'p>(&mut self, placement: &'p Placement, target: &ProcessTarget) -> Vec<NewSite<'p>> {
        let mut modules: HashMap<u64, Arc<ModuleFile>> = HashMap::new();
        let mut sites = Vec::new();
        for placed in &placement.sites {
            let Some(number) = target.number_of(placed.file) else { continue };
            let Some(file) = target.inspected(placed.file) else { continue };
            let key = (placed.program, file.id(), placed.site.file_offset);
            if self.attached.contains(&key) || self.overwritten.contains_key(&file.id()) {
                continue;
            }
            let module = modules
                .entry(placed.file)
                .or_insert_with(|| Arc::new(ModuleFile { file: Arc::clone(file), path: placed.path.clone() }));
            let code = target.code(number, placed.site.file_offset, CODE);
            sites.push(NewSite { placed, module: Arc::clone(module), code });
        }
        let room = usize::from(NO_SITE - self.sites);
        for left in sites.drain(sites.len().min(room)..) {
            for probe in &left.placed.site.probes {
                *self.not_attached.entry(probe.clone()).or_default() += 1;
            }
        }
        sites
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

    fn account_failures(&mut self, module: &ModuleFile, sites: &[InspectedSite], failed: &[FailedSite]) {
        let path = &module.path;
        for (shown, failure) in failed.iter().enumerate() {
            let Some(InspectedSite { site, .. }) = sites.iter().find(|site| site.place == failure.site) else {
                continue;
            };
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
    module: Arc<ModuleFile>,
    code: Vec<u8>,
}

impl NewSite<'_> {
    /// What the program is told at this site.
    fn cookie(&self, site: u16) -> u64 {
        self.placed.cookie & !0xffff | u64::from(site)
    }
}

fn overwritten(path: &str) -> Diagnostic {
    Diagnostic::warning(Code::TargetOverwritten, format!("{path} was overwritten while it was recorded"))
        .with_note("its probes were removed; the trace is incomplete from then on")
        .hint("move a new build over the old name, as `mv` and package managers do, and start the target again")
}
