//! Which of the layouts that a spec gives a view a target has: the one whose checks hold, and never a guess.

use super::module::glob_matches;
use crate::diag::{Code, Diagnostic};
use crate::path::NamePattern;
use crate::spec::{Check, Fact, GivenLayout, View};
use crate::target::{ChosenLayout, Target};

/// A layout, and the file that it was chosen by.
#[derive(Debug, Clone)]
pub(super) struct Chosen {
    /// Among the target's files.
    pub(super) file: usize,
    /// Where the members are.
    pub(super) layout: ChosenLayout,
}

/// The one layout that holds for one of the files.
///
/// # Errors
/// `T019` where none holds, or several do: they are listed with what they ask.
pub(super) fn choose(view: &View, target: &dyn Target, files: &[usize]) -> Result<Chosen, Diagnostic> {
    let first_file = |layout: &GivenLayout| files.iter().copied().find(|file| holds(layout, target, *file));
    let holding: Vec<(usize, &GivenLayout)> =
        view.layouts.iter().filter_map(|layout| Some((first_file(layout)?, layout))).collect();
    if let [(file, layout)] = holding.as_slice() {
        let at = layout.at.iter().map(|(member, at)| (member.clone(), *at)).collect();
        return Ok(Chosen { file: *file, layout: ChosenLayout { size: layout.size.or(view.size), at } });
    }
    let name = &view.name.value;
    let (message, listed, hint) = if holding.is_empty() {
        let hint =
            "this build is another one: find out where the members are, and add a layout with what it is known by";
        (format!("no layout of {name} is this target's"), view.layouts.iter().collect(), hint)
    } else {
        let several: Vec<&GivenLayout> = holding.iter().map(|(_, layout)| *layout).collect();
        let hint = "make their checks narrower, so that one holds";
        (format!("{} layouts of {name} could be this target's", several.len()), several, hint)
    };
    let problem = Diagnostic::error(Code::LayoutNotChosen, message).at(&view.name.span).hint(hint);
    Err(listed.into_iter().fold(problem, |problem, layout: &GivenLayout| {
        let (line, _) = layout.span.line_column();
        problem.with_note(format!("line {line}: {layout}"))
    }))
}

/// Whether all that a layout asks is so of a file.
fn holds(layout: &GivenLayout, target: &dyn Target, file: usize) -> bool {
    let is = |check: &Check| check.any.iter().any(|value| is_so(check.fact, value, target, file));
    layout.when.iter().all(is) && !layout.unless.iter().any(is)
}

fn is_so(fact: Fact, value: &str, target: &dyn Target, file: usize) -> bool {
    let Some(of) = target.files().get(file) else { return false };
    match fact {
        Fact::File => glob_matches(value, &of.name),
        Fact::BuildId => of.build_id.as_deref().is_some_and(|id| id.starts_with(value)),
        Fact::Bytes => target.has_bytes(file, value.as_bytes()),
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
