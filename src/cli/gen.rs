//! `profinfer gen`: the C that a probeset is compiled to.

use super::probeset::{ArchArgument, ProbesetArguments, arch_of, cannot_write};
use super::terminal::{report_problems, write_out};
use super::{DONE, Outcome};
use crate::codegen::generate;
use crate::plan::place_with;
use std::path::PathBuf;

/// The subcommand's arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    probeset: ProbesetArguments,
    /// Fill in the values of this target: a program, library, folder or process number
    #[arg(long, value_name = "FILE|DIR|PID")]
    target: Option<String>,
    /// The instruction set (default: the target's, else this machine's)
    #[arg(long, value_enum)]
    arch: Option<ArchArgument>,
    /// Write to this file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Runs the subcommand.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let target = arguments.probeset.open_target(arguments.target.as_deref(), None)?;
    let lock = arguments.probeset.lock()?;
    let arch = arch_of(arguments.arch, target.as_deref());
    let (probeset, plan, problems) = arguments.probeset.plan(arch)?;
    report_problems(&problems);
    let placement = match &target {
        Some(target) => {
            let (placement, problems) = place_with(&plan, &probeset, target.as_ref(), lock.as_ref())?;
            report_problems(&problems);
            Some(placement)
        }
        None => None,
    };
    let source = generate(&plan, &probeset, placement.as_ref())?;
    match &arguments.output {
        Some(path) => std::fs::write(path, &source.text).map_err(|error| cannot_write(path, &error))?,
        None => write_out(&source.text)?,
    }
    Ok(DONE)
}
