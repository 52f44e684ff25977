//! Classes that hold a value or none, and classes that hold elements in place or elsewhere, recorded from a program that
//! prints what it passes: with both C++ libraries, from debug information, a lock file, and declared offsets.

use crate::printed::{PrintedTarget, declare};

const PROBESET: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/targets/containers.yaml");

struct Containers(PrintedTarget);

impl Containers {
    fn new(compiler: &str, flags: &[&str]) -> Self {
        Self(PrintedTarget::new("containers", compiler, flags))
    }

    fn assert_recorded(&self, probeset: &str, program: &str, options: &[&str]) {
        let report = self.0.assert_recorded(probeset, program, options, 10);
        // What is not there, and need not be, is no loss: neither of a field nor of a condition.
        assert!(!report.contains("`variants`") && !report.contains("`positive`"), "{report}");
        // Only the second element of an empty vector, once in each of three rounds.
        assert!(report.contains("3 `holder` with a field that could not be read"), "{report}");
        assert!(report.contains("6 `wrong` with an implausible value"), "{report}");
    }

    /// The probeset with every offset written, as the program has them.
    fn declared(&self) -> String {
        let mut text = std::fs::read_to_string(PROBESET).unwrap();
        for (member, offset) in self.0.offsets() {
            declare(&mut text, member.split_once('.').unwrap().1, &offset);
        }
        let written = [
            ("{ a: i32, b: i64 }", "{ size: 16, a: i32 @ 0, b: i64 @ 8 }"),
            ("{ values: \"i32[8]\" }", "{ size: 32, values: \"i32[8] @ 0\" }"),
            ("{ fuse: i32 }", "{ size: 4, fuse: i32 @ 0 }"),
            (
                "{ small: zoo::Small, inlined: zoo::Inlined, sizes: zoo::Sizes, range: zoo::Range, parts: zoo::Parts }",
                "{ small: zoo::Small @ 0, inlined: zoo::Inlined @ 40, sizes: zoo::Sizes @ 80, range: zoo::Range @ 128, \
                 parts: zoo::Parts @ 152 }",
            ),
            ("data: i64*, count: u32,", "data: i64* @ 0, count: u32 @ 8,"),
            ("tag: u64, near: \"i64[4]\", far: i64*,", "tag: u64 @ 0, near: \"i64[4] @ 8\", far: i64* @ 8,"),
            ("dims: u64, near: \"i64[5]\", far: i64*,", "dims: u64 @ 0, near: \"i64[5] @ 8\", far: i64* @ 8,"),
            ("first: i32*, end: i32*,", "first: i32* @ 0, end: i32* @ 8,"),
            ("parts: zoo::Part*, count: i32,", "size: 16, parts: zoo::Part* @ 0, count: i32 @ 8,"),
        ];
        for (plain, declared) in written {
            assert!(text.contains(plain), "{plain}");
            text = text.replace(plain, declared);
        }
        text
    }

    fn assert_all_sources(&self, library: &str) {
        self.assert_recorded(PROBESET, "./containers", &[]);
        self.0.lock(PROBESET, "zoo.lock");
        self.assert_recorded(PROBESET, "stripped/containers", &["--lock", "zoo.lock"]);
        let module = format!("zoo: {{ files: containers*, strings: {library} }}");
        std::fs::write(self.0.path("declared.yaml"), self.declared().replace("zoo: containers*", &module)).unwrap();
        self.assert_recorded("declared.yaml", "stripped/containers", &[]);
    }
}

#[test]
#[ignore = "needs root"]
fn what_holds_a_value_or_none_is_read_without_optimisation_and_with() {
    Containers::new("g++", &["-O0"]).assert_all_sources("libstdc++");
    Containers::new("clang++", &["-O2"]).assert_all_sources("libstdc++");
}

#[test]
#[ignore = "needs root"]
fn what_holds_a_value_or_none_is_read_in_the_other_library() {
    Containers::new("clang++", &["-O0", "-stdlib=libc++"]).assert_all_sources("libc++");
}

/// Neither strings nor `strings:` tell the library: the libraries that the file needs do.
#[test]
fn the_library_of_variants_is_known_by_what_the_file_needs() {
    let probeset = "profinfer: 1\nengine: zoo\nmodules: { zoo: containers* }\nprobes:\n  step:\n    \
                    at: 'zoo:zoo_any(std::variant<i32, i64>& any)'\n    role: step\n    fields: { tokens: any.index }\n";
    for (compiler, flag, tag) in [("g++", "-O1", "65"), ("clang++", "-stdlib=libc++", "68")] {
        let containers = Containers::new(compiler, &[flag]);
        std::fs::write(containers.0.path("zoo.yaml"), probeset).unwrap();
        let check =
            containers.0.profinfer(&["check", "zoo.yaml", "--target", "stripped/containers", "--json"]).output();
        let found = String::from_utf8(check.unwrap().stdout).unwrap();
        assert!(found.contains("tag of std::variant<i32, i64>") && found.contains(tag), "{found}");
    }
}
