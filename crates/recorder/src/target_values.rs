//! The constants that the target decides, as they were filled in: at placement, or when they were learned; and where they
//! are from.

use crate::bpf::Session;
use profinfer_compiler::Placement;
use profinfer_diagnostics::{Code, Diagnostic};
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

    /// Whether a problem is that something is missing of a view that was learned.
    pub(super) fn is_settled(&self, problem: &Diagnostic) -> bool {
        let learned = self.sources.iter().filter(|source| source.source.starts_with("learned"));
        let views: BTreeSet<&str> = learned.filter_map(|of| Some(of.what.rsplit_once('.')?.0)).collect();
        matches!(problem.code, Code::LayoutUnknown | Code::LayoutNotChosen)
            && views.iter().any(|view| problem.message.contains(view))
    }
}
