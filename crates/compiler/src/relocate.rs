//! Values of relocations on one target: from its debug information, else from the spec. A type that is not what the
//! spec expects is refused with both shown.

use super::abi::{NoPlace, argument_place};
use super::fitting::{STRING_NAMES, fits, in_std};
use super::layouts::{Chosen, choose, matching_file};
use super::library_types::{Measure, Sizes as LibrarySizes, class_part, may_have_size};
use super::model::{ChosenEnumeration, ChosenView, ProbePlan, Provenance, Relocation, RelocationKind, RelocationValue};
use super::module::by_name;
use super::unit_layouts::ViewUnits;
use profinfer_binary::{ChosenLayout, Layout, Target, TargetType};
use profinfer_diagnostics::{Code, Diagnostic, Span, did_you_mean};
use profinfer_probeset::path::{ClassPart, Place, Type, fixed_size};
use profinfer_probeset::{Enumeration, NameTable, Probeset, View};
use profinfer_schema::bpf::StringLayout;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// How the names of methods of strings begin, in a file that uses those of a C++ library. One that uses old strings may
/// have some of the new ones', which its library adds to it; the reverse is not so.
const STRING_FUNCTIONS: [(&str, StringLayout); 3] = [
    ("_ZNKSs", StringLayout::LibstdcxxCow),
    ("_ZNKSt7__cxx1112basic_string", StringLayout::Libstdcxx),
    ("_ZNKSt3__112basic_string", StringLayout::Libcxx),
];

/// Resolves values in the files that a plan's programs were placed in.
pub(super) struct Relocator<'a> {
    pub(super) plan: &'a ProbePlan,
    /// The units of functions by which views are read.
    pub(super) units: ViewUnits,
    probeset: &'a Probeset,
    target: &'a dyn Target,
    /// Files to ask, in order of preference.
    files: Vec<usize>,
    /// The files of each module.
    modules: Vec<(String, Vec<usize>)>,
    layouts: RefCell<HashMap<String, Option<(Layout, Provenance)>>>,
    given: RefCell<BTreeMap<String, Given>>,
    /// The names of functions and tables that values are from, by what they are of.
    details: RefCell<BTreeMap<String, String>>,
    /// Members whose offset is being found, by way of others.
    pending: RefCell<Vec<(String, String)>>,
    constants: RefCell<BTreeMap<String, ChosenEnumeration>>,
}

/// What was chosen of the layouts that the spec gives a view; nothing where it gives none.
type Given = Result<Option<(Chosen, Provenance)>, Diagnostic>;

/// An enumeration's constants, and their source.
type Constants = Result<(BTreeMap<i64, String>, Provenance), Diagnostic>;

type Found = Result<(u64, Provenance), Diagnostic>;

impl<'a> Relocator<'a> {
    pub(super) fn new(
        plan: &'a ProbePlan,
        probeset: &'a Probeset,
        target: &'a dyn Target,
        files: Vec<usize>,
        modules: Vec<(String, Vec<usize>)>,
    ) -> Self {
        Self {
            plan,
            units: ViewUnits::new(),
            probeset,
            target,
            files,
            modules,
            layouts: RefCell::default(),
            given: RefCell::default(),
            details: RefCell::default(),
            pending: RefCell::default(),
            constants: RefCell::default(),
        }
    }

    /// The value of one relocation.
    pub(super) fn value(&self, relocation: &Relocation) -> Result<RelocationValue, Diagnostic> {
        let span = &relocation.span;
        let (value, provenance) = match &relocation.what {
            RelocationKind::Offset { view, member } => self.offset(view, member, span),
            RelocationKind::Shift { view, member } => self.shift(view, member, span),
            RelocationKind::Strings { module } => self.strings(module.as_deref(), span),
            RelocationKind::Class { of, part, module } => self.class(of, *part, module.as_deref(), span),
            RelocationKind::Size { view } => {
                self.is_one_type(view, None).map_err(|problem| problem.at(span))?;
                self.size(view).ok_or_else(|| self.size_unknown(view, span))
            }
            RelocationKind::Constant { enumeration, name } => self.constant(enumeration, name, span),
            RelocationKind::Argument { program, argument } => self.argument(*program, *argument, span),
            RelocationKind::BlockStart { object } => self.block(object, span).map(|(start, _, p)| (start, p)),
            RelocationKind::BlockLength { object } => self.block(object, span).map(|(_, length, p)| (length, p)),
            RelocationKind::Absent { .. } => Ok((0, Provenance::Abi)),
        }?;
        let key = match &relocation.what {
            RelocationKind::Offset { view, member } => format!("{view}.{member}"),
            RelocationKind::Constant { enumeration, .. } => enumeration.clone(),
            _ => String::new(),
        };
        let detail = self.details.borrow().get(&key).cloned().unwrap_or_default();
        Ok(RelocationValue { symbol: relocation.symbol.clone(), value, provenance, detail })
    }

    /// The function or table that a value is from.
    pub(super) fn note_detail(&self, what: &str, detail: String) {
        self.details.borrow_mut().insert(what.to_owned(), detail);
    }

    /// The function or table that a value is from; empty for other sources.
    pub(super) fn detail(&self, what: &str) -> String {
        self.details.borrow().get(what).cloned().unwrap_or_default()
    }

    pub(super) fn target(&self) -> &'a dyn Target {
        self.target
    }

    /// A name as its probeset has it, for messages.
    pub(super) fn shown<'n>(&'n self, name: &'n str) -> &'n str {
        self.probeset.names.plain(name)
    }

    /// The type that a view declares a member with.
    pub(super) fn declared_type(&self, view: &str, member: &str) -> Option<Type> {
        Some(self.probeset.types.get(view)?.members.get(member)?.ty.value.clone())
    }

    /// Constants of an enumeration: the target's, else the spec's, where they are of this build.
    ///
    /// # Errors
    /// `T009` where neither has them, `T019` where the spec's are those of other builds.
    pub(super) fn enumeration(&self, name: &str) -> Constants {
        let given = self.probeset.enums.get(name);
        let sets = || given.into_iter().flat_map(|first| std::iter::once(first).chain(&first.otherwise));
        // A version, or a table, is in any of the engine's files, whether there are probes in it or not.
        let is_of_files = sets().any(|set| !set.conditions.is_empty() || !set.tables.is_empty());
        let files = if is_of_files { self.files_by_name() } else { self.files.clone() };
        if let Some((constants, from)) = self.constants_of_target(&files, name) {
            return Ok((without_prefix(constants), from));
        }
        let mut problem: Option<Diagnostic> = None;
        for set in sets() {
            match (self.given_constants(name, set, &files), problem) {
                (Ok(found), _) => return Ok(found),
                (Err(why), None) => problem = Some(why),
                (Err(_), Some(first)) => problem = Some(first.with_note(format!("others apply {}", set.conditions))),
            }
        }
        Err(problem.unwrap_or_else(|| self.without_constants(name, Vec::new())))
    }

    /// That nothing has the constants of an enumeration; tables of them are refused for these reasons.
    fn without_constants(&self, name: &str, mut refused: Vec<String>) -> Diagnostic {
        let message = format!("the constants of enum {} are not available on this target", self.shown(name));
        let hint = format!("there is no debug information for enum {}; write it under `enums:`", self.shown(name));
        refused.dedup();
        let problem = refused.iter().fold(Diagnostic::error(Code::LayoutUnknown, message), |problem, why| {
            problem.with_note(format!("its table of names is not used: {why}"))
        });
        self.with_files(problem).hint(hint)
    }

    /// One set of the constants that the spec gives an enumeration: by the target's tables, or as written.
    fn given_constants(&self, name: &str, given: &Enumeration, files: &[usize]) -> Constants {
        let mut refused = Vec::new();
        let tables = if given.tables.is_empty() { &[][..] } else { files };
        for file in tables {
            match self.names_of(*file, &given.tables) {
                Ok((names, detail)) => {
                    self.note_detail(name, detail);
                    return Ok((names, Provenance::Table));
                }
                Err(why) => refused.push(why),
            }
        }
        if given.constants.is_empty() {
            return Err(self.without_constants(name, refused));
        }
        if given.conditions.is_empty() {
            return Ok((given.constants.clone(), Provenance::ByHand));
        }
        let file =
            matching_file(self.shown(name), given, self.target, files).map_err(|problem| self.with(problem, files))?;
        if let Some(path) = self.target.files().get(file).map(|file| file.path.clone()) {
            let constants = given.constants.clone();
            let chosen = ChosenEnumeration { enumeration: name.to_owned(), path, constants };
            self.constants.borrow_mut().insert(name.to_owned(), chosen);
        }
        Ok((given.constants.clone(), Provenance::Checked))
    }

    /// The names in a file's tables, and what the first table is called: that one must be there.
    fn names_of(
        &self,
        file: usize,
        tables: &BTreeMap<i64, Vec<NameTable>>,
    ) -> Result<(BTreeMap<i64, String>, String), String> {
        let mut all = BTreeMap::new();
        let mut called = None;
        for (first, alternatives) in tables {
            let mut reason = None;
            let found = alternatives.iter().find_map(|table| match self.target.name_table(file, table) {
                Ok(names) => Some((table, names)),
                Err(why) => {
                    reason.get_or_insert(why);
                    None
                }
            });
            let Some((table, names)) = found else {
                match reason {
                    Some(why) if called.is_none() => return Err(why),
                    _ => continue,
                }
            };
            let begins = || names.values().take(3).cloned().collect::<Vec<_>>().join(", ");
            called.get_or_insert_with(|| table.symbol.clone().unwrap_or_else(begins));
            // Names of an earlier table end where the next one begins.
            all.split_off(first);
            all.extend(names.into_iter().filter_map(|(at, name)| Some((first.checked_add(at)?, name))));
        }
        Ok((all, called.unwrap_or_default()))
    }

    /// The files that are asked, and all others whose names are those of the spec's modules.
    pub(super) fn files_by_name(&self) -> Vec<usize> {
        let mut files = self.files.clone();
        for module in self.probeset.modules.values() {
            files.extend(by_name(module, self.target).unwrap_or_default());
        }
        let mut seen = BTreeSet::new();
        files.retain(|file| seen.insert(*file));
        files
    }

    /// The enumerations that were found to be the spec's.
    pub(super) fn chosen_enumerations(&self) -> Vec<ChosenEnumeration> {
        self.constants.borrow().values().cloned().collect()
    }

    /// Where a file's answer about a type comes from.
    fn source(&self, file: usize, name: &str) -> Provenance {
        if self.target.is_locked(file, name) { Provenance::Lock } else { Provenance::Dwarf }
    }

    pub(super) fn layout(&self, view: &str) -> Option<(Layout, Provenance)> {
        let mut layouts = self.layouts.borrow_mut();
        let ask = |file: &usize| Some((self.target.layout(*file, view)?, self.source(*file, view)));
        let find = || self.of_functions(view).or_else(|| self.files.iter().find_map(ask));
        layouts.entry(view.to_owned()).or_insert_with(find).clone()
    }

    /// What is chosen of the layouts that the spec gives a view: by a lock file, else by the checks.
    pub(super) fn given(&self, view: &str) -> Given {
        let Some(of) = self.probeset.types.get(view).filter(|of| !of.layouts.is_empty()) else { return Ok(None) };
        let locked =
            |file: &usize| Some((Chosen { file: *file, layout: self.target.chosen(*file, view)? }, Provenance::Lock));
        let find = || match self.files.iter().find_map(locked) {
            Some(locked) => Ok(Some(locked)),
            None => match choose(self.shown(view), of, self.target, &self.files) {
                Ok(chosen) => Ok(Some((chosen, Provenance::Checked))),
                Err(problem) => Err(self.with_files(problem)),
            },
        };
        self.given.borrow_mut().entry(view.to_owned()).or_insert_with(find).clone()
    }

    /// What was chosen so far.
    pub(super) fn chosen(&self) -> Vec<ChosenView> {
        let given = self.given.borrow();
        let chosen = given.iter().filter_map(|(view, given)| Some((view, &given.as_ref().ok()?.as_ref()?.0)));
        let chosen = chosen.filter_map(|(view, chosen)| {
            let path = self.target.files().get(chosen.file)?.path.clone();
            Some(ChosenView { view: view.clone(), path, layout: chosen.layout.clone() })
        });
        chosen.collect()
    }

    pub(super) fn declared(&self, view: &str) -> Option<&'a View> {
        self.probeset.types.get(view)
    }

    fn view(&self, name: &str, span: &Span) -> Result<&'a View, Diagnostic> {
        let unknown = || Diagnostic::error(Code::Bug, format!("the plan uses the unknown view {name}")).at(span);
        self.declared(name).ok_or_else(unknown)
    }

    pub(super) fn offset(&self, view: &str, member: &str, span: &Span) -> Found {
        let declared = self.view(view, span)?.members.get(member);
        let declared = declared
            .ok_or_else(|| Diagnostic::error(Code::Bug, format!("{view}.{member} is not declared")).at(span))?;
        let Some((layout, from)) = self.layout(view) else {
            let key = (view.to_owned(), member.to_owned());
            if self.pending.borrow().contains(&key) {
                let message = format!("the offset of `{member}` in {} is found by way of itself", self.shown(view));
                return Err(Diagnostic::error(Code::LayoutUnknown, message).at(&declared.name.span));
            }
            self.pending.borrow_mut().push(key);
            let found = self.without_debug_information(view, declared, span);
            self.pending.borrow_mut().pop();
            return found;
        };
        self.is_one_type(view, Some(member)).map_err(|problem| problem.at(&declared.name.span))?;
        let Some((offset, ty)) = layout.members.get(member) else {
            let message = format!("the target's {} has no member `{member}`", self.shown(view));
            let near = did_you_mean(member, layout.members.keys().map(String::as_str));
            let all: Vec<&str> = layout.members.keys().map(String::as_str).take(40).collect();
            return Err(self
                .with_files(Diagnostic::error(Code::TargetMemberMissing, message).at(&declared.name.span))
                .hint(near.unwrap_or_else(|| format!("it has {}", all.join(", ")))));
        };
        let mut expected = declared.ty.value.clone();
        expected.rename(&|name| *name = self.probeset.names.plain(name).to_owned());
        let is_of_size = match ty {
            TargetType::Struct(_, size) if declared.ty.value.may_be_empty() => {
                may_have_size(&declared.ty.value, *size, &Sizes::new(self, None, span))
            }
            _ => true,
        };
        if !is_of_size || !fits(&expected, ty, &|name| self.class_or_enumeration(name)) {
            let message =
                format!("`{}.{member}` is {ty} in the target; the probeset expects {expected}", self.shown(view));
            return Err(self
                .with_files(Diagnostic::error(Code::TargetTypeDiffers, message).at(&declared.ty.span))
                .hint("the engine has changed: find out what the member means now, then change the probeset's type"));
        }
        Ok((*offset, from))
    }

    /// What a name is in the target's debug information: a class, or an enumeration.
    fn class_or_enumeration(&self, name: &str) -> Option<TargetType> {
        self.files.iter().find_map(|file| match self.target.layout(*file, name) {
            Some(layout) => Some(TargetType::Struct(name.to_owned(), layout.size)),
            // Its size is not available here; it is read as the probeset declares it.
            None => self.target.enumeration(*file, name).map(|_| TargetType::Enum(name.to_owned(), 0)),
        })
    }

    /// The lowest bit of a member of some bits, whose offset and type were found right before.
    fn shift(&self, view: &str, member: &str, span: &Span) -> Found {
        let (_, from) = self.offset(view, member, span)?;
        let unknown = || Diagnostic::error(Code::Bug, format!("{view}.{member} has no bits")).at(span);
        if let Some((layout, from)) = self.layout(view) {
            return match layout.members.get(member) {
                Some((_, TargetType::Bits { shift, .. })) => Ok((u64::from(*shift), from)),
                _ => Err(unknown()),
            };
        }
        let declared = self.view(view, span)?.members.get(member).and_then(|member| member.bit);
        declared.map(|bit| (u64::from(bit), from)).ok_or_else(unknown)
    }

    /// A number within a class of the C++ library.
    fn class(&self, of: &Type, part: ClassPart, module: Option<&str>, span: &Span) -> Found {
        let sizes = Sizes::new(self, module, span);
        let value = class_part(of, part, self.size_in_a_view(of), &sizes);
        Ok((value.map_err(|problem| self.with_files(problem.at(span)))?, sizes.from.get()))
    }

    /// The size that the target has for a class which a view declares a member to be.
    fn size_in_a_view(&self, of: &Type) -> Option<u64> {
        let members =
            self.probeset.types.iter().flat_map(|(view, declared)| declared.members.values().map(move |m| (view, m)));
        members.filter(|(_, member)| member.ty.value == *of).find_map(|(view, member)| {
            match self.layout(view)?.0.members.get(&member.name.value)? {
                (_, TargetType::Struct(_, size)) => Some(*size).filter(|size| *size > 0),
                _ => None,
            }
        })
    }

    /// Whether a module's C++ library is LLVM's, by its strings, else by the library that its files need.
    fn is_llvm(&self, module: Option<&str>, span: &Span) -> Result<(bool, Provenance), Diagnostic> {
        let problem = match self.strings(module, span) {
            Ok((strings, from)) => return Ok((strings == StringLayout::Libcxx as u64, from)),
            Err(problem) => problem,
        };
        let files = self.modules.iter().filter(|(name, _)| module.is_none_or(|module| name == module));
        let needed: BTreeSet<bool> = files
            .flat_map(|(_, files)| files)
            .flat_map(|file| self.target.needed(*file))
            .filter_map(|name| match name.split('.').next() {
                Some("libc++" | "libc++_shared") => Some(true),
                Some("libstdc++") => Some(false),
                _ => None,
            })
            .collect();
        match (needed.len(), needed.first()) {
            (1, Some(is_llvm)) if problem.code == Code::LayoutUnknown => Ok((*is_llvm, Provenance::Checked)),
            _ => Err(problem),
        }
    }

    /// How strings are laid out in a module, or everywhere: from debug information, else from the probeset, unless the
    /// file names the functions of other strings: wheels of one engine are built with old C++ libraries and new ones.
    fn strings(&self, module: Option<&str>, span: &Span) -> Found {
        let mut layouts: Vec<(StringLayout, Provenance)> = Vec::new();
        for (name, files) in self.modules.iter().filter(|(name, _)| module.is_none_or(|module| *name == module)) {
            let by_hand = self.probeset.modules.get(name).and_then(|module| module.strings);
            let found = files.iter().find_map(|file| self.strings_of(*file));
            match (found, by_hand) {
                (Some((found, _)), Some(by_hand)) if found != by_hand => {
                    let named = |layout: StringLayout| {
                        StringLayout::NAMES.iter().find(|(_, of)| *of == layout).map_or("", |(name, _)| name)
                    };
                    let message = format!(
                        "strings of the module `{name}` are {} in the target; the probeset declares {}",
                        named(found),
                        named(by_hand)
                    );
                    let hint = format!("leave out `strings: {}`", named(by_hand));
                    return Err(self
                        .with_files(Diagnostic::error(Code::TargetTypeDiffers, message).at(span))
                        .hint(hint));
                }
                (Some(found), _) => layouts.push(found),
                (None, Some(by_hand)) => {
                    let named = files.iter().find_map(|file| self.strings_by_names(*file));
                    let checked = named.filter(|named| *named != by_hand).map(|named| (named, Provenance::Checked));
                    layouts.push(checked.unwrap_or((by_hand, Provenance::ByHand)));
                }
                (None, None) => {}
            }
        }
        let hint = "declare it by module: `modules: NAME: { files: FILE, strings: libstdc++ }`; others are libstdc++-cow and libc++";
        let Some((first, from)) = layouts.first().copied() else {
            let message = "the layout of std::string is not available on this target";
            return Err(self.with_files(Diagnostic::error(Code::LayoutUnknown, message).at(span)).hint(hint));
        };
        if layouts.iter().any(|(layout, _)| *layout != first) {
            let message = "std::string is laid out in several ways in the modules of this target";
            return Err(self
                .with_files(Diagnostic::error(Code::LayoutUnknown, message).at(span))
                .hint("read such strings at a probe instead of in an object: there the module is determined"));
        }
        Ok((first as u64, from))
    }

    /// The layout whose functions a file names, as those of a shared C++ library.
    fn strings_by_names(&self, file: usize) -> Option<StringLayout> {
        STRING_FUNCTIONS.iter().find(|(name, _)| self.target.has_text(file, name)).map(|(_, layout)| *layout)
    }

    /// How a file's debug information lays out strings.
    fn strings_of(&self, file: usize) -> Option<(StringLayout, Provenance)> {
        STRING_NAMES.iter().find_map(|name| {
            let layout = self.target.layout(file, name)?;
            let has = |member: &str| layout.members.contains_key(member);
            let found = if has("_M_string_length") && layout.size == 32 {
                StringLayout::Libstdcxx
            } else if has("_M_dataplus") && layout.size == 8 {
                StringLayout::LibstdcxxCow
            } else if layout.size == 24 && (has("__r_") || has("__rep_")) {
                StringLayout::Libcxx
            } else {
                return None;
            };
            Some((found, self.source(file, name)))
        })
    }

    /// Lists which files were searched, by name and build-id.
    pub(super) fn with_files(&self, diagnostic: Diagnostic) -> Diagnostic {
        self.with(diagnostic, &self.files)
    }

    fn with(&self, diagnostic: Diagnostic, files: &[usize]) -> Diagnostic {
        files.iter().filter_map(|file| self.target.files().get(*file)).fold(diagnostic, |diagnostic, file| {
            let build_id = file.build_id.as_deref().unwrap_or("none");
            diagnostic.with_note(format!("searched {}, build-id {build_id}", file.path.display()))
        })
    }

    fn size(&self, view: &str) -> Option<(u64, Provenance)> {
        match self.layout(view) {
            Some((layout, from)) => Some((layout.size, from)),
            None => match self.given(view).ok().flatten() {
                Some((Chosen { layout: ChosenLayout { size: Some(size), .. }, .. }, from)) => Some((size, from)),
                _ => Some((self.probeset.types.get(view)?.size?, Provenance::ByHand)),
            },
        }
    }

    /// Bytes of a view, from the target or the probeset.
    pub(super) fn size_of(&self, view: &str) -> Option<u64> {
        self.size(view).map(|(size, _)| size)
    }

    fn size_unknown(&self, view: &str, span: &Span) -> Diagnostic {
        if let Err(problem) = self.given(view) {
            return problem;
        }
        let message = format!("the size of {} is not available on this target", self.shown(view));
        self.with_files(Diagnostic::error(Code::LayoutUnknown, message).at(span))
            .hint(format!("write it under `types: {}:` as `size: N`, in bytes", self.shown(view)))
    }

    /// The constants that debug information or a lock file has, with their complete names.
    fn constants_of_target(&self, files: &[usize], enumeration: &str) -> Option<(BTreeMap<i64, String>, Provenance)> {
        let of_file =
            |file: &usize| Some((self.target.enumeration(*file, enumeration)?, self.source(*file, enumeration)));
        files.iter().find_map(of_file).filter(|(constants, _)| !constants.is_empty())
    }

    fn constant(&self, enumeration: &str, name: &str, span: &Span) -> Found {
        let (constants, provenance) = self.enumeration(enumeration).map_err(|problem| match problem.code {
            Code::LayoutUnknown => {
                let message = format!("the value of {name} is not available on this target");
                Diagnostic { message, ..problem }.at(span)
            }
            _ => problem,
        })?;
        match self.number_of(enumeration, (&constants, provenance), name) {
            Some(value) => Ok((as_recorded(value).cast_unsigned(), provenance)),
            None => {
                let message = format!("enum {} has no constant `{name}` in the target", self.shown(enumeration));
                let near = did_you_mean(name, constants.values().map(String::as_str));
                Err(self.with_files(Diagnostic::error(Code::TargetMemberMissing, message).at(span)).hint(
                    near.unwrap_or_else(|| {
                        "constants are written as in the engine's source, with or without prefix".into()
                    }),
                ))
            }
        }
    }

    /// The number of a constant that a spec writes with its prefix or without.
    fn number_of(
        &self,
        enumeration: &str,
        (constants, from): (&BTreeMap<i64, String>, Provenance),
        name: &str,
    ) -> Option<i64> {
        if let Some((value, _)) = constants.iter().find(|(_, constant)| *constant == name) {
            return Some(*value);
        }
        // Those that are written have their complete names.
        if matches!(from, Provenance::ByHand | Provenance::Checked)
            && let Some((value, _)) = without_prefix(constants.clone()).iter().find(|(_, constant)| *constant == name)
        {
            return Some(*value);
        }
        let complete = self.constants_of_target(&self.files_by_name(), enumeration).filter(|(_, of)| *of == from);
        // `A_B` is not the constant `B` where the complete names are there, and none of them ends so.
        let may_be = |value: &i64| {
            let complete = complete.as_ref().and_then(|(complete, _)| complete.get(value));
            complete.is_none_or(|complete| complete.ends_with(name))
        };
        let found = constants.iter().filter(|(value, constant)| prefix(name, constant).is_some() && may_be(value));
        let (value, constant) = found.max_by_key(|(_, constant)| constant.len())?;
        // Without complete names, `A_B_C` may be the constant `B_C`, which is not there, or have the prefix `A_B_`.
        let own = prefix(name, constant)?;
        let has_prefix = complete.is_some() || !self.has_shorter_prefix(enumeration, constants, name, own);
        has_prefix.then_some(*value)
    }

    /// Whether an enumeration's constants have a prefix that is only the beginning of this one: by the enumeration's own
    /// name, `op` for `OP_`, else by the other constants that the plan reads.
    fn has_shorter_prefix(&self, enumeration: &str, constants: &BTreeMap<i64, String>, name: &str, own: &str) -> bool {
        let by_name = format!("{}_", self.probeset.names.plain(enumeration).to_uppercase());
        if own == by_name {
            return false;
        }
        let is_shorter = |other: &str| other.len() < own.len() && own.starts_with(other);
        let others = self.plan.relocations.iter().filter_map(|relocation| match &relocation.what {
            RelocationKind::Constant { enumeration: of, name } if of == enumeration => Some(name.as_str()),
            _ => None,
        });
        let mut of_others = others.filter(|other| *other != name).filter_map(|other| {
            let equal = constants.values().find(|constant| *constant == other).map(|_| "");
            let longest = || constants.values().filter_map(|constant| prefix(other, constant)).min_by_key(|p| p.len());
            equal.or_else(longest)
        });
        own.starts_with(&by_name) || of_others.any(is_shorter)
    }

    fn argument(&self, program: usize, argument: usize, span: &Span) -> Found {
        let signature = self.plan.programs.get(program).and_then(|p| p.signature());
        let Some(signature) = signature else {
            return Err(Diagnostic::error(Code::Bug, "an argument of a program without a signature").at(span));
        };
        if self.plan.programs.get(program).is_some_and(|program| matches!(program.place, Place::Usdt { .. })) {
            // Each site has its own.
            return Ok((0, Provenance::Abi));
        }
        match argument_place(self.plan.arch, signature, argument, &|view| self.passed(view, span)) {
            Ok(place) => Ok((place.0, Provenance::Abi)),
            Err(NoPlace::SizeUnknown(view)) => Err(self.size_unknown(&view, span)),
            Err(NoPlace::Unclassified(view)) => {
                let message = format!(
                    "what `{}` consists of is not described, so that its registers are uncertain",
                    self.shown(&view)
                );
                let hint = "arguments before it can be read; a lock file that is written again has the structs in it";
                Err(self.with_files(Diagnostic::error(Code::ArgumentPlace, message).at(span)).hint(hint))
            }
            Err(NoPlace::VectorRegister) => {
                Err(Diagnostic::error(Code::ArgumentPlace, "a floating-point argument cannot be read").at(span))
            }
        }
    }
}

/// First members of first members that are followed.
const MAX_FIRST: usize = 256;

/// What sizes of classes of the library depend on, on this target.
struct Sizes<'r, 'a> {
    relocator: &'r Relocator<'a>,
    module: Option<&'r str>,
    span: &'r Span,
    /// Where what was asked so far is from.
    from: Cell<Provenance>,
}

impl<'r, 'a> Sizes<'r, 'a> {
    /// Whether a view may begin with a class of the library that may be empty, as far as it is known.
    fn begins_with_class(&self, view: &str) -> bool {
        let declared = self.relocator.probeset.types.get(view);
        let mut members = declared.into_iter().flat_map(|view| view.members.values());
        members.any(|member| member.ty.value.may_be_empty()) || self.first_is_class(view, &mut BTreeSet::new())
    }

    fn first_is_class(&self, name: &str, visited: &mut BTreeSet<String>) -> bool {
        if visited.len() >= MAX_FIRST || !visited.insert(name.to_owned()) {
            return false;
        }
        let layout = self.relocator.files.iter().find_map(|file| self.relocator.target.layout(*file, name));
        let mut members = layout.iter().flat_map(|layout| layout.members.values());
        members.any(|(offset, ty)| match ty {
            TargetType::Struct(of, _) if *offset == 0 => {
                ["optional<", "variant<"].iter().any(|class| in_std(of).is_some_and(|of| of.starts_with(class)))
                    || self.first_is_class(of, visited)
            }
            _ => false,
        })
    }

    fn new(relocator: &'r Relocator<'a>, module: Option<&'r str>, span: &'r Span) -> Self {
        Self { relocator, module, span, from: Cell::new(Provenance::Abi) }
    }

    /// What is by hand anywhere is by hand.
    fn note(&self, from: Provenance) {
        if self.from.get() != Provenance::ByHand {
            self.from.set(from);
        }
    }
}

impl LibrarySizes for Sizes<'_, '_> {
    fn view(&self, name: &str) -> Result<Measure, Diagnostic> {
        let (size, from) = self.relocator.size(name).ok_or_else(|| self.relocator.size_unknown(name, self.span))?;
        self.note(from);
        // Members that are declared, and so are of these types in the target, are aligned like them.
        let members = self.relocator.probeset.types.get(name).into_iter().flat_map(|view| view.members.values());
        let align = members.filter_map(|member| alignment(&member.ty.value)).max();
        let begins_with_class = self.begins_with_class(name);
        if let Some(align) = self.relocator.layout(name).and_then(|(layout, _)| layout.align) {
            return Ok(Measure { size, least: align, most: align, begins_with_class });
        }
        Ok(match (from, align) {
            // Whoever writes a size writes the members that decide it.
            (Provenance::ByHand, Some(align)) => Measure { size, least: align, most: align, begins_with_class },
            _ => Measure::of_struct(size, align.unwrap_or(1), begins_with_class),
        })
    }

    fn strings(&self) -> Result<StringLayout, Diagnostic> {
        let (strings, from) = self.relocator.strings(self.module, self.span)?;
        self.note(from);
        let known = StringLayout::NAMES.iter().find(|(_, layout)| *layout as u64 == strings);
        known.map(|(_, layout)| *layout).ok_or_else(|| Diagnostic::error(Code::Bug, "an unknown layout of strings"))
    }

    fn is_llvm(&self) -> Result<bool, Diagnostic> {
        let (is_llvm, from) = self.relocator.is_llvm(self.module, self.span)?;
        self.note(from);
        Ok(is_llvm)
    }
}

/// The alignment of a member, as far as its type alone decides it.
fn alignment(ty: &Type) -> Option<u64> {
    match ty {
        Type::Array(of, _) => alignment(of),
        Type::Chars(_) | Type::Hex(_) | Type::Bits { .. } | Type::Relative { .. } => None,
        Type::StdString(_) | Type::StdVector(_) | Type::Map { .. } | Type::Smart { .. } => Some(8),
        ty => fixed_size(ty),
    }
}

/// What a constant's complete name has before the name it has in a table.
fn prefix<'n>(complete: &'n str, constant: &str) -> Option<&'n str> {
    complete.strip_suffix(constant).filter(|prefix| prefix.ends_with('_'))
}

/// The number of a constant as it is read and recorded: with a sign, of 32 bits.
pub(super) fn as_recorded(number: i64) -> i64 {
    u32::try_from(number).map_or(number, |number| i64::from(number.cast_signed()))
}

/// Constants without the prefix up to `_` that all of them have: `ENGINE_OP_ADD` is `ADD`.
fn without_prefix(constants: BTreeMap<i64, String>) -> BTreeMap<i64, String> {
    let Some(first) = constants.values().next() else { return constants };
    let common = constants.values().skip(1).fold(first.as_str(), |common, name| {
        let equal = common.bytes().zip(name.bytes()).take_while(|(a, b)| a == b).count();
        common.get(..equal).unwrap_or_default()
    });
    let length = common.rfind('_').map_or(0, |at| at + 1);
    if constants.len() < 2 || constants.values().any(|name| name.len() == length) {
        return constants;
    }
    constants.iter().map(|(value, name)| (*value, name.get(length..).unwrap_or(name).to_owned())).collect()
}
