//! What threads did, on this machine: the report's states, switches and names are the kernel's own counts. These need
//! root (or CAP_BPF and CAP_PERFMON), a C compiler and clang.

use crate::competitor::Competitor;
use profinfer_trace::{Item, TraceReader};

use profinfer_schema::RecordKind;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/targets");

/// The target, compiled once.
fn target() -> &'static Path {
    static TARGET: OnceLock<PathBuf> = OnceLock::new();
    TARGET.get_or_init(|| {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("scheduled");
        let source = Path::new(SOURCES).join("scheduled.c");
        let status = Command::new("cc").args(["-O2", "-g", "-o"]).arg(&path).arg(source).arg("-lpthread").status();
        assert!(status.expect("a C compiler").success());
        path
    })
}

/// What the kernel counted for one lane while it computed, as the target says it.
#[derive(Debug)]
struct Lane {
    lane: u64,
    tid: u64,
    from: u64,
    to: u64,
    voluntary: u64,
    involuntary: u64,
    ran: u64,
    waited: u64,
    watched: u64,
}

impl Lane {
    fn of(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |name: &str| {
            let at = words.iter().position(|word| *word == name)?;
            words.get(at + 1)?.parse().ok()
        };
        Some(Self {
            lane: number("lane")?,
            tid: number("tid")?,
            from: number("from")?,
            to: number("to")?,
            voluntary: number("voluntary")?,
            involuntary: number("involuntary")?,
            ran: number("ran")?,
            waited: number("waited")?,
            watched: number("watched")?,
        })
    }
}

struct Run {
    _folder: tempfile::TempDir,
    trace: PathBuf,
    lanes: Vec<Lane>,
}

impl Run {
    /// Records the target with these words.
    fn new(words: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("run.pfi");
        let mut command = Command::new(env!("CARGO_BIN_EXE_profinfer"));
        command.arg("record").arg(Path::new(SOURCES).join("scheduled.yaml")).arg("-o").arg(&trace);
        let output = command.arg("--").arg(target()).args(words).stdin(Stdio::null()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let mut lanes: Vec<Lane> = String::from_utf8_lossy(&output.stdout).lines().filter_map(Lane::of).collect();
        lanes.sort_by_key(|lane| lane.lane);
        Self { _folder: folder, trace, lanes }
    }

    fn read(&self, arguments: &[&str]) -> Vec<u8> {
        let (subcommand, rest) = arguments.split_first().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_profinfer"));
        let output = command.arg(subcommand).arg(&self.trace).args(rest).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }

    fn threads(&self) -> Value {
        let report: Value = serde_json::from_slice(&self.read(&["report", "--json"])).unwrap();
        let threads = report["threads"].clone();
        assert_adds_up(&threads);
        threads
    }

    fn text(&self) -> String {
        String::from_utf8(self.read(&["report", "--all"])).unwrap()
    }

    /// What the host took of all processors, ns: the kernel keeps it out of its own counts.
    fn stolen(&self) -> u64 {
        let mut reader = TraceReader::new(std::fs::File::open(&self.trace).unwrap()).unwrap();
        while reader.next().is_some() {}
        reader.meta().end.as_ref().and_then(|end| end.stolen).map_or(0, |stolen| stolen.ns)
    }

    /// Times that a thread left its cpu while it computed: all, and those at which it could have gone on.
    fn switches(&self, lane: &Lane) -> (u64, u64) {
        let mut reader = TraceReader::new(std::fs::File::open(&self.trace).unwrap()).unwrap();
        let mut counts = (0, 0);
        while let Some(item) = reader.next() {
            let Item::Record(record) = item else { continue };
            let header = record.header();
            if record.kind().kind == RecordKind::Switch
                && u64::from(header.tid) == lane.tid
                && (lane.from..lane.to).contains(&header.start)
            {
                counts.0 += 1;
                counts.1 += u64::from(record.field_named("prev_state").as_i64() == Some(0));
            }
        }
        counts
    }
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("a number: {value}"))
}

fn lane(threads: &Value, number: u64) -> &Value {
    threads["lanes"].as_array().unwrap().iter().find(|row| row["lane"] == number).unwrap()
}

/// Each lane's states are its time, within a thousandth.
fn assert_adds_up(threads: &Value) {
    for row in threads["lanes"].as_array().unwrap() {
        let states = ["running_ns", "runnable_ns", "sleeping_ns", "blocked_ns", "unknown_ns"];
        let sum: u64 = states.iter().map(|state| number(&row[*state])).sum();
        let wall = number(&row["wall_ns"]);
        assert!(sum.abs_diff(wall) <= wall / 1000, "{row}");
    }
}

/// One at a time: each measures times, and takes processors from the others.
fn alone() -> std::sync::MutexGuard<'static, ()> {
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// `a` is `b` within so many percent of `of`, and `slack`.
fn assert_close(what: &str, a: u64, b: u64, percent: u64, of: u64, slack: u64) {
    assert!(a.abs_diff(b) <= of * percent / 100 + slack, "{what}: {a} and {b}, of {of}, {slack} beside");
}

#[test]
#[ignore = "needs root"]
fn switches_and_times_are_those_that_the_kernel_counted() {
    let _alone = alone();
    let run = Run::new(&["lanes=2", "operators=20", "work=5000", "nap=1000"]);
    let (threads, stolen) = (run.threads(), run.stolen());
    assert_eq!(run.lanes.len(), 2);
    for reported in &run.lanes {
        assert_eq!(
            run.switches(reported),
            (reported.voluntary + reported.involuntary, reported.involuntary),
            "{reported:?}"
        );
        let row = lane(&threads, reported.lane);
        // The thread's switches before and after it read its counts, while it starts and ends, are not in these.
        let switches = number(&row["voluntary_switches"]) + number(&row["involuntary_switches"]);
        let counted = reported.voluntary + reported.involuntary;
        // Not every kernel tells of every switch: where a thread's coming to a cpu is missed, what it did is unknown.
        let unseen = if number(&row["unknown_ns"]) > 0 { counted / 10 } else { 0 };
        assert!((counted - unseen..=counted + 12).contains(&switches), "{row} {reported:?}");
        let wall = reported.to - reported.from;
        assert_close("running", number(&row["running_ns"]), reported.ran, 4, wall, stolen);
        assert_close("runnable", number(&row["runnable_ns"]), reported.waited, 4, wall, stolen);
        assert!(number(&row["sleeping_ns"]) >= 20 * 1_000_000, "{row}");
        assert!(number(&row["unknown_ns"]) <= wall / 10, "{row}");
    }
    let napping = &threads["operators"][0];
    assert!(number(&napping["sleeping_ns"]) > 0 && number(&napping["compute_ns"]) > 0, "{napping}");
}

#[test]
#[ignore = "needs root"]
fn a_busy_competitor_is_named_with_its_share() {
    let _alone = alone();
    let competitor = Competitor::on(0);
    let watch = format!("watch={}", competitor.pid());
    let run = Run::new(&["lanes=1", "operators=40", "work=20000", "cpu=0", &watch]);
    let (threads, stolen) = (run.threads(), run.stolen());
    let rows = threads["interference"].as_array().unwrap();
    let row = rows.iter().find(|row| row["pid"] == competitor.pid()).unwrap_or_else(|| panic!("{threads}"));
    assert_eq!((&row["process"], &row["own"]), (&"sh".into(), &false.into()));
    let (reported, wall) = (&run.lanes[0], run.lanes[0].to - run.lanes[0].from);
    let taken = number(&row["taken_ns"]);
    assert!(taken > 0);
    assert_close("the competitor", taken, reported.watched, 6, wall, stolen);
    let all: u64 = rows.iter().map(|row| number(&row["taken_ns"])).sum();
    let unnamed = number(&lane(&threads, 0)["unnamed_ns"]) + number(&lane(&threads, 0)["idle_cpu_ns"]);
    assert_close("all that ran instead", all + unnamed, reported.waited, 4, wall, stolen);
    assert_close("running", number(&lane(&threads, 0)["running_ns"]), reported.ran, 4, wall, stolen);
    assert!(unnamed * 20 <= reported.waited, "{unnamed} of {} is not named", reported.waited);
    // What it took, it took from operators.
    let operators: u64 = row["operators"].as_array().unwrap().iter().map(|from| number(&from["taken_ns"])).sum();
    assert_close("from operators", operators, taken, 5, wall, stolen);
    let text = run.text();
    let named = format!("Lane 0 shared CPU 0 with `sh` (pid {}), which took", competitor.pid());
    assert!(text.contains(&named), "{text}");
}

#[test]
#[ignore = "needs root"]
fn a_competitor_has_the_name_of_the_program_that_it_became() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let now = folder.path().join("now");
    // `nice`, `timeout` and shells become another program in the middle of a recording.
    let program = format!("while [ ! -e {} ]; do :; done; exec yes > /dev/null", now.display());
    let competitor = Competitor::running(&program, 0);
    let signal = std::thread::spawn(move || {
        let is_target = |entry: &std::fs::DirEntry| {
            std::fs::read_to_string(entry.path().join("comm")).is_ok_and(|name| name.trim() == "scheduled")
        };
        let start = Instant::now();
        while !std::fs::read_dir("/proc").unwrap().flatten().any(|entry| is_target(&entry)) {
            assert!(start.elapsed() < Duration::from_secs(120), "the target does not begin");
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::sleep(Duration::from_millis(700));
        std::fs::write(now, "").unwrap();
    });
    let run = Run::new(&["lanes=1", "operators=60", "work=20000", "cpu=0"]);
    signal.join().unwrap();
    let threads = run.threads();
    let rows = threads["interference"].as_array().unwrap();
    let row = rows.iter().find(|row| row["pid"] == competitor.pid()).unwrap_or_else(|| panic!("{threads}"));
    assert_eq!(row["process"], "yes", "{row}");
}

#[test]
#[ignore = "needs root"]
fn lanes_that_wait_for_a_lock_are_asleep() {
    let _alone = alone();
    let run = Run::new(&["lanes=2", "operators=4", "work=20000", "lock=1"]);
    let threads = run.threads();
    let sleeping: u64 = (0..2).map(|n| number(&lane(&threads, n)["sleeping_ns"])).sum();
    // One lane waits for the other's 20 ms, unless it was kept from running for as long.
    assert!(sleeping >= 15_000_000, "{threads}");
    let run = Run::new(&["lanes=1", "operators=2", "work=1000", "pause=100000"]);
    let threads = run.threads();
    let row = lane(&threads, 0);
    assert!(number(&row["sleeping_ns"]) >= 100_000_000, "{row}");
    let operators: u64 = threads["operators"].as_array().unwrap().iter().map(|row| number(&row["sleeping_ns"])).sum();
    assert!(operators < 5_000_000, "it slept outside of operators: {threads}");
}

#[test]
#[ignore = "needs root"]
fn more_lanes_than_cpus_are_named_so() {
    let _alone = alone();
    let run = Run::new(&["lanes=4", "operators=6", "work=3000", "only=0"]);
    let (threads, stolen) = (run.threads(), run.stolen());
    let found = &threads["oversubscribed"];
    assert_eq!((&found["lanes"], &found["cpus"], &found["by"]), (&4.into(), &1.0.into(), &"allowed".into()));
    // Of each lane's time the others ran in theirs.
    let ran: u64 = run.lanes.iter().map(|lane| lane.ran).sum();
    let wall: u64 = run.lanes.iter().map(|lane| lane.to - lane.from).sum();
    let own = threads["interference"].as_array().unwrap().iter().find(|row| row["own"] == true).unwrap();
    assert_close("what lanes took from one another", number(&own["taken_ns"]), 3 * ran, 5, wall, 3 * stolen);
    assert!(found["share"].as_f64().unwrap() > 0.0, "{found}");
    assert!(run.text().contains("Oversubscribed: 4 lanes on 1 CPU (no others allowed)."), "{}", run.text());
    assert_eq!(own["process"], "scheduled");
    // All of the four ran on the one.
    for row in threads["lanes"].as_array().unwrap() {
        let cpus: Vec<u64> = row["cpus"].as_array().unwrap().iter().map(|cpu| number(&cpu["cpu"])).collect();
        assert_eq!((cpus, &row["migrations"]), (vec![0], &0.into()), "{row}");
    }
    let run = Run::new(&["lanes=1", "operators=2", "work=3000"]);
    assert_eq!(run.threads()["oversubscribed"], Value::Null);
}
