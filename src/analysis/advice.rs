//! What a probeset says can be done about what limits a phase (`analysis.advice`), made ready to be asked.

use crate::diag::Diagnostics;
use crate::path::{Environment, Formula, Value};
use crate::spec;

/// One advice of the probeset.
#[derive(Debug, Clone)]
pub struct Advice {
    when: Formula,
    /// What to do.
    pub say: String,
}

/// What is known of a phase. What is not known is `None`: a condition on it does not hold.
#[derive(Debug, Clone, Copy, Default)]
pub struct PhaseFacts<'a> {
    /// `prefill`, `decode`.
    pub phase: &'a str,
    /// What limits it: `memory`, `compute` and so on.
    pub bound: &'a str,
    /// The part of its time in which that is so.
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
pub(super) fn compile(analysis: &spec::Analysis, problems: &mut Diagnostics) -> Vec<Advice> {
    let advice = |advice: &spec::Advice| {
        Some(Advice { when: problems.keep(Formula::new(advice.when.clone()))?, say: advice.say.clone() })
    };
    analysis.advice.values().filter_map(advice).collect()
}
