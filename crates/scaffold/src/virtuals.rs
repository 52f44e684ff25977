//! Candidates of stripped C++ files: classes that many others derive from, and the slots of their virtual tables in which
//! those differ. Where symbols are left, functions have names, and need no table.

use super::{Candidate, types, words};
use profinfer_binary::{ClassBase, MOST_OVERRIDES, TargetSymbols};
use profinfer_probeset::path::NamePattern;

/// Derived classes and different functions that make a slot a candidate.
const FEWEST: usize = 4;
/// Bases that are taken of one file, and slots of one base.
const MOST_BASES: usize = 12;
const MOST_SLOTS: usize = 12;
/// Slots of all bases whose functions are asked for.
const MOST_ASKED: usize = 64;

/// The slots of a file's classes that may be worth a probe.
pub(super) fn candidates(target: &dyn TargetSymbols, file: usize, patterns: &[NamePattern]) -> Vec<Candidate> {
    let matchers: Vec<regex::Regex> =
        patterns.iter().filter_map(|pattern| regex::Regex::new(&pattern.to_regex()).ok()).collect();
    let wanted = |base: &ClassBase| {
        types::is_qualified(&base.name)
            && !base.name.starts_with("std::")
            && base.derived >= FEWEST
            && matchers.iter().any(|matcher| matcher.is_match(&base.name))
    };
    let mut bases: Vec<ClassBase> = target.class_bases(file).into_iter().filter(wanted).collect();
    bases.sort_by_key(|base| std::cmp::Reverse(score(base, base.derived)));
    bases.truncate(MOST_BASES);
    let mut found = Vec::new();
    let mut asked = 0;
    for base in &bases {
        for (slot, functions) in likeliest_slots(base) {
            asked += 1;
            if asked > MOST_ASKED {
                return found;
            }
            if let Some(candidate) = candidate(target, file, base, slot, functions) {
                found.push(candidate);
            }
        }
    }
    found
}

/// The slots with the most different functions, the first of equals first.
fn likeliest_slots(base: &ClassBase) -> Vec<(u32, usize)> {
    let slots = base.slots.iter().enumerate().filter(|(_, functions)| **functions >= FEWEST);
    let mut slots: Vec<(u32, usize)> =
        slots.filter_map(|(slot, functions)| Some((u32::try_from(slot).ok()?, *functions))).collect();
    slots.sort_by_key(|(slot, functions)| (may_be_destructor(*slot), std::cmp::Reverse(*functions), *slot));
    slots.truncate(MOST_SLOTS);
    slots
}

fn candidate(
    target: &dyn TargetSymbols,
    file: usize,
    base: &ClassBase,
    slot: u32,
    functions: usize,
) -> Option<Candidate> {
    let found = target.overrides(file, &base.name, slot).functions;
    // A function without a symbol is called by its class and slot.
    let named = found.iter().filter(|function| !function.name.contains("::[")).count();
    // What no probe can be at is no candidate.
    if found.is_empty() || named * 2 > found.len() || found.len() > MOST_OVERRIDES {
        return None;
    }
    let place = format!("{}[{slot}]", base.name);
    Some(Candidate {
        file,
        symbol: place.clone(),
        place,
        signature: None,
        guess: None,
        size: 0,
        trial: None,
        role: None,
        overrides: Some((base.derived, functions)),
        family: Vec::new(),
        score: score(base, functions) - if may_be_destructor(slot) { 4 } else { 0 },
    })
}

/// A virtual destructor is mostly declared first, and has two slots.
fn may_be_destructor(slot: u32) -> bool {
    slot < 2
}

/// A class of operators has such a word in its name, and many others derive from it.
fn score(base: &ClassBase, functions: usize) -> i64 {
    words::score(&base.name) + i64::from(usize::BITS - functions.leading_zeros())
}
