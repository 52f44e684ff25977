//! Which of the layouts that a spec gives a view a target has, and whether an enumeration's constants are its: by the
//! checks that hold, and never by a guess.

use super::module::glob_matches;
use profinfer_binary::{ChosenLayout, TargetBytes, TargetSymbols};
use profinfer_diagnostics::{Code, Diagnostic};
use profinfer_probeset::path::NamePattern;
use profinfer_probeset::{Check, Enumeration, Fact, GivenLayout, LayoutConditions, View};

/// A layout, and the file that it was chosen by.
#[derive(Debug, Clone)]
pub(super) struct Chosen {
    /// Among the target's files.
    pub(super) file: usize,
    /// Where the members are.
    pub(super) layout: ChosenLayout,
}

/// The one layout of a view, called `name` in messages, that holds for one of the files.
///
/// # Errors
/// `T019` where none holds, or several do: they are listed with what they ask.
pub(super) fn choose(
    name: &str,
    view: &View,
    target: &(impl TargetSymbols + TargetBytes + ?Sized),
    files: &[usize],
) -> Result<Chosen, Diagnostic> {
    let first_file = |layout: &GivenLayout| files.iter().copied().find(|file| holds(&layout.conditions, target, *file));
    let holding: Vec<(usize, &GivenLayout)> =
        view.layouts.iter().filter_map(|layout| Some((first_file(layout)?, layout))).collect();
    if let [(file, layout)] = holding.as_slice() {
        let at = layout.at.iter().map(|(member, at)| (member.clone(), *at)).collect();
        return Ok(Chosen { file: *file, layout: ChosenLayout { size: layout.size.or(view.size), at } });
    }
    let (message, listed, hint) = if holding.is_empty() {
        let hint = "this build is another one: find out where the members are, and add a layout with the facts that identify it";
        (format!("no layout of {name} is this target's"), view.layouts.iter().collect(), hint)
    } else {
        let several: Vec<&GivenLayout> = holding.iter().map(|(_, layout)| *layout).collect();
        let hint = "make their conditions narrower, so that exactly one layout applies";
        (format!("{} layouts of {name} could be this target's", several.len()), several, hint)
    };
    let problem = Diagnostic::error(Code::LayoutNotChosen, message).at(&view.name.span).hint(hint);
    Err(listed.into_iter().fold(problem, |problem, layout: &GivenLayout| {
        let (line, _) = layout.span.line_column();
        problem.with_note(format!("line {line}: {}", layout.conditions))
    }))
}

/// The file by which the constants of an enumeration are identified as the target's.
///
/// # Errors
/// `T019` where there is none, with the conditions.
pub(super) fn matching_file(
    name: &str,
    of: &Enumeration,
    target: &(impl TargetSymbols + TargetBytes + ?Sized),
    files: &[usize],
) -> Result<usize, Diagnostic> {
    files.iter().copied().find(|file| holds(&of.conditions, target, *file)).ok_or_else(|| {
        Diagnostic::error(Code::LayoutNotChosen, format!("the constants of enum {name} are those of other builds"))
            .at(&of.span)
            .with_note(format!("they apply {}", of.conditions))
            .hint("find out what this build's constants are, and add it to the enumeration's conditions; or use a build with debug information")
    })
}

/// Whether the conditions hold for a file.
fn holds(conditions: &LayoutConditions, target: &(impl TargetSymbols + TargetBytes + ?Sized), file: usize) -> bool {
    let is = |check: &Check| check.any.iter().any(|value| is_so(check.fact, value, target, file));
    conditions.when.iter().all(is) && !conditions.unless.iter().any(is)
}

fn is_so(fact: Fact, value: &str, target: &(impl TargetSymbols + TargetBytes + ?Sized), file: usize) -> bool {
    let Some(of) = target.files().get(file) else { return false };
    match fact {
        Fact::File => glob_matches(value, &of.name),
        Fact::BuildId => of.build_id.as_deref().is_some_and(|id| id.starts_with(value)),
        Fact::Bytes => target.has_text(file, value),
        Fact::Hex => bytes_of(value).is_some_and(|bytes| target.has_bytes(file, &bytes)),
        // Any slot will do: what is asked is whether there is such a class.
        Fact::Class => target.overrides(file, value, 0).classes > 0,
        Fact::Function => !target.functions(file, &NamePattern(value.to_owned())).is_empty(),
    }
}

/// The bytes that hexadecimal digits stand for.
fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let byte = |at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
    (0..digits.len()).step_by(2).map(byte).collect()
}

#[cfg(test)]
#[path = "layouts_tests.rs"]
mod tests;
