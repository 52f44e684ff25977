//! Names for functions without symbols: those in virtual tables are called by the class and the slot, as in probesets.

use super::elf::Image;
use super::overrides::Tables;
use super::rtti::Classes;
use std::collections::{BTreeSet, HashMap};

/// Entries of all tables together that are looked at; the largest real libraries have some hundred thousand.
const MAX_ENTRIES: usize = 1 << 22;
/// Entries of one table.
const MAX_SLOTS: u64 = 1 << 12;

/// By place in the file: `Class[slot]`, of the class that the others with this function derive from. Functions that
/// unrelated classes share, because the linker merged equal ones, have no name.
pub(crate) fn names(image: &Image, classes: &Classes) -> HashMap<u64, String> {
    let tables = Tables::new(image, classes, MAX_ENTRIES);
    let mut owners: HashMap<u64, HashMap<usize, u64>> = HashMap::new();
    for (number, class) in classes.all.iter().enumerate() {
        for table in &class.tables {
            for (slot, function) in tables.functions(*table, MAX_SLOTS) {
                owners.entry(function).or_default().entry(number).or_insert(slot);
            }
        }
    }
    let name = |(function, slots): (u64, HashMap<usize, u64>)| {
        let first = tables.first_owner(&slots.keys().copied().collect::<BTreeSet<_>>())?;
        Some((function, format!("{}[{}]", classes.name(first), slots.get(&first)?)))
    };
    owners.into_iter().filter_map(name).collect()
}
