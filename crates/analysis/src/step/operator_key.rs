//! When two operators are the same one at different times.

use super::bucket::RawOperator;

/// Times that something comes which recurs.
pub(super) const FEWEST: usize = 3;
const NONE: u32 = u32::MAX;

/// What two operators have in common that are the same one at different times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Key {
    object: u32,
    inline: u32,
    record_type: u16,
    site: u16,
}

/// How operators without objects are distinguished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    /// By what was read of them: shapes, names.
    Description,
    /// By their function: where shapes differ from step to step.
    Function,
}

impl By {
    pub(super) fn key(self, operator: &RawOperator) -> Key {
        let RawOperator { record_type, site, inline, .. } = *operator;
        match (operator.object, self) {
            (Some(object), _) => Key { object: object.0, inline: 0, record_type: 0, site: 0 },
            (None, Self::Description) => Key { object: NONE, inline, record_type, site: 0 },
            (None, Self::Function) => Key { object: NONE, inline: 0, record_type, site },
        }
    }
}
