//! A phase, taken apart: what limits it, its layers and its operators.

use super::judge::{Judged, Limits};
use super::model::{Bound, Confidence, LayerVerdict, OperatorVerdict, PhaseVerdict, Rates, TimeParts};
use super::parts::LaneTime;
use super::sampled;
use crate::functions::ClassCounts;
use crate::model::pressure::PressureReport;
use crate::model::threads::ThreadsReport;
use crate::numbers::ratios::natural_order;
use profinfer_analysis::{Phase, PhaseTotals, ReclaimTotals};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The second explanation is close from this part of the first on.
pub(super) const CLOSE: f64 = 0.6;

/// Operators of one name in a phase.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) name: Arc<str>,
    pub(super) op: Arc<str>,
    /// Layers that it occurs in.
    pub(super) layers: usize,
    pub(super) count: u64,
    pub(super) elapsed_ns: f64,
    /// What its operators would take had each done the least work that one of its kind and layer did, ns.
    pub(super) least_ns: f64,
    pub(super) time: LaneTime,
    pub(super) parts: TimeParts,
    pub(super) judged: Judged,
    pub(super) costs: Option<(f64, f64)>,
    /// What `costs` took, had all lanes run.
    pub(super) costed_ns: f64,
    /// Bytes of weights, by type.
    pub(super) weights: BTreeMap<u16, f64>,
    /// In whose graphs most of its work is, where graphs have one.
    pub(super) backend: Option<Arc<str>>,
}

/// A phase, taken apart.
#[derive(Debug)]
pub(super) struct PhaseParts {
    pub(super) phase: Phase,
    pub(super) totals: PhaseTotals,
    pub(super) lane_time: f64,
    pub(super) lanes: u64,
    /// ns.
    pub(super) parts: TimeParts,
    pub(super) groups: Vec<Group>,
    pub(super) layers: Vec<LayerVerdict>,
    /// Of `parts`: delays between steps. All lanes wait meanwhile.
    pub(super) between: TimeParts,
    /// The part of `parts.overhead` around operators.
    pub(super) around: f64,
    /// Of `around`, what is outside graphs; `None` where something stopped lanes from running there, and it is unknown
    /// where.
    pub(super) outside_graphs: Option<f64>,
    /// Lane time in graphs of backends whose operators are not seen, ns, and these backends.
    pub(super) unseen: (f64, Vec<String>),
    /// What the host encoded for a device, in the graphs of these backends.
    pub(super) offloaded: Option<Offloaded>,
    pub(super) bytes_per_step: Option<f64>,
    pub(super) limits: Limits,
    pub(super) threads: Option<ThreadsReport>,
    /// What the kernel let the target have; `None` where that was not recorded.
    pub(super) pressure: Option<PressureReport>,
    /// A memory limit has data evicted and read again.
    pub(super) limit_reached: bool,
    /// Reclaim and compaction as measured; `None` where they were not recorded.
    pub(super) reclaims: Option<ReclaimTotals>,
    /// Of the lanes' time: on a CPU or blocked in it, ns.
    pub(super) reclaim_measured: Option<f64>,
    /// The host's part.
    pub(super) stolen: f64,
    /// The lane that most often worked longest, and in which part of the operators that several lanes shared.
    pub(super) slowest: Option<(u32, f64)>,
    /// Samples within operators.
    pub(super) sampled: Option<ClassCounts>,
}

/// What the host encoded for devices in a phase.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Offloaded {
    /// Calls that gave something to a device.
    pub(super) dispatches: u64,
    /// The host's time in them, ns.
    pub(super) encoding: u64,
    /// Mean time from a step's start until its results were there, ns, if that was recorded.
    pub(super) until_results: Option<f64>,
}

/// A layer's time, and that of the work on which its operators' verdicts are so sure.
type LayerParts = (TimeParts, BTreeMap<Confidence, f64>);
pub(super) type Layers = BTreeMap<Option<Arc<str>>, LayerParts>;

/// The largest part, how sure that is, and the other explanation where it is close: the second part, or what the
/// operators' verdicts leave open.
pub(super) fn decide(parts: &TimeParts, sure: &BTreeMap<Confidence, f64>) -> (Bound, Confidence, Option<Bound>) {
    let (first, second) = parts.largest();
    let total = parts.total();
    let work = matches!(first, Bound::Memory | Bound::Compute | Bound::Overhead | Bound::Unknown);
    let most = sure.iter().max_by(|a, b| a.1.total_cmp(b.1)).map_or(Confidence::Medium, |(sure, _)| *sure);
    let of_part = match first {
        Bound::Unknown => Confidence::Low,
        _ if work => most,
        _ => Confidence::High,
    };
    let share = if total > 0.0 { parts[first] / total } else { 0.0 };
    let close = parts[second] >= CLOSE * parts[first] && parts[second] > 0.0;
    let lowered = u32::from(share < 0.5 && close);
    (first, of_part.lowered(lowered), close.then_some(second))
}

pub(super) fn layer_verdicts(phase: Phase, layers: Layers, lane_time: f64) -> Vec<LayerVerdict> {
    if layers.keys().all(Option::is_none) {
        return Vec::new();
    }
    let row = |(layer, (parts, sure)): (Option<Arc<str>>, LayerParts)| {
        let (bound, confidence, also) = decide(&parts, &sure);
        LayerVerdict {
            phase: phase.as_str(),
            layer: layer.map(|layer| layer.to_string()),
            bound,
            confidence,
            also,
            share: parts.total() / lane_time,
            parts: parts.by(parts.total()),
        }
    };
    let mut rows: Vec<LayerVerdict> = layers.into_iter().map(row).collect();
    rows.sort_by(|a, b| natural_order(a.layer.as_deref(), b.layer.as_deref()));
    rows
}

impl PhaseParts {
    /// Shares of the phase's time.
    pub(super) fn shares(&self) -> TimeParts {
        self.parts.by(self.whole())
    }

    /// All of its time: the recorded time of lanes may come to a little more than the steps' durations.
    fn whole(&self) -> f64 {
        self.lane_time.max(self.parts.total())
    }

    /// The part of its time that so much is.
    pub(super) fn share_of(&self, ns: f64) -> f64 {
        ns / self.whole().max(1.0)
    }

    /// Steps that were recorded whole.
    pub(super) fn steps(&self) -> f64 {
        self.totals.whole_steps.max(1) as f64
    }

    /// Groups whose work is limited by this.
    pub(super) fn limited(&self, bound: Bound) -> impl Iterator<Item = &Group> {
        self.groups.iter().filter(move |group| group.judged.bound == bound)
    }

    /// What these groups did together.
    pub(super) fn rates(&self, bound: Bound) -> Rates {
        let mut costed = self.limited(bound).filter_map(|group| Some((group, group.costs?))).peekable();
        let Some(limits) = costed.peek().map(|(group, _)| group.judged.rates) else { return Rates::default() };
        // Groups at another level's limit have other rates.
        let costed = costed.filter(|(group, _)| group.judged.rates.limited_by_cache == limits.limited_by_cache);
        let (mut flops, mut bytes, mut ns) = (0.0, 0.0, 0.0);
        for (group, (f, b)) in costed {
            flops += f;
            bytes += b;
            ns += group.costed_ns;
        }
        let by_time = |amount: f64| (ns > 0.0).then(|| amount * 1e9 / ns);
        Rates {
            bytes_per_s: by_time(bytes),
            flops_per_s: by_time(flops),
            intensity: (bytes > 0.0).then(|| flops / bytes),
            ..limits
        }
    }

    /// How sure the groups' verdicts are, and the explanation that they leave open, by their work.
    fn sure(&self, bound: Bound) -> (BTreeMap<Confidence, f64>, Option<Bound>) {
        let (mut sure, mut also): (BTreeMap<Confidence, f64>, BTreeMap<Bound, f64>) = Default::default();
        let mut all = 0.0;
        for group in self.limited(bound) {
            *sure.entry(group.judged.confidence).or_default() += group.time.running;
            all += group.time.running;
            if let Some(other) = group.judged.also {
                *also.entry(other).or_default() += group.time.running;
            }
        }
        let open = also.into_iter().find(|(_, ns)| *ns > all / 2.0).map(|(bound, _)| bound);
        (sure, open)
    }

    /// The phase's verdict, without its evidence.
    pub(super) fn verdict(&self) -> PhaseVerdict {
        let (first, ..) = decide(&self.parts, &BTreeMap::new());
        let (sure, open) = self.sure(first);
        let (bound, confidence, close) = decide(&self.parts, &sure);
        // Where something prevented lanes from working, the rates are of most of the work.
        let work = [Bound::Memory, Bound::Compute, Bound::Overhead, Bound::Unknown];
        let most = work.into_iter().max_by(|a, b| self.parts[*a].total_cmp(&self.parts[*b])).unwrap_or(bound);
        PhaseVerdict {
            phase: self.phase.as_str(),
            bound,
            confidence,
            also: close.or(open),
            parts: self.shares(),
            reclaim_measured: self.reclaim_measured.map(|ns| self.share_of(ns)),
            bytes_per_step: self.bytes_per_step,
            caches: self.limits.data.as_str(),
            rates: self.rates(if work.contains(&bound) { bound } else { most }),
            evidence: Vec::new(),
            stated: Vec::new(),
            sampled: self.sampled.as_ref().map(sampled::classes),
        }
    }

    /// Its operators' verdicts.
    pub(super) fn operators(&self) -> impl Iterator<Item = OperatorVerdict> {
        self.groups.iter().map(|group| {
            let sure = BTreeMap::from([(group.judged.confidence, 1.0)]);
            let (bound, confidence, close) = decide(&group.parts, &sure);
            let why = match bound {
                bound if bound == group.judged.bound => group.judged.why.clone(),
                Bound::Disk => "its lanes waited for the disk, or for one that did".to_owned(),
                Bound::Starved => "its lanes could have run and did not, or waited for one that did not".to_owned(),
                Bound::Synchronisation => "its lanes waited for the slowest of them".to_owned(),
                Bound::Throttled => "the quota of its control group did not let its lanes run".to_owned(),
                Bound::Stopped => "its lanes were stopped by a signal or a debugger".to_owned(),
                Bound::Attaching => "profinfer stopped its lanes, to place probes".to_owned(),
                Bound::Reclaim => "the kernel evicted memory, and read again what it needed".to_owned(),
                Bound::Kernel => "the kernel worked within it, by samples".to_owned(),
                _ => "most of its time is around its work".to_owned(),
            };
            OperatorVerdict {
                phase: self.phase.as_str(),
                name: group.name.to_string(),
                op: group.op.to_string(),
                bound,
                confidence,
                also: close.or(group.judged.also.filter(|_| bound == group.judged.bound)),
                share: group.parts.total() / self.lane_time,
                parts: group.parts.by(group.parts.total()),
                count: group.count,
                mean_ns: group.elapsed_ns / group.count.max(1) as f64,
                rates: group.judged.rates,
                why,
            }
        })
    }
}
