//! The counters of a probe, as the template needs them.

use crate::{Action, CounterSource, ProbePlan, Shape};
use profinfer_schema::{FieldType, RecordType};
use serde::Serialize;

/// What the spans of a probe count.
#[derive(Debug, Serialize)]
pub(super) struct Counting {
    probe: String,
    structure: String,
    /// The field that marks which are estimates.
    scaled: Option<String>,
    counters: Vec<CounterData>,
    /// Some are counted by the cpus.
    events: bool,
}

/// The statements that read a counter at a span's start and end.
#[derive(Debug, Serialize)]
struct CounterData {
    begin: String,
    end: String,
}

/// What each probe counts that counts something.
pub(super) fn counting(plan: &ProbePlan) -> Vec<Counting> {
    let mut found: Vec<Counting> = Vec::new();
    for counting in plan.programs.iter().flat_map(|program| &program.actions).filter_map(|action| of(plan, action)) {
        if !found.iter().any(|other| other.probe == counting.probe) {
            found.push(counting);
        }
    }
    found
}

fn of(plan: &ProbePlan, action: &Action) -> Option<Counting> {
    let mut events = false;
    let counters: Vec<CounterData> = action
        .counts
        .fields
        .iter()
        .enumerate()
        .filter_map(|(place, (counter, index))| {
            let member = member_of(*index);
            Some(match plan.counters.get(*counter)?.source {
                // Counted by the CPUs: a row of their events.
                CounterSource::Event(row) => {
                    events = true;
                    let scaled = member_of(action.counts.scaled?);
                    CounterData {
                        begin: format!("pf_count_now(thread, {row}, &before->at[{place}]);"),
                        end: format!("PF_COUNT_EVENT({index}, {member}, {scaled}, {row}, {place});"),
                    }
                }
                // Counted by the kernel for each thread.
                CounterSource::Task(count) => {
                    let function = count.function();
                    CounterData {
                        begin: format!("before->at[{place}].value = {function}(pf_task());"),
                        end: format!("PF_COUNT_TASK({index}, {member}, {function}, {place});"),
                    }
                }
            })
        })
        .collect();
    let structure = super::program::structure_of(plan.schema.records.get(action.record)?);
    let scaled = action.counts.scaled.map(member_of);
    let probe = action.probe.clone();
    (!counters.is_empty()).then_some(Counting { probe, structure, scaled, counters, events })
}

/// The C member of a record's field: a counter's name need not be one that C has.
pub(super) fn member_name(record: &RecordType, index: usize) -> String {
    match record.fields.get(index) {
        Some(field) if matches!(field.ty, FieldType::Counter | FieldType::Scaled) => member_of(index),
        Some(field) => field.name.clone(),
        None => String::new(),
    }
}

fn member_of(index: usize) -> String {
    format!("pf_field_{index}")
}

/// The member of a thread's state for the open spans of a probe.
pub(super) fn open_spans(plan: &ProbePlan, probe: &str, until: bool) -> String {
    let actions = || plan.programs.iter().flat_map(|program| &program.actions).filter(|action| action.probe == probe);
    let frames =
        actions().find_map(|action| if let Shape::Call { frames } = action.shape { Some(frames) } else { None });
    let counted = actions().map(|action| action.counts.fields.len()).max().unwrap_or(0);
    match (until, counted) {
        (true, 0) => format!("PF_OPEN({probe})"),
        (true, counted) => format!("PF_COUNTED_OPEN({probe}, {counted})"),
        (false, 0) => format!("PF_FRAMES({probe}, {})", frames.unwrap_or(1)),
        (false, counted) => format!("PF_COUNTED_FRAMES({probe}, {}, {counted})", frames.unwrap_or(1)),
    }
}
