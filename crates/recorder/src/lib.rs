//! Launch or attach, consume the ring, account for losses, write the trace. Of probes it uses only
//! the plan, and it only writes the trace.

pub mod bpf;

mod active_recorders;
mod attach;
mod blocking;
mod boundary;
pub mod calibrate;
mod clock;
mod consumer;
pub mod counters;
mod counts;
mod cpus;
mod detail;
mod file_watch;
mod fork_server;
mod frequency;
mod guard;
mod guardian;
pub mod host;
mod kernel_files;
mod kernel_losses;
mod launch;
mod learn;
pub mod machine;
mod mapped;
mod mapping;
pub mod memory;
mod meter;
mod module_sites;
mod modules;
pub mod open_files;
mod origin;
mod output;
mod overhead;
mod pending_target;
mod prepare;
mod pressure;
mod process;
mod reader;
mod recording;
mod ring;
mod sampling;
mod search_report;
mod seccomp;
mod signals;
mod slots;
mod span_times;
mod steal;
mod stops;
mod switch_context;
mod switches;
mod target_values;
mod wrappers;

pub use boundary::Barriers;
pub use clock::monotonic_ns;
pub use fork_server::{ForkServer, ForkedRecorder};
pub use learn::{LearnedMember, learned_lock};
pub use output::default_path;
pub use overhead::OverheadLimits;
pub use prepare::{Prepared, prepare};
pub use process::{Ending, TargetProcess};
pub use sampling::SampleOptions;
pub use signals::{ending_signals, heed_children, is_meant, start_alike};
pub use slots::LearnedSlot;

use crate::bpf::features::{CAP_KILL, grant};
use crate::bpf::{AttachMode, Session, Setup};
use blocking::Written;
use consumer::Consumer;
use frequency::Frequencies;
use guard::Guards;
use guardian::Guardian;
use kernel_losses::KernelLosses;
use launch::Caller;
use learn::{Learning, SavedLearning};
use mapped::MappedFiles;
use memory::FreedMemory;
use meter::Meter;
use modules::Modules;
use output::Output;
use pending_target::PendingTarget;
use pressure::PressurePoll;
use profinfer_binary::{Arch, DebugFolders, Lock, PidNamespace};
use profinfer_compiler::{self as compiler, PlacementCache, PlacementOptions, Selection};
use profinfer_diagnostics::{Code, Diagnostic, Diagnostics};
use profinfer_files::output::{Request, cannot_write};
use profinfer_machine::SavedLimits;
use profinfer_schema::bpf::{MayStop, SampleStacks};
use profinfer_schema::{LeftOut, Loss};
use recording::Recording;
use sampling::Sampler;
use search_report::SearchReport;
use signals::Signals;
use slots::SlotLearning;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use steal::ProcessorTime;
use stops::Stops;
use switches::Switches;

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
    /// The limits of its overhead.
    pub limits: OverheadLimits,
    /// In which steps boundaries are probed that only record waiting.
    pub barriers: Barriers,
    /// How the target's threads are sampled by a timer; not at all, where left out.
    pub samples: Option<SampleOptions>,
    /// Refuse to count what cannot be counted all the time.
    pub exact: bool,
    /// Where debug files are searched for before the system's places.
    pub debug_folders: DebugFolders,
    /// What the target's files do not contain themselves.
    pub lock: Option<Lock>,
    /// The compiled program, where it is not to be compiled here.
    pub object: Option<Object>,
    /// Bytes of the ring buffer; by default computed from the recorded probes.
    pub ring_bytes: Option<u32>,
    /// Whether the trace is compressed: who reads it while it is written would only undo that.
    pub is_compressed: bool,
    /// With programs for kernels that have less than this one, as those get them.
    pub old_kernel: bool,
    /// Measure the machine's limits once the target has ended, where none are saved; `None`: if it was launched.
    pub measure_limits: Option<bool>,
    /// Variables that a launched command gets beside the environment.
    pub environment: Vec<(String, String)>,
    /// The options as the command line gave them, for the trace.
    pub described: Vec<String>,
    /// End once everything that can be learned was, and do not use what was learned before.
    pub until_learned: bool,
}

/// A compiled program that was brought along.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// The file, for messages.
    pub name: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// How a recording is going.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Live {
    /// Since the start.
    pub elapsed: Duration,
    /// Steps recorded; `None` if no probe marks any.
    pub steps: Option<u64>,
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
    /// Steps recorded; `None` if no probe marks any.
    pub steps: Option<u64>,
    /// Records written.
    pub events: u64,
    /// What is missing.
    pub losses: Vec<Loss>,
    /// Of the ring buffer, how much was full at most, in percent.
    pub ring_percent: u64,
    /// Bytes of the ring buffer.
    pub ring_bytes: u64,
    /// Records that do not match the schema and were left out: a fault of profinfer.
    pub malformed: u64,
    /// From the target's start, or its being attached to, to the end.
    pub elapsed: Duration,
    /// How the target ended, if it has.
    pub ending: Option<Ending>,
    /// The trace has something of the target; otherwise a new file is removed again.
    pub saved: bool,
    /// What went wrong without ending the recording.
    pub problems: Diagnostics,
    /// The target, which may still run.
    pub target: TargetProcess,
    /// What was asked for and is not in the trace, beside what was lost.
    pub left_out: Vec<LeftOut>,
    /// How to record what runs without the command, if anything does.
    pub attach: Option<String>,
    /// Of several engines that were searched for, those that the target had.
    pub engines: Vec<String>,
    /// Members whose places were learned.
    pub learned: Vec<LearnedMember>,
    /// Why others were not: these are problems, too.
    pub not_learned: Vec<Diagnostic>,
    /// Methods whose slot was found.
    pub slots: Vec<LearnedSlot>,
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
        let signals = Signals::block().ok();
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

/// Records a target by a prepared probeset, until it ends or one of the options' ends comes. `observe` is told now and then
/// how it goes.
///
/// # Errors
/// The probeset does not suit the target, the target cannot be launched or found, or the trace cannot be created. Nothing is
/// left behind then.
pub fn record(prepared: Prepared<'_>, observe: &mut dyn FnMut(&Live)) -> Result<Summary, Diagnostics> {
    let Prepared { options, probeset, plan, mut counters, object, mode, cookies, warnings } = prepared;
    let cache = PlacementCache::default();
    let globs: Vec<String> =
        probeset.modules.values().flat_map(|module| &module.globs).map(|glob| glob.value.clone()).collect();
    let saved = SavedLearning::new(&plan, probeset, options.until_learned);
    let place = |target: &dyn profinfer_binary::Target| {
        let learned = if options.lock.is_some() { None } else { saved.load(target, &globs) };
        let lock = options.lock.as_ref().or(learned.as_ref());
        let placing = PlacementOptions { lock, cache: Some(&cache) };
        let (placement, problems) = compiler::place(&plan, probeset, target, placing);
        problems.finish(placement)
    };
    let caller = Caller::through_sudo();
    // Before any thread is made: one that does not block a signal dies of it, and all others with it.
    let signals = Signals::block().map_err(|error| unexpected("blocking signals", &error))?;
    let (output, file) = Output::open(&options.output, options.mode, caller.as_ref())?;
    let file = file.compressed(options.is_compressed);
    let target =
        PendingTarget::find(&options.subject, &options.environment, caller.as_ref(), &signals, output.takes_stdout())?;
    open_files::allow_most();
    let pid = target.pid();
    seccomp::check(pid)?;
    let cpus = possible_cpus()?;
    let mut constants = constants(&target, options)?;
    let of_counters = [("pf_cpus", u64::from(cpus)), ("pf_partial_counters", counters::partial(&plan))];
    constants.extend(of_counters.map(|(name, value)| (name.to_owned(), value)));
    constants.insert("pf_has_cookies".to_owned(), u64::from(cookies));
    let jobs = bpf::JobFormats::of_kernel(&plan.programs);
    constants.extend(jobs.constants());
    let events = counters.events(&plan, cpus);
    let setup = Setup {
        sources: &probeset.sources,
        programs: &plan.programs,
        record_types: plan.schema.records.len(),
        ring_bytes: options.ring_bytes.unwrap_or_else(|| ring::size(&plan, options.samples)),
        constants,
        target_constants: plan.relocations.iter().map(|relocation| relocation.symbol.clone()).collect(),
        events: &events,
        event_entries: u32::try_from(plan.events()).unwrap_or(u32::MAX).saturating_mul(cpus),
        jobs: &jobs,
        mode,
    };
    let unstoppable = (!target.may_signal()).then(libraries_missed);
    let mut session = Session::open(&object.bytes, setup)?;
    // The session has it compressed.
    drop(object);
    let unattached = session.take_unattached();
    let mut sampler = Sampler::new(options.samples, &mut session);
    let (ring, prompt) = (session.ring()?, options.limits.any());
    let learning = Learning::new(compiler::lessons(&plan, probeset), &plan.schema);
    let samples = sampler.as_ref().map(Sampler::intake);
    let guards = Guards::new(compiler::guards(&plan, probeset), &plan.schema);
    let origin = origin::origin(options, probeset, &target);
    let measures = options.measure_limits.unwrap_or(matches!(options.subject, Subject::Command(_)));
    let has_costs = !probeset.analysis.costs.is_empty();
    let unmeasured = (measures && has_costs && origin.roofline.is_none()).then(|| origin.host.clone());
    let schema = session.recorded(&plan.schema);
    let (writes, is_followed) = (file.writes(), file.is_followed());
    let consumer = Consumer::start(&ring, file, origin, &schema, prompt, samples, (guards, learning.samples()))?;
    let process = (!options.follow_forks).then_some(pid);
    let mut search_report = SearchReport::new(&plan, globs.clone());
    search_report.warned(&counters.problems.0);
    search_report.warned(&unattached);
    let modules = Modules::new(&plan, &place, process, &options.debug_folders, search_report)
        .switching(options.limits.any())
        .without_waiting(options.barriers == Barriers::None);
    let (meter, switches) = (
        Meter::new(&plan, options.limits),
        Switches::new(&plan, options.limits, options.barriers, options.steps.is_some()),
    );
    // Before anything runs that may be stopped.
    let guardian = Guardian::start(Stops::of(&session, pid)?, writes.clone())?;
    let started = Instant::now();
    sampler.iter_mut().for_each(|sampler| sampler.start(&session, pid, options.follow_forks));
    let process = target.start()?;
    let plan = &plan;
    let mapped = MappedFiles::new(&plan.schema);
    let recording = Recording {
        learning,
        slots: SlotLearning::new(plan),
        mapped,
        frequencies: Frequencies::new(),
        freed_memory: FreedMemory::default(),
        pressure: PressurePoll::new(&plan.schema, is_followed),
        unmeasured,
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
        sampler,
        meter,
        switches,
        started,
        inspecting: Duration::ZERO,
        harmless_releases: 0,
        steps_over: None,
        processors: ProcessorTime::now(),
        kernel_losses: KernelLosses::default(),
        lost: 0,
    };
    let mut summary = recording.run(&mut |live| writes.during(Written::Shown, || observe(live)))?;
    saved.store(&probeset.name, (&summary.learned, &summary.slots), plan.arch);
    let before = warnings.0.into_iter().chain(counters.problems.0).chain(unstoppable).chain(unattached);
    summary.problems.0.splice(..0, before);
    Ok(summary)
}

/// This machine's instruction set.
///
/// # Errors
/// T012 where profinfer does not support it.
pub fn host_arch() -> Result<Arch, Diagnostic> {
    match std::env::consts::ARCH {
        "x86_64" => Ok(Arch::X86_64),
        "aarch64" => Ok(Arch::Aarch64),
        other => Err(Diagnostic::error(Code::WrongArchitecture, format!("profinfer cannot record on {other}"))
            .hint("record on x86_64 or aarch64")),
    }
}

/// Where the limits of this machine are saved.
pub fn saved_limits() -> SavedLimits {
    let caller = Caller::through_sudo();
    SavedLimits::new(caller.as_ref().and_then(|caller| Some((caller.home()?, caller.uid.as_raw()))))
}

/// The constants that are the recording's and not the target's.
fn constants(target: &PendingTarget, options: &Options) -> Result<BTreeMap<String, u64>, Diagnostic> {
    let namespace = target.namespace()?;
    let recorder = PidNamespace::of(std::process::id())
        .map_err(|error| unexpected("reading the namespace of profinfer", &error))?;
    let (first, last) = options.steps.unwrap_or((0, u64::MAX));
    let is_foreground_job = matches!(options.subject, Subject::Process(pid) if process::is_foreground_job(pid));
    let may_stop = match (target.may_signal() && !is_foreground_job, CAP_KILL.is_granted()) {
        (false, _) => MayStop::Nothing,
        (true, false) => MayStop::OfUser,
        (true, true) => MayStop::All,
    };
    let constants = [
        ("pf_ns_dev", namespace.device),
        ("pf_ns_ino", namespace.inode),
        ("pf_ns_pid", u64::from(namespace.pid)),
        ("pf_recorder_ino", recorder.inode),
        ("pf_recorder_uid", u64::from(nix::unistd::Uid::effective().as_raw())),
        ("pf_may_stop", may_stop as u64),
        ("pf_follow_forks", u64::from(options.follow_forks)),
        ("pf_first_step", first),
        ("pf_last_step", last),
        ("pf_detail_switches", u64::from(options.limits.any())),
        ("pf_page_bytes", host::page_bytes()),
        ("pf_sample_stacks", options.samples.map_or(SampleStacks::Innermost, |samples| samples.stacks) as u64),
    ];
    Ok(constants.map(|(name, value)| (name.to_owned(), value)).into())
}

/// The processors that this machine may ever have: as many numbers are given to them.
fn possible_cpus() -> Result<u32, Diagnostic> {
    let cpus = libbpf_rs::num_possible_cpus().map_err(|error| unexpected("counting the processors", &error))?;
    u32::try_from(cpus).map_err(|error| unexpected("counting the processors", &error))
}

fn libraries_missed() -> Diagnostic {
    let message =
        "profinfer may not stop the target: libraries that it maps from now on are probed while the target runs";
    Diagnostic::warning(Code::Privilege, message)
        .with_note("calls until then are lost")
        .with_note("missing: CAP_KILL")
        .hint(grant(&[]))
}

fn unexpected(doing: &str, error: &dyn std::fmt::Display) -> Diagnostic {
    Diagnostic::error(Code::Bug, format!("{doing} failed: {error}"))
}

/// For measurements: the consuming thread by itself.
#[doc(hidden)]
pub mod consuming {
    use super::consumer::Consumer;
    use libbpf_rs::MapHandle;
    use profinfer_diagnostics::Diagnostic;
    use profinfer_schema::{End, Origin, Schema};
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
        let consumer = Consumer::start(ring, file.into(), Origin::default(), schema, false, None, Default::default())?;
        while !stop() {
            consumer.flush(&[], || None);
        }
        let finished = consumer.stop();
        let counts = std::sync::Arc::clone(&finished.counts);
        finished.finish(&[], None, &End::default()).map_err(|error| unwritten(&error))?;
        Ok((counts.events.load(Ordering::Relaxed), counts.ring_peak.load(Ordering::Relaxed)))
    }
}
