//! How many elements a slice has: what is written beside it, and what its array or vector allows.

use super::ast::{Expr, Rows, Type};
use super::checked::{Checked, Memory, Node};
use super::numbers::is_address;
use profinfer_diagnostics::{Code, Diagnostic, Span, Spanned};

/// Most elements that one field may hold.
pub const MAX_ELEMENTS: u64 = 4096;

pub(super) struct Bounds<'e> {
    pub(super) from: Option<&'e Expr>,
    pub(super) to: Option<&'e Expr>,
    pub(super) rows: Option<&'e Rows>,
    pub(super) max: Option<&'e Spanned<u64>>,
    pub(super) until_null: bool,
}

/// Whether `until null` can end a slice of elements `of`, whose number is not in the target (`is_sized`).
pub(super) fn until_null(
    bounds: &Bounds<'_>,
    of: &Type,
    is_sized: bool,
    begins_anywhere: bool,
    span: &Span,
) -> Result<(), Diagnostic> {
    let error = |message: &str, at: &Span, hint: &str| {
        Err(Diagnostic::error(Code::TypeMismatch, message.to_owned()).at(at).hint(hint.to_owned()))
    };
    if let Some(Rows { stride, .. }) = bounds.rows {
        let message = "`until null` cannot be combined with rows, which have a length";
        return error(message, &stride.span, "remove `until null`");
    }
    if let Some(to) = bounds.to {
        let message = "`until null` cannot be combined with a number of elements";
        return error(
            message,
            &to.span,
            "remove the number, and write the most elements after `max`; or remove `until null`",
        );
    }
    if is_sized {
        let message = "`until null` is for elements whose number is unknown; these have a number";
        return error(message, span, "write `[..] max N`");
    }
    // They are compared as words.
    if !is_address(of) && !matches!(of, Type::Int { size: 8, .. }) {
        let message = format!("`until null` is for addresses and numbers of 8 bytes, not for elements of type {of}");
        return error(&message, span, "write the number of elements: `[..n] max N`");
    }
    if begins_anywhere {
        let message = "with `until null`, a slice of an array in place begins at a constant";
        return error(message, span, "write the number of the first element");
    }
    Ok(())
}

/// A constant index below zero, of elements that have a first one.
pub(super) fn not_before_first(index: &Checked) -> Result<(), Diagnostic> {
    match index.node {
        Node::Int(at) if at < 0 => {
            let message = format!("index {at} is before the first element");
            Err(Diagnostic::error(Code::IndexOutOfBounds, message).at(&index.span).hint("the first element is 0"))
        }
        _ => Ok(()),
    }
}

pub(super) fn within_limit(elements: u64, span: &Span) -> Result<(), Diagnostic> {
    if (1..=MAX_ELEMENTS).contains(&elements) {
        return Ok(());
    }
    let message = format!("{elements} elements; the range for a field is 1 to {MAX_ELEMENTS}");
    Err(Diagnostic::error(Code::Unbounded, message).at(span))
}

pub(super) fn fixed_slice(
    start: Memory,
    of: Type,
    range: std::ops::Range<u64>,
    length: Option<u64>,
    span: &Span,
) -> Result<Checked, Diagnostic> {
    if range.start >= range.end || length.is_some_and(|length| range.end > length) {
        return Err(not_a_range(&of, range, length, span));
    }
    let count = range.end - range.start;
    within_limit(count, span)?;
    Ok(Checked { node: Node::Memory(start), ty: Type::Array(Box::new(of), count), span: span.clone() })
}

pub(super) fn not_a_range(of: &Type, range: std::ops::Range<u64>, length: Option<u64>, span: &Span) -> Diagnostic {
    let whole = length.map_or_else(|| of.to_string(), |n| format!("{of}[{n}]"));
    let message = format!("{}..{} is not a range of {whole}", range.start, range.end);
    Diagnostic::error(Code::IndexOutOfBounds, message).at(span)
}
