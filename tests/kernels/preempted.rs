//! Threads that the kernel takes turns with in the middle of a probe's program, on one processor: nothing of one is in
//! another's records, and no record is gone.

use super::essence::Essence;
use super::machine::{Arch, Kernel, Step};
use super::{PROBESET, every_kernel};

const STEPS: u64 = 200;
const OPERATORS: u64 = 12;
const LANES: u64 = 4;

/// All lanes take the processor from each other, and most of their time is programs'. Older kernels have programs' stacks
/// on the threads, and are not made to preempt themselves.
pub(crate) fn steps(kernel: &Kernel) -> Vec<Step> {
    if !kernel.session {
        return Vec::new();
    }
    let toy = format!("busybox taskset 1 /bin/toy {STEPS} {OPERATORS} {LANES}");
    let command = format!("TOY_WORK=1 profinfer record {PROBESET} --sample off -o /run/preempted.pfi -- {toy}");
    vec![("preempted".to_owned(), command)]
}

fn threads_have_their_own_records(arch: Arch) {
    for (Kernel { series, .. }, reported) in every_kernel(arch).into_iter().filter(|(kernel, _)| kernel.session) {
        let essence = Essence::of(reported.trace("preempted", 0));
        let operators = STEPS * OPERATORS * LANES;
        let counted = format!("parent {STEPS} steps {STEPS} graphs {operators} operators");
        assert_eq!(reported.text("preempted.stdout").trim(), counted);
        let of = |name| essence.count(name);
        // A third of the operators are additions, and lane 0 alone marks.
        let marks = STEPS * OPERATORS * 2 / 3;
        assert_eq!(["step", "operator", "experts"].map(of), [STEPS, operators, marks], "Linux {series}");
        for records in essence.threads() {
            let lanes = records.iter().filter_map(|record| record.split("lane=").nth(1)?.split(' ').next());
            let lanes: std::collections::BTreeSet<&str> = lanes.collect();
            assert!(lanes.len() <= 1, "Linux {series}: one thread has {lanes:?}");
        }
    }
}

#[test]
#[ignore = "needs root"]
fn threads_have_their_own_records_on_x86_64() {
    threads_have_their_own_records(Arch::Amd64);
}

#[test]
#[ignore = "needs root"]
fn threads_have_their_own_records_on_arm64() {
    threads_have_their_own_records(Arch::Arm64);
}
