//! Virtual tables and static probes of arm64 files: those of its C++ library, which a compiler made, and written ones for
//! what that has not.

use super::files::Files;
use super::forged::{CODE, Forged, PROGRAM};
use super::pointers::{Pointer, Pointers};
use super::{Arch, ArgumentLocation, TargetFiles, TargetSymbols, open_path};
use object::elf::{
    EM_AARCH64, R_AARCH64_ABS64, R_AARCH64_COPY, R_AARCH64_GLOB_DAT, R_AARCH64_RELATIVE, R_X86_64_RELATIVE,
};
use std::path::Path;

const SINGLE: &str = "_ZTVN10__cxxabiv120__si_class_type_infoE";

fn files(bytes: &[u8]) -> Files {
    let mut files = Files::new(None);
    let image = super::elf::Image::from_bytes(bytes).unwrap();
    files.add_image(image, Path::new("/libarm.so"), "libarm.so");
    files
}

#[test]
fn slots_of_the_library_s_own_classes_are_those_of_its_symbols() {
    let path = Path::new("/usr/aarch64-linux-gnu/lib/libstdc++.so.6");
    let files = open_path(path, Files::new(None)).expect("libstdc++ for arm64: scripts/setup tests installs it");
    assert_eq!(files.files()[0].arch, Arch::Aarch64);
    // `what` is behind the two destructors of `std::exception`.
    let found = files.overrides(0, "std::exception", 2);
    assert!(found.classes > 20 && !found.is_cut, "{} classes", found.classes);
    // Some have no symbol and are named by class and slot; those of two unrelated classes may be one function.
    let is_named = |name: &str| name.ends_with("::what") || name.ends_with("::[2]");
    assert!(found.functions.iter().all(|function| is_named(&function.name)), "{:?}", found.functions);
    let of = |class: &str| found.functions.iter().find(|function| function.captures == [class]);
    for class in ["std::exception", "std::bad_alloc", "std::bad_cast", "std::future_error"] {
        assert_eq!(of(class).map(|function| function.name.clone()), Some(format!("{class}::what")));
    }
    let facets = files.overrides(0, "std::locale::facet", 0);
    assert!(facets.classes > 20 && facets.functions.len() > 10, "{} classes", facets.classes);
}

/// A class `Derived` of a `Base` that another library has, with a table of one function.
fn derived(forged: &mut Forged, base: impl Fn(&mut Forged)) {
    let single = forged.symbol(SINGLE, 0, 0, 0);
    forged.text(0x1000, "7Derived");
    forged.relocation(0x2000, R_AARCH64_ABS64.0, single, 16);
    forged.relocation(0x2008, R_AARCH64_RELATIVE.0, 0, 0x1000);
    base(forged);
    forged.word(0x2020, 0);
    forged.relocation(0x2028, R_AARCH64_RELATIVE.0, 0, 0x2000);
    forged.relocation(0x2030, R_AARCH64_RELATIVE.0, 0, CODE + 0x40);
}

#[test]
fn each_kind_of_relocation_leads_to_the_base() {
    let abs64 = |forged: &mut Forged| {
        let base = forged.symbol("_ZTI4Base", 0, 0, 0);
        forged.relocation(0x2010, R_AARCH64_ABS64.0, base, 0);
    };
    let global = |forged: &mut Forged| {
        let base = forged.symbol("_ZTI4Base", 0, 0, 0);
        forged.relocation(0x2010, R_AARCH64_GLOB_DAT.0, base, 0);
    };
    // The library defines it itself, and may be given another's.
    let own = |forged: &mut Forged| {
        let (root, base) = (
            forged.symbol("_ZTVN10__cxxabiv117__class_type_infoE", 0, 0, 0),
            forged.symbol("_ZTI4Base", 5, 0x3000, 16),
        );
        forged.text(0x1010, "4Base");
        forged.relocation(0x3000, R_AARCH64_ABS64.0, root, 16);
        forged.relocation(0x3008, R_AARCH64_RELATIVE.0, 0, 0x1010);
        forged.relocation(0x2010, R_AARCH64_ABS64.0, base, 0);
    };
    for (what, base) in [("ABS64", &abs64 as &dyn Fn(&mut Forged)), ("GLOB_DAT", &global), ("its own", &own)] {
        let mut forged = Forged::library(EM_AARCH64);
        derived(&mut forged, base);
        let found = files(&forged.bytes()).overrides(0, "Base", 0);
        let functions: Vec<(u64, &str)> =
            found.functions.iter().map(|f| (f.file_offset, f.captures[0].as_str())).collect();
        assert_eq!(functions, [(CODE + 0x40, "Derived")], "{what}");
    }
    // x86-64's number of the same kind means nothing here.
    let mut forged = Forged::library(EM_AARCH64);
    forged.relocation(0x2000, R_X86_64_RELATIVE.0, 0, 0x1000);
    assert_eq!(Pointers::read(&forged.image().unwrap()).at(0x2000), None);
}

#[test]
fn a_program_s_copy_of_a_base_is_followed_to_its_library() {
    let mut program = Forged::program(EM_AARCH64);
    // A program at a fixed place has its addresses in its data; what it has of other files is copied behind that.
    let copies = PROGRAM + (1 << 30);
    let single = program.symbol(SINGLE, 4, copies, 88);
    let base = program.symbol("_ZTI4Base", 4, copies + 0x100, 16);
    program.relocation(copies, R_AARCH64_COPY.0, single, 0);
    program.relocation(copies + 0x100, R_AARCH64_COPY.0, base, 0);
    program.text(PROGRAM + 0x1000, "7Derived");
    let class = [copies + 16, PROGRAM + 0x1000, copies + 0x100, 0, 0, PROGRAM + 0x2000, PROGRAM + CODE + 0x40];
    for (at, word) in (PROGRAM + 0x2000..).step_by(8).zip(class) {
        program.word(at, word);
    }
    let bytes = program.bytes();
    let pointers = Pointers::read(&super::elf::Image::from_bytes(&bytes).unwrap());
    assert_eq!(pointers.at(PROGRAM + 0x2000), Some(Pointer::Import(single as u32, 16)));
    let mut files = files(&bytes);
    assert_eq!(files.overrides(0, "Base", 0).functions.len(), 1);
    // The library has the base's base.
    let mut library = Forged::library(EM_AARCH64);
    let single = library.symbol(SINGLE, 0, 0, 0);
    library.text(0x1000, "4Base");
    library.relocation(0x2000, R_AARCH64_ABS64.0, single, 16);
    library.relocation(0x2008, R_AARCH64_RELATIVE.0, 0, 0x1000);
    let root = library.symbol("_ZTI4Root", 0, 0, 0);
    library.relocation(0x2010, R_AARCH64_ABS64.0, root, 0);
    let image = library.image().unwrap();
    files.add_image(image, Path::new("/libbase.so"), "libbase.so");
    let found = files.overrides(0, "Root", 0);
    assert_eq!(found.functions.iter().map(|f| f.captures.clone()).collect::<Vec<_>>(), [["Derived"]]);
}

/// A library with a static probe at the start of its code.
fn with_static_probe(arguments: &str) -> Files {
    let mut forged = Forged::library(EM_AARCH64);
    // The base has moved by 0x40 since the note was written.
    let texts = format!("toy\0step\0{arguments}\0");
    let words = [CODE - 0x40, 0x5000 - 0x40, 0x6000 - 0x40].map(u64::to_le_bytes).concat();
    let length = (words.len() + texts.len()) as u32;
    let mut note = [8, length, 3].map(u32::to_le_bytes).concat();
    note.extend(b"stapsdt\0");
    note.extend([words, texts.into_bytes()].concat());
    note.resize(note.len().next_multiple_of(4), 0);
    forged.section(".note.stapsdt", 7, 0, &note);
    forged.section(".stapsdt.base", 1, 0x5000, &[0]);
    forged.word(0x6000, 0);
    // `nop`, `ret`.
    forged.put(CODE, &[0x1f, 0x20, 0x03, 0xd5, 0xc0, 0x03, 0x5f, 0xd6]);
    files(&forged.bytes())
}

#[test]
fn a_static_probe_is_found_with_its_arguments_and_semaphore() {
    let sites = with_static_probe("-4@[x0, 8] 8@x1 -4@[sp, 12] 4@w2 8@[x3] 8@[x4, x5, lsl 3] 2@42 8@d0")
        .static_sites(0, "toy", "step");
    let [site] = sites.as_slice() else { panic!("{sites:?}") };
    assert_eq!((site.file_offset, site.semaphore), (CODE, Some(0x6000)));
    let memory = |register, offset| ArgumentLocation::Memory { register, offset };
    let expected = [
        (4, true, memory(0, 8)),
        (8, false, ArgumentLocation::Register(1)),
        (4, true, memory(31, 12)),
        (4, false, ArgumentLocation::Register(2)),
        (8, false, memory(3, 0)),
        (8, false, ArgumentLocation::Indexed { register: 4, index: 5, scale: 3, offset: 0 }),
        (2, false, ArgumentLocation::Constant(42)),
        (8, false, ArgumentLocation::Unreadable("8@d0".to_owned())),
    ];
    let found: Vec<(u8, bool, ArgumentLocation)> =
        site.arguments.iter().map(|a| (a.size, a.signed, a.place.clone())).collect();
    assert_eq!(found, expected);
}

#[test]
fn the_function_for_pure_virtual_methods_is_known_by_what_it_says() {
    let slots = |text: &str| {
        let mut forged = Forged::library(EM_AARCH64);
        derived(&mut forged, |forged| {
            let base = forged.symbol("_ZTI4Base", 0, 0, 0);
            forged.relocation(0x2010, R_AARCH64_ABS64.0, base, 0);
        });
        forged.text(0x1120, text);
        // `adrp x1, 0x1000`, something else, `add x1, x1, 0x120`.
        let pages = (0x1000i64 - CODE as i64) >> 12;
        let (low, high) = ((pages & 3) as u32, (pages >> 2 & 0x7_ffff) as u32);
        let code = [0x9000_0001 | low << 29 | high << 5, 0xd503_201f, 0x9100_0021 | 0x120 << 10, 0xd65f_03c0];
        forged.put(CODE + 0x40, &code.map(u32::to_le_bytes).concat());
        files(&forged.bytes()).overrides(0, "Base", 0).functions.len()
    };
    assert_eq!(slots("pure virtual method called\n"), 0);
    assert_eq!(slots("Pure virtual function called!"), 0);
    assert_eq!(slots("some other text"), 1);
    // A short function before that one is one, as some table leads to the other.
    let mut forged = Forged::library(EM_AARCH64);
    derived(&mut forged, |forged| {
        let base = forged.symbol("_ZTI4Base", 0, 0, 0);
        forged.relocation(0x2010, R_AARCH64_ABS64.0, base, 0);
    });
    forged.text(0x1120, "pure virtual method called\n");
    let pages = (0x1000i64 - CODE as i64) >> 12;
    let (low, high) = ((pages & 3) as u32, (pages >> 2 & 0x7_ffff) as u32);
    let code = [0xd65f_03c0, 0x9000_0001 | low << 29 | high << 5, 0x9100_0021 | 0x120 << 10];
    forged.put(CODE + 0x40, &code.map(u32::to_le_bytes).concat());
    forged.relocation(0x4000, R_AARCH64_RELATIVE.0, 0, CODE + 0x44);
    assert_eq!(files(&forged.bytes()).overrides(0, "Base", 0).functions.len(), 1);
}
