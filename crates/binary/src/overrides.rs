//! What a class and those derived from it put into one slot of its virtual table.

use super::elf::Image;
use super::pointers::Pointer;
use super::pure_virtual;
use super::rtti::{Base, BaseClass, Class, Classes, Table};
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// Steps from a class towards its bases, of one class: hierarchies that fork again and again have more.
const MAX_STEPS: usize = 4096;
/// Steps of one question: through hierarchies, and along tables.
pub(crate) const MAX_ALL_STEPS: usize = 16 << 20;
/// Places of the base in one class.
const MAX_POSITIONS: usize = 64;
const WORD: u64 = 8;
/// Beginnings of the names of typeinfo objects, their names, and virtual tables.
const DATA: [&str; 4] = ["_ZTI", "_ZTS", "_ZTV", "_ZTT"];
const DATA_BYTES: usize = 4;

/// Facts about a class of another image.
pub(crate) type Elsewhere<'a> = dyn Fn(&str) -> Option<Vec<(Arc<str>, i64, bool)>> + 'a;

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
    /// The number of functions in the base's table; `None` where it has none in this image.
    pub(crate) slots: Option<u64>,
    /// There is more than was inspected: no compiler wrote this.
    pub(crate) is_cut: bool,
}

/// A class on the way to the base, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Key {
    Here(usize),
    Elsewhere(usize),
}

/// A base of a class: which, and where in it.
#[derive(Debug, Clone, Copy)]
struct Link {
    to: Key,
    offset: i64,
    is_virtual: bool,
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
    let own = hierarchy.derived.iter().filter(|class| hierarchy.is_target(Key::Here(**class)));
    found.slots = own
        .filter_map(|class| classes.all.get(*class))
        .flat_map(|class| class.tables.iter().filter(|table| table.position == 0))
        .map(|table| tables.length(*table, u64::from(slot) + 2))
        .max();
    if found.slots.is_some_and(|slots| u64::from(slot) >= slots) {
        found.is_cut = classes.is_cut;
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
    found.is_cut = classes.is_cut || tables.steps.get() == 0;
    found
}

/// Which classes derive from the wanted ones.
#[derive(Default)]
struct Hierarchy {
    /// The bases of each class of the image.
    here: Vec<Vec<Link>>,
    /// Names of other images' classes, and their bases.
    names: Vec<Arc<str>>,
    others: Vec<Vec<Link>>,
    targets: HashSet<Key>,
    /// In the order of their typeinfo.
    derived: BTreeSet<usize>,
}

impl Hierarchy {
    fn new(classes: &Classes, is_base: &dyn Fn(&str) -> bool, elsewhere: &Elsewhere<'_>) -> Self {
        let mut hierarchy = Self::default();
        hierarchy.link(classes, elsewhere);
        let mut above: HashMap<Key, Vec<Key>> = HashMap::new();
        let here = classes.all.iter().map(|class| &class.mangled).zip(&hierarchy.here).enumerate();
        let others = hierarchy.names.iter().zip(&hierarchy.others).enumerate();
        let here = here.map(|(number, found)| (Key::Here(number), found));
        for (key, (mangled, bases)) in here.chain(others.map(|(number, found)| (Key::Elsewhere(number), found))) {
            if is_base(mangled) {
                hierarchy.targets.insert(key);
            }
            for base in bases {
                above.entry(base.to).or_default().push(key);
            }
        }
        let mut seen: HashSet<Key> = hierarchy.targets.clone();
        let mut next: Vec<Key> = seen.iter().copied().collect();
        while let Some(key) = next.pop() {
            if let Key::Here(number) = key {
                hierarchy.derived.insert(number);
            }
            next.extend(above.get(&key).into_iter().flatten().copied().filter(|derived| seen.insert(*derived)));
        }
        hierarchy
    }

    /// Numbers the classes, and follows bases into other images.
    fn link(&mut self, classes: &Classes, elsewhere: &Elsewhere<'_>) {
        let mut numbers: HashMap<Arc<str>, usize> = HashMap::new();
        let mut other = |name: &Arc<str>, names: &mut Vec<Arc<str>>| {
            let number = numbers.entry(Arc::clone(name)).or_insert_with(|| {
                names.push(Arc::clone(name));
                names.len() - 1
            });
            Key::Elsewhere(*number)
        };
        for class in &classes.all {
            let link = |base: &Base| {
                let to = match &base.class {
                    BaseClass::Here(number) => Key::Here(*number),
                    BaseClass::Elsewhere(name) => other(name, &mut self.names),
                };
                Link { to, offset: base.offset, is_virtual: base.is_virtual }
            };
            self.here.push(class.bases.iter().map(link).collect());
        }
        // Those that are found on the way are at the end of the list.
        while let Some(name) = self.names.get(self.others.len()) {
            let bases = elsewhere(name).unwrap_or_default().into_iter();
            let link = |(name, offset, is_virtual)| Link { to: other(&name, &mut self.names), offset, is_virtual };
            let bases = bases.map(link).collect();
            self.others.push(bases);
        }
    }

    fn is_target(&self, key: Key) -> bool {
        self.targets.contains(&key)
    }

    fn bases(&self, key: Key) -> &[Link] {
        match key {
            Key::Here(number) => self.here.get(number),
            Key::Elsewhere(number) => self.others.get(number),
        }
        .map_or(&[], Vec::as_slice)
    }

    /// The tables by which a class's objects are seen as the base.
    fn tables_of_base(&self, tables: &Tables<'_>, number: usize, class: &Class) -> Vec<Table> {
        let mut found = Vec::new();
        // A class's own tables begin with the one at its start; those of its construction in another follow alike.
        for group in class.tables.chunk_by(|_, next| next.position != 0) {
            // Of two at one place the first is meant.
            let group: HashMap<u64, Table> = group.iter().rev().map(|table| (table.position, *table)).collect();
            for position in self.positions(tables, number, &group) {
                found.extend(group.get(&position).copied());
            }
        }
        found
    }

    /// Where in a class's objects the base is; several times, where it is inherited so.
    fn positions(&self, tables: &Tables<'_>, number: usize, group: &HashMap<u64, Table>) -> BTreeSet<u64> {
        let mut found = BTreeSet::new();
        let mut seen: HashSet<(Key, u64)> = HashSet::new();
        let mut next = vec![(Key::Here(number), 0u64)];
        while let Some((key, position)) = next.pop() {
            if !tables.step()
                || seen.len() >= MAX_STEPS
                || found.len() >= MAX_POSITIONS
                || !seen.insert((key, position))
            {
                continue;
            }
            if self.is_target(key) {
                found.insert(position);
                continue;
            }
            for base in self.bases(key) {
                let offset = if base.is_virtual {
                    let entry = group.get(&position).and_then(|table| table.functions.checked_add_signed(base.offset));
                    entry.and_then(|place| tables.image.word_at(place)).map(u64::cast_signed)
                } else {
                    Some(base.offset)
                };
                next.extend(offset.and_then(|o| position.checked_add_signed(o)).map(|at| (base.to, at)));
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
    /// Which functions stand for pure virtual ones, of those that were asked about.
    pure: RefCell<HashMap<u64, bool>>,
    /// Where its pointers lead to in its code, once that was asked.
    targets: OnceCell<Vec<u64>>,
}

impl<'a> Tables<'a> {
    /// Of an image; `steps` may be taken.
    pub(crate) fn new(image: &'a Image, classes: &'a Classes, steps: usize) -> Self {
        Self { image, classes, steps: Cell::new(steps), pure: RefCell::default(), targets: OnceCell::new() }
    }

    /// Whether a function stands for pure virtual ones.
    fn is_pure(&self, offset: u64) -> bool {
        *self.pure.borrow_mut().entry(offset).or_insert_with(|| {
            let Some(reference) = self.step().then(|| pure_virtual::references_message(self.image, offset)).flatten()
            else {
                return false;
            };
            // A short function may lie before that one, to which some table leads.
            let targets = self.targets.get_or_init(|| self.code_targets());
            let next = targets.partition_point(|target| *target <= offset);
            targets.get(next).is_none_or(|target| *target > reference)
        })
    }

    /// The places in the file of code that the image's pointers lead to, in order.
    fn code_targets(&self) -> Vec<u64> {
        let target = |(_, pointer)| match pointer {
            Pointer::Address(address) => self.image.code_offset(address),
            Pointer::Import(..) => None,
        };
        let mut targets: Vec<u64> = self.classes.pointers.all().filter_map(target).collect();
        targets.sort_unstable();
        targets
    }

    /// The function in a slot within the table.
    pub(crate) fn function_at(&self, table: Table, slot: u64) -> Option<u64> {
        match self.entry(table, slot) {
            Entry::Function(offset) => Some(offset).filter(|offset| !self.is_pure(*offset)),
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
            Some(Pointer::Address(address)) if self.classes.pointers.is_stub(address) => Entry::Elsewhere,
            Some(Pointer::Address(address)) => self.image.code_offset(address).map_or(Entry::End, Entry::Function),
            // The next table's typeinfo, or the first word of one; a function's name is of another kind.
            Some(Pointer::Import(symbol, _)) => {
                match self.classes.pointers.import_start(self.image, symbol, DATA_BYTES) {
                    Some(name) if !DATA.iter().any(|data| name == data.as_bytes()) => Entry::Elsewhere,
                    _ => Entry::End,
                }
            }
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
        last.filter(|offset| !self.is_pure(*offset))
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

    /// The slots of a table that have functions of this image, as far as `most`, with the functions' places in the file;
    /// those that stand for pure virtual ones are among them.
    pub(crate) fn functions(&self, table: Table, most: u64) -> impl Iterator<Item = (u64, u64)> {
        let entries = (0..most).map(move |slot| (slot, self.entry(table, slot)));
        entries.take_while(|(_, entry)| !matches!(entry, Entry::End)).filter_map(|(slot, entry)| match entry {
            Entry::Function(offset) => Some((slot, offset)),
            Entry::Elsewhere | Entry::Nothing | Entry::End => None,
        })
    }

    /// The one of several classes that all others derive from.
    pub(crate) fn first_owner(&self, owners: &BTreeSet<usize>) -> Option<usize> {
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
