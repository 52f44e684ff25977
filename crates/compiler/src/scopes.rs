//! What the expressions of a probe may use at its place: arguments, captures, and the result.

use super::abi::hidden_result;
use super::model::Shape;
use profinfer_binary::Arch;
use profinfer_diagnostics::{Code, Diagnostic, Spanned};
use profinfer_probeset::path::{AttachPoint, Place, Scope, Signature, Type};
use profinfer_probeset::{Probe, Probeset};
use profinfer_schema::Role;

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
        enclosing: enclosing_arguments(probeset, root),
        returns: signature.returns.as_ref().map(result),
        result_argument: hidden_result(arch, signature),
        object: None,
        captures,
    }
}

/// What a probe may read of the call that encloses it: the named arguments of that probe's function, by name.
pub(super) fn enclosing_arguments(probeset: &Probeset, probe: &Probe) -> Vec<(String, Type)> {
    let enclosing = probe.enclosing.as_ref().and_then(|name| probeset.probes.get(&name.value));
    let signature = enclosing.and_then(|probe| probe.at.first()).and_then(|at| at.place.signature());
    signature.map(readable_arguments).unwrap_or_default()
}

/// The arguments of a signature that are numbers or pointers, by name.
pub(super) fn readable_arguments(signature: &Signature) -> Vec<(String, Type)> {
    let readable = |param: &profinfer_probeset::path::Param| {
        let ty = &param.ty.value;
        let is_value = !matches!(ty, Type::View(_) | Type::Float { .. }) && !ty.is_passed_by_address();
        Some((param.name.as_ref().filter(|_| is_value)?.value.clone(), ty.clone()))
    };
    let mut arguments: Vec<(String, Type)> = signature.params.iter().filter_map(readable).collect();
    arguments.sort_by(|(one, _), (other, _)| one.cmp(other));
    arguments
}

/// Why a probe cannot read arguments of the call that its `enclosing` names.
pub(super) fn enclosing_problem(probeset: &Probeset, probe: &Probe) -> Option<Diagnostic> {
    let name = probe.enclosing.as_ref()?;
    let enclosing = probeset.probes.get(&name.value)?;
    let spans_its_call =
        |at: &AttachPoint| matches!(at.place, Place::Function { .. }) && at.place.is_call() && at.until.is_empty();
    let is_instant = matches!(
        enclosing.role.value,
        Role::Mark | Role::Experts | Role::Batch | Role::Request | Role::Device | Role::Boundary
    );
    let problem =
        |message: String, hint: &str| Some(Diagnostic::error(Code::RolePlace, message).at(&name.span).hint(hint));
    if is_instant || !enclosing.at.iter().all(spans_its_call) || name.value == probe.name.value {
        return problem(
            format!("`{}` does not span the call of a function", name.value),
            "name a probe of role `step`, `graph`, `operator` or `region` at a function, without `until`",
        );
    }
    let arguments = |at: &AttachPoint| at.place.signature().map(readable_arguments).unwrap_or_default();
    let (first, others) = enclosing.at.split_first()?;
    if arguments(first).is_empty() || others.iter().any(|at| arguments(at) != arguments(first)) {
        return problem(
            format!("the arguments of `{}` cannot be read here", name.value),
            "name numbers or pointers among its arguments, the same in each alternative of `at`",
        );
    }
    None
}
