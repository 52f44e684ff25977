//! Finds the steps that a graph is wanted of, and builds it: visitors of the timeline.

use super::leaves::{self, Leaf};
use super::operands::{EverWritten, Origin, ReadLeaf, Span, Written};
use super::sources::{Memory, Source};
use super::{DeviceTime, Edge, MAX_EDGES, MAX_NODES, Node, NodeKind, OperatorGraph, StepFacts, Via, layers};
use crate::catalogue::Catalogue;
use crate::ids::{KindId, ObjectId, Phase};
use crate::raw::{Decoder, Operands};
use crate::sampling::Recorded;
use crate::step::{Dispatch, Operator, QueueEvent, Queued, Step, Visitor};
use crate::totals::Quantities;
use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;

/// Distinct graphs in memory, until the one with most steps is chosen; of more, that of the fewest steps goes.
const MAX_STRUCTURES: usize = 64;
/// Their nodes, all together.
const MAX_NODES_OF_ALL: usize = 8 * MAX_NODES;

/// What a graph is wanted of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// One step.
    Step(u64),
    /// The mean of those steps that have the same phase, number of tokens and operators: of those that there are most
    /// of, and of two as many those that took longer.
    Mean {
        /// Of this phase; of any, if it is `None`.
        phase: Option<Phase>,
        /// Within these numbers.
        steps: RangeInclusive<u64>,
    },
    /// As `Mean` of all steps of this phase; of any: of decode, if the trace has it.
    Typical {
        /// The phase.
        phase: Option<Phase>,
    },
}

/// Builds a graph while the timeline passes.
#[derive(Debug)]
pub struct GraphFinder {
    wanted: Wanted,
    drafts: Vec<Draft>,
    /// Steps that are in none of them.
    other: u64,
    written: EverWritten,
}

/// A graph whose leaves are not classified yet.
#[derive(Debug)]
struct Draft {
    graph: OperatorGraph,
    leaves: Vec<Leaf>,
    /// Those that only operators' records name; their nodes come last.
    read: Vec<ReadLeaf>,
}

impl GraphFinder {
    /// Of these steps.
    pub fn new(wanted: Wanted) -> Self {
        Self { wanted, drafts: Vec::new(), other: 0, written: EverWritten::default() }
    }

    /// The graph, once the trace is read; `None` where it has no such step, or none whose operators were recorded.
    pub fn finish(mut self, catalogue: &Catalogue) -> Option<OperatorGraph> {
        let recurring_first = matches!(self.wanted, Wanted::Typical { .. });
        let of_steps = |draft: &Draft| {
            let step = &draft.graph.step;
            let preferred = recurring_first && step.phase.recurs();
            (preferred, step.steps, step.duration, std::cmp::Reverse(step.number))
        };
        let most = (0..self.drafts.len()).max_by_key(|i| of_steps(&self.drafts[*i]))?;
        let all: u64 = self.drafts.iter().map(|draft| draft.graph.step.steps).sum();
        let Draft { mut graph, leaves, read } = self.drafts.swap_remove(most);
        graph.step.left_out = self.other + all - graph.step.steps;
        let first = graph.operators();
        let kinds = leaves.iter().map(|leaf| leaf.kind(catalogue));
        let kinds = kinds.chain(read.iter().map(|leaf| leaf.kind(&self.written)));
        for (node, kind) in graph.nodes[first..].iter_mut().zip(kinds) {
            node.kind = kind;
        }
        layers::infer(&mut graph);
        Some(graph)
    }

    /// The step is asked for.
    fn takes(&self, step: &Step) -> bool {
        match &self.wanted {
            Wanted::Step(number) => step.number == *number && *number > 0,
            Wanted::Mean { phase, steps } => steps.contains(&step.number) && is_of(step, *phase),
            Wanted::Typical { phase } => is_of(step, *phase),
        }
    }

    fn add(&mut self, step: &Step, catalogue: &Catalogue) {
        if let Some(same) = self.drafts.iter_mut().find(|draft| draft.is_like(step, catalogue)) {
            return same.add(step);
        }
        let nodes = |drafts: &[Draft]| drafts.iter().map(|draft| draft.graph.nodes.len()).sum::<usize>();
        while self.drafts.len() >= MAX_STRUCTURES || nodes(&self.drafts) >= MAX_NODES_OF_ALL {
            let steps = |draft: &Draft| draft.graph.step.steps;
            let Some(fewest) = (0..self.drafts.len()).min_by_key(|i| steps(&self.drafts[*i])) else { break };
            self.other += steps(&self.drafts.swap_remove(fewest));
        }
        self.drafts.push(build(step, catalogue));
    }
}

fn is_of(step: &Step, phase: Option<Phase>) -> bool {
    step.number > 0 && phase.is_none_or(|phase| step.phase == Some(phase))
}

fn is_whole(step: &Step) -> bool {
    step.complete && step.recorded == Recorded::Whole && !is_empty(step)
}

fn is_empty(step: &Step) -> bool {
    step.operators.is_empty() && step.dispatches.iter().all(|of| of.is_empty)
}

/// What was computed, on the host or on a device.
#[derive(Debug, Clone, Copy)]
enum Computed<'s> {
    Operator(&'s Operator),
    Dispatch(&'s Dispatch),
}

impl<'s> Computed<'s> {
    fn kind(&self) -> KindId {
        match self {
            Self::Operator(of) => of.kind,
            Self::Dispatch(of) => of.kind,
        }
    }

    fn start(&self) -> u64 {
        match self {
            Self::Operator(of) => of.start,
            Self::Dispatch(of) => of.start,
        }
    }

    /// By its end the first lane has described it, which the others' shares may precede.
    fn end(&self) -> u64 {
        match self {
            Self::Operator(of) => of.end,
            Self::Dispatch(of) => of.end,
        }
    }

    fn is_fused(&self) -> bool {
        matches!(self, Self::Dispatch(of) if of.operators > 1)
    }

    /// The thread of its first share.
    fn tid(&self, step: &Step) -> u32 {
        match self {
            Self::Operator(of) => step.lanes_of(of).first().map_or(step.tid, |lane| lane.tid),
            Self::Dispatch(_) => step.tid,
        }
    }

    fn operands(&self) -> Option<&'s Operands> {
        match self {
            Self::Operator(of) => of.operands.as_deref(),
            Self::Dispatch(_) => None,
        }
    }

    fn object(&self) -> Option<ObjectId> {
        match self {
            Self::Operator(of) => of.object,
            Self::Dispatch(of) => of.object,
        }
    }

    fn graph(&self) -> Option<u32> {
        match self {
            Self::Operator(of) => of.graph,
            Self::Dispatch(of) => of.graph,
        }
    }
}

/// All of a step, in the order in which the host came to them.
fn computed(step: &Step) -> Vec<Computed<'_>> {
    let mut all: Vec<Computed<'_>> = step.operators.iter().map(Computed::Operator).collect();
    let encoded = step.dispatches.iter().filter(|of| !of.is_empty).map(Computed::Dispatch);
    let before = all.len();
    all.extend(encoded);
    if all.len() > before {
        all.sort_by_key(Computed::start);
    }
    all
}

impl Visitor for GraphFinder {
    fn step(&mut self, step: &Step, catalogue: &Catalogue, _: &Decoder) {
        step.operators.iter().filter_map(|of| of.operands.as_deref()).for_each(|of| self.written.add(of));
        if !self.takes(step) {
            return;
        }
        match self.wanted {
            Wanted::Step(_) if is_empty(step) => {}
            Wanted::Mean { .. } | Wanted::Typical { .. } if !is_whole(step) => self.other += 1,
            _ => self.add(step, catalogue),
        }
    }
}

impl Draft {
    /// The step is of the same phase and number of tokens, and has the same operators in the same order. Shapes may
    /// differ, as those that grow with the context do.
    fn is_like(&self, step: &Step, catalogue: &Catalogue) -> bool {
        let facts = &self.graph.step;
        facts.phase == step.phase.unwrap_or(Phase::Outside)
            && facts.tokens == step.tokens
            && self.has_operators_of(step, catalogue)
    }

    fn has_operators_of(&self, step: &Step, catalogue: &Catalogue) -> bool {
        let nodes = &self.graph.nodes[..self.graph.operators()];
        let all = nodes.len() as u64 + self.graph.nodes_left_out;
        let computed = computed(step);
        computed.len() as u64 == all
            && nodes.iter().zip(&computed).all(|(node, of)| {
                let kind = catalogue.kind(of.kind());
                node.name == kind.name && node.op == kind.op && node.covers == kind.covers
            })
    }

    fn add(&mut self, step: &Step) {
        let computed = computed(step);
        for (node, of) in self.graph.nodes.iter_mut().zip(computed.iter().copied()) {
            add_times(node, step, of);
        }
        for leaf in &mut self.read {
            leaf.compare(|operator| computed.get(operator)?.operands());
        }
        let facts = &mut self.graph.step;
        facts.steps += 1;
        facts.duration = facts.duration.saturating_add(duration(step));
        facts.lane_time = facts.lane_time.saturating_add(lane_time(step));
        facts.complete &= step.complete;
    }
}

/// Of steps that give operators to a device: until their results are there, which is after they return.
fn duration(step: &Step) -> u64 {
    let results = step.results_by().filter(|_| !step.dispatches.is_empty());
    results.map_or(step.duration(), |by| by.max(step.end).saturating_sub(step.start))
}

fn lane_time(step: &Step) -> u64 {
    duration(step).saturating_mul(step.lane_numbers.len().max(1) as u64)
}

fn add_times(node: &mut Node, step: &Step, of: Computed<'_>) {
    let add = |sum: &mut u64, ns: u64| *sum = sum.saturating_add(ns);
    let operator = match of {
        Computed::Operator(operator) => operator,
        Computed::Dispatch(of) => {
            let (time, ns) = match (of.device_ns, of.device_estimate_ns) {
                (Some(ns), _) => (DeviceTime::Measured, ns),
                (None, Some(ns)) => (DeviceTime::Estimated, ns),
                (None, None) => (DeviceTime::Unknown, 0),
            };
            // As certain as the least certain of the steps.
            node.device = Some(node.device.map_or(time, |before| before.max(time)));
            add(&mut node.start, of.start.saturating_sub(step.start));
            add(&mut node.elapsed, ns);
            add(&mut node.work, ns);
            // Estimates are made by costs: a speed of them would say nothing.
            if time == DeviceTime::Measured {
                node.quantities.merge(&Quantities::of_device(&of.cost, ns));
            }
            return;
        }
    };
    add(&mut node.start, operator.start.saturating_sub(step.start));
    add(&mut node.elapsed, operator.end.saturating_sub(operator.start));
    add(&mut node.nested, step.lanes_of(operator).iter().map(|span| span.nested).max().unwrap_or(0));
    add(&mut node.work, operator.work);
    add(&mut node.waiting, operator.waiting);
    add(&mut node.undivided, operator.undivided);
    node.lanes = node.lanes.max(step.lane_count_of(operator) as u32);
    node.quantities.merge(&Quantities::of(step, operator));
}

/// Data that is read and not computed, by its object's address and the time of its description.
type LeafIndex = HashMap<(u64, u64), (usize, Option<ObjectId>, u64)>;

fn build(step: &Step, catalogue: &Catalogue) -> Draft {
    let mut memory = Memory::new(catalogue);
    let all = computed(step);
    let count = all.len().min(MAX_NODES);
    let mut copies = copies(step).into_iter().peekable();
    let mut nodes: Vec<Node> = Vec::with_capacity(count);
    let mut edges: Vec<Edge> = Vec::new();
    let mut leaves: LeafIndex = HashMap::new();
    let mut written = Written::default();
    let mut reads: Vec<(usize, Origin, Vec<u16>)> = Vec::new();
    let (mut nodes_left_out, mut edges_left_out) = ((all.len() - count) as u64, 0);
    for (index, of) in all.iter().copied().take(count).enumerate() {
        nodes.push(operator_node(step, of, catalogue));
        if let Some(operands) = of.operands() {
            let span = Span { tid: of.tid(step), start: of.start(), end: of.end(), operands };
            let origins = written.origins(index, span);
            reads.extend(origins.into_iter().map(|(origin, inputs)| (index, origin, inputs)));
            continue;
        }
        let Some(object) = of.object() else { continue };
        // The result of what is fused is described at the next call.
        let described = all.get(index + 1).filter(|_| of.is_fused()).map_or(0, Computed::end);
        let time = of.end().max(described);
        while let Some((_, from, to)) = copies.next_if(|(at, ..)| *at <= of.start()) {
            memory.copies(catalogue.address(from), catalogue.address(to));
        }
        edges_left_out += u64::from(memory.is_exhausted());
        for (source, (via, inputs)) in inputs_of(object, time, catalogue, &mut memory) {
            let from = match source {
                Source::Operator(from) => from,
                Source::Leaf(address, since) => {
                    let next = count + leaves.len();
                    let new = || (next, catalogue.sibling(object, address), time);
                    if next >= MAX_NODES && !leaves.contains_key(&(address, since)) {
                        nodes_left_out += 1;
                        continue;
                    }
                    leaves.entry((address, since)).or_insert_with(new).0
                }
            };
            if edges.len() < MAX_EDGES {
                edges.push(Edge { from, to: index, via, inputs });
            } else {
                edges_left_out += 1;
            }
        }
        nodes[index].in_place = memory.computes(index, object, time);
    }
    let leaves = add_leaves(leaves, &mut nodes, &memory, catalogue);
    let mut read = written.leaves(all.iter().all(|of| of.operands().is_some()));
    let first = nodes.len();
    nodes_left_out += (first + read.len()).saturating_sub(MAX_NODES) as u64;
    read.truncate(MAX_NODES.saturating_sub(first));
    let kind = |operator: usize| all.get(operator).map(Computed::kind);
    nodes.extend(read.iter_mut().map(|leaf| leaf.describe(kind, catalogue)));
    for (to, origin, inputs) in reads {
        let from = match origin {
            Origin::Operator(from) => from,
            Origin::Leaf(leaf) if leaf < read.len() => first + leaf,
            Origin::Leaf(_) => continue,
        };
        if edges.len() < MAX_EDGES {
            edges.push(Edge { from, to, via: Via::Direct, inputs });
        } else {
            edges_left_out += 1;
        }
    }
    edges.sort_by_key(|edge| edge.to);
    let facts = StepFacts {
        number: step.number,
        steps: 1,
        left_out: 0,
        phase: step.phase.unwrap_or(Phase::Outside),
        tokens: step.tokens,
        duration: duration(step),
        lane_time: lane_time(step),
        lanes: step.lane_numbers.len() as u64,
        complete: step.complete,
        recorded: step.recorded,
    };
    Draft { graph: OperatorGraph { step: facts, nodes, edges, nodes_left_out, edges_left_out }, leaves, read }
}

/// Everything that an operator reads, each source once, in the order of its inputs.
fn inputs_of(
    object: ObjectId,
    time: u64,
    catalogue: &Catalogue,
    memory: &mut Memory<'_>,
) -> Vec<(Source, (Via, Vec<u16>))> {
    let mut found: BTreeMap<Source, (Via, Vec<u16>)> = BTreeMap::new();
    for (position, input) in (0_u16..).zip(catalogue.inputs(object, time)) {
        for (source, via) in memory.sources(object, *input, time) {
            let (of, inputs) = found.entry(source).or_insert((via, Vec::new()));
            *of = (*of).min(via);
            if inputs.last() != Some(&position) {
                inputs.push(position);
            }
        }
    }
    let mut found: Vec<(Source, (Via, Vec<u16>))> = found.into_iter().collect();
    found.sort_by(|(a, (_, at)), (b, (_, bt))| at.cmp(bt).then(a.cmp(b)));
    found
}

/// Copies between objects: when they ended, from which to which.
fn copies(step: &Step) -> Vec<(u64, ObjectId, ObjectId)> {
    let copy = |event: &QueueEvent| match event.what {
        Queued::Copy { objects: Some((from, to)), .. } => Some((event.end, from, to)),
        _ => None,
    };
    let mut copies: Vec<_> = step.queue.iter().filter_map(copy).collect();
    copies.sort_by_key(|(end, ..)| *end);
    copies
}

fn operator_node(step: &Step, of: Computed<'_>, catalogue: &Catalogue) -> Node {
    let kind = catalogue.kind(of.kind());
    let graph = of.graph().and_then(|graph| step.graphs.get(graph as usize));
    let mut node = Node {
        dtype: kind.dtype.clone(),
        shape: kind.shape.clone(),
        layer: kind.layer.clone(),
        layer_by_place: kind.layer_inferred,
        covers: kind.covers.clone(),
        backend: graph.map(|graph| catalogue.text(graph.backend).clone()),
        ..Node::bare(NodeKind::Operator, kind.name.clone(), kind.pattern.clone(), kind.op.clone())
    };
    add_times(&mut node, step, of);
    node
}

fn add_leaves(found: LeafIndex, nodes: &mut Vec<Node>, memory: &Memory<'_>, catalogue: &Catalogue) -> Vec<Leaf> {
    let mut order: Vec<_> = found.into_iter().collect();
    order.sort_by_key(|(_, (index, _, _))| *index);
    let mut leaves: Vec<Leaf> = Vec::with_capacity(order.len());
    for ((address, since), (_, object, time)) in order {
        // An address that was seen and never described is nothing to go by.
        let object = object.filter(|object| catalogue.at(*object, time).is_some());
        leaves.push(Leaf::new(object, address, since, time, memory, catalogue));
        nodes.push(leaves::node(object, time, catalogue));
    }
    leaves::find_neighbours(&mut leaves, memory);
    leaves
}
