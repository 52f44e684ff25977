//! Records in, finished steps out. Memory depends on the number of distinct operators, threads and pending steps, not on
//! the length of the trace.
//!
//! Assignment of records is by roles, threads and times alone (`docs/report.md` has the rules).

use super::assemble::{Assembler, Context};
use super::batch::{RequestEvent, RequestQueue};
use super::bucket::{Bucket, RawGraph, RawOperator, RawRegion};
use super::faults::Waits;
use super::findings::Findings;
use super::inner_steps::{absorb_inner, extend_empty, set_aside};
use super::memory::Memory;
use super::model::Step;
use super::offload::give_to_last;
use super::offload_model::DeviceInfo;
use super::other_threads;
use super::pending::{ClosedStep, Process, StepThread};
use super::same_call;
use super::scheduler::{Scheduler, Switch};
use super::thread_state::Runner;
use super::threads::{Gap, Thread, Threads};
use super::unmarked::StepProbes;
use crate::catalogue::{Catalogue, ObjectKey, Rules};
use crate::ids::ObjectId;
use crate::raw::{Decoder, Header, ObjectAt, Operands};
use crate::sampling::{Coverage, Recorded, UnseenSince, Windows};
use profinfer_schema::{DetailState, FieldMeaning, Notice, RecordKind, Role, Sample, Schema, Site};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Recent steps that are pending: they may be parts of an enclosing step.
const RECENT_STEPS: usize = 16;
/// Further pending steps: one of their threads has an open operator.
const WAITING_STEPS: usize = 64;
/// Pending steps with operators of threads that may turn out to run steps of their own, and the events of these steps.
const HELD_STEPS: usize = 1024;
const HELD_EVENTS: usize = 1 << 17;
/// Events of pending steps; beyond, the oldest step is finished as it is.
const PENDING_EVENTS: usize = 1 << 20;
/// Windows, and unrecorded periods, that are in memory where a recording is followed.
const REMEMBERED: usize = 1024;
/// Steps within steps are waited for this much longer where a recording is followed: 30 s, in ns.
const NESTING: u64 = 30_000_000_000;
/// So much longer is the last step waited for where a device computes, whose results come after it: 2 s, in ns.
const RESULTS: u64 = 2_000_000_000;
/// Pending events without a step, in a trace with steps.
const LOOSE_EVENTS: usize = 1 << 20;
/// Pending events without a step, in a trace without steps.
pub(super) const LOOSE_EVENTS_WITHOUT_STEPS: usize = 1 << 16;

/// Takes finished steps, in about the order of their ends.
pub trait Visitor {
    /// A step is finished.
    fn step(&mut self, step: &Step, catalogue: &Catalogue, decoder: &Decoder);

    /// Timer samples were read: they were taken before the records that come after them.
    fn samples(&mut self, _samples: &[Sample]) {}

    /// The trace's file was read up to this byte.
    fn offset(&mut self, _bytes: u64) {}
}

/// Builds steps from records.
#[derive(Debug)]
pub struct Timeline {
    pub(super) decoder: Decoder,
    pub(super) rules: Arc<Rules>,
    pub(super) catalogue: Catalogue,
    pub(super) threads: Threads,
    pub(super) scheduler: Scheduler,
    pub(super) processes: Vec<Process>,
    pub(super) assembler: Assembler,
    pub(super) findings: Findings,
    pub(super) windows: Windows,
    pub(super) unseen: UnseenSince,
    pub(super) memory: Memory,
    pub(super) waits: Waits,
    pub(super) has_faults: bool,
    pub(super) requests: RequestQueue,
    pub(super) steps: u64,
    pub(super) step_probes: StepProbes,
    pub(super) target_pid: u32,
    pub(super) devices: Vec<DeviceInfo>,
}

impl Timeline {
    /// For one trace: its schema, the probeset's rules, and the target's process (of threads that are never
    /// introduced).
    pub fn new(schema: &Schema, rules: impl Into<Arc<Rules>>, target_pid: u32) -> Self {
        Self {
            decoder: Decoder::new(schema),
            rules: rules.into(),
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
            has_faults: schema.has_role(Role::Fault),
            requests: RequestQueue::default(),
            devices: Vec::new(),
            steps: 0,
            step_probes: StepProbes::new(schema),
            target_pid,
        }
    }

    /// Adds sites, before the records that refer to them.
    pub fn add_sites(&mut self, sites: &[Site]) {
        self.decoder.add_sites(sites);
        self.step_probes.add_sites(sites, &self.decoder);
    }

    /// Adds the enumerations of the schema.
    pub fn add_enums(&mut self, schema: &Schema) {
        self.decoder.add_enums(&schema.enums);
    }

    /// Adds a notice, in its place among the records: recording of operators may start or stop.
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

    /// What was recorded of devices.
    pub fn devices(&self) -> &[DeviceInfo] {
        &self.devices
    }

    /// The probeset's rules.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// What was lost or ambiguous so far.
    pub fn findings(&self) -> &Findings {
        &self.findings
    }

    /// Takes one record, header included; gives the steps that it finishes to the visitor.
    pub fn record(&mut self, record: &[u8], visitor: &mut dyn Visitor) {
        let header = Header::read(record);
        let fields = header.and_then(|header| self.decoder.records.get(usize::from(header.record_type)));
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
                    // The number is reused, and the exit of its former thread was not recorded.
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

    /// Finishes the steps that ended by a time, and forgets what only older ones need, for who follows a recording
    /// that goes on. What comes later of such a step is counted as late. Where the target's steps contain others, which
    /// are parts of those, a step waits longer for one around it.
    pub fn settle_before(&mut self, time: u64, visitor: &mut dyn Visitor) {
        for index in 0..self.processes.len() {
            let process = &mut self.processes[index];
            let by = if process.nests { time.saturating_sub(NESTING) } else { time };
            let mut over = process.recent.iter().take_while(|step| step.header.end <= by).count();
            if over == process.recent.len() && process.awaits_results(by.saturating_sub(RESULTS)) {
                over = over.saturating_sub(1);
            }
            if over == process.recent.len() {
                // What is encoded next is a step's that has not ended.
                let before = process.encodes_next().unwrap_or(u64::MAX);
                give_to_last(process, before, None);
            }
            let pending = process.recent.len() - over;
            self.retire(index, pending);
            self.settle(index, by, visitor);
            self.settle_recurring(index, by, visitor);
        }
        // No step may come for a while that they could be given with.
        let pending = self.pending_since().unwrap_or(u64::MAX);
        let requests = self.requests.take(|event| event.time <= time.min(pending));
        if !requests.is_empty() {
            self.assembler.set_requests(requests);
            visitor.step(self.assembler.nothing(), &self.catalogue, &self.decoder);
        }
        self.windows.forget_all_but(REMEMBERED);
        self.unseen.forget_all_but(REMEMBERED);
        self.scheduler.forget_all_but(REMEMBERED);
    }

    /// When the oldest step began that has ended and is not finished: what ended before is finished.
    pub fn pending_since(&self) -> Option<u64> {
        self.processes.iter().filter_map(Process::oldest).min()
    }

    /// Ends the trace: finishes all pending steps.
    pub fn finish(&mut self, visitor: &mut dyn Visitor) {
        for process in 0..self.processes.len() {
            let threads: BTreeSet<u32> = self.processes[process].recent.iter().map(|step| step.thread).collect();
            for thread in threads {
                let extended = extend_empty(&mut self.processes[process], thread, u64::MAX, &self.windows);
                self.findings.extended += u64::from(extended);
            }
            give_to_last(&mut self.processes[process], u64::MAX, None);
            self.retire(process, 0);
            self.settle(process, u64::MAX, visitor);
            let mut loose = std::mem::take(&mut self.processes[process].aside);
            loose.take(&mut self.processes[process].window, |_, _| true);
            self.give_recurring(process, &mut loose, true, visitor);
            self.give_loose(process, loose, visitor);
        }
        self.findings.merged = self.catalogue.merged();
        if !self.requests.is_empty() {
            self.assembler.set_requests(self.requests.take(|_| true));
            visitor.step(self.assembler.nothing(), &self.catalogue, &self.decoder);
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
        let fields = &self.decoder.records[usize::from(header.record_type)];
        let number = |meaning| fields.number_u32(meaning, record, header.missing);
        let (created, cpus_allowed) = (number(FieldMeaning::Created) == Some(1), number(FieldMeaning::CpusAllowed));
        let Some(pid) = number(FieldMeaning::Pid) else { return self.malformed() };
        let process = self.threads.process(pid);
        self.grow();
        let of = self.threads.get_mut(thread);
        of.process = process;
        of.cpus_allowed = cpus_allowed.filter(|cpus| *cpus > 0);
        if created {
            of.born = Some(header.start);
        }
    }

    fn executed(&mut self, thread: u32, header: &Header, record: &[u8]) {
        let fields = &self.decoder.records[usize::from(header.record_type)];
        if let Some(cpus) =
            fields.number_u32(FieldMeaning::CpusAllowed, record, header.missing).filter(|cpus| *cpus > 0)
        {
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
        if self.threads.has_many_exited() {
            self.threads.free(self.processes.iter().flat_map(Process::threads).collect());
        }
    }

    fn fork(&mut self, thread: u32, header: &Header, record: &[u8]) {
        let fields = &self.decoder.records[usize::from(header.record_type)];
        let number = |meaning| fields.number_u32(meaning, record, header.missing);
        let (Some(pid), Some(tid)) = (number(FieldMeaning::ChildPid), number(FieldMeaning::ChildTid)) else {
            return self.malformed();
        };
        let parent = self.threads.get(thread).process;
        self.threads.forked(parent, pid, tid);
        self.catalogue.forked();
        self.grow();
    }

    fn object(&mut self, thread: u32, header: &Header, record: &[u8]) {
        let process = self.threads.get(thread).process;
        let needed = self.processes[process as usize].oldest().unwrap_or(0);
        self.catalogue.describe(process, header, record, &self.decoder, &self.rules, needed);
        self.memory.describe(process, header, record, &self.decoder, &self.rules);
    }

    /// A probe's record that describes an object.
    fn describes(&mut self, thread: u32, header: &Header, record: &[u8]) {
        let process = self.threads.get(thread).process;
        self.catalogue.join(process, header, record, &self.decoder, &self.rules);
    }

    fn event(&mut self, thread: u32, header: &Header, record: &[u8], visitor: &mut dyn Visitor) {
        if self.decoder.records[usize::from(header.record_type)].describes.is_some() {
            self.describes(thread, header, record);
        }
        match self.decoder.records[usize::from(header.record_type)].role {
            Some(Role::Operator | Role::Share) => self.operator(thread, header, record),
            Some(Role::Graph) => self.graph(thread, header, record),
            Some(Role::Step) => return self.step(thread, header, record, visitor),
            Some(Role::Region) => self.region(thread, header, record),
            Some(Role::Experts) => self.experts(thread, header, record),
            Some(role) if role.is_of_a_device() => self.offload(thread, header, record),
            Some(Role::Batch) => self.batch(thread, header, record),
            Some(Role::Request) => return self.request(thread, header, record),
            Some(Role::Fault | Role::PageCache | Role::Reclaim) => self.fetch(thread, header, record),
            _ => return,
        }
        let process = self.threads.get(thread).process as usize;
        let limit = if self.step_probes.mark_steps() { LOOSE_EVENTS } else { LOOSE_EVENTS_WITHOUT_STEPS };
        if self.processes[process].window.len() > limit {
            let mut loose = std::mem::take(&mut self.processes[process].aside);
            let window = &mut self.processes[process].window;
            let horizon = window.horizon();
            loose.take(window, |start, _| start < horizon);
            if loose.len() == 0 {
                loose = std::mem::take(window);
            }
            self.give_recurring(process, &mut loose, false, visitor);
            self.note_crowded(process, &loose);
            self.give_loose(process, loose, visitor);
        }
    }

    /// What is given as outside of steps may be of one that has not ended: that has not all of its events then.
    fn note_crowded(&mut self, process: usize, loose: &Bucket) {
        let Some((start, to)) = loose.extent().filter(|_| self.step_probes.mark_steps()) else { return };
        let process = &mut self.processes[process];
        let from = process.latest_end().map_or(start, |end| end.max(start));
        if from < to {
            self.findings.crowded += loose.len() as u64;
            process.lost(Gap { from, to, records: u32::try_from(loose.len()).unwrap_or(u32::MAX), thread: None });
        }
    }

    pub(super) fn object_id(
        &mut self,
        process: u32,
        at: Option<ObjectAt>,
        record: &[u8],
        missing: u16,
    ) -> Option<ObjectId> {
        let at = at?;
        let address = at.read(record, missing)?;
        Some(self.catalogue.object(ObjectKey { process, object: at.object, address }))
    }

    /// Where an event of a thread belongs.
    pub(super) fn bucket(&mut self, start: u64, thread: u32) -> &mut Bucket {
        let home = self.threads.home(thread);
        self.processes[self.threads.get(thread).process as usize].bucket(start, thread, home)
    }

    fn operator(&mut self, thread: u32, header: &Header, record: &[u8]) {
        let fields = &self.decoder.records[usize::from(header.record_type)];
        let is_share = fields.role == Some(Role::Share);
        self.findings.operator_spans += u64::from(!is_share);
        let (node, covers, missing) = (fields.node, fields.covers, header.missing);
        let lane = fields.count(FieldMeaning::Lane, record, missing).and_then(|n| u32::try_from(n).ok());
        let waiting = fields.number(FieldMeaning::Waiting, record, missing);
        let undivided = waiting.is_none() && fields.has(FieldMeaning::Waiting);
        let bytes = fields.arguments.then(|| record.into());
        let counts = self.decoder.counts(header, record);
        let process = self.threads.get(thread).process;
        let inline = self.catalogue.inline(process, header, record, &self.decoder, &self.rules);
        let of = self.threads.get_mut(thread);
        let first = of.last_operator.is_none();
        of.last_operator = Some(of.last_operator.unwrap_or(0).max(header.end));
        let object = self.object_id(process, node, record, missing);
        let covers = self.object_id(process, covers, record, missing);
        let process = &mut self.processes[process as usize];
        if first {
            process.active.push(thread);
        }
        let (start, end, record_type) = (header.start, header.end, header.record_type);
        let waiting = waiting.unwrap_or(0).min(end - start);
        let mut raw = RawOperator {
            start,
            end,
            waiting,
            undivided,
            thread,
            lane,
            object,
            covers,
            inline,
            record_type,
            is_share,
            site: header.site,
            record: bytes,
            counts,
            operands: Operands::read(header, record, &self.decoder),
        };
        if let Some(step) = process.recent.iter().rev().find(|step| step.thread == thread) {
            same_call::join_late(&mut raw, step, &self.decoder);
        }
        self.bucket(raw.start, thread).operators.push(raw);
    }

    fn graph(&mut self, thread: u32, header: &Header, record: &[u8]) {
        let fields = &self.decoder.records[usize::from(header.record_type)];
        let tokens = fields.count(FieldMeaning::Tokens, record, header.missing);
        let backend = fields.index(FieldMeaning::Backend).and_then(|i| self.decoder.text_at(header, record, i));
        let backend = backend.filter(|name| !name.is_empty());
        let backend = self.catalogue.intern(backend.as_deref().unwrap_or(&fields.name));
        let bucket = self.bucket(header.start, thread);
        let (start, end, bytes) = (header.start, header.end, record.into());
        bucket.graphs.push(RawGraph { start, end, thread, backend, tokens, record: bytes });
    }

    fn region(&mut self, thread: u32, header: &Header, record: &[u8]) {
        let fields = &self.decoder.records[usize::from(header.record_type)];
        let tokens = fields.count(FieldMeaning::Tokens, record, header.missing);
        let bytes = fields.arguments.then(|| record.into());
        let bucket = self.bucket(header.start, thread);
        let (start, end, record_type) = (header.start, header.end, header.record_type);
        bucket.regions.push(RawRegion { start, end, thread, record_type, tokens, record: bytes });
    }

    /// A step ended: takes the events during it.
    fn step(&mut self, thread: u32, header: &Header, record: &[u8], visitor: &mut dyn Visitor) {
        self.step_probes.step_is_recorded();
        let index = self.threads.get(thread).process as usize;
        let process = &mut self.processes[index];
        let (start, end) = (header.start, header.end);
        let runs_steps = process.step_threads.iter().find(|t| t.thread == thread);
        if runs_steps.is_some_and(|t| t.numbered.is_some_and(|numbered| numbered >= start)) {
            self.findings.loops += 1;
            process.nests = true;
            return;
        }
        if runs_steps.is_none() {
            process.step_threads.push(StepThread { thread, numbered: None, open_since: None });
            self.findings.ambiguous +=
                u64::from(self.threads.get(thread).given_until.is_some_and(|until| until >= start));
        }
        process.step_threads.iter_mut().filter(|of| of.thread == thread).for_each(|of| of.open_since = None);
        let extended = extend_empty(process, thread, start, &self.windows);
        self.findings.extended += u64::from(extended);
        let mut step = ClosedStep {
            header: *header,
            thread,
            record: record.into(),
            number: 0,
            since: None,
            inner_tokens: Vec::new(),
            bucket: Bucket::default(),
        };
        absorb_inner(process, &mut step, &self.decoder);
        step.since = process.step_before(thread, start);
        same_call::join(&mut process.window, thread, header, &self.decoder);
        let threads = &self.threads;
        let others: Vec<(u32, Option<u64>)> =
            process.step_threads.iter().map(|of| (of.thread, of.open_since)).filter(|(of, _)| *of != thread).collect();
        // Also of a thread that computes for one whose step has not ended.
        let is_of = |(other, since): &(u32, Option<u64>), s: u64, t: u32| {
            *other == t || threads.home(t) == Some(*other) && since.is_some_and(|since| since <= s)
        };
        let is_of_other = |s: u64, t: u32| others.iter().any(|other| is_of(other, s, t));
        let mine = |s: u64, t: u32| start <= s && s < end && (t == thread || !is_of_other(s, t));
        if process.aside_until >= start {
            step.bucket.take(&mut process.aside, mine);
        }
        step.bucket.take(&mut process.window, mine);
        for other in process.recent.iter_mut().chain(&mut process.waiting) {
            if other.header.end > start {
                step.bucket
                    .take(&mut other.bucket, |s, t| (t == thread || threads.home(t) == Some(thread)) && mine(s, t));
            }
        }
        set_aside(process, start);
        give_to_last(process, start, Some(thread));
        process.recent.push_back(step);
        self.retire(index, RECENT_STEPS);
        self.settle(index, 0, visitor);
        if self.processes[index].aside.len() > LOOSE_EVENTS {
            let loose = std::mem::take(&mut self.processes[index].aside);
            self.give_loose(index, loose, visitor);
        }
    }

    /// Numbers the oldest steps, all but `recent`: they are not parts of others.
    fn retire(&mut self, process: usize, recent: usize) {
        let process = &mut self.processes[process];
        let mut events: usize = process.recent.iter().map(|s| s.bucket.len()).sum();
        while process.recent.len() > recent || (events > PENDING_EVENTS && process.recent.len() > 1) {
            let Some(mut step) = process.recent.pop_front() else { break };
            events -= step.bucket.len();
            self.steps += 1;
            step.number = self.steps;
            if let Some(of) = process.step_threads.iter_mut().find(|t| t.thread == step.thread) {
                of.numbered = Some(step.header.start);
            }
            process.waiting.push(step);
        }
    }

    /// Finishes the numbered steps whose threads have all moved on, and those that ended by a time, in their order: what
    /// follows a sequence's tokens must not be overtaken.
    fn settle(&mut self, process: usize, by: u64, visitor: &mut dyn Visitor) {
        while let Some(step) = self.processes[process].waiting.first() {
            let full = self.processes[process].waiting.len() > WAITING_STEPS;
            // Of a step that is not whole, an operator's end may never come.
            let is_whole = self.windows.of(step.header.start, step.header.end).0 == Recorded::Whole;
            let settled = step.header.end <= by || !is_whole;
            let ready = settled || !self.has_open_operator(process, step);
            let is_held =
                || self.processes[process].waiting.len() < HELD_STEPS && self.has_operators_of_unknown(process, step);
            let of_others = || self.may_have_events_of_others(process, step);
            if !settled && is_held() || !full && (!ready || !settled && of_others()) {
                break;
            }
            let step = self.processes[process].waiting.remove(0);
            if !ready {
                let unready_until = &mut self.processes[process].unready_until;
                *unready_until = (*unready_until).max(step.header.end);
            }
            self.give(process, step, visitor);
        }
        self.processes[process].forget_states();
    }

    /// Spans that end with the next operator are contiguous on their thread: one whose latest ended within the step
    /// may have begun another one there.
    fn has_open_operator(&self, process: usize, step: &ClosedStep) -> bool {
        let within = |time: u64| step.header.start < time && time <= step.header.end;
        let open = |t: &u32| self.threads.get(*t).last_operator.is_some_and(within);
        self.processes[process].active.iter().any(open)
    }

    /// Whether operators of threads that may compute for any are in a step beside which another one goes on: they may be of
    /// that.
    fn may_have_events_of_others(&self, process: usize, step: &ClosedStep) -> bool {
        let process = &self.processes[process];
        let mut others = process.step_threads.iter().filter(|of| of.thread != step.thread);
        let is_certain = |thread: u32| thread == step.thread || self.threads.home(thread) == Some(step.thread);
        others.any(|of| process.has_open_step(of.thread, step.header.end))
            && step.bucket.operators.iter().any(|operator| !is_certain(operator.thread))
    }

    /// Whether a step has operators of threads of which nothing is known yet, and which are not numbered as lanes beside its
    /// own: their first step may go on. Of steps that hold too many events this is not asked.
    fn has_operators_of_unknown(&self, process: usize, step: &ClosedStep) -> bool {
        let is_unknown = |operator: &RawOperator| {
            let is_first_lane = || !operator.is_share && operator.lane.unwrap_or(0) == 0;
            let is_new = |of: &Thread| of.home.is_none() && of.given_until.is_none();
            operator.thread != step.thread && is_first_lane() && is_new(self.threads.get(operator.thread))
        };
        let events = || self.processes[process].waiting.iter().map(|step| step.bucket.len()).sum::<usize>();
        step.bucket.operators.iter().any(is_unknown) && events() < HELD_EVENTS
    }

    pub(super) fn give(&mut self, process: usize, mut step: ClosedStep, visitor: &mut dyn Visitor) {
        let requests = self.requests_before(process, step.header.end);
        self.assembler.set_requests(requests);
        other_threads::rehome(&mut step, &mut self.processes[process], &self.threads, &mut self.findings);
        let context = Context {
            decoder: &self.decoder,
            rules: &self.rules,
            process: &self.processes[process],
            memory: &self.memory,
            scheduler: &self.scheduler,
            tick: self.tick(),
        };
        for operator in step.bucket.operators.iter().filter(|operator| operator.thread != step.thread) {
            let given_until = &mut self.threads.get_mut(operator.thread).given_until;
            *given_until = (*given_until).max(Some(operator.start));
        }
        let (recorded, window) = self.windows.of(step.header.start, step.header.end);
        let (start, tid) = (step.header.start, step.header.tid);
        let pid = self.threads.pid(self.threads.get(step.thread).process);
        let has_prompt = self.requests.has_prompt(pid, tid, start);
        let (stretch, is_planned) = (self.unseen.stretch(start), self.unseen.is_planned(start));
        let coverage = Coverage { recorded, window, stretch, is_planned, has_prompt };
        let step = self.assembler.step(step, coverage, &mut self.threads, &mut self.catalogue, context);
        self.findings.ambiguous += step.ambiguous;
        self.findings.ambiguous_shares += step.ambiguous_shares;
        visitor.step(step, &self.catalogue, &self.decoder);
    }

    /// Events of requests up to a time, but for those of other processes that steps which are not finished may precede.
    fn requests_before(&mut self, process: usize, time: u64) -> Vec<RequestEvent> {
        let others = (0..).zip(&self.processes).filter(|(other, _)| *other != process as u32);
        let pending: Vec<(u32, u64)> =
            others.filter_map(|(other, of)| Some((self.threads.pid(other), of.oldest()?))).collect();
        let is_pending =
            |event: &RequestEvent| pending.iter().any(|(pid, since)| event.pid == *pid && *since < event.time);
        self.requests.take(|event| event.time <= time && !is_pending(event))
    }

    pub(super) fn give_loose(&mut self, process: usize, loose: Bucket, visitor: &mut dyn Visitor) {
        let unready_until = self.processes[process].unready_until;
        self.findings.late += loose.operators.iter().filter(|operator| operator.start < unready_until).count() as u64;
        self.assembler.set_requests(Vec::new());
        let Some(extent) = loose.extent() else { return };
        let pid = self.threads.pid(process as u32);
        let context = Context {
            decoder: &self.decoder,
            rules: &self.rules,
            process: &self.processes[process],
            memory: &self.memory,
            scheduler: &self.scheduler,
            tick: self.tick(),
        };
        let step = self.assembler.loose(loose, pid, extent, &mut self.threads, &mut self.catalogue, context);
        self.findings.ambiguous += step.ambiguous;
        self.findings.ambiguous_shares += step.ambiguous_shares;
        visitor.step(step, &self.catalogue, &self.decoder);
    }

    fn switch(&mut self, header: &Header, record: &[u8]) {
        let switch = {
            let fields = &self.decoder.records[usize::from(header.record_type)];
            let number = |meaning| fields.number_u32(meaning, record, header.missing);
            let mut runner = |tid: u32, pid: FieldMeaning, comm: FieldMeaning| {
                let comm = fields.index(comm).and_then(|index| self.decoder.text_at(header, record, index));
                let name = comm.map(|name| self.catalogue.intern(&name));
                // Traces of older versions lack the process.
                Runner { tid, pid: number(pid).unwrap_or(tid), name }
            };
            let prev = runner(header.tid, FieldMeaning::PrevPid, FieldMeaning::PrevComm);
            let Some(next_tid) = number(FieldMeaning::NextTid) else { return self.malformed() };
            let next = runner(next_tid, FieldMeaning::NextPid, FieldMeaning::NextComm);
            let prev_state = fields.number(FieldMeaning::PrevState, record, header.missing);
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
        let fields = &self.decoder.records[usize::from(header.record_type)];
        let cpu =
            fields.number(FieldMeaning::TargetCpu, record, header.missing).and_then(|cpu| u16::try_from(cpu).ok());
        self.scheduler.wakeup(thread, header.end, cpu, &mut self.threads, &mut self.processes);
    }

    /// A record of the thread proves that it runs.
    fn runs(&mut self, thread: u32, header: &Header) {
        // Other spans may have begun before recording.
        let role = self.decoder.records[usize::from(header.record_type)].role;
        let is_operator = matches!(role, Some(Role::Operator | Role::Share));
        let since = if is_operator { header.start } else { header.end };
        self.scheduler.evidence(thread, since, header, &mut self.threads, &mut self.processes);
    }
}
