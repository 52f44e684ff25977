//! Functions by the texts that they refer to, as messages: what a file without symbols still has of a function's source.

use super::elf::Image;
use super::pointers::Pointers;
use super::{references, unwind_ranges};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Places of a text: the same text is in a file once, and as the end of others.
const MAX_PLACES: usize = 64;

/// The one function, among functions in the order of their places in the file, that refers to all of the texts. A `*` at
/// the end of a text stands for what follows. `None` where there is no such function, or several.
pub(crate) fn find(image: &Image, pointers: &Pointers, functions: &[Range<u64>], texts: &[&str]) -> Option<Range<u64>> {
    let mut places: BTreeMap<u64, BTreeSet<usize>> = BTreeMap::new();
    for (number, text) in texts.iter().enumerate() {
        let (text, is_whole) = text.strip_suffix('*').map_or((*text, true), |begin| (begin, false));
        let addresses = image.texts(text, is_whole, MAX_PLACES);
        if addresses.is_empty() {
            return None;
        }
        for address in addresses {
            places.entry(address).or_default().insert(number);
        }
    }
    let mut found: BTreeMap<u64, BTreeSet<usize>> = BTreeMap::new();
    for (place, address) in references::find(image, pointers, functions, &places.keys().copied().collect()) {
        if let Some(function) = unwind_ranges::with(functions, place) {
            found.entry(function.start).or_default().extend(places.get(&address).into_iter().flatten());
        }
    }
    let mut whole: BTreeMap<u64, BTreeSet<usize>> = BTreeMap::new();
    let starts = found.keys().copied().collect();
    for (part, function) in functions_of(image, pointers, functions, &starts) {
        whole.entry(function).or_default().extend(found.get(&part).into_iter().flatten());
    }
    let mut all = whole.into_iter().filter(|(_, numbers)| numbers.len() == texts.len()).map(|(start, _)| start);
    let start = all.next().filter(|_| all.next().is_none())?;
    unwind_ranges::with(functions, start).cloned()
}

/// The function that each of some ranges, by their first bytes, is or is a part of: compilers put what is seldom executed
/// elsewhere, with unwind information of its own. Such a part is never called, and one function jumps to it. What several
/// jump to is left out.
fn functions_of(
    image: &Image,
    pointers: &Pointers,
    functions: &[Range<u64>],
    ranges: &BTreeSet<u64>,
) -> Vec<(u64, u64)> {
    let addresses: BTreeSet<u64> = ranges.iter().filter_map(|start| image.address_of(*start)).collect();
    let taken = references::find(image, pointers, functions, &addresses);
    let taken = taken.into_iter().filter_map(|(_, address)| image.code_offset(address));
    let pointed = pointers.all().filter_map(|(place, _)| image.code_offset(pointers.address_at(place)?));
    let mut is_function: BTreeSet<u64> = taken.chain(pointed).filter(|start| ranges.contains(start)).collect();
    let mut jumps_from: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
    references::branches(image, functions, &mut |from, to, is_call| {
        let to_range = unwind_ranges::with(functions, to).filter(|range| ranges.contains(&range.start));
        let (Some(to_range), Some(from)) = (to_range, unwind_ranges::with(functions, from)) else { return };
        if is_call && to == to_range.start {
            is_function.insert(to);
        } else if !is_call && from.start != to_range.start {
            jumps_from.entry(to_range.start).or_default().insert(from.start);
        }
    });
    let of = |start: &u64| {
        let jumps = jumps_from.get(start).filter(|_| !is_function.contains(start));
        let Some(mut jumps) = jumps.map(BTreeSet::iter) else { return Some((*start, *start)) };
        jumps.next().filter(|_| jumps.next().is_none()).map(|owner| (*start, *owner))
    };
    ranges.iter().filter_map(of).collect()
}

#[cfg(test)]
#[path = "by_texts_tests.rs"]
mod tests;
