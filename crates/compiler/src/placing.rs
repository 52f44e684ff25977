//! The entry of placing: a plan on a target, with a lock file or a cache of earlier outcomes.

use super::builds::place_builds;
use super::lock::place_locked;
use super::model::{Placement, ProbePlan};
use super::part::parts;
use super::placement_cache::PlacementCache;
use profinfer_binary::{Lock, Target};
use profinfer_diagnostics::Diagnostics;
use profinfer_probeset::Probeset;

/// What placing may use beside the plan and the target.
#[derive(Debug, Clone, Copy, Default)]
pub struct PlacementOptions<'a> {
    /// What the target's files do not have themselves. It is compared with all of them, so nothing is cached then.
    pub lock: Option<&'a Lock>,
    /// Earlier outcomes of the same plan.
    pub cache: Option<&'a PlacementCache>,
}

/// Places a plan: for each probe the first of its alternatives that the target has. What could be placed comes with every
/// problem; [`Diagnostics::finish`] makes an error of those that are: a member that the target has not, or of another
/// type, an ambiguous module, too many functions, a lock of another build. A probe without a site is no error here: its
/// file may be mapped later; see [`Placement::unplaced`].
pub fn place(
    plan: &ProbePlan,
    probeset: &Probeset,
    target: &dyn Target,
    options: PlacementOptions<'_>,
) -> (Placement, Diagnostics) {
    let unlocked = || place_on(plan, probeset, target);
    match (options.lock, options.cache) {
        (Some(lock), _) => place_locked(plan, probeset, target, lock),
        (None, Some(cache)) => cache.get_or_place(plan, probeset, target, unlocked),
        (None, None) => unlocked(),
    }
}

/// Places a plan on what one target has.
pub(super) fn place_on(plan: &ProbePlan, probeset: &Probeset, target: &dyn Target) -> (Placement, Diagnostics) {
    if probeset.parts.is_empty() { place_builds(plan, probeset, target, None) } else { parts(plan, probeset, target) }
}
