//! Where the results of a step's operators go: for each, which of the step's operators made what it reads.

use profinfer_analysis::{Catalogue, ObjectId, Step};
use rustc_hash::FxHashMap;

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

    fn copy_from(&mut self, other: &Self) {
        self.ends.clone_from(&other.ends);
        self.list.clone_from(&other.list);
    }
}

/// Finds sources, step after step. It holds on to its memory: a trace may have millions of steps.
#[derive(Debug, Default)]
pub(super) struct SourceFinder {
    computed: FxHashMap<u64, u32>,
    found: Vec<u32>,
    seen: Vec<u64>,
    waiting: Vec<u64>,
    before: Option<Found>,
}

/// What was found for a step. It holds for others of the same objects, until one of these is described anew.
#[derive(Debug, Default)]
struct Found {
    generation: u64,
    most: usize,
    objects: Vec<Option<ObjectId>>,
    sources: Sources,
}

impl SourceFinder {
    /// Of each operator of a step, those whose results it reads, `most` of them. An input that no operator computed, as a
    /// view, stands for its inputs; one that several computed, for the last of them. What goes through memory that
    /// another object names is not seen.
    pub(super) fn find(&mut self, step: &Step, catalogue: &Catalogue, most: usize, sources: &mut Sources) {
        let version = catalogue.descriptions_version();
        // All that holds for the step was described before it.
        let is_described = step.start > version.latest;
        let objects = || step.operators.iter().map(|operator| operator.object);
        let is_same = |of: &&Found| {
            (of.generation, of.most) == (version.generation, most) && objects().eq(of.objects.iter().copied())
        };
        if let Some(found) = self.before.as_ref().filter(|_| is_described).filter(is_same) {
            sources.copy_from(&found.sources);
            return;
        }
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
        if is_described {
            let before = self.before.get_or_insert_default();
            (before.generation, before.most) = (version.generation, most);
            before.objects.clear();
            before.objects.extend(objects());
            before.sources.copy_from(sources);
        }
    }

    /// The operators whose results an object is made of, into `found`.
    fn sources_of(&mut self, object: ObjectId, time: u64, catalogue: &Catalogue) {
        let Self { computed, found, seen, waiting, .. } = self;
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
