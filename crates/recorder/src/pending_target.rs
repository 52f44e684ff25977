//! The target before it is recorded: launched and stopped, or running.

use super::attach;
use super::launch::{Caller, StoppedChild};
use super::process::TargetProcess;
use super::signals::Signals;
use super::{Subject, unexpected};
use profinfer_binary::PidNamespace;
use profinfer_diagnostics::Diagnostic;

/// The target before it is recorded.
pub(super) enum PendingTarget {
    /// Launched, and stopped before its first instruction.
    Launched(StoppedChild),
    /// It runs already.
    Running(TargetProcess),
}

impl PendingTarget {
    pub(super) fn find(
        subject: &Subject,
        environment: &[(String, String)],
        caller: Option<&Caller>,
        signals: &Signals,
        without_stdout: bool,
    ) -> Result<Self, Diagnostic> {
        match subject {
            Subject::Command(words) => {
                StoppedChild::new(words, environment, caller, signals.before(), without_stdout).map(Self::Launched)
            }
            Subject::Process(pid) => attach::attach(*pid).map(Self::Running),
        }
    }

    pub(super) fn pid(&self) -> i32 {
        match self {
            Self::Launched(child) => child.pid(),
            Self::Running(process) => process.pid(),
        }
    }

    pub(super) fn namespace(&self) -> Result<PidNamespace, Diagnostic> {
        let pid = self.pid().cast_unsigned();
        let namespace = match self {
            Self::Launched(_) => PidNamespace::of_child(pid),
            Self::Running(_) => PidNamespace::of(pid),
        };
        namespace.map_err(|error| match error.kind() {
            std::io::ErrorKind::PermissionDenied => attach::not_permitted(self.pid(), "its namespace cannot be read"),
            _ => unexpected("reading its namespace", &error),
        })
    }

    pub(super) fn may_signal(&self) -> bool {
        match self {
            Self::Launched(_) => true,
            Self::Running(process) => process.may_signal(),
        }
    }

    pub(super) fn start(self) -> Result<TargetProcess, Diagnostic> {
        match self {
            Self::Launched(child) => child.release(),
            Self::Running(process) => Ok(process),
        }
    }
}
