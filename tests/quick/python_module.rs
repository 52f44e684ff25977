//! The Python module, with other programs in profinfer's place.

use std::path::Path;
use std::process::Command;

#[test]
fn the_python_module_reports_errors_and_ends_what_it_started() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut python = Command::new("python3");
    python.arg(root.join("tests/python/without_root.py"));
    python.env("PYTHONPATH", root.join("python")).env("PYTHONDONTWRITEBYTECODE", "1");
    let output = python.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
