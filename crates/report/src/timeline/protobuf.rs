//! The wire format of protocol buffers, as much of it as a timeline and a profile need.

/// A message that is being written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Message {
    bytes: Vec<u8>,
}

const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const LENGTH: u64 = 2;

impl Message {
    /// An unsigned integer, constant or boolean.
    pub(crate) fn uint(&mut self, field: u64, value: u64) -> &mut Self {
        self.varint(field << 3 | VARINT);
        self.varint(value);
        self
    }

    /// An `int64`.
    pub(crate) fn int(&mut self, field: u64, value: i64) -> &mut Self {
        self.uint(field, value.cast_unsigned())
    }

    /// A `double`.
    pub(crate) fn double(&mut self, field: u64, value: f64) -> &mut Self {
        self.fixed64(field, value.to_bits())
    }

    /// A `fixed64`.
    pub(crate) fn fixed64(&mut self, field: u64, value: u64) -> &mut Self {
        self.varint(field << 3 | FIXED64);
        self.bytes.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// A `string` or `bytes`.
    pub(crate) fn bytes(&mut self, field: u64, value: &[u8]) -> &mut Self {
        self.varint(field << 3 | LENGTH);
        self.varint(value.len() as u64);
        self.bytes.extend_from_slice(value);
        self
    }

    /// A message within this one.
    pub(crate) fn message(&mut self, field: u64, fill: impl FnOnce(&mut Self)) -> &mut Self {
        let mut inner = Self::default();
        fill(&mut inner);
        self.bytes(field, &inner.bytes)
    }

    /// What was written.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Begins anew.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            #[allow(clippy::cast_possible_truncation, reason = "the lowest seven bits")]
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        #[allow(clippy::cast_possible_truncation, reason = "seven bits are left")]
        self.bytes.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_encoding_guide() {
        let mut message = Message::default();
        assert_eq!(message.uint(1, 150).as_bytes(), [0x08, 0x96, 0x01]);
        message.clear();
        assert_eq!(message.bytes(2, b"testing").as_bytes(), b"\x12\x07testing");
        message.clear();
        let inner = message.message(3, |inner| {
            inner.uint(1, 150);
        });
        assert_eq!(inner.as_bytes(), [0x1a, 0x03, 0x08, 0x96, 0x01]);
        message.clear();
        let minus_two = [0x20, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(message.int(4, -2).as_bytes(), minus_two);
    }
}
