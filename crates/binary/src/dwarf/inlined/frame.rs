//! The canonical frame address, by which debug information counts what is on the stack, as a register and some bytes:
//! the tables for unwinding say which at each instruction.

use super::expression::{Base, Value};
use super::{Reader, sections};
use crate::elf::Image;
use crate::{Arch, Location};
use gimli::{
    BaseAddresses, CfaRule, CieOrFde, DebugFrame, EhFrame, EndianSlice, LittleEndian, UnwindContext, UnwindSection,
    Vendor,
};
use object::{Object, ObjectSection};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;
use std::sync::OnceLock;

/// Functions of one file.
const MAX_FUNCTIONS: usize = 1 << 20;
/// Changes of the rule within one function.
const MAX_ROWS: usize = 1 << 16;

/// The unwinding tables of a program: those for exceptions are in itself, those for debuggers with its debug
/// information.
#[derive(Debug)]
pub(super) struct Frames<'a> {
    program: &'a Image,
    debug: &'a Image,
    tables: OnceLock<Tables<'a>>,
}

#[derive(Debug)]
struct Tables<'a> {
    for_exceptions: Cow<'a, [u8]>,
    for_debuggers: Cow<'a, [u8]>,
    bases: BaseAddresses,
    vendor: Vendor,
    functions_for_exceptions: OnceLock<Functions>,
    functions_for_debuggers: OnceLock<Functions>,
}

/// Which function's entry each address has: from each address on, the entry's place in its section.
#[derive(Debug)]
struct Functions(Vec<(u64, Option<usize>)>);

/// A range of instructions, and the register and bytes that give the frame address there.
type Row = (Range<u64>, u16, i64);

impl<'a> Frames<'a> {
    pub(super) fn new(program: &'a Image, debug: &'a Image) -> Self {
        Self { program, debug, tables: OnceLock::new() }
    }

    /// The value of an expression in a range of addresses, with the frame address replaced by what it is counted from.
    pub(super) fn resolve(&self, range: &Range<u64>, value: Value) -> Vec<(Range<u64>, Location)> {
        let (base, in_memory) = match value {
            Value::Register(register) => return vec![(range.clone(), Location::Register(register))],
            Value::Constant(constant) => return vec![(range.clone(), Location::Constant(constant))],
            Value::Memory(base) => (base, true),
            Value::Sum(base) => (base, false),
        };
        let location = |register, offset| match in_memory {
            true => Location::Memory { register, offset },
            false => Location::Sum { register, offset },
        };
        match base {
            Base::Register(register, offset) => vec![(range.clone(), location(register, offset))],
            Base::Frame(offset) => self
                .rows(range)
                .into_iter()
                .filter_map(|(range, register, from)| Some((range, location(register, from.checked_add(offset)?))))
                .collect(),
        }
    }

    fn rows(&self, range: &Range<u64>) -> Vec<Row> {
        let tables = self.tables.get_or_init(|| Tables::load(self.program, self.debug));
        let mut exceptions = EhFrame::new(&tables.for_exceptions, LittleEndian);
        exceptions.set_vendor(tables.vendor);
        let found = rows(&exceptions, &tables.bases, &tables.functions_for_exceptions, range);
        if !found.is_empty() {
            return found;
        }
        let mut debuggers = DebugFrame::new(&tables.for_debuggers, LittleEndian);
        debuggers.set_vendor(tables.vendor);
        rows(&debuggers, &tables.bases, &tables.functions_for_debuggers, range)
    }
}

impl<'a> Tables<'a> {
    fn load(program: &'a Image, debug: &'a Image) -> Self {
        let address = |name: &str| program.headers().and_then(|h| h.section_by_name(name).map(|s| s.address()));
        let mut bases = BaseAddresses::default();
        if let Some(address) = address(".eh_frame") {
            bases = bases.set_eh_frame(address);
        }
        if let Some(address) = address(".text") {
            bases = bases.set_text(address);
        }
        Self {
            for_exceptions: sections::named(program, ".eh_frame"),
            for_debuggers: sections::named(debug, ".debug_frame"),
            bases,
            // Functions of arm64 that sign return addresses have an instruction of their own for it.
            vendor: if program.arch() == Arch::Aarch64 { Vendor::AArch64 } else { Vendor::Default },
            functions_for_exceptions: OnceLock::new(),
            functions_for_debuggers: OnceLock::new(),
        }
    }
}

impl Functions {
    fn read<'a, S: UnwindSection<Reader<'a>>>(section: &S, bases: &BaseAddresses) -> Self
    where
        EndianSlice<'a, LittleEndian>: gimli::Reader<Offset = usize>,
    {
        let mut functions = Vec::new();
        let mut entries = section.entries(bases);
        for _ in 0..MAX_FUNCTIONS {
            let Ok(Some(entry)) = entries.next() else { break };
            let CieOrFde::Fde(partial) = entry else { continue };
            let Ok(function) = partial.parse(S::cie_from_offset) else { continue };
            let start = function.initial_address();
            functions.push((start..start.saturating_add(function.len()), function.offset()));
        }
        Self::of(functions)
    }

    /// Where some overlap, an address is in the one that stands first in the section.
    fn of(mut functions: Vec<(Range<u64>, usize)>) -> Self {
        functions.retain(|(range, _)| range.start < range.end);
        functions.sort_unstable_by_key(|(range, at)| (range.start, *at));
        let mut changes: Vec<u64> = functions.iter().flat_map(|(range, _)| [range.start, range.end]).collect();
        changes.sort_unstable();
        changes.dedup();
        let mut begun = BinaryHeap::new();
        let mut next = functions.iter().peekable();
        let mut from: Vec<(u64, Option<usize>)> = Vec::new();
        for change in changes {
            while let Some((range, at)) = next.next_if(|(range, _)| range.start <= change) {
                begun.push(Reverse((*at, range.end)));
            }
            while begun.peek().is_some_and(|Reverse((_, end))| *end <= change) {
                begun.pop();
            }
            let first = begun.peek().map(|Reverse((at, _))| *at);
            if from.last().is_none_or(|(_, last)| *last != first) {
                from.push((change, first));
            }
        }
        from.shrink_to_fit();
        Self(from)
    }

    fn at(&self, address: u64) -> Option<usize> {
        let after = self.0.partition_point(|(from, _)| *from <= address);
        self.0.get(after.checked_sub(1)?)?.1
    }
}

/// The rows of the function in which a range begins, as far as they are in the range.
fn rows<'a, S: UnwindSection<Reader<'a>>>(
    section: &S,
    bases: &BaseAddresses,
    functions: &OnceLock<Functions>,
    range: &Range<u64>,
) -> Vec<Row>
where
    EndianSlice<'a, LittleEndian>: gimli::Reader<Offset = usize>,
{
    let mut rows = Vec::new();
    let functions = functions.get_or_init(|| Functions::read(section, bases));
    let Some(at) = functions.at(range.start) else { return rows };
    let Ok(function) = section.fde_from_offset(bases, at.into(), S::cie_from_offset) else { return rows };
    let mut context = UnwindContext::new();
    let Ok(mut table) = function.rows(section, bases, &mut context) else { return rows };
    for _ in 0..MAX_ROWS {
        let Ok(Some(row)) = table.next_row() else { return rows };
        let within = row.start_address().max(range.start)..row.end_address().min(range.end);
        if let CfaRule::RegisterAndOffset { register, offset } = row.cfa()
            && within.start < within.end
        {
            rows.push((within, register.0, *offset));
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forged::{CODE, Forged};
    use object::elf::EM_AARCH64;

    fn entry(content: &[u8]) -> Vec<u8> {
        let mut content = content.to_vec();
        content.resize(content.len().next_multiple_of(8) + 4, 0);
        [&(content.len() as u32).to_le_bytes()[..], &content].concat()
    }

    #[test]
    fn functions_of_arm64_that_sign_return_addresses_have_all_their_rows() {
        for name in [".eh_frame", ".debug_frame"] {
            let is_debug = name == ".debug_frame";
            // Code is counted in fours, data in -8, x30 has the return address, and the frame address is `sp`.
            let id = if is_debug { u32::MAX } else { 0 };
            let start = [&id.to_le_bytes()[..], &[1, 0, 4, 0x78, 30, 0x0c, 31, 0]].concat();
            let shared = entry(&start);
            // `paciasp` (negate), then 32 bytes on the stack; gone again, and `autiasp` (negate).
            let rows = [0x41, 0x2d, 0x41, 0x0e, 32, 0x42, 0x0e, 0, 0x41, 0x2d];
            let of = if is_debug { 0 } else { shared.len() as u32 + 4 };
            let function = [&of.to_le_bytes()[..], &CODE.to_le_bytes(), &24u64.to_le_bytes(), &rows].concat();
            let table = [shared, entry(&function), vec![0; if is_debug { 0 } else { 4 }]].concat();
            let mut forged = Forged::library(EM_AARCH64);
            forged.section(name, 1, 0, &table);
            let image = forged.image().unwrap();
            let frames = Frames::new(&image, &image);
            let found = frames.resolve(&(CODE..CODE + 24), Value::Sum(Base::Frame(-8)));
            let mut rows: Vec<(Range<u64>, i64)> = Vec::new();
            for (range, location) in found {
                let Location::Sum { register: 31, offset } = location else { panic!("{name}: {location:?}") };
                match rows.last_mut() {
                    Some((last, same)) if last.end == range.start && *same == offset => last.end = range.end,
                    _ => rows.push((range, offset)),
                }
            }
            assert_eq!(rows, [(CODE..CODE + 8, -8), (CODE + 8..CODE + 16, 24), (CODE + 16..CODE + 24, -8)], "{name}");
        }
    }

    #[test]
    fn an_address_is_in_the_first_of_the_functions_around_it() {
        let listed =
            vec![(40..60, 0), (10..50, 20), (45..46, 30), (5..12, 40), (70..70, 50), (60..62, 60), (0..100, 70)];
        let functions = Functions::of(listed.clone());
        for address in 0..110 {
            let first = listed.iter().find(|(range, _)| range.contains(&address)).map(|(_, at)| *at);
            assert_eq!(functions.at(address), first, "{address}");
        }
    }
}
