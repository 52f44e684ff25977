//! The layers of operators whose names have none: where the operators before and after one in its graph are of the same
//! layer, so is it. It is marked as inferred.

use super::model::Operator;
use crate::catalogue::Catalogue;
use std::sync::Arc;

/// Operators between two of a layer that may be of it.
const MOST_BETWEEN: usize = 64;

/// Sets the kinds of operators, which are in the order of execution, to those of their inferred layers.
pub(super) fn infer(operators: &mut [Operator], catalogue: &mut Catalogue) {
    let mut before: Option<(usize, u32, Arc<str>)> = None;
    for index in 0..operators.len() {
        let Operator { kind, graph, .. } = operators[index];
        let Some(graph) = graph else { continue };
        let Some(layer) = catalogue.kind(kind).layer.clone() else { continue };
        if let Some((from, of, same)) = &before
            && *of == graph
            && *same == layer
            && (1..=MOST_BETWEEN).contains(&(index - from - 1))
        {
            for between in &mut operators[from + 1..index] {
                if between.graph == Some(graph) && catalogue.kind(between.kind).layer.is_none() {
                    between.kind = catalogue.with_layer(between.kind, &layer);
                }
            }
        }
        before = Some((index, graph, layer));
    }
}
