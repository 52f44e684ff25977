//! Types by the functions that they are of: several units of a file may have different types of one name, and a function's
//! unit has the one that it means.

use super::model::{ProbePlan, Program, Provenance, RelocationKind};
use super::relocate::Relocator;
use profinfer_binary::Layout;
use profinfer_diagnostics::{Code, Diagnostic};
use std::collections::{BTreeMap, BTreeSet};

/// A function with a site.
#[derive(Debug)]
pub(super) struct PlacedFunction {
    /// Index into the plan's programs.
    pub(super) program: usize,
    pub(super) file: usize,
    pub(super) symbol: String,
    pub(super) file_offset: u64,
}

/// A type of a function's unit.
#[derive(Debug, Clone)]
pub(super) struct UnitLayout {
    /// The first of the functions.
    function: String,
    file: usize,
    unit: usize,
}

/// By view, the units of functions by which it is read: each once.
pub(super) type ViewUnits = BTreeMap<String, Vec<UnitLayout>>;

impl Relocator<'_> {
    /// Has types taken from the units of these functions.
    pub(super) fn with_functions(mut self, functions: &[PlacedFunction]) -> Self {
        let mut by_file: BTreeMap<usize, Vec<&PlacedFunction>> = BTreeMap::new();
        for function in functions {
            by_file.entry(function.file).or_default().push(function);
        }
        for (file, functions) in by_file {
            let asked: Vec<_> = functions.iter().map(|of| (of.symbol.as_str(), of.file_offset)).collect();
            let units = self.target().units(file, &asked);
            for (function, unit) in functions.into_iter().zip(units).filter_map(|(of, unit)| Some((of, unit?))) {
                for view in
                    self.plan.programs.get(function.program).map(|of| views_of(self.plan, of)).unwrap_or_default()
                {
                    let units = self.units.entry(view.to_owned()).or_default();
                    if !units.iter().any(|before| (before.file, before.unit) == (file, unit)) {
                        units.push(UnitLayout { function: function.symbol.clone(), file, unit });
                    }
                }
            }
        }
        self
    }

    /// What the units of functions have of a view, and the function.
    fn in_units<'s>(&'s self, view: &'s str) -> impl Iterator<Item = (Layout, &'s UnitLayout)> {
        let units = self.units.get(view).into_iter().flatten();
        units.filter_map(move |of| Some((self.target().layout_in(of.file, of.unit, view)?, of)))
    }

    /// The layout of a view by the first function whose unit has it.
    pub(super) fn of_functions(&self, view: &str) -> Option<(Layout, Provenance)> {
        Some((self.in_units(view).next()?.0, Provenance::Dwarf))
    }

    /// Whether functions that read a member (or the size) of a view mean different types.
    ///
    /// # Errors
    /// `T009`: they do.
    pub(super) fn is_one_type(&self, view: &str, member: Option<&str>) -> Result<(), Diagnostic> {
        let shown = |layout: &Layout| match member {
            Some(member) => layout.members.get(member).map(|(at, ty)| format!("{ty} @ {at}")),
            None => Some(format!("{} bytes", layout.size)),
        };
        let mut found = self.in_units(view).map(|(layout, of)| (shown(&layout), of.function.as_str()));
        let Some((first, of)) = found.next() else { return Ok(()) };
        let Some((other, of_other)) = found.find(|(other, _)| *other != first) else { return Ok(()) };
        let name = self.shown(view);
        let what = member.map_or_else(|| format!("the size of {name}"), |member| format!("`{member}` in {name}"));
        let [first, other] = [first, other].map(|found| found.unwrap_or_else(|| "not there".to_owned()));
        let message = format!("{what} is not the same in all probed functions");
        Err(Diagnostic::error(Code::LayoutUnknown, message)
            .with_note(format!("in the unit of `{of}` it is {first}, in that of `{of_other}` {other}"))
            .hint(
                "they are different types of one name: give one a view of another name, with its offsets: `TYPE @ N`",
            ))
    }
}

/// The views that a program reads.
fn views_of<'p>(plan: &'p ProbePlan, program: &Program) -> BTreeSet<&'p str> {
    let indices = program.relocations.iter().chain(&program.optional_relocations);
    let relocations = indices.filter_map(|index| plan.relocations.get(*index));
    let views = relocations.filter_map(|relocation| match &relocation.what {
        RelocationKind::Offset { view, .. } | RelocationKind::Size { view } | RelocationKind::Shift { view, .. } => {
            Some(view.as_str())
        }
        _ => None,
    });
    views.collect()
}
