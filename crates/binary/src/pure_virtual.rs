//! Which function of an image is the one that stands for pure virtual ones. Where the C++ library is part of a stripped
//! program it has no name; it is recognised by the message that it prints before it ends the program.

use super::Arch;
use super::elf::Image;

/// What the C++ libraries' functions say that stand in slots of virtual tables for methods that there are not.
const TEXTS: [&[u8]; 3] =
    [b"pure virtual method called\n\0", b"deleted virtual method called\n\0", b"Pure virtual function called!\0"];
/// They do little else: the message is referenced within this many bytes.
const BYTES: usize = 64;
const LONGEST: usize = 32;

/// The reference to the message in the function at an offset, or in one that follows it closely.
pub(super) fn references_message(image: &Image, offset: u64) -> Option<u64> {
    let code = image.slice(offset, BYTES);
    match image.arch() {
        Arch::X86_64 => code.windows(4).enumerate().find_map(|(place, word)| {
            let word = <[u8; 4]>::try_from(word).ok()?;
            // From the end of the instruction, which its distance ends; or, in a program at a fixed place, the address.
            let at = offset + place as u64;
            let near = i64::from(i32::from_le_bytes(word)) + 4;
            let absolute = u64::from(u32::from_le_bytes(word));
            let does = image.near(at, near, LONGEST).is_some_and(is_known)
                || image.is_at_fixed_address() && is_known(image.at_address(absolute, LONGEST));
            does.then_some(at)
        }),
        Arch::Aarch64 => pages(code).find_map(|(place, pages, bytes)| {
            let at = offset + place;
            let page = (image.address_of(at)? & !0xfff).wrapping_add_signed(pages << 12).wrapping_add(bytes);
            is_known(image.at_address(page, LONGEST)).then_some(at)
        }),
    }
}

fn is_known(text: &[u8]) -> bool {
    TEXTS.iter().any(|message| text.starts_with(message))
}

/// Addresses that are made of a page near the instruction (`adrp`) and bytes that are added (`add`): where the first
/// instruction is, pages from its own, and bytes.
fn pages(code: &[u8]) -> impl Iterator<Item = (u64, i64, u64)> {
    let instruction = |at: usize| code.get(at..at + 4).and_then(|w| w.try_into().ok()).map(u32::from_le_bytes);
    let all: Vec<u32> = (0..code.len()).step_by(4).map_while(instruction).collect();
    let found =
        all.iter().enumerate().filter(|(_, word)| *word & 0x9f00_0000 == 0x9000_0000).filter_map(|(place, first)| {
            let register = first & 31;
            let adds = |word: &&u32| *word & 0xffc0_0000 == 0x9100_0000 && (*word >> 5) & 31 == register;
            let add = all.get(place + 1..)?.iter().find(adds)?;
            let pages = i64::from(((first >> 5 & 0x7_ffff) << 2 | first >> 29 & 3).cast_signed() << 11 >> 11);
            Some((4 * place as u64, pages, u64::from(add >> 10 & 0xfff)))
        });
    found.collect::<Vec<_>>().into_iter()
}
