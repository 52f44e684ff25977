//! Two traces, compared: what is not alike, what a step takes in each, and the lines that explain the difference. Its
//! JSON is [`DiffReport`], field by field; `docs/diff.md` documents every key. Keys are only ever added.

mod html;
mod model;
mod text;
mod unlike;

pub use html::diff_html;
pub use model::{
    ChangeRow, CounterRow, DiffReport, DiffSide, LayerDiff, OperatorDiff, PartDiff, PhaseDiff, PhaseOfSide,
    TraceOfSide, Unlike, diff,
};
pub use text::diff_text;

#[cfg(test)]
mod tests;
