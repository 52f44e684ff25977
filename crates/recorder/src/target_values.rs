//! The constants that the target decides, as they were filled in: at placement, or when they were learned; and where they
//! are from.

use crate::bpf::Session;
use profinfer_compiler::Placement;
use profinfer_schema::ValueSource;
use std::collections::{BTreeMap, BTreeSet};

/// Offsets and numbers whose source the trace has.
const MOST_SOURCES: usize = 4096;

/// Constants by symbol.
#[derive(Debug, Default)]
pub(super) struct TargetValues {
    values: BTreeMap<String, u64>,
    learned: BTreeMap<String, u64>,
    sources: Vec<ValueSource>,
    /// By a warning's message, the constants of what is missing.
    missing: BTreeMap<String, BTreeSet<String>>,
}

impl TargetValues {
    /// All of them.
    pub(super) fn all(&self) -> &BTreeMap<String, u64> {
        &self.values
    }

    /// Takes those of a placement; gives those that are fixed when a program is loaded. The others are filled in.
    pub(super) fn of_placement(&mut self, placement: &Placement, session: &Session<'_>) -> BTreeMap<String, u64> {
        let mut values: BTreeMap<String, u64> =
            placement.values.iter().map(|value| (value.symbol.clone(), value.value)).collect();
        values.extend(self.learned.clone());
        self.values.extend(values.clone());
        values.retain(|symbol, value| {
            let is_fixed = session.is_fixed(symbol);
            if !is_fixed {
                session.set_constant(symbol, *value);
            }
            is_fixed
        });
        for (message, symbols) in &placement.missing {
            self.missing.entry(message.clone()).or_default().extend(symbols.iter().cloned());
        }
        for source in &placement.sources {
            if !self.sources.contains(source) && self.sources.len() < MOST_SOURCES {
                self.sources.push(source.clone());
            }
        }
        values
    }

    /// Fills in a constant that was learned.
    pub(super) fn fill_in(&mut self, symbol: &str, value: u64, session: &Session<'_>) {
        session.set_constant(symbol, value);
        self.values.insert(symbol.to_owned(), value);
        self.learned.insert(symbol.to_owned(), value);
    }

    /// Names the source of what was learned.
    pub(super) fn add_source(&mut self, source: ValueSource) {
        self.sources.retain(|other| other.what != source.what);
        self.sources.push(source);
    }

    /// The sources, for the trace.
    pub(super) fn take_sources(&mut self) -> Vec<ValueSource> {
        std::mem::take(&mut self.sources)
    }

    /// Whether a message is that something is missing of a view of which everything was learned that was missing.
    pub(super) fn is_settled(&self, message: &str) -> bool {
        self.missing.get(message).is_some_and(|symbols| symbols.iter().all(|symbol| self.learned.contains_key(symbol)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_is_settled_once_all_members_of_its_own_view_were_learned() {
        let missing = |view: &str| format!("the offset of `name` in {view} is not available on this target");
        let symbols = |all: &[&str]| all.iter().map(|symbol| (*symbol).to_owned()).collect::<BTreeSet<_>>();
        let mut values = TargetValues {
            missing: BTreeMap::from([
                (missing("kernel"), symbols(&["offset_of_kernel_name", "offset_of_kernel_op"])),
                (missing("kernel2"), symbols(&["offset_of_kernel2_name"])),
            ]),
            ..TargetValues::default()
        };
        let mut learned = |symbol: &str| {
            values.learned.insert(symbol.to_owned(), 8);
            ["kernel", "kernel2"].map(|view| values.is_settled(&missing(view)))
        };
        assert_eq!(learned("offset_of_kernel_name"), [false, false]);
        assert_eq!(learned("offset_of_kernel_op"), [true, false]);
        assert!(!values.is_settled("the constants of enum kernel_kind have no names here"));
    }
}
