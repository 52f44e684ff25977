//! Where steps themselves were recorded in some stretches only: the time in which nothing was, and how many steps it
//! had, as reckoned from the stretches. These begin and end by the clock, so the steps of one by its time are what
//! steps come at.

use super::estimate::t_of;
use super::statistics::StepRow;
use super::step::Phase;
use crate::trace::{DetailReason, DetailState, Notice};

/// The times in which nothing was recorded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unseen {
    /// From, until: ns of CLOCK_MONOTONIC, in order.
    times: Vec<(u64, u64)>,
    /// When the recording ended, as far as is known.
    end: u64,
}

/// A number of steps that nobody saw.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct UnseenSteps {
    /// How many, as reckoned.
    pub steps: f64,
    /// The variance of that; `None` where one stretch is all there is to reckon from.
    pub variance: Option<f64>,
    /// Stretches it is reckoned from.
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
pub(super) struct StretchCounts(Vec<[u64; 2]>);

impl StretchCounts {
    /// Adds a step.
    pub(super) fn push(&mut self, step: &StepRow) {
        // What began before anything was unseen is in no stretch.
        let Some(stretch) = (step.stretch as usize).checked_sub(1) else { return };
        if self.0.len() <= stretch {
            self.0.resize(stretch + 1, [0; 2]);
        }
        self.0[stretch][usize::from(step.phase == Phase::Decode)] += 1;
    }

    fn of(&self, stretch: usize, phase: Option<Phase>) -> u64 {
        let [prefill, decode] = self.0.get(stretch).copied().unwrap_or_default();
        match phase {
            Some(Phase::Prefill) => prefill,
            Some(Phase::Decode) => decode,
            Some(Phase::Outside) => 0,
            None => prefill + decode,
        }
    }
}

/// The times from which on nothing is recorded, while a trace is read.
#[derive(Debug, Clone, Default)]
pub(super) struct UnseenSince {
    since: Vec<u64>,
    open: bool,
}

impl UnseenSince {
    /// Takes a notice, as [`Unseen::new`] does.
    pub(super) fn notice(&mut self, notice: &Notice) {
        match change(notice) {
            Some(true) if !self.open => {
                self.open = true;
                self.since.push(notice.time);
            }
            Some(false) => self.open = false,
            _ => {}
        }
    }

    /// How many such times began by an instant.
    pub(super) fn stretch(&self, start: u64) -> u32 {
        u32::try_from(self.since.partition_point(|since| *since <= start)).unwrap_or(u32::MAX)
    }
}

/// Nothing is recorded from a notice on, or something is.
fn change(notice: &Notice) -> Option<bool> {
    let detail = notice.detail?;
    let ends_stretch = matches!(detail.state, DetailState::Off | DetailState::Detached);
    if ends_stretch && detail.steps_too && detail.reason != DetailReason::End {
        return Some(true);
    }
    (detail.state == DetailState::On).then_some(false)
}

impl Unseen {
    #[cfg(test)]
    pub(super) fn of_test(times: &[(u64, u64)]) -> Self {
        Self { times: times.to_vec(), end: u64::MAX }
    }

    /// As a trace's notices say; the trace's end, or that of its last step, ends what is open then.
    pub fn new(notices: &[Notice], end: u64) -> Self {
        let mut times: Vec<(u64, u64)> = Vec::new();
        let mut since = None;
        for notice in notices {
            match (change(notice), since) {
                (Some(true), None) => since = Some(notice.time),
                (Some(false), Some(from)) => {
                    times.push((from, notice.time.max(from)));
                    since = None;
                }
                _ => {}
            }
        }
        times.extend(since.map(|from| (from, end.max(from))));
        // Only a damaged trace has them in another order.
        times.sort_unstable();
        Self { times, end }
    }

    /// Whether everything was recorded, as far as steps go.
    pub fn is_empty(&self) -> bool {
        self.times.is_empty()
    }

    /// How long nothing was recorded, ns.
    pub fn ns(&self) -> u64 {
        self.times.iter().map(|(from, until)| until - from).fold(0, u64::saturating_add)
    }

    /// Whether some of it lies between two instants.
    pub fn is_between(&self, start: u64, end: u64) -> bool {
        let next = self.times.partition_point(|(_, until)| *until <= start);
        self.times.get(next).is_some_and(|(from, _)| *from < end)
    }

    /// The stretches between them, and after the last: number, from, until.
    fn stretches(&self) -> impl Iterator<Item = (usize, (u64, u64))> {
        let ends = self.times.iter().skip(1).map(|(from, _)| *from).chain([self.end]);
        self.times.iter().map(|(_, until)| *until).zip(ends).enumerate()
    }

    /// How many steps of a phase nobody saw; `None` where there is no stretch to reckon from.
    /// Each that is seen takes longer by `added_ns` for being so.
    pub(super) fn steps(&self, steps: &[StepRow], phase: Option<Phase>, added_ns: f64) -> Option<UnseenSteps> {
        let starts = |phase: Option<Phase>| {
            let wanted = steps.iter().filter(|step| phase.is_none_or(|phase| step.phase == phase));
            let mut starts: Vec<u64> = wanted.map(|step| step.start).collect();
            starts.sort_unstable();
            starts
        };
        let (all, wanted) = (starts(None), starts(phase));
        let within = |starts: &[u64], from: u64, until: u64| {
            let before = |time: u64| starts.partition_point(|at| *at < time);
            before(until).saturating_sub(before(from)) as u64
        };
        self.reckon(|_, from, until| (within(&wanted, from, until), within(&all, from, until)), added_ns)
    }

    /// The same of steps that were counted by stretch.
    pub(super) fn counted(&self, counts: &StretchCounts, phase: Option<Phase>, added_ns: f64) -> Option<UnseenSteps> {
        self.reckon(|stretch, _, _| (counts.of(stretch, phase), counts.of(stretch, None)), added_ns)
    }

    /// `counts` gives for a stretch the steps that are wanted, and all.
    fn reckon(&self, counts: impl Fn(usize, u64, u64) -> (u64, u64), added_ns: f64) -> Option<UnseenSteps> {
        let of_stretch = |(stretch, (from, until)): (usize, (u64, u64))| {
            let (time, (wanted, all)) = ((until - from) as f64, counts(stretch, from, until));
            (wanted as f64, (time - all as f64 * added_ns.max(0.0)).max(time / 10.0))
        };
        let stretches = self.stretches().filter(|(_, (from, until))| from < until);
        let seen: Vec<(f64, f64)> = stretches.map(of_stretch).collect();
        let (count, time) = seen.iter().fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        if time <= 0.0 {
            return None;
        }
        let (rate, unseen, stretches) = (count / time, self.ns() as f64, seen.len());
        let variance = (stretches > 1).then(|| {
            let mean_time = time / stretches as f64;
            let off: f64 = seen.iter().map(|(count, time)| ((count - rate * time) / mean_time).powi(2)).sum();
            off / (stretches * (stretches - 1)) as f64 * unseen * unseen
        });
        Some(UnseenSteps { steps: rate * unseen, variance, stretches })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Detail;

    fn notice(time: u64, state: DetailState, steps_too: bool) -> Notice {
        let detail = Some(Detail { state, reason: DetailReason::Budget, steps_too });
        Notice { time, detail, ..Notice::default() }
    }

    fn step(start: u64) -> StepRow {
        StepRow::of_test(0, Phase::Decode, (start, start + 5))
    }

    #[test]
    fn steps_are_reckoned_from_the_stretches_between() {
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
        let found = unseen.steps(&even, Some(Phase::Decode), 0.0).unwrap();
        assert_eq!((found.steps, found.half_width(), found.stretches), (260.0, Some(0.0), 2));
        // They would come faster if it did not take half of their time to see them.
        assert_eq!(unseen.steps(&even, Some(Phase::Decode), 5.0).unwrap().steps, 520.0);
        assert_eq!(unseen.steps(&even, None, 5.0), unseen.steps(&even, Some(Phase::Decode), 5.0));
        // By stretch they are the same.
        let mut since = UnseenSince::default();
        notices.iter().for_each(|notice| since.notice(notice));
        let mut counts = StretchCounts::default();
        for step in &even {
            counts.push(&StepRow { stretch: since.stretch(step.start), ..*step });
        }
        for (phase, added) in [(None, 0.0), (Some(Phase::Decode), 5.0), (Some(Phase::Prefill), 5.0)] {
            assert_eq!(unseen.counted(&counts, phase, added), unseen.steps(&even, phase, added));
        }
        // The second stretch had none: half as many, and nobody knows.
        let found = unseen.steps(&steps, Some(Phase::Decode), 0.0).unwrap();
        assert_eq!(found.steps, 130.0);
        assert!(found.half_width().unwrap() > 1000.0, "{found:?}");
        assert_eq!(unseen.steps(&steps, Some(Phase::Prefill), 0.0).unwrap().steps, 0.0);
    }

    #[test]
    fn without_such_notices_everything_was_seen() {
        let unseen = Unseen::new(&[notice(5, DetailState::Off, false), notice(9, DetailState::On, false)], 100);
        assert!(unseen.is_empty() && !unseen.is_between(0, u64::MAX));
        assert_eq!((unseen.ns(), unseen.steps(&[step(7)], Some(Phase::Decode), 0.0)), (0, None));
        // Nothing of it was seen any more.
        let unseen = Unseen::new(&[notice(5, DetailState::Off, true)], 100);
        assert_eq!((unseen.ns(), unseen.steps(&[step(1)], Some(Phase::Decode), 0.0)), (95, None));
        let backwards = Unseen::new(&[notice(50, DetailState::Off, true), notice(9, DetailState::On, true)], 1);
        assert_eq!(backwards.ns(), 0);
    }
}
