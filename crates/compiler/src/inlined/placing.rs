//! The copies of a program's function on a target: those with a site, those without, and their messages.

use super::{CopySite, Wanted, choose};
use crate::model::{ProbePlan, Program, ProgramKind, RelocationKind};
use profinfer_binary::{InlinedCopy, MOST_COPIES, TargetBytes, TargetSymbols};
use profinfer_diagnostics::{Code, Diagnostic};
use profinfer_probeset::path::{NamePattern, Place, Type};

/// Functions that a message names.
const NAMED: usize = 3;

/// A copy that has a site.
#[derive(Debug)]
pub(crate) struct PlacedCopy {
    /// Number of the target's file.
    pub(crate) file: usize,
    pub(crate) copy: InlinedCopy,
    pub(crate) site: CopySite,
}

/// A copy without a site, and why.
type Refused = (InlinedCopy, String);

/// Every copy of a program's function.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    pub(crate) placed: Vec<PlacedCopy>,
    pub(crate) refused: Vec<Refused>,
    /// Parameters that the debug information calls otherwise than the probeset: theirs, ours.
    renamed: Vec<(String, String)>,
    /// There are more of them than were searched for.
    is_cut: bool,
}

impl Copies {
    /// Searches for the copies of a program's function in some files, and for a site in each. `others` are left out: those
    /// of functions that belong to other probes, by file.
    pub(crate) fn find(
        plan: &ProbePlan,
        index: usize,
        target: &(impl TargetSymbols + TargetBytes + ?Sized),
        files: &[usize],
        others: &[(usize, InlinedCopy)],
    ) -> Self {
        let mut copies = Self::default();
        let Some(program) = plan.programs.get(index) else { return copies };
        // An offset counts from the function's first instruction.
        let Place::Function { pattern, offset: 0, .. } = &program.place else { return copies };
        let wanted = wanted(plan, index, program);
        for file in files {
            let is_own = |copy: &InlinedCopy| {
                !copy.is_whole && !others.iter().any(|(of, other)| of == file && is_same(copy, other))
            };
            let found = target.inlined(*file, pattern);
            copies.is_cut |= found.len() > MOST_COPIES;
            for copy in found.into_iter().take(MOST_COPIES).filter(is_own) {
                if program.kind == ProgramKind::Span {
                    copies.refused.push((copy, "its return cannot be probed there".to_owned()));
                    continue;
                }
                copies.compare_names(&copy, &wanted);
                match choose(plan.arch, target, *file, &copy, &wanted, &plan.costs) {
                    Ok(site) => copies.placed.push(PlacedCopy { file: *file, copy, site }),
                    Err(why) => copies.refused.push((copy, why)),
                }
            }
        }
        copies
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.placed.is_empty() && self.refused.is_empty()
    }

    fn compare_names(&mut self, copy: &InlinedCopy, wanted: &[Wanted]) {
        for wanted in wanted {
            let theirs = copy.parameters.get(wanted.argument).map_or("", |parameter| &parameter.name);
            let pair = (theirs.to_owned(), wanted.name.clone());
            if !theirs.is_empty() && theirs != wanted.name && !self.renamed.contains(&pair) {
                self.renamed.push(pair);
            }
        }
    }

    /// Why an alternative that has nothing but copies is not taken.
    pub(crate) fn not_taken(&self, pattern: &NamePattern, program: &Program) -> Diagnostic {
        let refused: Vec<&Refused> = self.refused.iter().collect();
        let (pattern, into, why) = (pattern.in_short(), into(&refused), why(&refused));
        let message = format!("`{pattern}` was inlined into {into}, and is not probed there: {why}");
        Diagnostic::error(Code::InlinedCopies, message).at(&program.span).hint(match program.kind {
            ProgramKind::Span => "add the same function with `until …` to the list under `at:`, which needs no return",
            _ => "add a function that is called from it, or calls it, to the list under `at:`",
        })
    }

    /// That calls will be missed, where the function is probed, but not all of its copies.
    pub(crate) fn not_seen(&self, pattern: &NamePattern, program: &Program) -> Option<Diagnostic> {
        // A call within a call of the same function is a part of it.
        let holds_itself = program.kind == ProgramKind::Span && program.actions.iter().all(|a| a.shape.frames() == 1);
        let is_part = |copy: &InlinedCopy| holds_itself && copy.within == copy.name;
        let refused: Vec<&Refused> = self.refused.iter().filter(|(copy, _)| !is_part(copy)).collect();
        let copies = match refused.len() {
            0 => return None,
            1 => "a copy".to_owned(),
            count => format!("{count} copies"),
        };
        let (pattern, into, why) = (pattern.in_short(), into(&refused), why(&refused));
        let message = format!("calls of `{pattern}` are missed: {copies} of it in {into} cannot be probed: {why}");
        Some(Diagnostic::warning(Code::InlinedCopies, message).at(&program.span))
    }

    /// That calls will be missed because there are more copies than were searched for.
    pub(crate) fn too_many(&self, pattern: &NamePattern, program: &Program) -> Option<Diagnostic> {
        let pattern = pattern.in_short();
        let message = format!("calls of `{pattern}` are missed: it was inlined more than {MOST_COPIES} times");
        let problem = Diagnostic::warning(Code::InlinedCopies, message).at(&program.span);
        self.is_cut.then(|| problem.hint("make the pattern narrower, or probe a function that calls it"))
    }

    /// That parameters have other names in the target, which matters only if they are others.
    pub(crate) fn other_names(&self, pattern: &NamePattern, program: &Program) -> Option<Diagnostic> {
        let (theirs, ours) = self.renamed.first()?;
        let pattern = pattern.in_short();
        let message = format!("the parameter `{ours}` of `{pattern}` is called `{theirs}` in the debug information");
        Some(Diagnostic::note(Code::InlinedCopies, message).at(&program.span))
    }
}

/// Whether two patterns have found one copy: either may have found it with the parameters in its name.
fn is_same(copy: &InlinedCopy, other: &InlinedCopy) -> bool {
    let is_called_alike = copy.name.starts_with(&other.name) || other.name.starts_with(&copy.name);
    copy.entry == other.entry && copy.ranges == other.ranges && is_called_alike
}

/// The functions that copies are in.
fn into(refused: &[&Refused]) -> String {
    let mut names: Vec<String> = refused.iter().map(|(copy, _)| format!("`{}`", copy.within)).collect();
    names.sort_unstable();
    names.dedup();
    let more = names.len().saturating_sub(NAMED);
    names.truncate(NAMED);
    match more {
        0 => names.join(", "),
        _ => format!("{} and {more} more", names.join(", ")),
    }
}

fn why<'r>(refused: &[&'r Refused]) -> &'r str {
    refused.first().map_or("", |(_, why)| why)
}

/// The arguments that a program reads.
pub(crate) fn wanted(plan: &ProbePlan, index: usize, program: &Program) -> Vec<Wanted> {
    let Some(signature) = program.signature() else { return Vec::new() };
    let relocations = program.relocations.iter().filter_map(|relocation| plan.relocations.get(*relocation));
    let wanted = relocations.filter_map(|relocation| {
        let RelocationKind::Argument { program: of, argument } = relocation.what else { return None };
        let parameter = signature.params.get(argument).filter(|_| of == index)?;
        Some(Wanted {
            argument,
            name: parameter.name.as_ref().map_or_else(|| argument.to_string(), |name| name.value.clone()),
            symbol: relocation.symbol.clone(),
            is_struct: matches!(parameter.ty.value, Type::View(_)),
        })
    });
    wanted.collect()
}
