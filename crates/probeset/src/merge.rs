//! A probeset's files as one: each section is the union of the files' sections. What two files say of one name must be
//! the same, except that views, enumerations and costs are unions again: each file names the members it reads.

use super::language::{FILE, Key};
use super::problems::{Problems, shown};
use super::yaml::{Entry, Map, Node, Scalar};
use super::{limits, reader};
use profinfer_diagnostics::{Code, Diagnostic, Span};

/// The version of the language.
const VERSION: &str = "1";

/// The files' sections, merged.
#[derive(Debug)]
pub(super) struct Sections {
    merged: Map,
}

impl Sections {
    /// Nothing yet. A problem of the whole is shown at `start`.
    pub(super) fn new(start: Span) -> Self {
        Self { merged: Map { entries: indexmap::IndexMap::new(), span: start } }
    }

    /// A section, where a file has it and it is a map.
    pub(super) fn get(&self, section: &str) -> Option<&Map> {
        match self.merged.entries.get(section)?.value {
            Node::Map(ref map) => Some(map),
            _ => None,
        }
    }

    /// Where a problem of the whole is shown.
    pub(super) fn start(&self) -> &Span {
        &self.merged.span
    }

    /// Shows problems of the whole at a file's first key.
    pub(super) fn start_at(&mut self, file: &Map) {
        if let Some(first) = file.entries.values().next() {
            self.merged.span = first.key.span.clone();
        }
    }

    /// Takes a file's sections in.
    pub(super) fn add(&mut self, file: &Map, problems: &mut Problems) {
        for Key { name: section, merged: depth, .. } in FILE.keys.iter().filter(|key| key.merged > 0) {
            let Some(entry) = file.entries.get(*section) else { continue };
            let what = format!("`{section}`");
            if reader::map(&entry.value, &what, limits::ENTRIES, problems).is_none() {
                continue;
            }
            match self.merged.entries.get_mut(*section) {
                Some(merged) => union(&mut merged.value, &entry.value, *depth, problems),
                None => {
                    self.merged.entries.insert((*section).to_owned(), entry.clone());
                }
            }
        }
    }
}

/// Adds the entries of `from` to `into`, `depth` levels of maps deep.
fn union(into: &mut Node, from: &Node, depth: usize, problems: &mut Problems) {
    let (Node::Map(into), Node::Map(from)) = (into, from) else { return };
    for (name, entry) in &from.entries {
        match into.entries.get_mut(name) {
            None => {
                into.entries.insert(name.clone(), entry.clone());
            }
            Some(first) if first.value.same(&entry.value) => {}
            Some(first) => match (&first.value, &entry.value) {
                (Node::Map(_), Node::Map(_)) if depth > 1 => union(&mut first.value, &entry.value, depth - 1, problems),
                _ => problems.push(differ(&first.key, entry)),
            },
        }
    }
}

fn differ(first: &Scalar, second: &Entry) -> Diagnostic {
    let (line, _) = first.span.line_column();
    let message = format!("`{}` is defined differently in another file", shown(&second.key.text));
    Diagnostic::error(Code::Duplicate, message)
        .at(&second.key.span)
        .with_note(format!("the first definition is on line {line} of {}", first.span.source.name))
        .hint("use the same definition, or rename it")
}

/// Whether a file is a probeset of a version that this program supports, with valid keys.
pub(super) fn header<'n>(root: &'n Node, problems: &mut Problems) -> Option<&'n Map> {
    let file = reader::map(root, "a probeset", limits::ENTRIES, problems)?;
    let start = file.entries.values().next().map_or(&file.span, |entry| &entry.key.span);
    match reader::required(file, "profinfer", ("the probeset", start), &FILE, problems) {
        Some(version) => is_version(&version.value, problems)?,
        // Without a version it may be any YAML: every other key would be a problem.
        None if !file.entries.keys().any(|key| FILE.get(key).is_some()) => return None,
        None => {}
    }
    reader::check_keys(file, &FILE, problems);
    Some(file)
}

fn is_version(node: &Node, problems: &mut Problems) -> Option<()> {
    let version = reader::text(node, "`profinfer`", problems)?;
    if version.text == VERSION {
        return Some(());
    }
    let message = format!("language version `{}` is not supported", shown(&version.text));
    let newer = reader::parse_integer(&version.text).is_some_and(|v| v > 1);
    let hint = if newer { "use a newer profinfer; this one supports version 1" } else { "write `profinfer: 1`" };
    problems.error_hint(Code::UnknownVersion, &version.span, message, hint);
    None
}
