//! What the recording cost, and what it is of: which steps were recorded whole, the measured slow-down and the
//! reckoned one.

use super::model::OperatorRow;
use super::units::time_f64;
use crate::analysis::{Distribution, Measured, Phase, Recorded, Statistics, StepRow, counted, group_digits, measure};
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
    /// When operators went or came for `min_rate`: ns from the recording's start.
    pub rate_changes: Vec<RateChange>,
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
    pub(super) fn new(meta: &Meta, statistics: &Statistics) -> Self {
        let price = meta.end.as_ref().and_then(|end| end.price.as_ref());
        let details = || meta.notices.iter().filter_map(|notice| Some((notice.time, notice.detail?)));
        let measured = match statistics.steps() {
            steps if steps.is_empty() => Err("there are no steps"),
            steps => measure(&steps.into_iter().filter(|step| step.complete).collect::<Vec<_>>()),
        };
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
                let bare = price.step_ns.saturating_sub(added);
                (bare > 0).then(|| added as f64 / bare as f64)
            }),
            windows: details().filter(|(_, detail)| detail.state == DetailState::On).count() as u64,
            whole: statistics.recorded(Recorded::Whole),
            partly: statistics.recorded(Recorded::Partly),
            bare: statistics.recorded(Recorded::Bare),
            measured: measured.ok(),
            not_measured: measured.err().map(str::to_owned),
            predicted: predicted(meta, statistics),
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
        if self.sampled && self.whole < all {
            said.push(format!(
                "Operators were recorded in {} of {}, in {}: totals over all steps are estimates (≈, ± 95 %).",
                group_digits(self.whole),
                counted(all, "step"),
                counted(self.windows, "stretch").replace("stretchs", "stretches"),
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
    let price = meta.end.as_ref()?.price.as_ref()?;
    let was_whole = |phase: &Phase| statistics.phase(*phase).is_some_and(|totals| totals.whole_steps > 0);
    let phase = [Phase::Decode, Phase::Prefill].into_iter().find(was_whole)?;
    let totals = statistics.phase(phase)?;
    let cost = |(record, count): (&u16, &u64)| {
        let name = &meta.schema.records.get(usize::from(*record))?.name;
        Some(price.record_ns.get(name).filter(|ns| ns.is_finite())? * *count as f64)
    };
    let added = totals.records.iter().filter_map(cost).sum::<f64>() / totals.whole_steps as f64;
    let steps = statistics.steps();
    let median = |recorded: Recorded| {
        let like = steps.iter().filter(|step| step.complete && step.phase == phase && step.recorded == recorded);
        Distribution::of(like.map(StepRow::duration).collect()).p50_ns as f64
    };
    let bare = match median(Recorded::Bare) {
        bare if bare > 0.0 => bare,
        _ => median(Recorded::Whole) - added,
    };
    (bare > 0.0 && !price.record_ns.is_empty()).then(|| added / bare)
}

fn percent(part: f64) -> String {
    format!("{:.2} %", part * 100.0)
}
