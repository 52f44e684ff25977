//! The stretch of an object's memory that its description reads at once: from the first member to the last.

use super::model::{ObjectPlan, Provenance};
use super::relocate::Relocator;
use profinfer_diagnostics::{Code, Diagnostic, Span};
use profinfer_probeset::path::{Base, Memory, Node, Term, Type, fixed_size};
use profinfer_schema::bpf::OBJECT_BLOCK_BYTES;

/// Bytes of an object that one description may span; the same number stands in `bpf-runtime/thread.h`.
const MAX_BLOCK: u64 = OBJECT_BLOCK_BYTES;

impl Relocator<'_> {
    /// First byte, number of bytes and provenance of what a description reads of its object at once.
    pub(super) fn block(&self, object: &str, span: &Span) -> Result<(u64, u64, Provenance), Diagnostic> {
        let object = self.plan.objects.iter().find(|o| o.name == object);
        let object = object.ok_or_else(|| Diagnostic::error(Code::Bug, "a block of an unknown object").at(span))?;
        let (mut start, mut end, mut provenance) = (u64::MAX, 0, Provenance::Dwarf);
        for (offset, size, from) in self.pieces(object, span)? {
            start = start.min(offset);
            end = end.max(offset.saturating_add(size));
            // What is by hand anywhere is by hand.
            if from != Provenance::Dwarf && provenance != Provenance::ByHand {
                provenance = from;
            }
        }
        // Whole words are copied from whole words.
        let start = if start == u64::MAX { 0 } else { start & !7 };
        let length = end.saturating_sub(start).max(1);
        if length > MAX_BLOCK {
            let message = format!("the members of `{}` lie {length} bytes apart; {MAX_BLOCK} are read", object.name);
            return Err(Diagnostic::error(Code::OutOfRange, message).at(span).hint("leave out the farthest member"));
        }
        Ok((start, length, provenance))
    }

    /// Offset and size of each piece of the object itself that its fields read.
    fn pieces(&self, object: &ObjectPlan, span: &Span) -> Result<Vec<(u64, u64, Provenance)>, Diagnostic> {
        let mut memories: Vec<(Memory, Type)> = Vec::new();
        for field in &object.fields {
            field.value.visit(&mut |part| {
                if let Node::Memory(memory @ Memory { base: Base::Object, .. }) = &part.node {
                    memories.push((memory.clone(), part.ty.clone()));
                }
            });
        }
        // A member that the target lacks is not read.
        let piece = |(memory, ty): &(Memory, Type)| match self.piece(memory, ty, span) {
            Err(problem) if matches!(problem.code, Code::LayoutUnknown | Code::LayoutNotChosen) => None,
            piece => Some(piece),
        };
        memories.iter().filter_map(piece).collect()
    }

    fn piece(&self, memory: &Memory, ty: &Type, span: &Span) -> Result<(u64, u64, Provenance), Diagnostic> {
        let (mut offset, mut from) = (0_u64, Provenance::Dwarf);
        // Between the first element that may be read and the last, over all arrays that are in one another.
        let mut spread = 0_u64;
        for term in &memory.terms {
            match term {
                Term::Member { view, member } => {
                    let (at, provenance) = self.offset(view, member, span)?;
                    offset = offset.saturating_add(at);
                    if matches!(provenance, Provenance::ByHand | Provenance::Checked) {
                        from = provenance;
                    }
                }
                Term::Element { of, index, bound } => match (&index.node, bound) {
                    (Node::Int(at), _) => {
                        offset = offset.saturating_add(self.bytes(of).saturating_mul(at.unsigned_abs()));
                    }
                    // Any element of the array may be read.
                    (_, Some(length)) => {
                        let others = self.bytes(of).saturating_mul(length.saturating_sub(1));
                        spread = spread.saturating_add(others);
                    }
                    (_, None) => {}
                },
            }
        }
        Ok((offset, self.bytes(ty).saturating_add(spread), from))
    }

    fn bytes(&self, ty: &Type) -> u64 {
        match ty {
            Type::View(view) => self.size_of(view).unwrap_or(0),
            Type::Array(of, n) => self.bytes(of).saturating_mul(*n),
            ty => ty.library_size().or_else(|| fixed_size(ty)).unwrap_or(0),
        }
    }
}
