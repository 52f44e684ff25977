//! `profinfer timeline` as a viewer sees it: Perfetto's file is decoded with Perfetto's own definitions, and what is in
//! it must be what `profinfer report` says of the same steps.

#![allow(clippy::unwrap_used, clippy::panic)]

mod invocation;

use invocation::{json, profinfer, succeeds};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::process::Command;

fn in_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// A recording of a real engine.
fn stored() -> String {
    in_repository("tests/traces/v1/llama.pfi").to_str().unwrap().to_owned()
}

/// A slice as a viewer shows it.
#[derive(Debug, Clone, serde::Deserialize)]
struct Slice {
    track: String,
    name: String,
    start: u64,
    end: u64,
    arguments: BTreeMap<String, Value>,
    flows_out: Vec<u64>,
    flows_in: Vec<u64>,
}

/// What Perfetto makes of a file.
fn decoded(file: &Path) -> Vec<Slice> {
    let mut install = Command::new(in_repository("tests/engines/python_environment.sh"));
    let installed = install.args(["perfetto", "perfetto==0.59.1", "protobuf==7.36.2"]).output().unwrap();
    assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
    let python = String::from_utf8(installed.stdout).unwrap();
    let mut decode = Command::new(python.trim());
    let output = decode.arg(in_repository("tests/timeline/decode.py")).arg(file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let decoded: Value = serde_json::from_slice(&output.stdout).unwrap();
    serde_json::from_value(decoded["slices"].clone()).unwrap()
}

/// Every lane's share of every operator, as `report --step` has it: lane, name, start, end of work, waiting.
fn reported(trace: &str) -> BTreeSet<(String, String, u64, u64)> {
    let steps = json(&["report", trace, "--json"])["completeness"]["steps"].as_u64().unwrap();
    let mut shares = BTreeSet::new();
    for step in 1..=steps {
        let report = json(&["report", trace, "--step", &step.to_string(), "--json"]);
        let start = report["step"]["start_ns"].as_u64().unwrap();
        for operator in report["step"]["operators"].as_array().unwrap() {
            for lane in operator["lanes"].as_array().unwrap() {
                let from = start + lane["start_ns"].as_u64().unwrap();
                let name = operator["name"].as_str().unwrap().to_owned();
                shares.insert((format!("lane {}", lane["lane"]), name, from, from + lane["work_ns"].as_u64().unwrap()));
            }
        }
    }
    shares
}

#[test]
#[ignore = "needs an engine's package"]
fn perfetto_shows_every_operator_where_the_report_says() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.pftrace");
    succeeds(&mut profinfer(&["timeline", &stored(), "-o", file.to_str().unwrap()]));
    let slices = decoded(&file);
    let operators: Vec<&Slice> = slices.iter().filter(|slice| slice.arguments.contains_key("op")).collect();
    let shown: BTreeSet<_> = operators
        .iter()
        .map(|slice| (slice.track.rsplit('/').next().unwrap().to_owned(), slice.name.clone(), slice.start, slice.end))
        .collect();
    assert_eq!(shown, reported(&stored()));
    assert!(operators.len() > 900, "{}", operators.len());
    let size = std::fs::metadata(&file).unwrap().len();
    assert!(size <= 24 * operators.len() as u64, "{size} bytes for {} operators", operators.len());
    let mut steps: Vec<&Slice> = slices.iter().filter(|slice| slice.track.ends_with("/steps")).collect();
    steps.sort_by_key(|step| step.start);
    let names: Vec<&str> = steps.iter().map(|step| step.name.as_str()).collect();
    assert_eq!((names.len(), names[0], names[8]), (9, "prefill 1", "decode 9"), "{names:?}");
    nest(&slices);
    arrows_lead_to_consumers(&slices);
}

/// Viewers show a tree: slices of one track are one within the other, or apart.
fn nest(slices: &[Slice]) {
    let mut tracks: BTreeMap<&str, Vec<&Slice>> = BTreeMap::new();
    for slice in slices {
        tracks.entry(&slice.track).or_default().push(slice);
    }
    for (track, mut slices) in tracks {
        slices.sort_by_key(|slice| (slice.start, std::cmp::Reverse(slice.end)));
        let mut open: Vec<u64> = Vec::new();
        for slice in slices {
            open.retain(|end| *end > slice.start);
            assert!(open.iter().all(|end| slice.end <= *end), "{track}: {} overlaps", slice.name);
            open.push(slice.end);
        }
    }
}

/// Each operator has an arrow from every operator that made one of its inputs.
fn arrows_lead_to_consumers(slices: &[Slice]) {
    let producers: HashMap<u64, &Slice> =
        slices.iter().flat_map(|slice| slice.flows_out.iter().map(move |arrow| (*arrow, slice))).collect();
    let named = |consumer: &str| -> BTreeSet<&str> {
        let first = slices.iter().find(|slice| slice.name == consumer).unwrap();
        first.flows_in.iter().map(|arrow| producers[arrow].name.as_str()).collect()
    };
    for slice in slices {
        assert!(
            slice.flows_in.iter().all(|arrow| producers[arrow].end <= slice.start),
            "{} uses the future",
            slice.name
        );
    }
    // What the model does: experts are computed of the normalised input, by the router's choice; then branches add up.
    assert_eq!(named("ffn_moe_gate-0"), ["ffn_norm-0", "ffn_moe_argsort-0"].into());
    assert_eq!(named("ffn_inp-0"), ["attn_out-0", "embd"].into());
}

#[test]
fn chromes_events_are_the_same() {
    let output = succeeds(&mut profinfer(&["timeline", &stored(), "--format", "chrome", "-o", "-"]));
    let events: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let of = |phase: &str| events.iter().filter(|event| event["ph"] == phase).count();
    let operators = events.iter().filter(|event| event["cat"] == "operator");
    assert_eq!(operators.count(), reported(&stored()).len());
    assert_eq!((of("s"), of("X") > 3000), (of("f"), true));
    let names = events.iter().filter(|event| event["name"] == "thread_name");
    let names: Vec<&str> = names.map(|event| event["args"]["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"steps") && names.contains(&"lane 0") && names.contains(&"graphs on cpu"), "{names:?}");
}

#[test]
fn only_the_steps_asked_for() {
    let chrome = |steps: &[&str]| -> BTreeSet<String> {
        let trace = stored();
        let arguments = [&["timeline", trace.as_str(), "--format", "chrome", "-o", "-"], steps].concat();
        let events: Vec<Value> = serde_json::from_slice(&succeeds(&mut profinfer(&arguments)).stdout).unwrap();
        let steps = events.iter().filter(|event| event["cat"] == "step");
        steps.map(|event| event["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(chrome(&[]).len(), 9);
    assert_eq!(chrome(&["--steps", "3..4"]), ["decode 3".to_owned(), "decode 4".to_owned()].into());
    let wrong = Command::new(env!("CARGO_BIN_EXE_profinfer"))
        .args(["timeline", &stored(), "--steps", "30..40", "-o", "-"])
        .output()
        .unwrap();
    assert_eq!(wrong.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("its steps are 1 to 9"));
}
