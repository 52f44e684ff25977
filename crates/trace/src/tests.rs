//! What a user of traces relies on: records come back as they were, in order; whatever happens to a file, the rest of
//! it is read, and problems are reported.

use super::format::{FILE_HEADER_SIZE, FRAME_HEADER_SIZE, FrameHeader, MAX_BLOCK};
use super::*;
use profinfer_diagnostics::{Code, Severity};
use profinfer_schema::Role;
use proptest::prelude::*;
use std::io::{Cursor, Read};
use std::sync::Arc;
use std::time::{Duration, Instant};

fn field(name: &str, offset: u32, ty: FieldType) -> FieldLayout {
    FieldLayout { name: name.into(), offset, ty }
}

fn record_type(name: &str, kind: RecordKind, size: u32, fields: Vec<FieldLayout>) -> RecordType {
    let role = (kind == RecordKind::Span).then_some(Role::Operator);
    RecordType { name: name.into(), kind, role, size, fields }
}

/// A type of each shape: no fields, every kind of field, lists, padding.
fn schema() -> Schema {
    let object = || FieldType::Object("tensor".into());
    let tensor = vec![
        field("address", 32, object()),
        field("op", 40, FieldType::Enum("op".into())),
        field("shape", 48, FieldType::Array(Box::new(FieldType::Int(8)), 4)),
        field("inputs", 80, FieldType::Array(Box::new(object()), 4)),
        field("name", 112, FieldType::Text(16)),
    ];
    let all = vec![
        field("i8", 32, FieldType::Int(1)),
        field("bool", 33, FieldType::Bool),
        field("u16", 34, FieldType::Uint(2)),
        field("f32", 36, FieldType::Float(4)),
        field("f64", 40, FieldType::Float(8)),
        field("hex", 48, FieldType::Hex(3)),
        field("pointer", 56, FieldType::Pointer),
        field("wait", 64, FieldType::Duration),
        field("match", 72, FieldType::Match(1)),
        field("absent", 72, FieldType::Match(2)),
    ];
    let ids = FieldType::List(Box::new(FieldType::Int(4)), 5);
    let names = FieldType::List(Box::new(FieldType::Text(4)), 3);
    Schema {
        records: vec![
            record_type("thread_exit", RecordKind::ThreadExit, 32, vec![]),
            record_type("tensor", RecordKind::Object, 128, tensor),
            record_type("all", RecordKind::Span, 72, all),
            record_type("experts", RecordKind::Span, 48, vec![field("node", 32, object()), field("ids", 40, ids)]),
            record_type("names", RecordKind::Mark, 40, vec![field("names", 32, names)]),
        ],
        enums: [("op".to_owned(), [(29, "MUL".to_owned())].into())].into(),
        ..Schema::default()
    }
}

/// A record's header.
fn header(ty: u16, tid: u32, seq: u32, start: u64, duration: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    for short in [ty, 0, 3, 0] {
        bytes.extend_from_slice(&short.to_le_bytes());
    }
    bytes.extend_from_slice(&tid.to_le_bytes());
    bytes.extend_from_slice(&seq.to_le_bytes());
    bytes.extend_from_slice(&start.to_le_bytes());
    bytes.extend_from_slice(&duration.to_le_bytes());
    bytes
}

fn exit(tid: u32, seq: u32) -> Vec<u8> {
    header(0, tid, seq, 1_000_000 + u64::from(seq) * 1000, 0)
}

fn site(id: u16) -> Site {
    Site {
        id,
        probes: vec!["all".into()],
        alternative: 0,
        module: 0,
        function: "kernel_gelu".into(),
        file_offset: 4096,
        function_offset: 4,
        instruction: "push rbp".into(),
        captures: vec!["gelu".into()],
        inlined_into: None,
    }
}

fn module() -> ModuleInfo {
    ModuleInfo { name: "cpu".into(), path: "/usr/lib/libcpu.so".into(), build_id: Some("ab12".into()), size: 99 }
}

fn new_writer() -> TraceWriter<Vec<u8>> {
    TraceWriter::new(Vec::new(), &Origin::default(), &schema()).unwrap()
}

/// A finished trace of these records, a block closed after each `per_block`.
fn trace(records: &[Vec<u8>], per_block: usize) -> Vec<u8> {
    let mut writer = new_writer();
    writer.add_sites(&[module()], &[site(0)]).unwrap();
    for block in records.chunks(per_block) {
        block.iter().for_each(|record| writer.push(record).unwrap());
        writer.flush().unwrap();
    }
    writer.finish(&End { reason: "the target ended".into(), ..End::default() }).unwrap()
}

/// The records that can be read, and the metadata at the end: the same whether a thread reads ahead or not.
fn read(file: &[u8]) -> (Vec<Vec<u8>>, Meta) {
    let here = read_all(TraceReader::new(file).unwrap());
    let ahead = read_all(TraceReader::new(Cursor::new(file.to_vec())).unwrap().ahead());
    assert_eq!(here.0, ahead.0);
    let describe = |meta: &Meta| format!("{:?} {:?} {:?} {:?}", meta.problems, meta.sites, meta.losses, meta.end);
    assert_eq!(describe(&here.1), describe(&ahead.1));
    here
}

fn read_all<R: Read>(mut reader: TraceReader<R>) -> (Vec<Vec<u8>>, Meta) {
    let mut records = Vec::new();
    reader.for_each_record(|record| {
        records.push(record.bytes().to_vec());
        true
    });
    (records, reader.into_meta())
}

fn codes(meta: &Meta) -> Vec<Code> {
    meta.problems.0.iter().map(|problem| problem.code).collect()
}

/// Where each frame starts.
fn frames(file: &[u8]) -> Vec<usize> {
    let mut starts = Vec::new();
    let mut at = FILE_HEADER_SIZE;
    while at < file.len() {
        starts.push(at);
        let bytes = file[at..at + FRAME_HEADER_SIZE].try_into().unwrap();
        at += FRAME_HEADER_SIZE + FrameHeader::from_bytes(bytes).unwrap().stored as usize;
    }
    starts
}

#[test]
fn metadata_comes_back_and_in_its_place() {
    let origin = Origin { probeset: "p".into(), monotonic_ns: 5, ..Origin::default() };
    let mut writer = TraceWriter::new(Vec::new(), &origin, &schema()).unwrap();
    let loss = |count| [Loss { record: "all".into(), kind: LossKind::RingFull, count }];
    let notice = Notice { time: 7, text: "a module was attached".into(), ..Notice::default() };
    writer.add_sites(&[module()], &[site(0)]).unwrap();
    writer.push(&exit(1, 0)).unwrap();
    writer.losses(&loss(1)).unwrap();
    writer.add_sites(&[module()], &[site(1)]).unwrap();
    writer.notice(&notice).unwrap();
    writer.push(&exit(1, 1)).unwrap();
    writer.losses(&loss(2)).unwrap();
    let file = writer.finish(&End { exit_code: Some(3), ..End::default() }).unwrap();

    let mut reader = TraceReader::new(&file[..]).unwrap();
    let mut seen = Vec::new();
    while let Some(item) = reader.next() {
        seen.push(match item {
            Item::Record(record) => format!("record {}", record.header().seq),
            Item::Sites { modules, sites } => format!("{} module, site {}", modules.len(), sites[0].id),
            Item::Losses(losses) => format!("{} lost", losses[0].count),
            Item::Notice(notice) => notice.text.clone(),
            Item::Samples(samples) => format!("{} samples", samples.len()),
            Item::End(end) => format!("exit {:?} after {}", end.exit_code, end.records),
        });
    }
    let expected = "1 module, site 0; record 0; 1 lost; 1 module, site 1; a module was attached; record 1; 2 lost; \
                    exit Some(3) after 2";
    assert_eq!(seen.join("; "), expected);
    let meta = reader.into_meta();
    assert_eq!((meta.origin, meta.schema, meta.records), (origin, schema(), 2));
    assert_eq!((meta.modules.len(), meta.sites.len(), meta.losses), (2, 2, loss(2).to_vec()));
    assert!(meta.problems.0.is_empty());
}

#[test]
fn fields_are_decoded_by_their_types() {
    let mut tensor = header(1, 1, 0, 10, 0);
    tensor.extend_from_slice(&0x7f00_u64.to_le_bytes());
    tensor.extend_from_slice(&[29, 0, 0, 0, 0xee, 0xee, 0xee, 0xee]);
    [4096_i64, -1, 1, 1].iter().for_each(|n| tensor.extend_from_slice(&n.to_le_bytes()));
    [0x10_u64, 0, 0x20, 0].iter().for_each(|n| tensor.extend_from_slice(&n.to_le_bytes()));
    tensor.extend_from_slice(b"bl\xc3\xa9.0\0garbage!!");
    let mut all = header(2, 1, 1, 20, 5);
    all[6..8].copy_from_slice(&(1_u16 << 6).to_le_bytes());
    all.extend_from_slice(&[0xff, 2, 0x34, 0x12]);
    all.extend_from_slice(&1.5_f32.to_le_bytes());
    all.extend_from_slice(&(-2.5_f64).to_le_bytes());
    all.extend_from_slice(&[1, 2, 0xab, 0, 0, 0, 0, 0]);
    all.extend_from_slice(&77_u64.to_le_bytes());
    all.extend_from_slice(&1500_u64.to_le_bytes());
    let mut experts = header(3, 1, 2, 30, 5);
    experts.extend_from_slice(&0x7f00_u64.to_le_bytes());
    experts.extend_from_slice(&[2, 0, 0, 0, 9, 0, 0, 0]);
    [7_i32, -8].iter().for_each(|n| experts.extend_from_slice(&n.to_le_bytes()));

    let mut reader = TraceReader::new(&*Box::leak(trace(&[tensor, all, experts], 9).into_boxed_slice())).unwrap();
    let mut shown = Vec::new();
    reader.for_each_record(|record| {
        let fields: Vec<String> = record.fields().map(|(name, value)| format!("{name}={value}")).collect();
        shown.push(fields.join(" "));
        if record.kind().name == "experts" {
            assert_eq!(record.list_total(1), Some(9));
        }
        if record.kind().name == "all" {
            assert_eq!((record.i64_at(0), record.u64_at(1), record.u64_at(6)), (Some(-1), Some(1), None));
            assert_eq!(record.site().map(|site| site.function.as_str()), Some("kernel_gelu"));
        }
        true
    });
    assert_eq!(
        shown,
        [
            "address=0x7f00 op=MUL shape=[4096, -1, 1, 1] inputs=[0x10, 0x0, 0x20] name=blé.0",
            "i8=-1 bool=true u16=4660 f32=1.5 f64=-2.5 hex=0102ab pointer=? wait=1.500 us match=gelu absent=?",
            "node=0x7f00 ids=[7, -8]",
        ]
    );
}

#[test]
fn malformed_records_are_refused_and_padding_is_dropped() {
    let mut writer = new_writer();
    let list = |count: u32, bytes: usize| {
        let mut record = header(4, 1, 0, 0, 0);
        record.extend_from_slice(&count.to_le_bytes());
        record.resize(40 + bytes, b'x');
        record
    };
    let mut unknown = exit(1, 0);
    unknown[0] = 5;
    for record in [vec![], vec![0; 31], unknown, list(1, 3), list(4, 16), list(u32::MAX, 4), list(1, 12), vec![0; 40]] {
        assert!(matches!(writer.push(&record), Err(PushError::Malformed(_))), "{record:?}");
    }
    writer.push(&list(1, 8)).unwrap();
    let file = writer.finish(&End::default()).unwrap();
    assert_eq!(read(&file).0, [list(1, 4)]);
}

#[test]
fn what_is_flushed_is_readable_without_an_end() {
    let mut writer = new_writer();
    writer.push(&exit(1, 0)).unwrap();
    writer.flush().unwrap();
    let length = writer.bytes() as usize;
    writer.push(&exit(1, 1)).unwrap();
    let file = writer.finish(&End::default()).unwrap();
    let (records, meta) = read(&file[..length]);
    assert_eq!(records, [exit(1, 0)]);
    assert_eq!(codes(&meta), [Code::TraceCut]);
    assert_eq!(meta.problems.0[0].severity, Severity::Warning);
}

#[test]
fn a_trace_cut_anywhere_gives_what_is_before_the_cut() {
    let records: Vec<_> = (0..20).map(|seq| exit(1, seq)).collect();
    let file = trace(&records, 5);
    for length in 0..file.len() {
        match TraceReader::new(&file[..length]) {
            Err(problems) => assert!(problems.has_errors()),
            Ok(_) => {
                let (read, meta) = read(&file[..length]);
                assert!(read.len().is_multiple_of(5) && records.starts_with(&read), "{length}");
                assert_eq!(codes(&meta), [Code::TraceCut], "{length}");
            }
        }
    }
}

#[test]
fn a_damaged_frame_is_left_out_and_the_others_are_read() {
    let records: Vec<_> = (0..20).map(|seq| exit(1, seq)).collect();
    let file = trace(&records, 5);
    // Origin, schema, sites, then the second of four events frames.
    let start = frames(&file)[4];
    for damaged in [start, start + 4, start + 9, start + FRAME_HEADER_SIZE, start + FRAME_HEADER_SIZE + 7] {
        let mut file = file.clone();
        file[damaged] ^= 0x40;
        let (read, meta) = read(&file);
        assert_eq!(read, [&records[..5], &records[10..]].concat(), "{damaged}");
        assert_eq!(codes(&meta), [Code::TraceCorrupt], "{damaged}");
        assert!(meta.problems.0[0].message.contains(&start.to_string()), "{}", meta.problems.0[0].message);
        assert!(meta.end.is_some());
    }
}

/// Gives a file's start, then panics.
struct Panics(Cursor<Vec<u8>>);

impl Read for Panics {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        let length = self.0.read(bytes)?;
        assert!(length > 0, "a reader's own fault");
        Ok(length)
    }
}

#[test]
#[should_panic(expected = "a reader's own fault")]
fn what_a_thread_that_reads_ahead_dies_of_is_not_the_end_of_the_trace() {
    let mut file = trace(&[exit(1, 0)], 1);
    file.truncate(*frames(&file).last().unwrap());
    read_all(TraceReader::new(Panics(Cursor::new(file))).unwrap().ahead());
}

#[test]
fn a_reader_that_is_not_read_to_its_end_lets_its_thread_go() {
    let records: Vec<_> = (0..100).map(|seq| exit(1, seq)).collect();
    let file = Arc::new(trace(&records, 5));
    let input = Cursor::new(Shared(Arc::clone(&file)));
    let mut reader = TraceReader::new(input).unwrap().ahead();
    assert!(matches!(reader.next(), Some(Item::Sites { .. } | Item::Record(_))));
    drop(reader);
    let until = Instant::now() + Duration::from_secs(60);
    while Arc::strong_count(&file) > 1 {
        assert!(Instant::now() < until, "the thread still has the file");
        std::thread::yield_now();
    }
}

/// Bytes of which it can be told whether anybody still has them.
struct Shared(Arc<Vec<u8>>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

#[test]
fn bytes_that_are_missing_within_a_trace_cost_one_frame() {
    let records: Vec<_> = (0..20).map(|seq| exit(1, seq)).collect();
    let mut file = trace(&records, 5);
    let start = frames(&file)[4];
    file.drain(start + 3..start + 40);
    let (read, meta) = read(&file);
    assert_eq!(read, [&records[..5], &records[10..]].concat());
    assert_eq!(codes(&meta), [Code::TraceCorrupt]);
}

#[test]
fn foreign_and_newer_files_are_refused_by_name() {
    let code = |file: &[u8]| TraceReader::new(file).unwrap_err().0.last().unwrap().code;
    assert_eq!(code(b""), Code::NotATrace);
    assert_eq!(code(b"\x7fELF and so on, long enough for a header"), Code::NotATrace);
    let mut file = trace(&[], 1);
    assert_eq!(code(&file[..FILE_HEADER_SIZE]), Code::TraceCut);
    file[8] = 2;
    assert_eq!(code(&file), Code::TraceTooNew);
}

#[test]
fn an_unknown_frame_is_skipped_only_where_it_may_be() {
    let file = trace(&[exit(1, 0)], 1);
    let end = *frames(&file).last().unwrap();
    for (flags, expected) in [(super::format::MAY_SKIP, vec![]), (0, vec![Code::TraceTooNew])] {
        let payload = b"from the future";
        let length = payload.len() as u32;
        let frame = FrameHeader { kind: 77, flags, stored: length, raw: length, checksum: crc32fast::hash(payload) };
        let file = [&file[..end], &frame.to_bytes(), payload, &file[end..]].concat();
        let (records, meta) = read(&file);
        assert_eq!(records.len(), 1);
        assert_eq!(codes(&meta), expected);
    }
}

#[test]
fn a_full_disk_is_an_error_and_leaves_a_readable_trace() {
    struct Disk(Vec<u8>, usize);
    impl std::io::Write for &mut Disk {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let length = bytes.len().min(self.1 - self.0.len());
            self.0.extend_from_slice(&bytes[..length]);
            if length == 0 { Err(std::io::ErrorKind::StorageFull.into()) } else { Ok(length) }
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut disk = Disk(Vec::new(), 4000);
    let mut writer = TraceWriter::new(&mut disk, &Origin::default(), &schema()).unwrap();
    let mut seq = 0;
    let error = loop {
        writer.push(&exit(1, seq)).unwrap();
        seq += 1;
        if let Err(error) = writer.flush() {
            break error;
        }
    };
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    let (records, meta) = read(&disk.0);
    assert_eq!(records.len() as u32, seq - 1);
    assert_eq!(codes(&meta), [Code::TraceCut]);
}

#[test]
fn many_records_are_many_blocks_of_bounded_size() {
    let mut writer = new_writer();
    (0..100_000).for_each(|seq| writer.push(&exit(seq % 7, seq)).unwrap());
    let file = writer.finish(&End::default()).unwrap();
    let mut events = 0;
    for start in frames(&file) {
        let header = FrameHeader::from_bytes(file[start..start + FRAME_HEADER_SIZE].try_into().unwrap()).unwrap();
        events += usize::from(header.kind == 4);
        assert!(header.raw as usize <= MAX_BLOCK);
    }
    assert_eq!(events, 4);
    assert!(read(&file).0.iter().enumerate().all(|(seq, record)| *record == exit(seq as u32 % 7, seq as u32)));
}

#[test]
fn modules_keep_their_numbers_when_a_sites_frame_is_damaged() {
    let mut writer = new_writer();
    writer.add_sites(&[module(), module()], &[site(0)]).unwrap();
    writer.add_sites(&[ModuleInfo { name: "late".into(), ..module() }], &[Site { module: 2, ..site(1) }]).unwrap();
    let mut file = writer.finish(&End::default()).unwrap();
    let at = frames(&file)[2] + FRAME_HEADER_SIZE;
    file[at] ^= 1;
    let (_, meta) = read(&file);
    let site = meta.site(1).unwrap();
    assert_eq!(meta.module_of(site).unwrap().name, "late");
    assert_eq!(meta.site(0), None);
}

#[test]
fn enumerations_that_become_known_later_name_the_records_after() {
    let mut writer = new_writer();
    let mut tensor = header(1, 1, 0, 10, 0);
    tensor.resize(128, 0);
    tensor[40] = 30;
    writer.push(&tensor).unwrap();
    writer.add_enums(&[("op".to_owned(), [(30, "ADD".to_owned())].into())].into()).unwrap();
    writer.push(&tensor).unwrap();
    let file = writer.finish(&End::default()).unwrap();
    let mut reader = TraceReader::new(&file[..]).unwrap();
    let mut names = Vec::new();
    reader.for_each_record(|record| {
        names.push(record.field(1).to_string());
        true
    });
    assert_eq!(names, ["30", "ADD"]);
}

#[test]
fn metadata_that_grows_without_bound_is_not_kept() {
    let mut writer = new_writer();
    let notice = Notice { time: 0, text: "x".repeat(8 << 20), ..Notice::default() };
    (0..12).for_each(|_| writer.notice(&notice).unwrap());
    writer.push(&exit(1, 0)).unwrap();
    writer.add_sites(&[module()], &[site(0)]).unwrap();
    let file = writer.finish(&End::default()).unwrap();
    let (records, meta) = read(&file);
    assert_eq!((records.len(), meta.notices.len(), meta.sites.len()), (1, 8, 1), "and one of the writer's");
    assert_eq!(codes(&meta), [Code::TraceCorrupt]);
    assert!(!meta.problems.has_errors(), "nothing is damaged: {:?}", meta.problems);
    // Whoever reads along is told all of them.
    let mut reader = TraceReader::new(&file[..]).unwrap();
    let mut told = 0;
    while let Some(item) = reader.next() {
        told += usize::from(matches!(item, Item::Notice(told) if told.text == notice.text));
    }
    assert_eq!(told, 12);
}

#[test]
fn a_recording_of_days_tells_the_state_of_its_probes_to_the_end() {
    let mut writer = new_writer();
    let detail = Detail { state: DetailState::On, reason: DetailReason::Budget, steps_too: false, planned_end: None };
    let file = MappedFile { start: 0, end: 9, offset: 0, device: 0, inode: 5, path: "/a/path".repeat(150_000) };
    // Lists of mapped files and accounts are not stored.
    for time in 0..36 {
        writer.notice(&Notice { time, mapped: Some(vec![file.clone()]), ..Notice::default() }).unwrap();
    }
    for time in 0..31 {
        writer.notice(&Notice { time, text: "x".repeat(1 << 20), ..Notice::default() }).unwrap();
    }
    let frequencies = Some(vec![CpuFrequency { cpu: 0, khz: 1 }]);
    for time in 0..15_000 {
        writer.notice(&Notice { time, frequencies: frequencies.clone(), ..Notice::default() }).unwrap();
        writer.notice(&Notice { time, pressure: Some(Pressure::default()), ..Notice::default() }).unwrap();
        writer.notice(&Notice { time, overhead: Some(Overhead::default()), ..Notice::default() }).unwrap();
        writer.notice(&Notice { time, detail: Some(detail), ..Notice::default() }).unwrap();
    }
    writer.add_sites(&[module()], &[site(0)]).unwrap();
    let (_, meta) = read(&writer.finish(&End::default()).unwrap());
    assert!(meta.problems.0.is_empty(), "{:?}", meta.problems);
    assert_eq!((meta.notices.iter().filter(|of| of.detail.is_some()).count(), meta.sites.len()), (15_000, 1));
    let with_pressure = meta.notices.iter().filter(|of| of.pressure.is_some()).count();
    assert!((1000..15_000).contains(&with_pressure), "{with_pressure}");
    assert_eq!(meta.notices.iter().filter(|of| of.text.contains("too many notices")).count(), 1);
}

#[test]
fn who_follows_a_recording_of_days_is_told_all() {
    let mut writer = new_writer();
    writer.follow();
    for time in 0..40 {
        writer.notice(&Notice { time, text: "x".repeat(1 << 20), ..Notice::default() }).unwrap();
    }
    for time in 40..50 {
        writer.notice(&Notice { time, pressure: Some(Pressure::default()), ..Notice::default() }).unwrap();
    }
    let file = writer.finish(&End::default()).unwrap();
    let mut reader = TraceReader::new(&file[..]).unwrap();
    reader.remember_notices(4);
    let mut told = 0;
    while let Some(item) = reader.next() {
        told += usize::from(matches!(item, Item::Notice(told) if told.pressure.is_some()));
    }
    assert_eq!((told, reader.meta().notices.len()), (10, 4));
}

#[test]
fn who_follows_a_recording_gets_small_blocks() {
    let records: Vec<Vec<u8>> = (0..20_000).map(|seq| exit(7, seq)).collect();
    let sizes = |is_followed: bool| {
        let mut writer = new_writer();
        if is_followed {
            writer.follow();
        }
        records.iter().for_each(|record| writer.push(record).unwrap());
        writer.flush().unwrap();
        let file = writer.finish(&End::default()).unwrap();
        assert_eq!(read(&file).0, records);
        let header = |at: usize| FrameHeader::from_bytes(file[at..at + FRAME_HEADER_SIZE].try_into().unwrap()).unwrap();
        let events = frames(&file).into_iter().map(header).filter(|header| header.kind == 4);
        events.map(|header| header.raw).collect::<Vec<_>>()
    };
    let (alone, followed) = (sizes(false), sizes(true));
    // Columns take less than records.
    assert!(alone.len() == 1 && followed.len() == 10 && followed.iter().all(|raw| *raw < 1 << 16), "{followed:?}");
}

#[test]
fn what_samples_refer_to_is_bounded_and_counts_are_not_stored() {
    let counts = |taken: u64| Sampling { taken, event: "cycles".repeat(200_000), ..Sampling::default() };
    let mut writer = new_writer();
    (0..30).for_each(|taken| writer.sampling(&counts(taken)).unwrap());
    let far = Sampling { first_module: usize::MAX, modules: vec![SampledModule::default()], ..Sampling::default() };
    writer.sampling(&far).unwrap();
    let function = KernelFunction { start: 0, end: 1, name: "x".repeat(8 << 20) };
    for _ in 0..4 {
        writer.sampling(&Sampling { kernel: vec![function.clone()], taken: 400, ..Sampling::default() }).unwrap();
    }
    let (_, meta) = read(&writer.finish(&End::default()).unwrap());
    let sampling = meta.sampling.as_ref().unwrap();
    assert_eq!((sampling.taken, sampling.kernel.len(), sampling.modules.len()), (400, 3, 0));
    assert_eq!(codes(&meta), [Code::TraceCorrupt; 2]);
}

#[test]
fn a_writer_refuses_more_sites_than_a_reader_stores() {
    let mut writer = new_writer();
    let large = |id| Site { function: "f".repeat(12 << 20), ..site(id) };
    writer.add_sites(&[module()], &[large(0)]).unwrap();
    writer.add_sites(&[], &[large(1)]).unwrap();
    assert_eq!(writer.add_sites(&[], &[large(2)]).unwrap_err().kind(), std::io::ErrorKind::InvalidInput);
    writer.add_sites(&[], &[site(3)]).unwrap();
    let (_, meta) = read(&writer.finish(&End::default()).unwrap());
    assert_eq!((meta.sites.len(), meta.problems.0.len()), (3, 0));
}

/// Any record of the schema: every byte arbitrary but the type and a list's count.
fn any_record() -> impl Strategy<Value = Vec<u8>> {
    let fixed = |ty: u16, size: usize| {
        prop::collection::vec(any::<u8>(), size).prop_map(move |mut bytes| {
            bytes[..2].copy_from_slice(&ty.to_le_bytes());
            bytes
        })
    };
    let list = move |ty: u16, size: usize, element: usize, max: usize| {
        (fixed(ty, size), 0..=max, prop::collection::vec(any::<u8>(), element * max)).prop_map(
            move |(mut bytes, count, tail)| {
                bytes[size - 8..size - 4].copy_from_slice(&(count as u32).to_le_bytes());
                bytes.extend_from_slice(&tail[..count * element]);
                bytes
            },
        )
    };
    // Neighbours of one thread, as in life, among the wholly arbitrary ones.
    let usual = (0..3_u32, any::<u32>(), any::<u64>()).prop_map(|(tid, seq, start)| header(0, tid, seq, start, 9));
    prop_oneof![fixed(0, 32), fixed(1, 128), fixed(2, 72), list(3, 48, 4, 5), list(4, 40, 4, 3), usual]
}

proptest! {
    #[test]
    fn records_come_back_byte_for_byte_in_order(
        records in prop::collection::vec(any_record(), 0..300),
        per_block in 1_usize..300,
    ) {
        let (read, meta) = read(&trace(&records, per_block));
        prop_assert_eq!(read, records);
        prop_assert!(meta.problems.0.is_empty());
    }

    #[test]
    fn mutated_traces_are_read_without_panic(
        records in prop::collection::vec(any_record(), 1..60),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        has_right_checksums in any::<bool>(),
    ) {
        let mut file = trace(&records, 20);
        for (at, byte) in changes {
            let at = at.index(file.len());
            file[at] = byte;
        }
        if has_right_checksums {
            fix_checksums(&mut file);
        }
        if let Ok(mut reader) = TraceReader::new(&file[..]) {
            reader.for_each_record(|record| {
                let shown: String = record.fields().map(|(_, value)| value.to_string()).collect();
                shown.len() < usize::MAX
            });
            read(&file);
        }
    }

    #[test]
    fn any_payload_with_a_right_checksum_is_read_without_panic(
        payloads in prop::collection::vec((3_u8..9, prop::collection::vec(any::<u8>(), 0..200)), 1..5),
        small in any::<bool>(),
    ) {
        let mut file = trace(&[], 1);
        file.truncate(frames(&file)[2]);
        for (kind, mut payload) in payloads {
            if small {
                // Counts and columns that are nearly right reach further.
                payload.iter_mut().for_each(|byte| *byte %= 5);
            }
            let length = payload.len() as u32;
            let checksum = crc32fast::hash(&payload);
            let header = FrameHeader { kind, flags: 0, stored: length, raw: length, checksum };
            file.extend_from_slice(&header.to_bytes());
            file.extend_from_slice(&payload);
        }
        read(&file);
    }
}

/// Makes the checksums right again, so that what is behind them is reached.
fn fix_checksums(file: &mut [u8]) {
    let mut at = FILE_HEADER_SIZE;
    while at + FRAME_HEADER_SIZE <= file.len() {
        let number = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
        let payload = at + FRAME_HEADER_SIZE;
        let Some(stored) = file.get(payload..payload.saturating_add(number(at + 8) as usize)) else { return };
        let header = FrameHeader {
            kind: file[at + 4],
            flags: file[at + 5],
            stored: stored.len() as u32,
            raw: number(at + 12),
            checksum: crc32fast::hash(stored),
        };
        let end = payload + stored.len();
        file[at..payload].copy_from_slice(&header.to_bytes());
        at = end;
    }
}
