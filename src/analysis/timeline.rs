//! Records in, finished steps out. The timeline holds what is open and nothing else: its memory depends on the number
//! of distinct operators, threads and steps in flight, not on the length of the trace.
//!
//! Which record belongs where is decided by roles, threads and times alone (`docs/report.md` has the rules).

use super::assemble::Assembler;
use super::catalogue::{Catalogue, ObjectKey};
use super::faults::{RawFetch, Waits, What};
use super::fields::{Decoder, Header, NumberAt, ObjectAt};
use super::memory::Memory;
use super::rules::Rules;
use super::sampled::{Recorded, Windows};
use super::states::{Runner, Scheduler, Switch};
use super::step::Step;
use super::threads::Threads;
use super::unseen::UnseenSince;
use super::window::{Bucket, ClosedStep, Process, RawExperts, RawGraph, RawOperator, RawRegion, StepThread};
use crate::spec::Role;
use crate::trace::{DetailState, Notice, RecordKind, Schema, Site};

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
    /// Records that the trace gave, but for those of other engines.
    pub records: u64,
    /// Those of other engines that were recorded together with this one.
    pub of_others: u64,
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
    /// Fields that are texts, by the probeset, and held something else: they are missing.
    pub not_texts: u64,
}

/// Builds steps from records.
#[derive(Debug)]
pub struct Timeline {
    decoder: Decoder,
    rules: Rules,
    catalogue: Catalogue,
    threads: Threads,
    scheduler: Scheduler,
    processes: Vec<Process>,
    assembler: Assembler,
    findings: Findings,
    windows: Windows,
    unseen: UnseenSince,
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
            scheduler: Scheduler::default(),
            processes: Vec::new(),
            assembler: Assembler::default(),
            findings: Findings::default(),
            windows: Windows::default(),
            unseen: UnseenSince::default(),
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

    /// Makes enumerations known: those of the schema, as it stands where sites became known.
    pub fn add_enums(&mut self, schema: &Schema) {
        self.decoder.add_enums(&schema.enums);
    }

    /// Takes a notice, in its place among the records: it may say that operators are recorded from now on, or are not.
    pub fn notice(&mut self, notice: &Notice) {
        self.windows.notice(notice);
        self.unseen.notice(notice);
        self.memory.notice(notice);
        if notice.detail.is_some_and(|detail| detail.state == DetailState::Off) {
            self.scheduler.missing(notice.time, notice.time);
        }
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
        let header = Header::read(record);
        let fields = header.and_then(|header| self.decoder.records.get(usize::from(header.record)));
        match fields {
            Some(fields) if fields.of_another => self.findings.of_others += 1,
            _ => self.findings.records += 1,
        }
        let (Some(header), Some(fields)) = (header, fields) else { return self.malformed() };
        match fields.kind {
            RecordKind::Switch => self.switch(&header, record),
            RecordKind::Wakeup => self.wakeup(&header, record),
            kind => {
                if kind == RecordKind::Thread && header.seq == 1 && self.threads.index(header.tid).is_some() {
                    // The number is used again, and the end of the thread that had it was not seen.
                    let old = self.threads.of(header.tid, |_| 0);
                    self.exit(old, header.start);
                }
                self.findings.not_texts += self.decoder.not_texts(&header, record);
                let thread = self.thread_of(&header);
                match kind {
                    RecordKind::Thread => self.thread(thread, &header, record),
                    RecordKind::ThreadExit => self.exit(thread, header.end),
                    RecordKind::Fork => self.fork(thread, &header, record),
                    RecordKind::Object => self.object(thread, &header, record),
                    RecordKind::Exec => self.executed(thread, &header, record),
                    RecordKind::Span | RecordKind::Mark => {
                        self.runs(thread, &header);
                        self.event(thread, &header, record, visitor);
                    }
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
            self.scheduler.missing(gap.from, gap.to);
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
        let number = |name: &str| fields.number_u32(name, record, header.missing);
        let (created, cpus_allowed) = (number("created") == Some(1), number("cpus_allowed"));
        let Some(pid) = number("pid") else { return self.malformed() };
        let process = self.threads.process(pid);
        self.grow();
        let known = self.threads.get_mut(thread);
        known.process = process;
        known.cpus_allowed = cpus_allowed.filter(|cpus| *cpus > 0);
        if created {
            known.born = Some(header.start);
        }
    }

    fn executed(&mut self, thread: u32, header: &Header, record: &[u8]) {
        let fields = &self.decoder.records[usize::from(header.record)];
        if let Some(cpus) = fields.number_u32("cpus_allowed", record, header.missing).filter(|cpus| *cpus > 0) {
            self.threads.get_mut(thread).cpus_allowed = Some(cpus);
        }
    }

    fn exit(&mut self, thread: u32, time: u64) {
        self.waits.forget(self.threads.get(thread).tid);
        self.scheduler.exit(thread, time, &mut self.threads, &mut self.processes);
        let process = &mut self.processes[self.threads.get(thread).process as usize];
        process.active.retain(|t| *t != thread);
        process.step_threads.retain(|t| t.thread != thread);
        self.threads.release(thread, time);
    }

    fn fork(&mut self, thread: u32, header: &Header, record: &[u8]) {
        let fields = &self.decoder.records[usize::from(header.record)];
        let number = |name: &str| fields.number_u32(name, record, header.missing);
        let (Some(pid), Some(tid)) = (number("child_pid"), number("child_tid")) else { return self.malformed() };
        let parent = self.threads.get(thread).process;
        self.threads.forked(parent, pid, tid);
        self.catalogue.forked();
        self.grow();
    }

    fn object(&mut self, thread: u32, header: &Header, record: &[u8]) {
        let process = self.threads.get(thread).process;
        let needed = self.processes[process as usize].oldest().unwrap_or(0);
        self.catalogue.describe(process, header, record, (&self.decoder, &self.rules), needed);
        self.memory.describe(process, header, record, (&self.decoder, &self.rules));
    }

    /// A probe's record that describes an object.
    fn describes(&mut self, thread: u32, header: &Header, record: &[u8]) {
        let process = self.threads.get(thread).process;
        self.catalogue.join(process, header, record, (&self.decoder, &self.rules));
    }

    fn event(&mut self, thread: u32, header: &Header, record: &[u8], visitor: &mut dyn Visitor) {
        if self.decoder.records[usize::from(header.record)].describes.is_some() {
            self.describes(thread, header, record);
        }
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
        let backend = fields.backend.and_then(|i| self.decoder.text_at(header, record, i));
        let backend = backend.filter(|name| !name.is_empty());
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
        let per_token = fields.number_u32("per_token", record, header.missing).filter(|n| *n > 0);
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
        bucket.experts.push(RawExperts { start, end, thread, object, inline, record, per_token, ids });
    }

    fn fetch(&mut self, thread: u32, header: &Header, record: &[u8]) {
        let fields = &self.decoder.records[usize::from(header.record)];
        let number = |name: &str| fields.number(name, record, header.missing);
        let what = if fields.role == Some(Role::Fault) {
            let took = self.waits.take(header.tid, header.start);
            number("address").map(|address| What::Fault { address, took })
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
        process.states.retain(|state| oldest.is_none_or(|oldest| state.end > oldest));
        process.instead.retain(|instead| oldest.is_none_or(|oldest| instead.end > oldest));
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
        let context = (&self.decoder, &self.rules, &self.processes[process], &self.memory, &self.scheduler);
        let (recorded, window) = self.windows.of(step.header.start, step.header.end);
        let recorded = (recorded, window, self.unseen.stretch(step.header.start));
        let step = self.assembler.step(step, recorded, &mut self.threads, &mut self.catalogue, context);
        self.findings.ambiguous += step.ambiguous;
        visitor.step(step, &self.catalogue, &self.decoder);
    }

    fn give_loose(&mut self, process: usize, loose: Bucket, visitor: &mut dyn Visitor) {
        if self.findings.forced > 0 {
            self.findings.late += loose.operators.len() as u64;
        }
        let Some(extent) = loose.extent() else { return };
        let context = (&self.decoder, &self.rules, &self.processes[process], &self.memory, &self.scheduler);
        let step = self.assembler.loose(loose, extent, &mut self.threads, &mut self.catalogue, context);
        self.findings.ambiguous += step.ambiguous;
        visitor.step(step, &self.catalogue, &self.decoder);
    }

    fn switch(&mut self, header: &Header, record: &[u8]) {
        let switch = {
            let fields = &self.decoder.records[usize::from(header.record)].switch;
            let number = |at: Option<NumberAt>| at?.read_u32(record, header.missing);
            let mut runner = |tid: u32, pid: Option<NumberAt>, comm: Option<usize>| {
                let comm = comm.and_then(|index| self.decoder.text_at(header, record, index));
                let name = comm.map(|name| self.catalogue.intern(&name));
                // Old traces do not say whose it is.
                Runner { tid, pid: number(pid).unwrap_or(tid), name }
            };
            let prev = runner(header.tid, fields.prev_pid, fields.prev_comm);
            let Some(next_tid) = number(fields.next_tid) else { return self.malformed() };
            let next = runner(next_tid, fields.next_pid, fields.next_comm);
            let prev_state = fields.prev_state.and_then(|at| at.read(record, header.missing));
            Switch { time: header.end, cpu: header.cpu, prev_state, prev, next }
        };
        if self.has_faults {
            if self.threads.index(switch.prev.tid).is_some() {
                self.waits.left(switch.prev.tid, switch.time, switch.prev_state.unwrap_or(0));
            }
            self.waits.ran(switch.next.tid, switch.time);
        }
        self.scheduler.switch(&switch, &mut self.threads, &mut self.processes);
    }

    fn wakeup(&mut self, header: &Header, record: &[u8]) {
        let Some(thread) = self.threads.index(header.tid) else { return };
        let fields = &self.decoder.records[usize::from(header.record)];
        let cpu = fields.number("target_cpu", record, header.missing).and_then(|cpu| u16::try_from(cpu).ok());
        self.scheduler.wakeup(thread, (header.end, cpu), &mut self.threads, &mut self.processes);
    }

    /// A record of the thread's own says that it runs.
    fn runs(&mut self, thread: u32, header: &Header) {
        // Others than operators may have begun while nobody looked.
        let is_operator = self.decoder.records[usize::from(header.record)].role == Some(Role::Operator);
        let since = if is_operator { header.start } else { header.end };
        self.scheduler.evidence(thread, (since, header), &mut self.threads, &mut self.processes);
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
