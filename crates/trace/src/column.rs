//! How a block stores a run of equal-sized values: the encoding that makes the fewest bytes, cut into byte planes, so
//! that the general compression after it finds like beside like.
//!
//! ```text
//! column = u8 encoding, u8 planes, data        n values of `width` bytes each; the reader has both
//!
//! encoding 0  plain       data = planes × u8[n]: the values' lowest bytes, then their second lowest…
//! encoding 1  constant    data = u8[planes]: the one value that all n have, its lowest bytes
//! encoding 2  delta       data as plain, of zigzag(value - previous value), in `width` bytes, the first from 0
//! encoding 3  dictionary  data = varint m, m × u8[width], then as plain, of the values' places in those m
//! ```
//!
//! Bytes above `planes` are 0.

use super::intern::Interner;

const PLAIN: u8 = 0;
const CONSTANT: u8 = 1;
const DELTA: u8 = 2;
const DICTIONARY: u8 = 3;

/// A dictionary has at most this many entries: an index then has two planes.
const MAX_ENTRIES: usize = 1 << 16;

/// `(value - previous)` in `width` bytes, small numbers of either sign made small unsigned ones.
pub(super) fn zigzag_delta(value: u64, previous: u64, width: usize) -> u64 {
    let unused = 64 - 8 * width as u32;
    let difference = ((value.wrapping_sub(previous) << unused) as i64) >> unused;
    ((difference << 1) ^ (difference >> 63)) as u64
}

/// Undoes [`zigzag_delta`].
pub(super) fn undo_delta(zigzag: u64, previous: u64, width: usize) -> u64 {
    let difference = (zigzag >> 1) ^ (zigzag & 1).wrapping_neg();
    previous.wrapping_add(difference) & (u64::MAX >> (64 - 8 * width as u32))
}

/// Appends a number in 7-bit groups, the lowest first, bit 7 set in all but the last.
pub(super) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn significant_bytes(value: u64) -> usize {
    8 - value.leading_zeros() as usize / 8
}

/// Statistics of a column's values, which decide its encoding.
struct Census {
    /// All values or-ed: its length is the number of planes.
    all: u64,
    /// Bytes of the values without their leading zeros.
    plain: usize,
    /// The same for the deltas.
    all_deltas: u64,
    delta: usize,
    constant: bool,
}

impl Census {
    fn take(values: &[u64], width: usize) -> Self {
        let first = values.first().copied().unwrap_or(0);
        let mut census = Self { all: 0, plain: 0, all_deltas: 0, delta: 0, constant: true };
        let mut previous = 0;
        for &value in values {
            let delta = zigzag_delta(value, previous, width);
            previous = value;
            census.all |= value;
            census.all_deltas |= delta;
            census.plain += significant_bytes(value);
            census.delta += significant_bytes(delta);
            census.constant &= value == first;
        }
        census
    }
}

/// Encodes columns, with buffers that are reused.
#[derive(Debug)]
pub(super) struct ColumnEncoder {
    dictionary: Interner,
    codes: Vec<u64>,
}

impl ColumnEncoder {
    pub(super) fn new() -> Self {
        Self { dictionary: Interner::new(), codes: Vec::new() }
    }

    /// Appends the column of `values`, each below 2^(8·width).
    pub(super) fn encode(&mut self, out: &mut Vec<u8>, values: &[u64], width: usize) {
        let census = Census::take(values, width);
        if census.constant {
            let value = values.first().copied().unwrap_or(0);
            let planes = significant_bytes(value);
            out.extend([CONSTANT, planes as u8]);
            out.extend_from_slice(&value.to_le_bytes()[..planes]);
            return;
        }
        let best = census.plain.min(census.delta);
        if best > values.len() && self.number(values, width, best) {
            self.put_dictionary(out, width);
        } else if census.delta < census.plain {
            self.codes.clear();
            let before = std::iter::once(0).chain(values.iter().copied());
            self.codes.extend(values.iter().zip(before).map(|(v, previous)| zigzag_delta(*v, previous, width)));
            out.push(DELTA);
            put_planes(out, &self.codes, significant_bytes(census.all_deltas));
        } else {
            out.push(PLAIN);
            put_planes(out, values, significant_bytes(census.all));
        }
    }

    /// Gives the distinct values numbers, into `codes`; `false` as soon as a dictionary is no gain over `bytes`.
    fn number(&mut self, values: &[u64], width: usize, bytes: usize) -> bool {
        self.dictionary.clear();
        self.codes.clear();
        let most = (bytes - values.len()) / width;
        let most = most.min(values.len() / 4).min(MAX_ENTRIES);
        for &value in values {
            self.codes.push(u64::from(self.dictionary.number(value)));
            if self.dictionary.values().len() > most {
                return false;
            }
        }
        true
    }

    fn put_dictionary(&mut self, out: &mut Vec<u8>, width: usize) {
        let entries = self.dictionary.values();
        let planes = significant_bytes(entries.len() as u64 - 1);
        out.extend([DICTIONARY, planes as u8]);
        put_varint(out, entries.len() as u64);
        for entry in entries {
            out.extend_from_slice(&entry.to_le_bytes()[..width]);
        }
        put_plane_bytes(out, &self.codes, planes);
    }
}

fn put_planes(out: &mut Vec<u8>, values: &[u64], planes: usize) {
    out.push(planes as u8);
    put_plane_bytes(out, values, planes);
}

fn put_plane_bytes(out: &mut Vec<u8>, values: &[u64], planes: usize) {
    for plane in 0..planes {
        out.extend(values.iter().map(|value| (value >> (8 * plane)) as u8));
    }
}

/// What is wrong with a block.
pub(super) type Malformed = &'static str;

/// A payload being read from its front.
#[derive(Debug)]
pub(super) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (front, rest) = self.rest.split_at_checked(length).ok_or("it is truncated")?;
        self.rest = rest;
        Ok(front)
    }

    pub(super) fn byte(&mut self) -> Result<u8, Malformed> {
        self.take(1).map(|bytes| bytes[0])
    }

    /// A varint of at most `limit`.
    pub(super) fn varint(&mut self, limit: usize) -> Result<usize, Malformed> {
        let mut value = 0_u64;
        for shift in (0..63).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return usize::try_from(value).ok().filter(|v| *v <= limit).ok_or("a number is out of its range");
            }
        }
        Err("a number is too long")
    }

    /// Reads a column of `n` values of `width` bytes into `values`, replacing what was there.
    pub(super) fn column(&mut self, values: &mut Vec<u64>, n: usize, width: usize) -> Result<(), Malformed> {
        let encoding = self.byte()?;
        let planes = usize::from(self.byte()?);
        if planes > width {
            return Err("a column has more planes than its values have bytes");
        }
        values.clear();
        match encoding {
            PLAIN => self.planes(values, n, planes)?,
            CONSTANT => values.resize(n, little_endian(self.take(planes)?)),
            DELTA => {
                self.planes(values, n, planes)?;
                let mut previous = 0;
                for value in values.iter_mut() {
                    previous = undo_delta(*value, previous, width);
                    *value = previous;
                }
            }
            DICTIONARY => {
                let count = self.varint(MAX_ENTRIES)?;
                let entries: Vec<u64> = self.take(count * width)?.chunks_exact(width).map(little_endian).collect();
                self.planes(values, n, planes)?;
                for value in values.iter_mut() {
                    *value = *entries.get(*value as usize).ok_or("a dictionary index is out of range")?;
                }
            }
            _ => return Err("a column has an unknown encoding"),
        }
        Ok(())
    }

    fn planes(&mut self, values: &mut Vec<u64>, n: usize, planes: usize) -> Result<(), Malformed> {
        let bytes = self.take(n.checked_mul(planes).ok_or("a column is too long")?)?;
        values.resize(n, 0);
        for (plane, bytes) in bytes.chunks_exact(n.max(1)).enumerate() {
            for (value, byte) in values.iter_mut().zip(bytes) {
                *value |= u64::from(*byte) << (8 * plane);
            }
        }
        Ok(())
    }
}

/// Up to eight bytes as a number.
pub(super) fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn roundtrip(values: &[u64], width: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        ColumnEncoder::new().encode(&mut bytes, values, width);
        let mut cursor = Cursor::new(&bytes);
        let mut decoded = vec![99];
        cursor.column(&mut decoded, values.len(), width).unwrap();
        assert!(cursor.is_at_end());
        assert_eq!(decoded, values);
        bytes
    }

    #[test]
    fn each_encoding_is_taken_where_it_is_best() {
        let encoding = |values: &[u64]| roundtrip(values, 8)[0];
        assert_eq!(encoding(&[]), CONSTANT);
        assert_eq!(encoding(&[5; 100]), CONSTANT);
        assert_eq!(encoding(&(0..100).map(|i| i * i % 251).collect::<Vec<_>>()), PLAIN);
        assert_eq!(encoding(&(0..100).map(|i| (1 << 40) + i * 9).collect::<Vec<_>>()), DELTA);
        assert_eq!(encoding(&(0..100).map(|i| (i * i % 7) << 40).collect::<Vec<_>>()), DICTIONARY);
    }

    proptest! {
        #[test]
        fn values_come_back(
            values in prop::collection::vec(prop_oneof![any::<u64>(), 0..300_u64, Just(7 << 50)], 0..200),
            width in prop::sample::select(vec![1_usize, 2, 4, 8]),
        ) {
            let mask = u64::MAX >> (64 - 8 * width);
            roundtrip(&values.into_iter().map(|v| v & mask).collect::<Vec<_>>(), width);
        }

        #[test]
        fn any_bytes_are_a_column_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..64), n in 0_usize..1000) {
            let mut values = Vec::new();
            let _ = Cursor::new(&bytes).column(&mut values, n, 4);
            prop_assert!(values.len() <= n);
        }
    }
}
