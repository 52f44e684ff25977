//! The kernel's count of how often each program ran, and for how long.

use libbpf_rs::libbpf_sys as sys;
use std::os::fd::{FromRawFd, OwnedFd};

/// Has the kernel count the runs of all programs, until it is dropped. It costs each run some 40 ns.
#[derive(Debug)]
pub struct RunStatistics {
    _held: OwnedFd,
}

impl RunStatistics {
    /// `None` where the kernel cannot, or will not without CAP_SYS_ADMIN.
    pub fn enable() -> Option<Self> {
        // SAFETY: the argument is a plain number.
        let fd = unsafe { sys::bpf_enable_stats(sys::BPF_STATS_RUN_TIME) };
        // SAFETY: the call succeeded, so this is a new descriptor that nobody else owns.
        (fd >= 0).then(|| Self { _held: unsafe { OwnedFd::from_raw_fd(fd) } })
    }
}
