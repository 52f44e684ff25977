//! `profinfer report` as a user runs it: exit codes, and what goes where.

use profinfer_analysis::testing::{Put, Records};
use profinfer_schema::{End, Origin};

use profinfer_trace::TraceWriter;
use std::path::Path;
use std::process::{Command, Output};

fn write(path: &Path, complete: bool) {
    let mut r = Records::default();
    r.push("thread", 1, (0, 0), &[("pid", Put::Int(100))]);
    for at in [1000, 2000] {
        r.push("kernel", 1, (at + 20, at + 50), &[]);
        r.push("graph", 1, (at + 10, at + 60), &[("backend", Put::Text("CPU"))]);
        r.push("step", 1, (at, at + 100), &[("tokens", Put::Int(1))]);
        if !complete {
            r.lose(1, 1);
        }
    }
    let source = "profinfer: 1\nengine: toy\nsummary: nothing\n";
    let sources = vec![("toy.yaml".to_owned(), source.to_owned())];
    let origin = Origin { engine: "toy".into(), sources, pid: 100, ..Origin::default() };
    let mut writer = TraceWriter::new(std::fs::File::create(path).unwrap(), &origin, &r.schema).unwrap();
    for record in &r.records {
        writer.push(record).unwrap();
    }
    writer.finish(&End { time: 5000, reason: "the target ended".into(), ..End::default() }).unwrap();
}

fn report(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_profinfer")).arg("report").args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn a_complete_trace_exits_with_0_and_an_incomplete_one_with_4() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.pfi");
    let file = path.to_str().unwrap();
    write(&path, true);
    let output = report(&[file]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).starts_with("Complete: 2 steps, 7 records, nothing lost.\n"));
    assert!(!output.stdout.contains(&0x1b), "no colours in a pipe");
    write(&path, false);
    let output = report(&[file, "--all"]);
    assert_eq!(output.status.code(), Some(4));
    let expected =
        "Incomplete: 1 record missing by sequence number. 1 of 2 steps has lost records: 2; excluded from totals.\n";
    assert!(text(&output.stdout).starts_with(expected), "{}", text(&output.stdout));
}

#[test]
fn json_is_json_and_a_step_can_be_shown() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.pfi");
    write(&path, true);
    let file = path.to_str().unwrap();
    let whole: serde_json::Value = serde_json::from_slice(&report(&[file, "--json"]).stdout).unwrap();
    assert_eq!((&whole["format"], &whole["completeness"]["complete"]), (&"profinfer-report".into(), &true.into()));
    assert_eq!(whole["operators"][0]["total_ns"], 60);
    let step: serde_json::Value = serde_json::from_slice(&report(&[file, "--step", "2", "--json"]).stdout).unwrap();
    assert_eq!((&step["step"]["number"], &step["step"]["duration_ns"]), (&2.into(), &100.into()));
    let output = report(&[file, "--step", "3"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("the trace has steps 1 to 2"));
}

#[test]
fn a_file_that_is_no_trace_exits_with_1_and_a_wrong_argument_with_2() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.pfi");
    std::fs::write(&path, "hello").unwrap();
    for (arguments, code) in [
        (vec![path.to_str().unwrap()], 1),
        (vec!["/nonexistent.pfi"], 1),
        (vec!["x", "--by", "colour"], 2),
        (vec!["x", "--step", "1", "--by", "op"], 2),
    ] {
        let output = report(&arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty());
    }
}
