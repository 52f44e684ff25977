//! The toy with checked results, compiled once in several builds; a run of it under the recorder; what the trace has.

#![allow(dead_code, reason = "for all tests of this program")]

use nix::unistd::Pid;
use profinfer_trace::{Item, Meta, TraceReader};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

pub(crate) const TARGETS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/targets");
pub(crate) const PROBESET: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/targets/chaos.yaml");

/// The folder with the toy (`chaos`) and its engine's builds: `first.so`, `shifted.so` (other offsets), `other.so`
/// (another layout of the tensor, other offsets).
pub(crate) fn builds() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("chaos");
        std::fs::create_dir_all(&folder).unwrap();
        let compile = |output: &str, source: &str, flags: &[&str]| {
            let mut command = Command::new("cc");
            command.args(["-O2", "-g", "-o"]).arg(folder.join(output)).args(flags);
            command.arg(Path::new(TARGETS).join(source)).arg("-ldl");
            assert!(command.status().expect("a C compiler").success(), "{source}");
        };
        let library = ["-shared", "-fPIC"];
        compile("chaos", "chaos.c", &[]);
        compile("first.so", "chaos_engine.c", &library);
        compile("shifted.so", "chaos_engine.c", &[&library[..], &["-DPADDING=7", "-falign-functions=1"]].concat());
        compile(
            "other.so",
            "chaos_engine.c",
            &[&library[..], &["-DPADDING=7", "-falign-functions=1", "-DOTHER_LAYOUT"]].concat(),
        );
        folder
    })
}

/// What the toy's processes did together, by their own count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counts {
    pub(crate) steps: u64,
    pub(crate) operators: u64,
    /// Results that were not what they must be.
    pub(crate) wrong: u64,
    pub(crate) loads: u64,
    pub(crate) processes: u64,
}

impl Counts {
    pub(crate) fn read(file: &Path) -> Self {
        let bytes = std::fs::read(file).unwrap_or_default();
        let number = |i: usize| bytes.get(8 * i..8 * i + 8).map_or(0, |b| u64::from_ne_bytes(b.try_into().unwrap()));
        Self { steps: number(0), operators: number(1), wrong: number(2), loads: number(3), processes: number(4) }
    }
}

/// A folder with an engine of its own (`libchaos.so`), to be replaced at will.
pub(crate) struct Run {
    pub(crate) folder: tempfile::TempDir,
}

impl Run {
    pub(crate) fn new() -> Self {
        let run = Self { folder: tempfile::tempdir().unwrap() };
        std::fs::copy(builds().join("first.so"), run.engine()).unwrap();
        run
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn engine(&self) -> PathBuf {
        self.path("libchaos.so")
    }

    pub(crate) fn trace(&self) -> PathBuf {
        self.path("run.pfi")
    }

    /// Counts of the recorded toy, or of another of this name.
    pub(crate) fn counts(&self, name: &str) -> Counts {
        Counts::read(&self.path(name))
    }

    /// Moves a build over the engine's name, as package managers and linkers do.
    pub(crate) fn replace(&self, build: &str) {
        let beside = self.path("libchaos.new");
        std::fs::copy(builds().join(build), &beside).unwrap();
        std::fs::rename(beside, self.engine()).unwrap();
    }

    /// The toy with its words, counting in the file `name`.
    pub(crate) fn toy(&self, name: &str, words: &[&str]) -> Vec<String> {
        let text = |path: PathBuf| path.display().to_string();
        let mut command = vec![text(builds().join("chaos")), text(self.path(name)), text(self.engine())];
        command.extend(words.iter().map(|word| (*word).to_owned()));
        command
    }

    /// The same for other users: wherever this tree lies, they may have no way to it.
    pub(crate) fn toy_of_others(&self, name: &str, words: &[&str]) -> Vec<String> {
        std::fs::set_permissions(self.folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        let mut command = self.toy(name, words);
        let own = self.path("chaos").display().to_string();
        std::fs::copy(&command[0], &own).unwrap();
        command[0] = own;
        command
    }

    /// `record` with options and a command.
    pub(crate) fn recorder(&self, options: &[&str], words: &[String]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_profinfer"));
        command.args(["record", PROBESET, "-o"]).arg(self.trace()).args(options).arg("--").args(words);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn read(&self) -> Trace {
        Trace::read(&self.trace())
    }
}

/// What is in a trace.
pub(crate) struct Trace {
    pub(crate) counts: BTreeMap<String, u64>,
    pub(crate) meta: Meta,
}

impl Trace {
    pub(crate) fn read(path: &Path) -> Self {
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

    /// Records of this name that are counted as lost.
    pub(crate) fn lost(&self, name: &str) -> u64 {
        let lost = self.meta.losses.iter().filter(|loss| loss.record == name && loss.kind.loses_records());
        lost.map(|loss| loss.count).sum()
    }
}

/// The first line of a report: whether it is complete.
pub(crate) fn report(trace: &Path) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_profinfer")).arg("report").arg(trace).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.success() && text.starts_with("Complete"), text)
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A shell's script run as another user by `su` or `sudo`.
pub(crate) fn as_nobody(wrapper: &str, script: &str) -> Vec<String> {
    let words = match wrapper {
        "su" => vec!["su", "nobody", "-s", "/bin/sh", "-c", script],
        _ => vec!["sudo", "-n", "-u", "nobody", "/bin/sh", "-c", script],
    };
    words.into_iter().map(str::to_owned).collect()
}

/// The state letter of a process: `T` is stopped, `Z` has ended.
pub(crate) fn state(pid: Pid) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// The children of a process.
pub(crate) fn children(of: Pid) -> Vec<Pid> {
    // The kernel lists them by the thread that started them.
    let tasks = std::fs::read_dir(format!("/proc/{of}/task")).into_iter().flatten().flatten();
    let texts = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let all: Vec<String> = texts.collect();
    all.iter().flat_map(|text| text.split_whitespace()).map(|pid| Pid::from_raw(pid.parse().unwrap())).collect()
}

/// What a process calls itself.
pub(crate) fn name(of: Pid) -> Option<String> {
    Some(std::fs::read_to_string(format!("/proc/{of}/comm")).ok()?.trim().to_owned())
}

/// The child of a process that has this name.
pub(crate) fn child_named(of: Pid, wanted: &str) -> Option<Pid> {
    children(of).into_iter().find(|pid| name(*pid).as_deref() == Some(wanted))
}

pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(20), "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
