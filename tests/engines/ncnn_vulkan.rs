//! ncnn on Vulkan, as Python's users have it, with Mesa's lavapipe as device: what each run encodes for the device and
//! what it computes on the CPU are the engine's own list of layers, with the shapes of its blobs; calls of Vulkan are
//! those that bpftrace counts in the same run. This needs root.

use crate::engine::alone;
use crate::invocation::{lines, profinfer, succeeds};
use crate::ncnn::{older_python, python};
use crate::packages::scripts;
use crate::webgpu::{Counting, attached, number, report, table};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

const RUNS: usize = 4;
/// Without a layer on the CPU in its middle, it would be one.
const SUBMISSIONS_OF_A_RUN: usize = 2;
const LOADER: &str = "/usr/lib/x86_64-linux-gnu/libvulkan.so.1";
/// No driver is there. (With the path of a driver, the engine loads that without the loader.)
const NO_DEVICE: [(&str, &str); 2] = [("VK_ICD_FILENAMES", "/nonexistent"), ("NCNN_VULKAN_DRIVER", "/nonexistent")];

fn script(python: &Path, words: &[&str]) -> Command {
    let mut command = Command::new("env");
    command.args(["-u", "VK_ICD_FILENAMES"]).arg(python).arg(scripts().join("run_ncnn_vulkan.py")).args(words);
    command
}

/// A net in a folder.
fn made(folder: &Path) -> String {
    let net = folder.join("net").display().to_string();
    succeeds(&mut script(python(), &["make", &net]));
    net
}

/// What the program prints of itself.
fn reported(text: &str) -> Value {
    text.lines().find_map(|line| serde_json::from_str(line).ok()).unwrap_or_else(|| panic!("{text}"))
}

/// Records some runs; what the program says.
fn recorded(python: &Path, net: &str, options: &[&str], trace: &Path, environment: &[(&str, &str)]) -> Value {
    let mut command = profinfer(&["record", "ncnn-vulkan", "-o", trace.to_str().unwrap(), "--"]);
    let program = script(python, &[&["run", net, &RUNS.to_string()], options].concat());
    command.arg(program.get_program()).args(program.get_args()).envs(environment.iter().copied());
    let output = command.stdin(Stdio::null()).output().unwrap();
    // What is missing is in the report.
    let shown = || profinfer(&["report", trace.to_str().unwrap()]).output().unwrap().stdout;
    let completeness = || String::from_utf8_lossy(&shown()).into_owned();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?}: {stderr}\n{}", output.status, completeness());
    reported(&String::from_utf8(output.stdout).unwrap())
}

/// `TYPE NAME WIDTH HEIGHT DEPTH CHANNELS` of the engine's layers that run, and whether the device computes them.
fn expected(python: &Path, net: &str, reported: &Value) -> Vec<(String, bool)> {
    let shapes = String::from_utf8(succeeds(&mut script(python, &["shapes", net])).stdout).unwrap();
    let layers = reported["layers"].as_array().unwrap().iter().zip(shapes.lines());
    let listed = layers.map(|(layer, line)| {
        let text = |at: usize| layer[at].as_str().unwrap().to_owned();
        assert!(line.starts_with(&format!("{} {} ", text(0), text(1))), "{line} is not {layer}");
        (line.to_owned(), layer[2].as_bool().unwrap())
    });
    listed.filter(|(line, _)| !line.starts_with("Input ")).collect()
}

/// The same as it was recorded, of each run: what has a name. Others are within layers, or change how blobs are packed.
fn layers(trace: &Path) -> Vec<Vec<(String, bool)>> {
    let mut steps: BTreeMap<u64, Vec<(u64, String, bool)>> = BTreeMap::new();
    for (name, is_device) in [("operators", false), ("dispatches", true)] {
        for row in table(trace, name).iter().filter(|row| row["step"] != 0) {
            let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
            let shape = text("shape").replace('x', " ");
            let line = format!("{} {} {shape}", text("op"), text("name"));
            let is_layer = text("op") != text("name");
            let of = steps.entry(number(&row["step"])).or_default();
            of.extend(is_layer.then(|| (number(&row["start_ns"]), line, is_device)));
        }
    }
    let in_order = |mut rows: Vec<(u64, String, bool)>| {
        rows.sort();
        rows.into_iter().map(|(_, line, is_device)| (line, is_device)).collect()
    };
    steps.into_values().map(in_order).collect()
}

/// Each run's layers are the engine's.
fn assert_layers(trace: &Path, expected: &[(String, bool)], runs: usize, what: &str) {
    let found = layers(trace);
    assert_eq!(found.len(), runs, "{what}");
    assert!(found.iter().all(|run| run == expected), "{what}: {found:#?}\nis not {expected:#?}");
    let report = report(trace);
    assert_eq!(report["completeness"]["complete"], true, "{what}: {:#}", report["completeness"]);
}

/// Submissions of each run lie within what the program says of it, and end there.
fn assert_queue(rows: &[Value], reported: &Value) {
    let times: Vec<[u64; 2]> = serde_json::from_value(reported["runs"].clone()).unwrap();
    for (run, [begun, ended]) in (1_u64..).zip(times) {
        let submits: Vec<&Value> = rows.iter().filter(|row| row["step"] == run && row["event"] == "submit").collect();
        assert_eq!(submits.len(), SUBMISSIONS_OF_A_RUN, "run {run}: {rows:#?}");
        let waited: u64 = (submits.iter()).map(|row| number(&row["done_by_ns"]) - number(&row["start_ns"])).sum();
        assert!(waited <= ended - begun, "run {run}: {waited} ns in {} ns", ended - begun);
        // What precedes is done before the next is encoded.
        assert!(number(&submits[0]["done_by_ns"]) <= number(&submits[1]["start_ns"]), "run {run}: {submits:#?}");
    }
}

#[test]
#[ignore = "needs root"]
fn ncnn_vulkan_layers_are_those_that_the_engine_lists() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let net = made(folder.path());
    for (build, python) in [("newest", python()), ("older", older_python())] {
        for options in [&[][..], &["fp16"], &["nets=2"]] {
            let what = format!("{build} {options:?}");
            let trace = folder.path().join(format!("{}.pfi", what.replace(|c: char| !c.is_alphanumeric(), "-")));
            let reported = recorded(python, &net, options, &trace, &[]);
            let expected = expected(python, &net, &reported);
            assert_eq!(expected.len(), 13, "{reported}");
            let on_cpu: Vec<&String> = expected.iter().filter(|(_, device)| !device).map(|(line, _)| line).collect();
            assert_eq!(on_cpu, ["Threshold threshold 16 16 1 8"], "{what}");
            let runs = RUNS * if options == ["nets=2"] { 2 } else { 1 };
            assert_layers(&trace, &expected, runs, &what);
            assert_queue(&table(&trace, "queue"), &reported);
            let dispatches = table(&trace, "dispatches");
            let fp16 = dispatches.iter().filter(|row| row["op"] != row["name"] && row["dtype"] == "fp16").count();
            assert_eq!(fp16, if options == ["fp16"] { 12 * runs } else { 0 }, "{what}");
            let device = report(&trace)["offload"]["devices"][0].clone();
            assert!(device["name"].as_str().unwrap().starts_with("llvmpipe"), "{device}");
        }
    }
}

#[test]
#[ignore = "needs root"]
fn ncnn_vulkan_submissions_and_waits_are_as_bpftrace_counts_them() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let net = made(folder.path());
    let functions = [
        ("vkQueueSubmit", "vulkan_submit"),
        ("vkWaitForFences", "vulkan_wait"),
        ("vkResetFences", "vulkan_reset"),
        ("vkDeviceWaitIdle", "vulkan_device_idle"),
    ];
    for (build, python) in [("newest", python()), ("older", older_python())] {
        let trace = folder.path().join(format!("{build}.pfi"));
        let counting = Counting::new(Path::new(LOADER), &functions.map(|(function, _)| function));
        let reported = recorded(python, &net, &[], &trace, &[]);
        let counts = counting.counts(&reported["pid"]);
        let rows = table(&trace, "queue");
        for (function, probe) in functions {
            let recorded = rows.iter().filter(|row| row["probe"] == probe).count() as u64;
            assert_eq!(Some(&recorded), counts.get(function), "{build}: {function} of {counts:?}");
        }
        let of_runs = rows.iter().filter(|row| row["probe"] == "vulkan_submit" && row["step"] != 0);
        assert_eq!(of_runs.count(), SUBMISSIONS_OF_A_RUN * RUNS);
    }
}

/// Without a device the engine computes on the CPU, and nothing is missing. With a driver's path it loads that itself.
#[test]
#[ignore = "needs root"]
fn ncnn_vulkan_without_a_device_or_without_the_loader() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let net = made(folder.path());
    let trace = folder.path().join("none.pfi");
    let mut command = profinfer(&["record", "ncnn-vulkan", "-o", trace.to_str().unwrap(), "--"]);
    command.arg(python()).arg(scripts().join("run_ncnn_vulkan.py")).args(["run", &net, &RUNS.to_string()]);
    let output = succeeds(command.envs(NO_DEVICE));
    let text = String::from_utf8(output.stdout).unwrap();
    let told = reported(&text);
    assert_eq!(told["devices"], 0, "{text}");
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!messages.contains("error[") && !messages.contains("warning["), "{messages}");
    assert!(table(&trace, "dispatches").is_empty() && table(&trace, "queue").is_empty());
    let expected: Vec<(String, bool)> = expected(python(), &net, &told).into_iter().collect();
    assert!(expected.iter().all(|(_, device)| !device));
    assert_layers(&trace, &expected, RUNS, "no device");

    let icd = std::fs::read_dir("/usr/share/vulkan/icd.d").unwrap().map(|file| file.unwrap().path());
    let icd = icd.into_iter().find(|path| path.file_name().unwrap().to_string_lossy().starts_with("lvp_icd")).unwrap();
    let trace = folder.path().join("driver.pfi");
    let mut command = profinfer(&["record", "ncnn-vulkan", "-o", trace.to_str().unwrap(), "--"]);
    command.arg(python()).arg(scripts().join("run_ncnn_vulkan.py")).args(["run", &net, &RUNS.to_string()]);
    let output = command.env("VK_ICD_FILENAMES", icd).stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    // Layers are recorded, queues are not.
    let found = layers(&trace);
    assert_eq!(found.len(), RUNS);
    assert!(found.iter().all(|run| run.iter().filter(|(_, device)| *device).count() == 12), "{found:#?}");
    assert!(table(&trace, "queue").is_empty());
}

#[test]
#[ignore = "needs root"]
fn ncnn_vulkan_of_a_running_program() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let net = made(folder.path());
    let trace = folder.path().join("run.pfi");
    let mut program = Command::new(python());
    program.arg(scripts().join("run_ncnn_vulkan.py")).args(["run", &net, &RUNS.to_string(), "wait"]);
    let text = attached("ncnn-vulkan", program.env_remove("VK_ICD_FILENAMES"), &trace).join("\n");
    let told = reported(&text);
    assert_layers(&trace, &expected(python(), &net, &told), RUNS, "attached");
    assert_queue(&table(&trace, "queue"), &told);
}

/// From the first submission of a run to the last result, against the device's part of the program's own time: of a net
/// whose device works for longer than everything else takes.
#[test]
#[ignore = "needs root"]
fn ncnn_vulkan_results_are_there_when_the_program_has_them() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let net = folder.path().join("large").display().to_string();
    succeeds(&mut script(python(), &["make", &net, "large"]));
    let trace = folder.path().join("run.pfi");
    let told = recorded(python(), &net, &[], &trace, &[]);
    let times: Vec<[u64; 2]> = serde_json::from_value(told["runs"].clone()).unwrap();
    let rows = table(&trace, "queue");
    // The first run makes what the device computes with.
    for (run, [begun, ended]) in (1_u64..).zip(times).skip(1) {
        let submits: Vec<&Value> = rows.iter().filter(|row| row["step"] == run && row["event"] == "submit").collect();
        assert_eq!(submits.len(), 1, "{rows:#?}");
        let bound = number(&submits[0]["done_by_ns"]) - number(&submits[0]["start_ns"]);
        assert!((ended - begun).abs_diff(bound) * 20 <= ended - begun, "run {run}: {bound} ns of {}", ended - begun);
    }
    let events = lines(&succeeds(&mut profinfer(&["dump", trace.to_str().unwrap()])).stdout);
    assert!(events.iter().any(|event| event["probe"] == "encode_one"));
}
