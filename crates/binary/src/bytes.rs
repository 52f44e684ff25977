//! The bytes of a file, mapped into memory. A file that is cut while it is mapped, or that the disk cannot read, has no
//! bytes there any more: to read them raises SIGBUS, which would end this program. Here they read as zeros then, and the
//! mapping is torn: nothing that was read of it may be believed.

use memmap2::{Mmap, MmapMut};
use std::fs::File;
use std::io;
use std::ops::Deref;

/// Bytes that are only read.
#[derive(Debug)]
pub(super) struct FileBytes {
    /// Before the map: while a range is guarded it is mapped.
    #[cfg(target_os = "linux")]
    guard: Option<guard::Guard>,
    map: Mmap,
}

impl FileBytes {
    /// A file's.
    pub(super) fn of_file(file: &File) -> io::Result<Self> {
        // SAFETY: the map is private and only read, as plain bytes that are checked at each use. Where the file is cut
        // short they become zeros, on Linux; elsewhere this process ends.
        let map = unsafe { Mmap::map(file) }?;
        Ok(Self {
            #[cfg(target_os = "linux")]
            guard: Some(guard::Guard::of(&map)?),
            map,
        })
    }

    /// A copy of these.
    pub(super) fn of_bytes(bytes: &[u8]) -> io::Result<Self> {
        let mut map = MmapMut::map_anon(bytes.len().max(1))?;
        map.get_mut(..bytes.len()).unwrap_or_default().copy_from_slice(bytes);
        Ok(Self {
            #[cfg(target_os = "linux")]
            guard: None,
            map: map.make_read_only()?,
        })
    }

    /// Whether bytes that were read were not there.
    pub(super) fn is_torn(&self) -> bool {
        #[cfg(target_os = "linux")]
        return self.guard.as_ref().is_some_and(guard::Guard::is_torn);
        #[cfg(not(target_os = "linux"))]
        return false;
    }
}

impl Deref for FileBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.map
    }
}

#[cfg(target_os = "linux")]
mod guard {
    use nix::libc;
    use std::io;
    use std::ptr;
    use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
    use std::sync::{Mutex, OnceLock, PoisonError};

    /// Ranges of one block of the list.
    const RANGES: usize = 256;

    /// A range of addresses whose missing pages become zeros.
    #[derive(Debug)]
    struct Range {
        /// 0: it is free.
        start: AtomicUsize,
        end: AtomicUsize,
        torn: AtomicBool,
    }

    impl Range {
        const fn new() -> Self {
            Self { start: AtomicUsize::new(0), end: AtomicUsize::new(0), torn: AtomicBool::new(false) }
        }
    }

    /// Blocks are never freed: the handler may be going through them.
    struct Block {
        ranges: [Range; RANGES],
        next: AtomicPtr<Block>,
    }

    impl Block {
        const fn new() -> Self {
            Self { ranges: [const { Range::new() }; RANGES], next: AtomicPtr::new(ptr::null_mut()) }
        }

        fn next(&self) -> Option<&'static Self> {
            // SAFETY: it is null, or leads to a block that was leaked.
            unsafe { self.next.load(Ordering::Acquire).as_ref() }
        }
    }

    static FIRST: Block = Block::new();
    /// Locked while a range is registered.
    static TAKING: Mutex<()> = Mutex::new(());
    /// What SIGBUS did before; an error is its number.
    static BEFORE: OnceLock<Result<libc::sigaction, i32>> = OnceLock::new();

    fn ranges() -> impl Iterator<Item = &'static Range> {
        std::iter::successors(Some(&FIRST), |block| block.next()).flat_map(|block| &block.ranges)
    }

    /// A range that is guarded until this is dropped.
    #[derive(Debug)]
    pub(super) struct Guard(&'static Range);

    impl Guard {
        pub(super) fn of(bytes: &[u8]) -> io::Result<Self> {
            if let Err(error) = BEFORE.get_or_init(install) {
                return Err(io::Error::from_raw_os_error(*error));
            }
            let _taking = TAKING.lock().unwrap_or_else(PoisonError::into_inner);
            let range = ranges().find(|range| range.start.load(Ordering::Relaxed) == 0).unwrap_or_else(grow);
            let start = bytes.as_ptr().addr();
            range.torn.store(false, Ordering::Relaxed);
            range.end.store(start.saturating_add(bytes.len()), Ordering::Relaxed);
            range.start.store(start, Ordering::Release);
            Ok(Self(range))
        }

        pub(super) fn is_torn(&self) -> bool {
            self.0.torn.load(Ordering::Acquire)
        }
    }

    impl Drop for Guard {
        fn drop(&mut self) {
            let _taking = TAKING.lock().unwrap_or_else(PoisonError::into_inner);
            self.0.start.store(0, Ordering::Release);
        }
    }

    /// Adds a block; gives its first range.
    fn grow() -> &'static Range {
        let new = Box::into_raw(Box::new(Block::new()));
        let mut last = &FIRST;
        while let Some(next) = last.next() {
            last = next;
        }
        last.next.store(new, Ordering::Release);
        // SAFETY: it is never freed.
        unsafe { &(*new).ranges[0] }
    }

    fn install() -> Result<libc::sigaction, i32> {
        // SAFETY: both structures are plain data, alive, and valid when zeroed. The handler makes only system calls and
        // reads atomics.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            let mut before: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handle as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
            match libc::sigaction(libc::SIGBUS, &raw const action, &raw mut before) {
                0 => Ok(before),
                _ => Err(nix::errno::Errno::last_raw()),
            }
        }
    }

    /// Puts zeros where a guarded range has no bytes; any other fault does what it did before.
    extern "C" fn handle(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
        // SAFETY: the kernel gives the handler a live structure; for a fault it has an address.
        let (code, address) = unsafe { ((*info).si_code, (*info).si_addr().addr()) };
        // What is not positive was sent by a process.
        if code > 0 && ranges().any(|range| fill(range, address)) {
            return;
        }
        if let Some(Ok(before)) = BEFORE.get() {
            // SAFETY: it is the structure that the kernel gave. The fault comes again when this returns; what was sent is
            // sent again.
            unsafe {
                libc::sigaction(libc::SIGBUS, before, ptr::null_mut());
                if code <= 0 {
                    libc::raise(libc::SIGBUS);
                }
            }
        }
    }

    fn fill(range: &Range, address: usize) -> bool {
        let start = range.start.load(Ordering::Acquire);
        let end = range.end.load(Ordering::Acquire);
        // Unless it was freed and taken meanwhile: then it is not what has faulted.
        if start == 0 || address < start || address >= end || range.start.load(Ordering::Acquire) != start {
            return false;
        }
        range.torn.store(true, Ordering::Release);
        let error = nix::errno::Errno::last_raw();
        // SAFETY: plain numbers. From the page of the fault to the end, so that a file of any length takes one mapping; the
        // range is mapped, and only read, as long as it is guarded.
        let filled = unsafe {
            let page = usize::try_from(libc::sysconf(libc::_SC_PAGESIZE)).unwrap_or(4096);
            let from = address & !(page - 1);
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
            libc::mmap(ptr::without_provenance_mut(from), end - from, libc::PROT_READ, flags, -1, 0)
        };
        nix::errno::Errno::set_raw(error);
        filled != libc::MAP_FAILED
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    fn file(bytes: &[u8]) -> (tempfile::TempDir, File) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, bytes).unwrap();
        let file = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
        (folder, file)
    }

    #[test]
    fn what_is_cut_off_reads_as_zeros_and_shows() {
        let (_folder, file) = file(&[7; 40_000]);
        let (map, other) = (FileBytes::of_file(&file).unwrap(), FileBytes::of_file(&file).unwrap());
        assert!(map.iter().all(|byte| *byte == 7) && !map.is_torn());
        file.set_len(5_000).unwrap();
        // The rest of the last page is zero, and no fault.
        assert_eq!((map[4_999], map[5_000], map.is_torn()), (7, 0, false));
        assert_eq!((map[30_000], map[39_999], map.is_torn(), other.is_torn()), (0, 0, true, false));
        // Below the first fault too.
        assert_eq!((map[9_000], map[4_999], map.len()), (0, 7, 40_000));
        drop(map);
        assert_eq!(other[9_000], 0);
        assert!(other.is_torn());
    }

    #[test]
    fn many_files_are_guarded_and_ranges_are_used_again() {
        let (_folder, file) = file(&[7; 8192]);
        for _ in 0..2 {
            let maps: Vec<FileBytes> = (0..600).map(|_| FileBytes::of_file(&file).unwrap()).collect();
            file.set_len(0).unwrap();
            assert!(maps.iter().all(|map| map[4096] == 0 && map.is_torn()));
            file.set_len(8192).unwrap();
        }
        let map = FileBytes::of_file(&file).unwrap();
        assert!(map[8191] == 0 && !map.is_torn());
    }

    #[test]
    fn bytes_are_never_torn() {
        let map = FileBytes::of_bytes(b"abc").unwrap();
        assert!(map.starts_with(b"abc") && !map.is_torn());
    }
}
