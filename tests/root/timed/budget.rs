//! Budgets: what recording takes of the toy's time, and which of its steps are recorded for it. The toy's work is
//! calibrated in time.

use crate::record::{PROBESET, Run, alone, stderr, toys};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// What `profinfer report --json` says.
fn report(trace: &Path) -> serde_json::Value {
    let output = Command::new(env!("CARGO_BIN_EXE_profinfer")).args(["report", "--json"]).arg(trace).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// For each step: how its recording is marked, and its operators that were recorded.
fn operators_of_steps(trace: &Path) -> Vec<(String, usize)> {
    let output = Command::new(env!("CARGO_BIN_EXE_profinfer")).arg("dump").arg(trace).output().unwrap();
    let lines: Vec<serde_json::Value> =
        String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let span = |line: &serde_json::Value| {
        let start = line["start_ns"].as_i64().unwrap();
        (start, start + line["duration_ns"].as_i64().unwrap())
    };
    let mut operators: Vec<i64> =
        lines.iter().filter(|line| line["probe"] == "operator").map(|line| span(line).0).collect();
    operators.sort_unstable();
    let steps = lines.iter().filter(|line| line["probe"] == "step");
    steps
        .map(|line| {
            let (start, end) = span(line);
            let within = operators.partition_point(|at| *at < end) - operators.partition_point(|at| *at < start);
            (line["recorded"].as_str().unwrap_or("whole").to_owned(), within)
        })
        .collect()
}

#[test]
#[ignore = "needs root"]
fn a_budget_is_kept_and_whole_steps_are_whole() {
    let _alone = alone();
    for (way, extra) in [("session", vec![]), ("multi", vec![]), ("session", vec!["2"])] {
        let run = Run::new();
        let lanes = extra.first().copied().unwrap_or("1");
        // Steps so long that to record each of them takes far less than half of the budget on any machine.
        let words = ["--budget", "1%", "--attach", way, "--", &toys().linked(), "3000", "20", lanes, "work=75"];
        let output = run.record(&words);
        assert_eq!(output.status.code(), Some(0), "{way}: {}", stderr(&output));
        let trace = run.read();
        trace.assert_whole();
        assert_eq!(trace.count("step"), 3_000, "{way}: steps are always recorded");
        let overhead = trace.meta.end.as_ref().unwrap().overhead.clone().unwrap();
        let added = overhead.base_ns + overhead.detail_ns;
        let spent = added as f64 / (overhead.step_ns - added) as f64;
        assert!(spent > 0.0 && spent <= 0.01, "{way}: {spent}");
        let steps = operators_of_steps(&run.trace());
        let of =
            |kind: &str| steps.iter().filter(|(recorded, _)| recorded == kind).map(|(_, n)| *n).collect::<Vec<_>>();
        let expected = 20 * lanes.parse::<usize>().unwrap();
        assert!(!of("whole").is_empty() && of("whole").iter().all(|n| *n == expected), "{way}: {:?}", of("whole"));
        let bare = of("bare");
        assert!(bare.iter().all(|n| *n == 0), "{way}: {:?}", bare.iter().filter(|n| **n > 0).collect::<Vec<_>>());
        // Steps that others make longer pay for more: how many are bare is the machine's affair, but some are.
        assert!(bare.len() * 10 > of("whole").len(), "{way}: {} whole, {} bare", of("whole").len(), bare.len());
        let report = report(&run.trace());
        assert_eq!(report["sampling"]["whole"], of("whole").len(), "{way}");
        assert_eq!(report["sampling"]["bare"], of("bare").len(), "{way}");
        let row = &report["operator_types"][0];
        assert_eq!((&row["estimate"]["estimate"], &report["completeness"]["complete"]), (&true.into(), &true.into()));
        // All steps do the same.
        let by_steps = row["total_ns"].as_f64().unwrap() * 3_000.0 / of("whole").len() as f64;
        let estimate = row["estimate"]["total_ns"].as_f64().unwrap();
        assert!((0.5..2.0).contains(&(estimate / by_steps)), "{way}: {estimate} and {by_steps}");
    }
}

#[test]
#[ignore = "needs root"]
fn a_budget_is_kept_with_perf_probes_and_with_children() {
    let _alone = alone();
    let toy = toys().linked();
    let single = ["--budget", "1%", "--attach", "single", "--no-inherit", "--", &toy, "4000", "20", "1", "work=75"];
    let forks = ["--budget", "1%", "--", &toy, "2000", "20", "1", "work=75", "fork"];
    for words in [&single[..], &forks[..]] {
        let run = Run::new();
        let output = run.record(words);
        assert_eq!(output.status.code(), Some(0), "{words:?}: {}", stderr(&output));
        let trace = run.read();
        trace.assert_whole();
        assert_eq!(trace.count("step"), 4_000, "{words:?}: steps are always recorded");
        let overhead = trace.meta.end.as_ref().unwrap().overhead.clone().unwrap();
        let spent = (overhead.base_ns + overhead.detail_ns) as f64 / overhead.bare_ns() as f64;
        assert!(spent > 0.0 && spent <= 0.01, "{words:?}: {spent}");
        let steps = operators_of_steps(&run.trace());
        let of = |kind: &str| steps.iter().filter(|step| step.0 == kind).map(|step| step.1).collect::<Vec<_>>();
        assert!(!of("whole").is_empty() && of("whole").iter().all(|n| *n == 20), "{words:?}: {:?}", of("whole"));
        let bare = of("bare");
        assert!(bare.iter().all(|n| *n == 0), "{words:?}: {:?}", bare.iter().filter(|n| **n > 0).collect::<Vec<_>>());
        // As above: how many are bare is the machine's affair.
        assert!(bare.len() * 10 > of("whole").len(), "{words:?}: {} whole, {} bare", of("whole").len(), bare.len());
    }
}

#[test]
#[ignore = "needs root"]
fn a_budget_that_steps_alone_exceed_is_kept_without_them() {
    let _alone = alone();
    // Steps so short that to record each of them takes more than half of the budget on any machine; and so many that the
    // budget of all pays for some windows, which last until their probes are gone: tens of milliseconds on a busy one.
    const STEPS: u64 = 40_000;
    let run = Run::new();
    let output = run.record(&["--budget", "1%", "--", &toys().linked(), &STEPS.to_string(), "4", "1", "work=30"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(!stderr(&output).contains("R005"), "{}", stderr(&output));
    let trace = run.read();
    trace.assert_whole();
    let seen = trace.count("step");
    assert!(seen < STEPS - 1000, "{seen} steps: most go unseen");
    let overhead = trace.meta.end.as_ref().unwrap().overhead.clone().unwrap();
    assert!(overhead.unseen_step_ns.is_some());
    let spent = (overhead.base_ns + overhead.detail_ns) as f64 / overhead.bare_ns() as f64;
    assert!(spent > 0.0 && spent <= 0.01, "{spent}");
    let steps = operators_of_steps(&run.trace());
    let whole: Vec<usize> = steps.iter().filter(|step| step.0 == "whole").map(|step| step.1).collect();
    assert!(!whole.is_empty() && whole.iter().all(|n| *n == 4), "{whole:?}");
    let report = report(&run.trace());
    assert_eq!(report["completeness"]["complete"], true);
    let sampling = &report["sampling"];
    // Where a stretch is over, the step that runs is waited for. A machine may hold one up for longer than that.
    let within = steps.iter().map(|step| step.1 as u64).sum::<u64>();
    let stretches = sampling["windows"].as_u64().unwrap();
    let loose = trace.count("operator") - within;
    assert!(loose <= 4, "{loose} operators of steps that were not seen, in {stretches} stretches");
    assert!(sampling["unseen_ns"].as_u64().unwrap() > 0);
    let first_screen = Command::new(env!("CARGO_BIN_EXE_profinfer")).arg("report").arg(run.trace()).output().unwrap();
    let first_screen = String::from_utf8(first_screen.stdout).unwrap();
    assert!(first_screen.contains("No records between sampling windows ("), "{first_screen}");
    let [unseen, half] = ["unseen_steps", "unseen_steps_half_width"].map(|key| sampling[key].as_f64());
    if let (Some(unseen), Some(half)) = (unseen, half) {
        let off = (seen as f64 + unseen - STEPS as f64).abs();
        assert!(off <= 2.0 * half + 0.3 * STEPS as f64, "{seen} seen, {unseen} ± {half} reckoned, of {STEPS}");
    }
    // What lies between stretches is no step's time: no time per output token goes across it.
    let decode = report["phases"].as_array().unwrap().iter().find(|phase| phase["phase"] == "decode").unwrap();
    let times = report["tpot"]["count"].as_u64().unwrap();
    assert!(times <= decode["steps"].as_u64().unwrap(), "{times}");
    assert!(report["tpot"]["total_ns"].as_u64().unwrap() < sampling["unseen_ns"].as_u64().unwrap());
}

#[test]
#[ignore = "needs root"]
fn a_budget_that_cannot_be_kept_is_reported() {
    let _alone = alone();
    let run = Run::new();
    // Steps that are counted are always recorded, and cost more.
    let words = ["--budget", "0.01%", "--min-rate", "1", "--", &toys().linked(), "3000", "20", "1", "work=1"];
    let output = run.record(&words);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains("R005") && stderr(&output).contains("exceeded the budget"), "{}", stderr(&output));
    assert_eq!(run.read().count("step"), 3000);
}

#[test]
#[ignore = "needs root"]
fn a_budget_is_kept_from_the_first_instant() {
    let _alone = alone();
    // Half a second: a window, whose probes take some 50 ms to come and go, would cost more than 1 % of it.
    let run = Run::new();
    let output = run.record(&["--budget", "1%", "--", &toys().linked(), "300", "20", "1", "work=75"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let trace = run.read();
    assert_eq!((trace.count("step"), trace.count("operator")), (300, 0));
    let overhead = trace.meta.end.as_ref().unwrap().overhead.clone().unwrap();
    let spent = (overhead.base_ns + overhead.detail_ns) as f64 / overhead.bare_ns() as f64;
    assert!(spent > 0.0 && spent <= 0.01, "{spent}");
    // Where they would be looked for, their absence is explained.
    assert!(stderr(&output).contains("R007"), "{}", stderr(&output));
    let report = Command::new(env!("CARGO_BIN_EXE_profinfer")).arg("report").arg(run.trace()).output().unwrap();
    let text = String::from_utf8(report.stdout).unwrap();
    assert!(text.contains("no operators were recorded: a budget of 1 % needs"), "{text}");
}

#[test]
#[ignore = "needs root"]
fn operators_that_end_with_the_next_one_are_whole_too() {
    let _alone = alone();
    let run = Run::new();
    let text = std::fs::read_to_string(PROBESET).unwrap();
    let until = text.replace(
        "toy_operator(toy_params* params, toy_tensor* tensor)",
        "toy_operator(toy_params* params, toy_tensor* tensor) until [operator, graph]",
    );
    assert_ne!(text, until);
    let probeset = run.folder.path().join("until.yaml");
    std::fs::write(&probeset, until).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_profinfer"));
    command.arg("record").arg(&probeset).arg("-o").arg(run.trace()).args(["--budget", "1%", "--"]);
    let output = command.args([&toys().linked(), "12000", "20", "1", "work=25"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    run.read().assert_whole();
    let steps = operators_of_steps(&run.trace());
    let whole: Vec<usize> = steps.iter().filter(|(recorded, _)| recorded == "whole").map(|(_, n)| *n).collect();
    assert!(!whole.is_empty() && whole.iter().all(|n| *n == 20), "{whole:?}");
    // A span that was left open would end with the next stretch, seconds later.
    let report = report(&run.trace());
    assert_eq!(report["completeness"]["notes"], serde_json::json!([]));
}

#[test]
#[ignore = "needs root"]
fn operators_go_while_steps_are_slow_and_come_back() {
    let _alone = alone();
    let run = Run::new();
    // Twenty steps of a quarter of a second or more, then fast ones. How long the kernel takes to detach the probes, a
    // busy machine says: seconds.
    let output = run.record(&["--min-rate", "5", "--", &toys().linked(), "800", "20", "1", "work=250", "slow=20"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    run.read().assert_whole();
    let report = report(&run.trace());
    let changes = report["sampling"]["rate_changes"].as_array().unwrap();
    let on: Vec<bool> = changes.iter().map(|change| change["on"].as_bool().unwrap()).collect();
    // A busy machine may have slow steps later, too.
    assert!(on.len() >= 2, "{changes:?}");
    assert!(on.iter().enumerate().all(|(n, on)| *on == (n % 2 == 1)), "they go and come in turn: {changes:?}");
    let steps = operators_of_steps(&run.trace());
    assert_eq!(steps.len(), 800);
    assert!(steps[16..20].iter().all(|(recorded, n)| (recorded.as_str(), *n) == ("bare", 0)), "{:?}", &steps[..21]);
    let whole = steps.iter().filter(|(recorded, n)| (recorded.as_str(), *n) == ("whole", 20)).count();
    assert!(whole >= 50, "{whole} of 800");
    let began = first_step_ns(&run.trace());
    let went = changes[0]["at_ns"].as_i64().unwrap();
    assert!(went - began < 1_000_000_000, "within a second: {began} {went}");
}

#[test]
#[ignore = "needs root"]
fn a_target_that_is_idle_is_in_no_step_whatever_became_of_the_last_ones() {
    let _alone = alone();
    let run = Run::new();
    let target = run.folder.path().join("left_step");
    let mut compile = Command::new("cc");
    compile.args(["-O2", "-g", "-o"]).arg(&target).args(["left_step.c", "counted.c", "-lpthread"]);
    let sources = Path::new(PROBESET).parent().unwrap();
    assert!(compile.current_dir(sources).status().expect("a C compiler").success());
    let counts = run.folder.path().join("counts");
    let output = run.record(&["--min-rate", "5", "--", target.to_str().unwrap(), counts.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    // A thread ended in a step: its record never came.
    assert_eq!(run.read().count("step"), 110);
    let output = Command::new(env!("CARGO_BIN_EXE_profinfer")).args(["report", "--json"]).arg(run.trace()).output();
    let report: serde_json::Value = serde_json::from_slice(&output.unwrap().stdout).unwrap();
    assert_eq!(report["completeness"]["lost"][0]["kind"], "missing_return", "{}", report["completeness"]);
    assert_eq!(report["sampling"]["rate_changes"], serde_json::json!([]));
}

/// How often the threads of a process have begun to wait.
fn waits_of(pid: u32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let status = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("status")).ok());
    let waits = |status: String| {
        status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?.trim().parse::<u64>().ok()
    };
    status.filter_map(waits).sum()
}

#[test]
#[ignore = "needs root"]
fn a_target_that_has_not_begun_wakes_the_recorder_rarely() {
    let _alone = alone();
    let run = Run::new();
    let words = ["--budget", "1%", "--", &toys().linked(), "wait", "500", "20", "1", "work=500"];
    let mut recorder = run.recorder(&words).stdin(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(7));
    let before = waits_of(recorder.id());
    std::thread::sleep(Duration::from_secs(2));
    let a_second = (waits_of(recorder.id()) - before) / 2;
    // Five signs of life, and some seven looks of two threads.
    assert!(a_second <= 30, "{a_second} wakes a second");
    recorder.stdin.take().unwrap().write_all(b"\n").unwrap();
    let output = recorder.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(run.read().count("step"), 500);
    // The first window is due after some 1.8 s in steps.
    let output =
        Command::new(env!("CARGO_BIN_EXE_profinfer")).args(["dump", "--probe", "step"]).arg(run.trace()).output();
    let steps = crate::invocation::lines(&output.unwrap().stdout);
    let whole = steps.iter().find(|step| step["recorded"] == "whole").map(|step| step["start_ns"].as_i64().unwrap());
    let waited = whole.map(|whole| whole - first_step_ns(&run.trace()));
    assert!(waited.is_some_and(|waited| waited < 2_500_000_000), "{waited:?}");
}

/// When the first step began, from the recording's start.
fn first_step_ns(trace: &Path) -> i64 {
    let command = ["dump", "--probe", "step", "--limit", "1"];
    let output = Command::new(env!("CARGO_BIN_EXE_profinfer")).args(command).arg(trace).output().unwrap();
    serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()["start_ns"].as_i64().unwrap()
}

/// A window begins within an operator: what that one calls are no operators.
#[test]
#[ignore = "needs root"]
fn calls_within_an_operator_that_began_before_a_window_are_not_recorded() {
    let _alone = alone();
    const TARGETS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/targets");
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("nested_operator");
    let mut compiler = Command::new("gcc");
    compiler.args(["-O1", "-g", "-o"]).arg(&program).arg(format!("{TARGETS}/nested_operator.c"));
    assert!(compiler.status().unwrap().success());
    let trace = folder.path().join("run.pfi");
    let mut record = Command::new(env!("CARGO_BIN_EXE_profinfer"));
    record.args(["record", &format!("{TARGETS}/nested_operator.yaml"), "--budget", "1%", "-o"]).arg(&trace);
    // Steps of 20 ms.
    let output = record.arg("--").arg(&program).arg("150").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let output = Command::new(env!("CARGO_BIN_EXE_profinfer")).arg("dump").arg(&trace).output().unwrap();
    let events = crate::invocation::lines(&output.stdout);
    let levels: Vec<&serde_json::Value> =
        events.iter().filter(|event| event["probe"] == "compute").map(|event| &event["fields"]["level"]).collect();
    assert!(levels.len() >= 2 && levels.iter().all(|level| **level == 0), "{levels:?}");
}
