//! A program on a real OpenCL, pocl, whose device is the processor: calls are as many as bpftrace counts, and the
//! interval of each part is at least what the device measured, and what the program measured.

use super::cuda::{assert_is, compile, copies, interval, number, recorded, succeeds};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// What bpftrace counts in another run.
fn counted(program: &Path) -> BTreeMap<String, u64> {
    let library = "/usr/lib/x86_64-linux-gnu/libOpenCL.so.1";
    let script = format!("uprobe:{library}:cl* {{ @[probe] = count(); }}");
    let command = program.to_str().unwrap();
    let output = succeeds(Command::new("bpftrace").args(["-e", &script, "-c", command]));
    let text = String::from_utf8(output).unwrap();
    let of = |line: &str| {
        let (name, count) = line.strip_prefix("@[")?.split_once("]: ")?;
        Some((name.rsplit(':').next()?.to_owned(), count.parse().ok()?))
    };
    text.lines().filter_map(of).collect()
}

/// `work W enqueued NS done NS device NS`.
fn measured(line: &str) -> Option<[u64; 3]> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let ["work", _, "enqueued", from, "done", done, "device", device] = words[..] else { return None };
    Some([from, done, device].map(|word| word.parse().unwrap()))
}

#[test]
#[ignore = "needs root"]
fn work_of_queues_has_the_known_times() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    compile("opencl.c", &["-lOpenCL"], folder, "program");
    let program = folder.join("program");
    let counts = counted(&program);
    let (reported, rows) = recorded("opencl", &program, folder);
    let measured: Vec<[u64; 3]> = reported.lines().filter_map(measured).collect();
    let of = |probe: &str| rows.iter().filter(|row| row["probe"] == probe).collect::<Vec<&Value>>();

    for (probe, function) in [
        ("opencl_kernel", "clEnqueueNDRangeKernel"),
        ("opencl_flush", "clFlush"),
        ("opencl_finish", "clFinish"),
        ("opencl_event_wait", "clWaitForEvents"),
        ("opencl_read", "clEnqueueReadBuffer"),
        ("opencl_write", "clEnqueueWriteBuffer"),
        ("opencl_copy", "clEnqueueCopyBuffer"),
    ] {
        assert_eq!(Some(of(probe).len() as u64), counts.get(function).copied(), "{function}: {counts:?}");
    }
    let expected = [(1000, "to device"), (500, "from device"), (2000, "on device"), (700, "from device")];
    assert_eq!(copies(rows.iter()), expected);
    let kernels = of("opencl_kernel");
    assert_eq!(kernels.len(), 19);
    assert!(rows.iter().all(|row| row["event"] != "submit" || row["done_by_ns"].is_u64()), "{rows:#?}");
    // A kernel before all parts; the one after the event is done later.
    let parts = [(1, 3), (5, 16), (17, 18)];
    for ((first, last), [from, done, device]) in parts.into_iter().zip(&measured) {
        let interval = interval(kernels[first], kernels[last]);
        assert!(interval >= *device, "{interval} ns, the device measured {device} ns");
        assert_is(interval, done - from, "a part");
    }
    assert!(number(&kernels[4]["done_by_ns"]) > number(&kernels[3]["done_by_ns"]));
    // Of the other queue, both copies are done when the second one's event is.
    let enqueued = [of("opencl_copy_enqueued"), of("opencl_read_enqueued")].concat();
    assert_eq!(enqueued.len(), 2);
    assert_eq!(enqueued[0]["done_by_ns"], enqueued[1]["done_by_ns"]);
    assert_ne!(enqueued[0]["queue"], kernels[0]["queue"]);
    // Blocking copies are waits for their queue.
    assert_eq!([of("opencl_read_wait").len(), of("opencl_write_wait").len()], [1, 1]);
}
