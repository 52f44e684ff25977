//! Functions that the compiler put into others: what is recorded of them is what the target says that it did, or they
//! are refused. These need root (or CAP_BPF and CAP_PERFMON), gcc and clang.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Each compiler at each level of optimisation.
fn forms() -> impl Iterator<Item = (&'static str, &'static str)> {
    ["gcc", "clang"].into_iter().flat_map(|compiler| ["-O1", "-O2", "-O3"].map(|level| (compiler, level)))
}

fn compile(folder: &Path, name: &str, compiler: &str, options: &[&str]) -> PathBuf {
    let program = folder.join(name);
    let source = format!("{ROOT}/tests/targets/{name}.c");
    let mut command = Command::new(compiler);
    assert!(command.args(options).arg("-o").arg(&program).arg(source).status().expect(compiler).success());
    program
}

fn run(command: &mut Command) -> Output {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn profinfer() -> Command {
    Command::new(env!("CARGO_BIN_EXE_profinfer"))
}

fn probeset(name: &str) -> String {
    format!("{ROOT}/tests/targets/{name}.yaml")
}

fn check(name: &str, program: &Path) -> Value {
    let mut command = profinfer();
    let output = command.args(["check", &probeset(name), "--json", "--target"]).arg(program).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What the target printed, and the recorded spans: probe and fields.
fn record(name: &str, program: &Path) -> (String, Vec<(String, Value)>) {
    let trace = program.with_extension("pfi");
    let mut command = profinfer();
    command.args(["record", &probeset(name), "-o"]).arg(&trace).arg("--").arg(program).arg("20");
    let reported = String::from_utf8(run(&mut command).stdout).unwrap();
    let dump = String::from_utf8(run(profinfer().arg("dump").arg(&trace)).stdout).unwrap();
    let lines = dump.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let spans = lines.filter_map(|line| Some((line["probe"].as_str()?.to_owned(), line["fields"].clone())));
    (reported, spans.collect())
}

#[test]
#[ignore = "needs root"]
fn calls_and_arguments_of_inlined_copies_are_the_target_s_own() {
    let folder = tempfile::tempdir().unwrap();
    for (compiler, level) in forms() {
        for version in ["-gdwarf-4", "-gdwarf-5"] {
            let program = compile(folder.path(), "inlined", compiler, &[level, version]);
            let (reported, spans) = record("inlined", &program);
            let operators: Vec<&Value> =
                spans.iter().filter(|(probe, _)| probe == "operator").map(|(_, fields)| fields).collect();
            let sum = |field: &str| operators.iter().map(|fields| fields[field].as_i64().unwrap()).sum::<i64>();
            let recorded = format!("{} calls lanes {} ops {}\n", operators.len(), sum("lane"), sum("op"));
            assert_eq!(recorded, reported, "{compiler} {level} {version}");
            let checked = check("inlined", &program);
            let sites = checked["sites"].as_array().unwrap().iter().filter(|site| site["function"] == "compute");
            let within: Vec<&str> = sites.map(|site| site["inlined_into"].as_str().unwrap()).collect();
            assert!(within.contains(&"run_graph") && within.contains(&"run_one"), "{within:?}");
        }
    }
}

#[test]
#[ignore = "needs root"]
fn each_run_of_a_copy_is_recorded_once_or_the_copy_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut probed = 0;
    for (compiler, level) in forms() {
        let program = compile(folder.path(), "hard", compiler, &[level, "-g"]);
        let (reported, spans) = record("hard", &program);
        let words: Vec<&str> = reported.split_whitespace().collect();
        let truth: BTreeMap<&str, usize> = words.chunks(2).map(|pair| (pair[0], pair[1].parse().unwrap())).collect();
        let checked = check("hard", &program);
        let refused: Vec<&str> =
            checked["missing"].as_array().unwrap().iter().map(|missing| missing["probe"].as_str().unwrap()).collect();
        for (function, runs) in &truth {
            let recorded = spans.iter().filter(|(probe, _)| probe == function).count();
            let expected = if refused.contains(function) { 0 } else { *runs };
            assert_eq!(recorded, expected, "{function}, {compiler} {level}");
        }
        probed += truth.len() - refused.len();
    }
    assert!(probed > 0, "not all are refused");
}

#[test]
fn a_copy_that_cannot_be_probed_is_named_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "inlined", "gcc", &["-O2", "-g", "-DSTATIC_ITEMS"]);
    let checked = check("inlined", &program);
    let missing = &checked["missing"][0];
    assert_eq!(missing["probe"], "operator");
    let why = missing["why"].as_str().unwrap();
    assert!(why.starts_with("`compute` was inlined into `run_graph`"), "{why}");
    assert!(why.ends_with("does not describe where `item` is in it"), "{why}");
}
