//! One probe of the `probes` section.

use super::model::{DESCRIBED, Describes, Nested, Probe, Role};
use super::problems::shown;
use super::values::Context;
use super::yaml::{Entry, Map, Node};
use super::{limits, names, reader, roles, sections};
use crate::diag::{Code, Diagnostic, Span, Spanned};
use crate::path::{AttachPoint, Place};
use crate::trace::MAX_FIELDS;
use indexmap::IndexMap;

/// Every key of a probe.
const KEYS: &[&str] =
    &["at", "role", "fields", "when", "describe", "identity", "describes", "counters", "optional", "nested"];

/// Reads a probe; `None` where it lacks what makes a probe.
pub(super) fn probe(entry: &Entry, cx: &mut Context<'_>) -> Option<Probe> {
    let name = cx.problems.keep(names::word(&entry.key, "a probe"));
    let what = format!("probe `{}`", shown(&entry.key.text));
    let map = reader::map(&entry.value, &what, limits::ENTRIES, cx.problems)?;
    reader::known_keys(map, "a probe", KEYS, cx.problems);
    let at = places(map, &what, &entry.key.span, cx);
    let role = role(map, &what, &entry.key.span, cx);
    let get = |key: &str| map.entries.get(key).map(|entry| &entry.value);
    // The part of a span that was waiting is a field of its record.
    let waits = at.iter().any(|at| at.waiting_from.is_some());
    let most = MAX_FIELDS - usize::from(waits);
    let fields = get("fields").and_then(|node| sections::fields(node, &what, most, cx));
    if let Some(field) = fields.as_ref().and_then(|fields| fields.get("waiting")).filter(|_| waits) {
        let message = "`waiting` cannot be a field here: `waiting from` makes one of that name";
        cx.problems.error_hint(Code::BadIdentifier, &field.name.span, message, "choose another name");
    }
    let when = get("when").and_then(|node| cx.expr(node, "`when`"));
    let describe = get("describe").and_then(|node| cx.expr(node, "`describe`"));
    let identity = get("identity").and_then(|node| cx.expr(node, "`identity`"));
    let describes = map.entries.get("describes").and_then(|entry| describes(entry, cx));
    let counters = get("counters").map_or_else(Vec::new, |node| counters(node, cx));
    let optional = get("optional").and_then(|node| reader::flag(node, "`optional`", cx.problems)).unwrap_or_default();
    let nested = get("nested").and_then(|node| nested(node, cx)).unwrap_or_default();
    if at.is_empty() {
        return None;
    }
    let fields = fields.unwrap_or_else(IndexMap::new);
    if let Some(field) = fields.get(DESCRIBED).filter(|_| describes.is_some()) {
        let message = format!("`{DESCRIBED}` cannot be a field here: `describes` makes one of that name");
        cx.problems.error_hint(Code::BadIdentifier, &field.name.span, message, "choose another name");
    }
    Some(Probe {
        name: name?,
        at,
        role: role?,
        fields,
        when,
        describe,
        describes,
        identity,
        counters,
        optional,
        nested,
    })
}

fn places(map: &Map, what: &str, span: &Span, cx: &mut Context<'_>) -> Vec<AttachPoint> {
    let hint = "write `at: MODULE:FUNCTION(TYPE NAME, …)`";
    let Some(entry) = reader::required(map, "at", (what, span), hint, cx.problems) else { return Vec::new() };
    let texts = reader::texts(&entry.value, "`at`", limits::ALTERNATIVES, cx.problems);
    let written = texts.len();
    let points: Vec<AttachPoint> = texts.into_iter().filter_map(|text| cx.attach(text)).collect();
    let alone = written == 1;
    let (later, usable): (Vec<_>, Vec<_>) = points.into_iter().partition(|point| unsupported(&point.place).is_some());
    // Where another alternative may serve, the probe lives on without this one.
    let fatal = usable.is_empty() && written == later.len();
    for point in &later {
        let kind = unsupported(&point.place).unwrap_or_default();
        let message = format!("{kind} attach points are not supported yet");
        let diagnostic = if fatal {
            Diagnostic::error(Code::NotSupportedYet, message)
        } else {
            Diagnostic::warning(Code::NotSupportedYet, format!("{message}: this alternative is left out"))
        };
        let hint = if alone { "give a function" } else { "add an alternative that names a function" };
        cx.problems.push(if fatal { diagnostic.at(&point.span).hint(hint) } else { diagnostic.at(&point.span) });
    }
    usable
}

/// What a place that the language has, but this version cannot attach to, is called.
fn unsupported(place: &Place) -> Option<&'static str> {
    match place {
        Place::Virtual { .. } => Some("`virtual`"),
        Place::Usdt { .. } => Some("`usdt`"),
        Place::Function { .. } | Place::Tracepoint { .. } | Place::Software { .. } | Place::Probe(_) => None,
    }
}

fn role(map: &Map, what: &str, span: &Span, cx: &mut Context<'_>) -> Option<Spanned<Role>> {
    let hint = format!("write `role:` and one of {}", reader::list(&roles::NAMES));
    let entry = reader::required(map, "role", (what, span), &hint, cx.problems)?;
    let scalar = reader::text(&entry.value, "`role`", cx.problems)?;
    if let Some(role) = roles::by_name(&scalar.text) {
        return Some(Spanned::new(role, scalar.span.clone()));
    }
    let message = format!("there is no role `{}`", shown(&scalar.text));
    let otherwise = format!("the roles are {}", reader::list(&roles::NAMES));
    cx.problems.unknown(Code::UnknownName, (&scalar.text, &scalar.span), message, roles::NAMES, otherwise);
    None
}

fn nested(node: &Node, cx: &mut Context<'_>) -> Option<Nested> {
    let scalar = reader::text(node, "`nested`", cx.problems)?;
    match scalar.text.as_str() {
        "outermost" => Some(Nested::Outermost),
        "all" => Some(Nested::All),
        other => {
            let message = format!("`nested` is `outermost` or `all`, not `{}`", shown(other));
            cx.problems.error(Code::WrongShape, &scalar.span, message);
            None
        }
    }
}

fn counters(node: &Node, cx: &mut Context<'_>) -> Vec<Spanned<String>> {
    let texts = reader::texts(node, "`counters`", limits::ALTERNATIVES, cx.problems);
    let counters: Vec<_> = texts.into_iter().filter_map(|t| cx.problems.keep(names::name(t, "a counter"))).collect();
    for counter in &counters {
        cx.refers("counters", "counter", counter, "add it to `counters`");
    }
    counters
}

/// `describes: object NAME(EXPR)`.
fn describes(entry: &Entry, cx: &mut Context<'_>) -> Option<Describes> {
    let scalar = reader::text(&entry.value, "`describes`", cx.problems)?;
    let span = reader::language(scalar, "`describes`", cx.problems)?;
    let parts = span.text().strip_prefix("object ").and_then(|rest| rest.trim_end().strip_suffix(')')?.split_once('('));
    let Some((name, inside)) = parts.filter(|(name, _)| names::is_identifier(name.trim())) else {
        let message = format!("`describes` is `object NAME(EXPRESSION)`, not `{}`", shown(span.text()));
        cx.problems.error(Code::PathSyntax, &span, message);
        return None;
    };
    let start = "object ".len() + name.len() + 1;
    let place = span.slice(start..start + inside.len());
    let before = "object ".len() + name.len() - name.trim_start().len();
    let name = Spanned::new(name.trim().to_owned(), span.slice(before..before + name.trim().len()));
    let known = cx.refers("objects", "object", &name, "add it to `objects`");
    let address = cx.expr_at(&place)?;
    known.then_some(Describes { object: name, address })
}
