//! The Python module: a program records itself, and reads the trace as Arrow tables.

use crate::packages::python_with;
use crate::record::{PROBESET, Run, toys};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

const PYARROW: &[&str] = &["pyarrow", "pyarrow==26.0.1"];

fn in_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

#[test]
#[ignore = "needs root, and pyarrow from PyPI"]
fn a_program_records_itself_and_reads_its_trace() {
    let run = Run::new();
    let mut python = Command::new(python_with(PYARROW));
    python.arg(in_repository("tests/python/records_itself.py")).arg(toys().library()).arg(PROBESET).arg(run.trace());
    python.env("PYTHONPATH", in_repository("python")).env("PYTHONDONTWRITEBYTECODE", "1");
    let program = Path::new(env!("CARGO_BIN_EXE_profinfer")).parent().unwrap().to_owned();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::iter::once(program).chain(std::env::split_paths(&path)).collect();
    let output = python.env("PATH", std::env::join_paths(folders).unwrap()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    // What the program did between the start and the end of the block, and nothing else.
    assert_eq!(found["steps"], serde_json::json!([3, 3, 3, 3, 3, 3, 3]), "{found:#}");
    assert_eq!((&found["operators"], &found["batches"]), (&28.into(), &28.into()));
    assert_eq!((&found["reported"], &found["engine"]), (&7.into(), &"toy".into()));
    assert_eq!(found["ops"], serde_json::json!(["ADD", "MATMUL", "NORM"]));
    let refused = found["refused"].as_array().unwrap();
    assert!(refused[0].as_str().unwrap().contains("--table"), "{refused:?}");
    assert!(refused[1].as_str().unwrap().contains("missing.pfi"), "{refused:?}");
    // The same sum as in the table for other tools.
    let csv = Command::new(env!("CARGO_BIN_EXE_profinfer"))
        .args(["export", "--table", "operators", "-o", "-"])
        .arg(run.trace())
        .output()
        .unwrap();
    let text = String::from_utf8(csv.stdout).unwrap();
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let column = lines.next().unwrap().iter().position(|name| *name == "work_ns").unwrap();
    let sum: u64 = lines.map(|line| line[column].parse::<u64>().unwrap()).sum();
    assert_eq!(found["work_ns"], sum);
}
