//! Learning where members are, while a recording begins: records contain addresses of objects, their memory is read from
//! outside, and the offsets that are found are filled in. The target is not stopped.

mod saved;
mod search;

pub(super) use saved::SavedLearning;
pub use saved::{LearnedMember, learned_lock};

use super::consumer::Consumer;
use super::modules::Modules;
use crate::bpf::Session;
use profinfer_compiler::{LearnLeaf, Lesson, ProbePlan, RelocationKind};
use profinfer_diagnostics::{Code, Diagnostic};
use profinfer_schema::bpf::ABSENT_VALUE;
use profinfer_schema::{FieldType, NO_SITE, Schema, Site, ValueSource};
use profinfer_trace::RecordHeader;
use search::{FEWEST, Learned, MOST, Memory, Sample, search};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// From the first object to the end of the search.
const LIMIT: Duration = Duration::from_secs(2);
/// More objects are waited for this long after there are enough.
const SETTLE: Duration = Duration::from_millis(100);
/// Pages of the target that are read, at most.
const MOST_PAGES: usize = 8192;
const PAGE: usize = 4096;

/// The objects whose addresses are in records. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct Samples {
    wanted: Arc<AtomicBool>,
    state: Arc<Mutex<Handed>>,
}

#[derive(Debug, Default)]
struct Handed {
    /// By record type: the lesson, and where the address is.
    fields: HashMap<u16, Vec<(usize, usize)>>,
    captures: HashMap<u16, Vec<String>>,
    objects: Vec<Vec<Sample>>,
    since: Option<Instant>,
}

impl Samples {
    fn new(lessons: &[Lesson], schema: &Schema) -> Self {
        let mut fields: HashMap<u16, Vec<(usize, usize)>> = HashMap::new();
        for (number, record) in (0_u16..).zip(&schema.records) {
            for field in &record.fields {
                let FieldType::Object(object) = &field.ty else { continue };
                let lesson = lessons.iter().position(|lesson| lesson.object == *object);
                let of_type = lesson.map(|lesson| (lesson, field.offset as usize));
                fields.entry(number).or_default().extend(of_type);
            }
        }
        let objects = lessons.iter().map(|_| Vec::new()).collect();
        let state = Handed { fields, objects, ..Handed::default() };
        let wanted = Arc::new(AtomicBool::new(!lessons.is_empty()));
        Self { wanted, state: Arc::new(Mutex::new(state)) }
    }

    fn state(&self) -> MutexGuard<'_, Handed> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add_sites(&self, sites: &[Site]) {
        if self.wanted.load(Ordering::Relaxed) {
            self.state().captures.extend(sites.iter().map(|site| (site.id, site.captures.clone())));
        }
    }

    /// Takes the addresses out of a record.
    pub(super) fn take(&self, record: &[u8]) {
        if !self.wanted.load(Ordering::Relaxed) {
            return;
        }
        let Some(header) = RecordHeader::read(record) else { return };
        let mut state = self.state();
        let Handed { fields, captures, objects, since } = &mut *state;
        for (lesson, offset) in fields.get(&header.ty).into_iter().flatten() {
            let word = record.get(*offset..).and_then(|bytes| bytes.first_chunk());
            let Some(address) = word.map(|word| u64::from_le_bytes(*word)).filter(|address| *address != 0) else {
                continue;
            };
            let Some(of_lesson) = objects.get_mut(*lesson).filter(|objects| objects.len() < MOST) else { continue };
            if of_lesson.iter().any(|sample| sample.address == address) {
                continue;
            }
            since.get_or_insert_with(Instant::now);
            let captures = if header.site == NO_SITE { None } else { captures.get(&header.site).cloned() };
            of_lesson.push(Sample { address, captures: captures.unwrap_or_default() });
        }
    }
}

/// The learning of a recording.
#[derive(Debug)]
pub(super) struct Learning {
    lessons: Vec<Lesson>,
    samples: Samples,
    running: Option<JoinHandle<Vec<Result<Learned, String>>>>,
    done: bool,
    /// What was learned, for people and for files.
    pub(super) members: Vec<LearnedMember>,
}

impl Learning {
    pub(super) fn new(lessons: Vec<Lesson>, schema: &Schema) -> Self {
        let samples = Samples::new(&lessons, schema);
        let done = lessons.is_empty();
        Self { lessons, samples, running: None, done, members: Vec::new() }
    }

    /// Whether nothing more will be learned.
    pub(super) fn is_done(&self) -> bool {
        self.done
    }

    pub(super) fn samples(&self) -> Samples {
        self.samples.clone()
    }

    /// Goes on, if there is anything to do.
    pub(super) fn poll(
        &mut self,
        pid: i32,
        plan: &ProbePlan,
        session: &Session<'_>,
        modules: &mut Modules<'_>,
        consumer: &Consumer,
    ) {
        if self.done {
            return;
        }
        if let Some(running) = self.running.take_if(|running| running.is_finished()) {
            self.done = true;
            let outcomes = running.join().unwrap_or_default();
            let since = self.samples.state().since;
            for (lesson, outcome) in self.lessons.iter().zip(outcomes) {
                match outcome {
                    Ok(learned) => {
                        let members = apply(lesson, &learned, plan, session, modules, consumer);
                        if let Some(since) = since.filter(|_| !members.is_empty()) {
                            let names: Vec<&str> = members.iter().map(|one| one.member.as_str()).collect();
                            modules.search_report.learned_late(&names, since.elapsed());
                        }
                        self.members.extend(members);
                    }
                    Err(why) => modules.add_problems(not_learned(lesson, &why).into()),
                }
            }
            return;
        }
        if self.running.is_some() {
            return;
        }
        let values = modules.values.all();
        let is_missing = |symbol: &String| values.get(symbol).is_some_and(|value| *value == ABSENT_VALUE);
        let is_wanted = |lesson: &Lesson| {
            lesson.paths.iter().flat_map(|path| &path.levels).any(|level| level.within > 0 && is_missing(&level.symbol))
        };
        if modules.any_site() && !self.lessons.iter().any(is_wanted) {
            self.end();
            return;
        }
        let state = self.samples.state();
        let (Some(since), most) = (state.since, state.objects.iter().map(Vec::len).max().unwrap_or_default()) else {
            return;
        };
        let waited = since.elapsed();
        let is_time = most >= MOST || most >= FEWEST && waited >= SETTLE || waited >= LIMIT;
        if !is_time {
            return;
        }
        let objects = state.objects.clone();
        drop(state);
        self.samples.wanted.store(false, Ordering::Relaxed);
        let settled: BTreeMap<String, u64> = values
            .iter()
            .filter(|(_, value)| **value != ABSENT_VALUE)
            .map(|(symbol, value)| (symbol.clone(), *value))
            .collect();
        let lessons = self.lessons.clone();
        let work = move || {
            let deadline = Instant::now() + LIMIT;
            let mut memory = ProcessMemory::open(pid);
            let all = lessons.iter().zip(&objects);
            all.map(|(lesson, samples)| search(lesson, samples, &settled, &mut memory, deadline)).collect()
        };
        match std::thread::Builder::new().name("profinfer-learn".into()).spawn(work) {
            Ok(thread) => self.running = Some(thread),
            Err(_) => self.end(),
        }
    }

    /// That the recording ended before the search did, where something was to be learned.
    pub(super) fn unfinished(&self, values: &BTreeMap<String, u64>) -> Vec<Diagnostic> {
        let since = self.samples.state().since;
        let Some(since) = since.filter(|_| !self.done) else { return Vec::new() };
        let why = format!("the recording ended {:.2} s after the first object was seen", since.elapsed().as_secs_f64());
        self.lessons.iter().filter(|lesson| is_wanted(lesson, values)).map(|lesson| not_learned(lesson, &why)).collect()
    }

    fn end(&mut self) {
        self.done = true;
        self.samples.wanted.store(false, Ordering::Relaxed);
    }
}

/// Whether a member of it has no offset from elsewhere.
fn is_wanted(lesson: &Lesson, values: &BTreeMap<String, u64>) -> bool {
    let is_missing = |symbol: &String| values.get(symbol).is_some_and(|value| *value == ABSENT_VALUE);
    lesson.paths.iter().flat_map(|path| &path.levels).any(|level| level.within > 0 && is_missing(&level.symbol))
}

fn not_learned(lesson: &Lesson, why: &str) -> Diagnostic {
    let members: Vec<&str> = lesson.paths.iter().filter_map(|path| Some(path.levels.last()?.member.as_str())).collect();
    let message = format!("{} could not be learned: {why}", members.join(", "));
    Diagnostic::warning(Code::LayoutUnknown, message)
        .hint("record a larger model, or a build with debug information; write the offset in the probeset: `TYPE @ N`")
}

/// Fills in what was learned.
fn apply(
    lesson: &Lesson,
    learned: &Learned,
    plan: &ProbePlan,
    session: &Session<'_>,
    modules: &mut Modules<'_>,
    consumer: &Consumer,
) -> Vec<LearnedMember> {
    let values = modules.values.all().clone();
    let new: BTreeMap<&str, u64> = learned
        .offsets
        .iter()
        .filter(|(symbol, _)| values.get(*symbol).is_none_or(|value| *value == ABSENT_VALUE))
        .map(|(symbol, offset)| (symbol.as_str(), *offset))
        .collect();
    for (symbol, offset) in &new {
        modules.values.fill_in(symbol, *offset, session);
    }
    let symbol = |kind: RelocationKind| plan.symbol(&kind).map(str::to_owned);
    let object = || lesson.object.clone();
    let block = symbol(RelocationKind::BlockStart { object: object() })
        .zip(symbol(RelocationKind::BlockLength { object: object() }));
    if let Some((start, length)) = block {
        let (mut first, mut end) = (
            values.get(&start).copied().unwrap_or_default(),
            values.get(&start).copied().unwrap_or_default() + values.get(&length).copied().unwrap_or_default(),
        );
        let is_empty = end <= first + 1;
        for path in &lesson.paths {
            let Some(level) = path.levels.first() else { continue };
            let Some(at) = learned.offsets.get(&level.symbol).or_else(|| values.get(&level.symbol)) else { continue };
            let bytes = match path.leaf {
                LearnLeaf::InPlace(bytes) if path.levels.len() == 1 => bytes as u64,
                LearnLeaf::Str(_) if path.levels.len() == 1 => 32,
                _ => 8,
            };
            first = if is_empty && end <= first + 1 { at & !7 } else { first.min(at & !7) };
            end = end.max(at + bytes);
        }
        modules.values.fill_in(&start, first, session);
        modules.values.fill_in(&length, end.saturating_sub(first).max(1), session);
    }
    if let Some(absent) = symbol(RelocationKind::Absent { record: lesson.record }) {
        let bits = lesson.paths.iter().fold(0_u64, |bits, path| bits | 1 << path.field);
        modules.values.fill_in(&absent, values.get(&absent).copied().unwrap_or_default() & !bits, session);
    }
    consumer.guards().activate(&new.keys().copied().collect());
    let levels = || lesson.paths.iter().flat_map(|path| &path.levels);
    let mut members = Vec::new();
    for (symbol, offset) in &new {
        let Some(level) = levels().find(|level| level.symbol == **symbol) else { continue };
        let example = learned.examples.get(&level.member).cloned().unwrap_or_default();
        let member = LearnedMember {
            view: level.view.clone(),
            member: level.member.clone(),
            offset: *offset,
            objects: learned.objects,
            example,
        };
        modules.learned(ValueSource {
            what: level.member.clone(),
            value: Some(*offset),
            source: format!("learned from {} objects", learned.objects),
        });
        members.push(member);
    }
    let text: Vec<String> = members.iter().map(|member| format!("{} {}", member.member, member.offset)).collect();
    consumer.notice(format!("learned from {} objects: {}", learned.objects, text.join(", ")));
    members
}

/// The memory of a process, by pages that are read once.
struct ProcessMemory {
    file: Option<File>,
    pages: HashMap<u64, Option<Box<[u8]>>>,
}

impl ProcessMemory {
    fn open(pid: i32) -> Self {
        Self { file: File::open(format!("/proc/{pid}/mem")).ok(), pages: HashMap::new() }
    }

    fn page(&mut self, number: u64) -> Option<&[u8]> {
        if !self.pages.contains_key(&number) && self.pages.len() >= MOST_PAGES {
            return None;
        }
        let file = self.file.as_ref()?;
        let read = || {
            let mut bytes = vec![0; PAGE].into_boxed_slice();
            file.read_exact_at(&mut bytes, number.checked_mul(PAGE as u64)?).ok()?;
            Some(bytes)
        };
        self.pages.entry(number).or_insert_with(read).as_deref()
    }
}

impl Memory for ProcessMemory {
    fn read(&mut self, address: u64, into: &mut [u8]) -> bool {
        let mut done = 0;
        while done < into.len() {
            let Some(at) = address.checked_add(done as u64) else { return false };
            let within = (at % PAGE as u64) as usize;
            let count = (PAGE - within).min(into.len() - done);
            let Some(page) = self.page(at / PAGE as u64) else { return false };
            let (Some(from), Some(to)) = (page.get(within..within + count), into.get_mut(done..done + count)) else {
                return false;
            };
            to.copy_from_slice(from);
            done += count;
        }
        true
    }
}
