//! Copies of whole functions that a compiler has left parameters out of (`.isra.0`, `.constprop.0`): their arguments are
//! where debug information has them, not where the source's declaration would.

use super::Placer;
use crate::inlined::{places, wanted};
use crate::model::Program;
use profinfer_binary::{Function, may_lack_parameters};
use profinfer_diagnostics::{Code, Diagnostic};
use profinfer_probeset::path::Place;

impl Placer<'_> {
    /// Where a changed copy of a function has the arguments that a program reads, by C variable; `None` for other
    /// functions. Without debug information of it they are taken to be where the declaration has them, with a warning.
    ///
    /// # Errors
    /// That it has one of them nowhere.
    pub(super) fn arguments_of_clone(
        &mut self,
        index: usize,
        program: &Program,
        file: usize,
        function: &Function,
    ) -> Result<Option<Vec<(String, u64)>>, Diagnostic> {
        let Place::Function { pattern, .. } = &program.place else { return Ok(None) };
        let wanted = wanted(self.plan, index, program);
        if wanted.is_empty() || !may_lack_parameters(&function.symbol) {
            return Ok(None);
        }
        let copies = self.target.inlined(file, pattern);
        let Some(copy) = copies.iter().find(|copy| copy.is_whole && copy.entry == function.file_offset) else {
            self.unsure.push(function.name.clone());
            return Ok(None);
        };
        match places(self.plan.arch, copy, &wanted, copy.entry) {
            Some(places) => Ok(Some(places)),
            None => {
                let message =
                    format!("`{}` has not all the arguments that are read: it is a changed copy", function.symbol);
                Err(Diagnostic::error(Code::ArgumentPlace, message)
                    .at(&program.span)
                    .hint("add a function that calls it, or is called from it, to the list under `at:`"))
            }
        }
    }

    /// That a program may read wrong arguments: of the changed copies that were taken to be as declared since last asked.
    pub(super) fn may_be_wrong(&mut self, program: &Program) -> Option<Diagnostic> {
        let unsure = std::mem::take(&mut self.unsure);
        let (what, they) = match unsure.as_slice() {
            [] => return None,
            [one] => (format!("`{one}`"), "it is a changed copy"),
            [first, others @ ..] => (format!("`{first}` and {} more", others.len()), "they are changed copies"),
        };
        let message = format!("arguments of {what} may be read wrongly: {they}");
        let problem = Diagnostic::warning(Code::ArgumentPlace, message).at(&program.span);
        Some(
            problem
                .with_note(
                    "the compiler may have left out parameters, and there is no debug information of what is left",
                )
                .hint("compare some values with what they should be, or build the engine with `-g`"),
        )
    }
}
