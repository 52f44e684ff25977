//! Two traces, compared: configuration differences, a step's time in each, and the rows that explain the difference. Its
//! JSON is [`DiffReport`], field by field; `docs/diff.md` documents every key. Keys are only ever added.

mod html;
mod model;
mod rows;
mod text;
mod unlike;
mod why;

pub use html::diff_html;
pub use model::diff;
pub use rows::{
    ChangeRow, ComparedRow, CounterRow, DiffReport, DiffSide, LayerDiff, OperatorDiff, PartDiff, PhaseDiff,
    PhaseOfSide, TraceOfSide, Unlike,
};
pub use text::diff_text;
pub use why::{BecauseRow, CauseDiff};

#[cfg(test)]
mod tests;
