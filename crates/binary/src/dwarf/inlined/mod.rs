//! Copies of functions that the compiler put into others: where each copy's instructions are, and where its parameters
//! are meanwhile. Functions that were inlined are listed once an image; the copies of those that are asked for are then
//! searched for in the units that can have them.

mod expression;
mod frame;
mod statements;

#[cfg(test)]
mod tests;

use super::sections;
use crate::elf::Image;
use crate::names::Matcher;
use crate::{InlinedCopy, InlinedParameter, Location, MOST_COPIES};
use expression::Value;
use frame::Frames;
use gimli::{
    AttributeValue, DebuggingInformationEntry, DwarfSections, EndianSlice, LittleEndian, SectionId, Unit, UnitOffset,
};
use rayon::prelude::*;
use statements::Statements;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

type Reader<'a> = EndianSlice<'a, LittleEndian>;
type Dwarf<'a> = gimli::Dwarf<Reader<'a>>;
type Entry<'a> = DebuggingInformationEntry<Reader<'a>>;

/// A file with more units than this is forged.
const MAX_UNITS: usize = 1 << 20;
/// Functions of one file that were inlined anywhere.
const MAX_FUNCTIONS: usize = 1 << 20;
/// Copies of the functions of one pattern, and one that shows that there are more.
const MAX_COPIES: usize = MOST_COPIES + 1;
/// Pieces of one copy or function; ranges of one parameter.
const MAX_PIECES: usize = 4096;
/// Parameters of a function.
const MAX_PARAMETERS: usize = 256;
/// Entries from which an entry may take its name, one by one.
const MAX_HOPS: usize = 8;
/// The maximum number of abbreviations of a unit.
const MAX_ABBREVIATIONS: u64 = 1 << 16;

/// A function of which there are copies, or may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InlinedFunction {
    /// As in a symbol table.
    symbol: String,
    /// Bytes from the start of the debug information to its entry.
    place: usize,
}

/// Every function of an image that its debug information marks as inlined or inline.
pub(crate) fn functions(image: &Image) -> Vec<InlinedFunction> {
    let bytes = Bytes::load(image);
    let dwarf = bytes.dwarf();
    let found: Vec<Vec<InlinedFunction>> = headers(&dwarf).par_iter().map(|header| listed(&dwarf, *header)).collect();
    found.into_iter().flatten().take(MAX_FUNCTIONS).collect()
}

/// The copies of those functions that the matcher's pattern means, in a program whose debug information is in `debug`:
/// the same image, or the separate file it was moved to. With them the changed copies of whole functions that begin at
/// these places of the file.
pub(crate) fn copies(
    program: &Image,
    debug: &Image,
    functions: &[InlinedFunction],
    matcher: &Matcher,
    changed: &HashSet<u64>,
) -> Vec<InlinedCopy> {
    let wanted: HashMap<usize, Wanted> = functions
        .iter()
        .filter_map(|function| {
            let matched = matcher.matches(&function.symbol)?;
            Some((function.place, Wanted { name: matched.name, captures: matched.captures }))
        })
        .collect();
    if wanted.is_empty() {
        return Vec::new();
    }
    let bytes = Bytes::load(debug);
    let dwarf = bytes.dwarf();
    let search = Search { program, dwarf: &dwarf, frames: Frames::new(program, debug), wanted: &wanted, changed };
    let found: Vec<Vec<InlinedCopy>> = headers(&dwarf).par_iter().map(|header| search.unit(*header)).collect();
    let mut copies: Vec<InlinedCopy> = found.into_iter().flatten().take(MAX_COPIES).collect();
    copies.sort_by_key(|copy| copy.entry);
    copies
}

/// The bytes of every section that is read here.
struct Bytes<'a>(DwarfSections<Cow<'a, [u8]>>);

impl<'a> Bytes<'a> {
    fn load(image: &'a Image) -> Self {
        let load = |id: SectionId| -> Result<_, std::convert::Infallible> { Ok(sections::named(image, id.name())) };
        let Ok(sections) = DwarfSections::load(load);
        Self(sections)
    }

    fn dwarf(&self) -> Dwarf<'_> {
        self.0.borrow(|bytes| EndianSlice::new(bytes, LittleEndian))
    }
}

type Header<'a> = gimli::UnitHeader<Reader<'a>>;

fn headers<'a>(dwarf: &Dwarf<'a>) -> Vec<Header<'a>> {
    let mut headers = Vec::new();
    let mut units = dwarf.units();
    while let (true, Ok(Some(header))) = (headers.len() < MAX_UNITS, units.next()) {
        headers.push(header);
    }
    headers
}

/// The functions of a unit that have copies, or may have.
fn listed<'a>(dwarf: &Dwarf<'a>, header: Header<'a>) -> Vec<InlinedFunction> {
    let mut found = Vec::new();
    let Ok(unit) = dwarf.unit(header) else { return found };
    let Some(start) = header.debug_info_offset() else { return found };
    for offset in entries_with(&unit, |tag, has| tag == gimli::DW_TAG_subprogram && has(gimli::DW_AT_inline)) {
        let symbol = unit.entry(offset).ok().and_then(|entry| symbol(dwarf, &unit, &entry));
        found.extend(symbol.map(|symbol| InlinedFunction { symbol, place: start.0.saturating_add(offset.0) }));
    }
    found
}

/// Every entry of a unit whose abbreviation will do. Malformed information ends the unit; what was found is good.
fn entries_with(
    unit: &Unit<Reader<'_>>,
    wanted: impl Fn(gimli::DwTag, &dyn Fn(gimli::DwAt) -> bool) -> bool,
) -> Vec<UnitOffset> {
    let mut found = Vec::new();
    let Ok(mut entries) = unit.entries_raw(None) else { return found };
    while !entries.is_empty() {
        let offset = entries.next_offset();
        let Ok(abbreviation) = entries.read_abbreviation() else { return found };
        let Some(abbreviation) = abbreviation else { continue };
        let has = |name| abbreviation.attributes().iter().any(|attribute| attribute.name() == name);
        if wanted(abbreviation.tag(), &has) {
            found.push(offset);
        }
        if entries.skip_attributes(abbreviation.attributes()).is_err() {
            return found;
        }
    }
    found
}

/// A function's name as a symbol table has it: the entry's, or that of the entry that it completes.
fn symbol<'a>(dwarf: &Dwarf<'a>, unit: &Unit<Reader<'a>>, entry: &Entry<'a>) -> Option<String> {
    let mut entry = entry.clone();
    let mut other: Option<Unit<Reader<'a>>> = None;
    for _ in 0..MAX_HOPS {
        let unit = other.as_ref().unwrap_or(unit);
        let linkage = [gimli::DW_AT_linkage_name, gimli::DW_AT_MIPS_linkage_name];
        if let Some(name) = linkage.into_iter().find_map(|name| text(dwarf, unit, &entry, name)) {
            return Some(name);
        }
        let origin = [gimli::DW_AT_specification, gimli::DW_AT_abstract_origin];
        match origin.into_iter().find_map(|name| entry.attr_value(name)) {
            Some(AttributeValue::UnitRef(offset)) => entry = unit.entry(offset).ok()?,
            Some(AttributeValue::DebugInfoRef(offset)) => {
                let (there, inside) = unit_with(dwarf, offset)?;
                entry = there.entry(inside).ok()?;
                other = Some(there);
            }
            _ => return text(dwarf, unit, &entry, gimli::DW_AT_name),
        }
    }
    None
}

fn text<'a>(dwarf: &Dwarf<'a>, unit: &Unit<Reader<'a>>, entry: &Entry<'a>, name: gimli::DwAt) -> Option<String> {
    let text = dwarf.attr_string(unit, entry.attr_value(name)?).ok()?;
    std::str::from_utf8(text.slice()).ok().filter(|text| !text.is_empty()).map(str::to_owned)
}

/// The unit in which an entry is, and the entry's place there.
fn unit_with<'a>(dwarf: &Dwarf<'a>, offset: gimli::DebugInfoOffset) -> Option<(Unit<Reader<'a>>, UnitOffset)> {
    let mut units = dwarf.units();
    while let Ok(Some(header)) = units.next() {
        if let Some(inside) = offset.to_unit_offset(&header).filter(|inside| inside.is_in_bounds(&header)) {
            return Some((dwarf.unit(header).ok()?, inside));
        }
    }
    None
}

/// What the wanted functions are called.
#[derive(Debug)]
struct Wanted {
    name: String,
    captures: Vec<String>,
}

struct Search<'s, 'a> {
    /// Maps its code to offsets in the file: a debug file has no code.
    program: &'s Image,
    dwarf: &'s Dwarf<'a>,
    frames: Frames<'s>,
    /// By their entry's place in the debug information.
    wanted: &'s HashMap<usize, Wanted>,
    /// Where changed copies of whole functions begin: bytes from the start of the file.
    changed: &'s HashSet<u64>,
}

impl<'a> Search<'_, 'a> {
    /// The copies in a unit.
    fn unit(&self, header: Header<'a>) -> Vec<InlinedCopy> {
        let mut copies = Vec::new();
        let Some(start) = header.debug_info_offset().map(|start| start.0) else { return copies };
        let end = start.saturating_add(header.length_including_self());
        let Ok(unit) = self.dwarf.unit(header) else { return copies };
        // A copy is in its function's unit, unless units were joined when linking.
        let is_here = self.wanted.keys().any(|place| (start..end).contains(place));
        if !is_here && !refers_elsewhere(&unit) {
            return copies;
        }
        let mut statements = None;
        for (function, offset) in self.places(&unit, start) {
            let copy = self.copy(&unit, start, function, offset, &mut statements);
            copies.extend(copy);
            if copies.len() >= MAX_COPIES {
                break;
            }
        }
        copies
    }

    /// The entries of copies, each with that of the function it is in.
    fn places(&self, unit: &Unit<Reader<'a>>, start: usize) -> Vec<(UnitOffset, UnitOffset)> {
        let mut found = Vec::new();
        let Ok(mut entries) = unit.entries_raw(None) else { return found };
        let mut functions: Vec<(isize, UnitOffset)> = Vec::new();
        while !entries.is_empty() {
            let (offset, depth) = (entries.next_offset(), entries.next_depth());
            let Ok(abbreviation) = entries.read_abbreviation() else { return found };
            let Some(abbreviation) = abbreviation else { continue };
            while functions.last().is_some_and(|(of, _)| *of >= depth) {
                functions.pop();
            }
            if abbreviation.tag() == gimli::DW_TAG_subprogram {
                functions.push((depth, offset));
            }
            let may_be_whole = abbreviation.tag() == gimli::DW_TAG_subprogram && !self.changed.is_empty();
            if abbreviation.tag() != gimli::DW_TAG_inlined_subroutine && !may_be_whole {
                if entries.skip_attributes(abbreviation.attributes()).is_err() {
                    return found;
                }
                continue;
            }
            let mut origin = None;
            for specification in abbreviation.attributes() {
                let Ok(attribute) = entries.read_attribute(*specification) else { return found };
                if attribute.name() == gimli::DW_AT_abstract_origin {
                    origin = place(attribute.value(), start);
                }
            }
            if let (Some((_, function)), Some(origin)) = (functions.last(), origin)
                && self.wanted.contains_key(&origin)
            {
                found.push((*function, offset));
            }
        }
        found
    }

    fn copy(
        &self,
        unit: &Unit<Reader<'a>>,
        start: usize,
        function: UnitOffset,
        offset: UnitOffset,
        statements: &mut Option<Statements>,
    ) -> Option<InlinedCopy> {
        let is_whole = function == offset;
        let (function, entry) = (unit.entry(function).ok()?, unit.entry(offset).ok()?);
        let origin = place(entry.attr_value(gimli::DW_AT_abstract_origin)?, start)?;
        let wanted = self.wanted.get(&origin)?;
        let pieces = self.pieces(unit, &entry);
        let first = pieces.first()?.start;
        let entered = self.entry_address(unit, &entry, first);
        if is_whole && !self.program.code_offset(entered).is_some_and(|at| self.changed.contains(&at)) {
            return None;
        }
        let ranges = sorted(pieces.iter().filter_map(|piece| self.in_file(piece)).collect());
        let within_ranges: Vec<Range<u64>> =
            self.pieces(unit, &function).iter().filter_map(|piece| self.in_file(piece)).collect();
        if ranges.is_empty() || within_ranges.is_empty() {
            return None;
        }
        let within = symbol(self.dwarf, unit, &function).unwrap_or_default();
        let statements = statements.get_or_insert_with(|| Statements::read(unit));
        Some(InlinedCopy {
            name: wanted.name.clone(),
            within: crate::names::readable_name(&within),
            within_ranges,
            captures: wanted.captures.clone(),
            entry: self.program.code_offset(entered)?,
            ranges,
            statements: statements
                .within(&pieces)
                .filter_map(|(address, number)| Some((self.program.code_offset(address)?, number)))
                .collect(),
            parameters: self.parameters(unit, start, &function, &entry, origin, &pieces),
            is_whole,
        })
    }

    /// An entry's instructions by address, as they are listed.
    fn pieces(&self, unit: &Unit<Reader<'a>>, entry: &Entry<'a>) -> Vec<Range<u64>> {
        if let Some(value) = entry.attr_value(gimli::DW_AT_ranges) {
            let Ok(Some(mut list)) = self.dwarf.attr_ranges(unit, value) else { return Vec::new() };
            let mut pieces = Vec::new();
            while let (true, Ok(Some(range))) = (pieces.len() < MAX_PIECES, list.next()) {
                pieces.push(range.begin..range.end);
            }
            pieces.retain(|piece| piece.start < piece.end);
            return pieces;
        }
        let low = self.address(unit, entry, gimli::DW_AT_low_pc);
        let high = match entry.attr_value(gimli::DW_AT_high_pc) {
            Some(AttributeValue::Addr(_) | AttributeValue::DebugAddrIndex(_)) => {
                self.address(unit, entry, gimli::DW_AT_high_pc)
            }
            Some(value) => low.zip(value.udata_value()).and_then(|(low, size)| low.checked_add(size)),
            None => None,
        };
        low.zip(high).filter(|(low, high)| low < high).map(|(low, high)| low..high).into_iter().collect()
    }

    fn address(&self, unit: &Unit<Reader<'a>>, entry: &Entry<'a>, name: gimli::DwAt) -> Option<u64> {
        self.dwarf.attr_address(unit, entry.attr_value(name)?).ok()?
    }

    /// Where a copy is entered; the start of its first piece if there is no entry address.
    fn entry_address(&self, unit: &Unit<Reader<'a>>, entry: &Entry<'a>, first: u64) -> u64 {
        let base = self.address(unit, entry, gimli::DW_AT_low_pc).unwrap_or(first);
        match entry.attr_value(gimli::DW_AT_entry_pc) {
            Some(value @ (AttributeValue::Addr(_) | AttributeValue::DebugAddrIndex(_))) => {
                self.dwarf.attr_address(unit, value).ok().flatten().unwrap_or(base)
            }
            Some(value) => value.udata_value().and_then(|bytes| base.checked_add(bytes)).unwrap_or(base),
            None => base,
        }
    }

    /// A piece as bytes from the start of the file.
    fn in_file(&self, piece: &Range<u64>) -> Option<Range<u64>> {
        let start = self.program.code_offset(piece.start)?;
        let last = self.program.code_offset(piece.end.checked_sub(1)?)?;
        // Both in one segment.
        (last.checked_sub(start)? == piece.end - 1 - piece.start).then_some(start..last + 1)
    }

    /// The parameters in the order of the function's entry.
    fn parameters(
        &self,
        unit: &Unit<Reader<'a>>,
        start: usize,
        function: &Entry<'a>,
        copy: &Entry<'a>,
        origin: usize,
        pieces: &[Range<u64>],
    ) -> Vec<InlinedParameter> {
        let elsewhere;
        let origin_offset = UnitOffset(origin.wrapping_sub(start));
        let (origin_unit, origin_start, origin_offset) = if origin_offset.is_in_bounds(&unit.header) {
            (unit, start, origin_offset)
        } else {
            let Some((there, inside)) = unit_with(self.dwarf, gimli::DebugInfoOffset(origin)) else {
                return Vec::new();
            };
            let there_start = there.header.debug_info_offset().map_or(0, |offset| offset.0);
            elsewhere = there;
            (&elsewhere, there_start, inside)
        };
        let given: BTreeMap<usize, Entry<'a>> = parameters_below(unit, copy.offset())
            .into_iter()
            .filter_map(|entry| Some((place(entry.attr_value(gimli::DW_AT_abstract_origin)?, start)?, entry)))
            .collect();
        let base = function.attr_value(gimli::DW_AT_frame_base).and_then(|value| value.exprloc_value());
        let base = base.and_then(|base| expression::frame_base(base, unit.encoding()));
        parameters_below(origin_unit, origin_offset)
            .into_iter()
            .map(|declared| {
                let name = text(self.dwarf, origin_unit, &declared, gimli::DW_AT_name).unwrap_or_default();
                let entry = given.get(&origin_start.saturating_add(declared.offset().0));
                let locations = entry.map_or_else(Vec::new, |entry| self.locations(unit, entry, base, pieces));
                InlinedParameter { name, locations }
            })
            .collect()
    }

    /// Where a parameter is, by instruction.
    fn locations(
        &self,
        unit: &Unit<Reader<'a>>,
        entry: &Entry<'a>,
        base: Option<expression::Base>,
        pieces: &[Range<u64>],
    ) -> Vec<(Range<u64>, Location)> {
        let mut found: Vec<(Range<u64>, Value)> = Vec::new();
        if let Some(value) = entry.attr_value(gimli::DW_AT_const_value) {
            let constant = value.sdata_value().or_else(|| value.udata_value().map(u64::cast_signed));
            found
                .extend(constant.into_iter().flat_map(|c| pieces.iter().map(move |p| (p.clone(), Value::Constant(c)))));
        } else if let Some(value) = entry.attr_value(gimli::DW_AT_location) {
            if let Some(expression) = value.exprloc_value() {
                let value = expression::value(expression, unit.encoding(), base);
                found.extend(value.into_iter().flat_map(|value| pieces.iter().map(move |p| (p.clone(), value))));
            } else if let Ok(Some(mut list)) = self.dwarf.attr_locations(unit, value) {
                let mut left = MAX_PIECES;
                while let (true, Ok(Some(listed))) = (left > 0, list.next()) {
                    left -= 1;
                    let range = listed.range.begin..listed.range.end;
                    let value = expression::value(listed.data, unit.encoding(), base);
                    found.extend(value.filter(|_| range.start < range.end).map(|value| (range, value)));
                }
            }
        }
        let mut locations: Vec<(Range<u64>, Location)> = found
            .into_iter()
            .flat_map(|(range, value)| self.frames.resolve(&range, value))
            .filter_map(|(range, location)| Some((self.in_file(&range)?, location)))
            .take(MAX_PIECES)
            .collect();
        locations.sort_by_key(|(range, _)| (range.start, range.end));
        locations
    }
}

/// Whether copies in this unit may be of functions in another.
fn refers_elsewhere(unit: &Unit<Reader<'_>>) -> bool {
    (1..MAX_ABBREVIATIONS).map_while(|code| unit.abbreviations.get(code)).any(|abbreviation| {
        let far = |a: &gimli::AttributeSpecification| {
            a.name() == gimli::DW_AT_abstract_origin && a.form() == gimli::DW_FORM_ref_addr
        };
        abbreviation.tag() == gimli::DW_TAG_inlined_subroutine && abbreviation.attributes().iter().any(far)
    })
}

/// The place in the debug information that an attribute of a unit refers to.
fn place(value: AttributeValue<Reader<'_>>, unit_start: usize) -> Option<usize> {
    match value {
        AttributeValue::UnitRef(offset) => unit_start.checked_add(offset.0),
        AttributeValue::DebugInfoRef(offset) => Some(offset.0),
        _ => None,
    }
}

/// The parameters directly under an entry.
fn parameters_below<'a>(unit: &Unit<Reader<'a>>, parent: UnitOffset) -> Vec<Entry<'a>> {
    let mut found = Vec::new();
    let Ok(mut cursor) = unit.entries_at_offset(parent) else { return found };
    match cursor.next_dfs() {
        Ok(Some(parent)) if parent.has_children() => {}
        _ => return found,
    }
    let Ok(true) = cursor.next_entry() else { return found };
    let mut child = cursor.current().cloned();
    let mut seen = HashSet::new();
    while let Some(entry) = child.filter(|entry| !entry.is_null()) {
        // A forged sibling must not send us round in a circle.
        if found.len() >= MAX_PARAMETERS || !seen.insert(entry.offset()) || seen.len() > MAX_PIECES {
            break;
        }
        if entry.tag() == gimli::DW_TAG_formal_parameter {
            found.push(entry);
        }
        child = cursor.next_sibling().ok().flatten().cloned();
    }
    found
}

/// Ranges in order, joined where they touch or overlap.
fn sorted(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_by_key(|range| (range.start, range.end));
    let mut joined: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}
