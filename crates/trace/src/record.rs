//! One record as it stands in a trace, its fields decoded when they are asked for.

use super::meta::Meta;
use super::value::Value;
use profinfer_schema::{FieldLayout, FieldType, HEADER_SIZE, RecordType, Site};
use std::borrow::Cow;

/// The header that every record starts with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RecordHeader {
    /// Index into the schema's record types.
    pub ty: u16,
    /// The site's number; [`super::NO_SITE`] where there is none.
    pub site: u16,
    /// Processor at the end of the span.
    pub cpu: u16,
    /// Bit i: field i could not be read.
    pub missing: u16,
    /// Thread number in the kernel.
    pub tid: u32,
    /// The thread's count of records.
    pub seq: u32,
    /// ns, CLOCK_MONOTONIC.
    pub start: u64,
    /// ns; 0 for instants.
    pub duration: u64,
}

impl RecordHeader {
    /// Reads it from a record's bytes; `None` where they are too few.
    pub fn read(record: &[u8]) -> Option<Self> {
        let bytes: &[u8; HEADER_SIZE as usize] = record.first_chunk()?;
        Some(Self {
            ty: u16::from_le_bytes([bytes[0], bytes[1]]),
            site: u16::from_le_bytes([bytes[2], bytes[3]]),
            cpu: u16::from_le_bytes([bytes[4], bytes[5]]),
            missing: u16::from_le_bytes([bytes[6], bytes[7]]),
            tid: u32::from_le_bytes(*bytes[8..].first_chunk()?),
            seq: u32::from_le_bytes(*bytes[12..].first_chunk()?),
            start: u64::from_le_bytes(*bytes[16..].first_chunk()?),
            duration: u64::from_le_bytes(*bytes[24..].first_chunk()?),
        })
    }
}

/// A record. It borrows from its reader, and is cheap to copy.
#[derive(Debug, Clone, Copy)]
pub struct RecordView<'a> {
    bytes: &'a [u8],
    kind: &'a RecordType,
    meta: &'a Meta,
}

impl<'a> RecordView<'a> {
    /// `bytes` must have the length of its type's layout: the block decoder checks it.
    pub(super) fn new(bytes: &'a [u8], kind: &'a RecordType, meta: &'a Meta) -> Self {
        Self { bytes, kind, meta }
    }

    /// The record's bytes, as they came from the ring, without padding at the end.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The type.
    pub fn kind(&self) -> &'a RecordType {
        self.kind
    }

    /// The header.
    pub fn header(&self) -> RecordHeader {
        // The block decoder has made sure of the length.
        RecordHeader::read(self.bytes).unwrap_or_default()
    }

    /// The type's number: the index into the schema's record types.
    pub fn type_index(&self) -> usize {
        self.number(0, 2) as usize
    }

    /// Where it was recorded, if its site is in the trace.
    pub fn site(&self) -> Option<&'a Site> {
        self.meta.site(self.number(2, 2) as u16)
    }

    /// Whether field `index` could not be read.
    pub fn missing(&self, index: usize) -> bool {
        index < 16 && self.number(6, 2) >> index & 1 == 1
    }

    /// The index of the field of that name. Ask once a type, not once a record.
    pub fn index_of(&self, name: &str) -> Option<usize> {
        self.kind.fields.iter().position(|field| field.name == name)
    }

    /// Field `index`; [`Value::Missing`] where there is none.
    pub fn field(&self, index: usize) -> Value<'a> {
        match self.kind.fields.get(index) {
            Some(field) if !self.missing(index) => self.decode(field),
            _ => Value::Missing,
        }
    }

    /// The field of that name; [`Value::Missing`] where there is none.
    pub fn field_named(&self, name: &str) -> Value<'a> {
        self.index_of(name).map_or(Value::Missing, |index| self.field(index))
    }

    /// Names and values of all fields, in the schema's order.
    pub fn fields(&self) -> impl Iterator<Item = (&'a str, Value<'a>)> {
        let view = *self;
        self.kind.fields.iter().enumerate().map(move |(index, field)| (field.name.as_str(), view.field(index)))
    }

    /// An integer, constant, address, object, bool or duration, sign extended to 64 bits; `None` where it is missing or
    /// of another type. The quick way to a number.
    pub fn u64_at(&self, index: usize) -> Option<u64> {
        let field = self.kind.fields.get(index)?;
        if self.missing(index) {
            return None;
        }
        let at = field.offset as usize;
        Some(match field.ty {
            FieldType::Int(size) => sign_extended(self.number(at, size), size),
            FieldType::Enum(_) => sign_extended(self.number(at, 4), 4),
            FieldType::Uint(size) => self.number(at, size),
            FieldType::Bool => u64::from(self.number(at, 1) != 0),
            FieldType::Pointer | FieldType::Object(_) | FieldType::Duration | FieldType::Counter => self.number(at, 8),
            FieldType::Scaled => self.number(at, 2),
            _ => return None,
        })
    }

    /// The same, signed.
    pub fn i64_at(&self, index: usize) -> Option<i64> {
        self.u64_at(index).map(|value| value as i64)
    }

    /// How many elements a list has; `None` for other fields and missing ones.
    pub fn list_count(&self, index: usize) -> Option<u32> {
        self.list_number(index, 0)
    }

    /// How many elements a list had before its bound was applied; `None` for other fields and missing ones.
    pub fn list_total(&self, index: usize) -> Option<u32> {
        self.list_number(index, 4)
    }

    fn list_number(&self, index: usize, within: usize) -> Option<u32> {
        match self.kind.fields.get(index) {
            Some(FieldLayout { offset, ty: FieldType::List(..), .. }) if !self.missing(index) => {
                Some(self.number(*offset as usize + within, 4) as u32)
            }
            _ => None,
        }
    }

    fn decode(&self, field: &'a FieldLayout) -> Value<'a> {
        let at = field.offset as usize;
        match &field.ty {
            FieldType::Match(n) => self.capture(*n),
            FieldType::List(element, _) => {
                let (count, size) = (self.number(at, 4) as usize, element.size() as usize);
                let tail = self.bytes.get(self.kind.size as usize..).unwrap_or_default();
                Value::List(
                    tail.chunks_exact(size.max(1)).take(count).map(|bytes| self.value(element, bytes)).collect(),
                )
            }
            ty => self.value(ty, self.bytes.get(at..).unwrap_or_default()),
        }
    }

    /// The value that `bytes` start with.
    fn value(&self, ty: &'a FieldType, bytes: &'a [u8]) -> Value<'a> {
        let bytes = bytes.get(..ty.size() as usize).unwrap_or_default();
        match ty {
            FieldType::Int(size) => Value::Int(sign_extended(number(bytes), *size) as i64),
            FieldType::Uint(_) => Value::Uint(number(bytes)),
            FieldType::Float(4) => Value::Float(f64::from(f32::from_bits(number(bytes) as u32))),
            FieldType::Float(_) => Value::Float(f64::from_bits(number(bytes))),
            FieldType::Bool => Value::Bool(number(bytes) != 0),
            FieldType::Pointer => Value::Address(number(bytes)),
            FieldType::Enum(name) => self.constant(name, sign_extended(number(bytes), 4) as i64),
            FieldType::Text(_) => text_of(bytes).map_or(Value::Missing, |text| Value::Text(Cow::Borrowed(text))),
            FieldType::Hex(_) => Value::Hex(bytes),
            FieldType::Object(name) => Value::Object { name, address: number(bytes) },
            FieldType::Array(of, _) => self.array(of, bytes),
            FieldType::Duration => Value::Duration(number(bytes)),
            FieldType::Counter => Value::Uint(number(bytes)),
            FieldType::Scaled => Value::Uint(number(bytes) & 0xffff),
            FieldType::List(..) | FieldType::Match(_) => Value::Missing,
        }
    }

    fn array(&self, of: &'a FieldType, bytes: &'a [u8]) -> Value<'a> {
        let elements = bytes.chunks_exact((of.size() as usize).max(1));
        let mut values: Vec<Value<'a>> = elements.map(|bytes| self.value(of, bytes)).collect();
        if matches!(of, FieldType::Pointer | FieldType::Object(_)) {
            let length = values.iter().rposition(|value| value.as_address() != Some(0)).map_or(0, |last| last + 1);
            values.truncate(length);
        }
        Value::List(values)
    }

    fn constant(&self, enumeration: &str, value: i64) -> Value<'a> {
        let names = self.meta.schema.enums.get(enumeration);
        Value::Enum { value, name: names.and_then(|names| names.get(&value)).map(String::as_str) }
    }

    fn capture(&self, n: u32) -> Value<'a> {
        let capture = self.site().and_then(|site| match (n as usize).checked_sub(1) {
            Some(n) => site.captures.get(n),
            None => Some(&site.function),
        });
        capture.map_or(Value::Missing, |text| Value::Text(Cow::Borrowed(text)))
    }

    fn number(&self, at: usize, size: u32) -> u64 {
        match (size, self.bytes.get(at..)) {
            (8, Some(&[a, b, c, d, e, f, g, h, ..])) => u64::from_le_bytes([a, b, c, d, e, f, g, h]),
            (4, Some(&[a, b, c, d, ..])) => u64::from(u32::from_le_bytes([a, b, c, d])),
            (2, Some(&[a, b, ..])) => u64::from(u16::from_le_bytes([a, b])),
            (1, Some(&[a, ..])) => u64::from(a),
            _ => 0,
        }
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().take(8).fold(0, |value, byte| value << 8 | u64::from(*byte))
}

fn sign_extended(value: u64, size: u32) -> u64 {
    let unused = 64_u32.saturating_sub(8 * size).min(63);
    (((value << unused) as i64) >> unused) as u64
}

/// The text up to the first NUL; `None` where the bytes are no text: not UTF-8, or control characters other than blanks.
/// A character that the end of the field cuts is left out.
pub fn text_of(bytes: &[u8]) -> Option<&str> {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let text = match std::str::from_utf8(&bytes[..end]) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() && end == bytes.len() => {
            std::str::from_utf8(&bytes[..error.valid_up_to()]).ok()?
        }
        Err(_) => return None,
    };
    text.chars().all(|c| !c.is_control() || matches!(c, '\t' | '\n' | '\r')).then_some(text)
}
