//! What the switches of probes work on: session, modules, consumer, and the overhead so far.

use super::consumer::Consumer;
use super::meter::Meter;
use super::modules::Modules;
use super::overhead::Seen;
use crate::bpf::Session;
use profinfer_schema::{Detail, DetailReason, DetailState, Notice};
use std::time::Duration;

/// The parts of a recording that a switch needs.
pub(super) struct SwitchContext<'r, 'a> {
    pub(super) session: &'r mut Session<'a>,
    pub(super) modules: &'r mut Modules<'a>,
    pub(super) consumer: &'r Consumer,
    pub(super) meter: &'r mut Meter<'a>,
    /// The processes that are recorded.
    pub(super) processes: &'r dyn Fn() -> Vec<i32>,
}

impl SwitchContext<'_, '_> {
    pub(super) fn seen(&mut self, at_most: Duration) -> Seen {
        self.meter.seen(self.session, self.modules, self.consumer.counts(), at_most)
    }

    /// Records in the trace that the state has changed, at the time that `change` gives, and before any record that is
    /// read after it.
    pub(super) fn record_state(
        &self,
        state: DetailState,
        reason: DetailReason,
        change: impl FnOnce(&Session<'_>) -> u64,
    ) {
        self.record_planned(state, reason, None, change);
    }

    /// The same of a window that is to end at a time, ns of CLOCK_MONOTONIC.
    pub(super) fn record_planned(
        &self,
        state: DetailState,
        reason: DetailReason,
        planned_end: Option<u64>,
        change: impl FnOnce(&Session<'_>) -> u64,
    ) {
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
        let detail = Some(Detail { state, reason, steps_too: self.modules.stays().is_none(), planned_end });
        self.consumer.notice_of(|| Notice {
            time: change(self.session),
            text: format!("{text}{why}"),
            detail,
            ..Notice::default()
        });
    }

    /// Records that from now on nothing at all is recorded between windows.
    pub(super) fn record_unseen(&self, change: impl FnOnce(&Session<'_>) -> u64) {
        let text = "steps: recorded with operators only, for the budget".to_owned();
        let detail = Some(Detail {
            state: DetailState::Detached,
            reason: DetailReason::Budget,
            steps_too: true,
            planned_end: None,
        });
        self.consumer.notice_of(|| Notice { time: change(self.session), text, detail, ..Notice::default() });
    }
}
