//! How subcommands write files: through `output`, with one option for all of them.

use profinfer_diagnostics::Diagnostics;
use profinfer_files::output::{Output, OutputKind, Request, cannot_write};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// The option of every subcommand that writes a file.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Force {
    /// Replace any existing file, except an input of this command or a probeset
    #[arg(long = "force")]
    pub(crate) is_forced: bool,
}

impl Force {
    /// A requested output, of data read from `inputs`.
    pub(crate) fn request(self, path: &Path, kind: OutputKind, inputs: &[&Path]) -> Request {
        let inputs = inputs.iter().map(|input| input.to_path_buf()).collect();
        Request { path: path.to_owned(), kind, force: self.is_forced, inputs }
    }
}

/// Writes an output through `write`, which must flush what it is given. What reads a pipe may end before all is written.
pub(crate) fn write_through<T>(
    request: Request,
    write: impl FnOnce(File) -> Result<io::Result<T>, Diagnostics>,
) -> Result<Option<T>, Diagnostics> {
    let path = request.path.clone();
    let failed = |error: &io::Error| Diagnostics::from(cannot_write(&path, error));
    let output = Output::create(request)?;
    let file = output.file().map_err(|error| failed(&error))?;
    match write(file)? {
        Ok(written) => {
            output.commit()?;
            Ok(Some(written))
        }
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe && output.is_stream() => Ok(None),
        Err(error) => Err(failed(&error)),
    }
}

/// Writes an output that is at hand as a whole.
pub(crate) fn write_whole(request: Request, bytes: &[u8]) -> Result<(), Diagnostics> {
    write_through(request, |mut file| Ok(file.write_all(bytes).and_then(|()| file.flush()))).map(|_| ())
}
