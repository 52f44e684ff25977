//! Text to syntax trees, by the pest grammar. Hostile text is bounded before the parser, which recurses, sees it.

use super::ast::{AttachPoint, BinaryOp, Expr, ExprKind, Param, Place, Rows, Signature, Type, UnaryOp};
use super::grammar::{Grammar, Rule};
use super::name_pattern::{NamePattern, without_result};
use super::syntax_error::syntax_error;
use pest::Parser as _;
use pest::iterators::Pair;
use pest::pratt_parser::{Assoc, Op, PrattParser};
use profinfer_diagnostics::{Code, Diagnostic, Span, Spanned};
use std::sync::LazyLock;

/// Longest text of one type, attach point or expression, in bytes.
const MAX_LENGTH: usize = 2048;
/// Deepest nesting of brackets.
const MAX_DEPTH: usize = 32;
/// Most `-`, `!` and `~` before one value.
const MAX_PREFIXES: usize = 8;
/// Most `?` in one expression, which nest to the right.
const MAX_CONDITIONS: usize = 16;

type Parsed<T> = Result<T, Diagnostic>;

/// Parses a type such as `tensor*[10]`; `span` is the whole text's place.
///
/// # Errors
/// `P001`, pointing at the first character that does not fit.
pub fn parse_type(text: &str, span: &Span) -> Parsed<Type> {
    within_bounds(text, span, "a type")?;
    let mut pairs =
        Grammar::parse(Rule::type_only, text).map_err(|error| syntax_error(&error, text, span, "a type"))?;
    let tree = Tree { span };
    let pair = pairs.next().ok_or_else(|| Diagnostic::error(Code::Bug, "a type without a tree").at(span))?;
    let ty = tree.ty(pair)?.value;
    match pairs.next().filter(|pair| pair.as_rule() == Rule::bits) {
        Some(bits) => tree.bits(&ty, bits),
        None => Ok(ty),
    }
}

/// Parses an attach point such as `core:engine_decode(void* ctx, batch_t batch) -> i32`.
///
/// # Errors
/// `P001`, pointing at the first character that does not fit.
pub fn parse_attach(text: &str, span: &Span) -> Parsed<AttachPoint> {
    let pair = parse(Rule::attach_only, text, span, "an attach point")?;
    Tree { span }.attach(pair)
}

/// Parses an expression such as `tensor->src[2]->ne[0] * 2`.
///
/// # Errors
/// `P001`, pointing at the first character that does not fit.
pub fn parse_expr(text: &str, span: &Span) -> Parsed<Expr> {
    let pair = parse(Rule::expression_only, text, span, "an expression")?;
    Tree { span }.expression(pair)
}

/// Parses what a field is read by: an expression, and whether it is `at return`.
///
/// # Errors
/// `P001`, pointing at the first character that does not fit.
pub fn parse_field(text: &str, span: &Span) -> Parsed<(Expr, bool)> {
    within_bounds(text, span, "an expression")?;
    let mut pairs =
        Grammar::parse(Rule::field_only, text).map_err(|error| syntax_error(&error, text, span, "an expression"))?;
    let pair = pairs.next().ok_or_else(|| Diagnostic::error(Code::Bug, "a field without a tree").at(span))?;
    let at_return = pairs.next().is_some_and(|pair| pair.as_rule() == Rule::at_return);
    Ok((Tree { span }.expression(pair)?, at_return))
}

fn parse<'t>(rule: Rule, text: &'t str, span: &Span, what: &str) -> Parsed<Pair<'t, Rule>> {
    within_bounds(text, span, what)?;
    let mut pairs = Grammar::parse(rule, text).map_err(|error| syntax_error(&error, text, span, what))?;
    pairs.next().ok_or_else(|| Diagnostic::error(Code::Bug, format!("{what} without a tree")).at(span))
}

/// The parser recurses with the text's nesting, so both are bounded first.
fn within_bounds(text: &str, span: &Span, what: &str) -> Parsed<()> {
    if text.len() > MAX_LENGTH {
        let message = format!("{what} has {} bytes; the maximum is {MAX_LENGTH}", text.len());
        return Err(Diagnostic::error(Code::PathSyntax, message).at(span));
    }
    // `>` also compares: it closes no bracket but `<`.
    let (mut depth, mut angles, mut deepest) = (0_usize, 0_usize, 0);
    let mut before = b' ';
    for byte in text.bytes() {
        let is_arrow = std::mem::replace(&mut before, byte) == b'-' && byte == b'>';
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth = depth.saturating_sub(1),
            b'<' => angles += 1,
            b'>' if !is_arrow => angles = angles.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth).max(angles);
    }
    if deepest > MAX_DEPTH || text.matches('?').count() > MAX_CONDITIONS {
        let message = format!("{what} is nested more than {MAX_DEPTH} levels deep");
        return Err(Diagnostic::error(Code::PathSyntax, message).at(span));
    }
    Ok(())
}

/// The parts of a pair that carry meaning: keywords only have to be there.
trait Parts<'t> {
    fn parts(self) -> std::vec::IntoIter<Pair<'t, Rule>>;
}

impl<'t> Parts<'t> for Pair<'t, Rule> {
    fn parts(self) -> std::vec::IntoIter<Pair<'t, Rule>> {
        let carries_meaning = |part: &Pair<'_, Rule>| !is_keyword(part.as_rule());
        self.into_inner().filter(carries_meaning).collect::<Vec<_>>().into_iter()
    }
}

fn is_keyword(rule: Rule) -> bool {
    matches!(
        rule,
        Rule::constant
            | Rule::word_enum
            | Rule::word_struct
            | Rule::word_object
            | Rule::word_probe
            | Rule::word_tracepoint
            | Rule::word_software
            | Rule::word_usdt
            | Rule::word_virtual
            | Rule::word_until
            | Rule::word_waiting
            | Rule::word_from
            | Rule::word_max
            | Rule::word_null
            | Rule::word_get
            | Rule::word_contains
            | Rule::word_as
            | Rule::word_at
            | Rule::word_rows
            | Rule::word_stride
    )
}

/// Builds trees; `span` is the place of the whole text, which pairs' offsets are relative to.
struct Tree<'s> {
    span: &'s Span,
}

impl Tree<'_> {
    fn place_of(&self, pair: &Pair<'_, Rule>) -> Span {
        let at = pair.as_span();
        // An implicit-whitespace rule may end in blanks; the place people see does not.
        self.span.slice(at.start()..at.start() + at.as_str().trim_end().len())
    }

    fn named(&self, pair: &Pair<'_, Rule>) -> Spanned<String> {
        Spanned::new(pair.as_str().trim().to_owned(), self.place_of(pair))
    }

    fn number(&self, pair: &Pair<'_, Rule>) -> Parsed<u64> {
        let digits = pair.as_str();
        let value = match digits.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16),
            None => digits.parse(),
        };
        let too_large = |_| Diagnostic::error(Code::OutOfRange, format!("{digits} does not fit in 64 bits"));
        value.map_err(|error| too_large(error).at(&self.place_of(pair)))
    }

    /// The first inner pair; a grammar rule that has none here is a fault of this file.
    fn inner<'t>(&self, pair: Pair<'t, Rule>) -> Parsed<Pair<'t, Rule>> {
        let place = self.place_of(&pair);
        pair.parts().next().ok_or_else(|| self.unexpected(&place))
    }

    fn unexpected(&self, place: &Span) -> Diagnostic {
        Diagnostic::error(Code::Bug, "the grammar and the tree builder disagree").at(place)
    }

    fn next<'t>(&self, pairs: &mut impl Iterator<Item = Pair<'t, Rule>>) -> Parsed<Pair<'t, Rule>> {
        pairs.next().ok_or_else(|| self.unexpected(self.span))
    }

    // ---- types ---------------------------------------------------------------------------------------------------

    fn ty(&self, pair: Pair<'_, Rule>) -> Parsed<Spanned<Type>> {
        let place = self.place_of(&pair);
        let mut pairs = pair.parts();
        let base = self.inner(self.next(&mut pairs)?)?;
        let plain_char = base.as_rule() == Rule::scalar && base.as_str().trim() == "char";
        let mut ty = self.type_base(base)?;
        for (position, suffix) in pairs.enumerate() {
            let suffix = self.inner(suffix)?;
            ty = match suffix.as_rule() {
                Rule::array => {
                    let length = self.number(&self.inner(suffix)?)?;
                    if plain_char && position == 0 { Type::Chars(length) } else { Type::Array(Box::new(ty), length) }
                }
                Rule::reference if matches!(ty, Type::Reference(_)) => {
                    return Err(
                        Diagnostic::error(Code::PathSyntax, "a reference cannot refer to a reference").at(&place)
                    );
                }
                Rule::reference => Type::Reference(Box::new(ty)),
                _ => Type::Pointer(Box::new(ty)),
            };
        }
        Ok(Spanned::new(ty, place))
    }

    /// `u32:3`.
    fn bits(&self, of: &Type, pair: Pair<'_, Rule>) -> Parsed<Type> {
        let number = self.inner(pair)?;
        let place = self.place_of(&number);
        let bits = self.number(&number)?;
        match of {
            Type::Int { size, signed } if (1..=u64::from(size * 8)).contains(&bits) => {
                Ok(Type::Bits { size: *size, signed: *signed, bits: u32::try_from(bits).unwrap_or_default() })
            }
            _ => Err(Diagnostic::error(Code::TypeMismatch, format!("{of} does not have {bits} bits"))
                .at(&place)
                .hint("a bit-field needs an integer with at least as many bits: `u32:3`")),
        }
    }

    fn type_base(&self, pair: Pair<'_, Rule>) -> Parsed<Type> {
        let rule = pair.as_rule();
        Ok(match rule {
            Rule::enumeration => Type::Enum(self.inner(pair)?.as_str().to_owned()),
            Rule::structure => Type::View(self.inner(pair)?.as_str().to_owned()),
            Rule::object_ref => Type::Object(self.inner(pair)?.as_str().to_owned()),
            Rule::bounded_text => {
                let mut pairs = pair.parts();
                let kind = self.next(&mut pairs)?;
                let bound = self.number(&self.next(&mut pairs)?)?;
                if kind.as_str() == "hex" { Type::Hex(bound) } else { Type::CStr(bound) }
            }
            Rule::string => match pair.parts().next() {
                Some(bound) => Type::StdString(self.number(&bound)?),
                None => Type::StdString(DEFAULT_STRING),
            },
            Rule::vector => Type::StdVector(Box::new(self.ty(self.inner(pair)?)?.value)),
            Rule::map => self.map(pair)?,
            Rule::optional => Type::Optional(Box::new(self.ty(self.inner(pair)?)?.value)),
            Rule::variant => {
                Type::Variant(pair.parts().map(|one| self.alternative(one)).collect::<Parsed<Vec<Type>>>()?)
            }
            Rule::smart => {
                let mut pairs = pair.parts();
                let shared = self.next(&mut pairs)?.as_str().trim() == "std::shared_ptr";
                Type::Smart { to: Box::new(self.ty(self.next(&mut pairs)?)?.value), shared }
            }
            Rule::relative => self.relative(pair)?,
            _ => scalar_or_view(pair.as_str().trim()),
        })
    }

    /// `std::unordered_map<K, V>`, `std::set<K>`.
    fn map(&self, pair: Pair<'_, Rule>) -> Parsed<Type> {
        let place = self.place_of(&pair);
        let mut pairs = pair.parts();
        let class = self.next(&mut pairs)?;
        let key = Box::new(self.ty(self.next(&mut pairs)?)?.value);
        let value = pairs.next().map(|value| Ok(Box::new(self.ty(value)?.value))).transpose()?;
        let (name, is_map) = (class.as_str(), class.as_str().ends_with("map"));
        if is_map != value.is_some() {
            let (has, example) = if is_map { ("a key and a value", "KEY, VALUE") } else { ("a key", "KEY") };
            return Err(Diagnostic::error(Code::PathSyntax, format!("{name} has {has}"))
                .at(&place)
                .hint(format!("write `{name}<{example}>`")));
        }
        Ok(Type::Map { sorted: !name.contains("unordered_"), multiple: name.contains("multi"), key, value })
    }

    fn alternative(&self, pair: Pair<'_, Rule>) -> Parsed<Type> {
        let inner = self.inner(pair)?;
        if inner.as_rule() == Rule::monostate { Ok(Type::Void) } else { Ok(self.ty(inner)?.value) }
    }

    /// `relative<-i32, T, 4096>`.
    fn relative(&self, pair: Pair<'_, Rule>) -> Parsed<Type> {
        let mut pairs = pair.parts().peekable();
        let back = pairs.next_if(|part| part.as_rule() == Rule::backwards).is_some();
        let number = self.next(&mut pairs)?;
        let Type::Int { size, signed } = scalar_or_view(number.as_str().trim()) else {
            let message = format!("`{}` is not an integer", number.as_str().trim());
            return Err(Diagnostic::error(Code::TypeMismatch, message)
                .at(&self.place_of(&number))
                .hint("a relative pointer needs an integer type: `relative<i32, TYPE>`"));
        };
        let to = Box::new(self.ty(self.next(&mut pairs)?)?.value);
        let most = pairs.next().map_or(Ok(MAX_DISTANCE), |most| self.number(&most))?;
        Ok(Type::Relative { size, signed, back, to, most: most.min(MAX_DISTANCE) })
    }

    // ---- attach points -------------------------------------------------------------------------------------------

    fn attach(&self, pair: Pair<'_, Rule>) -> Parsed<AttachPoint> {
        let span = self.place_of(&pair);
        let mut pairs = pair.parts();
        let place = self.place(self.inner(self.next(&mut pairs)?)?)?;
        let mut attach = AttachPoint { place, until: Vec::new(), waiting_from: None, span };
        for clause in pairs {
            match clause.as_rule() {
                Rule::until => attach.until = clause.parts().map(|name| self.named(&name)).collect(),
                Rule::waiting => attach.waiting_from = Some(self.named(&self.inner(clause)?)),
                _ => {}
            }
        }
        Ok(attach)
    }

    fn slot(&self, pair: &Pair<'_, Rule>) -> Parsed<u32> {
        u32::try_from(self.number(pair)?).map_err(|_| {
            Diagnostic::error(Code::OutOfRange, "the slot is beyond the maximum length of a virtual table")
                .at(&self.place_of(pair))
        })
    }

    fn place(&self, pair: Pair<'_, Rule>) -> Parsed<Place> {
        let rule = pair.as_rule();
        let mut pairs = pair.parts();
        let first = self.named(&self.next(&mut pairs)?);
        Ok(match rule {
            Rule::probe_place => Place::Probe(first),
            Rule::tracepoint_place => Place::Tracepoint { category: first, name: self.named(&self.next(&mut pairs)?) },
            Rule::software_place => Place::Software { event: first },
            Rule::usdt_place => Place::Usdt {
                module: first,
                provider: self.named(&self.next(&mut pairs)?),
                name: self.named(&self.next(&mut pairs)?),
                signature: pairs.next().map_or_else(|| Ok(Signature::default()), |s| self.signature(s))?,
            },
            Rule::virtual_place => {
                let base = self.named(&self.next(&mut pairs)?);
                let of_one = |slots: Pair<'_, Rule>| slots.parts().map(|slot| self.slot(&slot)).collect();
                let all = self.next(&mut pairs)?.parts().map(of_one).collect::<Parsed<Vec<Vec<u32>>>>()?;
                let signature = pairs.next().map_or_else(|| Ok(Signature::default()), |s| self.signature(s))?;
                let slots = all.first().cloned().unwrap_or_default();
                let candidates = if all.len() > 1 { all } else { Vec::new() };
                Place::Virtual { module: first, base, slots, candidates, signature }
            }
            _ => {
                let name = self.next(&mut pairs)?;
                let name = match name.as_rule() {
                    Rule::demangled_pattern => {
                        let name = self.named(&self.inner(name)?);
                        Spanned::new(without_result(name.value), name.span)
                    }
                    _ => self.named(&name),
                };
                let pattern = Spanned::new(NamePattern(name.value), name.span);
                let (mut offset, mut signature) = (0, Signature { variadic: true, ..Signature::default() });
                if let Some(rest) = pairs.next() {
                    match rest.as_rule() {
                        Rule::function_offset => offset = self.number(&self.inner(rest)?)?,
                        _ => signature = self.signature(rest)?,
                    }
                }
                Place::Function { module: first, pattern, signature, offset }
            }
        })
    }

    fn signature(&self, pair: Pair<'_, Rule>) -> Parsed<Signature> {
        let mut signature = Signature::default();
        for part in pair.parts() {
            match part.as_rule() {
                Rule::r#type => signature.returns = Some(self.ty(part.clone())?),
                Rule::in_memory => signature.in_memory = true,
                _ => {}
            }
            if part.as_rule() != Rule::param {
                continue;
            }
            let place = self.place_of(&part);
            let mut pairs = part.parts();
            let first = self.next(&mut pairs)?;
            match first.as_rule() {
                Rule::ellipsis => signature.variadic = true,
                Rule::this => signature.params.push(Param {
                    name: Some(Spanned::new("this".to_owned(), place.clone())),
                    ty: Spanned::new(Type::Pointer(Box::new(Type::Void)), place),
                }),
                _ => {
                    let ty = self.ty(first)?;
                    signature.params.push(Param { ty, name: pairs.next().map(|name| self.named(&name)) });
                }
            }
        }
        Ok(signature)
    }

    // ---- expressions ---------------------------------------------------------------------------------------------

    fn expression(&self, pair: Pair<'_, Rule>) -> Parsed<Expr> {
        let span = self.place_of(&pair);
        let mut pairs = pair.parts();
        let condition = self.binary(self.next(&mut pairs)?)?;
        let Some(then) = pairs.next() else { return Ok(condition) };
        let otherwise = self.next(&mut pairs)?;
        let kind = ExprKind::Conditional {
            condition: Box::new(condition),
            then: Box::new(self.expression(then)?),
            otherwise: Box::new(self.expression(otherwise)?),
        };
        Ok(Expr { kind, span })
    }

    fn binary(&self, pair: Pair<'_, Rule>) -> Parsed<Expr> {
        PRECEDENCE
            .map_primary(|operand| self.operand(operand))
            .map_infix(|left, op, right| {
                let (left, right) = (left?, right?);
                let span = left.span.to(&right.span);
                let op = binary_op(op.as_rule()).ok_or_else(|| self.unexpected(&span))?;
                Ok(Expr { kind: ExprKind::Binary { op, left: Box::new(left), right: Box::new(right) }, span })
            })
            .parse(pair.parts())
    }

    fn operand(&self, pair: Pair<'_, Rule>) -> Parsed<Expr> {
        let whole = self.place_of(&pair);
        let mut prefixes = Vec::new();
        let mut result: Option<Expr> = None;
        for part in pair.parts() {
            match part.as_rule() {
                Rule::prefix => {
                    let place = self.place_of(&part);
                    let op = match self.inner(part)?.as_rule() {
                        Rule::not => UnaryOp::Not,
                        Rule::negate => UnaryOp::Negate,
                        _ => UnaryOp::Complement,
                    };
                    // Each is a level of the tree, which is walked by recursion.
                    if prefixes.len() == MAX_PREFIXES {
                        let message = format!("a value has more than {MAX_PREFIXES} operators before it");
                        return Err(Diagnostic::error(Code::PathSyntax, message).at(&place));
                    }
                    prefixes.push((op, place));
                }
                Rule::text => {
                    let base = Box::new(result.take().ok_or_else(|| self.unexpected(&whole))?);
                    let pattern = self.named(&self.inner(part)?);
                    result = Some(Expr { kind: ExprKind::Matches { base, pattern }, span: whole.clone() });
                }
                _ => result = Some(self.postfix(part)?),
            }
        }
        let mut result = result.ok_or_else(|| self.unexpected(&whole))?;
        for (op, place) in prefixes.into_iter().rev() {
            let span = place.to(&result.span);
            result = Expr { kind: ExprKind::Unary { op, operand: Box::new(result) }, span };
        }
        Ok(result)
    }

    fn postfix(&self, pair: Pair<'_, Rule>) -> Parsed<Expr> {
        let mut pairs = pair.parts();
        let mut expr = self.primary(self.next(&mut pairs)?)?;
        for part in pairs {
            let span = expr.span.to(&self.place_of(&part));
            expr = match part.as_rule() {
                Rule::cast => self.cast(expr, part, span)?,
                _ => self.step(expr, self.inner(part)?, span)?,
            };
        }
        Ok(expr)
    }

    fn cast(&self, base: Expr, pair: Pair<'_, Rule>, span: Span) -> Parsed<Expr> {
        let mut pairs = pair.parts();
        let ty = self.ty(self.next(&mut pairs)?)?;
        let cast_span = base.span.to(&ty.span);
        let Some(slice) = pairs.next() else {
            return Ok(Expr { kind: ExprKind::Cast { base: Box::new(base), ty }, span: cast_span });
        };
        // `pointer as i32[.. n]` is a slice of what the pointer leads to, seen as that type.
        let pointer = Spanned::new(Type::Pointer(Box::new(ty.value)), ty.span);
        let cast = Expr { kind: ExprKind::Cast { base: Box::new(base), ty: pointer }, span: cast_span };
        self.bracket(cast, slice, span)
    }

    fn step(&self, base: Expr, pair: Pair<'_, Rule>, span: Span) -> Parsed<Expr> {
        let base_box = Box::new(base.clone());
        let rule = pair.as_rule();
        let kind = match rule {
            Rule::arrow | Rule::dot => {
                let call = pair.as_str().trim_end().ends_with(')');
                let name = self.named(&self.inner(pair)?);
                if call && !CALLED.contains(&name.value.as_str()) {
                    let message = format!("`{}()` cannot be called", name.value);
                    return Err(Diagnostic::error(Code::PathSyntax, message)
                        .at(&name.span)
                        .hint(format!("functions of the target are not called; only {} can be read", CALLED_OF)));
                }
                ExprKind::Member { base: base_box, name, arrow: rule == Rule::arrow }
            }
            Rule::get => {
                let arrow = pair.as_str().starts_with("->");
                let number = self.inner(pair)?;
                let number = Spanned::new(self.number(&number)?, self.place_of(&number));
                ExprKind::Alternative { base: base_box, number, arrow }
            }
            Rule::contains => {
                let arrow = pair.as_str().starts_with("->");
                ExprKind::Contains { base: base_box, key: Box::new(self.expression(self.inner(pair)?)?), arrow }
            }
            Rule::bracket => return self.bracket(base, pair, span),
            _ => ExprKind::All { base: base_box },
        };
        Ok(Expr { kind, span })
    }

    /// An element, or several.
    fn bracket(&self, base: Expr, pair: Pair<'_, Rule>, span: Span) -> Parsed<Expr> {
        let (mut index, mut rest) = (None, None);
        for part in pair.parts() {
            match part.as_rule() {
                Rule::index => index = Some(Box::new(self.expression(self.inner(part)?)?)),
                _ => rest = Some(part),
            }
        }
        match (rest, index) {
            (Some(rest), from) => self.slice(base, from, rest, span),
            (None, Some(index)) => Ok(Expr { kind: ExprKind::Index { base: Box::new(base), index }, span }),
            (None, None) => Err(self.unexpected(&span)),
        }
    }

    fn slice(&self, base: Expr, from: Option<Box<Expr>>, pair: Pair<'_, Rule>, span: Span) -> Parsed<Expr> {
        let (mut to, mut rows, mut max, mut until_null) = (None, None, None, false);
        for part in pair.parts() {
            match part.as_rule() {
                Rule::slice_to => to = Some(Box::new(self.expression(self.inner(part)?)?)),
                Rule::rows => {
                    let mut parts = part.parts();
                    let count = self.expression(self.next(&mut parts)?)?;
                    let stride = self.expression(self.next(&mut parts)?)?;
                    rows = Some(Box::new(Rows { count, stride }));
                }
                Rule::maximum => {
                    let number = self.inner(part)?;
                    max = Some(Spanned::new(self.number(&number)?, self.place_of(&number)));
                }
                _ => until_null = true,
            }
        }
        Ok(Expr { kind: ExprKind::Slice { base: Box::new(base), from, to, rows, max, until_null }, span })
    }

    fn primary(&self, pair: Pair<'_, Rule>) -> Parsed<Expr> {
        let span = self.place_of(&pair);
        let inner = self.inner(pair)?;
        let kind = match inner.as_rule() {
            Rule::integer => {
                let value = self.number(&inner)?;
                ExprKind::Int(i64::try_from(value).map_err(|_| {
                    Diagnostic::error(Code::OutOfRange, format!("{value} does not fit in a signed 64-bit number"))
                        .at(&span)
                })?)
            }
            Rule::real => ExprKind::Float(inner.as_str().parse().map_err(|_| self.unexpected(&span))?),
            Rule::text => ExprKind::Text(self.inner(inner)?.as_str().to_owned()),
            Rule::result => ExprKind::Return,
            Rule::thread => ExprKind::Tid,
            Rule::processor => ExprKind::Cpu,
            Rule::capture => {
                let number = self.inner(inner)?;
                let capture = self.number(&number)?;
                let out_of_range = || Diagnostic::error(Code::OutOfRange, "captures are numbered from 0 to 9");
                match u32::try_from(capture) {
                    Ok(n @ 0..=9) => ExprKind::Match(n),
                    _ => return Err(out_of_range().at(&self.place_of(&number))),
                }
            }
            Rule::list => {
                ExprKind::List(inner.parts().map(|part| self.expression(part)).collect::<Parsed<Vec<Expr>>>()?)
            }
            Rule::expression => {
                // The place of a bracketed expression is the bracket's, so that a hint never cuts it open.
                return Ok(Expr { span, ..self.expression(inner)? });
            }
            _ => ExprKind::Name(inner.as_str().trim().to_owned()),
        };
        Ok(Expr { kind, span })
    }
}

/// Methods that only return what the class has.
const CALLED: [&str; 4] = ["size", "has_value", "value", "index"];
const CALLED_OF: &str = "`size()` of a std::vector or a map, `contains(KEY)` of a map, `has_value()` and `value()` of a std::optional and `index()` of a std::variant";
/// Bytes that a `relative<…>` leads at most.
const MAX_DISTANCE: u64 = 1 << 31;
/// Bytes read of a `std::string` without a bound.
const DEFAULT_STRING: u64 = 64;

/// A scalar type by profinfer's, C's or `stdint.h`'s name; any other name is a view's.
fn scalar_or_view(name: &str) -> Type {
    let int = |size, signed| Type::Int { size, signed };
    match name {
        "void" => Type::Void,
        "bool" | "_Bool" => Type::Bool,
        "i8" | "int8_t" | "char" => int(1, true),
        "u8" | "uint8_t" => int(1, false),
        "i16" | "int16_t" | "short" => int(2, true),
        "u16" | "uint16_t" => int(2, false),
        "i32" | "int32_t" | "int" => int(4, true),
        "u32" | "uint32_t" | "unsigned" => int(4, false),
        "i64" | "int64_t" | "long" | "ptrdiff_t" | "ssize_t" => int(8, true),
        "u64" | "uint64_t" | "size_t" | "uintptr_t" => int(8, false),
        "f32" | "float" => Type::Float { size: 4 },
        "f64" | "double" => Type::Float { size: 8 },
        _ => Type::View(name.to_owned()),
    }
}

static PRECEDENCE: LazyLock<PrattParser<Rule>> = LazyLock::new(|| {
    let left = |rule| Op::infix(rule, Assoc::Left);
    PrattParser::new()
        .op(left(Rule::or))
        .op(left(Rule::and))
        .op(left(Rule::bit_or))
        .op(left(Rule::bit_xor))
        .op(left(Rule::bit_and))
        .op(left(Rule::equal) | left(Rule::not_equal))
        .op(left(Rule::less) | left(Rule::less_equal) | left(Rule::greater) | left(Rule::greater_equal))
        .op(left(Rule::shift_left) | left(Rule::shift_right))
        .op(left(Rule::add) | left(Rule::subtract))
        .op(left(Rule::multiply) | left(Rule::divide) | left(Rule::remainder))
});

fn binary_op(rule: Rule) -> Option<BinaryOp> {
    Some(match rule {
        Rule::multiply => BinaryOp::Mul,
        Rule::divide => BinaryOp::Div,
        Rule::remainder => BinaryOp::Rem,
        Rule::add => BinaryOp::Add,
        Rule::subtract => BinaryOp::Sub,
        Rule::shift_left => BinaryOp::Shl,
        Rule::shift_right => BinaryOp::Shr,
        Rule::less => BinaryOp::Lt,
        Rule::less_equal => BinaryOp::Le,
        Rule::greater => BinaryOp::Gt,
        Rule::greater_equal => BinaryOp::Ge,
        Rule::equal => BinaryOp::Eq,
        Rule::not_equal => BinaryOp::Ne,
        Rule::bit_and => BinaryOp::BitAnd,
        Rule::bit_xor => BinaryOp::BitXor,
        Rule::bit_or => BinaryOp::BitOr,
        Rule::and => BinaryOp::And,
        Rule::or => BinaryOp::Or,
        _ => return None,
    })
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
