//! What other programs make of profinfer's files: a browser, DuckDB, Spark, Perfetto, a validator of schemas. These come
//! from PyPI the first time, and from the system's packages (`scripts/setup tests`).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test says what went wrong by panicking")]

#[path = "../browser/mod.rs"]
mod browser;
mod diff;
mod export;
mod flame;
#[path = "../fragment/mod.rs"]
mod fragment;
mod graph;
mod html;
#[path = "../invocation/mod.rs"]
mod invocation;
#[path = "../packages/mod.rs"]
mod packages;
mod profile;
mod schema;
mod serving;
mod timeline;
#[path = "../toy/mod.rs"]
mod toy;
#[path = "../written/mod.rs"]
mod written;
