//! Any bytes are a binary or an error: no panic and no hang, whatever is asked of it.
//!
//! `cargo fuzz run elf fuzz/corpus/elf fuzz/seeds/elf`

#![no_main]

#[path = "../bodies/elf.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| body::feed(bytes));
