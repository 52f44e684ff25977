//! The canonical frame address, by which debug information counts what is on the stack, as a register and some bytes:
//! the tables for unwinding say which at each instruction.

use super::expression::{Base, Value};
use super::{Reader, sections};
use crate::Location;
use crate::elf::Image;
use gimli::{
    BaseAddresses, CfaRule, CieOrFde, DebugFrame, EhFrame, EndianSlice, LittleEndian, UnwindContext, UnwindSection,
};
use object::{Object, ObjectSection};
use std::borrow::Cow;
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
}

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
        let exceptions = EhFrame::new(&tables.for_exceptions, LittleEndian);
        let found = rows(&exceptions, &tables.bases, range);
        if !found.is_empty() {
            return found;
        }
        rows(&DebugFrame::new(&tables.for_debuggers, LittleEndian), &tables.bases, range)
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
        }
    }
}

/// The rows of the function in which a range begins, as far as they are in the range.
fn rows<'a, S: UnwindSection<Reader<'a>>>(section: &S, bases: &BaseAddresses, range: &Range<u64>) -> Vec<Row>
where
    EndianSlice<'a, LittleEndian>: gimli::Reader<Offset = usize>,
{
    let mut rows = Vec::new();
    let mut entries = section.entries(bases);
    for _ in 0..MAX_FUNCTIONS {
        let Ok(Some(entry)) = entries.next() else { return rows };
        let CieOrFde::Fde(partial) = entry else { continue };
        let Ok(function) = partial.parse(S::cie_from_offset) else { continue };
        if !function.contains(range.start) {
            continue;
        }
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
        return rows;
    }
    rows
}
