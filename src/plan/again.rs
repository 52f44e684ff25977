//! Placing on a target that grows: a process maps one library after the other, few of which matter.

use super::model::{Placement, ProbePlan};
use super::module::{ModuleFiles, find};
use super::place::place;
use super::place_with;
use crate::diag::Diagnostics;
use crate::path::Place;
use crate::spec::Probeset;
use crate::target::{Lock, Target, TargetFile};
use std::cell::RefCell;

/// What placing depends on: the files that each module is, and, where bases of classes may be in any file, all files.
type Modules = (Vec<(&'static str, Vec<TargetFile>)>, Option<Vec<u64>>);
type Outcome = Result<(Placement, Diagnostics), Diagnostics>;

/// Outcomes that are kept: processes of one target are alike.
const KEPT: usize = 16;

/// Places a plan again and again. An outcome is given again as long as the modules are the same files.
#[derive(Debug)]
pub struct Placing<'a> {
    plan: &'a ProbePlan,
    probeset: &'a Probeset,
    lock: Option<&'a Lock>,
    known: RefCell<Vec<(Modules, Outcome)>>,
}

impl<'a> Placing<'a> {
    /// Of a plan, with what a lock file says.
    pub fn new(plan: &'a ProbePlan, probeset: &'a Probeset, lock: Option<&'a Lock>) -> Self {
        Self { plan, probeset, lock, known: RefCell::default() }
    }

    /// As [`super::place_with`].
    ///
    /// # Errors
    /// As [`super::place_with`].
    pub fn place(&self, target: &dyn Target) -> Outcome {
        // A lock file is compared with every file of the target.
        if self.lock.is_some() {
            return place_with(self.plan, self.probeset, target, self.lock);
        }
        let modules = self.modules(target);
        if let Some((_, outcome)) = self.known.borrow().iter().find(|(known, _)| *known == modules) {
            return outcome.clone();
        }
        let outcome = place(self.plan, self.probeset, target);
        let mut known = self.known.borrow_mut();
        known.truncate(KEPT - 1);
        known.insert(0, (modules, outcome.clone()));
        outcome
    }

    fn modules(&self, target: &dyn Target) -> Modules {
        let files = |name: &String| {
            let (kind, files) = match find(self.probeset, name, target) {
                ModuleFiles::Found(files) => ("found", files),
                ModuleFiles::NotFound => ("not found", Vec::new()),
                ModuleFiles::Ambiguous(files) => ("ambiguous", files),
            };
            (kind, files.iter().filter_map(|file| target.files().get(*file).cloned()).collect())
        };
        let has_classes = self.plan.programs.iter().any(|program| matches!(program.place, Place::Virtual { .. }));
        (
            self.probeset.modules.keys().map(files).collect(),
            has_classes.then(|| target.files().iter().map(|file| file.id).collect()),
        )
    }
}
