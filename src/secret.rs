//! Files with secrets: those that other users can read or write are refused.

use profinfer_diagnostics::{Code, Diagnostic, Diagnostics};
use std::fmt::Display;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Permissions of all other users.
const OTHERS: u32 = 0o007;
/// Bytes of such a file; further ones are not read.
const MOST: u64 = 1 << 16;

/// The text in the file that an option names; `make` says how to make one.
pub(crate) fn read(option: &str, file: &Path, make: &str) -> Result<String, Diagnostics> {
    let opened = std::fs::File::open(file).map_err(|error| refused(option, file, &error, make))?;
    let mode = opened.metadata().map_or(OTHERS, |metadata| metadata.mode());
    if mode & OTHERS != 0 {
        let hint = format!("chmod 600 {}", file.display());
        return Err(refused(option, file, &"other users can read or write it", &hint));
    }
    let mut text = String::new();
    let read = opened.take(MOST).read_to_string(&mut text);
    read.map_err(|error| refused(option, file, &error, make))?;
    Ok(text)
}

/// What is wrong with the file that an option names.
pub(crate) fn refused(option: &str, file: &Path, problem: &dyn Display, hint: &str) -> Diagnostics {
    Diagnostic::error(Code::BadArgument, format!("{option} {}: {problem}", file.display())).hint(hint).into()
}
