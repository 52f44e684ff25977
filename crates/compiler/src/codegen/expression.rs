//! Expressions of the probeset as C, each on one line that ends with its place in the YAML.

use super::pieces::Written;
use super::source::origin;
use crate::{Action, ProbePlan, RelocationKind};
use profinfer_probeset::path::c::{Store, Symbols, store};
use profinfer_probeset::path::{Checked, ClassPart, Place, Type};
use profinfer_schema::FieldType;

/// Names of constants, for the expressions of one program or object.
#[derive(Clone, Copy)]
pub(super) struct Names<'p> {
    pub(super) plan: &'p ProbePlan,
    pub(super) program: Option<usize>,
    /// Values that are read once per hit.
    pub(super) pieces: Option<&'p Written>,
    /// The action whose arguments were saved for the return, where that is when the expression is read.
    pub(super) saved: Option<&'p Action>,
}

impl Names<'_> {
    fn symbol(&self, what: &RelocationKind) -> String {
        // The plan has collected every constant that its expressions use; a name that is not there does not compile.
        self.plan.symbol(what).unwrap_or("missing_constant").to_owned()
    }

    /// The module of the program's functions.
    fn module(&self) -> Option<String> {
        let program = self.program.and_then(|program| self.plan.programs.get(program));
        program.and_then(|program| program.module()).map(str::to_owned)
    }

    /// The object that a virtual method is called on, if the program is at one and reads it.
    pub(super) fn method_object(&self) -> Option<String> {
        let program = self.program?;
        let is_virtual = matches!(self.plan.programs.get(program)?.place, Place::Virtual { .. });
        let this = self.plan.symbol(&RelocationKind::Argument { program, argument: 0 });
        is_virtual.then_some(this).flatten().map(|this| format!("pf_argument(call, {this})"))
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

    fn enclosing(&mut self, index: usize) -> String {
        let program = self.program.and_then(|program| self.plan.programs.get(program));
        let probe = program.and_then(|program| program.enclosing.as_deref());
        let of_probe = |action: &&Action| Some(action.probe.as_str()) == probe && !action.saved.is_empty();
        match self.plan.programs.iter().flat_map(|program| &program.actions).find(of_probe) {
            Some(Action { probe, shape, .. }) => format!("PF_ENCLOSING({probe}, {}, {index})", shape.frames()),
            // It is not recorded.
            None => "pf_not_enclosed(call)".to_owned(),
        }
    }

    fn shift(&mut self, view: &str, member: &str) -> String {
        self.symbol(&RelocationKind::Shift { view: view.to_owned(), member: member.to_owned() })
    }

    fn strings(&mut self) -> String {
        self.symbol(&RelocationKind::Strings { module: self.module() })
    }

    fn class(&mut self, of: &Type, part: ClassPart) -> String {
        self.symbol(&RelocationKind::Class { of: of.clone(), part, module: self.module() })
    }

    fn saved(&mut self, argument: usize) -> Option<String> {
        let action = self.saved?;
        let number = action.saved.iter().position(|saved| *saved == argument)?;
        let (probe, frames) = (&action.probe, action.shape.frames());
        let of_call = format!("PF_SAVED_OF(call, {probe}, {frames}, call->thread->spans.{probe}.depth)");
        Some(format!("pf_saved(call, {of_call}, {number})"))
    }

    fn piece(&mut self, memory: &Checked) -> Option<String> {
        self.pieces?.name(memory, self)
    }
}

/// The statement that fills a field of `record`.
pub(super) fn field(index: usize, member: &str, ty: &FieldType, value: &Checked, mut names: Names<'_>) -> String {
    let statement = match (store(value, member, &mut names), ty) {
        (Store::Value(value), _) => format!("PF_FIELD({index}, {member}, {value});"),
        (Store::Fill(call), FieldType::List(..)) => format!("PF_LIST({index}, {member}, {call});"),
        (Store::Fill(call), _) => format!("PF_FILL({index}, {member}, {call});"),
        (Store::Elements(values), _) => {
            let stores = values.iter().enumerate().map(|(at, value)| format!("record->{member}[{at}] = {value}"));
            format!("PF_ELEMENTS({index}, {member}, {});", stores.collect::<Vec<_>>().join(", "))
        }
    };
    format!("{statement} {}", origin(&value.span))
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
