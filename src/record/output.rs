//! The trace file: there before anything runs, so that nobody waits for a trace that cannot be written, and gone again
//! when nothing came of it.

use super::clock::{stamp, wall_ns};
use super::launch::Caller;
use crate::diag::{Code, Diagnostic};
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// A file that will become a trace. Dropping it unkept leaves things as they were.
#[derive(Debug)]
pub(super) struct Output {
    path: PathBuf,
    created: bool,
    kept: bool,
}

impl Output {
    /// Opens a file for writing; an existing one keeps its contents until the trace begins.
    pub(super) fn open(path: &Path, caller: Option<&Caller>) -> Result<(Self, File), Diagnostic> {
        let mut options = OpenOptions::new();
        options.write(true);
        let opened = match options.clone().create_new(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => options.open(path).map(|file| (file, false)),
            other => other.map(|file| (file, true)),
        };
        let (file, created) = opened.map_err(|error| cannot_write(path, &error))?;
        if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
            return Err(cannot_write(path, &io::Error::other("it is no regular file")));
        }
        if let Some(caller) = caller.filter(|_| created) {
            // Whoever called through sudo must be able to remove it.
            let _ = nix::unistd::fchown(&file, Some(caller.uid), Some(caller.gid));
        }
        Ok((Self { path: path.to_owned(), created, kept: false }, file))
    }

    /// The file is a trace from here on.
    pub(super) fn keep(&mut self) {
        self.kept = true;
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if self.created && !self.kept {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// The diagnostic for a file that cannot be written.
pub fn cannot_write(path: &Path, error: &io::Error) -> Diagnostic {
    let hint = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "make room, or write elsewhere with `-o FILE`",
        _ => "choose another file with `-o FILE`",
    };
    Diagnostic::error(Code::CannotWrite, format!("cannot write {}: {error}", path.display())).hint(hint)
}

/// `toy-20261121-015612.pfi`, in the current folder; the time is UTC.
pub fn default_path(probeset: &str) -> PathBuf {
    PathBuf::from(format!("{probeset}-{}.pfi", stamp(wall_ns() / 1_000_000_000)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_to_nothing_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.pfi");
        drop(Output::open(&path, None).unwrap());
        assert!(!path.exists());
        std::fs::write(&path, "an older trace").unwrap();
        drop(Output::open(&path, None).unwrap());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "an older trace");
        std::fs::remove_file(&path).unwrap();
        let (mut output, _file) = Output::open(&path, None).unwrap();
        output.keep();
        drop(output);
        assert!(path.exists());
    }

    #[test]
    fn what_cannot_be_written_is_said_before() {
        let code = |path: &str| Output::open(Path::new(path), None).unwrap_err().code;
        assert_eq!(code("/no/such/folder/run.pfi"), Code::CannotWrite);
        assert_eq!(code("/dev/null"), Code::CannotWrite);
    }
}
