//! Numbers and addresses as checked expressions: their types, conversions from one to another, and what is computed of them
//! without having been written. No names are resolved here.

use super::ast::{BinaryOp, Type};
use super::checked::{Checked, Node};
use super::value::narrowed;
use profinfer_diagnostics::{Code, Diagnostic, Span};

/// Bytes of a value of this type where it does not depend on the target.
pub fn fixed_size(ty: &Type) -> Option<u64> {
    match ty {
        Type::Int { size, .. } | Type::Float { size } => Some(u64::from(*size)),
        Type::Bool => Some(1),
        Type::Enum(_) => Some(4),
        Type::Pointer(_) | Type::Reference(_) | Type::CStr(_) | Type::Object(_) => Some(8),
        Type::Relative { size, .. } | Type::Bits { size, .. } => Some(u64::from(*size)),
        Type::Chars(n) | Type::Hex(n) => Some(*n),
        Type::Array(of, n) => fixed_size(of)?.checked_mul(*n),
        Type::Void
        | Type::View(_)
        | Type::StdString(_)
        | Type::StdVector(_)
        | Type::Map { .. }
        | Type::Optional(_)
        | Type::Variant(_)
        | Type::Smart { .. } => None,
    }
}

pub(super) fn is_integer(ty: &Type) -> bool {
    matches!(ty, Type::Int { .. } | Type::Bool | Type::Enum(_))
}

pub(super) fn is_address(ty: &Type) -> bool {
    matches!(ty, Type::Pointer(_) | Type::Object(_) | Type::CStr(_))
}

pub(super) const NUMBER: Type = Type::Int { size: 8, signed: true };

/// A number or an address as another type, as C converts it.
pub(super) fn converted(base: Checked, to: &Type, span: &Span) -> Result<Checked, Diagnostic> {
    let is = |node| Ok(Checked { node, ty: to.clone(), span: span.clone() });
    let (from, bytes) = (fixed_size(&base.ty), fixed_size(to));
    match base.node {
        // Elements lie as far apart as they are wide.
        Node::Slice { ref part, .. } if from < bytes || part.is_none() && from != bytes => {
            let message = format!("elements of type {} cannot be read as {to}", base.ty);
            Err(Diagnostic::error(Code::TypeMismatch, message).at(span).hint("cast the pointer, before the `[`"))
        }
        node @ Node::Slice { .. } => is(node),
        _ if *to == Type::Bool && base.ty != Type::Bool => {
            let zero = Checked { node: Node::Int(0), ty: NUMBER, span: span.clone() };
            is(Node::Binary(BinaryOp::Ne, Box::new(base), Box::new(zero)))
        }
        Node::Int(value) => match to {
            Type::Int { size, signed } => is(Node::Int(narrowed(value, *size, *signed))),
            Type::Enum(_) => is(Node::Int(narrowed(value, 4, true))),
            _ => is(Node::Int(value)),
        },
        // These are read as what their type is, which may be a part of what is there, but not more.
        Node::Memory(_) | Node::Argument(_) | Node::Enclosing(_) | Node::Return if from >= bytes => is(base.node),
        Node::Memory(_) | Node::Argument(_) | Node::Enclosing(_) | Node::Return => is(Node::Cast(Box::new(base))),
        // All others are numbers of 64 bits by themselves.
        node if bytes == Some(8) => is(node),
        _ => is(Node::Cast(Box::new(base))),
    }
}

pub(super) const UNSIGNED: Type = Type::Int { size: 8, signed: false };

/// Whether neither of two numbers is negative, and one may be beyond those with a sign: they are compared, divided and
/// shifted without one.
pub(super) fn without_sign(one: &Checked, other: &Checked) -> bool {
    let is_never_negative = |number: &Checked| match (&number.node, &number.ty) {
        (_, ty) if *ty == UNSIGNED => true,
        (Node::Int(value), _) => *value >= 0,
        (_, ty) => matches!(ty, Type::Int { signed: false, .. } | Type::Bool),
    };
    (one.ty == UNSIGNED || other.ty == UNSIGNED) && is_never_negative(one) && is_never_negative(other)
}

/// The type of what is computed of two numbers.
pub(super) fn type_of(op: BinaryOp, left: &Checked, right: &Checked) -> Type {
    let is_number = matches!(
        op,
        BinaryOp::Mul
            | BinaryOp::Div
            | BinaryOp::Rem
            | BinaryOp::Add
            | BinaryOp::Shl
            | BinaryOp::Shr
            | BinaryOp::BitAnd
            | BinaryOp::BitXor
            | BinaryOp::BitOr
    );
    // A difference may be negative, whatever it is of.
    if is_number && without_sign(left, right) { UNSIGNED } else { NUMBER }
}

/// The lesser of two numbers.
pub(super) fn lesser(one: Checked, other: Checked) -> Checked {
    let span = one.span.clone();
    let less = Node::Binary(BinaryOp::Lt, Box::new(one.clone()), Box::new(other.clone()));
    let condition = Checked { node: less, ty: NUMBER, span: span.clone() };
    Checked { node: Node::Conditional(Box::new(condition), Box::new(one), Box::new(other)), ty: NUMBER, span }
}

/// One number less another.
pub(super) fn difference(to: Checked, from: Checked) -> Checked {
    if from.node == Node::Int(0) {
        return to;
    }
    let span = from.span.to(&to.span);
    if let (Node::Int(to), Node::Int(from)) = (&to.node, &from.node) {
        return Checked { node: Node::Int(to.saturating_sub(*from)), ty: NUMBER, span };
    }
    Checked { node: Node::Binary(BinaryOp::Sub, Box::new(to), Box::new(from)), ty: NUMBER, span }
}
