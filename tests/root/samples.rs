//! Timer samples against an account that is not ours: what a program's own clocks say of the time that its functions took.
//! These need root, a C compiler and clang.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const TARGETS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/targets");

/// The toy, built in a folder with its library.
fn built(folder: &Path) -> PathBuf {
    let target = folder.join("spinning");
    let compile = |arguments: &[&str]| {
        let status = Command::new("cc").args(["-O2", "-g"]).args(arguments).current_dir(folder).status();
        assert!(status.expect("a C compiler").success());
    };
    let source = |name: &str| format!("{TARGETS}/{name}.c");
    compile(&["-shared", "-fPIC", "-o", "libspinning.so", &source("spinning_library")]);
    compile(&["-o", "spinning", &source("spinning"), "-L.", "-lspinning", "-Wl,-rpath,$ORIGIN", "-lpthread"]);
    target
}

/// Records a run with so many lanes: the trace, and the CPU time of each part by the threads' clocks.
pub(crate) fn recorded(folder: &Path, options: &[&str], words: [&str; 2]) -> (PathBuf, BTreeMap<String, f64>) {
    let (target, trace) = (built(folder), folder.join("run.pfi"));
    let mut recorder = Command::new(env!("CARGO_BIN_EXE_profinfer"));
    recorder.args(["record", &format!("{TARGETS}/spinning.yaml"), "-o"]).arg(&trace).args(options);
    let output = recorder.arg("--").arg(target).args(words).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let clocks = String::from_utf8(output.stdout).unwrap();
    let clocks = clocks.lines().map(|line| line.split_once(' ').unwrap());
    (trace, clocks.map(|(name, ns)| (name.to_owned(), ns.parse().unwrap())).collect())
}

pub(crate) fn report(trace: &Path, arguments: &[&str]) -> Value {
    let mut report = Command::new(env!("CARGO_BIN_EXE_profinfer"));
    let output = report.arg("report").arg(trace).args(["--by", "function", "--json"]).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Rows of a table by a key: their numbers of samples.
fn samples(report: &Value, table: &str, key: &str) -> BTreeMap<String, u64> {
    let rows = report[table].as_array().unwrap().iter();
    let mut found = BTreeMap::new();
    for row in rows {
        *found.entry(row[key].as_str().unwrap().to_owned()).or_default() += row["samples"].as_u64().unwrap();
    }
    found
}

/// How many standard deviations a binomial count may be off, and how far the clocks' own time may shift a share.
const DEVIATIONS: f64 = 4.5;
const SHIFT: f64 = 0.012;

#[track_caller]
fn agrees(what: &str, count: u64, of: u64, truth: f64) {
    let (count, of) = (count as f64, of as f64);
    let allowed = DEVIATIONS * (truth * (1.0 - truth) / of).sqrt() + SHIFT;
    assert!((count / of - truth).abs() <= allowed, "{what}: {count} of {of} samples, {truth:.4} by the clocks");
}

#[test]
#[ignore = "needs root"]
fn shares_of_functions_are_those_of_the_programs_clocks() {
    for (lanes, steps) in [("1", "60"), ("2", "40"), ("8", "12")] {
        let folder = tempfile::tempdir().unwrap();
        let (trace, clocks) = recorded(folder.path(), &["--sample", "999"], [lanes, steps]);
        let report = report(&trace, &[]);
        let all: f64 = clocks.values().sum();
        let of = report["samples"].as_u64().unwrap();
        // At 999 Hz; the start of the program is in it.
        let expected = all / 1e9 * 999.0;
        assert!((0.85..1.25).contains(&(of as f64 / expected)), "{lanes} lanes: {of} samples, {expected} expected");
        let functions = samples(&report, "functions", "function");
        let count = |name: &str| functions.get(name).copied().unwrap_or(0);
        for name in ["large", "small", "library_spin", "between", "outside", "loading"] {
            agrees(&format!("{lanes} lanes, {name}"), count(name), of, clocks[name] / all);
        }
        // What was inlined is its caller's; what was made at run time is nobody's.
        agrees("inlined", count("multiply"), of, clocks["inlined"] / all);
        agrees("made at run time", count("[code without a file]"), of, clocks["jit"] / all);
        let places = samples(&report, "places", "place");
        let place = |name: &str| places.get(name).copied().unwrap_or(0);
        let multiply = (clocks["large"] + clocks["small"] + clocks["inlined"]) / all;
        agrees("MUL", place("MUL"), of, multiply);
        agrees("READ", place("READ"), of, clocks["system"] / all);
        agrees("outside operators", place("outside operators"), of, clocks["between"] / all);
        agrees("outside graphs", place("outside graphs"), of, clocks["outside"] / all);
        assert_eq!(place("operators that were lost"), 0, "{places:?}");
        assert_eq!(places.values().sum::<u64>(), of, "each sample is in one place");
        assert_eq!(report["sampling"]["lost"], 0);
    }
}

#[test]
#[ignore = "needs root"]
fn within_an_operator_only_what_ran_in_it_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let options = ["--sample", "4000", "--stacks", "fp"];
    let (trace, clocks) = recorded(folder.path(), &options, ["2", "10"]);
    let within = |what: &str| report(&trace, &["--within", what]);
    let add = samples(&within("ADD"), "functions", "function");
    assert!(add["library_spin"] > 50 && !add.contains_key("large"), "{add:?}");
    // Kernel time inside an operator is the operator's.
    let read = within("blk.1.read");
    let of_kernel: u64 = read["functions"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["module"] == "kernel")
        .map(|row| row["samples"].as_u64().unwrap())
        .sum();
    assert!(of_kernel as f64 > 0.5 * read["samples"].as_u64().unwrap() as f64, "{read}");
    let layer = within("layer 1");
    let both = clocks["jit"] + clocks["system"];
    agrees(
        "the generated code's part of its layer",
        samples(&layer, "functions", "function")["[code without a file]"],
        layer["samples"].as_u64().unwrap(),
        clocks["jit"] / both,
    );
    let outside = within("outside graphs");
    assert_eq!(outside["functions"][0]["function"], "outside", "{outside}");
    // The plain report is not changed by samples.
    let mut plain = Command::new(env!("CARGO_BIN_EXE_profinfer"));
    let output = plain.arg("report").arg(&trace).arg("--json").output().unwrap();
    let plain: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(plain["completeness"]["complete"], true);
    let counts = plain["operators"].as_array().unwrap().iter().map(|row| row["count"].as_u64().unwrap());
    assert_eq!(counts.sum::<u64>(), 10 * 4, "{}", plain["operators"]);
}

#[test]
#[ignore = "needs root"]
fn what_is_written_so_far_tells_how_many_samples_there_were() {
    let folder = tempfile::tempdir().unwrap();
    let (target, trace) = (built(folder.path()), folder.path().join("run.pfi"));
    let mut recorder = Command::new(env!("CARGO_BIN_EXE_profinfer"));
    recorder.args(["record", &format!("{TARGETS}/spinning.yaml"), "-o"]).arg(&trace).args(["--sample", "999"]);
    recorder.arg("--").arg(target).args(["1", "200"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut recorder = recorder.spawn().unwrap();
    // As a recorder that is killed leaves it.
    let told = || {
        let mut reader = profinfer_trace::TraceReader::new(std::fs::File::open(&trace).ok()?).ok()?;
        reader.for_each_record(|_| true);
        let meta = reader.into_meta();
        let sampling = meta.sampling.filter(|sampling| meta.end.is_none() && sampling.taken > 0)?;
        Some((sampling.taken, sampling.modules.len()))
    };
    let found = loop {
        let ended = recorder.try_wait().unwrap().is_some();
        let found = told();
        if found.is_some() || ended {
            break found;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    };
    assert!(recorder.wait().unwrap().success());
    assert!(found.is_some_and(|(_, modules)| modules > 0), "{found:?}");
}

#[test]
#[ignore = "needs root"]
fn samples_that_find_no_space_are_counted_and_no_events() {
    let folder = tempfile::tempdir().unwrap();
    let target = built(folder.path());
    let trace = folder.path().join("run.pfi");
    let mut recorder = Command::new(env!("CARGO_BIN_EXE_profinfer"));
    recorder.args(["record", &format!("{TARGETS}/spinning.yaml"), "-o"]).arg(&trace);
    // Some 350 stacks fill the ring: less than comes between two readings.
    recorder.args(["--sample", "20000", "--stacks", "fp", "--ring-size", "64K", "--"]).arg(target).args(["2", "10"]);
    let output = recorder.stdin(Stdio::null()).output().unwrap();
    let report = Command::new(env!("CARGO_BIN_EXE_profinfer"))
        .arg("report")
        .arg(&trace)
        .args(["--by", "function", "--json"])
        .output()
        .unwrap();
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    let lost = report["sampling"]["lost"].as_u64().unwrap();
    let reported = String::from_utf8_lossy(&output.stderr);
    assert!(lost > 0, "{} {reported}", report["sampling"]);
    assert!(report["sampling"]["samples"].as_u64().unwrap() > 100, "{report}");
    // Records may be lost in so small a ring, too: those are counted as theirs.
    let complete = report["completeness"]["complete"].as_bool().unwrap();
    assert_eq!(output.status.code() == Some(0), complete, "{reported}");
}

#[test]
#[ignore = "needs root"]
fn a_file_that_was_replaced_gives_no_names() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, _) = recorded(folder.path(), &["--sample", "4000"], ["1", "5"]);
    let library = folder.path().join("libspinning.so");
    let before = report(&trace, &[]);
    assert!(samples(&before, "functions", "function")["library_spin"] > 0);
    // A sample may be in a start-up function of the library, too.
    let of_modules = samples(&before, "functions", "module");
    let of_library: u64 = of_modules.iter().filter(|(name, _)| name.ends_with("libspinning.so")).map(|(_, n)| n).sum();
    // Another build of the same name.
    let source = folder.path().join("other.c");
    std::fs::write(&source, "int other(void) { return 1; }\n").unwrap();
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status().unwrap();
    assert!(built.success());
    let unnamed = samples(&report(&trace, &[]), "functions", "function");
    assert_eq!(unnamed["[libspinning.so]"], of_library);
    std::fs::remove_file(&library).unwrap();
    assert_eq!(samples(&report(&trace, &[]), "functions", "function"), unnamed);
}

#[test]
#[ignore = "needs root"]
fn threads_of_a_running_process_are_sampled_and_none_without_the_option() {
    let folder = tempfile::tempdir().unwrap();
    let target = built(folder.path());
    let mut running = Command::new(&target).args(["2", "2000"]).stdout(Stdio::null()).spawn().unwrap();
    let record = |rate: &str, trace: &Path| {
        let mut recorder = Command::new(env!("CARGO_BIN_EXE_profinfer"));
        recorder.args(["record", &format!("{TARGETS}/spinning.yaml"), "--sample", rate, "--duration", "500ms", "-o"]);
        let output = recorder.arg(trace).args(["-p", &running.id().to_string()]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    let (with, without) = (folder.path().join("with.pfi"), folder.path().join("without.pfi"));
    record("999", &with);
    record("off", &without);
    running.kill().unwrap();
    running.wait().unwrap();
    let functions = samples(&report(&with, &[]), "functions", "function");
    assert!(functions["large"] > 20, "{functions:?}");
    let without = report(&without, &[]);
    assert_eq!((&without["samples"], &without["sampling"]["samples"]), (&0.into(), &0.into()));
}

/// Stacks of a trace: each of the program's own functions, the outermost first, and how many samples have it.
fn stacks(trace: &Path) -> BTreeMap<Vec<String>, u64> {
    let folded = trace.with_extension("folded");
    let mut export = Command::new(env!("CARGO_BIN_EXE_profinfer"));
    let output = export.arg("export").arg(trace).args(["--format", "folded", "-o"]).arg(&folded).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let own = ["main", "spin_step", "spin_graph", "run_lane", "spin_operator", "multiply", "add", "read_system"];
    let inner = ["large", "small", "library_spin", "between", "outside", "loading", "[code without a file]"];
    let mut found = BTreeMap::new();
    for line in std::fs::read_to_string(folded).unwrap().lines() {
        let (frames, count) = line.rsplit_once(' ').unwrap();
        let frames = frames.split(';').filter(|frame| own.contains(frame) || inner.contains(frame));
        *found.entry(frames.map(str::to_owned).collect()).or_default() += count.parse::<u64>().unwrap();
    }
    found
}

/// Half of the ring is for events: in so small a one no copy of a stack has space.
#[test]
#[ignore = "needs root"]
fn samples_without_space_for_a_stack_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let options = ["--sample", "999", "--stacks", "dwarf", "--ring-size", "128K"];
    let (trace, _) = recorded(folder.path(), &options, ["1", "10"]);
    let report = report(&trace, &[]);
    assert!(report["samples"].as_u64().unwrap() > 50, "{report}");
    assert_eq!(report["sampling"]["cut"], report["samples"], "{}", report["sampling"]);
    assert_eq!(report["completeness"]["complete"], true);
}

/// The program is compiled without frame pointers, and the returns of its steps, graphs and operators are probed.
#[test]
#[ignore = "needs root"]
fn callers_by_unwind_tables_are_those_in_the_program() {
    let mut reads = (0, 0);
    for (lanes, steps) in [("1", "80"), ("2", "80"), ("8", "20")] {
        let folder = tempfile::tempdir().unwrap();
        let (trace, _) = recorded(folder.path(), &["--sample", "999", "--stacks", "dwarf"], [lanes, steps]);
        let found = stacks(&trace);
        // A step ends with a jump to the graph's function, and that one may contain the first lane.
        let callers: [(&str, &[&str]); 4] = [
            ("large", &["spin_operator", "multiply"]),
            ("small", &["spin_operator", "multiply"]),
            ("library_spin", &["spin_operator", "add"]),
            ("between", &[]),
        ];
        for (function, expected) in callers {
            let of: Vec<(&[String], u64)> = found
                .iter()
                .filter_map(|(stack, count)| {
                    Some((stack.split_last().filter(|(last, _)| *last == function)?.1, *count))
                })
                .collect();
            let all: u64 = of.iter().map(|(_, count)| count).sum();
            let is_whole = |stack: &[String]| {
                let stack: Vec<&str> = stack.iter().map(String::as_str).filter(|name| *name != "run_lane").collect();
                let outer = stack.strip_suffix(expected);
                outer.is_some_and(|outer| {
                    matches!(outer, [] | ["main", "spin_graph"] | ["main", "spin_step", "spin_graph"])
                })
            };
            let whole: u64 = of.iter().filter(|(stack, _)| is_whole(stack)).map(|(_, count)| count).sum();
            assert!(all > 40 && whole * 100 >= all * 98, "{lanes} lanes, {function}: {whole} of {all} in {found:?}");
        }
        // What the kernel does for `read` is within the function that called it, by the kernel's own callers.
        let text = std::fs::read_to_string(trace.with_extension("folded")).unwrap();
        let of_reads = |has: &str| -> u64 {
            let lines = text.lines().filter(|line| line.contains(";read_system;") && line.contains(has));
            lines.map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum()
        };
        reads = (reads.0 + of_reads(""), reads.1 + of_reads(";vfs_read;"));
        let facts = &report(&trace, &[])["sampling"];
        assert_eq!(facts["unwind_tables"], true, "{facts}");
        // Of a sample in the kernel's own code for returns it cannot always be told where that returns to.
        let count = |key: &str| facts[key].as_u64().unwrap();
        assert!(count("cut") * 200 <= count("samples"), "{facts}");
    }
    let (all, of_kernel) = reads;
    assert!(all > 20 && of_kernel * 2 >= all, "{of_kernel} of {all} samples have the kernel's callers");
}
