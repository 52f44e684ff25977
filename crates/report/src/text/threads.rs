//! The report's section on the lanes' threads.

use super::style::TextStyle;
use crate::model::threads::{CpuRow, OperatorTimeRow, ThreadsReport};
use crate::numbers::ratios::ratio;
use crate::numbers::table::{Align, Table};
use crate::numbers::units::{share, time};
use Align::{Flexible, Left, Right};
use profinfer_diagnostics::printable;

/// Operators, and processes, that are shown.
const SHOWN: usize = 8;

/// The section's text.
pub(crate) fn text(out: &mut String, report: &ThreadsReport, style: &TextStyle) {
    let mut table = Table::new(&[
        ("lane", Right),
        ("running", Right),
        ("runnable", Right),
        ("sleeping", Right),
        ("blocked", Right),
        ("stopped", Right),
        ("unknown", Right),
        ("voluntary switches", Right),
        ("preemptions", Right),
        ("migrations", Right),
        ("CPUs", Left),
    ]);
    for row in &report.lanes {
        let of = |ns: u64| if ns == 0 { String::new() } else { share(ratio(ns, row.wall_ns)) };
        let count = |n: u64| if n == 0 { String::new() } else { profinfer_analysis::group_digits(n) };
        table.row(vec![
            row.lane.map_or_else(|| "none".to_owned(), |lane| lane.to_string()),
            share(ratio(row.running_ns, row.wall_ns)),
            of(row.runnable_ns),
            of(row.sleeping_ns),
            of(row.blocked_ns),
            of(row.stopped_ns.saturating_add(row.attaching_ns)),
            of(row.unknown_ns),
            count(row.voluntary_switches),
            count(row.involuntary_switches),
            count(row.migrations),
            cpus(&row.cpus),
        ]);
    }
    style.table(out, "Threads of the lanes (share of their time)", &table, None);
    for sentence in &report.sentences {
        out.push_str(&format!("  {}\n", printable(sentence)));
    }
    operator_times(out, report, style);
    interference_table(out, report, style);
}

fn cpus(rows: &[CpuRow]) -> String {
    let name = |row: &CpuRow| {
        let frequency = row.frequency.map(|frequency| format!("{:.2} GHz", f64::from(frequency.mean_khz) / 1e6));
        match row.kind.iter().chain(&frequency).map(String::as_str).collect::<Vec<_>>().as_slice() {
            [] => row.cpu.to_string(),
            more => format!("{} ({})", row.cpu, more.join(", ")),
        }
    };
    let named: Vec<String> = rows.iter().take(8).map(name).collect();
    if rows.len() > 8 { format!("{}, … ({})", named.join(", "), rows.len()) } else { named.join(", ") }
}

/// Only where something other than work and waiting took time.
fn operator_times(out: &mut String, report: &ThreadsReport, style: &TextStyle) {
    let mut table = Table::new(&[
        ("total", Right),
        ("compute", Right),
        ("waiting", Right),
        ("runnable", Right),
        ("sleeping", Right),
        ("blocked", Right),
        ("stopped", Right),
        ("unknown", Right),
        ("op", Left),
        ("name", Flexible),
    ]);
    let disturbed = |row: &&OperatorTimeRow| {
        let off = [row.runnable_ns, row.sleeping_ns, row.blocked_ns, row.stopped_ns, row.attaching_ns];
        off.into_iter().fold(0, u64::saturating_add) > row.total_ns / 1000
    };
    for row in report.operators.iter().filter(disturbed).take(SHOWN) {
        let of = |ns: u64| if ns == 0 { String::new() } else { share(ratio(ns, row.total_ns)) };
        table.row(vec![
            time(row.total_ns),
            share(ratio(row.compute_ns, row.total_ns)),
            of(row.waiting_ns),
            of(row.runnable_ns),
            of(row.sleeping_ns),
            of(row.blocked_ns),
            of(row.stopped_ns.saturating_add(row.attaching_ns)),
            of(row.unknown_ns),
            row.op.clone(),
            row.name.clone(),
        ]);
    }
    style.table(out, "Operators with run-queue delay, sleep or blocking", &table, None);
}

fn interference_table(out: &mut String, report: &ThreadsReport, style: &TextStyle) {
    let mut table =
        Table::new(&[("share", Right), ("took", Right), ("pid", Right), ("process", Left), ("most from", Flexible)]);
    for row in report.interference.iter().take(SHOWN) {
        let most = row.operators.first().map(|from| format!("{} ({})", from.name, time(from.taken_ns)));
        table.row(vec![
            share(row.share),
            time(row.taken_ns),
            row.pid.to_string(),
            row.title(),
            most.unwrap_or_default(),
        ]);
    }
    style.table(out, "Processes that ran instead of runnable lanes", &table, None);
}
