//! What a client of `serve` is connected by: a stream, plain or with TLS, that no client can hold up.

use rustls::{ServerConnection, StreamOwned};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

/// Time that a client has to take the end of a connection.
const FAREWELL: Duration = Duration::from_millis(200);

/// A stream that is read and written until an instant, however the bytes trickle.
pub(crate) trait Connection: Read + Write {
    /// Sets that instant: this time from now on.
    fn allow(&mut self, time: Duration);

    /// Tells the client that nothing follows.
    fn end(&mut self) -> io::Result<()>;
}

/// Without TLS.
#[derive(Debug)]
pub(crate) struct Plain {
    stream: TcpStream,
    until: Instant,
}

impl Plain {
    /// For this time.
    pub(crate) fn new(stream: TcpStream, time: Duration) -> Self {
        Self { stream, until: Instant::now() + time }
    }

    /// A timeout of zero would be none.
    fn left(&self) -> io::Result<Duration> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

impl Read for Plain {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.left()?))?;
        self.stream.read(bytes)
    }
}

impl Write for Plain {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.left()?))?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

impl Connection for Plain {
    fn allow(&mut self, time: Duration) {
        self.until = Instant::now() + time;
    }

    fn end(&mut self) -> io::Result<()> {
        self.flush()?;
        // So that the client has it all before the connection is reset for what was not read.
        self.stream.shutdown(Shutdown::Write)?;
        self.allow(FAREWELL);
        let mut rest = [0; 1024];
        let _ = self.read(&mut rest);
        Ok(())
    }
}

impl Connection for StreamOwned<ServerConnection, Plain> {
    fn allow(&mut self, time: Duration) {
        self.sock.allow(time);
    }

    fn end(&mut self) -> io::Result<()> {
        self.conn.send_close_notify();
        self.flush()?;
        self.sock.end()
    }
}
