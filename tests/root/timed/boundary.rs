//! The probe that only says since when a lane waits is there while somebody may be waited for, and no longer. These need
//! root (or CAP_BPF and CAP_PERFMON), a C compiler and clang.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The toy and its probeset, with operators that end with the next one and a barrier.
fn toy() -> &'static (PathBuf, PathBuf) {
    static TOY: OnceLock<(PathBuf, PathBuf)> = OnceLock::new();
    TOY.get_or_init(|| {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("boundary");
        std::fs::create_dir_all(&folder).unwrap();
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/targets");
        let toy = folder.join("toy");
        let mut command = Command::new("cc");
        command.args(["-O2", "-g", "-DLINKED", "-o"]).arg(&toy);
        command.args(["toy.c", "toy_engine.c"].map(|file| sources.join(file))).args(["-ldl", "-lpthread"]);
        assert!(command.status().expect("a C compiler").success());
        let text = std::fs::read_to_string(sources.join("toy.yaml")).unwrap();
        let at = "toy_operator(toy_params* params, toy_tensor* tensor)";
        let barrier = "\n  barrier: { at: 'engine:toy_barrier(toy_params* params)', role: boundary }\n";
        let text = text.replace(at, &format!("{at} until [operator, graph] waiting from barrier")) + barrier;
        let probeset = folder.join("waiting.yaml");
        std::fs::write(&probeset, text).unwrap();
        (toy, probeset)
    })
}

fn recorder(trace: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_profinfer"));
    command.arg("record").arg(&toy().1).arg("-o").arg(trace).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn record(trace: &Path, words: &[&str], options: &[&str]) -> Output {
    let target = toy().0.display().to_string();
    let output = recorder(trace, &[options, &["--", &target], words].concat()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

struct Operator {
    start_ns: i64,
    lane: u64,
    waiting: Option<u64>,
}

/// In the order of their beginning.
fn operators(trace: &Path) -> Vec<Operator> {
    let output = Command::new(env!("CARGO_BIN_EXE_profinfer"))
        .args(["dump", "--probe", "operator"])
        .arg(trace)
        .output()
        .unwrap();
    let lines = String::from_utf8(output.stdout).unwrap();
    let mut found: Vec<Operator> = lines
        .lines()
        .map(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            let field = |name: &str| line["fields"][name].as_u64();
            Operator {
                start_ns: line["start_ns"].as_i64().unwrap(),
                lane: field("lane").unwrap(),
                waiting: field("waiting"),
            }
        })
        .collect();
    found.sort_unstable_by_key(|operator| (operator.start_ns, operator.lane));
    found
}

fn report(trace: &Path, json: bool) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_profinfer"));
    command.arg("report").arg(if json { "--json" } else { "--all" }).arg(trace);
    String::from_utf8(command.output().unwrap().stdout).unwrap()
}

fn without_waiting(trace: &Path) -> Vec<Value> {
    let report: Value = serde_json::from_str(&report(trace, true)).unwrap();
    assert_eq!(report["completeness"]["complete"], true);
    report["sampling"]["without_waiting"].as_array().unwrap().clone()
}

/// How long an operator waited is recorded, but for those that were at work between the two instants (ns).
fn waiting_is_known_outside(operators: &[Operator], from: i64, until: i64) {
    // The one that was at work at the first instant may have it or not.
    let at_work = operators.iter().rposition(|operator| operator.start_ns <= from).unwrap();
    for (place, operator) in operators.iter().enumerate().filter(|(place, _)| *place != at_work) {
        let wanted = operator.start_ns <= from || operator.start_ns >= until;
        assert_eq!(
            operator.waiting.is_some(),
            wanted,
            "operator {place} at {}: not looked at from {from} until {until}",
            operator.start_ns
        );
    }
}

/// Links of uprobes that a recorder holds.
fn links(recorder: &Child) -> usize {
    let descriptors = std::fs::read_dir(format!("/proc/{}/fdinfo", recorder.id())).into_iter().flatten().flatten();
    let texts = descriptors.filter_map(|descriptor| std::fs::read_to_string(descriptor.path()).ok());
    texts.filter(|text| text.contains("link_type:\tuprobe_multi")).count()
}

#[test]
#[ignore = "needs root"]
fn one_lane_alone_is_not_asked_for_its_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("run.pfi");
    record(&trace, &["600", "20", "1", "work=5"], &[]);
    let operators = operators(&trace);
    assert_eq!(operators.len(), 12_000, "no operator is lost");
    let without = without_waiting(&trace);
    assert_eq!(without.len(), 1, "{without:?}");
    assert!(without[0]["until_ns"].is_null(), "{without:?}");
    let from = without[0]["from_ns"].as_i64().unwrap();
    // Some steps until it is known.
    assert!(operators[160].start_ns < from, "{without:?}");
    waiting_is_known_outside(&operators, from, i64::MAX);
    assert!(report(&trace, false).contains("only one thread computes"), "{}", report(&trace, false));
}

#[test]
#[ignore = "needs root"]
fn the_probe_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("run.pfi");
    let mut target = Command::new(&toy().0).args(["1", "20", "1", "work=5", "forever"]).spawn().unwrap();
    let mut recorder = recorder(&trace, &["-p", &target.id().to_string()]).spawn().unwrap();
    let (start, mut most) = (Instant::now(), 0);
    loop {
        let now = links(&recorder);
        most = most.max(now);
        if most > 0 && now + 1 == most {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "{now} links of {most}");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(Command::new("kill").args(["-INT", &recorder.id().to_string()]).status().unwrap().success());
    recorder.wait().unwrap();
    target.kill().unwrap();
    target.wait().unwrap();
}

/// Waiting of a phase as the report has it: ns, half of its interval, whether it is an estimate, and the lane time in
/// operators.
fn waiting(trace: &Path) -> (Option<f64>, Option<f64>, bool, f64) {
    let report: Value = serde_json::from_str(&report(trace, true)).unwrap();
    let phases = report["phases"].as_array().unwrap();
    let decode = phases.iter().find(|row| row["phase"] == "decode").unwrap();
    let ns = decode["waiting_ns"].as_f64();
    let lane_time = decode["work_ns"].as_f64().unwrap() + ns.unwrap_or(0.0);
    (ns, decode["waiting_half_width_ns"].as_f64(), decode["waiting_estimated"] == true, lane_time)
}

/// Of the lanes' time, the part outside operators, by the toy's own clock.
fn waiting_by_the_target(output: &Output) -> f64 {
    let text = String::from_utf8_lossy(&output.stderr);
    let numbers = text.lines().find_map(|line| line.strip_prefix("toy: operators ")?.strip_suffix(" ns"));
    let (operators, lanes) = numbers.unwrap_or_else(|| panic!("{text}")).split_once(" ns of ").unwrap();
    1.0 - operators.parse::<f64>().unwrap() / lanes.parse::<f64>().unwrap()
}

/// Each lane spends a third of its time in barriers; lane 0 also waits for lane 1, which begins later.
const WAITING: &[&str] = &["3000", "20", "2", "work=20", "barrier=10"];

#[test]
#[ignore = "needs root"]
fn of_several_lanes_waiting_is_sampled_and_the_estimate_is_right() {
    let folder = tempfile::tempdir().unwrap();
    let (exact, sampled) = (folder.path().join("exact.pfi"), folder.path().join("sampled.pfi"));
    let exactly = waiting_by_the_target(&record(&exact, WAITING, &["--barriers", "all"]));
    let of_sampled = waiting_by_the_target(&record(&sampled, WAITING, &[]));
    let all = operators(&sampled);
    assert_eq!(all.len(), 3000 * 40, "no operator is lost");
    let recorded = all.iter().filter(|operator| operator.waiting.is_some()).count() as f64 / all.len() as f64;
    assert!((0.01..0.6).contains(&recorded), "a part of the steps: {recorded}");
    let (ns, half, estimated, lane_time) = waiting(&exact);
    assert_eq!((half, estimated), (None, false));
    let found = ns.unwrap() / lane_time;
    // What the probes themselves take is in neither of the target's two figures alone.
    assert!(exactly > 0.2 && (found - exactly).abs() <= 0.03, "{found}, by the target {exactly}");
    let (ns, half, estimated, lane_time) = waiting(&sampled);
    assert!(estimated);
    let (found, half) = (ns.unwrap() / lane_time, half.unwrap_or(0.0) / lane_time);
    assert!((found - of_sampled).abs() <= half + 0.03, "{found} ± {half}, by the target {of_sampled}");
    let text = report(&sampled, false);
    assert!(text.contains("Waiting at barriers was recorded in") && text.contains('≈'), "{text}");
}

#[test]
#[ignore = "needs root"]
fn without_barriers_waiting_is_absent() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("run.pfi");
    record(&trace, &["100", "20", "2", "work=5"], &["--barriers", "none"]);
    let operators = operators(&trace);
    assert_eq!(operators.len(), 4_000);
    assert!(operators.iter().all(|operator| operator.waiting.is_none()), "never 0");
    let (ns, _, estimated, _) = waiting(&trace);
    assert_eq!((ns, estimated), (None, false));
    assert!(report(&trace, false).contains("Waiting at barriers was not recorded"));
}

#[test]
#[ignore = "needs root"]
fn several_lanes_are_always_asked() {
    let exact = ["--barriers", "all"];
    for options in [&[][..], &["--attach", "multi"], &["--attach", "single"]] {
        let options = &[&exact[..], options].concat()[..];
        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("run.pfi");
        record(&trace, &["100", "20", "2", "work=5"], options);
        let operators = operators(&trace);
        assert_eq!(operators.len(), 4_000);
        assert!(operators.iter().all(|operator| operator.waiting.is_some()), "{options:?}");
        assert_eq!(without_waiting(&trace), Vec::<Value>::new());
    }
}

#[test]
#[ignore = "needs root"]
fn a_second_lane_that_comes_later_is_asked_at_once() {
    let exact = ["--barriers", "all"];
    for options in [&[][..], &["--budget", "90%"], &["--attach", "single"]] {
        let options = &[&exact[..], options].concat()[..];
        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("run.pfi");
        // How many steps a budget records depends on the machine's speed, and when it looks again: so that the second
        // lane is there for some of its windows, the run is longer.
        let all = !options.contains(&"--budget");
        let steps = if all { "2000" } else { "20000" };
        record(&trace, &[steps, "20", "1", "work=5", "more=1000,2"], options);
        let operators = operators(&trace);
        if all {
            assert_eq!(operators.len(), 1000 * 20 + 1000 * 40, "{options:?}: none is lost");
        }
        let without = without_waiting(&trace);
        assert_eq!(without.len(), 1, "{options:?}: {without:?}");
        let [from, until, missed] = ["from_ns", "until_ns", "missed_ns"].map(|key| without[0][key].as_i64().unwrap());
        assert!(
            from < until && missed > 0 && missed < 1_000_000_000 && missed < until - from,
            "{options:?}: {without:?}"
        );
        waiting_is_known_outside(&operators, from, until);
        // Never 0 where it was not looked at.
        let first = operators.iter().find(|operator| operator.lane == 1).unwrap();
        assert_eq!(first.waiting, None, "{options:?}: it came before its probe");
        let late = operators.iter().filter(|operator| operator.start_ns > until);
        let late = late.filter(|operator| operator.lane == 1).count();
        assert!(late > if all { 1000 } else { 100 }, "{options:?}: {late}");
    }
}
