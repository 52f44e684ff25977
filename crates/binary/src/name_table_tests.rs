//! Tables as a C compiler makes them, with symbols and stripped, and tables that lead nowhere.

use super::super::{Files, TargetTypes};
use profinfer_probeset::NameTable;
use std::path::Path;
use std::process::Command;

const SOURCE: &str = r#"
static const char *const names[] = {"NONE", "DUP", "ADD", "", "MUL", 0, "LAST"};
struct traits { const char *name; long size; int other; };
static const struct traits traits[] = {{"f32", 4, 1}, {"f16", 2, 2}, {"q4_0", 18, 3}};
static const unsigned short at[] = {0, 8, 12, 16};
static const char row[] = "Invalid\0Abs\0Exp\0Sine";
extern const int own[4];
__asm__(".section .rodata\n.globl own\n.align 4\nown: .long 1f - own, 2f - own, 2f - own, 3f - own\n.long 0\n"
        "1: .asciz \"first_of_all\"\n2: .asciz \"second_one\"\n3: .asciz \"third_one\"\n.text\n");
const char *name(int i) { return names[i]; }
const char *trait(int i) { return traits[i].name; }
const char *text(int i) { return row + at[i]; }
const char *near(int i) { return (const char *)own + own[i]; }
"#;

fn library(folder: &Path, options: &[&str]) -> Files {
    let (source, library) = (folder.join("toy.c"), folder.join(format!("libtoy{}.so", options.join(""))));
    std::fs::write(&source, SOURCE).unwrap();
    let mut compile = Command::new("cc");
    compile.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&source).args(options);
    assert!(compile.status().unwrap().success());
    let mut files = Files::new(None);
    files.add(&library, "libtoy.so").unwrap();
    files
}

fn begins(names: &[&str]) -> NameTable {
    NameTable { begins: names.iter().map(|name| (*name).to_owned()).collect(), ..NameTable::default() }
}

fn found(files: &Files, table: &NameTable) -> Vec<(i64, String)> {
    files.name_table(0, table).unwrap().into_iter().collect()
}

fn numbered(names: &[(i64, &str)]) -> Vec<(i64, String)> {
    names.iter().map(|(number, name)| (*number, (*name).to_owned())).collect()
}

#[test]
fn tables_are_found_with_symbols_and_without() {
    let folder = tempfile::tempdir().unwrap();
    let with = library(folder.path(), &[]);
    let all = numbered(&[(0, "NONE"), (1, "DUP"), (2, "ADD"), (4, "MUL"), (6, "LAST")]);
    assert_eq!(found(&with, &NameTable { symbol: Some("names".into()), ..NameTable::default() }), all);
    for options in [vec!["-s"], vec!["-s", "-Wl,-z,pack-relative-relocs"]] {
        let stripped = library(folder.path(), &options);
        let symbol = NameTable { symbol: Some("names".into()), ..NameTable::default() };
        assert_eq!(stripped.name_table(0, &symbol).unwrap_err(), "there is no symbol `names`");
        // A null pointer ends it, unless it is a gap.
        assert_eq!(found(&stripped, &begins(&["NONE", "DUP", "ADD"])), all[..4]);
        let gaps = NameTable { gaps: true, ..begins(&["NONE", "DUP"]) };
        assert_eq!(found(&stripped, &gaps), all);
        let traits = numbered(&[(0, "f32"), (1, "f16"), (2, "q4_0")]);
        assert_eq!(found(&stripped, &begins(&["f32", "f16"])), traits);
        assert_eq!(found(&stripped, &NameTable { stride: Some(24), ..begins(&["f32", "f16"]) }), traits);
        assert!(stripped.name_table(0, &NameTable { stride: Some(16), ..begins(&["f32", "f16"]) }).is_err());
        let row = numbered(&[(0, "Invalid"), (1, "Abs"), (2, "Exp"), (3, "Sine")]);
        assert_eq!(found(&stripped, &begins(&["Invalid", "Abs", "Exp"])), row);
        let own = numbered(&[(0, "first_of_all"), (1, "second_one"), (2, "second_one"), (3, "third_one")]);
        assert_eq!(found(&stripped, &begins(&["first_of_all", "second_one"])), own);
        for (absent, why) in
            [(["NONE", "SUB"], "the text `SUB` is not in the file"), (["DUP", "NONE"], "no table begins so")]
        {
            assert_eq!(stripped.name_table(0, &begins(&absent)).unwrap_err(), why);
        }
    }
}

#[test]
fn a_table_for_arm64_is_found_by_its_relocations() {
    let folder = tempfile::tempdir().unwrap();
    let (source, library) = (folder.path().join("toy.c"), folder.path().join("libtoy.so"));
    std::fs::write(&source, "const char *const names[] = {\"NONE\", \"DUP\", \"ADD\"};").unwrap();
    // Debian's cross compiler, or clang with its linker.
    let made = |words: &[&str]| {
        let mut compile = Command::new(words[0]);
        compile.args(&words[1..]).args(["-nostdlib", "-shared", "-fPIC", "-s", "-o"]).arg(&library).arg(&source);
        compile.output().is_ok_and(|output| output.status.success())
    };
    if !made(&["aarch64-linux-gnu-gcc"]) {
        assert!(made(&["clang", "--target=aarch64-linux-gnu", "-fuse-ld=lld"]), "no compiler for arm64");
    }
    let mut files = Files::new(None);
    files.add(&library, "libtoy.so").unwrap();
    assert_eq!(found(&files, &begins(&["NONE", "DUP"])).len(), 3);
}

#[test]
fn a_table_that_leads_out_of_the_file_or_in_a_circle_ends() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("toy.c");
    // Pointers to pointers, to the end of the file, to itself.
    std::fs::write(
        &source,
        "void *names[] = {\"NONE\", \"DUP\", names, (char *)names + 0x7fffffff, (void *)-8L};\n\
         void *same[] = {\"AA\", \"BB\", \"AA\", \"BB\", \"AA\"};",
    )
    .unwrap();
    let library = folder.path().join("libtoy.so");
    assert!(Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status().unwrap().success());
    let mut files = Files::new(None);
    files.add(&library, "libtoy.so").unwrap();
    assert_eq!(found(&files, &begins(&["NONE", "DUP"])), numbered(&[(0, "NONE"), (1, "DUP")]));
    assert_eq!(found(&files, &begins(&["AA", "BB"])), numbered(&[(0, "AA"), (1, "BB")]));
}
