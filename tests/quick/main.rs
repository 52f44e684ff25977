//! Tests that need nothing but a C compiler and what `scripts/setup` installs: no root, no network, no engine, no
//! emulated machine. A test here that needs more is ignored and says what; `scripts/test` runs it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test says what went wrong by panicking")]

mod architecture;
mod codegen;
mod command_line;
mod commands;
mod dependencies;
mod diagnostics;
mod diff;
mod diff_why;
mod documents;
#[path = "../fragment/mod.rs"]
mod fragment;
mod fuzzing;
mod graph;
#[path = "../invocation/mod.rs"]
mod invocation;
mod joint;
mod live;
mod lock;
mod lock_properties;
#[path = "../written/long.rs"]
mod long;
#[path = "../pages/mod.rs"]
mod pages;
mod places;
mod python_module;
mod report;
mod samples;
mod scaffold;
mod scale;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod sites;
#[path = "../source/mod.rs"]
mod source;
mod spec_properties;
mod statistics;
#[path = "../toy/mod.rs"]
mod toy;
mod trace_files;
mod verdicts;
#[path = "../written/mod.rs"]
mod written;
