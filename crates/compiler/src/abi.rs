//! Where a function's arguments are at its first instruction: System V x86-64 and AAPCS64.
//! Sources: "System V Application Binary Interface, AMD64", 3.2.3; "Procedure Call Standard for the Arm 64-bit
//! Architecture", 6.8.2.

use profinfer_binary::{Arch, ArgumentLocation, Location, StaticArgument};
use profinfer_probeset::path::{Signature, Type};
use profinfer_schema::bpf::{ArgumentCode, argument_bits as bits};
use std::ops::Range;

/// A place, packed as [`profinfer_schema::bpf::ArgumentCode`] and [`profinfer_schema::bpf::argument_bits`] describe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ArgumentPlace(pub(super) u64);

const IN_REGISTER: u64 = ArgumentCode::InRegister as u64;
const ON_STACK: u64 = ArgumentCode::OnStack as u64;
const STRUCT_ON_STACK: u64 = ArgumentCode::StructOnStack as u64;
const STRUCT_BY_REFERENCE: u64 = ArgumentCode::StructByReference as u64;
const STRUCT_IN_REGISTERS: u64 = ArgumentCode::StructInRegisters as u64;
const IN_MEMORY: u64 = ArgumentCode::InMemory as u64;
const SUM: u64 = ArgumentCode::Sum as u64;
const CONSTANT: u64 = ArgumentCode::Constant as u64;
const STRUCT_IN_MEMORY: u64 = ArgumentCode::StructInMemory as u64;
const INDEXED: u64 = ArgumentCode::Indexed as u64;
/// Of the bits from 24 on: a number of bytes is given, by its logarithm; it has a sign.
const SIZED: u64 = 1 << bits::SIZED;
const SIGNED: u64 = 1 << bits::SIGNED;

impl ArgumentPlace {
    fn new(kind: u64, register: u64, second: u64, offset: u64) -> Self {
        Self(kind | register << bits::REGISTER | second << bits::SECOND | offset << bits::OFFSET)
    }

    /// Where debug information places an argument of an inlined copy; `None` where a program cannot read that.
    pub(super) fn inlined(arch: Arch, location: Location, is_struct: bool) -> Option<Self> {
        let general = match arch {
            Arch::X86_64 => 0..16,
            Arch::Aarch64 => 0..32,
        };
        let (kind, register, offset) = match (location, is_struct) {
            (Location::Register(register), false) => (IN_REGISTER, register, 0),
            (Location::Memory { register, offset }, false) => (IN_MEMORY, register, offset),
            (Location::Memory { register, offset }, true) => (STRUCT_IN_MEMORY, register, offset),
            (Location::Sum { register, offset }, false) => (SUM, register, offset),
            (Location::Constant(constant), false) => (CONSTANT, 0, constant),
            // A struct in a register has been taken apart, or may have.
            (_, true) => return None,
        };
        let offset = i32::try_from(offset).ok()?.cast_unsigned();
        general.contains(&register).then(|| Self::new(kind, register.into(), 0, offset.into()))
    }

    /// Where a static probe's note places an argument; `None` where a program cannot read that.
    pub(super) fn of_static(arch: Arch, argument: &StaticArgument) -> Option<Self> {
        let general = match arch {
            Arch::X86_64 => 0..16,
            Arch::Aarch64 => 0..32,
        };
        let (kind, register, second, scale, offset) = match argument.place {
            ArgumentLocation::Register(register) => (IN_REGISTER, register, 0, 0, 0),
            ArgumentLocation::Constant(constant) => (CONSTANT, 0, 0, 0, constant),
            ArgumentLocation::Memory { register, offset } => (IN_MEMORY, register, 0, 0, offset),
            ArgumentLocation::Indexed { register, index, scale, offset } => (INDEXED, register, index, scale, offset),
            ArgumentLocation::Unreadable(_) => return None,
        };
        let offset = i32::try_from(offset).ok()?.cast_unsigned();
        if !general.contains(&register) || !general.contains(&second) || scale > 3 {
            return None;
        }
        let size = match argument.size {
            1 => 0,
            2 => 1,
            4 => 2,
            _ => 3,
        };
        let how =
            SIZED | size << bits::LOG_SIZE | u64::from(scale) << bits::SHIFT | if argument.signed { SIGNED } else { 0 };
        Some(Self(Self::new(kind, register.into(), second.into(), offset.into()).0 | how))
    }

    /// Whether it is read from the stack.
    pub(super) fn on_stack(self) -> bool {
        matches!(self.0 & 0xff, ON_STACK | STRUCT_ON_STACK)
    }

    /// Whether it is read by way of a register's value, which may change before what is read does.
    pub(super) fn is_in_memory(self) -> bool {
        matches!(self.0 & 0xff, IN_MEMORY | STRUCT_IN_MEMORY | SUM | INDEXED)
    }

    /// The registers it is read from, as DWARF numbers them.
    pub(super) fn registers(self) -> Vec<u16> {
        let (first, second) = ((self.0 >> 8 & 0xff) as u16, (self.0 >> 16 & 0xff) as u16);
        match self.0 & 0xff {
            IN_REGISTER | STRUCT_BY_REFERENCE => vec![first],
            STRUCT_IN_REGISTERS => vec![first, second],
            _ => Vec::new(),
        }
    }
}

/// Where a call has an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArgumentIn {
    /// In a register, as DWARF numbers it.
    Register(u8),
    /// On the stack: bytes from its pointer at the function's first instruction.
    Stack(u32),
    /// A struct, so on the stack.
    StackStruct(u32),
    /// A struct, where a register points to.
    Reference(u8),
    /// A struct of up to 16 bytes, in these registers.
    Registers(u8, u8),
}

/// Unpacks the value of a [`super::RelocationKind::Argument`]; `None` for places that only inlined copies have.
pub fn argument_in(packed: u64) -> Option<ArgumentIn> {
    let (first, second, offset) = ((packed >> 8) as u8, (packed >> 16) as u8, (packed >> 32) as u32);
    Some(match packed & 0xff {
        IN_REGISTER => ArgumentIn::Register(first),
        ON_STACK => ArgumentIn::Stack(offset),
        STRUCT_ON_STACK => ArgumentIn::StackStruct(offset),
        STRUCT_BY_REFERENCE => ArgumentIn::Reference(first),
        STRUCT_IN_REGISTERS => ArgumentIn::Registers(first, second),
        _ => return None,
    })
}

/// A place in words: `in rsi`, `on the stack at +8`. `packed` is as in the generated program.
pub(super) fn place_text(arch: Arch, packed: u64) -> String {
    let register = |shift: u32| register_name(arch, (packed >> shift & 0xff) as u8);
    let (first, second, offset) = (register(8), register(16), (packed >> 32) as u32);
    let signed = offset.cast_signed();
    match packed & 0xff {
        IN_REGISTER => format!("in {first}"),
        ON_STACK | STRUCT_ON_STACK => format!("on the stack, {offset} bytes above its pointer at the entry"),
        STRUCT_BY_REFERENCE => format!("where {first} points to"),
        STRUCT_IN_REGISTERS if first == second => format!("in {first}"),
        STRUCT_IN_REGISTERS => format!("in {first} and {second}"),
        IN_MEMORY | STRUCT_IN_MEMORY => format!("in memory at {first} {signed:+}"),
        SUM => format!("{first} {signed:+}"),
        CONSTANT => format!("always {signed}"),
        _ => "unknown".to_owned(),
    }
}

/// A general register's name, by its number in DWARF.
fn register_name(arch: Arch, number: u8) -> String {
    const X86_64: [&str; 8] = ["rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp"];
    match (arch, X86_64.get(usize::from(number))) {
        (Arch::X86_64, Some(name)) => (*name).to_owned(),
        (Arch::X86_64, None) => format!("r{number}"),
        (Arch::Aarch64, _) if number == 31 => "sp".to_owned(),
        (Arch::Aarch64, _) => format!("x{number}"),
    }
}

/// Why an argument's place cannot be determined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NoPlace {
    /// The size of this view, passed by value, is in neither the target nor the spec.
    SizeUnknown(String),
    /// What this view, passed by value, consists of is not described so far that its registers are certain.
    Unclassified(String),
    /// It is in a vector register, which the kernel does not show.
    VectorRegister,
}

/// Integer argument registers, as DWARF numbers them: rdi, rsi, rdx, rcx, r8, r9.
const X86_64_REGISTERS: &[u64] = &[5, 4, 1, 2, 8, 9];
const AARCH64_REGISTERS: &[u64] = &[0, 1, 2, 3, 4, 5, 6, 7];
/// Has the address where a returned class goes.
const AARCH64_RESULT: u64 = 8;
/// Vector registers for arguments, in both.
const VECTOR_REGISTERS: usize = 8;
/// Structs above this size are passed in memory, in both.
const LARGEST_IN_REGISTERS: u64 = 16;

/// A struct that is passed by value.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Passed {
    /// Bytes.
    pub(super) size: u64,
    /// The members that are described, those of members and elements among them.
    pub(super) parts: Vec<Part>,
    /// They are of the target: there are no others, but for those that are hidden by others of their name.
    pub(super) is_complete: bool,
}

/// A part of a struct that is passed by value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    /// Bytes from the struct's start.
    pub(super) offset: u64,
    /// Bytes.
    pub(super) size: u64,
    /// What it is.
    pub(super) kind: PartKind,
}

/// What a calling convention asks about a part of a struct.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PartKind {
    /// A floating-point number.
    Float,
    /// Another number, or a pointer.
    Number,
    /// Anything.
    Unknown,
}

impl Part {
    fn end(&self) -> u64 {
        self.offset.saturating_add(self.size)
    }
}

/// What a struct consists of is not described.
#[derive(Debug)]
struct Unclassified;

impl Passed {
    pub(super) fn add(&mut self, offset: u64, size: u64, kind: PartKind) {
        self.parts.push(Part { offset, size, kind });
    }

    fn are_all(&self, kind: PartKind) -> bool {
        self.parts.iter().all(|part| part.kind == kind)
    }

    /// How many of its pieces of eight bytes are of floating-point numbers only.
    fn float_words(&self) -> Result<usize, Unclassified> {
        let gaps = self.gaps();
        let mut floats = 0;
        for start in (0..self.size).step_by(8) {
            floats += usize::from(self.is_float_word(start, &gaps)?);
        }
        Ok(floats)
    }

    fn is_float_word(&self, start: u64, gaps: &[Range<u64>]) -> Result<bool, Unclassified> {
        let end = self.size.min(start + 8);
        let within = |part: &&Part| part.offset < end && part.end() > start;
        let parts: Vec<&Part> = self.parts.iter().filter(within).collect();
        // One number in it decides, whatever else there is.
        if parts.iter().any(|part| part.kind == PartKind::Number) {
            return Ok(false);
        }
        let is_unknown = parts.iter().any(|part| part.kind == PartKind::Unknown);
        if is_unknown || self.is_complete && gaps.iter().any(|gap| gap.start < end && gap.end > start) {
            return Err(Unclassified);
        }
        // By hand, what is not described has no floating-point numbers.
        let described = parts.iter().fold(0_u64, |sum, part| sum.saturating_add(part.size));
        Ok(self.is_complete && !parts.is_empty() || described >= end - start)
    }

    /// Where it has no part although none is aligned to begin behind that.
    fn gaps(&self) -> Vec<Range<u64>> {
        let mut parts = self.parts.clone();
        parts.sort_unstable_by_key(|part| part.offset);
        let align = |part: &Part| part.size.clamp(1, 16).next_power_of_two();
        let largest = parts.iter().map(align).max().unwrap_or(1);
        let mut gaps = Vec::new();
        let mut end = 0_u64;
        let ends = parts.iter().map(|part| (part.offset, part.end(), align(part)));
        for (next, behind, align) in ends.chain([(self.size, self.size, largest)]) {
            if end.checked_next_multiple_of(align).is_none_or(|aligned| aligned < next) {
                gaps.push(end..next);
            }
            end = end.max(behind);
        }
        gaps
    }

    /// The number of its members where they are one to four floating-point numbers of one type.
    fn homogeneous_floats(&self) -> Result<Option<usize>, Unclassified> {
        let may_be = |size: u64| size > 0 && self.size.is_multiple_of(size) && (1..=4).contains(&(self.size / size));
        let first = self.parts.iter().find(|part| part.kind == PartKind::Float).map(|part| part.size);
        let is_float = |part: &Part| part.kind == PartKind::Float && Some(part.size) == first;
        if self.parts.iter().any(|part| part.kind != PartKind::Unknown && !is_float(part)) {
            return Ok(None);
        }
        if self.are_all(PartKind::Float)
            && let Some(size) = first
            && may_be(size)
            && size.saturating_mul(self.parts.len() as u64) == self.size
        {
            return Ok(Some(self.parts.len()));
        }
        // Others may fill what is not described; by hand, there are none.
        let is_open = !self.are_all(PartKind::Float) || self.is_complete && !self.gaps().is_empty();
        let may_be_floats = first.map_or_else(|| [2, 4, 8, 16].into_iter().any(may_be), may_be);
        if is_open && may_be_floats { Err(Unclassified) } else { Ok(None) }
    }

    fn is_in_memory(&self) -> bool {
        // `long double` on x86-64.
        self.size > LARGEST_IN_REGISTERS || self.parts.iter().any(|part| part.kind == PartKind::Float && part.size > 8)
    }
}

/// The place of the argument at `index`, or of the one that [`hidden_result`] numbers. `passed` describes a view.
///
/// # Errors
/// See [`NoPlace`]; an unknown size matters from the first argument that has it.
pub(super) fn argument_place(
    arch: Arch,
    signature: &Signature,
    index: usize,
    passed: &dyn Fn(&str) -> Option<Passed>,
) -> Result<ArgumentPlace, NoPlace> {
    let passed = |view: &str| passed(view).ok_or_else(|| NoPlace::SizeUnknown(view.to_owned()));
    if hidden_result(arch, signature) == Some(index) {
        return Ok(ArgumentPlace::new(IN_REGISTER, AARCH64_RESULT, 0, 0));
    }
    let mut registers = match arch {
        Arch::X86_64 => X86_64_REGISTERS.iter().copied(),
        Arch::Aarch64 => AARCH64_REGISTERS.iter().copied(),
    };
    // A class returned in memory: x86-64 passes its address as a hidden first argument, AAPCS64 in x8.
    if arch == Arch::X86_64 && signature.in_memory {
        registers.next();
    } else if let (Arch::X86_64, Some(returned)) = (arch, signature.returns.as_ref().map(|ty| &ty.value)) {
        let in_memory = match returned {
            Type::View(view) => passed(view)?.size > LARGEST_IN_REGISTERS,
            // Classes with destructors of their own always are.
            ty => ty.is_passed_by_address(),
        };
        if in_memory {
            registers.next();
        }
    }
    let mut vectors = 0;
    // Above the return address, where the architecture stores it on the stack.
    let mut stack = if arch == Arch::X86_64 { 8 } else { 0 };
    let mut place = ArgumentPlace(0);
    for (position, param) in signature.params.iter().enumerate().take(index + 1) {
        place = match &param.ty.value {
            Type::Float { .. } => {
                vectors += 1;
                if vectors > VECTOR_REGISTERS {
                    stack += 8;
                }
                if position == index {
                    return Err(NoPlace::VectorRegister);
                }
                continue;
            }
            Type::View(view) => {
                let passed = passed(view)?;
                let in_vectors = in_vectors(arch, &passed, &mut registers, &mut vectors);
                match in_vectors.map_err(|Unclassified| NoPlace::Unclassified(view.clone()))? {
                    Vectors::None => struct_place(arch, passed.size, &mut registers, &mut stack),
                    Vectors::Full => ArgumentPlace::new(STRUCT_ON_STACK, 0, 0, take(&mut stack, passed.size)),
                    Vectors::Taken if position == index => return Err(NoPlace::VectorRegister),
                    Vectors::Taken => continue,
                }
            }
            _ => match registers.next() {
                Some(register) => ArgumentPlace::new(IN_REGISTER, register, 0, 0),
                None => ArgumentPlace::new(ON_STACK, 0, 0, take(&mut stack, 8)),
            },
        };
    }
    Ok(place)
}

/// The number of the argument that has the address of what a function returns, if it does not give it back. A class is
/// where the caller put it: x86-64 gives that address back, AAPCS64 does not.
pub(super) fn hidden_result(arch: Arch, signature: &Signature) -> Option<usize> {
    let is_class = signature.returns.as_ref().is_some_and(|ty| signature.in_memory || ty.value.is_passed_by_address());
    (arch == Arch::Aarch64 && is_class).then_some(signature.params.len())
}

fn take(stack: &mut u64, bytes: u64) -> u64 {
    let at = *stack;
    *stack += bytes.next_multiple_of(8);
    at
}

/// What a struct has of the vector registers.
enum Vectors {
    /// It is not for them.
    None,
    /// It is in memory: they, or the others that it needs beside them, do not suffice, or it is for none.
    Full,
    /// It is in them, or partly.
    Taken,
}

fn in_vectors(
    arch: Arch,
    passed: &Passed,
    registers: &mut (impl Iterator<Item = u64> + Clone),
    vectors: &mut usize,
) -> Result<Vectors, Unclassified> {
    let (floats, others) = match arch {
        Arch::X86_64 if passed.is_in_memory() => return Ok(Vectors::Full),
        Arch::X86_64 => {
            let floats = passed.float_words()?;
            (floats, usize::try_from(passed.size.div_ceil(8)).unwrap_or_default() - floats)
        }
        Arch::Aarch64 => (passed.homogeneous_floats()?.unwrap_or(0), 0),
    };
    if floats == 0 {
        return Ok(Vectors::None);
    }
    if *vectors + floats > VECTOR_REGISTERS || registers.clone().count() < others {
        // AAPCS64 gives no later argument one that is left.
        if arch == Arch::Aarch64 {
            *vectors = VECTOR_REGISTERS;
        }
        return Ok(Vectors::Full);
    }
    *vectors += floats;
    registers.by_ref().take(others).for_each(drop);
    Ok(Vectors::Taken)
}

fn struct_place(
    arch: Arch,
    size: u64,
    registers: &mut (impl Iterator<Item = u64> + Clone),
    stack: &mut u64,
) -> ArgumentPlace {
    // On arm64; on x86-64 it would be in memory.
    if size > LARGEST_IN_REGISTERS {
        return match registers.next() {
            Some(register) => ArgumentPlace::new(STRUCT_BY_REFERENCE, register, 0, 0),
            None => ArgumentPlace::new(ON_STACK, 0, 0, take(stack, 8)),
        };
    }
    // All of it in registers, or all of it on the stack.
    let mut ahead = registers.clone();
    let second = if size > 8 { 2 } else { 1 };
    let taken: Vec<u64> = ahead.by_ref().take(second).collect();
    if taken.len() < second {
        // AAPCS64 gives no later argument one that is left.
        if arch == Arch::Aarch64 {
            registers.by_ref().for_each(drop);
        }
        return ArgumentPlace::new(STRUCT_ON_STACK, 0, 0, take(stack, size));
    }
    *registers = ahead;
    ArgumentPlace::new(STRUCT_IN_REGISTERS, taken[0], taken.get(1).copied().unwrap_or(taken[0]), 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use profinfer_diagnostics::{Source, Span};
    use profinfer_probeset::path::{Place, parse_attach};
    use std::sync::Arc;

    fn place(arch: Arch, text: &str, index: usize) -> Result<ArgumentPlace, NoPlace> {
        let span = Span::new(&Arc::new(Source { name: "t".into(), text: text.into() }), 0..text.len());
        let Place::Function { signature, .. } = parse_attach(text, &span).unwrap().place else { panic!() };
        let float = |offset, size| Part { offset, size, kind: PartKind::Float };
        let number = |offset, size| Part { offset, size, kind: PartKind::Number };
        let unknown = |offset, size| Part { offset, size, kind: PartKind::Unknown };
        let described = |size, parts: &[Part]| Some(Passed { size, parts: parts.to_vec(), is_complete: false });
        let passed = |view: &str| match view {
            "batch" => described(56, &[]),
            "pair" => described(16, &[]),
            "tiny" => described(8, &[]),
            "point" => described(16, &[float(0, 8), float(8, 8)]),
            "color" => described(16, &[float(0, 4), float(4, 4), float(8, 4), float(12, 4)]),
            "mixed" => described(16, &[number(0, 8), float(8, 8)]),
            "half" => described(8, &[float(0, 4)]),
            "padded" => Some(Passed { size: 16, parts: vec![float(0, 4), float(8, 8)], is_complete: true }),
            // An integer of a base class, which a float hides.
            "hidden" => Some(Passed { size: 8, parts: vec![float(4, 4)], is_complete: true }),
            "opaque" => Some(Passed { size: 16, parts: vec![unknown(0, 8), number(8, 8)], is_complete: true }),
            "beside" => {
                Some(Passed { size: 16, parts: vec![number(0, 4), unknown(4, 4), number(8, 8)], is_complete: true })
            }
            _ => None,
        };
        argument_place(arch, &signature, index, &passed)
    }

    #[test]
    fn structs_of_floats_take_vector_registers() {
        let after = |arch, view: &str| place(arch, &format!("m:f({view} s, i32 after)"), 1).unwrap().registers();
        for (view, x86, arm64) in [
            ("point", 5, 0),
            ("color", 5, 0),
            ("mixed", 4, 2),
            ("padded", 5, 2),
            // What is beside the number is not described.
            ("half", 4, 1),
        ] {
            assert_eq!((after(Arch::X86_64, view), after(Arch::Aarch64, view)), (vec![x86], vec![arm64]), "{view}");
        }
        for arch in [Arch::X86_64, Arch::Aarch64] {
            assert_eq!(place(arch, "m:f(point s)", 0), Err(NoPlace::VectorRegister));
        }
        // None are left: it is on the stack, before what comes after it there.
        let many = "m:f(f64 a, f64 b, f64 c, f64 d, f64 e, f64 f, f64 g, point s, f64 h)";
        assert_eq!(place(Arch::X86_64, many, 7).unwrap().0, STRUCT_ON_STACK | 8 << 32);
        assert_eq!(place(Arch::Aarch64, many, 7).unwrap().0, STRUCT_ON_STACK);
    }

    #[test]
    fn what_is_not_described_of_a_struct_is_not_guessed() {
        let after = |arch, view: &str| place(arch, &format!("m:f(i32 first, {view} s, i32 after)"), 2);
        let refused = |view: &str| Err(NoPlace::Unclassified(view.to_owned()));
        for arch in [Arch::X86_64, Arch::Aarch64] {
            assert_eq!(after(arch, "hidden"), refused("hidden"));
            assert!(place(arch, "m:f(i32 first, hidden s)", 0).is_ok(), "those before it are certain");
        }
        assert_eq!(after(Arch::X86_64, "opaque"), refused("opaque"));
        // No four floats are a struct with a pointer.
        assert_eq!(after(Arch::Aarch64, "opaque").unwrap().registers(), [3]);
        // The number decides for all eight bytes that it is in.
        assert_eq!(after(Arch::X86_64, "beside").unwrap().registers(), [2]);
    }

    #[test]
    fn after_a_struct_on_the_stack_arm64_uses_no_register_that_is_left() {
        let text = "m:f(i64 a, i64 b, i64 c, i64 d, i64 e, i64 f, i64 g, pair p, i64 last)";
        assert_eq!(place(Arch::Aarch64, text, 7).unwrap().0, STRUCT_ON_STACK);
        assert_eq!(place(Arch::Aarch64, text, 8).unwrap().0, ON_STACK | 16 << 32);
    }

    #[test]
    fn integers_come_in_registers_then_on_the_stack() {
        let text = "m:f(void* a, i32 b, i64 c, u8 d, void* e, void* f, void* g, void* h)";
        let x86: Vec<_> = (0..8).map(|i| place(Arch::X86_64, text, i).unwrap()).collect();
        let registers: Vec<_> = x86[..6].iter().flat_map(|p| p.registers()).collect();
        assert_eq!(registers, [5, 4, 1, 2, 8, 9]);
        assert_eq!((x86[6].0, x86[7].0), (ON_STACK | 8 << 32, ON_STACK | 16 << 32));
        assert_eq!(place(Arch::Aarch64, text, 7).unwrap().registers(), [7]);
    }

    #[test]
    fn places_in_inlined_copies_are_packed_with_their_sign() {
        let inlined = |location, is_struct| ArgumentPlace::inlined(Arch::X86_64, location, is_struct).map(|p| p.0);
        assert_eq!(inlined(Location::Register(11), false), Some(IN_REGISTER | 11 << 8));
        let below = Location::Memory { register: 6, offset: -8 };
        assert_eq!(inlined(below, false), Some(IN_MEMORY | 6 << 8 | 0xffff_fff8 << 32));
        assert_eq!(inlined(below, true), Some(STRUCT_IN_MEMORY | 6 << 8 | 0xffff_fff8 << 32));
        assert_eq!(inlined(Location::Sum { register: 7, offset: 480 }, false), Some(SUM | 7 << 8 | 480 << 32));
        assert_eq!(inlined(Location::Constant(-1), false), Some(CONSTANT | 0xffff_ffff << 32));
        assert_eq!(inlined(Location::Constant(1 << 40), false), None, "too large for the constant");
        assert_eq!(inlined(Location::Register(17), false), None, "a vector register");
        assert_eq!(inlined(Location::Register(5), true), None, "a struct that was taken apart");
    }

    #[test]
    fn places_of_static_probes_are_packed_with_size_and_sign() {
        let argument = |size, signed, place| StaticArgument { size, signed, place };
        let packed = |argument: &StaticArgument| ArgumentPlace::of_static(Arch::X86_64, argument).map(|p| p.0);
        let register = argument(4, true, ArgumentLocation::Register(5));
        assert_eq!(packed(&register), Some(IN_REGISTER | 5 << 8 | SIZED | SIGNED | 2 << 26));
        let indexed = ArgumentLocation::Indexed { register: 0, index: 3, scale: 2, offset: -8 };
        let expected = INDEXED | 3 << 16 | 2 << 24 | SIZED | 3 << 26 | 0xffff_fff8 << 32;
        assert_eq!(packed(&argument(8, false, indexed)), Some(expected));
        assert_eq!(
            packed(&argument(8, false, ArgumentLocation::Constant(1 << 40))),
            None,
            "too large for the constant"
        );
        assert_eq!(packed(&argument(8, false, ArgumentLocation::Register(17))), None, "forged");
    }

    #[test]
    fn large_structs_are_on_the_stack_or_by_reference() {
        let text = "m:f(void* ctx, batch b, i32 after)";
        assert_eq!(place(Arch::X86_64, text, 1).unwrap().0, STRUCT_ON_STACK | 8 << 32);
        assert_eq!(place(Arch::X86_64, text, 2).unwrap().registers(), [4]);
        assert_eq!(place(Arch::Aarch64, text, 1).unwrap().0, STRUCT_BY_REFERENCE | 1 << 8);
        assert_eq!(place(Arch::Aarch64, text, 2).unwrap().registers(), [2]);
    }

    #[test]
    fn small_structs_take_one_or_two_registers() {
        assert_eq!(place(Arch::X86_64, "m:f(pair p, i32 after)", 0).unwrap().registers(), [5, 4]);
        assert_eq!(place(Arch::X86_64, "m:f(pair p, i32 after)", 1).unwrap().registers(), [1]);
        assert_eq!(place(Arch::Aarch64, "m:f(tiny p, i32 after)", 1).unwrap().registers(), [1]);
    }

    #[test]
    fn a_struct_that_finds_one_register_left_goes_to_the_stack_whole() {
        let text = "m:f(i32 a, i32 b, i32 c, i32 d, i32 e, pair p, i32 last)";
        assert_eq!(place(Arch::X86_64, text, 5).unwrap().0, STRUCT_ON_STACK | 8 << 32);
        assert_eq!(place(Arch::X86_64, text, 6).unwrap().registers(), [9]);
    }

    #[test]
    fn a_result_in_memory_shifts_the_arguments_on_x86_64_only() {
        assert_eq!(place(Arch::X86_64, "m:f(this) -> batch", 0).unwrap().registers(), [4]);
        assert_eq!(place(Arch::Aarch64, "m:f(this) -> batch", 0).unwrap().registers(), [0]);
        // However small it is: a class with a destructor.
        assert_eq!(place(Arch::X86_64, "m:f(this, i32 n) -> memory", 1).unwrap().registers(), [1]);
        assert_eq!(place(Arch::Aarch64, "m:f(this, i32 n) -> memory", 1).unwrap().registers(), [1]);
    }

    #[test]
    fn the_place_of_a_returned_class_is_an_argument_on_arm64() {
        let hidden = |arch, text: &str| {
            let span = Span::new(&Arc::new(Source { name: "t".into(), text: text.into() }), 0..text.len());
            let Place::Function { signature, .. } = parse_attach(text, &span).unwrap().place else { panic!() };
            hidden_result(arch, &signature)
        };
        assert_eq!(hidden(Arch::X86_64, "m:f(this) -> std::string(32)"), None);
        assert_eq!(hidden(Arch::Aarch64, "m:f(this) -> std::string(32)"), Some(1));
        assert_eq!(hidden(Arch::Aarch64, "m:f(this, i32 n) -> std::vector<i32>"), Some(2));
        assert_eq!(hidden(Arch::Aarch64, "m:f(this) -> void*"), None);
        assert_eq!(hidden(Arch::Aarch64, "m:f(this) -> i32"), None);
        assert_eq!(place(Arch::Aarch64, "m:f(this, i32 n) -> std::vector<i32>", 2).unwrap().registers(), [8]);
    }

    #[test]
    fn vector_registers_are_counted_apart_and_cannot_be_read() {
        assert_eq!(place(Arch::X86_64, "m:f(f32 x, void* p)", 1).unwrap().registers(), [5]);
        assert_eq!(place(Arch::X86_64, "m:f(f32 x, void* p)", 0), Err(NoPlace::VectorRegister));
    }

    #[test]
    fn an_unknown_size_is_an_error_from_there_on() {
        assert_eq!(
            place(Arch::X86_64, "m:f(void* a, mystery m, i32 b)", 2),
            Err(NoPlace::SizeUnknown("mystery".into()))
        );
        assert!(place(Arch::X86_64, "m:f(void* a, mystery m, i32 b)", 0).is_ok());
    }
}
