//! A stripped program on a machine with neither clang nor debug information: with an object and a lock that were made
//! here, for another instruction set too, it is recorded as the unstripped one is.

use super::PROBESET;
use super::essence::Essence;
use super::every_kernel;
use super::layout::{Tools, profinfer};
use super::machine::{Arch, Kernel, Step, run};
use std::path::Path;
use std::process::Command;

/// What the toy is given: as for the unstripped one.
const WORDS: &str = "20 6 2";

/// The toy, stripped; its lock, and that of another build.
pub(crate) fn lay_out(tools: &Tools, root: &Path) {
    tools.build(PROBESET, &[], root, "toy.bpf.o");
    let board = root.join("board");
    std::fs::create_dir(&board).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let other = elsewhere.path().join("toy");
    tools.compile(&other, &["-DLINKED", "-fno-inline"], &["toy.c", "toy_engine.c"]);
    for (program, lock) in [(&root.join("bin/toy"), "toy.lock"), (&other, "other.lock")] {
        run(profinfer("lock").args([PROBESET, "--target"]).arg(program).arg("-o").arg(board.join(lock)));
    }
    run(Command::new(&tools.strip).args(["--strip-all", "-o"]).arg(board.join("toy")).arg(root.join("bin/toy")));
}

/// The oldest kernel, and the newest.
fn is_for(kernel: &Kernel) -> bool {
    matches!(kernel.series, "5.10" | "6.18")
}

/// With no compiler to be found, and an empty cache.
pub(crate) fn steps(kernel: &Kernel) -> Vec<Step> {
    if !is_for(kernel) {
        return Vec::new();
    }
    let record = |name: &str, options: &str| {
        let object = format!("--object {}/toy.bpf.o", kernel.objects());
        let nothing = "PATH=/nowhere PROFINFER_CACHE=/run/empty";
        let command = format!("{nothing} /bin/profinfer record {PROBESET} {object}{options} -o /run/{name}.pfi");
        (name.to_owned(), format!("{command} -- /board/toy {WORDS}"))
    };
    vec![
        record("locked", " --lock /board/toy.lock"),
        record("bare", ""),
        record("of_another_build", " --lock /board/other.lock"),
    ]
}

fn a_lock_serves_a_stripped_program(arch: Arch) {
    for (kernel, reported) in every_kernel(arch).into_iter().filter(|(kernel, _)| is_for(kernel)) {
        let series = kernel.series;
        let (locked, whole) = (Essence::of(reported.trace("locked", 0)), Essence::of(reported.trace("linked", 0)));
        assert_eq!(locked.count("operator"), 20 * 6 * 2);
        assert_eq!(locked, whole, "Linux {series}: stripped and not");
        // Without it nothing is found, and that of another build is refused.
        for (name, code) in [("bare", "error[T010]"), ("of_another_build", "error[L002]")] {
            let problems = reported.text(&format!("{name}.stderr"));
            assert!(problems.contains(code), "Linux {series}, {name}: {problems}");
            assert_ne!(reported.text(&format!("{name}.status")).trim(), "0", "Linux {series}, {name}");
        }
    }
}

#[test]
#[ignore = "needs root"]
fn a_lock_serves_a_stripped_program_on_x86_64() {
    a_lock_serves_a_stripped_program(Arch::Amd64);
}

#[test]
#[ignore = "needs root"]
fn a_lock_serves_a_stripped_program_on_arm64() {
    a_lock_serves_a_stripped_program(Arch::Arm64);
}
