//! A part of a recording is a trace like any other: it has the records of its time, what they refer to, and the losses
//! of its time, however the recording was divided into segments.

use super::{Part, Segment, Segments, cut};
use crate::{Item, Meta, RecordHeader, TraceReader, TraceWriter};
use profinfer_schema::{
    Detail, DetailReason, DetailState, End, FieldLayout, FieldType, HEADER_SIZE, Kept, Loss, LossKind, ModuleInfo,
    Notice, Origin, Overhead, RecordKind, RecordType, Role, Sample, SampledModule, Sampling, Schema, Site,
};
use proptest::prelude::*;

const THREAD: u16 = 0;
const TENSOR: u16 = 1;
const RUN: u16 = 2;

fn schema() -> Schema {
    let record = |name: &str, kind, role, fields: Vec<FieldLayout>| RecordType {
        name: name.into(),
        kind,
        role,
        size: HEADER_SIZE + 8 * fields.len() as u32,
        fields,
    };
    let field = |name: &str, at: u32, ty| FieldLayout { name: name.into(), offset: HEADER_SIZE + 8 * at, ty };
    let object = || FieldType::Object("tensor".into());
    Schema {
        records: vec![
            record("thread", RecordKind::Thread, None, vec![field("pid", 0, FieldType::Uint(8))]),
            record(
                "tensor",
                RecordKind::Object,
                None,
                vec![field("address", 0, object()), field("op", 1, FieldType::Uint(8))],
            ),
            record("run", RecordKind::Span, Some(Role::Operator), vec![field("node", 0, object())]),
        ],
        ..Schema::default()
    }
}

fn record(ty: u16, tid: u32, seq: u32, (start, duration): (u64, u64), fields: &[u64]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for short in [ty, if ty == RUN { 0 } else { 0xffff }, 0, 0] {
        bytes.extend_from_slice(&short.to_le_bytes());
    }
    bytes.extend_from_slice(&tid.to_le_bytes());
    bytes.extend_from_slice(&seq.to_le_bytes());
    for number in [start, duration].iter().chain(fields) {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    bytes
}

fn site(id: u16) -> Site {
    Site {
        id,
        probes: vec!["run".into()],
        alternative: 0,
        module: usize::from(id),
        function: "run".into(),
        file_offset: 4096,
        function_offset: 0,
        instruction: "nop".into(),
        captures: Vec::new(),
        inlined_into: None,
    }
}

fn module(name: &str) -> ModuleInfo {
    ModuleInfo { name: name.into(), path: format!("/lib/{name}"), build_id: None, size: 9 }
}

fn lost(count: u64) -> Vec<Loss> {
    vec![Loss { record: "run".into(), kind: LossKind::RingFull, count }]
}

/// A recording of a span each ms: what comes once comes first. Of each hundred spans one is lost.
fn recording(spans: u64) -> Vec<u8> {
    let origin = Origin { monotonic_ns: 5, wall_clock_ns: 1005, ..Origin::default() };
    let mut writer = TraceWriter::new(Vec::new(), &origin, &schema()).unwrap();
    writer.add_sites(&[module("a")], &[site(0)]).unwrap();
    let detail = Detail { state: DetailState::On, reason: DetailReason::Start, steps_too: false, planned_end: None };
    writer.notice(&Notice { time: 5, detail: Some(detail), ..Notice::default() }).unwrap();
    let module_of_sample = |path: &str| SampledModule { path: path.into(), ..SampledModule::default() };
    let sampling =
        Sampling { event: "cycles".into(), modules: vec![module_of_sample("/lib/a")], ..Sampling::default() };
    writer.sampling(&sampling).unwrap();
    writer.push(&record(THREAD, 7, 1, (5, 0), &[70])).unwrap();
    writer.push(&record(TENSOR, 7, 2, (6, 0), &[0x1000, 1])).unwrap();
    writer.push(&record(TENSOR, 7, 3, (7, 0), &[0x1000, 2])).unwrap();
    for span in 0..spans {
        if span % 100 == 50 {
            continue;
        }
        let start = 1000 * span + 100;
        writer.sample(Sample { time: start + 50, tid: 7, ..Sample::default() }).unwrap();
        writer.push(&record(RUN, 7, span as u32 + 4, (start, 800), &[0x1000])).unwrap();
        if span % 10 == 9 {
            let taken = Sampling { first_module: 1, modules: Vec::new(), taken: span + 1, ..sampling.clone() };
            writer.sampling(&taken).unwrap();
            writer.losses(&lost((span + 50) / 100)).unwrap();
            let overhead = Some(Overhead { steps: span + 1, ..Overhead::default() });
            writer.notice(&Notice { time: start + 900, overhead, ..Notice::default() }).unwrap();
            writer.flush().unwrap();
        }
    }
    writer.add_sites(&[module("b")], &[site(1)]).unwrap();
    writer.finish(&End { time: 1000 * spans, ..End::default() }).unwrap()
}

/// The recording as segments of so many flushes.
fn segments(recording: &[u8], flushes: usize) -> Vec<Vec<u8>> {
    let mut reader = TraceReader::new(recording).unwrap();
    let mut all = Segments::new(reader.meta());
    let mut done: Vec<Vec<u8>> = vec![Vec::new()];
    let mut current = Segment::clone_of(&all, reader.meta(), 5);
    let (mut time, mut since) = (5, 0);
    while let Some(item) = reader.next() {
        let (is_flush, brought_sites) = (matches!(item, Item::Losses(_)), matches!(item, Item::Sites { .. }));
        if let Item::Record(record) = &item {
            time = record.header().start + record.header().duration;
        }
        all.take(&item, Some(&mut current)).unwrap();
        if brought_sites || is_flush {
            current.refer(reader.meta()).unwrap();
        }
        since += usize::from(is_flush);
        if since >= flushes {
            current.flush().unwrap();
            *done.last_mut().unwrap() = current.into_output();
            done.push(Vec::new());
            current = Segment::clone_of(&all, reader.meta(), time);
            since = 0;
        }
    }
    current.flush().unwrap();
    *done.last_mut().unwrap() = current.into_output();
    done
}

impl Segment<Vec<u8>> {
    fn clone_of(all: &Segments, meta: &Meta, time: u64) -> Self {
        all.begin(Vec::new(), meta, time).unwrap()
    }

    fn into_output(mut self) -> Vec<u8> {
        std::mem::take(self.writer.output())
    }
}

/// Headers of all records, samples, and the metadata.
fn read(trace: &[u8]) -> (Vec<RecordHeader>, Vec<u64>, Meta) {
    let mut reader = TraceReader::new(trace).unwrap();
    let (mut records, mut samples) = (Vec::new(), Vec::new());
    while let Some(item) = reader.next() {
        match item {
            Item::Record(record) => records.push(record.header()),
            Item::Samples(of) => samples.extend(of.iter().map(|sample| sample.time)),
            _ => {}
        }
    }
    (records, samples, reader.into_meta())
}

#[test]
fn a_part_has_its_records_and_what_they_refer_to() {
    let segments = segments(&recording(1000), 7);
    assert!(segments.len() > 10);
    let kept = Kept { condition: "slow".into(), before: Some("before.pfi".into()) };
    let part = Part { from: 300_000, to: 420_000, kept: Some(kept.clone()) };
    let cut = cut(segments.iter().map(Vec::as_slice), &part, Vec::new()).unwrap().unwrap();
    let (records, samples, meta) = read(&cut.output);
    // Once each: the thread, and the tensor as it was described last; neither has a number.
    let once: Vec<u16> = records.iter().filter(|of| of.seq == 0).map(|of| of.ty).collect();
    assert_eq!(once, [THREAD, TENSOR]);
    let spans: Vec<&RecordHeader> = records.iter().filter(|of| of.ty == RUN).collect();
    assert_eq!((spans.len(), cut.records), (119, 119));
    assert!(spans.iter().all(|of| of.start >= part.from && of.start + of.duration <= part.to));
    // Numbers begin at 1, and only the lost one is missing.
    let numbers: Vec<u32> = spans.iter().map(|of| of.seq).collect();
    assert_eq!(numbers, (1..=120).filter(|number| *number != 51).collect::<Vec<u32>>());
    assert_eq!(samples.len(), 119);
    assert_eq!(meta.losses, lost(1));
    let end = meta.end.as_ref().unwrap();
    assert_eq!((end.time, end.overhead.as_ref().map(|overhead| overhead.steps)), (420_000, Some(120)));
    assert_eq!((meta.origin.monotonic_ns, meta.origin.wall_clock_ns), (300_000, 301_000));
    assert_eq!(meta.origin.kept, Some(kept));
    assert_eq!(meta.sampling.as_ref().map(|all| (all.taken, all.modules.len())), Some((119, 1)));
    let states: Vec<u64> = meta.notices.iter().filter(|of| of.detail.is_some()).map(|of| of.time).collect();
    assert_eq!(states, [300_000]);
    assert_eq!((meta.modules.len(), meta.sites.len()), (2, 2));
    assert!(meta.problems.0.is_empty(), "{:?}", meta.problems);
}

#[test]
fn a_segment_is_a_trace_and_one_that_was_cut_off_too() {
    let segments = segments(&recording(300), 5);
    for segment in &segments {
        let (records, _, meta) = read(segment);
        assert_eq!(meta.modules[0].name, "a");
        assert_eq!(records.iter().filter(|of| of.ty == TENSOR).map(|of| of.seq).next_back().unwrap_or(0) % 3, 0);
    }
    let last = segments.last().unwrap();
    let mut cut_off: Vec<&[u8]> = segments.iter().map(Vec::as_slice).collect();
    *cut_off.last_mut().unwrap() = &last[..last.len() - 7];
    let part = Part { from: 0, to: u64::MAX, kept: None };
    assert!(cut(cut_off, &part, Vec::new()).unwrap().unwrap().records > 200);
    assert!(cut([&b"no trace"[..]], &part, Vec::new()).is_err());
    assert!(cut(Vec::<&[u8]>::new(), &part, Vec::new()).unwrap().is_none());
}

proptest! {
    /// The part is the same however the recording was divided.
    #[test]
    fn segments_do_not_show(flushes in 1_usize..40, from in 0_u64..500_000, length in 0_u64..300_000) {
        let recording = recording(400);
        let part = Part { from, to: from + length, kept: None };
        let whole = cut(segments(&recording, 1000).iter().map(Vec::as_slice), &part, Vec::new()).unwrap().unwrap();
        let divided = cut(segments(&recording, flushes).iter().map(Vec::as_slice), &part, Vec::new()).unwrap().unwrap();
        let ((a, a_samples, a_meta), (b, b_samples, b_meta)) = (read(&whole.output), read(&divided.output));
        prop_assert_eq!(a, b);
        prop_assert_eq!(a_samples, b_samples);
        prop_assert_eq!(a_meta.losses, b_meta.losses);
        prop_assert_eq!(a_meta.notices, b_meta.notices);
        prop_assert_eq!(a_meta.sites, b_meta.sites);
    }
}
