//! Estimates over all steps from those that were recorded whole. Windows are the random sample: they are dealt out to a
//! fixed number of groups, and the variance is that of the groups' means.

use super::unseen::UnseenSteps;
use crate::numbers::t_of;

/// Groups that windows are dealt out to.
pub const GROUPS: usize = 32;

/// Sums by group of windows.
pub type Groups = [f64; GROUPS];

/// An estimate of a total.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Estimate {
    /// The total over all steps.
    pub total: f64,
    /// Its variance; `None` where there are too few windows for one.
    pub variance: Option<f64>,
    /// Degrees of freedom of the variance.
    pub freedom: usize,
}

impl Estimate {
    /// Of a quantity with these sums over the whole steps of each group of windows, and these numbers of whole steps, for
    /// `all_steps` steps.
    pub fn of(sums: &Groups, steps: &Groups, all_steps: u64) -> Self {
        let (sum, whole) = (sums.iter().sum::<f64>(), steps.iter().sum::<f64>());
        if whole <= 0.0 {
            return Self { variance: Some(0.0), ..Self::default() };
        }
        let (mean, all) = (sum / whole, all_steps as f64);
        let groups = steps.iter().filter(|steps| **steps > 0.0).count();
        let variance = (groups > 1).then(|| {
            let mean_steps = whole / groups as f64;
            let with_steps = sums.iter().zip(steps).filter(|(_, steps)| **steps > 0.0);
            let off: f64 = with_steps.map(|(sum, steps)| ((sum - mean * steps) / mean_steps).powi(2)).sum();
            // All that was not seen is what is uncertain.
            let unseen = (1.0 - whole / all.max(whole)).max(0.0);
            unseen * off / (groups * (groups - 1)) as f64 * all * all
        });
        // Every step was recorded: the total is exact.
        let variance = if whole >= all { Some(0.0) } else { variance };
        Self { total: mean * all, variance, freedom: groups.saturating_sub(1) }
    }

    /// The same, extended to an estimated number of unrecorded steps.
    pub fn with_unseen(self, seen_steps: u64, unseen: UnseenSteps) -> Self {
        let mean = self.total / (seen_steps.max(1) as f64);
        let growth = 1.0 + unseen.steps / seen_steps.max(1) as f64;
        let of_steps = unseen.variance.map(|variance| variance * mean * mean);
        let variance = self.variance.zip(of_steps).map(|(variance, of_steps)| variance * growth * growth + of_steps);
        Self { total: self.total * growth, variance, ..self }
    }

    /// Of both quantities together.
    pub fn plus(self, other: Self) -> Self {
        let freedom = match (self.freedom, other.freedom) {
            (0, one) | (one, 0) => one,
            (a, b) => a.min(b),
        };
        let variance = self.variance.zip(other.variance).map(|(a, b)| a + b);
        Self { total: self.total + other.total, variance, freedom }
    }

    /// Half the width of the interval of 95 % around it.
    pub fn half_width(&self) -> Option<f64> {
        self.variance.map(|variance| t_of(self.freedom) * variance.sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_contains_the_truth_as_often_as_nominal() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut hits = 0;
        for _ in 0..400 {
            // Windows differ by 10 % from one another, steps of one by 1 %.
            let (mut sums, mut steps) = ([0.0; GROUPS], [0.0; GROUPS]);
            for window in 0..12 {
                let level = 90.0 + 20.0 * random.f64();
                let count = 3 + random.usize(0..4);
                for _ in 0..count {
                    sums[window % GROUPS] += level * (0.99 + 0.02 * random.f64());
                }
                steps[window % GROUPS] += count as f64;
            }
            let estimate = Estimate::of(&sums, &steps, 10_000);
            let off = (estimate.total - 100.0 * 10_000.0).abs();
            hits += usize::from(off <= estimate.half_width().unwrap());
        }
        assert!((360..=398).contains(&hits), "{hits} of 400");
    }

    #[test]
    fn unrecorded_steps_add_their_variance() {
        let seen = Estimate { total: 100.0, variance: Some(0.0), freedom: 5 };
        let unseen = UnseenSteps { steps: 90.0, variance: Some(4.0), stretches: 6 };
        let all = seen.with_unseen(10, unseen);
        assert_eq!((all.total, all.variance), (1000.0, Some(400.0)));
        assert_eq!(seen.with_unseen(10, UnseenSteps { variance: None, ..unseen }).half_width(), None);
    }

    #[test]
    fn a_total_of_all_steps_is_certain_and_one_window_gives_no_interval() {
        let (mut sums, mut steps) = ([0.0; GROUPS], [0.0; GROUPS]);
        (sums[0], steps[0]) = (50.0, 5.0);
        assert_eq!(Estimate::of(&sums, &steps, 5).half_width(), Some(0.0));
        let one = Estimate::of(&sums, &steps, 10);
        assert_eq!((one.total, one.half_width()), (100.0, None));
        assert_eq!(Estimate::of(&[0.0; GROUPS], &[0.0; GROUPS], 10).total, 0.0);
    }
}
