//! Classes that hold something, in expressions: vectors, optionals and variants, views that say where their elements are,
//! maps and sets. A part of [`super::check()`], which it gives back what those are.

use super::ast::{Expr, ExprKind, Type};
use super::bounds::{Bounds, not_before_first};
use super::budget::Budget;
use super::check::{Checker, Result1, Scope, as_number, at, bug, constant, pointer_to, settled, with_bits};
use super::checked::{Checked, Count, Held, InMap, Key, Memory, Node, Part, Term};
use super::numbers::{NUMBER, is_address, is_integer};
use profinfer_diagnostics::{Code, Diagnostic, Span, Spanned};
use profinfer_schema::bpf::{MAP_ENTRIES, MAP_KEY_BYTES};

/// Most times that one expression refers to elements of views, each of which is an expression of its own.
const MAX_ELEMENTS_WITHIN: u32 = 32;
/// Most parts of an expression that one of them becomes.
const MAX_PARTS: usize = 16384;

/// What a view holds.
pub(super) struct Elements {
    /// A pointer to the first.
    pub(super) first: Checked,
    /// How many.
    pub(super) count: Checked,
    /// Their type.
    pub(super) of: Type,
}

/// Checks the `elements` of a view, in the scope of its members: a pointer or array, and a number.
///
/// # Errors
/// As [`super::check()`].
pub fn check_elements(first: &Expr, count: &Expr, scope: &Scope<'_>) -> Result<(), Diagnostic> {
    Checker::new(scope, &Budget::default()).first_and_count(first, count).map(|_| ())
}

impl Checker<'_, '_> {
    /// `optional.has_value`, `optional.value`, `optional->member`, `variant.index`.
    pub(super) fn member_of_class(
        &self,
        place: Memory,
        of: Type,
        name: &Spanned<String>,
        arrow: bool,
        span: &Span,
    ) -> Result1<Checked> {
        let number = |what| {
            let node = Node::Held { place: place.clone(), of: of.clone(), what };
            Checked { node, ty: NUMBER, span: span.clone() }
        };
        match (&of, name.as_str()) {
            (Type::Optional(_), "has_value") => Ok(number(Held::HasValue)),
            (Type::Optional(to), "value") => Ok(held(place, &of, Held::Value, to, span)),
            (Type::Optional(to), _) if arrow && matches!(**to, Type::View(_)) => {
                let Type::View(view) = &**to else { return Err(bug(span)) };
                let ty = self.member_type(view, name)?;
                let mut memory = self.place(held(place, &of, Held::Value, to, span))?;
                memory.terms.push(Term::Member { view: view.clone(), member: name.value.clone() });
                Ok(with_bits(Checked { node: Node::Memory(memory), ty, span: span.clone() }))
            }
            (Type::Variant(_), "index") => Ok(number(Held::Index)),
            (of, _) => {
                let hint = match of {
                    Type::Optional(_) => "a std::optional has `has_value` and `value`",
                    _ => "a std::variant has `index`, and `get<N>` for its alternatives",
                };
                let message = format!("no member `{}` in {of}", name.value);
                Err(Diagnostic::error(Code::UnknownMember, message).at(&name.span).hint(hint))
            }
        }
    }

    /// `variant.get<n>`.
    pub(super) fn alternative(&self, base: &Expr, number: &Spanned<u64>, arrow: bool, span: &Span) -> Result1<Checked> {
        let base = self.expr(base)?;
        let Some((place, of @ Type::Variant(_))) = class_of(&base, arrow) else {
            let message = format!("`{}` of type {} has no alternatives", base.span.text(), base.ty);
            return Err(Diagnostic::error(Code::TypeMismatch, message)
                .at(span)
                .hint("`get<N>` is for a std::variant; behind a pointer write `->get<N>`"));
        };
        let Type::Variant(alternatives) = &of else { return Err(bug(span)) };
        let found = usize::try_from(number.value).ok().and_then(|number| alternatives.get(number));
        match found {
            Some(Type::Void) => {
                let message = format!("alternative {} is std::monostate, which has no value", number.value);
                Err(Diagnostic::error(Code::TypeMismatch, message).at(&number.span).hint("compare the `index` with it"))
            }
            Some(to) => Ok(held(place, &of, Held::Alternative(number.value), to, span)),
            None => {
                let message = format!("alternative {} is outside the {} of {of}", number.value, alternatives.len());
                Err(Diagnostic::error(Code::IndexOutOfBounds, message)
                    .at(&number.span)
                    .hint("alternatives are numbered from 0"))
            }
        }
    }

    /// The view that a value is, or that a pointer leads to.
    pub(super) fn view_of(&self, base: &Checked, arrow: bool) -> Option<String> {
        match (&base.node, &base.ty) {
            (Node::Memory(_), Type::View(view)) if !arrow || base.is_referred_to() => Some(view.clone()),
            (_, Type::Pointer(to)) if arrow => match &**to {
                Type::View(view) => Some(view.clone()),
                _ => None,
            },
            _ => None,
        }
    }

    /// The same, or an array, which is a pointer to its first element.
    pub(super) fn number_or_array(&self, expr: &Expr) -> Result1<Checked> {
        let checked = self.expr(expr)?;
        match (checked.node, checked.ty) {
            (Node::Memory(memory), Type::Array(of, _)) => {
                Ok(Checked { node: Node::Address(memory), ty: Type::Pointer(of), span: checked.span })
            }
            (node, ty) => as_number(Checked { node, ty, span: checked.span }, &expr.span),
        }
    }

    /// The elements of a value that is a view of them.
    pub(super) fn elements_of(&self, written: &Expr, value: &Checked) -> Option<Result1<Elements>> {
        self.elements(&self.view_of(value, false)?, written, false)
    }

    /// What the elements of a view are, of the one that is written as `base`.
    pub(super) fn elements(&self, view: &str, base: &Expr, arrow: bool) -> Option<Result1<Elements>> {
        let elements = self.scope.definitions.elements(view)?;
        self.within.set(self.within.get() + 1);
        if self.within.get() > MAX_ELEMENTS_WITHIN || elements.parts() * base.parts() > MAX_PARTS {
            let message = format!("elements of views are used more than {MAX_ELEMENTS_WITHIN} times in one expression");
            return Some(Err(Diagnostic::error(Code::OutOfRange, message)
                .at(&base.span)
                .hint("record parts of the expression as fields of their own")));
        }
        let elements = self.seen_from(view, elements, base, arrow);
        let ExprKind::Slice { base: first, from: None, to: Some(to), rows: None, max: None, until_null: false } =
            &elements.kind
        else {
            let message = "elements are written as a slice: `data[..count]`";
            return Some(Err(Diagnostic::error(Code::TypeMismatch, message)
                .at(&elements.span)
                .hint("a pointer or array, and the number of elements, over the view's members")));
        };
        Some(self.first_and_count(first, to))
    }

    fn first_and_count(&self, first: &Expr, count: &Expr) -> Result1<Elements> {
        let (first, count) = (self.number_or_array(first)?, self.number(count)?);
        match first.ty.clone() {
            Type::Pointer(of) if *of != Type::Void => Ok(Elements { first, count, of: *of }),
            ty => {
                let message = format!("`{}` of type {ty} has no elements", first.span.text());
                Err(Diagnostic::error(Code::TypeMismatch, message)
                    .at(&first.span)
                    .hint("elements are those of an array, or of what a typed pointer points to"))
            }
        }
    }
}

/// The vector that a value is, or that a pointer leads to.
pub(super) fn vector_of(checked: &Checked, arrow: bool) -> Option<(Memory, Type)> {
    match (&checked.node, &checked.ty) {
        (Node::Memory(memory), Type::StdVector(of)) => Some((memory.clone(), (**of).clone())),
        (_, Type::Pointer(to)) if arrow => match &**to {
            Type::StdVector(of) => Some((at(checked.clone()), (**of).clone())),
            _ => None,
        },
        _ => None,
    }
}

/// The class that may be empty that a value is, or that a pointer leads to.
pub(super) fn class_of(checked: &Checked, arrow: bool) -> Option<(Memory, Type)> {
    match (&checked.node, &checked.ty) {
        (Node::Memory(memory), ty) if ty.may_be_empty() => Some((memory.clone(), ty.clone())),
        (_, Type::Pointer(to)) if arrow && to.may_be_empty() => Some((at(checked.clone()), (**to).clone())),
        _ => None,
    }
}

/// What a class that may be empty holds, of the type `to`.
fn held(place: Memory, of: &Type, what: Held, to: &Type, span: &Span) -> Checked {
    let node = Node::Held { place, of: of.clone(), what };
    let pointer = Checked { node, ty: pointer_to(to), span: span.clone() };
    settled(Checked { node: Node::Memory(at(pointer)), ty: to.clone(), span: span.clone() })
}

/// One of a view's elements.
pub(super) fn element_of(elements: Elements, index: Checked, span: &Span) -> Result1<Checked> {
    let Elements { first, count, of } = elements;
    not_before_first(&index)?;
    if let (Node::Int(at), Node::Int(count)) = (&index.node, &count.node)
        && at >= count
    {
        let message = format!("index {at} is outside the {count} elements");
        return Err(Diagnostic::error(Code::IndexOutOfBounds, message).at(&index.span));
    }
    let (first, count, index) = (Box::new(first), Box::new(count), Box::new(index));
    let node = Node::Element { first, count, of: of.clone(), index };
    let element = Checked { node, ty: pointer_to(&of), span: span.clone() };
    Ok(settled(Checked { node: Node::Memory(at(element)), ty: of, span: span.clone() }))
}

// ---- Maps and sets ---------------------------------------------------------------------------------------------

impl Checker<'_, '_> {
    /// `map[key]`.
    pub(super) fn mapped(&self, place: Memory, of: Type, key: &Expr, span: &Span) -> Result1<Checked> {
        let Type::Map { key: of_key, value, .. } = &of else { return Err(bug(span)) };
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
        let Type::Map { key: of_key, .. } = &of else { return Err(bug(span)) };
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
    let count = Count::Number(Box::new(in_map(place.clone(), &of, InMap::Size, NUMBER, span)));
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
