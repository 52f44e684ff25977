//! A slot is found by the time that its calls take: in few steps only where nothing else runs. These need root (or CAP_BPF
//! and CAP_PERFMON), a C++ compiler and clang.

use crate::slots::{Engine, assert_computed};

#[test]
#[ignore = "needs root"]
fn a_short_run_is_enough_to_find_the_slot() {
    let engine = Engine::new(&["-DORDER=1"]);
    let (output, calls, _) = engine.record(&[], "4");
    assert_computed(&calls, &output, 4);
}
