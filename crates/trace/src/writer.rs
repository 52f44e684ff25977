//! Writes a trace, in constant memory. Each frame goes out in one write, so that a file is readable up to the last
//! whole frame whatever happens to the writer.

use super::block::BlockEncoder;
use super::column::ColumnEncoder;
use super::format::{
    COMPRESSED, FrameHeader, FrameKind, MAX_BLOCK, MAX_METADATA, MAX_NOTICES, MAX_STORED, file_header,
};
use super::layout::{Layout, layouts};
use super::meta::{SitesFrame, remembered};
use super::samples;
use indexmap::IndexMap;
use profinfer_schema::{End, HEADER_SIZE, Loss, ModuleInfo, Notice, Origin, Sample, Sampling, Schema, Site};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// A block is closed once its records have this many bytes: more compress hardly better.
const BLOCK_BYTES: usize = 1 << 20;
/// The same where the trace is read while it is written: writer and reader have several copies of a block in memory.
const SMALL_BLOCK_BYTES: usize = 1 << 16;

/// Samples of a frame: some seconds of a thread.
const SAMPLES: usize = 4096;

/// Notices that a reader stores may have so many bytes before those that tell least are left out: what tells the state of
/// the probes is to be remembered to the end.
const CROWDED: usize = MAX_NOTICES / 2;

/// Payloads shorter than this are not compressed.
const COMPRESS_FROM: usize = 128;

/// Columns leave little for higher levels to find.
const LEVEL: i32 = 1;

/// Why a record was not taken.
#[derive(Debug)]
pub enum PushError {
    /// The record is not one of the schema: it is left out, and the writer goes on. A fault of the recorder.
    Malformed(String),
    /// The trace cannot be written.
    Write(io::Error),
}

impl From<io::Error> for PushError {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

impl std::fmt::Display for PushError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Malformed(what) => write!(f, "malformed record: {what}"),
            Self::Write(error) => write!(f, "cannot write the trace: {error}"),
        }
    }
}

impl std::error::Error for PushError {}

/// Writes a trace to `W`, which need not be buffered.
///
/// ```
/// use profinfer_trace::{End, Origin, Schema, TraceWriter};
///
/// let mut writer = TraceWriter::new(Vec::new(), &Origin::default(), &Schema::default())?;
/// writer.flush()?;
/// let file = writer.finish(&End { reason: "the target ended".into(), ..End::default() })?;
/// assert!(file.starts_with(b"\x89PFI"));
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct TraceWriter<W> {
    output: W,
    layouts: Vec<Layout>,
    block: BlockEncoder,
    payload: Vec<u8>,
    frame: Vec<u8>,
    compressor: Option<zstd::bulk::Compressor<'static>>,
    modules: usize,
    /// Bytes that a reader stores of sites, and of notices.
    sites: usize,
    notices: usize,
    is_crowded: bool,
    is_followed: bool,
    samples: Vec<Sample>,
    records: u64,
    bytes: u64,
}

impl<W> std::fmt::Debug for TraceWriter<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TraceWriter")
            .field("records", &self.records)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

impl<W: Write> TraceWriter<W> {
    /// Starts a trace.
    ///
    /// # Errors
    /// `InvalidInput` for a schema that no plan makes; else the output's errors.
    pub fn new(output: W, origin: &Origin, schema: &Schema) -> io::Result<Self> {
        Self::start(output, origin, schema, Some(zstd::bulk::Compressor::new(LEVEL)?))
    }

    /// Starts a trace whose frames are not compressed, for readers that have no zstd.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn uncompressed(output: W, origin: &Origin, schema: &Schema) -> io::Result<Self> {
        Self::start(output, origin, schema, None)
    }

    fn start(
        output: W,
        origin: &Origin,
        schema: &Schema,
        compressor: Option<zstd::bulk::Compressor<'static>>,
    ) -> io::Result<Self> {
        let layouts = layouts(schema).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let (block, payload, frame) = (BlockEncoder::new(), Vec::new(), Vec::new());
        let mut writer = Self {
            output,
            layouts,
            block,
            payload,
            frame,
            compressor,
            modules: 0,
            sites: 0,
            notices: 0,
            is_crowded: false,
            is_followed: false,
            samples: Vec::new(),
            records: 0,
            bytes: 0,
        };
        let header = file_header();
        writer.output.write_all(&header)?;
        writer.bytes += header.len() as u64;
        writer.json(FrameKind::Origin, origin)?;
        writer.json(FrameKind::Schema, schema)?;
        Ok(writer)
    }

    /// What the trace is written to. Nothing else may be written there.
    pub fn output(&mut self) -> &mut W {
        &mut self.output
    }

    /// Adds a record as it came from the ring. Up to seven bytes of padding at its end are dropped.
    ///
    /// # Errors
    /// [`PushError::Malformed`] where the record is not one of the schema, [`PushError::Write`] where a block could
    /// not be written.
    pub fn push(&mut self, record: &[u8]) -> Result<(), PushError> {
        let size = self.size_of(record).map_err(PushError::Malformed)?;
        if self.block.len() + size > MAX_BLOCK {
            self.close_block()?;
        }
        self.block.push(&record[..size]);
        self.records += 1;
        let enough = if self.is_followed { SMALL_BLOCK_BYTES } else { BLOCK_BYTES };
        if self.block.len() >= enough {
            self.close_block()?;
        }
        Ok(())
    }

    /// Adds modules, which sites number in the order they are added, and sites. Before the first record of a site.
    ///
    /// # Errors
    /// The output's.
    pub fn add_sites(&mut self, modules: &[ModuleInfo], sites: &[Site]) -> io::Result<()> {
        let (first_module, enums) = (self.modules, IndexMap::new());
        self.modules += modules.len();
        self.sites_frame(&SitesFrame { first_module, modules: modules.to_vec(), sites: sites.to_vec(), enums })
    }

    /// Adds enumerations of a library that was mapped later, to those of the schema; one of the
    /// same name is replaced. Before the first record that uses them.
    ///
    /// # Errors
    /// The output's.
    pub fn add_enums(&mut self, enums: &IndexMap<String, BTreeMap<i64, String>>) -> io::Result<()> {
        self.sites_frame(&SitesFrame { first_module: self.modules, enums: enums.clone(), ..SitesFrame::default() })
    }

    /// Says what was lost so far, since the start: it replaces the previous list.
    ///
    /// # Errors
    /// The output's.
    pub fn losses(&mut self, losses: &[Loss]) -> io::Result<()> {
        self.json(FrameKind::Losses, losses)
    }

    /// Somebody reads the trace while it is written: no notice is left out, since only the last ones are remembered, and
    /// blocks are small.
    pub fn follow(&mut self) {
        self.is_followed = true;
    }

    /// Says that a state of the recording changed. A recording of days has more to tell than a reader stores: from some time
    /// on, which a notice gives, it is not told what resources there were and how fast processors ran.
    ///
    /// # Errors
    /// The output's.
    pub fn notice(&mut self, notice: &Notice) -> io::Result<()> {
        if self.is_followed || self.notices < CROWDED {
            self.notices += remembered(notice).unwrap_or(0);
            return self.json(FrameKind::Notice, notice);
        }
        if !std::mem::replace(&mut self.is_crowded, true) {
            let text = "there are too many notices: resources and frequencies are not recorded from here on";
            self.json(FrameKind::Notice, &Notice { time: notice.time, text: text.to_owned(), ..Notice::default() })?;
        }
        let (pressure, frequencies) = (None, None);
        // The text of a list of mapped files gives its length.
        let text = if notice.mapped.is_some() || notice.frequencies.is_some() { "" } else { &notice.text };
        let left = Notice { pressure, frequencies, text: text.to_owned(), ..notice.clone() };
        if remembered(&left).is_some() || left.mapped.is_some() || left.overhead.is_some() {
            self.json(FrameKind::Notice, &left)?;
        }
        Ok(())
    }

    /// Adds a timer sample. It comes before every record that is pushed after it.
    ///
    /// # Errors
    /// The output's.
    pub fn sample(&mut self, sample: Sample) -> io::Result<()> {
        self.samples.push(sample);
        if self.samples.len() >= SAMPLES { self.close_samples() } else { Ok(()) }
    }

    /// Adds what samples refer to.
    ///
    /// # Errors
    /// The output's.
    pub fn sampling(&mut self, sampling: &Sampling) -> io::Result<()> {
        self.json(FrameKind::Sampling, sampling)
    }

    /// Writes what has been gathered. Called about once a second, so that a recorder that is killed loses no more.
    ///
    /// # Errors
    /// The output's.
    pub fn flush(&mut self) -> io::Result<()> {
        self.close_block()?;
        self.output.flush()
    }

    /// Ends the trace and gives the output back. `end.records` is filled in.
    ///
    /// # Errors
    /// The output's.
    pub fn finish(mut self, end: &End) -> io::Result<W> {
        let end = End { records: self.records, ..end.clone() };
        self.json(FrameKind::End, &end)?;
        self.output.flush()?;
        Ok(self.output)
    }

    /// Records taken so far.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Bytes written so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The record's length without padding.
    fn size_of(&self, record: &[u8]) -> Result<usize, String> {
        let length = record.len();
        if length < HEADER_SIZE as usize {
            return Err(format!("{length} bytes are too few for a header"));
        }
        let ty = u16::from_le_bytes([record[0], record[1]]);
        let layout = self.layouts.get(usize::from(ty)).ok_or_else(|| format!("unknown record type {ty}"))?;
        let size = layout
            .record_size(record)
            .ok_or_else(|| format!("{length} bytes are too few for a record of type {ty}"))?;
        if length >= size + 8 {
            return Err(format!("{length} bytes are too many for a record of type {ty}, which has {size} bytes"));
        }
        Ok(size)
    }

    fn close_samples(&mut self) -> io::Result<()> {
        if self.samples.is_empty() {
            return Ok(());
        }
        self.payload.clear();
        samples::encode(&self.samples, &mut ColumnEncoder::new(), &mut self.payload);
        self.samples.clear();
        self.write_frame(FrameKind::Samples)
    }

    /// Samples first: they were taken before the spans that they are in have ended.
    fn close_block(&mut self) -> io::Result<()> {
        self.close_samples()?;
        if self.block.len() == 0 {
            return Ok(());
        }
        self.payload.clear();
        self.block.encode(&self.layouts, &mut self.payload);
        self.write_frame(FrameKind::Events)
    }

    fn sites_frame(&mut self, frame: &SitesFrame) -> io::Result<()> {
        self.json(FrameKind::Sites, frame)?;
        self.sites += self.payload.len();
        Ok(())
    }

    /// Closes the block first: frames stay in the order of the calls.
    fn json(&mut self, kind: FrameKind, value: &(impl Serialize + ?Sized)) -> io::Result<()> {
        self.close_block()?;
        self.payload.clear();
        serde_json::to_writer(&mut self.payload, value)?;
        let most = if kind == FrameKind::Sites { (MAX_STORED - self.sites).min(MAX_METADATA) } else { MAX_METADATA };
        if self.payload.len() > most {
            let most = if most < MAX_METADATA { MAX_STORED } else { MAX_METADATA };
            let message = format!("the trace's {} are longer than {most} bytes", kind.name());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        self.write_frame(kind)
    }

    fn write_frame(&mut self, kind: FrameKind) -> io::Result<()> {
        let header_size = super::format::FRAME_HEADER_SIZE;
        let raw = self.payload.len() as u32;
        self.frame.clear();
        self.frame.resize(header_size, 0);
        let mut flags = 0;
        if let Some(compressor) = self.compressor.as_mut().filter(|_| self.payload.len() >= COMPRESS_FROM) {
            let mut compressed = std::mem::take(&mut self.frame);
            compressed.resize(header_size + zstd::zstd_safe::compress_bound(self.payload.len()), 0);
            let length = compressor.compress_to_buffer(&self.payload, &mut compressed[header_size..])?;
            compressed.truncate(header_size + length);
            self.frame = compressed;
            flags = COMPRESSED;
        }
        if flags == 0 || self.frame.len() - header_size >= self.payload.len() {
            flags = 0;
            self.frame.truncate(header_size);
            self.frame.extend_from_slice(&self.payload);
        }
        let stored = &self.frame[header_size..];
        let header = FrameHeader {
            kind: kind as u8,
            flags: flags | kind.flags(),
            stored: stored.len() as u32,
            raw,
            checksum: crc32fast::hash(stored),
        };
        self.frame[..header_size].copy_from_slice(&header.to_bytes());
        self.output.write_all(&self.frame)?;
        self.bytes += self.frame.len() as u64;
        Ok(())
    }
}
