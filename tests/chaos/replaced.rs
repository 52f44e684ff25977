//! Files of an engine that are replaced or overwritten while they are recorded: a site belongs to the file that was
//! inspected, whatever its name leads to by then.

use crate::toy::{Counts, PROBESET, Run, TARGETS, Trace, builds, report, stderr, wait_until};
use profinfer_trace::{Item, TraceReader, Value};

use profinfer_schema::LossKind;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// Records the toy with these words; `meanwhile` acts once it has made some steps.
fn record(run: &Run, options: &[&str], words: &[&str], meanwhile: impl FnOnce()) -> Output {
    let child = run.recorder(options, &run.toy("counts", words)).spawn().unwrap();
    wait_until("the toy's first steps", || run.counts("counts").steps > 20);
    meanwhile();
    child.wait_with_output().unwrap()
}

/// What the toy's own count and the trace have to do with each other: all that was called was seen, or is counted, or
/// the trace does not claim to be complete.
fn assert_accounted(run: &Run, output: &Output) -> (Counts, Trace, bool) {
    let (counts, trace) = (run.counts("counts"), run.read());
    let (complete, text) = report(&run.trace());
    let what = format!("{counts:?} {:?} {:?}\n{}\n{text}", trace.counts, trace.meta.losses, stderr(output));
    assert_eq!(counts.wrong, 0, "results of the target: {what}");
    let of = |name: &str| trace.count(name) + trace.lost(name);
    // With a budget, steps are recorded now and then.
    if complete && trace.meta.notices.iter().all(|notice| notice.detail.is_none()) {
        assert_eq!([of("step"), of("operator")], [counts.steps, counts.operators], "{what}");
        assert_eq!(trace.lost("step") + trace.lost("operator"), 0, "{what}");
    }
    (counts, trace, complete)
}

/// Operators of the trace, by operator and name of the tensor.
fn operators(run: &Run) -> BTreeMap<String, u64> {
    let mut reader = TraceReader::new(File::open(run.trace()).unwrap()).unwrap();
    let mut ops = BTreeMap::new();
    while let Some(item) = reader.next() {
        let Item::Record(record) = item else { continue };
        if record.kind().name == "tensor" {
            let text = |name: &str| match record.field_named(name) {
                Value::Enum { name, .. } => name.unwrap_or("?").to_owned(),
                Value::Text(text) => text.into_owned(),
                _ => "?".to_owned(),
            };
            *ops.entry(format!("{} {}", text("op"), text("name"))).or_default() += 1;
        }
    }
    ops
}

#[test]
#[ignore = "needs root"]
fn a_build_that_takes_the_place_of_another_between_two_loads_is_a_new_module() {
    for way in ["session", "multi", "single"] {
        let run = Run::new();
        let output =
            record(&run, &["--attach", way], &["reload", "ms=1500", "pause=2000"], || run.replace("shifted.so"));
        assert!(output.status.success(), "{way}: {}", stderr(&output));
        let (_, trace, complete) = assert_accounted(&run, &output);
        assert!(complete, "{way}");
        assert_eq!(trace.meta.modules.len(), 2, "{way}: {:?}", trace.meta.modules);
    }
}

#[test]
#[ignore = "needs root"]
fn a_build_with_another_layout_is_read_with_its_own() {
    let run = Run::new();
    let output = record(&run, &[], &["reload", "ms=1200", "pause=2000"], || run.replace("other.so"));
    let (_, _, complete) = assert_accounted(&run, &output);
    assert!(complete, "{}", stderr(&output));
    let ops = operators(&run);
    let right =
        |text: &String| ["ADD ", "MATMUL ", "NORM "].iter().any(|op| text.starts_with(op)) && text.ends_with(".tensor");
    assert!(!ops.is_empty() && ops.keys().all(right), "{ops:?}");
}

#[test]
#[ignore = "needs root"]
fn an_identical_copy_in_its_place_changes_nothing() {
    for options in [&[][..], &["--budget", "5%"]] {
        let run = Run::new();
        let output = record(&run, options, &["reload", "ms=1500", "work=50"], || run.replace("first.so"));
        let (_, trace, complete) = assert_accounted(&run, &output);
        assert!(complete && trace.lost("operator") == 0, "{options:?}: {:?}", trace.meta.losses);
        assert_until_the_end(&run, "step");
        let none = trace.meta.losses.iter().all(|loss| loss.kind != LossKind::MissingReturn);
        assert!(none, "{options:?}: {:?}", trace.meta.losses);
    }
}

/// The process keeps what it has mapped; probes that come and go must come to it and to nothing else.
#[test]
#[ignore = "needs root"]
fn with_a_budget_probes_come_back_to_the_file_that_is_mapped() {
    for build in ["first.so", "shifted.so"] {
        let run = Run::new();
        let mut neighbour = None;
        let output = record(&run, &["--budget", "5%"], &["ms=5000", "work=50"], || {
            run.replace(build);
            neighbour = Some(neighbour_of(&run));
        });
        assert_accounted(&run, &output);
        finish(&run, neighbour);
        assert_until_the_end(&run, "step");
        assert_until_the_end(&run, "operator");
    }
}

/// Records of this name are there in the second half of the run: the file was replaced at its beginning, and a busy
/// machine makes the budget's pauses longer than a second.
fn assert_until_the_end(run: &Run, name: &str) {
    let mut reader = TraceReader::new(File::open(run.trace()).unwrap()).unwrap();
    let (mut first, mut last) = (u64::MAX, 0);
    while let Some(item) = reader.next() {
        let Item::Record(record) = item else { continue };
        if record.kind().name == name {
            (first, last) = (first.min(record.header().start), last.max(record.header().start));
        }
    }
    let end = reader.into_meta().end.unwrap().time;
    assert!(last > first + (end - first) / 2, "{name}: {first} to {last} of {end}");
}

#[test]
#[ignore = "needs root"]
fn programs_of_others_that_run_the_new_file_are_left_alone() {
    for options in [&[][..], &["--budget", "5%"]] {
        let run = Run::new();
        let mut neighbour = None;
        let words = ["reload", "children=2", "rounds=20", "ms=1500", "pause=1000"];
        let output = record(&run, options, &words, || {
            run.replace("shifted.so");
            neighbour = Some(neighbour_of(&run));
        });
        let counts = run.counts("counts");
        assert_eq!(counts.wrong, 0, "{options:?} {counts:?} {}", stderr(&output));
        let status = output.status.code();
        assert!(status == Some(0) || status == Some(4), "{options:?} {output:?}");
        finish(&run, neighbour);
    }
}

/// A process that is not recorded and runs the engine's file of now, loading it over and over.
fn neighbour_of(run: &Run) -> Child {
    let words = run.toy("neighbours", &["reload", "ms=1200"]);
    Command::new(&words[0]).args(&words[1..]).stdout(Stdio::null()).spawn().unwrap()
}

fn finish(run: &Run, neighbour: Option<Child>) {
    let status = neighbour.unwrap().wait().unwrap();
    let counts = run.counts("neighbours");
    assert!(status.success() && counts.wrong == 0 && counts.steps > 0, "{status:?} {counts:?}");
}

/// Writes a build's bytes into the engine's file, which stays the same file.
fn overwrite(run: &Run, build: &str) {
    let bytes = std::fs::read(builds().join(build)).unwrap();
    let mut file = std::fs::OpenOptions::new().write(true).open(run.engine()).unwrap();
    file.write_all(&bytes).unwrap();
    file.set_len(bytes.len() as u64).unwrap();
}

/// The bytes are the same, so that the target itself is not harmed; that is not known of them before they are written.
#[test]
#[ignore = "needs root"]
fn a_file_that_is_overwritten_while_it_is_mapped_is_refused_and_named() {
    for options in [&[][..], &["--budget", "5%"]] {
        let run = Run::new();
        let output = record(&run, options, &["ms=2000", "pause=1000"], || overwrite(&run, "first.so"));
        let (_, trace, complete) = assert_accounted(&run, &output);
        assert!(!complete, "{options:?}");
        assert_eq!(output.status.code(), Some(4), "{options:?} {}", stderr(&output));
        assert!(stderr(&output).contains("libchaos.so"), "{options:?} {}", stderr(&output));
        assert!(stderr(&output).contains("overwritten"), "{options:?} {}", stderr(&output));
        assert!(trace.count("step") > 0);
        let lost = |loss: &&profinfer_schema::Loss| loss.kind == LossKind::NotAttached && loss.record == "operator";
        assert!(trace.meta.losses.iter().any(|loss| lost(&loss)), "{options:?} {:?}", trace.meta.losses);
        assert!(trace.meta.notices.iter().any(|notice| notice.text.contains("overwritten")), "{options:?}");
    }
}

/// The file is another build in the same inode when the second process maps it: the kernel would set the first one's
/// breakpoints by itself.
#[test]
#[ignore = "needs root"]
fn a_file_that_is_overwritten_between_two_processes_is_refused_and_named() {
    let run = Run::new();
    let toy = |words: &[&str]| run.toy("counts", words).join(" ");
    let script = format!(
        "{}; cat {} > {}; {}",
        toy(&["rounds=30"]),
        builds().join("shifted.so").display(),
        run.engine().display(),
        toy(&["rounds=30", "reload"])
    );
    let words = ["sh", "-c", &script].map(str::to_owned);
    let output = run.recorder(&[], &words).output().unwrap();
    let (counts, trace, complete) = assert_accounted(&run, &output);
    assert_eq!((counts.steps, counts.processes), (300, 2), "{}", stderr(&output));
    assert!(!complete && stderr(&output).contains("overwritten"), "{}", stderr(&output));
    assert_eq!(trace.count("step"), 150);
}

/// A library without probes may be overwritten: the second process is recorded with what it has mapped.
#[test]
#[ignore = "needs root"]
fn a_file_without_probes_that_is_overwritten_is_no_fault() {
    let run = Run::new();
    let build = |name: &str, body: &str| {
        std::fs::write(run.path("source.c"), body).unwrap();
        let mut command = Command::new("cc");
        command.args(["-shared", "-fPIC", "-o"]).arg(run.path(name)).arg(run.path("source.c"));
        assert!(command.status().unwrap().success());
    };
    build("libneighbour.so", "int neighbour(void) { return 1; }");
    build("other.so", "int another(int a) { return a; } int neighbour(void) { return another(2); }");
    let (toy, folder) = (run.toy("counts", &["rounds=30"]).join(" "), run.folder.path().display());
    let script = format!(
        "export LD_PRELOAD={folder}/libneighbour.so; {toy}; cat {folder}/other.so > {folder}/libneighbour.so; {toy}"
    );
    let output = run.recorder(&[], &["sh", "-c", &script].map(str::to_owned)).output().unwrap();
    let (counts, trace, complete) = assert_accounted(&run, &output);
    assert_eq!((counts.steps, counts.processes, trace.count("step")), (300, 2, 300), "{}", stderr(&output));
    assert!(complete && output.status.success(), "{}", stderr(&output));
    assert!(!stderr(&output).contains("overwritten"), "{}", stderr(&output));
}

/// Reading what is not there any more raises SIGBUS: that must not end the recorder.
#[test]
#[ignore = "needs root"]
fn a_file_that_is_cut_while_it_is_read_is_refused_and_named() {
    let folder = tempfile::tempdir().unwrap();
    // So many symbols that reading them takes a while.
    let symbols: String = (0..60_000).fold(String::from(".text\n"), |text, number| {
        text + &format!(
            ".globl many_symbols_{number}\n.type many_symbols_{number}, @function\nmany_symbols_{number}: ret\n"
        )
    });
    let symbols = symbols + ".section .note.GNU-stack, \"\", @progbits\n";
    std::fs::write(folder.path().join("symbols.s"), symbols).unwrap();
    let mut command = Command::new("cc");
    command.args(["-O2", "-g", "-shared", "-fPIC", "-o"]).arg(folder.path().join("large.so"));
    command.arg(std::path::Path::new(TARGETS).join("chaos_engine.c")).arg(folder.path().join("symbols.s"));
    assert!(command.status().unwrap().success());
    // The target has it mapped, and runs none of it.
    let script = "import ctypes, sys; ctypes.CDLL(sys.argv[1]); print('mapped', flush=True); sys.stdin.readline()";
    let cut_one = |round: u64| {
        let run = Run::new();
        std::fs::copy(folder.path().join("large.so"), run.engine()).unwrap();
        let mut target = Command::new("python3");
        target.args(["-c", script]).arg(run.engine()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut target = target.spawn().unwrap();
        let mut ready = [0; 6];
        target.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
        let mut recorder = Command::new(env!("CARGO_BIN_EXE_profinfer"));
        recorder.args(["record", PROBESET, "-o"]).arg(run.trace()).args(["-p", &target.id().to_string()]);
        let recorder = recorder.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        // From here on it reads the target's files.
        let maps = format!("/proc/{}/maps", recorder.id());
        let reads = || std::fs::read_to_string(&maps).is_ok_and(|maps| maps.contains("libchaos.so"));
        wait_until("the engine is read", reads);
        std::thread::sleep(Duration::from_millis(40 * round));
        std::fs::OpenOptions::new().write(true).open(run.engine()).unwrap().set_len(4096 * (1 + round)).unwrap();
        // It ends when it has seen to what the signal found it at.
        std::thread::sleep(Duration::from_millis(200));
        let _ = nix::sys::signal::kill(
            nix::unistd::Pid::from_raw(recorder.id().cast_signed()),
            nix::sys::signal::Signal::SIGINT,
        );
        let output = recorder.wait_with_output().unwrap();
        let reported = stderr(&output);
        assert!(output.status.code().is_some_and(|code| code != 0), "round {round}: {:?} {reported}", output.status);
        assert!(reported.contains("libchaos.so was overwritten"), "round {round}: {reported}");
        assert!(target.try_wait().unwrap().is_none(), "round {round}: the target goes on");
        let state = std::fs::read_to_string(format!("/proc/{}/stat", target.id())).unwrap();
        assert!(!state.contains(") T "), "{state}");
        target.kill().unwrap();
        target.wait().unwrap();
    };
    std::thread::scope(|threads| {
        for first in [0, 3] {
            let cut_one = &cut_one;
            threads.spawn(move || (first..first + 3).for_each(cut_one));
        }
    });
}

/// `touch` and `chmod` write nothing; a rename leaves the file what it is.
#[test]
#[ignore = "needs root"]
fn what_only_its_name_and_rights_tell_of_a_file_may_change() {
    use std::os::unix::fs::PermissionsExt;
    let run = Run::new();
    let output = record(&run, &["--budget", "20%"], &["ms=1200", "work=50"], || {
        std::fs::set_permissions(run.engine(), std::fs::Permissions::from_mode(0o700)).unwrap();
        std::fs::rename(run.engine(), run.path("libchaos.so.1")).unwrap();
        std::thread::sleep(Duration::from_millis(200));
        std::fs::remove_file(run.path("libchaos.so.1")).unwrap();
    });
    let (_, _, complete) = assert_accounted(&run, &output);
    assert!(complete && output.status.success(), "{}", stderr(&output));
    assert_until_the_end(&run, "step");
}

/// More builds come and go than the recorder may have files open, or the kernel's detaching keeps up with at once.
#[test]
#[ignore = "needs root"]
fn any_number_of_replacements_uses_up_nothing() {
    let run = Run::new();
    let toy = run.toy("counts", &["reload", "ms=2500", "work=20"]);
    let shell = ["sh", "-c", "ulimit -Sn > \"$0\"; exec \"$@\""].map(str::to_owned);
    let words: Vec<String> = shell.into_iter().chain([run.path("limit").display().to_string()]).chain(toy).collect();
    let recorder = run.recorder(&[], &words);
    let mut command = Command::new("prlimit");
    command.arg("--nofile=100:4096").arg(recorder.get_program()).args(recorder.get_args());
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("the toy's first steps", || run.counts("counts").steps > 20);
    for round in 0..150 {
        run.replace(["first.so", "shifted.so"][round % 2]);
        std::thread::sleep(Duration::from_millis(10));
    }
    let output = child.wait_with_output().unwrap();
    let (counts, trace, complete) = assert_accounted(&run, &output);
    assert!(complete && output.status.success(), "{}", stderr(&output));
    assert_eq!(trace.count("step"), counts.steps);
    assert!(trace.meta.sites.len() > 3 * 20, "{} sites", trace.meta.sites.len());
    assert_eq!(std::fs::read_to_string(run.path("limit")).unwrap().trim(), "100", "the target's own limit");
}
