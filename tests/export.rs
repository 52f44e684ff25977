//! `profinfer export` as its users have it: the shipped queries, in a database of its own kind, over the exported tables,
//! must give what `profinfer report` says.

#![allow(clippy::unwrap_used, clippy::panic)]

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What `tests/export/query.py` runs in: the program itself does not ask for it.
/// Apache publishes its source only; it is Java's classes already.
const SPARK: &[&str] = &["spark", "--no-binary=pyspark", "pyspark==4.1.4"];
const DUCKDB: &[&str] = &["duckdb", "duckdb==1.5.6"];

fn profinfer(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_profinfer")).args(arguments).output().unwrap()
}

fn done(arguments: &[&str]) -> Output {
    let output = profinfer(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn in_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// A recording of a real engine.
fn stored() -> String {
    in_repository("tests/traces/v1/llama.pfi").to_str().unwrap().to_owned()
}

fn report(trace: &str, arguments: &[&str]) -> Value {
    serde_json::from_slice(&done(&[&["report", trace, "--json"], arguments].concat()).stdout).unwrap()
}

/// The answers of all queries of a folder.
fn answers(
    engine: &str,
    packages: &[&str],
    format: &str,
    tables: &Path,
    queries: &Path,
) -> BTreeMap<String, Vec<Value>> {
    let install = Command::new(in_repository("tests/engines/python_environment.sh")).args(packages).output().unwrap();
    assert!(install.status.success(), "{}", String::from_utf8_lossy(&install.stderr));
    let mut query = Command::new(String::from_utf8(install.stdout).unwrap().trim());
    query.arg(in_repository("tests/export/query.py")).args([engine, format]).args([tables, queries]);
    let output = query.env("PYTHONDONTWRITEBYTECODE", "1").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The shipped queries that are about one run.
fn queries_of_a_run() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(in_repository("queries")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "sql") && path.file_stem().is_some_and(|stem| stem != "fleet") {
            std::fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
        }
    }
    folder
}

/// A value as both sides can have it: layers may be read as numbers.
fn key(row: &Value, keys: &[&str]) -> Vec<String> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    keys.iter().map(|key| text(&row[*key])).collect()
}

/// Fails unless the same rows are in both, with the same values.
#[track_caller]
fn assert_same(what: &str, answers: &[Value], reported: &[Value], keys: &[&str], values: &[&str]) {
    let by_key = |rows: &[Value]| -> BTreeMap<Vec<String>, Value> {
        rows.iter().map(|row| (key(row, keys), row.clone())).collect()
    };
    let (answers, reported) = (by_key(answers), by_key(reported));
    let names = |of: &BTreeMap<Vec<String>, Value>| of.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&answers), names(&reported), "{what}");
    assert!(!reported.is_empty(), "{what}: nothing was compared");
    for (name, row) in &reported {
        for value in values {
            let (found, expected) = (answers[name][value].as_f64(), row[*value].as_f64());
            let (Some(found), Some(expected)) = (found, expected) else {
                panic!("{what} {name:?} {value}: {:?} and {:?}", answers[name][value], row[*value])
            };
            assert!((found - expected).abs() <= expected.abs() * 1e-9, "{what} {name:?} {value}: {found}, {expected}");
        }
    }
}

const OPERATORS: &[&str] = &["count", "total_ns", "waiting_ns", "share", "mean_ns", "min_ns", "max_ns"];

/// Every query says what the report says.
fn assert_as_reported(answers: &BTreeMap<String, Vec<Value>>, trace: &str) {
    let whole = report(trace, &[]);
    let rows = |key: &str| whole[key].as_array().unwrap().clone();
    let layers = [&["layers"][..], OPERATORS].concat();
    assert_same("operators", &answers["operators"], &rows("operators"), &["name", "op", "covers"], &layers);
    assert_same("types", &answers["operator_types"], &rows("operator_types"), &["op"], OPERATORS);
    assert_same("layers", &answers["layers"], &rows("layers"), &["layer"], OPERATORS);
    let shapes = report(trace, &["--by", "shape"]);
    let shapes: Vec<Value> = shapes["operators"].as_array().unwrap().iter().map(with_shape).collect();
    assert_same("shapes", &answers["shapes"], &shapes, &["op", "shape"], OPERATORS);
    let backends = ["graphs", "total_ns", "mean_ns", "max_ns", "share", "operators", "operators_ns"];
    assert_same("backends", &answers["backends"], &rows("backends"), &["backend"], &backends);
    let lanes = ["shares", "work_ns", "waiting_ns", "step_time_ns", "busy", "waiting"];
    assert_same("lanes", &answers["lanes"], &rows("lane_rows"), &["lane"], &lanes);
    let regions = ["count", "total_ns", "in_operators_ns", "mean_ns", "max_ns", "share"];
    assert_same("regions", &answers["regions"], &rows("regions"), &["region"], &regions);
    if !rows("experts").is_empty() {
        assert_same("experts", &answers["experts"], &rows("experts"), &["layer", "expert"], &["activations", "share"]);
    }
    let phases: Vec<Value> =
        rows("phases").iter().filter(|row| row["phase"] != "outside").map(with_durations).collect();
    let durations = ["total_ns", "mean_ns", "min_ns", "p50_ns", "p90_ns", "p99_ns", "max_ns"];
    let others = ["steps", "whole_steps", "tokens", "lane_time_ns", "work_ns", "waiting_ns", "operators", "graphs"];
    let values = [&durations[..], &others].concat();
    assert_same("phases", &answers["phases"], &phases, &["phase"], &values);
}

/// The shape as the tables have it.
fn with_shape(row: &Value) -> Value {
    let mut row = row.clone();
    let extents: Vec<String> = row["shape"].as_array().unwrap().iter().map(Value::to_string).collect();
    row["shape"] = if extents.is_empty() { Value::Null } else { extents.join("x").into() };
    row
}

/// A phase with its distribution beside the rest.
fn with_durations(row: &Value) -> Value {
    let mut row = row.clone();
    for (key, value) in row["step"].as_object().unwrap().clone() {
        row[key] = value;
    }
    row
}

#[test]
fn the_shipped_queries_say_what_the_report_says() {
    let folder = tempfile::tempdir().unwrap();
    let queries = queries_of_a_run();
    for format in ["csv", "ndjson"] {
        let tables = folder.path().join(format);
        done(&["export", &stored(), "--format", format, "-o", tables.to_str().unwrap()]);
        let answers = answers("duckdb", DUCKDB, format, &tables, queries.path());
        assert_as_reported(&answers, &stored());
    }
}

#[test]
#[ignore = "needs Java, and half a gigabyte"]
fn spark_answers_the_shipped_queries_alike() {
    let tables = tempfile::tempdir().unwrap();
    done(&["export", &stored(), "--format", "ndjson", "-o", tables.path().to_str().unwrap()]);
    let answers = answers("spark", SPARK, "ndjson", tables.path(), queries_of_a_run().path());
    assert_as_reported(&answers, &stored());
}

#[cfg(feature = "columnar")]
#[test]
fn parquet_says_the_same() {
    let folder = tempfile::tempdir().unwrap();
    done(&["export", &stored(), "--format", "parquet", "-o", folder.path().to_str().unwrap()]);
    let answers = answers("duckdb", DUCKDB, "parquet", folder.path(), queries_of_a_run().path());
    assert_as_reported(&answers, &stored());
}

#[test]
fn a_fleet_of_traces_is_one_table() {
    let folder = tempfile::tempdir().unwrap();
    let tables = folder.path().join("fleet");
    for trace in [stored(), in_repository("tests/traces/v1/sampled.pfi").to_str().unwrap().to_owned()] {
        if Path::new(&trace).exists() {
            done(&["export", &trace, "--partitioned", "--table", "steps", "-o", tables.to_str().unwrap()]);
        }
    }
    let queries = tempfile::tempdir().unwrap();
    std::fs::copy(in_repository("queries/fleet.sql"), queries.path().join("fleet.sql")).unwrap();
    let answers = answers("duckdb", DUCKDB, "csv", &tables, queries.path());
    let decode = report(&stored(), &[])["phases"].as_array().unwrap().iter().find(|p| p["phase"] == "decode").cloned();
    let decode = decode.unwrap();
    let row = answers["fleet"].iter().find(|row| row["steps"] == decode["whole_steps"]).unwrap();
    assert!((row["mean_ns"].as_f64().unwrap() - decode["step"]["mean_ns"].as_f64().unwrap()).abs() < 1e-6, "{row}");
    let info: Value = serde_json::from_slice(&done(&["info", &stored(), "--json"]).stdout).unwrap();
    assert_eq!(row["host"], info["origin"]["host"]["name"], "{row}");
}

#[test]
fn one_table_goes_to_one_file_or_to_standard_output() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("some.csv");
    done(&["export", &stored(), "--table", "steps", "-o", file.to_str().unwrap()]);
    let printed = done(&["export", &stored(), "--table", "steps", "-o", "-"]);
    assert_eq!(std::fs::read(&file).unwrap(), printed.stdout);
    assert!(printed.stdout.starts_with(b"step,phase,pid,"));
    let several = profinfer(&["export", &stored(), "-o", file.to_str().unwrap()]);
    assert_eq!(several.status.code(), Some(1));
    assert!(String::from_utf8(several.stderr).unwrap().contains("give a folder, or one table"));
    assert_eq!(profinfer(&["export", &stored(), "-o", "x", "--table", "nonsense"]).status.code(), Some(2));
    assert_eq!(profinfer(&["export", &stored(), "-o", "/dev/null/x"]).status.code(), Some(3));
}
