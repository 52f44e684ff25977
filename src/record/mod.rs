//! Launch or attach, consume the ring, account for losses, write the trace.

mod attach;
mod clock;
mod consumer;
pub mod host;
mod launch;
pub mod machine;
mod process;
pub use process::{Ending, TargetProcess};
