//! The comparison as text: how the recordings differ first, then each phase in a sentence with its causes, then the
//! lines that explain it: causes, layers, operators.

use super::rows::{ChangeRow, DiffReport, OperatorDiff, PhaseDiff, TraceOfSide};
use super::why::{CauseDiff, capital};
use crate::numbers::table::{Align, Table};
use crate::numbers::units::{percent, quantity, share, signed_time, time_f64};
use crate::text::TextStyle;
use Align::{Flexible, Left, Right};
use profinfer_analysis::group_digits;
use profinfer_diagnostics::printable;

/// Rows of a phase's operators, where `--top` does not say.
const ROWS: usize = 12;
/// The same where there are too few steps.
const FEW: usize = 4;
/// Layers that are shown.
const LAYERS: usize = 8;

/// The whole comparison.
pub fn diff_text(report: &DiffReport, style: &TextStyle) -> String {
    let mut out = String::new();
    for (letter, side) in [("A", &report.a), ("B", &report.b)] {
        out.push_str(&side_line(letter, side, style));
    }
    unlike(&mut out, report, style);
    if report.phases.is_empty() {
        out.push_str("\nNo steps to compare.\n");
    }
    out.push('\n');
    for phase in &report.phases {
        out.push_str(&sentence(phase, style));
    }
    if report.a.estimate || report.b.estimate {
        out.push_str(
            "  Estimates: not every step was recorded whole; tracing overhead adds to the time of whole steps.\n",
        );
    }
    out.push_str(&format!("  {}\n", style.paint("2", &report.what_is_significant())));
    for failure in &report.failures {
        out.push_str(&style.paint("31;1", &format!("Fails: {}.", printable(failure))));
        out.push('\n');
    }
    if let (Some(limit), true) = (report.fail_above, report.failures.is_empty()) {
        out.push_str(&format!("Passes: nothing is significantly slower by more than {}.\n", share(limit)));
    }
    for phase in report.phases.iter().filter(|phase| phase.is_of_both()) {
        causes(&mut out, phase, style);
        layers(&mut out, phase, style);
        operators(&mut out, phase, style);
        counters(&mut out, phase, style);
    }
    out
}

impl DiffReport {
    /// What `significant` means, in a sentence.
    pub(super) fn what_is_significant(&self) -> String {
        let again = match self.again {
            0 => String::new(),
            1 => " and than the difference to another run of A".to_owned(),
            n => format!(" and than the differences to {n} other runs of A"),
        };
        let lines = if self.lines == 1 { "line".to_owned() } else { format!("{} lines", group_digits(self.lines)) };
        format!(
            "Significant: 95 % confidence among all phases, and among all {lines} below (Benjamini-Hochberg), and a \
             change of more than {}{again}.",
            share(self.noise)
        )
    }
}

fn side_line(letter: &str, side: &TraceOfSide, style: &TextStyle) -> String {
    let judged = &side.completeness;
    let verdict = style.paint(if judged.complete { "32" } else { "33;1" }, &printable(&judged.verdict));
    format!("{letter}  {}  {verdict}\n", style.paint("1", &printable(&side.file)))
}

fn unlike(out: &mut String, report: &DiffReport, style: &TextStyle) {
    let mut table = Table::new(&[("", Left), ("A", Left), ("B", Flexible)]);
    for found in &report.unlike {
        table.row(vec![found.what.clone(), found.a.clone(), found.b.clone()]);
    }
    style.table(out, "Differences between the recordings", &table, None);
}

fn sentence(phase: &PhaseDiff, style: &TextStyle) -> String {
    let colour = match phase.time.judgement {
        "more" => "31;1",
        "less" => "32;1",
        _ => "1",
    };
    let mut out = format!("{}: {}.", capital(phase.phase), phase.verdict);
    if phase.explained_by > 0 {
        let lines = if phase.explained_by == 1 { "line".to_owned() } else { format!("{} lines", phase.explained_by) };
        let part = share(phase.explained.min(1.0));
        out.push_str(&format!(" The first {lines} below {} {part} of it.", explains(phase.explained_by)));
    }
    out = format!("{}\n", style.paint(colour, &printable(&out)));
    for why in &phase.why {
        out.push_str(&format!("  {}.\n", printable(why)));
    }
    if phase.is_of_both() {
        out.push_str(&format!("  {}\n", style.paint("2", &format!("Compared: {}.", phase.compared.text))));
    }
    out
}

fn explains(lines: u64) -> &'static str {
    if lines == 1 { "explains" } else { "explain" }
}

impl PhaseDiff {
    /// Both traces have it.
    pub(super) fn is_of_both(&self) -> bool {
        self.a.whole_steps > 0 && self.b.whole_steps > 0
    }

    /// Operators and parts as lines, those that explain most of the difference first: what it is, how it was matched.
    pub(super) fn all_lines(&self) -> Vec<Line<'_>> {
        let operators = self.operators.iter().map(|of| Line {
            title: of.title(),
            note: of.note(),
            time: &of.time,
            of_difference: of.of_difference,
            share: of.share,
        });
        let parts = self.parts.iter().map(|of| Line {
            title: format!("({})", of.part.replace('_', " ")),
            note: String::new(),
            time: &of.time,
            of_difference: of.of_difference,
            share: of.share,
        });
        let mut lines: Vec<Line<'_>> = operators.chain(parts).collect();
        // The lines of the summary, then others that are more than noise, then the rest, each by size.
        let towards = self.time.is_significant();
        lines.sort_by(|x, y| {
            let rank = |line: &Line<'_>| {
                let explains = towards && line.of_difference.is_some_and(|part| part > 0.0);
                (!line.time.is_significant(), !explains)
            };
            let size = |line: &Line<'_>| line.time.difference.abs();
            rank(x).cmp(&rank(y)).then_with(|| size(y).total_cmp(&size(x))).then_with(|| x.title.cmp(&y.title))
        });
        lines
    }
}

/// A line of a phase's table.
pub(super) struct Line<'a> {
    pub(super) title: String,
    pub(super) note: String,
    pub(super) time: &'a ChangeRow,
    pub(super) of_difference: Option<f64>,
    pub(super) share: [f64; 2],
}

impl OperatorDiff {
    /// How it was matched, and what else differs.
    fn note(&self) -> String {
        let mut notes = Vec::new();
        match self.fit {
            "name" => {}
            "place" => notes.push("matched by place".to_owned()),
            fit => notes.push(fit.to_owned()),
        }
        let [a, b] = self.calls;
        if a > 0.0 && b > 0.0 && (a - b).abs() > 0.005 * a.max(b) {
            notes.push(format!("{} → {} per step", calls(a), calls(b)));
        }
        if let ([a], [b]) = (self.a.as_slice(), self.b.as_slice()) {
            for (a, b) in [(&a.dtypes, &b.dtypes), (&a.weights, &b.weights), (&a.backends, &b.backends)] {
                if a != b && !a.is_empty() && !b.is_empty() {
                    notes.push(format!("{} → {}", a.join("/"), b.join("/")));
                }
            }
        }
        notes.join(", ")
    }
}

fn calls(number: f64) -> String {
    if (number - number.round()).abs() < 0.005 { group_digits(number.round() as u64) } else { format!("{number:.2}") }
}

fn causes(out: &mut String, phase: &PhaseDiff, style: &TextStyle) {
    let mut table = Table::new(&[
        ("difference", Right),
        ("of it", Right),
        ("A", Right),
        ("B", Right),
        ("", Left),
        ("share of a step", Right),
        ("cause", Left),
        ("because of", Flexible),
    ]);
    for cause in phase.causes.iter().filter(|cause| cause.matters()) {
        let part = cause.of_difference.filter(|_| phase.time.is_significant()).map_or_else(String::new, share_signed);
        table.row(vec![
            signed_time(cause.time.difference),
            part,
            estimated(cause, time_f64(cause.time.a)),
            estimated(cause, time_f64(cause.time.b)),
            cause.time.judgement_text().to_owned(),
            format!("{} → {}", share(cause.share[0]), share(cause.share[1])),
            cause.words().to_owned(),
            if cause.time.is_significant() { cause.who() } else { String::new() },
        ]);
    }
    style.table(out, &format!("{}: where a step's time went, lanes on average", capital(phase.phase)), &table, None);
}

pub(super) fn estimated(cause: &CauseDiff, text: String) -> String {
    if cause.estimate && cause.time.a + cause.time.b > 0.0 { format!("≈{text}") } else { text }
}

fn operators(out: &mut String, phase: &PhaseDiff, style: &TextStyle) {
    let mut table = Table::new(&[
        ("difference", Right),
        ("of it", Right),
        ("A", Right),
        ("B", Right),
        ("change (95 %)", Right),
        ("", Left),
        ("share of a step", Right),
        ("", Left),
        ("operator", Flexible),
    ]);
    let lines = phase.all_lines();
    // Where there are too few steps, a few lines are enough.
    let rows = style.top.unwrap_or(if phase.time.judgement == "unknown" { FEW } else { ROWS });
    let is_any = |line: &&Line<'_>| line.time.a > 0.0 || line.time.b > 0.0;
    for line in lines.iter().filter(is_any).take(rows) {
        // Parts of a difference that may be noise mean nothing.
        let part = line.of_difference.filter(|_| phase.time.is_significant()).map_or_else(String::new, share_signed);
        table.row(vec![
            signed_time(line.time.difference),
            part,
            time_f64(line.time.a),
            time_f64(line.time.b),
            line.time.relative_text(),
            line.time.judgement_text().to_owned(),
            format!("{} → {}", share(line.share[0]), share(line.share[1])),
            line.note.clone(),
            line.title.clone(),
        ]);
    }
    let all = lines.iter().filter(is_any).count();
    let more = (all > rows).then(|| format!("… and {} more; `--top N` shows more", all - rows));
    style.table(out, &format!("{}: wall time per step", capital(phase.phase)), &table, more);
}

fn share_signed(part: f64) -> String {
    if part.abs() > 99.995 { String::new() } else { format!("{:.1} %", part * 100.0) }
}

fn counters(out: &mut String, phase: &PhaseDiff, style: &TextStyle) {
    let mut table =
        Table::new(&[("counter", Left), ("A", Right), ("B", Right), ("change (95 %)", Right), ("operator", Flexible)]);
    let rows = style.top.unwrap_or(ROWS);
    for of in phase.operators.iter().take(rows) {
        for row in of.counters.iter().filter(|row| row.count.is_significant()) {
            table.row(vec![
                row.counter.clone(),
                quantity(row.count.a, ""),
                quantity(row.count.b, ""),
                row.count.relative_text(),
                of.title(),
            ]);
        }
    }
    style.table(out, &format!("{}: counters that differ, per step", capital(phase.phase)), &table, None);
}

fn layers(out: &mut String, phase: &PhaseDiff, style: &TextStyle) {
    let mut table = Table::new(&[
        ("layer", Left),
        ("difference", Right),
        ("A", Right),
        ("B", Right),
        ("change (95 %)", Right),
        ("", Left),
    ]);
    let mut differing: Vec<_> = phase.layers.iter().filter(|layer| layer.time.is_significant()).collect();
    let all = phase.layers.iter().filter(|layer| layer.layer.is_some()).count();
    if all == 0 || differing.is_empty() {
        return;
    }
    let count = differing.len();
    differing.sort_by(|a, b| b.time.difference.abs().total_cmp(&a.time.difference.abs()));
    for layer in differing.into_iter().take(style.top.unwrap_or(LAYERS)) {
        table.row(vec![
            layer.layer.clone().unwrap_or_else(|| "none".to_owned()),
            signed_time(layer.time.difference),
            time_f64(layer.time.a),
            time_f64(layer.time.b),
            layer.time.relative_text(),
            layer.time.judgement_text().to_owned(),
        ]);
    }
    let title = format!("{}: layers that differ ({count} of {})", capital(phase.phase), phase.layers.len());
    style.table(out, &title, &table, None);
}

/// How the page colours a change.
pub(super) fn change_class(change: &ChangeRow) -> &'static str {
    match change.judgement {
        "more" => "slower",
        "less" => "faster",
        _ => "same",
    }
}

/// A part of the difference, as the page shows it.
pub(super) fn part_text(part: Option<f64>) -> String {
    part.map_or_else(String::new, percent)
}
