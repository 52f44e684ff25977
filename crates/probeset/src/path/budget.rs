//! How much all expressions of a probeset come to. A name stands for an expression of others, so that a short text may be a
//! long one: each is bounded, and so is their sum.

use std::cell::Cell;

/// Parts that all expressions have together, names replaced.
pub(super) const MOST_PARTS: usize = 1 << 19;

/// What is left for the expressions of one probeset.
#[derive(Debug)]
pub struct Budget {
    parts: Cell<usize>,
    is_reported: Cell<bool>,
}

impl Default for Budget {
    fn default() -> Self {
        Self { parts: Cell::new(MOST_PARTS), is_reported: Cell::new(false) }
    }
}

impl Budget {
    /// Takes one part; whether there was one left.
    pub(super) fn take(&self) -> bool {
        let left = self.parts.get().checked_sub(1);
        match left {
            Some(left) => self.parts.set(left),
            None => self.is_reported.set(true),
        }
        left.is_some()
    }

    /// Whether it has been reported that there is nothing left.
    pub(super) fn is_reported(&self) -> bool {
        self.is_reported.get()
    }
}
