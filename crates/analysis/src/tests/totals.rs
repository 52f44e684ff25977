//! What it comes to.

use super::*;

/// A prefill and two decode steps, two lanes.
fn three_steps() -> Records {
    let mut r = Records::default();
    thread(&mut r, 1, 0, 100);
    thread(&mut r, 2, 0, 100);
    tensor(&mut r, 1, 1, 0xa, "MUL_MAT", "up-0");
    tensor(&mut r, 1, 1, 0xb, "MUL_MAT", "up-1");
    for (at, tokens, scale) in [(0, 8, 10), (2000, 1, 1), (2200, 1, 1)] {
        let s = |n: u64| at + n * scale;
        operator(&mut r, 1, (s(10), s(40)), 0, 0xa, 10 * scale);
        operator(&mut r, 2, (s(10), s(40)), 1, 0xa, 0);
        operator(&mut r, 1, (s(40), s(60)), 0, 0xb, 0);
        operator(&mut r, 2, (s(40), s(60)), 1, 0xb, 5 * scale);
        graph(&mut r, 1, (s(5), s(65)));
        step(&mut r, 1, (at, s(100)), tokens);
    }
    r
}

#[test]
fn phases_add_up() {
    let (collected, _) = run(&three_steps());
    let prefill = collected.statistics.phase(Phase::Prefill).unwrap();
    assert_eq!((prefill.steps, prefill.tokens, prefill.time, prefill.lane_time), (1, 8, 1000, 2000));
    let decode = collected.statistics.phase(Phase::Decode).unwrap();
    assert_eq!((decode.steps, decode.time, decode.lane_time, decode.lanes), (2, 200, 400, 2));
    assert_eq!((decode.work, decode.waiting), (2 * 85, 2 * 15));
    assert_eq!((decode.outside_graphs, decode.outside_operators), (2 * 80, 2 * 20));
    let parts = decode.work + decode.waiting + decode.outside_graphs + decode.outside_operators;
    assert_eq!(parts, decode.lane_time, "nothing is left over");
    let times = collected.statistics.step_times(Phase::Decode);
    assert_eq!((times.count, times.p50_ns, times.p99_ns), (2, 100, 100));
    let generations = collected.statistics.generations();
    assert_eq!((generations.ttft.p50_ns, generations.tpot.total_ns), (1000, 1100 + 200));
}

/// A backend whose library has threads of its own is called by one lane.
#[test]
fn lanes_that_a_graph_leaves_out_are_told_from_time_around_operators() {
    let mut r = Records::default();
    thread(&mut r, 1, 0, 100);
    thread(&mut r, 2, 0, 100);
    tensor(&mut r, 1, 1, 0xa, "ADD", "sum");
    tensor(&mut r, 1, 1, 0xb, "MUL_MAT", "up");
    operator(&mut r, 1, (10, 20), 0, 0xa, 0);
    operator(&mut r, 2, (10, 20), 1, 0xa, 0);
    graph(&mut r, 1, (10, 20));
    operator(&mut r, 1, (30, 80), 0, 0xb, 0);
    r.push("graph", 1, (25, 85), &[("backend", Put::Text("library"))]);
    // Two at once: who is left out of one may be in the other.
    operator(&mut r, 1, (86, 88), 0, 0xb, 0);
    operator(&mut r, 2, (86, 88), 1, 0xa, 0);
    r.push("graph", 1, (86, 90), &[("backend", Put::Text("library"))]);
    graph(&mut r, 2, (86, 92));
    step(&mut r, 1, (0, 100), 1);
    let (collected, timeline) = run(&r);
    let unused = collected.statistics.unused_lanes(Phase::Decode);
    let named: Vec<_> = unused.map(|(backend, ns)| (timeline.catalogue().text(backend).to_string(), ns)).collect();
    assert_eq!(named, [("library".to_owned(), 60)]);
}

#[test]
fn operators_and_lanes_add_up() {
    let (collected, timeline) = run(&three_steps());
    let mut totals: Vec<_> = collected
        .statistics
        .operators()
        .filter(|(_, _, phase, _)| *phase == Phase::Decode)
        .map(|(kind, _, _, t)| (timeline.catalogue().kind(kind).name.to_string(), *t))
        .collect();
    totals.sort_by(|a, b| a.0.cmp(&b.0));
    let expected = |work: u64, waiting: u64, elapsed: u64| OperatorTotals {
        count: 2,
        shares: 4,
        work: 2 * work,
        waiting: 2 * waiting,
        undivided: 0,
        elapsed: 2 * elapsed,
        min: elapsed,
        max: elapsed,
        min_work: work,
        giving_work: 0,
    };
    assert_eq!(totals, [("up-0".into(), expected(50, 10, 30)), ("up-1".into(), expected(35, 5, 20))]);
    let lanes: Vec<_> =
        collected.statistics.lanes().filter(|(phase, ..)| *phase == Phase::Decode).map(|(_, l, t)| (l, *t)).collect();
    let lane = |work, waiting, slowest| LaneTotals { step_time: 200, work, waiting, undivided: 0, shares: 4, slowest };
    assert_eq!(lanes, [(0, lane(80, 20, 2)), (1, lane(90, 10, 2))]);
    let kind = timeline.catalogue().kinds().find(|(_, k)| &*k.name == "up-1").unwrap().1;
    assert_eq!(&*kind.pattern, "up-*");
}

#[test]
fn waiting_that_was_not_recorded_is_estimated_and_never_zero() {
    let share = |r: &mut Records, tid: u32, at: u64, lane: u64, waiting: Option<u64>| {
        let waiting = waiting.map_or(Put::Missing, Put::Int);
        let fields = [("lane", Put::Int(lane)), ("node", Put::Int(0xa)), ("waiting", waiting)];
        r.push("operator", tid, (at + 10, at + 60), &fields);
    };
    let steps = |all: &[bool], lanes: u64| {
        let mut r = Records::default();
        thread(&mut r, 1, 0, 100);
        thread(&mut r, 2, 0, 100);
        tensor(&mut r, 1, 1, 0xa, "MUL_MAT", "up-0");
        for (at, recorded) in (1..).map(|n| n * 1000).zip(all) {
            for lane in 0..lanes {
                share(&mut r, 1 + lane as u32, at, lane, recorded.then_some(20 * lane));
            }
            step(&mut r, 1, (at, at + 100), 1);
        }
        run(&r).0
    };
    let sampled = steps(&[true, true, false, false, false, true, false, false], 2);
    let decode = sampled.statistics.phase(Phase::Decode).unwrap();
    assert_eq!((decode.work, decode.waiting, decode.undivided), (3 * 80 + 5 * 100, 3 * 20, 5 * 100));
    let divided = decode.divided();
    assert_eq!((divided.work, divided.waiting, divided.estimated), (8 * 80, Some(8 * 20), true));
    assert_eq!(decode.waiting_windows.count(), 2);
    assert!(decode.waiting_windows.half_width().is_some_and(|ns| ns < 1e-3), "windows do not differ");
    let lanes: Vec<_> =
        sampled.statistics.lanes().map(|(_, lane, of)| (lane, of.divided().waiting, of.slowest)).collect();
    assert_eq!(lanes, [(0, Some(0), 3), (1, Some(8 * 20), 0)], "only recorded waiting shows which lane is the slowest");
    assert_eq!(decode.shared_operators, 3);
    let never = steps(&[false, false], 2);
    let divided = never.statistics.phase(Phase::Decode).unwrap().divided();
    assert_eq!((divided.work, divided.waiting, divided.estimated), (200, None, false));
    let alone = steps(&[false, false], 1);
    assert_eq!(alone.statistics.phase(Phase::Decode).unwrap().divided().waiting, Some(0), "nobody waits for it");
}

#[test]
fn a_step_with_a_gap_is_left_out() {
    let mut r = Records::default();
    thread(&mut r, 1, 0, 100);
    for i in 0..4 {
        let at = i * 100;
        if i == 2 {
            r.lose(1, 3);
        }
        operator(&mut r, 1, (at + 10, at + 20), 0, 0xa, 0);
        graph(&mut r, 1, (at + 5, at + 30));
        step(&mut r, 1, (at, at + 40), 1);
    }
    let (collected, timeline) = run(&r);
    let complete: Vec<_> = collected.statistics.step_points().0.iter().map(|s| (s.number, s.complete)).collect();
    assert_eq!(complete, [(1, true), (2, true), (3, false), (4, true)]);
    assert_eq!((timeline.findings().missing_records, timeline.findings().gaps), (3, 1));
    assert_eq!(collected.statistics.left_out(), 1);
    assert_eq!(collected.statistics.phase(Phase::Decode).unwrap().steps, 3);
}

#[test]
fn a_workers_gap_counts_too_and_that_of_another_process_does_not() {
    let mut r = Records::default();
    thread(&mut r, 1, 0, 100);
    thread(&mut r, 2, 0, 100);
    thread(&mut r, 8, 0, 800);
    r.lose(8, 5);
    operator(&mut r, 8, (10, 20), 1, 0xa, 0);
    step(&mut r, 1, (5, 30), 1);
    operator(&mut r, 2, (40, 45), 1, 0xa, 0);
    r.lose(2, 1);
    operator(&mut r, 2, (50, 55), 1, 0xa, 0);
    step(&mut r, 1, (35, 60), 1);
    let (collected, _) = run(&r);
    let complete: Vec<_> = collected.statistics.step_points().0.iter().map(|s| s.complete).collect();
    assert_eq!(complete, [true, false]);
}

#[test]
fn numbers_of_threads_are_used_again_without_a_gap() {
    let mut r = Records::default();
    thread(&mut r, 1, 0, 100);
    for i in 0..3 {
        let at = i * 100;
        let mut worker = Records::default();
        thread(&mut worker, 2, at + 6, 100);
        operator(&mut worker, 2, (at + 10, at + 20), 1, 0xa, 0);
        if i != 1 {
            worker.push("thread_exit", 2, (at + 21, at + 21), &[]);
        }
        r.records.append(&mut worker.records);
        operator(&mut r, 1, (at + 10, at + 20), 0, 0xa, 0);
        graph(&mut r, 1, (at + 5, at + 30));
        step(&mut r, 1, (at, at + 40), 1);
    }
    let (collected, timeline) = run(&r);
    assert_eq!(timeline.findings().gaps, 0);
    assert!(collected.steps.iter().all(|s| s.complete && s.lane_numbers == [0, 1]));
}

#[test]
fn experts_are_counted_by_layer() {
    let layer = profinfer_probeset::path::Expr {
        kind: profinfer_probeset::path::ExprKind::Matches {
            base: Box::new(profinfer_probeset::path::Expr {
                kind: profinfer_probeset::path::ExprKind::Name("name".into()),
                span: nowhere(),
            }),
            pattern: profinfer_diagnostics::Spanned::new(r"-(\d+)$".into(), nowhere()),
        },
        span: nowhere(),
    };
    let analysis = profinfer_probeset::Analysis { layer: Some(layer), ..Default::default() };
    let mut r = Records::default();
    thread(&mut r, 1, 0, 100);
    tensor(&mut r, 1, 1, 0xa, "MUL_MAT_ID", "moe-7");
    r.push("experts", 1, (10, 11), &[("node", Put::Int(0xa)), ("ids", Put::List(&[3, 1, 3, -1]))]);
    operator(&mut r, 1, (10, 20), 0, 0xa, 0);
    // The same experts' other matrix: no choices itself.
    tensor(&mut r, 1, 1, 0xb, "MUL_MAT_ID", "moe_down-7");
    r.push("experts", 1, (20, 21), &[("node", Put::Int(0xb)), ("ids", Put::List(&[3, 1, 3, -1]))]);
    operator(&mut r, 1, (20, 25), 0, 0xb, 0);
    // The rest of a prompt, as a graph of its own: the same operator, for fewer tokens.
    let fields = [
        ("address", Put::Int(0xc)),
        ("op", Put::Text("MUL_MAT_ID")),
        ("name", Put::Text("moe-7")),
        ("dtype", Put::Text("f32")),
        ("shape", Put::List(&[8, 1, 1, 1])),
    ];
    r.push("tensor", 1, (26, 26), &fields);
    r.push("experts", 1, (27, 28), &[("node", Put::Int(0xc)), ("ids", Put::List(&[2]))]);
    operator(&mut r, 1, (27, 29), 0, 0xc, 0);
    graph(&mut r, 1, (5, 30));
    step(&mut r, 1, (0, 40), 3);
    let (collected, timeline) = run_with(&r, Rules::new(&analysis).unwrap());
    assert_eq!(collected.steps[0].experts[0].operator, Some(0));
    let mut counted: Vec<_> = collected
        .statistics
        .experts()
        .map(|(layer, expert, _, t)| (layer.map(ToString::to_string), expert, t.activations))
        .collect();
    counted.sort();
    assert_eq!(counted, [(Some("7".into()), 1, 1), (Some("7".into()), 2, 1), (Some("7".into()), 3, 2)]);
    assert_eq!(&*timeline.catalogue().kind(collected.steps[0].operators[0].kind).pattern, "moe-*");
}

fn nowhere() -> profinfer_diagnostics::Span {
    let source = std::sync::Arc::new(profinfer_diagnostics::Source { name: "test".into(), text: String::new() });
    profinfer_diagnostics::Span::new(&source, 0..0)
}

#[test]
fn without_steps_graphs_and_operators_are_still_added_up() {
    let mut r = Records::default();
    r.schema.records.retain(|t| t.role != Some(profinfer_schema::Role::Step));
    thread(&mut r, 1, 0, 100);
    for i in 0..100_000 {
        operator(&mut r, 1, (i * 100 + 10, i * 100 + 20), 0, 0xa, 0);
        graph(&mut r, 1, (i * 100, i * 100 + 30));
    }
    let (collected, _) = run(&r);
    assert!(collected.steps.len() > 1, "the buffer of pending steps is bounded");
    let outside = collected.statistics.phase(Phase::Outside).unwrap();
    assert_eq!((outside.operators, outside.graphs, outside.work), (100_000, 100_000, 1_000_000));
    assert_eq!(outside.outside_operators, 2_000_000);
    assert_eq!(collected.statistics.steps(), 0);
}

#[test]
fn what_no_step_contains_is_outside() {
    let mut r = Records::default();
    thread(&mut r, 1, 0, 100);
    graph(&mut r, 1, (1, 5));
    step(&mut r, 1, (10, 20), 1);
    graph(&mut r, 1, (21, 25));
    step(&mut r, 1, (30, 40), 1);
    let (collected, _) = run(&r);
    assert_eq!(collected.statistics.phase(Phase::Outside).unwrap().graphs, 2);
    assert_eq!(collected.statistics.phase(Phase::Decode).unwrap().graphs, 0);
}

#[test]
fn a_step_whose_tokens_were_not_recorded_is_of_the_phase_that_requests_are_in() {
    use profinfer_schema::{FieldLayout, FieldType, HEADER_SIZE, RecordKind, RecordType, Role};
    let mut r = Records::default();
    for (name, fields) in [("started", &["request", "sequence"][..]), ("token", &["sequence", "tokens"])] {
        let layout = |(place, field): (u32, &&str)| FieldLayout {
            name: (*field).to_owned(),
            offset: HEADER_SIZE + 8 * place,
            ty: FieldType::Int(4),
        };
        let fields = (0..).zip(fields).map(layout).collect();
        let (kind, role, size) = (RecordKind::Mark, Some(Role::Request), HEADER_SIZE + 16);
        r.schema.records.push(RecordType { name: name.to_owned(), kind, role, size, fields });
    }
    let started = |r: &mut Records, at: u64, sequence: u64| {
        r.push("started", 1, (at, at), &[("request", Put::Int(7)), ("sequence", Put::Int(sequence))]);
    };
    let token = |r: &mut Records, at: u64, sequence: u64| {
        r.push("token", 1, (at, at), &[("sequence", Put::Int(sequence)), ("tokens", Put::Int(1))]);
    };
    let step = |r: &mut Records, at: u64| {
        r.push("process", 1, (at, at + 10), &[]);
    };
    thread(&mut r, 1, 0, 100);
    step(&mut r, 0);
    started(&mut r, 20, 0);
    step(&mut r, 30);
    step(&mut r, 50);
    token(&mut r, 65, 0);
    step(&mut r, 70);
    // Another begins beside it, but after this step has.
    started(&mut r, 95, 1);
    step(&mut r, 90);
    token(&mut r, 105, 0);
    step(&mut r, 110);
    token(&mut r, 125, 0);
    token(&mut r, 126, 1);
    step(&mut r, 130);
    let (collected, _) = run(&r);
    let phases: Vec<Phase> = collected.steps.iter().map(|step| step.phase.unwrap()).collect();
    use Phase::{Decode, Prefill};
    assert_eq!(phases, [Decode, Prefill, Prefill, Decode, Decode, Prefill, Decode]);
}
