//! A target of which only some files are seen: those of one of several engines, or of one of several builds.

use profinfer_diagnostics::Diagnostic;
use profinfer_probeset::NameTable;
use profinfer_probeset::path::NamePattern;

use profinfer_binary::{
    ChosenLayout, ClassBase, Function, FunctionSignature, InlinedCopy, Layout, Overrides, StaticSite, Target,
    TargetBytes, TargetFile, TargetFiles, TargetSymbols, TargetTypes,
};
use profinfer_schema::Names;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Some files of a target, asked by the names that a probeset has for types.
pub(super) struct SeenTarget<'a> {
    inner: &'a dyn Target,
    names: &'a Names,
    /// The target's files; those that are not seen have no name, so that nothing matches them.
    files: Vec<TargetFile>,
    own: BTreeSet<usize>,
}

impl<'a> SeenTarget<'a> {
    pub(super) fn new(inner: &'a dyn Target, names: &'a Names, own: BTreeSet<usize>) -> Self {
        let hide = |(number, file): (usize, &TargetFile)| match own.contains(&number) {
            true => file.clone(),
            false => TargetFile { name: String::new(), ..file.clone() },
        };
        let files = inner.files().iter().enumerate().map(hide).collect();
        Self { inner, names, files, own }
    }
}

impl TargetFiles for SeenTarget<'_> {
    fn files(&self) -> &[TargetFile] {
        &self.files
    }

    fn needed(&self, file: usize) -> Vec<String> {
        self.inner.needed(file)
    }

    fn problems(&self) -> Vec<Diagnostic> {
        self.inner.problems()
    }

    fn unreadable(&self) -> &[std::path::PathBuf] {
        self.inner.unreadable()
    }
}

impl TargetSymbols for SeenTarget<'_> {
    fn functions(&self, file: usize, pattern: &NamePattern) -> Vec<Function> {
        if self.own.contains(&file) { self.inner.functions(file, pattern) } else { Vec::new() }
    }

    fn inlined(&self, file: usize, pattern: &NamePattern) -> Vec<InlinedCopy> {
        if self.own.contains(&file) { self.inner.inlined(file, pattern) } else { Vec::new() }
    }

    fn overrides(&self, file: usize, base: &str, slot: u32) -> Overrides {
        if self.own.contains(&file) { self.inner.overrides(file, base, slot) } else { Overrides::default() }
    }

    fn class_bases(&self, file: usize) -> Vec<ClassBase> {
        if self.own.contains(&file) { self.inner.class_bases(file) } else { Vec::new() }
    }

    fn class_like(&self, file: usize, name: &str) -> Option<String> {
        self.inner.class_like(file, name).filter(|_| self.own.contains(&file))
    }

    fn static_sites(&self, file: usize, provider: &str, name: &str) -> Vec<StaticSite> {
        if self.own.contains(&file) { self.inner.static_sites(file, provider, name) } else { Vec::new() }
    }

    fn signatures(&self, file: usize, symbols: &[&str]) -> BTreeMap<String, FunctionSignature> {
        self.inner.signatures(file, symbols)
    }
}

impl TargetTypes for SeenTarget<'_> {
    fn layout(&self, file: usize, type_name: &str) -> Option<Layout> {
        self.inner.layout(file, self.names.plain(type_name))
    }

    fn units(&self, file: usize, functions: &[(&str, u64)]) -> Vec<Option<usize>> {
        self.inner.units(file, functions)
    }

    fn layout_in(&self, file: usize, unit: usize, type_name: &str) -> Option<Layout> {
        self.inner.layout_in(file, unit, self.names.plain(type_name))
    }

    fn enumeration(&self, file: usize, name: &str) -> Option<BTreeMap<i64, String>> {
        self.inner.enumeration(file, self.names.plain(name))
    }

    fn name_table(&self, file: usize, table: &NameTable) -> Result<BTreeMap<i64, String>, String> {
        self.inner.name_table(file, table)
    }

    fn prepare(&self, file: usize, types: &[&str], enums: &[&str]) {
        let plain = |names: &[&str]| names.iter().map(|name| self.names.plain(name).to_owned()).collect::<Vec<_>>();
        let (types, enums) = (plain(types), plain(enums));
        self.inner.prepare(file, &texts(&types), &texts(&enums));
    }

    fn is_locked(&self, file: usize, name: &str) -> bool {
        self.inner.is_locked(file, self.names.plain(name))
    }

    fn chosen(&self, file: usize, view: &str) -> Option<ChosenLayout> {
        self.inner.chosen(file, self.names.plain(view))
    }

    fn chosen_slot(&self, file: usize, open: &str) -> Option<u32> {
        self.inner.chosen_slot(file, open)
    }
}

impl TargetBytes for SeenTarget<'_> {
    fn has_bytes(&self, file: usize, bytes: &[u8]) -> bool {
        self.own.contains(&file) && self.inner.has_bytes(file, bytes)
    }

    fn has_text(&self, file: usize, text: &str) -> bool {
        self.own.contains(&file) && self.inner.has_text(file, text)
    }

    fn near(&self, file: usize, file_offset: u64, distance: i64, len: usize) -> Vec<u8> {
        self.inner.near(file, file_offset, distance, len)
    }

    fn unwind_range(&self, file: usize, file_offset: u64) -> Option<Range<u64>> {
        self.inner.unwind_range(file, file_offset)
    }

    fn code(&self, file: usize, file_offset: u64, len: usize) -> Vec<u8> {
        self.inner.code(file, file_offset, len)
    }
}

fn texts(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}
