//! What a class and those derived from it put into one slot of its virtual table.

use super::elf::Image;
use super::pointers::Pointer;
use super::rtti::{Base, BaseClass, Class, Classes, Table};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Steps from a class towards its bases, of one class: hierarchies that fork again and again have more.
const MAX_STEPS: usize = 4096;
/// Steps of one question: through hierarchies, and along tables.
pub(crate) const MAX_ALL_STEPS: usize = 64 << 20;
/// Places of the base in one class.
const MAX_POSITIONS: usize = 64;
const WORD: u64 = 8;
/// Beginnings of the names of typeinfo objects, their names, and virtual tables.
const DATA: [&str; 4] = ["_ZTI", "_ZTS", "_ZTV", "_ZTT"];

/// What is known of a class that another image has.
pub(crate) type Elsewhere<'a> = dyn Fn(&str) -> Option<Vec<(String, i64, bool)>> + 'a;

/// One function in the slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Override {
    /// Bytes from the start of the file.
    pub(crate) file_offset: u64,
    /// The class that it is of; `None` where several have it that do not derive from one of them.
    pub(crate) class: Option<usize>,
}

/// What was found in a slot.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Functions, by file offset.
    pub(crate) functions: Vec<Override>,
    /// Classes that are the base or derive from it.
    pub(crate) classes: usize,
    /// How many functions the base's own table has; `None` where it has none in this image.
    pub(crate) slots: Option<u64>,
    /// There is more than was looked at: no compiler wrote this.
    pub(crate) is_cut: bool,
}

/// A class on the way to the base.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    Here(usize),
    Elsewhere(String),
}

impl From<&BaseClass> for Key {
    fn from(class: &BaseClass) -> Self {
        match class {
            BaseClass::Here(number) => Self::Here(*number),
            BaseClass::Elsewhere(name) => Self::Elsewhere(name.clone()),
        }
    }
}

/// Finds what is in a slot of the classes that a name (as a person writes it) means, and of those derived from them.
pub(crate) fn find(
    image: &Image,
    classes: &Classes,
    is_base: &dyn Fn(&str) -> bool,
    slot: u32,
    elsewhere: &Elsewhere<'_>,
) -> Found {
    let hierarchy = Hierarchy::new(classes, is_base, elsewhere);
    let tables = Tables::new(image, classes, MAX_ALL_STEPS);
    let mut found = Found { classes: hierarchy.derived.len(), ..Found::default() };
    let own = hierarchy.derived.iter().filter(|class| hierarchy.is_target(&Key::Here(**class)));
    found.slots = own
        .filter_map(|class| classes.all.get(*class))
        .flat_map(|class| class.tables.iter().filter(|table| table.position == 0))
        .map(|table| tables.length(*table, u64::from(slot) + 2))
        .max();
    if found.slots.is_some_and(|slots| u64::from(slot) >= slots) {
        return found;
    }
    let mut owners: BTreeMap<u64, BTreeSet<usize>> = BTreeMap::new();
    for number in &hierarchy.derived {
        let Some(class) = classes.all.get(*number) else { continue };
        for table in hierarchy.tables_of_base(&tables, *number, class) {
            if let Some(offset) = tables.function(table, slot) {
                owners.entry(offset).or_default().insert(*number);
            }
        }
    }
    let functions = owners.into_iter().map(|(file_offset, owners)| {
        let class = tables.first_owner(&owners);
        Override { file_offset, class }
    });
    found.functions = functions.collect();
    found.is_cut = tables.steps.get() == 0;
    found
}

/// Which classes derive from the wanted ones.
struct Hierarchy<'a> {
    classes: &'a Classes,
    /// Names of other images' classes that were looked up, with their bases.
    others: HashMap<String, Vec<Base>>,
    targets: HashSet<Key>,
    /// In the order of their typeinfo.
    derived: BTreeSet<usize>,
}

impl<'a> Hierarchy<'a> {
    fn new(classes: &'a Classes, is_base: &dyn Fn(&str) -> bool, elsewhere: &Elsewhere<'_>) -> Self {
        let mut hierarchy = Self { classes, others: HashMap::new(), targets: HashSet::new(), derived: BTreeSet::new() };
        hierarchy.look_elsewhere(elsewhere);
        let mut above: HashMap<Key, Vec<Key>> = HashMap::new();
        let here = classes.all.iter().enumerate().map(|(number, class)| (Key::Here(number), &class.bases));
        let others = hierarchy.others.iter().map(|(name, bases)| (Key::Elsewhere(name.clone()), bases));
        for (key, bases) in here.chain(others) {
            let mangled = match &key {
                Key::Here(number) => &classes.all[*number].mangled,
                Key::Elsewhere(name) => name,
            };
            if is_base(mangled) {
                hierarchy.targets.insert(key.clone());
            }
            for base in bases {
                above.entry(Key::from(&base.class)).or_default().push(key.clone());
            }
        }
        let mut seen: HashSet<Key> = hierarchy.targets.clone();
        let mut next: Vec<Key> = seen.iter().cloned().collect();
        while let Some(key) = next.pop() {
            if let Key::Here(number) = key {
                hierarchy.derived.insert(number);
            }
            for derived in above.get(&key).into_iter().flatten() {
                if seen.insert(derived.clone()) {
                    next.push(derived.clone());
                }
            }
        }
        hierarchy
    }

    /// Follows bases into other images.
    fn look_elsewhere(&mut self, elsewhere: &Elsewhere<'_>) {
        let names = |bases: &[Base]| -> Vec<String> {
            let name = |base: &Base| match &base.class {
                BaseClass::Elsewhere(name) => Some(name.clone()),
                BaseClass::Here(_) => None,
            };
            bases.iter().filter_map(name).collect()
        };
        let mut next: Vec<String> = self.classes.all.iter().flat_map(|class| names(&class.bases)).collect();
        while let Some(name) = next.pop() {
            if self.others.contains_key(&name) {
                continue;
            }
            let bases = elsewhere(&name).unwrap_or_default().into_iter();
            let bases: Vec<Base> = bases
                .map(|(name, offset, is_virtual)| Base { class: BaseClass::Elsewhere(name), offset, is_virtual })
                .collect();
            next.extend(names(&bases));
            self.others.insert(name, bases);
        }
    }

    fn is_target(&self, key: &Key) -> bool {
        self.targets.contains(key)
    }

    fn bases(&self, key: &Key) -> &[Base] {
        match key {
            Key::Here(number) => self.classes.all.get(*number).map_or(&[], |class| &class.bases),
            Key::Elsewhere(name) => self.others.get(name).map_or(&[], Vec::as_slice),
        }
    }

    /// The tables by which a class's objects are seen as the base.
    fn tables_of_base(&self, tables: &Tables<'_>, number: usize, class: &Class) -> Vec<Table> {
        let mut found = Vec::new();
        // A class's own tables begin with the one at its start; those of its construction in another follow alike.
        for group in class.tables.chunk_by(|_, next| next.position != 0) {
            for position in self.positions(tables, number, group) {
                found.extend(group.iter().find(|table| table.position == position).copied());
            }
        }
        found
    }

    /// Where in a class's objects the base is; several times, where it is inherited so.
    fn positions(&self, tables: &Tables<'_>, number: usize, group: &[Table]) -> BTreeSet<u64> {
        let mut found = BTreeSet::new();
        let mut seen: HashSet<(Key, u64)> = HashSet::new();
        let mut next = vec![(Key::Here(number), 0u64)];
        while let Some((key, position)) = next.pop() {
            if !tables.step()
                || seen.len() >= MAX_STEPS
                || found.len() >= MAX_POSITIONS
                || !seen.insert((key.clone(), position))
            {
                continue;
            }
            if self.is_target(&key) {
                found.insert(position);
                continue;
            }
            for base in self.bases(&key) {
                let offset = if base.is_virtual {
                    let table = group.iter().find(|table| table.position == position);
                    let said = table.and_then(|table| table.functions.checked_add_signed(base.offset));
                    said.and_then(|place| tables.image.word_at(place)).map(u64::cast_signed)
                } else {
                    Some(base.offset)
                };
                next.extend(offset.and_then(|o| position.checked_add_signed(o)).map(|at| (Key::from(&base.class), at)));
            }
        }
        found
    }
}

/// What a table's entry is.
enum Entry {
    /// A function of this image.
    Function(u64),
    /// A function of another image; a pure virtual one is one that ends the program.
    Elsewhere,
    /// One that was never needed.
    Nothing,
    /// The table has ended before.
    End,
}

/// The tables of an image, and how many steps may still be taken along them.
pub(crate) struct Tables<'a> {
    image: &'a Image,
    classes: &'a Classes,
    steps: Cell<usize>,
}

impl<'a> Tables<'a> {
    /// Of an image; `steps` may be taken.
    pub(crate) fn new(image: &'a Image, classes: &'a Classes, steps: usize) -> Self {
        Self { image, classes, steps: Cell::new(steps) }
    }

    /// The function in a slot that is known to be within the table.
    pub(crate) fn function_at(&self, table: Table, slot: u64) -> Option<u64> {
        match self.entry(table, slot) {
            Entry::Function(offset) => Some(offset),
            Entry::Elsewhere | Entry::Nothing | Entry::End => None,
        }
    }

    /// Takes a step, if there is one left.
    fn step(&self) -> bool {
        let left = self.steps.get();
        self.steps.set(left.saturating_sub(1));
        left > 1
    }

    fn entry(&self, table: Table, slot: u64) -> Entry {
        let place = slot.checked_mul(WORD).and_then(|bytes| table.functions.checked_add(bytes));
        let Some(place) = place.filter(|_| self.step()) else { return Entry::End };
        match self.classes.pointers.at(place) {
            Some(Pointer::Address(address)) => self.image.code_offset(address).map_or(Entry::End, Entry::Function),
            // The next table's typeinfo, or the first word of one; a function's name is of another kind.
            Some(Pointer::Import(symbol, _)) => match self.classes.pointers.import(self.image, symbol) {
                Some(name) if !DATA.iter().any(|data| name.starts_with(data)) => Entry::Elsewhere,
                _ => Entry::End,
            },
            None if self.image.word_at(place) == Some(0) => Entry::Nothing,
            None => Entry::End,
        }
    }

    /// The function in a slot of a table, if the table is that long.
    fn function(&self, table: Table, slot: u32) -> Option<u64> {
        let mut last = None;
        for index in 0..=u64::from(slot) {
            last = match self.entry(table, index) {
                Entry::Function(offset) => Some(offset),
                Entry::Elsewhere | Entry::Nothing => None,
                Entry::End => return None,
            };
        }
        last
    }

    /// How many functions a table has, as far as `most`.
    pub(crate) fn length(&self, table: Table, most: u64) -> u64 {
        let mut length = 0;
        for index in 0..most {
            match self.entry(table, index) {
                Entry::End => break,
                // The word before the next table's typeinfo is zero, too.
                Entry::Nothing => {}
                Entry::Function(_) | Entry::Elsewhere => length = index + 1,
            }
        }
        length
    }

    /// The one of several classes that all others derive from.
    fn first_owner(&self, owners: &BTreeSet<usize>) -> Option<usize> {
        let mut first = None;
        for owner in owners {
            if self.has_above(*owner, owners)? {
                continue;
            }
            if first.replace(*owner).is_some() {
                return None;
            }
        }
        first
    }

    /// Whether a class derives from another of these; `None` where finding out takes too long.
    fn has_above(&self, class: usize, of: &BTreeSet<usize>) -> Option<bool> {
        let mut seen = HashSet::from([class]);
        let mut next = vec![class];
        while let Some(number) = next.pop() {
            for base in self.classes.all.get(number).into_iter().flat_map(|class| &class.bases) {
                if !self.step() {
                    return None;
                }
                let BaseClass::Here(base) = base.class else { continue };
                if !seen.insert(base) {
                    continue;
                }
                if of.contains(&base) {
                    return Some(true);
                }
                next.push(base);
            }
        }
        Some(false)
    }
}
