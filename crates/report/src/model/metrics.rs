//! Counters and the probeset's metrics: which a trace has, their values in each row of a table, and why others are
//! not there.

use profinfer_analysis::{Count, MetricOf, Quantities, Timeline};
use profinfer_schema::{CounterInfo, Schema};
use serde::Serialize;
use std::sync::Arc;

/// Which counters and metrics a trace has.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct MetricsReport {
    /// Every counter that was asked for.
    pub counters: Vec<CounterReport>,
    /// Every metric of the probeset.
    pub metrics: Vec<MetricReport>,
    /// By phase: all operators together.
    pub by_phase: Vec<PhaseMetrics>,
}

/// A counter that was asked for.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CounterReport {
    /// Its name.
    pub counter: String,
    /// The event, in perf's syntax.
    pub event: String,
    /// The unit that counts it; `None` for the kernel's counts.
    pub pmu: Option<String>,
    /// Why it is not in the trace; `None` where it is.
    pub absent: Option<String>,
}

/// A metric of the probeset.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MetricReport {
    /// Its name.
    pub metric: String,
    /// How it is worked out.
    pub expression: String,
    /// What it is in; empty for a plain number.
    pub unit: String,
    /// Why no row has it; `None` where rows have it.
    pub absent: Option<String>,
}

/// The operators of a phase, and its steps.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PhaseMetrics {
    /// `prefill`, `decode`, `outside`.
    pub phase: &'static str,
    /// Of all operators together.
    pub counts: Vec<CountValue>,
    /// Of all operators together.
    pub metrics: Vec<MetricCell>,
    /// Of the steps, each on its own thread.
    pub step_counts: Vec<CountValue>,
}

/// A counter's sum over a row.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CountValue {
    /// The counter.
    pub counter: String,
    /// The sum; `None` where a part of it was not counted.
    pub value: Option<u64>,
    /// A part of it was counted for a part of the time only, and scaled up.
    pub estimate: bool,
}

/// A metric of a row.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MetricCell {
    /// The metric.
    pub metric: String,
    /// In the metric's unit, without a prefix.
    pub value: f64,
    /// A count in it is an estimate.
    pub estimate: bool,
    /// A cost in it is of the most experts that could be used: which ones were is not recorded.
    pub bound: bool,
    /// Operators that it is of: those of which everything needed is available.
    pub of_operators: u64,
    /// Their share of the row's work.
    pub of_work: f64,
}

/// The counters and metrics of a trace, made ready for its rows.
pub(crate) struct Measures<'a> {
    schema: &'a Schema,
    columns: &'a [Arc<str>],
    metrics: Vec<(&'a profinfer_analysis::Metric, Result<MetricOf<'a>, String>)>,
}

impl<'a> Measures<'a> {
    pub(crate) fn new(schema: &'a Schema, timeline: &'a Timeline) -> Self {
        let (columns, rules) = (timeline.decoder().counters(), timeline.rules());
        let metrics = rules.metrics().iter().map(|m| (m, m.of(schema, columns, rules.has_costs())));
        Self { schema, columns, metrics: metrics.collect() }
    }

    /// Which there are.
    pub(crate) fn report(&self, by_phase: Vec<PhaseMetrics>) -> MetricsReport {
        let counter = |(name, info): (&String, &CounterInfo)| CounterReport {
            counter: name.clone(),
            event: info.event.clone(),
            pmu: info.pmu.clone(),
            absent: info.absent.clone(),
        };
        let metric = |(metric, of): &(&profinfer_analysis::Metric, Result<MetricOf<'_>, String>)| MetricReport {
            metric: metric.name.to_string(),
            expression: metric.text.to_string(),
            unit: metric.unit.to_string(),
            absent: of.as_ref().err().cloned(),
        };
        MetricsReport {
            counters: self.schema.counters.iter().map(counter).collect(),
            metrics: self.metrics.iter().map(metric).collect(),
            by_phase,
        }
    }

    /// The counters of a row.
    pub(crate) fn counts(&self, quantities: &Quantities) -> Vec<CountValue> {
        let count = |(column, name): (usize, &Arc<str>)| {
            let count: Count = quantities.count(column);
            CountValue { counter: name.to_string(), value: count.value(), estimate: count.is_estimate() }
        };
        self.columns.iter().enumerate().map(count).collect()
    }

    /// The metrics of a row with so much work; those that it has.
    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn metrics(&self, quantities: &Quantities, work: u64) -> Vec<MetricCell> {
        let cell = |of: &MetricOf<'_>| {
            let value = of.value(quantities)?;
            Some(MetricCell {
                metric: of.metric.name.to_string(),
                value: value.value,
                estimate: value.estimate,
                bound: value.bound,
                of_operators: value.count,
                of_work: if work > 0 { (value.work as f64 / work as f64).min(1.0) } else { 1.0 },
            })
        };
        self.metrics.iter().filter_map(|(_, of)| cell(of.as_ref().ok()?)).collect()
    }
}

/// Which metrics and counters are absent, and why: a sentence for each reason.
pub(crate) fn absent(report: &MetricsReport) -> Vec<String> {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    let metrics = report.metrics.iter().map(|m| (m.metric.as_str(), m.absent.as_deref()));
    let counters = report.counters.iter().map(|c| (c.counter.as_str(), c.absent.as_deref()));
    for (name, why) in counters.chain(metrics).filter_map(|(name, why)| Some((name, why?))) {
        match reasons.iter_mut().find(|(earlier, _)| *earlier == why) {
            Some((_, names)) => names.push(name),
            None => reasons.push((why, vec![name])),
        }
    }
    let sentence = |(why, names): (&str, Vec<&str>)| {
        let verb = if names.len() == 1 { "is" } else { "are" };
        format!("{} {verb} absent: {}.", names.join(", "), why.trim_end_matches('.'))
    };
    reasons.into_iter().map(sentence).collect()
}
