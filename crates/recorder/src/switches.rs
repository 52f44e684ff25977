//! What comes and goes while a recording runs: operators, as the overhead limits require, and boundaries, as the lanes do.

use super::boundary::{Barriers, BoundarySwitch};
use super::consumer::Traffic;
use super::detail::DetailSwitch;
use super::overhead::OverheadLimits;
use super::switch_context::SwitchContext;
use profinfer_compiler::ProbePlan;
use std::time::Duration;

/// All that is switched.
#[derive(Debug)]
pub(super) struct Switches {
    detail: Option<DetailSwitch>,
    boundary: Option<BoundarySwitch>,
}

impl Switches {
    /// For a plan that is recorded on these terms; some steps may be asked for by number.
    pub(super) fn new(plan: &ProbePlan, limits: OverheadLimits, barriers: Barriers, steps_are_counted: bool) -> Self {
        // The windows of a budget have them.
        let sampled = barriers == Barriers::Sampled && !limits.any();
        let boundary = BoundarySwitch::new(plan, sampled).filter(|_| barriers != Barriers::None);
        Self { detail: DetailSwitch::new(plan, limits, steps_are_counted), boundary }
    }

    /// What is recorded now.
    pub(super) fn traffic(&self) -> Traffic {
        self.detail.as_ref().map_or(Traffic::Operators, DetailSwitch::traffic)
    }

    /// Time until the next poll; `None` where nothing changes any more.
    pub(super) fn pause(&self) -> Option<Duration> {
        // A lane is found by its operators, which are not recorded meanwhile.
        let waits = |switch: &&BoundarySwitch| self.traffic() != Traffic::Operators && switch.awaits_a_lane();
        let boundary = self.boundary.as_ref().filter(|switch| !waits(switch)).and_then(BoundarySwitch::pause);
        self.detail.as_ref().map(DetailSwitch::pause).into_iter().chain(boundary).min()
    }

    /// The recording begins, and nothing is attached yet.
    pub(super) fn start(&mut self, context: &mut SwitchContext<'_, '_>) {
        self.detail.iter_mut().for_each(|switch| switch.start(context));
    }

    /// Does the next step, which takes some milliseconds at most.
    pub(super) fn poll(&mut self, context: &mut SwitchContext<'_, '_>) {
        self.detail.iter_mut().for_each(|switch| switch.poll(context));
        self.boundary.iter_mut().for_each(|switch| switch.poll(context));
    }

    /// The estimated time of the target itself in steps that nobody saw; `None` where all steps were recorded.
    pub(super) fn unseen_ns(&self) -> Option<f64> {
        self.detail.as_ref()?.unseen_ns()
    }

    /// Once the recording has ended: the time of the target in steps that the budget would have needed for its first
    /// window, ns; `None` if there was one, or no budget.
    pub(super) fn first_window_ns(&self) -> Option<f64> {
        self.detail.as_ref()?.first_window_ns()
    }

    /// The recording ends.
    pub(super) fn finish(&mut self, context: &mut SwitchContext<'_, '_>) {
        self.detail.iter_mut().for_each(|switch| switch.finish(context));
    }
}
