//! The report by function as text.

use super::model::{FunctionsReport, callers};
use crate::numbers::table::{Align, Table};
use crate::text::TextStyle;
use profinfer_analysis::group_digits;

/// Rows where no number was asked for.
const ROWS: usize = 25;

/// The report as text.
pub fn functions_text(report: &FunctionsReport, style: &TextStyle) -> String {
    let mut out = format!("{}\n", report.completeness.verdict);
    let facts = &report.sampling;
    if facts.samples > 0 {
        let lost = match facts.lost {
            0 => "none lost".to_owned(),
            lost => format!("{} lost", group_digits(lost)),
        };
        let callers = callers(facts.stacks, facts.unwind_tables, facts.cut);
        let callers = callers.map_or("without callers".to_owned(), |by| format!("with callers {by}"));
        out.push_str(&format!(
            "\n{} samples of {}, {} in a second of each thread's CPU time, {callers}; {lost}.\n",
            group_digits(facts.samples),
            facts.event,
            facts.hz
        ));
    }
    if let Some(absent) = &facts.absent {
        out.push_str(&format!("\nNot sampled: {absent}. `record --sample 999` takes samples.\n"));
    }
    if report.samples == 0 {
        out.push_str("\nNo sample was selected.\n");
        return out;
    }
    let few = |few: bool| if few { "few samples".to_owned() } else { String::new() };
    let mut places = Table::new(&[
        ("share", Align::Right),
        ("95 % interval", Align::Right),
        ("samples", Align::Right),
        ("", Align::Left),
        ("in", Align::Left),
        ("mostly", Align::Right),
        ("function", Align::Flexible),
    ]);
    for row in &report.places {
        let mostly = percent(row.function_share);
        places.row(vec![
            percent(row.share),
            range(row.interval),
            group_digits(row.samples),
            few(row.few),
            row.place.clone(),
            mostly,
            row.function.clone(),
        ]);
    }
    let of = match (&report.within, report.phase) {
        (Some(within), Some(phase)) => format!(" ({within}, {phase})"),
        (Some(within), None) => format!(" ({within})"),
        (None, Some(phase)) => format!(" ({phase})"),
        (None, None) => String::new(),
    };
    style.table(&mut out, &format!("Samples by operator type{of}"), &places, None);
    let mut functions = Table::new(&[
        ("share", Align::Right),
        ("95 % interval", Align::Right),
        ("samples", Align::Right),
        ("", Align::Left),
        ("waiting", Align::Right),
        ("module", Align::Left),
        ("function", Align::Flexible),
    ]);
    let rows = style.top.unwrap_or(ROWS);
    for row in report.functions.iter().take(rows) {
        functions.row(vec![
            percent(row.share),
            range(row.interval),
            group_digits(row.samples),
            few(row.few),
            if row.waiting > 0 { group_digits(row.waiting) } else { String::new() },
            row.module.clone(),
            row.function.clone(),
        ]);
    }
    let rest = report.functions.len().saturating_sub(rows) as u64;
    let more = (rest > 0).then(|| format!("… and {} more; --top N", group_digits(rest)));
    style.table(&mut out, &format!("Functions{of}, callees left out"), &functions, more);
    out
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn range([low, high]: [f64; 2]) -> String {
    format!("{:.1} to {:.1}", low * 100.0, high * 100.0)
}
