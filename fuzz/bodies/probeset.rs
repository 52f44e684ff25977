//! What becomes of a text that may be a probeset: C for both architectures, or a list of problems.

use profinfer::codegen::generate;
use profinfer::diag::render;
use profinfer::plan::{Selection, plan};
use profinfer::spec::{Library, load_text};
use profinfer::target::Arch;

pub(crate) fn feed(text: &str) {
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
}
