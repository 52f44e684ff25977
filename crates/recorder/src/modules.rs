//! What the target has mapped, and the probes attached to it: at the start, and each time a process of the target has
//! mapped a library or runs another program.

mod engines;
mod inspected;
mod other_slots;

use super::consumer::Consumer;
use super::file_watch::FileWatch;
use super::module_sites::{FailedSites, Group, InspectedSite, ModuleFile, ProgramSites};
use super::process::{ends_within, has_ended};
use super::search_report::SearchReport;
use super::target_values::TargetValues;
use crate::bpf::{AttachMode, Detachment, FailedSite, FileSite, ProbedFile, Session};
use indexmap::IndexMap;
use inspected::InspectedProcesses;
use profinfer_binary::{
    DebugFolders, FileId, InspectedFile, LINKER_NOTICE, ProcessTarget, Target, TargetBytes, TargetFiles, TargetSymbols,
    mapped_by_anyone,
};
use profinfer_compiler::{PlacedSite, Placement, ProbePlan, Tier, Unplaced};
use profinfer_diagnostics::{Code, Diagnostic, Diagnostics, Severity};
use profinfer_probeset::path::NamePattern;
use profinfer_schema::{Loss, LossKind, ModuleInfo, NO_SITE, Role, Schema, Site, ValueSource};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Detached sites are attached again in groups of at most this many: attached singly, each takes milliseconds.
const GROUP: usize = 256;
const SINGLE_GROUP: usize = 4;
/// Deleted files whose probes stay without anybody being asked who runs them.
const MOST_DELETED: usize = 32;
/// Places that failed are named one by one up to this many.
const FAILURES_SHOWN: usize = 5;
/// A process that ends takes no probes: where attaching fails, how long its end is waited for.
const ENDING: Duration = Duration::from_millis(200);
/// From a target to sites and values.
pub(super) type Placer<'a> = dyn Fn(&dyn Target) -> Result<(Placement, Diagnostics), Diagnostics> + 'a;

/// Bytes at a site that must be what they were when it was chosen.
const CODE: usize = 16;

/// The probes of a recording on its target.
pub(super) struct Modules<'a> {
    plan: &'a ProbePlan,
    place: &'a Placer<'a>,
    /// The only process that probes fire in; `None` to have them fire in all, for the programs to pick.
    process: Option<i32>,
    processes: InspectedProcesses<'a>,
    linkers: HashMap<FileId, Arc<InspectedFile>>,
    watch: FileWatch,
    /// Files that were written to since they were inspected: nothing is attached to them any more.
    overwritten: HashMap<FileId, Arc<ModuleFile>>,
    /// Sentences for the trace.
    notices: Vec<String>,
    /// The constants of the target.
    pub(super) values: TargetValues,
    attached: HashSet<(usize, FileId, u64)>,
    /// Of them, those that could not be attached: with a budget that is tried again in each window.
    failed: FailedSites,
    files: Vec<ModuleInfo>,
    sites: u16,
    schema: Schema,
    /// The constants of what each process has mapped.
    enums_of: HashMap<i32, IndexMap<String, BTreeMap<i64, String>>>,
    not_attached: BTreeMap<String, u64>,
    /// What was searched for, and where.
    pub(super) search_report: SearchReport<'a>,
    /// The last warnings of placement, by process.
    warnings: HashMap<i32, Diagnostics>,
    problems: Diagnostics,
    /// Sites whose programs may come and go; the numbers stay when others are given up.
    groups: Vec<Option<Group>>,
    /// The last tier that is attached all the time; `None`: not even steps are.
    stays: Option<Tier>,
    detail_attached: bool,
    /// Somebody may be waited for.
    waiting_wanted: bool,
    traps: Vec<SiteTrap>,
}

/// What hitting a site costs.
#[derive(Debug, Clone, Copy)]
pub(super) struct SiteTrap {
    /// Its program.
    pub(super) program: usize,
    /// Its number in records.
    pub(super) site: u16,
    /// The trap by the table of this machine; `None` where that has no such instruction.
    pub(super) ns: Option<u32>,
}

impl<'a> Modules<'a> {
    pub(super) fn new(
        plan: &'a ProbePlan,
        place: &'a Placer<'a>,
        process: Option<i32>,
        debug_folders: &'a DebugFolders,
        search_report: SearchReport<'a>,
    ) -> Self {
        Self {
            plan,
            place,
            process,
            processes: InspectedProcesses::new(debug_folders),
            linkers: HashMap::new(),
            watch: FileWatch::new(),
            overwritten: HashMap::new(),
            notices: Vec::new(),
            values: TargetValues::default(),
            attached: HashSet::new(),
            failed: FailedSites::default(),
            files: Vec::new(),
            sites: 0,
            schema: plan.schema.clone(),
            enums_of: HashMap::new(),
            not_attached: BTreeMap::new(),
            search_report,
            warnings: HashMap::new(),
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

    /// Has boundaries that only record waiting not attached.
    pub(super) fn without_waiting(self, without: bool) -> Self {
        Self { waiting_wanted: !without, ..self }
    }

    /// Whether there are sites of operators.
    pub(super) fn any_detail(&self) -> bool {
        self.groups.iter().flatten().any(|group| self.tier(group.of.program) == Tier::Detail)
    }

    /// Whether there are sites of steps.
    pub(super) fn any_steps(&self) -> bool {
        let actions = |group: &Group| self.plan.programs.get(group.of.program).map(|program| &program.actions);
        let mut all = self.groups.iter().flatten().filter_map(actions).flatten();
        all.any(|action| action.role == Role::Step)
    }

    /// Sets whether libraries mapped from now on get their probes of operators at once.
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

    /// Whether the boundaries that only record since when a lane waits are attached with the operators.
    pub(super) fn set_waiting_wanted(&mut self, wanted: bool) {
        self.waiting_wanted = wanted;
    }

    /// Whether there are such.
    pub(super) fn any_waiting(&self) -> bool {
        self.groups.iter().flatten().any(|group| group.attached && self.tier(group.of.program) == Tier::Waiting)
    }

    /// Attaches these boundaries, if operators are; gives how many sites.
    pub(super) fn attach_waiting(&mut self, session: &mut Session<'_>) -> usize {
        let is_one = |number: &usize| self.tier_of_group(*number) == Some(Tier::Waiting);
        let numbers: Vec<usize> = (0..self.groups.len()).filter(is_one).collect();
        let wanted = self.is_attached_now(Tier::Waiting);
        numbers.into_iter().filter(|_| wanted).map(|number| self.attach_one(number, session)).sum()
    }

    /// Detaches them, on a separate thread; gives how many sites.
    pub(super) fn detach_waiting(&mut self, session: &mut Session<'_>) -> (Detachment, usize) {
        self.detach(|modules, program| modules.tier(program) == Tier::Waiting, session)
    }

    /// Detaches what comes and goes, on a separate thread; gives how many sites.
    pub(super) fn detach_detail(&mut self, session: &mut Session<'_>) -> (Detachment, usize) {
        self.detail_attached = false;
        self.detach(|modules, program| modules.switches(program), session)
    }

    fn detach(&mut self, which: fn(&Self, usize) -> bool, session: &mut Session<'_>) -> (Detachment, usize) {
        let wanted: BTreeSet<usize> = self
            .groups
            .iter()
            .flatten()
            .map(|group| group.of.program)
            .filter(|program| which(self, *program))
            .collect();
        let mut sites = 0;
        for group in
            self.groups.iter_mut().flatten().filter(|group| group.attached && wanted.contains(&group.of.program))
        {
            group.attached = false;
            sites += group.range.len();
        }
        (session.detach_aside(&wanted), sites)
    }

    fn tier_of_group(&self, number: usize) -> Option<Tier> {
        Some(self.tier(self.groups.get(number)?.as_ref()?.of.program))
    }

    /// Whether probes of a tier stay where others come and go. What describes objects that are made once always does:
    /// nobody would name them afterwards.
    fn remains(&self, tier: Tier) -> bool {
        tier == Tier::Always || Some(tier) <= self.stays
    }

    /// Whether libraries mapped now get probes of a tier at once.
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
        let tier = group.as_ref().map(|group| self.tier(group.of.program));
        let is_wanted = tier.is_some_and(|tier| self.is_attached_now(tier));
        Some(if is_wanted { self.attach_one(number, session) } else { 0 })
    }

    fn attach_one(&mut self, number: usize, session: &mut Session<'_>) -> usize {
        let group = self.groups.get_mut(number).and_then(Option::as_mut);
        let Some(group) = group.filter(|group| !group.attached) else { return 0 };
        group.attached = true;
        let group = group.clone();
        self.attach_sites(&group.of, group.sites(), session);
        group.range.len()
    }

    /// Attaches sites to their file, if that is still what was inspected: before, and still afterwards.
    fn attach_sites(&mut self, of: &ProgramSites, sites: &[InspectedSite], session: &mut Session<'_>) {
        let ProgramSites { program, values, module, .. } = of;
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
        let is_ending = || self.process.is_some_and(|pid| ends_within(pid, ENDING));
        if !failed.is_empty() && !is_ending() {
            self.account_failures(*program, module, sites, &failed);
        }
    }

    /// Removes the probes of files that were written to.
    pub(super) fn check_files(&mut self, session: &mut Session<'_>, consumer: &Consumer) {
        let changed = self.probed_files().into_values().filter(|module| !module.file.is_unchanged());
        for module in changed.cloned().collect::<Vec<_>>() {
            self.give_up(&module, session);
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
        for group in self.take_groups(|group| group.file() == id) {
            self.count_not_attached(group.sites().iter().map(|site| &site.site));
        }
        let path = module.path.display();
        self.notices.push(format!("{path} was overwritten: its probes were removed"));
        self.problems.add_new(overwritten(&path.to_string()).into());
    }

    /// Counts each of a site's probes as lost there.
    fn count_not_attached<'s>(&mut self, sites: impl IntoIterator<Item = &'s Site>) {
        for probe in sites.into_iter().flat_map(|site| &site.probes) {
            *self.not_attached.entry(probe.clone()).or_default() += 1;
        }
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

    /// Whether enough deleted files have probes to check which processes still map them.
    pub(super) fn has_many_deleted(&self) -> bool {
        self.deleted().len() > MOST_DELETED
    }

    fn deleted(&self) -> BTreeMap<FileId, &Arc<ModuleFile>> {
        self.probed_files().into_iter().filter(|(_, module)| module.file.is_deleted()).collect()
    }

    fn probed_files(&self) -> BTreeMap<FileId, &Arc<ModuleFile>> {
        self.groups.iter().flatten().map(|group| (group.file(), &group.of.module)).collect()
    }

    /// Removes the probes of deleted files that no process has mapped: nobody can run them any more. It takes some
    /// milliseconds for each 10 processes of the system.
    pub(super) fn release_deleted(&mut self, session: &mut Session<'_>) {
        self.forget_ended();
        let Some(mapped) = mapped_by_anyone() else { return };
        let devices: HashSet<u64> = mapped.iter().map(|(device, _)| *device).collect();
        // Some file systems (overlayfs, btrfs) show other numbers in the maps than to stat.
        let is_free = |id: &FileId| devices.contains(&id.0) && !mapped.contains(id);
        let released: BTreeSet<FileId> = self.deleted().into_keys().filter(is_free).collect();
        for id in &released {
            session.detach_file(*id);
        }
        drop(self.take_groups(|group| released.contains(&group.file())));
        self.attached.retain(|(_, file, _)| !released.contains(file));
    }

    /// What each site's trap costs.
    pub(super) fn traps(&self) -> &[SiteTrap] {
        &self.traps
    }

    /// Inspects a process's mapped files, and attaches the sites that are not attached yet. `anew`: it runs another program.
    ///
    /// # Errors
    /// The target is not what the probeset expects, or the kernel does not take the programs.
    pub(super) fn inspect(
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
        }
        if !anew && self.processes.is_mapping_files(pid) {
            // Another file may be the module, or of its build: the linker tells when all are there, and none runs before.
            return Ok(());
        }
        if self.processes.are_many() {
            self.forget_ended();
        }
        let refreshed = self.processes.refresh(pid, anew);
        // Before anything of it can run, the kernel sets breakpoints of earlier sites in what is mapped. After the files were
        // read: one that was read again since it was written to must have lost these.
        self.check_files(session, consumer);
        let Some(target) = refreshed? else { return Ok(()) };
        if let Err(problem) = self.watch_linker(&target, session) {
            self.problems.push(problem);
        }
        let placed = (self.place)(target.mapped());
        self.search_report.add_process(&target, placed.as_ref().ok().map(|(placement, _)| placement));
        let torn = self.name_overwritten(&target);
        let (placement, warnings) = match placed {
            Ok(placed) => placed,
            Err(problems) => {
                self.processes.insert(pid, target);
                return if torn { Ok(()) } else { Err(problems) };
            }
        };
        self.search_report.warned(&warnings.0);
        if warnings.0.is_empty() {
            self.warnings.remove(&pid);
        } else {
            self.warnings.insert(pid, warnings);
        }
        let refusal = self.refusal(&placement);
        if torn && refusal.is_some() {
            self.processes.insert(pid, target);
            return Ok(());
        }
        if refusal.is_none() {
            self.set_enums(pid, &placement, consumer);
        }
        let attached = refusal.map_or_else(|| self.attach(&placement, &target, session, consumer), Err);
        self.processes.insert(pid, target);
        attached
    }

    /// Names the modules that were written to while they were read: what was found in them, or not, means nothing.
    fn name_overwritten(&mut self, target: &ProcessTarget) -> bool {
        let written = |id| target.inspected(id).is_some_and(|file| !file.is_unchanged());
        let files =
            target.mapped().files().iter().filter(|file| self.search_report.is_module(&file.name) && written(file.id));
        let paths: Vec<String> = files.map(|file| file.path.display().to_string()).collect();
        for path in &paths {
            self.search_report.overwritten(path);
            self.problems.add_new(overwritten(path).into());
        }
        !paths.is_empty()
    }

    /// Names the constants of what a process has mapped now. Where another process still runs a build that numbers them
    /// otherwise, the numbers that the two disagree on have no name.
    fn set_enums(&mut self, pid: i32, placement: &Placement, consumer: &Consumer) {
        self.enums_of.retain(|other, _| *other != pid && !has_ended(*other));
        let mut new = IndexMap::new();
        for (name, constants) in &placement.enums {
            let mut agreed = constants.clone();
            for other in self.enums_of.values().filter_map(|enums| enums.get(name)) {
                agreed.retain(|number, text| other.get(number).is_none_or(|its| its == text));
            }
            if agreed.len() < constants.len() {
                let message = format!("two builds that run at once number `{name}` differently");
                let problem = Diagnostic::warning(Code::LayoutsDiffer, message)
                    .hint("numbers that they disagree on are shown without names; record one process at a time");
                self.problems.add_new(problem.into());
            }
            if self.schema.enums.get(name) != Some(&agreed) {
                new.insert(name.clone(), agreed);
            }
        }
        if !placement.enums.is_empty() {
            self.enums_of.insert(pid, placement.enums.clone());
        }
        self.schema.enums.extend(new.clone());
        consumer.set_enums(&self.schema, &new);
    }

    /// How often a process was inspected.
    pub(super) fn inspections(&self) -> u64 {
        self.processes.inspections()
    }

    /// Forgets what was read of files: probes have been placed.
    pub(super) fn forget_contents(&mut self) {
        self.processes.forget_contents();
    }

    /// Forgets processes that have ended, except their warnings.
    fn forget_ended(&mut self) {
        self.processes.forget_ended();
        let ended: Vec<i32> = self.warnings.keys().copied().filter(|pid| has_ended(*pid)).collect();
        for warnings in ended.into_iter().filter_map(|pid| self.warnings.remove(&pid)) {
            self.problems.add_new(warnings);
        }
    }

    /// Has the dynamic linker tell when it has mapped something.
    fn watch_linker(&mut self, target: &ProcessTarget, session: &mut Session<'_>) -> Result<(), Diagnostic> {
        let Some(number) = target.dynamic_linker() else { return Ok(()) };
        let Some(file) = target.mapped().files().get(number) else { return Ok(()) };
        let Some(inspected) = target.inspected(file.id).map(Arc::clone) else { return Ok(()) };
        if self.linkers.insert(inspected.id(), Arc::clone(&inspected)).is_some() {
            return Ok(());
        }
        let failed = |reason: &str| {
            let message = format!("profinfer cannot probe libraries that are mapped later: {reason}");
            Diagnostic::warning(Code::AttachFailed, message).with_note(file.path.display().to_string())
        };
        let found = target.mapped().functions(number, &NamePattern(LINKER_NOTICE.to_owned()));
        let function = found.first().ok_or_else(|| failed("the dynamic linker has no `_dl_debug_state`"))?;
        if !inspected.is_unchanged() {
            return Err(failed("it was overwritten after it was read"));
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
        // Also if all sites of the better alternative are attached already, for another process.
        self.detach_replaced(placement, target, session);
        if new.is_empty() {
            return Ok(());
        }
        let values = self.values.of_placement(placement, session);
        let unproven = placement.values.iter().filter(|value| !value.provenance.is_proven());
        consumer.guards().activate(&unproven.map(|value| value.symbol.as_str()).collect());
        let started = Instant::now();
        let first_new = self.files.len();
        let sites: Vec<Site> = new.iter().filter_map(|site| self.number(site.placed, placement)).collect();
        consumer.add_sites(self.files.get(first_new..).unwrap_or_default(), &sites);
        self.hold_open(placement, &new, &sites, consumer);
        let mut by_values: BTreeMap<&BTreeMap<String, u64>, Vec<(&Site, &NewSite<'_>)>> = BTreeMap::new();
        for (site, new) in sites.iter().zip(&new) {
            self.traps.push(SiteTrap { program: new.placed.program, site: site.id, ns: new.placed.cost_ns });
            by_values.entry(&new.placed.values).or_default().push((site, new));
            self.attached.insert((new.placed.program, new.module.file.id(), site.file_offset));
        }
        for (site_values, sites) in by_values {
            let mut values = values.clone();
            values.extend(site_values.clone());
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
            let place = FileSite { file_offset: site.file_offset, cookie, semaphore: new.placed.semaphore };
            let key = (new.placed.program, new.module.file.id());
            let (_, of_file) = of_files.entry(key).or_insert_with(|| (Arc::clone(&new.module), Vec::new()));
            of_file.push(InspectedSite { site: (*site).clone(), place, code: new.code.clone() });
        }
        let most = if session.mode() == AttachMode::Single { SINGLE_GROUP } else { GROUP };
        for ((program, _), (module, sites)) in of_files {
            self.watch.add(&module.file);
            let of = ProgramSites { program, values: Arc::clone(values), module, sites: sites.into() };
            let attached = self.is_attached_now(self.tier(program));
            // Before they are attached: a file that turns out to be overwritten takes its groups with it.
            for start in (0..of.sites.len()).step_by(most) {
                let range = start..of.sites.len().min(start + most);
                self.groups.push(Some(Group { of: of.clone(), range, attached }));
            }
            if attached {
                self.attach_sites(&of, &of.sites, session);
            }
        }
    }

    /// A probe is at one of its alternatives: one that was attached for want of a better goes when that is mapped. It
    /// goes from the files of this target alone: another process may have mapped another build.
    fn detach_replaced(&mut self, placement: &Placement, target: &ProcessTarget, session: &mut Session<'_>) {
        let files: HashSet<FileId> =
            target.mapped().files().iter().filter_map(|file| Some(target.inspected(file.id)?.id())).collect();
        let root = |program: usize| self.plan.programs.get(program).and_then(|p| p.probes.first());
        let placed: BTreeSet<usize> = placement.sites.iter().map(|site| site.program).collect();
        let is_replaced =
            |program: usize| !placed.contains(&program) && placed.iter().any(|other| root(*other) == root(program));
        let attached = self.attached.iter().map(|(program, file, _)| (*program, *file));
        let replaced: BTreeSet<(usize, FileId)> =
            attached.filter(|(program, file)| files.contains(file) && is_replaced(*program)).collect();
        if !replaced.is_empty() {
            session.detach_programs(&replaced);
            drop(self.take_groups(|group| replaced.contains(&(group.of.program, group.file()))));
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
            let code = target.mapped().code(number, placed.site.file_offset, CODE);
            sites.push(NewSite { placed, module: Arc::clone(module), code });
        }
        let free = usize::from(NO_SITE - self.sites);
        let left = sites.split_off(sites.len().min(free));
        self.count_not_attached(left.iter().map(|left| &left.placed.site));
        sites
    }

    /// A site as the whole recording numbers it and its module.
    fn number(&mut self, placed: &PlacedSite, placement: &Placement) -> Option<Site> {
        let module = placement.modules.get(placed.site.module)?;
        let module_index = self.files.iter().position(|file| file == module);
        let module = module_index.unwrap_or_else(|| {
            self.files.push(module.clone());
            self.files.len() - 1
        });
        let site = Site { id: self.sites, module, ..placed.site.clone() };
        self.sites += 1;
        Some(site)
    }

    /// Counts and names each once, however often it fails.
    fn account_failures(
        &mut self,
        program: usize,
        module: &ModuleFile,
        sites: &[InspectedSite],
        failed: &[FailedSite],
    ) {
        let (path, id) = (&module.path, module.file.id());
        for (shown, failure) in self.failed.add(program, id, failed).into_iter().enumerate() {
            let Some(InspectedSite { site, .. }) = sites.iter().find(|site| site.place == failure.site) else {
                continue;
            };
            self.count_not_attached([site]);
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

    /// Names the source of what was learned: it is no longer missing.
    pub(super) fn learned(&mut self, source: ValueSource) {
        self.values.add_source(source);
        for warnings in self.warnings.values_mut() {
            warnings.0.retain(|problem| !self.values.is_settled(&problem.message));
        }
        self.search_report.forget(&|message| self.values.is_settled(message));
    }

    /// A file that has sites, by its number in the trace.
    pub(super) fn file(&self, number: usize) -> Option<&ModuleInfo> {
        self.files.get(number)
    }

    /// Stores what went wrong without ending the recording.
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

    /// Everything that went wrong without ending the recording.
    pub(super) fn take_problems(&mut self) -> Diagnostics {
        let mut problems = std::mem::take(&mut self.problems);
        for (_, warnings) in self.warnings.drain() {
            problems.add_new(warnings);
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
