//! ncnn as its users install it, from a wheel without symbols, and as they build it, with debug information and stripped
//! of it: one probeset for all. The layers that are recorded are those that the engine lists, in its order, whichever
//! build it is. This needs root.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test says what went wrong by panicking")]

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

const RUNS: usize = 4;

fn succeeds(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/engines")
}

fn printed(script: &str) -> PathBuf {
    let output = succeeds(&mut Command::new(scripts().join(script)));
    PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())
}

/// A Python that has the wheel.
fn python() -> &'static Path {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    PYTHON.get_or_init(|| printed("install_ncnn.sh"))
}

/// The folder of what is built from source.
fn built() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| printed("build_ncnn.sh"))
}

/// The wheel's Python module.
fn wheel() -> PathBuf {
    let packages = python().parent().and_then(Path::parent).unwrap().join("lib");
    let version = std::fs::read_dir(packages).unwrap().next().unwrap().unwrap().path();
    let files = std::fs::read_dir(version.join("site-packages/ncnn")).unwrap().map(|file| file.unwrap().path());
    let is_engine = |file: &PathBuf| file.extension().is_some_and(|extension| extension == "so");
    files.into_iter().find(is_engine).expect("the wheel has its module")
}

/// The library with debug information, and without.
fn library(stripped: bool) -> PathBuf {
    let folder = built().join("lib");
    let folder = if stripped { folder.join("stripped") } else { folder };
    folder.join("libncnn.so.1").canonicalize().unwrap()
}

fn profinfer(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_profinfer"));
    command.args(arguments);
    command
}

#[derive(Clone, Copy, Debug)]
enum Build {
    Wheel,
    Debug,
    Stripped,
}

/// Records some runs; what the engine prints, and the trace's events in order.
fn recorded(build: Build, net: &str, trace: &str) -> (String, Vec<Value>) {
    let mut command = profinfer(&["record", "-o", trace, "--"]);
    match build {
        Build::Wheel => command.arg(python()).arg(scripts().join("run_ncnn.py")).arg("run"),
        Build::Debug | Build::Stripped => {
            let library = library(matches!(build, Build::Stripped));
            command.env("LD_LIBRARY_PATH", library.parent().unwrap()).arg(built().join("run"))
        }
    };
    let output = succeeds(command.args([net, &RUNS.to_string()]));
    let said = String::from_utf8(output.stdout).unwrap();
    // Without a probeset's name, it is found by what the target has.
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("ncnn"), "{told}");
    let dump = succeeds(&mut profinfer(&["dump", trace])).stdout;
    let lines = std::str::from_utf8(&dump).unwrap().lines().map(|line| serde_json::from_str(line).unwrap());
    let mut events: Vec<Value> = lines.filter(|event: &Value| event["probe"].is_string()).collect();
    events.sort_by_key(|event| event["start_ns"].as_u64().unwrap());
    (said, events)
}

fn span(event: &Value) -> (u64, u64) {
    let number = |name: &str| event[name].as_u64().unwrap();
    (number("start_ns"), number("start_ns") + number("duration_ns"))
}

/// The layers of each run, `TYPE NAME`, and how many others ran within them.
fn layers(events: &[Value]) -> Vec<(Vec<String>, Vec<String>)> {
    let (runs, layers): (Vec<&Value>, Vec<&Value>) =
        events.iter().filter(|event| event["fields"]["kernel"].is_string() || event["probe"] == "run").partition(
            |event| event["probe"] == "run",
        );
    let within = |event: &Value, outer: (u64, u64)| outer.0 <= span(event).0 && span(event).1 <= outer.1;
    runs.iter()
        .map(|run| {
            let (mut outermost, mut inner) = (Vec::new(), Vec::new());
            let mut open = (0, 0);
            for layer in layers.iter().filter(|layer| within(layer, span(run))) {
                let text = |name: &str| layer["fields"][name].as_str().unwrap_or_default();
                let line = format!("{} {}", text("op"), text("name"));
                if within(layer, open) {
                    inner.push(line);
                } else {
                    open = span(layer);
                    outermost.push(line);
                }
            }
            (outermost, inner)
        })
        .collect()
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
        let (said, events) = recorded(build, &net, &path("run.pfi"));
        // Its list has what is given from outside, too, which does not run.
        let expected: Vec<String> = said
            .lines()
            .filter(|line| !line.starts_with("ran ") && !line.starts_with("Input "))
            .map(str::to_owned)
            .collect();
        assert_eq!(expected.len(), 10, "{said}");
        let runs = layers(&events);
        assert_eq!(runs.len(), RUNS, "{build:?}");
        for (layers, inner) in runs {
            assert_eq!(layers, expected, "{build:?}");
            // The convolution of four groups has four within it, without a name.
            assert!(inner.iter().filter(|line| *line == " ").count() >= 4, "{build:?}: {inner:?}");
        }
        listed.push((expected, said.lines().last().unwrap().to_owned()));
    }
    // The same layers, and the same numbers come out.
    assert!(listed.iter().all(|one| *one == listed[0]), "{listed:?}");
}

/// Where `check` finds the layer's type and name, and how it knows.
fn found(target: &Path, extra: &[&str]) -> (Vec<Value>, Vec<String>) {
    let mut command = profinfer(&["check", "ncnn", "--json", "--target", &target.display().to_string()]);
    let check: Value = serde_json::from_slice(&succeeds(command.args(extra)).stdout).unwrap();
    let paths = check["paths"].as_array().unwrap();
    let layouts = paths.iter().filter(|path| path["from"].is_string());
    let mut from: Vec<String> = layouts.clone().map(|path| path["from"].as_str().unwrap().to_owned()).collect();
    from.sort_unstable();
    from.dedup();
    (layouts.map(|path| path["layout"].clone()).collect(), from)
}

#[test]
#[ignore = "needs root"]
fn layouts_come_from_debug_information_a_check_or_a_lock_file() {
    let of = |layouts: &[Value], offset: u64| layouts.iter().any(|layout| layout.to_string().contains(&offset.to_string()));
    let (debug, from) = found(&library(false), &[]);
    assert!(of(&debug, 48) && of(&debug, 80), "{debug:?}");
    assert_eq!(from, ["DWARF"]);
    let (stripped, from) = found(&library(true), &[]);
    assert_eq!(from, ["by a check"]);
    assert_eq!(stripped, debug, "the check finds what the debug information says");
    let (with_vulkan, from) = found(&wheel(), &[]);
    assert!(of(&with_vulkan, 56) && of(&with_vulkan, 88), "{with_vulkan:?}");
    assert_eq!(from, ["by a check"]);

    let folder = tempfile::tempdir().unwrap();
    let lock = folder.path().join("ncnn.lock").display().to_string();
    let library = library(true);
    succeeds(&mut profinfer(&["lock", "ncnn", "--target", &library.display().to_string(), "-o", &lock]));
    let (locked, from) = found(&library, &["--lock", &lock]);
    assert_eq!((locked, from), (stripped, vec!["lock".to_owned()]));
}

#[test]
#[ignore = "needs root"]
fn a_build_that_no_check_knows_is_refused_with_all_of_them() {
    let folder = tempfile::tempdir().unwrap();
    // The same library, calling itself another version.
    let mut bytes = std::fs::read(library(true)).unwrap();
    let version = b"1.0.20261020";
    let places: Vec<usize> = (0..bytes.len() - version.len()).filter(|at| bytes[*at..].starts_with(version)).collect();
    for at in &places {
        bytes[*at..*at + version.len()].copy_from_slice(b"1.0.20270101");
    }
    assert!(!places.is_empty());
    let other = folder.path().join("libncnn.so.1");
    std::fs::write(&other, bytes).unwrap();
    let output = profinfer(&["check", "ncnn", "--target", &other.display().to_string()]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    for part in ["error[T019]", "when bytes 1.0.20261020, when class ncnn::VkAllocator", "unless class ncnn::VkAllocator"] {
        assert!(told.contains(part), "{part}: {told}");
    }
}
