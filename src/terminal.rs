//! What every subcommand shares of the terminal: problems on standard error, the exit code they mean, manual pages,
//! completions.

use super::{DONE, Outcome};
use profinfer_diagnostics::{self as diag, Class, Code, Diagnostic, Diagnostics, Severity};
use profinfer_report::TextStyle;
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::Path;

/// Prints problems to standard error, in colour on a terminal that wants it, and gives the exit code they mean.
pub(crate) fn report_problems(problems: &Diagnostics) -> u8 {
    let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    if !problems.0.is_empty() {
        write_error(&diag::render(problems, colour));
    }
    let of_the_machine = |d: &Diagnostic| d.severity == Severity::Error && d.code.class() == Class::Machine;
    if problems.0.iter().any(of_the_machine) { 3 } else { 1 }
}

/// The width of the terminal that standard output is; `None` where it is none.
pub(crate) fn width() -> Option<usize> {
    let stdout = std::io::stdout();
    let (terminal_size::Width(columns), _) = terminal_size::terminal_size_of(&stdout)?;
    Some(usize::from(columns)).filter(|columns| *columns > 0)
}

/// The style of a report on standard output.
pub(crate) fn text_style(top: Option<usize>) -> TextStyle {
    let is_wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let colour = is_wanted && std::io::stdout().is_terminal();
    TextStyle { width: width(), colour, top, main_only: false }
}

/// Prints a text to standard output; whatever names stand in it, it does not steer a terminal.
pub(crate) fn write_out(text: &str) -> Result<(), Diagnostics> {
    write_all(&diag::printable_lines(text))
}

/// Prints a text that may have colours.
pub(crate) fn write_styled(text: &str) -> Result<(), Diagnostics> {
    write_all(&diag::printable_styled(text))
}

/// Prints JSON.
pub(crate) fn write_json(json: &str) -> Result<(), Diagnostics> {
    write_all(&diag::printable_json(json))
}

/// Prints a status line on standard error.
pub(crate) fn status(text: &str) {
    write_error(&diag::printable_lines(text));
}

/// Writes a line to standard error, in one piece: recorders of `serve` write there, too. Whatever that is, a full disk or a
/// terminal that is gone, ends nothing.
fn write_error(text: &str) {
    let _ = anstream::stderr().write_all(format!("{text}\n").as_bytes());
}

/// A reader that has seen enough is no error.
fn write_all(text: &str) -> Result<(), Diagnostics> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Diagnostic::error(Code::CannotWrite, format!("cannot write to standard output: {error}")).into())
        }
        _ => Ok(()),
    }
}

/// Prints a shell's completions.
pub(crate) fn write_completions(mut command: clap::Command, shell: clap_complete::Shell) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "profinfer", &mut script);
    write_all(&String::from_utf8_lossy(&script))?;
    Ok(DONE)
}

/// Writes `profinfer.1` and a page for each subcommand.
pub(crate) fn write_manual(command: clap::Command, folder: &Path) -> Outcome {
    let written = std::fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(command, folder));
    match written {
        Ok(()) => Ok(DONE),
        Err(error) => {
            let message = format!("cannot write manual pages to {}: {error}", folder.display());
            Err(Diagnostic::error(Code::CannotWrite, message).into())
        }
    }
}
