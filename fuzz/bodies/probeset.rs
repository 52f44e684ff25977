//! What becomes of a text that may be a probeset: C for both architectures, or a list of problems.

use profinfer_binary::Arch;
use profinfer_compiler::codegen::generate;
use profinfer_compiler::{Selection, plan};
use profinfer_diagnostics::render;
use profinfer_probeset::{Library, load_text};

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
