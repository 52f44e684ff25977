//! Operators as short as a probe: their time without tracing is the program's own figure, of a copy with no probe on it.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/targets");

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("a number: {value}"))
}

fn profinfer(cache: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_profinfer"));
    command.env("PROFINFER_CACHE", cache);
    command
}

/// What the program prints, ns by operator; and the rows of the report. `cache` has what probes cost on this machine.
fn recorded(probeset: &str, cache: &Path) -> (Vec<(String, f64)>, Vec<Value>) {
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("brief");
    let source = Path::new(SOURCES).join("brief.c");
    assert!(Command::new("cc").args(["-O2", "-g", "-o"]).arg(&target).arg(source).status().unwrap().success());
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("run.pfi");
    let mut record = profinfer(cache);
    record.arg("record").arg(Path::new(SOURCES).join(probeset)).arg("-o").arg(&trace);
    let output = record.arg("--").arg(&target).arg("300").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    let of_line = |line: &str| line.split_once(' ').map(|(name, ns)| (name.to_owned(), ns.parse().unwrap()));
    let expected = lines.lines().filter_map(of_line).collect();
    let report = profinfer(cache).args(["report", "--json"]).arg(&trace).output().unwrap();
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    (expected, report["operators"].as_array().unwrap().clone())
}

/// Of some recordings, the one whose short operators were disturbed least (the long ones would hide them in a sum); on a
/// machine that is calibrated, since what is built in was measured on another one.
fn undisturbed(probeset: &str) -> (Vec<(String, f64)>, Vec<Value>) {
    let of_short = |rows: &[Value]| number(&rows.iter().find(|row| row["name"] == "short").unwrap()["total_ns"]);
    let cache = tempfile::tempdir().unwrap();
    assert!(profinfer(cache.path()).args(["doctor", "--calibrate"]).output().unwrap().status.success());
    let all = (0..3).map(|_| recorded(probeset, cache.path()));
    all.min_by(|(_, a), (_, b)| of_short(a).total_cmp(&of_short(b))).unwrap()
}

fn assert_corrected(probeset: &str) {
    let (expected, rows) = undisturbed(probeset);
    assert_eq!(expected.len(), 2, "{expected:?}");
    for (name, ns) in &expected {
        let row = rows.iter().find(|row| row["name"] == name.as_str()).unwrap_or_else(|| panic!("{name}: {rows:#?}"));
        let corrected = &row["mean_without_tracing_ns"];
        if name == "long" {
            assert!(corrected.is_null() && number(&row["mean_ns"]) < 1.3 * ns, "{ns}: {row}");
        } else {
            let (recorded, corrected) = (number(&row["mean_ns"]), number(corrected));
            assert!(recorded > 1.4 * ns, "tracing is part of what is recorded: {ns}, {row}");
            assert!((corrected / ns - 1.0).abs() < 0.4, "{ns}: {row}");
        }
    }
}

#[test]
#[ignore = "needs root"]
fn operators_that_return_are_shown_without_tracing() {
    assert_corrected("brief.yaml");
}

#[test]
#[ignore = "needs root"]
fn operators_that_end_with_the_next_one_are_shown_without_tracing() {
    assert_corrected("brief_until.yaml");
}
