//! Classes that hold a value or none, and classes that hold elements in place or elsewhere, recorded from a program that
//! prints what it passes: with both C++ libraries, from debug information, a lock file, and declared offsets.

use crate::invocation::succeeds;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

const PROBESET: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/targets/containers.yaml");

struct Containers(TempDir);

impl Containers {
    fn new(compiler: &str, flags: &[&str]) -> Self {
        let containers = Self(tempfile::tempdir().unwrap());
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/targets/containers.cpp");
        let mut command = Command::new(compiler);
        command.args(["-std=c++17", "-g", "-Wl,--build-id=sha1", "-Wno-invalid-offsetof", "-o"]);
        succeeds(command.arg(containers.path("containers")).args(flags).arg(source));
        std::fs::create_dir(containers.path("stripped")).unwrap();
        let (to, from) = (containers.path("stripped/containers"), containers.path("containers"));
        succeeds(Command::new("strip").args(["--strip-debug", "-o"]).args([to, from]));
        containers
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn profinfer(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_profinfer"));
        command.args(arguments).current_dir(self.0.path());
        command
    }

    /// Records the program, and compares every record with what the program prints.
    fn assert_recorded(&self, probeset: &str, program: &str, options: &[&str]) {
        let mut record = self.profinfer(&["record", probeset, "-o", "run.pfi"]);
        let output = record.args(options).args(["--", program]).output().unwrap();
        let reported = String::from_utf8_lossy(&output.stderr).into_owned();
        // 4: it is reported as incomplete, for indices past the end and for what is made to be wrong.
        assert_eq!(output.status.code(), Some(4), "{reported}");
        let dump = succeeds(&mut self.profinfer(&["dump", "run.pfi"]));
        let (printed, recorded) = (lines(&output.stdout), lines(&dump.stdout));
        let mut probes: Vec<&str> = printed.iter().map(|line| line["probe"].as_str().unwrap()).collect();
        probes.sort_unstable();
        probes.dedup();
        assert_eq!(probes.len(), 10, "{probes:?}");
        for probe in probes {
            let of = |lines: &[Value]| -> Vec<Value> {
                lines.iter().filter(|line| line["probe"] == probe).map(|line| line["fields"].clone()).collect()
            };
            let (printed, recorded) = (of(&printed), of(&recorded));
            assert_eq!(printed.len(), recorded.len(), "{probe}: {reported}");
            for (printed, recorded) in printed.iter().zip(&recorded) {
                assert_eq!(printed, recorded, "{probe}: {reported}");
            }
        }
        let report = self.profinfer(&["report", "--all", "run.pfi"]).output().unwrap();
        let report = String::from_utf8_lossy(&report.stdout);
        // What is not there, and need not be, is no loss: neither of a field nor of a condition.
        assert!(!report.contains("`variants`") && !report.contains("`positive`"), "{report}");
        // Only the second element of an empty vector, once in each of three rounds.
        assert!(report.contains("3 `holder` with a field that could not be read"), "{report}");
        assert!(report.contains("6 `wrong` with an implausible value"), "{report}");
    }

    /// The probeset with every offset written, as the program has them.
    fn declared(&self) -> String {
        let offsets = succeeds(Command::new(self.path("containers")).arg("offsets")).stdout;
        let mut text = std::fs::read_to_string(PROBESET).unwrap();
        for line in String::from_utf8(offsets).unwrap().lines() {
            let (member, offset) = line.split_once(' ').unwrap();
            let member = format!("\n    {}: std::", member.split_once('.').unwrap().1);
            let start = text.find(&member).unwrap_or_else(|| panic!("{member}"));
            let end = start + 1 + text[start + 1..].find('\n').unwrap();
            text.insert_str(end, &format!(" @ {offset}"));
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
        succeeds(&mut self.profinfer(&["lock", PROBESET, "--target", "containers", "-o", "zoo.lock"]));
        self.assert_recorded(PROBESET, "stripped/containers", &["--lock", "zoo.lock"]);
        let module = format!("zoo: {{ files: containers*, strings: {library} }}");
        std::fs::write(self.path("declared.yaml"), self.declared().replace("zoo: containers*", &module)).unwrap();
        self.assert_recorded("declared.yaml", "stripped/containers", &[]);
    }
}

fn lines(text: &[u8]) -> Vec<Value> {
    let text = String::from_utf8_lossy(text).into_owned();
    text.lines().filter(|line| line.starts_with('{')).map(|line| serde_json::from_str(line).unwrap()).collect()
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
        std::fs::write(containers.path("zoo.yaml"), probeset).unwrap();
        let check = containers.profinfer(&["check", "zoo.yaml", "--target", "stripped/containers", "--json"]).output();
        let found = String::from_utf8(check.unwrap().stdout).unwrap();
        assert!(found.contains("tag of std::variant<i32, i64>") && found.contains(tag), "{found}");
    }
}
