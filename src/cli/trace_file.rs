//! Opens the trace that a subcommand is given.

use crate::diag::{Code, Diagnostic, Diagnostics};
use crate::trace::TraceReader;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// A reader of any input.
pub(crate) type AnyReader = TraceReader<Box<dyn Read>>;

/// Opens a trace; `-` is standard input.
pub(crate) fn open(path: &Path) -> Result<AnyReader, Diagnostics> {
    if path.as_os_str() == "-" {
        return TraceReader::new(Box::new(io::stdin()));
    }
    let input: Box<dyn Read> = match File::open(path) {
        Ok(file) => Box::new(file),
        Err(error) => return Err(unreadable(path, &error).into()),
    };
    TraceReader::new(input)
}

fn unreadable(path: &Path, error: &io::Error) -> Diagnostic {
    let diagnostic = Diagnostic::error(Code::TraceUnreadable, format!("cannot read {}: {error}", path.display()));
    match error.kind() {
        io::ErrorKind::NotFound => diagnostic.hint("`profinfer record -o FILE …` writes a trace"),
        io::ErrorKind::PermissionDenied => diagnostic.hint("it was perhaps recorded by root: change its owner"),
        _ => diagnostic,
    }
}
