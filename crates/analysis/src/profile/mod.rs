//! Timer samples by what they interrupted: an operator, by the span that was open on the thread; else, by the time, a
//! graph, a step, or nothing of these.

mod assign;
mod log;
mod stacks;

pub use assign::{Profile, Within};
pub use log::Assigned;
pub use stacks::StackId;
