//! What is available only when a function returns: which expressions need it, whether it can be had with the rest, and
//! which arguments must be saved until then. It is independent of programs and sites.

use super::model::FieldPlan;
use super::scopes::readable_arguments;
use profinfer_diagnostics::{Code, Diagnostic};
use profinfer_probeset::path::{Base, Checked, Node, Signature, Type};
use profinfer_probeset::{Field, Probe};
use std::collections::BTreeSet;

/// Whether a field is read when the function returns: it says so, or has the result in it.
pub(super) fn is_of_return(field: &Field) -> bool {
    field.at_return || field.value.names_result()
}

/// Whether something of a probe is read when the function returns.
pub(super) fn reads_result(probe: &Probe) -> bool {
    let of_fields = probe.fields.values().any(is_of_return);
    of_fields || probe.describes.as_ref().is_some_and(|describes| describes.at_return)
}

/// The value itself.
///
/// # Errors
/// It needs what is not there at one time: structs that were arguments are gone when the function returns.
pub(super) fn can_be_had(value: Checked, at_return: bool) -> Result<Checked, Diagnostic> {
    let is_struct = |part: &Checked| part.place().is_some_and(|(memory, _)| matches!(memory.base, Base::Argument(_)));
    if at_return && any(&value, &is_struct) {
        let message = "a struct that is passed by value cannot be read at the return yet";
        return Err(Diagnostic::error(Code::NotSupportedYet, message)
            .at(&value.span)
            .hint("it is gone when the function returns; record it as a field of its own, at the entry"));
    }
    Ok(value)
}

/// The arguments whose values at the entry are needed at the return, where their registers are gone; by name, so that they
/// are saved alike whichever alternative was entered: one that ends with a jump to another returns as that one. With
/// `encloses`, those that probes within the call may read come before them, in their scope's order.
pub(super) fn saved(fields: &[FieldPlan], signature: &Signature, encloses: bool) -> Vec<usize> {
    let name =
        |index: &usize| signature.params.get(*index).and_then(|param| param.name.as_ref()).map(|name| &name.value);
    let within = if encloses { readable_arguments(signature) } else { Vec::new() };
    let index_of = |(argument, _): &(String, Type)| (0..signature.params.len()).find(|at| name(at) == Some(argument));
    let mut saved: Vec<usize> = within.iter().filter_map(index_of).collect();
    let mut at_return = BTreeSet::new();
    for field in fields.iter().filter(|field| field.at_return) {
        field.value.visit(&mut |part| {
            if let Node::Argument(index) = part.node {
                at_return.insert(index);
            }
        });
    }
    let mut further: Vec<usize> = at_return.into_iter().filter(|index| !saved.contains(index)).collect();
    further.sort_by_key(name);
    saved.append(&mut further);
    saved
}

fn any(checked: &Checked, test: &dyn Fn(&Checked) -> bool) -> bool {
    let mut found = false;
    checked.visit(&mut |part| found |= test(part));
    found
}
