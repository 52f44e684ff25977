//! The longest way through a graph: no order of its operators, and no number of operators at a time, makes a step
//! shorter than that.

use super::OperatorGraph;

/// The dependent operators that take longest together.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CriticalPath {
    /// Indices of nodes, in the order of dependence.
    pub nodes: Vec<usize>,
    /// ns from start to end of each, together: of the mean step.
    pub elapsed: f64,
    /// Of the step's duration.
    pub share: f64,
}

impl CriticalPath {
    /// Of a graph.
    pub fn of(graph: &OperatorGraph) -> Self {
        let count = graph.operators();
        // The longest way to the end of each operator, and the operator before it on that way.
        let mut longest: Vec<(u64, Option<usize>)> = vec![(0, None); count];
        let mut edges = graph.edges.iter().peekable();
        for index in 0..count {
            let mut best: (u64, Option<usize>) = (0, None);
            while let Some(edge) = edges.next_if(|edge| edge.to <= index) {
                if edge.from < edge.to && edge.to == index {
                    let way = longest[edge.from].0;
                    if best.1.is_none() || way > best.0 {
                        best = (way, Some(edge.from));
                    }
                }
            }
            longest[index] = (best.0.saturating_add(graph.nodes[index].elapsed), best.1);
        }
        let Some(end) = (0..count).max_by_key(|i| longest[*i].0) else { return Self::default() };
        let mut nodes: Vec<usize> = std::iter::successors(Some(end), |node| longest[*node].1).take(count).collect();
        nodes.reverse();
        let elapsed = graph.mean(longest[end].0);
        let duration = graph.mean(graph.step.duration);
        Self { nodes, elapsed, share: if duration > 0.0 { elapsed / duration } else { 0.0 } }
    }
}
