//! The processes that the programs have stopped, and who continues them: the recorder as long as it gives signs of life,
//! the guardian otherwise. No process is continued that was stopped by somebody else.

use super::blocking::Writes;
use super::clock;
use super::mapping::Mapping;
use super::process::{state, threads};
use super::wrappers::Wrappers;
use crate::bpf::Session;
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use nix::libc;
use nix::sys::mman::ProtFlags;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use profinfer_diagnostics::{Code, Diagnostic};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time between two signs of life. The programs and the guardian wait for one for 300 ms more.
const BEAT: Duration = Duration::from_millis(200);
/// The nice value of the thread that gives them.
const PRIORITY: i32 = -10;
/// How long the signal that stops a process may be on the way.
const ON_THE_WAY: Duration = Duration::from_millis(500);
/// So many processes are continued at the end, at most: as many as are remembered.
const MOST: usize = profinfer_schema::bpf::STOPPED_PROCESSES;

/// A process that was stopped, and when: the number alone may be another one's by now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stop {
    /// In the recorder's pid namespace.
    pub(super) pid: u32,
    /// ns, CLOCK_MONOTONIC. `None`: it was not stopped, and runs.
    pub(super) since: Option<u64>,
}

/// What the recorder and its guardian share with the programs.
#[derive(Debug)]
pub(super) struct Stops {
    stopped: MapHandle,
    answered: MapHandle,
    page: Mapping,
    wrappers: Wrappers,
}

impl Stops {
    /// Those of a session that records a target.
    pub(super) fn of(session: &Session<'_>, target: i32) -> Result<Self, Diagnostic> {
        let failed =
            |error: &dyn std::fmt::Display| Diagnostic::error(Code::Bug, format!("bug: no sign of life: {error}"));
        let (stopped, answered, life) =
            (session.shared("pf_stopped")?, session.shared("pf_answered")?, session.shared("pf_life")?);
        let bytes = usize::try_from(super::host::page_bytes()).map_err(|error| failed(&error))?;
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        let page = Mapping::new(life.as_fd(), 0, bytes, protection).map_err(|error| failed(&error))?;
        let wrappers = Wrappers::new(target).map_err(|error| failed(&error))?;
        Ok(Self { stopped, answered, page, wrappers })
    }

    /// The maps of the stops and of the answers.
    pub(super) fn descriptors(&self) -> [RawFd; 2] {
        [&self.stopped, &self.answered].map(|map| map.as_fd().as_raw_fd())
    }

    /// The ancestors of what was stopped.
    pub(super) fn wrappers(&self) -> &Wrappers {
        &self.wrappers
    }

    /// When the recorder last gave a sign of life; 0: nothing may be stopped.
    pub(super) fn beat(&self) -> &AtomicU64 {
        // SAFETY: the page is mapped as long as `self`, and begins with this number, which the programs only read.
        unsafe { AtomicU64::from_ptr(self.page.start().cast()) }
    }

    /// Processes that the guardian has continued before they were inspected.
    pub(super) fn released(&self) -> &AtomicU64 {
        // SAFETY: as above; it is the page's second number.
        unsafe { AtomicU64::from_ptr(self.page.start().cast::<u64>().add(1)) }
    }

    /// Whether a process stands since that stop: another recorder of the same process, or a parent such as `su`, may have
    /// let it run on. The signal may still be on the way, on a busy machine: the process runs nothing until it comes.
    pub(super) fn still_stands(&self, stop: Stop) -> bool {
        let (pid, from) = (stop.pid.cast_signed(), Instant::now());
        while stop.since.is_some() && read(&self.stopped, stop.pid) == stop.since {
            if is_standing(pid) {
                return true;
            }
            if from.elapsed() > ON_THE_WAY {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        false
    }

    /// Whether the guardian has continued a process, which has neither mapped nor unmapped anything since: it would have
    /// been stopped again, or counted.
    pub(super) fn was_released(&self, stop: Stop) -> bool {
        stop.since.is_some() && [&self.stopped, &self.answered].iter().all(|map| read(map, stop.pid) == stop.since)
    }

    /// Lets a process run on that was stopped, unless it does already or was stopped again since: that stop gets
    /// another answer.
    pub(super) fn answer(&self, stop: Stop) {
        let Some(since) = stop.since else { return };
        if read(&self.answered, stop.pid) == Some(since) || read(&self.stopped, stop.pid).is_some_and(|s| s != since) {
            return;
        }
        // 0 and negative numbers would be whole groups.
        if let Some(pid) = i32::try_from(stop.pid).ok().filter(|pid| *pid > 0) {
            // Before: who dies in between leaves these to the guardian, too.
            self.wrappers.watch(pid);
            let _ = kill(Pid::from_raw(pid), Signal::SIGCONT);
        }
        // After it runs: who dies in between leaves it to the guardian.
        let note = || self.answered.update(&stop.pid.to_ne_bytes(), &since.to_ne_bytes(), MapFlags::ANY);
        if note().is_err() {
            self.forget_ended();
            let _ = note();
        }
    }

    /// Lets everything run on that is stopped. Nothing is stopped any more from here on.
    pub(super) fn end(&self) {
        self.beat().store(0, Ordering::SeqCst);
        let stopped: Vec<u32> = self.stopped.keys().take(MOST).filter_map(number).collect();
        for pid in stopped {
            self.answer(Stop { pid, since: read(&self.stopped, pid) });
        }
    }

    /// Frees the map entries of processes that have ended.
    fn forget_ended(&self) {
        let answered: Vec<Vec<u8>> = self.answered.keys().take(MOST).collect();
        for key in answered {
            let is_over = |pid| read(&self.stopped, pid) != read(&self.answered, pid);
            if number(key.clone()).is_none_or(is_over) {
                let _ = self.answered.delete(&key);
            }
        }
    }
}

/// Whether no thread of a process runs, since it is stopped. A first thread may have ended; one that waits for a child in
/// its memory (`vfork`) or for a disk stops when it has what it waits for.
fn is_standing(pid: i32) -> bool {
    let states: Vec<Option<char>> = threads(pid).into_iter().map(state).collect();
    let is_stopped = |state: &Option<char>| matches!(state, Some('T' | 't'));
    states.iter().any(is_stopped) && states.iter().all(|s| is_stopped(s) || matches!(s, None | Some('D' | 'Z' | 'X')))
}

fn number(key: Vec<u8>) -> Option<u32> {
    Some(u32::from_ne_bytes(key.try_into().ok()?))
}

fn read(map: &MapHandle, pid: u32) -> Option<u64> {
    let value = map.lookup(&pid.to_ne_bytes(), MapFlags::ANY).ok()??;
    Some(u64::from_ne_bytes(value.try_into().ok()?))
}

/// The thread that gives the signs of life, unless a write is stuck. It ends when this is dropped, and lets everything run
/// on.
#[derive(Debug)]
pub(super) struct Pulse {
    stops: Arc<Stops>,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Pulse {
    pub(super) fn start(stops: &Arc<Stops>, writes: Writes) -> std::io::Result<Self> {
        let ended = Arc::new(AtomicBool::new(false));
        let (shared, until) = (Arc::clone(stops), Arc::clone(&ended));
        let beat = move || {
            // On a busy machine it would come too late, and the guardian would take the recorder for dead. It takes a
            // right that not every recorder has.
            // SAFETY: plain numbers; 0 is the calling thread.
            unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, PRIORITY) };
            while !until.load(Ordering::SeqCst) {
                // The threads that answer may wait for it: what is stopped must not wait for them then.
                if !writes.any_stuck() {
                    shared.beat().store(clock::monotonic_ns(), Ordering::SeqCst);
                }
                std::thread::park_timeout(BEAT);
            }
        };
        stops.beat().store(clock::monotonic_ns(), Ordering::SeqCst);
        let thread = std::thread::Builder::new().name("profinfer-life".into()).spawn(beat)?;
        Ok(Self { stops: Arc::clone(stops), ended, thread: Some(thread) })
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
        self.stops.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_process_stands_from_its_stop_to_its_continuation() {
        let mut child = Command::new("sleep").arg("100").spawn().unwrap();
        let pid = child.id().cast_signed();
        let becomes = |wanted: bool| {
            (0..2000).any(|_| {
                std::thread::sleep(Duration::from_millis(1));
                is_standing(pid) == wanted
            })
        };
        assert!(!is_standing(pid));
        kill(Pid::from_raw(pid), Signal::SIGSTOP).unwrap();
        assert!(becomes(true));
        kill(Pid::from_raw(pid), Signal::SIGCONT).unwrap();
        assert!(becomes(false));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!is_standing(pid));
    }
}
