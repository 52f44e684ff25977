//! The boundaries that only record since when a lane waits for others: their probes are hit more often than operators'. With
//! several lanes they are attached in random windows of time ([`Barriers::Sampled`]). A lane alone waits for nobody: once
//! that is established they are detached, until a second lane shows.

use super::clock::{LEAD_NS, in_time, monotonic_ns};
use super::switch_context::SwitchContext;
use profinfer_compiler::{ProbePlan, Tier, WAITING};
use profinfer_schema::Role;
use profinfer_schema::{Notice, WaitingNotice};
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

/// So many steps in which one lane alone computed are enough.
const STEPS: u64 = 8;
/// A window lasts so long, and for at least so many whole steps.
const WINDOW_NS: u64 = 100_000_000;
const FEWEST_STEPS: u64 = 2;
/// The mean gap, as a multiple of the windows' mean length, so that one step in ten is in a window; and the longest gap, as a
/// multiple of the mean one.
const GAP: f64 = 9.0;
const LONGEST_GAP: f64 = 6.0;

/// In which steps boundaries are probed that only record waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Barriers {
    /// In all of them.
    All,
    /// With several lanes, in one of ten on average, at random; with a budget, in its windows.
    #[default]
    Sampled,
    /// In none.
    None,
}

#[derive(Debug)]
enum State {
    Attached,
    /// One lane alone computes.
    Detached,
    /// There are several lanes.
    Permanent,
    /// There are several lanes. Since that time; so many steps had ended.
    Window {
        since: u64,
        steps: u64,
    },
    /// Nothing new has a `waiting`; the probes are being detached. Then a gap until that time.
    Detaching {
        done: JoinHandle<()>,
        until: u64,
    },
    Gap {
        until: u64,
    },
}

/// Switches them.
#[derive(Debug)]
pub(super) struct BoundarySwitch {
    state: State,
    /// Boundaries are sampled; with the random numbers for that.
    sampled: Option<fastrand::Rng>,
    /// Windows until now, and their time.
    windows: u64,
    window_ns: u64,
}

impl BoundarySwitch {
    /// For a plan; `None` where there is nothing to switch, or no telling how many lanes there are.
    pub(super) fn new(plan: &ProbePlan, sampled: bool) -> Option<Self> {
        let any = plan.programs.iter().any(|program| plan.tier(program) == Tier::Waiting);
        let mut waiting = plan.schema.records.iter().filter(|r| r.fields.iter().any(|f| f.name == WAITING));
        let has_lane = |record: &profinfer_schema::RecordType| {
            record.role == Some(Role::Operator) && record.fields.iter().any(|field| field.name == "lane")
        };
        let sampled = sampled.then(|| fastrand::Rng::with_seed(monotonic_ns()));
        (any && waiting.all(has_lane)).then_some(Self { state: State::Attached, sampled, windows: 0, window_ns: 0 })
    }

    /// Whether nothing will change any more.
    pub(super) fn is_settled(&self) -> bool {
        matches!(self.state, State::Permanent)
    }

    /// Whether nothing changes before a second lane is seen.
    pub(super) fn awaits_a_lane(&self) -> bool {
        matches!(self.state, State::Detached)
    }

    /// Does the next step, if it is due.
    pub(super) fn poll(&mut self, context: &mut SwitchContext<'_, '_>) {
        let counts = context.consumer.counts();
        let second = counts.second_lane();
        let steps = counts.steps_apart.load(Ordering::Relaxed);
        let now = monotonic_ns();
        self.state = match (std::mem::replace(&mut self.state, State::Attached), second) {
            (State::Attached, Some(_)) => self.several(now, steps),
            (State::Attached, None) => {
                let enough = steps >= STEPS && counts.only_lane().is_some();
                if enough && context.modules.any_waiting() {
                    Self::detach_for_one_lane(context);
                    State::Detached
                } else {
                    State::Attached
                }
            }
            (State::Detached, Some(since)) => {
                Self::attach_for_a_second_lane(context, since);
                self.several(monotonic_ns(), steps)
            }
            (State::Window { since, steps: before }, _)
                if now >= since + WINDOW_NS && steps > before + FEWEST_STEPS && context.modules.any_waiting() =>
            {
                self.end_window(context, now - since)
            }
            (State::Detaching { done, until }, _) if done.is_finished() => {
                let _ = done.join();
                State::Gap { until }
            }
            (State::Gap { until }, _) if now >= until => {
                Self::begin_window(context);
                State::Window {
                    since: monotonic_ns(),
                    steps: context.consumer.counts().steps_apart.load(Ordering::Relaxed),
                }
            }
            (same, _) => same,
        };
    }

    /// There is a second lane; the probes are attached.
    fn several(&self, now: u64, steps: u64) -> State {
        if self.sampled.is_some() { State::Window { since: now, steps } } else { State::Permanent }
    }

    fn begin_window(context: &mut SwitchContext<'_, '_>) {
        context.modules.set_waiting_wanted(true);
        let sites = context.modules.attach_waiting(context.session);
        context.meter.switched(sites);
        record_change(context, "waiting: a window begins", |context| {
            let since = in_time(|instant| context.session.begin_waiting(instant));
            (since, WaitingNotice { known: true, sampled: true, missed_ns: 0 })
        });
    }

    /// The gap is drawn without memory, so that nothing that a step is makes it more likely to be in a window.
    fn end_window(&mut self, context: &mut SwitchContext<'_, '_>, lasted_ns: u64) -> State {
        self.windows += 1;
        self.window_ns = self.window_ns.saturating_add(lasted_ns);
        let mean = GAP * self.window_ns as f64 / self.windows as f64;
        let draw = self.sampled.as_mut().map_or(1.0, |random| -(1.0 - random.f64()).ln());
        let gap = mean * draw.min(LONGEST_GAP);
        record_change(context, "waiting: a window ends", |context| {
            let until = in_time(|instant| context.session.end_waiting(instant));
            (until, WaitingNotice { known: false, sampled: true, missed_ns: 0 })
        });
        std::thread::sleep(2 * Duration::from_nanos(LEAD_NS));
        context.modules.set_waiting_wanted(false);
        let (done, sites) = context.modules.detach_waiting(context.session);
        context.meter.switched(sites);
        State::Detaching { done, until: monotonic_ns().saturating_add(gap as u64) }
    }

    fn detach_for_one_lane(context: &mut SwitchContext<'_, '_>) {
        record_change(
            context,
            "waiting: only one lane computes; waiting is not recorded until another does",
            |context| {
                // Should it be late all the same, some spans after it have a `waiting`, which is right; no span before
                // it lacks one.
                let until = monotonic_ns() + LEAD_NS;
                context.session.end_waiting(until);
                (until, WaitingNotice { known: false, sampled: false, missed_ns: 0 })
            },
        );
        // A span that ends before the instant has a `waiting`: the probe is there until then.
        std::thread::sleep(2 * Duration::from_nanos(LEAD_NS));
        context.modules.set_waiting_wanted(false);
        let (_, sites) = context.modules.detach_waiting(context.session);
        context.meter.switched(sites);
    }

    fn attach_for_a_second_lane(context: &mut SwitchContext<'_, '_>, since: u64) {
        context.modules.set_waiting_wanted(true);
        let sites = context.modules.attach_waiting(context.session);
        context.meter.switched(sites);
        record_change(context, "waiting: a second lane computes; waiting is recorded again", |context| {
            let since_when = in_time(|instant| context.session.begin_waiting(instant));
            let missed_ns = since_when.saturating_sub(since);
            (since_when, WaitingNotice { known: true, sampled: false, missed_ns })
        });
    }
}

fn record_change(
    context: &SwitchContext<'_, '_>,
    text: &str,
    change: impl FnOnce(&SwitchContext<'_, '_>) -> (u64, WaitingNotice),
) {
    context.consumer.notice_of(|| {
        let (time, waiting) = change(context);
        Notice { time, text: text.to_owned(), waiting: Some(waiting), ..Notice::default() }
    });
}
