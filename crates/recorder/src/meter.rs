//! What a recording costs its target so far: what the programs did, by what one hit of each costs.

use super::active_recorders::ActiveRecorders;
use super::clock::{monotonic_ns, processor_ns};
use super::counts::Counts;
use super::modules::Modules;
use super::overhead::{Costs, OverheadLimits, ProgramRuns, Seen};
use crate::bpf::{RunStatistics, Session};
use profinfer_compiler::{ProbePlan, Program, ProgramKind, Shape, Tier};
use profinfer_schema::Overhead;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Runs of a program whose mean is taken.
const FEWEST_RUNS: u64 = 20;
/// So long the kernel counts them where nothing depends on it.
const COUNTED: Duration = Duration::from_secs(1);

/// Adds up the cost.
#[derive(Debug)]
pub(super) struct Meter<'a> {
    plan: &'a ProbePlan,
    limits: OverheadLimits,
    costs: Costs,
    /// The kernel counts runs.
    counting: Option<RunStatistics>,
    /// What a run of each program takes, ns, by such a count of the first ones: what is read differs from probe to probe.
    mean_runs: BTreeMap<usize, f64>,
    /// Since when that has runs.
    counted_since: Option<Instant>,
    read: Option<Instant>,
    /// Step time while the probes of operators were attached, ns, and what it was when they last came.
    detailed_ns: f64,
    attached_at: Option<f64>,
    /// Steps, and sites that were attached or detached, before they last came.
    before: (u64, u64),
    recorders: ActiveRecorders,
}

impl<'a> Meter<'a> {
    /// Of a plan's programs. The kernel counts for as long as the cost decides something, otherwise the first runs: that
    /// costs too.
    pub(super) fn new(plan: &'a ProbePlan, limits: OverheadLimits) -> Self {
        let programs = plan.programs.iter().map(|program| (plan.tier(program), program.kind == ProgramKind::Span));
        Self {
            plan,
            limits,
            costs: Costs::new(programs, &plan.costs),
            counting: RunStatistics::enable(),
            mean_runs: BTreeMap::new(),
            counted_since: None,
            read: None,
            detailed_ns: 0.0,
            attached_at: Some(0.0),
            before: (0, 0),
            recorders: ActiveRecorders::default(),
        }
    }

    /// Without a budget: takes what the first runs took, and has the kernel count no longer. Asked for now and then.
    pub(super) fn sample_runs(&mut self, session: &Session<'_>) {
        if self.counting.is_none() || self.limits.budget.is_some() {
            return;
        }
        let runs = session.runs(|_| true);
        let enough = runs.into_iter().filter(|(_, (hits, _))| *hits >= FEWEST_RUNS);
        self.mean_runs.extend(enough.map(|(program, (hits, ns))| (program, ns as f64 / hits as f64)));
        if !self.mean_runs.is_empty() && self.counted_since.get_or_insert_with(Instant::now).elapsed() >= COUNTED {
            self.counting = None;
        }
    }

    /// What was seen until now. The cost is read anew if it is older than that: it takes a fraction of
    /// a millisecond.
    pub(super) fn seen(
        &mut self,
        session: &Session<'_>,
        modules: &Modules<'_>,
        counts: &Counts,
        at_most: Duration,
    ) -> Seen {
        if self.read.is_none_or(|read| read.elapsed() >= at_most) {
            self.read = Some(Instant::now());
            self.read_costs(session, modules, counts);
        }
        let busiest_lane = counts.busiest_lane();
        let spans = counts.of_target();
        Seen {
            now_ns: monotonic_ns() as f64,
            steps: spans.count(),
            step_ns: spans.ns() as f64,
            steps_cost_ns: self.costs.of(Tier::Always) + self.costs.of(Tier::Step),
            graphs_cost_ns: self.costs.of(Tier::Graph),
            detail_cost_ns: (self.costs.of(Tier::Detail) + self.costs.of(Tier::Waiting)) * busiest_lane,
            recorder_ns: processor_ns() as f64,
            recorder_parts: self.recorders.parts(spans.count()),
        }
    }

    fn read_costs(&mut self, session: &Session<'_>, modules: &Modules<'_>, counts: &Counts) {
        self.costs.at_sites(modules.traps().iter().map(|at| (at.program, at.ns, counts.of_site(at.site))));
        if self.counting.is_some() && self.limits.budget.is_some() {
            for (program, (hits, ns)) in session.runs(|program| self.may_run(program)) {
                self.costs.ran(program, ProgramRuns { hits, run_ns: Some(ns) });
            }
            return;
        }
        let within = session.calls_within();
        // Alternatives of a probe have one record type: its records are those of the program that has sites.
        for (index, program) in self.plan.programs.iter().enumerate() {
            if !modules.traps().iter().any(|at| at.program == index) {
                continue;
            }
            let hits = program.actions.iter().map(|action| {
                let runs = if matches!(action.shape, Shape::Call { .. }) { 2 } else { 1 };
                let within = within.get(action.record).copied().unwrap_or_default();
                counts.of_type(action.record).saturating_add(within).saturating_mul(runs)
            });
            let hits = hits.max().unwrap_or(0);
            let run_ns = self.mean_runs.get(&index).map(|mean| (hits as f64 * mean) as u64);
            self.costs.ran(index, ProgramRuns { hits, run_ns });
        }
    }

    /// Whether a program may have run since it was asked for last. Those of operators were asked for once all were
    /// detached.
    fn may_run(&self, program: usize) -> bool {
        let comes_and_goes =
            |program: &Program| self.plan.tier(program) >= Tier::Detail && program.kind != ProgramKind::Tracepoint;
        self.attached_at.is_some() || !self.plan.programs.get(program).is_some_and(comes_and_goes)
    }

    /// So many sites were attached or detached while the target ran.
    pub(super) fn switched(&mut self, sites: usize) {
        self.costs.switched(sites);
    }

    /// The probes of operators are attached from now on, or detached. Costs were read just before, while none was attached.
    pub(super) fn detail(&mut self, attached: bool, seen: &Seen, counts: &Counts) {
        match (attached, self.attached_at) {
            (true, None) => {
                self.attached_at = Some(seen.step_ns);
                self.before = (seen.steps, self.costs.switches());
            }
            (false, Some(since)) => {
                self.detailed_ns += seen.step_ns - since;
                self.attached_at = None;
                // Attaching takes a target nothing that does nothing.
                if counts.counts_operators() && seen.steps == self.before.0 {
                    self.costs.forget_switches(self.before.1);
                }
            }
            _ => {}
        }
    }

    /// The account, for the trace.
    pub(super) fn overhead(
        &mut self,
        session: &Session<'_>,
        modules: &Modules<'_>,
        counts: &Counts,
        unseen_ns: Option<f64>,
    ) -> Overhead {
        self.sample_runs(session);
        let seen = self.seen(session, modules, counts, Duration::ZERO);
        let ns = |ns: f64| ns.max(0.0) as u64;
        Overhead {
            budget: self.limits.budget,
            min_rate: self.limits.min_rate,
            steps: counts.ended().count(),
            step_ns: ns(seen.step_ns),
            unseen_step_ns: unseen_ns.map(ns),
            detailed_step_ns: ns(self.detailed_ns + self.attached_at.map_or(0.0, |since| seen.step_ns - since)),
            base_ns: ns(seen.steps_cost_ns + seen.graphs_cost_ns),
            detail_ns: ns(seen.detail_cost_ns),
            record_ns: self.record_costs(counts, &session.calls_within()),
            span_ns: self.span_costs(),
            built_in_costs: self.plan.costs.built_in,
        }
    }

    /// What one record of each probe adds to a step, with the calls that it stands for, of which there were so many of each
    /// record type. Probes that share a site share its trap: it is the first one's.
    fn record_costs(&self, counts: &Counts, within: &[u64]) -> BTreeMap<String, f64> {
        let (busiest_lane, mut costs) = (counts.busiest_lane(), BTreeMap::new());
        for (index, program) in self.plan.programs.iter().enumerate() {
            let (Some(run), Some(action)) = (self.costs.of_run(index), program.actions.first()) else { continue };
            let runs = if matches!(action.shape, Shape::Call { .. }) { 2.0 } else { 1.0 };
            let part = if self.plan.tier(program) >= Tier::Detail { busiest_lane } else { 1.0 };
            let records = counts.of_type(action.record).max(1) as f64;
            let calls = 1.0 + within.get(action.record).map_or(0.0, |within| *within as f64 / records);
            costs.insert(action.probe.clone(), (run * runs * part * calls).round());
        }
        costs
    }

    /// What a span of each probe contains of its probe.
    fn span_costs(&self) -> BTreeMap<String, f64> {
        let programs = self.plan.programs.iter().enumerate();
        let cost = |(index, program): (usize, &Program)| {
            Some((program.actions.first()?.probe.clone(), self.costs.of_span(index)?.round()))
        };
        programs.filter_map(cost).collect()
    }
}
