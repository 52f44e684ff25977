//! Spans that are open on a thread: the generated program stores them in the thread's state, and its type information
//! tells where. A structure of `pf_spans` whose first member is `depth` or `open` contains that many of them.

use libbpf_rs::MapType;
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{MemberAttr, Struct};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use nix::libc;
use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Where each record's number of open spans is in a thread's state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct OpenSpans {
    places: Vec<(String, usize)>,
    /// Where it records that the thread has ended, and its spans are accounted for.
    ended: Option<usize>,
}

impl OpenSpans {
    /// Reads the layout from a program's type information.
    pub(super) fn of(btf: &Btf<'_>) -> Self {
        Self { places: places(btf).unwrap_or_default(), ended: ended(btf) }
    }

    /// Counts the open spans of threads, by record type; threads without state, or that have ended, have none. A hash map has
    /// the target's threads and no others, so all of them count.
    pub(super) fn count(&self, states: &MapHandle, threads: &[i32]) -> BTreeMap<String, u64> {
        let mut open = BTreeMap::new();
        if states.map_type() == MapType::Hash {
            let values = states.keys().filter_map(|key| states.lookup(&key, MapFlags::ANY).ok().flatten());
            values.for_each(|value| self.add(&value, &mut open));
            return open;
        }
        for thread in threads.iter().filter_map(|tid| thread_fd(*tid)) {
            let key = thread.as_raw_fd().to_ne_bytes();
            if let Ok(Some(value)) = states.lookup(&key, MapFlags::ANY) {
                self.add(&value, &mut open);
            }
        }
        open
    }

    /// Adds the open spans of one thread.
    fn add(&self, state: &[u8], open: &mut BTreeMap<String, u64>) {
        let number = |offset: usize| Some(u64::from_ne_bytes(*state.get(offset..)?.first_chunk()?));
        if self.ended.and_then(number).is_some_and(|ended| ended > 0) {
            return;
        }
        for (record, offset) in &self.places {
            if let Some(count) = number(*offset).filter(|count| *count > 0) {
                *open.entry(record.clone()).or_default() += count;
            }
        }
    }
}

fn ended(btf: &Btf<'_>) -> Option<usize> {
    let thread: Struct<'_> = btf.type_by_name("pf_thread")?;
    byte(&thread.iter().find(|member| member.name.is_some_and(|name| name == "ended"))?.attr)
}

fn places(btf: &Btf<'_>) -> Option<Vec<(String, usize)>> {
    let thread: Struct<'_> = btf.type_by_name("pf_thread")?;
    let spans = thread.iter().find(|member| member.name.is_some_and(|name| name == "spans"))?;
    let base = byte(&spans.attr)?;
    let spans: Struct<'_> = btf.type_by_id(spans.ty)?;
    let places = spans.iter().filter_map(|member| {
        let of: Struct<'_> = btf.type_by_id(member.ty)?;
        let first = of.get(0)?.name?;
        let record = member.name?.to_str()?;
        // A probe can be a call at one site and end at another probe's entry at the next.
        let record = record.strip_suffix("_open").unwrap_or(record).to_owned();
        (first == "depth" || first == "open").then_some((record, base + byte(&member.attr)?))
    });
    Some(places.collect())
}

fn byte(attr: &MemberAttr) -> Option<usize> {
    match attr {
        MemberAttr::Normal { offset } => usize::try_from(offset / 8).ok(),
        MemberAttr::BitField { .. } => None,
    }
}

/// A descriptor for a thread; before Linux 6.9 only for a process's first.
fn thread_fd(tid: i32) -> Option<OwnedFd> {
    const PIDFD_THREAD: libc::c_int = libc::O_EXCL;
    [PIDFD_THREAD, 0].into_iter().find_map(|flags| {
        // SAFETY: all arguments are plain numbers.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, tid, flags) };
        let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0)?;
        // SAFETY: the call succeeded, so this is a new descriptor that nobody else owns.
        Some(unsafe { OwnedFd::from_raw_fd(fd) })
    })
}
