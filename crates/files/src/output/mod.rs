//! The one way by which an output file comes into being. It is written beside its destination and takes that name when it
//! is whole; it replaces nothing but an earlier output of the same kind, never an input, never through a symbolic link.
//! This module must not know what the outputs say; `docs/outputs.md` is its rule for users.

mod beside;
mod kind;
mod pipe;
mod place;
mod system;

pub use beside::Beside;
pub use kind::OutputKind;
pub use pipe::{PATIENCE, Pipe, open_reader};
pub use place::{Destination, Request, locked};
#[cfg(target_os = "linux")]
pub(crate) use system::options;
pub use system::{Lock, lock};

use profinfer_diagnostics::{Code, Diagnostic};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// An output that is being written. Dropping it without [`Output::commit`] leaves everything as it was.
#[derive(Debug)]
pub struct Output {
    request: Request,
    to: To,
}

#[derive(Debug)]
enum To {
    Stream(File),
    Beside(Beside),
}

impl Output {
    /// Begins an output.
    ///
    /// # Errors
    /// `U002` where the destination may not be written to, `U003` where a recording writes to it, `R003` where it cannot be.
    pub fn create(request: Request) -> Result<Self, Diagnostic> {
        let failed = |error: io::Error| cannot_write(&request.path, &error);
        let to = match request.place()? {
            Destination::Stream { file, .. } => To::Stream(file),
            Destination::New => To::Beside(Beside::create(&request.path, None).map_err(failed)?),
            Destination::Older(older) => {
                let beside = Beside::create(&request.path, Some(older.mode() & 0o777)).map_err(failed)?;
                beside.like(&older);
                To::Beside(beside)
            }
        };
        Ok(Self { request, to })
    }

    /// What is written to.
    ///
    /// # Errors
    /// The system's, where the descriptor cannot be duplicated.
    pub fn file(&self) -> io::Result<File> {
        match &self.to {
            To::Stream(file) => file.try_clone(),
            To::Beside(beside) => beside.file().try_clone(),
        }
    }

    /// Whether it goes to a pipe or a device, and not to a file.
    pub fn is_stream(&self) -> bool {
        matches!(self.to, To::Stream(_))
    }

    /// The output is whole: it takes its name.
    ///
    /// # Errors
    /// As [`Output::create`]: the destination may have changed meanwhile.
    pub fn commit(self) -> Result<(), Diagnostic> {
        match self.to {
            To::Stream(_) => Ok(()),
            To::Beside(beside) => {
                // Somebody may have put something else there meanwhile.
                match self.request.place()? {
                    Destination::Stream { .. } => Err(self.request.refused("was replaced by a pipe or device")),
                    Destination::New | Destination::Older(_) => beside.commit(&self.request.path),
                }
            }
        }
    }
}

/// The diagnostic for a file that cannot be written.
pub fn cannot_write(path: &Path, error: &io::Error) -> Diagnostic {
    let shown = shown(path);
    let message = match error.kind() {
        io::ErrorKind::BrokenPipe => format!("cannot write to {shown}: its reader has ended"),
        _ => format!("cannot write {shown}: {error}"),
    };
    let hint = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "free disk space, or write elsewhere with `-o FILE`"
        }
        io::ErrorKind::BrokenPipe => "the data written so far is readable",
        _ => "choose another file with `-o FILE`",
    };
    Diagnostic::error(Code::CannotWrite, message).hint(hint)
}

/// A path in a message.
fn shown(path: &Path) -> String {
    if path.as_os_str() == "-" { "standard output".to_owned() } else { path.display().to_string() }
}
