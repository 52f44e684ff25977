//! Targets of other kinds, and other recorders beside: static programs, another C library, processes made without a copy
//! of the memory, libraries loaded by one thread while another computes, two recorders of one process.

use super::toy::{Counts, PROBESET, Run, TARGETS, Trace, report, stderr, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

fn compile(compiler: &str, output: &Path, flags: &[&str], sources: &[&str]) {
    let mut command = Command::new(compiler);
    command.args(["-O2", "-g", "-o"]).arg(output).args(flags);
    command.args(sources.iter().map(|source| Path::new(TARGETS).join(source))).arg("-lpthread");
    assert!(command.status().expect("a C compiler").success(), "{compiler} {flags:?}");
}

/// All that the toy counted is in the trace, or is counted as lost; without losses the trace is complete.
fn assert_all(what: &str, counts: Counts, trace: &Trace, path: &Path, reported: &str) {
    let seen = |name: &str| (trace.count(name) + trace.lost(name), trace.lost(name));
    let (steps, operators) = (seen("step"), seen("operator"));
    let (complete, text) = report(path);
    let what = format!("{what}: {counts:?} {:?} {:?}\n{reported}\n{text}", trace.counts, trace.meta.losses);
    assert!(counts.wrong == 0 && counts.steps > 0, "{what}");
    assert_eq!([steps.0, operators.0], [counts.steps, counts.operators], "{what}");
    assert_eq!(complete, steps.1 + operators.1 == 0, "{what}");
}

fn record(what: &str, run: &Run, words: &[String]) -> Output {
    let output = run.recorder(&[], words).output().unwrap();
    let reported = stderr(&output);
    assert!(matches!(output.status.code(), Some(0 | 4)), "{what}: {reported}");
    assert_all(what, run.counts("counts"), &run.read(), &run.trace(), &reported);
    output
}

fn text(path: PathBuf) -> String {
    path.display().to_string()
}

#[test]
#[ignore = "needs root"]
fn static_programs_are_recorded() {
    for (compiler, flags) in
        [("cc", &["-static"][..]), ("cc", &["-static-pie"]), ("musl-gcc", &["-static"]), ("musl-gcc", &[])]
    {
        let run = Run::new();
        // The probeset's name for the module.
        let program = run.path("libchaos-program.so");
        compile(compiler, &program, &[flags, &["-DLINKED"]].concat(), &["chaos.c", "chaos_engine.c"]);
        let with_children: &[&str] = &["children=3", "ms=300", "rounds=10", "pause=1000"];
        let of_one: &[&str] = &["rounds=40"];
        for words in [of_one, with_children].into_iter().take(if flags == ["-static"] { 2 } else { 1 }) {
            let what = format!("{compiler} {flags:?} {words:?}");
            let mut command = vec![text(program.clone()), text(run.path("counts")), "linked".to_owned()];
            command.extend(words.iter().map(|word| (*word).to_owned()));
            let output = record(&what, &run, &command);
            assert_eq!(output.status.code(), Some(0), "{what}: {}", stderr(&output));
            std::fs::remove_file(run.path("counts")).unwrap();
            std::fs::remove_file(run.trace()).unwrap();
        }
    }
}

/// musl's dynamic linker is its C library, and tells debuggers of libraries in its own way.
#[test]
#[ignore = "needs root"]
fn libraries_that_musl_loads_are_recorded() {
    let run = Run::new();
    compile("musl-gcc", &run.path("chaos"), &[], &["chaos.c"]);
    compile("musl-gcc", &run.engine(), &["-shared", "-fPIC"], &["chaos_engine.c"]);
    let words = [text(run.path("chaos")), text(run.path("counts")), text(run.engine())];
    let words = [&words[..], &["rounds=40".to_owned(), "reload".to_owned()]].concat();
    let output = record("musl", &run, &words);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

/// Until it runs another program, such a child runs in its parent's memory, and the parent waits for it.
#[test]
#[ignore = "needs root"]
fn children_in_their_parent_s_memory_are_recorded_beside_its_threads() {
    for way in ["vfork=12", "spawn=12"] {
        let run = Run::new();
        let output = record(way, &run, &run.toy("counts", &[way, "pause=500"]));
        assert_eq!(output.status.code(), Some(0), "{way}: {}", stderr(&output));
        assert!(run.counts("counts").processes > 12, "{way}");
    }
}

#[test]
#[ignore = "needs root"]
fn a_thread_loads_libraries_while_another_computes() {
    for options in [&[][..], &["reload"]] {
        let run = Run::new();
        let second = run.path("libchaos-second.so");
        std::fs::copy(run.engine(), &second).unwrap();
        let beside = format!("beside={}", second.display());
        let words = run.toy("counts", &[&["ms=1200", "pause=500", &beside][..], options].concat());
        let output = record("beside", &run, &words);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(run.counts("counts").loads > 20);
    }
}

fn attach(trace: &Path, pid: u32) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_profinfer"));
    command.args(["record", PROBESET, "-o"]).arg(trace).args(["-p", &pid.to_string()]);
    let recorder = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("attached", || {
        let fds = std::fs::read_dir(format!("/proc/{}/fdinfo", recorder.id())).into_iter().flatten().flatten();
        fds.filter_map(|fd| std::fs::read_to_string(fd.path()).ok()).any(|text| text.contains("uprobe_multi"))
    });
    recorder
}

/// Each stops the process to inspect it, and lets it run on, though the other may not be done.
#[test]
#[ignore = "needs root"]
fn two_recorders_of_one_process_miss_nothing_unreported() {
    for killed in [false, true] {
        let run = Run::new();
        let words = run.toy("counts", &["wait", "reload", "children=2", "ms=1500", "pause=1000"]);
        let mut toy = Command::new(&words[0]);
        let mut toy = toy.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let traces = [run.path("first.pfi"), run.path("second.pfi")];
        let [first, second] = [&traces[0], &traces[1]].map(|trace| attach(trace, toy.id()));
        std::thread::sleep(std::time::Duration::from_millis(100));
        toy.stdin.take().unwrap().write_all(b"\n").unwrap();
        if killed {
            wait_until("the toy runs", || run.counts("counts").steps > 20);
            kill(Pid::from_raw(second.id().cast_signed()), Signal::SIGKILL).unwrap();
        }
        wait_until("the toy ends", || toy.try_wait().unwrap().is_some());
        let counts = run.counts("counts");
        for (number, (recorder, trace)) in [first, second].into_iter().zip(&traces).enumerate() {
            let output = recorder.wait_with_output().unwrap();
            if killed && number == 1 {
                continue;
            }
            let (read, (complete, text)) = (Trace::read(trace), report(trace));
            let seen = ["step", "operator"].map(|name| read.count(name) + read.lost(name));
            let what = format!("{counts:?} {:?} {:?}\n{}\n{text}", read.counts, read.meta.losses, stderr(&output));
            assert!(counts.wrong == 0 && read.count("step") > 0, "{what}");
            assert!(seen == [counts.steps, counts.operators] || !complete, "{what}");
        }
    }
}
