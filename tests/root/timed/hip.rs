//! A library that has functions of HIP's runtime and threads for streams: launches, events, graphs, copies and waits are
//! recorded, and the interval of each stream's work is what the program measured.

use super::cuda::{assert_is, compile, copies, interval, measured, number, recorded};

#[test]
#[ignore = "needs root"]
fn work_of_streams_has_the_known_times() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let library = folder.join("libamdhip64.so.6");
    compile("hip.c", &["-DLIBRARY", "-shared", "-fPIC", "-Wl,-soname,libamdhip64.so.6"], folder, "libamdhip64.so.6");
    compile("hip.c", &[library.to_str().unwrap(), "-Wl,-rpath,$ORIGIN"], folder, "program");
    let (reported, rows) = recorded("hip", &folder.join("program"), folder);
    let measured: Vec<(u64, u64)> = reported.lines().map(measured).collect();
    let of = |probe: &str| rows.iter().filter(|row| row["probe"] == probe).collect::<Vec<_>>();
    let spent = |work: usize| measured[work].1 - measured[work].0;

    let (launches, of_modules) = (of("hip_launch"), of("hip_launch_module"));
    assert_eq!((launches.len(), of_modules.len()), (5, 2));
    // What was launched before the event is done with it, what came after is not.
    assert_is(interval(launches[0], of_modules[1]), spent(0), "an event");
    assert!(number(&launches[1]["done_by_ns"]) > number(&of_modules[1]["done_by_ns"]));
    let graphs = of("hip_graph_launch");
    assert_eq!(graphs.len(), 12);
    assert_is(interval(graphs[0], graphs[11]), spent(1), "graphs");
    assert_is(interval(launches[2], launches[3]), spent(2), "two streams");
    assert_ne!(launches[2]["queue"], launches[3]["queue"]);
    assert_is(interval(launches[4], launches[4]), spent(3), "a copy that waits");
    let queues = [launches[0], of_modules[0], of_modules[1], launches[4]].map(|row| row["queue"].clone());
    assert!(queues.iter().all(|queue| *queue == queues[0] && !queue.is_null()), "{queues:?}");
    let expected = [(1000, "to device"), (500, "from device"), (300, "on device"), (200, "")];
    assert_eq!(copies(rows.iter()), expected);
    let waits = ["hip_event_wait", "hip_stream_wait", "hip_device_wait", "hip_copy_wait"].map(|probe| of(probe).len());
    assert_eq!(waits, [1, 2, 1, 1]);
}
