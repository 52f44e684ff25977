//! `profinfer try`: a few steps, each record on a line, with suspicious values. No trace is left.

use super::probeset::ProbesetArguments;
use super::short_run::ShortRun;
use super::terminal::{report_problems, write_out};
use super::{DONE, INCOMPLETE, Outcome};
use profinfer_diagnostics::{Code, Diagnostic, Diagnostics, printable_json, printable_lines};
use profinfer_recorder::Subject;
use profinfer_report::Events;
use profinfer_schema::Role;
use profinfer_schema::{LossKind, Schema};
use std::ffi::OsString;
use std::io::{BufWriter, ErrorKind, Write};
use std::time::Duration;

/// How long a target is watched for the steps to come.
const DEFAULT_SECONDS: u64 = 120;

/// The subcommand's arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = "A launched command is ended once its steps are recorded. No trace is written.")]
pub(crate) struct Arguments {
    #[command(flatten)]
    probeset: ProbesetArguments,
    /// Attach to a running process
    #[arg(short, long, value_name = "PID", conflicts_with = "command", required_unless_present = "command")]
    pid: Option<i32>,
    /// Number of steps
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=1000))]
    steps: u64,
    /// Maximum number of lines for each probe and object; as many again for suspicious values
    #[arg(long, value_name = "N", default_value_t = 20)]
    lines: u64,
    /// Seconds after which the recording ends
    #[arg(long, value_name = "SECONDS", default_value_t = DEFAULT_SECONDS)]
    seconds: u64,
    /// Print a JSON object for each record, with its suspicious values, and one for the summary
    #[arg(long)]
    json: bool,
    /// The command to launch
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Runs the subcommand.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let (probeset, warnings) = arguments.probeset.load()?;
    report_problems(&warnings);
    let subject = arguments.pid.map_or_else(|| Subject::Command(arguments.command.clone()), Subject::Process);
    let mut run = ShortRun::new(subject, Duration::from_secs(arguments.seconds.max(1)))?;
    run.options.selection = arguments.probeset.selection();
    run.options.steps = Some((1, arguments.steps));
    run.options.debug_folders = arguments.probeset.debug_folders();
    run.options.lock = arguments.probeset.lock()?;
    let summary = run.record(&probeset)?;
    let failed = report_problems(&summary.problems);
    let of = arguments.pid.map_or_else(|| "--target FILE".to_owned(), |pid| format!("-p {pid}"));
    let explain = format!("profinfer explain {} {of}", arguments.probeset.name());
    show(&run, arguments, &explain)?;
    for loss in summary.losses.iter().filter(|loss| loss.kind.is_harmful()) {
        write_out(&match arguments.json {
            true => format!(
                "{}\n",
                serde_json::json!({ "missing": lost(loss.kind), "of": loss.record, "count": loss.count })
            ),
            false => format!("missing: {} × {}\n", loss.count, lost(loss.kind)),
        })?;
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

fn show(run: &ShortRun, arguments: &Arguments, explain: &str) -> Result<(), Diagnostics> {
    let mut reader = run.trace()?;
    let mut events = Events::new(reader.meta().origin.monotonic_ns, arguments.lines);
    let schema = reader.meta().schema.clone();
    let mut output = BufWriter::new(std::io::stdout().lock());
    let mut written = Ok(());
    reader.for_each_record(|record| {
        let line = match arguments.json {
            true => events.json(record).map(|json| printable_json(&json.to_string())),
            false => events.line(record).map(|line| printable_lines(&line)),
        };
        if let Some(line) = line {
            written = writeln!(output, "{line}");
        }
        written.is_ok()
    });
    let end = match arguments.json {
        true => printable_json(&format!("{}\n", events.end_json(&schema))),
        false => printable_lines(&events.end(&schema, explain)),
    };
    let end = match missing_steps(&events, &schema) {
        Some(steps) if !arguments.json => format!(
            "{end}\nNo step was recorded, and records outside of steps are dropped. Check that the program calls {steps}.\n"
        ),
        _ => end,
    };
    match written.and_then(|()| output.write_all(end.as_bytes())).and_then(|()| output.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Diagnostic::error(Code::CannotWrite, format!("cannot write the records: {error}")).into())
        }
        _ => Ok(()),
    }
}

/// The probes of steps, where none of them was called: then nothing of the others is recorded either.
fn missing_steps(events: &Events, schema: &Schema) -> Option<String> {
    let silent = events.silent(schema);
    let steps = schema.records.iter().filter(|record| record.role == Some(Role::Step));
    let steps: Vec<&str> = steps.map(|record| record.name.as_str()).collect();
    (!steps.is_empty() && steps.iter().all(|step| silent.contains(step))).then(|| steps.join(" or "))
}
