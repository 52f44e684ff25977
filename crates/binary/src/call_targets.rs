//! Where functions begin that unwind tables lack, as those written in assembly often do: where direct calls lead, and, from
//! outside, jumps, addresses that code computes (`lea`), and pointers in data. Instructions are not decoded one after the
//! other: that four bytes lead to an aligned place in a small range by chance is rare.

use super::Arch;
use super::elf::Image;
use super::pointers::{Pointer, Pointers};
use std::ops::Range;

/// Functions are aligned to this many bytes by compilers and assemblers' macros.
const ALIGNMENT: u64 = 16;

/// First bytes of functions within a range of the file, in order. Code is in these ranges.
pub(crate) fn within(image: &Image, range: &Range<u64>, code: &[Range<u64>]) -> Vec<u64> {
    let pointed = Pointers::read(image);
    let pointed = pointed.all().filter_map(|(_, pointer)| match pointer {
        Pointer::Address(address) => image.code_offset(address),
        Pointer::Import(..) => None,
    });
    let mut starts: Vec<u64> = pointed.filter(|target| is_start(*target, range)).collect();
    for code in code {
        let bytes = usize::try_from(code.start).ok().zip(usize::try_from(code.end).ok());
        let Some(bytes) = bytes.and_then(|(start, end)| image.bytes().get(start..end)) else { continue };
        match image.arch() {
            Arch::X86_64 => starts.extend(of_x86(bytes, code.start, range)),
            Arch::Aarch64 => starts.extend(of_arm64(bytes, code.start, range)),
        }
    }
    starts.sort_unstable();
    starts.dedup();
    starts
}

fn is_start(target: u64, range: &Range<u64>) -> bool {
    range.contains(&target) && target.is_multiple_of(ALIGNMENT)
}

/// Targets of `call`, and from outside of `jmp` and `lea`, relative to the instruction's end.
fn of_x86(bytes: &[u8], start: u64, range: &Range<u64>) -> Vec<u64> {
    let mut targets = Vec::new();
    for (at, window) in bytes.windows(7).enumerate() {
        let (end, from_inside) = match window {
            [0xe8, ..] => (5, true),
            [0xe9, ..] => (5, false),
            // REX.W, and a place relative to the next instruction.
            [0x48..=0x4f, 0x8d, modrm, ..] if modrm & 0xc7 == 0x05 => (7, false),
            _ => continue,
        };
        let here = start + at as u64;
        let Some(distance) = window.get(end - 4..end).and_then(|bytes| bytes.try_into().ok()) else { continue };
        let target = (here + end as u64).checked_add_signed(i32::from_le_bytes(distance).into());
        targets.extend(target.filter(|target| is_start(*target, range) && (from_inside || !range.contains(&here))));
    }
    targets
}

/// Targets of `bl`.
fn of_arm64(bytes: &[u8], start: u64, range: &Range<u64>) -> Vec<u64> {
    let words = bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word));
    let calls = words.enumerate().filter(|(_, word)| word >> 26 == 0b10_0101);
    let target = |(at, word): (usize, u32)| {
        let distance = i64::from((word << 6).cast_signed() >> 4);
        (start + 4 * at as u64).checked_add_signed(distance)
    };
    calls.filter_map(target).filter(|target| is_start(*target, range)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_lead_to_functions_and_jumps_and_addresses_from_outside() {
        let mut bytes = vec![0x90; 256];
        // `call`, `jmp` and `lea` of 0x80, 0x90 and 0xa0; of the last bytes, and of a place that is not aligned.
        bytes[0..5].copy_from_slice(&[0xe8, 0x7b, 0, 0, 0]);
        bytes[5..10].copy_from_slice(&[0xe9, 0x86, 0, 0, 0]);
        bytes[10..17].copy_from_slice(&[0x48, 0x8d, 0x05, 0x8f, 0, 0, 0]);
        bytes[20..25].copy_from_slice(&[0xe8, 0x68, 0, 0, 0]);
        // Within the range, a jump is a loop, and a call is one.
        bytes[0x84..0x89].copy_from_slice(&[0xe9, 0x27, 0, 0, 0]);
        bytes[0x94..0x99].copy_from_slice(&[0xe8, 0x27, 0, 0, 0]);
        assert_eq!(of_x86(&bytes, 0, &(0x80..0x100)), [0x80, 0x90, 0xa0, 0xc0]);
        assert_eq!(of_x86(&bytes, 0x1000, &(0x1080..0x1100)), [0x1080, 0x1090, 0x10a0, 0x10c0]);
    }

    #[test]
    fn calls_lead_to_functions_on_arm64() {
        // `bl #0x20` at 4, `bl #-0x10` at 0x40, `b #0x20` at 8.
        let mut bytes = vec![0; 128];
        bytes[4..8].copy_from_slice(&0x9400_0007_u32.to_le_bytes());
        bytes[8..12].copy_from_slice(&0x1400_0006_u32.to_le_bytes());
        bytes[0x40..0x44].copy_from_slice(&0x97ff_fffc_u32.to_le_bytes());
        assert_eq!(of_arm64(&bytes, 0, &(0x10..0x80)), [0x20, 0x30]);
    }
}
