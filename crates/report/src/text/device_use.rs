//! When devices had nothing to do, and what the host did meanwhile, as tables.

use super::style::{TextStyle, more};
use crate::model::device_use::{DeviceUseReport, GapRow, host_words};
use crate::numbers::ratios::ratio;
use crate::numbers::table::{Align, Table};
use crate::numbers::units::{share, time};
use Align::{Flexible, Right};
use profinfer_analysis::{counted, group_digits};
use std::cmp::Reverse;

/// Gaps that are shown unless the table is asked for.
const FEW_GAPS: usize = 3;

pub(super) fn text(out: &mut String, of: &DeviceUseReport, whole: bool, style: &TextStyle) {
    if of.steps > 0 {
        host(out, of, style);
    }
    for sentence in sentences(of) {
        out.push_str(&format!("  {sentence}\n"));
    }
    if of.steps > 0 {
        gaps(out, of, whole, style);
    }
}

fn host(out: &mut String, of: &DeviceUseReport, style: &TextStyle) {
    let mut table = Table::new(&[
        ("share", Right),
        ("time", Right),
        ("work pending", Right),
        ("device idle", Right),
        ("the host", Flexible),
    ]);
    let cell = |ns: u64| if ns == 0 { String::new() } else { time(ns) };
    for row in &of.host {
        let all = row.pending_ns.saturating_add(row.idle_ns);
        table.row(vec![
            share(ratio(all, of.time_ns)),
            time(all),
            cell(row.pending_ns),
            cell(row.idle_ns),
            host_words(row.what).to_owned(),
        ]);
    }
    style.table(out, "What the host did while the device had work, and while it had none", &table, None);
}

fn sentences(of: &DeviceUseReport) -> Vec<String> {
    let mut sentences = Vec::new();
    if of.steps > 0 {
        sentences.push(format!(
            "The device had nothing to do for at least {}, {} of the time, in {}; work was pending for {}.",
            time(of.idle_ns),
            share(of.idle_share),
            counted(of.gaps, "gap"),
            time(of.pending_ns)
        ));
    }
    if let Some(measured) = of.measured_ns {
        let busy = measured.saturating_sub(of.measured_idle_ns);
        let part = share(ratio(busy, of.measured_time_ns));
        sentences.push(format!("The device computed operators for {} (measured), {part} of the time.", time(busy)));
        if of.measured_idle_ns > 0 {
            sentences.push(format!(
                "Another {} of its operators' times passed without work: a time begins when the operator before it ends.",
                time(of.measured_idle_ns)
            ));
        }
    }
    if of.steps_without_end > 0 {
        let steps = counted(of.steps_without_end, "step");
        sentences.push(format!("Left out: {steps} with work of which no end was recorded."));
    }
    if of.submissions_without_end > 0 {
        let submissions = counted(of.submissions_without_end, "submission");
        sentences.push(format!("No end was recorded of {submissions}: they count as pending to the last result."));
    }
    if of.steps_overlapping > 0 {
        let steps = counted(of.steps_overlapping, "step");
        sentences.push(format!("Left out: {steps} that overlap others of their process."));
    }
    sentences
}

fn gaps(out: &mut String, of: &DeviceUseReport, whole: bool, style: &TextStyle) {
    let shown = if whole { of.longest_gaps.len() } else { of.longest_gaps.len().min(FEW_GAPS) };
    let mut table = Table::new(&[("idle", Right), ("began at", Right), ("step", Right), ("the host", Flexible)]);
    for row in of.longest_gaps.iter().take(shown) {
        let step = if row.step == 0 { String::new() } else { group_digits(row.step) };
        table.row(vec![time(row.duration_ns), time(row.start_ns), step, meanwhile(row)]);
    }
    let hint = if whole { "each is shorter" } else { "`--by backend` shows more" };
    style.table(out, "Longest times without work for the device", &table, more(of.gaps, shown, hint));
}

/// `encoding 61.0 %, no recorded call 39.0 %`.
fn meanwhile(row: &GapRow) -> String {
    let mut parts: Vec<(&str, u64)> = row.host.iter().map(|(what, ns)| (*what, *ns)).collect();
    parts.sort_by_key(|(_, ns)| Reverse(*ns));
    let part = |(what, ns): (&str, u64)| format!("{} {}", host_words(what), share(ratio(ns, row.duration_ns)));
    parts.into_iter().map(part).collect::<Vec<_>>().join(", ")
}
