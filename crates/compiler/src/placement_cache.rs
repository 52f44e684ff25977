//! Outcomes of placing a plan on a target that grows: a process maps one library after the other, few of which matter.

use super::model::{Placement, ProbePlan, Program};
use super::module::find;
use profinfer_binary::{TargetFile, TargetSymbols};
use profinfer_diagnostics::Diagnostics;
use profinfer_probeset::Probeset;
use profinfer_probeset::path::Place;
use std::cell::RefCell;

/// What an outcome depends on: the files that each module is, and, where bases of classes may be in any file, all files.
type Modules = (Vec<Vec<TargetFile>>, Option<Vec<u64>>);
type Outcome = (Placement, Diagnostics);

/// Outcomes in a cache: processes of one target are alike.
const CAPACITY: usize = 16;

/// Outcomes of placing one plan of one probeset. Each is valid as long as the modules are the same files.
#[derive(Debug, Default)]
pub struct PlacementCache {
    outcomes: RefCell<Vec<(Modules, Outcome)>>,
}

impl PlacementCache {
    /// The outcome for these modules; `place` computes one that is not cached.
    pub(super) fn get_or_place(
        &self,
        plan: &ProbePlan,
        probeset: &Probeset,
        target: &dyn TargetSymbols,
        place: impl FnOnce() -> Outcome,
    ) -> Outcome {
        let modules = modules(plan, probeset, target);
        if let Some((_, outcome)) = self.outcomes.borrow().iter().find(|(cached, _)| *cached == modules) {
            return outcome.clone();
        }
        let outcome = place();
        let mut outcomes = self.outcomes.borrow_mut();
        outcomes.truncate(CAPACITY - 1);
        outcomes.insert(0, (modules, outcome.clone()));
        outcome
    }
}

fn modules(plan: &ProbePlan, probeset: &Probeset, target: &dyn TargetSymbols) -> Modules {
    let files = |name: &String| {
        let files = find(probeset, name, target);
        files.iter().filter_map(|file| target.files().get(*file).cloned()).collect()
    };
    // Where each module is one file, so are its classes.
    let is_exact = probeset.modules.values().all(|module| module.exact.is_some());
    let is_virtual = |program: &Program| matches!(program.place, Place::Virtual { .. });
    let has_classes = !is_exact && plan.programs.iter().any(is_virtual);
    (
        probeset.modules.keys().map(files).collect(),
        has_classes.then(|| target.files().iter().map(|file| file.id).collect()),
    )
}
