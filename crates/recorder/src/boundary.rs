//! The boundaries that only record since when a lane waits for others: their probes are hit more often than operators'. With
//! several lanes they are attached in random windows of time ([`Barriers::Sampled`]). A lane alone waits for nobody: once
//! that is established they are detached, until a second lane shows.

use super::clock::{LEAD_NS, ahead, in_time, monotonic_ns};
use super::consumer::Traffic;
use super::switch_context::SwitchContext;
use crate::bpf::Detachment;
use profinfer_compiler::{ProbePlan, Tier, WAITING};
use profinfer_schema::Role;
use profinfer_schema::{Notice, WaitingNotice};
use std::time::Duration;

/// So many steps in which one lane alone computed are enough.
const STEPS: u64 = 8;
/// A window lasts so long, and for at least so many whole steps. The first one is not at a random time: engine and recorder
/// are still starting, and lanes wait longer than later. It is short, so that it weighs little; each is twice as long as the
/// one before, so that a short run has several.
const FIRST_WINDOW_NS: u64 = 10_000_000;
const WINDOW_NS: u64 = 100_000_000;
const FEWEST_STEPS: u64 = 2;
/// Placing the probes disturbs the lanes: measured on two CPUs, they wait for half of the first millisecond and for 30 % of
/// the time from the third one on. A window begins so long afterwards.
const SETTLING_NS: u64 = 5_000_000;
/// The mean gap, as a multiple of the window's length, so that one step in ten is in a window; and the longest gap, as a
/// multiple of the mean one.
const GAP: f64 = 9.0;
const LONGEST_GAP: f64 = 6.0;
/// Time between two polls: of what changes within a step or two; of lanes, which may show at any time; and at most, of what
/// is due later.
const SOON: Duration = Duration::from_millis(5);
const LATER: Duration = Duration::from_millis(20);
const LATEST: Duration = Duration::from_millis(100);

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
        done: Detachment,
        until: u64,
    },
    Gap {
        until: u64,
    },
    /// The probes are attached; a window begins at that time.
    Settling {
        since: u64,
    },
}

/// Switches them.
#[derive(Debug)]
pub(super) struct BoundarySwitch {
    state: State,
    /// Boundaries are sampled; with the random numbers for that.
    sampled: Option<fastrand::Rng>,
    /// Windows until now: their number, how long they lasted, and how long they were to last.
    windows: u32,
    lasted_ns: u64,
    wanted_ns: u64,
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
        (any && waiting.all(has_lane)).then_some(Self {
            state: State::Attached,
            sampled,
            windows: 0,
            lasted_ns: 0,
            wanted_ns: 0,
        })
    }

    /// Whether nothing changes before a lane, or a second one, is seen.
    pub(super) fn awaits_a_lane(&self) -> bool {
        matches!(self.state, State::Attached | State::Detached)
    }

    /// Time until the next poll; `None` where nothing will change any more.
    pub(super) fn pause(&self) -> Option<Duration> {
        let due_at = |time: u64| match time.saturating_sub(monotonic_ns()) {
            // A window goes on until steps end.
            0 => LATER,
            left => Duration::from_nanos(left).clamp(SOON, LATEST),
        };
        match self.state {
            State::Permanent => None,
            State::Attached | State::Detached => Some(LATER),
            State::Detaching { .. } => Some(SOON),
            State::Window { since, .. } => Some(due_at(since.saturating_add(self.window_ns()))),
            State::Gap { until: time } | State::Settling { since: time } => Some(due_at(time)),
        }
    }

    /// Does the next step, if it is due.
    pub(super) fn poll(&mut self, context: &mut SwitchContext<'_, '_>) {
        let counts = context.consumer.counts();
        let second = counts.second_lane();
        let steps = counts.ended().count();
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
                if now >= since + self.window_ns()
                    && steps > before + FEWEST_STEPS
                    && context.modules.any_waiting() =>
            {
                self.end_window(context, now.saturating_sub(since))
            }
            (State::Detaching { done, until }, _) if done.is_finished() => {
                done.wait();
                State::Gap { until }
            }
            (State::Settling { since }, _) if now >= since => State::Window { since, steps },
            (State::Gap { until }, _) if now >= until => State::Settling { since: Self::begin_window(context) },
            (same, _) => same,
        };
        if self.sampled.is_some() {
            // Until the first window has begun or ended, it goes on: what lanes there are is asked for at once.
            let is_first = matches!(self.state, State::Attached);
            context.consumer.read_every(if is_first { Duration::ZERO } else { Duration::MAX }, Traffic::Operators);
        }
    }

    /// There is a second lane; the probes are attached.
    fn several(&self, now: u64, steps: u64) -> State {
        if self.sampled.is_some() { State::Window { since: now, steps } } else { State::Permanent }
    }

    /// Since when operators have a waiting.
    fn begin_window(context: &mut SwitchContext<'_, '_>) -> u64 {
        context.modules.set_waiting_wanted(true);
        let sites = context.modules.attach_waiting(context.session);
        context.meter.switched(sites);
        record_change(context, "waiting: a window begins", |context| {
            let since = ahead(SETTLING_NS, |instant| context.session.begin_waiting(instant));
            (since, WaitingNotice { known: true, sampled: true, missed_ns: 0 })
        })
    }

    /// How long the window that goes on is to last.
    fn window_ns(&self) -> u64 {
        (FIRST_WINDOW_NS << self.windows.min(8)).min(WINDOW_NS)
    }

    /// The gap is drawn without memory, so that nothing that a step is makes it more likely to be in a window. Windows last
    /// longer than they are to by whole steps: on average, gaps do so, too.
    fn end_window(&mut self, context: &mut SwitchContext<'_, '_>, lasted_ns: u64) -> State {
        let wanted = self.window_ns();
        self.windows = self.windows.saturating_add(1);
        self.lasted_ns = self.lasted_ns.saturating_add(lasted_ns);
        self.wanted_ns = self.wanted_ns.saturating_add(wanted);
        let mean = GAP * wanted as f64 * self.lasted_ns as f64 / self.wanted_ns as f64;
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

/// Makes a change and writes it down; gives its time.
fn record_change(
    context: &SwitchContext<'_, '_>,
    text: &str,
    change: impl FnOnce(&SwitchContext<'_, '_>) -> (u64, WaitingNotice),
) -> u64 {
    let mut changed_at = 0;
    context.consumer.notice_of(|| {
        let (time, waiting) = change(context);
        changed_at = time;
        Notice { time, text: text.to_owned(), waiting: Some(waiting), ..Notice::default() }
    });
    changed_at
}
