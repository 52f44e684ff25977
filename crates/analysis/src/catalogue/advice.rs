//! Advice of the probeset on what limits a phase (`analysis.advice`), compiled.

use profinfer_diagnostics::Diagnostics;
use profinfer_probeset as spec;
use profinfer_probeset::path::{Environment, Expr, ExprKind, Formula, Value};

/// One advice of the probeset.
#[derive(Debug, Clone)]
pub struct Advice {
    when: Formula,
    names_op: bool,
    /// What to do.
    pub action: String,
}

/// Facts of a phase. A condition on one that is `None` does not hold.
#[derive(Debug, Clone, Copy, Default)]
pub struct PhaseFacts<'a> {
    /// `prefill`, `decode`.
    pub phase: &'a str,
    /// What limits it: `memory`, `compute` and so on.
    pub bound: &'a str,
    /// The operator type with most of the time with that limit.
    pub op: &'a str,
    /// The backend of the graphs that these operators are in; empty where it is unknown.
    pub backend: &'a str,
    /// The function that at least half of the samples within operators are in; empty without one.
    pub function: &'a str,
    /// The part of its time with that limit.
    pub share: f64,
    /// Of the memory's bandwidth, the part that the operators so limited had.
    pub of_bandwidth: Option<f64>,
    /// Of the processors' peak, the part that they had.
    pub of_peak: Option<f64>,
    /// Lanes.
    pub lanes: u64,
    /// The machine's processors.
    pub cpus: u32,
}

impl Advice {
    /// Its condition names an operator type: it is about operators of that type only.
    pub fn names_op(&self) -> bool {
        self.names_op
    }

    /// Whether it applies.
    pub fn applies(&self, facts: &PhaseFacts<'_>) -> bool {
        self.when.holds(facts) == Some(true)
    }
}

impl Environment for PhaseFacts<'_> {
    fn field(&self, name: &str) -> Option<Value> {
        match name {
            "phase" => Some(Value::Text(self.phase.into())),
            "bound" => Some(Value::Text(self.bound.into())),
            "op" => Some(Value::Text(self.op.into())),
            "backend" => Some(Value::Text(self.backend.into())),
            "function" => Some(Value::Text(self.function.into())),
            "share" => Some(Value::Float(self.share)),
            "of_bandwidth" => self.of_bandwidth.map(Value::Float),
            "of_peak" => self.of_peak.map(Value::Float),
            "lanes" => i64::try_from(self.lanes).ok().map(Value::Int),
            "cpus" => Some(Value::Int(i64::from(self.cpus))),
            _ => None,
        }
    }
}

/// The advice of a probeset.
pub(crate) fn compile(analysis: &spec::Analysis, problems: &mut Diagnostics) -> Vec<Advice> {
    let advice = |advice: &spec::Advice| {
        let when = problems.keep(Formula::new(advice.when.clone()))?;
        Some(Advice { when, names_op: names(&advice.when, "op"), action: advice.say.clone() })
    };
    analysis.advice.values().filter_map(advice).collect()
}

/// Whether an expression uses a name.
fn names(expr: &Expr, wanted: &str) -> bool {
    let mut stack = vec![expr];
    while let Some(expr) = stack.pop() {
        if matches!(&expr.kind, ExprKind::Name(name) if name == wanted) {
            return true;
        }
        stack.extend(expr.children());
    }
    false
}
