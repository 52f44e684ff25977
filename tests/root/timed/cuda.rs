//! A library that has functions of CUDA's driver and threads for streams: launches, events, graphs, copies and waits are
//! recorded, and the interval of each stream's work is what the program measured.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/targets/cuda.c");

fn succeeds(command: &mut Command) -> Vec<u8> {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn compile(arguments: &[&str], folder: &Path, out: &str) {
    let path = folder.join(out);
    succeeds(Command::new("cc").args(["-O2", "-o"]).arg(&path).arg(SOURCE).args(arguments).arg("-lpthread"));
}

/// A recorded time is a known one, within 1 %.
fn assert_is(recorded: u64, known: u64, what: &str) {
    assert!(recorded.abs_diff(known) * 100 <= known, "{what}: {recorded} ns recorded, {known} ns known");
}

#[test]
#[ignore = "needs root"]
fn work_of_streams_has_the_known_times() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    compile(&["-DLIBRARY", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1"], folder, "libcuda.so.1");
    let library = folder.join("libcuda.so.1");
    compile(&[library.to_str().unwrap(), "-Wl,-rpath,$ORIGIN"], folder, "program");
    let profinfer = || Command::new(env!("CARGO_BIN_EXE_profinfer"));
    let trace = folder.join("run.pfi");
    // There is no step in it: the recording says so by its status.
    let mut record = profinfer();
    record.args(["record", "cuda", "-o"]).arg(&trace).arg("--").arg(folder.join("program"));
    let output = record.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let known: Vec<(u64, u64)> = String::from_utf8(output.stdout).unwrap().lines().map(known).collect();
    let tables = folder.join("tables");
    succeeds(profinfer().arg("export").arg(&trace).args(["--format", "ndjson", "-o"]).arg(&tables));
    let text = std::fs::read_to_string(tables.join("queue.ndjson")).unwrap();
    let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |probe: &str| rows.iter().filter(|row| row["probe"] == probe).collect::<Vec<_>>();
    let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("a number: {value}"));
    let interval = |first: &Value, last: &Value| number(&last["done_by_ns"]) - number(&first["start_ns"]);

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
    let copies: Vec<_> = [of("cuda_to_device"), of("cuda_from_device")]
        .concat()
        .iter()
        .map(|row| (number(&row["bytes"]), row["direction"].as_str().unwrap().to_owned()))
        .collect();
    assert_eq!(copies, [(1000, "to device".to_owned()), (500, "from device".to_owned())]);
    assert_eq!(
        [of("cuda_event_wait"), of("cuda_stream_wait"), of("cuda_context_wait")].map(|rows| rows.len()),
        [1, 2, 1]
    );
}

/// `work W submitted NS done NS`.
fn known(line: &str) -> (u64, u64) {
    let words: Vec<&str> = line.split_whitespace().collect();
    let ["work", _, "submitted", submitted, "done", done] = words[..] else { panic!("{line}") };
    (submitted.parse().unwrap(), done.parse().unwrap())
}
