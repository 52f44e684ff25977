//! Memory that the kernel took back for threads.

use super::*;
use profinfer_schema::{FieldLayout, FieldType, ReclaimKind, RecordKind, RecordType, Role};

fn records() -> Records {
    let mut records = Records::default();
    let fields = vec![FieldLayout { name: "reclaim_kind".into(), offset: 32, ty: FieldType::Uint(4) }];
    let (name, role) = ("reclaim".to_owned(), Some(Role::Reclaim));
    records.schema.records.push(RecordType { name, kind: RecordKind::Span, role, size: 40, fields });
    records
}

fn reclaim(records: &mut Records, tid: u32, time: (u64, u64), kind: ReclaimKind) {
    records.push("reclaim", tid, time, &[("reclaim_kind", Put::Int(kind as u64))]);
}

/// Thread 1 is off its cpu.
fn off(records: &mut Records, (start, end): (u64, u64), state: u64) {
    records.push("switch", 1, (start, start), &[("prev_state", Put::Int(state)), ("next_tid", Put::Int(9))]);
    records.push("switch", 9, (end, end), &[("next_tid", Put::Int(1))]);
}

/// A step from 100 to 1000 with operators from 200 to 400 and from 500 to 700.
fn step_with(make: impl FnOnce(&mut Records)) -> Collected {
    let mut records = records();
    thread(&mut records, 1, 10, 100);
    off(&mut records, (20, 30), 1);
    tensor(&mut records, 1, 40, 0x51, "MUL", "up-7");
    tensor(&mut records, 1, 40, 0x52, "MUL", "norm-8");
    make(&mut records);
    operator(&mut records, 1, (200, 400), 0, 0x51, 0);
    operator(&mut records, 1, (500, 700), 0, 0x52, 0);
    step(&mut records, 1, (100, 1000), 1);
    run(&records).0
}

#[test]
fn reclaim_is_of_its_operator_and_by_what_the_thread_did() {
    let found = step_with(|records| {
        off(records, (260, 270), 2); // blocked, within the first
        off(records, (280, 290), 0); // preempted, too
        reclaim(records, 1, (250, 300), ReclaimKind::Group);
        off(records, (310, 330), 2); // blocked, for something else
        reclaim(records, 1, (690, 720), ReclaimKind::Compaction); // a part of it is after the operator
        reclaim(records, 1, (800, 850), ReclaimKind::Machine);
        reclaim(records, 1, (990, 1010), ReclaimKind::Machine); // a part of it is after the step
    });
    let step = &found.steps[0];
    let split = |reclaiming, reclaim_blocked| (reclaiming, reclaim_blocked);
    let splits: Vec<_> = step.splits.iter().map(|of| split(of.reclaiming, of.reclaim_blocked)).collect();
    assert_eq!(splits, [(30, 10), (10, 0)]);
    assert_eq!((step.splits[0].compute, step.splits[0].blocked, step.splits[0].total()), (160, 30, 200));
    let reclaims = found.statistics.reclaims();
    let (steps, all) = reclaims.phase(Phase::Decode);
    let expected = ReclaimTotals { count: 4, ns: 140, machine: 60, group: 50, compaction: 30, longest: 50 };
    assert_eq!((steps, all), (1, expected));
    let operators: Vec<u64> = reclaims.operators().map(|(_, _, totals)| totals.ns).collect();
    assert_eq!((operators, reclaims.outside(Phase::Decode).ns), (vec![50, 30], 60));
    assert_eq!((reclaims.longest()[0].number, reclaims.longest()[0].totals), (1, all));
    let (_, _, lane) = found.statistics.threads().lanes().next().unwrap();
    assert_eq!((lane.reclaiming, lane.reclaim_blocked), (120, 10));
}

#[test]
fn a_trace_without_the_tracepoints_knows_nothing_of_reclaim() {
    let mut records = records();
    records.schema.records.last_mut().unwrap().role = None;
    assert!(!Reclaims::recorded_by(&records.schema));
    thread(&mut records, 1, 10, 100);
    step(&mut records, 1, (100, 1000), 1);
    let (found, _) = run(&records);
    assert!(!found.steps[0].knows_reclaims);
}

#[test]
fn work_of_a_fault_is_without_the_reclaim_in_it() {
    let mut records = records();
    let fields = vec![FieldLayout { name: "address".into(), offset: 32, ty: FieldType::Uint(8) }];
    let (name, role) = ("fault".to_owned(), Some(Role::Fault));
    records.schema.records.push(RecordType { name, kind: RecordKind::Mark, role, size: 40, fields });
    thread(&mut records, 1, 10, 100);
    off(&mut records, (200, 250), 2);
    off(&mut records, (310, 320), 0); // within the reclaim
    reclaim(&mut records, 1, (300, 400), ReclaimKind::Group);
    records.push("fault", 1, (420, 420), &[("address", Put::Int(1))]);
    step(&mut records, 1, (100, 1000), 1);
    let (found, _) = run(&records);
    let totals = found.steps[0].fetched[0].totals;
    // From the read's wait to the end; of it 50 to 300 and 400 to 420 on a cpu, outside of reclaim.
    assert_eq!((totals.waited, totals.on_cpu), (220, 70));
}
