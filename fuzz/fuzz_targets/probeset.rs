//! Any text is a probeset or a list of problems: no panic, and what is accepted becomes C.
//!
//! `cargo fuzz run probeset fuzz/corpus/probeset probesets`

#![no_main]

#[path = "../bodies/probeset.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|text: &str| body::feed(text));
