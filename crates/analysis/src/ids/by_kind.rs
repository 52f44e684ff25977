//! Values by operator and something else of which there is little: a phase, a backend. Operators are numbered from 0, so
//! that a lookup is an index and two or three comparisons.

use super::id::KindId;
use rustc_hash::FxHashMap;
use std::hash::Hash;

/// Keys of one operator that are searched linearly; further ones, which no engine has, are in a map.
const MAX_LISTED: usize = 32;

/// A map from an operator and a key.
#[derive(Debug, Clone)]
pub(crate) struct ByKind<K, V> {
    listed: Vec<Vec<(K, V)>>,
    further: FxHashMap<(KindId, K), V>,
}

impl<K, V> Default for ByKind<K, V> {
    fn default() -> Self {
        Self { listed: Vec::new(), further: FxHashMap::default() }
    }
}

impl<K: Copy + Eq + Hash, V> ByKind<K, V> {
    /// The value of an operator and a key; made by `new` where there is none.
    pub(crate) fn get_or_insert_with(&mut self, kind: KindId, key: K, new: impl FnOnce() -> V) -> &mut V {
        let at = kind.0 as usize;
        if self.listed.len() <= at {
            self.listed.resize_with(at + 1, Vec::new);
        }
        let listed = &mut self.listed[at];
        let place = match listed.iter().position(|(of, _)| *of == key) {
            Some(place) => place,
            None if listed.len() >= MAX_LISTED => return self.further.entry((kind, key)).or_insert_with(new),
            None => {
                listed.push((key, new()));
                listed.len() - 1
            }
        };
        &mut listed[place].1
    }

    /// The value of an operator and a key.
    pub(crate) fn get(&self, kind: KindId, key: K) -> Option<&V> {
        let listed = self.listed.get(kind.0 as usize)?.iter().find(|(of, _)| *of == key);
        listed.map(|(_, value)| value).or_else(|| self.further.get(&(kind, key)))
    }

    /// All of them, by operator; those beyond the first keys of each come last.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (KindId, K, &V)> {
        let listed = (0..).map(KindId).zip(&self.listed);
        let listed = listed.flat_map(|(kind, of)| of.iter().map(move |(key, value)| (kind, *key, value)));
        listed.chain(self.further.iter().map(|((kind, key), value)| (*kind, *key, value)))
    }
}

impl<K: Copy + Eq + Hash, V: Default> ByKind<K, V> {
    /// The value of an operator and a key; empty where there was none.
    pub(crate) fn entry(&mut self, kind: KindId, key: K) -> &mut V {
        self.get_or_insert_with(kind, key, V::default)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_its_value_however_many_there_are() {
        let mut sums: ByKind<u32, u64> = ByKind::default();
        for round in 0..2 {
            for key in 0..100 {
                *sums.entry(KindId(key % 2), key) += u64::from(key) + round;
            }
        }
        assert_eq!(sums.get(KindId(1), 99), Some(&(2 * 99 + 1)));
        assert_eq!(sums.get(KindId(0), 4), Some(&(2 * 4 + 1)));
        assert_eq!((sums.get(KindId(0), 99), sums.get(KindId(7), 4)), (None, None));
        assert_eq!(sums.iter().count(), 100);
        assert_eq!(sums.iter().map(|(_, _, value)| value).sum::<u64>(), 2 * 4950 + 100);
    }
}
