//! A plan and a lock: what placing asks of a target is written down, and what a lock has of the sites is compared with
//! what is chosen again.

use super::by_value::{LARGEST, may_have_floats, struct_in};
use super::fitting::STRING_NAMES;
use super::model::{PlacedSite, Placement, ProbePlan, RelocationKind};
use super::placing::place_on;
use profinfer_binary::{
    ChosenLayout, ClassBase, Function, FunctionSignature, InlinedCopy, Layout, Lock, LockedFile, LockedSite,
    LockedTarget, Overrides, StaticSite, Target, TargetBytes, TargetFile, TargetFiles, TargetSymbols, TargetTypes,
};
use profinfer_diagnostics::{Code, Diagnostic, Diagnostics};
use profinfer_probeset::NameTable;
use profinfer_probeset::Probeset;
use profinfer_probeset::path::{NamePattern, Place, Type};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

/// Sites that differ from the lock are named one by one up to this many.
const DIFFERENCES_SHOWN: usize = 5;

/// Places a plan on a target of which a lock has more than its files; `L002` where the lock is of another build.
pub(super) fn place_locked(
    plan: &ProbePlan,
    probeset: &Probeset,
    target: &dyn Target,
    lock: &Lock,
) -> (Placement, Diagnostics) {
    let (placement, mut problems) = place_on(plan, probeset, &LockedTarget::new(target, lock));
    problems.0.extend(difference(plan, &placement, lock));
    (placement, problems)
}

/// Writes down what placing a plan asks of a target.
///
/// # Errors
/// Those of placing it; a probe without a site; a file without a build-id.
pub fn lock(plan: &ProbePlan, probeset: &Probeset, target: &dyn Target) -> Result<(Lock, Diagnostics), Diagnostics> {
    let notes = Notes::new(plan, probeset, target);
    let (placement, mut problems) = place_on(plan, probeset, &notes);
    problems.0.extend(placement.unplaced.iter().filter(|u| u.required).map(|u| u.problem.clone()));
    let mut files = Vec::new();
    for (number, (file, noted)) in target.files().iter().zip(notes.noted.into_inner()).enumerate() {
        let sites = placement.sites.iter().filter(|site| site.path == file.path);
        let sites: Vec<LockedSite> = sites.map(|site| written(plan, &placement, site)).collect();
        let chosen: Vec<_> = placement.chosen.iter().filter(|chosen| chosen.path == file.path).collect();
        let enums: Vec<_> = placement.chosen_enums.iter().filter(|chosen| chosen.path == file.path).collect();
        if noted.is_empty() && sites.is_empty() && chosen.is_empty() && enums.is_empty() {
            continue;
        }
        match LockedFile::new(file) {
            Some(mut locked) => {
                noted.write(&mut locked, probeset);
                chosen.iter().for_each(|chosen| locked.add_chosen(&chosen.view, &chosen.layout));
                enums.iter().for_each(|of| locked.add_enumeration(&of.enumeration, &of.constants));
                locked.sites = sites;
                files.push(locked);
            }
            None => problems.push(without_build_id(&target.files()[number])),
        }
    }
    if files.is_empty() && !problems.has_errors() {
        let message = "there is nothing of this probeset to write down";
        problems.push(Diagnostic::error(Code::CannotLock, message).hint("give the target that has the engine"));
    }
    problems.finish(Lock::new(&probeset.name, files))
}

fn without_build_id(file: &TargetFile) -> Diagnostic {
    Diagnostic::error(Code::CannotLock, format!("{} has no build-id to know it by", file.path.display()))
        .hint("link it with `-Wl,--build-id`, which many systems do by themselves")
}

/// A site as a lock has it.
fn written(plan: &ProbePlan, placement: &Placement, site: &PlacedSite) -> LockedSite {
    LockedSite {
        probes: site.site.probes.clone(),
        function: site.site.function.clone(),
        file_offset: site.site.file_offset,
        function_offset: site.site.function_offset,
        instruction: site.site.instruction.clone(),
        arguments: arguments(plan, placement, site),
    }
}

/// Where a site's program finds its arguments, by constant.
fn arguments(plan: &ProbePlan, placement: &Placement, site: &PlacedSite) -> BTreeMap<String, u64> {
    let of_program =
        |kind: &RelocationKind| matches!(kind, RelocationKind::Argument { program, .. } if *program == site.program);
    let symbols = plan.relocations.iter().filter(|relocation| of_program(&relocation.what)).map(|r| &r.symbol);
    let value = |symbol: &String| {
        let of_all = || placement.values.iter().find(|value| value.symbol == *symbol).map(|value| value.value);
        site.values.get(symbol).copied().or_else(of_all)
    };
    symbols.filter_map(|symbol| Some((symbol.clone(), value(symbol)?))).collect()
}

/// Where the lock differs from the sites that were chosen; what it does not contain does not differ.
fn difference(plan: &ProbePlan, placement: &Placement, lock: &Lock) -> Option<Diagnostic> {
    let differing: Vec<String> = placement
        .sites
        .iter()
        .filter_map(|site| {
            let module = placement.modules.get(site.site.module)?;
            let locked = lock.file(module.build_id.as_deref()?)?;
            let now = written(plan, placement, site);
            let entry = |site: &LockedSite| site.file_offset.checked_sub(site.function_offset);
            let mut same_place = locked.sites.iter().filter(|then| {
                then.function == now.function && then.probes.first() == now.probes.first() && entry(then) == entry(&now)
            });
            let then = same_place.next()?;
            let differs = then.file_offset != now.file_offset
                || then.arguments.iter().any(|(name, place)| now.arguments.get(name).is_some_and(|now| now != place));
            differs.then(|| {
                format!(
                    "`{}`: +{} `{}` in the lock file, +{} `{}` now",
                    now.function, then.function_offset, then.instruction, now.function_offset, now.instruction
                )
            })
        })
        .collect();
    if differing.is_empty() {
        return None;
    }
    let message = format!("{} of the lock file's sites are chosen otherwise here", differing.len());
    let problem = Diagnostic::note(Code::LockDiffers, message)
        .hint("another version of profinfer or of the kernel may do so; what is chosen here is used");
    Some(differing.into_iter().take(DIFFERENCES_SHOWN).fold(problem, Diagnostic::with_note))
}

/// A target that writes down what was asked of it and had an answer.
struct Notes<'a> {
    inner: &'a dyn Target,
    /// The functions that the plan's programs are at; others are asked for only to give hints.
    patterns: HashSet<String>,
    /// The slots of virtual tables that they are at.
    virtuals: HashSet<(String, u32)>,
    types: HashSet<&'a str>,
    /// Structs that are passed by value, and those that these consist of.
    by_value: RefCell<HashSet<String>>,
    noted: RefCell<Vec<Noted>>,
}

/// What was asked of one file.
#[derive(Default)]
struct Noted {
    functions: Vec<Function>,
    inlined: Vec<InlinedCopy>,
    overrides: BTreeMap<(String, u32), Overrides>,
    static_sites: BTreeMap<(String, String), Vec<StaticSite>>,
    layouts: BTreeMap<String, Layout>,
    /// Of the units of functions; `None` where these have different ones.
    of_functions: BTreeMap<String, Option<Layout>>,
    enums: BTreeMap<String, BTreeMap<i64, String>>,
}

impl<'a> Notes<'a> {
    fn new(plan: &ProbePlan, probeset: &'a Probeset, inner: &'a dyn Target) -> Self {
        let patterns = plan.programs.iter().filter_map(|program| match &program.place {
            Place::Function { pattern, .. } => Some(pattern.0.clone()),
            _ => None,
        });
        let virtuals = plan.programs.iter().flat_map(|program| match &program.place {
            Place::Virtual { base, slots, .. } => slots.iter().map(|slot| (base.value.clone(), *slot)).collect(),
            _ => Vec::new(),
        });
        let params = plan.programs.iter().filter_map(|program| program.place.signature()).flat_map(|of| &of.params);
        let by_value = params.filter_map(|param| match &param.ty.value {
            Type::View(view) => Some(probeset.names.plain(view).to_owned()),
            _ => None,
        });
        let noted = inner.files().iter().map(|_| Noted::default()).collect();
        Self {
            inner,
            patterns: patterns.collect(),
            virtuals: virtuals.collect(),
            types: probeset.types.keys().map(String::as_str).chain(STRING_NAMES).collect(),
            by_value: RefCell::new(by_value.collect()),
            noted: RefCell::new(noted),
        }
    }

    fn note_layout(&self, file: usize, type_name: &str, found: &Layout, note: impl FnOnce(&mut Noted)) {
        let mut by_value = self.by_value.borrow_mut();
        let is_passed = by_value.contains(type_name) && found.size <= LARGEST;
        if is_passed {
            by_value.extend(found.members.values().filter_map(|(_, ty)| struct_in(ty)).map(str::to_owned));
        }
        if is_passed || self.types.contains(type_name) {
            self.note(file, note);
        }
    }

    fn note(&self, file: usize, write: impl FnOnce(&mut Noted)) {
        if let Some(noted) = self.noted.borrow_mut().get_mut(file) {
            write(noted);
        }
    }
}

impl Noted {
    fn is_empty(&self) -> bool {
        let places = self.functions.is_empty() && self.inlined.is_empty();
        let others = self.overrides.is_empty() && self.static_sites.is_empty();
        places && others && self.layouts.is_empty() && self.enums.is_empty()
    }

    fn write(&self, file: &mut LockedFile, probeset: &Probeset) {
        file.add_functions(&self.functions);
        file.add_inlined(&self.inlined);
        for ((base, slot), overrides) in &self.overrides {
            file.add_overrides(base, *slot, overrides);
        }
        for ((provider, name), sites) in &self.static_sites {
            file.add_static(provider, name, sites);
        }
        let others = self.layouts.iter().filter(|(name, _)| !self.of_functions.contains_key(*name));
        let layouts = self.of_functions.iter().filter_map(|(name, layout)| Some((name, layout.as_ref()?)));
        for (name, layout) in layouts.chain(others) {
            let is_string = STRING_NAMES.contains(&name.as_str());
            // Where such a struct is passed depends on all of its members.
            let has_floats = layout.size <= LARGEST && layout.members.values().any(|(_, ty)| may_have_floats(ty));
            let wanted = |member: &str| {
                is_string
                    || has_floats
                    || probeset.types.get(name).is_some_and(|view| view.members.contains_key(member))
            };
            file.add_layout(name, layout, wanted);
        }
        for (name, constants) in &self.enums {
            file.add_enumeration(name, constants);
        }
    }
}

impl TargetFiles for Notes<'_> {
    fn files(&self) -> &[TargetFile] {
        self.inner.files()
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

impl TargetSymbols for Notes<'_> {
    fn functions(&self, file: usize, pattern: &NamePattern) -> Vec<Function> {
        let found = self.inner.functions(file, pattern);
        // Pieces of functions are asked for by their symbols: they may jump back.
        if self.patterns.contains(&pattern.0) || pattern.0.ends_with(".cold") {
            self.note(file, |noted| noted.functions.extend(found.iter().cloned()));
        }
        found
    }

    fn inlined(&self, file: usize, pattern: &NamePattern) -> Vec<InlinedCopy> {
        let found = self.inner.inlined(file, pattern);
        if self.patterns.contains(&pattern.0) {
            self.note(file, |noted| noted.inlined.extend(found.iter().cloned()));
        }
        found
    }

    fn overrides(&self, file: usize, base: &str, slot: u32) -> Overrides {
        let found = self.inner.overrides(file, base, slot);
        // Others are asked for to learn whether there is such a class.
        if !found.functions.is_empty() && self.virtuals.contains(&(base.to_owned(), slot)) {
            self.note(file, |noted| drop(noted.overrides.insert((base.to_owned(), slot), found.clone())));
        }
        found
    }

    fn class_bases(&self, file: usize) -> Vec<ClassBase> {
        self.inner.class_bases(file)
    }

    fn class_like(&self, file: usize, name: &str) -> Option<String> {
        self.inner.class_like(file, name)
    }

    fn static_sites(&self, file: usize, provider: &str, name: &str) -> Vec<StaticSite> {
        let found = self.inner.static_sites(file, provider, name);
        if !found.is_empty() {
            let key = (provider.to_owned(), name.to_owned());
            self.note(file, |noted| drop(noted.static_sites.insert(key, found.clone())));
        }
        found
    }

    fn signatures(&self, file: usize, symbols: &[&str]) -> BTreeMap<String, FunctionSignature> {
        self.inner.signatures(file, symbols)
    }
}

impl TargetTypes for Notes<'_> {
    fn layout(&self, file: usize, type_name: &str) -> Option<Layout> {
        let found = self.inner.layout(file, type_name)?;
        self.note_layout(file, type_name, &found, |noted| {
            noted.layouts.insert(type_name.to_owned(), found.clone());
        });
        Some(found)
    }

    fn units(&self, file: usize, functions: &[(&str, u64)]) -> Vec<Option<usize>> {
        self.inner.units(file, functions)
    }

    fn layout_in(&self, file: usize, unit: usize, type_name: &str) -> Option<Layout> {
        let found = self.inner.layout_in(file, unit, type_name)?;
        self.note_layout(file, type_name, &found, |noted| {
            let before = noted.of_functions.entry(type_name.to_owned()).or_insert_with(|| Some(found.clone()));
            before.take_if(|before| *before != found);
        });
        Some(found)
    }

    fn enumeration(&self, file: usize, name: &str) -> Option<BTreeMap<i64, String>> {
        let found = self.inner.enumeration(file, name)?;
        self.note(file, |noted| drop(noted.enums.insert(name.to_owned(), found.clone())));
        Some(found)
    }

    fn name_table(&self, file: usize, table: &NameTable) -> Result<BTreeMap<i64, String>, String> {
        self.inner.name_table(file, table)
    }

    fn prepare(&self, file: usize, types: &[&str], enums: &[&str]) {
        self.inner.prepare(file, types, enums);
    }

    fn is_locked(&self, file: usize, name: &str) -> bool {
        self.inner.is_locked(file, name)
    }

    fn chosen(&self, file: usize, view: &str) -> Option<ChosenLayout> {
        self.inner.chosen(file, view)
    }

    fn chosen_slot(&self, file: usize, open: &str) -> Option<u32> {
        self.inner.chosen_slot(file, open)
    }
}

impl TargetBytes for Notes<'_> {
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
