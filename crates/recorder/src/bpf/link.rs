//! Attaching programs by their descriptors, with the kernel's own calls: libbpf needs its object for that, whose megabyte
//! a recorder of a server would have for good. Closing what is returned detaches.

use libbpf_rs::libbpf_sys as sys;
use nix::errno::Errno;
use nix::libc;
use std::ffi::{CStr, c_int, c_ulong};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// `PERF_EVENT_IOC_SET_BPF`
const SET_PROGRAM: c_ulong = 0x4004_2408;
/// `PERF_EVENT_IOC_ENABLE`
const ENABLE: c_ulong = 0x2400;

/// Places in a file, by their offsets.
#[derive(Debug, Clone, Default)]
pub(super) struct Places {
    pub(super) offsets: Vec<c_ulong>,
    /// None, or one for each offset.
    pub(super) cookies: Vec<u64>,
    /// None, or one for each offset; 0: without.
    pub(super) semaphores: Vec<c_ulong>,
}

/// Attaches a program at places of a file, in one process (0: in all): `uprobe.multi`.
///
/// # Errors
/// The system's: all places, or none.
pub(super) fn link_uprobes(
    program: BorrowedFd<'_>,
    attach_type: sys::bpf_attach_type,
    path: &CStr,
    places: &Places,
    process: u32,
    flags: u32,
) -> nix::Result<OwnedFd> {
    let each = |len: usize| len == 0 || len == places.offsets.len();
    if !each(places.cookies.len()) || !each(places.semaphores.len()) {
        return Err(Errno::EINVAL);
    }
    let mut options = no_options();
    let of = &mut options.__bindgen_anon_1;
    of.uprobe_multi.path = path.as_ptr();
    of.uprobe_multi.offsets = places.offsets.as_ptr();
    of.uprobe_multi.cnt = u32::try_from(places.offsets.len()).map_err(|_| Errno::E2BIG)?;
    of.uprobe_multi.pid = process;
    of.uprobe_multi.flags = flags;
    if !places.cookies.is_empty() {
        of.uprobe_multi.cookies = places.cookies.as_ptr();
    }
    if !places.semaphores.is_empty() {
        of.uprobe_multi.ref_ctr_offsets = places.semaphores.as_ptr();
    }
    create_link(program, -1, attach_type, &options)
}

/// Attaches a program to an event, which it enables. The link has the event; before Linux 5.15, which has no such links
/// and no cookies, it is the event itself.
///
/// # Errors
/// The system's.
pub(super) fn link_perf_event(program: BorrowedFd<'_>, event: OwnedFd, cookie: u64) -> nix::Result<OwnedFd> {
    let mut options = no_options();
    options.__bindgen_anon_1.perf_event.bpf_cookie = cookie;
    let link = match create_link(program, event.as_raw_fd(), sys::BPF_PERF_EVENT, &options) {
        Err(Errno::EINVAL) if cookie == 0 => {
            // SAFETY: it takes descriptors that are open, and no pointers.
            Errno::result(unsafe { libc::ioctl(event.as_raw_fd(), SET_PROGRAM, program.as_raw_fd()) })?;
            None
        }
        link => Some(link?),
    };
    // SAFETY: it takes a descriptor that is open, and no pointers.
    Errno::result(unsafe { libc::ioctl(event.as_raw_fd(), ENABLE, 0) })?;
    Ok(link.unwrap_or(event))
}

fn no_options() -> sys::bpf_link_create_opts {
    sys::bpf_link_create_opts { sz: size_of::<sys::bpf_link_create_opts>() as sys::size_t, ..Default::default() }
}

fn create_link(
    program: BorrowedFd<'_>,
    target: c_int,
    attach_type: sys::bpf_attach_type,
    options: &sys::bpf_link_create_opts,
) -> nix::Result<OwnedFd> {
    // SAFETY: the options are of the type that libbpf declares, and what they point to outlives the call.
    let fd = unsafe { sys::bpf_link_create(program.as_raw_fd(), target, attach_type, options) };
    if fd < 0 {
        return Err(Errno::from_raw(-fd));
    }
    // SAFETY: the call succeeded, so this is a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
