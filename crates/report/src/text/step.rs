//! One step as text.

use super::header::{completeness, facts};
use super::style::{TextStyle, more};
use super::{estimate, waiting};
use crate::model::step::{StepReport, StepView};
use crate::numbers::table::{Align, Table};
use crate::numbers::units::{shape, time};
use Align::{Flexible, Left, Right};
use profinfer_analysis::counted;
use profinfer_diagnostics::printable;

/// One step.
pub fn step_text(report: &StepReport, style: &TextStyle) -> String {
    let step = &report.step;
    let mut out = completeness(&report.completeness, style);
    out.push_str(&facts(&report.trace));
    let tokens = step.tokens.map_or_else(String::new, |n| format!(", {}", counted(n, "token")));
    let incomplete = match (step.complete, step.recorded) {
        (false, _) => "; records of it were lost",
        (true, "bare") => "; its operators were not recorded",
        (true, "partly") => "; its operators were recorded in part",
        _ => "",
    };
    let title = format!("Step {}: {}{tokens}, {}{incomplete}", step.number, step.phase, time(step.duration_ns));
    out.push_str(&style.heading(&title));
    for missing in &step.missing {
        let lane = missing.lane.map_or_else(String::new, |lane| format!(" of lane {lane}"));
        let thread = missing.tid.map_or_else(String::new, |tid| format!(" (thread {tid})"));
        let records = counted(missing.records, "record");
        out.push_str(&format!("  At most {records}{lane} lost in this step{thread}\n"));
    }
    for graph in &step.graphs {
        let (start, duration) = (time(graph.start_ns), time(graph.duration_ns));
        out.push_str(&format!("  graph on {} at {start}, {duration}\n", printable(&graph.backend)));
    }
    let shown = step.operators.len().min(style.top.unwrap_or(usize::MAX));
    let table = step_table(step, shown);
    let rest = more(step.operators.len() as u64, shown, "`--top N` shows more");
    style.table(&mut out, "Operators in the order of execution", &table, rest);
    out
}

fn step_table(step: &StepView, shown: usize) -> Table {
    let mut lanes: Vec<u32> = step.operators.iter().flat_map(|o| o.lanes.iter().map(|l| l.lane)).collect();
    lanes.sort_unstable();
    lanes.dedup();
    // More lanes than fit a line are in the JSON.
    lanes.truncate(16);
    let names: Vec<String> = lanes.iter().map(|lane| format!("lane {lane}")).collect();
    let mut columns = vec![("at", Right), ("elapsed", Right)];
    if lanes.len() > 1 {
        columns.extend(names.iter().map(|name| (name.as_str(), Right)));
    }
    columns.extend([
        ("waiting", Right),
        ("layer", Left),
        ("op", Left),
        ("dtype", Left),
        ("shape", Left),
        ("name", Flexible),
    ]);
    let mut table = Table::new(&columns);
    for operator in &step.operators[..shown] {
        let mut row = vec![time(operator.start_ns), time(operator.duration_ns)];
        if lanes.len() > 1 {
            let work = |lane: &u32| operator.lanes.iter().find(|l| l.lane == *lane).map(|l| time(l.work_ns));
            row.extend(lanes.iter().map(|lane| work(lane).unwrap_or_default()));
        }
        let name = match &operator.covers {
            Some(covers) => format!("{} (with {covers})", operator.name),
            None => operator.name.clone(),
        };
        row.extend([
            waiting(operator.waiting_ns, false, time),
            operator.layer.as_ref().map_or_else(String::new, |layer| estimate(operator.layer_inferred, layer.clone())),
            operator.op.clone(),
            operator.dtype.clone().unwrap_or_default(),
            shape(&operator.shape),
            name,
        ]);
        table.row(row);
    }
    table
}
