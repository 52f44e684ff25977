//! `profinfer html` as a person sees it: the page is opened in headless Chromium, and what it shows must be what
//! `profinfer report --json` says of the same trace.

use crate::browser::{loads_quietly, looked_at};
use crate::written;
use profinfer_analysis::testing::{Put, Records};
use profinfer_schema::{End, Origin};

use profinfer_trace::TraceWriter;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_profinfer")).args(arguments).output().unwrap()
}

fn in_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// A recording of a real engine.
fn stored() -> String {
    in_repository("tests/traces/v1/llama.pfi").to_str().unwrap().to_owned()
}

/// The page of a trace.
fn page(folder: &TempDir, trace: &str, options: &[&str]) -> String {
    let file = folder.path().join("run.html").to_str().unwrap().to_owned();
    let output = run(&[&["html", trace, "-o", &file], options].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    file
}

fn span(seen: &Value, key: &str) -> (f64, f64) {
    (seen[key][0].as_f64().unwrap(), seen[key][1].as_f64().unwrap())
}

fn width((from, to): (f64, f64)) -> f64 {
    to - from
}

/// Every cell of a table has the value of its key in the report's row.
#[track_caller]
fn same_numbers(shown: &Value, reported: &Value) {
    let (shown, reported) = (shown.as_array().unwrap(), reported.as_array().unwrap());
    assert_eq!(shown.len(), reported.len());
    let mut compared = 0;
    for (cells, row) in shown.iter().zip(reported) {
        for (key, cell) in cells.as_object().unwrap() {
            let value = match key.split_once('.') {
                Some((list @ ("metrics" | "counts"), name)) => {
                    let cells = row[list].as_array().unwrap();
                    &cells.iter().find(|c| c["metric"] == name || c["counter"] == name).unwrap()["value"]
                }
                Some((outer, inner)) => &row[outer][inner],
                None => &row[key.as_str()],
            };
            let shown = cell.as_str().and_then(|cell| cell.parse::<f64>().ok());
            if let (Some(number), Some(cell)) = (value.as_f64(), shown) {
                assert!((number - cell).abs() <= number.abs() * 1e-12, "{key}: {cell} is not {number}");
                compared += 1;
            }
        }
    }
    assert!(compared >= 3 * shown.len(), "{compared} numbers of {} rows", shown.len());
}

#[test]
#[ignore = "needs a browser"]
fn the_page_shows_what_the_report_says() {
    let folder = tempfile::tempdir().unwrap();
    let shot = folder.path().join("light.png").to_str().unwrap().to_owned();
    let pdf = folder.path().join("page.pdf").to_str().unwrap().to_owned();
    let seen = looked_at(&page(&folder, &stored(), &[]), &["--search", "ffn_moe_gate", "--shot", &shot, "--pdf", &pdf]);
    loads_quietly(&seen);
    let report: Value = serde_json::from_slice(&run(&["report", &stored(), "--json"]).stdout).unwrap();
    let held: Value = serde_json::from_str(seen["report"].as_str().unwrap()).unwrap();
    assert!(held == report, "the page holds another report than `report --json` prints");
    let shown = pictures(&seen, &stored());
    assert!(shown.len() >= 4, "{shown:?}");
    let tables = &seen["tables"];
    same_numbers(&tables["table-operators"], &report["operators"]);
    same_numbers(&tables["table-operator_types"], &report["operator_types"]);
    same_numbers(&tables["table-layers"], &report["layers"]);
    same_numbers(&tables["table-experts"], &report["experts"]);
    same_numbers(&tables["table-lanes"], &report["lane_rows"]);
    let phases: Vec<Value> = report["phases"].as_array().unwrap().iter().filter(|p| p["steps"] != 0).cloned().collect();
    same_numbers(&tables["phases"], &Value::Array(phases));

    let text = seen["text"].as_str().unwrap();
    assert!(text.contains(report["completeness"]["verdict"].as_str().unwrap()));
    let sections: Vec<&str> = seen["sections"].as_array().unwrap().iter().map(|id| id.as_str().unwrap()).collect();
    for section in [
        "verdict",
        "overview",
        "steps",
        "timeline",
        "operators",
        "layers",
        "experts",
        "graph",
        "statistics",
        "completeness",
        "environment",
    ] {
        assert!(sections.contains(&section), "{section} of {sections:?}");
    }
    for picture in [shot, pdf] {
        assert!(std::fs::metadata(&picture).unwrap().len() > 20_000, "{picture}");
    }
}

#[test]
#[ignore = "needs a browser"]
fn the_timeline_zooms_moves_and_finds() {
    let folder = tempfile::tempdir().unwrap();
    let seen = looked_at(&page(&folder, &stored(), &[]), &["--search", "ffn_moe_gate"]);
    let of = |key: &str| span(&seen, key);
    assert!((width(of("zoomed_by_key")) / width(of("start")) - 0.5).abs() < 0.01);
    assert!(of("moved_by_key").0 > of("zoomed_by_key").0);
    assert!((width(of("moved_by_key")) - width(of("zoomed_by_key"))).abs() < 1.0);
    assert!(width(of("whole")) > width(of("start")));
    let (whole, zoomed) = (of("whole"), of("zoomed_by_wheel"));
    assert!(width(zoomed) < 0.6 * width(whole) && zoomed.0 > whole.0 && zoomed.1 < whole.1, "{zoomed:?} in {whole:?}");
    assert_eq!(seen["wheel_scrolls_unless_focused"], true);
    // To the left by a quarter of the picture: what is shown moves to later, and is as long as before.
    let (before, dragged) = (of("before_drag"), of("dragged"));
    let moved = (dragged.0 - before.0) / width(before);
    assert!((0.15..0.35).contains(&moved) && (width(dragged) - width(before)).abs() < 1.0, "{before:?} to {dragged:?}");
    let clicked = seen["clicked"].as_str().unwrap();
    assert!(clicked.contains(seen["aimed_at"].as_str().unwrap()), "{clicked}: not {}", seen["aimed_at"]);
    assert!(width(of("double_clicked")) < width(of("before_double_click")), "a double click shows the span itself");
    assert!(!seen["selected"].as_str().unwrap().contains("Click a span"), "{}", seen["selected"]);

    // As many spans are found as the report counts shares of such operators.
    let mut shares = 0;
    for step in 1..=9 {
        let output = run(&["report", &stored(), "--step", &step.to_string(), "--json"]);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let operators = report["step"]["operators"].as_array().unwrap();
        let gates = operators.iter().filter(|operator| operator["name"].as_str().unwrap().contains("ffn_moe_gate"));
        shares += gates.map(|operator| operator["lanes"].as_array().unwrap().len()).sum::<usize>();
    }
    assert!(shares > 0);
    assert_eq!(seen["found"], shares);
    let details = seen["found_details"].as_str().unwrap();
    assert!(details.contains("ffn_moe_gate"), "{details}");
    // What the model does: the normalised input and the router's choice go in; the product with the other half comes of it.
    let (reads, used) = details.split_once("used by").unwrap();
    assert!(
        reads.contains("reads from") && reads.contains("ffn_norm") && reads.contains("ffn_moe_argsort"),
        "{details}"
    );
    assert!(used.contains("ffn_moe_swiglu"), "{details}");
    assert!(seen["followed"].as_str().unwrap().starts_with("ffn_moe_swiglu"), "{}", seen["followed"]);
    // A click beside a layer's operators unfolds the layers, another one folds them.
    assert_eq!(seen["drawings"], serde_json::json!([1, 0]));
}

#[test]
#[ignore = "needs a browser"]
fn narrow_dark_and_old_browsers_are_served() {
    let folder = tempfile::tempdir().unwrap();
    let page = page(&folder, &stored(), &[]);
    let light = looked_at(&page, &[]);
    let shot = folder.path().join("dark.png").to_str().unwrap().to_owned();
    let dark = looked_at(&page, &["--dark", "--width", "400", "--shot", &shot]);
    loads_quietly(&dark);
    assert_ne!(light["ground"], dark["ground"]);
    assert!(std::fs::metadata(&shot).unwrap().len() > 20_000);
    // A browser that cannot inflate shows all parts but those two that it would need that for, and the reason.
    let old = looked_at(&page, &["--without-inflating"]);
    let sections = |seen: &Value| -> Vec<String> {
        seen["sections"].as_array().unwrap().iter().map(|id| id.as_str().unwrap().to_owned()).collect()
    };
    let instead = |id: String| match id.as_str() {
        "steps" => "problem-0".to_owned(),
        "timeline" => "problem-1".to_owned(),
        _ => id,
    };
    assert_eq!(sections(&old), sections(&light).into_iter().map(instead).collect::<Vec<_>>());
    assert!(old["text"].as_str().unwrap().contains("this browser has no DecompressionStream"), "{}", old["text"]);
}

/// A page of these records, and the trace.
fn page_of(folder: &TempDir, records: &Records) -> (String, String) {
    let trace = folder.path().join("run.pfi");
    written::write(&trace, &written::origin(written::PROBESET), records);
    let trace = trace.to_str().unwrap().to_owned();
    (page(folder, &trace, &[]), trace)
}

/// The page holds what `statistics --json` prints. Every section that has something has a picture, which has a name, is
/// drawn, and is followed by its numbers. Gives the sections that have one.
#[track_caller]
fn pictures(seen: &Value, trace: &str) -> Vec<String> {
    let statistics: Value = serde_json::from_slice(&run(&["statistics", trace, "--json"]).stdout).unwrap();
    let held: Value = serde_json::from_str(seen["statistics"].as_str().unwrap()).unwrap();
    assert!(held == statistics, "the page holds other statistics than `statistics --json` prints");
    let pictures = seen["pictures"].as_array().unwrap();
    for picture in pictures {
        let named = |key: &str| picture[key].as_str().is_some_and(|text| !text.trim().is_empty());
        assert!(named("label") && named("title"), "{picture}");
        assert_eq!((&picture["drawn"], &picture["has_table"]), (&true.into(), &true.into()), "{picture}");
    }
    let of = |section: &str| pictures.iter().any(|picture| picture["part"] == section);
    let sections =
        statistics.as_object().unwrap().iter().filter(|(_, part)| part["absent"].is_null() && part.is_object());
    let sections = sections.filter(|(name, _)| !["completeness", "trace"].contains(&name.as_str()));
    let (with, without): (Vec<String>, Vec<String>) = sections.map(|(name, _)| name.clone()).partition(|name| of(name));
    // One model alone that does not say its sequences is no picture.
    assert!(
        without.iter().all(|name| name == "models" && statistics["models"]["rounds"] == serde_json::json!([])),
        "{without:?}"
    );
    with
}

#[test]
#[ignore = "needs a browser"]
fn every_part_of_the_statistics_has_a_picture() {
    let folder = tempfile::tempdir().unwrap();
    let (page, trace) = page_of(&folder, &written::many());
    let seen = looked_at(&page, &[]);
    loads_quietly(&seen);
    let sections = ["backends", "counters", "experts", "growth", "lanes", "layers", "steps", "work"];
    assert_eq!(pictures(&seen, &trace), sections);
    let labels: Vec<&str> = seen["pictures"].as_array().unwrap().iter().map(|p| p["label"].as_str().unwrap()).collect();
    for wanted in [
        "Tokens per second over time",
        "Time against operations",
        "cycles by operator",
        "cpu",
        "When experts were used",
    ] {
        assert!(labels.iter().any(|label| label.contains(wanted)), "{wanted}: {labels:?}");
    }
    // Where one backend overtakes the other is marked.
    assert!(seen["text"].as_str().unwrap().contains("equal at"), "{}", seen["text"]);
    for options in [&["--dark"][..], &["--width", "400"]] {
        let seen = looked_at(&page, options);
        loads_quietly(&seen);
        pictures(&seen, &trace);
    }
    let (page, trace) = page_of(&folder, &written::drafts());
    let seen = looked_at(&page, &[]);
    loads_quietly(&seen);
    assert!(pictures(&seen, &trace).contains(&"models".to_owned()));
}

/// What was counted shows: in tables of the phases, where a part was not counted too, and with each span.
#[test]
#[ignore = "needs a browser"]
fn what_was_counted_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let mut records = Records::default();
    written::count(&mut records, "operator", "faults", "minor-faults");
    records.push("thread", 7, (1, 1), &[("pid", Put::Int(1))]);
    let fields = [("address", Put::Int(16)), ("op", Put::Text("MUL_MAT")), ("name", Put::Text("product"))];
    records.push("tensor", 7, (2, 2), &fields);
    for step in 0..3_u64 {
        let at = 1000 * (1 + step);
        let fields = [("node", Put::Int(16)), ("faults", Put::Int(1234))];
        records.push("operator", 7, (at + 10, at + 400), &fields);
        // One that counts nothing, in the second step only: its phase has no sum.
        if step == 1 {
            records.push("kernel", 7, (at + 410, at + 500), &[]);
        }
        records.push("graph", 7, (at + 5, at + 600), &[("backend", Put::Text("cpu"))]);
        records.push("step", 7, (at, at + 700), &[("tokens", Put::Int(if step == 0 { 5 } else { 1 }))]);
    }
    let origin = Origin { engine: "toy".into(), pid: 1, ..Origin::default() };
    let seen = looked_at(&page(&folder, &written(&folder, &origin, &records), &[]), &["--search", "product"]);
    loads_quietly(&seen);
    let details = seen["found_details"].as_str().unwrap();
    assert!(details.contains("faults on this lane") && details.contains("1,234"), "{details}");
    let text = seen["text"].as_str().unwrap();
    assert!(text.contains("Counters and metrics") && text.contains("minor-faults"), "{text}");
}

/// A step on the CPU and on a device: the lanes, the verdict, and the same operator on both.
#[test]
#[ignore = "needs a browser"]
fn devices_are_shown_beside_the_cpu() {
    let folder = tempfile::tempdir().unwrap();
    for is_measured in [false, true] {
        let (page, trace) = page_of(&folder, &offloaded(is_measured));
        let seen = looked_at(&page, &["--search", "work pending"]);
        loads_quietly(&seen);
        assert_eq!(seen["found"], 3, "a span a step");
        let (details, text) = (seen["found_details"].as_str().unwrap(), seen["text"].as_str().unwrap());
        let (expected, other) = ("measured; when within this time is unknown", "a bound, not measured");
        let (expected, other) = if is_measured { (expected, other) } else { (other, expected) };
        assert!(details.contains(expected) && !details.contains(other), "{details}");
        for expected in ["Decode is device-bound", "Steps on a device: what the host does", "waiting for the device"] {
            assert!(text.contains(expected), "{expected:?} in {text}");
        }
        let statistics: Value = serde_json::from_slice(&run(&["statistics", &trace, "--json"]).stdout).unwrap();
        let pairs = statistics["backends"]["pairs"].as_array().unwrap();
        assert_eq!(pairs.len(), usize::from(is_measured), "{pairs:?}");
        assert_eq!(pictures(&seen, &trace).contains(&"backends".to_owned()), is_measured);
        for pair in pairs {
            let side =
                |of: &str| (pair[of]["backend"].clone(), pair[of]["on_device"] == true, pair[of]["mean_ns"].clone());
            assert_eq!(
                (side("first"), side("second")),
                (("cpu".into(), false, 100.0.into()), ("gpu".into(), true, 300.0.into()))
            );
            let printed = String::from_utf8(run(&["statistics", &trace]).stdout).unwrap();
            assert!(printed.contains("gpu (device)"), "{printed}");
        }
    }
}

/// Steps of two layers, one on the CPU, one on a device that takes 300 ns for it.
fn offloaded(is_measured: bool) -> Records {
    let mut r = Records::default();
    r.push("thread", 7, (1, 1), &[("pid", Put::Int(100))]);
    r.push("properties", 7, (1, 2), &[("name", Put::Text("toy")), ("period", Put::Int(2.0_f32.to_bits().into()))]);
    for (address, name) in [(16, "product-0"), (32, "product-1")] {
        written::describe(&mut r, 2, address, ("MUL_MAT", name), &[64, 1, 1, 1], &[]);
    }
    for at in [10_000, 20_000, 30_000] {
        r.push("operator", 7, (at + 20, at + 120), &[("node", Put::Int(16))]);
        r.push("graph", 7, (at + 10, at + 130), &[("backend", Put::Text("cpu"))]);
        r.push("dispatch", 7, (at + 150, at + 160), &[("node", Put::Int(32)), ("encoded", Put::Int(1))]);
        r.push("submit", 7, (at + 170, at + 180), &[("queue", Put::Int(0xabc)), ("fence", Put::Int(3))]);
        r.push("graph", 7, (at + 140, at + 190), &[("backend", Put::Text("gpu"))]);
        r.push("step", 7, (at, at + 200), &[("tokens", Put::Int(1))]);
        r.push("wait_fence", 7, (at + 210, at + 9_900), &[("fence", Put::Int(3))]);
        if is_measured {
            r.push("ticks", 7, (at + 9_910, at + 9_911), &[("timestamps", Put::List(&[1000, 1150]))]);
        }
    }
    r
}

/// A trace whose texts try to become parts of the page.
fn hostile(folder: &TempDir) -> String {
    let mut records = Records::default();
    let attacks = [
        "</script><script>pwned=1",
        "<img src=x onerror=pwned=1>",
        "<!--<script>",
        "'\"><b onx=1>{{program}}",
        "\u{2028}\u{202e}\u{1b}[31m\u{0}",
    ];
    records.push("thread", 7, (1, 1), &[("pid", Put::Int(1))]);
    for (index, attack) in attacks.iter().enumerate() {
        let address = 16 * (index as u64 + 1);
        let fields = [("address", Put::Int(address)), ("op", Put::Text(attack)), ("name", Put::Text(attack))];
        records.push("tensor", 7, (2, 2), &fields);
        let start = 100 + 20 * index as u64;
        records.push("operator", 7, (start, start + 15), &[("node", Put::Int(address))]);
    }
    records.push("graph", 7, (50, 900), &[("backend", Put::Text("</style><i>"))]);
    records.push("step", 7, (40, 1000), &[("tokens", Put::Int(1))]);
    let command = attacks.map(str::to_owned).to_vec();
    let origin = Origin { engine: attacks[1].to_owned(), command, pid: 1, ..Origin::default() };
    written(folder, &origin, &records)
}

fn written(folder: &TempDir, origin: &Origin, records: &Records) -> String {
    let path = folder.path().join("run.pfi");
    let file = std::fs::File::create(&path).unwrap();
    let mut writer = TraceWriter::new(file, origin, &records.schema).unwrap();
    records.records.iter().for_each(|record| writer.push(record).unwrap());
    writer.finish(&End::default()).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
#[ignore = "needs a browser"]
fn hostile_names_are_names() {
    let folder = tempfile::tempdir().unwrap();
    let seen = looked_at(&page(&folder, &hostile(&folder), &[]), &["--search", "onerror"]);
    loads_quietly(&seen);
    assert_eq!((&seen["dialogs"], &seen["globals"]), (&serde_json::json!(0), &serde_json::json!([])));
    let text = seen["text"].as_str().unwrap();
    assert!(text.contains("<img src=x onerror=pwned=1>"), "it is shown as what it is: {text}");
    assert!(!text.contains(['\u{202e}', '\u{1b}']), "and changes nothing of how the rest is shown");
    assert_eq!(seen["found"], 1);
}

/// Pictures a second: `scripts/test` runs this with nothing beside it.
mod timed {
    use super::*;

    #[test]
    #[ignore = "needs a browser"]
    fn a_timeline_of_two_hundred_thousand_spans_is_smooth() {
        let folder = tempfile::tempdir().unwrap();
        let mut records = Records::default();
        for tid in [7, 8] {
            records.push("thread", tid, (1, 1), &[("pid", Put::Int(1))]);
        }
        for operator in 0..200 {
            let name = format!("op_{operator}");
            let fields = [("address", Put::Int(operator * 16)), ("op", Put::Text("MUL")), ("name", Put::Text(&name))];
            records.push("tensor", 7, (2, 2), &fields);
        }
        for token in 0..500 {
            let start = 1000 + token * 300_000;
            for operator in 0..200 {
                let at = start + 100 + operator * 1000;
                for (lane, tid) in [(0, 7), (1, 8)] {
                    let fields =
                        [("lane", Put::Int(lane)), ("node", Put::Int(operator * 16)), ("waiting", Put::Int(70))];
                    records.push("operator", tid, (at, at + 900), &fields);
                }
            }
            records.push("step", 7, (start, start + 250_000), &[("tokens", Put::Int(1))]);
        }
        let trace = written(&folder, &Origin { pid: 1, ..Origin::default() }, &records);
        let seen = looked_at(&page(&folder, &trace, &[]), &["--search", "op_77"]);
        loads_quietly(&seen);
        assert_eq!(seen["found"], 1000);
        // Busy machines, and browsers that draw without a graphics card, still have ten pictures a second.
        assert!(seen["frame_ms"].as_f64().unwrap() < 100.0, "{} ms a picture", seen["frame_ms"]);
    }
}

#[test]
fn only_the_steps_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(page(&folder, &stored(), &["--steps", "3..4"])).unwrap();
    assert!(text.contains("The timeline has 2 of 9 steps: those that were asked for"));
    let wrong = run(&["html", &stored(), "--steps", "30..40", "-o", "-"]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("the trace has steps 1 to 9"));
}

#[test]
fn standard_output_has_the_page_and_nothing_else() {
    let output = run(&["html", &stored(), "-o", "-"]);
    assert!(output.status.success() && output.stderr.is_empty());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("<!doctype html>") && text.trim_end().ends_with("</html>"));
}
