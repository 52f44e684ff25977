//! A graph folded by layers: layers that follow one another and are made alike are shown once.

use super::OperatorGraph;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// Operators that are shown together: layers that are alike, or what lies before, between and behind layers.
#[derive(Debug, Clone, PartialEq)]
pub struct Section {
    /// The layers, in the order of execution; empty for what belongs to none.
    pub layers: Vec<Arc<str>>,
    /// Work of each of the layers, ns of the mean step.
    pub work: Vec<f64>,
    /// Its operators: indices into [`Fold::nodes`].
    pub nodes: Vec<usize>,
}

/// An operator as a folded graph shows it: the same one of each layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folded {
    /// Indices into the graph's nodes, in the order of the section's layers.
    pub members: Vec<usize>,
    /// Index of its section.
    pub section: usize,
}

/// A graph's operators in sections.
#[derive(Debug, Clone, PartialEq)]
pub struct Fold {
    /// In the order of execution.
    pub sections: Vec<Section>,
    /// Operators.
    pub nodes: Vec<Folded>,
    /// Where each of the graph's operators is: an index into `nodes`.
    pub place: Vec<usize>,
}

impl Fold {
    /// Folded: layers that are alike and follow one another are one section.
    pub fn folded(graph: &OperatorGraph) -> Self {
        let parts = parts(graph);
        let like: Vec<u64> = likenesses(graph, &parts);
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for (index, part) in parts.iter().enumerate() {
            let same = |group: &&mut Vec<usize>| {
                let before = group[group.len() - 1];
                part.layer.is_some() && parts[before].layer.is_some() && like[before] == like[index]
            };
            match groups.last_mut().filter(same) {
                Some(group) => group.push(index),
                None => groups.push(vec![index]),
            }
        }
        Self::of(graph, &parts, &groups)
    }

    /// Unfolded: each layer is a section.
    pub fn unfolded(graph: &OperatorGraph) -> Self {
        let parts = parts(graph);
        let groups: Vec<Vec<usize>> = (0..parts.len()).map(|part| vec![part]).collect();
        Self::of(graph, &parts, &groups)
    }

    fn of(graph: &OperatorGraph, parts: &[Part], groups: &[Vec<usize>]) -> Self {
        let mut fold = Self { sections: Vec::new(), nodes: Vec::new(), place: vec![0; graph.operators()] };
        for (section, group) in groups.iter().enumerate() {
            let first = &parts[group[0]];
            let mut nodes = Vec::with_capacity(first.operators.len());
            for position in 0..first.operators.len() {
                let members: Vec<usize> = group.iter().map(|part| parts[*part].operators[position]).collect();
                members.iter().for_each(|member| fold.place[*member] = fold.nodes.len());
                nodes.push(fold.nodes.len());
                fold.nodes.push(Folded { members, section });
            }
            let layers: Vec<Arc<str>> = group.iter().filter_map(|part| parts[*part].layer.clone()).collect();
            let work_of = |part: &usize| {
                let sum: u64 = parts[*part].operators.iter().map(|i| graph.nodes[*i].work).fold(0, u64::saturating_add);
                graph.mean(sum)
            };
            let work: Vec<f64> = group.iter().map(work_of).collect();
            fold.sections.push(Section { layers, work, nodes });
        }
        fold
    }
}

/// Operators of one layer, or of none, that belong together.
#[derive(Debug)]
struct Part {
    layer: Option<Arc<str>>,
    operators: Vec<usize>,
}

/// Operators by layer, in the order of execution. A layer that begins anew, as with the next batch, is another part.
fn parts(graph: &OperatorGraph) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    let mut open: HashMap<Arc<str>, usize> = HashMap::new();
    let mut seen: BTreeSet<(&str, &str, &str)> = BTreeSet::new();
    let mut before: Option<&Arc<str>> = None;
    for (index, node) in graph.nodes[..graph.operators()].iter().enumerate() {
        let Some(layer) = &node.layer else {
            match parts.last_mut().filter(|part| part.layer.is_none()) {
                Some(part) => part.operators.push(index),
                None => parts.push(Part { layer: None, operators: vec![index] }),
            }
            continue;
        };
        let goes_back = before.replace(layer).is_some_and(|before| before != layer);
        let is_new = node.layer_by_place || seen.insert((layer, &node.name, &node.op));
        if goes_back && !is_new {
            seen.clear();
            open.clear();
            seen.insert((layer, &node.name, &node.op));
        }
        let part = *open.entry(layer.clone()).or_insert(parts.len());
        if part == parts.len() {
            parts.push(Part { layer: Some(layer.clone()), operators: Vec::new() });
        }
        parts[part].operators.push(index);
    }
    parts
}

/// Equal numbers for parts with the same operators and the same edges between them.
fn likenesses(graph: &OperatorGraph, parts: &[Part]) -> Vec<u64> {
    let count = graph.operators();
    let mut place: Vec<(usize, usize)> = vec![(0, 0); count];
    for (part, of) in parts.iter().enumerate() {
        of.operators.iter().enumerate().for_each(|(position, index)| place[*index] = (part, position));
    }
    let mut edges: BTreeMap<usize, Vec<(usize, usize)>> = BTreeMap::new();
    for edge in graph.edges.iter().filter(|edge| edge.from < count && edge.to < count) {
        let ((from_part, from), (to_part, to)) = (place[edge.from], place[edge.to]);
        if from_part == to_part {
            edges.entry(to_part).or_default().push((from, to));
        }
    }
    let like = |(index, part): (usize, &Part)| {
        let mut hasher = DefaultHasher::new();
        for node in part.operators.iter().map(|i| &graph.nodes[*i]) {
            // A name that the engine generated by counting is no name.
            let name = if node.layer_by_place { "" } else { &*node.pattern };
            (name, &node.op, &node.dtype, &node.shape, &node.backend, node.covers.is_some()).hash(&mut hasher);
        }
        let mut within = edges.remove(&index).unwrap_or_default();
        within.sort_unstable();
        within.hash(&mut hasher);
        hasher.finish()
    };
    parts.iter().enumerate().map(like).collect()
}
