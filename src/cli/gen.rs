//! `profinfer gen`: the C that a probeset is compiled to, or the same probes for another tool.

use super::output::{Force, write_whole};
use super::probeset::{ArchArgument, ProbesetArguments, arch_of, sources};
use super::terminal::{report_problems, write_out};
use super::{DONE, Outcome};
use crate::codegen::{bpftrace, generate};
use crate::diag::{Code, Diagnostic, printable_lines};
use crate::output::Kind;
use crate::plan::place_with;
use std::path::{Path, PathBuf};

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
    /// What to write
    #[arg(long, value_enum, default_value_t = Format::C)]
    format: Format,
    /// Write to this file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    force: Force,
}

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// The C that is compiled for BPF
    C,
    /// A script for bpftrace, with what that can express; needs a target
    Bpftrace,
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
    let text = match arguments.format {
        Format::C => generate(&plan, &probeset, placement.as_ref())?.text,
        Format::Bpftrace => {
            let (Some(placement), Some(target)) = (&placement, &target) else {
                let problem = Diagnostic::error(Code::BadArgument, "a script for bpftrace needs a target");
                return Err(problem.hint("give `--target FILE|DIR|PID`: offsets stand in the script").into());
            };
            let (text, problems) = bpftrace(&plan, &probeset, placement, target.as_ref())?;
            report_problems(&problems);
            text
        }
    };
    // Strings are escaped by what writes them; comments may say what names say.
    let text = printable_lines(&text);
    match &arguments.output {
        Some(path) => {
            let kind = match arguments.format {
                Format::C => Kind::C,
                Format::Bpftrace => Kind::Bpftrace,
            };
            let mut inputs = sources(&probeset);
            inputs.extend(arguments.target.as_deref().map(Path::new));
            inputs.extend(arguments.probeset.lock_file());
            write_whole(arguments.force.request(path, kind, &inputs), text.as_bytes())?;
        }
        None => write_out(&text)?,
    }
    Ok(DONE)
}
