//! The lock file: facts from the debug information of one build of an engine, for one probeset, written by
//! build-id, for machines where only the stripped binaries are. It is read from anywhere: nothing in it is believed
//! before it was checked.

use super::names::{MAX_SYMBOL, Matcher};
use super::type_text;
use super::{
    Arch, ChosenLayout, ClassBase, Function, FunctionSignature, InlinedCopy, Layout, Overrides, StaticSite, Target,
    TargetBytes, TargetFile, TargetFiles, TargetSymbols, TargetType, TargetTypes,
};
use profinfer_diagnostics::{Code, Diagnostic};
use profinfer_probeset::NameTable;
use profinfer_probeset::path::NamePattern;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;

/// The version that is written, and the newest that is read.
const VERSION: u32 = 1;
/// Bytes of a lock file.
pub const MAX_LOCK: u64 = 64 << 20;
/// Files of one lock.
const MAX_FILES: usize = 1024;
/// Bytes of a struct, and of a file.
const MAX_SIZE: u64 = 1 << 40;
/// Hexadecimal digits of a build-id.
const MAX_BUILD_ID: usize = 128;
/// How a parse error is cut.
const MAX_WHY: usize = 200;

/// Facts about the files of one build.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lock {
    /// The version of the format.
    lock: u32,
    /// The program that wrote it.
    #[serde(rename = "made by")]
    pub made_by: String,
    /// The probeset that it was written for.
    pub probeset: String,
    /// The files, by name.
    pub files: Vec<LockedFile>,
}

/// Facts about one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockedFile {
    /// Its file name.
    pub name: String,
    /// Lower-case hexadecimal.
    pub build_id: String,
    /// `x86_64` or `aarch64`.
    arch: String,
    /// Bytes; a stripped copy has fewer.
    pub size: u64,
    /// Functions, by place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    functions: Vec<LockedFunction>,
    /// Structs, classes and unions with the members that are asked for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    types: BTreeMap<String, LockedLayout>,
    /// Which of the layouts that the probeset gives a view was chosen.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    chosen: BTreeMap<String, ChosenLayout>,
    /// Which slot a method is in, of those that the probeset gives: by `ns::Base[3|4]`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    slots: BTreeMap<String, u32>,
    /// Enumerations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    enums: BTreeMap<String, BTreeMap<i64, String>>,
    /// Copies of functions inside of others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    inlined: Vec<InlinedCopy>,
    /// Functions in slots of virtual tables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    virtuals: Vec<LockedVirtual>,
    /// Static probes.
    #[serde(default, skip_serializing_if = "Vec::is_empty", rename = "static")]
    static_probes: Vec<LockedStatic>,
    /// The sites that were chosen where the lock was made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sites: Vec<LockedSite>,
}

/// A function by symbol, written `0x1139+20 run`: its place in the file, its bytes, its symbol.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
struct LockedFunction {
    at: u64,
    size: u64,
    symbol: String,
}

/// The functions in one slot of a class's virtual table and of those of the classes derived from it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LockedVirtual {
    base: String,
    slot: u32,
    classes: usize,
    functions: Vec<LockedOverride>,
}

/// One of them, with the class that it is of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LockedOverride {
    function: LockedFunction,
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    class: Option<String>,
}

/// A static probe with its places.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LockedStatic {
    provider: String,
    name: String,
    sites: Vec<StaticSite>,
}

/// A layout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LockedLayout {
    size: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    align: Option<u64>,
    members: BTreeMap<String, LockedMember>,
}

/// A member, written `16 i64[4]`: bytes from the start, and its type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
struct LockedMember {
    at: u64,
    ty: TargetType,
}

/// A site as it was chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockedSite {
    /// The probes there.
    pub probes: Vec<String>,
    /// The function, demangled.
    pub function: String,
    /// Bytes from the start of the file.
    pub file_offset: u64,
    /// Bytes from the function's first instruction.
    pub function_offset: u64,
    /// The instruction.
    pub instruction: String,
    /// Where each argument that is read is, by the constant of the program, as `bpf-runtime/call.h` packs it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub arguments: BTreeMap<String, u64>,
}

impl Lock {
    /// A lock of files.
    pub fn new(probeset: &str, mut files: Vec<LockedFile>) -> Self {
        files.sort_by(|a, b| (&a.name, &a.build_id).cmp(&(&b.name, &b.build_id)));
        let made_by = concat!("profinfer ", env!("CARGO_PKG_VERSION")).to_owned();
        Self { lock: VERSION, made_by, probeset: probeset.to_owned(), files }
    }

    /// The text of the file.
    pub fn to_text(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }

    /// Reads the text of a file that is called `name`.
    ///
    /// # Errors
    /// `L001` where it is no lock, of a newer version, or contains impossible values.
    pub fn parse(name: &str, text: &[u8]) -> Result<Self, Diagnostic> {
        #[derive(Deserialize)]
        struct Version {
            lock: u32,
        }
        let refused = |why: &dyn std::fmt::Display| unreadable(name, why);
        if text.len() as u64 > MAX_LOCK {
            return Err(refused(&format!("it is larger than {} MiB", MAX_LOCK >> 20)));
        }
        let Version { lock: version } = serde_json::from_slice(text).map_err(|error| refused(&error))?;
        if version != VERSION {
            let why = format!("its version is {version}; the supported version is {VERSION}");
            return Err(refused(&why).hint("use the profinfer that wrote it, or create it again with `profinfer lock`"));
        }
        let lock: Self = serde_json::from_slice(text).map_err(|error| refused(&error))?;
        lock.validated().map_err(|why| refused(&why))
    }

    fn validated(self) -> Result<Self, String> {
        if self.files.len() > MAX_FILES {
            return Err(format!("it has more than {MAX_FILES} files"));
        }
        for (index, file) in self.files.iter().enumerate() {
            file.validate().map_err(|why| format!("{}: {why}", cut(&file.name)))?;
            if self.files[..index].iter().any(|other| other.build_id == file.build_id) {
                return Err(format!("it has two files with the build-id {}", file.build_id));
            }
        }
        Ok(self)
    }

    /// Facts about a build.
    pub fn file(&self, build_id: &str) -> Option<&LockedFile> {
        self.files.iter().find(|file| file.build_id == build_id)
    }
}

impl LockedFile {
    /// A file without facts yet; `None` where it has no build-id.
    pub fn new(file: &TargetFile) -> Option<Self> {
        Some(Self {
            name: file.name.clone(),
            build_id: file.build_id.clone()?,
            arch: file.arch.to_string(),
            size: file.size,
            functions: Vec::new(),
            types: BTreeMap::new(),
            chosen: BTreeMap::new(),
            slots: BTreeMap::new(),
            enums: BTreeMap::new(),
            inlined: Vec::new(),
            virtuals: Vec::new(),
            static_probes: Vec::new(),
            sites: Vec::new(),
        })
    }

    /// Writes functions down.
    pub fn add_functions(&mut self, functions: &[Function]) {
        let all = functions.iter();
        self.functions.extend(all.map(|function| LockedFunction {
            at: function.file_offset,
            size: function.size,
            symbol: function.symbol.clone(),
        }));
        self.functions.sort_unstable();
        self.functions.dedup();
    }

    /// Writes copies of functions down.
    pub fn add_inlined(&mut self, copies: &[InlinedCopy]) {
        for copy in copies {
            // What a pattern's wildcards stand for is found again by each pattern.
            let copy = InlinedCopy { captures: Vec::new(), ..copy.clone() };
            if !self.inlined.contains(&copy) {
                self.inlined.push(copy);
            }
        }
    }

    /// Writes down what is in a slot of a class's virtual table.
    pub fn add_overrides(&mut self, base: &str, slot: u32, overrides: &Overrides) {
        let functions = overrides.functions.iter().map(|function| LockedOverride {
            function: LockedFunction { at: function.file_offset, size: function.size, symbol: function.symbol.clone() },
            name: function.name.clone(),
            class: function.captures.first().cloned(),
        });
        let functions = functions.collect();
        self.virtuals.push(LockedVirtual { base: base.to_owned(), slot, classes: overrides.classes, functions });
    }

    /// Writes a static probe down.
    pub fn add_static(&mut self, provider: &str, name: &str, sites: &[StaticSite]) {
        let (provider, name) = (provider.to_owned(), name.to_owned());
        self.static_probes.push(LockedStatic { provider, name, sites: sites.to_vec() });
    }

    /// Writes a layout down, as far as its members are wanted.
    pub fn add_layout(&mut self, name: &str, layout: &Layout, wanted: impl Fn(&str) -> bool) {
        let members = layout.members.iter().filter(|(member, _)| wanted(member));
        let members = members.map(|(name, (at, ty))| (name.clone(), LockedMember { at: *at, ty: ty.clone() }));
        self.types.insert(
            name.to_owned(),
            LockedLayout { size: layout.size, align: layout.align, members: members.collect() },
        );
    }

    /// Writes down which layout was chosen for a view.
    pub fn add_chosen(&mut self, view: &str, layout: &ChosenLayout) {
        self.chosen.insert(view.to_owned(), layout.clone());
    }

    /// Writes down in which of several slots a method was found.
    pub fn add_slot(&mut self, open: &str, slot: u32) {
        self.slots.insert(open.to_owned(), slot);
    }

    /// Writes an enumeration down.
    pub fn add_enumeration(&mut self, name: &str, constants: &BTreeMap<i64, String>) {
        self.enums.insert(name.to_owned(), constants.clone());
    }

    /// Whether it has any fact.
    pub fn is_empty(&self) -> bool {
        let places = self.functions.is_empty() && self.inlined.is_empty();
        let others = self.virtuals.is_empty() && self.static_probes.is_empty();
        let learned = self.chosen.is_empty() && self.slots.is_empty();
        places && others && learned && self.types.is_empty() && self.enums.is_empty()
    }

    /// The number of functions, types and enumerations.
    pub fn counts(&self) -> [usize; 3] {
        let overrides: usize = self.virtuals.iter().map(|found| found.functions.len()).sum();
        let places = self.functions.len() + self.inlined.len() + overrides + self.static_probes.len();
        [places, self.types.len() + self.chosen.len(), self.enums.len()]
    }

    fn validate(&self) -> Result<(), String> {
        let hexadecimal = |id: &str| id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if self.build_id.is_empty() || self.build_id.len() > MAX_BUILD_ID || !hexadecimal(&self.build_id) {
            return Err(format!("`{}` is not a build-id", cut(&self.build_id)));
        }
        if ![Arch::X86_64, Arch::Aarch64].iter().any(|arch| arch.to_string() == self.arch) {
            return Err(format!("`{}` is not an instruction set", cut(&self.arch)));
        }
        let inside = |at: u64| at < self.size;
        if self.size > MAX_SIZE {
            return Err("the size of a file is out of range".to_owned());
        }
        if let Some(outside) = self.functions.iter().find(|function| !inside(function.at)) {
            return Err(format!("the function {} is outside the file", cut(&outside.symbol)));
        }
        let copies_inside = |copy: &InlinedCopy| {
            let mut ranges = copy.ranges.iter().chain(&copy.within_ranges);
            inside(copy.entry)
                && ranges.all(|range| range.start <= range.end && range.end <= self.size)
                && copy.name.len() <= MAX_SYMBOL
        };
        if !self.inlined.iter().all(copies_inside) || !self.sites.iter().all(|site| inside(site.file_offset)) {
            return Err("a site is outside the file".to_owned());
        }
        let overrides = self.virtuals.iter().flat_map(|found| &found.functions);
        let sites = self.static_probes.iter().flat_map(|found| &found.sites);
        let semaphores = sites.clone().filter_map(|site| site.semaphore);
        let mut places = overrides.map(|found| found.function.at).chain(sites.map(|site| site.file_offset));
        if !places.all(inside) || !semaphores.clone().all(inside) {
            return Err("a site is outside the file".to_owned());
        }
        for (name, layout) in &self.types {
            let fits = layout.members.values().all(|member| member.at <= layout.size);
            let is_aligned =
                layout.align.is_none_or(|align| align.is_power_of_two() && layout.size.is_multiple_of(align));
            if !fits || !is_aligned || layout.size > MAX_SIZE {
                return Err(format!("the layout of {} is impossible", cut(name)));
            }
        }
        for (name, layout) in &self.chosen {
            let most = layout.size.unwrap_or(MAX_SIZE);
            if most > MAX_SIZE || layout.at.values().any(|at| *at >= most) {
                return Err(format!("the layout of {} is impossible", cut(name)));
            }
        }
        Ok(())
    }

    fn layout(&self, name: &str) -> Option<Layout> {
        let layout = self.types.get(name)?;
        let members = layout.members.iter().map(|(name, member)| (name.clone(), (member.at, member.ty.clone())));
        Some(Layout { size: layout.size, align: layout.align, members: members.collect() })
    }
}

impl TryFrom<String> for LockedFunction {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let wrong = || format!("`{}` is not a function such as `0x1139+20 run`", cut(&text));
        let (place, symbol) = text.split_once(' ').ok_or_else(wrong)?;
        let (at, size) = place.split_once('+').ok_or_else(wrong)?;
        let at = at.strip_prefix("0x").and_then(|at| u64::from_str_radix(at, 16).ok()).ok_or_else(wrong)?;
        let size = size.parse().map_err(|_| wrong())?;
        if symbol.is_empty() || symbol.len() > MAX_SYMBOL {
            return Err(wrong());
        }
        Ok(Self { at, size, symbol: symbol.to_owned() })
    }
}

impl From<LockedFunction> for String {
    fn from(function: LockedFunction) -> Self {
        format!("{:#x}+{} {}", function.at, function.size, function.symbol)
    }
}

impl TryFrom<String> for LockedMember {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let wrong = || format!("`{}` is not a member such as `16 i64[4]`", cut(&text));
        let (at, ty) = text.split_once(' ').ok_or_else(wrong)?;
        let at = at.parse().map_err(|_| wrong())?;
        Ok(Self { at, ty: type_text::parse(ty).ok_or_else(wrong)? })
    }
}

impl From<LockedMember> for String {
    fn from(member: LockedMember) -> Self {
        format!("{} {}", member.at, type_text::write(&member.ty))
    }
}

fn cut(text: &str) -> String {
    if text.chars().count() <= 80 { text.to_owned() } else { text.chars().take(80).chain(['…']).collect() }
}

fn unreadable(name: &str, why: &dyn std::fmt::Display) -> Diagnostic {
    let why: String = why.to_string().chars().take(MAX_WHY).collect();
    Diagnostic::error(Code::LockUnreadable, format!("{name} is not a lock file: {why}"))
        .hint("create one where the target has debug information: `profinfer lock PROBESET --target TARGET`")
}

/// A target with a lock file for what its files lack.
pub struct LockedTarget<'a> {
    inner: &'a (dyn Target + 'a),
    lock: &'a Lock,
    /// The lock's facts about each file.
    locked: Vec<Option<&'a LockedFile>>,
}

impl<'a> LockedTarget<'a> {
    /// A target with a lock; files are recognised by build-id.
    pub fn new(inner: &'a dyn Target, lock: &'a Lock) -> Self {
        let locked = inner.files().iter().map(|file| {
            let locked = lock.file(file.build_id.as_deref()?)?;
            (locked.arch == file.arch.to_string()).then_some(locked)
        });
        Self { locked: locked.collect(), inner, lock }
    }

    fn locked(&self, file: usize) -> Option<&'a LockedFile> {
        self.locked.get(file).copied().flatten()
    }

    /// Files that the lock is about by their names, but not by their builds.
    fn other_builds(&self) -> Vec<Diagnostic> {
        let files = self.inner.files();
        let missing = self
            .lock
            .files
            .iter()
            .filter(|locked| !files.iter().any(|file| file.build_id.as_deref() == Some(locked.build_id.as_str())));
        let mistaken = missing.filter_map(|locked| {
            let file = files.iter().find(|file| library_name(&file.name) == library_name(&locked.name))?;
            Some(other_build(file, locked))
        });
        mistaken.collect()
    }
}

fn other_build(file: &TargetFile, locked: &LockedFile) -> Diagnostic {
    let message = format!("the lock file is for another build of {}", file.name);
    let has = file.build_id.as_deref().unwrap_or("none");
    Diagnostic::error(Code::LockOfOtherBuild, message)
        .with_note(format!("the build-id of {} is {has}", file.path.display()))
        .with_note(format!("the build-id in the lock file is {}", locked.build_id))
        .hint("create a lock file for this build where it has debug information, or remove --lock")
}

impl std::fmt::Debug for LockedTarget<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LockedTarget").field("locked", &self.locked).finish_non_exhaustive()
    }
}

/// `libengine` of `libengine.so.1.2`: links of other names lead to a library.
fn library_name(name: &str) -> &str {
    name.split_once(".so").filter(|(_, rest)| rest.is_empty() || rest.starts_with('.')).map_or(name, |(stem, _)| stem)
}

impl TargetFiles for LockedTarget<'_> {
    fn files(&self) -> &[TargetFile] {
        self.inner.files()
    }

    fn needed(&self, file: usize) -> Vec<String> {
        self.inner.needed(file)
    }

    fn problems(&self) -> Vec<Diagnostic> {
        let mut problems = self.inner.problems();
        problems.extend(self.other_builds());
        problems
    }

    fn unreadable(&self) -> &[std::path::PathBuf] {
        self.inner.unreadable()
    }
}

impl TargetSymbols for LockedTarget<'_> {
    fn functions(&self, file: usize, pattern: &NamePattern) -> Vec<Function> {
        let found = self.inner.functions(file, pattern);
        let (Some(locked), Some(matcher)) = (self.locked(file), Matcher::new(pattern)) else { return found };
        let mut all: BTreeMap<u64, Function> =
            found.into_iter().map(|function| (function.file_offset, function)).collect();
        for function in &locked.functions {
            if let (false, Some(matched)) = (all.contains_key(&function.at), matcher.matches(&function.symbol)) {
                let found = Function {
                    symbol: function.symbol.clone(),
                    name: matched.name,
                    file_offset: function.at,
                    size: function.size,
                    captures: matched.captures,
                };
                all.insert(function.at, found);
            }
        }
        all.into_values().collect()
    }

    fn inlined(&self, file: usize, pattern: &NamePattern) -> Vec<InlinedCopy> {
        let found = self.inner.inlined(file, pattern);
        let (true, Some(locked), Some(matcher)) = (found.is_empty(), self.locked(file), Matcher::new(pattern)) else {
            return found;
        };
        let copies = locked.inlined.iter().filter_map(|copy| {
            let matched = matcher.matches(&copy.name)?;
            Some(InlinedCopy { captures: matched.captures, ..copy.clone() })
        });
        copies.collect()
    }

    fn overrides(&self, file: usize, base: &str, slot: u32) -> Overrides {
        let found = self.inner.overrides(file, base, slot);
        let (0, Some(locked)) = (found.classes, self.locked(file)) else { return found };
        let Some(locked) = locked.virtuals.iter().find(|locked| locked.base == base && locked.slot == slot) else {
            return found;
        };
        let functions = locked.functions.iter().map(|locked| Function {
            symbol: locked.function.symbol.clone(),
            name: locked.name.clone(),
            file_offset: locked.function.at,
            size: locked.function.size,
            captures: locked.class.iter().cloned().collect(),
        });
        Overrides { functions: functions.collect(), classes: locked.classes, ..Overrides::default() }
    }

    fn class_bases(&self, file: usize) -> Vec<ClassBase> {
        self.inner.class_bases(file)
    }

    fn class_like(&self, file: usize, name: &str) -> Option<String> {
        self.inner.class_like(file, name)
    }

    fn static_sites(&self, file: usize, provider: &str, name: &str) -> Vec<StaticSite> {
        let found = self.inner.static_sites(file, provider, name);
        let (true, Some(locked)) = (found.is_empty(), self.locked(file)) else { return found };
        let mut all = locked.static_probes.iter();
        let found = all.find(|locked| locked.provider == provider && locked.name == name);
        // The kernel counts a semaphore up in the target's memory: only the file itself has its address.
        let sites = found.into_iter().flat_map(|locked| &locked.sites);
        sites.filter(|site| site.semaphore.is_none()).cloned().collect()
    }

    fn signatures(&self, file: usize, symbols: &[&str]) -> BTreeMap<String, FunctionSignature> {
        self.inner.signatures(file, symbols)
    }
}

impl TargetTypes for LockedTarget<'_> {
    fn layout(&self, file: usize, type_name: &str) -> Option<Layout> {
        self.inner.layout(file, type_name).or_else(|| self.locked(file)?.layout(type_name))
    }

    fn units(&self, file: usize, functions: &[(&str, u64)]) -> Vec<Option<usize>> {
        self.inner.units(file, functions)
    }

    fn layout_in(&self, file: usize, unit: usize, type_name: &str) -> Option<Layout> {
        self.inner.layout_in(file, unit, type_name)
    }

    fn enumeration(&self, file: usize, name: &str) -> Option<BTreeMap<i64, String>> {
        self.inner.enumeration(file, name).or_else(|| self.locked(file)?.enums.get(name).cloned())
    }

    fn name_table(&self, file: usize, table: &NameTable) -> Result<BTreeMap<i64, String>, String> {
        self.inner.name_table(file, table)
    }

    fn prepare(&self, file: usize, types: &[&str], enums: &[&str]) {
        self.inner.prepare(file, types, enums);
    }

    fn is_locked(&self, file: usize, name: &str) -> bool {
        let has_name = |locked: &LockedFile| locked.types.contains_key(name) || locked.enums.contains_key(name);
        self.locked(file).is_some_and(has_name)
            && self.inner.layout(file, name).is_none()
            && self.inner.enumeration(file, name).is_none()
    }

    fn chosen(&self, file: usize, view: &str) -> Option<ChosenLayout> {
        self.inner.chosen(file, view).or_else(|| self.locked(file)?.chosen.get(view).cloned())
    }

    fn chosen_slot(&self, file: usize, open: &str) -> Option<u32> {
        self.inner.chosen_slot(file, open).or_else(|| self.locked(file)?.slots.get(open).copied())
    }
}

impl TargetBytes for LockedTarget<'_> {
    fn has_bytes(&self, file: usize, bytes: &[u8]) -> bool {
        self.inner.has_bytes(file, bytes)
    }

    fn has_text(&self, file: usize, text: &str) -> bool {
        self.inner.has_text(file, text)
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

#[cfg(test)]
#[path = "lock_tests.rs"]
mod tests;
