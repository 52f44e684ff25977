//! What is given to other processors: which operators a dispatch covers, and when a submission was done.

use super::counts::rules;
use super::*;
use crate::{CopyDirection, Dispatch, JobSince, Queued, Ran, RingTotals};

fn described(r: &mut Records, time: u64, address: u64, op: &str, name: &str, inputs: &[i64]) {
    let fields = [
        ("address", Put::Int(address)),
        ("op", Put::Text(op)),
        ("name", Put::Text(name)),
        ("inputs", Put::List(inputs)),
    ];
    r.push("tensor", 1, (time, time), &fields);
}

/// A graph of six operators, of which `a` and `b`, and `d`, `e` and `f` are computed together; `c` is empty.
fn a_fused_graph(r: &mut Records) {
    thread(r, 1, 0, 100);
    for (address, name, input) in
        [(0xa, "a", 0x1), (0xb, "b", 0xa), (0xc, "c", 0xb), (0xd, "d", 0xc), (0xe, "e", 0xd), (0xf, "f", 0xe)]
    {
        described(r, 5, address, "ADD", name, &[input]);
    }
    let calls = [(0xa, 0xa, 0, 1, (110, 114)), (0xc, 0xb, 2, 0, (115, 116)), (0xd, 0xc, 3, 1, (120, 130))];
    for (node, previous, index, encoded, span) in calls {
        r.push(
            "dispatch",
            1,
            span,
            &[
                ("node", Put::Int(node)),
                ("previous", Put::Int(previous)),
                ("graph_index", Put::Int(index)),
                ("graph_nodes", Put::Int(6)),
                ("encoded", Put::Int(encoded)),
            ],
        );
    }
}

#[test]
fn operators_between_two_indexes_are_fused() {
    let mut r = Records::default();
    a_fused_graph(&mut r);
    // One more, so that the last of the fused ones is named by the call after it.
    r.push(
        "dispatch",
        1,
        (131, 132),
        &[
            ("node", Put::Int(0x10)),
            ("previous", Put::Int(0xf)),
            ("graph_index", Put::Int(6)),
            ("graph_nodes", Put::Int(7)),
            ("encoded", Put::Int(1)),
        ],
    );
    graph(&mut r, 1, (105, 140));
    step(&mut r, 1, (100, 150), 1);
    let (collected, timeline) = run(&r);
    let catalogue = timeline.catalogue();
    let name = |kind| catalogue.kind(kind).name.to_string();
    let found: Vec<(String, Vec<String>, u32, bool)> = collected.steps[0]
        .dispatches
        .iter()
        .map(|of| (name(of.kind), of.fused.iter().map(|part| name(part.kind)).collect(), of.operators, of.is_empty))
        .collect();
    assert_eq!(
        found,
        [
            ("b".to_owned(), vec!["a".to_owned()], 2, false),
            ("c".to_owned(), vec![], 1, true),
            ("f".to_owned(), vec!["d".to_owned(), "e".to_owned()], 3, false),
            ("dispatch".to_owned(), vec![], 1, false),
        ]
    );
    assert!(collected.steps[0].dispatches.iter().all(|of| of.graph == Some(0) && of.device_ns.is_none()));
    assert_eq!(collected.steps[0].operators.len(), 0, "encoding is no operator's time");
}

#[test]
fn what_no_later_call_names_is_counted() {
    let mut r = Records::default();
    a_fused_graph(&mut r);
    graph(&mut r, 1, (105, 140));
    step(&mut r, 1, (100, 150), 1);
    let (collected, _) = run(&r);
    let counts: Vec<u32> = collected.steps[0].dispatches.iter().map(|of| of.operators).collect();
    assert_eq!(counts, [2, 1, 3]);
}

fn submit(r: &mut Records, span: (u64, u64), queue: u64, fence: u64) {
    r.push("submit", 1, span, &[("queue", Put::Int(queue)), ("fence", Put::Int(fence))]);
}

#[test]
fn a_step_ends_where_its_results_are_waited_for() {
    let mut r = Records::default();
    thread(&mut r, 1, 0, 100);
    submit(&mut r, (110, 112), 7, 0);
    submit(&mut r, (120, 122), 7, 9);
    graph(&mut r, 1, (105, 140));
    step(&mut r, 1, (100, 150), 1);
    // A timeout is no end.
    r.push("wait_fence", 1, (155, 200), &[("fence", Put::Int(9)), ("status", Put::Int(2))]);
    r.push("wait_fence", 1, (210, 300), &[("fence", Put::Int(9))]);
    submit(&mut r, (410, 412), 7, 9);
    graph(&mut r, 1, (405, 440));
    step(&mut r, 1, (400, 450), 1);
    let (collected, _) = run(&r);
    let done = |at: usize| collected.steps[at].submissions.iter().map(|of| of.done).collect::<Vec<_>>();
    assert_eq!((done(0), done(1)), (vec![Some(300), Some(300)], vec![None]));
    assert_eq!((collected.steps[0].results_by(), collected.steps[1].results_by()), (Some(300), None));
}

#[test]
fn a_fence_is_done_for_its_queue_and_what_came_before() {
    let mut r = Records::default();
    thread(&mut r, 1, 0, 100);
    submit(&mut r, (110, 111), 7, 1);
    submit(&mut r, (112, 113), 8, 2);
    submit(&mut r, (114, 115), 7, 3);
    submit(&mut r, (116, 117), 7, 0);
    r.push("wait_fence", 1, (120, 130), &[("fence", Put::Int(3))]);
    r.push("wait_fence", 1, (131, 132), &[("fence", Put::Int(0))]);
    r.push("wait_queue", 1, (135, 140), &[("queue", Put::Int(8))]);
    r.push("wait_all", 1, (145, 146), &[]);
    step(&mut r, 1, (100, 150), 1);
    let (collected, _) = run(&r);
    let done: Vec<_> = collected.steps[0].submissions.iter().map(|of| (of.queue, of.done)).collect();
    assert_eq!(done, [(7, Some(130)), (8, Some(140)), (7, Some(130)), (7, Some(146))]);
}

/// The times are taken only if there is one for each operator, and the tick is known.
#[test]
fn timestamps_are_of_the_operators_that_were_encoded() {
    for (ticks, period, expected) in [
        (&[1000, 1010, 1030][..], Some(2.0_f32), vec![Some(20), None, Some(40)]),
        (&[1000, 1010][..], Some(2.0), vec![None, None, None]),
        (&[1000, 1010, 1030][..], None, vec![None, None, None]),
        (&[1000, 1010, 900][..], Some(1.0), vec![Some(10), None, None]),
    ] {
        let mut r = Records::default();
        if let Some(period) = period {
            let bits = u64::from(period.to_bits());
            r.push("properties", 1, (1, 2), &[("name", Put::Text("toy")), ("period", Put::Int(bits))]);
        }
        a_fused_graph(&mut r);
        r.push("ticks", 1, (135, 136), &[("timestamps", Put::List(ticks))]);
        graph(&mut r, 1, (105, 140));
        step(&mut r, 1, (100, 150), 1);
        let (collected, timeline) = run(&r);
        let found: Vec<_> = collected.steps[0].dispatches.iter().map(|of| of.device_ns).collect();
        assert_eq!(found, expected);
        assert_eq!(timeline.devices().len(), usize::from(period.is_some()));
    }
}

#[test]
fn copies_have_a_size_and_a_direction() {
    let mut r = Records::default();
    thread(&mut r, 1, 0, 100);
    r.push("copy", 1, (110, 112), &[("bytes", Put::Int(64)), ("direction", Put::Int(1))]);
    r.push("copy", 1, (113, 114), &[("bytes", Put::Int(8)), ("direction", Put::Int(77))]);
    step(&mut r, 1, (100, 150), 1);
    let (collected, _) = run(&r);
    let copies: Vec<_> = collected.steps[0].queue.iter().map(|event| event.what.clone()).collect();
    let copy = |bytes, direction| Queued::Copy { bytes: Some(bytes), direction, objects: None };
    assert_eq!(copies, [copy(64, Some(CopyDirection::FromDevice)), copy(8, None)]);
}

fn job(r: &mut Records, ring: &str, queued: u64, span: (u64, u64), since: u64) {
    let fields = [("queued", Put::Int(queued)), ("name", Put::Text(ring)), ("job_since", Put::Int(since))];
    r.push("job", 1, span, &fields);
}

/// Fences beside a scheduler's jobs are not the device's.
#[test]
fn jobs_belong_to_the_submission_that_gave_them_to_the_driver() {
    let mut r = Records::default();
    thread(&mut r, 1, 0, 100);
    submit(&mut r, (110, 115), 7, 1);
    submit(&mut r, (120, 125), 7, 2);
    job(&mut r, "gfx", 112, (113, 160), 1);
    graph(&mut r, 1, (105, 140));
    step(&mut r, 1, (100, 150), 1);
    // The driver is done after the step, and before the host knows.
    job(&mut r, "gfx", 122, (160, 200), 1);
    job(&mut r, "copy", 123, (140, 180), 1);
    job(&mut r, "made", 121, (121, 210), 3);
    r.push("wait_fence", 1, (155, 230), &[("fence", Put::Int(2))]);
    let (collected, _) = run(&r);
    let ran: Vec<_> = collected.steps[0].submissions.iter().map(|of| of.ran.unwrap()).collect();
    let run_of = |start, end, busy, jobs| Ran { start, end, busy, jobs, since: JobSince::Run };
    assert_eq!(ran, [run_of(113, 160, 47, 1), run_of(140, 200, 60, 2)]);
    assert_eq!(collected.steps[0].results_by(), Some(230));
    let rings: Vec<_> =
        collected.statistics.offloads().rings().map(|((_, ring), _, of)| (ring.clone().unwrap(), *of)).collect();
    let of = |jobs, queued, ran| RingTotals { jobs, bounds: 0, queued, ran };
    assert_eq!(rings, [("copy".into(), of(1, 17, 40)), ("gfx".into(), of(2, 39, 87))]);
}

/// Where only fences tell of jobs, those that wait in their ring begin after one another.
#[test]
fn fences_that_overlap_are_computed_one_after_the_other() {
    let mut r = Records::default();
    thread(&mut r, 1, 0, 100);
    submit(&mut r, (110, 115), 7, 1);
    submit(&mut r, (120, 125), 7, 2);
    graph(&mut r, 1, (105, 140));
    job(&mut r, "gfx", 111, (111, 160), 3);
    job(&mut r, "gfx", 121, (121, 200), 3);
    job(&mut r, "copy", 122, (122, 180), 3);
    step(&mut r, 1, (100, 210), 1);
    let (collected, _) = run(&r);
    let rings: Vec<_> =
        collected.statistics.offloads().rings().map(|((_, ring), _, of)| (ring.clone().unwrap(), of.ran)).collect();
    assert_eq!(rings, [("copy".into(), 58), ("gfx".into(), 49 + 40)]);
    let busy: Vec<_> = collected.steps[0].submissions.iter().map(|of| of.ran.unwrap().busy).collect();
    assert_eq!(busy, [49, 200 - 122], "both rings, each moment once");
}

#[test]
fn what_the_driver_has_done_is_done_without_a_wait() {
    let mut r = Records::default();
    thread(&mut r, 1, 0, 100);
    submit(&mut r, (110, 115), 7, 1);
    submit(&mut r, (120, 125), 8, 2);
    job(&mut r, "i915", 112, (113, 140), 3);
    step(&mut r, 1, (100, 150), 1);
    let (collected, _) = run(&r);
    let found: Vec<_> =
        collected.steps[0].submissions.iter().map(|of| (of.done, of.ran.map(|ran| ran.since))).collect();
    assert_eq!(found, [(Some(140), Some(JobSince::Created)), (None, None)]);
}

/// Two calls of a graph of six nodes: `a` and `c` are computed together; `b` and `d` are views, which no call encodes, and
/// `f` is computed by nobody.
fn a_listed_graph(r: &mut Records) {
    described(r, 5, 0xa, "ADD", "a", &[0x1]);
    described(r, 5, 0xb, "VIEW", "b", &[0xa]);
    described(r, 5, 0xc, "ADD", "c", &[0xb, 0x2]);
    described(r, 5, 0xf, "ADD", "f", &[0x1]);
    described(r, 5, 0xe, "ADD", "e", &[0xd]);
    let call = |r: &mut Records, span: (u64, u64), index: u64, members: &[i64]| {
        let nodes = [("graph_index", Put::Int(index)), ("graph_nodes", Put::Int(6))];
        let lists = [("node", Put::Int(members[0].cast_unsigned())), ("graph_members", Put::List(members))];
        r.push("listed", 1, span, &[nodes, lists].concat());
    };
    call(r, (110, 114), 0, &[0xa, 0xb, 0xc, 0xd, 0xf, 0xe]);
    // It is described where it is used.
    described(r, 115, 0xd, "VIEW", "d", &[0xc]);
    call(r, (116, 118), 5, &[0xe, 0x40, 0x4, 0x1, 0x1, 0x1]);
}

const FREE_VIEWS: &str =
    "analysis: { dtypes: { f32: 4 }, costs: { VIEW: { flops: 0, bytes: 0 }, ADD: { flops: 1, bytes: 8 } } }";

#[test]
fn a_list_of_a_graph_s_members_names_what_is_fused_without_views() {
    let mut r = Records::default();
    thread(&mut r, 1, 0, 100);
    a_listed_graph(&mut r);
    graph(&mut r, 1, (105, 140));
    step(&mut r, 1, (100, 150), 1);
    let (collected, timeline) = run_with(&r, rules(FREE_VIEWS));
    let name = |kind| timeline.catalogue().kind(kind).name.to_string();
    let of = |of: &Dispatch| {
        (name(of.kind), of.fused.iter().map(|part| name(part.kind)).collect(), of.operators, of.cost.flops)
    };
    let found: Vec<(String, Vec<String>, u32, Option<f64>)> = collected.steps[0].dispatches.iter().map(of).collect();
    let expected = [("c".to_owned(), vec!["a".to_owned()], 2, Some(2.0)), ("e".to_owned(), vec![], 1, Some(1.0))];
    assert_eq!(found, expected);
}

/// The names of what a step's first submission launches.
fn replayed(step: &Step, timeline: &Timeline) -> Vec<String> {
    let Queued::Submit { replays: Some(replays), .. } = &step.queue[0].what else { panic!() };
    replays.iter().map(|kind| timeline.catalogue().kind(*kind).name.to_string()).collect()
}

#[test]
fn what_is_fused_in_captured_work_has_the_result_s_name() {
    let mut r = Records::default();
    thread(&mut r, 1, 0, 100);
    r.push("capture", 1, (101, 102), &[("queue", Put::Int(7))]);
    for span in [(111, 112), (117, 118)] {
        r.push("submit", 1, span, &[("queue", Put::Int(7)), ("fence", Put::Int(0)), ("status", Put::Int(0))]);
    }
    a_listed_graph(&mut r);
    r.push("captured", 1, (119, 120), &[("queue", Put::Int(7)), ("captured", Put::Int(0x70))]);
    graph(&mut r, 1, (105, 140));
    step(&mut r, 1, (100, 150), 1);
    r.push("launch_captured", 1, (211, 212), &[("queue", Put::Int(7)), ("captured", Put::Int(0x70))]);
    step(&mut r, 1, (200, 250), 1);
    let (collected, timeline) = run_with(&r, rules(FREE_VIEWS));
    assert_eq!(replayed(&collected.steps[1], &timeline), ["c", "e"]);
}

#[test]
fn a_submission_that_is_described_is_a_dispatch_too() {
    let mut r = Records::default();
    thread(&mut r, 1, 0, 100);
    let launch = |r: &mut Records, name: &str, span: (u64, u64)| {
        r.push("kernel_launch", 1, span, &[("queue", Put::Int(7)), ("name", Put::Text(name))]);
    };
    launch(&mut r, "within", (111, 112));
    r.push("dispatch", 1, (110, 114), &[("encoded", Put::Int(1))]);
    launch(&mut r, "alone", (120, 121));
    step(&mut r, 1, (100, 150), 1);
    let (collected, timeline) = run(&r);
    let name = |kind| timeline.catalogue().kind(kind).name.to_string();
    let of = |of: &Dispatch| (name(of.kind), of.launches.iter().map(|kind| name(*kind)).collect::<Vec<_>>());
    let found: Vec<_> = collected.steps[0].dispatches.iter().map(of).collect();
    assert_eq!(found, [("dispatch".to_owned(), vec!["within".to_owned()]), ("alone".to_owned(), vec![])]);
    let submitted: Vec<u64> = collected.steps[0].submissions.iter().map(|of| of.start).collect();
    assert_eq!(submitted, [111, 120]);
}

#[test]
fn launches_within_an_operator_s_encoding_are_its_own() {
    let mut r = Records::default();
    thread(&mut r, 1, 0, 100);
    r.push("launch", 1, (111, 112), &[("name", Put::Text("mul_mat"))]);
    r.push("launch", 1, (112, 113), &[("name", Put::Text("add"))]);
    r.push("dispatch", 1, (110, 114), &[("encoded", Put::Int(1))]);
    r.push("launch", 1, (120, 121), &[("name", Put::Text("alone"))]);
    step(&mut r, 1, (100, 150), 1);
    let (collected, timeline) = run(&r);
    let name = |kind| timeline.catalogue().kind(kind).name.to_string();
    let of = |of: &Dispatch| (name(of.kind), of.launches.iter().map(|kind| name(*kind)).collect::<Vec<_>>());
    let found: Vec<_> = collected.steps[0].dispatches.iter().map(of).collect();
    let launches = vec!["mul_mat".to_owned(), "add".to_owned()];
    assert_eq!(found, [("dispatch".to_owned(), launches), ("alone".to_owned(), vec![])]);
}

/// What one step captures, the next ones launch.
#[test]
fn captured_work_is_known_when_it_is_launched() {
    let mut r = Records::default();
    thread(&mut r, 1, 0, 100);
    let launched = |r: &mut Records, name: &str, span: (u64, u64)| {
        submit(r, span, 7, 0);
        r.push("launch", 1, span, &[("name", Put::Text(name))]);
    };
    r.push("capture", 1, (105, 106), &[("queue", Put::Int(7))]);
    launched(&mut r, "mul", (111, 112));
    launched(&mut r, "add", (113, 114));
    // Both are of one operator.
    r.push("launch", 1, (110, 115), &[("name", Put::Text("layer"))]);
    launched(&mut r, "norm", (116, 117));
    r.push("captured", 1, (118, 119), &[("queue", Put::Int(7)), ("captured", Put::Int(0x10))]);
    r.push("instantiate", 1, (119, 120), &[("captured", Put::Int(0x20)), ("made_from", Put::Int(0x10))]);
    step(&mut r, 1, (100, 150), 1);
    for start in [200, 300] {
        let fields = [("queue", Put::Int(7)), ("captured", Put::Int(0x20))];
        r.push("launch_captured", 1, (start + 10, start + 12), &fields);
        step(&mut r, 1, (start, start + 50), 1);
    }
    // Of what was captured before the recording nothing is known.
    r.push("launch_captured", 1, (410, 412), &[("queue", Put::Int(7)), ("captured", Put::Int(0x99))]);
    step(&mut r, 1, (400, 450), 1);
    // The same executable, updated to another capture, and to one from before the recording.
    r.push("capture", 1, (501, 502), &[("queue", Put::Int(7))]);
    launched(&mut r, "rope", (503, 504));
    r.push("captured", 1, (505, 506), &[("queue", Put::Int(7)), ("captured", Put::Int(0x10))]);
    step(&mut r, 1, (500, 550), 1);
    for (from, start) in [(0x10, 600), (0x98, 700)] {
        let update = [("captured", Put::Int(0x20)), ("made_from", Put::Int(from))];
        r.push("instantiate", 1, (start + 5, start + 6), &update);
        let fields = [("queue", Put::Int(7)), ("captured", Put::Int(0x20))];
        r.push("launch_captured", 1, (start + 10, start + 12), &fields);
        step(&mut r, 1, (start, start + 50), 1);
    }
    let (collected, timeline) = run(&r);
    assert_eq!(collected.steps[0].submissions.len(), 0, "nothing was given to the device");
    let name = |kind| timeline.catalogue().kind(kind).name.to_string();
    let replays = |step: &Step| match &step.queue[0].what {
        Queued::Submit { replays, .. } => replays.as_ref().map(|all| all.iter().map(|kind| name(*kind)).collect()),
        other => panic!("{other:?}"),
    };
    let launching = collected.steps[1..4].iter().chain(&collected.steps[5..]);
    let found: Vec<Option<Vec<String>>> = launching.map(replays).collect();
    let both = Some(vec!["layer".to_owned(), "norm".to_owned()]);
    assert_eq!(found, [both.clone(), both, None, Some(vec!["rope".to_owned()]), None]);
}

/// A queue that waits for an event of another one is in its capture.
#[test]
fn queues_that_follow_a_capturing_one_are_captured() {
    let mut r = Records::default();
    thread(&mut r, 1, 0, 100);
    let launched = |r: &mut Records, name: &str, queue: u64, span: (u64, u64)| {
        submit(r, span, queue, 0);
        r.push("launch", 1, span, &[("name", Put::Text(name))]);
    };
    r.push("capture", 1, (105, 106), &[("queue", Put::Int(7))]);
    launched(&mut r, "mul", 7, (107, 108));
    submit(&mut r, (109, 110), 7, 1);
    // One comes after an event of the capture, another one after an event of none.
    r.push("follow", 1, (111, 112), &[("queue", Put::Int(8)), ("after_fence", Put::Int(1))]);
    r.push("follow", 1, (113, 114), &[("queue", Put::Int(9)), ("after_fence", Put::Int(2))]);
    launched(&mut r, "add", 8, (115, 116));
    launched(&mut r, "other", 9, (117, 118));
    r.push("captured", 1, (119, 120), &[("queue", Put::Int(7)), ("captured", Put::Int(0x10))]);
    // The capture is over.
    launched(&mut r, "late", 8, (121, 122));
    step(&mut r, 1, (100, 150), 1);
    r.push("launch_captured", 1, (210, 212), &[("queue", Put::Int(7)), ("captured", Put::Int(0x10))]);
    step(&mut r, 1, (200, 250), 1);
    let (collected, timeline) = run(&r);
    let queues: Vec<u64> = collected.steps[0].submissions.iter().map(|of| of.queue).collect();
    assert_eq!(queues, [9, 9, 8]);
    assert_eq!(replayed(&collected.steps[1], &timeline), ["mul", "add"]);
}

/// What a queue waits for is done when the queue is.
#[test]
fn work_of_other_queues_that_is_waited_for_is_done() {
    let mut r = Records::default();
    thread(&mut r, 1, 0, 100);
    submit(&mut r, (110, 111), 7, 0);
    submit(&mut r, (112, 113), 7, 1);
    submit(&mut r, (114, 115), 7, 0);
    r.push("follow", 1, (116, 117), &[("queue", Put::Int(8)), ("after_fence", Put::Int(1))]);
    submit(&mut r, (118, 119), 8, 2);
    r.push("follow", 1, (120, 121), &[("queue", Put::Int(9)), ("after_fence", Put::Int(2))]);
    r.push("wait_queue", 1, (122, 140), &[("queue", Put::Int(9))]);
    step(&mut r, 1, (100, 150), 1);
    let (collected, _) = run(&r);
    let done: Vec<_> = collected.steps[0].submissions.iter().map(|of| (of.queue, of.done)).collect();
    let there = Some(140);
    assert_eq!(done, [(7, there), (7, there), (7, None), (8, there), (8, there), (9, there)]);
}

/// A queue that ends while it works, and another one at its address.
#[test]
fn work_of_a_destroyed_queue_has_no_end() {
    let mut r = Records::default();
    thread(&mut r, 1, 0, 100);
    submit(&mut r, (110, 111), 7, 1);
    r.push("destroy", 1, (112, 113), &[("queue", Put::Int(7)), ("destroyed", Put::Int(1))]);
    submit(&mut r, (114, 115), 7, 2);
    r.push("wait_queue", 1, (116, 140), &[("queue", Put::Int(7))]);
    r.push("wait_fence", 1, (141, 142), &[("fence", Put::Int(1))]);
    step(&mut r, 1, (100, 150), 1);
    let (collected, _) = run(&r);
    let done: Vec<_> = collected.steps[0].submissions.iter().map(|of| of.done).collect();
    assert_eq!(done, [None, Some(140)]);
}

/// Two threads run steps at once: what each gives to a device is of its own step, whichever ends first.
#[test]
fn concurrent_steps_keep_their_submissions() {
    let mut r = Records::default();
    thread(&mut r, 1, 0, 100);
    thread(&mut r, 2, 0, 100);
    step(&mut r, 1, (100, 150), 1);
    step(&mut r, 2, (100, 155), 1);
    // The second thread's step begins first and ends last.
    r.push("submit", 2, (205, 206), &[("queue", Put::Int(8)), ("fence", Put::Int(2))]);
    r.push("submit", 1, (215, 216), &[("queue", Put::Int(7)), ("fence", Put::Int(1))]);
    step(&mut r, 1, (210, 250), 1);
    r.push("wait_fence", 2, (260, 270), &[("fence", Put::Int(2))]);
    step(&mut r, 2, (200, 300), 1);
    let (collected, _) = run(&r);
    let of = |step: &Step| (step.tid, step.start, step.submissions.iter().map(|of| of.queue).collect::<Vec<_>>());
    let mut found: Vec<_> = collected.steps.iter().map(of).collect();
    found.sort();
    assert_eq!(found, [(1, 100, vec![]), (1, 210, vec![7]), (2, 100, vec![]), (2, 200, vec![8])]);
}
