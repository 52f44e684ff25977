use super::*;
use crate::analysis::testing::{Put, Records};
use crate::analysis::{Rules, Timeline};

/// So many tokens of a model with three operators, on two lanes.
fn tokens(count: u64) -> Records {
    let mut records = Records::default();
    for tid in [7, 8] {
        records.push("thread", tid, (1, 1), &[("pid", Put::Int(1))]);
    }
    for (address, name) in [(0x10, "norm"), (0x20, "attn-0"), (0x30, "out")] {
        let fields = [("address", Put::Int(address)), ("op", Put::Text("MUL")), ("name", Put::Text(name))];
        records.push("tensor", 7, (2, 2), &fields);
    }
    for token in 0..count {
        let start = 1000 + token * 1000;
        for (position, address) in [0x10, 0x20, 0x30].into_iter().enumerate() {
            let at = start + 100 + position as u64 * 200;
            for (lane, tid) in [(0, 7), (1, 8)] {
                let fields = [("lane", Put::Int(lane)), ("node", Put::Int(address)), ("waiting", Put::Int(30))];
                records.push("operator", tid, (at, at + 150), &fields);
            }
        }
        records.push("graph", 7, (start + 50, start + 750), &[("backend", Put::Text("CPU"))]);
        records.push("step", 7, (start, start + 800), &[("tokens", Put::Int(1))]);
    }
    records
}

fn spans(records: &Records, steps: Option<RangeInclusive<u64>>, most: usize) -> Spans {
    let mut timeline = Timeline::new(&records.schema, Rules::default(), 1);
    let mut collector = SpanCollector::with_most(steps, most);
    for record in &records.records {
        timeline.record(record, &mut collector);
    }
    timeline.finish(&mut collector);
    collector.finish(timeline.catalogue(), timeline.decoder())
}

#[test]
fn each_line_is_a_track() {
    let spans = spans(&tokens(4), None, 1000);
    let tracks: Vec<_> = spans.facts.tracks.iter().map(|t| (t.kind, t.label.as_str(), t.lane, t.spans)).collect();
    let expected = [
        ("steps", "steps", None, 4),
        ("graphs", "graphs on CPU", None, 4),
        ("operators", "lane 0", Some(0), 12),
        ("operators", "lane 1", Some(1), 12),
    ];
    assert_eq!(tracks, expected);
    assert_eq!((spans.facts.spans, spans.facts.kinds.len(), spans.facts.sentence.as_str()), (32, 3, ""));
    assert_eq!(spans.facts.numbers, [[1, 2, 3, 4]]);
}

#[test]
fn a_large_trace_keeps_to_its_bound_and_says_so() {
    // A token has a step, a graph and six shares of operators.
    let spans = spans(&tokens(1000), None, 80);
    assert!(spans.facts.spans <= 80, "{}", spans.facts.spans);
    assert_eq!(spans.facts.steps_left_out + spans.facts.spans / 8, 1000);
    assert!(
        spans.facts.sentence.starts_with("The timeline has 10 of 1,000 steps: the first, the last"),
        "{}",
        spans.facts.sentence
    );
    let numbers = &spans.facts.numbers[0];
    assert_eq!((numbers[0], numbers[numbers.len() - 1]), (1, 1000));
}

#[test]
fn a_step_with_too_many_spans_is_cut_and_the_page_says_so() {
    let spans = spans(&tokens(3), None, 16);
    assert!(spans.facts.spans <= 16);
    assert!(spans.facts.sentence.contains("spans of large steps are left out"), "{}", spans.facts.sentence);
}

#[test]
fn the_steps_that_were_asked_for() {
    let spans = spans(&tokens(9), Some(3..=4), 1000);
    assert_eq!(spans.facts.numbers, [[3, 4]]);
    assert!(spans.facts.sentence.starts_with("The timeline has 2 of 9 steps: those that were asked for"));
}

#[test]
fn a_trace_without_spans_is_an_empty_timeline() {
    let spans = spans(&Records::default(), None, 10);
    assert_eq!((spans.facts.spans, spans.facts.tracks.len(), spans.facts.sentence.as_str()), (0, 0, ""));
}
