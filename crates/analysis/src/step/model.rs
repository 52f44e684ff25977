//! A finished step with everything that happened in it. All lists are flat, so that a
//! step is a few allocations whatever it holds.

use super::batch::{RequestEvent, SequencePart};
use super::faults::Fetched;
use super::offload_model::{Dispatch, QueueEvent, Submission};
use super::reclaim::Reclaim;
use super::thread_state::ThreadState;
use crate::catalogue::Cost;
use crate::ids::{KindId, ObjectId, Phase, TextId};
use crate::raw::{Count, Decoder, Header, Operands};
use crate::sampling::{Divided, Recorded, StepRow};
use std::ops::Range;

/// A finished step. Times are ns of CLOCK_MONOTONIC.
#[derive(Debug, Clone, Default)]
pub struct Step {
    /// In the order of their ends, from 1; 0 for [`Phase::Outside`].
    pub number: u64,
    /// Its phase; `None` only during assembly.
    pub phase: Option<Phase>,
    /// The process's number in the kernel.
    pub pid: u32,
    /// The thread that ran it; 0 for [`Phase::Outside`].
    pub tid: u32,
    /// When it began.
    pub start: u64,
    /// When it ended.
    pub end: u64,
    /// Tokens it took in.
    pub tokens: Option<u64>,
    /// No record of its process was lost during it.
    pub complete: bool,
    /// How much of it was recorded.
    pub recorded: Recorded,
    /// The window in which it, or the step before it, had its operators recorded; `None` where all have.
    pub window: Option<u32>,
    /// Times in which nothing was recorded that began before it.
    pub stretch: u32,
    /// It began before the sampling window was to end, or there is none.
    pub is_planned: bool,
    /// Its records of graphs, operators, regions and experts: how many, by record type.
    pub records: Vec<(u16, u64)>,
    /// What was lost during it, by thread. A loss between two steps, or one of a thread that was idle since an earlier
    /// step, may be either's: it is counted for both.
    pub missing: Vec<Missing>,
    /// Its record, by `Decoder::fields`; empty for [`Phase::Outside`].
    pub record: Box<[u8]>,
    /// By start.
    pub graphs: Vec<Graph>,
    /// By start: the order of execution.
    pub operators: Vec<Operator>,
    /// Grouped by operator; see [`Operator::lanes`].
    pub lanes: Vec<LaneSpan>,
    /// Counters of the trace: counts of a lane's share.
    pub counter_columns: usize,
    /// Counts of all shares, `counter_columns` each; see [`Self::count_of`].
    pub counts: Vec<Count>,
    /// Counts of the step's thread over the whole step, one for each column; empty if not counted.
    pub own_counts: Box<[Count]>,
    /// By thread, then start.
    pub regions: Vec<Region>,
    /// Experts that were used.
    pub experts: Vec<Experts>,
    /// Operators that were encoded for other processors, by start.
    pub dispatches: Vec<Dispatch>,
    /// Events of these processors' queues, by start; up to the next step.
    pub queue: Vec<QueueEvent>,
    /// What was submitted to them, by start.
    pub submissions: Vec<Submission>,
    /// What it takes in, by sequence; empty where that was not recorded.
    pub sequences: Vec<SequencePart>,
    /// Position of its first token in its sequence, if recorded.
    pub position: Option<u64>,
    /// Sequences that it has tokens of; 1 if nothing counts them.
    pub sequence_count: u64,
    /// What happened to requests up to its end, since the end of the step before in the trace.
    pub requests: Vec<RequestEvent>,
    /// What had to be fetched, by operator and part of memory.
    pub fetched: Vec<Fetched>,
    /// Times in which the kernel took memory back for its threads, by thread, then start.
    pub reclaims: Vec<Reclaim>,
    /// Whether these were recorded.
    pub knows_reclaims: bool,
    /// Times that its threads were not running, by thread, clipped to the step.
    pub off_cpu: Vec<OffCpu>,
    /// What its threads did, by thread, then start: each thread's time in the step without gaps. Empty where the
    /// scheduler's events were not recorded.
    pub states: Vec<StateSpan>,
    /// Times that others ran while a thread of it could have, by thread, then start.
    pub instead: Vec<Instead>,
    /// What its thread did since that thread's step before. `None`: it has none, or the scheduler's events were not
    /// recorded.
    pub between: Option<Between>,
    /// How the time of each of `lanes` was spent; empty where `states` is.
    pub splits: Vec<TimeSplit>,
    /// Wake-ups were recorded, so that a thread which could run again is not taken for asleep.
    pub knows_wakeups: bool,
    /// Number of processors that its threads may run on, if recorded.
    pub cpus_allowed: Option<u32>,
    /// The distinct lanes of its operators, by number.
    pub lane_numbers: Vec<u32>,
    /// Nanoseconds in which a graph was being computed: graphs that overlap count once.
    pub in_graphs: u64,
    /// Operators with an ambiguous graph: several of their process were open.
    pub ambiguous: u64,
    /// Shares of operators, left out: several operators were being computed.
    pub ambiguous_shares: u64,
}

impl Step {
    /// The step without its contents, of this phase.
    pub(crate) fn row(&self, phase: Phase, decoder: &Decoder) -> StepRow {
        let Self { number, pid, tid, start, end, tokens, position, complete, recorded, window, .. } = *self;
        let (stretch, is_planned) = (self.stretch, self.is_planned);
        let instance = self.instance(decoder);
        StepRow {
            number,
            phase,
            pid,
            tid,
            instance,
            start,
            end,
            tokens,
            position,
            complete,
            recorded,
            window,
            stretch,
            is_planned,
        }
    }

    /// The model within the process, where its record has it.
    pub(crate) fn instance(&self, decoder: &Decoder) -> Option<i64> {
        decoder.instance(&Header::read(&self.record)?, &self.record)
    }

    /// Nothing was recorded in it.
    pub fn is_empty(&self) -> bool {
        self.graphs.is_empty()
            && self.operators.is_empty()
            && self.regions.is_empty()
            && self.experts.is_empty()
            && self.fetched.is_empty()
            && self.reclaims.is_empty()
            && self.dispatches.is_empty()
            && self.queue.is_empty()
    }

    /// Nanoseconds.
    pub fn duration(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// Tokens that its last token attends to, itself included, by its position; `None` if that was not recorded, or it
    /// has several sequences.
    pub fn context_by_position(&self) -> Option<u64> {
        let position = self.position.filter(|_| self.sequence_count <= 1)?;
        Some(position.saturating_add(self.tokens.unwrap_or(1)))
    }

    /// The same by the shapes of its operators, which engines round up; `None` if the probeset does not say which.
    pub fn context_by_operators(&self) -> Option<u64> {
        self.operators.iter().filter_map(|operator| operator.cost.context).max()
    }

    /// When all that it submitted was done, ns, at the latest; `None` if it submitted nothing, or not all was waited for.
    pub fn results_by(&self) -> Option<u64> {
        let own = self.submissions.iter().filter(|of| of.start < self.end);
        own.map(|of| of.done).reduce(|last, done| Some(last?.max(done?))).flatten()
    }

    /// What a lane's share counted of a counter.
    pub fn count_of(&self, share: &LaneSpan, column: usize) -> Count {
        if column >= self.counter_columns {
            return Count::Absent;
        }
        let at = (share.counts as usize).saturating_mul(self.counter_columns).saturating_add(column);
        self.counts.get(at).copied().unwrap_or_default()
    }

    /// The lane spans of an operator.
    pub fn lanes_of(&self, operator: &Operator) -> &[LaneSpan] {
        self.lanes.get(operator.lanes.start as usize..operator.lanes.end as usize).unwrap_or(&[])
    }

    /// How many lanes computed an operator.
    pub fn lane_count_of(&self, operator: &Operator) -> usize {
        let spans = self.lanes_of(operator);
        let is_first = |at: usize, lane: u32| spans.iter().take(at).all(|before| before.lane != lane);
        spans.iter().enumerate().filter(|(at, span)| is_first(*at, span.lane)).count()
    }

    /// How an operator's time was spent, over its lanes; `None` where the scheduler's events were not recorded.
    pub fn split_of(&self, operator: &Operator) -> Option<TimeSplit> {
        let splits = self.splits.get(operator.lanes.start as usize..operator.lanes.end as usize)?;
        Some(splits.iter().fold(TimeSplit::default(), |sum, split| sum.plus(split)))
    }
}

/// The time between two steps of a thread.
#[derive(Debug, Clone, Default)]
pub struct Between {
    /// What the thread did, by start, without gaps.
    pub states: Vec<StateSpan>,
    /// Times that others ran while it could have, by start.
    pub instead: Vec<Instead>,
}

/// Records of a thread that were lost during a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Missing {
    /// The thread with the gap; 0 if gaps of several threads were merged.
    pub tid: u32,
    /// Its lane, where it computed operators of the step.
    pub lane: Option<u32>,
    /// How many at most.
    pub records: u64,
}

/// One computation of a graph.
#[derive(Debug, Clone)]
pub struct Graph {
    /// The thread that ran it.
    pub tid: u32,
    /// ns.
    pub start: u64,
    /// ns.
    pub end: u64,
    /// The backend; the probe's name if the probeset has none.
    pub backend: TextId,
    /// Index of the graph that contains it.
    pub parent: Option<u32>,
    /// Tokens, if the probeset has them.
    pub tokens: Option<u64>,
    /// Its record.
    pub record: Box<[u8]>,
}

/// One operator of one graph, over its lanes.
#[derive(Debug, Clone)]
pub struct Operator {
    /// What it is.
    pub kind: KindId,
    /// The object that it computes, if the probeset has it.
    pub object: Option<ObjectId>,
    /// Index into [`Step::graphs`]; `None` outside graphs.
    pub graph: Option<u32>,
    /// The earliest lane's start, ns.
    pub start: u64,
    /// The latest end of a lane's work, ns; waiting left out.
    pub end: u64,
    /// ns of work, all lanes together; operators called by it left out.
    pub work: u64,
    /// ns of waiting, all lanes together, where it was recorded.
    pub waiting: u64,
    /// ns of `work` of lanes whose waiting was not recorded, and is part of it.
    pub undivided: u64,
    /// Range in [`Step::lanes`].
    pub lanes: Range<u32>,
    /// What it costs, by the probeset; operators called by it left out.
    pub cost: Cost,
    /// Within it, its thread gave work to a device: its time is the host's part, and no time of its cost.
    pub gives_work: bool,
    /// The data that it read and computed, where its record says so.
    pub operands: Option<Box<Operands>>,
}

impl Operator {
    /// The waiting of all its lanes was recorded, or none waited.
    pub fn is_divided(&self) -> bool {
        self.undivided == 0
    }

    /// ns of work and waiting, all lanes together.
    pub fn lane_time(&self) -> u64 {
        self.work.saturating_add(self.waiting)
    }
}

/// One thread's share of an operator.
#[derive(Debug, Clone, Default)]
pub struct LaneSpan {
    /// The lane's number, by the field `lane`; else the rank of its thread in the step, the step's thread first.
    pub lane: u32,
    /// The thread.
    pub tid: u32,
    /// ns.
    pub start: u64,
    /// ns; clipped to the graph.
    pub end: u64,
    /// ns of waiting at its end.
    pub waiting: u64,
    /// Its waiting was not recorded, and is part of its work: boundaries were not probed, and there are several lanes.
    pub undivided: bool,
    /// ns of operators that it called, on this thread.
    pub nested: u64,
    /// Index of its counts in [`Step::counts`].
    pub counts: u32,
    /// Its record, where it has fields that no rule uses.
    pub record: Option<Box<[u8]>>,
}

impl LaneSpan {
    /// ns of work.
    pub fn work(&self) -> u64 {
        self.end.saturating_sub(self.start).saturating_sub(self.waiting).saturating_sub(self.nested)
    }
}

/// A span that is neither step, graph nor operator: a barrier, a copy, a load.
#[derive(Debug, Clone)]
pub struct Region {
    /// Index of its record type in the schema.
    pub record_type: u16,
    /// The thread.
    pub tid: u32,
    /// ns.
    pub start: u64,
    /// ns.
    pub end: u64,
    /// It lies within a span of this operator on its thread (index into [`Step::operators`]).
    pub operator: Option<u32>,
    /// Its record, where it has fields that no rule uses.
    pub record: Option<Box<[u8]>>,
}

/// The experts that an operator used.
#[derive(Debug, Clone)]
pub struct Experts {
    /// What the operator is.
    pub kind: KindId,
    /// Index into [`Step::operators`], where the operator itself was seen.
    pub operator: Option<u32>,
    /// Experts for each token, if the probeset has it.
    pub per_token: Option<u32>,
    /// One for each token and choice.
    pub ids: Vec<u32>,
}

/// A time that a thread was not running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffCpu {
    /// The thread.
    pub tid: u32,
    /// ns.
    pub start: u64,
    /// When it could have run again, ns: a wakeup, or the start for a thread that was preempted.
    pub runnable: u64,
    /// ns.
    pub end: u64,
}

/// A time that a thread was in one state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateSpan {
    /// The thread.
    pub tid: u32,
    /// What it did.
    pub state: ThreadState,
    /// The cpu that it ran on, or waited for.
    pub cpu: Option<u16>,
    /// ns.
    pub start: u64,
    /// ns.
    pub end: u64,
}

/// A time that another ran, on the cpu that a thread waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instead {
    /// The thread that waited.
    pub tid: u32,
    /// The process that ran; 0: none, the cpu was idle.
    pub pid: u32,
    /// The name of its thread.
    pub name: Option<TextId>,
    /// That thread is the process's first.
    pub of_leader: bool,
    /// The process is recorded.
    pub own: bool,
    /// The operator that the waiting thread was computing (index into [`Step::operators`]); `None` where it was
    /// computing none, or was done with its share.
    pub operator: Option<u32>,
    /// ns.
    pub start: u64,
    /// ns.
    pub end: u64,
}

/// How a lane's time in an operator was spent. All are ns; their sum is its span, operators that it called left out,
/// and, without a probe of waiting, the time until the slowest lane was done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TimeSplit {
    /// On a cpu, working.
    pub compute: u64,
    /// Done, and waiting for the slowest lane, whatever the thread did in the meantime.
    pub waiting: u64,
    /// Able to run, while others did.
    pub runnable: u64,
    /// Asleep: a lock, also of the kernel, a timer.
    pub sleeping: u64,
    /// In uninterruptible wait for input or output: mostly for a disk.
    pub blocked: u64,
    /// Stopped by a signal or a debugger.
    pub stopped: u64,
    /// Stopped by the recorder, while it placed probes.
    pub attaching: u64,
    /// Unknown.
    pub unknown: u64,
    /// Of `compute`: on lanes whose waiting was not recorded, and is part of it.
    pub undivided: u64,
    /// Of `compute`: in the kernel's reclaim or compaction.
    pub reclaiming: u64,
    /// Of `blocked`: in the kernel's reclaim or compaction.
    pub reclaim_blocked: u64,
}

impl TimeSplit {
    /// Adds time in a state; `None` is waiting.
    pub(crate) fn add(&mut self, state: Option<ThreadState>, ns: u64) {
        let sum = match state {
            None => &mut self.waiting,
            Some(ThreadState::Running) => &mut self.compute,
            Some(ThreadState::Runnable) => &mut self.runnable,
            Some(ThreadState::Sleeping) => &mut self.sleeping,
            Some(ThreadState::Blocked) => &mut self.blocked,
            Some(ThreadState::Stopped) => &mut self.stopped,
            Some(ThreadState::Attaching) => &mut self.attaching,
            Some(ThreadState::Unknown) => &mut self.unknown,
        };
        *sum = sum.saturating_add(ns);
    }

    /// Adds time in a state that was in the kernel's reclaim or compaction, which [`Self::add`] is given too.
    pub(crate) fn add_reclaim(&mut self, state: ThreadState, ns: u64) {
        let sum = match state {
            ThreadState::Running => &mut self.reclaiming,
            ThreadState::Blocked => &mut self.reclaim_blocked,
            _ => return,
        };
        *sum = sum.saturating_add(ns);
    }

    /// All of it in the kernel's reclaim or compaction.
    pub fn reclaim(&self) -> u64 {
        self.reclaiming.saturating_add(self.reclaim_blocked)
    }

    /// Both together.
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            compute: self.compute.saturating_add(other.compute),
            waiting: self.waiting.saturating_add(other.waiting),
            runnable: self.runnable.saturating_add(other.runnable),
            sleeping: self.sleeping.saturating_add(other.sleeping),
            blocked: self.blocked.saturating_add(other.blocked),
            stopped: self.stopped.saturating_add(other.stopped),
            attaching: self.attaching.saturating_add(other.attaching),
            unknown: self.unknown.saturating_add(other.unknown),
            undivided: self.undivided.saturating_add(other.undivided),
            reclaiming: self.reclaiming.saturating_add(other.reclaiming),
            reclaim_blocked: self.reclaim_blocked.saturating_add(other.reclaim_blocked),
        }
    }

    /// The same with the undivided part of `compute` divided as the rest was.
    pub fn divided(&self) -> Self {
        let Divided { work, waiting, .. } = Divided::new(self.compute, self.waiting, self.undivided);
        let undivided = if waiting.is_some() { 0 } else { self.undivided };
        Self { compute: work, waiting: waiting.unwrap_or(self.waiting), undivided, ..*self }
    }

    /// All of it.
    pub fn total(&self) -> u64 {
        let off = [self.runnable, self.sleeping, self.blocked, self.stopped, self.attaching];
        let parts = off.into_iter().chain([self.compute, self.waiting, self.unknown]);
        parts.fold(0, u64::saturating_add)
    }
}
