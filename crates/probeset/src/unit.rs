//! Units of metrics: the inferred unit of a metric's expression, compared with the unit in the probeset. Seconds, bytes and
//! floating-point operations are told apart; a counter is a number of events, and has no unit. A number that is
//! written down may be so many bytes or operations an event, so it takes whatever of these is missing; never seconds.

use super::problems::{Problems, shown};
use crate::path::{BinaryOp, Expr, ExprKind, UnaryOp};
use profinfer_diagnostics::{Code, Diagnostic, Span, Spanned};

/// What a metric may use besides counters, with the dimension of each.
pub(super) const QUANTITIES: [(&str, Dimension); 5] = [
    ("time", Dimension { seconds: 1, bytes: 0, operations: 0 }),
    ("duration", Dimension { seconds: 1, bytes: 0, operations: 0 }),
    ("lanes", Dimension::NONE),
    ("flops", Dimension { seconds: 0, bytes: 0, operations: 1 }),
    ("bytes", Dimension { seconds: 0, bytes: 1, operations: 0 }),
];

/// Powers of the base units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Dimension {
    seconds: i32,
    bytes: i32,
    operations: i32,
}

impl Dimension {
    const NONE: Self = Self { seconds: 0, bytes: 0, operations: 0 };

    fn times(self, other: Self, sign: i32) -> Self {
        Self {
            seconds: self.seconds.saturating_add(sign * other.seconds),
            bytes: self.bytes.saturating_add(sign * other.bytes),
            operations: self.operations.saturating_add(sign * other.operations),
        }
    }

    /// As a unit is written; nothing, where it has none.
    pub(super) fn text(self) -> String {
        let powers = [("FLOP", self.operations), ("B", self.bytes), ("s", self.seconds)];
        let product = |sign: i32| {
            let words = powers.iter().flat_map(|(word, power)| {
                std::iter::repeat_n(*word, usize::try_from(power.saturating_mul(sign)).unwrap_or(0).min(8))
            });
            words.collect::<Vec<_>>().join("*")
        };
        match (product(1), product(-1)) {
            (above, below) if below.is_empty() => above,
            (above, below) if above.is_empty() => format!("1/{below}"),
            (above, below) => format!("{above}/{below}"),
        }
    }
}

/// What an expression comes out in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Measured {
    /// Its dimension, as far as names give it.
    pub(super) dimension: Dimension,
    /// A written number is a factor of it: it may stand for bytes or operations.
    factor: bool,
    /// It is nothing but written numbers.
    number: bool,
}

const NUMBER: Measured = Measured { dimension: Dimension::NONE, factor: true, number: true };
const TRUTH: Measured = Measured { dimension: Dimension::NONE, factor: false, number: false };

impl Measured {
    /// Whether it can have this unit.
    fn fits(self, unit: Dimension) -> bool {
        let difference = self.dimension.times(unit, -1);
        difference.seconds == 0 && (self.factor || difference == Dimension::NONE)
    }
}

/// The unit of an expression. `named` resolves names and reports unknown ones.
///
/// # Errors
/// `P004` where it is no arithmetic, `P009` where units do not go together.
pub(super) fn measure(
    expr: &Expr,
    named: &mut dyn FnMut(&str, &Span) -> Result<Dimension, Diagnostic>,
) -> Result<Measured, Diagnostic> {
    match &expr.kind {
        ExprKind::Int(_) | ExprKind::Float(_) => Ok(NUMBER),
        ExprKind::Name(name) => {
            let dimension = named(name, &expr.span)?;
            Ok(Measured { dimension, factor: false, number: false })
        }
        ExprKind::Unary { op: UnaryOp::Negate, operand } => measure(operand, named),
        ExprKind::Unary { op: UnaryOp::Not, operand } => measure(operand, named).map(|_| TRUTH),
        ExprKind::Binary { op, left, right } => {
            let (a, b) = (measure(left, named)?, measure(right, named)?);
            binary(*op, (left, a), (right, b), &expr.span)
        }
        ExprKind::Conditional { condition, then, otherwise } => {
            measure(condition, named)?;
            let (a, b) = (measure(then, named)?, measure(otherwise, named)?);
            same("stand for", (then, a), (otherwise, b), &expr.span)
        }
        _ => Err(no_number(expr)),
    }
}

fn binary(
    op: BinaryOp,
    left: (&Expr, Measured),
    right: (&Expr, Measured),
    span: &Span,
) -> Result<Measured, Diagnostic> {
    let ((_, a), (_, b)) = (left, right);
    let product = |sign: i32| Measured {
        dimension: a.dimension.times(b.dimension, sign),
        factor: a.factor || b.factor,
        number: a.number && b.number,
    };
    match op {
        BinaryOp::Mul => Ok(product(1)),
        BinaryOp::Div => Ok(product(-1)),
        BinaryOp::Add => same("be added to", left, right, span),
        BinaryOp::Sub | BinaryOp::Rem => same("be subtracted from", left, right, span),
        BinaryOp::And | BinaryOp::Or => Ok(TRUTH),
        BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge | BinaryOp::Eq | BinaryOp::Ne => {
            same("be compared with", left, right, span).map(|_| TRUTH)
        }
        BinaryOp::Shl | BinaryOp::Shr | BinaryOp::BitAnd | BinaryOp::BitXor | BinaryOp::BitOr => {
            let message = "a metric is a fraction, without bit operations";
            Err(Diagnostic::error(Code::TypeMismatch, message).at(span).hint("use `*` and `/`"))
        }
    }
}

/// Both sides must be of one unit; a written number is of any.
fn same(
    verb: &str,
    (left, a): (&Expr, Measured),
    (right, b): (&Expr, Measured),
    span: &Span,
) -> Result<Measured, Diagnostic> {
    if a.number || b.number || a.fits(b.dimension) || b.fits(a.dimension) {
        // The side that has a unit determines it.
        let unit = if a.number || (a.factor && !b.factor) { b } else { a };
        return Ok(Measured { factor: a.factor && b.factor, number: a.number && b.number, ..unit });
    }
    let side = |expr: &Expr, unit: Dimension| format!("`{}` {}", shown(expr.span.text()), in_unit(&unit.text()));
    let message = format!("{} cannot {verb} {}", side(right, b.dimension), side(left, a.dimension));
    Err(Diagnostic::error(Code::Unit, message).at(span).hint("convert both to one unit"))
}

fn in_unit(unit: &str) -> String {
    if unit.is_empty() { "(a number of events)".to_owned() } else { format!("(in {unit})") }
}

fn no_number(expr: &Expr) -> Diagnostic {
    let message = format!("`{}` is not a value for a metric", shown(expr.span.text()));
    let hint = "use counters, `time`, `duration`, `lanes`, `flops`, `bytes` and numbers";
    Diagnostic::error(Code::TypeMismatch, message).at(&expr.span).hint(hint)
}

/// Prefixes of units: they are chosen when a value is shown.
const PREFIXES: [&str; 9] = ["k", "K", "M", "G", "T", "m", "u", "µ", "n"];

/// Checks the declared unit of a metric, such as `B/s`; counters' names are units too (`misses/s`).
pub(super) fn declared(
    unit: &Spanned<String>,
    value: Measured,
    counters: &[&str],
    problems: &mut Problems,
) -> Option<String> {
    let text = unit.value.trim();
    let mut dimension = Dimension::NONE;
    let mut sign = 1;
    for (at, part) in text.split('/').enumerate() {
        for word in part.split(['*', '·']).map(str::trim) {
            let one = match word {
                "1" | "%" | "" if at == 0 || word == "1" => Dimension::NONE,
                "s" => Dimension { seconds: 1, ..Dimension::NONE },
                "B" => Dimension { bytes: 1, ..Dimension::NONE },
                "FLOP" => Dimension { operations: 1, ..Dimension::NONE },
                counter if counters.contains(&counter) => Dimension::NONE,
                _ => {
                    unknown(word, unit, counters, problems);
                    return None;
                }
            };
            dimension = dimension.times(one, sign);
        }
        sign = -1;
    }
    if !value.fits(dimension) {
        let inferred = value.dimension.text();
        let inferred =
            if inferred.is_empty() { "a number without a unit".to_owned() } else { format!("in {inferred}") };
        let message = format!("the value is {inferred}, which is not {}", shown(text));
        let hint = "`time` and `duration` are seconds, `bytes` B, `flops` FLOP; a counter is a number of events";
        problems.error_hint(Code::Unit, &unit.span, message, hint);
        return None;
    }
    Some(if text == "1" { String::new() } else { text.to_owned() })
}

fn unknown(word: &str, unit: &Spanned<String>, counters: &[&str], problems: &mut Problems) {
    let message = format!("unknown unit `{}`", shown(word));
    let base = PREFIXES.iter().find_map(|prefix| word.strip_prefix(prefix)).filter(|b| ["s", "B", "FLOP"].contains(b));
    if let Some(base) = base {
        let hint = format!("write `{base}`: prefixes are chosen when a value is shown");
        return problems.error_hint(Code::Unit, &unit.span, message, hint);
    }
    let candidates = ["B", "s", "FLOP", "%", "1"].into_iter().chain(counters.iter().copied());
    let otherwise = "units are `s`, `B`, `FLOP`, `%`, `1` and names of counters, with `*` and `/`, such as `B/s`";
    problems.unknown(Code::Unit, (word, &unit.span), message, candidates, otherwise);
}
