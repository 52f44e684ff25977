//! Segments of a recording that goes on: each is a trace. What it begins with ends with its first losses frame.

use super::carried::Carried;
use super::references::References;
use crate::meta::Meta;
use crate::reader::Item;
use crate::writer::TraceWriter;
use profinfer_schema::Origin;
use std::io::{self, Write};

/// A recording that is written as segments, one after the other.
#[derive(Debug)]
pub struct Segments {
    carried: Carried,
}

impl Segments {
    /// Of a recording whose header was read.
    pub fn new(meta: &Meta) -> Self {
        Self { carried: Carried::new(&meta.schema) }
    }

    /// Takes an item of the recording: into the segment, if there is one.
    ///
    /// # Errors
    /// The output's: the segment is then cut off, and another one can be begun.
    pub fn take<W: Write>(&mut self, item: &Item<'_>, segment: Option<&mut Segment<W>>) -> io::Result<()> {
        match item {
            Item::Record(record) => drop(self.carried.record(record)),
            Item::Notice(notice) => self.carried.notice(notice),
            _ => {}
        }
        segment.map_or(Ok(()), |segment| segment.take(item))
    }

    /// Begins a segment, at this time. The metadata is the recording's, as far as it has been read.
    ///
    /// # Errors
    /// The output's.
    pub fn begin<W: Write>(&self, output: W, meta: &Meta, time: u64) -> io::Result<Segment<W>> {
        // Its names are those of one engine.
        let origin = Origin { parts: Vec::new(), ..meta.origin.clone() };
        let mut writer = TraceWriter::new(output, &origin, &meta.schema)?;
        let mut references = References::new(meta);
        references.sites(&mut writer, meta)?;
        references.sampling(&mut writer, meta, None)?;
        self.carried.write(&mut writer, time)?;
        writer.losses(&meta.losses)?;
        Ok(Segment { writer, references })
    }
}

/// A segment that is written. It has no end frame: what is written is readable at any time.
#[derive(Debug)]
pub struct Segment<W> {
    pub(super) writer: TraceWriter<W>,
    references: References,
}

impl<W: Write> Segment<W> {
    fn take(&mut self, item: &Item<'_>) -> io::Result<()> {
        match item {
            Item::Record(record) => super::push(&mut self.writer, record.bytes()),
            Item::Notice(notice) => self.writer.notice(notice),
            Item::Losses(losses) => self.writer.losses(losses),
            Item::Samples(samples) => samples.iter().try_for_each(|sample| self.writer.sample(sample.clone())),
            Item::Sites { .. } | Item::End(_) => Ok(()),
        }
    }

    /// Adds the metadata that has come: after each item that brought sites, and now and then.
    ///
    /// # Errors
    /// The output's.
    pub fn refer(&mut self, meta: &Meta) -> io::Result<()> {
        self.references.sites(&mut self.writer, meta)?;
        self.references.sampling(&mut self.writer, meta, None)
    }

    /// Writes what has been gathered.
    ///
    /// # Errors
    /// The output's.
    pub fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }

    /// Bytes written so far.
    pub fn bytes(&self) -> u64 {
        self.writer.bytes()
    }
}
