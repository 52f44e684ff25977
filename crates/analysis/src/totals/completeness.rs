//! Whether a trace is complete, and what is missing: losses that the recorder counted, gaps in sequence numbers of
//! threads, damage of the file.

use super::faults::Faults;
use super::statistics::{IncompleteStep, Statistics};
use crate::catalogue::MAX_KINDS;
use crate::ids::Phase;
use crate::numbers::{counted, group_digits};
use crate::step::Findings;
use profinfer_schema::{LeftOut, LeftOutKind, LossKind, Role};
use profinfer_trace::Meta;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// How a note begins that names what a recording left out.
pub const LEFT_OUT: &str = "Left out: ";

/// Ranges of steps, or lanes, in one message.
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
    /// Records are missing; otherwise the entry is informative.
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
    /// Further messages.
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
            LeftOutKind::Survivor => format!("Recording stopped early: {}.", entry.text),
            _ => format!("{LEFT_OUT}{}.", entry.text),
        }));
        if lost_at_the_end > 0 && !judged.cut {
            let lost = counted(lost_at_the_end, "record");
            judged.notes.push(format!("{lost} lost after the last record of the trace: no step is affected."));
        }
        let missing = judged.what_is_missing(meta, findings);
        judged.complete = missing.is_empty();
        let found = by_recurring_operators(findings, statistics);
        let steps = match findings.operator_spans {
            // Without a probe of steps, none is missing: what was recorded does not recur.
            operators if steps == 0 && operators > 0 && !meta.schema.has_role(Role::Step) => {
                format!("no run was found among {} by their order", counted(operators, "operator"))
            }
            _ => format!("{}{found}", counted(steps, "step")),
        };
        judged.verdict = if judged.complete {
            format!("Complete: {steps}, {}, nothing lost.", counted(judged.records, "record"))
        } else {
            let left_out = match judged.steps_left_out {
                0 => String::new(),
                n => format!(
                    " {} of {steps} {}: {}; excluded from totals.",
                    group_digits(n),
                    misses(n),
                    judged.which_steps()
                ),
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
            missing.push(format!("{} missing by sequence number", counted(findings.missing_records, "record")));
        }
        let mut left_out: Vec<&LeftOut> = left_out(meta).filter(|entry| entry.kind.is_harmful()).collect();
        left_out.sort_by_key(|entry| entry.kind != LeftOutKind::Nothing);
        let has_no_step = left_out.iter().any(|entry| entry.kind == LeftOutKind::Nothing);
        missing.extend(left_out.into_iter().map(|entry| entry.text.clone()));
        if !has_no_step && !self.cut && missing.is_empty() {
            missing.extend(no_step(meta, findings, self.steps));
        }
        if findings.malformed > 0 {
            missing.push(format!("{} malformed", counted(findings.malformed, "record")));
        }
        missing
    }
}

/// What the recorder left out, beside lost records.
fn left_out(meta: &Meta) -> impl Iterator<Item = &LeftOut> {
    meta.end.iter().flat_map(|end| &end.left_out)
}

/// A message if steps are probed and the trace has none. Recorders of older versions did not report it.
fn no_step(meta: &Meta, findings: &Findings, steps: u64) -> Option<String> {
    let step = meta.schema.records.iter().find(|record| record.role == Some(Role::Step))?;
    if steps > 0 || findings.loops > 0 {
        return None;
    }
    let site = meta.sites.iter().find(|site| site.probes.contains(&step.name));
    let why = match site {
        Some(site) => format!("`{}` was not called, or did not return", site.function),
        None => format!("probe `{}` has no site", step.name),
    };
    let others = match findings.operator_spans {
        0 => String::new(),
        n => format!("; {} were seen", counted(n, "operator")),
    };
    Some(format!("no step was seen: {why}{others}"))
}

/// Lanes with lost records, and in how many steps.
fn which_lanes(lanes: &BTreeMap<u32, u64>) -> Option<String> {
    let lane = |(lane, steps): (&u32, &u64)| format!("lane {lane} in {}", counted(*steps, "step"));
    let mut shown: Vec<String> = lanes.iter().take(RANGES_SHOWN).map(lane).collect();
    if lanes.len() > RANGES_SHOWN {
        shown.push(format!("and {} more", counted((lanes.len() - RANGES_SHOWN) as u64, "lane")));
    }
    (!shown.is_empty()).then(|| format!("Records were lost on {}.", shown.join(", ")))
}

fn lost(loss: &profinfer_schema::Loss) -> Lost {
    Lost { record: loss.record.clone(), kind: loss.kind, count: loss.count, harmful: loss.kind.is_harmful() }
}

impl Lost {
    /// A sentence without its full stop.
    pub fn sentence(&self) -> String {
        let (count, record) = (group_digits(self.count), &self.record);
        match self.kind {
            LossKind::RingFull => format!("{count} `{record}` lost because the ring buffer was full"),
            LossKind::ReadFailed => format!("{count} `{record}` with a field that could not be read"),
            LossKind::MissingEntry => format!("{count} `{record}` returned without a recorded entry"),
            LossKind::MissingReturn => format!("{count} `{record}` never returned"),
            LossKind::Recursion => format!("{count} `{record}` skipped by the kernel"),
            LossKind::TooDeep => format!("{count} `{record}` nested too deeply"),
            LossKind::NoThreadState => {
                format!("{count} `{record}` lost because there was no memory for the thread's state")
            }
            LossKind::ObjectTableFull => {
                format!("{count} `{record}` described again because the object table was full")
            }
            LossKind::Truncated => format!("{count} `{record}` with a list cut at its bound"),
            LossKind::NotAttached if record == "exec" => {
                format!("{count} stops after which a process ran on before it was inspected")
            }
            LossKind::NotAttached => format!("{count} sites of `{record}` not attached"),
            LossKind::StillOpen => format!("{count} `{record}` still open when the recording ended"),
            LossKind::Undecided => {
                format!("{count} `{record}` lost because a condition was unreadable, or a slot was not found in time")
            }
            LossKind::JobTableFull => {
                format!("{count} `{record}` lost: not done while too many others were begun")
            }
            LossKind::Implausible => {
                format!("{count} `{record}` with an implausible value")
            }
            LossKind::ChangedUnseen => {
                format!("{count} `{record}` changed while its graph counted as unchanged, and described too late")
            }
        }
    }
}

/// How steps were found, if by operators that recur; with those that do not, such as an encoder's, if they matter.
fn by_recurring_operators(findings: &Findings, statistics: &Statistics) -> String {
    /// Of the operators' work, a part that is left out without a word.
    const NEGLIGIBLE: f64 = 0.05;
    if findings.recurring == 0 {
        return String::new();
    }
    let work = |outside: bool| -> u64 {
        let of = statistics.operators().filter(|(.., phase, _)| !outside || *phase == Phase::Outside);
        of.map(|(.., totals)| totals.work).fold(0, u64::saturating_add)
    };
    let outside = work(true) as f64 / work(false).max(1) as f64;
    if outside < NEGLIGIBLE {
        return " by recurring operators".to_owned();
    }
    format!(" by recurring operators ({:.0} % of the operators' work is outside of them)", 100.0 * outside)
}

fn notes(findings: &Findings, statistics: &Statistics) -> Vec<String> {
    let mut notes = Vec::new();
    let mut note = |count: u64, thing: &str, text: &str| {
        if count > 0 {
            notes.push(format!("{} {text}", counted(count, thing)));
        }
    };
    note(findings.ambiguous, "operator", "with an ambiguous graph: several were open, and one of them is assumed.");
    note(findings.late, "operator", "ended long after its step, which was finished by then: in no step.");
    let crowded = "of a step, or outside of steps, beyond what can be pending: the step is incomplete.";
    note(findings.crowded, "event", crowded);
    note(findings.not_texts, "text field", "with bytes that are not text: omitted.");
    let beyond = format!("beyond the first {}: shown as `(other)` of their type.", group_digits(MAX_KINDS as u64));
    note(findings.merged, "distinct operator", &beyond);
    note(findings.recurring, "step", "found by operators that recur in the same order: no probe has recorded one.");
    note(
        findings.extended,
        "step",
        "ended before their first operator: the end of the last one that followed is taken.",
    );
    note(findings.loops, "step span", "that contain many other steps: ignored.");
    note(statistics.loose_with_losses(), "segment", "outside steps with lost records: their totals are too low.");
    note(statistics.experts_left_out(), "expert choice", "not counted: too many distinct experts.");
    if findings.ambiguous_shares > 0 {
        let shares = counted(findings.ambiguous_shares, "share");
        notes.push(format!(
            "{LEFT_OUT}{shares} of operators on other threads: several operators were being computed, and which of them is \
             not recorded."
        ));
    }
    notes
}

/// What several engines in one recording share.
fn shared(meta: &Meta, findings: &Findings) -> Vec<String> {
    if findings.of_others == 0 {
        return Vec::new();
    }
    let further = counted(findings.of_others, "record");
    let mut notes = vec![format!("{further} of other engines in the same recording: not counted.")];
    let (faults, page_cache) = Faults::recorded_by(&meta.schema);
    if faults || page_cache {
        // A fault names the thread, not the engine.
        notes.push(
            "Page faults and disk reads are counted for the whole process while a step of this engine runs: some may be \
             another engine's."
                .to_owned(),
        );
    }
    notes
}

/// Enumerations of which neither the target nor the probeset had the names for this build.
fn unnamed(meta: &Meta, findings: &Findings) -> Vec<String> {
    let schema = &meta.schema;
    let records = (0..).zip(&schema.records).filter(|(number, _)| !schema.others.contains(number));
    let fields = records.flat_map(|(_, record)| &record.fields);
    let used: BTreeSet<&str> = fields.filter_map(|field| field.ty.enumeration()).collect();
    let without = used.into_iter().filter(|name| findings.records > 0 && !schema.enums.contains_key(*name));
    without
        .map(|name| format!("Values of `{name}` are shown as numbers: no names were found for this build."))
        .collect()
}

fn misses(steps: u64) -> &'static str {
    if steps == 1 { "has lost records" } else { "have lost records" }
}
