//! The classes of an image by their run-time type information, which stripping leaves: typeinfo objects, found through
//! the words that point to the virtual tables of `__cxxabiv1::*_class_type_info`, and the virtual tables that name them.
//! Sources: "Itanium C++ ABI", 2.5 and 2.9. Nothing read is believed: there are bounds on all of it.

use super::elf::Image;
use super::names::{MAX_SYMBOL, class_name};
use super::pointers::{Pointer, Pointers};
use super::symbols::{short_text, strings_of};
use object::Endianness;
use object::read::elf::Sym;
use regex::bytes::Regex;
use std::collections::HashMap;
use std::sync::Arc;

/// Classes of one image; the largest real libraries have some ten thousands.
const MAX_CLASSES: usize = 1 << 20;
/// Direct bases of one class.
const MAX_BASES: u32 = 256;
/// Bytes of the names of all classes that the smallest file may have; others may have as many as they are long.
const ALWAYS_NAMES: usize = 4 << 10;
/// Virtual tables that name one class: the class's, its bases' in it, those of its construction.
const MAX_TABLES: usize = 1 << 12;
/// Bytes of a base's place in a class: more is no class.
const MAX_CLASS_BYTES: u64 = 1 << 40;
/// A table's first function comes this far behind its start, in the tables of the typeinfo classes.
const ADDRESS_POINT: u64 = 16;
const WORD: u64 = 8;

/// The classes of typeinfo objects, by the name of their typeinfo.
const KINDS: [(&str, BaseLayout); 3] = [
    ("N10__cxxabiv117__class_type_infoE", BaseLayout::Root),
    ("N10__cxxabiv120__si_class_type_infoE", BaseLayout::Single),
    ("N10__cxxabiv121__vmi_class_type_infoE", BaseLayout::Many),
];

/// How a typeinfo object stores its bases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BaseLayout {
    /// It has none.
    Root,
    /// One, public, not virtual, at the start.
    Single,
    /// A table of them.
    Many,
}

/// A class that an image has type information of.
#[derive(Debug)]
pub(crate) struct Class {
    /// As the compiler writes it.
    pub(crate) mangled: Arc<str>,
    /// Address of its typeinfo object.
    pub(crate) typeinfo: u64,
    /// Its direct bases.
    pub(crate) bases: Vec<Base>,
    /// The virtual tables that name it.
    pub(crate) tables: Vec<Table>,
}

/// A direct base of a class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Base {
    /// Which class.
    pub(crate) class: BaseClass,
    /// Where in the class it is, in bytes; of a virtual base, the offset of that value from the
    /// virtual table's first function.
    pub(crate) offset: i64,
    /// There is one of it in the whole object.
    pub(crate) is_virtual: bool,
}

/// The class of a base.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BaseClass {
    /// Of the same image, by number.
    Here(usize),
    /// Of another image, by its mangled name.
    Elsewhere(Arc<str>),
}

/// A virtual table, or the part of one that serves a base.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Table {
    /// Address of its first function.
    pub(crate) functions: u64,
    /// Where in the object that it is for its pointer is, in bytes.
    pub(crate) position: u64,
}

/// The classes of an image.
#[derive(Debug, Default)]
pub(crate) struct Classes {
    /// In the order of their typeinfo's addresses.
    pub(crate) all: Vec<Class>,
    pub(crate) pointers: Pointers,
    /// There is more than a file of this size can say: no compiler wrote it.
    pub(crate) is_cut: bool,
    by_name: HashMap<Arc<str>, usize>,
}

/// What is taken of a file's names: all of them together are no longer than the file, as each stands there once. Forged
/// type information may have many classes whose long names overlap.
struct Names {
    left: usize,
    /// Of imported classes, by symbol: many derive from one.
    imported: HashMap<u32, Option<Arc<str>>>,
}

impl Names {
    fn of(image: &Image) -> Self {
        Self { left: image.bytes().len().saturating_add(ALWAYS_NAMES), imported: HashMap::new() }
    }

    fn take(&mut self, name: &str) -> Option<Arc<str>> {
        self.left = self.left.saturating_sub(name.len());
        (self.left > 0).then(|| name.into())
    }

    fn import(&mut self, image: &Image, pointers: &Pointers, symbol: u32) -> Option<Arc<str>> {
        if let Some(cached) = self.imported.get(&symbol) {
            return cached.clone();
        }
        let name = pointers.import(image, symbol).and_then(|name| name.strip_prefix("_ZTI"));
        let name = name.and_then(|name| self.take(name));
        self.imported.insert(symbol, name.clone());
        name
    }
}

impl Classes {
    /// Reads the classes of an image.
    pub(crate) fn read(image: &Image) -> Self {
        let pointers = Pointers::read(image);
        let kinds = Kinds::find(image, &pointers);
        let mut found: Vec<(u64, BaseLayout)> = Vec::new();
        for (place, pointer) in pointers.all() {
            if let Some(kind) = kinds.of(pointer)
                && found.len() < MAX_CLASSES
            {
                found.push((place, kind));
            }
        }
        let mut names = Names::of(image);
        let mut numbers: HashMap<u64, usize> = HashMap::new();
        let mut all = Vec::new();
        let mut places = Vec::new();
        for (place, kind) in found {
            let Some(name) = pointers.address_at(place.wrapping_add(WORD)).and_then(|at| text(image, at)) else {
                continue;
            };
            // A name that only this image may know begins so.
            let Some(mangled) = names.take(name.strip_prefix('*').unwrap_or(name)) else { break };
            numbers.insert(place, all.len());
            all.push(Class { mangled, typeinfo: place, bases: Vec::new(), tables: Vec::new() });
            places.push((place, kind));
        }
        // Each base of a class has its own pointer.
        let mut left = pointers.len();
        let mut is_cut = names.left == 0 || pointers.is_cut();
        for (number, (place, kind)) in places.into_iter().enumerate() {
            let bases = bases(image, &pointers, &numbers, &mut names, place, kind);
            let Some(rest) = left.checked_sub(bases.len()).filter(|_| names.left > 0) else {
                is_cut = true;
                break;
            };
            left = rest;
            all[number].bases = bases;
        }
        let by_name = all.iter().enumerate().map(|(number, class)| (class.mangled.clone(), number)).collect();
        let mut classes = Self { all, pointers, is_cut, by_name };
        classes.tables(image, &numbers);
        classes
    }

    /// Finds the virtual tables of the classes: words that point to a typeinfo object, after one with the offset in the
    /// object the table's pointer is.
    fn tables(&mut self, image: &Image, numbers: &HashMap<u64, usize>) {
        for (place, pointer) in self.pointers.all() {
            let Pointer::Address(address) = pointer else { continue };
            let Some(class) = numbers.get(&address).and_then(|number| self.all.get_mut(*number)) else { continue };
            let Some(before) = place.checked_sub(WORD) else { continue };
            // The word before a base in a typeinfo object is a pointer, or counts up.
            if self.pointers.at(before).is_some() {
                continue;
            }
            let Some(position) = image.word_at(before).map(|to_top| 0u64.wrapping_sub(to_top)) else { continue };
            if position < MAX_CLASS_BYTES && class.tables.len() < MAX_TABLES {
                class.tables.push(Table { functions: place.wrapping_add(WORD), position });
            }
        }
    }

    /// The bases of a class: mangled name, place, whether virtual.
    pub(crate) fn bases_by_name(&self, mangled: &str) -> Option<Vec<(Arc<str>, i64, bool)>> {
        let class = self.all.get(*self.by_name.get(mangled)?)?;
        let named = |base: &Base| {
            let name = match &base.class {
                BaseClass::Here(number) => self.all.get(*number).map(|class| class.mangled.clone())?,
                BaseClass::Elsewhere(name) => name.clone(),
            };
            Some((name, base.offset, base.is_virtual))
        };
        Some(class.bases.iter().filter_map(named).collect())
    }

    /// The name of a class as a person writes it.
    pub(crate) fn name(&self, class: usize) -> String {
        self.all.get(class).map(|class| class_name(&class.mangled)).unwrap_or_default()
    }
}

/// Where pointers to the three classes of typeinfo objects lead.
#[derive(Debug, Default)]
struct Kinds {
    addresses: HashMap<u64, BaseLayout>,
    imports: HashMap<u32, BaseLayout>,
}

impl Kinds {
    fn find(image: &Image, pointers: &Pointers) -> Self {
        let mut kinds = Self::default();
        let of_symbol = |name: &[u8]| {
            let class = name.strip_prefix(b"_ZTV")?;
            KINDS.iter().find(|(name, _)| name.as_bytes() == class).map(|(_, kind)| *kind)
        };
        // A name may be long, and there may be many of them: so much is enough to know it by.
        let longest = KINDS.iter().map(|(name, _)| name.len()).max().unwrap_or_default() + "_ZTV".len() + 1;
        let imported =
            |symbol: u32| of_symbol(pointers.import_start(image, symbol, longest)?.split(|b| *b == 0).next()?);
        // A symbol stands for many words; each is looked up once.
        let mut others: HashMap<u32, ()> = HashMap::new();
        for (_, pointer) in pointers.all() {
            let Pointer::Import(symbol, _) = pointer else { continue };
            if kinds.imports.contains_key(&symbol) || others.contains_key(&symbol) {
                continue;
            }
            match imported(symbol) {
                Some(kind) => drop(kinds.imports.insert(symbol, kind)),
                None => drop(others.insert(symbol, ())),
            }
        }
        if let Some(headers) = image.headers() {
            for table in [headers.elf_symbol_table(), headers.elf_dynamic_symbol_table()] {
                let strings = strings_of(image, table);
                for symbol in table.iter().filter(|symbol| !symbol.is_undefined(Endianness::Little)) {
                    let kind = short_text(strings, symbol.st_name(Endianness::Little), longest).and_then(of_symbol);
                    let address = symbol.st_value(Endianness::Little);
                    kinds.addresses.extend(kind.map(|kind| (address.wrapping_add(ADDRESS_POINT), kind)));
                }
            }
        }
        if kinds.imports.is_empty() && kinds.addresses.is_empty() {
            kinds.addresses = inside(image, pointers);
        }
        kinds
    }

    fn of(&self, pointer: Pointer) -> Option<BaseLayout> {
        match pointer {
            Pointer::Import(symbol, addend) => {
                self.imports.get(&symbol).copied().filter(|_| addend == ADDRESS_POINT.cast_signed())
            }
            Pointer::Address(address) => self.addresses.get(&address).copied(),
        }
    }
}

/// Where the C++ library is part of a stripped image: its classes are found by the names in their typeinfo.
fn inside(image: &Image, pointers: &Pointers) -> HashMap<u64, BaseLayout> {
    let mut names: HashMap<u64, BaseLayout> = HashMap::new();
    // Some linkers put constants and code into one segment.
    for range in image.mapped_ranges() {
        let bytes = image.at_address(range.start, usize::try_from(range.end - range.start).unwrap_or_default());
        for (name, kind) in KINDS {
            let Ok(regex) = Regex::new(&format!("(?-u){name}\\x00")) else { continue };
            names.extend(
                regex.find_iter(bytes).take(MAX_TABLES).map(|hit| (range.start.wrapping_add(hit.start() as u64), kind)),
            );
        }
    }
    let typeinfos: HashMap<u64, BaseLayout> = pointers
        .all()
        .filter_map(|(place, pointer)| {
            let Pointer::Address(name) = pointer else { return None };
            Some((place.checked_sub(WORD)?, *names.get(&name)?))
        })
        .collect();
    let tables = pointers.all().filter_map(|(place, pointer)| {
        let Pointer::Address(typeinfo) = pointer else { return None };
        let kind = typeinfos.get(&typeinfo)?;
        let before = place.checked_sub(WORD)?;
        let is_table = pointers.at(before).is_none() && image.word_at(before) == Some(0);
        is_table.then_some((place.wrapping_add(WORD), *kind))
    });
    tables.collect()
}

fn bases(
    image: &Image,
    pointers: &Pointers,
    numbers: &HashMap<u64, usize>,
    names: &mut Names,
    place: u64,
    kind: BaseLayout,
) -> Vec<Base> {
    let mut class = |place: u64| match pointers.at(place)? {
        Pointer::Address(address) => numbers.get(&address).map(|number| BaseClass::Here(*number)),
        Pointer::Import(symbol, 0) => names.import(image, pointers, symbol).map(BaseClass::Elsewhere),
        Pointer::Import(..) => None,
    };
    let first = place.saturating_add(2 * WORD);
    match kind {
        BaseLayout::Root => Vec::new(),
        BaseLayout::Single => {
            class(first).map(|class| Base { class, offset: 0, is_virtual: false }).into_iter().collect()
        }
        BaseLayout::Many => {
            let count = image.word_at(first).map_or(0, |word| (word >> 32) as u32).min(MAX_BASES);
            let base = |index: u64| {
                let entry = first.checked_add(WORD + 2 * WORD * index)?;
                let packed = image.word_at(entry.checked_add(WORD)?)?.cast_signed();
                Some(Base { class: class(entry)?, offset: packed >> 8, is_virtual: packed & 1 == 1 })
            };
            (0..count.into()).filter_map(base).collect()
        }
    }
}

/// The text at an address.
fn text(image: &Image, address: u64) -> Option<&str> {
    let bytes = image.at_address(address, MAX_SYMBOL);
    let end = bytes.iter().position(|byte| *byte == 0).filter(|end| *end > 0)?;
    std::str::from_utf8(bytes.get(..end)?).ok()
}
