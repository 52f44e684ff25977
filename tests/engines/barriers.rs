//! Waiting that is estimated from random windows, beside waiting that another recorder measured in the same run.

use crate::engine::{Engine, Workload, alone, workload};
use crate::process::{profinfer, stderr, wait};
use crate::rows;
use serde_json::Value;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Stdio;

/// Every phase and operator of a recording, whatever its status: see below.
fn report(trace: &Path) -> Value {
    let output = profinfer(&["report", trace.to_str().unwrap(), "--json"]).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Two recorders of one run: the outer one with every barrier, the inner one as it is by default. Each lets the engine
/// go on after it has attached to a library, so that the other one may attach while the engine loads its model, which
/// it reports.
fn recorded_twice(engine: Engine, work: &Workload) -> [Value; 2] {
    let folder = tempfile::tempdir().unwrap();
    let [exact, sampled] = ["exact.pfi", "sampled.pfi"].map(|name| folder.path().join(name));
    let mut outer = profinfer(&["record", "llama", "--barriers", "all", "--live", "never", "-o"]);
    outer.arg(&exact).args(["--", env!("CARGO_BIN_EXE_profinfer"), "record", "llama", "--live", "never", "-o"]);
    outer.arg(&sampled).arg("--").args(engine.command(work)).process_group(0);
    let output = wait(outer.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap(), "two recorders");
    assert!(matches!(output.status.code(), Some(0 | 4)), "{}", stderr(&output));
    [exact, sampled].map(|trace| report(&trace))
}

fn phase<'a>(report: &'a Value, name: &str) -> &'a Value {
    rows(&report["phases"]).find(|phase| phase["phase"] == name).unwrap()
}

fn ns(row: &Value, key: &str) -> f64 {
    row[key].as_f64().unwrap_or_else(|| panic!("{key} of {row}"))
}

fn assert_estimated(engine: Engine, model: &'static str, tokens: u64) {
    let _alone = alone();
    let work = Workload { tokens, ..workload(model, 2) };
    // Windows come at random, and one run in fifty has fewer than two in the phase: then there is no interval.
    let has_interval = |[_, sampled]: &[Value; 2]| {
        let windows = sampled["sampling"]["waiting"]["windows"].as_u64().unwrap();
        windows > 3 || !phase(sampled, "decode")["waiting_half_width_ns"].is_null()
    };
    let [exact, sampled] =
        (0..3).map(|_| recorded_twice(engine, &work)).find(has_interval).expect("windows in one of three runs");
    assert!(exact["sampling"]["waiting"].is_null(), "{}", exact["sampling"]);
    for report in [&exact, &sampled] {
        // The first ones may pass before the second recorder has attached.
        let steps = report["completeness"]["steps"].as_u64().unwrap();
        assert!((tokens * 9 / 10..=1 + tokens).contains(&steps), "{}", report["completeness"]);
    }
    let share = ns(&sampled["sampling"]["waiting"], "recorded");
    assert!((0.01..0.4).contains(&share), "about a tenth: {}", sampled["sampling"]);

    let [measured, estimated] = [&exact, &sampled].map(|report| phase(report, "decode"));
    assert_eq!((&measured["waiting_estimated"], &estimated["waiting_estimated"]), (&false.into(), &true.into()));
    let (lane_time, interval) = (ns(estimated, "lane_time_ns"), ns(estimated, "waiting_half_width_ns"));
    assert!(
        (ns(measured, "lane_time_ns") - lane_time).abs() < lane_time / 10.0,
        "of the same steps, but for the first"
    );
    let error = (ns(estimated, "waiting_ns") - ns(measured, "waiting_ns")).abs();
    // What a recorder adds to its own spans, steps that one has missed, and twice the interval, which few windows make an
    // uncertain one.
    let missed = (ns(measured, "lane_time_ns") - lane_time).abs();
    assert!(error <= 2.0 * interval + lane_time / 50.0 + missed, "{model}: {estimated}\nmeasured: {measured}");
    // With some windows it says something: waiting by chance is anything from none to all.
    let windows = sampled["sampling"]["waiting"]["windows"].as_u64().unwrap();
    assert!(windows < 6 || interval < lane_time / 3.0, "{windows} windows of {model}: {estimated}");

    // Each operator is estimated by itself: so are their sums.
    let total = |report: &Value, key: &str| rows(&report["operators"]).map(|row| ns(row, key)).sum::<f64>();
    let parts = |report: &Value| total(report, "total_ns") + total(report, "waiting_ns");
    let [all, divided] = [&exact, &sampled].map(parts);
    assert!((all - divided).abs() < lane_time / 20.0 + missed, "nothing is lost by dividing: {divided} of {all}");
    let [measured, estimated] = [&exact, &sampled].map(|report| total(report, "total_ns"));
    assert!(
        (measured - estimated).abs() <= 2.0 * interval + lane_time / 50.0 + missed,
        "work {estimated}, measured {measured}"
    );
}

#[test]
#[ignore = "needs root"]
fn waiting_of_a_small_model_is_estimated_as_it_was() {
    assert_estimated(Engine::Shared, "small-dense", 1200);
}

#[test]
#[ignore = "needs root"]
fn waiting_of_a_larger_model_on_the_wheel_is_estimated_as_it_was() {
    assert_estimated(Engine::Wheel, "medium-dense", 700);
}
