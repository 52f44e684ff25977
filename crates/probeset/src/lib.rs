//! A probeset: YAML in, checked structure out. Every problem of the text is found in one run. It is independent of
//! targets; whether the paths' types fit is the plan's work.
//!
//! ```text
//! path or name ─ load ─▶ Source ─ yaml ─▶ Node ─ merge (includes) ─▶ Sections ─ sections ─▶ Probeset ─ check ─▶
//! ```
//!
//! Sources are untrusted. Files, nodes, names, numbers and problems are bounded (`limits.rs`), includes cannot leave
//! the probeset's folder, and names that reach the generated C are identifiers.

pub mod counters;
pub mod path;
pub mod symbol;

mod advice;
mod analysis_names;
mod check;
mod combine;
mod definitions;
mod fields;
mod json_schema;
mod language;
mod layouts;
mod library;
mod limits;
mod load;
mod local_names;
mod merge;
mod metrics;
mod model;
mod names;
mod probes;
mod problems;
mod reader;
mod roles;
mod sections;
mod sources;
mod unit;
mod values;
mod vocabulary;
mod yaml;

pub use combine::combine;
pub use json_schema::json_schema;
pub use library::Library;
pub use load::from_sources;
pub use load::load;
pub use load::load_text;
pub use model::*;
