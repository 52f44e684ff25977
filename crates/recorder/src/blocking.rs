//! Writes that may block for as long as somebody likes: to a disk that is frozen, to a terminal that is stopped. Meanwhile
//! the recorder answers nobody.

use super::clock;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// A write that takes longer than this is stuck: ns.
const STUCK: i64 = 400_000_000;

/// What is written.
#[derive(Debug, Clone, Copy)]
pub(super) enum Written {
    /// The trace, by the thread that reads the ring.
    Trace,
    /// How the recording goes, by the thread that answers the programs.
    Shown,
}

/// The writes that are under way.
#[derive(Debug, Clone, Default)]
pub(super) struct Writes(
    /// Since when, by [`Written`]: local clock, ns; 0: it is not.
    Arc<[AtomicI64; 2]>,
);

impl Writes {
    /// Writes.
    pub(super) fn during<T>(&self, what: Written, write: impl FnOnce() -> T) -> T {
        let since = &self.0[what as usize];
        since.store(clock::local_ns(), Ordering::SeqCst);
        let written = write();
        since.store(0, Ordering::SeqCst);
        written
    }

    /// Whether one is stuck.
    pub(super) fn any_stuck(&self) -> bool {
        let now = clock::local_ns();
        self.0.iter().map(|since| since.load(Ordering::SeqCst)).any(|since| since != 0 && now - since > STUCK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_write_is_stuck_until_it_returns() {
        let writes = Writes::default();
        writes.during(Written::Shown, || {
            assert!(!writes.any_stuck());
            std::thread::sleep(Duration::from_nanos(STUCK.unsigned_abs()) + Duration::from_millis(1));
            assert!(writes.any_stuck());
            writes.during(Written::Trace, || ());
            assert!(writes.any_stuck());
        });
        assert!(!writes.any_stuck());
    }
}
