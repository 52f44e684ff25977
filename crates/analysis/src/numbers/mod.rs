//! Distributions, intervals and counts.

mod distribution;
mod durations;
mod interval;
mod text;

pub use distribution::{Distribution, median};
pub use durations::PERCENTILE_ERROR;
pub(crate) use durations::{Durations, MAX_EXACT};
pub(crate) use interval::t_of;
pub use text::{counted, group_digits};
