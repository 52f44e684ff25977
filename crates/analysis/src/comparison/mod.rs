//! Two traces, compared: how long a step of each phase takes, and where the difference comes from, by what limited it, by
//! operator and by layer; and of each difference whether it is more than noise.

mod align;
mod causes;
mod changes;
mod odd;
mod phase;
mod pieces;
mod resample;
mod self_times;
mod series;
mod size;

pub use align::Fit;
pub use causes::{Cause, KernelShares};
pub use changes::{
    CauseChange, ComparedOperator, CounterChange, Judged, Judgement, LayerChange, OddLayer, OperatorChange,
    PhaseChange, PhaseSide, SIGNIFICANT,
};
pub use resample::Change;
pub use series::Series;
pub use size::{Compared, EqualIn};

use crate::ids::Phase;
use changes::judge_all;
use phase::PhaseComparison;
use series::PhaseSeries;
use std::collections::BTreeMap;

/// What the kernel counted in each phase of a trace.
pub type SharesByPhase = BTreeMap<Phase, KernelShares>;

/// A whole comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// Prefill and decode.
    pub phases: Vec<PhaseChange>,
    /// Differences below the phases' that were judged together: of causes, layers and operators.
    pub lines: u64,
}

/// Compares two traces, phase by phase. Differences of less than the part `noise` are let pass, and those that are no
/// larger than the ones between the first trace and further runs of the same.
pub fn compare(
    (a, shares_a): (&Series, &SharesByPhase),
    (b, shares_b): (&Series, &SharesByPhase),
    again: &[&Series],
    noise: f64,
) -> Comparison {
    let none = PhaseSeries::default();
    let phases = Phase::STEPS.into_iter().filter_map(|phase| {
        let sides = [a, b].map(|side| side.phases.get(&phase));
        sides.iter().flatten().next()?;
        let [of_a, of_b] = sides.map(|side| side.unwrap_or(&none));
        let again = again.iter().filter_map(|again| again.phases.get(&phase)).collect();
        let shares = [shares_a, shares_b].map(|shares| shares.get(&phase).copied().unwrap_or_default());
        Some(PhaseComparison::new(of_a, of_b, again, noise, shares).change(phase, [a, b]))
    });
    let mut phases: Vec<PhaseChange> = phases.collect();
    let lines = judge(&mut phases);
    for phase in &mut phases {
        phase.odd = odd::layers(&phase.layers, noise);
    }
    Comparison { phases, lines }
}

/// Judges the phases among phases, and every line below them among all lines of the comparison: of causes, layers and
/// operators. Details of operators are judged among details of their kind. Gives the number of lines.
fn judge(phases: &mut [PhaseChange]) -> u64 {
    judge_all(phases.iter_mut().map(|phase| &mut phase.time).collect());
    let mut lines = Vec::new();
    let mut by_layer = Vec::new();
    let mut counters = Vec::new();
    for phase in phases {
        lines.extend([&mut phase.between, &mut phase.outside]);
        lines.extend(phase.causes.iter_mut().map(|of| &mut of.time));
        lines.extend(phase.layers.iter_mut().map(|of| &mut of.time));
        for operator in &mut phase.operators {
            lines.push(&mut operator.time);
            by_layer.extend(operator.layers.iter_mut().map(|of| &mut of.time));
            counters.extend(operator.counters.iter_mut().map(|of| &mut of.count));
        }
    }
    let judged = lines.iter().filter(|line| line.chance.is_some()).count() as u64;
    [lines, by_layer, counters].into_iter().for_each(judge_all);
    judged
}
