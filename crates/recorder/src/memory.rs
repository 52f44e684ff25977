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
            stack().inspect(discard_unused_stack);
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

/// Bytes below a function that it needs for its own calls.
const OWN_CALLS: usize = 16 << 10;

/// A range of this process's memory, by its name. Where a process was forked the heap has several parts, one after the other.
fn mapped(name: &str) -> Option<Range<usize>> {
    let text = std::fs::read_to_string("/proc/self/maps").ok()?;
    let parts = text.lines().filter(|line| line.ends_with(name)).filter_map(|line| {
        let (start, end) = line.split_once(' ')?.0.split_once('-')?;
        Some(usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?)
    });
    parts.reduce(|all, part| if part.start == all.end { all.start..part.end } else { all })
}

/// The first thread's stack.
pub(super) fn stack() -> Option<Range<usize>> {
    mapped("[stack]")
}

/// Gives up what calls that have returned have left on this stack, if it is this thread's: placing probes goes deep.
#[inline(never)] // Whoever calls it has its variables above this function's.
pub(super) fn discard_unused_stack(stack: &Range<usize>) {
    let here = (&raw const stack).addr();
    // SAFETY: sysconf reads a constant.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(OWN_CALLS);
    let end = here.saturating_sub(OWN_CALLS) / page * page;
    if stack.contains(&here)
        && let Some(unused) = end.checked_sub(stack.start)
    {
        // SAFETY: below all that this thread has on its stack; what it puts there later is new.
        unsafe { libc::madvise(ptr::without_provenance_mut(stack.start), unused, libc::MADV_DONTNEED) };
    }
}

/// The heap's pages; `None` where there are none, or where they have the data of threads, as a static glibc's do.
pub(super) fn heap() -> Option<Range<usize>> {
    let heap = mapped("[heap]")?;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The memory that an address is in, and how many bytes of it are there.
    fn around(address: usize) -> (Range<usize>, usize) {
        let text = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut found = None;
        for line in text.lines() {
            let range = line.split_once(' ').and_then(|(range, _)| range.split_once('-'));
            let number = |text: &str| usize::from_str_radix(text, 16).ok();
            if let Some((start, end)) = range.and_then(|(start, end)| Some((number(start)?, number(end)?))) {
                found = (start..end).contains(&address).then_some(start..end);
            } else if let (Some(found), Some(rest)) = (&found, line.strip_prefix("Rss:")) {
                return (found.clone(), rest.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10);
            }
        }
        panic!("nothing is at {address:#x}");
    }

    #[inline(never)]
    fn go_deep(levels: usize) -> usize {
        let here = std::hint::black_box([levels; 512]);
        if levels == 0 { here[0] } else { go_deep(levels - 1) + here[511] }
    }

    #[test]
    fn what_calls_left_on_the_stack_is_given_up_and_nothing_else() {
        let mine = std::hint::black_box([7_u8; 20_000]);
        go_deep(100);
        let (stack, before) = around(mine.as_ptr().addr());
        discard_unused_stack(&stack);
        let (_, after) = around(mine.as_ptr().addr());
        assert!(before > 400 << 10 && after < 150 << 10, "{before} bytes, then {after}");
        assert!(mine.iter().all(|byte| *byte == 7));
        assert_eq!(go_deep(100), 5050);
        // Of another thread nothing is.
        std::thread::scope(|threads| threads.spawn(|| discard_unused_stack(&stack)).join()).unwrap();
        assert!(mine.iter().all(|byte| *byte == 7));
    }
}
