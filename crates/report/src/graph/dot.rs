//! A graph for Graphviz, folded as the picture is: a model of many layers would else be wider than what Graphviz draws.

use super::model::GraphReport;
use super::paint::Paint;
use super::svg::Picture;
use super::view::{Card, View, pattern};
use crate::numbers::units::{shape, share, time_f64};
use profinfer_diagnostics::printable;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// The graph in DOT: a cluster for each layer, or for equal layers; operators as boxes, data as ellipses. Edges to the
/// next of equal layers are dotted.
pub fn dot(report: &GraphReport, picture: &Picture) -> String {
    let view = View::new(report, if picture.unfolded { &report.unfolded } else { &report.folded });
    let paint = Paint::new(&view, picture.colour);
    let mut out = String::from(
        "digraph operators {\n  rankdir=TB;\n  node [shape=box, style=filled, fillcolor=white, fontname=\"sans-serif\"];\n",
    );
    let step = &report.step;
    let title = match step.steps {
        1 => format!("step {}: {}, {}", step.number, step.phase, time_f64(step.duration_ns)),
        steps => format!("mean of {steps} steps: {}, {}", step.phase, time_f64(step.duration_ns)),
    };
    let _ = writeln!(out, "  label={};\n  labelloc=t;", quoted(&title));
    for (index, section) in view.fold.sections.iter().enumerate() {
        let cards = view.cards.iter().enumerate().filter(|(_, card)| card.section == index);
        if section.layers.is_empty() {
            cards.for_each(|(number, card)| operator(&mut out, "  ", number, card, &view, &paint));
            continue;
        }
        let label = quoted(&section.title);
        let _ = writeln!(out, "  subgraph cluster_{index} {{\n    label={label};\n    color=gray;");
        cards.for_each(|(number, card)| operator(&mut out, "    ", number, card, &view, &paint));
        out.push_str("  }\n");
    }
    edges(&mut out, &view, picture.unfolded);
    out.push_str("}\n");
    out
}

fn operator(out: &mut String, indent: &str, number: usize, card: &Card, view: &View<'_>, paint: &Paint) {
    let Some(first) = view.first(card) else { return };
    let mut lines = vec![view.name(card)];
    let types = [first.op.clone(), first.dtype.clone().unwrap_or_default(), shape(&first.shape)];
    lines.push(types.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" "));
    lines.extend(first.covers.as_ref().map(|covers| format!("with {covers}")));
    if first.cost.is_some() {
        let of_step = view.sum(card, |node| node.cost.as_ref().map_or(0.0, |cost| cost.share));
        lines.push(format!("{} ({})", time_f64(view.mean(card, super::NodeView::elapsed)), share(of_step)));
    }
    let (colour, is_dark) = paint.fill(view, card);
    let font = if is_dark { ", fontcolor=white" } else { "" };
    let width = if card.critical { ", penwidth=3" } else { "" };
    let label = quoted(&lines.join("\n"));
    let _ = writeln!(out, "{indent}o{number} [label={label}, fillcolor=\"{colour}\"{font}{width}];");
}

/// Cards that read something, and as which inputs.
type Readers = BTreeSet<(usize, u16)>;

/// Edges between the same cards.
struct Between<'a> {
    inputs: BTreeSet<u16>,
    via: &'a str,
    critical: bool,
}

/// Operators are their cards. Data that equal operators of equal layers read is one node.
fn edges(out: &mut String, view: &View<'_>, unfolded: bool) {
    let report = view.report;
    let mut cards: Vec<Option<usize>> = vec![None; report.nodes.len()];
    for (number, card) in view.cards.iter().enumerate() {
        card.members.iter().for_each(|member| cards[*member] = Some(number));
    }
    let mut readers: BTreeMap<usize, Readers> = BTreeMap::new();
    let mut between: BTreeMap<(usize, usize, bool), Between<'_>> = BTreeMap::new();
    for edge in &report.edges {
        let (Some(from), Some(to)) = (report.index(&edge.from), report.index(&edge.to)) else { continue };
        let Some(reader) = cards[to] else { continue };
        let Some(maker) = cards[from] else {
            readers.entry(from).or_default().extend(edge.inputs.iter().map(|input| (reader, *input)));
            continue;
        };
        let is_same_layer = report.nodes[from].layer == report.nodes[to].layer;
        let is_next = view.cards[maker].section == view.cards[reader].section && !is_same_layer;
        let new = || Between { inputs: BTreeSet::new(), via: edge.via, critical: false };
        let of = between.entry((maker, reader, is_next)).or_insert_with(new);
        of.inputs.extend(&edge.inputs);
        of.critical |= edge.critical;
        if edge.via != "memory" {
            of.via = edge.via;
        }
    }
    let mut data: BTreeMap<(&str, &Readers, Option<usize>), Vec<usize>> = BTreeMap::new();
    for (node, of) in &readers {
        data.entry((report.nodes[*node].kind, of, unfolded.then_some(*node))).or_default().push(*node);
    }
    for (number, ((kind, of, _), nodes)) in data.into_iter().enumerate() {
        let name = pattern(nodes.iter().map(|node| &report.nodes[*node]));
        let first = &report.nodes[nodes[0]];
        let about = [first.dtype.clone().unwrap_or_default(), shape(&first.shape)].join(" ");
        let form = if kind == "cache" { "cylinder" } else { "ellipse" };
        let label = quoted(&[name.as_str(), about.trim()].join("\n"));
        let _ = writeln!(out, "  d{number} [label={label}, shape={form}];");
        let mut inputs: BTreeMap<usize, BTreeSet<u16>> = BTreeMap::new();
        for (reader, input) in of {
            inputs.entry(*reader).or_default().insert(*input);
        }
        for (reader, inputs) in inputs {
            let _ = writeln!(out, "  d{number} -> o{reader} [tooltip={}];", tip(&inputs, kind));
        }
    }
    for ((maker, reader, is_next), Between { inputs, via, critical }) in between {
        let style = match via {
            _ if is_next => "dotted, constraint=false",
            "memory" => "dashed",
            _ => "solid",
        };
        let width = if critical { ", penwidth=3" } else { "" };
        let _ = writeln!(out, "  o{maker} -> o{reader} [style={style}{width}, tooltip={}];", tip(&inputs, via));
    }
}

fn tip(inputs: &BTreeSet<u16>, what: &str) -> String {
    let inputs: Vec<String> = inputs.iter().map(u16::to_string).collect();
    quoted(&format!("input {}, {what}", inputs.join(", ")))
}

/// A text in quotes: line ends are preserved, nothing else of it means anything.
fn quoted(text: &str) -> String {
    let lines: Vec<String> =
        text.split('\n').map(|line| printable(line).replace('\\', "\\\\").replace('"', "\\\"")).collect();
    format!("\"{}\"", lines.join("\\n"))
}
