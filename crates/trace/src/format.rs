//! The bytes of a trace file, as far as the frames; `block` has what is inside an events frame. Change anything here
//! or there and you bump [`VERSION`], describe it in `docs/trace-format.md`, and add a stored trace to
//! `tests/traces/`: older ones stay readable for ever.
//!
//! All numbers are little-endian.
//!
//! ```text
//! file = file header, frame*
//!
//! file header, 16 bytes
//!  0  u8[8] magic     89 'P' 'F' 'I' 0d 0a 1a 0a
//!  8  u32   version   1
//! 12  u32   reserved  0
//!
//! frame = frame header, payload
//!
//! frame header, 24 bytes
//!  0  u8[4] mark      f5 'P' 'F' 0a
//!  4  u8    kind      see FrameKind
//!  5  u8    flags     bit 0  COMPRESSED  the payload is one zstd frame
//!                     bit 1  MAY_SKIP    a reader that does not know the kind leaves the frame out
//!  6  u16   reserved  0
//!  8  u32   stored    bytes of the payload in the file
//! 12  u32   raw       bytes of the payload once decompressed; = stored where it is not compressed
//! 16  u32   checksum  CRC-32 (ISO-HDLC, as in zip and PNG) of the payload as stored
//! 20  u32   checksum  CRC-32 of bytes 0..20 of this header
//! ```
//!
//! The header's checksum lets a reader trust `stored`, and so step over a payload that is damaged. Where a header
//! is damaged, the mark and its checksum find the next one.

/// What a trace starts with. The byte above 0x7f, the line ends and the ^Z show a file that went through a text-mode
/// transfer.
pub(super) const MAGIC: [u8; 8] = *b"\x89PFI\r\n\x1a\n";

/// The version that is written, and the newest one that is read.
pub(super) const VERSION: u32 = 1;

/// Bytes of the file header.
pub(super) const FILE_HEADER_SIZE: usize = 16;

/// What a frame starts with. The first byte is in no UTF-8 text.
pub(super) const MARK: [u8; 4] = *b"\xf5PF\n";

/// Bytes of a frame header.
pub(super) const FRAME_HEADER_SIZE: usize = 24;

/// Flag: the payload is one zstd frame.
pub(super) const COMPRESSED: u8 = 1;

/// Flag: a reader that does not know the kind leaves the frame out. Without it the trace is too new for that reader.
pub(super) const MAY_SKIP: u8 = 2;

/// Bytes of an events payload, as well as of the records in it, are at most this many.
pub(super) const MAX_BLOCK: usize = 4 << 20;

/// Bytes of any other payload.
pub(super) const MAX_METADATA: usize = 16 << 20;

/// Bytes of all sites payloads together, decompressed, as of all that samples refer to: a reader stores them.
pub(super) const MAX_STORED: usize = 32 << 20;

/// Bytes of all notices that a reader stores, by [`super::meta::remembered`]. It goes on without those beyond.
pub(super) const MAX_NOTICES: usize = 64 << 20;

/// What a notice that is stored counts for, besides its text and lists.
pub(super) const NOTICE_BYTES: usize = 128;

/// Bytes of a record, tail included.
pub(super) const MAX_RECORD: usize = 256 << 10;

/// Record types of a schema; higher numbers never reach a trace.
pub(super) const MAX_TYPES: usize = 4096;

/// Modules of a trace.
pub(super) const MAX_MODULES: usize = 4096;

/// What a frame holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FrameKind {
    /// `Origin` as JSON: the first frame.
    Origin = 1,
    /// `Schema` as JSON: before the first events.
    Schema = 2,
    /// Modules and sites as JSON (`SitesFrame`); they append to those before.
    Sites = 3,
    /// Records: a block.
    Events = 4,
    /// Losses so far, as JSON.
    Losses = 5,
    /// `Notice` as JSON.
    Notice = 6,
    /// `End` as JSON: the last frame.
    End = 7,
    /// Timer samples. May be skipped.
    Samples = 8,
    /// `Sampling` as JSON: what samples refer to. May be skipped.
    Sampling = 9,
}

impl FrameKind {
    /// The kind of that number.
    fn from_number(number: u8) -> Option<Self> {
        const ALL: [FrameKind; 9] = [
            FrameKind::Origin,
            FrameKind::Schema,
            FrameKind::Sites,
            FrameKind::Events,
            FrameKind::Losses,
            FrameKind::Notice,
            FrameKind::End,
            FrameKind::Samples,
            FrameKind::Sampling,
        ];
        ALL.into_iter().find(|kind| *kind as u8 == number)
    }

    /// Its name, for messages.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Origin => "origin",
            Self::Schema => "schema",
            Self::Sites => "sites",
            Self::Events => "events",
            Self::Losses => "losses",
            Self::Notice => "notice",
            Self::End => "end",
            Self::Samples => "samples",
            Self::Sampling => "sampling",
        }
    }

    /// The flags that its frames have whatever their payload is: readers before these kinds leave them out.
    pub(super) fn flags(self) -> u8 {
        if matches!(self, Self::Samples | Self::Sampling) { MAY_SKIP } else { 0 }
    }

    /// The most bytes its payload has, decompressed.
    pub(super) fn max_raw(self) -> usize {
        if self == Self::Events { MAX_BLOCK } else { MAX_METADATA }
    }
}

/// A frame's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FrameHeader {
    /// The kind's number, which may be one that this version does not know.
    pub(super) kind: u8,
    /// [`COMPRESSED`], [`MAY_SKIP`].
    pub(super) flags: u8,
    /// Bytes of the payload in the file.
    pub(super) stored: u32,
    /// Bytes of the payload once decompressed.
    pub(super) raw: u32,
    /// Checksum of the payload as stored.
    pub(super) checksum: u32,
}

impl FrameHeader {
    /// The kind, if this version supports it.
    pub(super) fn known_kind(&self) -> Option<FrameKind> {
        FrameKind::from_number(self.kind)
    }

    /// Its bytes.
    pub(super) fn to_bytes(self) -> [u8; FRAME_HEADER_SIZE] {
        let mut bytes = [0; FRAME_HEADER_SIZE];
        bytes[..4].copy_from_slice(&MARK);
        bytes[4] = self.kind;
        bytes[5] = self.flags;
        bytes[8..12].copy_from_slice(&self.stored.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.raw.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.checksum.to_le_bytes());
        let own = crc32fast::hash(&bytes[..20]);
        bytes[20..].copy_from_slice(&own.to_le_bytes());
        bytes
    }

    /// Reads one; `None` where the mark, the checksum or a length is wrong.
    pub(super) fn from_bytes(bytes: &[u8; FRAME_HEADER_SIZE]) -> Option<Self> {
        let number = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        if bytes[..4] != MARK || number(20) != crc32fast::hash(&bytes[..20]) {
            return None;
        }
        let header = Self { kind: bytes[4], flags: bytes[5], stored: number(8), raw: number(12), checksum: number(16) };
        let fits = |length: u32| length as usize <= MAX_METADATA;
        (fits(header.stored) && fits(header.raw)).then_some(header)
    }
}

/// The file header's bytes.
pub(super) fn file_header() -> [u8; FILE_HEADER_SIZE] {
    let mut bytes = [0; FILE_HEADER_SIZE];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_header_survives_its_bytes_and_no_flipped_bit() {
        let header = FrameHeader { kind: 4, flags: COMPRESSED, stored: 77, raw: 1000, checksum: 0xdead_beef };
        let bytes = header.to_bytes();
        assert_eq!(FrameHeader::from_bytes(&bytes), Some(header));
        for bit in 0..FRAME_HEADER_SIZE * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(FrameHeader::from_bytes(&flipped), None, "bit {bit}");
        }
    }

    #[test]
    fn a_header_with_a_length_beyond_every_bound_is_none() {
        let header = FrameHeader { kind: 4, flags: 0, stored: u32::MAX, raw: 1, checksum: 0 };
        assert_eq!(FrameHeader::from_bytes(&header.to_bytes()), None);
    }
}
