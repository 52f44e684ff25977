//! The probes of one probeset on a target: the sites of its programs and the values of its constants.

mod absent;
mod clones;
mod function_site;
mod harm;
mod needs;
mod overrides;
mod shared;
mod static_probes;
mod values;

pub(crate) use absent::is_absent_value;

use super::inlined::{Copies, PlacedCopy};
use super::model::{PlacedSite, Placement, ProbePlan, Program, ProgramKind, RelocationKind, Unplaced};
use super::module::{defining, find, lacking, unreadable};
use super::site::Needs;
use super::unit_layouts::PlacedFunction;
use needs::Asked;
use profinfer_diagnostics::{Code, Diagnostic, Diagnostics, Severity, Spanned, did_you_mean};
use profinfer_probeset::path::{NamePattern, Place, listed};
use profinfer_probeset::{Probe, Probeset};

use indexmap::{IndexMap, IndexSet};
use profinfer_binary::{Function, InlinedCopy, MOST_OVERRIDES, Target};
use profinfer_schema::bpf::site_cookie;
use profinfer_schema::{EngineId, ModuleInfo, NO_SITE, Role, Site, ValueSource};
use std::collections::{BTreeMap, BTreeSet};

/// Most functions that one probe may be at: frameworks export thousands of operators.
const MAX_FUNCTIONS_PER_PROBE: usize = 16384;

/// Files that are named as like a module.
const MOST_LIKE_A_MODULE: usize = 3;

/// Places the probes of one of several probesets; of the only one, where there is no engine to tell apart.
pub(super) fn place_part(
    plan: &ProbePlan,
    probeset: &Probeset,
    target: &dyn Target,
    engine: Option<EngineId>,
) -> (Placement, Diagnostics) {
    let mut roots: IndexMap<&str, Vec<usize>> = IndexMap::new();
    for (index, program) in plan.programs.iter().enumerate() {
        let root = program.probes.first().map_or("", String::as_str);
        if engine.is_none() || probeset.names.engine(root) == engine {
            roots.entry(root).or_default().push(index);
        }
    }
    let placed = |asked: Option<Asked>| {
        let mut placer = Placer {
            plan,
            probeset,
            target,
            engine,
            modules: IndexMap::new(),
            placement: Placement::default(),
            files: Vec::new(),
            slots: Vec::new(),
            problems: Diagnostics::new(),
            asked,
            needs: BTreeMap::new(),
            unsure: Vec::new(),
            functions: Vec::new(),
        };
        for (root, alternatives) in &roots {
            placer.probe(root, alternatives);
        }
        while placer.leave_out_what_lacks_a_member(&roots) {}
        placer
    };
    let mut placer = placed(None);
    // Where arguments are may depend on types that only the files of other probes have: sites are chosen by them, too.
    if placer.has_other_needs() {
        placer = placed(Some(placer.asked()));
    }
    placer.step_group();
    placer.say_shared();
    placer.name_modules();
    placer.values();
    placer.placement.sources.append(&mut placer.slots);
    placer.problems.0.extend(target.problems());
    (placer.placement, placer.problems)
}

struct Placer<'a> {
    plan: &'a ProbePlan,
    probeset: &'a Probeset,
    target: &'a dyn Target,
    engine: Option<EngineId>,
    modules: IndexMap<String, Vec<usize>>,
    placement: Placement,
    /// Files with a site, each as the placement's modules number them.
    files: Vec<usize>,
    /// Slots of methods that a lock file has.
    slots: Vec<ValueSource>,
    problems: Diagnostics,
    /// The files that are asked for types where sites are chosen; by default those of the program's module.
    asked: Option<Asked>,
    /// What each program's sites were chosen by.
    needs: BTreeMap<usize, Needs>,
    /// Changed copies of functions whose arguments are taken to be as declared.
    unsure: Vec<String>,
    /// The functions with a site.
    functions: Vec<PlacedFunction>,
}

impl<'a> Placer<'a> {
    /// Places the first alternative that has a function.
    fn probe(&mut self, root: &str, alternatives: &[usize]) {
        let mut reasons: Vec<Diagnostic> = Vec::new();
        // The slots that are placed together, until it is known which of them is meant.
        let mut open: Option<String> = None;
        for index in alternatives {
            let program = &self.plan.programs[*index];
            if program.kind == ProgramKind::Tracepoint {
                return;
            }
            let slots = program.place.open_slot();
            if open.is_some() && slots != open {
                break;
            }
            let chosen = slots.as_deref().and_then(|slots| self.chosen_slot(program, slots));
            if chosen.is_some() && chosen != program.place.slot() {
                continue;
            }
            match self.alternative(*index, program) {
                Ok(0) => {}
                Ok(_) if slots.is_some() && chosen.is_none() => {
                    self.placement.open_slots.insert(*index);
                    open = slots;
                }
                Ok(_) => return self.say_why_inlined(reasons),
                Err(reason) => reasons.push(reason),
            }
        }
        if let Some(slots) = open {
            self.say_open(root, &slots);
            return self.say_why_inlined(reasons);
        }
        let optional = self.probeset.probes.get(root).is_some_and(|probe| probe.optional);
        let inlined = reasons.iter().position(|reason| reason.code == Code::InlinedCopies);
        let problem = reasons
            .into_iter()
            .nth(inlined.unwrap_or(0))
            .unwrap_or_else(|| Diagnostic::error(Code::FunctionNotFound, format!("`{root}` has no attach point")));
        self.placement.unplaced.push(Unplaced { probe: root.to_owned(), required: !optional, problem });
    }

    /// Notes that an alternative was passed over for its function being inlined.
    fn say_why_inlined(&mut self, reasons: Vec<Diagnostic>) {
        let inlined = reasons.into_iter().filter(|reason| reason.code == Code::InlinedCopies);
        self.problems.0.extend(inlined.map(|reason| Diagnostic { severity: Severity::Note, hint: None, ..reason }));
    }

    /// The number of sites found; why there is none.
    fn alternative(&mut self, index: usize, program: &'a Program) -> Result<usize, Diagnostic> {
        let Some(module) = program.place.module() else {
            return Err(Diagnostic::error(Code::Bug, "this kind of attach point has no sites").at(&program.span));
        };
        let files = self.module(module).clone();
        if files.is_empty() {
            return Err(self.module_not_found(module, program));
        }
        let files = self.without_files_of_others(program, files)?;
        if let Place::Usdt { provider, name, .. } = &program.place {
            return self.static_probe(index, program, &files, (&provider.value, &name.value));
        }
        let (found, copies) = match &program.place {
            Place::Virtual { base, slots, .. } => {
                (self.overrides(program, &files, &base.value, slots)?, Copies::default())
            }
            Place::Function { pattern, .. } => self.functions(index, program, &files, pattern)?,
            _ => (Vec::new(), Copies::default()),
        };
        self.not_too_many(program, found.len() + copies.placed.len())?;
        self.right_architecture(&files)?;
        let needs = self.needs(index, program, &files);
        self.needs.insert(index, needs.clone());
        let before = self.placement.sites.len();
        let mut refused = Vec::new();
        for (file, function) in found {
            let placed = PlacedFunction {
                program: index,
                file,
                symbol: function.symbol.clone(),
                file_offset: function.file_offset,
            };
            match self.site(index, program, file, function, &needs) {
                Ok(_) => self.functions.push(placed),
                Err(why) => refused.push(why),
            }
        }
        let may_be_wrong = self.may_be_wrong(program);
        self.problems.0.extend(may_be_wrong);
        if let Place::Function { pattern, .. } = &program.place {
            self.problems.0.extend(copies.not_seen(pattern, program));
            self.problems.0.extend(copies.too_many(pattern, program));
            self.problems.0.extend(copies.other_names(pattern, program));
        }
        for copy in copies.placed {
            self.copy_site(index, program, copy);
        }
        let count = self.placement.sites.len() - before;
        if count == 0 && !refused.is_empty() {
            return Err(refused.swap_remove(0));
        }
        self.problems.0.extend(refused.into_iter().map(|problem| Diagnostic { severity: Severity::Note, ..problem }));
        Ok(count)
    }

    /// The functions that a pattern means, and the copies of them in others.
    fn functions(
        &self,
        index: usize,
        program: &Program,
        files: &[usize],
        pattern: &NamePattern,
    ) -> Result<(Vec<(usize, Function)>, Copies), Diagnostic> {
        let mut found: Vec<(usize, Function)> = files
            .iter()
            .flat_map(|file| self.target.functions(*file, pattern).into_iter().map(|function| (*file, function)))
            .collect();
        self.leave_to_others(program, files, &mut found);
        let others = self.copies_of_others(program, files);
        let copies = Copies::find(self.plan, index, self.target, files, &others);
        if found.is_empty() && (copies.is_empty() || self.is_tried_again(program)) {
            return Err(self.function_not_found(pattern, files, program));
        }
        if found.is_empty() && !copies.refused.is_empty() {
            return Err(copies.not_taken(pattern, program));
        }
        // One that is noted at some of its calls only would split others' spans at the wrong ones.
        if program.actions.is_empty() && !copies.refused.is_empty() {
            return Err(copies.not_taken(pattern, program));
        }
        Ok((found, copies))
    }

    /// Leaves out the functions that are other probes'.
    fn leave_to_others(&self, program: &Program, files: &[usize], found: &mut Vec<(usize, Function)>) {
        let others = self.functions_of_others(program, files);
        found.retain(|(file, function)| !others.contains(&(*file, function.file_offset)));
    }

    /// Leaves out the files that are other probes'.
    fn without_files_of_others(&self, program: &Program, files: Vec<usize>) -> Result<Vec<usize>, Diagnostic> {
        let Some(root) = self.root(program).filter(|root| !root.unless.is_empty()) else { return Ok(files) };
        let others: BTreeSet<usize> =
            self.functions_of(&root.unless, program, &files).into_iter().map(|(file, _)| file).collect();
        let (without, with): (Vec<usize>, Vec<usize>) = files.into_iter().partition(|file| !others.contains(file));
        if without.is_empty() && !with.is_empty() {
            let names: Vec<&str> = root.unless.iter().map(|name| name.value.as_str()).collect();
            let message = format!("`{}` is left out where `{}` has a site", root.name.value, names.join("`, `"));
            return Err(Diagnostic::note(Code::FunctionNotFound, message).at(&program.span));
        }
        Ok(without)
    }

    fn root(&self, program: &Program) -> Option<&'a Probe> {
        program.probes.first().and_then(|root| self.probeset.probes.get(root))
    }

    /// Where the probes are that a program's probe leaves functions to.
    fn functions_of_others(&self, program: &Program, files: &[usize]) -> BTreeSet<(usize, u64)> {
        self.root(program).map(|root| self.functions_of(&root.except, program, files)).unwrap_or_default()
    }

    /// The copies, by file, of functions that a program's probe leaves to others.
    fn copies_of_others(&self, program: &Program, files: &[usize]) -> Vec<(usize, InlinedCopy)> {
        let except = self.root(program).map_or(&[][..], |root| &root.except);
        let patterns = self.places_of(except, program).filter_map(|place| match place {
            Place::Function { pattern, .. } => Some(pattern),
            _ => None,
        });
        let in_file = |(pattern, file): (&Spanned<NamePattern>, usize)| {
            self.target.inlined(file, pattern).into_iter().map(move |copy| (file, copy))
        };
        patterns.flat_map(|pattern| files.iter().map(move |file| (pattern, *file))).flat_map(in_file).collect()
    }

    /// Where probes are in the module of a program.
    fn places_of<'s>(
        &'s self,
        names: &'s [Spanned<String>],
        program: &'s Program,
    ) -> impl Iterator<Item = &'a Place> + use<'s, 'a> {
        let others = names.iter().filter_map(|name| self.probeset.probes.get(&name.value));
        let places = others.flat_map(|other| &other.at).map(|at| &at.place);
        places.filter(|place| place.module().map(|module| module.value.as_str()) == program.module())
    }

    /// The functions, by file and place, of probes in files of a program's module.
    fn functions_of(&self, names: &[Spanned<String>], program: &Program, files: &[usize]) -> BTreeSet<(usize, u64)> {
        let of_file = |(place, file): (&Place, usize)| {
            let functions = match place {
                Place::Function { pattern, .. } => self.target.functions(file, pattern),
                Place::Virtual { base, slots, .. } => {
                    let in_slot = |slot: &u32| self.target.overrides(file, &base.value, *slot).functions;
                    slots.iter().flat_map(in_slot).collect()
                }
                _ => Vec::new(),
            };
            functions.into_iter().map(move |function| (file, function.file_offset))
        };
        let places = self.places_of(names, program);
        places.flat_map(|place| files.iter().map(move |file| (place, *file))).flat_map(of_file).collect()
    }

    fn not_too_many(&mut self, program: &Program, places: usize) -> Result<(), Diagnostic> {
        let most = match program.place {
            Place::Function { .. } => MAX_FUNCTIONS_PER_PROBE,
            _ => MOST_OVERRIDES,
        };
        if places <= most {
            return Ok(());
        }
        let (what, hint) = match &program.place {
            Place::Function { pattern, .. } => (format!("`{}`", pattern.value), "make the pattern narrower"),
            Place::Virtual { base, slots, .. } => {
                (format!("slot {} of `{}`", listed(slots), base.value), "name a class that fewer derive from")
            }
            _ => ("a static probe".to_owned(), "the file may be damaged: a probe has a few places"),
        };
        let message = format!("{what} is {places} places; a probe is at {most} at most");
        let problem = Diagnostic::error(Code::TooManySites, message).at(&program.span).hint(hint);
        Err(self.refuse(problem))
    }

    fn right_architecture(&mut self, files: &[usize]) -> Result<(), Diagnostic> {
        let other = files.iter().find_map(|f| self.target.files().get(*f).filter(|f| f.arch != self.plan.arch));
        let Some(file) = other else { return Ok(()) };
        let message = format!("{} is for {}, the program for {}", file.path.display(), file.arch, self.plan.arch);
        let problem = Diagnostic::error(Code::WrongArchitecture, message).hint("give `--arch`, or another target");
        Err(self.refuse(problem))
    }

    /// Whether another alternative is at the same function without needing its return, so that copies serve it too.
    fn is_tried_again(&self, program: &Program) -> bool {
        let same_place = |other: &Program| match (&other.place, &program.place) {
            (
                Place::Function { module, pattern, offset: 0, .. },
                Place::Function { module: own_module, pattern: own, .. },
            ) => module.value == own_module.value && pattern.value == own.value,
            _ => false,
        };
        let again =
            |other: &&Program| other.kind == ProgramKind::Entry && other.probes.first() == program.probes.first();
        program.kind == ProgramKind::Span && self.plan.programs.iter().filter(again).any(same_place)
    }

    /// An error of the whole placement, not only the reason why one alternative has no site.
    fn refuse(&mut self, problem: Diagnostic) -> Diagnostic {
        self.problems.push(problem.clone());
        problem
    }

    /// The files that a module is.
    fn module(&mut self, name: &str) -> &Vec<usize> {
        let (probeset, target) = (self.probeset, self.target);
        self.modules.entry(name.to_owned()).or_insert_with(|| find(probeset, name, target))
    }

    /// The number of the next site.
    fn next_id(&self, program: &Program) -> Result<u16, Diagnostic> {
        let id = u16::try_from(self.placement.sites.len()).ok().filter(|id| *id < NO_SITE);
        id.ok_or_else(|| {
            Diagnostic::error(Code::TooManySites, format!("all probes together have more than {NO_SITE} sites"))
                .at(&program.span)
                .hint("make patterns narrower, or leave probes out: `--no-probe NAME`")
        })
    }

    /// Chooses the function's site; why there is none.
    fn site(
        &mut self,
        index: usize,
        program: &Program,
        file: usize,
        function: Function,
        needs: &Needs,
    ) -> Result<(), Diagnostic> {
        let id = self.next_id(program)?;
        let Some(of) = self.target.files().get(file) else { return Ok(()) };
        let extra = match &program.place {
            Place::Function { offset, .. } => *offset,
            _ => 0,
        };
        if extra > 0 {
            self.at_an_instruction(program, file, &function, extra)?;
            self.harmless(program, file, function.file_offset + extra, &function.name)?;
        }
        let values = self.arguments_of_clone(index, program, file, &function)?.unwrap_or_default();
        let of_clone = needs.of_clone(&values);
        let needs = of_clone.as_ref().unwrap_or(needs);
        let Some(chosen) = self.choose(file, &function, extra, needs) else {
            let message = format!("the kernel takes no probe at the start of `{}`", function.name);
            return Err(Diagnostic::error(Code::CostlySite, message)
                .at(&program.span)
                .hint("add an alternative to the list under `at:`, such as a function that it calls"));
        };
        self.say_dear(program, &function.name, &chosen.instruction, chosen.cost_ns, &chosen.reason);
        let module = self.module_number(file);
        self.placement.sites.push(PlacedSite {
            site: Site {
                id,
                probes: program.probes.clone(),
                alternative: program.alternative,
                module,
                function: function.name,
                file_offset: function.file_offset + chosen.offset,
                function_offset: chosen.offset,
                instruction: chosen.instruction,
                captures: function.captures,
                inlined_into: None,
            },
            program: index,
            file: of.id,
            path: of.path.clone(),
            cookie: site_cookie(id, chosen.stack_moved),
            cost_ns: chosen.cost_ns,
            reason: chosen.reason,
            semaphore: None,
            values: values.into_iter().collect(),
        });
        Ok(())
    }

    fn copy_site(&mut self, index: usize, program: &Program, placed: PlacedCopy) {
        let Ok(id) = u16::try_from(self.placement.sites.len()) else { return };
        let Some(of) = self.target.files().get(placed.file) else { return };
        let PlacedCopy { file, copy, site } = placed;
        self.say_dear(program, &copy.name, &site.instruction, site.cost_ns, &site.reason);
        let module = self.module_number(file);
        self.placement.sites.push(PlacedSite {
            site: Site {
                id,
                probes: program.probes.clone(),
                alternative: program.alternative,
                module,
                function: copy.name,
                file_offset: site.file_offset,
                function_offset: site.file_offset - site.entry,
                instruction: site.instruction,
                captures: copy.captures,
                inlined_into: Some(copy.within),
            },
            program: index,
            file: of.id,
            path: of.path.clone(),
            cookie: site_cookie(id, 0),
            cost_ns: site.cost_ns,
            reason: site.reason,
            semaphore: None,
            values: site.places.into_iter().collect(),
        });
    }

    fn say_dear(&mut self, program: &Program, function: &str, instruction: &str, cost_ns: Option<u32>, reason: &str) {
        if let Some(cost) = cost_ns.filter(|cost| *cost > self.plan.costs.dear()) {
            let cost = f64::from(cost) / 1000.0;
            let message = format!("`{function}` is probed at `{instruction}`, some {cost:.1} µs a hit: {reason}");
            self.problems.push(Diagnostic::note(Code::CostlySite, message).at(&program.span));
        }
    }

    fn module_number(&mut self, file: usize) -> usize {
        if let Some(number) = self.files.iter().position(|f| *f == file) {
            return number;
        }
        if let Some(file) = self.target.files().get(file) {
            self.placement.modules.push(ModuleInfo {
                name: String::new(),
                path: file.path.display().to_string(),
                build_id: file.build_id.clone(),
                size: file.size,
            });
        }
        self.files.push(file);
        self.files.len() - 1
    }

    /// A file that is several modules bears all their names.
    fn name_modules(&mut self) {
        for (number, file) in self.files.iter().enumerate() {
            let of_file = self.modules.iter().filter(|(_, files)| files.contains(file));
            let mut names: Vec<&str> = of_file.map(|(name, _)| name.as_str()).collect();
            names.sort_unstable();
            self.placement.modules[number].name = names.join(", ");
        }
    }

    /// Steps are what everything is counted by. Without any of their probes they are found by the order in which operators
    /// recur; without operators, too, a recording is useless.
    fn step_group(&mut self) {
        let has_role = |probe: &str, role| self.probeset.probes.get(probe).is_some_and(|p| p.role.value == role);
        let is_step = |probe: &str| has_role(probe, Role::Step);
        let placed = |role| self.placement.sites.iter().flat_map(|s| &s.site.probes).any(|probe| has_role(probe, role));
        if placed(Role::Step) || placed(Role::Operator) {
            return;
        }
        // Each may be optional, but not all of them: the group's problem is reported once, at the first.
        if let Some(first) = self.placement.unplaced.iter_mut().find(|u| is_step(&u.probe)) {
            first.required = true;
            let message = "no probe of role `step` has a site on this target";
            let reason = std::mem::replace(&mut first.problem, Diagnostic::error(Code::GroupNotAttached, message));
            first.problem.span = reason.span;
            first.problem.hint = reason.hint;
            first.problem.notes.push(reason.message);
            first.problem.notes.extend(reason.notes);
        }
    }

    // ---- why not -------------------------------------------------------------------------------------------------

    fn module_not_found(&self, module: &str, program: &Program) -> Diagnostic {
        let globs = self
            .probeset
            .modules
            .get(module)
            .map_or_else(Vec::new, |m| m.globs.iter().map(|glob| glob.value.clone()).collect::<Vec<_>>());
        let message = format!("no file of the target is the module `{module}` ({})", globs.join(", "));
        let unreadable = unreadable(&globs, self.target);
        let problem = Diagnostic::error(Code::ModuleNotFound, message).at(&program.span);
        let hint = match unreadable.is_empty() {
            true => "give the target that has the engine, or add its file name under `modules:`",
            false => "run profinfer as root, or with CAP_DAC_READ_SEARCH",
        };
        let problem = self.like_the_module(module).into_iter().fold(problem, Diagnostic::with_note);
        unreadable.into_iter().fold(problem.hint(hint), Diagnostic::with_note)
    }

    /// The files that define functions of a module, but lack one that must have a site.
    fn like_the_module(&self, module: &str) -> Vec<String> {
        let files = defining(self.probeset, module, self.target).into_iter();
        let lacks = files.filter_map(|file| Some((file, lacking(self.probeset, module, self.target, file)?)));
        let named = lacks.filter_map(|(file, probe)| Some((&self.target.files().get(file)?.name, probe)));
        let notes =
            named.map(|(file, probe)| format!("{file} has functions of it, but none of probe `{}`", probe.name.value));
        notes.take(MOST_LIKE_A_MODULE).collect()
    }

    fn function_not_found(&self, pattern: &NamePattern, files: &[usize], program: &Program) -> Diagnostic {
        let names: Vec<&str> =
            files.iter().filter_map(|f| self.target.files().get(*f)).map(|f| f.name.as_str()).collect();
        let message = format!("no function `{}` in {}", pattern.in_short(), names.join(", "));
        let problem = Diagnostic::error(Code::FunctionNotFound, message).at(&program.span);
        match self.like(pattern, files) {
            Some(hint) => problem.hint(hint),
            None => problem.hint("it may be inlined or stripped; add an alternative to the list under `at:`"),
        }
    }

    /// A function with a name near the one that is not there.
    fn like(&self, pattern: &NamePattern, files: &[usize]) -> Option<String> {
        if pattern.is_glob() || pattern.by_texts().is_some() || pattern.0.len() < 4 {
            return None;
        }
        let start: String = pattern.0.chars().take(pattern.0.chars().count() / 2).collect();
        let near = NamePattern(format!("{start}*"));
        let functions: Vec<Function> =
            files.iter().flat_map(|file| self.target.functions(*file, &near)).take(4096).collect();
        did_you_mean(&pattern.0, functions.iter().map(|f| f.name.as_str()))
    }
}

/// The enumerations that records and objects carry values of.
fn enumerations_of(plan: &ProbePlan) -> IndexSet<String> {
    let fields = plan.schema.records.iter().flat_map(|r| &r.fields);
    fields.filter_map(|field| field.ty.enumeration()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests;
