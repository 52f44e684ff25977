//! The ground truth: what an engine says of its own graphs, through its own evaluation callback. `graph_trace.hpp` says
//! what the lines are.

use crate::work::{Experts, Graph, Operator, Step, Tensor};
use serde::Deserialize;
use std::path::Path;

/// What an engine reports of one run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Truth {
    pub(crate) steps: Vec<Step>,
    /// By step: every node, also those that no kernel is called for.
    pub(crate) nodes: Vec<Vec<Node>>,
    /// Only where they were asked for.
    pub(crate) experts: Vec<Experts>,
}

/// A node of a graph.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) operator: Operator,
    /// A kernel is called for it.
    pub(crate) runs: bool,
}

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Line {
    Step {
        step: usize,
        call: String,
        tokens: u64,
    },
    Node {
        step: usize,
        graph: usize,
        #[serde(flatten)]
        result: Described,
        srcs: Vec<Described>,
        backend: String,
        runs: bool,
    },
    Experts {
        step: usize,
        node: String,
        ids: Vec<Vec<i64>>,
    },
}

#[derive(Deserialize)]
struct Described {
    op: String,
    name: String,
    dtype: String,
    ne: [i64; 4],
}

impl From<Described> for Tensor {
    fn from(reported: Described) -> Self {
        Self { op: reported.op, name: reported.name, dtype: reported.dtype.to_lowercase(), shape: reported.ne }
    }
}

impl Truth {
    pub(crate) fn read(path: &Path) -> Self {
        let mut truth = Self::default();
        for line in std::fs::read_to_string(path).unwrap().lines() {
            truth.add(serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")));
        }
        assert!(!truth.steps.is_empty(), "{} says nothing", path.display());
        truth
    }

    fn add(&mut self, line: Line) {
        match line {
            Line::Step { step, call, tokens } => {
                assert_eq!(step, self.steps.len());
                self.steps.push(Step { call, tokens, graphs: Vec::new() });
                self.nodes.push(Vec::new());
            }
            Line::Node { step, graph, result, srcs, backend, runs } => {
                let graphs = &mut self.steps[step].graphs;
                if graph == graphs.len() {
                    graphs.push(Graph { backend: backend.to_lowercase(), nodes: 0, operators: Vec::new() });
                }
                graphs[graph].nodes += 1;
                let inputs = srcs.into_iter().map(Tensor::from).collect();
                let operator = Operator { result: result.into(), inputs };
                if runs {
                    graphs[graph].operators.push(operator.clone());
                }
                self.nodes[step].push(Node { operator, runs });
            }
            Line::Experts { step, node, ids } => self.experts.push(Experts { step, node, ids }),
        }
    }
}
