//! Values by operator and something else of which there is little: a phase, a backend. Operators are numbered from 0, so
//! that finding one is an index and a look at two or three keys, in memory that lies together.

use super::catalogue::KindId;

/// A map from an operator and a key.
#[derive(Debug, Clone)]
pub(super) struct ByKind<K, V>(Vec<Vec<(K, V)>>);

impl<K, V> Default for ByKind<K, V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: Copy + PartialEq, V> ByKind<K, V> {
    /// The value of an operator and a key; made by `new` where there is none.
    pub(super) fn get_or_insert_with(&mut self, kind: KindId, key: K, new: impl FnOnce() -> V) -> &mut V {
        let at = kind.0 as usize;
        if self.0.len() <= at {
            self.0.resize_with(at + 1, Vec::new);
        }
        let of = &mut self.0[at];
        let place = of.iter().position(|(known, _)| *known == key).unwrap_or_else(|| {
            of.push((key, new()));
            of.len() - 1
        });
        &mut of[place].1
    }

    /// The value of an operator and a key.
    pub(super) fn get(&self, kind: KindId, key: K) -> Option<&V> {
        self.0.get(kind.0 as usize)?.iter().find(|(known, _)| *known == key).map(|(_, value)| value)
    }

    /// All of them, by operator.
    pub(super) fn iter(&self) -> impl Iterator<Item = (KindId, K, &V)> {
        (0..).map(KindId).zip(&self.0).flat_map(|(kind, of)| of.iter().map(move |(key, value)| (kind, *key, value)))
    }
}

impl<K: Copy + PartialEq, V: Default> ByKind<K, V> {
    /// The value of an operator and a key; empty where there was none.
    pub(super) fn entry(&mut self, kind: KindId, key: K) -> &mut V {
        self.get_or_insert_with(kind, key, V::default)
    }
}
