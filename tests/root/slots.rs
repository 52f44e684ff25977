//! Methods of which the probeset gives several slots: the one that computes is found by counting its calls and their time, is
//! the program's own by its count, and is absent with the reason where two are alike.

use crate::invocation::{lines, succeeds};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

const LAYERS: usize = 12;

pub(crate) struct Engine(TempDir);

impl Engine {
    pub(crate) fn new(flags: &[&str]) -> Self {
        let engine = Self(tempfile::tempdir().unwrap());
        let targets = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/targets");
        let mut compile = Command::new("c++");
        compile.args(["-O2", "-s", "-rdynamic", "-Wl,--build-id=sha1", "-o"]).arg(engine.path("slots")).args(flags);
        succeeds(compile.arg(targets.join("slots.cpp")));
        std::fs::copy(targets.join("slots.yaml"), engine.path("slots.yaml")).unwrap();
        engine
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn profinfer(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_profinfer"));
        command.args(arguments).current_dir(self.0.path()).env("PROFINFER_CACHE", self.path("cache"));
        command
    }

    /// The output, the layers' calls, and what `info` tells.
    pub(crate) fn record(&self, options: &[&str], steps: &str) -> (Output, Vec<Value>, String) {
        let mut record = self.profinfer(&["record", "slots.yaml", "-o", "run.pfi", "--force"]);
        let output = record.args(options).args(["--", "./slots", steps]).output().unwrap();
        assert!(matches!(output.status.code(), Some(0 | 4)), "{}", String::from_utf8_lossy(&output.stderr));
        let events = lines(&succeeds(&mut self.profinfer(&["dump", "run.pfi"])).stdout);
        let calls = events.into_iter().filter(|event| event["probe"] == "layer").collect();
        let info = String::from_utf8(succeeds(&mut self.profinfer(&["info", "run.pfi"])).stdout).unwrap();
        (output, calls, info)
    }
}

/// The calls are those that computed, by their results, and no others.
pub(crate) fn assert_computed(calls: &[Value], output: &Output, steps: usize) {
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), (steps * LAYERS).to_string());
    assert_eq!(calls.len(), steps * LAYERS);
    for call in calls {
        let (op, fields) = (call["fields"]["op"].as_str().unwrap(), &call["fields"]);
        let kind: i64 = op.trim_start_matches("Kind<").trim_end_matches('>').parse().unwrap();
        assert_eq!(fields["result"].as_i64().unwrap(), fields["number"].as_i64().unwrap() + kind, "{call}");
    }
}

#[test]
#[ignore = "needs root"]
fn the_slot_that_computes_is_found_while_it_is_recorded_and_known_the_next_time() {
    for (order, slot) in [("-DORDER=0", 2), ("-DORDER=1", 3), ("-DORDER=2", 4)] {
        let engine = Engine::new(&[order]);
        let (output, calls, info) = engine.record(&[], "200");
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        assert_computed(&calls, &output, 200);
        let found = format!("slot of Layer[2|3|4] {slot}");
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words(&info).contains(&format!("steps {found}")) && info.contains("learned from"), "{info}");
        let report = succeeds(&mut engine.profinfer(&["report", "run.pfi", "--json"]));
        let report: Value = serde_json::from_slice(&report.stdout).unwrap();
        assert_eq!(report["completeness"]["complete"], true, "{}", report["completeness"]);
        // Of one step nothing could be told; it is known by now.
        let (output, calls, info) = engine.record(&[], "1");
        assert_computed(&calls, &output, 1);
        assert!(words(&info).contains(&format!("lock {found}")), "{info}");
    }
}

/// Their records wait with the others', though the kernel reports threads and their ends itself.
#[test]
#[ignore = "needs root"]
fn threads_that_end_before_the_slot_is_found_are_complete() {
    let engine = Engine::new(&["-DORDER=0", "-DTHREADS"]);
    let (output, calls, _) = engine.record(&[], "20");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert_computed(&calls, &output, 20);
    let report = succeeds(&mut engine.profinfer(&["report", "run.pfi", "--json"]));
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    assert_eq!(report["completeness"]["complete"], true, "{}", report["completeness"]);
}

/// A call of a slot that is not probed any more is no loss, in a probeset of many records either.
#[test]
#[ignore = "needs root"]
fn a_call_that_is_open_when_its_slot_is_left_out_is_no_loss() {
    for others in [0, 70] {
        let engine = Engine::new(&["-DORDER=0", "-DBLOCKED"]);
        let probeset = std::fs::read_to_string(engine.path("slots.yaml")).unwrap();
        let other =
            |number| format!("  other{number}: {{ at: \"program:no_such_{number}()\", role: mark, optional: true }}\n");
        let others: String = (0..others).map(other).collect();
        let probeset = probeset.replace("  layer:\n", &format!("{others}  layer:\n"));
        std::fs::write(engine.path("slots.yaml"), probeset).unwrap();
        let (output, calls, info) = engine.record(&[], "200");
        assert_eq!(output.status.code(), Some(0), "{}\n{info}", String::from_utf8_lossy(&output.stderr));
        assert_computed(&calls, &output, 201);
    }
}

#[test]
#[ignore = "needs root"]
fn learn_prints_the_slot_and_writes_it_into_the_lock_file() {
    let engine = Engine::new(&["-DORDER=2"]);
    let learn = ["learn", "slots.yaml", "-o", "slots.lock", "--", "./slots", "100000"];
    let table = String::from_utf8(succeeds(&mut engine.profinfer(&learn)).stdout).unwrap();
    let row = table.lines().find(|line| line.starts_with("Layer[2|3|4]")).unwrap_or_else(|| panic!("{table}"));
    assert_eq!(row.split_whitespace().nth(1), Some("4"), "{table}");
    assert!(row.contains("% of their time"), "{table}");
    let lock = std::fs::read_to_string(engine.path("slots.lock")).unwrap();
    assert!(lock.contains("\"Layer[2|3|4]\": 4"), "{lock}");
    let check = ["check", "slots.yaml", "--target", "slots", "--lock", "slots.lock"];
    let check = String::from_utf8(succeeds(&mut engine.profinfer(&check)).stdout).unwrap();
    assert_eq!(check.lines().filter(|line| line.starts_with("layer") && line.contains("Kind<")).count(), 3, "{check}");
    let (output, calls, _) = engine.record(&["--lock", "slots.lock"], "2");
    assert_computed(&calls, &output, 2);
}

#[test]
#[ignore = "needs root"]
fn slots_that_are_called_alike_are_absent_with_the_reason() {
    let engine = Engine::new(&["-DORDER=0", "-DALIKE"]);
    let (output, calls, info) = engine.record(&[], "50");
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(calls.len(), 0, "{told}");
    assert!(told.contains("T023") && told.contains("`layer` has no records"), "{told}");
    assert!(info.contains("which slot of `Layer[2|3|4]` computes was not found"), "{info}");
}
