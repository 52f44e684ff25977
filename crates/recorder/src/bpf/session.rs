//! A generated program in the kernel. Its maps are made once; programs are loaded in *generations*, each with the
//! constants that were found when it was needed, all on the same maps: a library mapped later brings a generation, and
//! nothing that was recorded or remembered before is lost by it. Of what libbpf has loaded only descriptors are stored:
//! its object, with the code and the types of every program, is closed.

mod accounts;
mod kernel_events;
mod sampler;

use super::attacher::{At, Attacher, FailedSite, FileSite, Function, Part, attach_type};
use super::features::{AttachMode, missing_privilege};
use super::job_formats::JobFormats;
use super::libbpf_messages::LibbpfMessages;
use super::open_spans::OpenSpans;
use super::packed::PackedObject;
use super::site_program::COOKIES;
use super::variables::{self, SharedVariables, Variable, variables};
use super::verifier::load_problems;
use kernel_events::KernelEvents;
use libbpf_rs::{
    Iter, Link, MapCore, MapFlags, MapHandle, Object, ObjectBuilder, OpenObject, ProgramAttachType, ProgramMut,
};
use nix::errno::Errno;
use profinfer_compiler::{Program, ProgramKind};
use profinfer_diagnostics::{Code, Diagnostic, Diagnostics, Source};
use profinfer_schema::bpf::LOSSES_PER_TYPE;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

/// Programs that objects have, attached by themselves, and the records they make. The last is only in those for old
/// kernels, the one before only in those that record wake-ups.
const TRACKERS: [(&str, &str); 5] = [
    ("pf_thread_exit", "thread_exit"),
    ("pf_fork", "fork"),
    ("pf_exec", "exec"),
    ("pf_wakeup_new", "wakeup"),
    ("pf_thread_gone", "thread"),
];
/// The program at the dynamic linker's notice of a mapped library.
const LINKER: &str = "pf_mapped";
/// Programs that every object has.
const NEEDED: [&str; 5] = ["pf_thread_exit", "pf_fork", "pf_exec", LINKER, END];
/// Maps that every object has.
const MAPS: [&str; 3] = ["pf_ring", "pf_losses", "pf_threads"];
/// Its index among the links.
const AT_LINKER: usize = usize::MAX;
/// The program that reads the cpus' counters when threads come and go, in objects that count.
const COUNTING: &str = "pf_count_switch";
/// The program that shows what every thread has lost since its last record.
const END: &str = "pf_end";
/// The constant that tells whether a program can ask which site it runs at, in objects for kernels where it may not.
const HAS_COOKIES: &str = "pf_has_cookies";
/// A ring buffer is a power of two of at least this many bytes (a page).
const SMALLEST_RING: u32 = 4096;

/// Links are closed by this many threads at most.
const DETACHING_THREADS: usize = 32;

/// What a session starts with.
#[derive(Debug, Clone)]
pub struct Setup<'a> {
    /// The probeset's files, for the verifier's messages.
    pub sources: &'a [Arc<Source>],
    /// The plan's programs.
    pub programs: &'a [Program],
    /// Types of records in the schema.
    pub record_types: usize,
    /// Bytes of the ring buffer; made a power of two.
    pub ring_bytes: u32,
    /// Constants that no target decides.
    pub constants: BTreeMap<String, u64>,
    /// The names of those that the target decides.
    pub target_constants: BTreeSet<String>,
    /// The counters' events: place among the entries, and descriptor.
    pub events: &'a [(u32, OwnedFd)],
    /// How many there may be.
    pub event_entries: u32,
    /// Where the kernel's events of devices' jobs have their fields.
    pub jobs: &'a JobFormats,
    /// How uprobes are attached.
    pub mode: AttachMode,
}

/// Functions of one load, with the constants they were loaded with.
#[derive(Debug)]
struct Generation {
    functions: BTreeMap<String, Function>,
    values: BTreeMap<String, u64>,
}

impl Generation {
    fn has(&self, program: usize) -> bool {
        self.functions.values().any(|function| function.program == Some(program))
    }
}

/// A file that programs are attached to.
#[derive(Debug, Clone, Copy)]
pub struct ProbedFile<'f> {
    /// What leads the kernel to it.
    pub path: &'f Path,
    /// Its device and inode.
    pub id: (u64, u64),
}

/// A program that is attached.
#[derive(Debug)]
enum Attached {
    /// To places in a file: the program (index into the plan's, or [`AT_LINKER`]) and the file's device and inode.
    ToFile(usize, (u64, u64), OwnedFd),
    /// To an event of the kernel.
    ToKernel(Link),
}

impl Attached {
    fn close(self) {
        match self {
            Self::ToFile(_, _, link) => drop(link),
            Self::ToKernel(link) => drop(link),
        }
    }
}

/// A generated program in the kernel. Dropping it detaches everything.
#[derive(Debug)]
pub struct Session<'a> {
    links: Vec<Attached>,
    end: Option<Link>,
    generations: Vec<Generation>,
    /// Of all generations, by name.
    maps: BTreeMap<String, MapHandle>,
    shared: SharedVariables,
    setup: Setup<'a>,
    object: PackedObject,
    variables: HashMap<String, Variable>,
    open_spans: OpenSpans,
    loss_entries: u32,
    kernel_events: KernelEvents,
}

impl<'a> Session<'a> {
    /// Makes the maps of a compiled program, and loads and attaches what follows threads and processes and the probeset's
    /// tracepoints. Nothing is recorded before [`Session::enable`].
    ///
    /// # Errors
    /// B003 (verifier), B004 (kernel), B005 (privilege); X001 where the object is not what the recorder expects.
    pub fn open(object: &[u8], setup: Setup<'a>) -> Result<Self, Diagnostics> {
        let found = variables(object);
        variables::check(&found, &setup.constants, &setup.target_constants)?;
        let mut session = Self {
            links: Vec::new(),
            end: None,
            kernel_events: KernelEvents::of(setup.programs, setup.jobs),
            generations: Vec::new(),
            maps: BTreeMap::new(),
            shared: SharedVariables::default(),
            variables: found,
            open_spans: OpenSpans::default(),
            loss_entries: u32::try_from(setup.record_types).unwrap_or(u32::MAX).saturating_mul(LOSSES_PER_TYPE),
            setup,
            object: PackedObject::new(object)?,
        };
        let by_themselves: BTreeSet<&str> =
            TRACKERS.into_iter().map(|(program, _)| program).chain([COUNTING]).collect();
        let of_runtime = by_themselves.iter().copied().chain([LINKER, END]);
        let names: BTreeSet<String> = session.kernel_events.functions().chain(of_runtime).map(str::to_owned).collect();
        let object = session.load_object(&names.iter().map(String::as_str).collect(), &BTreeMap::new())?;
        session.check_object(&object)?;
        session.share_maps(&object)?;
        session.fill_events()?;
        session.attach_by_themselves(&object, &by_themselves)?;
        // Nothing runs before it is read from.
        let end = object.progs_mut().find(|program| program.name() == END);
        session.end = end.and_then(|program| program.attach().ok());
        session.open_spans = object.btf().ok().flatten().map(|btf| OpenSpans::of(&btf)).unwrap_or_default();
        session.add_generation(&object, BTreeMap::new(), |name| names.contains(name).then_some(None))?;
        Ok(session)
    }

    /// Whether the object has the programs and maps that are found in it by name.
    fn check_object(&self, object: &Object) -> Result<(), Diagnostic> {
        let bug = |what: &str, name: &str| {
            Diagnostic::error(Code::Bug, format!("bug: the BPF object has no {what} `{name}`"))
        };
        let programs: BTreeSet<String> =
            object.progs_mut().map(|program| program.name().to_string_lossy().into_owned()).collect();
        let planned = self.setup.programs.iter();
        let functions = planned.clone().flat_map(|program| self.parts(program)).map(|part| part.name);
        let of_kernel = planned.flat_map(Program::at_kernel_events).map(|(function, _)| function);
        let needed = functions.chain(of_kernel).chain(NEEDED.map(str::to_owned));
        if let Some(name) = { needed }.find(|name| !programs.contains(name)) {
            return Err(bug("program", &name));
        }
        let maps: Vec<String> = object.maps().map(|map| map.name().to_string_lossy().into_owned()).collect();
        match MAPS.iter().find(|name| !maps.iter().any(|map| map == **name)) {
            Some(name) => Err(bug("map", name)),
            None => Ok(()),
        }
    }

    /// Loads those programs (indices into the plan's) that are not loaded with these constants already.
    ///
    /// # Errors
    /// B003 (verifier), B004 (kernel), B005 (privilege).
    pub fn load(&mut self, programs: &BTreeSet<usize>, values: &BTreeMap<String, u64>) -> Result<(), Diagnostics> {
        let missing: BTreeSet<usize> =
            programs.iter().copied().filter(|program| self.generation_of(*program, values).is_none()).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let planned = missing.iter().filter_map(|index| Some((*index, self.setup.programs.get(*index)?)));
        let names: BTreeMap<String, usize> = planned
            .flat_map(|(index, program)| self.parts(program).into_iter().map(move |part| (part.name, index)))
            .collect();
        let object = self.load_object(&names.keys().map(String::as_str).collect(), values)?;
        self.add_generation(&object, values.clone(), |name| names.get(name).map(|program| Some(*program)))
    }

    /// Stores the descriptors of what was loaded of an object: `loaded` has its functions' names, and the programs of the
    /// plan that they are parts of.
    fn add_generation(
        &mut self,
        object: &Object,
        values: BTreeMap<String, u64>,
        loaded: impl Fn(&str) -> Option<Option<usize>>,
    ) -> Result<(), Diagnostics> {
        let mut functions = BTreeMap::new();
        for function in object.progs_mut() {
            let name = function.name().to_string_lossy().into_owned();
            let Some(program) = loaded(&name) else { continue };
            let descriptor = function.as_fd().try_clone_to_owned().map_err(|error| cannot_share(&error))?;
            functions.insert(name, Function::new(descriptor, program));
        }
        self.generations.push(Generation { functions, values });
        Ok(())
    }

    /// Stores the maps of the first object, which all generations share, and maps its variables.
    fn share_maps(&mut self, object: &Object) -> Result<(), Diagnostic> {
        for map in object.maps() {
            let handle = MapHandle::try_from(&map).map_err(|error| cannot_share(&error))?;
            self.maps.insert(map.name().to_string_lossy().into_owned(), handle);
        }
        self.shared = SharedVariables::of(&self.maps).map_err(|error| cannot_share(&error))?;
        Ok(())
    }

    /// The newest generation (index) that has a program, with constants that do not contradict these.
    fn generation_of(&self, program: usize, values: &BTreeMap<String, u64>) -> Option<usize> {
        let agrees = |generation: &Generation| {
            values.iter().all(|(name, value)| generation.values.get(name).is_none_or(|loaded| loaded == value))
        };
        self.generations.iter().rposition(|generation| generation.has(program) && agrees(generation))
    }

    fn load_object(&self, names: &BTreeSet<&str>, values: &BTreeMap<String, u64>) -> Result<Object, Diagnostics> {
        let bytes = self.object.unpacked()?;
        let messages = LibbpfMessages::capture();
        let problems = |error: &libbpf_rs::Error| load_problems(error, &messages.text(), self.setup.sources);
        let mut builder = ObjectBuilder::default();
        // Maps of variables have the object's name before theirs, which is the bytes' address unless it is given.
        let builder = builder.name("profinfer").map_err(|error| problems(&error))?;
        let mut open = builder.open_memory(&bytes).map_err(|error| problems(&error))?;
        self.prepare_maps(&mut open, values).map_err(|error| problems(&error))?;
        for mut program in open.progs_mut() {
            program.set_autoload(names.contains(&*program.name().to_string_lossy()));
            let section = program.section().to_string_lossy();
            if self.setup.mode == AttachMode::Single && (section.contains("probe.multi") || section.contains("session"))
            {
                program.set_attach_type(ProgramAttachType::CgroupInetIngress); // 0: none in particular
            }
        }
        open.load().map_err(|error| problems(&error))
    }

    /// Sizes and constants for the first generation; the first one's maps, but other constants, for the others.
    fn prepare_maps(&self, open: &mut OpenObject, values: &BTreeMap<String, u64>) -> libbpf_rs::Result<()> {
        for mut map in open.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            if name.ends_with(".rodata") {
                self.set_constants(map.initial_value_mut().unwrap_or_default(), values);
            } else if let Some(shared) = self.maps.get(&name) {
                map.reuse_fd(shared.as_fd())?;
            } else if name == "pf_ring" {
                let bytes = self.setup.ring_bytes.clamp(SMALLEST_RING, 1 << 31).next_power_of_two();
                map.set_max_entries(bytes)?;
            } else if name == "pf_events" {
                map.set_max_entries(self.setup.event_entries.max(1))?;
            } else if name == "pf_losses" {
                map.set_max_entries(self.loss_entries.max(1))?;
            }
        }
        Ok(())
    }

    /// Gives the programs the counters' events.
    fn fill_events(&self) -> Result<(), Diagnostic> {
        let Some(map) = self.maps.get("pf_events") else { return Ok(()) };
        for (place, event) in self.setup.events {
            let fd = event.as_raw_fd().to_ne_bytes();
            map.update(&place.to_ne_bytes(), &fd, MapFlags::ANY).map_err(|error| {
                Diagnostic::error(Code::KernelFeature, format!("counters cannot be given to programs: {error}"))
                    .hint("record without counters")
            })?;
        }
        Ok(())
    }

    fn set_constants(&self, rodata: &mut [u8], values: &BTreeMap<String, u64>) {
        for (name, value) in self.setup.constants.iter().chain(values) {
            let place = self.variables.get(name).filter(|variable| variable.section == ".rodata" && variable.size == 8);
            let bytes = place.and_then(|variable| rodata.get_mut(variable.offset..variable.offset.checked_add(8)?));
            if let Some(bytes) = bytes {
                bytes.copy_from_slice(&value.to_ne_bytes());
            }
        }
    }

    /// Attaches a loaded program at places in one file, in one process or (`None`) all; gives the places that failed.
    pub fn attach(
        &mut self,
        program: usize,
        values: &BTreeMap<String, u64>,
        file: ProbedFile<'_>,
        process: Option<i32>,
        sites: &[FileSite],
    ) -> Vec<FailedSite> {
        let all_failed =
            |reason: &str| sites.iter().map(|site| FailedSite { site: *site, reason: reason.to_owned() }).collect();
        let Some(planned) = self.setup.programs.get(program) else { return all_failed("no such program") };
        let parts = self.parts(planned);
        if let Err(error) = self.load_at_sites(program, values, &parts, sites) {
            return all_failed(error.desc());
        }
        let Some(generation) = self.generation_of(program, values) else { return all_failed("it is not loaded") };
        let functions = &self.generations[generation].functions;
        let attacher = Attacher { functions, mode: self.setup.mode, file: file.path, process };
        let mut links = Vec::new();
        let mut failed = Vec::new();
        attacher.attach_most(&parts, sites, &mut links, &mut failed);
        let attached = |link| Attached::ToFile(program, file.id, link);
        self.links.extend(links.into_iter().map(attached));
        failed
    }

    /// Where programs cannot ask which site they run at, loads those of these sites.
    fn load_at_sites(
        &mut self,
        program: usize,
        values: &BTreeMap<String, u64>,
        parts: &[Part],
        sites: &[FileSite],
    ) -> nix::Result<()> {
        let can_ask = !self.variables.contains_key(HAS_COOKIES) || self.setup.constants.get(HAS_COOKIES) == Some(&1);
        let Some(generation) = self.generation_of(program, values).filter(|_| !can_ask) else { return Ok(()) };
        let (cookies, mode) = (self.maps.get(COOKIES).ok_or(Errno::ENOENT)?, self.setup.mode);
        for part in parts {
            if let Some(function) = self.generations[generation].functions.get_mut(&part.name) {
                function.load_at(sites, cookies.as_fd(), attach_type(mode, part.at))?;
            }
        }
        Ok(())
    }

    /// Attaches the program that stops the target when its dynamic linker has mapped a library.
    ///
    /// # Errors
    /// Why not, in the system's words.
    pub fn attach_linker(
        &mut self,
        file: ProbedFile<'_>,
        process: Option<i32>,
        file_offset: u64,
    ) -> Result<(), String> {
        let Some(first) = self.generations.first() else { return Err("nothing is loaded".to_owned()) };
        let attacher = Attacher { functions: &first.functions, mode: self.setup.mode, file: file.path, process };
        let part = Part { name: LINKER.to_owned(), at: At::Entry };
        let links = attacher
            .attach_all(std::slice::from_ref(&part), &[FileSite { file_offset, cookie: 0, semaphore: None }])?;
        let attached = |link| Attached::ToFile(AT_LINKER, file.id, link);
        self.links.extend(links.into_iter().map(attached));
        Ok(())
    }

    /// The C functions of a program in this session's way of attaching.
    fn parts(&self, program: &Program) -> Vec<Part> {
        let part = |suffix: &str, at| Part { name: format!("{}{suffix}", program.name), at };
        match (program.kind, self.setup.mode) {
            (ProgramKind::Tracepoint, _) => Vec::new(),
            (ProgramKind::Entry, _) => vec![part("_entry", At::Entry)],
            (ProgramKind::Span, AttachMode::Session) => vec![part("", At::Both)],
            (ProgramKind::Span, _) => vec![part("_return", At::Return), part("_entry", At::Entry)],
        }
    }

    /// Detaches everything. Records may still be in the ring.
    pub fn detach(&mut self) {
        close(std::mem::take(&mut self.links));
    }

    /// Takes the links whose program and file are wanted.
    fn take_links(&mut self, wanted: impl Fn(usize, (u64, u64)) -> bool) -> Vec<Attached> {
        let wanted =
            |attached: &mut Attached| matches!(attached, Attached::ToFile(program, file, _) if wanted(*program, *file));
        self.links.extract_if(.., wanted).collect()
    }

    /// Detaches these programs on a separate thread: the kernel takes its time to make sure that none runs any more,
    /// and the target may have to be answered.
    pub fn detach_aside(&mut self, programs: &BTreeSet<usize>) -> Detachment {
        let links = self.take_links(|program, _| programs.contains(&program));
        // Where that fails, what it was to run is dropped, and with it the links.
        Detachment(std::thread::Builder::new().spawn(move || close(links)).ok())
    }

    /// Detaches these programs, each from one file (device and inode).
    pub fn detach_programs(&mut self, programs: &BTreeSet<(usize, (u64, u64))>) {
        close(self.take_links(|program, file| programs.contains(&(program, file))));
    }

    /// Detaches all programs from a file (device and inode).
    pub fn detach_file(&mut self, id: (u64, u64)) {
        close(self.take_links(|_, file| file == id));
    }

    /// Has detail count that begins from `since` until `until`: ns, CLOCK_MONOTONIC. Programs of a session with the
    /// constant `pf_detail_switches` record no other.
    pub fn set_detail(&self, since: u64, until: u64) {
        self.set("pf_step_came", 0);
        self.set("pf_detail_since", since);
        self.set("pf_detail_until", until);
    }

    /// Has calls at these sites, which are of a method's other slots, neither count as lost nor contain others when their
    /// probes are removed while they are open.
    pub fn leave_other_slots(&self, sites: impl Iterator<Item = u16>) {
        let Some(map) = self.maps.get("pf_other_sites") else { return };
        for site in sites.map(u32::from) {
            // The map has space for all. Where it failed, calls would count as lost that are not.
            let _ = map.update(&site.to_ne_bytes(), &1_u32.to_ne_bytes(), MapFlags::ANY);
        }
        self.set("pf_other_slots", 1);
    }

    /// Fills in a constant of the target that was learned while the programs run.
    pub fn set_constant(&self, name: &str, value: u64) {
        self.set(name, value);
    }

    /// Whether a constant is fixed once its program is loaded.
    pub fn is_fixed(&self, name: &str) -> bool {
        self.variables.get(name).is_none_or(|variable| variable.section == ".rodata")
    }

    fn set(&self, name: &str, value: u64) {
        if let Some(variable) = self.variable(name) {
            variable.store(value, Ordering::SeqCst);
        }
    }

    /// Has no detail count that begins from `until` on.
    pub fn end_detail(&self, until: u64) {
        self.set("pf_detail_until", until);
    }

    /// Has graphs come and go with the detail.
    pub fn switch_graphs(&self) {
        self.set("pf_graphs_switch", 1);
    }

    /// Has steps come and go with the detail.
    pub fn switch_steps(&self) {
        self.set("pf_steps_switch", 1);
    }

    /// Has no span have `waiting` that has not ended before `until`: ns, CLOCK_MONOTONIC.
    pub fn end_waiting(&self, until: u64) {
        self.set("pf_waiting_until", until);
    }

    /// Has spans have `waiting` again that begin from `since` on, which is later than any instant before.
    pub fn begin_waiting(&self, since: u64) {
        // In this order: what began before `since` never has it.
        self.set("pf_waiting_since", since);
        self.set("pf_waiting_until", u64::MAX);
    }

    /// How this session attaches.
    pub fn mode(&self) -> AttachMode {
        self.setup.mode
    }

    /// Detaches whatever is attached to places in files.
    pub fn detach_files(&mut self) {
        close(self.take_links(|_, _| true));
    }

    /// Lets the programs record.
    pub fn enable(&self) {
        if let Some(enabled) = self.variable("pf_enabled") {
            enabled.store(1, Ordering::SeqCst);
        }
    }

    /// Stops the programs recording, at once and without detaching them.
    pub fn disable(&self) {
        if let Some(enabled) = self.variable("pf_enabled") {
            enabled.store(0, Ordering::SeqCst);
        }
    }

    /// Has every thread show what it has lost since its last record; to be called once nothing is recorded any more.
    pub fn show_losses(&self) {
        let walk = self.end.as_ref().and_then(|link| Iter::new(link).ok());
        if let Some(mut walk) = walk {
            // One program a thread; it writes records, but nothing to read here.
            let _ = std::io::copy(&mut walk, &mut std::io::sink());
        }
    }

    /// Steps begun so far.
    pub fn steps(&self) -> u64 {
        self.variable("pf_steps").map_or(0, |steps| steps.load(Ordering::Relaxed))
    }

    /// Threads that are in a step now.
    pub fn within_steps(&self) -> u64 {
        self.variable("pf_within_steps").map_or(0, |threads| threads.load(Ordering::Relaxed))
    }

    /// Calls that were made on stacks that the target allocated, so that their returns must not be probed.
    pub fn calls_elsewhere(&self) -> u64 {
        self.variable("pf_calls_elsewhere").map_or(0, |calls| calls.load(Ordering::Relaxed))
    }

    /// A `u64` variable that the programs share with this process.
    fn variable(&self, name: &str) -> Option<&AtomicU64> {
        let variable = self.variables.get(name).filter(|variable| variable.section != ".rodata")?;
        self.shared.word(variable)
    }

    /// The ring buffer.
    ///
    /// # Errors
    /// X001 where the object has none.
    pub fn ring(&self) -> Result<MapHandle, Diagnostic> {
        self.shared("pf_ring")
    }

    /// A map that others than the session use.
    ///
    /// # Errors
    /// X001 where the object has none of that name.
    pub fn shared(&self, name: &str) -> Result<MapHandle, Diagnostic> {
        let map = self.maps.get(name).and_then(|map| MapHandle::try_from(map).ok());
        map.ok_or_else(|| Diagnostic::error(Code::Bug, format!("bug: the generated program has no map `{name}`")))
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        self.detach();
    }
}

fn attach_problem(program: &ProgramMut<'_>, error: &libbpf_rs::Error, messages: &str) -> Diagnostic {
    let name = program.name().to_string_lossy();
    if messages.contains("-EPERM") || messages.contains("Operation not permitted") {
        return missing_privilege(&format!("attaching `{name}`"));
    }
    Diagnostic::error(Code::AttachFailed, format!("`{name}` cannot be attached: {error}"))
        .hint("see `profinfer doctor`")
}

fn cannot_share(error: &dyn std::fmt::Display) -> Diagnostic {
    Diagnostic::error(Code::Bug, format!("what was loaded into the kernel cannot be shared: {error}"))
        .hint("allow this user more open files (`ulimit -n`)")
}

/// Programs that are being detached; all are where no thread could be started for it.
#[derive(Debug)]
pub struct Detachment(Option<JoinHandle<()>>);

impl Detachment {
    /// Whether all of them are detached.
    pub fn is_finished(&self) -> bool {
        self.0.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits until all of them are.
    pub fn wait(self) {
        let _ = self.0.map(JoinHandle::join);
    }
}

/// Closes links. Each waits until no processor is in its program any more, some 50 ms: better for all at once.
fn close(mut links: Vec<Attached>) {
    std::thread::scope(|threads| {
        let share = links.len().div_ceil(DETACHING_THREADS).max(1);
        while !links.is_empty() {
            let links = links.split_off(links.len().saturating_sub(share));
            // Without a thread the links are closed here, since what it was to run is dropped.
            let _ =
                std::thread::Builder::new().spawn_scoped(threads, move || links.into_iter().for_each(Attached::close));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf::{Compiler, Features, Kernels, Translation};
    use object::{Object as _, ObjectSection, ObjectSymbol};
    use profinfer_compiler::codegen::CSource;
    use profinfer_diagnostics::{Span, Spanned};
    use profinfer_probeset::path::Place;
    use profinfer_schema::bpf::{VARIABLES, VariableKind};

    /// The functions that are probed: in this very program.
    #[unsafe(no_mangle)]
    #[inline(never)]
    extern "C" fn profinfer_probed_one(n: u64) -> u64 {
        std::hint::black_box(n) + 1
    }

    #[unsafe(no_mangle)]
    #[inline(never)]
    extern "C" fn profinfer_probed_two(n: u64) -> u64 {
        std::hint::black_box(n) * 3
    }

    /// Tests of one process would count one another's calls.
    static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());

    fn alone() -> std::sync::MutexGuard<'static, ()> {
        ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn calls() {
        for n in 0..5 {
            std::hint::black_box(profinfer_probed_one(n));
        }
        for n in 0..7 {
            std::hint::black_box(profinfer_probed_two(n));
        }
    }

    fn file_offset(function: &str) -> u64 {
        let bytes = std::fs::read("/proc/self/exe").unwrap();
        let file = object::File::parse(&*bytes).unwrap();
        let symbol = file.symbols().find(|symbol| symbol.name() == Ok(function)).unwrap();
        let section = file.section_by_index(symbol.section_index().unwrap()).unwrap();
        symbol.address() - section.address() + section.file_range().unwrap().0
    }

    fn program(name: &str, kind: ProgramKind) -> Program {
        let source = Arc::new(Source { name: String::new(), text: String::new() });
        let span = Span::new(&source, 0..0);
        Program {
            name: name.into(),
            probes: vec![name.into()],
            alternative: 0,
            kind,
            place: Place::Probe(Spanned::new(name.into(), span.clone())),
            span,
            actions: Vec::new(),
            enclosing: None,
            ends: Vec::new(),
            notes_entry: false,
            relocations: Vec::new(),
            optional_relocations: Vec::new(),
            optional: false,
        }
    }

    fn programs() -> [Program; 3] {
        let kinds = [("call", ProgramKind::Span), ("once", ProgramKind::Entry), ("refused", ProgramKind::Entry)];
        kinds.map(|(name, kind)| program(name, kind))
    }

    fn compiled() -> (Vec<u8>, [Arc<Source>; 1]) {
        compiled_for(Kernels::Recent)
    }

    fn compiled_for(kernels: Kernels) -> (Vec<u8>, [Arc<Source>; 1]) {
        let sources = [Arc::new(Source { name: "toy.yaml".into(), text: "a: 1\nb: 2\nprobes: bad\n".into() })];
        let program = include_str!("../../../../tests/programs/contract.bpf.c");
        let text = program.replace("VARIABLES\n", &profinfer_schema::bpf::declarations());
        let source = CSource { name: "contract.bpf.c".into(), text, arch: profinfer_binary::Arch::X86_64 };
        let translation = Translation { source: &source, sources: &sources, kernels, attach: None };
        (Compiler::find().unwrap().compile(&translation).unwrap(), sources)
    }
    static NO_JOBS: JobFormats = JobFormats::NONE;

    fn setup<'a>(sources: &'a [Arc<Source>], programs: &'a [Program]) -> Setup<'a> {
        let mode = Features::probe().expect("privileges").attach_mode();
        Setup {
            sources,
            programs,
            record_types: 4,
            ring_bytes: 5000,
            constants: constants(),
            target_constants: BTreeSet::from(["weight".to_owned()]),
            events: &[],
            event_entries: 0,
            jobs: &NO_JOBS,
            mode,
        }
    }

    /// The recorder's constants: this program does without them.
    fn constants() -> BTreeMap<String, u64> {
        let constants = VARIABLES.iter().filter(|variable| variable.kind == VariableKind::Constant);
        constants.map(|variable| (variable.name.to_owned(), 0)).collect()
    }

    fn values(weight: u64) -> BTreeMap<String, u64> {
        BTreeMap::from([("weight".to_owned(), weight)])
    }

    fn site(function: &str, cookie: u64) -> FileSite {
        FileSite { file_offset: file_offset(function), cookie, semaphore: None }
    }

    #[test]
    #[ignore = "needs root"]
    fn what_is_for_debuggers_is_not_in_memory() {
        let (object, _) = compiled();
        let unpacked = PackedObject::new(&object).unwrap().unpacked().unwrap();
        let [before, after] = [&object, &unpacked].map(|bytes| object::File::parse(&**bytes).unwrap());
        let mut zeros = BTreeSet::new();
        for (before, after) in before.sections().zip(after.sections()) {
            let (before, now) = (before.data().unwrap(), after.data().unwrap());
            if before != now {
                assert!(before.len() == now.len() && now.iter().all(|byte| *byte == 0));
                zeros.insert(after.name().unwrap().to_owned());
            }
        }
        assert!(zeros.contains(".debug_info") && zeros.contains(".rel.BTF.ext"), "{zeros:?}");
        assert!(zeros.iter().all(|name| name.contains("debug") || name.starts_with(".rel.BTF")), "{zeros:?}");
    }

    #[test]
    #[ignore = "needs root"]
    fn every_way_of_attaching_counts_what_happened() {
        let _alone = alone();
        let programs = programs();
        let statistics = crate::bpf::RunStatistics::enable();
        let modes = [AttachMode::Session, AttachMode::Multi, AttachMode::Single];
        // Programs for old kernels have none of the cookies here.
        for (kernels, mode) in [Kernels::Recent, Kernels::Old].into_iter().flat_map(|old| modes.map(|mode| (old, mode)))
        {
            let (object, sources) = compiled_for(kernels);
            let at = format!("{kernels:?}, {mode:?}");
            let mut session = Session::open(&object, Setup { mode, ..setup(&sources, &programs) }).unwrap();
            let this_process = i32::try_from(std::process::id()).ok();
            session.load(&BTreeSet::from([0, 1]), &values(1)).unwrap();
            let sites = [site("profinfer_probed_one", 2), site("profinfer_probed_two", 4)];
            let exe = ProbedFile { path: Path::new("/proc/self/exe"), id: (0, 0) };
            assert_eq!(session.attach(0, &values(1), exe, this_process, &sites), [], "{at}");
            let once = [site("profinfer_probed_one", 10)];
            assert_eq!(session.attach(1, &values(1), exe, this_process, &once), [], "{at}");
            calls();
            assert_eq!(session.steps(), 0, "{at}: not enabled yet");
            session.enable();
            calls();
            session.detach();
            calls();
            let losses = session.losses();
            let counted = [2, 3, 4, 5, 10].map(|entry| losses[entry]);
            assert_eq!(counted, [5, 5, 7, 7, 5], "{at}: entries and returns of each function");
            assert_eq!((losses.len(), session.steps()), (64, 29), "{at}");
            assert_eq!(session.recursions(), BTreeMap::new());
            let runs = session.runs(|_| true).values().map(|(count, _)| *count).collect::<Vec<_>>();
            assert_eq!(runs, [2 * 24, 2 * 5], "{at}: before and after it was enabled");
        }
        drop(statistics);
    }

    #[test]
    #[ignore = "needs root"]
    fn generations_share_maps_but_not_constants() {
        let _alone = alone();
        let (object, sources) = compiled();
        let programs = programs();
        let mut session = Session::open(&object, setup(&sources, &programs)).unwrap();
        session.load(&BTreeSet::from([0]), &values(1)).unwrap();
        session.enable();
        let exe = ProbedFile { path: Path::new("/proc/self/exe"), id: (0, 0) };
        assert_eq!(session.attach(0, &values(1), exe, None, &[site("profinfer_probed_one", 2)]), []);
        session.load(&BTreeSet::from([0]), &values(1)).unwrap();
        assert_eq!(session.generations.len(), 2, "nothing new to load");
        session.load(&BTreeSet::from([0]), &values(100)).unwrap();
        assert_eq!(session.attach(0, &values(100), exe, None, &[site("profinfer_probed_two", 4)]), []);
        calls();
        let losses = session.losses();
        assert_eq!([2, 3, 4, 5].map(|entry| losses[entry]), [5, 5, 700, 700]);
    }

    #[test]
    #[ignore = "needs root"]
    fn only_the_places_at_fault_fail() {
        let _alone = alone();
        let (object, sources) = compiled();
        let programs = programs();
        let mut session = Session::open(&object, setup(&sources, &programs)).unwrap();
        session.load(&BTreeSet::from([0]), &values(1)).unwrap();
        session.enable();
        let exe = ProbedFile { path: Path::new("/proc/self/exe"), id: (0, 0) };
        let beyond = FileSite { file_offset: 1 << 40, cookie: 6, semaphore: None };
        let sites = [site("profinfer_probed_one", 2), beyond, site("profinfer_probed_two", 4)];
        let failed = session.attach(0, &values(1), exe, None, &sites);
        assert_eq!(failed.iter().map(|failure| failure.site).collect::<Vec<_>>(), [beyond]);
        calls();
        let losses = session.losses();
        assert_eq!([2, 4, 6].map(|entry| losses[entry]), [5, 7, 0]);
        let missing =
            session.attach(0, &values(1), ProbedFile { path: Path::new("/no/such/file"), ..exe }, None, &sites);
        assert_eq!(missing.len(), 3);
    }

    #[test]
    #[ignore = "needs root"]
    fn the_verifiers_refusal_names_the_line_of_the_yaml() {
        let _alone = alone();
        let (object, sources) = compiled();
        let programs = programs();
        let mut session = Session::open(&object, setup(&sources, &programs)).unwrap();
        let problem = session.load(&BTreeSet::from([2]), &values(1)).unwrap_err().0.remove(0);
        assert_eq!(problem.code, Code::VerifierRefused);
        assert!(problem.message.contains("refused_entry"), "{}", problem.message);
        assert_eq!(problem.span.expect("a place").text(), "probes: bad");
    }
}
