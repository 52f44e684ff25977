//! Tracing overhead as measured: steps that were recorded whole, compared with the bare ones beside them.
//!
//! The steps of a window are compared with the bare steps just before and just after it, of the same phase and number
//! of tokens, as many on each side as the window has: so the growth of a step with its context, and slow drifts of the
//! machine, cancel. The measure is the median over windows; its interval is a bootstrap over windows.

use super::coverage::Recorded;
use super::step_row::{StepRow, ThreadKey};
use crate::ids::Phase;
use crate::numbers::median;
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};

/// Windows with bare steps on both sides that are needed.
const MIN_WINDOWS: usize = 5;
/// Resamples of the bootstrap.
const RESAMPLES: usize = 1000;
/// Bare steps on a side of a window that are compared, at most.
const MAX_NEIGHBOURS: usize = 64;

/// Steps that are comparable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct StepKind {
    phase: Phase,
    tokens: Option<u64>,
}

impl StepKind {
    fn of(step: &StepRow) -> Self {
        Self { phase: step.phase, tokens: step.tokens }
    }

    /// The most common kind among steps that were recorded whole.
    fn most_common(steps: &[StepRow]) -> Option<Self> {
        let mut kinds = BTreeMap::new();
        for step in steps.iter().filter(|step| step.recorded == Recorded::Whole) {
            *kinds.entry(Self::of(step)).or_insert(0_u64) += 1;
        }
        kinds.into_iter().max_by_key(|(_, count)| *count).map(|(kind, _)| kind)
    }

    /// The step is of this kind. A step without a token count is compared by its phase.
    fn matches(self, step: &StepRow) -> bool {
        step.phase == self.phase && (step.tokens == self.tokens || step.tokens.is_none())
    }
}

/// A ratio with its interval of 95 %.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Measured {
    /// Time of a step that was recorded whole, by that of one that was not, less 1.
    pub slowdown: f64,
    /// Where it is with 95 % confidence: from here.
    pub low: f64,
    /// To here.
    pub high: f64,
    /// Windows that were compared.
    pub windows: u64,
}

/// The median of the ratios with its bootstrap interval.
fn median_ratio(ratios: &[f64]) -> Result<Measured, &'static str> {
    if ratios.len() < MIN_WINDOWS {
        return Err("too few traced windows between untraced steps");
    }
    let slowdown = median(&mut ratios.to_vec()).unwrap_or(0.0) - 1.0;
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut medians: Vec<f64> = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        let mut sample: Vec<f64> = ratios.iter().map(|_| ratios[random.below(ratios.len())]).collect();
        medians.push(median(&mut sample).unwrap_or(0.0) - 1.0);
    }
    medians.sort_by(f64::total_cmp);
    let at = |part: f64| medians[((part * RESAMPLES as f64) as usize).min(RESAMPLES - 1)];
    Ok(Measured { slowdown, low: at(0.025), high: at(0.975), windows: ratios.len() as u64 })
}

fn whole_window(step: &StepRow) -> Option<u32> {
    step.window.filter(|_| step.recorded == Recorded::Whole)
}

fn median_of(durations: impl Iterator<Item = u64>) -> f64 {
    median(&mut durations.map(|duration| duration as f64).collect::<Vec<f64>>()).unwrap_or(0.0)
}

/// Steps of one window whose median is taken: the first ones.
const MAX_WINDOW_STEPS: usize = 4096;
/// Ratios in memory; at this number every second one is dropped.
const MAX_RATIOS: usize = 4096;
/// Threads tracked at a time.
const MAX_THREADS: usize = 1024;

/// Accumulates the measurement, one step at a time, in bounded memory: of many windows an even sample.
#[derive(Debug, Clone, Default)]
pub(crate) struct SlowdownSums {
    kind: Option<StepKind>,
    threads: BTreeMap<ThreadKey, Runs>,
    ratios: Vec<f64>,
    /// One of so many ratios is in `ratios`.
    every: u64,
    windows: u64,
    any_whole: bool,
    any_not_whole: bool,
}

/// The latest runs of a thread, as durations in ns: the bare run before a window, the window, the bare run after it.
#[derive(Debug, Clone, Default)]
struct Runs {
    before: VecDeque<u64>,
    window: Vec<u64>,
    window_steps: usize,
    after: Vec<u64>,
    /// Of the latest step of this kind.
    latest: Option<(Recorded, Option<u32>)>,
}

impl SlowdownSums {
    /// For the most common kind among these steps. The steps themselves are not added.
    pub(crate) fn begin(steps: &[StepRow]) -> Self {
        let complete: Vec<StepRow> = steps.iter().filter(|step| step.complete).copied().collect();
        Self { kind: StepKind::most_common(&complete), every: 1, ..Self::default() }
    }

    /// Adds a step; those of a thread come in the order of their starts.
    pub(crate) fn push(&mut self, step: &StepRow) {
        if !step.complete {
            return;
        }
        let whole = step.recorded == Recorded::Whole;
        (self.any_whole, self.any_not_whole) = (self.any_whole || whole, self.any_not_whole || !whole);
        if self.kind.is_none() && whole {
            self.kind = Some(StepKind::of(step));
        }
        // In most traces every step is whole: nothing to compare.
        if !self.any_not_whole || !self.kind.is_some_and(|kind| kind.matches(step)) {
            return;
        }
        let key = step.thread();
        if self.threads.len() >= MAX_THREADS && !self.threads.contains_key(&key) {
            let open = std::mem::take(&mut self.threads);
            open.into_values().filter_map(|runs| runs.ratio()).for_each(|ratio| self.push_ratio(ratio));
        }
        if let Some(ratio) = self.threads.entry(key).or_default().push(step) {
            self.push_ratio(ratio);
        }
    }

    fn push_ratio(&mut self, ratio: f64) {
        if self.windows.is_multiple_of(self.every) {
            self.ratios.push(ratio);
        }
        self.windows += 1;
        if self.ratios.len() >= MAX_RATIOS {
            let mut number = 0;
            self.ratios.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            self.every = self.every.saturating_mul(2);
        }
    }

    /// The measurement so far.
    ///
    /// # Errors
    /// Why it cannot be measured.
    pub(crate) fn measure(&self) -> Result<Measured, &'static str> {
        match (self.any_whole, self.any_not_whole) {
            (_, false) => return Err("every step was traced completely"),
            (false, true) => return Err("no step was traced completely"),
            (true, true) => {}
        }
        let mut all = self.clone();
        let open: Vec<f64> = all.threads.values().filter_map(Runs::ratio).collect();
        open.into_iter().for_each(|ratio| all.push_ratio(ratio));
        let mut measured = median_ratio(&all.ratios)?;
        measured.windows = all.windows;
        Ok(measured)
    }
}

impl Runs {
    /// Adds the next step of the thread; returns the ratio of the window that it ends.
    fn push(&mut self, step: &StepRow) -> Option<f64> {
        let run = (step.recorded, whole_window(step));
        let goes_on = self.latest == Some(run);
        self.latest = Some(run);
        let duration = step.duration();
        match step.recorded {
            Recorded::Partly => None,
            Recorded::Whole => {
                if goes_on {
                    if self.window.len() < MAX_WINDOW_STEPS {
                        self.window.push(duration);
                    }
                    self.window_steps += 1;
                    return None;
                }
                let over = self.ratio();
                // The bare run after the window before is the one before this window.
                let between: Vec<u64> = std::mem::take(&mut self.after);
                if !self.window.is_empty() {
                    self.before = between.into();
                }
                (self.window, self.window_steps) = (vec![duration], 1);
                over
            }
            Recorded::Bare => {
                if self.window.is_empty() {
                    if !goes_on {
                        self.before.clear();
                    }
                    if self.before.len() >= MAX_NEIGHBOURS {
                        self.before.pop_front();
                    }
                    self.before.push_back(duration);
                    return None;
                }
                if !goes_on && !self.after.is_empty() {
                    // A second bare run: the first belongs to this window, this one to the next.
                    let over = self.ratio();
                    self.start_over(duration);
                    return over;
                }
                self.after.push(duration);
                if self.after.len() < 2 * MAX_NEIGHBOURS {
                    return None;
                }
                let over = self.ratio();
                let near = self.after.split_off(self.after.len() - MAX_NEIGHBOURS);
                self.window.clear();
                self.after.clear();
                self.before = near.into();
                over
            }
        }
    }

    fn start_over(&mut self, duration: u64) {
        self.window.clear();
        self.after.clear();
        self.before = VecDeque::from([duration]);
    }

    /// Median duration in the window over that of the bare steps beside it; `None` if a side has none.
    fn ratio(&self) -> Option<f64> {
        let most = self.window_steps.clamp(1, MAX_NEIGHBOURS);
        if self.window.is_empty() || self.before.is_empty() || self.after.is_empty() {
            return None;
        }
        let before = median_of(self.before.iter().rev().take(most).copied());
        let after = median_of(self.after.iter().take(most).copied());
        let beside = (before * after).sqrt();
        (beside > 0.0).then(|| median_of(self.window.iter().copied()) / beside)
    }
}

/// xorshift64*: equal traces give equal intervals.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % limit.max(1)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The reference: the same from all steps at once.
    pub(crate) fn measure(steps: &[StepRow]) -> Result<Measured, &'static str> {
        if steps.iter().all(|step| step.recorded == Recorded::Whole) {
            return Err("every step was traced completely");
        }
        let Some(kind) = StepKind::most_common(steps) else { return Err("no step was traced completely") };
        let mut like: Vec<&StepRow> = steps.iter().filter(|step| kind.matches(step)).collect();
        like.sort_by_key(|step| (step.pid, step.tid, step.start));
        median_ratio(&ratios(&like))
    }

    /// For each window with bare steps on both sides: its steps' median time by theirs.
    fn ratios(steps: &[&StepRow]) -> Vec<f64> {
        let runs: Vec<&[&StepRow]> = steps
            .chunk_by(|a, b| (a.pid, a.tid, a.recorded, whole_window(a)) == (b.pid, b.tid, b.recorded, whole_window(b)))
            .collect();
        let bare = |mut runs: Box<dyn Iterator<Item = &&[&StepRow]> + '_>, owner: &StepRow, last: bool, most: usize| {
            let found = runs.find(|run| run[0].recorded != Recorded::Partly)?;
            let found = (found[0].recorded == Recorded::Bare && (found[0].pid, found[0].tid) == (owner.pid, owner.tid))
                .then_some(*found)?;
            let most = most.clamp(1, MAX_NEIGHBOURS).min(found.len());
            let near = if last { &found[found.len() - most..] } else { &found[..most] };
            Some(median_time(near))
        };
        let ratio = |(at, run): (usize, &&[&StepRow])| {
            if run[0].recorded != Recorded::Whole {
                return None;
            }
            let before = bare(Box::new(runs[..at].iter().rev()), run[0], true, run.len())?;
            let after = bare(Box::new(runs[at + 1..].iter()), run[0], false, run.len())?;
            let beside = (before * after).sqrt();
            (beside > 0.0).then(|| median_time(run) / beside)
        };
        runs.iter().enumerate().filter_map(ratio).collect()
    }

    fn median_time(steps: &[&StepRow]) -> f64 {
        median_of(steps.iter().map(|step| step.duration()))
    }

    /// Steps that grow by a thousandth each; windows of 4 in every 40 are slower.
    fn steps(windows: u64, slower: f64) -> Vec<StepRow> {
        let mut at = 0;
        let step = |number: u64| {
            let place = number % 40;
            let recorded = match place {
                20..24 => Recorded::Whole,
                19 | 24 => Recorded::Partly,
                _ => Recorded::Bare,
            };
            let noise = 1.0 + 0.002 * (number * 7919 % 11) as f64;
            let slow = if recorded == Recorded::Bare { 1.0 } else { 1.0 + slower };
            let duration = (1e6 * (1.0 + number as f64 / 1000.0) * noise * slow) as u64;
            at += duration + 1000;
            let window = Some((number / 40) as u32);
            StepRow { recorded, window, ..StepRow::of_test(number, Phase::Decode, (at - duration, at)) }
        };
        (0..windows * 40).map(step).collect()
    }

    #[test]
    fn the_growth_of_steps_does_not_pass_for_a_slow_down() {
        for slower in [0.0, 0.03, 0.2] {
            let measured = measure(&steps(30, slower)).unwrap();
            assert!((measured.slowdown - slower).abs() < 0.006, "{slower}: {measured:?}");
            assert!(measured.low <= slower && slower <= measured.high, "{slower}: {measured:?}");
            assert_eq!(measured.windows, 30);
        }
    }

    #[test]
    fn what_cannot_be_measured_is_not() {
        assert_eq!(measure(&steps(3, 0.1)), Err("too few traced windows between untraced steps"));
        let mut whole = steps(3, 0.1);
        whole.iter_mut().for_each(|step| step.recorded = Recorded::Whole);
        assert_eq!(measure(&whole), Err("every step was traced completely"));
        whole.iter_mut().for_each(|step| step.recorded = Recorded::Bare);
        assert_eq!(measure(&whole), Err("no step was traced completely"));
        assert_eq!(measure(&[]), Err("every step was traced completely"));
    }

    #[test]
    fn step_after_step_it_comes_to_the_same() {
        let mut random = fastrand::Rng::with_seed(4);
        for round in 0..200 {
            let mut all = steps(20, 0.1);
            if round > 0 {
                // Runs of any length, of several threads, kinds and windows.
                let (mut recorded, mut left) = (Recorded::Bare, 0);
                for step in &mut all {
                    if left == 0 {
                        recorded = [Recorded::Bare, Recorded::Whole, Recorded::Partly][random.usize(0..3)];
                        left = random.usize(1..if round % 2 == 0 { 5 } else { 200 });
                    }
                    left -= 1;
                    (step.recorded, step.window) = (recorded, Some(random.u32(0..2)).filter(|_| round % 3 == 0));
                    step.tid = random.u32(0..2);
                    step.tokens = Some(1 + u64::from(random.u32(0..20) == 0));
                    step.complete = random.u32(0..50) > 0;
                }
            }
            let mut sums = SlowdownSums::begin(&all);
            all.iter().for_each(|step| sums.push(step));
            let complete: Vec<StepRow> = all.iter().filter(|step| step.complete).copied().collect();
            assert_eq!(sums.ratios.len() as u64, sums.windows);
            let sorted = |found: Result<Measured, &'static str>| found.map(|found| (found.slowdown, found.windows));
            assert_eq!(sorted(sums.measure()), sorted(measure(&complete)), "{round}");
        }
    }

    #[test]
    fn many_windows_are_thinned_out_evenly() {
        let all = steps(3 * MAX_RATIOS as u64, 0.1);
        let mut sums = SlowdownSums::begin(&all);
        all.iter().for_each(|step| sums.push(step));
        assert!(sums.ratios.len() <= MAX_RATIOS && sums.ratios.len() >= MAX_RATIOS / 2);
        let measured = sums.measure().unwrap();
        assert!((measured.slowdown - 0.1).abs() < 0.01 && measured.windows == 3 * MAX_RATIOS as u64, "{measured:?}");
    }
}
