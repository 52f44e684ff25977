//! The functions in a slot of virtual tables.

use super::{BTreeSet, Code, Diagnostic, Function, Place, PlacedSite, Placer, Program, listed};
use crate::model::Provenance;
use profinfer_schema::ValueSource;

impl Placer<'_> {
    /// What the classes derived from a base have in slots, in each file; why there is nothing. A function that is in several
    /// of them is one.
    pub(super) fn overrides(
        &mut self,
        program: &Program,
        files: &[usize],
        base: &str,
        slots: &[u32],
    ) -> Result<Vec<(usize, Function)>, Diagnostic> {
        let mut found = Vec::new();
        let (mut classes, mut length, mut is_cut) = (0, None, false);
        for (file, slot) in files.iter().flat_map(|file| slots.iter().map(move |slot| (*file, *slot))) {
            let overrides = self.target.overrides(file, base, slot);
            found.extend(overrides.functions.into_iter().map(|function| (file, function)));
            classes += overrides.classes;
            length = length.max(overrides.slots);
            is_cut |= overrides.is_cut;
        }
        let mut seen = BTreeSet::new();
        found.retain(|(file, function): &(usize, Function)| seen.insert((*file, function.file_offset)));
        if is_cut {
            let message = format!("the classes derived from `{base}` are too many to search");
            let problem = Diagnostic::error(Code::TooManySites, message).at(&program.span);
            return Err(self.refuse(problem.hint("no compiler writes such type information: is the file damaged?")));
        }
        self.leave_to_others(program, files, &mut found);
        if program.place.open_slot().is_some() {
            self.leave_to_other_slots(program, &mut found);
        }
        if !found.is_empty() {
            return Ok(found);
        }
        let names = self.file_names(files);
        let problem = |message: String| Diagnostic::error(Code::FunctionNotFound, message).at(&program.span);
        let slot = listed(slots);
        Err(match (classes, length) {
            (0, _) => problem(format!("no class `{base}` with run-time type information in {names}")).hint(
                files.iter().find_map(|file| self.target.class_like(*file, base)).unwrap_or_else(|| {
                    "it may be built with `-fno-rtti`; add an alternative that names functions".into()
                }),
            ),
            (_, Some(length)) if slots.iter().all(|slot| u64::from(*slot) >= length) => {
                problem(format!("`{base}` has no slot {slot}: its virtual table has {length}"))
                    .hint("slots are counted from 0, and a destructor has two")
            }
            _ => problem(format!("no class in {names} has a function in slot {slot} of `{base}`"))
                .hint("slots are counted from 0, and a destructor has two"),
        })
    }

    /// A linker has merged equal functions: one that is in several of a method's slots is probed once, for the first.
    fn leave_to_other_slots(&self, program: &Program, found: &mut Vec<(usize, Function)>) {
        let others = self.placement.sites.iter().filter(|site| {
            let open = self.placement.open_slots.contains(&site.program);
            open && site.site.probes.first() == program.probes.first()
        });
        let entry = |site: &PlacedSite| (site.file, site.site.file_offset - site.site.function_offset);
        let taken: BTreeSet<(u64, u64)> = others.map(entry).collect();
        let id = |file: usize| self.target.files().get(file).map_or(0, |file| file.id);
        found.retain(|(file, function)| !taken.contains(&(id(*file), function.file_offset)));
    }

    /// The slot that a lock file has for a method.
    pub(super) fn chosen_slot(&mut self, program: &Program, slots: &str) -> Option<u32> {
        let Place::Virtual { module, candidates, .. } = &program.place else { return None };
        let files = self.module(&module.value).clone();
        let chosen = files.iter().find_map(|file| self.target.chosen_slot(*file, slots));
        let chosen = chosen.filter(|slot| candidates.iter().any(|slots| slots.first() == Some(slot)))?;
        let (what, source) = (format!("slot of {slots}"), Provenance::Lock.describe().to_owned());
        let source = ValueSource { what, value: Some(u64::from(chosen)), source };
        if !self.slots.contains(&source) {
            self.slots.push(source);
        }
        Some(chosen)
    }

    /// That all slots of a method are probed.
    pub(super) fn say_open(&mut self, probe: &str, slots: &str) {
        let probe = self.probeset.names.plain(probe);
        let message = format!("`{probe}` is at each slot of `{slots}` until a recording finds the one that computes");
        let hint = "`profinfer learn` finds it and writes a lock file";
        self.problems.push(Diagnostic::note(Code::SlotUnknown, message).hint(hint));
    }

    fn file_names(&self, files: &[usize]) -> String {
        let names = files.iter().filter_map(|f| self.target.files().get(*f)).map(|f| f.name.as_str());
        names.collect::<Vec<_>>().join(", ")
    }
}
