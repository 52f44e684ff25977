//! What is available only when a function returns: which expressions need it, whether it can be had with the rest, and
//! which arguments must be saved until then. It is independent of programs and sites.

use super::abi::result_is_found;
use super::model::FieldPlan;
use profinfer_binary::Arch;
use profinfer_diagnostics::{Code, Diagnostic};
use profinfer_probeset::Probe;
use profinfer_probeset::path::{Base, Checked, Node, Signature};
use std::collections::BTreeSet;

/// Whether a value is available only when the function returns.
pub(super) fn uses_result(checked: &Checked) -> bool {
    any(checked, &|part| matches!(part.node, Node::Return))
}

/// Whether a probe has such a value, or one that is to be read then.
pub(super) fn reads_result(probe: &Probe) -> bool {
    let of_fields = probe.fields.values().any(|field| field.at_return || field.value.names_result());
    of_fields || probe.describes.as_ref().is_some_and(|describes| describes.address.names_result())
}

/// The value itself.
///
/// # Errors
/// It needs what is not there at one time: structs that were arguments are gone when the function returns, and where a
/// returned class is may be.
pub(super) fn can_be_had(
    value: Checked,
    at_return: bool,
    arch: Arch,
    signature: &Signature,
) -> Result<Checked, Diagnostic> {
    if !at_return && !uses_result(&value) {
        return Ok(value);
    }
    if any(&value, &|part| part.place().is_some_and(|(memory, _)| matches!(memory.base, Base::Argument(_)))) {
        let message = "a struct that is passed by value cannot be read at the return yet";
        return Err(Diagnostic::error(Code::NotSupportedYet, message)
            .at(&value.span)
            .hint("it is gone when the function returns; record it as a field of its own, at the entry"));
    }
    if uses_result(&value) && !result_is_found(arch, signature) {
        let message = format!("on {arch} the place of a returned class cannot be determined after the return");
        return Err(Diagnostic::error(Code::ArgumentPlace, message)
            .at(&value.span)
            .hint("read it where it is an argument of a later call, or leave the field out"));
    }
    Ok(value)
}

/// The arguments whose values at the entry are needed at the return, where their registers are gone; by name, so that they
/// are saved alike whichever alternative was entered: one that ends with a jump to another returns as that one.
pub(super) fn saved(fields: &[FieldPlan], signature: &Signature) -> Vec<usize> {
    let mut saved = BTreeSet::new();
    for field in fields.iter().filter(|field| field.at_return) {
        field.value.visit(&mut |part| {
            if let Node::Argument(index) = part.node {
                saved.insert(index);
            }
        });
    }
    let mut saved: Vec<usize> = saved.into_iter().collect();
    saved.sort_by_key(|index| {
        signature.params.get(*index).and_then(|param| param.name.as_ref()).map(|name| &name.value)
    });
    saved
}

fn any(checked: &Checked, test: &dyn Fn(&Checked) -> bool) -> bool {
    let mut found = false;
    checked.visit(&mut |part| found |= test(part));
    found
}
