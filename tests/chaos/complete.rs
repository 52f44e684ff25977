//! What a trace says of its own completeness: in namespaces, with children, and where nothing was seen.

use super::toy::{PROBESET, Run, children, name, report, stderr, wait_until};
use nix::unistd::Pid;
use profinfer_trace::{Item, TraceReader};

use profinfer_schema::LeftOutKind;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

/// The words of a command, for a run.
type Words<'a> = &'a dyn Fn(&Run) -> Vec<String>;

/// Kinds of namespace, as `unshare` makes them.
const KINDS: [(&str, &[&str]); 8] = [
    ("pid", &["--pid", "--fork", "--mount-proc"]),
    ("mnt", &["--mount"]),
    ("user", &["--user", "--map-root-user"]),
    ("time", &["--time", "--fork", "--monotonic", "100000", "--boottime", "100000"]),
    ("cgroup", &["--cgroup"]),
    ("net", &["--net"]),
    ("ipc", &["--ipc"]),
    ("uts", &["--uts"]),
];

/// So many of them are tried in every way.
const THOROUGHLY: usize = 5;

fn wall_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// The toy in a wrapper.
fn wrapped(wrapper: &[&str], toy: &[String]) -> Vec<String> {
    [&words(wrapper)[..], toy].concat()
}

/// Start and end of the steps by UNIX time, as the trace's two clocks say.
fn steps_by_wall_clock(trace: &Path) -> Option<(u64, u64)> {
    let mut reader = TraceReader::new(File::open(trace).unwrap()).expect("a trace");
    let (mut first, mut last) = (u64::MAX, 0);
    while let Some(item) = reader.next() {
        if let Item::Record(record) = item
            && record.kind().name == "step"
        {
            first = first.min(record.header().start);
            last = last.max(record.header().start + record.header().duration);
        }
    }
    let origin = reader.into_meta().origin;
    let wall =
        |time: u64| (i128::from(origin.wall_clock_ns) + i128::from(time) - i128::from(origin.monotonic_ns)) as u64;
    (last > 0).then(|| (wall(first), wall(last)))
}

/// Everything that the toy says it did is in the trace, which is complete, and it all happened between these times.
fn assert_whole(run: &Run, output: &Output, what: &str, (from, to): (u64, u64)) {
    const SLACK: u64 = 1_000_000_000;
    assert_eq!(output.status.code(), Some(0), "{what}: {}", stderr(output));
    let (counts, trace) = (run.counts("counts"), run.read());
    assert!(counts.steps > 0 && counts.wrong == 0, "{what}: {counts:?}");
    assert_eq!((trace.count("step"), trace.count("operator")), (counts.steps, counts.operators), "{what}");
    let (complete, text) = report(&run.trace());
    assert!(complete, "{what}: {text}");
    let (first, last) = steps_by_wall_clock(&run.trace()).expect("steps");
    assert!(from <= first + SLACK && last <= to + SLACK && first <= last, "{what}: {from} {first} {last} {to}");
}

fn record(run: &Run, options: &[&str], words: &[String]) -> Output {
    run.recorder(options, words).output().unwrap()
}

/// The process that runs the toy, among a process's descendants.
fn toy_of(pid: Pid) -> Option<Pid> {
    if name(pid)? == "chaos" { Some(pid) } else { children(pid).into_iter().find_map(toy_of) }
}

/// A recorder of a process that waits for a line, and that process's start when it is attached.
fn attach(run: &Run, pid: u32, options: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_profinfer"));
    command.args(["record", PROBESET, "-o"]).arg(run.trace()).args(options).args(["-p", &pid.to_string()]);
    let recorder = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("attached", || {
        let fds = std::fs::read_dir(format!("/proc/{}/fdinfo", recorder.id())).into_iter().flatten().flatten();
        let texts = fds.filter_map(|fd| std::fs::read_to_string(fd.path()).ok());
        texts.filter(|text| text.contains("uprobe_multi")).count() > 0
    });
    std::thread::sleep(std::time::Duration::from_millis(100));
    recorder
}

#[test]
#[ignore = "needs root"]
fn every_kind_of_namespace_keeps_counts_and_clock() {
    for (number, (kind, options)) in KINDS.into_iter().enumerate() {
        let unshare = [&["unshare"], options].concat();
        // The recorder outside, the target inside.
        let (run, from) = (Run::new(), wall_ns());
        let output = record(&run, &[], &wrapped(&unshare, &run.toy("counts", &["rounds=10"])));
        assert_whole(&run, &output, &format!("{kind}, launched"), (from, wall_ns()));
        if number >= THOROUGHLY {
            continue;
        }
        // The same, by its number.
        let run = Run::new();
        let toy = wrapped(&unshare, &run.toy("counts", &["rounds=10", "wait"]));
        let mut target =
            Command::new(&toy[0]).args(&toy[1..]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let mut inner = None;
        wait_until("the toy", || {
            inner = toy_of(Pid::from_raw(target.id().cast_signed())).map(|pid| pid.as_raw().cast_unsigned());
            inner.is_some()
        });
        let recorder = attach(&run, inner.unwrap(), &[]);
        let from = wall_ns();
        target.stdin.take().unwrap().write_all(b"\n").unwrap();
        let output = recorder.wait_with_output().unwrap();
        target.wait().unwrap();
        assert_whole(&run, &output, &format!("{kind}, attached to"), (from, wall_ns()));
        // Both inside. In a user namespace, programs cannot be loaded.
        let (run, from) = (Run::new(), wall_ns());
        let recorder = run.recorder(&[], &run.toy("counts", &["rounds=10"]));
        let recorder: Vec<&std::ffi::OsStr> =
            std::iter::once(recorder.get_program()).chain(recorder.get_args()).collect();
        let output = Command::new("unshare").args(options).args(recorder).stdin(Stdio::null()).output().unwrap();
        if kind == "user" {
            assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
            continue;
        }
        assert_whole(&run, &output, &format!("{kind}, both inside"), (from, wall_ns()));
    }
}

#[test]
#[ignore = "needs root"]
fn a_budget_works_in_another_time_namespace() {
    // With and without a process of its own: kernels differ in when the namespace is entered.
    for (offset, fork) in [("100000", true), ("100000", false), ("-50", true)] {
        let (run, from) = (Run::new(), wall_ns());
        let recorder =
            run.recorder(&["--budget", "90%"], &run.toy("counts", &["rounds=200", "pause=1000", "work=100"]));
        let recorder: Vec<&std::ffi::OsStr> =
            std::iter::once(recorder.get_program()).chain(recorder.get_args()).collect();
        let mut command = Command::new("unshare");
        command.args(["--time", "--monotonic", offset]).args(fork.then_some("--fork")).args(recorder);
        let output = command.stdin(Stdio::null()).output().unwrap();
        assert!(run.counts("counts").steps > 0, "{}", stderr(&output));
        let trace = run.read();
        assert!(trace.count("operator") > 0, "{offset}: {:?}\n{}", trace.counts, stderr(&output));
        let (first, last) = steps_by_wall_clock(&run.trace()).expect("steps");
        assert!(from <= first + 1_000_000_000 && last <= wall_ns() + 1_000_000_000, "{offset}: {first} {last}");
    }
}

#[test]
#[ignore = "needs root"]
fn what_a_command_starts_is_recorded() {
    let shell = |run: &Run, format: &str| {
        let toy = run.toy("counts", &["rounds=10"]).join(" ");
        words(&["sh", "-c", &format.replace("TOY", &toy)])
    };
    let cases: &[(&str, Words<'_>)] = &[
        ("a shell", &|run| shell(run, "TOY; true")),
        ("timeout", &|run| wrapped(&["timeout", "60"], &run.toy("counts", &["rounds=10"]))),
        ("nohup nice", &|run| wrapped(&["nohup", "nice", "stdbuf", "-oL"], &run.toy("counts", &["rounds=10"]))),
        ("a session of its own", &|run| wrapped(&["setsid", "-f", "-w"], &run.toy("counts", &["rounds=10"]))),
        ("a child of nobody", &|run| shell(run, "(setsid TOY &) ; while test ! -s counts; do :; done; sleep 1")),
        ("vfork", &|run| {
            let script = "import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:]).returncode)";
            wrapped(&["python3", "-c", script], &run.toy("counts", &["rounds=10"]))
        }),
        ("posix_spawn", &|run| {
            let script =
                "import os, sys; sys.exit(os.waitpid(os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ), 0)[1])";
            wrapped(&["python3", "-c", script], &run.toy("counts", &["rounds=10"]))
        }),
        ("forks, and forks of these", &|run| shell(run, "TOY children=3 ms=100; true")),
    ];
    for (what, command) in cases {
        let (run, from) = (Run::new(), wall_ns());
        let output = run.recorder(&[], &command(&run)).current_dir(run.folder.path()).output().unwrap();
        assert_whole(&run, &output, what, (from, wall_ns()));
    }
}

/// `su` stops itself when its child is stopped: both must run on.
#[test]
#[ignore = "needs root"]
fn wrappers_that_stop_with_their_child_run_on() {
    let (run, from) = (Run::new(), wall_ns());
    let open = |path: &Path| {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
    };
    open(run.folder.path());
    let toy = run.toy("counts", &["rounds=10"]);
    // Wherever this tree lies, others may have no way to it.
    std::fs::copy(&toy[0], run.path("chaos")).unwrap();
    let script = [&words(&["./chaos"])[..], &toy[1..]].concat().join(" ");
    let command = words(&["su", "nobody", "-s", "/bin/sh", "-c", &script]);
    let mut recorder = run.recorder(&[], &command).current_dir(run.folder.path()).spawn().unwrap();
    let ended = (0..1500).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        recorder.try_wait().unwrap().is_some()
    });
    if !ended {
        recorder.kill().unwrap();
    }
    let output = recorder.wait_with_output().unwrap();
    assert!(ended, "it hangs: {}", stderr(&output));
    assert_whole(&run, &output, "su", (from, wall_ns()));
}

#[test]
#[ignore = "needs root"]
fn pythons_processes_are_recorded_however_they_are_made() {
    let script = r#"
import ctypes, multiprocessing, sys
def work(n):
    engine = ctypes.CDLL(sys.argv[1])
    for _ in range(n):
        engine.chaos_step(1, 16)
if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[2])
    workers = [context.Process(target=work, args=(n,)) for n in (10, 20)]
    for worker in workers: worker.start()
    for worker in workers: worker.join()
    work(5)
"#;
    for way in ["fork", "spawn", "forkserver"] {
        let run = Run::new();
        std::fs::write(run.path("work.py"), script).unwrap();
        let (file, engine) = (run.path("work.py").display().to_string(), run.engine().display().to_string());
        let output = record(&run, &[], &words(&["python3", &file, &engine, way]));
        assert_eq!(output.status.code(), Some(0), "{way}: {}", stderr(&output));
        let trace = run.read();
        assert_eq!((trace.count("step"), trace.count("operator")), (35, 35 * 16), "{way}");
        assert!(report(&run.trace()).0, "{way}");
    }
}

/// Steps that overlap in several processes have their own operators, and one lane each.
#[test]
#[ignore = "needs root"]
fn steps_of_several_processes_are_not_mixed() {
    let run = Run::new();
    let output = record(&run, &[], &run.toy("counts", &["children=4", "ms=300", "rounds=10", "pause=1000"]));
    let counts = run.counts("counts");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(counts.processes >= 4 && counts.wrong == 0, "{counts:?}");
    let trace = run.trace().display().to_string();
    let output = Command::new(env!("CARGO_BIN_EXE_profinfer")).args(["report", "--json", &trace]).output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["completeness"]["complete"], true, "{}", report["completeness"]);
    assert_eq!(report["completeness"]["steps"], counts.steps);
    assert_eq!(report["lane_rows"].as_array().unwrap().len(), 1, "{}", report["lane_rows"]);
    for step in [1, counts.steps / 2, counts.steps] {
        let number = step.to_string();
        let command = ["report", "--json", "--step", &number, &trace];
        let output = Command::new(env!("CARGO_BIN_EXE_profinfer")).args(command).output().unwrap();
        let step: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(step["step"]["operators"].as_array().unwrap().len(), 16, "{number}: {}", step["step"]);
    }
}

/// What `record`, `report` and `info` say of a run; and the exit status of the first two.
fn reported(run: &Run, output: &Output) -> BTreeMap<&'static str, (Option<i32>, String)> {
    let trace = run.trace();
    let of = |command: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_profinfer")).arg(command).arg(&trace).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    BTreeMap::from([("record", (output.status.code(), stderr(output))), ("report", of("report")), ("info", of("info"))])
}

#[test]
#[ignore = "needs root"]
fn nothing_seen_is_never_complete() {
    let graph = "import ctypes, sys; ctypes.CDLL(sys.argv[1]).chaos_graph(ctypes.create_string_buffer(4096), 4)";
    let shell = |run: &Run| words(&["sh", "-c", &format!("{}; true", run.toy("counts", &["rounds=10"]).join(" "))]);
    let cases: &[(&str, &[&str], Words<'_>, &[&str])] = &[
        ("no engine", &[], &|_| words(&["true"]), &["no step was seen", "libchaos*.so*", "(true)"]),
        ("not followed", &["--no-inherit"], &shell, &["no step was seen", "libchaos*.so*", "(sh)"]),
        (
            "never called",
            &[],
            &|run| run.toy("counts", &["rounds=0"]),
            &["no step was seen", "`chaos_step` was never called", "(chaos)"],
        ),
        (
            "operators alone",
            &[],
            &|run| words(&["python3", "-c", graph, &run.engine().display().to_string()]),
            &["no step was seen", "`chaos_step` was never called", "4 `operator`"],
        ),
        (
            "a window that never came",
            &["--steps", "1000.."],
            &|run| run.toy("counts", &["rounds=2"]),
            &["no step was seen", "of 10 that began", "(chaos)"],
        ),
    ];
    for (what, options, command, texts) in cases {
        let run = Run::new();
        let output = record(&run, options, &command(&run));
        for (who, (status, reported)) in reported(&run, &output) {
            for text in *texts {
                assert!(reported.contains(text), "{what}, {who}: {text}\n{reported}");
            }
            assert!(!reported.starts_with("Complete"), "{what}, {who}: {reported}");
            // A report finds steps by operators: nothing has failed.
            let is_error = reported.contains("error[");
            assert!(*what != "operators alone" || !is_error, "{what}, {who}: {reported}");
            if who != "info" {
                assert!(!matches!(status, Some(0)), "{what}, {who}: {status:?}\n{reported}");
            }
        }
    }
}

/// Without a step, a recording is complete when any of its probes was seen.
#[test]
#[ignore = "needs root"]
fn an_engine_without_steps_is_judged_by_its_records() {
    let text = std::fs::read_to_string(PROBESET).unwrap();
    let (before, rest) = text.split_once("  step:\n").unwrap();
    let (_, operators) = rest.split_once("  operator:\n").unwrap();
    let text = format!("{before}  operator:\n{}", operators.replace("role: operator", "role: region"));
    for (rounds, status) in [("rounds=2", 0), ("rounds=0", 1)] {
        let run = Run::new();
        std::fs::write(run.path("regions.yaml"), &text).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_profinfer"));
        command.arg("record").arg(run.path("regions.yaml")).arg("-o").arg(run.trace()).arg("--");
        let output = command.args(run.toy("counts", &[rounds])).output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{}", stderr(&output));
        assert_eq!(run.read().count("operator"), run.counts("counts").operators);
        assert_eq!(report(&run.trace()).0, status == 0, "{}", report(&run.trace()).1);
    }
}

#[test]
#[ignore = "needs root"]
fn what_was_left_out_is_named_everywhere() {
    let run = Run::new();
    let text = std::fs::read_to_string(PROBESET).unwrap();
    let by_hand = r#"chaos_tensor: { op: enum chaos_op @ 0, name: "char[32] @ 4", length: i64 @ 40 }"#;
    let text = text.replace(r#"chaos_tensor: { op: enum chaos_op, name: "char[32]", length: i64 }"#, by_hand);
    assert!(text.contains(by_hand));
    assert!(Command::new("strip").arg("-g").arg(run.engine()).status().unwrap().success());
    let text =
        format!("{text}  extra:\n    at: engine:chaos_newer(i32 number)\n    role: region\n    optional: true\n");
    std::fs::write(run.path("more.yaml"), text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_profinfer"));
    command.arg("record").arg(run.path("more.yaml")).arg("-o").arg(run.trace()).arg("--");
    let output = command.args(run.toy("counts", &["rounds=2"])).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    for (who, (_, reported)) in reported(&run, &output) {
        // In the last lines, not only among the warnings before.
        let reported = reported.rsplit_once("next: profinfer").map_or(&*reported, |(_, after)| after);
        for text in ["`extra`", "chaos_newer", "chaos_op"] {
            assert!(reported.contains(text), "{who}: {text}\n{reported}");
        }
    }
    assert!(report(&run.trace()).0);
    assert!(run.read().meta.end.unwrap().left_out.iter().all(|entry| !entry.kind.is_harmful()));
}

/// Another user's process, for a recorder that may not send it signals: it must run on, and what was missed is named.
#[test]
#[ignore = "needs root"]
fn a_process_that_may_not_be_stopped_runs_on_and_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let run = Run::new();
    std::fs::set_permissions(run.folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let toy = run.toy("counts", &["rounds=10"]);
    std::fs::copy(&toy[0], run.path("chaos")).unwrap();
    let script = format!("setsid -w setpriv --reuid 65534 ./chaos {}; true", toy[1..].join(" "));
    let recorder = run.recorder(&[], &words(&["sh", "-c", &script]));
    let mut command = Command::new("timeout");
    command.args(["60", "setpriv", "--bounding-set", "-kill"]).arg(recorder.get_program()).args(recorder.get_args());
    let output = command.current_dir(run.folder.path()).stdin(Stdio::null()).output().unwrap();
    assert_ne!(output.status.code(), Some(124), "it hangs: {}", stderr(&output));
    let (counts, trace) = (run.counts("counts"), run.read());
    assert_eq!((counts.steps, counts.wrong), (50, 0), "{}", stderr(&output));
    let (complete, text) = report(&run.trace());
    if trace.count("step") < counts.steps {
        assert!(!complete && text.contains("process"), "{text}");
        assert_ne!(output.status.code(), Some(0), "{}", stderr(&output));
    }
}

/// The recording ends with the command. What runs on is named.
#[test]
#[ignore = "needs root"]
fn a_process_that_outlives_the_command_is_named() {
    let run = Run::new();
    let toy = run.toy("counts", &["ms=5000", "pause=2000"]).join(" ");
    let script = format!("setsid {toy} > /dev/null 2>&1 & while test ! -s counts; do :; done; sleep 1");
    let output = run.recorder(&[], &words(&["sh", "-c", &script])).current_dir(run.folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let trace = run.read();
    assert!(trace.count("step") > 0, "{}", stderr(&output));
    let survivor = trace.meta.end.unwrap().left_out.into_iter().find(|entry| entry.kind == LeftOutKind::Survivor);
    let text = survivor.expect("named").text;
    assert!(text.contains("(chaos) still ran after"), "{text}");
    let pid: i32 = text.split_whitespace().nth(1).unwrap().parse().unwrap();
    let line = stderr(&output).lines().find(|line| line.contains("(chaos) still ran after")).map(str::to_owned);
    let line = line.unwrap_or_else(|| panic!("{}", stderr(&output)));
    assert!(line.ends_with(&format!("`profinfer record … -p {pid}`")), "{line}");
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    assert!(!state.contains(") T "), "{state}");
    assert!(Command::new("kill").arg(pid.to_string()).status().unwrap().success());
    assert_eq!(run.counts("counts").wrong, 0);
}
