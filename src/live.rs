//! Recordings that are followed while they go on: a recorder of its own for each target, whose trace is read as it is
//! written. A recorder that fails takes no other with it, and one whose reader is gone ends by itself.

use super::discovery::{Discovered, Discovery, DiscoveryArguments, engines_of, shipped};
use super::flight::{Flight, Keeper};
use super::identity::Identity;
use super::recorders::{Messages, RecorderProcess, Recorders, Started};
use super::tables::{TableFolder, Tables};
use super::trace_file;
use super::values;
use nix::errno::Errno;
use nix::sys::signal::Signal;
use profinfer_analysis::Visitor;
use profinfer_diagnostics::{Code, Diagnostic, Diagnostics, printable};
use profinfer_live::{Ended, FlightFigures, Happened, Model, SharedRules, Snapshot, State};
use profinfer_probeset::{self as spec, Library};
use profinfer_recorder::monotonic_ns;
use profinfer_schema::EngineId;
use profinfer_trace::{Item, Meta, TraceReader};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Cursor, PipeReader, Read};
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::slice;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Notices of a recording that a verdict reads: what the kernel let the target have.
const NOTICES: usize = 512;
/// Lines of a recorder's messages that are in memory.
const MESSAGES: usize = 64;
/// Characters of a message.
const MAX_MESSAGE: u64 = 4096;
/// A verdict is made as long as somebody has read it within this time.
const VIEWED: Duration = Duration::from_secs(10);
/// Samples per second of each thread's CPU time, for traces that are kept.
const SAMPLES: &str = "49";
/// Targets.
pub(crate) const MOST_TARGETS: usize = 64;
/// Up to this budget, a part of the time in steps, recorders have small rings.
const SMALL_BUDGET: f64 = 0.01;

/// What is followed.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct LiveArguments {
    /// Probeset files or names of shipped ones (default: every shipped one whose step functions the target has; of
    /// several engines in a launched command the first that is found)
    #[arg(value_name = "SPEC")]
    specs: Vec<PathBuf>,
    /// Attach to a running process (repeatable)
    #[arg(short, long = "pid", value_name = "PID", conflicts_with = "command")]
    pids: Vec<i32>,
    #[command(flatten)]
    discovery: DiscoveryArguments,
    /// Limit the overhead to this percentage of the time in steps: operators are recorded in random sampling windows
    #[arg(long, value_name = "PERCENT", value_parser = values::budget, default_value = "0.5%")]
    budget: f64,
    /// Use this lock file, written by `profinfer lock`, for what the target's files lack
    #[arg(long, value_name = "FILE")]
    lock: Option<PathBuf>,
    /// The command to launch
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl LiveArguments {
    /// Whether there is a command, which is a part of the program that launches it.
    pub(crate) fn launches(&self) -> bool {
        !self.command.is_empty()
    }

    /// What looks for targets, where none is named.
    pub(crate) fn discovery(&self) -> Result<Option<Discovery>, Diagnostics> {
        let engine = trace_file::wanted().map(PathBuf::from);
        let is_open = self.pids.is_empty() && self.command.is_empty();
        match engine {
            Some(engine) if is_open && self.specs.is_empty() => self.discovery.discovery(&[engine]).map(Some),
            Some(_) => {
                let message = "`--engine` is for processes that are looked for";
                let problem = Diagnostic::error(Code::BadArgument, message);
                Err(problem.hint("name the probeset instead: `profinfer serve SPEC -p PID`").into())
            }
            None if is_open => self.discovery.discovery(&self.specs).map(Some),
            None => Ok(None),
        }
    }

    /// What starts recorders. Call it first.
    pub(crate) fn recorders(&self, messages: Messages) -> Recorders {
        Recorders::new(self.command.is_empty() && self.pids.len() != 1, messages)
    }

    /// Starts a recorder for each target that is named. Call it before signals are blocked: a recorder inherits that, and
    /// a command that it launches.
    pub(crate) fn start(&self, recorders: &Recorders, with_samples: bool) -> Result<Vec<Recorder>, Diagnostics> {
        if self.pids.len() > MOST_TARGETS {
            let message = format!("more than {MOST_TARGETS} targets");
            return Err(Diagnostic::error(Code::BadArgument, message).hint("start a second one for the others").into());
        }
        let mut pids = self.pids.clone();
        pids.sort_unstable();
        pids.dedup();
        let named: Vec<(PathBuf, String)> = self.specs.iter().map(|spec| (spec.clone(), engine_of(spec))).collect();
        let shipped = if named.is_empty() && !pids.is_empty() { shipped() } else { Vec::new() };
        let of_process = |pid| {
            let found = engines_of(pid, &shipped).into_iter().filter_map(|number| shipped.get(number));
            found.map(|(spec, probeset)| (spec.clone(), probeset.engine.value.clone())).collect()
        };
        let mut all = Vec::new();
        for pid in pids {
            // Each engine has a recorder of its own; one that looks for all waits for the first.
            let engines: Vec<_> = if named.is_empty() { of_process(pid) } else { named.clone() };
            if engines.len() < 2 {
                all.push(self.recorder(Some(pid), &self.specs, recorders, with_samples)?);
                continue;
            }
            for (spec, engine) in engines {
                let recorder = self.recorder(Some(pid), &[spec], recorders, with_samples)?;
                all.push(Recorder { engine, ..recorder });
            }
        }
        if !self.command.is_empty() {
            all.push(self.recorder(None, &self.specs, recorders, with_samples)?);
        }
        Ok(all)
    }

    /// Starts a recorder for an engine that was found in a process. The process's children are found, too.
    pub(crate) fn recorder_of(
        &self,
        found: &Discovered,
        recorders: &Recorders,
        with_samples: bool,
    ) -> Result<Recorder, Diagnostics> {
        let recorder =
            self.recorder(Some(found.found_in.pid), slice::from_ref(&found.spec), recorders, with_samples)?;
        Ok(Recorder { engine: found.engine.clone(), ..recorder })
    }

    fn recorder(
        &self,
        pid: Option<i32>,
        specs: &[PathBuf],
        recorders: &Recorders,
        with_samples: bool,
    ) -> Result<Recorder, Diagnostics> {
        // The process may end while its recorder starts.
        let identity = match pid.map(u32::try_from) {
            Some(pid) => pid.map(Identity::of_process).unwrap_or_default(),
            None => Identity::of_command(self.command.iter().map(|word| word.as_bytes())),
        };
        let words = self.words(pid, &identity.name, specs, with_samples);
        let started = recorders.start(&words).map_err(|error| cannot_start("a recorder", &error))?;
        Ok(Recorder { started, pid, engine: String::new(), identity })
    }

    /// A recorder's command line, the program's name first.
    fn words(&self, pid: Option<i32>, name: &str, specs: &[PathBuf], with_samples: bool) -> Vec<OsString> {
        let mut words: Vec<OsString> = ["profinfer", "record"].map(OsString::from).to_vec();
        words.extend(specs.iter().map(|spec| spec.clone().into()));
        let mut option = |option: &[&str]| words.extend(option.iter().map(OsString::from));
        option(&["-o", "-", "--no-roofline", "--live", "never", "--uncompressed"]);
        option(&["--budget", &format!("{}%", self.budget * 100.0)]);
        if self.budget <= SMALL_BUDGET {
            option(&["--ring-size", &small_ring().to_string()]);
        }
        if with_samples {
            option(&["--sample", SAMPLES]);
        }
        if self.pids.is_empty() && pid.is_some() {
            option(&["--no-inherit"]);
        }
        if let Some(pid) = pid {
            // A name may begin as an option does.
            option(&["-p", &pid.to_string(), &format!("--followed-as={} ({pid})", printable(name))]);
        }
        if let Some(lock) = &self.lock {
            words.extend(["--lock".into(), lock.clone().into()]);
        }
        if pid.is_none() {
            words.push("--".into());
            words.extend(self.command.iter().cloned());
        }
        words
    }
}

/// The engine of a probeset; nothing of one that its recorder will refuse.
fn engine_of(spec: &Path) -> String {
    spec::load(spec, &Library::SHIPPED).map_or_else(|_| String::new(), |(probeset, _)| probeset.engine.value)
}

/// Bytes of a recorder's ring where the budget is small: all probes record in short windows only, and ten engines
/// together are to take less than 80 MB.
fn small_ring() -> usize {
    let cpus = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    (cpus << 19).next_power_of_two().clamp(1 << 20, 16 << 20)
}

/// A process or thread that the system does not give.
pub(crate) fn cannot_start(what: &str, error: &std::io::Error) -> Diagnostic {
    let hint = match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EMFILE | Errno::ENFILE) => "allow more open files (`ulimit -n`)",
        _ => "allow this user more processes (`ulimit -u`)",
    };
    Diagnostic::error(Code::Bug, format!("cannot start {what}: {error}")).hint(hint)
}

/// A recorder that runs, and that nobody reads yet.
#[derive(Debug)]
pub(crate) struct Recorder {
    started: Started,
    pid: Option<i32>,
    engine: String,
    identity: Identity,
}

/// A recording that is followed.
#[derive(Debug)]
pub(crate) struct Followed {
    shared: Arc<Shared>,
    process: Option<RecorderProcess>,
    status: Option<ExitStatus>,
    thread: Option<JoinHandle<()>>,
    pid: Option<i32>,
    /// By its probeset; empty where the recorder looks for several.
    engine: String,
    identity: Identity,
}

/// What is made of a recording besides its figures.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wanted {
    /// Requests that have ended, for [`Followed::take_ended`].
    pub(crate) ended: bool,
    /// Whoever keeps traces.
    pub(crate) keeper: Option<Arc<Keeper>>,
    /// Where tables go.
    pub(crate) tables: Option<Arc<TableFolder>>,
    /// What all recordings share.
    pub(crate) rules: Arc<SharedRules>,
}

/// What the reading thread and the views share.
#[derive(Debug, Default)]
struct Shared {
    model: Mutex<Option<Model>>,
    /// Of a recording that has ended.
    last: Mutex<Option<Last>>,
    wanted: Wanted,
    /// What the flight recorder did.
    flight: Arc<Mutex<FlightFigures>>,
    viewed: Mutex<Option<Instant>>,
    messages: Mutex<VecDeque<String>>,
    /// Why it cannot be read.
    problems: Mutex<Option<Diagnostics>>,
}

/// What is left of a recording that has ended: on a machine where engines come and go there are many.
#[derive(Debug)]
struct Last {
    snapshot: Snapshot,
    ended: Ended,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Recorder {
    /// Reads its trace, on a thread. Without one, the recorder is ended.
    pub(crate) fn follow(self, wanted: Wanted) -> Result<Followed, Diagnostics> {
        let shared = Arc::new(Shared { wanted, ..Shared::default() });
        let Self { started: Started { process, trace, messages }, pid, engine, identity } = self;
        let theirs = Arc::clone(&shared);
        let messages = messages.map(|messages| thread("messages", move || save_messages(messages, &theirs)));
        let thread = messages.transpose().and_then(|_| read(Box::new(trace), &shared, true));
        match thread {
            Ok(thread) => {
                let (thread, process) = (Some(thread), Some(process));
                Ok(Followed { shared, process, status: None, thread, pid, engine, identity })
            }
            Err(problems) => {
                process.end();
                Err(problems)
            }
        }
    }
}

/// Starts a thread.
pub(crate) fn thread(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, Diagnostics> {
    let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    spawned.map_err(|error| cannot_start("a thread", &error).into())
}

/// Reads a trace on a thread, as it is written.
fn read(trace: Box<dyn Read + Send>, shared: &Arc<Shared>, is_live: bool) -> Result<JoinHandle<()>, Diagnostics> {
    let theirs = Arc::clone(shared);
    thread("trace", move || {
        if let Err(problems) = follow(trace, &theirs, is_live) {
            let mut messages = lock(&theirs.messages);
            problems.0.iter().for_each(|problem| messages.push_back(problem.message.clone()));
            *lock(&theirs.problems) = Some(problems);
        }
    })
}

impl Followed {
    /// A trace that is read, by whomever it is written.
    pub(crate) fn trace(trace: Box<dyn Read + Send>) -> Result<Self, Diagnostics> {
        let shared = Arc::new(Shared::default());
        let thread = read(trace, &shared, false)?;
        let (thread, identity) = (Some(thread), Identity::default());
        Ok(Self { shared, process: None, status: None, thread, pid: None, engine: String::new(), identity })
    }

    /// What its flight recorder did; `None` without one.
    fn flight(&self) -> Option<FlightFigures> {
        self.shared.wanted.keeper.as_ref().map(|_| *lock(&self.shared.flight))
    }

    /// Its figures; `None` before the first record.
    pub(crate) fn snapshot(&self) -> Option<Snapshot> {
        *lock(&self.shared.viewed) = Some(Instant::now());
        self.figures()
    }

    /// The same without what takes time to judge.
    pub(crate) fn figures(&self) -> Option<Snapshot> {
        // A thread that has ended leaves no model, unless it failed.
        let has_failed = self.thread.as_ref().is_some_and(JoinHandle::is_finished);
        let mut running = lock(&self.shared.model).as_mut().map(Model::snapshot);
        if let Some(snapshot) = running.as_mut().filter(|_| has_failed) {
            snapshot.state = State::Ended { reason: "reading it failed".to_owned() };
        }
        running.or_else(|| lock(&self.shared.last).as_ref().map(|last| last.snapshot.clone()))
    }

    /// The requests that have ended since that was asked last.
    pub(crate) fn take_ended(&self) -> Ended {
        let running = lock(&self.shared.model).as_mut().map(Model::take_ended);
        running
            .or_else(|| lock(&self.shared.last).as_mut().map(|last| std::mem::take(&mut last.ended)))
            .unwrap_or_default()
    }

    /// The process that it was attached to.
    pub(crate) fn pid(&self) -> Option<i32> {
        self.pid
    }

    /// The engine that was found in it; empty where its recorder looks for several.
    pub(crate) fn engine(&self) -> &str {
        &self.engine
    }

    /// What it is called.
    pub(crate) fn name(&self) -> &str {
        &self.identity.name
    }

    /// Calls it otherwise.
    pub(crate) fn rename(&mut self, name: String) {
        self.identity.name = name;
    }

    /// The last message.
    pub(crate) fn message(&self) -> Option<String> {
        lock(&self.shared.messages).back().cloned()
    }

    /// All messages that are in memory.
    pub(crate) fn messages(&self) -> Vec<String> {
        lock(&self.shared.messages).iter().cloned().collect()
    }

    /// Why a trace that was given cannot be read; a recorder tells that itself.
    pub(crate) fn problems(&self) -> Option<Diagnostics> {
        lock(&self.shared.problems).take().filter(|_| self.process.is_none())
    }

    /// Whether all was read, and the recorder has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        if self.thread.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return false;
        }
        let Some(process) = &mut self.process else { return true };
        if self.status.is_none() {
            self.status = process.try_wait();
        }
        self.status.is_some()
    }

    /// How the recorder ended, if it has.
    pub(crate) fn status(&self) -> Option<ExitStatus> {
        self.status
    }

    /// The recorder's exit code, if it has ended.
    pub(crate) fn code(&self) -> Option<u8> {
        u8::try_from(self.status?.code()?).ok()
    }

    /// Ends the recording, and with it a command that was launched. What was attached to goes on.
    pub(crate) fn end(&mut self, signal: Signal) {
        if !self.has_ended()
            && let Some(process) = &self.process
        {
            process.signal(signal);
            // One that somebody stopped ends, too.
            process.signal(Signal::SIGCONT);
        }
    }
}

/// Reads a recorder's messages line by line.
fn save_messages(stderr: PipeReader, shared: &Shared) {
    let mut lines = BufReader::new(stderr);
    loop {
        let mut line = Vec::new();
        match (&mut lines).take(MAX_MESSAGE).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let text = String::from_utf8_lossy(&line);
        let text = printable(text.trim_end());
        if text.is_empty() {
            continue;
        }
        let mut messages = lock(&shared.messages);
        if messages.len() >= MESSAGES {
            messages.pop_front();
        }
        messages.push_back(text);
    }
}

/// What was read of a stream is read again by a second reader.
struct Rewound {
    input: Box<dyn Read + Send>,
    read: Vec<u8>,
}

impl Read for Rewound {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.read.extend_from_slice(buffer.get(..read).unwrap_or_default());
        Ok(read)
    }
}

/// Opens a trace as that of its engine; where several were searched for, of the first that is found, or of the one that
/// is wanted of a trace that was given.
fn open(input: Box<dyn Read + Send>, is_live: bool) -> Result<TraceReader<Box<dyn Read + Send>>, Diagnostics> {
    let mut rewound = Rewound { input, read: Vec::new() };
    let is_open = is_live || trace_file::wanted().is_none();
    let engine = if is_open { first_engine(&mut rewound)? } else { None };
    let input: Box<dyn Read + Send> = Box::new(Cursor::new(rewound.read).chain(rewound.input));
    let mut reader = TraceReader::new(input)?;
    if let Some(engine) = engine {
        reader.only(engine);
    }
    if !is_open {
        trace_file::select(&mut reader)?;
    }
    reader.remember_notices(NOTICES);
    Ok(reader)
}

fn first_engine(input: &mut Rewound) -> Result<Option<EngineId>, Diagnostics> {
    let mut reader = TraceReader::new(input)?;
    reader.remember_notices(1);
    let first = reader.meta().origin.engines().next().map(|(engine, _)| engine);
    if first.is_none() {
        return Ok(None);
    }
    while let Some(item) = reader.next() {
        let Item::Sites { sites, .. } = item else { continue };
        let probes: Vec<String> = sites.iter().flat_map(|site| &site.probes).cloned().collect();
        if let Some(engine) = probes.iter().find_map(|probe| reader.meta().engine_of(probe)) {
            return Ok(Some(engine));
        }
    }
    Ok(first)
}

/// Whom steps are shown to besides the figures.
fn shown_to(tables: &mut Option<Tables>) -> Option<&mut dyn Visitor> {
    tables.as_mut().map(|tables| tables as &mut dyn Visitor)
}

/// Reads a trace to its end.
fn follow(input: Box<dyn Read + Send>, shared: &Shared, is_live: bool) -> Result<(), Diagnostics> {
    let mut reader = open(input, is_live)?;
    let (mut model, problems) = Model::sharing(reader.meta(), &shared.wanted.rules);
    let Wanted { ended, keeper, tables, .. } = &shared.wanted;
    if *ended {
        model.remember_ended();
    }
    let mut tables = tables.as_ref().map(|folder| Tables::new(folder, &reader.meta().origin));
    let mut flight = keeper.as_ref().map(|keeper| Flight::start(keeper, reader.meta(), &mut model, &shared.flight));
    *lock(&shared.model) = Some(model);
    lock(&shared.messages).extend(problems.0.into_iter().map(|problem| problem.message));
    while let Some(item) = reader.next() {
        let (brought_sites, is_flush) = (matches!(item, Item::Sites { .. }), matches!(item, Item::Losses(_)));
        if let Some(flight) = &mut flight {
            flight.take(&item);
        }
        let findings = lock(&shared.model).as_mut().and_then(|model| {
            model.take(&item, shown_to(&mut tables));
            if is_flush && is_live {
                model.pass(monotonic_ns(), shown_to(&mut tables));
            }
            is_flush.then(|| model.findings().clone())
        });
        // Figures are shown while a disk is waited for.
        if let (Some(tables), Some(findings)) = (&mut tables, findings) {
            tables.flush(reader.meta(), &findings, monotonic_ns());
        }
        if brought_sites && let Some(model) = lock(&shared.model).as_mut() {
            model.name_constants(&reader.meta().schema);
        }
        if brought_sites && let Some(flight) = &mut flight {
            flight.refer(reader.meta());
        }
        if is_flush {
            judge(shared, reader.meta());
            if let Some(flight) = &mut flight {
                flight.flush(reader.meta(), monotonic_ns());
                keep_what_happened(flight, shared, reader.meta());
            }
        }
    }
    let findings = lock(&shared.model).as_mut().map(|model| {
        model.finish(shown_to(&mut tables));
        model.judge(reader.meta());
        model.findings().clone()
    });
    if let (Some(tables), Some(findings)) = (&mut tables, findings) {
        tables.finish(reader.meta(), &findings);
    }
    if let Some(mut flight) = flight {
        flight.flush(reader.meta(), monotonic_ns());
        keep_what_happened(&mut flight, shared, reader.meta());
        flight.finish();
    }
    // It is there before the model goes: who asks between them gets one or the other.
    let mut model = lock(&shared.model);
    if let Some(model) = model.as_mut() {
        *lock(&shared.last) = Some(Last { ended: model.take_ended(), snapshot: model.snapshot() });
    }
    *model = None;
    Ok(())
}

/// Judges, where somebody reads the verdict.
fn judge(shared: &Shared, meta: &Meta) {
    let is_viewed = lock(&shared.viewed).is_some_and(|viewed| viewed.elapsed() < VIEWED);
    if let Some(model) = lock(&shared.model).as_mut()
        && (is_viewed || model.watches_verdict())
    {
        model.judge(meta);
    }
}

fn keep_what_happened(flight: &mut Flight, shared: &Shared, meta: &Meta) {
    let happened = lock(&shared.model).as_mut().and_then(Model::happened);
    if let Some(Happened { from, to }) = happened {
        flight.happened(meta, from, to);
    }
}

/// The figures of recordings; of one without a record, that it waits or has ended.
pub(crate) fn snapshots(all: &[Arc<Mutex<Followed>>], judged: bool) -> Vec<Snapshot> {
    let of = |followed: &Arc<Mutex<Followed>>| {
        let mut followed = lock(followed);
        let snapshot = if judged { followed.snapshot() } else { followed.figures() };
        let snapshot = snapshot.or_else(|| {
            let state = match followed.has_ended() {
                true => State::Ended { reason: followed.message().unwrap_or_else(|| "nothing was recorded".into()) },
                false => State::Waiting,
            };
            let pid = followed.pid().and_then(|pid| u32::try_from(pid).ok()).unwrap_or(0);
            Some(Snapshot { engine: followed.engine.clone(), ..Snapshot::empty(pid, state) })
        });
        snapshot.map(|snapshot| Snapshot {
            flight: followed.flight(),
            instance: followed.identity.name.clone(),
            container: followed.identity.container.clone(),
            ..snapshot
        })
    };
    all.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use profinfer_schema::{End, Origin, Schema};
    use profinfer_trace::TraceWriter;

    #[test]
    fn a_recording_whose_reading_failed_is_over() {
        let origin = Origin { engine: "e".into(), ..Origin::default() };
        let trace = TraceWriter::new(Vec::new(), &origin, &Schema::default()).unwrap();
        let trace = trace.finish(&End::default()).unwrap();
        let mut followed = Followed::trace(Box::new(Cursor::new(trace.clone()))).unwrap();
        while !followed.has_ended() {
            std::thread::sleep(Duration::from_millis(1));
        }
        // As after a panic: the model is there, the thread is not.
        let reader = TraceReader::new(&trace[..]).unwrap();
        *lock(&followed.shared.model) = Some(Model::new(reader.meta()).0);
        assert_eq!(followed.figures().unwrap().state, State::Ended { reason: "reading it failed".to_owned() });
    }
}
