//! The merged sections as a [`Probeset`]: everything but the probes, which have another file.

use super::language::{ANALYSIS, COST, FILE, GPU_TIMING, LET, MODULE, OBJECT};
use super::local_names::{self, with_let};
use super::model::{Analysis, Cost, Enumeration, Member, Module, NameTable, Object, Probeset, View};
use super::problems::shown;
use super::values::Context;
use super::yaml::{Entry, Map, Node, Scalar};
use super::{advice, fields, layouts, limits, metrics, names, probes, reader, sources, vocabulary};
use crate::counters::Event;
use crate::path::{Expr, Type};
use indexmap::IndexMap;
use profinfer_diagnostics::{Code, Diagnostic, Source, Span, Spanned};
use profinfer_schema::bpf::StringLayout;
use profinfer_schema::{MAX_FIELDS, Names};
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
        names: Names::default(),
        tested: tested(root, cx),
        gpu_timing: gpu_timing(cx),
    }
}

/// The builds under `tested` in the main file.
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
            reader::check_keys(map, &MODULE, cx.problems);
            let files = reader::required(map, "files", (&what, &entry.key.span), &MODULE, cx.problems)?;
            (&files.value, map.entries.get("strings").and_then(|entry| strings(&entry.value, cx)))
        }
        files => (files, None),
    };
    let texts = reader::texts(files, &what, limits::ALTERNATIVES, cx.problems);
    let globs: Vec<_> = texts.into_iter().filter_map(|scalar| cx.problems.keep(names::glob(scalar))).collect();
    (!globs.is_empty()).then_some(Module { globs, strings, exact: None })
}

fn strings(node: &Node, cx: &mut Context<'_>) -> Option<StringLayout> {
    let scalar = reader::text(node, "`strings`", cx.problems)?;
    let found = StringLayout::NAMES.iter().find(|(name, _)| *name == scalar.text);
    if found.is_none() {
        let names = StringLayout::NAMES.map(|(name, _)| name);
        let message = format!("unknown string layout `{}`", shown(&scalar.text));
        let otherwise = format!("write one of {}", super::problems::list(&names));
        cx.problems.unknown(Code::UnknownName, (&scalar.text, &scalar.span), message, names, otherwise);
    }
    found.map(|(_, layout)| *layout)
}

fn view(entry: &Entry, cx: &mut Context<'_>) -> Option<View> {
    let what = format!("view `{}`", shown(&entry.key.text));
    let map = reader::map(&entry.value, &what, limits::ENTRIES, cx.problems)?;
    let (view, computed) = local_names::of_view(map, &what, cx, |cx| members_of(entry, map, &what, cx));
    let view = View { computed, ..view? };
    for (name, member) in &view.members {
        if view.computed.contains_key(name) {
            let message = format!("`{name}` is a member and a name of `let`");
            cx.problems.error_hint(Code::Duplicate, &member.name.span, message, "choose another name");
        }
    }
    Some(view)
}

fn members_of(entry: &Entry, map: &Map, what: &str, cx: &mut Context<'_>) -> Option<View> {
    let name = cx.problems.keep(names::qualified(&entry.key, "a view"));
    let (mut size, mut within, mut elements, mut members) = (None, None, None, IndexMap::new());
    // `layouts` with something else than a type belongs to the view, too.
    let is_layouts = |entry: &Entry| entry.key.text == "layouts" && !matches!(entry.value, Node::Scalar(_));
    let is_expect = |entry: &Entry| entry.key.text == "expect" && matches!(entry.value, Node::Map(_));
    let is_let = |entry: &Entry| entry.key.text == LET && matches!(entry.value, Node::Map(_));
    for entry in map.entries.values().filter(|entry| !is_layouts(entry) && !is_expect(entry) && !is_let(entry)) {
        let Some(scalar) = reader::text(&entry.value, &format!("a member of {what}"), cx.problems) else { continue };
        // `within: 256` is of the view, too.
        if entry.key.text == "within" && reader::parse_integer(&scalar.text).is_some() {
            let range = 8..=limits::WITHIN;
            let bytes = reader::number(&scalar.text, &scalar.span, "the bytes to search", range, cx.problems);
            within = bytes.and_then(|bytes| u64::try_from(bytes).ok());
            continue;
        }
        // `elements: data[..count]` is a property of the view; `elements: i64*` is a member.
        if entry.key.text == "elements" && scalar.text.contains("[..") {
            elements = cx.expr(&entry.value, "`elements`");
            continue;
        }
        // `size: 336` is the size of the view; `size: u64` is a member that happens to be called so.
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
            let message = format!("`{}` is at offset {offset}, but {what} has {size} bytes", member.name.value);
            cx.problems.error(Code::OutOfRange, &member.ty.span, message);
        }
    }
    let layouts = map.entries.get("layouts").filter(|entry| is_layouts(entry));
    let layouts = layouts.map(|entry| layouts::read(entry, what, &members, cx)).unwrap_or_default();
    sources::check_beside(&members, cx);
    let expect = map.entries.get("expect").filter(|entry| is_expect(entry));
    let expect = expect.map(|entry| sources::expectations(entry, what, &members, cx)).unwrap_or_default();
    let computed = IndexMap::new();
    Some(View { name: name?, size, members, layouts, expect, within, elements, computed })
}

/// `TYPE` or `TYPE @ offset`.
fn member(key: &Scalar, value: &Scalar, cx: &mut Context<'_>) -> Option<Member> {
    let name = cx.problems.keep(names::name(key, "a member"));
    let whole = reader::language(value, "a type", cx.problems)?;
    let (span, from) = match whole.text().split_once(" from ") {
        None => (whole, None),
        Some((before, after)) => {
            let from = whole.slice(before.len() + " from ".len()..before.len() + " from ".len() + after.len());
            (whole.slice(0..before.trim_end().len()), Some(sources::accessor(&from, cx)?))
        }
    };
    let mut beside = None;
    let (ty_span, offset, bit) = match span.text().rsplit_once('@') {
        None => (span, None, None),
        Some((before, after)) if sources::is_beside(after) => {
            let place = span.slice(before.len() + 1..span.text().len());
            beside = Some(sources::beside(after, &place, cx)?);
            (span.slice(0..before.trim_end().len()), None, None)
        }
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
            let message = format!("a bit-field of {bits} bits needs its first bit in the {size} bytes");
            let hint = "write the bit after the offset: `u32:3 @ 8:5`";
            cx.problems.error_hint(Code::OutOfRange, &ty.span, message, hint);
        }
        Type::Bits { .. } => {}
        _ if bit.is_some() => {
            let message = format!("{} starts at a byte, not at a bit", ty.value);
            cx.problems.error_hint(
                Code::TypeMismatch,
                &ty.span,
                message,
                "remove the bit; only bit-fields such as `u32:3` have one",
            );
        }
        _ => {}
    }
    Some(Member { name: name?, ty, offset, bit, from, beside })
}

fn enumeration(entry: &Entry, cx: &mut Context<'_>) -> Option<Enumeration> {
    cx.problems.keep(names::qualified(&entry.key, "an enumeration"));
    let what = format!("enumeration `{}`", shown(&entry.key.text));
    let sets = reader::several(&entry.value, &what, limits::ALTERNATIVES, cx.problems);
    let mut sets: Vec<Enumeration> = sets.iter().filter_map(|set| constants(set, &what, &entry.key.span, cx)).collect();
    if sets.is_empty() {
        return None;
    }
    let first = sets.remove(0);
    Some(Enumeration { otherwise: sets, ..first })
}

/// One set of an enumeration's constants, which some builds may have.
fn constants(node: &Node, what: &str, named: &Span, cx: &mut Context<'_>) -> Option<Enumeration> {
    let map = reader::map(node, what, limits::CONSTANTS, cx.problems)?;
    let conditions = layouts::conditions(map, cx);
    let mut constants = BTreeMap::new();
    let first = map.entries.get("table").map(|entry| sources::tables(entry, cx));
    let mut tables: BTreeMap<i64, Vec<NameTable>> = first.into_iter().map(|tables| (0, tables)).collect();
    for entry in map.entries.values().filter(|entry| !vocabulary::OF_ENUMERATIONS.contains(&entry.key.text.as_str())) {
        let range = i64::from(i32::MIN)..=i64::from(u32::MAX);
        let value = reader::number(&entry.key.text, &entry.key.span, "a constant's value", range, cx.problems);
        // A text is a name; a table of a number is a map, or one of several.
        let is_table = match &entry.value {
            Node::Scalar(_) => false,
            Node::List(list) => list.items.iter().all(|item| matches!(item, Node::Map(_))),
            Node::Map(_) => true,
        };
        if is_table {
            let problem =
                |code, message: String| Diagnostic::error(code, message).at(&entry.key.span).hint("remove one");
            let (first, most) = (value.unwrap_or_default(), limits::ALTERNATIVES);
            if tables.len() == most {
                cx.problems.push(problem(Code::OutOfRange, format!("{what} has more than {most} tables")));
            } else if tables.insert(first, sources::tables(entry, cx)).is_some() {
                cx.problems.push(problem(Code::Duplicate, format!("two tables begin with {first}")));
            }
            continue;
        }
        let name = reader::text(&entry.value, "a constant", cx.problems)
            .and_then(|scalar| cx.problems.keep(names::name(scalar, "a constant")));
        let (Some(value), Some(name)) = (value, name) else { continue };
        // Two spellings of one number, such as 16 and 0x10, are two keys for YAML.
        if constants.insert(value, name.value).is_some() {
            let problem = Diagnostic::error(Code::Duplicate, format!("{value} is given twice")).at(&entry.key.span);
            cx.problems.push(problem.hint("remove one"));
        }
    }
    Some(Enumeration { span: named.clone(), constants, conditions, tables, otherwise: Vec::new() })
}

fn object(entry: &Entry, cx: &mut Context<'_>) -> Option<Object> {
    let name = cx.problems.keep(names::name(&entry.key, "an object"));
    let what = format!("object `{}`", shown(&entry.key.text));
    let owner = (what.as_str(), &entry.key.span);
    let map = reader::map(&entry.value, &what, limits::ENTRIES, cx.problems)?;
    reader::check_keys(map, &OBJECT, cx.problems);
    let of = reader::required(map, "of", owner, &OBJECT, cx.problems)
        .and_then(|entry| reader::text(&entry.value, "`of`", cx.problems))
        .and_then(|scalar| cx.problems.keep(names::qualified(scalar, "a view")));
    if let Some(of) = &of {
        cx.refers("types", "type", of, "add it to `types`");
    }
    // The record of an object starts with its address.
    let fields = reader::required(map, "fields", owner, &OBJECT, cx.problems)
        .and_then(|entry| fields::fields(&entry.value, &what, MAX_FIELDS - 1, cx))?;
    if let Some(field) = fields.get("address") {
        let message = "`address` cannot be a field of an object: every object has an address";
        cx.problems.error_hint(Code::BadIdentifier, &field.name.span, message, "remove it");
    }
    for field in fields.values().filter(|field| field.at_return) {
        let message = "`at return` is only for fields of probes, not of objects";
        cx.problems.error_hint(Code::RolePlace, &field.value.span, message, "move the field to a probe");
    }
    Some(Object { name: name?, of: of?, fields })
}

/// An event in perf's syntax. It is never given to a shell, but is limited to the characters of perf.
fn counter(entry: &Entry, cx: &mut Context<'_>) -> Option<Spanned<String>> {
    cx.problems.keep(names::name(&entry.key, "a counter"));
    let what = format!("counter `{}`", shown(&entry.key.text));
    let scalar = reader::text(&entry.value, &what, cx.problems)?;
    let span = reader::language(scalar, &what, cx.problems)?;
    match Event::parse(span.text()) {
        Ok(event) => {
            if let Some(near) = event.likely_slip() {
                let message = format!("`{}` is resolved on the machine that records", shown(span.text()));
                let hint = format!("did you mean `{near}`?");
                cx.problems.push(Diagnostic::warning(Code::CounterSyntax, message).at(&span).hint(hint));
            }
            Some(Spanned::new(span.text().to_owned(), span))
        }
        Err(problem) => {
            let place = span.slice(problem.range);
            let message = format!("`{}` is not an event: {}", shown(span.text()), problem.message);
            cx.problems.error_hint(Code::CounterSyntax, &place, message, problem.hint);
            None
        }
    }
}

/// Environment variables, by way of timing.
fn gpu_timing(cx: &mut Context<'_>) -> IndexMap<String, Vec<(String, String)>> {
    let mut ways = IndexMap::new();
    let Some(map) = cx.sections.get("gpu_timing") else { return ways };
    reader::check_keys(map, &GPU_TIMING, cx.problems);
    for way in GPU_TIMING.names() {
        let mut variables = Vec::new();
        for (name, node) in table(map, way, cx) {
            let what = format!("the variable `{}`", shown(name));
            let Some(value) = reader::text(node, &what, cx.problems) else { continue };
            if !is_switch(name, &value.text) {
                let message = format!("`{}={}` is no switch of a runtime", shown(name), shown(&value.text));
                let hint = "a variable's name is in capitals, such as `RUNTIME_BLOCKING: 1`, and its value a number or a word; \
                            none of the system's, such as PATH and LD_*";
                cx.problems.error_hint(Code::BadIdentifier, &value.span, message, hint);
                continue;
            }
            variables.push((name.to_owned(), value.text.clone()));
        }
        if !variables.is_empty() {
            ways.insert(way.to_owned(), variables);
        }
    }
    ways
}

/// Whether a variable may be set for a launched command. Nobody who records with a probeset of others expects it to decide
/// what is executed.
fn is_switch(name: &str, value: &str) -> bool {
    const OF_SYSTEM: [&str; 12] =
        ["LD_", "DYLD_", "GCONV_", "GLIBC_", "MALLOC_", "PATH", "HOME", "SHELL", "ENV", "BASH", "PYTHON", "PERL"];
    let is_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ',');
    name.starts_with(|c: char| c.is_ascii_uppercase())
        && name.chars().all(is_name)
        && !OF_SYSTEM.iter().any(|prefix| name.starts_with(prefix))
        && value.len() <= limits::NAME_BYTES
        && value.chars().all(is_word)
}

fn analysis(cx: &mut Context<'_>) -> Analysis {
    let Some(map) = cx.sections.get("analysis") else { return Analysis::default() };
    reader::check_keys(map, &ANALYSIS, cx.problems);
    with_let(map, ANALYSIS.what, cx, |cx| analysis_of(map, cx))
}

fn analysis_of(map: &Map, cx: &mut Context<'_>) -> Analysis {
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
    analysis.functions = advice::functions(map, cx);
    analysis
}

/// The expression that a key has, if it is given.
fn value(map: &Map, key: &str, cx: &mut Context<'_>) -> Option<Expr> {
    cx.expr(&map.entries.get(key)?.value, &format!("`{key}`"))
}

/// A table of the analysis. Its keys are words of the engine (operator types, element types): any text will do. A key of
/// several words, with commas between them, stands for each; a comma in parentheses is part of a word.
fn table<'n>(map: &'n Map, key: &str, cx: &mut Context<'_>) -> Vec<(&'n str, &'n Node)> {
    let Some(entry) = map.entries.get(key) else { return Vec::new() };
    let Some(table) = reader::map(&entry.value, &format!("`{key}`"), limits::ENTRIES, cx.problems) else {
        return Vec::new();
    };
    let mut named: IndexMap<&str, &Node> = IndexMap::new();
    for entry in table.entries.values() {
        let mut depth = 0_usize;
        let separates = |c: char| {
            match c {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            c == ',' && depth == 0
        };
        for name in entry.key.text.split(separates).map(str::trim) {
            let fits = !name.is_empty() && name.len() <= limits::NAME_BYTES && !name.contains(char::is_control);
            if !fits {
                let message = format!("`{}` cannot be a name in `{key}`", shown(name));
                cx.problems.error(Code::BadIdentifier, &entry.key.span, message);
            } else if named.insert(name, &entry.value).is_some() {
                let message = format!("`{}` is given twice in `{key}`", shown(name));
                cx.problems.error(Code::Duplicate, &entry.key.span, message);
            }
        }
    }
    named.into_iter().collect()
}

fn cost(key: &str, node: &Node, cx: &mut Context<'_>) -> Option<Cost> {
    let map = reader::map(node, &format!("the cost of `{}`", shown(key)), limits::ENTRIES, cx.problems)?;
    reader::check_keys(map, &COST, cx.problems);
    let cost =
        Cost { flops: value(map, "flops", cx), bytes: value(map, "bytes", cx), experts: value(map, "experts", cx) };
    for expr in [&cost.flops, &cost.bytes, &cost.experts].into_iter().flatten() {
        metrics::cost_names(expr, cx);
    }
    Some(cost)
}
