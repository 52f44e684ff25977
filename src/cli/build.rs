//! `profinfer build`: the BPF object of a probeset.

use super::Outcome;
use super::output::Force;
use super::probeset::{ArchArgument, WantedArguments};
use std::path::PathBuf;

/// The subcommand's arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    probeset: WantedArguments,
    /// Write the object to this file [default: PROBESET.bpf.o]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The instruction set of the machine it will run on [default: this one's]
    #[arg(long, value_enum)]
    arch: Option<ArchArgument>,
    /// For a kernel from 5.10 that lacks what later ones have: see `profinfer doctor` there
    #[arg(long)]
    old_kernel: bool,
    #[command(flatten)]
    force: Force,
}

/// Runs the subcommand.
#[cfg(feature = "record")]
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    use super::output::write_whole;
    use super::probeset::sources;
    use super::{DONE, terminal};
    use crate::bpf::{self, Kernels, Translation};
    use crate::output::Kind;
    use crate::{codegen, record};

    let arch = arguments.arch.map_or_else(record::host_arch, |name| Ok(name.into()))?;
    let (probeset, plan, warnings) = arguments.probeset.plan(arch)?;
    terminal::report_problems(&warnings);
    let source = codegen::generate(&plan, &probeset, None)?;
    let kernels = if arguments.old_kernel { Kernels::Old } else { Kernels::Recent };
    let object =
        bpf::build(&Translation { source: &source, sources: &probeset.sources, kernels, attach: None }, || {})?;
    let output = arguments.output.clone().unwrap_or_else(|| format!("{}.bpf.o", probeset.name).into());
    write_whole(arguments.force.request(&output, Kind::Object, &sources(&probeset)), &object.bytes)?;
    let from = if object.cached { "from the cache" } else { "compiled" };
    terminal::say(&format!("{}: {} bytes, {from}", output.display(), object.bytes.len()));
    Ok(DONE)
}

/// Runs the subcommand.
#[cfg(not(feature = "record"))]
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    use crate::diag::{Code, Diagnostic};

    let message = format!("{}: this profinfer was built without recording", arguments.probeset.name());
    let hint = "build it with the `record` feature; `profinfer gen` prints the C";
    Err(Diagnostic::error(Code::NotSupportedYet, message).hint(hint).into())
}
