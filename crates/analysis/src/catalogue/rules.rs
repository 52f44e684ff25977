//! The section `analysis:` of a probeset, compiled.

use super::advice;
use super::advice::Advice;
use super::costs::Costs;
use super::functions::FunctionClasses;
use super::metric;
use super::metric::Metric;
use profinfer_diagnostics::Diagnostics;
use profinfer_probeset as spec;
use profinfer_probeset::path::{Environment, Formula, Value};
use std::sync::Arc;

/// An object with more bytes than a process has addresses is not believed.
const MAX_BYTES: f64 = (1_u64 << 56) as f64;

/// The compiled `analysis:` of a probeset. The default has no layers and takes steps of several tokens for prefill.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    layer: Option<Formula>,
    prefill: Option<Formula>,
    experts: Option<Formula>,
    costs: Costs,
    metrics: Vec<Metric>,
    weight_types: Vec<String>,
    advice: Vec<Advice>,
    functions: FunctionClasses,
}

impl Rules {
    /// Compiles the expressions.
    ///
    /// # Errors
    /// A diagnostic for each regular expression that is malformed or too large.
    pub fn new(analysis: &spec::Analysis) -> Result<Self, Diagnostics> {
        let mut problems = Diagnostics::new();
        let mut compile = |e: &Option<profinfer_probeset::path::Expr>| {
            e.as_ref().and_then(|e| problems.keep(Formula::new(e.clone())))
        };
        let (layer, prefill) = (compile(&analysis.layer), compile(&analysis.prefill));
        let experts = compile(&analysis.experts);
        let costs = Costs::new(analysis, &mut problems);
        let metrics = metric::compile(analysis, &mut problems);
        let weight_types = analysis.weights.as_ref().map_or_else(Vec::new, |weights| weights.types.clone());
        let advice = advice::compile(analysis, &mut problems);
        let functions = FunctionClasses::new(analysis, &mut problems);
        let rules = Self { layer, prefill, experts, costs, metrics, weight_types, advice, functions };
        problems.finish(rules).map(|(rules, _)| rules)
    }

    /// The probeset's metrics.
    pub fn metrics(&self) -> &[Metric] {
        &self.metrics
    }

    /// The advice of the probeset on what limits a phase.
    pub fn advice(&self) -> &[Advice] {
        &self.advice
    }

    /// What functions of the engine do.
    pub fn functions(&self) -> &FunctionClasses {
        &self.functions
    }

    /// The type of elements that [`super::Weights`] name, and the bytes of one.
    pub fn dtype(&self, place: u16) -> Option<(&str, f64)> {
        let name = self.costs.dtypes().get(usize::from(place))?;
        Some((name, self.costs.element_size(name)?.as_f64()?))
    }

    /// Bytes of so many elements of a type.
    pub fn bytes_of(&self, dtype: &str, shape: &[i64]) -> Option<u64> {
        let each = self.costs.element_size(dtype)?.as_f64()?;
        let bytes = shape.iter().map(|extent| *extent as f64).product::<f64>() * each;
        (bytes.is_finite() && (0.0..=MAX_BYTES).contains(&bytes)).then_some(bytes as u64)
    }

    /// The weight type whose size is nearest to half of `bytes`: between a third and two thirds of it.
    pub fn half_of(&self, bytes: f64) -> Option<(&str, f64)> {
        let size = |name: &String| self.costs.element_size(name).and_then(Value::as_f64);
        let sizes = self.weight_types.iter().filter_map(|name| Some((name.as_str(), size(name)?)));
        let near = sizes.filter(|(_, size)| (bytes / 3.0..=bytes / 1.5).contains(size));
        near.min_by(|(_, a), (_, b)| (a - bytes / 2.0).abs().total_cmp(&(b - bytes / 2.0).abs()))
    }

    /// The probeset has costs of operators.
    pub fn has_costs(&self) -> bool {
        !self.costs.is_empty()
    }

    /// What operators cost.
    pub(crate) fn costs(&self) -> &Costs {
        &self.costs
    }

    /// The layer of an operator with these fields.
    pub(crate) fn layer(&self, fields: &dyn Environment) -> Option<Arc<str>> {
        let layer = self.layer.as_ref()?.eval(fields)?;
        Some(layer.to_string().into())
    }

    /// Bytes of an object's data: its field `bytes`, else its elements by their size.
    pub(crate) fn bytes(&self, fields: &dyn Environment) -> Option<u64> {
        let whole = |bytes: f64| (bytes.is_finite() && (0.0..=MAX_BYTES).contains(&bytes)).then_some(bytes as u64);
        if let Some(bytes) = fields.field("bytes").and_then(|bytes| bytes.as_f64()) {
            return whole(bytes);
        }
        let dtype = fields.field("dtype")?.to_string();
        let each = self.costs.element_size(&dtype)?.as_f64()?;
        let Value::List(shape) = fields.field("shape")? else { return None };
        let elements = shape.iter().map(|extent| extent.as_int().map(|n| n as f64)).product::<Option<f64>>()?;
        whole(elements * each)
    }

    /// How many experts an object's data holds, one after the other; 0 where it is not split among any.
    pub(crate) fn experts(&self, fields: &dyn Environment) -> u32 {
        let experts = self.experts.as_ref().and_then(|formula| formula.eval(fields));
        experts.and_then(|experts| experts.as_int()).and_then(|experts| u32::try_from(experts).ok()).unwrap_or(0)
    }

    /// Whether a step is a prefill: by the expression, else if it has more tokens than sequences; `None` where neither
    /// can be told.
    pub(crate) fn prefill(&self, fields: &dyn Environment, tokens: Option<u64>, sequences: u64) -> Option<bool> {
        let prefill = self.prefill.as_ref().and_then(|formula| formula.holds(fields));
        prefill.or(tokens.map(|tokens| tokens > sequences))
    }
}

/// The fields of a step as `prefill` sees them: `tokens` and `sequences` are the resolved numbers.
pub(crate) struct StepFields<'a> {
    pub(crate) tokens: Option<u64>,
    pub(crate) sequences: u64,
    pub(crate) field: &'a dyn Fn(&str) -> Option<Value>,
}

impl Environment for StepFields<'_> {
    fn field(&self, name: &str) -> Option<Value> {
        if name == "tokens" {
            return self.tokens.map(|t| Value::Int(i64::try_from(t).unwrap_or(i64::MAX)));
        }
        if name == "sequences" {
            return Some(Value::Int(i64::try_from(self.sequences).unwrap_or(i64::MAX)));
        }
        (self.field)(name)
    }
}
