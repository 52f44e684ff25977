//! The trace file: there before anything runs, so that nobody waits for a trace that cannot be written, locked while it is
//! written, and gone again when nothing came of it. An older trace stays under its name until the new one has begun.

use super::blocking::{Writes, Written};
use super::clock::{stamp, wall_ns};
use super::launch::Caller;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use profinfer_diagnostics::Diagnostic;
use profinfer_files::output::{Beside, Destination, Lock, Pipe, Request, cannot_write, lock, locked};
use profinfer_schema::{Origin, Schema};
use profinfer_trace::TraceWriter;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::{Path, PathBuf};

/// The permissions of a trace that root records: it tells of what other users run.
const PRIVATE: u32 = 0o600;
/// How often a name is tried that others take and give up at the same time.
const ATTEMPTS: u32 = 8;

/// A file that will become a trace. Dropping it unkept leaves things as they were.
#[derive(Debug)]
pub(super) struct Output {
    path: PathBuf,
    /// The trace's file; `None` for a stream.
    metadata: Option<Metadata>,
    /// It took a name that nothing had.
    created: bool,
    saved: bool,
    takes_stdout: bool,
    /// The pipe that the trace is written to.
    pipe: Option<File>,
    /// Of the trace and of the older one, until both are let go.
    _locks: Vec<Lock>,
}

/// What a trace is written to.
#[derive(Debug)]
pub(super) struct Sink {
    to: To,
    writes: Writes,
    is_followed: bool,
    is_compressed: bool,
}

#[derive(Debug)]
enum To {
    /// A file.
    File(File),
    /// A file that has the destination's name once the trace has begun.
    Beside(File, Option<Box<Replacement>>),
    /// Somebody who reads.
    Pipe(Pipe),
}

/// A new file that is to take an older one's name.
#[derive(Debug)]
pub(super) struct Replacement {
    beside: Beside,
    older: Metadata,
    path: PathBuf,
}

impl Output {
    /// Opens a file for writing. `mode`: its permissions, where they are asked for.
    pub(super) fn open(
        request: &Request,
        mode: Option<u32>,
        caller: Option<&Caller>,
    ) -> Result<(Self, Sink), Diagnostic> {
        let path = &request.path;
        let failed = |error: io::Error| cannot_write(path, &error);
        let mode = mode.or_else(|| nix::unistd::Uid::effective().is_root().then_some(PRIVATE));
        for _ in 0..ATTEMPTS {
            let place = request.place()?;
            if let Destination::Stream { file, is_stdout } = place {
                let polled = file.try_clone().ok();
                // Standard output may be a file, too.
                let is_followed = file.metadata().is_ok_and(|of| !of.is_file());
                let pipe = Pipe::new(file).map_err(failed)?;
                let output = Self {
                    path: path.clone(),
                    metadata: None,
                    created: false,
                    saved: false,
                    takes_stdout: is_stdout,
                    pipe: polled,
                    _locks: Vec::new(),
                };
                return Ok((output, Sink { is_followed, ..Sink::new(To::Pipe(pipe)) }));
            }
            let mut locks = Vec::new();
            let older = match place {
                Destination::Older(older) => {
                    let Some(file) = unchanged(path, &older) else { continue };
                    match lock(&file) {
                        Ok(None) => return Err(locked(path)),
                        Ok(Some(lock)) => locks.push(lock),
                        // A file system without locks.
                        Err(_) => {}
                    }
                    // Whoever had the lock may have put another trace there.
                    if unchanged(path, &older).is_none() {
                        continue;
                    }
                    Some(older)
                }
                _ => None,
            };
            let beside = Beside::create(path, mode).map_err(failed)?;
            let file = beside.file().try_clone().map_err(failed)?;
            locks.extend(lock(&file).ok().flatten());
            if let Some(caller) = caller {
                // Whoever called through sudo must be able to read and remove it.
                let _ = fchown(&file, Some(caller.uid.as_raw()), Some(caller.gid.as_raw()));
            }
            let metadata = Some(file.metadata().map_err(failed)?);
            let created = older.is_none();
            let sink = match older {
                Some(older) => To::Beside(file, Some(Box::new(Replacement { beside, older, path: path.clone() }))),
                None if path.symlink_metadata().is_ok_and(|there| there.is_symlink()) => {
                    beside.replace(path).map_err(failed)?;
                    To::File(file)
                }
                None => match beside.appear(path) {
                    Ok(()) => To::File(file),
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                    Err(error) => return Err(failed(error)),
                },
            };
            let output = Self {
                path: path.clone(),
                metadata,
                created,
                saved: false,
                takes_stdout: false,
                pipe: None,
                _locks: locks,
            };
            return Ok((output, Sink::new(sink)));
        }
        Err(locked(path))
    }

    /// The file is a trace from here on.
    pub(super) fn save(&mut self) {
        self.saved = true;
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether this program's standard output is the trace's, and no target's.
    pub(super) fn takes_stdout(&self) -> bool {
        self.takes_stdout
    }

    /// Whether nobody reads the pipe any more that the trace is written to. Without it a recording for a reader that has
    /// gone would end with its next record only, which may never come.
    pub(super) fn is_abandoned(&self) -> bool {
        let Some(pipe) = &self.pipe else { return false };
        let mut polled = [PollFd::new(pipe.as_fd(), PollFlags::empty())];
        let polled = poll(&mut polled, PollTimeout::ZERO).map(|_| polled[0].revents());
        matches!(polled, Ok(Some(events)) if events.contains(PollFlags::POLLERR))
    }

    /// Whether the trace still has its name.
    pub(super) fn is_there(&self) -> bool {
        let named = self.path.symlink_metadata();
        self.metadata.as_ref().is_none_or(|metadata| named.is_ok_and(|named| same(metadata, &named)))
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if self.created && !self.saved && self.is_there() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Sink {
    fn new(to: To) -> Self {
        Self { to, writes: Writes::default(), is_followed: false, is_compressed: true }
    }

    /// Whether the trace is to be compressed.
    pub(super) fn compressed(self, is_compressed: bool) -> Self {
        Self { is_compressed, ..self }
    }

    /// Whether somebody reads the trace while it is written: it is no file.
    pub(super) fn is_followed(&self) -> bool {
        self.is_followed
    }

    /// Its writes to a file. Those to somebody who reads do not block: a thread of their own makes them.
    pub(super) fn writes(&self) -> Writes {
        self.writes.clone()
    }

    /// Begins the trace.
    pub(super) fn begin(self, origin: &Origin, schema: &Schema) -> io::Result<TraceWriter<Self>> {
        let is_followed = self.is_followed;
        let start = if self.is_compressed { TraceWriter::new } else { TraceWriter::uncompressed };
        let mut writer = start(self, origin, schema)?;
        if is_followed {
            writer.follow();
        }
        writer.output().begun()?;
        Ok(writer)
    }

    /// The trace has begun: it takes its name.
    fn begun(&mut self) -> io::Result<()> {
        let To::Beside(_, replacement) = &mut self.to else { return Ok(()) };
        let Some(replacement) = replacement.take() else { return Ok(()) };
        let Replacement { beside, older, path } = *replacement;
        match path.symlink_metadata() {
            Ok(there) if !same(&there, &older) => Err(io::Error::other("another file has taken its place")),
            _ => beside.replace(&path),
        }
    }

    /// All is written: waits for a reader to take it.
    pub(super) fn close(self) -> io::Result<()> {
        match self.to {
            To::File(_) | To::Beside(..) => Ok(()),
            To::Pipe(pipe) => pipe.close(),
        }
    }
}

impl From<File> for Sink {
    fn from(file: File) -> Self {
        Self::new(To::File(file))
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.to {
            To::File(file) | To::Beside(file, _) => self.writes.during(Written::Trace, || file.write(bytes)),
            To::Pipe(pipe) => pipe.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.to {
            To::File(file) | To::Beside(file, _) => file.flush(),
            To::Pipe(pipe) => pipe.flush(),
        }
    }
}

fn same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// Opens the inspected file, if the name still leads to it.
fn unchanged(path: &Path, inspected: &Metadata) -> Option<File> {
    // Only root may open what nobody may write to; the lock needs no more than reading.
    let file = OpenOptions::new().write(true).open(path).or_else(|_| File::open(path)).ok()?;
    file.metadata().is_ok_and(|opened| same(&opened, inspected)).then_some(file)
}

/// `toy-20261121-015612.pfi`, in the current folder; the time is UTC.
pub fn default_path(probeset: &str) -> PathBuf {
    PathBuf::from(format!("{probeset}-{}.pfi", stamp(wall_ns() / 1_000_000_000)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use profinfer_diagnostics::Code;
    use profinfer_files::output::OutputKind;

    /// How a trace begins.
    const MAGIC: &[u8] = b"\x89PFI\r\n\x1a\n";

    fn request(path: &Path) -> Request {
        Request { path: path.to_owned(), kind: OutputKind::Trace, force: false, inputs: Vec::new() }
    }

    fn open(path: &Path) -> Result<(Output, Sink), Diagnostic> {
        Output::open(&request(path), None, None)
    }

    #[test]
    fn what_comes_to_nothing_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.pfi");
        drop(open(&path).unwrap());
        assert!(!path.exists());
        std::fs::write(&path, MAGIC).unwrap();
        drop(open(&path).unwrap());
        assert_eq!(std::fs::read(&path).unwrap(), MAGIC);
        std::fs::remove_file(&path).unwrap();
        let (mut output, _file) = open(&path).unwrap();
        assert!(path.exists(), "before anything runs");
        output.save();
        drop(output);
        assert!(path.exists());
        assert_eq!(folder.path().read_dir().unwrap().count(), 1);
    }

    #[test]
    fn an_older_trace_is_replaced_when_the_new_one_has_begun() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.pfi");
        std::fs::write(&path, MAGIC).unwrap();
        let (mut output, mut sink) = open(&path).unwrap();
        sink.write_all(b"the new one").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), MAGIC);
        assert!(!output.is_there());
        sink.begun().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"the new one");
        assert!(output.is_there());
        output.save();
        assert_eq!(folder.path().read_dir().unwrap().count(), 1);
    }

    #[test]
    fn two_recordings_never_write_one_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.pfi");
        for older in [false, true] {
            if older {
                std::fs::write(&path, MAGIC).unwrap();
            }
            let (output, mut sink) = open(&path).unwrap();
            assert_eq!(open(&path).unwrap_err().code, Code::TraceInUse);
            sink.write_all(MAGIC).unwrap();
            sink.begun().unwrap();
            assert_eq!(open(&path).unwrap_err().code, Code::TraceInUse, "begun");
            drop((output, sink));
            drop(open(&path).unwrap());
        }
    }

    #[test]
    fn what_is_somebody_elses_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("thesis.tex");
        std::fs::write(&path, "years of work").unwrap();
        assert_eq!(open(&path).unwrap_err().code, Code::NotReplaced);
        let forced = Request { force: true, ..request(&path) };
        let (_output, mut sink) = Output::open(&forced, None, None).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"years of work", "not yet");
        sink.begun().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"");
    }

    #[test]
    fn what_cannot_be_written_is_said_before() {
        let code = |path: &str| open(Path::new(path)).unwrap_err().code;
        assert_eq!(code("/no/such/folder/run.pfi"), Code::CannotWrite);
        assert_eq!(code("/"), Code::NotReplaced);
        assert!(open(Path::new("/dev/null")).is_ok());
    }
}
