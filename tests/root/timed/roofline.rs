//! `profinfer roofline` as a user runs it, and against programs that measure the same in other ways. No privilege is
//! needed; the comparisons are with the tests that take their time.

use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A cache that nothing is in.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_profinfer"));
        command.arg("roofline").env("PROFINFER_CACHE", self.0.path()).env("NO_COLOR", "1");
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let output = self.command().args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_slice(&self.run(&[&["--json"], arguments].concat()).stdout).unwrap()
    }
}

/// The best of a quantity, with so many processors.
fn best(measured: &Value, quantity: &str, level: Option<&str>, cpus: u64) -> f64 {
    let figures = measured["roofline"]["figures"].as_array().unwrap();
    let found = figures
        .iter()
        .find(|figure| figure["quantity"] == quantity && figure["level"].as_str() == level && figure["cpus"] == cpus);
    found.unwrap_or_else(|| panic!("no {quantity} in {measured:#}"))["best"].as_f64().unwrap()
}

#[test]
fn what_was_measured_is_kept_and_shown_again() {
    let place = Place::new();
    let first = place.json(&["--quick"]);
    assert_eq!((&first["format"], &first["version"]), (&"profinfer-roofline".into(), &1.into()));
    assert_eq!(first["roofline"]["quick"], true);
    let file = PathBuf::from(first["file"].as_str().unwrap());
    assert!(file.starts_with(place.0.path()) && file.exists());
    // The same figures, from the file: nothing is measured.
    assert_eq!(place.json(&["--quick"]), first);
    for quantity in ["read", "write", "write_streaming", "copy", "copy_streaming"] {
        assert!(best(&first, quantity, Some("memory"), 1) > 1e8, "{first:#}");
    }
    let text = String::from_utf8(place.run(&["--quick"]).stdout).unwrap();
    assert!(text.contains("Bandwidth (bytes per second)") && text.contains("write, streaming"), "{text}");
    assert!(text.contains("Peaks (operations per second)") && text.contains("fp32"), "{text}");
    assert!(!text.contains('\u{1b}'));
    // A damaged file is no measurement.
    std::fs::write(&file, "{").unwrap();
    let again = place.json(&["--quick"]);
    assert_ne!(again["roofline"], first["roofline"]);
    assert!(again["file"].as_str().is_some());
}

#[test]
fn figures_that_cannot_be_kept_are_shown() {
    let place = Place::new();
    let occupied = place.0.path().join("file");
    std::fs::write(&occupied, "").unwrap();
    let output = place.command().args(["--quick", "--json"]).env("PROFINFER_CACHE", &occupied).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let measured: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(measured["file"].is_null() && best(&measured, "fp32", None, 1) > 1e8);
    let reported = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(reported.contains("R003") && reported.contains("PROFINFER_CACHE"), "{reported}");
}

#[test]
fn a_process_that_is_bound_to_a_cpu_measures_that_one() {
    let place = Place::new();
    let mut command = Command::new("taskset");
    let allowed = std::fs::read_to_string("/proc/self/status").unwrap();
    let list = allowed.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim().to_owned();
    let first = list.split([',', '-']).next().unwrap();
    command.args(["-c", first, env!("CARGO_BIN_EXE_profinfer"), "roofline", "--quick", "--json"]);
    let output = command.env("PROFINFER_CACHE", place.0.path()).output().unwrap();
    let measured: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(measured["roofline"]["cpus"], 1);
    let figures = measured["roofline"]["figures"].as_array().unwrap();
    assert!(figures.iter().all(|figure| figure["cpus"] == 1));
    if measured["host"]["cpus"].as_u64().unwrap() > 1 {
        assert!(measured["roofline"]["notes"][0].as_str().unwrap().contains("may not use the others"));
    }
}

#[test]
#[ignore = "needs root"]
fn an_unprivileged_user_measures() {
    let place = Place::new();
    // The program itself may be where only root can go.
    let program = place.0.path().join("profinfer");
    std::fs::copy(env!("CARGO_BIN_EXE_profinfer"), &program).unwrap();
    let cache = place.0.path().join("cache");
    std::fs::create_dir(&cache).unwrap();
    for path in [place.0.path(), &program] {
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    }
    std::os::unix::fs::chown(&cache, Some(65534), Some(65534)).unwrap();
    let mut command = Command::new(&program);
    command.args(["roofline", "--quick", "--json"]).env("PROFINFER_CACHE", &cache).uid(65534).gid(65534);
    let output = command.current_dir("/").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let measured: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(Path::new(measured["file"].as_str().unwrap()).starts_with(&cache));
}

/// Others on this machine disturb either; both have the best of several rounds that take turns.
#[test]
#[ignore = "needs root"]
fn a_compiler_s_loops_come_to_the_same_bandwidth() {
    let place = Place::new();
    let program = place.0.path().join("stream");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/stream.c");
    let mut compiler = Command::new("cc");
    // A copy must stay a loop: a call of memcpy may store past the caches.
    compiler.args(["-O3", "-march=native", "-fno-tree-loop-distribute-patterns", "-o"]).arg(&program).arg(source);
    assert!(compiler.status().expect("a C compiler").success());
    let mut ours = [0f64; 3];
    let mut theirs = [0f64; 3];
    let agree = |ours: &[f64; 3], theirs: &[f64; 3]| {
        ours.iter().zip(theirs).all(|(ours, theirs)| (0.75..=1.0 / 0.75).contains(&(ours / theirs)))
    };
    for _ in 0..8 {
        let measured = place.json(&["--quick", "--remeasure"]);
        let figures = measured["roofline"]["figures"].as_array().unwrap();
        let memory = figures.iter().find(|figure| figure["level"] == "memory" && figure["cpus"] == 1).unwrap();
        // A copy goes from one half to the other.
        let bytes = memory["working_set"].as_u64().unwrap() / 2;
        for (so_far, quantity) in ours.iter_mut().zip(["read", "write", "copy"]) {
            *so_far = so_far.max(best(&measured, quantity, Some("memory"), 1));
        }
        let output = Command::new(&program).args([bytes.to_string().as_str(), "8"]).output().unwrap();
        let rates = String::from_utf8(output.stdout).unwrap();
        for (so_far, rate) in theirs.iter_mut().zip(rates.split_whitespace()) {
            *so_far = so_far.max(rate.parse().unwrap());
        }
        eprintln!("GB/s of read, write, copy: {:.2?}, compiled {:.2?}", ours.map(|r| r / 1e9), theirs.map(|r| r / 1e9));
        if agree(&ours, &theirs) {
            return;
        }
    }
    panic!("read, write, copy: {ours:?}, a compiler's loops: {theirs:?}");
}

#[test]
#[ignore = "needs root"]
fn a_matrix_product_stays_below_the_peak_and_comes_near_it() {
    let place = Place::new();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/engines/install_wheel.sh");
    let python = Command::new(script).output().unwrap();
    assert!(python.status.success(), "{}", String::from_utf8_lossy(&python.stderr));
    let python = String::from_utf8(python.stdout).unwrap();
    let program = "import time, numpy as np\n\
        a = np.ones((1024, 1024), np.float32)\n\
        best = 1e9\n\
        for _ in range(12):\n    s = time.perf_counter(); a @ a; best = min(best, time.perf_counter() - s)\n\
        print(2 * 1024**3 / best)";
    let (mut peak, mut reached) = (0f64, 0f64);
    for _ in 0..8 {
        let measured = place.json(&["--quick", "--remeasure"]);
        peak = peak.max(best(&measured, "fp32", None, 1));
        let mut command = Command::new(python.trim());
        let output = command.args(["-c", program]).env("OPENBLAS_NUM_THREADS", "1").output().unwrap();
        reached = reached.max(String::from_utf8(output.stdout).unwrap().trim().parse().unwrap());
        eprintln!("GFLOP/s: peak {:.1}, sgemm {:.1}", peak / 1e9, reached / 1e9);
        if reached > peak / 3.0 && reached < peak {
            return;
        }
    }
    panic!("peak {peak:e}, sgemm {reached:e}");
}
