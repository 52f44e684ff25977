//! Which comparisons the types decide: a condition that always holds, or never, is a slip of the pen.

use super::ast::{BinaryOp, Type};
use super::checked::{Checked, Node};

/// Whether it is one of the six comparisons.
pub(super) fn is_comparison(op: BinaryOp) -> bool {
    matches!(op, BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge | BinaryOp::Eq | BinaryOp::Ne)
}

/// The values an expression can take, by its type.
fn range(checked: &Checked) -> Option<(i128, i128)> {
    match (&checked.node, &checked.ty) {
        (Node::Int(value), _) => Some((i128::from(*value), i128::from(*value))),
        (
            Node::Memory(_)
            | Node::Argument(_)
            | Node::Enclosing(_)
            | Node::Return
            | Node::Tid
            | Node::Cpu
            | Node::Cast(_),
            ty,
        ) => match ty {
            Type::Int { size, signed: true } => Some((-(1 << (size * 8 - 1)), (1 << (size * 8 - 1)) - 1)),
            Type::Int { size, signed: false } => Some((0, (1 << (size * 8)) - 1)),
            Type::Bool => Some((0, 1)),
            _ => None,
        },
        _ => None,
    }
}

/// Whether the types alone decide a comparison, and how.
pub(super) fn decided(op: BinaryOp, left: &Checked, right: &Checked) -> Option<bool> {
    let ((a, b), (c, d)) = (range(left)?, range(right)?);
    let (always_less, never_less) = (b < c, a >= d);
    match op {
        BinaryOp::Lt => always_less.then_some(true).or(never_less.then_some(false)),
        BinaryOp::Ge => always_less.then_some(false).or(never_less.then_some(true)),
        BinaryOp::Le => (b <= c).then_some(true).or((a > d).then_some(false)),
        BinaryOp::Gt => (b <= c).then_some(false).or((a > d).then_some(true)),
        BinaryOp::Eq | BinaryOp::Ne => {
            // Beside a number of 64 bits without a sign, `-1` is the largest one, as in C.
            let is_wide = |(from, to)| (from, to) == (0, i128::from(u64::MAX));
            if b < 0 && is_wide((c, d)) || d < 0 && is_wide((a, b)) {
                return None;
            }
            let equal = if b < c || d < a { Some(false) } else { (a == b && (a, b) == (c, d)).then_some(true) };
            equal.map(|equal| equal == (op == BinaryOp::Eq))
        }
        _ => None,
    }
}
