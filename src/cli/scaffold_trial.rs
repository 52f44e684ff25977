//! How often candidates are called in a trial run: a probeset of its own marks them, and its records are counted. Functions
//! with plain names are one probe together, whatever their number.

use super::short_run::ShortRun;
use crate::diag::Diagnostics;
use crate::record::Subject;
use crate::scaffold::{self, Candidate};
use crate::spec::{self, Library};
use crate::target::Target;
use std::collections::{BTreeMap, BTreeSet};
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
    let run = ShortRun::new(Subject::Command(command.to_vec()), wait)?;
    let summary = run.record(&probeset)?;
    let mut calls: BTreeMap<String, u64> = BTreeMap::new();
    run.trace()?.for_each_record(|record| {
        let own = &record.kind().name;
        // Of those that are one probe, the function says which it is.
        let file = own.strip_prefix(PLAIN).and_then(|rest| rest.split('_').next());
        let place = record.site().and_then(|site| scaffold::place(&site.function));
        let name = file.zip(place).map_or_else(|| own.clone(), |(file, place)| format!("{PLAIN}{file} {place}"));
        *calls.entry(name).or_default() += 1;
        true
    });
    // What was lost was called, too; of which of several it was, is not known.
    for loss in summary.losses.iter().filter(|loss| loss.kind.loses_records()) {
        *calls.entry(loss.record.clone()).or_default() += loss.count;
    }
    for (number, candidate) in candidates.iter_mut().enumerate() {
        let name = match is_plain(candidate) {
            true => format!("{PLAIN}{} {}", candidate.file, candidate.place),
            false => probe_name(number),
        };
        candidate.calls = Some(calls.get(&name).copied().unwrap_or(0));
    }
    Ok(())
}

/// The beginning of the name of a probe that is at many functions of a file, whose number follows.
const PLAIN: &str = "plain_";
/// Bytes of names in one pattern; the language takes 1024 in a name.
const MOST_BYTES: usize = 1000;

/// Names, with commas between them, as many together as one pattern takes.
fn grouped(names: &[&str]) -> Vec<String> {
    let mut groups: Vec<String> = Vec::new();
    for name in names.iter().filter(|name| name.len() < MOST_BYTES) {
        match groups.last_mut().filter(|group| group.len() + name.len() < MOST_BYTES) {
            Some(group) => {
                group.push(',');
                group.push_str(name);
            }
            None => groups.push((*name).to_owned()),
        }
    }
    groups
}

/// Whether a candidate's name can be one of several in a pattern.
fn is_plain(candidate: &Candidate) -> bool {
    candidate.overrides.is_none()
        && candidate.place.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b':')
}

fn probe_name(number: usize) -> String {
    format!("candidate_{number}")
}

fn probeset(target: &dyn Target, candidates: &[Candidate]) -> String {
    let mut text = "profinfer: 1\nengine: trial\nmodules:\n".to_owned();
    let files: BTreeSet<usize> = candidates.iter().map(|candidate| candidate.file).collect();
    for file in &files {
        let name = target.files().get(*file).map_or("", |file| file.name.as_str());
        let _ = writeln!(text, "  m{file}: '{}'", name.replace('\'', "''"));
    }
    text.push_str("probes:\n");
    let mut probe = |name: &str, at: &str| {
        let _ = writeln!(text, "  {name}:\n    at: {at}\n    role: mark\n    optional: true\n    nested: all");
    };
    for file in files {
        let plain = candidates.iter().filter(|candidate| candidate.file == file && is_plain(candidate));
        let names: Vec<&str> = plain.map(|candidate| candidate.place.as_str()).collect();
        for (number, names) in grouped(&names).iter().enumerate() {
            probe(&format!("{PLAIN}{file}_{number}"), &format!("m{file}:{{{names}}}"));
        }
    }
    for (number, candidate) in candidates.iter().enumerate().filter(|(_, candidate)| !is_plain(candidate)) {
        probe(&probe_name(number), &candidate.attach_point(&format!("m{}", candidate.file)));
    }
    text
}
