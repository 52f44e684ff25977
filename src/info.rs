//! `profinfer info`: what a trace is, without what its records say.

use super::table::rendered;
use super::{DONE, Outcome, terminal, trace_file};
use profinfer_diagnostics::{Code, Diagnostic, printable, printable_json, printable_lines};
use profinfer_report::{TextTable, bytes, date_time, limits_line};
use profinfer_schema::{
    CounterInfo, Detail, DetailReason, DetailState, FieldType, LeftOut, Loss, ModuleInfo, Notice, RecordType, Site,
};

use profinfer_trace::Meta;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Write};
use std::path::PathBuf;

/// The subcommand's arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The trace; `-` is standard input
    trace: PathBuf,
    /// Print JSON
    #[arg(long, conflicts_with = "probeset")]
    json: bool,
    /// Print the probeset of the trace
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
    let mut reader = if arguments.json || arguments.probeset {
        trace_file::open_whole(&arguments.trace)?
    } else {
        trace_file::open_present(&arguments.trace)?
    };
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
            let message = format!("cannot write the description of the trace: {error}");
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
        "sampling": meta.sampling,
        "samples": meta.samples,
        "end": meta.end,
        "problems": meta.problems.0.iter().map(problem).collect::<Vec<_>>(),
    });
    format!("{all:#}\n")
}

fn text(meta: &Meta, counts: &[Count]) -> String {
    let mut text = summary(meta, counts);
    let section = |title: &str, table: Option<TextTable>| {
        table.map_or(String::new(), |table| format!("\n{title}\n{}", rendered(&table)))
    };
    text += &section("Modules", modules(meta));
    text += &section("Sites", sites(meta));
    text += &section("Records", records(meta, counts));
    text += &section("Sources of offsets and names", value_sources(meta));
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
    let kernel = format!("{} {}, {}, {} CPUs", host.kernel, host.arch, host.cpu_model, host.cpus);
    let mut table = table(&["", ""]);
    for (name, value) in [
        ("Recorded", format!("{}, for {}", date_time(origin.wall_clock_ns), seconds(duration(meta, counts)))),
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
        table.row(vec![name.into(), value]);
    }
    if let Some(samples) = samples(meta) {
        table.row(vec!["Samples".into(), samples]);
    }
    if let Some(overhead) = overhead(meta) {
        table.row(vec!["Overhead".into(), overhead]);
    }
    rendered(&table)
}

/// Timer samples of the target's threads.
fn samples(meta: &Meta) -> Option<String> {
    let sampling = meta.sampling.as_ref()?;
    let absent = sampling.absent.iter().map(|why| format!("; {why}")).collect::<String>();
    let (samples, lost) = (meta.samples, sampling.lost);
    Some(format!("{samples} of {} at {} Hz, {lost} lost{absent}", sampling.event, sampling.hz))
}

/// Where offsets and the names of numbers come from, those of one source together.
fn value_sources(meta: &Meta) -> Option<TextTable> {
    let sources = meta.end.as_ref().map(|end| end.sources.as_slice()).filter(|sources| !sources.is_empty())?;
    let mut by_source: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for of in sources {
        let value = of.value.map_or_else(String::new, |value| format!(" {value}"));
        by_source.entry(&of.source).or_default().push(format!("{}{value}", of.what));
    }
    let mut table = table(&["Source", "What"]);
    for (source, what) in by_source {
        table.row(vec![source.into(), what.join(", ")]);
    }
    Some(table)
}

/// What the machine can do at most.
fn limits(meta: &Meta) -> String {
    match &meta.origin.roofline {
        Some(roofline) => {
            format!(
                "{}; measured {}",
                limits_line(roofline),
                date_time(roofline.measured_at.saturating_mul(1_000_000_000))
            )
        }
        None => "not measured; run `profinfer roofline` before recording".into(),
    }
}

/// From the start to the end that the trace gives, else to the end of the last record.
fn duration(meta: &Meta, counts: &[Count]) -> u64 {
    let last = counts.iter().filter_map(|count| count.last).max().unwrap_or(0);
    let end = meta.end.as_ref().map_or(last, |end| end.time);
    end.saturating_sub(meta.origin.monotonic_ns)
}

fn ending(meta: &Meta) -> String {
    let Some(end) = &meta.end else { return "unknown: the trace is truncated".into() };
    let status = match (end.exit_code, end.signal) {
        (_, Some(signal)) => format!(", killed by signal {signal}"),
        (Some(code), None) => format!(", exit code {code}"),
        (None, None) => String::new(),
    };
    format!("{}{status}", end.reason)
}

fn modules(meta: &Meta) -> Option<TextTable> {
    let mut table = table(&["module", "build-id", ">size", "file"]);
    for ModuleInfo { name, path, build_id, size } in &meta.modules {
        let build_id = build_id.clone().unwrap_or_else(|| "-".into());
        table.row(vec![name.clone(), build_id, bytes(*size), path.clone()]);
    }
    some(table)
}

fn sites(meta: &Meta) -> Option<TextTable> {
    let mut table = table(&[">site", "probe", "module", "function", ">file offset", "instruction"]);
    for site in &meta.sites {
        let Site { id, probes, file_offset, instruction, .. } = site;
        let module = meta.module_of(site).map_or("?", |module| module.name.as_str());
        table.row(vec![
            id.to_string(),
            probes.join(", "),
            module.into(),
            site.place(),
            format!("{file_offset:#x}"),
            instruction.clone(),
        ]);
    }
    some(table)
}

fn records(meta: &Meta, counts: &[Count]) -> Option<TextTable> {
    let mut table = table(&["record", "kind", "role", ">count", ">size", "fields"]);
    for (number, (RecordType { name, kind, role, fields, .. }, count)) in
        (0..).zip(meta.schema.records.iter().zip(counts))
    {
        if meta.schema.others.contains(&number) {
            continue;
        }
        let fields: Vec<String> = fields.iter().map(|f| format!("{}: {}", f.name, type_name(&f.ty))).collect();
        table.row(vec![
            name.clone(),
            word(kind),
            role.as_ref().map_or_else(|| "-".into(), word),
            count.records.to_string(),
            bytes(count.bytes),
            fields.join(", "),
        ]);
    }
    some(table)
}

fn counters(meta: &Meta) -> Option<TextTable> {
    let mut table = table(&["counter", "event", "source", "reason if absent"]);
    for (name, CounterInfo { event, pmu, absent }) in &meta.schema.counters {
        let by = match (pmu, absent) {
            (_, Some(_)) => "-".to_owned(),
            (Some(pmu), None) => pmu.clone(),
            (None, None) => "the kernel".to_owned(),
        };
        table.row(vec![name.clone(), event.clone(), by, absent.clone().unwrap_or_default()]);
    }
    some(table)
}

fn lost(meta: &Meta) -> impl Iterator<Item = &Loss> {
    meta.losses.iter().filter(|loss| loss.count > 0)
}

/// What was asked for and is not in the trace, beside what was lost.
fn left_out(meta: &Meta) -> Option<TextTable> {
    let mut table = table(&["kind", "what", "incomplete"]);
    for LeftOut { kind, text, .. } in meta.end.iter().flat_map(|end| &end.left_out) {
        let harmful = if kind.is_harmful() { "yes" } else { "no" };
        table.row(vec![word(kind), text.clone(), harmful.into()]);
    }
    some(table)
}

fn losses(meta: &Meta) -> Option<TextTable> {
    let mut table = table(&["record", "reason", ">count"]);
    for loss in lost(meta) {
        table.row(vec![loss.record.clone(), word(&loss.kind).replace('_', " "), loss.count.to_string()]);
    }
    some(table)
}

fn notices(meta: &Meta) -> Option<TextTable> {
    let mut table = table(&[">after", "notice"]);
    // Operators that come and go do so thousands of times; `--json` has all of them.
    let shown = |notice: &&Notice| !notice.text.is_empty() && notice.detail.is_none_or(is_told);
    for notice in meta.notices.iter().filter(shown) {
        let after = seconds(notice.time.saturating_sub(meta.origin.monotonic_ns));
        table.row(vec![after, notice.text.clone()]);
    }
    some(table)
}

fn is_told(detail: Detail) -> bool {
    detail.reason == DetailReason::Rate && matches!(detail.state, DetailState::On | DetailState::Off)
}

/// The overhead, and what was recorded for it.
fn overhead(meta: &Meta) -> Option<String> {
    let overhead = meta.end.as_ref()?.overhead.as_ref()?;
    let part = profinfer_report::overhead_part(overhead)?;
    let spent = format!("{:.2} % of the time in steps (estimated)", part * 100.0);
    let budget = overhead.budget.map_or_else(String::new, |budget| format!("; budget {} %", budget * 100.0));
    let windows = meta.notices.iter().filter_map(|notice| notice.detail).filter(|d| d.state == DetailState::On).count();
    let windows =
        if windows > 0 { format!("; operators recorded in {windows} sampling windows") } else { String::new() };
    Some(format!("{spent}{budget}{windows}"))
}

fn table(headings: &[&str]) -> TextTable {
    TextTable::listing(headings, 1)
}

fn some(table: TextTable) -> Option<TextTable> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_a_trace_cannot_steer_the_terminal() {
        assert_eq!(printable("a\x1b[2Jb\u{9b}c"), "a\u{fffd}[2Jb\u{fffd}c");
    }
}
