//! Memory that is shared by a descriptor: with the kernel's programs, and with the guardian.

use nix::libc;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use std::ffi::c_void;
use std::num::NonZeroUsize;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

/// A mapping, undone when this is dropped.
#[derive(Debug)]
pub(super) struct Mapping {
    at: NonNull<c_void>,
    length: NonZeroUsize,
}

impl Mapping {
    pub(super) fn new(fd: BorrowedFd<'_>, offset: usize, length: usize, protection: ProtFlags) -> nix::Result<Self> {
        let length = NonZeroUsize::new(length).ok_or(nix::Error::EINVAL)?;
        let offset = libc::off_t::try_from(offset).map_err(|_| nix::Error::EINVAL)?;
        // SAFETY: a new mapping at a place of the kernel's choice, of a descriptor that is open.
        let at = unsafe { mmap(None, length, protection, MapFlags::MAP_SHARED, fd, offset) }?;
        Ok(Self { at, length })
    }

    /// Its first byte.
    pub(super) fn start(&self) -> *mut c_void {
        self.at.as_ptr()
    }
}

// SAFETY: the memory is nobody's but this value's to unmap; who reads or writes it, does so by atomic operations.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `new` made, and nothing that borrows from it outlives this.
        let _ = unsafe { munmap(self.at, self.length.get()) };
    }
}
