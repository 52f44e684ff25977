//! arm64. Instructions that are not listed are taken to write the register in their lowest bits, of either kind.

use super::stores::{Addresses, Stores};
use crate::references::arm64::{self as references, bits, leaves, page, signed, words};

const WORD: u64 = 8;
/// Registers that a call leaves as they are: `x19` to the stack pointer, and the low halves of `v8` to `v15`.
const UNCHANGED_BY_CALLS: std::ops::RangeInclusive<usize> = 19..=31;
const REGISTERS: usize = 32;

/// Follows the addresses in a function, one instruction after the other.
pub(super) fn follow(bytes: &[u8], start: u64, addresses: &dyn Addresses, stores: &mut Stores<'_>) {
    for (at, word) in words(bytes).enumerate() {
        step(word, start.wrapping_add(4 * at as u64), addresses, stores);
    }
}

fn step(word: u32, here: u64, addresses: &dyn Addresses, stores: &mut Stores<'_>) {
    let (to, from, second) = (bits(word, 0, 5), bits(word, 5, 5), bits(word, 16, 5));
    let immediate = bits(word, 10, 12) as u64;
    if let Some((register, place)) = page(word, here).or_else(|| references::place(word, here)) {
        return stores.set(register, Some(place));
    }
    let place = |scale: u64| stores.get(from).map(|page| page.wrapping_add(scale * immediate));
    let distance = |scale: u64| (scale * immediate).cast_signed();
    let load =
        |at: i64, place: Option<u64>| place.and_then(|place| addresses.at(place)).or_else(|| stores.load(from, at));
    match word {
        // add x, x, #immediate; the stack pointer's number is the zero register's.
        _ if word >> 22 == 0x244 => stores.set(to, place(1)),
        // mov x, x
        _ if word & 0xffe0_ffe0 == 0xaa00_03e0 => stores.set(to, stores.get(second).filter(|_| second != 31)),
        // ldr x, [x, #immediate]
        _ if word >> 22 == 0x3e5 => stores.set(to, load(distance(WORD), place(WORD))),
        // ldur x
        _ if word & 0xffe0_0c00 == 0xf840_0000 => stores.set(to, load(signed(word, 12, 9), None)),
        // ldp x, x, [x, #immediate]
        _ if word >> 22 == 0x2a5 => {
            let at = signed(word, 15, 7) * WORD.cast_signed();
            let words = [at, at.wrapping_add_unsigned(WORD)].map(|at| load(at, None));
            stores.set(to, words[0]);
            stores.set(bits(word, 10, 5), words[1]);
        }
        // ldr d and ldr q
        _ if word >> 22 == 0x3f5 => stores.set_vector(to, [load(distance(WORD), place(WORD)), None]),
        _ if word >> 22 == 0xf7 => {
            let more = |more: u64| {
                let place = place(2 * WORD).map(|place| place.wrapping_add(more));
                load(distance(2 * WORD).wrapping_add_unsigned(more), place)
            };
            stores.set_vector(to, [more(0), more(WORD)]);
        }
        // fmov d, x; ins v.d[1], x; ins v.d[1], v.d[0]; zip1 v.2d
        _ if word & 0xffff_fc00 == 0x9e67_0000 => stores.set_vector(to, [stores.get(from), None]),
        _ if word & 0xffff_fc00 == 0x4e18_1c00 => stores.set_vector(to, [stores.vector(to)[0], stores.get(from)]),
        _ if word & 0xffff_fc00 == 0x6e18_0400 => {
            stores.set_vector(to, [stores.vector(to)[0], stores.vector(from)[0]]);
        }
        _ if word & 0xffe0_fc00 == 0x4ec0_3800 => {
            stores.set_vector(to, [stores.vector(from)[0], stores.vector(second)[0]]);
        }
        // str x and str q, [x, #immediate]
        _ if word >> 22 == 0x3e4 => stores.store(from, distance(WORD), general(stores, to)),
        _ if word >> 22 == 0xf6 => stores.store_words(from, distance(2 * WORD), &stores.vector(to)),
        // stur x and stur q
        _ if word & 0xffe0_0c00 == 0xf800_0000 => stores.store(from, signed(word, 12, 9), general(stores, to)),
        _ if word & 0xffe0_0c00 == 0x3c80_0000 => stores.store_words(from, signed(word, 12, 9), &stores.vector(to)),
        // stp x, x, [x, #immediate]
        _ if word >> 22 == 0x2a4 => {
            let words = [general(stores, to), general(stores, bits(word, 10, 5))];
            stores.store_words(from, signed(word, 15, 7) * WORD.cast_signed(), &words);
        }
        // bl and blr
        _ if word >> 26 == 0x25 || word & 0xffff_fc1f == 0xd63f_0000 => {
            (0..REGISTERS).filter(|of| !UNCHANGED_BY_CALLS.contains(of)).for_each(|of| stores.set(of, None));
            (0..REGISTERS).for_each(|of| stores.set_vector(of, [None; 2]));
        }
        _ if leaves(word) => stores.forget_registers(),
        // Conditional branches, comparisons and other stores write no register.
        _ if word >> 24 == 0x54 || bits(word, 25, 6) == 0x1a || bits(word, 25, 6) == 0x1b => {}
        _ => {
            // Number 31 is the stack pointer in sums with an immediate, and otherwise a register that is always zero.
            if to != 31 || word & 0x3f00_0000 == 0x1100_0000 {
                stores.set(to, None);
            }
            stores.set_vector(to, [None; 2]);
            if bits(word, 27, 1) == 1 && bits(word, 25, 1) == 0 {
                access(word, stores);
            }
        }
    }
}

/// Loads and stores of other kinds.
fn access(word: u32, stores: &mut Stores<'_>) {
    let (from, second, size, is_of_vectors) = (bits(word, 5, 5), bits(word, 10, 5), word >> 30, bits(word, 26, 1));
    // Of pairs at a distance, and of one register at a distance in units of its size, or in bytes.
    if word & 0x3b80_0000 == 0x2900_0000 {
        let bytes = 4_i64 << if is_of_vectors == 1 { size } else { size >> 1 };
        match bits(word, 22, 1) {
            0 => stores.store_other(from, Some((signed(word, 15, 7) * bytes, 2 * bytes))),
            _ => {
                stores.set(second, None);
                stores.set_vector(second, [None; 2]);
            }
        }
        return;
    }
    let is_load = bits(word, 22, 1) == 1 || (bits(word, 23, 1) == 1 && is_of_vectors == 0);
    let bytes = if is_of_vectors == 1 && bits(word, 23, 1) == 1 { 2 * WORD.cast_signed() } else { 1 << size };
    let distance = match word & 0x3b20_0c00 {
        _ if word & 0x3b00_0000 == 0x3900_0000 => Some(bits(word, 10, 12) as i64 * bytes),
        0x3800_0000 => Some(signed(word, 12, 9)),
        _ => None,
    };
    match distance {
        Some(_) if is_load => {}
        Some(distance) => stores.store_other(from, Some((distance, bytes))),
        // Beside a register that is moved, of several registers, by an index, or with a condition.
        None => {
            stores.store_other(from, None);
            for register in [second, from] {
                stores.set(register, None);
                stores.set_vector(register, [None; 2]);
            }
        }
    }
}

/// What a general register has; the zero register has no address.
fn general(stores: &Stores<'_>, register: usize) -> Option<u64> {
    stores.get(register).filter(|_| register != 31)
}
