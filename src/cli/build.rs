//! `profinfer build`: the BPF object of a probeset.

use super::Outcome;
use std::path::PathBuf;

/// The subcommand's arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The probeset: a file, or the name of a shipped one
    #[arg(value_name = "PROBESET")]
    probeset: PathBuf,
    /// Write the object to this file [default: PROBESET.bpf.o]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The instruction set of the machine it will run on [default: this one's]
    #[arg(long, value_enum)]
    arch: Option<ArchName>,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum ArchName {
    #[value(name = "x86_64")]
    X86_64,
    #[value(name = "aarch64")]
    Aarch64,
}

/// Runs the subcommand.
#[cfg(feature = "record")]
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    use super::{DONE, terminal};
    use crate::bpf::{self, Translation};
    use crate::plan::{self, Selection};
    use crate::spec::{self, Library};
    use crate::{codegen, record};

    let (probeset, warnings) = spec::load(&arguments.probeset, &Library::SHIPPED)?;
    terminal::report_problems(&warnings);
    let arch = arguments.arch.map_or_else(record::host_arch, |name| Ok(name.into()))?;
    let (plan, warnings) = plan::plan(&probeset, &Selection::default(), arch)?;
    terminal::report_problems(&warnings);
    let source = codegen::generate(&plan, &probeset, None)?;
    let object = bpf::build(&Translation { source: &source, sources: &probeset.sources })?;
    let output = arguments.output.clone().unwrap_or_else(|| format!("{}.bpf.o", probeset.name).into());
    std::fs::write(&output, &object.bytes).map_err(|error| record::cannot_write(&output, &error))?;
    let from = if object.cached { "from the cache" } else { "compiled" };
    anstream::eprintln!("{}: {} bytes, {from}", output.display(), object.bytes.len());
    Ok(DONE)
}

/// Runs the subcommand.
#[cfg(not(feature = "record"))]
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    use crate::diag::{Code, Diagnostic};

    let message = format!("{}: this profinfer was built without recording", arguments.probeset.display());
    let hint = "build it with the `record` feature; `profinfer gen` prints the C";
    Err(Diagnostic::error(Code::NotSupportedYet, message).hint(hint).into())
}

#[cfg(feature = "record")]
impl From<ArchName> for crate::target::Arch {
    fn from(name: ArchName) -> Self {
        match name {
            ArchName::X86_64 => Self::X86_64,
            ArchName::Aarch64 => Self::Aarch64,
        }
    }
}
