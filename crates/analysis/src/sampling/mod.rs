//! Steps that were recorded in part or not at all: windows, unseen steps, and estimates over all steps.

mod coverage;
mod estimate;
mod generations;
mod points;
mod rates;
mod slowdown;
mod step_row;
mod step_table;
mod unseen;
mod waiting;

pub(crate) use coverage::Coverage;
pub use coverage::{Recorded, Windows};
pub use estimate::{Estimate, GROUPS, Groups};
pub use generations::Generations;
pub(crate) use generations::{GenerationNews, GenerationSums};
pub use rates::{RateSum, Rates};
pub use slowdown::Measured;
pub use step_row::StepRow;
pub(crate) use step_table::StepTable;
pub(crate) use unseen::UnseenSince;
pub use unseen::{Unseen, UnseenSteps};
pub use waiting::{Divided, WaitingWindows};
