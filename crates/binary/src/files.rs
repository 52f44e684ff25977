//! ELF files as a target: each is mapped when it is added, and its symbols and debug information are read when they are
//! first asked about.

use super::by_texts;
use super::cache::{self, LayoutCache};
use super::closures::{self, Invoker};
use super::debug_file::{DebugFile, DebugFolders};
use super::dispatch;
use super::dwarf::inlined::InlinedFunction;
use super::dwarf::{self, Answers, Parts};
use super::elf::Image;
use super::names::{Match, Matcher, class_name, may_lack_parameters, readable_name};
use super::pointers::Pointers;
use super::rtti::Classes;
use super::symbols::Symbols;
use super::{
    ChosenLayout, ClassBase, Function, FunctionSignature, InlinedCopy, Layout, Overrides, StaticSite, TargetBytes,
    TargetFile, TargetFiles, TargetSymbols, TargetTypes, bases, name_table, overrides, unwind_ranges, usdt,
};
use lzma_rust2::XzReader;
use object::{Object, ObjectSection};
use profinfer_diagnostics::{Code, Diagnostic, did_you_mean};
use profinfer_probeset::NameTable;
use profinfer_probeset::path::{ByTexts, NamePattern};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The function that a dynamic linker has for debuggers to stop in when it has mapped or unmapped files.
pub const LINKER_NOTICE: &str = "_dl_debug_state";
/// Bytes of a compressed table of symbols when it is unpacked, at most, of any, and for each byte of it.
const MAX_COMPRESSED_SYMBOLS: u64 = 256 << 20;
const ALWAYS_COMPRESSED_SYMBOLS: u64 = 8 << 20;
const MAX_TIMES_COMPRESSED: u64 = 64;
/// Memory that unpacking it may take.
const MAX_XZ_MEMORY_KIB: u32 = 256 << 10;

/// Prefixes of the mangled names of the C++ library's classes: no engine's class is a base of one.
const OF_THE_LIBRARY: [&str; 4] = ["St", "NSt", "N10__cxxabiv1", "N9__gnu_cxx"];
/// The maximum number of classes for a suggestion of a similar name.
const CLASSES_LIKE: usize = 16 << 10;
/// The maximum number of cached patterns of a file, and of their functions together.
const MAX_CACHED_PATTERNS: usize = 1024;
const MAX_CACHED_FUNCTIONS: usize = 32 << 10;

/// A list of ELF files, by number.
#[derive(Debug)]
pub struct Files {
    listed: Vec<TargetFile>,
    read: Vec<Arc<Lazy>>,
    unreadable: Vec<PathBuf>,
    cache: Option<PathBuf>,
    folders: DebugFolders,
    /// Debug information that was found and refused.
    problems: Mutex<Vec<Diagnostic>>,
}

/// What has been read of one file. Lists of several processes share it.
#[derive(Debug)]
pub(crate) struct Lazy {
    /// No other file has this number.
    pub(crate) number: u64,
    image: Image,
    /// What was taken out of it when it was stripped.
    separate: OnceLock<Option<DebugFile>>,
    /// The table of symbols that some systems leave in a stripped file, compressed.
    compressed: OnceLock<Option<Image>>,
    symbols: OnceLock<Symbols>,
    classes: OnceLock<Classes>,
    /// What was asked of virtual tables: it is asked again each time that the target maps something.
    overrides: Mutex<HashMap<(String, u32), CachedOverrides>>,
    debug: OnceLock<Debug>,
    /// What was found of patterns, which are asked for again whenever the target has mapped another file.
    found: Mutex<HashMap<String, Vec<Function>>>,
    /// Tables of names that were searched for.
    tables: Mutex<HashMap<NameTable, TableAnswer>>,
    pointers: OnceLock<Pointers>,
    unwind_ranges: OnceLock<Vec<Range<u64>>>,
    /// Read where a function is asked for that symbols do not have.
    invokers: OnceLock<Vec<Invoker>>,
    /// Cached searches in its bytes.
    scanned: Mutex<HashMap<(Vec<u8>, bool), bool>>,
}

/// The names of a table, or why there are none.
type TableAnswer = Result<BTreeMap<i64, String>, String>;

/// Cached answers from one file's debug information.
#[derive(Debug)]
struct Debug {
    bytes: u64,
    cache: Option<LayoutCache>,
    answers: Mutex<Answers>,
    parts: OnceLock<Parts>,
    inlined: OnceLock<Vec<InlinedFunction>>,
}

/// What is in a slot of virtual tables.
#[derive(Debug)]
struct CachedOverrides {
    /// The files of the list, where the answer depends on them.
    of_files: Option<Vec<u64>>,
    answer: Overrides,
}

impl Lazy {
    pub(crate) fn new(image: Image) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            image,
            separate: OnceLock::new(),
            compressed: OnceLock::new(),
            symbols: OnceLock::new(),
            classes: OnceLock::new(),
            overrides: Mutex::default(),
            debug: OnceLock::new(),
            found: Mutex::default(),
            tables: Mutex::default(),
            pointers: OnceLock::new(),
            unwind_ranges: OnceLock::new(),
            invokers: OnceLock::new(),
            scanned: Mutex::default(),
        }
    }

    fn unwind_ranges(&self) -> &[Range<u64>] {
        self.unwind_ranges.get_or_init(|| unwind_ranges::read(&self.image))
    }

    /// Whether anything large was read.
    #[cfg(target_os = "linux")]
    pub(crate) fn has_contents(&self) -> bool {
        self.symbols.get().is_some() || self.classes.get().is_some() || self.debug.get().is_some()
    }

    /// The same file, of which nothing but the answers is in memory, which are taken. Nothing for one that was cut while it
    /// was read.
    #[cfg(target_os = "linux")]
    pub(crate) fn without_contents(&self, image: Image) -> Option<Self> {
        fn taken<T: Default>(answers: &Mutex<T>) -> Mutex<T> {
            Mutex::new(std::mem::take(&mut *answers.lock().unwrap_or_else(PoisonError::into_inner)))
        }
        (!self.image.is_torn()).then(|| Self {
            number: self.number,
            overrides: taken(&self.overrides),
            found: taken(&self.found),
            tables: taken(&self.tables),
            scanned: taken(&self.scanned),
            ..Self::new(image)
        })
    }
}

impl Files {
    /// No files; what is read of their debug information is cached below a folder.
    pub fn new(cache: Option<PathBuf>) -> Self {
        Self {
            listed: Vec::new(),
            unreadable: Vec::new(),
            read: Vec::new(),
            cache,
            folders: DebugFolders::default(),
            problems: Mutex::default(),
        }
    }

    /// The same, with folders that are searched for separate debug files first.
    #[must_use]
    pub fn with_debug_folders(mut self, folders: DebugFolders) -> Self {
        self.folders = folders;
        self
    }

    /// No files, and the user's cache folder.
    pub fn with_user_cache() -> Self {
        Self::new(cache::folder())
    }

    /// Maps the file that `path` leads to and lists it under `name`; gives its number.
    #[cfg(test)]
    pub(crate) fn add(&mut self, path: &Path, name: &str) -> Result<usize, super::elf::Unusable> {
        Ok(self.add_image(Image::open(path)?, path, name))
    }

    pub(crate) fn add_image(&mut self, image: Image, path: &Path, name: &str) -> usize {
        self.add_read(Arc::new(Lazy::new(image)), path, name)
    }

    /// Lists a file that may have been read already, for another list.
    pub(crate) fn add_read(&mut self, file: Arc<Lazy>, path: &Path, name: &str) -> usize {
        self.listed.push(TargetFile {
            id: file.number,
            path: path.to_owned(),
            name: name.to_owned(),
            build_id: file.image.build_id().map(str::to_owned),
            size: file.image.bytes().len() as u64,
            arch: file.image.arch(),
        });
        self.read.push(file);
        self.listed.len() - 1
    }

    /// A file that the target has mapped could not be opened.
    #[cfg(target_os = "linux")]
    pub(crate) fn add_unreadable(&mut self, path: PathBuf) {
        self.unreadable.push(path);
    }

    /// Takes every other file off the list; those that are left move up.
    #[cfg(target_os = "linux")]
    pub(crate) fn retain(&mut self, keep: impl Fn(usize) -> bool) {
        let (mut listed, mut read) = (0.., 0..);
        self.listed.retain(|_| listed.next().is_some_and(&keep));
        self.read.retain(|_| read.next().is_some_and(&keep));
    }

    /// Whether anything large of a file is in memory.
    #[cfg(all(test, target_os = "linux"))]
    pub(crate) fn has_contents(&self, file: usize) -> bool {
        self.read[file].has_contents()
    }

    /// Uses these files instead of those with the same numbers.
    #[cfg(target_os = "linux")]
    pub(crate) fn replace(&mut self, others: &HashMap<u64, Arc<Lazy>>) {
        for file in &mut self.read {
            if let Some(other) = others.get(&file.number) {
                *file = Arc::clone(other);
            }
        }
    }

    /// Whether a file contains these bytes; the search is cached.
    fn has(&self, file: usize, bytes: &[u8], whole: bool) -> bool {
        let Some(lazy) = self.read.get(file) else { return false };
        let mut scanned = lazy.scanned.lock().unwrap_or_else(PoisonError::into_inner);
        *scanned.entry((bytes.to_vec(), whole)).or_insert_with(|| lazy.image.has_bytes(bytes, whole))
    }

    pub(crate) fn image(&self, file: usize) -> Option<&Image> {
        self.read.get(file).map(|lazy| &lazy.image)
    }

    /// The file that a file's debug information was moved to; the search is cached.
    fn separate(&self, file: usize) -> Option<&DebugFile> {
        let (lazy, listed) = (self.read.get(file)?, self.listed.get(file)?);
        let find = || {
            let mut refused = Vec::new();
            let found = self.folders.find(&lazy.image, &listed.path, &listed.name, &mut refused);
            self.report(refused);
            found
        };
        lazy.separate.get_or_init(find).as_ref()
    }

    fn report(&self, problems: Vec<Diagnostic>) {
        let mut reported = self.problems.lock().unwrap_or_else(PoisonError::into_inner);
        for problem in problems {
            if !reported.contains(&problem) {
                reported.push(problem);
            }
        }
    }

    /// Says that a file claims more than it can have, and that a part of it was not read.
    fn report_truncation(&self, file: usize, what: &str) {
        let Some(listed) = self.listed.get(file) else { return };
        let message = format!("{} describes more data than a file of its size can contain", listed.path.display());
        let problem = Diagnostic::warning(Code::TargetExceedsItself, message);
        self.report(vec![
            problem.with_note(what.to_owned()).hint("check where the file comes from; it is damaged or forged"),
        ]);
    }

    /// A file's classes, read once.
    fn classes(&self, file: usize) -> Option<&Classes> {
        let lazy = self.read.get(file)?;
        let read = || {
            let classes = Classes::read(&lazy.image);
            if classes.is_cut {
                self.report_truncation(
                    file,
                    "its type information has more pointers or names than fit; classes may be missing",
                );
            }
            classes
        };
        Some(lazy.classes.get_or_init(read))
    }

    /// The functions whose names match.
    fn by_name(&self, file: usize, lazy: &Lazy, pattern: &NamePattern) -> Vec<Function> {
        let Some(matcher) = Matcher::new(pattern) else { return Vec::new() };
        let images = self.with_symbols(file, lazy);
        let (mut found, is_cut) = lazy.symbols.get_or_init(|| Symbols::read(&images)).find(&images, &matcher);
        if is_cut {
            self.report_truncation(file, "its symbols have longer names than it has bytes; functions may be missing");
        }
        if pattern.0.contains(closures::INVOKE) && !images.iter().any(|image| image.has_symbols()) {
            found.extend(self.invokers(file, &matcher));
            found.sort_by_key(|function| function.file_offset);
            found.dedup_by_key(|function| function.file_offset);
        }
        found
    }

    /// The functions, without symbols, by which objects call closures.
    fn invokers(&self, file: usize, matcher: &Matcher) -> Vec<Function> {
        let (Some(lazy), Some(classes)) = (self.read.get(file), self.classes(file)) else { return Vec::new() };
        let read = || closures::invokers(&lazy.image, classes, lazy.unwind_ranges());
        let matching = lazy.invokers.get_or_init(read).iter().filter_map(|invoker| {
            let Invoker { file_offset, size, .. } = *invoker;
            let Match { name, captures } = matcher.matches_name(&invoker.name, &invoker.parameters)?;
            Some(Function { symbol: invoker.name.clone(), name, file_offset, size, captures })
        });
        matching.collect()
    }

    /// The function that refers to texts, or that is called from there; it is called by its address.
    fn by_texts(&self, file: usize, by_texts: &ByTexts<'_>) -> Option<Function> {
        let lazy = self.read.get(file)?;
        let pointers = lazy.pointers.get_or_init(|| Pointers::read(&lazy.image));
        let functions = lazy.unwind_ranges();
        let mut function = by_texts::find(&lazy.image, pointers, functions, &by_texts.texts)?;
        if by_texts.is_before_switch {
            function = dispatch::called_before_switch(&lazy.image, functions, &function)?;
        }
        let name = format!("+{:#x}", lazy.image.address_of(function.start)?);
        let (file_offset, size) = (function.start, function.end - function.start);
        Some(Function { symbol: name.clone(), name, file_offset, size, captures: Vec::new() })
    }

    /// Whether a program is a dynamic linker: it can be anywhere in memory, and notifies debuggers of what it maps.
    pub(crate) fn is_dynamic_linker(&self, file: usize) -> bool {
        self.read.get(file).is_some_and(|lazy| !lazy.image.is_at_fixed_address())
            && !self.functions(file, &NamePattern(LINKER_NOTICE.to_owned())).is_empty()
    }

    /// The address of a symbol of data that a file itself has.
    pub(crate) fn data_address(&self, file: usize, symbol: &str) -> Option<u64> {
        let lazy = self.read.get(file)?;
        name_table::symbol_of(&[&lazy.image], symbol).map(|(address, _)| address)
    }

    /// The images whose symbols are a file's: itself first.
    fn with_symbols<'s>(&'s self, file: usize, lazy: &'s Lazy) -> Vec<&'s Image> {
        let mut images = vec![&lazy.image];
        if lazy.image.has_symbols() {
            return images;
        }
        match self.separate(file).filter(|separate| separate.image.has_symbols()) {
            Some(separate) => images.push(&separate.image),
            None => images.extend(lazy.compressed.get_or_init(|| compressed_symbols(&lazy.image))),
        }
        images
    }

    /// The image that has a file's debug information, and the path it has.
    fn image_with_debug(&self, file: usize) -> Option<(&Image, &Path)> {
        let (lazy, listed) = (self.read.get(file)?, self.listed.get(file)?);
        if lazy.image.has_debug_information() {
            return Some((&lazy.image, &listed.path));
        }
        let separate = self.separate(file).filter(|separate| separate.image.has_debug_information())?;
        Some((&separate.image, &separate.path))
    }

    fn debug(&self, file: usize) -> Option<(&Image, &Debug)> {
        let (image, _) = self.image_with_debug(file)?;
        let debug = self.read.get(file)?.debug.get_or_init(|| {
            let bytes = match dwarf::size(image) {
                Some(bytes) => bytes,
                None => {
                    self.report_truncation(
                        file,
                        "its compressed debug information expands beyond the limit; it is ignored",
                    );
                    0
                }
            };
            let cache = self.cache.as_deref().filter(|_| bytes > 0).and_then(|folder| self.layouts(file, folder));
            let answers = cache.as_ref().map(LayoutCache::load).unwrap_or_default();
            Debug { bytes, cache, answers: Mutex::new(answers), parts: OnceLock::new(), inlined: OnceLock::new() }
        });
        (debug.bytes > 0).then_some((image, debug))
    }

    /// The cache of a file's debug information, with additions from its code.
    fn layouts(&self, file: usize, folder: &Path) -> Option<LayoutCache> {
        let (lazy, listed) = (self.read.get(file)?, self.listed.get(file)?);
        let own = (&lazy.image, listed.path.as_path());
        let separate = self.image_with_debug(file).filter(|(image, _)| !std::ptr::eq(*image, &lazy.image));
        let images: Vec<(&Image, &Path)> = std::iter::once(own).chain(separate).collect();
        LayoutCache::new(folder, &images)
    }

    /// The parts of a file's debug information that are neither in it nor in its debug file; the search is cached.
    fn parts<'s>(&'s self, file: usize, image: &Image, debug: &'s Debug) -> &'s Parts {
        debug.parts.get_or_init(|| {
            let listed = self.listed.get(file).map(|listed| listed.path.as_path());
            let found = self.image_with_debug(file).map(|(_, path)| path);
            let mut places: Vec<&Path> = listed.into_iter().chain(found).collect();
            places.dedup();
            let parts = Parts::find(image, &places, &self.folders);
            self.report(parts.refused.clone());
            parts
        })
    }

    /// Makes sure that every name has an answer, and gives what `pick` takes of them.
    fn ask<T>(&self, file: usize, types: &[&str], enums: &[&str], pick: impl FnOnce(&Answers) -> T) -> Option<T> {
        let (image, debug) = self.debug(file)?;
        let mut cached = debug.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let types: Vec<&str> = types.iter().copied().filter(|name| !cached.types.contains_key(*name)).collect();
        let enums: Vec<&str> = enums.iter().copied().filter(|name| !cached.enums.contains_key(*name)).collect();
        if !types.is_empty() || !enums.is_empty() {
            let parts = self.parts(file, image, debug);
            let answers = dwarf::answer(image, parts, &types, &enums);
            cached.types.extend(answers.types);
            cached.enums.extend(answers.enums);
            debug.store(&cached);
        }
        Some(pick(&cached))
    }

    fn units_of(&self, file: usize, functions: &[(&str, u64)]) -> Option<Vec<Option<usize>>> {
        let (image, debug) = self.debug(file)?;
        let own = &self.read.get(file)?.image;
        let keys: Vec<String> = functions.iter().map(|(symbol, at)| format!("{symbol}@{at:x}")).collect();
        let mut cached = debug.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let new = |key: &String| !cached.units.contains_key(key);
        let asked: Vec<usize> = (0..keys.len()).filter(|index| new(&keys[*index])).collect();
        if !asked.is_empty() {
            let of = |index: &usize| (functions[*index].0, own.address_of(functions[*index].1));
            let wanted: Vec<_> = asked.iter().map(of).collect();
            let found = dwarf::units(image, self.parts(file, image, debug), &wanted);
            cached.units.extend(asked.iter().map(|index| keys[*index].clone()).zip(found));
            debug.store(&cached);
        }
        Some(keys.iter().map(|key| cached.units.get(key).copied().flatten()).collect())
    }

    fn inlined_copies(&self, file: usize, matcher: &Matcher, pattern: &NamePattern) -> Option<Vec<InlinedCopy>> {
        let (image, debug) = self.debug(file)?;
        let named = self.functions(file, pattern);
        let changed = named.iter().filter(|function| may_lack_parameters(&function.symbol));
        let changed: HashSet<u64> = changed.map(|function| function.file_offset).collect();
        let mut cached = debug.answers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(copies) = cached.inlined.get(&pattern.0) {
            return Some(copies.clone());
        }
        let functions = debug.inlined.get_or_init(|| dwarf::inlined::functions(image));
        let copies = dwarf::inlined::copies(&self.read.get(file)?.image, image, functions, matcher, &changed);
        cached.inlined.insert(pattern.0.clone(), copies.clone());
        debug.store(&cached);
        Some(copies)
    }
}

impl Files {
    /// The bases of a class that another file than this one has: name, place, whether virtual.
    fn bases_elsewhere(&self, file: usize, mangled: &str) -> Option<Vec<(Arc<str>, i64, bool)>> {
        if OF_THE_LIBRARY.iter().any(|prefix| mangled.starts_with(prefix)) {
            return None;
        }
        let mut others = (0..self.read.len()).filter(|number| *number != file);
        others.find_map(|number| self.classes(number)?.bases_by_name(mangled))
    }

    /// Names for the functions in a slot: those of the symbols that are left, else of class and slot.
    fn name_overrides(&self, file: usize, found: &overrides::Found, base: &str, slot: u32) -> Vec<Function> {
        let (Some(lazy), Some(classes)) = (self.read.get(file), self.classes(file)) else { return Vec::new() };
        let images = self.with_symbols(file, lazy);
        let offsets: BTreeSet<u64> = found.functions.iter().map(|function| function.file_offset).collect();
        let (symbols, is_cut) = lazy.symbols.get_or_init(|| Symbols::read(&images)).at(&images, &offsets);
        if is_cut {
            self.report_truncation(file, "its symbols have longer names than it has bytes; functions may lack theirs");
        }
        let function = |function: &overrides::Override| {
            let class = function.class.map(|class| classes.name(class));
            let symbol = symbols.get(&function.file_offset);
            let name = match (symbol, &class) {
                (Some((symbol, _)), _) => readable_name(symbol),
                (None, Some(class)) => format!("{class}::[{slot}]"),
                (None, None) => format!("{base}::[{slot}] at {:#x}", function.file_offset),
            };
            Function {
                symbol: symbol.map_or_else(|| name.clone(), |(symbol, _)| symbol.clone()),
                name,
                file_offset: function.file_offset,
                size: symbol.map_or(0, |(_, size)| *size),
                captures: class.into_iter().collect(),
            }
        };
        found.functions.iter().map(function).collect()
    }
}

impl Debug {
    fn store(&self, cached: &Answers) {
        // Another time the parts that lie elsewhere may be there, or be others.
        let is_whole = self.parts.get().is_none_or(Parts::is_none);
        if let Some(cache) = self.cache.as_ref().filter(|_| is_whole) {
            cache.store(cached);
        }
    }
}

/// The table of symbols in `.gnu_debugdata`: a compressed ELF file.
fn compressed_symbols(image: &Image) -> Option<Image> {
    let headers = image.headers()?;
    let packed = headers.section_by_name(".gnu_debugdata")?.data().ok()?;
    let mut unpacked = Vec::new();
    let reader = XzReader::new_mem_limit(packed, false, MAX_XZ_MEMORY_KIB);
    let most = ALWAYS_COMPRESSED_SYMBOLS.saturating_add(MAX_TIMES_COMPRESSED.saturating_mul(packed.len() as u64));
    reader.take(most.min(MAX_COMPRESSED_SYMBOLS)).read_to_end(&mut unpacked).ok()?;
    Image::from_bytes(&unpacked).ok().filter(Image::has_symbols)
}

impl TargetFiles for Files {
    fn files(&self) -> &[TargetFile] {
        &self.listed
    }

    fn needed(&self, file: usize) -> Vec<String> {
        self.image(file).map(|image| image.dynamic().needed).unwrap_or_default()
    }

    fn problems(&self) -> Vec<Diagnostic> {
        let mut problems = self.problems.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let torn = self.read.iter().zip(&self.listed).filter(|(lazy, _)| lazy.image.is_torn());
        problems.extend(torn.map(|(_, listed)| {
            let message = format!("{} was cut while it was read", listed.path.display());
            Diagnostic::warning(Code::TargetOverwritten, message)
                .with_note("what was read of it is not to be believed")
                .hint("move a new build over the old name, as `mv` and package managers do, and try again")
        }));
        problems
    }

    fn unreadable(&self) -> &[PathBuf] {
        &self.unreadable
    }
}

impl TargetSymbols for Files {
    fn functions(&self, file: usize, pattern: &NamePattern) -> Vec<Function> {
        let Some(lazy) = self.read.get(file) else { return Vec::new() };
        if let Some(found) = lazy.found.lock().unwrap_or_else(PoisonError::into_inner).get(&pattern.0) {
            return found.clone();
        }
        let found = match pattern.by_texts() {
            Some(by_texts) => self.by_texts(file, &by_texts).into_iter().collect(),
            None => self.by_name(file, lazy, pattern),
        };
        let mut patterns = lazy.found.lock().unwrap_or_else(PoisonError::into_inner);
        let cached = patterns.values().map(Vec::len).sum::<usize>();
        if patterns.len() < MAX_CACHED_PATTERNS && cached + found.len() <= MAX_CACHED_FUNCTIONS {
            patterns.insert(pattern.0.clone(), found.clone());
        }
        found
    }

    fn inlined(&self, file: usize, pattern: &NamePattern) -> Vec<InlinedCopy> {
        let copies = Matcher::new(pattern).and_then(|matcher| self.inlined_copies(file, &matcher, pattern));
        copies.unwrap_or_default()
    }

    fn overrides(&self, file: usize, base: &str, slot: u32) -> Overrides {
        let (Some(lazy), Some(classes)) = (self.read.get(file), self.classes(file)) else {
            return Overrides::default();
        };
        let key = (base.to_owned(), slot);
        let cache = || lazy.overrides.lock().unwrap_or_else(PoisonError::into_inner);
        let files: Vec<u64> = self.read.iter().map(|file| file.number).collect();
        if let Some(cached) = cache().get(&key).filter(|cached| cached.of_files.as_ref().is_none_or(|of| *of == files))
        {
            return cached.answer.clone();
        }
        let last = base.rsplit("::").next().unwrap_or(base);
        let is_base = |mangled: &str| mangled.contains(last) && class_name(mangled) == base;
        let depends = Cell::new(false);
        let elsewhere = |mangled: &str| {
            depends.set(true);
            self.bases_elsewhere(file, mangled)
        };
        let found = overrides::find(&lazy.image, classes, &is_base, slot, &elsewhere);
        let functions = self.name_overrides(file, &found, base, slot);
        let answer = Overrides { functions, classes: found.classes, slots: found.slots, is_cut: found.is_cut };
        cache().insert(key, CachedOverrides { of_files: depends.get().then_some(files), answer: answer.clone() });
        answer
    }

    fn class_bases(&self, file: usize) -> Vec<ClassBase> {
        let (Some(image), Some(classes)) = (self.image(file), self.classes(file)) else { return Vec::new() };
        bases::find(image, classes)
    }

    fn class_like(&self, file: usize, name: &str) -> Option<String> {
        let classes = self.classes(file)?.all.iter().take(CLASSES_LIKE);
        let names: Vec<String> = classes.map(|class| class_name(&class.mangled)).collect();
        did_you_mean(name, names.iter().map(String::as_str))
    }

    fn static_sites(&self, file: usize, provider: &str, name: &str) -> Vec<StaticSite> {
        self.read.get(file).map_or_else(Vec::new, |lazy| usdt::sites(&lazy.image, provider, name))
    }

    fn signatures(&self, file: usize, symbols: &[&str]) -> BTreeMap<String, FunctionSignature> {
        let Some((image, debug)) = self.debug(file) else { return BTreeMap::new() };
        dwarf::signatures(image, self.parts(file, image, debug), symbols)
    }
}

impl TargetTypes for Files {
    fn layout(&self, file: usize, type_name: &str) -> Option<Layout> {
        self.ask(file, &[type_name], &[], |cached| cached.types.get(type_name).cloned().flatten()).flatten()
    }

    fn units(&self, file: usize, functions: &[(&str, u64)]) -> Vec<Option<usize>> {
        self.units_of(file, functions).unwrap_or_else(|| vec![None; functions.len()])
    }

    fn layout_in(&self, file: usize, unit: usize, type_name: &str) -> Option<Layout> {
        let (image, debug) = self.debug(file)?;
        let mut cached = debug.answers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = cached.by_unit.get(type_name).and_then(|of| of.get(&unit)) {
            return found.clone();
        }
        let found = dwarf::layout_in(image, self.parts(file, image, debug), unit, type_name);
        cached.by_unit.entry(type_name.to_owned()).or_default().insert(unit, found.clone());
        debug.store(&cached);
        found
    }

    fn enumeration(&self, file: usize, name: &str) -> Option<BTreeMap<i64, String>> {
        self.ask(file, &[], &[name], |cached| cached.enums.get(name).cloned().flatten()).flatten()
    }

    fn name_table(&self, file: usize, table: &NameTable) -> Result<BTreeMap<i64, String>, String> {
        let Some(lazy) = self.read.get(file) else { return Err("the file cannot be read".to_owned()) };
        let cache = || lazy.tables.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = cache().get(table) {
            return found.clone();
        }
        let images = self.with_symbols(file, lazy);
        let found = name_table::find(&images, lazy.pointers.get_or_init(|| Pointers::read(&lazy.image)), table);
        let mut tables = cache();
        if tables.len() < MAX_CACHED_PATTERNS {
            tables.insert(table.clone(), found.clone());
        }
        found
    }

    fn prepare(&self, file: usize, types: &[&str], enums: &[&str]) {
        self.ask(file, types, enums, |_| ());
    }

    fn is_locked(&self, _file: usize, _name: &str) -> bool {
        false
    }

    fn chosen(&self, _file: usize, _view: &str) -> Option<ChosenLayout> {
        None
    }

    fn chosen_slot(&self, _file: usize, _open: &str) -> Option<u32> {
        None
    }
}

impl TargetBytes for Files {
    fn has_bytes(&self, file: usize, bytes: &[u8]) -> bool {
        self.has(file, bytes, false)
    }

    fn has_text(&self, file: usize, text: &str) -> bool {
        self.has(file, text.as_bytes(), true)
    }

    fn near(&self, file: usize, file_offset: u64, distance: i64, len: usize) -> Vec<u8> {
        let image = self.read.get(file).map(|lazy| &lazy.image);
        image.and_then(|image| image.near(file_offset, distance, len)).unwrap_or_default().to_vec()
    }

    fn unwind_range(&self, file: usize, file_offset: u64) -> Option<Range<u64>> {
        let lazy = self.read.get(file)?;
        unwind_ranges::with(lazy.unwind_ranges(), file_offset).cloned()
    }

    fn code(&self, file: usize, file_offset: u64, len: usize) -> Vec<u8> {
        self.read.get(file).map_or_else(Vec::new, |lazy| lazy.image.slice(file_offset, len).to_vec())
    }
}
