//! Metrics of the probeset, evaluated on sums: `instructions / cycles` of a row is the quotient of its sums, never a mean
//! of quotients.

use super::quantities::{Available, BYTES, FLOPS, Quantities, Sums};
use crate::catalogue::Metric;
use indexmap::IndexMap;
use profinfer_probeset::path::{Environment, Value};
use profinfer_schema::{CounterInfo, Schema};
use std::sync::Arc;

/// A metric of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MetricValue {
    /// The value, in the metric's unit without a prefix.
    pub value: f64,
    /// A count in it is an estimate.
    pub estimate: bool,
    /// A cost in it is of the most experts that could be used.
    pub bound: bool,
    /// Operators that it is of: those with every input.
    pub count: u64,
    /// Their work, ns.
    pub work: u64,
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
    needed: Available,
}

impl Metric {
    /// Resolves its inputs in a trace whose counters have these columns.
    ///
    /// # Errors
    /// What is missing.
    pub fn of(&self, schema: &Schema, columns: &[Arc<str>], has_costs: bool) -> Result<MetricOf<'_>, String> {
        let (mut sources, mut needed, mut not_counted) = (Vec::new(), 0, Vec::new());
        for name in &self.names {
            let source = match name.as_str() {
                "time" => Source::Time,
                "duration" => Source::Duration,
                "lanes" => Source::Lanes,
                "flops" | "bytes" if !has_costs => return Err("the probeset has no operator costs".to_owned()),
                "flops" => Source::Flops,
                "bytes" => Source::Bytes,
                counter if !is_requested(counter, schema) && !columns.iter().any(|c| **c == *counter) => {
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
            return Err(format!("{names} {verb} not recorded: use `record{options}`"));
        }
        Ok(MetricOf { metric: self, sources, needed })
    }
}

/// Whether a part of a counter's name is `name@core`.
fn is_of_core(name: &str, part: &str) -> bool {
    part.strip_prefix(name).is_some_and(|rest| rest.starts_with('@'))
}

fn is_requested(name: &str, schema: &Schema) -> bool {
    schema.counters.keys().any(|key| key == name || is_of_core(name, key))
}

/// The columns of a counter: one, or one for each type of core.
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
        if let Some(column) = columns.iter().position(|name| **name == **part) {
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
    /// The metric of a row, from the sums over operators with every input; `None` if there is none, or by a division by
    /// zero.
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
        let (_, source) = self.sources.iter().find(|(of, _)| *of == name)?;
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
