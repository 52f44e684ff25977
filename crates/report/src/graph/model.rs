//! A graph as data: its JSON is this, field by field, and `docs/graph.md` documents every key. Times are ns of the mean
//! step, shares are from 0 to 1.

use crate::model::metrics::{CountValue, Measures, MetricCell};
use crate::model::rows::TraceFacts;
use crate::numbers::units::time_f64;
use profinfer_analysis::{
    Completeness, CriticalPath, DeviceTime, Edge, Fold, Layers, Node, NodeKind, OperatorGraph, Recorded, Rules,
    Timeline,
};
use profinfer_trace::Meta;
use serde::Serialize;
use std::collections::BTreeSet;

/// A graph of operators, with where it comes from.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GraphReport {
    /// `profinfer-graph`.
    pub format: &'static str,
    /// Raised when a key changes its meaning.
    pub version: u32,
    /// Is something missing of the trace?
    pub completeness: Completeness,
    /// Where the trace comes from.
    pub trace: TraceFacts,
    /// Of which step, or of the mean of which steps.
    pub step: StepView,
    /// The metric that is a speed of data, by which nodes can be coloured; `None` where the probeset has none.
    pub bandwidth: Option<BandwidthView>,
    /// Operators in the order of execution, then data.
    pub nodes: Vec<NodeView>,
    /// What reads what.
    pub edges: Vec<EdgeView>,
    /// What one backend made and another one reads, each once.
    pub crossings: Vec<CrossingView>,
    /// The dependent operators that take longest together.
    pub critical_path: CriticalView,
    /// The operators by layers, those that are alike together.
    pub folded: FoldView,
    /// The operators by layers, each for itself.
    pub unfolded: FoldView,
    /// Nodes and edges beyond the limits; both are 0 except for very large graphs.
    pub left_out: LeftOut,
}

/// The step, or steps.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StepView {
    /// The first one's number.
    pub number: u64,
    /// Steps that the times are means of.
    pub steps: u64,
    /// Steps that were asked for and are left out: of another phase or number of tokens, with other operators, or not
    /// recorded whole.
    pub steps_left_out: u64,
    /// `prefill` or `decode`.
    pub phase: &'static str,
    /// Tokens of each.
    pub tokens: Option<u64>,
    /// ns.
    pub duration_ns: f64,
    /// ns: duration by lanes.
    pub lane_time_ns: f64,
    /// Lanes.
    pub lanes: u64,
    /// No record was lost during them.
    pub complete: bool,
    /// `whole`; `partly` or `bare` where not all operators were recorded.
    pub recorded: &'static str,
}

/// A metric in bytes a second.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BandwidthView {
    /// Its name.
    pub metric: String,
    /// How it is worked out.
    pub expression: String,
}

/// A node.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NodeView {
    /// `n` and its index.
    pub id: String,
    /// `operator`, `weight`, `cache`, `input`, `unknown`.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// The name without its layer's number.
    pub pattern: String,
    /// Its type.
    pub op: String,
    /// What was computed along with it.
    pub covers: Option<String>,
    /// Its layer.
    pub layer: Option<String>,
    /// Its description names no layer: its place does.
    pub layer_by_place: bool,
    /// Element type.
    pub dtype: Option<String>,
    /// Shape.
    pub shape: Vec<i64>,
    /// The backend; `null` for data.
    pub backend: Option<String>,
    /// What its times are if a device computes it, without the host's: `measured`, `estimated`, or `unknown` and 0;
    /// `null` on the host, and for data.
    pub device: Option<&'static str>,
    /// Its result lies in memory of another object.
    pub in_place: bool,
    /// It is on the critical path.
    pub critical: bool,
    /// Times and measures; `null` for data.
    pub cost: Option<NodeCost>,
}

/// What an operator took.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NodeCost {
    /// From the step's start.
    pub start_ns: f64,
    /// From the first lane's start to the last lane's end of work.
    pub elapsed_ns: f64,
    /// All lanes together.
    pub work_ns: f64,
    /// All lanes together; `None` where it was not recorded: then it is part of the work.
    pub waiting_ns: Option<f64>,
    /// Its work in the step's lane time.
    pub share: f64,
    /// Lanes that took part.
    pub lanes: u32,
    /// Counters, summed over the steps.
    pub counts: Vec<CountValue>,
    /// Metrics, over the steps.
    pub metrics: Vec<MetricCell>,
}

/// An edge.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EdgeView {
    /// The node that is read.
    pub from: String,
    /// The node that reads it.
    pub to: String,
    /// `direct`, `view`, `memory`.
    pub via: &'static str,
    /// As which inputs, from 0.
    pub inputs: Vec<u16>,
    /// It is on the critical path.
    pub critical: bool,
}

/// A result that another backend reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CrossingView {
    /// The operator.
    pub node: String,
    /// Its name.
    pub name: String,
    /// The backend that made it.
    pub from: String,
    /// The backend that reads it.
    pub to: String,
    /// Bytes of it; `None` where the size of its elements is not known.
    pub bytes: Option<u64>,
}

/// The critical path.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CriticalView {
    /// In the order of dependence.
    pub nodes: Vec<String>,
    /// Its operators' times together.
    pub elapsed_ns: f64,
    /// Of the step's duration.
    pub share: f64,
    /// Of the time of all operators.
    pub share_of_operators: f64,
}

/// Operators in sections.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FoldView {
    /// In the order of execution.
    pub sections: Vec<SectionView>,
}

/// Layers that are alike, or what belongs to none.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SectionView {
    /// `layers 0–2 ×3`, `layer 3`; empty for what belongs to no layer.
    pub title: String,
    /// The layers.
    pub layers: Vec<String>,
    /// Work of each of the layers.
    pub work_ns: Vec<f64>,
    /// The oddest of `odd_layers`.
    pub odd_layer: Option<String>,
    /// Those of the layers that are odd among all of their model's over the steps of this phase, as the statistics have
    /// it; the furthest off first.
    pub odd_layers: Vec<String>,
    /// For each operator, its node in each of the layers.
    pub nodes: Vec<Vec<String>>,
}

/// Nodes and edges that are not in the graph.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LeftOut {
    /// Nodes.
    pub nodes: u64,
    /// Edges.
    pub edges: u64,
}

/// An index as an identifier.
pub(super) fn id(index: usize) -> String {
    format!("n{index}")
}

impl GraphReport {
    /// Of a graph of a trace that was read to its end, with the layers of all of its steps.
    pub fn new(
        graph: &OperatorGraph,
        (meta, timeline): (&Meta, &Timeline),
        completeness: Completeness,
        layers: &Layers,
    ) -> Self {
        let measures = Measures::new(&meta.schema, timeline);
        let path = CriticalPath::of(graph);
        let mut on_path = vec![usize::MAX; graph.nodes.len()];
        path.nodes.iter().enumerate().for_each(|(position, node)| on_path[*node] = position);
        let nodes: Vec<NodeView> = (graph.nodes.iter().enumerate())
            .map(|(i, node)| NodeView::new(i, node, graph, &measures, on_path[i] != usize::MAX))
            .collect();
        let critical = |from: usize, to: usize| {
            on_path[from] != usize::MAX && on_path[to] != usize::MAX && on_path[from] + 1 == on_path[to]
        };
        let edges = graph.edges.iter().map(|edge| EdgeView {
            from: id(edge.from),
            to: id(edge.to),
            via: edge.via.as_str(),
            inputs: edge.inputs.clone(),
            critical: critical(edge.from, edge.to),
        });
        let named: BTreeSet<&str> =
            graph.nodes[..graph.operators()].iter().filter_map(|n| n.layer.as_deref()).collect();
        let odd = layers.odd(graph.step.phase, &named);
        let all: u64 =
            graph.nodes.iter().map(|node| node.elapsed.saturating_sub(node.nested)).fold(0, u64::saturating_add);
        let all = graph.mean(all);
        Self {
            format: "profinfer-graph",
            version: 1,
            completeness,
            trace: TraceFacts::new(meta),
            step: StepView::new(graph),
            bandwidth: bandwidth(&nodes, timeline),
            edges: edges.collect(),
            crossings: crossings(graph, timeline.rules()),
            critical_path: CriticalView {
                nodes: path.nodes.iter().map(|node| id(*node)).collect(),
                elapsed_ns: path.elapsed,
                share: path.share,
                share_of_operators: if all > 0.0 { path.elapsed / all } else { 0.0 },
            },
            folded: FoldView::new(&Fold::folded(graph), &odd),
            unfolded: FoldView::new(&Fold::unfolded(graph), &odd),
            left_out: LeftOut { nodes: graph.nodes_left_out, edges: graph.edges_left_out },
            nodes,
        }
    }

    /// The node of that identifier.
    pub(super) fn index(&self, id: &str) -> Option<usize> {
        id.strip_prefix('n')?.parse().ok().filter(|index| *index < self.nodes.len())
    }
}

fn crossings(graph: &OperatorGraph, rules: &Rules) -> Vec<CrossingView> {
    let mut seen = BTreeSet::new();
    let crossing = |edge: &Edge| {
        let (node, reader) = (graph.nodes.get(edge.from)?, graph.nodes.get(edge.to)?);
        let (from, to) = (node.backend.as_ref()?, reader.backend.as_ref()?);
        (from != to && seen.insert((edge.from, to))).then(|| CrossingView {
            node: id(edge.from),
            name: node.name.to_string(),
            from: from.to_string(),
            to: to.to_string(),
            bytes: node.dtype.as_deref().and_then(|dtype| rules.bytes_of(dtype, &node.shape)),
        })
    };
    graph.edges.iter().filter_map(crossing).collect()
}

impl StepView {
    fn new(graph: &OperatorGraph) -> Self {
        let step = &graph.step;
        Self {
            number: step.number,
            steps: step.steps,
            steps_left_out: step.left_out,
            phase: step.phase.as_str(),
            tokens: step.tokens,
            duration_ns: graph.mean(step.duration),
            lane_time_ns: graph.mean(step.lane_time),
            lanes: step.lanes,
            complete: step.complete,
            recorded: Recorded::as_str(step.recorded),
        }
    }
}

impl NodeView {
    fn new(index: usize, node: &Node, graph: &OperatorGraph, measures: &Measures<'_>, critical: bool) -> Self {
        let text = |text: &Option<std::sync::Arc<str>>| text.as_ref().map(ToString::to_string);
        let lane_time = graph.mean(graph.step.lane_time);
        let divided = node.divided();
        let cost = || NodeCost {
            start_ns: graph.mean(node.start),
            elapsed_ns: graph.mean(node.elapsed),
            work_ns: graph.mean(divided.work),
            waiting_ns: divided.waiting.map(|waiting| graph.mean(waiting)),
            share: if lane_time > 0.0 { graph.mean(divided.work) / lane_time } else { 0.0 },
            lanes: node.lanes,
            counts: measures.counts(&node.quantities),
            metrics: measures.metrics(&node.quantities, divided.work),
        };
        Self {
            id: id(index),
            kind: node.kind.as_str(),
            name: node.name.to_string(),
            pattern: node.pattern.to_string(),
            op: node.op.to_string(),
            covers: text(&node.covers),
            layer: text(&node.layer),
            layer_by_place: node.layer_by_place,
            dtype: text(&node.dtype),
            shape: node.shape.to_vec(),
            backend: text(&node.backend),
            device: node.device.map(DeviceTime::as_str),
            in_place: node.in_place,
            critical,
            cost: (node.kind == NodeKind::Operator).then(cost),
        }
    }

    /// A time of it in words: an estimate is called one.
    pub(super) fn time(&self, ns: f64) -> String {
        match self.device {
            Some("estimated") => format!("~ {}", time_f64(ns)),
            Some("unknown") => "unknown".to_owned(),
            _ => time_f64(ns),
        }
    }

    /// What it took; nothing for data.
    pub(super) fn elapsed(&self) -> f64 {
        self.cost.as_ref().map_or(0.0, |cost| cost.elapsed_ns)
    }
}

impl FoldView {
    fn new(fold: &Fold, odd: &[&str]) -> Self {
        let section = |section: &profinfer_analysis::Section| {
            let layers: Vec<String> = section.layers.iter().map(ToString::to_string).collect();
            let is_here = |odd: &&&str| layers.iter().any(|layer| layer == **odd);
            let odd_layers: Vec<String> = odd.iter().filter(is_here).map(|odd| (*odd).to_owned()).collect();
            SectionView {
                title: title(&layers),
                work_ns: section.work.clone(),
                odd_layer: odd_layers.first().cloned(),
                odd_layers,
                nodes: (section.nodes.iter())
                    .map(|node| fold.nodes[*node].members.iter().map(|i| id(*i)).collect())
                    .collect(),
                layers,
            }
        };
        Self { sections: fold.sections.iter().map(section).collect() }
    }
}

/// `layers 0–2 ×3`; layers whose numbers do not follow one another are listed.
pub(super) fn title(layers: &[String]) -> String {
    match layers {
        [] => String::new(),
        [one] => format!("layer {one}"),
        [first, .., last] => {
            let numbers: Vec<Option<u64>> = layers.iter().map(|layer| layer.parse().ok()).collect();
            let follow = |pair: &[Option<u64>]| matches!(pair, [Some(a), Some(b)] if a.checked_add(1) == Some(*b));
            if numbers.windows(2).all(follow) {
                format!("layers {first}–{last} ×{}", layers.len())
            } else {
                format!("layers {} ×{}", layers.join(", "), layers.len())
            }
        }
    }
}

/// The first metric in bytes a second that some node has.
fn bandwidth(nodes: &[NodeView], timeline: &Timeline) -> Option<BandwidthView> {
    let is_there = |name: &str| {
        nodes
            .iter()
            .filter_map(|node| node.cost.as_ref())
            .any(|cost| cost.metrics.iter().any(|cell| cell.metric == name))
    };
    let metric = timeline.rules().metrics().iter().find(|metric| &*metric.unit == "B/s" && is_there(&metric.name))?;
    Some(BandwidthView { metric: metric.name.to_string(), expression: metric.text.to_string() })
}
