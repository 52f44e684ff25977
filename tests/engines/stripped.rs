//! Engines as systems ship them: stripped. With a lock file that was made of the same build where its debug information
//! is, they are recorded as the unstripped ones are.

use crate::engine::{Engine, workload};
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
