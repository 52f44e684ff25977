//! `profinfer lock`: writes a lock file from a target's debug information, for the stripped build.

use super::output::{Force, write_whole};
use super::probeset::{DebugArguments, WantedArguments, arch_of, sources};
use super::terminal::report_problems;
use super::{DONE, Outcome};
use profinfer_compiler as plan;
use profinfer_diagnostics::{Diagnostics, printable_json};
use profinfer_files::output::OutputKind;
use std::path::{Path, PathBuf};

/// The subcommand's arguments.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The lock file contains the functions, layouts and constants that this probeset needs of this build, \
    and the chosen sites. Use it for the stripped build with `record --lock FILE`."
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    probeset: WantedArguments,
    #[command(flatten)]
    debug: DebugArguments,
    /// A program, library, folder or process number with debug information
    #[arg(long, value_name = "FILE|DIR|PID", required_unless_present = "pid")]
    target: Option<String>,
    /// A running process
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
    let (probeset, plan, mut problems) =
        arguments.probeset.plan(arch_of(None, target.as_deref().map(|target| target.files())))?;
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
    write_whole(
        arguments.force.request(&output, OutputKind::Lock, &inputs),
        printable_json(&lock.to_text()).as_bytes(),
    )?;
    for file in &lock.files {
        let [functions, types, enums] = file.counts();
        super::terminal::status(&format!(
            "{}: {} ({}): {functions} functions, {types} types, {enums} enumerations, {} sites",
            output.display(),
            file.name,
            file.build_id,
            file.sites.len(),
        ));
    }
    Ok(DONE)
}
