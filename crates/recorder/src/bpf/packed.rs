//! The compiled program between two loads: 1.5 MB, a tenth of it compressed, which is seldom loaded again.

use profinfer_diagnostics::{Code, Diagnostic};
use std::io;

/// Faster than memory is read from a disk.
const LEVEL: i32 = 1;

/// A compressed object.
#[derive(Debug)]
pub(super) struct PackedObject {
    compressed: Vec<u8>,
    size: usize,
}

impl PackedObject {
    /// # Errors
    /// X001: there is no memory.
    pub(super) fn new(object: &[u8]) -> Result<Self, Diagnostic> {
        let mut compressed = zstd::bulk::compress(object, LEVEL).map_err(|error| failed(&error))?;
        compressed.shrink_to_fit();
        Ok(Self { compressed, size: object.len() })
    }

    /// The object.
    ///
    /// # Errors
    /// X001: there is no memory.
    pub(super) fn unpacked(&self) -> Result<Vec<u8>, Diagnostic> {
        zstd::bulk::decompress(&self.compressed, self.size).map_err(|error| failed(&error))
    }
}

fn failed(error: &io::Error) -> Diagnostic {
    Diagnostic::error(Code::Bug, format!("bug: the BPF object cannot be compressed in memory: {error}"))
}
