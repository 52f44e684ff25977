//! whisper.cpp, as the wheel `pywhispercpp` and as a build with debug information: its steps, their times, and every
//! operator, against what the engine itself says; and beside another engine in one process, each with its own copy of
//! what both are built on.

use crate::engine::{alone, command, here, model, script};
use crate::process::{run, stderr};
use crate::recording::Recording;
use crate::truth::Truth;
use crate::work::{Graph, Step};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Tokens that are decoded one by one.
const TOKENS: &str = "6";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whisper {
    /// Shared libraries with symbols, without debug information.
    Wheel,
    /// Built from the same source, with debug information.
    Built,
}

/// The build with debug information: `lib/`, a model, a program that uses it, and the library that writes the truth.
fn built() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| script("build_whisper.sh", &[]))
}

/// A Python that has both engines.
fn python() -> &'static Path {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    PYTHON.get_or_init(|| script("install_whisper.sh", &[]))
}

fn sound_model() -> String {
    built().join("models/for-tests-ggml-tiny.en.bin").display().to_string()
}

impl Whisper {
    /// The command that transcribes a tone.
    fn words(self, threads: &str) -> Vec<String> {
        let text = |path: PathBuf| path.display().to_string();
        match self {
            Self::Built => vec![text(built().join("reference")), sound_model(), threads.to_owned(), TOKENS.to_owned()],
            Self::Wheel => {
                let (python, script) = (python().display().to_string(), text(here().join("run_whisper.py")));
                let mut words = vec![python, script, "--model".to_owned(), sound_model()];
                words.extend(["--threads", threads, "--tokens", TOKENS].map(str::to_owned));
                words
            }
        }
    }

    /// Every graph that the engine computes, as its own scheduler gets it.
    fn truth(self, threads: &str) -> Vec<Graph> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("truth.ndjson");
        let hook = built().join("whisper_hook.so");
        run(command(&self.words(threads)).env("LD_PRELOAD", hook).env("ENGINE_TRACE", &path), 0);
        graphs(Truth::read(&path).steps)
    }

    fn record(self, threads: &str) -> Recording {
        let words = self.words(threads);
        Recording::new("whisper", &[], |command: &mut Command| _ = command.arg("--").args(&words), 0)
    }
}

fn graphs(steps: Vec<Step>) -> Vec<Graph> {
    steps.into_iter().flat_map(|step| step.graphs).collect()
}

fn assert_same_graphs(recorded: &[Graph], truth: &[Graph]) {
    for (number, (recorded, truth)) in recorded.iter().zip(truth).enumerate() {
        assert_eq!((&recorded.backend, recorded.nodes), (&truth.backend, truth.nodes), "graph {number}");
        for (index, (recorded, truth)) in recorded.operators.iter().zip(&truth.operators).enumerate() {
            assert_eq!(recorded, truth, "graph {number}, operator {index}: recorded (left), the engine's word (right)");
        }
        assert_eq!(recorded.operators.len(), truth.operators.len(), "graph {number}");
    }
    assert_eq!(recorded.len(), truth.len(), "graphs");
}

/// What `whisper_print_timings` says of a kind of call: ms altogether.
fn reported_ms(output: &str, what: &str) -> f64 {
    let line =
        output.lines().find(|line| line.contains(&format!("{what} time ="))).unwrap_or_else(|| panic!("{output}"));
    let number = line.split('=').nth(1).unwrap().split("ms").next().unwrap();
    number.trim().parse().unwrap()
}

/// The engine's own times and the recorded ones: 2 % apart, but for what the host of a virtual machine took.
fn times_differ(recording: &Recording) -> Option<String> {
    let reported = stderr(&recording.output);
    let stolen_ms = recording.info()["end"]["stolen"]["ns"].as_f64().unwrap_or(0.0) / 1e6;
    let decode = reported_ms(&reported, "decode") + reported_ms(&reported, "batchd") + reported_ms(&reported, "prompt");
    for (probe, reported) in [("encode", reported_ms(&reported, "encode")), ("decode", decode)] {
        let recorded = recording.total_ms(probe);
        let calls = recording.count(probe) as f64;
        // The engine's clock starts within the call, and it says hundredths.
        assert!(recorded > reported - 0.05, "{probe}: {recorded} ms recorded, {reported} ms reported");
        if recorded > reported * 1.02 + 0.1 * calls + stolen_ms {
            return Some(format!("{probe}: {recorded} ms recorded, {reported} ms reported, {stolen_ms} ms stolen"));
        }
    }
    None
}

fn assert_true(engine: Whisper) {
    let _alone = alone();
    let truth = engine.truth("1");
    let recording = engine.record("1");
    recording.assert_complete();
    recording.assert_lanes(1);
    let steps = recording.work();
    let encoded = steps.iter().filter(|step| step.call.contains("encode")).count();
    assert!(encoded >= 1 && recording.count("encode") == encoded);
    for step in &steps {
        let graphs = if step.call.contains("encode") { 3 } else { 1 };
        assert_eq!((step.graphs.len(), step.call.contains("encode")), (graphs, step.tokens == 0), "{}", step.call);
    }
    let single = steps.iter().filter(|step| step.tokens == 1).count();
    assert!(single >= TOKENS.parse().unwrap(), "{single} steps of one token");
    assert_same_graphs(&graphs(steps), &truth);
    let report = recording.report(&[]);
    assert_eq!(report["completeness"]["steps"], recording.count("encode") + recording.count("decode"));
    // A thread that loses its processor between the two clocks is the machine's: another try then.
    let mut differs = times_differ(&recording);
    for _ in 0..3 {
        if differs.is_some() {
            differs = times_differ(&engine.record("1"));
        }
    }
    assert_eq!(differs, None);
}

#[test]
#[ignore = "needs root"]
fn whisper_on_the_wheel() {
    assert_true(Whisper::Wheel);
}

#[test]
#[ignore = "needs root"]
fn whisper_with_debug_information() {
    assert_true(Whisper::Built);
}

/// The build without its debug information, and calling its operators' library another version: what was recorded is the
/// same, the operators' types included, which are in the library's own table.
#[test]
#[ignore = "needs root"]
fn operators_of_a_version_that_nobody_tried_have_their_names() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(built().join("lib")).unwrap().map(Result::unwrap) {
        if entry.path().is_file() {
            let copy = folder.path().join(entry.file_name());
            run(Command::new("strip").arg("--strip-debug").arg("-o").args([copy, entry.path()]), 0);
        }
    }
    let record = || {
        let words = Whisper::Built.words("1");
        let libraries = folder.path().display().to_string();
        let with_libraries =
            |command: &mut Command| _ = command.env("LD_LIBRARY_PATH", libraries).arg("--").args(&words);
        Recording::new("whisper", &[], with_libraries, 0)
    };
    let types = |recording: &Recording| -> Vec<String> {
        let report = recording.report(&[]);
        let rows = report["operator_types"].as_array().unwrap().clone();
        rows.iter().map(|row| row["op"].as_str().unwrap().to_owned()).collect()
    };
    let known = record();
    assert!(types(&known).contains(&"MUL_MAT".to_owned()), "{:?}", types(&known));

    for entry in std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.file_name().unwrap().to_string_lossy().starts_with("libggml-base") {
            let mut bytes = std::fs::read(&entry).unwrap();
            for at in 0..bytes.len() - 6 {
                if bytes[at..].starts_with(b"0.13.1") {
                    bytes[at..at + 6].copy_from_slice(b"0.99.1");
                }
            }
            std::fs::write(&entry, bytes).unwrap();
        }
    }
    let other = record();
    // The names are in the library, whatever it calls itself.
    let sorted = |recording: &Recording| types(recording).into_iter().collect::<std::collections::BTreeSet<_>>();
    assert_eq!(sorted(&other), sorted(&known));
    let counts = |of: &Recording| (of.count("encode"), of.count("decode"));
    assert_eq!(counts(&other), counts(&known));
}

/// Two engines in one process, each with a copy of what both are built on: each recording's view is what it is alone.
#[test]
#[ignore = "needs root"]
fn two_engines_in_one_process() {
    let _alone = alone();
    let mut words = Whisper::Wheel.words("1");
    words.extend(["--llama".to_owned(), model("tiny-dense").display().to_string()]);
    let both = Recording::new("whisper", &["llama"], |command: &mut Command| _ = command.arg("--").args(&words), 0);
    let whisper = both.of_engine("whisper");
    let llama = both.of_engine("llama");
    // Each has its own operators, of its own copy, numbered as that copy numbers them.
    for (engine, library, foreign) in [(&whisper, "libggml-cpu", "xllamacpp"), (&llama, "xllamacpp", "libggml-cpu")] {
        engine.assert_complete();
        engine.assert_lanes(1);
        let info = engine.info();
        let sites = info["sites"].as_array().unwrap().iter();
        let of_operators =
            sites.filter(|site| site["probes"].as_array().unwrap().iter().any(|name| name == "operator"));
        let modules: Vec<&str> = of_operators
            .map(|site| info["modules"][site["module"].as_u64().unwrap() as usize]["path"].as_str().unwrap())
            .collect();
        assert!(modules.iter().any(|path| path.contains(library)), "{modules:?}");
        assert!(!modules.iter().any(|path| path.contains(foreign)), "{modules:?}");
    }
    let (of_whisper, of_llama) = (whisper.work(), llama.work());
    assert!(of_whisper.iter().all(|step| step.call.starts_with("whisper_")), "{:?}", calls(&of_whisper));
    assert!(of_llama.iter().all(|step| step.call.starts_with("llama_")), "{:?}", calls(&of_llama));
    // The tone is transcribed before and after.
    assert_eq!(of_whisper.iter().filter(|step| step.tokens == 0).count(), 2);
    // Weights of one engine are never an operator's of the other.
    let norms = |steps: &[Step], op: &str| steps.iter().flat_map(Step::operators).filter(|o| o.result.op == op).count();
    assert!(norms(&of_whisper, "NORM") > 0 && norms(&of_llama, "NORM") == 0);
    assert!(norms(&of_llama, "RMS_NORM") > 0 && norms(&of_whisper, "RMS_NORM") == 0);
    // Without a choice the report shows both, and what can show one only asks which.
    let path = both.path().to_str().unwrap();
    let text = String::from_utf8(run(&mut crate::process::profinfer(&["report", "--all", path]), 0).stdout).unwrap();
    assert!(text.contains("=== whisper.cpp ===") && text.contains("=== llama.cpp ==="), "{text}");
    // A timeline has both, each in a group of its own.
    let timeline = both.path().with_extension("json");
    let chosen = ["timeline", path, "--format", "chrome", "-o", timeline.to_str().unwrap()];
    run(&mut crate::process::profinfer(&chosen), 0);
    let events = std::fs::read_to_string(&timeline).unwrap();
    assert!(events.contains("\"whisper.cpp: steps\"") && events.contains("\"llama.cpp: steps\""));
    let refused = run(&mut crate::process::profinfer(&["graph", path]), 1);
    assert!(stderr(&refused).contains("--engine llama"), "{}", stderr(&refused));
}

fn calls(steps: &[Step]) -> Vec<&str> {
    steps.iter().map(|step| step.call.as_str()).collect()
}

/// Without a probeset: a program is looked at before it runs, a script while it loads its engine.
#[test]
#[ignore = "needs root"]
fn the_probeset_is_found() {
    let _alone = alone();
    for (engine, says) in [(Whisper::Built, "recording whisper"), (Whisper::Wheel, "waiting for one of these engines:")]
    {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.pfi");
        let path = path.to_str().unwrap();
        let output = run(crate::process::profinfer(&["record", "-o", path, "--"]).args(engine.words("1")), 0);
        assert!(stderr(&output).contains(says), "{}", stderr(&output));
        assert!(stderr(&output).contains("whisper.cpp"), "{}", stderr(&output));
        let report = run(&mut crate::process::profinfer(&["report", path, "--json"]), 0);
        let report: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
        assert!(report["completeness"]["steps"].as_u64().unwrap() > TOKENS.parse::<u64>().unwrap(), "{report}");
        assert!(report["operator_types"].as_array().unwrap().iter().any(|row| row["op"] == "MUL_MAT"));
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.pfi");
    let nothing = ["record", "-o", path.to_str().unwrap(), "--", "true"];
    let output = run(&mut crate::process::profinfer(&nothing), 1);
    assert!(stderr(&output).contains("R006"), "{}", stderr(&output));
    assert!(stderr(&output).contains("the target has no step function of a shipped probeset"), "{}", stderr(&output));
}
