//! All steps of a trace, for totals over them. Memory is bounded: up to [`crate::numbers::MAX_EXACT`] steps each is in memory; beyond,
//! accumulators are. The accumulators are the same in both cases, so the answers agree.

use super::coverage::Recorded;
use super::generations::{GenerationSums, Generations};
use super::points::Points;
use super::rates::Rates;
use super::slowdown::{Measured, SlowdownSums};
use super::step_row::StepRow;
use super::unseen::{StretchCounts, Unseen, UnseenSteps};
use crate::ids::Phase;
use crate::numbers::{Distribution, Durations};
use std::collections::BTreeMap;

/// Steps that wait for one of a lower number, which may finish later.
const MAX_WAITING: usize = 4096;

/// Every step, those with lost records too.
#[derive(Debug, Default)]
pub(crate) struct StepTable {
    count: u64,
    incomplete: u64,
    last_end: u64,
    /// Durations of complete steps, ns.
    times: BTreeMap<(Phase, Recorded), Durations>,
    /// Every step, up to [`crate::numbers::MAX_EXACT`].
    points: Points,
    /// Set once `points` has not every step.
    sums: Option<Box<Sums>>,
}

/// Accumulators that take every step.
#[derive(Debug, Default)]
struct Sums {
    rates: Rates,
    stretches: StretchCounts,
    in_order: InOrder,
}

impl Sums {
    /// Of these steps, by number.
    fn of(steps: &[StepRow]) -> Self {
        let mut stretches = StretchCounts::default();
        steps.iter().for_each(|step| stretches.push(step));
        Self { rates: Rates::of(steps), stretches, in_order: InOrder::of(steps) }
    }

    fn push(&mut self, step: &StepRow) {
        self.rates.push(step);
        self.stretches.push(step);
        self.in_order.push(step);
    }
}

/// Accumulators that need the steps of a thread in order.
#[derive(Debug, Clone, Default)]
struct InOrder {
    generations: GenerationSums,
    slowdown: SlowdownSums,
    /// The number of the next step.
    next: u64,
    /// Steps that arrived before their turn.
    waiting: BTreeMap<u64, StepRow>,
}

impl InOrder {
    /// Of these steps, by number.
    fn of(steps: &[StepRow]) -> Self {
        let mut sums = Self { slowdown: SlowdownSums::begin(steps), next: 1, ..Self::default() };
        steps.iter().for_each(|step| sums.push(step));
        sums
    }

    fn push(&mut self, step: &StepRow) {
        // A step that arrives after its turn is only counted.
        if step.number >= self.next {
            self.waiting.insert(step.number, *step);
        }
        while let Some(entry) = self.waiting.first_entry()
            && (*entry.key() == self.next || self.waiting.len() > MAX_WAITING)
        {
            self.take_first();
        }
    }

    fn take_first(&mut self) {
        let Some((number, step)) = self.waiting.pop_first() else { return };
        self.next = number + 1;
        self.generations.push(&step);
        self.slowdown.push(&step);
    }

    fn finished(mut self) -> Self {
        while !self.waiting.is_empty() {
            self.take_first();
        }
        self
    }
}

impl StepTable {
    /// Adds a step.
    pub(crate) fn push(&mut self, step: StepRow) {
        self.count += 1;
        self.last_end = self.last_end.max(step.end);
        self.incomplete += u64::from(!step.complete);
        if step.complete {
            self.times.entry((step.phase, step.recorded)).or_default().push(step.duration());
        }
        if self.sums.is_none() && !self.points.has_place_for(&step) {
            self.sums = Some(Box::new(Sums::of(&self.points.steps().0)));
        }
        self.points.push(&step);
        if let Some(sums) = &mut self.sums {
            sums.push(&step);
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn incomplete(&self) -> u64 {
        self.incomplete
    }

    /// Complete steps of which this much was recorded.
    pub(crate) fn recorded(&self, recorded: Recorded) -> u64 {
        self.times.iter().filter(|((_, of), _)| *of == recorded).map(|(_, times)| times.count()).sum()
    }

    /// End of the last step, ns.
    pub(crate) fn last_end(&self) -> u64 {
        self.last_end
    }

    /// Steps by number: all, or the longest of each few in a row; and how many these few are.
    pub(crate) fn points(&self) -> (Vec<StepRow>, u64) {
        self.points.steps()
    }

    /// Durations of complete steps of a phase of which this much was recorded.
    pub(crate) fn times(&self, phase: Phase, recorded: Option<Recorded>) -> Distribution {
        let mut all = Durations::default();
        let is_wanted = |of: Phase, so_far: Recorded| of == phase && recorded.is_none_or(|wanted| so_far == wanted);
        let wanted = self.times.iter().filter(|((of, so_far), _)| is_wanted(*of, *so_far));
        wanted.for_each(|(_, times)| all.merge(times));
        all.distribution()
    }

    fn in_order(&self) -> InOrder {
        self.sums.as_ref().map_or_else(|| InOrder::of(&self.points.steps().0), |sums| sums.in_order.clone()).finished()
    }

    pub(crate) fn generations(&self) -> Generations {
        self.in_order().generations.generations()
    }

    pub(crate) fn rates(&self) -> Rates {
        self.sums.as_ref().map_or_else(|| Rates::of(&self.points.steps().0), |sums| sums.rates.clone())
    }

    /// Steps of a phase, or of any, that were not recorded. Recording makes each step longer by `added_ns`.
    pub(crate) fn unseen(&self, unseen: &Unseen, phase: Option<Phase>, added_ns: f64) -> Option<UnseenSteps> {
        if unseen.is_empty() {
            return None;
        }
        match &self.sums {
            Some(sums) => unseen.estimate(&sums.stretches, phase, added_ns),
            None => unseen.estimate(&unseen.count(&self.points.steps().0), phase, added_ns),
        }
    }

    pub(crate) fn slowdown(&self) -> Result<Measured, &'static str> {
        self.in_order().slowdown.measure()
    }
}

#[cfg(test)]
mod tests {
    use super::super::generations::tests::generations;
    use super::super::slowdown::tests::measure;
    use super::*;
    use crate::numbers::MAX_EXACT;

    fn step(number: u64) -> StepRow {
        let (phase, at) = (if number % 10 == 1 { Phase::Prefill } else { Phase::Decode }, 1000 * number);
        let recorded = if number % 40 < 10 { Recorded::Whole } else { Recorded::Bare };
        let window = Some(u32::try_from(number / 40).unwrap());
        let lasts = 400 + number * 7919 % 97 + if recorded == Recorded::Whole { 40 } else { 0 };
        StepRow { recorded, window, complete: number % 50 != 3, ..StepRow::of_test(number, phase, (at, at + lasts)) }
    }

    fn table(numbers: impl Iterator<Item = u64>) -> StepTable {
        let mut table = StepTable::default();
        numbers.for_each(|number| table.push(step(number)));
        table
    }

    #[test]
    fn sums_answer_as_the_steps_do() {
        let all = MAX_EXACT as u64 + 50_000;
        let rows: Vec<StepRow> = (1..=all).map(step).collect();
        let unseen = Unseen::default();
        // In order, and with each eighth step coming late.
        let late = (1..=all / 8).flat_map(|eight| (0..8).map(move |i| 8 * eight - 7 + if i == 7 { 0 } else { i + 1 }));
        for table in [table(1..=all), table(late)] {
            assert!(table.sums.is_some() && table.points().0.len() <= MAX_EXACT);
            assert_eq!(
                (table.count(), table.incomplete(), table.last_end()),
                (all, all / 50, rows.iter().map(|s| s.end).max().unwrap())
            );
            let exact = generations(&rows, &unseen);
            let found = table.generations();
            assert_eq!(
                (found.count, found.decode_tokens, found.tpot.count),
                (exact.count, exact.decode_tokens, exact.tpot.count)
            );
            assert_eq!((found.tpot.total_ns, found.tpot.max_ns), (exact.tpot.total_ns, exact.tpot.max_ns));
            let near = |a: u64, b: u64| a.abs_diff(b) as f64 <= crate::PERCENTILE_ERROR * a as f64;
            assert!(near(exact.tpot.p99_ns, found.tpot.p99_ns) && found.tpot.percentile_error.is_some());
            let complete: Vec<StepRow> = rows.iter().filter(|step| step.complete).copied().collect();
            let (exact, found) = (measure(&complete).unwrap(), table.slowdown().unwrap());
            assert!((exact.slowdown - found.slowdown).abs() < 0.002, "{exact:?} {found:?}");
            assert_eq!(found.windows, exact.windows);
            let tokens = table.rates().sums.iter().map(|sum| sum.tokens).sum::<u64>();
            assert_eq!(tokens, rows.iter().filter(|step| step.phase == Phase::Decode).count() as u64);
            let whole = complete.iter().filter(|step| step.recorded == Recorded::Whole);
            let decode = whole.filter(|step| step.phase == Phase::Decode).map(StepRow::duration).collect();
            let (exact, found) = (Distribution::of(decode), table.times(Phase::Decode, Some(Recorded::Whole)));
            assert_eq!((exact.count, exact.total_ns), (found.count, found.total_ns));
            assert!(near(exact.p50_ns, found.p50_ns));
            let (points, of) = table.points();
            assert_eq!((points.len() as u64, of), (all / 2, 2));
        }
    }

    #[test]
    fn a_step_that_never_comes_is_not_waited_for() {
        let all = MAX_EXACT as u64 + 3 * MAX_WAITING as u64;
        let missing = MAX_EXACT as u64 + 10;
        let mut table = table((1..=all).filter(|number| *number != missing));
        table.push(step(missing));
        let sums = table.sums.as_ref().unwrap();
        assert!(sums.in_order.waiting.len() <= MAX_WAITING);
        assert_eq!(table.count(), all);
    }
}
