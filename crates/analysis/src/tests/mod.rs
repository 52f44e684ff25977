//! Synthetic traces with predetermined numbers.

mod concurrent;
mod counts;
mod device_use;
mod faults;
mod graph;
mod hostile;
mod offload;
mod placing;
mod reclaim;
mod samples;
mod shares;
mod states;
mod totals;

use super::testing::{Put, Records, site};
use super::*;

/// Collects every step.
#[derive(Default)]
struct Collected {
    steps: Vec<Step>,
    statistics: Statistics,
}

impl Visitor for Collected {
    fn step(&mut self, step: &Step, catalogue: &Catalogue, decoder: &Decoder) {
        self.statistics.step(step, catalogue, decoder);
        self.steps.push(step.clone());
    }
}

fn run(records: &Records) -> (Collected, Timeline) {
    run_with(records, Rules::default())
}

fn run_with(records: &Records, rules: Rules) -> (Collected, Timeline) {
    let mut timeline = Timeline::new(&records.schema, rules, 100);
    timeline.add_sites(&[site(0, &["norm_mul"]), site(1, &["softmax"])]);
    let mut collected = Collected::default();
    for record in &records.records {
        timeline.record(record, &mut collected);
    }
    timeline.finish(&mut collected);
    collected.steps.sort_by_key(|s| (s.number == 0, s.number));
    (collected, timeline)
}

/// The operators of a step as `(name, start, end, work, waiting, lanes)`.
fn operators(step: &Step, timeline: &Timeline) -> Vec<(String, u64, u64, u64, u64, Vec<u32>)> {
    let view = |o: &Operator| {
        let name = timeline.catalogue().kind(o.kind).name.to_string();
        (name, o.start, o.end, o.work, o.waiting, step.lanes_of(o).iter().map(|l| l.lane).collect())
    };
    step.operators.iter().map(view).collect()
}

fn tensor(records: &mut Records, tid: u32, time: u64, address: u64, op: &str, name: &str) {
    let fields = [
        ("address", Put::Int(address)),
        ("op", Put::Text(op)),
        ("name", Put::Text(name)),
        ("dtype", Put::Text("f32")),
        ("shape", Put::List(&[8, 2, 1, 1])),
    ];
    records.push("tensor", tid, (time, time), &fields);
}

fn operator(records: &mut Records, tid: u32, span: (u64, u64), lane: u64, node: u64, waiting: u64) {
    let fields = [("lane", Put::Int(lane)), ("node", Put::Int(node)), ("waiting", Put::Int(waiting))];
    records.push("operator", tid, span, &fields);
}

fn thread(records: &mut Records, tid: u32, time: u64, pid: u32) {
    records.push("thread", tid, (time, time), &[("pid", Put::Int(u64::from(pid)))]);
}

fn step(records: &mut Records, tid: u32, span: (u64, u64), tokens: u64) {
    records.push("step", tid, span, &[("tokens", Put::Int(tokens))]);
}

fn graph(records: &mut Records, tid: u32, span: (u64, u64)) {
    records.push("graph", tid, span, &[("backend", Put::Text("CPU"))]);
}
