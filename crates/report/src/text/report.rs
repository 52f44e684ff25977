//! The report as text: completeness first, then what a person grasps in a minute.

use super::header::{completeness, estimated, facts};
use super::metrics::{self, Columns};
use super::style::{FEW, TextStyle, few, more};
use super::{faults, offload, reclaim, requests, roofline, threads, verdict};
use crate::model::metrics::absent;
use crate::model::rows::{OperatorRow, PhaseReport};
use crate::model::sampling::interval_hint;
use crate::numbers::table::{Align, Table};
use crate::numbers::units::{rate, share, time, time_f64};
use crate::report::{By, Report};
use Align::{Flexible, Left, Right};
use profinfer_analysis::{Phase, counted, group_digits};
use profinfer_diagnostics::printable;

/// Rows of the main table of a whole report, without `--top`.
const MAIN: usize = 15;
/// Experts that are listed one by one.
const EXPERTS: usize = 40;

/// The whole report.
pub fn report_text(report: &Report, style: &TextStyle) -> String {
    let mut out = completeness(&report.completeness, style);
    verdict::opening(&mut out, &report.verdict, style);
    for sentence in report.kept.iter().flat_map(|kept| kept.sentences()) {
        out.push_str(&format!("  {}\n", printable(&sentence)));
    }
    out.push_str(&facts(&report.trace));
    out.push_str(&roofline::report_line(report));
    for sentence in report.sampling.sentences() {
        out.push_str(&format!("  {}\n", printable(&sentence)));
    }
    phases(&mut out, report, style);
    if report.by != By::Request {
        requests::text(&mut out, report, style);
    }
    where_it_went(&mut out, report, style);
    if let Some(faults) = &report.faults {
        faults::text(&mut out, faults, style);
    }
    if let Some(reclaim) = &report.reclaim {
        reclaim::text(&mut out, reclaim, style);
    }
    if !style.main_only {
        verdict::operators(&mut out, &report.verdict, &report.table_phases, style);
    }
    match report.by {
        By::Lane => lanes(&mut out, report, style),
        By::Expert => experts(&mut out, report, style),
        By::Request => requests::text(&mut out, report, style),
        by => main_table(&mut out, report, by, style),
    }
    if let Some(offload) = report.offload.as_ref().filter(|_| report.by == By::Backend || !style.main_only) {
        offload::text(&mut out, offload, &report.table_phases.join(" and "), report.by == By::Backend, style);
    }
    if report.by != By::Request {
        metrics_of(&mut out, report, style);
    }
    if !style.main_only {
        other_tables(&mut out, report, style);
    }
    out
}

fn phases(out: &mut String, report: &Report, style: &TextStyle) {
    let mut table = Table::new(&[
        ("", Left),
        ("steps", Right),
        ("tokens", Right),
        ("tokens/s", Right),
        ("mean", Right),
        ("p50", Right),
        ("p90", Right),
        ("p99", Right),
        ("longest", Right),
    ]);
    for phase in report.phases.iter().filter(|p| p.steps > 0) {
        let step = &phase.step;
        table.row(vec![
            phase.phase.to_owned(),
            group_digits(phase.steps),
            phase.tokens.map_or_else(String::new, group_digits),
            phase.tokens_per_s.map_or_else(String::new, rate),
            time_f64(step.mean_ns),
            time(step.p50_ns),
            time(step.p90_ns),
            time(step.p99_ns),
            time(step.max_ns),
        ]);
    }
    let times = report.phases.iter().map(|phase| &phase.step).chain([&report.ttft, &report.tpot]);
    style.table(out, "Steps", &table, estimated(times));
    if table.is_empty() {
        out.push_str("\nNo steps.\n");
    }
    let (ttft, tpot) = (&report.ttft, &report.tpot);
    if ttft.count > 0 {
        let of = if ttft.count == 1 {
            String::new()
        } else {
            format!(", mean of {}", counted(ttft.count, if report.requests.is_empty() { "prompt" } else { "request" }))
        };
        out.push_str(&format!("  Time to first token: {}{of}.\n", time_f64(ttft.mean_ns)));
    }
    if tpot.count > 0 {
        let is_of_tokens = report.has_tokens() && report.sequences_together().is_none();
        let what = if is_of_tokens { "output token" } else { "step" };
        out.push_str(&format!(
            "  Time per {what}: mean {}, p50 {}, p90 {}, p99 {}, of {}, sampling included.\n",
            time_f64(tpot.mean_ns),
            time(tpot.p50_ns),
            time(tpot.p90_ns),
            time(tpot.p99_ns),
            counted(tpot.count, if report.requests.is_empty() { "step" } else { "token" })
        ));
    }
    if let Some(sequences) = report.sequences_together() {
        out.push_str(&format!(
            "  A decode step computes {sequences:.1} sequences on average, of several requests or as candidates (beams) of one; \
             its tokens are those of all.\n"
        ));
    }
}

/// Where a phase's lane time went.
fn where_it_went(out: &mut String, report: &Report, style: &TextStyle) {
    let mut table = Table::new(&[
        ("", Left),
        ("operators", Right),
        ("waiting", Right),
        ("outside operators", Right),
        ("outside graphs", Right),
        ("blocked", Right),
        ("run-queue delay", Right),
    ]);
    // Where steps alone were recorded their insides are unknown.
    let rows = report.phases.iter().filter(|p| p.lane_time_ns > 0).map(where_row);
    for row in rows.filter(|row| row.iter().skip(1).any(|share| !share.is_empty())) {
        table.row(row);
    }
    let of = if report.lanes > 1 { format!("share of lane time, {} lanes", report.lanes) } else { "share".to_owned() };
    style.table(out, &format!("Where the time went ({of})"), &table, None);
}

#[allow(clippy::cast_precision_loss)]
fn where_row(phase: &PhaseReport) -> Vec<String> {
    let of = |ns: u64| share(ns as f64 / phase.lane_time_ns as f64);
    let optional = |ns: Option<u64>| ns.map_or_else(String::new, of);
    let has_operators = phase.operators > 0;
    vec![
        phase.phase.to_owned(),
        if has_operators { estimate(phase.waiting_estimated, of(phase.work_ns)) } else { String::new() },
        waiting(phase.waiting_ns, phase.waiting_estimated, |ns| match phase.waiting_half_width_ns {
            Some(half) => format!("{} ± {}", of(ns), share(half / phase.lane_time_ns as f64)),
            None => of(ns),
        }),
        optional(phase.outside_operators_ns),
        optional(phase.outside_graphs_ns),
        optional(phase.off_cpu.map(|o| o.blocked_ns)),
        optional(phase.off_cpu.map(|o| o.runnable_ns)),
    ]
}

/// A figure, marked as an estimate where it is one.
pub(crate) fn estimate(is_one: bool, figure: String) -> String {
    if is_one { format!("≈{figure}") } else { figure }
}

/// A cell of waiting: nothing where there was none, a dash where it was not recorded.
pub(crate) fn waiting(ns: Option<u64>, estimated: bool, shown: impl Fn(u64) -> String) -> String {
    match ns {
        None => "–".to_owned(),
        Some(0) => String::new(),
        Some(ns) => estimate(estimated, shown(ns)),
    }
}

fn operator_table(rows: &[OperatorRow]) -> Table {
    let mut table = Table::new(&[
        ("share", Right),
        ("total", Right),
        ("waiting", Right),
        ("count", Right),
        ("mean", Right),
        ("max", Right),
        ("layer", Left),
        ("backend", Left),
        ("op", Left),
        ("dtype", Left),
        ("shape", Left),
        ("layers", Right),
        ("name", Flexible),
    ]);
    for row in rows {
        let [layer, backend, op, dtype, shape, name] = row.labels();
        table.row(vec![
            share(row.share),
            total(row),
            waiting(row.waiting_ns, row.waiting_estimated, time),
            group_digits(row.count),
            mean(row),
            time(row.max_ns),
            layer,
            backend,
            op,
            dtype,
            shape,
            if row.layers > 1 && row.name.is_some() { row.layers.to_string() } else { String::new() },
            name,
        ]);
    }
    table
}

/// `≈1.58 µs`, where what tracing takes was subtracted.
pub(super) fn mean(row: &OperatorRow) -> String {
    row.mean_without_tracing_ns.map_or_else(|| time_f64(row.mean_ns), |ns| estimate(true, time_f64(ns)))
}

/// What the mark means; `None` if no row has it.
pub(super) fn mark_of_means<'a>(rows: impl IntoIterator<Item = &'a OperatorRow>) -> Option<String> {
    let tracing = |row: &OperatorRow| Some(row.mean_ns - row.mean_without_tracing_ns?);
    let most = rows.into_iter().filter_map(tracing).reduce(f64::max)?;
    Some(format!("≈ mean: without some {} of tracing each; total and share include it", time_f64(most)))
}

/// Added up, or estimated for all steps.
pub(super) fn total(row: &OperatorRow) -> String {
    match row.estimate {
        None => time(row.total_ns),
        Some(estimate) => match estimate.high_ns {
            None => format!("≈ {}", time_f64(estimate.total_ns)),
            Some(high) => format!("≈ {} ± {}", time_f64(estimate.total_ns), time_f64(high - estimate.total_ns)),
        },
    }
}

fn main_table(out: &mut String, report: &Report, by: By, style: &TextStyle) {
    let title = match by {
        By::Op => "Operator types",
        By::Layer => "Layers",
        By::Backend => "Backends",
        By::Shape => "Operator types and shapes",
        _ => "Operators",
    };
    let of = if report.lanes > 1 {
        format!(", total and share: work of {} lanes, mean: elapsed", report.lanes)
    } else {
        String::new()
    };
    let recorded = if report.table_phases == ["outside"] { ", share: of the recorded time" } else { "" };
    let title = format!("{title} ({}{of}{recorded})", report.table_phases.join(" and "));
    let limit = style.top.unwrap_or(if style.main_only { usize::MAX } else { MAIN });
    let shown = report.operators.len().min(limit);
    let rows = &report.operators[..shown];
    style.table(out, &title, &operator_table(rows), more(report.operators_total, shown, "`--top N` shows more"));
    let mark = mark_of_means(rows);
    for hint in mark.into_iter().chain(interval_hint(rows, &report.table_phases)).chain(not_met(report)) {
        out.push_str(&format!("  {}\n", style.paint("2", &hint)));
    }
}

/// Phases that the tables of operators lack, since no sampling window met one of their steps.
fn not_met(report: &Report) -> Option<String> {
    let is_met = |of: &&PhaseReport| of.whole_steps > 0;
    let lacks = |of: &&PhaseReport| of.steps > 0 && of.whole_steps == 0 && of.phase != Phase::Outside.as_str();
    report.phases.iter().find(is_met).filter(|_| report.sampling.sampled)?;
    let phases: Vec<&str> = report.phases.iter().filter(lacks).map(|of| of.phase).collect();
    (!phases.is_empty())
        .then(|| format!("left out: {}, of which no step was recorded with operators", phases.join(" and ")))
}

/// Metrics and counters: of the rows of the main table where it alone was asked for, else of operator types.
fn metrics_of(out: &mut String, report: &Report, style: &TextStyle) {
    let mut columns = Columns::new(&report.metrics);
    let by_type = !style.main_only || report.by == By::Expert;
    let rows = if by_type { &report.operator_types } else { &report.operators };
    let shown = rows.len().min(style.top.unwrap_or(if by_type { FEW } else { usize::MAX }));
    let table = match (columns.is_empty(), report.by) {
        (true, _) => None,
        (false, By::Lane) => metrics::lane_table(report, &mut columns),
        (false, _) => metrics::table(&rows[..shown], &mut columns),
    };
    if let Some(table) = &table {
        let title = if by_type && report.by != By::Lane { "Metrics by operator type" } else { "Metrics" };
        let title = format!("{title} ({}, from the sums of each row)", report.table_phases.join(" and "));
        style.table(out, &title, table, None);
        columns.marks().iter().for_each(|mark| out.push_str(&format!("  {mark}\n")));
    }
    // Without requested counters, a whole report has no such section.
    let asked = style.main_only || !report.metrics.counters.is_empty();
    let absent = if asked { absent(&report.metrics) } else { Vec::new() };
    if table.is_none() && !absent.is_empty() {
        out.push_str(&style.heading("Metrics"));
    }
    absent.iter().for_each(|sentence| out.push_str(&format!("  {}\n", printable(sentence))));
}

fn other_tables(out: &mut String, report: &Report, style: &TextStyle) {
    let (types, rest) = few(&report.operator_types, "`--by op` shows all");
    style.table(out, "Operator types", &operator_table(types), rest);
    let mut layers = report.layers.clone();
    layers.sort_by_key(|l| std::cmp::Reverse(l.total_ns));
    let (layers, rest) = few(&layers, "`--by layer` shows all");
    style.table(out, "Layers", &operator_table(layers), rest);
    backends(out, report, style);
    if report.by != By::Lane {
        lanes(out, report, style);
    }
    if let Some(report) = &report.threads {
        threads::text(out, report, style);
    }
    regions(out, report, style);
    if report.by != By::Expert {
        expert_layers(out, report, style);
    }
}

fn backends(out: &mut String, report: &Report, style: &TextStyle) {
    let mut table = Table::new(&[
        ("share", Right),
        ("total", Right),
        ("graphs", Right),
        ("mean", Right),
        ("max", Right),
        ("operators", Right),
        ("backend", Flexible),
    ]);
    for row in &report.backends {
        table.row(vec![
            share(row.share),
            time(row.total_ns),
            group_digits(row.graphs),
            time_f64(row.mean_ns),
            time(row.max_ns),
            group_digits(row.operators),
            row.backend.clone(),
        ]);
    }
    style.table(out, "Graphs by backend", &table, None);
}

fn lanes(out: &mut String, report: &Report, style: &TextStyle) {
    if report.lane_rows.len() < 2 && report.by != By::Lane {
        return;
    }
    let mut table = Table::new(&[
        ("lane", Right),
        ("busy", Right),
        ("waiting", Right),
        ("work", Right),
        ("operators", Right),
        ("slowest in", Right),
    ]);
    for row in &report.lane_rows {
        table.row(vec![
            row.lane.to_string(),
            estimate(row.waiting_estimated, share(row.busy)),
            waiting(row.waiting_ns, row.waiting_estimated, |_| share(row.waiting.unwrap_or(0.0))),
            estimate(row.waiting_estimated, time(row.work_ns)),
            group_digits(row.shares),
            if row.slowest > 0.0 { share(row.slowest) } else { String::new() },
        ]);
    }
    style.table(out, "Lanes", &table, None);
}

fn regions(out: &mut String, report: &Report, style: &TextStyle) {
    let mut table = Table::new(&[
        ("share", Right),
        ("total", Right),
        ("in operators", Right),
        ("count", Right),
        ("mean", Right),
        ("max", Right),
        ("region", Flexible),
    ]);
    for row in &report.regions {
        table.row(vec![
            share(row.share),
            time(row.total_ns),
            if row.in_operators_ns > 0 { time(row.in_operators_ns) } else { String::new() },
            group_digits(row.count),
            time_f64(row.mean_ns),
            time(row.max_ns),
            row.region.clone(),
        ]);
    }
    style.table(out, "Regions", &table, None);
}

fn expert_layers(out: &mut String, report: &Report, style: &TextStyle) {
    let mut table = Table::new(&[
        ("layer", Left),
        ("choices", Right),
        ("experts", Right),
        ("busiest", Right),
        ("its share", Right),
        ("busiest / mean", Right),
    ]);
    let limit = if report.by == By::Expert { usize::MAX } else { FEW };
    for row in report.expert_layers.iter().take(limit) {
        table.row(vec![
            row.layer.clone().unwrap_or_else(|| "?".to_owned()),
            group_digits(row.activations),
            group_digits(row.experts),
            row.busiest.to_string(),
            share(row.busiest_share),
            rate(row.imbalance),
        ]);
    }
    let shown = report.expert_layers.len().min(limit);
    let rest = more(report.expert_layers.len() as u64, shown, "`--by expert` shows all");
    style.table(out, "Experts by layer", &table, rest);
}

fn experts(out: &mut String, report: &Report, style: &TextStyle) {
    expert_layers(out, report, style);
    let mut table = Table::new(&[("layer", Left), ("expert", Right), ("choices", Right), ("share", Right)]);
    let shown = report.experts.len().min(style.top.unwrap_or(EXPERTS));
    for row in &report.experts[..shown] {
        let layer = row.layer.clone().unwrap_or_else(|| "?".to_owned());
        table.row(vec![layer, row.expert.to_string(), group_digits(row.activations), share(row.share)]);
    }
    style.table(out, "Experts", &table, more(report.experts.len() as u64, shown, "`--top N` shows more"));
    if report.expert_layers.is_empty() {
        out.push_str("\nNo experts were recorded.\n");
    }
}
