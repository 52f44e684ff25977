//! Commands that stop when their child is stopped, and wait to be continued together with it, as `su` and `sudo` do for
//! a shell's sake, be they of a target that was launched or above one that was attached to. A child that was stopped to be
//! inspected stops them too, and nobody else would let them run on. Whom to watch stands in memory that the recorder shares
//! with its guardian, which goes on where the recorder cannot.

use super::clock;
use super::process::{parent, state};
use nix::errno::Errno;
use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::num::NonZeroUsize;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI32, AtomicI64, Ordering};
use std::time::Duration;

/// How long after a process was let run on its ancestors are watched: ns.
const WATCHED: i64 = 1_000_000_000;
/// How long one must have been stopped, in ns: what the programs stop is answered sooner.
const STOPPED: i64 = 40_000_000;
/// Time between two polls.
pub(super) const INTERVAL: Duration = Duration::from_millis(20);
/// Generations between the target and a process that is watched.
const MOST_ANCESTORS: usize = 16;
/// Processes that are watched at a time.
const MOST_WATCHED: usize = 64;

/// What their list takes.
const BYTES: usize = size_of::<[Watched; MOST_WATCHED]>();

/// A process that is watched. All zeros: none.
#[derive(Debug)]
struct Watched {
    pid: AtomicI32,
    /// Its child, or child's child, that was stopped.
    child: AtomicI32,
    /// Until when, and since when it is seen stopped (0: it is not): local clock, ns.
    until: AtomicI64,
    since: AtomicI64,
}

/// Watches the ancestors of processes that were stopped. None of it is on the heap, which the guardian does not have.
#[derive(Debug)]
pub(super) struct Wrappers {
    shared: NonNull<[Watched; MOST_WATCHED]>,
    /// The recorder. What is above it was not stopped by it.
    recorder: i32,
    /// What was stopped before the recording: that was somebody else's wish. 0: none.
    left_alone: [i32; MOST_ANCESTORS],
    polled_ns: AtomicI64,
}

// SAFETY: the memory is this value's to unmap, and is read and written by atomic operations only.
unsafe impl Send for Wrappers {}
// SAFETY: as above.
unsafe impl Sync for Wrappers {}

impl Wrappers {
    /// Of a target of this process. A guardian that is forked from now on shares the list.
    pub(super) fn new(target: i32) -> nix::Result<Self> {
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        let bytes = NonZeroUsize::new(BYTES).ok_or(Errno::EINVAL)?;
        // SAFETY: a new mapping at a place of the kernel's choice. It is zeroed, aligned to a page, and large enough.
        let shared = unsafe { mmap_anonymous(None, bytes, protection, MapFlags::MAP_SHARED) }?;
        let recorder = std::process::id().cast_signed();
        let mut left_alone = [0; MOST_ANCESTORS];
        let stopped = ancestors(target, recorder).filter(|pid| state(*pid) == Some('T'));
        left_alone.iter_mut().zip(stopped).for_each(|(place, pid)| *place = pid);
        Ok(Self { shared: shared.cast(), recorder, left_alone, polled_ns: AtomicI64::new(0) })
    }

    fn list(&self) -> &[Watched; MOST_WATCHED] {
        // SAFETY: it is mapped as long as `self`; zeros are valid atomic numbers.
        unsafe { self.shared.as_ref() }
    }

    /// A process is about to be let run on: its ancestors may have stopped.
    pub(super) fn watch(&self, pid: i32) {
        let until = clock::local_ns() + WATCHED;
        let mut child = pid;
        for ancestor in ancestors(pid, self.recorder) {
            if !self.left_alone.contains(&ancestor) && !self.add(ancestor, child, until) {
                return;
            }
            child = ancestor;
        }
    }

    fn add(&self, pid: i32, child: i32, until: i64) -> bool {
        let find = |pid: i32| self.list().iter().find(|watched| watched.pid.load(Ordering::SeqCst) == pid);
        if let Some(watched) = find(pid) {
            watched.child.store(child, Ordering::SeqCst);
            watched.until.store(until, Ordering::SeqCst);
            return true;
        }
        let Some(free) = find(0) else { return false };
        free.child.store(child, Ordering::SeqCst);
        free.until.store(until, Ordering::SeqCst);
        free.since.store(0, Ordering::SeqCst);
        free.pid.store(pid, Ordering::SeqCst);
        true
    }

    /// Whether somebody is watched.
    pub(super) fn any(&self) -> bool {
        self.list().iter().any(|watched| watched.pid.load(Ordering::SeqCst) != 0)
    }

    /// The recording ends: what has stopped just now is let run on first.
    pub(super) fn finish(&self) {
        let from = clock::local_ns();
        while self.any() && clock::local_ns() - from < 3 * STOPPED {
            self.poll();
            std::thread::sleep(INTERVAL);
        }
    }

    /// Does the next step, if it is due, when every request of the programs is answered. Allocates nothing: the guardian
    /// calls it, too.
    pub(super) fn poll(&self) {
        let now = clock::local_ns();
        let interval = i64::try_from(INTERVAL.as_nanos()).unwrap_or(0);
        if now - self.polled_ns.load(Ordering::Relaxed) < interval {
            return;
        }
        self.polled_ns.store(now, Ordering::Relaxed);
        for watched in self.list() {
            let pid = watched.pid.load(Ordering::SeqCst);
            if pid == 0 {
                continue;
            }
            let until = watched.until.load(Ordering::SeqCst);
            // Where its child is stopped, too, that comes first; or somebody else has stopped both.
            if state(pid) != Some('T') || state(watched.child.load(Ordering::SeqCst)) == Some('T') {
                watched.since.store(0, Ordering::SeqCst);
                if now >= until {
                    watched.pid.store(0, Ordering::SeqCst);
                }
                continue;
            }
            match watched.since.load(Ordering::SeqCst) {
                0 => watched.since.store(now, Ordering::SeqCst),
                since if now - since < STOPPED => {}
                _ => {
                    watched.since.store(0, Ordering::SeqCst);
                    // What may not be continued, and what stops again and again, is its user's to continue.
                    let failed = kill(Pid::from_raw(pid), Signal::SIGCONT) == Err(Errno::EPERM);
                    if failed || now >= until + WATCHED {
                        watched.pid.store(0, Ordering::SeqCst);
                    }
                }
            }
        }
    }
}

/// The ancestors of a process, the next one first, but for the first process of all, the recorder, and what is above it.
fn ancestors(pid: i32, recorder: i32) -> impl Iterator<Item = i32> {
    let above = move |of: &i32| parent(*of).filter(|parent| *parent > 1 && *parent != recorder);
    std::iter::successors(above(&pid), above).take(MOST_ANCESTORS)
}

impl Drop for Wrappers {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `new` made, and nothing that borrows from it outlives this.
        let _ = unsafe { munmap(self.shared.cast(), BYTES) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn an_ancestor_that_stops_is_continued_and_one_that_was_stopped_before_is_not() {
        let after = |is_stopped_before: bool| {
            let mut parent = Command::new("sh").args(["-c", "sleep 100; true"]).spawn().unwrap();
            let pid = parent.id().cast_signed();
            let child = loop {
                let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
                if let Some(child) = children.split_whitespace().next() {
                    break child.parse::<i32>().unwrap();
                }
            };
            let stop = || {
                kill(Pid::from_raw(pid), Signal::SIGSTOP).unwrap();
                while state(pid) != Some('T') {
                    std::thread::yield_now();
                }
            };
            if is_stopped_before {
                stop();
            }
            let wrappers = Wrappers::new(child).unwrap();
            wrappers.watch(child);
            stop();
            wrappers.finish();
            let after = state(pid);
            for pid in [pid, child] {
                kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
            }
            parent.wait().unwrap();
            after
        };
        assert_eq!(after(false), Some('S'));
        assert_eq!(after(true), Some('T'));
    }
}
