//! Finding the slot of a virtual method while a recording begins, where a probeset gives several: all are probed, the records
//! wait, and the slot in which the steps' time is remains.

mod decide;
mod held;

pub(super) use held::{Held, Taken};

use super::consumer::Consumer;
use super::modules::Modules;
use crate::bpf::Session;
use profinfer_compiler::ProbePlan;
use profinfer_diagnostics::{Code, Diagnostic};
use profinfer_schema::{Loss, LossKind, ModuleInfo, Schema, ValueSource};
use std::collections::BTreeSet;

/// A slot that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct LearnedSlot {
    /// The probe.
    pub probe: String,
    /// `ns::Base[3|4]`.
    pub slots: String,
    /// The slot.
    pub slot: u32,
    /// Calls of it in the steps.
    pub calls: usize,
    /// Steps that were looked at.
    pub steps: usize,
    /// Of a step's time, in percent.
    pub percent: u64,
    /// The file of its functions.
    pub file: Option<ModuleInfo>,
}

/// The slots of a recording.
#[derive(Debug)]
pub(super) struct SlotLearning {
    any: bool,
    /// What was found.
    pub(super) found: Vec<LearnedSlot>,
}

impl SlotLearning {
    pub(super) fn new(plan: &ProbePlan) -> Self {
        Self { any: any_open(plan), found: Vec::new() }
    }

    /// Whether nothing more will be found, where each method is in one file.
    pub(super) fn is_done(&self, consumer: &Consumer) -> bool {
        !self.any || consumer.with_held(|held| held.is_done())
    }

    /// Whether something is still to be found.
    pub(super) fn is_open(&self, consumer: &Consumer) -> bool {
        self.any && consumer.with_held(|held| held.any_open())
    }

    /// Adds calls that could not wait for their slot to be found. Removes what the programs counted of fields that could not
    /// be read, where only other slots' calls lacked any.
    pub(super) fn correct(&self, losses: &mut Vec<Loss>, schema: &Schema, held: &Held) {
        if !self.any {
            return;
        }
        let number = |name: &str| {
            let number = schema.records.iter().position(|record| record.name == name)?;
            u16::try_from(number).ok()
        };
        losses.retain(|loss| {
            let is_of_fields = matches!(loss.kind, LossKind::ReadFailed | LossKind::Implausible | LossKind::Truncated);
            let are_of_others = |record| held.are_of_others(record, loss.count);
            !(is_of_fields && number(&loss.record).is_some_and(are_of_others))
        });
        let kind = LossKind::Undecided;
        for (record_type, count) in held.lost() {
            let Some(record) = schema.records.get(usize::from(record_type)) else { continue };
            Loss { record: record.name.clone(), kind, count }.add_to(losses);
        }
    }

    /// Decides what can be decided; `is_last`: there will be no more records.
    pub(super) fn poll(
        &mut self,
        modules: &mut Modules<'_>,
        session: &mut Session<'_>,
        consumer: &Consumer,
        is_last: bool,
    ) {
        if !self.is_open(consumer) {
            return;
        }
        let has_steps = modules.any_steps();
        // Asked while no record is taken: those that wait were made before.
        let decided = consumer.with_held(|held| held.decided(has_steps, session.steps() > 0, is_last));
        for (number, outcome) in decided {
            let slot = outcome.as_ref().ok().map(|found| found.slot);
            let settled = consumer.with_held(|held| held.settle(number, slot));
            let Some((trial, rejected)) = settled else { continue };
            modules.detach_sites(&rejected.into_iter().collect::<BTreeSet<u16>>(), session);
            match outcome {
                Ok(found) => {
                    let (calls, steps) = (found.calls, found.steps);
                    let source = format!("learned from {calls} calls in {steps} steps");
                    consumer.notice(format!("slot {} of {}: {source}", found.slot, trial.slots));
                    modules.learned(ValueSource {
                        what: format!("slot of {}", trial.slots),
                        value: Some(u64::from(found.slot)),
                        source,
                    });
                    let file = modules.file(trial.module).cloned();
                    let (slot, percent) = (found.slot, found.percent);
                    let (probe, slots) = (trial.probe, trial.slots);
                    self.found.push(LearnedSlot { probe, slots, slot, calls, steps, percent, file });
                }
                Err(why) => {
                    let problem = not_found(&trial.probe, &trial.slots, &why);
                    modules.search_report.warned(std::slice::from_ref(&problem));
                    modules.add_problems(problem.into());
                }
            }
        }
    }
}

/// Whether a plan has methods whose slot is to be found.
pub(super) fn any_open(plan: &ProbePlan) -> bool {
    plan.programs.iter().any(|program| program.place.open_slot().is_some())
}

fn not_found(probe: &str, slots: &str, why: &str) -> Diagnostic {
    let message = format!("`{probe}` has no records: which slot of `{slots}` computes was not found: {why}");
    Diagnostic::warning(Code::SlotUnknown, message)
        .hint("record more steps, or name the slot in the probeset: `profinfer scaffold --trial` measures all of them")
}
