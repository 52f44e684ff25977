//! A bounded number of steps that stand for all: the longest of each few in a row.

use super::statistics::StepRow;

/// Steps that stand for all at most.
const MOST: usize = 100_000;

/// The longest step of each few in a row, by their numbers.
#[derive(Debug, Clone)]
pub(super) struct Points {
    most: usize,
    /// Each is the longest of so many.
    of: u64,
    longest: Vec<Option<StepRow>>,
}

impl Default for Points {
    fn default() -> Self {
        Self::with_most(MOST)
    }
}

impl Points {
    fn with_most(most: usize) -> Self {
        Self { most, of: 1, longest: Vec::new() }
    }

    /// Adds a step; steps may come in any order.
    pub(super) fn push(&mut self, step: &StepRow) {
        let place = |of: u64| usize::try_from(step.number.saturating_sub(1) / of).unwrap_or(usize::MAX);
        while place(self.of) >= self.most {
            let pair = |pair: &[Option<StepRow>]| pair.iter().copied().reduce(longer).flatten();
            self.longest = self.longest.chunks(2).map(pair).collect();
            self.of = self.of.saturating_mul(2);
        }
        let at = place(self.of);
        if self.longest.len() <= at {
            self.longest.resize(at + 1, None);
        }
        self.longest[at] = longer(self.longest[at], Some(*step));
    }

    /// The steps, by number, and of how many in a row each is the longest.
    pub(super) fn steps(&self) -> (Vec<StepRow>, u64) {
        (self.longest.iter().flatten().copied().collect(), self.of)
    }
}

/// The longer one; of two that are as long the later.
fn longer(a: Option<StepRow>, b: Option<StepRow>) -> Option<StepRow> {
    a.into_iter().chain(b).max_by_key(|step| (step.duration(), step.number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::Phase;

    fn step(number: u64, duration: u64) -> StepRow {
        StepRow::of_test(number, Phase::Decode, (number * 1000, number * 1000 + duration))
    }

    #[test]
    fn of_many_steps_the_longest_of_each_few_stand_for_all() {
        let mut points = Points::with_most(4);
        let steps: Vec<StepRow> = (1..=10).map(|number| step(number, if number == 5 { 900 } else { 10 })).collect();
        steps.iter().rev().for_each(|step| points.push(step));
        let (steps, of) = points.steps();
        assert_eq!((steps.iter().map(|step| step.number).collect::<Vec<_>>(), of), (vec![4, 5, 10], 4));
        assert_eq!(Points::default().steps(), (Vec::new(), 1));
    }
}
