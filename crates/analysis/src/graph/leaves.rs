//! What data is that no operator of a step made: weights, caches and inputs are told apart by what happens to them,
//! not by their names.

use super::sources::Memory;
use super::{Node, NodeKind};
use crate::catalogue::Catalogue;
use crate::ids::ObjectId;
use std::sync::Arc;

/// Descriptions that are made together with a graph are at most this many bytes apart.
const NEAR: u64 = 4096;

/// Data that a step reads, not classified yet.
#[derive(Debug, Clone)]
pub(super) struct Leaf {
    object: Option<ObjectId>,
    address: u64,
    written: bool,
    made_with_graph: bool,
}

impl Leaf {
    /// Of the object at an address, at the end of the step.
    pub(super) fn new(
        object: Option<ObjectId>,
        address: u64,
        since: u64,
        time: u64,
        memory: &Memory<'_>,
        catalogue: &Catalogue,
    ) -> Self {
        let described = object.and_then(|object| catalogue.at(object, time));
        let overlaps =
            described.and_then(|described| described.data).is_some_and(|data| memory.overlaps_written(&data));
        let written = memory.is_written(address, since) || overlaps;
        Self { object, address, written, made_with_graph: false }
    }

    /// What it is, at the end of the trace.
    pub(super) fn kind(&self, catalogue: &Catalogue) -> NodeKind {
        match self.object {
            None => NodeKind::Unknown,
            Some(_) if self.written => NodeKind::Cache,
            Some(object) if self.made_with_graph || catalogue.has_changed(object) => NodeKind::Input,
            Some(_) => NodeKind::Weight,
        }
    }
}

/// A node of data, from its description at a time.
pub(super) fn node(object: Option<ObjectId>, time: u64, catalogue: &Catalogue) -> Node {
    let described = object.and_then(|object| catalogue.at(object, time));
    let described = described.as_ref();
    let unknown = || Arc::from("not described");
    let op = described.and_then(|described| described.op.cloned()).unwrap_or_else(|| Arc::from(""));
    let name = described.map_or_else(unknown, |described| described.name.unwrap_or(&op).clone());
    let layer = described.and_then(|described| described.layer.cloned());
    let pattern = crate::catalogue::collapse_digits(&name, layer.as_deref()).into();
    Node {
        dtype: described.and_then(|described| described.dtype.cloned()),
        shape: described.map_or_else(|| Arc::from([]), |described| described.shape.into()),
        layer,
        ..Node::bare(NodeKind::Unknown, name, pattern, op)
    }
}

/// Data whose description lies beside those of the graph's results was made with the graph, each time anew: it is
/// no weight, even if it never changes.
pub(super) fn find_neighbours(leaves: &mut [Leaf], memory: &Memory<'_>) {
    let mut order: Vec<usize> = (0..leaves.len()).filter(|i| leaves[*i].object.is_some()).collect();
    order.sort_by_key(|i| leaves[*i].address);
    let spread = |leaves: &mut [Leaf], order: &mut dyn Iterator<Item = usize>| {
        let mut before: Option<u64> = None;
        for i in order {
            let address = leaves[i].address;
            let mut near = memory.made.range(address.saturating_sub(NEAR)..=address.saturating_add(NEAR));
            leaves[i].made_with_graph |=
                near.next().is_some() || before.is_some_and(|before| before.abs_diff(address) <= NEAR);
            before = if leaves[i].made_with_graph { Some(address) } else { None };
        }
    };
    spread(leaves, &mut order.iter().copied());
    spread(leaves, &mut order.iter().rev().copied());
}
