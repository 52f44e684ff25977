//! Traces that tests write: records of a toy engine, and counters where a test needs some.

// Not every test that writes a trace asks for everything.
#![allow(dead_code, reason = "each test program uses what it needs")]

use profinfer_analysis::testing::{Put, Records};
use profinfer_schema::Role;
use profinfer_schema::{
    CounterInfo, CpuFrequency, End, FieldLayout, FieldType, HEADER_SIZE, Notice, Origin, RecordKind, RecordType,
};

use profinfer_trace::TraceWriter;
use std::path::{Path, PathBuf};

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
    write_with(path, origin, records, &[]);
}

/// The same, with what the recorder says beside the records.
pub(crate) fn write_with(path: &Path, origin: &Origin, records: &Records, notices: &[Notice]) {
    let mut writer = TraceWriter::new(std::fs::File::create(path).unwrap(), origin, &records.schema).unwrap();
    records.records.iter().for_each(|record| writer.push(record).unwrap());
    notices.iter().for_each(|notice| writer.notice(notice).unwrap());
    let end = End { time: u64::MAX / 2, reason: "the target ended".into(), ..End::default() };
    writer.finish(&end).unwrap();
}

/// A toy engine by this probeset.
pub(crate) fn origin(probeset: &str) -> Origin {
    let sources = vec![("toy.yaml".to_owned(), probeset.to_owned())];
    Origin { engine: "toy".into(), sources, pid: 100, ..Origin::default() }
}

/// Of one thread of process 100.
pub(crate) fn begin() -> Records {
    let mut r = Records::default();
    r.push("thread", 1, (0, 0), &[("pid", Put::Int(100))]);
    r
}

/// An operator's description: type, name, shape, inputs.
pub(crate) fn describe(
    r: &mut Records,
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
    r.push("tensor", 1, (at, at), &fields);
}

/// A step of operators one after the other, each a node and its duration.
pub(crate) fn step(
    r: &mut Records,
    at: u64,
    tokens: u64,
    (name, fields): (&str, &[(&str, Put<'_>)]),
    operators: &[(u64, u64)],
) {
    let mut time = at + 20;
    for (node, duration) in operators {
        r.push("operator", 1, (time, time + duration), &[("node", Put::Int(*node))]);
        time += duration + 5;
    }
    r.push("graph", 1, (at + 10, time + 10), &[("backend", Put::Text("cpu"))]);
    let fields: Vec<(&str, Put<'_>)> =
        [("tokens", Put::Int(tokens))].into_iter().chain(fields.iter().cloned()).collect();
    r.push(name, 1, (at, time + 20), &fields);
}

/// A step that says of which model it is, where it stands, and how many sequences it advances.
pub(crate) fn with_streams(r: &mut Records) {
    let mut offset = HEADER_SIZE;
    let fields = ["tokens", "instance", "position", "sequence_count"].map(|name| {
        let layout = FieldLayout { name: name.to_owned(), offset, ty: FieldType::Int(8) };
        offset += 8;
        layout
    });
    let (kind, role) = (RecordKind::Span, Some(Role::Step));
    r.schema.records.push(RecordType { name: "decode".into(), kind, role, size: offset, fields: fields.into() });
}

/// Two lanes compute one operator in the first of two steps: the second lane waits, the first sleeps later on; a record of
/// the second lane is lost, page faults are counted, and processor 3 changes its frequency. Times are in the tests.
pub(crate) fn two_lanes() -> (Records, Vec<Notice>) {
    let mut r = Records::default();
    count(&mut r, "operator", "faults", "minor-faults");
    let on_cpu = |r: &mut Records, cpu: u16| r.records.last_mut().unwrap()[4..6].copy_from_slice(&cpu.to_le_bytes());
    let switch = |r: &mut Records, cpu: u16, time: u64, (tid, state): (u32, u64), next: u64| {
        r.push("switch", tid, (time, time), &[("prev_state", Put::Int(state)), ("next_tid", Put::Int(next))]);
        on_cpu(r, cpu);
    };
    for tid in [1, 2] {
        r.push("thread", tid, (0, 0), &[("pid", Put::Int(100))]);
    }
    describe(&mut r, 1, 0xa, ("MUL_MAT", "product-5"), &[64, 2, 1, 1], &[]);
    switch(&mut r, 3, 1500, (77, 0), 1);
    let share = |lane: u64, waiting: u64, faults: u64| {
        [
            ("lane", Put::Int(lane)),
            ("node", Put::Int(0xa)),
            ("waiting", Put::Int(waiting)),
            ("faults", Put::Int(faults)),
        ]
    };
    r.push("barrier", 1, (2100, 2200), &[]);
    r.push("operator", 1, (2000, 3000), &share(0, 0, 12));
    r.push("operator", 2, (2000, 3000), &share(1, 400, 7));
    r.lose(2, 1);
    r.push("barrier", 2, (3100, 3150), &[]);
    switch(&mut r, 3, 4000, (1, 1), 0);
    r.push("wakeup", 1, (6000, 6000), &[("target_cpu", Put::Int(4))]);
    switch(&mut r, 4, 6500, (0, 0), 1);
    r.push("barrier", 1, (7000, 7100), &[]);
    r.push("graph", 1, (1900, 8000), &[("backend", Put::Text("cpu"))]);
    r.push("step", 1, (1000, 10_000), &[("tokens", Put::Int(9))]);
    r.push("operator", 1, (12_000, 13_000), &share(0, 0, 0));
    r.push("operator", 2, (12_000, 13_000), &share(1, 0, 3));
    r.push("step", 1, (11_000, 15_000), &[("tokens", Put::Int(1))]);
    let notice = |time: u64, khz: u32| Notice {
        time,
        frequencies: Some(vec![CpuFrequency { cpu: 3, khz }]),
        ..Notice::default()
    };
    (r, vec![notice(500, 2_000_000), notice(5000, 3_500_000)])
}

/// Adds a type of record of a role.
fn record_of(r: &mut Records, name: &str, kind: RecordKind, role: Role, fields: &[(&str, FieldType)]) {
    let mut offset = HEADER_SIZE;
    let mut layouts = Vec::new();
    for (name, ty) in fields {
        offset = offset.next_multiple_of(ty.align());
        layouts.push(FieldLayout { name: (*name).to_owned(), offset, ty: ty.clone() });
        offset += ty.size();
    }
    let size = offset.next_multiple_of(8);
    r.schema.records.push(RecordType { name: name.to_owned(), kind, role: Some(role), size, fields: layouts });
}

/// A server with two places. Request 17 arrives, waits half a microsecond, and is given three tokens. Request 18 arrives in
/// between, and the place that it is given is decoding beside it. Request 19 hangs up before its first token. The times are
/// in the tests.
pub(crate) fn requests() -> Records {
    let mut r = begin();
    let list = || FieldType::List(Box::new(FieldType::Int(4)), 64);
    for (name, field) in [("of", "sequences"), ("at", "positions"), ("wanted", "outputs")] {
        record_of(&mut r, name, RecordKind::Mark, Role::Batch, &[(field, list())]);
    }
    let (number, request) = (FieldType::Int(4), ("request", FieldType::Int(4)));
    record_of(&mut r, "arrived", RecordKind::Mark, Role::Request, std::slice::from_ref(&request));
    record_of(&mut r, "started", RecordKind::Mark, Role::Request, &[request, ("sequence", number.clone())]);
    let given = [("sequence", number.clone()), ("tokens", number.clone())];
    record_of(&mut r, "given", RecordKind::Mark, Role::Request, &given);
    record_of(&mut r, "ended", RecordKind::Mark, Role::Request, &[("sequence", number)]);
    let arrived = |r: &mut Records, at: u64, request: u64| {
        r.push("arrived", 1, (at, at), &[("request", Put::Int(request))]);
    };
    let started = |r: &mut Records, at: u64, request: u64, sequence: u64| {
        r.push("started", 1, (at, at), &[("request", Put::Int(request)), ("sequence", Put::Int(sequence))]);
    };
    let given = |r: &mut Records, at: u64, sequence: u64| {
        r.push("given", 1, (at, at), &[("sequence", Put::Int(sequence)), ("tokens", Put::Int(1))]);
    };
    let ended = |r: &mut Records, at: u64, sequence: u64| {
        r.push("ended", 1, (at, at), &[("sequence", Put::Int(sequence))]);
    };
    // Of each token: sequence, position, whether its result is wanted.
    let step = |r: &mut Records, (start, end): (u64, u64), tokens: &[(i64, i64, i64)]| {
        for (name, field, of) in [
            ("wanted", "outputs", tokens.iter().map(|token| token.2).collect::<Vec<i64>>()),
            ("at", "positions", tokens.iter().map(|token| token.1).collect()),
            ("of", "sequences", tokens.iter().map(|token| token.0).collect()),
        ] {
            r.push(name, 1, (start + 10, start + 10), &[(field, Put::List(&of))]);
        }
        r.push("kernel", 1, (start + 20, end - 20), &[]);
        r.push("step", 1, (start, end), &[("tokens", Put::Int(tokens.len() as u64))]);
    };
    arrived(&mut r, 1000, 17);
    started(&mut r, 1500, 17, 0);
    arrived(&mut r, 3000, 18);
    step(&mut r, (2000, 6000), &[(0, 0, 0), (0, 1, 0), (0, 2, 1)]);
    given(&mut r, 6100, 0);
    started(&mut r, 6200, 18, 1);
    step(&mut r, (7000, 9000), &[(0, 3, 1), (1, 0, 0), (1, 1, 1)]);
    given(&mut r, 9100, 0);
    given(&mut r, 9200, 1);
    arrived(&mut r, 9300, 19);
    step(&mut r, (10_000, 11_000), &[(0, 4, 1), (1, 2, 1)]);
    given(&mut r, 11_100, 0);
    given(&mut r, 11_200, 1);
    ended(&mut r, 11_300, 0);
    started(&mut r, 11_400, 19, 0);
    step(&mut r, (12_000, 14_000), &[(0, 0, 0), (0, 1, 0), (1, 3, 1)]);
    given(&mut r, 14_100, 1);
    ended(&mut r, 14_200, 1);
    ended(&mut r, 14_300, 0);
    step(&mut r, (20_000, 21_000), &[(1, 0, 1)]);
    r
}

/// Thirty rounds in which a small model drafts three tokens, two of which the large one accepts.
pub(crate) fn drafts() -> Records {
    let mut r = begin();
    with_streams(&mut r);
    describe(&mut r, 1, 0xa, ("MUL_MAT", "small-0"), &[64, 1, 1, 1], &[]);
    describe(&mut r, 1, 0xb, ("MUL_MAT", "large-0"), &[256, 1, 1, 1], &[]);
    for round in 0..30_u64 {
        let at = 1_000_000 * (1 + round);
        let position = 10 + 3 * round;
        for draft in 0..3 {
            let fields = [
                ("instance", Put::Int(0x7000)),
                ("position", Put::Int(position + draft)),
                ("sequence_count", Put::Int(1)),
            ];
            step(&mut r, at + draft * 10_000, 1, ("decode", &fields), &[(0xa, 500)]);
        }
        // Four tokens, the known one and three drafts; the next round begins three further on: two were accepted.
        let fields =
            [("instance", Put::Int(0x8000)), ("position", Put::Int(position)), ("sequence_count", Put::Int(1))];
        step(&mut r, at + 50_000, 4, ("decode", &fields), &[(0xb, 8000)]);
    }
    r
}

/// What [`many`] is a recording of.
pub(crate) const PROBESET: &str = "profinfer: 1
engine: toy
summary: Steps of a toy
modules: { toy: libtoy.so }
counters: { cycles: cpu-cycles }
probes:
  step: { at: 'toy:toy_step(i32 n)', role: step, fields: { tokens: n } }
analysis:
  layer: name ~ \"-(\\d+)$\"
  dtypes: { f32: 4 }
  costs:
    MUL_MAT: { flops: '2 * shape[0] * 1000', bytes: '1024 * shape[0]' }
    ATTENTION: { flops: '2 * inputs[1].shape[1]', bytes: 'inputs[1].bytes' }
  context: { ATTENTION: 'inputs[1].shape[1]' }
  metrics:
    clock: { value: 'cycles / time', unit: cycles/s }
";

/// Two generations of a model of six layers, whose attention grows with the context; its products have six sizes, of which
/// `blas` computes the largest sooner than `cpu`; its experts are chosen by the number of the step, and those of the fourth
/// layer take longer. Cycles are counted.
pub(crate) fn many() -> Records {
    let mut r = Records::default();
    count(&mut r, "operator", "cycles", "cpu-cycles");
    r.push("thread", 1, (0, 0), &[("pid", Put::Int(100))]);
    describe(&mut r, 1, 0x1, ("NONE", "query"), &[64, 1, 1, 1], &[]);
    for layer in 0..6_u64 {
        let of = |name: &str| format!("{name}-{layer}");
        describe(&mut r, 1, 0x10 + layer, ("MUL_MAT", &of("product")), &[64 << layer, 1, 1, 1], &[1]);
        describe(&mut r, 1, 0x20 + layer, ("ATTENTION", &of("attention")), &[64, 1, 1, 1], &[1, 2]);
        describe(&mut r, 1, 0x30 + layer, ("MUL_MAT_ID", &of("experts")), &[64, 1, 1, 1], &[1]);
    }
    for step in 0..100_u64 {
        // A generation has a prompt of eight tokens and 49 more.
        let (at, place, on_cpu) = (1_000_000 * (1 + step) + 3000 * (step % 7), step % 50, step % 2 == 0);
        let (tokens, keys) = (if place == 0 { 8 } else { 1 }, 8 + place);
        describe(&mut r, at, 0x2, ("NONE", "keys"), &[64, i64::try_from(keys).unwrap(), 1, 1], &[]);
        let mut time = at + 20;
        for layer in 0..6 {
            let noise = (step * 17 + layer * 5) % 29;
            let product = if on_cpu { 1000 + 60 * (1 << layer) } else { 2000 + 10 * (1 << layer) };
            let slower = if layer == 3 { 4000 } else { 0 };
            let ids: Vec<i64> = (0..tokens)
                .flat_map(|token| [(token + step) % 5, 5 + (step * step + layer) % 3])
                .map(|id| i64::try_from(id).unwrap())
                .collect();
            for (node, duration) in [(0x10, product), (0x20, 500 + 20 * keys), (0x30, 700 + slower)] {
                if node == 0x30 {
                    let fields = [("node", Put::Int(node + layer)), ("ids", Put::List(&ids))];
                    r.push("experts", 1, (time, time), &fields);
                }
                let fields = [("node", Put::Int(node + layer)), ("cycles", Put::Int(3 * duration + noise))];
                r.push("operator", 1, (time, time + duration + noise), &fields);
                time += duration + noise + 5;
            }
        }
        r.push("barrier", 1, (time, time + 5), &[]);
        let backend = if on_cpu { "cpu" } else { "blas" };
        r.push("graph", 1, (at + 10, time + 10), &[("backend", Put::Text(backend))]);
        r.push("step", 1, (at, time + 20), &[("tokens", Put::Int(tokens))]);
    }
    r
}

/// Forty decode steps of two operators, the first of which counts so many misses and the second always the same.
pub(crate) fn counted(path: &Path, misses: u64) -> PathBuf {
    let mut r = begin();
    count(&mut r, "operator", "misses", "cache-misses");
    describe(&mut r, 1, 0xa, ("MUL_MAT", "product-0"), &[64, 1, 1, 1], &[]);
    describe(&mut r, 1, 0xb, ("ADD", "sum-0"), &[64, 1, 1, 1], &[]);
    for step in 1..=40_u64 {
        let at = step * 1_000_000;
        let noise = step * 7 % 13;
        for (node, from, misses) in [(0xa, at + 100, misses), (0xb, at + 6000, 900)] {
            let fields = [("node", Put::Int(node)), ("misses", Put::Int(misses + noise))];
            r.push("operator", 1, (from, from + 5000 + noise), &fields);
        }
        r.push("graph", 1, (at + 50, at + 12_000), &[("backend", Put::Text("cpu"))]);
        r.push("step", 1, (at, at + 13_000 + noise), &[("tokens", Put::Int(1))]);
    }
    write(path, &origin(PROBESET), &r);
    path.to_owned()
}
