//! How often candidates are called in a trial run: each is a mark in a probeset of its own, and records are counted.

use super::trace_file;
use crate::diag::{Code, Diagnostic, Diagnostics};
use crate::plan::Selection;
use crate::record::{self, Options, Subject, Terms};
use crate::scaffold::Candidate;
use crate::spec::{self, Library};
use crate::target::{DebugFolders, Target};
use crate::trace::{Item, RecordKind};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write;
use std::time::Duration;

/// Runs a command for so long at most, and writes down how often each candidate was called.
pub(super) fn count(
    command: &[OsString],
    wait: Duration,
    target: &dyn Target,
    candidates: &mut [Candidate],
) -> Result<(), Diagnostics> {
    let (probeset, _) = spec::load_text("trial.yaml", &probeset(target, candidates), &Library::new(&[]))?;
    let folder = tempfile::tempdir().map_err(|error| {
        Diagnostic::error(Code::CannotWrite, format!("cannot make a folder for the trace: {error}"))
    })?;
    let trace = folder.path().join("trial.pfi");
    let options = Options {
        subject: Subject::Command(command.to_vec()),
        output: trace.clone(),
        selection: Selection::default(),
        steps: None,
        duration: Some(wait),
        follow_forks: false,
        attach: None,
        terms: Terms { budget: None, min_rate: None },
        exact: false,
        debug_folders: DebugFolders::default(),
        lock: None,
        object: None,
        ring_bytes: None,
        old_kernel: false,
        described: Vec::new(),
    };
    let mut summary = record::record(&options, &probeset, &mut |_| {})?;
    summary.target.end();
    let mut calls: BTreeMap<String, u64> = BTreeMap::new();
    let mut reader = trace_file::open(&trace)?;
    while let Some(item) = reader.next() {
        if let Item::Record(record) = item
            && record.kind().kind == RecordKind::Mark
        {
            *calls.entry(record.kind().name.clone()).or_default() += 1;
        }
    }
    // What was lost was called, too.
    for loss in summary.losses.iter().filter(|loss| loss.kind.loses_records()) {
        *calls.entry(loss.record.clone()).or_default() += loss.count;
    }
    for (number, candidate) in candidates.iter_mut().enumerate() {
        candidate.calls = Some(calls.get(&probe_name(number)).copied().unwrap_or(0));
    }
    Ok(())
}

fn probe_name(number: usize) -> String {
    format!("candidate_{number}")
}

fn probeset(target: &dyn Target, candidates: &[Candidate]) -> String {
    let mut text = "profinfer: 1\nengine: trial\nmodules:\n".to_owned();
    let mut files: Vec<usize> = candidates.iter().map(|candidate| candidate.file).collect();
    files.sort_unstable();
    files.dedup();
    for file in files {
        let name = target.files().get(file).map_or("", |file| file.name.as_str());
        let _ = writeln!(text, "  m{file}: '{}'", name.replace('\'', "''"));
    }
    text.push_str("probes:\n");
    for (number, candidate) in candidates.iter().enumerate() {
        let (name, file) = (probe_name(number), candidate.file);
        let _ = writeln!(
            text,
            "  {name}:\n    at: m{file}:{}\n    role: mark\n    optional: true\n    nested: all",
            candidate.place
        );
    }
    text
}
