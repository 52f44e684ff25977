//! A bounded sample of steps: the longest of each few in a row.

use super::step_row::StepRow;
use crate::numbers::MAX_EXACT;

/// The longest step of each few in a row, by their numbers.
#[derive(Debug, Clone)]
pub(crate) struct Points {
    most: usize,
    /// Each is the longest of so many.
    of: u64,
    longest: Vec<Option<StepRow>>,
}

impl Default for Points {
    fn default() -> Self {
        Self::with_most(MAX_EXACT)
    }
}

impl Points {
    fn with_most(most: usize) -> Self {
        Self { most, of: 1, longest: Vec::new() }
    }

    /// The step can be added and every step before stays.
    pub(super) fn has_place_for(&self, step: &StepRow) -> bool {
        self.of == 1 && usize::try_from(step.number).is_ok_and(|number| number <= self.most)
    }

    /// Adds a step; steps may come in any order.
    pub(crate) fn push(&mut self, step: &StepRow) {
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
    pub(crate) fn steps(&self) -> (Vec<StepRow>, u64) {
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
    use crate::Phase;

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
