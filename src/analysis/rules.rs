//! What a probeset tells the analysis (`analysis:`), made ready to be evaluated.

use crate::diag::Diagnostics;
use crate::path::{Environment, Formula, Value};
use crate::spec;
use std::sync::Arc;

/// The compiled `analysis:` of a probeset. The default has no layers and takes steps of several tokens for prefill.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    layer: Option<Formula>,
    prefill: Option<Formula>,
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
        let rules = Self { layer: compile(&analysis.layer), prefill: compile(&analysis.prefill) };
        problems.finish(rules).map(|(rules, _)| rules)
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
