//! The comparison as one page that needs nothing else: no script, no network. Texts come from traces: all are escaped.

use super::rows::{ChangeRow, DiffReport, PhaseDiff};
use super::text::{Line, change_class, part_text};
use crate::markup;
use crate::numbers::units::{share, signed_time, time_f64};
use std::fmt::Write;

const STYLE: &str = "
:root { color-scheme: light dark; --text: #1d2127; --dim: #5b6470; --ground: #fff; --line: #dfe3e8; --slower: #c0392b;
  --faster: #1e7d46; --same: #8a94a0 }
@media (prefers-color-scheme: dark) { :root { --text: #e4e8ee; --dim: #9aa4b1; --ground: #14171b; --line: #2c323a;
  --slower: #ff7b6b; --faster: #5fd48c; --same: #7d8896 } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--text); background: var(--ground); margin: 2rem auto;
  max-width: 75rem; padding: 0 1rem }
h1 { font-size: 1.4rem } h2 { font-size: 1.15rem; margin-top: 2.2rem } .dim { color: var(--dim) }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums } .wide { overflow-x: auto }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top }
th { color: var(--dim); font-weight: 500 } .n { text-align: right; white-space: nowrap }
.slower { color: var(--slower) } .faster { color: var(--faster) } .same { color: var(--same) }
.bar { position: relative; width: 9rem; height: .8rem; margin-top: .35rem }
.bar i { position: absolute; top: 0; bottom: 0; background: currentColor; border-radius: 2px }
.bar::before { content: ''; position: absolute; left: 50%; top: -.2rem; bottom: -.2rem; width: 1px; background: var(--line) }
.verdict { font-size: 1.05rem; font-weight: 600 } @media print { body { margin: 0; max-width: none } }
";

/// The whole page.
pub fn diff_html(report: &DiffReport) -> String {
    let mut out = String::new();
    let title = format!("{} against {}", report.a.file, report.b.file);
    let _ = write!(
        out,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta name=\"generator\" content=\"profinfer\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{0}</title><style>{STYLE}</style></head><body>\n<h1>{0}</h1>\n",
        markup::html(&title)
    );
    for (letter, side) in [("A", &report.a), ("B", &report.b)] {
        let _ = writeln!(
            out,
            "<p><b>{letter}</b> {} <span class=\"dim\">{}</span></p>",
            markup::html(&side.file),
            markup::html(&side.completeness.verdict)
        );
    }
    for phase in &report.phases {
        let class = change_class(&phase.time);
        let _ = writeln!(out, "<p class=\"verdict {class}\">{}: {}</p>", phase.phase, markup::html(&phase.verdict));
        for why in &phase.why {
            let _ = writeln!(out, "<p>{}</p>", markup::html(why));
        }
        if phase.is_of_both() {
            let _ = writeln!(out, "<p class=\"dim\">Compared: {}.</p>", markup::html(&phase.compared.text));
        }
    }
    for failure in &report.failures {
        let _ = writeln!(out, "<p class=\"verdict slower\">Fails: {}</p>", markup::html(failure));
    }
    let _ = writeln!(
        out,
        "<p class=\"dim\">{}{}</p>",
        report.what_is_significant(),
        if report.a.estimate || report.b.estimate { " Estimates: not every step was recorded whole." } else { "" }
    );
    if !report.unlike.is_empty() {
        out.push_str("<h2>Differences between the recordings</h2><div class=\"wide\"><table><tr><th></th><th>A</th><th>B</th></tr>\n");
        for found in &report.unlike {
            let cells = [&found.what, &found.a, &found.b].map(|text| markup::html(text));
            let _ =
                writeln!(out, "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td></tr>", cells[0], cells[1], cells[2]);
        }
        out.push_str("</table></div>\n");
    }
    for phase in report.phases.iter().filter(|phase| phase.is_of_both()) {
        causes(&mut out, phase);
        layers(&mut out, phase);
        operators(&mut out, phase);
    }
    out.push_str("</body></html>\n");
    out
}

fn causes(out: &mut String, phase: &PhaseDiff) {
    let causes = || phase.causes.iter().filter(|cause| cause.matters());
    let largest = causes().map(|cause| cause.time.difference.abs()).fold(0.0, f64::max);
    if causes().next().is_none() {
        return;
    }
    let _ = writeln!(
        out,
        "<h2>{}: where a step's time went, lanes on average</h2><div class=\"wide\"><table><tr>\
         <th class=\"n\">difference</th><th></th><th class=\"n\">A</th><th class=\"n\">B</th>\
         <th class=\"n\">change (95 %)</th><th></th><th class=\"n\">share of a step</th><th>cause</th>\
         <th>because of</th></tr>",
        phase.phase
    );
    for cause in causes() {
        let who = if cause.time.is_significant() { cause.who() } else { String::new() };
        let estimate = if cause.estimate { " (estimate)" } else { "" };
        let _ = writeln!(
            out,
            "<tr>{}{}<td class=\"n\">{} → {}</td><td>{}{estimate}</td><td class=\"dim\">{}</td></tr>",
            difference(&cause.time, largest),
            times(&cause.time),
            share(cause.share[0]),
            share(cause.share[1]),
            cause.words(),
            markup::html(&who)
        );
    }
    out.push_str("</table></div>\n");
}

fn operators(out: &mut String, phase: &PhaseDiff) {
    let lines: Vec<Line<'_>> =
        phase.all_lines().into_iter().filter(|line| line.time.a > 0.0 || line.time.b > 0.0).collect();
    let largest = lines.iter().map(|line| line.time.difference.abs()).fold(0.0, f64::max);
    let _ = writeln!(
        out,
        "<h2>{}: wall time per step</h2><div class=\"wide\"><table><tr><th class=\"n\">difference</th><th></th>\
         <th class=\"n\">of it</th><th class=\"n\">A</th><th class=\"n\">B</th><th class=\"n\">change (95 %)</th><th></th>\
         <th class=\"n\">share of a step</th><th>operator</th><th></th></tr>",
        phase.phase
    );
    for line in &lines {
        let part = if phase.time.is_significant() { part_text(line.of_difference) } else { String::new() };
        let _ = writeln!(
            out,
            "<tr>{}<td class=\"n\">{part}</td>{}<td class=\"n\">{} → {}</td><td>{}</td><td class=\"dim\">{}</td></tr>",
            difference(line.time, largest),
            times(line.time),
            share(line.share[0]),
            share(line.share[1]),
            markup::html(&line.title),
            markup::html(&line.note)
        );
    }
    out.push_str("</table></div>\n");
}

fn layers(out: &mut String, phase: &PhaseDiff) {
    if phase.layers.iter().all(|layer| layer.layer.is_none()) {
        return;
    }
    let largest = phase.layers.iter().map(|layer| layer.time.difference.abs()).fold(0.0, f64::max);
    let _ = writeln!(
        out,
        "<h2>{}: by layer</h2><div class=\"wide\"><table><tr><th>layer</th><th class=\"n\">difference</th><th></th>\
         <th class=\"n\">A</th><th class=\"n\">B</th><th class=\"n\">change (95 %)</th><th></th></tr>",
        phase.phase
    );
    for layer in &phase.layers {
        let name = layer.layer.as_deref().unwrap_or("none");
        let (difference, times) = (difference(&layer.time, largest), times(&layer.time));
        let _ = writeln!(out, "<tr><th scope=\"row\">{}</th>{difference}{times}</tr>", markup::html(name));
    }
    out.push_str("</table></div>\n");
}

/// A difference, and a bar to the left or right of the middle.
fn difference(time: &ChangeRow, largest: f64) -> String {
    let part = if largest > 0.0 { 50.0 * time.difference.abs() / largest } else { 0.0 };
    let left = if time.difference < 0.0 { 50.0 - part } else { 50.0 };
    format!(
        "<td class=\"n\">{}</td><td class=\"{}\"><div class=\"bar\" aria-hidden=\"true\"><i style=\"left:{left:.1}%;\
         width:{part:.1}%\"></i></div></td>",
        signed_time(time.difference),
        change_class(time)
    )
}

fn times(time: &ChangeRow) -> String {
    format!(
        "<td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"{}\">{}</td>",
        time_f64(time.a),
        time_f64(time.b),
        time.relative_text(),
        change_class(time),
        time.judgement_text()
    )
}
