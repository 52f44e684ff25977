//! Long traces of a toy engine, written step by step: hundreds of millions of records take minutes and no memory. The
//! tests and the benchmark of long traces share them.

// Each program uses what it needs.
#![allow(dead_code, reason = "each program uses what it needs")]
#![allow(clippy::unwrap_used, reason = "a test says what went wrong by panicking")]

use profinfer_analysis::testing::{Put, Records};
use profinfer_schema::{End, ModuleInfo, Notice, Origin};

use profinfer_trace::TraceWriter;
use std::collections::HashMap;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

/// What there is much of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Steps of 14 records: six operators on two lanes, a graph, the step.
    Tiny,
    /// Steps of two records: an operator and the step.
    Bare,
    /// Steps of 200,000 operators.
    Huge,
    /// Names, shapes and objects: each step describes two operators anew, at new addresses.
    Names,
    /// Threads: each step has two that are made for it and end with it.
    Threads,
    /// Modules: each step has one mapped anew, and a notice of it.
    Modules,
    /// Losses: a record is missing of each second step.
    Lossy,
    /// Switches: each step's threads leave their processors several times.
    Switches,
}

impl Shape {
    /// All of them, by name.
    pub(crate) const ALL: [(&'static str, Self); 8] = [
        ("tiny", Self::Tiny),
        ("bare", Self::Bare),
        ("huge", Self::Huge),
        ("names", Self::Names),
        ("threads", Self::Threads),
        ("modules", Self::Modules),
        ("lossy", Self::Lossy),
        ("switches", Self::Switches),
    ];

    /// By its name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, shape)| *shape)
    }
}

/// The rules that the traces carry.
pub(crate) const PROBESET: &str = "profinfer: 1
engine: toy
summary: Steps of a toy
modules: { toy: libtoy.so }
probes:
  step: { at: 'toy:toy_step(i32 n)', role: step, fields: { tokens: n } }
analysis:
  layer: name ~ \"-(\\d+)$\"
  dtypes: { f32: 4 }
  costs:
    MUL_MAT: { flops: '2 * shape[0] * 1000', bytes: '1024 * shape[0]' }
";

/// From the start of a step to that of the next, ns.
const PERIOD: u64 = 20_000;
/// Every so many steps a prompt is taken in.
const GENERATION: u64 = 1000;
const PROCESS: u64 = 100;

/// Writes at least so many records, in whole steps; gives how many steps they are.
pub(crate) fn write(path: &Path, shape: Shape, records: u64) -> u64 {
    let mut r = Records::default();
    let sources = vec![("toy.yaml".to_owned(), PROBESET.to_owned())];
    let origin = Origin { engine: "toy".into(), sources, pid: 100, ..Origin::default() };
    let file = BufWriter::with_capacity(1 << 20, File::create(path).unwrap());
    let mut writer = TraceWriter::new(file, &origin, &r.schema).unwrap();
    for tid in [1, 2] {
        r.push("thread", tid, (0, 0), &[("pid", Put::Int(PROCESS))]);
    }
    for operator in 0..OPERATORS {
        describe(&mut r, 0, 16 * (1 + operator), &format!("product_{}-{}", operator % 2, operator / 2), 64);
    }
    r.records.drain(..).for_each(|record| writer.push(&record).unwrap());
    let mut steps = 0_u64;
    if matches!(shape, Shape::Tiny | Shape::Bare | Shape::Lossy) {
        let patterns = [8, 1].map(|tokens| Pattern::new(shape, tokens, &r));
        while writer.records() < records {
            let pattern = &patterns[usize::from(!steps.is_multiple_of(GENERATION))];
            pattern.write(steps, &mut r.seq, &mut writer);
            if shape == Shape::Lossy && steps % 2 == 1 {
                r.lose(2, 1);
            }
            steps += 1;
        }
    } else {
        while writer.records() < records {
            step(shape, steps, &mut r, &mut writer);
            r.records.drain(..).for_each(|record| writer.push(&record).unwrap());
            steps += 1;
        }
    }
    let end = End { time: PERIOD * (2 + steps), reason: "the target ended".into(), ..End::default() };
    writer.finish(&end).unwrap();
    steps
}

/// Operators of a small step.
const OPERATORS: u64 = 6;

fn describe(r: &mut Records, at: u64, address: u64, name: &str, extent: i64) {
    let fields = [
        ("address", Put::Int(address)),
        ("op", Put::Text(if address.is_multiple_of(32) { "ADD" } else { "MUL_MAT" })),
        ("name", Put::Text(name)),
        ("dtype", Put::Text("f32")),
        ("shape", Put::List(&[extent, 1, 1, 1])),
        ("inputs", Put::List(&[])),
    ];
    r.push("tensor", 1, (at, at), &fields);
}

/// A number that looks like chance, the same in every run.
fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// How long a step takes, ns: mostly 12 to 13 µs, and one in fifty up to 18 µs.
pub(crate) fn duration(step: u64) -> u64 {
    let chance = mixed(step);
    12_000 + chance % 1000 + if chance >> 32 & 63 == 0 { (chance >> 40) % 5000 } else { 0 }
}

/// Records of a step: each is copied, and its times and numbers are set.
struct Pattern(Vec<Vec<u8>>);

impl Pattern {
    fn new(shape: Shape, tokens: u64, known: &Records) -> Self {
        let mut r = Records { schema: known.schema.clone(), ..Records::default() };
        let (operators, lanes) = if shape == Shape::Bare { (1, 1) } else { (OPERATORS, 2) };
        for operator in 0..operators {
            for lane in 0..lanes {
                let at = 500 + 1800 * operator + 40 * lane;
                let fields =
                    [("lane", Put::Int(lane)), ("node", Put::Int(16 * (1 + operator))), ("waiting", Put::Int(70))];
                r.push("operator", 1 + lane as u32, (at, at + 1500), &fields);
            }
        }
        if shape != Shape::Bare {
            r.push("graph", 1, (300, 11_800), &[("backend", Put::Text("cpu"))]);
        }
        r.push("step", 1, (0, 0), &[("tokens", Put::Int(tokens))]);
        Self(r.records)
    }

    fn write(&self, step: u64, seq: &mut HashMap<u32, u32>, writer: &mut TraceWriter<BufWriter<File>>) {
        let mut bytes: Vec<u8> = Vec::with_capacity(128);
        let (last, at) = (self.0.len() - 1, PERIOD * (1 + step));
        for (number, record) in self.0.iter().enumerate() {
            bytes.clear();
            bytes.extend_from_slice(record);
            let tid = u32::from_le_bytes(bytes[8..12].try_into().unwrap());
            let seq = seq.entry(tid).or_default();
            *seq += 1;
            bytes[12..16].copy_from_slice(&seq.to_le_bytes());
            let start = u64::from_le_bytes(bytes[16..24].try_into().unwrap()) + at;
            bytes[16..24].copy_from_slice(&start.to_le_bytes());
            let lasts = if number == last {
                duration(step)
            } else {
                u64::from_le_bytes(bytes[24..32].try_into().unwrap()) - mixed(step * 16 + number as u64) % 500
            };
            bytes[24..32].copy_from_slice(&lasts.to_le_bytes());
            writer.push(&bytes).unwrap();
        }
    }
}

/// A step of a trace that has much of something else than steps.
fn step(shape: Shape, number: u64, r: &mut Records, writer: &mut TraceWriter<BufWriter<File>>) {
    let operators = if shape == Shape::Huge { 200_000 } else { 2 };
    let (at, lasts) = match shape {
        Shape::Huge => (1_000_000_000 * (1 + number), 999_000_000),
        _ => (PERIOD * (1 + number), duration(number)),
    };
    let mut nodes = [16, 32];
    let mut threads = [1, 2];
    match shape {
        Shape::Names => {
            nodes = [0, 1].map(|which| 16 * (100 + 2 * number + which));
            for (which, node) in nodes.into_iter().enumerate() {
                let name = format!("v{number}_{which}-{}", number % 1_000_000);
                describe(r, at, node, &name, 1 + i64::try_from(number).unwrap());
            }
        }
        Shape::Threads => {
            threads = [0, 1].map(|which| 10 + 2 * u32::try_from(number).unwrap() + which);
            for tid in threads {
                r.push("thread", tid, (at, at), &[("pid", Put::Int(PROCESS)), ("created", Put::Int(1))]);
            }
        }
        Shape::Modules => {
            let path = format!("/tmp/lib{number}.so");
            let module = ModuleInfo { name: format!("lib{number}"), path: path.clone(), build_id: None, size: 0 };
            writer.add_sites(&[module], &[]).unwrap();
            let text = format!("{path} was mapped");
            writer.notice(&Notice { time: at, text, ..Notice::default() }).unwrap();
        }
        _ => {}
    }
    for operator in 0..operators {
        let start = at + 300 + 4000 * operator;
        for (lane, tid) in (0..).zip(threads) {
            let node = nodes[usize::from(operator % 2 == 1)];
            let fields = [("lane", Put::Int(lane)), ("node", Put::Int(node)), ("waiting", Put::Int(70))];
            if shape == Shape::Switches {
                r.push(
                    "switch",
                    tid,
                    (start + 100, start + 100),
                    &[("prev_state", Put::Int(1)), ("next_tid", Put::Int(0))],
                );
                r.push(
                    "switch",
                    0,
                    (start + 900, start + 900),
                    &[("prev_state", Put::Int(0)), ("next_tid", Put::Int(tid.into()))],
                );
            }
            r.push("operator", tid, (start, start + 2000 + mixed(number * 64 + operator) % 1000), &fields);
        }
    }
    r.push("graph", 1, (at + 100, at + lasts - 100), &[("backend", Put::Text("cpu"))]);
    r.push("step", 1, (at, at + lasts), &[("tokens", Put::Int(if number.is_multiple_of(GENERATION) { 8 } else { 1 }))]);
    if shape == Shape::Threads {
        for tid in threads {
            r.push("thread_exit", tid, (at + lasts, at + lasts), &[]);
            r.seq.remove(&tid);
        }
    }
}
