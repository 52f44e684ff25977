//! From a plan to C, through the template in `templates/` and the fixed runtime in `bpf-runtime/`. Most logic is in
//! the runtime; what is generated are tables, record layouts, and a small function for each expression.

mod beginning;
mod bpftrace;
mod constants;
mod counting;
mod expression;
mod pieces;
mod program;
mod source;
mod steps;

pub use bpftrace::bpftrace;
pub use source::{RUNTIME, origin_of};

use crate::{Placement, ProbePlan};
use handlebars::Handlebars;
use profinfer_binary::Arch;
use profinfer_diagnostics::{Code, Diagnostic};
use profinfer_probeset::Probeset;

/// A C program. It includes the runtime and nothing else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CSource {
    /// The file name of its lines.
    pub name: String,
    /// The text.
    pub text: String,
    /// What it is compiled for.
    pub arch: Arch,
}

impl CSource {
    /// The program as one text that includes nothing: what the compiler gets.
    pub fn standalone(&self) -> String {
        source::standalone(&self.text, &self.name)
    }
}

/// Writes the program of a plan; with a placement, its constants have the target's values.
///
/// # Errors
/// `X001` where template and data do not fit: a fault of profinfer.
pub fn generate(plan: &ProbePlan, probeset: &Probeset, placement: Option<&Placement>) -> Result<CSource, Diagnostic> {
    let name = format!("{}.bpf.c", probeset.name);
    let bug = |error: &dyn std::fmt::Display| Diagnostic::error(Code::Bug, format!("the C template: {error}"));
    let mut handlebars = Handlebars::new();
    handlebars.set_strict_mode(true);
    handlebars.register_escape_fn(handlebars::no_escape);
    handlebars
        .register_template_string("program", include_str!("../../templates/program.c.hbs"))
        .map_err(|error| bug(&error))?;
    let data = program::data(plan, probeset, placement);
    let text = handlebars.render("program", &data).map_err(|error| bug(&error))?;
    Ok(CSource { text, name, arch: plan.arch })
}
