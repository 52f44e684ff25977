//! Metrics of the probeset, compiled.

use profinfer_diagnostics::Diagnostics;
use profinfer_probeset as spec;
use profinfer_probeset::path::{Expr, ExprKind, Formula};
use std::sync::Arc;

/// A metric of the probeset, compiled.
#[derive(Debug, Clone)]
pub struct Metric {
    /// Its name.
    pub name: Arc<str>,
    /// Its unit: `B/s`, `%`; empty for a plain number.
    pub unit: Arc<str>,
    /// Its expression in the probeset.
    pub text: Arc<str>,
    pub(crate) formula: Formula,
    pub(crate) names: Vec<String>,
}

/// The metrics of a probeset.
pub(crate) fn compile(analysis: &spec::Analysis, problems: &mut Diagnostics) -> Vec<Metric> {
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
