//! The process that is recorded: its end, and its being stopped and continued. It is never left stopped.

use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use profinfer_binary::{PidNamespace, ProcessStat, ProcessStatus};
use std::ffi::CStr;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::Child;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// How a process ended, as far as its parent alone can know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// With an exit code.
    Exited(i32),
    /// By a signal.
    Killed(i32),
    /// It is not our child: nobody tells us.
    Unknown,
}

/// The recorded process.
#[derive(Debug)]
pub struct TargetProcess {
    pid: i32,
    /// Readable when the process has ended; does not change its meaning when the number is used again.
    handle: OwnedFd,
    child: Option<Child>,
}

impl TargetProcess {
    /// A process by its number.
    ///
    /// # Errors
    /// `ESRCH` where there is none, `EINVAL` where it is a thread and no process.
    pub(super) fn of(pid: i32, child: Option<Child>) -> nix::Result<Self> {
        Ok(Self { pid, handle: open_pidfd(pid)?, child })
    }

    /// Its number in the recorder's pid namespace.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Whether it was launched by this program.
    pub fn launched(&self) -> bool {
        self.child.is_some()
    }

    pub(super) fn adopt(&mut self, child: Child) {
        self.child = Some(child);
    }

    /// Readable once it has ended.
    pub(super) fn ended(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }

    /// How it ended, if it has; waits for that up to a time.
    pub fn ending(&mut self, wait: Duration) -> Option<Ending> {
        if let Some(child) = &mut self.child {
            let wait = PollTimeout::try_from(wait).unwrap_or(PollTimeout::MAX);
            let _ = poll(&mut [PollFd::new(self.handle.as_fd(), PollFlags::POLLIN)], wait);
            let status = match child.try_wait() {
                Ok(status) => status?,
                // Where SIGCHLD is ignored, as some parents pass it on, nobody learns how a child ended.
                Err(_) => return Some(Ending::Unknown),
            };
            let killed = status.signal().map(Ending::Killed);
            return killed.or_else(|| status.code().map(Ending::Exited)).or(Some(Ending::Unknown));
        }
        let wait = PollTimeout::try_from(wait).unwrap_or(PollTimeout::MAX);
        let mut handles = [PollFd::new(self.handle.as_fd(), PollFlags::POLLIN)];
        (poll(&mut handles, wait).unwrap_or(0) > 0).then_some(Ending::Unknown)
    }

    /// Ends it with all that it has launched, if it was launched by this program and still runs: by asking, then by force.
    pub fn end(&mut self) {
        const GRACE: Duration = Duration::from_secs(3);
        if !self.launched() || self.ending(Duration::ZERO).is_some() {
            return;
        }
        // Before the first one ends: what it leaves behind is nobody's then.
        let mut descendants: Vec<Self> = self.family().filter(|process| process.pid != self.pid).collect();
        for signal in [Signal::SIGTERM, Signal::SIGKILL] {
            self.signal(signal);
            descendants.iter().for_each(|process| process.signal(signal));
            let until = Instant::now() + GRACE;
            let ends = |process: &mut Self| process.ending(until.saturating_duration_since(Instant::now())).is_some();
            if ends(self) && descendants.iter_mut().all(ends) {
                return;
            }
        }
    }

    /// Kills it with all that it has launched.
    pub(super) fn kill(&self) {
        self.family().for_each(|process| process.signal(Signal::SIGKILL));
    }

    /// It, if it is still there, and all its descendants.
    fn family(&self) -> impl Iterator<Item = Self> {
        family(self.pid).into_iter().filter_map(|pid| Self::of(pid, None).ok())
    }

    /// Sends a signal, if the process is still there.
    pub(super) fn signal(&self, signal: Signal) {
        let _ = self.send(signal as i32);
    }

    /// Whether a signal can be sent to it: what may not be continued must not be stopped.
    pub(super) fn may_signal(&self) -> bool {
        self.send(0) != Err(Errno::EPERM)
    }

    /// A pidfd reaches the very process, not one that got its number since.
    fn send(&self, signal: i32) -> nix::Result<()> {
        let (process, no_info) = (self.handle.as_raw_fd(), std::ptr::null::<libc::siginfo_t>());
        // SAFETY: all arguments are plain numbers; no siginfo is given.
        let result = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, process, signal, no_info, 0) };
        Errno::result(result).map(drop)
    }
}

fn open_pidfd(pid: i32) -> nix::Result<OwnedFd> {
    // SAFETY: all arguments are plain numbers.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    let fd = i32::try_from(Errno::result(fd)?).map_err(|_| Errno::EBADF)?;
    // SAFETY: the call succeeded, so this is a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// What tools for processes show of this one: its command line is that of the process that was forked. For a child: it
/// allocates nothing.
pub(super) fn name_this_process(name: &CStr) {
    // SAFETY: it reads the name.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

/// The state letter of a process or thread: `T` is stopped, `Z` has ended.
pub(super) fn state(pid: i32) -> Option<char> {
    Some(state_and_parent(pid)?.0)
}

/// The parent of a process.
pub(super) fn parent(pid: i32) -> Option<i32> {
    Some(state_and_parent(pid)?.1)
}

/// State and parent, of `/proc/PID/stat`. Allocates nothing, for the guardian, which is a fork of a program with threads.
fn state_and_parent(pid: i32) -> Option<(char, i32)> {
    let mut path = [0_u8; 32];
    // It fits: eleven bytes of text, eleven of a number.
    write!(path.as_mut_slice(), "/proc/{pid}/stat").ok()?;
    let mut text = [0_u8; 512];
    // SAFETY: the path ends with a zero, and the text's length is given.
    let length = unsafe {
        let file = libc::open(path.as_ptr().cast(), libc::O_RDONLY | libc::O_CLOEXEC);
        if file < 0 {
            return None;
        }
        let length = libc::read(file, text.as_mut_ptr().cast(), text.len());
        libc::close(file);
        length
    };
    parse_stat(text.get(..usize::try_from(length).ok()?)?)
}

/// Whether a shell waits for it as its job in the foreground of a terminal. Such a shell takes the terminal back once the
/// job is stopped, and it stays in the background when it is continued.
pub(super) fn is_foreground_job(pid: i32) -> bool {
    let stat_of = |pid: i32| ProcessStat::read(pid.cast_unsigned());
    let Some(job) = stat_of(pid) else { return false };
    let shell = || parent(pid).and_then(stat_of);
    job.group == job.foreground && shell().is_some_and(|of| of.session == job.session && of.group != job.group)
}

/// What `/proc/PID/stat` has after the name, which may contain anything.
fn parse_stat(stat: &[u8]) -> Option<(char, i32)> {
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let mut fields = stat.get(end + 1..)?.split(|byte| *byte == b' ').skip(1);
    let state = fields.next()?.first().copied()?;
    let parent = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    Some((char::from(state), parent))
}

/// Whether nothing runs in a process any more. Its first thread may have ended before the others.
pub(super) fn has_ended(pid: i32) -> bool {
    match state(pid) {
        None => true,
        Some('Z' | 'X') => threads(pid).len() <= 1,
        Some(_) => false,
    }
}

/// Whether nothing runs in a process any more within this time.
pub(super) fn ends_within(pid: i32, wait: Duration) -> bool {
    let until = Instant::now() + wait;
    while !has_ended(pid) {
        if Instant::now() >= until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

/// The number that the kernel gives the first namespace of processes (`PROC_PID_INIT_INO`).
const INITIAL_PID_NAMESPACE: u64 = 0xEFFF_FFFC;

/// Whether threads have the numbers here that the kernel's records have, as in the first namespace of processes.
pub(super) fn numbers_are_the_kernels() -> bool {
    static ARE: OnceLock<bool> = OnceLock::new();
    let is_first = || PidNamespace::of(std::process::id()).is_ok_and(|own| own.inode == INITIAL_PID_NAMESPACE);
    *ARE.get_or_init(is_first)
}

/// The process that a record's thread is of; `None` where the thread has ended, or has another number here.
pub(super) fn process_of_record(thread: u32) -> Option<u32> {
    let status = numbers_are_the_kernels().then(|| ProcessStatus::read(thread).ok()).flatten();
    status.map(|status| status.tgid)
}

/// A process and all its descendants.
pub(super) fn family(pid: i32) -> Vec<i32> {
    const MOST: usize = 10_000;
    let mut family = vec![pid];
    let mut next = 0;
    while let Some(parent) = family.get(next).copied().filter(|_| family.len() < MOST) {
        next += 1;
        for thread in threads(parent) {
            let children = std::fs::read_to_string(format!("/proc/{parent}/task/{thread}/children"));
            let children = children.unwrap_or_default();
            family.extend(children.split_whitespace().filter_map(|text| text.parse::<i32>().ok()));
        }
    }
    family
}

/// The threads of a process.
pub(super) fn threads(pid: i32) -> Vec<i32> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn launch(program: &str, arguments: &[&str]) -> TargetProcess {
        let child = Command::new(program).args(arguments).spawn().unwrap();
        TargetProcess::of(child.id().cast_signed(), Some(child)).unwrap()
    }

    #[test]
    fn a_child_says_how_it_ended() {
        let long = Duration::from_secs(10);
        assert_eq!(launch("sh", &["-c", "exit 7"]).ending(long), Some(Ending::Exited(7)));
        let mut asleep = launch("sleep", &["100"]);
        assert_eq!(asleep.ending(Duration::from_millis(1)), None);
        asleep.signal(Signal::SIGTERM);
        assert_eq!(asleep.ending(long), Some(Ending::Killed(15)));
    }

    /// The descendants of a process, once there are as many.
    fn descendants(pid: i32, count: usize) -> Vec<i32> {
        for _ in 0..5000 {
            let found: Vec<i32> = family(pid).into_iter().skip(1).collect();
            if found.len() >= count {
                return found;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("{pid} has too few descendants: {:?}", family(pid));
    }

    #[test]
    fn what_a_child_has_launched_ends_with_it() {
        let launched = || launch("sh", &["-c", "sleep 100 & sh -c 'trap \"\" TERM; sleep 101; true'; true"]);
        let mut process = launched();
        let others = descendants(process.pid(), 3);
        process.end();
        assert!(others.iter().all(|pid| ends_within(*pid, Duration::from_secs(5))), "{others:?}");
        let mut process = launched();
        let others = descendants(process.pid(), 3);
        process.kill();
        assert_eq!(process.ending(Duration::from_secs(5)), Some(Ending::Killed(9)));
        assert!(others.iter().all(|pid| ends_within(*pid, Duration::from_secs(5))), "{others:?}");
    }

    #[test]
    fn a_shell_s_job_is_in_the_foreground_of_its_terminal() {
        let mut process = launch("script", &["-qec", "exec bash -mc 'sleep 100; true'", "/dev/null"]);
        let shell_and_job = descendants(process.pid(), 2);
        let [shell, job] = shell_and_job.last_chunk().copied().unwrap();
        // The shell gives it the terminal after it is there.
        let becomes_one = (0..2000).any(|_| {
            std::thread::sleep(Duration::from_millis(1));
            is_foreground_job(job)
        });
        assert!(becomes_one && !is_foreground_job(shell));
        process.end();
        let mut process = launch("sleep", &["100"]);
        assert!(!is_foreground_job(process.pid()) && !is_foreground_job(i32::MAX));
        process.end();
    }

    #[test]
    fn a_state_is_read_after_any_name() {
        assert_eq!(parse_stat(b"7 (a) T 1 2"), Some(('T', 1)));
        assert_eq!(parse_stat(b"7 (T) S 12 2"), Some(('S', 12)));
        assert_eq!(parse_stat(b"7 (a) T) R 1"), Some(('R', 1)));
        assert_eq!((parse_stat(b""), parse_stat(b")"), parse_stat(b"7 (a) T")), (None, None, None));
        assert_eq!(parent(std::process::id().cast_signed()), Some(nix::unistd::getppid().as_raw()));
        let pid = std::process::id().cast_signed();
        assert!(matches!(state(pid), Some('R' | 'S')) && !has_ended(pid));
        assert_eq!((state(i32::MAX), state(i32::MIN), state(-1)), (None, None, None));
        assert!(has_ended(i32::MAX));
    }

    #[test]
    fn another_process_only_ends() {
        let mut child = Command::new("sleep").arg("100").spawn().unwrap();
        let mut process = TargetProcess::of(child.id().cast_signed(), None).unwrap();
        assert_eq!(process.ending(Duration::ZERO), None);
        child.kill().unwrap();
        assert_eq!(process.ending(Duration::from_secs(10)), Some(Ending::Unknown));
        child.wait().unwrap();
        assert_eq!(TargetProcess::of(child.id().cast_signed(), None).unwrap_err(), Errno::ESRCH);
    }
}
