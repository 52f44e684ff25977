//! A fork server for recorders: a process that is forked from this one and forks each recorder. Recorders share what it
//! has in memory, such as pages that the dynamic linker has written to and the disassembler's tables.

use super::active_recorders;
use super::process::name_this_process;
use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigHandler, SigSet, SigmaskHow, Signal, kill, signal, sigprocmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, recvmsg, sendmsg, socketpair,
};
use nix::unistd::{ForkResult, Pid, dup2_stderr, dup2_stdin, dup2_stdout, fork, setpgid};
use profinfer_compiler::load_disassembler;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, PipeReader, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How long a recorder's start is waited for, ms.
const PATIENCE: u16 = 2000;
/// Bytes of a request at most: a recorder's words are options, a process's number and paths of probesets.
const LARGEST_REQUEST: usize = 128 << 10;
/// A request begins with what is asked for, and the recorder's number.
const HEADER: usize = 9;
const START: u8 = b's';
const SIGNAL: u8 = b'k';

/// The fork server, as long as this lives.
#[derive(Debug)]
pub struct ForkServer {
    requests: OwnedFd,
    next: AtomicU64,
}

/// A recorder that the fork server has started.
#[derive(Debug)]
pub struct ForkedRecorder {
    server: Arc<ForkServer>,
    number: u64,
    /// The exit status comes here; its end without one if the server has died.
    ending: PipeReader,
    status: Option<ExitStatus>,
}

impl ForkServer {
    /// Forks the server. `run` is called in each recorder, with its words, and ends that process.
    ///
    /// # Errors
    /// There are no processes or descriptors left, or this process has several threads: of what the others have locked, a
    /// recorder could use nothing.
    pub fn start(run: fn(Vec<OsString>) -> !) -> io::Result<Arc<Self>> {
        if std::fs::read_dir("/proc/self/task")?.count() != 1 {
            return Err(io::Error::other("it has several threads"));
        }
        let none = SockFlag::SOCK_CLOEXEC;
        let (requests, theirs) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, none)?;
        load_disassembler();
        active_recorders::share()?;
        // SAFETY: there is one thread, so that the child may use all that this process may.
        match unsafe { fork() }? {
            ForkResult::Parent { .. } => Ok(Arc::new(Self { requests, next: AtomicU64::new(0) })),
            ForkResult::Child => {
                drop(requests);
                name_this_process(c"profinfer-fork");
                let code = i32::from(serve(&theirs, run).is_err());
                // SAFETY: nothing is left to be done in this process.
                unsafe { libc::_exit(code) }
            }
        }
    }

    /// Starts a recorder in a process group of its own: its words, and where its output goes.
    ///
    /// # Errors
    /// The server does not run, or gets no process.
    pub fn recorder(
        self: &Arc<Self>,
        words: &[OsString],
        stdout: BorrowedFd<'_>,
        stderr: BorrowedFd<'_>,
    ) -> io::Result<ForkedRecorder> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (mut ending, status) = io::pipe()?;
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        self.request(START, number, &words.join(&0), &[stdout, stderr, status.as_fd()])?;
        drop(status);
        // A byte for that it runs. A server that is stopped sends none: what it starts later ends by itself, as nobody
        // reads its trace.
        let mut polled = [PollFd::new(ending.as_fd(), PollFlags::POLLIN)];
        if poll(&mut polled, PATIENCE)? == 0 {
            return Err(Errno::ETIMEDOUT.into());
        }
        ending.read_exact(&mut [0])?;
        Ok(ForkedRecorder { server: Arc::clone(self), number, ending, status: None })
    }

    fn request(&self, what: u8, number: u64, rest: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        if HEADER + rest.len() > LARGEST_REQUEST {
            return Err(Errno::E2BIG.into());
        }
        let header: Vec<u8> = std::iter::once(what).chain(number.to_ne_bytes()).collect();
        let descriptors: Vec<i32> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
        let message = [ControlMessage::ScmRights(&descriptors)];
        let message = if descriptors.is_empty() { &[][..] } else { &message };
        let parts = [IoSlice::new(&header), IoSlice::new(rest)];
        // One that is stopped takes no more at some time.
        let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
        sendmsg::<()>(self.requests.as_raw_fd(), &parts, message, flags, None)?;
        Ok(())
    }
}

impl ForkedRecorder {
    /// Sends it a signal; nothing if it has ended.
    pub fn signal(&self, signal: Signal) {
        // Its parent sends it, which knows whether the process is still the same.
        let _ = self.server.request(SIGNAL, self.number, &(signal as i32).to_ne_bytes(), &[]);
    }

    /// Its exit status if it has ended.
    pub fn try_wait(&mut self) -> Option<ExitStatus> {
        let mut polled = [PollFd::new(self.ending.as_fd(), PollFlags::POLLIN)];
        if self.status.is_none() && poll(&mut polled, PollTimeout::ZERO).is_ok_and(|ready| ready > 0) {
            self.status = Some(self.read_status());
        }
        self.status
    }

    /// Waits until it has ended.
    pub fn wait(&mut self) -> ExitStatus {
        if let Some(status) = self.status {
            return status;
        }
        let status = self.read_status();
        self.status = Some(status);
        status
    }

    fn read_status(&mut self) -> ExitStatus {
        let mut status = [0; 4];
        let is_there = self.ending.read_exact(&mut status).is_ok();
        ExitStatus::from_raw(if is_there { i32::from_ne_bytes(status) } else { libc::SIGKILL })
    }
}

/// A request as it arrives.
enum Request {
    Start {
        number: u64,
        words: Vec<OsString>,
        stdout: OwnedFd,
        stderr: OwnedFd,
        ending: OwnedFd,
    },
    Signal {
        number: u64,
        signal: Signal,
    },
    /// The process that asks has ended.
    End,
}

/// A recorder that runs, and where its exit status goes.
struct Running {
    pid: Pid,
    ending: File,
}

/// The server: until nobody asks any more.
fn serve(requests: &OwnedFd, run: fn(Vec<OsString>) -> !) -> io::Result<()> {
    let mut before = SigSet::empty();
    // What ends the asking process leaves this one: it ends when the other has ended all recorders.
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::all()), Some(&mut before))?;
    let children =
        SignalFd::with_flags(&SigSet::from(Signal::SIGCHLD), SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
    let (server, mut running) = (Pid::this(), BTreeMap::<u64, Running>::new());
    loop {
        let mut polled =
            [PollFd::new(requests.as_fd(), PollFlags::POLLIN), PollFd::new(children.as_fd(), PollFlags::POLLIN)];
        match poll(&mut polled, PollTimeout::NONE) {
            Err(Errno::EINTR) => continue,
            other => other?,
        };
        let is_asked = polled.first().and_then(PollFd::any).unwrap_or(false);
        while let Ok(Some(_)) = children.read_signal() {}
        report_ended(&mut running);
        if !is_asked {
            continue;
        }
        match receive(requests)? {
            None => {}
            Some(Request::End) => return Ok(()),
            Some(Request::Signal { number, signal }) => {
                // It is not waited for yet, so that its number is no other process's.
                let _ = running.get(&number).map(|recorder| kill(recorder.pid, signal));
            }
            Some(Request::Start { number, words, stdout, stderr, ending }) => {
                // SAFETY: there is one thread, so that the child may use all that this process may.
                match unsafe { fork() } {
                    // The end of `ending` without a byte tells of it.
                    Err(_) => {}
                    Ok(ForkResult::Parent { child }) => {
                        let mut ending = File::from(ending);
                        let _ = ending.write_all(&[0]);
                        running.insert(number, Running { pid: child, ending });
                    }
                    Ok(ForkResult::Child) => {
                        let is_ready = become_recorder(server, &before, stdout, stderr);
                        active_recorders::enter(number);
                        running.clear();
                        drop((ending, children));
                        // SAFETY: its owner is not used any more, as `run` does not return.
                        unsafe { libc::close(requests.as_raw_fd()) };
                        if is_ready.is_err() {
                            // SAFETY: nothing was begun.
                            unsafe { libc::_exit(1) };
                        }
                        run(words)
                    }
                }
            }
        }
    }
}

/// In the recorder: what a program that was started would have.
fn become_recorder(server: Pid, signals: &SigSet, stdout: OwnedFd, stderr: OwnedFd) -> io::Result<()> {
    name_this_process(c"profinfer-rec");
    // Nobody could end it, or know how it ended.
    // SAFETY: all arguments are plain numbers.
    Errno::result(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) })?;
    if Pid::parent() != server {
        return Err(io::Error::other("the fork server has ended"));
    }
    // The terminal's signals are for the asking process, which passes them on.
    setpgid(Pid::from_raw(0), Pid::from_raw(0))?;
    // In the background of a terminal (`stty tostop`) a message would stop it.
    // SAFETY: no handler of this program's is set.
    unsafe { signal(Signal::SIGTTOU, SigHandler::SigIgn) }?;
    dup2_stdin(File::open("/dev/null")?)?;
    dup2_stdout(stdout)?;
    dup2_stderr(stderr)?;
    Ok(sigprocmask(SigmaskHow::SIG_SETMASK, Some(signals), None)?)
}

/// Waits for recorders that have ended, and tells how.
fn report_ended(running: &mut BTreeMap<u64, Running>) {
    loop {
        let mut status = 0;
        // SAFETY: it writes one number.
        let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
        if pid <= 0 {
            return;
        }
        let ended = running.iter().find(|(_, recorder)| recorder.pid.as_raw() == pid).map(|(number, _)| *number);
        if let Some(mut recorder) = ended.and_then(|number| running.remove(&number)) {
            let _ = recorder.ending.write_all(&status.to_ne_bytes());
        }
    }
}

/// The next request; `None` for one that nobody of this program sends.
fn receive(requests: &OwnedFd) -> io::Result<Option<Request>> {
    let mut bytes = vec![0; LARGEST_REQUEST];
    let mut space = nix::cmsg_space!([i32; 3]);
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let flags = MsgFlags::MSG_CMSG_CLOEXEC;
    let received = match recvmsg::<()>(requests.as_raw_fd(), &mut parts, Some(&mut space), flags) {
        Err(Errno::EINTR) => return Ok(None),
        other => other?,
    };
    let mut descriptors = Vec::new();
    for message in received.cmsgs()? {
        if let ControlMessageOwned::ScmRights(received) = message {
            // SAFETY: the kernel has just made them, for this process alone.
            descriptors.extend(received.into_iter().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }));
        }
    }
    let length = received.bytes;
    Ok(if length == 0 { Some(Request::End) } else { decode(bytes.get(..length).unwrap_or_default(), descriptors) })
}

fn decode(bytes: &[u8], descriptors: Vec<OwnedFd>) -> Option<Request> {
    let (header, rest) = bytes.split_at_checked(HEADER)?;
    let number = u64::from_ne_bytes(header.get(1..)?.try_into().ok()?);
    match *header.first()? {
        START => {
            let words = rest.split(|byte| *byte == 0).map(|word| OsStr::from_bytes(word).to_owned()).collect();
            let [stdout, stderr, ending] = descriptors.try_into().ok()?;
            Some(Request::Start { number, words, stdout, stderr, ending })
        }
        SIGNAL => {
            let signal = Signal::try_from(i32::from_ne_bytes(rest.try_into().ok()?)).ok()?;
            Some(Request::Signal { number, signal })
        }
        _ => None,
    }
}
