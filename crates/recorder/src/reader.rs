//! The reading side of a BPF ring buffer: its pages in this process's memory, and a wait that only the programs'
//! wake-ups end early. It does not interpret the records.

use super::mapping::Mapping;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::mman::ProtFlags;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::time::Duration;

/// Bytes before each record: its length with two bits for its state, and a page number of the kernel's.
const HEADER: u64 = 8;
/// The record is still being written.
const BUSY: u32 = 1 << 31;
/// The record was given up.
const DISCARDED: u32 = 1 << 30;

/// A ring's pages. Each is mapped once: mapped twice in a row, as a ring can be, a record never has to be put together
/// of two parts, but every page counts twice in this process's memory.
#[derive(Debug)]
pub(super) struct RingPages {
    /// How far it was read: the one page that this process writes.
    read: Mapping,
    /// How far it was written, and from the second page on the records.
    written: Mapping,
    page: usize,
    size: u64,
    /// For a record that goes over the ring's end.
    whole: Vec<u8>,
}

// SAFETY: the mappings belong to this value alone, and are read and written through atomics, or where the kernel
// does not write.
unsafe impl Send for RingPages {}

impl RingPages {
    /// Maps a ring of that many bytes, a power of two.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn map(ring: BorrowedFd<'_>, size: u32) -> nix::Result<Self> {
        let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE)?;
        let page = page.and_then(|page| usize::try_from(page).ok()).ok_or(nix::Error::EINVAL)?;
        if !size.is_power_of_two() || (size as usize) < page {
            return Err(nix::Error::EINVAL);
        }
        let read = Mapping::new(ring, 0, page, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE)?;
        let written = Mapping::new(ring, page, page + size as usize, ProtFlags::PROT_READ)?;
        Ok(Self { read, written, page, size: u64::from(size), whole: Vec::new() })
    }

    /// Bytes of the ring.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Bytes that wait in it.
    pub(super) fn waiting(&self) -> u64 {
        self.produced().wrapping_sub(self.consumed().load(Ordering::Relaxed))
    }

    /// Reads records until none is left or `most` were read, then gives their space back. How many it were.
    pub(super) fn read(&mut self, most: usize, mut take: impl FnMut(&[u8])) -> usize {
        let mut at = self.consumed().load(Ordering::Relaxed);
        let until = self.produced();
        let mut count = 0;
        while at < until && count < most {
            let length = self.length_at(at);
            let bytes = u64::from(length & !(BUSY | DISCARDED));
            if length & BUSY != 0 || bytes > self.size - HEADER {
                break;
            }
            if length & DISCARDED == 0 {
                self.record(at + HEADER, bytes, &mut take);
            }
            at += (HEADER + bytes).next_multiple_of(8);
            count += 1;
        }
        if count > 0 {
            self.consumed().store(at, Ordering::Release);
        }
        count
    }

    /// Hands over the record at a position, which is complete and stays as it is until its space is given back.
    fn record(&mut self, position: u64, bytes: u64, take: &mut impl FnMut(&[u8])) {
        let start = position & (self.size - 1);
        let first = bytes.min(self.size - start);
        if first == bytes {
            return take(self.bytes(start, bytes));
        }
        let mut whole = std::mem::take(&mut self.whole);
        whole.clear();
        whole.extend_from_slice(self.bytes(start, first));
        whole.extend_from_slice(self.bytes(0, bytes - first));
        take(&whole);
        self.whole = whole;
    }

    /// Bytes of a complete record that are within the ring's end.
    fn bytes(&self, at: u64, length: u64) -> &[u8] {
        // SAFETY: `at + length` is within the ring's pages, which are mapped as long as `self` is there. The kernel does
        // not write to a record that is complete before its space is given back, which `read` does later.
        unsafe { std::slice::from_raw_parts(self.data().add(at as usize), length as usize) }
    }

    fn data(&self) -> *const u8 {
        // SAFETY: the mapping has a page before the records.
        unsafe { self.written.start().cast::<u8>().add(self.page).cast_const() }
    }

    fn consumed(&self) -> &AtomicU64 {
        // SAFETY: the first eight bytes of a page that is mapped as long as `self` is there, for reading and writing.
        unsafe { AtomicU64::from_ptr(self.read.start().cast()) }
    }

    /// How far it was written. On pages that may only be read, relaxed loads alone are sure not to write; the fence makes
    /// what was written before it visible.
    fn produced(&self) -> u64 {
        // SAFETY: the first eight bytes of a page that is mapped as long as `self` is there.
        let produced = unsafe { AtomicU64::from_ptr(self.written.start().cast()) }.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        produced
    }

    /// The length of the record at a position, with its two bits.
    fn length_at(&self, position: u64) -> u32 {
        let at = (position & (self.size - 1) & !7) as usize;
        // SAFETY: a multiple of eight below the ring's size, so four bytes within its pages.
        let length = unsafe { AtomicU32::from_ptr(self.data().add(at).cast_mut().cast()) }.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        length
    }
}

/// Waits between two readings.
#[derive(Debug)]
pub(super) struct Pause {
    epoll: Epoll,
    bell: Arc<EventFd>,
}

impl Pause {
    /// A pause that a program's wake-up at the ring ends, and the bell.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn new(ring: BorrowedFd<'_>) -> nix::Result<Self> {
        let bell = Arc::new(EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?);
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        // By edge: by level, records that nobody is woken for would end each pause as soon as it begins.
        epoll.add(ring, EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLET, 0))?;
        epoll.add(bell.as_fd(), EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLET, 1))?;
        Ok(Self { epoll, bell })
    }

    /// What ends a pause from elsewhere.
    pub(super) fn bell(&self) -> Arc<EventFd> {
        Arc::clone(&self.bell)
    }

    /// Waits for so long at most.
    pub(super) fn wait(&self, at_most: Duration) {
        let timeout = EpollTimeout::try_from(at_most).unwrap_or(EpollTimeout::ZERO);
        let waited = self.epoll.wait(&mut [EpollEvent::empty(); 2], timeout);
        if waited.is_err_and(|error| error != nix::Error::EINTR) {
            std::thread::sleep(at_most);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs::File;
    use std::os::unix::fs::FileExt;
    use std::time::Instant;

    const SIZE: u32 = 1 << 16;

    /// A file that is laid out as a ring is, and the writer's side of it.
    struct Fake {
        file: File,
        page: u64,
        produced: u64,
    }

    impl Fake {
        fn new() -> Self {
            let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).unwrap().unwrap() as u64;
            let file = tempfile::tempfile().unwrap();
            file.set_len(2 * page + u64::from(SIZE)).unwrap();
            Self { file, page, produced: 0 }
        }

        fn put(&self, position: u64, bytes: &[u8]) {
            for (position, byte) in (position..).zip(bytes) {
                let at = 2 * self.page + position % u64::from(SIZE);
                self.file.write_all_at(&[*byte], at).unwrap();
            }
        }

        fn send(&mut self, bytes: &[u8], flags: u32) {
            self.put(self.produced, &(bytes.len() as u32 | flags).to_ne_bytes());
            self.put(self.produced + HEADER, bytes);
            self.produced += (HEADER + bytes.len() as u64).next_multiple_of(8);
            self.file.write_all_at(&self.produced.to_ne_bytes(), self.page).unwrap();
        }

        fn map(&self) -> RingPages {
            RingPages::map(self.file.as_fd(), SIZE).unwrap()
        }
    }

    fn read(pages: &mut RingPages, most: usize) -> Vec<Vec<u8>> {
        let mut records = Vec::new();
        pages.read(most, |record| records.push(record.to_vec()));
        records
    }

    #[test]
    fn what_is_complete_is_read_in_order() {
        let mut ring = Fake::new();
        let mut pages = ring.map();
        assert!(read(&mut pages, 10).is_empty());
        ring.send(b"one", 0);
        ring.send(b"given up", DISCARDED);
        ring.send(b"two", 0);
        ring.send(b"three", 0);
        ring.send(b"not written yet", BUSY);
        ring.send(b"after it", 0);
        assert_eq!(pages.waiting(), 3 * 16 + 16 + 24 + 16);
        assert_eq!(read(&mut pages, 3), [b"one", b"two"]);
        assert_eq!(read(&mut pages, 10), [b"three"]);
        assert!(read(&mut pages, 10).is_empty(), "it waits for the one before");
        assert_eq!(pages.waiting(), 24 + 16);
    }

    #[test]
    fn a_length_that_cannot_be_ends_the_reading() {
        let mut ring = Fake::new();
        ring.send(b"fine", 0);
        ring.send(b"", SIZE);
        let mut pages = ring.map();
        assert_eq!(read(&mut pages, 10), [b"fine"]);
        assert!(read(&mut pages, 10).is_empty());
    }

    #[test]
    fn a_pause_ends_early_only_when_it_is_called_off() {
        let ring = Fake::new();
        // A plain file cannot be waited for; another descriptor stands for the ring.
        let quiet = EventFd::from_flags(EfdFlags::EFD_NONBLOCK).unwrap();
        let pause = Pause::new(quiet.as_fd()).unwrap();
        let bell = pause.bell();
        let start = Instant::now();
        pause.wait(Duration::from_millis(30));
        assert!(start.elapsed() >= Duration::from_millis(29));
        bell.write(1).unwrap();
        let start = Instant::now();
        pause.wait(Duration::from_secs(20));
        assert!(start.elapsed() < Duration::from_secs(10));
        let start = Instant::now();
        pause.wait(Duration::from_millis(30));
        assert!(start.elapsed() >= Duration::from_millis(29), "it rings once");
        drop(ring);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 20, ..ProptestConfig::default() })]
        #[test]
        fn records_come_back_whole_around_the_end(lengths in prop::collection::vec(0_usize..5000, 1..60)) {
            let mut ring = Fake::new();
            let mut pages = ring.map();
            for (number, length) in lengths.into_iter().enumerate() {
                let record = vec![number as u8; length];
                ring.send(&record, 0);
                prop_assert_eq!(read(&mut pages, 10), [record]);
                prop_assert_eq!(pages.waiting(), 0);
            }
        }
    }
}
