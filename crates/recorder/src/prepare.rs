//! From a probeset to what the kernel can load: which events can be counted here, the plan, its C, the object. No target is
//! touched.

use super::counters::Counters;
use super::{Options, calibrate, host_arch};
use crate::bpf::{self, AttachMode, BpfObject, Features, Kernels, Translation};
use profinfer_compiler::{self as compiler, ProbePlan, Selection, codegen};
use profinfer_diagnostics::Diagnostics;
use profinfer_probeset::Probeset;

/// A probeset that is ready to be recorded with.
#[derive(Debug)]
pub struct Prepared<'a> {
    pub(super) options: &'a Options,
    pub(super) probeset: &'a Probeset,
    pub(super) plan: ProbePlan,
    pub(super) counters: Counters,
    pub(super) object: BpfObject,
    pub(super) mode: AttachMode,
    /// Whether the kernel tells programs which site they run at.
    pub(super) cookies: bool,
    /// What the plan had to leave out.
    pub(super) warnings: Diagnostics,
}

impl Prepared<'_> {
    /// Whether there are members, or slots of methods, for [`Options::until_learned`].
    pub fn can_learn(&self) -> bool {
        let any_slots = || self.plan.programs.iter().any(|program| program.place.open_slot().is_some());
        any_slots() || !compiler::lessons(&self.plan, self.probeset).is_empty()
    }
}

/// Plans a probeset's programs and builds their object, or finds it in the cache. `compiling` is called before it is
/// compiled, which takes seconds.
///
/// # Errors
/// This machine cannot record, an event that must be counted cannot be, or the programs do not compile.
pub fn prepare<'a>(
    probeset: &'a Probeset,
    options: &'a Options,
    compiling: impl FnOnce(),
) -> Result<Prepared<'a>, Diagnostics> {
    let features = Features::probe()?;
    features.require()?;
    let counters = Counters::open(&compiler::counters_asked(probeset, &options.selection)?, options.exact)?;
    let selection = Selection { offer: Some(counters.offer.clone()), ..options.selection.clone() };
    let (mut plan, warnings) = compiler::plan(probeset, &selection, host_arch()?)?;
    plan.costs = calibrate::costs(plan.arch);
    let source = codegen::generate(&plan, probeset, None)?;
    let kernels = if options.old_kernel { Kernels::Old } else { features.kernels() };
    let mode = options.attach.unwrap_or_else(|| features.attach_mode());
    mode.permitted()?;
    let object = match &options.object {
        Some(object) => bpf::prebuilt(&object.name, &object.bytes, &source, kernels)?,
        None => {
            let sources = &probeset.sources;
            let translation = Translation { source: &source, sources, kernels, attach: Some(mode) };
            bpf::build(&translation, compiling)?
        }
    };
    Ok(Prepared { options, probeset, plan, counters, object, mode, cookies: features.cookies, warnings })
}
