//! The budget: in which steps operators are recorded.
//!
//! Operators are recorded in *windows* of some steps. How many steps lie between two windows is drawn at random, with
//! no memory (exponentially), from means alone: nothing that a step is or does makes it more or less likely to be
//! recorded. A window that the budget does not cover yet when its turn comes is put off by another draw. So what was
//! spent is never beyond the budget. Attaching and detaching take the recorder processor time, too: windows are so far
//! apart that this is, on average, no larger a part of one processor's time, or half of it for all recorders of one `serve`
//! together.
//! A recording begins between windows. What the first one costs can only be assumed: it comes when the budget covers a
//! slowdown that few targets exceed, and shows what the next ones cost.
//!
//! Where the probes of steps alone take too much of the budget, they go with the others. Then nobody counts steps in
//! between: the *time* until the next window is drawn, in the same way, and a window is some time too. What the target
//! did unseen is estimated: it was as busy as in the windows.
//!
//! A target in which no function marks steps is recorded in such windows from the start, of half a second: what recurs
//! in them are its steps. The time in operators is then the target's. It is as busy as in the last windows, and one in
//! which nothing was computed costs it nothing: the next one comes as soon as the recorder's time allows.

use super::Seen;
use super::recorder_time::RecorderTime;
use profinfer_compiler::Tier;

/// The part of the budget that is planned with: costs are accurate to some 10 %.
const MARGIN: f64 = 0.85;
/// Before the first window: while the probes of operators are attached, they take this part of a step, but no more ns.
const FIRST_SLOWDOWN: f64 = 0.2;
const FIRST_STEP_NS: f64 = 3e6;
/// And so long do they take to come and go.
const FIRST_SWITCHING_NS: f64 = 60e6;
/// A window is to last about so long, so that attaching and detaching do not make up most of it.
const WINDOW_NS: f64 = 10e6;
/// Steps of a window, unless one takes longer than [`LONG_STEP_NS`].
const FEWEST_STEPS: f64 = 2.0;
/// Of such steps one a window is enough: waiting for a second one costs more than the edges.
const LONG_STEP_NS: f64 = 5e8;
/// After each this many windows, they become longer by their first length: a short recording has many windows, and a long
/// one is not spent on attaching and detaching.
const LENGTHEN: f64 = 25.0;
/// Up to so many first lengths: whoever watches figures live waits for the next window.
const LONGEST_WINDOW: f64 = 10.0;
/// The longest gap, as a multiple of the mean one.
const LONGEST_GAP: f64 = 6.0;
/// Graphs are recorded in all steps if that takes no more than this part of the budget.
const GRAPHS_PART: f64 = 0.25;
/// Steps are, if that takes no more than this part.
const STEPS_PART: f64 = 0.5;
/// So many steps show what one costs.
const STEPS_TO_LEARN: u64 = 32;
/// At the end of a window by time, a running step may take this multiple of a step's time, and at most this long.
const LAST_STEP: f64 = 4.0;
const LAST_STEP_NS: f64 = 600e6;
/// Without steps: a window, and the first one, which shows what they cost.
const UNMARKED_WINDOW_NS: f64 = 500e6;
const UNMARKED_FIRST_NS: f64 = 50e6;
/// So much do earlier windows count there against the last one.
const EARLIER_PART: f64 = 0.5;
/// The target is taken to be in steps for this part of the unseen time at least.
const LEAST_BUSY: f64 = 1e-3;

/// Whether operators are recorded.
#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    /// Since this number of ended steps, for at least this many more.
    Window { from: u64, steps: u64 },
    /// Until this number of steps have ended.
    Gap { until: u64 },
    /// Until that time, and then until a step ends; with the number of steps that had ended at that time.
    TimedWindow { until_ns: f64, over: Option<(u64, f64)> },
    /// Until that time. Nothing is recorded.
    TimedGap { until_ns: f64 },
}

/// Chooses the steps in which operators are recorded.
#[derive(Debug)]
pub(crate) struct Sampler {
    budget: f64,
    random: fastrand::Rng,
    state: State,
    /// What was seen before the probes of the window were attached.
    at_start: Option<Seen>,
    windows: u64,
    /// What a step of a window costs, and the steps around those that it was to have: the probes take their time to
    /// come and go. `None`: no window has shown it.
    measured: Option<WindowCost>,
    recorder: RecorderTime,
    planned_steps: f64,
    extension: Extension,
    /// The last tier that is recorded in all steps; `None`: steps are not.
    stays: Option<Tier>,
    steps_may_go: bool,
    /// No function marks steps: those that are seen are operators.
    unmarked: bool,
    /// What was seen before the first step had ended.
    first: Option<Seen>,
    unseen: Unseen,
}

/// What windows cost.
#[derive(Debug, Clone, Copy)]
struct WindowCost {
    step_ns: f64,
    edge_steps: f64,
}

/// How far the budget covered a window beyond its planned end. That part does not show what the next window costs.
#[derive(Debug, Clone, Copy, Default)]
struct Extension {
    /// What was seen at the first poll after the planned end, and at the last one of it.
    span: Option<(Seen, Seen)>,
    /// At the last poll the budget covered it.
    goes_on: bool,
    /// The window's probes go: what comes then is no part of it.
    is_over: bool,
}

impl Extension {
    /// After the planned end: whether the budget covers the window.
    fn poll(&mut self, seen: &Seen, fits: bool) {
        if !self.is_over && (fits || self.goes_on) {
            self.span = Some((self.span.map_or(*seen, |span| span.0), *seen));
        }
        self.goes_on = fits;
    }

    /// What was seen in it.
    fn seen(&self) -> Seen {
        self.span.map_or_else(Seen::default, |(from, to)| to.since(&from))
    }
}

/// What cannot be seen while nothing is recorded.
#[derive(Debug, Clone, Copy, Default)]
struct Unseen {
    /// Since when nothing is recorded.
    since_ns: Option<f64>,
    /// The estimated time of the target itself in steps that was not seen before.
    step_ns: f64,
    /// What was seen when the last window by the clock began.
    on: Option<Seen>,
    /// The time of such windows, and of it that in steps, both without what was added to them.
    window_ns: f64,
    busy_ns: f64,
    /// What such a window costs.
    window_cost_ns: Option<f64>,
    /// The last one had no step.
    was_idle: bool,
}

impl Sampler {
    /// With a budget: a part of the target's time. Equal seeds choose equally.
    pub(crate) fn new(budget: f64, seed: u64, steps_may_go: bool) -> Self {
        Self {
            budget: budget * MARGIN,
            random: fastrand::Rng::with_seed(seed),
            state: State::Gap { until: 1 },
            at_start: None,
            windows: 0,
            measured: None,
            recorder: RecorderTime::default(),
            planned_steps: 1.0,
            extension: Extension::default(),
            stays: Some(Tier::Graph),
            steps_may_go,
            unmarked: false,
            first: None,
            unseen: Unseen::default(),
        }
    }

    /// No function of the target marks steps: what is seen of steps from now on is of operators, of which nothing was seen
    /// since a time.
    pub(crate) fn has_no_steps(&mut self, seen: &Seen, since_ns: f64) {
        self.unmarked = true;
        self.steps_go(seen, seen);
        self.unseen.since_ns = Some(since_ns);
        // Until a window shows it, the target may do nothing else.
        (self.unseen.window_ns, self.unseen.busy_ns) = (WINDOW_NS, WINDOW_NS);
    }

    /// The last tier that is recorded in all steps; `None`: steps are not.
    pub(crate) fn stays(&self) -> Option<Tier> {
        self.stays
    }

    /// The estimated time of the target itself in steps that nobody saw; `None` where steps are always recorded.
    pub(crate) fn unseen_ns(&self, now_ns: f64) -> Option<f64> {
        let open = |since: f64| (now_ns - since).max(0.0) * self.busy();
        self.stays.is_none().then(|| self.unseen.step_ns + self.unseen.since_ns.map_or(0.0, open))
    }

    /// Whether there was no window yet.
    pub(crate) fn awaits_first_window(&self) -> bool {
        self.windows == 0
    }

    /// The time of the target itself in steps that covers the first window, ns; `None` once it has begun.
    pub(crate) fn first_window_ns(&self, seen: &Seen) -> Option<f64> {
        let waits = self.windows == 0 && matches!(self.state, State::Gap { .. } | State::TimedGap { .. });
        let cost = if self.stays.is_none() { Self::next_window_ns } else { Self::next_cost_ns };
        waits.then(|| cost(self, seen) / self.budget)
    }

    /// The time of the target itself in steps, seen or not.
    fn bare_ns(&self, seen: &Seen) -> f64 {
        seen.bare_ns() + self.unseen_ns(seen.now_ns).unwrap_or(0.0)
    }

    /// The part of its time that the target is in steps, without the overhead.
    fn busy(&self) -> f64 {
        (self.unseen.busy_ns / self.unseen.window_ns.max(1.0)).clamp(LEAST_BUSY, 1.0)
    }

    /// Whether operators are to be recorded now.
    pub(crate) fn wants(&mut self, seen: &Seen) -> bool {
        if seen.steps == 0 {
            // How busy the target is before its first step says nothing of how busy it is then.
            self.first = Some(*seen);
        }
        let first = *self.first.get_or_insert(*seen);
        if matches!(self.state, State::Gap { .. }) {
            if self.graphs_are_too_expensive(seen) {
                self.stays = self.stays.min(Some(Tier::Step));
            }
            if self.steps_are_too_expensive(seen) {
                self.steps_go(seen, &first);
            }
        }
        let is_on = matches!(self.state, State::Window { .. } | State::TimedWindow { .. });
        let wanted = match self.state {
            State::TimedWindow { until_ns, over } => self.timed_window(seen, until_ns, over),
            State::TimedGap { until_ns } if seen.now_ns < until_ns => false,
            State::TimedGap { .. } => {
                let fits =
                    self.is_idle() || seen.cost_ns() + self.next_window_ns(seen) <= self.budget * self.bare_ns(seen);
                if !fits {
                    self.state = self.timed_gap(seen);
                }
                fits
            }
            // The step in which the window began is not whole.
            State::Window { from, steps } => seen.steps < from + steps || self.extends(seen),
            State::Gap { until } if seen.steps < until => false,
            State::Gap { .. } => {
                let fits = seen.cost_ns() + self.next_cost_ns(seen) <= self.budget * seen.bare_ns();
                if !fits {
                    // The first one comes as soon as it may: it is wanted most, and no step more than another.
                    let gap = if self.windows == 0 { self.steps_to_first(seen) } else { self.gap(seen) };
                    self.state = State::Gap { until: seen.steps.saturating_add(gap) };
                }
                fits
            }
        };
        if is_on && !wanted {
            self.recorder.over(seen);
            self.extension.is_over = true;
        }
        wanted
    }

    /// Whether the next state depends on the overhead until now.
    pub(crate) fn decides(&self, seen: &Seen) -> bool {
        match self.state {
            State::Window { from, steps } => seen.steps >= from + steps,
            State::Gap { until } => seen.steps >= until,
            State::TimedWindow { until_ns, .. } | State::TimedGap { until_ns } => seen.now_ns >= until_ns,
        }
    }

    /// How long it is until then, ns, as fast as steps have been; 0 where they have not shown it.
    pub(crate) fn undecided_ns(&self, seen: &Seen) -> f64 {
        let steps_left = match self.state {
            State::Window { from, steps } => (from + steps).saturating_sub(seen.steps),
            State::Gap { until } => until.saturating_sub(seen.steps),
            State::TimedWindow { until_ns, .. } | State::TimedGap { until_ns } => return until_ns - seen.now_ns,
        };
        // Steps of a target that waits between them come later than that; it is asked again.
        steps_left as f64 * seen.step_ns / (seen.steps as f64).max(1.0)
    }

    /// All operators of a window are being recorded from now on.
    pub(crate) fn began(&mut self, seen: &Seen) {
        self.extension = Extension::default();
        if self.stays.is_none() {
            self.unseen.step_ns = self.unseen_ns(seen.now_ns).unwrap_or(0.0);
            self.unseen.since_ns = None;
            self.unseen.on = Some(*seen);
            let length = self.timed_length(seen);
            self.recorder.began(self.at_start.as_ref(), seen, length);
            self.state = State::TimedWindow { until_ns: seen.now_ns + length, over: None };
            return;
        }
        self.planned_steps = self.window_steps(seen);
        let step = seen.step_ns / (seen.steps as f64).max(1.0);
        self.recorder.began(self.at_start.as_ref(), seen, (self.planned_steps + 1.0) * step);
        self.state = State::Window { from: seen.steps, steps: self.planned_steps as u64 + 1 };
    }

    /// When the window by the clock that has begun is to end, ns, whatever the target does.
    pub(crate) fn planned_end_ns(&self) -> Option<u64> {
        match self.state {
            State::TimedWindow { until_ns, .. } => Some(until_ns as u64),
            _ => None,
        }
    }

    /// The probes of a window are about to be attached.
    pub(crate) fn begins(&mut self, seen: &Seen) {
        self.at_start = Some(*seen);
    }

    /// The probes of a window are detached.
    pub(crate) fn ended(&mut self, seen: &Seen) {
        let window = seen.since(&self.at_start.unwrap_or_default());
        let beyond = self.extension.seen();
        self.recorder.ended(seen);
        if self.stays.is_none() {
            // One in which the target did nothing does not show what one costs.
            self.unseen.was_idle = window.steps == 0;
            if window.steps > 0 {
                // The first one was shorter; its probes took their time to come and go as they do around any other.
                let lasted = (window.now_ns - beyond.now_ns).max(1.0);
                let more = if self.unmarked { UNMARKED_WINDOW_NS - self.timed_length(seen) } else { 0.0 };
                let longer = 1.0 + more / lasted;
                let cost = (window.cost_ns() - beyond.cost_ns()).max(0.0) * longer;
                self.unseen.window_cost_ns = Some(self.unseen.window_cost_ns.map_or(cost, |last| higher(last, cost)));
            }
            self.windows += 1;
            self.unseen.since_ns.get_or_insert(seen.now_ns);
            self.state = self.timed_gap(seen);
            return;
        }
        let steps = (window.steps as f64).max(1.0);
        let cost = window.detail_cost_ns.max(0.0) / steps;
        let edges = (steps - self.planned_steps - beyond.steps as f64).max(1.0);
        self.measured = Some(match self.measured {
            None => WindowCost { step_ns: cost, edge_steps: edges },
            Some(before) => {
                WindowCost { step_ns: higher(before.step_ns, cost), edge_steps: higher(before.edge_steps, edges) }
            }
        });
        self.windows += 1;
        self.state = State::Gap { until: seen.steps.saturating_add(self.gap(seen)) };
    }

    /// How long the next window is, in first lengths.
    fn lengths(&self) -> f64 {
        (1.0 + self.windows as f64 / LENGTHEN).min(LONGEST_WINDOW)
    }

    /// How long the next window by the clock is, ns.
    fn timed_length(&self, seen: &Seen) -> f64 {
        match (self.unmarked, self.windows) {
            (true, 0) => UNMARKED_FIRST_NS,
            (true, _) => UNMARKED_WINDOW_NS,
            _ => WINDOW_NS.max(3.0 * seen.bare_ns() / (seen.steps as f64).max(1.0)) * self.lengths(),
        }
    }

    /// Whether the target computes nothing, as the last window without marked steps showed.
    fn is_idle(&self) -> bool {
        self.unmarked && self.unseen.was_idle
    }

    /// Steps that a window is to have; the first one is there to show the cost.
    fn window_steps(&self, seen: &Seen) -> f64 {
        if self.windows == 0 || seen.steps == 0 {
            return 1.0;
        }
        let step = (seen.bare_ns() / seen.steps as f64).max(1.0);
        let fewest = if step > LONG_STEP_NS { 1.0 } else { FEWEST_STEPS };
        ((WINDOW_NS / step).max(fewest) * self.lengths()).round()
    }

    /// What windows cost, as measured, or as assumed before.
    fn window_cost(&self, seen: &Seen) -> WindowCost {
        self.measured.unwrap_or_else(|| {
            let steps = seen.steps.max(1) as f64;
            let edge_steps = (FIRST_SWITCHING_NS * steps / seen.step_ns.max(1.0)).max(FEWEST_STEPS);
            WindowCost { step_ns: (FIRST_SLOWDOWN * seen.bare_ns() / steps).min(FIRST_STEP_NS), edge_steps }
        })
    }

    /// What the next window is estimated to cost, its edges included.
    fn next_cost_ns(&self, seen: &Seen) -> f64 {
        let cost = self.window_cost(seen);
        cost.step_ns * (self.window_steps(seen) + cost.edge_steps)
    }

    /// Steps until the next window.
    fn gap(&mut self, seen: &Seen) -> u64 {
        let step = (seen.bare_ns() / (seen.steps as f64).max(1.0)).max(1.0);
        let base = (seen.cost_ns() - seen.detail_cost_ns) / seen.bare_ns().max(1.0);
        let left = (self.budget - base).max(self.budget / 50.0);
        let mean = (self.next_cost_ns(seen) / left).max(self.recorder_gap_ns(seen)) / step;
        (mean.clamp(1.0, 1e12) * self.draw()).round().max(1.0) as u64
    }

    /// Half of the steps in which the budget comes to cover the first window: they may become longer.
    fn steps_to_first(&self, seen: &Seen) -> u64 {
        let bare = seen.bare_ns();
        let missing = (seen.cost_ns() + self.next_cost_ns(seen)) / self.budget - bare;
        let step = (bare / (seen.steps as f64).max(1.0)).max(1.0);
        (0.5 * missing / step).clamp(1.0, 1e12) as u64
    }

    fn graphs_are_too_expensive(&self, seen: &Seen) -> bool {
        seen.steps >= STEPS_TO_LEARN && seen.graphs_cost_ns > GRAPHS_PART * self.budget * seen.bare_ns()
    }

    fn steps_are_too_expensive(&self, seen: &Seen) -> bool {
        let expensive = seen.steps_cost_ns > STEPS_PART * self.budget * seen.bare_ns();
        self.steps_may_go && seen.steps >= STEPS_TO_LEARN && expensive
    }

    /// From now on nothing is recorded between windows.
    fn steps_go(&mut self, seen: &Seen, first: &Seen) {
        let so_far = seen.since(first);
        self.stays = None;
        self.unseen.since_ns = Some(seen.now_ns);
        (self.unseen.window_ns, self.unseen.busy_ns) = (so_far.now_ns - so_far.cost_ns(), so_far.bare_ns());
        self.state = self.timed_gap(seen);
    }

    /// Whether a window by the clock goes on.
    fn timed_window(&mut self, seen: &Seen, until_ns: f64, over: Option<(u64, f64)>) -> bool {
        if seen.now_ns < until_ns || self.extends(seen) {
            return true;
        }
        let step = seen.bare_ns() / (seen.steps as f64).max(1.0);
        let patience = (LAST_STEP * step).min(LAST_STEP_NS);
        let (steps, since) = over.unwrap_or((seen.steps, seen.now_ns));
        self.state = State::TimedWindow { until_ns, over: Some((steps, since)) };
        let goes_on = seen.steps == steps && seen.now_ns < since + patience;
        if let (false, Some(on)) = (goes_on, self.unseen.on.take()) {
            // What was estimated before any window was seen counts for no more than a window.
            if self.unseen.window_cost_ns.is_none() {
                let busy = self.busy();
                (self.unseen.window_ns, self.unseen.busy_ns) = (WINDOW_NS, busy * WINDOW_NS);
            }
            let window = seen.since(&on);
            if self.unmarked {
                self.unseen.window_ns *= EARLIER_PART;
                self.unseen.busy_ns *= EARLIER_PART;
            }
            self.unseen.window_ns += (window.now_ns - window.cost_ns()).max(0.0);
            self.unseen.busy_ns += window.bare_ns();
            self.unseen.since_ns = Some(seen.now_ns);
        }
        goes_on
    }

    /// What the next window by the clock is estimated to cost.
    fn next_window_ns(&self, seen: &Seen) -> f64 {
        self.unseen.window_cost_ns.unwrap_or_else(|| {
            if self.unmarked {
                return FIRST_SLOWDOWN * (self.timed_length(seen) + FIRST_SWITCHING_NS);
            }
            let cost = self.window_cost(seen);
            let always = (seen.cost_ns() - seen.detail_cost_ns) / seen.steps.max(1) as f64;
            (self.window_steps(seen) + cost.edge_steps) * (cost.step_ns + always)
        })
    }

    fn timed_gap(&mut self, seen: &Seen) -> State {
        if self.windows == 0 {
            // Half of the time that the budget needs to cover it, were the target in steps all the time.
            let missing = (seen.cost_ns() + self.next_window_ns(seen)) / self.budget - self.bare_ns(seen);
            return State::TimedGap { until_ns: seen.now_ns + (0.5 * missing).clamp(WINDOW_NS, 1e12) };
        }
        let by_cost = if self.is_idle() { 0.0 } else { self.next_window_ns(seen) / (self.budget * self.busy()) };
        let mean = by_cost.max(self.recorder_gap_ns(seen));
        State::TimedGap { until_ns: seen.now_ns + mean.clamp(WINDOW_NS, 1e12) * self.draw() }
    }

    /// The mean time between two windows in which the budget's part of a processor, shared with the other recorders,
    /// covers what one takes this one.
    fn recorder_gap_ns(&self, seen: &Seen) -> f64 {
        self.recorder.window_ns() * seen.recorder_parts.max(1) as f64 / self.budget
    }

    /// From an exponential distribution with mean 1, cut off.
    fn draw(&mut self) -> f64 {
        (-self.random.f64().max(1e-9).ln()).min(LONGEST_GAP)
    }

    /// Whether the budget covers a window beyond its planned end.
    fn extends(&mut self, seen: &Seen) -> bool {
        let fits = self.all_steps_fit(seen);
        self.extension.poll(seen, fits);
        fits
    }

    /// Whether the budget would last for the operators of every step, as this window's cost.
    fn all_steps_fit(&self, seen: &Seen) -> bool {
        let window = seen.since(&self.at_start.unwrap_or_default());
        let fits = |seen: &Seen| seen.cost_ns() <= self.budget * seen.bare_ns();
        let fits_in_all = seen.cost_ns() <= self.budget * self.bare_ns(seen);
        window.steps > 0 && fits(&window) && fits_in_all
    }
}

/// What one window cost predicts the next poorly: the larger of the last and of their mean.
fn higher(before: f64, last: f64) -> f64 {
    if last > before { last } else { 0.7 * before + 0.3 * last }
}
