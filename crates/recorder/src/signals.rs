//! The signals that end a recording, taken one by one instead of ending this program.

use nix::libc;
use nix::sys::signal::{SigHandler, SigSet, SigmaskHow, Signal, pthread_sigmask, signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// This program was started so that the end of children is ignored.
static IGNORED_CHILDREN: AtomicBool = AtomicBool::new(false);

/// Has the kernel tell how children end, where this program was started with that ignored: nobody could wait for a compiler
/// or a command. To be called before there are any.
pub fn heed_children() {
    // SAFETY: no handler of this program's is set.
    let before = unsafe { signal(Signal::SIGCHLD, SigHandler::SigDfl) };
    IGNORED_CHILDREN.store(matches!(before, Ok(SigHandler::SigIgn)), Ordering::SeqCst);
}

/// A command is about to be run: it is started as this program was. Allocates nothing.
pub(super) fn restore_for_command() {
    if IGNORED_CHILDREN.load(Ordering::SeqCst) {
        // SAFETY: as above.
        let _ = unsafe { signal(Signal::SIGCHLD, SigHandler::SigIgn) };
    }
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
        let blocked: SigSet = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().collect();
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
        let info = self.arrived.read_signal().ok().flatten()?;
        let signal = Signal::try_from(i32::try_from(info.ssi_signo).ok()?).ok()?;
        Some(Arrived { signal, to_all: info.ssi_code == libc::SI_KERNEL })
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
    use super::*;

    #[test]
    fn a_signal_is_taken_and_not_died_of() {
        let signals = Signals::block().unwrap();
        assert_eq!(signals.next(), None);
        nix::sys::signal::raise(Signal::SIGHUP).unwrap();
        assert_eq!(signals.next(), Some(Arrived { signal: Signal::SIGHUP, to_all: false }));
        assert_eq!(signals.next(), None);
    }
}
