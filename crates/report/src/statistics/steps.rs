//! Times to the first and to each further token, and how many tokens a second there were as time went on.

use super::Given;
use crate::model::rows::PhaseReport;
use crate::numbers::table::{Align, Table};
use crate::numbers::units::{rate, time};
use crate::text::{TextStyle, estimated};
use profinfer_analysis::{Distribution, Phase, RateSum, Rates, Unseen};
use serde::Serialize;

/// ns that the last interval may continue after the last step.
const ROUNDING: u64 = 64;
/// Characters of the longest bar.
const BAR: f64 = 32.0;
/// Rows that are shown.
const SHOWN: usize = 16;

/// The section.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StepsSection {
    /// Time to first token, over generations.
    pub ttft: Distribution,
    /// Steps have numbers of tokens.
    pub has_tokens: bool,
    /// Time per output token, over decode steps; per step, where there are no tokens.
    pub tpot: Distribution,
    /// The phases of steps.
    pub phases: Vec<PhaseReport>,
    /// Stretches of equal length from the first decode step to the last. At most 64.
    pub windows: Vec<RateWindow>,
    /// How long each is, ns.
    pub window_ns: u64,
    /// Why there is nothing.
    pub absent: Option<String>,
}

/// Decode steps of an interval of time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RateWindow {
    /// Where it begins, ns from the first step's start.
    pub from_ns: u64,
    /// Where it ends.
    pub until_ns: u64,
    /// Decode steps that end in it.
    pub steps: u64,
    /// Their tokens; a step without a number has one.
    pub tokens: u64,
    /// Tokens by its length, pauses included; `None` where a part of it was not recorded.
    pub tokens_per_s: Option<f64>,
    /// Mean duration of its steps, ns; `None` where it has none.
    pub step_ns: Option<f64>,
}

impl StepsSection {
    pub(super) fn new(given: &Given<'_>) -> Self {
        let report = given.report;
        let end = given.meta.end.as_ref().map_or(given.statistics.last_end(), |end| end.time);
        let unseen = Unseen::new(&given.meta.notices, end);
        let (windows, window_ns) = windows(&given.statistics.rates(), &unseen);
        let absent = if given.statistics.steps() == 0 { Some("The trace has no steps.".to_owned()) } else { None };
        let phases = report.phases.iter().filter(|phase| phase.phase != Phase::Outside.as_str()).cloned().collect();
        Self {
            ttft: report.ttft,
            has_tokens: report.has_tokens(),
            tpot: report.tpot,
            phases,
            windows,
            window_ns,
            absent,
        }
    }

    pub(super) fn text(&self, out: &mut String, style: &TextStyle) {
        if let Some(why) = &self.absent {
            return super::absent(out, style, "Steps", why);
        }
        let headings = ["n", "mean", "least", "p50", "p90", "p99", "most"].map(|name| (name, Align::Right));
        let mut table = Table::new(&[&[("", Align::Left)], &headings[..]].concat());
        let per_step = if self.has_tokens { "time per output token" } else { "time per step" };
        for (name, of) in [("time to first token", &self.ttft), (per_step, &self.tpot)] {
            if of.count > 0 {
                let mean = crate::numbers::units::time_f64(of.mean_ns);
                let times = [of.min_ns, of.p50_ns, of.p90_ns, of.p99_ns, of.max_ns].map(time);
                let cells = [name.to_owned(), profinfer_analysis::group_digits(of.count), mean];
                table.row(cells.into_iter().chain(times).collect());
            }
        }
        let title = if self.has_tokens { "Times to tokens" } else { "Times of steps" };
        style.table(out, title, &table, estimated([&self.ttft, &self.tpot].into_iter()));
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
            "{} intervals of {}{}",
            self.windows.len(),
            time(self.window_ns),
            if every > 1 { format!("; one of {every} is shown") } else { String::new() }
        );
        if self.windows.len() > 1 {
            style.table(out, "Tokens per second over time (decode)", &table, Some(more));
        }
    }
}

/// Decode steps by the time of their ends. The last interval ends with the last of them.
fn windows(rates: &Rates, unseen: &Unseen) -> (Vec<RateWindow>, u64) {
    let Rates { zero, start, end, width, .. } = *rates;
    let window = |(i, sum): (u64, &RateSum)| {
        let from = start.saturating_add(i.saturating_mul(width));
        let until = from.saturating_add(width);
        let seen = !unseen.is_between(from, until);
        // Where steps are summed up, the stretches need not end where the steps do; else that is so but for rounding.
        let lasts = if until.saturating_sub(end) > ROUNDING { end.saturating_sub(from).max(1) } else { width };
        RateWindow {
            from_ns: from.saturating_sub(zero),
            until_ns: from.saturating_add(lasts).saturating_sub(zero),
            steps: sum.steps,
            tokens: sum.tokens,
            tokens_per_s: seen.then(|| sum.tokens as f64 * 1e9 / lasts as f64),
            step_ns: (sum.steps > 0).then(|| sum.time as f64 / sum.steps as f64),
        }
    };
    ((0..).zip(&rates.sums).map(window).collect(), width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_are_told_by_their_times() {
        let sum = |steps: u64, time: u64| RateSum { steps, tokens: 2 * steps, time };
        let rates =
            Rates { zero: 0, start: 1000, end: 25_000, width: 10_000, sums: vec![sum(5, 500), sum(0, 0), sum(2, 100)] };
        let (windows, width) = windows(&rates, &Unseen::default());
        assert_eq!((windows.len(), width), (3, 10_000));
        assert_eq!((windows[0].from_ns, windows[0].until_ns, windows[0].step_ns), (1000, 11_000, Some(100.0)));
        assert_eq!((windows[1].tokens_per_s, windows[1].step_ns), (Some(0.0), None));
        assert_eq!((windows[2].until_ns, windows[2].tokens_per_s), (25_000, Some(4e9 / 4000.0)));
        assert_eq!(super::windows(&Rates::default(), &Unseen::default()), (Vec::new(), 0));
    }
}
