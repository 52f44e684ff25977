//! Launch or attach, consume the ring, account for losses, write the trace.

mod attach;
pub mod host;
mod launch;
pub mod machine;
mod process;
pub use process::{Ending, TargetProcess};
