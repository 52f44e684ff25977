//! The values that have a grammar (types, attach points, expressions): parsed, and at once checked for
//! what needs no other value to be right: that their names refer to something and their numbers and patterns are
//! within bounds. So nothing goes unsaid because something else is wrong.

use super::local_names::LocalNames;
use super::merge::Sections;
use super::problems::{Problems, shown};
use super::yaml::{Node, Scalar};
use super::{limits, names, reader};
use crate::path::{
    AttachPoint, Expr, ExprKind, MAX_ELEMENTS, Place, Signature, Type, parse_attach, parse_expr, parse_field,
    parse_type,
};
use profinfer_diagnostics::{Code, Diagnostic, Span, Spanned};

/// What reading a value takes: the names that there are, and where problems go.
pub(super) struct Context<'a> {
    pub(super) sections: &'a Sections,
    pub(super) problems: &'a mut Problems,
    /// The names of `let` where something is read that has one.
    pub(super) local: LocalNames,
    /// What the values that were read come to.
    pub(super) spent: Spent,
}

/// What values come to together. Each is bounded where it is read.
#[derive(Debug, Default)]
pub(super) struct Spent {
    /// Parts of expressions.
    parts: usize,
    /// Regular expressions.
    regexes: usize,
    /// Bytes of patterns of functions' names.
    pattern_bytes: usize,
}

impl Context<'_> {
    /// A type that stands at `span`.
    pub(super) fn type_(&mut self, span: Span) -> Option<Spanned<Type>> {
        let ty = Spanned::new(self.problems.keep(parse_type(span.text(), &span))?, span);
        self.check_type(&ty);
        Some(ty)
    }

    /// An attach point.
    pub(super) fn attach(&mut self, scalar: &Scalar) -> Option<AttachPoint> {
        let span = reader::language(scalar, "an attach point", self.problems)?;
        let at = self.problems.keep(parse_attach(span.text(), &span))?;
        self.place(&at);
        for end in at.until.iter().chain(&at.waiting_from) {
            self.refers("probes", "probe", end, "name a probe of this probeset");
        }
        Some(at)
    }

    /// An expression.
    pub(super) fn expr(&mut self, node: &Node, what: &str) -> Option<Expr> {
        let scalar = reader::text(node, what, self.problems)?;
        let span = reader::language(scalar, "an expression", self.problems)?;
        self.expr_at(&span)
    }

    /// A field's expression, and whether it is `at return`.
    pub(super) fn field(&mut self, node: &Node, what: &str) -> Option<(Expr, bool)> {
        let scalar = reader::text(node, what, self.problems)?;
        let span = reader::language(scalar, "an expression", self.problems)?;
        self.field_at(&span)
    }

    /// The same that stands at `span`.
    pub(super) fn field_at(&mut self, span: &Span) -> Option<(Expr, bool)> {
        let (expr, at_return) = self.problems.keep(parse_field(span.text(), span))?;
        Some((self.resolved(expr)?, at_return))
    }

    /// An expression that stands at `span`.
    pub(super) fn expr_at(&mut self, span: &Span) -> Option<Expr> {
        let expr = self.problems.keep(parse_expr(span.text(), span))?;
        self.resolved(expr)
    }

    fn resolved(&mut self, mut expr: Expr) -> Option<Expr> {
        self.check_expr(&expr);
        match self.local.replace_in(&mut expr) {
            Ok(()) => self.spend(&expr).then_some(expr),
            Err(problem) => {
                problem.into_iter().for_each(|problem| self.problems.push(problem));
                None
            }
        }
    }

    /// Counts what an expression comes to; whether that is within the bounds of all.
    fn spend(&mut self, root: &Expr) -> bool {
        let (parts, regexes) = (self.spent.parts, self.spent.regexes);
        let mut stack = vec![root];
        while let Some(expr) = stack.pop() {
            self.spent.parts += 1;
            self.spent.regexes += usize::from(matches!(expr.kind, ExprKind::Matches { .. }));
            stack.extend(expr.children());
        }
        let of_all = [
            (parts, self.spent.parts, limits::EXPRESSION_PARTS_IN_ALL, "names, numbers and operators"),
            (regexes, self.spent.regexes, limits::REGEXES, "regular expressions"),
        ];
        let beyond = of_all.into_iter().find(|(_, now, most, _)| now > most);
        // The first one that is too much is reported, not each after it.
        if let Some((_, _, most, what)) = beyond.filter(|(before, _, most, _)| before <= most) {
            let message = format!("the probeset has more than {most} {what}, with names of `let` replaced");
            self.problems.error_hint(Code::OutOfRange, &root.span, message, "remove some, from here on");
        }
        beyond.is_none()
    }

    /// Whether a name is one of a section's.
    pub(super) fn refers(&mut self, section: &str, kind: &str, name: &Spanned<String>, otherwise: &str) -> bool {
        let map = self.sections.get(section);
        if map.is_some_and(|map| map.entries.contains_key(&name.value)) {
            return true;
        }
        let message = format!("unknown {kind} `{}`", shown(&name.value));
        let candidates = map.into_iter().flat_map(|map| map.entries.keys()).map(String::as_str);
        self.problems.unknown(Code::UnknownName, (&name.value, &name.span), message, candidates, otherwise);
        false
    }

    fn place(&mut self, at: &AttachPoint) {
        match &at.place {
            Place::Function { module, pattern, signature, offset } => {
                self.refers("modules", "module", module, "add it to `modules`");
                self.range(i128::from(*offset), &at.span, "an offset into a function", 0, limits::VIEW_BYTES);
                self.function_pattern(
                    &pattern.value.0,
                    pattern.value.captures(),
                    &pattern.value.to_regex(),
                    &pattern.span,
                );
                self.signature(signature);
            }
            Place::Virtual { module, base, slots, candidates, signature } => {
                self.refers("modules", "module", module, "add it to `modules`");
                for slot in slots {
                    self.range(i128::from(*slot), &base.span, "a slot of a virtual table", 0, limits::SLOTS);
                }
                let count = i128::try_from(candidates.len().max(1)).unwrap_or(i128::MAX);
                self.range(count, &base.span, "the number of slots to choose from", 1, limits::CANDIDATES);
                let of_one = i128::try_from(slots.len()).unwrap_or(i128::MAX);
                self.range(of_one, &base.span, "the number of slots of one method", 1, limits::CANDIDATES);
                let all: Vec<u32> = if candidates.is_empty() { slots.clone() } else { candidates.concat() };
                if all.iter().collect::<std::collections::BTreeSet<_>>().len() < all.len() {
                    self.problems.error(Code::Duplicate, &base.span, "a slot is named twice");
                }
                if !candidates.is_empty() && !at.until.is_empty() {
                    let message = "a slot is found by the time of its calls, and a span with `until` has none";
                    self.problems.error(Code::BadSpanEnd, &base.span, message);
                }
                self.signature(signature);
            }
            Place::Usdt { module, signature, .. } => {
                self.refers("modules", "module", module, "add it to `modules`");
                self.signature(signature);
                for param in signature.params.iter().filter(|param| !param.ty.value.is_word()) {
                    let message =
                        format!("an argument of a static probe must be a number or an address, not {}", param.ty.value);
                    self.problems.error(Code::TypeMismatch, &param.ty.span, message);
                }
            }
            Place::Tracepoint { category, name } => {
                for part in [category, name] {
                    if !names::is_identifier(&part.value) || part.value.len() > limits::NAME_BYTES {
                        let message = format!("`{}` cannot be a tracepoint", shown(&part.value));
                        self.problems.error(Code::BadIdentifier, &part.span, message);
                    }
                }
            }
            Place::Software { event } => {
                if !super::vocabulary::SOFTWARE_EVENTS.contains(&event.value.as_str()) {
                    let message = format!("unknown software event `{}`", shown(&event.value));
                    let otherwise =
                        format!("available: {}", super::problems::list(&super::vocabulary::SOFTWARE_EVENTS));
                    let candidates = super::vocabulary::SOFTWARE_EVENTS;
                    self.problems.unknown(
                        Code::UnknownName,
                        (&event.value, &event.span),
                        message,
                        candidates,
                        otherwise,
                    );
                }
            }
            Place::Probe(name) => {
                self.refers("probes", "probe", name, "name a probe of this probeset");
            }
        }
    }

    fn function_pattern(&mut self, text: &str, captures: usize, regex: &str, span: &Span) {
        let most = limits::FUNCTION_PATTERN_BYTES;
        let before = self.spent.pattern_bytes;
        self.spent.pattern_bytes += text.len();
        if self.spent.pattern_bytes > most {
            if before <= most {
                let message = format!("the names of functions have more than {most} bytes together");
                self.problems.error_hint(Code::BadPattern, span, message, "remove some, from here on");
            }
            return;
        }
        let why = if text.len() > limits::REGEX_BYTES {
            format!("has {} bytes; the maximum is {}", text.len(), limits::REGEX_BYTES)
        } else if captures > limits::WILDCARDS {
            format!("has more than {} wildcards", limits::WILDCARDS)
        } else if text.matches(['*', '?', '{']).count() > limits::WILDCARDS_IN_ALL {
            format!("has more than {} wildcards, those in braces included", limits::WILDCARDS_IN_ALL)
        } else if let Err(error) = compile(regex) {
            error
        } else {
            return;
        };
        let message = format!("the function name `{}` {why}", shown(text));
        self.problems.error(Code::BadPattern, span, message);
    }

    fn signature(&mut self, signature: &Signature) {
        let mut seen: Vec<&str> = Vec::new();
        for param in &signature.params {
            self.check_type(&param.ty);
            self.by_value(&param.ty);
            let Some(name) = &param.name else { continue };
            self.problems.keep(names::check_variable(name, "an argument"));
            if seen.contains(&name.as_str()) {
                let message = format!("two arguments have the name `{}`", name.value);
                self.problems.error(Code::Duplicate, &name.span, message);
            }
            seen.push(&name.value);
        }
        if let Some(returns) = &signature.returns {
            self.check_type(returns);
            self.by_value(returns);
        }
    }

    /// A class that may be empty is passed as a struct or by its address, as what it holds is copied.
    fn by_value(&mut self, ty: &Spanned<Type>) {
        if ty.value.may_be_empty() {
            let message = format!("{} by value cannot be read", ty.value);
            let hint = "if it is a reference, add `&`; otherwise write a view with `size` and its members' offsets";
            self.problems.push(Diagnostic::error(Code::NotSupportedYet, message).at(&ty.span).hint(hint));
        }
    }

    fn check_type(&mut self, ty: &Spanned<Type>) {
        let mut within = vec![(&ty.value, 1_u64)];
        while let Some((inner, elements)) = within.pop() {
            match inner {
                Type::Pointer(to) | Type::Reference(to) | Type::Smart { to, .. } | Type::Relative { to, .. } => {
                    within.push((to, elements));
                }
                Type::Array(of, count) => {
                    let elements = elements.saturating_mul(*count);
                    self.range(i128::from(elements), &ty.span, "an array's length", 1, limits::ELEMENTS);
                    within.push((of, elements));
                }
                Type::StdVector(of) if **of == Type::Bool => return self.vector_of_bool(ty),
                Type::StdVector(of) => within.push((of, elements)),
                Type::Map { key, value, .. } => {
                    let held = || std::iter::once(key).chain(value);
                    held().for_each(|one| self.held(one, &ty.span));
                    within.extend(held().map(|one| (&**one, elements)));
                }
                Type::Optional(of) => {
                    self.held(of, &ty.span);
                    within.push((of, elements));
                }
                Type::Variant(alternatives) => {
                    let count = alternatives.len() as u64;
                    self.range(i128::from(count), &ty.span, "the number of alternatives", 1, limits::ALTERNATIVES_OF);
                    alternatives.iter().filter(|one| **one != Type::Void).for_each(|one| self.held(one, &ty.span));
                    within.extend(alternatives.iter().map(|one| (one, elements)));
                }
                other => self.leaf(other, &ty.span),
            }
        }
    }

    /// What a class of the library holds in place, so that its size must be that of the target's type.
    fn held(&mut self, ty: &Type, span: &Span) {
        let hint = match ty {
            Type::Hex(n) => format!("write `u8[{n}]`, or a view"),
            Type::Reference(_) => "write a pointer".to_owned(),
            Type::Void => "write the type of its value".to_owned(),
            _ => return,
        };
        let message = format!("{ty} cannot be the type of a value in a class of the C++ library");
        self.problems.error_hint(Code::TypeMismatch, span, message, hint);
    }

    fn leaf(&mut self, ty: &Type, span: &Span) {
        match ty {
            Type::View(name) => {
                let name = Spanned::new(name.clone(), span.clone());
                self.refers("types", "type", &name, "add it to `types`, or write `void*` if no member is read");
            }
            Type::Object(name) => {
                let name = Spanned::new(name.clone(), span.clone());
                self.refers("objects", "object", &name, "add it to `objects`");
            }
            Type::Chars(n) | Type::CStr(n) | Type::Hex(n) | Type::StdString(n) => {
                self.range(i128::from(*n), span, "a text's length", 1, limits::CHARS);
            }
            _ => {}
        }
    }

    fn vector_of_bool(&mut self, ty: &Spanned<Type>) {
        let message =
            format!("`{}` cannot be read: its elements are bits, packed differently by each library", ty.value);
        let diagnostic = Diagnostic::error(Code::NotSupportedYet, message).at(&ty.span);
        self.problems.push(diagnostic.hint("describe its members in a view under `types`"));
    }

    /// An expression's types, bounds and patterns. An explicit stack: nothing here depends on how deep it is.
    fn check_expr(&mut self, root: &Expr) {
        let mut stack = vec![root];
        while let Some(expr) = stack.pop() {
            match &expr.kind {
                ExprKind::Cast { ty, .. } => self.check_type(ty),
                ExprKind::Slice { max: Some(max), .. } => {
                    let most = i64::try_from(MAX_ELEMENTS).unwrap_or(i64::MAX);
                    self.range(i128::from(max.value), &max.span, "`max`", 1, most);
                }
                // What is beyond the bound is not compiled; `spend` reports it.
                ExprKind::Matches { pattern, .. } if self.spent.regexes <= limits::REGEXES => self.regex(pattern),
                _ => {}
            }
            stack.extend(expr.children());
        }
    }

    fn regex(&mut self, pattern: &Spanned<String>) {
        let error = if pattern.value.len() > limits::REGEX_BYTES {
            format!("has {} bytes; the maximum is {}", pattern.value.len(), limits::REGEX_BYTES)
        } else if let Err(error) = compile(&pattern.value) {
            error
        } else {
            return;
        };
        let message = format!("the pattern `{}` {error}", shown(&pattern.value));
        self.problems.error(Code::BadPattern, &pattern.span, message);
    }

    fn range(&mut self, value: i128, span: &Span, what: &str, least: i64, most: i64) {
        reader::in_range(value, span, what, least, most, self.problems);
    }
}

/// Whether a pattern can be matched at a bounded cost; otherwise the reason, as the end of a sentence.
fn compile(regex: &str) -> Result<(), String> {
    let built = regex::RegexBuilder::new(regex).size_limit(limits::REGEX_COMPILED_BYTES).nest_limit(32).build();
    match built {
        Ok(_) => Ok(()),
        Err(regex::Error::CompiledTooBig(_)) => Err("is too complex to match".into()),
        Err(error) => {
            let error = error.to_string();
            let reason = error.lines().last().unwrap_or_default().trim_start_matches("error: ");
            Err(format!("is malformed: {}", shown(reason)))
        }
    }
}
