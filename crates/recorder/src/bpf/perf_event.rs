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
    let probe = UprobeEvent { path: c"/proc/self/exe", offset: 0, semaphore: 0, at_return: false, process: Some(0) };
    !matches!(probe.open(), Err(nix::Error::EACCES | nix::Error::EPERM))
}

/// The event of a place in a file, on all CPUs.
#[derive(Debug, Clone, Copy)]
pub(super) struct UprobeEvent<'p> {
    pub(super) path: &'p CStr,
    pub(super) offset: u64,
    /// The offset of the number that the kernel raises while it is open; 0: without.
    pub(super) semaphore: u32,
    pub(super) at_return: bool,
    /// `None`: in all; 0: in this one.
    pub(super) process: Option<i32>,
}

impl UprobeEvent<'_> {
    /// # Errors
    /// The system's.
    pub(super) fn open(&self) -> nix::Result<OwnedFd> {
        let kind = std::fs::read_to_string("/sys/bus/event_source/devices/uprobe/type").ok();
        let kind = kind.and_then(|text| text.trim().parse().ok()).ok_or(nix::Error::ENODEV)?;
        let mut event = sys::perf_event_attr {
            type_: kind,
            // By the kernel's `format/retprobe` and `format/ref_ctr_offset`.
            config: u64::from(self.at_return) | u64::from(self.semaphore) << 32,
            ..Default::default()
        };
        event.__bindgen_anon_3.uprobe_path = self.path.as_ptr().addr() as u64;
        event.__bindgen_anon_4.probe_offset = self.offset;
        // An event of all processes is of one processor, but its program runs on all.
        let (process, processor) = self.process.map_or((-1, 0), |process| (process, -1));
        open_perf_event(event, process, processor)
    }
}
