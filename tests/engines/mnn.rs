//! MNN as its users install it, with a small network of random weights: what is recorded of each run is what MNN's own
//! callback says of the same network: the same operators in the same order, with their types, names and output shapes.
//! This needs root.

use crate::invocation::{lines, profinfer, succeeds};
use crate::packages::{installed, packaged, renamed_version, scripts};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

const RUNS: usize = 4;

/// A Python that has MNN.
fn python() -> &'static Path {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    PYTHON.get_or_init(|| installed("install_mnn.sh"))
}

/// The engine's shared object.
fn library() -> PathBuf {
    packaged(python(), "", "_mnncengine", "")
}

#[test]
#[ignore = "needs root"]
fn operators_are_those_that_the_engines_own_callback_names() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let run = |extra: &[&str]| {
        let mut words = vec![scripts().join("run_mnn.py").display().to_string(), path("small.mnn")];
        words.extend(["--make", "--runs"].map(str::to_owned));
        words.push(RUNS.to_string());
        words.extend(extra.iter().map(|word| (*word).to_owned()));
        words
    };
    succeeds(Command::new(python()).args(run(&["--operators", &path("reported")])));
    let reported = lines(&std::fs::read(path("reported")).unwrap());
    assert!(reported.len() > 8, "{reported:?}");

    let mut record = profinfer(&["record", "mnn", "-o", &path("run.pfi"), "--"]);
    succeeds(record.arg(python()).args(run(&[])));
    let trace = lines(&succeeds(&mut profinfer(&["dump", &path("run.pfi")])).stdout);
    let of = |probe: &str| -> Vec<&Value> { trace.iter().filter(|event| event["probe"] == probe).collect() };
    let steps = of("run");
    assert_eq!(steps.len(), RUNS);
    assert_eq!(of("execute").len(), RUNS);

    // What is known of each address, as the trace says it: the last before an operator ran.
    let mut known: BTreeMap<&str, (&str, &str)> = BTreeMap::new();
    let mut operators: Vec<Vec<Value>> = vec![Vec::new(); RUNS];
    for event in &trace {
        let fields = &event["fields"];
        if event["probe"] == "create" {
            let text = |name: &str| fields[name].as_str().unwrap_or("");
            known.insert(text("described"), (text("op"), text("name")));
        }
        let within = |step: &&Value| {
            let number = |of: &Value, name: &str| of[name].as_u64().unwrap();
            let start = number(step, "start_ns");
            (start..start + number(step, "duration_ns")).contains(&number(event, "start_ns"))
        };
        if event["probe"] == "operator"
            && let Some(step) = steps.iter().position(within)
        {
            let (op, name) = known.get(fields["node"].as_str().unwrap()).copied().unwrap_or_default();
            operators[step].push(serde_json::json!({ "op": op, "name": name, "shape": fields["shape"] }));
        }
    }
    for recorded in operators {
        assert_eq!(recorded.len(), reported.len(), "{recorded:#?}\n{reported:#?}");
        for (recorded, reported) in recorded.iter().zip(&reported) {
            assert_eq!(recorded["shape"], reported["shapes"][0], "{recorded} {reported}");
            // What MNN makes of an operator besides has no record of its own, and neither name nor type.
            if recorded["name"] != "" {
                assert_eq!(recorded["name"], reported["name"]);
                assert_eq!(recorded["op"], reported["type"]);
            }
        }
        let named = recorded.iter().filter(|operator| operator["name"] != "").count();
        let in_model =
            reported.iter().filter(|reported| !reported["name"].as_str().unwrap().contains("raster")).count();
        assert_eq!(named, in_model, "{recorded:#?}");
    }

    // The report has them by type and name, and nothing is lost.
    let report = succeeds(profinfer(&["report", "--json"]).arg(path("run.pfi")));
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    let text = report.to_string();
    for op in ["\"Convolution\"", "\"Softmax\"", "\"Pooling\"", "\"ConvolutionDepthwise\""] {
        assert!(text.contains(op), "{op} is in the report");
    }
}

#[test]
#[ignore = "needs root"]
fn every_attach_point_is_in_the_wheel_and_its_language_models_steps_too() {
    let library = library();
    let output = succeeds(&mut profinfer(&["check", "mnn", "--json", "--target", &library.display().to_string()]));
    let check: Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = check.to_string();
    for function in ["MNN::Session::run", "MNN::Transformer::Llm::forwardRaw", "MNN::CPUAttention::onExecute"] {
        assert!(text.contains(function), "{function}");
    }
}

/// Another version is not refused: its types come from its own table.
#[test]
#[ignore = "needs root"]
fn a_version_that_nobody_tried_has_its_types_from_its_own_table() {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join(library().file_name().unwrap());
    // Its debug information describes some of these types, and would go before.
    renamed_version(&library(), "3.6.1", "9.6.1", &copy);
    let target = copy.display().to_string();
    succeeds(Command::new("strip").args(["--strip-debug", &target]));
    let output = succeeds(&mut profinfer(&["check", "mnn", "--target", &target]));
    let told = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(!told.contains("T019") && !told.contains("the constants of enum"), "{told}");
}

/// What each operator of a trace was made as, in the order of their starts: the name of what was made last at its address,
/// and the same but for what has ended or was made anew by other ways since.
fn made_as(trace: &[Value]) -> Vec<(&Value, Option<&str>, Option<&str>)> {
    let mut events: Vec<&Value> = trace.iter().filter(|event| event["probe"].is_string()).collect();
    events.sort_by_key(|event| event["start_ns"].as_u64());
    let (mut made, mut alive, mut operators) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
    for event in events {
        let text = |name: &str| event["fields"][name].as_str().unwrap_or_default();
        match event["probe"].as_str().unwrap() {
            "create" => {
                made.insert(text("described"), text("name"));
                alive.insert(text("described"), text("name"));
            }
            "gone" | "attention_made" | "convolution_made" => _ = alive.remove(text("described")),
            "operator" => {
                operators.push((event, made.get(text("node")).copied(), alive.get(text("node")).copied()));
            }
            _ => {}
        }
    }
    operators
}

/// What a forward pass of the language model has as operators of one kind: each one's type, and the first output's shape.
fn of_kernel<'a>(step: &'a [&'a Value], kernel: &'a str) -> impl Iterator<Item = &'a Value> {
    step.iter().copied().filter(move |operator| operator["fields"]["kernel"] == kernel)
}

#[test]
#[ignore = "needs root"]
fn a_language_model_of_random_weights_has_a_step_for_its_prompt_and_one_for_each_word() {
    const LAYERS: usize = 2;
    const PROMPT: u64 = 5;
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("run.pfi").display().to_string();
    // The model is made by another process, with the same engine.
    let mut record = profinfer(&["record", "mnn", "--no-inherit", "-o", &trace, "--"]);
    record.arg(python()).arg(scripts().join("run_mnn_llm.py")).arg(folder.path()).arg("--make");
    let output = succeeds(record.args(["--prompt", &PROMPT.to_string()]));
    let text = String::from_utf8(output.stdout).unwrap();
    let reported: Value = serde_json::from_str(text.lines().find(|line| line.starts_with('{')).unwrap()).unwrap();
    assert_eq!(reported["prompt"].as_u64(), Some(PROMPT));
    let generated = usize::try_from(reported["generated"].as_u64().unwrap()).unwrap();
    assert!(generated > 1, "{reported}");

    let trace_events = lines(&succeeds(&mut profinfer(&["dump", &trace])).stdout);
    let start = |event: &Value| event["start_ns"].as_u64().unwrap();
    let end = |event: &Value| start(event) + event["duration_ns"].as_u64().unwrap();
    let of = |probe: &str| -> Vec<&Value> { trace_events.iter().filter(|event| event["probe"] == probe).collect() };
    let passes = of("forward");
    let words = of("forward_words");
    assert_eq!((passes.len(), words.len()), (1 + generated, generated));
    assert!(words.iter().all(|step| step["fields"]["tokens"] == 1), "{words:?}");
    let operators = of("operator");
    for (number, pass) in passes.iter().enumerate() {
        let within: Vec<&Value> =
            operators.iter().copied().filter(|event| (start(pass)..end(pass)).contains(&start(event))).collect();
        let rows = if number == 0 { PROMPT } else { 1 };
        let shapes: Vec<&Value> = of_kernel(&within, "CPUAttention").map(|event| &event["fields"]["shape"]).collect();
        assert_eq!(shapes, vec![&serde_json::json!([1, rows, 64]); LAYERS], "pass {number}");
    }

    // What was made for the prompt and has ended leaves its name to no operator of a word, whatever is at its address.
    let operators = made_as(&trace_events);
    for (number, pass) in passes.iter().enumerate().skip(1) {
        let number = (number + 1).to_string();
        let report = succeeds(&mut profinfer(&["report", &trace, "--json", "--step", &number]));
        let report: Value = serde_json::from_slice(&report.stdout).unwrap();
        assert_eq!(report["step"]["phase"], "decode", "step {number}");
        let mut shown: Vec<&Value> = report["step"]["operators"].as_array().unwrap().iter().collect();
        shown.sort_by_key(|operator| start(operator));
        let within: Vec<_> =
            operators.iter().filter(|(event, ..)| (start(pass)..end(pass)).contains(&start(event))).collect();
        assert!(!within.is_empty() && shown.len() == within.len(), "step {number}: {shown:?}");
        for (shown, (event, made, alive)) in shown.iter().zip(within) {
            assert_eq!(shown["node"], event["fields"]["node"], "step {number}");
            match alive.filter(|name| !name.is_empty()) {
                Some(name) => assert_eq!(shown["name"], name, "step {number}"),
                None => {
                    assert_ne!(shown["name"].as_str(), made.filter(|name| !name.is_empty()), "step {number}: {shown}")
                }
            }
        }
    }

    // The report tells the prompt from the words, and knows the attention by its type.
    let report = succeeds(profinfer(&["report", "--json"]).arg(&trace));
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    let steps = |phase: &str| {
        let of = report["phases"].as_array().unwrap().iter().filter(|of| of["phase"] == phase);
        of.map(|of| of["steps"].as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!((steps("prefill"), steps("decode")), (1, generated as u64), "{}", report["phases"]);
    assert!(report.to_string().contains("\"Attention\""), "attention is in the report");
}

/// Without a probeset's name, it is found by what the program loads.
#[test]
#[ignore = "needs root"]
fn the_probeset_is_found_where_none_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    // The model is made by another process, with the same engine.
    let mut command = profinfer(&["record", "--no-inherit", "-o", &path("run.pfi"), "--"]);
    command.arg(python()).arg(scripts().join("run_mnn.py")).arg(path("small.mnn")).arg("--make");
    let output = succeeds(command.args(["--runs", &RUNS.to_string()]));
    let reported = String::from_utf8(output.stderr).unwrap();
    assert!(reported.contains("waiting for one of these engines:") && reported.contains("MNN"), "{reported}");
    let report = succeeds(profinfer(&["report", "--json"]).arg(path("run.pfi")));
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    assert_eq!(report["completeness"]["steps"].as_u64(), Some(RUNS as u64), "{}", report["completeness"]);
    let types: Vec<&Value> = report["operator_types"].as_array().unwrap().iter().map(|row| &row["op"]).collect();
    assert!(types.contains(&&Value::from("Convolution")) && types.contains(&&Value::from("Pooling")), "{types:?}");
    // One engine was there: names are its own.
    let info = String::from_utf8(succeeds(profinfer(&["info"]).arg(path("run.pfi"))).stdout).unwrap();
    assert!(info.contains(" operator ") && !info.contains("nn__"), "{info}");
}
