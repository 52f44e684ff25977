//! Shares of operators that other threads compute.

use super::*;
use profinfer_schema::Role;

fn share(records: &mut Records, tid: u32, span: (u64, u64)) {
    records.push("share", tid, span, &[]);
}

/// Threads of one process.
fn threads(records: &mut Records, tids: &[u32]) {
    tids.iter().for_each(|tid| thread(records, *tid, 0, 100));
}

#[test]
fn a_share_is_of_the_operator_that_another_thread_computes() {
    let mut r = Records::default();
    threads(&mut r, &[1, 2, 3]);
    tensor(&mut r, 1, 5, 0xa, "MUL", "a");
    tensor(&mut r, 1, 5, 0xb, "ADD", "b");
    // Of a thread that is late, the end is that of the operator.
    share(&mut r, 3, (14, 41));
    share(&mut r, 2, (12, 30));
    operator(&mut r, 1, (10, 40), 0, 0xa, 0);
    operator(&mut r, 1, (40, 60), 0, 0xb, 0);
    // Of none: nothing is computed then.
    share(&mut r, 2, (65, 70));
    step(&mut r, 1, (0, 80), 1);
    let (collected, timeline) = run(&r);
    let step = &collected.steps[0];
    let expected = [("a".into(), 10, 40, 30 + 18 + 26, 0, vec![0, 1, 2]), ("b".into(), 40, 60, 20, 0, vec![0])];
    assert_eq!(operators(step, &timeline), expected);
    assert_eq!(step.lane_numbers, [0, 1, 2]);
    assert_eq!((step.ambiguous_shares, timeline.findings().operator_spans), (0, 2));
}

#[test]
fn threads_with_shares_wait_for_the_last_of_a_section() {
    let mut r = Records::default();
    threads(&mut r, &[1, 2, 3]);
    tensor(&mut r, 1, 5, 0xa, "MUL", "a");
    // Two sections, with time of the operator's thread alone before, between and after them.
    share(&mut r, 1, (20, 40));
    share(&mut r, 2, (19, 50));
    share(&mut r, 3, (22, 30));
    share(&mut r, 1, (60, 80));
    share(&mut r, 2, (61, 75));
    share(&mut r, 3, (62, 66));
    share(&mut r, 3, (67, 70));
    operator(&mut r, 1, (10, 100), 0, 0xa, 0);
    step(&mut r, 1, (0, 120), 1);
    let (collected, _) = run(&r);
    let step = &collected.steps[0];
    let shares = step.lanes_of(&step.operators[0]).iter();
    let shares: Vec<_> = shares.map(|share| (share.lane, share.start, share.work(), share.waiting)).collect();
    let expected = [(0, 10, 80, 10), (1, 19, 31, 0), (1, 61, 14, 5), (2, 22, 8, 20), (2, 62, 4, 1), (2, 67, 3, 10)];
    assert_eq!(shares, expected);
    let operator = &step.operators[0];
    assert_eq!((operator.start, operator.end, operator.work, operator.waiting), (10, 100, 140, 46));
}

#[test]
fn of_two_operators_that_are_computed_at_once_a_share_is_that_of_its_pool() {
    let mut r = Records::default();
    threads(&mut r, &[1, 2, 3, 4, 5]);
    for (tid, object, name) in [(1, 0xa, "a"), (2, 0xb, "b")] {
        tensor(&mut r, tid, 1, object, "MUL", name);
    }
    // The pools' threads show whose they are; one that never did is left out, and counted.
    share(&mut r, 3, (11, 19));
    operator(&mut r, 1, (10, 20), 0, 0xa, 0);
    step(&mut r, 1, (8, 22), 1);
    share(&mut r, 4, (31, 39));
    operator(&mut r, 2, (30, 40), 0, 0xb, 0);
    step(&mut r, 2, (28, 42), 1);
    for tid in [3, 4, 5] {
        share(&mut r, tid, (52, 58));
    }
    operator(&mut r, 1, (50, 60), 0, 0xa, 0);
    operator(&mut r, 2, (51, 61), 0, 0xb, 0);
    step(&mut r, 1, (48, 62), 1);
    step(&mut r, 2, (49, 63), 1);
    let (collected, timeline) = run(&r);
    let threads = |step: &Step| step.lanes.iter().map(|lane| lane.tid).collect::<Vec<_>>();
    let of: Vec<_> = collected.steps.iter().map(|step| (step.tid, threads(step))).collect();
    assert_eq!(of[..2], [(1, vec![1, 3]), (2, vec![2, 4])]);
    assert_eq!(of[2..4], [(1, vec![1, 3]), (2, vec![2, 4])]);
    assert_eq!((timeline.findings().ambiguous, timeline.findings().ambiguous_shares), (0, 1));
}

/// Threads that call one model share its pool.
#[test]
fn of_two_operators_a_share_is_of_the_one_whose_thread_computes_shares_too() {
    let mut r = Records::default();
    threads(&mut r, &[1, 2, 3]);
    for (tid, object, name) in [(1, 0xa, "a"), (2, 0xb, "b")] {
        tensor(&mut r, tid, 1, object, "MUL", name);
    }
    // The first begins earlier, and is computed by its thread alone; then the other way round.
    for (at, alone, shared) in [(50, (1, 0xa), (2, 0xb)), (80, (2, 0xb), (1, 0xa))] {
        share(&mut r, shared.0, (at + 2, at + 9));
        share(&mut r, 3, (at + 3, at + 8));
        operator(&mut r, alone.0, (at, at + 12), 0, alone.1, 0);
        operator(&mut r, shared.0, (at + 1, at + 10), 0, shared.1, 0);
        step(&mut r, alone.0, (at - 2, at + 14), 1);
        step(&mut r, shared.0, (at - 1, at + 13), 1);
    }
    let (collected, timeline) = run(&r);
    let threads = |step: &Step| step.lanes.iter().map(|lane| lane.tid).collect::<Vec<_>>();
    let of: Vec<_> = collected.steps.iter().map(|step| (step.tid, threads(step))).collect();
    assert_eq!(of, [(1, vec![1]), (2, vec![2, 3]), (2, vec![2]), (1, vec![1, 3])]);
    assert_eq!(timeline.findings().ambiguous_shares, 0);
}

#[test]
fn steps_that_recur_are_found_by_whole_operators() {
    let mut r = Records::default();
    r.schema.records.retain(|record| record.role != Some(Role::Step));
    threads(&mut r, &[1, 2]);
    for (object, name) in [(0xa, "a"), (0xb, "b"), (0xc, "c")] {
        tensor(&mut r, 1, 1, object, "MUL", name);
    }
    for at in (0..6).map(|number| 100 + 100 * number) {
        for (late, object) in [(0, 0xa), (10, 0xb), (20, 0xc)] {
            for part in 0..3 {
                share(&mut r, 2, (at + late + 1 + 2 * part, at + late + 2 + 2 * part));
            }
            operator(&mut r, 1, (at + late, at + late + 10), 0, object, 0);
        }
    }
    let (collected, _) = run(&r);
    let steps: Vec<_> = collected.steps.iter().filter(|step| step.number > 0).collect();
    assert_eq!(steps.len(), 6);
    assert!(steps.iter().all(|step| step.operators.len() == 3 && step.lanes.len() == 12), "{steps:#?}");
}
