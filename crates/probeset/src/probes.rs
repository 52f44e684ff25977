//! One probe of the `probes` section.

use super::language::PROBE;
use super::local_names::with_let;
use super::model::{DESCRIBED, Describes, Nested, Probe};
use super::problems::{list, shown};
use super::values::Context;
use super::yaml::{Entry, Map, Node, Scalar};
use super::{fields, limits, names, reader, vocabulary};
use crate::path::AttachPoint;
use indexmap::IndexMap;
use profinfer_diagnostics::{Code, Span, Spanned};
use profinfer_schema::MAX_FIELDS;
use profinfer_schema::Role;

/// Reads a probe; `None` where it lacks what makes a probe.
pub(super) fn probe(entry: &Entry, cx: &mut Context<'_>) -> Option<Probe> {
    let name = cx.problems.keep(names::word(&entry.key, "a probe"));
    let what = format!("probe `{}`", shown(&entry.key.text));
    let map = reader::map(&entry.value, &what, limits::ENTRIES, cx.problems)?;
    reader::check_keys(map, &PROBE, cx.problems);
    with_let(map, &what, cx, |cx| probe_of(name, map, &what, entry, cx))
}

fn probe_of(
    name: Option<Spanned<String>>,
    map: &Map,
    what: &str,
    entry: &Entry,
    cx: &mut Context<'_>,
) -> Option<Probe> {
    let at = places(map, what, &entry.key.span, cx);
    arguments_and_local_names(&at, cx);
    let role = role(map, what, &entry.key.span, cx);
    let get = |key: &str| map.entries.get(key).map(|entry| &entry.value);
    // The part of a span that was waiting is a field of its record.
    let waits = at.iter().any(|at| at.waiting_from.is_some());
    let most = MAX_FIELDS - usize::from(waits);
    let fields = get("fields").and_then(|node| fields::fields(node, what, most, cx));
    if let Some(field) = fields.as_ref().and_then(|fields| fields.get("waiting")).filter(|_| waits) {
        let message = "`waiting` cannot be a field here: `waiting from` adds a field of that name";
        cx.problems.error_hint(Code::BadIdentifier, &field.name.span, message, "choose another name");
    }
    let when = get("when").and_then(|node| cx.expr(node, "`when`"));
    let describe = get("describe").and_then(|node| cx.expr(node, "`describe`"));
    let identity = get("identity").and_then(|node| cx.expr(node, "`identity`"));
    let describes = map.entries.get("describes").and_then(|entry| describes(entry, cx));
    let counters = get("counters").map_or_else(Vec::new, |node| counters(node, cx));
    let mut others = |key: &str| get(key).map_or_else(Vec::new, |node| other_probes(node, key, cx));
    let (except, unless) = (others("except"), others("unless"));
    let enclosing = get("enclosing").and_then(|node| reader::text(node, "`enclosing`", cx.problems));
    let enclosing = enclosing.and_then(|scalar| other_probe(scalar, cx));
    let optional = get("optional").and_then(|node| reader::flag(node, "`optional`", cx.problems)).unwrap_or_default();
    let nested = get("nested").and_then(|node| nested(node, cx)).unwrap_or_default();
    if at.is_empty() {
        return None;
    }
    let fields = fields.unwrap_or_else(IndexMap::new);
    if let Some(field) = fields.get(DESCRIBED).filter(|_| describes.is_some()) {
        let message = format!("`{DESCRIBED}` cannot be a field here: `describes` adds a field of that name");
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
        except,
        unless,
        enclosing,
        optional,
        nested,
    })
}

fn places(map: &Map, what: &str, span: &Span, cx: &mut Context<'_>) -> Vec<AttachPoint> {
    let Some(entry) = reader::required(map, "at", (what, span), &PROBE, cx.problems) else { return Vec::new() };
    let texts = reader::texts(&entry.value, "`at`", limits::ALTERNATIVES, cx.problems);
    // Each slot that a method may be in is an alternative; the recorder keeps the one that it finds.
    let of_each_slot = |at: AttachPoint| {
        let (until, waiting_from, span) = (at.until, at.waiting_from, at.span);
        let of_place = move |place| AttachPoint {
            place,
            until: until.clone(),
            waiting_from: waiting_from.clone(),
            span: span.clone(),
        };
        at.place.of_each_slot().into_iter().map(of_place)
    };
    texts.into_iter().filter_map(|text| cx.attach(text)).flat_map(of_each_slot).collect()
}

/// A name is that of an argument, or of `let`.
fn arguments_and_local_names(at: &[AttachPoint], cx: &mut Context<'_>) {
    let signatures = at.iter().filter_map(|at| at.place.signature());
    for name in signatures.flat_map(|signature| &signature.params).filter_map(|param| param.name.as_ref()) {
        if let Some(place) = cx.local.place(name.as_str()).cloned() {
            let message = format!("`{}` is an argument of this probe", name.value);
            cx.problems.error_hint(Code::Duplicate, &place, message, "choose another name");
        }
    }
}

fn role(map: &Map, what: &str, span: &Span, cx: &mut Context<'_>) -> Option<Spanned<Role>> {
    let entry = reader::required(map, "role", (what, span), &PROBE, cx.problems)?;
    let scalar = reader::text(&entry.value, "`role`", cx.problems)?;
    if let Some(role) = vocabulary::role(&scalar.text) {
        return Some(Spanned::new(role, scalar.span.clone()));
    }
    let message = format!("unknown role `{}`", shown(&scalar.text));
    let otherwise = format!("the roles are {}", list(&vocabulary::role_names()));
    cx.problems.unknown(Code::UnknownName, (&scalar.text, &scalar.span), message, vocabulary::role_names(), otherwise);
    None
}

fn nested(node: &Node, cx: &mut Context<'_>) -> Option<Nested> {
    let scalar = reader::text(node, "`nested`", cx.problems)?;
    let found = vocabulary::NESTED.iter().find(|(word, ..)| *word == scalar.text).map(|(_, nested, _)| *nested);
    if found.is_none() {
        let words = vocabulary::NESTED.map(|(word, ..)| format!("`{word}`")).join(" or ");
        let message = format!("`nested` is {words}, not `{}`", shown(&scalar.text));
        cx.problems.error(Code::WrongShape, &scalar.span, message);
    }
    found
}

fn counters(node: &Node, cx: &mut Context<'_>) -> Vec<Spanned<String>> {
    let texts = reader::texts(node, "`counters`", limits::ALTERNATIVES, cx.problems);
    let counters: Vec<_> = texts.into_iter().filter_map(|t| cx.problems.keep(names::name(t, "a counter"))).collect();
    for counter in &counters {
        cx.refers("counters", "counter", counter, "add it to `counters`");
    }
    counters
}

fn other_probes(node: &Node, key: &str, cx: &mut Context<'_>) -> Vec<Spanned<String>> {
    let texts = reader::texts(node, &format!("`{key}`"), limits::ALTERNATIVES, cx.problems);
    texts.into_iter().filter_map(|text| other_probe(text, cx)).collect()
}

fn other_probe(scalar: &Scalar, cx: &mut Context<'_>) -> Option<Spanned<String>> {
    let probe = cx.problems.keep(names::name(scalar, "a probe"))?;
    cx.refers("probes", "probe", &probe, "name a probe of this probeset").then_some(probe)
}

/// `describes: object NAME(EXPR)`, or `NAME(EXPR at return)`.
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
    let exists = cx.refers("objects", "object", &name, "add it to `objects`");
    let (address, at_return) = cx.field_at(&place)?;
    let at_return = at_return || address.names_result();
    exists.then_some(Describes { object: name, address, at_return })
}
