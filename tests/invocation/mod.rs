//! The program as a person calls it, and what it writes.

// Not every test that calls it asks for everything.
#![allow(dead_code, reason = "each test program uses what it needs")]

use serde_json::Value;
use std::process::{Command, Output, Stdio};

pub(crate) fn profinfer(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_profinfer"));
    command.args(arguments);
    command
}

/// What a command wrote, which must have succeeded.
pub(crate) fn succeeds(command: &mut Command) -> Output {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// What it writes as one value.
pub(crate) fn json(arguments: &[&str]) -> Value {
    serde_json::from_slice(&succeeds(&mut profinfer(arguments)).stdout).unwrap()
}

/// JSON, a value a line.
pub(crate) fn lines(text: &[u8]) -> Vec<Value> {
    std::str::from_utf8(text).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
