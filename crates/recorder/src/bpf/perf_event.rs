//! The kernel's events: one call opens them all, whatever they count and whoever is told.

use libbpf_rs::libbpf_sys as sys;
use nix::errno::Errno;
use nix::libc;
use std::ffi::CStr;
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

/// Whether this process may attach uprobes by perf events, which takes more privileges on some kernels than
/// `uprobe.multi` does. Nothing is attached.
pub(super) fn may_probe_by_perf_events() -> bool {
    !matches!(uprobe_event(c"/proc/self/exe", 0, false), Err(nix::Error::EACCES | nix::Error::EPERM))
}

/// An event of a place in a file: of this process, on all CPUs.
pub(super) fn uprobe_event(path: &CStr, offset: u64, at_return: bool) -> nix::Result<OwnedFd> {
    let kind = std::fs::read_to_string("/sys/bus/event_source/devices/uprobe/type").ok();
    let kind = kind.and_then(|text| text.trim().parse().ok()).ok_or(nix::Error::ENODEV)?;
    let mut event = sys::perf_event_attr {
        type_: kind,
        // Bit 0 tells that it is a probe of the return; the kernel's `format/retprobe` too.
        config: u64::from(at_return),
        ..Default::default()
    };
    event.__bindgen_anon_3.uprobe_path = path.as_ptr().addr() as u64;
    event.__bindgen_anon_4.probe_offset = offset;
    open_perf_event(event, 0, -1)
}
