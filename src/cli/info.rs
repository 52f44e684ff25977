//! `profinfer info`: what a trace is, without what its records say.

use super::{DONE, Outcome, terminal, trace_file};
use crate::diag::{Code, Diagnostic, printable, printable_json, printable_lines};
use crate::report::limits_line;
use crate::trace::{
    CounterInfo, Detail, DetailReason, DetailState, FieldType, LeftOut, Loss, Meta, ModuleInfo, RecordType, Site,
};
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use std::io::{self, ErrorKind, Write};
use std::path::PathBuf;

/// The subcommand's arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The trace; `-` is standard input
    trace: PathBuf,
    /// Print all of it as JSON
    #[arg(long, conflicts_with = "probeset")]
    json: bool,
    /// Print the probeset that the trace was recorded with
    #[arg(long)]
    probeset: bool,
}

/// How many records of a type there are, and the times they span.
#[derive(Debug, Clone, Copy, Default, Serialize)]
struct Count {
    records: u64,
    bytes: u64,
    /// ns, CLOCK_MONOTONIC.
    first: Option<u64>,
    last: Option<u64>,
}

/// Runs the subcommand.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let mut reader = trace_file::open_whole(&arguments.trace)?;
    let mut counts = vec![Count::default(); reader.meta().schema.records.len()];
    if !arguments.probeset {
        reader.for_each_record(|record| {
            let (header, count) = (record.header(), &mut counts[record.type_index()]);
            count.records += 1;
            count.bytes += record.bytes().len() as u64;
            count.first = count.first.into_iter().chain([header.start]).min();
            count.last = count.last.into_iter().chain([header.start.saturating_add(header.duration)]).max();
            true
        });
    }
    let meta = reader.into_meta();
    let printed = if arguments.probeset {
        print(&printable_lines(&probeset(&meta)))
    } else if arguments.json {
        print(&printable_json(&json(&meta, &counts)))
    } else {
        print(&printable_lines(&text(&meta, &counts)))
    };
    match printed {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(DONE),
        Err(error) => {
            let message = format!("cannot write what the trace is: {error}");
            return Err(Diagnostic::error(Code::CannotWrite, message).into());
        }
        Ok(()) => {}
    }
    if meta.problems.has_errors() {
        return Err(meta.problems);
    }
    terminal::report_problems(&meta.problems);
    Ok(DONE)
}

fn print(text: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    output.write_all(text.as_bytes())?;
    output.flush()
}

/// The main file as it was, the others after it, each with its name in a comment.
fn probeset(meta: &Meta) -> String {
    let sources = &meta.origin.sources;
    let mut text = String::new();
    for (index, (name, source)) in sources.iter().enumerate() {
        if sources.len() > 1 {
            let separator = if index == 0 { "" } else { "---\n" };
            text.push_str(&format!("{separator}# {}\n", printable(name)));
        }
        text.push_str(source);
        if !source.ends_with('\n') {
            text.push('\n');
        }
    }
    text
}

fn json(meta: &Meta, counts: &[Count]) -> String {
    let names = meta.schema.records.iter().map(|record| record.name.as_str());
    let records = (0..).zip(names.zip(counts)).filter(|(number, _)| !meta.schema.others.contains(number));
    let records: serde_json::Value =
        records.map(|(_, of)| of).map(|(name, count)| (name, serde_json::json!(count))).collect();
    let problem =
        |problem: &Diagnostic| serde_json::json!({ "code": problem.code.as_str(), "message": problem.message });
    let all = serde_json::json!({
        "version": meta.version,
        "origin": meta.origin,
        "schema": meta.schema,
        "modules": meta.modules,
        "sites": meta.sites,
        "records": records,
        "losses": meta.losses,
        "notices": meta.notices,
        "end": meta.end,
        "problems": meta.problems.0.iter().map(problem).collect::<Vec<_>>(),
    });
    format!("{all:#}\n")
}

fn text(meta: &Meta, counts: &[Count]) -> String {
    let mut text = summary(meta, counts);
    let section = |title: &str, table: Option<Table>| {
        table.map_or(String::new(), |table| format!("\n{title}\n{}\n", table.trim_fmt()))
    };
    text += &section("Modules", modules(meta));
    text += &section("Sites", sites(meta));
    text += &section("Records", records(meta, counts));
    text += &section("Counters", counters(meta));
    text += &section("Losses", losses(meta));
    text += &section("Left out", left_out(meta));
    text += &section("Notices", notices(meta));
    text
}

fn summary(meta: &Meta, counts: &[Count]) -> String {
    let origin = &meta.origin;
    let sources: Vec<&str> = origin.sources.iter().map(|(name, _)| name.as_str()).collect();
    let how = if origin.launched { "launched" } else { "attached to" };
    let host = &origin.host;
    let kernel = format!("{} {}, {}, {} cpus", host.kernel, host.arch, host.cpu_model, host.cpus);
    let mut table = table(&[]);
    for (name, value) in [
        ("Recorded", format!("{}, for {}", date(origin.wall_clock_ns), seconds(duration(meta, counts)))),
        ("Ended", ending(meta)),
        ("Probeset", format!("{} for {} ({})", origin.probeset, origin.engine, sources.join(", "))),
        ("Options", origin.options.join(" ")),
        ("Target", format!("process {}, {how}: {}", origin.pid, origin.command.join(" "))),
        ("Host", format!("{}: {kernel}, {} of memory", host.name, bytes(host.memory))),
        ("Limits", limits(meta)),
        ("Recorder", format!("{}, trace format {}", origin.recorder, meta.version)),
        ("Records", meta.records.to_string()),
        ("Losses", if lost(meta).next().is_none() { "none".into() } else { "see below".into() }),
    ] {
        add_row(&mut table, vec![name.into(), value]);
    }
    if let Some(price) = price(meta) {
        add_row(&mut table, vec!["Cost".into(), price]);
    }
    format!("{}\n", table.trim_fmt())
}

/// What the machine can do at most.
fn limits(meta: &Meta) -> String {
    match &meta.origin.roofline {
        Some(roofline) => {
            format!("{}; measured {}", limits_line(roofline), date(roofline.measured_at.saturating_mul(1_000_000_000)))
        }
        None => "not measured before the recording: `profinfer roofline` does that".into(),
    }
}

/// From the start to the end that the trace gives, else to the end of the last record.
fn duration(meta: &Meta, counts: &[Count]) -> u64 {
    let last = counts.iter().filter_map(|count| count.last).max().unwrap_or(0);
    let end = meta.end.as_ref().map_or(last, |end| end.time);
    end.saturating_sub(meta.origin.monotonic_ns)
}

fn ending(meta: &Meta) -> String {
    let Some(end) = &meta.end else { return "the trace is cut: it does not say".into() };
    let status = match (end.exit_code, end.signal) {
        (_, Some(signal)) => format!(", killed by signal {signal}"),
        (Some(code), None) => format!(", exit code {code}"),
        (None, None) => String::new(),
    };
    format!("{}{status}", end.reason)
}

fn modules(meta: &Meta) -> Option<Table> {
    let mut table = table(&["module", "build-id", "size", "file"]);
    for ModuleInfo { name, path, build_id, size } in &meta.modules {
        let build_id = build_id.clone().unwrap_or_else(|| "-".into());
        add_row(&mut table, vec![name.clone(), build_id, bytes(*size), path.clone()]);
    }
    right(&mut table, &[2]);
    some(table)
}

fn sites(meta: &Meta) -> Option<Table> {
    let mut table = table(&["site", "probe", "module", "function", "file offset", "instruction"]);
    for site in &meta.sites {
        let Site { id, probes, file_offset, instruction, .. } = site;
        let module = meta.module_of(site).map_or("?", |module| module.name.as_str());
        add_row(
            &mut table,
            vec![
                id.to_string(),
                probes.join(", "),
                module.into(),
                site.place(),
                format!("{file_offset:#x}"),
                instruction.clone(),
            ],
        );
    }
    right(&mut table, &[0, 4]);
    some(table)
}

fn records(meta: &Meta, counts: &[Count]) -> Option<Table> {
    let mut table = table(&["record", "kind", "role", "count", "size", "fields"]);
    for (number, (RecordType { name, kind, role, fields, .. }, count)) in
        (0..).zip(meta.schema.records.iter().zip(counts))
    {
        if meta.schema.others.contains(&number) {
            continue;
        }
        let fields: Vec<String> = fields.iter().map(|f| format!("{}: {}", f.name, type_name(&f.ty))).collect();
        add_row(
            &mut table,
            vec![
                name.clone(),
                word(kind),
                role.as_ref().map_or_else(|| "-".into(), word),
                count.records.to_string(),
                bytes(count.bytes),
                fields.join(", "),
            ],
        );
    }
    right(&mut table, &[3, 4]);
    some(table)
}

fn counters(meta: &Meta) -> Option<Table> {
    let mut table = table(&["counter", "event", "counted by", "absent, because"]);
    for (name, CounterInfo { event, pmu, absent }) in &meta.schema.counters {
        let by = match (pmu, absent) {
            (_, Some(_)) => "-".to_owned(),
            (Some(pmu), None) => pmu.clone(),
            (None, None) => "the kernel".to_owned(),
        };
        add_row(&mut table, vec![name.clone(), event.clone(), by, absent.clone().unwrap_or_default()]);
    }
    some(table)
}

fn lost(meta: &Meta) -> impl Iterator<Item = &Loss> {
    meta.losses.iter().filter(|loss| loss.count > 0)
}

/// What was asked for and is not in the trace, beside what was lost.
fn left_out(meta: &Meta) -> Option<Table> {
    let mut table = table(&["kind", "what", "incomplete"]);
    for LeftOut { kind, text, .. } in meta.end.iter().flat_map(|end| &end.left_out) {
        let harmful = if kind.is_harmful() { "yes" } else { "no" };
        add_row(&mut table, vec![word(kind), text.clone(), harmful.into()]);
    }
    some(table)
}

fn losses(meta: &Meta) -> Option<Table> {
    let mut table = table(&["record", "reason", "count"]);
    for loss in lost(meta) {
        add_row(&mut table, vec![loss.record.clone(), word(&loss.kind).replace('_', " "), loss.count.to_string()]);
    }
    right(&mut table, &[2]);
    some(table)
}

fn notices(meta: &Meta) -> Option<Table> {
    let mut table = table(&["after", "notice"]);
    // Operators that come and go do so thousands of times; `--json` has all of them.
    for notice in meta.notices.iter().filter(|notice| notice.detail.is_none_or(is_told)) {
        let after = seconds(notice.time.saturating_sub(meta.origin.monotonic_ns));
        add_row(&mut table, vec![after, notice.text.clone()]);
    }
    right(&mut table, &[0]);
    some(table)
}

fn is_told(detail: Detail) -> bool {
    detail.reason == DetailReason::Rate && matches!(detail.state, DetailState::On | DetailState::Off)
}

/// The price, and what was recorded for it.
fn price(meta: &Meta) -> Option<String> {
    let price = meta.end.as_ref()?.price.as_ref()?;
    let added = price.base_ns.saturating_add(price.detail_ns);
    let bare = price.step_ns.saturating_sub(added);
    let spent =
        (bare > 0).then(|| format!("{:.2} % of the steps' time, as reckoned", added as f64 * 100.0 / bare as f64))?;
    let budget = price.budget.map_or_else(String::new, |budget| format!("; the budget was {} %", budget * 100.0));
    let windows = meta.notices.iter().filter_map(|notice| notice.detail).filter(|d| d.state == DetailState::On).count();
    let windows = if windows > 0 { format!("; operators recorded in {windows} stretches") } else { String::new() };
    Some(format!("{spent}{budget}{windows}"))
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    if !header.is_empty() {
        table.set_header(header.iter().copied());
    }
    table
}

fn add_row(table: &mut Table, cells: Vec<String>) {
    table.add_row(cells.iter().map(|cell| printable(cell)));
}

fn right(table: &mut Table, columns: &[usize]) {
    for column in columns {
        if let Some(column) = table.column_mut(*column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

fn some(table: Table) -> Option<Table> {
    (!table.is_empty()).then_some(table)
}

/// A unit variant's name as in JSON.
fn word(value: &impl Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

/// A field's type in the words of the probeset language.
fn type_name(ty: &FieldType) -> String {
    match ty {
        FieldType::Int(size) => format!("i{}", size * 8),
        FieldType::Uint(size) => format!("u{}", size * 8),
        FieldType::Float(size) => format!("f{}", size * 8),
        FieldType::Bool => "bool".into(),
        FieldType::Pointer => "void*".into(),
        FieldType::Enum(name) => format!("enum {name}"),
        FieldType::Text(size) => format!("char[{size}]"),
        FieldType::Hex(size) => format!("hex({size})"),
        FieldType::Object(name) => format!("object {name}"),
        FieldType::Array(of, count) => format!("{}[{count}]", type_name(of)),
        FieldType::List(of, max) => format!("{}[..] max {max}", type_name(of)),
        FieldType::Match(n) => format!("match[{n}]"),
        FieldType::Duration => "ns".into(),
        FieldType::Counter => "counter".into(),
        FieldType::Scaled => "which counters are scaled".into(),
    }
}

fn seconds(ns: u64) -> String {
    format!("{:.3} s", ns as f64 / 1e9)
}

fn bytes(bytes: u64) -> String {
    const UNITS: [(f64, &str); 3] = [(1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    let unit = UNITS.into_iter().find(|(size, _)| bytes as f64 >= *size);
    unit.map_or_else(|| format!("{bytes} B"), |(size, unit)| format!("{:.1} {unit}", bytes as f64 / size))
}

/// UNIX time in ns as a date in UTC, by the civil calendar (Hinnant's `civil_from_days`).
pub(super) fn date(unix_ns: u64) -> String {
    let seconds = unix_ns / 1_000_000_000;
    let (days, second) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // Months from March on, so that the leap day is the last.
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = era * 400 + year_of_era + carry;
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02} UTC", second / 3600, second / 60 % 60, second % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_the_calendars() {
        assert_eq!(date(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(date(951_782_400 * 1_000_000_000), "2000-02-29 00:00:00 UTC");
        assert_eq!(date(1_798_761_599 * 1_000_000_000), "2026-12-31 23:59:59 UTC");
    }

    #[test]
    fn texts_of_a_trace_cannot_steer_the_terminal() {
        assert_eq!(printable("a\x1b[2Jb\u{9b}c"), "a\u{fffd}[2Jb\u{fffd}c");
    }
}
