//! A process that is in others' way.

// Not every test that starts one asks for everything.
#![allow(dead_code, reason = "each test program uses what it needs")]

use std::process::{Child, Command, Stdio};

/// Computes for ever on one processor; ended when dropped.
pub(crate) struct Competitor(Child);

impl Competitor {
    pub(crate) fn on(cpu: u32) -> Self {
        Self::running("while :; do :; done", cpu)
    }

    /// Runs a shell's program on one processor.
    pub(crate) fn running(program: &str, cpu: u32) -> Self {
        let mut command = Command::new("taskset");
        command.args(["-c", &cpu.to_string(), "sh", "-c", program]);
        Self(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("taskset"))
    }

    pub(crate) fn pid(&self) -> u64 {
        self.0.id().into()
    }
}

impl Drop for Competitor {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
