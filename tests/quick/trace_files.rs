//! Stored traces of each format version stay readable for ever, with the same records; a reader that was written from
//! `docs/trace-format.md` alone reads them too.
//!
//! `cargo test --test quick trace_files:: -- --ignored` writes the ones of the present version anew: only before its release.

use profinfer_compiler::{self as plan, Selection};
use profinfer_probeset::{self as spec, Library};

use profinfer_binary::Arch;
use profinfer_schema::Role;
use profinfer_schema::{
    End, FieldLayout, FieldType, Host, Loss, LossKind, ModuleInfo, NO_SITE, Notice, Origin, RecordKind, RecordType,
    Schema, Site,
};

use profinfer_trace::TraceWriter;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn stored(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/traces").join(name)
}

fn profinfer(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_profinfer")).args(arguments).output().unwrap()
}

fn dump(trace: &str, arguments: &[&str]) -> String {
    let output = profinfer(&[&["dump", stored(trace).to_str().unwrap()], arguments].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    String::from_utf8(output.stdout).unwrap()
}

fn golden(name: &str) -> String {
    std::fs::read_to_string(stored(name)).unwrap()
}

#[test]
fn version_1_is_readable() {
    assert_eq!(dump("v1/sample.pfi", &[]), golden("v1/sample.ndjson"));
    assert_eq!(dump("v1/uncompressed.pfi", &[]), golden("v1/sample.ndjson"));
}

#[test]
fn what_is_written_today_says_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("now.pfi");
    std::fs::write(&path, sample(true)).unwrap();
    let output = profinfer(&["dump", path.to_str().unwrap()]);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), golden("v1/sample.ndjson"));
}

#[test]
fn a_reader_made_from_the_documentation_agrees() {
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/trace_format.py");
    let output = Command::new("python3")
        .arg(script)
        .args([stored("v1/uncompressed.pfi"), stored("v1/sample.ndjson")])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn dump_chooses_by_name_and_number() {
    let all = golden("v1/sample.ndjson");
    let operators: Vec<&str> = all.lines().filter(|line| line.contains(r#""probe":"operator""#)).collect();
    let dumped = dump("v1/sample.pfi", &["--probe", "operator", "--limit", "3"]);
    assert_eq!(dumped.lines().collect::<Vec<_>>(), operators[..3]);
    let both = dump("v1/sample.pfi", &["--probe", "tensor", "--probe", "experts"]);
    assert!(both.lines().all(|line| line.contains("tensor") || line.contains("experts")));
    let output = profinfer(&["dump", stored("v1/sample.pfi").to_str().unwrap(), "--probe", "operater"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("did you mean `operator`?"));
}

#[test]
fn dump_ends_quietly_when_nobody_reads() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_profinfer"))
        .args(["dump", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The reader is gone before there is anything to write.
    drop(child.stdout.take());
    child.stdin.take().unwrap().write_all(&sample(true)).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

#[test]
fn info_says_what_a_trace_is() {
    let path = stored("v1/sample.pfi");
    let path = path.to_str().unwrap();
    let text = String::from_utf8(profinfer(&["info", path]).stdout).unwrap();
    assert_eq!(text, golden("v1/sample.info.txt"));
    let json: serde_json::Value = serde_json::from_slice(&profinfer(&["info", "--json", path]).stdout).unwrap();
    assert_eq!(json["origin"]["host"]["cpu_model"], "a processor");
    assert_eq!(json["records"]["operator"]["records"], 40);
    assert_eq!(json["problems"].as_array().unwrap().len(), 0);
    let probeset = String::from_utf8(profinfer(&["info", "--probeset", path]).stdout).unwrap();
    assert_eq!(probeset, "profinfer: 1\nengine: toy\n");
}

#[test]
fn a_cut_trace_is_shown_as_far_as_it_goes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cut.pfi");
    let whole = std::fs::read(stored("v1/sample.pfi")).unwrap();
    std::fs::write(&path, &whole[..whole.len() - 30]).unwrap();
    let output = profinfer(&["dump", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), golden("v1/sample.ndjson"));
    assert!(String::from_utf8_lossy(&output.stderr).contains("F004"));
}

#[test]
fn what_is_no_trace_is_refused() {
    for (path, code) in [("tests/traces/v1/sample.ndjson", "F002"), ("no/such/file.pfi", "F001"), ("src", "F001")] {
        for command in ["dump", "info"] {
            let output = profinfer(&[command, path]);
            assert_eq!(output.status.code(), Some(1));
            assert!(String::from_utf8_lossy(&output.stderr).contains(code), "{output:?}");
        }
    }
}

#[test]
fn the_schema_of_every_shipped_probeset_can_be_written() {
    // A file without probes is there to be included.
    let has_probes = |name: &&str| Library::SHIPPED.get(name).is_some_and(|(_, text)| text.contains("\nprobes:"));
    for name in Library::SHIPPED.names().filter(has_probes) {
        let (probeset, _) = spec::load(Path::new(name), &Library::SHIPPED).unwrap();
        for arch in [Arch::X86_64, Arch::Aarch64] {
            let (plan, _) = plan::plan(&probeset, &Selection::default(), arch).unwrap();
            TraceWriter::new(Vec::new(), &Origin::default(), &plan.schema).unwrap();
        }
    }
}

/// `BLESS=1 cargo test --test quick trace_files::` writes them anew.
#[test]
fn the_stored_traces_are_written_when_asked() {
    if std::env::var_os("BLESS").is_none() {
        return;
    }
    std::fs::create_dir_all(stored("v1")).unwrap();
    std::fs::write(stored("v1/sample.pfi"), sample(true)).unwrap();
    std::fs::write(stored("v1/uncompressed.pfi"), sample(false)).unwrap();
    std::fs::write(stored("v1/sample.ndjson"), dump("v1/sample.pfi", &[])).unwrap();
    let info = profinfer(&["info", stored("v1/sample.pfi").to_str().unwrap()]);
    std::fs::write(stored("v1/sample.info.txt"), info.stdout).unwrap();
}

/// A trace with every kind of frame, record, field and column.
fn sample(compressed: bool) -> Vec<u8> {
    let new = if compressed { TraceWriter::new } else { TraceWriter::uncompressed };
    let mut writer = new(Vec::new(), &origin(), &schema()).unwrap();
    let module = |name: &str, build_id: Option<&str>| ModuleInfo {
        name: name.into(),
        path: format!("/opt/toy/lib{name}.so"),
        build_id: build_id.map(str::to_owned),
        size: 106_000_000,
    };
    writer.add_sites(&[module("cpu", Some("0123abcd"))], &[site(0, "operator", "compute_gelu", &["gelu"])]).unwrap();
    for object in 0..6 {
        writer.push(&tensor(object)).unwrap();
    }
    for token in 0..4 {
        operators(&mut writer, token);
        if token == 1 {
            writer.add_sites(&[module("late", None)], &[site(1, "experts", "choose", &[])]).unwrap();
            writer
                .notice(&Notice {
                    time: START + 900_000,
                    text: "module `late` was attached".into(),
                    ..Notice::default()
                })
                .unwrap();
        }
        if token == 2 {
            writer.flush().unwrap();
        }
    }
    let losses = [("operator", LossKind::RingFull, 2), ("experts", LossKind::Truncated, 4)];
    let losses = losses.map(|(record, kind, count)| Loss { record: record.into(), kind, count });
    writer.losses(&losses).unwrap();
    let end =
        End { time: START + 2_500_000_000, reason: "the target ended".into(), exit_code: Some(0), ..End::default() };
    writer.finish(&end).unwrap()
}

const START: u64 = 5_000_000_000_000;

fn origin() -> Origin {
    Origin {
        recorder: "profinfer 0.1.0".into(),
        probeset: "toy".into(),
        engine: "toy".into(),
        sources: vec![("toy.yaml".into(), "profinfer: 1\nengine: toy\n".into())],
        command: vec!["./toy".into(), "--tokens".into(), "4".into()],
        pid: 4711,
        launched: true,
        options: vec!["--level=operator".into()],
        wall_clock_ns: 1_772_366_400_000_000_000,
        monotonic_ns: START,
        host: Host {
            name: "box".into(),
            kernel: "6.18.0".into(),
            arch: "x86_64".into(),
            cpu_model: "a processor".into(),
            cpus: 2,
            memory: 16_000_000_000,
            cpu_types: Vec::new(),
        },
        cpu_quota: None,
        parts: Vec::new(),
        recorder_pid: None,
        kept: None,
        roofline: None,
    }
}

fn schema() -> Schema {
    let field = |name: &str, offset, ty| FieldLayout { name: name.into(), offset, ty };
    let record = |name: &str, kind, role, size, fields| RecordType { name: name.into(), kind, role, size, fields };
    let object = || FieldType::Object("tensor".into());
    let array = |of, count| FieldType::Array(Box::new(of), count);
    let tensor = vec![
        field("address", 32, object()),
        field("op", 40, FieldType::Enum("op".into())),
        field("shape", 48, array(FieldType::Int(8), 2)),
        field("inputs", 64, array(object(), 2)),
        field("name", 80, FieldType::Text(12)),
        field("digest", 92, FieldType::Hex(4)),
    ];
    let operator = vec![
        field("lane", 32, FieldType::Int(4)),
        field("fused", 36, FieldType::Bool),
        field("status", 37, FieldType::Int(1)),
        field("batch", 38, FieldType::Uint(2)),
        field("node", 40, object()),
        field("wait", 48, FieldType::Duration),
        field("load", 56, FieldType::Float(4)),
        field("energy", 64, FieldType::Float(8)),
        field("kernel", 72, FieldType::Match(1)),
    ];
    let ids = FieldType::List(Box::new(FieldType::Int(4)), 4);
    let comm = vec![field("pid", 32, FieldType::Uint(4)), field("comm", 36, FieldType::Text(16))];
    Schema {
        records: vec![
            record("thread", RecordKind::Thread, None, 56, comm),
            record("tensor", RecordKind::Object, None, 96, tensor),
            record("operator", RecordKind::Span, Some(Role::Operator), 72, operator),
            record(
                "experts",
                RecordKind::Mark,
                Some(Role::Experts),
                48,
                vec![field("node", 32, FieldType::Pointer), field("ids", 40, ids)],
            ),
        ],
        enums: [("op".to_owned(), [(1, "ADD".to_owned()), (-2, "GELU".to_owned())].into())].into(),
        ..Schema::default()
    }
}

fn site(id: u16, probe: &str, function: &str, captures: &[&str]) -> Site {
    Site {
        id,
        probes: vec![probe.into()],
        alternative: 0,
        module: usize::from(id),
        function: function.into(),
        file_offset: 0x1234,
        function_offset: 4 * u64::from(id),
        instruction: "push rbp".into(),
        captures: captures.iter().map(|text| (*text).to_owned()).collect(),
        inlined_into: None,
    }
}

/// Gathers a record's bytes.
struct Bytes(Vec<u8>);

impl Bytes {
    fn header(ty: u16, site: u16, missing: u16, tid: u32, seq: u32, start: u64, duration: u64) -> Self {
        let bytes =
            Self(Vec::new()).put(&ty.to_le_bytes()).put(&site.to_le_bytes()).put(&(tid as u16 % 2).to_le_bytes());
        let bytes = bytes.put(&missing.to_le_bytes()).put(&tid.to_le_bytes()).put(&seq.to_le_bytes());
        bytes.put(&(START + start).to_le_bytes()).put(&duration.to_le_bytes())
    }

    fn put(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }
}

fn address(object: u64) -> u64 {
    0x7f00_0000_1000 + object * 0x150
}

fn tensor(object: u64) -> Vec<u8> {
    let op = [1_i32, -2, 77][object as usize % 3];
    let inputs = if object == 0 { [0, 0] } else { [address(object - 1), 0] };
    let bytes = Bytes::header(1, NO_SITE, 0, 100, object as u32, 1000 + object, 0).put(&address(object).to_le_bytes());
    let bytes = bytes.put(&op.to_le_bytes()).put(&[0; 4]).put(&64_i64.to_le_bytes()).put(&(-1_i64).to_le_bytes());
    let bytes = bytes.put(&inputs[0].to_le_bytes()).put(&inputs[1].to_le_bytes());
    let name = format!("blk.{object}.\u{3b3}");
    let mut text = [0; 12];
    text[..name.len()].copy_from_slice(name.as_bytes());
    bytes.put(&text).put(&[0xde, 0xad, 0xbe, object as u8]).0
}

/// Five operators of two threads, and a choice of experts.
fn operators(writer: &mut TraceWriter<Vec<u8>>, token: u64) {
    for operator in 0..5 {
        for lane in 0..2_u32 {
            let seq = 6 + token as u32 * 6 + operator as u32;
            let duration = 3_000 + operator * 40_000 + u64::from(lane) * 17 + token;
            let start = 10_000 + token * 1_000_000 + operator * 90_000 + u64::from(lane) * 55;
            let missing = u16::from(operator == 3) << 6;
            let bytes = Bytes::header(2, 0, missing, 100 + lane, seq, start, duration);
            let bytes = bytes.put(&lane.to_le_bytes()).put(&[u8::from(operator == 2), 0xff]);
            let bytes = bytes.put(&(512 + token as u16).to_le_bytes()).put(&address(operator).to_le_bytes());
            let bytes = bytes.put(&(operator * 100).to_le_bytes()).put(&(0.5_f32 + lane as f32).to_le_bytes());
            let bytes = bytes.put(&[0; 4]).put(&(0.25 * operator as f64).to_le_bytes());
            writer.push(&bytes.0).unwrap();
        }
    }
    let thread = Bytes::header(0, NO_SITE, 0, 101, 11 + token as u32 * 6, 700_000 + token * 1_000_000, 0);
    writer.push(&thread.put(&4711_u32.to_le_bytes()).put(b"worker\0\0\0\0\0\0\0\0\0\0").put(&[0; 4]).0).unwrap();
    let count = (token % 4) as u32;
    let site = if token < 2 { NO_SITE } else { 1 };
    let mut experts = Bytes::header(3, site, 0, 100, 11 + token as u32 * 6, 800_000 + token * 1_000_000, 0);
    experts = experts.put(&address(4).to_le_bytes()).put(&count.to_le_bytes()).put(&(count * count).to_le_bytes());
    for id in 0..count {
        experts = experts.put(&(id as i32 * 3 - 1).to_le_bytes());
    }
    writer.push(&experts.0).unwrap();
}
