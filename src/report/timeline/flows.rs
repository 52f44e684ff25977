//! Arrows from an operator to those of its step that use its result.

use crate::analysis::{Catalogue, ObjectId, Step};
use std::collections::{BTreeSet, HashMap};

/// Inputs of one operator that are looked at, views of views included.
const MOST_INPUTS: usize = 512;
/// Arrows that begin at one operator.
const MOST: usize = 256;

/// An operator's arrows, by number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Arrows {
    pub(super) ins: Vec<u64>,
    pub(super) outs: Vec<u64>,
}

/// Numbers arrows through a whole timeline.
#[derive(Debug, Default)]
pub(super) struct Flows {
    last: u64,
}

impl Flows {
    /// The arrows of each operator of a step. An input that no operator computed, as a view, stands for its own inputs;
    /// one that several computed, for the last of them. What goes through memory that another object names has no arrow.
    pub(super) fn of(&mut self, step: &Step, catalogue: &Catalogue) -> Vec<Arrows> {
        let mut arrows = vec![Arrows::default(); step.operators.len()];
        let mut computed: HashMap<u64, usize> = HashMap::new();
        for (index, operator) in step.operators.iter().enumerate() {
            let Some(object) = operator.object else { continue };
            let sources = sources_of(object, operator.start, catalogue, &computed);
            for source in sources {
                if arrows[source].outs.len() < MOST {
                    self.last += 1;
                    arrows[source].outs.push(self.last);
                    arrows[index].ins.push(self.last);
                }
            }
            computed.insert(catalogue.address(object), index);
        }
        arrows
    }
}

/// The operators whose results an object is made of.
fn sources_of(object: ObjectId, time: u64, catalogue: &Catalogue, computed: &HashMap<u64, usize>) -> BTreeSet<usize> {
    let mut sources = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let mut waiting: Vec<u64> = catalogue.inputs(object, time).to_vec();
    while let Some(address) = waiting.pop() {
        if seen.len() >= MOST_INPUTS || !seen.insert(address) {
            continue;
        }
        match (computed.get(&address), catalogue.sibling(object, address)) {
            (Some(index), _) => _ = sources.insert(*index),
            (None, Some(view)) => waiting.extend(catalogue.inputs(view, time).iter().take(MOST_INPUTS)),
            (None, None) => {}
        }
    }
    sources
}
