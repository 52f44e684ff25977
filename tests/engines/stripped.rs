//! Engines as systems ship them: stripped. With a lock file that was made of the same build where its debug information
//! is, they are recorded as the unstripped ones are.

use crate::engine::{Engine, workload};
use crate::packages::installed;
use crate::process::{profinfer, run, stderr};
use crate::recording::Recording;
use crate::vulkan_others::{self, Computed, DIFFUSION, IN_ORDER, LLAMA, Run, WHISPER};
use crate::work::assert_same;
use serde_json::Value;
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

/// Python modules that have all of an engine, export one function and are stripped. The steps are found by their messages,
/// and operators by the switch that calls them: they are those of the same release in libraries with names.
#[test]
#[ignore = "needs root"]
fn modules_that_hide_their_functions() {
    let python = installed("install_cyllama.sh");
    let words = ["--device", "CPU", "--prompt-tokens", "11", "--tokens", "5"];
    let on_cpu = ["--gpu-layers", "0"];
    let llama = compare_with_names(&python, "llama", LLAMA, &words);
    let mut steps = llama.table("steps");
    // The row of what is outside of steps.
    steps.retain(|step| step["step"] != 0);
    assert_eq!(steps.iter().map(|step| step["tokens"].as_u64().unwrap()).collect::<Vec<_>>(), [11, 1, 1, 1, 1]);
    // Its clock is read around the same calls.
    let printed: Value = serde_json::from_slice(&llama.output.stdout).unwrap();
    let recorded: f64 = steps.iter().map(|step| step["duration_ns"].as_f64().unwrap() / 1e6).sum();
    let spent = printed["ms"].as_f64().unwrap();
    assert!(recorded < spent && recorded > 0.5 * spent, "{recorded}, {spent}");
    assert!(llama.table("operators").iter().any(|row| row["covers"].is_string()), "none is fused");
    // Programs that call the engine import llama.cpp, too, which has a copy of the same functions.
    let diffusion = compare_with_names(&python, "stable-diffusion", DIFFUSION, &on_cpu);
    assert!(diffusion.verdict().starts_with("Complete: 5 steps, "), "{}", diffusion.verdict());
    // The steps of whisper.cpp are its decoder's, which recur; what the encoder does is outside, and the report has its share.
    let whisper = Run::with(&python, "whisper", WHISPER, &on_cpu);
    let truth = WHISPER.truth(&on_cpu, &[IN_ORDER]).concat();
    let recorded: Vec<(bool, Computed)> =
        whisper.operators().into_iter().map(|(row, operator)| (row["step"] == 0, operator)).collect();
    assert!(recorded.iter().all(|(is_outside, operator)| *is_outside || truth.contains(operator)));
    assert_eq!(recorded.len(), truth.len());
    assert!(whisper.verdict().contains("% of the operators' work is outside of them)"), "{}", whisper.verdict());
}

fn compare_with_names(python: &Path, probeset: &str, engine: vulkan_others::Engine, arguments: &[&str]) -> Run {
    let truth: Vec<Computed> = engine.truth(arguments, &[IN_ORDER]).concat();
    let run = Run::with(python, probeset, engine, arguments);
    let recorded: Vec<Computed> = run.operators().into_iter().map(|(_, operator)| operator).collect();
    for (index, (recorded, truth)) in recorded.iter().zip(&truth).enumerate() {
        assert_eq!(recorded, truth, "{probeset}, operator {index}: recorded (left), the engine's word (right)");
    }
    assert_eq!(recorded.len(), truth.len(), "{probeset}: operators");
    assert!(recorded.iter().any(|operator| operator.op == "MUL_MAT"), "{probeset}: {recorded:?}");
    run
}
