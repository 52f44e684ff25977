//! The compiled program between two loads: 2 MB, a tenth of it compressed, which is seldom loaded again.

use object::{File, Object, ObjectSection};
use profinfer_diagnostics::{Code, Diagnostic};
use std::io;

/// Faster than memory is read from a disk.
const LEVEL: i32 = 1;

/// How the names of sections begin that nobody reads.
const UNREAD: [&str; 3] = [".debug", ".rel.debug", ".rel.BTF"];

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
        let mut compressed = zstd::bulk::compress(&without_debugging(object), LEVEL).map_err(|error| failed(&error))?;
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

/// The object with zeros in place of what is for debuggers and linkers: neither libbpf nor the kernel reads it, and clang
/// has no option to leave it out.
fn without_debugging(object: &[u8]) -> Vec<u8> {
    let mut bytes = object.to_vec();
    let Ok(file) = File::parse(object) else { return bytes };
    for section in file.sections() {
        let is_unread = section.name().is_ok_and(|name| UNREAD.iter().any(|unread| name.starts_with(unread)));
        let Some((start, size)) = section.file_range().filter(|_| is_unread) else { continue };
        let (Ok(start), Ok(size)) = (usize::try_from(start), usize::try_from(size)) else { continue };
        if let Some(unread) = bytes.get_mut(start..start.saturating_add(size)) {
            unread.fill(0);
        }
    }
    bytes
}

fn failed(error: &io::Error) -> Diagnostic {
    Diagnostic::error(Code::Bug, format!("bug: the BPF object cannot be compressed in memory: {error}"))
}
