//! `profinfer try`: a few steps, each record on a line, and what of it looks wrong. No trace is left.

use super::probeset::ProbesetArguments;
use super::terminal::{report_problems, write_out};
use super::{DONE, INCOMPLETE, Outcome, trace_file};
use crate::diag::{Code, Diagnostic};
use crate::record::{self, Options, Subject, Terms};
use crate::report::Events;
use crate::trace::{Item, LossKind};
use std::ffi::OsString;
use std::io::{BufWriter, ErrorKind, Write};
use std::time::Duration;

/// How long a target is watched for the steps to come.
const DEFAULT_SECONDS: u64 = 120;

/// The subcommand's arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = "A command that was launched is ended once its steps are recorded. No trace is left behind.")]
pub(crate) struct Arguments {
    #[command(flatten)]
    probeset: ProbesetArguments,
    /// Attach to a running process
    #[arg(short, long, value_name = "PID", conflicts_with = "command", required_unless_present = "command")]
    pid: Option<i32>,
    /// So many steps
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=1000))]
    steps: u64,
    /// No more than this many lines for each probe and object; doubtful ones may be as many again
    #[arg(long, value_name = "N", default_value_t = 20)]
    lines: u64,
    /// Give up after so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = DEFAULT_SECONDS)]
    seconds: u64,
    /// The command to launch
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Runs the subcommand.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let (probeset, warnings) = arguments.probeset.load()?;
    report_problems(&warnings);
    let folder = tempfile::tempdir().map_err(|error| {
        Diagnostic::error(Code::CannotWrite, format!("cannot make a folder for the trace: {error}"))
    })?;
    let subject = arguments.pid.map_or_else(|| Subject::Command(arguments.command.clone()), Subject::Process);
    let options = Options {
        subject,
        output: folder.path().join("try.pfi"),
        selection: arguments.probeset.selection(),
        steps: Some((1, arguments.steps)),
        duration: Some(Duration::from_secs(arguments.seconds.max(1))),
        follow_forks: false,
        attach: None,
        terms: Terms { budget: None, min_rate: None },
        exact: false,
        debug_folders: arguments.probeset.debug_folders(),
        lock: arguments.probeset.lock()?,
        object: None,
        ring_bytes: None,
        old_kernel: false,
        described: Vec::new(),
    };
    let mut summary = record::record(&options, &probeset, &mut |_| {})?;
    summary.target.end();
    let failed = report_problems(&summary.problems);
    let of = arguments.pid.map_or_else(|| "--target FILE".to_owned(), |pid| format!("-p {pid}"));
    let explain = format!("profinfer explain {} {of}", arguments.probeset.name());
    show(&options.output, arguments.lines, &explain)?;
    for loss in summary.losses.iter().filter(|loss| loss.kind.is_harmful()) {
        write_out(&format!("missing: {} × {}\n", loss.count, lost(loss.kind)))?;
    }
    if summary.problems.has_errors() {
        return Ok(failed);
    }
    if summary.is_complete() { Ok(DONE) } else { Ok(INCOMPLETE) }
}

/// A kind of loss in words.
fn lost(kind: LossKind) -> String {
    let name = serde_json::to_value(kind).ok().and_then(|name| name.as_str().map(|name| name.replace('_', " ")));
    name.unwrap_or_default()
}

fn show(trace: &std::path::Path, lines: u64, explain: &str) -> Result<(), crate::diag::Diagnostics> {
    let mut reader = trace_file::open(trace)?;
    let mut events = Events::new(reader.meta().origin.monotonic_ns, lines);
    let mut output = BufWriter::new(std::io::stdout().lock());
    let mut written = Ok(());
    while let Some(item) = reader.next() {
        if let Item::Record(record) = item
            && let Some(line) = events.line(record)
        {
            written = writeln!(output, "{line}");
        }
        if written.is_err() {
            break;
        }
    }
    let end = events.end(&reader.meta().schema, explain);
    match written.and_then(|()| output.write_all(end.as_bytes())).and_then(|()| output.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Diagnostic::error(Code::CannotWrite, format!("cannot write the records: {error}")).into())
        }
        _ => Ok(()),
    }
}
