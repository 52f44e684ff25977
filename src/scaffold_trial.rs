//! What candidates do in a trial run: a generated probeset records their calls, and what lies in what is measured. Functions
//! with plain names are one probe together, whatever their number.

use super::short_run::ShortRun;
use super::terminal::report_problems;
use profinfer_binary::Target;
use profinfer_diagnostics::{Diagnostics, Severity};
use profinfer_probeset::{self as spec, ExactFile, Library};
use profinfer_recorder::Subject;
use profinfer_scaffold::{self as scaffold, Call, Candidate};
use profinfer_schema::Loss;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::time::Duration;

/// Calls that are measured.
const MOST_CALLS: usize = 4 << 20;
/// The field with what a method is called on.
const OBJECT: &str = "object";

/// Records a command or a process for so long at most, and writes down what each candidate did. Gives what is missing.
pub(super) fn run(
    subject: Subject,
    wait: Duration,
    target: &dyn Target,
    candidates: &mut [Candidate],
) -> Result<Vec<String>, Diagnostics> {
    let (mut probeset, _) = spec::load_text("trial.yaml", &probeset(target, candidates), &Library::new(&[]))?;
    bind(&mut probeset, target);
    let run = ShortRun::new(subject, wait)?;
    let summary = run.record(&probeset)?;
    let warnings = summary.problems.0.into_iter().filter(|problem| problem.severity == Severity::Warning);
    report_problems(&Diagnostics(warnings.collect()));
    let numbers: BTreeMap<String, usize> =
        candidates.iter().enumerate().map(|(number, candidate)| (name_of(number, candidate), number)).collect();
    let mut calls = Calls::new(MOST_CALLS);
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
        let Some(candidate) = numbers.get(&name) else { return true };
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
        })
    });
    let lost = Lost::of(&summary.losses, &numbers);
    let missing = missing(calls.is_cut.then_some(calls.all.len()), &lost);
    let measured = scaffold::measure(candidates.len(), calls.all, &lost.by_candidate);
    for (number, (candidate, measured)) in candidates.iter_mut().zip(measured).enumerate() {
        candidate.trial = Some(measured);
        candidate.narrow(&called.remove(&number).unwrap_or_default());
    }
    Ok(missing)
}

/// The first calls, up to a number.
struct Calls {
    all: Vec<Call>,
    most: usize,
    /// There were more.
    is_cut: bool,
}

impl Calls {
    fn new(most: usize) -> Self {
        Self { all: Vec::new(), most, is_cut: false }
    }

    /// Whether it is not cut.
    fn push(&mut self, call: Call) -> bool {
        self.is_cut = self.all.len() >= self.most;
        if !self.is_cut {
            self.all.push(call);
        }
        !self.is_cut
    }
}

/// Calls that were lost.
#[derive(Debug, Default, PartialEq, Eq)]
struct Lost {
    /// They count; which of several functions of a candidate they belong to is unknown.
    by_candidate: BTreeMap<usize, u64>,
    /// All of them, with those of functions that share a probe, of which the candidate is unknown, too.
    all: u64,
}

impl Lost {
    fn of(losses: &[Loss], numbers: &BTreeMap<String, usize>) -> Self {
        let mut lost = Self::default();
        for loss in losses.iter().filter(|loss| loss.kind.loses_records()) {
            let candidate = numbers.get(&loss.record);
            if let Some(candidate) = candidate {
                *lost.by_candidate.entry(*candidate).or_default() += loss.count;
            }
            if candidate.is_some() || loss.record.starts_with(PLAIN) {
                lost.all = lost.all.saturating_add(loss.count);
            }
        }
        lost
    }
}

/// What the figures of a trial lack, in sentences. `cut`: the calls after which it was cut.
fn missing(cut: Option<usize>, lost: &Lost) -> Vec<String> {
    let cut = cut.map(|calls| format!("The trial was cut after {calls} calls: what came later is in no figure."));
    let lost = (lost.all > 0).then(|| {
        let calls = if lost.all == 1 { "1 call was".to_owned() } else { format!("{} calls were", lost.all) };
        format!("{calls} lost in the trial: counts and times may be too low. Give patterns to measure fewer functions.")
    });
    cut.into_iter().chain(lost).collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use profinfer_schema::LossKind;

    #[test]
    fn what_a_trial_lacks_is_written_into_the_draft() {
        let call = Call { candidate: 0, thread: 1, start: 0, end: 1, object: None, function: 0 };
        let mut calls = Calls::new(2);
        assert_eq!([calls.push(call), calls.push(call)], [true, true]);
        assert!(!calls.is_cut, "there were no more");
        assert!(!calls.push(call) && calls.is_cut && calls.all.len() == 2);
        let numbers = BTreeMap::from([("plain_0 decode".to_owned(), 0), ("candidate_1".to_owned(), 1)]);
        let loss = |record: &str, kind, count| Loss { record: record.into(), kind, count };
        let losses = [
            loss("candidate_1", LossKind::RingFull, 3),
            loss("candidate_1", LossKind::ReadFailed, 100),
            loss("plain_0_0", LossKind::RingFull, 4),
            loss("sched_switch", LossKind::RingFull, 100),
        ];
        let lost = Lost::of(&losses, &numbers);
        assert_eq!(lost, Lost { by_candidate: BTreeMap::from([(1, 3)]), all: 7 });
        let notes = missing(Some(2), &lost);
        assert!(notes[0].contains("cut after 2 calls") && notes[1].starts_with("7 calls were lost"), "{notes:?}");
        assert!(missing(None, &Lost::default()).is_empty());
    }
}
