//! A program in C++ that prints what it passes to probed functions: every record is compared with it.

use crate::invocation::succeeds;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// The compiled program of `tests/targets/NAME.cpp`, and in `stripped/` without debug information.
pub(crate) struct PrintedTarget {
    folder: TempDir,
    name: &'static str,
}

impl PrintedTarget {
    pub(crate) fn new(name: &'static str, compiler: &str, flags: &[&str]) -> Self {
        let target = Self { folder: tempfile::tempdir().unwrap(), name };
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/targets/{name}.cpp"));
        let mut command = Command::new(compiler);
        command.args(["-std=c++17", "-g", "-Wl,--build-id=sha1", "-Wno-invalid-offsetof", "-o"]);
        succeeds(command.arg(target.path(name)).args(flags).arg(source));
        std::fs::create_dir(target.path("stripped")).unwrap();
        let (to, from) = (target.path("stripped").join(name), target.path(name));
        succeeds(Command::new("strip").args(["--strip-debug", "-o"]).args([to, from]));
        target
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn profinfer(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_profinfer"));
        command.args(arguments).current_dir(self.folder.path());
        command
    }

    /// Records the program, and compares every record of its `probes` with what it prints. Gives the report: the recording
    /// is incomplete for what the program makes to be wrong.
    pub(crate) fn assert_recorded(&self, probeset: &str, program: &str, options: &[&str], probes: usize) -> String {
        let mut record = self.profinfer(&["record", probeset, "-o", "run.pfi"]);
        let output = record.args(options).args(["--", program]).output().unwrap();
        let reported = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(4), "{reported}");
        let dump = succeeds(&mut self.profinfer(&["dump", "run.pfi"]));
        let (printed, recorded) = (lines(&output.stdout), lines(&dump.stdout));
        let mut names: Vec<&str> = printed.iter().map(|line| line["probe"].as_str().unwrap()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), probes, "{names:?}");
        for probe in names {
            let of = |lines: &[Value]| -> Vec<Value> {
                lines.iter().filter(|line| line["probe"] == probe).map(|line| line["fields"].clone()).collect()
            };
            let (printed, recorded) = (of(&printed), of(&recorded));
            assert_eq!(printed.len(), recorded.len(), "{probe}: {reported}");
            for (printed, recorded) in printed.iter().zip(&recorded) {
                assert_eq!(printed, recorded, "{probe}: {reported}");
            }
        }
        let report = self.profinfer(&["report", "--all", "run.pfi"]).output().unwrap();
        String::from_utf8_lossy(&report.stdout).into_owned()
    }

    /// A lock file of the program.
    pub(crate) fn lock(&self, probeset: &str, lock: &str) {
        succeeds(&mut self.profinfer(&["lock", probeset, "--target", self.name, "-o", lock]));
    }

    /// Members and their offsets, as the program prints them.
    pub(crate) fn offsets(&self) -> Vec<(String, String)> {
        let offsets = succeeds(Command::new(self.path(self.name)).arg("offsets")).stdout;
        let pair = |line: &str| line.split_once(' ').map(|(member, offset)| (member.to_owned(), offset.to_owned()));
        String::from_utf8(offsets).unwrap().lines().map(|line| pair(line).unwrap()).collect()
    }
}

/// Writes the offset behind a member of a C++ class.
pub(crate) fn declare(text: &mut String, member: &str, offset: &str) {
    let start = text.find(&format!("\n    {member}: std::")).unwrap_or_else(|| panic!("{member}"));
    let end = start + 1 + text[start + 1..].find('\n').unwrap();
    text.insert_str(end, &format!(" @ {offset}"));
}

fn lines(text: &[u8]) -> Vec<Value> {
    let text = String::from_utf8_lossy(text).into_owned();
    text.lines().filter(|line| line.starts_with('{')).map(|line| serde_json::from_str(line).unwrap()).collect()
}
