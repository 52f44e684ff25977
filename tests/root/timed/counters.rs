//! Counters of programs whose counts the kernel tells by other ways as well. These need root, a C compiler and clang.

use profinfer_trace::{Item, Meta, TraceReader, Value};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

const PROBESET: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/targets/counting.yaml");

fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("counters");
        std::fs::create_dir_all(&folder).unwrap();
        let program = folder.join("counting");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/targets/counting.c");
        let mut command = Command::new("cc");
        command.args(["-O2", "-g", "-pthread", "-o"]).arg(&program).arg(source);
        assert!(command.status().expect("a C compiler").success());
        program
    })
}

/// A span: its probe, its duration, and its fields that are there.
#[derive(Debug)]
struct Span {
    probe: String,
    duration: u64,
    fields: BTreeMap<String, i128>,
}

struct Recorded {
    output: Output,
    spans: Vec<Span>,
    meta: Meta,
}

impl Recorded {
    fn new(arguments: &[&str], target: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("run.pfi");
        let mut command = Command::new(env!("CARGO_BIN_EXE_profinfer"));
        command.args(["record", PROBESET, "-o"]).arg(&trace).args(arguments).arg("--").arg(program()).args(target);
        let output = command.output().unwrap();
        let mut reader =
            TraceReader::new(File::open(&trace).unwrap_or_else(|_| panic!("{}", stderr(&output)))).unwrap();
        let mut spans = Vec::new();
        while let Some(item) = reader.next() {
            let Item::Record(record) = item else { continue };
            let number = |value: Value<'_>| match value {
                Value::Uint(number) => Some(i128::from(number)),
                Value::Int(number) => Some(i128::from(number)),
                _ => None,
            };
            let fields = record.fields().filter_map(|(name, value)| Some((name.to_owned(), number(value)?)));
            let (probe, duration) = (record.kind().name.clone(), record.header().duration);
            spans.push(Span { probe, duration, fields: fields.collect() });
        }
        Self { output, spans, meta: reader.into_meta() }
    }

    fn of(&self, probe: &str) -> Vec<&Span> {
        let found: Vec<&Span> = self.spans.iter().filter(|span| span.probe == probe).collect();
        assert!(!found.is_empty(), "no {probe}: {}", stderr(&self.output));
        found
    }

    /// The numbers of each line of the target that starts with a word.
    fn reported(&self, word: &str) -> Vec<Vec<i128>> {
        let text = String::from_utf8_lossy(&self.output.stdout).into_owned();
        let lines = text.lines().filter_map(|line| line.strip_prefix(word));
        lines.map(|line| line.split_whitespace().map(|number| number.parse().unwrap()).collect()).collect()
    }
}

/// What the machine's host has taken from the first cpu, in ns.
fn stolen_ns() -> f64 {
    let text = std::fs::read_to_string("/proc/stat").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("cpu0 ")).unwrap();
    let ticks: f64 = line.split_whitespace().nth(7).unwrap().parse().unwrap();
    ticks * 1e7
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
#[ignore = "needs root"]
fn the_kernels_counts_of_a_thread_are_those_it_tells_itself() {
    for way in [&["--steps", "1.."][..], &["--old-kernel"]] {
        let recorded = Recorded::new(way, &["faults", "500", "40"]);
        let [step] = recorded.of("step")[..] else { panic!("one step") };
        let [reported] = &recorded.reported("faults")[..] else { panic!("one line") };
        let [minor, major, asked, forced] = reported[..] else { panic!("{reported:?}") };
        let of = |name: &str| step.fields[name];
        // The call does a little besides: functions it calls are mapped, and it says what it did.
        assert!((minor..=minor + 20).contains(&of("minor")), "{step:?} {reported:?}");
        assert!((major..=major + 2).contains(&of("major")), "{step:?} {reported:?}");
        assert!((asked..=asked + 2).contains(&of("asked")), "{step:?} {reported:?}");
        assert!((asked + forced..=asked + forced + 4).contains(&of("left")), "{step:?} {reported:?}");
        assert!(minor >= 500 && asked >= 40, "{reported:?}");
        assert_eq!(recorded.meta.losses, []);
    }
}

#[test]
#[ignore = "needs root"]
fn a_cpus_counter_is_the_threads_own_where_threads_take_turns() {
    let ways = [&["--exact"][..], &["--exact", "--old-kernel"]];
    // Some machines' kernels do not tell of every switch: what such a span counted is unknown. Others are still there.
    let mut known = [0; 2];
    for (nth, way) in (0..8).flat_map(|_| ways.iter().enumerate()) {
        if known[nth] >= 4 {
            continue;
        }
        let before = stolen_ns();
        let recorded = Recorded::new(way, &["turns", "3", "200", "0"]);
        let stolen = stolen_ns() - before;
        let reported: BTreeMap<i128, i128> =
            recorded.reported("turn").into_iter().map(|line| (line[0], line[1])).collect();
        assert_eq!(reported.len(), 3);
        for span in recorded.of("turn").into_iter().chain(recorded.of("again")) {
            let own = reported[&span.fields["lane"]] as f64;
            // What a reading at each end of the span would have given: all that ran on the cpu.
            let naive = span.duration as f64;
            assert!(naive / own > 1.5, "{span:?}: {own}; they did not take turns");
            let Some(counted) = span.fields.get("clock").map(|clock| *clock as f64) else { continue };
            known[nth] += 1;
            // A host may take the cpu away: the thread's clock leaves that out, the cpu's does not.
            assert!(counted > own * 0.98 && counted < own * 1.02 + stolen, "{span:?}: {own}, {stolen} stolen");
        }
        assert_eq!(recorded.meta.losses, []);
    }
    assert!(known.iter().all(|known| *known >= 4), "{known:?}");
}

#[test]
#[ignore = "needs root"]
fn what_the_machine_has_not_got_costs_one_warning_and_no_more() {
    let recorded = Recorded::new(&["--counter", "no_such_pmu/config=1/", "--counter", "minor"], &["faults", "10", "1"]);
    let [step] = recorded.of("step")[..] else { panic!("one step") };
    assert!(!step.fields.contains_key("no_such_pmu/config=1/") && step.fields.contains_key("minor"), "{step:?}");
    let absent = &recorded.meta.schema.counters["no_such_pmu/config=1/"];
    assert!(absent.absent.as_ref().unwrap().contains("no unit `no_such_pmu`"), "{absent:?}");
    assert_eq!(recorded.meta.schema.counters["minor"].absent, None);
    let reported = stderr(&recorded.output);
    assert_eq!(reported.matches("C002").count(), 1, "{reported}");
    assert_eq!(recorded.output.status.code(), Some(0), "{reported}");
}

#[test]
fn every_event_there_is_a_name_for_is_listed() {
    let output = Command::new(env!("CARGO_BIN_EXE_profinfer")).args(["counters", "--json"]).output().unwrap();
    let listing: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let events = listing["events"].as_array().unwrap();
    let event = |name: &str| events.iter().find(|event| event["event"] == name).unwrap();
    assert_eq!(event("major-faults")["opens"], true);
    assert_eq!(event("major-faults")["group"], "thread");
    let cycles = event("cycles");
    assert_eq!(cycles["opens"], cycles["reason"].is_null());
    assert_eq!(
        listing["without_pmu"].is_null(),
        listing["at_once"] != serde_json::json!({}) || cycles["opens"] == true
    );
}
