//! Memory that was used while probes were placed: what is free of it goes back to the system. `serve` has a recorder for
//! each engine.

use std::time::{Duration, Instant};

/// Time after the last probe was placed: more may come.
const QUIET: Duration = Duration::from_secs(1);

/// When it is given back.
#[derive(Debug, Default)]
pub(super) struct FreedMemory {
    sites: u16,
    placed: Option<Instant>,
}

impl FreedMemory {
    /// Gives it back once as many sites as there are have been there for a while.
    pub(super) fn poll(&mut self, sites: u16) {
        if sites != self.sites {
            (self.sites, self.placed) = (sites, Some(Instant::now()));
        }
        if self.placed.take_if(|placed| placed.elapsed() >= QUIET).is_some() {
            give_back();
        }
    }
}

/// Gives it back now: it takes a millisecond. Other allocators than glibc's do it by themselves.
pub(super) fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it may be called at any time, by any thread.
    unsafe {
        nix::libc::malloc_trim(0);
    }
}
