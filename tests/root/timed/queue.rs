//! A runtime with a queue and a device of its own, whose times are known: what the report and the tables say of it is
//! what the program measured by its own clock.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/targets");

/// The target, compiled once.
fn target() -> &'static Path {
    static TARGET: OnceLock<PathBuf> = OnceLock::new();
    TARGET.get_or_init(|| {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("queue");
        let source = Path::new(SOURCES).join("queue.c");
        let status = Command::new("cc").args(["-O2", "-g", "-o"]).arg(&path).arg(source).arg("-lpthread").status();
        assert!(status.expect("a C compiler").success());
        path
    })
}

/// What the target says of a step, by its own clock; ns.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    /// Before the first submission.
    pub(super) submitted: u64,
    /// When the wait returned.
    pub(super) done: u64,
    /// When the device was done.
    pub(super) finished: u64,
    /// How long the device worked.
    pub(super) worked: u64,
    /// How long the host was in calls that copy, submit, encode and wait.
    pub(super) copying: u64,
    pub(super) submitting: u64,
    pub(super) encoding: u64,
    pub(super) waiting: u64,
}

impl Known {
    fn new(line: &str) -> Self {
        let words: Vec<&str> = line.split_whitespace().collect();
        let value = |name: &str| {
            let at = words.iter().position(|word| *word == name).unwrap_or_else(|| panic!("{name} in {line}"));
            words[at + 1].parse().unwrap()
        };
        Self {
            submitted: value("submitted"),
            done: value("done"),
            finished: value("finished"),
            worked: value("worked"),
            copying: value("copying"),
            submitting: value("submitting"),
            encoding: value("encoding"),
            waiting: value("waiting"),
        }
    }
}

pub(super) struct Run {
    pub(super) folder: tempfile::TempDir,
    pub(super) known: Vec<Known>,
}

impl Run {
    pub(super) fn new(options: &[&str], words: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_profinfer"));
        command.arg("record").args(options).arg(Path::new(SOURCES).join("queue.yaml"));
        command.arg("-o").arg(folder.path().join("run.pfi")).arg("--").arg(target()).args(words);
        let output = command.stdin(Stdio::null()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        Self { folder, known: String::from_utf8(output.stdout).unwrap().lines().map(Known::new).collect() }
    }

    pub(super) fn read(&self, subcommand: &str, arguments: &[&str]) -> Vec<u8> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_profinfer"));
        let output = command.arg(subcommand).arg(self.folder.path().join("run.pfi")).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }

    fn table(&self, name: &str) -> Vec<Value> {
        let folder = self.folder.path().join(name);
        self.read("export", &["--format", "ndjson", "-o", folder.to_str().unwrap()]);
        let text = std::fs::read_to_string(folder.join(format!("{name}.ndjson"))).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub(super) fn report(&self) -> Value {
        serde_json::from_slice(&self.read("report", &["--json"])).unwrap()
    }
}

/// A recorded time is a known one, within 1 %.
fn assert_is(recorded: u64, known: u64, what: &str) {
    assert!(recorded.abs_diff(known) * 100 <= known, "{what}: {recorded} ns recorded, {known} ns known");
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("a number: {value}"))
}

/// From the first submission to the end of the wait, and never less than the device took.
#[test]
#[ignore = "needs root"]
fn intervals_are_those_of_the_queue() {
    let run = Run::new(&[], &["steps=4", "work=100000", "idle=20000"]);
    let queue = run.table("queue");
    let report = run.report();
    assert_eq!(report["completeness"]["complete"], true);
    let mut sum = 0;
    for (number_of, Known { submitted, done, finished, .. }) in (1_u64..).zip(&run.known) {
        let of_step = |event: &str| {
            let rows = queue.iter().filter(move |row| row["step"] == number_of && row["event"] == event);
            rows.collect::<Vec<_>>()
        };
        let submits = of_step("submit");
        assert_eq!(submits.len(), 2);
        let by = number(&submits[0]["done_by_ns"]);
        assert_eq!(number(&submits[1]["done_by_ns"]), by, "one wait is for both");
        let bound = by - number(&submits[0]["start_ns"]);
        assert_is(bound, done - submitted, "interval");
        assert!(bound >= finished - submitted, "a bound: {bound}");
        sum += done - submitted;
        // The first wait ran into its timeout: it is no end.
        let waits = of_step("wait");
        assert_eq!(waits.iter().map(|wait| wait["failed"].as_bool().unwrap()).collect::<Vec<_>>(), [true, false]);
        let copies = of_step("copy");
        let tokens = if number_of == 1 { 4 } else { 1 };
        assert_eq!((copies.len(), &copies[0]["bytes"]), (1, &(64 * tokens).into()));
        assert_eq!(copies[0]["direction"], "to device");
    }
    let backend = &report["offload"]["backends"][0];
    assert_eq!((&backend["graphs"], &backend["bounded_graphs"]), (&4.into(), &4.into()));
    assert_is(number(&backend["device_bound_ns"]), sum, "all of them");
    assert_is(number(&report["offload"]["queues"][0]["busy_bound_ns"]), sum, "the queue");
    assert_eq!(report["offload"]["steps_with_results"], 4);
    // A step returns long before its results are there.
    let mean = report["offload"]["mean_until_results_ns"].as_f64().unwrap();
    assert!(mean > 100e6, "{mean}");
    let decode = report["phases"].as_array().unwrap().iter().find(|phase| phase["phase"] == "decode").unwrap();
    assert!(decode["step"]["mean_ns"].as_f64().unwrap() < mean / 10.0, "{decode}");
}

/// What is encoded, what is fused, what is empty, and the times that the device took itself.
#[test]
#[ignore = "needs root"]
fn operators_have_the_host_s_time_and_the_device_s() {
    let run = Run::new(&["--gpu-timing", "timestamps"], &["steps=2", "encode=2000", "work=1000"]);
    let rows = run.table("dispatches");
    let seen: Vec<_> = rows
        .iter()
        .map(|row| {
            let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
            (text("name"), text("op"), text("fused"), row["operators"].as_u64().unwrap(), row["device_ns"].as_u64())
        })
        .collect();
    let row = |name: &str, op: &str, fused: &str, operators: u64, device: Option<u64>| {
        (name.to_owned(), op.to_owned(), fused.to_owned(), operators, device)
    };
    let step = [
        row("first", "MUL_MAT", "", 1, Some(200)),
        row("scaled", "MUL", "norm", 2, Some(600)),
        row("last", "ADD", "", 1, Some(1000)),
        row("view", "VIEW", "", 1, None),
    ];
    assert_eq!(seen, [step.clone(), step].concat());
    assert!(rows.iter().all(|row| row["empty"] == (row["name"] == "view")));
    for row in &rows {
        let encoding = number(&row["encoding_ns"]);
        assert!((2_000_000..20_000_000).contains(&encoding), "2 ms, or a little more: {row}");
        assert_eq!(
            (&row["backend"], &row["shape"]),
            (&"q_compute".into(), &if row["name"] == "view" { "16x1" } else { "8x2" }.into())
        );
    }
    let text = String::from_utf8(run.read("report", &["--by", "backend"])).unwrap();
    for expected in [
        "Recorded with `--gpu-timing timestamps`",
        "Device: toy device.",
        "encoding is the host's time",
        "scaled (with norm)",
        "work pending",
    ] {
        assert!(text.contains(expected), "{expected:?} in\n{text}");
    }
    assert_eq!(run.report()["operator_types"].as_array().unwrap().len(), 0, "encoding is no operator's time");
    let file = run.folder.path().join("run.json");
    run.read("timeline", &["--format", "chrome", "-o", file.to_str().unwrap()]);
    let timeline = std::fs::read_to_string(file).unwrap();
    for expected in ["encoding for devices", "queue 0x", "work pending", "copy to device"] {
        assert!(timeline.contains(expected), "{expected:?}");
    }
    arrows_lead_to_the_device(&serde_json::from_str(&timeline).unwrap());
}

/// Each step has two submissions that one wait is for: three operators and two calls have an arrow into that time.
fn arrows_lead_to_the_device(timeline: &Value) {
    let events = timeline.as_array().unwrap();
    let micros = |event: &Value, key: &str| event[key].as_f64().unwrap();
    let spans = |category: &str| -> Vec<(f64, f64)> {
        let of = events.iter().filter(|event| event["ph"] == "X" && event["cat"] == category);
        of.map(|event| (micros(event, "ts"), micros(event, "ts") + micros(event, "dur"))).collect()
    };
    let ends = |phase: &str| -> BTreeMap<u64, f64> {
        let of = events.iter().filter(|event| event["ph"] == phase && event["cat"] == "flow");
        of.map(|event| (event["id"].as_u64().unwrap(), micros(event, "ts"))).collect()
    };
    let (begins, ends) = (ends("s"), ends("f"));
    assert_eq!(begins.keys().collect::<Vec<_>>(), ends.keys().collect::<Vec<_>>());
    assert!(begins.iter().all(|(id, at)| *at <= ends[id]), "{begins:?} {ends:?}");
    let (pending, encoding, submit) = (spans("queue"), spans("encoding"), spans("submit"));
    assert_eq!((pending.len(), encoding.len(), submit.len()), (2, 8, 4));
    let from = |spans: &[(f64, f64)]| begins.values().filter(|at| spans.iter().any(|(start, _)| start == *at)).count();
    assert_eq!((begins.len(), from(&encoding), from(&submit)), (10, 6, 4));
    for (start, end) in pending {
        assert_eq!(ends.values().filter(|at| (start..=end).contains(*at)).count(), 5, "{ends:?}");
    }
}
