//! Faults made on purpose: files replaced, recorders and targets that die, caches and outputs that others have prepared.
//! The toy's results are compared with what they must be, so that three things can be asserted of every fault: results
//! wrong in any process: 0; processes left stopped: 0; events in the trace and counted losses are together the calls
//! made, or the trace does not say that it is complete. These need root, a C compiler and clang.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test says what went wrong by panicking")]

mod above;
mod complete;
mod confined;
#[path = "../control_group/mod.rs"]
mod control_group;
mod deaths;
mod encrypted;
mod flight;
mod live;
mod neighbours;
mod outputs;
mod podman;
mod pushed;
#[path = "../receiver/mod.rs"]
mod receiver;
mod replaced;
mod toy;
mod trust;
