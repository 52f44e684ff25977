//! Records in, finished steps out. The timeline holds what is open and nothing else: its memory depends on the number
//! of distinct operators, threads and steps in flight, not on the length of the trace.
//!
//! Which record belongs where is decided by roles, threads and times alone (`docs/report.md` has the rules).

use super::assemble::Assembler;
use super::catalogue::{Catalogue, ObjectKey};
use super::faults::{RawFetch, Waits, What};
use super::fields::{Decoder, Header, ObjectAt};
use super::memory::Memory;
use super::rules::Rules;
use super::sampled::{Recorded, Windows};
use super::step::Step;
use super::threads::{Off, Threads};
use super::window::{Bucket, ClosedStep, Process, RawExperts, RawGraph, RawOff, RawOperator, RawRegion, StepThread};
use crate::spec::Role;
use crate::trace::{Notice, RecordKind, Schema, Site};

/// So many steps are held back, because they may turn out to be parts of an enclosing step.
const RECENT_STEPS: usize = 16;
/// So many more are held back at most, because one of their threads has not moved on.
const WAITING_STEPS: usize = 64;
/// Events held back with steps: beyond, the oldest step is finished as it is.
const HELD_EVENTS: usize = 1 << 20;
/// Events without a step that are held back where the trace has steps.
const LOOSE_EVENTS: usize = 1 << 20;
/// Events without a step that are held back where the trace has none.
const LOOSE_EVENTS_WITHOUT_STEPS: usize = 1 << 16;
/// Times off the cpu that are held back.
const HELD_OFF: usize = 1 << 18;
/// Experts' ids that are kept of one record.
const MAX_EXPERTS: usize = 1 << 16;

/// Takes finished steps, in about the order of their ends.
pub trait Visitor {
    /// A step is finished.
    fn step(&mut self, step: &Step, catalogue: &Catalogue, decoder: &Decoder);
}

/// What was lost or could not be told while the timeline was built.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// Records that the trace gave.
    pub records: u64,
    /// Spans of operators among them.
    pub operator_spans: u64,
    /// Records that a thread numbered and that are not in the trace.
    pub missing_records: u64,
    /// Times at which a thread's numbering jumps.
    pub gaps: u64,
    /// Operators whose graph could not be told, because several of the process were open.
    pub ambiguous: u64,
    /// Spans that came after their step was finished.
    pub late: u64,
    /// Steps around more steps than can be parts of one: loops, left out.
    pub loops: u64,
    /// Records that are not as the schema says.
    pub malformed: u64,
    /// Steps that were finished while a thread's last operator was still open.
    pub forced: u64,
}

/// Builds steps from records.
#[derive(Debug)]
pub struct Timeline {
    decoder: Decoder,
    rules: Rules,
    catalogue: Catalogue,
    threads: Threads,
    processes: Vec<Process>,
    assembler: Assembler,
    findings: Findings,
    windows: Windows,
    memory: Memory,
    waits: Waits,
    has_faults: bool,
    steps: u64,
    has_steps: bool,
    target_pid: u32,
}

impl Timeline {
    /// For one trace: its schema, the probeset's rules, and the target's process (of threads that are never
    /// introduced).
    pub fn new(schema: &Schema, rules: Rules, target_pid: u32) -> Self {
        Self {
            decoder: Decoder::new(schema),
            rules,
            catalogue: Catalogue::default(),
            threads: Threads::default(),
            processes: Vec::new(),
            assembler: Assembler::default(),
            findings: Findings::default(),
            windows: Windows::default(),
            memory: Memory::default(),
            waits: Waits::default(),
            has_faults: schema.records.iter().any(|r| r.role == Some(Role::Fault)),
            steps: 0,
            has_steps: schema.records.iter().any(|r| r.role == Some(Role::Step)),
            target_pid,
        }
    }

    /// Makes sites known, before the records that name them.
    pub fn add_sites(&mut self, sites: &[Site]) {
        self.decoder.add_sites(sites);
    }

    /// Takes a notice, in its place among the records: it may say that operators are recorded from now on, or are not.
    pub fn notice(&mut self, notice: &Notice) {
        self.windows.notice(notice);
        self.memory.notice(notice);
    }

    /// The windows in which operators were recorded.
    pub fn windows(&self) -> &Windows {
        &self.windows
    }

    /// Distinct operators so far.
    pub fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// Reads records.
    pub fn decoder(&self) -> &Decoder {
        &self.decoder
    }

    /// The probeset's rules.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// What was lost or could not be told so far.
    pub fn findings(&self) -> &Findings {
        &self.findings
    }

    /// Takes one record, header included; gives the steps that it finishes to the visitor.
    pub fn record(&mut self, record: &[u8], visitor: &mut dyn Visitor) {
        self.findings.records += 1;
        let Some(header) = Header::read(record) else { return self.malformed() };
        let Some(fields) = self.decoder.records.get(usize::from(header.record)) else { return self.malformed() };
        match fields.kind {
            RecordKind::Switch => self.switch(&header, record),
            RecordKind::Wakeup => self.wakeup(&header),
            kind => {
                if kind == RecordKind::Thread && header.seq == 1 && self.threads.known(header.tid).is_some() {
                    // The number is used again, and the end of the thread that had it was not seen.
                    let old = self.threads.of(header.tid, |_| 0);
                    self.exit(old);
                }
                let thread = self.thread_of(&header);
                match kind {
                    RecordKind::Thread => self.thread(thread, &header, record),
                    RecordKind::ThreadExit => self.exit(thread),
                    RecordKind::Fork => self.fork(thread, &header, record),
                    RecordKind::Object => self.object(thread, &header, record),
                    RecordKind::Span | RecordKind::Mark => self.event(thread, &header, record, visitor),
                    _ => {}
                }
            }
        }
    }

    /// Ends the trace: everything that is still held back is finished.
    pub fn finish(&mut self, visitor: &mut dyn Visitor) {
        for process in 0..self.processes.len() {
            self.retire(process, 0);
            self.settle(process, true, visitor);
            let mut loose = std::mem::take(&mut self.processes[process].aside);
            loose.take(&mut self.processes[process].window, |_, _| true);
            self.give_loose(process, loose, visitor);
        }
    }

    fn malformed(&mut self) {
        self.findings.malformed += 1;
    }

    /// The record's thread, its numbering checked.
    fn thread_of(&mut self, header: &Header) -> u32 {
        let target = self.target_pid;
        let thread = self.threads.of(header.tid, |threads| threads.process(target));
        self.grow();
        let process = self.threads.get(thread).process as usize;
        if let Some(gap) = self.threads.count(thread, header) {
            self.findings.gaps += 1;
            self.findings.missing_records += u64::from(gap.records);
            self.processes[process].lost(gap);
        }
        if self.threads.get(thread).off.is_some() {
            self.runs(thread, header.start, header.end);
        }
        thread
    }

    fn grow(&mut self) {
        while self.processes.len() < self.threads.process_count() {
            self.processes.push(Process::default());
        }
    }

    fn thread(&mut self, thread: u32, header: &Header, record: &[u8]) {
        let fields = &self.decoder.records[usize::from(header.record)];
        let Some(pid) = fields.number_u32("pid", record, header.missing) else { return self.malformed() };
        let process = self.threads.process(pid);
        self.grow();
        self.threads.get_mut(thread).process = process;
    }

    fn exit(&mut self, thread: u32) {
        self.waits.forget(self.threads.get(thread).tid);
        let process = &mut self.processes[self.threads.get(thread).process as usize];
        process.active.retain(|t| *t != thread);
        process.step_threads.retain(|t| t.thread != thread);
        self.threads.release(thread);
    }

    fn fork(&mut self, thread: u32, header: &Header, record: &[u8]) {
        let fields = &self.decoder.records[usize::from(header.record)];
        let number = |name: &str| fields.number_u32(name, record, header.missing);
        let (Some(pid), Some(tid)) = (number("child_pid"), number("child_tid")) else { return self.malformed() };
        let parent = self.threads.get(thread).process;
        self.threads.forked(parent, pid, tid);
        self.grow();
    }

    fn object(&mut self, thread: u32, header: &Header, record: &[u8]) {
        let process = self.threads.get(thread).process;
        let needed = self.processes[process as usize].oldest().unwrap_or(0);
        self.catalogue.describe(process, header, record, (&self.decoder, &self.rules), needed);
        self.memory.describe(process, header, record, (&self.decoder, &self.rules));
    }

    fn event(&mut self, thread: u32, header: &Header, record: &[u8], visitor: &mut dyn Visitor) {
        match self.decoder.records[usize::from(header.record)].role {
            Some(Role::Operator) => self.operator(thread, header, record),
            Some(Role::Graph) => self.graph(thread, header, record),
            Some(Role::Step) => return self.step(thread, header, record, visitor),
            Some(Role::Region) => self.region(thread, header, record),
            Some(Role::Experts) => self.experts(thread, header, record),
            Some(Role::Fault | Role::PageCache) => self.fetch(thread, header, record),
            _ => return,
        }
        let process = self.threads.get(thread).process as usize;
        let limit = if self.has_steps { LOOSE_EVENTS } else { LOOSE_EVENTS_WITHOUT_STEPS };
        if self.processes[process].window.len() > limit {
            let mut loose = std::mem::take(&mut self.processes[process].aside);
            let window = &mut self.processes[process].window;
            let horizon = window.horizon();
            loose.take(window, |start, _| start < horizon);
            if loose.len() == 0 {
                loose = std::mem::take(window);
            }
            self.give_loose(process, loose, visitor);
        }
    }

    fn object_id(
        &mut self,
        process: u32,
        at: Option<ObjectAt>,
        record: &[u8],
        missing: u16,
    ) -> Option<super::ObjectId> {
        let at = at?;
        let address = at.read(record, missing)?;
        Some(self.catalogue.object(ObjectKey { process, object: at.object, address }))
    }

    fn operator(&mut self, thread: u32, header: &Header, record: &[u8]) {
        self.findings.operator_spans += 1;
        let fields = &self.decoder.records[usize::from(header.record)];
        let (node, covers, missing) = (fields.node, fields.covers, header.missing);
        let lane = fields.lane.and_then(|at| at.read_count(record, missing)).and_then(|n| u32::try_from(n).ok());
        let waiting = fields.waiting.and_then(|at| at.read(record, missing)).unwrap_or(0);
        let bytes = fields.arguments.then(|| record.into());
        let counts = self.decoder.counts(header, record);
        let inline = self.catalogue.inline(header, record, (&self.decoder, &self.rules));
        let known = self.threads.get_mut(thread);
        let process = known.process;
        let first = known.last_operator.is_none();
        known.last_operator = Some(known.last_operator.unwrap_or(0).max(header.end));
        let object = self.object_id(process, node, record, missing);
        let covers = self.object_id(process, covers, record, missing);
        let process = &mut self.processes[process as usize];
        if first {
            process.active.push(thread);
        }
        let (start, end, record) = (header.start, header.end, header.record);
        let waiting = waiting.min(end - start);
        let bucket = process.bucket(start, thread);
        let raw = RawOperator { start, end, waiting, thread, lane, object, covers, inline, record, bytes, counts };
        bucket.operators.push(raw);
    }

    fn graph(&mut self, thread: u32, header: &Header, record: &[u8]) {
        let fields = &self.decoder.records[usize::from(header.record)];
        let tokens = fields.tokens.and_then(|at| at.read_count(record, header.missing));
        let backend = fields.backend.and_then(|i| self.decoder.value_at(header, record, i));
        let backend = backend.map(|value| value.to_string()).filter(|name| !name.is_empty());
        let backend = self.catalogue.intern(backend.as_deref().unwrap_or(&fields.name));
        let process = self.threads.get(thread).process as usize;
        let bucket = self.processes[process].bucket(header.start, thread);
        let (start, end, bytes) = (header.start, header.end, record.into());
        bucket.graphs.push(RawGraph { start, end, thread, backend, tokens, bytes });
    }

    fn region(&mut self, thread: u32, header: &Header, record: &[u8]) {
        let fields = &self.decoder.records[usize::from(header.record)];
        let tokens = fields.tokens.and_then(|at| at.read_count(record, header.missing));
        let bytes = fields.arguments.then(|| record.into());
        let process = self.threads.get(thread).process as usize;
        let bucket = self.processes[process].bucket(header.start, thread);
        let (start, end, probe) = (header.start, header.end, header.record);
        bucket.regions.push(RawRegion { start, end, thread, probe, tokens, bytes });
    }

    fn experts(&mut self, thread: u32, header: &Header, record: &[u8]) {
        let fields = &self.decoder.records[usize::from(header.record)];
        let node = fields.node;
        let ids = fields.ids.and_then(|i| self.decoder.value_at(header, record, i));
        let ids: Vec<u32> = match &ids {
            Some(crate::path::Value::List(items)) => {
                let id = |v: &crate::path::Value| v.as_int().and_then(|n| u32::try_from(n).ok());
                items.iter().take(MAX_EXPERTS).filter_map(id).collect()
            }
            _ => Vec::new(),
        };
        let inline = self.catalogue.inline(header, record, (&self.decoder, &self.rules));
        let process = self.threads.get(thread).process;
        let object = self.object_id(process, node, record, header.missing);
        let bucket = self.processes[process as usize].bucket(header.start, thread);
        let (start, end, record) = (header.start, header.end, header.record);
        bucket.experts.push(RawExperts { start, end, thread, object, inline, record, ids });
    }

    fn fetch(&mut self, thread: u32, header: &Header, record: &[u8]) {
        let fields = &self.decoder.records[usize::from(header.record)];
        let number = |name: &str| fields.number(name, record, header.missing);
        let what = if fields.role == Some(Role::Fault) {
            let waited = self.waits.take(header.tid, header.start);
            number("address").map(|address| What::Fault { address, waited })
        } else {
            let device = fields.number_u32("device", record, header.missing);
            self.waits.reads(header.tid, header.start);
            let file = device.zip(number("inode")).zip(number("offset").zip(number("bytes")));
            file.map(|((device, inode), (offset, bytes))| What::Cached { device, inode, offset, bytes })
        };
        let Some(what) = what else { return };
        let process = self.threads.get(thread).process as usize;
        let bucket = self.processes[process].bucket(header.start, thread);
        bucket.fetches.push(RawFetch { start: header.start, thread, what });
    }

    /// A step ended: what happened during it becomes its own.
    fn step(&mut self, thread: u32, header: &Header, record: &[u8], visitor: &mut dyn Visitor) {
        let index = self.threads.get(thread).process as usize;
        let process = &mut self.processes[index];
        let (start, end) = (header.start, header.end);
        let runs_steps = process.step_threads.iter().find(|t| t.thread == thread);
        if runs_steps.is_some_and(|t| t.numbered.is_some_and(|numbered| numbered >= start)) {
            self.findings.loops += 1;
            return;
        }
        if runs_steps.is_none() {
            process.step_threads.push(StepThread { thread, numbered: None });
        }
        let mut step = ClosedStep {
            header: *header,
            thread,
            bytes: record.into(),
            number: 0,
            inner_tokens: Vec::new(),
            bucket: Bucket::default(),
        };
        absorb_inner(process, &mut step, &self.decoder);
        let others: Vec<u32> = process.step_threads.iter().map(|t| t.thread).filter(|t| *t != thread).collect();
        let mine = |s: u64, t: u32| start <= s && s < end && (t == thread || !others.contains(&t));
        if process.aside_until >= start {
            step.bucket.take(&mut process.aside, mine);
        }
        step.bucket.take(&mut process.window, mine);
        for other in process.recent.iter_mut().chain(&mut process.waiting) {
            if other.header.end > start {
                step.bucket.take(&mut other.bucket, |s, t| t == thread && mine(s, t));
            }
        }
        set_aside(process, start);
        process.recent.push_back(step);
        self.retire(index, RECENT_STEPS);
        self.settle(index, false, visitor);
        if self.processes[index].aside.len() > LOOSE_EVENTS {
            let loose = std::mem::take(&mut self.processes[index].aside);
            self.give_loose(index, loose, visitor);
        }
    }

    /// Numbers the oldest steps, all but `keep`: they are no parts of others.
    fn retire(&mut self, process: usize, keep: usize) {
        let process = &mut self.processes[process];
        let mut held: usize = process.recent.iter().map(|s| s.bucket.len()).sum();
        while process.recent.len() > keep || (held > HELD_EVENTS && process.recent.len() > 1) {
            let Some(mut step) = process.recent.pop_front() else { break };
            held -= step.bucket.len();
            self.steps += 1;
            step.number = self.steps;
            if let Some(known) = process.step_threads.iter_mut().find(|t| t.thread == step.thread) {
                known.numbered = Some(step.header.start);
            }
            process.waiting.push(step);
        }
    }

    /// Finishes the numbered steps whose threads have all moved on.
    fn settle(&mut self, process: usize, all: bool, visitor: &mut dyn Visitor) {
        let mut at = 0;
        while at < self.processes[process].waiting.len() {
            let full = self.processes[process].waiting.len() > WAITING_STEPS;
            let step = &self.processes[process].waiting[at];
            // Of a step that is not whole, an operator's end may never come.
            let is_whole = self.windows.of(step.header.start, step.header.end).0 == Recorded::Whole;
            let ready = all || !is_whole || !self.has_open_operator(process, step);
            if !ready && !full {
                at += 1;
                continue;
            }
            self.findings.forced += u64::from(!ready);
            let step = self.processes[process].waiting.remove(at);
            self.give(process, step, visitor);
        }
        let oldest = self.processes[process].oldest();
        let process = &mut self.processes[process];
        process.off.retain(|off| oldest.is_none_or(|oldest| off.end > oldest));
    }

    /// Spans that end with the next operator are contiguous on their thread: one whose latest ended within the step
    /// may have begun another one there.
    fn has_open_operator(&self, process: usize, step: &ClosedStep) -> bool {
        let within = |time: u64| step.header.start < time && time <= step.header.end;
        let open = |t: &u32| self.threads.get(*t).last_operator.is_some_and(within);
        self.processes[process].active.iter().any(open)
    }

    fn give(&mut self, process: usize, mut step: ClosedStep, visitor: &mut dyn Visitor) {
        self.assembler.rehome(&mut step, &mut self.processes[process], &self.threads, &mut self.findings);
        let context = (&self.decoder, &self.rules, &self.processes[process], &self.memory);
        let recorded = self.windows.of(step.header.start, step.header.end);
        let step = self.assembler.step(step, recorded, &mut self.threads, &mut self.catalogue, context);
        self.findings.ambiguous += step.ambiguous;
        visitor.step(step, &self.catalogue, &self.decoder);
    }

    fn give_loose(&mut self, process: usize, loose: Bucket, visitor: &mut dyn Visitor) {
        if self.findings.forced > 0 {
            self.findings.late += loose.operators.len() as u64;
        }
        let Some(extent) = loose.extent() else { return };
        let context = (&self.decoder, &self.rules, &self.processes[process], &self.memory);
        let step = self.assembler.loose(loose, extent, &mut self.threads, &mut self.catalogue, context);
        self.findings.ambiguous += step.ambiguous;
        visitor.step(step, &self.catalogue, &self.decoder);
    }

    fn switch(&mut self, header: &Header, record: &[u8]) {
        let fields = &self.decoder.records[usize::from(header.record)];
        let state = fields.number("prev_state", record, header.missing);
        let next = fields.number_u32("next_tid", record, header.missing);
        if self.threads.known(header.tid).is_some() {
            let thread = self.thread_of(header);
            let runnable = (state == Some(0)).then_some(header.end);
            self.threads.get_mut(thread).off = Some(Off { since: header.end, runnable });
            if self.has_faults {
                self.waits.left(header.tid, header.end, state.unwrap_or(0));
            }
        }
        if let Some(next) = next
            && next != header.tid
            && self.threads.known(next).is_some()
        {
            let thread = self.threads.of(next, |threads| threads.process(0));
            self.runs(thread, header.end, header.end);
            self.waits.ran(next, header.end);
        }
    }

    fn wakeup(&mut self, header: &Header) {
        if let Some(Off { since, runnable: runnable @ None }) =
            self.threads.known(header.tid).and_then(|t| t.off.as_mut())
        {
            *runnable = Some(header.start.max(*since));
        }
    }

    /// A thread that was off its cpu runs again, at the latest since `start` (or `end`, where `start` is before it
    /// left).
    fn runs(&mut self, thread: u32, start: u64, end: u64) {
        let known = self.threads.get_mut(thread);
        let Some(off) = known.off else { return };
        if end < off.since {
            return;
        }
        known.off = None;
        let end = if start >= off.since { start } else { end };
        let runnable = off.runnable.unwrap_or(end).min(end);
        let process = &mut self.processes[known.process as usize];
        if process.off.len() >= HELD_OFF {
            process.off.drain(..HELD_OFF / 2);
        }
        process.off.push(RawOff { start: off.since, runnable, end, thread });
    }
}

/// Steps of the same thread that lie within this one are parts of it.
fn absorb_inner(process: &mut Process, step: &mut ClosedStep, decoder: &Decoder) {
    let (start, end) = (step.header.start, step.header.end);
    while let Some(at) = process
        .recent
        .iter()
        .rposition(|inner| inner.thread == step.thread && start <= inner.header.start && inner.header.end <= end)
    {
        let Some(mut inner) = process.recent.remove(at) else { break };
        let fields = &decoder.records[usize::from(inner.header.record)];
        let tokens = fields.tokens.and_then(|at| at.read_count(&inner.bytes, inner.header.missing));
        match tokens {
            Some(tokens) => step.inner_tokens.push((inner.header.start, inner.header.end, tokens)),
            None => step.inner_tokens.append(&mut inner.inner_tokens),
        }
        step.bucket.take(&mut inner.bucket, |_, _| true);
    }
}

/// What is older than the step that just ended and belongs to none is not looked at again with every step.
fn set_aside(process: &mut Process, before: u64) {
    let had = process.aside.len();
    process.aside.take(&mut process.window, |start, _| start < before);
    if process.aside.len() > had {
        process.aside_until = process.aside_until.max(before.saturating_sub(1));
    }
}
