//! Attaching to a process that runs already: the checks.

use super::process::{TargetProcess, state};
use crate::bpf::features::{CAP_SYS_PTRACE, grant};
use nix::errno::Errno;
use profinfer_binary::ProcessStatus;
use profinfer_diagnostics::{Code, Diagnostic};
use std::io::{ErrorKind, Read};

/// Takes a running process for the target.
///
/// # Errors
/// R002 where there is no such process, or it is none that can be recorded; B005 where it is another user's.
pub(super) fn attach(pid: i32) -> Result<TargetProcess, Diagnostic> {
    let no_process = |message: String| Diagnostic::error(Code::NoSuchProcess, message);
    if pid.cast_unsigned() == std::process::id() {
        return Err(no_process(format!("process {pid} is profinfer itself")));
    }
    let process = TargetProcess::of(pid, None).map_err(|error| match (error, process_of_thread(pid)) {
        (_, Some(process)) if process != pid => no_process(format!("{pid} is a thread, no process"))
            .hint(format!("its process is {process}: `-p {process}`")),
        _ => no_process(format!("there is no process {pid}: {}", error.desc())).hint("`pgrep -a NAME` finds one"),
    })?;
    if state(pid) == Some('Z') {
        return Err(no_process(format!("process {pid} has ended; only its parent has not noticed yet")));
    }
    let mut first = [0];
    match std::fs::File::open(format!("/proc/{pid}/maps")).and_then(|mut maps| maps.read(&mut first)) {
        Ok(0) => Err(no_process(format!("process {pid} is the kernel's: it maps nothing"))),
        Ok(_) => Ok(process),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            Err(not_permitted(pid, "its mapped files cannot be read"))
        }
        Err(error) if error.raw_os_error() == Some(Errno::ESRCH as i32) => {
            Err(no_process(format!("process {pid} has just ended")))
        }
        Err(error) => Err(no_process(format!("process {pid} cannot be inspected: {error}"))),
    }
}

/// The problem of a process that this user may not inspect.
pub(super) fn not_permitted(pid: i32, what: &str) -> Diagnostic {
    let problem = Diagnostic::error(Code::Privilege, format!("process {pid} is another user's: {what}"));
    if CAP_SYS_PTRACE.is_granted() {
        return problem.hint("a security module forbids it; see `profinfer doctor`");
    }
    problem.with_note("missing: CAP_SYS_PTRACE").hint(grant(&[]))
}

fn process_of_thread(tid: i32) -> Option<i32> {
    ProcessStatus::read(tid.cast_unsigned()).ok().map(|status| status.tgid.cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_recorded_is_said() {
        let message = |pid| attach(pid).unwrap_err().message;
        assert!(message(i32::MAX - 1).contains("there is no process"));
        assert!(message(-1).contains("there is no process"));
        assert!(message(std::process::id().cast_signed()).contains("profinfer itself"));
        let (send, receive) = std::sync::mpsc::channel::<()>();
        let (tid, thread) = std::sync::mpsc::channel();
        let handle = std::thread::spawn(move || {
            tid.send(nix::unistd::gettid().as_raw()).unwrap();
            let _ = receive.recv();
        });
        let problem = attach(thread.recv().unwrap()).unwrap_err();
        assert!(problem.message.contains("is a thread"), "{}", problem.message);
        assert_eq!(problem.hint.unwrap(), format!("its process is {0}: `-p {0}`", std::process::id()));
        drop(send);
        handle.join().unwrap();
    }

    #[test]
    fn a_running_process_is_taken() {
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        assert_eq!(attach(child.id().cast_signed()).unwrap().pid(), child.id().cast_signed());
        child.kill().unwrap();
        while state(child.id().cast_signed()) != Some('Z') {
            std::thread::yield_now();
        }
        assert!(attach(child.id().cast_signed()).unwrap_err().message.contains("has ended"));
        child.wait().unwrap();
    }
}
