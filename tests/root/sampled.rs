//! What verdicts make of timer samples, against the clocks of a program whose functions unpack, multiply, copy, fault and
//! spin for known times. These need root, a C compiler and clang.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const TARGETS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/targets");

/// Records a run: the trace, and the CPU time of each part by the threads' clocks.
fn recorded(folder: &Path, probeset: &Path, lanes: &str, steps: &str) -> (PathBuf, BTreeMap<String, f64>) {
    let (target, trace) = (folder.join("unpacking"), folder.join("run.pfi"));
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-g", "-o"]).arg(&target).arg(format!("{TARGETS}/unpacking.c")).arg("-lpthread");
    assert!(compiler.status().expect("a C compiler").success());
    let mut recorder = Command::new(env!("CARGO_BIN_EXE_profinfer"));
    recorder.arg("record").arg(probeset).arg("-o").arg(&trace).args(["--sample", "1999", "--"]);
    let output = recorder.arg(target).args([lanes, steps]).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let clocks = String::from_utf8(output.stdout).unwrap();
    let clocks = clocks.lines().map(|line| line.split_once(' ').unwrap());
    (trace, clocks.map(|(name, ns)| (name.to_owned(), ns.parse().unwrap())).collect())
}

fn decode(trace: &Path) -> (Value, Value) {
    let mut report = Command::new(env!("CARGO_BIN_EXE_profinfer"));
    let output = report.arg("report").arg(trace).arg("--json").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let phases = report["verdict"]["phases"].as_array().unwrap();
    (phases.iter().find(|row| row["phase"] == "decode").unwrap().clone(), report["verdict"].clone())
}

/// How many standard deviations a binomial count may be off, and how far the clocks' own time may shift a share.
const DEVIATIONS: f64 = 4.5;
const SHIFT: f64 = 0.012;

#[test]
#[ignore = "needs root"]
fn verdicts_have_the_parts_of_the_programs_clocks() {
    let probeset = Path::new(TARGETS).join("unpacking.yaml");
    for (lanes, steps) in [("1", "80"), ("2", "50")] {
        let folder = tempfile::tempdir().unwrap();
        let (trace, clocks) = recorded(folder.path(), &probeset, lanes, steps);
        let (decode, verdict) = decode(&trace);
        let classes = decode["sampled"]["classes"].as_array().unwrap();
        let of = decode["sampled"]["samples"].as_u64().unwrap() as f64;
        let count = |what: &str| {
            let row = classes.iter().find(|row| row["what"] == what);
            row.map_or(0.0, |row| row["samples"].as_u64().unwrap() as f64)
        };
        let all: f64 = clocks.values().sum();
        let agrees = |what: &str, count: f64, part: &str| {
            let truth = clocks[part] / all;
            let allowed = DEVIATIONS * (truth * (1.0 - truth) / of).sqrt() + SHIFT;
            assert!(
                (count / of - truth).abs() <= allowed,
                "{lanes} lanes, {what}: {count} of {of}, {truth:.4}: {decode:#}"
            );
            truth
        };
        agrees("dequantise", count("dequantise"), "unpack");
        agrees("multiply", count("multiply"), "dot");
        agrees("copy", count("copy"), "copy");
        agrees("wait", count("wait"), "spin");
        // Interrupts and probes are in it.
        let kernel = count("page_faults") + count("kernel") + count("probes");
        let in_kernel = agrees("kernel", kernel, "fault");
        assert!(count("page_faults") > 0.85 * kernel, "{decode:#}");

        // An operator's time is divided by its samples, however long its lanes were not let run.
        let row =
            |op: &str| verdict["operators"].as_array().unwrap().iter().find(|row| row["op"] == op).unwrap().clone();
        let (grow, add) = (row("GROW"), row("ADD"));
        assert_eq!((&grow["bound"], &grow["confidence"]), (&"kernel".into(), &"high".into()), "{grow:#}");
        assert!(grow["parts"]["kernel"].as_f64().unwrap() > 0.8, "{grow:#}");
        let waited = if lanes == "1" { "overhead" } else { "synchronisation" };
        assert!(add["parts"][waited].as_f64().unwrap() > 0.85, "{add:#}");
        assert!(row("MUL_MAT")["parts"]["kernel"].as_f64().unwrap() < 0.1, "{verdict:#}");

        let sentences = verdict["sentences"].to_string();
        for words in ["are page faults", "convert quantised numbers, most in `unpack_rows`", "spin at barriers"] {
            assert!(sentences.contains(words), "{words}: {sentences}");
        }
        let advice = verdict["advice"].as_array().unwrap();
        let faults = advice.iter().find(|one| one["what"].as_str().unwrap().contains("huge pages")).unwrap();
        let gain = faults["gain_at_most"].as_f64().unwrap();
        assert!(gain <= in_kernel + 0.1 && gain > 0.2 * in_kernel, "{faults} for {in_kernel}");
    }
}

#[test]
#[ignore = "needs root"]
fn without_names_of_functions_nothing_is_claimed_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let probeset = folder.path().join("plain.yaml");
    let text = std::fs::read_to_string(format!("{TARGETS}/unpacking.yaml")).unwrap();
    std::fs::write(&probeset, text.split("  functions:").next().unwrap()).unwrap();
    let (trace, _) = recorded(folder.path(), &probeset, "1", "15");
    let (decode, verdict) = decode(&trace);
    let names: Vec<&str> =
        decode["sampled"]["classes"].as_array().unwrap().iter().map(|row| row["what"].as_str().unwrap()).collect();
    assert!(names.contains(&"other") && names.contains(&"page_faults"), "{names:?}");
    assert!(!names.iter().any(|name| ["dequantise", "multiply", "wait"].contains(name)), "{names:?}");
    let sentences = verdict["sentences"].to_string();
    assert!(sentences.contains("are page faults") && !sentences.contains("quantised"), "{sentences}");
    // The file is gone: what the kernel did is still in the trace.
    std::fs::remove_file(folder.path().join("unpacking")).unwrap();
    let (decode, _) = self::decode(&trace);
    let unnamed = decode["sampled"]["classes"].as_array().unwrap().iter().find(|row| row["what"] == "unnamed").unwrap();
    assert_eq!(unnamed["function"], "[unpacking]");
    assert!(decode["parts"]["kernel"].as_f64().unwrap() > 0.02, "{decode:#}");
}
