//! Any bytes are a lock or an error: no panic, and what is accepted is written again as it was.
//!
//! `cargo fuzz run lock fuzz/corpus/lock fuzz/seeds/lock`

#![no_main]

#[path = "../bodies/lock.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| body::feed(bytes));
