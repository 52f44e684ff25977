//! Tables of metrics and counters.

use crate::model::metrics::{CountValue, CounterReport, MetricCell, MetricReport, MetricsReport};
use crate::model::rows::OperatorRow;
use crate::numbers::table::{Align, Table};
use crate::numbers::units::{quantity, share};
use crate::report::Report;

/// Shares of a row's work from which on a metric is taken to be of the whole row.
const WHOLE: f64 = 0.995;

/// The columns of a report's metrics and counters, as text.
pub(crate) struct Columns<'a> {
    metrics: Vec<&'a MetricReport>,
    counters: Vec<&'a CounterReport>,
    partly: bool,
    bound: bool,
    estimate: bool,
}

impl<'a> Columns<'a> {
    pub(crate) fn new(report: &'a MetricsReport) -> Self {
        Self {
            metrics: report.metrics.iter().filter(|m| m.absent.is_none()).collect(),
            counters: report.counters.iter().filter(|c| c.absent.is_none()).collect(),
            partly: false,
            bound: false,
            estimate: false,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.metrics.is_empty() && self.counters.is_empty()
    }

    pub(crate) fn headings(&self) -> impl Iterator<Item = (&'a str, Align)> {
        let metrics = self.metrics.iter().map(|m| (m.metric.as_str(), Align::Right));
        metrics.chain(self.counters.iter().map(|c| (c.counter.as_str(), Align::Right)))
    }

    /// The cells of a row, and the marks that they need.
    pub(crate) fn cells(&mut self, counts: &[CountValue], metrics: &[MetricCell]) -> Vec<String> {
        let (mut cells, approximate) = (Vec::new(), |estimate: bool| if estimate { "≈ " } else { "" });
        for metric in &self.metrics {
            let Some(cell) = metrics.iter().find(|cell| cell.metric == metric.metric) else {
                cells.push(String::new());
                continue;
            };
            let partly = cell.of_work < WHOLE;
            self.partly |= partly;
            self.bound |= cell.bound;
            self.estimate |= cell.estimate;
            let marks = [if cell.bound { "*" } else { "" }, if partly { "°" } else { "" }].concat();
            cells.push(format!("{}{}{marks}", approximate(cell.estimate), quantity(cell.value, &metric.unit)));
        }
        for counter in &self.counters {
            let count = counts.iter().find(|count| count.counter == counter.counter);
            let estimate = count.is_some_and(|count| count.estimate);
            self.estimate |= estimate;
            #[allow(clippy::cast_precision_loss)]
            let value = count.and_then(|count| count.value).map(|n| quantity(n as f64, ""));
            cells.push(value.map_or_else(String::new, |value| format!("{}{value}", approximate(estimate))));
        }
        cells
    }

    /// What the marks in the table mean.
    pub(crate) fn marks(&self) -> Vec<&'static str> {
        let marks = [
            (self.estimate, "≈ estimated: the counter ran for a part of the time, or slightly longer than it."),
            (self.bound, "* upper bound: which experts were used is not recorded."),
            (self.partly, "° from a part of the row's operators: some lack an input of the metric (`--json`)."),
        ];
        marks.into_iter().filter(|(used, _)| *used).map(|(_, sentence)| sentence).collect()
    }
}

/// The table of metrics and counters of operators; `None` where no row has any.
pub(crate) fn table(rows: &[OperatorRow], columns: &mut Columns<'_>) -> Option<Table> {
    if !rows.iter().any(|row| !row.metrics.is_empty() || row.counts.iter().any(|count| count.value.is_some())) {
        return None;
    }
    let mut headings = vec![("share", Align::Right)];
    headings.extend(columns.headings());
    headings.extend([("layer", Align::Left), ("backend", Align::Left), ("op", Align::Left), ("dtype", Align::Left)]);
    headings.extend([("shape", Align::Left), ("name", Align::Flexible)]);
    let mut table = Table::new(&headings);
    for row in rows {
        let mut cells = vec![share(row.share)];
        cells.extend(columns.cells(&row.counts, &row.metrics));
        cells.extend(row.labels());
        table.row(cells);
    }
    Some(table)
}

/// The table of metrics and counters of lanes; `None` where no lane has any.
pub(crate) fn lane_table(report: &Report, columns: &mut Columns<'_>) -> Option<Table> {
    let rows = &report.lane_rows;
    if !rows.iter().any(|row| !row.metrics.is_empty() || row.counts.iter().any(|count| count.value.is_some())) {
        return None;
    }
    let mut headings = vec![("lane", Align::Right), ("busy", Align::Right)];
    headings.extend(columns.headings());
    let mut table = Table::new(&headings);
    for row in rows {
        let mut cells = vec![row.lane.to_string(), share(row.busy)];
        cells.extend(columns.cells(&row.counts, &row.metrics));
        table.row(cells);
    }
    Some(table)
}
