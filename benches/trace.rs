//! How fast traces are written and read, how large they are, and how much memory it takes, at 1 and 10 million records
//! of a decoding model: two threads, 244 operators a token, each on an object of its own.
//!
//! `cargo bench --bench trace` runs all; `cargo bench --bench trace -- 1000000` one size.

#![allow(missing_docs, clippy::unwrap_used)]

use profinfer_schema::Role;
use profinfer_schema::{End, FieldLayout, FieldType, Origin, RecordKind, RecordType, Schema};

use profinfer_trace::{Item, TraceReader, TraceWriter};
use std::fs::File;
use std::time::{Duration, Instant};

const OPERATORS: usize = 244;
const THREADS: u32 = 2;
/// Records that are made at a time, outside the measured time.
const CHUNK: usize = 10_000;

fn main() {
    let sizes: Vec<usize> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let sizes = if sizes.is_empty() { vec![1_000_000, 10_000_000] } else { sizes };
    println!(
        "{:>10} {:>14} {:>14} {:>13} {:>13} {:>9}",
        "records", "written/s", "read/s", "bytes/record", "raw", "peak MB"
    );
    for records in sizes {
        let mut file = tempfile::tempfile().unwrap();
        let (written, raw) = write(&mut file, records);
        let bytes = file.metadata().unwrap().len();
        let read = read(file, records);
        let rate = |time: Duration| records as f64 / time.as_secs_f64();
        let each = |bytes: u64| bytes as f64 / records as f64;
        let peak = peak_bytes() as f64 / 1e6;
        println!(
            "{records:>10} {:>14.0} {:>14.0} {:>13.2} {:>13.2} {peak:>9.1}",
            rate(written),
            rate(read),
            each(bytes),
            each(raw),
        );
    }
}

/// The time it takes, without making the records, and the bytes the records have.
fn write(file: &mut File, records: usize) -> (Duration, u64) {
    let mut time = Duration::ZERO;
    let mut writer = TraceWriter::new(file, &Origin::default(), &schema()).unwrap();
    let mut model = Model::new();
    let mut raw = 0;
    while (writer.records() as usize) < records {
        let chunk = model.records(CHUNK.min(records - writer.records() as usize));
        let start = Instant::now();
        for record in &chunk {
            writer.push(record).unwrap();
            raw += record.len() as u64;
        }
        time += start.elapsed();
    }
    let start = Instant::now();
    writer.finish(&End::default()).unwrap();
    (time + start.elapsed(), raw)
}

/// The time it takes to read each record's header and fields.
fn read(mut file: File, records: usize) -> Duration {
    use std::io::Seek;
    file.rewind().unwrap();
    let start = Instant::now();
    let mut reader = TraceReader::new(file).unwrap();
    let (mut count, mut sum) = (0, 0_u64);
    while let Some(item) = reader.next() {
        let Item::Record(record) = item else { continue };
        let header = record.header();
        let fields = record.u64_at(0).unwrap_or(0) ^ record.u64_at(1).unwrap_or(0);
        sum = sum.wrapping_add(header.start ^ header.duration ^ fields);
        count += 1;
    }
    let time = start.elapsed();
    assert_eq!(count, records, "checksum {sum}");
    assert!(reader.meta().problems.0.is_empty());
    time
}

fn schema() -> Schema {
    let field = |name: &str, offset, ty| FieldLayout { name: name.into(), offset, ty };
    let record = |name: &str, kind, role, size, fields| RecordType { name: name.into(), kind, role, size, fields };
    let object = || FieldType::Object("tensor".into());
    let text = FieldType::Text(16);
    Schema {
        records: vec![
            record(
                "operator",
                RecordKind::Span,
                Some(Role::Operator),
                48,
                vec![field("lane", 32, FieldType::Int(4)), field("node", 40, object())],
            ),
            record("graph", RecordKind::Span, Some(Role::Graph), 40, vec![field("nodes", 32, FieldType::Int(4))]),
            record(
                "switch",
                RecordKind::Switch,
                Some(Role::SchedSwitch),
                64,
                vec![
                    field("state", 32, FieldType::Uint(8)),
                    field("next_tid", 40, FieldType::Uint(4)),
                    field("next_comm", 44, text),
                ],
            ),
        ],
        ..Schema::default()
    }
}

/// An engine that decodes: the same operators at each token, on every thread, of durations that scatter.
struct Model {
    random: u64,
    objects: Vec<(u64, u64)>,
    clocks: [u64; THREADS as usize],
    seqs: [u32; THREADS as usize],
    next: usize,
}

impl Model {
    fn new() -> Self {
        let mut model = Self {
            random: 88_172_645_463_325_252,
            objects: Vec::new(),
            clocks: [7_000_000_000_000; 2],
            seqs: [0; 2],
            next: 0,
        };
        let mut address = 0x7f3a_4000_1000;
        for _ in 0..OPERATORS {
            address += 0x150 + model.below(8) * 0x10;
            // From 1 us to 1 ms, each magnitude as often.
            let typical = 1000_f64 * 1000_f64.powf(model.below(1000) as f64 / 1000.0);
            model.objects.push((address, typical as u64));
        }
        model
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % bound
    }

    fn records(&mut self, count: usize) -> Vec<Vec<u8>> {
        let mut records = Vec::with_capacity(count);
        while records.len() < count {
            let operator = self.next % OPERATORS;
            self.next += 1;
            let first = self.below(u64::from(THREADS)) as u32;
            for lane in (0..THREADS).map(|thread| (thread + first) % THREADS) {
                records.push(self.operator(operator, lane));
            }
            if operator == OPERATORS - 1 {
                let mut graph = self.header(1, 0, 60_000_000);
                graph.extend_from_slice(&502_u64.to_le_bytes());
                records.push(graph);
            }
            if self.below(200) == 0 {
                let mut switch = self.header(2, 1, 0);
                switch.extend_from_slice(&1_u64.to_le_bytes());
                switch.extend_from_slice(&[44, 1, 0, 0]);
                switch.extend_from_slice(b"kworker/1:2\0\0\0\0\0\0\0\0\0");
                records.push(switch);
            }
        }
        records.truncate(count);
        records
    }

    fn operator(&mut self, operator: usize, lane: u32) -> Vec<u8> {
        let (address, typical) = self.objects[operator];
        let duration = typical * 9 / 10 + self.below(typical / 5);
        self.clocks[lane as usize] += 250 + self.below(300) + duration;
        let mut record = self.header(0, lane, duration);
        record.extend_from_slice(&u64::from(lane).to_le_bytes());
        record.extend_from_slice(&address.to_le_bytes());
        record
    }

    fn header(&mut self, ty: u16, lane: u32, duration: u64) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64);
        for short in [ty, u16::from(ty == 1), lane as u16, 0] {
            bytes.extend_from_slice(&short.to_le_bytes());
        }
        bytes.extend_from_slice(&(4000 + lane).to_le_bytes());
        bytes.extend_from_slice(&self.seqs[lane as usize].to_le_bytes());
        bytes.extend_from_slice(&(self.clocks[lane as usize] - duration).to_le_bytes());
        bytes.extend_from_slice(&duration.to_le_bytes());
        self.seqs[lane as usize] += 1;
        bytes
    }
}

/// The most memory this process had so far; 0 where the system does not say.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) * 1024
}
