//! The probeset's metrics, worked out of sums: `instructions / cycles` of a row is the quotient of the row's sums, and
//! never a mean of quotients.

use super::quantities::{BYTES, FLOPS, Known, Quantities, Sums};
use crate::diag::Diagnostics;
use crate::path::{Environment, Expr, ExprKind, Formula, Value};
use crate::spec;
use crate::trace::{CounterInfo, Schema};
use indexmap::IndexMap;
use std::sync::Arc;

/// A metric of the probeset, made ready.
#[derive(Debug, Clone)]
pub struct Metric {
    /// Its name.
    pub name: Arc<str>,
    /// What it comes out in: `B/s`, `%`; empty for a plain number.
    pub unit: Arc<str>,
    /// How it is worked out, as the probeset says it.
    pub text: Arc<str>,
    formula: Formula,
    names: Vec<String>,
}

/// A metric of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MetricValue {
    /// The value, in the metric's unit without a prefix.
    pub value: f64,
    /// A count in it is an estimate.
    pub estimate: bool,
    /// A cost in it is of the most experts that could be used.
    pub bound: bool,
    /// Operators that it is of: those of which everything needed is known.
    pub count: u64,
    /// Their work, ns.
    pub work: u64,
}

/// The metrics of a probeset.
pub(super) fn compile(analysis: &spec::Analysis, problems: &mut Diagnostics) -> Vec<Metric> {
    let metric = |metric: &spec::Metric| {
        Some(Metric {
            name: metric.name.value.as_str().into(),
            unit: metric.unit.as_str().into(),
            text: metric.value.span.text().into(),
            formula: problems.keep(Formula::new(metric.value.clone()))?,
            names: names(&metric.value),
        })
    };
    analysis.metrics.values().filter_map(metric).collect()
}

fn names(root: &Expr) -> Vec<String> {
    let mut names = Vec::new();
    let mut stack = vec![root];
    while let Some(expr) = stack.pop() {
        if let ExprKind::Name(name) = &expr.kind
            && !names.contains(name)
        {
            names.push(name.clone());
        }
        stack.extend(expr.children());
    }
    names
}

/// What one name of a metric is in a trace.
#[derive(Debug, Clone)]
enum Source {
    /// The sum of these counters: one, or one for each type of core.
    Counters(Vec<usize>),
    Time,
    Duration,
    Lanes,
    Flops,
    Bytes,
}

/// A metric whose counters a trace has.
#[derive(Debug, Clone)]
pub struct MetricOf<'a> {
    /// The metric.
    pub metric: &'a Metric,
    sources: Vec<(&'a str, Source)>,
    needed: Known,
}

impl Metric {
    /// What it is worked out of in a trace with these counters, whose columns are `columns`.
    ///
    /// # Errors
    /// A sentence that says what it lacks.
    pub fn of(&self, schema: &Schema, columns: &[Arc<str>], has_costs: bool) -> Result<MetricOf<'_>, String> {
        let (mut sources, mut needed, mut not_counted) = (Vec::new(), 0, Vec::new());
        for name in &self.names {
            let source = match name.as_str() {
                "time" => Source::Time,
                "duration" => Source::Duration,
                "lanes" => Source::Lanes,
                "flops" | "bytes" if !has_costs => return Err("the probeset gives no costs of operators".to_owned()),
                "flops" => Source::Flops,
                "bytes" => Source::Bytes,
                counter if !is_asked_for(counter, schema) && !columns.iter().any(|c| **c == *counter) => {
                    not_counted.push(counter);
                    continue;
                }
                counter => Source::Counters(counter_columns(counter, &schema.counters, columns)?),
            };
            needed |= match &source {
                Source::Counters(of) => of.iter().fold(0, |bits, column| bits | 1 << column),
                Source::Flops => FLOPS,
                Source::Bytes => BYTES,
                _ => 0,
            };
            sources.push((name.as_str(), source));
        }
        if !not_counted.is_empty() {
            let names = not_counted.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" and ");
            let verb = if not_counted.len() == 1 { "was" } else { "were" };
            let options: String = not_counted.iter().map(|name| format!(" --counter {name}")).collect();
            return Err(format!("{names} {verb} not asked for (`record{options}`)"));
        }
        Ok(MetricOf { metric: self, sources, needed })
    }
}

/// Whether a part of a counter's name is `name@core`.
fn is_of_core(name: &str, part: &str) -> bool {
    part.strip_prefix(name).is_some_and(|rest| rest.starts_with('@'))
}

fn is_asked_for(name: &str, schema: &Schema) -> bool {
    schema.counters.keys().any(|key| key == name || is_of_core(name, key))
}

/// The columns that a counter's name stands for: its own, or those of each type of core together.
fn counter_columns(
    name: &str,
    counters: &IndexMap<String, CounterInfo>,
    columns: &[Arc<str>],
) -> Result<Vec<usize>, String> {
    let mut parts: Vec<&str> = counters.keys().map(String::as_str).filter(|key| is_of_core(name, key)).collect();
    if parts.is_empty() {
        parts.push(name);
    }
    let column = |part: &&str| {
        if let Some(column) = columns.iter().position(|known| **known == **part) {
            return Ok(column);
        }
        Err(match counters.get(*part) {
            Some(CounterInfo { absent: Some(why), .. }) => format!("`{part}` is absent: {why}"),
            _ => format!("`{part}` is in no record"),
        })
    };
    parts.iter().map(column).collect()
}

impl MetricOf<'_> {
    /// The metric of a row: out of the sums over those operators of which everything needed is known; `None` where
    /// there is none, or the value is not defined (a division by zero).
    pub fn value(&self, quantities: &Quantities) -> Option<MetricValue> {
        let sums = quantities.over(self.needed)?;
        let value = self.metric.formula.eval(&OfSums { sources: &self.sources, sums: &sums })?.as_f64()?;
        Some(MetricValue {
            value,
            estimate: sums.estimated & self.needed != 0,
            bound: sums.bounded & self.needed != 0,
            count: sums.count,
            work: sums.work,
        })
    }
}

struct OfSums<'a> {
    sources: &'a [(&'a str, Source)],
    sums: &'a Sums,
}

impl Environment for OfSums<'_> {
    #[allow(clippy::cast_precision_loss)]
    fn field(&self, name: &str) -> Option<Value> {
        let sums = self.sums;
        let (_, source) = self.sources.iter().find(|(known, _)| *known == name)?;
        Some(Value::Float(match source {
            Source::Counters(columns) => {
                let count = |column: &usize| sums.counts.get(*column).map(|count| *count as f64);
                columns.iter().map(count).sum::<Option<f64>>()?
            }
            Source::Time => sums.work as f64 / 1e9,
            Source::Duration => sums.elapsed as f64 / 1e9,
            Source::Lanes => sums.shares as f64 / sums.count.max(1) as f64,
            Source::Flops => sums.flops,
            Source::Bytes => sums.bytes,
        }))
    }
}
