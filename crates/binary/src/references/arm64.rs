//! arm64.

use std::collections::HashMap;

const PAGE: u64 = 4096;
const WORD: u64 = 8;
/// Instructions between the two halves of an address.
const HALVES: usize = 16;

/// Places that `adr` leads to, or `adrp` with the instruction that completes the address, with what each stands for.
pub(crate) fn references(bytes: &[u8], start: u64, targets: &HashMap<u64, u64>) -> Vec<(u64, u64)> {
    let words: Vec<u32> = words(bytes).collect();
    let mut found = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let here = start.wrapping_add(4 * at as u64);
        found.extend(place(*word, here).and_then(|(_, place)| Some((4 * at as u64, *targets.get(&place)?))));
        let Some((register, page)) = page(*word, here) else { continue };
        // Up to where the register has something else, or the function may be over.
        let is_followed = |next: &&u32| !leaves(**next) && self::page(**next, 0).is_none_or(|(to, _)| to != register);
        for next in words.iter().skip(at + 1).take(HALVES).take_while(is_followed) {
            let (to, immediate) = (bits(*next, 0, 5), bits(*next, 10, 12) as u64);
            let scale = match next >> 22 {
                _ if bits(*next, 5, 5) != register => continue,
                0x244 => 1,
                0x3e5 | 0x3f5 => WORD,
                0xf7 => 2 * WORD,
                _ => continue,
            };
            let place = page.wrapping_add(scale * immediate);
            found.extend(targets.get(&place).map(|address| (4 * at as u64, *address)));
            if to == register {
                break;
            }
        }
    }
    found
}

/// How an instruction with a place to go to goes there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Branch {
    Call,
    Jump,
    Conditional,
}

/// Where `b`, `bl`, `b.cond`, `cbz`, `cbnz`, `tbz` and `tbnz` at a place lead.
pub(crate) fn branch(word: u32, here: u64) -> Option<(u64, Branch)> {
    let (distance, kind) = match word >> 24 {
        _ if word >> 26 == 0x25 => (signed(word, 0, 26), Branch::Call),
        _ if word >> 26 == 5 => (signed(word, 0, 26), Branch::Jump),
        0x54 | 0x34 | 0x35 | 0xb4 | 0xb5 => (signed(word, 5, 19), Branch::Conditional),
        0x36 | 0x37 | 0xb6 | 0xb7 => (signed(word, 5, 14), Branch::Conditional),
        _ => return None,
    };
    Some((here.wrapping_add_signed(4 * distance), kind))
}

/// All of these, from where to where, and whether each is a call.
pub(crate) fn branches(bytes: &[u8], start: u64, each: &mut dyn FnMut(u64, u64, bool)) {
    for (at, word) in words(bytes).enumerate() {
        let here = start.wrapping_add(4 * at as u64);
        if let Some((to, kind)) = branch(word, here) {
            each(here, to, kind == Branch::Call);
        }
    }
}

/// The instructions.
pub(crate) fn words(bytes: &[u8]) -> impl Iterator<Item = u32> {
    bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word))
}

/// Some bits of an instruction.
pub(crate) fn bits(word: u32, from: u32, count: u32) -> usize {
    ((word >> from) & ((1 << count) - 1)) as usize
}

/// Some bits as a number with a sign.
pub(crate) fn signed(word: u32, from: u32, count: u32) -> i64 {
    let unused = 32 - count;
    i64::from(((word >> from) << unused).cast_signed() >> unused)
}

/// `b`, `br` and `ret`: what follows is not executed next.
pub(crate) fn leaves(word: u32) -> bool {
    word >> 26 == 5 || word & 0xff9f_fc1f == 0xd61f_0000
}

/// The register and the page of an `adrp` at a place.
pub(crate) fn page(word: u32, here: u64) -> Option<(usize, u64)> {
    let (register, pages) = (bits(word, 0, 5), relative(word));
    let is_it = word & 0x9f00_0000 == 0x9000_0000;
    is_it.then(|| (register, (here & !(PAGE - 1)).wrapping_add_signed(pages * PAGE.cast_signed())))
}

/// The register and the place of an `adr` at a place; linkers write it for an `adrp` of what is near.
pub(crate) fn place(word: u32, here: u64) -> Option<(usize, u64)> {
    (word & 0x9f00_0000 == 0x1000_0000).then(|| (bits(word, 0, 5), here.wrapping_add_signed(relative(word))))
}

fn relative(word: u32) -> i64 {
    signed(word, 5, 19) * 4 + i64::from(word >> 29 & 3)
}
