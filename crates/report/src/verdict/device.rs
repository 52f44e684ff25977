//! What limits steps that give work to a device: the device, or what the host does. Only the host's times decide, which
//! are measured: a faster device saves no more than the time in which the host waits, or may wait. A bound of the device's
//! time is named a bound, and decides nothing.

use super::model::{Confidence, DeviceBound, DeviceParts, DeviceVerdict};
use crate::numbers::units::{bytes, quantity, share, time_f64};
use profinfer_analysis::{Catalogue, DeviceUse, HostWork, Offloads, Phase, Statistics, counted};
use std::collections::{BTreeMap, BTreeSet};

/// The second explanation is close from this part of the first on.
const CLOSE: f64 = 0.6;
/// From this part of the time on, a part is the verdict with high confidence.
const MOST: f64 = 0.5;
/// A part is mentioned from this share on.
const WORTH_MENTIONING: f64 = 0.05;
/// Types of operators that are named.
const MOST_TYPES: usize = 3;

impl DeviceParts {
    fn new(of: &DeviceUse) -> Self {
        let host = of.host();
        let part = |ns: u64| ns as f64 / of.time.max(1) as f64;
        let unrecorded = of.while_pending[HostWork::Other].saturating_add(of.while_pending[HostWork::Between]);
        // What the device measured beyond the rest of the pending time, it did during this.
        let elsewhere = of.pending().saturating_sub(unrecorded);
        let is_measured = of.measured_time == of.time && of.time > 0;
        let works = if is_measured { of.measured_busy().saturating_sub(elsewhere).min(unrecorded) } else { 0 };
        Self {
            device: part(host[HostWork::Waiting].saturating_add(works)),
            encoding: part(host[HostWork::Encoding]),
            host: part(of.while_idle[HostWork::Other].saturating_add(of.while_idle[HostWork::Between])),
            submitting: part(host[HostWork::Submitting]),
            copying: part(host[HostWork::Copying]),
            operators: part(host[HostWork::Operators]),
            unknown: part(unrecorded.saturating_sub(works)),
        }
    }

    fn of(&self, bound: DeviceBound) -> f64 {
        match bound {
            DeviceBound::Device => self.device,
            DeviceBound::Host => self.encoding + self.host,
            DeviceBound::Submission => self.submitting,
            DeviceBound::Copy => self.copying,
            DeviceBound::Operators => self.operators,
            DeviceBound::Unknown => self.unknown,
        }
    }
}

/// Of a phase; `None` if no step of it submitted work whose end was recorded.
pub(super) fn judge(statistics: &Statistics, catalogue: &Catalogue, phase: Phase) -> Option<DeviceVerdict> {
    let of = statistics.offloads().device_use(phase).filter(|of| of.time > 0)?;
    let parts = DeviceParts::new(&of);
    let mut order = DeviceBound::ALL;
    order.sort_by(|a, b| parts.of(*b).total_cmp(&parts.of(*a)));
    let [bound, second, ..] = order;
    let close = parts.of(second) >= CLOSE * parts.of(bound) && parts.of(second) >= WORTH_MENTIONING;
    // Copies may have waited for other work.
    let waited = bound == DeviceBound::Copy && 2 * of.copying_with_work >= of.host()[HostWork::Copying];
    let confidence = match bound {
        DeviceBound::Unknown => Confidence::Low,
        // Without steps the host may as well have nothing to compute.
        DeviceBound::Host if phase == Phase::Outside => Confidence::Low,
        _ if waited => Confidence::Low,
        _ if close => Confidence::Medium,
        _ if parts.of(bound) >= MOST => Confidence::High,
        _ => Confidence::Medium,
    };
    let idle_at_least = of.idle() as f64 / of.time as f64;
    let mut verdict = DeviceVerdict {
        phase: phase.as_str(),
        bound,
        confidence,
        also: close.then_some(second),
        steps: of.steps,
        step_ns: of.time as f64 / of.steps.max(1) as f64,
        parts,
        idle_at_least,
        busy_at_most: of.pending() as f64 / of.time as f64,
        busy_measured: (of.measured_time == of.time).then(|| of.measured_busy() as f64 / of.time as f64),
        faster_device_saves_at_most: parts.device
            + parts.unknown
            + parts.submitting
            + of.copying_with_work as f64 / of.time as f64,
        evidence: Vec::new(),
    };
    verdict.evidence = vec![main(&verdict, &of, (statistics, catalogue), phase), device(&verdict, phase)];
    Some(verdict)
}

/// Why there is no verdict although work was submitted.
pub(super) fn cannot_say(offloads: &Offloads) -> Option<String> {
    let uses = || Phase::ALL.into_iter().filter_map(|phase| offloads.device_use(phase));
    if uses().any(|of| of.steps > 0) {
        return None;
    }
    let overlapping: u64 = uses().map(|of| of.overlapping).sum();
    if overlapping > 0 {
        return Some("Steps overlap each other: it is unknown whether the device or the host limits them.".into());
    }
    let without: u64 = uses().map(|of| of.without_end).sum();
    (without > 0).then(|| {
        "Work was submitted to a device, and no wait for all of it was recorded: it is unknown whether the device or \
         the host limits the steps."
            .into()
    })
}

fn name(statistics: &Statistics, phase: Phase) -> &'static str {
    let has_tokens = statistics.phase(phase).is_some_and(|totals| totals.steps_with_tokens > 0);
    match phase {
        Phase::Prefill if has_tokens => "Prefill",
        Phase::Decode if has_tokens => "Decode",
        _ => "The run",
    }
}

fn main(
    verdict: &DeviceVerdict,
    of: &DeviceUse,
    (statistics, catalogue): (&Statistics, &Catalogue),
    phase: Phase,
) -> String {
    let parts = &verdict.parts;
    let is = if verdict.confidence == Confidence::Low { "is probably" } else { "is" };
    let start = format!("{} {is}", name(statistics, phase));
    let mut text = match verdict.bound {
        DeviceBound::Device => format!("{start} device-bound: {}.", waits(of, parts.device)),
        DeviceBound::Host if phase == Phase::Outside => format!(
            "In {} of the time no work is pending and the host makes no recorded call, or encodes: it does other work, or \
             waits for something else. Record steps to learn more.",
            share(parts.of(verdict.bound))
        ),
        DeviceBound::Host => format!("{start} host-bound: {}.", host_work(parts)),
        DeviceBound::Submission => {
            let (count, ns) = submissions(statistics, phase);
            format!(
                "{start} submission-bound: {} of its time is in {count} calls per step that submit work, {} each. The \
                 driver is slow, or a queue is full.",
                share(parts.submitting),
                time_f64(ns)
            )
        }
        DeviceBound::Copy => {
            let waited = if verdict.confidence == Confidence::Low {
                " Other work was pending during most of them: they may wait for it."
            } else {
                ""
            };
            let what = copied(statistics, of, phase);
            format!("{start} copy-bound: {} of its time is in copies{what}.{waited}", share(parts.copying))
        }
        DeviceBound::Operators => {
            let which = on_cpu(statistics, catalogue, phase);
            format!("{start} limited by operators on the CPU: {} of its time.{which}", share(parts.operators))
        }
        DeviceBound::Unknown => format!(
            "Whether device or host limits {} is unknown: in {} of its time work is pending and the host makes no \
             recorded call. It polls, or does other work.",
            name(statistics, phase).to_lowercase(),
            share(parts.unknown)
        ),
    };
    if let Some(also) = verdict.also {
        text.push_str(&second(also, parts));
    }
    text
}

/// The second part, where it is close.
fn second(also: DeviceBound, parts: &DeviceParts) -> String {
    let part = share(parts.of(also));
    let what = match also {
        DeviceBound::Device => "the host waits for the device",
        DeviceBound::Host => return format!(" Another part: {}.", host_work(parts)),
        DeviceBound::Submission => "the host submits work",
        DeviceBound::Copy => "it copies data",
        DeviceBound::Operators => "operators run on the CPU",
        DeviceBound::Unknown => "work is pending and the host makes no recorded call",
    };
    format!(" During another {part} {what}.")
}

fn waits(of: &DeviceUse, part: f64) -> String {
    match of.host()[HostWork::Waiting] as f64 / of.time as f64 {
        waits if waits >= part / 2.0 => format!("the host waits for the device in {} of its time", share(waits)),
        _ => format!("the device works in {} of its time while the host makes no recorded call", share(part)),
    }
}

/// `encoding takes 62.0 % of its time, other work of the host 10.0 %`.
fn host_work(parts: &DeviceParts) -> String {
    let mut named: Vec<(f64, &str)> = vec![(parts.encoding, "encoding"), (parts.host, "other work of the host")];
    named.sort_by(|a, b| b.0.total_cmp(&a.0));
    let text = |(at, (part, what)): (usize, &(f64, &str))| match at {
        0 => format!("{what} takes {} of its time", share(*part)),
        _ => format!("{what} {}", share(*part)),
    };
    let matters = |(at, (part, _)): &(usize, &(f64, &str))| *at == 0 || *part >= WORTH_MENTIONING / 5.0;
    named.iter().enumerate().filter(matters).map(text).collect::<Vec<_>>().join(", ")
}

/// Which operators the CPU computed, and whether the device computes such ones too: then their place was chosen, else
/// the backend may lack them.
fn on_cpu(statistics: &Statistics, catalogue: &Catalogue, phase: Phase) -> String {
    let op = |kind| catalogue.kind(kind).op.as_ref();
    let mut times: BTreeMap<&str, u64> = BTreeMap::new();
    let of_phase = statistics.operators().filter(|(_, _, of, totals)| *of == phase && !totals.are_of_a_device());
    for (kind, _, _, totals) in of_phase {
        let time = times.entry(op(kind)).or_default();
        // Without those that they called.
        *time = time.saturating_add(totals.divided().work);
    }
    let on_device: BTreeSet<&str> = {
        let encoded =
            statistics.offloads().dispatches().filter(|(_, _, of, totals)| *of == phase && totals.count > totals.empty);
        encoded.map(|(kind, ..)| op(kind)).collect()
    };
    let all = times.values().fold(0_u64, |sum, ns| sum.saturating_add(*ns));
    let mut times: Vec<(&str, u64)> = times.into_iter().collect();
    times.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    times.retain(|(_, ns)| *ns as f64 >= WORTH_MENTIONING * all as f64 && *ns > 0);
    times.truncate(MOST_TYPES);
    let list = |has: bool| {
        let some = times.iter().filter(|(op, _)| on_device.contains(op) == has);
        some.map(|(op, ns)| format!("{op} {}", share(*ns as f64 / all as f64))).collect::<Vec<_>>().join(", ")
    };
    let sentences = [
        (list(true), "which the device computes elsewhere: layers or data are not offloaded"),
        (list(false), "which the device computes nowhere: its backend may lack them"),
    ];
    let has = sentences.iter().filter(|(list, _)| !list.is_empty());
    let texts: Vec<String> = has.map(|(list, why)| format!("{list}, {why}")).collect();
    if texts.is_empty() { String::new() } else { format!(" Of this, {}.", texts.join("; ")) }
}

/// Submissions of a phase: how many in a step, and the mean time of one, ns.
fn submissions(statistics: &Statistics, phase: Phase) -> (u64, f64) {
    let queues = statistics.offloads().queues().filter(|(_, of, _)| *of == phase);
    let (count, ns) = queues.fold((0, 0), |(count, ns): (u64, u64), (_, _, of)| {
        (count.saturating_add(of.submissions), ns.saturating_add(of.submitting))
    });
    let steps = statistics.offloads().results(phase).map_or(1, |of| of.steps.max(1));
    (count / steps, ns as f64 / count.max(1) as f64)
}

/// ` (1.20 GiB per step, 3.40 GB/s)`.
fn copied(statistics: &Statistics, of: &DeviceUse, phase: Phase) -> String {
    let copies = statistics.offloads().copies().filter(|(_, of, _)| *of == phase);
    let all = copies.fold((0, 0), |(all, ns): (u64, u64), (_, _, copy)| {
        (all.saturating_add(copy.bytes), ns.saturating_add(copy.time))
    });
    let (all, ns) = all;
    if all == 0 || ns == 0 {
        return String::new();
    }
    let steps = statistics.offloads().results(phase).map_or(of.steps, |results| results.steps).max(1);
    let speed = quantity(all as f64 * 1e9 / ns as f64, "B/s");
    format!(" of {} per step, at {speed}", bytes(all / steps))
}

/// What the device did, as far as that is certain.
fn device(verdict: &DeviceVerdict, phase: Phase) -> String {
    let idle = share(verdict.idle_at_least);
    let busy = match verdict.busy_measured {
        Some(measured) => format!("The device computes operators in {} of the time (measured)", share(measured)),
        None => format!("The device works in at most {} of the time (a bound)", share(verdict.busy_at_most)),
    };
    let gain = match verdict.bound {
        DeviceBound::Device | DeviceBound::Unknown => String::new(),
        _ => format!("; a faster device saves at most {}", share(verdict.faster_device_saves_at_most)),
    };
    let of = match phase {
        Phase::Outside => "from the first submission to the last result".to_owned(),
        _ => format!("mean of {}", counted(verdict.steps, "step")),
    };
    format!("{busy} and has nothing to do in at least {idle}{gain}; {of}.")
}

#[cfg(test)]
#[path = "device_tests.rs"]
mod tests;
