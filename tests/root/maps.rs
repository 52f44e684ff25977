//! Maps and sets of the C++ library, recorded from a program that prints what it passes: with both libraries, from debug
//! information, a lock file, and declared offsets; also such that are larger than what is visited, and wrong memory.

use crate::invocation::succeeds;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

const PROBESET: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/targets/maps.yaml");

struct Maps(TempDir);

impl Maps {
    fn new(compiler: &str, flags: &[&str]) -> Self {
        let maps = Self(tempfile::tempdir().unwrap());
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/targets/maps.cpp");
        let mut command = Command::new(compiler);
        command.args(["-std=c++17", "-g", "-Wl,--build-id=sha1", "-Wno-invalid-offsetof", "-o"]);
        succeeds(command.arg(maps.path("maps")).args(flags).arg(source));
        std::fs::create_dir(maps.path("stripped")).unwrap();
        let (to, from) = (maps.path("stripped/maps"), maps.path("maps"));
        succeeds(Command::new("strip").args(["--strip-debug", "-o"]).args([to, from]));
        maps
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
        // 4: it is reported as incomplete, for what is made to be wrong or is too large.
        assert_eq!(output.status.code(), Some(4), "{reported}");
        let dump = succeeds(&mut self.profinfer(&["dump", "run.pfi"]));
        let (printed, recorded) = (lines(&output.stdout), lines(&dump.stdout));
        let mut probes: Vec<&str> = printed.iter().map(|line| line["probe"].as_str().unwrap()).collect();
        probes.sort_unstable();
        probes.dedup();
        assert_eq!(probes.len(), 11, "{probes:?}");
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
        // Three rounds, of seven trees and three lists that are none, and of one of each in no memory; twice each. A key that is
        // not there is no loss, one that may be beyond the bound is.
        let incomplete = "Incomplete: 12 `wrong` with a field that could not be read; 60 `wrong` with an implausible value; \
                          12 `large` with a list cut at its bound; 3 `large_keys` with a list cut at its bound.";
        assert!(report.contains(incomplete), "{report}");
    }

    /// The probeset with every offset written, as the program has them.
    fn declared(&self) -> String {
        let offsets = succeeds(Command::new(self.path("maps")).arg("offsets")).stdout;
        let mut text = std::fs::read_to_string(PROBESET).unwrap();
        for line in String::from_utf8(offsets).unwrap().lines() {
            let (member, offset) = line.split_once(' ').unwrap();
            let start = text.find(&format!("\n    {member}: std::")).unwrap_or_else(|| panic!("{member}"));
            let end = start + 1 + text[start + 1..].find('\n').unwrap();
            text.insert_str(end, &format!(" @ {offset}"));
        }
        text.replace("{ a: i32, b: i64 }", "{ size: 16, a: i32 @ 0, b: i64 @ 8 }")
    }

    fn assert_all_sources(&self, library: &str) {
        self.assert_recorded(PROBESET, "./maps", &[]);
        self.assert_recorded(PROBESET, "./maps", &["--old-kernel"]);
        succeeds(&mut self.profinfer(&["lock", PROBESET, "--target", "maps", "-o", "zoo.lock"]));
        self.assert_recorded(PROBESET, "stripped/maps", &["--lock", "zoo.lock"]);
        let module = format!("zoo: {{ files: maps*, strings: {library} }}");
        std::fs::write(self.path("declared.yaml"), self.declared().replace("zoo: maps*", &module)).unwrap();
        self.assert_recorded("declared.yaml", "stripped/maps", &[]);
    }
}

fn lines(text: &[u8]) -> Vec<Value> {
    let text = String::from_utf8_lossy(text).into_owned();
    text.lines().filter(|line| line.starts_with('{')).map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
#[ignore = "needs root"]
fn maps_are_read_without_optimisation_and_with() {
    Maps::new("g++", &["-O0"]).assert_all_sources("libstdc++");
    Maps::new("clang++", &["-O2"]).assert_all_sources("libstdc++");
}

#[test]
#[ignore = "needs root"]
fn maps_of_the_other_library_are_read() {
    Maps::new("clang++", &["-O0", "-stdlib=libc++"]).assert_all_sources("libc++");
}

#[test]
fn how_a_map_is_read_is_explained() {
    let maps = Maps::new("g++", &["-O1"]);
    let says = |command: &[&str]| String::from_utf8(succeeds(&mut maps.profinfer(command)).stdout).unwrap();
    let explained = says(&["explain", PROBESET, "look_up.named", "--target", "maps"]);
    let walk = "the first 32 elements of its list are visited, from +16, counted at +24, each at +8 of its node, its value at +40";
    assert!(explained.contains(walk), "{explained}");
    let checked = says(&["check", PROBESET, "--target", "maps"]);
    assert!(checked.contains("elements of std::unordered_map<std::string(64), zoo::Part>"), "{checked}");
}

/// A comparison with members moves what a map has.
#[test]
fn a_map_of_another_size_is_absent() {
    let maps = Maps(tempfile::tempdir().unwrap());
    let source = "#include <map>\n#include <cstdint>\nstruct By { int64_t how[2]; bool operator()(int a, int b) const { return a < b; } };\n\
                  struct Has { std::map<int, int, By> map{By{}}; };\n\
                  extern \"C\" void has(const Has* has) { asm volatile(\"\" : : \"r\"(has)); }\nint main() { Has it; has(&it); }\n";
    std::fs::write(maps.path("maps.cpp"), source).unwrap();
    succeeds(Command::new("g++").args(["-std=c++17", "-g", "-o"]).arg(maps.path("maps")).arg(maps.path("maps.cpp")));
    let probeset = "profinfer: 1\nengine: zoo\nmodules: { zoo: maps }\ntypes: { Has: { map: 'std::map<i32, i32>' } }\n\
                    probes:\n  step:\n    at: 'zoo:has(Has* has)'\n    role: step\n    fields: { tokens: '1', two: 'has->map[2]' }\n";
    std::fs::write(maps.path("zoo.yaml"), probeset).unwrap();
    let check = maps.profinfer(&["check", "zoo.yaml", "--target", "maps"]).output().unwrap();
    let said = String::from_utf8_lossy(&check.stderr).into_owned() + &String::from_utf8_lossy(&check.stdout);
    assert!(said.contains("its comparison or hash has members"), "{said}");
}
