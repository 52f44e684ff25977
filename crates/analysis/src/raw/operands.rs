//! Addresses in records: of objects, and of the data that an operator reads and computes.

use super::decoder::Decoder;
use super::header::Header;
use profinfer_probeset::path::Value;
use profinfer_schema::FieldMeaning;

/// Addresses of one list in memory.
const MAX_ADDRESSES: usize = 256;

/// The data of one operator, by its addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operands {
    /// What it read, in the order of its inputs; 0 for one that it was not given.
    pub reads: Box<[u64]>,
    /// What it computed.
    pub writes: Box<[u64]>,
}

impl Operands {
    /// Those in an operator's record; `None` if it does not say what it computed.
    pub(crate) fn read(header: &Header, record: &[u8], decoder: &Decoder) -> Option<Box<Self>> {
        let list = |meaning| decoder.value_of(header, record, meaning).map(|value| all_addresses(&value).collect());
        let writes: Box<[u64]> = list(FieldMeaning::Writes)?;
        let reads = list(FieldMeaning::Reads).or_else(|| list(FieldMeaning::Inputs)).unwrap_or_default();
        Some(Box::new(Self { reads, writes: writes.into_iter().filter(|address| *address != 0).collect() }))
    }
}

/// The address that a field holds.
pub(crate) fn address_of(value: &Value) -> Option<u64> {
    match value {
        Value::Object(address) => Some(*address),
        Value::Int(n) => Some(n.cast_unsigned()),
        _ => None,
    }
}

/// The addresses of a list, with those that are null.
pub(crate) fn all_addresses(value: &Value) -> impl Iterator<Item = u64> {
    let items = match value {
        Value::List(items) => items.as_slice(),
        one => std::slice::from_ref(one),
    };
    items.iter().take(MAX_ADDRESSES).filter_map(address_of)
}
