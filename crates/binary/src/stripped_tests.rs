//! Stripped programs whose debug information lies elsewhere: the result equals that of the unstripped program, in each
//! form and place; what is of another build is refused and named.

use super::debug_file::DebugFolders;
use super::files::Files;
use super::tests::compile_in;
use super::{Function, Layout, TargetFiles, TargetSymbols, TargetTypes};
use profinfer_diagnostics::{Code, Diagnostic};
use profinfer_probeset::path::NamePattern;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

const SOURCE: &str = r#"
    enum op { OP_NONE, OP_ADD = 5, OP_MUL };
    struct tensor { enum op op; long ne[4]; struct tensor *src[10]; char name[64]; };
    static __attribute__((noinline, used)) int hidden(struct tensor *t) { return t->op + OP_MUL; }
    int run(struct tensor *t) { return hidden(t) + 1; }
    struct tensor first = { OP_ADD, {1, 2}, {0}, "first" };
"#;
const CPP: &str = r#"
    namespace engine {
        struct Base { int kind; };
        template <class T> struct Tensor : Base { T *data; long ne[4]; };
        enum class Op : int { None, Add = 5 };
        struct Node { Tensor<float> tensor; Op op; };
    }
    engine::Node first;
    int run(engine::Node *node) { return static_cast<int>(node->op) + node->tensor.kind; }
"#;

/// A library in a folder, with the cache beside it.
struct Workspace(TempDir);

impl Workspace {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn compile(&self, compiler: &str, source: &str, options: &[&str]) -> PathBuf {
        let all: Vec<&str> =
            ["-shared", "-fPIC", "-nostdlib", "-Wl,--build-id=sha1"].iter().chain(options).copied().collect();
        compile_in(self.0.path(), compiler, "libengine.so", source, &all)
    }

    fn run(&self, program: &str, arguments: &[&str]) {
        run_in(self.0.path(), program, arguments);
    }

    /// Moves the debug information of the library to `debug`; the library is stripped of all it can do without.
    fn strip_to(&self, debug: &Path) {
        std::fs::create_dir_all(debug.parent().unwrap()).unwrap();
        let debug = debug.to_str().unwrap();
        self.run("objcopy", &["--only-keep-debug", "libengine.so", debug]);
        self.run("strip", &["--strip-all", "libengine.so"]);
    }

    fn link_to(&self, debug: &Path) {
        self.run("objcopy", &[&format!("--add-gnu-debuglink={}", debug.display()), "libengine.so"]);
    }

    fn open(&self, folders: &[&Path]) -> Files {
        open(&self.path("libengine.so"), folders)
    }
}

fn run_in(folder: &Path, program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).current_dir(folder).output();
    let output = output.unwrap_or_else(|e| panic!("this test needs {program}: {e}"));
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
}

fn open(path: &Path, folders: &[&Path]) -> Files {
    let folders = DebugFolders::new(folders.iter().map(|folder| folder.to_path_buf()));
    let mut files = Files::new(Some(path.with_file_name("cache"))).with_debug_folders(folders);
    files.add(path, "libengine.so").unwrap();
    files
}

/// All that is asked of a file.
#[derive(Debug, PartialEq)]
struct Resolved {
    functions: Vec<Function>,
    layouts: Vec<Option<Layout>>,
    enums: Vec<Option<std::collections::BTreeMap<i64, String>>>,
}

const NOTHING: &[Option<Layout>] = &[None, None, None, None];

fn resolve(files: &Files) -> Resolved {
    let layouts = ["tensor", "engine::Node", "engine::Tensor<float>", "engine::Base"];
    Resolved {
        functions: ["run", "hidden"].iter().flat_map(|name| files.functions(0, &NamePattern((*name).into()))).collect(),
        layouts: layouts.iter().map(|name| files.layout(0, name)).collect(),
        enums: ["op", "engine::Op"].iter().map(|name| files.enumeration(0, name)).collect(),
    }
}

fn problems_of(files: &Files) -> Vec<Diagnostic> {
    files.problems()
}

#[test]
fn debug_files_are_found_where_systems_put_them() {
    let build_id = |place: &Workspace| place.open(&[]).files()[0].build_id.clone().unwrap();
    for way in ["build-id", "link beside", "link in .debug", "link in a folder", "mirrored", "by name", "unstripped"] {
        let place = Workspace::new();
        place.compile("gcc", SOURCE, &["-g", "-O1"]);
        let whole = resolve(&place.open(&[]));
        assert_eq!((whole.functions.len(), whole.layouts[0].is_some(), whole.enums[0].is_some()), (2, true, true));
        let id = build_id(&place);
        let below = |folder: &Path| folder.join(place.0.path().strip_prefix("/").unwrap());
        let folder = place.path("symbols");
        let debug = match way {
            "build-id" => folder.join(format!(".build-id/{}/{}.debug", &id[..2], &id[2..])),
            "link beside" => place.path("engine.dbg"),
            "link in .debug" => place.path(".debug/engine.dbg"),
            "link in a folder" => folder.join("engine.dbg"),
            "mirrored" => below(&folder).join("engine.dbg"),
            "by name" => folder.join("libengine.so.debug"),
            _ => folder.join("libengine.so"),
        };
        if way == "unstripped" {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::copy(place.path("libengine.so"), &debug).unwrap();
            place.run("strip", &["--strip-all", "libengine.so"]);
        } else {
            place.strip_to(&debug);
        }
        if way.starts_with("link") || way == "mirrored" {
            place.link_to(&debug);
        }
        let folders: &[&Path] = if way == "link beside" || way == "link in .debug" { &[] } else { &[&folder] };
        let files = place.open(folders);
        assert_eq!(resolve(&files), whole, "{way}");
        assert_eq!(problems_of(&files), [], "{way}");
        std::fs::remove_dir_all(place.path("cache")).unwrap();
        std::fs::remove_file(&debug).unwrap();
        let files = place.open(folders);
        assert_eq!(resolve(&files).layouts, NOTHING, "{way}: and nothing without it");
        assert_eq!(resolve(&files).functions.len(), 1, "{way}: but what is exported");
    }
}

#[test]
fn debug_information_of_another_build_is_refused_with_both_build_ids() {
    let place = Workspace::new();
    place.compile("gcc", SOURCE, &["-g", "-DOTHER"]);
    let debug = place.path("engine.dbg");
    place.strip_to(&debug);
    let other = place.open(&[]).files()[0].build_id.clone().unwrap();
    let other_debug = std::fs::read(&debug).unwrap();
    place.compile("gcc", &SOURCE.replace("first\"", "other\""), &["-g", "-O2"]);
    let id = place.open(&[]).files()[0].build_id.clone().unwrap();
    assert_ne!(id, other);
    place.strip_to(&debug);
    place.link_to(&debug);
    // The right one is in the second place, the other build's in the first.
    let right = place.path(".debug/engine.dbg");
    std::fs::create_dir(right.parent().unwrap()).unwrap();
    std::fs::rename(&debug, &right).unwrap();
    std::fs::write(&debug, other_debug).unwrap();
    let files = place.open(&[]);
    assert!(resolve(&files).layouts[0].is_some(), "the search goes on");
    let [problem] = &problems_of(&files)[..] else { panic!("{:?}", problems_of(&files)) };
    assert_eq!(problem.code, Code::DebugInformationDiffers);
    assert!(problem.message.contains("engine.dbg") && problem.message.contains("libengine.so"), "{problem:?}");
    assert!(problem.notes[0].contains(&id) && problem.notes[0].contains(&other), "{problem:?}");
    std::fs::remove_file(&right).unwrap();
    std::fs::remove_dir_all(place.path("cache")).unwrap();
    assert_eq!(resolve(&place.open(&[])).layouts, NOTHING, "and it is never used instead");
}

#[test]
fn a_linked_file_with_other_bytes_is_refused() {
    let place = Workspace::new();
    place.compile("gcc", SOURCE, &["-g"]);
    let debug = place.path("engine.dbg");
    place.strip_to(&debug);
    place.link_to(&debug);
    let mut bytes = std::fs::read(&debug).unwrap();
    bytes.push(0);
    std::fs::write(&debug, &bytes).unwrap();
    let files = place.open(&[]);
    assert_eq!(resolve(&files).layouts, NOTHING);
    let [problem] = &problems_of(&files)[..] else { panic!("{:?}", problems_of(&files)) };
    assert!(problem.notes[0].contains("checksum"), "{problem:?}");
    bytes.pop();
    std::fs::write(&debug, &bytes).unwrap();
    assert!(resolve(&place.open(&[])).layouts[0].is_some());
}

#[test]
fn links_that_lead_in_circles_lead_nowhere() {
    let place = Workspace::new();
    place.compile("gcc", SOURCE, &["-g"]);
    place.strip_to(&place.path("thrown.away"));
    // It names itself, and by way of a link too.
    std::fs::copy(place.path("libengine.so"), place.path("copy")).unwrap();
    std::fs::rename(place.path("libengine.so"), place.path("x")).unwrap();
    std::fs::rename(place.path("x"), place.path("libengine.so")).unwrap();
    place.run("objcopy", &["--add-gnu-debuglink=libengine.so", "copy", "out"]);
    std::fs::rename(place.path("out"), place.path("libengine.so")).unwrap();
    std::fs::create_dir(place.path(".debug")).unwrap();
    std::os::unix::fs::symlink("../libengine.so", place.path(".debug/libengine.so")).unwrap();
    let files = place.open(&[]);
    assert_eq!((resolve(&files).functions.len(), problems_of(&files)), (1, vec![]));
    // A link to itself, and a folder and a pipe in a debug file's place.
    std::fs::remove_file(place.path(".debug/libengine.so")).unwrap();
    std::os::unix::fs::symlink("libengine.so", place.path(".debug/libengine.so")).unwrap();
    assert_eq!(resolve(&place.open(&[])).functions.len(), 1);
    let folder = place.path("asked");
    std::fs::create_dir_all(folder.join("libengine.so.debug")).unwrap();
    place.run("mkfifo", &["asked/libengine.so"]);
    assert_eq!(resolve(&place.open(&[&folder])).functions.len(), 1);
}

#[test]
fn compressed_symbols_are_read() {
    let place = Workspace::new();
    place.compile("gcc", SOURCE, &["-O1"]);
    let whole = resolve(&place.open(&[]));
    place.strip_to(&place.path("mini"));
    place.run("objcopy", &["--strip-debug", "mini", "symbols"]);
    place.run("xz", &["symbols"]);
    assert_eq!(resolve(&place.open(&[])).functions.len(), 1);
    place.run("objcopy", &["--add-section", ".gnu_debugdata=symbols.xz", "libengine.so"]);
    assert_eq!(resolve(&place.open(&[])).functions, whole.functions);
    // Cut short, and no such thing at all.
    let good = std::fs::read(place.path("symbols.xz")).unwrap();
    for bad in [&good[..good.len() / 2], &[0; 300], b"\xfd7zXZ\0"] {
        std::fs::write(place.path("bad"), bad).unwrap();
        place.run("objcopy", &["--update-section", ".gnu_debugdata=bad", "libengine.so"]);
        assert_eq!(resolve(&place.open(&[])).functions.len(), 1);
    }
}

/// Compiles with its debug information left beside the object.
fn split(place: &Workspace, compiler: &str, source: &str, options: &[&str]) -> Resolved {
    let plain: Vec<&str> = options.iter().copied().filter(|option| *option != "-gsplit-dwarf").collect();
    place.compile(compiler, source, &plain);
    let whole = resolve(&place.open(&[]));
    std::fs::remove_dir_all(place.path("cache")).unwrap();
    let name = if compiler.ends_with("++") { "engine.cpp" } else { "engine.c" };
    std::fs::write(place.path(name), source).unwrap();
    // Two units, each with its part.
    std::fs::write(place.path("other.c"), "struct other { int a; } other; int use_other(void) { return other.a; }")
        .unwrap();
    let all = |file: &'static str| [options, &["-fPIC", "-c", file]].concat();
    place.run(compiler, &all(if compiler.ends_with("++") { "engine.cpp" } else { "engine.c" }));
    place.run(if compiler.starts_with("clang") { "clang" } else { "gcc" }, &all("other.c"));
    let link = ["-shared", "-nostdlib", "-Wl,--build-id=sha1", "-o", "libengine.so", "other.o", "engine.o"];
    place.run(compiler, &link);
    whole
}

const SPLIT_FORMS: [(&str, &str, &[&str]); 6] = [
    ("gcc", SOURCE, &["-gdwarf-5", "-gsplit-dwarf"]),
    ("gcc", SOURCE, &["-gdwarf-4", "-gsplit-dwarf"]),
    ("gcc", SOURCE, &["-gdwarf-4", "-gsplit-dwarf", "-fdebug-types-section"]),
    ("g++", CPP, &["-gdwarf-5", "-gsplit-dwarf", "-fdebug-types-section"]),
    ("clang++", CPP, &["-gdwarf-4", "-gsplit-dwarf"]),
    ("clang", SOURCE, &["-gdwarf-5", "-gsplit-dwarf"]),
];

fn same_layouts(files: &Files, whole: &Resolved, what: &str) {
    let resolved = resolve(files);
    assert_eq!((&resolved.layouts, &resolved.enums), (&whole.layouts, &whole.enums), "{what}");
    assert_eq!(files.layout(0, "other").map(|layout| layout.size), Some(4), "{what}");
    assert_eq!(problems_of(files), [], "{what}");
}

#[test]
fn split_debug_information_is_read_beside_the_object() {
    for (compiler, source, options) in SPLIT_FORMS {
        let what = format!("{compiler} {options:?}");
        let place = Workspace::new();
        let whole = split(&place, compiler, source, options);
        same_layouts(&place.open(&[]), &whole, &what);
        // Moved to where it is asked for, and the program stripped too.
        let folder = place.path("moved");
        std::fs::create_dir(&folder).unwrap();
        for part in ["engine.dwo", "other.dwo"] {
            std::fs::rename(place.path(part), folder.join(part)).unwrap();
        }
        assert!(!place.path("cache").exists(), "what other files say is not cached");
        assert_eq!(resolve(&place.open(&[])).layouts, NOTHING, "{what}");
        same_layouts(&place.open(&[&folder]), &whole, "what is missing once may be there the next time");
        place.strip_to(&folder.join("libengine.so.debug"));
        same_layouts(&place.open(&[&folder]), &whole, &what);
    }
}

#[test]
fn packed_debug_information_is_read() {
    for (compiler, source, options) in SPLIT_FORMS {
        // GNU's packer supports DWARF 4 only; LLVM's supports 5 too, but hangs where GNU's compiler wrote it.
        let packer = match (options.contains(&"-gdwarf-4"), compiler.starts_with("clang")) {
            (true, _) => "dwp",
            (false, true) => "llvm-dwp",
            (false, false) => continue,
        };
        let what = format!("{compiler} {options:?} {packer}");
        let place = Workspace::new();
        let whole = split(&place, compiler, source, options);
        place.run(packer, &["-o", "libengine.so.dwp", "other.dwo", "engine.dwo"]);
        for part in ["engine.dwo", "other.dwo"] {
            std::fs::remove_file(place.path(part)).unwrap();
        }
        same_layouts(&place.open(&[]), &whole, &what);
    }
}

#[test]
fn a_part_of_another_build_is_refused() {
    for options in [&["-gdwarf-5", "-gsplit-dwarf"], &["-gdwarf-4", "-gsplit-dwarf"]] {
        let place = Workspace::new();
        split(&place, "gcc", SOURCE, options);
        let library = std::fs::read(place.path("libengine.so")).unwrap();
        split(&place, "gcc", &SOURCE.replace("ne[4]", "ne[8]"), options);
        std::fs::write(place.path("libengine.so"), library).unwrap();
        let files = place.open(&[]);
        assert_eq!(resolve(&files).layouts, NOTHING);
        let [problem] = &problems_of(&files)[..] else { panic!("{:?}", problems_of(&files)) };
        assert_eq!(problem.code, Code::DebugInformationDiffers);
        assert!(problem.message.contains("engine.dwo"), "{problem:?}");
    }
}

#[test]
fn sections_compressed_with_zstd_are_read() {
    let place = Workspace::new();
    let path = place.compile("gcc", SOURCE, &["-g"]);
    let whole = resolve(&place.open(&[]));
    std::fs::remove_dir_all(place.path("cache")).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    compress(&mut bytes, ".debug_info");
    std::fs::write(&path, &bytes).unwrap();
    assert_eq!(resolve(&place.open(&[])), whole);
    std::fs::remove_dir_all(place.path("cache")).unwrap();
    // A size that cannot be true is not believed.
    let at = section_header(&bytes, ".debug_info");
    let start = word(&bytes, at + 24);
    bytes[start + 8..start + 16].copy_from_slice(&(1_u64 << 40).to_le_bytes());
    std::fs::write(&path, &bytes).unwrap();
    assert_eq!(resolve(&place.open(&[])).layouts, NOTHING);
}

fn word(bytes: &[u8], at: usize) -> usize {
    usize::try_from(u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())).unwrap()
}

/// Where the header of a section is.
fn section_header(bytes: &[u8], name: &str) -> usize {
    use object::{Object, ObjectSection};
    let file = object::File::parse(bytes).unwrap();
    word(bytes, 40) + 64 * file.section_by_name(name).unwrap().index().0
}

/// Compresses a section in its place, as linkers that know zstd do: no tool here does.
fn compress(bytes: &mut [u8], name: &str) {
    let at = section_header(bytes, name);
    let (start, size) = (word(bytes, at + 24), word(bytes, at + 32));
    let mut packed = Vec::new();
    packed.extend(2_u32.to_le_bytes());
    packed.extend([0; 4]);
    packed.extend((size as u64).to_le_bytes());
    packed.extend(1_u64.to_le_bytes());
    packed.extend(zstd::encode_all(&bytes[start..start + size], 19).unwrap());
    assert!(packed.len() < size, "it must fit");
    bytes[start..start + packed.len()].copy_from_slice(&packed);
    bytes[at + 32..at + 40].copy_from_slice(&(packed.len() as u64).to_le_bytes());
    bytes[at + 8] |= 0x08;
    bytes[at + 9] |= 0x08; // SHF_COMPRESSED is 1 << 11
    bytes[at + 8] &= !0x08;
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]
    /// Damaged packages, parts and debug files are read without harm.
    #[test]
    fn damaged_parts_do_no_harm(seed in proptest::num::u64::ANY, form in 0usize..3) {
        damaged(seed, form);
    }
}

fn damaged(seed: u64, form: usize) {
    use std::sync::OnceLock;
    static PLACES: [OnceLock<(Workspace, Vec<u8>, &str)>; 3] = [OnceLock::new(), OnceLock::new(), OnceLock::new()];
    let (place, good, name) = PLACES[form].get_or_init(|| {
        let place = Workspace::new();
        let (options, packer) = if form == 2 { ("-gdwarf-5", "llvm-dwp") } else { ("-gdwarf-4", "dwp") };
        split(&place, if form == 2 { "clang" } else { "gcc" }, SOURCE, &[options, "-gsplit-dwarf"]);
        let name = if form == 0 { "engine.dwo" } else { "libengine.so.dwp" };
        if form > 0 {
            place.run(packer, &["-o", name, "other.dwo", "engine.dwo"]);
        }
        let good = std::fs::read(place.path(name)).unwrap();
        (place, good, name)
    });
    let mut bytes = good.clone();
    let mut random = seed | 1;
    for _ in 0..1 + seed % 8 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let at = usize::try_from(random >> 20).unwrap() % bytes.len();
        bytes[at] = (random >> 8).to_le_bytes()[0];
    }
    if seed.is_multiple_of(5) {
        bytes.truncate(usize::try_from(random >> 30).unwrap() % good.len());
    }
    std::fs::write(place.path(name), bytes).unwrap();
    let mut files = Files::new(None);
    files.add(&place.path("libengine.so"), "libengine.so").unwrap();
    let _ = resolve(&files);
}
