//! Pieces of the target's memory that several expressions of one program need: each read of it costs more than the rest
//! of an expression together, so each piece is read once a hit, when the first of them needs it.

use super::expression::Names;
use super::source::origin;
use crate::ProbePlan;
use profinfer_probeset::path::c::{c_type, value};
use profinfer_probeset::path::{Base, Checked, Memory, Node};

/// Most pieces of one program: they lie on its stack.
pub(super) const MOST: usize = 16;

/// The pieces of one program. One that others are reached through comes before them.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    found: Vec<Piece>,
}

#[derive(Debug)]
struct Piece {
    key: String,
    name: String,
}

impl Pieces {
    /// What more than one of these expressions reads; with the macros that read it.
    pub(super) fn of(prefix: &str, expressions: &[&Checked], plan: &ProbePlan, program: usize) -> (Self, Vec<String>) {
        let mut seen: Vec<(String, &Checked, usize)> = Vec::new();
        for expression in expressions {
            each_read(expression, &mut |read| {
                let key = key(read, plan, Some(program));
                match seen.iter_mut().find(|(other, ..)| *other == key) {
                    Some((.., times)) => *times += 1,
                    None => seen.push((key, read, 1)),
                }
            });
        }
        // The text of a read holds that of the pointers on its way.
        seen.sort_by_key(|(key, ..)| key.len());
        let mut pieces = Self::default();
        let mut macros = Vec::new();
        for (key, read, _) in seen.into_iter().filter(|(.., times)| *times > 1).take(MOST) {
            let number = pieces.found.len();
            let name = format!("{prefix}__piece_{number}");
            let ty = c_type(&read.ty);
            let body = value(read, &mut Names { plan, program: Some(program), pieces: Some(&pieces), saved: None });
            macros.push(format!("#define {name} PF_PIECE({number}, {ty}, {body}) {}", origin(&read.span)));
            pieces.found.push(Piece { key, name });
        }
        (pieces, macros)
    }

    /// The name of a piece of memory, where it is one of these.
    pub(super) fn name(&self, memory: &Checked, plan: &ProbePlan, program: Option<usize>) -> Option<String> {
        if self.found.is_empty() || !is_piece(memory) {
            return None;
        }
        let key = key(memory, plan, program);
        self.found.iter().find(|piece| piece.key == key).map(|piece| piece.name.clone())
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.found.len()
    }
}

/// Calls `each` with what an expression reads, itself and on the way to that.
fn each_read<'c>(expression: &'c Checked, each: &mut dyn FnMut(&'c Checked)) {
    if is_piece(expression) {
        each(expression);
    }
    for part in expression.children() {
        each_read(part, each);
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
fn key(read: &Checked, plan: &ProbePlan, program: Option<usize>) -> String {
    let value = value(read, &mut Names { plan, program, pieces: None, saved: None });
    format!("{} {value}", c_type(&read.ty))
}
