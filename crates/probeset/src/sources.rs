//! Where an offset or a constant comes from beside debug information: a function of the engine that returns a member, a
//! table of names, a distance from another member; and what must be true of a member that came from there.

use super::limits;
use super::model::{Accessor, Beside, Expectation, Expected, Member, NameTable};
use super::problems::shown;
use super::reader;
use super::values::Context;
use super::yaml::{Entry, Map, Node};
use crate::language::TABLE;
use crate::path::{NamePattern, Type};
use indexmap::IndexMap;
use profinfer_diagnostics::{Code, Diagnostic, Span, Spanned};

/// Fewest and most names by which a table is recognised.
const BEGINS: std::ops::RangeInclusive<usize> = 2..=16;
/// Bytes from one entry of a table to the next.
const STRIDE: std::ops::RangeInclusive<i64> = 8..=4096;
const FIRST_LOAD: &str = "first load of ";
/// Arguments before the view.
const MOST_BEFORE: usize = 5;

/// `FUNCTION(self)`, `FUNCTION(VIEW.member)`, `first load of FUNCTION(self)`; `FUNCTION(this, self)` of its second argument.
pub(super) fn accessor(span: &Span, cx: &mut Context<'_>) -> Option<Accessor> {
    let text = span.text().trim();
    let (first_load, call) = match text.strip_prefix(FIRST_LOAD) {
        Some(call) => (true, call.trim_start()),
        None => (false, text),
    };
    let refused = |cx: &mut Context<'_>| {
        let message = format!("`{}` is not a function that returns the member", shown(text));
        let hint = "write `from FUNCTION(self)`, `from FUNCTION(VIEW.member)`, or `from first load of FUNCTION(self)`";
        cx.problems.error_hint(Code::PathSyntax, span, message, hint);
        None
    };
    let Some((function, argument)) = call.strip_suffix(')').and_then(|call| call.split_once('(')) else {
        return refused(cx);
    };
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '~' | '.');
    if function.is_empty() || function.len() > limits::NAME_BYTES || !function.chars().all(is_name) {
        return refused(cx);
    }
    // Those before the view are only there to count it: `f(this, self)`.
    let arguments: Vec<&str> = argument.split(',').map(str::trim).collect();
    let Some((argument, before)) = arguments.split_last() else { return refused(cx) };
    let is_placeholder = |text: &&str| text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && is_word(text);
    if before.len() > MOST_BEFORE || !before.iter().all(|text| is_placeholder(text) && *text != "self") {
        return refused(cx);
    }
    let through = match *argument {
        "self" => None,
        other => match other.rsplit_once('.') {
            Some((view, member)) if !view.is_empty() && !member.is_empty() => {
                Some((view.to_owned(), member.to_owned()))
            }
            _ => return refused(cx),
        },
    };
    let (span, function, argument) = (span.clone(), NamePattern(function.to_owned()), before.len());
    Some(Accessor { span, function, argument, through, first_load })
}

fn is_word(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Whether the text after `@` is of another member.
pub(super) fn is_beside(text: &str) -> bool {
    text.trim_start().starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && text.contains(['+', '-'])
}

/// `MEMBER + N`, `MEMBER - N`: an offset beside another member.
pub(super) fn beside(text: &str, span: &Span, cx: &mut Context<'_>) -> Option<Beside> {
    let at = text.find(['+', '-'])?;
    let (member, distance) = text.split_at(at);
    let sign = if distance.starts_with('-') { -1 } else { 1 };
    let bytes =
        reader::number(distance[1..].trim(), span, "a distance after `@`", 0..=limits::VIEW_BYTES, cx.problems)?;
    Some(Beside { member: member.trim().to_owned(), distance: sign * bytes })
}

/// That members which others lie beside are members of the view.
pub(super) fn check_beside(members: &IndexMap<String, Member>, cx: &mut Context<'_>) {
    for member in members.values() {
        let Some(beside) = &member.beside else { continue };
        let is_other = beside.member != member.name.value;
        let found = members.get(&beside.member).filter(|other| is_other && other.beside.is_none());
        if found.is_none() {
            let message = format!("`{}` lies beside `{}`", member.name.value, shown(&beside.member));
            let hint = "name a member of the same view that has another source";
            cx.problems.error_hint(Code::UnknownName, &member.ty.span, message, hint);
        }
    }
}

/// `table` of an enumeration, or a number's: one, or alternatives.
pub(super) fn tables(entry: &Entry, cx: &mut Context<'_>) -> Vec<NameTable> {
    let nodes = reader::several(&entry.value, "`table`", limits::ALTERNATIVES, cx.problems);
    nodes.iter().filter_map(|node| table(node, cx)).collect()
}

/// One of them: a symbol, or a map.
fn table(node: &Node, cx: &mut Context<'_>) -> Option<NameTable> {
    if let Node::Scalar(scalar) = node {
        let symbol = scalar.text.clone();
        if symbol.is_empty() || symbol.len() > limits::NAME_BYTES || symbol.contains(char::is_whitespace) {
            let message = format!("`{}` is not the symbol of a table", shown(&symbol));
            cx.problems.error_hint(Code::BadIdentifier, &scalar.span, message, "write it as `nm` shows it");
            return None;
        }
        return Some(NameTable { symbol: Some(symbol), ..NameTable::default() });
    }
    let map = reader::map(node, "`table`", limits::ENTRIES, cx.problems)?;
    reader::check_keys(map, &TABLE, cx.problems);
    let symbol = text(map, "symbol", cx);
    let begins: Vec<String> = map.entries.get("begins").map_or_else(Vec::new, |entry| {
        let texts = reader::texts(&entry.value, "`begins`", *BEGINS.end(), cx.problems);
        texts.into_iter().map(|scalar| scalar.text.clone()).collect()
    });
    let is_text = |text: &String| !text.is_empty() && text.len() <= limits::NAME_BYTES && !text.contains('\0');
    if symbol.is_none() && (!BEGINS.contains(&begins.len()) || !begins.iter().all(is_text)) {
        let message = "a table has a `symbol`, or `begins` with its first names";
        let hint = "write the first two names or more: `begins: [NONE, DUP, ADD]`";
        cx.problems.error_hint(Code::MissingKey, &map.span, message, hint);
        return None;
    }
    let stride = map.entries.get("stride").and_then(|entry| {
        let scalar = reader::text(&entry.value, "`stride`", cx.problems)?;
        let bytes = reader::number(&scalar.text, &scalar.span, "the distance of two entries", STRIDE, cx.problems)?;
        u64::try_from(bytes).ok()
    });
    let gaps = text(map, "gaps", cx).is_some_and(|text| text == "true");
    Some(NameTable { symbol, begins, stride, gaps })
}

fn text(map: &Map, key: &str, cx: &mut Context<'_>) -> Option<String> {
    let entry = map.entries.get(key)?;
    Some(reader::text(&entry.value, &format!("`{key}`"), cx.problems)?.text.clone())
}

/// `expect` of a view: what must be true of members.
pub(super) fn expectations(
    entry: &Entry,
    what: &str,
    members: &IndexMap<String, Member>,
    cx: &mut Context<'_>,
) -> IndexMap<String, Vec<Expectation>> {
    let Some(map) = reader::map(&entry.value, "`expect`", limits::ENTRIES, cx.problems) else {
        return IndexMap::new();
    };
    let mut all = IndexMap::new();
    for entry in map.entries.values() {
        let Some(member) = members.get(&entry.key.text) else {
            let message = format!("{what} has no member `{}`", shown(&entry.key.text));
            let candidates = members.keys().map(String::as_str);
            let otherwise = "name a member of this view";
            cx.problems.unknown(Code::UnknownName, (&entry.key.text, &entry.key.span), message, candidates, otherwise);
            continue;
        };
        let texts = reader::texts(&entry.value, "an expectation", limits::ALTERNATIVES, cx.problems);
        let conditions: Vec<Expectation> = texts
            .into_iter()
            .filter_map(|scalar| {
                let span = scalar.span.clone();
                let Some(expected) = expected(&scalar.text) else {
                    let message = format!("`{}` is not an expectation", shown(&scalar.text));
                    let hint = "write one of `text`, `positive`, `constant`, `object`, `first`, `distinct`, `in match[1]`, `A..B`";
                    cx.problems.error_hint(Code::BadPattern, &span, message, hint);
                    return None;
                };
                if !can_be_checked(&expected, &member.ty.value) {
                    let message = format!("{} cannot be `{}`", member.ty.value, scalar.text);
                    let hint = "`text` and `in match[1]` are for texts, `constant` for enumerations, `object` and `first` for pointers, the others for integers";
                    cx.problems.error_hint(Code::TypeMismatch, &span, message, hint);
                    return None;
                }
                if always_holds(&expected, &member.ty.value) {
                    let message = format!("`{}` holds for every value of {}", scalar.text, member.ty.value);
                    let problem = Diagnostic::warning(Code::BadPattern, message).at(&span);
                    cx.problems.push(problem.hint("write a narrower one: this proves nothing"));
                }
                Some(Spanned::new(expected, span))
            })
            .collect();
        all.insert(entry.key.text.clone(), conditions);
    }
    all
}

fn expected(text: &str) -> Option<Expected> {
    match text.trim() {
        "text" => return Some(Expected::Text),
        "positive" => return Some(Expected::Positive),
        "constant" => return Some(Expected::Constant),
        "object" => return Some(Expected::Object),
        "distinct" => return Some(Expected::Distinct),
        "first" => return Some(Expected::First),
        _ => {}
    }
    if let Some(number) = text.trim().strip_prefix("in match[").and_then(|rest| rest.strip_suffix(']')) {
        return Some(Expected::InMatch(number.parse().ok().filter(|number| (1..=8).contains(number))?));
    }
    let (from, to) = text.split_once("..")?;
    let (from, to) = (reader::parse_integer(from.trim())?, reader::parse_integer(to.trim())?);
    (from <= to).then_some(Expected::Range(from, to))
}

/// What an element is of, of arrays too.
fn element(ty: &Type) -> &Type {
    match ty {
        Type::Array(of, _) | Type::StdVector(of) => element(of),
        ty => ty,
    }
}

fn can_be_checked(expected: &Expected, ty: &Type) -> bool {
    let ty = element(ty);
    match expected {
        Expected::Text | Expected::InMatch(_) => matches!(ty, Type::Chars(_) | Type::CStr(_) | Type::StdString(_)),
        Expected::Distinct => !matches!(ty, Type::Pointer(_) | Type::Object(_)),
        Expected::Constant => matches!(ty, Type::Enum(_)),
        Expected::Object | Expected::First => matches!(ty, Type::Pointer(_) | Type::Object(_)),
        Expected::Positive | Expected::Range(..) => matches!(ty, Type::Int { .. } | Type::Enum(_)),
    }
}

fn always_holds(expected: &Expected, ty: &Type) -> bool {
    match (expected, element(ty)) {
        (Expected::Range(from, to), Type::Int { size, signed }) if *size < 8 => {
            let bits = *size * 8;
            let (least, most) =
                if *signed { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1_i64 << bits) - 1) };
            *from <= least && *to >= most
        }
        _ => false,
    }
}
