//! What functions return, in expressions: which of them need it, and whether it can be had with the rest. It knows
//! nothing of programs and sites.

use super::abi::result_is_found;
use crate::diag::{Code, Diagnostic};
use crate::path::{Base, Checked, Expr, ExprKind, Node, Signature};
use crate::spec::Probe;
use crate::target::Arch;

/// Whether a value is known only when the function returns.
pub(super) fn uses_result(checked: &Checked) -> bool {
    any(checked, &|part| matches!(part.node, Node::Return))
}

/// Whether a probe has such a value.
pub(super) fn reads_result(probe: &Probe) -> bool {
    let mut stack: Vec<&Expr> = probe.fields.values().map(|field| &field.value).collect();
    stack.extend(probe.describes.iter().map(|describes| &describes.address));
    while let Some(expr) = stack.pop() {
        if expr.kind == ExprKind::Return {
            return true;
        }
        stack.extend(expr.children());
    }
    false
}

/// The value itself.
///
/// # Errors
/// It needs what is not there at one time: arguments are gone when the function returns, and where a returned class is
/// may be.
pub(super) fn can_be_had(value: Checked, arch: Arch, signature: &Signature) -> Result<Checked, Diagnostic> {
    if !uses_result(&value) {
        return Ok(value);
    }
    if uses_entry(&value) {
        return Err(Diagnostic::error(Code::NotSupportedYet, "arguments and the result cannot be used together yet")
            .at(&value.span)
            .hint("the arguments' registers are gone when the function returns; record both as fields of their own"));
    }
    if !result_is_found(arch, signature) {
        let message = format!("on {arch} nothing says where a returned class is when the function has returned");
        return Err(Diagnostic::error(Code::ArgumentPlace, message)
            .at(&value.span)
            .hint("read it where it is an argument of a later call, or leave the field out"));
    }
    Ok(value)
}

fn uses_entry(checked: &Checked) -> bool {
    let by_value = |part: &Checked| part.place().is_some_and(|(memory, _)| matches!(memory.base, Base::Argument(_)));
    any(checked, &|part| by_value(part) || matches!(part.node, Node::Argument(_)))
}

fn any(checked: &Checked, test: &dyn Fn(&Checked) -> bool) -> bool {
    let mut found = false;
    checked.visit(&mut |part| found |= test(part));
    found
}
