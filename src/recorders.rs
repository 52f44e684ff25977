//! Processes that record: forked by a fork server where there may be several, else started as a program.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use profinfer_recorder::{ForkServer, ForkedRecorder, start_alike};
use std::ffi::OsString;
use std::io::{self, PipeReader};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;

/// Where a recorder's messages go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Messages {
    /// To standard error, with what a launched command writes.
    Through,
    /// Into memory.
    Saved,
}

/// What starts recorders.
#[derive(Debug, Clone)]
pub(crate) struct Recorders {
    server: Option<Arc<ForkServer>>,
    messages: Messages,
}

/// A recorder that runs.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) process: RecorderProcess,
    /// What it writes to standard output.
    pub(crate) trace: PipeReader,
    /// What it writes to standard error, unless that is this program's.
    pub(crate) messages: Option<PipeReader>,
}

/// Its process.
#[derive(Debug)]
pub(crate) enum RecorderProcess {
    Forked(ForkedRecorder),
    Launched(Child),
}

impl Recorders {
    /// Call it first where there may be several: a fork server is to have one thread, and nothing open that recorders have
    /// no use for.
    pub(crate) fn new(may_be_several: bool, messages: Messages) -> Self {
        let server = may_be_several.then(|| ForkServer::start(|words| std::process::exit(super::run(words).into())));
        // Without one, recorders take more memory.
        Self { server: server.and_then(Result::ok), messages }
    }

    /// Starts a recorder in a process group of its own: the terminal's signals are for this program, which passes them on.
    /// `words`: its command line, the program's name first.
    pub(crate) fn start(&self, words: &[OsString]) -> io::Result<Started> {
        let (trace, stdout) = io::pipe()?;
        let (messages, stderr) = match self.messages {
            Messages::Saved => io::pipe().map(|(messages, stderr)| (Some(messages), stderr.into()))?,
            Messages::Through => (None, io::stderr().as_fd().try_clone_to_owned()?),
        };
        if let Some(server) = &self.server
            && let Ok(forked) = server.recorder(words, stdout.as_fd(), stderr.as_fd())
        {
            return Ok(Started { process: RecorderProcess::Forked(forked), trace, messages });
        }
        // Whatever has become of the file: this program.
        let mut command = Command::new("/proc/self/exe");
        command.args(words.get(1..).unwrap_or_default()).stdin(Stdio::null()).stdout(stdout).stderr(stderr);
        command.arg0("profinfer").process_group(0);
        start_alike(&mut command);
        Ok(Started { process: RecorderProcess::Launched(command.spawn()?), trace, messages })
    }
}

impl RecorderProcess {
    /// Sends it a signal; nothing if it has ended.
    pub(crate) fn signal(&self, signal: Signal) {
        match self {
            Self::Forked(forked) => forked.signal(signal),
            Self::Launched(child) => drop(kill(Pid::from_raw(child.id().cast_signed()), signal)),
        }
    }

    /// Its exit status if it has ended.
    pub(crate) fn try_wait(&mut self) -> Option<ExitStatus> {
        match self {
            Self::Forked(forked) => forked.try_wait(),
            Self::Launched(child) => child.try_wait().ok().flatten(),
        }
    }

    /// Ends it, and waits for that.
    pub(crate) fn end(mut self) {
        self.signal(Signal::SIGTERM);
        match &mut self {
            Self::Forked(forked) => drop(forked.wait()),
            Self::Launched(child) => drop(child.wait()),
        }
    }
}
