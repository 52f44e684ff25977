//! Learning where members are, while a recording begins: records contain addresses of objects, their memory is read from
//! outside, and the offsets that are found are filled in. The target is not stopped.

mod saved;
mod search;

pub(super) use saved::SavedLearning;
pub use saved::{LearnedMember, learned_lock};

use super::consumer::Consumer;
use super::modules::Modules;
use super::process::{numbers_are_the_kernels, process_of_record};
use crate::bpf::Session;
use profinfer_compiler::{LearnLeaf, Lesson, ProbePlan, RelocationKind};
use profinfer_diagnostics::{Code, Diagnostic};
use profinfer_schema::bpf::ABSENT_VALUE;
use profinfer_schema::{FieldType, ModuleInfo, NO_SITE, Schema, Site, ValueSource};
use profinfer_trace::RecordHeader;
use search::{FEWEST, Learned, MOST, Memory, Sample, search};
use std::collections::{BTreeMap, BTreeSet, HashMap};
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
/// Threads that are told apart without reading what they are of again.
const MOST_THREADS: usize = 4096;

/// The objects whose addresses are in records. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct Samples {
    wanted: Arc<AtomicBool>,
    state: Arc<Mutex<Handed>>,
}

#[derive(Debug, Default)]
struct Handed {
    /// By record type: the lesson, and where the addresses are.
    fields: HashMap<u16, Vec<(usize, Addresses)>>,
    /// By site: the module, and the text under the wildcards of the function's name.
    sites: HashMap<u16, (usize, Vec<String>)>,
    objects: Vec<Vec<Sample>>,
    /// By lesson: the module whose function was called with the first object.
    modules: Vec<Option<usize>>,
    /// The process whose memory the addresses are of: of several, the first that had an object. `None`: the target.
    process: Option<u32>,
    /// Whether a thread is one of that process.
    threads: HashMap<u32, bool>,
    since: Option<Instant>,
}

impl Handed {
    /// Whether addresses that a thread had are of the process that is read. The launched one may be a script that only
    /// starts the engine.
    fn is_of_process(&mut self, tid: u32) -> bool {
        if let Some(is_of_process) = self.threads.get(&tid) {
            return *is_of_process;
        }
        if !numbers_are_the_kernels() {
            return true;
        }
        // A thread that has ended meanwhile is taken for one of the process.
        let Some(process) = process_of_record(tid) else { return true };
        let is_of_process = *self.process.get_or_insert(process) == process;
        if self.threads.len() < MOST_THREADS {
            self.threads.insert(tid, is_of_process);
        }
        is_of_process
    }
}

/// Addresses of objects in a record.
#[derive(Debug, Clone, Copy)]
struct Addresses {
    /// Bytes from the record's start to the first.
    first: usize,
    /// How many there are at most.
    most: usize,
    /// Where a list has their number.
    count: Option<usize>,
}

impl Addresses {
    /// The addresses in a field, and what they are of.
    fn of_field(offset: usize, ty: &FieldType) -> Option<(&str, Self)> {
        let (of, first, most, count) = match ty {
            FieldType::Object(object) => return Some((object, Self { first: offset, most: 1, count: None })),
            FieldType::Array(of, most) => (of, offset, *most, None),
            FieldType::List(of, most) => (of, offset + 8, *most, Some(offset)),
            _ => return None,
        };
        let FieldType::Object(object) = &**of else { return None };
        Some((object, Self { first, most: most as usize, count }))
    }

    fn read(self, record: &[u8]) -> impl Iterator<Item = u64> {
        let count = self.count.map_or(u32::MAX, |at| {
            record.get(at..).and_then(|bytes| bytes.first_chunk()).map_or(0, |count| u32::from_le_bytes(*count))
        });
        let words = (0..self.most.min(count as usize)).map(move |index| {
            let bytes = record.get(self.first + index * 8..)?;
            bytes.first_chunk().map(|word| u64::from_le_bytes(*word))
        });
        words.map_while(|word| word).filter(|address| *address != 0)
    }
}

impl Samples {
    fn new(lessons: &[Lesson], schema: &Schema) -> Self {
        let mut fields: HashMap<u16, Vec<(usize, Addresses)>> = HashMap::new();
        for (number, record) in (0_u16..).zip(&schema.records) {
            for field in &record.fields {
                let Some((object, at)) = Addresses::of_field(field.offset as usize, &field.ty) else { continue };
                let lesson = lessons.iter().position(|lesson| lesson.object == *object);
                fields.entry(number).or_default().extend(lesson.map(|lesson| (lesson, at)));
            }
        }
        let objects = lessons.iter().map(|_| Vec::new()).collect();
        let modules = vec![None; lessons.len()];
        let state = Handed { fields, objects, modules, ..Handed::default() };
        let wanted = Arc::new(AtomicBool::new(!lessons.is_empty()));
        Self { wanted, state: Arc::new(Mutex::new(state)) }
    }

    fn state(&self) -> MutexGuard<'_, Handed> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add_sites(&self, sites: &[Site]) {
        if self.wanted.load(Ordering::Relaxed) {
            let of_site = |site: &Site| (site.id, (site.module, site.captures.clone()));
            self.state().sites.extend(sites.iter().map(of_site));
        }
    }

    /// Takes the addresses out of a record.
    pub(super) fn take(&self, record: &[u8]) {
        if !self.wanted.load(Ordering::Relaxed) {
            return;
        }
        let Some(header) = RecordHeader::read(record) else { return };
        let mut state = self.state();
        if !state.fields.contains_key(&header.ty) || !state.is_of_process(header.tid) {
            return;
        }
        let Handed { fields, sites, objects, modules, since, .. } = &mut *state;
        let site = if header.site == NO_SITE { None } else { sites.get(&header.site) };
        for (lesson, addresses) in fields.get(&header.ty).into_iter().flatten() {
            let Some(of_lesson) = objects.get_mut(*lesson) else { continue };
            for address in addresses.read(record) {
                if of_lesson.len() >= MOST || of_lesson.iter().any(|sample| sample.address == address) {
                    continue;
                }
                since.get_or_insert_with(Instant::now);
                if let (Some((module, _)), Some(of_lesson)) = (site, modules.get_mut(*lesson)) {
                    of_lesson.get_or_insert(*module);
                }
                let captures = site.map(|(_, captures)| captures.clone()).unwrap_or_default();
                of_lesson.push(Sample { address, captures });
            }
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
    /// By lesson, why the search found nothing.
    failed: BTreeMap<usize, String>,
}

impl Learning {
    pub(super) fn new(lessons: Vec<Lesson>, schema: &Schema) -> Self {
        let samples = Samples::new(&lessons, schema);
        let done = lessons.is_empty();
        Self { lessons, samples, running: None, done, members: Vec::new(), failed: BTreeMap::new() }
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
        target: u32,
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
            let (since, of_modules) = {
                let state = self.samples.state();
                (state.since, state.modules.clone())
            };
            // An object that only other objects refer to is of the module that those are of.
            let other = of_modules.iter().flatten().next().copied();
            for (number, ((lesson, outcome), module)) in self.lessons.iter().zip(outcomes).zip(of_modules).enumerate() {
                match outcome {
                    Ok(learned) => {
                        let file = module.or(other).and_then(|module| modules.file(module)).cloned();
                        let members = apply(lesson, &learned, file.as_ref(), plan, session, modules, consumer);
                        if let Some(since) = since.filter(|_| !members.is_empty()) {
                            let names: Vec<&str> = members.iter().map(|one| one.member.as_str()).collect();
                            modules.search_report.learned_late(&names, since.elapsed());
                        }
                        self.members.extend(members);
                    }
                    Err(why) => {
                        self.failed.insert(number, why);
                    }
                }
            }
            return;
        }
        if self.running.is_some() {
            return;
        }
        let values = modules.values.all();
        if modules.any_site() && !self.lessons.iter().any(|lesson| is_wanted(lesson, values)) {
            self.end();
            return;
        }
        let state = self.samples.state();
        let Some(since) = state.since else { return };
        let process = state.process.unwrap_or(target);
        let most = state.objects.iter().map(Vec::len).max().unwrap_or_default();
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
            let mut memory = ProcessMemory::open(process);
            let all = lessons.iter().zip(&objects);
            all.map(|(lesson, samples)| search(lesson, samples, &settled, &mut memory, deadline)).collect()
        };
        match std::thread::Builder::new().name("profinfer-learn".into()).spawn(work) {
            Ok(thread) => self.running = Some(thread),
            Err(_) => self.end(),
        }
    }

    /// Why what was to be learned was not: the search found nothing, or the recording ended before. `all`: also where there
    /// was no object.
    pub(super) fn not_learned(&self, values: &BTreeMap<String, u64>, all: bool) -> Vec<Diagnostic> {
        let state = self.samples.state();
        let seconds = state.since.map(|since| since.elapsed().as_secs_f64());
        let why = |(number, objects): (usize, &Vec<Sample>)| match seconds {
            _ if self.done => self.failed.get(&number).cloned(),
            None if !all => None,
            Some(seconds) if objects.len() >= FEWEST => {
                Some(format!("the recording ended {seconds:.2} s after the first object was seen"))
            }
            _ => Some(search::too_few(objects.len())),
        };
        let lessons = self.lessons.iter().zip(state.objects.iter().enumerate());
        let wanted = lessons.filter(|(lesson, _)| is_wanted(lesson, values));
        wanted.filter_map(|(lesson, objects)| Some(not_learned(lesson, &why(objects)?))).collect()
    }

    /// Takes back what depends on these offsets: what a record has refuted is not to be saved, and then used unchecked.
    pub(super) fn forget(&mut self, refuted: &BTreeSet<String>) {
        let levels = self.lessons.iter().flat_map(|lesson| &lesson.paths).flat_map(|path| &path.levels);
        let refuted: BTreeSet<&str> =
            levels.filter(|level| refuted.contains(&level.symbol)).map(|level| level.member.as_str()).collect();
        self.members.retain(|learned| !refuted.contains(learned.member.as_str()));
    }

    fn end(&mut self) {
        self.done = true;
        self.samples.wanted.store(false, Ordering::Relaxed);
    }
}

/// Whether a member of it has no offset from elsewhere: none yet, where its module was not loaded so far.
fn is_wanted(lesson: &Lesson, values: &BTreeMap<String, u64>) -> bool {
    let is_missing = |symbol: &String| values.get(symbol).is_none_or(|value| *value == ABSENT_VALUE);
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
    file: Option<&ModuleInfo>,
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
                LearnLeaf::Array(size, _, count) if path.levels.len() == 1 => (size * count) as u64,
                LearnLeaf::Str(_) | LearnLeaf::Vector(..) if path.levels.len() == 1 => 32,
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
            file: file.cloned(),
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
    fn open(pid: u32) -> Self {
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

#[cfg(test)]
mod tests {
    use super::*;
    use profinfer_compiler::{LearnLevel, LearnPath};

    fn lesson(object: &str, members: &[&str]) -> Lesson {
        let level = |member: &str| LearnLevel {
            member: format!("view.{member}"),
            view: "view".into(),
            symbol: format!("offset_of_{member}"),
            within: 96,
            hints: Vec::new(),
        };
        let path = |(field, member): (usize, &&str)| LearnPath {
            field,
            levels: vec![level("node"), level(member)],
            leaf: LearnLeaf::Pointed(32),
            expected: Vec::new(),
        };
        let paths = members.iter().enumerate().map(path).collect();
        Lesson { object: object.into(), record: 0, paths }
    }

    /// One of two objects was learned; a third needed no search, since all its members have a source.
    #[test]
    fn each_object_that_was_not_learned_has_its_reason() {
        let lessons = vec![lesson("kernel", &["name"]), lesson("tensor", &["shape"]), lesson("graph", &["given"])];
        let mut learning = Learning::new(lessons, &Schema::default());
        let values = ["node", "name", "given"].map(|member| (format!("offset_of_{member}"), 8)).into();
        assert!(learning.not_learned(&values, false).is_empty(), "no object was seen");
        let told = |learning: &Learning, all| -> Vec<String> {
            learning.not_learned(&values, all).into_iter().map(|problem| problem.message).collect()
        };
        let few = "view.shape could not be learned: 0 distinct objects were seen; 20 are needed";
        assert_eq!(told(&learning, true), [few]);
        learning.done = true;
        learning.failed = BTreeMap::from([(1, "it fits at no place".to_owned()), (2, "the same".to_owned())]);
        assert_eq!(told(&learning, false), ["view.shape could not be learned: it fits at no place"]);
    }

    #[test]
    fn what_a_record_has_refuted_is_not_learned() {
        let mut learning = Learning::new(vec![lesson("kernel", &["name", "op"])], &Schema::default());
        let learned = |member: &str| LearnedMember {
            view: "view".into(),
            member: format!("view.{member}"),
            offset: 8,
            objects: 24,
            example: String::new(),
            file: None,
        };
        learning.members = ["node", "name", "op"].map(learned).into();
        learning.forget(&BTreeSet::new());
        assert_eq!(learning.members.len(), 3);
        learning.forget(&["offset_of_node", "offset_of_op", "offset_of_other"].map(str::to_owned).into());
        assert_eq!(learning.members, [learned("name")]);
    }
}
