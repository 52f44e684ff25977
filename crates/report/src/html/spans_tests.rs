use super::*;
use profinfer_analysis::testing::{Put, Records};
use profinfer_analysis::{Rules, Timeline};

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
    collector.finish(timeline.catalogue(), timeline.decoder(), &Meta::default())
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
fn what_processes_do_outside_steps_is_on_lines_of_each() {
    let mut records = Records::default();
    for (tid, pid) in [(7, 70), (8, 80)] {
        records.push("thread", tid, (1, 1), &[("pid", Put::Int(pid))]);
        records.push("operator", tid, (100 + u64::from(tid), 150), &[("node", Put::Int(0x10))]);
    }
    records.push("operator", 7, (1010, 1020), &[("node", Put::Int(0x10))]);
    records.push("step", 7, (1000, 1100), &[("tokens", Put::Int(1))]);
    let spans = spans(&records, None, 1000);
    let tracks: Vec<_> = spans.facts.tracks.iter().map(|t| (t.label.as_str(), t.spans)).collect();
    let expected =
        [("lane 0, outside steps", 1), ("steps", 1), ("lane 0", 1), ("lane 0, outside steps (process 80)", 1)];
    assert_eq!(tracks, expected);
}

/// Two decode steps that encode an operator, submit it, and wait for it after the step.
fn device_steps(r: &mut Records, ticks: Option<&[i64]>) {
    r.push("thread", 7, (1, 1), &[("pid", Put::Int(1))]);
    let bits = u64::from(2.0_f32.to_bits());
    r.push("properties", 7, (1, 2), &[("name", Put::Text("toy")), ("period", Put::Int(bits))]);
    for at in [1000, 2000] {
        r.push("copy", 7, (at + 2, at + 5), &[("bytes", Put::Int(64)), ("direction", Put::Int(0))]);
        r.push("dispatch", 7, (at + 10, at + 20), &[("encoded", Put::Int(1))]);
        r.push("submit", 7, (at + 30, at + 35), &[("queue", Put::Int(0xabc)), ("fence", Put::Int(3))]);
        if let Some(ticks) = ticks {
            r.push("ticks", 7, (at + 40, at + 41), &[("timestamps", Put::List(ticks))]);
        }
        r.push("graph", 7, (at + 6, at + 90), &[("backend", Put::Text("gpu"))]);
        r.push("step", 7, (at, at + 100), &[("tokens", Put::Int(1))]);
        r.push("wait_fence", 7, (at + 110, at + 230), &[("fence", Put::Int(3))]);
    }
}

/// A queue's span has what the device measured, or 0: then it is only a bound.
#[test]
fn devices_have_lanes() {
    for (ticks, more) in [(None, 0), (Some(&[100_i64, 150][..]), 101)] {
        let mut records = Records::default();
        device_steps(&mut records, ticks);
        let spans = spans(&records, None, 1000);
        let tracks: Vec<_> = spans.facts.tracks.iter().map(|t| (t.kind, t.label.as_str(), t.spans)).collect();
        let expected = [
            ("steps", "steps", 2),
            ("graphs", "graphs on gpu", 2),
            ("encoding", "encoding", 2),
            ("calls", "queue calls", 6),
            ("queue", "queue 0xabc", 2),
        ];
        assert_eq!(tracks, expected);
        let bytes = spans.columns.into_bytes();
        let mut bytes = bytes.as_slice();
        let mut columns = |spans: usize, columns: usize| -> Vec<Vec<u64>> {
            (0..columns).map(|_| (0..spans).map(|_| next(&mut bytes)).collect()).collect()
        };
        columns(4, 3);
        assert_eq!(columns(2, 4)[3], [more, more], "encoding: the device's time, one more");
        let calls = columns(6, 4);
        let categories: Vec<u64> = calls[2].iter().map(|what| what & 3).collect();
        assert_eq!((categories, &calls[3]), (vec![2, 0, 1, 2, 0, 1], &vec![65, 0, 0, 65, 0, 0]));
        let queue = columns(2, 4);
        assert_eq!((&queue[1], &queue[2], &queue[3]), (&vec![200, 200], &vec![1, 1], &vec![more, more]));
        assert!(bytes.is_empty());
    }
}

/// Reads a variable-length integer of the columns.
fn next(bytes: &mut &[u8]) -> u64 {
    let (mut n, mut shift) = (0, 0);
    loop {
        let (byte, rest) = bytes.split_first().unwrap();
        *bytes = rest;
        n |= u64::from(byte & 127) << shift;
        shift += 7;
        if byte & 128 == 0 {
            return n;
        }
    }
}

#[test]
fn operators_name_those_whose_results_they_read() {
    let mut records = Records::default();
    records.push("thread", 7, (1, 1), &[("pid", Put::Int(1))]);
    let inputs: [(u64, &[i64]); 3] = [(0x10, &[]), (0x20, &[0x10]), (0x30, &[0x10, 0x20])];
    for (address, inputs) in inputs {
        let fields = [("address", Put::Int(address)), ("op", Put::Text("MUL")), ("inputs", Put::List(inputs))];
        records.push("tensor", 7, (2, 2), &fields);
    }
    for token in 0..3 {
        let start = 1000 + token * 1000;
        if token == 2 {
            // It is another object now.
            let fields = [("address", Put::Int(0x30)), ("op", Put::Text("MUL")), ("inputs", Put::List(&[0x10]))];
            records.push("tensor", 7, (start - 50, start - 50), &fields);
        }
        for (position, address) in [0x10, 0x20, 0x30].into_iter().enumerate() {
            let at = start + 100 + position as u64 * 200;
            records.push("operator", 7, (at, at + 150), &[("node", Put::Int(address))]);
        }
        records.push("step", 7, (start, start + 800), &[("tokens", Put::Int(1))]);
    }
    let spans = spans(&records, None, 1000);
    assert_eq!(spans.facts.operators, 9);
    // Three spans of steps: start, duration, what. Nine of operators: these, waiting and numbers.
    let bytes = spans.columns.into_bytes();
    let mut bytes = bytes.as_slice();
    (0..3 * 3 + 9 * 4).for_each(|_| _ = next(&mut bytes));
    let numbers: Vec<u64> = (0..9).map(|_| next(&mut bytes)).collect();
    assert_eq!(numbers, [0, 2, 2, 2, 2, 2, 2, 2, 2], "one after the other");
    let sources: Vec<Vec<u64>> = (0..9)
        .map(|_| {
            let count = next(&mut bytes);
            (0..count).map(|_| next(&mut bytes)).collect()
        })
        .collect();
    let before = [vec![], vec![1], vec![2, 1]];
    let expected: Vec<Vec<u64>> = [&before[..], &before, &[vec![], vec![1], vec![2]]].concat();
    assert_eq!(sources, expected);
    assert!(bytes.is_empty());
}

#[test]
fn frequencies_have_a_line_each() {
    use profinfer_schema::{CpuFrequency, Notice};
    let records = tokens(2);
    let mut timeline = Timeline::new(&records.schema, Rules::default(), 1);
    let mut collector = SpanCollector::new(None);
    records.records.iter().for_each(|record| timeline.record(record, &mut collector));
    timeline.finish(&mut collector);
    let notice = |time: u64, khz: u32| Notice {
        time,
        frequencies: Some(vec![CpuFrequency { cpu: 1, khz }]),
        ..Notice::default()
    };
    let mut meta = Meta::default();
    meta.notices = vec![notice(500, 1_000_000), notice(1500, 2_000_000), notice(9000, 3)];
    let spans = collector.finish(timeline.catalogue(), timeline.decoder(), &meta);
    let track = spans.facts.tracks.last().unwrap();
    // What was told before and after the steps is not of them.
    assert_eq!((track.kind, track.label.as_str(), track.spans), ("frequency", "CPU 1: MHz", 2));
}

#[test]
fn a_large_trace_is_cut_to_its_bound_and_has_a_note() {
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
fn a_step_with_too_many_spans_is_cut_and_the_page_has_a_note() {
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
