//! The header of a record, and numbers in its fixed part.

use profinfer_schema::{FieldLayout, FieldType};
use profinfer_trace::RecordHeader;

/// What every record starts with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Index into `Schema::records`.
    pub record_type: u16,
    /// The site's number.
    pub site: u16,
    /// The processor at the end of the span.
    pub cpu: u16,
    /// Bit i: field i could not be read.
    pub missing: u16,
    /// The thread's number in the kernel.
    pub tid: u32,
    /// Sequence number of the record on its thread.
    pub seq: u32,
    /// ns, CLOCK_MONOTONIC.
    pub start: u64,
    /// ns, CLOCK_MONOTONIC; never before `start`.
    pub end: u64,
}

impl Header {
    /// Reads it from a record's bytes; `None` where they are too few.
    pub fn read(record: &[u8]) -> Option<Self> {
        let RecordHeader { ty, site, cpu, missing, tid, seq, start, duration } = RecordHeader::read(record)?;
        Some(Self { record_type: ty, site, cpu, missing, tid, seq, start, end: start.saturating_add(duration) })
    }
}

/// Where a number stands in a record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NumberAt {
    bit: u16,
    offset: usize,
    size: u8,
    pub(super) signed: bool,
}

impl NumberAt {
    pub(crate) fn of(layout: &FieldLayout, index: usize) -> Option<Self> {
        let (size, signed) = match &layout.ty {
            FieldType::Int(n) => (*n, true),
            FieldType::Uint(n) => (*n, false),
            FieldType::Bool => (1, false),
            FieldType::Enum(_) => (4, true),
            FieldType::Scaled => (2, false),
            FieldType::Pointer | FieldType::Object(_) | FieldType::Duration | FieldType::Counter => (8, false),
            _ => return None,
        };
        let size = u8::try_from(size).ok()?;
        Some(Self { bit: missing_bit(index), offset: layout.offset as usize, size, signed })
    }

    /// The number, sign-extended to 64 bits; `None` where it could not be read.
    pub(crate) fn read(&self, record: &[u8], missing: u16) -> Option<u64> {
        if missing & self.bit != 0 {
            return None;
        }
        let bytes = record.get(self.offset..)?;
        Some(match (self.size, self.signed) {
            (8, _) => u64::from_le_bytes(*bytes.first_chunk()?),
            (4, false) => u64::from(u32::from_le_bytes(*bytes.first_chunk()?)),
            (4, true) => sign_extend(i64::from(i32::from_le_bytes(*bytes.first_chunk()?))),
            (2, false) => u64::from(u16::from_le_bytes(*bytes.first_chunk()?)),
            (2, true) => sign_extend(i64::from(i16::from_le_bytes(*bytes.first_chunk()?))),
            (1, false) => u64::from(*bytes.first()?),
            (1, true) => sign_extend(i64::from(i8::from_le_bytes(*bytes.first_chunk()?))),
            _ => return None,
        })
    }

    /// The number, where it is not negative.
    pub(crate) fn read_count(&self, record: &[u8], missing: u16) -> Option<u64> {
        self.read(record, missing).filter(|n| !self.signed || n.cast_signed() >= 0)
    }

    /// The same, where it has 32 bits.
    pub(crate) fn read_u32(&self, record: &[u8], missing: u16) -> Option<u32> {
        u32::try_from(self.read_count(record, missing)?).ok()
    }
}

fn sign_extend(n: i64) -> u64 {
    n.cast_unsigned()
}

pub(super) fn missing_bit(index: usize) -> u16 {
    u32::try_from(index).ok().and_then(|i| 1_u16.checked_shl(i)).unwrap_or(0)
}
