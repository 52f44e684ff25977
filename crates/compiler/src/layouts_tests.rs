//! Layouts are chosen by what a target has, reported where none or several fit, and stored in lock files.

use super::*;
use crate::{Placement, PlacementOptions, ProbePlan, Provenance, Selection, lock, place, plan};
use profinfer_binary::{Arch, FakeTarget, Lock, Overrides, TargetType};
use profinfer_diagnostics::Diagnostics;
use profinfer_probeset::{Library, Probeset, load_text};
use profinfer_schema::bpf::ABSENT_VALUE;

/// A push and a return: a place for a probe.
const CODE: &[u8] = &[0x55, 0x5d, 0xc3];

fn probeset(layouts: &str) -> Probeset {
    let text = format!(
        "profinfer: 1
engine: toy
modules: {{ toy: libtoy*.so }}
types:
  ns::Layer:
    kind: i32
    flags: i32 @ 4
    layouts:
{layouts}
probes:
  step: {{ at: 'toy:run(ns::Layer* layer)', role: step, fields: {{ tokens: layer->kind, flags: layer->flags }} }}
"
    );
    load_text("toy.yaml", &text, &Library::new(&[])).unwrap().0
}

const TWO: &str = "      - { when: { bytes: [toy 1.2, toy 1.3], class: ns::Gpu }, at: { kind: 56 } }
      - { when: { bytes: toy 1.2 }, unless: { class: ns::Gpu }, at: { kind: 48, flags: 40 } }";

fn target() -> FakeTarget {
    FakeTarget::new(Arch::X86_64).file("libtoy-gpu.so").function("run", 0x1000, CODE)
}

fn with_class(target: FakeTarget) -> FakeTarget {
    target.overrides_of("ns::Gpu", 0, Overrides { classes: 1, ..Overrides::default() })
}

/// Places with a lock, or without.
fn place_with(
    plan: &ProbePlan,
    probeset: &Probeset,
    target: &FakeTarget,
    lock: Option<&Lock>,
) -> Result<(Placement, Diagnostics), Diagnostics> {
    let (placement, problems) = place(plan, probeset, target, PlacementOptions { lock, cache: None });
    problems.finish(placement)
}

fn placed(probeset: &Probeset, target: &FakeTarget) -> Result<Placement, Diagnostics> {
    let plan = plan(probeset, &Selection::default(), Arch::X86_64).unwrap().0;
    place_with(&plan, probeset, target, None).map(|(placement, _)| placement)
}

/// Where a member was found, and its source.
fn member(placement: &Placement, name: &str) -> (u64, Provenance) {
    let symbol = format!("offset_of_ns__Layer__{name}");
    let found = placement.values.iter().find(|value| value.symbol == symbol).unwrap();
    (found.value, found.provenance)
}

#[test]
fn bytes_may_be_given_by_their_digits() {
    // "toy" and a byte that is no text.
    let probeset = probeset("      - { when: { hex: [746f7901, 746f7902] }, at: { kind: 56 } }");
    let placement = placed(&probeset, &target().text("a toy\u{2}")).unwrap();
    assert_eq!(member(&placement, "kind"), (56, Provenance::Checked));
    let other = with_problems(&probeset, &target().text("a toy\u{3}"));
    assert_eq!(other.1.0[0].code, Code::LayoutNotChosen);
    assert_eq!(member(&other.0, "kind").1, Provenance::Absent);
}

#[test]
fn an_optional_probe_whose_layout_is_not_the_targets_is_left_out() {
    let mut probeset = probeset(TWO);
    let step = probeset.probes["step"].clone();
    probeset.probes.get_mut("step").unwrap().fields["tokens"].value.kind = profinfer_probeset::path::ExprKind::Int(1);
    probeset.probes.get_mut("step").unwrap().fields.shift_remove("flags");
    let mut other = profinfer_probeset::Probe { optional: true, ..step };
    other.name.value = "other".into();
    other.role.value = profinfer_schema::Role::Region;
    probeset.probes.insert("other".into(), other);
    let with = placed(&probeset, &with_class(target().text("toy 1.3"))).unwrap();
    assert_eq!((with.sites.len(), with.unplaced.len()), (2, 0));
    let without = placed(&probeset, &target().text("toy 1.4")).unwrap();
    assert_eq!(without.sites.len(), 1);
    let left_out: Vec<_> = without.unplaced.iter().map(|u| (u.probe.as_str(), u.required, u.problem.code)).collect();
    assert_eq!(left_out, [("other", false, Code::LayoutNotChosen)]);
}

#[test]
fn the_layout_whose_checks_hold_is_taken() {
    let probeset = probeset(TWO);
    let with = placed(&probeset, &with_class(target().text("the toy 1.3 (release)"))).unwrap();
    assert_eq!(member(&with, "kind"), (56, Provenance::Checked));
    // What the layout does not give is where the view has it.
    assert_eq!(member(&with, "flags"), (4, Provenance::ByHand));
    let without = placed(&probeset, &target().text("toy 1.2")).unwrap();
    assert_eq!(member(&without, "kind"), (48, Provenance::Checked));
    assert_eq!(member(&without, "flags"), (40, Provenance::Checked));
    assert_eq!(without.chosen.len(), 1);
}

#[test]
fn debug_information_goes_before() {
    let int = || TargetType::Int { size: 4, signed: true };
    let target =
        with_class(target().text("toy 1.2").layout("ns::Layer", 96, &[("kind", 8, int()), ("flags", 12, int())]));
    let placement = placed(&probeset(TWO), &target).unwrap();
    assert_eq!(member(&placement, "kind"), (8, Provenance::Dwarf));
    assert!(placement.chosen.is_empty());
}

#[test]
fn none_and_several_are_said_with_what_they_ask() {
    let problem = |layouts: &str, target: &FakeTarget| {
        let (placement, Diagnostics(problems)) = with_problems(&probeset(layouts), target);
        assert_eq!(placement.absent.len(), 2, "what is read of it is absent");
        let mut of_layouts = problems.into_iter().filter(|problem| problem.code == Code::LayoutNotChosen);
        let problem = of_layouts.next().unwrap();
        assert!(of_layouts.next().is_none(), "it is reported once");
        problem
    };
    let none = problem(TWO, &target().text("toy 2.0"));
    assert_eq!(none.message, "no layout of ns::Layer is this target's");
    let listed = [
        "line 9: when bytes toy 1.2 or toy 1.3, when class ns::Gpu",
        "line 10: when bytes toy 1.2, unless class ns::Gpu",
    ];
    assert_eq!(none.notes[..2], listed);
    // Another version of the same layout as an older one is not taken for it.
    assert!(none.notes.iter().any(|note| note.contains("libtoy-gpu.so")), "{:?}", none.notes);

    let both = "      - { when: { file: libtoy-*.so }, at: { kind: 8 } }
      - { when: { function: r?n }, at: { kind: 16 } }
      - { when: { build_id: ffffffff }, at: { kind: 24 } }";
    let several = problem(both, &target());
    assert_eq!(several.message, "2 layouts of ns::Layer could be this target's");
    assert_eq!(several.notes[..2], ["line 9: when file libtoy-*.so", "line 10: when function r?n"]);
    assert!(!several.notes.iter().any(|note| note.contains("ffffffff")));
}

#[test]
fn each_fact_is_asked_of_the_file() {
    let holds = |check: &str| {
        let layouts = format!("      - {{ when: {{ {check} }}, at: {{ kind: 8 }} }}");
        let placement = placed(&probeset(&layouts), &with_class(target().text("toy 1.2"))).unwrap();
        member(&placement, "kind").1 == Provenance::Checked
    };
    for so in ["file: libtoy-g?u.so", "build_id: '00000000'", "bytes: oy 1.2", "class: ns::Gpu", "function: ru*n"] {
        assert!(holds(so), "{so}");
    }
    for not in [
        "file: libtoy.so",
        "build_id: '10000000'",
        "bytes: toy 1.3",
        "bytes: toy 1",
        "class: ns::Metal",
        "function: walk",
    ] {
        assert!(!holds(not), "{not}");
    }
}

#[test]
fn a_lock_file_has_what_was_chosen() {
    let probeset = probeset(TWO);
    let resolved = with_class(target().text("toy 1.2"));
    let plan = plan(&probeset, &Selection::default(), Arch::X86_64).unwrap().0;
    let (lock, _) = lock(&plan, &probeset, &resolved).unwrap();
    let lock = profinfer_binary::Lock::parse("toy.lock", lock.to_text().as_bytes()).unwrap();
    // The same build, of which nothing can be told: its name, text and classes are not asked.
    let (placement, _) = place_with(&plan, &probeset, &target(), Some(&lock)).unwrap();
    assert_eq!(member(&placement, "kind"), (56, Provenance::Lock));
    let unlocked = place_with(&plan, &probeset, &target(), None).unwrap().0;
    assert_eq!(member(&unlocked, "kind").1, Provenance::Absent);
    // What cannot be true is refused.
    let forged = lock.to_text().replace("\"kind\": 56", "\"kind\": 99999999999999999");
    assert!(profinfer_binary::Lock::parse("toy.lock", forged.as_bytes()).is_err());
}

/// A probeset whose enumeration is that of some builds; `when` compares with one of its constants.
fn of_kinds(when: &str) -> Probeset {
    const SET: &str = "{ when: { bytes: [1.2.1, 1.3.0] }, unless: { bytes: preview }, 1: ADD, 2: MUL }";
    of_sets(SET, when)
}

fn of_sets(sets: &str, when: &str) -> Probeset {
    let text = format!(
        "profinfer: 1
engine: toy
modules: {{ toy: libtoy-gpu.so, base: libtoy-base*.so }}
enums: {{ ns::Kind: {sets} }}
types: {{ ns::Layer: {{ kind: enum ns::Kind @ 8 }} }}
probes:
  step: {{ at: 'toy:run(i32 n)', role: step, fields: {{ tokens: n }} }}
  operator: {{ at: 'toy:walk(ns::Layer* layer)', role: operator, optional: true, {when}fields: {{ op: layer->kind }} }}
"
    );
    load_text("toy.yaml", &text, &Library::new(&[])).unwrap().0
}

/// Its version stands in a library that has no probe.
fn of_version(text: &str) -> FakeTarget {
    target().function("walk", 0x2000, CODE).file("libtoy-base.so").text(text)
}

fn names(placement: &Placement) -> Option<Vec<&str>> {
    Some(placement.enums.get("ns::Kind")?.values().map(String::as_str).collect())
}

fn with_problems(probeset: &Probeset, target: &FakeTarget) -> (Placement, Diagnostics) {
    let plan = plan(probeset, &Selection::default(), Arch::X86_64).unwrap().0;
    place_with(&plan, probeset, target, None).unwrap()
}

#[test]
fn constants_are_those_of_the_builds_that_are_named() {
    let probeset = of_kinds("");
    let (found, problems) = with_problems(&probeset, &of_version("the toy 1.3.0"));
    assert_eq!((names(&found), found.sites.len()), (Some(vec!["ADD", "MUL"]), 2));
    assert!(!problems.0.iter().any(|problem| problem.code == Code::LayoutNotChosen), "{problems:?}");
    // Others have numbers, and it is reported once, with the files that were searched.
    for other in ["the toy 1.3.01", "1.2.1 preview", "toy"] {
        let (other, problems) = with_problems(&probeset, &of_version(other));
        assert_eq!((names(&other), other.sites.len()), (None, 2));
        let reported: Vec<_> = problems.0.iter().filter(|problem| problem.code == Code::LayoutNotChosen).collect();
        let [problem] = reported.as_slice() else { panic!("{problems:?}") };
        assert_eq!(problem.severity, profinfer_diagnostics::Severity::Warning);
        assert_eq!(problem.message, "the constants of enum ns::Kind are those of other builds");
        let notes = problem.notes.join("; ");
        assert!(notes.contains("when bytes 1.2.1 or 1.3.0, unless bytes preview"), "{notes}");
        assert!(notes.contains("libtoy-base.so") && notes.contains("they are shown as numbers"), "{notes}");
    }
}

#[test]
fn of_several_sets_of_constants_the_first_that_applies_is_used() {
    let [old, new] = ["{ when: { bytes: toy 1 }, 0: NONE, 1: ADD }", "{ when: { bytes: toy 2 }, 0: ADD, 1: MUL }"];
    let of = |sets: &str, version: &str| {
        let (placement, problems) = with_problems(&of_sets(sets, ""), &of_version(version));
        let warned: Vec<Diagnostic> =
            problems.0.into_iter().filter(|problem| problem.code == Code::LayoutNotChosen).collect();
        (names(&placement).map(|names| names.join(" ")), warned)
    };
    let both = format!("[{old}, {new}]");
    assert_eq!(of(&both, "toy 1").0.as_deref(), Some("NONE ADD"));
    assert_eq!(of(&both, "toy 2").0.as_deref(), Some("ADD MUL"));
    let (none, warned) = of(&both, "toy 3");
    let notes = warned[0].notes.join("; ");
    assert_eq!((none, warned.len()), (None, 1));
    assert!(notes.contains("when bytes toy 1") && notes.contains("others apply when bytes toy 2"), "{notes}");
    // The last one may be that of all others.
    assert_eq!(of(&format!("[{old}, {{ 0: SUB }}]"), "toy 3"), (Some("SUB".to_owned()), Vec::new()));
    assert_eq!(of(&format!("[{old}, {{ 0: SUB }}]"), "toy 1").0.as_deref(), Some("NONE ADD"));
}

#[test]
fn a_condition_on_a_constant_of_another_build_is_not_tried() {
    let probeset = of_kinds("when: layer->kind == MUL, ");
    assert_eq!(with_problems(&probeset, &of_version("toy 1.2.1")).0.sites.len(), 2);
    let (other, _) = with_problems(&probeset, &of_version("toy 1.4.0"));
    let left_out: Vec<_> = other.unplaced.iter().map(|u| (u.probe.as_str(), u.problem.code)).collect();
    assert_eq!((other.sites.len(), left_out), (1, vec![("operator", Code::LayoutNotChosen)]));
}

#[test]
fn the_targets_own_constants_and_a_lock_files_go_before_a_check() {
    let probeset = of_kinds("");
    let own = of_version("toy 1.4.0").enumeration("ns::Kind", &[(1, "SUB"), (2, "DIV")]);
    assert_eq!(names(&with_problems(&probeset, &own).0), Some(vec!["SUB", "DIV"]));

    let plan = plan(&probeset, &Selection::default(), Arch::X86_64).unwrap().0;
    let (lock, _) = lock(&plan, &probeset, &of_version("toy 1.2.1")).unwrap();
    let lock = profinfer_binary::Lock::parse("toy.lock", lock.to_text().as_bytes()).unwrap();
    // The same build, of which the version cannot be told.
    let (locked, _) = place_with(&plan, &probeset, &of_version("toy"), Some(&lock)).unwrap();
    assert_eq!(names(&locked), Some(vec!["ADD", "MUL"]));
}

/// A probeset whose `experts` needs a constant, and whose tensor has members from code.
fn of_code(kind: &str, name: &str) -> Probeset {
    let text = format!(
        "profinfer: 1
engine: toy
modules: {{ toy: libtoy-gpu.so }}
enums: {{ {kind} }}
types: {{ tensor: {{ op: enum kind @ 80, {name}, data: 'void* @ name + 64' }} }}
objects: {{ tensor: {{ of: tensor, fields: {{ op: op, name: name, data: data }} }} }}
probes:
  step: {{ at: 'toy:run(i32 n)', role: step, fields: {{ tokens: n }} }}
  operator: {{ at: 'toy:walk(tensor* it)', role: operator, fields: {{ node: it as object tensor }} }}
  experts:
    at: probe operator
    role: experts
    when: it->op == MUL_MAT_ID
    fields: {{ node: it as object tensor, ids: '(it as u64 + 8) as i32[..4] max 4' }}
"
    );
    load_text("toy.yaml", &text, &Library::new(&[])).unwrap().0
}

fn of_tensors() -> FakeTarget {
    // lea rax, [rdi+100h]; ret
    target().function("walk", 0x2000, CODE).function("get_name", 0x3000, &[0x48, 0x8d, 0x87, 0, 1, 0, 0, 0xc3])
}

#[test]
fn a_probe_whose_constant_is_unknown_is_left_out_and_nothing_else() {
    let probeset = of_code("kind: { table: KINDS }", "name: 'char[64] from get_name(self)'");
    let (with, problems) = with_problems(&probeset, &of_tensors().name_table("KINDS", &["NONE", "MUL_MAT_ID"]));
    assert!(problems.0.is_empty(), "{problems:?}");
    assert_eq!((with.sites.len(), with.unplaced.len(), with.absent.len()), (2, 0, 0));
    let value = |placement: &Placement, symbol: &str| {
        let found = placement.values.iter().find(|value| value.symbol == symbol).unwrap();
        (found.value, found.provenance, found.detail.clone())
    };
    assert_eq!(value(&with, "constant_kind__MUL_MAT_ID"), (1, Provenance::Table, "KINDS".into()));
    assert_eq!(value(&with, "offset_of_tensor__name"), (256, Provenance::Accessor, "get_name".into()));
    assert_eq!(value(&with, "offset_of_tensor__data"), (320, Provenance::Accessor, "beside name".into()));
    let (without, _) = with_problems(&probeset, &of_tensors());
    let left_out: Vec<_> = without.unplaced.iter().map(|u| (u.probe.as_str(), u.required, u.problem.code)).collect();
    assert_eq!(left_out, [("experts", false, Code::LayoutUnknown)]);
    assert_eq!((without.sites.len(), without.absent.len()), (2, 0));
}

#[test]
fn a_constant_whose_name_ends_like_another_is_itself() {
    let of = |name: &str, target: FakeTarget| {
        let text = format!(
            "profinfer: 1
engine: toy
modules: {{ toy: libtoy-gpu.so }}
enums: {{ kind: {{ table: KINDS }} }}
types: {{ tensor: {{ op: enum kind @ 80 }} }}
probes:
  step: {{ at: 'toy:run(i32 n)', role: step, fields: {{ tokens: n }} }}
  operator: {{ at: 'toy:walk(tensor* it)', role: operator, when: it->op == {name}, fields: {{ op: it->op }} }}
"
        );
        let probeset = load_text("toy.yaml", &text, &Library::new(&[])).unwrap().0;
        let plan = plan(&probeset, &Selection::default(), Arch::X86_64).unwrap().0;
        let placement = place(&plan, &probeset, &target, PlacementOptions { lock: None, cache: None }).0;
        let symbol = format!("constant_kind__{name}");
        let value = placement.values.iter().find(|value| value.symbol == symbol).map(|value| value.value);
        value.filter(|value| *value != ABSENT_VALUE)
    };
    let names = ["NONE", "NORM", "RMS_NORM"];
    let complete = [(0, "TOY_OP_NONE"), (1, "TOY_OP_NORM"), (2, "TOY_OP_RMS_NORM")];
    for (name, value) in [("NORM", 1), ("TOY_OP_NORM", 1), ("RMS_NORM", 2), ("TOY_OP_RMS_NORM", 2), ("OP_NORM", 1)] {
        assert_eq!(of(name, of_tensors().enumeration("kind", &complete)), Some(value), "{name}");
        assert_eq!(of(name, of_tensors().name_table("KINDS", &names)), Some(value), "{name} of a table");
    }
    assert_eq!(of("RMS_NORM", of_tensors().enumeration("kind", &complete[..2])), None, "another constant");
}

/// What an object's description reads is known also where a probe refers to it by a list alone.
#[test]
fn objects_of_a_list_have_their_bytes() {
    let text = "profinfer: 1
engine: toy
modules: { toy: libtoy-gpu.so }
types: { tensor: { rank: u64 @ 24, kind: i32 @ 80 } }
objects: { tensor: { of: tensor, fields: { rank: rank, kind: kind } } }
probes:
  step: { at: 'toy:run(i32 n)', role: step, fields: { tokens: n } }
  operator: { at: 'toy:walk(tensor* it)', role: operator, fields: { op: it->kind, inputs: '[it as object tensor, it as object tensor]' } }
";
    let probeset = load_text("toy.yaml", text, &Library::new(&[])).unwrap().0;
    let (placement, _) = with_problems(&probeset, &of_tensors());
    let value = |symbol: &str| placement.values.iter().find(|value| value.symbol == symbol).map(|value| value.value);
    assert_eq!((value("first_byte_of_tensor"), value("bytes_of_tensor")), (Some(24), Some(60)));
}

#[test]
fn a_function_that_is_not_believed_is_named_with_the_instruction() {
    let probeset = of_code("kind: { table: KINDS }", "name: 'char[64] from walk(self)'");
    let (placement, problems) = with_problems(&probeset, &of_tensors().name_table("KINDS", &["NONE", "MUL_MAT_ID"]));
    let problem = problems.0.iter().find(|problem| problem.code == Code::LayoutUnknown).unwrap();
    assert_eq!(problem.severity, profinfer_diagnostics::Severity::Warning);
    let notes = problem.notes.join("; ");
    assert!(notes.contains("`walk` is not believed: "), "{notes}");
    assert!(notes.contains("tensor.data, tensor.name left out"), "{notes}");
    assert_eq!(placement.absent.len(), 2);
}

/// What is recorded is not refused for want of a step: a report finds steps by operators.
#[test]
fn an_optional_step_of_other_builds_is_left_out_beside_operators() {
    let text = |operator: &str| {
        format!(
            "profinfer: 1
engine: toy
modules: {{ toy: libtoy*.so }}
types:
  ns::Run: {{ methods: void*, layouts: {{ when: {{ bytes: toy 2.0 }}, at: {{ methods: 0 }} }} }}
probes:
  step: {{ at: 'toy:run(ns::Run* run)', role: step, when: run->methods != 0, optional: true }}
{operator}"
        )
    };
    let operator = "  kernel: { at: 'toy:run(void* kernel)', role: operator, fields: { name: kernel as cstr(8) } }\n";
    let load = |operator| load_text("toy.yaml", &text(operator), &Library::new(&[])).unwrap().0;
    for (version, steps) in [("toy 1.0", 0), ("toy 2.0", 1)] {
        let placement = placed(&load(operator), &target().text(version)).unwrap();
        let of = |probe: &str| placement.sites.iter().filter(|site| site.site.probes[0] == probe).count();
        assert_eq!((of("kernel"), of("step")), (1, steps), "{version}");
        assert_eq!(placement.unplaced.len(), 1 - steps);
    }
    let problems = place_with(
        &plan(&load(""), &Selection::default(), Arch::X86_64).unwrap().0,
        &load(""),
        &target().text("toy 1.0"),
        None,
    );
    let unplaced = problems.map(|(placement, _)| placement.unplaced).unwrap();
    assert_eq!((unplaced.len(), unplaced[0].problem.code), (1, Code::GroupNotAttached));
}

/// The first alternative whose argument has a layout is used; what lies behind it is absent by itself.
#[test]
fn an_optional_probe_is_at_the_first_alternative_whose_argument_has_a_layout() {
    let text = "profinfer: 1
engine: toy
modules: { toy: libtoy*.so }
types:
  ns::New:
    kind: i32
    next: ns::Other*
    layouts: { when: { bytes: toy 2.0 }, at: { kind: 0, next: 8 } }
    let: { what: kind }
  ns::Old: { kind: i32, next: ns::Other*, layouts: { when: { bytes: toy 1.0 }, at: { kind: 16, next: 24 } }, let: { what: kind } }
  ns::Other: { size: i64, layouts: { when: { bytes: with others }, at: { size: 8 } } }
probes:
  step: { at: 'toy:step()', role: step }
  run:
    at: [toy:run(ns::New* item), toy:run(ns::Old* item)]
    role: operator
    optional: true
    fields: { op: item->what, shape: '[item->next->size]' }
";
    let probeset = load_text("toy.yaml", text, &Library::new(&[])).unwrap().0;
    for (texts, alternative, absent) in [
        (&["toy 2.0", "with others"][..], Some(0), 0),
        (&["toy 1.0", "with others"], Some(1), 0),
        (&["toy 2.0"], Some(0), 1),
        (&["toy 1.0"], Some(1), 1),
        (&["toy 3.0", "with others"], None, 0),
    ] {
        let target = texts.iter().fold(target().function("step", 0x2000, CODE), |target, text| target.text(text));
        let plan = plan(&probeset, &Selection::default(), Arch::X86_64).unwrap().0;
        let (placement, _) = place_with(&plan, &probeset, &target, None).unwrap();
        let site = placement.sites.iter().find(|site| site.site.probes[0] == "run");
        assert_eq!(site.map(|site| plan.programs[site.program].alternative), alternative, "{texts:?}");
        assert_eq!(placement.absent.len(), absent, "{texts:?}");
        assert_eq!(placement.unplaced.len(), usize::from(alternative.is_none()), "{texts:?}");
    }
}

#[test]
fn strings_are_those_whose_functions_a_file_names() {
    let text = "profinfer: 1
engine: toy
modules: { toy: { files: libtoy*.so, strings: libstdc++ } }
probes:
  step: { at: 'toy:run(std::string(16)& word)', role: step, fields: { word: word } }
";
    let probeset = load_text("toy.yaml", text, &Library::new(&[])).unwrap().0;
    let strings = |target: FakeTarget| {
        let placement = placed(&probeset, &target).unwrap();
        let found = placement.values.iter().find(|value| value.symbol.contains("strings")).unwrap();
        (found.value, found.provenance)
    };
    let (new, old) = ("_ZNKSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE4findEcm", "_ZNKSs4findEcm");
    assert_eq!(strings(target()), (1, Provenance::ByHand));
    assert_eq!(strings(target().text(new)), (1, Provenance::ByHand));
    assert_eq!(strings(target().text(old)), (2, Provenance::Checked));
    // A file that uses old strings may bring functions of the new ones with it.
    assert_eq!(strings(target().text(new).text(old)), (2, Provenance::Checked));
}
