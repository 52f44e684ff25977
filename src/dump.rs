//! `profinfer dump`: a trace as NDJSON, one record a line, in the order of the file.

use super::{DONE, Outcome, terminal, trace_file};
use profinfer_analysis::Windows;
use profinfer_diagnostics::{Code, Diagnostic, Diagnostics, did_you_mean, printable_json};
use profinfer_schema::Role;
use profinfer_trace::{Item, RecordView};

use profinfer_schema::{RecordKind, Schema};
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::collections::BTreeMap;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::PathBuf;

/// The subcommand's arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The trace; `-` is standard input
    trace: PathBuf,
    /// Print only records of this probe, object or built-in event (repeatable)
    #[arg(long = "probe", value_name = "NAME")]
    probes: Vec<String>,
    /// Maximum number of records
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
}

/// Runs the subcommand.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let mut reader = trace_file::open_whole(&arguments.trace)?;
    let wanted = wanted(&reader.meta().schema, &arguments.probes)?;
    let start = reader.meta().origin.monotonic_ns;
    let mut left = arguments.limit.unwrap_or(u64::MAX);
    let mut output = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let mut written = Ok(());
    let mut windows = Windows::default();
    while left > 0 && written.is_ok() {
        match reader.next() {
            Some(Item::Record(record)) if wanted.get(record.type_index()).copied().unwrap_or(false) => {
                left -= 1;
                written = write_line(&mut output, &Line { record, start, windows: &windows });
            }
            Some(Item::Notice(notice)) => windows.notice(notice),
            Some(_) => {}
            None => break,
        }
    }
    match written.and_then(|()| output.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(DONE),
        Err(error) => {
            return Err(Diagnostic::error(Code::CannotWrite, format!("cannot write the records: {error}")).into());
        }
        Ok(()) => {}
    }
    let problems = reader.into_meta().problems;
    if problems.has_errors() {
        return Err(problems);
    }
    terminal::report_problems(&problems);
    Ok(DONE)
}

/// Which record types are wanted.
fn wanted(schema: &Schema, names: &[String]) -> Result<Vec<bool>, Diagnostics> {
    let record_names = || schema.records.iter().map(|record| record.name.as_str());
    let mut problems = Diagnostics::new();
    for name in names.iter().filter(|name| !record_names().any(|record| record == *name)) {
        let problem = Diagnostic::error(Code::BadArgument, format!("the trace has no probe or object `{name}`"));
        let all = || format!("it has {}", record_names().collect::<Vec<_>>().join(", "));
        problems.push(problem.hint(did_you_mean(name, record_names()).unwrap_or_else(all)));
    }
    let wanted = record_names().map(|record| names.is_empty() || names.iter().any(|name| name == record)).collect();
    problems.finish(wanted).map(|(wanted, _)| wanted)
}

fn write_line(output: &mut impl Write, line: &Line<'_>) -> io::Result<()> {
    let line = printable_json(&serde_json::to_string(line)?);
    writeln!(output, "{line}")
}

/// One record as a JSON object. Its fields are in a nested object, so that none hides `tid` or `cpu`.
struct Line<'a> {
    record: RecordView<'a>,
    /// When the recording started: ns, CLOCK_MONOTONIC.
    start: u64,
    /// When operators were recorded, so far.
    windows: &'a Windows,
}

impl Serialize for Line<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (record, kind, header) = (self.record, self.record.kind(), self.record.header());
        let mut map = serializer.serialize_map(None)?;
        match kind.kind {
            RecordKind::Span | RecordKind::Mark => map.serialize_entry("probe", &kind.name)?,
            RecordKind::Object => {
                map.serialize_entry("object", &kind.name)?;
                map.serialize_entry("address", &record.field(0))?;
            }
            _ => map.serialize_entry("event", &kind.name)?,
        }
        map.serialize_entry("kind", &kind.kind)?;
        if let Some(role) = kind.role {
            map.serialize_entry("role", &role)?;
        }
        if kind.role == Some(Role::Step) && self.windows.any() {
            let (recorded, _) = self.windows.of(header.start, header.start.saturating_add(header.duration));
            map.serialize_entry("recorded", recorded.as_str())?;
        }
        map.serialize_entry("tid", &header.tid)?;
        map.serialize_entry("cpu", &header.cpu)?;
        map.serialize_entry("start_ns", &(header.start.wrapping_sub(self.start) as i64))?;
        map.serialize_entry("duration_ns", &header.duration)?;
        map.serialize_entry("seq", &header.seq)?;
        if let Some(site) = record.site() {
            map.serialize_entry("function", &site.function)?;
        }
        map.serialize_entry("fields", &Fields(record))?;
        if let Some((name, total)) = cut_list(record) {
            map.serialize_entry("cut", &BTreeMap::from([(name, total)]))?;
        }
        map.end()
    }
}

/// The last field's name and how many elements it had, where there were more than its list has.
fn cut_list<'a>(record: RecordView<'a>) -> Option<(&'a str, u32)> {
    let last = record.kind().fields.len().checked_sub(1)?;
    let total = record.list_total(last)?;
    (total > record.list_count(last)?).then(|| (record.kind().fields[last].name.as_str(), total))
}

/// A record's fields by name; without an object's address, which stands before.
struct Fields<'a>(RecordView<'a>);

impl Serialize for Fields<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let skipped = usize::from(self.0.kind().kind == RecordKind::Object);
        serializer.collect_map(self.0.fields().skip(skipped))
    }
}
