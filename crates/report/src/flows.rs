//! Where the results of a step's operators go: for each, which of the step's operators made what it reads.

use profinfer_analysis::{Catalogue, ObjectId, Step};
use std::collections::HashMap;

/// Inputs of one operator that are followed, views of views included.
const MOST_INPUTS: usize = 512;

/// Of each operator of a step, those whose results it reads, in their order.
#[derive(Debug, Clone, Default)]
pub(super) struct Sources {
    /// Where each operator's sources end in `list`.
    ends: Vec<u32>,
    list: Vec<u32>,
}

impl Sources {
    /// Of each operator.
    pub(super) fn iter(&self) -> impl Iterator<Item = &[u32]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let range = |(start, end): (u32, &u32)| self.list.get(start as usize..*end as usize).unwrap_or(&[]);
        starts.zip(&self.ends).map(range)
    }

    fn clear(&mut self) {
        self.ends.clear();
        self.list.clear();
    }
}

/// Finds sources, step after step. It holds on to its memory: a trace may have millions of steps.
#[derive(Debug, Default)]
pub(super) struct SourceFinder {
    computed: HashMap<u64, u32>,
    found: Vec<u32>,
    seen: Vec<u64>,
    waiting: Vec<u64>,
}

impl SourceFinder {
    /// Of each operator of a step, those whose results it reads, `most` of them. An input that no operator computed, as a
    /// view, stands for its inputs; one that several computed, for the last of them. What goes through memory that
    /// another object names is not seen.
    pub(super) fn find(&mut self, step: &Step, catalogue: &Catalogue, most: usize, sources: &mut Sources) {
        sources.clear();
        self.computed.clear();
        for (index, operator) in (0_u32..).zip(&step.operators) {
            if let Some(object) = operator.object {
                // One of the lanes describes an object, which need not be the first to begin: by the end it has.
                self.sources_of(object, operator.end, catalogue);
                sources.list.extend(self.found.iter().take(most));
                self.computed.insert(catalogue.address(object), index);
            }
            sources.ends.push(u32::try_from(sources.list.len()).unwrap_or(u32::MAX));
        }
    }

    /// The operators whose results an object is made of, into `found`.
    fn sources_of(&mut self, object: ObjectId, time: u64, catalogue: &Catalogue) {
        let Self { computed, found, seen, waiting } = self;
        found.clear();
        seen.clear();
        waiting.clear();
        waiting.extend(catalogue.inputs(object, time));
        while let Some(address) = waiting.pop() {
            if seen.len() >= MOST_INPUTS || seen.contains(&address) {
                continue;
            }
            seen.push(address);
            match computed.get(&address) {
                Some(index) => found.push(*index),
                None => {
                    if let Some(view) = catalogue.sibling(object, address) {
                        waiting.extend(catalogue.inputs(view, time).iter().take(MOST_INPUTS));
                    }
                }
            }
        }
        found.sort_unstable();
        found.dedup();
    }
}
