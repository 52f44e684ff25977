//! What a recording may cost, and when to record operators so that it costs no more. Pure: it is told the time, what
//! was seen and what it cost, and decides whether operators are to be recorded now. It attaches nothing.

mod costs;
mod rate;
mod recorder_time;
mod sampler;
#[cfg(test)]
mod simulation;

pub(super) use costs::{Costs, ProgramRuns};
pub(super) use rate::RateGuard;
pub(super) use sampler::Sampler;

/// What the user set.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct OverheadLimits {
    /// The part of its time that the target may be slowed down by: 0.01 is 1 %.
    pub budget: Option<f64>,
    /// Steps a second below which operators are not recorded.
    pub min_rate: Option<f64>,
}

impl OverheadLimits {
    /// Whether operators may come and go.
    pub fn any(&self) -> bool {
        self.budget.is_some() || self.min_rate.is_some()
    }
}

/// What was seen and what it cost, since the start.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Seen {
    /// The clock, ns.
    pub(super) now_ns: f64,
    /// Steps that ended.
    pub(super) steps: u64,
    /// Their time, ns; steps at the same time count once.
    pub(super) step_ns: f64,
    /// Added to it by the probes of steps, ns.
    pub(super) steps_cost_ns: f64,
    /// Added by the probes of graphs.
    pub(super) graphs_cost_ns: f64,
    /// Added by all other probes.
    pub(super) detail_cost_ns: f64,
    /// Processor time of the recorder, ns.
    pub(super) recorder_ns: f64,
    /// Into how many equal parts the recorders' part of a processor is divided, of which this one has one.
    pub(super) recorder_parts: u64,
}

impl Seen {
    fn cost_ns(&self) -> f64 {
        self.steps_cost_ns + self.graphs_cost_ns + self.detail_cost_ns
    }

    /// The steps' time without what was added to it.
    fn bare_ns(&self) -> f64 {
        (self.step_ns - self.cost_ns()).max(0.0)
    }

    /// The part of the bare time that was added to it.
    #[cfg(test)]
    fn share(&self) -> f64 {
        if self.bare_ns() > 0.0 { self.cost_ns() / self.bare_ns() } else { 0.0 }
    }

    fn since(&self, before: &Self) -> Self {
        Self {
            now_ns: self.now_ns - before.now_ns,
            steps: self.steps.saturating_sub(before.steps),
            step_ns: self.step_ns - before.step_ns,
            steps_cost_ns: self.steps_cost_ns - before.steps_cost_ns,
            graphs_cost_ns: self.graphs_cost_ns - before.graphs_cost_ns,
            detail_cost_ns: self.detail_cost_ns - before.detail_cost_ns,
            recorder_ns: self.recorder_ns - before.recorder_ns,
            recorder_parts: self.recorder_parts,
        }
    }
}
