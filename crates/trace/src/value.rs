//! A field's value, and how it is shown: as JSON by its `Serialize`, as text by its `Display`.

use serde::{Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;

/// A field's value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value<'a> {
    /// It could not be read. JSON: `null`.
    Missing,
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    Uint(u64),
    /// A floating-point number; JSON has `null` for those that are not finite.
    Float(f64),
    /// True or false.
    Bool(bool),
    /// Text; bytes that are not UTF-8 are replaced.
    Text(Cow<'a, str>),
    /// A constant of an enumeration, with its name if the enumeration has it. JSON: the name, else the number.
    Enum {
        /// Its value.
        value: i64,
        /// Its name.
        name: Option<&'a str>,
    },
    /// An address. JSON: a text such as `"0x7f00"`.
    Address(u64),
    /// An object, by its address; shown as that.
    Object {
        /// Which kind of object: a record type of the schema.
        name: &'a str,
        /// Its address; 0 where there is none.
        address: u64,
    },
    /// Several values.
    List(Vec<Value<'a>>),
    /// Bytes. JSON: a text of hexadecimal digits.
    Hex(&'a [u8]),
    /// Nanoseconds. JSON: a number.
    Duration(u64),
}

impl Value<'_> {
    /// It as an integer, if it is one (constants, addresses and durations are).
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Self::Int(value) | Self::Enum { value, .. } => Some(*value),
            Self::Uint(value) | Self::Duration(value) | Self::Address(value) => i64::try_from(*value).ok(),
            Self::Object { address, .. } => i64::try_from(*address).ok(),
            Self::Bool(value) => Some(i64::from(*value)),
            _ => None,
        }
    }

    /// The address, of an address or an object.
    pub fn as_address(&self) -> Option<u64> {
        match self {
            Self::Address(address) | Self::Object { address, .. } => Some(*address),
            _ => None,
        }
    }

    /// The text, or the constant's name.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Enum { name, .. } => *name,
            _ => None,
        }
    }
}

impl Serialize for Value<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Missing => serializer.serialize_unit(),
            Self::Int(value) | Self::Enum { value, name: None } => serializer.serialize_i64(*value),
            Self::Uint(value) | Self::Duration(value) => serializer.serialize_u64(*value),
            Self::Float(value) => serializer.serialize_f64(*value),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Text(text) => serializer.serialize_str(text),
            Self::Enum { name: Some(name), .. } => serializer.serialize_str(name),
            Self::Address(_) | Self::Object { .. } | Self::Hex(_) => serializer.collect_str(self),
            Self::List(values) => serializer.collect_seq(values),
        }
    }
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("?"),
            Self::Int(value) | Self::Enum { value, name: None } => write!(f, "{value}"),
            Self::Uint(value) => write!(f, "{value}"),
            Self::Float(value) => write!(f, "{value}"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Text(text) => f.write_str(text),
            Self::Enum { name: Some(name), .. } => f.write_str(name),
            Self::Address(address) | Self::Object { address, .. } => write!(f, "{address:#x}"),
            Self::List(values) => list(f, values),
            Self::Hex(bytes) => bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}")),
            Self::Duration(ns) => duration(f, *ns),
        }
    }
}

fn list(f: &mut fmt::Formatter<'_>, values: &[Value<'_>]) -> fmt::Result {
    f.write_str("[")?;
    for (index, value) in values.iter().enumerate() {
        let comma = if index == 0 { "" } else { ", " };
        write!(f, "{comma}{value}")?;
    }
    f.write_str("]")
}

/// Three decimals at least of the largest unit that fits.
fn duration(f: &mut fmt::Formatter<'_>, ns: u64) -> fmt::Result {
    match ns {
        0..1_000 => write!(f, "{ns} ns"),
        1_000..1_000_000 => write!(f, "{:.3} us", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => write!(f, "{:.3} ms", ns as f64 / 1e6),
        _ => write!(f, "{:.3} s", ns as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_json_and_its_text() {
        for (value, json, text) in [
            (Value::Missing, "null", "?"),
            (Value::Int(-3), "-3", "-3"),
            (Value::Uint(u64::MAX), "18446744073709551615", "18446744073709551615"),
            (Value::Float(0.5), "0.5", "0.5"),
            (Value::Float(f64::NAN), "null", "NaN"),
            (Value::Bool(true), "true", "true"),
            (Value::Text("a\"b".into()), "\"a\\\"b\"", "a\"b"),
            (Value::Enum { value: 29, name: Some("MUL") }, "\"MUL\"", "MUL"),
            (Value::Enum { value: -1, name: None }, "-1", "-1"),
            (Value::Address(0x7f00), "\"0x7f00\"", "0x7f00"),
            (Value::Object { name: "t", address: 16 }, "\"0x10\"", "0x10"),
            (Value::List(vec![Value::Int(1), Value::Missing]), "[1,null]", "[1, ?]"),
            (Value::Hex(&[0, 0xab]), "\"00ab\"", "00ab"),
            (Value::Duration(1_234_567), "1234567", "1.235 ms"),
        ] {
            assert_eq!(serde_json::to_string(&value).unwrap(), json);
            assert_eq!(value.to_string(), text);
        }
    }
}
