//! The signals that end a recording, taken one by one instead of ending this program.

use nix::libc;
use nix::sys::signal::{SigHandler, SigSet, SigmaskHow, Signal, pthread_sigmask, signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

/// The signals that this program was started with ignored: a bit each, by number.
static IGNORED: AtomicU64 = AtomicU64::new(0);

/// Those that this program does not leave as they were.
const RESTORED: [Signal; 2] = [Signal::SIGCHLD, Signal::SIGPIPE];

/// Before `main`: the standard library ignores SIGPIPE there, and what it was before is lost.
// SAFETY: the section is of pointers to functions that the loader calls; this one is such, and needs nothing of the library.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = note_ignored;

extern "C" fn note_ignored() {
    for of in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGPIPE, Signal::SIGCHLD] {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: it only writes what is set into `action`, of which all bytes may be zero.
        let action = unsafe {
            libc::sigaction(of as libc::c_int, std::ptr::null(), action.as_mut_ptr());
            action.assume_init()
        };
        if action.sa_sigaction == libc::SIG_IGN {
            IGNORED.fetch_or(1 << of as u32, Ordering::SeqCst);
        }
    }
}

fn was_ignored(signal: Signal) -> bool {
    IGNORED.load(Ordering::SeqCst) & (1 << signal as u32) != 0
}

/// Has the kernel tell how children end, where this program was started with that ignored: nobody could wait for a compiler
/// or a command. To be called before there are any.
pub fn heed_children() {
    // SAFETY: no handler of this program's is set.
    let _ = unsafe { signal(Signal::SIGCHLD, SigHandler::SigDfl) };
}

/// A command is about to be run: it is started as this program was. For the child, after the standard library has set SIGPIPE
/// to its default. Allocates nothing.
pub(super) fn restore_for_command() {
    for ignored in RESTORED.into_iter().filter(|signal| was_ignored(*signal)) {
        // SAFETY: as above.
        let _ = unsafe { signal(ignored, SigHandler::SigIgn) };
    }
}

/// Has another recorder be started as this program was, since the command that it launches is to be.
pub fn start_alike(command: &mut Command) {
    // Otherwise it is made in the way that copies no memory.
    if RESTORED.into_iter().any(was_ignored) {
        let restore = || {
            restore_for_command();
            Ok(())
        };
        // SAFETY: it only makes system calls and allocates nothing.
        unsafe { command.pre_exec(restore) };
    }
}

/// The signals that end this program. One that was ignored when it began, as by `nohup`, ends nothing. SIGINT is among them
/// all the same: a shell's script has what it runs in the background ignore it, and means the terminal's ([`is_meant`]).
pub fn ending_signals() -> SigSet {
    let all = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];
    all.into_iter().filter(|signal| *signal == Signal::SIGINT || !was_ignored(*signal)).collect()
}

/// Whether a signal that arrived is for this program: not the terminal's SIGINT, where that is ignored. `code`: who sent it.
pub fn is_meant(signal: Signal, code: i32) -> bool {
    !(signal == Signal::SIGINT && code == libc::SI_KERNEL && was_ignored(signal))
}

/// Signals blocked while this lives. Threads that are made meanwhile block them as well.
#[derive(Debug)]
pub(super) struct Signals {
    before: SigSet,
    arrived: SignalFd,
}

/// A signal that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Arrived {
    pub(super) signal: Signal,
    /// It came from the terminal, which sent it to the target as well.
    pub(super) to_all: bool,
}

impl Signals {
    pub(super) fn block() -> nix::Result<Self> {
        let blocked = ending_signals();
        let mut before = SigSet::empty();
        pthread_sigmask(SigmaskHow::SIG_BLOCK, Some(&blocked), Some(&mut before))?;
        let arrived = SignalFd::with_flags(&blocked, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        Ok(Self { before, arrived })
    }

    /// The mask from before, for a program that is launched.
    pub(super) fn before(&self) -> SigSet {
        self.before
    }

    /// Readable once one has arrived.
    pub(super) fn arrived(&self) -> BorrowedFd<'_> {
        self.arrived.as_fd()
    }

    /// The next one, if one has arrived.
    pub(super) fn next(&self) -> Option<Arrived> {
        loop {
            let info = self.arrived.read_signal().ok().flatten()?;
            let signal = Signal::try_from(i32::try_from(info.ssi_signo).ok()?).ok()?;
            if is_meant(signal, info.ssi_code) {
                return Some(Arrived { signal, to_all: info.ssi_code == libc::SI_KERNEL });
            }
        }
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        while self.next().is_some() {} // answered by now, or of no more meaning
        let _ = pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&self.before), None);
    }
}

#[cfg(test)]
mod tests {
    use super::super::launch::StoppedChild;
    use super::super::process::Ending;
    use super::*;
    use nix::sys::signal::raise;
    use std::ffi::OsString;
    use std::time::Duration;

    #[test]
    fn a_signal_is_taken_and_not_died_of() {
        let signals = Signals::block().unwrap();
        assert_eq!(signals.next(), None);
        raise(Signal::SIGTERM).unwrap();
        assert_eq!(signals.next(), Some(Arrived { signal: Signal::SIGTERM, to_all: false }));
        assert_eq!(signals.next(), None);
    }

    /// Where the test below runs itself: what was ignored at the start.
    const STARTED: &str = "PROFINFER_TEST_STARTED_WITH";

    #[test]
    fn what_was_ignored_at_the_start_stays_ignored() {
        if let Some(ignored) = std::env::var_os(STARTED) {
            return stays_as_it_was_started(ignored == "ignored");
        }
        // `env`: a shell cannot stop ignoring what it was started with ignored.
        for (how, started) in [("--ignore-signal", "ignored"), ("--default-signal", "default")] {
            let mut within = Command::new("env");
            within.arg(format!("{how}=INT,HUP,PIPE,CHLD")).arg(std::env::current_exe().unwrap());
            within.args(["--exact", "signals::tests::what_was_ignored_at_the_start_stays_ignored"]);
            let output = within.env(STARTED, started).output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && text.contains("1 passed"), "{started}: {text}");
        }
    }

    fn stays_as_it_was_started(is_ignored: bool) {
        heed_children();
        assert_eq!(is_meant(Signal::SIGINT, libc::SI_KERNEL), !is_ignored);
        assert!(is_meant(Signal::SIGINT, libc::SI_USER) && is_meant(Signal::SIGTERM, libc::SI_KERNEL));
        let signals = Signals::block().unwrap();
        let hangup = (!is_ignored).then_some(Arrived { signal: Signal::SIGHUP, to_all: false });
        raise(Signal::SIGHUP).unwrap();
        assert_eq!(signals.next(), hangup);
        raise(Signal::SIGINT).unwrap();
        assert_eq!(signals.next(), Some(Arrived { signal: Signal::SIGINT, to_all: false }));
        let folder = tempfile::tempdir().unwrap();
        let status = folder.path().join("status");
        let words = ["sh", "-c", "cat /proc/self/status > \"$0\"", status.to_str().unwrap()].map(OsString::from);
        let child = StoppedChild::new(&words, &[], None, signals.before(), false).unwrap();
        assert_eq!(child.release().unwrap().ending(Duration::from_secs(10)), Some(Ending::Exited(0)));
        let mut alike = Command::new("cat");
        start_alike(alike.arg("/proc/self/status"));
        let alike = String::from_utf8(alike.output().unwrap().stdout).unwrap();
        for status in [std::fs::read_to_string(status).unwrap(), alike] {
            let bits = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
            let bits = u64::from_str_radix(bits.trim(), 16).unwrap();
            for signal in [Signal::SIGINT, Signal::SIGHUP, Signal::SIGPIPE] {
                assert_eq!(bits >> (signal as u32 - 1) & 1 == 1, is_ignored, "{signal}: {status}");
            }
        }
    }
}
