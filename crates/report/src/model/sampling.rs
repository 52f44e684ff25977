//! Overhead and coverage of the recording: which steps were recorded whole, the measured slow-down and the
//! estimated one.

use super::rows::OperatorRow;
use crate::numbers::ratios::ratio;
use crate::numbers::units::time_f64;
use profinfer_analysis::{Measured, Phase, PhaseTotals, Recorded, Statistics, Unseen, counted, group_digits};
use profinfer_schema::{DetailReason, DetailState, Overhead, Role};

use profinfer_trace::Meta;
use serde::Serialize;

/// Overhead and coverage of a recording.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SamplingReport {
    /// Operators were recorded in some steps only: totals over all steps are estimates.
    pub sampled: bool,
    /// The budget, where one was set: a part of the target's time.
    pub budget: Option<f64>,
    /// Steps a second below which operators were not to be recorded.
    pub min_rate: Option<f64>,
    /// What the probes added, as estimated, all steps together, by the steps' time without it.
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
    /// The same as estimated: hits × cost.
    pub predicted: Option<f64>,
    /// Estimates are by costs of hits that are built in: those of another machine.
    pub built_in_costs: bool,
    /// How long nothing at all was recorded, steps neither: ns.
    pub unseen_ns: u64,
    /// Steps in that time, as estimated from the sampling windows.
    pub unseen_steps: Option<f64>,
    /// Half the width of the interval of 95 % around them.
    pub unseen_steps_half_width: Option<f64>,
    /// When operator tracing stopped or resumed for `min_rate`: ns from the recording's start.
    pub rate_changes: Vec<RateChange>,
    /// When barrier tracing stopped, since only one thread computed.
    pub without_waiting: Vec<WithoutWaiting>,
    /// How much of the waiting of several lanes was recorded; `None` where all of it was, or lanes have none.
    pub waiting: Option<WaitingCoverage>,
}

/// How much of the waiting of several lanes was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct WaitingCoverage {
    /// Windows of time in which it was; 0: waiting is absent, and part of the work.
    pub windows: u64,
    /// The share of the lane time in operators of which it was.
    pub recorded: f64,
}

impl WaitingCoverage {
    fn new(statistics: &Statistics) -> Option<Self> {
        let phases = || Phase::ALL.into_iter().filter_map(|phase| statistics.phase(phase));
        let sum = |of: fn(&PhaseTotals) -> u64| phases().map(of).fold(0, u64::saturating_add);
        let (all, undivided) = (sum(|of| of.work.saturating_add(of.waiting)), sum(|of| of.undivided));
        let windows = sum(|of| of.waiting_windows.count());
        (undivided > 0).then(|| Self { windows, recorded: 1.0 - ratio(undivided, all) })
    }

    fn sentence(&self) -> String {
        if self.windows == 0 {
            return "Waiting at barriers was not recorded: it is part of operators' work.".to_owned();
        }
        format!(
            "Waiting at barriers was recorded in {}, {} of the lane time in operators. Work and waiting are estimates from them (≈).",
            counted(self.windows, "window"),
            percent(self.recorded)
        )
    }
}

/// A time in which barrier tracing was stopped.
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
    /// From a trace's notices.
    fn all(meta: &Meta) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for notice in &meta.notices {
            let Some(waiting) = notice.waiting.filter(|waiting| !waiting.sampled) else { continue };
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
            None => format!("Barrier tracing stopped at {}: only one thread computes.", time(self.from_ns)),
            Some(until) => format!(
                "Barrier tracing stopped from {} to {}: only one thread computed, until another started {} before the end.",
                time(self.from_ns),
                time(until),
                time(self.missed_ns)
            ),
        }
    }
}

/// Operator tracing stopped or resumed for the rate of steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RateChange {
    /// From the recording's start.
    pub at_ns: u64,
    /// It resumed.
    pub on: bool,
}

impl SamplingReport {
    /// Of a trace that was read to its end.
    pub(crate) fn new(meta: &Meta, statistics: &Statistics, unseen: &Unseen) -> Self {
        let overhead = meta.end.as_ref().and_then(|end| end.overhead.as_ref());
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
            budget: overhead.and_then(|overhead| overhead.budget),
            min_rate: overhead.and_then(|overhead| overhead.min_rate),
            spent: overhead.and_then(overhead_part),
            windows: details().filter(|(_, detail)| detail.state == DetailState::On).count() as u64,
            whole: statistics.recorded(Recorded::Whole),
            partly: statistics.recorded(Recorded::Partly),
            bare: statistics.recorded(Recorded::Bare),
            measured: measured.ok(),
            not_measured: measured.err().map(|why| {
                let unseen = "steps between sampling windows were not recorded either";
                if unseen_ns > 0 { unseen } else { why }.to_owned()
            }),
            unseen_ns,
            unseen_steps: unseen_steps.map(|unseen| unseen.steps),
            unseen_steps_half_width: unseen_steps.and_then(|unseen| unseen.half_width()),
            predicted: predicted(meta, statistics),
            built_in_costs: overhead.is_some_and(|overhead| overhead.built_in_costs),
            without_waiting: WithoutWaiting::all(meta),
            waiting: WaitingCoverage::new(statistics),
            rate_changes: changes
                .map(|(time, on)| RateChange { at_ns: time.saturating_sub(meta.origin.monotonic_ns), on })
                .collect(),
        }
    }

    /// What recording a step whole adds to it, as a part of its time without that, and whether that was measured: the one
    /// figure that all views have. Estimates are of a median step: the time of all steps has the target's first ones, and
    /// waits, too.
    pub(crate) fn overhead(&self) -> Option<(f64, bool)> {
        let estimate = if self.sampled { self.predicted } else { self.predicted.or(self.spent) };
        self.measured.as_ref().map(|measured| (measured.slowdown, true)).or_else(|| Some((estimate?, false)))
    }

    /// The overhead of the whole recording, as a part of the target's time in steps, and the budget, if there is one.
    pub(crate) fn of_the_budget(&self) -> Option<(f64, f64)> {
        self.spent.zip(self.budget)
    }

    /// Time in which not even steps were recorded.
    pub(crate) fn unseen(&self) -> Option<String> {
        let steps = match (self.unseen_steps, self.unseen_steps_half_width) {
            (Some(steps), Some(half)) => format!("≈ {} ± {} steps", whole(steps), whole(half)),
            (Some(steps), None) => format!("≈ {} steps", whole(steps)),
            (None, _) => "an unknown number of steps".to_owned(),
        };
        let time = time_f64(self.unseen_ns as f64);
        let text = format!("No records between sampling windows ({time} in total): {steps} are not listed.");
        (self.unseen_ns > 0).then_some(text)
    }

    /// As sentences; none where nothing was sampled or estimated.
    pub(crate) fn sentences(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        let all = self.whole + self.partly + self.bare;
        if all == 0 {
            return sentences;
        }
        if self.windows > 0 && (self.whole < all || self.unseen_ns > 0) {
            sentences.push(format!(
                "Operators were recorded in {} of {} ({}). Totals over all steps are estimates (≈; ±: 95 % confidence interval).",
                group_digits(self.whole),
                counted(all, "step"),
                counted(self.windows, "sampling window"),
            ));
        }
        sentences.extend(self.unseen());
        if let Some((spent, budget)) = self.of_the_budget() {
            sentences.push(format!(
                "Overhead of the whole recording: {} of the target's time in steps (estimated); budget: {}.",
                percent(spent),
                percent(budget)
            ));
        }
        if let Some(rate) = self.min_rate {
            let stops = self.rate_changes.iter().filter(|change| !change.on).count();
            sentences.push(match stops {
                0 => format!("Operator tracing did not stop: no fewer than {rate} steps per second."),
                1 => format!("Operator tracing stopped once: fewer than {rate} steps per second."),
                n => format!("Operator tracing stopped {n} times: fewer than {rate} steps per second."),
            });
            sentences.extend(self.rate_changes.iter().take(4).map(|change| {
                format!("  {} at {}", if change.on { "resumed" } else { "stopped" }, time_f64(change.at_ns as f64))
            }));
        }
        sentences.extend(self.without_waiting.iter().take(4).map(WithoutWaiting::sentence));
        sentences.extend(self.waiting.as_ref().map(WaitingCoverage::sentence));
        let which = if self.whole == all { "each step" } else { "each step recorded whole" };
        let estimate = self.overhead().filter(|(_, measured)| !measured).map(|(part, _)| part).or(self.predicted);
        let overhead = match (&self.measured, estimate, &self.not_measured) {
            (Some(m), predicted, _) => {
                let interval = format!("95 % confidence interval {} to {}", percent(m.low), percent(m.high));
                let estimate = predicted.map_or_else(String::new, |part| format!("; estimated {}", percent(part)));
                Some(format!("{} (measured, {interval}{estimate})", of_steps(m.slowdown, which, true)))
            }
            (None, Some(part), _) => {
                let costs = if self.built_in_costs {
                    " by the costs of another machine; `profinfer doctor --calibrate` measures this one's"
                } else {
                    ""
                };
                Some(format!("about {} (estimated{costs})", of_steps(part, which, false)))
            }
            (None, None, Some(why)) if self.sampled => Some(format!("not measured ({why})")),
            _ => None,
        };
        sentences.extend(overhead.map(|overhead| format!("Tracing overhead: {overhead}.")));
        sentences
    }
}

/// What to do where totals over both phases have no interval: one phase has a single sampling window, often the one prefill
/// at the start, which does not show how windows differ.
pub(crate) fn interval_hint(operators: &[OperatorRow], phases: &[&str]) -> Option<String> {
    let has_none = |row: &OperatorRow| row.estimate.is_some_and(|estimate| estimate.high_ns.is_none());
    (phases.len() > 1 && operators.iter().any(has_none))
        .then(|| "Without ±: one phase has a single sampling window. Use `--phase decode` for the other.".to_owned())
}

/// The estimated overhead of a step by its time, hits × cost: of a median decode step, if there are decode steps.
fn predicted(meta: &Meta, statistics: &Statistics) -> Option<f64> {
    let (phase, added) = added_ns(meta, statistics)?;
    let median = |recorded: Recorded| statistics.step_times_of(phase, recorded).p50_ns as f64;
    let bare = match median(Recorded::Bare) {
        bare if bare > 0.0 => bare,
        _ => median(Recorded::Whole) - added,
    };
    // Costs of hits are estimates: where they come to nearly all of a step, its time without them is not what is left.
    let bare = bare.max(LEAST_BARE * (bare + added));
    (bare > 0.0).then(|| added / bare)
}

/// The estimated overhead of a whole recording, as a part of the target's own time in steps: the one figure that all views
/// have.
pub fn overhead_part(overhead: &Overhead) -> Option<f64> {
    let added = overhead.base_ns.saturating_add(overhead.detail_ns);
    let bare = (overhead.bare_ns() as f64).max(LEAST_BARE * overhead.step_ns as f64);
    (bare > 0.0).then(|| added as f64 / bare)
}

/// The least part of a step that is taken for its own time: a step takes four times as long, or more.
const LEAST_BARE: f64 = 0.25;

/// `3.2 % of each step`; of more than the step's own time `each step takes 3.4 times as long`.
fn of_steps(part: f64, which: &str, measured: bool) -> String {
    match part < 1.0 {
        true => format!("{} of {which}", percent(part)),
        false => format!("{which} takes {}", times_as_long(part, measured)),
    }
}

/// `3.4 times as long`, for what is added, as a part of the time without it.
pub(crate) fn times_as_long(part: f64, measured: bool) -> String {
    // Estimates are no larger: what is left of a step is then too little to be believed.
    let most = 1.0 / LEAST_BARE - 1.0;
    let at_least = if !measured && part >= most - 1e-9 { "at least " } else { "" };
    format!("{at_least}{:.1} times as long", part + 1.0)
}

/// The mean overhead of a step that is recorded whole, ns, hits × cost: of a step of the phase that recurs, if there are such.
pub(crate) fn added_ns(meta: &Meta, statistics: &Statistics) -> Option<(Phase, f64)> {
    let overhead = meta.end.as_ref()?.overhead.as_ref().filter(|overhead| !overhead.record_ns.is_empty())?;
    let was_whole = |phase: &Phase| statistics.phase(*phase).is_some_and(|totals| totals.whole_steps > 0);
    let phase = Phase::RECURRING_FIRST.into_iter().find(was_whole)?;
    let totals = statistics.phase(phase)?;
    let cost = |(record, count): (&u16, &u64)| {
        let name = &meta.schema.records.get(usize::from(*record))?.name;
        Some(overhead.record_ns.get(name).filter(|ns| ns.is_finite())? * *count as f64)
    };
    let added = totals.records.iter().filter_map(cost).reduce(|a, b| a + b)?;
    Some((phase, added / totals.whole_steps as f64))
}

/// What the mean operator is longer by because it was recorded, ns: estimated. `None` where no operators were recorded,
/// or the trace has no costs.
pub(crate) fn added_to_operator_ns(meta: &Meta, statistics: &Statistics, phases: &[Phase]) -> Option<f64> {
    let spans = &meta.end.as_ref()?.overhead.as_ref()?.span_ns;
    let (mut ns, mut all) = (0.0, 0.0);
    let records = phases.iter().filter_map(|phase| statistics.phase(*phase)).flat_map(|totals| &totals.records);
    for (record, count) in records {
        let schema = meta.schema.records.get(usize::from(*record))?;
        if schema.role == Some(Role::Operator) {
            ns += spans.get(&schema.name).filter(|ns| ns.is_finite())? * *count as f64;
            all += *count as f64;
        }
    }
    (all > 0.0).then(|| ns / all)
}

fn whole(number: f64) -> String {
    group_digits(number.round().max(0.0) as u64)
}

/// `3.2 %`, `0.18 %`: small parts with two decimals.
fn percent(part: f64) -> String {
    let percent = part * 100.0;
    if percent.abs() < 1.0 { format!("{percent:.2} %") } else { format!("{percent:.1} %") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overhead_is_a_part_of_at_least_a_quarter_of_the_steps_time() {
        let of = |base_ns| overhead_part(&Overhead { step_ns: 1000, base_ns, ..Overhead::default() });
        assert_eq!([of(200), of(900), of(2000)], [Some(0.25), Some(3.6), Some(8.0)]);
        assert_eq!(overhead_part(&Overhead::default()), None);
    }
}
