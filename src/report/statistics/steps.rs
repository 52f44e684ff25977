//! Times to the first and to each further token, and how many tokens a second there were as time went on.

use super::Given;
use crate::analysis::{Distribution, Phase, StepRow, Unseen};
use crate::report::model::PhaseReport;
use crate::report::table::{Align, Table};
use crate::report::text::Look;
use crate::report::units::{rate, time};
use serde::Serialize;

/// Stretches of time at most.
const MOST_WINDOWS: u64 = 64;
/// Steps that a stretch should have, in the mean.
const STEPS_A_WINDOW: u64 = 16;
/// Characters of the longest bar.
const BAR: f64 = 32.0;
/// Rows that are shown.
const SHOWN: usize = 16;

/// The section.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StepsSection {
    /// Time to first token, over generations.
    pub ttft: Distribution,
    /// Time per output token, over decode steps.
    pub tpot: Distribution,
    /// Prefill and decode.
    pub phases: Vec<PhaseReport>,
    /// Stretches of equal length from the first decode step to the last. At most 64.
    pub windows: Vec<RateWindow>,
    /// How long each is, ns.
    pub window_ns: u64,
    /// Why there is nothing.
    pub absent: Option<String>,
}

/// Decode steps of a stretch of time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RateWindow {
    /// Where it begins, ns from the first step's start.
    pub from_ns: u64,
    /// Where it ends.
    pub until_ns: u64,
    /// Decode steps that end in it.
    pub steps: u64,
    /// Their tokens; a step that does not say has one.
    pub tokens: u64,
    /// Tokens by its length, pauses included; `None` where a part of it was not recorded.
    pub tokens_per_s: Option<f64>,
    /// Mean duration of its steps, ns; `None` where it has none.
    pub step_ns: Option<f64>,
}

impl StepsSection {
    pub(super) fn new(given: &Given<'_>) -> Self {
        let report = given.report;
        let steps = given.statistics.steps();
        let last = steps.iter().map(|step| step.end).max().unwrap_or(0);
        let unseen = Unseen::new(&given.meta.notices, given.meta.end.as_ref().map_or(last, |end| end.time));
        let (windows, window_ns) = windows(&steps, &unseen);
        let absent = if steps.is_empty() { Some("The trace has no steps.".to_owned()) } else { None };
        let phases = report.phases.iter().filter(|phase| phase.phase != Phase::Outside.as_str()).cloned().collect();
        Self { ttft: report.ttft, tpot: report.tpot, phases, windows, window_ns, absent }
    }

    pub(super) fn text(&self, out: &mut String, look: &Look) {
        if let Some(why) = &self.absent {
            return super::absent(out, look, "Steps", why);
        }
        let headings = ["n", "mean", "least", "p50", "p90", "p99", "most"].map(|name| (name, Align::Right));
        let mut table = Table::new(&[&[("", Align::Left)], &headings[..]].concat());
        for (name, of) in [("time to first token", &self.ttft), ("time per output token", &self.tpot)] {
            if of.count > 0 {
                let mean = crate::report::units::time_f64(of.mean_ns);
                let times = [of.min_ns, of.p50_ns, of.p90_ns, of.p99_ns, of.max_ns].map(time);
                let cells = [name.to_owned(), crate::analysis::group_digits(of.count), mean];
                table.row(cells.into_iter().chain(times).collect());
            }
        }
        look.table(out, "Times to tokens", &table, None);
        let most = self.windows.iter().filter_map(|window| window.tokens_per_s).fold(0.0, f64::max);
        let mut table = Table::new(&[("from", Align::Right), ("tokens/s", Align::Right), ("", Align::Left)]);
        // Of many, neighbours are left out: the JSON has all.
        let every = self.windows.len().div_ceil(SHOWN).max(1);
        for window in self.windows.iter().step_by(every) {
            let Some(tokens) = window.tokens_per_s else {
                table.row(vec![time(window.from_ns), "?".into(), "not recorded".into()]);
                continue;
            };
            let bar = if most > 0.0 { (tokens / most * BAR).round() as usize } else { 0 };
            table.row(vec![time(window.from_ns), rate(tokens), "▪".repeat(bar)]);
        }
        let more = format!(
            "{} stretches of {}{}",
            self.windows.len(),
            time(self.window_ns),
            if every > 1 { format!("; one of {every} is shown") } else { String::new() }
        );
        if self.windows.len() > 1 {
            look.table(out, "Tokens a second over time (decode)", &table, Some(more));
        }
    }
}

/// Decode steps by the time of their ends.
fn windows(steps: &[StepRow], unseen: &Unseen) -> (Vec<RateWindow>, u64) {
    let decode: Vec<&StepRow> = steps.iter().filter(|step| step.phase == Phase::Decode).collect();
    let zero = steps.iter().map(|step| step.start).min().unwrap_or(0);
    let (Some(start), Some(end)) =
        (decode.iter().map(|step| step.start).min(), decode.iter().map(|step| step.end).max())
    else {
        return (Vec::new(), 0);
    };
    let count = (decode.len() as u64 / STEPS_A_WINDOW).clamp(1, MOST_WINDOWS);
    let width = end.saturating_sub(start).div_ceil(count).max(1);
    let mut windows = Vec::new();
    let mut sums = vec![(0_u64, 0_u64, 0_u64); usize::try_from(count).unwrap_or(1)];
    let last = sums.len() - 1;
    for step in decode {
        let at = usize::try_from(step.end.saturating_sub(start).saturating_sub(1) / width).unwrap_or(last).min(last);
        let (steps, tokens, time) = &mut sums[at];
        *steps += 1;
        *tokens = tokens.saturating_add(step.tokens.unwrap_or(1));
        *time = time.saturating_add(step.duration());
    }
    for (i, (steps, tokens, time)) in (0_u64..).zip(sums) {
        let from = start.saturating_add(i.saturating_mul(width));
        let until = from.saturating_add(width);
        let seen = !unseen.is_between(from, until);
        windows.push(RateWindow {
            from_ns: from.saturating_sub(zero),
            until_ns: until.saturating_sub(zero),
            steps,
            tokens,
            tokens_per_s: seen.then(|| tokens as f64 * 1e9 / width as f64),
            step_ns: (steps > 0).then(|| time as f64 / steps as f64),
        });
    }
    (windows, width)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(phase: Phase, start: u64, end: u64) -> StepRow {
        let (number, pid, tid, tokens, complete) = (1, 1, 1, Some(1), true);
        StepRow { number, phase, pid, tid, start, end, tokens, complete, recorded: Default::default(), window: None }
    }

    #[test]
    fn every_token_is_in_one_stretch() {
        let mut steps = vec![step(Phase::Prefill, 0, 1000)];
        // 100 tokens in 100 µs, then 100 in 300 µs.
        steps.extend((0..100).map(|i| step(Phase::Decode, 1000 + i * 1000, 2000 + i * 1000)));
        steps.extend((0..100).map(|i| step(Phase::Decode, 101_000 + i * 3000, 104_000 + i * 3000)));
        let (windows, width) = windows(&steps, &Unseen::default());
        assert_eq!((windows.len(), width), (12, 33_334));
        assert_eq!(windows.iter().map(|window| window.tokens).sum::<u64>(), 200);
        assert_eq!((windows[0].from_ns, windows[11].until_ns), (1000, 401_008));
        assert!((windows[0].tokens_per_s.unwrap() - 1e6).abs() < 4e4, "{windows:?}");
        assert!((windows[8].tokens_per_s.unwrap() - 1e6 / 3.0).abs() < 4e4, "{windows:?}");
        assert_eq!(windows[0].step_ns, Some(1000.0));
    }

    #[test]
    fn without_decode_steps_there_are_no_stretches() {
        assert_eq!(windows(&[step(Phase::Prefill, 0, 10)], &Unseen::default()), (Vec::new(), 0));
    }
}
