//! Builds that no list names: stripped, older, newer. What is recorded of them comes from the engines' own code, tables
//! and memory, and is what the engine says of itself. Needs root, and PyPI the first time.

use crate::engine::{Engine, workload};
use crate::invocation::{json, lines, profinfer, succeeds};
use crate::models::assert_experts;
use crate::packages::{packaged, scripts};
use crate::process::run;
use crate::recording::Recording;
use crate::work::assert_same;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A Python that has these packages.
fn release(name: &str, packages: &[&str]) -> PathBuf {
    let mut install = Command::new(scripts().join("python_environment.sh"));
    let output = install.arg(name).args(packages).stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success(), "{packages:?}");
    PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())
}

/// Names, types, shapes, inputs and experts of a stripped build are those of the engine.
#[test]
#[ignore = "needs root"]
fn a_stripped_build_is_read_by_its_own_functions_and_tables() {
    let folder = tempfile::tempdir().unwrap();
    let library = Engine::Wheel.target();
    let package = library.parent().unwrap();
    let copy = folder.path().join(package.file_name().unwrap());
    run(Command::new("cp").arg("-r").arg(package).arg(&copy), 0);
    run(Command::new("strip").arg(copy.join(library.file_name().unwrap())), 0);
    let workload = workload("tiny-moe", 1);
    let words = Engine::Wheel.command(&workload);
    let set = |command: &mut Command| _ = command.env("PYTHONPATH", folder.path()).arg("--").args(&words);
    let recording = Recording::new("llama", &[], set, 0);
    assert_same("stripped, without a lock file", &recording.work(), &Engine::Wheel.truth(&workload, false).steps);
    assert_experts(Engine::Wheel, &workload, &recording);
    recording.assert_complete();
    let info = recording.info();
    let source = |what: &str| {
        let sources = info["end"]["sources"].as_array().unwrap();
        sources.iter().find(|of| of["what"] == what).unwrap_or_else(|| panic!("{what}: {sources:?}"))["source"].clone()
    };
    assert_eq!(source("ggml_tensor.name"), "accessor ggml_get_name");
    assert_eq!(source("ggml_op"), "table GGML_OP_NAME");
}

/// Tokens of batches are where they are in the same build with debug information, and the same tokens: positions of a release
/// between two layouts were read as numbers of sequences.
#[test]
#[ignore = "needs root"]
fn batches_of_a_stripped_build_are_those_of_the_build_with_debug_information() {
    let folder = tempfile::tempdir().unwrap();
    let libraries = folder.path().join("lib");
    run(Command::new("cp").arg("-r").arg(Engine::Shared.target()).arg(&libraries), 0);
    let is_library = |path: &PathBuf| path.is_file() && !path.is_symlink();
    for library in std::fs::read_dir(&libraries).unwrap().map(|file| file.unwrap().path()).filter(is_library) {
        run(Command::new("strip").arg("--remove-section=.gnu_debuglink").arg(library), 0);
    }
    let offsets = |target: PathBuf| {
        let check = json(&["check", "llama", "--json", "--target", target.to_str().unwrap()]);
        let members =
            check["paths"].as_array().unwrap().iter().flat_map(|path| path["layout"].as_array().unwrap().clone());
        let of_batch = members.filter(|of| of["what"].as_str().unwrap().starts_with("llama_ubatch."));
        of_batch.map(|of| (of["what"].to_string(), of["value"].as_u64())).collect::<BTreeMap<_, _>>()
    };
    let expected = offsets(Engine::Shared.target());
    assert_eq!(expected.len(), 5);
    assert_eq!(offsets(libraries.clone()), expected);
    let workload = workload("tiny-moe", 1);
    let words = Engine::Shared.command(&workload);
    let positions = |libraries: Option<&PathBuf>| {
        let set = |command: &mut Command| {
            command.envs(libraries.map(|of| ("LD_LIBRARY_PATH", of))).arg("--").args(&words);
        };
        let recording = Recording::new("llama", &[], set, 0);
        let records = lines(&succeeds(profinfer(&["dump"]).arg(recording.path())).stdout);
        let batches = records.iter().filter(|record| record["probe"] == "batch_positions");
        let positions: Vec<Value> = batches.map(|record| record["fields"]["positions"].clone()).collect();
        (positions, recording.info().to_string())
    };
    let (theirs, _) = positions(None);
    let (ours, info) = positions(Some(&libraries));
    assert!(info.contains(folder.path().to_str().unwrap()), "{info}");
    assert!(theirs.len() > 8, "{theirs:?}");
    assert_eq!(ours, theirs);
}

/// A release whose tensors have one member more than today's.
#[test]
#[ignore = "needs root"]
fn an_older_layout_is_found_in_the_engines_code() {
    let python = release("whisper-1.3.0", &["pywhispercpp==1.3.0"]);
    let library = packaged(&python, "pywhispercpp.libs", "libggml", "");
    let check = json(&["check", "ggml", "--json", "--target", &library.display().to_string()]);
    let mut offsets: BTreeMap<&str, u64> = BTreeMap::new();
    for of in check["paths"].as_array().unwrap().iter().flat_map(|path| path["layout"].as_array().unwrap()) {
        if let (Some(member), Some(value)) =
            (of["what"].as_str().unwrap().strip_prefix("ggml_tensor."), of["value"].as_u64())
        {
            offsets.insert(member, value);
        }
    }
    assert_eq!(offsets["src"], 160, "{offsets:?}");
    let words = offsets.iter().map(|(member, at)| format!("{member}={at}"));
    let mut compare = Command::new(python);
    let output = run(compare.arg(scripts().join("layout_of_ggml.py")).arg(&library).args(words), 0);
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "ok");
}

/// The types of an older release's operators are those that its own callback names.
#[test]
#[ignore = "needs root"]
fn types_of_operators_come_from_the_librarys_own_table() {
    let python = release("mnn-3.0.0", &["MNN==3.0.0", "onnx==1.23.2", "numpy==2.4.6"]);
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let script = scripts().join("run_mnn.py").display().to_string();
    let words = |extra: &[&str]| -> Vec<String> {
        let all = [script.as_str(), &path("small.mnn"), "--make", "--runs", "1"].map(str::to_owned);
        all.into_iter().chain(extra.iter().map(|word| (*word).to_owned())).collect()
    };
    succeeds(Command::new(&python).args(words(&["--operators", &path("reported")])));
    let reported: BTreeMap<String, String> = lines(&std::fs::read(path("reported")).unwrap())
        .iter()
        .map(|of| (of["name"].as_str().unwrap().to_owned(), of["type"].as_str().unwrap().to_owned()))
        .collect();
    succeeds(profinfer(&["record", "mnn", "-o", &path("run.pfi"), "--"]).arg(&python).args(words(&[])));
    let trace = lines(&succeeds(&mut profinfer(&["dump", &path("run.pfi")])).stdout);
    let made = trace.iter().filter(|event| event["probe"] == "create").map(|event| &event["fields"]);
    let made: BTreeMap<String, String> = made
        .filter_map(|fields| Some((fields["name"].as_str()?.to_owned(), fields["op"].as_str()?.to_owned())))
        .filter(|(name, _)| reported.contains_key(name))
        .collect();
    assert!(made.len() >= 6, "{made:?}");
    assert!(made.values().any(|op| op == "ConvolutionDepthwise"), "{made:?}");
    for (name, op) in &made {
        assert_eq!(op, &reported[name], "{name}");
    }
}

/// What the shipped probeset reads of a kernel, without a number.
const WITHOUT_NUMBERS: &str = "
types:
  onnxruntime::OpKernel: { info: onnxruntime::OpKernelInfo*, within: 32 }
  onnxruntime::OpKernelInfo: { node: onnxruntime::Node*, within: 64 }
  onnxruntime::Node:
    name: cstr(64)
    op: cstr(32)
    within: 128
    expect: { name: [text, distinct], op: [text, \"in match[1]\"] }
  onnxruntime::run_object: { methods: void* @ 0 }
objects:
  kernel: { of: onnxruntime::OpKernel, fields: { name: info->node->name, op: info->node->op } }
";

/// The newest release, by a probeset without any offset: from memory and then all nodes as the engine's profile.
#[test]
#[ignore = "needs root"]
fn members_without_a_number_are_learned_from_memory() {
    let python = release("onnxruntime-1.32.0", &["onnxruntime==1.32.0", "onnx==1.23.2", "numpy==2.4.6"]);
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let shipped = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/probesets/onnxruntime.yaml")).unwrap();
    let (head, probes) =
        (&shipped[..shipped.find("# No build has").unwrap()], &shipped[shipped.find("probes:").unwrap()..]);
    let expressions = probes.find("    let:\n      node: this->").unwrap();
    // Without the context's values, which have numbers too.
    let probes = probes[..expressions].replace("onnxruntime::OpKernelContext* context", "void* context");
    let of_context = |line: &&str| line.contains("when: (context->") || line.contains("OpKernelContext_of_vectors");
    let probes: String = probes.lines().filter(|line| !of_context(line)).map(|l| format!("{l}\n")).collect();
    let text = format!(
        "{head}{WITHOUT_NUMBERS}{probes}    fields:\n      node: this as object kernel\n      kernel: match[1]\n"
    );
    std::fs::write(path("bare.yaml"), text).unwrap();
    let words = |runs: &str| {
        [scripts().join("run_onnxruntime.py").display().to_string(), path(""), runs.into(), "profile".into()]
    };
    let mut learn = profinfer(&["learn", &path("bare.yaml"), "-o", &path("bare.lock"), "--"]);
    // It ends as soon as the places are known.
    let learned = succeeds(learn.arg(&python).args(words("3000")));
    let table = String::from_utf8(learned.stdout).unwrap();
    for member in ["Node.name", "Node.op", "OpKernelInfo.node", "OpKernel.info"] {
        assert!(table.contains(member), "{table}");
    }
    let mut record =
        profinfer(&["record", &path("bare.yaml"), "--lock", &path("bare.lock"), "-o", &path("run.pfi"), "--"]);
    succeeds(record.arg(&python).args(words("20")));
    let profile: Value = serde_json::from_slice(&std::fs::read(path("profile.json")).unwrap()).unwrap();
    let mut told: Vec<(String, String)> = profile["kernels"].as_array().unwrap().iter().map(named).collect();
    let mut known: BTreeMap<String, (String, String)> = BTreeMap::new();
    let mut recorded = Vec::new();
    for event in lines(&succeeds(&mut profinfer(&["dump", &path("run.pfi")])).stdout) {
        if event["object"] == "kernel" {
            known.insert(event["address"].as_str().unwrap().to_owned(), named(&event["fields"]));
        } else if event["probe"] == "kernel" {
            recorded.push(known[event["fields"]["node"].as_str().unwrap()].clone());
        }
    }
    told.sort();
    recorded.sort();
    assert_eq!((recorded.len(), recorded), (told.len(), told));
}

fn named(of: &Value) -> (String, String) {
    let text = |name: &str| of[name].as_str().unwrap_or_default().to_owned();
    (text("name"), text("op"))
}
