//! Several builds of one engine in one process, as two packages of it for Python are: each is placed by itself, so that it
//! is read with its own layouts, constants and alternatives.

use super::companions::with_companions;
use super::merge::{add_build, agreed};
use super::model::{Placement, ProbePlan};
use super::module::{by_name, has};
use super::place::place_part;
use super::seen::SeenTarget;
use profinfer_binary::Target;
use profinfer_diagnostics::{Code, Diagnostic, Diagnostics, Severity};
use profinfer_probeset::Probeset;
use profinfer_probeset::path::Place;
use profinfer_schema::{EngineId, Names, Role};
use std::cell::LazyCell;
use std::collections::BTreeSet;

/// Places one of several probesets, or the only one, on each build of its engine.
pub(super) fn place_builds(
    plan: &ProbePlan,
    probeset: &Probeset,
    target: &dyn Target,
    engine: Option<EngineId>,
) -> (Placement, Diagnostics) {
    let builds = builds(probeset, target, engine);
    if builds.len() < 2 {
        return place_part(plan, probeset, target, engine);
    }
    let names = Names::default();
    let visible = |own: &BTreeSet<usize>| -> BTreeSet<usize> {
        let others: BTreeSet<usize> = builds.iter().filter(|other| *other != own).flatten().copied().collect();
        (0..target.files().len()).filter(|file| !others.contains(file)).collect()
    };
    let mut problems = Diagnostics::new();
    let placed: Vec<Placement> = builds
        .iter()
        .map(|own| {
            let seen = SeenTarget::new(target, &names, visible(own));
            let (placement, found) = place_part(plan, probeset, &seen, engine);
            problems.add_new(found);
            placement
        })
        .collect();
    let (enums, differing) = agreed(&placed.iter().map(|build| build.enums.clone()).collect::<Vec<_>>());
    problems.push(several(probeset, target, engine, &builds));
    problems.0.extend(differing.iter().map(|name| numbered_differently(probeset.names.plain(name))));
    for (build, own) in placed.iter().zip(&builds) {
        let file = own.first().and_then(|first| target.files().get(*first));
        let lacking = placed.iter().flat_map(|other| lacking(probeset, build, other));
        let named = lacking.map(|problem| match file {
            Some(file) => problem.with_note(format!("in the build of {}", file.path.display())),
            None => problem,
        });
        problems.add_new(Diagnostics(named.collect()));
    }
    let mut placed = placed.into_iter();
    let mut whole = placed.next().unwrap_or_default();
    for build in placed {
        let left_out = add_build(build, &mut whole, plan, probeset);
        problems.0.extend(left_out.iter().map(|probe| changing(probeset.names.plain(probe))));
    }
    whole.enums = enums;
    (whole, problems)
}

/// The files of each build, if several have the same function of a step. Files that belong to none of them are in none.
fn builds(probeset: &Probeset, target: &dyn Target, engine: Option<EngineId>) -> Vec<BTreeSet<usize>> {
    let is_own = |name: &str| engine.is_none() || probeset.names.engine(name) == engine;
    let steps = probeset.probes.values().filter(|probe| probe.role.value == Role::Step && is_own(&probe.name));
    let candidates = LazyCell::new(|| candidates(probeset, target, engine));
    let mut builds: Vec<BTreeSet<usize>> = Vec::new();
    for place in steps.flat_map(|probe| &probe.at).map(|at| &at.place) {
        let module = place.module().and_then(|module| probeset.modules.get(&module.value));
        let files = module.and_then(|module| by_name(module, target)).unwrap_or_default();
        if files.len() < 2 {
            continue;
        }
        let has_step = |file: &usize| match place {
            Place::Function { pattern, .. } => !target.functions(*file, pattern).is_empty(),
            place => has(target, *file, place),
        };
        let files = files.into_iter().filter(has_step);
        let mut of_place: Vec<BTreeSet<usize>> = Vec::new();
        for file in files {
            if !of_place.iter().any(|build| build.contains(&file)) {
                of_place.push(with_companions(BTreeSet::from([file]), &candidates, target));
            }
        }
        if of_place.len() > 1 {
            of_place.retain(|build| builds.iter().all(|other| other.is_disjoint(build)));
            builds.extend(of_place);
        }
    }
    builds
}

/// The files that an engine's modules name.
fn candidates(probeset: &Probeset, target: &dyn Target, engine: Option<EngineId>) -> BTreeSet<usize> {
    let is_own = |name: &str| engine.is_none() || probeset.names.engine(name) == engine;
    let modules = probeset.modules.iter().filter(|(name, _)| is_own(name));
    modules.filter_map(|(_, module)| by_name(module, target)).flatten().collect()
}

fn several(
    probeset: &Probeset,
    target: &dyn Target,
    engine: Option<EngineId>,
    builds: &[BTreeSet<usize>],
) -> Diagnostic {
    let part = engine.and_then(|engine| probeset.parts.get(usize::from(engine.0)));
    let name = part.map_or(&probeset.name, |part| &part.engine);
    let first = |build: &BTreeSet<usize>| Some(target.files().get(*build.first()?)?.path.display().to_string());
    let files: Vec<String> = builds.iter().filter_map(first).collect();
    Diagnostic::warning(
        Code::LayoutsDiffer,
        format!("this process has {} builds of {name}: {}", builds.len(), files.join(", ")),
    )
    .with_note("each is read with its own layouts; the statistics are of all of them together")
}

fn numbered_differently(name: &str) -> Diagnostic {
    Diagnostic::warning(Code::LayoutUnknown, format!("two builds that run at once number `{name}` differently"))
        .hint("numbers that they disagree on are shown without names; record a process that has one of them")
}

fn changing(probe: &str) -> Diagnostic {
    Diagnostic::warning(Code::LayoutUnknown, format!("`{probe}` is recorded in one of the builds alone"))
        .with_note("it reads a view with `within:`, which has one layout at a time")
        .hint("record a process that has one of them")
}

/// What one build lacks, and another has: no reason to refuse the other. Without its steps, operators are in none.
fn lacking<'p>(
    probeset: &'p Probeset,
    build: &'p Placement,
    other: &'p Placement,
) -> impl Iterator<Item = Diagnostic> + 'p {
    let is_placed = |probe: &str| other.sites.iter().flat_map(|site| &site.site.probes).any(|placed| placed == probe);
    let is_step = |probe: &str| probeset.probes.get(probe).is_some_and(|probe| probe.role.value == Role::Step);
    let missing = build.unplaced.iter().filter(move |unplaced| unplaced.required || is_step(&unplaced.probe));
    missing
        .filter(move |unplaced| is_placed(&unplaced.probe))
        .map(|unplaced| Diagnostic { severity: Severity::Warning, ..unplaced.problem.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PlacementOptions, RelocationKind, Selection, place, plan};
    use profinfer_binary::{Arch, FakeTarget, TargetType};
    use profinfer_probeset::{Library, load_text};
    use std::collections::BTreeMap;

    const TEXT: &str = "profinfer: 1
engine: toy
modules: { run: librun.so, base: libbase.so }
types: { view: { op: enum kind, flag: i32 } }
objects: { thing: { of: view, fields: { op: op } } }
probes:
  step: { at: 'run:run()', role: step, fields: { tokens: 1 } }
  operator: { at: ['base:compute_new(view* v)', 'base:compute(view* v)'], role: operator, fields: { lane: 0, node: v as object thing } }
";

    /// A push and a return: a place for a probe.
    const CODE: &[u8] = &[0x55, 0x5d, 0xc3];

    /// Two libraries in a folder, the second of which has debug information where there is an offset.
    fn package(target: FakeTarget, folder: &str, op_at: Option<u64>, add: i64) -> FakeTarget {
        let target = target.file(&format!("{folder}/librun.so")).function("run", 0x1000, CODE);
        let target = target.file(&format!("{folder}/libbase.so")).function("compute", 0x2000, CODE);
        let Some(op_at) = op_at else { return target };
        let members =
            [("op", op_at, TargetType::Enum("kind".into(), 4)), ("flag", 4, TargetType::Int { size: 4, signed: true })];
        target.layout("view", 64, &members).enumeration("kind", &[(add, "ADD"), (9, "LAST")])
    }

    fn placed(text: &str, target: &FakeTarget) -> (Placement, Diagnostics, ProbePlan) {
        let probeset = load_text("toy.yaml", text, &Library::new(&[])).unwrap().0;
        let plan = plan(&probeset, &Selection::default(), Arch::X86_64).unwrap().0;
        let (placement, problems) = place(&plan, &probeset, target, PlacementOptions::default());
        (placement, problems, plan)
    }

    /// What a site's program is loaded with.
    fn value(placement: &Placement, path: &str, symbol: &str) -> Option<u64> {
        let site = placement.sites.iter().find(|site| site.path.to_string_lossy() == path)?;
        let of_all = || placement.values.iter().find(|value| value.symbol == symbol).map(|value| value.value);
        site.values.get(symbol).copied().or_else(of_all)
    }

    fn several_builds(problems: &Diagnostics) -> Vec<&str> {
        problems.0.iter().filter(|p| p.code == Code::LayoutsDiffer).map(|p| p.message.as_str()).collect()
    }

    #[test]
    fn each_build_is_read_with_its_own_layout() {
        let target = package(FakeTarget::new(Arch::X86_64), "a", Some(0), 1);
        let target = package(target, "b", Some(16), 7);
        let (placement, problems, _) = placed(TEXT, &target);
        assert_eq!(placement.sites.len(), 4);
        assert_eq!(value(&placement, "/fake/a/libbase.so", "offset_of_view__op"), Some(0));
        assert_eq!(value(&placement, "/fake/b/libbase.so", "offset_of_view__op"), Some(16));
        let ids: Vec<(u16, u64)> = placement.sites.iter().map(|p| (p.site.id, p.cookie & 0xffff)).collect();
        assert_eq!(ids, [(0, 0), (1, 1), (2, 2), (3, 3)]);
        assert_eq!(placement.enums["kind"], BTreeMap::from([(1, "ADD".into()), (7, "ADD".into()), (9, "LAST".into())]));
        assert_eq!(
            several_builds(&problems),
            ["this process has 2 builds of toy: /fake/a/librun.so, /fake/b/librun.so"]
        );
        assert!(placement.unplaced.is_empty() && !problems.has_errors(), "{problems:?}");
    }

    #[test]
    fn numbers_that_they_disagree_on_have_no_name() {
        let target = package(FakeTarget::new(Arch::X86_64), "a", Some(0), 1);
        let target = package(target, "b", Some(0), 1).enumeration("kind", &[(1, "MUL"), (9, "LAST")]);
        let (placement, problems, _) = placed(TEXT, &target);
        assert_eq!(placement.enums["kind"], BTreeMap::from([(9, "LAST".to_owned())]));
        let differing = "two builds that run at once number `kind` differently";
        assert!(problems.0.iter().any(|problem| problem.message == differing), "{problems:?}");
    }

    /// The layout of the one is no layout of the other, whichever is mapped first.
    #[test]
    fn what_one_of_them_does_not_have_is_absent_there() {
        for first in ["a", "b"] {
            let of = |folder: &str| (folder == "a").then_some(16);
            let second = if first == "a" { "b" } else { "a" };
            let target = package(FakeTarget::new(Arch::X86_64), first, of(first), 1);
            let target = package(target, second, of(second), 1);
            let (placement, problems, plan) = placed(TEXT, &target);
            assert_eq!(value(&placement, "/fake/a/libbase.so", "offset_of_view__op"), Some(16));
            assert_ne!(value(&placement, "/fake/b/libbase.so", "offset_of_view__op"), Some(16), "{placement:?}");
            let record = plan.objects[0].record;
            let absent = plan.symbol(&RelocationKind::Absent { record }).unwrap();
            let mask = |path| value(&placement, path, absent).unwrap();
            let masks = [mask("/fake/a/libbase.so"), mask("/fake/b/libbase.so")];
            assert!(masks[0] == 0 && masks[1] != 0, "{masks:?}");
            assert!(placement.absent.is_empty() && !problems.has_errors(), "{problems:?}");
        }
    }

    #[test]
    fn each_has_its_own_alternative() {
        let target = package(FakeTarget::new(Arch::X86_64), "a", Some(0), 1);
        let target = package(target, "b", Some(0), 1).function("compute_new", 0x3000, CODE);
        let (placement, ..) = placed(TEXT, &target);
        let mut functions: Vec<&str> = placement.sites.iter().map(|site| site.site.function.as_str()).collect();
        functions.sort_unstable();
        assert_eq!(functions, ["compute", "compute_new", "run", "run"]);
    }

    #[test]
    fn a_step_that_one_of_them_lacks_is_no_error() {
        let text = TEXT
            .replace("fields: { tokens: 1 } }", "fields: { tokens: 1 } }\n  more: { at: 'base:more()', role: region }");
        let target = package(FakeTarget::new(Arch::X86_64), "a", Some(0), 1);
        let target = package(target, "b", Some(0), 1).function("more", 0x3000, CODE);
        let (placement, problems, _) = placed(&text, &target);
        assert!(placement.unplaced.is_empty() && !problems.has_errors(), "{placement:?}");
        assert!(problems.0.iter().any(|problem| problem.message.contains("`more`")), "{problems:?}");
    }

    /// Its operators are in no step, or in the other's.
    #[test]
    fn an_optional_step_that_one_of_them_lacks_is_told() {
        let of_step = "role: step, fields: { tokens: 1 }";
        let text = TEXT.replace(of_step, &format!("{of_step}, optional: true"));
        let text = text.replace(
            "  operator:",
            &format!("  more: {{ at: 'base:more()', {of_step}, optional: true }}\n  operator:"),
        );
        let target = package(FakeTarget::new(Arch::X86_64), "a", Some(0), 1);
        let target = package(target, "b", Some(0), 1).function("more", 0x3000, CODE);
        let (placement, problems, _) = placed(&text, &target);
        assert!(placement.unplaced.is_empty() && !problems.has_errors(), "{placement:?}");
        let told = problems.0.iter().find(|problem| problem.message.contains("`more`")).unwrap();
        assert!(
            told.severity == Severity::Warning && told.notes.iter().any(|note| note.contains("/fake/a/")),
            "{told:?}"
        );
    }

    /// Libraries of one package may lie apart: one that another needs belongs to it, unless that has one beside it.
    #[test]
    fn one_build_in_two_folders_is_one() {
        let target = FakeTarget::new(Arch::X86_64).file("a/librun.so").function("run", 0x1000, CODE);
        let target = target.needs(&["libbase.so"]).file("b/libbase.so").function("compute", 0x2000, CODE);
        let (placement, problems, _) = placed(TEXT, &target);
        assert_eq!((placement.sites.len(), several_builds(&problems).len()), (2, 0));
        // Two steps in two folders, one of which needs the other's library.
        let target = package(FakeTarget::new(Arch::X86_64), "a", Some(0), 1);
        let target = target.file("c/librun.so").function("run", 0x1000, CODE).needs(&["libbase.so"]);
        let (placement, problems, _) = placed(TEXT, &target);
        assert_eq!((placement.sites.len(), several_builds(&problems).len()), (3, 0), "{problems:?}");
    }
}
