//! What a lock stores, what it refuses, and what a target with one answers.

use super::*;
use crate::{FakeTarget, InlinedParameter, Location};

fn tensor(to: &str) -> Layout {
    let inputs =
        TargetType::Array(Box::new(TargetType::Pointer(Some(Box::new(TargetType::Struct(to.into(), 96))))), Some(2));
    let members =
        [("op", 0, TargetType::Enum("op".into(), 4)), ("inputs", 16, inputs), ("unused", 80, TargetType::Bool)];
    Layout { size: 96, align: Some(8), members: members.map(|(name, at, ty)| (name.to_owned(), (at, ty))).into() }
}

fn copy() -> InlinedCopy {
    InlinedCopy {
        name: "engine_work".into(),
        within: "engine_run".into(),
        within_ranges: std::iter::once(0x1000..0x1100).collect(),
        captures: vec!["thrown away".into()],
        entry: 0x1010,
        ranges: std::iter::once(0x1010..0x1020).collect(),
        statements: vec![(0x1010, 0)],
        parameters: vec![InlinedParameter {
            name: "x".into(),
            locations: vec![(0x1010..0x1020, Location::Register(5))],
        }],
        is_whole: false,
    }
}

fn function(symbol: &str, file_offset: u64) -> Function {
    Function { symbol: symbol.into(), name: symbol.into(), file_offset, size: 20, captures: Vec::new() }
}

fn whole() -> Lock {
    let target = FakeTarget::new(Arch::X86_64).file("libengine.so.1");
    let mut file = LockedFile::new(&target.files()[0]).unwrap();
    file.add_functions(&[
        function("engine_run", 0x1000),
        function("_ZN6engine4stepEi", 0x2000),
        function("engine_run", 0x1000),
    ]);
    file.add_layout("tensor", &tensor("tensor"), |member| member != "unused");
    file.add_enumeration("op", &[(-1, "NEG".to_owned()), (5, "ADD".to_owned())].into());
    file.add_inlined(&[copy(), copy()]);
    file.sites.push(LockedSite {
        probes: vec!["step".into()],
        function: "engine_run".into(),
        file_offset: 0x1004,
        function_offset: 4,
        instruction: "push rbx".into(),
        arguments: [("place_of_step__argument_0".to_owned(), 0x501)].into(),
    });
    Lock::new("engine", vec![file])
}

fn stripped() -> FakeTarget {
    FakeTarget::new(Arch::X86_64).file("libengine.so").function("engine_run", 0x1000, &[0x53, 0xc3])
}

#[test]
fn what_is_written_is_read_again() {
    let text = whole().to_text();
    assert_eq!(Lock::parse("engine.lock", text.as_bytes()).unwrap(), whole());
    for line in [
        "\"0x1000+20 engine_run\"",
        "\"inputs\": \"16 struct tensor:96*[2]\"",
        "\"5\": \"ADD\"",
        "\"op\": \"0 enum op:4\"",
    ] {
        assert!(text.contains(line), "{line} in\n{text}");
    }
    assert!(!text.contains("unused") && !text.contains("thrown away"), "{text}");
}

#[test]
fn a_stripped_file_of_the_same_build_is_known_again() {
    let (lock, inner) = (whole(), stripped());
    let target = LockedTarget::new(&inner, &lock);
    let found = |pattern: &str| {
        let functions = target.functions(0, &NamePattern(pattern.into()));
        functions.into_iter().map(|f| (f.name, f.file_offset, f.captures)).collect::<Vec<_>>()
    };
    assert_eq!(found("engine_*"), [("engine_run".to_owned(), 0x1000, vec!["run".to_owned()])]);
    assert_eq!(found("engine::st*"), [("engine::step".to_owned(), 0x2000, vec!["ep".to_owned()])]);
    let mut trimmed = tensor("tensor");
    trimmed.members.remove("unused");
    assert_eq!(target.layout(0, "tensor"), Some(trimmed));
    assert_eq!(target.enumeration(0, "op").unwrap()[&5], "ADD");
    let copies = target.inlined(0, &NamePattern("engine_w*".into()));
    assert_eq!(copies, [InlinedCopy { captures: vec!["ork".into()], ..copy() }]);
    assert_eq!(target.code(0, 0x1000, 1), [0x53]);
    assert!(target.is_locked(0, "tensor") && target.is_locked(0, "op") && !target.is_locked(0, "other"));
    assert_eq!(target.problems(), []);
}

#[test]
fn a_files_own_debug_information_comes_first() {
    let inner = stripped().layout("tensor", 8, &[]);
    let lock = whole();
    let target = LockedTarget::new(&inner, &lock);
    assert_eq!(target.layout(0, "tensor").unwrap().size, 8);
    assert!(!target.is_locked(0, "tensor"));
}

#[test]
fn another_build_is_refused_with_both_build_ids() {
    // The second file of a fake target has another build-id.
    let inner = FakeTarget::new(Arch::X86_64).file("libother.so").file("libengine.so.2");
    let mut lock = whole();
    lock.files[0].build_id = "ab".repeat(20);
    let target = LockedTarget::new(&inner, &lock);
    assert_eq!((target.layout(1, "tensor"), target.functions(1, &NamePattern("*".into()))), (None, vec![]));
    let [problem] = &target.problems()[..] else { panic!("{:?}", target.problems()) };
    assert_eq!((problem.code, problem.severity), (Code::LockOfOtherBuild, profinfer_diagnostics::Severity::Error));
    let notes = problem.notes.join("\n");
    assert!(notes.contains(&"ab".repeat(20)) && notes.contains(&format!("{:040x}", 2)), "{notes}");
}

#[test]
fn a_lock_of_another_instruction_set_says_nothing() {
    let inner = FakeTarget::new(Arch::Aarch64).file("libengine.so");
    let lock = whole();
    assert_eq!(LockedTarget::new(&inner, &lock).layout(0, "tensor"), None);
}

#[test]
fn what_cannot_be_true_is_refused() {
    let good = whole().to_text();
    let wrongs = [
        ("\"lock\": 1", "\"lock\": 2", "version is 2"),
        ("\"lock\": 1", "\"lock\": \"1\"", "invalid type"),
        ("\"0x1000+20 engine_run\"", "\"1000+20 engine_run\"", "not a function"),
        ("\"0x1000+20 engine_run\"", "\"0x1000+20 \"", "not a function"),
        ("\"0x1000+20 engine_run\"", "\"0xffffffffffff+20 engine_run\"", "outside the file"),
        ("\"op\": \"0 enum op:4\"", "\"op\": \"97 enum op:4\"", "impossible"),
        ("\"op\": \"0 enum op:4\"", "\"op\": \"0 enum op\"", "not a member"),
        ("\"x86_64\"", "\"z80\"", "not an instruction set"),
        ("\"size\": 96", "\"size\": 99999999999999", "impossible"),
        ("\"5\": \"ADD\"", "\"five\": \"ADD\"", "expected"),
        ("\"probeset\"", "\"surprise\"", "unknown field"),
        ("000001\"", "00000G\"", "not a build-id"),
    ];
    for (from, to, why) in wrongs {
        let text = good.replacen(from, to, 1);
        assert_ne!(text, good, "{from}");
        let problem = Lock::parse("engine.lock", text.as_bytes()).unwrap_err();
        assert_eq!(problem.code, Code::LockUnreadable);
        assert!(problem.message.contains("engine.lock") && problem.message.contains(why), "{problem:?}");
    }
    let deep = "[".repeat(100_000);
    for text in ["", "{}", "[]", "\u{0}", &deep, &good[..good.len() / 2]] {
        assert!(Lock::parse("engine.lock", text.as_bytes()).is_err());
    }
    let twice = Lock { files: vec![whole().files[0].clone(), whole().files[0].clone()], ..whole() };
    assert!(Lock::parse("x", twice.to_text().as_bytes()).unwrap_err().message.contains("two files"));
}

proptest::proptest! {
    #[test]
    fn damaged_text_does_no_harm(at in 0usize..4000, byte in proptest::num::u8::ANY, length in 0usize..4000) {
        let mut text = whole().to_text().into_bytes();
        if let Some(place) = text.get_mut(at) {
            *place = byte;
        }
        text.truncate(length);
        if let Ok(lock) = Lock::parse("x", &text) {
            let inner = stripped();
            let target = LockedTarget::new(&inner, &lock);
            let _ = (target.functions(0, &NamePattern("*".into())), target.layout(0, "tensor"), target.problems());
        }
    }
}
