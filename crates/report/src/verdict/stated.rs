//! The shares of a phase's time that its sentences state, as data beside the words: shares of one whole can
//! be added up, and never comes to more than that.

use super::model::{Bound, StatedShare};
use crate::numbers::units::share;

/// Writes shares into sentences, and collects them.
#[derive(Debug, Default)]
pub(super) struct Stated {
    shares: Vec<StatedShare>,
}

impl Stated {
    /// A part of the whole that no other one has in it.
    pub(super) fn part(&mut self, what: Bound, part: f64) -> String {
        self.collect(what, part, false)
    }

    /// One that lies within others that are stated.
    pub(super) fn within_others(&mut self, what: Bound, part: f64) -> String {
        self.collect(what, part, true)
    }

    fn collect(&mut self, what: Bound, part: f64, overlaps: bool) -> String {
        self.shares.push(StatedShare { what, share: part, overlaps });
        share(part)
    }

    /// All of them, in the order of the sentences.
    pub(super) fn into_shares(self) -> Vec<StatedShare> {
        self.shares
    }
}
