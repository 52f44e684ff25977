//! The steps of a trace, for what is said of all of them: one by one up to a number of them, from there as sums, so that
//! memory does not grow with the trace. Both ways answer the same questions.

use super::distribution::Distribution;
use super::durations::{Durations, MOST_EXACT};
use super::generations::{GenerationSums, Generations, generations};
use super::points::Points;
use super::rates::Rates;
use super::sampled::Recorded;
use super::slowdown::{Measured, SlowdownSums, measure};
use super::statistics::StepRow;
use super::step::Phase;
use super::unseen::{StretchCounts, Unseen, UnseenSteps};
use std::collections::BTreeMap;

/// Steps that wait for one of a lower number, which comes later since one of its threads has not moved on.
const MOST_WAITING: usize = 4096;

/// Every step, those with lost records too.
#[derive(Debug, Default)]
pub(super) struct StepTable {
    rows: Vec<StepRow>,
    /// Instead of rows, where there are too many.
    sums: Option<Box<Sums>>,
    count: u64,
    incomplete: u64,
    /// Complete ones, by how much of them was recorded.
    recorded: BTreeMap<Recorded, u64>,
    last_end: u64,
}

/// Sums over steps.
#[derive(Debug, Default)]
struct Sums {
    times: BTreeMap<(Phase, Recorded), Durations>,
    rates: Rates,
    points: Points,
    stretches: StretchCounts,
    in_order: InOrder,
}

/// What takes the steps of a thread one after the other.
#[derive(Debug, Clone, Default)]
struct InOrder {
    generations: GenerationSums,
    slowdown: SlowdownSums,
    /// The number of the step that comes next, and those that came before their turn.
    next: u64,
    waiting: BTreeMap<u64, StepRow>,
}

impl InOrder {
    fn push(&mut self, step: &StepRow) {
        // One that comes after its turn was counted, but what it follows is not known any more.
        if step.number >= self.next {
            self.waiting.insert(step.number, *step);
        }
        while let Some(entry) = self.waiting.first_entry()
            && (*entry.key() == self.next || self.waiting.len() > MOST_WAITING)
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

    fn finished(&self) -> Self {
        let mut all = self.clone();
        while !all.waiting.is_empty() {
            all.take_first();
        }
        all
    }
}

impl Sums {
    /// Of these steps, by number.
    fn begin(rows: &[StepRow]) -> Self {
        let mut sums = Self { rates: Rates::of(rows), ..Self::default() };
        rows.iter().for_each(|step| sums.push_any(step));
        (sums.in_order.slowdown, sums.in_order.next) = (SlowdownSums::begin(rows), 1);
        rows.iter().for_each(|step| sums.in_order.push(step));
        sums
    }

    /// What steps may come to in any order.
    fn push_any(&mut self, step: &StepRow) {
        if step.complete {
            self.times.entry((step.phase, step.recorded)).or_default().push(step.duration());
        }
        self.points.push(step);
        self.stretches.push(step);
    }

    fn push(&mut self, step: &StepRow) {
        self.push_any(step);
        self.rates.push(step);
        self.in_order.push(step);
    }
}

impl StepTable {
    /// Adds a step.
    pub(super) fn push(&mut self, step: StepRow) {
        self.count += 1;
        self.last_end = self.last_end.max(step.end);
        if step.complete {
            *self.recorded.entry(step.recorded).or_default() += 1;
        } else {
            self.incomplete += 1;
        }
        if let Some(sums) = &mut self.sums {
            return sums.push(&step);
        }
        self.rows.push(step);
        if self.rows.len() > MOST_EXACT {
            let rows = self.sorted();
            self.rows = Vec::new();
            self.sums = Some(Box::new(Sums::begin(&rows)));
        }
    }

    fn sorted(&self) -> Vec<StepRow> {
        let mut rows = self.rows.clone();
        rows.sort_by_key(|step| step.number);
        rows
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn incomplete(&self) -> u64 {
        self.incomplete
    }

    pub(super) fn recorded(&self, recorded: Recorded) -> u64 {
        self.recorded.get(&recorded).copied().unwrap_or(0)
    }

    pub(super) fn last_end(&self) -> u64 {
        self.last_end
    }

    /// Steps that stand for all, by number; and of how many in a row each is the longest.
    pub(super) fn points(&self) -> (Vec<StepRow>, u64) {
        self.sums.as_ref().map_or_else(|| (self.sorted(), 1), |sums| sums.points.steps())
    }

    /// Durations of complete steps of a phase, and of those that were recorded so far.
    pub(super) fn times(&self, phase: Phase, recorded: Option<Recorded>) -> Distribution {
        let is_wanted = |of: Phase, so_far: Recorded| of == phase && recorded.is_none_or(|wanted| so_far == wanted);
        let Some(sums) = &self.sums else {
            let steps = self.rows.iter().filter(|step| step.complete && is_wanted(step.phase, step.recorded));
            return Distribution::of(steps.map(StepRow::duration).collect());
        };
        let mut all = Durations::default();
        let wanted = sums.times.iter().filter(|((of, so_far), _)| is_wanted(*of, *so_far));
        wanted.for_each(|(_, times)| all.merge(times));
        all.distribution()
    }

    pub(super) fn generations(&self, unseen: &Unseen) -> Generations {
        match &self.sums {
            Some(sums) => sums.in_order.finished().generations.generations(),
            None => generations(&self.sorted(), unseen),
        }
    }

    pub(super) fn rates(&self) -> Rates {
        self.sums.as_ref().map_or_else(|| Rates::of(&self.rows), |sums| sums.rates.clone())
    }

    pub(super) fn unseen(&self, unseen: &Unseen, phase: Option<Phase>, added_ns: f64) -> Option<UnseenSteps> {
        if unseen.is_empty() {
            return None;
        }
        match &self.sums {
            Some(sums) => unseen.counted(&sums.stretches, phase, added_ns),
            None => unseen.steps(&self.rows, phase, added_ns),
        }
    }

    pub(super) fn slowdown(&self) -> Result<Measured, &'static str> {
        match &self.sums {
            Some(sums) => sums.in_order.finished().slowdown.measure(),
            None => measure(&self.sorted().into_iter().filter(|step| step.complete).collect::<Vec<_>>()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let all = MOST_EXACT as u64 + 50_000;
        let rows: Vec<StepRow> = (1..=all).map(step).collect();
        let unseen = Unseen::default();
        // In order, and with each eighth step coming late.
        let late = (1..=all / 8).flat_map(|eight| (0..8).map(move |i| 8 * eight - 7 + if i == 7 { 0 } else { i + 1 }));
        for table in [table(1..=all), table(late)] {
            assert!(table.sums.is_some() && table.rows.is_empty());
            assert_eq!(
                (table.count(), table.incomplete(), table.last_end()),
                (all, all / 50, rows.iter().map(|s| s.end).max().unwrap())
            );
            let exact = generations(&rows, &unseen);
            let found = table.generations(&unseen);
            assert_eq!(
                (found.count, found.decode_tokens, found.tpot.count),
                (exact.count, exact.decode_tokens, exact.tpot.count)
            );
            assert_eq!((found.tpot.total_ns, found.tpot.max_ns), (exact.tpot.total_ns, exact.tpot.max_ns));
            let near = |a: u64, b: u64| a.abs_diff(b) as f64 <= super::super::durations::PERCENTILE_ERROR * a as f64;
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
        let all = MOST_EXACT as u64 + 3 * MOST_WAITING as u64;
        let missing = MOST_EXACT as u64 + 10;
        let mut table = table((1..=all).filter(|number| *number != missing));
        table.push(step(missing));
        let sums = table.sums.as_ref().unwrap();
        assert!(sums.in_order.waiting.len() <= MOST_WAITING);
        assert_eq!(table.count(), all);
    }
}
