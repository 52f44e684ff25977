//! x86-64.

use std::collections::HashMap;

/// Places relative to the next instruction that four bytes at an instruction's end lead to, with what each stands for;
/// `is_fixed`: also addresses themselves, which code that runs at one address only may have.
pub(crate) fn references(bytes: &[u8], start: u64, targets: &HashMap<u64, u64>, is_fixed: bool) -> Vec<(u64, u64)> {
    let mut found = Vec::new();
    for (at, window) in bytes.windows(5).enumerate() {
        let [before, a, b, c, d] = window else { continue };
        let word = [*a, *b, *c, *d];
        let target = match before {
            // A mod-r/m byte.
            _ if before & 0xc7 == 0x05 => {
                let next = start.wrapping_add(at as u64 + window.len() as u64);
                next.wrapping_add_signed(i32::from_le_bytes(word).into())
            }
            // mov r32, imm32
            0xb8..=0xbf if is_fixed => u32::from_le_bytes(word).into(),
            _ => continue,
        };
        found.extend(targets.get(&target).map(|address| (at as u64, *address)));
    }
    found
}

/// Calls, jumps and conditional jumps with four bytes of distance.
pub(crate) fn branches(bytes: &[u8], start: u64, each: &mut dyn FnMut(u64, u64, bool)) {
    for (at, window) in bytes.windows(5).enumerate() {
        let [opcode, a, b, c, d] = window else { continue };
        let is_conditional = || opcode & 0xf0 == 0x80 && at.checked_sub(1).and_then(|at| bytes.get(at)) == Some(&0x0f);
        if !matches!(opcode, 0xe8 | 0xe9) && !is_conditional() {
            continue;
        }
        let here = start.wrapping_add(at as u64);
        let next = here.wrapping_add(window.len() as u64);
        each(here, next.wrapping_add_signed(i32::from_le_bytes([*a, *b, *c, *d]).into()), *opcode == 0xe8);
    }
}
