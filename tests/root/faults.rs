//! Waiting for the disk: a program whose weights are a mapped file is recorded, and what the report says is what the
//! program and the kernel say of themselves. These need root (or CAP_BPF and CAP_PERFMON), a C compiler and clang, and
//! a file system that gives pages back when it is told to.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The program, compiled once.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("faults");
        std::fs::create_dir_all(&folder).unwrap();
        let program = folder.join("faulting");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/targets/faulting.c");
        let mut command = Command::new("cc");
        command.args(["-O2", "-g", "-o"]).arg(&program).arg(source).arg("-lpthread");
        assert!(command.status().expect("a C compiler").success());
        program
    })
}

/// What a run printed, and its report.
#[derive(Default)]
struct Run {
    /// Major faults of the process during its steps, by `getrusage`, which is what `/proc/PID/stat` says.
    faults: u64,
    /// CPU time of each layer's operators, by their threads' clocks, ns.
    cpu: Vec<f64>,
    /// By tensor and expert.
    by_part: BTreeMap<(String, u64), u64>,
    report: Value,
    text: String,
    /// Its samples, if there are any, as folded stacks.
    folded: String,
}

fn profinfer(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_profinfer")).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn run(arguments: &[&str], options: &[&str]) -> Run {
    // Not in memory: what is there only cannot be put out of it.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (trace, model) = (path("run.pfi"), path("model"));
    let probeset = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/targets/faulting.yaml");
    let mut command = vec!["record", probeset, "-o", &trace];
    command.extend(options);
    let program = program().display().to_string();
    command.extend(["--", &program, &model]);
    command.extend(arguments);
    let reported = profinfer(&command);
    let mut run = Run::default();
    for line in reported.lines() {
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            ["all", faults] => run.faults = faults.parse().unwrap(),
            ["cpu", _, ns] => run.cpu.push(ns.parse().unwrap()),
            [name, expert, faults] => {
                run.by_part.insert((name.to_owned(), expert.parse().unwrap()), faults.parse().unwrap());
            }
            _ => {}
        }
    }
    run.report = serde_json::from_str(&profinfer(&["report", "--json", &trace])).unwrap();
    run.text = profinfer(&["report", "--all", &trace]);
    if options.contains(&"--sample") {
        let folded = path("run.folded");
        profinfer(&["export", &trace, "--format", "folded", "-o", &folded]);
        run.folded = std::fs::read_to_string(folded).unwrap();
    }
    run
}

impl Run {
    fn rows(&self, table: &str) -> &Vec<Value> {
        self.report["faults"][table].as_array().unwrap()
    }

    fn sum(&self, table: &str, key: &str) -> u64 {
        self.rows(table).iter().map(|row| row[key].as_u64().unwrap_or(0)).sum()
    }

    /// Faults by tensor and expert, as the report has them.
    fn reported(&self) -> BTreeMap<(String, u64), u64> {
        let of = |row: &Value| {
            let key = (row["name"].as_str()?.to_owned(), row["expert"].as_u64()?);
            row["faults"].as_u64().filter(|faults| *faults > 0).map(|faults| (key, faults))
        };
        self.rows("tensors").iter().filter_map(of).collect()
    }
}

#[test]
#[ignore = "needs root"]
fn every_fault_is_its_tensors_and_its_experts() {
    let run = run(&["5", "2", "cold"], &[]);
    assert_eq!(run.faults, 5 * 3 * 16, "each step reads an expert of each layer, 16 pages: {}", run.text);
    for table in ["phases", "tensors", "layers", "operators", "steps"] {
        assert_eq!(run.sum(table, "faults"), run.faults, "{table}");
    }
    assert_eq!(run.reported(), run.by_part);
    let layers: Vec<&str> = run.rows("layers").iter().filter_map(|row| row["layer"].as_str()).collect();
    assert_eq!(layers, ["0", "1", "2"]);
    let operators: Vec<&str> = run.rows("operators").iter().filter_map(|row| row["name"].as_str()).collect();
    assert_eq!(operators, ["out-*"]);
}

#[test]
#[ignore = "needs root"]
fn what_was_read_is_the_layers_whose_memory_it_is() {
    let run = run(&["5", "1", "cold"], &[]);
    // A page is read for each fault. The weights do not begin with a page: of each expert's first page a quarter is
    // the last of the expert before it, or the file's header.
    let decode = run.rows("phases").iter().find(|row| row["phase"] == "decode").unwrap();
    assert_eq!(decode["bytes"], run.faults * 4096);
    assert_eq!(run.sum("layers", "bytes"), run.faults * 4096);
    for row in run.rows("tensors").iter().filter(|row| row["faults"].as_u64() > Some(0)) {
        let (faults, bytes) = (row["faults"].as_u64().unwrap(), row["bytes"].as_u64().unwrap());
        let least = faults * 4096 - faults / 16 * 1024;
        // And the next expert's first page has its last quarter.
        let most = least + 5 * 1024;
        assert!((least..=most).contains(&bytes), "{row}");
    }
}

#[test]
#[ignore = "needs root"]
fn a_step_says_which_expert_of_which_layer_it_waited_for() {
    let run = run(&["4", "2", "cold"], &[]);
    let steps = run.rows("steps");
    assert_eq!(steps.len(), 4);
    let waited: Vec<u64> = steps.iter().map(|step| step["waited_ns"].as_u64().unwrap()).collect();
    assert!(waited.iter().all(|waited| *waited > 0) && waited.is_sorted_by(|a, b| a >= b), "{waited:?}");
    for step in steps {
        let (number, lanes) = (step["step"].as_u64().unwrap(), step["lanes"].as_u64().unwrap());
        assert!(step["waited_ns"].as_u64() < step["duration_ns"].as_u64().map(|ns| ns * lanes), "{step}");
        assert_eq!(step["untimed_faults"], 0);
        // Step n, from 1, reads expert (n - 1 + layer) of 4.
        for layer in 0..3 {
            let (expert, name) = ((number - 1 + layer) % 4, format!("blk.{layer}.exps.weight"));
            let part = step["parts"]
                .as_array()
                .unwrap()
                .iter()
                .find(|part| part["name"] == name.as_str() && part["expert"] == expert && part["faults"] == 16);
            assert!(part.is_some(), "{step}");
            assert!(step["sentence"].as_str().unwrap().contains(&format!("expert {expert} of layer {layer} ({name})")));
        }
    }
    assert!(run.text.contains("for the disk (sum of 2 lanes): "), "{}", run.text);
}

#[test]
#[ignore = "needs root"]
fn a_warm_run_waits_for_nothing() {
    let run = run(&["5", "2", "warm"], &[]);
    assert_eq!(run.faults, 0);
    assert!(run.rows("phases").iter().all(|row| row["phase"] == "outside"), "the file was written before the steps");
    assert_eq!((run.sum("phases", "faults"), run.rows("steps").len()), (0, 0));
    assert!(!run.text.contains("Waiting for the disk"), "{}", run.text);
}

/// Samples of the kernel at work on faults, by the frames that they were in besides.
fn samples_of_faults(folded: &str) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    for line in folded.lines().filter(|line| line.contains("handle_mm_fault")) {
        let (frames, count) = line.rsplit_once(' ').unwrap();
        let place = frames.split(';').take(3).collect::<Vec<_>>().join(";");
        *all.entry(place).or_default() += count.parse::<u64>().unwrap();
    }
    all
}

/// Timer samples have nothing from the fault records. A layer's part of them is its part of the CPU time, by the thread's
/// clock. In one thread: the timer of one that each step makes anew begins with it, so that its samples are at one place.
#[test]
#[ignore = "needs root"]
fn samples_of_the_kernel_at_work_on_faults_are_in_the_operators_that_have_them() {
    let options = ["--sample", "3989", "--stacks", "fp"];
    let cold = run(&["200", "1", "cold"], &options);
    assert_eq!(cold.faults, 200 * 3 * 16, "{}", cold.text);
    let samples = samples_of_faults(&cold.folded);
    let all: u64 = samples.values().sum();
    assert!(all > 200, "{samples:?}");
    assert_eq!(cold.cpu.len(), 3);
    for (layer, cpu) in cold.cpu.iter().enumerate() {
        let key = format!("decode;layer {layer};MUL_MAT_ID");
        let of_layer = samples.get(&key).copied().unwrap_or(0) as f64;
        let part = cpu / cold.cpu.iter().sum::<f64>();
        assert!((of_layer / all as f64 - part).abs() < 0.1, "{key}: {samples:?}, {:?}", cold.cpu);
    }
    let warm = run(&["200", "2", "warm"], &options);
    assert_eq!(warm.faults, 0, "{}", warm.text);
    let samples = samples_of_faults(&warm.folded);
    assert!(samples.keys().all(|place| !place.starts_with("decode;layer")), "{samples:?}");
}

#[test]
#[ignore = "needs root"]
fn without_the_schedulers_switches_no_time_is_made_up() {
    let run = run(&["3", "1", "cold"], &["--no-probe", "switch"]);
    assert_eq!(run.sum("phases", "faults"), run.faults);
    assert_eq!(run.sum("phases", "untimed_faults"), run.faults);
    assert!(run.rows("steps").iter().chain(run.rows("tensors")).all(|row| row["waited_ns"].is_null()));
    assert!(run.text.contains("waited 48 times for the disk"), "{}", run.text);
}
