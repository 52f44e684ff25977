//! Arrays of names that an engine has for its own messages: by symbol, or in a stripped file by their first names.
//!
//! Three forms are read: pointers to texts (which only relocations have, in a shared library), distances of 32 bits from
//! the table itself, and distances of 16 or 32 bits into texts that stand one after the other. The file may be hostile:
//! every address is looked up in it, and there are bounds on all counts.

use super::elf::Image;
use super::names::{MAX_SYMBOL, readable_name};
use super::pointers::{Pointer, Pointers};
use super::symbols::{name_budget, short_text, strings_of};
use object::read::elf::Sym;
use object::{Endianness, Object, ObjectSymbol, SymbolKind};
use profinfer_probeset::NameTable;
use regex::bytes::Regex;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Range;

/// Entries of one table.
const MAX_ENTRIES: u64 = 4096;
/// Bytes of one name.
const MAX_NAME: usize = 128;
/// Places at which one text stands.
const MAX_PLACES: usize = 1024;
/// Names by which texts in a row are recognised.
const FEWEST_IN_A_ROW: usize = 3;
/// Entries without a name, one after the other.
const MAX_GAP: u64 = 512;
/// Distances that are tried where names are members of structs.
const STRIDES: std::ops::RangeInclusive<u64> = 1..=64;
const WORD: u64 = 8;

type Names = BTreeMap<i64, String>;

/// The names in a table of the first image, whose symbols may be in others.
///
/// # Errors
/// Why there is none, in a few words.
pub(crate) fn find(images: &[&Image], pointers: &Pointers, table: &NameTable) -> Result<Names, String> {
    let Some(image) = images.first() else { return Err("the file cannot be read".to_owned()) };
    let mut why = "there is no such table".to_owned();
    if let Some(symbol) = &table.symbol {
        match symbol_of(images, symbol) {
            Some((address, size)) => {
                let size = (size > 0).then_some(size);
                let names = entries(image, pointers, address, table.stride.unwrap_or(WORD), size, table);
                if names.len() > 1 && begins_as(&names, &table.begins) {
                    return Ok(names);
                }
                why = format!("`{symbol}` is no table of names");
            }
            None => why = format!("there is no symbol `{symbol}`"),
        }
    }
    if table.begins.is_empty() { Err(why) } else { by_its_names(image, pointers, table) }
}

/// Address and bytes of a symbol of data. Symbols may have long names that overlap: so many bytes of C++ names are read
/// as the images have.
pub(crate) fn symbol_of(images: &[&Image], name: &str) -> Option<(u64, u64)> {
    let mut left = name_budget(images);
    images.iter().find_map(|image| {
        let headers = image.headers()?;
        let tables = [
            (headers.symbols(), strings_of(image, headers.elf_symbol_table())),
            (headers.dynamic_symbols(), strings_of(image, headers.elf_dynamic_symbol_table())),
        ];
        let mut is_it = |strings: &[u8], at: u32| {
            let rest = strings.get(at as usize..).unwrap_or_default();
            if rest.strip_prefix(name.as_bytes()).is_some_and(|after| after.first() == Some(&0)) {
                return true;
            }
            if !rest.starts_with(b"_Z") || left == 0 {
                return false;
            }
            let symbol = short_text(rest, 0, MAX_SYMBOL.min(left));
            left = left.saturating_sub(symbol.map_or(MAX_SYMBOL, |symbol| symbol.len() + 1));
            symbol
                .and_then(|symbol| std::str::from_utf8(symbol).ok())
                .is_some_and(|symbol| readable_name(symbol) == name)
        };
        tables.into_iter().find_map(|(symbols, strings)| {
            let mut of_data = symbols.filter(|symbol| symbol.kind() == SymbolKind::Data && symbol.is_definition());
            let found = of_data.find(|symbol| is_it(strings, symbol.elf_symbol().st_name(Endianness::Little)))?;
            Some((found.address(), found.size()))
        })
    })
}

fn begins_as(names: &Names, begins: &[String]) -> bool {
    (0..).zip(begins).all(|(number, wanted)| names.get(&number).is_some_and(|name| name == wanted))
}

fn by_its_names(image: &Image, pointers: &Pointers, table: &NameTable) -> Result<Names, String> {
    let places: Vec<HashSet<u64>> = table.begins.iter().map(|name| places_of(image, name)).collect();
    if let Some(absent) = places.iter().position(HashSet::is_empty) {
        return Err(format!("the text `{}` is not in the file", table.begins[absent]));
    }
    let found = RefCell::new(BTreeSet::<Names>::new());
    let mut add = |names: Names| {
        if names.len() >= table.begins.len() && begins_as(&names, &table.begins) {
            found.borrow_mut().insert(names);
        }
    };
    of_pointers(image, pointers, table, &places, &mut add);
    if found.borrow().is_empty() {
        of_own_distances(image, table, &places, &mut add);
        of_texts_in_a_row(image, table, &places[0], &mut add);
    }
    let found = found.into_inner();
    // One that another continues is the same table, read less far.
    let longest = found.iter().max_by_key(|names| names.len()).cloned();
    match longest {
        None => Err("no table begins so".to_owned()),
        Some(longest) if found.iter().all(|names| names.iter().all(|(at, name)| longest.get(at) == Some(name))) => {
            Ok(longest)
        }
        Some(_) => Err(format!("{} different tables begin so", found.len())),
    }
}

/// Where a text stands, as a whole or at the end of another.
fn places_of(image: &Image, text: &str) -> HashSet<u64> {
    let Ok(regex) = Regex::new(&format!("(?-u){}\\x00", regex::escape(text))) else { return HashSet::new() };
    let mut places = HashSet::new();
    for range in image.mapped_ranges() {
        let bytes = bytes_of(image, &range);
        let found = regex.find_iter(bytes).map(|found| range.start + found.start() as u64);
        places.extend(found.take(MAX_PLACES));
    }
    places
}

fn bytes_of<'i>(image: &'i Image, range: &Range<u64>) -> &'i [u8] {
    image.at_address(range.start, usize::try_from(range.end - range.start).unwrap_or_default())
}

/// The text at an address, if it prints.
fn text_at(image: &Image, address: u64) -> Option<&str> {
    let bytes = image.at_address(address, MAX_NAME + 1);
    let end = bytes.iter().position(|byte| *byte == 0)?;
    std::str::from_utf8(bytes.get(..end)?).ok().filter(|text| !text.contains(char::is_control))
}

fn of_pointers(
    image: &Image,
    pointers: &Pointers,
    table: &NameTable,
    places: &[HashSet<u64>],
    add: &mut dyn FnMut(Names),
) {
    let strides: Vec<u64> = table.stride.map_or_else(|| STRIDES.map(|words| words * WORD).collect(), |of| vec![of]);
    let leads_to = |place: Option<u64>, to: &HashSet<u64>| {
        place.and_then(|place| pointers.address_at(place)).is_some_and(|address| to.contains(&address))
    };
    let mut left = MAX_PLACES;
    for (place, pointer) in pointers.all() {
        let Pointer::Address(address) = pointer else { continue };
        if !places[0].contains(&address) {
            continue;
        }
        left = left.saturating_sub(1);
        if left == 0 {
            return;
        }
        for stride in &strides {
            let at = |number: u64| place.checked_add(number.checked_mul(*stride)?);
            if (1_u64..).zip(&places[1..]).all(|(number, to)| leads_to(at(number), to)) {
                add(entries(image, pointers, place, *stride, None, table));
            }
        }
    }
}

/// The names that pointers lead to. Without a size the table ends where one leads to no name, or to one that was there.
fn entries(image: &Image, pointers: &Pointers, start: u64, stride: u64, size: Option<u64>, table: &NameTable) -> Names {
    let mut names = Names::new();
    let mut seen: HashSet<String> = HashSet::new();
    let mut gap = 0;
    for number in 0..MAX_ENTRIES {
        let Some(place) = number.checked_mul(stride).and_then(|bytes| start.checked_add(bytes)) else { break };
        if size.is_some_and(|size| number * stride >= size) {
            break;
        }
        let text = pointers.address_at(place).map(|address| text_at(image, address));
        match text {
            // A number without a name.
            Some(Some("")) => gap += 1,
            Some(Some(text)) => {
                if !seen.insert(text.to_ascii_lowercase()) && size.is_none() {
                    break;
                }
                gap = 0;
                names.insert(number.cast_signed(), text.to_owned());
            }
            None if size.is_some() || table.gaps => gap += 1,
            _ => break,
        }
        if gap > MAX_GAP {
            break;
        }
    }
    names
}

/// Distances of 32 bits from the table's own start, as compilers make them of tables that need no relocations.
fn of_own_distances(image: &Image, table: &NameTable, places: &[HashSet<u64>], add: &mut dyn FnMut(Names)) {
    let stride = table.stride.unwrap_or(4);
    // Every word of the file is tried as the entry of the name that stands in the fewest places.
    let Some((rarest, at)) = (0_u64..).zip(places).min_by_key(|(_, places)| places.len()) else { return };
    let Some(before) = rarest.checked_mul(stride) else { return };
    let (Some(lowest), Some(highest)) = (at.iter().min(), at.iter().max()) else { return };
    for range in image.mapped_ranges() {
        let bytes = bytes_of(image, &range);
        let skip = usize::try_from(range.start.wrapping_neg() % 4).unwrap_or_default();
        let words = bytes.get(skip..).unwrap_or_default().chunks_exact(4);
        for (number, word) in (0_u64..).zip(words) {
            let distance = i32::from_le_bytes([word[0], word[1], word[2], word[3]]);
            let start = (range.start + skip as u64 + number * 4).wrapping_sub(before);
            let text = start.wrapping_add_signed(distance.into());
            if distance == 0 || !(lowest..=highest).contains(&&text) || !at.contains(&text) {
                continue;
            }
            let place = |number: u64| number.checked_mul(stride).and_then(|bytes| start.checked_add(bytes));
            let own = |number: u64| Some(i32::from_le_bytes(image.at_address(place(number)?, 4).try_into().ok()?));
            let leads = |(number, to): (u64, &HashSet<u64>)| {
                let distance = own(number).filter(|distance| *distance != 0);
                distance.is_some_and(|distance| to.contains(&start.wrapping_add_signed(distance.into())))
            };
            if (0_u64..).zip(places).all(leads) {
                let name = |number| {
                    let text = text_at(image, start.wrapping_add_signed(own(number)?.into()))?;
                    (!text.is_empty()).then(|| text.to_owned())
                };
                add(counted(name));
            }
        }
    }
}

/// Texts one after the other, and a table of their distances from the first.
fn of_texts_in_a_row(image: &Image, table: &NameTable, first: &HashSet<u64>, add: &mut dyn FnMut(Names)) {
    // Two small numbers in a row are everywhere.
    if table.begins.len() < FEWEST_IN_A_ROW {
        return;
    }
    let row: Vec<u8> = table.begins.iter().flat_map(|name| name.bytes().chain([0])).collect();
    let mut at = 0_u32;
    let distances: Vec<u32> = table
        .begins
        .iter()
        .map(|name| {
            let this = at;
            at = at.saturating_add(u32::try_from(name.len() + 1).unwrap_or(u32::MAX));
            this
        })
        .collect();
    for start in first.iter().copied().filter(|start| image.at_address(*start, row.len()) == row.as_slice()) {
        for size in [2_usize, 4] {
            let pattern: String = distances
                .iter()
                .flat_map(|distance| distance.to_le_bytes().into_iter().take(size))
                .map(|byte| format!("\\x{byte:02x}"))
                .collect();
            let Ok(regex) = Regex::new(&format!("(?-u){pattern}")) else { continue };
            for range in image.mapped_ranges() {
                let found = regex.find_iter(bytes_of(image, &range)).map(|found| range.start + found.start() as u64);
                for offsets in found.filter(|offsets| offsets % size as u64 == 0).take(MAX_PLACES) {
                    let name = |number: u64| {
                        let bytes = image.at_address(offsets.checked_add(number.checked_mul(size as u64)?)?, size);
                        let mut word = [0; 4];
                        word.get_mut(..bytes.len())?.copy_from_slice(bytes);
                        let place = start.checked_add(u32::from_le_bytes(word).into())?;
                        // Each text begins where another ends.
                        let begins = place == start || image.at_address(place - 1, 1) == [0];
                        let text = text_at(image, place).filter(|text| begins && !text.is_empty())?;
                        (bytes.len() == size).then(|| text.to_owned())
                    };
                    add(counted(name));
                }
            }
        }
    }
}

/// Names by number, up to the first that is none or was there before. Two numbers in a row may have one name.
fn counted(name: impl Fn(u64) -> Option<String>) -> Names {
    let (mut seen, mut last) = (HashSet::new(), String::new());
    let names = (0..MAX_ENTRIES).map_while(|number| Some((number.cast_signed(), name(number)?)));
    let is_new = |(_, name): &(i64, String)| {
        let is_new = *name == last || seen.insert(name.clone());
        last.clone_from(name);
        is_new
    };
    names.take_while(is_new).collect()
}

#[cfg(test)]
#[path = "name_table_tests.rs"]
mod tests;
