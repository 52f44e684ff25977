//! Operators' probes come and go, as the price says. Attaching goes on group by group between answers to the target;
//! detaching, which takes longer, on a thread of its own.

use super::clock::{LEAD_NS, in_time, monotonic_ns};
use super::price::{RateGuard, Sampler, Seen, Terms};
use super::process::threads;
use super::switches::Hands;
use crate::plan::{ProbePlan, Shape, Tier};
use crate::spec::Role;
use crate::trace::{DetailReason, DetailState};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Spans that were open have so long to end, before the probes that would end them go.
const SHORTEST_DRAIN: Duration = Duration::from_millis(50);
const LONGEST_DRAIN: Duration = Duration::from_millis(600);
/// What was spent is asked for so often: where nothing depends on it, and where something does.
const RARELY: Duration = Duration::from_millis(250);
const OFTEN: Duration = Duration::from_millis(15);
/// How often is looked while something is about to change.
pub(super) const SOON: Duration = Duration::from_millis(4);

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
    Detaching {
        done: JoinHandle<()>,
        drained: bool,
    },
    Off,
}

/// Switches the probes of operators.
#[derive(Debug)]
pub(super) struct DetailSwitch {
    state: State,
    sampler: Option<Sampler>,
    rate: Option<RateGuard>,
    /// The last look said that steps come fast enough.
    fast_enough: bool,
    /// The step that runs, by how many had begun, and since when.
    running: (u64, u64),
    /// Probes whose spans another probe's entry ends.
    until: BTreeSet<String>,
    steps: BTreeSet<String>,
}

impl DetailSwitch {
    /// For a plan; `None` where operators are recorded whatever they cost. Where steps are counted, for their rate or
    /// to record some by number, they are always recorded.
    pub(super) fn new(plan: &ProbePlan, terms: Terms, steps_are_counted: bool) -> Option<Self> {
        let is_until = |probe: &&crate::plan::Action| {
            matches!(probe.shape, Shape::Until { .. }) && plan.tier_of_probe(&probe.probe) == Tier::Detail
        };
        let actions = || plan.programs.iter().flat_map(|program| &program.actions);
        let steps = || actions().filter(|action| action.role == Role::Step);
        let are_calls = steps().all(|step| matches!(step.shape, Shape::Call { .. }));
        let steps_may_go = are_calls && !steps_are_counted && terms.min_rate.is_none();
        terms.any().then(|| Self {
            state: State::Waiting,
            sampler: terms.budget.map(|budget| Sampler::new(budget, monotonic_ns(), steps_may_go)),
            rate: terms.min_rate.map(|least| RateGuard::new(least, monotonic_ns())),
            fast_enough: true,
            running: (0, 0),
            until: actions().filter(is_until).map(|action| action.probe.clone()).collect(),
            steps: steps().map(|action| action.probe.clone()).collect(),
        })
    }

    /// Whether something is about to change, so that it is worth looking often.
    pub(super) fn is_restless(&self) -> bool {
        !matches!(self.state, State::Off | State::Waiting) && self.sampler.is_some()
            || matches!(self.state, State::Attaching(_) | State::Draining(_) | State::Detaching { .. })
    }

    /// The recording begins: said before anything is attached, since a step that is read before is called whole.
    pub(super) fn start(&mut self, hands: &mut Hands<'_, '_>) {
        hands.say(DetailState::Attaching, DetailReason::Start, |_| monotonic_ns());
    }

    /// One look: does what is next, which takes some milliseconds at most.
    pub(super) fn look(&mut self, hands: &mut Hands<'_, '_>) {
        let mut seen = hands.seen(RARELY);
        if self.sampler.as_ref().is_some_and(|sampler| sampler.decides(&seen)) {
            seen = hands.seen(OFTEN);
        }
        self.fast_enough = self.check_rate(hands, &seen);
        let wanted = self.is_wanted(&seen);
        if matches!(self.state, State::Off) {
            self.settle(hands);
        }
        self.state = match std::mem::replace(&mut self.state, State::Off) {
            // They were attached with everything else.
            State::Waiting if hands.modules.any_detail() => self.begin(hands, DetailReason::Start),
            State::Attaching(next) => self.attach(next, hands),
            State::On if !wanted => self.end(hands, self.reason()),
            State::Draining(since) => self.drain(since, &seen, hands),
            State::Detaching { done, drained } if done.is_finished() => {
                let _ = done.join();
                self.detached(drained, hands)
            }
            State::Off if wanted => {
                let exact = hands.seen(Duration::ZERO);
                if let Some(sampler) = &mut self.sampler {
                    sampler.begins(&exact);
                }
                hands.meter.detail(true, &exact);
                hands.say(DetailState::Attaching, self.reason(), |_| monotonic_ns());
                hands.modules.set_detail_attached(true);
                State::Attaching(0)
            }
            same => same,
        };
    }

    /// While nothing is attached that comes and goes: has more of it go.
    fn settle(&self, hands: &mut Hands<'_, '_>) {
        let stays = self.sampler.as_ref().map_or(hands.modules.stays(), Sampler::stays);
        if stays >= hands.modules.stays() {
            return;
        }
        hands.session.switch_graphs();
        if stays.is_none() {
            hands.say_unseen(|session| {
                session.switch_steps();
                monotonic_ns()
            });
        }
        hands.modules.set_stays(stays, hands.session);
    }

    /// The target's own time in steps that nobody saw, as reckoned.
    pub(super) fn unseen_ns(&self) -> Option<f64> {
        self.sampler.as_ref()?.unseen_ns(monotonic_ns() as f64)
    }

    /// The recording ends: what is recorded until this instant is whole.
    pub(super) fn finish(&mut self, hands: &mut Hands<'_, '_>) {
        if matches!(self.state, State::On) {
            hands.say(DetailState::Off, DetailReason::End, |_| monotonic_ns());
        }
        if let State::Detaching { done, .. } = std::mem::replace(&mut self.state, State::Off) {
            let _ = done.join();
        }
    }

    fn is_wanted(&mut self, seen: &Seen) -> bool {
        let within_budget = self.sampler.as_mut().is_none_or(|sampler| sampler.wants(seen));
        within_budget && self.fast_enough
    }

    /// Why it changes now.
    fn reason(&self) -> DetailReason {
        if !self.fast_enough || self.sampler.is_none() { DetailReason::Rate } else { DetailReason::Budget }
    }

    fn check_rate(&mut self, hands: &Hands<'_, '_>, seen: &Seen) -> bool {
        let now = monotonic_ns();
        let begun = hands.session.steps();
        if begun != self.running.0 {
            self.running = (begun, now);
        }
        let runs = begun > hands.consumer.counts().steps_apart.load(Ordering::Relaxed);
        let running_ns = if runs { now.saturating_sub(self.running.1) } else { 0 };
        let step_ns = seen.step_ns.max(0.0) as u64;
        self.rate.as_mut().is_none_or(|rate| rate.allows(now, seen.steps, step_ns, running_ns))
    }

    fn attach(&mut self, next: usize, hands: &mut Hands<'_, '_>) -> State {
        match hands.modules.attach_group(next, hands.session) {
            Some(sites) => {
                hands.meter.switched(sites);
                State::Attaching(next + 1)
            }
            None => self.begin(hands, self.reason()),
        }
    }

    /// All is attached: what begins from now on counts.
    fn begin(&mut self, hands: &mut Hands<'_, '_>, reason: DetailReason) -> State {
        hands.say(DetailState::On, reason, |session| in_time(|since| session.set_detail(since, u64::MAX)));
        if let Some(sampler) = &mut self.sampler {
            sampler.began(&hands.seen(if sampler.stays().is_none() { Duration::ZERO } else { RARELY }));
        }
        State::On
    }

    /// Nothing counts any more that begins from now on.
    fn end(&mut self, hands: &mut Hands<'_, '_>, reason: DetailReason) -> State {
        hands.say(DetailState::Off, reason, |session| in_time(|until| session.end_detail(until)));
        State::Draining(Instant::now())
    }

    fn drain(&self, since: Instant, seen: &Seen, hands: &mut Hands<'_, '_>) -> State {
        let step = Duration::from_nanos((seen.step_ns / (seen.steps as f64).max(1.0)).max(0.0) as u64);
        let patience = (2 * step).clamp(SHORTEST_DRAIN, LONGEST_DRAIN);
        let lead_is_over = since.elapsed() >= 2 * Duration::from_nanos(LEAD_NS);
        let drained = lead_is_over && !self.any_open(hands);
        if !drained && since.elapsed() < patience {
            return State::Draining(since);
        }
        let (done, sites) = hands.modules.detach_detail(hands.session);
        hands.meter.switched(sites);
        State::Detaching { done, drained }
    }

    /// Whether spans are open whose end would not be seen without the probes.
    fn any_open(&self, hands: &Hands<'_, '_>) -> bool {
        let steps_go = hands.modules.stays().is_none();
        if self.until.is_empty() && !steps_go {
            return false;
        }
        let threads: Vec<i32> = (hands.processes)().into_iter().flat_map(threads).collect();
        hands
            .session
            .open_spans(&threads)
            .keys()
            .any(|probe| self.until.contains(probe) || (steps_go && self.steps.contains(probe)))
    }

    fn detached(&mut self, drained: bool, hands: &mut Hands<'_, '_>) -> State {
        if !drained {
            // Nothing moves: their threads are idle, and would end them with the next window's first hit.
            hands.session.end_spans();
        }
        hands.session.set_detail(u64::MAX, 0);
        hands.say(DetailState::Detached, self.reason(), |_| monotonic_ns());
        let seen = hands.seen(Duration::ZERO);
        hands.meter.detail(false, &seen);
        if let Some(sampler) = &mut self.sampler {
            sampler.ended(&seen);
        }
        self.settle(hands);
        State::Off
    }
}
