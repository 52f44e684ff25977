//! `profinfer graph` against the engine's own graph: the same operators, and each reads what the engine says it reads,
//! worked out anew from the nodes that its evaluation callback shows, by their names, types and shapes.

use crate::engine::{Engine, Workload, workload};
use crate::models::record;
use crate::truth::Node;
use crate::work::Tensor;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Operators for which no kernel is called: they look at what their first input is.
const VIEWS: [&str; 4] = ["RESHAPE", "TRANSPOSE", "VIEW", "PERMUTE"];

/// What something is read from: an operator, by its place in the order of execution, or data, by its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum From {
    Operator(usize),
    Data(String),
}

/// Who reads what, as which of its inputs.
type Edges = BTreeSet<(usize, From, u64)>;

/// The edges that the engine's nodes stand for. `fused`: names of parts that are computed with the one after them.
struct Expected<'a> {
    nodes: &'a [Node],
    /// The operator that a node is, or is a part of.
    place: Vec<Option<usize>>,
    /// The last one that wrote into data which was there before.
    written: BTreeMap<String, usize>,
}

impl Expected<'_> {
    fn edges(nodes: &[Node], fused: &BTreeSet<String>) -> (Vec<Tensor>, Edges) {
        let mut of = Expected { nodes, place: vec![None; nodes.len()], written: BTreeMap::new() };
        let (mut results, mut edges) = (Vec::new(), Edges::new());
        for (index, node) in nodes.iter().enumerate() {
            let is_part = fused.contains(&node.operator.result.name) && node.operator.result.op == "RMS_NORM";
            if !node.runs || is_part {
                continue;
            }
            let place = results.len();
            results.push(node.operator.result.clone());
            for (position, input) in (0..).zip(&node.operator.inputs) {
                let mut found = BTreeSet::new();
                of.sources(input, index, &mut found);
                edges.extend(found.into_iter().map(|from| (place, from, position)));
            }
            of.place[index] = Some(place);
            // Rows are set in the last input, and copies go into it.
            if ["SET_ROWS", "CPY"].contains(&node.operator.result.op.as_str()) {
                let mut into = BTreeSet::new();
                of.sources(node.operator.inputs.last().unwrap(), index, &mut into);
                for from in into {
                    if let From::Data(name) = from {
                        of.written.insert(name, place);
                    }
                }
            }
        }
        (results, edges)
    }

    fn sources(&self, input: &Tensor, before: usize, found: &mut BTreeSet<From>) {
        let made = (0..before).rev().find(|index| self.nodes[*index].operator.result == *input);
        match made.map(|index| (index, self.place[index])) {
            Some((_, Some(place))) => _ = found.insert(From::Operator(place)),
            // A view, or the first part of a fused one.
            Some((index, None)) => {
                let operator = &self.nodes[index].operator;
                let looked_at = if VIEWS.contains(&operator.result.op.as_str()) { 1 } else { operator.inputs.len() };
                operator.inputs.iter().take(looked_at).for_each(|input| self.sources(input, index, found));
            }
            None => {
                found.extend(self.written.get(&input.name).map(|writer| From::Operator(*writer)));
                found.insert(From::Data(input.name.clone()));
            }
        }
    }
}

fn recorded(graph: &Value) -> (Vec<Tensor>, Edges, BTreeMap<String, String>) {
    let nodes = graph["nodes"].as_array().unwrap();
    let operators: Vec<&Value> = nodes.iter().filter(|node| node["kind"] == "operator").collect();
    let tensor = |node: &&Value| Tensor {
        op: node["op"].as_str().unwrap().to_owned(),
        name: node["name"].as_str().unwrap().to_owned(),
        dtype: node["dtype"].as_str().unwrap().to_lowercase(),
        shape: serde_json::from_value(node["shape"].clone()).unwrap(),
    };
    let index = |id: &Value| id.as_str().unwrap()[1..].parse::<usize>().unwrap();
    let mut edges = Edges::new();
    for edge in graph["edges"].as_array().unwrap() {
        let from = &nodes[index(&edge["from"])];
        let from = match from["kind"].as_str().unwrap() {
            "operator" => From::Operator(index(&edge["from"])),
            _ => From::Data(from["name"].as_str().unwrap().to_owned()),
        };
        for input in edge["inputs"].as_array().unwrap() {
            edges.insert((index(&edge["to"]), from.clone(), input.as_u64().unwrap()));
        }
    }
    let data = nodes.iter().filter(|node| node["kind"] != "operator");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    (
        operators.iter().map(tensor).collect(),
        edges,
        data.map(|node| (text(&node["name"]), text(&node["kind"]))).collect(),
    )
}

/// What data is, by what the names of these models' tensors say.
fn kind_of(name: &str) -> &'static str {
    match name {
        name if name.ends_with(".weight") => "weight",
        name if name.starts_with("cache_") => "cache",
        _ => "input",
    }
}

fn assert_graphs(engine: Engine, workload: &Workload) {
    let what = format!("{engine:?}, {workload:?}");
    let truth = engine.truth(workload, false);
    let recording = record(engine, workload, &[]);
    // The prompt, the first token and the last.
    for step in [0, 1, truth.steps.len() - 1] {
        let place = format!("{what}, step {}", step + 1);
        let graph = recording.graph(step + 1);
        let (operators, edges, data) = recorded(&graph);
        let covers = graph["nodes"].as_array().unwrap().iter().filter_map(|node| node["covers"].as_str());
        let covers: BTreeSet<String> = covers.map(str::to_owned).collect();
        let (expected, expected_edges) = Expected::edges(&truth.nodes[step], &covers);
        assert_eq!(operators.len(), expected.len(), "{place}: operators");
        for (recorded, expected) in operators.iter().zip(&expected) {
            let is_fused = recorded.op.starts_with("rms_norm_");
            let op = if is_fused { expected.op.clone() } else { recorded.op.clone() };
            assert_eq!(Tensor { op, ..recorded.clone() }, *expected, "{place}: recorded, and the engine's word");
        }
        let missing: Vec<_> = expected_edges.difference(&edges).collect();
        let invented: Vec<_> = edges.difference(&expected_edges).collect();
        assert!(missing.is_empty() && invented.is_empty(), "{place}: missing {missing:?}, invented {invented:?}");
        assert!(edges.len() > operators.len(), "{place}: operators read more than one thing each");
        for (name, kind) in &data {
            assert_eq!(kind, kind_of(name), "{place}: {name}");
        }
        assert!(data.values().any(|kind| kind == "cache"), "{place}: it has a cache");
        let attention: BTreeSet<_> = edges.iter().filter(|(to, ..)| operators[*to].op == "FLASH_ATTN_EXT").collect();
        let writers = attention.iter().filter(|(_, from, _)| match from {
            From::Operator(from) => operators[*from].op == "SET_ROWS",
            From::Data(_) => false,
        });
        let layers = operators.iter().filter(|operator| operator.op == "FLASH_ATTN_EXT").count();
        assert!(layers == 0 || writers.count() == 2 * layers, "{place}: keys and values come through the cache");
    }
}

#[test]
#[ignore = "needs root"]
fn the_graph_is_the_engine_s_own_for_a_dense_model() {
    for engine in [Engine::Wheel, Engine::Shared] {
        for threads in [1, 2] {
            assert_graphs(engine, &workload("tiny-dense", threads));
        }
    }
}

#[test]
#[ignore = "needs root"]
fn the_graph_is_the_engine_s_own_for_a_mixture_of_experts() {
    for engine in [Engine::Wheel, Engine::Shared] {
        assert_graphs(engine, &workload("tiny-moe", 2));
    }
}

#[test]
#[ignore = "needs root"]
fn the_graph_is_the_engine_s_own_without_fusion() {
    let environment = &[("GGML_CPU_DISABLE_FUSION", "1")];
    assert_graphs(Engine::Shared, &Workload { environment, tokens: 4, ..workload("tiny-dense", 1) });
}
