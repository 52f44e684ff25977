//! Processes that end in time, or are ended.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

/// Far more than any of them needs on a busy machine.
const DEADLINE: Duration = Duration::from_secs(180);

pub(crate) fn profinfer(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_profinfer"));
    command.args(arguments);
    command
}

/// Runs it; it must end with this status.
pub(crate) fn run(command: &mut Command, status: i32) -> Output {
    // Its own group, so that what it starts can be ended with it.
    let child = command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let output = wait(child.unwrap_or_else(|error| panic!("{command:?}: {error}")), &format!("{command:?}"));
    assert_eq!(output.status.code(), Some(status), "{command:?}\n{}", stderr(&output));
    output
}

/// What a process says until it ends.
pub(crate) fn wait(child: Child, what: &str) -> Output {
    let group = format!("-{}", child.id());
    let (send, output) = channel();
    std::thread::spawn(move || send.send(child.wait_with_output()));
    output.recv_timeout(DEADLINE).map(Result::unwrap).unwrap_or_else(|_| {
        Command::new("kill").args(["-KILL", "--", &group]).status().unwrap();
        panic!("{what}: it did not end within {} s", DEADLINE.as_secs());
    })
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
