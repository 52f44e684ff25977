//! A graph as a picture: cards by layers from top to bottom, coloured by what they took, with what they read.

use super::Colour;
use super::layout::{Bends, Layout, Place, Size, layout};
use super::model::{GraphReport, NodeView};
use super::paint::{Legend, Paint, style};
use super::view::{Card, Datum, View};
use crate::markup;
use crate::numbers::units::{quantity, shape, share, time_f64};
use profinfer_diagnostics::printable;
use std::fmt::Write as _;

/// Characters of a line that names data, and those that its name has at least.
const CHARACTERS: usize = 36;
const NAME: usize = 12;
const CARD_WIDTH: f64 = 280.0;
const CARD_HEIGHT: f64 = 48.0;
const DATUM_HEIGHT: f64 = 16.0;
const MARGIN: f64 = 24.0;
const TOP: f64 = 138.0;
const LEAST_WIDTH: f64 = 860.0;
/// Operators that are drawn.
const MOST_CARDS: usize = 6000;
/// Notes at a section's foot.
const MOST_NOTES: usize = 4;
/// Layers that are listed one by one at the pointer.
const MOST_TOLD: usize = 64;

/// What a picture shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Picture {
    /// What cards are coloured by.
    pub colour: Colour,
    /// Each layer for itself.
    pub unfolded: bool,
}

impl Picture {
    /// Different for pictures that a page may have beside each other: what one draws with must not be another's, which
    /// may be hidden.
    fn id(self) -> &'static str {
        match (self.colour, self.unfolded) {
            (Colour::Time, false) => "pf-tf",
            (Colour::Time, true) => "pf-tu",
            (Colour::Bandwidth, false) => "pf-wf",
            (Colour::Bandwidth, true) => "pf-wu",
            (Colour::Backend, false) => "pf-bf",
            (Colour::Backend, true) => "pf-bu",
        }
    }
}

/// The picture, as SVG that a page may contain: with its own style, which follows the viewer's dark or light, and gives way
/// to a page that sets the variables `--pf-…`. Each card has `data-nodes`, the identifiers of its nodes in
/// [`GraphReport::nodes`].
pub fn svg(report: &GraphReport, picture: &Picture) -> String {
    let mut view = View::new(report, if picture.unfolded { &report.unfolded } else { &report.folded });
    let left_out = view.cards.len().saturating_sub(MOST_CARDS);
    view.cards.truncate(MOST_CARDS);
    view.lines.retain(|line| line.to < MOST_CARDS);
    let sizes: Vec<Size> = view.cards.iter().map(|card| size(card, &view)).collect();
    let lines: Vec<(usize, usize)> = view.lines.iter().map(|line| (line.from, line.to)).collect();
    let notes: Vec<Vec<String>> = (0..view.fold.sections.len()).map(|section| next_layer(&view, section)).collect();
    #[allow(clippy::cast_precision_loss)]
    let heights: Vec<f64> = notes.iter().map(|notes| notes.len() as f64 * DATUM_HEIGHT).collect();
    let placed = layout(&sizes, &lines, &heights);
    let paint = Paint::new(&view, picture.colour);
    Drawing { view: &view, paint: &paint, placed: &placed, id: picture.id(), out: String::new() }.draw(&notes, left_out)
}

#[allow(clippy::cast_precision_loss)]
fn size(card: &Card, view: &View<'_>) -> Size {
    let extra = card.reads.len() + usize::from(view.first(card).is_some_and(|node| node.covers.is_some()));
    Size { width: CARD_WIDTH, height: CARD_HEIGHT + extra as f64 * DATUM_HEIGHT, section: card.section }
}

/// Which operators of the next layer read what of a layer: lines that a folded picture cannot draw.
fn next_layer(view: &View<'_>, section: usize) -> Vec<String> {
    let mut notes: Vec<(usize, Vec<String>)> = Vec::new();
    for (maker, reader) in &view.to_next_layer[section] {
        let (Some(_), Some(to)) = (view.cards.get(*maker), view.cards.get(*reader)) else { continue };
        match notes.iter_mut().find(|(earlier, _)| earlier == maker) {
            Some((_, readers)) => readers.push(view.name(to)),
            None => notes.push((*maker, vec![view.name(to)])),
        }
    }
    let note = |(maker, readers): (usize, Vec<String>)| {
        format!("↻ {} → {} of the next layer", view.name(&view.cards[maker]), readers.join(", "))
    };
    notes.into_iter().take(MOST_NOTES).map(note).collect()
}

struct Drawing<'a> {
    view: &'a View<'a>,
    paint: &'a Paint,
    placed: &'a Layout,
    id: &'static str,
    out: String,
}

impl Drawing<'_> {
    fn draw(mut self, notes: &[Vec<String>], left_out: usize) -> String {
        let width = self.placed.width.max(LEAST_WIDTH) + 2.0 * MARGIN;
        let height = TOP + self.placed.height + MARGIN;
        let left = (width - self.placed.width) / 2.0;
        let (title, about) = (self.title(), self.about());
        self.add(format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"pf-graph\" viewBox=\"0 0 {width:.0} {height:.0}\" \
             width=\"{width:.0}\" height=\"{height:.0}\" role=\"img\" aria-label=\"{}\">\n<style>{}</style>\n<desc>{}</desc>\n",
            escape(&title),
            style(),
            escape(&about.join(" "))
        ));
        self.out.push_str("<defs>");
        for (head, size) in [("head", 7), ("head-critical", 9)] {
            let id = self.id;
            self.add(format_args!(
                "<marker id=\"{id}-{head}\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"{size}\" markerHeight=\"{size}\" \
                 markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path class=\"{head}\" d=\"M0 0L8 4L0 8Z\"/></marker>"
            ));
        }
        self.out.push_str("</defs>\n");
        self.add(format_args!("<rect class=\"page\" width=\"{width:.0}\" height=\"{height:.0}\"/>\n"));
        self.text(MARGIN, 36.0, "title", &title, 120);
        for (line, text) in (0_u8..).zip(&about) {
            self.text(MARGIN, 57.0 + 16.0 * f64::from(line), "soft", text, 150);
        }
        if left_out > 0 {
            let text = format!("{left_out} more operators are not drawn");
            self.text(width - MARGIN - 220.0, 36.0, "soft", &text, 40);
        }
        self.legend(width);
        self.add(format_args!("<g transform=\"translate({left:.1} {TOP})\">\n"));
        for (section, notes) in notes.iter().enumerate() {
            self.section(section, notes);
        }
        for (line, bends) in self.placed.lines.iter().enumerate() {
            self.line(line, bends);
        }
        for index in 0..self.view.cards.len() {
            self.card(index);
        }
        self.out.push_str("</g>\n</svg>\n");
        self.out
    }

    fn add(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing into a text does not fail.
        let _ = self.out.write_fmt(text);
    }

    fn text(&mut self, x: f64, y: f64, class: &str, text: &str, most: usize) {
        self.add(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\">{}</text>\n",
            escape(&cut(text, most))
        ));
    }

    fn right(&mut self, x: f64, y: f64, class: &str, text: &str) {
        self.add(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\" text-anchor=\"end\">{}</text>\n",
            escape(text)
        ));
    }

    fn title(&self) -> String {
        let step = &self.view.report.step;
        let steps = match step.steps {
            1 => format!("step {}", step.number),
            n => format!("the mean of {n} steps"),
        };
        format!("Operators of {steps}: {}, {}", step.phase, time_f64(step.duration_ns))
    }

    fn about(&self) -> Vec<String> {
        let report = self.view.report;
        let mut facts = vec![report.trace.engine.clone()];
        facts.extend(report.step.tokens.map(|n| format!("{n} token{}", if n == 1 { "" } else { "s" })));
        facts.push(format!("{} lane{}", report.step.lanes, if report.step.lanes == 1 { "" } else { "s" }));
        let operators = report.nodes.iter().filter(|node| node.cost.is_some()).count();
        facts.push(format!("{operators} operators"));
        if report.step.steps_left_out > 0 {
            facts.push(super::text::left_out(report.step.steps_left_out));
        }
        if !report.step.complete {
            facts.push("records of it were lost: it has more".to_owned());
        } else if report.step.recorded != "whole" {
            facts.push("not all of it was recorded: it has more".to_owned());
        }
        let path = &report.critical_path;
        if report.edges.is_empty() {
            return vec![
                facts.join(" · "),
                "The trace does not have the inputs of operators: cards are in the order of execution.".to_owned(),
            ];
        }
        let critical = format!(
            "Critical path: {} operators that depend on each other take {}, {} of the step.",
            path.nodes.len(),
            time_f64(path.elapsed_ns),
            share(path.share)
        );
        vec![facts.join(" · "), critical]
    }

    fn legend(&mut self, width: f64) {
        let y = 104.0;
        let mut x = MARGIN;
        match self.paint.legend(self.view) {
            Legend::Scale { title, most, missing } => {
                self.text(x, y, "soft", &title, 70);
                self.text(x, y + 18.0, "soft", "0", 4);
                x += 14.0;
                for class in self.paint.scale().collect::<Vec<_>>() {
                    self.add(format_args!(
                        "<rect class=\"full {class}\" x=\"{x:.0}\" y=\"{:.0}\" width=\"24\" height=\"11\"/>\n",
                        y + 8.0
                    ));
                    x += 24.0;
                }
                self.text(x + 7.0, y + 18.0, "soft", &most, 20);
                if let Some(missing) = missing {
                    self.text(x + 90.0, y + 18.0, "soft", missing, 30);
                }
            }
            Legend::Names { title, names } => {
                self.text(x, y, "soft", &title, 70);
                for (number, name) in names.iter().take(super::paint::STEPS).enumerate() {
                    self.add(format_args!(
                        "<rect class=\"full b{number}\" x=\"{x:.0}\" y=\"{:.0}\" width=\"14\" height=\"11\"/>\n",
                        y + 8.0
                    ));
                    self.text(x + 19.0, y + 18.0, "", name, 14);
                    x += 36.0 + 6.5 * f64::from(u8::try_from(name.chars().count().min(14)).unwrap_or(14));
                }
            }
        }
        self.symbols(width - MARGIN - 447.0, y);
    }

    fn symbols(&mut self, left: f64, y: f64) {
        let mut x = left;
        for (kind, text, wide) in
            [("weight", "weight, data", 92.0), ("cache", "cache", 66.0), ("input", "input of the step", 0.0)]
        {
            self.symbol(kind, x, y - 8.0);
            self.text(x + 15.0, y, "soft", text, 30);
            x += wide;
        }
        let y = y + 18.0;
        let mut x = left;
        for (class, text, wide) in [
            ("critical", "critical path", 122.0),
            ("", "result", 86.0),
            ("memory", "through memory (cache, in place)", 0.0),
        ] {
            self.add(format_args!("<path class=\"line {class}\" d=\"M{x:.0} {0:.0}h28\"/>\n", y - 4.0));
            self.text(x + 34.0, y, "soft", text, 40);
            x += wide;
        }
    }

    fn symbol(&mut self, kind: &str, x: f64, y: f64) {
        match kind {
            "weight" | "data" => self.add(format_args!(
                "<rect class=\"weight\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"8\" height=\"8\" rx=\"1\"/>"
            )),
            "cache" => self.add(format_args!(
                "<path class=\"cache\" d=\"M{x:.1} {:.1}v5a4 1.8 0 0 0 8 0v-5a4 1.8 0 0 0 -8 0a4 1.8 0 0 0 8 0\"/>",
                y + 1.5
            )),
            "input" => self.add(format_args!("<path class=\"input\" d=\"M{x:.1} {y:.1}l8 4l-8 4z\"/>")),
            _ => self.add(format_args!("<text class=\"soft\" x=\"{x:.1}\" y=\"{:.1}\">?</text>", y + 8.0)),
        }
    }

    fn section(&mut self, index: usize, notes: &[String]) {
        let Place { x, y, width, height } = self.placed.sections[index];
        if height <= 0.0 {
            return;
        }
        let view = self.view;
        let section = &view.fold.sections[index];
        let layered = |sections: &[super::SectionView]| sections.iter().any(|section| !section.layers.is_empty());
        let title = match (layered(&view.fold.sections[..index]), layered(&view.fold.sections[index..])) {
            _ if !section.title.is_empty() => section.title.as_str(),
            (false, true) => "before the layers",
            (true, false) => "behind the layers",
            (true, true) => "between layers",
            (false, false) => "operators",
        };
        let layers: Vec<String> = section.layers.iter().map(|layer| layer.replace(' ', "_")).collect();
        let layers = escape(&layers.join(" "));
        self.add(format_args!(
            "<rect class=\"frame\" data-layers=\"{layers}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"10\"/>\n"
        ));
        self.text(x + 16.0, y + 21.0, "layer", title, 44);
        let total: f64 = section.work_ns.iter().sum();
        let of_step = if view.report.step.lane_time_ns > 0.0 { total / view.report.step.lane_time_ns } else { 0.0 };
        self.right(x + width - 16.0, y + 21.0, "number", &share(of_step));
        let mut about = format!("{} of work", time_f64(total));
        if section.work_ns.len() > 1 {
            #[allow(clippy::cast_precision_loss)]
            let mean = total / section.work_ns.len() as f64;
            about = format!("each {} of work", time_f64(mean));
        }
        // The space is a card's width: the odd layer tells more than how far layers lie apart.
        if let Some(odd) = &section.odd_layer {
            let of = section.layers.iter().position(|layer| layer == odd).and_then(|i| section.work_ns.get(i));
            let more = match section.odd_layers.len() {
                0 | 1 => String::new(),
                n => format!(" and {} more", n - 1),
            };
            about = format!("{about}; odd: layer {odd}, {}{more}", of.map_or_else(String::new, |ns| time_f64(*ns)));
        } else if section.work_ns.len() > 1 {
            let min = section.work_ns.iter().copied().fold(f64::INFINITY, f64::min);
            let max = section.work_ns.iter().copied().fold(0.0, f64::max);
            about = format!("{about} ({} to {})", time_f64(min), time_f64(max));
        }
        self.text(x + 16.0, y + 36.0, "soft", &about, 56);
        let mut bottom = y + height - 10.0;
        for note in notes.iter().rev() {
            self.text(x + 16.0, bottom, "soft", note, 90);
            bottom -= DATUM_HEIGHT;
        }
    }

    fn line(&mut self, index: usize, bends: &Bends) {
        let line = &self.view.lines[index];
        let Some(((x, y), rest)) = bends.split_first() else { return };
        let mut path = format!("M{x:.1} {y:.1}");
        let (mut x, mut y) = (*x, *y);
        for (to_x, to_y) in rest {
            if (to_x - x).abs() < 0.5 {
                let _ = write!(path, "L{to_x:.1} {to_y:.1}");
            } else {
                let middle = f64::midpoint(y, *to_y);
                let _ = write!(path, "C{x:.1} {middle:.1} {to_x:.1} {middle:.1} {to_x:.1} {to_y:.1}");
            }
            (x, y) = (*to_x, *to_y);
        }
        let (memory, critical) =
            (if line.memory { " memory" } else { "" }, if line.critical { " critical" } else { "" });
        let (id, head) = (self.id, if line.critical { "head-critical" } else { "head" });
        self.add(format_args!(
            "<path class=\"line{memory}{critical}\" d=\"{path}\" marker-end=\"url(#{id}-{head})\"/>\n"
        ));
    }

    fn card(&mut self, index: usize) {
        let (view, Place { x, y, width, height }) = (self.view, self.placed.cards[index]);
        let card = &view.cards[index];
        let Some(first) = view.first(card) else { return };
        let critical = if card.critical { " critical" } else { "" };
        let class = self.paint.class(view, card);
        let ids: Vec<&str> = card.members.iter().map(|i| view.report.nodes[*i].id.as_str()).collect();
        let name = view.name(card);
        self.add(format_args!(
            "<g class=\"card {class}{critical}\" data-nodes=\"{}\" tabindex=\"0\" transform=\"translate({x:.1} {y:.1})\">\
             <title>{}</title>\n<rect class=\"back\" width=\"{width:.0}\" height=\"{height:.0}\" rx=\"6\"/>\
             <rect class=\"tint\" width=\"{width:.0}\" height=\"{height:.0}\" rx=\"6\"/>\
             <path class=\"full\" d=\"M6 0h1v{height:.0}h-1a6 6 0 0 1 -6 -6V6a6 6 0 0 1 6 -6z\"/>\n",
            ids.join(" "),
            escape(&self.tooltip(card, &name))
        ));
        self.text(16.0, 18.0, "name", &name, 23);
        let elapsed = view.mean(card, NodeView::elapsed);
        self.right(width - 12.0, 18.0, "number", &first.time(elapsed));
        self.text(16.0, 33.0, "soft", &description(view, card, first), 33);
        let of_step = view.sum(card, |node| node.cost.as_ref().map_or(0.0, |cost| cost.share));
        self.right(width - 12.0, 33.0, "number soft", &share(of_step));
        let mut line = 49.0;
        if let Some(covers) = &first.covers {
            let covers =
                if card.members.len() > 1 { super::view::without_layer(covers, first) } else { covers.clone() };
            self.text(16.0, line, "soft", &format!("with {covers}"), 40);
            line += DATUM_HEIGHT;
        }
        for datum in &card.reads {
            self.datum(datum, line, width);
            line += DATUM_HEIGHT;
        }
        let most = view.cards.iter().map(|card| view.mean(card, NodeView::elapsed)).fold(0.0, f64::max);
        let full = if most > 0.0 { (width - 28.0) * elapsed / most } else { 0.0 };
        self.add(format_args!(
            "<rect class=\"rest\" x=\"16\" y=\"{0:.1}\" width=\"{1:.1}\" height=\"3\"/>\
             <rect class=\"full\" x=\"16\" y=\"{0:.1}\" width=\"{full:.1}\" height=\"3\"/>\
             <rect class=\"rim\" width=\"{width:.0}\" height=\"{height:.0}\" rx=\"6\"/></g>\n",
            height - 9.0,
            width - 28.0
        ));
    }

    fn datum(&mut self, datum: &Datum, y: f64, width: f64) {
        self.symbol(datum.kind, 16.0, y - 8.0);
        let about = last(&about(datum), CHARACTERS - NAME);
        let verb = if datum.written { "writes " } else { "" };
        // A sign of multiplication is wider than the mean.
        let wide = about.matches('×').count() / 2;
        let space = CHARACTERS.saturating_sub(about.chars().count() + wide).max(NAME - 2);
        self.text(30.0, y, "soft", &format!("{verb}{}", datum.name), space);
        self.right(width - 12.0, y, "soft", &about);
    }

    fn tooltip(&self, card: &Card, name: &str) -> String {
        let view = self.view;
        let Some(first) = view.first(card) else { return String::new() };
        let mut lines = vec![format!("{name}: {}", description(view, card, first))];
        lines.extend(first.covers.as_ref().map(|covers| format!("computed together with {covers}")));
        let backends = view.backends(card);
        if !backends.is_empty() {
            lines.push(format!("on {}", backends.join(", ")));
        }
        let mean = |of: fn(&super::NodeCost) -> f64| view.mean(card, |node| node.cost.as_ref().map_or(0.0, of));
        let each = if card.members.len() > 1 { "each " } else { "" };
        let has_waiting = first.cost.as_ref().is_some_and(|cost| cost.waiting_ns.is_some());
        let waiting = mean(|cost| cost.waiting_ns.unwrap_or(0.0));
        let waiting = if has_waiting { format!(", {} of waiting", time_f64(waiting)) } else { String::new() };
        lines.push(format!(
            "{each}{} from start to end, {} of work over all lanes{waiting}",
            time_f64(mean(|cost| cost.elapsed_ns)),
            time_f64(mean(|cost| cost.work_ns)),
        ));
        if let [one] = card.members[..] {
            let cost = view.report.nodes[one].cost.iter();
            lines.extend(cost.flat_map(|cost| &cost.metrics).map(|cell| {
                let unit =
                    if view.report.bandwidth.as_ref().is_some_and(|of| of.metric == cell.metric) { "B/s" } else { "" };
                format!("{}: {}", cell.metric, quantity(cell.value, unit))
            }));
        } else {
            for index in card.members.iter().take(MOST_TOLD) {
                let node = &view.report.nodes[*index];
                let layer = node.layer.as_deref().unwrap_or("?");
                lines.push(format!("layer {layer}: {}", time_f64(node.elapsed())));
            }
        }
        lines.extend(card.reads.iter().map(|datum| format!("{} {} {}", datum.kind, datum.name, about(datum))));
        lines.join("\n")
    }
}

/// A text's last characters, the innermost extents and the type, if there are more.
fn last(text: &str, most: usize) -> String {
    match text.chars().count() {
        count if count > most => std::iter::once('…').chain(text.chars().skip(count + 1 - most)).collect(),
        _ => text.to_owned(),
    }
}

fn description(view: &View<'_>, card: &Card, first: &NodeView) -> String {
    let same = card.members.iter().all(|i| view.report.nodes[*i].shape == first.shape);
    let mut parts = vec![first.op.clone()];
    parts.extend(first.dtype.clone());
    let extents = shape(&first.shape);
    if same && !extents.is_empty() {
        parts.push(extents);
    }
    if first.in_place && !card.reads.iter().any(|datum| datum.written) {
        parts.push("in place".to_owned());
    }
    parts.join(" · ")
}

fn about(datum: &Datum) -> String {
    let dtypes: Vec<&str> = datum.dtypes.iter().map(String::as_str).collect();
    let shape = datum.shape.as_ref().map(|extents| shape(extents)).unwrap_or_default();
    format!("{shape} {}", dtypes.join("/")).trim().to_owned()
}

/// A text cut to that many characters: its middle is left out, since names differ at both ends.
fn cut(text: &str, most: usize) -> String {
    let count = text.chars().count();
    if count <= most {
        return text.to_owned();
    }
    let end = most.saturating_sub(1) / 2;
    let start: String = text.chars().take(most.saturating_sub(1) - end).collect();
    let end: String = text.chars().skip(count - end).collect();
    format!("{start}…{end}")
}

/// A text from a trace, in XML: nothing in it is markup, and no character is one that XML forbids.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let shown = markup::html(&printable(line.trim_end_matches('\n')));
        escaped.push_str(&shown.replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}"));
        if line.ends_with('\n') {
            escaped.push_str("&#10;");
        }
    }
    escaped
}
