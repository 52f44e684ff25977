//! Outputs, which never take the place of what is somebody's.

use super::toy::{Run, Trace, report, stderr, wait_until};
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const TRACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/traces/v1/llama.pfi");

/// A folder with a trace in it.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        fs::copy(TRACE, place.path("t.pfi")).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_profinfer"));
        command.args(words).current_dir(self.0.path()).stdin(Stdio::null());
        command
    }

    /// What a command says, which must end by itself.
    fn run(&self, words: &[&str]) -> Output {
        let started = Instant::now();
        let mut command = Command::new("timeout");
        command.arg("20").arg(env!("CARGO_BIN_EXE_profinfer")).args(words);
        let output = command.current_dir(self.0.path()).stdin(Stdio::null()).output().unwrap();
        assert!(started.elapsed() < Duration::from_secs(20), "{words:?} hangs");
        output
    }

    #[track_caller]
    fn succeeds(&self, words: &[&str]) -> Output {
        let output = self.run(words);
        assert!(output.status.success(), "{words:?}: {}", stderr(&output));
        output
    }

    /// Refused, with this code.
    #[track_caller]
    fn refused(&self, words: &[&str], code: &str) -> String {
        let output = self.run(words);
        let reported = stderr(&output);
        assert!(
            !output.status.success() && reported.contains(code) && reported.contains("help: "),
            "{words:?}: {reported}"
        );
        reported
    }

    /// Names in the folder that a command left over.
    fn left_over(&self) -> Vec<String> {
        let names = self.0.path().read_dir().unwrap().map(|entry| entry.unwrap().file_name());
        names.map(|name| name.to_string_lossy().into_owned()).filter(|name| name.starts_with('.')).collect()
    }
}

#[test]
fn no_command_writes_over_what_it_reads() {
    let place = Place::new();
    fs::hard_link(place.path("t.pfi"), place.path("hard")).unwrap();
    symlink("t.pfi", place.path("link")).unwrap();
    symlink(".", place.path("here")).unwrap();
    let before = fs::read(place.path("t.pfi")).unwrap();
    for output in ["./t.pfi", "hard", "here/here/link", "/proc/self/cwd/t.pfi"] {
        for command in [&["timeline"][..], &["html"], &["graph", "--format", "svg"], &["export", "--table", "steps"]] {
            for force in [&[][..], &["--force"]] {
                // `export` takes a name without an extension for a folder's, if there is nothing.
                let words = [&command[..1], &["t.pfi", "-o", output], &command[1..], force].concat();
                place.refused(&words, "U002");
            }
        }
    }
    place.refused(&["diff", "t.pfi", TRACE, "--html", "hard", "--force"], "U002");
    place.refused(&["graph", TRACE, "--against", "t.pfi", "--format", "json", "-o", "hard", "--force"], "U002");
    let stdin = fs::File::open(place.path("t.pfi")).unwrap();
    let read = place.command(&["html", "-", "-o", "t.pfi", "--force"]).stdin(stdin).output().unwrap();
    assert!(stderr(&read).contains("U002"), "{}", stderr(&read));
    let appended = fs::OpenOptions::new().append(true).open(place.path("t.pfi")).unwrap();
    let read = place.command(&["html", "t.pfi", "-o", "-"]).stdout(appended).output().unwrap();
    assert!(stderr(&read).contains("U002"), "{}", stderr(&read));
    assert_eq!(fs::read(place.path("t.pfi")).unwrap(), before);
    assert!(place.path("link").is_symlink() && place.left_over().is_empty());
}

#[test]
fn only_earlier_outputs_of_the_same_kind_are_replaced() {
    let place = Place::new();
    let kinds: &[(&[&str], &[&str])] = &[
        (&["html", "t.pfi", "-o"], &["page.html"]),
        (&["diff", "t.pfi", TRACE, "--html"], &["diff.html"]),
        (&["timeline", "t.pfi", "-o"], &["t.pftrace"]),
        (&["timeline", "t.pfi", "--format", "chrome", "-o"], &["t.json"]),
        (&["graph", "t.pfi", "-o"], &["g.svg", "g.dot", "g.graphml", "g.json"]),
        (&["export", "t.pfi", "-o"], &["tables"]),
        (&["export", "t.pfi", "--format", "ndjson", "--table", "steps", "-o"], &["steps.ndjson"]),
        (&["gen", "ggml", "-o"], &["g.c"]),
        (&["schema", "-o"], &["s.json"]),
    ];
    for (words, names) in kinds {
        for name in *names {
            place.succeeds(&[*words, &[name]].concat());
            place.succeeds(&[*words, &[name]].concat());
        }
    }
    // Something else in its place is not touched.
    for (words, names) in kinds.iter().filter(|(words, _)| words[0] != "export") {
        for name in *names {
            fs::write(place.path(name), "years of work\n").unwrap();
            place.refused(&[*words, &[name]].concat(), "U002");
            assert_eq!(fs::read(place.path(name)).unwrap(), b"years of work\n");
            fs::write(place.path(name), "").unwrap();
            place.succeeds(&[*words, &[name]].concat());
            fs::write(place.path(name), "profinfer: 1\nengine: mine\n").unwrap();
            place.refused(&[*words, &[name, "--force"]].concat(), "U002");
            fs::write(place.path(name), "years of work\n").unwrap();
            place.succeeds(&[*words, &[name, "--force"]].concat());
        }
    }
    // Text has no mark, another trace is no page, and another page is no picture.
    place.succeeds(&["graph", "t.pfi", "-o", "g.txt"]);
    place.refused(&["graph", "t.pfi", "-o", "g.txt"], "U002");
    fs::copy(TRACE, place.path("other.pfi")).unwrap();
    place.refused(&["html", "t.pfi", "-o", "other.pfi"], "U002");
    place.refused(&["graph", "t.pfi", "--format", "svg", "-o", "page.html"], "U002");
    fs::set_permissions(place.path("page.html"), fs::Permissions::from_mode(0o440)).unwrap();
    place.refused(&["html", "t.pfi", "-o", "page.html"], "write-protected");
    fs::set_permissions(place.path("page.html"), fs::Permissions::from_mode(0o640)).unwrap();
    place.succeeds(&["html", "t.pfi", "-o", "page.html"]);
    assert_eq!(place.path("page.html").metadata().unwrap().mode() & 0o777, 0o640, "what it was");
    assert_eq!(place.left_over(), [""; 0]);
}

#[test]
fn no_link_is_followed_and_nothing_hangs() {
    let place = Place::new();
    for (link, to) in [("file", "mine"), ("nowhere", "not/there"), ("absolute", "/etc/hostname")] {
        fs::write(place.path("mine"), "").unwrap();
        symlink(to, place.path(link)).unwrap();
        place.refused(&["html", "t.pfi", "-o", link], "U002");
        place.succeeds(&["html", "t.pfi", "-o", link, "--force"]);
        assert!(!place.path(link).is_symlink() && fs::read(place.path("mine")).unwrap().is_empty());
    }
    fs::create_dir(place.path("folder")).unwrap();
    assert!(Command::new("mkfifo").arg(place.path("fifo")).status().unwrap().success());
    let _socket = std::os::unix::net::UnixListener::bind(place.path("socket")).unwrap();
    for what in ["folder", "fifo", "socket"] {
        for command in ["html", "timeline"] {
            place.refused(&[command, "t.pfi", "-o", what, "--force"], "U002");
        }
        place.refused(&["report", what], "F001");
        place.refused(&["check", "ggml", "--target", what], "T00");
        place.refused(&["check", &format!("./{what}")], "S001");
        place.refused(&["gen", "ggml", "--lock", what], "L001");
    }
    for device in ["/dev/zero", "/dev/null", "/dev/full"] {
        assert!(!place.run(&["report", device]).status.success(), "{device}");
        place.refused(&["check", "ggml", "--target", device], "T00");
        place.refused(&["check", device], "S001");
    }
    // Devices and pipes with a reader are written to.
    place.succeeds(&["html", "t.pfi", "-o", "/dev/null"]);
    for words in
        [&["html", "t.pfi", "-o"][..], &["timeline", "t.pfi", "-o"], &["graph", "t.pfi", "--format", "svg", "-o"]]
    {
        place.refused(&[words, &["/dev/full"]].concat(), "R003");
    }
    for format in ["csv", "ndjson"] {
        place.refused(&["export", "t.pfi", "--format", format, "--table", "lanes", "-o", "/dev/full"], "R003");
    }
    let piped = fs::File::create(place.path("piped")).unwrap();
    let mut reader = Command::new("cat").arg(place.path("fifo")).stdout(piped).spawn().unwrap();
    place.succeeds(&["html", "t.pfi", "-o", "fifo"]);
    reader.wait().unwrap();
    let piped = fs::read(place.path("piped")).unwrap();
    let page = place.succeeds(&["html", "t.pfi", "-o", "-"]).stdout;
    assert!(
        !page.is_empty() && piped == page && place.succeeds(&["html", "t.pfi", "-o", "/dev/stdout"]).stdout == page
    );
    let shell = format!("cat t.pfi >fifo & {} report fifo; cat t.pfi | {0} report -", env!("CARGO_BIN_EXE_profinfer"));
    let reports = Command::new("sh").args(["-c", &shell]).current_dir(place.0.path()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&reports.stdout).matches("Complete").count(), 2, "{}", stderr(&reports));
}

#[test]
fn a_killed_command_leaves_what_was_there() {
    let place = Place::new();
    place.succeeds(&["html", "t.pfi", "-o", "page.html"]);
    let before = fs::read(place.path("page.html")).unwrap();
    for delay in [5, 40, 120] {
        let mut child = place.command(&["html", "t.pfi", "-o", "page.html"]).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(delay));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(fs::read(place.path("page.html")).unwrap(), before, "{delay} ms");
    }
    // The trace is cut meanwhile, or there is no such step: nothing comes of it, and nothing is left.
    place.refused(&["timeline", "t.pfi", "--steps", "900..", "-o", "new.pftrace"], "U001");
    assert!(!place.path("new.pftrace").exists());
    assert_eq!(place.left_over(), [""; 0]);
}

/// Whether a text would steer a terminal.
fn steers(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    text.chars().any(|c| c != '\n' && c != '\t' && profinfer_diagnostics::steers(c))
}

#[test]
fn no_name_reaches_a_terminal_as_it_is() {
    let place = Place::new();
    let evil = "\u{1b}]0;title\u{7}\u{1b}[2J\u{202e}fdp\n\u{9b}31m\r";
    let library = place.path(&format!("lib{evil}.so"));
    let source = place.path("e.c");
    fs::write(&source, "int chaos_step(int n) { return n; }\n").unwrap();
    let compiled = Command::new("cc").args(["-g", "-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status();
    assert!(compiled.unwrap().success());
    let folder = format!("{evil}-folder");
    fs::create_dir(place.path(&folder)).unwrap();
    let probeset = format!("{folder}/p{evil}.yaml");
    let text = "profinfer: 1\nengine: \"a\u{202e}b\"\nsummary: of a test\nmodules: { m: 'lib*.so' }\nprobes:\n  step: { at: 'm:chaos_step(i32 n)', \
                role: step, fields: { tokens: n } }\n";
    fs::write(place.path(&probeset), text).unwrap();
    let trace = format!("{evil}.pfi");
    fs::copy(TRACE, place.path(&trace)).unwrap();
    let target = library.to_str().unwrap();
    let missing = format!("no{evil}");
    let wrong = format!("{folder}/wrong{evil}.yaml");
    fs::write(place.path(&wrong), text.replace("role: step", "rol\u{202e}e: step")).unwrap();
    let commands: &[&[&str]] = &[
        &["check", &probeset, "--target", target],
        &["check", &probeset, "--target", target, "--json"],
        &["check", &wrong],
        &["explain", &probeset, "step", "--target", target],
        &["explain", &probeset, &missing, "--target", target],
        &["gen", &probeset],
        &["gen", &probeset, "--target", target],
        &["gen", &probeset, "--target", target, "--format", "bpftrace"],
        &["scaffold", target],
        &["lock", &probeset, "--target", target, "-o", &missing],
        &["check", &probeset, "--target", &missing],
        &["check", &missing],
        &["report", &missing],
        &["report", &trace],
        &["info", &trace],
        &["diff", &trace, TRACE],
        &["diff", &trace, TRACE, "--json"],
        &["html", &trace],
        &["timeline", &trace],
        &["export", &trace, "-o", &folder, "--format", "ndjson"],
        &["graph", &trace, "--engine", &missing],
    ];
    for words in commands {
        let output = place.run(words);
        assert!(!steers(&output.stdout), "{words:?}: {:?}", String::from_utf8_lossy(&output.stdout));
        assert!(!steers(&output.stderr), "{words:?}: {:?}", String::from_utf8_lossy(&output.stderr));
    }
    // Bytes that are no text, and a dash first.
    for name in [&b"\xff\xfe\x1b[2J.pfi"[..], b"-dash.pfi", b"--force"] {
        let name = std::ffi::OsStr::from_bytes(name);
        fs::copy(TRACE, place.0.path().join(name)).unwrap();
        let mut command = place.command(&["html"]);
        let output = command.arg(Path::new(".").join(name)).output().unwrap();
        assert!(output.status.success() && !steers(&output.stderr), "{name:?}: {}", stderr(&output));
    }
}

// ---- recordings --------------------------------------------------------------------------------------------------

fn profinfer_record(run: &Run, output: &str, more: &[&str], toy: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_profinfer"));
    command.args(["record", super::toy::PROBESET, "-o", output]).args(more).arg("--").args(run.toy("counts", toy));
    command.current_dir(run.folder.path()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
#[ignore = "needs root"]
fn a_recording_destroys_nothing_that_it_is_not_worth() {
    let run = Run::new();
    let toy = ["rounds=20"];
    // What is somebody's, and the engine's own files.
    let engine = run.engine().display().to_string();
    let probeset = run.path("mine.yaml").display().to_string();
    fs::copy(super::toy::PROBESET, &probeset).unwrap();
    fs::write(run.path("victim"), "years of work\n").unwrap();
    symlink("victim", run.path("link")).unwrap();
    fs::hard_link(&engine, run.path("hard")).unwrap();
    for (output, force) in
        [("victim", false), ("link", false), ("mine.yaml", false), ("mine.yaml", true), ("hard", true), (".", true)]
    {
        let output = profinfer_record(&run, output, if force { &["--force"] } else { &[] }, &toy).output().unwrap();
        assert!(!output.status.success() && stderr(&output).contains("U002"), "{}", stderr(&output));
    }
    assert_eq!(run.counts("counts").steps, 0, "nothing ran");
    assert_eq!(fs::read(run.path("victim")).unwrap(), b"years of work\n");
    // A trace is private, and replaced only when the new one has begun.
    let recorded = profinfer_record(&run, "run.pfi", &[], &toy).output().unwrap();
    assert!(recorded.status.success(), "{}", stderr(&recorded));
    assert_eq!(run.trace().metadata().unwrap().mode() & 0o777, 0o600);
    let before = fs::read(run.trace()).unwrap();
    for failing in [&["/no/such/program"][..], &["true"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_profinfer"));
        command.args(["record", super::toy::PROBESET, "-o"]).arg(run.trace()).arg("--").args(failing);
        let output = command.output().unwrap();
        if failing[0] != "true" {
            assert!(!output.status.success());
            assert_eq!(fs::read(run.trace()).unwrap(), before, "{failing:?}");
        }
    }
    let again = profinfer_record(&run, "run.pfi", &["--mode", "644"], &toy).output().unwrap();
    assert!(again.status.success(), "{}", stderr(&again));
    assert_eq!(run.trace().metadata().unwrap().mode() & 0o777, 0o644);
    assert!(report(&run.trace()).0);
    let hidden = run.folder.path().read_dir().unwrap();
    assert!(!hidden.flatten().any(|entry| entry.file_name().as_bytes().starts_with(b".")), "nothing is left over");
}

#[test]
#[ignore = "needs root"]
fn two_recorders_never_write_one_trace() {
    for older in [false, true] {
        let run = Run::new();
        if older {
            fs::copy(TRACE, run.trace()).unwrap();
        }
        let start = || profinfer_record(&run, "run.pfi", &[], &["ms=4000", "pause=1000"]).spawn().unwrap();
        let (mut one, mut other) = (start(), start());
        // A reader is not disturbed while it grows, and nothing else takes its place.
        wait_until("one of them is refused", || {
            one.try_wait().unwrap().is_some() || other.try_wait().unwrap().is_some()
        });
        let mut page = Command::new(env!("CARGO_BIN_EXE_profinfer"));
        page.args(["html", TRACE, "--force", "-o"]).arg(run.trace());
        let page = page.output().unwrap();
        let outputs = [one.wait_with_output().unwrap(), other.wait_with_output().unwrap()];
        let done = outputs.iter().filter(|output| output.status.success()).count();
        let refused = outputs.iter().filter(|output| stderr(output).contains("U003")).count();
        let reported: Vec<String> = outputs.iter().map(stderr).collect();
        assert_eq!((done, refused), (1, 1), "{reported:?}");
        assert!(stderr(&page).contains("U003"), "{}", stderr(&page));
        assert!(report(&run.trace()).0, "{}", report(&run.trace()).1);
    }
}

#[test]
#[ignore = "needs root"]
fn a_trace_is_streamed_and_its_reader_may_go() {
    let run = Run::new();
    let mut recorder = profinfer_record(&run, "-", &[], &["rounds=50"]).spawn().unwrap();
    let mut streamed = Vec::new();
    recorder.stdout.take().unwrap().read_to_end(&mut streamed).unwrap();
    let output = recorder.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    fs::write(run.trace(), &streamed).unwrap();
    let (counts, trace) = (run.counts("counts"), Trace::read(&run.trace()));
    assert_eq!(trace.count("step"), counts.steps);
    assert!(report(&run.trace()).0);
    // The target's own words do not mix with it.
    let mut command = Command::new(env!("CARGO_BIN_EXE_profinfer"));
    let shell = format!("echo hello; exec {}", run.toy("counts", &["rounds=5"]).join(" "));
    command.args(["record", super::toy::PROBESET, "-o", "-", "--", "sh", "-c", &shell]);
    let output = command.output().unwrap();
    assert!(output.stdout.starts_with(b"\x89PFI") && stderr(&output).contains("hello"), "{}", stderr(&output));
    // The reader ends, or stands still: the target ends by itself, with every result right.
    for reader in ["head -c 100 >/dev/null", "sleep 4"] {
        let run = Run::new();
        let words = run.toy("counts", &["ms=1500"]).join(" ");
        let record = format!("{} record {} -o - -- {words}", env!("CARGO_BIN_EXE_profinfer"), super::toy::PROBESET);
        let shell = format!("({record}; echo status $? >&2) | {reader}");
        let output = Command::new("timeout").args(["20", "sh", "-c", &shell]).output().unwrap();
        let reported = stderr(&output);
        wait_until("the toy ends", || run.counts("counts").steps > 0);
        assert_eq!(run.counts("counts").wrong, 0);
        assert!(reported.contains("status"), "{reader}: {reported}");
        assert!(reader.starts_with("sleep") || reported.contains("its reader has ended"), "{reported}");
    }
}
