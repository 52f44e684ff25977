//! `analysis.metrics`, and the names that `analysis.costs` may use: what reports work out of counters, times and
//! costs. Expressions are checked here as far as a probeset alone can tell.

use super::language::METRIC;
use super::model::Metric;
use super::problems::shown;
use super::unit::{self, Dimension, QUANTITIES};
use super::values::Context;
use super::yaml::{Map, Node};
use super::{limits, names, reader};
use crate::path::{Expr, ExprKind};
use indexmap::IndexMap;
use profinfer_diagnostics::{Code, Diagnostic, Span, Spanned, did_you_mean};

/// What a cost is worked out of: the fields of an operator's result.
const OPERATOR_FIELDS: [&str; 10] =
    ["shape", "elements", "bytes", "parameters", "inputs", "dtype", "op", "name", "layer", "experts"];
/// The values of an input.
const INPUT_FIELDS: [&str; 7] = ["shape", "elements", "bytes", "dtype", "op", "name", "layer"];

/// Names, numbers and operators of a metric; it is traversed recursively.
const MAX_PARTS: usize = 150;

/// How many names, numbers and operators there are, without recursion.
fn parts_of(root: &Expr) -> usize {
    let (mut stack, mut parts) = (vec![root], 0);
    while let Some(expr) = stack.pop() {
        parts += 1;
        stack.extend(expr.children());
    }
    parts
}

/// Reads the metrics.
pub(super) fn read(analysis: &Map, cx: &mut Context<'_>) -> IndexMap<String, Metric> {
    let mut metrics = IndexMap::new();
    let Some(entry) = analysis.entries.get("metrics") else { return metrics };
    let Some(map) = reader::map(&entry.value, "`metrics`", limits::ENTRIES, cx.problems) else { return metrics };
    counters_are_told_apart(cx);
    for entry in map.entries.values() {
        let name = cx.problems.keep(names::word(&entry.key, "a metric"));
        let what = format!("metric `{}`", shown(&entry.key.text));
        let (value, unit) = parts(&entry.value, &what, &entry.key.span, cx);
        let Some(mut value) = value.and_then(|node| cx.expr(node, &what)) else { continue };
        if parts_of(&value) > MAX_PARTS {
            let message = format!("{what} has more than {MAX_PARTS} names, numbers and operators");
            cx.problems.error(Code::OutOfRange, &value.span, message);
            continue;
        }
        let Some(unit) = unit_of(&value, unit, &what, cx) else { continue };
        with_fractions(&mut value);
        if let Some(name) = name {
            metrics.insert(entry.key.text.clone(), Metric { name, value, unit });
        }
    }
    metrics
}

/// The value and the unit, of either form.
fn parts<'n>(node: &'n Node, what: &str, key: &Span, cx: &mut Context<'_>) -> (Option<&'n Node>, Option<&'n Node>) {
    let Node::Map(map) = node else { return (Some(node), None) };
    reader::check_keys(map, &METRIC, cx.problems);
    let value = reader::required(map, "value", (what, key), &METRIC, cx.problems);
    (value.map(|entry| &entry.value), map.entries.get("unit").map(|entry| &entry.value))
}

/// Its unit: the declared one, if it fits, else the inferred one.
fn unit_of(value: &Expr, unit: Option<&Node>, what: &str, cx: &mut Context<'_>) -> Option<String> {
    let counters: Vec<&str> = counters(cx);
    let mut named = |name: &str, span: &Span| {
        let quantity = QUANTITIES.iter().find(|(entry, _)| *entry == name).map(|(_, dimension)| *dimension);
        let counter = || counters.contains(&name).then_some(Dimension::default());
        quantity.or_else(counter).ok_or_else(|| unknown_name(name, span, &counters))
    };
    let measured = unit::measure(value, &mut named);
    let measured = cx.problems.keep(measured)?;
    let Some(unit) = unit else { return Some(measured.dimension.text()) };
    let scalar = reader::text(unit, &format!("the unit of {what}"), cx.problems)?;
    let unit = Spanned::new(scalar.text.clone(), scalar.span.clone());
    unit::declared(&unit, measured, &counters, cx.problems)
}

fn counters<'a>(cx: &Context<'a>) -> Vec<&'a str> {
    cx.sections.get("counters").into_iter().flat_map(|map| map.entries.keys()).map(String::as_str).collect()
}

fn unknown_name(name: &str, span: &Span, counters: &[&str]) -> Diagnostic {
    let quantities = QUANTITIES.iter().map(|(name, _)| *name);
    let candidates: Vec<&str> = counters.iter().copied().chain(quantities).collect();
    let hint = did_you_mean(name, candidates.iter().copied())
        .unwrap_or_else(|| format!("add it to `counters`; available: {}", candidates.join(", ")));
    let message = format!("unknown counter `{}`", shown(name));
    Diagnostic::error(Code::PathUnknownName, message).at(span).hint(hint)
}

/// A counter cannot be called like what metrics know already.
fn counters_are_told_apart(cx: &mut Context<'_>) {
    let entries = cx.sections.get("counters").into_iter().flat_map(|map| map.entries.values());
    for entry in entries.filter(|e| QUANTITIES.iter().any(|(name, _)| *name == e.key.text)) {
        let message = format!("`{}` cannot be a counter: it is a reserved name in metrics", entry.key.text);
        cx.problems.error_hint(Code::BadIdentifier, &entry.key.span, message, "choose another name");
    }
}

/// Whole numbers in a metric divide as others do: `1 / 2` is a half.
fn with_fractions(expr: &mut Expr) {
    match &mut expr.kind {
        #[allow(clippy::cast_precision_loss)]
        ExprKind::Int(n) => expr.kind = ExprKind::Float(*n as f64),
        ExprKind::Unary { operand, .. } => with_fractions(operand),
        ExprKind::Binary { left, right, .. } => {
            with_fractions(left);
            with_fractions(right);
        }
        ExprKind::Conditional { condition, then, otherwise } => {
            with_fractions(condition);
            with_fractions(then);
            with_fractions(otherwise);
        }
        _ => {}
    }
}

/// Checks the names of a cost, or of a context. An explicit stack: nothing here depends on how deep it is.
pub(super) fn cost_names(root: &Expr, cx: &mut Context<'_>) {
    let mut stack = vec![root];
    while let Some(expr) = stack.pop() {
        let (name, span, candidates) = match &expr.kind {
            ExprKind::Name(name) => (name.as_str(), &expr.span, &OPERATOR_FIELDS[..]),
            ExprKind::Member { name, .. } => (name.as_str(), &name.span, &INPUT_FIELDS[..]),
            _ => {
                stack.extend(expr.children());
                continue;
            }
        };
        if !candidates.contains(&name) {
            let (code, what) = match &expr.kind {
                ExprKind::Name(_) => (Code::PathUnknownName, "an operator has no value"),
                _ => (Code::UnknownMember, "an input has no value"),
            };
            let otherwise = format!("available: {}", candidates.join(", "));
            let message = format!("{what} `{}`", shown(name));
            cx.problems.unknown(code, (name, span), message, candidates.iter().copied(), otherwise);
        }
        stack.extend(expr.children());
    }
}
