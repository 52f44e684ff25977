//! A graph as GraphML, which libraries and viewers for graphs read.

use super::model::{GraphReport, NodeView};
use super::svg::escape;
use std::fmt::Write as _;

/// What nodes and edges carry: name and type, as GraphML calls it.
const NODE: [(&str, &str); 17] = [
    ("kind", "string"),
    ("name", "string"),
    ("op", "string"),
    ("covers", "string"),
    ("layer", "string"),
    ("dtype", "string"),
    ("shape", "string"),
    ("backend", "string"),
    ("in_place", "boolean"),
    ("critical", "boolean"),
    ("start_ns", "double"),
    ("elapsed_ns", "double"),
    ("work_ns", "double"),
    ("waiting_ns", "double"),
    ("share", "double"),
    ("lanes", "int"),
    ("bandwidth", "double"),
];
const EDGE: [(&str, &str); 3] = [("via", "string"), ("inputs", "string"), ("critical", "boolean")];

/// The graph as GraphML.
pub fn graphml(report: &GraphReport) -> String {
    let mut out = String::from(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<graphml xmlns=\"http://graphml.graphdrawing.org/xmlns\">\n",
    );
    for (of, keys) in [("node", &NODE[..]), ("edge", &EDGE[..])] {
        for (name, ty) in keys {
            let _ = writeln!(out, "  <key id=\"{of}_{name}\" for=\"{of}\" attr.name=\"{name}\" attr.type=\"{ty}\"/>");
        }
    }
    out.push_str("  <graph id=\"operators\" edgedefault=\"directed\">\n");
    let metric = report.bandwidth.as_ref().map(|of| of.metric.as_str());
    for node in &report.nodes {
        let _ = writeln!(out, "    <node id=\"{}\">", node.id);
        for ((name, _), value) in NODE.iter().zip(values(node, metric)) {
            data(&mut out, "node", name, value);
        }
        out.push_str("    </node>\n");
    }
    for (number, edge) in report.edges.iter().enumerate() {
        let _ = writeln!(out, "    <edge id=\"e{number}\" source=\"{}\" target=\"{}\">", edge.from, edge.to);
        let inputs: Vec<String> = edge.inputs.iter().map(u16::to_string).collect();
        data(&mut out, "edge", "via", Some(edge.via.to_owned()));
        data(&mut out, "edge", "inputs", Some(inputs.join(" ")));
        data(&mut out, "edge", "critical", Some(edge.critical.to_string()));
        out.push_str("    </edge>\n");
    }
    out.push_str("  </graph>\n</graphml>\n");
    out
}

/// A node's values, in the order of [`NODE`]; what was not recorded is not written.
fn values(node: &NodeView, metric: Option<&str>) -> [Option<String>; 17] {
    let cost = node.cost.as_ref();
    let shape: Vec<String> = node.shape.iter().map(i64::to_string).collect();
    let number = |of: fn(&super::NodeCost) -> f64| cost.map(|cost| of(cost).to_string());
    let bandwidth = cost.and_then(|cost| cost.metrics.iter().find(|cell| Some(cell.metric.as_str()) == metric));
    [
        Some(node.kind.to_owned()),
        Some(node.name.clone()),
        Some(node.op.clone()),
        node.covers.clone(),
        node.layer.clone(),
        node.dtype.clone(),
        Some(shape.join(" ")),
        node.backend.clone(),
        Some(node.in_place.to_string()),
        Some(node.critical.to_string()),
        number(|cost| cost.start_ns),
        number(|cost| cost.elapsed_ns),
        number(|cost| cost.work_ns),
        cost.and_then(|cost| cost.waiting_ns).map(|ns| ns.to_string()),
        number(|cost| cost.share),
        cost.map(|cost| cost.lanes.to_string()),
        bandwidth.map(|cell| cell.value.to_string()),
    ]
}

fn data(out: &mut String, of: &str, name: &str, value: Option<String>) {
    if let Some(value) = value {
        let _ = writeln!(out, "      <data key=\"{of}_{name}\">{}</data>", escape(&value));
    }
}
