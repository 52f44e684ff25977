//! Maps and sets of the C++ library, in expressions: what a key stands for, whether there is one, and lists of keys and
//! values. A part of [`super::check()`], which it gives back what those are.

use super::ast::{Expr, ExprKind, Type};
use super::check::{
    Bounds, Checker, NUMBER, Result1, as_number, at, constant, is_address, is_integer, pointer_to, settled,
};
use super::checked::{Checked, InMap, Key, Memory, Node, Part};
use profinfer_diagnostics::{Code, Diagnostic, Span, Spanned};
use profinfer_schema::bpf::{MAP_ENTRIES, MAP_KEY_BYTES};

impl Checker<'_, '_> {
    /// `map[key]`.
    pub(super) fn mapped(&self, place: Memory, of: Type, key: &Expr, span: &Span) -> Result1<Checked> {
        let Type::Map { key: of_key, value, .. } = &of else { return Err(super::check::bug(span)) };
        let Some(value) = value else {
            let message = format!("{of} has no values");
            return Err(Diagnostic::error(Code::TypeMismatch, message)
                .at(span)
                .hint(format!("a set has `contains({})`, `size` and `[..] max N`", key.span.text())));
        };
        let what = InMap::Value(self.key(of_key, key)?);
        let memory = at(in_map(place, &of, what, pointer_to(value), span));
        Ok(settled(Checked { node: Node::Memory(memory), ty: (**value).clone(), span: span.clone() }))
    }

    /// `map.contains(key)`.
    pub(super) fn contains(&self, base: &Expr, key: &Expr, arrow: bool, span: &Span) -> Result1<Checked> {
        let base = self.expr(base)?;
        let Some((place, of)) = map_of(&base, arrow) else {
            let message = format!("`{}` of type {} has no keys", base.span.text(), base.ty);
            return Err(Diagnostic::error(Code::TypeMismatch, message)
                .at(span)
                .hint("`contains(KEY)` is for maps and sets; behind a pointer write `->contains(KEY)`"));
        };
        let Type::Map { key: of_key, .. } = &of else { return Err(super::check::bug(span)) };
        let what = InMap::Contains(self.key(of_key, key)?);
        Ok(in_map(place, &of, what, NUMBER, span))
    }

    /// A key as the map's are.
    fn key(&self, of: &Type, key: &Expr) -> Result1<Key> {
        let mismatch = |message: String, hint: &str| {
            Err(Diagnostic::error(Code::TypeMismatch, message).at(&key.span).hint(hint.to_owned()))
        };
        match (of, &key.kind) {
            (Type::StdString(_), ExprKind::Text(text)) if text.len() > MAP_KEY_BYTES => {
                let message = format!("the key has {} bytes; the maximum is {MAP_KEY_BYTES}", text.len());
                Err(Diagnostic::error(Code::OutOfRange, message).at(&key.span))
            }
            (Type::StdString(_), ExprKind::Text(text)) => Ok(Key::Text(text.clone())),
            (Type::StdString(_), _) => {
                mismatch("the keys of this map are texts".to_owned(), "write the key in double quotes: `[\"key\"]`")
            }
            (of, ExprKind::Text(_)) if is_integer(of) || is_address(of) => mismatch(
                format!("the keys of this map are numbers of type {of}"),
                "write a number, or a constant's name",
            ),
            (of, _) if is_integer(of) || is_address(of) => {
                let number = self.expr(key).or_else(|problem| constant(of, key).ok_or(problem))?;
                Ok(Key::Number(Box::new(as_number(number, &key.span)?)))
            }
            (of, _) => mismatch(
                format!("keys of type {of} cannot be compared"),
                "keys are std::string, integers, enumerations or addresses",
            ),
        }
    }
}

/// The map or set that a value is, or that a pointer leads to.
pub(super) fn map_of(checked: &Checked, arrow: bool) -> Option<(Memory, Type)> {
    let is_map = |ty: &Type| matches!(ty, Type::Map { .. });
    match (&checked.node, &checked.ty) {
        (Node::Memory(memory), ty) if is_map(ty) => Some((memory.clone(), ty.clone())),
        (_, Type::Pointer(to)) if arrow && is_map(to) => Some((at(checked.clone()), (**to).clone())),
        _ => None,
    }
}

pub(super) fn in_map(place: Memory, of: &Type, what: InMap, ty: Type, span: &Span) -> Checked {
    Checked { node: Node::Map { place, of: of.clone(), what }, ty, span: span.clone() }
}

/// `map[..] max n`: its first elements. Those of a set are its keys; of a map one takes `first` or `second`.
pub(super) fn elements_of_map(place: Memory, of: Type, bounds: &Bounds<'_>, span: &Span) -> Result1<Checked> {
    let from = bounds.from.is_some_and(|from| from.kind != ExprKind::Int(0));
    if from || bounds.to.is_some() || bounds.rows.is_some() || bounds.until_null {
        return Err(Diagnostic::error(Code::TypeMismatch, "the elements of a map or set have no numbers")
            .at(span)
            .hint("write `[..] max N` for the first of them"));
    }
    let max = match bounds.max {
        Some(max) if (1..=MAP_ENTRIES).contains(&max.value) => max.value,
        Some(max) => {
            let message = format!("{} elements of a map; the range is 1 to {MAP_ENTRIES}", max.value);
            return Err(Diagnostic::error(Code::Unbounded, message).at(&max.span));
        }
        None => {
            return Err(Diagnostic::error(Code::Unbounded, "the number of elements has no bound")
                .at(span)
                .hint(format!("add `max N`, the maximum number of elements to read, up to {MAP_ENTRIES}")));
        }
    };
    let (part, ty) = match &of {
        Type::Map { key, value: None, .. } => {
            (Some(Part { of: of.clone(), values: false, terms: Vec::new() }), (**key).clone())
        }
        _ => (None, of.clone()),
    };
    let count = Some(Box::new(in_map(place.clone(), &of, InMap::Size, NUMBER, span)));
    let node = Node::Slice { start: place, count, rows: None, max, part };
    Ok(Checked { node, ty, span: span.clone() })
}

/// `(map[..] max n).first`, `.second`: of each element.
pub(super) fn part_of_map(slice: &Checked, name: &Spanned<String>, arrow: bool) -> Option<Result1<Checked>> {
    let Type::Map { key, value, .. } = &slice.ty else { return None };
    let Node::Slice { start, count, max, part: None, .. } = &slice.node else { return None };
    let (values, ty) = match (name.as_str(), value, arrow) {
        ("first", _, false) => (false, key),
        ("second", Some(value), false) => (true, value),
        _ => {
            let message = format!("elements of {} have no members of this form", slice.ty);
            let problem = Diagnostic::error(Code::UnknownMember, message).at(&name.span);
            return Some(Err(problem.hint("they have `.first`, the key, and `.second`, what it stands for")));
        }
    };
    let part = Some(Part { of: slice.ty.clone(), values, terms: Vec::new() });
    let node = Node::Slice { start: start.clone(), count: count.clone(), rows: None, max: *max, part };
    Some(Ok(Checked { node, ty: (**ty).clone(), span: slice.span.to(&name.span) }))
}
