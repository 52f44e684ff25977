//! What threads did, and who ran instead of them: made-up events with fixed times.

use super::*;

fn switch(r: &mut Records, cpu: u16, time: u64, prev: (u32, u64), next: u32) {
    r.push("switch", prev.0, (time, time), &[("prev_state", Put::Int(prev.1)), ("next_tid", Put::Int(next.into()))]);
    set_cpu(r, cpu);
}

fn wakeup(r: &mut Records, cpu: u64, time: u64, tid: u32) {
    r.push("wakeup", tid, (time, time), &[("target_cpu", Put::Int(cpu))]);
}

fn set_cpu(r: &mut Records, cpu: u16) {
    if let Some(last) = r.records.last_mut() {
        last[4..6].copy_from_slice(&cpu.to_le_bytes());
    }
}

fn created(r: &mut Records, tid: u32, time: u64) {
    let fields = [("pid", Put::Int(100)), ("cpus_allowed", Put::Int(1)), ("created", Put::Int(1))];
    r.push("thread", tid, (time, time), &fields);
}

/// `R` running, `r` runnable, `s` sleeping, `b` blocked, `?` unknown; with start and end.
fn states(step: &Step, tid: u32) -> Vec<(char, u64, u64)> {
    let letter = |state| match state {
        ThreadState::Running => 'R',
        ThreadState::Runnable => 'r',
        ThreadState::Sleeping => 's',
        ThreadState::Blocked => 'b',
        ThreadState::Stopped => 't',
        ThreadState::Attaching => 'a',
        ThreadState::Unknown => '?',
    };
    step.states.iter().filter(|s| s.tid == tid).map(|s| (letter(s.state), s.start, s.end)).collect()
}

fn instead(step: &Step) -> Vec<(u32, u32, bool, Option<u32>, u64, u64)> {
    step.instead.iter().map(|o| (o.tid, o.pid, o.own, o.operator, o.start, o.end)).collect()
}

/// A thread's time in a step has no gap and no overlap.
fn assert_adds_up(step: &Step, tid: u32) {
    let mine = states(step, tid);
    assert!(mine.windows(2).all(|two| two[0].2 == two[1].1), "{mine:?}");
    assert_eq!(mine.iter().map(|s| s.2 - s.1).sum::<u64>(), step.duration(), "{mine:?}");
}

#[test]
fn states_follow_the_schedulers_events_and_add_up() {
    let mut r = Records::default();
    thread(&mut r, 1, 0, 100);
    switch(&mut r, 0, 15, (77, 0), 1);
    switch(&mut r, 0, 20, (1, 1), 0); // asleep
    wakeup(&mut r, 1, 30, 1);
    switch(&mut r, 1, 35, (0, 0), 1); // its cpu was idle
    switch(&mut r, 1, 50, (1, 2), 0); // a disk
    wakeup(&mut r, 1, 60, 1);
    switch(&mut r, 1, 60, (0, 0), 1);
    switch(&mut r, 1, 70, (1, 0), 78); // preempted
    switch(&mut r, 1, 75, (78, 0), 79);
    switch(&mut r, 1, 80, (79, 1), 1);
    step(&mut r, 1, (10, 90), 1);
    let (collected, _) = run(&r);
    let step = &collected.steps[0];
    let expected = [
        ('?', 10, 15), // never running by assumption
        ('R', 15, 20),
        ('s', 20, 30),
        ('r', 30, 35),
        ('R', 35, 50),
        ('b', 50, 60),
        ('R', 60, 70),
        ('r', 70, 80),
        ('R', 80, 90),
    ];
    assert_eq!(states(step, 1), expected);
    assert_adds_up(step, 1);
    // The made-up records have no process numbers: a thread is its own process there.
    assert_eq!(
        instead(step),
        [(1, 0, false, None, 30, 35), (1, 78, false, None, 70, 75), (1, 79, false, None, 75, 80)]
    );
    let lanes: Vec<_> = collected.statistics.threads().lanes().collect();
    let [(Phase::Decode, Some(0), lane)] = lanes[..] else { panic!("{lanes:?}") };
    assert_eq!((lane.wall, lane.running, lane.runnable), (80, 40, 15));
    assert_eq!((lane.sleeping, lane.blocked, lane.unknown), (10, 10, 5));
    assert_eq!((lane.idle, lane.taken), (5, 10));
    assert_eq!((lane.voluntary, lane.involuntary, lane.migrations), (2, 1, 1));
    assert_eq!(lane.cpus.iter().map(|(c, n)| (*c, *n)).collect::<Vec<_>>(), [(0, 5), (1, 35)]);
}

#[test]
fn what_delays_a_thread_between_its_steps_is_known() {
    let mut r = Records::default();
    thread(&mut r, 1, 0, 100);
    thread(&mut r, 2, 0, 100);
    switch(&mut r, 0, 5, (77, 0), 1);
    step(&mut r, 1, (10, 20), 1);
    switch(&mut r, 0, 30, (1, 0), 78); // preempted between steps
    switch(&mut r, 0, 70, (78, 0), 1);
    // Of another thread, meanwhile: its steps are its own.
    step(&mut r, 2, (40, 60), 1);
    step(&mut r, 1, (80, 90), 1);
    switch(&mut r, 0, 95, (1, 1), 0); // asleep: it waits for work
    wakeup(&mut r, 0, 500, 1);
    switch(&mut r, 0, 505, (0, 0), 1);
    step(&mut r, 1, (510, 520), 1);
    let (collected, _) = run(&r);
    let between = |start: u64| {
        let step = collected.steps.iter().find(|step| step.start == start).unwrap();
        let between = step.between.as_ref()?;
        let states = between.states.iter().map(|of| (of.state, of.end - of.start)).collect::<Vec<_>>();
        Some((states, between.instead.iter().map(|of| (of.pid, of.end - of.start)).collect::<Vec<_>>()))
    };
    use ThreadState::{Runnable, Running, Sleeping};
    assert_eq!((between(10), between(40)), (None, None), "the first of their threads");
    assert_eq!(between(80), Some((vec![(Running, 10), (Runnable, 40), (Running, 10)], vec![(78, 40)])));
    let expected = vec![(Running, 5), (Sleeping, 405), (Runnable, 5), (Running, 5)];
    assert_eq!(between(510), Some((expected, vec![(0, 5)])));
    let totals = collected.statistics.threads().between(Phase::Decode).unwrap();
    let LaneThreads { wall, running, runnable, sleeping, idle, taken, .. } = totals.thread;
    assert_eq!((totals.steps, wall, running, runnable, sleeping), (2, 480, 30, 45, 405));
    assert_eq!((idle, taken, totals.taken[&78].ns), (5, 40, 40));
}

#[test]
fn an_operators_time_is_split_by_what_its_lanes_did() {
    let mut r = Records::default();
    thread(&mut r, 1, 0, 100);
    switch(&mut r, 0, 5, (77, 0), 1);
    created(&mut r, 2, 8);
    wakeup(&mut r, 0, 9, 2);
    switch(&mut r, 1, 9, (0, 0), 2);
    switch(&mut r, 1, 20, (2, 0), 78);
    switch(&mut r, 1, 40, (78, 0), 2);
    operator(&mut r, 1, (10, 30), 0, 0xa, 0);
    operator(&mut r, 2, (10, 50), 1, 0xa, 0);
    r.push("thread_exit", 2, (60, 60), &[]);
    graph(&mut r, 1, (9, 70));
    step(&mut r, 1, (5, 80), 1);
    let (collected, _) = run(&r);
    let step = &collected.steps[0];
    // Lane 0 worked 20 and then waited for the other one, which could not run for 20.
    let lane = |lane: usize| step.splits[lane];
    assert_eq!(lane(0), TimeSplit { compute: 20, waiting: 20, ..TimeSplit::default() });
    assert_eq!(lane(1), TimeSplit { compute: 20, runnable: 20, ..TimeSplit::default() });
    assert_eq!(instead(step), [(2, 78, false, Some(0), 20, 40)]);
    // A thread's time goes from when it could first run to its end.
    assert_eq!(states(step, 2), [('R', 9, 20), ('r', 20, 40), ('R', 40, 60)]);
    assert_eq!(step.cpus_allowed, Some(1));
    let totals = collected.statistics.threads();
    let taken: Vec<_> = totals.taken_from_lanes().map(|(_, lane, pid, taken)| (lane, pid, taken.ns)).collect();
    assert_eq!(taken, [(Some(1), 78, 20)]);
    assert_eq!(totals.crowd(), Some((2, 1)));
}

#[test]
fn waiting_that_a_probe_tells_ends_when_the_slowest_lane_is_done() {
    let mut r = Records::default();
    for (tid, cpu) in [(1, 1), (2, 2)] {
        thread(&mut r, tid, 0, 100);
        switch(&mut r, cpu, 1, (0, 0), tid);
    }
    // Lane 0 waits from 20 on; the slowest lane is done at 40, and from 40 to 45 it cannot continue.
    switch(&mut r, 1, 30, (1, 0), 78);
    switch(&mut r, 1, 45, (78, 0), 1);
    operator(&mut r, 1, (10, 45), 0, 0xa, 25);
    operator(&mut r, 2, (10, 45), 1, 0xa, 5);
    graph(&mut r, 1, (9, 70));
    step(&mut r, 1, (5, 80), 1);
    let (collected, _) = run(&r);
    let step = &collected.steps[0];
    assert_eq!(step.splits[0], TimeSplit { compute: 10, waiting: 20, runnable: 5, ..TimeSplit::default() });
    assert_eq!(step.splits[1], TimeSplit { compute: 35, ..TimeSplit::default() });
    assert_eq!(instead(step), [(1, 78, false, None, 30, 40), (1, 78, false, Some(0), 40, 45)]);
}

#[test]
fn what_may_be_missing_is_unknown() {
    let mut r = Records::default();
    thread(&mut r, 1, 0, 100);
    switch(&mut r, 0, 5, (77, 0), 1);
    // It ran, then came back without having been seen to leave.
    switch(&mut r, 0, 40, (78, 0), 1);
    step(&mut r, 1, (10, 60), 1);
    let (collected, _) = run(&r);
    assert_eq!(states(&collected.steps[0], 1), [('?', 10, 40), ('R', 40, 60)]);
    // A thread that slept and has its own record came back unseen.
    let mut r = Records::default();
    thread(&mut r, 1, 0, 100);
    switch(&mut r, 0, 5, (77, 0), 1);
    switch(&mut r, 0, 15, (1, 1), 0);
    operator(&mut r, 1, (30, 40), 0, 0xa, 0);
    step(&mut r, 1, (10, 60), 1);
    let (collected, _) = run(&r);
    assert_eq!(states(&collected.steps[0], 1), [('R', 10, 15), ('?', 15, 40), ('R', 40, 60)]);
    // Records were lost between 20 and 30.
    let mut r = Records::default();
    thread(&mut r, 1, 0, 100);
    switch(&mut r, 0, 5, (77, 0), 1);
    operator(&mut r, 1, (12, 20), 0, 0xa, 0);
    r.lose(1, 1);
    operator(&mut r, 1, (25, 30), 0, 0xa, 0);
    step(&mut r, 1, (10, 60), 1);
    let (collected, _) = run(&r);
    let step = &collected.steps[0];
    assert!(!step.complete);
    assert_eq!(states(step, 1), [('R', 10, 20), ('?', 20, 30), ('R', 30, 60)]);
    assert!(collected.statistics.threads().is_empty(), "it is excluded from the totals");
}

#[test]
fn who_ran_between_switches_that_are_not_recorded_is_not_said() {
    let mut r = Records::default();
    thread(&mut r, 1, 0, 100);
    switch(&mut r, 0, 5, (77, 0), 1);
    switch(&mut r, 0, 20, (1, 0), 78);
    switch(&mut r, 0, 30, (79, 0), 80); // 78 was not seen to leave
    switch(&mut r, 0, 40, (80, 0), 1);
    step(&mut r, 1, (10, 60), 1);
    let (collected, _) = run(&r);
    assert_eq!(instead(&collected.steps[0]), [(1, 80, false, None, 30, 40)]);
    let lanes: Vec<_> =
        collected.statistics.threads().lanes().map(|(_, _, lane)| (lane.runnable, lane.taken)).collect();
    assert_eq!(lanes, [(20, 10)]);
}

#[test]
fn without_switches_nothing_is_said_of_threads() {
    let mut r = Records::default();
    thread(&mut r, 1, 0, 100);
    operator(&mut r, 1, (12, 20), 0, 0xa, 0);
    step(&mut r, 1, (10, 60), 1);
    let (collected, _) = run(&r);
    let step = &collected.steps[0];
    assert!(step.states.is_empty() && step.splits.is_empty());
    assert_eq!(step.operators.first().and_then(|o| step.split_of(o)), None);
}
