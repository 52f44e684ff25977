//! Files of others, of which no more than so many bytes are read.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The first bytes of a file, `most` at most.
pub(crate) fn read(path: impl AsRef<Path>, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}
