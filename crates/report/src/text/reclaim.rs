//! The report's section on reclaim and compaction.

use super::style::{TextStyle, few};
use crate::model::reclaim::{ReclaimFigures, ReclaimReport};
use crate::numbers::table::Align::{Flexible, Left, Right};
use crate::numbers::table::Table;
use crate::numbers::units::{share, time};
use profinfer_analysis::group_digits;

/// The section as text; nothing where there was none in steps.
pub(crate) fn text(out: &mut String, report: &ReclaimReport, style: &TextStyle) {
    let happened = report.phases.iter().filter(|row| row.figures.ns > 0);
    if report.steps.is_empty() {
        return;
    }
    let mut table = Table::new(&[
        ("", Left),
        ("steps with it", Right),
        ("times", Right),
        ("time", Right),
        ("control group's limit", Right),
        ("machine", Right),
        ("compaction", Right),
        ("longest", Right),
    ]);
    for row in happened {
        let ReclaimFigures { count, ns, group_ns, machine_ns, compaction_ns, longest_ns } = row.figures;
        let of = |ns: u64| if ns == 0 { String::new() } else { time(ns) };
        table.row(vec![
            row.phase.to_owned(),
            group_digits(row.steps),
            group_digits(count),
            time(ns),
            of(group_ns),
            of(machine_ns),
            of(compaction_ns),
            time(longest_ns),
        ]);
    }
    style.table(out, "Memory reclaim and compaction (measured, sum of all threads)", &table, None);
    if style.main_only {
        return;
    }
    let total: u64 = report.operators.iter().map(|row| row.figures.ns).sum();
    let (rows, rest) = few(&report.operators, "`--json` lists more");
    let mut table = Table::new(&[("share", Right), ("time", Right), ("times", Right), ("operator", Flexible)]);
    for row in rows {
        #[allow(clippy::cast_precision_loss)]
        let part = row.figures.ns as f64 / total.max(1) as f64;
        let name = row.name.clone().unwrap_or_else(|| "outside operators".to_owned());
        table.row(vec![share(part), time(row.figures.ns), group_digits(row.figures.count), name]);
    }
    style.table(out, "Memory reclaim and compaction by operator", &table, rest);
}
