//! Launch or attach, consume the ring, account for losses, write the trace.
pub mod host;
