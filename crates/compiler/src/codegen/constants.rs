//! The constants of a program that the target decides, with what each is and where its value comes from.

use super::source::{comment, place};
use crate::lessons::is_learnable;
use crate::{Placement, ProbePlan, Program, Provenance, RelocationKind};
use profinfer_probeset::Probeset;
use profinfer_probeset::path::ClassPart;
use serde::Serialize;

#[derive(Debug, Serialize)]
pub(super) struct Constant {
    symbol: String,
    comment: String,
    value: Option<String>,
    /// It may be filled in while the recording runs.
    learned: bool,
}

pub(super) fn constants(plan: &ProbePlan, probeset: &Probeset, placement: Option<&Placement>) -> Vec<Constant> {
    let describe = |what: &RelocationKind| match what {
        RelocationKind::Offset { view, member } => {
            let declared = probeset.types.get(view).and_then(|v| v.members.get(member));
            let ty = declared.map_or_else(String::new, |m| format!(": {}", m.ty.value));
            let at = declared.map_or_else(String::new, |m| format!(", {}", place(&m.name.span)));
            format!("{view}.{member}{ty}{at}")
        }
        RelocationKind::Size { view } => format!("size of {view}"),
        RelocationKind::Shift { view, member } => format!("lowest bit of {view}.{member}"),
        RelocationKind::Strings { module: Some(module) } => format!("layout of strings in {module}"),
        RelocationKind::Strings { module: None } => "layout of strings".to_owned(),
        RelocationKind::Class { of, part: ClassPart::Tag, .. } => format!("what {of} holds is shown by"),
        RelocationKind::Class { of, part: ClassPart::Size, .. } => format!("size of {of}"),
        RelocationKind::Class { of, part: ClassPart::Walk, .. } => format!("how the elements of {of} are reached"),
        RelocationKind::Constant { enumeration, name } => format!("enum {enumeration}: {name}"),
        RelocationKind::Argument { program, argument } => {
            let program = plan.programs.get(*program);
            let signature = program.and_then(Program::signature);
            let name = match signature.and_then(|signature| signature.params.get(*argument)) {
                Some(parameter) => {
                    parameter.name.as_ref().map_or_else(|| argument.to_string(), |name| name.value.clone())
                }
                None => "with the result's address".to_owned(),
            };
            format!("argument {name} of {}", program.map_or("", |p| p.name.as_str()))
        }
        RelocationKind::BlockStart { object } => format!("first byte of {object} that is read"),
        RelocationKind::BlockLength { object } => format!("bytes of {object} that are read"),
        RelocationKind::Absent { record } => {
            format!("absent fields of {}", plan.schema.records.get(*record).map_or("", |record| record.name.as_str()))
        }
    };
    let value = |symbol: &str| placement?.values.iter().find(|value| value.symbol == symbol);
    plan.relocations
        .iter()
        .map(|relocation| {
            let value = value(&relocation.symbol);
            let origin = match value.map(|v| v.provenance) {
                Some(Provenance::Dwarf) => " (debug information)",
                Some(Provenance::Lock) => " (lock file)",
                Some(Provenance::ByHand) => " (probeset)",
                Some(Provenance::Checked) => " (probeset, by a check)",
                Some(Provenance::Accessor) => " (accessor)",
                Some(Provenance::Table) => " (table)",
                Some(Provenance::Abi) => " (calling convention)",
                Some(Provenance::Absent) => " (absent)",
                None => "",
            };
            Constant {
                learned: is_learnable(plan, probeset, &relocation.what),
                symbol: relocation.symbol.clone(),
                comment: comment(&format!(
                    "{}; used at {}{origin}",
                    describe(&relocation.what),
                    place(&relocation.span)
                )),
                value: value.map(|v| v.value.to_string()),
            }
        })
        .collect()
}
