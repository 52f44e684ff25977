//! The terminal as a screen: lines drawn over each other, keys read one by one. What the terminal was before, it is
//! again whatever happens.

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::termios::{SetArg, Termios, cfmakeraw, tcgetattr, tcsetattr};
use profinfer_diagnostics::{Code, Diagnostic};
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::AsFd;
use std::time::Duration;

/// Shows another screen, and hides the cursor.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
/// The way back.
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// A key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    /// A character.
    Character(char),
    /// Interrupt, or the end of the input.
    Quit,
}

/// The screen, as long as it is shown.
#[derive(Debug)]
pub(crate) struct TerminalScreen {
    before: Termios,
    shown: Vec<String>,
}

impl TerminalScreen {
    /// What the terminal is now.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn require() -> Result<Termios, Diagnostic> {
        let found = tcgetattr(io::stdin()).ok().filter(|_| io::stdout().is_terminal());
        found.ok_or_else(|| {
            Diagnostic::error(Code::BadArgument, "standard input and output are not a terminal")
                .hint("run it in a terminal; `profinfer serve` gives the same figures to other programs")
        })
    }

    /// Shows an empty screen.
    pub(crate) fn enter() -> Result<Self, Diagnostic> {
        let before = Self::require()?;
        let (stdin, mut stdout) = (io::stdin(), io::stdout());
        let mut raw = before.clone();
        cfmakeraw(&mut raw);
        let entered = tcsetattr(&stdin, SetArg::TCSADRAIN, &raw).map_err(io::Error::from);
        let entered = entered.and_then(|()| stdout.write_all(ENTER.as_bytes()).and_then(|()| stdout.flush()));
        let screen = Self { before, shown: Vec::new() };
        match entered {
            Ok(()) => Ok(screen),
            Err(error) => Err(Diagnostic::error(Code::BadArgument, format!("cannot use the terminal: {error}"))
                .hint("run it in another terminal")),
        }
    }

    /// Its columns and lines.
    pub(crate) fn size() -> (usize, usize) {
        let found = terminal_size::terminal_size_of(io::stdout());
        let size = found.map(|(width, height)| (usize::from(width.0), usize::from(height.0)));
        size.filter(|(width, height)| *width > 0 && *height > 0).unwrap_or((80, 24))
    }

    /// Draws lines in place of those that are there.
    pub(crate) fn draw(&mut self, lines: &[String]) -> io::Result<()> {
        if self.shown == lines {
            return Ok(());
        }
        let body: Vec<String> = lines.iter().map(|line| format!("{line}\x1b[K")).collect();
        let text = format!("\x1b[H{}\x1b[J", body.join("\r\n"));
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes())?;
        stdout.flush()?;
        self.shown = lines.to_vec();
        Ok(())
    }

    /// Waits for keys for so long at most.
    pub(crate) fn keys(&self, wait: Duration) -> Vec<Key> {
        let mut stdin = io::stdin().lock();
        let is_ready = {
            let mut polled = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
            let wait = PollTimeout::try_from(wait).unwrap_or(PollTimeout::ZERO);
            poll(&mut polled, wait).is_ok_and(|ready| ready > 0)
        };
        if !is_ready {
            return Vec::new();
        }
        let mut bytes = [0; 64];
        match stdin.read(&mut bytes) {
            Ok(0) | Err(_) => vec![Key::Quit],
            Ok(read) => keys_of(bytes.get(..read).unwrap_or_default()),
        }
    }
}

/// Sequences of other keys, which begin with an escape, are none of these.
fn keys_of(bytes: &[u8]) -> Vec<Key> {
    match bytes {
        [0x1b, ..] => Vec::new(),
        _ => bytes
            .iter()
            .map(|byte| match byte {
                3 | 4 => Key::Quit,
                byte => Key::Character(char::from(*byte)),
            })
            .collect(),
    }
}

impl Drop for TerminalScreen {
    fn drop(&mut self) {
        let mut stdout = io::stdout().lock();
        let _ = stdout.write_all(LEAVE.as_bytes()).and_then(|()| stdout.flush());
        let _ = tcsetattr(io::stdin(), SetArg::TCSADRAIN, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_characters() {
        assert_eq!(keys_of(b"s\x03"), [Key::Character('s'), Key::Quit]);
        assert_eq!(keys_of(b"\x1b[A"), []);
        assert_eq!(keys_of(b"\t"), [Key::Character('\t')]);
    }
}
