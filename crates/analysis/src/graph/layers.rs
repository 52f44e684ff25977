//! The layer of a node without one in its description: by its place among nodes with a layer.

use super::{Node, OperatorGraph};
use std::sync::Arc;

/// An operator between two of the same layer is of that layer; data that one layer alone reads is of that layer.
pub(super) fn infer(graph: &mut OperatorGraph) {
    let count = graph.operators();
    let (operators, leaves) = graph.nodes.split_at_mut(count);
    infer_operators(operators);
    let mut readers: Vec<Option<Option<Arc<str>>>> = vec![None; leaves.len()];
    for edge in &graph.edges {
        let Some(leaf) = edge.from.checked_sub(count).and_then(|leaf| readers.get_mut(leaf)) else { continue };
        let layer = operators.get(edge.to).and_then(|reader| reader.layer.clone());
        *leaf = match leaf.take() {
            None => Some(layer),
            Some(found) => Some(found.filter(|found| Some(found) == layer.as_ref())),
        };
    }
    for (leaf, reader) in leaves.iter_mut().zip(readers) {
        if leaf.layer.is_none()
            && let Some(Some(layer)) = reader
        {
            leaf.layer = Some(layer);
            leaf.layer_by_place = true;
        }
    }
}

fn infer_operators(operators: &mut [Node]) {
    let mut before: Option<Arc<str>> = None;
    let mut from = 0;
    for index in 0..operators.len() {
        let Some(layer) = operators[index].layer.clone() else { continue };
        if before.as_ref() == Some(&layer) {
            for node in &mut operators[from..index] {
                node.layer = Some(layer.clone());
                node.layer_by_place = true;
            }
        }
        before = Some(layer);
        from = index + 1;
    }
}
