//! Values by operator and something else of which there is little: a phase, a backend. Operators are numbered from 0, so
//! that finding one is an index and a look at two or three keys, in memory that lies together.

use super::catalogue::KindId;
use super::hash::FastMap;
use std::hash::Hash;

/// Keys of one operator that are looked through; a trace with more, which no engine's is, has the rest in a map.
const MAX_LISTED: usize = 32;

/// A map from an operator and a key.
#[derive(Debug, Clone)]
pub(super) struct ByKind<K, V> {
    listed: Vec<Vec<(K, V)>>,
    further: FastMap<(KindId, K), V>,
}

impl<K, V> Default for ByKind<K, V> {
    fn default() -> Self {
        Self { listed: Vec::new(), further: FastMap::default() }
    }
}

impl<K: Copy + Eq + Hash, V> ByKind<K, V> {
    /// The value of an operator and a key; made by `new` where there is none.
    pub(super) fn get_or_insert_with(&mut self, kind: KindId, key: K, new: impl FnOnce() -> V) -> &mut V {
        let at = kind.0 as usize;
        if self.listed.len() <= at {
            self.listed.resize_with(at + 1, Vec::new);
        }
        let listed = &mut self.listed[at];
        let place = match listed.iter().position(|(known, _)| *known == key) {
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
    pub(super) fn get(&self, kind: KindId, key: K) -> Option<&V> {
        let listed = self.listed.get(kind.0 as usize)?.iter().find(|(known, _)| *known == key);
        listed.map(|(_, value)| value).or_else(|| self.further.get(&(kind, key)))
    }

    /// All of them, by operator; those beyond the first keys of each come last.
    pub(super) fn iter(&self) -> impl Iterator<Item = (KindId, K, &V)> {
        let listed = (0..).map(KindId).zip(&self.listed);
        let listed = listed.flat_map(|(kind, of)| of.iter().map(move |(key, value)| (kind, *key, value)));
        listed.chain(self.further.iter().map(|((kind, key), value)| (*kind, *key, value)))
    }
}

impl<K: Copy + Eq + Hash, V: Default> ByKind<K, V> {
    /// The value of an operator and a key; empty where there was none.
    pub(super) fn entry(&mut self, kind: KindId, key: K) -> &mut V {
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
