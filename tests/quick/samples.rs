//! Timer samples in a trace: as the documentation describes them, and left out by readers that came before them.

use profinfer_schema::{CodePlace, End, Origin, Sample, SampledModule, Sampling, Schema};
use profinfer_trace::{Item, TraceReader, TraceWriter};
use serde_json::json;
use std::path::Path;
use std::process::Command;

fn samples() -> Vec<Sample> {
    let place = |module, offset| CodePlace { module, offset };
    let first = Sample { time: 5000, tid: 7, pid: 6, cpu: 1, frames: vec![place(0, 0x1234)], ..Sample::default() };
    let in_kernel = Sample {
        time: 6000,
        in_kernel: true,
        without_detail: true,
        within: Some((9, 5500)),
        frames: vec![place(CodePlace::KERNEL, u64::MAX - 9), place(1, 0x99), place(CodePlace::ANONYMOUS, 0x7f00)],
        ..first.clone()
    };
    vec![first, in_kernel, Sample { time: 6001, frames: Vec::new(), ..Sample::default() }]
}

fn written() -> Vec<u8> {
    let mut writer = TraceWriter::uncompressed(Vec::new(), &Origin::default(), &Schema::default()).unwrap();
    let module = |path: &str| SampledModule { path: path.into(), build_id: Some("0a".into()), size: 9, modified_ns: 1 };
    let sampling = |first_module, path, taken| Sampling {
        event: "cpu-clock".into(),
        hz: 199,
        first_module,
        modules: vec![module(path)],
        taken,
        lost: taken / 3,
        ..Sampling::default()
    };
    writer.sampling(&sampling(0, "/a.so", 0)).unwrap();
    for sample in samples() {
        writer.sample(sample).unwrap();
    }
    writer.flush().unwrap();
    writer.sampling(&sampling(1, "/b.so", 3)).unwrap();
    writer.finish(&End { reason: "the target ended".into(), ..End::default() }).unwrap()
}

#[test]
fn samples_come_back_with_what_they_refer_to() {
    let bytes = written();
    let mut reader = TraceReader::new(&bytes[..]).unwrap();
    let mut read = Vec::new();
    while let Some(item) = reader.next() {
        if let Item::Samples(samples) = item {
            read.extend_from_slice(samples);
        }
    }
    assert_eq!(read, samples());
    let meta = reader.into_meta();
    assert_eq!(meta.problems.0, []);
    assert_eq!((meta.samples, meta.records), (3, 0), "samples are no records");
    let sampling = meta.sampling.unwrap();
    let paths: Vec<&str> = sampling.modules.iter().map(|module| module.path.as_str()).collect();
    assert_eq!((paths, sampling.taken, sampling.lost), (vec!["/a.so", "/b.so"], 3, 1));
}

#[test]
fn a_reader_made_from_the_documentation_agrees() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.pfi");
    std::fs::write(&path, written()).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/trace_format.py");
    let output = Command::new("python3").arg(script).arg("--samples").arg(&path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let read: Vec<serde_json::Value> =
        String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let expected = json!([
        { "time": 5000, "tid": 7, "pid": 6, "cpu": 1, "in_kernel": false, "without_detail": false,
          "frames": [["/a.so", 0x1234]] },
        { "time": 6000, "tid": 7, "pid": 6, "cpu": 1, "in_kernel": true, "without_detail": true,
          "within": [9, 5500],
          "frames": [["kernel", u64::MAX - 9], ["/b.so", 0x99], ["anonymous", 0x7f00]] },
        { "time": 6001, "tid": 0, "pid": 0, "cpu": 0, "in_kernel": false, "without_detail": false, "frames": [] },
    ]);
    assert_eq!(serde_json::Value::from(read), expected);
}

/// Offsets of the frames' headers, with their kinds and flags.
fn frames(bytes: &[u8]) -> Vec<(u8, u8)> {
    let (mut at, mut found) = (16, Vec::new());
    while at < bytes.len() {
        found.push((bytes[at + 4], bytes[at + 5]));
        at += 24 + u32::from_le_bytes(*bytes[at + 8..].first_chunk().unwrap()) as usize;
    }
    found
}

#[test]
fn readers_before_samples_leave_them_out() {
    // Flag 2: a reader that does not know the kind goes on behind the frame. All others must be known.
    let kinds = frames(&written());
    assert_eq!(kinds, [(1, 0), (2, 0), (9, 2), (8, 2), (9, 2), (7, 0)]);
}
