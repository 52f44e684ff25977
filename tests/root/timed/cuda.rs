//! A library that has functions of CUDA's driver and threads for streams: launches, events, graphs, copies and waits are
//! recorded, and the interval of each stream's work is what the program measured.

use crate::record::{is_traced, wait_until};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

pub(super) fn succeeds(command: &mut Command) -> Vec<u8> {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// Builds a file of `tests/targets`.
pub(super) fn compile(source: &str, arguments: &[&str], folder: &Path, out: &str) {
    let (source, path) = (format!("{}/tests/targets/{source}", env!("CARGO_MANIFEST_DIR")), folder.join(out));
    succeeds(Command::new("cc").args(["-O2", "-o"]).arg(&path).arg(source).args(arguments).arg("-lpthread"));
}

/// Records a program, and gives what it reported and the rows of its queues. There is no step in it.
pub(super) fn recorded(probeset: &str, program: &Path, folder: &Path) -> (String, Vec<Value>) {
    let profinfer = || Command::new(env!("CARGO_BIN_EXE_profinfer"));
    let trace = folder.join("run.pfi");
    let reported = succeeds(profinfer().args(["record", probeset, "-o"]).arg(&trace).arg("--").arg(program));
    let tables = folder.join("tables");
    succeeds(profinfer().arg("export").arg(&trace).args(["--format", "ndjson", "-o"]).arg(&tables));
    let text = std::fs::read_to_string(tables.join("queue.ndjson")).unwrap();
    let rows = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (String::from_utf8(reported).unwrap(), rows)
}

pub(super) fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("a number: {value}"))
}

/// From the beginning of the first call to the end of what implies that the last one's work was done.
pub(super) fn interval(first: &Value, last: &Value) -> u64 {
    number(&last["done_by_ns"]) - number(&first["start_ns"])
}

/// Bytes and direction of copies.
pub(super) fn copies<'a>(rows: impl Iterator<Item = &'a Value>) -> Vec<(u64, &'a str)> {
    let copies = rows.filter(|row| row["event"] == "copy");
    copies.map(|row| (number(&row["bytes"]), row["direction"].as_str().unwrap_or(""))).collect()
}

/// A recorded time is the one that the program measured, within 1 %.
pub(super) fn assert_is(recorded: u64, measured: u64, what: &str) {
    assert!(recorded.abs_diff(measured) * 100 <= measured, "{what}: {recorded} ns recorded, {measured} ns measured");
}

#[test]
#[ignore = "needs root"]
fn work_of_streams_has_the_known_times() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    compile("cuda.c", &["-DLIBRARY", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1"], folder, "libcuda.so.1");
    let library = folder.join("libcuda.so.1");
    compile("cuda.c", &[library.to_str().unwrap(), "-Wl,-rpath,$ORIGIN"], folder, "program");
    let (reported, rows) = recorded("cuda", &folder.join("program"), folder);
    let measured: Vec<(u64, u64)> = reported.lines().map(measured).collect();
    let of = |probe: &str| rows.iter().filter(|row| row["probe"] == probe).collect::<Vec<_>>();

    // Three were captured, and given to no stream.
    let (launches, captured): (Vec<&Value>, Vec<&Value>) =
        of("cuda_launch").into_iter().partition(|row| row["event"] == "submit");
    assert_eq!((launches.len(), captured.len()), (7, 3));
    assert!(captured.iter().all(|row| row["event"] == "captured" && row["done_by_ns"].is_null()), "{captured:?}");
    // What was launched before the event is done with it, what came after is not.
    assert_is(interval(launches[0], launches[2]), measured[0].1 - measured[0].0, "an event");
    assert!(number(&launches[3]["done_by_ns"]) > number(&launches[2]["done_by_ns"]));
    let graphs = of("cuda_graph_launch");
    assert_eq!(graphs.len(), 15);
    assert_is(interval(graphs[0], graphs[11]), measured[1].1 - measured[1].0, "graphs");
    assert_is(interval(graphs[12], graphs[14]), measured[4].1 - measured[4].0, "an updated graph");
    assert_is(interval(launches[4], launches[5]), measured[2].1 - measured[2].0, "two streams");
    assert_ne!(launches[4]["queue"], launches[5]["queue"]);
    // Nobody waits for the first of two streams, but the second one does.
    let extended = of("cuda_launch_extended");
    assert_is(interval(launches[6], extended[0]), measured[3].1 - measured[3].0, "a stream after another one");
    assert_eq!((launches[6]["done_by_ns"].is_u64(), &launches[6]["done_by_ns"]), (true, &extended[0]["done_by_ns"]));
    assert_eq!(copies(rows.iter()), [(1000, "to device"), (500, "from device")]);
    assert_eq!(
        [of("cuda_event_wait"), of("cuda_stream_wait"), of("cuda_context_wait")].map(|rows| rows.len()),
        [1, 4, 1]
    );
}

/// Kernels by name: how often they were launched, and computed again in a graph.
fn kernels(trace: &Path) -> Vec<(String, u64, u64)> {
    let report = succeeds(Command::new(env!("CARGO_BIN_EXE_profinfer")).arg("report").arg(trace).arg("--json"));
    let report: Value = serde_json::from_slice(&report).unwrap();
    let rows = report["offload"]["operators"].as_array().unwrap().clone();
    let row = |row: &Value| (row["name"].as_str().unwrap().to_owned(), number(&row["count"]), number(&row["replayed"]));
    let mut kernels: Vec<_> = rows.iter().map(row).collect();
    kernels.sort();
    kernels
}

#[test]
#[ignore = "needs root"]
fn kernels_have_names_and_those_of_a_graph_are_known_from_its_capture() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    compile("cuda.c", &["-DLIBRARY", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1"], folder, "libcuda.so.1");
    let library = folder.join("libcuda.so.1");
    compile("cuda.c", &[library.to_str().unwrap(), "-Wl,-rpath,$ORIGIN"], folder, "program");
    recorded("cuda", &folder.join("program"), folder);
    let half = || "multiply_f<__half>".to_owned();
    let named = [("add_f*".to_owned(), 3, 24), (half(), 1, 0), (half(), 7, 3)];
    assert_eq!(kernels(&folder.join("run.pfi")), named);

    // Attached late: names were given before, so kernels have none; the graph is captured later.
    let mut program = Command::new(folder.join("program"));
    let mut child = program.arg("late").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut reported = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    reported.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    let trace = folder.join("late.pfi");
    let mut record = Command::new(env!("CARGO_BIN_EXE_profinfer"));
    record.args(["record", "cuda", "-p", &child.id().to_string(), "-o"]).arg(&trace);
    let mut recording = record.stdin(Stdio::null()).spawn().unwrap();
    wait_until("attached", || is_traced(&recording));
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    assert!(child.wait().unwrap().success());
    assert!(recording.wait().unwrap().success());
    let found = kernels(&trace);
    assert_eq!(
        found.iter().map(|(_, count, replayed)| (*count, *replayed)).collect::<Vec<_>>(),
        [(10, 27), (1, 0)],
        "{found:?}"
    );
}

/// `work W submitted NS done NS`.
pub(super) fn measured(line: &str) -> (u64, u64) {
    let words: Vec<&str> = line.split_whitespace().collect();
    let ["work", _, "submitted", submitted, "done", done] = words[..] else { panic!("{line}") };
    (submitted.parse().unwrap(), done.parse().unwrap())
}
