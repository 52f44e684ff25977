//! From the statistics to verdicts: operators of the same name and phase are judged together, their time is divided by
//! cause, and layers and phases are the sums.

use super::judge::{Data, Judged, Limits, Work, judge};
use super::model::{Bound, TimeParts};
use super::parts::{GroupLimits, LaneTime};
use super::phase::{Group, Layers, Offloaded, PhaseParts, layer_verdicts};
use super::sampled;
use crate::functions::SampledWork;
use crate::model::pressure::PressureReport;
use crate::model::threads::ThreadsReport;
use profinfer_analysis::{
    Catalogue, Divided, KindId, OperatorTotals, Phase, PhaseTotals, Quantities, Reclaims, Statistics, TextId,
    TimeSplit, Timeline,
};
use profinfer_schema::{CacheSize, Level, Quantity, Roofline};

use profinfer_trace::Meta;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// Fewer operators than this do not show how short one can be.
const ENOUGH: u64 = 16;
/// An operator of this time is too small on any machine, ns.
const TOO_SMALL_NS: f64 = 15_000.0;
/// One of this time is not too small, however long the shortest ones take, ns.
const NOT_SMALL_NS: f64 = 30_000.0;
/// So many times as long as the shortest ones, an operator is still mostly what they are.
const TIMES_THE_SHORTEST: f64 = 8.0;
/// A part that is no more than this of another does not change it.
const OF_NO_MATTER: f64 = 0.01;

/// What verdicts are worked out of.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) meta: &'a Meta,
    pub(super) statistics: &'a Statistics,
    pub(super) timeline: &'a Timeline,
    pub(super) samples: Option<&'a SampledWork>,
}

/// Where the counters of stalls stand among a trace's columns.
#[derive(Debug, Clone, Copy, Default)]
struct Columns {
    cycles: Option<usize>,
    stalled: Option<usize>,
    misses: Option<usize>,
}

/// A group while it is added up.
#[derive(Default)]
struct Sum {
    totals: OperatorTotals,
    least_ns: f64,
    time: LaneTime,
    quantities: Quantities,
    layers: BTreeMap<Option<Arc<str>>, LaneTime>,
    weights: BTreeMap<u16, f64>,
    /// Work, ns, by backend.
    backends: BTreeMap<TextId, u64>,
}

impl Sum {
    /// The backend with most of the work.
    fn backend(&self) -> Option<TextId> {
        self.backends.iter().max_by_key(|(_, work)| **work).map(|(backend, _)| *backend)
    }

    /// Processors of so many that its operators can have: as many as lanes share one.
    fn cpus(&self, cpus: u32) -> u32 {
        let lanes = self.totals.shares.div_ceil(self.totals.count.max(1)).max(1);
        cpus.min(u32::try_from(lanes).unwrap_or(u32::MAX))
    }

    /// The same of all of them.
    fn ran_in_all(&self, cpus: u32) -> f64 {
        self.ran(self.totals.elapsed as f64, self.totals.work as f64, cpus)
    }

    /// Of so much elapsed time and work, what it would have taken had nothing stopped the lanes: their time at
    /// work, spread over the processors they had.
    fn ran(&self, elapsed: f64, work: f64, cpus: u32) -> f64 {
        let all = self.totals.work as f64;
        let running = if all > 0.0 { (self.time.work() / all).min(1.0) * work } else { work };
        elapsed.min(running / f64::from(cpus))
    }
}

type Key = (Arc<str>, Arc<str>);

impl<'a> Source<'a> {
    fn catalogue(&self) -> &'a Catalogue {
        self.timeline.catalogue()
    }

    /// The phase's parts; `None` where no operator of it was recorded.
    pub(super) fn phase(&self, phase: Phase) -> Option<PhaseParts> {
        let totals = self.statistics.phase(phase)?.clone();
        if totals.operators == 0 || totals.lane_time == 0 {
            return None;
        }
        let threads = ThreadsReport::new(self.meta, self.statistics, self.catalogue(), &[phase]);
        let pressure = PressureReport::new(self.meta, self.statistics, phase);
        let group_limits = self.group_limits(phase, threads.as_ref(), pressure.as_ref());
        let sums = self.sums(phase, group_limits);
        let lanes = totals.lanes.max(1);
        let cpus = self.cpus(lanes);
        let bytes_per_step = bytes(&sums).map(|bytes| bytes / totals.whole_steps.max(1) as f64);
        let roofline = self.meta.origin.roofline.as_ref();
        let caches = roofline.and_then(last_cache);
        let data = Data::new(bytes_per_step, caches);
        let exceeds_inner_caches =
            bytes_per_step.zip(roofline).is_some_and(|(bytes, of)| bytes > 2.0 * inner_caches(of));
        let stolen = threads.as_ref().and_then(|threads| threads.stolen_share).unwrap_or(0.0);
        let too_small_ns = too_small(&sums, cpus);
        let of_cpus =
            |cpus| Limits { caches, data, exceeds_inner_caches, stolen, ..limits(roofline, cpus, too_small_ns) };
        let limits = of_cpus(cpus);
        let columns = self.columns();
        let mut layers = Layers::new();
        let mut groups = Vec::new();
        for ((name, op), sum) in sums {
            let own = sum.cpus(cpus);
            let (work, costed_ns) = self.work(&sum, own, columns);
            let judged = Some(judge(&work, &of_cpus(own))).filter(|of| own == cpus || !of.rates.exceed_peak());
            // Faster than its lanes can be: a library computes it, on threads of its own.
            let judged = judged.unwrap_or_else(|| judge(&work, &limits));
            let judged = if sum.totals.are_of_a_device() { Judged::of_the_host() } else { judged };
            let waits = sum.time.waiting / (sum.totals.count.max(1) * lanes) as f64;
            let is_brief = judged.bound == Bound::Overhead && waits <= NOT_SMALL_NS;
            let uneven = if is_brief { Bound::Overhead } else { Bound::Synchronisation };
            for (layer, time) in &sum.layers {
                let (parts, sure) = layers.entry(layer.clone()).or_default();
                parts.add(&time.parts(lanes, judged.bound, uneven));
                *sure.entry(judged.confidence).or_default() += time.running;
            }
            groups.push(Group {
                name,
                op,
                layers: sum.layers.keys().filter(|layer| layer.is_some()).count(),
                count: sum.totals.count,
                elapsed_ns: sum.totals.elapsed as f64,
                least_ns: sum.least_ns,
                time: sum.time,
                parts: sum.time.parts(lanes, judged.bound, uneven),
                costs: work.costs,
                costed_ns,
                backend: sum.backend().map(|backend| self.catalogue().text(backend).clone()),
                weights: sum.weights,
                judged,
            });
        }
        groups.sort_by(|a, b| {
            b.parts.total().total_cmp(&a.parts.total()).then_with(|| (&a.name, &a.op).cmp(&(&b.name, &b.op)))
        });
        let lane_time = totals.lane_time as f64;
        let mut parts = TimeParts::default();
        groups.iter().for_each(|group| parts.add(&group.parts));
        let unseen = self.unseen(phase, lanes, totals.outside_operators as f64);
        let unused: f64 = groups.iter().map(|group| group.time.unused).sum();
        let around = self.around(&totals, phase, threads.as_ref(), (unseen.0, unused, group_limits));
        parts.add(&around);
        let between = between(threads.as_ref(), lanes, group_limits);
        parts.add(&between);
        let layers = layer_verdicts(phase, layers, lane_time);
        let reclaims = Reclaims::recorded_by(&self.meta.schema).then(|| self.statistics.reclaims().phase(phase).1);
        let measured = threads.as_ref().map(|threads| {
            let of_lane = |lane: &crate::LaneThreadsRow| Some(lane.reclaiming_ns? + lane.reclaim_blocked_ns?);
            threads.lanes.iter().filter_map(of_lane).map(|ns| ns as f64).sum()
        });
        let found = PhaseParts {
            limit_reached: group_limits.reclaim.is_some(),
            reclaim_measured: measured.filter(|_| reclaims.is_some()),
            reclaims,
            around: around.overhead,
            outside_graphs: (around.total() - around.overhead - around.unknown <= OF_NO_MATTER * around.overhead)
                .then(|| (totals.outside_graphs as f64).min(around.overhead)),
            slowest: self.slowest(phase, totals.shared_operators),
            sampled: self.samples.and_then(|samples| samples.phase(phase)).cloned(),
            phase,
            lane_time,
            lanes,
            parts,
            between,
            groups,
            layers,
            unseen,
            offloaded: self.offloaded(phase),
            bytes_per_step,
            limits,
            threads,
            pressure,
            stolen,
            totals,
        };
        Some(found)
    }

    /// What limits of control groups did to lanes.
    pub(super) fn group_limits(
        &self,
        phase: Phase,
        threads: Option<&ThreadsReport>,
        pressure: Option<&PressureReport>,
    ) -> GroupLimits {
        let Some((threads, pressure)) = threads.zip(pressure) else { return GroupLimits::default() };
        let between = threads.between_steps.unwrap_or_default();
        let runnable: f64 = threads.lanes.iter().map(|lane| lane.runnable_ns as f64).sum();
        let runnable = runnable + between.runnable_ns as f64;
        let mut used: Vec<u16> = threads.lanes.iter().flat_map(|lane| lane.cpus.iter().map(|cpu| cpu.cpu)).collect();
        used.sort_unstable();
        used.dedup();
        // Lanes that share a CPU are all throttled with it, and the kernel counts that once.
        let sharing = (threads.lanes.len() as f64 / used.len().max(1) as f64).max(1.0);
        // It was throttled between steps as often as in them.
        let wanted = between.wall_ns.saturating_sub(between.sleeping_ns) as f64;
        let steps = self.statistics.phase(phase).map_or(0, |totals| totals.whole_time).max(1) as f64;
        // It is of all steps, what lanes did and moved of those that were recorded whole.
        let (rows, each) = self.statistics.step_points();
        let all = rows.iter().filter(|row| row.phase == phase).map(|row| row.end.saturating_sub(row.start));
        let of_whole = (steps / (all.sum::<u64>() as f64 * each.max(1) as f64).max(1.0)).min(1.0);
        let throttled = pressure.throttled_ns * of_whole * (1.0 + wanted / steps);
        let throttled = if runnable > 0.0 { throttled * sharing / runnable } else { 0.0 };
        let moved =
            self.statistics.operators().filter(|(_, _, of, _)| *of == phase).filter_map(|(kind, backend, of, _)| {
                self.statistics.quantities(kind, backend, of)?.with_bytes().map(|sums| sums.bytes)
            });
        let moved = moved.reduce(|a, b| a + b);
        GroupLimits {
            throttled: throttled.min(1.0),
            reclaim: pressure.thrashes(moved.map(|moved| moved / of_whole)).then(|| pressure.system_share()),
        }
    }

    fn sums(&self, phase: Phase, group_limits: GroupLimits) -> BTreeMap<Key, Sum> {
        let splits: HashMap<KindId, &TimeSplit> = {
            let of = self.statistics.threads().operators().filter(|(_, of, _)| *of == phase);
            of.map(|(kind, _, split)| (kind, split)).collect()
        };
        let mut faults = self.statistics.faults().operators(&[phase]);
        let unused = self.unused_by_work(phase);
        let mut split_taken: BTreeSet<KindId> = BTreeSet::new();
        let mut sums: BTreeMap<Key, Sum> = BTreeMap::new();
        for (id, backend, of, totals) in self.statistics.operators() {
            if of != phase {
                continue;
            }
            let kind = self.catalogue().kind(id);
            let sum = sums.entry((kind.pattern.clone(), kind.op.clone())).or_default();
            sum.totals.merge(totals);
            sum.least_ns += totals.min_work as f64 * totals.count as f64;
            if let Some(backend) = backend {
                let work = sum.backends.entry(backend).or_default();
                *work = work.saturating_add(totals.work);
            }
            let layer = sum.layers.entry(kind.layer.clone()).or_default();
            let shares = sampled::shares(self.samples, phase, kind);
            // Samples show the waiting that was not recorded, where there are enough.
            let by_samples = shares.waiting > 0.0;
            let divided = |split: &TimeSplit| if by_samples { *split } else { split.divided() };
            let exact = Divided { work: totals.work, waiting: Some(totals.waiting), estimated: false };
            let of_work = if by_samples { exact } else { totals.divided() };
            // A kind's split is of all backends that it occurs in.
            let mut time = match splits.get(&id) {
                Some(split) if split_taken.insert(id) => LaneTime::of_split(&divided(split)),
                Some(_) => LaneTime::default(),
                None => LaneTime::of_work(&of_work),
            };
            time.take_faults(faults.remove(&Some(id)).map_or(0, |totals| totals.on_cpu));
            if group_limits.reclaim.is_none() {
                time.take_samples(shares);
            }
            time.take_limits(group_limits);
            time.unused = backend.and_then(|backend| unused.get(&backend)).map_or(0.0, |by| by * totals.work as f64);
            layer.add(&time);
            sum.time.add(&time);
            if let Some(quantities) = self.statistics.quantities(id, backend, phase) {
                sum.quantities.merge(quantities);
            }
        }
        for (id, of, dtype, bytes) in self.statistics.weights() {
            let kind = self.catalogue().kind(id);
            if of == phase
                && let Some(sum) = sums.get_mut(&(kind.pattern.clone(), kind.op.clone()))
            {
                *sum.weights.entry(dtype).or_default() += bytes;
            }
        }
        sums
    }

    /// By backend: the time of lanes that its graphs leave out, for each ns of its operators' work.
    fn unused_by_work(&self, phase: Phase) -> HashMap<TextId, f64> {
        let mut work: HashMap<TextId, f64> = HashMap::new();
        for (_, backend, _, totals) in self.statistics.operators().filter(|(_, _, of, _)| *of == phase) {
            backend.into_iter().for_each(|of| *work.entry(of).or_default() += totals.work as f64);
        }
        let unused = self.statistics.unused_lanes(phase);
        unused.filter_map(|(of, ns)| Some((of, ns as f64 / work.get(&of).filter(|work| **work > 0.0)?))).collect()
    }

    /// Processors that lanes can have at once.
    fn cpus(&self, lanes: u64) -> u32 {
        let lanes = u32::try_from(lanes).unwrap_or(u32::MAX);
        let machine = Some(self.meta.origin.host.cpus).filter(|cpus| *cpus > 0);
        let allowed = self.statistics.threads().crowd().map(|(_, cpus)| cpus).filter(|cpus| *cpus > 0);
        [machine, allowed].into_iter().flatten().fold(lanes, u32::min).max(1)
    }

    fn columns(&self) -> Columns {
        let names = self.timeline.decoder().counters();
        let counters = &self.meta.schema.counters;
        let of =
            |event: &str| names.iter().position(|name| counters.get(&**name).is_some_and(|info| info.event == event));
        Columns { cycles: of("cycles"), stalled: of("stalled-cycles-backend"), misses: of("LLC-load-misses") }
    }

    /// The group's work, and the time of the operators with costs, had all lanes run.
    fn work(&self, sum: &Sum, cpus: u32, columns: Columns) -> (Work, f64) {
        let costs = sum.quantities.costs();
        let costed_ns = costs.as_ref().map_or(0.0, |sums| sum.ran(sums.elapsed as f64, sums.work as f64, cpus));
        let count = |column: usize| sum.quantities.count(column).value().map(|count| count as f64);
        let both = |a: Option<usize>, b: Option<usize>| Some((count(a?)?, count(b?)?));
        let whole_ns = sum.ran_in_all(cpus);
        let work = Work {
            count: sum.totals.count,
            ran_ns: whole_ns,
            costed_ns,
            costs: costs.as_ref().map(|sums| (sums.flops, sums.bytes)),
            unknown: sum.time.unknown / (sum.time.unknown + sum.time.running).max(1.0),
            at_most: costs.as_ref().is_some_and(profinfer_analysis::Sums::costs_are_bounds),
            stalled: both(columns.stalled, columns.cycles)
                .filter(|(_, cycles)| *cycles > 0.0)
                .map(|(stalled, cycles)| stalled / cycles),
            counted: columns.misses.and_then(count).filter(|_| whole_ns > 0.0).map(|n| n * 64.0 * 1e9 / whole_ns),
        };
        (work, costed_ns)
    }

    /// The time around operators: what prevented its threads from running, graphs that hide their operators, and the
    /// rest.
    fn around(
        &self,
        totals: &PhaseTotals,
        phase: Phase,
        threads: Option<&ThreadsReport>,
        (unseen, unused, limits): (f64, f64, GroupLimits),
    ) -> TimeParts {
        let outside = totals.outside_graphs.saturating_add(totals.outside_operators) as f64;
        let splits = self.statistics.threads().operators().filter(|(_, of, _)| *of == phase);
        let within = splits.fold(TimeSplit::default(), |sum, (_, _, split)| sum.plus(split));
        // Waiting for the slowest lane that no record has, but the lanes' times: it lies after their shares.
        let waited = within.waiting.saturating_sub(totals.waiting) as f64;
        let mut left = (outside - unseen - unused - waited).max(0.0);
        let mut parts = TimeParts { unknown: unseen.min(outside), ..TimeParts::default() };
        if let Some(threads) = threads {
            let all = |of: fn(&crate::LaneThreadsRow) -> u64| threads.lanes.iter().map(of).sum::<u64>() as f64;
            // A lane that waits may be unable to run meanwhile: that is in the waiting of operators.
            let runnable = all(|lane| lane.runnable_ns) - within.runnable as f64 - totals.waiting as f64;
            let reclaiming = all(|lane| lane.reclaiming_ns.unwrap_or(0)) - within.reclaiming as f64;
            let reclaim_blocked = all(|lane| lane.reclaim_blocked_ns.unwrap_or(0)) - within.reclaim_blocked as f64;
            let blocked = all(|lane| lane.blocked_ns) - within.blocked as f64 - reclaim_blocked;
            let stopped = all(|lane| lane.stopped_ns) - within.stopped as f64;
            let attaching = all(|lane| lane.attaching_ns) - within.attaching as f64;
            let reclaim = (Bound::Reclaim, reclaiming + reclaim_blocked);
            for (bound, ns) in delays(limits, [runnable, blocked, stopped, attaching]).into_iter().chain([reclaim]) {
                let ns = ns.clamp(0.0, left);
                parts[bound] += ns;
                left -= ns;
            }
        }
        parts.overhead += left;
        parts
    }

    fn slowest(&self, phase: Phase, shared: u64) -> Option<(u32, f64)> {
        let lanes = self.statistics.lanes().filter(|(of, ..)| *of == phase);
        let (_, lane, totals) = lanes.max_by_key(|(_, _, totals)| totals.slowest)?;
        (shared > 0).then(|| (lane, totals.slowest as f64 / shared as f64))
    }

    /// What the host encoded for devices.
    fn offloaded(&self, phase: Phase) -> Option<Offloaded> {
        let all = self.statistics.offloads();
        let mut sum = Offloaded::default();
        for (_, _, _, of) in all.dispatches().filter(|(_, _, of, _)| *of == phase) {
            sum.dispatches += of.count.saturating_sub(of.empty);
            sum.encoding = sum.encoding.saturating_add(of.encoding);
        }
        let results = all.results(phase).filter(|of| of.with_results > 0);
        sum.until_results = results.map(|of| of.until_results as f64 / of.with_results as f64);
        (sum.dispatches > 0).then_some(sum)
    }

    /// Lane time in graphs of backends of which no operator was seen.
    fn unseen(&self, phase: Phase, lanes: u64, most: f64) -> (f64, Vec<String>) {
        let seen: BTreeSet<TextId> = {
            let of = self.statistics.operators().filter(|(_, _, of, _)| *of == phase);
            of.filter_map(|(_, backend, _, _)| backend).collect()
        };
        let graphs = self.statistics.graphs().filter(|(backend, of, _)| *of == phase && !seen.contains(backend));
        let (mut ns, mut backends) = (0.0, Vec::new());
        for (backend, _, totals) in graphs {
            ns += totals.total as f64 * lanes as f64;
            backends.push(self.catalogue().text(backend).to_string());
        }
        backends.sort_unstable();
        (ns.min(most), backends)
    }
}

/// What keeps threads from running, by its cause, of ns in these states.
fn delays(limits: GroupLimits, [runnable, blocked, stopped, attaching]: [f64; 4]) -> [(Bound, f64); 5] {
    let disk = if limits.reclaim.is_some() { Bound::Reclaim } else { Bound::Disk };
    [
        (disk, blocked),
        (Bound::Stopped, stopped),
        (Bound::Attaching, attaching),
        (Bound::Throttled, runnable * limits.throttled),
        (Bound::Starved, runnable * (1.0 - limits.throttled)),
    ]
}

/// What delayed threads between their steps. What they did there, and waited for, is no delay.
fn between(threads: Option<&ThreadsReport>, lanes: u64, limits: GroupLimits) -> TimeParts {
    let mut parts = TimeParts::default();
    let Some(between) = threads.and_then(|threads| threads.between_steps) else { return parts };
    let states = [between.runnable_ns, between.blocked_ns, between.stopped_ns, between.attaching_ns];
    let delays = delays(limits, states.map(|ns| ns as f64));
    delays.iter().for_each(|(bound, ns)| parts[*bound] += ns * lanes as f64);
    parts
}

fn bytes(sums: &BTreeMap<Key, Sum>) -> Option<f64> {
    let costs = sums.values().filter_map(|sum| sum.quantities.costs());
    costs.map(|sums| sums.bytes).reduce(|a, b| a + b)
}

/// An operator of no more than this is mostly what every operator takes, whatever it does.
fn too_small(sums: &BTreeMap<Key, Sum>, cpus: u32) -> f64 {
    let mean = |sum: &Sum| sum.ran_in_all(sum.cpus(cpus)) / sum.totals.count as f64;
    let means = sums.values().filter(|sum| sum.totals.count >= ENOUGH).map(mean);
    let shortest = means.fold(f64::INFINITY, f64::min);
    if shortest.is_finite() { (TIMES_THE_SHORTEST * shortest).clamp(TOO_SMALL_NS, NOT_SMALL_NS) } else { TOO_SMALL_NS }
}

/// Bytes of the machine's last caches together, as far as data stays in them.
fn last_cache(roofline: &Roofline) -> Option<f64> {
    roofline.caches.last().map(|last| of_all_cpus(roofline, last))
}

/// Bytes of the caches before the last ones, of all processors together.
fn inner_caches(roofline: &Roofline) -> f64 {
    let inner = roofline.caches.split_last().map_or(&[][..], |(_, inner)| inner);
    inner.iter().map(|cache| of_all_cpus(roofline, cache)).sum()
}

fn of_all_cpus(roofline: &Roofline, cache: &CacheSize) -> f64 {
    let caches = roofline.cpus.div_ceil(cache.shared_by.max(1)).max(1);
    cache.usable() as f64 * f64::from(caches)
}

fn limits(roofline: Option<&Roofline>, cpus: u32, too_small_ns: f64) -> Limits {
    let of =
        |quantity: Quantity, level: Option<Level>| roofline.and_then(|roofline| roofline.limit(quantity, level, cpus));
    let levels = [Level::L3, Level::L2, Level::L1];
    Limits {
        bandwidth: of(Quantity::Read, Some(Level::Memory)),
        bandwidth_of_all: roofline.and_then(|all| all.limit(Quantity::Read, Some(Level::Memory), all.cpus)),
        cache_bandwidth: levels.into_iter().find_map(|level| of(Quantity::Read, Some(level))),
        peak: of(Quantity::Fp32, None),
        too_small_ns,
        ..Limits::default()
    }
}

#[cfg(test)]
#[path = "gather_tests.rs"]
mod tests;
