//! Why a model takes its time: what limits each operator, layer and phase, with the evidence, and what would help.
//! Everything comes of sums that the statistics have already: nothing is read twice, and what was not recorded is
//! named.

mod advice;
mod device;
mod gather;
mod judge;
mod model;
mod parts;
mod phase;
mod sampled;
mod sentences;
mod stated;

pub use model::{
    Advice, Bound, ClassShare, Confidence, DeviceBound, DeviceParts, DeviceVerdict, LayerVerdict, OperatorVerdict,
    PhaseVerdict, Rates, SampledClasses, StatedShare, TimeParts, Verdict,
};

use crate::functions::SampledWork;
use crate::model::faults::FaultsReport;
use crate::model::pressure::PressureReport;
use crate::model::sampling::SamplingReport;
use crate::model::threads::ThreadsReport;
use crate::numbers::units::share;
use gather::Source;
use profinfer_analysis::{KernelShares, Phase, Statistics, Timeline};
use profinfer_schema::Role;
use profinfer_trace::Meta;

/// Operators that are listed.
const MOST_ROWS: usize = 256;
/// The kernel counts CPU time in ticks of this, ns.
const TICK_NS: f64 = 1e7;
/// From this part on, steal time is mentioned with the verdict.
const STOLEN: f64 = 0.05;

impl Verdict {
    /// Of a trace that was read to its end.
    pub(crate) fn new(
        meta: &Meta,
        (statistics, samples): (&Statistics, Option<&SampledWork>),
        timeline: &Timeline,
        sampling: &SamplingReport,
        faults: Option<&FaultsReport>,
    ) -> Self {
        let source = Source { meta, statistics, timeline, samples };
        let mut found = Self::default();
        let mut stolen = 0.0_f64;
        let threads = ThreadsReport::new(meta, statistics, timeline.catalogue(), &Phase::STEPS);
        let others = threads.map_or_else(String::new, |threads| {
            sentences::processes(&threads.interference.iter().filter(|row| row.is_other()).collect::<Vec<_>>())
        });
        // What a person waits for most comes first.
        for phase in Phase::RECURRING_FIRST {
            let device = device::judge(statistics, timeline.catalogue(), phase);
            let is_on_device = device.as_ref().is_some_and(decides);
            if let Some(device) = device {
                let shown = if is_on_device { if phase.recurs() { 2 } else { 1 } } else { 0 };
                found.sentences.extend(device.evidence.iter().take(shown).cloned());
                found.devices.push(device);
            }
            let Some(parts) = source.phase(phase) else { continue };
            let mut verdict = parts.verdict();
            let probes = sampling.predicted.filter(|_| phase.recurs());
            let of_phase = sentences::describe(&parts, &verdict, faults, probes);
            verdict.evidence = std::iter::once(of_phase.main.clone()).chain(of_phase.besides.iter().cloned()).collect();
            verdict.stated = of_phase.stated;
            // Of prefill, what limits it; of decode and runs, what else too. Lanes do not limit what waits for a device.
            if !is_on_device {
                found.sentences.push(of_phase.main);
                found.sentences.extend(of_phase.besides.into_iter().take(if phase.recurs() { 2 } else { 0 }));
                found.sentences.extend(verdict.sampled.as_ref().and_then(|sampled| sampled::sentence(phase, sampled)));
                let machine = (meta.origin.host.cpus, others.as_str());
                found.advice.extend(advice::advise(&parts, &verdict, timeline.rules(), faults, machine));
            }
            found.operators.extend(parts.operators());
            stolen = stolen.max(parts.stolen);
            found.layers.extend(parts.layers);
            found.phases.push(verdict);
        }
        let outside = device::judge(statistics, timeline.catalogue(), Phase::Outside);
        if let Some(device) = outside.filter(|_| statistics.steps() == 0) {
            found.sentences.extend(device.evidence.iter().cloned());
            found.devices.push(device);
        }
        if stolen >= STOLEN && !found.sentences.is_empty() {
            found.sentences.push(format!(
                "Steal time: {} of this virtual machine's CPU time. Rates are lower because of it.",
                share(stolen)
            ));
        }
        let is_later = |phase: &str| phase == Phase::Prefill.as_str();
        found
            .operators
            .sort_by(|a, b| is_later(a.phase).cmp(&is_later(b.phase)).then_with(|| b.share.total_cmp(&a.share)));
        found.operators.truncate(MOST_ROWS);
        found.cannot_say = cannot_say(meta, statistics, timeline, &found);
        found
    }
}

/// From this part of pending work on, and unless operators on the CPU take most of the time, lanes are not what limits.
const ON_DEVICE: f64 = 0.05;

fn decides(device: &DeviceVerdict) -> bool {
    device.bound != DeviceBound::Operators && device.busy_at_most >= ON_DEVICE
}

/// What limits a phase of a trace, and what the kernel counted for it; `None` without operators.
pub(crate) fn limit_of(
    meta: &Meta,
    statistics: &Statistics,
    timeline: &Timeline,
    phase: Phase,
) -> Option<PhaseVerdict> {
    Some(Source { meta, statistics, timeline, samples: None }.phase(phase)?.verdict())
}

/// What the kernel counted for the target in a phase, as parts of the lanes' time; and the counts.
pub(crate) fn kernel_shares(
    meta: &Meta,
    statistics: &Statistics,
    timeline: &Timeline,
    phase: Phase,
) -> (KernelShares, Option<PressureReport>) {
    let threads = ThreadsReport::new(meta, statistics, timeline.catalogue(), &[phase]);
    let pressure = PressureReport::new(meta, statistics, phase);
    let source = Source { meta, statistics, timeline, samples: None };
    let limits = source.group_limits(phase, threads.as_ref(), pressure.as_ref());
    let counted = pressure.filter(|pressure| pressure.user_ns + pressure.system_ns > 0.0);
    let shares = KernelShares {
        throttled: limits.throttled,
        kernel: counted.map(|pressure| pressure.system_share()),
        ticks: counted.map_or(0.0, |pressure| (pressure.user_ns + pressure.system_ns) / TICK_NS),
        reclaims: limits.reclaim.is_some(),
    };
    (shares, pressure)
}

/// What is missing, and how to have it the next time.
fn cannot_say(meta: &Meta, statistics: &Statistics, timeline: &Timeline, found: &Verdict) -> Vec<String> {
    let mut reasons = Vec::new();
    if statistics.steps() == 0 {
        return reasons;
    }
    let models = statistics.requests().models();
    if models > 1 {
        reasons
            .push(format!("Steps of {models} models are taken together: `profinfer statistics` distinguishes them."));
    }
    reasons.extend(device::cannot_say(statistics.offloads()));
    if found.phases.is_empty() && statistics.offloads().dispatches().next().is_some() {
        let what =
            "Operators run on a device: `--by backend` shows their encoding, and the device's time if it is known.";
        reasons.push(what.into());
        return reasons;
    }
    if found.phases.is_empty() && !found.devices.is_empty() {
        return reasons;
    }
    if found.phases.is_empty() {
        let budget = meta.end.as_ref().and_then(|end| end.overhead.as_ref()?.budget);
        let remedy = match budget {
            Some(_) => "Record longer, or with a larger `--budget`.",
            None if meta.schema.has_role(Role::Operator) => {
                "Their functions have no probe, or were not called: `--all`."
            }
            None => "Record without `--level`.",
        };
        reasons.push(format!("No operators were recorded: the limit of steps is unknown. {remedy}"));
        return reasons;
    }
    if !timeline.rules().has_costs() {
        reasons.push(
            "The probeset has no costs of operators: memory-bound and compute-bound work cannot be distinguished."
                .into(),
        );
    } else if meta.origin.roofline.as_ref().is_none_or(|roofline| roofline.figures.is_empty()) {
        reasons.push(
            "This machine's limits were not measured: memory-bound and compute-bound work cannot be distinguished. Run \
             `profinfer roofline` once, then record again."
                .into(),
        );
    } else if found.phases.iter().any(|of| of.bound == Bound::Unknown) {
        let remedy = "Record with `--sample 999`: `report --by function` then shows which functions take the time.";
        let shows = "`--by function` shows which functions take the time whose limit is unknown.";
        reasons.push(if meta.samples > 0 { shows } else { remedy }.into());
    }
    if statistics.threads().is_empty() {
        reasons.push("Scheduler events were not recorded: run-queue delay is unknown.".into());
    }
    reasons
}

#[cfg(test)]
mod tests;
