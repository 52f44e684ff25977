//! What had to be fetched while a step ran: major faults with how long their threads waited, and parts of files that
//! came into the page cache; by operator, by the tensor whose memory it was, by layer and by step.

use super::memory::{Memory, Part};
use super::threads::Threads;
use profinfer_schema::ReclaimKind;
use rustc_hash::FxHashMap;
use std::collections::{HashMap, VecDeque};

/// Signs of a thread until its next fault.
const MAX_SIGNS: usize = 512;
/// Threads with signs.
const MAX_THREADS: usize = 1 << 16;
/// ns. A thread that ran for longer than this between two signs of a fault was not in one all the while.
const ON_THE_WAY: u64 = 200_000;
/// One record of what the kernel did for a thread's memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawFetch {
    pub(crate) start: u64,
    pub(crate) thread: u32,
    pub(crate) what: What,
}

/// What it did.
#[derive(Debug, Clone, Copy)]
pub(crate) enum What {
    /// A page that was touched; `took` where the scheduler's events were recorded.
    Fault { address: u64, took: Option<FaultTime> },
    /// A part of a file.
    Cached { device: u32, inode: u64, offset: u64, bytes: u64 },
    /// It took other memory back, or moved it together.
    Reclaim { kind: Option<ReclaimKind>, end: u64 },
}

/// How long a fault took, ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct FaultTime {
    /// All of it.
    waited: u64,
    /// Of it, what the thread was on a cpu: having a page read is work, too, and where the read is done by the time that
    /// it was asked for, all of it is. Without reclaim, which has its own records.
    on_cpu: u64,
}

/// What was fetched of one part of memory for one operator of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// Index into `Step::operators`: its thread was in a span of it. `None` outside operators.
    pub operator: Option<u32>,
    /// The owner of the memory, if found.
    pub part: Option<Part>,
    /// How much.
    pub totals: FetchTotals,
}

/// Faults and bytes, added up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FetchTotals {
    /// Major faults: pages that a thread touched and had to wait for.
    pub faults: u64,
    /// Wait for them, ns, all threads together; of timed faults only.
    pub waited: u64,
    /// Of `waited`: ns that the threads were on a cpu.
    pub on_cpu: u64,
    /// Faults with a recorded wait.
    pub timed: u64,
    /// Bytes that came into the page cache.
    pub bytes: u64,
}

impl FetchTotals {
    /// Adds others.
    pub fn merge(&mut self, other: &Self) {
        self.faults = self.faults.saturating_add(other.faults);
        self.waited = self.waited.saturating_add(other.waited);
        self.on_cpu = self.on_cpu.saturating_add(other.on_cpu);
        self.timed = self.timed.saturating_add(other.timed);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }

    /// Order by wait, then faults, then bytes, largest first.
    pub fn longest_first(&self, other: &Self) -> std::cmp::Ordering {
        (other.waited, other.faults, other.bytes).cmp(&(self.waited, self.faults, self.bytes))
    }
}

/// What a thread did that may be a sign of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    /// It was off its cpu and nothing but the end of a read, or the like, could have it run again.
    Blocked,
    /// It was off its cpu for another thread's turn.
    Preempted,
    /// It slept, which no thread does in a fault.
    Asleep,
    /// It had a part of a file read.
    Reading,
    /// Memory was taken back for it, on its cpu and off.
    Reclaiming,
}

/// A sign of a fault, and when.
#[derive(Debug, Clone, Copy)]
struct Seen {
    start: u64,
    end: u64,
    sign: Sign,
}

/// What was seen of a thread since its latest fault.
#[derive(Debug, Default)]
struct Signs {
    left: Option<(u64, Sign)>,
    seen: VecDeque<Seen>,
}

impl Signs {
    fn push(&mut self, seen: Seen) {
        if self.seen.len() >= MAX_SIGNS {
            self.seen.pop_front();
        }
        self.seen.push_back(seen);
    }
}

/// Signs of faults, by thread: a fault is recorded when it ends.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    threads: FxHashMap<u32, Signs>,
    saw_switches: bool,
}

impl Waits {
    /// A thread left its cpu. Bit 1 of a state is the same in every version of the kernel.
    pub(crate) fn left(&mut self, tid: u32, time: u64, state: u64) {
        self.saw_switches = true;
        let sign = match state {
            0 => Sign::Preempted,
            state if state & 2 != 0 => Sign::Blocked,
            _ => Sign::Asleep,
        };
        if let Some(signs) = self.signs(tid) {
            signs.left = Some((time, sign));
        }
    }

    /// A thread runs (again).
    pub(crate) fn ran(&mut self, tid: u32, time: u64) {
        let Some(signs) = self.threads.get_mut(&tid) else { return };
        if let Some((start, sign)) = signs.left.take() {
            signs.push(Seen { start, end: time.max(start), sign });
        }
    }

    /// A thread has a part of a file read: it touched it, or something near it.
    pub(crate) fn reads(&mut self, tid: u32, time: u64) {
        if let Some(signs) = self.signs(tid) {
            signs.push(Seen { start: time, end: time, sign: Sign::Reading });
        }
    }

    /// Memory was taken back for a thread: it may be for the page that it touched.
    pub(crate) fn reclaimed(&mut self, tid: u32, start: u64, end: u64) {
        if let Some(signs) = self.signs(tid) {
            signs.push(Seen { start, end, sign: Sign::Reclaiming });
        }
    }

    fn signs(&mut self, tid: u32) -> Option<&mut Signs> {
        if self.threads.len() >= MAX_THREADS && !self.threads.contains_key(&tid) {
            return None;
        }
        Some(self.threads.entry(tid).or_default())
    }

    /// How long a thread waited for a fault that is over now: since the first of the signs that follow one another up
    /// to now. `None` where the scheduler's switches are not recorded.
    pub(crate) fn take(&mut self, tid: u32, time: u64) -> Option<FaultTime> {
        self.ran(tid, time);
        if !self.saw_switches {
            return None;
        }
        let Some(signs) = self.threads.get_mut(&tid) else { return Some(FaultTime::default()) };
        let (mut began, mut from) = (time, time);
        // Off its cpu, or in reclaim, since `from`, and since `began`.
        let (mut off, mut off_cpu, mut reclaimed_from) = (0, 0, u64::MAX);
        for seen in signs.seen.drain(..).rev() {
            if from.saturating_sub(seen.end) > ON_THE_WAY || seen.sign == Sign::Asleep {
                break;
            }
            from = from.min(seen.start);
            // What is within reclaim is counted with it: it was sent before.
            if seen.start < reclaimed_from {
                off = u64::saturating_add(off, seen.end.min(reclaimed_from).saturating_sub(seen.start));
            }
            if seen.sign == Sign::Reclaiming {
                reclaimed_from = reclaimed_from.min(seen.start);
            }
            if !matches!(seen.sign, Sign::Preempted | Sign::Reclaiming) {
                (began, off_cpu) = (began.min(seen.start), off);
            }
        }
        let waited = time - began;
        Some(FaultTime { waited, on_cpu: waited.saturating_sub(off_cpu) })
    }

    /// A thread has ended.
    pub(crate) fn forget(&mut self, tid: u32) {
        self.threads.remove(&tid);
    }
}

/// Puts what was fetched in a step together by operator and part. `operator_at` finds the operator that a thread was
/// in at a time, and since when: no fault in it began before, nor before the step, which began at `step_start`.
pub(crate) fn gather(
    raw: &[RawFetch],
    memory: &Memory,
    threads: &Threads,
    step_start: u64,
    operator_at: impl Fn(u32, u64) -> Option<(u32, u64)>,
) -> Vec<Fetched> {
    let mut sums: HashMap<(Option<u32>, Option<Part>), FetchTotals> = HashMap::new();
    for fetch in raw {
        let found = operator_at(fetch.thread, fetch.start);
        let (operator, since) = (found.map(|found| found.0), found.map_or(step_start, |found| found.1));
        let process = threads.get(fetch.thread).process;
        let mut add = |part: Option<Part>, totals: FetchTotals| {
            sums.entry((operator, part)).or_default().merge(&totals);
        };
        match fetch.what {
            What::Fault { address, took } => {
                let FaultTime { waited, on_cpu } = took.unwrap_or_default();
                let waited = waited.min(fetch.start.saturating_sub(since));
                let timed = u64::from(took.is_some());
                let totals = FetchTotals { faults: 1, waited, on_cpu: on_cpu.min(waited), timed, bytes: 0 };
                add(memory.at(process, address, threads), totals);
            }
            What::Cached { device, inode, offset, bytes } => {
                let part = offset..offset.saturating_add(bytes);
                let mut left = bytes;
                for (part, bytes) in memory.in_file(process, device, inode, part, threads) {
                    left = left.saturating_sub(bytes);
                    add(Some(part), FetchTotals { bytes, ..FetchTotals::default() });
                }
                if left > 0 {
                    add(None, FetchTotals { bytes: left, ..FetchTotals::default() });
                }
            }
            What::Reclaim { .. } => {}
        }
    }
    let mut fetched: Vec<Fetched> =
        sums.into_iter().map(|((operator, part), totals)| Fetched { operator, part, totals }).collect();
    fetched.sort_by(|a, b| (a.operator, &a.part).cmp(&(b.operator, &b.part)));
    fetched
}
