//! The report as text: completeness first, then what a person grasps in a minute.

use super::metrics::{self, Columns};
use super::model::{By, OperatorRow, PhaseReport, Report, TraceFacts};
use super::sampling::interval_hint;
use super::step::{StepReport, StepView};
use super::table::{Align, Table};
use super::threads;
use super::units::{rate, shape, share, time, time_f64};
use crate::analysis::{Completeness, Distribution, counted, group_digits};
use crate::diag::printable;
use Align::{Flexible, Left, Right};

/// Rows of the tables that are not the main one.
const FEW: usize = 8;
/// Rows of the main table of a whole report, where `--top` does not say.
const MAIN: usize = 15;
/// Experts that are listed one by one.
const EXPERTS: usize = 40;

/// How a text looks.
#[derive(Debug, Clone, Copy, Default)]
pub struct Look {
    /// Characters of a line; no line is cut, where left out.
    pub width: Option<usize>,
    /// With ANSI colours.
    pub colour: bool,
    /// Rows of the main table.
    pub top: Option<usize>,
    /// The main table alone was asked for.
    pub main_only: bool,
}

impl Look {
    pub(super) fn style(&self, code: &str, text: &str) -> String {
        if self.colour { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    pub(super) fn heading(&self, text: &str) -> String {
        format!("\n{}\n", self.style("1", text))
    }

    pub(super) fn table(&self, out: &mut String, title: &str, table: &Table, more: Option<String>) {
        if table.is_empty() {
            return;
        }
        out.push_str(&self.heading(title));
        out.push_str(&table.render(self.width, |heading| self.style("2", heading)));
        if let Some(more) = more {
            out.push_str(&format!("  {}\n", self.style("2", &more)));
        }
    }
}

/// The whole report.
pub fn report_text(report: &Report, look: &Look) -> String {
    let mut out = completeness(&report.completeness, look);
    super::verdict::opening(&mut out, &report.verdict, look);
    out.push_str(&facts(&report.trace));
    out.push_str(&super::roofline::report_line(report));
    for sentence in report.sampling.sentences() {
        out.push_str(&format!("  {}\n", printable(&sentence)));
    }
    phases(&mut out, report, look);
    where_it_went(&mut out, report, look);
    if let Some(faults) = &report.faults {
        super::faults::text(&mut out, faults, look);
    }
    if !look.main_only {
        super::verdict::operators(&mut out, &report.verdict, &report.table_phases, look);
    }
    match report.by {
        By::Lane => lanes(&mut out, report, look),
        By::Expert => experts(&mut out, report, look),
        by => main_table(&mut out, report, by, look),
    }
    metrics_of(&mut out, report, look);
    if !look.main_only {
        other_tables(&mut out, report, look);
    }
    out
}

pub(super) fn completeness(judged: &Completeness, look: &Look) -> String {
    let mut out = look.style(if judged.complete { "32;1" } else { "33;1" }, &printable(&judged.verdict));
    out.push('\n');
    for lost in judged.lost.iter().filter(|l| !l.harmful) {
        out.push_str(&format!("  {}\n", printable(&lost.sentence())));
    }
    for note in &judged.notes {
        out.push_str(&format!("  {}\n", printable(note)));
    }
    out
}

pub(super) fn facts(trace: &TraceFacts) -> String {
    let cpus = if trace.cpus > 0 { counted(u64::from(trace.cpus), "cpu") } else { String::new() };
    let kernel = if trace.kernel.is_empty() { String::new() } else { format!("Linux {}", trace.kernel) };
    let parts = [trace.engine.clone(), trace.command.join(" "), trace.cpu_model.clone(), cpus, kernel];
    let parts: Vec<String> = parts.iter().filter(|p| !p.is_empty()).map(|p| printable(p)).collect();
    if parts.is_empty() { String::new() } else { format!("{}\n", parts.join(" · ")) }
}

fn phases(out: &mut String, report: &Report, look: &Look) {
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
    look.table(out, "Steps", &table, estimated(times));
    if table.is_empty() {
        out.push_str("\nNo steps.\n");
    }
    let (ttft, tpot) = (&report.ttft, &report.tpot);
    if ttft.count > 0 {
        let of =
            if ttft.count == 1 { String::new() } else { format!(", mean of {} prompts", group_digits(ttft.count)) };
        out.push_str(&format!("  Time to first token: {}{of}.\n", time_f64(ttft.mean_ns)));
    }
    if tpot.count > 0 {
        let has_tokens = report.phases.iter().any(|phase| phase.phase == "decode" && phase.tokens_per_s.is_some());
        let what = if has_tokens { "output token" } else { "step" };
        out.push_str(&format!(
            "  Time per {what}: mean {}, p50 {}, p90 {}, p99 {}, of {}, sampling included.\n",
            time_f64(tpot.mean_ns),
            time(tpot.p50_ns),
            time(tpot.p90_ns),
            time(tpot.p99_ns),
            counted(tpot.count, "step")
        ));
    }
}

/// What to say where percentiles are estimates.
pub(super) fn estimated<'a>(times: impl Iterator<Item = &'a Distribution>) -> Option<String> {
    let error = times.filter_map(|times| times.percentile_error).reduce(f64::max)?;
    Some(format!("p50, p90 and p99 of more than 100,000 times are estimates (± {} %).", error * 100.0))
}

/// Where a phase's lane time went.
fn where_it_went(out: &mut String, report: &Report, look: &Look) {
    let mut table = Table::new(&[
        ("", Left),
        ("operators", Right),
        ("waiting", Right),
        ("outside operators", Right),
        ("outside graphs", Right),
        ("off cpu, blocked", Right),
        ("off cpu, runnable", Right),
    ]);
    // Where steps alone were recorded there is nothing to say of their insides.
    let rows = report.phases.iter().filter(|p| p.lane_time_ns > 0).map(where_row);
    for row in rows.filter(|row| row.iter().skip(1).any(|share| !share.is_empty())) {
        table.row(row);
    }
    let of = if report.lanes > 1 { format!("share of the time of {} lanes", report.lanes) } else { "share".to_owned() };
    look.table(out, &format!("Where the time went ({of})"), &table, None);
}

#[allow(clippy::cast_precision_loss)]
fn where_row(phase: &PhaseReport) -> Vec<String> {
    let of = |ns: u64| share(ns as f64 / phase.lane_time_ns as f64);
    let optional = |ns: Option<u64>| ns.map_or_else(String::new, of);
    let has_operators = phase.operators > 0;
    vec![
        phase.phase.to_owned(),
        if has_operators { of(phase.work_ns) } else { String::new() },
        if phase.waiting_ns > 0 { of(phase.waiting_ns) } else { String::new() },
        optional(phase.outside_operators_ns),
        optional(phase.outside_graphs_ns),
        optional(phase.off_cpu.map(|o| o.blocked_ns)),
        optional(phase.off_cpu.map(|o| o.runnable_ns)),
    ]
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
            if row.waiting_ns > 0 { time(row.waiting_ns) } else { String::new() },
            group_digits(row.count),
            time_f64(row.mean_ns),
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

/// Added up, or estimated for all steps.
fn total(row: &OperatorRow) -> String {
    match row.estimate {
        None => time(row.total_ns),
        Some(estimate) => match estimate.high_ns {
            None => format!("≈ {}", time_f64(estimate.total_ns)),
            Some(high) => format!("≈ {} ± {}", time_f64(estimate.total_ns), time_f64(high - estimate.total_ns)),
        },
    }
}

fn main_table(out: &mut String, report: &Report, by: By, look: &Look) {
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
    let title = format!("{title} ({}{of})", report.table_phases.join(" and "));
    let limit = look.top.unwrap_or(if look.main_only { usize::MAX } else { MAIN });
    let shown = report.operators.len().min(limit);
    let rows = &report.operators[..shown];
    look.table(out, &title, &operator_table(rows), more(report.operators_total, shown, "`--top N` shows more"));
    if let Some(hint) = interval_hint(rows, &report.table_phases) {
        out.push_str(&format!("  {}\n", look.style("2", &hint)));
    }
}

/// Metrics and counters: of the rows of the main table where it alone was asked for, else of operator types.
fn metrics_of(out: &mut String, report: &Report, look: &Look) {
    let mut columns = Columns::new(&report.metrics);
    let by_type = !look.main_only || report.by == By::Expert;
    let rows = if by_type { &report.operator_types } else { &report.operators };
    let shown = rows.len().min(look.top.unwrap_or(if by_type { FEW } else { usize::MAX }));
    let table = match (columns.is_empty(), report.by) {
        (true, _) => None,
        (false, By::Lane) => metrics::lane_table(report, &mut columns),
        (false, _) => metrics::table(&rows[..shown], &mut columns),
    };
    if let Some(table) = &table {
        let title = if by_type && report.by != By::Lane { "Metrics by operator type" } else { "Metrics" };
        let title = format!("{title} (of {}, out of each row's sums)", report.table_phases.join(" and "));
        look.table(out, &title, table, None);
        columns.marks().iter().for_each(|mark| out.push_str(&format!("  {mark}\n")));
    }
    // Where nothing was counted because nothing was asked for, a whole report need not say so.
    let asked = look.main_only || !report.metrics.counters.is_empty();
    let absent = if asked { metrics::absent(&report.metrics) } else { Vec::new() };
    if table.is_none() && !absent.is_empty() {
        out.push_str(&look.heading("Metrics"));
    }
    absent.iter().for_each(|sentence| out.push_str(&format!("  {}\n", printable(sentence))));
}

fn more(total: u64, shown: usize, hint: &str) -> Option<String> {
    let rest = total.saturating_sub(shown as u64);
    (rest > 0).then(|| format!("… and {} more; {hint}", group_digits(rest)))
}

pub(super) fn few<'a, T>(rows: &'a [T], hint: &str) -> (&'a [T], Option<String>) {
    let shown = rows.len().min(FEW);
    (&rows[..shown], more(rows.len() as u64, shown, hint))
}

fn other_tables(out: &mut String, report: &Report, look: &Look) {
    let (types, rest) = few(&report.operator_types, "`--by op` shows all");
    look.table(out, "Operator types", &operator_table(types), rest);
    let mut layers = report.layers.clone();
    layers.sort_by_key(|l| std::cmp::Reverse(l.total_ns));
    let (layers, rest) = few(&layers, "`--by layer` shows all");
    look.table(out, "Layers", &operator_table(layers), rest);
    backends(out, report, look);
    if report.by != By::Lane {
        lanes(out, report, look);
    }
    if let Some(report) = &report.threads {
        threads::text(out, report, look);
    }
    regions(out, report, look);
    if report.by != By::Expert {
        expert_layers(out, report, look);
    }
}

fn backends(out: &mut String, report: &Report, look: &Look) {
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
    look.table(out, "Graphs by backend", &table, None);
}

fn lanes(out: &mut String, report: &Report, look: &Look) {
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
            share(row.busy),
            if row.waiting_ns > 0 { share(row.waiting) } else { String::new() },
            time(row.work_ns),
            group_digits(row.shares),
            if row.slowest > 0.0 { share(row.slowest) } else { String::new() },
        ]);
    }
    look.table(out, "Lanes", &table, None);
}

fn regions(out: &mut String, report: &Report, look: &Look) {
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
    look.table(out, "Regions", &table, None);
}

fn expert_layers(out: &mut String, report: &Report, look: &Look) {
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
    look.table(out, "Experts by layer", &table, rest);
}

fn experts(out: &mut String, report: &Report, look: &Look) {
    expert_layers(out, report, look);
    let mut table = Table::new(&[("layer", Left), ("expert", Right), ("choices", Right), ("share", Right)]);
    let shown = report.experts.len().min(look.top.unwrap_or(EXPERTS));
    for row in &report.experts[..shown] {
        let layer = row.layer.clone().unwrap_or_else(|| "?".to_owned());
        table.row(vec![layer, row.expert.to_string(), group_digits(row.activations), share(row.share)]);
    }
    look.table(out, "Experts", &table, more(report.experts.len() as u64, shown, "`--top N` shows more"));
    if report.expert_layers.is_empty() {
        out.push_str("\nNo experts were recorded.\n");
    }
}

/// One step.
pub fn step_text(report: &StepReport, look: &Look) -> String {
    let step = &report.step;
    let mut out = completeness(&report.completeness, look);
    out.push_str(&facts(&report.trace));
    let tokens = step.tokens.map_or_else(String::new, |n| format!(", {}", counted(n, "token")));
    let incomplete = match (step.complete, step.recorded) {
        (false, _) => "; records of it were lost",
        (true, "bare") => "; its operators were not recorded",
        (true, "partly") => "; its operators were recorded in part",
        _ => "",
    };
    let title = format!("Step {}: {}{tokens}, {}{incomplete}", step.number, step.phase, time(step.duration_ns));
    out.push_str(&look.heading(&title));
    for missing in &step.missing {
        let lane = missing.lane.map_or_else(String::new, |lane| format!(" of lane {lane}"));
        let thread = missing.tid.map_or_else(String::new, |tid| format!(" (thread {tid})"));
        let records = counted(missing.records, "record");
        out.push_str(&format!("  {records}{lane} lost during it at most{thread}\n"));
    }
    for graph in &step.graphs {
        let (start, duration) = (time(graph.start_ns), time(graph.duration_ns));
        out.push_str(&format!("  graph on {} at {start}, {duration}\n", printable(&graph.backend)));
    }
    let shown = step.operators.len().min(look.top.unwrap_or(usize::MAX));
    let table = step_table(step, shown);
    let rest = more(step.operators.len() as u64, shown, "`--top N` shows more");
    look.table(&mut out, "Operators in the order of execution", &table, rest);
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
            if operator.waiting_ns > 0 { time(operator.waiting_ns) } else { String::new() },
            operator.layer.clone().unwrap_or_default(),
            operator.op.clone(),
            operator.dtype.clone().unwrap_or_default(),
            shape(&operator.shape),
            name,
        ]);
        table.row(row);
    }
    table
}
