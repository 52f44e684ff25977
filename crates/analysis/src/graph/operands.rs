//! Edges by the addresses that operators' records say they read and wrote: who reads an address reads what was written
//! there last. Memory is used again within a step, which the order of the operators resolves.

use super::{MAX_NODES, Node, NodeKind};
use crate::catalogue::Catalogue;
use crate::ids::KindId;
use crate::raw::Operands;
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

/// Addresses that operators of any step wrote, in memory.
const MAX_WRITTEN: usize = 1 << 18;

/// Where data that is read comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Origin {
    /// The operator of that index.
    Operator(usize),
    /// It was there before: the leaf of that index.
    Leaf(usize),
}

/// Data that a step reads and that none of its operators wrote before.
#[derive(Debug)]
pub(super) struct ReadLeaf {
    address: u64,
    /// The operator that reads it first.
    reader: usize,
    /// As which of its inputs.
    position: usize,
    /// It is elsewhere in another step.
    moves: bool,
}

/// What the operators of a step have written, while they are gone through in the order of their starts.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// The operator that wrote an address last.
    writers: FxHashMap<u64, usize>,
    /// Operators that may not have ended, by their ends.
    open: BinaryHeap<Reverse<(u64, usize)>>,
    by_address: FxHashMap<u64, usize>,
    leaves: Vec<ReadLeaf>,
}

impl Written {
    /// What an operator that starts then reads, each origin once, with the positions of the inputs. `operands` gives
    /// those of an earlier operator.
    pub(super) fn origins<'o>(
        &mut self,
        reader: usize,
        start: u64,
        reads: &[u64],
        operands: impl Fn(usize) -> Option<&'o Operands>,
    ) -> Vec<(Origin, Vec<u16>)> {
        while let Some(Reverse((end, operator))) = self.open.peek().copied()
            && end <= start
        {
            self.open.pop();
            let writes = operands(operator).map_or(&[][..], |of| &of.writes);
            self.writers.extend(writes.iter().map(|address| (*address, operator)));
        }
        let mut found: BTreeMap<Origin, Vec<u16>> = BTreeMap::new();
        for (position, address) in reads.iter().copied().enumerate().filter(|(_, address)| *address != 0) {
            let origin = match self.writers.get(&address) {
                Some(operator) => Origin::Operator(*operator),
                None => {
                    let next = self.leaves.len();
                    let leaf = *self.by_address.entry(address).or_insert(next);
                    if leaf == next {
                        self.leaves.push(ReadLeaf { address, reader, position, moves: false });
                    }
                    Origin::Leaf(leaf)
                }
            };
            found.entry(origin).or_default().extend(u16::try_from(position));
        }
        let mut found: Vec<(Origin, Vec<u16>)> = found.into_iter().collect();
        found.sort_by(|(a, at), (b, bt)| at.cmp(bt).then(a.cmp(b)));
        found
    }

    /// An operator began, and ends then.
    pub(super) fn opens(&mut self, operator: usize, end: u64) {
        self.open.push(Reverse((end, operator)));
    }

    /// The leaves, in the order in which they were read.
    pub(super) fn leaves(self) -> Vec<ReadLeaf> {
        self.leaves
    }
}

impl ReadLeaf {
    /// Another step like the first has these operands for its reader.
    pub(super) fn compare<'o>(&mut self, operands: impl Fn(usize) -> Option<&'o Operands>) {
        let address = operands(self.reader).and_then(|of| of.reads.get(self.position));
        self.moves |= address.is_some_and(|address| *address != self.address);
    }

    /// Weights stay where they are, in memory that nothing else gets.
    pub(super) fn kind(&self, written: &EverWritten) -> NodeKind {
        if self.moves || written.0.contains(&self.address) { NodeKind::Input } else { NodeKind::Weight }
    }

    /// A node of it, as its reader's record describes it.
    pub(super) fn node(&self, kinds: &[KindId], catalogue: &Catalogue) -> Node {
        let reader = kinds.get(self.reader).map(|kind| catalogue.kind(*kind));
        let described = reader.and_then(|kind| catalogue.described_as(*kind.inputs.get(self.position)?));
        let of_reader = |name: &str| format!("{name}.inputs[{}]", self.position);
        let name = described.and_then(|of| of.name.clone());
        let name = name.or_else(|| Some(of_reader(&reader?.name).into())).unwrap_or_else(|| "?".into());
        let pattern = reader.map_or_else(|| Arc::clone(&name), |kind| of_reader(&kind.pattern).into());
        Node {
            dtype: described.and_then(|of| of.dtype.clone()),
            shape: described.and_then(|of| of.shape.clone()).unwrap_or_default(),
            layer: reader.and_then(|kind| kind.layer.clone()),
            ..Node::bare(NodeKind::Unknown, name, pattern, "".into())
        }
    }
}

/// The addresses that operators wrote in any step: memory that is used again.
#[derive(Debug, Default)]
pub(super) struct EverWritten(FxHashSet<u64>);

impl EverWritten {
    /// What an operator wrote.
    pub(super) fn add(&mut self, operands: &Operands) {
        if self.0.len() < MAX_WRITTEN {
            self.0.extend(operands.writes.iter().take(MAX_NODES));
        }
    }
}
