//! How fast a trace becomes a report, and how much memory that takes, at 1 and 10 million spans of operators: a decoding
//! model, two threads, 244 operators a token, each span ended by the next one's start, as `until` spans are.
//!
//! `cargo bench --bench report` runs all; `cargo bench --bench report -- 1000000` one size. Each trace is read by a
//! process of its own, so that its memory is the report's alone. The same trace is then made a page (`profinfer html`):
//! how long that takes, and how large the page is. `KEEP=FILE` keeps the page of the last one.
//!
//! `cargo bench --bench report -- FILE` reads a trace of yours instead, five times, by the rules of its probeset.
//!
//! `cargo bench --bench report -- --write FILE SHAPE RECORDS` writes a long trace, for the program to be measured with:
//! its steps are `tiny`, `huge` and so on (`tests/written/long.rs`).

#![allow(missing_docs, clippy::unwrap_used)]

use profinfer_analysis::testing::{Put, Records};
use profinfer_analysis::{Catalogue, Completeness, Decoder, Rules, Statistics, Step, Timeline, Visitor};
use profinfer_probeset as spec;
use profinfer_report::{Options, Page, Parts, SpanCollector, TextStyle, build, report_text, write_page};
use profinfer_schema::{End, Origin};

use profinfer_trace::{Item, TraceReader, TraceWriter};
use std::fs::File;
use std::path::Path;
use std::time::Instant;

#[path = "../tests/written/long.rs"]
mod long;

const OPERATORS: u64 = 244;
const THREADS: u32 = 2;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(at) = arguments.iter().position(|a| a == "--read") {
        return read(Path::new(&arguments[at + 1]));
    }
    if let Some(at) = arguments.iter().position(|a| a == "--page") {
        return page(Path::new(&arguments[at + 1]));
    }
    if let Some(at) = arguments.iter().position(|a| a == "--write") {
        let shape = long::Shape::named(&arguments[at + 2]).unwrap();
        let steps = long::write(Path::new(&arguments[at + 1]), shape, arguments[at + 3].parse().unwrap());
        return println!("{steps} steps");
    }
    if let Some(file) = arguments.iter().skip(1).find(|argument| Path::new(argument).is_file()) {
        heading();
        (0..5).for_each(|_| run("--read", Path::new(file)));
        return;
    }
    let sizes: Vec<u64> = arguments.iter().filter_map(|argument| argument.parse().ok()).collect();
    let sizes = if sizes.is_empty() { vec![1_000_000, 10_000_000] } else { sizes };
    heading();
    for spans in sizes {
        let file = tempfile::NamedTempFile::new().unwrap();
        write(file.as_file(), spans);
        ["--read", "--page"].iter().for_each(|what| run(what, file.path()));
    }
}

fn heading() {
    println!("{:>10} {:>8} {:>12} {:>12} {:>9}", "spans", "steps", "spans/s", "spans/cpu s", "peak MB");
}

/// Reads a trace in a process of its own.
fn run(what: &str, trace: &Path) {
    let program = std::env::current_exe().unwrap();
    let status = std::process::Command::new(program).arg(what).arg(trace).status().unwrap();
    assert!(status.success());
}

/// The rules of the probeset that a trace carries.
fn rules(origin: &Origin) -> Rules {
    if origin.sources.is_empty() {
        return Rules::default();
    }
    let (probeset, _) = spec::from_sources(&origin.sources).unwrap();
    Rules::new(&probeset.analysis).unwrap()
}

fn read(path: &Path) {
    let start = Instant::now();
    let mut reader = TraceReader::new(File::open(path).unwrap()).unwrap().ahead();
    let origin = &reader.meta().origin;
    let pid = if origin.pid == 0 { 1 } else { origin.pid };
    let mut timeline = Timeline::new(&reader.meta().schema, rules(origin), pid);
    let mut statistics = Statistics::default();
    while let Some(item) = reader.next() {
        match item {
            Item::Record(record) => timeline.record(record.bytes(), &mut statistics),
            Item::Sites { sites, .. } => {
                timeline.add_sites(sites);
                timeline.add_enums(&reader.meta().schema);
            }
            Item::Notice(notice) => timeline.notice(notice),
            _ => {}
        }
    }
    timeline.finish(&mut statistics);
    let meta = reader.into_meta();
    let judged = Completeness::judge(&meta, timeline.findings(), &statistics);
    assert!(judged.complete, "{}", judged.verdict);
    let report = build(&meta, judged, &statistics, &timeline, &Options::default());
    let text = report_text(&report, &TextStyle::default());
    let time = start.elapsed();
    let spans = timeline.findings().operator_spans;
    let steps = report.completeness.steps;
    println!(
        "{spans:>10} {steps:>8} {:>12.0} {:>12.0} {:>9.1}",
        spans as f64 / time.as_secs_f64(),
        spans as f64 * 1e9 / cpu_ns().max(1) as f64,
        peak_bytes() as f64 / 1e6
    );
    if std::env::var_os("SHOW").is_some() {
        println!("{text}");
    }
}

/// What a page takes: statistics and the timeline's spans.
#[derive(Debug)]
struct Collected {
    statistics: Statistics,
    spans: SpanCollector,
}

impl Visitor for Collected {
    fn step(&mut self, step: &Step, catalogue: &Catalogue, decoder: &Decoder) {
        self.statistics.step(step, catalogue, decoder);
        self.spans.step(step, catalogue, decoder);
    }
}

fn page(path: &Path) {
    let start = Instant::now();
    let mut reader = TraceReader::new(File::open(path).unwrap()).unwrap().ahead();
    let mut timeline = Timeline::new(&reader.meta().schema, Rules::default(), 1);
    let mut collected = Collected { statistics: Statistics::default(), spans: SpanCollector::new(None) };
    while let Some(item) = reader.next() {
        match item {
            Item::Record(record) => timeline.record(record.bytes(), &mut collected),
            Item::Sites { sites, .. } => timeline.add_sites(sites),
            _ => {}
        }
    }
    timeline.finish(&mut collected);
    let meta = reader.into_meta();
    let Collected { statistics, spans } = collected;
    let judged = Completeness::judge(&meta, timeline.findings(), &statistics);
    let report = build(&meta, judged, &statistics, &timeline, &Options::default());
    let (statistics, timeline, meta) = (&statistics, &timeline, &meta);
    let page = Page { report: &report, statistics, timeline, meta, spans, parts: Parts::default() };
    let mut bytes = Vec::new();
    write_page(page, &mut bytes).unwrap();
    let time = start.elapsed();
    let mb = bytes.len() as f64 / 1e6;
    println!(
        "{:>10} page: {:.2} s ({:.2} s of cpu), {mb:.1} MB, peak {:.1} MB",
        "",
        time.as_secs_f64(),
        cpu_ns() as f64 / 1e9,
        peak_bytes() as f64 / 1e6
    );
    if let Some(file) = std::env::var_os("KEEP") {
        std::fs::write(file, &bytes).unwrap();
    }
}

/// Writes whole tokens until there are so many spans of operators.
fn write(file: &File, spans: u64) {
    let mut records = Records::default();
    let mut writer = TraceWriter::new(file, &Origin::default(), &records.schema).unwrap();
    let mut model = Model { random: 88_172_645_463_325_252, open: vec![None; THREADS as usize] };
    let mut now = 7_000_000_000_000;
    for thread in 0..THREADS {
        records.push("thread", 4000 + thread, (now, now), &[("pid", Put::Int(1))]);
    }
    for operator in 0..OPERATORS {
        let name = format!("op_{}-{}", operator % 15, operator / 15);
        let fields = [
            ("address", Put::Int(address(operator))),
            ("op", Put::Text(["MUL_MAT", "ADD", "ROPE"][operator as usize % 3])),
            ("name", Put::Text(&name)),
        ];
        records.push("tensor", 4000, (now, now), &fields);
    }
    let mut written = 0;
    while written < spans {
        now = model.token(&mut records, now);
        written += OPERATORS * u64::from(THREADS);
        for record in records.records.drain(..) {
            writer.push(&record).unwrap();
        }
    }
    for thread in 0..THREADS {
        model.close(&mut records, thread, now);
        records.push("thread_exit", 4000 + thread, (now, now), &[]);
    }
    for record in records.records.drain(..) {
        writer.push(&record).unwrap();
    }
    writer.finish(&End::default()).unwrap();
}

fn address(operator: u64) -> u64 {
    0x7f3a_4000_1000 + operator * 0x170
}

/// An engine that decodes: the same operators at each token, on every thread.
struct Model {
    random: u64,
    /// Each thread's open operator: its start and number.
    open: Vec<Option<(u64, u64)>>,
}

impl Model {
    fn below(&mut self, bound: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % bound
    }

    fn token(&mut self, records: &mut Records, start: u64) -> u64 {
        let mut now = start + 20_000;
        for operator in 0..OPERATORS {
            for thread in 0..THREADS {
                let at = now + self.below(500);
                self.close(records, thread, at);
                self.open[thread as usize] = Some((at, operator));
            }
            now += 10_000 + self.below(20_000);
        }
        records.push("graph", 4000, (start + 10_000, now), &[("backend", Put::Text("CPU"))]);
        records.push("step", 4000, (start, now + 10_000), &[("tokens", Put::Int(1))]);
        now + 50_000
    }

    fn close(&mut self, records: &mut Records, thread: u32, now: u64) {
        let Some((start, operator)) = self.open[thread as usize].take() else { return };
        let fields = [
            ("lane", Put::Int(u64::from(thread))),
            ("node", Put::Int(address(operator))),
            ("waiting", Put::Int(1000 + self.below(500))),
        ];
        records.push("operator", 4000 + thread, (start, now), &fields);
    }
}

/// The time this process had processors, all of its threads together, ns in steps of 10 ms; 0 where the system does not
/// say.
fn cpu_ns() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // What follows the name, which may hold anything, in units of USER_HZ.
    let numbers = stat.rsplit_once(')').map_or("", |(_, numbers)| numbers).split_whitespace().skip(11).take(2);
    numbers.filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>() * 10_000_000
}

/// The most memory this process had so far; 0 where the system does not say.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) * 1024
}
