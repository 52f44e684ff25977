//! Sections of small traces.

use super::*;
use crate::{GraphReport, Options, build};
use profinfer_analysis::testing::{Put, Records};
use profinfer_analysis::{Decoder, GraphFinder, Rules, Step, Visitor, Wanted};

/// What is gathered of a trace.
struct Gathered {
    statistics: Statistics,
    study: Study,
    finder: GraphFinder,
}

impl Visitor for Gathered {
    fn step(&mut self, step: &Step, catalogue: &Catalogue, decoder: &Decoder) {
        self.statistics.step(step, catalogue, decoder);
        self.study.step(step, catalogue, decoder);
        self.finder.step(step, catalogue, decoder);
    }
}

fn of(records: &Records) -> (StatisticsReport, GraphReport) {
    let mut timeline = Timeline::new(&records.schema, Rules::default(), 1);
    let finder = GraphFinder::new(Wanted::Typical { phase: None });
    let mut gathered = Gathered { statistics: Statistics::default(), study: Study::default(), finder };
    records.records.iter().for_each(|record| timeline.record(record, &mut gathered));
    timeline.finish(&mut gathered);
    let Gathered { statistics, study, finder } = gathered;
    let mut meta = Meta::default();
    meta.schema = records.schema.clone();
    let completeness = Completeness::judge(&meta, timeline.findings(), &statistics);
    let graph = finder.finish(timeline.catalogue()).unwrap();
    let graph = GraphReport::new(&graph, (&meta, &timeline), completeness.clone(), &study.layers);
    let report = build(&meta, completeness, &statistics, &timeline, &Options::default());
    (build_statistics(&meta, &report, (&statistics, &study), &timeline, &[]), graph)
}

/// `linear` takes 10 µs, 9.9 of them in `addmm`, which it calls.
#[test]
fn an_operator_that_another_called_counts_once() {
    let mut r = Records::default();
    r.push("thread", 1, (0, 0), &[("pid", Put::Int(100))]);
    for at in [1000, 21_000] {
        r.push("call", 1, (at + 150, at + 10_050), &[("op", Put::Text("addmm"))]);
        r.push("call", 1, (at + 100, at + 10_100), &[("op", Put::Text("linear"))]);
        r.push("step", 1, (at, at + 11_000), &[("tokens", Put::Int(1))]);
    }
    let (statistics, graph) = of(&r);
    let types = statistics.work.unwrap().types;
    let rows: Vec<(&str, u64, u64, f64)> = types
        .iter()
        .map(|row| (&*row.op, row.total_ns, (row.share * 100.0).round() as u64, row.points[0].mean_ns))
        .collect();
    assert_eq!(rows, [("addmm", 19_800, 99, 9900.0), ("linear", 200, 1, 10_000.0)]);
    assert!((graph.critical_path.share_of_operators - 1.0).abs() < 1e-9, "{:?}", graph.critical_path);
}

/// A prompt is computed on four lanes, tokens on two of them.
#[test]
fn waiting_is_per_operator_that_several_lanes_share() {
    let mut r = Records::default();
    for tid in 1..=4 {
        r.push("thread", tid, (0, 0), &[("pid", Put::Int(100))]);
    }
    let mut step = |at: u64, tokens: u64, operators: u64, (lanes, waiting): (u32, u64)| {
        for operator in 0..operators {
            let span = (at + 10 + operator * 100, at + 110 + operator * 100);
            for lane in 0..lanes {
                let waits = if lane + 1 == lanes { waiting } else { 0 };
                let fields = [("lane", Put::Int(lane.into())), ("node", Put::Int(0xa)), ("waiting", Put::Int(waits))];
                r.push("operator", 1 + lane, span, &fields);
            }
        }
        // On one lane.
        let span = (at + 20 + operators * 100, at + 30 + operators * 100);
        r.push("operator", 1, span, &[("lane", Put::Int(0)), ("node", Put::Int(0xb))]);
        r.push("step", 1, (at, at + operators * 100 + 200), &[("tokens", Put::Int(tokens))]);
    };
    step(1000, 8, 1, (4, 30));
    step(2000, 1, 9, (2, 10));
    let (statistics, _) = of(&r);
    let imbalance = statistics.lanes.unwrap().imbalance.unwrap();
    assert_eq!((imbalance.lanes, imbalance.waiting_per_operator_ns), (4, Some(12.0)));
}
