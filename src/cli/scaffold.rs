//! `profinfer scaffold`: a first probeset for a binary, with the functions that are likely to matter.

use super::output::{Force, write_whole};
use super::probeset::DebugArguments;
use super::terminal::{report_problems, write_out};
use super::{DONE, Outcome};
use crate::diag::{Code, Diagnostic, printable_lines};
use crate::output::Kind;
use crate::path::NamePattern;
use crate::scaffold;
use crate::target::Target;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The subcommand's arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    debug: DebugArguments,
    /// A program, library, folder or process number
    #[arg(value_name = "FILE|DIR|PID")]
    target: String,
    /// Only functions with such names (a name or glob; several can be given) [default: all]
    patterns: Vec<String>,
    /// No more than this many functions
    #[arg(long, value_name = "N", default_value_t = 12)]
    limit: usize,
    /// Run the command, count the calls of likely functions, and take those that are called
    #[arg(long, requires = "command")]
    trial: bool,
    /// End the trial after so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    seconds: u64,
    /// Write to this file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    force: Force,
    /// The command of the trial
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Runs the subcommand.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let target = arguments.debug.open_target(Some(&arguments.target), None)?;
    let Some(target) = target else { return Ok(DONE) };
    let all = ["*".to_owned()];
    let patterns = if arguments.patterns.is_empty() { &all[..] } else { &arguments.patterns };
    let patterns: Vec<NamePattern> = patterns.iter().map(|pattern| NamePattern(pattern.clone())).collect();
    let limit = arguments.limit.clamp(1, 200);
    // A trial sorts out what is not called: it starts with more.
    let most = if arguments.trial { limit.saturating_mul(8).min(200) } else { limit };
    let mut candidates = scaffold::candidates(target.as_ref(), &patterns, most);
    if candidates.is_empty() {
        let message = format!("{} has no function of such a name", arguments.target);
        return Err(Diagnostic::error(Code::FunctionNotFound, message)
            .hint("give a part of a name between `*`; a stripped file may have only what it exports")
            .into());
    }
    if arguments.trial {
        trial(arguments, target.as_ref(), &mut candidates)?;
        candidates = scaffold::called(candidates, limit);
        if candidates.is_empty() {
            let message = "none of the likely functions was called in the trial";
            return Err(Diagnostic::error(Code::NothingRecorded, message)
                .hint("give patterns, or more `--seconds`")
                .into());
        }
    }
    candidates.truncate(limit);
    scaffold::guess_signatures(target.as_ref(), &mut candidates);
    let engine = Path::new(&arguments.target).file_name().map(|name| name.to_string_lossy().into_owned());
    let text = scaffold::write(target.as_ref(), engine.as_deref().unwrap_or("unknown"), &candidates);
    let text = printable_lines(&text);
    match &arguments.output {
        Some(path) => {
            let inputs = [Path::new(&arguments.target)];
            write_whole(arguments.force.request(path, Kind::Probeset, &inputs), text.as_bytes())?;
        }
        None => write_out(&text)?,
    }
    report_problems(&crate::diag::Diagnostics(target.problems()));
    Ok(DONE)
}

#[cfg(feature = "record")]
fn trial(
    arguments: &Arguments,
    target: &dyn Target,
    candidates: &mut [scaffold::Candidate],
) -> Result<(), crate::diag::Diagnostics> {
    let wait = std::time::Duration::from_secs(arguments.seconds.max(1));
    super::scaffold_trial::count(&arguments.command, wait, target, candidates)
}

#[cfg(not(feature = "record"))]
fn trial(
    arguments: &Arguments,
    _target: &dyn Target,
    _candidates: &mut [scaffold::Candidate],
) -> Result<(), crate::diag::Diagnostics> {
    let _ = (arguments.seconds, &arguments.command);
    Err(Diagnostic::error(Code::KernelFeature, "this build of profinfer cannot record: there is no trial").into())
}
