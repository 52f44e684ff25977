//! Samples wait for the step that they are in: its records come later in the trace.

use super::log::{Assigned, Log};
use super::stacks::{StackId, Stacks};
use crate::catalogue::Catalogue;
use crate::ids::{KindId, Phase};
use crate::raw::Decoder;
use crate::sampling::Recorded;
use crate::step::{Step, Visitor};
use profinfer_schema::{CodePlace, RecordType, Role, Sample, Schema};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;

/// Samples that wait; beyond, the oldest is assigned to no step.
const PENDING: usize = 1 << 20;

/// Threads whose last span is remembered; some engines make them anew for each graph.
const MOST_THREADS: usize = 1 << 16;

/// What a sample interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Within {
    /// A span of this operator was open on the thread.
    Operator(KindId),
    /// A span of an operator was open whose record is not in the trace.
    LostOperator,
    /// A graph was being computed, and no operator on the thread.
    Graph,
    /// A step ran, and no graph.
    Step,
    /// Operators were not recorded at that time.
    NotRecorded,
    /// No step ran.
    Nothing,
}

/// Samples that have all of this in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) phase: Phase,
    pub(super) within: Within,
    /// It was waiting for other lanes, by the operator's `waiting`.
    pub(super) waiting: bool,
    pub(super) stack: StackId,
}

/// A thread's share of an operator: when it began to wait for others, and its end, ns.
#[derive(Debug, Clone, Copy)]
struct Share {
    kind: KindId,
    waits: u64,
    end: u64,
}

#[derive(Debug, Clone, Copy)]
struct Pending {
    pid: u32,
    within: Option<(u16, u64)>,
    without_detail: bool,
    in_kernel: bool,
    cpu: u16,
    stack: StackId,
}

/// Timer samples, counted.
#[derive(Debug, Default)]
pub struct Profile {
    /// By time, then thread.
    pending: BTreeMap<(u64, u32), Pending>,
    counts: FxHashMap<Key, u64>,
    stacks: Stacks,
    /// Record types of operators.
    operators: Vec<u16>,
    /// Processes are numbered as in records.
    comparable: bool,
    /// When the last span began of each thread whose step is finished.
    last_spans: FxHashMap<u32, u64>,
    /// Each of them, where they are wanted one by one.
    log: Option<Log>,
}

impl Profile {
    /// For a trace. `comparable`: the recorder saw processes by the numbers that records have.
    pub fn new(schema: &Schema, comparable: bool) -> Self {
        let is_operator = |record: &RecordType| matches!(record.role, Some(Role::Operator | Role::Share));
        let of_operators = (0_u16..).zip(&schema.records).filter(|(_, record)| is_operator(record));
        Self { operators: of_operators.map(|(number, _)| number).collect(), comparable, ..Self::default() }
    }

    /// The same, which has each sample for itself, too.
    pub fn with_each(self) -> Self {
        Self { log: Some(Log::default()), ..self }
    }

    /// Whether operators could be recorded at all.
    pub fn has_operators(&self) -> bool {
        !self.operators.is_empty()
    }

    fn add(&mut self, samples: &[Sample]) {
        for sample in samples {
            let stack = self.stacks.number(&sample.frames);
            let within = sample.within.filter(|(record, _)| self.operators.contains(record));
            let without_detail = sample.without_detail;
            let (pid, in_kernel, cpu) = (sample.pid, sample.in_kernel, sample.cpu);
            let pending = Pending { pid, within, without_detail, in_kernel, cpu, stack };
            self.pending.insert((sample.time, sample.tid), pending);
            if self.pending.len() > PENDING
                && let Some((at, oldest)) = self.pending.pop_first()
            {
                self.count((at, oldest), Phase::Outside, Within::Nothing, false);
            }
        }
    }

    /// The trace is at its end: the rest is in no step.
    pub fn finish(&mut self) {
        for (at, pending) in std::mem::take(&mut self.pending) {
            let (_, tid) = at;
            let is_past = |start| self.last_spans.get(&tid).is_some_and(|last| start <= *last);
            let within = match pending.within {
                Some((_, start)) if !is_past(start) => Within::LostOperator,
                Some(_) => Within::Nothing,
                None if pending.without_detail => Within::NotRecorded,
                None => Within::Nothing,
            };
            self.count((at, pending), Phase::Outside, within, false);
        }
    }

    /// The samples that were counted: phase, what they interrupted, whether that was waiting, stack, and how many.
    pub fn counts(&self) -> impl Iterator<Item = (Phase, Within, bool, StackId, u64)> {
        let mut counts: Vec<(Key, u64)> = self.counts.iter().map(|(key, count)| (*key, *count)).collect();
        counts.sort_unstable();
        counts.into_iter().map(|(key, count)| (key.phase, key.within, key.waiting, key.stack, count))
    }

    /// A stack, the innermost frame first.
    pub fn stack(&self, id: StackId) -> &[CodePlace] {
        self.stacks.get(id)
    }

    /// The samples one by one, in no order, if they were wanted, and how many are left out.
    pub fn each(&self) -> (impl Iterator<Item = Assigned>, u64) {
        let log = self.log.as_ref();
        (log.into_iter().flat_map(Log::each), log.map_or(0, Log::left_out))
    }

    fn count(&mut self, ((time, tid), of): ((u64, u32), Pending), phase: Phase, within: Within, waiting: bool) {
        let key = Key { phase, within, waiting, stack: of.stack };
        *self.counts.entry(key).or_default() += 1;
        if let Some(log) = &mut self.log {
            log.add(key, (time, tid), (of.pid, of.cpu, of.in_kernel));
        }
    }

    fn note_last_spans(&mut self, step: &Step) {
        for span in &step.lanes {
            let last = self.last_spans.entry(span.tid).or_default();
            *last = span.start.max(*last);
        }
        if self.last_spans.len() > MOST_THREADS {
            self.last_spans.clear();
        }
    }

    /// Assigns the samples of one step.
    fn assign(&mut self, step: &Step) {
        // A bucket of operators that no step contains has no times of its own.
        let is_step = step.number > 0;
        let first = step.operators.iter().map(|operator| operator.start).min().unwrap_or(step.start);
        let last = step.lanes.iter().map(|span| span.end).max().unwrap_or(step.end);
        let (from, to) = if is_step { (step.start, step.end) } else { (first, last) };
        let during: Vec<((u64, u32), Pending)> =
            self.pending.range((from, 0)..=(to, u32::MAX)).map(|(key, pending)| (*key, *pending)).collect();
        self.note_last_spans(step);
        if during.is_empty() {
            return;
        }
        let mut spans: FxHashMap<(u32, u64), Share> = FxHashMap::default();
        let mut threads: FxHashSet<u32> = std::iter::once(step.tid).collect();
        for operator in &step.operators {
            for span in step.lanes_of(operator) {
                let (end, kind) = (span.end, operator.kind);
                spans.insert((span.tid, span.start), Share { kind, waits: end.saturating_sub(span.waiting), end });
                threads.insert(span.tid);
            }
        }
        let phase = step.phase.unwrap_or(Phase::Outside);
        for ((time, tid), pending) in during {
            let span = pending.within.and_then(|(_, start)| spans.get(&(tid, start)));
            // A span that only the thread's next operator ends is cut at its graph's end: what comes then is outside.
            let is_cut = span.is_some_and(|share| time >= share.end)
                || is_step && pending.within.is_some_and(|(_, start)| start < step.start);
            let (span, open) = if is_cut { (None, None) } else { (span, pending.within) };
            let is_of_process = threads.contains(&tid) || !self.comparable || pending.pid == step.pid;
            let (within, waiting) = match (span, open) {
                (Some(share), _) => (Within::Operator(share.kind), time >= share.waits),
                _ if !is_step || !is_of_process => continue,
                // It may be another step's, one that runs at the same time: then that has it.
                (None, Some(_)) if !threads.contains(&tid) => continue,
                (None, Some(_)) => (Within::LostOperator, false),
                (None, None) if pending.without_detail || step.recorded == Recorded::Bare => {
                    (Within::NotRecorded, false)
                }
                (None, None) => {
                    let in_graph = step.graphs.iter().any(|graph| (graph.start..graph.end).contains(&time));
                    (if in_graph { Within::Graph } else { Within::Step }, false)
                }
            };
            self.pending.remove(&(time, tid));
            self.count(((time, tid), pending), phase, within, waiting);
        }
    }
}

impl Visitor for Profile {
    fn step(&mut self, step: &Step, _: &Catalogue, _: &Decoder) {
        self.assign(step);
    }

    fn samples(&mut self, samples: &[Sample]) {
        self.add(samples);
    }
}
