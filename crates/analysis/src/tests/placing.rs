//! Which span belongs where.

use super::*;

#[test]
fn operators_lie_in_graphs_and_graphs_in_steps() {
    let mut r = Records::default();
    thread(&mut r, 1, 0, 100);
    tensor(&mut r, 1, 110, 0xa, "ADD", "a-0");
    operator(&mut r, 1, (110, 150), 0, 0xa, 0);
    operator(&mut r, 1, (150, 180), 0, 0xb, 5);
    graph(&mut r, 1, (105, 200));
    step(&mut r, 1, (100, 220), 4);
    operator(&mut r, 1, (310, 350), 0, 0xa, 0);
    graph(&mut r, 1, (305, 380));
    step(&mut r, 1, (300, 400), 1);
    let (collected, timeline) = run(&r);
    assert_eq!(collected.steps.len(), 2);
    let first = &collected.steps[0];
    assert_eq!((first.number, first.phase, first.tokens), (1, Some(Phase::Prefill), Some(4)));
    assert_eq!((first.start, first.end, first.in_graphs), (100, 220, 95));
    assert_eq!(
        operators(first, &timeline),
        [("a-0".into(), 110, 150, 40, 0, vec![0]), ("operator".into(), 150, 175, 25, 5, vec![0])]
    );
    assert_eq!(first.operators[0].graph, Some(0));
    assert_eq!(collected.steps[1].phase, Some(Phase::Decode));
    assert_eq!(operators(&collected.steps[1], &timeline), [("a-0".into(), 310, 350, 40, 0, vec![0])]);
    assert_eq!(*timeline.findings(), Findings { records: 9, operator_spans: 3, ..Findings::default() });
}

#[test]
fn two_lanes_are_one_operator() {
    let mut r = Records::default();
    thread(&mut r, 1, 0, 100);
    thread(&mut r, 2, 0, 100);
    tensor(&mut r, 1, 10, 0xa, "ADD", "a");
    operator(&mut r, 2, (12, 40), 1, 0xa, 8);
    operator(&mut r, 1, (10, 40), 0, 0xa, 0);
    operator(&mut r, 1, (40, 60), 0, 0xb, 10);
    operator(&mut r, 2, (41, 60), 1, 0xb, 0);
    graph(&mut r, 1, (5, 70));
    step(&mut r, 1, (0, 80), 1);
    let (collected, timeline) = run(&r);
    let step = &collected.steps[0];
    assert_eq!(
        operators(step, &timeline),
        [("a".into(), 10, 40, 30 + 20, 8, vec![0, 1]), ("operator".into(), 40, 60, 10 + 19, 10, vec![0, 1])]
    );
    assert_eq!(step.lane_numbers, [0, 1]);
}

#[test]
fn a_node_computed_twice_is_two_operators() {
    let mut r = Records::default();
    for (tid, lane) in [(1, 0), (2, 1)] {
        thread(&mut r, tid, 0, 100);
        operator(&mut r, tid, (10, 20), lane, 0xa, 0);
        operator(&mut r, tid, (20, 30), lane, 0xa, 0);
    }
    graph(&mut r, 1, (5, 70));
    step(&mut r, 1, (0, 80), 1);
    let (collected, _) = run(&r);
    let spans: Vec<_> = collected.steps[0].operators.iter().map(|o| (o.start, o.end, o.lanes.len())).collect();
    assert_eq!(spans, [(10, 20, 2), (20, 30, 2)]);
}

#[test]
fn spans_that_end_with_the_next_operator_are_clipped_to_their_graph() {
    // The worker's last operator of the first step ends in the second; its last one when the thread exits.
    let mut r = Records::default();
    thread(&mut r, 1, 0, 100);
    thread(&mut r, 2, 0, 100);
    operator(&mut r, 1, (10, 50), 0, 0xa, 0);
    operator(&mut r, 2, (10, 50), 1, 0xa, 0);
    graph(&mut r, 1, (5, 90));
    step(&mut r, 1, (0, 100), 1);
    operator(&mut r, 1, (50, 210), 0, 0xb, 140);
    operator(&mut r, 2, (50, 212), 1, 0xb, 130);
    graph(&mut r, 1, (205, 290));
    step(&mut r, 1, (200, 300), 1);
    operator(&mut r, 1, (210, 1000), 0, 0xa, 0);
    operator(&mut r, 2, (212, 1000), 1, 0xa, 0);
    r.push("thread_exit", 2, (1000, 1000), &[]);
    r.push("thread_exit", 1, (1000, 1000), &[]);
    let (collected, timeline) = run(&r);
    let spans = |step: &Step| -> Vec<_> {
        operators(step, &timeline)
            .into_iter()
            .map(|(_, start, end, work, waiting, _)| (start, end, work, waiting))
            .collect()
    };
    // Lane 0 worked 50..70 and waited 70..90 of the graph; lane 1 worked 50..82 and waited 82..90.
    assert_eq!(spans(&collected.steps[0]), [(10, 50, 80, 0), (50, 82, 20 + 32, 20 + 8)]);
    assert_eq!(spans(&collected.steps[1]), [(210, 290, 80 + 78, 0)]);
    assert_eq!(timeline.findings().late, 0);
}

#[test]
fn a_step_waits_for_a_worker_that_sleeps_through_many() {
    let mut r = Records::default();
    thread(&mut r, 1, 0, 100);
    thread(&mut r, 2, 0, 100);
    operator(&mut r, 2, (10, 50), 1, 0xa, 0);
    graph(&mut r, 1, (5, 90));
    step(&mut r, 1, (0, 100), 8);
    for i in 1..=40 {
        let at = i * 1000;
        operator(&mut r, 1, (at + 10, at + 20), 0, 0xc, 0);
        graph(&mut r, 1, (at + 5, at + 90));
        step(&mut r, 1, (at, at + 100), 1);
    }
    operator(&mut r, 2, (50, 90_000), 1, 0xb, 0);
    let (collected, timeline) = run(&r);
    assert_eq!(collected.steps.len(), 41);
    assert_eq!(operators(&collected.steps[0], &timeline).len(), 2, "the worker's last operator is in the first step");
    assert_eq!(*timeline.findings(), Findings { records: 126, operator_spans: 42, ..Findings::default() });
}

/// It may have another one open. Steps that follow are not finished before it, so that what a request was given stays in
/// order.
#[test]
fn a_thread_that_computes_no_more_does_not_let_other_steps_overtake_its_last_one() {
    let mut r = Records::default();
    (1..=2).for_each(|tid| thread(&mut r, tid, 0, 100));
    for i in 0..200 {
        let (at, tid) = (i * 1000, if i < 3 { 1 } else { 2 });
        operator(&mut r, tid, (at + 10, at + 20), 0, 0xc, 0);
        graph(&mut r, tid, (at + 5, at + 90));
        step(&mut r, tid, (at, at + 100), 1);
    }
    let mut timeline = Timeline::new(&r.schema, Rules::default(), 100);
    let mut collected = Collected::default();
    r.records.iter().for_each(|record| timeline.record(record, &mut collected));
    assert!(collected.steps.len() > 100, "they are not pending until the end");
    timeline.finish(&mut collected);
    let numbers: Vec<u64> = collected.steps.iter().map(|step| step.number).collect();
    assert_eq!(numbers, (1..=200).collect::<Vec<_>>());
    assert_eq!(timeline.findings().late, 0);
}

/// What comes of a step before its end is pending, up to a limit. Beyond it, the step is incomplete.
#[test]
fn a_step_of_more_events_than_can_be_pending_is_incomplete() {
    let mut r = Records::default();
    thread(&mut r, 1, 0, 100);
    for (at, operators) in [(0, 3), (10_000, 1_100_000), (20_000_000, 3)] {
        (0..operators).for_each(|i| operator(&mut r, 1, (at + 10 * i, at + 10 * i + 9), 0, 0xa, 0));
        step(&mut r, 1, (at, at + 10 * operators), 1);
    }
    let mut timeline = Timeline::new(&r.schema, Rules::default(), 100);
    timeline.add_sites(&[site(0, &["norm_mul"])]);
    let mut collected = Collected::default();
    r.records.iter().for_each(|record| timeline.record(record, &mut collected));
    timeline.finish(&mut collected);
    let complete: Vec<bool> = collected.steps.iter().filter(|step| step.number > 0).map(|step| step.complete).collect();
    assert_eq!(complete, [true, false, true]);
    assert!(timeline.findings().crowded > 500_000 && timeline.findings().recurring == 0);
}

#[test]
fn threads_without_a_lane_field_are_lanes_by_number() {
    let mut r = Records::default();
    for tid in [7, 3, 5] {
        thread(&mut r, tid, 0, 100);
    }
    for tid in [7, 3, 5] {
        r.push_at_site("kernel", 1, tid, (10, 20), &[]);
    }
    graph(&mut r, 5, (5, 30));
    step(&mut r, 5, (0, 40), 1);
    let (collected, timeline) = run(&r);
    let step = &collected.steps[0];
    assert_eq!(operators(step, &timeline), [("softmax".into(), 10, 20, 30, 0, vec![0, 1, 2])]);
    let by_tid: Vec<_> = step.lanes.iter().map(|l| (l.tid, l.lane)).collect();
    assert_eq!(by_tid, [(5, 0), (3, 1), (7, 2)], "the step's thread is lane 0");
}

/// As of objects that were made before the recording began.
#[test]
fn an_operator_without_a_type_has_its_class() {
    let mut r = Records::default();
    thread(&mut r, 1, 0, 100);
    tensor(&mut r, 1, 1, 0xa, "conv", "first");
    for (number, (site, node)) in [(1, 0xa), (1, 0xb), (0, 0xb), (7, 0xb)].into_iter().enumerate() {
        let start = 10 + 20 * number as u64;
        r.push_at_site("virtual", site, 1, (start, start + 10), &[("node", Put::Int(node))]);
    }
    step(&mut r, 1, (5, 95), 1);
    let (collected, timeline) = run(&r);
    let names = |of: &Operator| {
        let kind = timeline.catalogue().kind(of.kind);
        (kind.op.to_string(), kind.name.to_string())
    };
    let found: Vec<(String, String)> = collected.steps[0].operators.iter().map(names).collect();
    let expected = [("conv", "first"), ("softmax", "softmax"), ("norm_mul", "norm_mul"), ("virtual", "virtual")];
    assert_eq!(found, expected.map(|(op, name)| (op.to_owned(), name.to_owned())), "site 7 has no capture");
}

#[test]
fn nested_operators_are_taken_out_of_their_caller() {
    let mut r = Records::default();
    thread(&mut r, 1, 0, 100);
    operator(&mut r, 1, (20, 30), 0, 0xb, 0);
    operator(&mut r, 1, (10, 50), 0, 0xa, 0);
    graph(&mut r, 1, (5, 60));
    step(&mut r, 1, (0, 70), 1);
    let (collected, timeline) = run(&r);
    let works: Vec<_> = operators(&collected.steps[0], &timeline).iter().map(|o| (o.1, o.3)).collect();
    assert_eq!(works, [(10, 30), (20, 10)]);
}

#[test]
fn a_description_holds_from_its_time_on() {
    let mut r = Records::default();
    thread(&mut r, 1, 0, 100);
    thread(&mut r, 2, 0, 100);
    tensor(&mut r, 1, 10, 0xa, "ADD", "old");
    operator(&mut r, 1, (10, 50), 0, 0xa, 0);
    graph(&mut r, 1, (5, 90));
    step(&mut r, 1, (0, 100), 1);
    tensor(&mut r, 1, 210, 0xa, "MUL", "new");
    operator(&mut r, 1, (210, 250), 0, 0xa, 0);
    // The worker's share of the old one comes after the new description, and ends later too.
    operator(&mut r, 2, (10, 240), 1, 0xa, 0);
    graph(&mut r, 1, (205, 290));
    step(&mut r, 1, (200, 300), 1);
    let (collected, timeline) = run(&r);
    assert_eq!(operators(&collected.steps[0], &timeline), [("old".into(), 10, 90, 40 + 80, 0, vec![0, 1])]);
    assert_eq!(operators(&collected.steps[1], &timeline), [("new".into(), 210, 250, 40, 0, vec![0])]);
}

#[test]
fn a_forked_child_has_its_parents_objects_and_its_own_steps() {
    let mut r = Records::default();
    thread(&mut r, 1, 0, 100);
    tensor(&mut r, 1, 1, 0xa, "ADD", "shared");
    r.push("fork", 1, (2, 2), &[("child_tid", Put::Int(9)), ("child_pid", Put::Int(900))]);
    thread(&mut r, 9, 3, 900);
    // Both run at once: each has its own.
    operator(&mut r, 9, (12, 40), 0, 0xa, 0);
    operator(&mut r, 1, (10, 50), 0, 0xa, 0);
    graph(&mut r, 9, (11, 45));
    graph(&mut r, 1, (5, 60));
    step(&mut r, 9, (11, 46), 1);
    step(&mut r, 1, (0, 70), 1);
    let (collected, timeline) = run(&r);
    let seen: Vec<_> = collected.steps.iter().map(|s| (s.pid, s.tid, operators(s, &timeline))).collect();
    assert!(seen.contains(&(100, 1, vec![("shared".into(), 10, 50, 40, 0, vec![0])])));
    assert!(seen.contains(&(900, 9, vec![("shared".into(), 12, 40, 28, 0, vec![0])])));
    assert_eq!(timeline.findings().ambiguous, 0);
}

#[test]
fn a_fused_operator_has_its_own_type_and_lists_what_it_covers() {
    let mut r = Records::default();
    thread(&mut r, 1, 0, 100);
    tensor(&mut r, 1, 5, 0xa, "NORM", "norm-3");
    tensor(&mut r, 1, 5, 0xb, "MUL", "scaled-3");
    let fields = [("lane", Put::Int(0)), ("node", Put::Int(0xb)), ("covers", Put::Int(0xa))];
    r.push_at_site("fused", 0, 1, (10, 20), &fields);
    graph(&mut r, 1, (5, 60));
    step(&mut r, 1, (0, 70), 1);
    let (collected, timeline) = run(&r);
    let kind = timeline.catalogue().kind(collected.steps[0].operators[0].kind);
    assert_eq!((&*kind.op, &*kind.name, kind.covers.as_deref()), ("norm_mul", "scaled-3", Some("norm-3")));
    assert_eq!((kind.dtype.as_deref(), &*kind.shape), (Some("f32"), [8, 2, 1, 1].as_slice()));
}

#[test]
fn regions_know_the_operator_they_lie_in() {
    let mut r = Records::default();
    thread(&mut r, 1, 0, 100);
    r.push("barrier", 1, (40, 48), &[]);
    operator(&mut r, 1, (10, 50), 0, 0xa, 0);
    r.push("barrier", 1, (52, 55), &[]);
    graph(&mut r, 1, (5, 60));
    step(&mut r, 1, (0, 70), 1);
    let (collected, _) = run(&r);
    let regions: Vec<_> = collected.steps[0].regions.iter().map(|r| (r.start, r.operator)).collect();
    assert_eq!(regions, [(40, Some(0)), (52, None)]);
}

#[test]
fn tokens_are_the_steps_own_or_the_outermost_within_it() {
    let mut r = Records::default();
    thread(&mut r, 1, 0, 100);
    r.push("batch", 1, (12, 18), &[("tokens", Put::Int(1000))]);
    r.push("batch", 1, (10, 20), &[("tokens", Put::Int(3))]);
    r.push("batch", 1, (30, 40), &[("tokens", Put::Int(4))]);
    r.push("process", 1, (0, 70), &[]);
    r.push("process", 1, (100, 170), &[]);
    let (collected, _) = run(&r);
    assert_eq!((collected.steps[0].tokens, collected.steps[0].phase), (Some(7), Some(Phase::Prefill)));
    assert_eq!((collected.steps[1].tokens, collected.steps[1].phase), (None, Some(Phase::Decode)));
}

/// As where the end of an object is taken for that of a run, and the next object is made before.
#[test]
fn a_step_that_ended_before_its_operators_ends_with_the_last_of_them() {
    let mut r = Records::default();
    thread(&mut r, 1, 0, 100);
    for at in [0, 100, 200] {
        step(&mut r, 1, (at, at + 5), 1);
        operator(&mut r, 1, (at + 10, at + 20), 0, 0xa, 0);
        operator(&mut r, 1, (at + 20, at + 60), 0, 0xb, 0);
    }
    let (collected, timeline) = run(&r);
    let seen: Vec<_> = collected.steps.iter().map(|s| (s.number, s.start, s.end, s.operators.len())).collect();
    assert_eq!(seen, [(1, 0, 60, 2), (2, 100, 160, 2), (3, 200, 260, 2)]);
    assert_eq!(timeline.findings().extended, 3);
}

#[test]
fn a_step_that_cannot_have_tokens_is_a_run() {
    let mut r = Records::default();
    for record in r.schema.records.iter_mut().filter(|record| record.name != "step") {
        record.fields.iter_mut().filter(|field| field.name == "tokens").for_each(|field| field.name = "rows".into());
    }
    thread(&mut r, 1, 0, 100);
    r.push("process", 1, (0, 70), &[]);
    step(&mut r, 1, (100, 110), 1);
    let (collected, _) = run(&r);
    let phases: Vec<_> = collected.steps.iter().map(|step| step.phase).collect();
    assert_eq!(phases, [Some(Phase::Run), Some(Phase::Decode)]);
}

#[test]
fn a_step_within_a_step_of_its_thread_is_part_of_it() {
    let mut r = Records::default();
    thread(&mut r, 1, 0, 100);
    for at in [10, 40] {
        operator(&mut r, 1, (at + 2, at + 8), 0, 0xa, 0);
        graph(&mut r, 1, (at + 1, at + 9));
        step(&mut r, 1, (at, at + 10), 5);
    }
    r.push("process", 1, (0, 70), &[]);
    step(&mut r, 1, (100, 110), 1);
    let (collected, _) = run(&r);
    let seen: Vec<_> = collected.steps.iter().map(|s| (s.number, s.start, s.tokens, s.operators.len())).collect();
    assert_eq!(seen, [(1, 0, Some(10), 2), (2, 100, Some(1), 0)]);
}

#[test]
fn a_span_around_a_whole_run_is_no_step() {
    let mut r = Records::default();
    thread(&mut r, 1, 0, 100);
    for i in 0..30 {
        step(&mut r, 1, (i * 10 + 1, i * 10 + 9), 1);
    }
    r.push("process", 1, (0, 400), &[]);
    let (collected, timeline) = run(&r);
    assert_eq!((collected.steps.len(), timeline.findings().loops), (30, 1));
}

#[test]
fn steps_at_once_keep_their_workers() {
    // Threads 1 and 2 run steps that overlap, each with a worker that was seen alone with it before.
    let mut r = Records::default();
    for tid in 1..=4 {
        thread(&mut r, tid, 0, 100);
    }
    for (own, worker, at) in [(1, 3, 0), (2, 4, 100)] {
        operator(&mut r, own, (at + 10, at + 20), 0, 0xa, 0);
        operator(&mut r, worker, (at + 10, at + 20), 1, 0xa, 0);
        graph(&mut r, own, (at + 5, at + 30));
        step(&mut r, own, (at, at + 40), 1);
    }
    // Enough steps for the first ones to be finished before the two that overlap.
    for i in 0..20 {
        step(&mut r, 1, (1000 + i * 10, 1005 + i * 10), 1);
    }
    for tid in 1..=4 {
        operator(&mut r, tid, (2010, 2030), u64::from(tid > 2), 0xb, 0);
    }
    graph(&mut r, 1, (2005, 2050));
    graph(&mut r, 2, (2006, 2060));
    step(&mut r, 1, (2000, 2070), 1);
    step(&mut r, 2, (2001, 2080), 1);
    let (collected, timeline) = run(&r);
    let last: Vec<_> = collected.steps[collected.steps.len() - 2..]
        .iter()
        .map(|s| (s.tid, s.lanes.iter().map(|l| l.tid).collect::<Vec<_>>()))
        .collect();
    assert_eq!(last, [(1, vec![1, 3]), (2, vec![2, 4])]);
    assert_eq!(timeline.findings().ambiguous, 0);
}

#[test]
fn a_worker_of_two_open_graphs_is_counted_as_ambiguous() {
    let mut r = Records::default();
    for tid in 1..=3 {
        thread(&mut r, tid, 0, 100);
    }
    operator(&mut r, 3, (10, 20), 0, 0xa, 0);
    graph(&mut r, 1, (5, 30));
    graph(&mut r, 2, (6, 31));
    step(&mut r, 1, (0, 40), 1);
    let (collected, timeline) = run(&r);
    assert_eq!(collected.steps[0].operators.len(), 1);
    assert_eq!(timeline.findings().ambiguous, 1);
}

#[test]
fn off_cpu_times_are_cut_to_the_step() {
    let mut r = Records::default();
    thread(&mut r, 1, 0, 100);
    // Blocked 20..30, then runnable until 35; preempted 60..65.
    r.push("switch", 1, (20, 20), &[("prev_state", Put::Int(1)), ("next_tid", Put::Int(77))]);
    r.push("wakeup", 1, (30, 30), &[]);
    r.push("switch", 77, (35, 35), &[("prev_state", Put::Int(0)), ("next_tid", Put::Int(1))]);
    r.push("switch", 1, (60, 60), &[("prev_state", Put::Int(0)), ("next_tid", Put::Int(77))]);
    r.push("switch", 77, (65, 65), &[("next_tid", Put::Int(1))]);
    step(&mut r, 1, (10, 70), 1);
    let (collected, _) = run(&r);
    let off: Vec<_> = collected.steps[0].off_cpu.iter().map(|o| (o.start, o.runnable, o.end)).collect();
    assert_eq!(off, [(20, 30, 35), (60, 60, 65)]);
    let phase = collected.statistics.phase(Phase::Decode).unwrap();
    assert_eq!((phase.blocked, phase.runnable, phase.switches), (10, 10, 2));
}

#[test]
fn steps_that_no_probe_marks_are_found_by_operators_that_recur() {
    let mut r = Records::default();
    r.schema.records.retain(|of| of.role != Some(profinfer_schema::Role::Step));
    thread(&mut r, 1, 0, 100);
    thread(&mut r, 2, 0, 100);
    for run in 0..40_000 {
        let at = run * 1000;
        for node in 0..3 {
            // Both lanes; each operator calls another one.
            let start = at + node * 100;
            operator(&mut r, 1, (start + 5, start + 20), 0, 0xf, 0);
            operator(&mut r, 1, (start, start + 50), 0, 0xa + node, 0);
            operator(&mut r, 2, (start + 1, start + 49), 1, 0xa + node, 0);
        }
        graph(&mut r, 1, (at, at + 300));
    }
    let (collected, timeline) = run(&r);
    let steps: Vec<&Step> = collected.steps.iter().filter(|step| step.number > 0).collect();
    assert_eq!((steps.len(), timeline.findings().recurring), (40_000, 40_000));
    assert_eq!(collected.steps.len(), 40_000, "nothing is outside");
    for (run, step) in steps.iter().enumerate() {
        let at = run as u64 * 1000;
        assert_eq!((step.number, step.start, step.end), (run as u64 + 1, at, at + 250));
        assert_eq!((step.operators.len(), step.graphs.len(), step.lane_numbers.as_slice()), (6, 1, [0, 1].as_slice()));
    }
}

/// A build in which no function marks steps has their probe in its probeset, without a site; or with one that is never hit.
#[test]
fn steps_of_a_target_without_their_function_are_found_by_operators_that_recur() {
    let probed = |id: u16, probe: &str| profinfer_schema::Site { probes: vec![probe.to_owned()], ..site(id, &[]) };
    let never_hit = [(&["operator"][..], false, 5), (&["operator", "step"], false, 5), (&["step"], false, 5)];
    let others = [(&[][..], false, 5), (&["operator", "step"], true, 0), (&["step"], true, 0), (&[], true, 0)];
    for (probes, is_hit, found) in never_hit.into_iter().chain(others) {
        let mut r = Records::default();
        thread(&mut r, 1, 0, 100);
        for at in (0..5).map(|run| run * 1000) {
            (0..3).for_each(|node| operator(&mut r, 1, (at + node * 100, at + node * 100 + 50), 0, 0xa + node, 0));
        }
        if is_hit {
            step(&mut r, 1, (6000, 6100), 1);
            // Its thread ends before the recording does.
            r.push("thread_exit", 1, (6200, 6200), &[]);
        }
        let mut timeline = Timeline::new(&r.schema, Rules::default(), 100);
        for (id, probe) in (6..).zip(probes) {
            timeline.add_sites(&[probed(id, probe)]);
        }
        let mut collected = Collected::default();
        r.records.iter().for_each(|record| timeline.record(record, &mut collected));
        timeline.finish(&mut collected);
        assert_eq!(timeline.findings().recurring, found, "{probes:?}");
    }
}

#[test]
fn a_step_and_an_operator_at_one_instruction_are_one_call() {
    let at = |id: u16| profinfer_schema::Site { file_offset: 64, ..site(id, &["conv"]) };
    // The operator's program runs first, or last; its record comes before the step's, or after it.
    for (step_at, operator_at, step_first) in
        [((102, 198), (100, 200), false), ((102, 198), (100, 200), true), ((100, 200), (102, 198), true)]
    {
        let mut r = Records::default();
        thread(&mut r, 1, 0, 100);
        r.push_at_site("kernel", 8, 1, (120, 140), &[]);
        if step_first {
            r.push_at_site("step", 6, 1, step_at, &[]);
        }
        r.push_at_site("kernel", 7, 1, operator_at, &[]);
        if !step_first {
            r.push_at_site("step", 6, 1, step_at, &[]);
        }
        // Another call that began before is no part of it.
        r.push_at_site("kernel", 8, 1, (50, 210), &[]);
        let mut timeline = Timeline::new(&r.schema, Rules::default(), 100);
        timeline.add_sites(&[at(6), at(7), profinfer_schema::Site { file_offset: 99, ..site(8, &["other"]) }]);
        let mut collected = Collected::default();
        r.records.iter().for_each(|record| timeline.record(record, &mut collected));
        timeline.finish(&mut collected);
        let step = collected.steps.iter().find(|step| step.number == 1).unwrap();
        assert_eq!(step.operators.len(), 2, "{step_at:?} {step_first}");
        assert!(step.operators.iter().all(|of| of.start >= step.start && of.end <= step.end), "{:?}", step.operators);
        let outside = collected.steps.iter().find(|step| step.number == 0).unwrap();
        assert_eq!(outside.operators.len(), 1);
    }
}

/// Another thread of the process waits for a CPU for longer than the step has lane time.
#[test]
fn off_cpu_times_are_those_of_lanes() {
    let mut r = Records::default();
    (1..=2).for_each(|tid| thread(&mut r, tid, 0, 100));
    r.push("switch", 2, (5, 5), &[("prev_state", Put::Int(0)), ("next_tid", Put::Int(1))]);
    operator(&mut r, 1, (10, 30), 0, 0xa, 0);
    r.push("switch", 1, (40, 40), &[("prev_state", Put::Int(0)), ("next_tid", Put::Int(77))]);
    r.push("switch", 77, (45, 45), &[("next_tid", Put::Int(1))]);
    step(&mut r, 1, (10, 70), 1);
    let (collected, _) = run(&r);
    let phase = collected.statistics.phase(Phase::Decode).unwrap();
    assert_eq!((phase.lane_time, phase.blocked, phase.runnable), (60, 0, 5));
}
