//! Arrows between slices, numbered; those from an operator to those of its step that use its result.

use crate::flows::{SourceFinder, Sources};
use profinfer_analysis::{Catalogue, Step};

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
    finder: SourceFinder,
    sources: Sources,
}

impl Flows {
    /// The number of another arrow.
    pub(super) fn another(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// The arrows of each operator of a step.
    pub(super) fn of(&mut self, step: &Step, catalogue: &Catalogue) -> Vec<Arrows> {
        let mut arrows = vec![Arrows::default(); step.operators.len()];
        self.finder.find(step, catalogue, usize::MAX, &mut self.sources);
        for (index, sources) in self.sources.iter().enumerate() {
            for source in sources.iter().map(|source| *source as usize) {
                if arrows[source].outs.len() < MOST {
                    self.last += 1;
                    arrows[source].outs.push(self.last);
                    arrows[index].ins.push(self.last);
                }
            }
        }
        arrows
    }
}
