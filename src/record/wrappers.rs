//! Commands that stop when their child is stopped, and wait to be continued together with it, as `su` and `sudo` do for
//! a shell's sake. A child that was stopped to be looked at stops them too, and nobody else would let them run on.

use super::process::state;
use crate::target::ProcessStatus;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::time::{Duration, Instant};

/// How long after a process was let run on its ancestors are looked after.
const WATCHED: Duration = Duration::from_millis(1000);
/// How long one must have been stopped: what the programs stop is answered sooner.
const STOPPED: Duration = Duration::from_millis(40);
/// Time between two looks.
pub(super) const INTERVAL: Duration = Duration::from_millis(20);
/// Generations between the target and a process that is watched.
const MOST_ANCESTORS: usize = 16;
/// Processes that are watched at a time.
const MOST_WATCHED: usize = 64;

/// Looks after the ancestors of processes that were stopped.
#[derive(Debug, Default)]
pub(super) struct Wrappers {
    /// Ancestors, until when they are watched, and since when they are seen stopped.
    watched: Vec<(i32, Instant, Option<Instant>)>,
    looked: Option<Instant>,
}

impl Wrappers {
    /// A process was let run on: its ancestors, up to the target, may have stopped.
    pub(super) fn watch(&mut self, pid: i32, target: i32) {
        let until = Instant::now() + WATCHED;
        let mut process = pid;
        for _ in 0..MOST_ANCESTORS {
            if process == target {
                return;
            }
            let Some(parent) = parent_of(process).filter(|parent| *parent > 1) else { return };
            match self.watched.iter().position(|(of, ..)| *of == parent) {
                Some(at) => self.watched[at].1 = until,
                None if self.watched.len() < MOST_WATCHED => self.watched.push((parent, until, None)),
                None => return,
            }
            process = parent;
        }
    }

    /// Whether somebody is watched.
    pub(super) fn any(&self) -> bool {
        !self.watched.is_empty()
    }

    /// The recording ends: what has stopped just now is let run on first.
    pub(super) fn finish(&mut self) {
        let from = Instant::now();
        while self.any() && from.elapsed() < 3 * STOPPED {
            self.look();
            std::thread::sleep(INTERVAL);
        }
    }

    /// One look, when everything that the programs said is answered.
    pub(super) fn look(&mut self) {
        let now = Instant::now();
        if self.watched.is_empty() || self.looked.is_some_and(|looked| now - looked < INTERVAL) {
            return;
        }
        self.looked = Some(now);
        self.watched.retain_mut(|(pid, until, since)| {
            if state(*pid) != Some('T') {
                *since = None;
                return now < *until;
            }
            if now - *since.get_or_insert(now) >= STOPPED {
                let _ = kill(Pid::from_raw(*pid), Signal::SIGCONT);
                *since = None;
            }
            true
        });
    }
}

fn parent_of(pid: i32) -> Option<i32> {
    i32::try_from(ProcessStatus::read(pid.cast_unsigned()).ok()?.parent).ok()
}
