//! What functions are called with, as the debug information declares it: names and types of parameters.

use super::scan::is_scope;
use super::sections::Sections;
use super::split::Parts;
use super::types::Types;
use super::unit::{Debug, Entry, EntryOffset, Unit};
use crate::elf::Image;
use crate::{FunctionSignature, TargetType};
use gimli::UnitOffset;
use std::collections::{BTreeMap, HashSet};

/// Entries from which an entry may take what it lacks, one by one.
const MAX_HOPS: usize = 8;
/// Scopes inside one another.
const MAX_DEPTH: usize = 16;
/// Entries of one scope.
const MAX_ENTRIES: usize = 1 << 20;
/// Parameters of a function.
const MAX_PARAMETERS: usize = 64;

/// The signatures of functions, by their symbol.
pub(crate) fn signatures(image: &Image, parts: &Parts, symbols: &[&str]) -> BTreeMap<String, FunctionSignature> {
    let parts = parts.images.iter().filter_map(Sections::load_part);
    let files: Vec<Sections<'_>> = Sections::load(image).into_iter().chain(parts).collect();
    let debug = Debug::new(&files);
    let types = Types::new(&debug);
    let wanted: HashSet<&str> = symbols.iter().copied().collect();
    let mut search = Search { debug: &debug, types: &types, wanted, found: BTreeMap::new() };
    for number in 0..debug.headers.len() {
        if search.found.len() >= search.wanted.len() {
            break;
        }
        if let Some(unit) = debug.unit(number) {
            search.scope(&unit, unit.header.root_offset(), 0);
        }
    }
    search.found
}

struct Search<'s, 'a> {
    debug: &'a Debug<'a>,
    types: &'s Types<'a>,
    wanted: HashSet<&'s str>,
    found: BTreeMap<String, FunctionSignature>,
}

impl<'a> Search<'_, 'a> {
    fn scope(&mut self, unit: &Unit<'a>, scope: UnitOffset, depth: usize) {
        if depth > MAX_DEPTH {
            return;
        }
        for entry in unit.children(scope, MAX_ENTRIES) {
            if entry.tag() == gimli::DW_TAG_subprogram {
                self.function(unit, &entry);
            } else if is_scope(entry.tag()) {
                self.scope(unit, entry.offset(), depth + 1);
            }
        }
    }

    fn function(&mut self, unit: &Unit<'a>, entry: &Entry<'a>) {
        // A declaration's parameters may have no names; the definition has them.
        if entry.attr_value(gimli::DW_AT_declaration).is_some() {
            return;
        }
        let Some((symbol, _)) = symbol(self.debug, unit, entry) else { return };
        if !self.wanted.contains(symbol.as_str()) || self.found.contains_key(&symbol) {
            return;
        }
        let parameters = unit.children(entry.offset(), MAX_ENTRIES).into_iter();
        let parameters = parameters.filter(|child| child.tag() == gimli::DW_TAG_formal_parameter).take(MAX_PARAMETERS);
        let parameters = parameters.map(|parameter| {
            let name = entry_or_origin(self.debug, unit, &parameter, |unit, entry| unit.name(entry));
            (name.unwrap_or_default(), self.type_of(unit, &parameter))
        });
        let parameters = parameters.collect();
        let returned = |unit: &Unit<'a>, entry: &Entry<'a>| unit.place(entry.attr_value(gimli::DW_AT_type)?);
        let returns =
            entry_or_origin(self.debug, unit, entry, returned).and_then(|place| self.types.target_type(Some(place), 0));
        self.found.insert(symbol, FunctionSignature { parameters, returns });
    }

    fn type_of(&self, unit: &Unit<'a>, entry: &Entry<'a>) -> TargetType {
        let place =
            entry_or_origin(self.debug, unit, entry, |unit, entry| unit.place(entry.attr_value(gimli::DW_AT_type)?));
        place
            .and_then(|place| self.types.target_type(Some(place), 0))
            .unwrap_or_else(|| TargetType::Other("an unknown type".to_owned()))
    }
}

/// A function's name as a symbol table has it, and the unit that has the name: of a copy that was made at link time, the one
/// that the function was compiled in.
pub(super) fn symbol<'a>(debug: &'a Debug<'a>, unit: &Unit<'a>, entry: &Entry<'a>) -> Option<(String, usize)> {
    let linkage = |unit: &Unit<'a>, entry: &Entry<'a>| {
        let text = unit.text(entry.attr_value(gimli::DW_AT_linkage_name)?)?;
        Some((String::from_utf8_lossy(text).into_owned(), unit.number))
    };
    let name = |unit: &Unit<'a>, entry: &Entry<'a>| Some((unit.name(entry)?, unit.number));
    entry_or_origin(debug, unit, entry, linkage).or_else(|| entry_or_origin(debug, unit, entry, name))
}

/// The value of an entry, else of the one that it completes or is a copy of.
fn entry_or_origin<'a, T>(
    debug: &'a Debug<'a>,
    unit: &Unit<'a>,
    entry: &Entry<'a>,
    ask: impl Fn(&Unit<'a>, &Entry<'a>) -> Option<T>,
) -> Option<T> {
    if let Some(own) = ask(unit, entry) {
        return Some(own);
    }
    let origin = |unit: &Unit<'a>, entry: &Entry<'a>| {
        let names = [gimli::DW_AT_abstract_origin, gimli::DW_AT_specification];
        names.into_iter().find_map(|name| unit.place(entry.attr_value(name)?))
    };
    let mut next: Option<EntryOffset> = origin(unit, entry);
    for _ in 0..MAX_HOPS {
        let place = next?;
        // To open a unit is dear, and most are not left.
        let other = if place.unit == unit.number { None } else { Some(debug.unit(place.unit)?) };
        let unit = other.as_ref().unwrap_or(unit);
        let entry = unit.entry(place.offset)?;
        if let Some(found) = ask(unit, &entry) {
            return Some(found);
        }
        next = origin(unit, &entry);
    }
    None
}
