//! What an operator reads, followed to where it was made. An object that was not computed in the step is a view of
//! another one's data, or stands for what it is made of, or is data that was there before.

use super::Via;
use crate::catalogue::{Catalogue, Described};
use crate::ids::ObjectId;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::ops::Range;

/// Objects that are searched for one input.
const MAX_SEARCHED: usize = 512;
/// Views of views that are followed.
const MAX_VIEWS: usize = 16;
/// Writes into one memory that are searched for one input, the latest first.
const MAX_WRITES: usize = 1024;
/// Objects and writes that are searched for one graph.
const MAX_WORK: usize = 1 << 24;
/// All memory: of an unknown size.
const EVERYTHING: Range<u64> = 0..u64::MAX;

/// Where something that is read comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Source {
    /// An operator of the step, by its index.
    Operator(usize),
    /// Data that was there before, by the object's address and the time of its description.
    Leaf(u64, u64),
}

/// An operator wrote into memory.
#[derive(Debug, Clone)]
struct Write {
    operator: usize,
    address: u64,
    range: Range<u64>,
}

/// What a step has computed so far.
#[derive(Debug)]
pub(super) struct Memory<'a> {
    catalogue: &'a Catalogue,
    /// The operator that computed the object at an address, and from when the object's description was.
    computed: FxHashMap<u64, (usize, u64)>,
    /// By the object that owns the memory, and from when its description is.
    writes: FxHashMap<(u64, u64), Vec<Write>>,
    /// Into memory that was there before the step.
    outliving: Vec<Write>,
    /// Owners of that memory.
    written: BTreeSet<(u64, u64)>,
    /// Objects whose data was copied from others, by both addresses.
    copied: FxHashMap<u64, u64>,
    /// Addresses of objects that were made with the graph: results, views.
    pub(super) made: BTreeSet<u64>,
    work_left: usize,
}

/// The owner of an object's memory.
struct Root<'a> {
    address: u64,
    described: Option<Described<'a>>,
}

impl Root<'_> {
    /// The object, as it is described now: its address may be another object's at another time.
    fn key(&self) -> (u64, u64) {
        (self.address, self.described.as_ref().map_or(0, |described| described.since))
    }
}

impl<'a> Memory<'a> {
    pub(super) fn new(catalogue: &'a Catalogue) -> Self {
        let (computed, writes) = (FxHashMap::default(), FxHashMap::default());
        let (written, made) = (BTreeSet::new(), BTreeSet::new());
        let copied = FxHashMap::default();
        Self { catalogue, computed, writes, outliving: Vec::new(), written, copied, made, work_left: MAX_WORK }
    }

    fn described(&self, near: ObjectId, address: u64, time: u64) -> Option<Described<'a>> {
        self.catalogue.at(self.catalogue.sibling(near, address)?, time)
    }

    fn root(&self, near: ObjectId, address: u64, time: u64) -> Root<'a> {
        let mut root = Root { address, described: self.described(near, address, time) };
        for _ in 0..MAX_VIEWS {
            let view = root.described.as_ref().and_then(|described| described.view);
            let Some(view) = view.filter(|view| *view != root.address) else { break };
            root = Root { address: view, described: self.described(near, view, time) };
        }
        root
    }

    /// The operator that computed an object as it is described now.
    fn computed(&self, address: u64, described: Option<&Described<'_>>) -> Option<usize> {
        let (operator, since) = *self.computed.get(&address)?;
        (since == described.map_or(0, |described| described.since)).then_some(operator)
    }

    /// An operator is done: its result is there from now on. Tells whether it lies in another object's memory.
    pub(super) fn computes(&mut self, operator: usize, object: ObjectId, time: u64) -> bool {
        let address = self.catalogue.address(object);
        let described = self.catalogue.at(object, time);
        let root = self.root(object, address, time);
        let root_is_older = root.address != address && self.is_leaf(&root);
        let range = described.as_ref().and_then(|described| described.data.clone()).unwrap_or(EVERYTHING);
        let write = Write { operator, address, range };
        if root_is_older {
            self.outliving.push(write.clone());
            self.written.insert(root.key());
        }
        let writes = self.writes.entry(root.key()).or_default();
        if root.address == address {
            // New memory: earlier writes at that address do not count.
            writes.clear();
        }
        writes.push(write);
        self.computed.insert(address, (operator, described.map_or(0, |described| described.since)));
        self.made.insert(address);
        root.address != address
    }

    /// Data was copied: who reads one object reads what the other one had.
    pub(super) fn copies(&mut self, from: u64, to: u64) {
        if self.copied.len() < MAX_WRITES && from != to {
            self.copied.insert(to, from);
            self.made.insert(to);
        }
    }

    /// The search ends: the graph is too large, or hostile.
    pub(super) fn is_exhausted(&self) -> bool {
        self.work_left == 0
    }

    fn is_leaf(&self, root: &Root<'_>) -> bool {
        let computed = self.computed(root.address, root.described.as_ref()).is_some();
        !computed && root.described.as_ref().is_none_or(|described| described.inputs.is_empty())
    }

    /// Something in the step wrote into this data, which was there before.
    pub(super) fn is_written(&self, address: u64, since: u64) -> bool {
        self.written.contains(&(address, since))
    }

    /// The same, by the addresses of the data: another object may name the memory that is written.
    pub(super) fn overlaps_written(&self, range: &Range<u64>) -> bool {
        let mut writes = self.outliving.iter().rev().take(MAX_WRITES).filter(|write| write.range != EVERYTHING);
        writes.any(|write| overlap(&write.range, range))
    }

    /// Where one input of an operator comes from.
    pub(super) fn sources(&mut self, reader: ObjectId, input: u64, time: u64) -> Vec<(Source, Via)> {
        let mut found: Vec<(Source, Via)> = Vec::new();
        let mut seen = BTreeSet::new();
        let first = self.described(reader, input, time).and_then(|described| described.data);
        let mut waiting = vec![(input, Via::Direct, first)];
        while let Some((address, via, range)) = waiting.pop() {
            if self.work_left == 0 || seen.len() >= MAX_SEARCHED || !seen.insert(address) {
                continue;
            }
            self.work_left = self.work_left.saturating_sub(1 + found.len() + self.outliving.len().min(MAX_WRITES));
            if let Some(from) = self.copied.get(&address) {
                waiting.push((*from, Via::Memory, None));
                continue;
            }
            let described = self.described(reader, address, time);
            let root = self.root(reader, address, time);
            let range = range.or_else(|| described.as_ref().and_then(|described| described.data.clone()));
            let is_view = root.address != address;
            let via = if is_view { via.max(Via::View) } else { via };
            if let Some(operator) = self.computed(address, described.as_ref()) {
                let before = found.len();
                self.writers(&root, range.as_ref(), address, via, &mut found);
                if found.len() == before {
                    found.push((Source::Operator(operator), via));
                }
                continue;
            }
            if is_view {
                self.made.insert(address);
            }
            if self.computed(root.address, root.described.as_ref()).is_some() {
                self.writers(&root, range.as_ref(), root.address, via, &mut found);
            } else if self.is_leaf(&root) {
                self.writers_of_older(&root, range.as_ref(), via, &mut found);
                let (address, since) = root.key();
                found.push((Source::Leaf(address, since), via));
            } else if let Some(described) = &root.described {
                // Not computed separately: a part of a fused operator, or an undescribed view of its input.
                self.made.insert(root.address);
                self.writers(&root, range.as_ref(), root.address, via, &mut found);
                let inputs = described.inputs.iter().rev().take(MAX_SEARCHED);
                waiting.extend(inputs.map(|input| (*input, Via::View, None)));
            }
        }
        found
    }

    /// The operators that wrote what lies in a part of an object's memory: the latest that wrote all of it, and those
    /// after it that wrote some.
    fn writers(
        &self,
        owner: &Root<'_>,
        range: Option<&Range<u64>>,
        address: u64,
        via: Via,
        found: &mut Vec<(Source, Via)>,
    ) {
        let Some(writes) = self.writes.get(&owner.key()) else { return };
        latest(writes.iter(), range, address, via, found);
    }

    fn writers_of_older(&self, root: &Root<'_>, range: Option<&Range<u64>>, via: Via, found: &mut Vec<(Source, Via)>) {
        let of_root = root.described.as_ref().and_then(|described| described.data.as_ref());
        match range.or(of_root) {
            // Whatever object names it: memory is the same by its addresses.
            Some(range) => latest(self.outliving.iter(), Some(range), root.address, via, found),
            None => self.writers(root, None, root.address, via, found),
        }
    }
}

fn latest<'w>(
    writes: impl DoubleEndedIterator<Item = &'w Write>,
    range: Option<&Range<u64>>,
    address: u64,
    via: Via,
    found: &mut Vec<(Source, Via)>,
) {
    let range = range.unwrap_or(&EVERYTHING);
    for write in writes.rev().take(MAX_WRITES).filter(|write| overlap(&write.range, range)) {
        let via = if write.address == address { via } else { Via::Memory };
        found.push((Source::Operator(write.operator), via));
        if write.range.start <= range.start && range.end <= write.range.end {
            break;
        }
    }
}

fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}
