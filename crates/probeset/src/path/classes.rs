//! Classes that hold something in one of several ways, in expressions: optionals and variants, and views that say where
//! their elements are. A part of [`super::check()`], which it gives back what those are.

use super::ast::{Expr, ExprKind, Type};
use super::check::{
    Checker, NUMBER, Result1, Scope, as_number, at, bug, is_referred_to, pointer_to, settled, with_bits,
};
use super::checked::{Checked, Held, Memory, Node, Term};
use profinfer_diagnostics::{Code, Diagnostic, Span, Spanned};

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
    Checker::new(scope).first_and_count(first, count).map(|_| ())
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
            (Node::Memory(_), Type::View(view)) if !arrow || is_referred_to(base) => Some(view.clone()),
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
        let mut elements = self.scope.definitions.elements(view)?.clone();
        let members = self.scope.definitions.members(view)?;
        let members = members.into_iter().map(str::to_owned).collect::<Vec<_>>();
        self.within.set(self.within.get() + 1);
        if self.within.get() > MAX_ELEMENTS_WITHIN || elements.parts() * base.parts() > MAX_PARTS {
            let message = format!("elements of views are used more than {MAX_ELEMENTS_WITHIN} times in one expression");
            return Some(Err(Diagnostic::error(Code::OutOfRange, message)
                .at(&base.span)
                .hint("record parts of the expression as fields of their own")));
        }
        elements.see_from(base, arrow, &|name| members.iter().any(|member| member == name));
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
pub(super) fn element_of(elements: Elements, index: Checked, span: &Span) -> Checked {
    let Elements { first, count, of } = elements;
    let (first, count, index) = (Box::new(first), Box::new(count), Box::new(index));
    let node = Node::Element { first, count, of: of.clone(), index };
    let element = Checked { node, ty: pointer_to(&of), span: span.clone() };
    settled(Checked { node: Node::Memory(at(element)), ty: of, span: span.clone() })
}
