//! When a device had work and when it had none, as rows; and what the host did meanwhile.

use profinfer_analysis::{DeviceUse, HostTime, HostWork, IdleGap};
use serde::Serialize;
use std::collections::BTreeMap;

/// Steps that gave work to a device, with their results.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeviceUseReport {
    /// Steps, of which all times are.
    pub steps: u64,
    /// Steps left out: of work that they or the step before submitted, no end was recorded.
    pub steps_without_end: u64,
    /// Steps left out: others of their process overlap them.
    pub steps_overlapping: u64,
    /// Outside steps: submissions of which no end was recorded. They count as pending to the last result.
    pub submissions_without_end: u64,
    /// Their time: of a decode step from the end of the step before it, of others from their start, to their results.
    pub time_ns: u64,
    /// Of it, with work pending: the device worked at most that.
    pub pending_ns: u64,
    /// The rest: the device had nothing to do at least that.
    pub idle_ns: u64,
    /// `idle_ns` by `time_ns`.
    pub idle_share: f64,
    /// Time of the steps of which the device measured every operator.
    pub measured_time_ns: u64,
    /// What operators took by that; `None` if there are no such steps.
    pub measured_ns: Option<u64>,
    /// Of it, at least that without pending work: the time of an operator can begin at the end of the one before it.
    pub measured_idle_ns: u64,
    /// What the host did, all but what is 0.
    pub host: Vec<HostRow>,
    /// Times without pending work.
    pub gaps: u64,
    /// The longest of them, in descending order.
    pub longest_gaps: Vec<GapRow>,
}

/// What the host did.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HostRow {
    /// `waiting`, `submitting`, `copying`, `encoding`, `operators`, `other`, `between_steps`.
    pub what: &'static str,
    /// While work was pending.
    pub pending_ns: u64,
    /// While none was.
    pub idle_ns: u64,
}

/// A time without pending work.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GapRow {
    /// The step in which it ends; 0 outside steps.
    pub step: u64,
    /// When it began, since the recording did.
    pub start_ns: u64,
    /// How long it is.
    pub duration_ns: u64,
    /// What the host did in it, ns, all but what is 0.
    pub host: BTreeMap<&'static str, u64>,
}

impl DeviceUseReport {
    /// Of some phases; `began` is when the recording did.
    pub(crate) fn new(of: &DeviceUse, began: u64) -> Self {
        let row = |what: &HostWork| HostRow {
            what: host_key(*what),
            pending_ns: of.while_pending[*what],
            idle_ns: of.while_idle[*what],
        };
        Self {
            steps: of.steps,
            steps_without_end: of.without_end,
            steps_overlapping: of.overlapping,
            submissions_without_end: of.endless,
            time_ns: of.time,
            pending_ns: of.pending(),
            idle_ns: of.idle(),
            idle_share: crate::numbers::ratios::ratio(of.idle(), of.time),
            measured_time_ns: of.measured_time,
            measured_ns: (of.measured_time > 0).then_some(of.measured),
            measured_idle_ns: of.measured_idle,
            host: HostWork::ALL.iter().map(row).filter(|row| row.pending_ns + row.idle_ns > 0).collect(),
            gaps: of.gaps,
            longest_gaps: of.longest.iter().map(|gap| gap_row(gap, began)).collect(),
        }
    }
}

fn gap_row(gap: &IdleGap, began: u64) -> GapRow {
    GapRow {
        step: gap.step,
        start_ns: gap.start.saturating_sub(began),
        duration_ns: gap.duration(),
        host: host_parts(&gap.host),
    }
}

fn host_parts(host: &HostTime) -> BTreeMap<&'static str, u64> {
    let parts = HostWork::ALL.into_iter().filter(|what| host[*what] > 0);
    parts.map(|what| (host_key(what), host[what])).collect()
}

/// As the JSON has it.
fn host_key(what: HostWork) -> &'static str {
    match what {
        HostWork::Waiting => "waiting",
        HostWork::Submitting => "submitting",
        HostWork::Copying => "copying",
        HostWork::Encoding => "encoding",
        HostWork::Operators => "operators",
        HostWork::Other => "other",
        HostWork::Between => "between_steps",
    }
}

/// As a person reads it, by its key.
pub(crate) fn host_words(key: &str) -> &'static str {
    match key {
        "waiting" => "waiting for the device",
        "submitting" => "submitting",
        "copying" => "copying",
        "encoding" => "encoding",
        "operators" => "operators on the CPU",
        "between_steps" => "between steps",
        _ => "no recorded call",
    }
}
