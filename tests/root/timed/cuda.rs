//! A library that has functions of CUDA's driver and threads for streams: launches, events, graphs, copies and waits are
//! recorded, and the interval of each stream's work is what the program measured.

use serde_json::Value;
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

/// Records a program, and gives what it said and the rows of its queues. There is no step in it.
pub(super) fn recorded(probeset: &str, program: &Path, folder: &Path) -> (String, Vec<Value>) {
    let profinfer = || Command::new(env!("CARGO_BIN_EXE_profinfer"));
    let trace = folder.join("run.pfi");
    let said = succeeds(profinfer().args(["record", probeset, "-o"]).arg(&trace).arg("--").arg(program));
    let tables = folder.join("tables");
    succeeds(profinfer().arg("export").arg(&trace).args(["--format", "ndjson", "-o"]).arg(&tables));
    let text = std::fs::read_to_string(tables.join("queue.ndjson")).unwrap();
    let rows = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (String::from_utf8(said).unwrap(), rows)
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

/// A recorded time is a known one, within 1 %.
pub(super) fn assert_is(recorded: u64, known: u64, what: &str) {
    assert!(recorded.abs_diff(known) * 100 <= known, "{what}: {recorded} ns recorded, {known} ns known");
}

#[test]
#[ignore = "needs root"]
fn work_of_streams_has_the_known_times() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    compile("cuda.c", &["-DLIBRARY", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1"], folder, "libcuda.so.1");
    let library = folder.join("libcuda.so.1");
    compile("cuda.c", &[library.to_str().unwrap(), "-Wl,-rpath,$ORIGIN"], folder, "program");
    let (said, rows) = recorded("cuda", &folder.join("program"), folder);
    let known: Vec<(u64, u64)> = said.lines().map(known).collect();
    let of = |probe: &str| rows.iter().filter(|row| row["probe"] == probe).collect::<Vec<_>>();

    let launches = of("cuda_launch");
    assert_eq!(launches.len(), 6);
    // What was launched before the event is done with it, what came after is not.
    assert_is(interval(launches[0], launches[2]), known[0].1 - known[0].0, "an event");
    assert!(number(&launches[3]["done_by_ns"]) > number(&launches[2]["done_by_ns"]));
    let graphs = of("cuda_graph_launch");
    assert_eq!(graphs.len(), 12);
    assert_is(interval(graphs[0], graphs[11]), known[1].1 - known[1].0, "graphs");
    assert_is(interval(launches[4], launches[5]), known[2].1 - known[2].0, "two streams");
    assert_ne!(launches[4]["queue"], launches[5]["queue"]);
    assert_eq!(copies(rows.iter()), [(1000, "to device"), (500, "from device")]);
    assert_eq!(
        [of("cuda_event_wait"), of("cuda_stream_wait"), of("cuda_context_wait")].map(|rows| rows.len()),
        [1, 2, 1]
    );
}

/// `work W submitted NS done NS`.
pub(super) fn known(line: &str) -> (u64, u64) {
    let words: Vec<&str> = line.split_whitespace().collect();
    let ["work", _, "submitted", submitted, "done", done] = words[..] else { panic!("{line}") };
    (submitted.parse().unwrap(), done.parse().unwrap())
}
