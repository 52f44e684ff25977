//! Units of debug information, and the few things that are read of an entry: its name and what it refers to.

use super::scan::is_scope;
use super::sections::{Reader, Sections};
use gimli::{
    Abbreviations, AttributeValue, DebugInfoOffset, DebugTypeSignature, DebuggingInformationEntry, EntriesCursor,
    Format, UnitHeader, UnitOffset, UnitType,
};
use std::collections::HashMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// A file with more units than this is forged.
const MAX_UNITS: usize = 1 << 20;

/// Scopes around a type: more than any program has.
const MAX_SCOPES: usize = 64;

/// Entries that are passed over on the way to others, in all: some seconds. A compiler that leaves out where an entry's
/// sibling is has each entry below it passed over, and a forged file has that happen over and over again.
const MAX_PASSED: u64 = 1 << 28;

/// An entry of a unit.
pub(super) type Entry<'a> = DebuggingInformationEntry<Reader<'a>>;

/// The debug information of an image, with its units found but not read.
#[derive(Debug)]
pub(super) struct Debug<'a> {
    /// The image's sections, then those of its parts that lie elsewhere.
    files: &'a [Sections<'a>],
    /// File by file; in each those of `.debug_info` first, by offset, then those of `.debug_types`.
    pub(super) headers: Vec<UnitHeader<Reader<'a>>>,
    /// The units of each file: where they begin, where those of `.debug_types` do, and where they end.
    numbers: Vec<[usize; 3]>,
    signatures: OnceLock<HashMap<u64, EntryOffset>>,
    /// Entries passed over so far.
    passed: AtomicU64,
}

/// A unit that is being read.
#[derive(Debug)]
pub(super) struct Unit<'a> {
    debug: &'a Debug<'a>,
    sections: &'a Sections<'a>,
    pub(super) number: usize,
    pub(super) header: UnitHeader<Reader<'a>>,
    pub(super) abbreviations: Abbreviations,
    string_offsets_base: u64,
}

/// Where an entry is: the number of its unit, and bytes from that unit's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct EntryOffset {
    pub(super) unit: usize,
    pub(super) offset: UnitOffset,
}

impl<'a> Debug<'a> {
    /// Reads the headers of all units, as far as they are well-formed.
    pub(super) fn new(files: &'a [Sections<'a>]) -> Self {
        let mut headers = Vec::new();
        let mut numbers = Vec::new();
        for sections in files {
            let begin = headers.len();
            let mut units = sections.info().units();
            while let (true, Ok(Some(header))) = (headers.len() < MAX_UNITS, units.next()) {
                headers.push(header);
            }
            let types = headers.len();
            let mut units = sections.types().units();
            while let (true, Ok(Some(header))) = (headers.len() < MAX_UNITS, units.next()) {
                headers.push(header);
            }
            numbers.push([begin, types, headers.len()]);
        }
        Self { files, headers, numbers, signatures: OnceLock::new(), passed: AtomicU64::new(0) }
    }

    /// Opens a unit by its number.
    pub(super) fn unit(&'a self, number: usize) -> Option<Unit<'a>> {
        let header = *self.headers.get(number)?;
        let file = self.file_of(number)?;
        let (sections, [_, types, _]) = (self.files.get(file)?, *self.numbers.get(file)?);
        let start = match header.debug_info_offset() {
            Some(start) => start.0,
            None => header.debug_types_offset()?.0,
        };
        let share = sections.share(number >= types, start);
        let abbreviations = header.abbreviations(&sections.abbrev(share.abbreviations)).ok()?;
        let string_offsets_base = share.string_offsets;
        let mut unit = Unit { debug: self, sections, number, header, abbreviations, string_offsets_base };
        if header.version() >= 5 {
            unit.string_offsets_base = unit.read_string_offsets_base();
        }
        Some(unit)
    }

    /// The number of the file that a unit is in.
    fn file_of(&self, unit: usize) -> Option<usize> {
        let file = self.numbers.partition_point(|[_, _, end]| *end <= unit);
        (file < self.numbers.len()).then_some(file)
    }

    /// The entry at an offset of the `.debug_info` that a unit is in.
    fn unit_with(&self, offset: DebugInfoOffset, from: usize) -> Option<EntryOffset> {
        let start = |header: &UnitHeader<Reader<'_>>| header.debug_info_offset().map_or(0, |start| start.0);
        let [begin, types, _] = *self.numbers.get(self.file_of(from)?)?;
        let units = self.headers.get(begin..types)?;
        let number = units.partition_point(|header| start(header) <= offset.0).checked_sub(1)?;
        let inside = UnitOffset(offset.0 - start(&units[number]));
        inside.is_in_bounds(&units[number]).then_some(EntryOffset { unit: begin + number, offset: inside })
    }

    /// Counts an entry that is passed over; `None` where there were too many.
    fn pass(&self) -> Option<()> {
        (self.passed.fetch_add(1, Ordering::Relaxed) < MAX_PASSED).then_some(())
    }

    fn unit_of(&self, signature: DebugTypeSignature) -> Option<EntryOffset> {
        let signatures = self.signatures.get_or_init(|| {
            let types = self.headers.iter().enumerate().filter_map(|(number, header)| match header.type_() {
                UnitType::Type { type_signature, type_offset }
                | UnitType::SplitType { type_signature, type_offset } => {
                    Some((type_signature.0, EntryOffset { unit: number, offset: type_offset }))
                }
                _ => None,
            });
            types.collect()
        });
        signatures.get(&signature.0).copied()
    }
}

impl<'a> Unit<'a> {
    fn read_string_offsets_base(&self) -> u64 {
        let header_size = match self.header.format() {
            Format::Dwarf32 => 8,
            Format::Dwarf64 => 16,
        };
        let root = self.header.entry(&self.abbreviations, self.header.root_offset());
        match root.ok().and_then(|root| root.attr_value(gimli::DW_AT_str_offsets_base)) {
            Some(AttributeValue::DebugStrOffsetsBase(base)) => base.0 as u64,
            // An object's part does not have it: its offsets begin after the header.
            _ => self.string_offsets_base.saturating_add(header_size),
        }
    }

    /// The entry at an offset.
    pub(super) fn entry(&self, offset: UnitOffset) -> Option<Entry<'a>> {
        self.header.entry(&self.abbreviations, offset).ok()
    }

    /// The entries directly under one, at most `limit`.
    pub(super) fn children(&self, offset: UnitOffset, limit: usize) -> Vec<Entry<'a>> {
        let mut children = Vec::new();
        let Ok(mut cursor) = self.header.entries_at_offset(&self.abbreviations, offset) else { return children };
        match cursor.next_dfs() {
            Ok(Some(parent)) if parent.has_children() => {}
            _ => return children,
        }
        let Ok(true) = cursor.next_entry() else { return children };
        let mut child = cursor.current().cloned();
        while let Some(entry) = child {
            if entry.is_null() || children.len() >= limit {
                break;
            }
            children.push(entry);
            child = self.next_sibling(&mut cursor);
        }
        children
    }

    /// Moves on to the next entry below the same one, which may be the null entry at the end.
    fn next_sibling<'b>(&'b self, cursor: &mut EntriesCursor<'b, Reader<'a>>) -> Option<Entry<'a>> {
        let current = cursor.current()?;
        self.debug.pass()?;
        let sibling = match current.attr_value(gimli::DW_AT_sibling) {
            Some(AttributeValue::UnitRef(sibling)) if current.has_children() => Some(sibling),
            _ => None,
        };
        if let Some(sibling) = sibling.filter(|sibling| *sibling > current.offset()) {
            *cursor = self.header.entries_at_offset(&self.abbreviations, sibling).ok()?;
            return cursor.next_entry().ok()?.then(|| cursor.current().cloned()).flatten();
        }
        let depth = cursor.depth();
        while cursor.next_entry().ok()? {
            if cursor.depth() == depth {
                return cursor.current().cloned();
            }
            self.debug.pass()?;
        }
        None
    }

    /// A text attribute.
    pub(super) fn text(&self, value: AttributeValue<Reader<'a>>) -> Option<&'a [u8]> {
        let strings = self.sections.strings();
        let text = match value {
            AttributeValue::String(text) => text,
            AttributeValue::DebugStrRef(offset) => strings.get_str(offset).ok()?,
            AttributeValue::DebugStrOffsetsIndex(index) => {
                let base = gimli::DebugStrOffsetsBase(usize::try_from(self.string_offsets_base).ok()?);
                let offsets = self.sections.string_offsets();
                strings.get_str(offsets.get_str_offset(self.header.format(), base, index).ok()?).ok()?
            }
            _ => return None,
        };
        Some(text.slice())
    }

    /// An entry's name.
    pub(super) fn name(&self, entry: &Entry<'a>) -> Option<String> {
        let name = self.text(entry.attr_value(gimli::DW_AT_name)?)?;
        Some(String::from_utf8_lossy(name).into_owned())
    }

    /// Where a reference attribute points.
    pub(super) fn place(&self, value: AttributeValue<Reader<'a>>) -> Option<EntryOffset> {
        match value {
            AttributeValue::UnitRef(offset) => Some(EntryOffset { unit: self.number, offset }),
            AttributeValue::DebugInfoRef(offset) => self.debug.unit_with(offset, self.number),
            AttributeValue::DebugTypesRef(signature) => self.debug.unit_of(signature),
            _ => None,
        }
    }

    /// Whether types can be named inside of namespaces and classes: not in C.
    pub(super) fn has_scopes(&self) -> bool {
        let language = self.entry(self.header.root_offset()).and_then(|root| root.attr_value(gimli::DW_AT_language));
        !matches!(
            language,
            Some(AttributeValue::Language(
                gimli::DW_LANG_C | gimli::DW_LANG_C89 | gimli::DW_LANG_C99 | gimli::DW_LANG_C11 | gimli::DW_LANG_C17
            ))
        )
    }

    /// The names of the scopes around an entry, outermost first.
    pub(super) fn scopes(&self, offset: UnitOffset) -> Vec<String> {
        let mut scopes = Vec::new();
        let mut around = self.header.root_offset();
        while let (true, Some(inner)) = (scopes.len() < MAX_SCOPES, self.child_around(around, offset)) {
            around = inner.offset();
            if is_scope(inner.tag()) {
                scopes.extend(self.name(&inner));
            }
        }
        scopes
    }

    /// The child of an entry in which another, deeper one is: the last that begins before it.
    fn child_around(&self, parent: UnitOffset, offset: UnitOffset) -> Option<Entry<'a>> {
        let mut cursor = self.header.entries_at_offset(&self.abbreviations, parent).ok()?;
        if !cursor.next_dfs().ok()??.has_children() || !cursor.next_entry().ok()? {
            return None;
        }
        let mut around = cursor.current().filter(|child| child.offset() < offset)?.offset();
        while let Some(sibling) = self.next_sibling(&mut cursor) {
            if sibling.offset() == offset {
                return None;
            }
            if sibling.offset() > offset {
                break;
            }
            around = sibling.offset();
        }
        self.entry(around)
    }
}
