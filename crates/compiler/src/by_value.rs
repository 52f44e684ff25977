//! What structs consist of that are passed by value, as far as a calling convention asks: by debug information, else by
//! the members that the probeset describes.

use super::abi::{PartKind, Passed};
use super::model::Provenance;
use super::relocate::Relocator;
use profinfer_binary::TargetType;
use profinfer_diagnostics::Span;
use profinfer_probeset::path::{Type, fixed_size};

/// Larger structs are in memory, or pointed to: four numbers of 16 bytes.
pub(super) const LARGEST: u64 = 64;
/// Structs in structs that are followed.
const DEEPEST: usize = 4;
/// Parts of a struct that are looked at; one of [`LARGEST`] bytes has fewer, unless it is forged.
const MOST_PARTS: usize = 256;

impl Relocator<'_> {
    /// A view that is passed by value; `None` where its size is not available.
    pub(super) fn passed(&self, view: &str, span: &Span) -> Option<Passed> {
        let mut passed = Passed { size: self.size_of(view)?, ..Passed::default() };
        if passed.size > LARGEST {
            return Some(passed);
        }
        passed.is_complete = self.layout(view).is_some();
        let size = passed.size;
        let mut walk = Walk { relocator: self, span, within: Vec::new(), left: MOST_PARTS, passed };
        walk.parts(view, 0, size);
        Some(walk.passed)
    }
}

/// The parts of one struct.
struct Walk<'r, 'a> {
    relocator: &'r Relocator<'a>,
    span: &'r Span,
    /// The structs that are being looked at.
    within: Vec<String>,
    /// Parts that may still be looked at.
    left: usize,
    passed: Passed,
}

impl Walk<'_, '_> {
    fn add(&mut self, offset: u64, size: u64, kind: PartKind) {
        let kind = if self.is_spent() { PartKind::Unknown } else { kind };
        if self.passed.parts.len() <= MOST_PARTS {
            self.passed.add(offset, size, kind);
        }
    }

    /// Whether there were too many parts; each that is looked at counts, whatever it is.
    fn is_spent(&mut self) -> bool {
        self.left = self.left.saturating_sub(1);
        self.left == 0
    }

    fn parts(&mut self, view: &str, start: u64, size: u64) {
        let is_in_itself = self.within.iter().any(|name| name == view);
        if is_in_itself || self.within.len() > DEEPEST || self.is_spent() {
            return self.add(start, size, PartKind::Unknown);
        }
        self.within.push(view.to_owned());
        self.parts_within(view, start, size);
        self.within.pop();
    }

    fn parts_within(&mut self, view: &str, start: u64, size: u64) {
        if let Some((layout, from)) = self.relocator.layout(view) {
            if layout.size != size {
                // Another struct of its name.
                return self.add(start, size, PartKind::Unknown);
            }
            // A lock file has all members of those that may have such numbers, of others what is asked for.
            if from == Provenance::Lock && !layout.members.values().any(|(_, ty)| may_have_floats(ty)) {
                return self.add(start, size, PartKind::Number);
            }
            for (offset, ty) in layout.members.values() {
                if self.left == 0 {
                    break;
                }
                self.part_of_target(ty, start.saturating_add(*offset));
            }
            return;
        }
        let Some(declared) = self.relocator.declared(view).filter(|_| !self.passed.is_complete) else {
            return self.add(start, size, PartKind::Unknown);
        };
        for (name, member) in &declared.members {
            if let Ok((offset, _)) = self.relocator.offset(view, name, self.span) {
                self.part_of_view(&member.ty.value, start.saturating_add(offset));
            }
        }
    }

    fn part_of_target(&mut self, ty: &TargetType, offset: u64) {
        match ty {
            TargetType::Float { size } => self.add(offset, *size, PartKind::Float),
            TargetType::Array(of, Some(count)) => {
                for start in starts(offset, bytes(of), *count) {
                    self.part_of_target(of, start);
                }
            }
            TargetType::Struct(name, size) => self.parts(name, offset, *size),
            TargetType::Other(_) => self.add(offset, LARGEST, PartKind::Unknown),
            other => self.add(offset, bytes(other), PartKind::Number),
        }
    }

    fn part_of_view(&mut self, ty: &Type, offset: u64) {
        match ty {
            Type::Float { size } => self.add(offset, u64::from(*size), PartKind::Float),
            Type::Array(of, count) => {
                let size = if let Type::View(view) = &**of { self.relocator.size_of(view) } else { fixed_size(of) };
                for start in starts(offset, size.unwrap_or(LARGEST), *count) {
                    self.part_of_view(of, start);
                }
            }
            Type::View(view) => {
                let size = self.relocator.size_of(view).unwrap_or(LARGEST);
                self.parts(view, offset, size);
            }
            other => self.add(offset, fixed_size(other).unwrap_or(LARGEST), PartKind::Number),
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
        TargetType::Float { .. } | TargetType::Struct(..) | TargetType::Other(_) => true,
        TargetType::Array(of, _) => may_have_floats(of),
        _ => false,
    }
}

/// The struct that a member is, or its elements.
pub(super) fn struct_in(ty: &TargetType) -> Option<&str> {
    match ty {
        TargetType::Struct(name, _) => Some(name),
        TargetType::Array(of, _) => struct_in(of),
        _ => None,
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
    use profinfer_diagnostics::Code;
    use profinfer_probeset::{Library, load_text};

    /// The register of an argument behind a struct.
    fn register_of(text: &str, target: FakeTarget) -> u64 {
        let probeset = load_text("toy.yaml", &text_with(text), &Library::new(&[])).unwrap().0;
        let plan = plan(&probeset, &Selection::default(), Arch::X86_64).unwrap().0;
        let placement = place(&plan, &probeset, &target, PlacementOptions { lock: None, cache: None }).0;
        placement.values.iter().find(|value| value.symbol.contains("argument")).unwrap().value >> 8 & 0xff
    }

    fn text_with(types: &str) -> String {
        format!(
            "profinfer: 1
engine: toy
modules: {{ toy: libtoy.so }}
types: {{ {types} }}
probes:
  step: {{ at: 'toy:run(vec v, i32 n)', role: step, fields: {{ tokens: n }} }}
"
        )
    }

    /// Why it is not read.
    fn problem_of(target: FakeTarget) -> Option<Code> {
        let probeset = load_text("toy.yaml", &text_with("vec: {}"), &Library::new(&[])).unwrap().0;
        let plan = plan(&probeset, &Selection::default(), Arch::X86_64).unwrap().0;
        let problems = place(&plan, &probeset, &target, PlacementOptions { lock: None, cache: None }).1;
        problems.0.first().map(|problem| problem.code)
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

    #[test]
    fn structs_in_structs_are_followed_where_the_probeset_has_none() {
        let target = || FakeTarget::new(Arch::X86_64).file("libtoy.so").function("run", 0x1000, &[0x55, 0x5d, 0xc3]);
        let double = TargetType::Float { size: 8 };
        let inner = || TargetType::Struct("inner".to_owned(), 16);
        let target = target().layout("vec", 16, &[("a", 0, inner())]);
        assert_eq!(problem_of(target.clone()), Some(Code::ArgumentPlace));
        let members = [("x", 0, double.clone()), ("y", 8, double)];
        assert_eq!(register_of("vec: {}", target.clone().layout("inner", 16, &members)), 5);
        // Another struct of its name.
        assert_eq!(problem_of(target.layout("inner", 24, &members)), Some(Code::ArgumentPlace));
    }

    #[test]
    fn a_struct_of_parts_without_a_class_is_refused() {
        let target = || FakeTarget::new(Arch::X86_64).file("libtoy.so").function("run", 0x1000, &[0x55, 0x5d, 0xc3]);
        let complex = TargetType::Other("complex float".to_owned());
        let word = TargetType::Int { size: 8, signed: true };
        let target_of = |members: &[(&str, u64, TargetType)]| target().layout("vec", 16, members);
        assert_eq!(problem_of(target_of(&[("c", 0, complex), ("pad", 8, word)])), Some(Code::ArgumentPlace));
        // A number that a member of the same name hides.
        let hidden = target().layout("vec", 8, &[("x", 4, TargetType::Float { size: 4 })]);
        assert_eq!(problem_of(hidden), Some(Code::ArgumentPlace));
        // One within itself, many times over.
        let names: Vec<String> = (0..40).map(|number| format!("m{number}")).collect();
        let itself = TargetType::Struct("vec".to_owned(), 16);
        let members: Vec<_> = names.iter().map(|name| (name.as_str(), 0, itself.clone())).collect();
        assert_eq!(problem_of(target_of(&members)), Some(Code::ArgumentPlace));
        // Two that are within each other, whose members are many.
        let other = TargetType::Struct("other".to_owned(), 16);
        let others: Vec<_> = names.iter().map(|name| (name.as_str(), 0, other.clone())).collect();
        let target = target_of(&others).layout("other", 16, &members);
        assert_eq!(problem_of(target), Some(Code::ArgumentPlace));
    }
}
