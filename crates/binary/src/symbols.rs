//! The functions of an image by name. The names are searched as one text, so that a question costs a pass over the
//! string tables, and only the few names that can match are compared one by one.

use super::Function;
use super::elf::Image;
use super::names::{MAX_SYMBOL, Match, Matcher};
use object::elf;
use object::read::elf::{Sym, SymbolTable as RawTable};
use object::{Endianness, Object, ObjectSection};
use regex::bytes::Regex;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

/// Bytes of names that one query may compare one by one; real files have some 100 MB at most. Each name stands in
/// its file once: forged symbols may have long ones that overlap.
const MAX_NAME_BYTES: usize = 256 << 20;
/// So many in the smallest file.
const ALWAYS_NAME_BYTES: usize = 64 << 10;

type Raw<'a> = RawTable<'a, elf::FileHeader64<Endianness>>;

/// A defined function.
#[derive(Debug, Clone, Copy)]
struct Symbol {
    file_offset: u64,
    /// Bytes from the start of the table's strings.
    name: u32,
    /// Bytes; those of 4 GiB and more count as that. A large file has a million symbols, which stay in memory.
    size: u32,
    local: bool,
}

/// One symbol table: its strings' place in the file, its functions sorted by the place of their names.
#[derive(Debug)]
struct Table {
    /// The number of the image it is in.
    image: usize,
    strings: Range<usize>,
    symbols: Vec<Symbol>,
}

/// The functions of `.symtab` and `.dynsym`. Undefined ones are left out, and those whose address is chosen at
/// run time (`STT_GNU_IFUNC`): what stands at theirs is the code that chooses.
#[derive(Debug, Default)]
pub(crate) struct Symbols {
    tables: Vec<Table>,
}

impl Symbols {
    /// Reads both tables of an image, and those of the images that its symbols were moved to; without those that are
    /// malformed. The first image is the one whose code is meant.
    pub(crate) fn read(images: &[&Image]) -> Self {
        let mut tables = Vec::new();
        for (number, image) in images.iter().enumerate() {
            let Some(headers) = image.headers() else { continue };
            let both = [headers.elf_symbol_table(), headers.elf_dynamic_symbol_table()];
            tables.extend(both.into_iter().filter(|table| !table.is_empty()).filter_map(|table| {
                let strings = headers.section_by_index(table.string_section()).ok()?.file_range()?;
                Table::read(images, number, table, strings)
            }));
        }
        Self { tables }
    }

    /// Every function that the matcher's pattern means, one an address, by file offset; whether there may be more than
    /// was inspected. `images` are those that were read.
    pub(crate) fn find(&self, images: &[&Image], matcher: &Matcher) -> (Vec<Function>, bool) {
        let mut found: BTreeMap<u64, (Symbol, Function)> = BTreeMap::new();
        let mut budget = name_budget(images);
        let mut is_cut = false;
        for table in &self.tables {
            let bytes = images.get(table.image).map_or(&[][..], |image| image.bytes());
            for symbol in table.candidates(bytes, matcher) {
                let (name, cost) = table.name_and_cost(bytes, symbol);
                let Some(left) = budget.checked_sub(cost) else {
                    is_cut = true;
                    break;
                };
                budget = left;
                let Some(matched) = matcher.matches(name) else { continue };
                let function = function(symbol, name, matched);
                match found.get_mut(&symbol.file_offset) {
                    Some(existing) if preference(&existing.0, &existing.1) <= preference(symbol, &function) => {}
                    Some(existing) => *existing = (*symbol, function),
                    None => drop(found.insert(symbol.file_offset, (*symbol, function))),
                }
            }
        }
        (found.into_values().map(|(_, function)| function).collect(), is_cut)
    }
}

impl Symbols {
    /// Symbol and bytes of the functions at these file offsets; whether there may be more than was inspected.
    pub(crate) fn at(&self, images: &[&Image], offsets: &BTreeSet<u64>) -> (HashMap<u64, (String, u64)>, bool) {
        let mut budget = name_budget(images);
        let mut is_cut = false;
        let mut found: HashMap<u64, (bool, String, u64)> = HashMap::new();
        for table in &self.tables {
            let bytes = images.get(table.image).map_or(&[][..], |image| image.bytes());
            for symbol in table.symbols.iter().filter(|symbol| offsets.contains(&symbol.file_offset)) {
                let (name, cost) = table.name_and_cost(bytes, symbol);
                let Some(left) = budget.checked_sub(cost) else {
                    is_cut = true;
                    break;
                };
                budget = left;
                let size = symbol.size;
                let better = |(local, existing, _): &(bool, String, u64)| {
                    (symbol.local, name.len(), name) < (*local, existing.len(), existing)
                };
                if !name.is_empty() && found.get(&symbol.file_offset).is_none_or(better) {
                    found.insert(symbol.file_offset, (symbol.local, name.to_owned(), size.into()));
                }
            }
        }
        (found.into_iter().map(|(offset, (_, name, size))| (offset, (name, size))).collect(), is_cut)
    }
}

impl Symbols {
    /// Every function that has a name: symbol and bytes by file offset, one an address.
    pub(crate) fn all(&self, images: &[&Image]) -> HashMap<u64, (String, u64)> {
        let offsets = self.tables.iter().flat_map(|table| &table.symbols).map(|symbol| symbol.file_offset).collect();
        self.at(images, &offsets).0
    }
}

/// Bytes of names that a question to these images may compare.
pub(crate) fn name_budget(images: &[&Image]) -> usize {
    let length: usize = images.iter().map(|image| image.bytes().len()).sum();
    length.saturating_add(ALWAYS_NAME_BYTES).min(MAX_NAME_BYTES)
}

/// The strings of a symbol table.
pub(crate) fn strings_of<'a>(image: &'a Image, table: &Raw<'a>) -> &'a [u8] {
    let strings = || {
        let (start, length) = image.headers()?.section_by_index(table.string_section()).ok()?.file_range()?;
        let start = usize::try_from(start).ok()?;
        let end = start.checked_add(usize::try_from(length).ok()?)?.min(image.bytes().len());
        image.bytes().get(start..end)
    };
    strings().unwrap_or_default()
}

/// The text that begins at a place in strings, if it has fewer bytes than `most`: what has no end is not searched for it.
pub(crate) fn short_text(strings: &[u8], at: u32, most: usize) -> Option<&[u8]> {
    let rest = strings.get(at as usize..)?;
    let rest = rest.get(..most).unwrap_or(rest);
    rest.get(..rest.iter().position(|byte| *byte == 0)?)
}

/// Which of several symbols of one address is given: the least.
fn preference<'a>(symbol: &Symbol, function: &'a Function) -> (bool, usize, &'a str) {
    (symbol.local, function.symbol.len(), &function.symbol)
}

fn function(symbol: &Symbol, name: &str, matched: Match) -> Function {
    Function {
        symbol: name.to_owned(),
        name: matched.name,
        file_offset: symbol.file_offset,
        size: symbol.size.into(),
        captures: matched.captures,
    }
}

impl Table {
    fn read(images: &[&Image], number: usize, table: &Raw<'_>, strings: (u64, u64)) -> Option<Self> {
        let (code, image) = (images.first()?, images.get(number)?);
        let start = usize::try_from(strings.0).ok()?;
        let end = start.checked_add(usize::try_from(strings.1).ok()?)?.min(image.bytes().len());
        let endian = Endianness::Little;
        let mut symbols: Vec<Symbol> = table
            .iter()
            .filter(|symbol| symbol.st_type() == elf::STT_FUNC && !symbol.is_undefined(endian))
            .filter_map(|symbol| {
                Some(Symbol {
                    file_offset: code.code_offset(symbol.st_value(endian))?,
                    name: symbol.st_name(endian),
                    size: u32::try_from(symbol.st_size(endian)).unwrap_or(u32::MAX),
                    local: symbol.is_local(),
                })
            })
            .collect();
        symbols.shrink_to_fit();
        symbols.sort_unstable_by_key(|symbol| symbol.name);
        (start <= end).then_some(Self { image: number, strings: start..end, symbols })
    }

    fn strings<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        bytes.get(self.strings.clone()).unwrap_or_default()
    }

    /// The name of a symbol, empty where it is too long or not text; and the number of bytes inspected.
    fn name_and_cost<'a>(&self, bytes: &'a [u8], symbol: &Symbol) -> (&'a str, usize) {
        let rest = self.strings(bytes).get(symbol.name as usize..).unwrap_or_default();
        let rest = rest.get(..MAX_SYMBOL).unwrap_or(rest);
        let end = rest.iter().position(|byte| *byte == 0);
        let name = rest.get(..end.unwrap_or(0)).and_then(|name| std::str::from_utf8(name).ok()).unwrap_or_default();
        (name, end.unwrap_or(rest.len()) + 1)
    }

    /// The symbols whose names have one of the matcher's literals in them.
    fn candidates(&self, bytes: &[u8], matcher: &Matcher) -> Vec<&Symbol> {
        let any = |literals: Vec<&str>| literals.into_iter().map(regex::escape).collect::<Vec<_>>().join("|");
        let Some(literal) = matcher.literals().and_then(|literals| Regex::new(&any(literals)).ok()) else {
            return self.symbols.iter().collect();
        };
        let strings = self.strings(bytes);
        let mut candidates = Vec::new();
        let mut from = 0;
        while let Some(hit) = literal.find_at(strings, from) {
            // Names may share their ends: every symbol that begins in this string before the hit is meant.
            let begin = strings[..hit.start()].iter().rposition(|byte| *byte == 0).map_or(0, |nul| nul + 1);
            let end = strings[hit.end()..].iter().position(|byte| *byte == 0).map_or(strings.len(), |n| hit.end() + n);
            let first = self.symbols.partition_point(|symbol| (symbol.name as usize) < begin);
            let last = self.symbols.partition_point(|symbol| (symbol.name as usize) < end);
            candidates.extend(self.symbols.get(first..last).unwrap_or_default());
            from = end;
        }
        candidates
    }
}
