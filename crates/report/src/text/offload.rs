//! The tables of work on other processors.

use super::style::{TextStyle, few};
use crate::model::offload::{DeviceBackendRow, DispatchRow, OffloadReport};
use crate::numbers::table::{Align, Table, cut};
use crate::numbers::units::{bytes, time, time_f64};
use Align::{Flexible, Left, Right};
use profinfer_analysis::{counted, group_digits};
use profinfer_diagnostics::printable;

/// Columns of the name of what an operator launches.
const LAUNCH_WIDTH: usize = 40;

pub(super) fn text(out: &mut String, report: &OffloadReport, of: &str, whole: bool, style: &TextStyle) {
    let mut table = Table::new(&[
        ("operators", Right),
        ("fused", Right),
        ("empty", Right),
        ("encoding", Right),
        ("submissions", Right),
        ("on the device", Right),
        ("backend", Flexible),
    ]);
    for row in &report.backends {
        table.row(vec![
            group_digits(row.dispatches),
            group_digits(row.fused),
            group_digits(row.empty),
            time(row.encoding_ns),
            group_digits(row.submissions),
            device_time(row),
            row.backend.clone().unwrap_or_else(|| "outside graphs".to_owned()),
        ]);
    }
    style.table(out, &format!("Operators given to devices ({of}; encoding is the host's time)"), &table, None);
    for sentence in sentences(report) {
        out.push_str(&format!("  {}\n", printable(&sentence)));
    }
    operators(out, report, whole, style);
    queues(out, report, style);
    rings(out, report, style);
    if let Some(device_use) = &report.device_use {
        super::device_use::text(out, device_use, whole, style);
    }
}

/// `12.3 ms` if the device measured it, else `≤ 14.2 ms`; empty if neither is known.
fn device_time(row: &DeviceBackendRow) -> String {
    let encoded = row.dispatches.saturating_sub(row.empty);
    if let Some(ns) = row.driver_ns.filter(|_| row.reported_graphs == row.graphs && row.measured < encoded) {
        return format!("{}{}", if row.driver_bounds > 0 { "≤ " } else { "" }, time(ns));
    }
    match (row.device_ns, row.device_bound_ns) {
        (Some(device), _) if row.measured == encoded => time(device),
        (_, Some(bound)) if row.bounded_graphs == row.graphs => format!("≤ {}", time(bound)),
        (_, Some(bound)) => format!("≤ {} ({} of {} graphs)", time(bound), row.bounded_graphs, row.graphs),
        _ => String::new(),
    }
}

fn sentences(report: &OffloadReport) -> Vec<String> {
    let mut sentences = Vec::new();
    if let Some(timing) = &report.timing {
        sentences
            .push(format!("Recorded with `--gpu-timing {timing}`, which slows the device down. By how much: `profinfer diff USUAL.pfi THIS.pfi`."));
    }
    for device in &report.devices {
        let name = device.name.clone().unwrap_or_else(|| "A device".to_owned());
        let kind = device.device_type.as_ref().map_or_else(String::new, |kind| format!(", of type {kind}"));
        let note =
            if device.device_type.as_deref() == Some("CPU") { ": it computes on this machine's CPUs" } else { "" };
        sentences.push(format!("Device: {name}{kind}{note}."));
    }
    if let Some(until) = report.mean_until_results_ns {
        let of = counted(report.steps_with_results, "step");
        sentences.push(format!("Results were there {} after a step began, mean of {of}.", time_f64(until)));
    }
    if report.steps > report.steps_with_results {
        let without = counted(report.steps - report.steps_with_results, "step");
        sentences.push(format!("Of {without}, no wait for all submissions was recorded: device time is unknown."));
    }
    if report.backends.iter().any(|row| row.device_bound_ns.is_some()) {
        sentences.push("≤: from the first submission of a graph to the end of the wait for it.".to_owned());
    }
    if report.backends.iter().any(|row| row.driver_ns.is_some()) {
        sentences.push("Times on the device are of jobs, as the kernel's driver reports them.".to_owned());
    }
    if report.operators.iter().any(|row| row.device_estimate_ns.is_some()) {
        sentences.push(
            "~: estimated. The time that operators share on the device is divided by their bytes and operations."
                .to_owned(),
        );
    }
    if report.operators.iter().any(|row| row.replayed > 0) {
        sentences.push("Replayed: computed again as part of work that was captured before.".to_owned());
    }
    if report.queues.is_empty() && !report.backends.is_empty() {
        sentences.push(
            "Submissions were not recorded: device times are unknown. Use a probeset with roles `submit` and `wait`."
                .to_owned(),
        );
    }
    sentences
}

fn operators(out: &mut String, report: &OffloadReport, whole: bool, style: &TextStyle) {
    if report.operators.is_empty() {
        return;
    }
    let is_measured = report.operators.iter().any(|row| row.device_ns.is_some());
    let measured = is_measured || report.operators.iter().any(|row| row.device_estimate_ns.is_some());
    let replayed = report.operators.iter().any(|row| row.replayed > 0);
    let mut headings = vec![("encoding", Right), ("count", Right), ("fused", Right)];
    headings.extend(replayed.then_some(("replayed", Right)));
    headings.extend(measured.then_some(("device", Right)));
    let launched = report.operators.iter().any(|row| !row.launches.is_empty());
    headings.extend([("backend", Left), ("op", Left), ("dtype", Left)]);
    headings.extend(launched.then_some(("launches", Left)));
    headings.push(("name", Flexible));
    let mut table = Table::new(&headings);
    let (rows, rest) =
        if whole { (report.operators.as_slice(), None) } else { few(&report.operators, "`--by backend` shows all") };
    for row in rows {
        let mut cells = vec![time(row.encoding_ns), group_digits(row.count), group_digits(row.fused)];
        cells.extend(replayed.then(|| group_digits(row.replayed)));
        cells.extend(measured.then(|| match (row.device_ns, row.device_estimate_ns) {
            (Some(ns), None) => time(ns),
            (ns, Some(part)) => format!("~ {}", time(ns.unwrap_or(0).saturating_add(part))),
            (None, None) => String::new(),
        }));
        let backend = row.backend.clone().unwrap_or_default();
        cells.extend([backend, row.op.clone(), row.dtype.clone().unwrap_or_default()]);
        cells.extend(launched.then(|| launches(row)));
        cells.push(name(row));
        table.row(cells);
    }
    let title = match (is_measured, measured) {
        (true, _) => "Operators by device time",
        (false, true) => "Operators by estimated device time",
        (false, false) => "Operators by encoding time",
    };
    style.table(out, title, &table, rest);
}

fn name(row: &DispatchRow) -> String {
    match (&row.covers, row.empty == row.count) {
        (Some(covers), _) => format!("{} (with {covers})", row.name),
        (None, true) => format!("{} (empty)", row.name),
        (None, false) => row.name.clone(),
    }
}

/// `mul_mat_vec_q4_k`, `mul_mat_vec_q4_k + 2 more`. The names of templates are longer than a line.
fn launches(row: &DispatchRow) -> String {
    match row.launches.as_slice() {
        [] => String::new(),
        [one] => cut(one, LAUNCH_WIDTH),
        [first, more @ ..] => format!("{} + {} more", cut(first, LAUNCH_WIDTH), more.len()),
    }
}

fn rings(out: &mut String, report: &OffloadReport, style: &TextStyle) {
    if report.rings.is_empty() {
        return;
    }
    let mut table =
        Table::new(&[("jobs", Right), ("queued", Right), ("ran", Right), ("ring", Left), ("driver", Flexible)]);
    for row in &report.rings {
        let bound = if row.bounds > 0 { "≤ " } else { "" };
        table.row(vec![
            group_digits(row.jobs),
            time(row.queued_ns),
            format!("{bound}{}", time(row.ran_ns)),
            row.ring.clone().unwrap_or_default(),
            row.driver.clone().unwrap_or_default(),
        ]);
    }
    style.table(out, "Jobs of devices (as the kernel's drivers report them)", &table, None);
}

fn queues(out: &mut String, report: &OffloadReport, style: &TextStyle) {
    let mut table =
        Table::new(&[("submissions", Right), ("submitting", Right), ("work pending", Right), ("queue", Flexible)]);
    for row in &report.queues {
        let pending = row.busy_bound_ns.map_or_else(String::new, |bound| format!("≤ {}", time(bound)));
        table.row(vec![group_digits(row.submissions), time(row.submitting_ns), pending, format!("{:#x}", row.queue)]);
    }
    style.table(out, "Queues", &table, None);
    if report.waits.count > 0 {
        let failed = match report.waits.failed {
            0 => String::new(),
            failed => format!(", {} of them without success", group_digits(failed)),
        };
        let waits = counted(report.waits.count, "wait");
        out.push_str(&format!("  The host waited {} in {waits}{failed}.\n", time(report.waits.total_ns)));
    }
    for row in &report.copies {
        let direction = row.direction.map_or_else(String::new, |direction| format!(" {direction}"));
        let copies = if row.count == 1 { "copy".to_owned() } else { "copies".to_owned() };
        let unknown = match row.without_size {
            0 => String::new(),
            without => format!(" ({} without a size)", group_digits(without)),
        };
        let count = group_digits(row.count);
        out.push_str(&format!("  {count} {copies}{direction}: {}{unknown}.\n", bytes(row.bytes)));
    }
}
