//! Numbers given to distinct 64-bit values in the order of their first appearance: a block's groups, threads and
//! dictionaries. It is an open-addressing table because it runs for every value of a trace.

/// The table. It is emptied in constant time, so that one serves every column of a block.
#[derive(Debug)]
pub(super) struct Interner {
    /// Round in which the slot was filled, and the number of its value; a power of two of them.
    slots: Vec<(u32, u32)>,
    /// Slots of an earlier round are empty.
    round: u32,
    /// The values by number.
    values: Vec<u64>,
}

impl Interner {
    /// An empty one.
    pub(super) fn new() -> Self {
        Self { slots: vec![(0, 0); 64], round: 1, values: Vec::new() }
    }

    /// The distinct values so far, in the order of their numbers.
    pub(super) fn values(&self) -> &[u64] {
        &self.values
    }

    /// Forgets every value.
    pub(super) fn clear(&mut self) {
        self.values.clear();
        self.round = self.round.wrapping_add(1);
        if self.round == 0 {
            self.slots.fill((0, 0));
            self.round = 1;
        }
    }

    /// The value's number: the next free one, if it is new.
    pub(super) fn number(&mut self, value: u64) -> u32 {
        let mask = self.slots.len() - 1;
        let mut at = Self::hash(value) & mask;
        loop {
            let (round, number) = self.slots[at];
            if round != self.round {
                break;
            }
            if self.values[number as usize] == value {
                return number;
            }
            at = (at + 1) & mask;
        }
        let number = self.values.len() as u32;
        self.values.push(value);
        self.slots[at] = (self.round, number);
        if self.values.len() * 2 > self.slots.len() {
            self.grow();
        }
        number
    }

    fn grow(&mut self) {
        let mask = self.slots.len() * 2 - 1;
        self.slots.clear();
        self.slots.resize(mask + 1, (0, 0));
        self.round = 1;
        for (number, value) in self.values.iter().enumerate() {
            let mut at = Self::hash(*value) & mask;
            while self.slots[at].0 == self.round {
                at = (at + 1) & mask;
            }
            self.slots[at] = (self.round, number as u32);
        }
    }

    /// Addresses differ in their middle bits; a multiplication brings them to the top ones.
    fn hash(value: u64) -> usize {
        (value.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_first_appearance_and_are_forgotten() {
        let mut interner = Interner::new();
        for round in 0..3 {
            interner.clear();
            let numbers = [7, 9, 7, u64::MAX, 0, 9].map(|value: u64| interner.number(value.wrapping_add(round << 8)));
            assert_eq!(numbers, [0, 1, 0, 2, 3, 1], "round {round}");
        }
    }

    #[test]
    fn many_values_keep_their_numbers() {
        let mut interner = Interner::new();
        for value in 0..10_000_u64 {
            assert_eq!(interner.number(value << 12), value as u32);
        }
        assert_eq!(interner.number(5000 << 12), 5000);
        assert_eq!(interner.values().len(), 10_000);
    }
}
