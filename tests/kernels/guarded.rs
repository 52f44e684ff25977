//! Functions of code that signs its return addresses and marks where branches may lead, as distributions build arm64
//! programs now: their first instructions are `paciasp` or `bti`, and a processor that has both checks them.

use super::essence::Essence;
use super::layout::{self, profinfer};
use super::machine::{self, Arch, Extra, Machine, run};
use super::{PROBESET, lines, wanted};

/// The newest kernel with the features.
const SERIES: &str = "6.18";
/// Steps, operators and lanes.
const WORDS: &str = "20 6 2";

#[test]
#[ignore = "needs root"]
fn signed_returns_and_guarded_branches_are_recorded_as_others_are() {
    if !wanted(Arch::Arm64).any(|kernel| kernel.series == SERIES) {
        return;
    }
    let folder = layout::lay_out(Arch::Arm64);
    let tools = layout::Tools::of(Arch::Arm64);
    // Of the same name as the other: it is in the trace.
    let guarded = folder.path().join("guarded/toy");
    std::fs::create_dir(guarded.parent().unwrap()).unwrap();
    let flags = ["-DLINKED", "-mbranch-protection=standard"];
    tools.compile(&guarded, &flags, &["toy.c", "toy_engine.c"]);
    let listed = run(profinfer("check").args([PROBESET, "--target"]).arg(&guarded));
    assert!(listed.contains("paciasp") || listed.contains("bti"), "it is built so: {listed}");
    let step = |name: &str, toy: &str| {
        let command = format!("profinfer record {PROBESET} -o /run/{name}.pfi -- {toy} {WORDS}");
        (name.to_owned(), command)
    };
    let features = ("features".to_owned(), "grep -m 1 Features /proc/cpuinfo".to_owned());
    let steps = [features, step("guarded", "/guarded/toy"), step("plain", "/bin/toy")];
    std::fs::write(folder.path().join("steps").join(SERIES), lines(&steps)).unwrap();
    let machine = Machine { arch: Arch::Arm64, series: SERIES, steps: SERIES, extra: Extra::Guards };
    let reported = machine::boot_all(&[machine], folder.path()).remove(0);
    let features = reported.text("features.stdout");
    assert!(features.contains(" paca ") && features.contains(" bti "), "{features}");
    let (guarded, plain) = (Essence::of(reported.trace("guarded", 0)), Essence::of(reported.trace("plain", 0)));
    assert_eq!(guarded.count("operator"), 20 * 6 * 2);
    assert_eq!(guarded, plain);
}
