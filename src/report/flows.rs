//! Where the results of a step's operators go: for each, which of the step's operators made what it reads.

use crate::analysis::{Catalogue, ObjectId, Step};
use std::collections::{BTreeSet, HashMap};

/// Inputs of one operator that are looked at, views of views included.
const MOST_INPUTS: usize = 512;

/// Of each operator of a step, those whose results it reads. An input that no operator computed, as a view, stands for its
/// own inputs; one that several computed, for the last of them. What goes through memory that another object names is
/// not seen.
pub(super) fn sources(step: &Step, catalogue: &Catalogue) -> Vec<BTreeSet<usize>> {
    let mut computed: HashMap<u64, usize> = HashMap::new();
    let mut all = Vec::with_capacity(step.operators.len());
    for (index, operator) in step.operators.iter().enumerate() {
        let Some(object) = operator.object else {
            all.push(BTreeSet::new());
            continue;
        };
        // What an object is, one of the lanes says, which need not be the first to begin: by the end it has.
        all.push(sources_of(object, operator.end, catalogue, &computed));
        computed.insert(catalogue.address(object), index);
    }
    all
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
