//! The kernel's events: one call opens them all, whatever they count and whoever is told.

use libbpf_rs::libbpf_sys as sys;
use nix::errno::Errno;
use nix::libc;
use std::os::fd::{FromRawFd, OwnedFd};

/// Opens an event, in no group, of a process (-1: of all; 0: of this one) on a processor (-1: on any). The size is filled
/// in.
///
/// # Errors
/// The system's.
pub fn open_perf_event(mut attributes: sys::perf_event_attr, process: i32, processor: i32) -> nix::Result<OwnedFd> {
    attributes.size = u32::try_from(size_of::<sys::perf_event_attr>()).unwrap_or(0);
    let (no_group, flags) = (-1, libc::c_ulong::from(sys::PERF_FLAG_FD_CLOEXEC));
    // SAFETY: the kernel reads the live value, whose size is in it, and may write that size back. What it points to the
    // caller keeps alive.
    let fd =
        unsafe { libc::syscall(libc::SYS_perf_event_open, &raw mut attributes, process, processor, no_group, flags) };
    let fd = i32::try_from(Errno::result(fd)?).map_err(|_| Errno::EBADF)?;
    // SAFETY: the call succeeded, so this is a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
