//! Reading one YAML value as what the language has in its place. Each function reports problems and returns `None`,
//! so that its caller goes on with the rest.

use super::language::{Key, Keys};
use super::limits;
use super::problems::{Problems, list, shown};
use super::yaml::{Entry, Map, Node, Scalar};
use profinfer_diagnostics::{Code, Diagnostic, Span};
use std::ops::RangeInclusive;

/// The entries of a list, or the one that is written in its place.
pub(super) fn several<'n>(node: &'n Node, what: &str, most: usize, problems: &mut Problems) -> &'n [Node] {
    match node {
        Node::List(list) if !list.items.is_empty() && list.items.len() <= most => &list.items,
        Node::List(list) => {
            let message = format!("{what} has {} entries; allowed are 1 to {most}", list.items.len());
            problems.error(Code::OutOfRange, &list.span, message);
            &[]
        }
        node => std::slice::from_ref(node),
    }
}

/// A map, at most so many entries of which are read.
pub(super) fn map<'n>(node: &'n Node, what: &str, most: usize, problems: &mut Problems) -> Option<&'n Map> {
    let Node::Map(map) = node else {
        wrong_shape(node, what, "a map (`key: value`)", problems);
        return None;
    };
    if map.entries.len() > most {
        let message = format!("{what} has {} entries; the maximum is {most}", map.entries.len());
        problems.error(Code::OutOfRange, &map.span, message);
        return None;
    }
    Some(map)
}

/// A text, as it is meant.
pub(super) fn text<'n>(node: &'n Node, what: &str, problems: &mut Problems) -> Option<&'n Scalar> {
    match node {
        Node::Scalar(scalar) if !scalar.absent => Some(scalar),
        _ => {
            wrong_shape(node, what, "a text", problems);
            None
        }
    }
}

/// A text, or a list of some.
pub(super) fn texts<'n>(node: &'n Node, what: &str, most: usize, problems: &mut Problems) -> Vec<&'n Scalar> {
    let list = match node {
        Node::List(list) => list,
        Node::Scalar(scalar) if !scalar.absent => return vec![scalar],
        _ => {
            wrong_shape(node, what, "a text or a list of them", problems);
            return Vec::new();
        }
    };
    if list.items.is_empty() || list.items.len() > most {
        let message = format!("{what} has {} entries; allowed are 1 to {most}", list.items.len());
        problems.error(Code::OutOfRange, &list.span, message);
        return Vec::new();
    }
    list.items.iter().filter_map(|item| text(item, what, problems)).collect()
}

/// A text that is only shown to people.
pub(super) fn prose(node: &Node, what: &str, problems: &mut Problems) -> Option<String> {
    let scalar = text(node, what, problems)?;
    if scalar.text.len() > limits::SUMMARY_BYTES {
        let message = format!("{what} has {} bytes; the maximum is {}", scalar.text.len(), limits::SUMMARY_BYTES);
        problems.error(Code::OutOfRange, &scalar.span, message);
        return None;
    }
    // What is shown on terminals and in reports must not steer them.
    Some(scalar.text.split_whitespace().collect::<Vec<_>>().join(" ").replace(char::is_control, ""))
}

/// `true` or `false`.
pub(super) fn flag(node: &Node, what: &str, problems: &mut Problems) -> Option<bool> {
    match text(node, what, problems)?.text.as_str() {
        "true" => Some(true),
        "false" => Some(false),
        other => {
            let message = format!("{what} is `true` or `false`, not `{}`", shown(other));
            problems.error(Code::WrongShape, node.span(), message);
            None
        }
    }
}

/// A whole number, decimal or `0x`, within a range.
pub(super) fn number(
    text: &str,
    span: &Span,
    what: &str,
    range: RangeInclusive<i64>,
    problems: &mut Problems,
) -> Option<i64> {
    let Some(value) = parse_integer(text) else {
        problems.error(Code::WrongShape, span, format!("{what} is a whole number, not `{}`", shown(text)));
        return None;
    };
    in_range(i128::from(value), span, what, *range.start(), *range.end(), problems)?;
    Some(value)
}

/// Whether a number is within its range.
pub(super) fn in_range(
    value: i128,
    span: &Span,
    what: &str,
    least: i64,
    most: i64,
    problems: &mut Problems,
) -> Option<()> {
    if (i128::from(least)..=i128::from(most)).contains(&value) {
        return Some(());
    }
    problems.error(Code::OutOfRange, span, format!("{what} is {value}; the range is {least} to {most}"));
    None
}

/// A whole number as the language writes it.
pub(super) fn parse_integer(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let magnitude = match digits.strip_prefix("0x") {
        Some(hex) if !hex.starts_with('+') => i64::from_str_radix(hex, 16).ok()?,
        Some(_) => return None,
        None => digits.parse::<i64>().ok()?,
    };
    Some(if negative { -magnitude } else { magnitude })
}

/// Says which keys of a map the language does not have.
pub(super) fn check_keys(map: &Map, keys: &Keys, problems: &mut Problems) {
    let (what, candidates) = (keys.what, keys.names());
    for entry in map.entries.values().filter(|e| !candidates.contains(&e.key.text.as_str())) {
        let word = entry.key.text.as_str();
        let message = format!("{what} has no key `{}`", shown(word));
        let otherwise = format!("the keys of {what} are {}", list(&candidates));
        problems.unknown(Code::UnknownKey, (word, &entry.key.span), message, candidates.iter().copied(), otherwise);
    }
}

/// A required entry of a map that stands at `owner`. Its table marks it as required.
pub(super) fn required<'n>(
    map: &'n Map,
    key: &str,
    owner: (&str, &Span),
    keys: &Keys,
    problems: &mut Problems,
) -> Option<&'n Entry> {
    let entry = map.entries.get(key);
    if entry.is_none() {
        let message = format!("{} has no `{key}`", owner.0);
        let hint = keys.get(key).map(Key::hint).unwrap_or_default();
        problems.push(Diagnostic::error(Code::MissingKey, message).at(owner.1).hint(hint));
    }
    entry
}

/// The place of a text that is parsed: its characters must be the file's, so that what is found in it
/// has a place.
pub(super) fn language(scalar: &Scalar, what: &str, problems: &mut Problems) -> Option<Span> {
    if scalar.verbatim.is_none() {
        let hint = "write it without quotes, or in the other kind of quotes, or on the line after `>-`";
        let message = format!("{what} cannot be written with YAML escapes");
        problems.error_hint(Code::WrongShape, &scalar.span, message, hint);
    }
    scalar.verbatim.clone()
}

fn wrong_shape(node: &Node, what: &str, expected: &str, problems: &mut Problems) {
    let found = match node {
        Node::Scalar(scalar) if scalar.absent => "it is empty",
        Node::Scalar(_) => "it is a text",
        Node::List(_) => "it is a list",
        Node::Map(_) => "it is a map",
    };
    problems.error(Code::WrongShape, node.span(), format!("{what} must be {expected}, but {found}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_decimal_or_hexadecimal() {
        for (text, value) in [("0", 0), ("29", 29), ("-1", -1), ("0x10", 16), ("9223372036854775807", i64::MAX)] {
            assert_eq!(parse_integer(text), Some(value));
        }
        for text in ["", "-", "+1", "0x", "0x+1", "--1", "1e3", "1_0", "9223372036854775808", " 1"] {
            assert_eq!(parse_integer(text), None, "{text}");
        }
    }
}
