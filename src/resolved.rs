//! A probeset resolved against a target, as `check` and `explain` show it.

use super::probeset::{ArchArgument, ProbesetArguments, arch_of};
use profinfer_compiler::{Placement, PlacementOptions, ProbePlan, place};
use profinfer_diagnostics::Diagnostics;
use profinfer_probeset::Probeset;

/// What a probeset is resolved against.
#[derive(Debug, clap::Args)]
pub(crate) struct TargetArguments {
    /// Resolve against this: a program, library, folder or process number
    #[arg(long, value_name = "FILE|DIR|PID", group = "of")]
    target: Option<String>,
    /// Resolve against this running process
    #[arg(short, long, value_name = "PID", group = "of")]
    pub(crate) pid: Option<u32>,
    /// Instruction set (default: the target's, else this machine's)
    #[arg(long, value_enum)]
    arch: Option<ArchArgument>,
}

/// A probeset, its plan, and where that is on a target.
pub(crate) struct Resolved {
    pub(crate) probeset: Probeset,
    pub(crate) plan: ProbePlan,
    /// Where a target is given.
    pub(crate) placement: Option<Placement>,
    /// Of the probeset, the plan, and the types that the target has.
    pub(crate) problems: Diagnostics,
}

impl TargetArguments {
    /// Plans a probeset, and places it on the target.
    pub(crate) fn resolve(&self, probeset: &ProbesetArguments) -> Result<Resolved, Diagnostics> {
        let target = probeset.open_target(self.target.as_deref(), self.pid)?;
        let lock = probeset.lock()?;
        let (probeset, plan, mut problems) =
            probeset.plan(arch_of(self.arch, target.as_deref().map(|target| target.files())))?;
        let placement = target.map(|target| {
            let options = PlacementOptions { lock: lock.as_ref(), ..PlacementOptions::default() };
            let (placement, more) = place(&plan, &probeset, target.as_ref(), options);
            problems.0.extend(more.0);
            placement
        });
        Ok(Resolved { probeset, plan, placement, problems })
    }
}
