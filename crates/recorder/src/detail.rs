//! Operators' probes come and go, as the overhead limits require. Attaching goes on in turns between answers to the target;
//! detaching, which takes longer, on a separate thread.

use super::clock::{LEAD_NS, in_time, monotonic_ns};
use super::consumer::Traffic;
use super::overhead::{OverheadLimits, RateGuard, Sampler, Seen};
use super::process::threads;
use super::switch_context::SwitchContext;
use crate::bpf::{Detachment, Session};
use profinfer_compiler::{ProbePlan, Shape, Tier};
use profinfer_schema::Role;
use profinfer_schema::{DetailReason, DetailState};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Spans that were open have so long to end, before the probes that would end them go.
const SHORTEST_DRAIN: Duration = Duration::from_millis(50);
const LONGEST_DRAIN: Duration = Duration::from_millis(600);
/// What was spent is asked for so often: while no operator is recorded and nothing is decided soon; where nothing depends
/// on it; and where something does.
const RAREST: Duration = Duration::from_secs(4);
const RARELY: Duration = Duration::from_millis(250);
const OFTEN: Duration = Duration::from_millis(15);
/// The function of steps may be found so long after those of operators.
const STEPS_AWAITED_NS: u64 = 1_000_000_000;
/// Groups of probes are attached for so long before the target is answered. Hits before all are attached cost the target
/// time and are not recorded.
const TURN: Duration = Duration::from_millis(2);
/// Time between two polls while something is about to change.
const SOON: Duration = Duration::from_millis(4);
/// While nothing is, at least and at most; the last is where nobody waits for records.
const LATER: Duration = Duration::from_millis(20);
const LATE: Duration = Duration::from_secs(1);
const LATEST: Duration = Duration::from_secs(2);
/// While the target begins no step: it may begin at any time.
const STILL: Duration = Duration::from_millis(500);
/// A target that has begun no step for so long is idle, or in a long one.
const STILL_NS: u64 = 1_000_000_000;
/// Before the first window, a target that has begun no step for some time is checked again after a 50th of it: half of
/// what is undecided.
const STILL_PART: u64 = 25;

/// How far the probes are.
#[derive(Debug)]
enum State {
    /// There is nothing yet that could come or go.
    Waiting,
    /// Groups from this one on are to be attached.
    Attaching(usize),
    On,
    /// Nothing new is recorded; open spans end.
    Draining(Instant),
    Detaching(Detachment),
    Off,
}

/// Switches the probes of operators.
#[derive(Debug)]
pub(super) struct DetailSwitch {
    state: State,
    sampler: Option<Sampler>,
    rate: Option<RateGuard>,
    /// At the last poll, steps came fast enough.
    fast_enough: bool,
    /// The step that runs, by how many had begun, and since when.
    running: (u64, u64),
    /// Probes whose spans another probe's entry ends.
    until: BTreeSet<String>,
    steps: BTreeSet<String>,
    /// Since when operators were found, and no function of steps: ns of CLOCK_MONOTONIC.
    without_steps: Option<u64>,
    /// For so long that there is none.
    unmarked: bool,
    first_window_ns: Option<f64>,
    /// How long the budget has nothing to decide, as estimated at the last poll.
    undecided: Duration,
}

impl DetailSwitch {
    /// For a plan; `None` where operators are recorded whatever they cost. Where steps are counted, for their rate or
    /// to record some by number, they are always recorded.
    pub(super) fn new(plan: &ProbePlan, limits: OverheadLimits, steps_are_counted: bool) -> Option<Self> {
        let is_until = |probe: &&profinfer_compiler::Action| {
            matches!(probe.shape, Shape::Until { .. }) && plan.tier_of_probe(&probe.probe) == Tier::Detail
        };
        let actions = || plan.programs.iter().flat_map(|program| &program.actions);
        let steps = || actions().filter(|action| action.role == Role::Step);
        let steps_may_go = !steps_are_counted && limits.min_rate.is_none();
        // What operators cost is known from steps alone; without any, all is attached.
        let begins_bare = limits.budget.is_some() && steps().next().is_some();
        limits.any().then(|| Self {
            state: if begins_bare { State::Off } else { State::Waiting },
            sampler: limits.budget.map(|budget| Sampler::new(budget, monotonic_ns(), steps_may_go)),
            rate: limits.min_rate.map(|least| RateGuard::new(least, monotonic_ns())),
            fast_enough: true,
            running: (0, monotonic_ns()),
            until: actions().filter(is_until).map(|action| action.probe.clone()).collect(),
            steps: steps().map(|action| action.probe.clone()).collect(),
            without_steps: None,
            unmarked: false,
            first_window_ns: None,
            undecided: Duration::ZERO,
        })
    }

    /// Time until the next poll. The estimate of what is left becomes better the less is left: half of it is waited.
    pub(super) fn pause(&self) -> Duration {
        let (shortest, longest) = match self.state {
            State::Attaching(_) | State::Draining(_) => return SOON,
            // The kernel takes some 50 ms.
            State::Detaching { .. } => return LATER,
            State::On if self.sampler.is_some() => (SOON, LATER),
            // A rate is to be seen to fall at once, and a target that begins.
            _ if self.traffic() == Traffic::Threads => (LATER, LATEST),
            _ if self.is_idle() => (LATER, LATE),
            State::On | State::Off | State::Waiting => return LATER,
        };
        (self.undecided / 2).clamp(shortest, longest)
    }

    /// The recording begins: this is recorded before anything is attached, since a step that is read before it is called
    /// whole.
    pub(super) fn start(&mut self, context: &mut SwitchContext<'_, '_>) {
        if !matches!(self.state, State::Off) {
            return context.record_state(DetailState::Attaching, DetailReason::Start, |_| monotonic_ns());
        }
        context.modules.set_detail_attached(false);
        context.session.set_detail(u64::MAX, 0);
        context.meter.detail(false, &Seen::default(), context.consumer.counts());
        context.record_state(DetailState::Detached, DetailReason::Start, |_| monotonic_ns());
    }

    /// Does the next step, which takes some milliseconds at most.
    pub(super) fn poll(&mut self, context: &mut SwitchContext<'_, '_>) {
        let rarely = if self.is_idle() { (self.undecided / 2).clamp(RARELY, RAREST) } else { RARELY };
        let mut seen = context.seen(rarely);
        // While probes come or go, what was spent changes nothing.
        let may_decide = matches!(self.state, State::On | State::Off);
        if may_decide && self.sampler.as_ref().is_some_and(|sampler| sampler.decides(&seen)) {
            seen = context.seen(OFTEN);
        }
        self.fast_enough = self.check_rate(context, &seen);
        self.undecided = self.undecided(&seen);
        if self.has_no_steps(context) {
            self.record_without_steps(&seen, context);
        }
        let wanted = self.is_wanted(&seen);
        if matches!(self.state, State::Off) {
            self.settle(context);
        }
        self.state = match std::mem::replace(&mut self.state, State::Off) {
            // They were attached with everything else.
            State::Waiting if context.modules.any_detail() => self.begin(context, DetailReason::Start),
            State::Attaching(next) => self.attach(next, context),
            State::On if !wanted => self.end(context, self.reason()),
            State::Draining(since) => self.drain(since, &seen, context),
            State::Detaching(done) if done.is_finished() => {
                done.wait();
                self.detached(context)
            }
            State::Off if wanted => {
                let exact = context.seen(Duration::ZERO);
                if let Some(sampler) = &mut self.sampler {
                    sampler.begins(&exact);
                }
                context.meter.detail(true, &exact, context.consumer.counts());
                context.record_state(DetailState::Attaching, self.reason(), |_| monotonic_ns());
                context.modules.set_detail_attached(true);
                State::Attaching(0)
            }
            same => same,
        };
        let at_most = match self.state {
            _ if self.is_idle() => self.undecided / 2,
            // Nothing is decided by counts, and few records come.
            State::Attaching(_) | State::Detaching(_) => LATER,
            _ => Duration::ZERO,
        };
        context.consumer.read_every(at_most, self.traffic());
    }

    /// While nothing is attached that comes and goes: has more of it go.
    fn settle(&self, context: &mut SwitchContext<'_, '_>) {
        let stays = self.sampler.as_ref().map_or(context.modules.stays(), Sampler::stays);
        if stays >= context.modules.stays() {
            return;
        }
        context.session.switch_graphs();
        if stays.is_none() {
            // Where steps were looked for, nothing has been recorded since then.
            let since = self.without_steps.filter(|_| self.unmarked);
            context.record_unseen(|session| match since {
                Some(since) => since,
                // Operators are recorded once a step has begun.
                None => {
                    session.switch_steps();
                    monotonic_ns()
                }
            });
        }
        context.modules.set_stays(stays, context.session);
    }

    /// The estimated time of the target itself in steps that nobody saw.
    pub(super) fn unseen_ns(&self) -> Option<f64> {
        self.sampler.as_ref()?.unseen_ns(monotonic_ns() as f64)
    }

    /// Once the recording has ended: the time of the target in steps that the budget would have needed for its first
    /// window, ns; `None` if there was one.
    pub(super) fn first_window_ns(&self) -> Option<f64> {
        self.first_window_ns
    }

    /// The recording ends: records until this time are whole.
    pub(super) fn finish(&mut self, context: &mut SwitchContext<'_, '_>) {
        match self.state {
            State::On => context.record_state(DetailState::Off, DetailReason::End, |_| monotonic_ns()),
            State::Off => {
                let seen = context.seen(RARELY);
                if self.without_steps.is_some() && !self.unmarked && !context.modules.any_steps() {
                    self.record_without_steps(&seen, context);
                }
                self.first_window_ns = self.sampler.as_ref().and_then(|sampler| sampler.first_window_ns(&seen));
            }
            _ => {}
        }
        if let State::Detaching(done) = std::mem::replace(&mut self.state, State::Off) {
            done.wait();
        }
    }

    /// Nothing is recorded of operators, and nothing depends on how soon a change is seen.
    fn is_idle(&self) -> bool {
        matches!(self.state, State::Off) && self.rate.is_none()
    }

    /// What is recorded now.
    pub(super) fn traffic(&self) -> Traffic {
        match &self.sampler {
            _ if !self.is_idle() => Traffic::Operators,
            Some(sampler) if sampler.stays().is_none() => Traffic::Threads,
            _ => Traffic::Steps,
        }
    }

    /// How long the budget has nothing to decide.
    fn undecided(&self, seen: &Seen) -> Duration {
        let ns = self.sampler.as_ref().map_or(0.0, |sampler| sampler.undecided_ns(seen));
        let undecided = Duration::from_nanos(ns.max(0.0) as u64);
        // A target that begins no step will not have ended many soon. Where steps are not counted, the clock decides.
        let counts_steps = self.traffic() != Traffic::Threads;
        let still_ns = monotonic_ns().saturating_sub(self.running.1);
        let is_still = counts_steps && still_ns > STILL_NS;
        // A target that begins may end soon, or have one lane only at first.
        let awaits_first = self.sampler.as_ref().is_some_and(Sampler::awaits_first_window);
        match (awaits_first, is_still) {
            (true, true) => Duration::from_nanos(still_ns / STILL_PART).clamp(LATER * 2, STILL * 2),
            (true, false) => undecided.min(LATER * 2),
            (false, true) => STILL * 2,
            (false, false) => undecided,
        }
    }

    fn is_wanted(&mut self, seen: &Seen) -> bool {
        let within_budget = self.sampler.as_mut().is_none_or(|sampler| sampler.wants(seen));
        within_budget && self.fast_enough
    }

    /// Whether it has turned out that the target has no function of steps, by which a budget could be measured.
    fn has_no_steps(&mut self, context: &SwitchContext<'_, '_>) -> bool {
        let may_have = self.unmarked || context.modules.any_steps() || !context.modules.any_detail();
        if !matches!(self.state, State::Off) || may_have {
            return false;
        }
        let since = *self.without_steps.get_or_insert_with(monotonic_ns);
        monotonic_ns().saturating_sub(since) >= STEPS_AWAITED_NS
    }

    /// The budget is for the time in operators from now on.
    fn record_without_steps(&mut self, seen: &Seen, context: &mut SwitchContext<'_, '_>) {
        self.unmarked = true;
        context.consumer.counts().count_operators();
        let since = self.without_steps.unwrap_or_else(monotonic_ns);
        self.sampler.iter_mut().for_each(|sampler| sampler.has_no_steps(seen, since as f64));
    }

    /// Why it changes now.
    fn reason(&self) -> DetailReason {
        if !self.fast_enough || self.sampler.is_none() { DetailReason::Rate } else { DetailReason::Budget }
    }

    fn check_rate(&mut self, context: &SwitchContext<'_, '_>, seen: &Seen) -> bool {
        let now = monotonic_ns();
        let begun = context.session.steps();
        if begun != self.running.0 {
            self.running = (begun, now);
        }
        // Not by the steps that have ended: a record may be lost, and a thread may end within a step.
        let running_ns = if context.session.within_steps() > 0 { now.saturating_sub(self.running.1) } else { 0 };
        let (steps, step_ns) = if self.unmarked { (0, 0) } else { (seen.steps, seen.step_ns.max(0.0) as u64) };
        self.rate.as_mut().is_none_or(|rate| rate.allows(now, steps, step_ns, running_ns))
    }

    fn attach(&mut self, mut next: usize, context: &mut SwitchContext<'_, '_>) -> State {
        let began = Instant::now();
        while let Some(sites) = context.modules.attach_group(next, context.session) {
            context.meter.switched(sites);
            next += 1;
            if began.elapsed() >= TURN {
                return State::Attaching(next);
            }
        }
        self.begin(context, self.reason())
    }

    /// All is attached: what begins from now on counts.
    fn begin(&mut self, context: &mut SwitchContext<'_, '_>, reason: DetailReason) -> State {
        let planned_end = self.sampler.as_mut().and_then(|sampler| {
            sampler.began(&context.seen(if sampler.stays().is_none() { Duration::ZERO } else { RARELY }));
            sampler.planned_end_ns()
        });
        let set = |session: &Session<'_>| in_time(|since| session.set_detail(since, u64::MAX));
        context.record_planned(DetailState::On, reason, planned_end, set);
        State::On
    }

    /// Nothing counts any more that begins from now on.
    fn end(&mut self, context: &mut SwitchContext<'_, '_>, reason: DetailReason) -> State {
        context.record_state(DetailState::Off, reason, |session| in_time(|until| session.end_detail(until)));
        State::Draining(Instant::now())
    }

    fn drain(&self, since: Instant, seen: &Seen, context: &mut SwitchContext<'_, '_>) -> State {
        let step = Duration::from_nanos((seen.step_ns / (seen.steps as f64).max(1.0)).max(0.0) as u64);
        let patience = (2 * step).clamp(SHORTEST_DRAIN, LONGEST_DRAIN);
        let lead_is_over = since.elapsed() >= 2 * Duration::from_nanos(LEAD_NS);
        // Where nothing moves, threads are idle: what is open there is not recorded.
        let drained = lead_is_over && !self.any_open(context);
        if !drained && since.elapsed() < patience {
            return State::Draining(since);
        }
        let (done, sites) = context.modules.detach_detail(context.session);
        context.meter.switched(sites);
        State::Detaching(done)
    }

    /// Whether spans are open whose end would not be seen without the probes.
    fn any_open(&self, context: &SwitchContext<'_, '_>) -> bool {
        let steps_go = context.modules.stays().is_none();
        if self.until.is_empty() && !steps_go {
            return false;
        }
        let threads: Vec<i32> = (context.processes)().into_iter().flat_map(threads).collect();
        context
            .session
            .open_spans(&threads)
            .keys()
            .any(|probe| self.until.contains(probe) || (steps_go && self.steps.contains(probe)))
    }

    fn detached(&mut self, context: &mut SwitchContext<'_, '_>) -> State {
        context.session.set_detail(u64::MAX, 0);
        context.record_state(DetailState::Detached, self.reason(), |_| monotonic_ns());
        let seen = context.seen(Duration::ZERO);
        context.meter.detail(false, &seen, context.consumer.counts());
        if let Some(sampler) = &mut self.sampler {
            sampler.ended(&seen);
        }
        self.settle(context);
        State::Off
    }
}
