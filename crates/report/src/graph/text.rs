//! A graph as text: its sections, each operator with what it reads.

use super::model::{GraphReport, NodeView};
use super::view::{Card, View};
use crate::numbers::table::{Align, Table};
use crate::numbers::units::{bytes, quantity, shape, share, time_f64};
use crate::text::TextStyle;
use profinfer_diagnostics::printable;

/// Operators of the critical path that are listed.
const MOST_ON_PATH: usize = 12;

/// Why steps are not in a mean.
const LEFT_OUT: &str = "of another phase or number of tokens, with other operators, or not recorded whole";

/// `3 more steps are left out`.
pub(super) fn left_out(steps: u64) -> String {
    let count = profinfer_analysis::group_digits(steps);
    if steps == 1 { "1 more step is left out".to_owned() } else { format!("{count} more steps are left out") }
}

/// The graph, folded by layers unless it is wanted unfolded.
pub fn graph_text(report: &GraphReport, unfolded: bool, style: &TextStyle) -> String {
    let view = View::new(report, if unfolded { &report.unfolded } else { &report.folded });
    let mut out = facts(report);
    let count = |kind: &str| report.nodes.iter().filter(|node| node.kind == kind).count();
    out.push_str(&format!(
        "{} operators, {} weights, {} caches, {} inputs, {} edges\n",
        count("operator"),
        count("weight"),
        count("cache"),
        count("input"),
        report.edges.len()
    ));
    let either = count("data");
    if either > 0 {
        let they_are = if either == 1 {
            "thing that is read is a weight or an input"
        } else {
            "things that are read are weights or inputs"
        };
        out.push_str(&format!("{either} more {they_are}: data that stays at its place\n"));
    }
    if report.edges.is_empty() {
        out.push_str("the trace does not have the inputs of operators\n");
    }
    let unknown = count("unknown");
    if unknown > 0 {
        out.push_str(&format!("{unknown} things that are read are not described in the trace\n"));
    }
    if report.left_out.nodes + report.left_out.edges > 0 {
        let left_out = &report.left_out;
        out.push_str(&format!("too large: {} nodes and {} edges are left out\n", left_out.nodes, left_out.edges));
    }
    for (index, section) in view.fold.sections.iter().enumerate() {
        let total: f64 = section.work_ns.iter().sum();
        let of = if report.step.lane_time_ns > 0.0 { total / report.step.lane_time_ns } else { 0.0 };
        let title = if section.title.is_empty() { "no layer" } else { section.title.as_str() };
        let mut title = format!("{}: {} of work, {}", printable(title), time_f64(total), share(of));
        if !section.odd_layers.is_empty() {
            let plural = if section.odd_layers.len() == 1 { "" } else { "s" };
            title.push_str(&format!("; odd: layer{plural} {}", printable(&section.odd_layers.join(", "))));
        }
        style.table(&mut out, &title, &table(&view, index), None);
    }
    crossings(&mut out, report, style);
    if !report.edges.is_empty() {
        critical(&mut out, report, style);
    }
    out
}

/// Results that another backend reads, and what the times of operators on devices are.
fn crossings(out: &mut String, report: &GraphReport, style: &TextStyle) {
    use Align::{Flexible, Left, Right};
    let devices = report.nodes.iter().filter_map(|node| node.device);
    let least = devices.max_by_key(|time| ["measured", "estimated", "unknown"].iter().position(|of| of == time));
    if let Some(time) = least {
        let of = match time {
            "measured" => "measured by the device",
            "estimated" => "estimated by costs (~); the host's for encoding is not in them",
            _ => "unknown, and shown as 0",
        };
        out.push_str(&format!("Times of operators on a device are {of}.\n"));
    }
    if report.crossings.is_empty() {
        return;
    }
    let mut table = Table::new(&[("bytes", Right), ("from", Left), ("to", Left), ("name", Flexible)]);
    for crossing in &report.crossings {
        let size = crossing.bytes.map_or_else(String::new, bytes);
        table.row(vec![size, crossing.from.clone(), crossing.to.clone(), crossing.name.clone()]);
    }
    style.table(out, "Results that cross from one backend to another", &table, None);
}

fn facts(report: &GraphReport) -> String {
    let step = &report.step;
    let mut facts = match step.steps {
        1 => format!("Step {}: {}", step.number, step.phase),
        steps => format!("The mean of {steps} steps that are alike, from step {} on: {}", step.number, step.phase),
    };
    if let Some(tokens) = step.tokens {
        let each = if step.steps > 1 { " each" } else { "" };
        facts.push_str(&format!(", {tokens} token{}{each}", if tokens == 1 { "" } else { "s" }));
    }
    let lanes = if step.lanes == 1 { "1 lane".to_owned() } else { format!("{} lanes", step.lanes) };
    facts.push_str(&format!(", {}, {lanes}\n", time_f64(step.duration_ns)));
    if step.steps_left_out > 0 {
        facts.push_str(&format!("{}: {LEFT_OUT}\n", left_out(step.steps_left_out)));
    }
    if !step.complete {
        facts.push_str("Records of it were lost: it has more than is shown\n");
    } else if step.recorded != "whole" {
        facts.push_str("Not all of its operators were recorded\n");
    }
    facts
}

fn table(view: &View<'_>, section: usize) -> Table {
    use Align::{Flexible, Left, Right};
    let metric = view.report.bandwidth.as_ref().map(|of| of.metric.as_str());
    let mut table = Table::new(&[
        ("share", Right),
        ("each", Right),
        ("waiting", Right),
        (metric.unwrap_or_default(), Right),
        ("op", Left),
        ("dtype", Left),
        ("shape", Left),
        ("name", Left),
        ("reads", Flexible),
    ]);
    for (index, card) in view.cards.iter().enumerate().filter(|(_, card)| card.section == section) {
        let Some(first) = view.first(card) else { continue };
        let of = |value: fn(&super::NodeCost) -> f64| move |node: &NodeView| node.cost.as_ref().map_or(0.0, value);
        let waiting = view.mean(card, of(|cost| cost.waiting_ns.unwrap_or(0.0)));
        let speed = metric.and_then(|metric| view.metric(card, metric)).map(|value| quantity(value, "B/s"));
        let name = match &first.covers {
            Some(covers) if card.members.len() > 1 => {
                format!("{} (with {})", view.name(card), super::view::without_layer(covers, first))
            }
            Some(covers) => format!("{} (with {covers})", view.name(card)),
            None => view.name(card),
        };
        table.row(vec![
            share(view.sum(card, of(|cost| cost.share))),
            first.time(view.mean(card, NodeView::elapsed)),
            if waiting > 0.0 { time_f64(waiting) } else { String::new() },
            speed.unwrap_or_default(),
            first.op.clone(),
            first.dtype.clone().unwrap_or_default(),
            shape(&first.shape),
            format!("{}{name}", if card.critical || view.report.edges.is_empty() { "" } else { "· " }),
            reads(view, index, card),
        ]);
    }
    table
}

/// What a card reads: operators, then data.
fn reads(view: &View<'_>, index: usize, card: &Card) -> String {
    let mut names: Vec<String> = Vec::new();
    for line in view.lines.iter().filter(|line| line.to == index) {
        names.push(view.name(&view.cards[line.from]));
    }
    for (maker, reader) in &view.to_next_layer[card.section] {
        if *reader == index {
            names.push(format!("{} of the layer before", view.name(&view.cards[*maker])));
        }
    }
    names.extend(card.reads.iter().map(|datum| format!("{} {}", datum.kind, datum.name)));
    names.join(", ")
}

fn critical(out: &mut String, report: &GraphReport, style: &TextStyle) {
    let path = &report.critical_path;
    let mut nodes: Vec<&NodeView> =
        path.nodes.iter().filter_map(|id| report.index(id)).map(|i| &report.nodes[i]).collect();
    out.push_str(&style.heading(&format!(
        "Critical path: {} operators, {}, {} of the step, {} of its operators' time",
        nodes.len(),
        time_f64(path.elapsed_ns),
        share(path.share),
        share(path.share_of_operators)
    )));
    nodes.sort_by(|a, b| b.elapsed().total_cmp(&a.elapsed()));
    let longest = nodes.iter().take(MOST_ON_PATH);
    let longest: Vec<String> =
        longest.map(|node| format!("{} {}", printable(&node.name), time_f64(node.elapsed()))).collect();
    out.push_str(&format!("  its longest: {}\n", longest.join(", ")));
    out.push_str("  `·` marks operators that are not on it: they could be computed beside it\n");
}
