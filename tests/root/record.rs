//! Recording a toy engine whose counts of calls are known: what really happened is what the trace has. These need root
//! (or CAP_BPF and CAP_PERFMON), a C compiler and clang.

use profinfer_trace::{Item, Meta, TraceReader};

use profinfer_schema::LossKind;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

pub(crate) const PROBESET: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/targets/toy.yaml");

/// The toy in its forms, compiled once.
pub(crate) struct Toys {
    folder: PathBuf,
}

pub(crate) fn toys() -> &'static Toys {
    static TOYS: OnceLock<Toys> = OnceLock::new();
    TOYS.get_or_init(|| {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("toys");
        std::fs::create_dir_all(&folder).unwrap();
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/targets");
        let compile = |output: &str, flags: &[&str], files: &[&str]| {
            let mut command = Command::new("cc");
            command.args(["-O2", "-g", "-o"]).arg(folder.join(output)).args(flags);
            command.args(files.iter().map(|file| sources.join(file))).args(["-ldl", "-lpthread"]);
            assert!(command.status().expect("a C compiler").success());
        };
        compile("toy", &["-DLINKED"], &["toy.c", "toy_engine.c"]);
        compile("toy_late", &[], &["toy.c"]);
        compile("libtoy_engine.so", &["-shared", "-fPIC"], &["toy_engine.c"]);
        Toys { folder }
    })
}

impl Toys {
    pub(crate) fn linked(&self) -> String {
        self.folder.join("toy").display().to_string()
    }

    pub(crate) fn late(&self) -> String {
        self.folder.join("toy_late").display().to_string()
    }

    pub(crate) fn load(&self) -> String {
        format!("load={}", self.library().display())
    }

    pub(crate) fn library(&self) -> PathBuf {
        self.folder.join("libtoy_engine.so")
    }
}

/// One run: a folder for its trace.
pub(crate) struct Run {
    pub(crate) folder: tempfile::TempDir,
}

impl Run {
    pub(crate) fn new() -> Self {
        toys();
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn trace(&self) -> PathBuf {
        self.folder.path().join("run.pfi")
    }

    pub(crate) fn recorder(&self, arguments: &[&str]) -> Command {
        self.recorder_with(PROBESET, arguments)
    }

    pub(crate) fn recorder_with(&self, probeset: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_profinfer"));
        command.args(["record", probeset, "-o"]).arg(self.trace()).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn record(&self, arguments: &[&str]) -> Output {
        self.recorder(arguments).output().unwrap()
    }

    pub(crate) fn read(&self) -> Trace {
        Trace::read(&self.trace())
    }
}

/// What is in a trace.
pub(crate) struct Trace {
    counts: BTreeMap<String, u64>,
    pub(crate) meta: Meta,
}

impl Trace {
    fn read(path: &Path) -> Self {
        let mut reader = TraceReader::new(File::open(path).unwrap()).expect("a trace");
        let mut counts = BTreeMap::new();
        while let Some(item) = reader.next() {
            if let Item::Record(record) = item {
                *counts.entry(record.kind().name.clone()).or_default() += 1;
            }
        }
        Self { counts, meta: reader.into_meta() }
    }

    pub(crate) fn count(&self, name: &str) -> u64 {
        self.counts.get(name).copied().unwrap_or(0)
    }

    /// Steps, graphs, operators.
    pub(crate) fn work(&self) -> [u64; 3] {
        ["step", "graph", "operator"].map(|name| self.count(name))
    }

    pub(crate) fn assert_whole(&self) {
        assert_eq!(self.meta.losses, [], "nothing is lost");
        assert_eq!(self.meta.problems.0, []);
        assert!(self.meta.end.is_some());
    }
}

/// What the toy says that it did, summed over its processes: steps, graphs, operators.
pub(crate) fn reported(output: &[u8]) -> [u64; 3] {
    let mut sums = [0; 3];
    for line in String::from_utf8_lossy(output).lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let [_, steps, "steps", graphs, "graphs", operators, "operators"] = words[..] {
            for (sum, number) in sums.iter_mut().zip([steps, graphs, operators]) {
                *sum += number.parse::<u64>().unwrap();
            }
        }
    }
    sums
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(20), "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn signal(process: &Child, name: &str) {
    assert!(Command::new("kill").args([&format!("-{name}"), &process.id().to_string()]).status().unwrap().success());
}

/// The same command where a shell runs these tests in the background, which has them ignore SIGINT.
fn interruptible(command: &Command) -> Command {
    let mut env = Command::new("env");
    env.arg("--default-signal=INT,HUP").arg(command.get_program()).args(command.get_args());
    env.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    env.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    env
}

fn launch(words: &[&str]) -> Child {
    Command::new(words[0]).args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

/// Whether the recorder has attached to the toy's engine: its uprobes are in the process's memory map.
pub(crate) fn is_traced(recorder: &Child) -> bool {
    let links = std::fs::read_dir(format!("/proc/{}/fdinfo", recorder.id())).into_iter().flatten().flatten();
    links
        .filter(|fd| std::fs::read_to_string(fd.path()).is_ok_and(|text| text.contains("link_type:\tuprobe_multi")))
        .count()
        >= 4
}

#[test]
#[ignore = "needs root"]
fn a_launched_target_is_recorded_from_its_first_call() {
    let run = Run::new();
    let output = run.record(&["--", &toys().linked(), "20", "6", "2"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(reported(&output.stdout), [20, 20, 240]);
    let trace = run.read();
    assert_eq!(trace.work(), [20, 20, 240]);
    trace.assert_whole();
    assert_eq!(trace.meta.end.as_ref().unwrap().exit_code, Some(0));
    assert_eq!(trace.count("tensor"), 6 * 2, "described when new, and when its shape changes after the first step");
    assert!(stderr(&output).contains("20 steps") && stderr(&output).contains("profinfer report"));
}

/// As `serve` reads it.
#[test]
#[ignore = "needs root"]
fn a_trace_for_a_reader_on_this_machine_is_whole_and_not_compressed() {
    let size = |options: &[&str]| {
        let run = Run::new();
        let output = run.record(&[options, &["--", &toys().linked(), "200", "6", "2"]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert_eq!(run.read().work(), [200, 200, 2400]);
        run.read().assert_whole();
        run.trace().metadata().unwrap().len()
    };
    let (compressed, uncompressed) = (size(&[]), size(&["--uncompressed"]));
    assert!(uncompressed > 2 * compressed, "{uncompressed} bytes, {compressed} compressed");
}

#[test]
#[ignore = "needs root"]
fn every_way_of_attaching_records_the_same() {
    // Each kind of programs, too: this kernel has more than the older ones that are meant.
    let ways: [&[&str]; 5] = [
        &["--attach", "session"],
        &["--attach", "multi"],
        &["--attach", "single"],
        &["--old-kernel"],
        &["--old-kernel", "--attach", "single"],
    ];
    for way in ways {
        let run = Run::new();
        let words = [&toys().late(), "20", "6", "2", &toys().load()];
        let output = run.record(&[way, &["--"], &words[..]].concat());
        assert_eq!(output.status.code(), Some(0), "{way:?}: {}", stderr(&output));
        assert_eq!(run.read().work(), [20, 20, 240], "{way:?}");
        run.read().assert_whole();
    }
}

#[test]
#[ignore = "needs root"]
fn a_library_mapped_later_is_recorded_from_its_first_call() {
    let run = Run::new();
    let output = run.record(&["--", &toys().late(), "20", "6", "2", &toys().load()]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let trace = run.read();
    assert_eq!(trace.work(), reported(&output.stdout));
    trace.assert_whole();
    assert_eq!(trace.meta.modules.len(), 1);
    assert!(trace.meta.modules[0].path.ends_with("libtoy_engine.so"));
}

#[test]
#[ignore = "needs root"]
fn a_running_process_is_attached_to() {
    for words in [vec![toys().linked()], vec![toys().late(), toys().load()]] {
        let run = Run::new();
        let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
        words.insert(1, "wait");
        words.extend(["30", "5", "3"]);
        // `wait` comes first, so that in the second case the library is mapped after attaching.
        let mut target = launch(&words);
        let recorder = run.recorder(&["-p", &target.id().to_string()]).spawn().unwrap();
        wait_until("attached", || is_traced(&recorder) || words.len() == 6 && linker_is_traced(&recorder));
        std::thread::sleep(Duration::from_millis(300));
        drop(target.stdin.take());
        let real = target.wait_with_output().unwrap();
        let output = recorder.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let trace = run.read();
        assert_eq!(trace.work(), reported(&real.stdout), "{words:?}");
        assert_eq!(trace.work(), [30, 30, 450]);
        trace.assert_whole();
    }
}

fn linker_is_traced(recorder: &Child) -> bool {
    let links = std::fs::read_dir(format!("/proc/{}/fdinfo", recorder.id())).into_iter().flatten().flatten();
    links
        .filter(|fd| std::fs::read_to_string(fd.path()).is_ok_and(|text| text.contains("link_type:\tuprobe_multi")))
        .count()
        >= 1
}

#[test]
#[ignore = "needs root"]
fn children_are_recorded_unless_they_are_not_wanted() {
    let words = [&toys().linked(), "10", "4", "2", "fork"];
    let run = Run::new();
    let output = run.record(&[&["--no-inherit", "--"], &words[..]].concat());
    assert_eq!(reported(&output.stdout), [20, 20, 160]);
    assert_eq!(run.read().work(), [10, 10, 80], "the parent's alone");
    run.read().assert_whole();
    assert_eq!(run.read().meta.origin.options, ["--no-inherit"]);
    // The old option for it changes nothing.
    for options in [&["--"][..], &["--follow-forks", "--"]] {
        let run = Run::new();
        let output = run.record(&[options, &words[..]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert_eq!(run.read().work(), [20, 20, 160], "the child's too");
        run.read().assert_whole();
        assert!(run.read().meta.origin.options.is_empty());
    }
}

#[test]
#[ignore = "needs root"]
fn a_child_that_maps_the_engine_later_is_recorded() {
    let run = Run::new();
    let script = format!("{} 7 3 1 {} & {} 5 3 1 {}; wait", toys().late(), toys().load(), toys().late(), toys().load());
    let output = run.record(&["--", "sh", "-c", &script]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(reported(&output.stdout), [12, 12, 36]);
    assert_eq!(run.read().work(), [12, 12, 36]);
    run.read().assert_whole();
}

#[test]
#[ignore = "needs root"]
fn a_program_that_is_replaced_is_followed() {
    let run = Run::new();
    let output = run.record(&["--", "env", &toys().linked(), "10", "4", "2", "exec"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let trace = run.read();
    assert_eq!(trace.work(), [10, 10, 80]);
    trace.assert_whole();
}

#[test]
#[ignore = "needs root"]
fn only_the_steps_asked_for() {
    let run = Run::new();
    let output = run.record(&["--steps", "3..5", "--", &toys().linked(), "200", "4", "2"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(reported(&output.stdout), [200, 200, 1600], "the target runs on to its end");
    let trace = run.read();
    assert_eq!(trace.work(), [3, 3, 24]);
    assert!(trace.meta.end.unwrap().reason.contains("steps asked for"));
}

#[test]
#[ignore = "needs root"]
fn only_the_level_and_probes_asked_for() {
    let run = Run::new();
    run.record(&["--level", "graph", "--", &toys().linked(), "10"]);
    assert_eq!(run.read().work(), [10, 10, 0]);
    let run = Run::new();
    run.record(&["--no-probe", "gr*", "--", &toys().linked(), "10", "6", "2"]);
    assert_eq!(run.read().work(), [10, 0, 120]);
}

#[test]
#[ignore = "needs root"]
fn the_targets_status_passes_through() {
    let run = Run::new();
    let output = run.record(&["--", &toys().linked(), "5", "exit=7"]);
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(run.read().meta.end.unwrap().exit_code, Some(7));
}

#[test]
#[ignore = "needs root"]
fn a_crash_leaves_a_whole_trace() {
    let run = Run::new();
    let output = run.record(&["--", &toys().linked(), "15", "4", "2", "crash"]);
    assert_eq!(output.status.code(), Some(128 + 11), "{}", stderr(&output));
    let trace = run.read();
    assert_eq!(trace.work(), [15, 15, 120]);
    assert_eq!(trace.meta.end.unwrap().signal, Some(11));
}

#[test]
#[ignore = "needs root"]
fn an_interrupt_ends_target_and_trace() {
    for (name, number) in [("INT", 2), ("TERM", 15)] {
        let run = Run::new();
        let recorder = run.recorder(&["--", &toys().linked(), "1", "4", "1", "forever", "sleep=5"]);
        let recorder = interruptible(&recorder).spawn().unwrap();
        wait_until("recording", || is_traced(&recorder));
        std::thread::sleep(Duration::from_millis(300));
        signal(&recorder, name);
        let output = recorder.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(128 + number), "{}", stderr(&output));
        let trace = run.read();
        assert!(trace.count("step") > 10, "{:?}", trace.counts);
        assert_eq!(trace.meta.end.unwrap().signal, Some(number));
    }
}

#[test]
#[ignore = "needs root"]
fn a_signal_ends_a_trace_in_a_pipe_too() {
    for name in ["INT", "TERM", "HUP"] {
        let run = Run::new();
        let mut target = launch(&[&toys().linked(), "1000000", "4", "1", "sleep=5"]);
        let mut recorder = Command::new(env!("CARGO_BIN_EXE_profinfer"));
        recorder.args(["record", PROBESET, "-o", "-", "-p", &target.id().to_string()]);
        let (mut pipe, write) = std::io::pipe().unwrap();
        let recorder = interruptible(&recorder).stdout(write).spawn().unwrap();
        let trace = run.trace();
        let reading = std::thread::spawn(move || std::io::copy(&mut pipe, &mut File::create(trace).unwrap()).unwrap());
        wait_until("recording", || is_traced(&recorder));
        std::thread::sleep(Duration::from_millis(300));
        signal(&recorder, name);
        let output = recorder.wait_with_output().unwrap();
        reading.join().unwrap();
        assert_eq!(target.try_wait().unwrap(), None, "the target goes on");
        target.kill().unwrap();
        target.wait().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let trace = run.read();
        assert!(trace.count("step") > 10, "{:?}", trace.counts);
        let reason = trace.meta.end.unwrap().reason;
        assert!(reason.contains(&format!("SIG{name}")), "{reason}");
    }
}

#[test]
#[ignore = "needs root"]
fn a_duration_ends_the_recording_and_not_the_target() {
    let _alone = alone();
    let run = Run::new();
    let started = Instant::now();
    let arguments = ["--duration", "1s", "--", &toys().linked(), "300", "4", "1", "sleep=10"];
    let output = run.record(&arguments);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(started.elapsed() > Duration::from_millis(3000));
    assert_eq!(reported(&output.stdout)[0], 300);
    let trace = run.read();
    assert!((1..150).contains(&trace.count("step")), "{:?}", trace.counts);
    assert!(trace.meta.end.unwrap().reason.contains("duration"));
}

#[test]
#[ignore = "needs root"]
fn a_killed_recorder_leaves_a_readable_trace_and_an_unharmed_target() {
    let run = Run::new();
    let mut target = launch(&[&toys().linked(), "300", "4", "1", "sleep=10", "wait"]);
    let mut recorder = run.recorder(&["-p", &target.id().to_string()]).spawn().unwrap();
    wait_until("attached", || is_traced(&recorder));
    drop(target.stdin.take());
    std::thread::sleep(Duration::from_millis(2500));
    recorder.kill().unwrap();
    recorder.wait().unwrap();
    let trace = run.read();
    assert!(trace.count("step") > 20, "{:?}", trace.counts);
    assert!(trace.meta.end.is_none(), "it was cut");
    let real = target.wait_with_output().unwrap();
    assert!(real.status.success());
    assert_eq!(reported(&real.stdout)[0], 300);
}

#[test]
#[ignore = "needs root"]
fn calls_that_are_open_at_the_end_are_counted() {
    let _alone = alone();
    let run = Run::new();
    let mut target = launch(&[&toys().linked(), "1", "60", "1", "forever", "work=25"]);
    let output = run.record(&["--duration", "300ms", "-p", &target.id().to_string()]);
    target.kill().unwrap();
    target.wait().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let trace = run.read();
    assert!(trace.count("step") > 10);
    let open = trace.meta.losses.iter().find(|loss| loss.record == "graph").expect("an open graph");
    assert_eq!((open.kind, open.count), (LossKind::StillOpen, 1), "its time is nearly all in graphs");
}

#[test]
#[ignore = "needs root"]
fn a_full_ring_is_accounted_for() {
    let run = Run::new();
    let mut target = launch(&[&toys().linked(), "400", "60", "1", "wait"]);
    let recorder = run.recorder(&["--ring-size", "64K", "-p", &target.id().to_string()]).spawn().unwrap();
    wait_until("attached", || is_traced(&recorder));
    std::thread::sleep(Duration::from_millis(100));
    signal(&recorder, "STOP");
    drop(target.stdin.take());
    let real = target.wait_with_output().unwrap();
    signal(&recorder, "CONT");
    let output = recorder.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(4), "incomplete: {}", stderr(&output));
    let trace = run.read();
    let lost = |name: &str| -> u64 {
        let of_ring = trace.meta.losses.iter().filter(|loss| loss.record == name && loss.kind == LossKind::RingFull);
        of_ring.map(|loss| loss.count).sum()
    };
    let accounted = ["step", "graph", "operator"].map(|name| trace.count(name) + lost(name));
    assert_eq!(accounted, reported(&real.stdout));
    assert!(lost("operator") > 0);
}

#[test]
#[ignore = "needs root"]
fn a_full_disk_ends_the_recording_with_a_readable_trace() {
    let run = Run::new();
    let disk = run.folder.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    let mount = |arguments: &[&str]| Command::new(arguments[0]).args(&arguments[1..]).status().unwrap().success();
    let path = disk.to_str().unwrap();
    // Room for some blocks of 1 MiB, compressed: some 50 kB each. The whole trace has 450 kB.
    assert!(mount(&["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", path]));
    let mut command = Command::new(env!("CARGO_BIN_EXE_profinfer"));
    command.args(["record", PROBESET, "-o"]).arg(disk.join("run.pfi"));
    let output = command.args(["--", &toys().linked(), "4000", "40", "1"]).output().unwrap();
    let trace = Trace::read(&disk.join("run.pfi"));
    assert!(mount(&["umount", path]));
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(stderr(&output).contains("R003"), "{}", stderr(&output));
    assert_eq!(reported(&output.stdout)[0], 4000, "the target is not harmed");
    assert!(trace.count("operator") > 100, "{:?}", trace.counts);
    assert!(trace.meta.end.is_none());
}

#[test]
#[ignore = "needs root"]
fn pid_namespaces_are_no_obstacle() {
    // The recorder and its target in a namespace of their own.
    let run = Run::new();
    let mut command = Command::new("unshare");
    command.args(["-p", "-f", "--mount-proc", env!("CARGO_BIN_EXE_profinfer"), "record", PROBESET, "-o"]);
    let output =
        command.arg(run.trace()).args(["--", &toys().late(), "10", "4", "2", &toys().load()]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(run.read().work(), [10, 10, 80]);
    run.read().assert_whole();
    // Its children too: the programs say numbers that mean nothing here.
    let run = Run::new();
    let script = format!("{} 6 4 2 {} & wait", toys().late(), toys().load());
    let mut command = Command::new("unshare");
    command.args(["-p", "-f", "--mount-proc", env!("CARGO_BIN_EXE_profinfer"), "record", PROBESET, "-o"]);
    let output = command.arg(run.trace()).args(["--", "sh", "-c", &script]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(run.read().work(), [6, 6, 48]);
    // The target alone, as process 1 of its namespace.
    let run = Run::new();
    let toy = [&toys().late(), "10", "4", "2", "wait", &toys().load()];
    let target = launch(&[&["unshare", "-p", "-f", "--mount-proc"], &toy[..]].concat());
    let mut inner = String::new();
    wait_until("the namespace", || {
        let outer = target.id();
        inner = std::fs::read_to_string(format!("/proc/{outer}/task/{outer}/children")).unwrap_or_default();
        let command = std::fs::read_to_string(format!("/proc/{}/comm", inner.trim())).unwrap_or_default();
        command.trim() == "toy_late"
    });
    let recorder = run.recorder(&["-p", inner.trim()]).spawn().unwrap();
    wait_until("attached", || linker_is_traced(&recorder));
    std::thread::sleep(Duration::from_millis(300));
    let mut target = target;
    target.stdin.take().unwrap().write_all(b"\n").unwrap();
    let real = target.wait_with_output().unwrap();
    let output = recorder.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(run.read().work(), reported(&real.stdout));
    run.read().assert_whole();
}

#[test]
#[ignore = "needs root"]
fn a_wrong_target_is_refused_before_it_runs() {
    let run = Run::new();
    let yaml = std::fs::read_to_string(PROBESET).unwrap();
    let refused = |yaml: String, code: &str| {
        let path = run.folder.path().join("wrong.yaml");
        std::fs::write(&path, yaml).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_profinfer"));
        command.arg("record").arg(path).arg("-o").arg(run.trace());
        let output = command.args(["--", &toys().linked(), "5"]).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        assert!(stderr(&output).contains(code), "{}", stderr(&output));
        assert_eq!(reported(&output.stdout)[0], 0, "it did not run");
        assert!(!run.trace().exists(), "nothing is left");
    };
    refused(yaml.replace("toy_graph(", "toy_grapf("), "T005");
    refused(yaml.replace("shape: i64[4]", "shape: i32[4]"), "T008");
    refused(yaml.replace("lane: i32,", "lame: i32,").replace("params->lane", "params->lame"), "T007");
}

#[test]
#[ignore = "needs root"]
fn what_is_not_the_engine_says_what_was_missing() {
    let run = Run::new();
    let output = run.record(&["--", "true"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("T003") || stderr(&output).contains("T010"), "{}", stderr(&output));
    let output = run.record(&["--", "/no/such/program"]);
    assert!(stderr(&output).contains("R001"), "{}", stderr(&output));
    let output = run.record(&["-p", "2147483646"]);
    assert!(stderr(&output).contains("R002"), "{}", stderr(&output));
    assert_eq!(output.status.code(), Some(1));
}

/// The target's own message comes first, then one problem; a trace of the kernel's events alone is none.
#[test]
#[ignore = "needs root"]
fn a_target_that_fails_before_it_calls_the_engine_leaves_no_trace() {
    let run = Run::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_profinfer"));
    command.args(["record", "llama", "-o"]).arg(run.trace());
    let output = command.args(["--", "sh", "-c", "echo model.gguf: not found >&2; exit 3"]).output().unwrap();
    let lines = stderr(&output);
    assert_eq!(output.status.code(), Some(3), "{lines}");
    assert!(lines.starts_with("model.gguf: not found\n"), "{lines}");
    assert_eq!(lines.matches("error[").count(), 1, "{lines}");
    assert!(lines.contains("error[R004]: the target ended with status 3 before a step was recorded"), "{lines}");
    assert!(lines.lines().last().unwrap().starts_with("no trace: 0 steps"), "{lines}");
    assert!(!run.trace().exists());
}

#[test]
#[ignore = "needs root"]
fn through_sudo_the_target_is_the_callers() {
    let run = Run::new();
    let mut command = run.recorder(&["--", "sh", "-c", "id -u; id -g; echo $HOME; exit 9"]);
    let output = command.env("SUDO_UID", "65534").env("SUDO_GID", "65534").env("HOME", "/root").output().unwrap();
    let reported = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<&str> = reported.lines().collect();
    assert_eq!(lines[..2], ["65534", "65534"]);
    assert_ne!(lines[2], "/root");
    assert_eq!(output.status.code(), Some(9));
}

/// One at a time: what these expect depends on how fast the target is.
pub(crate) fn alone() -> std::sync::MutexGuard<'static, ()> {
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
