//! What is above a target: `su`, `sudo`, a shell with a terminal, a parent that ignores its children's end, and the
//! recorder's own output. None of them is stopped, or left stopped, by a recording.

use super::toy::{PROBESET, Run, as_nobody, state, wait_until};
use nix::fcntl::OFlag;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The process whose command is this toy with this counting file.
fn toy_of(run: &Run, program: &str) -> Option<Pid> {
    let counts = run.path("counts").display().to_string();
    let numbers = std::fs::read_dir("/proc").unwrap().flatten();
    let is_it = |number: &Pid| {
        let line = std::fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
        let words: Vec<String> =
            line.split(|byte| *byte == 0).map(|w| String::from_utf8_lossy(w).into_owned()).collect();
        words.first().is_some_and(|word| word == program) && words.contains(&counts)
    };
    numbers.filter_map(|entry| Some(Pid::from_raw(entry.file_name().to_str()?.parse().ok()?))).find(is_it)
}

fn ends_within(child: &mut Child, within: Duration) -> bool {
    let from = Instant::now();
    while from.elapsed() < within {
        if child.try_wait().unwrap().is_some() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    false
}

fn attached(run: &Run, pid: Pid) -> Output {
    let mut recorder = Command::new(env!("CARGO_BIN_EXE_profinfer"));
    recorder.args(["record", PROBESET, "-o"]).arg(run.trace()).args(["-p", &pid.to_string()]);
    recorder.stdin(Stdio::null()).output().unwrap()
}

#[test]
#[ignore = "needs root"]
fn su_and_sudo_above_a_target_that_is_attached_to_run_on() {
    let check = |wrapper: &str| {
        let run = Run::new();
        let toy = run.toy_of_others("counts", &["reload", "ms=8000", "pause=200"]);
        // The shell waits for it: it stands above, as well.
        let words = as_nobody(wrapper, &format!("{}; true", toy.join(" ")));
        let mut command = Command::new(&words[0]);
        let mut wrapped = command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        wait_until("the toy runs", || run.counts("counts").loads > 0 && toy_of(&run, &toy[0]).is_some());
        let output = attached(&run, toy_of(&run, &toy[0]).unwrap());
        assert!(ends_within(&mut wrapped, Duration::from_secs(10)), "{wrapper} stands still");
        let counts = run.counts("counts");
        assert!(counts.wrong == 0 && counts.steps > 0, "{wrapper}: {counts:?}");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(run.trace().exists() && run.read().counts["step"] > 0, "{wrapper}: {stderr}");
    };
    std::thread::scope(|threads| {
        for wrapper in ["su", "sudo"] {
            threads.spawn(move || check(wrapper));
        }
    });
}

/// A shell takes its terminal back from a job that is stopped, and it would stay in the background.
#[test]
#[ignore = "needs root"]
fn a_shell_s_job_stays_in_the_foreground() {
    let run = Run::new();
    // Long enough for a recorder that compiles its programs first, beside other tests.
    let toy = run.toy("counts", &["reload", "ms=8000", "pause=200"]);
    let script = format!("exec bash -mc '{}; echo its shell goes on: $?'", toy.join(" "));
    let mut terminal = Command::new("script");
    terminal.args(["-qec", &script, "/dev/null"]).stdin(Stdio::null()).stdout(Stdio::piped());
    let terminal = terminal.spawn().unwrap();
    wait_until("the toy runs", || run.counts("counts").loads > 0 && toy_of(&run, &toy[0]).is_some());
    let output = attached(&run, toy_of(&run, &toy[0]).unwrap());
    let shown = String::from_utf8_lossy(&terminal.wait_with_output().unwrap().stdout).into_owned();
    assert!(shown.contains("its shell goes on: 0") && !shown.contains("topped"), "{shown}");
    let counts = run.counts("counts");
    assert!(counts.wrong == 0 && counts.loads > 5, "{counts:?}");
    // It runs while its library is inspected: much is recorded, and what is not is counted.
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(run.trace().exists() && run.read().counts["step"] > 0, "{stderr}");
}

/// A terminal that takes no more, as after Ctrl-S: the target is not held for it.
#[test]
#[ignore = "needs root"]
fn a_target_does_not_stand_while_the_recorder_cannot_write() {
    let run = Run::new();
    let (reader, writer) = std::io::pipe().unwrap();
    let mut filling = OpenOptions::new();
    filling.write(true).custom_flags(OFlag::O_NONBLOCK.bits());
    let mut filling = filling.open(format!("/proc/self/fd/{}", writer.as_raw_fd())).unwrap();
    let toy = run.toy("counts", &["reload", "ms=2500", "pause=200"]);
    let mut recorder = run.recorder(&["--live", "always"], &toy);
    let mut recorder = recorder.stdout(Stdio::null()).stderr(writer).spawn().unwrap();
    wait_until("the toy runs", || run.counts("counts").loads > 0);
    while filling.write(&[b' '; 4096]).is_ok() {}
    while filling.write(b" ").is_ok() {}
    let toy = toy_of(&run, &toy[0]).unwrap();
    let from = Instant::now();
    // It has ended, and waits for the recorder to notice.
    while !matches!(state(toy), None | Some('Z')) && from.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(10));
    }
    let at_the_end = state(toy);
    drop((reader, filling));
    assert!(ends_within(&mut recorder, Duration::from_secs(10)), "the recorder still runs");
    let _ = kill(toy, Signal::SIGKILL);
    assert!(matches!(at_the_end, None | Some('Z')), "{at_the_end:?}");
    let counts = run.counts("counts");
    assert!(counts.wrong == 0 && counts.steps > 0, "{counts:?}");
}

/// A recorder that a shell becomes after a command of its own.
fn started_after(command: &str, recorder: &Command) -> Child {
    let mut shell = Command::new("bash");
    shell.args(["-c", &format!("{command}; exec \"$0\" \"$@\"")]).arg(recorder.get_program()).args(recorder.get_args());
    shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// As some parents pass it on: nobody learns how a child ended.
#[test]
#[ignore = "needs root"]
fn a_recording_ends_where_the_end_of_children_is_ignored() {
    let run = Run::new();
    let toy = run.toy("counts", &["ms=500"]);
    let mut shell = started_after("trap '' CHLD", &run.recorder(&[], &toy));
    assert!(ends_within(&mut shell, Duration::from_secs(20)));
    let (recorded, counts) = (run.read().counts["step"], run.counts("counts"));
    assert!(recorded == counts.steps && recorded > 0, "{recorded} of {counts:?}");
}

/// As services of systemd are started: a server that relies on it would end at the first client that went away.
#[test]
#[ignore = "needs root"]
fn a_command_has_sigpipe_as_the_recorder_was_started_with_it() {
    for (trap, is_ignored) in [("trap '' PIPE", true), ("true", false)] {
        let run = Run::new();
        let status = run.path("status");
        let script =
            format!("cat /proc/self/status > {}; {}", status.display(), run.toy("counts", &["ms=500"]).join(" "));
        let recorder = run.recorder(&[], &["sh".to_owned(), "-c".to_owned(), script]);
        let mut shell = started_after(trap, &recorder);
        assert!(ends_within(&mut shell, Duration::from_secs(20)));
        let status = std::fs::read_to_string(status).unwrap();
        let bits = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
        let bits = u64::from_str_radix(bits.trim(), 16).unwrap();
        assert_eq!(bits >> (Signal::SIGPIPE as u32 - 1) & 1 == 1, is_ignored, "{status}");
        assert!(run.read().counts["step"] > 0);
    }
}

/// As `nohup` starts it.
#[test]
#[ignore = "needs root"]
fn a_recording_goes_on_after_a_hangup_that_is_ignored() {
    let run = Run::new();
    let toy = run.toy("counts", &["ms=4000"]);
    let mut shell = started_after("trap '' HUP", &run.recorder(&[], &toy));
    wait_until("the toy runs", || run.counts("counts").steps > 20);
    kill(Pid::from_raw(shell.id().cast_signed()), Signal::SIGHUP).unwrap();
    assert!(ends_within(&mut shell, Duration::from_secs(20)));
    let (trace, counts) = (run.read(), run.counts("counts"));
    assert!(trace.counts["step"] == counts.steps && counts.steps > 0, "{:?} of {counts:?}", trace.counts);
}

/// A command that is launched for a trial only ends with it, and all that it has launched.
#[test]
#[ignore = "needs root"]
fn nothing_is_left_of_a_command_that_was_tried() {
    let run = Run::new();
    let toy = run.toy("counts", &["ms=60000"]);
    let mut trial = Command::new(env!("CARGO_BIN_EXE_profinfer"));
    trial.args(["try", PROBESET, "--seconds", "1", "--", "sh", "-c", &format!("{}; true", toy.join(" "))]);
    let mut trial = trial.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("the toy runs", || toy_of(&run, &toy[0]).is_some());
    assert!(ends_within(&mut trial, Duration::from_secs(30)));
    assert_eq!(toy_of(&run, &toy[0]), None);
}
