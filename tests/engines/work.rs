//! What an engine computes, as both sides say it: the engine itself ([`crate::truth`]) and a recording of it
//! ([`crate::recording`]). Equal work is equal values of these types.

use std::collections::BTreeMap;

/// A tensor: of an operator, its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tensor {
    pub(crate) op: String,
    pub(crate) name: String,
    /// In lower case: engines call a type `f32`, their debug information `F32`.
    pub(crate) dtype: String,
    pub(crate) shape: [i64; 4],
}

/// An operator for which a kernel was called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Operator {
    pub(crate) result: Tensor,
    pub(crate) inputs: Vec<Tensor>,
}

/// One graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Graph {
    /// In lower case.
    pub(crate) backend: String,
    /// Nodes, also those that no kernel is called for.
    pub(crate) nodes: u64,
    /// In the order of execution, each part of a fused one for itself.
    pub(crate) operators: Vec<Operator>,
}

/// One call that takes tokens in and makes the next one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    /// The engine's function.
    pub(crate) call: String,
    pub(crate) tokens: u64,
    pub(crate) graphs: Vec<Graph>,
}

/// The experts that a node's tokens were sent to: for each token, their numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Experts {
    pub(crate) step: usize,
    pub(crate) node: String,
    pub(crate) ids: Vec<Vec<i64>>,
}

impl Step {
    pub(crate) fn operators(&self) -> impl Iterator<Item = &Operator> {
        self.graphs.iter().flat_map(|graph| &graph.operators)
    }
}

/// How often each operator type occurs.
pub(crate) fn operator_types<'a>(operators: impl Iterator<Item = &'a Operator>) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for operator in operators {
        *counts.entry(operator.result.op.clone()).or_default() += 1;
    }
    counts
}

/// Fails, with the first difference, unless both are the same work.
pub(crate) fn assert_same(what: &str, recorded: &[Step], truth: &[Step]) {
    assert_eq!(recorded.len(), truth.len(), "{what}: steps");
    for (number, (recorded, truth)) in recorded.iter().zip(truth).enumerate() {
        let place = format!("{what}: step {}", number + 1);
        assert_eq!((&recorded.call, recorded.tokens), (&truth.call, truth.tokens), "{place}: call and tokens");
        assert_eq!(recorded.graphs.len(), truth.graphs.len(), "{place}: graphs");
        for (graph, (recorded, truth)) in recorded.graphs.iter().zip(&truth.graphs).enumerate() {
            let place = format!("{place}, graph {graph}");
            assert_eq!((&recorded.backend, recorded.nodes), (&truth.backend, truth.nodes), "{place}: backend, nodes");
            for (index, (recorded, truth)) in recorded.operators.iter().zip(&truth.operators).enumerate() {
                assert_eq!(recorded, truth, "{place}, operator {index}: recorded (left), the engine's word (right)");
            }
            assert_eq!(recorded.operators.len(), truth.operators.len(), "{place}: operators");
        }
    }
}
