//! Which steps' spans a page has: all that fit, else the first ones, the last ones and the slowest of those between,
//! so that memory and page do not grow with the trace.

use super::spans::StepSpans;
use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;

/// A step counts as at least this many spans: it takes memory itself.
const LEAST_OF_STEP: usize = 8;

fn weight(step: &StepSpans) -> usize {
    step.spans.len().max(LEAST_OF_STEP)
}

/// Steps in the page, of those that come one after the other.
#[derive(Debug)]
pub(super) struct Selection {
    /// The largest number of spans.
    most: usize,
    /// These steps only.
    wanted: Option<RangeInclusive<u64>>,
    first: Vec<StepSpans>,
    first_spans: usize,
    first_is_full: bool,
    last: VecDeque<StepSpans>,
    last_spans: usize,
    /// By duration; the number distinguishes steps of one duration.
    slowest: BTreeMap<(u64, u64), StepSpans>,
    slowest_spans: usize,
    left_out: u64,
    /// The last step that was left out: its memory serves the next one.
    spare: Option<StepSpans>,
}

impl Selection {
    pub(super) fn new(most: usize, wanted: Option<RangeInclusive<u64>>) -> Self {
        Self {
            most,
            wanted,
            first: Vec::new(),
            first_spans: 0,
            first_is_full: false,
            last: VecDeque::new(),
            last_spans: 0,
            slowest: BTreeMap::new(),
            slowest_spans: 0,
            left_out: 0,
            spare: None,
        }
    }

    /// Whether a step of that number may be in the page.
    pub(super) fn wants(&self, number: u64) -> bool {
        self.wanted.as_ref().is_none_or(|wanted| wanted.contains(&number) && number > 0)
    }

    /// The largest number of spans of one step.
    pub(super) fn most_of_a_step(&self) -> usize {
        self.most / 4
    }

    /// A step to fill and push: one that was left out, where there is one.
    pub(super) fn spare(&mut self) -> StepSpans {
        self.spare.take().unwrap_or_default()
    }

    /// Leaves out a step that is in the page only if it is one of the last: one that is quicker than the slowest.
    pub(super) fn leaves_out(&mut self, duration: u64, number: u64) -> bool {
        let least = self.slowest.first_key_value();
        let is_quick = self.left_out > 0 && least.is_some_and(|(least, _)| (duration, number) < *least);
        self.left_out += u64::from(is_quick);
        is_quick
    }

    pub(super) fn push(&mut self, step: StepSpans) {
        let spans = weight(&step);
        if !self.first_is_full && self.first_spans + spans <= self.most / 2 {
            self.first_spans += spans;
            self.first.push(step);
            return;
        }
        self.first_is_full = true;
        self.last_spans += spans;
        self.last.push_back(step);
        if self.spans() <= self.most {
            return;
        }
        while self.last_spans > self.most / 4 {
            let Some(step) = self.last.pop_front() else { break };
            self.last_spans -= weight(&step);
            self.push_slow(step);
        }
        while self.spans() > self.most {
            let Some((_, step)) = self.slowest.pop_first() else { break };
            self.slowest_spans -= weight(&step);
            self.left_out += 1;
            self.spare = Some(step);
        }
    }

    fn spans(&self) -> usize {
        self.first_spans + self.last_spans + self.slowest_spans
    }

    fn push_slow(&mut self, step: StepSpans) {
        self.slowest_spans += weight(&step);
        if let Some(twin) = self.slowest.insert((step.duration(), step.number), step) {
            self.slowest_spans -= weight(&twin);
            self.left_out += 1;
        }
    }

    /// The steps of the page, by their start, and how many others there were.
    pub(super) fn finish(self) -> (Vec<StepSpans>, u64) {
        let mut steps = self.first;
        steps.extend(self.last);
        steps.extend(self.slowest.into_values());
        steps.sort_by_key(|step| (step.start, step.number));
        (steps, self.left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::super::span::Span;
    use super::*;

    fn step(number: u64, duration: u64, spans: usize) -> StepSpans {
        let mut step = StepSpans::default();
        (step.number, step.start, step.end) = (number, number * 1000, number * 1000 + duration);
        step.spans = vec![Span::default(); spans];
        step
    }

    fn numbers(steps: &[StepSpans]) -> Vec<u64> {
        steps.iter().map(|step| step.number).collect()
    }

    #[test]
    fn all_steps_that_fit_are_selected() {
        let mut selection = Selection::new(100, None);
        (1..=10).for_each(|number| selection.push(step(number, 5, 10)));
        let (steps, left_out) = selection.finish();
        assert_eq!((numbers(&steps), left_out), ((1..=10).collect(), 0));
    }

    #[test]
    fn of_many_the_first_the_last_and_the_slowest_are_selected() {
        let mut selection = Selection::new(80, None);
        for number in 1..=1000 {
            let duration = if number == 500 || number == 700 { 900 } else { number % 7 };
            selection.push(step(number, duration, 10));
        }
        let (steps, left_out) = selection.finish();
        assert_eq!((numbers(&steps), left_out), (vec![1, 2, 3, 4, 500, 700, 999, 1000], 992));
    }

    /// What is left out before it is made a step of the page is what would have been left out afterwards.
    #[test]
    fn a_quick_step_far_from_the_end_is_left_out_at_once() {
        let durations: Vec<u64> = (0..2000_u64).map(|number| number * 7919 % 1009).collect();
        let select = |far: u64| {
            let (mut selection, mut made) = (Selection::new(80, None), 0);
            for (number, duration) in (1..).zip(&durations) {
                if number > far || !selection.leaves_out(*duration, number) {
                    made += 1;
                    selection.push(step(number, *duration, 10));
                }
            }
            let (steps, left_out) = selection.finish();
            (numbers(&steps), left_out, made)
        };
        let (all, some) = (select(0), select(1900));
        assert_eq!((&all.0, all.1), (&some.0, some.1));
        assert!(all.2 == 2000 && some.2 < 200, "{}", some.2);
    }

    #[test]
    fn steps_that_were_asked_for() {
        let selection = Selection::new(80, Some(3..=4));
        assert_eq!([0, 2, 3, 4, 5].map(|number| selection.wants(number)), [false, false, true, true, false]);
    }
}
