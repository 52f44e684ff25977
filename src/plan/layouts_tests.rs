//! Layouts are chosen by what a target has, said where none or several fit, and kept by lock files.

use super::*;
use crate::diag::Diagnostics;
use crate::plan::{Placement, Provenance, Selection, lock, place, place_with, plan};
use crate::spec::{Library, Probeset, load_text};
use crate::target::{Arch, FakeTarget, Overrides, TargetType};

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

const TWO: &str = "      - { when: { bytes: [toy 1.2, toy 1.3], class: ns::Vulkan }, at: { kind: 56 } }
      - { when: { bytes: toy 1.2 }, unless: { class: ns::Vulkan }, at: { kind: 48, flags: 40 } }";

fn target() -> FakeTarget {
    FakeTarget::new(Arch::X86_64).file("libtoy-gpu.so").function("run", 0x1000, CODE)
}

fn with_class(target: FakeTarget) -> FakeTarget {
    target.overrides_of("ns::Vulkan", 0, Overrides { classes: 1, ..Overrides::default() })
}

fn placed(probeset: &Probeset, target: &FakeTarget) -> Result<Placement, Diagnostics> {
    let plan = plan(probeset, &Selection::default(), Arch::X86_64).unwrap().0;
    place(&plan, probeset, target).map(|(placement, _)| placement)
}

/// Where a member was found, and how it is known.
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
    assert_eq!(placed(&probeset, &target().text("a toy\u{3}")).unwrap_err().0[0].code, Code::LayoutNotChosen);
}

#[test]
fn an_optional_probe_whose_layout_is_not_the_targets_is_left_out() {
    let mut probeset = probeset(TWO);
    let step = probeset.probes["step"].clone();
    probeset.probes.get_mut("step").unwrap().fields["tokens"].value.kind = crate::path::ExprKind::Int(1);
    probeset.probes.get_mut("step").unwrap().fields.shift_remove("flags");
    let mut other = crate::spec::Probe { optional: true, ..step };
    other.name.value = "other".into();
    other.role.value = crate::spec::Role::Region;
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
        let problems = placed(&probeset(layouts), target).unwrap_err().0;
        let mut of_layouts = problems.into_iter().filter(|problem| problem.code == Code::LayoutNotChosen);
        let problem = of_layouts.next().unwrap();
        assert!(of_layouts.next().is_none(), "it is said once");
        problem
    };
    let none = problem(TWO, &target().text("toy 2.0"));
    assert_eq!(none.message, "no layout of ns::Layer is this target's");
    let listed = [
        "line 9: when bytes toy 1.2 or toy 1.3, when class ns::Vulkan",
        "line 10: when bytes toy 1.2, unless class ns::Vulkan",
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
        placed(&probeset(&layouts), &with_class(target().text("toy 1.2"))).is_ok()
    };
    for so in ["file: libtoy-g?u.so", "build_id: '00000000'", "bytes: oy 1.2", "class: ns::Vulkan", "function: ru*n"] {
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
    let known = with_class(target().text("toy 1.2"));
    let plan = plan(&probeset, &Selection::default(), Arch::X86_64).unwrap().0;
    let (lock, _) = lock(&plan, &probeset, &known).unwrap();
    let lock = crate::target::Lock::parse("toy.lock", lock.to_text().as_bytes()).unwrap();
    // The same build, of which nothing can be told: its name, text and classes are not asked.
    let (placement, _) = place_with(&plan, &probeset, &target(), Some(&lock)).unwrap();
    assert_eq!(member(&placement, "kind"), (56, Provenance::Lock));
    assert!(place_with(&plan, &probeset, &target(), None).is_err());
    // What cannot be true is refused.
    let forged = lock.to_text().replace("\"kind\": 56", "\"kind\": 99999999999999999");
    assert!(crate::target::Lock::parse("toy.lock", forged.as_bytes()).is_err());
}

/// A probeset whose enumeration is that of some builds; `when` compares with one of its constants.
fn of_kinds(when: &str) -> Probeset {
    let text = format!(
        "profinfer: 1
engine: toy
modules: {{ toy: libtoy-gpu.so, base: libtoy-base*.so }}
enums: {{ ns::Kind: {{ when: {{ bytes: [1.2.1, 1.3.0] }}, unless: {{ bytes: preview }}, 1: ADD, 2: MUL }} }}
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

fn said(probeset: &Probeset, target: &FakeTarget) -> (Placement, Diagnostics) {
    let plan = plan(probeset, &Selection::default(), Arch::X86_64).unwrap().0;
    place(&plan, probeset, target).unwrap()
}

#[test]
fn constants_are_those_of_the_builds_that_are_named() {
    let probeset = of_kinds("");
    let (known, problems) = said(&probeset, &of_version("the toy 1.3.0"));
    assert_eq!((names(&known), known.sites.len()), (Some(vec!["ADD", "MUL"]), 2));
    assert!(!problems.0.iter().any(|problem| problem.code == Code::LayoutNotChosen), "{problems:?}");
    // Others have numbers, and it is said once, with what was looked in.
    for other in ["the toy 1.3.01", "1.2.1 preview", "toy"] {
        let (other, problems) = said(&probeset, &of_version(other));
        assert_eq!((names(&other), other.sites.len()), (None, 2));
        let said: Vec<_> = problems.0.iter().filter(|problem| problem.code == Code::LayoutNotChosen).collect();
        let [problem] = said.as_slice() else { panic!("{problems:?}") };
        assert_eq!(problem.severity, crate::diag::Severity::Warning);
        assert_eq!(problem.message, "the constants of enum ns::Kind are those of other builds");
        let notes = problem.notes.join("; ");
        assert!(notes.contains("when bytes 1.2.1 or 1.3.0, unless bytes preview"), "{notes}");
        assert!(notes.contains("libtoy-base.so") && notes.contains("they are shown as numbers"), "{notes}");
    }
}

#[test]
fn a_condition_on_a_constant_of_another_build_is_not_tried() {
    let probeset = of_kinds("when: layer->kind == MUL, ");
    assert_eq!(said(&probeset, &of_version("toy 1.2.1")).0.sites.len(), 2);
    let (other, _) = said(&probeset, &of_version("toy 1.4.0"));
    let left_out: Vec<_> = other.unplaced.iter().map(|u| (u.probe.as_str(), u.problem.code)).collect();
    assert_eq!((other.sites.len(), left_out), (1, vec![("operator", Code::LayoutNotChosen)]));
}

#[test]
fn the_targets_own_constants_and_a_lock_files_go_before_a_check() {
    let probeset = of_kinds("");
    let own = of_version("toy 1.4.0").enumeration("ns::Kind", &[(1, "SUB"), (2, "DIV")]);
    assert_eq!(names(&said(&probeset, &own).0), Some(vec!["SUB", "DIV"]));

    let plan = plan(&probeset, &Selection::default(), Arch::X86_64).unwrap().0;
    let (lock, _) = lock(&plan, &probeset, &of_version("toy 1.2.1")).unwrap();
    let lock = crate::target::Lock::parse("toy.lock", lock.to_text().as_bytes()).unwrap();
    // The same build, of which the version cannot be told.
    let (locked, _) = place_with(&plan, &probeset, &of_version("toy"), Some(&lock)).unwrap();
    assert_eq!(names(&locked), Some(vec!["ADD", "MUL"]));
}
