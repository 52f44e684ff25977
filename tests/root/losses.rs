//! Every way to lose an event, made to happen: what was seen and what was counted as lost are together what the target
//! called, by its own count, and the steps that miss something are named. Each phenomenon is a small program in
//! `tests/targets/` and a line in [`CASES`]. These need root (or CAP_BPF and CAP_PERFMON), compilers and clang.

use LossKind::{MissingReturn, NoThreadState, NotAttached, ReadFailed, RingFull, TooDeep, Undecided};
use profinfer_trace::{Item, Meta, TraceReader};

use profinfer_schema::{Loss, LossKind};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

const TARGETS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/targets");

/// One phenomenon.
struct Case {
    /// The program, and its words after the file for its counts.
    target: &'static [&'static str],
    /// Options of `record`.
    options: &'static [&'static str],
    /// What is different in the probeset: texts of `toy.yaml` and what takes their place.
    probeset: &'static [(&'static str, &'static str)],
    /// Operators that are no events: calls within calls, or another process's.
    apart: u64,
    /// What is counted, exactly.
    lost: &'static [(&'static str, LossKind, u64)],
    /// Steps, graphs and operators in the trace.
    seen: [u64; 3],
    /// The steps that the report names as missing events.
    incomplete: &'static [u64],
    /// The recorder's exit status.
    status: i32,
}

const USUAL: Case =
    Case { target: &[], options: &[], probeset: &[], apart: 0, lost: &[], seen: [0; 3], incomplete: &[], status: 4 };

const UNTIL: &[(&str, &str)] = &[("toy_tensor* tensor)\n", "toy_tensor* tensor) until [operator, graph, step]\n")];
const NESTED: &[(&str, &str)] = &[("    role: operator\n", "    role: operator\n    nested: all\n")];
const WHEN: &[(&str, &str)] = &[("    role: operator\n", "    role: operator\n    when: params->lane == 0\n")];
const ODD: &[(&str, &str)] = if cfg!(target_arch = "x86_64") {
    &[("probes:\n", "probes:\n  odd:\n    at: engine:toy_odd+1\n    role: mark\n")]
} else {
    &[("probes:\n", "probes:\n  odd:\n    at: engine:toy_odd+4\n    role: mark\n")]
};

const CASES: &[Case] = &[
    // A step after one that was lost may miss something too, for all that the numbering says.
    Case {
        target: &["longjmp"],
        lost: &[("step", MissingReturn, 10), ("graph", MissingReturn, 10), ("operator", MissingReturn, 10)],
        seen: [13, 13, 52],
        incomplete: &[2, 3, 4, 5, 6, 7, 8, 9, 10, 11],
        ..USUAL
    },
    Case {
        target: &["longjmp_inner"],
        lost: &[("operator", MissingReturn, 1)],
        seen: [6, 6, 24],
        incomplete: &[3],
        ..USUAL
    },
    #[cfg(target_arch = "x86_64")]
    Case {
        target: &["longjmp_deeper"],
        lost: &[("step", MissingReturn, 1), ("graph", MissingReturn, 1), ("operator", MissingReturn, 1)],
        seen: [7, 7, 4 + 2 + 24],
        incomplete: &[2],
        ..USUAL
    },
    Case { target: &["throw"], probeset: UNTIL, seen: [10, 10, 20], status: 0, ..USUAL },
    // The kernel's way to see a return stops the unwinder: the exception ends the program.
    Case {
        target: &["throw"],
        lost: &[("step", MissingReturn, 1), ("graph", MissingReturn, 1), ("operator", MissingReturn, 1)],
        seen: [0, 0, 0],
        status: 128 + 6,
        ..USUAL
    },
    Case { target: &["recursion"], apart: 495, seen: [5, 5, 5], status: 0, ..USUAL },
    Case {
        target: &["recursion"],
        probeset: NESTED,
        lost: &[("operator", TooDeep, 5 * 92)],
        seen: [5, 5, 5 * 8],
        incomplete: &[1, 2, 3, 4, 5],
        ..USUAL
    },
    Case {
        target: &["recursion_ends"],
        lost: &[
            ("step", MissingReturn, 1),
            ("graph", MissingReturn, 1),
            ("operator", MissingReturn, 1),
            ("operator", TooDeep, 1),
        ],
        seen: [2, 2, 8],
        ..USUAL
    },
    Case { target: &["threads_end"], lost: &[("operator", MissingReturn, 6)], seen: [4, 4, 8], ..USUAL },
    Case { target: &["forks"], options: &["--no-inherit"], apart: 2, seen: [6, 6, 18], status: 0, ..USUAL },
    Case { target: &["forks"], seen: [6, 6, 20], status: 0, ..USUAL },
    Case {
        target: &["exec_inside"],
        lost: &[("step", MissingReturn, 1), ("graph", MissingReturn, 1), ("operator", MissingReturn, 1)],
        seen: [6, 6, 19],
        ..USUAL
    },
    Case {
        target: &["exec_inside", "thread"],
        lost: &[("step", MissingReturn, 1), ("graph", MissingReturn, 1), ("operator", MissingReturn, 1)],
        seen: [6, 6, 19],
        ..USUAL
    },
    Case {
        target: &["killed"],
        lost: &[("step", MissingReturn, 1), ("graph", MissingReturn, 1), ("operator", MissingReturn, 1)],
        seen: [8, 8, 49],
        status: 128 + 9,
        ..USUAL
    },
    Case { target: &["unreadable"], lost: &[("operator", ReadFailed, 15)], seen: [4, 4, 23], ..USUAL },
    Case {
        target: &["unreadable"],
        probeset: WHEN,
        lost: &[("operator", Undecided, 15)],
        seen: [4, 4, 8],
        incomplete: &[1],
        ..USUAL
    },
    Case { target: &["signals"], apart: 15, seen: [8, 8, 32], status: 0, ..USUAL },
    Case { target: &["signals"], probeset: NESTED, seen: [8, 8, 47], status: 0, ..USUAL },
    Case { target: &["odd_site"], probeset: ODD, lost: &[("odd", NotAttached, 1)], seen: [3, 3, 6], ..USUAL },
];

/// The programs, compiled once.
fn targets() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("losses");
        std::fs::create_dir_all(&folder).unwrap();
        let engine = folder.join("counted.o");
        let cc = |compiler: &str, source: &str, output: &Path, more: &[&Path]| {
            let mut command = Command::new(compiler);
            command.args(["-O2", "-g", "-fexceptions", "-o"]).arg(output).arg(Path::new(TARGETS).join(source));
            command.args(more).arg(if more.is_empty() { "-c" } else { "-lpthread" });
            assert!(command.status().expect("a compiler").success(), "{source}");
        };
        cc("cc", "counted.c", &engine, &[]);
        let mut names: Vec<&str> =
            CASES.iter().map(|case| case.target[0]).chain(["crowd", "deep", "many_threads"]).collect();
        names.dedup();
        for name in names {
            let (compiler, source) =
                if name == "throw" { ("c++", format!("{name}.cpp")) } else { ("cc", format!("{name}.c")) };
            cc(compiler, &source, &folder.join(name), &[&engine]);
        }
        folder
    })
}

/// What came of recording one target.
struct Recorded {
    folder: tempfile::TempDir,
    output: Output,
}

impl Recorded {
    fn new(target: &[&str], options: &[&str], probeset: &[(&str, &str)], meanwhile: impl Fn(u32, &Path)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut yaml = std::fs::read_to_string(Path::new(TARGETS).join("toy.yaml")).unwrap();
        for (from, to) in probeset {
            assert!(yaml.contains(from), "{from}");
            yaml = yaml.replace(from, to);
        }
        std::fs::write(folder.path().join("toy.yaml"), yaml).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_profinfer"));
        command.arg("record").arg(folder.path().join("toy.yaml")).arg("-o").arg(folder.path().join("run.pfi"));
        command.args(options).arg("--").arg(targets().join(target[0])).arg(folder.path().join("counts"));
        command.args(&target[1..]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        meanwhile(child.id(), folder.path());
        Self { output: child.wait_with_output().unwrap(), folder }
    }

    /// Steps, graphs and operators by the target's own count.
    fn calls(&self) -> [u64; 3] {
        calls(self.folder.path()).expect("counts")
    }

    fn trace(&self) -> TraceReader<File> {
        TraceReader::new(File::open(self.folder.path().join("run.pfi")).unwrap()).expect("a trace")
    }

    fn report(&self) -> serde_json::Value {
        let mut command = Command::new(env!("CARGO_BIN_EXE_profinfer"));
        let output = command.args(["report", "--json"]).arg(self.folder.path().join("run.pfi")).output().unwrap();
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let complete = report["completeness"]["complete"].as_bool().unwrap();
        assert_eq!(output.status.code(), Some(if complete { 0 } else { 4 }));
        report
    }

    fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }
}

fn calls(folder: &Path) -> Option<[u64; 3]> {
    let bytes = std::fs::read(folder.join("counts")).ok()?;
    let number = |i: usize| Some(u64::from_ne_bytes(*bytes.get(8 * i..)?.first_chunk()?));
    Some([number(0)?, number(1)?, number(2)?])
}

/// Records by name, and what the trace says beside them.
fn read(mut reader: TraceReader<File>) -> (BTreeMap<String, u64>, Meta) {
    let mut counts = BTreeMap::new();
    while let Some(item) = reader.next() {
        if let Item::Record(record) = item {
            *counts.entry(record.kind().name.clone()).or_default() += 1;
        }
    }
    (counts, reader.into_meta())
}

fn lost_records(losses: &[Loss], record: &str) -> u64 {
    let lost = losses.iter().filter(|loss| loss.record == record && loss.kind.loses_records());
    lost.map(|loss| loss.count).sum()
}

fn incomplete_steps(report: &serde_json::Value) -> Vec<u64> {
    let steps = report["completeness"]["incomplete_steps"].as_array().unwrap();
    steps.iter().map(|step| step["step"].as_u64().unwrap()).collect()
}

fn check(case: &Case, way: &str) {
    let options: Vec<&str> = [&["--attach", way], case.options].concat();
    let recorded = Recorded::new(case.target, &options, case.probeset, |_, _| ());
    let what = format!("{:?} {options:?} {:?}: {}", case.target, case.probeset, recorded.stderr());
    let (counts, meta) = read(recorded.trace());
    let seen = ["step", "graph", "operator"].map(|name| counts.get(name).copied().unwrap_or(0));
    assert_eq!(seen, case.seen, "{what}");
    let mut lost: Vec<(&str, LossKind, u64)> =
        meta.losses.iter().map(|loss| (loss.record.as_str(), loss.kind, loss.count)).collect();
    let mut expected = case.lost.to_vec();
    lost.sort();
    expected.sort();
    assert_eq!(lost, expected, "{what}");
    let accounted = ["step", "graph", "operator"].map(|name| {
        let seen = counts.get(name).copied().unwrap_or(0);
        seen + lost_records(&meta.losses, name) + if name == "operator" { case.apart } else { 0 }
    });
    assert_eq!(accounted, recorded.calls(), "{what}");
    assert_eq!(recorded.output.status.code(), Some(case.status), "{what}");
    let report = recorded.report();
    assert_eq!(incomplete_steps(&report), case.incomplete, "{what}");
    let shown = report["completeness"]["missing_records"].as_u64().unwrap();
    let numbered = meta.losses.iter().filter(|loss| loss.kind.is_numbered()).map(|loss| loss.count).sum::<u64>();
    let at_the_end = report["completeness"]["lost_at_the_end"].as_u64().unwrap();
    assert_eq!((shown, at_the_end), (numbered, 0), "every lost record has its place: {what}");
    assert_eq!(report["completeness"]["complete"], case.lost.is_empty(), "{what}");
}

#[test]
#[ignore = "needs root"]
fn what_is_seen_and_what_is_lost_is_what_was_called() {
    for case in CASES {
        check(case, "session");
    }
}

#[test]
#[ignore = "needs root"]
fn without_sessions_it_is_the_same() {
    // The rest does not depend on how a call's two ends are paired.
    let pairs = |case: &&Case| case.lost.is_empty() || case.lost.iter().any(|(_, kind, _)| *kind == MissingReturn);
    for case in CASES.iter().filter(pairs) {
        check(case, "multi");
    }
}

/// With sessions alone: without them the kernel itself takes the interrupted call for one that was left, and kills the
/// process when it returns.
#[test]
#[ignore = "needs root"]
fn a_handler_on_a_stack_above_is_within_what_it_interrupts() {
    let case = Case { target: &["signals", "above"], apart: 15, seen: [8, 8, 32], status: 0, ..USUAL };
    check(&case, "session");
}

#[test]
#[ignore = "needs root"]
fn a_field_that_could_not_be_read_is_missing_and_not_0() {
    let recorded = Recorded::new(&["unreadable"], &[], &[], |_, _| ());
    let mut reader = recorded.trace();
    let (mut missing, mut there) = (0, 0);
    while let Some(item) = reader.next() {
        let Item::Record(record) = item else { continue };
        if record.kind().name == "operator" {
            match record.index_of("lane").and_then(|lane| record.u64_at(lane)) {
                None => missing += 1,
                Some(lane) => there += u64::from(lane == 0),
            }
        }
    }
    assert_eq!((missing, there), (15, 8));
}

/// The kernel watches 64 returns of a thread at once. With sessions it need not watch those of calls that are parts of
/// others; without them it does, and does not see the return of what is called beyond.
#[test]
#[ignore = "needs root"]
fn a_return_deeper_than_the_kernel_watches_is_counted() {
    let case = Case { target: &["deep", "70"], apart: 69 + 2, seen: [7, 7, 13], status: 0, ..USUAL };
    check(&case, "session");
    let lost = &[("step", MissingReturn, 1), ("graph", MissingReturn, 1)];
    check(&Case { lost, seen: [6, 6, 13], incomplete: &[4], status: 4, ..case }, "multi");
}

/// On kernels without storage at threads there is room for 1024 of them at a time; programs for such kernels run here too.
#[test]
#[ignore = "needs root"]
fn threads_that_there_is_no_room_for_are_counted() {
    let recorded = Recorded::new(&["many_threads", "1100"], &["--old-kernel"], &[], |_, _| ());
    let (counts, meta) = read(recorded.trace());
    let what = recorded.stderr();
    let seen = ["step", "graph", "operator"].map(|name| counts.get(name).copied().unwrap_or(0));
    let lost = meta.losses.iter().find(|loss| loss.record == "operator" && loss.kind == NoThreadState);
    let lost = lost.unwrap_or_else(|| panic!("{:?} {what}", meta.losses)).count;
    assert!((77..=200).contains(&lost), "the first thread and 1023 others have room: {lost}");
    assert_eq!([seen[0], seen[1], seen[2] + lost], recorded.calls(), "{what}");
    assert_eq!(seen[2], 12 + 1100 - lost);
    assert_eq!(recorded.output.status.code(), Some(4), "{what}");
    let report = recorded.report();
    let completeness = &report["completeness"];
    assert_eq!(completeness["complete"], false, "{completeness}");
    assert!(completeness["missing_records"].as_u64().unwrap() >= lost, "{completeness}");
    assert_eq!(completeness["lost_at_the_end"], 0, "{completeness}");
}

/// Stops the recorder once it records, and lets it go on when the target has made some more calls.
fn stop_for_a_while(recorder: u32, folder: &Path) {
    let signal = |name: &str| {
        assert!(Command::new("kill").args([name, &recorder.to_string()]).status().unwrap().success());
    };
    let start = Instant::now();
    let operators = || calls(folder).map_or(0, |calls| calls[2]);
    while operators() < 100 && start.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(1));
    }
    signal("-STOP");
    while operators() < 17_000 && start.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(200));
    signal("-CONT");
}

#[test]
#[ignore = "needs root"]
fn a_stopped_recorder_with_a_tiny_ring_loses_nothing_unseen() {
    let recorded = Recorded::new(&["crowd"], &["--ring-size", "64K"], &[], stop_for_a_while);
    let (counts, meta) = read(recorded.trace());
    let accounted = ["step", "graph", "operator"]
        .map(|name| counts.get(name).copied().unwrap_or(0) + lost_records(&meta.losses, name));
    assert_eq!(accounted, recorded.calls(), "{}", recorded.stderr());
    assert_eq!(recorded.output.status.code(), Some(4), "{}", recorded.stderr());
    assert!(meta.losses.iter().any(|loss| loss.record == "operator" && loss.kind == RingFull && loss.count > 1000));
    let report = recorded.report();
    let numbered: u64 = meta.losses.iter().filter(|loss| loss.kind.is_numbered()).map(|loss| loss.count).sum();
    let completeness = &report["completeness"];
    // A loss that several threads show at once is shown more than once, and never less.
    assert!(completeness["missing_records"].as_u64().unwrap() >= numbered, "{completeness}");
    assert_eq!(completeness["lost_at_the_end"], 0);
    let incomplete = incomplete_steps(&report);
    let steps = completeness["steps"].as_u64().unwrap();
    assert!(!incomplete.is_empty() && (incomplete.len() as u64) < steps, "{completeness}");
    // What is not named is whole: each step's own thread computes 10 operators in it.
    for (number, operators) in operators_by_step(recorded.trace()) {
        assert!(operators == 10 || incomplete.contains(&number), "step {number} has {operators}: {incomplete:?}");
    }
}

/// Of each step, by its number, the operators on its own thread.
fn operators_by_step(mut reader: TraceReader<File>) -> Vec<(u64, u64)> {
    let (mut steps, mut operators) = (Vec::new(), Vec::new());
    while let Some(item) = reader.next() {
        let Item::Record(record) = item else { continue };
        let header = record.header();
        match record.kind().name.as_str() {
            "step" => steps.push((header.start, header.start + header.duration, header.tid)),
            "operator" => operators.push((header.start, header.tid)),
            _ => {}
        }
    }
    steps.sort_unstable();
    let own = |(start, end, tid): &(u64, u64, u32)| {
        operators.iter().filter(|(at, thread)| thread == tid && start <= at && at < end).count() as u64
    };
    (1..).zip(steps.iter().map(own)).collect()
}
