//! Addresses that code has in registers, and the pairs that it stores one after the other. What is not followed is unknown.

use std::collections::HashMap;

/// Registers of either kind.
const REGISTERS: usize = 32;
/// Words of memory with an address. With more, all are forgotten.
const MAX_WORDS: usize = 128;
const WORD: i64 = 8;

/// The words of an image that have addresses.
pub(super) trait Addresses {
    /// The address in the word at a place.
    fn at(&self, place: u64) -> Option<u64>;
}

/// The state.
pub(super) struct Stores<'a> {
    managers: &'a HashMap<u64, usize>,
    general: [Option<u64>; REGISTERS],
    /// The two halves of each.
    vector: [[Option<u64>; 2]; REGISTERS],
    /// By register and distance from what that has.
    memory: HashMap<(usize, i64), u64>,
    /// A manager's address, and the one stored after it.
    pub(super) pairs: Vec<(u64, u64)>,
}

impl<'a> Stores<'a> {
    pub(super) fn new(managers: &'a HashMap<u64, usize>) -> Self {
        let (general, vector) = ([None; REGISTERS], [[None; 2]; REGISTERS]);
        Self { managers, general, vector, memory: HashMap::new(), pairs: Vec::new() }
    }

    pub(super) fn get(&self, register: usize) -> Option<u64> {
        self.general.get(register).copied().flatten()
    }

    pub(super) fn vector(&self, register: usize) -> [Option<u64>; 2] {
        self.vector.get(register).copied().unwrap_or_default()
    }

    pub(super) fn set(&mut self, register: usize, value: Option<u64>) {
        if let Some(of) = self.general.get_mut(register) {
            *of = value;
        }
        // What lies at a distance from the new value is not where it was stored.
        self.memory.retain(|(base, _), _| *base != register);
    }

    pub(super) fn set_vector(&mut self, register: usize, halves: [Option<u64>; 2]) {
        if let Some(of) = self.vector.get_mut(register) {
            *of = halves;
        }
    }

    /// The word at a distance from what a register has.
    pub(super) fn load(&self, base: usize, distance: i64) -> Option<u64> {
        self.memory.get(&(base, distance)).copied()
    }

    /// Words are stored one after the other.
    pub(super) fn store_words(&mut self, base: usize, distance: i64, words: &[Option<u64>]) {
        for (number, word) in (0_i64..).zip(words) {
            self.store(base, distance.wrapping_add(number * WORD), *word);
        }
    }

    /// A word is stored.
    pub(super) fn store(&mut self, base: usize, distance: i64, value: Option<u64>) {
        let Some(value) = value else {
            self.memory.remove(&(base, distance));
            return;
        };
        if self.memory.len() >= MAX_WORDS {
            self.memory.clear();
        }
        self.memory.insert((base, distance), value);
        for first in [distance, distance.wrapping_sub(WORD)] {
            let pair = self.memory.get(&(base, first)).zip(self.memory.get(&(base, first.wrapping_add(WORD))));
            let pair = pair.map(|(manager, invoker)| (*manager, *invoker));
            if let Some(pair) = pair.filter(|(manager, _)| self.managers.contains_key(manager)) {
                self.pairs.push(pair);
                // Neither is a half of another pair: the next object may be made in the same place.
                self.memory.remove(&(base, first));
                self.memory.remove(&(base, first.wrapping_add(WORD)));
            }
        }
    }

    /// Something else is stored: so many bytes at a distance from what a register has, or anywhere near.
    pub(super) fn store_other(&mut self, base: usize, place: Option<(i64, i64)>) {
        self.memory.retain(|(of, distance), _| {
            let overlaps =
                |(at, bytes): (i64, i64)| *distance < at.saturating_add(bytes) && at < distance.saturating_add(WORD);
            *of != base || place.is_some_and(|place| !overlaps(place))
        });
    }

    /// Code from elsewhere leads to what follows: registers may have anything; what is stored is mostly there still.
    pub(super) fn forget_registers(&mut self) {
        (self.general, self.vector) = ([None; REGISTERS], [[None; 2]; REGISTERS]);
    }
}
