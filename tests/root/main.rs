//! Recordings of toys whose counts and times are known. These need root (or CAP_BPF and CAP_PERFMON), a C compiler and
//! clang, and no engine. What is in `timed` compares times, and runs alone.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test says what went wrong by panicking")]

mod builds;
#[path = "../competitor/mod.rs"]
mod competitor;
mod containers;
#[path = "../control_group/mod.rs"]
mod control_group;
mod enclosing;
mod faults;
mod inlined;
#[path = "../invocation/mod.rs"]
mod invocation;
mod learned;
mod losses;
mod mapped;
mod maps;
mod numbers;
#[path = "../packages/mod.rs"]
mod packages;
mod printed;
mod python;
mod reclaim;
mod record;
mod record_cost;
mod sampled;
mod samples;
mod shipped;
mod slices;
mod slots;
mod steps;
/// What compares times: `scripts/test` runs these one by one with nothing beside them.
mod timed {
    mod attaching;
    mod boundary;
    mod brief;
    mod budget;
    mod counters;
    mod cuda;
    mod device_use;
    mod hip;
    mod opencl;
    mod queue;
    mod roofline;
    mod sample_rate;
    mod slots;
    mod threads;
}
mod unit_types;
mod values;
mod writing;
