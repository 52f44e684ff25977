//! Operators by type, with a bounded number of labels: the types that took most time have one each, all others are one
//! together. A label never goes away, and no count ever falls: what a type did before it had a label stays with the
//! others.

use super::snapshot::OperatorFigures;
use profinfer_analysis::{Catalogue, Step};
use std::collections::HashMap;
use std::sync::Arc;

/// Types that have labels.
pub(crate) const LABELS: usize = 20;
/// Types that are told apart.
const MAX_TYPES: usize = 512;
/// The label of all others.
pub(crate) const OTHER: &str = "other";

/// What operators did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Did {
    count: u64,
    work: u64,
    waiting: u64,
}

impl Did {
    fn plus(self, other: Self) -> Self {
        Self {
            count: self.count + other.count,
            work: self.work.saturating_add(other.work),
            waiting: self.waiting.saturating_add(other.waiting),
        }
    }

    fn minus(self, other: Self) -> Self {
        Self {
            count: self.count.saturating_sub(other.count),
            work: self.work.saturating_sub(other.work),
            waiting: self.waiting.saturating_sub(other.waiting),
        }
    }
}

/// Operators by type.
#[derive(Debug, Clone, Default)]
pub(crate) struct Operators {
    all: Did,
    types: HashMap<Arc<str>, Did>,
    /// Types with labels, and what they did before.
    labelled: Vec<(Arc<str>, Did)>,
}

impl Operators {
    /// Takes the operators of a step that was recorded whole.
    pub(crate) fn add(&mut self, step: &Step, catalogue: &Catalogue) {
        for operator in &step.operators {
            let did = Did { count: 1, work: operator.work, waiting: operator.waiting };
            self.all = self.all.plus(did);
            let op = &catalogue.kind(operator.kind).op;
            if let Some(of) = self.types.get_mut(op) {
                *of = of.plus(did);
            } else if self.types.len() < MAX_TYPES {
                self.types.insert(Arc::clone(op), did);
            }
        }
    }

    /// Gives labels to the types without one that took most time, as long as there are some left.
    pub(crate) fn label(&mut self) {
        if self.labelled.len() >= LABELS || self.labelled.len() == self.types.len() {
            return;
        }
        let is_labelled = |op: &Arc<str>| &**op == OTHER || self.labelled.iter().any(|(of, _)| of == op);
        let mut more: Vec<(Arc<str>, Did)> =
            self.types.iter().filter(|(op, _)| !is_labelled(op)).map(|(op, did)| (Arc::clone(op), *did)).collect();
        more.sort_by(|(a_op, a), (b_op, b)| b.work.cmp(&a.work).then_with(|| a_op.cmp(b_op)));
        more.truncate(LABELS - self.labelled.len());
        // The first ones are labelled before anybody has read a count: all that they did is theirs.
        let is_first = self.labelled.is_empty();
        self.labelled.extend(more.into_iter().map(|(op, did)| (op, if is_first { Did::default() } else { did })));
    }

    /// A row for each label, and one for all others.
    pub(crate) fn rows(&self) -> Vec<OperatorFigures> {
        let mut rest = self.all;
        let mut rows: Vec<OperatorFigures> = Vec::with_capacity(LABELS + 1);
        for (op, before) in &self.labelled {
            let did = self.types.get(op).copied().unwrap_or_default().minus(*before);
            rest = rest.minus(did);
            rows.push(row(op, did));
        }
        if rest.count > 0 {
            rows.push(row(OTHER, rest));
        }
        rows
    }
}

fn row(op: &str, did: Did) -> OperatorFigures {
    OperatorFigures { op: op.to_owned(), count: did.count, work_ns: did.work, waiting_ns: did.waiting }
}
