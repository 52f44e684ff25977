//! A small process that lets run on what the programs have stopped, where the recorder cannot: because it was killed, or
//! is itself stopped. Nobody else could: a killed recorder gets no chance to, and the kernel does not care.
//!
//! It has the maps of what was stopped open, and none of the recorder's other descriptors: with those open, the
//! probes would stay attached and the pipes open. After the fork it makes nothing but system calls on plain memory, none of
//! which is on the heap.

use super::blocking::Writes;
use super::clock;
use super::memory;
use super::process::{name_this_process, state};
use super::stops::{Pulse, Stops};
use libbpf_rs::libbpf_sys as sys;
use nix::errno::Errno;
use nix::libc;
use nix::sys::signal::{SigSet, SigmaskHow, sigprocmask};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};
use profinfer_diagnostics::{Code, Diagnostic};
use std::io::{PipeWriter, Write};
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Time between two polls while the recorder lives, and while it is gone or stopped: ms.
const CALM: libc::c_int = 400;
const ALARMED: libc::c_int = 10;
/// A recorder without a sign of life for this many ns is itself stopped: the programs' `PF_SILENCE`.
const SILENCE: u64 = 500_000_000;
/// How long it stays when the recorder has gone, and its probes with it: a last stop may still be on the way. ns.
const STAY: u64 = 1_000_000_000;
/// Processes inspected in one round, at most: twice as many as can be stopped.
const MOST: usize = 8192;

/// The guardian, as long as the recorder needs it.
#[derive(Debug)]
pub(super) struct Guardian {
    stops: Arc<Stops>,
    /// Dropped before the guardian is told that all is well: nothing is stopped any more by then.
    pulse: Option<Pulse>,
    line: PipeWriter,
    pid: Pid,
}

impl Guardian {
    /// Starts a guardian. From here on the programs may stop processes.
    ///
    /// # Errors
    /// X001: without one, a recorder that is killed would leave processes stopped.
    pub(super) fn start(stops: Stops, writes: Writes) -> Result<Self, Diagnostic> {
        let stops = Arc::new(stops);
        let failed = |error: &dyn std::fmt::Display| {
            Diagnostic::error(Code::Bug, format!("the guardian of stopped processes cannot be started: {error}"))
                .hint("allow this user more processes (`ulimit -u`)")
        };
        let (line, pid) = Self::launch(&stops).map_err(|error| failed(&error))?;
        let mut guardian = Self { stops, pulse: None, line, pid };
        guardian.pulse = Some(Pulse::start(&guardian.stops, writes).map_err(|error| failed(&error))?);
        Ok(guardian)
    }

    fn launch(stops: &Stops) -> std::io::Result<(PipeWriter, Pid)> {
        let (listen, line) = std::io::pipe()?;
        let recorder = pidfd(std::process::id())?;
        let [stopped, answered] = stops.descriptors();
        let post = Post { listen: listen.as_raw_fd(), recorder: recorder.as_raw_fd(), stopped, answered, stops };
        let (heap, stack) = (memory::heap(), memory::stack());
        // It finds its time namespace by files, once: not after the fork.
        clock::monotonic_ns();
        // SAFETY: the child makes nothing but system calls on plain memory, and never returns.
        match unsafe { fork() }? {
            ForkResult::Parent { child } => Ok((line, child)),
            ForkResult::Child => {
                // SAFETY: a copy that is never dropped, of a value that has nothing on the heap that is used here.
                let stops = ManuallyDrop::new(unsafe { std::ptr::read(stops) });
                let post = Post { stops: &stops, ..post };
                // The guardian would store each page that the recorder writes to afterwards.
                // SAFETY: nothing on the heap is used from here on.
                heap.inspect(|heap| unsafe { memory::discard(heap) });
                stack.inspect(memory::discard_unused_stack);
                guard(&post)
            }
        }
    }

    /// Starts another one if it has died.
    pub(super) fn restart_if_ended(&mut self) {
        let ended = waitpid(self.pid, Some(WaitPidFlag::WNOHANG));
        if !matches!(ended, Ok(WaitStatus::StillAlive))
            && let Ok((line, pid)) = Self::launch(&self.stops)
        {
            (self.line, self.pid) = (line, pid);
        }
    }

    pub(super) fn stops(&self) -> &Stops {
        &self.stops
    }

    /// Lets everything run on, and has nothing stopped any more.
    pub(super) fn rest(&mut self) {
        self.pulse = None;
    }
}

impl Drop for Guardian {
    /// Tells that the recorder ends by itself, and has let everything run.
    fn drop(&mut self) {
        self.rest();
        let _ = self.line.write_all(&[1]);
        let _ = waitpid(self.pid, None);
    }
}

fn pidfd(pid: u32) -> std::io::Result<OwnedFd> {
    // SAFETY: all arguments are plain numbers.
    let fd = Errno::result(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })?;
    let fd = i32::try_from(fd).map_err(|_| Errno::EBADF)?;
    // SAFETY: the call succeeded, so this is a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// What the guardian has of the recorder.
struct Post<'a> {
    /// A byte comes when all is well; the end when the recorder is gone, or going.
    listen: RawFd,
    /// Readable when it is gone for good, all its descriptors closed.
    recorder: RawFd,
    stopped: RawFd,
    answered: RawFd,
    stops: &'a Stops,
}

/// The child.
fn guard(post: &Post<'_>) -> ! {
    settle(post);
    let mut polled = [post.listen, post.recorder].map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
    let mut gone: Option<u64> = None;
    let mut alarmed = false;
    loop {
        let pause = if alarmed { ALARMED } else { CALM };
        // SAFETY: the array is alive, and its length is given.
        unsafe { libc::poll(polled.as_mut_ptr(), 2, pause) };
        let [listen, recorder] = &mut polled;
        if listen.revents != 0 {
            let mut byte = 0_u8;
            // SAFETY: one byte is read, into a live byte.
            if unsafe { libc::read(post.listen, (&raw mut byte).cast(), 1) } != 0 {
                // SAFETY: ends this process and runs nothing of the recorder's.
                unsafe { libc::_exit(0) };
            }
            listen.fd = -1; // its end was seen
        }
        if recorder.revents != 0 {
            recorder.fd = -1;
            gone = Some(now());
        }
        if listen.fd < 0 {
            // Nothing new is stopped from here on, however long its probes take to go.
            post.stops.beat().store(0, Ordering::SeqCst);
        }
        let last = post.stops.beat().load(Ordering::SeqCst);
        let dying = listen.fd < 0 || gone.is_some();
        alarmed = dying || clock::monotonic_ns().saturating_sub(last) > SILENCE;
        if alarmed {
            // At its end the recorder continues all, and has nothing more to inspect.
            continue_all(post, !dying && last > 0);
            post.stops.wrappers().poll();
        }
        if gone.is_some_and(|since| now().saturating_sub(since) > STAY) && !post.stops.wrappers().any() {
            // SAFETY: as above.
            unsafe { libc::_exit(0) };
        }
    }
}

/// Becomes a separate process: the terminal's signals, and those for the recorder's group, are not for it.
fn settle(post: &Post<'_>) {
    let _ = sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::all()), None);
    let mut open = [post.listen, post.recorder, post.stopped, post.answered].map(i32::cast_unsigned);
    open.sort_unstable();
    name_this_process(c"profinfer-guard");
    // SAFETY: plain system calls on numbers, live local memory and descriptors of this process.
    unsafe {
        libc::setpgid(0, 0);
        let mut next = 0;
        for fd in open {
            if fd > next {
                libc::syscall(libc::SYS_close_range, next, fd - 1, 0);
            }
            next = fd + 1;
        }
        libc::syscall(libc::SYS_close_range, next, libc::c_uint::MAX, 0);
        // Whoever runs out of memory: this is not what takes it. It needs a privilege that may be missing.
        let score = libc::open(c"/proc/self/oom_score_adj".as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        if score >= 0 {
            libc::write(score, c"-1000".as_ptr().cast(), 5);
            libc::close(score);
        }
    }
}

/// Continues what was stopped and has had no answer. `counted`: the recorder lives, and must count what it has
/// not inspected.
fn continue_all(post: &Post<'_>, counted: bool) {
    let mut last: Option<u32> = None;
    for _ in 0..MOST {
        let before = last.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let mut next = 0_u32;
        // SAFETY: the map's keys are of four bytes, which is what both pointers lead to.
        if unsafe { sys::bpf_map_get_next_key(post.stopped, before.cast(), (&raw mut next).cast()) } != 0 {
            return;
        }
        continue_one(post, next, counted);
        last = Some(next);
    }
}

fn continue_one(post: &Post<'_>, pid: u32, counted: bool) {
    let Some(since) = value(post.stopped, pid) else { return };
    if value(post.answered, pid) == Some(since) {
        return;
    }
    let state = state(pid.cast_signed());
    match state {
        // Its signal is still on the way: the next poll is for it.
        Some('R' | 'S') => return,
        None => {}
        // Its first thread may have ended, or wait for another process, while others are stopped.
        Some(_) => {
            post.stops.wrappers().watch(pid.cast_signed());
            // SAFETY: plain numbers; a process's number, and no group's.
            unsafe { libc::kill(pid.cast_signed().max(1), libc::SIGCONT) };
        }
    }
    if counted {
        post.stops.released().fetch_add(1, Ordering::SeqCst);
    }
    if counted || matches!(state, None | Some('T' | 't')) {
        // SAFETY: the map's keys are of four bytes and its values of eight, as these are.
        unsafe {
            sys::bpf_map_update_elem(post.answered, (&raw const pid).cast(), (&raw const since).cast(), 0);
        }
    }
}

fn value(map: RawFd, pid: u32) -> Option<u64> {
    let mut value = 0_u64;
    // SAFETY: the map's keys are of four bytes and its values of eight, as these are.
    let found = unsafe { sys::bpf_map_lookup_elem(map, (&raw const pid).cast(), (&raw mut value).cast()) };
    (found == 0).then_some(value)
}

/// The clock of the guardian, ns.
fn now() -> u64 {
    clock::local_ns().cast_unsigned()
}
