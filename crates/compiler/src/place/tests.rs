use crate::{Placement, PlacementOptions, Selection, codegen, place, plan};
use profinfer_binary::{Arch, FakeTarget, InlinedCopy, InlinedParameter, Location, MOST_COPIES, TargetType};
use profinfer_diagnostics::{Code, Diagnostics};
use profinfer_probeset::{Library, load_text};

/// A push and a return: a place for a probe.
const CODE: &[u8] = &[0x55, 0x5d, 0xc3];
/// As DWARF numbers them.
const RSI: u64 = 4;
const RDX: u64 = 1;

fn text(rest: &str) -> String {
    format!("profinfer: 1\nengine: toy\nmodules: {{ toy: libtoy.so, two: libtwo.so }}\n{rest}")
}

fn placed(rest: &str, target: &FakeTarget) -> (Placement, Diagnostics) {
    let probeset = load_text("toy.yaml", &text(rest), &Library::new(&[])).unwrap().0;
    let plan = plan(&probeset, &Selection::default(), Arch::X86_64).unwrap().0;
    place(&plan, &probeset, target, PlacementOptions::default())
}

fn script(rest: &str, target: &FakeTarget) -> (String, Diagnostics) {
    let probeset = load_text("toy.yaml", &text(rest), &Library::new(&[])).unwrap().0;
    let plan = plan(&probeset, &Selection::default(), Arch::X86_64).unwrap().0;
    let placement = place(&plan, &probeset, target, PlacementOptions::default()).0;
    codegen::bpftrace(&plan, &probeset, &placement, target).unwrap()
}

fn toy() -> FakeTarget {
    FakeTarget::new(Arch::X86_64).file("libtoy.so")
}

fn value(placement: &Placement, part: &str) -> u64 {
    placement.values.iter().find(|value| value.symbol.contains(part)).unwrap().value
}

fn word() -> TargetType {
    TargetType::Int { size: 8, signed: true }
}

fn copy(name: &str, entry: u64) -> InlinedCopy {
    InlinedCopy {
        name: name.into(),
        within: "run".into(),
        within_ranges: std::iter::once(0x1000..0x1003).collect(),
        captures: Vec::new(),
        entry,
        ranges: std::iter::once(entry..entry + 1).collect(),
        statements: vec![(entry, 0)],
        parameters: Vec::new(),
        is_whole: false,
    }
}

#[test]
fn a_block_of_arrays_within_each_other_has_all_their_elements() {
    let target = toy()
        .function("step", 0x1000, CODE)
        .layout("part", 24, &[("dims", 0, TargetType::Array(Box::new(word()), Some(3)))])
        .layout(
            "t",
            120,
            &[
                ("n", 0, word()),
                ("k", 8, word()),
                ("parts", 16, TargetType::Array(Box::new(TargetType::Struct("part".into(), 24)), Some(4))),
                ("op", 112, word()),
            ],
        );
    let rest = "types: { part: { dims: 'i64[3]' }, t: { n: i64, k: i64, parts: 'part[4]', op: i64 } }
objects: { tensor: { of: t, fields: { last: 'parts[n].dims[k]' } } }
probes:
  step: { at: 'toy:step(t* t)', role: step, fields: { tokens: 1 } }
  op: { at: probe step, role: operator, fields: { node: t as object tensor } }
";
    let (placement, problems) = placed(rest, &target);
    assert!(!problems.has_errors(), "{problems:?}");
    assert_eq!((value(&placement, "first_byte_of_"), value(&placement, "bytes_of_")), (0, 112));
}

#[test]
fn a_site_is_chosen_by_the_types_that_its_arguments_are_read_by() {
    let target = toy()
        // mov rax, rdx; xor edx, edx; nop; ret
        .function("run", 0x1000, &[0x48, 0x89, 0xd0, 0x31, 0xd2, 0x90, 0xc3])
        .file("libtwo.so")
        .function("helper", 0x1000, CODE)
        .layout("batch", 24, &[("n", 0, TargetType::Int { size: 4, signed: true })]);
    let rest = "types: { batch: { n: i32 } }
probes:
  run: { at: 'toy:run(batch b, i32 n, i32 m)', role: mark, fields: { m: m } }
  step: { at: 'two:helper(batch* b)', role: step, fields: { tokens: b->n } }
";
    let target = |code: &[u8]| match code {
        [] => target.clone(),
        code => toy().function("run", 0x1000, code).file("libtwo.so").function("helper", 0x1000, CODE).layout(
            "batch",
            24,
            &[("n", 0, TargetType::Int { size: 4, signed: true })],
        ),
    };
    // The batch is on the stack, so that `n` is in rdi and `m` in rsi.
    for (code, offset) in [(&[][..], 5), (&[0x48, 0x89, 0xc8, 0x31, 0xf6, 0x90, 0xc3], 0)] {
        let (placement, problems) = placed(rest, &target(code));
        assert!(!problems.has_errors(), "{problems:?}");
        assert_eq!(value(&placement, "argument_2") >> 8 & 0xff, RSI);
        assert_eq!(placement.sites[0].site.function_offset, offset);
    }
}

#[test]
fn arguments_of_a_changed_copy_are_where_debug_information_has_them() {
    let parameter = |name: &str, at: Option<Location>| InlinedParameter {
        name: name.into(),
        locations: at.into_iter().map(|at| (0x2000..0x2003, at)).collect(),
    };
    let whole = |t: Option<Location>| InlinedCopy {
        parameters: vec![parameter("mode", None), parameter("unused", None), parameter("t", t)],
        is_whole: true,
        ..copy("run", 0x2000)
    };
    let rest = "types: { t: { op: i32 } }
probes:
  step: { at: 'toy:step()', role: step }
  op: { at: ['toy:run(i32 mode, i32 unused, void* t)', 'toy:api(void* t)'], role: mark, fields: { t: t } }
";
    let target = || {
        let target = toy().function("step", 0x1000, CODE).function("api", 0x3000, CODE);
        // xor edx, edx; push rbp; ret
        target.function("run.constprop.0", 0x2000, &[0x31, 0xd2, 0x55, 0xc3])
    };
    let site = |target: &FakeTarget| {
        let (placement, problems) = placed(rest, target);
        let site = placement.sites.into_iter().find(|site| site.site.probes[0] == "op").unwrap();
        let values: Vec<u64> = site.values.values().map(|value| value >> 8 & 0xff).collect();
        (site.site.function, site.site.function_offset, values, problems)
    };
    // It is not in rdx, where the declaration would have it, so that the push will do.
    let (function, offset, values, _) = site(&target().inlined_copy(whole(Some(Location::Register(4)))));
    assert_eq!((function.as_str(), offset, values), ("run", 2, vec![RSI]));
    let (function, offset, values, _) = site(&target().inlined_copy(whole(Some(Location::Register(1)))));
    assert_eq!((function.as_str(), offset, values), ("run", 0, vec![RDX]));
    // Of what lies in memory the register may change.
    let in_memory = Location::Memory { register: 7, offset: 8 };
    assert_eq!(site(&target().inlined_copy(whole(Some(in_memory)))).1, 0);
    // It has none: the next alternative.
    assert_eq!(site(&target().inlined_copy(whole(None))).0, "api");
    // There is no debug information: nobody knows.
    let (function, _, values, problems) = site(&target());
    assert_eq!((function.as_str(), values), ("run", Vec::new()));
    let of_places = |problems: Diagnostics| -> Vec<String> {
        let problems = problems.0.into_iter().filter(|problem| problem.code == Code::ArgumentPlace);
        problems.map(|problem| problem.message).collect()
    };
    assert_eq!(of_places(problems), ["arguments of `run` may be read wrongly: it is a changed copy"]);
    let twice = target().function("run.isra.0", 0x2100, CODE);
    let messages = of_places(site(&twice).3);
    assert_eq!(messages, ["arguments of `run` and 1 more may be read wrongly: they are changed copies"]);
    // What reads no arguments is placed as ever.
    let none = rest.replace(", fields: { t: t }", "");
    assert!(placed(&none, &target()).1.0.is_empty());
}

#[test]
fn code_that_a_function_jumps_to_may_jump_back_whatever_it_is_called() {
    // sub rsp, 8; mov rax, rdi; js +0xff8; nop; ret, and there: pause; jmp back to the mov
    let code = [0x48, 0x83, 0xec, 0x08, 0x48, 0x89, 0xf8, 0x0f, 0x88, 0xf3, 0x0f, 0, 0, 0xc3];
    let back = [0xf3, 0x90, 0xe9, 0xfd, 0xef, 0xff, 0xff];
    let rest = "probes: { step: { at: toy:run, role: step }, m: { at: probe step, role: mark } }";
    let rest = rest.replace("toy:run,", "'toy:run until [step]',");
    let offset = |piece: &str| {
        let target = toy().function("run", 0x1000, &code).function(piece, 0x2000, &back);
        placed(&rest, &target).0.sites[0].site.function_offset
    };
    assert_eq!((offset("run.cold"), offset("hidden")), (0, 0));
    let alone = toy().function("run", 0x1000, &code);
    assert_eq!(placed(&rest, &alone).0.sites[0].site.function_offset, 7, "the jump, which is cheaper");
}

#[test]
fn copies_of_functions_that_are_another_probes_are_left_to_it() {
    let target = toy()
        // nop; nop; ret
        .function("run", 0x1000, &[0x90, 0x90, 0xc3])
        .inlined_copy(copy("op_add", 0x1000))
        .inlined_copy(copy("op_special", 0x1001));
    let rest = "probes:
  step: { at: 'toy:run()', role: step }
  special: { at: 'toy:op_special()', role: mark }
  others: { at: 'toy:op_*()', role: mark, except: [special] }
";
    let (placement, _) = placed(rest, &target);
    let at = |probe: &str| -> Vec<u64> {
        let sites = placement.sites.iter().filter(|site| site.site.probes[0] == probe);
        sites.map(|site| site.site.file_offset).collect()
    };
    assert_eq!((at("special"), at("others")), (vec![0x1001], vec![0x1000]));
}

#[test]
fn copies_that_are_too_many_are_reported() {
    let with = |count: usize| {
        let target = toy().function("run", 0x1000, &[0x90, 0x90, 0xc3]).function("step", 0x3000, CODE);
        let target = (0..count).fold(target, |target, _| target.inlined_copy(copy("op", 0x1000)));
        let rest = "probes: { step: { at: toy:step, role: step }, op: { at: toy:op, role: mark } }";
        let problems = placed(rest, &target).1;
        problems.0.iter().any(|problem| problem.message.contains("inlined more than"))
    };
    assert!(!with(MOST_COPIES) && with(MOST_COPIES + 1));
}

#[test]
fn a_constant_that_a_table_lacks_is_not_another_one() {
    let target = toy()
        .function("step", 0x1000, CODE)
        .layout("t", 8, &[("op", 0, TargetType::Enum("toy_op".into(), 4))])
        .name_table("names", &["NONE", "NORM", "ADD", "MUL"]);
    let is_found = |enumeration: &str, condition: &str| {
        let rest = format!(
            "types: {{ t: {{ op: enum {enumeration} }} }}
enums: {{ {enumeration}: {{ table: {{ begins: [NONE, NORM, ADD] }} }} }}
probes:
  step: {{ at: 'toy:step(t* t)', role: step, fields: {{ tokens: 1 }} }}
  op: {{ at: probe step, role: mark, when: '{condition}' }}
"
        );
        let target = target.clone().layout("t", 8, &[("op", 0, TargetType::Enum(enumeration.into(), 4))]);
        let (placement, _) = placed(&rest, &target);
        placement.unplaced.iter().all(|unplaced| unplaced.probe != "op")
    };
    assert!(is_found("toy_op", "t->op == TOY_OP_NORM || t->op == ADD"));
    assert!(!is_found("toy_op", "t->op == TOY_OP_L2_NORM"), "by the enumeration's name");
    assert!(is_found("kind", "t->op == TOY_OP_NORM || t->op == TOY_OP_ADD"));
    assert!(!is_found("kind", "t->op == TOY_OP_L2_NORM || t->op == TOY_OP_ADD"), "by another constant");
    assert!(!is_found("kind", "t->op == L2_NORM || t->op == ADD"), "which has no prefix");
}

#[test]
fn a_written_constant_may_be_used_without_its_prefix() {
    let target = toy().function("step", 0x1000, CODE);
    let of = |condition: &str| {
        let rest = format!(
            "types: {{ t: {{ op: enum toy_mode @ 0 }} }}
enums: {{ toy_mode: {{ 0: TOY_MODE_NONE, 29: TOY_MODE_FAST, 0x80000001: TOY_MODE_LAST }} }}
probes:
  step: {{ at: 'toy:step(t* t)', role: step, fields: {{ tokens: 1, mode: t->op }} }}
  op: {{ at: probe step, role: mark, when: 't->op == {condition}' }}
"
        );
        let (placement, _) = placed(&rest, &target);
        assert_eq!(placement.enums["toy_mode"].keys().copied().collect::<Vec<_>>(), [-0x7fff_ffff, 0, 29]);
        let is_missing = placement.unplaced.iter().any(|unplaced| unplaced.probe == "op");
        (!is_missing).then(|| value(&placement, "toy_mode").cast_signed())
    };
    assert_eq!(of("FAST"), Some(29));
    assert_eq!(of("TOY_MODE_FAST"), Some(29));
    assert_eq!(of("AST"), None);
    // It is read as a number of 32 bits, with a sign.
    assert_eq!(of("LAST"), Some(-0x7fff_ffff));
}

#[test]
fn a_script_has_no_values_that_the_target_lacks() {
    let target = toy().function("step", 0x1000, CODE);
    let rest = "types: { t: { op: i32, ne: i64 } }
probes:
  step: { at: 'toy:step(t* t, i64 n)', role: step, fields: { tokens: n, op: t->op, second: 't[1].ne' } }
";
    let (script, problems) = script(rest, &target);
    assert!(script.contains("tokens=") && !script.contains("op=") && !script.contains("second="), "{script}");
    assert!(problems.0.iter().any(|problem| problem.message.ends_with("the target does not have it")), "{problems:?}");
}

#[test]
fn a_script_reads_each_build_by_its_own_layout() {
    let build = |target: FakeTarget, folder: &str, at: u64| {
        let target = target.file(&format!("{folder}/libtoy.so")).function("step", 0x1000, CODE);
        target.layout("t", 64, &[("ne", at, word())])
    };
    let target = build(build(FakeTarget::new(Arch::X86_64), "a", 8), "b", 48);
    let rest = "types: { t: { ne: i64 } }
probes:
  step: { at: 'toy:step(t* t, i64 n)', role: step, fields: { tokens: t->ne } }
";
    let script = script(rest, &target).0;
    assert!(script.contains(" + 8)") && script.contains(" + 48)"), "{script}");
}

#[test]
fn a_lock_file_has_pieces_of_functions_and_structs_in_structs() {
    // sub rsp, 8; mov rax, rdx; js +0xff8; nop; ret, and there: pause; jmp back to the mov
    let code = [0x48, 0x83, 0xec, 0x08, 0x48, 0x89, 0xd0, 0x0f, 0x88, 0xf3, 0x0f, 0, 0, 0xc3];
    let back = [0xf3, 0x90, 0xe9, 0xfd, 0xef, 0xff, 0xff];
    let double = TargetType::Float { size: 8 };
    let inner = TargetType::Struct("inner".into(), 16);
    let target = toy()
        .function("run", 0x1000, &code)
        .function("run.cold", 0x2000, &back)
        .layout("vec", 16, &[("a", 0, inner)])
        .layout("inner", 16, &[("x", 0, double.clone()), ("y", 8, double)]);
    let rest = "types: { vec: {} }
probes: { step: { at: 'toy:run(vec v, i32 n) until [step]', role: step, fields: { tokens: n } } }
";
    let probeset = load_text("toy.yaml", &text(rest), &Library::new(&[])).unwrap().0;
    let plan = plan(&probeset, &Selection::default(), Arch::X86_64).unwrap().0;
    let lock = crate::lock(&plan, &probeset, &target).unwrap().0;
    assert!(lock.to_text().contains(" run.cold\""), "{}", lock.to_text());
    let stripped = toy().function("nothing", 0x1000, &code).function("neither", 0x2000, &back);
    let options = PlacementOptions { lock: Some(&lock), cache: None };
    let (placement, problems) = place(&plan, &probeset, &stripped, options);
    assert!(!problems.has_errors(), "{problems:?}");
    // rdi, because the doubles are in vector registers.
    assert_eq!(value(&placement, "argument_1") >> 8 & 0xff, 5);
    assert_eq!(placement.sites[0].site.function_offset, 0);
}

/// Two libraries have a copy of the functions that engines share: the engine's is the one with its other module.
#[test]
fn of_several_files_with_a_module_s_functions_the_engine_s_other_module_is_it() {
    let probes = "probes:\n  run: { at: toy:run, role: region }\n  step: { at: two:step, role: step }";
    let both = || {
        let first = FakeTarget::new(Arch::X86_64).file("first.so").function("run", 0x1000, CODE);
        first.file("second.so").function("run", 0x2000, CODE)
    };
    let places = |target: &FakeTarget| {
        let (placement, problems) = placed(probes, target);
        assert!(!problems.has_errors() && placement.unplaced.is_empty(), "{problems:?}");
        placement.sites.iter().map(|site| site.site.file_offset).collect::<Vec<_>>()
    };
    // By the functions of the other, and by its name.
    assert_eq!(places(&both().function("step", 0x3000, CODE)), [0x2000, 0x3000]);
    let named = FakeTarget::new(Arch::X86_64).file("libtwo.so").function("run", 0x1000, CODE);
    let named = named.function("step", 0x3000, CODE).file("second.so").function("run", 0x2000, CODE);
    assert_eq!(places(&named), [0x1000, 0x3000]);
    // Where this does not decide, either may be called.
    assert_eq!(places(&both().file("third.so").function("step", 0x3000, CODE)), [0x1000, 0x2000, 0x3000]);
}
