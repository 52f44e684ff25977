//! Where an output may go: the file at its destination, and whether it may be replaced.

use super::kind::{OutputKind, WINDOW, is_probeset};
use super::{cannot_write, pipe, shown, system};
use profinfer_diagnostics::{Code, Diagnostic};
use std::fs::{File, Metadata};
use std::io::{self, IsTerminal, Read, Seek, SeekFrom};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// An output that is asked for.
#[derive(Debug, Clone)]
pub struct Request {
    /// The destination; `-` is standard output.
    pub path: PathBuf,
    /// What it will be.
    pub kind: OutputKind,
    /// Replace whatever is there, inputs and probesets excepted.
    pub force: bool,
    /// The command's input: it is never replaced. `-` is standard input.
    pub inputs: Vec<PathBuf>,
}

/// Where it goes.
#[derive(Debug)]
pub enum Destination {
    /// To standard output, a pipe or a device.
    Stream {
        /// What is written to.
        file: File,
        /// It is this program's standard output.
        is_stdout: bool,
    },
    /// To a new file.
    New,
    /// Replaces the file at the destination.
    Older(Metadata),
}

impl Request {
    /// Inspects the file at the destination.
    ///
    /// # Errors
    /// `U002` where it may not be written to, `U003` where a recording writes to it, `R003` where it cannot be.
    pub fn place(&self) -> Result<Destination, Diagnostic> {
        let path = &self.path;
        if path.as_os_str() == "-" {
            return self.stdout();
        }
        let there = match path.symlink_metadata() {
            Ok(there) => there,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Destination::New),
            Err(error) => return Err(cannot_write(path, &error)),
        };
        // What a link leads to; of a link that leads nowhere, the link.
        let end = path.metadata().unwrap_or_else(|_| there.clone());
        let kind = end.file_type();
        if kind.is_fifo() || kind.is_char_device() {
            return self.stream(&end);
        }
        if kind.is_dir() {
            return Err(refused(path, "is a folder").hint(format!("give a file: `{}/NAME`", path.display())));
        }
        if kind.is_socket() || kind.is_block_device() {
            let what = if kind.is_socket() { "is a socket" } else { "is a block device" };
            return Err(refused(path, what).hint("give a file, or `-o -` for standard output"));
        }
        if there.is_symlink() {
            if is_same(&end, std::io::stdout().as_fd()) {
                return self.stdout();
            }
            self.refuse_inputs(&end)?;
            if !self.force {
                let to = std::fs::read_link(path).unwrap_or_default();
                return Err(refused(path, &format!("is a symbolic link to {}", to.display()))
                    .hint("give the name of the file itself; `--force` replaces the link"));
            }
            return Ok(Destination::New);
        }
        self.refuse_inputs(&there)?;
        self.older(&there)?;
        Ok(Destination::Older(there))
    }

    /// Whether a regular file may be replaced.
    fn older(&self, there: &Metadata) -> Result<(), Diagnostic> {
        let path = &self.path;
        let opened = system::options().read(true).open(path);
        let ends = opened.and_then(|file| Ok((ends(&file, there.len())?, file)));
        let (head, tail) = ends.as_ref().map(|((head, tail), _)| (&head[..], &tail[..])).unwrap_or_default();
        if let Ok((_, file)) = &ends
            // A recording that has not begun to write has its file, too.
            && (there.len() == 0 || OutputKind::Trace.is_ours(head, tail))
            && let Ok(None) = system::lock(file)
        {
            return Err(locked(path));
        }
        if is_probeset(head) && !(self.force && self.kind == OutputKind::Probeset) {
            let hint = match self.kind {
                OutputKind::Probeset => "give another name; `--force` replaces it",
                _ => "give another name with `-o FILE`",
            };
            return Err(refused(path, "is a probeset").hint(hint));
        }
        if self.force {
            return Ok(());
        }
        if there.mode() & 0o222 == 0 {
            return Err(refused(path, "is write-protected").hint("`--force` replaces it; or give another name"));
        }
        if there.len() == 0 || self.kind.is_ours(head, tail) {
            return Ok(());
        }
        let why = match &ends {
            Ok(_) if matches!(self.kind, OutputKind::Text | OutputKind::Probeset) => "already exists".to_owned(),
            Ok(_) => format!("is not a {} from an earlier run", self.kind.name()),
            Err(error) => format!("cannot be read to check its contents: {error}"),
        };
        Err(refused(path, &why).hint("give another name with `-o FILE`; `--force` replaces it"))
    }

    /// It may not be written to, for this reason.
    pub(super) fn refused(&self, why: &str) -> Diagnostic {
        refused(&self.path, why).hint("give another name with `-o FILE`")
    }

    fn stdout(&self) -> Result<Destination, Diagnostic> {
        let stdout = std::io::stdout();
        if self.kind.is_binary() && stdout.is_terminal() && !self.force {
            return Err(refused(Path::new("-"), "is a terminal, and the output is not text")
                .hint("redirect it, `>FILE` or `|COMMAND`, or give `-o FILE`"));
        }
        let file = stdout.as_fd().try_clone_to_owned().map(File::from);
        let file = file.map_err(|error| cannot_write(Path::new("-"), &error))?;
        if let Ok(own) = file.metadata()
            && own.is_file()
        {
            self.refuse_inputs(&own)?;
        }
        Ok(Destination::Stream { file, is_stdout: true })
    }

    fn stream(&self, end: &Metadata) -> Result<Destination, Diagnostic> {
        if is_same(end, std::io::stdout().as_fd()) {
            return self.stdout();
        }
        let file = pipe::open_writer(&self.path)?;
        if self.kind.is_binary() && file.is_terminal() && !self.force {
            return Err(refused(&self.path, "is a terminal, and the output is not text").hint("give a file"));
        }
        Ok(Destination::Stream { file, is_stdout: false })
    }

    /// Whether this is the command's input, by whatever name.
    fn refuse_inputs(&self, there: &Metadata) -> Result<(), Diagnostic> {
        let is_there = |input: &&PathBuf| match input.as_os_str() == "-" {
            true => is_same(there, std::io::stdin().as_fd()),
            false => input.metadata().is_ok_and(|input| same(&input, there)),
        };
        match self.inputs.iter().find(is_there) {
            None => Ok(()),
            Some(input) => {
                let what = if input == &self.path {
                    "is the input".to_owned()
                } else if input.as_os_str() == "-" {
                    "is the file of standard input".to_owned()
                } else {
                    format!("is the same file as the input {}", input.display())
                };
                Err(refused(&self.path, &what).hint("give another name with `-o FILE`"))
            }
        }
    }
}

fn same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

fn is_same(one: &Metadata, other: BorrowedFd<'_>) -> bool {
    let other = other.try_clone_to_owned().and_then(|file| File::from(file).metadata());
    other.is_ok_and(|other| same(one, &other))
}

/// The first and last bytes.
fn ends(mut file: &File, length: u64) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let (mut head, mut tail) = (Vec::new(), Vec::new());
    file.take(WINDOW).read_to_end(&mut head)?;
    if length > WINDOW {
        file.seek(SeekFrom::Start(length - WINDOW))?;
        file.take(WINDOW).read_to_end(&mut tail)?;
    }
    Ok((head, tail))
}

fn refused(path: &Path, why: &str) -> Diagnostic {
    Diagnostic::error(Code::NotReplaced, format!("{} {why}; it was not written", shown(path)))
}

/// Another recording writes to it.
pub fn locked(path: &Path) -> Diagnostic {
    Diagnostic::error(Code::TraceInUse, format!("{} is being written by another recording", path.display()))
        .hint("wait for it to end, or give another name with `-o FILE`")
}
