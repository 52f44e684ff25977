//! A target made only of a test's data: plans and programs can be checked without a binary or root.

use super::names::Matcher;
use super::{
    Arch, ChosenLayout, ClassBase, Function, FunctionSignature, InlinedCopy, Layout, Overrides, StaticSite,
    TargetBytes, TargetFile, TargetFiles, TargetSymbols, TargetType, TargetTypes,
};
use profinfer_diagnostics::{Diagnostic, did_you_mean};
use profinfer_probeset::NameTable;
use profinfer_probeset::path::NamePattern;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;

/// A target in memory. What is added after [`FakeTarget::file`] is in that file.
///
/// ```
/// use profinfer_probeset::path::NamePattern;
/// use profinfer_binary::{Arch, FakeTarget, TargetBytes, TargetSymbols, TargetType};
///
/// let target = FakeTarget::new(Arch::X86_64)
///     .file("libengine.so")
///     .function("engine_run", 0x1000, &[0x55, 0xc3])
///     .layout("tensor", 16, &[("op", 0, TargetType::Enum("op".into(), 4))])
///     .enumeration("op", &[(0, "NONE"), (1, "ADD")]);
///
/// assert_eq!(target.functions(0, &NamePattern("engine_*".into()))[0].captures, ["run"]);
/// assert_eq!(target.code(0, 0x1001, 8), [0xc3]);
/// ```
#[derive(Debug, Clone, Default)]
pub struct FakeTarget {
    arch: Option<Arch>,
    listed: Vec<TargetFile>,
    contents: Vec<Contents>,
    unreadable: Vec<PathBuf>,
}

#[derive(Debug, Clone, Default)]
struct Contents {
    functions: Vec<(String, u64, Vec<u8>)>,
    inlined: Vec<InlinedCopy>,
    overrides: BTreeMap<(String, u32), Overrides>,
    bases: Vec<ClassBase>,
    static_sites: BTreeMap<(String, String), Vec<StaticSite>>,
    layouts: BTreeMap<String, Layout>,
    enums: BTreeMap<String, BTreeMap<i64, String>>,
    texts: Vec<Vec<u8>>,
    tables: Vec<(String, BTreeMap<i64, String>)>,
    needed: Vec<String>,
}

impl FakeTarget {
    /// A target without files.
    pub fn new(arch: Arch) -> Self {
        Self { arch: Some(arch), ..Self::default() }
    }

    /// Adds a file that cannot be read.
    #[must_use]
    pub fn unreadable(mut self, path: &str) -> Self {
        self.unreadable.push(PathBuf::from(path));
        self
    }

    /// Adds a file, by its path in the folder `/fake`. Its build-id is made of its number.
    #[must_use]
    pub fn file(mut self, name: &str) -> Self {
        let number = self.listed.len();
        self.listed.push(TargetFile {
            id: number as u64,
            path: PathBuf::from(format!("/fake/{name}")),
            name: name.rsplit('/').next().unwrap_or(name).to_owned(),
            build_id: Some(format!("{:040x}", number + 1)),
            size: 1 << 20,
            arch: self.arch.unwrap_or(Arch::X86_64),
        });
        self.contents.push(Contents::default());
        self
    }

    /// Adds libraries that the file needs.
    #[must_use]
    pub fn needs(mut self, names: &[&str]) -> Self {
        self.last().needed.extend(names.iter().map(|name| (*name).to_owned()));
        self
    }

    /// Adds a function with its machine code; its size is that of the code.
    #[must_use]
    pub fn function(mut self, symbol: &str, file_offset: u64, code: &[u8]) -> Self {
        self.last().functions.push((symbol.to_owned(), file_offset, code.to_vec()));
        self
    }

    /// Adds a class that others derive from.
    #[must_use]
    pub fn class_base(mut self, base: ClassBase) -> Self {
        self.last().bases.push(base);
        self
    }

    /// Adds an inlined copy of a function; its captures are those of the pattern that is asked for.
    #[must_use]
    pub fn inlined_copy(mut self, copy: InlinedCopy) -> Self {
        self.last().inlined.push(copy);
        self
    }

    /// Says what is in a slot of a class's virtual table.
    #[must_use]
    pub fn overrides_of(mut self, base: &str, slot: u32, overrides: Overrides) -> Self {
        self.last().overrides.insert((base.to_owned(), slot), overrides);
        self
    }

    /// Adds a place of a static probe.
    #[must_use]
    pub fn static_site(mut self, provider: &str, name: &str, site: StaticSite) -> Self {
        self.last().static_sites.entry((provider.to_owned(), name.to_owned())).or_default().push(site);
        self
    }

    /// Adds a struct of `size` bytes with members by name, offset in bytes, and type.
    #[must_use]
    pub fn layout(mut self, name: &str, size: u64, members: &[(&str, u64, TargetType)]) -> Self {
        let members = members.iter().map(|(name, offset, ty)| ((*name).to_owned(), (*offset, ty.clone()))).collect();
        self.last().layouts.insert(name.to_owned(), Layout { size, align: None, members });
        self
    }

    /// Adds an enumeration.
    #[must_use]
    pub fn enumeration(mut self, name: &str, constants: &[(i64, &str)]) -> Self {
        let constants = constants.iter().map(|(value, name)| (*value, (*name).to_owned())).collect();
        self.last().enums.insert(name.to_owned(), constants);
        self
    }

    /// Adds a table of names.
    #[must_use]
    pub fn name_table(mut self, symbol: &str, names: &[&str]) -> Self {
        let names = (0..).zip(names.iter().map(|name| (*name).to_owned())).collect();
        self.last().tables.push((symbol.to_owned(), names));
        self
    }

    /// Adds a text to what is only read.
    #[must_use]
    pub fn text(mut self, text: &str) -> Self {
        self.last().texts.push(text.as_bytes().to_vec());
        self
    }

    fn last(&mut self) -> &mut Contents {
        if self.contents.is_empty() {
            *self = std::mem::take(self).file("a.out");
        }
        let last = self.contents.len() - 1;
        &mut self.contents[last]
    }
}

impl TargetFiles for FakeTarget {
    fn files(&self) -> &[TargetFile] {
        &self.listed
    }

    fn needed(&self, file: usize) -> Vec<String> {
        self.contents.get(file).map(|contents| contents.needed.clone()).unwrap_or_default()
    }

    fn problems(&self) -> Vec<Diagnostic> {
        Vec::new()
    }

    fn unreadable(&self) -> &[PathBuf] {
        &self.unreadable
    }
}

impl TargetSymbols for FakeTarget {
    fn functions(&self, file: usize, pattern: &NamePattern) -> Vec<Function> {
        let (Some(contents), Some(matcher)) = (self.contents.get(file), Matcher::new(pattern)) else {
            return Vec::new();
        };
        let found = contents.functions.iter().filter_map(|(symbol, offset, code)| {
            let matched = matcher.matches(symbol)?;
            let function = Function {
                symbol: symbol.clone(),
                name: matched.name,
                file_offset: *offset,
                size: code.len() as u64,
                captures: matched.captures,
            };
            Some((*offset, function))
        });
        // By offset, and one an address.
        found.collect::<BTreeMap<u64, Function>>().into_values().collect()
    }

    fn inlined(&self, file: usize, pattern: &NamePattern) -> Vec<InlinedCopy> {
        let (Some(contents), Some(matcher)) = (self.contents.get(file), Matcher::new(pattern)) else {
            return Vec::new();
        };
        let found = contents
            .inlined
            .iter()
            .filter_map(|copy| Some(InlinedCopy { captures: matcher.matches(&copy.name)?.captures, ..copy.clone() }));
        found.collect()
    }

    fn overrides(&self, file: usize, base: &str, slot: u32) -> Overrides {
        let found = self.contents.get(file).and_then(|contents| contents.overrides.get(&(base.to_owned(), slot)));
        found.cloned().unwrap_or_default()
    }

    fn class_bases(&self, file: usize) -> Vec<ClassBase> {
        self.contents.get(file).map(|contents| contents.bases.clone()).unwrap_or_default()
    }

    fn class_like(&self, file: usize, name: &str) -> Option<String> {
        let overrides = &self.contents.get(file)?.overrides;
        did_you_mean(name, overrides.keys().map(|(base, _)| base.as_str()))
    }

    fn static_sites(&self, file: usize, provider: &str, name: &str) -> Vec<StaticSite> {
        let of = |contents: &Contents| contents.static_sites.get(&(provider.to_owned(), name.to_owned())).cloned();
        self.contents.get(file).and_then(of).unwrap_or_default()
    }

    fn signatures(&self, _file: usize, _symbols: &[&str]) -> BTreeMap<String, FunctionSignature> {
        BTreeMap::new()
    }
}

impl TargetTypes for FakeTarget {
    fn layout(&self, file: usize, type_name: &str) -> Option<Layout> {
        self.contents.get(file)?.layouts.get(type_name).cloned()
    }

    fn units(&self, _file: usize, functions: &[(&str, u64)]) -> Vec<Option<usize>> {
        vec![None; functions.len()]
    }

    fn layout_in(&self, _file: usize, _unit: usize, _type_name: &str) -> Option<Layout> {
        None
    }

    fn enumeration(&self, file: usize, name: &str) -> Option<BTreeMap<i64, String>> {
        self.contents.get(file)?.enums.get(name).cloned()
    }

    fn name_table(&self, file: usize, table: &NameTable) -> Result<BTreeMap<i64, String>, String> {
        let found = self.contents.get(file).and_then(|contents| {
            contents.tables.iter().find(|(symbol, names)| {
                let begins = || names.values().zip(&table.begins).all(|(name, begins)| name == begins);
                table.symbol.as_ref().map_or_else(begins, |wanted| wanted == symbol)
            })
        });
        found.map(|(_, names)| names.clone()).ok_or_else(|| "there is no such table".to_owned())
    }

    fn prepare(&self, _file: usize, _types: &[&str], _enums: &[&str]) {}

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

impl TargetBytes for FakeTarget {
    fn has_bytes(&self, file: usize, bytes: &[u8]) -> bool {
        let holds = |text: &Vec<u8>| super::elf::stands_in(bytes, text, false);
        self.contents.get(file).is_some_and(|contents| contents.texts.iter().any(holds))
    }

    fn has_text(&self, file: usize, text: &str) -> bool {
        let stands_in = |bytes: &Vec<u8>| super::elf::stands_in(text.as_bytes(), bytes, true);
        self.contents.get(file).is_some_and(|contents| contents.texts.iter().any(stands_in))
    }

    fn near(&self, file: usize, file_offset: u64, distance: i64, len: usize) -> Vec<u8> {
        file_offset.checked_add_signed(distance).map_or_else(Vec::new, |at| self.code(file, at, len))
    }

    fn unwind_range(&self, file: usize, file_offset: u64) -> Option<Range<u64>> {
        let ranges =
            self.contents.get(file)?.functions.iter().map(|(_, start, code)| *start..start + code.len() as u64);
        ranges.into_iter().find(|range| range.contains(&file_offset))
    }

    fn code(&self, file: usize, file_offset: u64, len: usize) -> Vec<u8> {
        let code = self.contents.get(file).into_iter().flat_map(|contents| &contents.functions).find_map(|function| {
            let (_, start, code) = function;
            let skip = usize::try_from(file_offset.checked_sub(*start)?).ok()?;
            let rest = code.get(skip..).filter(|rest| !rest.is_empty())?;
            Some(rest.get(..len).unwrap_or(rest).to_vec())
        });
        code.unwrap_or_default()
    }
}
