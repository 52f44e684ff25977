//! Memory goes back to the system when it is no longer used, such as that for placing probes: `serve` has a recorder for
//! each engine.

use super::modules::Modules;
use nix::libc;
use std::ops::Range;
use std::ptr;
use std::time::{Duration, Instant};

/// Time after the last inspection of a process: more may come.
const QUIET: Duration = Duration::from_secs(5);
/// Time until what was freed since is given back.
const AGAIN: Duration = Duration::from_secs(30);

/// When it is given back.
#[derive(Debug, Default)]
pub(super) struct FreedMemory {
    inspections: u64,
    inspected: Option<Instant>,
    gave_back: Option<Instant>,
}

impl FreedMemory {
    /// Gives it back once no process has been inspected for a while, and from then on regularly.
    pub(super) fn poll(&mut self, modules: &mut Modules<'_>) {
        if modules.inspections() != self.inspections {
            (self.inspections, self.inspected) = (modules.inspections(), Some(Instant::now()));
        }
        let is_quiet = self.inspected.take_if(|inspected| inspected.elapsed() >= QUIET).is_some();
        if is_quiet {
            modules.forget_contents();
        }
        if is_quiet || self.gave_back.is_some_and(|gave_back| gave_back.elapsed() >= AGAIN) {
            give_back();
            self.gave_back = Some(Instant::now());
        }
    }
}

/// Bytes from which on an allocation is a mapping of its own, which goes back when it is freed: glibc raises the limit to
/// the largest one that was freed, and what is freed on the heap stays below what is still used.
#[cfg(target_env = "gnu")]
const LARGE: libc::c_int = 128 << 10;

/// Has all threads allocate from one heap, as glibc's of many threads keep what is free. To be called before there are any.
pub fn share_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it sets numbers.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE);
    }
}

/// The heap's pages; `None` where there are none, or where they have the data of threads, as a static glibc's do.
pub(super) fn heap() -> Option<Range<usize>> {
    let text = std::fs::read_to_string("/proc/self/maps").ok()?;
    let range = text.lines().find(|line| line.ends_with("[heap]"))?.split_once(' ')?.0;
    let (start, end) = range.split_once('-')?;
    let heap = usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?;
    // SAFETY: it takes nothing.
    let of_thread = unsafe { libc::__errno_location() }.addr();
    (!heap.contains(&of_thread)).then_some(heap)
}

/// Gives up the heap of this process.
///
/// # Safety
/// Nothing that was allocated may be used any more, and nothing may be allocated.
pub(super) unsafe fn discard(heap: &Range<usize>) {
    let start = ptr::without_provenance_mut(heap.start);
    // SAFETY: by the caller; a failure leaves it as it is.
    unsafe { libc::madvise(start, heap.len(), libc::MADV_DONTNEED) };
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
