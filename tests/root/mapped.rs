//! Which of a process's files is the engine, and who maps it.

use crate::invocation::{json, profinfer, succeeds};
use crate::record::{PROBESET, Run, reported, toys};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const LINKER: &str =
    if cfg!(target_arch = "aarch64") { "/lib/ld-linux-aarch64.so.1" } else { "/lib64/ld-linux-x86-64.so.2" };

/// Records with a changed probeset.
fn recorded(run: &Run, change: impl Fn(String) -> String, words: &[&str], preloaded: Option<&Path>) -> Output {
    let probeset = run.folder.path().join("changed.yaml");
    std::fs::write(&probeset, change(std::fs::read_to_string(PROBESET).unwrap())).unwrap();
    let mut recorder = run.recorder_with(&probeset.display().to_string(), &["--"]);
    succeeds(recorder.args(words).envs(preloaded.map(|library| ("LD_PRELOAD", library))))
}

/// A library with the step's function alone, of the same name.
fn library_with_a_step(folder: &Path) -> PathBuf {
    let library = folder.join("libpart.so");
    let source = folder.join("part.c");
    std::fs::write(&source, "int toy_step(long batch, int operators, int lanes) { return lanes; }").unwrap();
    succeeds(Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source));
    library
}

#[test]
#[ignore = "needs root"]
fn a_library_with_some_of_an_engine_s_functions_is_not_taken_for_it() {
    let run = Run::new();
    let part = library_with_a_step(run.folder.path());
    let unnamed = |yaml: String| yaml.replace("libtoy_engine*.so", "libnothing.so");
    let output = recorded(&run, unnamed, &[&toys().late(), "20", "6", "2", &toys().load()], Some(&part));
    let trace = run.read();
    assert_eq!(trace.work(), reported(&output.stdout));
    trace.assert_whole();
    let modules: Vec<&str> = trace.meta.modules.iter().map(|module| module.path.as_str()).collect();
    assert_eq!(modules, [toys().library().display().to_string()]);
}

/// `ld.so PROGRAM`, as bundles with a C library of their own start programs: the process's program is the linker.
#[test]
#[ignore = "needs root"]
fn a_library_that_a_program_loads_is_recorded_where_its_linker_was_started() {
    let run = Run::new();
    let words = [LINKER, &toys().late(), "20", "6", "2", &toys().load()];
    let output = run.record(&[&["--"], &words[..]].concat());
    let trace = run.read();
    assert_eq!(trace.work(), [20, 20, 240]);
    assert_eq!(trace.work(), reported(&output.stdout));
    trace.assert_whole();
}

/// Steps are recorded, and the report gives the reason why nothing else is.
#[test]
#[ignore = "needs root"]
fn an_operator_without_a_site_is_listed_as_left_out() {
    let run = Run::new();
    let elsewhere = |yaml: String| {
        let yaml = yaml.replace("engine:toy_operator(", "kernels:toy_operator_of_kernels(");
        yaml.replace("modules:\n", "modules:\n  kernels: libkernels.so\n")
    };
    let output = recorded(&run, elsewhere, &[&toys().linked(), "20", "6", "2"], None);
    let lines = String::from_utf8(output.stderr).unwrap();
    assert!(lines.contains("left out: probe `operator` is not attached: no file of the target is"), "{lines}");
    assert_eq!(run.read().work(), [20, 20, 0]);
    let trace = run.trace().display().to_string();
    let notes = json(&["report", &trace, "--json"])["completeness"]["notes"].to_string();
    assert!(notes.contains("probe `operator` is not attached"), "{notes}");
    let text = String::from_utf8(succeeds(&mut profinfer(&["report", &trace, "--all"])).stdout).unwrap();
    assert!(text.contains("No operators were recorded") && !text.contains("`--level`"), "{text}");
}
