//! Keys of maps are looked up by every kernel: the oldest verifies the loops that visit elements, too.

use super::essence::Essence;
use super::every_kernel;
use super::layout::Tools;
use super::machine::{Arch, Step};
use std::path::Path;

const PROBESET: &str = "tests/targets/looked_up.yaml";
const CALLS: usize = 20;

pub(crate) fn lay_out(tools: &Tools, root: &Path) {
    tools.build(PROBESET, &[], root, "looked_up.bpf.o");
    tools.compile(&root.join("bin/looked_up"), &[], &["looked_up.c"]);
}

pub(crate) fn steps(objects: &str) -> Vec<Step> {
    let object = format!("--object {objects}/looked_up.bpf.o");
    vec![("looked_up".into(), format!("profinfer record {PROBESET} {object} -o /run/looked_up.pfi -- /bin/looked_up"))]
}

fn keys_are_looked_up(arch: Arch) {
    for (kernel, reported) in every_kernel(arch) {
        let essence = Essence::of(reported.trace("looked_up", 0));
        let of = |probe: &str| {
            let lines = essence.threads().iter().flatten().filter(|line| line.starts_with(probe));
            let mut found: Vec<String> =
                lines.map(|line| line.split(' ').skip(3).collect::<Vec<_>>().join(" ")).collect();
            found.sort();
            found
        };
        let fields = |key: usize| format!("tokens={key} group=71 longest=72 square={} size=31 none=0", key * key);
        let mut expected: Vec<String> = (1..=CALLS).map(fields).collect();
        expected.sort();
        assert_eq!(of("step "), expected, "Linux {}", kernel.series);
        let squares = of("squares ");
        assert_eq!(squares.len(), CALLS, "Linux {}", kernel.series);
        assert!(
            squares.iter().all(|line| line.starts_with("all=0,1,4,9,16,") && line.ends_with(",900")),
            "Linux {}: {squares:?}",
            kernel.series
        );
    }
}

#[test]
#[ignore = "needs root"]
fn keys_are_looked_up_on_x86_64() {
    keys_are_looked_up(Arch::Amd64);
}

#[test]
#[ignore = "needs root"]
fn keys_are_looked_up_on_arm64() {
    keys_are_looked_up(Arch::Arm64);
}
