//! Why a flight recorder kept a trace, and what differs from the time before.

use crate::diff::DiffReport;
use profinfer_trace::Meta;
use serde::Serialize;

/// Why a trace was kept.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KeptReport {
    /// The condition that held.
    pub condition: String,
    /// The trace of the time before, in the same folder; `None` where there was none.
    pub before: Option<String>,
    /// What differs from that, by phase; `None` where that trace was not compared.
    pub changes: Option<Vec<KeptChange>>,
}

/// What differs in a phase from the time before, as the comparison of the two traces has it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KeptChange {
    /// `prefill`, `decode`.
    pub phase: &'static str,
    /// How a step's time changed.
    pub verdict: String,
    /// Why, a sentence each.
    pub why: Vec<String>,
}

impl KeptReport {
    /// Of a trace that was kept.
    pub(crate) fn new(meta: &Meta) -> Option<Self> {
        let kept = meta.origin.kept.as_ref()?;
        Some(Self { condition: kept.condition.clone(), before: kept.before.clone(), changes: None })
    }

    /// Takes what differs: A of the comparison is the time before.
    pub fn compare(&mut self, report: &DiffReport) {
        let phases = report.phases.iter();
        let change = phases.map(|of| KeptChange { phase: of.phase, verdict: of.verdict.clone(), why: of.why.clone() });
        self.changes = Some(change.collect());
    }

    /// In words.
    pub(crate) fn sentences(&self) -> Vec<String> {
        let mut sentences = vec![format!("Kept because this held: {}.", self.condition)];
        match (&self.changes, &self.before) {
            (Some(changes), _) => {
                for change in changes {
                    sentences.push(format!("Against the time before, {}: {}.", change.phase, change.verdict));
                    sentences.extend(change.why.iter().map(|why| format!("{why}.")));
                }
            }
            (None, Some(before)) => sentences.push(format!("The time before is in {before}, which is not here.")),
            (None, None) => sentences.push("There is no trace of the time before.".to_owned()),
        }
        sentences
    }
}
