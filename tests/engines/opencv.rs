//! OpenCV's DNN module, stripped, which no shipped probeset describes: a draft by a trial records its layers, and the
//! report finds the runs. Compared with the module's own list of layers and times. Needs root (or CAP_BPF and
//! CAP_PERFMON), and PyPI the first time.

use crate::invocation::{json, lines, profinfer, succeeds};
use crate::packages::{installed, packaged, scripts};
use serde_json::Value;

const RUNS: usize = 12;

#[test]
#[ignore = "needs root"]
fn a_draft_finds_the_layers_of_opencv_and_their_runs() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let python = installed("install_opencv.sh");
    let library = packaged(&python, "cv2", "cv2.", ".so");
    let run = |mut command: std::process::Command| {
        command.arg(&python).arg(scripts().join("run_opencv.py")).arg(folder.path()).arg(RUNS.to_string());
        succeeds(&mut command)
    };
    // Its layers, and the loops that they run, which take as long.
    let mut scaffold = profinfer(&["scaffold", library.to_str().unwrap(), "*dnn*", "*LoopBody"]);
    scaffold.args(["--trial", "--duration", "5m", "-o", &path("draft.yaml"), "--"]);
    run(scaffold);
    let draft = std::fs::read_to_string(path("draft.yaml")).unwrap();
    let operators: Vec<&str> = draft.split("\n  ").filter(|line| line.contains("role: operator")).collect();
    assert_eq!((operators.len(), draft.contains("role: step")), (1, false), "{draft}");
    assert!(draft.contains("No function contains the operators"), "{draft}");

    let trace = path("run.pfi");
    run(profinfer(&["record", &path("draft.yaml"), "-o", &trace, "--"]));
    let profile: Value = serde_json::from_str(&std::fs::read_to_string(path("profile.json")).unwrap()).unwrap();
    // What was fused with another layer has no time of its own.
    let times = profile["layer_ms"].as_array().unwrap();
    let computed = times.iter().filter(|time| time.as_f64().unwrap() > 0.0).count();
    assert!(computed >= 12, "{profile}");
    let report = json(&["report", &trace, "--json"]);
    assert_eq!(report["completeness"]["complete"], true, "{}", report["completeness"]);
    let notes = report["completeness"]["notes"].to_string();
    assert!(notes.contains(&format!("{RUNS} steps found by operators that recur")), "{notes}");
    let exported = lines(&succeeds(profinfer(&["dump"]).arg(&trace)).stdout);
    let layers: Vec<&Value> = exported.iter().filter(|event| event["fields"]["node"].is_string()).collect();
    assert_eq!(layers.len(), RUNS * computed, "{draft}");
    let count: u64 = report["operators"].as_array().unwrap().iter().map(|row| row["count"].as_u64().unwrap()).sum();
    assert_eq!(count as usize, RUNS * computed, "all layers are in steps: {report}");
}
