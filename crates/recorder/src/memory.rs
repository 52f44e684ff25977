//! Memory goes back to the system when it is no longer used, such as that for placing probes: `serve` has a recorder for
//! each engine.

use super::modules::Modules;
use nix::libc;
use std::ptr;
use std::time::{Duration, Instant};

/// Time after the last inspection of a process: more may come.
const QUIET: Duration = Duration::from_secs(5);

/// When it is given back.
#[derive(Debug, Default)]
pub(super) struct FreedMemory {
    inspections: u64,
    inspected: Option<Instant>,
}

impl FreedMemory {
    /// Gives it back once no process has been inspected for a while.
    pub(super) fn poll(&mut self, modules: &mut Modules<'_>) {
        if modules.inspections() != self.inspections {
            (self.inspections, self.inspected) = (modules.inspections(), Some(Instant::now()));
        }
        if self.inspected.take_if(|inspected| inspected.elapsed() >= QUIET).is_some() {
            modules.forget_contents();
            give_back();
        }
    }
}

/// Has all threads allocate from one heap, as glibc's of many threads keep what is free. To be called before there are any.
pub fn share_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it sets a number.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Gives back what is free, and unmaps the program's file, whose pages come back as they are used: it takes a millisecond.
/// Other allocators than glibc's give back by themselves.
pub fn give_back() {
    // SAFETY: it calls this for each file that is mapped, with a valid description.
    unsafe { libc::dl_iterate_phdr(Some(unmap_read_only), ptr::null_mut()) };
    #[cfg(target_env = "gnu")]
    // SAFETY: it may be called at any time, by any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Unmaps the pages of a file's segments that nobody writes to. Only the first file's: it is the program.
unsafe extern "C" fn unmap_read_only(file: *mut libc::dl_phdr_info, _: usize, _: *mut libc::c_void) -> libc::c_int {
    // SAFETY: sysconf reads a constant; the description is valid, and has this many headers.
    let (page, file, headers) = unsafe {
        let file = &*file;
        let page = libc::sysconf(libc::_SC_PAGESIZE);
        (u64::try_from(page).unwrap_or(4096), file, std::slice::from_raw_parts(file.dlpi_phdr, file.dlpi_phnum.into()))
    };
    for header in headers.iter().filter(|header| header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_W == 0) {
        let start = (file.dlpi_addr + header.p_vaddr).next_multiple_of(page);
        let end = (file.dlpi_addr + header.p_vaddr + header.p_memsz) / page * page;
        if let Some(length) = end.checked_sub(start).filter(|length| *length > 0) {
            // SAFETY: these pages are the file's, unchanged; the next access maps them again.
            unsafe { libc::madvise(ptr::without_provenance_mut(start as usize), length as usize, libc::MADV_DONTNEED) };
        }
    }
    1
}
