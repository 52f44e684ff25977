//! A graph for Graphviz.

use super::super::units::{shape, share, time_f64};
use super::Colour;
use super::model::{GraphReport, NodeView};
use crate::diag::printable;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Colours from low to high, and those of backends.
const SCALE: [&str; 8] = ["#fff3dc", "#fee3b4", "#fdcb84", "#fbab5e", "#f4843e", "#e25c27", "#c23b1a", "#962411"];
const BACKENDS: [&str; 8] = ["#9ec1e3", "#f6c3ae", "#9fdcc9", "#d9a3cf", "#e0d79a", "#b3e5f6", "#f6b0b7", "#cccc99"];

/// The graph in DOT: a cluster for each layer, operators as boxes, data as ellipses.
pub fn dot(report: &GraphReport, colour: Colour) -> String {
    let mut out = String::from(
        "digraph operators {\n  rankdir=TB;\n  node [shape=box, style=filled, fillcolor=white, fontname=\"sans-serif\"];\n",
    );
    let step = &report.step;
    let title = format!("step {}: {}, {}", step.number, step.phase, time_f64(step.duration_ns));
    let _ = writeln!(out, "  label={};\n  labelloc=t;", quoted(&title));
    let fill = Fill::new(report, colour);
    let mut layers: BTreeMap<(usize, &str), Vec<&NodeView>> = BTreeMap::new();
    let mut order: Vec<&str> = Vec::new();
    for node in &report.nodes {
        let Some(layer) = node.layer.as_deref() else {
            fill.node(&mut out, "  ", node);
            continue;
        };
        let position = order.iter().position(|known| *known == layer).unwrap_or_else(|| {
            order.push(layer);
            order.len() - 1
        });
        layers.entry((position, layer)).or_default().push(node);
    }
    for ((number, layer), nodes) in layers {
        let label = quoted(&format!("layer {layer}"));
        let _ = writeln!(out, "  subgraph cluster_{number} {{\n    label={label};\n    color=gray;");
        nodes.into_iter().for_each(|node| fill.node(&mut out, "    ", node));
        out.push_str("  }\n");
    }
    for edge in &report.edges {
        let style = if edge.via == "memory" { "dashed" } else { "solid" };
        let width = if edge.critical { ", penwidth=3" } else { "" };
        let inputs: Vec<String> = edge.inputs.iter().map(u16::to_string).collect();
        let tip = quoted(&format!("input {}, {}", inputs.join(", "), edge.via));
        let _ = writeln!(out, "  {} -> {} [style={style}{width}, tooltip={tip}];", edge.from, edge.to);
    }
    out.push_str("}\n");
    out
}

struct Fill<'a> {
    colour: Colour,
    metric: Option<&'a str>,
    most: f64,
    backends: Vec<&'a str>,
}

impl<'a> Fill<'a> {
    fn new(report: &'a GraphReport, colour: Colour) -> Self {
        let mut backends: Vec<&str> = report.nodes.iter().filter_map(|node| node.backend.as_deref()).collect();
        backends.sort_unstable();
        backends.dedup();
        let metric = report.bandwidth.as_ref().map(|of| of.metric.as_str());
        let mut fill = Self { colour, metric, most: 0.0, backends };
        fill.most = report.nodes.iter().filter_map(|node| fill.value(node)).fold(0.0, f64::max);
        fill
    }

    fn value(&self, node: &NodeView) -> Option<f64> {
        let cost = node.cost.as_ref()?;
        match self.colour {
            Colour::Time => Some(cost.elapsed_ns),
            Colour::Bandwidth => {
                cost.metrics.iter().find(|cell| Some(cell.metric.as_str()) == self.metric).map(|cell| cell.value)
            }
            Colour::Backend => None,
        }
    }

    #[allow(clippy::cast_sign_loss, clippy::cast_possible_truncation)]
    fn colour(&self, node: &NodeView) -> &'static str {
        if self.colour == Colour::Backend {
            let number = self.backends.iter().position(|backend| Some(*backend) == node.backend.as_deref());
            return number.map_or("white", |number| BACKENDS[number % BACKENDS.len()]);
        }
        let Some(value) = self.value(node).filter(|_| self.most > 0.0) else { return "white" };
        SCALE[((value / self.most * 8.0) as usize).min(7)]
    }

    fn node(&self, out: &mut String, indent: &str, node: &NodeView) {
        let mut lines = vec![node.name.clone()];
        let types = [node.op.clone(), node.dtype.clone().unwrap_or_default(), shape(&node.shape)];
        lines.push(types.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" "));
        if let Some(covers) = &node.covers {
            lines.push(format!("with {covers}"));
        }
        if let Some(cost) = &node.cost {
            lines.push(format!("{} ({})", time_f64(cost.elapsed_ns), share(cost.share)));
        }
        let colour = self.colour(node);
        let form = match node.kind {
            "operator" if colour == SCALE[6] || colour == SCALE[7] => ", fontcolor=white",
            "operator" => "",
            "cache" => ", shape=cylinder",
            _ => ", shape=ellipse",
        };
        let width = if node.critical { ", penwidth=3" } else { "" };
        let label = quoted(&lines.join("\n"));
        let _ = writeln!(out, "{indent}{} [label={label}, fillcolor=\"{colour}\"{form}{width}];", node.id);
    }
}

/// A text in quotes: line ends are kept, nothing else of it means anything.
fn quoted(text: &str) -> String {
    let lines: Vec<String> =
        text.split('\n').map(|line| printable(line).replace('\\', "\\\\").replace('"', "\\\"")).collect();
    format!("\"{}\"", lines.join("\\n"))
}
