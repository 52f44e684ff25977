//! Programs that the tests compile, and what must be read of them: with each compiler and each form of debug
//! information, whole and damaged.

use super::elf::Image;
use super::files::Files;
use super::{Layout, TargetBytes, TargetFiles, TargetSymbols, TargetType, TargetTypes, open_path};
use profinfer_diagnostics::Code;
use profinfer_files::cache::Store;
use profinfer_probeset::path::NamePattern;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Compiles a source to `name` in a new folder.
pub(super) fn compile(compiler: &str, name: &str, source: &str, options: &[&str]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = compile_in(folder.path(), compiler, name, source, options);
    (folder, path)
}

/// Compiles a source to `name` in a folder.
pub(super) fn compile_in(folder: &Path, compiler: &str, name: &str, source: &str, options: &[&str]) -> PathBuf {
    let language = if compiler.ends_with("++") { "cpp" } else { "c" };
    let file = folder.join(format!("{name}.{language}"));
    std::fs::write(&file, source).unwrap();
    let path = folder.join(name);
    let output = Command::new(compiler).args(options).arg("-o").arg(&path).arg(&file).output();
    let output = output.unwrap_or_else(|e| panic!("this test needs {compiler}: {e}"));
    assert!(output.status.success(), "{compiler}: {}", String::from_utf8_lossy(&output.stderr));
    path
}

/// A copy without symbols, beside a file of any architecture.
pub(super) fn stripped(path: &Path) -> PathBuf {
    let copy = path.with_file_name("stripped.so");
    assert!(Command::new("llvm-strip").arg("-o").arg(&copy).arg(path).status().unwrap().success());
    copy
}

/// Where a pattern's functions are in a file.
pub(super) fn offsets(path: &Path, pattern: &str) -> Vec<u64> {
    let mut files = Files::new(None);
    files.add(path, "libengine.so").unwrap();
    files.functions(0, &NamePattern(pattern.to_owned())).iter().map(|function| function.file_offset).collect()
}

pub(super) fn library(compiler: &str, source: &str, options: &[&str]) -> (TempDir, Files) {
    let all: Vec<&str> =
        ["-shared", "-fPIC", "-nostdlib", "-Wl,--build-id=sha1"].iter().chain(options).copied().collect();
    let (folder, path) = compile(compiler, "libengine.so", source, &all);
    let mut files = Files::new(Some(folder.path().join("cache")));
    files.add(&path, "libengine.so").unwrap();
    (folder, files)
}

pub(super) fn offset_of(layout: &Layout, member: &str) -> u64 {
    layout.members.get(member).unwrap_or_else(|| panic!("no member {member} in {layout:?}")).0
}

pub(super) fn type_of(layout: &Layout, member: &str) -> String {
    layout.members.get(member).unwrap_or_else(|| panic!("no member {member} in {layout:?}")).1.to_string()
}

fn names(files: &Files, pattern: &str) -> Vec<(String, String)> {
    let found = files.functions(0, &NamePattern(pattern.to_owned()));
    assert!(found.is_sorted_by_key(|function| function.file_offset));
    found.into_iter().map(|function| (function.symbol, function.name)).collect()
}

fn pair(symbol: &str, name: &str) -> (String, String) {
    (symbol.to_owned(), name.to_owned())
}

const FUNCTIONS: &str = r#"
    int run(int x) { return x + 1; }
    static __attribute__((noinline, used)) int work(int x) { return x * 3; }
    int clone(int x) __asm__("cloned.constprop.0");
    int clone(int x) { return x * 5; }
    int part(int x) __asm__("cloned.cold");
    int part(int x) { return x * 7; }
    int same(int x) __attribute__((alias("run")));
    extern int elsewhere(int x);
    int caller(int x) { return elsewhere(x); }
    static int one(int x) { return x; }
    static void *choose(void) { return one; }
    int chosen(int x) __attribute__((ifunc("choose")));
    int not_a_function = 4;
"#;

#[test]
fn functions_are_found_by_their_c_names() {
    let (_folder, files) = library("gcc", FUNCTIONS, &["-O1"]);
    assert_eq!(names(&files, "run"), [pair("run", "run")]);
    assert_eq!(names(&files, "work"), [pair("work", "work")], "static");
    assert_eq!(names(&files, "cloned"), [pair("cloned.constprop.0", "cloned")], "a clone, without its cold part");
    assert_eq!(names(&files, "{run,same}"), [pair("run", "run")], "two names of one address");
    assert_eq!(names(&files, "same"), [pair("same", "same")]);
    for nothing in ["elsewhere", "chosen", "not_a_function", "ru", "runs", "", "no*such", "(", "["] {
        assert_eq!(names(&files, nothing), [], "{nothing}");
    }
    assert!(names(&files, "*").len() >= 5);
}

#[test]
fn a_stripped_library_keeps_its_exported_functions() {
    let (_folder, files) = library("gcc", FUNCTIONS, &["-O1", "-s"]);
    assert_eq!(names(&files, "run").len(), 1);
    assert_eq!(names(&files, "work"), []);
}

#[test]
fn the_file_offset_leads_to_the_function_s_code() {
    let source = r#"__asm__(".globl run\n.type run,@function\nrun: .byte 0x0f,0x0b,0x12,0x34,0x56\n.size run, 5\n");"#;
    let (_folder, files) = library("gcc", source, &[]);
    let run = &files.functions(0, &NamePattern("run".into()))[0];
    assert_eq!(run.size, 5);
    assert_eq!(files.code(0, run.file_offset, 5), [0x0f, 0x0b, 0x12, 0x34, 0x56]);
    let size = files.files()[0].size;
    assert_eq!(files.code(0, size - 2, 100).len(), 2);
    assert!(files.code(0, size, 1).is_empty());
    assert!(files.code(0, u64::MAX, usize::MAX).is_empty());
    assert!(files.code(7, 0, 1).is_empty(), "no such file");
}

#[test]
fn cpp_functions_are_found_by_their_demangled_names() {
    let source = r"
        namespace eng {
        struct Layer { virtual int run(int) const; int twice() { return 2; } };
        struct Conv : Layer { int run(int) const override; };
        int Layer::run(int x) const { return x; }
        int Conv::run(int x) const { return x + 1; }
        template <class T> T add(T a, T b) { return a + b; }
        template int add<int>(int, int);
        }
    ";
    let (_folder, files) = library("g++", source, &["-fno-exceptions", "-fno-rtti"]);
    assert_eq!(names(&files, "eng::Conv::run"), [pair("_ZNK3eng4Conv3runEi", "eng::Conv::run")]);
    assert_eq!(names(&files, "_ZNK3eng4Conv3runEi"), [pair("_ZNK3eng4Conv3runEi", "eng::Conv::run")]);
    assert_eq!(names(&files, "eng::add<int>").len(), 1);
    let captures: Vec<_> =
        files.functions(0, &NamePattern("eng::*::run".into())).into_iter().map(|f| f.captures).collect();
    assert_eq!(captures, [["Layer"], ["Conv"]]);
}

#[test]
fn what_the_file_is_stands_in_the_list() {
    let (folder, files) = library("gcc", FUNCTIONS, &[]);
    let file = &files.files()[0];
    assert_eq!(file.build_id.as_ref().map(String::len), Some(40));
    assert_eq!(file.size, std::fs::metadata(&file.path).unwrap().len());
    let without =
        compile_in(folder.path(), "gcc", "plain.so", "int x;", &["-shared", "-nostdlib", "-Wl,--build-id=none"]);
    assert_eq!(Image::open(&without).unwrap().build_id(), None);
}

#[test]
fn layouts_are_cached_by_content_negative_answers_too() {
    let source = "struct tensor { int a; long b; } t; enum op { NONE, ADD } o;";
    let (folder, files) = library("gcc", source, &["-g"]);
    files.prepare(0, &["tensor", "batch"], &["op"]);
    let cached = std::fs::read_dir(folder.path().join("cache/layouts")).unwrap();
    let [cached] = cached.map(|entry| entry.unwrap().path()).collect::<Vec<_>>().try_into().unwrap();
    let text = std::fs::read_to_string(&cached).unwrap();
    assert!(text.contains("\"batch\":null") && text.contains("\"ADD\""), "{text}");

    // What stands in the cache is what is answered.
    let store = Store::at(&folder.path().join("cache"), "layouts", 1 << 20);
    let key = cached.file_stem().unwrap().to_str().unwrap();
    let content = String::from_utf8(store.get(key).unwrap()).unwrap();
    store.put(key, content.replace("\"size\":16", "\"size\":17").as_bytes()).unwrap();
    let again = || {
        let mut again = Files::new(Some(folder.path().join("cache")));
        again.add(&files.files()[0].path, "libengine.so").unwrap();
        again
    };
    let size = || again().layout(0, "tensor").unwrap().size;
    assert_eq!(size(), 17);
    // Unless it was changed by somebody else, or is of another file, whatever build-id that has.
    std::fs::write(&cached, text).unwrap();
    assert_eq!(size(), 16);
    store.put(key, content.replace("\"size\":16", "\"size\":17").as_bytes()).unwrap();
    let mut file = std::fs::OpenOptions::new().append(true).open(&files.files()[0].path).unwrap();
    std::io::Write::write_all(&mut file, b"\0").unwrap();
    assert_eq!(size(), 16);
    let again = again();
    assert_eq!(again.layout(0, "batch"), None);
    assert_eq!(again.enumeration(0, "op").unwrap()[&1], "ADD");
}

#[test]
fn a_program_comes_with_the_libraries_it_needs() {
    let folder = tempfile::tempdir().unwrap();
    let lib = folder.path().join("lib");
    std::fs::create_dir(&lib).unwrap();
    compile_in(&lib, "gcc", "libdeep.so", "int deep(void) { return 1; }", &["-shared", "-fPIC"]);
    let linked = format!("-L{}", lib.display());
    let shared = ["-shared", "-fPIC", &linked, "-Wl,--no-as-needed", "-ldeep", "-Wl,-rpath,$ORIGIN"];
    compile_in(&lib, "gcc", "libnear.so", "int near(void) { return 2; }", &shared);
    let options = [&linked, "-Wl,--no-as-needed", "-lnear", "-Wl,-rpath,$ORIGIN/lib", "-Wl,--allow-shlib-undefined"];
    let program = compile_in(folder.path(), "gcc", "program", "int main(void) { return 0; }", &options);

    let files = open_path(&program, Files::new(None)).unwrap();
    let names: Vec<&str> = files.files().iter().map(|file| file.name.as_str()).collect();
    assert_eq!(names[0], "program");
    for needed in ["libnear.so", "libdeep.so", "libc.so.6"] {
        assert_eq!(names.iter().filter(|name| **name == needed).count(), 1, "{needed} in {names:?}");
    }
}

#[test]
fn a_folder_gives_every_elf_file_in_it_once() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("a/b");
    std::fs::create_dir_all(&inner).unwrap();
    compile_in(&inner, "gcc", "libx.so", "int x(void) { return 1; }", &["-shared", "-fPIC"]);
    compile_in(folder.path(), "gcc", "y.o", "int y;", &["-c"]);
    std::os::unix::fs::symlink(inner.join("libx.so"), folder.path().join("libx.so.1")).unwrap();
    std::os::unix::fs::symlink(folder.path(), inner.join("round")).unwrap();
    let files = open_path(folder.path(), Files::new(None)).unwrap();
    assert_eq!(files.files().len(), 1);
}

#[test]
fn what_is_no_target_is_refused_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let fault = |path: &Path| open_path(path, Files::new(None)).unwrap_err();
    for (path, code) in [
        (folder.path().join("missing"), Code::TargetNotFound),
        (folder.path().to_owned(), Code::TargetNotFound),
        (write("empty", b""), Code::BadBinary),
        (write("text", &b"not a program at all, only text that is long enough".repeat(3)), Code::BadBinary),
        (write("cut", b"\x7fELF\x02\x01\x01"), Code::BadBinary),
        (compile_in(folder.path(), "gcc", "x.o", "int x;", &["-c"]), Code::BadBinary),
        (PathBuf::from("/dev/null"), Code::BadBinary),
    ] {
        let fault = fault(&path);
        assert_eq!(fault.code, code, "{}: {}", path.display(), fault.message);
        assert!(fault.hint.is_some(), "{}", fault.message);
    }
    assert!(fault(Path::new("sh")).hint.unwrap().ends_with("/sh`?"), "a command's name leads to its file");
    let script = write("script", format!("#!/bin/sh\n{}", "# long\n".repeat(20)).as_bytes());
    assert!(fault(&script).hint.unwrap().contains("script"));

    let library = compile_in(folder.path(), "gcc", "l.so", "int x;", &["-shared", "-nostdlib"]);
    let mut bytes = std::fs::read(library).unwrap();
    bytes[18] = 0xf3;
    let fault = fault(&write("riscv.so", &bytes));
    assert_eq!(fault.code, Code::WrongArchitecture);
    assert!(fault.message.contains("243"));
}

/// Everything that can be asked of a file.
fn ask_everything(path: &Path) {
    let mut files = Files::new(None);
    if files.add(path, "x").is_err() {
        return;
    }
    for pattern in ["run", "eng::*::run", "*", "std::string::*"] {
        let functions = files.functions(0, &NamePattern(pattern.to_owned()));
        for function in functions.iter().take(3) {
            files.code(0, function.file_offset, 16);
        }
    }
    let names = ["tensor", "eng::Conv", "eng::Conv::Inner", "batch", "nothing"];
    files.prepare(0, &names, &["op", "eng::Mode"]);
    files.image(0).unwrap().dynamic();
}

/// Forms of the library that is damaged.
const SAMPLES: [(&str, &[&str]); 4] = [
    ("g++", &["-gdwarf-5"]),
    ("g++", &["-gdwarf-4", "-fdebug-types-section"]),
    ("g++", &["-g", "-gz=zlib"]),
    ("clang++", &["-gdwarf-5"]),
];

/// Small libraries with debug information of many kinds, compiled once.
fn samples() -> &'static [Vec<u8>] {
    static SAMPLE: std::sync::OnceLock<Vec<Vec<u8>>> = std::sync::OnceLock::new();
    let source = r"
        enum op { NONE, ADD = -3 };
        struct tensor { op o; long ne[4]; tensor *src[10]; union { float f; int i; }; const char *name; };
        typedef struct { int n; } batch;
        namespace eng {
        enum class Mode : char { slow };
        struct Base { int id; };
        struct Conv : Base { struct Inner; Inner *inner; tensor *t; Mode m; int run(int) { return id; } };
        struct Conv::Inner { int a; Conv *back; };
        }
        tensor t; batch b; eng::Conv c; eng::Conv::Inner i; eng::Mode m;
        int run(int x) { return c.run(x); }
    ";
    SAMPLE.get_or_init(|| {
        let compiled = SAMPLES.iter().map(|(compiler, form)| {
            let options: Vec<&str> = ["-shared", "-fPIC", "-nostdlib"].iter().chain(*form).copied().collect();
            let (_folder, path) = compile(compiler, "x.so", source, &options);
            std::fs::read(path).unwrap()
        });
        compiled.collect()
    })
}

/// Every second damage is to the sections after the code: symbols, debug information, the section headers.
fn place_of_damage(bytes: &[u8], at: usize) -> usize {
    let symbols_and_debug = bytes.len() / 2;
    if at.is_multiple_of(2) { at % bytes.len() } else { symbols_and_debug + at % (bytes.len() - symbols_and_debug) }
}

proptest::proptest! {
    #[test]
    fn a_damaged_file_is_survived(
        sample in 0..SAMPLES.len(),
        damage in proptest::collection::vec((proptest::num::usize::ANY, proptest::num::u8::ANY), 1..30),
        length in proptest::option::weighted(0.2, 0usize..20_000),
    ) {
        let mut bytes = samples()[sample].clone();
        for (at, byte) in damage {
            let place = place_of_damage(&bytes, at);
            bytes[place] = byte;
        }
        bytes.truncate(length.unwrap_or(bytes.len()));
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        ask_everything(file.path());
    }
}

#[test]
fn a_type_s_text_is_what_a_view_would_write() {
    let pointer = TargetType::Pointer(Some(Box::new(TargetType::Struct("tensor".into(), 8))));
    assert_eq!(TargetType::Array(Box::new(pointer), Some(10)).to_string(), "tensor*[10]");
}

#[test]
fn a_version_is_not_found_in_a_longer_one() {
    let stands = |text: &str, all: &str| super::elf::stands_in(text.as_bytes(), all.as_bytes(), true);
    for all in
        ["1.2.1", "VERS_1.2.1", "toy 1.2.1 (release)", "1.2.1.", "v.1.2.1.so", "1.2.10 and 1.2.1", "\u{0}1.2.1\u{0}"]
    {
        assert!(stands("1.2.1", all), "{all}");
    }
    for all in ["1.2.10", "11.2.1", "3.1.2.1", "1.2.1.4", "1.2", "", "1.2.11.2.1"] {
        assert!(!stands("1.2.1", all), "{all}");
    }
    // What neither begins nor ends with a number may be a part of anything.
    assert!(stands("toy v", "a toy v12") && !stands("", "toy"));
}
