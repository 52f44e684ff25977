//! Emulated machines boot kernels from 5.10 to 6.18, on x86-64 and arm64, and record there in the best way each has. The
//! traces must be the same and have the toy's own counts; the shipped probeset must be let in by the oldest kernel; a
//! stripped program must be recorded with an object and a lock that were made elsewhere; counts must be the spans' own on a
//! processor that counts. Needs no root, but
//! Debian's archive the first time (`tests/kernels/get.sh`), a C compiler and clang. Nothing is skipped: a machine that
//! cannot be started is a failure.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test says what went wrong by panicking")]

mod arm64_wheels;
mod counting;
mod drivers;
mod essence;
mod guarded;
mod layout;
mod locked;
mod looked_up;
mod machine;
mod preempted;
mod returned;
mod same;
mod sampled;
mod shipped;

use machine::{Arch, Extra, KERNELS, Kernel, Machine, MachineOutput, Step};
use std::fmt::Write;
use std::sync::OnceLock;

pub(crate) const ROOT: &str = env!("CARGO_MANIFEST_DIR");
/// In the machines too, so that the objects made here are found there.
pub(crate) const PROBESET: &str = "tests/targets/toy_kernels.yaml";

/// What all machines of an architecture reported; they boot once for all tests.
pub(crate) fn every_kernel(arch: Arch) -> Vec<(&'static Kernel, &'static MachineOutput)> {
    static OUTPUTS: [OnceLock<Vec<MachineOutput>>; 2] = [const { OnceLock::new() }; 2];
    let reported = OUTPUTS[usize::from(arch == Arch::Arm64)].get_or_init(|| {
        let folder = layout::lay_out(arch);
        for kernel in &KERNELS {
            let counting = counting::steps_without(kernel);
            let by_object = [returned::steps(kernel.objects()), looked_up::steps(kernel.objects())].concat();
            let own = [sampled::steps(), preempted::steps(kernel), by_object].concat();
            let steps = [same::steps(), own, shipped::steps(kernel), locked::steps(kernel), counting];
            std::fs::write(folder.path().join("steps").join(kernel.series), lines(&steps.concat())).unwrap();
        }
        let machine =
            |kernel: &Kernel| Machine { arch, series: kernel.series, steps: kernel.series, extra: Extra::None };
        machine::boot_all(&wanted(arch).map(machine).collect::<Vec<_>>(), folder.path())
    });
    let of =
        |kernel: &'static Kernel| (kernel, reported.iter().find(|reported| reported.series == kernel.series).unwrap());
    wanted(arch).map(of).collect()
}

/// Each kernel on one of its architectures; or on both, those that PROFINFER_KERNELS names, or `all`.
fn wanted(arch: Arch) -> impl Iterator<Item = &'static Kernel> {
    let chosen = std::env::var_os("PROFINFER_KERNELS").is_some();
    KERNELS.iter().filter(move |kernel| is_wanted(kernel.series) && (chosen || kernel.arch == arch))
}

/// Whether a kernel is to be booted, for who works on one.
fn is_wanted(series: &str) -> bool {
    std::env::var("PROFINFER_KERNELS").map_or(true, |named| named == "all" || named.split(' ').any(|one| one == series))
}

/// The file that `init` reads.
fn lines(steps: &[Step]) -> String {
    steps.iter().fold(String::new(), |mut lines, (name, command)| {
        writeln!(lines, "{name} {command}").unwrap();
        lines
    })
}
