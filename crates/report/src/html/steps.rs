//! The steps of a whole trace, a few bytes each: the page's chart of steps.

use super::columns::Columns;
use profinfer_analysis::{Phase, Recorded, StepRow};
use serde::Serialize;

/// What goes with the columns, as JSON.
#[derive(Debug, Default, Serialize)]
pub(super) struct StepFacts {
    /// Steps of the trace.
    steps: u64,
    /// Steps in the columns.
    shown: u64,
    /// Each is the longest of this many consecutive steps.
    of: u64,
    /// The start of the first: ns, CLOCK_MONOTONIC, as text.
    origin: String,
}

/// Writes number, start, duration, a byte of facts and tokens, each a column. Each of those shown is the longest of `of` in a row, of `all` in the trace.
pub(super) fn columns(shown: &[StepRow], of: u64, all: u64) -> (StepFacts, Columns) {
    let mut columns = Columns::default();
    let origin = shown.first().map_or(0, |step| step.start);
    let (mut number, mut start) = (0, origin);
    for step in shown {
        columns.uint(step.number.saturating_sub(number));
        number = step.number;
    }
    for step in shown {
        columns.difference(step.start, start);
        start = step.start;
    }
    shown.iter().for_each(|step| columns.uint(step.duration()));
    shown.iter().for_each(|step| columns.uint(facts(step)));
    shown.iter().for_each(|step| columns.uint(step.tokens.map_or(0, |tokens| tokens.saturating_add(1))));
    let facts = StepFacts { steps: all, shown: shown.len() as u64, of, origin: origin.to_string() };
    (facts, columns)
}

/// Bits as `data.js` has them: 0–1 phase, 2 no record was lost, 3–4 how much was recorded.
fn facts(step: &StepRow) -> u64 {
    let phase = match step.phase {
        Phase::Prefill => 0,
        Phase::Decode => 1,
        Phase::Run => 2,
        Phase::Outside => 3,
    };
    let recorded = match step.recorded {
        Recorded::Whole => 0,
        Recorded::Partly => 1,
        Recorded::Bare => 2,
    };
    phase | u64::from(step.complete) << 2 | recorded << 3
}
