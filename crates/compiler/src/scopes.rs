//! What the expressions of a probe may use at its place: arguments, captures, and the result.

use super::abi::hidden_result;
use super::model::Shape;
use profinfer_binary::Arch;
use profinfer_diagnostics::Spanned;
use profinfer_probeset::path::{AttachPoint, Place, Scope, Signature, Type};
use profinfer_probeset::{Probe, Probeset};

/// What [`scope_of`] gives, of a span of this shape: one that another probe ends has no result.
pub(super) fn scope_at<'s>(
    (probeset, arch): (&'s Probeset, Arch),
    root: &Probe,
    signature: &Signature,
    shape: &Shape,
) -> Scope<'s> {
    let scope = scope_of(probeset, arch, root, signature);
    if matches!(shape, Shape::Until { .. }) { Scope { returns: None, ..scope } } else { scope }
}

/// What the fields of a probe at a place of `root` may use. Where one of its alternatives has fewer captures than
/// another, the field is missing there.
pub(super) fn scope_of<'s>(probeset: &'s Probeset, arch: Arch, root: &Probe, signature: &Signature) -> Scope<'s> {
    let captures_of = |at: &AttachPoint| match &at.place {
        Place::Function { pattern, .. } => pattern.captures(),
        Place::Virtual { .. } => 1,
        _ => 0,
    };
    let captures = root.at.iter().map(captures_of).max().unwrap_or_default();
    let argument = |p: &profinfer_probeset::path::Param| (p.name.as_ref().map(|n| n.value.clone()), p.ty.value.clone());
    // What is returned in memory is given back by its address.
    let result = |ty: &Spanned<Type>| match signature.in_memory {
        true => Type::Reference(Box::new(ty.value.clone())),
        false => ty.value.clone(),
    };
    Scope {
        definitions: probeset,
        arguments: signature.params.iter().map(argument).collect(),
        returns: signature.returns.as_ref().map(result),
        result_argument: hidden_result(arch, signature),
        object: None,
        captures,
    }
}
