//! Stripped programs: with a lock file, or with the debug information that was taken out of them, they are recorded as
//! the unstripped ones are; and what is of another build or probeset is refused. What records needs root.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

const PROBESET: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/targets/toy.yaml");

/// The toy engine, linked into its program; and a stripped copy.
struct Toy(TempDir);

impl Toy {
    fn new(flags: &[&str]) -> Self {
        let toy = Self(tempfile::tempdir().unwrap());
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/targets");
        let mut cc = Command::new("cc");
        cc.args(["-O2", "-g", "-DLINKED", "-Wl,--build-id=sha1", "-o"]).arg(toy.path("toy")).args(flags);
        succeeds(cc.args(["toy.c", "toy_engine.c"].map(|file| sources.join(file))).args(["-ldl", "-lpthread"]));
        std::fs::create_dir(toy.path("stripped")).unwrap();
        succeeds(Command::new("strip").args(["--strip-all", "-o"]).args([toy.path("stripped/toy"), toy.path("toy")]));
        toy
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// Runs a subcommand on the toy's probeset in the toy's folder.
    fn profinfer(&self, subcommand: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_profinfer"));
        command.args([subcommand, PROBESET]).args(arguments).current_dir(self.0.path());
        command
    }

    fn lock(&self) {
        succeeds(&mut self.profinfer("lock", &["--target", "toy", "-o", "toy.lock"]));
    }

    /// What `check --json` says, and its exit code.
    fn check(&self, arguments: &[&str]) -> (Value, Option<i32>) {
        let output = self.profinfer("check", &[&["--json"], arguments].concat()).output().unwrap();
        (serde_json::from_slice(&output.stdout).unwrap(), output.status.code())
    }

    /// What a recording has, without what differs from run to run.
    fn events(&self, trace: &str) -> BTreeMap<String, u64> {
        let mut dump = Command::new(env!("CARGO_BIN_EXE_profinfer"));
        let output = succeeds(dump.arg("dump").arg(self.path(trace)));
        let mut events = BTreeMap::new();
        for line in String::from_utf8(output.stdout).unwrap().lines() {
            let mut event: Value = serde_json::from_str(line).unwrap();
            if event.get("event").is_some() {
                continue;
            }
            let fields = event["fields"].as_object_mut().unwrap();
            for address in ["node", "inputs"] {
                fields.remove(address);
            }
            let what = [&event["probe"], &event["object"], &event["function"], &event["fields"]];
            *events.entry(format!("{what:?}")).or_insert(0) += 1;
        }
        events
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[track_caller]
fn succeeds(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}\n{}", stderr(&output));
    output
}

fn without_compiler(command: &mut Command) -> &mut Command {
    command.env("PATH", "/nowhere").env_remove("CLANG")
}

/// The sites and paths, without where the latter are known from.
fn found(check: &Value) -> (Value, Value, Vec<Value>) {
    let mut sites = check["sites"].clone();
    for site in sites.as_array_mut().unwrap() {
        site.as_object_mut().unwrap().remove("file");
    }
    let mut paths = check["paths"].clone();
    let from = |path: &mut Value| path.as_object_mut().unwrap().remove("from").unwrap();
    let from = paths.as_array_mut().unwrap().iter_mut().map(from).collect();
    (sites, paths, from)
}

#[test]
fn a_lock_says_of_a_stripped_program_what_its_debug_information_reported() {
    let toy = Toy::new(&[]);
    toy.lock();
    let (whole, status) = toy.check(&["--target", "toy"]);
    assert_eq!(status, Some(0));
    let (stripped, status) = toy.check(&["--target", "stripped/toy", "--lock", "toy.lock"]);
    assert_eq!(status, Some(0), "{:#}", stripped["problems"]);
    let (whole, stripped) = (found(&whole), found(&stripped));
    assert_eq!((&stripped.0, &stripped.1), (&whole.0, &whole.1));
    assert_eq!(stripped.0.as_array().unwrap().len(), 3);
    let lock = |from: &Vec<Value>| from.iter().filter(|from| **from == "lock").count();
    let dwarf = whole.2.iter().filter(|from| **from == "DWARF").count();
    assert_eq!((lock(&stripped.2), lock(&whole.2)), (dwarf, 0));
    assert!(dwarf >= 6, "{:?}", whole.2);
    let (bare, status) = toy.check(&["--target", "stripped/toy"]);
    assert_eq!((status, &bare["sites"]), (Some(1), &Value::Array(vec![])), "without it nothing is known");
}

#[test]
fn debug_information_that_was_taken_out_is_found() {
    let toy = Toy::new(&[]);
    let (whole, _) = toy.check(&["--target", "toy"]);
    std::fs::create_dir(toy.path("symbols")).unwrap();
    let debug = toy.path("symbols/toy.debug");
    succeeds(Command::new("objcopy").arg("--only-keep-debug").arg(toy.path("toy")).arg(&debug));
    let (stripped, status) = toy.check(&["--target", "stripped/toy", "--debug-dir", "symbols"]);
    assert_eq!(status, Some(0), "{:#}", stripped["problems"]);
    assert_eq!(found(&stripped), found(&whole));
    // The lock can be made of it too.
    toy.lock();
    let whole = std::fs::read_to_string(toy.path("toy.lock")).unwrap();
    let arguments = ["--target", "stripped/toy", "--debug-dir", "symbols", "-o", "other.lock"];
    succeeds(&mut toy.profinfer("lock", &arguments));
    let other = std::fs::read_to_string(toy.path("other.lock")).unwrap();
    let without_size = |text: &str| {
        let mut lock: Value = serde_json::from_str(text).unwrap();
        lock["files"][0].as_object_mut().unwrap().remove("size").unwrap();
        lock
    };
    assert_eq!(without_size(&other), without_size(&whole));
    // Of another build it is refused.
    let other = Toy::new(&["-DOTHER", "-fno-inline"]);
    let symbols = toy.text("symbols");
    let (refused, status) = other.check(&["--target", "stripped/toy", "--debug-dir", &symbols]);
    assert_eq!(status, Some(1));
    assert!(refused["problems"].to_string().contains("D001"), "{:#}", refused["problems"]);
}

#[test]
fn a_lock_of_another_build_is_refused_with_both_build_ids() {
    let (toy, other) = (Toy::new(&[]), Toy::new(&["-fno-inline"]));
    toy.lock();
    let lock = toy.text("toy.lock");
    let build_id = |toy: &Toy| {
        let (check, _) = toy.check(&["--target", "toy"]);
        check["modules"][0]["build_id"].as_str().unwrap().to_owned()
    };
    // With debug information of its own too: who gives a lock means this very build.
    for target in ["toy", "stripped/toy"] {
        let (check, status) = other.check(&["--target", target, "--lock", &lock]);
        assert_eq!(status, Some(1));
        let problems = check["problems"].as_array().unwrap();
        let refusal = problems.iter().find(|problem| problem["code"] == "L002").expect("the refusal");
        let notes = refusal["notes"].to_string();
        assert!(notes.contains(&build_id(&toy)) && notes.contains(&build_id(&other)), "{notes}");
    }
}

#[test]
fn a_site_that_is_chosen_otherwise_is_reported() {
    let toy = Toy::new(&[]);
    toy.lock();
    let mut lock: Value = serde_json::from_slice(&std::fs::read(toy.path("toy.lock")).unwrap()).unwrap();
    let site = &mut lock["files"][0]["sites"][0];
    for key in ["file_offset", "function_offset"] {
        site[key] = (site[key].as_u64().unwrap() + 3).into();
    }
    std::fs::write(toy.path("toy.lock"), lock.to_string()).unwrap();
    let (check, status) = toy.check(&["--target", "stripped/toy", "--lock", "toy.lock"]);
    assert_eq!(status, Some(0), "what is chosen here is used");
    let problems = check["problems"].as_array().unwrap();
    let difference = problems.iter().find(|problem| problem["code"] == "L003").expect("it is reported");
    assert_eq!(difference["notes"].as_array().unwrap().len(), 1, "{difference}");
    assert!(difference["notes"][0].as_str().unwrap().contains("toy_step"), "{difference}");
}

#[test]
fn what_cannot_be_locked_or_read_is_reported() {
    let toy = Toy::new(&[]);
    let refused = |subcommand: &str, arguments: &[&str], code: &str| {
        let output = toy.profinfer(subcommand, arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        assert!(stderr(&output).contains(&format!("error[{code}]")), "{}", stderr(&output));
    };
    refused("lock", &["--target", "stripped/toy", "-o", "x.lock"], "T010");
    assert!(!toy.path("x.lock").exists(), "nothing is written then");
    succeeds(Command::new("objcopy").args(["--remove-section", ".note.gnu.build-id"]).arg(toy.path("toy")));
    refused("lock", &["--target", "toy", "-o", "x.lock"], "L004");
    for (name, text) in [("empty.lock", ""), ("other.lock", "{\"lock\": 7}")] {
        std::fs::write(toy.path(name), text).unwrap();
        refused("check", &["--target", "stripped/toy", "--lock", name], "L001");
    }
    refused("check", &["--lock", "missing.lock"], "L001");
    refused("check", &["--lock", "."], "L001");
}

#[test]
#[ignore = "needs root"]
fn a_stripped_program_is_recorded_without_debug_information_and_compiler() {
    let toy = Toy::new(&[]);
    let record = |program: &str, trace: &str, arguments: &[&str]| {
        let program = toy.text(program);
        let words = [arguments, &["-o", trace, "--", &program, "20", "6", "2"]].concat();
        toy.profinfer("record", &words)
    };
    succeeds(&mut record("toy", "whole.pfi", &[]));
    toy.lock();
    succeeds(&mut toy.profinfer("build", &["-o", "toy.bpf.o"]));
    let brought = ["--lock", "toy.lock", "--object", "toy.bpf.o"];
    let output = succeeds(without_compiler(&mut record("stripped/toy", "stripped.pfi", &brought)));
    assert!(stderr(&output).contains(" 0 lost"), "{}", stderr(&output));
    let whole = toy.events("whole.pfi");
    assert!(whole.values().sum::<u64>() > 280, "{whole:?}");
    assert_eq!(toy.events("stripped.pfi"), whole);
    // The object is of the whole of the probeset, and of nothing else.
    let other = record("stripped/toy", "x.pfi", &[&brought[..], &["--level", "graph"]].concat()).output().unwrap();
    assert_eq!(other.status.code(), Some(1));
    assert!(stderr(&other).contains("error[B021]"), "{}", stderr(&other));
    let bare = without_compiler(&mut record("stripped/toy", "x.pfi", &["--lock", "toy.lock", "--object", "toy.lock"]))
        .output()
        .unwrap();
    assert!(stderr(&bare).contains("no object that profinfer compiled"), "{}", stderr(&bare));
    assert!(!toy.path("x.pfi").exists());
}

#[test]
#[ignore = "needs root"]
fn a_lock_of_another_build_ends_the_recording_before_it_begins() {
    let (toy, other) = (Toy::new(&[]), Toy::new(&["-fno-inline"]));
    toy.lock();
    let (lock, program) = (toy.text("toy.lock"), other.text("stripped/toy"));
    let output = other.profinfer("record", &["--lock", &lock, "-o", "x.pfi", "--", &program, "5"]).output().unwrap();
    assert!(stderr(&output).contains("error[L002]"), "{}", stderr(&output));
    assert!(!other.path("x.pfi").exists());
}

#[test]
fn what_would_make_no_difference_is_not_accepted() {
    let toy = Toy::new(&[]);
    toy.lock();
    // An object has no offsets in it, and a lock is written of a target, not of another lock.
    let arguments: [(&str, &[&str]); 3] = [
        ("build", &["--lock", "toy.lock", "-o", "x"]),
        ("build", &["--debug-dir", "stripped", "-o", "x"]),
        ("lock", &["--target", "toy", "--lock", "toy.lock", "-o", "x"]),
    ];
    for (subcommand, arguments) in arguments {
        let output = toy.profinfer(subcommand, arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{subcommand} {arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains("unexpected argument"), "{}", stderr(&output));
        assert!(!toy.path("x").exists());
    }
}

#[test]
fn an_object_for_another_instruction_set_needs_no_target() {
    let toy = Toy::new(&[]);
    succeeds(&mut toy.profinfer("build", &["--arch", "aarch64", "-o", "toy.bpf.o"]));
    let object = std::fs::read(toy.path("toy.bpf.o")).unwrap();
    let says = b"profinfer ".iter().chain(env!("CARGO_PKG_VERSION").as_bytes()).chain(b" aarch64 ");
    let says: Vec<u8> = says.copied().collect();
    assert!(object.windows(says.len()).any(|window| window == says), "it says what it was compiled for");
}
