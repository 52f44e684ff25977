//! Counters: what an event in perf's syntax asks for ([`Event`]), and what a machine makes of it ([`Machine`]). Pure: a
//! machine's units are handed to it, as `record` reads them from the kernel; who opens events, and who reads them in the
//! kernel, is elsewhere.

mod machine;
mod names;
mod resolve;
mod syntax;

pub use machine::{Format, Machine, Pmu};
pub use names::{Generic, Group, TaskCount, generic_events};
pub use resolve::{Opening, Refusal, resolve};
pub use syntax::{Event, SyntaxProblem, Term, What};

use indexmap::IndexMap;

/// What a machine has of the counters that were asked for, by the name that each was asked for by: one counter, or one
/// for each unit that counts it.
pub type Offer = IndexMap<String, Vec<Offered>>;

/// One counter of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offered {
    /// Its name in the trace: as it was asked for, with `@` and the unit where there are several.
    pub name: String,
    /// The unit that counts.
    pub pmu: Option<String>,
    /// Some processors do not have the unit: nothing is counted there, and nothing is missing.
    pub partial: bool,
    /// Why it is not counted, in one sentence.
    pub absent: Option<String>,
}

impl Offered {
    /// A counter that is there, whoever counts it.
    pub fn plain(name: &str) -> Self {
        Self { name: name.to_owned(), pmu: None, partial: false, absent: None }
    }
}
