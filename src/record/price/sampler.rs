//! The budget: in which steps operators are recorded.
//!
//! Operators are recorded in *windows* of some steps. How many steps lie between two windows is drawn at random, with
//! no memory (exponentially), from means alone: nothing that a step is or does makes it more or less likely to be
//! recorded. A window that the budget does not cover yet when its turn comes is put off by another draw. So what was
//! spent is never beyond the budget, but for the first window: it is there to learn the price.

use super::Seen;

/// The part of the budget that is planned with: costs are known to some 10 %.
const MARGIN: f64 = 0.85;
/// A window is to last about so long, so that attaching and detaching do not make up most of it.
const WINDOW_NS: f64 = 10e6;
/// Steps of a window, unless one takes longer than [`LONG_STEP_NS`].
const FEWEST_STEPS: f64 = 2.0;
/// Of such steps one a window is enough: waiting for a second one costs more than the edges.
const LONG_STEP_NS: f64 = 5e8;
/// Windows become longer by their first length with so many, so that their number grows with the root of time.
const LENGTHEN: f64 = 100.0;
/// The longest gap is so many times the mean one.
const LONGEST_GAP: f64 = 6.0;
/// Graphs are recorded in all steps if that takes no more than this part of the budget.
const GRAPHS_PART: f64 = 0.25;

/// Whether operators are recorded.
#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    /// Since so many steps had ended, at least for so many more.
    Window { from: u64, steps: u64 },
    /// Until so many steps have ended.
    Gap { until: u64 },
}

/// Chooses the steps in which operators are recorded.
#[derive(Debug)]
pub(crate) struct Sampler {
    budget: f64,
    random: fastrand::Rng,
    state: State,
    at_start: Seen,
    windows: u64,
    /// What a step of a window costs, and the steps around those that it was to have: the probes take their time to
    /// come and go.
    step_cost_ns: f64,
    edge_steps: f64,
    planned_steps: f64,
    graphs_stay: bool,
}

impl Sampler {
    /// With a budget: a part of the target's time. Equal seeds choose equally.
    pub(crate) fn new(budget: f64, seed: u64) -> Self {
        Self {
            budget: budget * MARGIN,
            random: fastrand::Rng::with_seed(seed),
            state: State::Window { from: 0, steps: 1 },
            at_start: Seen::default(),
            windows: 0,
            step_cost_ns: 0.0,
            edge_steps: 0.0,
            planned_steps: 1.0,
            graphs_stay: true,
        }
    }

    /// Whether graphs are recorded in all steps.
    pub(crate) fn graphs_stay(&self) -> bool {
        self.graphs_stay
    }

    /// Whether operators are to be recorded now.
    pub(crate) fn wants(&mut self, seen: &Seen) -> bool {
        match self.state {
            // The step in which the window began is not whole.
            State::Window { from, steps } => seen.steps < from + steps || self.all_steps_fit(seen),
            State::Gap { until } if seen.steps < until => false,
            State::Gap { .. } => {
                let fits = seen.cost_ns() + self.next_cost_ns(seen) <= self.budget * seen.bare_ns();
                if !fits {
                    self.state = State::Gap { until: seen.steps.saturating_add(self.gap(seen)) };
                }
                fits
            }
        }
    }

    /// Whether what is wanted depends on what was spent until now.
    pub(crate) fn decides(&self, seen: &Seen) -> bool {
        match self.state {
            State::Window { from, steps } => seen.steps >= from + steps,
            State::Gap { until } => seen.steps >= until,
        }
    }

    /// All operators of a window are being recorded from now on.
    pub(crate) fn began(&mut self, seen: &Seen) {
        self.planned_steps = self.window_steps(seen);
        let steps = self.planned_steps as u64;
        // The first window waits for no second step: it is there to learn the price.
        let edge = u64::from(self.windows > 0 || seen.steps > 0);
        self.state = State::Window { from: seen.steps, steps: steps + edge };
    }

    /// The probes of a window are about to be attached.
    pub(crate) fn begins(&mut self, seen: &Seen) {
        self.at_start = *seen;
    }

    /// The probes of a window are detached.
    pub(crate) fn ended(&mut self, seen: &Seen) {
        let window = seen.since(&self.at_start);
        let steps = (window.steps as f64).max(1.0);
        // What one window cost says little of the next: the dearer of the last and of their mean.
        let dearer = |before: f64, last: f64| if last > before { last } else { 0.7 * before + 0.3 * last };
        self.step_cost_ns = dearer(self.step_cost_ns, window.detail_cost_ns.max(0.0) / steps);
        self.edge_steps = dearer(self.edge_steps, (steps - self.planned_steps).max(1.0));
        self.windows += 1;
        if self.graphs_stay && window.graphs_cost_ns > GRAPHS_PART * self.budget * window.bare_ns() {
            self.graphs_stay = false;
        }
        self.state = State::Gap { until: seen.steps.saturating_add(self.gap(seen)) };
    }

    /// Steps that a window is to have.
    fn window_steps(&self, seen: &Seen) -> f64 {
        if seen.steps == 0 {
            return 1.0;
        }
        let step = (seen.bare_ns() / seen.steps as f64).max(1.0);
        let fewest = if step > LONG_STEP_NS { 1.0 } else { FEWEST_STEPS };
        ((WINDOW_NS / step).max(fewest) * (1.0 + self.windows as f64 / LENGTHEN)).round()
    }

    /// What the next window is reckoned to cost, its edges included.
    fn next_cost_ns(&self, seen: &Seen) -> f64 {
        // The first window began with the recording: it has not shown what it takes to attach.
        let edges = if self.windows == 1 { 2.0 } else { 1.0 } * self.edge_steps;
        self.step_cost_ns * (self.window_steps(seen) + edges)
    }

    /// Steps until the next window.
    fn gap(&mut self, seen: &Seen) -> u64 {
        let step = (seen.bare_ns() / (seen.steps as f64).max(1.0)).max(1.0);
        let base = (seen.cost_ns() - seen.detail_cost_ns) / seen.bare_ns().max(1.0);
        let left = (self.budget - base).max(self.budget / 50.0);
        let mean = (self.next_cost_ns(seen) / (left * step)).clamp(1.0, 1e12);
        let drawn = -self.random.f64().max(1e-9).ln();
        (mean * drawn.min(LONGEST_GAP)).round().max(1.0) as u64
    }

    /// Whether the budget would last for the operators of every step, as this window's cost.
    fn all_steps_fit(&self, seen: &Seen) -> bool {
        let window = seen.since(&self.at_start);
        let fits = |seen: &Seen| seen.cost_ns() <= self.budget * seen.bare_ns();
        window.steps > 0 && fits(&window) && fits(seen)
    }
}
