//! What placing probes in a running target takes is profinfer's own doing, and reported as that. These need root (or
//! CAP_BPF and CAP_PERFMON), a C compiler and clang.

use crate::record::{Run, stderr, toys};
use std::process::Command;

/// A library that is mapped within a step has the process stopped until its probes are placed: by the recorder, and by
/// nobody else. How long it was loading is by the toy's own clock.
#[test]
#[ignore = "needs root"]
fn a_stop_to_place_probes_is_the_recorder_s() {
    let run = Run::new();
    let scheduled = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/targets/scheduled.yaml");
    let mut recorder = run.recorder_with(scheduled, &["--", &toys().linked(), "20", "2", "1"]);
    let output = recorder.env("TOY_LOADS", toys().library()).output().unwrap();
    let printed = stderr(&output);
    let loading =
        printed.lines().find_map(|line| line.strip_prefix("toy: loading ")?.strip_suffix(" ns")).expect(&printed);
    let loading: f64 = loading.parse().unwrap();
    let mut report = Command::new(env!("CARGO_BIN_EXE_profinfer"));
    let report = report.args(["report", "--json"]).arg(run.trace()).output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
    let lane = &report["threads"]["lanes"][0];
    let of = |key: &str| lane[key].as_f64().unwrap();
    assert_eq!(of("stopped_ns"), 0.0, "{lane}");
    let attaching = of("attaching_ns");
    assert!(attaching > loading * 0.3 && attaching <= loading, "{attaching} ns of {loading} ns: {lane}");
    let verdict = &report["verdict"]["phases"][0];
    assert_eq!((&verdict["bound"], &verdict["parts"]["stopped"]), (&"attaching".into(), &0.0.into()), "{verdict}");
    assert!(
        report["verdict"]["sentences"].to_string().contains("profinfer itself had stopped it"),
        "{}",
        report["verdict"]
    );
}
