//! ncnn as its users install it, from a wheel without symbols, and as they build it, with debug information and stripped
//! of it: one probeset for all. The layers that are recorded are those that the engine lists, in its order, whichever
//! build it is. This needs root.

use crate::invocation::{lines, profinfer, succeeds};
use crate::packages::{installed, installed_version, packaged, renamed_version, scripts};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

const RUNS: usize = 4;

/// A Python that has the wheel.
pub(crate) fn python() -> &'static Path {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    PYTHON.get_or_init(|| installed("install_ncnn.sh"))
}

/// One that has a wheel of two years before.
pub(crate) fn older_python() -> &'static Path {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    PYTHON.get_or_init(|| installed_version("install_ncnn.sh", "older"))
}

/// The folder of what is built from source.
fn built() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| installed("build_ncnn.sh"))
}

/// The wheel's Python module.
fn wheel() -> PathBuf {
    packaged(python(), "ncnn", "", ".so")
}

/// The library with debug information, and without.
fn library(stripped: bool) -> PathBuf {
    let folder = built().join("lib");
    let folder = if stripped { folder.join("stripped") } else { folder };
    folder.join("libncnn.so.1").canonicalize().unwrap()
}

#[derive(Clone, Copy, Debug)]
enum Build {
    Wheel,
    Older,
    Debug,
    Stripped,
}

/// Records some runs; what the engine prints, and the trace's events in order.
fn recorded(build: Build, net: &str, trace: &str) -> (String, Vec<Value>) {
    // Without a probeset's name, it is found by what the target has.
    let named: &[&str] = if matches!(build, Build::Stripped) { &[] } else { &["ncnn"] };
    let mut command = profinfer(&["record"]);
    command.args(named).args(["-o", trace, "--"]);
    match build {
        Build::Wheel => command.arg(python()).arg(scripts().join("run_ncnn.py")).arg("run"),
        Build::Older => command.arg(older_python()).arg(scripts().join("run_ncnn.py")).arg("run"),
        Build::Debug | Build::Stripped => {
            let library = library(matches!(build, Build::Stripped));
            command.env("LD_LIBRARY_PATH", library.parent().unwrap()).arg(built().join("run"))
        }
    };
    let output = succeeds(command.args([net, &RUNS.to_string()]));
    let reported = String::from_utf8(output.stdout).unwrap();
    let mut events = lines(&succeeds(&mut profinfer(&["dump", trace])).stdout);
    // What an object is comes before those that refer to it.
    events.sort_by_key(|event| event["start_ns"].as_u64().unwrap());
    (reported, events)
}

fn span(event: &Value) -> (u64, u64) {
    let number = |name: &str| event[name].as_u64().unwrap();
    (number("start_ns"), number("start_ns") + number("duration_ns"))
}

/// Whether it is of this probe; where several probesets were looked for, names begin with the probeset's.
fn is_of(event: &Value, probe: &str) -> bool {
    event["probe"].as_str().is_some_and(|name| name.strip_prefix("ncnn__").unwrap_or(name) == probe)
}

/// The layers of each run, `TYPE NAME`, and how many others ran within them.
fn layers(events: &[Value]) -> Vec<(Vec<String>, Vec<String>)> {
    let mut known: BTreeMap<&str, String> = BTreeMap::new();
    let (mut runs, mut layers) = (Vec::new(), Vec::new());
    for event in events {
        let text = |name: &str| event["fields"][name].as_str().unwrap_or_default();
        if let (Some(address), true) = (event["address"].as_str(), event["fields"]["op"].is_string()) {
            known.insert(address, format!("{} {}", text("op"), text("name")));
        } else if is_of(event, "run") {
            runs.push(span(event));
        } else if event["role"] == "operator" {
            layers.push((span(event), known.get(text("node")).expect("it is described before").clone()));
        }
    }
    let within = |one: (u64, u64), outer: (u64, u64)| outer.0 <= one.0 && one.1 <= outer.1;
    let of_run = |run: &(u64, u64)| {
        let (mut outermost, mut inner, mut open) = (Vec::new(), Vec::new(), (0, 0));
        for (span, line) in layers.iter().filter(|(span, _)| within(*span, *run)) {
            if within(*span, open) {
                inner.push(line.clone());
            } else {
                open = *span;
                outermost.push(line.clone());
            }
        }
        (outermost, inner)
    };
    runs.iter().map(of_run).collect()
}

#[test]
#[ignore = "needs root"]
fn layers_are_those_that_the_engine_lists_in_each_build() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let net = path("net");
    succeeds(Command::new(python()).arg(scripts().join("run_ncnn.py")).args(["make", &net]));
    let mut listed = Vec::new();
    for build in [Build::Wheel, Build::Debug, Build::Stripped] {
        let (reported, events) = recorded(build, &net, &path("run.pfi"));
        // Its list has what is given from outside, too, which does not run.
        let expected: Vec<String> = reported
            .lines()
            .filter(|line| !line.starts_with("ran ") && !line.starts_with("Input "))
            .map(str::to_owned)
            .collect();
        assert_eq!(expected.len(), 10, "{reported}");
        let runs = layers(&events);
        assert_eq!(runs.len(), RUNS, "{build:?}");
        for (layers, inner) in runs {
            assert_eq!(layers, expected, "{build:?}");
            // The convolution of four groups has four within it, without a name.
            assert!(inner.iter().filter(|line| *line == " ").count() >= 4, "{build:?}: {inner:?}");
        }
        listed.push((expected, reported.lines().last().unwrap().to_owned()));
    }
    // The same layers, and the same numbers come out.
    assert!(listed.iter().all(|one| *one == listed[0]), "{listed:?}");
}

/// Where `check` finds the members of layers, in bytes; whether all of it is debug information's.
fn found(target: &Path, extra: &[&str]) -> (Vec<(String, u64)>, bool) {
    found_by("ncnn", target, extra)
}

fn found_by(probeset: &str, target: &Path, extra: &[&str]) -> (Vec<(String, u64)>, bool) {
    let mut command = profinfer(&["check", probeset, "--json", "--target", &target.display().to_string()]);
    let check: Value = serde_json::from_slice(&succeeds(command.args(extra)).stdout).unwrap();
    let paths = check["paths"].as_array().unwrap().iter().filter(|path| path["from"].is_string());
    let mut layout: Vec<(String, u64)> = paths
        .clone()
        .flat_map(|path| path["layout"].as_array().unwrap())
        .map(|part| (part["what"].as_str().unwrap().to_owned(), part["value"].as_u64().unwrap_or(u64::MAX)))
        .filter(|(what, _)| what.starts_with("ncnn::Layer."))
        .collect();
    layout.sort();
    layout.dedup();
    let is_debug =
        paths.filter(|path| path["path"] == "type" || path["path"] == "name").all(|path| path["from"] == "DWARF");
    (layout, is_debug)
}

fn at(kind: u64, name: u64) -> Vec<(String, u64)> {
    vec![("ncnn::Layer.name".to_owned(), name), ("ncnn::Layer.type".to_owned(), kind)]
}

/// The wheels of 2024 have the old strings of the C++ library: names are elsewhere, and of another kind.
#[test]
#[ignore = "needs root"]
fn layers_of_an_older_wheel_are_those_that_the_engine_lists() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let net = path("net");
    let script =
        |what: &str| succeeds(Command::new(older_python()).arg(scripts().join("run_ncnn.py")).args([what, &net]));
    script("make");
    let reported = String::from_utf8(script("shapes").stdout).unwrap();
    let expected: Vec<&str> = reported.lines().filter(|line| !line.starts_with("Input ")).collect();
    assert_eq!(expected.len(), 10, "{reported}");
    let (_, events) = recorded(Build::Older, &net, &path("run.pfi"));
    assert_eq!(layers(&events).len(), RUNS);
    assert_eq!(shapes(&events), expected);
}

/// Every shipped probeset was waited for. What was never called is a function of the engine that came.
#[test]
#[ignore = "needs root"]
fn that_nothing_ran_is_reported_of_the_engine_that_was_there() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = profinfer(&["record", "-o", &folder.path().join("run.pfi").display().to_string(), "--"]);
    let output = command.arg(python()).args(["-c", "import ncnn"]).output().unwrap();
    let reported = String::from_utf8_lossy(&output.stderr);
    let problem = reported.lines().find(|line| line.starts_with("error[R004]")).unwrap_or_else(|| panic!("{reported}"));
    assert!(problem.contains("slot 0 of ncnn::Extractor"), "{problem}");
    assert!(!["MNN", "llama", "onnxruntime", "InferRequest"].iter().any(|other| problem.contains(other)), "{problem}");
}

#[test]
#[ignore = "needs root"]
fn layouts_come_from_debug_information_or_a_check() {
    assert_eq!(found(&library(false), &[]), (at(48, 80), true));
    // The check finds what the debug information says.
    assert_eq!(found(&library(true), &[]), (at(48, 80), false));
    assert_eq!(found(&wheel(), &[]), (at(56, 88), false));
}

#[test]
#[ignore = "needs root"]
fn a_version_that_nobody_tried_is_read_by_the_same_layout() {
    let folder = tempfile::tempdir().unwrap();
    // The same library, calling itself another version.
    let other = folder.path().join("libncnn.so.1");
    renamed_version(&library(true), "1.0.20261020", "1.0.20270101", &other);
    assert_eq!(found(&other, &[]), (at(48, 80), false));
    // A lock file of the build, by its build-id, has what was chosen.
    let lock = folder.path().join("ncnn.lock").display().to_string();
    let library = library(true).display().to_string();
    succeeds(&mut profinfer(&["lock", "ncnn", "--target", &library, "-o", &lock]));
    assert_eq!(found(&other, &["--lock", &lock]), (at(48, 80), false));
}

/// The layout of a real file by its build-id, and by its name: of several, the one whose check is so of the file.
#[test]
#[ignore = "needs root"]
fn a_layout_may_be_known_by_the_file_itself() {
    let folder = tempfile::tempdir().unwrap();
    let shipped = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/probesets/ncnn.yaml")).unwrap();
    let start = shipped.find("      - when: { class: ncnn::VkAllocator }").unwrap();
    let end = shipped.find("    expect: { type: text, name: text }").unwrap();
    let library = library(true);
    let output = succeeds(Command::new("readelf").arg("-n").arg(&library));
    let notes = String::from_utf8(output.stdout).unwrap();
    let build_id = notes.lines().find_map(|line| line.trim().strip_prefix("Build ID: ")).unwrap();
    let (first, rest) = build_id.split_at(1);
    let other_id = format!("{}{rest}", if first == "0" { "1" } else { "0" });
    let name = library.file_name().unwrap().to_str().unwrap();
    let checked = |this: &str, other: &str| {
        let layouts = format!(
            "      - {{ when: {{ {other} }}, at: {{ type: 8, name: 40 }} }}\n      - {{ when: {{ {this} }}, at: {{ type: 48, name: 80 }} }}\n"
        );
        let path = folder.path().join("ncnn.yaml");
        std::fs::write(&path, format!("{}{layouts}{}", &shipped[..start], &shipped[end..])).unwrap();
        path.display().to_string()
    };
    for (this, other) in [
        (format!("build_id: \"{}\"", &build_id[..12]), format!("build_id: \"{}\"", &other_id[..12])),
        (format!("build_id: \"{build_id}\""), format!("build_id: \"{other_id}\"")),
        (format!("file: {name}"), "file: libncnn-gpu.so*".to_owned()),
        ("file: libncnn.so.*".to_owned(), "file: libncnn.so".to_owned()),
    ] {
        assert_eq!(found_by(&checked(&this, &other), &library, &[]), (at(48, 80), false), "{this}");
        // The other way round, the other layout is taken.
        assert_eq!(found_by(&checked(&other, &this), &library, &[]), (at(8, 40), false), "{other}");
    }
}

/// Layers of the first run with what comes out of them, as `run_ncnn.py shapes` prints them; what runs within another
/// layer is left out.
fn shapes(events: &[Value]) -> Vec<String> {
    let mut known: BTreeMap<&str, String> = BTreeMap::new();
    let (mut run, mut open, mut found) = (None, (0, 0), Vec::new());
    for event in events {
        let fields = &event["fields"];
        if let (Some(address), Some(op)) = (event["address"].as_str(), fields["op"].as_str()) {
            known.insert(address, format!("{op} {}", fields["name"].as_str().unwrap()));
        } else if is_of(event, "run") {
            run = run.or(Some(span(event)));
        } else if event["role"] == "operator"
            && run.is_some_and(|run| span(event).1 <= run.1)
            && span(event).0 >= open.1
        {
            open = span(event);
            let layer = known.get(fields["node"].as_str().unwrap()).expect("it is described before");
            let shape = fields["shape"].as_array().expect("it has a shape");
            let shape: Vec<String> = shape.iter().map(Value::to_string).collect();
            found.push(format!("{layer} {}", shape.join(" ")));
        }
    }
    found
}

#[test]
#[ignore = "needs root"]
fn shapes_are_those_of_the_blobs_that_the_engine_gives() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let net = path("net");
    let script = |what: &str| succeeds(Command::new(python()).arg(scripts().join("run_ncnn.py")).args([what, &net]));
    script("make");
    let reported = String::from_utf8(script("shapes").stdout).unwrap();
    let expected: Vec<&str> = reported.lines().filter(|line| !line.starts_with("Input ")).collect();
    assert_eq!(expected.len(), 10, "{reported}");
    assert!(expected.contains(&"Pooling pool 8 8 1 8") && expected.contains(&"Softmax prob 10 1 1 1"), "{reported}");
    for build in [Build::Wheel, Build::Debug, Build::Stripped] {
        let (_, events) = recorded(build, &net, &path("run.pfi"));
        assert_eq!(shapes(&events), expected, "{build:?}");
    }
    // Packed blobs have fewer channels, of several numbers each: the shape is that of the numbers all the same.
    let mut command = profinfer(&["record", "ncnn", "-o", &path("packed.pfi"), "--"]);
    succeeds(command.arg(python()).arg(scripts().join("run_ncnn.py")).args(["packed", &net, "1"]));
    let mut events = lines(&succeeds(&mut profinfer(&["dump", &path("packed.pfi")])).stdout);
    events.sort_by_key(|event| event["start_ns"].as_u64().unwrap());
    assert_eq!(shapes(&events), expected);
}
