//! Two builds of one engine in one process, as two packages of it for Python are, the second loaded while the first runs.

use crate::invocation::succeeds;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

const PROBESET: &str = "profinfer: 1
engine: toy
modules: { toy: libtoy.so }
types: { node: { op: enum op, size: i32 } }
probes:
  step: { at: 'toy:engine_run(i32 tokens)', role: step, fields: { tokens: tokens } }
  compute: { at: 'toy:node_compute(node* node)', role: region, fields: { kind: node->op, size: node->size } }
";

struct Builds(TempDir);

impl Builds {
    /// Libraries in folders of their own, and a program that loads them.
    fn new(libraries: &[(&str, &[&str])]) -> Self {
        let builds = Self(tempfile::tempdir().unwrap());
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/targets/two_builds.c");
        for (folder, flags) in libraries {
            std::fs::create_dir(builds.path(folder)).unwrap();
            let mut command = Command::new("gcc");
            command.args(["-O1", "-shared", "-fPIC", "-DENGINE", "-o"]).arg(builds.path(folder).join("libtoy.so"));
            succeeds(command.args(*flags).arg(&source));
        }
        succeeds(Command::new("gcc").args(["-O1", "-o"]).arg(builds.path("program")).arg(&source).arg("-ldl"));
        std::fs::write(builds.path("toy.yaml"), PROBESET).unwrap();
        builds
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn profinfer(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_profinfer"));
        command.args(arguments).current_dir(self.0.path());
        command
    }

    /// Each outcome of `compute`, and how often it was; what was told.
    fn recorded(&self, libraries: &[&str]) -> (BTreeMap<String, usize>, String) {
        let mut record = self.profinfer(&["record", "toy.yaml", "-o", "run.pfi", "--", "./program"]);
        let output = record.args(libraries.iter().map(|folder| format!("./{folder}/libtoy.so"))).output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        let dump = String::from_utf8(succeeds(&mut self.profinfer(&["dump", "run.pfi"])).stdout).unwrap();
        let records = dump.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let mut found = BTreeMap::new();
        for record in records.filter(|record| record["probe"] == "compute") {
            let fields = json!([record["fields"]["kind"], record["fields"]["size"]]).to_string();
            *found.entry(fields).or_default() += 1;
        }
        (found, told)
    }
}

/// The first runs alone five times; then both run five times.
#[test]
#[ignore = "needs root"]
fn each_build_is_read_with_its_own_layout() {
    let builds = Builds::new(&[("old", &["-g"]), ("new", &["-g", "-DNEWER"])]);
    for (first, second) in [("old", "new"), ("new", "old")] {
        let (found, told) = builds.recorded(&[first, second]);
        let number = |folder: &str| if folder == "old" { 0 } else { 1 };
        let expected = [
            // Until the second is loaded, nobody disagrees.
            (json!(["ADD", 100]).to_string(), 5),
            (json!([number(first), 100]).to_string(), 5),
            (json!(["LAST", 101]).to_string(), 10),
            (json!([number(second), 200]).to_string(), 5),
            (json!(["LAST", 201]).to_string(), 5),
        ];
        assert_eq!(found, BTreeMap::from(expected), "{told}");
        assert!(told.contains("this process has 2 builds of toy: "), "{told}");
        assert!(told.contains("left out: two builds that run at once number `op` differently"), "{told}");
        assert!(!told.contains("left out: this process"), "{told}");
    }
}

/// Debug information of the one is not used for the other.
#[test]
#[ignore = "needs root"]
fn what_a_stripped_build_does_not_tell_is_absent_there() {
    let builds = Builds::new(&[("old", &["-g"]), ("new", &["-DNEWER"])]);
    for (libraries, whole, [old, new]) in [(["old", "new"], 100, [10, 5]), (["new", "old"], 200, [5, 10])] {
        let (found, told) = builds.recorded(&libraries);
        let expected = [
            (json!(["ADD", whole]).to_string(), old),
            (json!(["LAST", whole + 1]).to_string(), old),
            (json!([null, null]).to_string(), 2 * new),
        ];
        assert_eq!(found, BTreeMap::from(expected), "{told}");
        assert!(told.contains("this process has 2 builds of toy: "), "{told}");
    }
}

/// The same file is mapped once.
#[test]
#[ignore = "needs root"]
fn one_build_is_one_however_often_it_is_loaded() {
    let builds = Builds::new(&[("old", &["-g"])]);
    let (found, told) = builds.recorded(&["old", "old"]);
    let expected = [("ADD", 100, 10), ("LAST", 101, 10), ("ADD", 200, 5), ("LAST", 201, 5)];
    let expected = expected.map(|(op, size, count)| (json!([op, size]).to_string(), count));
    assert_eq!(found, BTreeMap::from(expected), "{told}");
    assert!(!told.contains("builds of"), "{told}");
}

/// What is mapped first defines one of the engine's functions, too, and needs its library, which is mapped next.
#[test]
#[ignore = "needs root"]
fn a_library_that_needs_the_engine_s_is_not_mistaken_for_it() {
    let builds = Builds::new(&[("old", &["-g"])]);
    let source = "__attribute__((visibility(\"hidden\"), noipa)) int node_compute(void *node) { return !node; }
        int wrapped(void) { return node_compute(0); }";
    std::fs::write(builds.path("wrapper.c"), source).unwrap();
    let mut command = Command::new("gcc");
    command.args(["-O1", "-shared", "-fPIC", "wrapper.c", "-o", "old/wrapper.so", "-Wl,--no-as-needed"]);
    succeeds(command.args(["-Wl,-rpath,$ORIGIN", "-Lold", "-ltoy"]).current_dir(builds.0.path()));
    let mut record = builds.profinfer(&["record", "toy.yaml", "-o", "run.pfi", "--", "./program", "./old/wrapper.so"]);
    let output = record.output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(told.contains("5 steps"), "{told}");
}
