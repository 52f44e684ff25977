//! What a real engine's threads did while another process wanted its processor.

use crate::competitor::Competitor;
use crate::engine::{Engine, Workload, alone, workload};
use crate::models::record;
use crate::recording::Recording;
use crate::rows;
use serde_json::Value;

fn threads_of(recording: &Recording) -> Value {
    let threads = recording.report(&[])["threads"].clone();
    for row in rows(&threads["lanes"]) {
        let number = |key: &str| row[key].as_u64().unwrap();
        let states = ["running_ns", "runnable_ns", "sleeping_ns", "blocked_ns", "unknown_ns"];
        let sum: u64 = states.into_iter().map(number).sum();
        assert!(sum.abs_diff(number("wall_ns")) <= number("wall_ns") / 1000, "{row}");
        // Of some switches a virtual machine's kernel does not tell, and each is a turn of several ms.
        assert!(number("unknown_ns") <= number("wall_ns") / 5, "{row}");
    }
    threads
}

#[test]
#[ignore = "needs root"]
fn a_competitor_on_an_engines_processor_is_named() {
    let _alone = alone();
    let competitor = Competitor::on(0);
    // Long enough for the competitor to take turns from operators, too.
    let work = Workload { tokens: 100, ..workload("tiny-dense", 2) };
    let recording = record(Engine::Shared, &work, &[]);
    let threads = threads_of(&recording);
    for lane in [0, 1] {
        let row = rows(&threads["lanes"]).find(|row| row["lane"] == lane).unwrap();
        assert!(row["running_ns"].as_u64().unwrap() > 0, "{threads}");
    }
    let found = rows(&threads["interference"]).find(|row| row["pid"] == competitor.pid());
    let found = found.unwrap_or_else(|| panic!("{threads}"));
    assert_eq!((&found["process"], &found["own"]), (&"sh".into(), &false.into()));
    assert!(found["taken_ns"].as_u64().unwrap() > 0 && rows(&found["operators"]).count() > 0, "{found}");
    // The engine's barriers are known, so that operators' time is split into work and waiting by them.
    let total = |key: &str| rows(&threads["operators"]).map(|row| row[key].as_u64().unwrap()).sum::<u64>();
    assert!(total("compute_ns") > 0 && total("waiting_ns") > 0, "{threads}");
    let phases = recording.report(&[])["phases"].clone();
    let recorded: u64 =
        rows(&phases).map(|row| row["work_ns"].as_u64().unwrap() + row["waiting_ns"].as_u64().unwrap()).sum();
    let parts = total("total_ns");
    assert!(parts.abs_diff(recorded) <= recorded / 100, "the parts of operators' time add up: {parts}, {recorded}");
}
