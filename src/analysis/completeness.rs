//! Is the trace complete, and if not, what is missing: what the recorder counted, what the numbering of threads shows,
//! and what is wrong with the file.

use super::faults::Faults;
use super::statistics::{IncompleteStep, Statistics};
use super::timeline::Findings;
use crate::spec::Role;
use crate::trace::{LeftOut, LeftOutKind, LossKind, Meta};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Ranges of steps, or lanes, that a sentence lists.
const RANGES_SHOWN: usize = 12;

/// Records of one type that are lost or damaged for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Lost {
    /// The probe, object or built-in record type.
    pub record: String,
    /// Why.
    pub kind: LossKind,
    /// How many.
    pub count: u64,
    /// Something is missing; without it the entry is only worth knowing.
    pub harmful: bool,
}

/// The verdict on a trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Completeness {
    /// Nothing is missing.
    pub complete: bool,
    /// The verdict in one sentence.
    pub verdict: String,
    /// Steps that were finished, those left out included.
    pub steps: u64,
    /// Steps with lost records, which no statistics contain.
    pub steps_left_out: u64,
    /// The first of them, one by one.
    pub incomplete_steps: Vec<IncompleteStep>,
    /// Records that are in the trace, but for those of other engines that were recorded together with this one.
    pub records: u64,
    /// Records that a thread numbered and that are not in the trace.
    pub missing_records: u64,
    /// Lost records that no later one shows: they came after the last record of the trace.
    pub lost_at_the_end: u64,
    /// The end of the trace is missing.
    pub cut: bool,
    /// What the recorder counted.
    pub lost: Vec<Lost>,
    /// Further sentences, worth knowing.
    pub notes: Vec<String>,
}

impl Completeness {
    /// Judges a trace that was read to its end.
    pub fn judge(meta: &Meta, findings: &Findings, statistics: &Statistics) -> Self {
        let lost: Vec<Lost> = meta.losses.iter().filter(|l| l.count > 0).map(lost).collect();
        let steps = statistics.steps();
        let numbered = meta.losses.iter().filter(|l| l.kind.is_numbered()).map(|l| l.count);
        let lost_at_the_end = numbered.fold(0, u64::saturating_add).saturating_sub(findings.missing_records);
        let mut judged = Self {
            complete: true,
            verdict: String::new(),
            steps,
            steps_left_out: statistics.left_out(),
            incomplete_steps: statistics.incomplete(),
            records: findings.records,
            missing_records: findings.missing_records,
            lost_at_the_end,
            cut: meta.end.is_none(),
            lost,
            notes: notes(findings, statistics),
        };
        judged.notes.splice(..0, which_lanes(statistics.lanes_with_losses()));
        judged.notes.extend(shared(meta, findings));
        judged.notes.extend(unnamed(meta, findings));
        let left_out = left_out(meta).filter(|entry| !entry.kind.is_harmful());
        judged.notes.extend(left_out.map(|entry| match entry.kind {
            LeftOutKind::Survivor => format!("Not recorded further: {}.", entry.text),
            _ => format!("Left out: {}.", entry.text),
        }));
        if lost_at_the_end > 0 && !judged.cut {
            let lost = counted(lost_at_the_end, "record");
            judged.notes.push(format!("{lost} lost after the last one: no step of the trace misses them."));
        }
        let missing = judged.what_is_missing(meta, findings);
        judged.complete = missing.is_empty();
        let steps = counted(steps, "step");
        judged.verdict = if judged.complete {
            format!("Complete: {steps}, {}, nothing lost.", counted(judged.records, "record"))
        } else {
            let left_out = match judged.steps_left_out {
                0 => String::new(),
                n => format!(" {} of {steps} {}: {}; kept out.", group_digits(n), misses(n), judged.which_steps()),
            };
            format!("Incomplete: {}.{left_out}", missing.join("; "))
        };
        judged
    }

    /// `7, 8, 31..40`: the numbers of the steps with lost records.
    fn which_steps(&self) -> String {
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for step in self.incomplete_steps.iter().map(|s| s.step) {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == step => *last = step,
                _ => ranges.push((step, step)),
            }
        }
        let shown = ranges.iter().take(RANGES_SHOWN).map(|(first, last)| match last - first {
            0 => first.to_string(),
            1 => format!("{first}, {last}"),
            _ => format!("{first}..{last}"),
        });
        let mut shown: Vec<String> = shown.collect();
        if ranges.len() > RANGES_SHOWN || self.steps_left_out > self.incomplete_steps.len() as u64 {
            shown.push("…".to_owned());
        }
        shown.join(", ")
    }

    fn what_is_missing(&self, meta: &Meta, findings: &Findings) -> Vec<String> {
        let mut missing = Vec::new();
        let damaged = meta.problems.has_errors();
        if damaged {
            missing.push("parts of the file are damaged".to_owned());
        } else if self.cut {
            missing.push("the trace was cut off before its end".to_owned());
        }
        for lost in self.lost.iter().filter(|l| l.harmful) {
            missing.push(lost.sentence());
        }
        let counted_by_recorder = self.lost.iter().any(|l| l.harmful);
        if findings.missing_records > 0 && !counted_by_recorder {
            missing.push(format!("{} missing from the numbering", counted(findings.missing_records, "record")));
        }
        let mut left_out: Vec<&LeftOut> = left_out(meta).filter(|entry| entry.kind.is_harmful()).collect();
        left_out.sort_by_key(|entry| entry.kind != LeftOutKind::Nothing);
        let says_nothing = left_out.iter().any(|entry| entry.kind == LeftOutKind::Nothing);
        missing.extend(left_out.into_iter().map(|entry| entry.text.clone()));
        if !says_nothing && !self.cut && missing.is_empty() {
            missing.extend(no_step(meta, findings, self.steps));
        }
        if findings.malformed > 0 {
            missing.push(format!("{} not as the schema says", counted(findings.malformed, "record")));
        }
        missing
    }
}

/// What the recorder says that the trace has not, beside what was lost.
fn left_out(meta: &Meta) -> impl Iterator<Item = &LeftOut> {
    meta.end.iter().flat_map(|end| &end.left_out)
}

/// That there is no step, though they were asked for, in a trace whose recorder has not said so.
fn no_step(meta: &Meta, findings: &Findings, steps: u64) -> Option<String> {
    let step = meta.schema.records.iter().find(|record| record.role == Some(Role::Step))?;
    if steps > 0 || findings.loops > 0 {
        return None;
    }
    let site = meta.sites.iter().find(|site| site.probes.contains(&step.name));
    let why = match site {
        Some(site) => format!("`{}` was not called, or did not return", site.function),
        None => format!("probe `{}` had no site", step.name),
    };
    let others = match findings.operator_spans {
        0 => String::new(),
        n => format!("; {} were seen", counted(n, "operator")),
    };
    Some(format!("no step was seen: {why}{others}"))
}

/// The lanes that miss events, and in how many steps.
fn which_lanes(lanes: &BTreeMap<u32, u64>) -> Option<String> {
    let lane = |(lane, steps): (&u32, &u64)| format!("lane {lane} in {}", counted(*steps, "step"));
    let mut shown: Vec<String> = lanes.iter().take(RANGES_SHOWN).map(lane).collect();
    if lanes.len() > RANGES_SHOWN {
        shown.push(format!("and {} more", counted((lanes.len() - RANGES_SHOWN) as u64, "lane")));
    }
    (!shown.is_empty()).then(|| format!("Events are missing of {}.", shown.join(", ")))
}

fn lost(loss: &crate::trace::Loss) -> Lost {
    let harmful = !matches!(loss.kind, LossKind::ObjectTableFull | LossKind::StillOpen);
    Lost { record: loss.record.clone(), kind: loss.kind, count: loss.count, harmful }
}

impl Lost {
    /// As a person says it, without a full stop.
    pub fn sentence(&self) -> String {
        let (count, record) = (group_digits(self.count), &self.record);
        match self.kind {
            LossKind::RingFull => format!("{count} `{record}` lost because the ring was full"),
            LossKind::ReadFailed => format!("{count} `{record}` with something that could not be read"),
            LossKind::MissingEntry => format!("{count} `{record}` returned without an entry"),
            LossKind::MissingReturn => format!("{count} `{record}` never returned"),
            LossKind::Recursion => format!("{count} `{record}` skipped by the kernel"),
            LossKind::TooDeep => format!("{count} `{record}` nested too deep"),
            LossKind::NoThreadState => format!("{count} `{record}` lost for want of memory"),
            LossKind::ObjectTableFull => format!("{count} `{record}` described again"),
            LossKind::Truncated => format!("{count} `{record}` with a list longer than its bound"),
            LossKind::NotAttached => format!("{count} sites of `{record}` not attached"),
            LossKind::StillOpen => format!("{count} `{record}` still open when the recording ended"),
            LossKind::Undecided => format!("{count} `{record}` lost because its condition could not be read"),
            LossKind::Implausible => {
                format!("{count} `{record}` with something that cannot be what the probeset takes it for")
            }
            LossKind::ChangedUnseen => {
                format!("{count} `{record}` changed while its graph was said to be the same, and told of too late")
            }
        }
    }
}

fn notes(findings: &Findings, statistics: &Statistics) -> Vec<String> {
    let mut notes = Vec::new();
    let mut note = |count: u64, thing: &str, text: &str| {
        if count > 0 {
            notes.push(format!("{} {text}", counted(count, thing)));
        }
    };
    note(
        findings.ambiguous,
        "operator",
        "whose graph could not be told, several being open: counted with one of them.",
    );
    note(findings.forced, "step", "finished while a thread's last operator was still open.");
    note(findings.not_texts, "text", "that cannot be one, by the bytes that were read: left out.");
    note(findings.loops, "step span", "around many other steps: left out.");
    note(statistics.loose_with_losses(), "part", "outside steps with lost records: numbers are too low there.");
    note(statistics.experts_left_out(), "choice", "of experts in no table: there are too many experts.");
    notes
}

/// What is not one engine's own, where several were recorded together.
fn shared(meta: &Meta, findings: &Findings) -> Vec<String> {
    if findings.of_others == 0 {
        return Vec::new();
    }
    let further = counted(findings.of_others, "record");
    let mut notes = vec![format!("{further} of other engines, recorded together with this one, are not counted here.")];
    let (faults, page_cache) = Faults::recorded_by(&meta.schema);
    if faults || page_cache {
        // A fault says who touched the memory, and not for whom.
        notes.push(
            "Faults and reads from the disk are the whole process's while a step of this engine ran: another engine's \
             threads may have had some of them."
                .to_owned(),
        );
    }
    notes
}

/// Enumerations of which neither the target nor the probeset had the names for this build.
fn unnamed(meta: &Meta, findings: &Findings) -> Vec<String> {
    let schema = &meta.schema;
    let own = (0..).zip(&schema.records).filter(|(number, _)| !schema.others.contains(number));
    let fields = own.flat_map(|(_, record)| &record.fields);
    let used: BTreeSet<&str> = fields.filter_map(|field| field.ty.enumeration()).collect();
    let without = used.into_iter().filter(|name| findings.records > 0 && !schema.enums.contains_key(*name));
    without
        .map(|name| format!("Values of `{name}` are shown as numbers: their names were not known of this build."))
        .collect()
}

fn misses(steps: u64) -> &'static str {
    if steps == 1 { "misses events" } else { "miss events" }
}

/// `1 step`, `1,234 steps`.
pub(crate) fn counted(n: u64, thing: &str) -> String {
    format!("{} {thing}{}", group_digits(n), if n == 1 { "" } else { "s" })
}

/// `1,234,567`.
pub(crate) fn group_digits(n: u64) -> String {
    let digits = n.to_string();
    let mut grouped = String::with_capacity(digits.len() * 4 / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}
