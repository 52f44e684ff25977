//! `profinfer export` as its users have it: the shipped queries, in a database of its own kind, over the exported tables,
//! must give what `profinfer report` says.

use crate::packages::python_with;
use crate::written;
use profinfer_schema::End;

use profinfer_trace::{Item, TraceReader, TraceWriter};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
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
    let mut query = Command::new(python_with(packages));
    query.arg(in_repository("tests/export/query.py")).args([engine, format]).args([tables, queries]);
    let output = query.env("PYTHONDONTWRITEBYTECODE", "1").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The shipped queries of which this holds, by their names.
/// Queries of many runs.
const OF_MANY: [&str; 2] = ["fleet", "builds"];

fn queries(wanted: impl Fn(&str) -> bool) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(in_repository("queries")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if path.extension().is_some_and(|e| e == "sql") && wanted(&name) {
            std::fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
        }
    }
    folder
}

/// Those about one run in which nothing was counted: `counts` has no row to tell its columns by.
fn queries_of_a_run() -> tempfile::TempDir {
    queries(|name| !["fleet", "builds", "counters"].contains(&name))
}

/// A value as both sides can have it: layers may be read as numbers.
fn key(row: &Value, keys: &[&str]) -> Vec<String> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    keys.iter().map(|key| text(&row[*key])).collect()
}

/// Fails unless the same rows are in both, with the same values.
#[track_caller]
fn assert_same(what: &str, answers: &[Value], reported: &[Value], keys: &[&str], values: &[&str]) {
    let same = |found: Option<f64>, expected: Option<f64>| {
        found.zip(expected).is_some_and(|(found, expected)| (found - expected).abs() <= expected.abs() * 1e-9)
    };
    assert_rows(what, (answers, reported), keys, values, same);
}

/// Fails unless the same rows are in both, with values that are the same but for the rounding of long sums; what is
/// null is null in both.
#[track_caller]
fn assert_near(what: &str, answers: &[Value], reported: &[Value], keys: &[&str], values: &[&str]) {
    let near = |found: Option<f64>, expected: Option<f64>| match (found, expected) {
        (Some(found), Some(expected)) => (found - expected).abs() <= 1e-6 * expected.abs().max(1e-3),
        (found, expected) => found.is_none() && expected.is_none(),
    };
    assert_rows(what, (answers, reported), keys, values, near);
}

#[track_caller]
fn assert_rows(
    what: &str,
    (answers, reported): (&[Value], &[Value]),
    keys: &[&str],
    values: &[&str],
    agree: impl Fn(Option<f64>, Option<f64>) -> bool,
) {
    let by_key = |rows: &[Value]| -> BTreeMap<Vec<String>, Value> {
        rows.iter().map(|row| (key(row, keys), row.clone())).collect()
    };
    let (answers, reported) = (by_key(answers), by_key(reported));
    let names = |of: &BTreeMap<Vec<String>, Value>| of.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&answers), names(&reported), "{what}");
    assert!(!reported.is_empty(), "{what}: nothing was compared");
    for (name, row) in &reported {
        for value in values {
            let (found, expected) = (&answers[name][*value], &row[*value]);
            assert!(agree(found.as_f64(), expected.as_f64()), "{what} {name:?} {value}: {found}, {expected}");
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

/// A recording that has of everything what can be compared.
fn many_steps(folder: &Path) -> String {
    let path = folder.join("many.pfi");
    written::write(&path, &written::origin(written::PROBESET), &written::many());
    path.to_str().unwrap().to_owned()
}

/// The queries of the statistics say what the statistics say: to a part of 1e-9, lines and entropies to 1e-6.
fn assert_as_in_the_statistics(answers: &BTreeMap<String, Vec<Value>>, trace: &str) {
    let statistics: Value = serde_json::from_slice(&done(&["statistics", trace, "--json"]).stdout).unwrap();
    let rows = |section: &str, list: &str| statistics[section][list].as_array().unwrap().clone();
    let steps = &statistics["steps"];
    let times: Vec<Value> = ["ttft", "tpot"]
        .iter()
        .map(|measure| {
            let mut row = steps[measure].clone();
            row["measure"] = (*measure).into();
            row
        })
        .collect();
    let durations = ["count", "total_ns", "mean_ns", "min_ns", "p50_ns", "p90_ns", "p99_ns", "max_ns"];
    assert_same("times", &answers["times_to_tokens"], &times, &["measure"], &durations);
    let windows: Vec<Value> = rows("steps", "windows").into_iter().filter(|window| window["steps"] != 0).collect();
    assert_same("rates", &answers["rates"], &windows, &["from_ns"], &["steps", "tokens", "tokens_per_s", "step_ns"]);
    let work = rows("work", "types");
    let of_work = ["count", "total_ns", "share", "flops_per_s", "bytes_per_s", "overhead_ns", "ns_per_unit", "r2"];
    assert_near("work", &answers["work"], &work, &["op", "backend", "measure"], &of_work);
    let layers = rows("layers", "layers");
    assert_near("layers", &answers["odd_layers"], &layers, &["phase", "layer"], &["steps", "work_ns", "off", "z"]);
    let balance = ["choices", "experts", "used", "max_over_mean", "entropy", "gini", "for_90"];
    assert_near("balance", &answers["expert_balance"], &rows("experts", "layers"), &["layer"], &balance);
    assert_same("reuse", &answers["expert_reuse"], &rows("experts", "reuse"), &["from_tokens"], &["uses", "share"]);
    let growth = [rows("growth", "step"), rows("growth", "operators")].concat();
    if statistics["growth"]["absent"].is_null() {
        let line = ["steps", "mean_ns", "slope_ns", "intercept_ns", "r2"];
        assert_near("growth", &answers["growth"], &growth, &["name", "op"], &line);
    }
}

#[test]
fn the_shipped_queries_say_what_the_statistics_say() {
    let folder = tempfile::tempdir().unwrap();
    let trace = many_steps(folder.path());
    for format in ["csv", "ndjson"] {
        let tables = folder.path().join(format);
        done(&["export", &trace, "--format", format, "-o", tables.to_str().unwrap()]);
        let answers = answers("duckdb", DUCKDB, format, &tables, queries(|name| !OF_MANY.contains(&name)).path());
        assert_as_in_the_statistics(&answers, &trace);
        // It has all that can be compared: lines, an odd layer, experts that are used again late.
        let odd = &answers["odd_layers"][0];
        assert_eq!(odd["layer"].to_string().trim_matches('"'), "3", "{odd}");
        let is_line = |row: &Value| row["op"] == "ATTENTION" && row["r2"].as_f64().is_some_and(|r2| r2 > 0.99);
        assert!(answers["growth"].iter().any(is_line), "{:?}", answers["growth"]);
        assert!(answers["work"].iter().any(|row| row["measure"].is_string()), "{:?}", answers["work"]);
        assert_counted(&answers["counters"], &trace);
    }
}

/// What was counted of each operator.
fn assert_counted(answers: &[Value], trace: &str) {
    let statistics: Value = serde_json::from_slice(&done(&["statistics", trace, "--json"]).stdout).unwrap();
    let rows = |row: &Value| {
        let counts = row["counts"].as_array().unwrap().clone();
        let named = row.clone();
        counts.into_iter().map(move |mut count| {
            (count["name"], count["op"]) = (named["name"].clone(), named["op"].clone());
            count
        })
    };
    let counts: Vec<Value> = statistics["counters"]["operators"].as_array().unwrap().iter().flat_map(rows).collect();
    assert_same("counters", answers, &counts, &["name", "op", "counter"], &["value"]);
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
        assert_as_in_the_statistics(&answers, &stored());
    }
}

#[test]
#[ignore = "needs Java, and half a gigabyte"]
fn spark_answers_the_shipped_queries_alike() {
    let tables = tempfile::tempdir().unwrap();
    done(&["export", &stored(), "--format", "ndjson", "-o", tables.path().to_str().unwrap()]);
    let answers = answers("spark", SPARK, "ndjson", tables.path(), queries_of_a_run().path());
    assert_as_reported(&answers, &stored());
    let folder = tempfile::tempdir().unwrap();
    let (tables, traces) = fleet(folder.path(), "ndjson");
    let fleet = self::answers("spark", SPARK, "ndjson", &tables, queries(|name| OF_MANY.contains(&name)).path());
    assert_fleet(&fleet, &traces);
    let tables = folder.path().join("many");
    let trace = many_steps(folder.path());
    done(&["export", &trace, "--format", "csv", "-o", tables.to_str().unwrap()]);
    let many = self::answers("spark", SPARK, "csv", &tables, queries(|name| !OF_MANY.contains(&name)).path());
    assert_as_in_the_statistics(&many, &trace);
}

#[cfg(feature = "columnar")]
#[test]
fn parquet_says_the_same() {
    let folder = tempfile::tempdir().unwrap();
    done(&["export", &stored(), "--format", "parquet", "-o", folder.path().to_str().unwrap()]);
    let answers = answers("duckdb", DUCKDB, "parquet", folder.path(), queries_of_a_run().path());
    assert_as_reported(&answers, &stored());
}

/// The stored recording as another process of another machine would have made it, a minute later.
fn from_another_machine(path: &Path) {
    let mut reader = TraceReader::new(File::open(stored()).unwrap()).unwrap();
    let mut origin = reader.meta().origin.clone();
    origin.host.name = "other machine".to_owned();
    origin.pid += 1;
    origin.wall_clock_ns += 60_000_000_000;
    let schema = reader.meta().schema.clone();
    let mut writer = TraceWriter::new(File::create(path).unwrap(), &origin, &schema).unwrap();
    while let Some(item) = reader.next() {
        match item {
            Item::Record(record) => writer.push(record.bytes()).unwrap(),
            Item::Sites { modules, sites } => writer.add_sites(modules, sites).unwrap(),
            Item::Losses(losses) => writer.losses(losses).unwrap(),
            Item::Notice(notice) => writer.notice(notice).unwrap(),
            Item::Samples(samples) => samples.iter().for_each(|sample| writer.sample(sample.clone()).unwrap()),
            Item::End(_) => {}
        }
    }
    let end: End = reader.meta().end.clone().unwrap();
    writer.finish(&end).unwrap();
}

/// A folder of two recordings, partitioned; and the recordings.
fn fleet(folder: &Path, format: &str) -> (PathBuf, [String; 2]) {
    let (tables, other) = (folder.join("fleet"), folder.join("other.pfi"));
    from_another_machine(&other);
    let traces = [stored(), other.to_str().unwrap().to_owned()];
    for trace in &traces {
        let arguments = ["export", trace, "--partitioned", "--table", "runs,steps", "--format", format];
        done(&[&arguments[..], &["-o", tables.to_str().unwrap()]].concat());
    }
    (tables, traces)
}

/// A row a run, with the mean of its report and its place; one build on two machines.
fn assert_fleet(answers: &BTreeMap<String, Vec<Value>>, traces: &[String]) {
    let rows = &answers["fleet"];
    assert_eq!(rows.len(), traces.len(), "{rows:?}");
    let builds = &answers["builds"];
    assert_eq!(builds.len(), traces.len(), "{builds:?}");
    assert!(builds.iter().all(|row| row["build"] == builds[0]["build"] && row["runs"] == 1), "{builds:?}");
    assert!(builds[0]["build"].as_str().is_some_and(|build| !build.is_empty()), "{builds:?}");
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    for trace in traces {
        let info: Value = serde_json::from_slice(&done(&["info", trace, "--json"]).stdout).unwrap();
        let origin = &info["origin"];
        let host = text(&origin["host"]["name"]).replace(' ', "_");
        let run = format!("{}-{}", origin["wall_clock_ns"], origin["pid"]);
        let row = rows.iter().find(|row| text(&row["host"]) == host && text(&row["run"]) == run);
        let row = row.unwrap_or_else(|| panic!("no {host} {run} in {rows:?}"));
        let phases = report(trace, &[])["phases"].clone();
        let decode = phases.as_array().unwrap().iter().find(|p| p["phase"] == "decode").unwrap();
        assert_eq!(row["steps"], decode["whole_steps"]);
        let mean = |row: &Value| row["mean_ns"].as_f64().unwrap();
        assert!((mean(row) - mean(&decode["step"])).abs() < 1e-6, "{row}");
    }
}

#[test]
fn a_fleet_of_traces_is_one_table() {
    let formats = if cfg!(feature = "columnar") { &["csv", "ndjson", "parquet"][..] } else { &["csv", "ndjson"] };
    for format in formats {
        let folder = tempfile::tempdir().unwrap();
        let (tables, traces) = fleet(folder.path(), format);
        let answers = answers("duckdb", DUCKDB, format, &tables, queries(|name| OF_MANY.contains(&name)).path());
        assert_fleet(&answers, &traces);
    }
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
    assert!(String::from_utf8(several.stderr).unwrap().contains("give a folder, or select one table"));
    assert_eq!(profinfer(&["export", &stored(), "-o", "x", "--table", "nonsense"]).status.code(), Some(2));
    assert_eq!(profinfer(&["export", &stored(), "-o", "/dev/null/x"]).status.code(), Some(3));
}
