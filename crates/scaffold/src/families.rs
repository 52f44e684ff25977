//! Functions that are one method of many classes of a namespace: where symbols are left, these are what a slot of virtual
//! tables is in a stripped file. Such a family is one candidate, under one pattern.

use super::{Candidate, types, words};
use profinfer_binary::{TargetType, declared};
use std::collections::{BTreeMap, BTreeSet};

/// Classes that have the method.
const FEWEST: usize = 4;
/// Functions whose parameters are compared.
const MOST_COMPARED: usize = 512;

/// One of the functions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Method {
    /// As in an attach point.
    pub(super) place: String,
    pub(super) symbol: String,
}

/// Replaces functions that are one method of many classes by one candidate each.
pub(super) fn gather(candidates: Vec<Candidate>) -> Vec<Candidate> {
    let mut classes: BTreeMap<(usize, String), BTreeSet<String>> = BTreeMap::new();
    for candidate in &candidates {
        if let Some((pattern, class)) = parts(&candidate.place) {
            classes.entry((candidate.file, pattern)).or_default().insert(class.to_owned());
        }
    }
    classes.retain(|_, classes| classes.len() >= FEWEST);
    let mut families: BTreeMap<(usize, String), Candidate> = BTreeMap::new();
    let mut rest = Vec::new();
    for candidate in candidates {
        let key = parts(&candidate.place).map(|(pattern, _)| (candidate.file, pattern));
        let Some((key, classes)) = key.and_then(|key| classes.get(&key).map(|classes| (key, classes.len()))) else {
            rest.push(candidate);
            continue;
        };
        let method = Method { place: candidate.place.clone(), symbol: candidate.symbol.clone() };
        let family = families.entry(key.clone()).or_insert_with(|| Candidate {
            score: score(&key.1, classes),
            place: key.1,
            signature: None,
            ..candidate
        });
        family.family.push(method);
    }
    rest.extend(families.into_values());
    rest
}

/// A namespace's pattern for a method of its classes, and the class: `ns::*::run`, `Gemm` of `ns::Gemm::run`.
fn parts(place: &str) -> Option<(String, &str)> {
    let (class, method) = place.rsplit_once("::")?;
    let (namespace, class) = class.rsplit_once("::")?;
    let is_plain = types::is_qualified(namespace) && types::is_qualified(class) && !method.contains('<');
    is_plain.then(|| (format!("{namespace}::*::{method}"), class))
}

/// As of a slot of virtual tables: a namespace of operators has such a word for its name.
fn score(pattern: &str, classes: usize) -> i64 {
    words::score(pattern) + i64::from(usize::BITS - classes.leading_zeros())
}

/// What all functions of a family are called with, after `this`, as far as it is the same in all.
pub(super) fn parameters(family: &Candidate) -> Vec<Option<TargetType>> {
    let mut all = family.family.iter().take(MOST_COMPARED).filter_map(|method| declared(&method.symbol));
    let Some(first) = all.next() else { return Vec::new() };
    let mut common = first.parameters;
    for other in all {
        let same = common.iter().zip(&other.parameters).take_while(|(one, other)| one == other).count();
        common.truncate(same);
    }
    common
}
