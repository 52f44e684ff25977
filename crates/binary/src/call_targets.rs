//! Where functions begin that unwind tables lack, as those written in assembly often do: where direct calls lead, and, from
//! elsewhere, jumps, addresses that code computes (`lea`), and pointers in data. Instructions are not decoded one after the
//! other: that four bytes lead to an aligned place between the others by chance is rare.

use super::Arch;
use super::elf::Image;
use super::pointers::{Pointer, Pointers};
use super::references::arm64::{self, Branch};
use std::ops::Range;

/// Functions are aligned to this many bytes by compilers and assemblers' macros.
const ALIGNMENT: u64 = 16;

/// The code between functions that are in tables.
struct Between<'a> {
    /// The functions, by first byte.
    functions: &'a [Range<u64>],
    /// All code.
    code: &'a [Range<u64>],
}

impl Between<'_> {
    /// Which piece of such code a place is in, if it is in one: by the number of functions before it.
    fn piece(&self, place: u64) -> Option<usize> {
        let after = self.functions.partition_point(|function| function.start <= place);
        let before = after.checked_sub(1).and_then(|before| self.functions.get(before));
        let is_between = before.is_none_or(|function| !function.contains(&place));
        (is_between && self.code.iter().any(|code| code.contains(&place))).then_some(after)
    }

    /// Whether a function may begin at a target; `from` is where it is named, unless a function's own code may name it.
    fn is_start(&self, target: u64, from: Option<u64>) -> bool {
        let piece = || self.piece(target);
        target.is_multiple_of(ALIGNMENT) && piece().is_some() && from.is_none_or(|from| self.piece(from) != piece())
    }
}

/// First bytes of functions between those of the tables, in order.
pub(crate) fn between(image: &Image, pointers: &Pointers, functions: &[Range<u64>], code: &[Range<u64>]) -> Vec<u64> {
    let between = Between { functions, code };
    let pointed = pointers.all().filter_map(|(_, pointer)| match pointer {
        Pointer::Address(address) => image.code_offset(address),
        Pointer::Import(..) => None,
    });
    let mut starts: Vec<u64> = pointed.filter(|target| between.is_start(*target, None)).collect();
    for code in code {
        let bytes = usize::try_from(code.start).ok().zip(usize::try_from(code.end).ok());
        let Some(bytes) = bytes.and_then(|(start, end)| image.bytes().get(start..end)) else { continue };
        match image.arch() {
            Arch::X86_64 => starts.extend(of_x86(bytes, code.start, &between)),
            Arch::Aarch64 => starts.extend(of_arm64(bytes, code.start, &between)),
        }
    }
    starts.sort_unstable();
    starts.dedup();
    starts
}

/// Targets of `call`, and from elsewhere of `jmp` and `lea`, relative to the instruction's end.
fn of_x86(bytes: &[u8], start: u64, between: &Between<'_>) -> Vec<u64> {
    let mut targets = Vec::new();
    for at in 0..bytes.len() {
        let (end, distance, is_call) = match bytes.get(at..).unwrap_or_default() {
            [opcode @ (0xe8 | 0xe9), a, b, c, d, ..] => (5, i32::from_le_bytes([*a, *b, *c, *d]), *opcode == 0xe8),
            [0xeb, near, ..] => (2, near.cast_signed().into(), false),
            // REX.W, and a place relative to the next instruction.
            [0x48..=0x4f, 0x8d, modrm, a, b, c, d, ..] if modrm & 0xc7 == 0x05 => {
                (7, i32::from_le_bytes([*a, *b, *c, *d]), false)
            }
            _ => continue,
        };
        let here = start + at as u64;
        let target = (here + end).checked_add_signed(distance.into());
        targets.extend(target.filter(|target| between.is_start(*target, (!is_call).then_some(here))));
    }
    targets
}

/// Targets of `bl`, and from elsewhere of `b`.
fn of_arm64(bytes: &[u8], start: u64, between: &Between<'_>) -> Vec<u64> {
    let target = |(at, word)| {
        let here = start + 4 * at as u64;
        let (target, kind) = arm64::branch(word, here)?;
        let from = (kind != Branch::Call).then_some(here);
        (kind != Branch::Conditional && between.is_start(target, from)).then_some(target)
    };
    arm64::words(bytes).enumerate().filter_map(target).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::slice::from_ref;

    #[test]
    fn calls_lead_to_functions_and_jumps_and_addresses_from_elsewhere() {
        let mut bytes = vec![0x90; 256];
        // `call`, `jmp` and `lea` of 0x80, 0x90 and 0xa0; of the last bytes, and of a place that is not aligned.
        bytes[0..5].copy_from_slice(&[0xe8, 0x7b, 0, 0, 0]);
        bytes[5..10].copy_from_slice(&[0xe9, 0x86, 0, 0, 0]);
        bytes[10..17].copy_from_slice(&[0x48, 0x8d, 0x05, 0x8f, 0, 0, 0]);
        bytes[20..25].copy_from_slice(&[0xe8, 0x68, 0, 0, 0]);
        // A short `jmp` of 0xb0.
        bytes[0x7e..0x80].copy_from_slice(&[0xeb, 0x30]);
        // Within the range, a jump is a loop, and a call is one.
        bytes[0x84..0x89].copy_from_slice(&[0xe9, 0x27, 0, 0, 0]);
        bytes[0x94..0x99].copy_from_slice(&[0xe8, 0x27, 0, 0, 0]);
        let (function, code) = (0..0x80, 0..0x100);
        let between = Between { functions: from_ref(&function), code: from_ref(&code) };
        assert_eq!(of_x86(&bytes, 0, &between), [0x80, 0x90, 0xa0, 0xb0, 0xc0]);
        let (function, code) = (0x1000..0x1080, 0x1000..0x1100);
        let between = Between { functions: from_ref(&function), code: from_ref(&code) };
        assert_eq!(of_x86(&bytes, 0x1000, &between), [0x1080, 0x1090, 0x10a0, 0x10b0, 0x10c0]);
    }

    #[test]
    fn calls_lead_to_functions_on_arm64() {
        // `bl 0x20` at 4, `b 0x40` at 8; within the range, `bl 0x30` at 0x40 and `b 0x50` at 0x44.
        let mut bytes = vec![0; 128];
        bytes[4..8].copy_from_slice(&0x9400_0007_u32.to_le_bytes());
        bytes[8..12].copy_from_slice(&0x1400_000e_u32.to_le_bytes());
        bytes[0x40..0x44].copy_from_slice(&0x97ff_fffc_u32.to_le_bytes());
        bytes[0x44..0x48].copy_from_slice(&0x1400_0003_u32.to_le_bytes());
        let (function, code) = (0..0x10, 0..0x80);
        let between = Between { functions: from_ref(&function), code: from_ref(&code) };
        assert_eq!(of_arm64(&bytes, 0, &between), [0x20, 0x40, 0x30]);
    }
}
