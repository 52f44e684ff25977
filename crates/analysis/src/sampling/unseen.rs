//! Periods in which no step was recorded, and an estimate of how many steps they had. Recorded stretches begin and end
//! by the clock, so their steps by their time are the rate of steps.

use super::step_row::StepRow;
use crate::ids::Phase;
use crate::numbers::t_of;
use profinfer_schema::{DetailReason, DetailState, Notice};

/// The estimated overhead of a step may be off by this part of it (standard deviation): what tracing costs depends on what
/// the target has in its caches.
const OVERHEAD_OFF: f64 = 0.5;

/// The periods in which nothing was recorded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unseen {
    /// From, until: ns of CLOCK_MONOTONIC, in order.
    times: Vec<(u64, u64)>,
    /// When the stretch after each of them was to end, ns, as in [`planned_end`].
    planned: Vec<u64>,
    /// End of the recording, ns.
    end: u64,
}

/// An estimated number of steps that were not recorded.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct UnseenSteps {
    /// How many (estimated).
    pub steps: f64,
    /// Variance of `steps`; `None` with one stretch only.
    pub variance: Option<f64>,
    /// Recorded stretches that it is estimated from.
    pub stretches: usize,
}

impl UnseenSteps {
    /// Half the width of the interval of 95 % around it.
    pub fn half_width(&self) -> Option<f64> {
        self.variance.map(|variance| t_of(self.stretches.saturating_sub(1)) * variance.sqrt())
    }
}

/// Steps by the stretch in which they began.
#[derive(Debug, Clone, Default)]
pub(crate) struct StretchCounts(Vec<[u64; 2]>);

impl StretchCounts {
    /// Adds a step.
    pub(crate) fn push(&mut self, step: &StepRow) {
        // A step before the first unrecorded period is in no stretch.
        let Some(stretch) = (step.stretch as usize).checked_sub(1).filter(|_| step.is_planned) else { return };
        if self.0.len() <= stretch {
            self.0.resize(stretch + 1, [0; 2]);
        }
        self.0[stretch][usize::from(step.phase.recurs())] += 1;
    }

    fn of(&self, stretch: usize, phase: Option<Phase>) -> u64 {
        let [prefill, recurring] = self.0.get(stretch).copied().unwrap_or_default();
        match phase {
            Some(Phase::Prefill) => prefill,
            Some(Phase::Decode | Phase::Run) => recurring,
            Some(Phase::Outside) => 0,
            None => prefill + recurring,
        }
    }
}

/// Starts of unrecorded periods, while a trace is read.
#[derive(Debug, Clone, Default)]
pub(crate) struct UnseenSince {
    since: Vec<u64>,
    /// When the stretch after each was to end, ns, as in [`planned_end`].
    planned: Vec<u64>,
    /// Earlier ones that were forgotten.
    forgotten: usize,
    open: bool,
}

impl UnseenSince {
    /// Takes a notice, as [`Unseen::new`] does.
    pub(crate) fn notice(&mut self, notice: &Notice) {
        match change(notice) {
            Some(true) if !self.open => {
                self.open = true;
                self.since.push(notice.time);
                self.planned.push(u64::MAX);
            }
            Some(false) => {
                if let (true, Some(planned)) = (self.open, self.planned.last_mut()) {
                    *planned = planned_end(notice);
                }
                self.open = false;
            }
            _ => {}
        }
    }

    /// Whether what began at an instant did so before its stretch was to end.
    pub(crate) fn is_planned(&self, start: u64) -> bool {
        let stretch = self.since.partition_point(|since| *since <= start).checked_sub(1);
        stretch.and_then(|stretch| self.planned.get(stretch)).is_none_or(|planned| start < *planned)
    }

    /// How many unrecorded periods began by an instant.
    pub(crate) fn stretch(&self, start: u64) -> u32 {
        u32::try_from(self.forgotten + self.since.partition_point(|since| *since <= start)).unwrap_or(u32::MAX)
    }

    /// Forgets all but the last so many: of steps before those the period is not told apart.
    pub(crate) fn forget_all_but(&mut self, last: usize) {
        let forgotten = self.since.len().saturating_sub(last);
        self.since.drain(..forgotten);
        self.planned.drain(..forgotten);
        self.forgotten += forgotten;
    }
}

/// `Some(true)`: an unrecorded period begins with the notice; `Some(false)`: it ends.
fn change(notice: &Notice) -> Option<bool> {
    let detail = notice.detail?;
    let ends_stretch = matches!(detail.state, DetailState::Off | DetailState::Detached);
    if ends_stretch && detail.steps_too && detail.reason != DetailReason::End {
        return Some(true);
    }
    (detail.state == DetailState::On).then_some(false)
}

/// When the stretch that begins with a notice is to end, ns; `u64::MAX` where that is not planned.
fn planned_end(notice: &Notice) -> u64 {
    notice.detail.and_then(|detail| detail.planned_end).unwrap_or(u64::MAX)
}

impl Unseen {
    #[cfg(test)]
    pub(crate) fn of_test(times: &[(u64, u64)]) -> Self {
        Self { times: times.to_vec(), planned: Vec::new(), end: u64::MAX }
    }

    /// By a trace's notices; `end` (of the trace, or of its last step) ends an open period.
    pub fn new(notices: &[Notice], end: u64) -> Self {
        let (mut times, mut planned): (Vec<(u64, u64)>, Vec<u64>) = (Vec::new(), Vec::new());
        let mut since = None;
        for notice in notices {
            match (change(notice), since) {
                (Some(true), None) => since = Some(notice.time),
                (Some(false), Some(from)) => {
                    times.push((from, notice.time.max(from)));
                    planned.push(planned_end(notice));
                    since = None;
                }
                _ => {}
            }
        }
        times.extend(since.map(|from| (from, end.max(from))));
        // Only a damaged trace has them in another order.
        if !times.is_sorted() {
            times.sort_unstable();
            planned.clear();
        }
        Self { times, planned, end }
    }

    /// There is no unrecorded period.
    pub fn is_empty(&self) -> bool {
        self.times.is_empty()
    }

    /// Total length of the unrecorded periods, ns.
    pub fn ns(&self) -> u64 {
        self.times.iter().map(|(from, until)| until - from).fold(0, u64::saturating_add)
    }

    /// An unrecorded period lies between two instants, or overlaps the time between them.
    pub fn is_between(&self, start: u64, end: u64) -> bool {
        let next = self.times.partition_point(|(_, until)| *until <= start);
        self.times.get(next).is_some_and(|(from, _)| *from < end)
    }

    /// The stretches between them, and after the last: number, from, until. What was recorded beyond a planned end is left
    /// out: how long that took depends on steps.
    fn stretches(&self) -> impl Iterator<Item = (usize, (u64, u64))> {
        let ends = self.times.iter().skip(1).map(|(from, _)| *from).chain([self.end]).enumerate();
        let ends = ends.map(|(number, end)| end.min(self.planned_end_of(number)));
        self.times.iter().map(|(_, until)| *until).zip(ends).enumerate()
    }

    fn planned_end_of(&self, number: usize) -> u64 {
        self.planned.get(number).copied().unwrap_or(u64::MAX)
    }

    /// Steps by the stretch in which they began.
    pub(crate) fn count(&self, steps: &[StepRow]) -> StretchCounts {
        let mut counts = StretchCounts::default();
        for step in steps {
            let stretch = self.times.partition_point(|(_, until)| *until <= step.start);
            let end = self.times.get(stretch).map_or(self.end, |(from, _)| *from);
            let planned = stretch.checked_sub(1).map_or(u64::MAX, |number| self.planned_end_of(number));
            if step.start < end.min(planned) {
                counts.push(&StepRow { stretch: u32::try_from(stretch).unwrap_or(u32::MAX), ..*step });
            }
        }
        counts
    }

    /// How many steps of a phase, or of any, were not recorded; `None` if there is no stretch to estimate from.
    /// Recording makes each step longer by `added_ns`.
    pub(crate) fn estimate(&self, counts: &StretchCounts, phase: Option<Phase>, added_ns: f64) -> Option<UnseenSteps> {
        let stretches = self.stretches().filter(|(_, (from, until))| from < until);
        let seen: Vec<(f64, f64, f64)> = stretches
            .map(|(stretch, (from, until))| {
                let all = counts.of(stretch, None) as f64;
                (counts.of(stretch, phase) as f64, (until - from) as f64, all * added_ns.max(0.0))
            })
            .collect();
        let stretches = seen.len();
        // With the overhead as estimated, and where it is larger by some part.
        let own_time = |(_, time, added): &(f64, f64, f64), more: f64| (time - added * (1.0 + more)).max(time / 10.0);
        let count: f64 = seen.iter().map(|(count, ..)| count).sum();
        let time = |more| seen.iter().map(|one| own_time(one, more)).sum::<f64>();
        if time(0.0) <= 0.0 {
            return None;
        }
        let (rate, unseen) = (count / time(0.0), self.ns() as f64);
        let variance = (stretches > 1).then(|| {
            let mean_time = time(0.0) / stretches as f64;
            let off: f64 = seen.iter().map(|one| ((one.0 - rate * own_time(one, 0.0)) / mean_time).powi(2)).sum();
            let by_overhead = count / time(OVERHEAD_OFF) - rate;
            (off / (stretches * (stretches - 1)) as f64 + by_overhead * by_overhead) * unseen * unseen
        });
        Some(UnseenSteps { steps: rate * unseen, variance, stretches })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use profinfer_schema::Detail;

    fn notice(time: u64, state: DetailState, steps_too: bool) -> Notice {
        let detail = Some(Detail { state, reason: DetailReason::Budget, steps_too, planned_end: None });
        Notice { time, detail, ..Notice::default() }
    }

    fn of_rows(unseen: &Unseen, steps: &[StepRow], phase: Option<Phase>, added_ns: f64) -> Option<UnseenSteps> {
        unseen.estimate(&unseen.count(steps), phase, added_ns)
    }

    fn step(start: u64) -> StepRow {
        StepRow::of_test(0, Phase::Decode, (start, start + 5))
    }

    #[test]
    fn unseen_steps_are_estimated_from_the_stretches_between() {
        use DetailState::{Attaching, Detached, Off, On};
        // Steps stay at first, go at 200, and come with the operators from 1000 and 2000 on.
        let changes = [(10, Attaching, false), (20, On, false), (100, Off, false), (110, Detached, false)];
        let later = [(200, Detached, true), (990, Attaching, true), (1000, On, true), (1100, Off, true)];
        let last = [(1150, Detached, true), (1990, Attaching, true), (2000, On, true), (2100, Off, true)];
        let notices: Vec<Notice> =
            changes.into_iter().chain(later).chain(last).map(|(time, state, too)| notice(time, state, too)).collect();
        let unseen = Unseen::new(&notices, 3000);
        assert_eq!(unseen.times, [(200, 1000), (1100, 2000), (2100, 3000)]);
        assert_eq!(unseen.ns(), 800 + 900 + 900);
        let between = [(0, 200), (150, 250), (1000, 1100), (1000, 1101), (1500, 1600), (2999, 4000), (3000, 4000)];
        assert_eq!(between.map(|(a, b)| unseen.is_between(a, b)), [false, true, false, true, true, true, false]);
        let steps: Vec<StepRow> = [30, 150].into_iter().chain((1000..1100).step_by(10)).map(step).collect();
        let even: Vec<StepRow> = steps.iter().copied().chain((2000..2100).step_by(10).map(step)).collect();
        let found = of_rows(&unseen, &even, Some(Phase::Decode), 0.0).unwrap();
        assert_eq!((found.steps, found.half_width(), found.stretches), (260.0, Some(0.0), 2));
        // They would come faster if it did not take half of their time to see them.
        let found = of_rows(&unseen, &even, Some(Phase::Decode), 5.0).unwrap();
        assert_eq!(found.steps, 520.0);
        // The overhead is an estimate: of three quarters of their time there would be 1,040 steps.
        assert!((found.variance.unwrap().sqrt() - 520.0).abs() < 1e-6, "{found:?}");
        assert_eq!(of_rows(&unseen, &even, None, 5.0), of_rows(&unseen, &even, Some(Phase::Decode), 5.0));
        // By stretch they are the same.
        let mut since = UnseenSince::default();
        notices.iter().for_each(|notice| since.notice(notice));
        let mut counts = StretchCounts::default();
        for step in &even {
            counts.push(&StepRow { stretch: since.stretch(step.start), ..*step });
        }
        for (phase, added) in [(None, 0.0), (Some(Phase::Decode), 5.0), (Some(Phase::Prefill), 5.0)] {
            assert_eq!(unseen.estimate(&counts, phase, added), of_rows(&unseen, &even, phase, added));
        }
        // What comes after a stretch was to end does not count, nor does that time.
        let mut planned = notices.clone();
        let on = planned.iter_mut().filter(|notice| notice.time == 2000).filter_map(|notice| notice.detail.as_mut());
        on.for_each(|detail| detail.planned_end = Some(2050));
        let unseen_planned = Unseen::new(&planned, 3000);
        let found = of_rows(&unseen_planned, &even, Some(Phase::Decode), 0.0).unwrap();
        assert_eq!((found.steps, found.half_width()), (260.0, Some(0.0)));
        let mut since = UnseenSince::default();
        planned.iter().for_each(|notice| since.notice(notice));
        assert_eq!([1095, 1500, 2049, 2050].map(|start| since.is_planned(start)), [true, true, true, false]);
        // The second stretch has none: half as many, and a wide interval.
        let found = of_rows(&unseen, &steps, Some(Phase::Decode), 0.0).unwrap();
        assert_eq!(found.steps, 130.0);
        assert!(found.half_width().unwrap() > 1000.0, "{found:?}");
        assert_eq!(of_rows(&unseen, &steps, Some(Phase::Prefill), 0.0).unwrap().steps, 0.0);
    }

    #[test]
    fn without_such_notices_everything_was_seen() {
        let unseen = Unseen::new(&[notice(5, DetailState::Off, false), notice(9, DetailState::On, false)], 100);
        assert!(unseen.is_empty() && !unseen.is_between(0, u64::MAX));
        assert_eq!((unseen.ns(), of_rows(&unseen, &[step(7)], Some(Phase::Decode), 0.0)), (0, None));
        // Nothing of it was seen any more.
        let unseen = Unseen::new(&[notice(5, DetailState::Off, true)], 100);
        assert_eq!((unseen.ns(), of_rows(&unseen, &[step(1)], Some(Phase::Decode), 0.0)), (95, None));
        let backwards = Unseen::new(&[notice(50, DetailState::Off, true), notice(9, DetailState::On, true)], 1);
        assert_eq!(backwards.ns(), 0);
    }
}
