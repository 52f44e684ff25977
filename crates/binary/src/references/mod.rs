//! Which instructions refer to which addresses.

pub(crate) mod arm64;
pub(crate) mod x86;

use super::Arch;
use super::elf::Image;
use super::pointers::{Pointer, Pointers};
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

const WORD: u64 = 8;

/// The places of instructions, in functions in the order of their places in the file, that refer to wanted addresses, or to
/// words of the image that have them: bytes from the start of the file, each with the address. Chance may add some.
pub(crate) fn find(
    image: &Image,
    pointers: &Pointers,
    functions: &[Range<u64>],
    wanted: &BTreeSet<u64>,
) -> Vec<(u64, u64)> {
    if wanted.is_empty() {
        return Vec::new();
    }
    let mut targets: HashMap<u64, u64> = HashMap::new();
    for (place, pointer) in pointers.all() {
        if let Pointer::Address(address) = pointer
            && wanted.contains(&address)
        {
            // A vector register may take two words, of which it is the second.
            targets.insert(place, address);
            targets.entry(place.wrapping_sub(WORD)).or_insert(address);
        }
    }
    targets.extend(wanted.iter().map(|address| (*address, *address)));
    let mut found = Vec::new();
    for range in joined(functions) {
        let length = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or_default();
        let Some(address) = image.address_of(range.start) else { continue };
        let bytes = image.slice(range.start, length);
        let references = match image.arch() {
            Arch::X86_64 => x86::references(bytes, address, &targets, image.is_at_fixed_address()),
            Arch::Aarch64 => arm64::references(bytes, address, &targets),
        };
        found.extend(references.into_iter().map(|(at, address)| (range.start + at, address)));
    }
    found
}

/// Calls `each` with each direct branch of functions in the order of their places in the file: from where, to where, as
/// bytes from the start of the file, and whether it is a call. Chance may add some.
pub(crate) fn branches(image: &Image, functions: &[Range<u64>], each: &mut dyn FnMut(u64, u64, bool)) {
    for range in joined(functions) {
        let length = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or_default();
        let bytes = image.slice(range.start, length);
        // Code is one piece of the file, and of the memory.
        match image.arch() {
            Arch::X86_64 => x86::branches(bytes, range.start, each),
            Arch::Aarch64 => arm64::branches(bytes, range.start, each),
        }
    }
}

/// Functions that lie one after the other as one range.
fn joined(functions: &[Range<u64>]) -> Vec<Range<u64>> {
    const APART: u64 = 64;
    let mut joined: Vec<Range<u64>> = Vec::new();
    for function in functions {
        match joined.last_mut() {
            Some(last) if function.start <= last.end.saturating_add(APART) => last.end = last.end.max(function.end),
            _ => joined.push(function.clone()),
        }
    }
    joined
}
