//! Traces that tests write: records of a toy engine, and counters where a test needs some.

// Not every test that writes a trace asks for everything.
#![allow(dead_code, reason = "each test program uses what it needs")]

use profinfer::analysis::testing::{Put, Records};
use profinfer::trace::{CounterInfo, End, FieldLayout, FieldType, Origin, TraceWriter};
use std::path::Path;

/// Records of a kind count an event from here on, in a field of its name.
pub(crate) fn count(records: &mut Records, kind: &str, counter: &str, event: &str) {
    let record = records.schema.records.iter_mut().find(|record| record.name == kind).unwrap();
    let (offset, ty) = (record.size, FieldType::Counter);
    record.size += 8;
    record.fields.push(FieldLayout { name: counter.to_owned(), offset, ty });
    let event = CounterInfo { event: event.to_owned(), ..CounterInfo::default() };
    records.schema.counters.insert(counter.to_owned(), event);
}

/// Writes a whole recording.
pub(crate) fn write(path: &Path, origin: &Origin, records: &Records) {
    let mut writer = TraceWriter::new(std::fs::File::create(path).unwrap(), origin, &records.schema).unwrap();
    records.records.iter().for_each(|record| writer.push(record).unwrap());
    let end = End { time: u64::MAX / 2, reason: "the target ended".into(), ..End::default() };
    writer.finish(&end).unwrap();
}

/// A toy engine by this probeset.
pub(crate) fn origin(probeset: &str) -> Origin {
    let sources = vec![("toy.yaml".to_owned(), probeset.to_owned())];
    Origin { engine: "toy".into(), sources, pid: 100, ..Origin::default() }
}

/// An operator's description: type, name, shape, inputs.
pub(crate) fn describe(
    records: &mut Records,
    at: u64,
    address: u64,
    (op, name): (&str, &str),
    shape: &[i64],
    inputs: &[i64],
) {
    let fields = [
        ("address", Put::Int(address)),
        ("op", Put::Text(op)),
        ("name", Put::Text(name)),
        ("dtype", Put::Text("f32")),
        ("shape", Put::List(shape)),
        ("inputs", Put::List(inputs)),
    ];
    records.push("tensor", 1, (at, at), &fields);
}
