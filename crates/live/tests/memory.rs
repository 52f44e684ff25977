//! Memory while a recording goes on: alone in its process, so that what the kernel counts is the model's.

#![allow(clippy::unwrap_used, reason = "a test says what went wrong by panicking")]

use profinfer_analysis::testing::{Put, Records};
use profinfer_live::Model;
use profinfer_schema::{Detail, DetailReason, DetailState, Notice, Origin, Pressure};
use profinfer_trace::{Item, TraceReader, TraceWriter};

/// Bytes of this process that are in memory.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// Some steps of a server that goes on for ever, as a trace of their own: a window of operators, a poll of the kernel.
fn part(r: &mut Records, from: u64, steps: u64) -> Vec<u8> {
    let origin = Origin { engine: "toy".into(), pid: 100, ..Origin::default() };
    let mut writer = TraceWriter::uncompressed(Vec::new(), &origin, &r.schema).unwrap();
    for step in from..from + steps {
        let start = 1_000_000_000 + step * 20_000_000;
        let detail =
            |state| Some(Detail { state, reason: DetailReason::Budget, steps_too: step % 3 == 0, planned_end: None });
        let mut notice = |time: u64, state| {
            writer.notice(&Notice { time, detail: detail(state), ..Notice::default() }).unwrap();
        };
        notice(start - 20, DetailState::Attaching);
        notice(start - 10, DetailState::On);
        for operator in 0..4_u64 {
            let at = start + 10 + 1000 * operator;
            // Shapes that grow with the context, and begin again with the next request.
            let shape = [64, (step % 1000).cast_signed(), 1, 1];
            let fields = [("op", Put::Text("MUL_MAT")), ("dtype", Put::Text("f32")), ("shape", Put::List(&shape))];
            r.push("call", 1, (at, at + 900), &fields);
        }
        r.push("step", 1, (start, start + 9_000_000), &[("tokens", Put::Int(if step % 100 == 0 { 9 } else { 1 }))]);
        r.records.drain(..).for_each(|record| writer.push(&record).unwrap());
        let mut notice = |time: u64, state| {
            writer.notice(&Notice { time, detail: detail(state), ..Notice::default() }).unwrap();
        };
        notice(start + 9_000_010, DetailState::Off);
        notice(start + 9_000_020, DetailState::Detached);
        let pressure = Some(Pressure { since: start, user_ns: 5, ..Pressure::default() });
        writer.notice(&Notice { time: start + 9_500_000, pressure, ..Notice::default() }).unwrap();
    }
    writer.finish(&Default::default()).unwrap()
}

/// Ten hours of a token each 20 ms are 1.8 million steps; what would grow by 100 bytes a step shows after fewer.
#[test]
fn memory_does_not_grow_with_time() {
    let mut r = Records::default();
    r.push("thread", 1, (0, 0), &[("pid", Put::Int(100))]);
    let mut model: Option<Model> = None;
    let mut feed = |from: u64, steps: u64| {
        for from in (from..from + steps).step_by(500) {
            let bytes = part(&mut r, from, 500);
            let mut reader = TraceReader::new(&bytes[..]).unwrap();
            reader.remember_notices(512);
            let model = model.get_or_insert_with(|| Model::new(reader.meta()).0);
            while let Some(item) = reader.next() {
                if !matches!(item, Item::End(_)) {
                    model.take(&item, None);
                }
            }
            assert!(reader.meta().notices.len() <= 512);
            model.judge(reader.meta());
        }
        resident()
    };
    let early = feed(0, 12_000);
    let late = feed(12_000, 9000);
    let steps: u64 = model.unwrap().snapshot().phases.iter().map(|of| of.steps.count).sum();
    assert!(steps > 20_000, "{steps}");
    assert!(late < early + (1 << 20), "{early} bytes, then {late}");
}
