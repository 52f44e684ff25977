//! Timer samples by function: tables, flame graphs, and the formats of profile viewers. Names of functions come from
//! whoever can read the target's files.

mod callstacks;
mod classes;
mod flame;
mod folded;
mod frames;
mod interval;
mod model;
mod names;
mod pprof;
mod selection;
mod speedscope;
mod text;
mod tree;

pub use callstacks::callstacks;
pub use classes::SampledWork;
pub(crate) use classes::{Class, ClassCounts};
pub use flame::{Flame, flame_of_samples, flame_of_spans};
pub use folded::folded;
pub(crate) use interval::wilson;
pub(crate) use model::FEW;
pub use model::{FunctionRow, FunctionsReport, PlaceRow, SamplesFacts, functions};
pub use names::{Function, SymbolName, Symbolizer};
pub use pprof::pprof;
pub use selection::Selection;
pub use speedscope::speedscope;
pub use text::functions_text;

#[cfg(test)]
mod tests;
