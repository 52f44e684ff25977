//! Recorders, guardians and targets that die or stand still: whatever dies, the target goes on, and nothing stays
//! stopped but what its user has stopped.

use super::toy::{PROBESET, Run, TARGETS, Trace, as_nobody, child_named, report, state, stderr, wait_until};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use profinfer_schema::LossKind;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn pid(child: &Child) -> Pid {
    Pid::from_raw(child.id().cast_signed())
}

/// Processes whose command line has this text.
fn processes(text: &str) -> Vec<Pid> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let has = |number: &i32| {
        std::fs::read(format!("/proc/{number}/cmdline")).is_ok_and(|line| String::from_utf8_lossy(&line).contains(text))
    };
    numbers.filter(has).map(Pid::from_raw).collect()
}

/// The guardian of a recorder.
fn guardian(recorder: Pid) -> Option<Pid> {
    child_named(recorder, "profinfer-guard")
}

fn spawn(mut command: Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Waits until all processes of a run have ended; names those that stand still.
fn all_end(run: &Run, within: Duration) {
    let name = run.folder.path().display().to_string();
    let start = Instant::now();
    loop {
        let left: Vec<(Pid, Option<char>)> = processes(&name).into_iter().map(|pid| (pid, state(pid))).collect();
        if left.is_empty() {
            return;
        }
        if start.elapsed() > within {
            left.iter().for_each(|(pid, _)| {
                let _ = kill(*pid, Signal::SIGKILL);
            });
            panic!("left behind: {left:?}");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A number that differs from run to run, below `limit`.
fn chance(limit: u64) -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish() % limit
}

#[test]
#[ignore = "needs root"]
fn a_recorder_killed_at_any_moment_leaves_nothing_stopped() {
    // Four at a time.
    let kill_one = |early: bool| {
        let run = Run::new();
        let words = run.toy("counts", &["reload", "children=4", "ms=800", "pause=200"]);
        let mut recorder = spawn(run.recorder(&["--follow-forks"], &words));
        if early {
            // By chance also before the toy runs, while the probes are made.
            std::thread::sleep(Duration::from_millis(chance(1200)));
        } else {
            let has_ended = |recorder: &mut Child| recorder.try_wait().unwrap().is_some();
            wait_until("the toy runs", || run.counts("counts").loads > 0 || has_ended(&mut recorder));
            std::thread::sleep(Duration::from_millis(chance(700)));
        }
        let _ = kill(pid(&recorder), Signal::SIGKILL);
        recorder.wait().unwrap();
        all_end(&run, Duration::from_secs(15));
        assert_eq!(run.counts("counts").wrong, 0);
    };
    for round in 0..5 {
        std::thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| kill_one(round == 0));
            }
        });
    }
}

/// `su` and `sudo` stop themselves when their child is stopped. Here that happens all the time, since the child loads and
/// unloads a library, so that the recorder is killed while they stand.
#[test]
#[ignore = "needs root"]
fn wrappers_run_on_when_the_recorder_is_killed() {
    let kill_one = |wrapper: &str| {
        let run = Run::new();
        let toy = run.toy_of_others("counts", &["reload", "ms=900", "pause=200"]);
        let words = as_nobody(wrapper, &format!("exec {}", toy.join(" ")));
        let mut recorder = spawn(run.recorder(&[], &words));
        wait_until("the toy runs", || run.counts("counts").loads > 0);
        std::thread::sleep(Duration::from_millis(chance(500)));
        let _ = kill(pid(&recorder), Signal::SIGKILL);
        recorder.wait().unwrap();
        all_end(&run, Duration::from_secs(15));
        let counts = run.counts("counts");
        assert!(counts.wrong == 0 && counts.steps > 0, "{wrapper}: {counts:?}");
    };
    for _ in 0..3 {
        std::thread::scope(|threads| {
            for wrapper in ["su", "sudo"] {
                threads.spawn(move || kill_one(wrapper));
            }
        });
    }
}

#[test]
#[ignore = "needs root"]
fn a_group_that_is_killed_leaves_the_guardian_to_its_work() {
    // The target is attached to, in a group of its own: that one is not meant.
    for signal in [Signal::SIGKILL, Signal::SIGHUP] {
        let run = Run::new();
        let words = run.toy("counts", &["reload", "children=4", "ms=60000", "pause=200"]);
        let mut toy = Command::new(&words[0]);
        toy.args(&words[1..]).process_group(0);
        let mut toy = spawn(toy);
        wait_until("the toy runs", || run.counts("counts").loads > 0);
        // Also where these tests are run by `nohup`: a hangup that is ignored ends no recording.
        let mut recorder = Command::new("env");
        recorder.args(["--default-signal=HUP", env!("CARGO_BIN_EXE_profinfer")]);
        recorder.args(["record", PROBESET, "--follow-forks", "-o"]).arg(run.trace());
        recorder.args(["-p", &toy.id().to_string()]).process_group(0);
        let mut recorder = spawn(recorder);
        let group = pid(&recorder);
        wait_until("the guardian is there", || guardian(group).is_some());
        let guardian = guardian(group).unwrap();
        std::thread::sleep(Duration::from_millis(200 + chance(400)));
        killpg(group, signal).unwrap();
        recorder.wait().unwrap();
        wait_until("the guardian ends", || state(guardian).is_none_or(|state| state == 'Z'));
        let name = run.folder.path().display().to_string();
        let stopped = || processes(&name).into_iter().filter(|pid| state(*pid) == Some('T')).count();
        assert_eq!(stopped(), 0, "{signal}");
        let before = run.counts("counts").loads;
        wait_until("the toy goes on", || run.counts("counts").loads > before + 40);
        killpg(pid(&toy), Signal::SIGKILL).unwrap();
        toy.wait().unwrap();
        assert_eq!(run.counts("counts").wrong, 0);
    }
}

#[test]
#[ignore = "needs root"]
fn a_killed_guardian_is_followed_by_another() {
    let run = Run::new();
    let words = run.toy("counts", &["reload", "children=2", "ms=5000", "pause=200"]);
    let mut recorder = spawn(run.recorder(&["--follow-forks"], &words));
    let mut killed = Vec::new();
    for _ in 0..3 {
        wait_until("a guardian is there", || guardian(pid(&recorder)).is_some_and(|pid| !killed.contains(&pid)));
        let guardian = guardian(pid(&recorder)).unwrap();
        kill(guardian, Signal::SIGKILL).unwrap();
        killed.push(guardian);
    }
    wait_until("a guardian is there", || guardian(pid(&recorder)).is_some_and(|pid| !killed.contains(&pid)));
    kill(pid(&recorder), Signal::SIGKILL).unwrap();
    recorder.wait().unwrap();
    all_end(&run, Duration::from_secs(15));
    assert_eq!(run.counts("counts").wrong, 0);
}

#[test]
#[ignore = "needs root"]
fn a_stopped_recorder_holds_nobody_and_says_what_it_missed() {
    let run = Run::new();
    let words = run.toy("counts", &["reload", "ms=4000", "pause=1000"]);
    let mut command = run.recorder(&[], &words);
    command.stdout(Stdio::null());
    let recorder = command.spawn().unwrap();
    let recorder_pid = pid(&recorder);
    wait_until("the toy runs", || run.counts("counts").loads > 3);
    for _ in 0..2 {
        kill(recorder_pid, Signal::SIGSTOP).unwrap();
        // The longest time without a load, while nobody answers.
        let (start, mut longest) = (Instant::now(), Duration::ZERO);
        let (mut loads, mut since) = (run.counts("counts").loads, Instant::now());
        while start.elapsed() < Duration::from_millis(1300) {
            std::thread::sleep(Duration::from_millis(2));
            let now = run.counts("counts").loads;
            longest = longest.max(since.elapsed());
            if now != loads {
                (loads, since) = (now, Instant::now());
            }
        }
        assert!(longest < Duration::from_secs(1), "held for {longest:?}");
        kill(recorder_pid, Signal::SIGCONT).unwrap();
        wait_until("it goes on", || state(recorder_pid).is_some_and(|state| state != 'T'));
        std::thread::sleep(Duration::from_millis(200));
    }
    let output = recorder.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    let (trace, counts) = (run.read(), run.counts("counts"));
    let unprobed = trace.meta.losses.iter().filter(|loss| loss.kind == LossKind::NotAttached);
    assert!(unprobed.map(|loss| loss.count).sum::<u64>() > 0, "{:?}", trace.meta.losses);
    assert!(!report(&run.trace()).0);
    assert!(trace.count("operator") > 0 && trace.count("operator") <= counts.operators);
    assert_eq!(counts.wrong, 0);
}

/// It is continued before it is inspected, and has nothing that could be missed.
#[test]
#[ignore = "needs root"]
fn a_program_without_an_engine_that_runs_on_is_no_loss() {
    let run = Run::new();
    let (idle, source) = (run.path("idle"), run.path("idle.c"));
    std::fs::write(&source, "#include <unistd.h>\nint main(void) { char c; return read(0, &c, 1) != 1; }\n").unwrap();
    // It maps nothing more, of which the recorder would have to be told.
    assert!(Command::new("cc").args(["-static", "-o"]).args([&idle, &source]).status().unwrap().success());
    let script = format!("read go; {}; exec {}", idle.display(), run.toy("counts", &["rounds=10"]).join(" "));
    let mut command = run.recorder(&[], &["sh".to_owned(), "-c".to_owned(), script]);
    let mut recorder = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut input = recorder.stdin.take().unwrap();
    let recorder_pid = pid(&recorder);
    wait_until("its guardian is there", || guardian(recorder_pid).is_some());
    std::thread::sleep(Duration::from_millis(500));
    kill(recorder_pid, Signal::SIGSTOP).unwrap();
    input.write_all(b"\n").unwrap();
    let started = Instant::now();
    let runs = |number: Pid| std::fs::read_link(format!("/proc/{number}/exe")).is_ok_and(|path| path == idle);
    let waits = || processes("idle").into_iter().any(|number| runs(number) && state(number) == Some('S'));
    wait_until("the program runs", waits);
    assert!(started.elapsed() > Duration::from_millis(200), "it was stopped, and continued by the guardian");
    kill(recorder_pid, Signal::SIGCONT).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    input.write_all(b"\n").unwrap();
    let output = recorder.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let trace = run.read();
    assert_eq!(trace.meta.losses, []);
    assert_eq!(trace.count("operator"), run.counts("counts").operators);
}

#[test]
#[ignore = "needs root"]
fn what_the_user_has_stopped_stays_stopped() {
    let run = Run::new();
    let words = run.toy("counts", &["wait"]);
    let mut toy = Command::new(&words[0]);
    let mut toy = toy.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let toy_pid = pid(&toy);
    wait_until("the toy waits", || state(toy_pid) == Some('S'));
    kill(toy_pid, Signal::SIGSTOP).unwrap();
    wait_until("the toy stands", || state(toy_pid) == Some('T'));
    let record = |signal: Signal| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_profinfer"));
        command.args(["record", PROBESET, "-p", &toy_pid.to_string(), "-o"]).arg(run.trace());
        let mut recorder = spawn(command);
        wait_until("the guardian is there", || guardian(pid(&recorder)).is_some());
        let guardian = guardian(pid(&recorder)).unwrap();
        std::thread::sleep(Duration::from_millis(300));
        kill(pid(&recorder), signal).unwrap();
        recorder.wait().unwrap();
        wait_until("the guardian ends", || state(guardian).is_none_or(|state| state == 'Z'));
        assert_eq!(state(toy_pid), Some('T'), "{signal}");
    };
    record(Signal::SIGKILL);
    record(Signal::SIGINT);
    toy.kill().unwrap();
    toy.wait().unwrap();
}

/// A folder with a program of `tests/targets` and a probeset for it.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new(source: &str, probeset: &str) -> Self {
        let place = Self { folder: tempfile::tempdir().unwrap() };
        let (program, source) = (place.path("program"), Path::new(TARGETS).join(source));
        assert!(Command::new("cc").args(["-O2", "-g", "-o"]).args([program, source]).status().unwrap().success());
        let head = "profinfer: 1\nengine: program\nsummary: A program\nmodules: { program: program* }\nprobes:\n";
        std::fs::write(place.path("probes.yaml"), format!("{head}{probeset}")).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What `record` says of a run, its exit status, and the trace.
    fn record(&self, options: &[&str], words: &[&str]) -> (String, Option<i32>, Trace) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_profinfer"));
        command.arg("record").arg(self.path("probes.yaml")).args(options).arg("-o").arg(self.path("run.pfi"));
        let output = command.arg("--").arg(self.path("program")).args(words).output().unwrap();
        let reported = format!("{}{}", String::from_utf8_lossy(&output.stdout), stderr(&output));
        let trace = self.path("run.pfi");
        assert!(trace.exists(), "{reported}");
        (reported, output.status.code(), Trace::read(&trace))
    }
}

#[test]
#[ignore = "needs root"]
fn fibers_are_left_alone_where_returns_are_probed() {
    let spans = "  step:
    at: program:fiber_step(i32 fibers) -> i64
    role: step
    fields: { tokens: fibers }
  operator:
    at: program:fiber_operator(i64 number) -> i64
    role: operator
    fields: { op: number }
";
    let place = Place::new("fibers.c", spans);
    for words in [["4", "20"], ["1", "20"], ["16", "5"]] {
        let (reported, status, trace) = place.record(&[], &words);
        assert!(reported.contains(" 0 wrong") && reported.contains("R030"), "{reported}");
        assert_eq!(status, Some(4), "{reported}");
        let (fibers, rounds): (u64, u64) = (words[0].parse().unwrap(), words[1].parse().unwrap());
        assert_eq!((trace.count("step"), trace.count("operator")), (rounds + 1, 0));
        assert_eq!(trace.lost("operator"), fibers * rounds, "{:?}", trace.meta.losses);
        assert!(!report(&place.path("run.pfi")).0);
    }
    // Spans that end at another entry do not touch return addresses.
    let entries = spans.replace("-> i64", "until [step, operator]");
    let place = Place::new("fibers.c", &entries);
    let (reported, status, trace) = place.record(&[], &["4", "20"]);
    assert!(reported.contains(" 0 wrong") && !reported.contains("R030"), "{reported}");
    assert_eq!((status, trace.count("step"), trace.count("operator")), (Some(0), 21, 80), "{reported}");
}

#[test]
#[ignore = "needs root"]
fn a_nop_is_no_call_where_the_stack_is_used_below_its_end() {
    let probes = "  step:
    at: usdt program:red:other(i64 number) until [step]
    role: step
    fields: { tokens: number }
  leaf:
    at: usdt program:red:leaf(i64 number)
    role: mark
    optional: true
    fields: { number: number }
";
    let place = Place::new("red_zone.c", probes);
    let (reported, _, trace) = place.record(&[], &["1000"]);
    assert!(reported.contains("1000 calls 0 wrong"), "{reported}");
    let symbols = std::fs::read_to_string("/proc/kallsyms").unwrap();
    let has = |name: &str| symbols.lines().any(|line| line.ends_with(&format!(" {name}")));
    let is_refused = has("arch_uprobe_optimize") && !has("int3_update_optimize");
    assert_eq!(trace.count("leaf"), if is_refused { 0 } else { 1000 }, "{reported}");
    assert!(trace.count("step") >= 999, "{reported}");
    let mut check = Command::new(env!("CARGO_BIN_EXE_profinfer"));
    let output = check.arg("check").arg(place.path("probes.yaml")).arg("--target").arg(place.path("program")).output();
    let reported =
        output.map(|output| format!("{}{}", String::from_utf8_lossy(&output.stdout), stderr(&output))).unwrap();
    assert_eq!(reported.contains("below the stack pointer"), is_refused, "{reported}");
}
