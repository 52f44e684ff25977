//! `profinfer record`: the arguments, the live line, the last line, and the exit code.

use super::engines::{has_steps, shipped};
use super::output::Force;
use super::probeset::{SeveralArguments, read_bounded, sources};
use super::{DONE, INCOMPLETE, Outcome, terminal, together};
use crate::bpf::AttachMode;
use crate::diag::{Code, Diagnostic, Diagnostics, printable};
use crate::output::{Kind, Request};
use crate::plan::{self, has_engine};
use crate::record::{self, Ending, Live, Options, Progress, Subject, Summary, Terms};
use crate::spec::{self, Probeset};
use crate::target::{self, Files};
use crate::trace::{LeftOut, LeftOutKind, LossKind};
use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Bytes of a BPF object.
const MAX_OBJECT: u64 = 64 << 20;

/// Things that were left out are listed up to this many.
const LEFT_OUT_SHOWN: usize = 8;

/// The subcommand's arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = "The command's own exit status is passed on; 128 + N if signal N killed it. If it is 0: 4 if \
    the trace is incomplete, 1 or 3 if nothing could be recorded.")]
pub(crate) struct Arguments {
    #[command(flatten)]
    probesets: SeveralArguments,
    /// Write the trace to this file; `-` is standard output, and the command's then goes to standard error
    /// [default: PROBESET-TIME.pfi]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    force: Force,
    /// The trace's permissions, such as 644 [default: by the umask; 600 where root records]
    #[arg(long, value_name = "MODE", value_parser = mode)]
    mode: Option<u32>,
    /// Attach to a running process
    #[arg(short, long, value_name = "PID", conflicts_with = "command", required_unless_present = "command")]
    pid: Option<i32>,
    /// Record only these steps, counted from 1, both included: 10..40, 10.., ..40 or 7
    #[arg(long, value_name = "A..B", value_parser = super::steps::range)]
    steps: Option<(u64, u64)>,
    /// End after this time: 500ms, 10s, 5m, 1h
    #[arg(long, value_name = "TIME", value_parser = duration)]
    duration: Option<Duration>,
    /// Record the target alone. Without it, the processes that the target makes while it is recorded are recorded too
    #[arg(long, overrides_with = "follow_forks")]
    no_inherit: bool,
    /// What is done without `--no-inherit`; accepted for old scripts
    #[arg(long, hide = true, overrides_with = "no_inherit")]
    follow_forks: bool,
    /// Slow the target down by no more than this part of its own time: operators are recorded in some steps only, chosen
    /// at random
    #[arg(long, value_name = "PERCENT", value_parser = budget)]
    budget: Option<f64>,
    /// Do not record operators while there are fewer steps a second than this
    #[arg(long, value_name = "STEPS", value_parser = rate)]
    min_rate: Option<f64>,
    /// Refuse to count more than the machine counts all the time, rather than to estimate
    #[arg(long)]
    exact: bool,
    /// Room for records that are not written yet: 512K, 16M, 1G [default: for half a second, by what is recorded]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    ring_size: Option<u32>,
    /// Attach in this way, though the kernel may have a better one
    #[arg(long, value_enum, value_name = "WAY", hide_short_help = true)]
    attach: Option<AttachName>,
    /// Use this object, which `profinfer build` made of the same probeset, so that no clang is needed
    #[arg(long, value_name = "FILE")]
    object: Option<PathBuf>,
    /// Use only what Linux 5.10 has, though this kernel has more
    #[arg(long, hide_short_help = true)]
    old_kernel: bool,
    /// A line that says how it goes, on standard error. `auto`: on a terminal that the command does not write to
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto")]
    live: When,
    /// The command to launch and record
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum When {
    Auto,
    Always,
    Never,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum AttachName {
    /// One program for entry and return (Linux 6.13)
    Session,
    /// Two programs, all sites of a file at once (Linux 6.6)
    Multi,
    /// Two programs, each site by itself (Linux 5.10)
    Single,
}

/// Runs the subcommand.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let (wanted, warnings) = arguments.probesets.load()?;
    terminal::report_problems(&warnings);
    let found = if wanted.is_empty() { Some(find(arguments)?) } else { None };
    let is_offer = matches!(found, Some(Found::NothingYet(_)));
    let probeset = match found {
        None => spec::combine(wanted.into_iter().map(|probeset| (probeset, true)).collect())?,
        Some(Found::Engines(found)) => what_fits(found, "recording", is_offer, arguments)?,
        Some(Found::NothingYet(all)) => what_fits(all, "recording the first that is loaded of", is_offer, arguments)?,
    };
    let options = options(arguments, &probeset, is_offer)?;
    let mut line = LiveLine::new(arguments.live, &options.subject);
    let mut summary = record::record(&options, &probeset, &mut |progress| match progress {
        Progress::Compiling => say_compiling(),
        Progress::Recording(live) => line.show(&live),
    })?;
    line.clear();
    if is_offer && summary.engines.is_empty() {
        summary.problems.0.retain(|problem| problem.code != Code::NothingRecorded);
        summary.problems.push(no_engine("the target had no function that is a step of a shipped probeset"));
    }
    let failed = terminal::report_problems(&summary.problems);
    let failed = summary.problems.has_errors().then_some(failed);
    terminal::say(&last_line(&summary));
    for line in left_out_lines(&summary) {
        terminal::say(&line);
    }
    if let Some(line) = ring_line(&summary) {
        terminal::say(&line);
    }
    if std::io::stderr().is_terminal() && record::kept_limits().load(&record::host::describe()).is_none() {
        terminal::say("without this machine's limits: `profinfer roofline` measures them once, for all later traces");
    }
    if summary.ending.is_none() && summary.target.launched() {
        terminal::say("the target runs on; waiting for it to end");
    }
    Ok(exit_code(summary.wait(), failed, summary.is_complete()))
}

/// What of the shipped probesets is looked for.
enum Found {
    /// The target's files have the functions of these.
    Engines(Vec<Probeset>),
    /// They have none's, but the target may load any of these later.
    NothingYet(Vec<Probeset>),
}

/// Those of several probesets that nobody named for which a thread has room together, as one; says which.
fn what_fits(found: Vec<Probeset>, what: &str, is_offer: bool, arguments: &Arguments) -> Result<Probeset, Diagnostics> {
    let arch = record::host_arch()?;
    let room = |whole: &Probeset| plan::room(whole, &arguments.probesets.selection(whole), arch).ok();
    let (taken, left_out) = together::fitting(found, !is_offer, room)?;
    terminal::say(&format!("{what} {}", names(&taken.probesets)));
    terminal::report_problems(&Diagnostics(left_out.iter().map(together::left_out).collect()));
    Ok(taken.whole)
}

/// The shipped probesets whose functions the target has.
fn find(arguments: &Arguments) -> Result<Found, Diagnostics> {
    let all: Vec<Probeset> = shipped().into_iter().filter(has_steps).collect();
    let name = match (arguments.pid, arguments.command.first()) {
        (Some(pid), _) => Some(pid.to_string()),
        (None, Some(program)) => path_of(program).map(|path| path.display().to_string()),
        (None, None) => None,
    };
    let files = || Files::with_user_cache().with_debug_folders(arguments.probesets.debug_folders());
    let target = match name.map(|name| target::open_with(&name, files())) {
        Some(Ok(target)) => Some(target),
        Some(Err(problem)) if arguments.pid.is_some() => return Err(problem.into()),
        // A script, say: what it loads is seen when it runs.
        _ => None,
    };
    let is_there = |probeset: &&Probeset| target.as_ref().is_some_and(|target| has_engine(probeset, target.as_ref()));
    let there: Vec<Probeset> = all.iter().filter(is_there).cloned().collect();
    if !there.is_empty() {
        return Ok(Found::Engines(there));
    }
    match arguments.pid {
        Some(pid) => {
            Err(no_engine(&format!("process {pid} has no function that is a step of a shipped probeset")).into())
        }
        None => Ok(Found::NothingYet(all)),
    }
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
    Diagnostic::error(Code::NoEngine, message)
        .hint("`profinfer engines` lists them; name one to see what it misses, or write one: docs/probesets.md")
}

fn options(arguments: &Arguments, probeset: &Probeset, is_offer: bool) -> Result<Options, Diagnostics> {
    let name = if is_offer { "run" } else { &probeset.name };
    let subject = arguments.pid.map_or_else(|| Subject::Command(arguments.command.clone()), Subject::Process);
    let object = arguments.object.as_deref().map(object).transpose()?;
    Ok(Options {
        subject,
        output: output(arguments, probeset, name),
        mode: arguments.mode,
        selection: arguments.probesets.selection(probeset),
        steps: arguments.steps,
        duration: arguments.duration,
        follow_forks: !arguments.no_inherit,
        attach: arguments.attach.map(|name| match name {
            AttachName::Session => AttachMode::Session,
            AttachName::Multi => AttachMode::Multi,
            AttachName::Single => AttachMode::Single,
        }),
        terms: Terms { budget: arguments.budget, min_rate: arguments.min_rate },
        exact: arguments.exact,
        old_kernel: arguments.old_kernel,
        ring_bytes: arguments.ring_size,
        debug_folders: arguments.probesets.debug_folders(),
        lock: arguments.probesets.lock()?,
        object,
        described: described(arguments),
    })
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
    arguments.force.request(&path, Kind::Trace, &inputs)
}

/// `644`: permissions, in octal.
fn mode(text: &str) -> Result<u32, String> {
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode & 0o600 == 0o600 && mode <= 0o666 && mode & 0o111 == 0 => Ok(mode),
        _ => Err(format!("`{text}` is no mode of a trace: 600, 640, 644, 660 or 666")),
    }
}

fn object(path: &Path) -> Result<record::Object, Diagnostics> {
    let name = path.display().to_string();
    match read_bounded(path, MAX_OBJECT) {
        Ok(bytes) => Ok(record::Object { name, bytes }),
        Err(why) => Err(Diagnostic::error(Code::ObjectDiffers, format!("the object {name} cannot be read: {why}"))
            .hint("`profinfer build` makes it")
            .into()),
    }
}

/// The options that differ from the defaults, as they are typed.
fn described(arguments: &Arguments) -> Vec<String> {
    let mut said = arguments.probesets.described();
    said.extend(arguments.steps.map(|(first, last)| match last {
        u64::MAX => format!("--steps {first}.."),
        _ => format!("--steps {first}..{last}"),
    }));
    said.extend(arguments.duration.map(|duration| format!("--duration {}ms", duration.as_millis())));
    said.extend(arguments.budget.map(|budget| format!("--budget {}%", (budget * 1e8).round() / 1e6)));
    said.extend(arguments.min_rate.map(|rate| format!("--min-rate {rate}")));
    if arguments.no_inherit {
        said.push("--no-inherit".to_owned());
    }
    if arguments.exact {
        said.push("--exact".to_owned());
    }
    if arguments.old_kernel {
        said.push("--old-kernel".to_owned());
    }
    said
}

/// `500ms`, `10s`, `5m`, `1h`; a bare number is seconds.
fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let seconds = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("`{unit}` is no unit of time: ms, s, m or h")),
    };
    let number: f64 = number.parse().map_err(|_| format!("`{text}` is no time, such as 10s"))?;
    let duration = Duration::try_from_secs_f64(number * seconds).map_err(|_| "it is too long".to_owned())?;
    if duration.is_zero() { Err("it must be more than nothing".into()) } else { Ok(duration) }
}

/// `1%`, `0.5%`: the part of the whole.
fn budget(text: &str) -> Result<f64, String> {
    let Some(number) = text.trim().strip_suffix('%') else {
        return Err(format!("`{text}` is no part of the target's time, such as 1%"));
    };
    let percent: f64 = number.trim().parse().map_err(|_| format!("`{number}` is no number"))?;
    if (0.01..=100.0).contains(&percent) { Ok(percent / 100.0) } else { Err("it must be from 0.01% to 100%".into()) }
}

/// Steps a second.
fn rate(text: &str) -> Result<f64, String> {
    let rate: f64 = text.trim().parse().map_err(|_| format!("`{text}` is no number"))?;
    if (0.001..=1e6).contains(&rate) { Ok(rate) } else { Err("it must be from 0.001 to 1000000 steps a second".into()) }
}

/// `512K`, `16M`, `1G`; a bare number is bytes.
fn bytes(text: &str) -> Result<u32, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = match unit.to_ascii_uppercase().trim_end_matches("IB").trim_end_matches('B') {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return Err(format!("`{unit}` is no unit of memory: K, M or G")),
    };
    let number: u64 = number.parse().map_err(|_| format!("`{text}` is no size, such as 16M"))?;
    let size = number.saturating_mul(factor);
    match u32::try_from(size) {
        Ok(size) if (64 << 10..=1 << 30).contains(&size) => Ok(size),
        _ => Err("it must be from 64K to 1G".into()),
    }
}

/// A person who waits is told why.
fn say_compiling() {
    if std::io::stderr().is_terminal() {
        terminal::say("compiling the probes: once, what comes of it is kept");
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
    /// On a terminal, unless the target writes to the same: it would write over the target's own lines.
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
    parts.push(counted(live.steps, "step"));
    if live.tokens > 0 {
        parts.push(format!("{:.1} tokens/s", rate(live.tokens, from.tokens)));
    }
    parts.push(format!("{:.0} events/s", rate(live.events, from.events)));
    parts.push(format!("{} lost", live.lost));
    parts.join("  ")
}

fn last_line(summary: &Summary) -> String {
    let file = match summary.file.as_os_str() == "-" {
        true => "standard output".to_owned(),
        false => summary.file.display().to_string(),
    };
    // What went to a pipe or device cannot be read from there.
    let next = if summary.file.is_file() { format!("; next: profinfer report {file}") } else { String::new() };
    format!(
        "{file}: {}{}, {}, {} lost, {:.1} s: {}{next}",
        if summary.engines.is_empty() { String::new() } else { format!("{}: ", summary.engines.join(" and ")) },
        counted(summary.steps, "step"),
        counted(summary.events, "event"),
        summary.lost(),
        summary.elapsed.as_secs_f64(),
        summary.reason,
    )
}

/// What is not in the trace, though it was asked for: what makes it incomplete first.
fn left_out_lines(summary: &Summary) -> Vec<String> {
    let mut entries: Vec<&LeftOut> = summary.left_out.iter().collect();
    entries.sort_by_key(|entry| !entry.kind.is_harmful());
    let line = |entry: &&LeftOut| {
        let what = match entry.kind {
            LeftOutKind::Survivor => "not recorded further",
            kind if kind.is_harmful() => "incomplete",
            _ => "left out",
        };
        format!("{what}: {}", printable(&entry.text))
    };
    let mut lines: Vec<String> = entries.iter().take(LEFT_OUT_SHOWN).map(line).collect();
    if entries.len() > LEFT_OUT_SHOWN {
        let more = entries.len() - LEFT_OUT_SHOWN;
        lines.push(format!("and {more} more: `profinfer info {}`", summary.file.display()));
    }
    lines
}

/// Whether the ring was nearly too small.
fn ring_line(summary: &Summary) -> Option<String> {
    let lost = summary.losses.iter().any(|loss| loss.kind == LossKind::RingFull);
    let (percent, size) = (summary.ring_percent.min(100), summary.ring_bytes >> 10);
    let larger = (summary.ring_bytes >> 10).saturating_mul(4).clamp(64, 1 << 20);
    match percent {
        _ if lost => Some(format!("the ring of {size}K was full: `--ring-size {larger}K` has more room")),
        51.. => {
            Some(format!("the ring of {size}K was {percent} % full at most: `--ring-size {larger}K` has more room"))
        }
        _ => None,
    }
}

fn counted(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// The target's own status, if it says something; else what came of the recording.
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
    fn times_and_sizes_have_units() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("1.5"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        for wrong in ["", "s", "0s", "10 parsecs", "1e99h", "-1s"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        assert_eq!((bytes("512K"), bytes("16MiB"), bytes("1g")), (Ok(512 << 10), Ok(16 << 20), Ok(1 << 30)));
        for wrong in ["", "16", "2G", "99999999999999999999", "16X"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn prices_have_bounds() {
        assert_eq!((budget("1%"), budget("0.5 %"), rate("5"), rate("0.5")), (Ok(0.01), Ok(0.005), Ok(5.0), Ok(0.5)));
        for wrong in ["1", "0%", "-1%", "nan%", "101%", "%", ""] {
            assert!(budget(wrong).is_err(), "{wrong}");
        }
        for wrong in ["0", "-5", "inf", "NaN", "fast", ""] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
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
            steps,
            tokens,
            events,
            lost: 0,
            attached: true,
        };
        let line = live_line(&at(12, 30, 130, 9000), &at(10, 10, 100, 1000));
        assert_eq!(line, "12 s  30 steps  15.0 tokens/s  4000 events/s  0 lost");
    }
}
