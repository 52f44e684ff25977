//! The generated C: golden for a small probeset, compiled for both architectures for every shipped one, and closed to
//! whatever a hostile spec may say. `BLESS=1` rewrites the golden file.

use profinfer_binary::Arch;
use profinfer_compiler::codegen::{CSource, generate, origin_of};
use profinfer_compiler::{Level, Selection, plan};
use profinfer_probeset::{Library, load_text};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const SMALL: &str = "\
profinfer: 1
engine: small
summary: One of each shape of span
modules: { lib: libsmall.so }
types:
  node: { kind: enum kind, name: 'char[8]', next: node*, size: 24 }
  batch: { count: i32 @ 0, size: 32 }
objects:
  node:
    of: node
    fields: { kind: kind, name: name, next: next }
probes:
  step:
    at: lib:run(void* ctx, batch b) -> i32
    role: step
    fields: { tokens: b.count, status: return }
  operator:
    at: lib:compute_*(node* n, i32 lane) until [operator, step] waiting from barrier
    role: operator
    when: lane == 0 && n->kind != NONE
    fields: { node: n, lane: lane, op: 'match[1]' }
  barrier: { at: 'lib:barrier(void* pool)', role: boundary }
  values:
    at: probe operator
    role: mark
    fields:
      first: n->next->name
      kind: n->kind
      ids: n as i32[.. lane] max 16
";

fn source_of(text: &str, arch: Arch) -> CSource {
    let (probeset, _) = load_text("small.yaml", text, &Library::SHIPPED).expect("the probeset is good");
    let (plan, _) =
        plan(&probeset, &Selection { level: Level::Operator, ..Selection::default() }, arch).expect("plans");
    generate(&plan, &probeset, None).expect("generates")
}

fn c_of(text: &str, arch: Arch) -> String {
    source_of(text, arch).standalone()
}

const CLANG: [&str; 12] =
    ["-O2", "-g", "-target", "bpf", "-mcpu=v3", "-Wall", "-Werror", "-Wno-unused", "-c", "-x", "c", "-"];

/// What this compiler has compiled before is not compiled again, in whichever clone: forty programs take minutes.
fn compile(source: &str) -> Result<(), String> {
    let absent = |error: std::io::Error| format!("clang is needed (apt-get install clang): {error}");
    let version = Command::new("clang").arg("--version").output().map_err(absent)?.stdout;
    let cache = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or(home).unwrap_or(cache);
    let cache = std::env::var_os("PROFINFER_CACHE").map_or(cache.join("profinfer"), PathBuf::from).join("compiled");
    let mut hasher = DefaultHasher::new();
    (&version, CLANG, source).hash(&mut hasher);
    let done = cache.join(format!("{:016x}", hasher.finish()));
    if done.exists() {
        return Ok(());
    }
    let mut clang = Command::new("clang")
        .args(CLANG)
        .args(["-o", "/dev/null"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(absent)?;
    clang.stdin.take().unwrap().write_all(source.as_bytes()).map_err(|error| error.to_string())?;
    let output = clang.wait_with_output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    std::fs::create_dir_all(&cache).and_then(|()| std::fs::write(done, "")).map_err(|error| error.to_string())
}

#[test]
fn the_c_of_a_small_probeset_is_as_it_was() {
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/small.c");
    let now = source_of(SMALL, Arch::X86_64).text;
    if std::env::var_os("BLESS").is_some() {
        std::fs::create_dir_all(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden")).unwrap();
        std::fs::write(golden, &now).unwrap();
    }
    let before = std::fs::read_to_string(golden).unwrap();
    assert!(now == before, "the generated C differs from tests/golden/small.c; BLESS=1 if that is meant");
}

/// Every program for recent kernels; for old ones those that they can have.
fn assert_all_compile(arch: Arch) {
    compile(&c_of(SMALL, arch)).unwrap();
    for name in Library::SHIPPED.names() {
        let (_, text) = Library::SHIPPED.get(name).unwrap();
        let source = c_of(text, arch);
        compile(&source).unwrap_or_else(|error| panic!("{name} for {arch}: {error}"));
        let old = format!("#define PF_OLD_KERNEL\n#define PF_NO_SESSIONS\n{source}");
        compile(&old).unwrap_or_else(|error| panic!("{name} for {arch} on old kernels: {error}"));
    }
}

#[test]
#[ignore = "needs clang"]
fn every_probeset_compiles_for_x86_64_and_all_kernels() {
    assert_all_compile(Arch::X86_64);
}

#[test]
#[ignore = "needs clang"]
fn every_probeset_compiles_for_arm64_and_all_kernels() {
    assert_all_compile(Arch::Aarch64);
}

/// Since Linux 6.13 the stack of a program at a uprobe is the processor's: one that another thread may preempt has its
/// variables written over.
#[test]
fn every_program_at_a_function_holds_the_processor() {
    for name in Library::SHIPPED.names() {
        let (_, text) = Library::SHIPPED.get(name).unwrap();
        let source = c_of(text, Arch::X86_64);
        let bare = source.lines().find(|line| line.starts_with("SEC(\"uprobe") || line.starts_with("SEC(\"uretprobe"));
        assert_eq!(bare, None, "{name}: only PF_AT_UPROBE makes such programs");
    }
    let text = c_of(SMALL, Arch::X86_64);
    assert!(text.lines().any(|line| line.starts_with("PF_ENTRY(barrier")), "{text}");
}

#[test]
fn the_program_includes_nothing() {
    let text = c_of(SMALL, Arch::X86_64);
    assert!(!text.contains("#include"), "clang needs no header of the system");
}

#[test]
fn each_path_names_its_line_in_the_yaml() {
    let text = c_of(SMALL, Arch::X86_64);
    let line = SMALL.lines().position(|l| l.contains("first: n->next->name")).unwrap() + 1;
    let read = text.lines().find(|read| read.contains("PF_FILL(0, first")).expect("the field is read");
    assert!(read.ends_with(&format!("/* small.yaml:{line}: n->next->name */")), "{read}");
    let (probeset, _) = load_text("small.yaml", SMALL, &Library::SHIPPED).unwrap();
    let (source, found) = origin_of(read, &probeset.sources).expect("the line names its origin");
    assert_eq!((source.name.as_str(), found), ("small.yaml", line));
}

#[test]
fn what_several_expressions_read_is_read_once() {
    let text = c_of(SMALL, Arch::X86_64);
    let reads = |member: &str| text.matches(&format!("argument_0) + offset_of_node__{member}")).count();
    assert_eq!(reads("kind"), 1, "by `when` and by a field");
    assert_eq!(reads("next"), 1);
    assert!(text.contains("#define operator__0__piece_0 PF_PIECE(0, "), "{text}");
}

#[test]
fn a_boundary_has_a_program_and_no_record() {
    let text = c_of(SMALL, Arch::X86_64);
    assert!(text.contains("PF_ENTRY(barrier__0)") && text.contains("barrier_last = call->now"), "{text}");
    assert!(!text.contains("barrier_record"), "{text}");
    // Nothing is left for it to split.
    let (probeset, _) = load_text("small.yaml", SMALL, &Library::SHIPPED).unwrap();
    let only = Selection { only: vec!["step".into(), "barrier".into()], ..Selection::default() };
    let (plan, _) = plan(&probeset, &only, Arch::X86_64).unwrap();
    assert_eq!(plan.programs.iter().map(|p| p.name.as_str()).collect::<Vec<_>>(), ["step__0"]);
}

#[test]
fn without_its_boundary_waiting_is_absent() {
    let (probeset, _) = load_text("small.yaml", SMALL, &Library::SHIPPED).unwrap();
    let without = Selection { without: vec!["barrier".into()], ..Selection::default() };
    let (plan, _) = plan(&probeset, &without, Arch::X86_64).unwrap();
    let text = generate(&plan, &probeset, None).unwrap().text;
    assert!(text.contains("PF_NO_WAITING(3);"), "{text}");
    assert!(!text.contains("barrier_last"), "{text}");
}

#[test]
#[ignore = "needs clang"]
fn a_hostile_name_or_comment_stays_in_its_place() {
    let hostile = SMALL
        .replace("engine: small", "engine: \"small */ #error breakout /* \\u0022 \\u005c\"")
        .replace("summary: One of each shape of span", "summary: '*/ int evil; /*'");
    compile(&c_of(&hostile, Arch::X86_64)).unwrap();
    let (probeset, _) =
        load_text("evil\"\n#error breakout\n*/ \\.yaml", &hostile, &Library::SHIPPED).expect("names of files are free");
    let (plan, _) = plan(&probeset, &Selection::default(), Arch::X86_64).unwrap();
    compile(&generate(&plan, &probeset, None).unwrap().standalone()).unwrap();
}
