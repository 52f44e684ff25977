//! The debug sections of an image, decompressed where they are compressed. Where they come from is decided here
//! alone: today from the image itself; a separate debug file would be opened here.

use crate::target::elf::{Headers, Image};
use gimli::{DebugAbbrev, DebugInfo, DebugStr, DebugStrOffsets, DebugTypes, EndianSlice, LittleEndian};
use object::{Object, ObjectSection};
use std::borrow::Cow;

/// A reader of debug information.
pub(super) type Reader<'a> = EndianSlice<'a, LittleEndian>;

/// A compressed section that claims to be larger is forged.
const MAX_DECOMPRESSED: u64 = 4 << 30;
/// No compressor in use makes text this many times smaller.
const MAX_RATIO: u64 = 1100;

/// The bytes of the sections that layouts are read from; a missing or malformed one is empty.
#[derive(Debug)]
pub(super) struct Sections<'a> {
    info: Cow<'a, [u8]>,
    types: Cow<'a, [u8]>,
    abbrev: Cow<'a, [u8]>,
    strings: Cow<'a, [u8]>,
    string_offsets: Cow<'a, [u8]>,
}

/// How large the debug information is in the file, in bytes; 0 where there is none. Costs next to nothing.
pub(super) fn size_in_file(image: &Image) -> u64 {
    let Some(headers) = image.headers() else { return 0 };
    [".debug_info", ".debug_types"]
        .iter()
        .filter_map(|name| headers.section_by_name(name)?.compressed_file_range().ok())
        .map(|range| range.compressed_size)
        .fold(0, u64::saturating_add)
}

impl<'a> Sections<'a> {
    /// Finds, and if need be decompresses, them; `None` where there is no debug information.
    pub(super) fn load(image: &'a Image) -> Option<Self> {
        let headers = image.headers()?;
        let names = [".debug_info", ".debug_types", ".debug_abbrev", ".debug_str", ".debug_str_offsets"];
        let [info, types, abbrev, strings, string_offsets] = names.map(|name| section(&headers, name));
        let sections = Self { info, types, abbrev, strings, string_offsets };
        (!sections.info.is_empty() || !sections.types.is_empty()).then_some(sections)
    }

    pub(super) fn info(&self) -> DebugInfo<Reader<'_>> {
        DebugInfo::new(&self.info, LittleEndian)
    }

    pub(super) fn types(&self) -> DebugTypes<Reader<'_>> {
        DebugTypes::new(&self.types, LittleEndian)
    }

    pub(super) fn abbrev(&self) -> DebugAbbrev<Reader<'_>> {
        DebugAbbrev::new(&self.abbrev, LittleEndian)
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

/// A section by its name, for what else than layouts is read; empty where it is missing or malformed.
pub(super) fn named<'a>(image: &'a Image, name: &str) -> Cow<'a, [u8]> {
    image.headers().map(|headers| section(&headers, name)).unwrap_or_default()
}

fn section<'a>(headers: &Headers<'a>, name: &str) -> Cow<'a, [u8]> {
    let load = || {
        let data = headers.section_by_name(name)?.compressed_data().ok()?;
        let plausible =
            data.uncompressed_size <= MAX_DECOMPRESSED && data.uncompressed_size / MAX_RATIO <= data.data.len() as u64;
        if plausible { data.decompress().ok() } else { None }
    };
    load().unwrap_or_default()
}
