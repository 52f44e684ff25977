//! What becomes of bytes that may be a lock: it says what it says of a target, on which a probeset is placed.

use profinfer_binary::{Arch, FakeTarget, Lock};
use profinfer_compiler::{PlacementOptions, ProbePlan, Selection, place as place_plan, plan};
use profinfer_diagnostics::render;
use profinfer_probeset::{Library, Probeset, load_text};
use std::sync::LazyLock;

static PLANS: LazyLock<[(&str, Probeset, ProbePlan); 2]> = LazyLock::new(|| {
    let planned = |program, text| {
        let (probeset, _) = load_text("probeset.yaml", text, &Library::SHIPPED).expect("a probeset");
        let (plan, _) = plan(&probeset, &Selection::default(), Arch::X86_64).expect("a plan");
        (program, probeset, plan)
    };
    [
        planned("toy", include_str!("../../tests/targets/toy.yaml")),
        planned("inlined", include_str!("../../tests/targets/inlined.yaml")),
    ]
});

pub(crate) fn feed(bytes: &[u8]) {
    let lock = match Lock::parse("fuzz.lock", bytes) {
        Ok(lock) => lock,
        Err(problem) => return drop(render(&problem.into(), false)),
    };
    assert_eq!(Lock::parse("fuzz.lock", lock.to_text().as_bytes()).as_ref(), Ok(&lock));
    for (program, probeset, plan) in &*PLANS {
        // A stripped program full of `push %rbx`, where a probe can be anywhere; its build-id is the seeds'.
        let target = FakeTarget::new(Arch::X86_64).file(program).function("all", 0, &[0x53; 0x4000]);
        let (_, problems) =
            place_plan(plan, probeset, &target, PlacementOptions { lock: Some(&lock), ..PlacementOptions::default() });
        drop(render(&problems, false));
    }
}
