//! Any text is a probeset or a list of problems: no panic, and what is accepted becomes C.
//!
//! `cargo fuzz run probeset fuzz/corpus/probeset probesets`

#![no_main]

use libfuzzer_sys::fuzz_target;
use profinfer::codegen::generate;
use profinfer::diag::render;
use profinfer::plan::{Selection, plan};
use profinfer::spec::{Library, load_text};
use profinfer::target::Arch;

fuzz_target!(|text: &str| {
    let probeset = match load_text("fuzz.yaml", text, &Library::SHIPPED) {
        Ok((probeset, _)) => probeset,
        Err(problems) => return drop(render(&problems, false)),
    };
    for arch in [Arch::X86_64, Arch::Aarch64] {
        match plan(&probeset, &Selection::default(), arch) {
            Ok((plan, _)) => drop(generate(&plan, &probeset, None).expect("a plan becomes C")),
            Err(problems) => drop(render(&problems, false)),
        }
    }
});
