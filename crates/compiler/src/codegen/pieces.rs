//! Pieces of the target's memory that several expressions of one program need, at a function's entry or at its return: each
//! read of it costs more than the rest of an expression together, so each piece is read once a hit. A field's pieces that
//! are needed in any case are read before it, others when the first expression needs them.

use super::expression::Names;
use super::source::origin;
use profinfer_probeset::path::c::{c_type, value};
use profinfer_probeset::path::{Base, BinaryOp, Checked, Memory, Node};
use std::collections::BTreeMap;

/// Most pieces of one program: they lie on its stack.
pub(super) const MOST: usize = 24;

/// What several expressions read. One that others are reached through comes before them.
#[derive(Debug)]
pub(super) struct Pieces<'c> {
    found: Vec<Piece<'c>>,
}

#[derive(Debug)]
struct Piece<'c> {
    number: usize,
    /// What reads it, without other pieces.
    key: String,
    read: &'c Checked,
}

/// Pieces as some of the expressions have them.
#[derive(Debug, Default)]
pub(super) struct Written {
    names: Vec<Named>,
    /// The macros.
    pub(super) macros: Vec<String>,
    /// Statements that read what is needed in any case: its code is there once, and not wherever it is used.
    pub(super) reads: Vec<String>,
}

/// A macro that gives a piece's value.
#[derive(Debug, Clone)]
struct Named {
    key: String,
    name: String,
    definition: String,
}

/// When pieces are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    /// Where the first expression needs them.
    Used,
    /// Those that are needed in any case, before all expressions.
    Before,
}

impl<'c> Pieces<'c> {
    /// What more than one of these expressions reads, numbered from `first` on.
    pub(super) fn of(first: usize, expressions: &[&'c Checked], names: Names<'_>) -> Self {
        let times = keys(expressions, &Checked::children, names);
        let mut shared: Vec<(String, &Checked)> = Vec::new();
        for expression in expressions {
            each_read(expression, &Checked::children, &mut |read| {
                let key = key(read, names);
                let is_new = shared.iter().all(|(other, _)| *other != key);
                if is_new && times[&key] > 1 {
                    shared.push((key, read));
                }
                is_new
            });
        }
        // The text of a read holds that of the pointers on its way.
        shared.sort_by_key(|(key, _)| key.len());
        let found = (first..MOST).zip(shared).map(|(number, (key, read))| Piece { number, key, read });
        Self { found: found.collect() }
    }

    /// The number after theirs.
    pub(super) fn end(&self) -> usize {
        self.found.last().map_or(0, |piece| piece.number + 1)
    }

    /// Those that some of the expressions read, in macros whose names begin with `prefix`, but for those of `others` that
    /// are the same.
    pub(super) fn written(
        &self,
        prefix: &str,
        expressions: &[&Checked],
        when: When,
        others: &Written,
        names: Names<'_>,
    ) -> Written {
        let used = keys(expressions, &Checked::children, names);
        let needed = if when == When::Before { keys(expressions, &in_any_case, names) } else { BTreeMap::default() };
        let mut written = Written::default();
        for Piece { number, key, read } in self.found.iter().filter(|piece| used.contains_key(&piece.key)) {
            let body = value(read, &mut Names { pieces: Some(&written), ..names });
            let (ty, origin) = (c_type(&read.ty), origin(&read.span));
            let definition = if used[key] > 1 && needed.contains_key(key) {
                written.reads.push(format!("PF_READ_PIECE({number}, {ty}, {body}); {origin}"));
                format!("PF_GOT_PIECE({number}, {ty})")
            } else {
                format!("PF_PIECE({number}, {ty}, {body}) {origin}")
            };
            let same = others.names.iter().find(|other| other.key == *key && other.definition == definition);
            written.names.push(same.cloned().unwrap_or_else(|| {
                let name = format!("{prefix}_{number}");
                written.macros.push(format!("#define {name} {definition}"));
                Named { key: key.clone(), name, definition }
            }));
        }
        written
    }
}

impl Written {
    /// The name of a piece of memory, where it is one of these.
    pub(super) fn name(&self, memory: &Checked, names: &Names<'_>) -> Option<String> {
        if self.names.is_empty() || !is_piece(memory) {
            return None;
        }
        let key = key(memory, *names);
        self.names.iter().find(|named| named.key == key).map(|named| named.name.clone())
    }
}

/// What expressions read, as far as `parts` leads, and how often; what is on the way to a piece is read once, with it.
fn keys<'c>(
    expressions: &[&'c Checked],
    parts: &dyn Fn(&'c Checked) -> Vec<&'c Checked>,
    names: Names<'_>,
) -> BTreeMap<String, usize> {
    let mut keys = BTreeMap::default();
    for expression in expressions {
        each_read(expression, parts, &mut |read| {
            let times: &mut usize = keys.entry(key(read, names)).or_default();
            *times += 1;
            *times == 1
        });
    }
    keys
}

/// The parts of an expression that are evaluated whatever its value is.
fn in_any_case(expression: &Checked) -> Vec<&Checked> {
    match &expression.node {
        Node::Conditional(condition, ..) => vec![condition],
        Node::Binary(BinaryOp::And | BinaryOp::Or, left, _) => vec![left],
        // Elements are visited until the key is found.
        Node::Map { .. } => Vec::new(),
        _ => expression.children(),
    }
}

/// Calls `each` with what an expression reads, itself and, where that is true, on the way to that.
fn each_read<'c>(
    expression: &'c Checked,
    parts: &dyn Fn(&'c Checked) -> Vec<&'c Checked>,
    each: &mut dyn FnMut(&'c Checked) -> bool,
) {
    if is_piece(expression) && !each(expression) {
        return;
    }
    for part in parts(expression) {
        each_read(part, parts, each);
    }
}

/// Whether it is read from memory, and of a word at most.
fn is_piece(checked: &Checked) -> bool {
    let read = match &checked.node {
        Node::Memory(memory) | Node::VectorElement { vector: memory, .. } | Node::Held { place: memory, .. } => memory,
        Node::Element { .. } | Node::Map { .. } => return true,
        _ => return false,
    };
    checked.ty.is_word() && matches!(read, Memory { base: Base::Pointer(_), .. })
}

/// Equal for equal reads: the C that makes them.
fn key(read: &Checked, names: Names<'_>) -> String {
    let value = value(read, &mut Names { pieces: None, ..names });
    format!("{} {value}", c_type(&read.ty))
}
