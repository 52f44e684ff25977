//! Engines as systems ship them: stripped. With a lock file that was made of the same build where its debug information
//! is, they are recorded as the unstripped ones are.

use crate::engine::{Engine, model, workload};
use crate::packages::{installed, scripts};
use crate::process::{profinfer, run, stderr};
use crate::recording::Recording;
use crate::work::assert_same;
use std::path::Path;
use std::process::Command;

/// Copies a folder's libraries without their symbols and debug information.
fn strip(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let copy = to.join(path.file_name().unwrap());
        if path.is_symlink() {
            std::os::unix::fs::symlink(std::fs::read_link(&path).unwrap(), copy).unwrap();
        } else if path.is_file() {
            run(Command::new("strip").arg("--strip-all").arg("-o").arg(copy).arg(path), 0);
        }
    }
}

#[test]
#[ignore = "needs root"]
fn stripped_libraries_with_a_lock() {
    let folder = tempfile::tempdir().unwrap();
    let (libraries, lock) = (folder.path().join("lib"), folder.path().join("llama.lock"));
    std::fs::create_dir(&libraries).unwrap();
    strip(&Engine::Shared.target(), &libraries);
    let (stripped, lock) = (libraries.to_str().unwrap(), lock.to_str().unwrap());
    // What is not in the engine's code and tables either is missing, and named.
    let bare = run(&mut profinfer(&["check", "llama", "--target", stripped]), 0);
    assert!(!stderr(&bare).contains("error["), "{}", stderr(&bare));

    run(&mut profinfer(&["lock", "llama", "--target", Engine::Shared.target().to_str().unwrap(), "-o", lock]), 0);
    run(&mut profinfer(&["check", "llama", "--target", stripped, "--lock", lock]), 0);

    let workload = workload("tiny-moe", 1);
    let truth = Engine::Shared.truth(&workload, false).steps;
    let words = Engine::Shared.command(&workload);
    let set = |command: &mut Command| {
        command.env("LD_LIBRARY_PATH", &libraries).arg("--").args(&words);
    };
    let recording = Recording::new("llama", &["--lock", lock], set, 0);
    assert_same("stripped libraries", &recording.work(), &truth);
    recording.assert_complete();
}

/// A Python module that has all of the engine, exports one function and is stripped: its messages tell the steps.
#[test]
#[ignore = "needs root"]
fn a_module_that_hides_its_functions_has_steps() {
    let python = installed("install_cyllama.sh");
    let set = |command: &mut Command| {
        command.arg("--").arg(&python).arg(scripts().join("run_cyllama.py")).arg("--model").arg(model("tiny-dense"));
        command.args(["--device", "CPU", "--prompt-tokens", "11", "--tokens", "5"]);
    };
    let recording = Recording::new("llama", &[], set, 0);
    let steps = recording.work();
    assert_eq!(steps.iter().map(|step| step.tokens).collect::<Vec<_>>(), [11, 1, 1, 1, 1]);
    let site = recording.sites("decode");
    assert!(site.len() == 1 && site.keys().all(|name| name.starts_with("+0x")), "{site:?}");
    // Its clock is read around the same calls.
    let printed: serde_json::Value = serde_json::from_slice(&recording.output.stdout).unwrap();
    let (recorded, spent) = (recording.step_durations().into_iter().sum::<i64>() as f64 / 1e6, &printed["ms"]);
    assert!(recorded < spent.as_f64().unwrap() && recorded > 0.5 * spent.as_f64().unwrap(), "{recorded}, {spent}");
    let missing = recording.report(&[])["completeness"]["notes"].to_string();
    assert!(missing.contains("probe `operator` is not attached"), "{missing}");
}
