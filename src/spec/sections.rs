//! The merged sections as a [`Probeset`]: everything but the probes, which have a file of their own.

use super::language::{ANALYSIS, COST, FILE, MODULE, OBJECT};
use super::model::{Analysis, Cost, Enumeration, Field, Member, Module, Object, Probeset, StringLayout, View};
use super::problems::shown;
use super::values::Context;
use super::yaml::{Entry, Map, Node, Scalar};
use super::{advice, layouts, limits, metrics, names, probes, reader};
use crate::counters::Event;
use crate::diag::{Code, Diagnostic, Source, Spanned};
use crate::path::{Expr, Type};
use crate::trace::MAX_FIELDS;
use indexmap::IndexMap;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Reads all sections; `root` is the main file, whose `engine` and `summary` are the probeset's.
pub(super) fn read(name: String, root: &Map, sources: Vec<Arc<Source>>, cx: &mut Context<'_>) -> Probeset {
    let summary = root.entries.get("summary").and_then(|e| reader::prose(&e.value, "`summary`", cx.problems));
    Probeset {
        name,
        engine: engine(root, cx),
        summary: summary.unwrap_or_default(),
        modules: each("modules", module, cx),
        types: each("types", view, cx),
        enums: each("enums", enumeration, cx),
        objects: each("objects", object, cx),
        counters: each("counters", counter, cx),
        probes: each("probes", probes::probe, cx),
        analysis: analysis(cx),
        sources,
        parts: Vec::new(),
        tested: tested(root, cx),
    }
}

/// The builds that the main file says it was tested on.
fn tested(root: &Map, cx: &mut Context<'_>) -> Vec<String> {
    let Some(entry) = root.entries.get("tested") else { return Vec::new() };
    let texts = reader::texts(&entry.value, "`tested`", limits::TESTED, cx.problems);
    texts.into_iter().filter_map(|text| reader::prose(&Node::Scalar(text.clone()), "`tested`", cx.problems)).collect()
}

/// The entries of a section that can be read, by name.
fn each<T>(
    section: &str,
    read: fn(&Entry, &mut Context<'_>) -> Option<T>,
    cx: &mut Context<'_>,
) -> IndexMap<String, T> {
    let entries = cx.sections.get(section).into_iter().flat_map(|map| map.entries.values());
    entries.filter_map(|entry| Some((entry.key.text.clone(), read(entry, cx)?))).collect()
}

fn engine(root: &Map, cx: &mut Context<'_>) -> Spanned<String> {
    let start = cx.sections.start();
    let text = reader::required(root, "engine", ("the probeset", start), &FILE, cx.problems)
        .and_then(|entry| Some((reader::prose(&entry.value, "`engine`", cx.problems)?, entry.value.span().clone())));
    let (text, span) = text.unwrap_or_else(|| (String::new(), start.clone()));
    Spanned::new(text, span)
}

fn module(entry: &Entry, cx: &mut Context<'_>) -> Option<Module> {
    cx.problems.keep(names::name(&entry.key, "a module"));
    let what = format!("module `{}`", shown(&entry.key.text));
    let (files, strings) = match &entry.value {
        Node::Map(map) => {
            reader::known_keys(map, &MODULE, cx.problems);
            let files = reader::required(map, "files", (&what, &entry.key.span), &MODULE, cx.problems)?;
            (&files.value, map.entries.get("strings").and_then(|entry| strings(&entry.value, cx)))
        }
        files => (files, None),
    };
    let texts = reader::texts(files, &what, limits::ALTERNATIVES, cx.problems);
    let globs: Vec<_> = texts.into_iter().filter_map(|scalar| cx.problems.keep(glob(scalar))).collect();
    (!globs.is_empty()).then_some(Module { globs, strings })
}

fn strings(node: &Node, cx: &mut Context<'_>) -> Option<StringLayout> {
    let scalar = reader::text(node, "`strings`", cx.problems)?;
    let found = StringLayout::NAMES.iter().find(|(name, _)| *name == scalar.text);
    if found.is_none() {
        let names = StringLayout::NAMES.map(|(name, _)| name);
        let message = format!("no library lays out strings as `{}`", shown(&scalar.text));
        let otherwise = format!("write one of {}", reader::list(&names));
        cx.problems.unknown(Code::UnknownName, (&scalar.text, &scalar.span), message, names, otherwise);
    }
    found.map(|(_, layout)| *layout)
}

/// A file-name glob: `*` and `?`, no folder, not so wide that it takes in everything.
pub(super) fn glob(scalar: &Scalar) -> Result<Spanned<String>, Diagnostic> {
    let text = scalar.text.as_str();
    let error = |why: String| Diagnostic::error(Code::BadPattern, format!("`{}` {why}", shown(text))).at(&scalar.span);
    let example = "such as `libengine.so*`";
    if text.contains(['/', '\\']) {
        return Err(error("has a folder in it".into())
            .hint(format!("modules are found by their file's name alone: give only that, {example}")));
    }
    if text.is_empty() || text.len() > limits::GLOB_BYTES || text.contains(char::is_control) {
        return Err(error("is not a file's name".into()).hint(format!("give a file's name, {example}")));
    }
    if text.matches(['*', '?']).count() > limits::WILDCARDS {
        return Err(
            error(format!("has more than {} wildcards", limits::WILDCARDS)).hint(format!("give fewer, {example}"))
        );
    }
    if text.chars().all(|c| matches!(c, '*' | '?' | '.')) {
        return Err(error("matches any file".into()).hint(format!("give a part of the file's name, {example}")));
    }
    Ok(Spanned::new(text.to_owned(), scalar.span.clone()))
}

fn view(entry: &Entry, cx: &mut Context<'_>) -> Option<View> {
    let name = cx.problems.keep(names::qualified(&entry.key, "a view"));
    let what = format!("view `{}`", shown(&entry.key.text));
    let map = reader::map(&entry.value, &what, limits::ENTRIES, cx.problems)?;
    let (mut size, mut members) = (None, IndexMap::new());
    // `layouts` with something else than a type is the view's own, too.
    let is_layouts = |entry: &Entry| entry.key.text == "layouts" && !matches!(entry.value, Node::Scalar(_));
    for entry in map.entries.values().filter(|entry| !is_layouts(entry)) {
        let Some(scalar) = reader::text(&entry.value, &format!("a member of {what}"), cx.problems) else { continue };
        // `size: 336` is the view's own size; `size: u64` is a member that happens to be called so.
        if entry.key.text == "size" && reader::parse_integer(&scalar.text).is_some() {
            let range = 1..=limits::VIEW_BYTES;
            let bytes = reader::number(&scalar.text, &scalar.span, "a view's size", range, cx.problems);
            size = bytes.and_then(|bytes| u64::try_from(bytes).ok());
        } else if let Some(member) = member(&entry.key, scalar, cx) {
            members.insert(entry.key.text.clone(), member);
        }
    }
    for member in members.values() {
        if let (Some(size), Some(offset)) = (size, member.offset)
            && offset >= size
        {
            let message = format!("`{}` is at {offset}, beyond the {size} bytes of {what}", member.name.value);
            cx.problems.error(Code::OutOfRange, &member.ty.span, message);
        }
    }
    let layouts = map.entries.get("layouts").filter(|entry| is_layouts(entry));
    let layouts = layouts.map(|entry| layouts::read(entry, &what, &members, cx)).unwrap_or_default();
    Some(View { name: name?, size, members, layouts })
}

/// `TYPE` or `TYPE @ offset`.
fn member(key: &Scalar, value: &Scalar, cx: &mut Context<'_>) -> Option<Member> {
    let name = cx.problems.keep(names::name(key, "a member"));
    let span = reader::language(value, "a type", cx.problems)?;
    let (ty_span, offset, bit) = match span.text().rsplit_once('@') {
        None => (span, None, None),
        Some((before, after)) => {
            let place = span.slice(before.len() + 1..span.text().len());
            let mut number =
                |text: &str, what: &str, most: i64| reader::number(text.trim(), &place, what, 0..=most, cx.problems);
            let (bytes, bit) = after.split_once(':').map_or((after, None), |(bytes, bit)| (bytes, Some(bit)));
            let offset = number(bytes, "an offset after `@`", limits::VIEW_BYTES)?;
            let bit = bit.map(|bit| number(bit, "a bit after `@`", 63)).map_or(Some(None), |bit| bit.map(Some))?;
            let bit = bit.and_then(|bit| u32::try_from(bit).ok());
            (span.slice(0..before.trim_end().len()), u64::try_from(offset).ok(), bit)
        }
    };
    let ty = cx.type_(ty_span)?;
    match ty.value {
        Type::Bits { size, bits, .. } if offset.is_some() && bit.is_none_or(|bit| bit + bits > size * 8) => {
            let message = format!("{bits} bits of {size} bytes begin at one of their bits");
            let hint = "write the bit behind the offset: `u32:3 @ 8:5`";
            cx.problems.error_hint(Code::OutOfRange, &ty.span, message, hint);
        }
        Type::Bits { .. } => {}
        _ if bit.is_some() => {
            let message = format!("{} begins at a byte, not at a bit", ty.value);
            cx.problems.error_hint(Code::TypeMismatch, &ty.span, message, "only `u32:3` and its kin have a bit");
        }
        _ => {}
    }
    Some(Member { name: name?, ty, offset, bit })
}

fn enumeration(entry: &Entry, cx: &mut Context<'_>) -> Option<Enumeration> {
    cx.problems.keep(names::qualified(&entry.key, "an enumeration"));
    let what = format!("enumeration `{}`", shown(&entry.key.text));
    let map = reader::map(&entry.value, &what, limits::CONSTANTS, cx.problems)?;
    let known_by = layouts::known_by(map, cx);
    let mut constants = BTreeMap::new();
    for entry in map.entries.values().filter(|entry| !layouts::CHECKED.contains(&entry.key.text.as_str())) {
        let range = i64::from(i32::MIN)..=i64::from(u32::MAX);
        let value = reader::number(&entry.key.text, &entry.key.span, "a constant's value", range, cx.problems);
        let name = reader::text(&entry.value, "a constant", cx.problems)
            .and_then(|scalar| cx.problems.keep(names::name(scalar, "a constant")));
        let (Some(value), Some(name)) = (value, name) else { continue };
        // Two spellings of one number, such as 16 and 0x10, are two keys for YAML.
        if constants.insert(value, name.value).is_some() {
            let problem = Diagnostic::error(Code::Duplicate, format!("{value} is given twice")).at(&entry.key.span);
            cx.problems.push(problem.hint("remove one"));
        }
    }
    Some(Enumeration { span: entry.key.span.clone(), constants, known_by })
}

fn object(entry: &Entry, cx: &mut Context<'_>) -> Option<Object> {
    let name = cx.problems.keep(names::name(&entry.key, "an object"));
    let what = format!("object `{}`", shown(&entry.key.text));
    let owner = (what.as_str(), &entry.key.span);
    let map = reader::map(&entry.value, &what, limits::ENTRIES, cx.problems)?;
    reader::known_keys(map, &OBJECT, cx.problems);
    let of = reader::required(map, "of", owner, &OBJECT, cx.problems)
        .and_then(|entry| reader::text(&entry.value, "`of`", cx.problems))
        .and_then(|scalar| cx.problems.keep(names::qualified(scalar, "a view")));
    if let Some(of) = &of {
        cx.refers("types", "type", of, "add it to `types`");
    }
    // The record of an object starts with its address.
    let fields = reader::required(map, "fields", owner, &OBJECT, cx.problems)
        .and_then(|entry| fields(&entry.value, &what, MAX_FIELDS - 1, cx))?;
    if let Some(field) = fields.get("address") {
        let message = "`address` cannot be a field of an object: each object has it already";
        cx.problems.error_hint(Code::BadIdentifier, &field.name.span, message, "remove it");
    }
    for field in fields.values().filter(|field| field.at_return) {
        let message = "`at return` is for a probe's fields: no function returns where an object is looked at";
        cx.problems.error_hint(Code::RolePlace, &field.value.span, message, "give the field to a probe");
    }
    Some(Object { name: name?, of: of?, fields })
}

/// Named values, at most `most`.
pub(super) fn fields(node: &Node, owner: &str, most: usize, cx: &mut Context<'_>) -> Option<IndexMap<String, Field>> {
    let map = reader::map(node, &format!("`fields` of {owner}"), limits::ENTRIES, cx.problems)?;
    if let Some(entry) = map.entries.values().nth(most) {
        let message = format!("{owner} has {} fields; {most} are the most", map.entries.len());
        cx.problems.error_hint(Code::OutOfRange, &entry.key.span, message, "leave out what no report needs");
    }
    let mut fields = IndexMap::new();
    for entry in map.entries.values() {
        let name = cx.problems.keep(names::variable(&entry.key, "a field"));
        let value = cx.field(&entry.value, &format!("field `{}`", shown(&entry.key.text)));
        if let (Some(name), Some((value, at_return))) = (name, value) {
            fields.insert(entry.key.text.clone(), Field { name, value, at_return });
        }
    }
    Some(fields)
}

/// An event in perf's syntax. It is never given to a shell, but is kept to the characters perf has.
fn counter(entry: &Entry, cx: &mut Context<'_>) -> Option<Spanned<String>> {
    cx.problems.keep(names::name(&entry.key, "a counter"));
    let what = format!("counter `{}`", shown(&entry.key.text));
    let scalar = reader::text(&entry.value, &what, cx.problems)?;
    let span = reader::language(scalar, &what, cx.problems)?;
    match Event::parse(span.text()) {
        Ok(event) => {
            if let Some(near) = event.likely_slip() {
                let message = format!("`{}` is looked for among the machine's own events", shown(span.text()));
                let hint = format!("did you mean `{near}`?");
                cx.problems.push(Diagnostic::warning(Code::CounterSyntax, message).at(&span).hint(hint));
            }
            Some(Spanned::new(span.text().to_owned(), span))
        }
        Err(problem) => {
            let place = span.slice(problem.range);
            let message = format!("`{}` is no event: {}", shown(span.text()), problem.message);
            cx.problems.error_hint(Code::CounterSyntax, &place, message, problem.hint);
            None
        }
    }
}

fn analysis(cx: &mut Context<'_>) -> Analysis {
    let Some(map) = cx.sections.get("analysis") else { return Analysis::default() };
    reader::known_keys(map, &ANALYSIS, cx.problems);
    let mut analysis =
        Analysis { layer: value(map, "layer", cx), prefill: value(map, "prefill", cx), ..Analysis::default() };
    analysis.experts = value(map, "experts", cx);
    for (key, node) in table(map, "dtypes", cx) {
        if let Some(bytes) = cx.expr(node, &format!("the size of `{}`", shown(key))) {
            analysis.dtypes.insert(key.to_owned(), bytes);
        }
    }
    for (key, node) in table(map, "costs", cx) {
        if let Some(cost) = cost(key, node, cx) {
            analysis.costs.insert(key.to_owned(), cost);
        }
    }
    for (key, node) in table(map, "context", cx) {
        if let Some(tokens) = cx.expr(node, &format!("the context of `{}`", shown(key))) {
            metrics::cost_names(&tokens, cx);
            analysis.context.insert(key.to_owned(), tokens);
        }
    }
    analysis.metrics = metrics::read(map, cx);
    analysis.weights = advice::weights(map, cx);
    analysis.advice = advice::read(map, cx);
    analysis
}

/// The expression that a key has, if it is given.
fn value(map: &Map, key: &str, cx: &mut Context<'_>) -> Option<Expr> {
    cx.expr(&map.entries.get(key)?.value, &format!("`{key}`"))
}

/// A table of the analysis. Its keys are an engine's own words (operator types, element types): any text will do.
fn table<'n>(map: &'n Map, key: &str, cx: &mut Context<'_>) -> Vec<(&'n str, &'n Node)> {
    let Some(entry) = map.entries.get(key) else { return Vec::new() };
    let Some(table) = reader::map(&entry.value, &format!("`{key}`"), limits::ENTRIES, cx.problems) else {
        return Vec::new();
    };
    let fits = |entry: &&Entry| {
        let text = &entry.key.text;
        let fits = !text.is_empty() && text.len() <= limits::NAME_BYTES && !text.contains(char::is_control);
        if !fits {
            let message = format!("`{}` cannot be a name in `{key}`", shown(text));
            cx.problems.error(Code::BadIdentifier, &entry.key.span, message);
        }
        fits
    };
    table.entries.values().filter(fits).map(|entry| (entry.key.text.as_str(), &entry.value)).collect()
}

fn cost(key: &str, node: &Node, cx: &mut Context<'_>) -> Option<Cost> {
    let map = reader::map(node, &format!("the cost of `{}`", shown(key)), limits::ENTRIES, cx.problems)?;
    reader::known_keys(map, &COST, cx.problems);
    let cost =
        Cost { flops: value(map, "flops", cx), bytes: value(map, "bytes", cx), experts: value(map, "experts", cx) };
    for expr in [&cost.flops, &cost.bytes, &cost.experts].into_iter().flatten() {
        metrics::cost_names(expr, cx);
    }
    Some(cost)
}
