//! What a dispatcher calls before its switch. Such a function gets what the switch handles, and may handle some itself; it
//! needs neither a symbol nor texts to be found.

mod arm64;
mod x86;

use super::elf::Image;
use super::{Arch, unwind_ranges};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Calls from the function that is given to the dispatcher.
const CALLS: usize = 2;
/// Functions that are read, and their bytes.
const MAX_FUNCTIONS: usize = 4096;
const MAX_BYTES: u64 = 16 << 20;
/// Cases of a switch for which compilers make a table, and of the largest that is looked for.
const CASES: Range<u64> = 8..4096;
/// Instructions between the comparison with the number of cases and the jump, and between the call and the jump.
const AFTER_COMPARISON: usize = 12;
const AFTER_CALL: usize = 24;

/// What an instruction does with what follows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    Next,
    /// It compares something with a number.
    Compare(u64),
    /// Without a place: to where a register or memory leads.
    Call(Option<u64>),
    Jump(u64),
    Branch(u64),
    /// A jump to where a register or memory leads.
    Switch,
    Leave,
}

/// The instructions of a function: each with its place in the file.
type Code = Vec<(u64, Flow)>;

/// The function that is called last before the largest switch, by a table, of a function or of those that it calls. `None`
/// where there is none, or where several are the largest or are called last.
pub(crate) fn called_before_switch(image: &Image, functions: &[Range<u64>], from: &Range<u64>) -> Option<Range<u64>> {
    let codes = reached(image, functions, from);
    let switches = |code: &Code| (0..code.len()).filter_map(|at| Some((cases(code, at)?, at))).collect::<Vec<_>>();
    let all: Vec<(&Code, Vec<(u64, usize)>)> = codes.values().map(|code| (code, switches(code))).collect();
    let most = all.iter().flat_map(|(_, switches)| switches).map(|(cases, _)| *cases).max()?;
    let mut largest = all.iter().filter(|(_, switches)| switches.iter().any(|(cases, _)| *cases == most));
    let (code, switches) = largest.next().filter(|_| largest.next().is_none())?;
    let jumps: BTreeSet<usize> = switches.iter().filter(|(cases, _)| *cases == most).map(|(_, at)| *at).collect();
    let mut called: BTreeMap<usize, BTreeSet<u64>> = BTreeMap::new();
    for (at, (_, flow)) in code.iter().enumerate() {
        if let Flow::Call(Some(to)) = flow
            && let Some(distance) = distance(code, at, &jumps)
        {
            called.entry(distance).or_default().insert(*to);
        }
    }
    let mut nearest = called.into_values().next()?.into_iter();
    let start = nearest.next().filter(|_| nearest.next().is_none())?;
    function_at(functions, start).cloned()
}

/// The code of a function and of those that it calls, by their first bytes.
fn reached(image: &Image, functions: &[Range<u64>], from: &Range<u64>) -> BTreeMap<u64, Code> {
    let mut codes = BTreeMap::new();
    let (mut level, mut bytes) = (vec![from], 0_u64);
    for _ in 0..=CALLS {
        let mut next = Vec::new();
        for function in level {
            bytes = bytes.saturating_add(function.end.saturating_sub(function.start));
            if codes.contains_key(&function.start) || codes.len() >= MAX_FUNCTIONS || bytes > MAX_BYTES {
                continue;
            }
            let code = code(image, function);
            next.extend(code.iter().filter_map(|(_, flow)| match flow {
                Flow::Call(Some(to)) => function_at(functions, *to),
                // In the place of a call and a return.
                Flow::Jump(to) if !function.contains(to) => function_at(functions, *to),
                _ => None,
            }));
            codes.insert(function.start, code);
        }
        level = next;
    }
    codes
}

fn function_at(functions: &[Range<u64>], start: u64) -> Option<&Range<u64>> {
    unwind_ranges::with(functions, start).filter(|function| function.start == start)
}

fn code(image: &Image, function: &Range<u64>) -> Code {
    let length = usize::try_from(function.end.saturating_sub(function.start)).unwrap_or_default();
    let bytes = image.slice(function.start, length);
    match image.arch() {
        Arch::X86_64 => x86::code(bytes, function.start),
        Arch::Aarch64 => arm64::code(bytes, function.start),
    }
}

/// How many cases the switch at an instruction has, if it is one: what is compared before, with a branch to elsewhere.
fn cases(code: &Code, at: usize) -> Option<u64> {
    let before = match code.get(at)? {
        (_, Flow::Switch) => code.get(at.saturating_sub(AFTER_COMPARISON)..at)?,
        _ => return None,
    };
    let (place, last) = before.iter().enumerate().rev().find_map(|(place, (_, flow))| match flow {
        Flow::Compare(last) => Some((place, *last)),
        _ => None,
    })?;
    let is_bound = before.iter().skip(place).any(|(_, flow)| matches!(flow, Flow::Branch(_)));
    let cases = last.saturating_add(1);
    (is_bound && CASES.contains(&cases)).then_some(cases)
}

/// Instructions from a call to the nearest of some jumps, without another call.
fn distance(code: &Code, call: usize, jumps: &BTreeSet<usize>) -> Option<usize> {
    let index = |place: u64| code.binary_search_by_key(&place, |(at, _)| *at).ok();
    let (mut seen, mut level) = (BTreeSet::new(), vec![call + 1]);
    for distance in 0..AFTER_CALL {
        let mut next = Vec::new();
        for at in level {
            if jumps.contains(&at) {
                return Some(distance);
            }
            if !seen.insert(at) {
                continue;
            }
            match code.get(at).map(|(_, flow)| *flow) {
                Some(Flow::Next | Flow::Compare(_)) => next.push(at + 1),
                Some(Flow::Branch(to)) => next.extend([Some(at + 1), index(to)].into_iter().flatten()),
                Some(Flow::Jump(to)) => next.extend(index(to)),
                Some(Flow::Call(_) | Flow::Switch | Flow::Leave) | None => {}
            }
        }
        level = next;
    }
    None
}

#[cfg(test)]
mod tests;
