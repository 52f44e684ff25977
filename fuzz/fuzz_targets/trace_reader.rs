//! Any bytes are a trace or an error: no panic, bounded memory, and every field of every record can be shown.
//!
//! `cargo fuzz run trace_reader fuzz/corpus/trace_reader tests/traces/v1`
//!
//! Uncompressed traces make the best seeds.

#![no_main]

#[path = "../bodies/trace_reader.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| body::feed(bytes));
