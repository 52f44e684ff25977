//! The debug sections of one file, decompressed where they are compressed: of a program, a separate debug file, or a
//! part of it that was left beside an object or packed with others (split DWARF).

use crate::elf::{Headers, Image};
use gimli::{
    DebugAbbrev, DebugCuIndex, DebugInfo, DebugStr, DebugStrOffsets, DebugTuIndex, DebugTypes, EndianSlice,
    IndexSectionId, LittleEndian, UnitIndex,
};
use object::read::elf::ElfSection64;
use object::{CompressionFormat, Endianness, Object, ObjectSection};
use std::borrow::Cow;
use std::collections::HashMap;

/// A section of an image.
type Section<'a, 'h> = ElfSection64<'a, 'h, Endianness>;

/// A reader of debug information.
pub(super) type Reader<'a> = EndianSlice<'a, LittleEndian>;

/// Compressed sections of one file that together claim to be larger are forged.
const MAX_DECOMPRESSED: u64 = 8 << 30;
/// Those of a small file may be so large in any case: much that is alike is compressed well.
const ALWAYS_DECOMPRESSED: u64 = 64 << 20;
/// For a large one this multiple of the file: compilers' debug information gets about four times smaller.
const MAX_RATIO: u64 = 32;

/// Sections of one name in one file.
const MAX_SECTIONS: usize = 1 << 16;
/// Units of one package; there are as many objects.
const MAX_ROWS: u32 = 1 << 20;

/// The bytes of the sections that layouts are read from; a missing or malformed one is empty.
#[derive(Debug)]
pub(super) struct Sections<'a> {
    info: Cow<'a, [u8]>,
    types: Cow<'a, [u8]>,
    abbrev: Cow<'a, [u8]>,
    strings: Cow<'a, [u8]>,
    string_offsets: Cow<'a, [u8]>,
    /// In a package, where the abbreviations and string offsets of each unit begin, by whether the unit is one of
    /// `.debug_types` and its place there.
    shares: HashMap<(bool, usize), Share>,
}

/// The share that a unit of a package has in the sections that are common to all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Share {
    pub(super) abbreviations: usize,
    pub(super) string_offsets: u64,
}

/// An index of the units in a package.
pub(super) type Index<'a> = UnitIndex<Reader<'a>>;

/// How large the debug information is in the file, in bytes; 0 where there is none. Costs next to nothing.
pub(super) fn size_in_file(image: &Image) -> u64 {
    let Some(headers) = image.headers() else { return 0 };
    [".debug_info", ".debug_types"]
        .iter()
        .filter_map(|name| headers.section_by_name(name)?.compressed_file_range().ok())
        .map(|range| range.compressed_size)
        .fold(0, u64::saturating_add)
}

/// How large a file's sections may be when they are decompressed, all together.
fn most_decompressed(headers: &Headers<'_>) -> u64 {
    let length = headers.data().len() as u64;
    length.saturating_mul(MAX_RATIO).saturating_add(ALWAYS_DECOMPRESSED).min(MAX_DECOMPRESSED)
}

/// Whether the compressed debug information of a file can be as large as it claims to be.
pub(super) fn is_plausible(image: &Image) -> bool {
    let Some(headers) = image.headers() else { return true };
    is_plausible_in(&headers)
}

fn is_plausible_in(headers: &Headers<'_>) -> bool {
    let is_debug = |name: &str| name.starts_with(".debug_") || name.starts_with(".zdebug_");
    let is_debug = |section: &Section<'_, '_>| section.name().is_ok_and(is_debug);
    let claimed = headers
        .sections()
        .filter(is_debug)
        .filter_map(|section| section.compressed_file_range().ok())
        .filter(|range| range.format != CompressionFormat::None)
        .fold(0, |sum: u64, range| sum.saturating_add(range.uncompressed_size));
    claimed <= most_decompressed(headers)
}

impl<'a> Sections<'a> {
    /// Finds, and if need be decompresses, them; `None` where there is no debug information.
    pub(super) fn load(image: &'a Image) -> Option<Self> {
        let names = [".debug_info", ".debug_types", ".debug_abbrev", ".debug_str", ".debug_str_offsets"];
        Self::of(image, names, section)
    }

    /// The same for an object's part, or a package of them; `None` where it is none.
    pub(super) fn load_part(image: &'a Image) -> Option<Self> {
        let names =
            [".debug_info.dwo", ".debug_types.dwo", ".debug_abbrev.dwo", ".debug_str.dwo", ".debug_str_offsets.dwo"];
        let mut sections = Self::of(image, names, all_sections)?;
        let headers = image.headers()?;
        let indices = [section(&headers, ".debug_cu_index"), section(&headers, ".debug_tu_index")];
        let indices = [index(&indices[0]), DebugTuIndex::new(&indices[1], LittleEndian).index().ok()];
        sections.shares = indices.iter().flatten().flat_map(shares).collect();
        Some(sections)
    }

    fn of(image: &'a Image, names: [&str; 5], section: impl Fn(&Headers<'a>, &str) -> Cow<'a, [u8]>) -> Option<Self> {
        let headers = image.headers().filter(is_plausible_in)?;
        let [info, types, abbrev, strings, string_offsets] = names.map(|name| section(&headers, name));
        let sections = Self { info, types, abbrev, strings, string_offsets, shares: HashMap::new() };
        (!sections.info.is_empty() || !sections.types.is_empty()).then_some(sections)
    }

    /// The share of the unit that begins at a place of `.debug_types`, or else of `.debug_info`; all, where this is no
    /// package.
    pub(super) fn share(&self, in_types: bool, start: usize) -> Share {
        self.shares.get(&(in_types, start)).copied().unwrap_or_default()
    }

    pub(super) fn info(&self) -> DebugInfo<Reader<'_>> {
        DebugInfo::new(&self.info, LittleEndian)
    }

    pub(super) fn types(&self) -> DebugTypes<Reader<'_>> {
        DebugTypes::new(&self.types, LittleEndian)
    }

    /// The abbreviations from a place on.
    pub(super) fn abbrev(&self, start: usize) -> DebugAbbrev<Reader<'_>> {
        DebugAbbrev::new(self.abbrev.get(start..).unwrap_or_default(), LittleEndian)
    }

    pub(super) fn strings(&self) -> DebugStr<Reader<'_>> {
        DebugStr::new(&self.strings, LittleEndian)
    }

    pub(super) fn string_offsets(&self) -> DebugStrOffsets<Reader<'_>> {
        DebugStrOffsets::from(EndianSlice::new(&self.string_offsets, LittleEndian))
    }

    /// Every section in which a type's name can stand.
    pub(super) fn texts(&self) -> [&[u8]; 3] {
        [&self.strings, &self.info, &self.types]
    }
}

/// The index of a package's units, from its section.
pub(super) fn index(bytes: &[u8]) -> Option<Index<'_>> {
    DebugCuIndex::new(bytes, LittleEndian).index().ok()
}

/// The bytes of a package's index; empty where it has none.
pub(super) fn index_bytes(image: &Image) -> Cow<'_, [u8]> {
    named(image, ".debug_cu_index")
}

fn shares<'i>(index: &'i Index<'_>) -> impl Iterator<Item = ((bool, usize), Share)> + 'i {
    let rows = index.unit_count().min(MAX_ROWS);
    (1..=rows).filter_map(|row| {
        let mut share = Share::default();
        let mut unit = None;
        for section in index.sections(row).ok()? {
            match section.section {
                IndexSectionId::DebugInfo => unit = Some((false, section.offset as usize)),
                IndexSectionId::DebugTypes => unit = Some((true, section.offset as usize)),
                IndexSectionId::DebugAbbrev => share.abbreviations = section.offset as usize,
                IndexSectionId::DebugStrOffsets => share.string_offsets = u64::from(section.offset),
                _ => {}
            }
        }
        Some((unit?, share))
    })
}

/// The sections of a name, one behind the other: an object's part has a section for each of its type units.
fn all_sections<'a>(headers: &Headers<'a>, name: &str) -> Cow<'a, [u8]> {
    let mut found = headers.sections().filter(|section| section.name() == Ok(name)).take(MAX_SECTIONS);
    let first = found.next().map(|section| content(&section)).unwrap_or_default();
    let mut rest = found.peekable();
    if rest.peek().is_none() {
        return first;
    }
    let mut all = first.into_owned();
    for more in rest {
        let more = content(&more);
        // Sections of a forged file may overlap.
        if (all.len() + more.len()) as u64 > most_decompressed(headers) {
            break;
        }
        all.extend_from_slice(&more);
    }
    Cow::Owned(all)
}

/// A section by its name, for what else than layouts is read; empty where it is missing or malformed.
pub(super) fn named<'a>(image: &'a Image, name: &str) -> Cow<'a, [u8]> {
    image.headers().filter(is_plausible_in).map(|headers| section(&headers, name)).unwrap_or_default()
}

/// Of a file that is plausible, as what follows.
fn section<'a>(headers: &Headers<'a>, name: &str) -> Cow<'a, [u8]> {
    headers.section_by_name(name).map(|section| content(&section)).unwrap_or_default()
}

fn content<'a>(section: &Section<'a, '_>) -> Cow<'a, [u8]> {
    section.compressed_data().ok().and_then(|data| data.decompress().ok()).unwrap_or_default()
}
