//! `profinfer build`: the BPF object of a probeset.

use super::Outcome;
use super::output::Force;
use super::probeset::{ArchArgument, ChoiceArguments};
use std::path::PathBuf;

/// The subcommand's arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Probeset files or names of shipped ones, for one recording (default: what `record` without SPEC uses for a target that
    /// loads its engines later)
    #[arg(value_name = "SPEC")]
    specs: Vec<PathBuf>,
    #[command(flatten)]
    choice: ChoiceArguments,
    /// Write the BPF object to this file [default: PROBESET.bpf.o]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Instruction set of the machine that will load it [default: this machine's]
    #[arg(long, value_enum)]
    arch: Option<ArchArgument>,
    /// Build for a kernel from 5.10 without features of later ones; run `profinfer doctor` there
    #[arg(long)]
    old_kernel: bool,
    #[command(flatten)]
    force: Force,
}

/// Runs the subcommand.
#[cfg(feature = "record")]
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    use super::engines::offered;
    use super::output::write_whole;
    use super::probeset::{load_all, sources};
    use super::{DONE, terminal, together};
    use profinfer_compiler::{codegen, plan, stack_budget};
    use profinfer_diagnostics::Diagnostics;
    use profinfer_files::output::OutputKind;
    use profinfer_probeset::{self as spec, Probeset};
    use profinfer_recorder as record;
    use profinfer_recorder::bpf::{self, Kernels, Translation};

    let arch = arguments.arch.map_or_else(record::host_arch, |name| Ok(name.into()))?;
    let mut warnings = Diagnostics::new();
    let probeset = if arguments.specs.is_empty() {
        let budget = |whole: &Probeset| stack_budget(whole, &arguments.choice.selection(), arch).ok();
        together::fitting(offered(), false, budget)?.0.whole
    } else {
        let (probesets, more) = load_all(&arguments.specs)?;
        warnings = more;
        spec::combine(probesets.into_iter().map(|probeset| (probeset, true)).collect())?
    };
    let (plan, more) = plan(&probeset, &arguments.choice.selection(), arch)?;
    warnings.0.extend(more.0);
    terminal::report_problems(&warnings);
    let source = codegen::generate(&plan, &probeset, None)?;
    let kernels = if arguments.old_kernel { Kernels::Old } else { Kernels::Recent };
    let object =
        bpf::build(&Translation { source: &source, sources: &probeset.sources, kernels, attach: None }, || {})?;
    let name = if arguments.specs.is_empty() { "engines" } else { &probeset.name };
    let output = arguments.output.clone().unwrap_or_else(|| format!("{name}.bpf.o").into());
    write_whole(arguments.force.request(&output, OutputKind::Object, &sources(&probeset)), &object.bytes)?;
    let from = match object.origin {
        bpf::ObjectOrigin::Compiled => "compiled",
        bpf::ObjectOrigin::Cache => "from the cache",
        bpf::ObjectOrigin::Shipped | bpf::ObjectOrigin::File => "shipped with this program",
    };
    terminal::status(&format!("{}: {} bytes, {from}", output.display(), object.bytes.len()));
    Ok(DONE)
}

/// Runs the subcommand.
#[cfg(not(feature = "record"))]
pub(crate) fn run(_: &Arguments) -> Outcome {
    use profinfer_diagnostics::{Code, Diagnostic};

    let message = "cannot build an object: this profinfer was compiled without recording";
    let hint = "compile it with the `record` feature; `profinfer gen` prints the C";
    Err(Diagnostic::error(Code::NotSupportedYet, message).hint(hint).into())
}
