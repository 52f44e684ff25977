//! Tokens of decode steps over time: sums over stretches of equal length, by the steps' ends. Unrecorded periods are not
//! considered.

use super::step_row::StepRow;
use crate::ids::Phase;

/// Stretches of time at most.
const MOST: u64 = 64;
/// Steps that a stretch should have, in the mean.
const STEPS_OF_ONE: u64 = 16;

/// Decode steps that end in a stretch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RateSum {
    /// How many.
    pub steps: u64,
    /// Their tokens; a step without a token count counts as one.
    pub tokens: u64,
    /// Their time, ns.
    pub time: u64,
}

impl RateSum {
    fn add(&mut self, step: &StepRow) {
        self.merge(&Self { steps: 1, tokens: step.tokens.unwrap_or(1), time: step.duration() });
    }

    fn merge(&mut self, other: &Self) {
        self.steps += other.steps;
        self.tokens = self.tokens.saturating_add(other.tokens);
        self.time = self.time.saturating_add(other.time);
    }
}

/// Stretches from the first decode step to the last.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rates {
    /// When the first step of any kind began, ns.
    pub zero: u64,
    /// When the first decode step began.
    pub start: u64,
    /// When the last decode step ended.
    pub end: u64,
    /// Length of a stretch.
    pub width: u64,
    /// The stretches.
    pub sums: Vec<RateSum>,
}

impl Rates {
    /// Of these steps.
    pub(crate) fn of(steps: &[StepRow]) -> Self {
        let decode = || steps.iter().filter(|step| step.phase == Phase::Decode);
        let zero = steps.iter().map(|step| step.start).min().unwrap_or(0);
        let (Some(start), Some(end)) = (decode().map(|step| step.start).min(), decode().map(|step| step.end).max())
        else {
            return Self { zero, ..Self::default() };
        };
        let count = (decode().count() as u64 / STEPS_OF_ONE).clamp(1, MOST);
        let width = end.saturating_sub(start).div_ceil(count).max(1);
        let sums = vec![RateSum::default(); usize::try_from(count).unwrap_or(1)];
        let mut rates = Self { zero, start, end, width, sums };
        let last = rates.sums.len() - 1;
        for step in decode() {
            let at = rates.place(step).min(last);
            rates.sums[at].add(step);
        }
        rates
    }

    /// Adds a step. If the time exceeds the stretches, pairs of them are merged.
    pub(crate) fn push(&mut self, step: &StepRow) {
        self.zero = self.zero.min(step.start);
        if step.phase != Phase::Decode {
            return;
        }
        if self.sums.is_empty() {
            (self.start, self.end, self.width) = (step.start, step.end, step.duration().max(1));
        }
        self.end = self.end.max(step.end);
        while self.place(step) >= MOST as usize {
            let pair = |pair: &[RateSum]| {
                let mut sum = RateSum::default();
                pair.iter().for_each(|one| sum.merge(one));
                sum
            };
            self.sums = self.sums.chunks(2).map(pair).collect();
            self.width = self.width.saturating_mul(2);
        }
        let at = self.place(step);
        if self.sums.len() <= at {
            self.sums.resize(at + 1, RateSum::default());
        }
        self.sums[at].add(step);
    }

    fn place(&self, step: &StepRow) -> usize {
        let from_start = step.end.saturating_sub(self.start).saturating_sub(1);
        usize::try_from(from_start / self.width.max(1)).unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(number: u64, phase: Phase, start: u64, end: u64) -> StepRow {
        StepRow::of_test(number, phase, (start, end))
    }

    fn steps() -> Vec<StepRow> {
        let mut steps = vec![step(1, Phase::Prefill, 0, 1000)];
        // 100 tokens in 100 µs, then 100 in 300 µs.
        steps.extend((0..100).map(|i| step(2 + i, Phase::Decode, 1000 + i * 1000, 2000 + i * 1000)));
        steps.extend((0..100).map(|i| step(102 + i, Phase::Decode, 101_000 + i * 3000, 104_000 + i * 3000)));
        steps
    }

    #[test]
    fn every_token_is_in_one_stretch() {
        let rates = Rates::of(&steps());
        assert_eq!((rates.sums.len(), rates.width, rates.start, rates.zero), (12, 33_334, 1000, 0));
        assert_eq!(rates.sums.iter().map(|sum| sum.tokens).sum::<u64>(), 200);
        assert_eq!((rates.sums[0].time, rates.sums[0].steps), (33_000, 33));
        assert_eq!(Rates::of(&[step(1, Phase::Prefill, 0, 10)]).sums, []);
    }

    #[test]
    fn further_steps_make_the_stretches_longer() {
        let (all, mut rates) = (steps(), Rates::of(&steps()[..3]));
        all[3..].iter().for_each(|step| rates.push(step));
        assert_eq!((rates.start, rates.end, rates.zero), (1000, 401_000, 0));
        assert!(rates.sums.len() <= MOST as usize && rates.sums.len() > MOST as usize / 2, "{rates:?}");
        assert_eq!(
            rates.sums.iter().map(|sum| (sum.tokens, sum.steps)).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1)),
            (200, 200)
        );
        assert_eq!(rates.sums.iter().map(|sum| sum.time).sum::<u64>(), 400_000);
        // A pause of an hour does not make more of them.
        rates.push(&step(999, Phase::Decode, 3_600_000_000_000, 3_600_000_001_000));
        assert!(rates.sums.len() <= MOST as usize);
    }
}
