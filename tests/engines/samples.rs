//! Timer samples of real engines: products of matrices are computed by the kernel for their weights' type, functions have
//! the shares that perf gives them in the same run, and those of a stripped wheel are told apart.

use crate::engine::{Engine, Workload, alone, workload};
use crate::invocation::{json, profinfer, succeeds};
use crate::models::record;
use crate::packages::{installed_version, scripts};
use crate::rows;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

fn within(recording: &crate::recording::Recording, what: &str) -> Value {
    recording.report(&["--by", "function", "--phase", "decode", "--within", what])
}

/// Samples in functions of the engine's own module, by how their names begin.
fn in_engine(report: &Value, begins: &str) -> u64 {
    let rows = rows(&report["functions"]).filter(|row| row["module"].as_str().unwrap().contains("xllamacpp"));
    let named = rows.filter(|row| row["function"].as_str().unwrap().starts_with(begins));
    named.map(|row| row["samples"].as_u64().unwrap()).sum()
}

#[test]
#[ignore = "needs root"]
fn products_are_computed_by_the_kernel_for_their_weights() {
    let _alone = alone();
    for (model, kernel) in [("small-dense", "ggml_vec_dot_f32"), ("small-dense-q8_0", "ggml_vec_dot_q8_0_q8_0")] {
        let work = Workload { tokens: 150, ..workload(model, 1) };
        let recording = record(Engine::Wheel, &work, &["--sample", "1999"]);
        recording.assert_complete();
        let products = within(&recording, "MUL_MAT");
        let (all, of_kernel) = (in_engine(&products, ""), in_engine(&products, kernel));
        assert!(all > 100, "{model}: {products:#}");
        assert!(of_kernel * 10 > all * 6, "{model}: {of_kernel} of {all} in {kernel}\n{products:#}");
        // Attention multiplies numbers of 16 bits; weights of no other type are there.
        let quantised = in_engine(&products, "ggml_vec_dot_q");
        assert_eq!(quantised, if kernel.contains("_q") { of_kernel } else { 0 }, "{model}: {products:#}");
        // The verdict has the class of that kernel, by the probeset.
        let verdict = recording.report(&[])["verdict"].clone();
        let decode = rows(&verdict["phases"]).find(|row| row["phase"] == "decode").unwrap();
        let multiply = rows(&decode["sampled"]["classes"]).find(|row| row["what"] == "multiply").unwrap();
        assert!(multiply["samples"].as_u64().unwrap() >= of_kernel, "{model}: {multiply} has not the {of_kernel}");
        assert!(multiply["function"].as_str().unwrap().starts_with(kernel), "{model}: {multiply}");
        // Most of what is outside operators has a name.
        let outside = recording.report(&["--by", "function", "--within", "outside operators"]);
        let named: u64 = rows(&outside["functions"])
            .filter(|row| row["known"] == true)
            .map(|row| row["samples"].as_u64().unwrap())
            .sum();
        assert!(named * 10 >= outside["samples"].as_u64().unwrap() * 8, "{model}: {outside:#}");
    }
}

/// Samples of functions in a file, by name.
type Shares = BTreeMap<String, u64>;

fn by_function(trace: &Path) -> Value {
    json(&["report", "--by", "function", "--json", trace.to_str().unwrap()])
}

/// What perf has of a program's functions in a file.
fn of_perf(data: &Path, program: &str, file: &str) -> Shares {
    let fields = ["-F", "sample,dso,symbol", "-t", "|", "--no-children", "--stdio", "--comm", program];
    let output = succeeds(Command::new("perf").arg("report").arg("-i").arg(data).args(fields));
    let text = String::from_utf8(output.stdout).unwrap();
    let row = |line: &str| {
        let mut columns = line.split('|').map(str::trim);
        let (count, dso, symbol) = (columns.next()?.parse().ok()?, columns.next()?, columns.next()?);
        Some((symbol.strip_prefix("[.] ").filter(|_| dso.contains(file))?.to_owned(), count))
    };
    text.lines().filter_map(row).collect()
}

/// Two profilers with timers of their own: shares agree as far as so many samples can tell.
#[test]
#[ignore = "needs root"]
fn functions_have_the_shares_that_perf_gives_them_in_the_same_run() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let [trace, data] = ["run.pfi", "perf.data"].map(|name| folder.path().join(name));
    let work = Workload { tokens: 900, ..workload("small-dense-q8_0", 1) };
    let mut perf = Command::new("perf");
    perf.args(["record", "-q", "-F", "997", "-e", "cpu-clock", "-o"]).arg(&data).arg("--");
    perf.arg(env!("CARGO_BIN_EXE_profinfer")).args(["record", "llama", "--sample", "999", "-o"]).arg(&trace);
    succeeds(perf.arg("--").args(Engine::Wheel.command(&work)));
    let theirs = of_perf(&data, "python", "xllamacpp");
    let report = by_function(&trace);
    let in_file = rows(&report["functions"]).filter(|row| row["module"].as_str().unwrap().contains("xllamacpp"));
    let row = |row: &Value| (row["function"].as_str().unwrap().to_owned(), row["samples"].as_u64().unwrap());
    let ours: Shares = in_file.map(row).collect();
    let [all, all_of_perf] = [&ours, &theirs].map(|shares| shares.values().sum::<u64>() as f64);
    assert!(all > 500.0 && all_of_perf > 500.0, "{ours:?} {theirs:?}");
    let large = |shares: &Shares, all: f64| -> Vec<String> {
        shares.iter().filter(|(_, count)| **count as f64 > 0.03 * all).map(|(name, _)| name.clone()).collect()
    };
    let mut compared = [large(&ours, all), large(&theirs, all_of_perf)].concat();
    compared.retain(|name| name.starts_with("ggml_"));
    assert!(compared.iter().any(|name| name == "ggml_vec_dot_q8_0_q8_0"), "{compared:?}");
    for name in compared {
        let share = |shares: &Shares, all: f64| shares.get(&name).copied().unwrap_or(0) as f64 / all;
        let (here, there) = (share(&ours, all), share(&theirs, all_of_perf));
        let both = (here * all + there * all_of_perf) / (all + all_of_perf);
        let deviation = (both * (1.0 - both) * (1.0 / all + 1.0 / all_of_perf)).sqrt();
        assert!((here - there).abs() < 4.0 * deviation + 0.01, "{name}: {here:.3}, by perf {there:.3}");
    }
}

/// Its products are computed in assembly, of which no table in the file has anything.
#[test]
#[ignore = "needs root"]
fn functions_of_a_stripped_wheel_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("run.pfi");
    let mut command = profinfer(&["record", "onnxruntime", "--sample", "1999", "-o"]);
    command.arg(&trace).arg("--").arg(installed_version("install_onnxruntime.sh", "newest"));
    succeeds(command.arg(scripts().join("run_onnxruntime.py")).arg(folder.path()).arg("300"));
    let report = by_function(&trace);
    let in_file: Vec<&Value> =
        rows(&report["functions"]).filter(|row| row["module"].as_str().unwrap().contains("onnxruntime_pyb")).collect();
    let count = |wanted: &dyn Fn(&str) -> bool| -> u64 {
        let functions = in_file.iter().filter(|row| wanted(row["function"].as_str().unwrap()));
        functions.map(|row| row["samples"].as_u64().unwrap()).sum()
    };
    let all = count(&|_| true);
    assert!(all > 300, "{report:#}");
    let nowhere = count(&|name| name.starts_with('['));
    assert!(nowhere * 20 < all, "{nowhere} of {all} are in no function: {report:#}");
    // Types tell the class of some, addresses the others apart: no function is the whole file.
    assert!(count(&|name| name.starts_with("onnxruntime::") && name.ends_with(']')) > 0, "{report:#}");
    let largest = in_file.iter().find(|row| row["function"].as_str().unwrap().starts_with("+0x")).unwrap();
    let places: BTreeMap<&str, &str> =
        rows(&report["places"]).filter_map(|row| Some((row["place"].as_str()?, row["function"].as_str()?))).collect();
    // The product is one kernel, in `MatMul` as in `Gemm`; the exponential of `Softmax` is another.
    let kernel = format!("{}{}", largest["module"].as_str().unwrap(), largest["function"].as_str().unwrap());
    assert_eq!((places["MatMul"], places["Gemm"]), (kernel.as_str(), kernel.as_str()), "{places:?}");
    assert_ne!(places["Softmax"], kernel, "{places:?}");
}
