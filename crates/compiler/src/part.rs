//! Several probesets that are recorded together: each sees the target by its own names, and only the files that are its
//! engine's. Two engines in one process may each have a copy of what both are built on.

use super::builds::place_builds;
use super::companions::with_companions;
use super::merge::add;
use super::model::{Placement, ProbePlan, Program, RelocationValue, Unplaced};
use super::module::{has, matching, named_functions, unreadable};
use super::seen::SeenTarget;
use profinfer_diagnostics::{Code, Diagnostic, Diagnostics};
use profinfer_probeset::path::Place;
use profinfer_probeset::{Part, Probe, Probeset};

use profinfer_binary::{Target, TargetSymbols};
use profinfer_schema::{EngineId, Role};
use std::collections::{BTreeMap, BTreeSet};

/// Whether a target has the functions of a probeset's steps.
pub fn has_engine(probeset: &Probeset, target: &dyn TargetSymbols) -> bool {
    !step_files(probeset, None, target).is_empty()
}

/// Places each of several probesets on what it sees of the target.
pub(super) fn parts(plan: &ProbePlan, probeset: &Probeset, target: &dyn Target) -> (Placement, Diagnostics) {
    let (mut whole, mut problems) = (Placement::default(), Diagnostics::new());
    for (engine, part) in probeset.engines() {
        let own = engine_files(probeset, engine, target);
        if own.is_empty() {
            let unreadable = unreadable_of(probeset, engine, target);
            whole.unplaced.extend(not_there(plan, probeset, engine, part).map(|mut unplaced| {
                unplaced.problem.notes.extend(unreadable);
                unplaced
            }));
            continue;
        }
        let seen = SeenTarget::new(target, &probeset.names, own);
        let (placement, found) = place_builds(plan, probeset, &seen, Some(engine));
        problems.add_new(found);
        add(placement, &mut whole);
    }
    problems.0.extend(claimed_twice(probeset, &whole));
    problems.0.extend(of_two_values(&whole));
    (whole, problems)
}

/// That the target has no step of a part's, as the problem of its first program.
fn not_there(plan: &ProbePlan, probeset: &Probeset, engine: EngineId, part: &Part) -> Option<Unplaced> {
    let of = |program: &&Program| program.probes.first().and_then(|probe| probeset.names.engine(probe));
    let own = |program: &&Program| of(program) == Some(engine);
    let step = |program: &&Program| program.actions.iter().any(|action| action.role == Role::Step);
    let program = plan.programs.iter().filter(own).find(step)?;
    let message = format!("the target has no function that is a step of {}", part.engine);
    let problem = Diagnostic::error(Code::GroupNotAttached, message)
        .at(&program.span)
        .hint("`profinfer check` with this probeset alone shows what it requires");
    Some(Unplaced { probe: program.probes.first()?.clone(), required: part.required, problem })
}

/// What all parts share, and each of them has another value of: for example where a string's text is.
fn of_two_values(whole: &Placement) -> Option<Diagnostic> {
    let mut values: BTreeMap<&str, u64> = BTreeMap::new();
    let all = whole.values.iter().map(|RelocationValue { symbol, value, .. }| (symbol.as_str(), *value));
    let (symbol, _) = { all }.find(|(symbol, value)| values.entry(symbol).or_insert(*value) != value)?;
    let message = format!("the engines differ in what `{symbol}` is for all of them");
    let hint = "record them one at a time: they are built with different C++ libraries";
    Some(Diagnostic::error(Code::EnginesConflict, message).hint(hint))
}

/// Two probesets are of the same engine where they take the same instruction for a step.
fn claimed_twice(probeset: &Probeset, whole: &Placement) -> Option<Diagnostic> {
    let is_step = |probe: &String| probeset.probes.get(probe).is_some_and(|probe| probe.role.value == Role::Step);
    let part = |probe: &String| probeset.parts.get(usize::from(probeset.names.engine(probe)?.0));
    let mut steps: BTreeMap<(usize, u64), &Part> = BTreeMap::new();
    for site in whole.sites.iter().map(|placed| &placed.site) {
        for part in site.probes.iter().filter(|probe| is_step(probe)).filter_map(part) {
            let first = *steps.entry((site.module, site.file_offset)).or_insert(part);
            if first.key != part.key {
                let message = format!("`{}` is a step of {} and of {}", site.function, first.engine, part.engine);
                return Some(Diagnostic::error(Code::EnginesConflict, message).hint(format!(
                    "name one of the probesets: {} or {}",
                    shown_name(&first.file),
                    shown_name(&part.file)
                )));
            }
        }
    }
    None
}

/// The name by which a user selects a probeset's file.
fn shown_name(file: &str) -> &str {
    file.strip_prefix("builtin:").map_or(file, |name| name.strip_suffix(".yaml").unwrap_or(name))
}

/// The files with an engine's functions that belong to those with its steps: they lie beside one of them, need it, or
/// are needed by it, at once or by way of others.
fn engine_files(probeset: &Probeset, engine: EngineId, target: &dyn TargetSymbols) -> BTreeSet<usize> {
    let own = step_files(probeset, Some(engine), target);
    if own.is_empty() {
        return own;
    }
    let candidates = module_files(probeset, engine, target);
    with_companions(own, &candidates, target)
}

/// The files that define what an engine's steps are: of those that its modules name, else of all.
fn step_files(probeset: &Probeset, engine: Option<EngineId>, target: &dyn TargetSymbols) -> BTreeSet<usize> {
    let is_own = |probe: &Probe| engine.is_none() || probeset.names.engine(&probe.name) == engine;
    let own = || probeset.probes.values().filter(|probe| is_own(probe));
    // One of an interface to devices has none: it is there if any function of it is.
    let has_steps = engine.is_none() || own().any(|probe| probe.role.value == Role::Step);
    let steps = own().filter(|probe| !has_steps || probe.role.value == Role::Step);
    let mut files = BTreeSet::new();
    for place in steps.flat_map(|probe| &probe.at).map(|at| &at.place) {
        let (Place::Function { module, .. } | Place::Virtual { module, .. } | Place::Usdt { module, .. }) = place
        else {
            continue;
        };
        let named: Vec<usize> = globs(probeset, &module.value).flat_map(|glob| matching(glob, target)).collect();
        let Place::Function { pattern, .. } = place else {
            let all = 0..target.files().len();
            match named.is_empty() {
                true => files.extend(all.filter(|file| has(target, *file, place))),
                false => files.extend(named),
            }
            continue;
        };
        let defines = |file: &usize| !target.functions(*file, pattern).is_empty();
        let found: Vec<usize> = named.into_iter().filter(defines).collect();
        match found.is_empty() && !pattern.has_wildcards() {
            true => files.extend((0..target.files().len()).filter(defines)),
            false => files.extend(found),
        }
    }
    files
}

/// Files that may be any of an engine's modules, and that could not be read.
fn unreadable_of(probeset: &Probeset, engine: EngineId, target: &dyn Target) -> Vec<String> {
    let modules = probeset.modules.keys().filter(|module| probeset.names.engine(module) == Some(engine));
    let globs: Vec<&str> = modules.flat_map(|module| globs(probeset, module)).collect();
    unreadable(&globs, target)
}

/// The files that may be any of an engine's modules.
fn module_files(probeset: &Probeset, engine: EngineId, target: &dyn TargetSymbols) -> BTreeSet<usize> {
    let mut files = BTreeSet::new();
    for module in probeset.modules.keys().filter(|module| probeset.names.engine(module) == Some(engine)) {
        files.extend(globs(probeset, module).flat_map(|glob| matching(glob, target)));
        let functions = named_functions(probeset, module);
        let defines = |file: &usize| functions.iter().any(|pattern| !target.functions(*file, pattern).is_empty());
        files.extend((0..target.files().len()).filter(defines));
    }
    files
}

fn globs<'p>(probeset: &'p Probeset, module: &str) -> impl Iterator<Item = &'p str> {
    probeset.modules.get(module).into_iter().flat_map(|module| &module.globs).map(|glob| glob.value.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PlacementOptions, Selection, place, plan};
    use profinfer_binary::{Arch, FakeTarget, Function, Overrides, StaticSite, TargetType};
    use profinfer_probeset::{Library, combine, load_text};

    const TEXT: &str = "profinfer: 1
engine: NAME
modules: { m: libnothing.so }
types: { view: { op: enum kind, next: view* } }
objects: { thing: { of: view, fields: { op: op } } }
probes:
  step: { at: 'm:NAME_run()', role: step, fields: { tokens: 1 } }
  operator: { at: 'm:compute(view* v)', role: operator, fields: { lane: 0, node: v as object thing } }
";

    /// A push and a return: a place for a probe.
    const CODE: &[u8] = &[0x55, 0x5d, 0xc3];

    fn probesets(names: &[&str]) -> Probeset {
        let load = |name: &&str| {
            load_text(&format!("{name}.yaml"), &TEXT.replace("NAME", name), &Library::new(&[])).unwrap().0
        };
        combine(names.iter().map(|name| (load(name), true)).collect()).unwrap()
    }

    fn engine(target: FakeTarget, folder: &str, step: &str, op_at: u64, add: i64) -> FakeTarget {
        target
            .file(&format!("{folder}/engine.so"))
            .function(step, 0x1000, CODE)
            .function("compute", 0x2000, CODE)
            .layout(
                "view",
                64,
                &[
                    ("op", op_at, TargetType::Enum("kind".into(), 4)),
                    ("next", 8, TargetType::Pointer(Some(Box::new(TargetType::Struct("view".into(), 64))))),
                ],
            )
            .enumeration("kind", &[(add, "ADD")])
    }

    fn outcome(
        plan: &ProbePlan,
        probeset: &Probeset,
        target: &FakeTarget,
    ) -> Result<(Placement, Diagnostics), Diagnostics> {
        let (placement, problems) = place(plan, probeset, target, PlacementOptions::default());
        problems.finish(placement)
    }

    fn placed(probeset: &Probeset, target: &FakeTarget) -> (Placement, Diagnostics) {
        let plan = plan(probeset, &Selection::default(), Arch::X86_64).unwrap().0;
        outcome(&plan, probeset, target).unwrap()
    }

    fn sites(placement: &Placement) -> Vec<(&str, &str)> {
        let path = |site: &profinfer_schema::Site| placement.modules[site.module].path.as_str();
        placement.sites.iter().map(|placed| (placed.site.probes[0].as_str(), path(&placed.site))).collect()
    }

    #[test]
    fn each_engine_has_its_own_copy_of_what_both_are_built_on() {
        let target = engine(FakeTarget::new(Arch::X86_64), "a", "one_run", 0, 1);
        let target = engine(target, "b", "two_run", 16, 7);
        let (placement, _) = placed(&probesets(&["one", "two"]), &target);
        let (a, b) = ("/fake/a/engine.so", "/fake/b/engine.so");
        let expected = [("one__step", a), ("one__operator", a), ("two__step", b), ("two__operator", b)];
        assert_eq!(sites(&placement), expected);
        let ids: Vec<(u16, u64)> =
            placement.sites.iter().map(|placed| (placed.site.id, placed.cookie & 0xffff)).collect();
        assert_eq!(ids, [(0, 0), (1, 1), (2, 2), (3, 3)]);
        assert_eq!(placement.enums["one__kind"][&1], "ADD");
        assert_eq!(placement.enums["two__kind"][&7], "ADD");
        let offset = |view: &str| {
            placement.values.iter().find(|value| value.symbol.contains(view) && value.symbol.ends_with("op"))
        };
        assert_eq!(offset("one__view").map(|value| value.value), Some(0));
        assert_eq!(offset("two__view").map(|value| value.value), Some(16));
        assert!(placement.unplaced.is_empty());
    }

    #[test]
    fn virtual_methods_and_static_probes_are_found_in_the_engine_s_own_file() {
        const TEXT: &str = "profinfer: 1
engine: NAME
modules: { m: engine-NAME.so }
probes:
  step: { at: 'm:NAME_run()', role: step, fields: { tokens: 1 } }
  kernel: { at: 'virtual m:Kernel[3](this)', role: region }
  mark: { at: 'usdt m:NAME:mark', role: mark }
";
        let file = |target: FakeTarget, name: &str| {
            let found = Function {
                symbol: format!("{name}_kernel"),
                name: format!("{name}_kernel"),
                file_offset: 0x2000,
                size: CODE.len() as u64,
                captures: vec!["Add".to_owned()],
            };
            let mark = StaticSite { file_offset: 0x2001, semaphore: None, arguments: Vec::new() };
            target
                .file(&format!("engine-{name}.so"))
                .function(&format!("{name}_run"), 0x1000, CODE)
                .function(&found.name.clone(), 0x2000, CODE)
                .overrides_of("Kernel", 3, Overrides { functions: vec![found], classes: 1, ..Overrides::default() })
                .static_site(name, "mark", mark)
        };
        let load = |name: &&str| {
            let text = TEXT.replace("NAME", name);
            (load_text(&format!("{name}.yaml"), &text, &Library::new(&[])).unwrap().0, true)
        };
        let both = combine(["one", "two"].iter().map(load).collect()).unwrap();
        let target = file(file(FakeTarget::new(Arch::X86_64), "one"), "two");
        let (placement, _) = placed(&both, &target);
        let [one, two] = ["/fake/engine-one.so", "/fake/engine-two.so"];
        let mut found = sites(&placement);
        found.sort_unstable();
        let expected = ["kernel", "mark", "step"];
        let of = |key: &str, path| expected.map(|probe| (format!("{key}__{probe}"), path));
        let expected: Vec<(String, &str)> = of("one", one).into_iter().chain(of("two", two)).collect();
        assert!(found.into_iter().eq(expected.iter().map(|(probe, path)| (probe.as_str(), *path))), "{expected:?}");
        assert!(placement.unplaced.is_empty());
    }

    #[test]
    fn an_engine_that_is_not_there_takes_nothing_of_another() {
        let target = engine(FakeTarget::new(Arch::X86_64), "a", "one_run", 0, 1);
        let (placement, _) = placed(&probesets(&["one", "two"]), &target);
        assert_eq!(sites(&placement).len(), 2);
        let unplaced: Vec<(&str, Code)> =
            placement.unplaced.iter().map(|probe| (probe.probe.as_str(), probe.problem.code)).collect();
        assert_eq!(unplaced, [("two__step", Code::GroupNotAttached)]);
        assert!(placement.unplaced[0].problem.notes.is_empty());
        let target = target.unreadable("/srv/libnothing.so").unreadable("/srv/other.so");
        let (placement, _) = placed(&probesets(&["one", "two"]), &target);
        let note = "could not read /srv/libnothing.so, which the process has mapped";
        assert_eq!(placement.unplaced[0].problem.notes, [note]);
        let loaded = load_text("two.yaml", &TEXT.replace("NAME", "two"), &Library::new(&[])).unwrap().0;
        assert!(!has_engine(&loaded, &target));
    }

    #[test]
    fn two_probesets_of_one_engine_are_refused() {
        let target = engine(FakeTarget::new(Arch::X86_64), "a", "one_run", 0, 1);
        let text = TEXT.replace("NAME", "one");
        let load = |file: &str| (load_text(file, &text, &Library::new(&[])).unwrap().0, true);
        let both = combine(vec![load("one.yaml"), load("other.yaml")]).unwrap();
        let plan = plan(&both, &Selection::default(), Arch::X86_64).unwrap().0;
        let problems = outcome(&plan, &both, &target).unwrap_err();
        assert_eq!(problems.0[0].code, Code::EnginesConflict);
        assert!(problems.0[0].hint.as_deref().unwrap().contains("other.yaml"), "{problems:?}");
    }

    /// The target's types are compared with the probeset's by the engine's own names.
    #[test]
    fn views_within_the_names_of_classes_are_the_probeset_s() {
        let text = TEXT
            .replace("next: view*", "next: view*, list: 'std::vector<view*>'")
            .replace("{ op: op }", "{ op: op, second: next->op, listed: 'list[1]->op' }");
        let load = |name: &&str| {
            (load_text(&format!("{name}.yaml"), &text.replace("NAME", name), &Library::new(&[])).unwrap().0, true)
        };
        let both = combine(["one", "two"].iter().map(load).collect()).unwrap();
        let plan = plan(&both, &Selection::default(), Arch::X86_64).unwrap().0;
        let target = |next: &str, list: &str| {
            let pointer = TargetType::Pointer(Some(Box::new(TargetType::Struct(next.into(), 64))));
            let op = TargetType::Enum("kind".into(), 4);
            let list = TargetType::Struct(list.into(), 24);
            FakeTarget::new(Arch::X86_64)
                .file("a/engine.so")
                .function("two_run", 0x1000, CODE)
                .function("compute", 0x2000, CODE)
                .layout("view", 64, &[("op", 0, op), ("next", 8, pointer), ("list", 16, list)])
                .enumeration("kind", &[(1, "ADD")])
        };
        let of = "std::vector<view*, std::allocator<view*> >";
        let placement = outcome(&plan, &both, &target("view", of)).unwrap().0;
        assert_eq!(sites(&placement).len(), 2);
        for (next, list) in [("two__view", of), ("review", of), ("view", "std::vector<review*>")] {
            let problems = outcome(&plan, &both, &target(next, list)).unwrap_err();
            assert!(
                problems.0.iter().any(|problem| problem.code == Code::TargetTypeDiffers),
                "{next} {list}: {problems:?}"
            );
            assert!(problems.0.iter().all(|problem| !problem.message.contains("expects two__")), "{problems:?}");
        }
    }
}
