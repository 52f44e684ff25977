//! What programs count of steps: those that begin, and the threads that are in one.

use crate::{Action, ProbePlan, Shape};
use profinfer_schema::Role;

/// Whether an action is a step.
pub(super) fn is_step(action: &Action) -> bool {
    action.role == Role::Step && action.shape != Shape::Instant
}

/// Counts a step at its entry, in C: one within another is a part of that.
pub(super) fn begins(plan: &ProbePlan) -> String {
    let no_other: Vec<String> = open_steps(plan).iter().map(|open| format!("!call->{open}")).collect();
    format!("PF_STEP_BEGINS({});", no_other.join(" && "))
}

/// Whether steps are open on a thread, in C; `None` where there are none.
pub(super) fn open(plan: &ProbePlan) -> Option<String> {
    let open = open_steps(plan);
    (!open.is_empty()).then(|| open.join(" || "))
}

/// Where a thread has that each probe's steps are open: some of a probe may be calls, others end at another's entry.
fn open_steps(plan: &ProbePlan) -> Vec<String> {
    let calls = plan.actions_of_probes(|action| is_step(action) && matches!(action.shape, Shape::Call { .. }));
    let spans = plan.actions_of_probes(|action| is_step(action) && matches!(action.shape, Shape::Until { .. }));
    let calls = calls.iter().map(|action| format!("thread->spans.{}.depth", action.probe));
    calls.chain(spans.iter().map(|action| format!("thread->spans.{}_open.open", action.probe))).collect()
}
