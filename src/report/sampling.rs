//! What the recording cost, and what it is of: which steps were recorded whole, the measured slow-down and the
//! reckoned one.

use super::model::OperatorRow;
use super::units::time_f64;
use crate::analysis::{Measured, Phase, Recorded, Statistics, Unseen, counted, group_digits};
use crate::trace::{DetailReason, DetailState, Meta};
use serde::Serialize;

/// The price of a recording, and how much was had for it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SamplingReport {
    /// Operators were recorded in some steps only: totals over all steps are estimates.
    pub sampled: bool,
    /// The budget, where one was set: a part of the target's time.
    pub budget: Option<f64>,
    /// Steps a second below which operators were not to be recorded.
    pub min_rate: Option<f64>,
    /// What the probes are reckoned to have added, all steps together, by the steps' time without it.
    pub spent: Option<f64>,
    /// Windows in which operators were recorded.
    pub windows: u64,
    /// Steps that were recorded whole.
    pub whole: u64,
    /// Steps that were recorded in part, which no statistics of operators contain.
    pub partly: u64,
    /// Steps whose operators were not recorded.
    pub bare: u64,
    /// What recording a step whole added to it, as measured: by the steps beside it that were not.
    pub measured: Option<Measured>,
    /// Why that could not be measured.
    pub not_measured: Option<String>,
    /// The same as reckoned: hits × cost.
    pub predicted: Option<f64>,
    /// How long nothing at all was recorded, steps neither: ns.
    pub unseen_ns: u64,
    /// Steps in that time, as reckoned from the stretches.
    pub unseen_steps: Option<f64>,
    /// Half the width of the interval of 95 % around them.
    pub unseen_steps_half_width: Option<f64>,
    /// When operators went or came for `min_rate`: ns from the recording's start.
    pub rate_changes: Vec<RateChange>,
    /// When it was not recorded how long operators waited, since one lane alone computed.
    pub without_waiting: Vec<WithoutWaiting>,
}

/// A time in which it was not recorded how long operators waited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct WithoutWaiting {
    /// From the recording's start.
    pub from_ns: u64,
    /// From the recording's start; `None`: until its end.
    pub until_ns: Option<u64>,
    /// How long before its end another lane was at work, which might have been waited for.
    pub missed_ns: u64,
}

impl WithoutWaiting {
    /// As a trace's notices say.
    fn all(meta: &Meta) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for notice in &meta.notices {
            let Some(waiting) = notice.waiting else { continue };
            let at = notice.time.saturating_sub(meta.origin.monotonic_ns);
            match all.last_mut().filter(|last| last.until_ns.is_none()) {
                Some(last) if waiting.known => {
                    last.until_ns = Some(at.max(last.from_ns));
                    last.missed_ns = waiting.missed_ns.min(at.saturating_sub(last.from_ns));
                }
                None if !waiting.known => all.push(Self { from_ns: at, until_ns: None, missed_ns: 0 }),
                _ => {}
            }
        }
        all
    }

    fn sentence(&self) -> String {
        let time = |ns: u64| time_f64(ns as f64);
        match self.until_ns {
            None => format!("Waiting was not recorded from {} on: one lane alone computed.", time(self.from_ns)),
            Some(until) => format!(
                "Waiting was not recorded from {} until {}: one lane alone computed, until another came {} before that.",
                time(self.from_ns),
                time(until),
                time(self.missed_ns)
            ),
        }
    }
}

/// Operators went or came for the rate of steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RateChange {
    /// From the recording's start.
    pub at_ns: u64,
    /// They are recorded from then on.
    pub on: bool,
}

impl SamplingReport {
    /// Of a trace that was read to its end.
    pub(super) fn new(meta: &Meta, statistics: &Statistics, unseen: &Unseen) -> Self {
        let price = meta.end.as_ref().and_then(|end| end.price.as_ref());
        let details = || meta.notices.iter().filter_map(|notice| Some((notice.time, notice.detail?)));
        let measured = statistics.slowdown();
        let unseen_ns = unseen.ns();
        let added = added_ns(meta, statistics).map_or(0.0, |(_, added)| added);
        let unseen_steps = statistics.unseen_steps(unseen, None, added);
        let changes = details().filter(|(_, detail)| detail.reason == DetailReason::Rate);
        let changes = changes.filter_map(|(time, detail)| match detail.state {
            DetailState::On => Some((time, true)),
            DetailState::Off => Some((time, false)),
            _ => None,
        });
        Self {
            sampled: details().next().is_some(),
            budget: price.and_then(|price| price.budget),
            min_rate: price.and_then(|price| price.min_rate),
            spent: price.and_then(|price| {
                let added = price.base_ns.saturating_add(price.detail_ns);
                let bare = price.bare_ns();
                (bare > 0).then(|| added as f64 / bare as f64)
            }),
            windows: details().filter(|(_, detail)| detail.state == DetailState::On).count() as u64,
            whole: statistics.recorded(Recorded::Whole),
            partly: statistics.recorded(Recorded::Partly),
            bare: statistics.recorded(Recorded::Bare),
            measured: measured.ok(),
            not_measured: measured.err().map(|why| {
                let unseen = "steps between stretches were not recorded either";
                if unseen_ns > 0 { unseen } else { why }.to_owned()
            }),
            unseen_ns,
            unseen_steps: unseen_steps.map(|unseen| unseen.steps),
            unseen_steps_half_width: unseen_steps.and_then(|unseen| unseen.half_width()),
            predicted: predicted(meta, statistics),
            without_waiting: WithoutWaiting::all(meta),
            rate_changes: changes
                .map(|(time, on)| RateChange { at_ns: time.saturating_sub(meta.origin.monotonic_ns), on })
                .collect(),
        }
    }

    /// As a person reads it; nothing where there is nothing to say.
    pub(super) fn sentences(&self) -> Vec<String> {
        let mut said = Vec::new();
        let all = self.whole + self.partly + self.bare;
        if all == 0 {
            return said;
        }
        if self.sampled && (self.whole < all || self.unseen_ns > 0) {
            said.push(format!(
                "Operators were recorded in {} of {}, in {}: totals over all steps are estimates (≈, ± 95 %).",
                group_digits(self.whole),
                counted(all, "step"),
                counted(self.windows, "stretch").replace("stretchs", "stretches"),
            ));
        }
        if self.unseen_ns > 0 {
            let steps = match (self.unseen_steps, self.unseen_steps_half_width) {
                (Some(steps), Some(half)) => format!("≈ {} ± {} steps", whole(steps), whole(half)),
                (Some(steps), None) => format!("≈ {} steps", whole(steps)),
                (None, _) => "nobody knows how many steps".to_owned(),
            };
            said.push(format!(
                "Nothing at all was recorded between stretches, {} together: {steps} more than are listed.",
                time_f64(self.unseen_ns as f64)
            ));
        }
        if let (Some(budget), Some(spent)) = (self.budget, self.spent) {
            said.push(format!("Spent {} of the target's time; the budget was {}.", percent(spent), percent(budget)));
        }
        if let Some(rate) = self.min_rate {
            let went = self.rate_changes.iter().filter(|change| !change.on).count();
            let times = match went {
                0 => "never".to_owned(),
                1 => "once".to_owned(),
                n => format!("{n} times"),
            };
            said.push(format!("Operators went for want of {rate} steps a second: {times}."));
            said.extend(self.rate_changes.iter().take(4).map(|change| {
                format!("  {} after {}", if change.on { "on" } else { "off" }, time_f64(change.at_ns as f64))
            }));
        }
        said.extend(self.without_waiting.iter().take(4).map(WithoutWaiting::sentence));
        let predicted = self.predicted.map(|part| format!("reckoned {}", percent(part)));
        let measured = match (&self.measured, &self.not_measured) {
            (Some(m), _) => Some(format!("measured {} [{}, {}]", percent(m.slowdown), percent(m.low), percent(m.high))),
            (None, Some(why)) if predicted.is_some() || self.sampled => Some(format!("not measurable: {why}")),
            _ => None,
        };
        let parts: Vec<String> = measured.into_iter().chain(predicted).collect();
        if !parts.is_empty() {
            said.push(format!("A step recorded whole takes longer by: {}.", parts.join("; ")));
        }
        said
    }
}

/// What to do where totals over both phases have no interval: one phase was met in a single stretch, often the one prefill
/// at the start, which says nothing of how stretches differ.
pub(super) fn interval_hint(operators: &[OperatorRow], phases: &[&str]) -> Option<String> {
    let has_none = |row: &OperatorRow| row.estimate.is_some_and(|estimate| estimate.high_ns.is_none());
    (phases.len() > 1 && operators.iter().any(has_none)).then(|| {
        "Without ±: a phase that was met in one stretch only; `--phase decode` shows the other by itself.".to_owned()
    })
}

/// The part of its time that a step takes longer for what is recorded of it, hits × cost: a decode step, where there
/// are some, of median time.
fn predicted(meta: &Meta, statistics: &Statistics) -> Option<f64> {
    let (phase, added) = added_ns(meta, statistics)?;
    let median = |recorded: Recorded| statistics.step_times_of(phase, recorded).p50_ns as f64;
    let bare = match median(Recorded::Bare) {
        bare if bare > 0.0 => bare,
        _ => median(Recorded::Whole) - added,
    };
    (bare > 0.0).then(|| added / bare)
}

/// What recording a step whole adds to it on average, ns, hits × cost: a decode step, where there are some.
pub(super) fn added_ns(meta: &Meta, statistics: &Statistics) -> Option<(Phase, f64)> {
    let price = meta.end.as_ref()?.price.as_ref().filter(|price| !price.record_ns.is_empty())?;
    let was_whole = |phase: &Phase| statistics.phase(*phase).is_some_and(|totals| totals.whole_steps > 0);
    let phase = [Phase::Decode, Phase::Prefill].into_iter().find(was_whole)?;
    let totals = statistics.phase(phase)?;
    let cost = |(record, count): (&u16, &u64)| {
        let name = &meta.schema.records.get(usize::from(*record))?.name;
        Some(price.record_ns.get(name).filter(|ns| ns.is_finite())? * *count as f64)
    };
    let added = totals.records.iter().filter_map(cost).reduce(|a, b| a + b)?;
    Some((phase, added / totals.whole_steps as f64))
}

fn whole(number: f64) -> String {
    group_digits(number.round().max(0.0) as u64)
}

fn percent(part: f64) -> String {
    format!("{:.2} %", part * 100.0)
}
