//! What comes and goes while a recording runs: operators, as the price says, and boundaries, as the lanes do.

use super::boundary::BoundarySwitch;
use super::consumer::Consumer;
use super::detail::DetailSwitch;
use super::meter::Meter;
use super::modules::Modules;
use super::price::{Seen, Terms};
use crate::bpf::Session;
use crate::plan::ProbePlan;
use crate::trace::{Detail, DetailReason, DetailState, Notice};
use std::time::Duration;

/// All that is switched.
#[derive(Debug)]
pub(super) struct Switches {
    detail: Option<DetailSwitch>,
    boundary: Option<BoundarySwitch>,
}

impl Switches {
    /// For a plan that is recorded on these terms; some steps may be asked for by number.
    pub(super) fn new(plan: &ProbePlan, terms: Terms, steps_are_counted: bool) -> Self {
        Self { detail: DetailSwitch::new(plan, terms, steps_are_counted), boundary: BoundarySwitch::new(plan) }
    }

    /// Whether something is about to change, so that it is worth looking often; `None` where nothing can.
    pub(super) fn are_restless(&self) -> Option<bool> {
        let boundary = self.boundary.as_ref().filter(|switch| !switch.is_settled()).map(|_| false);
        self.detail.as_ref().map(DetailSwitch::is_restless).or(boundary)
    }

    /// The recording begins, and nothing is attached yet.
    pub(super) fn start(&mut self, hands: &mut Hands<'_, '_>) {
        self.detail.iter_mut().for_each(|switch| switch.start(hands));
    }

    /// One look: does what is next, which takes some milliseconds at most.
    pub(super) fn look(&mut self, hands: &mut Hands<'_, '_>) {
        self.detail.iter_mut().for_each(|switch| switch.look(hands));
        self.boundary.iter_mut().for_each(|switch| switch.look(hands));
    }

    /// The target's own time in steps that nobody saw, as reckoned; `None` where all steps were recorded.
    pub(super) fn unseen_ns(&self) -> Option<f64> {
        self.detail.as_ref()?.unseen_ns()
    }

    /// The recording ends.
    pub(super) fn finish(&mut self, hands: &mut Hands<'_, '_>) {
        self.detail.iter_mut().for_each(|switch| switch.finish(hands));
    }
}

/// What they work on.
pub(super) struct Hands<'r, 'a> {
    pub(super) session: &'r mut Session<'a>,
    pub(super) modules: &'r mut Modules<'a>,
    pub(super) consumer: &'r Consumer,
    pub(super) meter: &'r mut Meter<'a>,
    /// The processes that are recorded.
    pub(super) processes: &'r dyn Fn() -> Vec<i32>,
}

impl Hands<'_, '_> {
    pub(super) fn seen(&mut self, at_most: Duration) -> Seen {
        self.meter.seen(self.session, self.modules, self.consumer.counts(), at_most)
    }

    /// Says in the trace that the state has changed, at the time that `change` gives, and before any record that is
    /// read after it.
    pub(super) fn say(&self, state: DetailState, reason: DetailReason, change: impl FnOnce(&Session<'_>) -> u64) {
        let text = match state {
            DetailState::Attaching => "operators: being attached",
            DetailState::On => "operators: on",
            DetailState::Off => "operators: off",
            _ => "operators: detached",
        };
        let why = match reason {
            DetailReason::Rate => ", for the rate of steps",
            DetailReason::Budget => ", for the budget",
            _ => "",
        };
        let detail = Some(Detail { state, reason, steps_too: self.modules.stays().is_none() });
        self.consumer.notice_of(|| Notice {
            time: change(self.session),
            text: format!("{text}{why}"),
            detail,
            ..Notice::default()
        });
    }

    /// Says that from now on nothing at all is recorded between stretches.
    pub(super) fn say_unseen(&self, change: impl FnOnce(&Session<'_>) -> u64) {
        let text = "steps: recorded with operators only, for the budget".to_owned();
        let detail = Some(Detail { state: DetailState::Detached, reason: DetailReason::Budget, steps_too: true });
        self.consumer.notice_of(|| Notice { time: change(self.session), text, detail, ..Notice::default() });
    }
}
