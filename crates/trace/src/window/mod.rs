//! Parts of a recording as traces of their own: [`Segment`]s while it goes on, and [`cut()`], which makes one trace of a
//! time within segments. A part begins with what its records refer to, and threads number their records anew, so that
//! readers need to know nothing of parts.

mod carried;
mod cut;
mod references;
mod segment;
#[cfg(test)]
mod tests;

pub use cut::{Cut, Part, cut};
pub use segment::{Segment, Segments};

use crate::writer::{PushError, TraceWriter};
use std::io::{self, Write};

/// Where a record's number is.
const NUMBER: std::ops::Range<usize> = 12..16;

/// Gives a record another number.
fn number(record: &mut [u8], number: u32) {
    if let Some(bytes) = record.get_mut(NUMBER) {
        bytes.copy_from_slice(&number.to_le_bytes());
    }
}

/// Adds a record that was read from a trace of the same schema.
fn push<W: Write>(writer: &mut TraceWriter<W>, record: &[u8]) -> io::Result<()> {
    writer.push(record).map_err(|error| match error {
        PushError::Write(error) => error,
        PushError::Malformed(what) => io::Error::new(io::ErrorKind::InvalidData, what),
    })
}
