//! Text to syntax trees.

use super::ast::{AttachPoint, Expr, Type};
use crate::diag::{Code, Diagnostic, Span};

/// Parses a type such as `ggml_tensor*[10]`; `span` is the whole text's place.
///
/// # Errors
/// `P001`, pointing at the first character that does not fit.
pub fn parse_type(text: &str, span: &Span) -> Result<Type, Diagnostic> {
    let _ = text;
    Err(Diagnostic::error(Code::Bug, "types are not parsed yet").at(span))
}

/// Parses an attach point such as `llama:llama_decode(void* ctx, llama_batch batch) -> i32`.
///
/// # Errors
/// `P001`, pointing at the first character that does not fit.
pub fn parse_attach(text: &str, span: &Span) -> Result<AttachPoint, Diagnostic> {
    let _ = text;
    Err(Diagnostic::error(Code::Bug, "attach points are not parsed yet").at(span))
}

/// Parses an expression such as `tensor->src[2]->ne[0] * 2`.
///
/// # Errors
/// `P001`, pointing at the first character that does not fit.
pub fn parse_expr(text: &str, span: &Span) -> Result<Expr, Diagnostic> {
    let _ = text;
    Err(Diagnostic::error(Code::Bug, "expressions are not parsed yet").at(span))
}
