//! Maps and sets of the C++ library, recorded from a program that prints what it passes: with both libraries, from debug
//! information, a lock file, and declared offsets; also such that are larger than what is visited, and wrong memory.

use crate::invocation::succeeds;
use crate::printed::{PrintedTarget, declare};
use std::process::Command;

const PROBESET: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/targets/maps.yaml");

struct Maps(PrintedTarget);

impl Maps {
    fn new(compiler: &str, flags: &[&str]) -> Self {
        Self(PrintedTarget::new("maps", compiler, flags))
    }

    fn assert_recorded(&self, probeset: &str, program: &str, options: &[&str]) {
        let report = self.0.assert_recorded(probeset, program, options, 11);
        // Three rounds, of seven trees and three lists that are none, and of one of each in no memory; twice each. A key that is
        // not there is no loss, one that may be beyond the bound is.
        let incomplete = "Incomplete: 12 `wrong` with a field that could not be read; 60 `wrong` with an implausible value; \
                          12 `large` with a list cut at its bound; 3 `large_keys` with a list cut at its bound.";
        assert!(report.contains(incomplete), "{report}");
    }

    /// The probeset with every offset written, as the program has them.
    fn declared(&self) -> String {
        let mut text = std::fs::read_to_string(PROBESET).unwrap();
        for (member, offset) in self.0.offsets() {
            declare(&mut text, &member, &offset);
        }
        text.replace("{ a: i32, b: i64 }", "{ size: 16, a: i32 @ 0, b: i64 @ 8 }")
    }

    fn assert_all_sources(&self, library: &str) {
        self.assert_recorded(PROBESET, "./maps", &[]);
        self.assert_recorded(PROBESET, "./maps", &["--old-kernel"]);
        self.0.lock(PROBESET, "zoo.lock");
        self.assert_recorded(PROBESET, "stripped/maps", &["--lock", "zoo.lock"]);
        let module = format!("zoo: {{ files: maps*, strings: {library} }}");
        std::fs::write(self.0.path("declared.yaml"), self.declared().replace("zoo: maps*", &module)).unwrap();
        self.assert_recorded("declared.yaml", "stripped/maps", &[]);
    }
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
    let printed = |command: &[&str]| String::from_utf8(succeeds(&mut maps.0.profinfer(command)).stdout).unwrap();
    let explained = printed(&["explain", PROBESET, "look_up.named", "--target", "maps"]);
    let walk = "the first 32 elements of its list are visited, from +16, counted at +24, each at +8 of its node, its value at +40";
    assert!(explained.contains(walk), "{explained}");
    let checked = printed(&["check", PROBESET, "--target", "maps"]);
    assert!(checked.contains("elements of std::unordered_map<std::string(64), zoo::Part>"), "{checked}");
}

/// A comparison with members moves what a map has.
#[test]
fn a_map_of_another_size_is_absent() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let source = "#include <map>\n#include <cstdint>\nstruct By { int64_t how[2]; bool operator()(int a, int b) const { return a < b; } };\n\
                  struct Has { std::map<int, int, By> map{By{}}; };\n\
                  extern \"C\" void has(const Has* has) { asm volatile(\"\" : : \"r\"(has)); }\nint main() { Has it; has(&it); }\n";
    std::fs::write(path("maps.cpp"), source).unwrap();
    succeeds(Command::new("g++").args(["-std=c++17", "-g", "-o"]).arg(path("maps")).arg(path("maps.cpp")));
    let probeset = "profinfer: 1\nengine: zoo\nmodules: { zoo: maps }\ntypes: { Has: { map: 'std::map<i32, i32>' } }\n\
                    probes:\n  step:\n    at: 'zoo:has(Has* has)'\n    role: step\n    fields: { tokens: '1', two: 'has->map[2]' }\n";
    std::fs::write(path("zoo.yaml"), probeset).unwrap();
    let mut check = Command::new(env!("CARGO_BIN_EXE_profinfer"));
    let check = check.args(["check", "zoo.yaml", "--target", "maps"]).current_dir(folder.path()).output().unwrap();
    let reported = String::from_utf8_lossy(&check.stderr).into_owned() + &String::from_utf8_lossy(&check.stdout);
    assert!(reported.contains("its comparison or hash has members"), "{reported}");
}
