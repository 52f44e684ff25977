//! From records to what happened: steps with their graphs, operators and lanes ([`Timeline`]), and what they come to
//! ([`Statistics`]). It knows roles and times, no engine; it reads records by the trace's schema and never fails: what
//! a trace lacks, or has too much of, is counted.

mod assemble;
mod catalogue;
mod fields;
mod hash;
mod nesting;
mod rules;
mod step;
mod threads;
mod timeline;
mod window;

pub use catalogue::{Catalogue, Kind, KindId, ObjectId, TextId, collapse_digits};
pub use fields::{Decoder, Header};
pub use rules::Rules;
pub use step::{Experts, Graph, LaneSpan, OffCpu, Operator, Phase, Region, Step};
pub use timeline::{Findings, Timeline, Visitor};
