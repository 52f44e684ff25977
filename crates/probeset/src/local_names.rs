//! Names for parts of expressions: `let` of a probe, a view or the analysis. A name stands for its expression in all
//! expressions beside it, as if that were written there in brackets. Those of a view are also what its members are to
//! other expressions: `base.name`.

use super::language::LET;
use super::problems::shown;
use super::values::Context;
use super::yaml::{Map, Node};
use super::{limits, names, reader};
use crate::path::{Expr, ExprKind};
use indexmap::IndexMap;
use profinfer_diagnostics::{Code, Diagnostic, Span};

/// The names that can be used where a probe, a view or the analysis is read.
#[derive(Debug, Default)]
pub(super) struct LocalNames {
    names: IndexMap<String, Named>,
}

#[derive(Debug)]
struct Named {
    /// Where the name is defined.
    span: Span,
    value: Value,
    used: bool,
}

#[derive(Debug)]
enum Value {
    /// Not read yet.
    Below,
    /// It has a problem, which is reported at its place.
    Wrong,
    /// Without names of `let`.
    Is(Expr),
}

impl LocalNames {
    /// Where a name is defined.
    pub(super) fn place(&self, name: &str) -> Option<&Span> {
        self.names.get(name).map(|named| &named.span)
    }

    /// Replaces names by their expressions.
    ///
    /// # Errors
    /// `S011` if it has too many parts then, `P002` where a name is defined further below, nothing where the name's
    /// expression has a problem; nothing is replaced.
    pub(super) fn replace_in(&mut self, expr: &mut Expr) -> Result<(), Option<Diagnostic>> {
        if self.names.is_empty() {
            return Ok(());
        }
        let (mut parts, mut stack) = (0, vec![&*expr]);
        while let Some(part) = stack.pop() {
            stack.extend(part.children());
            let ExprKind::Name(name) = &part.kind else {
                parts += 1;
                continue;
            };
            let Some(named) = self.names.get_mut(name) else {
                parts += 1;
                continue;
            };
            named.used = true;
            parts += match &named.value {
                Value::Is(expr) => expr.parts(),
                Value::Wrong => return Err(None),
                Value::Below => {
                    let problem = Diagnostic::error(Code::PathUnknownName, format!("`{name}` is defined below"));
                    let hint = format!("an expression of `{LET}` can use the names above it: move `{name}` up");
                    return Err(Some(problem.at(&part.span).hint(hint)));
                }
            };
        }
        if parts > limits::EXPRESSION_PARTS {
            let most = limits::EXPRESSION_PARTS;
            let message = format!("with the names of `{LET}` replaced, this has {parts} parts; the maximum is {most}");
            return Err(Some(Diagnostic::error(Code::OutOfRange, message).at(&expr.span)));
        }
        self.put_in(expr);
        Ok(())
    }

    fn put_in(&self, expr: &mut Expr) {
        if let ExprKind::Name(name) = &expr.kind
            && let Some(Named { value: Value::Is(named), .. }) = self.names.get(name)
        {
            expr.kind = named.kind.clone();
            return;
        }
        expr.children_mut().into_iter().for_each(|child| self.put_in(child));
    }
}

/// Reads something with the names of its `let`.
pub(super) fn with_let<T>(map: &Map, owner: &str, cx: &mut Context<'_>, read: impl FnOnce(&mut Context<'_>) -> T) -> T {
    define(map, owner, cx);
    let result = read(cx);
    for (name, named) in std::mem::take(&mut cx.local).names {
        if !named.used {
            let warning = Diagnostic::warning(Code::UnknownName, format!("`{}` is not used", shown(&name)));
            let hint = format!("remove it from `{LET}`, or use it in an expression of {owner}");
            cx.problems.push(warning.at(&named.span).hint(hint));
        }
    }
    result
}

/// The names of a view, which `read` can use.
pub(super) fn of_view<T>(
    map: &Map,
    owner: &str,
    cx: &mut Context<'_>,
    read: impl FnOnce(&mut Context<'_>) -> T,
) -> (T, IndexMap<String, Expr>) {
    if map.entries.get(LET).is_some_and(|entry| matches!(entry.value, Node::Map(_))) {
        define(map, owner, cx);
    }
    let result = read(cx);
    let value = |(name, named): (String, Named)| match named.value {
        Value::Is(expr) => Some((name, expr)),
        Value::Below | Value::Wrong => None,
    };
    (result, std::mem::take(&mut cx.local).names.into_iter().filter_map(value).collect())
}

fn define(map: &Map, owner: &str, cx: &mut Context<'_>) {
    let Some(entry) = map.entries.get(LET) else { return };
    let what = format!("`{LET}` of {owner}");
    let Some(named) = reader::map(&entry.value, &what, limits::LOCAL_NAMES, cx.problems) else { return };
    let below = |span: &Span| Named { span: span.clone(), value: Value::Below, used: false };
    cx.local.names = named.entries.values().map(|entry| (entry.key.text.clone(), below(&entry.key.span))).collect();
    for entry in named.entries.values() {
        let name = cx.problems.keep(names::variable(&entry.key, "a name of `let`"));
        let expr = cx.expr(&entry.value, &format!("`{}`", shown(&entry.key.text)));
        if let Some(named) = cx.local.names.get_mut(&entry.key.text) {
            named.value = name.and(expr).map_or(Value::Wrong, Value::Is);
        }
    }
}
