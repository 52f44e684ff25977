//! The layouts that a view may have without debug information: alternatives, each with the checks by which one of
//! them is chosen on a target; and such checks by themselves.

use super::language::{LAYOUT, WHEN};
use super::model::{Check, Fact, GivenLayout, LayoutConditions, Member};
use super::problems::shown;
use super::values::Context;
use super::yaml::{Entry, Map, Node, Scalar};
use super::{limits, names, reader};
use crate::path::Type;
use indexmap::IndexMap;
use profinfer_diagnostics::{Code, Span};

/// Fewest digits of a build-id, and bytes of a text, that tell builds apart.
const FEWEST: (usize, usize) = (8, 4);

/// Reads the list. What it gives is given of `members`.
pub(super) fn read(
    entry: &Entry,
    what: &str,
    members: &IndexMap<String, Member>,
    cx: &mut Context<'_>,
) -> Vec<GivenLayout> {
    let items = reader::several(&entry.value, &format!("`layouts` of {what}"), limits::ALTERNATIVES, cx.problems);
    items.iter().filter_map(|item| layout(item, what, members, cx)).collect()
}

fn layout(node: &Node, what: &str, members: &IndexMap<String, Member>, cx: &mut Context<'_>) -> Option<GivenLayout> {
    let name = format!("a layout of {what}");
    let map = reader::map(node, &name, limits::ENTRIES, cx.problems)?;
    reader::check_keys(map, &LAYOUT, cx.problems);
    let conditions = conditions(map, cx);
    if !map.entries.contains_key("when") && !map.entries.contains_key("unless") {
        let message = format!("{name} has neither `when` nor `unless`");
        let hint = "write a condition for its builds, such as `when: { class: ns::Class }`";
        cx.problems.error_hint(Code::MissingKey, &map.span, message, hint);
    }
    let size = map.entries.get("size").and_then(|entry| {
        let scalar = reader::text(&entry.value, "`size`", cx.problems)?;
        let range = 1..=limits::VIEW_BYTES;
        let size = reader::number(&scalar.text, &scalar.span, "a view's size", range, cx.problems)?;
        u64::try_from(size).ok()
    });
    let entry = reader::required(map, "at", (&name, &map.span), &LAYOUT, cx.problems)?;
    let given = reader::map(&entry.value, &format!("`at` of {name}"), limits::ENTRIES, cx.problems)?;
    let at = given.entries.values().filter_map(|entry| offset(entry, what, size, members, cx)).collect();
    Some(GivenLayout { span: map.span.clone(), conditions, size, at })
}

/// `when` and `unless` of a map that may have them.
pub(super) fn conditions(map: &Map, cx: &mut Context<'_>) -> LayoutConditions {
    let [when, unless] = super::vocabulary::CONDITIONS
        .map(|key| map.entries.get(key).map(|entry| checks(entry, cx)).unwrap_or_default());
    LayoutConditions { when, unless }
}

/// `member: offset`.
fn offset(
    entry: &Entry,
    what: &str,
    size: Option<u64>,
    members: &IndexMap<String, Member>,
    cx: &mut Context<'_>,
) -> Option<(String, u64)> {
    let Entry { key, value } = entry;
    let Some(member) = members.get(&key.text) else {
        let message = format!("{what} has no member `{}`", shown(&key.text));
        let candidates = members.keys().map(String::as_str);
        let otherwise = "name it with its type beside `layouts`";
        cx.problems.unknown(Code::UnknownName, (&key.text, &key.span), message, candidates, otherwise);
        return None;
    };
    if matches!(member.ty.value, Type::Bits { .. }) {
        let message = format!("`{}` is a bit-field, which `layouts` does not support", key.text);
        cx.problems.error_hint(Code::TypeMismatch, &key.span, message, "read the whole integer, then extract the bits");
        return None;
    }
    let scalar = reader::text(value, "an offset", cx.problems)?;
    let at = reader::number(&scalar.text, &scalar.span, "an offset", 0..=limits::VIEW_BYTES, cx.problems)?;
    let at = u64::try_from(at).ok()?;
    if let Some(size) = size.filter(|size| at >= *size) {
        let message = format!("`{}` is at offset {at}, but {what} has {size} bytes", key.text);
        cx.problems.error(Code::OutOfRange, &scalar.span, message);
    }
    Some((key.text.clone(), at))
}

/// A property of a file that a condition checks.
fn checks(entry: &Entry, cx: &mut Context<'_>) -> Vec<Check> {
    let what = format!("`{}`", entry.key.text);
    let Some(map) = reader::map(&entry.value, &what, limits::ENTRIES, cx.problems) else { return Vec::new() };
    reader::check_keys(map, &WHEN, cx.problems);
    if map.entries.is_empty() {
        cx.problems.error_hint(Code::MissingKey, &map.span, format!("{what} has no condition"), WHEN_HINT);
    }
    let mut checks = Vec::new();
    for (name, fact) in Fact::NAMES {
        let Some(entry) = map.entries.get(name) else { continue };
        let texts = reader::texts(&entry.value, &format!("`{name}`"), limits::ALTERNATIVES, cx.problems);
        let any: Vec<String> = texts.into_iter().filter_map(|scalar| value(fact, scalar, cx)).collect();
        checks.push(Check { fact, any });
    }
    checks
}

const WHEN_HINT: &str = "write one of `file`, `build_id`, `bytes`, `hex`, `class` and `function`";

/// A value to compare with, as far as it can be one.
fn value(fact: Fact, scalar: &Scalar, cx: &mut Context<'_>) -> Option<String> {
    let text = scalar.text.as_str();
    let refuse = |cx: &mut Context<'_>, span: &Span, why: &str, hint: &str| {
        cx.problems.error_hint(Code::BadPattern, span, format!("`{}` {why}", shown(text)), hint);
    };
    match fact {
        Fact::File => return cx.problems.keep(names::glob(scalar)).map(|glob| glob.value),
        Fact::Class => return cx.problems.keep(names::qualified(scalar, "a class")).map(|name| name.value),
        Fact::BuildId => {
            let digits = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
            if !digits || text.len() < FEWEST.0 || text.len() > limits::NAME_BYTES {
                refuse(
                    cx,
                    &scalar.span,
                    "is not a build-id",
                    "give at least its first 8 digits, as `file LIBRARY` shows them",
                );
                return None;
            }
        }
        Fact::Bytes => {
            if text.len() < FEWEST.1 || text.len() > limits::NAME_BYTES || text.contains(char::is_control) {
                refuse(cx, &scalar.span, "does not distinguish builds", "give 4 to 128 bytes of text");
                return None;
            }
        }
        Fact::Hex => {
            let digits = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
            let bytes = FEWEST.1..=limits::NAME_BYTES;
            if !digits || !text.len().is_multiple_of(2) || !bytes.contains(&(text.len() / 2)) {
                let hint = "give 4 to 128 bytes, two hexadecimal digits each";
                refuse(cx, &scalar.span, "does not distinguish builds", hint);
                return None;
            }
        }
        Fact::Function => {
            let wildcards = text.matches(['*', '?']).count();
            let named = text.chars().any(|c| !matches!(c, '*' | '?'));
            let fits = named && text.len() <= limits::NAME_BYTES && wildcards <= limits::WILDCARDS;
            if !fits || text.contains(char::is_control) {
                refuse(cx, &scalar.span, "is not a function", "give its name, or a glob such as `engine_run*`");
                return None;
            }
        }
    }
    Some(text.to_owned())
}
