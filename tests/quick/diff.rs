//! `profinfer diff` as a user runs it: exit codes, and what goes where.

use crate::written::counted;
use profinfer_analysis::testing::{Put, Records};
use profinfer_schema::{End, Origin};

use profinfer_trace::TraceWriter;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Twenty decode steps of one operator that takes so long.
fn write(path: &Path, operator_ns: u64, complete: bool) -> PathBuf {
    let mut r = Records::default();
    r.push("thread", 1, (0, 0), &[("pid", Put::Int(100))]);
    for step in 1..=20_u64 {
        let at = step * 1_000_000;
        let end = at + 1000 + operator_ns + step % 3;
        r.push("kernel", 1, (at + 1000, end), &[]);
        r.push("graph", 1, (at + 500, end + 500), &[("backend", Put::Text("CPU"))]);
        r.push("step", 1, (at, end + 1000), &[("tokens", Put::Int(1))]);
        if step == 10 && !complete {
            r.lose(1, 1);
        }
    }
    let origin = Origin { engine: "toy".into(), pid: 100, ..Origin::default() };
    let mut writer = TraceWriter::new(std::fs::File::create(path).unwrap(), &origin, &r.schema).unwrap();
    r.records.iter().for_each(|record| writer.push(record).unwrap());
    writer.finish(&End { time: 1 << 30, reason: "the target ended".into(), ..End::default() }).unwrap();
    path.to_owned()
}

fn diff(a: &Path, b: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_profinfer")).arg("diff").args([a, b]).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn the_exit_code_says_whether_it_became_slower() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let a = write(&path("a.pfi"), 50_000, true);
    let b = write(&path("b.pfi"), 60_000, true);
    let lossy = write(&path("lossy.pfi"), 60_000, false);
    for (a, b, arguments, code) in [
        (&a, &b, vec![], 0),
        (&a, &a, vec!["--fail-above", "0%"], 0),
        (&a, &b, vec!["--fail-above", "3%"], 5),
        (&a, &b, vec!["--fail-above", "50%"], 0),
        (&b, &a, vec!["--fail-above", "3%"], 0),
        (&a, &b, vec!["--fail-above", "3%", "--noise", "30%"], 0),
        (&a, &b, vec!["--fail-above", "3%", "--again", b.to_str().unwrap()], 0),
        (&a, &lossy, vec![], 4),
        (&a, &lossy, vec!["--fail-above", "3%"], 5),
        (&a, &path("none.pfi"), vec![], 1),
        (&a, &b, vec!["--fail-above", "3"], 2),
    ] {
        let output = diff(a, b, &arguments);
        let reported = text(&output.stdout) + &text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {reported}");
        assert_eq!(code == 5, reported.contains("\nFails: decode is slower: "), "{arguments:?}: {reported}");
        assert!(!output.stdout.contains(&0x1b), "no colours in a pipe");
    }
}

#[test]
fn json_and_the_page_say_what_the_text_says() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (a, b) = (write(&path("a.pfi"), 50_000, true), write(&path("b.pfi"), 60_000, true));
    let page = path("diff.html");
    let output = diff(&a, &b, &["--json", "--html", page.to_str().unwrap()]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let decode = &report["phases"][0];
    assert_eq!((&report["format"], &decode["time"]["judgement"]), (&"profinfer-diff".into(), &"more".into()));
    assert!((decode["time"]["difference"].as_f64().unwrap() - 10_000.0).abs() < 1e-6);
    assert!((decode["time"]["relative"].as_f64().unwrap() - 10_000.0 / 52_001.05).abs() < 1e-9);
    let page = std::fs::read_to_string(page).unwrap();
    let verdict = decode["verdict"].as_str().unwrap();
    assert!(page.contains(verdict) && text(&diff(&a, &b, &[]).stdout).contains(verdict), "{verdict}");
}

#[test]
fn two_traces_cannot_both_be_standard_input() {
    let output = diff(Path::new("-"), Path::new("-"), &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("standard input can be one trace only"));
}

#[test]
fn a_counter_that_doubles_is_reported_and_one_that_does_not_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (a, b) = (counted(&path("a.pfi"), 1000), counted(&path("b.pfi"), 2000));
    let report: Value = serde_json::from_slice(&diff(&a, &b, &["--json"]).stdout).unwrap();
    let misses = |op: &str| {
        let operators = report["phases"][0]["operators"].as_array().unwrap();
        let operator =
            operators.iter().find(|row| row["a"][0]["op"] == op).unwrap_or_else(|| panic!("no {op}: {report:#}"));
        assert_eq!(operator["counters"][0]["counter"], "misses");
        operator["counters"][0]["count"].clone()
    };
    let (product, sum) = (misses("MUL_MAT"), misses("ADD"));
    assert_eq!(product["judgement"], "more", "{product:#}");
    assert!((product["difference"].as_f64().unwrap() - 1000.0).abs() < 1e-6, "{product:#}");
    assert_ne!(sum["judgement"], "more", "{sum:#}");
    assert_eq!(report["phases"][0]["time"]["judgement"], "not_significant", "{}", report["phases"][0]["time"]);
    let reported = text(&diff(&a, &b, &[]).stdout);
    let table = reported.split_once("counters that differ").unwrap_or_else(|| panic!("{reported}")).1;
    assert!(table.contains("product") && table.contains("misses") && !table.contains("sum-"), "{table}");
}
