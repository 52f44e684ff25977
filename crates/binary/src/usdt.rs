//! Static probes that a program's authors have put into it: notes of the form that SystemTap's `sys/sdt.h` writes.
//! Sources: "UserSpaceProbeImplementation" of SystemTap's wiki, `sys/sdt.h`. The notes are not trusted.

use super::elf::Image;
use super::{Arch, ArgumentLocation, StaticArgument, StaticSite};
use object::{Object, ObjectSection};

/// The maximum number of notes.
const MAX_NOTES: usize = 1 << 18;
/// Bytes of a provider's and a probe's name, and of the description of the arguments.
const MAX_TEXT: usize = 1024;
/// Arguments of one probe: the header file allows twelve.
const MAX_ARGUMENTS: usize = 32;
const NOTE_TYPE: u32 = 3;

/// The sites of a probe, by file offset.
pub(crate) fn sites(image: &Image, provider: &str, name: &str) -> Vec<StaticSite> {
    let Some(headers) = image.headers() else { return Vec::new() };
    let base = headers.section_by_name(".stapsdt.base").map(|section| section.address());
    let notes = headers.section_by_name(".note.stapsdt").and_then(|section| section.data().ok()).unwrap_or_default();
    let mut sites: Vec<StaticSite> = Notes(notes)
        .take(MAX_NOTES)
        .filter_map(Note::parse)
        .filter(|note| note.provider == provider && note.name == name)
        .filter_map(|note| note.site(image, base))
        .collect();
    sites.sort_by_key(|site| site.file_offset);
    sites.dedup_by_key(|site| site.file_offset);
    sites
}

/// The descriptions of the notes in a section.
struct Notes<'a>(&'a [u8]);

impl<'a> Iterator for Notes<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        loop {
            let word = |at: usize| self.0.get(at..at + 4).and_then(|w| w.try_into().ok()).map(u32::from_le_bytes);
            let (name, description, kind) = (word(0)? as usize, word(4)? as usize, word(8)?);
            let start = 12usize.checked_add(name.checked_next_multiple_of(4)?)?;
            let end = start.checked_add(description)?;
            let (owner, found) = (self.0.get(12..12usize.checked_add(name)?)?, self.0.get(start..end)?);
            self.0 = self.0.get(start.checked_add(description.checked_next_multiple_of(4)?)?..).unwrap_or_default();
            if kind == NOTE_TYPE && owner == b"stapsdt\0" {
                return Some(found);
            }
        }
    }
}

/// One note.
struct Note<'a> {
    address: u64,
    /// Where the section `.stapsdt.base` was when the note was written; a program that moves others leaves it so.
    base: u64,
    semaphore: u64,
    provider: &'a str,
    name: &'a str,
    arguments: &'a str,
}

impl<'a> Note<'a> {
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        let word = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let mut texts = bytes.get(24..)?.split(|byte| *byte == 0);
        let mut text = || texts.next().filter(|text| text.len() <= MAX_TEXT).and_then(|t| std::str::from_utf8(t).ok());
        let (provider, name, arguments) = (text()?, text()?, text()?);
        Some(Self { address: word(0)?, base: word(8)?, semaphore: word(16)?, provider, name, arguments })
    }

    fn site(&self, image: &Image, base: Option<u64>) -> Option<StaticSite> {
        let moved = base.map_or(0, |base| base.wrapping_sub(self.base));
        let semaphore = match self.semaphore {
            0 => None,
            address => Some(image.offset_of(address.wrapping_add(moved))?),
        };
        let file_offset = image.code_offset(self.address.wrapping_add(moved))?;
        Some(StaticSite { file_offset, semaphore, arguments: arguments(image.arch(), self.arguments) })
    }
}

/// The arguments that a note describes.
pub(crate) fn arguments(arch: Arch, text: &str) -> Vec<StaticArgument> {
    words(text).take(MAX_ARGUMENTS).map(|word| argument(arch, word)).collect()
}

/// The words of a text, where blanks in brackets part none.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0i32;
    let parts = text.split(move |c: char| {
        match c {
            '[' | '(' => depth += 1,
            ']' | ')' => depth -= 1,
            _ => {}
        }
        c.is_ascii_whitespace() && depth <= 0
    });
    parts.filter(|word| !word.is_empty())
}

/// One argument, such as `-4@%edi`: its bytes, with a sign where it has one, and where it is.
fn argument(arch: Arch, word: &str) -> StaticArgument {
    // Old header files write no size.
    let (size, at) = word.split_once('@').unwrap_or(("8", word));
    let (signed, bytes) = size.strip_prefix('-').map_or((false, size), |bytes| (true, bytes));
    let size = bytes.parse().ok().filter(|size| matches!(size, 1 | 2 | 4 | 8));
    let place = match arch {
        Arch::X86_64 => x86(at.trim()),
        Arch::Aarch64 => arm64(at.trim()),
    };
    match (size, place) {
        (Some(size), Some(place)) => StaticArgument { size, signed, place },
        _ => StaticArgument { size: 8, signed: false, place: ArgumentLocation::Unreadable(word.to_owned()) },
    }
}

/// `%rdi`, `$5`, `-16(%rbp)`, `8(%rax,%rbx,4)`.
fn x86(text: &str) -> Option<ArgumentLocation> {
    if let Some(constant) = text.strip_prefix('$') {
        return number(constant).map(ArgumentLocation::Constant);
    }
    if let Some(register) = text.strip_prefix('%') {
        return x86_register(register).map(ArgumentLocation::Register);
    }
    let (offset, inside) = text.strip_suffix(')')?.split_once('(')?;
    let offset = if offset.is_empty() { 0 } else { number(offset)? };
    let mut parts = inside.split(',').map(str::trim);
    let mut register = || x86_whole(parts.next()?.strip_prefix('%')?);
    let base = register()?;
    let Some(index) = inside.split(',').nth(1) else {
        return Some(ArgumentLocation::Memory { register: base, offset });
    };
    let index = x86_whole(index.trim().strip_prefix('%')?)?;
    let scale = match inside.split(',').nth(2).map_or("1", str::trim) {
        "1" => 0,
        "2" => 1,
        "4" => 2,
        "8" => 3,
        _ => return None,
    };
    Some(ArgumentLocation::Indexed { register: base, index, scale, offset })
}

/// A register of eight bytes.
fn x86_whole(name: &str) -> Option<u16> {
    name.starts_with('r').then(|| x86_register(name)).flatten()
}

/// DWARF's number of a general register, of any size; those whose value is not in their lowest bytes are left out.
fn x86_register(name: &str) -> Option<u16> {
    const NAMES: [[&str; 4]; 8] = [
        ["rax", "eax", "ax", "al"],
        ["rdx", "edx", "dx", "dl"],
        ["rcx", "ecx", "cx", "cl"],
        ["rbx", "ebx", "bx", "bl"],
        ["rsi", "esi", "si", "sil"],
        ["rdi", "edi", "di", "dil"],
        ["rbp", "ebp", "bp", "bpl"],
        ["rsp", "esp", "sp", "spl"],
    ];
    if let Some(number) = NAMES.iter().position(|names| names.contains(&name)) {
        return u16::try_from(number).ok();
    }
    let number = name.strip_prefix('r')?.trim_end_matches(['d', 'w', 'b']);
    number.parse().ok().filter(|number| (8..16).contains(number) && name.len() - number_length(*number) <= 2)
}

fn number_length(number: u16) -> usize {
    if number < 10 { 1 } else { 2 }
}

/// `x0`, `w1`, `5`, `[sp]`, `[x29, -16]`, `[x0, x1]`.
fn arm64(text: &str) -> Option<ArgumentLocation> {
    if let Some(inside) = text.strip_prefix('[') {
        let mut parts = inside.strip_suffix(']')?.split(',').map(str::trim);
        let register = parts.next().filter(|name| !name.starts_with('w')).and_then(arm64_register)?;
        let second = parts.next();
        let scale = match parts.next() {
            None => 0,
            Some(shift) => shift.strip_prefix("lsl")?.trim().trim_start_matches('#').parse().ok().filter(|s| *s < 4)?,
        };
        return Some(match second {
            None => ArgumentLocation::Memory { register, offset: 0 },
            Some(name) if name.starts_with('x') => {
                ArgumentLocation::Indexed { register, index: arm64_register(name)?, scale, offset: 0 }
            }
            Some(offset) => ArgumentLocation::Memory { register, offset: number(offset.trim_start_matches('#'))? },
        });
    }
    arm64_register(text).map(ArgumentLocation::Register).or_else(|| number(text).map(ArgumentLocation::Constant))
}

fn arm64_register(name: &str) -> Option<u16> {
    if name == "sp" {
        return Some(31);
    }
    let number: u16 = name.strip_prefix(['x', 'w'])?.parse().ok()?;
    (number < 31).then_some(number)
}

fn number(text: &str) -> Option<i64> {
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let value = match digits.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok()?,
        None => digits.parse().ok()?,
    };
    let value = value.cast_signed();
    Some(if negative { value.wrapping_neg() } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(arch: Arch, text: &str) -> Vec<(u8, bool, ArgumentLocation)> {
        arguments(arch, text).into_iter().map(|a| (a.size, a.signed, a.place)).collect()
    }

    #[test]
    fn every_form_of_x86_is_read() {
        let text = "-4@%edi 8@-16(%rbp) 4@$5 8@8(%rax,%r12,4) 1@%r9b -2@(%rsp) -8@$-1 8@%r15 8@(%rax,%rbx)";
        let memory = |register, offset| ArgumentLocation::Memory { register, offset };
        let indexed = |register, index, scale, offset| ArgumentLocation::Indexed { register, index, scale, offset };
        let expected = [
            (4, true, ArgumentLocation::Register(5)),
            (8, false, memory(6, -16)),
            (4, false, ArgumentLocation::Constant(5)),
            (8, false, indexed(0, 12, 2, 8)),
            (1, false, ArgumentLocation::Register(9)),
            (2, true, memory(7, 0)),
            (8, true, ArgumentLocation::Constant(-1)),
            (8, false, ArgumentLocation::Register(15)),
            (8, false, indexed(0, 3, 0, 0)),
        ];
        assert_eq!(places(Arch::X86_64, text), expected);
    }

    #[test]
    fn every_form_of_arm64_is_read() {
        let text = "-4@w1 8@x29 8@[sp] -4@[sp, 12] 8@[x0, x1] 4@7 8@[x2, x3, lsl 3]";
        let memory = |register, offset| ArgumentLocation::Memory { register, offset };
        let indexed = |register, index, scale| ArgumentLocation::Indexed { register, index, scale, offset: 0 };
        let expected = [
            (4, true, ArgumentLocation::Register(1)),
            (8, false, ArgumentLocation::Register(29)),
            (8, false, memory(31, 0)),
            (4, true, memory(31, 12)),
            (8, false, indexed(0, 1, 0)),
            (4, false, ArgumentLocation::Constant(7)),
            (8, false, indexed(2, 3, 3)),
        ];
        assert_eq!(places(Arch::Aarch64, text), expected);
    }

    #[test]
    fn what_cannot_be_read_keeps_its_place() {
        for text in ["8f@%xmm0", "8@%ah", "8@counter(%rip)", "3@%rdi", "@", "8@(%edi)", "8@%r99", "8@8(%rax,%rbx,3)"] {
            let found = arguments(Arch::X86_64, &format!("{text} 8@%rdi"));
            assert!(matches!(&found[0].place, ArgumentLocation::Unreadable(_)), "{text}: {found:?}");
            assert_eq!(found.last().map(|last| &last.place), Some(&ArgumentLocation::Register(5)), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read(text in "[-0-9a-z@%$(),. \\[\\]]{0,60}") {
            for arch in [Arch::X86_64, Arch::Aarch64] {
                proptest::prop_assert!(arguments(arch, &text).len() <= MAX_ARGUMENTS);
            }
        }

        #[test]
        fn any_notes_are_read(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200), name in 0u32..20) {
            let mut notes = name.to_le_bytes().to_vec();
            notes.extend(bytes);
            for note in Notes(&notes).take(100) {
                let _ = Note::parse(note);
            }
        }
    }
}
