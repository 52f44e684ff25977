//! Files that claim more than they have: reading is bounded by the file's size, and reported.

use super::elf::{Image, Unusable};
use super::files::Files;
use super::forged::{CODE, Forged};
use super::overrides;
use super::pointers::Pointers;
use super::rtti::{BaseClass, Classes};
use super::symbols::{Symbols, short_text};
use super::tests::library;
use super::{TargetFiles, TargetSymbols, TargetTypes, usdt};
use object::elf::{EM_X86_64, R_X86_64_64, R_X86_64_RELATIVE};
use profinfer_diagnostics::Code;
use profinfer_probeset::path::NamePattern;
use std::path::Path;

const ROOT: &str = "_ZTVN10__cxxabiv117__class_type_infoE";
const SINGLE: &str = "_ZTVN10__cxxabiv120__si_class_type_infoE";
const MANY: &str = "_ZTVN10__cxxabiv121__vmi_class_type_infoE";
/// What a long name takes.
const LONG: u64 = 16_000;

fn files(bytes: &[u8]) -> Files {
    let mut files = Files::new(None);
    files.add_image(Image::from_bytes(bytes).unwrap(), Path::new("/libforged.so"), "libforged.so");
    files
}

fn codes_of(files: &Files) -> Vec<Code> {
    files.problems().iter().map(|problem| problem.code).collect()
}

/// A class without bases, and its name at another place.
fn class(forged: &mut Forged, at: u64, root: u64, name: u64) {
    forged.relocation(at, R_X86_64_64.0, root, 16);
    forged.relocation(at + 8, R_X86_64_RELATIVE.0, 0, name);
}

#[test]
fn segments_are_as_many_and_as_long_as_a_file_can_have() {
    let forged = |segments: &[(u64, u64, u64)]| {
        let mut forged = Forged::library(EM_X86_64);
        forged.text(0x1000, "text");
        for (address, offset, length) in segments {
            forged.segment(4, *address, *offset, *length);
        }
        forged.image()
    };
    // One that is longer than any file is as long as the file is.
    let wide = forged(&[(1 << 40, 0, 1 << 60)]).unwrap();
    let mapped: u64 = wide.data_ranges().map(|range| range.end - range.start).sum();
    assert!(mapped <= 2 * wide.bytes().len() as u64, "{mapped}");
    assert_eq!(wide.at_address((1 << 40) + 0x1000, 5), b"text\0");
    assert_eq!(wide.at_address((1 << 40) + (1 << 30), 5), b"");
    assert!(!wide.has_bytes(b"no such text", false));
    for strange in [(u64::MAX - 8, 0, u64::MAX), (0, u64::MAX, u64::MAX), (1 << 63, 1 << 63, 1 << 63)] {
        assert!(forged(&[strange]).is_ok(), "{strange:?}");
    }
    let again: Vec<(u64, u64, u64)> = (1..8u64).map(|n| (n << 32, 0, 1 << 60)).collect();
    let refused = |segments: &[(u64, u64, u64)]| match forged(segments) {
        Err(Unusable::NotElf(why)) => why,
        other => panic!("{:?}", other.map(|_| ())),
    };
    assert_eq!(refused(&again), "has segments that map the same bytes too often");
    let many: Vec<(u64, u64, u64)> = (1..2000u64).map(|n| (n << 32, 0, 16)).collect();
    assert_eq!(refused(&many), "has more segments than any linker writes");
}

#[test]
fn names_of_classes_that_overlap_are_not_copied_without_end() {
    let mut forged = Forged::library(EM_X86_64);
    let root = forged.symbol(ROOT, 0, 0, 0);
    forged.text(0x1000, &"x".repeat(LONG as usize));
    for number in 0..15_000 {
        class(&mut forged, 0x8000 + 16 * number, root, 0x1000 + number % LONG);
    }
    let bytes = forged.bytes();
    let classes = Classes::read(&Image::from_bytes(&bytes).unwrap());
    let names: usize = classes.all.iter().map(|class| class.mangled.len()).sum();
    assert!(classes.is_cut && names <= bytes.len() + (4 << 10), "{names} of {}", bytes.len());
    let files = files(&bytes);
    assert!(files.overrides(0, "Base", 2).is_cut, "so that a slot is refused rather than probed in part");
    let _ = (files.class_bases(0), files.class_like(0, "Base"));
    assert_eq!(codes_of(&files), [Code::TargetExceedsItself], "once");
}

#[test]
fn bases_that_overlap_are_as_many_as_there_are_pointers() {
    let mut forged = Forged::library(EM_X86_64);
    let (many, base) = (forged.symbol(MANY, 0, 0, 0), forged.symbol(&format!("_ZTI{}", "y".repeat(9000)), 0, 0, 0));
    forged.text(0x1000, "4Base");
    let count = 4000;
    for number in 0..count {
        let at = 0x2000 + 16 * number;
        class(&mut forged, at, many, 0x1000);
    }
    // Every second word is a base of those classes that lie before it.
    for number in 0..count {
        forged.word(0x2000 + 16 * (count + number), 256 << 32);
        forged.relocation(0x2000 + 16 * (count + number) + 8, R_X86_64_64.0, base, 0);
    }
    // The first word after the name is their number: here a class's first word, which is not a number.
    for number in 0..count {
        let at = 0x2000 + 16 * count + 16 * number;
        forged.relocation(at, R_X86_64_64.0, many, 16);
        forged.relocation(at + 8, R_X86_64_RELATIVE.0, 0, 0x1000);
        forged.word(at + 16, 256 << 32);
    }
    let image = forged.image().unwrap();
    let classes = Classes::read(&image);
    let bases: usize = classes.all.iter().map(|class| class.bases.len()).sum();
    assert!(bases <= classes.pointers.len(), "{bases}");
    let _ = overrides::find(&image, &classes, &|name| name == "4Base", 2, &|_| None);
}

#[test]
fn classes_that_derive_from_themselves_and_each_other_are_answered() {
    let mut forged = Forged::library(EM_X86_64);
    let single = forged.symbol(SINGLE, 0, 0, 0);
    let names = ["4Self", "3One", "3Two"];
    for (number, (name, base)) in names.iter().zip([0u64, 2, 1]).enumerate() {
        let at = 0x2000 + 0x100 * number as u64;
        forged.text(0x1000 + 0x10 * number as u64, name);
        class(&mut forged, at, single, 0x1000 + 0x10 * number as u64);
        forged.relocation(at + 16, R_X86_64_RELATIVE.0, 0, 0x2000 + 0x100 * base);
        // A table: where in the object, typeinfo, one function.
        forged.word(at + 0x20, 0);
        forged.relocation(at + 0x28, R_X86_64_RELATIVE.0, 0, at);
        forged.relocation(at + 0x30, R_X86_64_RELATIVE.0, 0, CODE + 0x10 * number as u64);
    }
    let files = files(&forged.bytes());
    for (base, classes, functions) in [("Self", 1, 1), ("One", 2, 2), ("Two", 2, 2)] {
        let found = files.overrides(0, base, 0);
        assert_eq!((found.classes, found.functions.len(), found.is_cut), (classes, functions, false), "{base}");
    }
    assert_eq!(files.class_bases(0).len(), 3);
    assert_eq!(codes_of(&files), []);
}

#[test]
fn packed_relocations_are_as_many_as_there_are_words() {
    for bits in [u64::MAX, 3] {
        let mut forged = Forged::library(EM_X86_64);
        // The same words again and again, and words far outside.
        forged.relr((0..40_000).flat_map(|n| [0x1000, bits, bits, u64::from(n % 2 == 0) << 40]));
        let image = forged.image().unwrap();
        let pointers = Pointers::read(&image);
        assert_eq!(pointers.is_cut(), bits == u64::MAX);
        assert!(pointers.len() <= image.bytes().len() / 4 + 64, "{}", pointers.len());
    }
}

/// A library with many functions, whose symbols all have long names that overlap.
fn overlapping_symbols(count: usize) -> Vec<u8> {
    let long = format!("_Z{}", "St1aIS_".repeat(2000));
    let source = format!(
        "__asm__(\".altmacro\\n.macro fun n\\n.globl fun\\\\n\\n.type fun\\\\n,@function\\nfun\\\\n: ret\\n.endm\\n\
         .set i,0\\n.rept {count}\\nfun %i\\n.set i,i+1\\n.endr\\n.globl {long}\\n.type {long},@function\\n{long}: ret\\n\");"
    );
    let (folder, _) = library("gcc", &source, &[]);
    std::fs::read(folder.path().join("libengine.so")).unwrap()
}

#[test]
fn names_of_symbols_that_overlap_are_not_read_without_end() {
    use object::read::elf::Sym;
    use object::{Endianness, Object, ObjectSection};
    let mut bytes = overlapping_symbols(4000);
    let honest = files(&bytes);
    assert_eq!(honest.functions(0, &NamePattern("fun*".into())).len(), 4000);
    assert_eq!(codes_of(&honest), [], "what is true may be long");
    let image = Image::from_bytes(&bytes).unwrap();
    let headers = image.headers().unwrap();
    let table = headers.elf_symbol_table();
    let name =
        table.iter().find(|s| s.name(Endianness::Little, table.strings()).is_ok_and(|n| n.starts_with(b"_ZSt1a")));
    let name = name.unwrap().st_name(Endianness::Little);
    let (at, length) = headers.section_by_name(".symtab").unwrap().file_range().unwrap();
    let places: Vec<usize> = (at..at + length).step_by(24).map(|at| at as usize).collect();
    for (number, at) in places.into_iter().enumerate().skip(1) {
        bytes[at..at + 4].copy_from_slice(&(name + number as u32 % 1000).to_le_bytes());
    }
    let forged = files(&bytes);
    let found = forged.functions(0, &NamePattern("*".into()));
    let names: usize = found.iter().map(|function| function.symbol.len()).sum();
    assert!(names <= bytes.len() + (64 << 10), "{names} of {}", bytes.len());
    assert_eq!(codes_of(&forged), [Code::TargetExceedsItself]);
    let image = Image::from_bytes(&bytes).unwrap();
    let symbols = Symbols::read(&[&image]);
    let offset = found[0].file_offset;
    let (named, is_cut) = symbols.at(&[&image], &[offset].into());
    assert!(named.contains_key(&offset) && !is_cut);
    let (_, is_cut) = symbols.at(&[&image], &(0..bytes.len() as u64).collect());
    assert!(is_cut, "there may be more");
    let all = symbols.all(&[&image]);
    let names: usize = all.values().map(|(name, _)| name.len()).sum();
    assert!(!all.is_empty() && names <= bytes.len() + (64 << 10), "{names} of {}", bytes.len());
}

#[test]
fn texts_without_an_end_are_not_searched_for_it() {
    let strings = b"\0_ZTV1A\0longer\0no end";
    assert_eq!(short_text(strings, 1, 7), Some(&b"_ZTV1A"[..]));
    assert_eq!(short_text(strings, 5, 100), Some(&b"1A"[..]));
    for (at, most) in [(1, 6), (8, 6), (15, 100), (100, 100), (u32::MAX, 0)] {
        assert_eq!(short_text(strings, at, most), None, "{at}");
    }
}

#[test]
fn a_compressed_section_that_claims_to_be_huge_is_not_unpacked() {
    use object::{Object, ObjectSection};
    let source = "struct tensor { long ne[4]; } first; int run(struct tensor *t) { return t->ne[0]; }";
    let (folder, honest) = library("gcc", source, &["-g", "-gz=zlib"]);
    assert_eq!(honest.layout(0, "tensor").unwrap().size, 32);
    let bytes = std::fs::read(folder.path().join("libengine.so")).unwrap();
    let image = Image::from_bytes(&bytes).unwrap();
    for name in [".debug_info", ".debug_abbrev"] {
        let headers = image.headers().unwrap();
        let (at, _) = headers.section_by_name(name).unwrap().file_range().unwrap();
        for claimed in [1u64 << 32, 1 << 62, u64::MAX] {
            let mut bytes = bytes.clone();
            // What it is when it is unpacked stands behind the kind of compression.
            bytes[at as usize + 8..at as usize + 16].copy_from_slice(&claimed.to_le_bytes());
            let forged = files(&bytes);
            assert_eq!(forged.layout(0, "tensor"), None, "{name} of {claimed}");
            assert!(forged.signatures(0, &["run"]).is_empty());
            assert!(forged.inlined(0, &NamePattern("run".into())).is_empty());
            assert_eq!(codes_of(&forged), [Code::TargetExceedsItself], "{name} of {claimed}");
        }
    }
}

#[test]
fn names_with_line_breaks_and_quotes_steer_nothing() {
    let mut forged = Forged::library(EM_X86_64);
    let single = forged.symbol(SINGLE, 0, 0, 0);
    forged.text(0x1000, "7a\n\"b'\u{1b}[");
    class(&mut forged, 0x2000, single, 0x1000);
    let base = forged.symbol("_ZTI4Base", 0, 0, 0);
    forged.relocation(0x2010, R_X86_64_64.0, base, 0);
    forged.word(0x2020, 0);
    forged.relocation(0x2028, R_X86_64_RELATIVE.0, 0, 0x2000);
    forged.relocation(0x2030, R_X86_64_RELATIVE.0, 0, CODE);
    let files = files(&forged.bytes());
    let found = files.overrides(0, "Base", 0);
    let [function] = found.functions.as_slice() else { panic!("{found:?}") };
    for text in [&function.name, &function.symbol, &function.captures[0]] {
        assert!(!text.contains(char::is_control), "{text:?}");
    }
    let source = "__asm__(\".globl \\\"x\\ny\\\\\\\"z\\\"\\n.type \\\"x\\ny\\\\\\\"z\\\",@function\\n\\\"x\\ny\\\\\\\"z\\\": ret\\n\");";
    let (_folder, library) = library("gcc", source, &[]);
    let functions = library.functions(0, &NamePattern("x*".into()));
    assert_eq!(functions.iter().map(|function| function.name.as_str()).collect::<Vec<_>>(), ["x\u{fffd}y\"z"]);
}

#[test]
fn static_probes_of_a_forged_file_are_answered() {
    let mut forged = Forged::library(EM_X86_64);
    let note = |name: u32, description: u32| [name, description, 3].map(u32::to_le_bytes).concat();
    let notes = [note(8, 1 << 31), note(u32::MAX, u32::MAX), note(0, 0)].concat();
    forged.section(".note.stapsdt", 7, 0, &notes);
    forged.section(".stapsdt.base", 1, u64::MAX, &[0]);
    assert!(usdt::sites(&forged.image().unwrap(), "toy", "step").is_empty());
}

#[test]
fn a_base_is_numbered_once_however_many_derive_from_it() {
    let mut forged = Forged::library(EM_X86_64);
    let (single, base) = (forged.symbol(SINGLE, 0, 0, 0), forged.symbol("_ZTI4Base", 0, 0, 0));
    for number in 0..500u64 {
        forged.text(0x1000 + 16 * number, &format!("5C{number:04}"));
        class(&mut forged, 0x8000 + 32 * number, single, 0x1000 + 16 * number);
        forged.relocation(0x8000 + 32 * number + 16, R_X86_64_64.0, base, 0);
    }
    let classes = Classes::read(&forged.image().unwrap());
    let named = |class: &super::rtti::Class| matches!(&class.bases[..], [base] if base.class == BaseClass::Elsewhere("4Base".into()));
    assert!(classes.all.len() == 500 && classes.all.iter().all(named) && !classes.is_cut);
}
