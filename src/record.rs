//! `profinfer record`: the arguments, the live line, the last line, and the exit code.

use super::engines::offered;
use super::output::Force;
use super::probeset::{SeveralArguments, read_bounded, sources};
use super::values::{self, SampleRate};
use super::{DONE, INCOMPLETE, Outcome, shortfalls, terminal, together};
use profinfer_binary::{self as target, Files, ProcessTarget};
use profinfer_compiler::{self as plan, has_engine};
use profinfer_diagnostics::{Code, Diagnostic, Diagnostics};
use profinfer_files::output::{OutputKind, Request};
use profinfer_probeset::{self as spec, Probeset};
use profinfer_recorder::bpf::AttachMode;
use profinfer_recorder::{
    self as record, Barriers, Ending, Live, Options, OverheadLimits, SampleOptions, Subject, Summary, memory,
};
use profinfer_schema::bpf::SampleStacks;
use profinfer_schema::{LeftOutKind, LossKind};
use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Bytes of a BPF object.
const MAX_OBJECT: u64 = 64 << 20;

/// Files named that could not be read.
const MOST_UNREADABLE: usize = 5;

/// Samples per second.
const DEFAULT_RATE: u32 = 199;

/// The subcommand's arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exits with the command's status, or 128 + N if signal N killed it. If that is 0: 4 if the \
    trace is incomplete, 1 or 3 if nothing could be recorded.")]
pub(crate) struct Arguments {
    #[command(flatten)]
    probesets: SeveralArguments,
    /// Write the trace to this file, or `-` for standard output; the command's output then goes to standard error
    /// [default: PROBESET-TIME.pfi]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    force: Force,
    /// Permissions of the trace, such as 644 [default: by the umask; 600 for root]
    #[arg(long, value_name = "MODE", value_parser = mode)]
    mode: Option<u32>,
    /// Attach to a running process
    #[arg(short, long, value_name = "PID", conflicts_with = "command")]
    pid: Option<i32>,
    /// Record only these steps, inclusive, counted from 1: 10..40, 10.., ..40 or 7
    #[arg(long, value_name = "A..B", value_parser = super::steps::range)]
    steps: Option<(u64, u64)>,
    /// End after this time: 500ms, 10s, 5m, 1h
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    duration: Option<Duration>,
    /// Record one process only, not the processes that it creates
    #[arg(long, overrides_with = "follow_forks")]
    no_inherit: bool,
    /// The default; accepted for old scripts
    #[arg(long, hide = true, overrides_with = "no_inherit")]
    follow_forks: bool,
    /// Limit the overhead to this percentage of the time in steps, such as 1%: operators are recorded in random sampling
    /// windows
    #[arg(long, value_name = "PERCENT", value_parser = values::budget)]
    budget: Option<f64>,
    /// Do not record operators while there are fewer steps per second than this
    #[arg(long, value_name = "STEPS", value_parser = values::rate)]
    min_rate: Option<f64>,
    /// In which steps waiting at barriers is recorded, where several threads compute: in a random tenth, from which it is
    /// estimated; in all, which slows the command down more; in none
    #[arg(long, value_enum, value_name = "STEPS", default_value = "sampled")]
    barriers: BarrierSteps,
    /// Samples per second of CPU time of each thread: where it was, and in which operator; `off`: none [default: 199;
    /// off with --budget, which does not cover their cost]
    #[arg(long, value_name = "HZ", value_parser = values::sample_rate)]
    sample: Option<SampleRate>,
    /// Stacks of samples: `fp` follows frame pointers, which every file of the target must be compiled with; `dwarf` uses
    /// the unwind tables of the files and a copy of the stack's innermost 64 KiB
    #[arg(long, value_enum, value_name = "HOW", default_value = "none")]
    stacks: Stacks,
    /// Set the environment variables that the probeset names for timing a GPU; the command then runs slower than usual
    #[arg(long, value_enum, value_name = "HOW", default_value = "off", conflicts_with = "pid")]
    gpu_timing: GpuTiming,
    /// Refuse counters that the machine cannot count all the time, instead of multiplexing them
    #[arg(long)]
    exact: bool,
    /// Size of the ring buffer: 512K, 16M, 1G [default: half a second of records]
    #[arg(long, value_name = "BYTES", value_parser = values::ring_size)]
    ring_size: Option<u32>,
    /// Do not compress the trace, for a reader on this machine
    #[arg(long, hide = true)]
    uncompressed: bool,
    /// The program that follows the recording calls its target this, and knows itself of one that was idle
    #[arg(long, hide = true, value_name = "NAME")]
    followed_as: Option<String>,
    /// Measure the machine's limits after recording if none are cached; the default for a launched command, one second
    #[arg(long, overrides_with = "no_roofline")]
    roofline: bool,
    /// Do not measure the machine's limits
    #[arg(long, overrides_with = "roofline")]
    no_roofline: bool,
    /// Way of attaching probes [default: the best that the kernel has]
    #[arg(long, value_enum, value_name = "WAY", hide_short_help = true)]
    attach: Option<AttachName>,
    /// Use this BPF object, compiled from the same probeset by `profinfer build`, instead of clang
    #[arg(long, value_name = "FILE")]
    object: Option<PathBuf>,
    /// Use only kernel features of Linux 5.10
    #[arg(long, hide_short_help = true)]
    old_kernel: bool,
    /// Show a progress line on standard error; `auto`: if it is a terminal that the command does not write to
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto")]
    live: When,
    /// Show every warning and note in full
    #[arg(short, long)]
    verbose: bool,
    /// The command to launch and record
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Steps in which waiting at barriers is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum BarrierSteps {
    /// Every step
    All,
    /// A random tenth of the steps; with `--budget`, its sampling windows
    Sampled,
    /// No step
    None,
}

impl From<BarrierSteps> for Barriers {
    fn from(steps: BarrierSteps) -> Self {
        match steps {
            BarrierSteps::All => Self::All,
            BarrierSteps::Sampled => Self::Sampled,
            BarrierSteps::None => Self::None,
        }
    }
}

/// How a GPU is timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum GpuTiming {
    /// As the command runs otherwise
    Off,
    /// The device measures each operator
    Timestamps,
    /// Operators run one after the other
    Serialize,
}

impl GpuTiming {
    /// The key in the probeset.
    fn way(self) -> Option<&'static str> {
        match self {
            Self::Off => None,
            Self::Timestamps => Some("timestamps"),
            Self::Serialize => Some("serialize"),
        }
    }
}

impl Arguments {
    /// There is something to record: a process or a command.
    fn check_command(&self) -> Result<(), Diagnostics> {
        if self.pid.is_some() || !self.command.is_empty() {
            return Ok(());
        }
        let words: Vec<String> = self.probesets.specs.iter().map(|word| word.display().to_string()).collect();
        let hint = match words.iter().position(|word| path_of(&OsString::from(word)).is_some()) {
            Some(at) => {
                let (before, command) = words.split_at(at);
                let before: String = before.iter().map(|word| format!("{word} ")).collect();
                format!("put `--` before the command: profinfer record {before}-- {}", command.join(" "))
            }
            None => "add `-- COMMAND`, or `-p PID` for a running process".to_owned(),
        };
        let message = "nothing to record: there is no command and no process";
        Err(Diagnostic::error(Code::BadArgument, message).hint(hint).into())
    }

    /// Stacks are of samples.
    fn check_stacks(&self) -> Result<(), Diagnostics> {
        if self.stacks == Stacks::None || samples(self).is_some() {
            return Ok(());
        }
        let (message, hint) = match self.sample {
            Some(_) => ("`--stacks` is for samples, and `--sample off` takes none", "leave one of them out"),
            None => (
                "`--stacks` is for samples, and with `--budget` there are none by default",
                "add `--sample 199`: their cost is no part of the budget",
            ),
        };
        Err(Diagnostic::error(Code::BadArgument, message).hint(hint).into())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum When {
    Auto,
    Always,
    Never,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Stacks {
    /// The function alone in which the thread was
    None,
    /// Callers by frame pointers
    Fp,
    /// Callers by unwind tables
    Dwarf,
}

impl Stacks {
    fn of_samples(self) -> SampleStacks {
        match self {
            Self::None => SampleStacks::Innermost,
            Self::Fp => SampleStacks::FramePointers,
            Self::Dwarf => SampleStacks::Copy,
        }
    }
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum AttachName {
    /// One program for entry and return (Linux 6.13)
    Session,
    /// Two programs, all sites of a file at once (Linux 6.10)
    Multi,
    /// Two programs, one site at a time (Linux 5.10)
    Single,
}

/// Runs the subcommand.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    memory::share_heap();
    arguments.check_command()?;
    arguments.check_stacks()?;
    let (wanted, warnings) = arguments.probesets.load()?;
    terminal::report_problems(&warnings);
    let found = if wanted.is_empty() { Some(find(arguments)?) } else { None };
    let is_offer = matches!(found, Some(Found::NothingYet(_)));
    let probeset = match found {
        None => spec::combine(wanted.into_iter().map(|probeset| (probeset, true)).collect())?,
        Some(Found::Engines(found)) => what_fits(found, "recording", is_offer, arguments)?,
        Some(Found::NothingYet(all)) => what_fits(all, "waiting for one of these engines:", is_offer, arguments)?,
    };
    let options = options(arguments, &probeset, is_offer)?;
    let mut line = LiveLine::new(arguments.live, &options.subject);
    let prepared = record::prepare(&probeset, &options, report_compiling)?;
    let mut summary = record::record(prepared, &mut |live| line.show(live))?;
    line.clear();
    if is_offer && summary.engines.is_empty() {
        summary.problems.0.retain(|problem| problem.code != Code::NothingRecorded);
        summary.problems.push(no_engine("the target has no step function of a shipped probeset"));
    }
    if arguments.followed_as.is_some() && was_idle(&summary) {
        return Ok(DONE);
    }
    let failed = shortfalls::report_problems(&summary, arguments.verbose);
    let failed = summary.problems.has_errors().then_some(failed);
    terminal::status(&last_line(&summary, arguments.followed_as.as_deref()));
    if !summary.saved {
        // Errors name the probes that are missing; files that could not be read are why they are.
        summary.left_out.retain(|entry| entry.kind == LeftOutKind::File);
    }
    let left_out = shortfalls::left_out_lines(&summary, arguments.verbose);
    left_out.iter().for_each(|line| terminal::status(line));
    if let Some(line) = shortfalls::parts_line(&summary) {
        terminal::status(&line);
    }
    if let Some(line) = ring_line(&summary) {
        terminal::status(&line);
    }
    if summary.ending.is_none() && summary.target.launched() {
        terminal::status("the target is still running; waiting for it to end");
    }
    Ok(exit_code(summary.wait(), failed, summary.is_complete()))
}

/// The shipped probesets to search for.
enum Found {
    /// The target's files have the functions of these.
    Engines(Vec<Probeset>),
    /// They have none's, but the target may load any of these later.
    NothingYet(Vec<Probeset>),
}

/// Combines the probesets that fit the stack budget of a thread together, and prints which.
fn what_fits(found: Vec<Probeset>, what: &str, is_offer: bool, arguments: &Arguments) -> Result<Probeset, Diagnostics> {
    let arch = record::host_arch()?;
    let budget = |whole: &Probeset| plan::stack_budget(whole, &arguments.probesets.selection(), arch).ok();
    let (taken, left_out) = together::fitting(found, !is_offer, budget)?;
    terminal::status(&format!("{what} {}", names(&taken.probesets)));
    terminal::report_problems(&Diagnostics(left_out.iter().map(together::left_out).collect()));
    Ok(taken.whole)
}

/// The shipped probesets whose functions the target has.
fn find(arguments: &Arguments) -> Result<Found, Diagnostics> {
    let all = offered();
    let files = Files::with_user_cache().with_debug_folders(arguments.probesets.debug_folders());
    let mut unreadable = Vec::new();
    let target = match arguments.pid {
        Some(pid) => {
            let process = ProcessTarget::open_with(u32::try_from(pid).unwrap_or_default(), files)?;
            unreadable.extend_from_slice(process.unreadable());
            Some(process.into_files())
        }
        // Of a script, say, there is none: what it loads is seen when it runs.
        None => arguments.command.first().and_then(path_of).and_then(|path| target::open_path(&path, files).ok()),
    };
    let is_there = |probeset: &&Probeset| target.as_ref().is_some_and(|target| has_engine(probeset, target));
    let there: Vec<Probeset> = all.iter().filter(is_there).cloned().collect();
    if !there.is_empty() {
        return Ok(Found::Engines(there));
    }
    match arguments.pid {
        Some(pid) => {
            let problem = no_engine(&format!("process {pid} has no step function of a shipped probeset"));
            let problem = with_children(problem, pid);
            Err(with_unreadable(problem, pid, &unreadable).into())
        }
        None => Ok(Found::NothingYet(all)),
    }
}

/// Of servers the children do the work; those that a process already has are not recorded with it.
fn with_children(problem: Diagnostic, pid: i32) -> Diagnostic {
    const SHOWN: usize = 4;
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let children: Vec<&str> = children.split_whitespace().collect();
    let Some(first) = children.first() else { return problem };
    let others = if children.len() > SHOWN { " and others" } else { "" };
    let shown = children.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
    problem
        .with_note(format!("it has children, which are not recorded with it: {shown}{others}"))
        .hint(format!("record one of them: `profinfer record -p {first}`"))
}

/// The program that a command's first word means.
fn path_of(program: &OsString) -> Option<PathBuf> {
    let path = Path::new(program);
    if path.components().count() > 1 {
        return Some(path.to_owned()).filter(|path| path.is_file());
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(path)).find(|path| path.is_file())
}

fn names(probesets: &[Probeset]) -> String {
    let names: Vec<String> =
        probesets.iter().map(|probeset| format!("{} ({})", probeset.name, probeset.engine.value)).collect();
    names.join(", ")
}

fn no_engine(message: &str) -> Diagnostic {
    let others = crate::engines::only_by_name().join(", ");
    Diagnostic::error(Code::NoEngine, message)
        .with_note(format!("these are not searched for, only recorded if named: {others}"))
        .hint(
            "run `profinfer engines` to list them; name one to see what it does not find, or write one: docs/probesets.md",
        )
}

/// The engine may be in mapped files that this user may not read.
fn with_unreadable(problem: Diagnostic, pid: i32, files: &[PathBuf]) -> Diagnostic {
    if files.is_empty() {
        return problem;
    }
    let note = |problem: Diagnostic, file: &PathBuf| {
        let below_root = file.strip_prefix("/").unwrap_or(file);
        let opened = std::fs::File::open(Path::new(&format!("/proc/{pid}/root")).join(below_root));
        // Nothing refuses it: what the process has mapped is no longer there.
        let why = opened.err().map_or_else(|| "it was replaced".to_owned(), |error| error.to_string());
        problem.with_note(format!("could not read {}: {why}", file.display()))
    };
    let problem = files.iter().take(MOST_UNREADABLE).fold(problem, note);
    problem
        .hint("the engine may be in files that profinfer could not read: run it as root, or with CAP_DAC_READ_SEARCH")
}

fn options(arguments: &Arguments, probeset: &Probeset, is_offer: bool) -> Result<Options, Diagnostics> {
    let name = if is_offer { "run" } else { &probeset.name };
    let subject = arguments.pid.map_or_else(|| Subject::Command(arguments.command.clone()), Subject::Process);
    let object = arguments.object.as_deref().map(object).transpose()?;
    Ok(Options {
        subject,
        output: output(arguments, probeset, name),
        mode: arguments.mode,
        selection: arguments.probesets.selection(),
        steps: arguments.steps,
        duration: arguments.duration,
        follow_forks: !arguments.no_inherit,
        attach: arguments.attach.map(|name| match name {
            AttachName::Session => AttachMode::Session,
            AttachName::Multi => AttachMode::Multi,
            AttachName::Single => AttachMode::Single,
        }),
        limits: OverheadLimits { budget: arguments.budget, min_rate: arguments.min_rate },
        barriers: arguments.barriers.into(),
        samples: samples(arguments),
        exact: arguments.exact,
        old_kernel: arguments.old_kernel,
        ring_bytes: arguments.ring_size,
        is_compressed: !arguments.uncompressed,
        debug_folders: arguments.probesets.debug_folders(),
        lock: arguments.probesets.lock()?,
        object,
        measure_limits: arguments.roofline.then_some(true).or(arguments.no_roofline.then_some(false)),
        environment: environment(arguments, probeset)?,
        described: described(arguments),
        until_learned: false,
    })
}

/// The variables of the way in which a GPU is timed.
fn environment(arguments: &Arguments, probeset: &Probeset) -> Result<Vec<(String, String)>, Diagnostics> {
    let Some(way) = arguments.gpu_timing.way() else { return Ok(Vec::new()) };
    probeset.gpu_timing.get(way).cloned().ok_or_else(|| {
        let message = format!("the probeset `{}` has no variables for `--gpu-timing {way}`", probeset.name);
        let hint = format!("write them under `gpu_timing: {{ {way}: {{ NAME: value }} }}`, or leave the option out");
        Diagnostic::error(Code::BadArgument, message).hint(hint).into()
    })
}

/// How the target is sampled. A budget is for all that a recording costs: samples are no part of its account.
fn samples(arguments: &Arguments) -> Option<SampleOptions> {
    let by_default = if arguments.budget.is_some() { 0 } else { DEFAULT_RATE };
    let hz = arguments.sample.map_or(by_default, |rate| rate.0);
    (hz > 0).then(|| SampleOptions { hz, stacks: arguments.stacks.of_samples() })
}

/// The trace's destination, and all that is read: the words of the command may be names of files.
fn output(arguments: &Arguments, probeset: &Probeset, name: &str) -> Request {
    let path = arguments.output.clone().unwrap_or_else(|| record::default_path(name));
    let mut inputs = sources(probeset);
    inputs.extend(arguments.object.as_deref());
    inputs.extend(arguments.probesets.lock_file());
    inputs.extend(arguments.command.iter().map(Path::new));
    let program = arguments.command.first().and_then(path_of);
    inputs.extend(program.as_deref());
    arguments.force.request(&path, OutputKind::Trace, &inputs)
}

/// `644`: permissions, in octal.
fn mode(text: &str) -> Result<u32, String> {
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode & 0o600 == 0o600 && mode <= 0o666 && mode & 0o111 == 0 => Ok(mode),
        _ => Err(format!("`{text}` is not a mode for a trace; use 600, 640, 644, 660 or 666")),
    }
}

fn object(path: &Path) -> Result<record::Object, Diagnostics> {
    let name = path.display().to_string();
    match read_bounded(path, MAX_OBJECT) {
        Ok(bytes) => Ok(record::Object { name, bytes }),
        Err(why) => Err(Diagnostic::error(Code::ObjectDiffers, format!("cannot read the object {name}: {why}"))
            .hint("create it with `profinfer build`")
            .into()),
    }
}

/// The options that differ from the defaults, as they are typed.
fn described(arguments: &Arguments) -> Vec<String> {
    let mut options = arguments.probesets.described();
    options.extend(arguments.steps.map(|(first, last)| match last {
        u64::MAX => format!("--steps {first}.."),
        _ => format!("--steps {first}..{last}"),
    }));
    options.extend(arguments.duration.map(|duration| format!("--duration {}ms", duration.as_millis())));
    options.extend(arguments.budget.map(|budget| format!("--budget {}%", (budget * 1e8).round() / 1e6)));
    options.extend(arguments.min_rate.map(|rate| format!("--min-rate {rate}")));
    options.extend(match arguments.barriers {
        BarrierSteps::All => Some("--barriers all".to_owned()),
        BarrierSteps::Sampled => None,
        BarrierSteps::None => Some("--barriers none".to_owned()),
    });
    options.extend(arguments.sample.map(|rate| format!("--sample {rate}")));
    options.extend(arguments.gpu_timing.way().map(|way| format!("--gpu-timing {way}")));
    options.extend(match arguments.stacks {
        Stacks::None => None,
        Stacks::Fp => Some("--stacks fp".to_owned()),
        Stacks::Dwarf => Some("--stacks dwarf".to_owned()),
    });
    if arguments.no_inherit {
        options.push("--no-inherit".to_owned());
    }
    if arguments.exact {
        options.push("--exact".to_owned());
    }
    if arguments.old_kernel {
        options.push("--old-kernel".to_owned());
    }
    options
}

/// Explains the wait to a person.
fn report_compiling() {
    if std::io::stderr().is_terminal() {
        terminal::status("compiling the probes; the result is cached");
    }
}

/// One line on standard error that is written over and over.
struct LiveLine {
    on: bool,
    shown: bool,
    /// What rates are counted from: the state at most some seconds ago, and the one to take its place.
    since: Option<(Live, Live)>,
}

impl LiveLine {
    /// On a terminal, unless the target writes to the same: it would overwrite the target's lines.
    fn new(when: When, subject: &Subject) -> Self {
        let shared = matches!(subject, Subject::Command(_)) && std::io::stdout().is_terminal();
        let on = match when {
            When::Auto => std::io::stderr().is_terminal() && !shared,
            When::Always => true,
            When::Never => false,
        };
        Self { on, shown: false, since: None }
    }

    fn show(&mut self, live: &Live) {
        if !self.on {
            return;
        }
        let (from, next) = *self.since.get_or_insert((*live, *live));
        let line = live_line(live, &from);
        if live.elapsed.saturating_sub(next.elapsed) >= Duration::from_secs(2) {
            self.since = Some((next, *live));
        }
        self.shown = true;
        let mut error = std::io::stderr();
        let _ = write!(error, "\r\x1b[2K{line}").and_then(|()| error.flush());
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            let _ = write!(std::io::stderr(), "\r\x1b[2K");
        }
    }
}

impl Drop for LiveLine {
    fn drop(&mut self) {
        self.clear();
    }
}

fn live_line(live: &Live, from: &Live) -> String {
    let seconds = live.elapsed.saturating_sub(from.elapsed).as_secs_f64();
    let rate = |now: u64, then: u64| if seconds > 0.0 { now.saturating_sub(then) as f64 / seconds } else { 0.0 };
    let mut parts = vec![format!("{:.0} s", live.elapsed.as_secs_f64())];
    if !live.attached {
        parts.push("waiting for the engine to be loaded".into());
    }
    parts.extend(live.steps.map(|steps| counted(steps, "step")));
    if live.tokens > 0 {
        parts.push(format!("{:.1} tokens/s", rate(live.tokens, from.tokens)));
    }
    parts.push(format!("{:.0} events/s", rate(live.events, from.events)));
    parts.push(format!("{} lost", live.lost));
    parts.join("  ")
}

/// A path as a shell reads it back.
fn as_word(path: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+,:@%=".contains(c);
    if path.chars().all(is_plain) { path.to_owned() } else { format!("'{}'", path.replace('\'', r"'\''")) }
}

fn last_line(summary: &Summary, followed_as: Option<&str>) -> String {
    let file = match (followed_as, summary.file.as_os_str() == "-") {
        (Some(name), _) => name.to_owned(),
        (None, true) => "standard output".to_owned(),
        (None, false) => summary.file.display().to_string(),
    };
    // What went to a pipe or device cannot be read from there.
    let next =
        if summary.file.is_file() { format!("; next: profinfer report {}", as_word(&file)) } else { String::new() };
    let is_nothing = !summary.saved && next.is_empty() && followed_as.is_none();
    let file = if is_nothing { "no trace".to_owned() } else { file };
    format!(
        "{file}: {}{}{}, {} lost, {:.1} s: {}{next}",
        if summary.engines.is_empty() { String::new() } else { format!("{}: ", summary.engines.join(" and ")) },
        summary.steps.map_or_else(String::new, |steps| format!("{}, ", counted(steps, "step"))),
        counted(summary.events, "event"),
        summary.lost(),
        summary.elapsed.as_secs_f64(),
        summary.reason,
    )
}

/// Whether a process that still runs computed nothing, and nothing else is wrong.
fn was_idle(summary: &Summary) -> bool {
    let is_of_idleness = |problem: &Diagnostic| matches!(problem.code, Code::NothingRecorded | Code::TooShort);
    !summary.target.launched()
        && summary.ending.is_none()
        && summary.steps.unwrap_or(0) == 0
        && summary.losses.is_empty()
        && !summary.problems.0.is_empty()
        && summary.problems.0.iter().all(is_of_idleness)
}

/// Whether the ring was nearly too small.
fn ring_line(summary: &Summary) -> Option<String> {
    let lost = summary.losses.iter().any(|loss| loss.kind == LossKind::RingFull);
    let (percent, size) = (summary.ring_percent.min(100), summary.ring_bytes >> 10);
    let larger = (summary.ring_bytes >> 10).saturating_mul(4).clamp(64, 1 << 20);
    match percent {
        _ if lost => Some(format!("the ring buffer of {size} KiB was full; use `--ring-size {larger}K`")),
        51.. => Some(format!("the ring buffer of {size} KiB was up to {percent} % full; use `--ring-size {larger}K`")),
        _ => None,
    }
}

fn counted(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// The target's status unless it is 0, else the result of the recording.
fn exit_code(ending: Option<Ending>, failed: Option<u8>, complete: bool) -> u8 {
    match ending {
        Some(Ending::Exited(code)) if code != 0 => u8::try_from(code & 0xff).unwrap_or(1),
        Some(Ending::Killed(signal)) => u8::try_from(128 + (signal & 0x7f)).unwrap_or(1),
        _ => failed.unwrap_or(if complete { DONE } else { INCOMPLETE }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_cannot_be_read_are_named() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let without = with_unreadable(no_engine("none"), pid, &[]);
        assert_eq!(without.notes.len(), 1, "what is only recorded if named");
        let files = vec![PathBuf::from("/no-such-folder/libengine.so"); 9];
        let problem = with_unreadable(no_engine("none"), pid, &files);
        assert_eq!(problem.notes.len(), 1 + MOST_UNREADABLE);
        let note = &problem.notes[1];
        assert!(note.starts_with("could not read /no-such-folder/libengine.so: No such file"), "{note}");
        assert!(problem.hint.unwrap().contains("CAP_DAC_READ_SEARCH"));
    }

    #[test]
    fn the_targets_status_comes_first() {
        assert_eq!(exit_code(Some(Ending::Exited(0)), None, true), 0);
        assert_eq!(exit_code(Some(Ending::Exited(0)), None, false), 4);
        assert_eq!(exit_code(Some(Ending::Exited(7)), Some(1), false), 7);
        assert_eq!(exit_code(Some(Ending::Killed(11)), None, true), 139);
        assert_eq!(exit_code(None, Some(1), true), 1);
        assert_eq!(exit_code(Some(Ending::Unknown), None, false), 4);
    }

    #[test]
    fn the_live_line_counts_recent_rates() {
        let at = |seconds, steps, tokens, events| Live {
            elapsed: Duration::from_secs(seconds),
            steps: Some(steps),
            tokens,
            events,
            lost: 0,
            attached: true,
        };
        let line = live_line(&at(12, 30, 130, 9000), &at(10, 10, 100, 1000));
        assert_eq!(line, "12 s  30 steps  15.0 tokens/s  4000 events/s  0 lost");
        let unmarked = Live { steps: None, ..at(2, 0, 0, 200) };
        assert_eq!(live_line(&unmarked, &at(0, 0, 0, 0)), "2 s  100 events/s  0 lost");
    }
}
