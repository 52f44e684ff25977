//! Why a model takes its time: what limits each operator, layer and phase, with the evidence, and what would help.
//! Everything comes of sums that the statistics have already: nothing is read twice, and what was not recorded is said
//! to be missing.

mod advice;
mod gather;
mod judge;
mod model;
mod parts;
mod say;
mod stated;
mod text;

pub use model::{
    Advice, Bound, Confidence, LayerVerdict, OperatorVerdict, PhaseVerdict, Rates, StatedShare, TimeParts, Verdict,
};
pub(super) use text::{opening, operators};

use super::faults::FaultsReport;
use super::sampling::SamplingReport;
use super::threads::ThreadsReport;
use super::units::share;
use crate::analysis::{Phase, Statistics, Timeline};
use crate::trace::Meta;
use gather::Source;

/// Operators that are listed.
const MOST_ROWS: usize = 256;
/// From this part on, what a host takes is said with the verdict.
const STOLEN: f64 = 0.05;

impl Verdict {
    /// Of a trace that was read to its end.
    pub(super) fn new(
        meta: &Meta,
        statistics: &Statistics,
        timeline: &Timeline,
        sampling: &SamplingReport,
        faults: Option<&FaultsReport>,
    ) -> Self {
        let source = Source { meta, statistics, timeline };
        let mut found = Self::default();
        let mut stolen = 0.0_f64;
        let both = [Phase::Prefill, Phase::Decode];
        let threads = ThreadsReport::new(meta, statistics, timeline.catalogue(), &both);
        let others = threads.map_or_else(String::new, |threads| {
            say::processes(&threads.interference.iter().filter(|row| row.is_other()).collect::<Vec<_>>())
        });
        // What a person waits for most comes first.
        for phase in [Phase::Decode, Phase::Prefill] {
            let Some(parts) = source.phase(phase) else { continue };
            let mut verdict = parts.verdict();
            let probes = sampling.predicted.filter(|_| phase == Phase::Decode);
            let said = say::say(&parts, &verdict, faults, probes);
            verdict.evidence = std::iter::once(said.main.clone()).chain(said.besides.iter().cloned()).collect();
            verdict.stated = said.stated;
            // Of prefill, what limits it; of decode, what else too.
            found.sentences.push(said.main);
            found.sentences.extend(said.besides.into_iter().take(if phase == Phase::Decode { 2 } else { 0 }));
            let machine = (meta.origin.host.cpus, others.as_str());
            found.advice.extend(advice::advise(&parts, &verdict, timeline.rules(), faults, machine));
            found.operators.extend(parts.operators());
            stolen = stolen.max(parts.stolen);
            found.layers.extend(parts.layers);
            found.phases.push(verdict);
        }
        if stolen >= STOLEN && !found.sentences.is_empty() {
            found.sentences.push(format!(
                "The host of this virtual machine took {} of its processors' time meanwhile: rates are lower for it.",
                share(stolen)
            ));
        }
        let decode_first = |phase: &str| phase != Phase::Decode.as_str();
        found.operators.sort_by(|a, b| {
            decode_first(a.phase).cmp(&decode_first(b.phase)).then_with(|| b.share.total_cmp(&a.share))
        });
        found.operators.truncate(MOST_ROWS);
        found.cannot_say = cannot_say(meta, statistics, timeline, &found);
        found
    }
}

/// What is missing, and how to have it the next time.
fn cannot_say(meta: &Meta, statistics: &Statistics, timeline: &Timeline, found: &Verdict) -> Vec<String> {
    let mut said = Vec::new();
    if statistics.steps() == 0 {
        return said;
    }
    if found.phases.is_empty() {
        said.push(
            "No operators were recorded: what limits the steps cannot be told (`record` without `--level`).".into(),
        );
        return said;
    }
    if !timeline.rules().has_costs() {
        said.push(
            "The probeset does not say what operators cost: memory-bound and compute-bound cannot be told apart."
                .into(),
        );
    } else if meta.origin.roofline.as_ref().is_none_or(|roofline| roofline.figures.is_empty()) {
        said.push(
            "What this machine can do was not measured: memory-bound and compute-bound cannot be told apart. Run \
             `profinfer roofline` once, then record again."
                .into(),
        );
    }
    if statistics.threads().is_empty() {
        said.push("Whether lanes were kept from running was not recorded (the scheduler's events).".into());
    }
    said
}

#[cfg(test)]
mod tests;
