//! The graph of a step's operators: which computed what the next one reads. It is rebuilt from what objects were
//! described with, through views, results that are written in place, and memory that one object names and another
//! reads; or from the addresses that operators' records say they read and wrote. It depends on objects and addresses, on
//! no engine.

mod critical;
mod find;
mod fold;
mod layers;
mod leaves;
mod operands;
mod sources;

pub use critical::CriticalPath;
pub use find::{GraphFinder, Wanted};
pub use fold::{Fold, Folded, Section};

use crate::ids::Phase;
use crate::sampling::{Divided, Recorded};
use crate::totals::Quantities;
use std::sync::Arc;

/// Nodes of a graph.
pub(super) const MAX_NODES: usize = 1 << 16;
/// Edges of a graph.
pub(super) const MAX_EDGES: usize = 1 << 18;

/// What a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NodeKind {
    /// It was computed in the step.
    Operator,
    /// Data that is the same in every step.
    Weight,
    /// Data that outlives the step and that an operator of the step writes into.
    Cache,
    /// Input of the step.
    Input,
    /// Data that was there before the step, and is at the same place in others: a weight or an input.
    Data,
    /// Something is read that the trace does not describe.
    Unknown,
}

impl NodeKind {
    /// `operator`, `weight`, `cache`, `input`, `data`, `unknown`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Weight => "weight",
            Self::Cache => "cache",
            Self::Input => "input",
            Self::Data => "data",
            Self::Unknown => "unknown",
        }
    }
}

/// What the time of an operator is that a device computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DeviceTime {
    /// The device measured it.
    Measured,
    /// Its part of the time of several operators, by costs.
    Estimated,
    /// It is not known, and counts as 0.
    Unknown,
}

impl DeviceTime {
    /// `measured`, `estimated`, `unknown`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Estimated => "estimated",
            Self::Unknown => "unknown",
        }
    }
}

/// A node: an operator with its result, or data that no operator of the step made. Times are ns, summed over the
/// graph's steps.
#[derive(Debug, Clone)]
pub struct Node {
    /// What it is.
    pub kind: NodeKind,
    /// The name of its result, or of its data.
    pub name: Arc<str>,
    /// The name without its layer's number.
    pub pattern: Arc<str>,
    /// Its type.
    pub op: Arc<str>,
    /// Type of its elements.
    pub dtype: Option<Arc<str>>,
    /// Extent in each dimension.
    pub shape: Arc<[i64]>,
    /// The layer of the model.
    pub layer: Option<Arc<str>>,
    /// Its description has no layer: it is between operators of that layer, or only they read it.
    pub layer_by_place: bool,
    /// The first of the operators that were computed in one with it: a fused one.
    pub covers: Option<Arc<str>>,
    /// The backend that computed it.
    pub backend: Option<Arc<str>>,
    /// What its times are, if a device computes it: without the host's.
    pub device: Option<DeviceTime>,
    /// Its result lies in memory of another object.
    pub in_place: bool,
    /// From the step's start.
    pub start: u64,
    /// From the first lane's start to the last lane's end of work.
    pub elapsed: u64,
    /// Of it, in operators that it called.
    pub nested: u64,
    /// All lanes together.
    pub work: u64,
    /// All lanes together.
    pub waiting: u64,
    /// Of `work`: of lanes whose waiting was not recorded.
    pub undivided: u64,
    /// Lanes that took part, at most.
    pub lanes: u32,
    /// Counts and costs.
    pub quantities: Quantities,
}

impl Node {
    /// Work and waiting over all steps.
    pub fn divided(&self) -> Divided {
        Divided::new(self.work, self.waiting, self.undivided)
    }

    /// A node without further attributes.
    fn bare(kind: NodeKind, name: Arc<str>, pattern: Arc<str>, op: Arc<str>) -> Self {
        Self {
            kind,
            name,
            pattern,
            op,
            dtype: None,
            shape: Arc::from([]),
            layer: None,
            layer_by_place: false,
            covers: None,
            backend: None,
            device: None,
            in_place: false,
            start: 0,
            elapsed: 0,
            nested: 0,
            work: 0,
            waiting: 0,
            undivided: 0,
            lanes: 0,
            quantities: Quantities::default(),
        }
    }
}

/// How an operator comes to what it reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Via {
    /// The result itself.
    Direct,
    /// A view of it, or something that was not computed and stands for what it is made of.
    View,
    /// Memory of another object that was written in the step: a cache, a result changed in place.
    Memory,
}

impl Via {
    /// `direct`, `view`, `memory`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::View => "view",
            Self::Memory => "memory",
        }
    }
}

/// A node reads what another one made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edge {
    /// Index of the node that made it.
    pub from: usize,
    /// Index of the node that reads it.
    pub to: usize,
    /// How.
    pub via: Via,
    /// As which of its inputs, from 0.
    pub inputs: Vec<u16>,
}

/// The step, or the steps, that a graph is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepFacts {
    /// The first step's number.
    pub number: u64,
    /// How many steps the times are sums of.
    pub steps: u64,
    /// Steps that were asked for and are left out: of another phase or number of tokens, with other operators, or not
    /// recorded whole.
    pub left_out: u64,
    /// What they were.
    pub phase: Phase,
    /// Tokens of each.
    pub tokens: Option<u64>,
    /// ns, all steps together.
    pub duration: u64,
    /// ns, the steps' durations by their lanes.
    pub lane_time: u64,
    /// Lanes of the first.
    pub lanes: u64,
    /// No record was lost during them.
    pub complete: bool,
    /// How much of the first was recorded.
    pub recorded: Recorded,
}

/// The operators of a step and what they read of each other.
#[derive(Debug, Clone)]
pub struct OperatorGraph {
    /// Of which step.
    pub step: StepFacts,
    /// Operators in the order of execution, then what they read and did not make.
    pub nodes: Vec<Node>,
    /// By `to`, then by input. They lead from earlier operators to later ones.
    pub edges: Vec<Edge>,
    /// Nodes beyond the bound.
    pub nodes_left_out: u64,
    /// Edges beyond the bound.
    pub edges_left_out: u64,
}

impl OperatorGraph {
    /// How many of the nodes are operators; they come first.
    pub fn operators(&self) -> usize {
        self.nodes.iter().take_while(|node| node.kind == NodeKind::Operator).count()
    }

    /// The mean over the graph's steps.
    #[allow(clippy::cast_precision_loss)]
    pub fn mean(&self, sum: u64) -> f64 {
        sum as f64 / self.step.steps.max(1) as f64
    }
}
