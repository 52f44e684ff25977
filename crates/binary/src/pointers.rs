//! What the words of an image's data point to once the dynamic linker has been over it: the file itself has zeros there.
//! The bytes are not trusted: every address is checked where it is used, and there are bounds on how many there are.

use super::Arch;
use super::elf::Image;
use object::elf;
use std::ops::Range;

/// Words that are pointers; the largest real libraries have some millions.
const MAX_POINTERS: usize = 16 << 20;
/// A pointer is a word of the file, of eight bytes; those that are there twice count twice.
const FEWEST_BYTES: usize = 4;
/// So many are allowed in the smallest file.
const ALWAYS: usize = 64;
/// Bytes of a symbol's name.
const MAX_NAME: usize = super::names::MAX_SYMBOL;
/// Data of other images that is copied, and bytes of each.
const MAX_COPIES: usize = 1 << 16;
const MAX_COPY: u64 = 1 << 20;
/// Entries of the dynamic section.
const MAX_DYNAMIC: usize = 4096;
const RELA_BYTES: u64 = 24;
const SYMBOL_BYTES: u64 = 24;
const WORD: u64 = 8;
/// Keys of the dynamic section.
const TAG_STRTAB: u64 = 5;
const TAG_SYMTAB: u64 = 6;
const TAG_PLT_BYTES: u64 = 2;
const TAG_PLT: u64 = 23;
const TAG_RELA: u64 = 7;
const TAG_RELASZ: u64 = 8;
const TAG_STRSZ: u64 = 10;
const TAG_RELRSZ: u64 = 35;
const TAG_RELR: u64 = 36;

/// Kinds of relocation, the same for both tables of an architecture.
struct Kinds {
    relative: u32,
    absolute: u32,
    global: u32,
    copy: u32,
}

impl Kinds {
    fn of(arch: Arch) -> Self {
        match arch {
            Arch::X86_64 => Self {
                relative: elf::R_X86_64_RELATIVE.0,
                absolute: elf::R_X86_64_64.0,
                global: elf::R_X86_64_GLOB_DAT.0,
                copy: elf::R_X86_64_COPY.0,
            },
            Arch::Aarch64 => Self {
                relative: elf::R_AARCH64_RELATIVE.0,
                absolute: elf::R_AARCH64_ABS64.0,
                global: elf::R_AARCH64_GLOB_DAT.0,
                copy: elf::R_AARCH64_COPY.0,
            },
        }
    }
}

/// An entry of a table of relocations.
struct Relocation {
    place: u64,
    kind: u32,
    symbol: u32,
    addend: i64,
}

fn relocations(image: &Image, table: Range<u64>) -> impl Iterator<Item = Relocation> {
    let bytes = image.at_address(table.start, usize::try_from(table.end - table.start).unwrap_or_default());
    bytes.chunks_exact(RELA_BYTES as usize).map(|entry| {
        let word = |at: usize| entry.get(at..at + 8).and_then(|w| w.try_into().ok()).map_or(0, u64::from_le_bytes);
        let (place, info, addend) = (word(0), word(8), word(16).cast_signed());
        Relocation { place, kind: (info & 0xffff_ffff) as u32, symbol: (info >> 32) as u32, addend }
    })
}

/// What a word points to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pointer {
    /// An address of the image.
    Address(u64),
    /// Something of another image: the number of a symbol, and bytes from there.
    Import(u32, i64),
}

/// The words of an image that are pointers.
#[derive(Debug, Default)]
pub(crate) struct Pointers {
    /// By address of the word, sorted.
    words: Vec<(u64, Pointer)>,
    /// Addresses of the dynamic symbols and their strings.
    symbols: u64,
    strings: Range<u64>,
    /// Where other images' data is copied to, in a program that is always at the same place, with the symbols; sorted.
    copies: Vec<(Range<u64>, u32)>,
    /// Where this image calls functions of other images by name; sorted.
    stubs: Vec<u64>,
    /// The number of places that may still be inspected.
    left: usize,
}

impl Pointers {
    /// Reads an image's relocations; for a program that is always at the same place, its data.
    pub(crate) fn read(image: &Image) -> Self {
        let dynamic = dynamic(image);
        let value = |tag: u64| dynamic.iter().find(|(found, _)| *found == tag).map(|(_, value)| *value);
        let table = |start: u64, size: u64| {
            let start = value(start)?;
            Some(start..start.checked_add(value(size)?)?)
        };
        let mut pointers = Self {
            words: Vec::new(),
            symbols: value(TAG_SYMTAB).unwrap_or_default(),
            strings: table(TAG_STRTAB, TAG_STRSZ).unwrap_or_default(),
            copies: Vec::new(),
            stubs: Vec::new(),
            left: (image.bytes().len() / FEWEST_BYTES + ALWAYS).min(MAX_POINTERS),
        };
        if image.is_at_fixed_address() {
            if let Some(table) = table(TAG_RELA, TAG_RELASZ) {
                pointers.copies(image, table);
            }
            pointers.data(image);
            if let Some(table) = table(TAG_PLT, TAG_PLT_BYTES) {
                pointers.stubs(image, table);
            }
        }
        if let Some(table) = table(TAG_RELR, TAG_RELRSZ) {
            pointers.relr(image, table);
        }
        if let Some(table) = table(TAG_RELA, TAG_RELASZ) {
            pointers.rela(image, table);
        }
        // Of two for one word the later one stands, as the linker writes it last.
        pointers.words.sort_by_key(|(place, _)| *place);
        pointers.words.reverse();
        pointers.words.dedup_by_key(|(place, _)| *place);
        pointers.words.reverse();
        pointers
    }

    /// What the word at an address points to.
    pub(crate) fn at(&self, place: u64) -> Option<Pointer> {
        let index = self.words.binary_search_by_key(&place, |(place, _)| *place).ok()?;
        self.words.get(index).map(|(_, pointer)| *pointer)
    }

    /// The address that the word at an address points to, if it is one of the image.
    pub(crate) fn address_at(&self, place: u64) -> Option<u64> {
        match self.at(place)? {
            Pointer::Address(address) => Some(address),
            Pointer::Import(..) => None,
        }
    }

    /// Every word and what it points to, by address.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u64, Pointer)> + '_ {
        self.words.iter().copied()
    }

    /// How many words there are.
    pub(crate) fn len(&self) -> usize {
        self.words.len()
    }

    /// Whether there are more than a file of this size can have.
    pub(crate) fn is_cut(&self) -> bool {
        self.left == 0
    }

    /// The name of an imported symbol.
    pub(crate) fn import<'a>(&self, image: &'a Image, symbol: u32) -> Option<&'a str> {
        let bytes = self.import_start(image, symbol, MAX_NAME)?;
        let end = bytes.iter().position(|byte| *byte == 0)?;
        std::str::from_utf8(bytes.get(..end)?).ok()
    }

    /// The first bytes of an imported symbol's name, and what follows it where it is shorter.
    pub(crate) fn import_start<'a>(&self, image: &'a Image, symbol: u32, most: usize) -> Option<&'a [u8]> {
        let name = u64::from(u32::from_le_bytes(self.symbol(image, symbol)?[..4].try_into().ok()?));
        let start = self.strings.start.checked_add(name).filter(|start| self.strings.contains(start))?;
        let most = usize::try_from(self.strings.end - start).unwrap_or(usize::MAX).min(most);
        Some(image.at_address(start, most))
    }

    /// A symbol's entry: its name at 0, its section at 6, its address at 8, its bytes at 16.
    fn symbol<'a>(&self, image: &'a Image, symbol: u32) -> Option<&'a [u8; SYMBOL_BYTES as usize]> {
        let entry = self.symbols.checked_add(SYMBOL_BYTES.checked_mul(symbol.into())?)?;
        image.at_address(entry, SYMBOL_BYTES as usize).try_into().ok()
    }

    /// Whether another place may be inspected.
    fn may_scan(&mut self) -> bool {
        self.left = self.left.saturating_sub(1);
        self.left > 0
    }

    fn push(&mut self, place: u64, pointer: Pointer) -> bool {
        let may_scan = self.may_scan();
        if may_scan {
            self.words.push((place, pointer));
        }
        may_scan
    }

    /// A symbol's address, if the image defines it.
    fn defined(&self, image: &Image, symbol: u32) -> Option<u64> {
        let entry = self.symbol(image, symbol)?;
        let section = u16::from_le_bytes(entry[6..8].try_into().ok()?);
        let value = u64::from_le_bytes(entry[8..16].try_into().ok()?);
        (section != 0).then_some(value)
    }

    /// The bytes of a symbol.
    fn symbol_size(&self, image: &Image, symbol: u32) -> Option<u64> {
        Some(u64::from_le_bytes(self.symbol(image, symbol)?[16..].try_into().ok()?))
    }

    fn copies(&mut self, image: &Image, table: Range<u64>) {
        let copy = Kinds::of(image.arch()).copy;
        let found = relocations(image, table).filter(|relocation| relocation.kind == copy);
        for Relocation { place, symbol, .. } in found.take(MAX_COPIES) {
            let size = self.symbol_size(image, symbol).unwrap_or_default().clamp(1, MAX_COPY);
            self.copies.push((place..place.saturating_add(size), symbol));
        }
        self.copies.sort_unstable_by_key(|(place, _)| place.start);
    }

    /// Of a program that is always at the same place, the address of another image's function is one of its own: the code
    /// that calls it, at which its symbol points although it is not defined here.
    fn stubs(&mut self, image: &Image, table: Range<u64>) {
        let stub = |relocation: Relocation| {
            let entry = self.symbol(image, relocation.symbol)?;
            let (section, value) = (u16::from_le_bytes([entry[6], entry[7]]), entry.get(8..16)?.try_into().ok()?);
            Some(u64::from_le_bytes(value)).filter(|value| section == 0 && *value != 0)
        };
        let mut stubs: Vec<u64> = relocations(image, table).filter_map(stub).collect();
        stubs.sort_unstable();
        self.stubs = stubs;
    }

    /// Whether an address is that of another image's function.
    pub(crate) fn is_stub(&self, address: u64) -> bool {
        self.stubs.binary_search(&address).is_ok()
    }

    /// What of another image lies at an address.
    fn copied(&self, address: u64) -> Option<Pointer> {
        let after = self.copies.partition_point(|(place, _)| place.start <= address);
        let (place, symbol) = self.copies.get(after.checked_sub(1)?)?;
        place.contains(&address).then(|| Pointer::Import(*symbol, (address - place.start).cast_signed()))
    }

    fn rela(&mut self, image: &Image, table: Range<u64>) {
        let kinds = Kinds::of(image.arch());
        for Relocation { place, kind, symbol, addend } in relocations(image, table) {
            let pointer = if kind == kinds.relative {
                Pointer::Address(addend.cast_unsigned())
            } else if kind == kinds.absolute || kind == kinds.global {
                match self.defined(image, symbol) {
                    Some(address) => Pointer::Address(address.wrapping_add_signed(addend)),
                    None => Pointer::Import(symbol, addend),
                }
            } else {
                continue;
            };
            if !self.push(place, pointer) {
                return;
            }
        }
    }

    /// Words that hold their address in the file already: an address, then bits for the 63 words that follow.
    fn relr(&mut self, image: &Image, table: Range<u64>) {
        let bytes = image.at_address(table.start, usize::try_from(table.end - table.start).unwrap_or_default());
        let mut next = 0u64;
        for entry in bytes.chunks_exact(WORD as usize) {
            let entry = entry.try_into().map_or(0, u64::from_le_bytes);
            let (first, bits, step) = match entry & 1 {
                0 => (entry, 1, WORD),
                _ => (next, entry >> 1, 63 * WORD),
            };
            for bit in (0..63).filter(|bit| bits >> bit & 1 == 1) {
                let place = first.wrapping_add(bit * WORD);
                let is_taken = match image.word_at(place) {
                    Some(address) => self.push(place, Pointer::Address(address)),
                    None => self.may_scan(),
                };
                if !is_taken {
                    return;
                }
            }
            next = first.wrapping_add(step);
        }
    }

    /// The words of data that could be addresses.
    fn data(&mut self, image: &Image) {
        for range in image.data_ranges() {
            let bytes = image.at_address(range.start, usize::try_from(range.end - range.start).unwrap_or_default());
            let skip = range.start.wrapping_neg() % WORD;
            let bytes = bytes.get(usize::try_from(skip).unwrap_or_default()..).unwrap_or_default();
            for (number, word) in (0u64..).zip(bytes.chunks_exact(WORD as usize)) {
                let place = range.start.wrapping_add(skip).wrapping_add(number * WORD);
                let address = word.try_into().map_or(0, u64::from_le_bytes);
                let here = || image.is_mapped(address).then_some(Pointer::Address(address));
                if let Some(pointer) = self.copied(address).or_else(here)
                    && !self.push(place, pointer)
                {
                    return;
                }
            }
        }
    }
}

/// Tags and values of the dynamic section.
fn dynamic(image: &Image) -> Vec<(u64, u64)> {
    let Some(range) = image.dynamic_range() else { return Vec::new() };
    let length = usize::try_from(range.end - range.start).unwrap_or_default().min(MAX_DYNAMIC * 16);
    let bytes = image.slice(range.start, length);
    let word =
        |entry: &[u8], at: usize| entry.get(at..at + 8).and_then(|w| w.try_into().ok()).map_or(0, u64::from_le_bytes);
    let entries = bytes.chunks_exact(16).map(|entry| (word(entry, 0), word(entry, 8)));
    entries.take_while(|(tag, _)| *tag != 0).collect()
}
