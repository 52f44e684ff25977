//! The functions in a slot of virtual tables.

use super::{Code, Diagnostic, Function, Placer, Program};

impl Placer<'_> {
    /// What the classes derived from a base have in a slot, in each file; why there is nothing.
    pub(super) fn overrides(
        &mut self,
        program: &Program,
        files: &[usize],
        base: &str,
        slot: u32,
    ) -> Result<Vec<(usize, Function)>, Diagnostic> {
        let mut found = Vec::new();
        let (mut classes, mut slots, mut is_cut) = (0, None, false);
        for file in files {
            let overrides = self.target.overrides(*file, base, slot);
            found.extend(overrides.functions.into_iter().map(|function| (*file, function)));
            classes += overrides.classes;
            slots = slots.max(overrides.slots);
            is_cut |= overrides.is_cut;
        }
        if is_cut {
            let message = format!("the classes derived from `{base}` are too many to search");
            let problem = Diagnostic::error(Code::TooManySites, message).at(&program.span);
            return Err(self.refuse(problem.hint("no compiler writes such type information: is the file damaged?")));
        }
        self.leave_to_others(program, files, &mut found);
        if !found.is_empty() {
            return Ok(found);
        }
        let names = self.file_names(files);
        let problem = |message: String| Diagnostic::error(Code::FunctionNotFound, message).at(&program.span);
        Err(match (classes, slots) {
            (0, _) => problem(format!("no class `{base}` with run-time type information in {names}")).hint(
                files.iter().find_map(|file| self.target.class_like(*file, base)).unwrap_or_else(|| {
                    "it may be built with `-fno-rtti`; add an alternative that names functions".into()
                }),
            ),
            (_, Some(slots)) if u64::from(slot) >= slots => {
                problem(format!("`{base}` has no slot {slot}: its virtual table has {slots}"))
                    .hint("slots are counted from 0, and a destructor has two")
            }
            _ => problem(format!("no class in {names} has a function in slot {slot} of `{base}`"))
                .hint("slots are counted from 0, and a destructor has two"),
        })
    }

    fn file_names(&self, files: &[usize]) -> String {
        let names = files.iter().filter_map(|f| self.target.files().get(*f)).map(|f| f.name.as_str());
        names.collect::<Vec<_>>().join(", ")
    }
}
