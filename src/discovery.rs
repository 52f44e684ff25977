//! Processes that have engines, found while they run: those that are there, and those that start later or load an
//! engine later. Each process is looked at less and less often, so that a machine with many costs little.

use super::bounded;
use super::container::{self, MAX_NAME, NUMBER, numbers, paths};
use super::engines::offered;
use profinfer_analysis::group_digits;
use profinfer_binary::{FileStore, Files, ProcessStat, ProcessTarget, maps};
use profinfer_compiler::{glob_matches, has_engine};
use profinfer_diagnostics::{Code, Diagnostic, Diagnostics, printable};
use profinfer_probeset::{self as spec, Analysis, Library, Probeset};
use profinfer_recorder::bpf::features::{CAP_SYS_PTRACE, grant};
use profinfer_recorder::{memory, open_files};
use profinfer_schema::Role;
use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{Hash, Hasher};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Time between two looks at a process, at first and at most.
const WAIT: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(30)];
/// Time until a process whose recorder has ended is found again, at first and at most; each time it is twice as long.
const RETRY: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(600)];
/// Files that are open at most while processes are inspected, beside those of one process.
const MOST_OPEN: usize = 256;
/// Bytes of a file in `/proc` that are read.
const MAX_PROC_FILE: u64 = 16 << 20;
/// Sets of mapped files whose engine is remembered.
const MAX_SETS: usize = 4096;
/// Where control groups are mounted.
const CONTROL_GROUPS: &str = "/sys/fs/cgroup";
/// Characters that a container's number may be shortened to.
const SHORTEST: usize = 4;

/// Which processes are looked at.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct DiscoveryArguments {
    /// Follow every process of this machine that has an engine, also those that start later (default if no process,
    /// command, control group or container is named)
    #[arg(long, conflicts_with_all = ["pids", "command"])]
    all: bool,
    /// Follow the processes of this control group, and of those below it, that have an engine
    #[arg(long, value_name = "PATH", conflicts_with_all = ["pids", "command"])]
    cgroup: Option<PathBuf>,
    /// Follow the processes of this container that have an engine: its number or its name, as `podman ps` or `docker ps`
    /// prints them
    #[arg(long, value_name = "ID", conflicts_with_all = ["pids", "command", "cgroup"], value_parser = container)]
    container: Option<String>,
}

fn container(text: &str) -> Result<String, String> {
    // As runtimes allow them.
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-' | b'/');
    if text.is_empty() || text.len() > MAX_NAME || !text.bytes().all(is_name) {
        return Err("a container has a number and a name: `podman ps`, `docker ps` or `crictl ps` print them".into());
    }
    Ok(text.to_owned())
}

impl DiscoveryArguments {
    /// Looks for the engines of these probesets, else for all shipped ones.
    pub(crate) fn discovery(&self, specs: &[PathBuf]) -> Result<Discovery, Diagnostics> {
        let mut wanted = Vec::new();
        for file in specs {
            let (probeset, _) = spec::load(file, &Library::SHIPPED)?;
            wanted.push((file.clone(), probeset));
        }
        if wanted.is_empty() {
            wanted = shipped();
        }
        let place = match (&self.cgroup, &self.container) {
            (Some(path), _) => Place::ControlGroup(control_group(path)?),
            (None, Some(number)) => Place::Container(number.clone()),
            (None, None) => Place::Anywhere,
        };
        // All files of a process are open while it is inspected. Recorders that are started by this program attach to
        // processes: there is no command that would inherit the limit.
        open_files::allow_most();
        // Looked at as long as the program runs, for what an engine is found by.
        for (_, probeset) in &mut wanted {
            probeset.analysis = Analysis::default();
            probeset.probes.retain(|_, probe| probe.role.value == Role::Step);
        }
        Ok(Discovery::new(wanted, place))
    }
}

/// The shipped probesets, each with what a recorder takes for it.
pub(crate) fn shipped() -> Vec<(PathBuf, Probeset)> {
    offered().into_iter().map(|probeset| (PathBuf::from(&probeset.name), probeset)).collect()
}

/// The numbers of the engines, of those that are looked for, that a process has now. None of one that cannot be inspected.
pub(crate) fn engines_of(pid: i32, wanted: &[(PathBuf, Probeset)]) -> BTreeSet<usize> {
    let process = u32::try_from(pid).ok().and_then(|pid| ProcessTarget::open(pid).ok());
    process.map(|process| engines_in(&process.into_files(), wanted)).unwrap_or_default()
}

fn engines_in(files: &Files, wanted: &[(PathBuf, Probeset)]) -> BTreeSet<usize> {
    let has = |(number, (_, probeset)): (usize, &(PathBuf, Probeset))| has_engine(probeset, files).then_some(number);
    wanted.iter().enumerate().filter_map(has).collect()
}

/// Where processes are looked for.
#[derive(Debug)]
enum Place {
    Anywhere,
    /// As `/proc/PID/cgroup` writes it.
    ControlGroup(String),
    Container(String),
}

/// The path of a control group below where it is mounted.
fn control_group(path: &Path) -> Result<String, Diagnostics> {
    let mounted = Path::new(CONTROL_GROUPS);
    let absolute =
        if path.starts_with(mounted) { path.to_owned() } else { mounted.join(path.strip_prefix("/").unwrap_or(path)) };
    if !absolute.is_dir() {
        let problem = Diagnostic::error(Code::BadArgument, format!("no control group {}", path.display()));
        return Err(problem.hint(format!("give its folder in {CONTROL_GROUPS}; `systemd-cgls` lists them")).into());
    }
    let below = absolute.strip_prefix(mounted).unwrap_or(&absolute);
    // The first version has a tree for each controller.
    let has_trees = !mounted.join("cgroup.controllers").exists();
    let below: PathBuf = below.components().skip(usize::from(has_trees)).collect();
    Ok(format!("/{}", below.display()))
}

impl Place {
    /// Whether a process is there, by its `/proc/PID/cgroup`.
    fn has(&self, groups: &str) -> bool {
        match self {
            Self::Anywhere => true,
            Self::ControlGroup(group) => paths(groups).any(|path| Path::new(path).starts_with(group)),
            Self::Container(wanted) => {
                let is_number = (SHORTEST..=NUMBER).contains(&wanted.len());
                let beginning = wanted.to_ascii_lowercase();
                paths(groups).any(|path| is_number && numbers(path).any(|number| number.starts_with(&beginning)))
                    || container::container(groups).is_some_and(|of| of.name.as_ref() == Some(wanted))
            }
        }
    }
}

/// An engine of a process, by the number of its probeset among those that are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct FoundIn {
    pub(crate) pid: i32,
    probeset: usize,
}

/// An engine that was found in a process.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Discovered {
    pub(crate) found_in: FoundIn,
    /// What the process calls itself.
    pub(crate) process: String,
    /// The probeset, as a recorder takes it.
    pub(crate) spec: PathBuf,
    /// The engine's name, by its probeset.
    pub(crate) engine: String,
    /// It was found before, and could not be followed.
    pub(crate) was_refused: bool,
}

/// Looks for processes.
#[derive(Debug)]
pub(crate) struct Discovery {
    wanted: Vec<(PathBuf, Probeset)>,
    place: Place,
    seen: HashMap<u32, Seen>,
    /// The numbers of the engines in a set of mapped files.
    sets: HashMap<u64, BTreeSet<usize>>,
    /// Processes that may not be read.
    unreadable: BTreeSet<u32>,
    problems: Problems,
}

/// Why processes could not be inspected, for the user: each reason once, however often it comes.
#[derive(Debug, Default)]
struct Problems {
    reasons: BTreeSet<Reason>,
    untold: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reason {
    TooManyFiles,
    UnreadableFile,
    UnreadableProcesses,
    HiddenProcesses,
}

impl Problems {
    fn add(&mut self, reason: Reason, text: impl FnOnce() -> String) {
        if self.reasons.insert(reason) {
            self.untold.push(text());
        }
    }
}

/// A process that was looked at.
#[derive(Debug)]
struct Seen {
    /// When it began: a number may be another process's later.
    started: u64,
    next: Instant,
    wait: Duration,
    mapped: u64,
    /// Its engines, by number.
    engines: BTreeMap<usize, Engine>,
}

/// An engine that a process has.
#[derive(Debug)]
struct Engine {
    found: Option<Instant>,
    was_refused: bool,
    /// When it is found again at the earliest.
    next: Instant,
    /// Time until it is found again if its recorder ends.
    retry: Duration,
}

/// What a process was found to have.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Inspected {
    /// The engines of these numbers.
    Engines(BTreeSet<usize>),
    /// It could not be inspected.
    Unreadable,
    /// Of a file that it has mapped, and that may be its engine, that is so.
    UnreadableFile(PathBuf),
    /// The same, because too many files are open.
    TooManyFiles,
}

impl Seen {
    fn new(started: u64, now: Instant) -> Self {
        Self { started, next: now, wait: WAIT[0], mapped: 0, engines: BTreeMap::new() }
    }

    /// The process has these engines now. Those that it has no more are forgotten once nobody follows them.
    fn update(&mut self, engines: &BTreeSet<usize>, now: Instant) {
        self.engines.retain(|number, engine| engine.found.is_some() || engines.contains(number));
        for number in engines {
            self.engines.entry(*number).or_insert_with(|| Engine::new(now));
        }
    }

    /// Whether an engine waits to be found again.
    fn is_due(&self, now: Instant) -> bool {
        now >= self.next || self.engines.values().any(|engine| engine.is_due(now))
    }
}

impl Engine {
    fn new(now: Instant) -> Self {
        Self { found: None, was_refused: false, next: now, retry: RETRY[0] }
    }

    fn is_due(&self, now: Instant) -> bool {
        self.found.is_none() && now >= self.next
    }

    /// Its recorder has ended, some time ago or now, and nobody has found it again.
    fn was_lost(&self) -> bool {
        self.found.is_none() && self.retry > RETRY[0]
    }
}

impl Discovery {
    fn new(wanted: Vec<(PathBuf, Probeset)>, place: Place) -> Self {
        let (seen, sets) = (HashMap::new(), HashMap::new());
        Self { wanted, place, seen, sets, unreadable: BTreeSet::new(), problems: Problems::default() }
    }

    /// An engine that was found could not be followed: it is found again, at one of the next looks at the process.
    pub(crate) fn refuse(&mut self, of: FoundIn) {
        let Some(seen) = u32::try_from(of.pid).ok().and_then(|pid| self.seen.get_mut(&pid)) else { return };
        seen.mapped = 0;
        if let Some(engine) = seen.engines.get_mut(&of.probeset) {
            (engine.found, engine.was_refused, engine.next) = (None, true, seen.next);
        }
    }

    /// The recorder of an engine that was found has ended. If the process has not, it is found again, after a time that
    /// is longer each time unless a recorder ran for long. Gives that time.
    pub(crate) fn lost(&mut self, of: FoundIn) -> Option<Duration> {
        self.lost_at(of, Instant::now())
    }

    fn lost_at(&mut self, of: FoundIn, now: Instant) -> Option<Duration> {
        let pid = u32::try_from(of.pid).ok()?;
        let started = started(pid)?;
        let seen = self.seen.get_mut(&pid).filter(|seen| seen.started == started)?;
        let engine = seen.engines.get_mut(&of.probeset)?;
        let followed = now.saturating_duration_since(engine.found.take()?);
        let wait = if followed < RETRY[1] { engine.retry } else { RETRY[0] };
        (engine.next, engine.retry, engine.was_refused) = (now + wait, (2 * wait).min(RETRY[1]), false);
        seen.mapped = 0;
        Some(wait)
    }

    /// The probeset of an engine that was found, as a recorder takes it.
    pub(crate) fn name(&self, of: FoundIn) -> &Path {
        self.wanted.get(of.probeset).map_or(Path::new(""), |(spec, _)| spec)
    }

    /// Whether an engine whose recorder has ended is still to be found again.
    pub(crate) fn is_expected(&self, of: FoundIn) -> bool {
        let seen = u32::try_from(of.pid).ok().and_then(|pid| self.seen.get(&pid));
        seen.and_then(|seen| seen.engines.get(&of.probeset)).is_some_and(Engine::was_lost)
    }

    /// Why processes could not be inspected, for the user; each reason once.
    pub(crate) fn take_problems(&mut self) -> Vec<String> {
        std::mem::take(&mut self.problems.untold)
    }

    /// The engines that were not found before, by now.
    pub(crate) fn look(&mut self) -> Vec<Discovered> {
        let now = Instant::now();
        // Without a list of them none has ended.
        let Some(running) = processes() else { return Vec::new() };
        self.seen.retain(|pid, _| running.contains(pid));
        self.unreadable.retain(|pid| running.contains(pid));
        let mut read = FileStore::default();
        let mut found = Vec::new();
        for pid in running {
            if self.seen.get(&pid).is_some_and(|seen| !seen.is_due(now)) {
                continue;
            }
            let Some(started) = started(pid) else {
                if is_forbidden(pid) {
                    self.unreadable.insert(pid);
                }
                continue;
            };
            let seen = self.seen.entry(pid).or_insert_with(|| Seen::new(started, now));
            if seen.started != started {
                *seen = Seen::new(started, now);
            }
            if now >= seen.next {
                seen.next = now + seen.wait;
                seen.wait = (2 * seen.wait).min(WAIT[1]);
            }
            let groups = read_text(pid, "cgroup");
            if groups.as_ref().is_ok_and(|groups| !self.place.has(groups)) {
                continue;
            }
            let maps = match groups.and_then(|_| read_text(pid, "maps")) {
                Ok(maps) => maps,
                Err(error) => {
                    if error.kind() == ErrorKind::PermissionDenied {
                        self.unreadable.insert(pid);
                    }
                    continue;
                }
            };
            self.unreadable.remove(&pid);
            let mapped = mapped(&maps);
            if seen.mapped != mapped {
                match inspect(&self.wanted, &mut self.sets, (pid, mapped), &mut read) {
                    Inspected::Engines(engines) => {
                        seen.update(&engines, now);
                        seen.mapped = mapped;
                    }
                    // It is inspected again, whether it maps something or not.
                    Inspected::Unreadable => continue,
                    Inspected::UnreadableFile(path) => {
                        self.problems.add(Reason::UnreadableFile, || unreadable_file(pid, &process(pid), &path));
                        continue;
                    }
                    Inspected::TooManyFiles => {
                        self.problems.add(Reason::TooManyFiles, || too_many_files(pid, &process(pid)));
                        continue;
                    }
                }
            }
            for (number, engine) in seen.engines.iter_mut().filter(|(_, engine)| engine.is_due(now)) {
                let Some((spec, probeset)) = self.wanted.get(*number) else { continue };
                let Ok(pid_number) = i32::try_from(pid) else { continue };
                engine.found = Some(now);
                found.push(Discovered {
                    found_in: FoundIn { pid: pid_number, probeset: *number },
                    process: process(pid),
                    spec: spec.clone(),
                    engine: probeset.engine.value.clone(),
                    was_refused: engine.was_refused,
                });
            }
        }
        self.note_unreadable();
        if read.open_files() > 0 {
            drop(read);
            memory::give_back();
        }
        found
    }

    fn note_unreadable(&mut self) {
        let count = self.unreadable.len();
        if count > 0 {
            self.problems.add(Reason::UnreadableProcesses, || unreadable_processes(count));
        }
        // Each namespace of processes has a first one.
        if !Path::new("/proc/1").exists() {
            self.problems.add(Reason::HiddenProcesses, || {
                format!(
                    "processes of other users are hidden (`hidepid` of /proc), and are not searched for an engine: {}",
                    what_is_missing()
                )
            });
        }
    }
}

/// What lets this program read other users' processes.
fn what_is_missing() -> String {
    if CAP_SYS_PTRACE.is_granted() {
        return "a security module or a user namespace forbids it".to_owned();
    }
    format!("missing {}; {}", CAP_SYS_PTRACE.name, grant(&[]))
}

fn unreadable_processes(count: usize) -> String {
    let what = match count {
        1 => "1 process cannot be read, and is".to_owned(),
        _ => format!("{} processes cannot be read, and are", group_digits(count as u64)),
    };
    format!("{what} not searched for an engine: {}", what_is_missing())
}

fn unreadable_file(pid: u32, process: &str, path: &Path) -> String {
    format!(
        "process {pid} ({}) may have an engine in {}, which cannot be read: run profinfer as root, or with \
         CAP_DAC_READ_SEARCH",
        printable(process),
        printable(&path.display().to_string())
    )
}

fn too_many_files(pid: u32, process: &str) -> String {
    format!(
        "process {pid} ({}) has more files than profinfer may open, and is not searched for an engine: allow more \
         (`ulimit -n`)",
        printable(process)
    )
}

/// What a process calls itself.
fn process(pid: u32) -> String {
    read_text(pid, "comm").unwrap_or_default().trim_end().to_owned()
}

/// Which engines a process has. What is not certain is not cached.
fn inspect(
    wanted: &[(PathBuf, Probeset)],
    sets: &mut HashMap<u64, BTreeSet<usize>>,
    of: (u32, u64),
    read: &mut FileStore,
) -> Inspected {
    if read.open_files() >= MOST_OPEN {
        *read = FileStore::default();
    }
    let mut inspected = inspect_with(wanted, sets, of, read);
    if inspected == Inspected::TooManyFiles {
        // Those of the processes before it are closed.
        *read = FileStore::default();
        inspected = inspect_with(wanted, sets, of, read);
    }
    if inspected == Inspected::TooManyFiles {
        *read = FileStore::default();
    }
    inspected
}

fn inspect_with(
    wanted: &[(PathBuf, Probeset)],
    sets: &mut HashMap<u64, BTreeSet<usize>>,
    (pid, mapped): (u32, u64),
    read: &FileStore,
) -> Inspected {
    if let Some(cached) = sets.get(&mapped) {
        return Inspected::Engines(cached.clone());
    }
    let Ok(process) = ProcessTarget::open_stored(pid, Files::with_user_cache(), read.clone()) else {
        return Inspected::Unreadable;
    };
    if process.lacked_descriptors() {
        return Inspected::TooManyFiles;
    }
    let is_module = |path: &&PathBuf| wanted.iter().any(|(_, probeset)| may_be_module(probeset, path));
    let unreadable = process.unreadable().iter().find(is_module).cloned();
    let engines = engines_in(&process.into_files(), wanted);
    if let (true, Some(path)) = (engines.is_empty(), unreadable) {
        return Inspected::UnreadableFile(path);
    }
    if sets.len() >= MAX_SETS {
        sets.clear();
    }
    sets.insert(mapped, engines.clone());
    Inspected::Engines(engines)
}

/// Whether a file has the name of one of a probeset's modules.
fn may_be_module(probeset: &Probeset, path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    probeset.modules.values().flat_map(|module| &module.globs).any(|glob| glob_matches(&glob.value, &name))
}

/// The numbers of all processes but this one.
fn processes() -> Option<BTreeSet<u32>> {
    let entries = std::fs::read_dir("/proc").ok()?.flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    Some(numbers.filter(|pid| *pid != std::process::id()).collect())
}

/// When a process began, in ticks since the machine was started; `None` for one that has ended.
fn started(pid: u32) -> Option<u64> {
    ProcessStat::read(pid).filter(|stat| !matches!(stat.state, 'Z' | 'X')).map(|stat| stat.started)
}

/// Whether not even that may be read: `hidepid=1`.
fn is_forbidden(pid: u32) -> bool {
    bounded::read(format!("/proc/{pid}/stat"), 1).is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
}

fn read_text(pid: u32, name: &str) -> io::Result<String> {
    let bytes = bounded::read(format!("/proc/{pid}/{name}"), MAX_PROC_FILE)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// What identifies the set of files that a process executes; 0 for none.
fn mapped(maps: &str) -> u64 {
    let executable = maps::parse(maps.as_bytes()).filter(|mapping| mapping.executable);
    let files: BTreeSet<((u32, u32), u64)> = executable.map(|mapping| (mapping.device, mapping.inode)).collect();
    if files.is_empty() {
        return 0;
    }
    let mut hasher = DefaultHasher::new();
    files.hash(&mut hasher);
    hasher.finish().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NUMBER: &str = "4d1b1e7c1f5e4d1b1e7c1f5e4d1b1e7c1f5e4d1b1e7c1f5e4d1b1e7c1f5eabcd";

    #[test]
    fn containers_are_known_by_the_paths_that_runtimes_make() {
        let container = Place::Container(NUMBER[..12].to_owned());
        for path in [
            format!("0::/machine.slice/libpod-{NUMBER}.scope/container"),
            format!("0::/system.slice/docker-{NUMBER}.scope"),
            format!("12:cpu:/docker/{NUMBER}\n0::/"),
            format!("0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-{NUMBER}.scope"),
        ] {
            assert!(container.has(&path), "{path}");
        }
        for path in
            ["0::/system.slice/4d1b1e7c1f5e.service".to_owned(), format!("0::/a-{}", &NUMBER[1..]), String::new()]
        {
            assert!(!container.has(&path), "{path}");
        }
        assert!(Place::Container("4D1B1E7C".into()).has(&format!("0::/docker/{NUMBER}")));
        assert!(!Place::Container("4d1".into()).has(&format!("0::/docker/{NUMBER}")), "too short, and no name");
        assert!(super::container("web_1").is_ok() && super::container("").is_err() && super::container("a b").is_err());
    }

    #[test]
    fn groups_have_those_below_them() {
        let group = Place::ControlGroup("/system.slice/llm".into());
        assert!(group.has("0::/system.slice/llm") && group.has("3:cpu:/system.slice/llm/worker\n0::/"));
        assert!(!group.has("0::/system.slice/llm2") && !group.has("0::/") && !group.has("broken"));
        assert!(Place::ControlGroup("/".into()).has("0::/anything"), "the root has all");
    }

    /// A process that sleeps, and a search that inspects it alone, and finds an engine in it.
    fn sleeping() -> (std::process::Child, Discovery) {
        let child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id();
        let probeset = offered().into_iter().next().unwrap();
        let mut discovery = Discovery::new(vec![(PathBuf::from("engine"), probeset)], Place::Anywhere);
        // The child alone is looked at, and has the engine, once it executes what it will.
        let maps = loop {
            let maps = read_text(pid, "maps").unwrap();
            if maps.contains("sleep") && read_text(pid, "comm").is_ok_and(|name| name == "sleep\n") {
                break maps;
            }
        };
        let soon = Instant::now() + Duration::from_secs(600);
        let others = processes().unwrap().into_iter().filter(|other| *other != pid);
        discovery.seen.extend(others.map(|other| (other, Seen { next: soon, ..Seen::new(0, soon) })));
        discovery.sets.insert(mapped(&maps), BTreeSet::from([0]));
        (child, discovery)
    }

    /// Whether the process was refused, if it is found now.
    fn look(discovery: &mut Discovery, pid: u32) -> Vec<bool> {
        if let Some(seen) = discovery.seen.get_mut(&pid) {
            seen.next = Instant::now();
            seen.engines.values_mut().for_each(|engine| engine.next = seen.next);
        }
        let found = discovery.look();
        let of_pid = found.iter().filter(|found| found.found_in.pid.cast_unsigned() == pid);
        of_pid.map(|found| found.was_refused).collect()
    }

    #[test]
    fn a_process_that_was_refused_is_found_again() {
        let (mut child, mut discovery) = sleeping();
        let pid = child.id();
        let mut looks: Vec<Vec<bool>> = vec![look(&mut discovery, pid), look(&mut discovery, pid)];
        discovery.refuse(FoundIn { pid: pid.cast_signed(), probeset: 0 });
        looks.extend([look(&mut discovery, pid), look(&mut discovery, pid)]);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(looks, [vec![false], vec![], vec![true], vec![]]);
    }

    #[test]
    fn a_process_whose_recorder_has_ended_is_found_again_later_and_later() {
        let (mut child, mut discovery) = sleeping();
        let (pid, found_in) = (child.id(), FoundIn { pid: child.id().cast_signed(), probeset: 0 });
        assert_eq!(discovery.lost(found_in), None, "it was not found");
        let mut waits = Vec::new();
        for _ in 0..11 {
            assert_eq!(look(&mut discovery, pid), [false]);
            assert!(!discovery.is_expected(found_in));
            waits.push(discovery.lost(found_in).unwrap().as_secs());
            assert!(discovery.is_expected(found_in));
            assert!(discovery.look().iter().all(|found| found.found_in != found_in), "it is not time yet");
            assert_eq!(discovery.lost(found_in), None, "once");
        }
        assert_eq!(waits, [2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600]);
        // A recorder that ran for long.
        assert_eq!(look(&mut discovery, pid), [false]);
        assert_eq!(discovery.lost_at(found_in, Instant::now() + RETRY[1]), Some(RETRY[0]));
        // Another process has its number.
        assert_eq!(look(&mut discovery, pid), [false]);
        discovery.seen.get_mut(&pid).unwrap().started -= 1;
        assert_eq!(discovery.lost(found_in), None);
        assert_eq!(look(&mut discovery, pid), [false], "it is found for itself");
        child.kill().unwrap();
        while started(pid).is_some() {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(discovery.lost(found_in), None, "it has ended");
        child.wait().unwrap();
    }

    #[test]
    fn this_process_is_not_found_and_each_other_is_once() {
        let mut discovery = Discovery::new(Vec::new(), Place::Anywhere);
        assert_eq!(discovery.look(), []);
        assert!(!discovery.seen.contains_key(&std::process::id()) && discovery.seen.contains_key(&1));
        let next = discovery.seen[&1].next;
        discovery.look();
        assert_eq!(discovery.seen[&1].next, next, "it is not time yet");
    }
}
