//! What candidates do in a trial run: a generated probeset records their calls, and what lies in what is measured. Functions
//! with plain names are one probe together, whatever their number.

use super::short_run::ShortRun;
use profinfer_binary::Target;
use profinfer_diagnostics::Diagnostics;
use profinfer_probeset::{self as spec, ExactFile, Library};
use profinfer_recorder::Subject;
use profinfer_scaffold::{self as scaffold, Call, Candidate};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::time::Duration;

/// Calls that are measured.
const MOST_CALLS: usize = 4 << 20;
/// The field with what a method is called on.
const OBJECT: &str = "object";

/// Records a command or a process for so long at most, and writes down what each candidate did.
pub(super) fn run(
    subject: Subject,
    wait: Duration,
    target: &dyn Target,
    candidates: &mut [Candidate],
) -> Result<(), Diagnostics> {
    let (mut probeset, _) = spec::load_text("trial.yaml", &probeset(target, candidates), &Library::new(&[]))?;
    bind(&mut probeset, target);
    let run = ShortRun::new(subject, wait)?;
    let summary = run.record(&probeset)?;
    let numbers: BTreeMap<String, usize> =
        candidates.iter().enumerate().map(|(number, candidate)| (name_of(number, candidate), number)).collect();
    let mut calls: Vec<Call> = Vec::new();
    let mut called: BTreeMap<usize, BTreeSet<String>> = BTreeMap::new();
    run.trace()?.for_each_record(|record| {
        let own = &record.kind().name;
        // Several candidates can share a probe; the function distinguishes them.
        let file = own.strip_prefix(PLAIN).and_then(|rest| rest.split('_').next());
        let place = record.site().and_then(|site| scaffold::place(&site.function));
        let name = match (file, &place) {
            (Some(file), Some(place)) => format!("{PLAIN}{file} {place}"),
            _ => own.clone(),
        };
        if let Some(candidate) = numbers.get(&name) {
            called.entry(*candidate).or_default().extend(place);
            let header = record.header();
            let object = record.index_of(OBJECT).and_then(|index| record.u64_at(index));
            let end = header.start.saturating_add(header.duration);
            calls.push(Call {
                candidate: *candidate,
                thread: header.tid,
                start: header.start,
                end,
                object,
                function: header.site,
            });
        }
        calls.len() < MOST_CALLS
    });
    // Lost calls count, too; which of several candidates they belong to is unknown.
    let mut lost: BTreeMap<usize, u64> = BTreeMap::new();
    for loss in summary.losses.iter().filter(|loss| loss.kind.loses_records()) {
        if let Some(candidate) = numbers.get(&loss.record) {
            *lost.entry(*candidate).or_default() += loss.count;
        }
    }
    let measured = scaffold::measure(candidates.len(), calls, &lost);
    for (number, (candidate, measured)) in candidates.iter_mut().zip(measured).enumerate() {
        candidate.trial = Some(measured);
        candidate.narrow(&called.remove(&number).unwrap_or_default());
    }
    Ok(())
}

/// Binds each module to the file that its candidates are of, whatever else has its name or functions, and whenever it is
/// loaded.
fn bind(probeset: &mut spec::Probeset, target: &dyn Target) {
    for (name, module) in &mut probeset.modules {
        let number = name.strip_prefix('m').and_then(|number| number.parse::<usize>().ok());
        let file = number.and_then(|number| target.files().get(number));
        module.exact =
            file.map(|file| ExactFile { name: file.name.clone(), build_id: file.build_id.clone(), size: file.size });
    }
}

fn name_of(number: usize, candidate: &Candidate) -> String {
    match is_plain(candidate) {
        true => format!("{PLAIN}{} {}", candidate.file, candidate.place),
        false => probe_name(number),
    }
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
    let mut probe = |name: &str, at: &str, rest: &str| {
        let _ = writeln!(text, "  {name}:\n    at: {at}\n    role: region\n    optional: true{rest}");
    };
    for file in files {
        let plain = candidates.iter().filter(|candidate| candidate.file == file && is_plain(candidate));
        let names: Vec<&str> = plain.map(|candidate| candidate.place.as_str()).collect();
        for (number, names) in grouped(&names).iter().enumerate() {
            // One function of the group calls another.
            probe(&format!("{PLAIN}{file}_{number}"), &format!("m{file}:{{{names}}}"), "\n    nested: all");
        }
    }
    for (number, candidate) in candidates.iter().enumerate().filter(|(_, candidate)| !is_plain(candidate)) {
        let at = candidate.attach_point(&format!("m{}", candidate.file));
        match candidate.overrides {
            Some(_) => {
                let fields = format!("\n    fields: {{ {OBJECT}: this as u64 }}");
                probe(&probe_name(number), &format!("{at}(this)"), &fields);
            }
            None => probe(&probe_name(number), &at, ""),
        }
    }
    text
}
