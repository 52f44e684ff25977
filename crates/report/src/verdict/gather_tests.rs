//! Whose time it is: operators of fewer lanes than the phase has, and of more threads than its lanes.

use super::*;
use crate::tests::rules;
use crate::verdict::model::PhaseVerdict;
use profinfer_analysis::testing::{Put, Records};
use profinfer_schema::Figure;

/// One processor computes 10 GFLOP/s and reads 10 GB/s, two twice that.
fn machine() -> Roofline {
    let figure = |quantity, level, cpus: u32| Figure {
        quantity,
        level,
        cpus,
        core_type: None,
        instructions: String::new(),
        working_set: 0,
        repetitions: 4,
        best: u64::from(cpus) * 10_000_000_000,
        median: 0,
        low: 0,
        high: 0,
        off_cpu_percent: 0,
    };
    let of = |cpus| [figure(Quantity::Read, Some(Level::Memory), cpus), figure(Quantity::Fp32, None, cpus)];
    Roofline { cpus: 2, figures: [of(1), of(2)].concat(), ..Roofline::default() }
}

/// The decode phase of these records.
fn decode_of(r: &Records, analysis: &str) -> (PhaseVerdict, Vec<super::super::OperatorVerdict>) {
    let mut timeline = Timeline::new(&r.schema, rules(analysis), 1);
    let mut statistics = Statistics::default();
    r.records.iter().for_each(|record| timeline.record(record, &mut statistics));
    timeline.finish(&mut statistics);
    let mut meta = Meta::default();
    meta.origin.host.cpus = 2;
    meta.origin.roofline = Some(machine());
    let source = Source { meta: &meta, statistics: &statistics, timeline: &timeline, samples: None };
    let phase = source.phase(Phase::Decode).unwrap();
    let operators = phase.operators().collect();
    (phase.verdict(), operators)
}

/// Decode steps of a millisecond on two lanes: a sum of both, and for 800 us a product of the first lane in a graph of
/// its own, at so many GFLOP/s.
fn judged(gflops: u64) -> (PhaseVerdict, Vec<super::super::OperatorVerdict>) {
    let mut r = Records::default();
    for tid in [1, 2] {
        r.push("thread", tid, (1, 1), &[("pid", Put::Int(1))]);
    }
    let flops = i64::try_from(gflops * 800_000).unwrap();
    for (address, op, shape) in [(0xa, "ADD", 1), (0xb, "MUL_MAT", flops)] {
        let shape = [shape, 1, 1, 1];
        let fields = [("address", Put::Int(address)), ("op", Put::Text(op)), ("shape", Put::List(&shape))];
        r.push("tensor", 1, (1, 1), &fields);
    }
    let operator = |r: &mut Records, tid: u32, span: (u64, u64), node: u64| {
        let lane = u64::from(tid - 1);
        r.push("operator", tid, span, &[("lane", Put::Int(lane)), ("node", Put::Int(node)), ("waiting", Put::Int(0))]);
    };
    for at in (1..21).map(|step| step * 1_000_000) {
        operator(&mut r, 1, (at + 10_000, at + 100_000), 0xa);
        operator(&mut r, 2, (at + 10_000, at + 100_000), 0xa);
        r.push("graph", 1, (at + 5_000, at + 105_000), &[("backend", Put::Text("cpu"))]);
        operator(&mut r, 1, (at + 110_000, at + 910_000), 0xb);
        r.push("graph", 1, (at + 105_000, at + 915_000), &[("backend", Put::Text("library"))]);
        r.push("step", 1, (at, at + 1_000_000), &[("tokens", Put::Int(1))]);
    }
    decode_of(&r, "costs: { MUL_MAT: { flops: 'shape[0]', bytes: 1000 }, ADD: { flops: 90000, bytes: 1000 } }")
}

/// One lane is done after 390 us; the other after 790, of which it could not run for 390. Nothing tells of waiting.
#[test]
fn waiting_for_the_slowest_lane_is_no_overhead_as_well() {
    let mut r = Records::default();
    for tid in [1, 2] {
        r.push("thread", tid, (1, 1), &[("pid", Put::Int(1))]);
    }
    let mut switch = |tid: u32, at: u64, next: u64, cpu: u8| {
        r.push("switch", tid, (at, at), &[("prev_state", Put::Int(0)), ("next_tid", Put::Int(next))]);
        r.records.last_mut().unwrap()[4] = cpu;
    };
    switch(77, 5, 1, 0);
    switch(78, 6, 2, 1);
    let at = 1_000_000;
    switch(2, at + 200_000, 79, 1);
    switch(79, at + 590_000, 2, 1);
    for (tid, until) in [(1, 400_000), (2, 800_000)] {
        let fields = [("lane", Put::Int(u64::from(tid - 1))), ("node", Put::Int(0xa))];
        r.push("fused", tid, (at + 10_000, at + until), &fields);
    }
    r.push("graph", 1, (at + 5_000, at + 990_000), &[("backend", Put::Text("cpu"))]);
    r.push("step", 1, (at, at + 1_000_000), &[("tokens", Put::Int(1))]);
    let (phase, _) = decode_of(&r, "");
    // 390 us, and 390 of the 400 in which the other lane waits.
    assert!((phase.parts.starved - 0.39).abs() < 1e-6, "{phase:#?}");
    // 2 ms without 790 at work, and 790 of delay and of waiting.
    assert!((phase.parts.overhead - 0.21).abs() < 1e-6, "{phase:#?}");
}

#[test]
fn lanes_that_a_library_s_graph_leaves_out_are_no_overhead() {
    let (phase, operators) = judged(8);
    // Of 2 ms: 180 us in sums, 800 in products, and 810 of the lane that is left out; the rest is around operators.
    assert_eq!(phase.bound, Bound::Compute, "{phase:#?}");
    assert!((phase.parts.overhead - 0.105).abs() < 1e-6, "{phase:#?}");
    assert!((phase.parts.compute - 0.895).abs() < 1e-6, "{phase:#?}");
    let product = operators.iter().find(|row| row.op == "MUL_MAT").unwrap();
    assert_eq!(product.rates.flops_per_s, Some(8e9), "of the time that it took");
    assert_eq!(product.rates.peak_limit, Some(10e9), "one lane computes it");
    let sum = operators.iter().find(|row| row.op == "ADD").unwrap();
    assert_eq!(sum.rates.peak_limit, Some(20e9));
}

#[test]
fn what_is_faster_than_its_lanes_can_be_has_other_threads() {
    let (phase, operators) = judged(16);
    assert_eq!(phase.bound, Bound::Compute, "{phase:#?}");
    let product = operators.iter().find(|row| row.op == "MUL_MAT").unwrap();
    assert_eq!((product.rates.flops_per_s, product.rates.peak_limit), (Some(16e9), Some(20e9)));
}
