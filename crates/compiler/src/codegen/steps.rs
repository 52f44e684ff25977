//! What programs count of steps: those that begin, and the threads that are in one.

use crate::{Action, Shape};
use profinfer_schema::Role;

/// Whether an action is a step that begins and ends with a call.
pub(super) fn is_step(action: &&Action) -> bool {
    action.role == Role::Step && matches!(action.shape, Shape::Call { .. })
}

/// Counts a step at its entry, in C: one within another is a part of that. Given the probes of all steps.
pub(super) fn begins(probes: &[String]) -> String {
    let no_other: Vec<String> = probes.iter().map(|probe| format!("!call->thread->spans.{probe}.depth")).collect();
    format!("PF_STEP_BEGINS({});", no_other.join(" && "))
}

/// Whether calls of steps are open on a thread, in C; `None` where no step is a call.
pub(super) fn open(probes: &[String]) -> Option<String> {
    let depths: Vec<String> = probes.iter().map(|probe| format!("thread->spans.{probe}.depth")).collect();
    (!depths.is_empty()).then(|| depths.join(" || "))
}
