//! Engines' own wheels for arm64, recorded by the packaged program in an emulated machine, and the same releases on this
//! machine: both recordings must have the same steps, operators, shapes, costs and chosen experts.

use super::layout::{self, profinfer};
use super::machine::{self, Arch, Extra, Machine, MachineOutput, run, script};
use super::{ROOT, lines, wanted};
use regex::Regex;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Of each engine the release that this machine's tests have; the wheels for arm64 are of the same.
const WHEELS: [&str; 7] = [
    "xllamacpp==2026.10.11549",
    "onnxruntime==1.31.1",
    "ncnn==1.0.20261020",
    "MNN==3.6.1",
    "ai-edge-litert==2.3.0",
    "flatbuffers==25.12.19",
    "numpy==2.4.6",
];
/// The oldest kernel and the newest.
const OLD: &str = "5.10";
const NEW: &str = "6.18";
/// Probesets of which the tests' package (`tests/installed/packages.sh`) has no object.
const OBJECTS: [&str; 4] = ["onnxruntime", "ncnn", "mnn", "litert"];

/// A recording: its name, the probeset, the script that installs the engine here, and the command.
struct Recording {
    name: &'static str,
    probeset: &'static str,
    install: &'static str,
    script: &'static str,
    words: &'static str,
}

const fn recording(
    name: &'static str,
    probeset: &'static str,
    install: &'static str,
    script: &'static str,
    words: &'static str,
) -> Recording {
    Recording { name, probeset, install, script, words }
}

/// Paths are those in the machine's root folder.
const RECORDINGS: [Recording; 6] = [
    recording("one_lane", "llama", "install_wheel.sh", "run_xllamacpp.py", "--model /models/tiny-moe.gguf"),
    recording(
        "two_lanes",
        "llama",
        "install_wheel.sh",
        "run_xllamacpp.py",
        "--model /models/tiny-moe.gguf --threads 2",
    ),
    recording("onnxruntime", "onnxruntime", "install_onnxruntime.sh", "run_onnxruntime.py", "/models 3"),
    recording("ncnn", "ncnn", "install_ncnn.sh", "run_ncnn.py", "run /models/net 3"),
    recording("mnn", "mnn", "install_mnn.sh", "run_mnn.py", "/models/small.mnn --runs 3"),
    recording("litert", "litert", "install_litert.sh", "run_litert.py", "/models/small.tflite --runs 3 --kernels"),
];

impl Recording {
    /// A Python of this machine that has the engine.
    fn python(&self) -> String {
        script(&format!("../engines/{}", self.install), &[])
    }

    /// In the machine.
    fn step(&self) -> machine::Step {
        let object = match OBJECTS.contains(&self.probeset) {
            true => format!("--object /objects/{}.bpf.o", self.probeset),
            false => String::new(),
        };
        let Self { name, probeset, script, words, .. } = self;
        let record = format!("profinfer record {probeset} {object} --no-roofline -o /run/{name}.pfi");
        ((*name).to_owned(), format!("{record} -- {PYTHON} /engines/{script} {words}"))
    }

    /// On this machine, with the same files.
    fn here(&self, root: &Path, trace: &Path) {
        let mut record = profinfer("record");
        record.arg(self.probeset).arg("-o").arg(trace).arg("--").arg(self.python());
        record.arg(root.join("engines").join(self.script));
        record.args(self.words.split(' ').map(|word| word.replace("/models", root.join("models").to_str().unwrap())));
        run(&mut record);
    }
}

/// With so many, a budget has several windows.
const BUDGET_TOKENS: u32 = 1_200;
/// It leaves compiled modules for the next run.
const PYTHON: &str = "busybox env PYTHONPATH=/wheels LD_LIBRARY_PATH=/usr/lib/aarch64-linux-gnu /usr/bin/python3";

/// Files of the machines: Python, the engines, their models, the program, and nothing that compiles.
fn lay_out() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    for name in ["bin", "dev", "proc", "sys", "run", "root", "tmp", "cache", "steps", "objects"] {
        fs::create_dir_all(root.join(name)).unwrap();
    }
    let copied = |from: &str, to: &str| {
        run(Command::new("cp").arg("-a").arg(from).arg(root.join(to)));
    };
    copied(&format!("{}/usr", script("get.sh", &["python"])), "usr");
    symlink("usr/lib", root.join("lib")).unwrap();
    copied(&script("wheels.sh", &WHEELS), "wheels");
    layout::install(Path::new(&script("get.sh", &["busybox", "arm64"])), &root.join("bin/busybox"));
    layout::install(&Path::new(ROOT).join("tests/kernels/init"), &root.join("init"));
    layout::install(&layout::packaged(Arch::Arm64), &root.join("bin/profinfer"));
    copied(&format!("{ROOT}/tests/engines"), "engines");
    for probeset in OBJECTS {
        let object = root.join("objects").join(format!("{probeset}.bpf.o"));
        run(profinfer("build").args([probeset, "--arch", Arch::Arm64.profinfer(), "-o"]).arg(object));
    }
    make_models(root);
    run(Command::new("chmod").arg("-R").arg("go-w").arg(root));
    folder
}

fn make_models(root: &Path) {
    let models = root.join("models");
    fs::create_dir(&models).unwrap();
    let scripts = root.join("engines");
    let made = |python: String, name: &str, words: &[&str]| {
        run(Command::new(python).arg(scripts.join(name)).args(words).current_dir(&models));
    };
    let python = |name: &str| RECORDINGS.iter().find(|recording| recording.name == name).unwrap().python();
    made(python("one_lane"), "make_models.py", &[".", "tiny-moe"]);
    made(python("onnxruntime"), "run_onnxruntime.py", &[".", "1"]);
    made(python("ncnn"), "run_ncnn.py", &["make", "net"]);
    made(python("mnn"), "run_mnn.py", &["small.mnn", "--make", "--runs", "1"]);
    made(python("litert"), "run_litert.py", &["small.tflite", "--make", "--runs", "1"]);
}

/// A trace's tables, without times, threads and processes.
fn tables(trace: &Path) -> BTreeMap<&'static str, Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    run(profinfer("export").arg(trace).args(["--format", "ndjson", "-o"]).arg(folder.path()));
    let of_architecture = Regex::new(r"^(ncnn::\w+?)_(?:arm|x86)[a-z0-9_]*$").unwrap();
    let table = |name: &'static str| {
        let text = fs::read_to_string(folder.path().join(format!("{name}.ndjson"))).unwrap();
        let row = |line: &str| {
            let Value::Object(mut row) = serde_json::from_str(line).unwrap() else { panic!("{line}") };
            row.retain(|key, _| !key.ends_with("_ns") && !["tid", "pid"].contains(&key.as_str()));
            // A layer without a name has its class, of which each architecture has its own.
            for (_, value) in row.iter_mut().filter(|(key, _)| ["op", "name", "pattern"].contains(&key.as_str())) {
                *value = value.as_str().map(|text| of_architecture.replace(text, "$1").into()).unwrap_or_default();
            }
            // What is outside of steps depends on the time that it takes.
            (row["step"] != 0).then(|| Value::Object(row).to_string())
        };
        (name, text.lines().filter_map(row).collect())
    };
    ["steps", "graphs", "operators", "experts", "regions"].map(table).into()
}

/// The path of a trace from the machine, once it is written to this one.
fn written(reported: &MachineOutput, name: &str, folder: &Path) -> PathBuf {
    let path = folder.join(format!("{}-{name}.pfi", reported.series));
    fs::write(&path, reported.trace(name, 0)).unwrap();
    path
}

/// Says where two tables differ first.
#[track_caller]
fn assert_same(what: &str, there: &[String], here: &[String]) {
    let first = there.iter().zip(here).position(|(there, here)| there != here);
    if let Some(row) = first {
        panic!("{what}, row {row}:\n arm64: {}\nx86-64: {}", there[row], here[row]);
    }
    assert_eq!(there.len(), here.len(), "{what}: rows");
}

#[test]
#[ignore = "needs root"]
fn wheels_for_arm64_are_recorded_as_those_for_x86_64() {
    let kernels: Vec<&str> = wanted(Arch::Arm64).map(|kernel| kernel.series).collect();
    let kernels: Vec<&'static str> = [NEW, OLD].into_iter().filter(|series| kernels.contains(series)).collect();
    let folder = lay_out();
    let root = folder.path();
    // The oldest kernel records llama.cpp alone; the newest the other engines, too, in a machine of their own.
    let mut machines = Vec::new();
    for series in &kernels {
        let (llama, others): (Vec<_>, Vec<_>) = RECORDINGS.iter().partition(|recording| recording.probeset == "llama");
        let steps = |recordings: Vec<&Recording>| recordings.into_iter().map(Recording::step).collect::<Vec<_>>();
        let mut machine = |name: &'static str, steps: &[machine::Step]| {
            fs::write(root.join("steps").join(name), lines(steps)).unwrap();
            machines.push(Machine { arch: Arch::Arm64, series, steps: name, extra: Extra::Memory });
        };
        if *series == NEW {
            machine(NEW, &[steps(llama), running()].concat());
            machine("others", &steps(others));
        } else {
            machine(OLD, &steps(llama));
        }
    }
    let reported = machine::boot_all(&machines, root);
    for reported in &reported {
        let steps = reported.parts.keys().filter_map(|name| name.strip_suffix(".seconds"));
        let took = steps.map(|step| format!("{step} {}", reported.text(&format!("{step}.seconds")).trim()));
        println!("Linux {}, seconds: {}", reported.series, took.collect::<Vec<_>>().join(", "));
    }
    // They stay there, for whoever looks for the reason of a difference.
    let traces = Path::new(env!("CARGO_TARGET_TMPDIR")).join("wheels");
    fs::create_dir_all(&traces).unwrap();
    for recording in &RECORDINGS {
        let path = traces.join(format!("here-{}.pfi", recording.name));
        let _ = fs::remove_file(&path);
        recording.here(root, &path);
        let here = tables(&path);
        assert!(here["operators"].len() > 20, "{}: {:?}", recording.name, here["operators"]);
        for reported in
            reported.iter().filter(|reported| reported.parts.contains_key(&format!("{}.status", recording.name)))
        {
            let there = tables(&written(reported, recording.name, &traces));
            for (table, rows) in &there {
                let what = format!("Linux {}, {}, {table}", reported.series, recording.name);
                assert_same(&what, rows, &here[table]);
            }
        }
    }
    for reported in reported.iter().filter(|reported| reported.parts.contains_key("budget.status")) {
        check_running(reported, &traces);
    }
}

/// An engine that runs already, and one within a budget.
fn running() -> Vec<machine::Step> {
    let engine =
        |tokens: u32| format!("{PYTHON} /engines/run_xllamacpp.py --model /models/tiny-moe.gguf --tokens {tokens}");
    let attached = format!(
        "{} >/dev/null & sleep 8; profinfer record llama -p $! --no-roofline --duration 6s -o /run/attached.pfi; \
         status=$?; kill $!; exit $status",
        engine(20_000)
    );
    // What tracing costs on an emulated processor has nothing to do with what it costs on others.
    let budget = format!(
        "profinfer doctor --calibrate >/dev/null; \
         profinfer record llama --budget 5% --no-roofline -o /run/budget.pfi -- {}",
        engine(BUDGET_TOKENS)
    );
    vec![("attached".to_owned(), attached), ("budget".to_owned(), budget)]
}

fn check_running(reported: &MachineOutput, folder: &Path) {
    let attached = tables(&written(reported, "attached", folder));
    let of = |row: &str, key: &str| serde_json::from_str::<Value>(row).unwrap()[key].clone();
    let whole: Vec<_> = attached["steps"].iter().filter(|row| of(row, "complete") == true).collect();
    assert!(whole.len() >= 4, "{whole:?}");
    let operators = of(whole[0], "operators");
    assert!(whole.iter().all(|row| of(row, "operators") == operators), "each token is as the other: {whole:?}");
    let path = written(reported, "budget", folder);
    let budget = tables(&path);
    let steps = BUDGET_TOKENS as usize + 1;
    let recorded = budget["steps"].iter().filter(|row| of(row, "operators") == operators).count();
    assert!((2..steps).contains(&recorded), "{recorded} of {steps} with operators");
    let report = run(profinfer("report").arg("--json").arg(&path));
    let sampling = serde_json::from_str::<Value>(&report).unwrap()["sampling"].clone();
    let number = |key: &str| sampling[key].as_f64().unwrap_or_else(|| panic!("{key}: {sampling}"));
    assert!(number("spent") <= number("budget"), "{sampling}");
    // Where the machine is so slow that steps alone cost too much, they are estimated between windows.
    let unlisted = steps - budget["steps"].len();
    if number("unseen_ns") == 0.0 {
        assert_eq!(unlisted, 0, "each step is counted: {sampling}");
    } else {
        let off = (number("unseen_steps") - unlisted as f64).abs();
        // The half width is of a confidence of 95 %: twice as much is missed in one of 10,000 runs.
        assert!(off <= 2.0 * number("unseen_steps_half_width"), "{unlisted} not listed: {sampling}");
    }
}
