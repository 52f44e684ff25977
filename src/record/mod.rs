//! Launch or attach, consume the ring, account for losses, write the trace. It knows of probes only what the plan says,
//! and of the trace only how to write it.

mod alike;
mod attach;
mod boundary;
pub mod calibrate;
mod clock;
mod consumer;
pub mod counters;
mod cpus;
mod detail;
mod file_watch;
mod frequency;
mod guardian;
pub mod host;
mod launch;
pub mod machine;
mod mapped;
mod meter;
mod modules;
mod open_files;
mod output;
mod price;
mod process;
mod reader;
mod recording;
mod ring;
mod signals;
mod sought;
mod steal;
mod stops;
mod switches;
mod wrappers;

pub use output::default_path;
pub use price::Terms;
pub use process::{Ending, TargetProcess};

use crate::bpf::features::{CAP_KILL, grant};
use crate::bpf::{self, AttachMode, Features, Kernels, Session, Setup, Translation};
use crate::codegen;
use crate::diag::{Code, Diagnostic, Diagnostics};
use crate::output::{Request, cannot_write};
use crate::plan::{self, Selection};
use crate::roofline::Kept;
use crate::spec::Probeset;
use crate::target::{Arch, DebugFolders, Lock, PidNamespace};
use crate::trace::{LeftOut, Loss, Origin, OriginPart};
use consumer::Consumer;
use counters::Counters;
use frequency::Frequencies;
use guardian::Guardian;
use launch::{Caller, Held};
use mapped::MappedFiles;
use meter::Meter;
use modules::Modules;
use output::Output;
use recording::Recording;
use signals::Signals;
use sought::Sought;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use steal::ProcessorTime;
use stops::Stops;
use switches::Switches;
use wrappers::Wrappers;

/// What is recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// A command, launched: its words.
    Command(Vec<OsString>),
    /// A running process.
    Process(i32),
}

/// How it is recorded.
#[derive(Debug, Clone)]
pub struct Options {
    /// What.
    pub subject: Subject,
    /// The trace's destination, with what must not be replaced by it.
    pub output: Request,
    /// The trace's permissions; by the umask, where left out, and for nobody else where root records.
    pub mode: Option<u32>,
    /// Which probes.
    pub selection: Selection,
    /// The first and the last step to record, counted from 1; all, where left out.
    pub steps: Option<(u64, u64)>,
    /// When to end at the latest: from the command's start, or from when a running process is attached to.
    pub duration: Option<Duration>,
    /// The processes that the target makes while it is recorded, too, and theirs.
    pub follow_forks: bool,
    /// How probes are attached; the best way that the kernel has, where left out.
    pub attach: Option<AttachMode>,
    /// What it may cost.
    pub terms: Terms,
    /// Refuse to count what cannot be counted all the time.
    pub exact: bool,
    /// Where debug files are looked for before the system's places.
    pub debug_folders: DebugFolders,
    /// What the target's files do not say themselves.
    pub lock: Option<Lock>,
    /// The compiled program, where it is not to be compiled here.
    pub object: Option<Object>,
    /// Bytes of the ring buffer; by what is recorded, where left out.
    pub ring_bytes: Option<u32>,
    /// With programs for kernels that have less than this one, as those get them.
    pub old_kernel: bool,
    /// What the command line said of all this, for the trace.
    pub described: Vec<String>,
}

/// A compiled program that was brought along.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// The file, for messages.
    pub name: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// How far it has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The probes are compiled: seconds, and only the first time.
    Compiling,
    /// It records.
    Recording(Live),
}

/// How a recording is going.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Live {
    /// Since the start.
    pub elapsed: Duration,
    /// Steps recorded.
    pub steps: u64,
    /// Their tokens.
    pub tokens: u64,
    /// Records written.
    pub events: u64,
    /// Records lost.
    pub lost: u64,
    /// Some probe is attached.
    pub attached: bool,
}

/// What came of a recording.
#[derive(Debug)]
pub struct Summary {
    /// The trace.
    pub file: PathBuf,
    /// Why it ended.
    pub reason: String,
    /// Steps recorded.
    pub steps: u64,
    /// Records written.
    pub events: u64,
    /// What is missing.
    pub losses: Vec<Loss>,
    /// Of the ring buffer, how much was full at most, in percent.
    pub ring_percent: u64,
    /// Bytes of the ring buffer.
    pub ring_bytes: u64,
    /// Records that were not what the schema says, and were left out: a fault of profinfer.
    pub malformed: u64,
    /// From the target's start, or its being attached to, to the end.
    pub elapsed: Duration,
    /// How the target ended, if it has.
    pub ending: Option<Ending>,
    /// What went wrong without ending the recording.
    pub problems: Diagnostics,
    /// The target, which may still run.
    pub target: TargetProcess,
    /// What was asked for and is not in the trace, beside what was lost.
    pub left_out: Vec<LeftOut>,
    /// Of several engines that were looked for, those that the target had.
    pub engines: Vec<String>,
}

impl Summary {
    /// Records that are missing altogether.
    pub fn lost(&self) -> u64 {
        recording::lost(&self.losses)
    }

    /// Whether everything that was asked for is in the trace.
    pub fn is_complete(&self) -> bool {
        let is_harmful = self.losses.iter().any(|loss| loss.kind.is_harmful());
        !is_harmful && self.malformed == 0 && !self.left_out.iter().any(|left_out| left_out.kind.is_harmful())
    }

    /// Waits for a launched target to end, passing on the signals that this process gets. `None` for one that was
    /// attached to: it is not ours to wait for.
    pub fn wait(&mut self) -> Option<Ending> {
        if self.ending.is_some() || !self.target.launched() {
            return self.ending;
        }
        let signals = Signals::hold().ok();
        loop {
            if let Some(ending) = self.target.ending(Duration::from_millis(50)) {
                self.ending = Some(ending);
                return self.ending;
            }
            while let Some(arrived) = signals.as_ref().and_then(Signals::next) {
                if !arrived.to_all {
                    self.target.signal(arrived.signal);
                }
            }
        }
    }
}

/// Records a target by a probeset, until it ends or one of the options' ends comes. `observe` is told now and then how
/// it goes.
///
/// # Errors
/// The probeset does not suit the target, this machine cannot record, the target cannot be launched or found, or the
/// trace cannot be created. Nothing is left behind then.
pub fn record(
    options: &Options,
    probeset: &Probeset,
    observe: &mut dyn FnMut(Progress),
) -> Result<Summary, Diagnostics> {
    let features = Features::probe()?;
    features.require()?;
    let mut counters = Counters::open(&plan::counters_asked(probeset, &options.selection)?, options.exact)?;
    let selection = Selection { offer: Some(counters.offer.clone()), ..options.selection.clone() };
    let (mut plan, warnings) = plan::plan(probeset, &selection, host_arch()?)?;
    plan.costs = calibrate::costs(plan.arch);
    let source = codegen::generate(&plan, probeset, None)?;
    let kernels = if options.old_kernel { Kernels::Old } else { features.kernels() };
    let mode = options.attach.unwrap_or_else(|| features.attach_mode());
    mode.permitted()?;
    let object = match &options.object {
        Some(object) => bpf::prebuilt(&object.name, &object.bytes, &source, kernels)?,
        None => {
            let sources = &probeset.sources;
            let translation = Translation { source: &source, sources, kernels, attach: Some(mode) };
            bpf::build(&translation, || observe(Progress::Compiling))?
        }
    };
    let placing = plan::Placing::new(&plan, probeset, options.lock.as_ref());
    let place = |target: &dyn crate::target::Target| placing.place(target);
    let caller = Caller::through_sudo();
    let (output, file) = Output::open(&options.output, options.mode, caller.as_ref())?;
    let signals = Signals::hold().map_err(|error| unexpected("holding back signals", &error))?;
    let found = Found::find(&options.subject, caller.as_ref(), &signals, output.takes_stdout())?;
    open_files::allow_most();
    let pid = found.pid();
    let cpus = possible_cpus()?;
    let mut constants = constants(&found, options)?;
    let of_counters = [("pf_cpus", u64::from(cpus)), ("pf_partial_counters", counters::partial(&plan))];
    constants.extend(of_counters.map(|(name, value)| (name.to_owned(), value)));
    let events = counters.events(&plan, cpus);
    let setup = Setup {
        object: &object.bytes,
        sources: &probeset.sources,
        programs: &plan.programs,
        record_types: plan.schema.records.len(),
        ring_bytes: options.ring_bytes.unwrap_or_else(|| ring::size(&plan)),
        constants,
        events: &events,
        event_entries: u32::try_from(plan.events()).unwrap_or(u32::MAX).saturating_mul(cpus),
        mode,
    };
    let unstoppable = (!found.may_signal()).then(libraries_missed);
    let mut session = Session::open(setup)?;
    let unattached = session.take_unattached();
    let (ring, prompt) = (session.ring()?, options.terms.any());
    let consumer = Consumer::start(&ring, file, origin(options, probeset, &found), &plan.schema, prompt)?;
    let process = (!options.follow_forks).then_some(pid);
    let globs = probeset.modules.values().flat_map(|module| &module.globs).map(|glob| glob.value.clone()).collect();
    let mut sought = Sought::new(&plan, globs);
    sought.warned(&counters.problems);
    sought.warned_each(&unattached);
    let modules = Modules::new(&plan, &place, process, &options.debug_folders, sought).switching(options.terms.any());
    let (meter, switches) =
        (Meter::new(&plan, options.terms), Switches::new(&plan, options.terms, options.steps.is_some()));
    // Before anything runs that may be stopped.
    let guardian = Guardian::start(Stops::of(&session)?)?;
    let started = Instant::now();
    let process = found.start()?;
    let plan = &plan;
    let mapped = MappedFiles::new(&plan.schema);
    let recording = Recording {
        mapped,
        frequencies: Frequencies::new(),
        options,
        plan,
        parts: &probeset.parts,
        output,
        signals,
        process,
        guardian,
        modules,
        consumer,
        session,
        meter,
        switches,
        started,
        held: Duration::ZERO,
        processors: ProcessorTime::now(),
        wrappers: Wrappers::default(),
        lost: 0,
    };
    let mut summary = recording.run(&mut |live| observe(Progress::Recording(*live)))?;
    let before = warnings.0.into_iter().chain(counters.problems.0).chain(unstoppable).chain(unattached);
    summary.problems.0.splice(..0, before);
    Ok(summary)
}

/// The target before it is recorded.
enum Found {
    /// Launched, and held before its first instruction.
    Held(Held),
    /// It runs already.
    Running(TargetProcess),
}

impl Found {
    fn find(
        subject: &Subject,
        caller: Option<&Caller>,
        signals: &Signals,
        without_stdout: bool,
    ) -> Result<Self, Diagnostic> {
        match subject {
            Subject::Command(words) => Held::new(words, caller, signals.before(), without_stdout).map(Self::Held),
            Subject::Process(pid) => attach::attach(*pid).map(Self::Running),
        }
    }

    fn pid(&self) -> i32 {
        match self {
            Self::Held(held) => held.pid(),
            Self::Running(process) => process.pid(),
        }
    }

    fn namespace(&self) -> Result<PidNamespace, Diagnostic> {
        let pid = self.pid().cast_unsigned();
        let namespace = match self {
            Self::Held(_) => PidNamespace::of_child(pid),
            Self::Running(_) => PidNamespace::of(pid),
        };
        namespace.map_err(|error| match error.kind() {
            std::io::ErrorKind::PermissionDenied => attach::not_permitted(self.pid(), "its namespace cannot be read"),
            _ => unexpected("reading its namespace", &error),
        })
    }

    fn may_signal(&self) -> bool {
        match self {
            Self::Held(_) => true,
            Self::Running(process) => process.may_signal(),
        }
    }

    fn start(self) -> Result<TargetProcess, Diagnostic> {
        match self {
            Self::Held(held) => held.release(),
            Self::Running(process) => Ok(process),
        }
    }
}

/// This machine's instruction set.
///
/// # Errors
/// T012 where profinfer does not know it.
pub fn host_arch() -> Result<Arch, Diagnostic> {
    match std::env::consts::ARCH {
        "x86_64" => Ok(Arch::X86_64),
        "aarch64" => Ok(Arch::Aarch64),
        other => Err(Diagnostic::error(Code::WrongArchitecture, format!("recording does not work on {other} yet"))
            .hint("x86_64 and aarch64 do")),
    }
}

/// The constants that are the recording's and not the target's.
fn constants(found: &Found, options: &Options) -> Result<BTreeMap<String, u64>, Diagnostic> {
    let namespace = found.namespace()?;
    let own = PidNamespace::of(std::process::id()).map_err(|error| unexpected("reading our own namespace", &error))?;
    let (first, last) = options.steps.unwrap_or((0, u64::MAX));
    let constants = [
        ("pf_ns_dev", namespace.device),
        ("pf_ns_ino", namespace.inode),
        ("pf_ns_pid", u64::from(namespace.pid)),
        ("pf_recorder_ino", own.inode),
        ("pf_recorder_uid", u64::from(nix::unistd::Uid::effective().as_raw())),
        ("pf_may_stop", if found.may_signal() { 1 + u64::from(CAP_KILL.held()) } else { 0 }),
        ("pf_follow_forks", u64::from(options.follow_forks)),
        ("pf_first_step", first),
        ("pf_last_step", last),
        ("pf_detail_switches", u64::from(options.terms.any())),
        ("pf_page_bytes", host::page_bytes()),
    ];
    Ok(constants.map(|(name, value)| (name.to_owned(), value)).into())
}

/// The number that the kernel gives the first namespace of processes (`PROC_PID_INIT_INO`): in it, processes are numbered
/// as in the kernel's own records.
const INITIAL_PID_NAMESPACE: u64 = 0xEFFF_FFFC;

/// The processors that this machine may ever have: as many numbers are given to them.
fn possible_cpus() -> Result<u32, Diagnostic> {
    let cpus = libbpf_rs::num_possible_cpus().map_err(|error| unexpected("counting the processors", &error))?;
    u32::try_from(cpus).map_err(|error| unexpected("counting the processors", &error))
}

fn origin(options: &Options, probeset: &Probeset, found: &Found) -> Origin {
    let pid = found.pid().cast_unsigned();
    let command = match &options.subject {
        Subject::Command(words) => words.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        Subject::Process(_) => crate::target::command_line(pid).unwrap_or_default(),
    };
    let sources = probeset.sources.iter().map(|source| (source.name.clone(), source.text.clone()));
    let host = host::describe();
    Origin {
        recorder: concat!("profinfer ", env!("CARGO_PKG_VERSION")).to_owned(),
        probeset: probeset.name.clone(),
        engine: probeset.engine.value.clone(),
        sources: sources.collect(),
        command,
        pid,
        launched: matches!(options.subject, Subject::Command(_)),
        options: options.described.clone(),
        wall_clock_ns: clock::wall_ns(),
        monotonic_ns: clock::monotonic_ns(),
        // Only what was measured before: to measure it now would disturb.
        roofline: kept_limits().load(&host).map(|(roofline, _)| roofline),
        host,
        cpu_quota: cpus::quota(pid),
        parts: probeset.parts.iter().map(origin_part).collect(),
        recorder_pid: PidNamespace::of(std::process::id())
            .ok()
            .filter(|own| own.inode == INITIAL_PID_NAMESPACE)
            .map(|_| std::process::id()),
    }
}

fn origin_part(part: &crate::spec::Part) -> OriginPart {
    let crate::spec::Part { key, probeset, engine, file, .. } = part.clone();
    OriginPart { key, probeset, engine, file }
}

/// Where it is kept what this machine can do at most.
pub fn kept_limits() -> Kept {
    let caller = Caller::through_sudo();
    Kept::new(caller.as_ref().and_then(|caller| Some((caller.home()?, caller.uid.as_raw()))))
}

fn libraries_missed() -> Diagnostic {
    let message = "libraries that the target maps from now on are not probed: it may not be stopped for that";
    Diagnostic::warning(Code::Privilege, message).with_note("missing: CAP_KILL").hint(grant(&[]))
}

fn unexpected(doing: &str, error: &dyn std::fmt::Display) -> Diagnostic {
    Diagnostic::error(Code::Bug, format!("{doing} failed: {error}"))
}

/// For measurements: the consuming thread by itself.
#[doc(hidden)]
pub mod consuming {
    use super::consumer::Consumer;
    use crate::diag::Diagnostic;
    use crate::trace::{End, Origin, Schema};
    use libbpf_rs::MapHandle;
    use std::fs::File;
    use std::sync::atomic::Ordering;

    /// Reads a ring into a trace until `stop` is called, flushing each second as a recording does; gives the records
    /// written and the most bytes that waited in the ring.
    ///
    /// # Errors
    /// The ring cannot be read, or the trace not be written.
    pub fn consume(
        ring: &MapHandle,
        file: File,
        schema: &Schema,
        stop: &mut dyn FnMut() -> bool,
    ) -> Result<(u64, u64), Diagnostic> {
        let unwritten = |error: &std::io::Error| super::cannot_write(std::path::Path::new("-"), error);
        let consumer = Consumer::start(ring, file.into(), Origin::default(), schema, false)?;
        while !stop() {
            consumer.flush(&[]);
        }
        let finished = consumer.stop();
        let counts = std::sync::Arc::clone(&finished.counts);
        finished.finish(&[], &End::default()).map_err(|error| unwritten(&error))?;
        Ok((counts.events.load(Ordering::Relaxed), counts.ring_peak.load(Ordering::Relaxed)))
    }
}
