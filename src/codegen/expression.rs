//! A small C function for each expression of the spec, so that the compiler's and the verifier's messages about it name
//! its line in the YAML.

use super::pieces::Pieces;
use super::source::{LINE_HERE, comment, line_of};
use crate::path::c::{Symbols, condition, store};
use crate::path::{Checked, Type};
use crate::plan::{Action, ProbePlan, RelocationKind};
use crate::trace::FieldType;

/// Names of constants, for the expressions of one program or object.
pub(super) struct Names<'p> {
    pub(super) plan: &'p ProbePlan,
    pub(super) program: Option<usize>,
    /// What is read once a hit.
    pub(super) pieces: Option<&'p Pieces>,
    /// What was kept for the return, where that is when it is read.
    pub(super) kept: Option<&'p Action>,
}

impl Names<'_> {
    fn symbol(&self, what: &RelocationKind) -> String {
        // The plan has collected every constant that its expressions use; a name that is not there does not compile.
        self.plan.symbol(what).unwrap_or("missing_constant").to_owned()
    }
}

impl Symbols for Names<'_> {
    fn offset(&mut self, view: &str, member: &str) -> String {
        self.symbol(&RelocationKind::Offset { view: view.to_owned(), member: member.to_owned() })
    }

    fn size(&mut self, view: &str) -> String {
        self.symbol(&RelocationKind::Size { view: view.to_owned() })
    }

    fn constant(&mut self, enumeration: &str, name: &str) -> String {
        let (enumeration, name) = (enumeration.to_owned(), name.to_owned());
        self.symbol(&RelocationKind::Constant { enumeration, name })
    }

    fn argument(&mut self, index: usize) -> String {
        self.symbol(&RelocationKind::Argument { program: self.program.unwrap_or_default(), argument: index })
    }

    fn shift(&mut self, view: &str, member: &str) -> String {
        self.symbol(&RelocationKind::Shift { view: view.to_owned(), member: member.to_owned() })
    }

    fn strings(&mut self) -> String {
        let program = self.program.and_then(|program| self.plan.programs.get(program));
        let module = program.and_then(|program| program.module()).map(str::to_owned);
        self.symbol(&RelocationKind::Strings { module })
    }

    fn kept(&mut self, argument: usize) -> Option<String> {
        let action = self.kept?;
        let number = action.kept.iter().position(|kept| *kept == argument)?;
        let (probe, frames) = (&action.probe, action.shape.frames());
        Some(format!("pf_kept(call, PF_KEPT_OF(call, {probe}, {frames}, call->thread->spans.{probe}.depth), {number})"))
    }

    fn piece(&mut self, memory: &Checked) -> Option<String> {
        self.pieces?.function(memory, self.plan, self.program)
    }
}

/// A function that stores a field's value; 0, or -1 where it cannot be read.
pub(super) fn field_function(name: &str, value: &Checked, ty: &FieldType, mut names: Names<'_>) -> String {
    let body = store(value, &mut names);
    let declared = pointer_to(ty, value);
    function(&format!("static __always_inline long {name}(struct pf_call *call, {declared})"), &body, value)
}

/// A function that tells whether a condition holds: 1 or 0, or -1 where it cannot be read.
pub(super) fn condition_function(name: &str, value: &Checked, mut names: Names<'_>) -> String {
    let body = condition(value, &mut names);
    function(&format!("static __always_inline long {name}(struct pf_call *call)"), &body, value)
}

pub(super) fn function(head: &str, body: &[String], value: &Checked) -> String {
    let line = line_of(&value.span);
    let text = comment(value.span.text());
    // Every line of the function is the expression's line in the YAML.
    let body = if body.len() <= 2 {
        format!("{head} {{ {} }}", body.join(" "))
    } else {
        let lines: Vec<String> = body.iter().map(|statement| format!("{line}\n\t{statement}")).collect();
        format!("{head} {{\n{}\n{line}\n}}", lines.join("\n"))
    };
    format!("/* {text} */\n{line}\n{body}\n{LINE_HERE}")
}

/// A field's declaration in its record.
pub(super) fn member(name: &str, ty: &FieldType) -> String {
    match ty {
        FieldType::Text(n) | FieldType::Hex(n) => format!("char {name}[{n}]"),
        FieldType::Array(of, n) => format!("{}[{n}]", member(name, of)),
        FieldType::List(of, max) => {
            format!(
                "struct {{\n\t\t__u32 count;\n\t\t__u32 total;\n\t\t{}[{max}];\n\t}} {name} __attribute__((aligned(8)))",
                member("elements", of)
            )
        }
        ty => format!("{} {name}", scalar(ty)),
    }
}

/// The parameter that a field is stored through.
fn pointer_to(ty: &FieldType, value: &Checked) -> String {
    match (ty, &value.ty) {
        (FieldType::List(of, max), _) => {
            // The record's own list type has no name; this one is laid out alike.
            format!("struct {{ __u32 count; __u32 total; {}[{max}]; }} *field", member("elements", of))
        }
        (FieldType::Text(_), Type::CStr(_) | Type::StdString(_)) => "char *field".to_owned(),
        (FieldType::Text(n) | FieldType::Hex(n), _) => format!("char (*field)[{n}]"),
        (FieldType::Array(..), _) => member("(*field)", ty),
        (ty, _) => format!("{} *field", scalar(ty)),
    }
}

fn scalar(ty: &FieldType) -> &'static str {
    match ty {
        FieldType::Int(1) => "__s8",
        FieldType::Int(2) => "__s16",
        FieldType::Int(4) | FieldType::Enum(_) => "__s32",
        FieldType::Int(_) => "__s64",
        FieldType::Uint(1) | FieldType::Bool => "__u8",
        FieldType::Uint(2) | FieldType::Scaled => "__u16",
        FieldType::Uint(4) | FieldType::Float(4) => "__u32",
        _ => "__u64",
    }
}
