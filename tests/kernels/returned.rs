//! Members of what a function returns in memory: x86-64 gives the place back, arm64 does not.

use super::essence::Essence;
use super::every_kernel;
use super::layout::Tools;
use super::machine::{Arch, Step};
use std::path::Path;

const PROBESET: &str = "tests/targets/returned.yaml";
const CALLS: usize = 20;

pub(crate) fn lay_out(tools: &Tools, root: &Path) {
    tools.build(PROBESET, &[], root, "returned.bpf.o");
    tools.compile(&root.join("bin/returned"), &[], &["returned.c"]);
}

pub(crate) fn steps(objects: &str) -> Vec<Step> {
    let object = format!("--object {objects}/returned.bpf.o");
    vec![("returned".into(), format!("profinfer record {PROBESET} {object} -o /run/returned.pfi -- /bin/returned"))]
}

fn members_of_a_result_are_read(arch: Arch) {
    for (kernel, reported) in every_kernel(arch) {
        let essence = Essence::of(reported.trace("returned", 0));
        let steps = essence.threads().iter().flatten().filter(|line| line.starts_with("step "));
        let mut found: Vec<String> = steps.map(|line| line.split(' ').skip(3).collect::<Vec<_>>().join(" ")).collect();
        let mut expected: Vec<String> =
            (1..=CALLS).map(|n| format!("tokens={n} number={n} square={}", n * n)).collect();
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "Linux {}", kernel.series);
    }
}

#[test]
#[ignore = "needs root"]
fn members_of_a_result_are_read_on_x86_64() {
    members_of_a_result_are_read(Arch::Amd64);
}

#[test]
#[ignore = "needs root"]
fn members_of_a_result_are_read_on_arm64() {
    members_of_a_result_are_read(Arch::Arm64);
}
