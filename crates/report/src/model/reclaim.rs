//! The report's section on reclaim and compaction: how long threads were in them, by phase, operator and step. Measured
//! from their beginnings to their ends, what ran instead meanwhile included.

use profinfer_analysis::{Catalogue, Phase, ReclaimTotals, ReclaimingStep, Reclaims};
use profinfer_trace::Meta;
use serde::Serialize;
use std::collections::BTreeMap;

/// Operators that are listed.
const MOST_ROWS: usize = 64;

/// During steps that were recorded whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReclaimReport {
    /// By phase; all zero where there was none.
    pub phases: Vec<ReclaimPhaseRow>,
    /// By operator that was being computed, the most first.
    pub operators: Vec<ReclaimOperatorRow>,
    /// The steps with most of it, the most first.
    pub steps: Vec<ReclaimStepRow>,
}

/// How much.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct ReclaimFigures {
    /// How often.
    pub count: u64,
    /// ns, all threads together: the sum of the next three, unless the trace has kinds that this version does not know.
    pub ns: u64,
    /// For the limit of a control group.
    pub group_ns: u64,
    /// Because the machine had too little free memory.
    pub machine_ns: u64,
    /// Compaction: no free memory was large enough in one piece.
    pub compaction_ns: u64,
    /// The longest.
    pub longest_ns: u64,
}

impl From<ReclaimTotals> for ReclaimFigures {
    fn from(of: ReclaimTotals) -> Self {
        let ReclaimTotals { count, ns, machine, group, compaction, longest } = of;
        Self { count, ns, group_ns: group, machine_ns: machine, compaction_ns: compaction, longest_ns: longest }
    }
}

/// A phase.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReclaimPhaseRow {
    /// `prefill`, `decode`, `outside`.
    pub phase: &'static str,
    /// Steps of it that had some.
    pub steps: u64,
    /// How much.
    #[serde(flatten)]
    pub figures: ReclaimFigures,
}

/// An operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReclaimOperatorRow {
    /// Name, numbers as `*`; `null`: outside of operators.
    pub name: Option<String>,
    /// How much.
    #[serde(flatten)]
    pub figures: ReclaimFigures,
}

/// A step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReclaimStepRow {
    /// Its number.
    pub step: u64,
    /// `prefill` or `decode`.
    pub phase: &'static str,
    /// ns.
    pub duration_ns: u64,
    /// How much.
    #[serde(flatten)]
    pub figures: ReclaimFigures,
}

impl ReclaimReport {
    /// Of a trace that was read to its end; `None` where it was not recorded.
    pub(crate) fn new(meta: &Meta, of: &Reclaims, catalogue: &Catalogue, phases: &[Phase]) -> Option<Self> {
        if !Reclaims::recorded_by(&meta.schema) {
            return None;
        }
        let phase_row = |phase: Phase| {
            let (steps, totals) = of.phase(phase);
            ReclaimPhaseRow { phase: phase.as_str(), steps, figures: totals.into() }
        };
        let step_row = |step: &ReclaimingStep| ReclaimStepRow {
            step: step.number,
            phase: step.phase.as_str(),
            duration_ns: step.duration,
            figures: step.totals.into(),
        };
        Some(Self {
            phases: Phase::ALL.into_iter().map(phase_row).collect(),
            operators: operators(of, catalogue, phases),
            steps: of.longest().iter().map(step_row).collect(),
        })
    }
}

/// Operators by name, without the layer.
fn operators(of: &Reclaims, catalogue: &Catalogue, phases: &[Phase]) -> Vec<ReclaimOperatorRow> {
    let mut sums: BTreeMap<Option<String>, ReclaimTotals> = BTreeMap::new();
    for (kind, _, totals) in of.operators().filter(|(_, phase, _)| phases.contains(phase)) {
        sums.entry(Some(catalogue.kind(kind).pattern.to_string())).or_default().merge(totals);
    }
    for outside in phases.iter().map(|phase| of.outside(*phase)).filter(|totals| totals.count > 0) {
        sums.entry(None).or_default().merge(&outside);
    }
    let row = |(name, totals): (Option<String>, ReclaimTotals)| ReclaimOperatorRow { name, figures: totals.into() };
    let mut rows: Vec<ReclaimOperatorRow> = sums.into_iter().map(row).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.figures.ns));
    rows.truncate(MOST_ROWS);
    rows
}
