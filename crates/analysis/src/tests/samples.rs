//! Samples are assigned to what they interrupted, whatever comes first in the trace.

use super::*;
use profinfer_schema::{CodePlace, Sample};

const THREAD: u32 = 1;
const WORKER: u32 = 2;

fn sample(time: u64, tid: u32, within: Option<(u16, u64)>) -> Sample {
    let frames = vec![CodePlace { module: 0, offset: time }];
    Sample { time, tid, pid: 100, within, frames, ..Sample::default() }
}

/// What each sample was assigned to, by its time: phase, place, whether it waits.
fn assigned(records: &Records, samples: &[Sample]) -> Vec<(u64, &'static str, String, bool)> {
    let mut profile = Profile::new(&records.schema, true);
    let mut timeline = Timeline::new(&records.schema, Rules::default(), 100);
    profile.samples(samples);
    records.records.iter().for_each(|record| timeline.record(record, &mut profile));
    timeline.finish(&mut profile);
    profile.finish();
    let place = |within| match within {
        Within::Operator(kind) => timeline.catalogue().kind(kind).name.to_string(),
        other => format!("{other:?}"),
    };
    let mut found: Vec<_> = profile
        .counts()
        .map(|(phase, within, waiting, stack, count)| {
            assert_eq!(count, 1);
            (profile.stack(stack)[0].offset, phase.as_str(), place(within), waiting)
        })
        .collect();
    found.sort();
    found
}

fn type_of(records: &Records, name: &str) -> u16 {
    u16::try_from(records.schema.records.iter().position(|record| record.name == name).unwrap()).unwrap()
}

/// A step of 100 to 900 with a graph of 200 to 800: two operators on two lanes, the worker's first waits from 350 on.
fn one_step() -> Records {
    let mut r = Records::default();
    thread(&mut r, THREAD, 0, 100);
    thread(&mut r, WORKER, 0, 100);
    tensor(&mut r, THREAD, 210, 0x10, "MUL", "up");
    tensor(&mut r, THREAD, 410, 0x20, "ADD", "sum");
    operator(&mut r, THREAD, (210, 400), 0, 0x10, 0);
    operator(&mut r, WORKER, (220, 400), 1, 0x10, 50);
    operator(&mut r, THREAD, (410, 700), 0, 0x20, 0);
    graph(&mut r, THREAD, (200, 800));
    step(&mut r, THREAD, (100, 900), 1);
    r
}

#[test]
fn a_sample_is_in_the_span_that_was_open_on_its_thread() {
    let records = one_step();
    let operator = type_of(&records, "operator");
    let samples = [
        sample(50, THREAD, None),
        sample(150, THREAD, None),
        sample(205, THREAD, None),
        sample(300, THREAD, Some((operator, 210))),
        sample(301, WORKER, Some((operator, 220))),
        sample(360, WORKER, Some((operator, 220))),
        sample(500, THREAD, Some((operator, 410))),
        // A thread that computes nothing, while others do.
        sample(501, 9, None),
        // An operator's end is not its start: by the span, not by the time.
        sample(405, WORKER, None),
        sample(750, THREAD, Some((operator, 720))),
        sample(950, THREAD, None),
    ];
    let expected = [
        (50, "outside", "Nothing", false),
        (150, "decode", "Step", false),
        (205, "decode", "Graph", false),
        (300, "decode", "up", false),
        (301, "decode", "up", false),
        (360, "decode", "up", true),
        (405, "decode", "Graph", false),
        (500, "decode", "sum", false),
        (501, "decode", "Graph", false),
        (750, "decode", "LostOperator", false),
        (950, "outside", "Nothing", false),
    ];
    let expected = expected.map(|(time, phase, place, waits)| (time, phase, place.to_owned(), waits));
    assert_eq!(assigned(&records, &samples), expected);
}

#[test]
fn a_span_that_goes_on_behind_its_graph_is_cut_there() {
    let mut records = one_step();
    // The worker's last span ends with its next operator, in the next step.
    operator(&mut records, WORKER, (410, 1300), 1, 0x20, 0);
    operator(&mut records, THREAD, (1210, 1400), 0, 0x20, 0);
    graph(&mut records, THREAD, (1200, 1500));
    step(&mut records, THREAD, (1100, 1600), 1);
    let operator = type_of(&records, "operator");
    let times = [600, 850, 1000, 1150, 1250];
    let samples = times.map(|time| sample(time, WORKER, Some((operator, 410))));
    let places: Vec<String> = assigned(&records, &samples).into_iter().map(|found| found.2).collect();
    assert_eq!(places, ["sum", "Step", "Nothing", "Step", "Graph"]);
}

#[test]
fn a_span_that_is_no_operator_s_is_left_to_the_time() {
    let records = one_step();
    let (graph, step) = (type_of(&records, "graph"), type_of(&records, "step"));
    let samples = [sample(150, THREAD, Some((step, 100))), sample(205, THREAD, Some((graph, 200)))];
    let places: Vec<String> = assigned(&records, &samples).into_iter().map(|found| found.2).collect();
    assert_eq!(places, ["Step", "Graph"]);
}

#[test]
fn another_process_is_in_no_step_of_this_one() {
    let records = one_step();
    let samples = [Sample { pid: 200, ..sample(500, 77, None) }];
    assert_eq!(assigned(&records, &samples)[0].2, "Nothing");
}

#[test]
fn what_was_not_recorded_is_not_outside_operators() {
    let records = one_step();
    let bare = |time| Sample { without_detail: true, ..sample(time, THREAD, None) };
    let places: Vec<String> = assigned(&records, &[bare(500), bare(950)]).into_iter().map(|found| found.2).collect();
    assert_eq!(places, ["NotRecorded", "NotRecorded"]);
}
