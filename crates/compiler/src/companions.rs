//! Which of a target's files belong together, as the libraries of one package of an engine do.

use profinfer_binary::TargetFiles;
use std::collections::BTreeSet;

/// The candidates that belong to some files, with these: they lie beside one of them, need it, or are needed by it, at
/// once or by way of others.
pub(super) fn with_companions(
    mut own: BTreeSet<usize>,
    candidates: &BTreeSet<usize>,
    target: &(impl TargetFiles + ?Sized),
) -> BTreeSet<usize> {
    loop {
        let belongs = |file: &usize| own.iter().any(|to| are_companions(*file, *to, target));
        let next: Vec<usize> =
            candidates.iter().copied().filter(|file| !own.contains(file)).filter(|file| belongs(file)).collect();
        if next.is_empty() {
            return own;
        }
        own.extend(next);
    }
}

fn are_companions(one: usize, other: usize, target: &(impl TargetFiles + ?Sized)) -> bool {
    folder(one, target) == folder(other, target) || needs(one, other, target) || needs(other, one, target)
}

fn folder(file: usize, target: &(impl TargetFiles + ?Sized)) -> Option<&std::path::Path> {
    target.files().get(file).and_then(|file| file.path.parent())
}

/// Whether a file needs another one, of which there is none of the same name beside it: packages have their own.
fn needs(one: usize, other: usize, target: &(impl TargetFiles + ?Sized)) -> bool {
    let files = target.files();
    let name = files.get(other).map_or("", |file| file.name.as_str());
    let is_beside = |needed: &str| {
        let mut beside = files.iter().filter(|file| same_library(needed, &file.name));
        beside.any(|file| file.path.parent() == folder(one, target))
    };
    target.needed(one).iter().any(|needed| same_library(needed, name) && !is_beside(needed))
}

/// `libengine.so.0`, which is asked for, is `libengine.so.0.9.1`, which is there.
fn same_library(needed: &str, name: &str) -> bool {
    !needed.is_empty() && name.strip_prefix(needed).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_asked_for_by_the_beginning_of_its_name() {
        assert!(same_library("libbase.so.0", "libbase.so.0.13.1") && same_library("libbase.so", "libbase.so"));
        assert!(!same_library("libbase.so.0", "libbase.so.01") && !same_library("", "libbase.so"));
    }
}
