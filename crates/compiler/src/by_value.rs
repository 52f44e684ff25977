//! What structs consist of that are passed by value, as far as a calling convention asks: by debug information, else by
//! the members that the probeset describes.

use super::abi::Passed;
use super::relocate::Relocator;
use profinfer_binary::TargetType;
use profinfer_diagnostics::Span;
use profinfer_probeset::path::{Type, fixed_size};

/// Larger structs are in memory, or pointed to: four numbers of 16 bytes.
pub(super) const LARGEST: u64 = 64;
/// Structs in structs that are followed.
const DEEPEST: usize = 4;

impl Relocator<'_> {
    /// A view that is passed by value; `None` where its size is not available.
    pub(super) fn passed(&self, view: &str, span: &Span) -> Option<Passed> {
        let mut passed = Passed { size: self.size_of(view)?, ..Passed::default() };
        if passed.size <= LARGEST {
            passed.is_complete = self.layout(view).is_some();
            self.parts(view, 0, DEEPEST, span, &mut passed);
        }
        Some(passed)
    }

    fn parts(&self, view: &str, start: u64, depth: usize, span: &Span, into: &mut Passed) {
        if let Some((layout, _)) = self.layout(view) {
            for (offset, ty) in layout.members.values() {
                self.part_of_target(ty, start.saturating_add(*offset), depth, span, into);
            }
            return;
        }
        let members = self.declared(view).into_iter().flat_map(|declared| &declared.members);
        for (name, member) in members {
            if let Ok((offset, _)) = self.offset(view, name, span) {
                self.part_of_view(&member.ty.value, start.saturating_add(offset), depth, span, into);
            }
        }
    }

    fn part_of_target(&self, ty: &TargetType, offset: u64, depth: usize, span: &Span, into: &mut Passed) {
        let other = match ty {
            TargetType::Float { size } => return into.add(offset, *size, true),
            TargetType::Array(of, Some(count)) => {
                for start in starts(offset, bytes(of), *count) {
                    self.part_of_target(of, start, depth, span, into);
                }
                return;
            }
            // Others are not in lock files, and so would be something else there.
            TargetType::Struct(name, _) if depth > 0 && self.declared(name).is_some() => {
                return self.parts(name, offset, depth - 1, span, into);
            }
            other => bytes(other),
        };
        into.add(offset, other, false);
    }

    fn part_of_view(&self, ty: &Type, offset: u64, depth: usize, span: &Span, into: &mut Passed) {
        match ty {
            Type::Float { size } => into.add(offset, u64::from(*size), true),
            Type::Array(of, count) => {
                let size = if let Type::View(view) = &**of { self.size_of(view) } else { fixed_size(of) };
                for start in starts(offset, size.unwrap_or(LARGEST), *count) {
                    self.part_of_view(of, start, depth, span, into);
                }
            }
            Type::View(view) if depth > 0 => self.parts(view, offset, depth - 1, span, into),
            other => into.add(offset, fixed_size(other).unwrap_or(LARGEST), false),
        }
    }
}

/// Where the elements of an array begin.
fn starts(offset: u64, size: u64, count: u64) -> impl Iterator<Item = u64> {
    let count = if size == 0 { 0 } else { count };
    let starts = (0..count).map(move |at| offset.saturating_add(at.saturating_mul(size)));
    starts.take_while(|start| *start < LARGEST)
}

/// Whether a lock file needs all members of a struct with one of this type.
pub(super) fn may_have_floats(ty: &TargetType) -> bool {
    match ty {
        TargetType::Float { .. } | TargetType::Struct(..) => true,
        TargetType::Array(of, _) => may_have_floats(of),
        _ => false,
    }
}

/// Bytes of a type; of one that is not understood as many as there may be.
fn bytes(ty: &TargetType) -> u64 {
    match ty {
        TargetType::Int { size, .. }
        | TargetType::Float { size }
        | TargetType::Enum(_, size)
        | TargetType::Struct(_, size)
        | TargetType::Bits { size, .. } => *size,
        TargetType::Bool => 1,
        TargetType::Pointer(_) => 8,
        TargetType::Array(of, count) => bytes(of).saturating_mul(count.unwrap_or(0)),
        TargetType::Other(_) => LARGEST,
    }
}

#[cfg(test)]
mod tests {
    use crate::{PlacementOptions, Selection, place, plan};
    use profinfer_binary::{Arch, FakeTarget, TargetType};
    use profinfer_probeset::{Library, load_text};

    /// The register of an argument behind a struct.
    fn register_of(text: &str, target: FakeTarget) -> u64 {
        let text = format!(
            "profinfer: 1
engine: toy
modules: {{ toy: libtoy.so }}
types: {{ {text} }}
probes:
  step: {{ at: 'toy:run(vec v, i32 n)', role: step, fields: {{ tokens: n }} }}
"
        );
        let probeset = load_text("toy.yaml", &text, &Library::new(&[])).unwrap().0;
        let plan = plan(&probeset, &Selection::default(), Arch::X86_64).unwrap().0;
        let placement = place(&plan, &probeset, &target, PlacementOptions { lock: None, cache: None }).0;
        placement.values.iter().find(|value| value.symbol.contains("argument")).unwrap().value >> 8 & 0xff
    }

    #[test]
    fn structs_consist_of_what_debug_information_or_the_probeset_has() {
        let (rdi, rsi, rdx) = (5, 4, 1);
        let target = || FakeTarget::new(Arch::X86_64).file("libtoy.so").function("run", 0x1000, &[0x55, 0x5d, 0xc3]);
        let double = TargetType::Float { size: 8 };
        let member = [("x", 0, double.clone()), ("y", 8, double.clone())];
        assert_eq!(register_of("vec: { x: f64 }", target().layout("vec", 16, &member)), rdi);
        let array = [("x", 0, TargetType::Array(Box::new(double), Some(2)))];
        assert_eq!(register_of("vec: { x: 'f64[2]' }", target().layout("vec", 16, &array)), rdi);
        assert_eq!(register_of("vec: { size: 16, x: f64 @ 0, y: f64 @ 8 }", target()), rdi);
        assert_eq!(
            register_of("vec: { size: 16, at: inner @ 0 }, inner: { size: 16, x: 'f64[2] @ 0' }", target()),
            rdi
        );
        // What else it has is not described.
        assert_eq!(register_of("vec: { size: 16, x: f64 @ 0 }", target()), rsi);
        assert_eq!(register_of("vec: { size: 16 }", target()), rdx);
    }
}
