//! `profinfer lock`: what a target's debug information says, written down for where the target is stripped.

use super::output::{Force, write_whole};
use super::probeset::{DebugArguments, WantedArguments, arch_of, sources};
use super::terminal::report_problems;
use super::{DONE, Outcome};
use crate::diag::{Diagnostics, printable_json};
use crate::output::Kind;
use crate::plan;
use std::path::{Path, PathBuf};

/// The subcommand's arguments.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The lock file holds what this probeset asks of this build: functions, layouts, enumerations, and \
    the sites that were chosen. `record --lock FILE` uses it where the same build is stripped."
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    probeset: WantedArguments,
    #[command(flatten)]
    debug: DebugArguments,
    /// Write down this: a program, library, folder or process number, with its debug information
    #[arg(long, value_name = "FILE|DIR|PID", required_unless_present = "pid")]
    target: Option<String>,
    /// Write down this running process
    #[arg(short, long, value_name = "PID", conflicts_with = "target")]
    pid: Option<u32>,
    /// Write to this file [default: PROBESET.lock]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    force: Force,
}

/// Runs the subcommand.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let target = arguments.debug.open_target(arguments.target.as_deref(), arguments.pid)?;
    let (probeset, plan, mut problems) = arguments.probeset.plan(arch_of(None, target.as_deref()))?;
    let Some(target) = target else { return Err(Diagnostics::new()) };
    let locked = plan::lock(&plan, &probeset, target.as_ref());
    let (lock, more) = match locked {
        Ok(locked) => locked,
        Err(more) => {
            problems.0.extend(more.0);
            return Err(problems);
        }
    };
    problems.0.extend(more.0);
    report_problems(&problems);
    let output = arguments.output.clone().unwrap_or_else(|| format!("{}.lock", probeset.name).into());
    let mut inputs = sources(&probeset);
    inputs.extend(arguments.target.as_deref().map(Path::new));
    write_whole(arguments.force.request(&output, Kind::Lock, &inputs), printable_json(&lock.to_text()).as_bytes())?;
    for file in &lock.files {
        let [functions, types, enums] = file.counts();
        super::terminal::say(&format!(
            "{}: {} ({}): {functions} functions, {types} types, {enums} enumerations, {} sites",
            output.display(),
            file.name,
            file.build_id,
            file.sites.len(),
        ));
    }
    Ok(DONE)
}
