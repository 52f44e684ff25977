//! What virtual tables say of libraries that a compiler made, over two files, and of files that were forged.

use super::elf::Image;
use super::names::class_name;
use super::overrides::{Found, find};
use super::rtti::Classes;
use super::tests::{compile_in, library};
use super::{Files, TargetSymbols, usdt};
use std::sync::OnceLock;

const SOURCE: &str = "struct Base { virtual ~Base(); virtual int run(int) = 0; };
    Base::~Base() {}
    struct Other { virtual ~Other(); virtual int other(); int word; };
    Other::~Other() {}
    int Other::other() { return 1; }
    struct A : Base { int run(int n) override; };
    int A::run(int n) { return n; }
    struct B : Other, A { int run(int n) override; };
    int B::run(int n) { return n + word; }
    struct C : virtual A, B { int run(int n) override; };
    int C::run(int n) { return n + 2; }";

/// What is in the slot, by the classes' names.
fn classes_of(files: &Files, base: &str, slot: u32) -> Vec<String> {
    let overrides = files.overrides(0, base, slot);
    let mut classes: Vec<String> =
        overrides.functions.iter().map(|f| f.captures.first().cloned().unwrap_or_default()).collect();
    classes.sort_unstable();
    classes
}

#[test]
fn bases_that_are_inherited_twice_are_found_twice() {
    let (_folder, files) = library("g++", SOURCE, &["-Wno-inaccessible-base", "-Wl,-z,undefs"]);
    // C has two: that of B, and the virtual one, each by a thunk of its own.
    assert_eq!(classes_of(&files, "Base", 2), ["A", "B", "C", "C"]);
    assert_eq!(classes_of(&files, "A", 2), ["A", "B", "C", "C"]);
    assert_eq!(classes_of(&files, "Other", 2), ["Other"], "inherited by the others");
    let nothing = files.overrides(0, "Base", 3);
    assert_eq!((nothing.functions.len(), nothing.slots, nothing.is_cut), (0, Some(3), false));
    assert_eq!(files.overrides(0, "Nobody", 2).classes, 0);
    assert_eq!(files.class_like(0, "Basee").as_deref(), Some("did you mean `Base`?"));
}

#[test]
fn a_base_of_another_file_is_followed_there() {
    let base = "struct Base { virtual ~Base(); virtual int run(int) = 0; };";
    let middle = "struct Middle : Base { int word; int run(int n) override; ~Middle(); };";
    let (folder, _) = library(
        "g++",
        &format!(
            "{base} {middle} struct Last : Middle {{ int run(int) override; }}; int Last::run(int n) {{ return n; }}"
        ),
        &["-Wl,-z,undefs"],
    );
    let source =
        format!("{base} {middle} Base::~Base() {{}} Middle::~Middle() {{}} int Middle::run(int n) {{ return n; }}");
    let options = ["-shared", "-fPIC", "-nostdlib", "-Wl,-z,undefs"];
    let path = compile_in(folder.path(), "g++", "libbase.so", &source, &options);
    let mut files = Files::new(None);
    files.add(&folder.path().join("libengine.so"), "libengine.so").unwrap();
    assert_eq!(files.overrides(0, "Base", 2).classes, 0, "Middle is not defined here");
    files.add(&path, "libbase.so").unwrap();
    assert_eq!(classes_of(&files, "Base", 2), ["Last"]);
    assert_eq!(files.overrides(1, "Base", 2).functions[0].captures, ["Middle"]);
}

#[test]
fn a_base_that_a_program_has_a_copy_of_is_followed_to_its_file() {
    let base = "struct Base { virtual ~Base(); virtual int run(int); };";
    let folder = tempfile::tempdir().unwrap();
    let source = format!("{base} Base::~Base() {{}} int Base::run(int n) {{ return n; }}");
    let library = compile_in(folder.path(), "g++", "libbase.so", &source, &["-shared", "-fPIC"]);
    let source = format!(
        "{base} struct Derived : Base {{ int run(int n) override; }}; int Derived::run(int n) {{ return n + 1; }}
         int main(int n, char **) {{ Base *it = new Derived; return it->run(n); }}"
    );
    let beside = library.display().to_string();
    let program = compile_in(
        folder.path(),
        "g++",
        "program",
        &source,
        &["-no-pie", "-fno-pic", "-O1", "-Wl,--no-as-needed", &beside],
    );
    let mut files = Files::new(None);
    files.add(&program, "program").unwrap();
    files.add(&library, "libbase.so").unwrap();
    assert_eq!(classes_of(&files, "Base", 2), ["Derived"]);
}

#[test]
fn names_of_classes_steer_no_terminal() {
    assert_eq!(class_name("N3eng3AddE"), "eng::Add");
    for forged in ["7a\n\"b'\u{1b}[", "\n\n", "N3en\n1bE"] {
        assert!(!class_name(forged).contains(char::is_control), "{forged:?}");
    }
}

fn inspect(bytes: &[u8]) -> Option<Found> {
    let image = Image::from_bytes(bytes).ok()?;
    let classes = Classes::read(&image);
    for (number, _) in classes.all.iter().enumerate() {
        assert!(classes.name(number).len() <= 64 << 10);
    }
    let _ = usdt::sites(&image, "toy", "step");
    Some(find(&image, &classes, &|mangled| class_name(mangled) == "Base", 2, &|_| None))
}

/// A library with the classes above, and where in it the words are that are relocated, and the words of the typeinfo.
fn sample() -> &'static (Vec<u8>, Vec<usize>) {
    static SAMPLE: OnceLock<(Vec<u8>, Vec<usize>)> = OnceLock::new();
    SAMPLE.get_or_init(|| {
        let (folder, _files) = library("g++", SOURCE, &["-Wno-inaccessible-base", "-Wl,-z,undefs", "-s"]);
        let bytes = std::fs::read(folder.path().join("libengine.so")).unwrap();
        let image = Image::from_bytes(&bytes).unwrap();
        let pointers = super::pointers::Pointers::read(&image);
        let words = pointers.all().filter_map(|(place, _)| usize::try_from(image.offset_of(place)?).ok());
        // The relocations themselves are what most can be forged by.
        let table = bytes.windows(8).enumerate().filter(|(at, _)| at % 8 == 0);
        let relocations = table.filter(|(_, w)| u64::from_le_bytes((*w).try_into().unwrap()) == 8).map(|(at, _)| at);
        let places = words.chain(relocations).flat_map(|at| [at.saturating_sub(8), at, at + 8]).collect();
        (bytes, places)
    })
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(400))]

    #[test]
    fn forged_type_information_is_answered(
        changes in proptest::collection::vec((proptest::num::usize::ANY, 0usize..8, proptest::num::u64::ANY), 1..12),
    ) {
        let (bytes, places) = sample();
        let mut bytes = bytes.clone();
        for (place, kind, value) in changes {
            let at = places[place % places.len()];
            // Addresses of the image, of its end, and of other words there: cycles; huge counts; anything.
            let value = match kind {
                0 => u64::MAX,
                1 => value % bytes.len() as u64,
                2 | 3 => places[value as usize % places.len()] as u64,
                4 => value << 32,
                5 => 0,
                _ => value,
            };
            if let Some(word) = bytes.get_mut(at..at + 8) {
                word.copy_from_slice(&value.to_le_bytes());
            }
        }
        let _ = inspect(&bytes);
    }

    #[test]
    fn a_library_that_was_cut_is_answered(length in 0usize..20_000) {
        let (bytes, _) = sample();
        let _ = inspect(&bytes[..length.min(bytes.len())]);
    }
}
