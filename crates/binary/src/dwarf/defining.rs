//! The units that functions are defined in, and the types that these have: of several types of one name, a function's unit
//! has the one that the function means.

use super::scan::{NameKind, Wanted, is_scope, scan_unit};
use super::sections::{Reader, Sections, named};
use super::signatures::symbol;
use super::split::Parts;
use super::types::{Types, is_declaration};
use super::unit::{Debug, Unit};
use crate::Layout;
use crate::elf::Image;
use gimli::{AttributeValue, UnitOffset};
use rayon::prelude::*;
use std::collections::HashMap;

/// Scopes inside one another.
const MAX_DEPTH: usize = 16;
/// Entries of one scope.
const MAX_ENTRIES: usize = 1 << 20;
/// Units that are read at once before checking whether everything was found.
const WAVE: usize = 32;

/// A function: its symbol, and where it begins.
pub(crate) type Defined<'f> = (&'f str, Option<u64>);

/// The unit that each function is defined in, by number; `None` where none defines it.
pub(crate) fn units(image: &Image, parts: &Parts, functions: &[Defined<'_>]) -> Vec<Option<usize>> {
    let files = files(image, parts);
    let debug = Debug::new(&files);
    let mut wanted: HashMap<&str, Vec<(usize, Option<u64>)>> = HashMap::new();
    for (index, (symbol, address)) in functions.iter().enumerate() {
        wanted.entry(symbol).or_default().push((index, *address));
    }
    let addresses = named(image, ".debug_addr");
    let search = || Search { debug: &debug, wanted: &wanted, addresses: &addresses, found: Vec::new() };
    let mut found: Vec<Option<Definition>> = vec![None; functions.len()];
    let numbers: Vec<usize> = (0..debug.headers.len()).collect();
    for wave in numbers.chunks(WAVE) {
        if found.iter().all(|found| found.is_some_and(|found| found.has_code)) {
            break;
        }
        let in_wave: Vec<Vec<(usize, Definition)>> = wave.par_iter().map(|number| search().unit(*number)).collect();
        for (index, definition) in in_wave.into_iter().flatten() {
            let before = &mut found[index];
            if before.is_none_or(|before| definition.has_code && !before.has_code) {
                *before = Some(definition);
            }
        }
    }
    found.into_iter().map(|found| Some(found?.unit)).collect()
}

/// The layout of the named type that a unit has.
pub(crate) fn layout_in(image: &Image, parts: &Parts, unit: usize, name: &str) -> Option<Layout> {
    let files = files(image, parts);
    let debug = Debug::new(&files);
    let types = Types::new(&debug);
    let wanted = [Wanted::new(NameKind::Type, name)];
    let found = scan_unit(&debug, unit, &wanted, &[0]);
    if let Some(layout) = found.into_iter().find_map(|(_, place)| types.layout(place)) {
        return Some(layout);
    }
    // It may have a type in a unit of its own, and refer to that by its signature alone.
    let unit = debug.unit(unit)?;
    let entries = unit.children(unit.header.root_offset(), MAX_ENTRIES).into_iter();
    let values = entries.flat_map(|entry| [gimli::DW_AT_signature, gimli::DW_AT_type].map(|of| entry.attr_value(of)));
    let by_signature = values.flatten().filter(|value| matches!(value, AttributeValue::DebugTypesRef(_)));
    let mut referred = by_signature.filter_map(|value| unit.place(value));
    let found = referred.find(|place| types.entry_name(*place).is_some_and(|found| found == name))?;
    types.layout(found)
}

fn files<'i>(image: &'i Image, parts: &'i Parts) -> Vec<Sections<'i>> {
    let parts = parts.images.iter().filter_map(Sections::load_part);
    Sections::load(image).into_iter().chain(parts).collect()
}

/// Where a function is defined.
#[derive(Debug, Clone, Copy)]
struct Definition {
    unit: usize,
    /// Whether its code is there: otherwise it is what copies are made of, in other units.
    has_code: bool,
}

/// What is looked for in a unit.
struct Search<'s, 'a> {
    debug: &'a Debug<'a>,
    /// By symbol, the indices of functions, and where they begin.
    wanted: &'s HashMap<&'s str, Vec<(usize, Option<u64>)>>,
    /// The addresses that units refer to by number.
    addresses: &'s [u8],
    found: Vec<(usize, Definition)>,
}

impl<'a> Search<'_, 'a> {
    fn unit(mut self, number: usize) -> Vec<(usize, Definition)> {
        if let Some(unit) = self.debug.unit(number) {
            self.scope(&unit, unit.header.root_offset(), 0);
        }
        self.found
    }

    fn scope(&mut self, unit: &Unit<'a>, around: UnitOffset, depth: usize) {
        if depth > MAX_DEPTH {
            return;
        }
        for entry in unit.children(around, MAX_ENTRIES) {
            if is_scope(entry.tag()) {
                self.scope(unit, entry.offset(), depth + 1);
            }
            if entry.tag() != gimli::DW_TAG_subprogram || is_declaration(&entry) {
                continue;
            }
            let Some((symbol, of)) = symbol(self.debug, unit, &entry) else { continue };
            let Some(functions) = self.wanted.get(symbol.as_str()) else { continue };
            let begins = entry.attr_value(gimli::DW_AT_low_pc);
            let (has_code, begins) = (begins.is_some(), begins.and_then(|value| self.address(unit, value)));
            // Functions of other units may have the name, too.
            let is_it = |own: Option<u64>| own.is_none() || begins.is_none() || own == begins;
            let functions = functions.iter().filter(|(_, own)| is_it(*own));
            self.found.extend(functions.map(|(index, _)| (*index, Definition { unit: of, has_code })));
        }
    }

    /// `None` where it is not an address, or not in this file.
    fn address(&self, unit: &Unit<'a>, value: AttributeValue<Reader<'a>>) -> Option<u64> {
        match value {
            AttributeValue::Addr(address) => Some(address),
            AttributeValue::DebugAddrIndex(index) => {
                let root = unit.entry(unit.header.root_offset())?;
                let AttributeValue::DebugAddrBase(base) = root.attr_value(gimli::DW_AT_addr_base)? else { return None };
                let at = index.0.checked_mul(8)?.checked_add(base.0)?;
                Some(u64::from_le_bytes(*self.addresses.get(at..)?.first_chunk()?))
            }
            _ => None,
        }
    }
}
