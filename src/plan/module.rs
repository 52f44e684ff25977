//! Which of a target's files a module is.

use crate::path::{AttachPoint, NamePattern, Place};
use crate::spec::{Module, Probeset};
use crate::target::Target;

/// What a module's name stands for on a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ModuleFiles {
    /// These files.
    Found(Vec<usize>),
    /// No file matches, none defines its functions.
    NotFound,
    /// No file matches, and several define its functions.
    Ambiguous(Vec<usize>),
}

/// Finds a module: the files that the first fruitful glob matches; else the only file that defines its functions.
pub(super) fn find(probeset: &Probeset, module: &str, target: &dyn Target) -> ModuleFiles {
    if let Some(found) = probeset.modules.get(module).and_then(|module| by_name(module, target)) {
        return ModuleFiles::Found(found);
    }
    let functions = named_functions(probeset, module);
    let places = points(probeset).map(|at| &at.place);
    let places: Vec<&Place> = places.filter(|place| place.module().is_some_and(|of| of.value == module)).collect();
    let defines = |file: &usize| {
        functions.iter().any(|pattern| !target.functions(*file, pattern).is_empty())
            || places.iter().any(|place| has(target, *file, place))
    };
    let candidates: Vec<usize> = (0..target.files().len()).filter(defines).collect();
    match candidates.len() {
        0 => ModuleFiles::NotFound,
        1 => ModuleFiles::Found(candidates),
        _ => ModuleFiles::Ambiguous(candidates),
    }
}

/// The files that a module's first fruitful glob matches; `None` where none does.
pub(super) fn by_name(module: &Module, target: &dyn Target) -> Option<Vec<usize>> {
    module.globs.iter().map(|glob| matching(&glob.value, target)).find(|found| !found.is_empty())
}

/// Whether a glob is of a name.
pub(crate) fn glob_matches(glob: &str, name: &str) -> bool {
    regex_of(glob).is_some_and(|regex| regex.is_match(name))
}

fn regex_of(glob: &str) -> Option<regex::Regex> {
    regex::Regex::new(&NamePattern(glob.to_owned()).to_regex()).ok()
}

/// The target's files whose name a glob is of.
pub(super) fn matching(glob: &str, target: &dyn Target) -> Vec<usize> {
    let Some(regex) = regex_of(glob) else { return Vec::new() };
    let files = target.files().iter().enumerate();
    files.filter(|(_, file)| regex.is_match(&file.name)).map(|(index, _)| index).collect()
}

fn points(probeset: &Probeset) -> impl Iterator<Item = &AttachPoint> {
    probeset.probes.values().flat_map(|probe| &probe.at)
}

/// Whether a file has what an attach point that names no function is at.
pub(super) fn has(target: &dyn Target, file: usize, place: &Place) -> bool {
    match place {
        Place::Virtual { base, slot, .. } => !target.overrides(file, &base.value, *slot).functions.is_empty(),
        Place::Usdt { provider, name, .. } => !target.static_sites(file, &provider.value, &name.value).is_empty(),
        _ => false,
    }
}

/// The functions of a module that attach points name, as such or in a choice: `*` could match anything anywhere.
pub(super) fn named_functions(probeset: &Probeset, module: &str) -> Vec<NamePattern> {
    let mut patterns: Vec<NamePattern> = points(probeset)
        .filter_map(|at| match &at.place {
            Place::Function { module: of, pattern, .. } if of.value == module && !pattern.0.contains(['*', '?']) => {
                Some(pattern.value.clone())
            }
            _ => None,
        })
        .collect();
    patterns.dedup();
    patterns
}
