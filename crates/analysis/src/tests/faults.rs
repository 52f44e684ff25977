//! Memory that had to be fetched.

use super::*;
use profinfer_probeset::Analysis;

use profinfer_schema::Role;
use profinfer_schema::{FieldLayout, FieldType, MappedFile, Notice, RecordKind, RecordType};

/// Where the data of the weights begins; one is 4 experts of 2 × 1000 elements of 4 bytes.
const DATA: u64 = 0x10_0000;
const EXPERT: u64 = 2 * 1000 * 4;
const WEIGHT: u64 = 4 * EXPERT;

/// The usual schema, with objects that have data, and the kernel's events.
fn records() -> Records {
    let mut records = Records::default();
    let tensor = records.schema.records.iter_mut().find(|r| r.name == "tensor").unwrap();
    for (name, ty) in [("data", FieldType::Pointer), ("view", FieldType::Pointer)] {
        tensor.fields.push(FieldLayout { name: name.into(), offset: tensor.size, ty });
        tensor.size += 8;
    }
    let fields = |names: &[&str]| {
        let at = |(i, name): (usize, &&str)| FieldLayout {
            name: (*name).to_owned(),
            offset: 32 + u32::try_from(i).unwrap() * 8,
            ty: if *name == "device" { FieldType::Uint(4) } else { FieldType::Uint(8) },
        };
        names.iter().enumerate().map(at).collect::<Vec<_>>()
    };
    let mark = |name: &str, role: Role, names: &[&str]| RecordType {
        name: name.into(),
        kind: RecordKind::Mark,
        role: Some(role),
        size: 32 + u32::try_from(names.len()).unwrap() * 8,
        fields: fields(names),
    };
    records.schema.records.push(mark("fault", Role::Fault, &["address"]));
    records.schema.records.push(mark("cached", Role::PageCache, &["inode", "offset", "bytes", "device"]));
    records
}

fn rules() -> Rules {
    let source = std::sync::Arc::new(profinfer_diagnostics::Source { name: String::new(), text: String::new() });
    let span = profinfer_diagnostics::Span::new(&source, 0..0);
    let expr = |text: &str| profinfer_probeset::path::parse_expr(text, &span).unwrap();
    let analysis = Analysis {
        layer: Some(expr(r#"name ~ "(?:-|^blk\.)(\d+)""#)),
        experts: Some(expr(r#"name ~ "exps" ? shape[2] : 0"#)),
        dtypes: [("f32".to_owned(), expr("4"))].into_iter().collect(),
        ..Analysis::default()
    };
    Rules::new(&analysis).unwrap()
}

fn weight(records: &mut Records, time: u64, node: u64, (name, data, view): (&str, u64, u64)) {
    let fields = [
        ("address", Put::Int(node)),
        ("name", Put::Text(name)),
        ("dtype", Put::Text("f32")),
        ("shape", Put::List(&[1000, 2, 4, 1])),
        ("data", Put::Int(data)),
        ("view", Put::Int(view)),
    ];
    records.push("tensor", 1, (time, time), &fields);
}

/// A step from 100 to 1000 with two operators of a thread; its weights are described.
fn step_with(make: impl FnOnce(&mut Records)) -> Records {
    let mut records = records();
    thread(&mut records, 1, 10, 100);
    weight(&mut records, 20, 0x1, ("blk.7.exps.weight", DATA, 0));
    weight(&mut records, 20, 0x2, ("blk.8.norm.weight", DATA + WEIGHT, 0));
    weight(&mut records, 20, 0x3, ("a view", DATA, 0x1));
    tensor(&mut records, 1, 20, 0x51, "MUL", "up-7");
    tensor(&mut records, 1, 20, 0x52, "MUL", "norm-8");
    make(&mut records);
    operator(&mut records, 1, (200, 400), 0, 0x51, 0);
    operator(&mut records, 1, (500, 700), 0, 0x52, 0);
    step(&mut records, 1, (100, 1000), 1);
    records
}

fn fault(records: &mut Records, time: u64, address: u64) {
    records.push("fault", 1, (time, time), &[("address", Put::Int(address))]);
}

/// Thread 1 is off its cpu.
fn off(records: &mut Records, (start, end): (u64, u64), state: u64) {
    let left = [("prev_state", Put::Int(state)), ("next_tid", Put::Int(9))];
    records.push("switch", 1, (start, start), &left);
    records.push("switch", 9, (end, end), &[("next_tid", Put::Int(1))]);
}

/// Operator, part, expert, totals.
type Row = (Option<u32>, Option<String>, Option<u32>, FetchTotals);

fn fetched(step: &Step) -> Vec<Row> {
    let view = |f: &Fetched| {
        let name = f.part.as_ref().map(|part| part.owner.name.to_string());
        (f.operator, name, f.part.as_ref().and_then(|part| part.expert), f.totals)
    };
    step.fetched.iter().map(view).collect()
}

#[test]
fn a_fault_is_of_its_operator_tensor_and_expert() {
    let records = step_with(|records| {
        fault(records, 250, DATA + 2 * EXPERT);
        fault(records, 260, DATA + 3 * EXPERT - 1);
        fault(records, 270, DATA + WEIGHT - 1);
        fault(records, 600, DATA + WEIGHT);
        fault(records, 800, 0x42);
    });
    let (collected, _) = run_with(&records, rules());
    let faults = |n: u64| FetchTotals { faults: n, ..FetchTotals::default() };
    let named = |name: &str| Some(name.to_owned());
    assert_eq!(
        fetched(&collected.steps[0]),
        [
            (None, None, None, faults(1)),
            (Some(0), named("blk.7.exps.weight"), Some(2), faults(2)),
            (Some(0), named("blk.7.exps.weight"), Some(3), faults(1)),
            (Some(1), named("blk.8.norm.weight"), None, faults(1)),
        ],
        "the view owns nothing, and an address of nothing has no name"
    );
    let layers = collected.statistics.faults().layers(&[Phase::Decode]);
    let layers: Vec<(Option<&str>, u64)> = layers.iter().map(|(l, t)| (l.as_deref(), t.faults)).collect();
    assert_eq!(layers, [(None, 1), (Some("7"), 3), (Some("8"), 1)]);
}

#[test]
fn a_fault_waited_while_its_thread_could_not_run_for_it() {
    let records = step_with(|records| {
        off(records, (110, 150), 2); // for something else: the thread ran on for long
        off(records, (299_970, 299_980), 2); // for something else: it slept since then
        off(records, (299_985, 299_990), 1);
        off(records, (300_000, 300_400), 0x102);
        off(records, (300_410, 300_430), 0); // another thread's turn
        off(records, (300_450, 300_455), 2);
        fault(records, 300_480, DATA);
        fault(records, 300_490, DATA + EXPERT);
        // A read that is over before the thread has left its cpu.
        records.push("cached", 1, (300_500, 300_500), &[]);
        fault(records, 300_530, DATA + 2 * EXPERT);
    });
    let mut records = records;
    step(&mut records, 1, (1000, 400_000), 1);
    let (collected, _) = run_with(&records, rules());
    let totals: Vec<FetchTotals> = collected.steps.iter().flat_map(|s| &s.fetched).map(|f| f.totals).collect();
    let timed = |waited: u64, on_cpu: u64| FetchTotals { faults: 1, waited, on_cpu, timed: 1, bytes: 0 };
    assert_eq!(totals, [timed(480, 480 - 400 - 20 - 5), timed(0, 0), timed(30, 30)]);
    let slowest = collected.statistics.faults().slowest();
    assert_eq!((slowest.len(), slowest[0].number, slowest[0].totals.waited), (1, 2, 510));
    assert_eq!(slowest[0].parts[0].part.as_ref().and_then(|part| part.expert), Some(0));
}

#[test]
fn memory_that_is_used_again_is_the_newest_ones() {
    let records = step_with(|records| {
        weight(records, 30, 0x4, ("new", DATA + EXPERT, 0));
        fault(records, 250, DATA);
        fault(records, 251, DATA + EXPERT);
    });
    let (collected, _) = run_with(&records, rules());
    let names: Vec<Option<String>> = fetched(&collected.steps[0]).into_iter().map(|(_, name, ..)| name).collect();
    assert_eq!(names, [None, Some("new".to_owned())]);
}

#[test]
fn bytes_of_a_file_are_split_among_what_they_are_mapped_as() {
    let mut records = step_with(|records| {
        let page = |offset: u64, bytes: u64, inode: u64| {
            [
                ("inode", Put::Int(inode)),
                ("offset", Put::Int(offset)),
                ("bytes", Put::Int(bytes)),
                ("device", Put::Int(5)),
            ]
        };
        // The weights are 96 bytes into the file, which is mapped from its byte 4096 on.
        records.push("cached", 1, (250, 250), &page(4096, 96 + EXPERT + 10, 77));
        records.push("cached", 1, (260, 260), &page(4096 + 96 + WEIGHT - 6, 16, 77));
        records.push("cached", 1, (270, 270), &page(0, 4096, 77));
        records.push("cached", 1, (280, 280), &page(4096 + 96, 64, 78));
    });
    step(&mut records, 1, (1000, 1100), 1);
    let mut timeline = Timeline::new(&records.schema, rules(), 100);
    let file =
        MappedFile { start: DATA - 96, end: DATA + (1 << 20), offset: 4096, device: 5, inode: 77, path: "m".into() };
    timeline.notice(&Notice { mapped: Some(vec![file]), ..Notice::default() });
    let mut collected = Collected::default();
    records.records.iter().for_each(|record| timeline.record(record, &mut collected));
    timeline.finish(&mut collected);
    let bytes: Vec<(Option<String>, Option<u32>, u64)> = fetched(&collected.steps[0])
        .into_iter()
        .map(|(_, name, expert, totals)| (name, expert, totals.bytes))
        .collect();
    let named = |name: &str| Some(name.to_owned());
    assert_eq!(
        bytes,
        [
            (None, None, 96 + 4096 + 64),
            (named("blk.7.exps.weight"), Some(0), EXPERT),
            (named("blk.7.exps.weight"), Some(1), 10),
            (named("blk.7.exps.weight"), Some(3), 6),
            (named("blk.8.norm.weight"), None, 10),
        ]
    );
}
