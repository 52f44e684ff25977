//! ELF files as a target: each is mapped when it is added, and its symbols and debug information are read when they are
//! first asked about.

use super::cache::{LayoutCache, cache_folder};
use super::dwarf::inlined::InlinedFunction;
use super::dwarf::{self, Answers};
use super::elf::{Image, Unusable};
use super::names::Matcher;
use super::symbols::Symbols;
use super::{Function, InlinedCopy, Layout, Target, TargetFile};
use crate::path::NamePattern;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

/// A list of ELF files that can only grow: a file keeps its number.
#[derive(Debug)]
pub struct Files {
    listed: Vec<TargetFile>,
    read: Vec<Lazy>,
    cache: Option<PathBuf>,
}

/// What has been read of one file.
#[derive(Debug)]
struct Lazy {
    image: Image,
    symbols: OnceLock<Symbols>,
    debug: OnceLock<Debug>,
}

/// What is known of one file's debug information.
#[derive(Debug)]
struct Debug {
    bytes: u64,
    cache: Option<LayoutCache>,
    answers: Mutex<Answers>,
    inlined: OnceLock<Vec<InlinedFunction>>,
}

impl Files {
    /// No files; what is read of their debug information is cached below a folder.
    pub fn new(cache: Option<PathBuf>) -> Self {
        Self { listed: Vec::new(), read: Vec::new(), cache }
    }

    /// No files, and the user's cache folder.
    pub fn with_user_cache() -> Self {
        Self::new(cache_folder())
    }

    /// Maps the file that `path` leads to and lists it under `name`; gives its number.
    pub(crate) fn add(&mut self, path: &Path, name: &str) -> Result<usize, Unusable> {
        let image = Image::open(path)?;
        Ok(self.add_image(image, path, name))
    }

    pub(crate) fn add_image(&mut self, image: Image, path: &Path, name: &str) -> usize {
        self.listed.push(TargetFile {
            path: path.to_owned(),
            name: name.to_owned(),
            build_id: image.build_id().map(str::to_owned),
            size: image.bytes().len() as u64,
            arch: image.arch(),
        });
        self.read.push(Lazy { image, symbols: OnceLock::new(), debug: OnceLock::new() });
        self.listed.len() - 1
    }

    pub(crate) fn image(&self, file: usize) -> Option<&Image> {
        self.read.get(file).map(|lazy| &lazy.image)
    }

    fn debug(&self, file: usize) -> Option<(&Image, &Debug)> {
        let lazy = self.read.get(file)?;
        let debug = lazy.debug.get_or_init(|| {
            let bytes = dwarf::size(&lazy.image);
            let cache = match (&self.cache, lazy.image.build_id()) {
                (Some(folder), Some(build_id)) if bytes > 0 => Some(LayoutCache::new(folder, build_id, bytes)),
                _ => None,
            };
            let answers = cache.as_ref().map(LayoutCache::load).unwrap_or_default();
            Debug { bytes, cache, answers: Mutex::new(answers), inlined: OnceLock::new() }
        });
        (debug.bytes > 0).then_some((&lazy.image, debug))
    }
}

impl Debug {
    /// Makes sure that every name has an answer, and gives what `pick` takes of them.
    fn ask<T>(&self, image: &Image, types: &[&str], enums: &[&str], pick: impl FnOnce(&Answers) -> T) -> T {
        let mut known = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let types: Vec<&str> = types.iter().copied().filter(|name| !known.types.contains_key(*name)).collect();
        let enums: Vec<&str> = enums.iter().copied().filter(|name| !known.enums.contains_key(*name)).collect();
        if !types.is_empty() || !enums.is_empty() {
            let answers = dwarf::answer(image, &types, &enums);
            known.types.extend(answers.types);
            known.enums.extend(answers.enums);
            self.store(&known);
        }
        pick(&known)
    }

    fn inlined(&self, image: &Image, pattern: &NamePattern) -> Vec<InlinedCopy> {
        let Some(matcher) = Matcher::new(pattern) else { return Vec::new() };
        let mut known = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(copies) = known.inlined.get(&pattern.0) {
            return copies.clone();
        }
        let functions = self.inlined.get_or_init(|| dwarf::inlined::functions(image));
        let copies = dwarf::inlined::copies(image, functions, &matcher);
        known.inlined.insert(pattern.0.clone(), copies.clone());
        self.store(&known);
        copies
    }

    fn store(&self, known: &Answers) {
        if let Some(cache) = &self.cache {
            // A cache that cannot be written (a full disk, a read-only home) only costs time.
            let _ = cache.store(known);
        }
    }
}

impl Target for Files {
    fn files(&self) -> &[TargetFile] {
        &self.listed
    }

    fn functions(&self, file: usize, pattern: &NamePattern) -> Vec<Function> {
        let (Some(lazy), Some(matcher)) = (self.read.get(file), Matcher::new(pattern)) else { return Vec::new() };
        lazy.symbols.get_or_init(|| Symbols::read(&lazy.image)).find(&lazy.image, &matcher)
    }

    fn inlined(&self, file: usize, pattern: &NamePattern) -> Vec<InlinedCopy> {
        self.debug(file).map_or_else(Vec::new, |(image, debug)| debug.inlined(image, pattern))
    }

    fn layout(&self, file: usize, type_name: &str) -> Option<Layout> {
        let (image, debug) = self.debug(file)?;
        debug.ask(image, &[type_name], &[], |known| known.types.get(type_name).cloned().flatten())
    }

    fn enumeration(&self, file: usize, name: &str) -> Option<BTreeMap<i64, String>> {
        let (image, debug) = self.debug(file)?;
        debug.ask(image, &[], &[name], |known| known.enums.get(name).cloned().flatten())
    }

    fn prepare(&self, file: usize, types: &[&str], enums: &[&str]) {
        if let Some((image, debug)) = self.debug(file) {
            debug.ask(image, types, enums, |_| ());
        }
    }

    fn code(&self, file: usize, file_offset: u64, len: usize) -> Vec<u8> {
        self.read.get(file).map_or_else(Vec::new, |lazy| lazy.image.slice(file_offset, len).to_vec())
    }
}
