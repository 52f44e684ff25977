//! Columns of numbers as few bytes, and bytes as text: variable-length integers, deflated, in base64. The page's
//! `data.js` reads them back in the same order.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::DeflateEncoder;
use std::io::{self, Write};

/// Numbers, one after the other.
#[derive(Debug, Default)]
pub(super) struct Columns {
    bytes: Vec<u8>,
}

impl Columns {
    /// A number: seven bits a byte, the lowest first; the highest bit marks that more follow.
    pub(super) fn uint(&mut self, mut n: u64) {
        while n >= 0x80 {
            self.bytes.push((n as u8 & 0x7f) | 0x80);
            n >>= 7;
        }
        self.bytes.push(n as u8);
    }

    /// The difference of two numbers, the small ones of either sign in few bytes.
    pub(super) fn difference(&mut self, to: u64, from: u64) {
        // Differences of 64-bit times need not fit 64 bits with a sign; what does not is no time of a trace.
        let n = i64::try_from(i128::from(to) - i128::from(from)).unwrap_or(0);
        self.uint(((n << 1) ^ (n >> 63)).cast_unsigned());
    }

    /// As they are.
    #[cfg(test)]
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Deflated, in base64.
    pub(super) fn into_text(self) -> io::Result<String> {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(&self.bytes)?;
        Ok(STANDARD.encode(encoder.finish()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn small_numbers_take_one_byte_and_no_number_more_than_ten() {
        let mut columns = Columns::default();
        columns.uint(127);
        columns.difference(5, 8);
        assert_eq!(columns.bytes, [127, 5]);
        columns.uint(u64::MAX);
        columns.difference(0, u64::MAX);
        assert_eq!(columns.bytes.len(), 2 + 10 + 1);
    }

    #[test]
    fn the_text_is_the_bytes() {
        let mut columns = Columns::default();
        (0..1000).for_each(|n| columns.uint(n % 3));
        let deflated = STANDARD.decode(columns.into_text().unwrap()).unwrap();
        let mut bytes = Vec::new();
        flate2::read::DeflateDecoder::new(deflated.as_slice()).read_to_end(&mut bytes).unwrap();
        assert_eq!((bytes.len(), &bytes[..4]), (1000, &[0, 1, 2, 0][..]));
        assert!(deflated.len() < 100);
    }
}
