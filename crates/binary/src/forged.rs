//! ELF files as a test wants them, of either architecture, without a linker: what is put at an address stands at the same
//! place of the file.

use super::elf::{Image, Unusable};
use object::elf;

const HEADERS: usize = 64;
const SEGMENT: usize = 56;
const SECTION: usize = 64;
/// Where the code begins; what is before it is data.
pub(super) const CODE: u64 = 0x10_0000;
/// Where a program's first byte is: nothing is at 0. A library's is there.
pub(super) const PROGRAM: u64 = 0x40_0000;

/// A file in the making.
pub(super) struct Forged {
    machine: u16,
    /// The address of the first byte; not 0 in a program that is always at the same place.
    base: u64,
    bytes: Vec<u8>,
    relocations: Vec<[u64; 3]>,
    relr: Vec<u64>,
    symbols: Vec<u8>,
    strings: Vec<u8>,
    sections: Vec<(&'static str, u32, u64, Vec<u8>)>,
    segments: Vec<[u64; 4]>,
}

impl Forged {
    /// An empty library.
    pub(super) fn library(machine: elf::Machine) -> Self {
        Self {
            machine: machine.0,
            base: 0,
            bytes: Vec::new(),
            relocations: Vec::new(),
            relr: Vec::new(),
            symbols: vec![0; 24],
            strings: vec![0],
            sections: Vec::new(),
            segments: Vec::new(),
        }
    }

    /// An empty program that is always at the same place.
    pub(super) fn program(machine: elf::Machine) -> Self {
        Self { base: PROGRAM, ..Self::library(machine) }
    }

    pub(super) fn put(&mut self, address: u64, bytes: &[u8]) {
        self.put_at(address - self.base, bytes);
    }

    fn put_at(&mut self, at: u64, bytes: &[u8]) {
        let at = at as usize;
        self.bytes.resize(self.bytes.len().max(at + bytes.len()), 0);
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    pub(super) fn word(&mut self, at: u64, word: u64) {
        self.put(at, &word.to_le_bytes());
    }

    pub(super) fn text(&mut self, at: u64, text: &str) {
        self.put(at, text.as_bytes());
        self.put(at + text.len() as u64, &[0]);
    }

    /// Another segment: its flags, and where it is in memory and in the file, and how long.
    pub(super) fn segment(&mut self, flags: u32, address: u64, offset: u64, length: u64) {
        self.segments.push([flags.into(), address, offset, length]);
    }

    pub(super) fn section(&mut self, name: &'static str, kind: u32, address: u64, bytes: &[u8]) {
        self.sections.push((name, kind, address, bytes.to_vec()));
    }

    /// A dynamic symbol; of section 0 where the file does not define it.
    pub(super) fn symbol(&mut self, name: &str, section: u16, address: u64, size: u64) -> u64 {
        let number = self.symbols.len() / 24;
        self.symbols.extend((self.strings.len() as u32).to_le_bytes());
        self.symbols.extend([0x12, 0]);
        self.symbols.extend(section.to_le_bytes());
        self.symbols.extend(address.to_le_bytes());
        self.symbols.extend(size.to_le_bytes());
        self.strings.extend(name.bytes().chain([0]));
        number as u64
    }

    pub(super) fn relocation(&mut self, place: u64, kind: u32, symbol: u64, addend: u64) {
        // A copy of another file's data has no bytes in this one.
        if place < self.base + CODE {
            self.word(place, 0);
        }
        self.relocations.push([place, symbol << 32 | u64::from(kind), addend]);
    }

    pub(super) fn relr(&mut self, entries: impl IntoIterator<Item = u64>) {
        self.relr.extend(entries);
    }

    /// The file: data up to [`CODE`], code behind it, then the tables.
    pub(super) fn bytes(mut self) -> Vec<u8> {
        let words = |words: &[u64]| -> Vec<u8> { words.iter().flat_map(|word| word.to_le_bytes()).collect() };
        self.put_at(CODE + 0x1000, &[0]);
        let end = self.bytes.len();
        let relocations = words(&self.relocations.concat());
        let (relr, symbols, strings) = (words(&self.relr), self.symbols.clone(), self.strings.clone());
        let mut at = end.next_multiple_of(16) as u64;
        let mut place = |this: &mut Self, bytes: &[u8]| {
            let start = at;
            this.put_at(start, bytes);
            at += bytes.len().next_multiple_of(16) as u64;
            start
        };
        let tables =
            [&relocations, &relr, &symbols, &strings].map(|table| (place(&mut self, table), table.len() as u64));
        let base = self.base;
        let [rela, relr, symbols, strings] = tables.map(|(at, length)| (at + base, length));
        let tags =
            [5, strings.0, 10, strings.1, 6, symbols.0, 11, 24, 7, rela.0, 8, rela.1, 9, 24, 36, relr.0, 35, relr.1];
        let dynamic = words(&[&tags[..], &[0, 0]].concat());
        let dynamic = (place(&mut self, &dynamic), dynamic.len() as u64);
        let tables_end = self.bytes.len() as u64;
        // Data, code, and the tables, which are data too; the last is the dynamic section.
        let mut segments = vec![[elf::PF_R.0 | elf::PF_W.0, 0], [elf::PF_R.0 | elf::PF_X.0, 0]];
        segments.push([elf::PF_R.0, 0]);
        let places = [(0, CODE), (CODE, end as u64 - CODE), (end as u64, tables_end - end as u64)];
        let usual =
            segments.iter().zip(places).map(|([flags, _], (at, length))| [u64::from(*flags), at + base, at, length]);
        let loads: Vec<[u64; 4]> = usual.chain(self.segments.clone()).collect();
        let mut headers = Vec::new();
        let mut header = |kind: u32, [flags, address, offset, length]: [u64; 4]| {
            headers.extend(kind.to_le_bytes());
            headers.extend((flags as u32).to_le_bytes());
            headers.extend(words(&[offset, address, address, length, length, 8]));
        };
        loads.iter().for_each(|load| header(1, *load));
        header(2, [6, dynamic.0 + base, dynamic.0, dynamic.1]);
        let count = headers.len() / SEGMENT;
        assert!(self.bytes[..HEADERS].iter().all(|byte| *byte == 0), "the header's place is free");
        // The segments' headers may be many: they stand at the end, and are not mapped.
        let headers_at = self.bytes.len().next_multiple_of(16) as u64;
        self.put_at(headers_at, &headers);
        let (sections_at, sections, names) = self.section_headers();
        let mut start = b"\x7fELF\x02\x01\x01".to_vec();
        start.resize(16, 0);
        start.extend((if base > 0 { 2u16 } else { 3 }).to_le_bytes());
        start.extend(self.machine.to_le_bytes());
        start.extend(1u32.to_le_bytes());
        start.extend(words(&[base + CODE, headers_at, sections_at]));
        start.extend([0; 4]);
        for half in [HEADERS, SEGMENT, count, SECTION, sections, names] {
            start.extend((half as u16).to_le_bytes());
        }
        self.put_at(0, &start);
        self.bytes
    }

    /// Writes the sections; gives where their headers are, how many, and which has the names.
    fn section_headers(&mut self) -> (u64, usize, usize) {
        let mut names = vec![0u8];
        let mut headers = vec![0u8; SECTION];
        let mut header = |name: usize, kind: u32, address: u64, at: u64, length: u64| {
            headers.extend((name as u32).to_le_bytes());
            headers.extend(kind.to_le_bytes());
            headers.extend([0, address, at, length, 0, 4, 0].iter().flat_map(|word: &u64| word.to_le_bytes()));
        };
        for (name, kind, address, bytes) in std::mem::take(&mut self.sections) {
            let at = self.bytes.len().next_multiple_of(16) as u64;
            self.put_at(at, &bytes);
            header(names.len(), kind, address, at, bytes.len() as u64);
            names.extend(name.bytes().chain([0]));
        }
        let own = names.len();
        names.extend(b".shstrtab\0");
        let at = self.bytes.len() as u64;
        self.put_at(at, &names);
        header(own, 3, 0, at, names.len() as u64);
        let count = headers.len() / SECTION;
        let at = self.bytes.len().next_multiple_of(16) as u64;
        self.put_at(at, &headers);
        (at, count, count - 1)
    }

    pub(super) fn image(self) -> Result<Image, Unusable> {
        Image::from_bytes(&self.bytes())
    }
}
