//! Totals over a trace's steps: a visitor of the timeline. Steps with lost records are counted and excluded from
//! everything else. All times are ns.

use super::faults::Faults;
use super::offloads::Offloads;
use super::quantities::{AllQuantities, Quantities};
use super::reclaim::Reclaims;
use super::requests::Requests;
use super::thread_totals::ThreadTotals;
use crate::catalogue::Catalogue;
use crate::ids::{ByKind, KindId, Phase, TextId};
use crate::numbers::Distribution;
use crate::raw::Decoder;
use crate::sampling::{
    Divided, Estimate, GROUPS, Generations, Groups, Measured, Rates, Recorded, StepRow, StepTable, Unseen, UnseenSteps,
    WaitingWindows,
};
use crate::step::{Operator, Step, Visitor};
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Distinct pairs of layer and expert.
const MAX_EXPERTS: usize = 1 << 20;

/// Steps with lost records that are listed.
const MAX_INCOMPLETE: usize = 10_000;

/// Lanes whose losses are listed.
const MAX_LANES: usize = 4096;

/// A step with lost records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct IncompleteStep {
    /// Its number.
    pub step: u64,
    /// Records that were lost during it, at most: one that may be another step's too is counted for both.
    pub records: u64,
    /// The lanes whose threads' numbering has gaps; empty where these threads computed no operator in it.
    pub lanes: Vec<u32>,
}

/// Operators, added up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OperatorTotals {
    /// How many were computed.
    pub count: u64,
    /// Lanes' shares of them.
    pub shares: u64,
    /// Work, all lanes together.
    pub work: u64,
    /// Waiting, all lanes together, where it was recorded.
    pub waiting: u64,
    /// Of `work`: of lanes whose waiting was not recorded.
    pub undivided: u64,
    /// From the first lane's start to the last lane's end of work, summed.
    pub elapsed: u64,
    /// The shortest of them.
    pub min: u64,
    /// The longest of them.
    pub max: u64,
    /// The least work of one of them, all lanes together.
    pub min_work: u64,
    /// How many gave work to a device.
    pub giving_work: u64,
}

impl OperatorTotals {
    fn add(&mut self, operator: &Operator) {
        let elapsed = operator.end.saturating_sub(operator.start);
        let Operator { work, waiting, undivided, .. } = *operator;
        let shares = operator.lanes.len() as u64;
        let (min, max, min_work) = (elapsed, elapsed, work);
        let giving_work = operator.gives_work.into();
        self.merge(&Self { count: 1, shares, work, waiting, undivided, elapsed, min, max, min_work, giving_work });
    }

    /// Work and waiting.
    pub fn divided(&self) -> Divided {
        Divided::new(self.work, self.waiting, self.undivided)
    }

    /// Most of them gave their work to a device: their time is the host's part.
    pub fn are_of_a_device(&self) -> bool {
        self.giving_work > self.count / 2
    }

    /// Adds others.
    pub fn merge(&mut self, other: &Self) {
        self.min = if self.count == 0 { other.min } else { self.min.min(other.min) };
        self.min_work = if self.count == 0 { other.min_work } else { self.min_work.min(other.min_work) };
        self.max = self.max.max(other.max);
        self.count = self.count.saturating_add(other.count);
        self.shares = self.shares.saturating_add(other.shares);
        self.work = self.work.saturating_add(other.work);
        self.waiting = self.waiting.saturating_add(other.waiting);
        self.undivided = self.undivided.saturating_add(other.undivided);
        self.elapsed = self.elapsed.saturating_add(other.elapsed);
        self.giving_work = self.giving_work.saturating_add(other.giving_work);
    }
}

/// Spans, added up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpanTotals {
    /// How many.
    pub count: u64,
    /// Their sum.
    pub total: u64,
    /// Of it, within operators.
    pub in_operators: u64,
    /// The longest.
    pub max: u64,
}

impl SpanTotals {
    fn add(&mut self, duration: u64, in_operator: bool) {
        self.count += 1;
        self.total = self.total.saturating_add(duration);
        self.max = self.max.max(duration);
        if in_operator {
            self.in_operators = self.in_operators.saturating_add(duration);
        }
    }
}

/// One lane, added up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LaneTotals {
    /// Time of the steps that it took part in.
    pub step_time: u64,
    /// Work.
    pub work: u64,
    /// Waiting, where it was recorded.
    pub waiting: u64,
    /// Of `work`: in operators whose waiting was not recorded.
    pub undivided: u64,
    /// Operators that it computed a share of.
    pub shares: u64,
    /// Operators, of those with several lanes whose waiting was recorded, in which it worked longest.
    pub slowest: u64,
}

impl LaneTotals {
    /// Work and waiting.
    pub fn divided(&self) -> Divided {
        Divided::new(self.work, self.waiting, self.undivided)
    }

    /// Adds others.
    pub fn merge(&mut self, other: &Self) {
        self.step_time = self.step_time.saturating_add(other.step_time);
        self.work = self.work.saturating_add(other.work);
        self.waiting = self.waiting.saturating_add(other.waiting);
        self.undivided = self.undivided.saturating_add(other.undivided);
        self.shares = self.shares.saturating_add(other.shares);
        self.slowest = self.slowest.saturating_add(other.slowest);
    }
}

/// A phase, added up. *Lane time* is each step's duration times its number of lanes. Steps, tokens and time are of all
/// steps; everything else is of those that were recorded whole.
#[derive(Debug, Clone, Default)]
pub struct PhaseTotals {
    /// Steps in it.
    pub steps: u64,
    /// Tokens of the steps with a token count.
    pub tokens: u64,
    /// Sequences that these advanced: a sequence counts in each step.
    pub sequences: u64,
    /// Steps with a token count.
    pub steps_with_tokens: u64,
    /// The time of these.
    pub time_with_tokens: u64,
    /// The steps' time.
    pub time: u64,
    /// Steps that were recorded whole.
    pub whole_steps: u64,
    /// Their time.
    pub whole_time: u64,
    /// Their records of operators, regions and experts, by record type.
    pub records: BTreeMap<u16, u64>,
    /// The steps' time on all of their lanes.
    pub lane_time: u64,
    /// The most lanes that a step had.
    pub lanes: u64,
    /// Work of operators.
    pub work: u64,
    /// Waiting of operators, where it was recorded.
    pub waiting: u64,
    /// Of `work`: of lanes whose waiting was not recorded.
    pub undivided: u64,
    /// Waiting by windows in which it was recorded.
    pub waiting_windows: WaitingWindows,
    /// Lane time in which no graph was computed.
    pub outside_graphs: u64,
    /// Lane time in graphs, in no operator.
    pub outside_operators: u64,
    /// Operators computed.
    pub operators: u64,
    /// Graphs computed.
    pub graphs: u64,
    /// Time that threads of the steps were off their cpus, blocked.
    pub blocked: u64,
    /// Time that they were off their cpus, able to run.
    pub runnable: u64,
    /// Times that they left their cpus.
    pub switches: u64,
    /// Operators whose shares are on several lanes, and whose waiting was recorded.
    pub shared_operators: u64,
}

impl PhaseTotals {
    /// Work and waiting of operators.
    pub fn divided(&self) -> Divided {
        Divided::new(self.work, self.waiting, self.undivided)
    }
}

/// Activations of experts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExpertTotals {
    /// How often it was chosen for a token.
    pub activations: u64,
}

/// The statistics of a trace.
#[derive(Debug, Default)]
pub struct Statistics {
    /// Steps, and unrecorded periods, before the first one: tables by their numbers begin after these.
    before: (u64, u32),
    steps: StepTable,
    phases: BTreeMap<Phase, PhaseTotals>,
    operators: ByKind<(Option<TextId>, Phase), OperatorTotals>,
    /// Work of operators by groups of windows, where there are windows; and whole steps of each.
    grouped: ByKind<(Option<TextId>, Phase), Box<Groups>>,
    group_steps: BTreeMap<Phase, Groups>,
    graphs: FxHashMap<(TextId, Phase), SpanTotals>,
    lanes: BTreeMap<(Phase, u32), LaneTotals>,
    regions: BTreeMap<(u16, Phase), SpanTotals>,
    /// Time in graphs, by backend, of lanes without a share in them.
    unused_lanes: BTreeMap<(TextId, Phase), u64>,
    experts: FxHashMap<(Option<Arc<str>>, u32, Phase), ExpertTotals>,
    experts_left_out: u64,
    faults: Faults,
    reclaims: Reclaims,
    saw_graphs: bool,
    saw_switches: bool,
    incomplete_loose: u64,
    incomplete: Vec<IncompleteStep>,
    lanes_with_losses: BTreeMap<u32, u64>,
    quantities: AllQuantities,
    threads: ThreadTotals,
    requests: Requests,
    offloads: Offloads,
}

impl Visitor for Statistics {
    fn step(&mut self, step: &Step, catalogue: &Catalogue, decoder: &Decoder) {
        self.requests.add(step, decoder);
        let phase = step.phase.unwrap_or(Phase::Outside);
        if phase == Phase::Outside && step.is_empty() {
            return;
        }
        if phase != Phase::Outside {
            let row = step.row(phase, decoder);
            let (number, stretch) =
                (row.number.saturating_sub(self.before.0), row.stretch.saturating_sub(self.before.1));
            self.steps.push(StepRow { number, stretch, ..row });
        }
        self.saw_graphs |= !step.graphs.is_empty();
        if !step.complete && phase != Phase::Outside {
            self.offloads.leave_out(step);
            self.add_incomplete(step);
            return;
        }
        self.incomplete_loose += u64::from(!step.complete);
        self.add_step(step, phase);
        if step.recorded != Recorded::Whole {
            self.offloads.leave_out(step);
            return;
        }
        self.add_operators(step, phase);
        self.quantities.add_operators(step, phase);
        self.add_lanes(step, phase);
        self.add_phase(step, phase);
        for graph in &step.graphs {
            let duration = graph.end.saturating_sub(graph.start);
            self.graphs.entry((graph.backend, phase)).or_default().add(duration, false);
        }
        for (backend, ns) in unused_lanes(step) {
            let sum = self.unused_lanes.entry((backend, phase)).or_default();
            *sum = sum.saturating_add(ns);
        }
        for region in &step.regions {
            let duration = region.end.saturating_sub(region.start);
            self.regions.entry((region.record_type, phase)).or_default().add(duration, region.operator.is_some());
        }
        self.add_experts(step, catalogue, phase);
        self.faults.add(step, phase, catalogue);
        self.reclaims.add(step, phase);
        self.threads.add(step, phase);
        self.offloads.add(step, phase);
    }
}

impl Statistics {
    /// Of a part of a recording that goes on, after so many steps and so many unrecorded periods. Memory depends on that
    /// part alone.
    pub fn after(steps: u64, stretches: u32) -> Self {
        Self { before: (steps, stretches.saturating_sub(1)), ..Self::default() }
    }

    /// Reclaim and compaction.
    pub fn reclaims(&self) -> &Reclaims {
        &self.reclaims
    }

    /// Page faults and reads.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// What was given to other processors.
    pub fn offloads(&self) -> &Offloads {
        &self.offloads
    }

    fn add_step(&mut self, step: &Step, phase: Phase) {
        let totals = self.phases.entry(phase).or_default();
        totals.steps += u64::from(phase != Phase::Outside);
        totals.tokens = totals.tokens.saturating_add(step.tokens.unwrap_or(0));
        totals.steps_with_tokens += u64::from(step.tokens.is_some());
        let sequences = if step.tokens.is_some() { step.sequence_count } else { 0 };
        totals.sequences = totals.sequences.saturating_add(sequences);
        let time = time_of(step, phase);
        totals.time = totals.time.saturating_add(time);
        let with_tokens = if step.tokens.is_some() { time } else { 0 };
        totals.time_with_tokens = totals.time_with_tokens.saturating_add(with_tokens);
    }

    fn add_incomplete(&mut self, step: &Step) {
        let records = step.missing.iter().map(|missing| missing.records).fold(0, u64::saturating_add);
        let mut lanes: Vec<u32> = step.missing.iter().filter_map(|missing| missing.lane).collect();
        lanes.sort_unstable();
        lanes.dedup();
        for lane in &lanes {
            if self.lanes_with_losses.len() < MAX_LANES || self.lanes_with_losses.contains_key(lane) {
                *self.lanes_with_losses.entry(*lane).or_default() += 1;
            }
        }
        if self.incomplete.len() >= MAX_INCOMPLETE {
            return;
        }
        self.incomplete.push(IncompleteStep { step: step.number, records, lanes });
    }

    fn add_operators(&mut self, step: &Step, phase: Phase) {
        let group = step.window.map(|window| window as usize % GROUPS);
        if let Some(group) = group {
            self.group_steps.entry(phase).or_insert([0.0; GROUPS])[group] += 1.0;
        }
        for operator in &step.operators {
            let backend = operator.graph.and_then(|g| step.graphs.get(g as usize)).map(|g| g.backend);
            let totals = self.operators.entry(operator.kind, (backend, phase));
            totals.add(operator);
            if let Some(group) = group {
                let key = (backend, phase);
                let sums = self.grouped.get_or_insert_with(operator.kind, key, || Box::new([0.0; GROUPS]));
                sums[group] += operator.work as f64;
            }
        }
    }

    fn add_lanes(&mut self, step: &Step, phase: Phase) {
        let totals = self.phases.entry(phase).or_default();
        // Lanes are few: a sorted list beats a map.
        let mut lanes: Vec<LaneTotals> = vec![LaneTotals::default(); step.lane_numbers.len()];
        let at = |lane: u32| step.lane_numbers.binary_search(&lane).unwrap_or(0);
        for operator in &step.operators {
            let shares = step.lanes_of(operator);
            for span in shares {
                let lane = &mut lanes[at(span.lane)];
                lane.work = lane.work.saturating_add(span.work());
                lane.waiting = lane.waiting.saturating_add(span.waiting);
                let undivided = if span.undivided { span.work() } else { 0 };
                lane.undivided = lane.undivided.saturating_add(undivided);
                lane.shares += 1;
            }
            if let [_, _, ..] = shares
                && operator.is_divided()
                && let Some(slowest) = shares.iter().max_by_key(|s| (s.work(), std::cmp::Reverse(s.lane)))
            {
                lanes[at(slowest.lane)].slowest += 1;
                totals.shared_operators += 1;
            }
        }
        for (number, lane) in step.lane_numbers.iter().zip(lanes) {
            let total = self.lanes.entry((phase, *number)).or_default();
            total.merge(&LaneTotals { step_time: time_of(step, phase), ..lane });
        }
    }

    fn add_phase(&mut self, step: &Step, phase: Phase) {
        let totals = self.phases.entry(phase).or_default();
        let lanes = step.lane_numbers.len().max(1) as u64;
        let sum = |of: fn(&Operator) -> u64| step.operators.iter().map(of).fold(0, u64::saturating_add);
        let (work, waiting, undivided) = (sum(|o| o.work), sum(|o| o.waiting), sum(|o| o.undivided));
        let busy = work.saturating_add(waiting);
        let time = time_of(step, phase);
        let lane_time = time.saturating_mul(lanes);
        let in_steps = phase != Phase::Outside;
        let outside_graphs =
            if self.saw_graphs && in_steps { time.saturating_sub(step.in_graphs).saturating_mul(lanes) } else { 0 };
        totals.whole_steps += u64::from(in_steps);
        totals.whole_time = totals.whole_time.saturating_add(time);
        for (record, count) in &step.records {
            let sum = totals.records.entry(*record).or_default();
            *sum = sum.saturating_add(*count);
        }
        totals.lane_time = totals.lane_time.saturating_add(lane_time);
        totals.lanes = totals.lanes.max(lanes);
        totals.work = totals.work.saturating_add(work);
        totals.waiting = totals.waiting.saturating_add(waiting);
        totals.undivided = totals.undivided.saturating_add(undivided);
        totals.waiting_windows.add(work, waiting, undivided);
        totals.outside_graphs = totals.outside_graphs.saturating_add(outside_graphs);
        let rest = lane_time.saturating_sub(busy).saturating_sub(outside_graphs);
        totals.outside_operators = totals.outside_operators.saturating_add(rest);
        totals.operators += step.operators.len() as u64;
        totals.graphs += step.graphs.len() as u64;
        totals.switches += step.off_cpu.len() as u64;
        self.saw_switches |= !step.off_cpu.is_empty();
        // Shares are of the lanes' time: other threads' delays are no part of it.
        let is_lane = |tid: u32| match step.lanes.is_empty() {
            true => tid == step.tid,
            false => step.lanes.iter().any(|lane| lane.tid == tid),
        };
        for off in step.off_cpu.iter().filter(|off| is_lane(off.tid)) {
            totals.blocked = totals.blocked.saturating_add(off.runnable.saturating_sub(off.start));
            totals.runnable = totals.runnable.saturating_add(off.end.saturating_sub(off.runnable));
        }
    }

    /// An expert is several matrices, chosen together: the first operator of a layer speaks for all of them.
    fn add_experts(&mut self, step: &Step, catalogue: &Catalogue, phase: Phase) {
        let mut speakers: FxHashMap<&Arc<str>, KindId> = FxHashMap::default();
        for experts in &step.experts {
            let kind = catalogue.kind(experts.kind);
            let layer = &kind.layer;
            let first = layer.as_ref().map(|layer| *speakers.entry(layer).or_insert(experts.kind));
            let speaks = first.is_none_or(|first| catalogue.kind(first).is_same_operator(kind));
            for id in experts.ids.iter().filter(|_| speaks) {
                self.add_expert(layer.clone(), *id, phase);
            }
        }
    }

    fn add_expert(&mut self, layer: Option<Arc<str>>, expert: u32, phase: Phase) {
        let key = (layer, expert, phase);
        if self.experts.len() >= MAX_EXPERTS && !self.experts.contains_key(&key) {
            self.experts_left_out += 1;
        } else {
            self.experts.entry(key).or_default().activations += 1;
        }
    }

    /// How many steps there are, those with lost records too.
    pub fn steps(&self) -> u64 {
        self.steps.count()
    }

    /// When the last of them ended, ns; 0 where there are none.
    pub fn last_end(&self) -> u64 {
        self.steps.last_end()
    }

    /// Steps that stand for all, by number: all of them, or the longest of each few in a row; and how many these are.
    pub fn step_points(&self) -> (Vec<StepRow>, u64) {
        self.steps.points()
    }

    /// The generations; where sequences were recorded, their times to first token and per output token are of requests.
    pub fn generations(&self) -> Generations {
        let generations = self.steps.generations();
        if !self.requests.were_recorded() {
            return generations;
        }
        let (ttft, tpot) = (self.requests.ttft(), self.requests.tpot());
        Generations { count: self.requests.count(), ttft, tpot, ..generations }
    }

    /// The requests.
    pub fn requests(&self) -> &Requests {
        &self.requests
    }

    /// Tokens of decode steps as time went on.
    pub fn rates(&self) -> Rates {
        self.steps.rates()
    }

    /// How many steps of a phase, or of any, nobody saw. Each that is seen takes longer by `added_ns` for being so.
    pub fn unseen_steps(&self, unseen: &Unseen, phase: Option<Phase>, added_ns: f64) -> Option<UnseenSteps> {
        self.steps.unseen(unseen, phase, added_ns)
    }

    /// The tracing overhead of steps, as measured.
    ///
    /// # Errors
    /// Why it cannot be measured.
    pub fn slowdown(&self) -> Result<Measured, &'static str> {
        if self.steps.count() == 0 { Err("there are no steps") } else { self.steps.slowdown() }
    }

    /// Steps with lost records, which are in no other number.
    pub fn left_out(&self) -> u64 {
        self.steps.incomplete()
    }

    /// The first steps with lost records, by number.
    pub fn incomplete(&self) -> Vec<IncompleteStep> {
        let mut steps = self.incomplete.clone();
        steps.sort_by_key(|s| s.step);
        steps
    }

    /// Lanes whose threads' numbering has gaps, and in how many steps.
    pub fn lanes_with_losses(&self) -> &BTreeMap<u32, u64> {
        &self.lanes_with_losses
    }

    /// Parts of the trace without steps of which records were lost. There is no other part to take instead, so they
    /// are counted.
    pub fn loose_with_losses(&self) -> u64 {
        self.incomplete_loose
    }

    /// A phase's totals.
    pub fn phase(&self, phase: Phase) -> Option<&PhaseTotals> {
        self.phases.get(&phase)
    }

    /// Operators by kind, backend and phase.
    pub fn operators(&self) -> impl Iterator<Item = (KindId, Option<TextId>, Phase, &OperatorTotals)> {
        self.operators.iter().map(|(kind, (backend, phase), totals)| (kind, backend, phase, totals))
    }

    /// Time in a phase's graphs, by their backend, of lanes that had no share in any of their operators, ns: an engine
    /// leaves a graph to one thread where a library has threads of its own.
    pub fn unused_lanes(&self, phase: Phase) -> impl Iterator<Item = (TextId, u64)> {
        self.unused_lanes.iter().filter(move |((_, of), _)| *of == phase).map(|((backend, _), ns)| (*backend, *ns))
    }

    /// Counts and costs of operators of a kind, a backend and a phase.
    pub fn quantities(&self, kind: KindId, backend: Option<TextId>, phase: Phase) -> Option<&Quantities> {
        self.quantities.operators.get(kind, (backend, phase))
    }

    /// Bytes of the model's weights that operators read, by kind, phase and the weights' type.
    pub fn weights(&self) -> impl Iterator<Item = (KindId, Phase, u16, f64)> {
        self.quantities.weights.iter().map(|(kind, (phase, dtype), bytes)| (kind, phase, dtype, *bytes))
    }

    /// Counts of lanes' shares, by phase and lane.
    pub fn lane_quantities(&self, phase: Phase, lane: u32) -> Option<&Quantities> {
        self.quantities.lanes.get(&(phase, lane))
    }

    /// Counts of a phase's steps, each on the step's thread.
    pub fn step_quantities(&self, phase: Phase) -> Option<&Quantities> {
        self.quantities.steps.get(&phase)
    }

    /// What the work of operators comes to over all of a phase's steps, lost ones left out; `None` where every step
    /// was recorded whole.
    pub fn estimated_work(&self, kinds: &[(KindId, Option<TextId>)], phase: Phase) -> Option<Estimate> {
        let steps = self.group_steps.get(&phase)?;
        let mut sums = [0.0; GROUPS];
        for (kind, backend) in kinds {
            let Some(grouped) = self.grouped.get(*kind, (*backend, phase)) else { continue };
            sums.iter_mut().zip(grouped.iter()).for_each(|(sum, work)| *sum += work);
        }
        Some(Estimate::of(&sums, steps, self.phases.get(&phase)?.steps))
    }

    /// Complete steps that were recorded so far.
    pub fn recorded(&self, recorded: Recorded) -> u64 {
        self.steps.recorded(recorded)
    }

    /// Graphs by backend and phase.
    pub fn graphs(&self) -> impl Iterator<Item = (TextId, Phase, &SpanTotals)> {
        self.graphs.iter().map(|((backend, phase), totals)| (*backend, *phase, totals))
    }

    /// Lanes by phase and number.
    pub fn lanes(&self) -> impl Iterator<Item = (Phase, u32, &LaneTotals)> {
        self.lanes.iter().map(|((phase, lane), totals)| (*phase, *lane, totals))
    }

    /// Regions by record type and phase.
    pub fn regions(&self) -> impl Iterator<Item = (u16, Phase, &SpanTotals)> {
        self.regions.iter().map(|((record_type, phase), totals)| (*record_type, *phase, totals))
    }

    /// Experts by layer, number and phase.
    pub fn experts(&self) -> impl Iterator<Item = (Option<&Arc<str>>, u32, Phase, ExpertTotals)> {
        self.experts.iter().map(|((layer, expert, phase), totals)| (layer.as_ref(), *expert, *phase, *totals))
    }

    /// Activations beyond the pairs that are counted apart.
    pub fn experts_left_out(&self) -> u64 {
        self.experts_left_out
    }

    /// Graphs were seen, so that time outside of them means something.
    pub fn saw_graphs(&self) -> bool {
        self.saw_graphs
    }

    /// What threads did.
    pub fn threads(&self) -> &ThreadTotals {
        &self.threads
    }

    /// Threads were seen to leave their cpus.
    pub fn saw_switches(&self) -> bool {
        self.saw_switches
    }

    /// Durations of a phase's complete steps.
    pub fn step_times(&self, phase: Phase) -> Distribution {
        self.steps.times(phase, None)
    }

    /// The same of those that were recorded so far.
    pub fn step_times_of(&self, phase: Phase, recorded: Recorded) -> Distribution {
        self.steps.times(phase, Some(recorded))
    }
}

/// A step's duration. Outside steps, only graphs, or operators, count.
/// Of each graph that has operators and the time to itself: the time of lanes without a share of any of them, by backend.
fn unused_lanes(step: &Step) -> BTreeMap<TextId, u64> {
    let mut unused = BTreeMap::new();
    if step.lane_numbers.len() < 2 {
        return unused;
    }
    let mut used: Vec<BTreeSet<u32>> = vec![BTreeSet::new(); step.graphs.len()];
    for operator in &step.operators {
        if let Some(used) = operator.graph.and_then(|graph| used.get_mut(graph as usize)) {
            used.extend(step.lanes_of(operator).iter().map(|span| span.lane));
        }
    }
    let mut graphs: Vec<_> = step.graphs.iter().zip(&used).collect();
    graphs.sort_by_key(|(graph, _)| graph.start);
    let mut last_end = 0;
    for (at, (graph, used)) in graphs.iter().enumerate() {
        let next = graphs.get(at + 1).map_or(u64::MAX, |(next, _)| next.start);
        let is_alone = last_end <= graph.start && graph.end <= next;
        last_end = last_end.max(graph.end);
        let lanes = step.lane_numbers.len().saturating_sub(used.len()) as u64;
        if is_alone && !used.is_empty() && lanes > 0 {
            let time = graph.end.saturating_sub(graph.start).saturating_mul(lanes);
            let sum: &mut u64 = unused.entry(graph.backend).or_default();
            *sum = sum.saturating_add(time);
        }
    }
    unused
}

fn time_of(step: &Step, phase: Phase) -> u64 {
    match (phase, step.in_graphs) {
        (Phase::Outside, 0) => {
            let busy = step.operators.iter().map(Operator::lane_time).fold(0, u64::saturating_add);
            busy / step.lane_numbers.len().max(1) as u64
        }
        (Phase::Outside, in_graphs) => in_graphs,
        _ => step.duration(),
    }
}
