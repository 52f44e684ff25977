//! Return probes and seccomp. On x86-64 since Linux 6.11, a probed function returns through a system call (`uretprobe`). A
//! filter that does not allow it sends the target to a wrong place, and it crashes. Since 6.14, and in older kernels with
//! that fix, filters do not see the call.

use nix::libc;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};
use profinfer_diagnostics::{Code, Diagnostic};
use std::sync::OnceLock;

/// The number of `uretprobe`.
const URETPROBE: u32 = 335;
/// What a trial exits with where the call failed as a call that does not exist, and as the filter has it.
const DOES_NOT_EXIST: i32 = 1;
const IS_FILTERED: i32 = 2;

/// Whether returns of a process can be probed.
///
/// # Errors
/// B004 where it has a filter, and filters see return probes.
pub(super) fn check(pid: i32) -> Result<(), Diagnostic> {
    static VISIBLE: OnceLock<bool> = OnceLock::new();
    if !has_filter(pid) || !*VISIBLE.get_or_init(filters_see_returns) {
        return Ok(());
    }
    let message = format!("process {pid} has a seccomp filter, which would end it at its first probed return");
    Err(Diagnostic::error(Code::KernelFeature, message)
        .with_note(
            "Linux 6.11 to 6.13: filters see the system call of return probes; 6.14 has the correction".to_owned(),
        )
        .hint("update the kernel, or start the target without the filter (`--security-opt seccomp=unconfined`)"))
}

/// Whether any thread has a filter: each has its own, and one may have been set for a worker alone.
fn has_filter(pid: i32) -> bool {
    let filters =
        |status: String| status.lines().filter_map(|line| line.strip_prefix("Seccomp:")).any(|mode| mode.trim() == "2");
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("status")).ok()).any(filters)
}

/// Tries the call in processes of its own. Outside of a return probe the kernel answers it with SIGILL.
fn filters_see_returns() -> bool {
    let exists = || matches!(trial(false), Some(WaitStatus::Signaled(_, Signal::SIGILL, _)));
    cfg!(target_arch = "x86_64") && exists() && matches!(trial(true), Some(WaitStatus::Exited(_, IS_FILTERED)))
}

fn trial(with_filter: bool) -> Option<WaitStatus> {
    // SAFETY: the child makes nothing but system calls on plain memory, and never returns.
    match unsafe { fork() }.ok()? {
        ForkResult::Parent { child } => waitpid(child, None).ok(),
        // SAFETY: as above.
        ForkResult::Child => unsafe { call(with_filter) },
    }
}

/// Makes the call, under a filter that refuses it or not.
///
/// # Safety
/// To be called in a process of its own, which ends.
unsafe fn call(with_filter: bool) -> ! {
    let instruction = |code: u16, jf: u8, k: u32| libc::sock_filter { code, jt: 0, jf, k };
    // The call's number is loaded and compared.
    let mut program = [
        instruction(0x20, 0, 0),
        instruction(0x15, 1, URETPROBE),
        instruction(0x06, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM.unsigned_abs()),
        instruction(0x06, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog { len: 4, filter: program.as_mut_ptr() };
    // SAFETY: plain numbers, and a filter that outlives the call. A process that may not be dumped leaves no core.
    unsafe {
        libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0);
        libc::signal(libc::SIGILL, libc::SIG_DFL);
        if with_filter {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            if libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) != 0 {
                libc::_exit(0);
            }
        }
        libc::syscall(libc::c_long::from(URETPROBE));
        libc::_exit(match *libc::__errno_location() {
            libc::ENOSYS => DOES_NOT_EXIST,
            libc::EPERM => IS_FILTERED,
            _ => 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel of this machine does is not for a test to say, but that the trials find it out.
    #[test]
    fn trials_end_in_one_of_the_ways_that_kernels_have() {
        let ended = |with_filter| match trial(with_filter) {
            Some(WaitStatus::Exited(_, code)) => code,
            Some(WaitStatus::Signaled(_, Signal::SIGILL, false)) => -1,
            other => panic!("{other:?}"),
        };
        let ways = (ended(false), ended(true));
        // Older than 6.11, 6.11 to 6.13, and newer ones.
        assert!(matches!(ways, (DOES_NOT_EXIST, IS_FILTERED) | (-1, IS_FILTERED | -1)), "{ways:?}");
        assert_eq!(filters_see_returns(), ways == (-1, IS_FILTERED));
        assert!(!has_filter(i32::MAX));
    }

    /// Without `SECCOMP_FILTER_FLAG_TSYNC` the other threads, the first one among them, have none.
    #[test]
    fn a_filter_of_one_thread_is_found() {
        let (begun, begins) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let mut program = [libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: libc::SECCOMP_RET_ALLOW }];
            let filter = libc::sock_fprog { len: 1, filter: program.as_mut_ptr() };
            // SAFETY: plain numbers, and a filter that outlives the call; it allows everything, to this thread alone.
            let set = unsafe {
                libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
                libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter)
            };
            begun.send(set).unwrap();
            let _ = ended.recv();
        });
        assert_eq!(begins.recv(), Ok(0));
        assert!(has_filter(std::process::id().cast_signed()));
        drop(end);
        thread.join().unwrap();
    }
}
