//! Which classes of an image others derive from, and how many different functions those have in each slot of its virtual
//! table: where an engine's kinds of operators are likely to be.

use super::ClassBase;
use super::elf::Image;
use super::overrides::{MAX_ALL_STEPS, Tables};
use super::rtti::{BaseClass, Class, Classes};
use std::collections::HashSet;

/// The maximum number of classes: those with the most derived classes.
const MOST: usize = 256;
/// Slots of one class.
const MOST_SLOTS: u64 = 64;
/// Steps from a class to its bases.
const MOST_ABOVE: usize = 32;

/// The classes that others derive from, those that most derive from first.
pub(crate) fn find(image: &Image, classes: &Classes) -> Vec<ClassBase> {
    let mut derived = vec![0usize; classes.all.len()];
    for number in 0..classes.all.len() {
        for base in above(classes, number) {
            if let Some(count) = derived.get_mut(base) {
                *count += 1;
            }
        }
    }
    let mut bases: Vec<usize> = (0..classes.all.len()).filter(|number| derived[*number] > 0).collect();
    bases.sort_by_key(|number| (std::cmp::Reverse(derived[*number]), *number));
    bases.truncate(MOST);
    let places: std::collections::HashMap<usize, usize> =
        bases.iter().enumerate().map(|(place, number)| (*number, place)).collect();
    let tables = Tables::new(image, classes, MAX_ALL_STEPS);
    let mut seen: Vec<Slots> = bases.iter().map(|_| Slots::default()).collect();
    for (number, class) in classes.all.iter().enumerate() {
        let Some(functions) = class_table(&tables, class) else { continue };
        for base in above(classes, number).chain([number]) {
            if let Some(slots) = places.get(&base).and_then(|place| seen.get_mut(*place)) {
                slots.add(&functions);
            }
        }
    }
    let found = bases.iter().zip(seen).map(|(number, slots)| ClassBase {
        name: classes.name(*number),
        derived: derived[*number],
        slots: slots.0.unwrap_or_default().iter().map(HashSet::len).collect(),
    });
    found.filter(|base| !base.slots.is_empty()).collect()
}

/// The different functions in each slot that all classes have.
#[derive(Default)]
struct Slots(Option<Vec<HashSet<u64>>>);

impl Slots {
    fn add(&mut self, functions: &[Option<u64>]) {
        let slots = self.0.get_or_insert_with(|| vec![HashSet::new(); functions.len()]);
        // A derived class has its base's slots and more; the shortest table is the nearest to the base's own.
        slots.truncate(functions.len());
        for (slot, function) in slots.iter_mut().zip(functions) {
            slot.extend(function);
        }
    }
}

/// The classes that a class begins with, the nearest first.
fn above(classes: &Classes, number: usize) -> impl Iterator<Item = usize> {
    let at_start = |number: usize| {
        let bases = &classes.all.get(number)?.bases;
        let first = bases.iter().find(|base| base.offset == 0 && !base.is_virtual)?;
        match first.class {
            BaseClass::Here(base) => Some(base),
            BaseClass::Elsewhere(_) => None,
        }
    };
    std::iter::successors(at_start(number), move |number| at_start(*number)).take(MOST_ABOVE)
}

/// The functions in a class's table; `None` for those that are pure virtual or another image's.
fn class_table(tables: &Tables<'_>, class: &Class) -> Option<Vec<Option<u64>>> {
    let table = class.tables.iter().find(|table| table.position == 0)?;
    let length = tables.length(*table, MOST_SLOTS);
    Some((0..length).map(|slot| tables.function_at(*table, slot)).collect())
}
