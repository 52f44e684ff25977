//! The report's section on waiting for the disk.

use super::style::{TextStyle, few};
use crate::model::faults::{FaultPhaseRow, FaultRow, FaultsReport, FetchFigures};
use crate::numbers::table::Align::{Flexible, Left, Right};
use crate::numbers::table::Table;
use crate::numbers::units::{bytes, share, time};
use profinfer_analysis::{Phase, counted, group_digits};
use profinfer_diagnostics::printable;

/// Steps that are shown.
const STEPS: usize = 3;

/// The section as text.
pub(crate) fn text(out: &mut String, report: &FaultsReport, style: &TextStyle) {
    // What is read while a model is loaded, nobody waits for in a step.
    let outside = |row: &FaultPhaseRow| row.phase == Phase::Outside.as_str();
    let happened = |row: &FaultPhaseRow| row.fetched.faults > Some(0) || (!outside(row) && row.fetched.bytes > Some(0));
    if !report.phases.iter().any(happened) {
        return;
    }
    let mut table = Table::new(&[
        ("", Left),
        ("steps that waited", Right),
        ("major faults", Right),
        ("waited", Right),
        ("read", Right),
    ]);
    for row in &report.phases {
        let FetchFigures { faults, waited_ns, bytes: read, .. } = row.fetched;
        let steps = if outside(row) { String::new() } else { group_digits(row.steps) };
        let mut cells = vec![row.phase.to_owned(), steps];
        cells.extend(figures(faults, waited_ns, read));
        table.row(cells);
    }
    style.table(out, "Waiting for the disk (sum of all threads)", &table, None);
    for step in report.steps.iter().take(STEPS) {
        out.push_str(&format!("  {}.\n", printable(&sentence_cased(&step.sentence))));
    }
    let untimed: u64 = report.phases.iter().map(|row| row.fetched.untimed_faults).sum();
    if untimed > 0 {
        let which = counted(untimed, "fault");
        out.push_str(&format!("  The duration of {which} is unknown: context switches were not recorded.\n"));
    }
    if style.main_only {
        return;
    }
    let total: u64 = report.tensors.iter().filter_map(|row| row.waited_ns).sum();
    let (rows, rest) = few(&report.tensors, "`--json` lists all");
    style.table(out, "Disk waits by tensor", &rows_table(rows, total, "tensor"), rest);
    let (rows, rest) = few(&report.operators, "`--json` lists all");
    style.table(out, "Disk waits by operator", &rows_table(rows, total, "operator"), rest);
    let mut layers = report.layers.clone();
    layers.sort_by_key(|row| std::cmp::Reverse((row.waited_ns, row.faults, row.bytes)));
    if layers.iter().any(|row| row.layer.is_some()) {
        let (rows, rest) = few(&layers, "`--json` lists all");
        style.table(out, "Disk waits by layer", &rows_table(rows, total, ""), rest);
    }
}

fn sentence_cased(sentence: &str) -> String {
    let mut letters = sentence.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn figures(faults: Option<u64>, waited: Option<u64>, read: Option<u64>) -> [String; 3] {
    [
        faults.map_or_else(String::new, group_digits),
        waited.map_or_else(String::new, time),
        read.map_or_else(String::new, bytes),
    ]
}

#[allow(clippy::cast_precision_loss)]
fn rows_table(rows: &[FaultRow], total: u64, what: &str) -> Table {
    let mut table = Table::new(&[
        ("share", Right),
        ("waited", Right),
        ("major faults", Right),
        ("read", Right),
        ("layer", Left),
        ("expert", Right),
        (what, Flexible),
    ]);
    for row in rows {
        let part = row.waited_ns.filter(|_| total > 0).map(|waited| share(waited as f64 / total as f64));
        let [faults, waited, read] = figures(row.faults, row.waited_ns, row.bytes);
        let none = if what == "operator" { "outside operators" } else { "unknown" };
        let name = row.name.clone().unwrap_or_else(|| if what.is_empty() { String::new() } else { none.to_owned() });
        let layer = row.layer.clone().unwrap_or_else(|| if what.is_empty() { "none".into() } else { String::new() });
        let expert = row.expert.map_or_else(String::new, |expert| expert.to_string());
        table.row(vec![part.unwrap_or_default(), waited, faults, read, layer, expert, name]);
    }
    table
}
