//! What a probeset tells the analysis (`analysis:`), made ready to be evaluated.

use super::costs::Costs;
use super::metrics::{self, Metric};
use crate::diag::Diagnostics;
use crate::path::{Environment, Formula, Value};
use crate::spec;
use std::sync::Arc;

/// The compiled `analysis:` of a probeset. The default has no layers and takes steps of several tokens for prefill.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    layer: Option<Formula>,
    prefill: Option<Formula>,
    costs: Costs,
    metrics: Vec<Metric>,
}

impl Rules {
    /// Compiles the expressions.
    ///
    /// # Errors
    /// A diagnostic for each regular expression that is malformed or too large.
    pub fn new(analysis: &spec::Analysis) -> Result<Self, Diagnostics> {
        let mut problems = Diagnostics::new();
        let mut compile =
            |e: &Option<crate::path::Expr>| e.as_ref().and_then(|e| problems.keep(Formula::new(e.clone())));
        let (layer, prefill) = (compile(&analysis.layer), compile(&analysis.prefill));
        let costs = Costs::new(analysis, &mut problems);
        let metrics = metrics::compile(analysis, &mut problems);
        let rules = Self { layer, prefill, costs, metrics };
        problems.finish(rules).map(|(rules, _)| rules)
    }

    /// The probeset's metrics.
    pub fn metrics(&self) -> &[Metric] {
        &self.metrics
    }

    /// The probeset says what operators cost.
    pub fn has_costs(&self) -> bool {
        !self.costs.is_empty()
    }

    /// What operators cost.
    pub(super) fn costs(&self) -> &Costs {
        &self.costs
    }

    /// The layer of an operator with these fields.
    pub(super) fn layer(&self, fields: &dyn Environment) -> Option<Arc<str>> {
        let layer = self.layer.as_ref()?.eval(fields)?;
        Some(layer.to_string().into())
    }

    /// Whether a step is a prefill. Where the expression says nothing, or there is none: if it has several tokens.
    pub(super) fn prefill(&self, fields: &dyn Environment, tokens: Option<u64>) -> bool {
        let said = self.prefill.as_ref().and_then(|formula| formula.holds(fields));
        said.unwrap_or(tokens.is_some_and(|t| t > 1))
    }
}

/// The fields of a step as `prefill` sees them: `tokens` is the resolved number.
pub(super) struct StepFields<'a> {
    pub(super) tokens: Option<u64>,
    pub(super) field: &'a dyn Fn(&str) -> Option<Value>,
}

impl Environment for StepFields<'_> {
    fn field(&self, name: &str) -> Option<Value> {
        if name == "tokens" {
            return self.tokens.map(|t| Value::Int(i64::try_from(t).unwrap_or(i64::MAX)));
        }
        (self.field)(name)
    }
}
