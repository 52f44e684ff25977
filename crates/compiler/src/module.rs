//! Which of a target's files a module is.

use profinfer_binary::{TargetFile, TargetFiles, TargetSymbols};
use profinfer_probeset::path::{AttachPoint, NamePattern, Place};
use profinfer_probeset::{ExactFile, Module, Probe, Probeset};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// Files that are named which could not be read.
const MOST_UNREADABLE: usize = 4;
/// A target's first file: a process's program, or what was given to inspect.
const PROGRAM: usize = 0;
/// Globs whose compiled form is stored.
const MOST_GLOBS: usize = 1024;

/// Finds a module: the files that the first fruitful glob matches; else those that define its functions, with all that
/// must have a site; none where there is neither. A library that lacks some is only like the module, which may be mapped
/// later; a program is it. Of several files, one is it that is another of the engine's modules, too: each engine has a copy
/// of what they share.
pub(super) fn find(probeset: &Probeset, module: &str, target: &dyn TargetSymbols) -> Vec<usize> {
    let given = probeset.modules.get(module);
    if let Some(found) = given.and_then(|module| by_name(module, target)) {
        return found;
    }
    if given.is_some_and(|module| module.exact.is_some()) {
        return Vec::new();
    }
    let candidates = whole(probeset, module, target);
    if candidates.len() > 1 {
        let others = others(probeset, module, target);
        let mut both = candidates.iter().filter(|file| others.contains(file));
        if let (Some(file), None) = (both.next(), both.next()) {
            return vec![*file];
        }
    }
    candidates
}

/// The files that define a module's functions, with all that must have a site.
fn whole(probeset: &Probeset, module: &str, target: &dyn TargetSymbols) -> Vec<usize> {
    let defining = defining(probeset, module, target);
    let is_whole = |file: &usize| lacking(probeset, module, target, *file).is_none();
    let mut candidates: Vec<usize> = defining.iter().copied().filter(is_whole).collect();
    if candidates.is_empty() && defining.contains(&PROGRAM) {
        candidates.push(PROGRAM);
    }
    candidates
}

/// The files that are one of the engine's other modules, by name or alone with its functions.
fn others(probeset: &Probeset, module: &str, target: &dyn TargetSymbols) -> BTreeSet<usize> {
    let engine = probeset.names.engine(module);
    let is_other = |name: &str| name != module && probeset.names.engine(name) == engine;
    let others = probeset.modules.iter().filter(|(name, _)| is_other(name));
    let files = others.flat_map(|(name, other)| {
        by_name(other, target).unwrap_or_else(|| {
            let candidates = if other.exact.is_some() { Vec::new() } else { whole(probeset, name, target) };
            if candidates.len() == 1 { candidates } else { Vec::new() }
        })
    });
    files.collect()
}

/// The files that define any function of a module that attach points name.
pub(super) fn defining(probeset: &Probeset, module: &str, target: &dyn TargetSymbols) -> Vec<usize> {
    let functions = named_functions(probeset, module);
    let places = points(probeset).map(|at| &at.place);
    let places: Vec<&Place> = places.filter(|place| is_in(place, module)).collect();
    let defines = |file: &usize| {
        functions.iter().any(|pattern| !target.functions(*file, pattern).is_empty())
            || places.iter().any(|place| has(target, *file, place))
    };
    (0..target.files().len()).filter(defines).collect()
}

/// A probe of a module that must have a site, and has none in this file.
pub(super) fn lacking<'p>(
    probeset: &'p Probeset,
    module: &str,
    target: &dyn TargetSymbols,
    file: usize,
) -> Option<&'p Probe> {
    let required = probeset.probes.values().filter(|probe| !probe.optional && !probe.at.is_empty());
    let mut of_module = required.filter(|probe| probe.at.iter().all(|at| is_in(&at.place, module)));
    let has_site = |at: &AttachPoint| match &at.place {
        Place::Function { pattern, .. } => {
            !target.functions(file, pattern).is_empty() || !target.inlined(file, pattern).is_empty()
        }
        Place::Virtual { base, slots, .. } => has_override(target, file, &base.value, slots),
        place => has(target, file, place),
    };
    of_module.find(|probe| !probe.at.iter().any(has_site))
}

fn is_in(place: &Place, module: &str) -> bool {
    place.module().is_some_and(|of| of.value == module)
}

/// The files that a module's first fruitful glob matches; `None` where none does.
pub(super) fn by_name(module: &Module, target: &dyn TargetFiles) -> Option<Vec<usize>> {
    if let Some(exact) = &module.exact {
        let files = target.files().iter().enumerate().filter(|(_, file)| is_file(file, exact));
        return files.map(|(index, _)| vec![index]).next();
    }
    module.globs.iter().map(|glob| matching(&glob.value, target)).find(|found| !found.is_empty())
}

fn is_file(file: &TargetFile, exact: &ExactFile) -> bool {
    let is_same = match &exact.build_id {
        Some(build_id) => file.build_id.as_ref() == Some(build_id),
        None => file.build_id.is_none() && file.name == exact.name,
    };
    is_same && file.size == exact.size
}

/// Whether a glob is of a name.
pub fn glob_matches(glob: &str, name: &str) -> bool {
    regex_of(glob).is_some_and(|regex| regex.is_match(name))
}

/// Compiled once: each file that a target maps is compared with the globs of every module.
fn regex_of(glob: &str) -> Option<regex::Regex> {
    static COMPILED: Mutex<BTreeMap<String, Option<regex::Regex>>> = Mutex::new(BTreeMap::new());
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(regex) = compiled.get(glob) {
        return regex.clone();
    }
    let regex = regex::Regex::new(&NamePattern(glob.to_owned()).to_regex()).ok();
    if compiled.len() < MOST_GLOBS {
        compiled.insert(glob.to_owned(), regex.clone());
    }
    regex
}

/// The target's files whose name a glob is of.
pub(super) fn matching(glob: &str, target: &dyn TargetFiles) -> Vec<usize> {
    let Some(regex) = regex_of(glob) else { return Vec::new() };
    let files = target.files().iter().enumerate();
    files.filter(|(_, file)| regex.is_match(&file.name)).map(|(index, _)| index).collect()
}

/// That files which may be a module, by these globs, could not be read: what is not found may be in them.
pub(super) fn unreadable(globs: &[impl AsRef<str>], target: &dyn TargetFiles) -> Vec<String> {
    let is_module = |path: &&PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        globs.iter().any(|glob| glob_matches(glob.as_ref(), &name))
    };
    let found = target.unreadable().iter().filter(is_module).take(MOST_UNREADABLE);
    found.map(|path| format!("could not read {}, which the process has mapped", path.display())).collect()
}

fn points(probeset: &Probeset) -> impl Iterator<Item = &AttachPoint> {
    probeset.probes.values().flat_map(|probe| &probe.at)
}

/// Whether a file has what an attach point that names no function is at.
pub(super) fn has(target: &dyn TargetSymbols, file: usize, place: &Place) -> bool {
    match place {
        // One of the slots that a method may be in is enough to ask for, in each of hundreds of files.
        Place::Virtual { slots, candidates, .. } if candidates.first().is_some_and(|first| first != slots) => false,
        Place::Virtual { base, slots, .. } => has_override(target, file, &base.value, slots),
        Place::Usdt { provider, name, .. } => !target.static_sites(file, &provider.value, &name.value).is_empty(),
        _ => false,
    }
}

fn has_override(target: &dyn TargetSymbols, file: usize, base: &str, slots: &[u32]) -> bool {
    slots.iter().any(|slot| !target.overrides(file, base, *slot).functions.is_empty())
}

/// The functions of a module that attach points name, as such or in a choice: `*` could match anything anywhere.
pub(super) fn named_functions(probeset: &Probeset, module: &str) -> Vec<NamePattern> {
    let mut patterns: Vec<NamePattern> = points(probeset)
        .filter_map(|at| match &at.place {
            Place::Function { module: of, pattern, .. } if of.value == module && !pattern.has_wildcards() => {
                Some(pattern.value.clone())
            }
            _ => None,
        })
        .collect();
    patterns.dedup();
    patterns
}
