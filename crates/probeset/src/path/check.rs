//! Types of paths and expressions that run in the kernel: names resolved, members found in their views, indices within
//! their arrays. What comes out has no unresolved name; [`super::c`] turns it into C without asking anything again.

use super::ast::{BinaryOp, Expr, ExprKind, Rows, Type, UnaryOp};
use super::bounds::{Bounds, fixed_slice, not_a_range, not_before_first, until_null, within_limit};
use super::budget::{Budget, MOST_PARTS};
use super::checked::{Base, Checked, Count, InMap, Memory, Node, Part, Term};
use super::classes::{Elements, class_of, element_of, elements_of_map, in_map, map_of, part_of_map, vector_of};
use super::interval::{decided, is_comparison};
use super::numbers::{
    NUMBER, UNSIGNED, converted, difference, fixed_size, is_address, is_integer, lesser, type_of, without_sign,
};
use profinfer_diagnostics::{Code, Diagnostic, Diagnostics, Span, Spanned, did_you_mean};
use std::cell::Cell;

/// What names outside an expression mean. The probeset implements it.
pub trait Definitions {
    /// The type of a view's member; `None` where the view has no such member.
    fn member(&self, view: &str, member: &str) -> Option<Type>;
    /// An expression over the view's members, by the name that it has beside them.
    fn computed(&self, view: &str, name: &str) -> Option<&Expr>;
    /// The names of a view's members and expressions; `None` where there is no such view.
    fn members(&self, view: &str) -> Option<Vec<&str>>;
    /// The `elements` of a view: a slice of a pointer or array.
    fn elements(&self, view: &str) -> Option<&Expr>;
    /// The view that an object is.
    fn view_of_object(&self, object: &str) -> Option<&str>;
    /// The only object that is of this view.
    fn object_of_view(&self, view: &str) -> Option<&str>;
}

/// What an expression may use.
pub struct Scope<'a> {
    /// Views and objects.
    pub definitions: &'a dyn Definitions,
    /// Arguments by position; unnamed ones hold their place.
    pub arguments: Vec<(Option<String>, Type)>,
    /// Arguments of the enclosing call.
    pub enclosing: Vec<(String, Type)>,
    /// The result's type, where `return` may be used.
    pub returns: Option<Type>,
    /// The argument that has the address of a result in memory, where a function does not give it back.
    pub result_argument: Option<usize>,
    /// The view whose members are names here (an object's fields).
    pub object: Option<&'a str>,
    /// Number of captures of the attach point.
    pub captures: usize,
}

impl std::fmt::Debug for Scope<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scope")
            .field("arguments", &self.arguments)
            .field("object", &self.object)
            .finish_non_exhaustive()
    }
}

/// Deepest nesting of an expression, which is walked by recursion.
const MAX_DEPTH: usize = 256;

/// Checks an expression that runs in the kernel.
///
/// # Errors
/// The first problem: `P002` unknown name, `P003` no such member, `P004` an operation the types do not allow, `P005` an
/// index beyond its array, `P007` no bound, `P008` a comparison that the types decide.
pub fn check(expr: &Expr, scope: &Scope<'_>) -> Result<Checked, Diagnostic> {
    Checker::new(scope, &Budget::default()).expr(expr)
}

/// Checks one of several expressions.
///
/// # Errors
/// As [`check()`]; `S011` if they have too many parts together, and nothing for those after that.
pub fn check_within(expr: &Expr, scope: &Scope<'_>, budget: &Budget) -> Result<Checked, Diagnostics> {
    if budget.is_reported() {
        return Err(Diagnostics::new());
    }
    Checker::new(scope, budget).expr(expr).map_err(Diagnostics::from)
}

pub(super) struct Checker<'s, 'a> {
    pub(super) scope: &'s Scope<'a>,
    /// How often elements of views were referred to.
    pub(super) within: Cell<u32>,
    /// Parts of the expressions that took the place of names.
    pub(super) computed: Cell<usize>,
    /// What is left for all expressions.
    budget: &'s Budget,
    /// Expressions that the present one is within, those in the place of names included.
    depth: Cell<usize>,
}

pub(super) type Result1<T> = Result<T, Diagnostic>;

impl<'s, 'a> Checker<'s, 'a> {
    pub(super) fn new(scope: &'s Scope<'a>, budget: &'s Budget) -> Self {
        Self { scope, budget, within: Cell::new(0), computed: Cell::new(0), depth: Cell::new(0) }
    }

    /// The result, or its address.
    fn result(&self) -> Node {
        self.scope.result_argument.map_or(Node::Return, Node::Argument)
    }

    pub(super) fn expr(&self, expr: &Expr) -> Result1<Checked> {
        let depth = self.depth.get();
        if depth == MAX_DEPTH {
            let message = format!("with names replaced, this is nested more than {MAX_DEPTH} levels deep");
            return Err(Diagnostic::error(Code::OutOfRange, message).at(&expr.span));
        }
        if !self.budget.take() {
            let message = format!("with names replaced, the probeset's expressions have more than {MOST_PARTS} parts");
            let hint = "remove fields, or uses of names that stand for long expressions";
            return Err(Diagnostic::error(Code::OutOfRange, message).at(&expr.span).hint(hint));
        }
        self.depth.set(depth + 1);
        let checked = self.expr_here(expr);
        self.depth.set(depth);
        checked
    }

    fn expr_here(&self, expr: &Expr) -> Result1<Checked> {
        let span = expr.span.clone();
        let is = |node, ty| Ok(Checked { node, ty, span: span.clone() });
        match &expr.kind {
            ExprKind::Int(value) => is(Node::Int(*value), NUMBER),
            ExprKind::Tid | ExprKind::Cpu if self.is_member_here(expr) => {
                self.name(expr.as_name().unwrap_or_default(), &span)
            }
            ExprKind::Tid => is(Node::Tid, Type::Int { size: 4, signed: false }),
            ExprKind::Cpu => is(Node::Cpu, Type::Int { size: 4, signed: false }),
            ExprKind::Match(n) => self.capture(*n, &span),
            ExprKind::Return => match &self.scope.returns {
                Some(ty) if ty.is_passed_by_address() => {
                    let address = Checked { node: self.result(), ty: pointer_to(ty), span: span.clone() };
                    is(Node::Memory(at(address)), ty.clone()).map(settled)
                }
                // Its size on the target decides whether it is in registers or in memory.
                Some(ty @ Type::View(_)) => {
                    let message = format!("the result is a struct by value, {ty}, which cannot be read");
                    Err(Diagnostic::error(Code::NotSupportedYet, message)
                        .at(&span)
                        .hint("for a pointer, add `*` to the type; otherwise read the struct where it is an argument"))
                }
                Some(ty) => is(self.result(), ty.clone()).map(settled),
                None => Err(Diagnostic::error(Code::PathUnknownName, "no result is available here").at(&span).hint(
                    "give the attach point a result type (`-> i32`); `until` probes and conditions have no result",
                )),
            },
            ExprKind::Name(name) => self.name(name, &span),
            ExprKind::Member { base, name, arrow } => self.member(base, name, *arrow, &span),
            ExprKind::Alternative { base, number, arrow } => self.alternative(base, number, *arrow, &span),
            ExprKind::Index { base, index } => self.index(base, index, &span),
            ExprKind::Contains { base, key, arrow } => self.contains(base, key, *arrow, &span),
            ExprKind::Slice { base, from, to, rows, max, until_null } => {
                let bounds = Bounds {
                    from: from.as_deref(),
                    to: to.as_deref(),
                    rows: rows.as_deref(),
                    max: max.as_ref(),
                    until_null: *until_null,
                };
                self.slice(base, &bounds, &span)
            }
            ExprKind::Cast { base, ty } => self.cast(base, ty, &span),
            ExprKind::Unary { op, operand } => {
                let operand = self.number(operand)?;
                match (op, &operand.node) {
                    // A negative constant is a constant.
                    (UnaryOp::Negate, Node::Int(number)) => is(Node::Int(number.wrapping_neg()), NUMBER),
                    _ => is(Node::Unary(*op, Box::new(operand)), NUMBER),
                }
            }
            ExprKind::Binary { op, left, right } => self.binary(*op, left, right, &span),
            ExprKind::Conditional { condition, then, otherwise } => {
                let condition = Box::new(self.number(condition)?);
                let then = Box::new(self.number_or_array(then)?);
                let otherwise = Box::new(self.number_or_array(otherwise)?);
                // A number beside a constant of an enumeration is one of its constants.
                let number = |side: &Checked| matches!(side.node, Node::Int(_));
                let ty = match (&then.ty, &otherwise.ty) {
                    (one, other) if one == other => one.clone(),
                    (Type::Enum(_), _) if number(&otherwise) => then.ty.clone(),
                    (_, Type::Enum(_)) if number(&then) => otherwise.ty.clone(),
                    _ if without_sign(&then, &otherwise) => UNSIGNED,
                    _ => NUMBER,
                };
                is(Node::Conditional(condition, then, otherwise), ty)
            }
            ExprKind::List(items) => {
                let items = items.iter().map(|item| self.number(item)).collect::<Result1<Vec<Checked>>>()?;
                let of = match items.split_first() {
                    Some((first, others)) if others.iter().all(|item| item.ty == first.ty) => first.ty.clone(),
                    _ => NUMBER,
                };
                let ty = Type::Array(Box::new(of), items.len() as u64);
                is(Node::List(items), ty)
            }
            ExprKind::Float(_) | ExprKind::Text(_) | ExprKind::All { .. } | ExprKind::Matches { .. } => {
                Err(Diagnostic::error(Code::TypeMismatch, "this can only be used under `analysis:`")
                    .at(&span)
                    .hint("record the value; BPF programs have neither fractions nor regular expressions"))
            }
        }
    }

    fn capture(&self, n: u32, span: &Span) -> Result1<Checked> {
        if n as usize > self.scope.captures {
            let message = format!("the attach point has {} captures; match[{n}] does not exist", self.scope.captures);
            return Err(Diagnostic::error(Code::IndexOutOfBounds, message)
                .at(span)
                .hint("each `*` and `{a,b}` in the function's name is a capture, numbered from 1"));
        }
        Ok(Checked { node: Node::Match(n), ty: Type::Chars(0), span: span.clone() })
    }

    /// Whether it is the name of a member where those of a view are names.
    fn is_member_here(&self, expr: &Expr) -> bool {
        let member = || self.scope.definitions.member(self.scope.object?, expr.as_name()?);
        member().is_some()
    }

    fn name(&self, name: &str, span: &Span) -> Result1<Checked> {
        let memory = |base, terms, ty| Checked { node: Node::Memory(Memory { base, terms }), ty, span: span.clone() };
        if let Some(computed) = self.computed_here(name, span) {
            return computed;
        }
        if let Some(view) = self.scope.object
            && let Some(ty) = self.scope.definitions.member(view, name)
        {
            let member = Term::Member { view: view.to_owned(), member: name.to_owned() };
            return Ok(with_bits(memory(Base::Object, vec![member], ty)));
        }
        let named = |(_, (n, _)): &(usize, &(Option<String>, Type))| n.as_deref() == Some(name);
        if let Some((index, (_, ty))) = self.scope.arguments.iter().enumerate().find(named) {
            return Ok(match ty {
                Type::View(_) => memory(Base::Argument(index), Vec::new(), ty.clone()),
                ty if ty.is_passed_by_address() => {
                    let address = Checked { node: Node::Argument(index), ty: pointer_to(ty), span: span.clone() };
                    settled(memory(Base::Pointer(Box::new(address)), Vec::new(), ty.clone()))
                }
                Type::Float { .. } => {
                    return Err(Diagnostic::error(Code::ArgumentPlace, "a floating-point argument cannot be read")
                        .at(span)
                        .hint("probes cannot read vector registers"));
                }
                _ => settled(Checked { node: Node::Argument(index), ty: ty.clone(), span: span.clone() }),
            });
        }
        if let Some(index) = self.scope.enclosing.iter().position(|(argument, _)| argument == name) {
            let ty = self.scope.enclosing[index].1.clone();
            return Ok(settled(Checked { node: Node::Enclosing(index), ty, span: span.clone() }));
        }
        let mut candidates: Vec<&str> = self.scope.arguments.iter().filter_map(|(n, _)| n.as_deref()).collect();
        candidates.extend(self.scope.enclosing.iter().map(|(name, _)| name.as_str()));
        candidates.extend(self.scope.object.and_then(|view| self.scope.definitions.members(view)).unwrap_or_default());
        candidates.extend(["tid", "cpu", "return"]);
        let hint = did_you_mean(name, candidates.iter().copied()).unwrap_or_else(|| {
            format!("available: {}; enum constants only next to a value of their enum", candidates.join(", "))
        });
        Err(Diagnostic::error(Code::PathUnknownName, format!("unknown name `{name}`")).at(span).hint(hint))
    }

    fn member(&self, base: &Expr, name: &Spanned<String>, arrow: bool, span: &Span) -> Result1<Checked> {
        let written = base;
        let base = self.expr(base)?;
        if let Some(computed) = self.computed_of(&base, written, name, arrow, span) {
            return computed;
        }
        if name.value == "size"
            && let Some((vector, of)) = vector_of(&base, arrow)
        {
            let node = Node::VectorSize { vector, of };
            return Ok(Checked { node, ty: NUMBER, span: span.clone() });
        }
        if name.value == "size"
            && let Some(view) = self.view_of(&base, arrow)
            && self.scope.definitions.member(&view, "size").is_none()
            && let Some(elements) = self.elements(&view, written, arrow && !base.is_referred_to())
        {
            let count = elements?.count;
            return Ok(Checked { span: span.clone(), ..count });
        }
        if name.value == "size"
            && let Some((place, of)) = map_of(&base, arrow)
        {
            return Ok(in_map(place, &of, InMap::Size, NUMBER, span));
        }
        if let Some((place, of)) = class_of(&base, arrow) {
            return self.member_of_class(place, of, name, arrow, span);
        }
        if let Node::Slice { .. } = base.node {
            return self.member_of_each(base, name, arrow, span);
        }
        // What a reference refers to has members by `.` in C++, and by `->` where one thinks of its address.
        let arrow = arrow && !base.is_referred_to();
        let (mut memory, view) = match (base.ty.clone(), arrow) {
            (Type::View(view), false) => (self.place(base)?, view),
            (Type::Pointer(to), true) if matches!(*to, Type::View(_)) => {
                let Type::View(view) = *to else { return Err(bug(span)) };
                (Memory { base: Base::Pointer(Box::new(base)), terms: Vec::new() }, view)
            }
            (Type::Object(object), true) => match self.scope.definitions.view_of_object(&object) {
                Some(view) => (Memory { base: Base::Pointer(Box::new(base)), terms: Vec::new() }, view.to_owned()),
                None => return Err(bug(span)),
            },
            (ty, _) => {
                let hint = match &ty {
                    Type::Pointer(to) if matches!(**to, Type::View(_)) => "it is a pointer; write `->`".to_owned(),
                    Type::View(_) => "it is not a pointer; write `.`".to_owned(),
                    Type::Pointer(_) => "cast it with `as TYPE*`".to_owned(),
                    _ => "only views, and pointers to them, have members".to_owned(),
                };
                let message = format!("`{}` of type {ty} has no members of this form", base.span.text());
                return Err(Diagnostic::error(Code::TypeMismatch, message).at(&name.span).hint(hint));
            }
        };
        let ty = self.member_type(&view, name)?;
        memory.terms.push(Term::Member { view, member: name.value.clone() });
        Ok(with_bits(Checked { node: Node::Memory(memory), ty, span: span.clone() }))
    }

    pub(super) fn member_type(&self, view: &str, name: &Spanned<String>) -> Result1<Type> {
        if let Some(ty) = self.scope.definitions.member(view, name) {
            return Ok(ty);
        }
        let message = format!("no member `{}` in {view}", name.value);
        let problem = Diagnostic::error(Code::UnknownMember, message).at(&name.span);
        Err(match self.scope.definitions.members(view) {
            Some(members) => {
                let hint = did_you_mean(name, members.iter().copied());
                problem.hint(hint.unwrap_or_else(|| format!("the view has {}", members.join(", "))))
            }
            None => problem.hint(format!("describe it under `types: {view}:`")),
        })
    }

    /// `slice.member`: that member of each element.
    fn member_of_each(&self, base: Checked, name: &Spanned<String>, arrow: bool, span: &Span) -> Result1<Checked> {
        if let Some(part) = part_of_map(&base, name, arrow) {
            return part;
        }
        let (Node::Slice { start, count, rows, max, part }, Type::View(view), false) = (base.node, &base.ty, arrow)
        else {
            let message = format!("elements of type {} have no members of this form", base.ty);
            return Err(Diagnostic::error(Code::TypeMismatch, message)
                .at(&name.span)
                .hint("`[..n].member` needs an array of views"));
        };
        self.not_of_each(view, name)?;
        let ty = self.member_type(view, name)?;
        let mut part = part.unwrap_or_else(|| Part { of: base.ty.clone(), values: false, terms: Vec::new() });
        part.terms.push(Term::Member { view: view.clone(), member: name.value.clone() });
        let node = Node::Slice { start, count, rows, max, part: Some(part) };
        Ok(Checked { node, ty, span: span.clone() })
    }

    fn index(&self, base: &Expr, index: &Expr, span: &Span) -> Result1<Checked> {
        let written = base;
        let base = self.expr(base)?;
        if let Some((place, of)) = map_of(&base, false) {
            return self.mapped(place, of, index, span);
        }
        let index = self.number(index)?;
        if let Some(elements) = self.elements_of(written, &base) {
            return element_of(elements?, index, span);
        }
        let (memory, of) = self.element(base, index, span)?;
        Ok(settled(Checked { node: Node::Memory(memory), ty: of, span: span.clone() }))
    }

    /// The place of `base[index]`.
    fn element(&self, base: Checked, index: Checked, span: &Span) -> Result1<(Memory, Type)> {
        let (mut memory, of, length) = match base.ty.clone() {
            Type::StdVector(of) => {
                not_before_first(&index)?;
                let vector = self.place(base)?;
                let ty = Type::Pointer(of.clone());
                let node = Node::VectorElement { vector, of: (*of).clone(), index: Some(Box::new(index)) };
                return Ok((at(Checked { node, ty, span: span.clone() }), *of));
            }
            Type::Array(of, length) => (self.place(base)?, *of, Some(length)),
            Type::Chars(length) | Type::Hex(length) => {
                (self.place(base)?, Type::Int { size: 1, signed: false }, Some(length))
            }
            Type::Pointer(of) if *of != Type::Void => {
                (Memory { base: Base::Pointer(Box::new(base)), terms: Vec::new() }, *of, None)
            }
            ty => {
                let message = format!("`{}` of type {ty} cannot be indexed", base.span.text());
                return Err(Diagnostic::error(Code::TypeMismatch, message)
                    .at(span)
                    .hint("only arrays and typed pointers have elements; `as TYPE[…]` gives a pointer a type"));
            }
        };
        let mut bound = length;
        if let (Node::Int(at), Some(length)) = (&index.node, length) {
            if u64::try_from(*at).map_or(true, |at| at >= length) {
                let message = format!("index {at} is outside the {length} elements of `{of}[{length}]`");
                return Err(Diagnostic::error(Code::IndexOutOfBounds, message).at(&index.span));
            }
            bound = None;
        }
        memory.terms.push(Term::Element { of: of.clone(), index: Box::new(index), bound });
        Ok((memory, of))
    }

    fn slice(&self, base: &Expr, bounds: &Bounds<'_>, span: &Span) -> Result1<Checked> {
        let written = base;
        let mut base = self.expr(base)?;
        let mut size = None;
        if let Some((place, of)) = map_of(&base, false) {
            return elements_of_map(place, of, bounds, span);
        }
        if let Some(elements) = self.elements_of(written, &base) {
            let Elements { first, count, .. } = elements?;
            size = Some(count);
            base = first;
        }
        let vector = vector_of(&base, false);
        if let Some((vector, of)) = &vector {
            let node = Node::VectorElement { vector: vector.clone(), of: of.clone(), index: None };
            base = Checked { node, ty: Type::Pointer(Box::new(of.clone())), span: base.span };
        }
        let from = match bounds.from {
            Some(from) => self.number(from)?,
            None => Checked { node: Node::Int(0), ty: NUMBER, span: span.clone() },
        };
        let first = match from.node {
            Node::Int(first) => u64::try_from(first).ok(),
            _ => None,
        };
        let mut to = bounds.to.map(|to| self.number(to)).transpose()?;
        if let Some((vector, of)) = vector {
            let node = Node::VectorSize { vector, of };
            size = Some(Checked { node, ty: NUMBER, span: span.clone() });
        }
        let is_sized = size.is_some();
        // Of an array in place, or of elements whose number is a constant; what rows consist of is written by their stride.
        let length = match (&base.ty, size.as_ref().map(|size| &size.node)) {
            (Type::Array(_, length) | Type::Chars(length) | Type::Hex(length), _) => Some(*length),
            (_, Some(Node::Int(size))) => u64::try_from(*size).ok(),
            _ => None,
        };
        let constant = |of: &Option<Checked>| match of {
            Some(Checked { node: Node::Int(number), .. }) => u64::try_from(*number).ok(),
            _ => None,
        };
        let written = constant(&to);
        let size = size.or_else(|| {
            let length = length.filter(|_| bounds.rows.is_none())?;
            Some(Checked { node: Node::Int(i64::try_from(length).ok()?), ty: NUMBER, span: span.clone() })
        });
        if let Some(size) = size.filter(|_| !bounds.until_null) {
            to = Some(match to {
                // Two constants are compared below.
                Some(to) if matches!((&to.node, &size.node), (Node::Int(_), Node::Int(_))) => to,
                Some(to) => lesser(to, size),
                None => size,
            });
        }
        let start_index = from.clone();
        let (mut start, of) = self.element(base, start_index, span)?;
        if is_sized {
            not_before_first(&from)?;
            // What is beyond the end has no elements; what is before the beginning has those of others.
            if let (None, Some(Term::Element { bound, .. })) = (first, start.terms.last_mut()) {
                *bound = Some(length.unwrap_or(i64::MAX.cast_unsigned()));
            }
        }
        if fixed_size(&of).is_none() && (!matches!(of, Type::View(_)) || bounds.until_null || bounds.rows.is_some()) {
            let message = format!("a slice of {of} cannot be recorded");
            return Err(Diagnostic::error(Code::NotAField, message).at(span).hint("select a member of its elements"));
        }
        // Both ends constant: an array of fixed length.
        let last = match to {
            None if !bounds.until_null => length,
            _ => constant(&to),
        };
        if bounds.until_null {
            until_null(bounds, &of, is_sized, length.is_some() && first.is_none(), span)?;
        }
        let rows = match bounds.rows {
            Some(Rows { count, stride }) => Some((Box::new(self.number(count)?), Box::new(self.number(stride)?))),
            None => None,
        };
        if let (Some(first), Some(last), None, None) = (first, last, bounds.max, &rows)
            && !matches!(of, Type::View(_))
        {
            return fixed_slice(start, of, first..last, length, span);
        }
        if last > length && length.is_some() && rows.is_none() {
            return Err(not_a_range(&of, first.unwrap_or(0)..last.unwrap_or(0), length, span));
        }
        // A vector may have fewer than are written, and no array has more.
        let last = last.or(written).or(length).map(|last| last.saturating_sub(first.unwrap_or(0)));
        let Some(max) = bounds.max.map(|max| max.value).or(last) else {
            return Err(Diagnostic::error(Code::Unbounded, "the number of elements has no bound")
                .at(span)
                .hint("add `max N`, the maximum number of elements to read"));
        };
        within_limit(max, bounds.max.map_or(span, |max| &max.span))?;
        let in_array = length.filter(|_| rows.is_none()).map(|length| length.saturating_sub(first.unwrap_or(0)));
        let max = in_array.map_or(max, |most| max.min(most.max(1)));
        let count = match to {
            _ if bounds.until_null => Count::UntilNull { more: in_array.is_none_or(|most| max < most) },
            Some(to) => Count::Number(Box::new(difference(to, from))),
            None => {
                let most = Checked { node: Node::Int(max.cast_signed()), ty: NUMBER, span: span.clone() };
                Count::Number(Box::new(most))
            }
        };
        Ok(Checked { node: Node::Slice { start, count, rows, max, part: None }, ty: of, span: span.clone() })
    }

    fn cast(&self, base: &Expr, ty: &Spanned<Type>, span: &Span) -> Result1<Checked> {
        let base = self.expr(base)?;
        let of_library = ty.value.is_passed_by_address()
            || ty.value.is_laid_out_by_library()
            || matches!(ty.value, Type::Relative { .. });
        let aggregate =
            of_library || matches!(ty.value, Type::Array(..) | Type::View(_) | Type::Chars(_) | Type::Hex(_));
        let scalar = |t: &Type| is_integer(t) || is_address(t);
        let stored = |memory| settled(Checked { node: Node::Memory(memory), ty: ty.value.clone(), span: span.clone() });
        if aggregate && (is_address(&base.ty) || of_library && matches!(base.ty, Type::Int { size: 8, .. })) {
            return Ok(stored(at(base)));
        }
        if aggregate && matches!(base.node, Node::Memory(_)) && !scalar(&base.ty) {
            return Ok(settled(Checked { ty: ty.value.clone(), span: span.clone(), ..base }));
        }
        // What lies in another, or is referred to, by its address.
        let lies_in = |ty: &Type| matches!(ty, Type::View(_) | Type::StdVector(_)) || ty.is_laid_out_by_library();
        if let (true, Node::Memory(memory)) = (lies_in(&base.ty), &base.node)
            && matches!(ty.value, Type::Object(_) | Type::Pointer(_))
        {
            return Ok(Checked { node: Node::Address(memory.clone()), ty: ty.value.clone(), span: span.clone() });
        }
        let fits = match &ty.value {
            Type::Object(_) | Type::Pointer(_) | Type::CStr(_) => {
                is_address(&base.ty) || matches!(base.ty, Type::Int { size: 8, .. })
            }
            to => is_integer(to) && scalar(&base.ty),
        };
        if !fits {
            let message = format!("cannot cast `{}` of type {} to {}", base.span.text(), base.ty, ty.value);
            return Err(Diagnostic::error(Code::TypeMismatch, message).at(span));
        }
        converted(base, &ty.value, span)
    }

    fn binary(&self, op: BinaryOp, left: &Expr, right: &Expr, span: &Span) -> Result1<Checked> {
        let (left, right) = self.sides(left, right)?;
        let addresses = is_address(&left.ty) || is_address(&right.ty);
        if addresses && !is_comparison(op) && !matches!(op, BinaryOp::And | BinaryOp::Or) {
            return Err(Diagnostic::error(Code::TypeMismatch, "addresses support comparison only")
                .at(span)
                .hint("write `pointer[n]` for the n-th element, or cast with `as u64` for integer arithmetic"));
        }
        if matches!(op, BinaryOp::Div | BinaryOp::Rem) && right.node == Node::Int(0) {
            return Err(Diagnostic::error(Code::ConstantCondition, "division by zero").at(span));
        }
        if let Some(always) = decided(op, &left, &right) {
            let message = format!("this is always {always}");
            return Err(Diagnostic::error(Code::ConstantCondition, message)
                .at(span)
                .hint(format!("the left side is of type {}, the right side of type {}", left.ty, right.ty)));
        }
        let ty = type_of(op, &left, &right);
        Ok(Checked { node: Node::Binary(op, Box::new(left), Box::new(right)), ty, span: span.clone() })
    }

    /// Both sides; a bare name beside a value of an enumeration is one of its constants.
    fn sides(&self, left: &Expr, right: &Expr) -> Result1<(Checked, Checked)> {
        let constant = |of: &Checked, e: &Expr| constant(&of.ty, e);
        match (self.number(left), self.number(right)) {
            (Ok(left), Ok(right)) => Ok((left, right)),
            (Ok(left), Err(problem)) => {
                let right = constant(&left, right).ok_or(problem)?;
                Ok((left, right))
            }
            (Err(problem), Ok(right)) => {
                let left = constant(&right, left).ok_or(problem)?;
                Ok((left, right))
            }
            (Err(problem), Err(_)) => Err(problem),
        }
    }

    /// An expression whose value fits in a register.
    pub(super) fn number(&self, expr: &Expr) -> Result1<Checked> {
        as_number(self.expr(expr)?, &expr.span)
    }

    /// The place that an aggregate is stored at.
    pub(super) fn place(&self, checked: Checked) -> Result1<Memory> {
        match checked.node {
            Node::Memory(memory) => Ok(memory),
            Node::List(_) => {
                Err(Diagnostic::error(Code::TypeMismatch, "a literal list must be the whole value of a field")
                    .at(&checked.span)
                    .hint("write the element instead of the list"))
            }
            _ => Err(bug(&checked.span)),
        }
    }
}

/// A bare name, or a text, as a constant of the enumeration that a type is.
pub(super) fn constant(of: &Type, e: &Expr) -> Option<Checked> {
    let (Type::Enum(enumeration), ExprKind::Name(name) | ExprKind::Text(name)) = (of, &e.kind) else { return None };
    let node = Node::Constant { enumeration: enumeration.clone(), name: name.clone() };
    Some(Checked { node, ty: of.clone(), span: e.span.clone() })
}

pub(super) fn as_number(checked: Checked, span: &Span) -> Result1<Checked> {
    let is_value = is_integer(&checked.ty) || is_address(&checked.ty);
    if !is_value || matches!(checked.node, Node::Slice { .. } | Node::Match(_)) {
        let message = format!("`{}` of type {} is not a number", span.text(), checked.ty);
        return Err(Diagnostic::error(Code::TypeMismatch, message).at(span));
    }
    Ok(checked)
}

pub(super) fn pointer_to(ty: &Type) -> Type {
    Type::Pointer(Box::new(ty.clone()))
}

/// The place that an address leads to.
pub(super) fn at(address: Checked) -> Memory {
    Memory { base: Base::Pointer(Box::new(address)), terms: Vec::new() }
}

/// A value as the type it is used as: a smart pointer is a pointer, a reference is its referent.
pub(super) fn settled(checked: Checked) -> Checked {
    let span = checked.span.clone();
    match (checked.node, checked.ty) {
        (node, Type::Smart { to, .. }) => Checked { node, ty: Type::Pointer(to), span },
        (Node::Memory(place), Type::Relative { size, signed, back, to, most }) => {
            Checked { node: Node::Relative { place, size, signed, back, most }, ty: Type::Pointer(to), span }
        }
        (node, Type::Reference(to)) if *to != Type::Void => {
            let address = Checked { node, ty: Type::Reference(to.clone()), span: span.clone() };
            settled(Checked { node: Node::Memory(at(address)), ty: *to, span })
        }
        (node, ty) => Checked { node, ty, span },
    }
}

/// The same for a member, which may be some bits of an integer.
pub(super) fn with_bits(checked: Checked) -> Checked {
    let Type::Bits { size, signed, bits } = checked.ty else { return settled(checked) };
    let member = match &checked.node {
        Node::Memory(memory) => memory.terms.last().cloned(),
        _ => None,
    };
    let Some(Term::Member { view, member }) = member else { return checked };
    let span = checked.span.clone();
    let storage = Box::new(Checked { ty: Type::Int { size, signed: false }, ..checked });
    Checked { node: Node::Bits { storage, view, member, bits, signed }, ty: Type::Int { size, signed }, span }
}

pub(super) fn bug(span: &Span) -> Diagnostic {
    Diagnostic::error(Code::Bug, "the type checker lost track of this").at(span)
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
