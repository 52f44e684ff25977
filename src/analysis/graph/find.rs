//! Finds the steps that a graph is wanted of, and builds it: visitors of the timeline.

use super::super::catalogue::{Catalogue, ObjectId};
use super::super::fields::Decoder;
use super::super::quantities::Quantities;
use super::super::sampled::Recorded;
use super::super::step::{Operator, Phase, Step};
use super::super::timeline::Visitor;
use super::leaves::{self, Leaf};
use super::sources::{Memory, Source};
use super::{Edge, MAX_EDGES, MAX_NODES, Node, NodeKind, OperatorGraph, StepFacts, Via, layers};
use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;

/// Graphs of different operators, phases or tokens that are kept while it is not known which has the most steps.
const MAX_STRUCTURES: usize = 64;
/// Their nodes, all together.
const MAX_NODES_OF_ALL: usize = 8 * MAX_NODES;

/// Steps whose durations are kept one by one, to find the one in the middle.
const MOST_LENGTHS: usize = 100_000;

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
}

/// Builds a graph while the timeline passes.
#[derive(Debug)]
pub struct GraphFinder {
    wanted: Wanted,
    drafts: Vec<Draft>,
    /// Steps that are in none of them.
    other: u64,
}

/// A graph whose data is not yet told apart.
#[derive(Debug)]
struct Draft {
    graph: OperatorGraph,
    leaves: Vec<Leaf>,
}

impl GraphFinder {
    /// Of these steps.
    pub fn new(wanted: Wanted) -> Self {
        Self { wanted, drafts: Vec::new(), other: 0 }
    }

    /// The graph, once the trace is read; `None` where it has no such step, or none whose operators were recorded.
    pub fn finish(mut self, catalogue: &Catalogue) -> Option<OperatorGraph> {
        let of_steps = |draft: &Draft| {
            let step = &draft.graph.step;
            (step.steps, step.duration, std::cmp::Reverse(step.number))
        };
        let most = (0..self.drafts.len()).max_by_key(|i| of_steps(&self.drafts[*i]))?;
        let all: u64 = self.drafts.iter().map(|draft| draft.graph.step.steps).sum();
        let Draft { mut graph, leaves } = self.drafts.swap_remove(most);
        graph.step.left_out = self.other + all - graph.step.steps;
        let first = graph.operators();
        for (node, leaf) in graph.nodes[first..].iter_mut().zip(&leaves) {
            node.kind = leaf.kind(catalogue);
        }
        layers::infer(&mut graph);
        Some(graph)
    }

    /// The step is asked for.
    fn takes(&self, step: &Step) -> bool {
        match &self.wanted {
            Wanted::Step(number) => step.number == *number && *number > 0,
            Wanted::Mean { phase, steps } => {
                let is_wanted = step.number > 0 && steps.contains(&step.number);
                is_wanted && phase.is_none_or(|phase| step.phase == Some(phase))
            }
        }
    }

    fn add(&mut self, step: &Step, catalogue: &Catalogue) {
        if let Some(same) = self.drafts.iter_mut().find(|draft| draft.is_like(step, catalogue)) {
            return same.add(step);
        }
        let nodes = self.drafts.iter().map(|draft| draft.graph.nodes.len()).sum::<usize>();
        if self.drafts.len() < MAX_STRUCTURES && nodes < MAX_NODES_OF_ALL {
            self.drafts.push(build(step, catalogue));
        } else {
            self.other += 1;
        }
    }
}

fn is_whole(step: &Step) -> bool {
    step.complete && step.recorded == Recorded::Whole && !step.operators.is_empty()
}

impl Visitor for GraphFinder {
    fn step(&mut self, step: &Step, catalogue: &Catalogue, _: &Decoder) {
        if !self.takes(step) {
            return;
        }
        match self.wanted {
            Wanted::Step(_) if step.operators.is_empty() => {}
            Wanted::Mean { .. } if !is_whole(step) => self.other += 1,
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
        step.operators.len() as u64 == all
            && nodes.iter().zip(&step.operators).all(|(node, operator)| {
                let kind = catalogue.kind(operator.kind);
                node.name == kind.name && node.op == kind.op && node.covers == kind.covers
            })
    }

    fn add(&mut self, step: &Step) {
        for (node, operator) in self.graph.nodes.iter_mut().zip(&step.operators) {
            add_times(node, step, operator);
        }
        let facts = &mut self.graph.step;
        facts.steps += 1;
        facts.duration = facts.duration.saturating_add(step.duration());
        facts.lane_time = facts.lane_time.saturating_add(lane_time(step));
        facts.complete &= step.complete;
    }
}

fn lane_time(step: &Step) -> u64 {
    step.duration().saturating_mul(step.lane_numbers.len().max(1) as u64)
}

fn add_times(node: &mut Node, step: &Step, operator: &Operator) {
    let add = |sum: &mut u64, ns: u64| *sum = sum.saturating_add(ns);
    add(&mut node.start, operator.start.saturating_sub(step.start));
    add(&mut node.elapsed, operator.end.saturating_sub(operator.start));
    add(&mut node.work, operator.work);
    add(&mut node.waiting, operator.waiting);
    node.lanes = node.lanes.max(operator.lanes.end.saturating_sub(operator.lanes.start));
    node.quantities.merge(&Quantities::of(step, operator));
}

/// What is read and not made, by the address of its object and the time of its description.
type LeafIndex = HashMap<(u64, u64), (usize, Option<ObjectId>, u64)>;

fn build(step: &Step, catalogue: &Catalogue) -> Draft {
    let mut memory = Memory::new(catalogue);
    let count = step.operators.len().min(MAX_NODES);
    let mut nodes: Vec<Node> = Vec::with_capacity(count);
    let mut edges: Vec<Edge> = Vec::new();
    let mut leaves: LeafIndex = HashMap::new();
    let (mut nodes_left_out, mut edges_left_out) = ((step.operators.len() - count) as u64, 0);
    for (index, operator) in step.operators.iter().take(count).enumerate() {
        nodes.push(operator_node(step, operator, catalogue));
        let Some(object) = operator.object else { continue };
        // By its end the first lane has described it, which the others' shares may precede.
        let time = operator.end;
        edges_left_out += u64::from(memory.is_exhausted());
        for (source, (via, inputs)) in inputs_of(object, time, catalogue, &mut memory) {
            let from = match source {
                Source::Operator(from) => from,
                Source::Leaf(address, since) => {
                    let next = count + leaves.len();
                    let known = || (next, catalogue.sibling(object, address), time);
                    if next >= MAX_NODES && !leaves.contains_key(&(address, since)) {
                        nodes_left_out += 1;
                        continue;
                    }
                    leaves.entry((address, since)).or_insert_with(known).0
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
    let facts = StepFacts {
        number: step.number,
        steps: 1,
        left_out: 0,
        phase: step.phase.unwrap_or(Phase::Outside),
        tokens: step.tokens,
        duration: step.duration(),
        lane_time: lane_time(step),
        lanes: step.lane_numbers.len() as u64,
        complete: step.complete,
        recorded: step.recorded,
    };
    Draft { graph: OperatorGraph { step: facts, nodes, edges, nodes_left_out, edges_left_out }, leaves }
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
            let (known, inputs) = found.entry(source).or_insert((via, Vec::new()));
            *known = (*known).min(via);
            if inputs.last() != Some(&position) {
                inputs.push(position);
            }
        }
    }
    let mut found: Vec<(Source, (Via, Vec<u16>))> = found.into_iter().collect();
    found.sort_by(|(a, (_, at)), (b, (_, bt))| at.cmp(bt).then(a.cmp(b)));
    found
}

fn operator_node(step: &Step, operator: &Operator, catalogue: &Catalogue) -> Node {
    let kind = catalogue.kind(operator.kind);
    let graph = operator.graph.and_then(|graph| step.graphs.get(graph as usize));
    let mut node = Node {
        dtype: kind.dtype.clone(),
        shape: kind.shape.clone(),
        layer: kind.layer.clone(),
        covers: kind.covers.clone(),
        backend: graph.map(|graph| catalogue.text(graph.backend).clone()),
        ..Node::bare(NodeKind::Operator, kind.name.clone(), kind.pattern.clone(), kind.op.clone())
    };
    add_times(&mut node, step, operator);
    node
}

fn add_leaves(found: LeafIndex, nodes: &mut Vec<Node>, memory: &Memory<'_>, catalogue: &Catalogue) -> Vec<Leaf> {
    let mut order: Vec<_> = found.into_iter().collect();
    order.sort_by_key(|(_, (index, _, _))| *index);
    let mut leaves: Vec<Leaf> = Vec::with_capacity(order.len());
    for (key, (_, object, time)) in order {
        // An address that was seen and never described is nothing to go by.
        let object = object.filter(|object| catalogue.at(*object, time).is_some());
        leaves.push(Leaf::new(object, key, time, memory, catalogue));
        nodes.push(leaves::node(object, time, catalogue));
    }
    leaves::find_neighbours(&mut leaves, memory);
    leaves
}

/// Looks for a step that shows what the others are like: decoding if there is such, and of a length up to which steps
/// took half of the time. A long prompt thus counts for more than a short one. Of more steps than are kept, those within
/// 1/128 of each other count as equally long.
#[derive(Debug, Default)]
pub struct TypicalStep {
    by_phase: BTreeMap<Phase, Lengths>,
    last: u64,
}

/// Steps by their durations.
#[derive(Debug, Default)]
struct Lengths {
    /// Duration and number of each.
    each: Vec<(u64, u64)>,
    /// By the leading digits of their durations, where there are too many: how long they took together, and the number of
    /// the first.
    alike: BTreeMap<u64, (u64, u64)>,
}

impl Lengths {
    fn push(&mut self, duration: u64, number: u64) {
        if self.alike.is_empty() {
            self.each.push((duration, number));
            if self.each.len() <= MOST_LENGTHS {
                return;
            }
            std::mem::take(&mut self.each).into_iter().for_each(|(duration, number)| self.count(duration, number));
        } else {
            self.count(duration, number);
        }
    }

    fn count(&mut self, duration: u64, number: u64) {
        // The eight leading binary digits.
        let shift = duration.checked_ilog2().unwrap_or(0).saturating_sub(7);
        let (together, _) = self.alike.entry(duration >> shift << shift).or_insert((0, number));
        *together = together.saturating_add(duration);
    }

    fn middle(mut self) -> Option<u64> {
        self.each.sort_unstable();
        let each = self.each.iter().map(|(duration, number)| (*duration, *number));
        let steps: Vec<(u64, u64)> = each.chain(self.alike.values().copied()).collect();
        let all = steps.iter().map(|(duration, _)| *duration).fold(0, u64::saturating_add);
        let mut passed = 0_u64;
        let reaches_half = |(duration, _): &&(u64, u64)| {
            passed = passed.saturating_add(*duration);
            passed >= all.div_ceil(2)
        };
        steps.iter().find(reaches_half).map(|(_, number)| *number)
    }
}

impl TypicalStep {
    /// Its number; `None` where no step was recorded whole.
    pub fn number(mut self, phase: Option<Phase>) -> Option<u64> {
        let order = [Phase::Decode, Phase::Prefill];
        let wanted = order.into_iter().filter(|known| phase.is_none_or(|phase| phase == *known));
        wanted.filter_map(|phase| self.by_phase.remove(&phase)).next()?.middle()
    }

    /// How many steps there are.
    pub fn steps(&self) -> u64 {
        self.last
    }
}

impl Visitor for TypicalStep {
    fn step(&mut self, step: &Step, _: &Catalogue, _: &Decoder) {
        self.last = self.last.max(step.number);
        if let Some(phase) = step.phase.filter(|_| step.number > 0 && is_whole(step)) {
            self.by_phase.entry(phase).or_default().push(step.duration(), step.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_steps_one_of_middle_length_is_found_all_the_same() {
        let mut random = fastrand::Rng::with_seed(2);
        let durations: Vec<u64> =
            (0..MOST_LENGTHS + 1000).map(|_| 1000 + (50.0 * random.f64().powi(3).recip().min(1e5)) as u64).collect();
        let mut lengths = Lengths::default();
        (1..).zip(&durations).for_each(|(number, duration)| lengths.push(*duration, number));
        assert!(lengths.each.is_empty() && lengths.alike.len() < 8000);
        let exact = Lengths {
            each: (1..).zip(&durations).map(|(number, duration)| (*duration, number)).collect(),
            ..Lengths::default()
        };
        let [found, exact] = [lengths, exact].map(|lengths| durations[lengths.middle().unwrap() as usize - 1]);
        assert!(found.abs_diff(exact) * 128 <= exact, "{found} {exact}");
    }
}
