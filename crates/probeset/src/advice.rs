//! `analysis.weights`, `analysis.functions` and `analysis.advice`: what verdicts have to know of an engine to say what would help.

use super::language::{ADVICE, FUNCTIONS, WEIGHTS};
use super::model::{Advice, FunctionClass, Weights};
use super::problems::shown;
use super::values::Context;
use super::yaml::{Entry, Map};
use super::{limits, names, reader};
use crate::path::{Expr, ExprKind};
use indexmap::IndexMap;
use profinfer_diagnostics::Code;

/// What `when` is worked out of.
const PHASE_FIELDS: [&str; 10] =
    ["phase", "bound", "op", "backend", "function", "share", "of_bandwidth", "of_peak", "lanes", "cpus"];

/// What a function's class is worked out of.
const FUNCTION_FIELDS: [&str; 2] = ["name", "module"];

/// Reads what functions do.
pub(super) fn functions(analysis: &Map, cx: &mut Context<'_>) -> Vec<(FunctionClass, Expr)> {
    let Some(entry) = analysis.entries.get("functions") else { return Vec::new() };
    let Some(map) = reader::map(&entry.value, "`functions`", limits::ENTRIES, cx.problems) else { return Vec::new() };
    reader::check_keys(map, &FUNCTIONS, cx.problems);
    let mut all = Vec::new();
    for class in FunctionClass::ALL {
        let Some(entry) = map.entries.get(class.as_str()) else { continue };
        let Some(of) = cx.expr(&entry.value, &format!("`{}`", class.as_str())) else { continue };
        only_names(&of, "a function", &FUNCTION_FIELDS, cx);
        all.push((class, of));
    }
    all
}

/// Reads which objects are weights.
pub(super) fn weights(analysis: &Map, cx: &mut Context<'_>) -> Option<Weights> {
    let entry = analysis.entries.get("weights")?;
    let map = reader::map(&entry.value, "`weights`", limits::ENTRIES, cx.problems)?;
    reader::check_keys(map, &WEIGHTS, cx.problems);
    let owner = ("`weights`", &entry.key.span);
    let of = reader::required(map, "of", owner, &WEIGHTS, cx.problems).map(|entry| &entry.value);
    let of = of.and_then(|node| cx.expr(node, "`of`"));
    let mut types = Vec::new();
    if let Some(entry) = map.entries.get("types") {
        let sizes = cx.sections.get("analysis").and_then(|map| map.entries.get("dtypes")).map(|entry| &entry.value);
        let candidates: Vec<&str> = match sizes {
            Some(super::yaml::Node::Map(map)) => map.entries.keys().map(String::as_str).collect(),
            _ => Vec::new(),
        };
        for scalar in reader::texts(&entry.value, "`types`", limits::ADVICE_TYPES, cx.problems) {
            if !candidates.contains(&scalar.text.as_str()) {
                let message = format!("unknown element type `{}`", shown(&scalar.text));
                let otherwise = "give its size in `dtypes`";
                let word = (scalar.text.as_str(), &scalar.span);
                cx.problems.unknown(Code::UnknownName, word, message, candidates.iter().copied(), otherwise.to_owned());
            }
            types.push(scalar.text.clone());
        }
    }
    Some(Weights { of: of?, types })
}

/// Reads what can be done.
pub(super) fn read(analysis: &Map, cx: &mut Context<'_>) -> IndexMap<String, Advice> {
    let mut all = IndexMap::new();
    let Some(entry) = analysis.entries.get("advice") else { return all };
    let Some(map) = reader::map(&entry.value, "`advice`", limits::ENTRIES, cx.problems) else { return all };
    for entry in map.entries.values() {
        let name = cx.problems.keep(names::word(&entry.key, "an advice"));
        if let (Some(_), Some(advice)) = (name, one(entry, cx)) {
            all.insert(entry.key.text.clone(), advice);
        }
    }
    all
}

fn one(entry: &Entry, cx: &mut Context<'_>) -> Option<Advice> {
    let what = format!("advice `{}`", shown(&entry.key.text));
    let owner = (what.as_str(), &entry.key.span);
    let map = reader::map(&entry.value, &what, limits::ENTRIES, cx.problems)?;
    reader::check_keys(map, &ADVICE, cx.problems);
    let when = reader::required(map, "when", owner, &ADVICE, cx.problems).map(|entry| &entry.value);
    let when = when.and_then(|node| cx.expr(node, "`when`"));
    let say = reader::required(map, "say", owner, &ADVICE, cx.problems).map(|entry| &entry.value);
    let say = say.and_then(|node| reader::prose(node, &what, cx.problems));
    let when = when?;
    only_names(&when, "a phase", &PHASE_FIELDS, cx);
    Some(Advice { when, say: say? })
}

/// Reports names that are not among those that it has. An explicit stack: nothing here depends on how deep the expression is.
fn only_names(root: &Expr, what: &str, known: &[&'static str], cx: &mut Context<'_>) {
    let mut stack = vec![root];
    while let Some(expr) = stack.pop() {
        if let ExprKind::Name(name) = &expr.kind
            && !known.contains(&name.as_str())
        {
            let message = format!("{what} has no value `{}`", shown(name));
            let otherwise = format!("available: {}", known.join(", "));
            let word = (name.as_str(), &expr.span);
            cx.problems.unknown(Code::PathUnknownName, word, message, known.iter().copied(), otherwise);
        }
        stack.extend(expr.children());
    }
}
