//! Edges by the addresses that operators' records say they read and wrote: who reads an address reads what was written
//! there last. Memory is used again within a step, which the order of the operators resolves.

use super::{Node, NodeKind};
use crate::catalogue::Catalogue;
use crate::ids::KindId;
use crate::raw::Operands;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Addresses that operators of any step wrote, in memory.
const MAX_WRITTEN: usize = 1 << 18;
/// Operators at one time: calls within calls, of all threads.
const MAX_OPEN: usize = 1 << 10;

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
    /// Its description says that it is a weight, or that it is none.
    constant: Option<bool>,
    /// An operator may have made it: one that calls its reader, or one whose results are not recorded.
    doubtful: bool,
}

/// One operator of a step, as far as edges go.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span<'s> {
    /// The thread of its first lane.
    pub(super) tid: u32,
    /// ns.
    pub(super) start: u64,
    /// ns.
    pub(super) end: u64,
    /// What it read and wrote.
    pub(super) operands: &'s Operands,
}

/// What the operators of a step have written, while they are gone through in the order of their starts.
#[derive(Debug, Default)]
pub(super) struct Written<'s> {
    /// The operator that wrote an address last, and its end.
    writers: FxHashMap<u64, (usize, u64)>,
    /// Operators that may not have ended.
    open: Vec<(usize, Span<'s>)>,
    by_address: FxHashMap<u64, usize>,
    leaves: Vec<ReadLeaf>,
}

impl<'s> Written<'s> {
    /// What an operator reads, each origin once, with the positions of the inputs. Operators come in the order of their
    /// starts.
    pub(super) fn origins(&mut self, reader: usize, span: Span<'s>) -> Vec<(Origin, Vec<u16>)> {
        self.close(span.start);
        let mut found: BTreeMap<Origin, Vec<u16>> = BTreeMap::new();
        for (position, address) in span.operands.reads.iter().copied().enumerate().filter(|(_, address)| *address != 0)
        {
            let writer = self.writers.get(&address).copied();
            if self.is_part_of_writer(&span, address, writer.map(|(_, end)| end)) {
                continue;
            }
            let origin = match writer {
                Some((operator, _)) => Origin::Operator(operator),
                None => {
                    let next = self.leaves.len();
                    let leaf = *self.by_address.entry(address).or_insert(next);
                    if leaf == next {
                        let doubtful = self.around(&span).next().is_some();
                        let (moves, constant) = (false, None);
                        self.leaves.push(ReadLeaf { address, reader, position, moves, constant, doubtful });
                    }
                    Origin::Leaf(leaf)
                }
            };
            found.entry(origin).or_default().extend(u16::try_from(position));
        }
        if self.open.len() < MAX_OPEN {
            self.open.push((reader, span));
        }
        let mut found: Vec<(Origin, Vec<u16>)> = found.into_iter().collect();
        found.sort_by(|(a, at), (b, bt)| at.cmp(bt).then(a.cmp(b)));
        found
    }

    /// Those that have ended by then have written.
    fn close(&mut self, time: u64) {
        let mut ended: Vec<(usize, Span<'s>)> = self.open.extract_if(.., |(_, of)| of.end <= time).collect();
        ended.sort_by_key(|(operator, of)| (of.end, *operator));
        for (operator, of) in ended {
            self.writers.extend(of.operands.writes.iter().map(|address| (*address, (operator, of.end))));
        }
    }

    /// An operator that another one calls may read what that one is about to have written: nobody else's result.
    fn is_part_of_writer(&self, span: &Span<'_>, address: u64, written: Option<u64>) -> bool {
        self.around(span).any(|of| of.operands.writes.contains(&address) && written.is_none_or(|end| end <= of.start))
    }

    /// The operators that call this one.
    fn around(&self, span: &Span<'_>) -> impl Iterator<Item = &Span<'s>> {
        let (tid, end) = (span.tid, span.end);
        self.open.iter().map(|(_, of)| of).filter(move |of| of.tid == tid && of.end >= end)
    }

    /// The leaves, in the order in which they were read; `all`: of each operator it is recorded what it wrote.
    pub(super) fn leaves(mut self, all: bool) -> Vec<ReadLeaf> {
        self.leaves.iter_mut().for_each(|leaf| leaf.doubtful |= !all);
        self.leaves
    }
}

impl ReadLeaf {
    /// Another step like the first has these operands for its reader.
    pub(super) fn compare<'o>(&mut self, operands: impl Fn(usize) -> Option<&'o Operands>) {
        let address = operands(self.reader).and_then(|of| of.reads.get(self.position));
        self.moves |= address.is_some_and(|address| *address != self.address);
    }

    /// As its description says; else an input moves, or is in memory that operators' results use, too.
    pub(super) fn kind(&self, written: &EverWritten) -> NodeKind {
        match self.constant {
            Some(true) => NodeKind::Weight,
            _ if self.doubtful => NodeKind::Unknown,
            Some(false) => NodeKind::Input,
            None if self.moves || written.0.contains(&self.address) => NodeKind::Input,
            None => NodeKind::Data,
        }
    }

    /// A node of it, as its reader's record describes it.
    pub(super) fn describe(&mut self, kind: impl Fn(usize) -> Option<KindId>, catalogue: &Catalogue) -> Node {
        let reader = kind(self.reader).map(|kind| catalogue.kind(kind));
        let described = reader.and_then(|kind| catalogue.described_as(*kind.inputs.get(self.position)?));
        self.constant = described.and_then(|of| of.constant);
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
            self.0.extend(&operands.writes);
        }
    }
}
