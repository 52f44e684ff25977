//! Which of a process's files is the engine, and who maps it.

use crate::record::{Run, reported, toys};

const LINKER: &str =
    if cfg!(target_arch = "aarch64") { "/lib/ld-linux-aarch64.so.1" } else { "/lib64/ld-linux-x86-64.so.2" };

/// `ld.so PROGRAM`, as bundles with a C library of their own start programs: the process's program is the linker.
#[test]
#[ignore = "needs root"]
fn a_library_that_a_program_loads_is_recorded_where_its_linker_was_started() {
    let run = Run::new();
    let words = [LINKER, &toys().late(), "20", "6", "2", &toys().load()];
    let output = run.record(&[&["--"], &words[..]].concat());
    let trace = run.read();
    assert_eq!(trace.work(), [20, 20, 240]);
    assert_eq!(trace.work(), reported(&output.stdout));
    trace.assert_whole();
}
