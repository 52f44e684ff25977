//! What being recorded did to the steps: those that were recorded whole, by those beside them that were not.
//!
//! A window's steps are compared with the bare ones just before and just after it, of the same phase and number of
//! tokens, as many on each side as there are: so the growth of a step with its context, and the machine's mood, count
//! for little. The median over windows is the measure; its interval is that of a bootstrap over windows.

use super::distribution::median;
use super::sampled::Recorded;
use super::statistics::StepRow;
use super::step::Phase;
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};

/// Fewer windows with bare steps on both sides say nothing.
const FEWEST: usize = 5;
/// Resamples of the bootstrap.
const RESAMPLES: usize = 1000;
/// Bare steps on a side of a window that are looked at, at most.
const NEIGHBOURS: usize = 64;

/// Phase and tokens.
type StepKind = (Phase, Option<u64>);

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

/// The measured slow-down of steps that were recorded whole, by phase and tokens of the most common kind of step.
///
/// # Errors
/// Why it cannot be measured.
pub(super) fn measure(steps: &[StepRow]) -> Result<Measured, &'static str> {
    if steps.iter().all(|step| step.recorded == Recorded::Whole) {
        return Err("every step was recorded whole");
    }
    let Some(kind) = most_common(steps) else { return Err("no step was recorded whole") };
    let mut like: Vec<&StepRow> = steps.iter().filter(|step| same_kind(step, kind)).collect();
    like.sort_by_key(|step| (step.pid, step.tid, step.start));
    judged(&ratios(&like))
}

/// The median of the ratios, and its interval.
fn judged(ratios: &[f64]) -> Result<Measured, &'static str> {
    if ratios.len() < FEWEST {
        return Err("too few stretches of steps were recorded whole between others");
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

/// What most of the steps are that were recorded whole.
fn most_common(steps: &[StepRow]) -> Option<StepKind> {
    let mut kinds = BTreeMap::new();
    for step in steps.iter().filter(|step| step.recorded == Recorded::Whole) {
        *kinds.entry((step.phase, step.tokens)).or_insert(0_u64) += 1;
    }
    kinds.into_iter().max_by_key(|(_, count)| *count).map(|(kind, _)| kind)
}

/// The same tokens; where the trace says them of no bare step, the phase does.
fn same_kind(step: &StepRow, (phase, tokens): StepKind) -> bool {
    step.phase == phase && (step.tokens == tokens || step.tokens.is_none())
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
        let most = most.clamp(1, NEIGHBOURS).min(found.len());
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

fn whole_window(step: &StepRow) -> Option<u32> {
    step.window.filter(|_| step.recorded == Recorded::Whole)
}

fn median_time(steps: &[&StepRow]) -> f64 {
    median_of(steps.iter().map(|step| step.duration()))
}

fn median_of(durations: impl Iterator<Item = u64>) -> f64 {
    median(&mut durations.map(|duration| duration as f64).collect::<Vec<f64>>()).unwrap_or(0.0)
}

/// Steps of a window beyond which their median is that of the first.
const MOST_OF_WINDOW: usize = 4096;
/// Ratios that are kept: of more, each second one, again and again.
const MOST_RATIOS: usize = 4096;
/// Threads whose steps are followed at a time.
const MOST_THREADS: usize = 1024;

/// The same, step after step, where there are too many to keep. The kind of step is that of most at the time when it
/// begins; of the windows an even sample is taken where they are many.
#[derive(Debug, Clone, Default)]
pub(super) struct SlowdownSums {
    kind: Option<StepKind>,
    threads: BTreeMap<(u32, u32), Runs>,
    ratios: Vec<f64>,
    /// Of so many ratios one is kept.
    every: u64,
    seen: u64,
    /// A step was not recorded whole, or one was.
    any_else: bool,
    any_whole: bool,
}

/// The latest runs of a thread: the durations of the bare one before a window, of the window, of the bare one after it.
#[derive(Debug, Clone, Default)]
struct Runs {
    before: VecDeque<u64>,
    window: Vec<u64>,
    window_steps: usize,
    after: Vec<u64>,
    /// Of the latest step of the kind.
    latest: Option<(Recorded, Option<u32>)>,
}

impl SlowdownSums {
    /// Of steps as most of these are; they are not added.
    pub(super) fn begin(steps: &[StepRow]) -> Self {
        let complete: Vec<StepRow> = steps.iter().filter(|step| step.complete).copied().collect();
        Self { kind: most_common(&complete), every: 1, ..Self::default() }
    }

    /// Adds a step; those of a thread come in the order of their starts.
    pub(super) fn push(&mut self, step: &StepRow) {
        if !step.complete {
            return;
        }
        let whole = step.recorded == Recorded::Whole;
        (self.any_whole, self.any_else) = (self.any_whole || whole, self.any_else || !whole);
        if self.kind.is_none() && whole {
            self.kind = Some((step.phase, step.tokens));
        }
        // Most traces have every step whole: there is nothing to compare.
        if !self.any_else || !self.kind.is_some_and(|kind| same_kind(step, kind)) {
            return;
        }
        let key = (step.pid, step.tid);
        if self.threads.len() >= MOST_THREADS && !self.threads.contains_key(&key) {
            let open = std::mem::take(&mut self.threads);
            open.into_values().filter_map(|runs| runs.ratio()).for_each(|ratio| self.keep(ratio));
        }
        if let Some(ratio) = self.threads.entry(key).or_default().push(step) {
            self.keep(ratio);
        }
    }

    fn keep(&mut self, ratio: f64) {
        if self.seen.is_multiple_of(self.every) {
            self.ratios.push(ratio);
        }
        self.seen += 1;
        if self.ratios.len() >= MOST_RATIOS {
            let mut number = 0;
            self.ratios.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            self.every = self.every.saturating_mul(2);
        }
    }

    /// What they come to so far.
    ///
    /// # Errors
    /// Why it cannot be measured.
    pub(super) fn measure(&self) -> Result<Measured, &'static str> {
        match (self.any_whole, self.any_else) {
            (_, false) => return Err("every step was recorded whole"),
            (false, true) => return Err("no step was recorded whole"),
            (true, true) => {}
        }
        let mut all = self.clone();
        let open: Vec<f64> = all.threads.values().filter_map(Runs::ratio).collect();
        open.into_iter().for_each(|ratio| all.keep(ratio));
        let mut measured = judged(&all.ratios)?;
        measured.windows = all.seen;
        Ok(measured)
    }
}

impl Runs {
    /// Takes the next step of the thread; gives the ratio of the window that is over with it.
    fn push(&mut self, step: &StepRow) -> Option<f64> {
        let run = (step.recorded, whole_window(step));
        let goes_on = self.latest == Some(run);
        self.latest = Some(run);
        let duration = step.duration();
        match step.recorded {
            Recorded::Partly => None,
            Recorded::Whole => {
                if goes_on {
                    if self.window.len() < MOST_OF_WINDOW {
                        self.window.push(duration);
                    }
                    self.window_steps += 1;
                    return None;
                }
                let over = self.ratio();
                // What was bare before it is so if no other window is between.
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
                    if self.before.len() >= NEIGHBOURS {
                        self.before.pop_front();
                    }
                    self.before.push_back(duration);
                    return None;
                }
                if !goes_on && !self.after.is_empty() {
                    // Another run: the first one is what counts of the window, and this one of the next.
                    let over = self.ratio();
                    self.start_over(duration);
                    return over;
                }
                self.after.push(duration);
                if self.after.len() < 2 * NEIGHBOURS {
                    return None;
                }
                let over = self.ratio();
                let near = self.after.split_off(self.after.len() - NEIGHBOURS);
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

    /// The window's median time by that of the bare steps beside it; `None` where there are none on a side.
    fn ratio(&self) -> Option<f64> {
        let most = self.window_steps.clamp(1, NEIGHBOURS);
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
mod tests {
    use super::*;

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
        assert_eq!(measure(&steps(3, 0.1)), Err("too few stretches of steps were recorded whole between others"));
        let mut whole = steps(3, 0.1);
        whole.iter_mut().for_each(|step| step.recorded = Recorded::Whole);
        assert_eq!(measure(&whole), Err("every step was recorded whole"));
        whole.iter_mut().for_each(|step| step.recorded = Recorded::Bare);
        assert_eq!(measure(&whole), Err("no step was recorded whole"));
        assert_eq!(measure(&[]), Err("every step was recorded whole"));
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
            assert_eq!(sums.ratios.len() as u64, sums.seen);
            let sorted = |found: Result<Measured, &'static str>| found.map(|found| (found.slowdown, found.windows));
            assert_eq!(sorted(sums.measure()), sorted(measure(&complete)), "{round}");
        }
    }

    #[test]
    fn many_windows_are_thinned_out_evenly() {
        let all = steps(3 * MOST_RATIOS as u64, 0.1);
        let mut sums = SlowdownSums::begin(&all);
        all.iter().for_each(|step| sums.push(step));
        assert!(sums.ratios.len() <= MOST_RATIOS && sums.ratios.len() >= MOST_RATIOS / 2);
        let measured = sums.measure().unwrap();
        assert!((measured.slowdown - 0.1).abs() < 0.01 && measured.windows == 3 * MOST_RATIOS as u64, "{measured:?}");
    }
}
