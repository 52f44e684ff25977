//! Steps of several threads at once: each has its own operators, and those of the threads that compute for it.

use super::*;
use std::collections::BTreeSet;

/// Steps by thread: how many, and of each the names of the threads of its operators.
fn steps_of(collected: &Collected, tid: u32) -> Vec<(usize, Vec<u32>)> {
    let of = |step: &&Step| step.number > 0 && step.tid == tid;
    let tids = |step: &Step| step.lanes.iter().map(|lane| lane.tid).collect::<BTreeSet<u32>>().into_iter().collect();
    collected.steps.iter().filter(of).map(|step| (step.operators.len(), tids(step))).collect()
}

/// One session's operators are longer than the other's steps, from its first step on.
#[test]
fn long_operators_of_a_thread_are_in_its_own_steps() {
    let mut r = Records::default();
    (1..=2).for_each(|tid| thread(&mut r, tid, 0, 100));
    for run in 0..3_u64 {
        let began = run * 10_000;
        for at in 0..10 {
            let start = began + 1000 * at;
            for short in 0..20 {
                let start = start + 40 * short;
                operator(&mut r, 2, (start + 5, start + 25), 0, 0xb, 0);
                step(&mut r, 2, (start, start + 30), 1);
            }
            operator(&mut r, 1, (start + 10, start + 900), 0, 0xa, 0);
        }
        step(&mut r, 1, (began, began + 9950), 1);
    }
    let (collected, timeline) = run(&r);
    assert_eq!(steps_of(&collected, 1), vec![(10, vec![1]); 3]);
    assert_eq!(steps_of(&collected, 2), vec![(1, vec![2]); 600]);
    assert_eq!((timeline.findings().late, timeline.findings().ambiguous), (0, 0));
}

/// Workers of two engines, of which one has short steps.
#[test]
fn workers_compute_for_the_step_that_they_are_at_home_in() {
    let mut r = Records::default();
    (1..=4).for_each(|tid| thread(&mut r, tid, 0, 100));
    // Each alone first: it is known who computes for whom.
    for (at, tid) in [(0, 1), (100, 2)] {
        operator(&mut r, tid, (at + 10, at + 20), 0, 0xa, 0);
        operator(&mut r, tid + 2, (at + 10, at + 20), 1, 0xa, 0);
        graph(&mut r, tid, (at + 5, at + 30));
        step(&mut r, tid, (at, at + 40), 1);
    }
    let began = 1000;
    for short in 0..40 {
        let at = began + 100 * short;
        if short % 4 == 1 {
            operator(&mut r, 1, (at - 90, at + 60), 0, 0xa, 0);
            operator(&mut r, 3, (at - 80, at + 20), 1, 0xa, 0);
        }
        operator(&mut r, 2, (at + 10, at + 20), 0, 0xb, 0);
        operator(&mut r, 4, (at + 10, at + 20), 1, 0xb, 0);
        graph(&mut r, 2, (at + 5, at + 30));
        step(&mut r, 2, (at, at + 40), 1);
    }
    graph(&mut r, 1, (began - 5, began + 5000));
    step(&mut r, 1, (began - 10, began + 5010), 1);
    let (collected, timeline) = run(&r);
    assert_eq!(steps_of(&collected, 1), [(1, vec![1, 3]), (10, vec![1, 3])]);
    assert_eq!(steps_of(&collected, 2), vec![(1, vec![2, 4]); 41]);
    assert_eq!((timeline.findings().late, timeline.findings().ambiguous), (0, 0));
}

/// A first step that lasts longer than steps can wait: what is certain is right, and the rest is counted.
#[test]
fn a_first_step_that_is_too_long_is_counted() {
    let mut r = Records::default();
    (1..=2).for_each(|tid| thread(&mut r, tid, 0, 100));
    operator(&mut r, 1, (10, 20), 0, 0xa, 0);
    for short in 0..1200 {
        let at = 100 * short;
        operator(&mut r, 2, (at + 5, at + 25), 0, 0xb, 0);
        step(&mut r, 2, (at, at + 30), 1);
    }
    operator(&mut r, 1, (118_000, 119_000), 0, 0xa, 0);
    step(&mut r, 1, (5, 120_010), 1);
    let (collected, timeline) = run(&r);
    assert_eq!(steps_of(&collected, 1), [(1, vec![1])]);
    assert_eq!(timeline.findings().ambiguous, 1);
}
