//! `profinfer scaffold`: a first probeset for a binary, with the functions that are likely to matter.

use super::output::{Force, write_whole};
use super::probeset::DebugArguments;
use super::terminal::{report_problems, write_out};
use super::{DONE, Outcome, values};
use profinfer_binary::Target;
use profinfer_diagnostics::{Code, Diagnostic, Diagnostics, printable_lines};
use profinfer_files::output::OutputKind;
use profinfer_probeset::path::NamePattern;
use profinfer_scaffold as scaffold;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a trial lasts, unless the command ends before.
const DEFAULT_TRIAL: Duration = Duration::from_secs(60);
/// The same of a running process.
const DEFAULT_ATTACHED: Duration = Duration::from_secs(10);

/// The subcommand's arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    debug: DebugArguments,
    /// A program, library, folder or process number; with `-p`, the file of the process to write a draft for
    #[arg(value_name = "FILE|DIR|PID", required_unless_present = "pid")]
    target: Option<String>,
    /// Consider only functions with these names (a name or glob; repeatable) [default: all]
    patterns: Vec<String>,
    /// Maximum number of functions
    #[arg(long, value_name = "N", default_value_t = 12)]
    limit: usize,
    /// Run the command, measure calls of likely functions, and choose roles by time and nesting
    #[arg(long, requires = "command")]
    trial: bool,
    /// The same in a running process
    #[arg(short, long, value_name = "PID", conflicts_with = "command")]
    pid: Option<i32>,
    /// End the trial after this time (10s, 500ms, 2m, 1h) [default: 60s; 10s with -p]
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    duration: Option<Duration>,
    /// The same in seconds
    #[arg(long, value_name = "SECONDS", hide = true, conflicts_with = "duration")]
    seconds: Option<u64>,
    /// Write to this file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    force: Force,
    /// The command for the trial
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Runs the subcommand.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let (named, patterns) = arguments.named();
    let of = match (&named, arguments.pid) {
        (Some(named), _) => named.clone(),
        (None, Some(pid)) => pid.to_string(),
        (None, None) => return Ok(DONE),
    };
    let target = arguments.debug.open_target(Some(&of), None)?;
    let Some(target) = target else { return Ok(DONE) };
    let limit = arguments.limit.clamp(1, 200);
    let has_trial = arguments.trial || arguments.pid.is_some();
    // A trial sorts out what is not called: it starts with more.
    let most = if has_trial { limit.saturating_mul(8).min(200) } else { limit };
    let only = own_file(&of, target.as_ref());
    let mut candidates = scaffold::candidates(target.as_ref(), &patterns, only, most);
    if candidates.is_empty() {
        let message = format!("{of} has no function that matches the patterns");
        return Err(Diagnostic::error(Code::FunctionNotFound, message)
            .hint("write a part of a name between `*`; a stripped file may have only its exported functions")
            .into());
    }
    let mut notes = Vec::new();
    if has_trial {
        notes = trial(arguments, target.as_ref(), &mut candidates)?;
        candidates = scaffold::choose(candidates, limit);
        if candidates.is_empty() {
            let message = "no likely function was called in the trial";
            return Err(Diagnostic::error(Code::NothingRecorded, message)
                .hint("give patterns, or increase `--duration`")
                .into());
        }
    }
    candidates.truncate(limit);
    scaffold::guess_signatures(target.as_ref(), &mut candidates);
    let engine = Path::new(&of).file_name().map(|name| name.to_string_lossy().into_owned());
    let text = scaffold::write(target.as_ref(), engine.as_deref().unwrap_or("unknown"), &candidates, &notes);
    let text = printable_lines(&text);
    match &arguments.output {
        Some(path) => {
            let inputs = [Path::new(&of)];
            write_whole(arguments.force.request(path, OutputKind::Probeset, &inputs), text.as_bytes())?;
        }
        None => write_out(&text)?,
    }
    report_problems(&Diagnostics(target.problems()));
    Ok(DONE)
}

impl Arguments {
    /// The file that is named, and the names of functions. With a process, both may be left out.
    fn named(&self) -> (Option<String>, Vec<NamePattern>) {
        let is_file = |named: &&String| self.pid.is_none() || Path::new(named).exists();
        let named = self.target.as_ref().filter(is_file).cloned();
        let first = self.target.iter().filter(|_| named.is_none());
        let patterns: Vec<NamePattern> =
            first.chain(&self.patterns).map(|pattern| NamePattern(pattern.clone())).collect();
        (named, if patterns.is_empty() { vec![NamePattern("*".to_owned())] } else { patterns })
    }
}

/// The file itself, where one is named: the libraries that it needs have other functions.
fn own_file(named: &str, target: &dyn Target) -> Option<usize> {
    let path = std::fs::canonicalize(named).ok().filter(|path| path.is_file())?;
    target.files().iter().position(|file| std::fs::canonicalize(&file.path).is_ok_and(|of| of == path))
}

/// Measures the candidates; gives what is missing of it.
#[cfg(feature = "record")]
fn trial(
    arguments: &Arguments,
    target: &dyn Target,
    candidates: &mut [scaffold::Candidate],
) -> Result<Vec<String>, Diagnostics> {
    use profinfer_recorder::Subject;
    let (subject, default) = match arguments.pid {
        Some(pid) => (Subject::Process(pid), DEFAULT_ATTACHED),
        None => (Subject::Command(arguments.command.clone()), DEFAULT_TRIAL),
    };
    let seconds = arguments.seconds.map(|seconds| Duration::from_secs(seconds.max(1)));
    super::scaffold_trial::run(subject, arguments.duration.or(seconds).unwrap_or(default), target, candidates)
}

#[cfg(not(feature = "record"))]
fn trial(
    arguments: &Arguments,
    _target: &dyn Target,
    _candidates: &mut [scaffold::Candidate],
) -> Result<Vec<String>, Diagnostics> {
    let _ = (arguments.seconds, arguments.duration, &arguments.command, DEFAULT_ATTACHED, DEFAULT_TRIAL);
    Err(Diagnostic::error(Code::KernelFeature, "this build of profinfer cannot record, so it cannot run a trial")
        .into())
}
