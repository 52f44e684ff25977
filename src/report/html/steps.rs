//! The steps of a whole trace, a few bytes each: the page's chart of steps.

use super::columns::Columns;
use crate::analysis::{Phase, Recorded, StepRow};
use serde::Serialize;

/// Steps that the chart has at most: of more, the longest of each few in a row.
const MOST_STEPS: usize = 100_000;

/// What goes with the columns, as JSON.
#[derive(Debug, Default, Serialize)]
pub(super) struct StepFacts {
    /// Steps of the trace.
    steps: u64,
    /// Steps in the columns.
    shown: u64,
    /// Each is the longest of so many in a row.
    of: u64,
    /// The start of the first: ns, CLOCK_MONOTONIC, as text.
    origin: String,
}

/// Writes number, start, duration, a byte of facts and tokens, each a column.
pub(super) fn columns(steps: &[StepRow], most: Option<usize>) -> (StepFacts, Columns) {
    let of = steps.len().div_ceil(most.unwrap_or(MOST_STEPS).max(1)).max(1);
    let longest = |part: &[StepRow]| part.iter().copied().max_by_key(StepRow::duration);
    let shown: Vec<StepRow> = steps.chunks(of).filter_map(longest).collect();
    let mut columns = Columns::default();
    let origin = shown.first().map_or(0, |step| step.start);
    let (mut number, mut start) = (0, origin);
    for step in &shown {
        columns.uint(step.number.saturating_sub(number));
        number = step.number;
    }
    for step in &shown {
        columns.difference(step.start, start);
        start = step.start;
    }
    shown.iter().for_each(|step| columns.uint(step.duration()));
    shown.iter().for_each(|step| columns.uint(facts(step)));
    shown.iter().for_each(|step| columns.uint(step.tokens.map_or(0, |tokens| tokens.saturating_add(1))));
    let facts =
        StepFacts { steps: steps.len() as u64, shown: shown.len() as u64, of: of as u64, origin: origin.to_string() };
    (facts, columns)
}

/// Bits as `data.js` has them: 0–1 phase, 2 no record was lost, 3–4 how much was recorded.
fn facts(step: &StepRow) -> u64 {
    let phase = match step.phase {
        Phase::Prefill => 0,
        Phase::Decode => 1,
        Phase::Outside => 2,
    };
    let recorded = match step.recorded {
        Recorded::Whole => 0,
        Recorded::Partly => 1,
        Recorded::Bare => 2,
    };
    phase | u64::from(step.complete) << 2 | recorded << 3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(number: u64, duration: u64) -> StepRow {
        let (start, end) = (number * 1000, number * 1000 + duration);
        let (phase, recorded) = (Phase::Decode, Recorded::Whole);
        StepRow { number, phase, pid: 1, tid: 1, start, end, tokens: None, complete: true, recorded, window: None }
    }

    #[test]
    fn of_many_steps_the_longest_of_each_few_are_shown() {
        let steps: Vec<StepRow> = (1..=10).map(|number| step(number, if number == 5 { 900 } else { 10 })).collect();
        let all = columns(&steps, None).0;
        assert_eq!((all.shown, all.of), (10, 1));
        let (facts, _) = columns(&steps, Some(3));
        assert_eq!((facts.steps, facts.shown, facts.of), (10, 3, 4));
        assert_eq!(columns(&[], None).0.shown, 0);
    }
}
