//! From the ring to the trace: a thread that reads records on a timer and forwards control records to the recorder.

use super::counts::Counts;
use super::guard::Guards;
use super::learn::Samples;
use super::output::Sink as Destination;
use super::reader::{Pause, RingPages};
use super::sampling::SampleIntake;
use super::slots::{Held, Taken};
use super::span_times::add;
use super::stops::Stop;
use profinfer_diagnostics::{Code, Diagnostic};
use profinfer_schema::bpf::{CONTROL_RECORDS, ControlRecord};
use profinfer_schema::{
    BUILTIN, FieldType, HEADER_SIZE, Loss, LossKind, ModuleInfo, Notice, Origin, Role, Sampling, Schema, Site,
};

use indexmap::IndexMap;
use libbpf_rs::{MapCore, MapHandle};
use nix::sys::eventfd::{EfdFlags, EventFd};
use profinfer_trace::{PushError, RecordHeader, TraceWriter};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long the ring is left alone between two readings, at least and at most. The programs do not wake the reader for
/// ordinary records: that would cost the target microseconds each. Each reading costs some tens of microseconds however
/// little there is to read.
const SHORTEST: Duration = Duration::from_millis(8);
const LONGEST: Duration = Duration::from_millis(500);
/// It is read again before it can be this full, as fast as it was filled last.
const FULL_PART: u64 = 4;

/// So many records are read under one lock, before their space is given back and the ring is asked again how full it is.
const BATCH: usize = 256;

/// Types of records from here on are for the recorder and never written.
const CONTROL: u16 = CONTROL_RECORDS;

/// What the programs tell the recorder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Control {
    /// A process has mapped a library, and is stopped.
    Mapped(Stop),
    /// A process runs a new program, and is stopped before its first instruction.
    Executed(Stop),
    /// The last step that was asked for has ended.
    LastStep,
    /// The trace cannot be written any more.
    WriteFailed,
}

impl Control {
    /// Reads a control record: the type at byte 0; after the header the process number, and whether it is stopped.
    fn parse(record: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u64::from_ne_bytes(*record.get(HEADER_SIZE as usize + at..)?.first_chunk()?));
        let stop = || {
            let (pid, stopped) = (u32::try_from(word(0)?).ok()?, word(8)? != 0);
            let since = RecordHeader::read(record)?.start;
            Some(Stop { pid, since: stopped.then_some(since) })
        };
        Some(match ControlRecord::of(record_type(record)?)? {
            ControlRecord::Mapped => Self::Mapped(stop()?),
            ControlRecord::Executed => Self::Executed(stop()?),
            ControlRecord::LastStep => Self::LastStep,
            ControlRecord::Sample => return None,
        })
    }
}

fn record_type(record: &[u8]) -> Option<u16> {
    record.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes))
}

/// Where a step's record has its number of tokens.
#[derive(Debug, Clone, Copy)]
struct Tokens {
    offset: usize,
    size: usize,
}

/// Threads come and go long before the first probe is hit: this many bytes of their records wait for the schema.
const EARLY: usize = 1 << 20;

/// A trace that is not begun yet: its schema, which names the target's constants, grows as the target maps its
/// libraries.
#[derive(Debug)]
struct Prospect {
    file: Destination,
    origin: Origin,
    schema: Schema,
    /// Records that came before, each after its length.
    early: Vec<u8>,
    sites: (Vec<ModuleInfo>, Vec<Site>),
    notices: Vec<Notice>,
}

/// What the trace file is written through, by the consuming thread and the recorder.
#[derive(Debug)]
struct Sink {
    prospect: Option<Box<Prospect>>,
    writer: Option<TraceWriter<Destination>>,
    error: Option<io::Error>,
    held: Held,
}

impl Sink {
    /// Writes, beginning the trace if it is not. After the first failure nothing more is tried: the file stays
    /// readable up to there.
    fn attempt(&mut self, write: impl FnOnce(&mut TraceWriter<Destination>) -> io::Result<()>) -> bool {
        if self.error.is_none() {
            self.error = self.begin().and_then(|()| self.writer.as_mut().map_or(Ok(()), write)).err();
        }
        self.error.is_none()
    }

    fn begin(&mut self) -> io::Result<()> {
        let Some(prospect) = self.prospect.take() else { return Ok(()) };
        let Prospect { file, origin, schema, early, sites, notices } = *prospect;
        let mut writer = file.begin(&origin, &schema)?;
        if !sites.1.is_empty() {
            writer.add_sites(&sites.0, &sites.1)?;
        }
        for notice in &notices {
            writer.notice(notice)?;
        }
        let mut rest = early.as_slice();
        while let Some((length, after)) = rest.split_first_chunk() {
            let Some((record, after)) = after.split_at_checked(u64::from_ne_bytes(*length) as usize) else { break };
            match writer.push(record) {
                Err(PushError::Write(error)) => return Err(error),
                Ok(()) | Err(PushError::Malformed(_)) => rest = after,
            }
        }
        self.writer = Some(writer);
        Ok(())
    }

    /// Whether a record can wait for the trace to begin; stores it then.
    fn defer(&mut self, number: u16, record: &[u8]) -> bool {
        let Some(prospect) = &mut self.prospect else { return false };
        let waits = usize::from(number) < BUILTIN && prospect.early.len() + record.len() < EARLY;
        if waits {
            prospect.early.extend((record.len() as u64).to_ne_bytes());
            prospect.early.extend(record);
        }
        waits
    }
}

/// The consuming thread and what it shares.
#[derive(Debug)]
pub(super) struct Consumer {
    sink: Arc<Mutex<Sink>>,
    counts: Arc<Counts>,
    controls: Receiver<Control>,
    /// Readable once there are controls.
    arrived: Arc<EventFd>,
    guards: Guards,
    handed: Samples,
    interval: Interval,
    stop: StopFlag,
    thread: JoinHandle<()>,
}

/// What comes into the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Traffic {
    /// Not even steps: what begins and ends.
    Threads,
    /// Steps, graphs, scheduling and samples.
    Steps,
    /// Operators, too.
    Operators,
}

impl Traffic {
    /// At this rate a ring is full after a pause, if that is not the shortest: several times what was seen to come.
    fn bytes_per_second(self) -> u64 {
        match self {
            Self::Threads => 1 << 20,
            Self::Steps => 5 << 20,
            Self::Operators => 320 << 20,
        }
    }

    /// The longest pause between two readings of a ring of that many bytes.
    fn pause(self, ring_bytes: u64) -> Duration {
        Duration::from_millis(ring_bytes * 1000 / self.bytes_per_second()).clamp(SHORTEST, LONGEST)
    }
}

/// In what time a ring is as full as it may become, as fast as it was filled since it was read; within bounds.
fn filled_in(pages: &RingPages, since: Duration) -> Duration {
    let part = (pages.size() / FULL_PART) as f64 / pages.waiting().max(1) as f64;
    Duration::try_from_secs_f64(since.as_secs_f64() * part).map_or(LONGEST, |time| time.clamp(SHORTEST, LONGEST))
}

/// The pause between two readings, and what ends one early.
#[derive(Debug)]
struct Interval {
    ms: Arc<AtomicU64>,
    bell: Arc<EventFd>,
}

/// Ends the thread when it is dropped, on whatever way.
#[derive(Debug)]
struct StopFlag {
    is_set: Arc<AtomicBool>,
    bell: Arc<EventFd>,
}

impl Drop for StopFlag {
    fn drop(&mut self) {
        self.is_set.store(true, Ordering::SeqCst);
        let _ = self.bell.write(1);
    }
}

impl Consumer {
    /// Starts reading a ring into a trace; `prompt`ly, where something depends on how new the counts are.
    pub(super) fn start(
        ring: &MapHandle,
        file: Destination,
        origin: Origin,
        schema: &Schema,
        prompt: bool,
        samples: Option<Arc<Mutex<SampleIntake>>>,
        (guards, handed): (Guards, Samples),
    ) -> Result<Self, Diagnostic> {
        let (early, sites) = (Vec::new(), (Vec::new(), Vec::new()));
        let schema_so_far = schema.clone();
        let prospect = Prospect { file, origin, schema: schema_so_far, early, sites, notices: Vec::new() };
        let prospect = Some(Box::new(prospect));
        let sink = Arc::new(Mutex::new(Sink { prospect, writer: None, error: None, held: Held::default() }));
        let failed = |error: &dyn std::fmt::Display| {
            Diagnostic::error(Code::Bug, format!("bug: the ring buffer cannot be read: {error}"))
        };
        let counts = Counts::new(schema.records.len());
        let (counts, stop) = (Arc::new(counts), Arc::new(AtomicBool::new(false)));
        let (send, controls) = channel();
        let arrived = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK);
        let arrived = Arc::new(arrived.map_err(|error| failed(&error))?);
        let intake = Intake {
            counts: Arc::clone(&counts),
            steps: step_records(schema),
            operators: schema.records.iter().map(|record| record.role == Some(Role::Operator)).collect(),
            lanes: lane_fields(schema),
            controls: send,
            arrived: Arc::clone(&arrived),
            samples,
            guards: guards.clone(),
            handed: handed.clone(),
        };
        let pause = Pause::new(ring.as_fd()).map_err(|error| failed(&error))?;
        let mut pages = RingPages::map(ring.as_fd(), ring.max_entries()).map_err(|error| failed(&error))?;
        let stop_flag = StopFlag { is_set: Arc::clone(&stop), bell: pause.bell() };
        let interval = if prompt { SHORTEST } else { Traffic::Operators.pause(pages.size()) };
        let interval = Interval { ms: Arc::new(AtomicU64::new(millis(interval))), bell: pause.bell() };
        let interval_ms = Arc::clone(&interval.ms);
        let reader = Arc::clone(&sink);
        counts.ring_bytes.store(pages.size(), Ordering::Relaxed);
        let consume = move || {
            let (mut read, mut quick) = (Instant::now(), LONGEST);
            loop {
                // Seen before the last reading, so that everything submitted before it is read.
                let last = stop.load(Ordering::SeqCst);
                if !last {
                    let usual = Duration::from_millis(interval_ms.load(Ordering::Relaxed));
                    pause.wait(usual.min(quick));
                }
                quick = filled_in(&pages, std::mem::replace(&mut read, Instant::now()).elapsed());
                intake.read_all(&mut pages, &reader);
                if last {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("profinfer-ring".into()).spawn(consume);
        let thread = thread.map_err(|error| failed(&error))?;
        Ok(Self { sink, counts, controls, arrived, guards, handed, interval, stop: stop_flag, thread })
    }

    /// Has the ring read as often as counts of that age serve, and as its size requires for what comes; within bounds.
    pub(super) fn read_every(&self, at_most: Duration, traffic: Traffic) {
        let by_size = traffic.pause(self.counts.ring_bytes.load(Ordering::Relaxed));
        let ms = millis(at_most.clamp(SHORTEST, by_size));
        if ms < self.interval.ms.swap(ms, Ordering::Relaxed) {
            // Not only after the longer pause that has begun.
            let _ = self.interval.bell.write(1);
        }
    }

    /// The next message of the programs, the oldest first.
    pub(super) fn control(&self) -> Option<Control> {
        // First, so that what arrives meanwhile makes it readable again.
        let _ = self.arrived.read();
        self.controls.try_recv().ok()
    }

    /// Readable when there may be something that [`Self::control`] gives.
    pub(super) fn controls_arrived(&self) -> BorrowedFd<'_> {
        self.arrived.as_fd()
    }

    /// Has the ring read now.
    pub(super) fn hurry(&self) {
        let _ = self.stop.bell.write(1);
    }

    /// The expectations that are checked in records.
    pub(super) fn guards(&self) -> &Guards {
        &self.guards
    }

    pub(super) fn counts(&self) -> &Counts {
        &self.counts
    }

    fn sink(&self) -> MutexGuard<'_, Sink> {
        self.sink.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The records that wait for a slot to be found.
    pub(super) fn with_held<T>(&self, act: impl FnOnce(&mut Held) -> T) -> T {
        act(&mut self.sink().held)
    }

    /// Names more of the target's constants: `new` are those that the schema has not had yet.
    pub(super) fn set_enums(&self, schema: &Schema, new: &IndexMap<String, BTreeMap<i64, String>>) {
        self.guards.set_enums(schema);
        let mut sink = self.sink();
        match &mut sink.prospect {
            Some(prospect) => prospect.schema.clone_from(schema),
            None if new.is_empty() => {}
            None => {
                sink.attempt(|writer| writer.add_enums(new));
            }
        }
    }

    /// Adds sites before their first record.
    pub(super) fn add_sites(&self, modules: &[ModuleInfo], sites: &[Site]) {
        self.handed.add_sites(sites);
        let mut sink = self.sink();
        match &mut sink.prospect {
            Some(prospect) => {
                prospect.sites.0.extend_from_slice(modules);
                prospect.sites.1.extend_from_slice(sites);
            }
            None => {
                sink.attempt(|writer| writer.add_sites(modules, sites));
            }
        }
    }

    /// Writes a sentence into the trace.
    pub(super) fn notice(&self, text: impl Into<String>) {
        let notice = Notice { time: super::clock::monotonic_ns(), text: text.into(), ..Notice::default() };
        self.notice_of(|| notice);
    }

    /// Writes a notice that is made, and what it tells done, while no record is taken: every record that the trace has
    /// before it was sent before it was so.
    pub(super) fn notice_of(&self, make: impl FnOnce() -> Notice) {
        let mut sink = self.sink();
        let notice = make();
        match &mut sink.prospect {
            Some(prospect) => prospect.notices.push(notice),
            None => {
                sink.attempt(|writer| writer.notice(&notice));
            }
        }
    }

    /// Writes the losses so far, what is new of samples, and all records that were gathered, once the trace is begun; `false`
    /// when it cannot be written.
    pub(super) fn flush(&self, losses: &[Loss], samples: impl FnOnce() -> Option<Sampling>) -> bool {
        let mut sink = self.sink();
        sink.prospect.is_some()
            || sink.attempt(|writer| {
                writer.flush()?;
                // Asked for while nobody else writes: modules are numbered in their order.
                samples().map_or(Ok(()), |sampling| writer.sampling(&sampling))?;
                writer.losses(losses)
            })
    }

    /// Reads the rest of the ring and ends the thread. The programs must be detached.
    pub(super) fn stop(self) -> Finished {
        drop(self.stop);
        let _ = self.thread.join();
        Finished { sink: self.sink, counts: self.counts, controls: self.controls }
    }
}

/// A trace that no more records come into.
#[derive(Debug)]
pub(super) struct Finished {
    sink: Arc<Mutex<Sink>>,
    pub(super) counts: Arc<Counts>,
    controls: Receiver<Control>,
}

impl Finished {
    /// What became of records that had to wait.
    pub(super) fn with_held(&self, act: impl FnOnce(&Held)) {
        act(&self.sink.lock().unwrap_or_else(PoisonError::into_inner).held);
    }

    /// The programs' messages that nobody has answered.
    pub(super) fn unanswered(&self) -> impl Iterator<Item = Control> {
        self.controls.try_iter()
    }

    /// Closes the trace.
    ///
    /// # Errors
    /// The first error that writing it met.
    pub(super) fn finish(
        self,
        losses: &[Loss],
        sampling: Option<&Sampling>,
        end: &profinfer_schema::End,
    ) -> io::Result<()> {
        let poisoned = || io::Error::other("the consuming thread is still there");
        let sink = Arc::into_inner(self.sink).ok_or_else(poisoned)?;
        let mut sink = sink.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = sink.error {
            return Err(error);
        }
        sink.begin()?;
        let Some(mut writer) = sink.writer else { return Err(poisoned()) };
        writer.flush()?;
        writer.losses(losses)?;
        sampling.map_or(Ok(()), |sampling| writer.sampling(sampling))?;
        writer.finish(end)?.close()
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The consuming thread's side.
struct Intake {
    counts: Arc<Counts>,
    /// By type of record: whether it is a step's, and where its tokens are.
    steps: Vec<Option<Option<Tokens>>>,
    /// By type of record: whether it is an operator's.
    operators: Vec<bool>,
    /// By type of record: where an operator's lane is.
    lanes: Vec<Option<Tokens>>,
    controls: Sender<Control>,
    arrived: Arc<EventFd>,
    samples: Option<Arc<Mutex<SampleIntake>>>,
    guards: Guards,
    handed: Samples,
}

impl Intake {
    /// Reads until the ring is empty, with the trace locked for a batch at a time: others may write between two.
    fn read_all(&self, pages: &mut RingPages, sink: &Mutex<Sink>) {
        loop {
            self.counts.ring_peak.fetch_max(pages.waiting(), Ordering::Relaxed);
            let mut sink = sink.lock().unwrap_or_else(PoisonError::into_inner);
            self.release(&mut sink);
            if pages.read(BATCH, |record| self.take(&mut sink, record)) < BATCH {
                return;
            }
        }
    }

    /// Tells the recorder.
    fn send(&self, control: Control) {
        let _ = self.controls.send(control);
        let _ = self.arrived.write(1);
    }

    /// Takes one record. Reading goes on even if the trace cannot be written, so that the target, which may be stopped,
    /// is answered.
    fn take(&self, sink: &mut Sink, record: &[u8]) {
        let Some(number) = record_type(record) else { return };
        if number == ControlRecord::Sample as u16 {
            return self.take_sample(sink, record);
        }
        if number >= CONTROL {
            if let Some(control) = Control::parse(record) {
                self.mappings_changed(control);
                self.send(control);
            }
            return;
        }
        if sink.error.is_some() {
            return;
        }
        if !sink.held.is_waiting() && sink.defer(number, record) {
            return self.count(number, record);
        }
        let is_step = self.steps.get(usize::from(number)).is_some_and(Option::is_some);
        match sink.held.take(record, is_step) {
            Taken::Passed => self.write(sink, number, record, true),
            Taken::Held { is_certain: true } => self.count(number, record),
            Taken::Held { is_certain: false } | Taken::Dropped => {}
        }
    }

    /// Writes the records that waited for a slot to be found.
    fn release(&self, sink: &mut Sink) {
        let records = sink.held.release();
        let mut rest = records.as_slice();
        while let Some((length, after)) = rest.split_first_chunk() {
            let Some((record, after)) = after.split_at_checked(u64::from_ne_bytes(*length) as usize) else { break };
            rest = after;
            if let (Some(counts), Some(number)) = (sink.held.released(record), record_type(record)) {
                self.write(sink, number, record, counts);
            }
        }
    }

    /// Writes one record into the trace, and counts it unless it was counted before.
    fn write(&self, sink: &mut Sink, number: u16, record: &[u8], counts: bool) {
        if sink.error.is_some() {
            return;
        }
        let renumbered = sink.held.renumbered(record);
        let record = renumbered.as_deref().unwrap_or(record);
        self.handed.take(record);
        let changed = self.guards.checked(record);
        let record = changed.as_deref().unwrap_or(record);
        let mut pushed = Ok(());
        let written = sink.attempt(|writer| match writer.push(record) {
            Err(PushError::Write(error)) => Err(error),
            other => {
                pushed = other;
                Ok(())
            }
        });
        match pushed {
            _ if !written => self.send(Control::WriteFailed),
            Ok(()) if counts => self.count(number, record),
            Ok(()) => {}
            Err(_) => add(&self.counts.malformed, 1),
        }
    }

    /// Takes a timer sample: it is no record of a thread, and is counted by itself.
    fn take_sample(&self, sink: &mut Sink, record: &[u8]) {
        let Some(mut samples) = self.samples.as_ref().map(|s| s.lock().unwrap_or_else(PoisonError::into_inner)) else {
            return;
        };
        let Some(sample) = samples.read(record) else { return };
        if sink.prospect.is_some() {
            return samples.defer(sample);
        }
        let early = samples.take_early();
        let news = samples.news();
        let written = sink.attempt(|writer| {
            news.iter().try_for_each(|news| writer.sampling(news))?;
            early.into_iter().chain([sample]).try_for_each(|sample| writer.sample(sample))
        });
        if !written {
            self.send(Control::WriteFailed);
        }
    }

    /// What a process has mapped is read again: from this place in the ring on, its samples are in that.
    fn mappings_changed(&self, control: Control) {
        if let (Some(samples), Control::Mapped(stop) | Control::Executed(stop)) = (&self.samples, control) {
            samples.lock().unwrap_or_else(PoisonError::into_inner).changed(stop.pid);
        }
    }

    fn count(&self, number: u16, record: &[u8]) {
        let Some(header) = RecordHeader::read(record) else { return };
        self.counts.record(number, header.site);
        let lane = self.lanes.get(usize::from(number)).copied().flatten().and_then(|lane| lane.read(record));
        if let Some(lane) = lane.and_then(|lane| usize::try_from(lane).ok()) {
            self.counts.lane(lane, header.start);
        }
        if self.operators.get(usize::from(number)) == Some(&true) {
            self.counts.operator(&header);
        }
        let Some(Some(tokens)) = self.steps.get(usize::from(number)) else { return };
        let tokens = tokens.and_then(|tokens| tokens.read(record));
        self.counts.step(&header, tokens.unwrap_or(0));
    }
}

impl Tokens {
    fn read(self, record: &[u8]) -> Option<u64> {
        let bytes = record.get(self.offset..self.offset + self.size)?;
        let mut word = [0; 8];
        word.get_mut(..self.size)?.copy_from_slice(bytes);
        let value = u64::from_le_bytes(word);
        // A batch has fewer tokens than this; what has more is no number of tokens (a negative one, garbage).
        (value < 1 << 31).then_some(value)
    }
}

/// Where a field is that is a number.
fn number_field(record: &profinfer_schema::RecordType, name: &str) -> Option<Tokens> {
    let field = record.fields.iter().find(|field| field.name == name)?;
    let size = match field.ty {
        FieldType::Int(size) | FieldType::Uint(size) if size <= 8 => size as usize,
        _ => return None,
    };
    Some(Tokens { offset: field.offset as usize, size })
}

fn lane_fields(schema: &Schema) -> Vec<Option<Tokens>> {
    let lane = |record: &profinfer_schema::RecordType| {
        if record.role == Some(Role::Operator) { number_field(record, "lane") } else { None }
    };
    schema.records.iter().map(lane).collect()
}

fn step_records(schema: &Schema) -> Vec<Option<Option<Tokens>>> {
    let tokens = |record: &profinfer_schema::RecordType| number_field(record, "tokens");
    schema.records.iter().map(|record| (record.role == Some(Role::Step)).then(|| tokens(record))).collect()
}

/// Names what the programs counted: entry = type of record × `width` + kind.
pub(super) fn name_losses(counted: &[u64], width: usize, schema: &Schema) -> Vec<Loss> {
    let kinds = counted.chunks(width.max(1)).zip(&schema.records);
    let named = kinds.flat_map(|(counts, record)| {
        let counts = counts.iter().zip(LossKind::ALL).filter(|(count, _)| **count > 0);
        counts.map(|(count, kind)| Loss { record: record.name.clone(), kind, count: *count })
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use profinfer_schema::{FieldLayout, RecordKind, RecordType};

    fn schema() -> Schema {
        let field = FieldLayout { name: "tokens".into(), offset: 32, ty: FieldType::Int(4) };
        let step = RecordType {
            name: "decode".into(),
            kind: RecordKind::Span,
            role: Some(Role::Step),
            size: 40,
            fields: vec![field],
        };
        let other =
            RecordType { name: "copy".into(), role: Some(Role::Region), fields: vec![], size: 32, ..step.clone() };
        Schema { records: vec![other, step], ..Schema::default() }
    }

    #[test]
    fn kinds_are_numbered_in_the_order_of_their_declaration() {
        for (number, kind) in LossKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, number);
        }
        assert_eq!(LossKind::JobTableFull as usize + 1, LossKind::ALL.len());
    }

    #[test]
    fn losses_get_their_names() {
        let mut counted = vec![0; 32];
        counted[3] = 5;
        counted[16] = 7;
        let losses = name_losses(&counted, 16, &schema());
        let expected = [("copy", LossKind::MissingReturn, 5), ("decode", LossKind::RingFull, 7)];
        let expected = expected.map(|(record, kind, count)| Loss { record: record.into(), kind, count });
        assert_eq!(losses, expected);
    }

    #[test]
    fn control_records_are_told_apart_and_bounded() {
        let mut record = vec![0; 48];
        record[..2].copy_from_slice(&0xff01_u16.to_ne_bytes());
        record[16..24].copy_from_slice(&5_u64.to_ne_bytes());
        record[32..40].copy_from_slice(&77_u64.to_ne_bytes());
        assert_eq!(Control::parse(&record), Some(Control::Executed(Stop { pid: 77, since: None })));
        record[40] = 1;
        assert_eq!(Control::parse(&record), Some(Control::Executed(Stop { pid: 77, since: Some(5) })));
        assert_eq!(Control::parse(&record[..47]), None, "cut");
        assert_eq!(Control::parse(&0xff02_u16.to_ne_bytes()), Some(Control::LastStep));
        assert_eq!(Control::parse(&[1]), None);
    }

    #[test]
    fn tokens_are_read_where_the_schema_says() {
        let steps = step_records(&schema());
        assert!(steps[0].is_none());
        let tokens = steps[1].unwrap().unwrap();
        let mut record = vec![0; 40];
        record[32] = 17;
        assert_eq!(tokens.read(&record), Some(17));
        record[32..36].copy_from_slice(&(-1_i32).to_le_bytes());
        assert_eq!(tokens.read(&record), None, "garbage is not counted");
        assert_eq!(tokens.read(&record[..33]), None);
    }
}
