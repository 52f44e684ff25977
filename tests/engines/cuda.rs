//! llama.cpp on CUDA, without a device: the engine's backend with stand-ins for CUDA's libraries, which compute nothing.
//! What it encodes, captures and launches is compared with the engine's own list of its graphs, and with what bpftrace
//! counts.

use crate::process::{run, stderr};
use crate::recording::Recording;
use crate::vulkan::{self, counted, cut, dispatched, listed, output_of, table};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const IN_ORDER: (&str, &str) = ("GGML_SCHED_DEBUG", "2");
const UNCAPTURED: (&str, &str) = ("GGML_CUDA_DISABLE_GRAPHS", "1");
const UNFUSED: (&str, &str) = ("GGML_CUDA_DISABLE_FUSION", "1");

/// A Python that has the wheel, and the folder of the stand-ins.
struct Engine {
    python: PathBuf,
    libraries: tempfile::TempDir,
}

fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| {
        let printed = output_of(&mut Command::new(format!("{ROOT}/tests/engines/install_cyllama_cuda.sh")));
        let libraries = tempfile::tempdir().unwrap();
        stand_ins(libraries.path());
        Engine { python: printed.trim().into(), libraries }
    })
}

/// The real ones have their symbols' versions.
fn stand_ins(folder: &Path) {
    let script = folder.join("versions");
    let compile = |part: &str, name: &str, arguments: &[&str]| {
        let mut command = Command::new("cc");
        command.args(["-O2", "-shared", "-fPIC", &format!("-D{part}"), &format!("-Wl,-soname,{name}"), "-o"]);
        command.arg(folder.join(name)).arg(format!("{ROOT}/tests/targets/cuda_runtime.c"));
        run(command.args(arguments), 0);
    };
    compile("DRIVER", "libcuda.so.1", &[]);
    let driver = folder.join("libcuda.so.1");
    for (part, name) in
        [("RUNTIME", "libcudart.so.12"), ("ALGEBRA", "libcublas.so.12"), ("NOTHING", "libcublasLt.so.12")]
    {
        std::fs::write(&script, format!("{name} {{ global: *; }};\n")).unwrap();
        let versions = format!("-Wl,--version-script={}", script.display());
        compile(part, name, &[driver.to_str().unwrap(), &versions]);
    }
}

fn words(arguments: &[&str]) -> Vec<String> {
    let (python, model) = (&engine().python, &vulkan::engine().1);
    let script = format!("{ROOT}/tests/engines/run_cyllama.py");
    let fixed = [python.to_str().unwrap(), &script, "--device", "CUDA", "--model", model.to_str().unwrap()];
    fixed.iter().chain(arguments).map(|word| (*word).to_owned()).collect()
}

fn recorded(probeset: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Recording {
    let set = |command: &mut Command| {
        command.arg("--").args(words(arguments)).envs(environment.iter().copied());
        command.env("LD_LIBRARY_PATH", engine().libraries.path());
    };
    Recording::new(probeset, &[], set, 0)
}

/// Each step's operators on the device, those that are computed with others included, are one of the engine's lists, in
/// its order.
#[test]
#[ignore = "needs root"]
fn every_operator_is_in_the_engine_s_own_list() {
    for (layers, environment) in [("99", &[IN_ORDER, UNCAPTURED][..]), ("2", &[IN_ORDER, UNCAPTURED, UNFUSED])] {
        let run = recorded("llama", &["--log", "--tokens", "3", "--gpu-layers", layers], environment);
        let rows = table(run.path(), "dispatches");
        // Views between operators that are computed together are no part of them.
        let steps = dispatched(&rows, &[]);
        assert_eq!(steps.keys().copied().collect::<Vec<_>>(), [1, 2, 3]);
        let truth = listed(&stderr(&run.output));
        for (step, names) in &steps {
            let found = truth.iter().any(|graph| graph.get("CUDA0") == Some(names));
            assert!(found, "step {step}, {layers} layers: {names:?}\nis none of {truth:#?}");
        }
        let fused: u64 = rows.iter().map(|row| row["operators"].as_u64().unwrap() - 1).sum();
        assert_eq!(fused == 0, environment.contains(&UNFUSED), "{fused} fused");
        assert!(rows.iter().all(|row| row["backend"] == "cuda" && row["empty"] == false), "{rows:?}");
        let completeness = &run.report(&[])["completeness"];
        assert_eq!(
            (&completeness["missing_records"], completeness["lost"].as_array().map(Vec::len)),
            (&0.into(), Some(0))
        );
    }
}

/// As a report shows the names of all layers.
fn collapsed(name: &str) -> String {
    let parts: Vec<&str> = name.split(|letter: char| letter.is_ascii_digit()).collect();
    let mut joined = parts.join("*");
    while joined.contains("**") {
        joined = joined.replace("**", "*");
    }
    joined
}

/// A graph is captured in one step, and launched as a whole by that one and later ones: it consists of the operators of a
/// step that is not captured.
#[test]
#[ignore = "needs root"]
fn a_captured_graph_has_the_operators_of_a_step() {
    let steps = ["--tokens", "8"];
    let captured = recorded("llama-cuda", &steps, &[]);
    let launches =
        table(captured.path(), "queue").iter().filter(|row| row["probe"] == "cuda_graph_launch").count() as u64;
    assert!((2..8).contains(&launches), "{launches} launches of a graph");
    let report = captured.report(&[]);
    let text = |row: &Value, key: &str| row[key].as_str().unwrap().to_owned();
    let mut each: BTreeMap<(String, String), u64> = BTreeMap::new();
    for row in report["offload"]["operators"].as_array().unwrap() {
        let replayed = row["replayed"].as_u64().unwrap();
        assert_eq!(replayed % launches, 0, "{row}");
        *each.entry((text(row, "op"), text(row, "name"))).or_default() += replayed / launches;
    }
    each.retain(|_, count| *count > 0);
    let mut encoded: BTreeMap<(String, String), u64> = BTreeMap::new();
    let uncaptured = recorded("llama-cuda", &steps, &[UNCAPTURED]);
    for row in table(uncaptured.path(), "dispatches").iter().filter(|row| row["step"] == 8) {
        *encoded.entry((text(row, "op"), collapsed(&text(row, "name")))).or_default() += 1;
    }
    assert_eq!(each, encoded);
    assert!(each.keys().any(|(op, name)| op == "GLU" && name.starts_with("ffn_swiglu")), "{each:?}");
}

/// Launches are as many as bpftrace counts in another run, each within the encoding of its operator; kernels have names.
#[test]
#[ignore = "needs root"]
fn launches_are_as_bpftrace_counts_them() {
    let run = recorded("llama-cuda", &["--tokens", "3"], &[UNCAPTURED]);
    let library = engine().libraries.path().join("libcuda.so.1");
    let functions = [
        ("cuLaunchKernel", "cuda_launch"),
        ("cuStreamSynchronize", "cuda_stream_wait"),
        ("cuMemcpyHtoDAsync_v2", "cuda_to_device_work"),
        ("cuMemcpyDtoHAsync_v2", "cuda_from_device_work"),
    ];
    let script: String = functions
        .iter()
        .map(|(name, _)| format!("uprobe:{}:{name} /pid == cpid/ {{ @{name} = count(); }} ", library.display()))
        .collect();
    let mut command = vec!["/usr/bin/env".to_owned(), format!("{}={}", UNCAPTURED.0, UNCAPTURED.1)];
    command.push(format!("LD_LIBRARY_PATH={}", engine().libraries.path().display()));
    command.extend(words(&["--tokens", "3"]));
    let counts = counted(&script, &command);
    let rows = table(run.path(), "queue");
    for (function, probe) in functions {
        let recorded = rows.iter().filter(|row| row["probe"] == probe).count() as u64;
        assert_eq!(recorded, counts.get(function).copied().unwrap_or(0), "{function}: {counts:?}");
    }
    let dispatches = table(run.path(), "dispatches");
    let launches = |row: &Value| row["launches"].as_str().map_or(0, |names| names.split(" + ").count());
    let launched: u64 = dispatches.iter().map(|row| launches(row) as u64).sum();
    assert_eq!(launched, counts["cuLaunchKernel"], "{counts:?}");
    for (op, kernel) in [("MUL_MAT", "mul_mat_vec"), ("SOFT_MAX", "soft_max"), ("GLU", "mul_mat_vec")] {
        let of = |row: &&Value| row["op"] == op && row["phase"] == "decode";
        let row = dispatches.iter().find(of).unwrap();
        assert!(row["launches"].as_str().unwrap().starts_with(kernel), "{row}");
    }
    assert!(dispatches.iter().all(|row| cut(row["name"].as_str().unwrap()) != "dispatch_node"), "{dispatches:?}");
}
