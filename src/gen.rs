//! `profinfer gen`: the C that a probeset is compiled to, or the same probes for another tool.

use super::output::{Force, write_whole};
use super::probeset::{ArchArgument, ProbesetArguments, arch_of, sources};
use super::terminal::{report_problems, write_out};
use super::{DONE, Outcome};
use profinfer_compiler::codegen::{bpftrace, generate};
use profinfer_compiler::{PlacementOptions, place};
use profinfer_diagnostics::{Code, Diagnostic, printable_lines};
use profinfer_files::output::OutputKind;
use std::path::{Path, PathBuf};

/// The subcommand's arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    probeset: ProbesetArguments,
    /// Insert the constants of this target: a program, library, folder or process number
    #[arg(long, value_name = "FILE|DIR|PID")]
    target: Option<String>,
    /// Instruction set (default: the target's, else this machine's)
    #[arg(long, value_enum)]
    arch: Option<ArchArgument>,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::C)]
    format: Format,
    /// Write one file that clang takes alone, with the runtime in place of its `#include`s
    #[arg(long)]
    standalone: bool,
    /// Write to this file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    force: Force,
}

/// The output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// C for BPF
    C,
    /// A bpftrace script, as far as the language allows; needs a target
    Bpftrace,
}

/// Runs the subcommand.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let target = arguments.probeset.open_target(arguments.target.as_deref(), None)?;
    let lock = arguments.probeset.lock()?;
    let arch = arch_of(arguments.arch, target.as_deref().map(|target| target.files()));
    let (probeset, plan, problems) = arguments.probeset.plan(arch)?;
    report_problems(&problems);
    let placement = match &target {
        Some(target) => {
            let options = PlacementOptions { lock: lock.as_ref(), ..PlacementOptions::default() };
            let (placement, problems) = place(&plan, &probeset, target.as_ref(), options);
            let (placement, problems) = problems.finish(placement)?;
            report_problems(&problems);
            Some(placement)
        }
        None => None,
    };
    let text = match arguments.format {
        Format::C => {
            let source = generate(&plan, &probeset, placement.as_ref())?;
            if arguments.standalone { source.standalone() } else { source.text }
        }
        Format::Bpftrace => {
            let (Some(placement), Some(target)) = (&placement, &target) else {
                let problem = Diagnostic::error(Code::BadArgument, "a bpftrace script needs a target");
                return Err(problem.hint("give `--target FILE|DIR|PID`; the script contains its offsets").into());
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
                Format::C => OutputKind::C,
                Format::Bpftrace => OutputKind::Bpftrace,
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
