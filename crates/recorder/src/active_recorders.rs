//! How many recorders of one fork server have a target that ends steps. Each marks when it saw one end, in memory that all
//! of them share.

use super::clock;
use nix::errno::Errno;
use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous};
use std::num::NonZeroUsize;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};

/// A page of them: more than there are recorders at once.
const PLACES: usize = 512;
/// A target that has ended no step for so long is idle, ns. Where steps go, too, one is seen in windows only.
const ACTIVE: i64 = 60_000_000_000;

/// Of this many parts of a processor, one is for windows where recorders share it: the others are for what they need between
/// windows, and for who reads their traces.
const SERVED: u64 = 2;

/// When each recorder last saw a step end: its local clock, ns; 0: never.
static MARKS: OnceLock<&'static [AtomicI64; PLACES]> = OnceLock::new();
static OWN: OnceLock<&'static AtomicI64> = OnceLock::new();

/// In the fork server, before it forks: recorders are counted from then on.
pub(super) fn share() -> nix::Result<()> {
    let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    let bytes = NonZeroUsize::new(size_of::<[AtomicI64; PLACES]>()).ok_or(Errno::EINVAL)?;
    // SAFETY: a new mapping at a place of the kernel's choice.
    let shared = unsafe { mmap_anonymous(None, bytes, protection, MapFlags::MAP_SHARED) }?;
    // SAFETY: it is never unmapped, aligned to a page, and large enough; zeros are valid atomic numbers.
    let _ = MARKS.set(unsafe { shared.cast().as_ref() });
    Ok(())
}

/// In a recorder, once: its place.
pub(super) fn enter(number: u64) {
    let place = MARKS.get().and_then(|marks| marks.get((number % PLACES as u64) as usize));
    if let Some(place) = place {
        place.store(0, Ordering::Relaxed);
        let _ = OWN.set(place);
    }
}

/// Watches the steps of this recorder's target.
#[derive(Debug, Default)]
pub(super) struct ActiveRecorders {
    steps: u64,
}

impl ActiveRecorders {
    /// Into how many equal parts the recorders' part of a processor is divided, of which this one has one, now that its target
    /// has ended so many steps.
    pub(super) fn parts(&mut self, steps: u64) -> u64 {
        let now = clock::local_ns();
        if steps != std::mem::replace(&mut self.steps, steps)
            && let Some(own) = OWN.get()
        {
            own.store(now, Ordering::Relaxed);
        }
        let is_active = |mark: &&AtomicI64| {
            let at = mark.load(Ordering::Relaxed);
            at != 0 && now - at < ACTIVE
        };
        MARKS.get().map_or(1, |marks| SERVED * marks.iter().filter(is_active).count().max(1) as u64)
    }
}
