//! When a device had work, when it certainly had none, and what the host did: of steps whose times are written here.

use super::*;
use crate::{DeviceUse, HostWork};

fn submit(r: &mut Records, span: (u64, u64), queue: u64, fence: u64) {
    r.push("submit", 1, span, &[("queue", Put::Int(queue)), ("fence", Put::Int(fence))]);
}

fn wait(r: &mut Records, span: (u64, u64), fence: u64) {
    r.push("wait_fence", 1, span, &[("fence", Put::Int(fence))]);
}

fn copy(r: &mut Records, span: (u64, u64)) {
    r.push("copy", 1, span, &[("bytes", Put::Int(64)), ("direction", Put::Int(1))]);
}

fn encode(r: &mut Records, span: (u64, u64)) {
    r.push("dispatch", 1, span, &[("encoded", Put::Int(1))]);
}

fn use_of(r: &Records, phase: Phase) -> DeviceUse {
    run(r).0.statistics.offloads().device_use(phase).unwrap_or_default()
}

/// What is not 0.
fn parts(of: &crate::HostTime) -> Vec<(HostWork, u64)> {
    HostWork::ALL.into_iter().map(|what| (what, of[what])).filter(|(_, ns)| *ns > 0).collect()
}

/// A step of 100 ns whose results are there after 130; it encodes, copies, submits and waits.
fn a_step(r: &mut Records, at: u64, tokens: u64) {
    copy(r, (at + 5, at + 15));
    encode(r, (at + 20, at + 40));
    submit(r, (at + 40, at + 50), 7, 0);
    encode(r, (at + 60, at + 70));
    submit(r, (at + 80, at + 85), 7, 9);
    step(r, 1, (at, at + 100), tokens);
    wait(r, (at + 110, at + 130), 9);
}

#[test]
fn a_decode_step_begins_with_the_results_before_it() {
    use HostWork::{Between, Copying, Encoding, Other, Submitting, Waiting};
    let mut r = Records::default();
    thread(&mut r, 1, 0, 100);
    a_step(&mut r, 1000, 4);
    a_step(&mut r, 1300, 1);
    let prefill = use_of(&r, Phase::Prefill);
    assert_eq!((prefill.steps, prefill.time, prefill.idle(), prefill.pending()), (1, 130, 40, 90));
    assert_eq!(parts(&prefill.while_idle), [(Copying, 10), (Encoding, 20), (Other, 10)]);
    assert_eq!(
        parts(&prefill.while_pending),
        [(Waiting, 20), (Submitting, 15), (Encoding, 10), (Other, 35), (Between, 10)]
    );
    let decode = use_of(&r, Phase::Decode);
    assert_eq!((decode.steps, decode.time, decode.idle(), decode.gaps), (1, 300, 210, 1));
    assert_eq!(parts(&decode.while_idle), [(Copying, 10), (Encoding, 20), (Other, 10), (Between, 170)]);
    let gap = decode.longest[0];
    assert_eq!((gap.step, gap.start, gap.end, gap.host), (2, 1130, 1340, decode.while_idle));
}

/// Its results are there before it returns: the gap goes on into the next step, and is one.
#[test]
fn a_gap_goes_on_from_step_to_step() {
    let mut r = Records::default();
    thread(&mut r, 1, 0, 100);
    for at in [1000, 1200] {
        submit(&mut r, (at + 10, at + 12), 7, 9);
        wait(&mut r, (at + 20, at + 30), 9);
        step(&mut r, 1, (at, at + 100), 1);
    }
    let decode = use_of(&r, Phase::Decode);
    assert_eq!((decode.steps, decode.time, decode.pending()), (2, 300, 40));
    let gaps: Vec<(u64, u64, u64)> = decode.longest.iter().map(|gap| (gap.step, gap.start, gap.end)).collect();
    assert_eq!(gaps, [(2, 1030, 1210), (2, 1230, 1300), (1, 1000, 1010)]);
    assert_eq!(decode.gaps, 3);
}

/// What fetches results follows at once. A copy that comes long after is of the next request.
#[test]
fn a_copy_long_after_a_step_is_not_its_result() {
    let fetched_at = |at: u64| {
        let mut r = Records::default();
        thread(&mut r, 1, 0, 100);
        a_step(&mut r, 1000, 4);
        submit(&mut r, (at + 1, at + 2), 7, 3);
        wait(&mut r, (at + 3, at + 10), 3);
        copy(&mut r, (at, at + 10));
        a_step(&mut r, 60_100, 1);
        (use_of(&r, Phase::Prefill).time, use_of(&r, Phase::Decode).steps)
    };
    assert_eq!(fetched_at(1150), (160, 1));
    assert_eq!(fetched_at(60_000), (130, 1));
}

/// A copy call that submits and waits is copying, until something else is pending.
#[test]
fn a_wait_within_a_copy_is_for_the_copy_alone() {
    let mut r = Records::default();
    thread(&mut r, 1, 0, 100);
    // Another copy lies within the first.
    copy(&mut r, (1002, 1004));
    submit(&mut r, (1005, 1006), 7, 1);
    wait(&mut r, (1010, 1030), 1);
    copy(&mut r, (1000, 1040));
    submit(&mut r, (1050, 1051), 7, 0);
    submit(&mut r, (1061, 1062), 7, 2);
    wait(&mut r, (1065, 1080), 2);
    copy(&mut r, (1060, 1090));
    step(&mut r, 1, (1000, 1100), 1);
    let decode = use_of(&r, Phase::Decode);
    let host = decode.host();
    assert_eq!((host[HostWork::Copying], host[HostWork::Waiting]), (55, 15));
    assert_eq!(decode.copying_with_work, 5, "before the wait, while the submission before the copy is pending");
    assert_eq!(decode.idle(), 5 + 20 + 20);
}

#[test]
fn work_without_an_end_leaves_its_step_and_the_next_one_out() {
    let mut r = Records::default();
    thread(&mut r, 1, 0, 100);
    for (at, is_waited_for) in [(1000, false), (1200, true), (1400, true)] {
        submit(&mut r, (at + 10, at + 12), 7, 9);
        if is_waited_for {
            wait(&mut r, (at + 20, at + 30), 9);
        }
        step(&mut r, 1, (at, at + 100), 1);
    }
    let decode = use_of(&r, Phase::Decode);
    assert_eq!((decode.steps, decode.without_end, decode.time), (1, 2, 100));
}

/// The end of another queue's work proves nothing.
#[test]
fn a_queue_that_is_never_waited_for_leaves_all_steps_out() {
    let mut r = Records::default();
    thread(&mut r, 1, 0, 100);
    for at in [1000, 1200, 1400] {
        if at == 1000 {
            submit(&mut r, (at + 5, at + 6), 8, 0);
        }
        submit(&mut r, (at + 10, at + 12), 7, 9);
        wait(&mut r, (at + 20, at + 30), 9);
        step(&mut r, 1, (at, at + 100), 1);
    }
    let decode = use_of(&r, Phase::Decode);
    assert_eq!((decode.steps, decode.without_end), (0, 3));
}

/// The second thread's work fills what looks like the first one's gap.
#[test]
fn steps_of_two_threads_that_overlap_are_left_out() {
    let mut r = Records::default();
    thread(&mut r, 1, 0, 100);
    thread(&mut r, 2, 0, 100);
    for (tid, at) in [(1, 1000), (2, 1050), (1, 1300)] {
        r.push("submit", tid, (at + 10, at + 12), &[("queue", Put::Int(tid.into())), ("fence", Put::Int(tid.into()))]);
        r.push("wait_fence", tid, (at + 20, at + 30), &[("fence", Put::Int(tid.into()))]);
        step(&mut r, tid, (at, at + 100), 1);
    }
    let decode = use_of(&r, Phase::Decode);
    assert_eq!((decode.steps, decode.overlapping), (1, 2));
}

/// After a step with losses, work of it may be pending.
#[test]
fn a_step_after_one_with_losses_is_left_out() {
    for with_losses in [1000, 1200] {
        let mut r = Records::default();
        thread(&mut r, 1, 0, 100);
        for at in [1000, 1200, 1400, 1600] {
            submit(&mut r, (at + 10, at + 12), 7, 9);
            if at == with_losses {
                r.lose(1, 1);
            }
            wait(&mut r, (at + 20, at + 30), 9);
            step(&mut r, 1, (at, at + 100), 1);
        }
        let decode = use_of(&r, Phase::Decode);
        assert_eq!((decode.steps, decode.without_end), (2, 1), "losses at {with_losses}");
    }
}

/// A function that polls, and what it calls: the time is the outer one's, and the end of the work the inner one's.
#[test]
fn a_wait_within_a_wait_counts_once() {
    let mut r = Records::default();
    thread(&mut r, 1, 0, 100);
    submit(&mut r, (1010, 1012), 7, 9);
    wait(&mut r, (1040, 1045), 9);
    wait(&mut r, (1020, 1050), 0);
    wait(&mut r, (1060, 1070), 0);
    step(&mut r, 1, (1000, 1100), 1);
    let decode = use_of(&r, Phase::Decode);
    assert_eq!((decode.host()[HostWork::Waiting], decode.pending()), (25, 35));
    let statistics = run(&r).0.statistics;
    let waits = statistics.offloads().waits(Phase::Decode).unwrap();
    assert_eq!((waits.count, waits.time), (2, 40));
}

#[test]
fn without_steps_it_is_from_the_first_submission_to_the_last_end() {
    let mut r = Records::default();
    thread(&mut r, 1, 0, 100);
    for at in [1000, 1200] {
        submit(&mut r, (at + 10, at + 12), 7, 9);
        wait(&mut r, (at + 20, at + 30), 9);
    }
    submit(&mut r, (1500, 1501), 7, 9);
    let outside = use_of(&r, Phase::Outside);
    assert_eq!((outside.time, outside.pending(), outside.idle(), outside.gaps), (220, 40, 180, 1));
    assert_eq!(outside.endless, 0, "nothing is known of what comes after");
}

/// What has no end may be pending; what the host does is known all the same.
#[test]
fn without_steps_work_without_an_end_is_pending() {
    let mut r = Records::default();
    thread(&mut r, 1, 0, 100);
    submit(&mut r, (1010, 1012), 8, 0);
    for at in [1000, 1200] {
        submit(&mut r, (at + 10, at + 12), 7, 9);
        wait(&mut r, (at + 20, at + 30), 9);
    }
    let outside = use_of(&r, Phase::Outside);
    assert_eq!((outside.time, outside.pending(), outside.host()[HostWork::Waiting]), (220, 220, 20));
    assert_eq!(outside.endless, 1);
}

/// Steps of a second whose results come up to 1.5 s after them, as whoever follows the recording gets them: the same as
/// from the whole trace.
#[test]
fn steps_that_are_followed_have_their_queues_events() {
    const MS: u64 = 1_000_000;
    let mut r = Records::default();
    thread(&mut r, 1, 0, 100);
    for (at, results) in [(1000, 200), (3000, 1500), (6000, 1500), (8600, 100), (20_000, 200), (22_000, 200)] {
        for from in [20, 300, 600, 900] {
            encode(&mut r, ((at + from) * MS, (at + from + 40) * MS));
            submit(&mut r, ((at + from + 50) * MS, (at + from + 60) * MS), 7, at + from);
        }
        step(&mut r, 1, (at * MS, (at + 1000) * MS), 1);
        wait(&mut r, ((at + 1001) * MS, (at + 1000 + results) * MS), at + 900);
    }
    let whole = use_of(&r, Phase::Decode);
    assert_eq!((whole.steps, whole.without_end), (6, 0), "{whole:?}");

    let mut timeline = Timeline::new(&r.schema, Rules::default(), 100);
    let mut collected = Collected::default();
    let mut now = 0;
    for record in &r.records {
        let time = crate::raw::Header::read(record).unwrap().end;
        for tick in (now / (200 * MS) + 1)..=(time / (200 * MS)) {
            timeline.settle_before((tick * 200 * MS).saturating_sub(300 * MS), &mut collected);
        }
        now = time;
        timeline.record(record, &mut collected);
    }
    timeline.finish(&mut collected);
    assert_eq!(collected.statistics.offloads().device_use(Phase::Decode).unwrap_or_default(), whole);
}
