//! Pipes: opened without waiting for ever for the other end, and written by a separate thread, so that a reader that
//! is slow holds nobody up.

use super::{cannot_write, system};
use profinfer_diagnostics::{Code, Diagnostic};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

/// How long a named pipe waits for its other end.
pub const PATIENCE: Duration = Duration::from_secs(3);
/// How long a reader may take nothing when all is written.
const STALLED: Duration = Duration::from_secs(30);
/// What waits for the reader at most: minutes of an ordinary recording.
const MOST_BYTES: usize = 64 << 20;
/// Bytes that are written at a time, so that it is seen whether the reader takes any.
const PIECE: usize = 64 << 10;

/// Opens a pipe or device for writing.
pub(super) fn open_writer(path: &Path) -> Result<File, Diagnostic> {
    let since = Instant::now();
    loop {
        match system::open_stream(path) {
            Ok(file) => return Ok(file),
            Err(error) if system::is_without_reader(&error) && since.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(error) if system::is_without_reader(&error) => {
                let message = format!("{} is a pipe without a reader; it was not written", path.display());
                return Err(
                    Diagnostic::error(Code::NotReplaced, message).hint("start its reader first, or give a file")
                );
            }
            Err(error) => return Err(cannot_write(path, &error)),
        }
    }
}

/// Opens an input; for the writer of a named pipe it waits a little.
///
/// # Errors
/// The system's; `TimedOut` for a pipe that nobody writes to.
pub fn open_reader(path: &Path) -> io::Result<File> {
    let kind = path.metadata()?.file_type();
    if kind.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !kind.is_fifo() {
        return File::open(path);
    }
    let (send, opened) = mpsc::channel();
    let to_open = path.to_owned();
    // It waits for a writer; if there is none, it ends with the program.
    std::thread::spawn(move || send.send(File::open(to_open)));
    opened
        .recv_timeout(PATIENCE)
        .unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "the pipe has no writer")))
}

/// A stream whose writer waits for nobody: data that the reader has not taken is buffered, up to a bound.
#[derive(Debug)]
pub struct Pipe {
    shared: Arc<(Mutex<State>, Condvar)>,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Vec<u8>>,
    /// Bytes of these, and of the piece being written.
    bytes: usize,
    error: Option<io::ErrorKind>,
    is_closed: bool,
}

impl Pipe {
    /// Into this pipe or device.
    ///
    /// # Errors
    /// There can be no further thread.
    pub fn new(file: File) -> io::Result<Self> {
        let shared = Arc::new((Mutex::new(State::default()), Condvar::new()));
        let theirs = Arc::clone(&shared);
        std::thread::Builder::new().name("profinfer-pipe".into()).spawn(move || pump(&theirs, file))?;
        Ok(Self { shared })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the reader has taken all.
    ///
    /// # Errors
    /// The reader has ended, or has taken nothing for half a minute.
    pub fn close(self) -> io::Result<()> {
        let mut state = self.state();
        let (mut left, mut since) = (state.bytes, Instant::now());
        loop {
            match state.error {
                Some(error) => return Err(error.into()),
                None if state.bytes == 0 => return Ok(()),
                None => {}
            }
            if state.bytes < left {
                (left, since) = (state.bytes, Instant::now());
            } else if since.elapsed() >= STALLED {
                return Err(stalled());
            }
            let waited = self.shared.1.wait_timeout(state, Duration::from_secs(1));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

fn stalled() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "its reader is too slow")
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.state();
        if let Some(error) = state.error {
            return Err(error.into());
        }
        if state.bytes + bytes.len() > MOST_BYTES {
            return Err(stalled());
        }
        state.bytes += bytes.len();
        state.waiting.push_back(bytes.to_vec());
        self.shared.1.notify_all();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        self.state().is_closed = true;
        self.shared.1.notify_all();
    }
}

/// Writes what comes until nothing more can.
fn pump(shared: &(Mutex<State>, Condvar), mut file: File) {
    let lock = || shared.0.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let mut state = lock();
        let next = loop {
            match state.waiting.pop_front() {
                Some(next) => break next,
                None if state.is_closed => return,
                None => state = shared.1.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        };
        drop(state);
        for piece in next.chunks(PIECE) {
            let written = file.write_all(piece);
            let mut state = lock();
            state.bytes = state.bytes.saturating_sub(piece.len());
            if let Err(error) = written {
                state.error = Some(error.kind());
                state.waiting.clear();
            }
            shared.1.notify_all();
            if state.error.is_some() {
                return;
            }
        }
    }
}
