//! The second back end of expressions: a value, computed from decoded fields. The `analysis:` part of a probeset is
//! evaluated here, over traces that may hold anything: evaluation is total. What cannot be computed is *absent*
//! (`None`): a missing field, a division by zero, an overflow, an index beyond the end, too much work.

use super::ast::{BinaryOp, Expr, ExprKind, Type, UnaryOp};
use profinfer_diagnostics::{Code, Diagnostic, Diagnostics, Spanned};
use regex::{Regex, RegexBuilder};
use std::cell::Cell;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// Nested deeper than this, an expression is absent.
const MAX_DEPTH: u32 = 200;
/// Steps of evaluation and list elements made in one evaluation; beyond, the result is absent.
const MAX_WORK: u32 = 100_000;
/// Bytes that one compiled regular expression may take.
const MAX_PATTERN_SIZE: usize = 1 << 20;

/// What an expression comes to.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// An integer, and `true` (1) and `false` (0).
    Int(i64),
    /// A number with a fraction; always finite.
    Float(f64),
    /// A text.
    Text(Arc<str>),
    /// A constant of an enumeration: a number where numbers are used, its name where texts are.
    Constant {
        /// Its number.
        number: i64,
        /// Its name.
        name: Arc<str>,
    },
    /// The address of an object; its members are the fields of its description.
    Object(u64),
    /// Several values. Used as a number, it is their sum.
    List(Vec<Value>),
}

/// Where an expression's names get their values.
pub trait Environment {
    /// A field, or a constant of an enumeration, by name.
    fn field(&self, name: &str) -> Option<Value>;

    /// A field of the object at an address.
    fn member(&self, object: u64, name: &str) -> Option<Value> {
        let _ = (object, name);
        None
    }
}

/// An expression made ready to be evaluated often: its regular expressions are compiled.
#[derive(Debug, Clone)]
pub struct Formula {
    expr: Expr,
    patterns: HashMap<String, Regex>,
}

impl Formula {
    /// Compiles the regular expressions.
    ///
    /// # Errors
    /// `S012` for each that is malformed or too large.
    pub fn new(expr: Expr) -> Result<Self, Diagnostics> {
        let mut patterns = HashMap::new();
        let mut problems = Diagnostics::new();
        collect_patterns(&expr, &mut patterns, &mut problems, 0);
        problems.finish(()).map(|_| Self { expr, patterns })
    }

    /// The value in an environment, or `None` where it is absent.
    pub fn eval(&self, environment: &dyn Environment) -> Option<Value> {
        Evaluation { environment, patterns: &self.patterns, work: Cell::new(MAX_WORK) }.eval(&self.expr, 0)
    }

    /// The value as a condition.
    pub fn holds(&self, environment: &dyn Environment) -> Option<bool> {
        self.eval(environment)?.truth()
    }
}

impl Value {
    /// As an integer: a list is its sum, a text is what it spells, a fraction is cut off.
    pub fn as_int(&self) -> Option<i64> {
        match self.number()? {
            Number::Int(n) => Some(n),
            #[allow(clippy::cast_possible_truncation)]
            Number::Float(x) => (x.abs() < 9.2e18).then_some(x as i64),
        }
    }

    /// As a number with a fraction.
    pub fn as_f64(&self) -> Option<f64> {
        self.number().map(Number::float)
    }

    /// As a text; numbers have none.
    pub fn as_text(&self) -> Option<&Arc<str>> {
        match self {
            Self::Text(text) | Self::Constant { name: text, .. } => Some(text),
            _ => None,
        }
    }

    /// As a condition: a number that is not zero, a text that is not empty.
    pub fn truth(&self) -> Option<bool> {
        match self {
            Self::Text(text) => Some(!text.is_empty()),
            other => match other.number()? {
                Number::Int(n) => Some(n != 0),
                Number::Float(x) => Some(x != 0.0),
            },
        }
    }

    fn number(&self) -> Option<Number> {
        match self {
            Self::Int(n) | Self::Constant { number: n, .. } => Some(Number::Int(*n)),
            Self::Float(x) => finite(*x),
            Self::Text(text) => text.parse().ok().map(Number::Int),
            Self::Object(address) => i64::try_from(*address).ok().map(Number::Int),
            Self::List(items) => sum(items),
        }
    }
}

/// As a person would write it.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(n) => write!(f, "{n}"),
            Self::Float(x) => write!(f, "{x}"),
            Self::Text(text) | Self::Constant { name: text, .. } => f.write_str(text),
            Self::Object(address) => write!(f, "{address:#x}"),
            Self::List(items) => {
                f.write_str("[")?;
                for (i, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if i == 0 { "" } else { ", " })?;
                }
                f.write_str("]")
            }
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Number {
    Int(i64),
    Float(f64),
}

impl Number {
    #[allow(clippy::cast_precision_loss)]
    fn float(self) -> f64 {
        match self {
            Self::Int(n) => n as f64,
            Self::Float(x) => x,
        }
    }

    fn value(self) -> Value {
        match self {
            Self::Int(n) => Value::Int(n),
            Self::Float(x) => Value::Float(x),
        }
    }
}

fn finite(x: f64) -> Option<Number> {
    x.is_finite().then_some(Number::Float(x))
}

/// Lists of lists are as deep as field types nest, which the decoder bounds.
fn sum(items: &[Value]) -> Option<Number> {
    items.iter().try_fold(Number::Int(0), |total, item| arithmetic(BinaryOp::Add, total, item.number()?))
}

struct Evaluation<'a> {
    environment: &'a dyn Environment,
    patterns: &'a HashMap<String, Regex>,
    work: Cell<u32>,
}

impl Evaluation<'_> {
    fn eval(&self, expr: &Expr, depth: u32) -> Option<Value> {
        self.spend(1)?;
        let depth = (depth < MAX_DEPTH).then_some(depth + 1)?;
        match &expr.kind {
            ExprKind::Int(n) => Some(Value::Int(*n)),
            ExprKind::Float(x) => finite(*x).map(Number::value),
            ExprKind::Text(text) => Some(Value::Text(text.as_str().into())),
            ExprKind::Name(name) => self.environment.field(name),
            // These are of the moment of an event; what the analysis sees of them are recorded fields.
            ExprKind::Return | ExprKind::Tid | ExprKind::Cpu | ExprKind::Match(_) => None,
            ExprKind::Member { base, name, .. } => self.member(self.eval(base, depth)?, name, 0),
            ExprKind::Index { base, index } => self.index(base, index, depth),
            ExprKind::All { base } => match self.eval(base, depth)? {
                Value::List(mut items) => {
                    items.retain(|item| *item != Value::Object(0));
                    Some(Value::List(items))
                }
                _ => None,
            },
            // Rows and alternatives are of memory, which is gone.
            ExprKind::Slice { rows: Some(_), .. } | ExprKind::Alternative { .. } | ExprKind::Contains { .. } => None,
            ExprKind::Slice { base, from, to, max, until_null, rows: None } => {
                let bounds = (from.as_deref(), to.as_deref());
                self.slice(base, bounds, max.as_ref().map(|m| m.value), *until_null, depth)
            }
            ExprKind::Cast { base, ty } => cast(&self.eval(base, depth)?, ty),
            ExprKind::Unary { op, operand } => unary(*op, &self.eval(operand, depth)?),
            ExprKind::Binary { op, left, right } => self.binary(*op, left, right, depth),
            ExprKind::Conditional { condition, then, otherwise } => {
                self.eval(if self.eval(condition, depth)?.truth()? { then } else { otherwise }, depth)
            }
            ExprKind::List(items) => {
                items.iter().map(|item| self.eval(item, depth)).collect::<Option<Vec<Value>>>().map(Value::List)
            }
            ExprKind::Matches { base, pattern } => self.matches(&self.eval(base, depth)?, pattern),
        }
    }

    fn spend(&self, units: usize) -> Option<()> {
        let left = self.work.get().checked_sub(u32::try_from(units).ok()?);
        self.work.set(left.unwrap_or(0));
        left.map(|_| ())
    }

    /// A member of an object, or of each object of a list.
    fn member(&self, base: Value, name: &str, depth: u32) -> Option<Value> {
        match base {
            Value::Object(address) => self.environment.member(address, name),
            Value::List(items) if depth < MAX_DEPTH => {
                self.spend(items.len())?;
                let members: Option<Vec<Value>> =
                    items.into_iter().map(|item| self.member(item, name, depth + 1)).collect();
                members.map(Value::List)
            }
            _ => None,
        }
    }

    /// A negative index counts from the end.
    fn index(&self, base: &Expr, index: &Expr, depth: u32) -> Option<Value> {
        let index = self.eval(index, depth)?.as_int()?;
        let Value::List(mut items) = self.eval(base, depth)? else { return None };
        let from_start = if index < 0 { index.checked_add(i64::try_from(items.len()).ok()?)? } else { index };
        let index = usize::try_from(from_start).ok()?;
        if index < items.len() {
            return Some(items.swap_remove(index));
        }
        // Beyond the last object there is none; nulls at the end are not in a list.
        let are_objects = items.first().is_some_and(|item| matches!(item, Value::Object(_)));
        are_objects.then_some(Value::Object(0))
    }

    fn slice(
        &self,
        base: &Expr,
        (from, to): (Option<&Expr>, Option<&Expr>),
        max: Option<u64>,
        until_null: bool,
        depth: u32,
    ) -> Option<Value> {
        let Value::List(items) = self.eval(base, depth)? else { return None };
        let bound = |e: &Expr| self.eval(e, depth)?.as_int().and_then(|n| usize::try_from(n).ok());
        let from = from.map_or(Some(0), bound)?;
        let to = to.map_or(Some(items.len()), bound)?;
        let to = max.map_or(to, |m| to.min(from.saturating_add(usize::try_from(m).unwrap_or(usize::MAX))));
        let taken = items.get(from..to.min(items.len()))?;
        let null = |v: &Value| matches!(v.number(), Some(Number::Int(0)));
        let end = if until_null { taken.iter().position(null).unwrap_or(taken.len()) } else { taken.len() };
        Some(Value::List(taken[..end].to_vec()))
    }

    fn binary(&self, op: BinaryOp, left: &Expr, right: &Expr, depth: u32) -> Option<Value> {
        let left = self.eval(left, depth)?;
        match op {
            BinaryOp::And if !left.truth()? => return Some(Value::Int(0)),
            BinaryOp::Or if left.truth()? => return Some(Value::Int(1)),
            BinaryOp::And | BinaryOp::Or => return Some(bool_value(self.eval(right, depth)?.truth()?)),
            _ => {}
        }
        let right = self.eval(right, depth)?;
        match op {
            BinaryOp::Eq | BinaryOp::Ne | BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge => {
                compare(op, &left, &right).map(bool_value)
            }
            _ => arithmetic(op, left.number()?, right.number()?).map(Number::value),
        }
    }

    fn matches(&self, base: &Value, pattern: &Spanned<String>) -> Option<Value> {
        let text = base.as_text()?;
        let found = self.patterns.get(&pattern.value)?.captures(text)?;
        let group = found.get(1).or_else(|| found.get(0))?;
        Some(Value::Text(group.as_str().into()))
    }
}

fn bool_value(b: bool) -> Value {
    Value::Int(i64::from(b))
}

fn unary(op: UnaryOp, operand: &Value) -> Option<Value> {
    match (op, operand) {
        (UnaryOp::Not, value) => value.truth().map(|t| bool_value(!t)),
        (UnaryOp::Negate, value) => match value.number()? {
            Number::Int(n) => n.checked_neg().map(Value::Int),
            Number::Float(x) => Some(Value::Float(-x)),
        },
        (UnaryOp::Complement, value) => match value.number()? {
            Number::Int(n) => Some(Value::Int(!n)),
            Number::Float(_) => None,
        },
    }
}

fn arithmetic(op: BinaryOp, left: Number, right: Number) -> Option<Number> {
    match (left, right) {
        (Number::Int(a), Number::Int(b)) => integer(op, a, b).map(Number::Int),
        (a, b) => {
            let (a, b) = (a.float(), b.float());
            finite(match op {
                BinaryOp::Mul => a * b,
                BinaryOp::Div => a / b,
                BinaryOp::Rem => a % b,
                BinaryOp::Add => a + b,
                BinaryOp::Sub => a - b,
                _ => return None,
            })
        }
    }
}

fn integer(op: BinaryOp, a: i64, b: i64) -> Option<i64> {
    let shift = || u32::try_from(b).ok().filter(|s| *s < i64::BITS);
    match op {
        BinaryOp::Mul => a.checked_mul(b),
        BinaryOp::Div => a.checked_div(b),
        BinaryOp::Rem => a.checked_rem(b),
        BinaryOp::Add => a.checked_add(b),
        BinaryOp::Sub => a.checked_sub(b),
        BinaryOp::Shl => shift().map(|s| a << s),
        BinaryOp::Shr => shift().map(|s| a >> s),
        BinaryOp::BitAnd => Some(a & b),
        BinaryOp::BitXor => Some(a ^ b),
        BinaryOp::BitOr => Some(a | b),
        _ => None,
    }
}

/// Texts compare as texts where both sides are some, else both sides are numbers.
fn compare(op: BinaryOp, left: &Value, right: &Value) -> Option<bool> {
    let order = match (left.as_text(), right.as_text()) {
        (Some(a), Some(b)) => a.cmp(b),
        _ => match (left.number()?, right.number()?) {
            (Number::Int(a), Number::Int(b)) => a.cmp(&b),
            (a, b) => a.float().partial_cmp(&b.float())?,
        },
    };
    Some(match op {
        BinaryOp::Eq => order == Ordering::Equal,
        BinaryOp::Ne => order != Ordering::Equal,
        BinaryOp::Lt => order == Ordering::Less,
        BinaryOp::Le => order != Ordering::Greater,
        BinaryOp::Gt => order == Ordering::Greater,
        BinaryOp::Ge => order != Ordering::Less,
        _ => return None,
    })
}

/// The low bytes of a number, as an integer of so many bytes.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub(super) fn narrowed(n: i64, size: u32, signed: bool) -> i64 {
    match (size, signed) {
        (1, true) => i64::from(n as i8),
        (1, false) => i64::from(n as u8),
        (2, true) => i64::from(n as i16),
        (2, false) => i64::from(n as u16),
        (4, true) => i64::from(n as i32),
        (4, false) => i64::from(n as u32),
        _ => n,
    }
}

#[allow(clippy::cast_possible_truncation)]
fn cast(value: &Value, ty: &Type) -> Option<Value> {
    match ty {
        Type::Int { size, signed } => Some(Value::Int(narrowed(value.as_int()?, *size, *signed))),
        Type::Float { size: 4 } => finite(f64::from(value.as_f64()? as f32)).map(Number::value),
        Type::Float { .. } => value.as_f64().map(Value::Float),
        Type::Bool => value.truth().map(bool_value),
        _ => None,
    }
}

fn collect_patterns(expr: &Expr, patterns: &mut HashMap<String, Regex>, problems: &mut Diagnostics, depth: u32) {
    if depth >= MAX_DEPTH {
        return;
    }
    if let ExprKind::Matches { pattern, .. } = &expr.kind {
        match RegexBuilder::new(pattern).size_limit(MAX_PATTERN_SIZE).build() {
            Ok(regex) => drop(patterns.insert(pattern.value.clone(), regex)),
            Err(error) => {
                let reason = error.to_string();
                let reason = reason.lines().last().unwrap_or("it is malformed").trim_start_matches("error: ");
                problems.push(
                    Diagnostic::error(Code::BadPattern, format!("not a regular expression: {reason}"))
                        .at(&pattern.span)
                        .hint("the syntax is that of https://docs.rs/regex, without look-around"),
                );
            }
        }
    }
    for part in expr.children() {
        collect_patterns(part, patterns, problems, depth + 1);
    }
}

#[cfg(test)]
#[path = "value_tests.rs"]
mod tests;
