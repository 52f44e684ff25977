//! From bytes to whole, undamaged, decompressed frames. Damaged ones are left out, each with a problem and its offset.

use super::format::{
    COMPRESSED, FILE_HEADER_SIZE, FRAME_HEADER_SIZE, FrameHeader, FrameKind, MAGIC, MARK, MAX_METADATA, MAY_SKIP,
    VERSION,
};
use profinfer_diagnostics::{Code, Diagnostic};
use std::io::{BufReader, ErrorKind, Read};

/// A frame whose payload is in [`Frames::payload`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame {
    pub(super) kind: FrameKind,
    /// Bytes from the start of the file.
    offset: u64,
}

impl Frame {
    /// A problem with its contents.
    pub(super) fn problem(&self, what: &str) -> Diagnostic {
        damaged(self.kind.name(), self.offset, what)
    }
}

fn damaged(name: &str, offset: u64, what: &str) -> Diagnostic {
    let message = format!("the {name} frame at byte {offset} is damaged and was skipped: {what}");
    Diagnostic::error(Code::TraceCorrupt, message)
        .hint("the rest of the trace was read; if the file is a copy, copy it again")
}

/// The frames of a file.
pub(super) struct Frames<R> {
    input: BufReader<R>,
    /// Bytes read so far.
    offset: u64,
    stored: Vec<u8>,
    raw: Vec<u8>,
    /// The payload is in `raw`, not in `stored`.
    in_raw: bool,
    decompressor: Option<zstd::bulk::Decompressor<'static>>,
    /// A header that was found, with its place, behind bytes that are none.
    found: Option<(FrameHeader, u64)>,
    /// There is no more to read.
    done: bool,
    /// Why the trace ends where it does.
    why: Option<Diagnostic>,
}

impl<R: Read> Frames<R> {
    /// Reads the file header; gives the version as well.
    pub(super) fn new(input: R) -> Result<(Self, u32), Diagnostic> {
        let mut input = BufReader::with_capacity(1 << 16, input);
        let mut header = [0; FILE_HEADER_SIZE];
        let length = fill(&mut input, &mut header).map_err(|error| unreadable(&error))?;
        if length < FILE_HEADER_SIZE || header[..8] != MAGIC {
            return Err(not_a_trace(&header[..length]));
        }
        let version = u32::from_le_bytes([header[8], header[9], header[10], header[11]]);
        if version != VERSION {
            let message = format!("the trace has format version {version}; this profinfer supports version {VERSION}");
            return Err(Diagnostic::error(Code::TraceTooNew, message)
                .hint("use the profinfer that recorded it, or a newer one"));
        }
        let frames = Self {
            input,
            offset: FILE_HEADER_SIZE as u64,
            stored: Vec::new(),
            raw: Vec::new(),
            in_raw: false,
            decompressor: None,
            found: None,
            done: false,
            why: None,
        };
        Ok((frames, version))
    }

    /// The payload of the frame that [`Self::next`] gave last.
    pub(super) fn payload(&self) -> &[u8] {
        if self.in_raw { &self.raw } else { &self.stored }
    }

    /// Bytes read so far.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Why the trace ends where it does, if there is a reason: not used before its end.
    pub(super) fn why_it_ends(&mut self) -> Option<Diagnostic> {
        self.why.take()
    }

    fn end(&mut self, why: Diagnostic) {
        self.done = true;
        self.why = Some(why);
    }

    /// The next valid frame of a supported kind, or a note of the bytes skipped before it; `None` at the end.
    pub(super) fn next(&mut self) -> Option<Result<Frame, Diagnostic>> {
        while !self.done {
            let (header, offset) = match self.found.take().map_or_else(|| self.header(), |found| Some(Ok(found)))? {
                Ok(found) => found,
                Err(problem) => return Some(Err(problem)),
            };
            self.read_payload(&header, offset)?;
            let Some(kind) = header.known_kind() else {
                if header.flags & MAY_SKIP == 0 {
                    let message = format!("the trace has a frame of unknown kind {} at byte {offset}", header.kind);
                    let why = Diagnostic::error(Code::TraceTooNew, message);
                    self.end(why.hint("everything before it was read; use a newer profinfer for the rest"));
                }
                continue;
            };
            let frame = Frame { kind, offset };
            let checked = self.check_payload(&header, kind);
            return Some(checked.map(|()| frame).map_err(|what| frame.problem(&what)));
        }
        None
    }

    /// The next frame header and where it is, or that there is something else before it.
    fn header(&mut self) -> Option<Result<(FrameHeader, u64), Diagnostic>> {
        let offset = self.offset;
        let mut bytes = [0; FRAME_HEADER_SIZE];
        let length = self.read(&mut bytes)?;
        if length == 0 {
            self.done = true;
            return None;
        }
        if length < bytes.len() {
            self.end(cut(offset));
            return None;
        }
        if let Some(header) = FrameHeader::from_bytes(&bytes) {
            return Some(Ok((header, offset)));
        }
        self.found = self.find_header(&mut bytes);
        let skipped = self.found.map_or(self.offset, |(_, at)| at) - offset;
        let message = format!("{skipped} bytes at byte {offset} are not a frame and were skipped");
        Some(Err(Diagnostic::error(Code::TraceCorrupt, message)))
    }

    /// Moves on byte by byte until the window holds a header.
    fn find_header(&mut self, window: &mut [u8; FRAME_HEADER_SIZE]) -> Option<(FrameHeader, u64)> {
        loop {
            let next = (1..FRAME_HEADER_SIZE).find(|at| MARK.starts_with(&window[*at..FRAME_HEADER_SIZE.min(at + 4)]));
            let keep = FRAME_HEADER_SIZE - next.unwrap_or(FRAME_HEADER_SIZE);
            window.copy_within(FRAME_HEADER_SIZE - keep.., 0);
            if self.read(&mut window[keep..])? < FRAME_HEADER_SIZE - keep {
                self.done = true;
                return None;
            }
            if let Some(header) = FrameHeader::from_bytes(window) {
                return Some((header, self.offset - FRAME_HEADER_SIZE as u64));
            }
        }
    }

    /// Reads the payload as stored; `None` where the file ends within it.
    fn read_payload(&mut self, header: &FrameHeader, offset: u64) -> Option<()> {
        let mut stored = std::mem::take(&mut self.stored);
        stored.resize(header.stored as usize, 0);
        let length = self.read(&mut stored);
        self.stored = stored;
        if length? < header.stored as usize {
            self.end(cut(offset));
            return None;
        }
        Some(())
    }

    /// Checks and decompresses the payload.
    fn check_payload(&mut self, header: &FrameHeader, kind: FrameKind) -> Result<(), String> {
        if crc32fast::hash(&self.stored) != header.checksum {
            return Err("its checksum is wrong".into());
        }
        let raw = header.raw as usize;
        if raw > kind.max_raw() {
            return Err(format!("it is longer than {} bytes", kind.max_raw()));
        }
        self.in_raw = header.flags & COMPRESSED != 0;
        if self.in_raw {
            self.decompress(raw).map_err(|error| format!("it does not decompress: {error}"))?;
        }
        if self.payload().len() == raw { Ok(()) } else { Err("its length is wrong".into()) }
    }

    fn decompress(&mut self, raw: usize) -> std::io::Result<()> {
        let decompressor = match &mut self.decompressor {
            Some(decompressor) => decompressor,
            none => none.insert(zstd::bulk::Decompressor::new()?),
        };
        self.raw.resize(raw.min(MAX_METADATA), 0);
        let length = decompressor.decompress_to_buffer(&self.stored, &mut self.raw[..])?;
        self.raw.truncate(length);
        Ok(())
    }

    /// Reads until `bytes` are full or the input ends; `None` where it cannot be read.
    fn read(&mut self, bytes: &mut [u8]) -> Option<usize> {
        match fill(&mut self.input, bytes) {
            Ok(length) => {
                self.offset += length as u64;
                Some(length)
            }
            Err(error) => {
                self.end(unreadable(&error));
                None
            }
        }
    }
}

fn fill(input: &mut impl Read, bytes: &mut [u8]) -> std::io::Result<usize> {
    let mut length = 0;
    while length < bytes.len() {
        match input.read(&mut bytes[length..]) {
            Ok(0) => break,
            Ok(n) => length += n,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

fn unreadable(error: &std::io::Error) -> Diagnostic {
    Diagnostic::error(Code::TraceUnreadable, format!("cannot read the trace: {error}"))
}

fn cut(offset: u64) -> Diagnostic {
    let message = format!("the trace ends inside the frame at byte {offset}; everything before it was read");
    Diagnostic::warning(Code::TraceCut, message)
}

fn not_a_trace(start: &[u8]) -> Diagnostic {
    let diagnostic = Diagnostic::error(Code::NotATrace, "the file is not a profinfer trace");
    if start.is_empty() {
        return diagnostic.with_note("it is empty");
    }
    // A transfer as text changes line ends, or drops the eighth bit.
    if start.get(1..4) == Some(b"PFI") {
        return diagnostic.hint("the file was converted as text; copy it again in binary mode");
    }
    diagnostic.hint("give a trace written by `profinfer record`, usually a .pfi file")
}
