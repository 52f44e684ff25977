//! From statistics to tables: grouping, sorting and shares.

use super::functions::SampledWork;
use super::model::faults::FaultsReport;
use super::model::kept::KeptReport;
use super::model::metrics::{Measures, PhaseMetrics};
use super::model::offload::OffloadReport;
use super::model::pressure::PressureReport;
use super::model::reclaim::ReclaimReport;
use super::model::requests;
use super::model::rows::{
    BackendRow, EstimateRow, ExpertLayerRow, ExpertRow, LaneRow, OffCpuReport, OperatorRow, PhaseReport, RegionRow,
    TraceFacts,
};
use super::model::sampling::{SamplingReport, added_ns, added_to_operator_ns};
use super::model::threads::ThreadsReport;
use super::numbers::ratios::{mean, natural_order, ratio};
use super::report::{By, Report};
use super::verdict::Verdict;
use profinfer_analysis::{
    Catalogue, Completeness, Decoder, Generations, Kind, KindId, OperatorTotals, Phase, PhaseTotals, Quantities,
    SpanTotals, Statistics, TextId, Timeline, Unseen, UnseenSteps,
};
use profinfer_trace::Meta;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// What of a report is wanted.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options<'a> {
    /// The main table.
    pub by: By,
    /// Rows of a table; all of them, where left out.
    pub top: Option<usize>,
    /// Tables of this phase only.
    pub phase: Option<Phase>,
    /// Timer samples within operators, for the verdict.
    pub samples: Option<&'a SampledWork>,
}

/// Builds the report of a trace that was read to its end.
pub fn build(
    meta: &Meta,
    completeness: Completeness,
    statistics: &Statistics,
    timeline: &Timeline,
    options: &Options<'_>,
) -> Report {
    let (catalogue, decoder) = (timeline.catalogue(), timeline.decoder());
    let measures = Measures::new(&meta.schema, timeline);
    let all_phases = all_phases(statistics, options.phase);
    let phases = table_phases(statistics, &all_phases);
    let totals = || phases.iter().filter_map(|p| statistics.phase(*p));
    let sum = |of: fn(&PhaseTotals) -> u64| totals().map(of).fold(0, u64::saturating_add);
    let end = meta.end.as_ref().map_or(statistics.last_end(), |end| end.time);
    let unseen = Unseen::new(&meta.notices, end);
    let added = added_ns(meta, statistics).map_or(0.0, |(_, added)| added);
    let unseen_of = |phase: &Phase| Some((*phase, statistics.unseen_steps(&unseen, Some(*phase), added)?));
    let unseen_steps = phases.iter().filter_map(unseen_of).collect();
    let (mut lane_time, time) = (sum(|p| p.lane_time), sum(|p| p.whole_time));
    let lanes = totals().map(|p| p.lanes).max().unwrap_or(0);
    if phases == [Phase::Outside] {
        // Regions last longer than the operators in them: without steps, the whole is the recorded time.
        let recorded = end.saturating_sub(meta.origin.monotonic_ns);
        lane_time = lane_time.max(recorded.saturating_mul(lanes.max(1)));
    }
    let tracing_ns = added_to_operator_ns(meta, statistics, &phases);
    let scope = Scope {
        tracing_ns,
        statistics,
        catalogue,
        measures: &measures,
        phases: &phases,
        unseen_steps,
        lane_time,
        time,
    };
    let generations = statistics.generations();
    let table =
        if matches!(options.by, By::Lane | By::Expert | By::Function | By::Request) { By::Name } else { options.by };
    let operators = scope.operators(table);
    let operators_total = operators.len() as u64;
    let mut layers = scope.operators(By::Layer);
    layers.sort_by(|a, b| natural_order(a.layer.as_deref(), b.layer.as_deref()));
    let (expert_layers, experts) = scope.experts();
    let faults_of = |phases: &[Phase]| FaultsReport::new(meta, statistics.faults(), catalogue, phases);
    let sampling = SamplingReport::new(meta, statistics, &unseen);
    let all_faults = faults_of(&Phase::STEPS);
    let verdict = Verdict::new(meta, (statistics, options.samples), timeline, &sampling, all_faults.as_ref());
    let mut report = Report {
        format: "profinfer-report",
        version: 1,
        completeness,
        trace: TraceFacts::new(meta),
        kept: KeptReport::new(meta),
        roofline: meta.origin.roofline.clone(),
        sampling,
        phases: Phase::ALL.iter().filter_map(|p| phase_report(*p, statistics, &generations)).collect(),
        requests: requests::rows(statistics.requests()),
        requests_total: statistics.requests().count(),
        ttft: generations.ttft,
        tpot: generations.tpot,
        table_phases: phases.iter().map(|p| p.as_str()).collect(),
        lane_time_ns: scope.lane_time,
        lanes,
        by: options.by,
        operators,
        operators_total,
        operator_types: scope.operators(By::Op),
        layers: if layers.iter().any(|l| l.layer.is_some()) { layers } else { Vec::new() },
        backends: scope.backends(),
        offload: OffloadReport::new(statistics, catalogue, timeline.devices(), meta, &phases),
        lane_rows: scope.lanes(sum(|p| p.shared_operators)),
        regions: scope.regions(decoder),
        expert_layers,
        experts,
        faults: faults_of(&all_phases),
        reclaim: ReclaimReport::new(meta, statistics.reclaims(), catalogue, &all_phases),
        metrics: measures.report(scope.phase_metrics()),
        threads: ThreadsReport::new(meta, statistics, catalogue, &all_phases),
        pressure: Phase::STEPS
            .into_iter()
            .filter_map(|phase| Some((phase.as_str(), PressureReport::new(meta, statistics, phase)?)))
            .collect(),
        verdict,
    };
    report.truncate(options.top.unwrap_or(usize::MAX));
    report
}

/// The phases of all steps; where there are none, of what was recorded without.
fn all_phases(statistics: &Statistics, wanted: Option<Phase>) -> Vec<Phase> {
    match wanted {
        Some(phase) => vec![phase],
        None if statistics.steps() == 0 => vec![Phase::Outside],
        None => Phase::STEPS.into_iter().filter(|of| statistics.phase(*of).is_some_and(|of| of.steps > 0)).collect(),
    }
}

/// Those that tables of operators have: one that no sampling window met is in no total, and no estimate tells what it has.
fn table_phases(statistics: &Statistics, all: &[Phase]) -> Vec<Phase> {
    let is_met = |phase: &&Phase| statistics.phase(**phase).is_some_and(|of| of.whole_steps > 0);
    let met: Vec<Phase> = all.iter().filter(is_met).copied().collect();
    if met.is_empty() { all.to_vec() } else { met }
}

fn phase_report(phase: Phase, statistics: &Statistics, generations: &Generations) -> Option<PhaseReport> {
    let totals = statistics.phase(phase)?;
    // Where only steps that were recorded whole have tokens, their sum is not that of the phase.
    let few_have_tokens = totals.steps_with_tokens < totals.steps && totals.whole_steps < totals.steps;
    let tokens = (totals.steps_with_tokens > 0 && !few_have_tokens).then_some(totals.tokens);
    let rate = |tokens: u64, time: u64| (time > 0 && tokens > 0).then(|| tokens as f64 * 1e9 / time as f64);
    let tokens_per_s = match phase {
        Phase::Prefill => tokens.and_then(|tokens| rate(tokens, totals.time_with_tokens)),
        Phase::Decode => rate(generations.decode_tokens, generations.decode_time),
        Phase::Run | Phase::Outside => None,
    };
    let divided = totals.divided();
    Some(PhaseReport {
        phase: phase.as_str(),
        steps: totals.steps,
        whole_steps: totals.whole_steps,
        tokens,
        tokens_per_s,
        sequences_per_step: (totals.steps_with_tokens > 0)
            .then(|| totals.sequences as f64 / totals.steps_with_tokens as f64),
        step: statistics.step_times(phase),
        lane_time_ns: totals.lane_time,
        work_ns: divided.work,
        waiting_ns: divided.waiting,
        waiting_estimated: divided.estimated,
        waiting_half_width_ns: totals.waiting_windows.half_width().filter(|_| divided.estimated),
        outside_graphs_ns: statistics.saw_graphs().then_some(totals.outside_graphs),
        outside_operators_ns: (totals.operators > 0).then_some(totals.outside_operators),
        operators: totals.operators,
        graphs: totals.graphs,
        off_cpu: statistics.saw_switches().then_some(OffCpuReport {
            switches: totals.switches,
            blocked_ns: totals.blocked,
            runnable_ns: totals.runnable,
        }),
    })
}

/// The part of the statistics that tables are of.
struct Scope<'a> {
    statistics: &'a Statistics,
    catalogue: &'a Catalogue,
    measures: &'a Measures<'a>,
    phases: &'a [Phase],
    unseen_steps: BTreeMap<Phase, UnseenSteps>,
    lane_time: u64,
    time: u64,
    /// What the mean operator is longer by because it was recorded, ns.
    tracing_ns: Option<f64>,
}

/// What tracing adds is subtracted from a mean from this part of it on.
const TRACING_MATTERS: f64 = 0.05;

/// What a row is of.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
struct RowKey {
    name: Option<Arc<str>>,
    op: Option<Arc<str>>,
    covers: Option<Arc<str>>,
    layer: Option<Arc<str>>,
    backend: Option<TextId>,
    shape: Option<Arc<[i64]>>,
}

impl RowKey {
    fn new(by: By, kind: &Kind, backend: Option<TextId>) -> Self {
        let none = Self::default();
        match by {
            By::Name | By::Lane | By::Expert | By::Function | By::Request => {
                let covers = kind.covers.as_ref().map(|c| collapsed(c, kind));
                Self { name: Some(kind.pattern.clone()), op: Some(kind.op.clone()), covers, ..none }
            }
            By::Op => Self { op: Some(kind.op.clone()), ..none },
            By::Layer => Self { layer: kind.layer.clone(), ..none },
            By::Backend => Self { backend, ..none },
            By::Shape => Self { op: Some(kind.op.clone()), shape: Some(kind.shape.clone()), ..none },
        }
    }
}

fn collapsed(name: &str, kind: &Kind) -> Arc<str> {
    profinfer_analysis::collapse_digits(name, kind.layer.as_deref()).into()
}

/// A row while it is added up.
#[derive(Default)]
struct Group<'a> {
    totals: OperatorTotals,
    layers: BTreeSet<&'a str>,
    dtypes: BTreeSet<&'a str>,
    kinds: BTreeSet<(KindId, Option<TextId>)>,
    quantities: Quantities,
    inferred: u64,
}

impl<'a> Scope<'a> {
    fn of_phases(&self, phase: Phase) -> bool {
        self.phases.contains(&phase)
    }

    /// Kinds are grouped once each, however many phases and backends they occur in.
    fn operators(&self, by: By) -> Vec<OperatorRow> {
        let mut groups: HashMap<RowKey, Group<'a>> = HashMap::new();
        let rows = self.statistics.operators().filter(|(_, _, phase, _)| self.of_phases(*phase));
        let mut rows: Vec<(KindId, Option<TextId>, Phase, &OperatorTotals)> = rows.collect();
        rows.sort_by_key(|(kind, backend, phase, _)| (*kind, *backend, *phase));
        for (id, backend, phase, totals) in rows {
            let kind = self.catalogue.kind(id);
            let group = groups.entry(RowKey::new(by, kind, backend)).or_default();
            group.totals.merge(totals);
            group.inferred += if kind.layer_inferred { totals.work } else { 0 };
            group.layers.extend(kind.layer.as_deref());
            group.dtypes.extend(kind.dtype.as_deref());
            group.kinds.insert((id, backend));
            if let Some(quantities) = self.statistics.quantities(id, backend, phase) {
                group.quantities.merge(quantities);
            }
        }
        let mut sorted: Vec<(RowKey, Group<'a>)> = groups.into_iter().collect();
        sorted.sort_by(|(a, ga), (b, gb)| gb.totals.work.cmp(&ga.totals.work).then_with(|| a.cmp(b)));
        sorted.into_iter().map(|(key, group)| self.operator_row(key, &group)).collect()
    }

    fn operator_row(&self, key: RowKey, group: &Group<'_>) -> OperatorRow {
        let text = |t: Option<Arc<str>>| t.map(|t| t.to_string());
        let totals = &group.totals;
        let divided = totals.divided();
        let mean_ns = mean(totals.elapsed, totals.count);
        OperatorRow {
            name: text(key.name),
            op: text(key.op),
            covers: text(key.covers),
            layer: text(key.layer),
            backend: key.backend.map(|b| self.catalogue.text(b).to_string()),
            shape: key.shape.map(|s| s.to_vec()),
            dtype: if group.dtypes.len() == 1 { group.dtypes.first().map(|d| (*d).to_owned()) } else { None },
            layers: group.layers.len() as u64,
            inferred_ns: group.inferred,
            count: totals.count,
            total_ns: divided.work,
            waiting_ns: divided.waiting,
            waiting_estimated: divided.estimated,
            estimate: self.estimate(group),
            share: ratio(divided.work, self.lane_time),
            mean_ns,
            mean_without_tracing_ns: self.without_tracing(mean_ns),
            min_ns: totals.min,
            max_ns: totals.max,
            counts: self.measures.counts(&group.quantities),
            metrics: self.measures.metrics(&group.quantities, divided.work),
        }
    }

    /// A mean of operators that recording them makes much longer, without that.
    fn without_tracing(&self, mean_ns: f64) -> Option<f64> {
        let tracing = self.tracing_ns.filter(|tracing| *tracing >= TRACING_MATTERS * mean_ns)?;
        Some((mean_ns - tracing).max(0.0))
    }

    /// All operators of each phase together.
    fn phase_metrics(&self) -> Vec<PhaseMetrics> {
        let of_phase = |phase: Phase| {
            let work = self.statistics.phase(phase)?.work;
            let mut all = Quantities::default();
            let kinds = self.statistics.operators().filter(|(_, _, of, _)| *of == phase);
            let quantities = kinds.filter_map(|(kind, backend, _, _)| self.statistics.quantities(kind, backend, phase));
            quantities.for_each(|quantities| all.merge(quantities));
            let steps = self.statistics.step_quantities(phase);
            Some(PhaseMetrics {
                phase: phase.as_str(),
                counts: self.measures.counts(&all),
                metrics: self.measures.metrics(&all, work),
                step_counts: steps.map_or_else(Vec::new, |steps| self.measures.counts(steps)),
            })
        };
        Phase::ALL.into_iter().filter_map(of_phase).collect()
    }

    /// What a row's work comes to over all steps of the phases.
    fn estimate(&self, group: &Group<'_>) -> Option<EstimateRow> {
        let kinds: Vec<(KindId, Option<TextId>)> = group.kinds.iter().copied().collect();
        let of_phases = self.phases.iter().filter_map(|phase| {
            let steps = self.statistics.phase(*phase)?.steps;
            let seen = self.statistics.estimated_work(&kinds, *phase)?;
            let unseen = self.unseen_steps.get(phase).copied();
            let all = unseen.map_or(seen, |unseen| seen.with_unseen(steps, unseen));
            Some((all, steps as f64 + unseen.map_or(0.0, |unseen| unseen.steps)))
        });
        let (estimate, steps) = of_phases.reduce(|(a, n), (b, m)| (a.plus(b), n + m))?;
        let half = estimate.half_width();
        Some(EstimateRow {
            estimate: true,
            total_ns: estimate.total,
            low_ns: half.map(|half| (estimate.total - half).max(0.0)),
            high_ns: half.map(|half| estimate.total + half),
            step_ns: estimate.total / steps.max(1.0),
        })
    }

    fn backends(&self) -> Vec<BackendRow> {
        let mut graphs: BTreeMap<TextId, SpanTotals> = BTreeMap::new();
        for (backend, _, totals) in self.statistics.graphs().filter(|(_, phase, _)| self.of_phases(*phase)) {
            let sum = graphs.entry(backend).or_default();
            sum.count = sum.count.saturating_add(totals.count);
            sum.total = sum.total.saturating_add(totals.total);
            sum.max = sum.max.max(totals.max);
        }
        let mut operators: BTreeMap<TextId, OperatorTotals> = BTreeMap::new();
        for (_, backend, _, totals) in self.statistics.operators().filter(|(_, _, phase, _)| self.of_phases(*phase)) {
            if let Some(backend) = backend {
                operators.entry(backend).or_default().merge(totals);
            }
        }
        let mut rows: Vec<BackendRow> = Vec::new();
        for (backend, totals) in graphs {
            let operators = operators.get(&backend).copied().unwrap_or_default();
            rows.push(BackendRow {
                backend: self.catalogue.text(backend).to_string(),
                graphs: totals.count,
                total_ns: totals.total,
                mean_ns: mean(totals.total, totals.count),
                max_ns: totals.max,
                share: ratio(totals.total, self.time),
                operators: operators.count,
                operators_ns: operators.work,
            });
        }
        rows.sort_by(|a, b| b.total_ns.cmp(&a.total_ns).then_with(|| a.backend.cmp(&b.backend)));
        rows
    }

    fn lanes(&self, shared_operators: u64) -> Vec<LaneRow> {
        let mut lanes: BTreeMap<u32, profinfer_analysis::LaneTotals> = BTreeMap::new();
        let mut quantities: BTreeMap<u32, Quantities> = BTreeMap::new();
        for (phase, lane, totals) in self.statistics.lanes().filter(|(phase, _, _)| self.of_phases(*phase)) {
            lanes.entry(lane).or_default().merge(totals);
            if let Some(of_lane) = self.statistics.lane_quantities(phase, lane) {
                quantities.entry(lane).or_default().merge(of_lane);
            }
        }
        let none = Quantities::default();
        let of_lane = |lane: u32| quantities.get(&lane).unwrap_or(&none);
        let row = |(lane, totals): (u32, profinfer_analysis::LaneTotals)| {
            let divided = totals.divided();
            LaneRow {
                lane,
                shares: totals.shares,
                work_ns: divided.work,
                waiting_ns: divided.waiting,
                waiting_estimated: divided.estimated,
                step_time_ns: totals.step_time,
                busy: ratio(divided.work, totals.step_time),
                waiting: divided.waiting.map(|waiting| ratio(waiting, totals.step_time)),
                slowest: ratio(totals.slowest, shared_operators),
                counts: self.measures.counts(of_lane(lane)),
                metrics: self.measures.metrics(of_lane(lane), divided.work),
            }
        };
        lanes.into_iter().map(row).collect()
    }

    fn regions(&self, decoder: &Decoder) -> Vec<RegionRow> {
        let mut regions: BTreeMap<u16, SpanTotals> = BTreeMap::new();
        for (probe, _, totals) in self.statistics.regions().filter(|(_, phase, _)| self.of_phases(*phase)) {
            let sum = regions.entry(probe).or_default();
            sum.count = sum.count.saturating_add(totals.count);
            sum.total = sum.total.saturating_add(totals.total);
            sum.in_operators = sum.in_operators.saturating_add(totals.in_operators);
            sum.max = sum.max.max(totals.max);
        }
        let row = |(probe, totals): (u16, SpanTotals)| RegionRow {
            region: decoder.name(probe).to_string(),
            count: totals.count,
            total_ns: totals.total,
            in_operators_ns: totals.in_operators,
            mean_ns: mean(totals.total, totals.count),
            max_ns: totals.max,
            share: ratio(totals.total, self.lane_time),
        };
        let mut rows: Vec<RegionRow> = regions.into_iter().map(row).collect();
        rows.sort_by(|a, b| b.total_ns.cmp(&a.total_ns).then_with(|| a.region.cmp(&b.region)));
        rows
    }

    fn experts(&self) -> (Vec<ExpertLayerRow>, Vec<ExpertRow>) {
        let mut layers: BTreeMap<Option<&str>, BTreeMap<u32, u64>> = BTreeMap::new();
        for (layer, expert, _, totals) in self.statistics.experts().filter(|(_, _, phase, _)| self.of_phases(*phase)) {
            let count = layers.entry(layer.map(|l| &**l)).or_default().entry(expert).or_default();
            *count = count.saturating_add(totals.activations);
        }
        let highest = layers.values().filter_map(|experts| experts.keys().next_back()).max().copied().unwrap_or(0);
        let (mut rows, mut singles) = (Vec::new(), Vec::new());
        for (layer, experts) in &layers {
            let layer = layer.map(str::to_owned);
            let activations = experts.values().fold(0, |a: u64, b| a.saturating_add(*b));
            let busiest = experts.iter().max_by_key(|(expert, n)| (**n, std::cmp::Reverse(**expert)));
            let (busiest, most) = busiest.map_or((0, 0), |(expert, n)| (*expert, *n));
            rows.push(ExpertLayerRow {
                layer: layer.clone(),
                activations,
                experts: experts.len() as u64,
                busiest,
                busiest_share: ratio(most, activations),
                imbalance: ratio(most, activations) * (f64::from(highest) + 1.0),
            });
            let single = |(expert, n): (&u32, &u64)| ExpertRow {
                layer: layer.clone(),
                expert: *expert,
                activations: *n,
                share: ratio(*n, activations),
            };
            singles.extend(experts.iter().map(single));
        }
        rows.sort_by(|a, b| natural_order(a.layer.as_deref(), b.layer.as_deref()));
        singles.sort_by(|a, b| {
            let by_place = || natural_order(a.layer.as_deref(), b.layer.as_deref()).then(a.expert.cmp(&b.expert));
            b.activations.cmp(&a.activations).then_with(by_place)
        });
        (rows, singles)
    }
}
