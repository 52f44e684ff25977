//! What is judged at the borders, and what must not be claimed.

use super::judge::{Data, Judged, Limits, Work, judge, of};
use super::model::{Bound, Confidence, TimeParts};
use super::parts::LaneTime;
use super::phase::decide;
use std::collections::BTreeMap;

/// 20 GB/s, 40 GB/s from the last cache, 200 GFLOP/s; data that no cache holds.
fn machine() -> Limits {
    Limits {
        bandwidth: Some(20e9),
        bandwidth_of_all: Some(20e9),
        cache_bandwidth: Some(40e9),
        peak: Some(200e9),
        caches: Some(10e6),
        data: Data::Exceeds,
        exceeds_inner_caches: true,
        too_small_ns: 10_000.0,
        stolen: 0.0,
    }
}

/// One operator of a millisecond, so fast.
fn work(gflops: f64, gbytes: f64) -> Work {
    let costs = Some((gflops * 1e6, gbytes * 1e6));
    Work { count: 1, ran_ns: 1e6, costed_ns: 1e6, costs, ..Work::default() }
}

fn bound(work: &Work, limits: &Limits) -> (Bound, Confidence, Option<Bound>) {
    let Judged { bound, confidence, also, .. } = judge(work, limits);
    (bound, confidence, also)
}

/// An operator that calls others has a cost of zero, however long it takes.
#[test]
fn what_has_nothing_to_do_is_overhead() {
    assert_eq!(bound(&work(0.0, 0.0), &machine()), (Bound::Overhead, Confidence::Medium, None));
    assert_eq!(bound(&work(0.0, 40.0), &machine()).0, Bound::Memory);
}

#[test]
fn near_the_bandwidth_it_is_memory() {
    use Bound::{Compute, Memory};
    use Confidence::{High, Low, Medium};
    let of = |gbytes: f64| bound(&work(gbytes, gbytes), &machine());
    assert_eq!(of(19.0), (Memory, High, None));
    assert_eq!(of(14.1), (Memory, High, None));
    assert_eq!(of(13.9), (Memory, Medium, None));
    assert_eq!(of(11.0), (Memory, Medium, Some(Compute)), "close to what the processors would explain");
    assert_eq!(of(8.0), (Memory, Low, Some(Compute)));
    assert_eq!(of(6.0), (Compute, Low, None), "far from the bandwidth: not memory");
}

/// An engine with threads of its own beside the one that calls operators.
#[test]
fn faster_than_one_processor_can_read_it_is_the_memory_of_all() {
    let all = Limits { bandwidth_of_all: Some(40e9), ..machine() };
    let of_all = judge(&work(37.0, 37.0), &all);
    assert_eq!((of_all.bound, of_all.confidence, of_all.also), (Bound::Memory, Confidence::Medium, None));
    assert!(!of_all.rates.limited_by_cache, "as fast as the last cache, and out of memory");
    assert_eq!(bound(&work(60.0, 60.0), &all).0, Bound::Unknown, "faster than all memory and the last cache");
    let fits = judge(&work(37.0, 37.0), &Limits { data: Data::Fits, ..all });
    assert!(fits.bound == Bound::Memory && fits.rates.limited_by_cache, "it is the cache");
}

#[test]
fn small_operators_far_from_every_limit_are_overhead() {
    let fits = Limits { data: Data::Fits, ..machine() };
    let of = |ns: f64| Work { count: 1, ran_ns: ns, costed_ns: ns, costs: Some((6e2, 6e2)), ..Work::default() };
    assert_eq!(bound(&of(50_000.0), &Limits { ..fits }).0, Bound::Overhead);
    assert_eq!(bound(&work(0.1, 1.0), &fits).0, Bound::Compute, "a millisecond is no small operator");
}

/// The quota's part of what lanes could not run, and what waits for it.
#[test]
fn limits_of_groups_take_their_parts() {
    use super::parts::GroupLimits;
    let all = LaneTime { running: 40.0, waiting: 20.0, runnable: 40.0, blocked: 10.0, ..LaneTime::default() };
    let mut throttled = all;
    throttled.take_limits(GroupLimits { throttled: 0.75, reclaim: None });
    let parts = throttled.parts(2, Bound::Memory, Bound::Synchronisation);
    let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
    assert!(near(parts.throttled, 30.0 + 20.0 * 0.6) && near(parts.starved, 10.0 + 20.0 * 0.2), "{parts:?}");
    assert!(near(parts.total(), 110.0) && near(parts.memory, 40.0), "{parts:?}");
    let mut reclaim = all;
    reclaim.take_limits(GroupLimits { throttled: 0.0, reclaim: Some(0.5) });
    let parts = reclaim.parts(1, Bound::Memory, Bound::Synchronisation);
    assert!(near(parts.reclaim, 30.0) && near(parts.memory, 20.0) && near(parts.disk, 0.0), "{parts:?}");
    let stopped = LaneTime { running: 30.0, stopped: 70.0, ..LaneTime::default() };
    assert!(near(stopped.parts(1, Bound::Compute, Bound::Synchronisation).stopped, 70.0));
}

#[test]
fn what_explains_nothing_of_the_time_is_not_what_limits() {
    let fits = Limits { data: Data::Fits, ..machine() };
    for limits in [machine(), fits] {
        assert_eq!(bound(&work(0.1, 0.1), &limits), (Bound::Unknown, Confidence::Low, None));
        assert_eq!(bound(&work(0.1, 1.0), &limits).0, Bound::Compute);
    }
}

#[test]
fn what_caches_hold_is_no_claim_on_memory() {
    use Bound::{Compute, Memory, Unknown};
    let fits = Limits { data: Data::Fits, ..machine() };
    assert_eq!(bound(&work(18.0, 18.0), &fits).0, Compute);
    assert_eq!(bound(&work(25.0, 25.0), &fits), (Memory, Confidence::Low, None), "near the cache's bandwidth");
    assert_eq!(bound(&work(21.0, 21.0), &fits), (Memory, Confidence::Low, Some(Compute)));
    let judged = judge(&work(30.0, 30.0), &fits);
    assert_eq!((judged.bound, judged.confidence), (Memory, Confidence::Medium), "at the cache's bandwidth");
    assert_eq!((judged.rates.bandwidth_limit, judged.rates.limited_by_cache), (Some(40e9), true));
    let inner = Limits { exceeds_inner_caches: false, ..fits };
    assert_eq!(bound(&work(30.0, 30.0), &inner).0, Unknown, "out of caches whose limit is another");
    assert_eq!(bound(&work(50.0, 50.0), &fits).0, Unknown, "from the caches before the last one");
    // Faster than memory: it came from caches, whatever its stated size.
    let faster = judge(&work(24.0, 24.0), &machine());
    assert_eq!((faster.bound, faster.confidence, faster.rates.limited_by_cache), (Memory, Confidence::Low, true));
    let partly = Limits { data: Data::Partly, ..machine() };
    assert_eq!(bound(&work(19.0, 19.0), &partly), (Memory, Confidence::Medium, None));
    let not_known = Limits { data: Data::NotKnown, ..machine() };
    assert_eq!(bound(&work(19.0, 19.0), &not_known).1, Confidence::Medium);
}

#[test]
fn many_operations_for_each_byte_are_compute() {
    use Bound::Compute;
    assert_eq!(bound(&work(150.0, 1.0), &machine()), (Compute, Confidence::High, None));
    // The ridge is at 10 operations for each byte.
    assert_eq!(bound(&work(30.0, 2.9), &machine()), (Compute, Confidence::Medium, None));
    assert_eq!(bound(&work(30.0, 3.1), &machine()), (Compute, Confidence::Low, None));
}

#[test]
fn without_limits_nothing_is_claimed_of_memory() {
    let none = Limits { too_small_ns: 10_000.0, ..Limits::default() };
    assert_eq!(bound(&work(10.0, 10.0), &none).0, Bound::Unknown);
    assert_eq!(bound(&work(99.0, 1.0), &none).0, Bound::Unknown);
    assert_eq!(bound(&work(101.0, 1.0), &none), (Bound::Compute, Confidence::Low, None), "of shapes alone");
    let uncosted = Work { costs: None, ..work(0.0, 0.0) };
    assert_eq!(bound(&uncosted, &machine()).0, Bound::Unknown);
}

#[test]
fn operators_near_the_shortest_are_too_small() {
    let small = |ns: f64, gbytes: f64| {
        let costs = Some((0.0, gbytes * ns));
        Work { count: 1, ran_ns: ns, costed_ns: ns, costs, ..Work::default() }
    };
    assert_eq!(bound(&small(3_000.0, 1.0), &machine()), (Bound::Overhead, Confidence::High, None));
    assert_eq!(bound(&small(9_999.0, 1.0), &machine()), (Bound::Overhead, Confidence::Medium, None));
    assert_ne!(bound(&small(10_001.0, 1.0), &machine()).0, Bound::Overhead);
    assert_eq!(bound(&small(9_999.0, 15.0), &machine()).0, Bound::Memory, "short, and at a limit all the same");
}

#[test]
fn counters_decide_where_rates_do_not() {
    let stalled = Work { stalled: Some(0.7), ..work(4.0, 4.0) };
    assert_eq!(bound(&stalled, &machine()), (Bound::Memory, Confidence::Medium, None));
    let busy = Work { stalled: Some(0.1), ..work(4.0, 4.0) };
    assert_eq!(bound(&busy, &machine()), (Bound::Compute, Confidence::Medium, None));
    let counted = Work { counted: Some(15e9), ..work(4.0, 4.0) };
    assert_eq!(bound(&counted, &machine()), (Bound::Memory, Confidence::High, None));
    let few = Work { counted: Some(1e9), ..work(19.0, 19.0) };
    assert_eq!(bound(&few, &machine()).0, Bound::Memory, "lines that are fetched ahead are often not counted");
}

#[test]
fn what_the_host_takes_makes_it_less_sure() {
    let sure = |stolen: f64| bound(&work(19.0, 19.0), &Limits { stolen, ..machine() }).1;
    assert_eq!(
        [0.0, 0.049, 0.05, 0.2].map(sure),
        [Confidence::High, Confidence::High, Confidence::Medium, Confidence::Low]
    );
    let at_most = Work { at_most: true, ..work(19.0, 19.0) };
    assert_eq!(bound(&at_most, &machine()).1, Confidence::Medium, "experts that may not have been used");
}

#[test]
fn waiting_is_put_down_to_what_was_waited_for() {
    let time = LaneTime { running: 60.0, waiting: 30.0, runnable: 10.0, ..LaneTime::default() };
    let parts = time.parts(2, Bound::Memory, Bound::Synchronisation);
    assert_eq!((parts.memory, parts.starved, parts.synchronisation), (60.0, 20.0, 20.0));
    let four = time.parts(4, Bound::Memory, Bound::Synchronisation);
    assert_eq!((four.starved, four.synchronisation), (40.0, 0.0), "three lanes wait for the one that could not run");
    let disk = LaneTime { blocked: 30.0, waiting: 40.0, runnable: 10.0, ..LaneTime::default() };
    let parts = disk.parts(2, Bound::Unknown, Bound::Synchronisation);
    assert_eq!((parts.disk, parts.starved), (60.0, 20.0));
    for (lanes, bound) in [(1, Bound::Memory), (2, Bound::Overhead), (8, Bound::Compute)] {
        let (prevented, running) = (LaneTime { runnable: 1.0, blocked: 3.0, ..LaneTime::default() }, 5.0);
        let all = LaneTime { running, waiting: 7.0, sleeping: 2.0, unknown: 4.0, ..prevented };
        assert!((all.parts(lanes, bound, Bound::Synchronisation).total() - 22.0).abs() < 1e-9, "nothing is lost");
    }
}

#[test]
fn what_a_fault_needs_of_a_cpu_is_no_work() {
    let mut time = LaneTime { running: 60.0, blocked: 20.0, ..LaneTime::default() };
    time.take_faults(50);
    let parts = time.parts(1, Bound::Compute, Bound::Synchronisation);
    assert_eq!((parts.disk, parts.compute), (70.0, 10.0));
    time.take_faults(50);
    assert_eq!(time.parts(1, Bound::Compute, Bound::Synchronisation).total(), 80.0, "no more than was there");
}

#[test]
fn a_lane_alone_waits_for_nobody() {
    let time = LaneTime { running: 60.0, waiting: 40.0, ..LaneTime::default() };
    assert_eq!(time.parts(1, Bound::Compute, Bound::Synchronisation).overhead, 40.0);
    assert_eq!(time.parts(1, Bound::Compute, Bound::Synchronisation).synchronisation, 0.0);
    assert_eq!(
        time.parts(2, Bound::Overhead, Bound::Overhead).overhead,
        100.0,
        "operators that are too small cannot be shared evenly"
    );
}

#[test]
fn the_largest_part_decides_and_a_close_one_is_named() {
    let sure = BTreeMap::from([(Confidence::High, 1.0)]);
    let parts = TimeParts { memory: 70.0, starved: 20.0, overhead: 10.0, ..TimeParts::default() };
    assert_eq!(decide(&parts, &sure), (Bound::Memory, Confidence::High, None));
    let close = TimeParts { memory: 40.0, starved: 30.0, overhead: 30.0, ..TimeParts::default() };
    assert_eq!(decide(&close, &sure), (Bound::Memory, Confidence::Medium, Some(Bound::Starved)));
    // No cause is named where the unknown part exceeds every cause; the recorded parts stand beside it.
    let unknown = TimeParts { unknown: 50.0, disk: 40.0, compute: 10.0, ..TimeParts::default() };
    assert_eq!(decide(&unknown, &sure), (Bound::Unknown, Confidence::Low, Some(Bound::Disk)));
    let as_much = TimeParts { unknown: 40.0, disk: 40.0, compute: 20.0, ..TimeParts::default() };
    assert_eq!(decide(&as_much, &sure), (Bound::Disk, Confidence::Medium, Some(Bound::Unknown)));
    let dark = TimeParts { unknown: 80.0, disk: 20.0, ..TimeParts::default() };
    assert_eq!(decide(&dark, &sure), (Bound::Unknown, Confidence::Low, None));
}

#[test]
fn data_fits_partly_or_not() {
    let of = |bytes: Option<f64>| Data::new(bytes, Some(100.0));
    assert_eq!(
        [of(Some(75.0)), of(Some(76.0)), of(Some(201.0)), of(None)],
        [Data::Fits, Data::Partly, Data::Exceeds, Data::NotKnown]
    );
    assert_eq!(Data::new(Some(1.0), None), Data::NotKnown);
}

#[test]
fn a_unit_stands_once() {
    assert_eq!(of(21.4e9, Some(24e9), "B/s"), "21.4 of 24 GB/s");
    assert_eq!(of(800e6, Some(24e9), "B/s"), "800 MB/s of 24 GB/s");
    assert_eq!(of(21.4e9, None, "B/s"), "21.4 GB/s");
}
