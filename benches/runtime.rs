//! What one hit of a probe costs, by its parts, so that it shows where a change makes one dearer. Needs root and a C
//! compiler.
//!
//! `cargo bench --bench runtime [-- ROUNDS]`: the parts, each on a function of `runtime.c` that does nothing. Time of the
//! thread that calls it, less that of a bare twin in the same round, and the program's own share of it as the kernel's
//! clock has it (`BPF_ENABLE_STATS`). With warm caches, in a loop, and with caches that are emptied before each call.
//!
//! `cargo bench --bench runtime -- PROBESET COMMAND…`: the programs' own time while a real engine is recorded.

#![allow(clippy::expect_used, reason = "a benchmark that cannot run says so by panicking")]

use libbpf_rs::libbpf_sys as sys;
use libbpf_rs::query::ProgInfoIter;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The parts, each with what it is. The names are those of `runtime.c`.
const PARTS: [(&str, &str); 13] = [
    (EXCEPTION, "an exception that the kernel answers by itself, without a probe"),
    ("trap", "the trap and a program that records nothing"),
    ("event", "a span that the next one ends: one record, header only"),
    ("call", "a span from entry to return: two traps, one record"),
    ("field", "event + a field read through a pointer"),
    ("two_fields", "event + two fields and a condition, of one struct"),
    ("seen", "event + an object looked at in this graph already"),
    ("known", "event + an object looked at, with nothing new"),
    ("references", "event + an object with two references, seen in this graph"),
    ("description", "event + an object that changes: described each time"),
    ("describes", "an operator on the lane that describes: an object with two references, looked at"),
    ("reused", "the same in a graph that was read before"),
    ("other_lane", "the same on a lane that does not describe"),
];
/// Has no probe.
const EXCEPTION: &str = "exception";

/// How a part is called: how often in a round, and how much memory is read before each call.
#[derive(Clone, Copy)]
struct Mode {
    calls: u64,
    bytes: u64,
    /// By how much fewer the rounds are.
    fewer: usize,
}

/// With warm caches; with what is in the first and second level gone; with nothing left in any.
const MODES: [Mode; 3] = [
    Mode { calls: 2000, bytes: 0, fewer: 1 },
    Mode { calls: 100, bytes: 4 << 20, fewer: 5 },
    Mode { calls: 10, bytes: 64 << 20, fewer: 5 },
];

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let _stats = enable_stats();
    match words.as_slice() {
        [] => parts(200),
        [rounds] => parts(rounds.parse().expect("a number of rounds")),
        [probeset, command @ ..] => engine(probeset, command),
    }
}

// ---- the parts ---------------------------------------------------------------------------------------------------

fn parts(rounds: usize) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut target = Target::start(&build_target(folder.path()));
    let probeset = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/runtime.yaml");
    let mut recorder = Command::new(env!("CARGO_BIN_EXE_profinfer"))
        .args(["record", probeset, "-p", &target.child.id().to_string(), "-o"])
        .arg(folder.path().join("run.pfi"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("profinfer runs");
    let attached = wait_until_it_counts(&mut target, &recorder);
    assert!(attached, "the recorder has not attached; is this root?");
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for mode in MODES {
        measure(mode, rounds.div_ceil(mode.fewer), &mut target, &recorder, &mut random);
    }
    let _ = Command::new("kill").args(["-INT", &recorder.id().to_string()]).status();
    let _ = recorder.wait();
    let _ = target.child.kill();
    let _ = target.child.wait();
}

fn measure(mode: Mode, rounds: usize, target: &mut Target, recorder: &Child, random: &mut Random) {
    let before = programs_of(recorder.id());
    let mut added: Vec<Vec<f64>> = vec![Vec::new(); PARTS.len()];
    for _ in 0..rounds {
        let mut order: Vec<usize> = (0..PARTS.len()).collect();
        for at in (1..order.len()).rev() {
            order.swap(at, random.below(at + 1));
        }
        for part in order {
            let (bare, probed) = target.call(PARTS[part].0, mode);
            added[part].push((probed as f64 - bare as f64) / mode.calls as f64);
        }
    }
    let programs = programs_of(recorder.id());
    println!("{} MiB read before each call, {rounds} rounds of {} calls; ns a hit", mode.bytes >> 20, mode.calls);
    println!("{:<12} {:>6}  {:<14} {:>8}", "", "added", "95 % interval", "program");
    for (part, (name, what)) in PARTS.iter().enumerate() {
        let (low, high) = interval(&added[part], random);
        // A span's return is a run of its own: both belong to one hit.
        let of_part = programs.iter().filter(|(program, _)| program.starts_with(&format!("{name}__0")));
        let (ns, runs) = of_part.fold((0, 0), |sum, (program, run)| {
            let before = before.get(program).copied().unwrap_or_default();
            (sum.0 + run.ns - before.ns, sum.1 + run.count - before.count)
        });
        let runs = if *name == "call" { runs / 2 } else { runs };
        let own = if runs == 0 { String::new() } else { format!("{:.0}", ns as f64 / runs as f64) };
        println!(
            "{name:<12} {:>6.0}  {:<14} {own:>8}  {what}",
            median(added[part].clone()),
            format!("[{low:.0}, {high:.0}]")
        );
    }
}

fn build_target(folder: &Path) -> std::path::PathBuf {
    let target = folder.join("runtime-target");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/runtime.c");
    let built = Command::new("cc").args(["-O2", "-g", "-o"]).arg(&target).arg(source).status();
    assert!(built.expect("a C compiler").success());
    target
}

/// The functions to call, in a process of their own.
struct Target {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Target {
    fn start(path: &Path) -> Self {
        let mut child =
            Command::new(path).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the target runs");
        let output = BufReader::new(child.stdout.take().expect("its output"));
        Self { child, output }
    }

    /// Time of a round of calls of the bare twin, and of the function: ns.
    fn call(&mut self, part: &str, mode: Mode) -> (u64, u64) {
        let orders = self.child.stdin.as_mut().expect("its input");
        writeln!(orders, "{part} {} {}", mode.calls, mode.bytes).expect("it listens");
        let mut line = String::new();
        self.output.read_line(&mut line).expect("it answers");
        let mut numbers = line.split_whitespace().map(|word| word.parse().expect("a number"));
        (numbers.next().expect("the bare twin's time"), numbers.next().expect("the function's time"))
    }
}

/// Calls every part until the kernel has run each one's program.
fn wait_until_it_counts(target: &mut Target, recorder: &Child) -> bool {
    for _ in 0..200 {
        std::thread::sleep(Duration::from_millis(50));
        for (part, _) in PARTS {
            target.call(part, Mode { calls: 1, ..MODES[0] });
        }
        let programs = programs_of(recorder.id());
        let runs =
            |part: &str| programs.iter().any(|(name, run)| name.starts_with(&format!("{part}__0")) && run.count > 3);
        if PARTS.iter().all(|(part, _)| *part == EXCEPTION || runs(part)) {
            return true;
        }
    }
    false
}

// ---- an engine -----------------------------------------------------------------------------------------------------

fn engine(probeset: &str, command: &[String]) {
    let trace = std::env::temp_dir().join(format!("profinfer-runtime-{}.pfi", std::process::id()));
    let mut recorder = Command::new(env!("CARGO_BIN_EXE_profinfer"))
        .args(["record", probeset, "-o"])
        .arg(&trace)
        .arg("--")
        .args(command)
        .stdout(Stdio::null())
        .spawn()
        .expect("profinfer runs");
    let mut programs = BTreeMap::new();
    while recorder.try_wait().expect("a child").is_none() {
        // The kernel forgets a program's time with the program: the newest seen is kept.
        programs.extend(programs_of(recorder.id()));
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ = std::fs::remove_file(trace);
    println!("{:<18} {:>10} {:>8} {:>10}", "program", "runs", "ns a run", "ms");
    for (name, run) in programs.iter().filter(|(_, run)| run.count > 0) {
        let own = run.ns as f64 / run.count as f64;
        println!("{name:<18} {:>10} {own:>8.0} {:>10.2}", run.count, run.ns as f64 / 1e6);
    }
}

// ---- what the kernel has counted -------------------------------------------------------------------------------------

/// Runs of one program.
#[derive(Debug, Clone, Copy, Default)]
struct Run {
    ns: u64,
    count: u64,
}

/// The kernel times programs as long as this is open.
fn enable_stats() -> OwnedFd {
    // SAFETY: the call takes a number and gives a descriptor, or a negative number.
    let fd = unsafe { sys::bpf_enable_stats(sys::BPF_STATS_RUN_TIME) };
    assert!(fd >= 0, "the kernel times no programs; is this root?");
    // SAFETY: the descriptor is new and nobody else's.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// The programs that a process holds, by the first 15 characters of their name.
fn programs_of(process: u32) -> BTreeMap<String, Run> {
    let mut held = BTreeSet::new();
    for entry in std::fs::read_dir(format!("/proc/{process}/fdinfo")).into_iter().flatten().flatten() {
        let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
        let id = text.lines().find_map(|line| line.strip_prefix("prog_id:"));
        held.extend(id.and_then(|id| id.trim().parse::<u32>().ok()));
    }
    let mut runs: BTreeMap<String, Run> = BTreeMap::new();
    for program in ProgInfoIter::default().filter(|program| held.contains(&program.id)) {
        let run = runs.entry(program.name.to_string_lossy().into_owned()).or_default();
        run.ns += program.run_time_ns;
        run.count += program.run_cnt;
    }
    runs
}

// ---- statistics ------------------------------------------------------------------------------------------------------

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The middle 95 % of the medians of 2,000 samples drawn with replacement (percentile bootstrap).
fn interval(values: &[f64], random: &mut Random) -> (f64, f64) {
    let mut draw = || median((0..values.len()).map(|_| values[random.below(values.len())]).collect());
    let mut medians: Vec<f64> = (0..2000).map(|_| draw()).collect();
    medians.sort_unstable_by(f64::total_cmp);
    (medians[50], medians[1949])
}

/// A linear congruential generator (Knuth's MMIX constants): order and samples need no better.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % bound
    }
}
