//! WebGPU by wgpu-native, as Python's users have it, with Mesa's lavapipe as device: submissions, waits, copies and
//! dispatches are those that the program counts itself, and those that bpftrace counts in the same run. This needs root.

use crate::engine::alone;
use crate::invocation::{lines, profinfer, succeeds};
use crate::packages::{installed, installed_version, packaged, scripts};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

const STEPS: usize = 4;
/// Each has two submissions of a dispatch, and one of a copy.
const SUBMISSIONS: usize = 3 * STEPS;
const DISPATCHES: usize = 2 * STEPS;
/// Numbers of 4 bytes, by 64 in a workgroup.
const COUNT: u64 = 8192;
/// The device then computes for tens of milliseconds, most of it within the first of its steps' calls.
const ROUNDS: u64 = 200_000;

fn python() -> &'static Path {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    PYTHON.get_or_init(|| installed("install_wgpu.sh"))
}

fn older_python() -> &'static Path {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    PYTHON.get_or_init(|| installed_version("install_wgpu.sh", "older"))
}

fn library(python: &Path) -> PathBuf {
    packaged(python, "wgpu/resources", "libwgpu_native", ".so")
}

fn program(command: &mut Command, python: &Path) {
    command.arg(python).arg(scripts().join("run_wgpu.py"));
    command.args([STEPS as u64, COUNT, ROUNDS].map(|number| number.to_string()));
}

/// What the program says of itself: the last line, as others of its process write before it.
fn reported(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}

/// What bpftrace counts while something else runs.
pub(crate) struct Counting {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Counting {
    pub(crate) fn new(library: &Path, functions: &[&str]) -> Self {
        let library = library.display();
        let probes: String =
            functions.iter().map(|of| format!("uprobe:{library}:{of} {{ @{of}[pid] = count(); }} ")).collect();
        let script = format!("BEGIN {{ printf(\"ready\\n\"); }} {probes}");
        let mut command = Command::new("bpftrace");
        let mut child = command.args(["-f", "json", "-e", &script]).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut counting = Self { child, output };
        let mut line = String::new();
        while !line.contains("ready") {
            line.clear();
            assert_ne!(counting.output.read_line(&mut line).unwrap(), 0, "bpftrace ended");
        }
        counting
    }

    /// Those of one process.
    pub(crate) fn counts(mut self, pid: &Value) -> BTreeMap<String, u64> {
        // It misses a signal that comes while it does not wait. Its output is less than what a pipe holds.
        while self.child.try_wait().unwrap().is_none() {
            Command::new("kill").args(["-INT", &self.child.id().to_string()]).status().unwrap();
            std::thread::sleep(Duration::from_millis(200));
        }
        let lines: Vec<String> = self.output.by_ref().lines().map(Result::unwrap).collect();
        let data = lines.iter().filter_map(|line| Some(serde_json::from_str::<Value>(line).ok()?["data"].clone()));
        let maps = data.filter_map(|data| data.as_object().cloned()).flatten();
        let of = |counts: &Value| counts[pid.to_string()].as_u64();
        maps.filter_map(|(name, counts)| Some((name.strip_prefix('@')?.to_owned(), of(&counts)?))).collect()
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

pub(crate) fn table(trace: &Path, name: &str) -> Vec<Value> {
    let file = trace.with_extension(format!("{name}.ndjson"));
    let paths = [trace, &file].map(|path| path.to_str().unwrap());
    succeeds(&mut profinfer(&["export", paths[0], "--format", "ndjson", "--table", name, "--force", "-o", paths[1]]));
    lines(&std::fs::read(file).unwrap())
}

pub(crate) fn report(trace: &Path) -> Value {
    serde_json::from_slice(&succeeds(&mut profinfer(&["report", trace.to_str().unwrap(), "--json"])).stdout).unwrap()
}

pub(crate) fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("a number: {value}"))
}

/// Each of the probe's rows.
pub(crate) fn of<'a>(rows: &'a [Value], probe: &str) -> Vec<&'a Value> {
    rows.iter().filter(|row| row["probe"] == probe).collect()
}

/// A recorded time is a known one, within 5 %.
pub(crate) fn assert_is(recorded: u64, known: u64, what: &str) {
    assert!(recorded.abs_diff(known) * 20 <= known, "{what}: {recorded} ns recorded, {known} ns known");
}

fn assert_known(rows: &[Value], reported: &Value) {
    let bytes = |probe: &str| of(rows, probe).iter().map(|row| row["bytes"].clone()).collect::<Vec<_>>();
    assert_eq!(of(rows, "webgpu_submit").len() as u64, number(&reported["submissions"]));
    assert_eq!(Value::from(bytes("webgpu_write")), reported["writes"]);
    assert_eq!(Value::from(bytes("webgpu_copy")), reported["copies"]);
    assert!(of(rows, "webgpu_write").iter().all(|row| row["direction"] == "to device"));
    assert!(of(rows, "webgpu_copy").iter().all(|row| row["direction"] == "on device"));
    // From a step's first submission to the end of the wait that implies that all of them are done.
    let submits = of(rows, "webgpu_submit");
    // In the first step, Python also loads what it needs.
    for (at, step) in reported["steps"].as_array().unwrap().iter().enumerate().skip(1) {
        let of_step = &submits[3 * at..3 * at + 3];
        let done = number(&of_step[2]["done_by_ns"]);
        assert!(of_step.iter().all(|submit| number(&submit["done_by_ns"]) <= done), "step {at}: {of_step:#?}");
        assert_is(done - number(&of_step[0]["start_ns"]), number(&step[1]) - number(&step[0]), &format!("step {at}"));
    }
}

#[test]
#[ignore = "needs root"]
fn webgpu_calls_are_those_that_the_program_counts_and_bpftrace() {
    let _alone = alone();
    let functions = [
        ("wgpuQueueSubmit", &["webgpu_submit"][..]),
        ("wgpuDevicePoll", &["webgpu_wait", "webgpu_wait_for_index", "webgpu_poll"]),
        ("wgpuQueueWriteBuffer", &["webgpu_write"]),
        ("wgpuCommandEncoderCopyBufferToBuffer", &["webgpu_copy"]),
    ];
    let folder = tempfile::tempdir().unwrap();
    for (name, python) in [("newest", python()), ("older", older_python())] {
        let trace = folder.path().join(format!("{name}.pfi"));
        let also = ["wgpuComputePassEncoderDispatchWorkgroups"];
        let counting = Counting::new(&library(python), &[&functions.map(|(name, _)| name)[..], &also].concat());
        let mut command = profinfer(&["record", "webgpu", "-o", trace.to_str().unwrap(), "--"]);
        program(&mut command, python);
        let reported = reported(&succeeds(&mut command));
        let counts = counting.counts(&reported["pid"]);
        let rows = table(&trace, "queue");
        for (function, probes) in functions {
            let recorded: usize = probes.iter().map(|probe| of(&rows, probe).len()).sum();
            assert_eq!(Some(&(recorded as u64)), counts.get(function), "{name}: {function} of {counts:?}");
        }
        assert_eq!(number(&reported["submissions"]), SUBMISSIONS as u64);
        assert_known(&rows, &reported);
        let dispatches = table(&trace, "dispatches");
        assert_eq!((dispatches.len(), number(&reported["dispatches"])), (DISPATCHES, DISPATCHES as u64));
        assert_eq!(counts.get(also[0]), Some(&(DISPATCHES as u64)));
        let groups = format!("{}x1x1", COUNT / 64);
        assert!(dispatches.iter().all(|row| row["shape"] == *groups), "{dispatches:#?}");
        // Which pipeline each dispatch is of: of the call before it that set one for its pass.
        assert_eq!(pipelines(&trace), ["pipeline double", "pipeline add_one"].repeat(STEPS), "{name}");
        let report = report(&trace);
        assert_eq!(report["completeness"]["complete"], true, "{name}: {:#}", report["completeness"]);
        let offload = &report["offload"];
        assert_eq!(offload["devices"][0]["device_type"], "CPU");
        assert_eq!(offload["queues"][0]["bounded"], SUBMISSIONS);
        let bytes: u64 = offload["copies"].as_array().unwrap().iter().map(|row| number(&row["bytes"])).sum();
        assert_eq!(bytes, 2 * STEPS as u64 * 4 * COUNT);
    }
}

/// The names of the pipelines that are dispatched, in order.
fn pipelines(trace: &Path) -> Vec<String> {
    let mut events = lines(&succeeds(&mut profinfer(&["dump", trace.to_str().unwrap()])).stdout);
    events.sort_by_key(|event| event["start_ns"].as_u64());
    let (mut names, mut set, mut found) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
    for event in &events {
        let field = |name: &str| event["fields"][name].as_str().unwrap().to_owned();
        match event["probe"].as_str() {
            Some("webgpu_pipeline") => drop(names.insert(field("described"), field("name"))),
            Some("webgpu_set_pipeline") => drop(set.insert(field("pass"), names[&field("pipeline")].clone())),
            Some("webgpu_dispatch") => found.push(set[&field("pass")].clone()),
            _ => {}
        }
    }
    found
}

/// The library calls the driver's own functions: of Vulkan's loader only the device is seen.
#[test]
#[ignore = "needs root"]
fn webgpu_and_vulkan_beneath_it_are_recorded_at_once() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let both = folder.path().join("both.yaml");
    std::fs::write(&both, "profinfer: 1\nengine: both\ninclude: [webgpu.yaml, vulkan.yaml]\nprobes: {}\n").unwrap();
    let trace = folder.path().join("run.pfi");
    let mut command = profinfer(&["record", both.to_str().unwrap(), "-o", trace.to_str().unwrap(), "--"]);
    program(&mut command, python());
    let reported = reported(&succeeds(&mut command));
    let rows = table(&trace, "queue");
    assert_known(&rows, &reported);
    assert!(of(&rows, "vulkan_submit").is_empty(), "it calls the loader: {rows:#?}");
    let events = lines(&succeeds(&mut profinfer(&["dump", trace.to_str().unwrap()])).stdout);
    let device = |probe: &str| events.iter().find(|event| event["probe"] == probe).map(|event| event["fields"].clone());
    let [of_webgpu, of_vulkan] = ["webgpu_device", "vulkan_device"].map(|probe| device(probe).expect(probe));
    assert_eq!(of_vulkan["name"], reported["device"]);
    assert_eq!((&of_webgpu["device_type"], &of_vulkan["device_type"]), (&"CPU".into(), &"CPU".into()));
}

/// Records a program that prints `ready` and waits for a line, from then to its end. Gives what it prints at its end.
pub(crate) fn attached(probeset: &str, program: &mut Command, trace: &Path) -> Vec<String> {
    let mut child = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while line.trim() != "ready" {
        line.clear();
        assert_ne!(output.read_line(&mut line).unwrap(), 0, "it ended");
    }
    let pid = child.id().to_string();
    let arguments = ["record", probeset, "--live", "always", "-p", &pid, "-o", trace.to_str().unwrap()];
    let mut recording = profinfer(&arguments).stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut progress = recording.stderr.take().unwrap();
    // A line of progress is written when all probes are attached.
    let (mut reported, mut bytes) = (Vec::new(), [0; 256]);
    while !String::from_utf8_lossy(&reported).contains("events/s") {
        let count = progress.read(&mut bytes).unwrap();
        assert_ne!(count, 0, "{}", String::from_utf8_lossy(&reported));
        reported.extend(&bytes[..count]);
    }
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let text = output.lines().map(Result::unwrap).collect();
    assert!(child.wait().unwrap().success());
    progress.read_to_end(&mut reported).unwrap();
    assert!(recording.wait().unwrap().success(), "{}", String::from_utf8_lossy(&reported));
    text
}

/// A call that does not wait tells by its result whether all is done: the first that does so ends the work.
#[test]
#[ignore = "needs root"]
fn webgpu_of_a_program_that_polls() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("run.pfi");
    let mut command = profinfer(&["record", "webgpu", "-o", trace.to_str().unwrap(), "--"]);
    program(&mut command, python());
    let reported = reported(&succeeds(command.arg("poll")));
    let rows = table(&trace, "queue");
    let submits = of(&rows, "webgpu_submit");
    assert_eq!(submits.len() as u64, number(&reported["submissions"]));
    let polls = of(&rows, "webgpu_poll").into_iter().filter(|row| row["tid"] == submits[0]["tid"]);
    let failed: Vec<bool> = polls.map(|row| row["failed"].as_bool().unwrap()).collect();
    let of_step = |asked: &Value| (1..number(asked)).map(|_| true).chain([false]).collect::<Vec<_>>();
    let asked = reported["polls"].as_array().unwrap();
    assert_eq!(failed, asked.iter().flat_map(of_step).collect::<Vec<_>>(), "{asked:?}");
    assert!(failed.contains(&true), "{asked:?}");
    for (step, submits) in reported["steps"].as_array().unwrap().iter().zip(submits.chunks(3)).skip(1) {
        let recorded = number(&submits[1]["done_by_ns"]) - number(&submits[0]["start_ns"]);
        assert_is(recorded, number(&step[1]) - number(&step[0]), "a step that polls");
    }
}

/// Attached while it waits: nothing is known of what was made before.
#[test]
#[ignore = "needs root"]
fn webgpu_of_a_running_program() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("run.pfi");
    let mut command = Command::new("env");
    program(&mut command, python());
    let text = attached("webgpu", command.arg("wait"), &trace);
    let reported: Value = serde_json::from_str(text.last().unwrap()).unwrap();
    assert_known(&table(&trace, "queue"), &reported);
    assert_eq!(table(&trace, "dispatches").len(), DISPATCHES);
    assert_eq!(report(&trace)["offload"]["devices"], serde_json::json!([]));
}

/// Without an adapter the program ends; one message says that nothing was there to record.
#[test]
#[ignore = "needs root"]
fn webgpu_without_an_adapter() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("run.pfi");
    let mut command = profinfer(&["record", "webgpu", "-o", trace.to_str().unwrap(), "--"]);
    program(&mut command, python());
    command.env("VK_ICD_FILENAMES", "/nonexistent").env("WGPU_BACKEND_TYPE", "Vulkan");
    let output = command.stdin(Stdio::null()).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    let problems: Vec<&str> = stderr.lines().filter(|line| line.starts_with("error[")).collect();
    assert_eq!(problems.len(), 1, "{stderr}");
    assert!(problems[0].starts_with("error[R004]: the target ended with status 1 before"), "{stderr}");
    assert!(stderr.contains("No suitable graphics adapter found"), "{stderr}");
}
