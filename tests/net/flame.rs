//! The page's flame graph: it has the samples that `export --format folded` and `report --by function` have, and works by
//! keyboard in headless Chromium.

use crate::browser::{loads_quietly, looked_at};
use crate::invocation::{json, profinfer, succeeds};
use crate::written;
use profinfer_analysis::testing::{Put, Records};
use profinfer_schema::{CodePlace, KernelFunction, Sample, Sampling};
use profinfer_trace::TraceWriter;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

const KERNEL: u64 = 0xffff_ffff_8100_0000;
const CALLER: u64 = 3;

/// Operators, each with its type and name, and how many samples each has in which function.
type Taken<'a> = (&'a str, &'a str, &'a [(u64, u64)]);

/// A step of these operators, one after the other on one thread. Functions are numbers; all are called by one.
fn trace(folder: &Path, operators: &[Taken<'_>], functions: &[&str]) -> String {
    let path = folder.join("run.pfi");
    let mut r = Records::default();
    r.push("thread", 1, (0, 0), &[("pid", Put::Int(100))]);
    let place = |function: u64| CodePlace { module: CodePlace::KERNEL, offset: KERNEL + 16 * function + 2 };
    let number = r.schema.records.iter().position(|record| record.name == "operator").unwrap() as u16;
    let (mut samples, mut at) = (Vec::new(), 20);
    let take = |time, within: Option<u64>, function| Sample {
        time,
        tid: 1,
        pid: 100,
        within: within.map(|start| (number, start)),
        frames: vec![place(function), place(CALLER)],
        ..Sample::default()
    };
    for (index, (op, name, of)) in operators.iter().enumerate() {
        let (address, start) = (16 * (index as u64 + 1), at);
        let fields = [("address", Put::Int(address)), ("op", Put::Text(op)), ("name", Put::Text(name))];
        r.push("tensor", 1, (1, 1), &fields);
        for (function, count) in *of {
            samples.extend((0..*count).map(|n| take(at + n, Some(start), *function)));
            at += count;
        }
        let fields = [("lane", Put::Int(0)), ("node", Put::Int(address)), ("waiting", Put::Int(1))];
        r.push("operator", 1, (start, at + 2), &fields);
        at += 3;
    }
    samples.push(take(at, None, 0));
    r.push("graph", 1, (10, at + 5), &[("backend", Put::Text("cpu"))]);
    r.push("step", 1, (5, at + 9), &[("tokens", Put::Int(1))]);
    let file = std::fs::File::create(&path).unwrap();
    let mut writer = TraceWriter::new(file, &written::origin(written::PROBESET), &r.schema).unwrap();
    let taken = samples.len() as u64;
    samples.into_iter().for_each(|sample| writer.sample(sample).unwrap());
    r.records.iter().for_each(|record| writer.push(record).unwrap());
    let function = |(n, name): (usize, &&str)| KernelFunction {
        start: KERNEL + 16 * n as u64,
        end: KERNEL + 16 * (n as u64 + 1),
        name: (*name).to_owned(),
    };
    let kernel = functions.iter().enumerate().map(function).collect();
    let sampling =
        Sampling { event: "cpu-clock".into(), hz: 500, stacks: true, kernel, taken, lost: 7, ..Sampling::default() };
    writer.sampling(&sampling).unwrap();
    let reason = "the target ended".into();
    writer.finish(&profinfer_schema::End { time: at + 20, reason, ..Default::default() }).unwrap();
    path.to_str().unwrap().to_owned()
}

fn small(folder: &Path) -> String {
    let operators: [Taken<'_>; 3] = [
        ("MUL", "product-2", &[(0, 300), (1, 60)]),
        ("MUL", "product-10", &[(0, 90), (2, 5)]),
        ("ADD", "sum-10", &[(1, 44)]),
    ];
    trace(folder, &operators, &["dot", "unpack", "</script>; rare", "compute"])
}

/// The page, and what its script `page` has.
fn page(folder: &Path, trace: &str) -> (String, Value) {
    let file = folder.join("run.html").to_str().unwrap().to_owned();
    succeeds(&mut profinfer(&["html", trace, "-o", &file]));
    let text = std::fs::read_to_string(&file).unwrap();
    let data = text.split_once("id=\"page\">").unwrap().1.split_once("</script>").unwrap().0;
    (file, serde_json::from_str(data).unwrap())
}

/// Of a flame graph: each frame's path and weight.
fn frames(flame: &Value) -> Vec<(Vec<String>, u64)> {
    let list = |key: &str| flame[key].as_array().unwrap().iter();
    let mut frames: Vec<(Vec<String>, u64)> = Vec::new();
    for ((name, parent), weight) in list("name").zip(list("parent")).zip(list("weight")) {
        let name = flame["names"][name.as_u64().unwrap() as usize][0].as_str().unwrap().to_owned();
        let around = frames.get(parent.as_u64().unwrap() as usize).map_or_else(Vec::new, |(path, _)| path.clone());
        frames.push(([around, vec![name]].concat(), weight.as_u64().unwrap()));
    }
    frames
}

/// Stacks of `export --format folded`.
fn folded(folder: &Path, trace: &str) -> BTreeMap<Vec<String>, u64> {
    let file = folder.join("run.folded");
    succeeds(&mut profinfer(&["export", trace, "--format", "folded", "-o", file.to_str().unwrap()]));
    let text = std::fs::read_to_string(&file).unwrap();
    let stack = |line: &str| {
        let (frames, count) = line.rsplit_once(' ').unwrap();
        (frames.split(';').map(str::to_owned).collect(), count.parse().unwrap())
    };
    text.lines().map(stack).collect()
}

/// The weight of the stacks through a path; the path begins with the frame of everything.
fn through(stacks: &BTreeMap<Vec<String>, u64>, path: &[String]) -> u64 {
    stacks.iter().filter(|(stack, _)| stack.starts_with(&path[1..])).map(|(_, count)| count).sum()
}

#[test]
fn the_page_has_the_samples_of_the_report_and_of_folded_stacks() {
    let folder = tempfile::tempdir().unwrap();
    let trace = small(folder.path());
    let (_, page) = page(folder.path(), &trace);
    let of_samples = &page["flames"][0];
    assert_eq!(of_samples["unit"], "samples");
    assert!(of_samples["sentence"].as_str().unwrap().starts_with("500 samples of cpu-clock, 500 in a second"));
    assert!(of_samples["sentence"].as_str().unwrap().contains("7 lost"));
    let (frames_of_page, stacks) = (frames(of_samples), folded(folder.path(), &trace));
    // A semicolon divides frames: the folded file has a colon for it.
    let frames_of_page: Vec<(Vec<String>, u64)> = frames_of_page
        .into_iter()
        .map(|(path, weight)| (path.iter().map(|name| name.replace(';', ":")).collect(), weight))
        .collect();
    for (path, weight) in &frames_of_page {
        assert_eq!(*weight, through(&stacks, path), "{path:?}");
    }
    let whole: Vec<&Vec<String>> = stacks.keys().collect();
    let paths: Vec<&[String]> = frames_of_page.iter().map(|(path, _)| &path[1..]).collect();
    assert!(whole.iter().all(|stack| paths.contains(&stack.as_slice())), "{paths:?} lacks one of {whole:?}");
    let layers: Vec<&str> =
        frames_of_page.iter().filter(|(path, _)| path.len() == 3).map(|(path, _)| path[2].as_str()).collect();
    assert_eq!(layers, ["layer 2", "layer 10", "outside operators"]);
    let report = json(&["report", &trace, "--by", "function", "--json"]);
    assert_eq!(page["functions"], report);

    // Lane time by spans is what the report has.
    let of_spans = &page["flames"][1];
    assert_eq!(of_spans["unit"], "ns");
    let report = json(&["report", &trace, "--json"]);
    let decode = report["phases"].as_array().unwrap().iter().find(|row| row["phase"] == "decode").unwrap();
    let weight = |end: &[&str]| -> u64 {
        let frames = frames(of_spans).into_iter();
        frames.filter(|(path, _)| path.iter().map(String::as_str).eq(end.iter().copied())).map(|(_, ns)| ns).sum()
    };
    assert_eq!(weight(&["all", "decode", "outside operators"]), decode["outside_operators_ns"]);
    assert_eq!(weight(&["all", "decode", "outside graphs"]), decode["outside_graphs_ns"]);
    let product = report["operators"].as_array().unwrap().iter().find(|row| row["name"] == "product-*").unwrap();
    let paths = [["2", "product-2"], ["10", "product-10"]].map(|[layer, name]| {
        let layer = format!("layer {layer}");
        let path = ["all", "decode", &layer, "MUL", name];
        (weight(&path), weight(&[&path[..], &["waiting"]].concat()))
    });
    let work: u64 = paths.iter().map(|(all, waiting)| all - waiting).sum();
    assert_eq!((work, paths[0].1 + paths[1].1), (product["total_ns"].as_u64().unwrap(), 2));
}

#[test]
fn of_very_many_frames_the_largest_are_shown_and_the_others_are_merged() {
    let folder = tempfile::tempdir().unwrap();
    let functions: Vec<String> = (0..200).map(|n| format!("function_{n}")).collect();
    let functions: Vec<&str> = functions.iter().map(String::as_str).collect();
    let names: Vec<String> = (0..150).map(|n| format!("op{n}-{}", n % 9)).collect();
    let few: Vec<(u64, u64)> = (0..200).map(|function| (function, 1)).collect();
    let many: Vec<(u64, u64)> = (0..200).map(|function| (function, 2)).collect();
    let operators: Vec<Taken<'_>> = names
        .iter()
        .enumerate()
        .map(|(n, name)| ("MUL", name.as_str(), if n < 20 { &many[..] } else { &few }))
        .collect();
    let trace = trace(folder.path(), &operators, &functions);
    let (_, page) = page(folder.path(), &trace);
    let shown = frames(&page["flames"][0]);
    assert!((15_000..=20_400).contains(&shown.len()), "{} frames", shown.len());
    let stacks = folded(folder.path(), &trace);
    assert_eq!(shown[0].1, stacks.values().sum::<u64>());
    let is_merged = |path: &[String]| path.last().unwrap().contains("smaller frame");
    for (path, weight) in shown.iter().filter(|(path, _)| path.len() <= 5 && !is_merged(path)) {
        assert_eq!(*weight, through(&stacks, path), "{path:?}");
    }
    // What is merged is what is missing beside it.
    let (merged, _) = shown.iter().find(|(path, _)| is_merged(path)).unwrap();
    let around = &merged[..merged.len() - 1];
    let inside: u64 =
        shown.iter().filter(|(path, _)| path.len() == merged.len() && path.starts_with(around)).map(|(_, n)| n).sum();
    assert_eq!(inside, through(&stacks, around), "{around:?}");
}

#[test]
#[ignore = "needs a browser"]
fn frames_are_found_and_zoomed_by_keys() {
    let folder = tempfile::tempdir().unwrap();
    let trace = small(folder.path());
    let (file, data) = page(folder.path(), &trace);
    let shown = frames(&data["flames"][0]);
    let index = |path: &[&str]| shown.iter().position(|(frame, _)| frame.iter().eq(path)).unwrap() as u64;
    let (layer_2, layer_10) = (index(&["all", "decode", "layer 2"]), index(&["all", "decode", "layer 10"]));
    let (shot, actions) = (
        folder.path().join("flame.png").to_str().unwrap().to_owned(),
        // To the phase, its largest part, and its neighbour; in and out; then a search.
        "ArrowDown ArrowDown ArrowRight Enter ArrowUp Escape / =rare Enter Escape / =dot Enter Home @0.5,0 !0.5,1",
    );
    let seen = looked_at(&file, &["--flame", actions, "--shot", &shot]);
    loads_quietly(&seen);
    assert!(std::fs::metadata(&shot).unwrap().len() > 20_000);
    let state = |n: usize| &seen["flame"][n];
    let at = |n: usize| (state(n)["zoomed"].as_u64().unwrap(), state(n)["selected"].as_u64().unwrap());
    assert_eq!(state(0)["rows"].as_u64().unwrap(), shown.len() as u64);
    let decode = index(&["all", "decode"]);
    assert_eq!([at(0), at(1), at(2)], [(0, decode), (0, layer_2), (0, layer_10)]);
    assert_eq!([at(3), at(4), at(5)], [(layer_10, layer_10), (layer_10, decode), (decode, decode)]);
    let text = |n: usize, key: &str| state(n)[key].as_str().unwrap().to_owned();
    assert!(seen["flame"].as_array().unwrap().iter().all(|state| !state["details"].as_str().unwrap().contains("null")));
    assert!(text(3, "details").contains("layer 10") && text(3, "details").contains("139"), "{}", text(3, "details"));
    // Found by `/` and Enter: a frame of few samples, which says so. Escape ends the search.
    assert_eq!(text(6, "focus"), "flame-search");
    assert!(text(7, "found").starts_with("1 frame, 5 samples"), "{}", text(7, "found"));
    let rare = index(&["all", "decode", "layer 10", "MUL", "product-10", "compute", "</script>; rare"]);
    assert_eq!(at(8).1, rare);
    assert!(text(8, "details").contains("Fewer than 20 samples"), "{}", text(8, "details"));
    assert_eq!((text(9, "found"), text(9, "focus")), (String::new(), "flame".to_owned()));
    // What all matches together are is the function's row in the report, with its interval.
    let report = json(&["report", &trace, "--by", "function", "--json"]);
    let dot = report["functions"].as_array().unwrap().iter().find(|row| row["function"] == "dot").unwrap();
    let percent = |value: &Value| format!("{:.1}", value.as_f64().unwrap() * 100.0);
    let expected = format!(
        "3 frames, {} samples: {} % (95 %: {} to {} %)",
        dot["samples"],
        percent(&dot["share"]),
        percent(&dot["interval"][0]),
        percent(&dot["interval"][1])
    );
    assert_eq!(text(11, "found"), expected);
    assert_eq!(at(12).1, index(&["all", "decode", "layer 2", "MUL", "product-2", "compute", "dot"]));
    // By mouse: what is under the pointer, and a click zooms.
    assert!(text(14, "tip").starts_with("all\n500 samples, 100.0 %"), "{}", text(14, "tip"));
    assert_eq!(at(15), (decode, decode));
    let functions = seen["tables"]["table-functions"].as_array().unwrap();
    let samples: u64 = functions.iter().map(|row| row["samples"].as_str().unwrap().parse::<u64>().unwrap()).sum();
    assert_eq!((functions.len(), samples), (3, 500));
}
