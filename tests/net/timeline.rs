//! `profinfer timeline` as a viewer sees it: Perfetto's file is decoded with Perfetto's own definitions, and what is in
//! it must be what `profinfer report` says of the same steps.

use crate::invocation::{json, profinfer, succeeds};
use crate::packages::python_with;
use crate::written;
use profinfer_analysis::testing::Put;
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

/// What Perfetto makes of a file: its slices.
fn decoded(file: &Path) -> Vec<Slice> {
    serde_json::from_value(decoded_all(file)["slices"].clone()).unwrap()
}

/// What Perfetto makes of a file.
fn decoded_all(file: &Path) -> Value {
    let mut decode = Command::new(python_with(&["perfetto", "perfetto==0.59.1", "protobuf==7.36.2"]));
    let output = decode.arg(in_repository("tests/timeline/decode.py")).arg(file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
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
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("the trace has steps 1 to 9"));
}

/// What a viewer shows: of a track, a name, from when to when, with which arguments; and values over time.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Shown {
    track: String,
    name: String,
    times: (u64, u64),
    arguments: String,
}

type Values = BTreeSet<(String, u64, u64)>;

fn written_two_lanes(folder: &Path) -> String {
    let (records, notices) = written::two_lanes();
    let trace = folder.join("two.pfi").to_str().unwrap().to_owned();
    written::write_with(Path::new(&trace), &written::origin(written::PROBESET), &records, &notices);
    trace
}

/// Chrome's events as slices and values.
fn chrome(trace: &str) -> (BTreeSet<Shown>, Values) {
    let output = succeeds(&mut profinfer(&["timeline", trace, "--format", "chrome", "-o", "-"]));
    let events: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let names = events.iter().filter(|event| event["name"] == "thread_name");
    let names: HashMap<u64, &str> =
        names.map(|event| (event["tid"].as_u64().unwrap(), event["args"]["name"].as_str().unwrap())).collect();
    let ns = |micros: &Value| (micros.as_f64().unwrap() * 1e3).round() as u64;
    let slices = events.iter().filter(|event| event["ph"] == "X" || event["ph"] == "i").map(|event| Shown {
        track: names[&event["tid"].as_u64().unwrap()].to_owned(),
        name: event["name"].as_str().unwrap().to_owned(),
        times: (ns(&event["ts"]), ns(&event["ts"]) + event.get("dur").map_or(0, ns)),
        arguments: sorted(event.get("args").cloned().unwrap_or_else(|| serde_json::json!({}))),
    });
    let values = events.iter().filter(|event| event["ph"] == "C").map(|event| {
        let value = event["args"].as_object().unwrap().values().next().unwrap().as_f64().unwrap();
        (event["name"].as_str().unwrap().to_owned(), ns(&event["ts"]), value.round() as u64)
    });
    (slices.collect(), values.collect())
}

/// Arguments in the order of their names.
fn sorted(arguments: Value) -> String {
    let arguments: BTreeMap<String, Value> = serde_json::from_value(arguments).unwrap();
    serde_json::to_string(&arguments).unwrap()
}

/// Everything that a step has is where and what the records say.
fn assert_two_lanes((slices, values): &(BTreeSet<Shown>, Values)) {
    let of = |track: &str, name: &str, start: u64| {
        let found = slices.iter().find(|s| s.track == track && s.name == name && s.times.0 == start);
        let found = found.unwrap_or_else(|| panic!("no {name} on {track} from {start}: {slices:#?}"));
        (found.times.1, serde_json::from_str::<Value>(&found.arguments).unwrap())
    };
    // 1024 bytes each of 64, in a microsecond.
    let operator = |faults: u64| serde_json::json!({ "op": "MUL_MAT", "shape": "64×2", "dtype": "f32", "layer": "5", "faults": faults });
    let mut first = operator(12);
    first["MB/s"] = 66_000.into();
    assert_eq!(of("lane 0", "product-5", 2000), (3000, first));
    // The other lane worked until it waited; what all lanes moved stands with the first.
    assert_eq!(of("lane 1", "product-5", 2000), (2600, operator(7)));
    assert_eq!(of("lane 1", "waiting", 2600), (3000, serde_json::json!({})));
    assert_eq!(of("lane 0", "barrier", 2100).0, 2200, "within the operator");
    assert_eq!(of("thread 1", "barrier", 7000).0, 7100, "in no operator");
    assert_eq!(of("steps", "1 records lost, lane 1", 1000).0, 1000);
    let lost = slices.iter().filter(|slice| slice.name.contains("lost"));
    assert_eq!(lost.count(), 1);
    let states = [
        // Then a record is lost, and until the next event it is not known what threads did.
        ("running", 1500, 3000, serde_json::json!({ "cpu": 3 })),
        ("sleeping", 4000, 6000, serde_json::json!({})),
        ("runnable", 6000, 6500, serde_json::json!({ "cpu": 4 })),
        ("running", 6500, 10_000, serde_json::json!({ "cpu": 4 })),
    ];
    for (state, from, until, cpu) in states {
        assert_eq!(of("lane 0: thread", state, from), (until, cpu), "{state}");
    }
    let on = |track: &str| -> Vec<(u64, u64)> {
        values.iter().filter(|value| value.0 == track).map(|value| (value.1, value.2)).collect()
    };
    assert_eq!(on("lane 0: faults"), [(2000, 12), (3000, 0), (12_000, 0), (13_000, 0)]);
    assert_eq!(on("lane 1: faults"), [(2000, 7), (3000, 0), (12_000, 3), (13_000, 0)]);
    assert_eq!(on("CPU 3: frequency"), [(1000, 2000), (5000, 3500)]);
    // Nine tokens in 9 µs; one in four.
    assert_eq!(on("speed"), [(1000, 1_000_000), (10_000, 0), (11_000, 250_000), (15_000, 0)]);
}

#[test]
fn everything_that_a_step_has_is_shown_with_its_values() {
    let folder = tempfile::tempdir().unwrap();
    assert_two_lanes(&chrome(&written_two_lanes(folder.path())));
}

#[test]
#[ignore = "needs an engine's package"]
fn perfetto_has_the_same_values() {
    let folder = tempfile::tempdir().unwrap();
    let trace = written_two_lanes(folder.path());
    let file = folder.path().join("two.pftrace");
    succeeds(&mut profinfer(&["timeline", &trace, "-o", file.to_str().unwrap()]));
    let decoded = decoded_all(&file);
    let track = |path: &str| path.rsplit('/').next().unwrap().to_owned();
    let slices: Vec<Slice> = serde_json::from_value(decoded["slices"].clone()).unwrap();
    let slices = slices.into_iter().map(|slice| Shown {
        track: track(&slice.track),
        name: slice.name,
        times: (slice.start, slice.end),
        arguments: serde_json::to_string(&slice.arguments).unwrap(),
    });
    let values = decoded["samples"].as_array().unwrap().iter().map(|sample| {
        let value = sample["value"].as_f64().unwrap().round() as u64;
        (track(sample["track"].as_str().unwrap()), sample["time"].as_u64().unwrap(), value)
    });
    let found = (slices.collect(), values.collect());
    assert_two_lanes(&found);
    assert_eq!(found, chrome(&trace));
}

/// What is on the track of each request: the whole, and its parts.
fn assert_requests(shown: &BTreeSet<Shown>, trace: &str) {
    let of = |track: &str| -> Vec<(String, u64, u64)> {
        let slices = shown.iter().filter(|slice| slice.track == track);
        let mut slices: Vec<_> = slices.map(|slice| (slice.name.clone(), slice.times.0, slice.times.1)).collect();
        slices.sort_by_key(|(_, start, end)| (*start, std::cmp::Reverse(*end)));
        slices
    };
    let named = |parts: &[(&str, u64, u64)]| -> Vec<(String, u64, u64)> {
        parts.iter().map(|(name, start, end)| ((*name).to_owned(), *start, *end)).collect()
    };
    let parts =
        [("request 17", 1000, 11_100), ("queued", 1000, 1500), ("prefill", 1500, 6100), ("decode", 6100, 11_100)];
    assert_eq!(of("request 17"), named(&parts));
    let parts =
        [("request 18", 3000, 14_100), ("queued", 3000, 6200), ("prefill", 6200, 9200), ("decode", 9200, 14_100)];
    assert_eq!(of("request 18"), named(&parts));
    // Its first token never came.
    let hung_up = of("request 19");
    assert_eq!(hung_up.iter().map(|part| part.0.as_str()).collect::<Vec<_>>(), ["request 19", "queued"]);
    // What the report has of each, and nothing else.
    let report = json(&["report", trace, "--by", "request", "--json"]);
    let rows = report["requests"].as_array().unwrap();
    assert_eq!(rows.len(), 4, "{rows:#?}");
    for row in rows {
        let track = match row["request"].as_u64() {
            Some(number) => format!("request {number}"),
            None => format!("request #{}", row["number"]),
        };
        let slices = of(&track);
        assert_eq!(slices[0].1, row["start_ns"].as_u64().unwrap(), "{track}");
        for (part, key) in [("queued", "queued_ns"), ("prefill", "prefill_ns"), ("decode", "decode_ns")] {
            let shown = slices.iter().find(|slice| slice.0 == part).map_or(0, |slice| slice.2 - slice.1);
            assert_eq!(shown, row[key].as_u64().unwrap_or(0), "{track}: {part}");
        }
        let whole = shown.iter().find(|slice| slice.track == track && slice.name == track).unwrap();
        let arguments: Value = serde_json::from_str(&whole.arguments).unwrap();
        for (argument, key) in [
            ("input tokens", "input_tokens"),
            ("output tokens", "output_tokens"),
            ("sequence", "sequence"),
            ("steps", "steps"),
            ("time to first token ns", "time_to_first_token_ns"),
        ] {
            assert_eq!(arguments.get(argument).unwrap_or(&Value::Null), &row[key], "{track}: {argument}");
        }
    }
    let tracks: BTreeSet<&str> = shown.iter().map(|slice| slice.track.as_str()).collect();
    assert_eq!(tracks.iter().filter(|track| track.starts_with("request")).count(), 4, "{tracks:?}");
}

fn written_requests(folder: &Path) -> String {
    let trace = folder.join("requests.pfi").to_str().unwrap().to_owned();
    written::write(Path::new(&trace), &written::origin(written::PROBESET), &written::requests());
    trace
}

#[test]
fn each_request_has_a_track() {
    let folder = tempfile::tempdir().unwrap();
    let trace = written_requests(folder.path());
    assert_requests(&chrome(&trace).0, &trace);
    // Of some steps, those that take part in them.
    let output = succeeds(&mut profinfer(&["timeline", &trace, "--steps", "1..1", "--format", "chrome", "-o", "-"]));
    let events: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let names = events.iter().filter(|event| event["name"] == "thread_name").map(|event| &event["args"]["name"]);
    let tracks: Vec<&str> =
        names.map(|name| name.as_str().unwrap()).filter(|name| name.starts_with("request")).collect();
    assert_eq!(tracks, ["request 17", "request 18"]);
}

#[test]
#[ignore = "needs an engine's package"]
fn perfetto_has_the_same_requests() {
    let folder = tempfile::tempdir().unwrap();
    let trace = written_requests(folder.path());
    let file = folder.path().join("requests.pftrace");
    succeeds(&mut profinfer(&["timeline", &trace, "-o", file.to_str().unwrap()]));
    let slices = decoded(&file);
    nest(&slices);
    let shown = slices.into_iter().map(|slice| Shown {
        track: slice.track.rsplit('/').next().unwrap().to_owned(),
        name: slice.name,
        times: (slice.start, slice.end),
        arguments: serde_json::to_string(&slice.arguments).unwrap(),
    });
    let shown: BTreeSet<Shown> = shown.collect();
    assert_requests(&shown, &trace);
    assert_eq!(shown, chrome(&trace).0);
}

/// Twenty steps with more slices together than viewers like, and few bytes.
fn large(path: &Path) {
    let mut r = written::begin();
    for step in 1..=20_u64 {
        let at = step * 1_000_000;
        for region in 0..20_100 {
            r.push("barrier", 1, (at + 10 + region * 20, at + 20 + region * 20), &[]);
        }
        r.push("step", 1, (at, at + 900_000), &[("tokens", Put::Int(1))]);
    }
    written::write(path, &written::origin(written::PROBESET), &r);
}

#[test]
fn of_a_large_trace_three_steps_are_written_and_that_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, out) = (folder.path().join("large.pfi"), folder.path().join("large.json"));
    large(&trace);
    let arguments = ["timeline", "--format", "chrome", "-o", out.to_str().unwrap()];
    let output = succeeds(&mut profinfer(&[&arguments[..], &[trace.to_str().unwrap()]].concat()));
    let reported = String::from_utf8(output.stderr).unwrap();
    assert!(reported.contains(": 3 steps of 20: ") && reported.contains("`--steps 1..20` writes all"), "{reported}");
    let events: Vec<Value> = serde_json::from_slice(&std::fs::read(&out).unwrap()).unwrap();
    let steps: Vec<&Value> = events.iter().filter(|event| event["cat"] == "step").map(|e| &e["args"]["step"]).collect();
    assert_eq!(steps.len(), 3);
    // By then an engine is warm.
    assert!(steps.iter().all(|step| step.as_u64().unwrap() >= 10), "{steps:?}");
    // What cannot be read twice is written whole.
    let mut command = profinfer(&[&arguments[..], &["-"]].concat());
    let output = command.stdin(std::fs::File::open(&trace).unwrap()).output().unwrap();
    assert!(output.status.success());
    let reported = String::from_utf8(output.stderr).unwrap();
    assert!(
        reported.contains("cannot be read twice, so all steps are written") && reported.contains(": 20 steps"),
        "{reported}"
    );
}
