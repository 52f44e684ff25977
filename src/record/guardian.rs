//! A small process that outlives a recorder that is killed, to let the target run on if it is stopped just then. Nobody
//! else could: the recorder gets no chance to, and the kernel does not care.

use super::process::TargetProcess;
use nix::libc;
use nix::sys::signal::{SigSet, SigmaskHow, sigprocmask};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, fork};
use std::fs::File;
use std::io::{PipeWriter, Write};
use std::os::fd::{AsRawFd, RawFd};

/// How often the target is looked at after the recorder is gone: its last stop may still be on the way.
const LOOKS: u32 = 20;
/// Time between two looks, in microseconds.
const PAUSE_US: libc::c_uint = 50_000;

/// The guardian, as long as the recorder needs it.
#[derive(Debug)]
pub(super) struct Guardian {
    line: PipeWriter,
    pid: Pid,
}

impl Guardian {
    /// Starts a guardian for a process. Without one a recording works as well, so its failures are no problem.
    pub(super) fn of(process: &TargetProcess) -> Option<Self> {
        let status = File::open(format!("/proc/{}/stat", process.pid())).ok()?;
        let (listen, line) = std::io::pipe().ok()?;
        // SAFETY: the child makes nothing but system calls on plain memory, and never returns.
        match unsafe { fork() }.ok()? {
            ForkResult::Parent { child } => Some(Self { line, pid: child }),
            ForkResult::Child => guard(listen.as_raw_fd(), status.as_raw_fd(), process.pid()),
        }
    }
}

impl Drop for Guardian {
    /// Says that the recorder ends by itself, and has let the target run.
    fn drop(&mut self) {
        let _ = self.line.write_all(&[1]);
        let _ = waitpid(self.pid, None);
    }
}

/// The child: waits for a byte (all is well) or the line's end (the recorder is gone).
fn guard(listen: RawFd, status: RawFd, pid: i32) -> ! {
    // The terminal's signals are not for it.
    let _ = sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::all()), None);
    let mut byte = 0_u8;
    // SAFETY: plain system calls on descriptors that this process owns and on live local memory. All other
    // descriptors go: holding the recorder's would keep its probes attached and its pipes open.
    unsafe {
        libc::prctl(libc::PR_SET_NAME, c"profinfer-guard".as_ptr());
        if libc::dup2(listen, 100) < 0 || libc::dup2(status, 101) < 0 {
            libc::_exit(1);
        }
        libc::syscall(libc::SYS_close_range, 0, 99, 0);
        libc::syscall(libc::SYS_close_range, 102, libc::c_uint::MAX, 0);
        if libc::read(100, (&raw mut byte).cast(), 1) == 0 {
            for _ in 0..LOOKS {
                let mut text = [0_u8; 512];
                let length = libc::pread(101, text.as_mut_ptr().cast(), text.len(), 0);
                if length <= 0 {
                    break;
                }
                if is_stopped(&text) {
                    libc::kill(pid, libc::SIGCONT);
                }
                libc::usleep(PAUSE_US);
            }
        }
        libc::_exit(0)
    }
}

/// Whether `/proc/PID/stat` says `T` after the name, which may contain anything.
fn is_stopped(stat: &[u8]) -> bool {
    let Some(end) = stat.iter().rposition(|byte| *byte == b')') else { return false };
    stat.get(end + 2) == Some(&b'T')
}

#[cfg(test)]
mod tests {
    use super::super::process::state;
    use super::*;
    use nix::sys::signal::Signal;
    use std::process::Command;
    use std::time::{Duration, Instant};

    #[test]
    fn a_state_is_read_after_any_name() {
        assert!(is_stopped(b"7 (a) T 1 2"));
        assert!(!is_stopped(b"7 (T) S 1 2"));
        assert!(!is_stopped(b"7 (a) T) R 1"));
        assert!(!is_stopped(b"") && !is_stopped(b")"));
    }

    #[test]
    fn a_stopped_target_runs_on_when_the_recorder_is_gone() {
        let child = Command::new("sleep").arg("100").spawn().unwrap();
        let pid = child.id().cast_signed();
        let process = TargetProcess::of(pid, Some(child)).unwrap();
        let guardian = Guardian::of(&process).unwrap();
        process.signal(Signal::SIGSTOP);
        let wait = |wanted: bool| {
            let start = Instant::now();
            while (state(pid) == Some('T')) != wanted {
                assert!(start.elapsed() < Duration::from_secs(10));
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        wait(true);
        // What the recorder's death does: the line ends without a byte.
        let (line, guard) = (guardian.line.as_raw_fd(), guardian.pid);
        std::mem::forget(guardian);
        // SAFETY: the descriptor's owner was forgotten, so nobody else closes it.
        unsafe { libc::close(line) };
        wait(false);
        process.signal(Signal::SIGKILL);
        waitpid(guard, None).unwrap();
    }
}
