//! What had to be fetched while a step ran: major faults with how long their threads waited, and parts of files that
//! came into the page cache; by operator, by the tensor whose memory it was, by layer and by step.

use super::catalogue::{Catalogue, KindId};
use super::hash::FastMap;
use super::memory::{Memory, Part};
use super::step::{Operator, Phase, Step};
use super::threads::Threads;
use crate::spec::Role;
use crate::trace::Schema;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

/// Signs that are kept of a thread until its next fault.
const MAX_SIGNS: usize = 512;
/// Threads whose signs are kept.
const MAX_THREADS: usize = 1 << 16;
/// ns. A thread that ran for longer than this between two signs of a fault was not in one all the while.
const ON_THE_WAY: u64 = 200_000;
/// Parts of memory that are counted apart.
const MAX_PARTS: usize = 1 << 20;
/// Steps that are told one by one: those that waited longest.
const SLOWEST: usize = 16;

/// One record of something that was fetched.
#[derive(Debug, Clone, Copy)]
pub(super) struct RawFetch {
    pub(super) start: u64,
    pub(super) thread: u32,
    pub(super) what: What,
}

/// What was fetched.
#[derive(Debug, Clone, Copy)]
pub(super) enum What {
    /// A page that was touched; `took` where the scheduler's events were recorded.
    Fault { address: u64, took: Option<FaultTime> },
    /// A part of a file.
    Cached { device: u32, inode: u64, offset: u64, bytes: u64 },
}

/// How long a fault took, ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct FaultTime {
    /// All of it.
    waited: u64,
    /// Of it, what the thread was on a cpu: having a page read is work, too, and where the read is done by the time that
    /// it was asked for, all of it is.
    on_cpu: u64,
}

/// What was fetched of one part of memory for one operator of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// Index into [`Step::operators`]: its thread was in a span of it. `None` outside operators.
    pub operator: Option<u32>,
    /// Whose memory it is, where that is known.
    pub part: Option<Part>,
    /// How much.
    pub totals: FetchTotals,
}

/// Faults and bytes, added up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FetchTotals {
    /// Major faults: pages that a thread touched and had to wait for.
    pub faults: u64,
    /// ns that threads waited for them, all threads together; of those faults alone of which it is known.
    pub waited: u64,
    /// Of `waited`: ns that the threads were on a cpu.
    pub on_cpu: u64,
    /// Faults of which it is known how long their threads waited.
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

    /// What was waited for longest comes first; where no time is known, what had the most faults, then bytes.
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

/// Signs of faults, by thread: a fault is told of only when it is over, and not when it began.
#[derive(Debug, Default)]
pub(super) struct Waits {
    threads: FastMap<u32, Signs>,
    saw_switches: bool,
}

impl Waits {
    /// A thread left its cpu. Bit 1 of a state is the same in every version of the kernel.
    pub(super) fn left(&mut self, tid: u32, time: u64, state: u64) {
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
    pub(super) fn ran(&mut self, tid: u32, time: u64) {
        let Some(signs) = self.threads.get_mut(&tid) else { return };
        if let Some((start, sign)) = signs.left.take() {
            signs.push(Seen { start, end: time.max(start), sign });
        }
    }

    /// A thread has a part of a file read: it touched it, or something near it.
    pub(super) fn reads(&mut self, tid: u32, time: u64) {
        if let Some(signs) = self.signs(tid) {
            signs.push(Seen { start: time, end: time, sign: Sign::Reading });
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
    pub(super) fn take(&mut self, tid: u32, time: u64) -> Option<FaultTime> {
        self.ran(tid, time);
        if !self.saw_switches {
            return None;
        }
        let Some(signs) = self.threads.get_mut(&tid) else { return Some(FaultTime::default()) };
        let (mut began, mut from) = (time, time);
        // Off its cpu since `from`, and since `began`.
        let (mut off, mut off_cpu) = (0, 0);
        for seen in signs.seen.drain(..).rev() {
            if from.saturating_sub(seen.end) > ON_THE_WAY || seen.sign == Sign::Asleep {
                break;
            }
            from = seen.start;
            off = u64::saturating_add(off, seen.end - seen.start);
            if seen.sign != Sign::Preempted {
                (began, off_cpu) = (began.min(seen.start), off);
            }
        }
        let waited = time - began;
        Some(FaultTime { waited, on_cpu: waited.saturating_sub(off_cpu) })
    }

    /// A thread has ended.
    pub(super) fn forget(&mut self, tid: u32) {
        self.threads.remove(&tid);
    }
}

/// Puts what was fetched in a step together by operator and part. `operator_at` finds the operator that a thread was
/// in at a time, and since when: no fault in it began before, nor before the step, which began at `step_start`.
pub(super) fn gather(
    raw: &[RawFetch],
    memory: &Memory,
    (threads, step_start): (&Threads, u64),
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
                for (part, bytes) in memory.in_file(process, (device, inode), part, threads) {
                    left = left.saturating_sub(bytes);
                    add(Some(part), FetchTotals { bytes, ..FetchTotals::default() });
                }
                if left > 0 {
                    add(None, FetchTotals { bytes: left, ..FetchTotals::default() });
                }
            }
        }
    }
    let mut fetched: Vec<Fetched> =
        sums.into_iter().map(|((operator, part), totals)| Fetched { operator, part, totals }).collect();
    fetched.sort_by(|a, b| (a.operator, &a.part).cmp(&(b.operator, &b.part)));
    fetched
}

/// The layer that something fetched is of: its memory's, else that of the operator that touched it.
fn layer_of(fetched: &Fetched, operators: &[Operator], catalogue: &Catalogue) -> Option<Arc<str>> {
    let of_memory = fetched.part.as_ref().and_then(|part| part.owner.layer.clone());
    let operator = || operators.get(fetched.operator? as usize).map(|operator| operator.kind);
    of_memory.or_else(|| operator().and_then(|kind| catalogue.kind(kind).layer.clone()))
}

/// What was fetched of one part in one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepPart {
    /// Whose memory it is, where that is known.
    pub part: Option<Part>,
    /// Its layer, where that is known.
    pub layer: Option<Arc<str>>,
    /// How much.
    pub totals: FetchTotals,
}

/// A step that waited for what it touched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingStep {
    /// Its number.
    pub number: u64,
    /// What it was.
    pub phase: Phase,
    /// ns.
    pub duration: u64,
    /// The lanes that it had.
    pub lanes: u64,
    /// All of it.
    pub totals: FetchTotals,
    /// By part, what was waited for longest first.
    pub parts: Vec<StepPart>,
}

/// Of a part of memory, and the layer that it is of.
type PartOfLayer = (Option<Part>, Option<Arc<str>>);

/// Everything that was fetched during steps that were recorded whole.
#[derive(Debug, Default)]
pub struct Faults {
    phases: BTreeMap<Phase, (u64, FetchTotals)>,
    parts: HashMap<(PartOfLayer, Phase), FetchTotals>,
    layers: BTreeMap<(Option<Arc<str>>, Phase), FetchTotals>,
    operators: FastMap<(Option<KindId>, Phase), FetchTotals>,
    slowest: Vec<WaitingStep>,
    left_out: u64,
}

impl Faults {
    /// Whether a trace of a schema has major faults, and whether it has what came into the page cache.
    pub fn recorded_by(schema: &Schema) -> (bool, bool) {
        let has = |role: Role| schema.records.iter().any(|record| record.role == Some(role));
        (has(Role::Fault), has(Role::PageCache))
    }

    /// Takes a step.
    pub(super) fn add(&mut self, step: &Step, phase: Phase, catalogue: &Catalogue) {
        if step.fetched.is_empty() {
            return;
        }
        let mut all = FetchTotals::default();
        let mut parts: HashMap<PartOfLayer, FetchTotals> = HashMap::new();
        for fetched in &step.fetched {
            all.merge(&fetched.totals);
            let layer = layer_of(fetched, &step.operators, catalogue);
            self.layers.entry((layer.clone(), phase)).or_default().merge(&fetched.totals);
            let operator = fetched.operator.and_then(|o| step.operators.get(o as usize)).map(|o| o.kind);
            self.operators.entry((operator, phase)).or_default().merge(&fetched.totals);
            parts.entry((fetched.part.clone(), layer)).or_default().merge(&fetched.totals);
        }
        for ((part, layer), totals) in &parts {
            let key = ((part.clone(), layer.clone()), phase);
            if self.parts.len() >= MAX_PARTS && !self.parts.contains_key(&key) {
                self.left_out += totals.faults;
                continue;
            }
            self.parts.entry(key).or_default().merge(totals);
        }
        let (steps, totals) = self.phases.entry(phase).or_default();
        *steps += u64::from(all.faults > 0);
        totals.merge(&all);
        if phase != Phase::Outside && all.faults > 0 {
            self.keep(step, phase, all, parts);
        }
    }

    fn keep(&mut self, step: &Step, phase: Phase, totals: FetchTotals, parts: HashMap<PartOfLayer, FetchTotals>) {
        let shorter = |other: &WaitingStep| (other.totals.waited, other.totals.faults) < (totals.waited, totals.faults);
        let place = self.slowest.iter().position(shorter).unwrap_or(self.slowest.len());
        if place >= SLOWEST {
            return;
        }
        let mut parts: Vec<StepPart> =
            parts.into_iter().map(|((part, layer), totals)| StepPart { part, layer, totals }).collect();
        parts.sort_by(|a, b| a.totals.longest_first(&b.totals).then_with(|| a.part.cmp(&b.part)));
        let (number, duration, lanes) = (step.number, step.duration(), step.lane_numbers.len() as u64);
        self.slowest.insert(place, WaitingStep { number, phase, duration, lanes, totals, parts });
        self.slowest.truncate(SLOWEST);
    }

    /// Steps of a phase that had faults, and what was fetched in all of it.
    pub fn phase(&self, phase: Phase) -> Option<(u64, FetchTotals)> {
        self.phases.get(&phase).copied()
    }

    /// By part of memory and its layer.
    pub fn parts(&self, phases: &[Phase]) -> Vec<StepPart> {
        let mut sums: HashMap<PartOfLayer, FetchTotals> = HashMap::new();
        for ((part, _), totals) in self.parts.iter().filter(|((_, phase), _)| phases.contains(phase)) {
            sums.entry(part.clone()).or_default().merge(totals);
        }
        let mut parts: Vec<StepPart> =
            sums.into_iter().map(|((part, layer), totals)| StepPart { part, layer, totals }).collect();
        parts.sort_by(|a, b| a.totals.longest_first(&b.totals).then_with(|| a.part.cmp(&b.part)));
        parts
    }

    /// By layer, in no order that means anything.
    pub fn layers(&self, phases: &[Phase]) -> BTreeMap<Option<Arc<str>>, FetchTotals> {
        let mut sums: BTreeMap<Option<Arc<str>>, FetchTotals> = BTreeMap::new();
        for ((layer, _), totals) in self.layers.iter().filter(|((_, phase), _)| phases.contains(phase)) {
            sums.entry(layer.clone()).or_default().merge(totals);
        }
        sums
    }

    /// By operator; `None`: outside of any.
    pub fn operators(&self, phases: &[Phase]) -> BTreeMap<Option<KindId>, FetchTotals> {
        let mut sums: BTreeMap<Option<KindId>, FetchTotals> = BTreeMap::new();
        for ((kind, _), totals) in self.operators.iter().filter(|((_, phase), _)| phases.contains(phase)) {
            sums.entry(*kind).or_default().merge(totals);
        }
        sums
    }

    /// The steps that waited longest, the longest first.
    pub fn slowest(&self) -> &[WaitingStep] {
        &self.slowest
    }

    /// Faults whose part of memory is not told apart, there being too many.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }
}
