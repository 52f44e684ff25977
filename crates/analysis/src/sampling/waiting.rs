//! Waiting of lanes over all operators from those whose waiting was recorded: boundaries are probed in some windows of time
//! only. What was not divided into work and waiting is divided as the rest was (a ratio estimator).

use crate::numbers::t_of;

/// Lane time in operators, ns, divided into work and waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Divided {
    /// Work; with the waiting, where `waiting` is absent.
    pub work: u64,
    /// Waiting; `None` where it was recorded of no operator.
    pub waiting: Option<u64>,
    /// Both are estimates: of some operators it was not recorded.
    pub estimated: bool,
}

impl Divided {
    /// Of these times, `undivided` being a part of `work` that contains waiting.
    pub(crate) fn new(work: u64, waiting: u64, undivided: u64) -> Self {
        let undivided = undivided.min(work);
        if undivided == 0 {
            return Self { work, waiting: Some(waiting), estimated: false };
        }
        let divided = (work - undivided).saturating_add(waiting);
        if divided == 0 {
            return Self { work, waiting: None, estimated: false };
        }
        let more = (undivided as f64 * waiting as f64 / divided as f64).round() as u64;
        Self { work: work - more.min(undivided), waiting: Some(waiting.saturating_add(more)), estimated: true }
    }
}

/// The share of waiting in lane time by windows, which are the random sample.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct WaitingWindows {
    /// The window that goes on: lane time, and waiting of it.
    open: Option<(f64, f64)>,
    count: f64,
    time: f64,
    waiting: f64,
    /// Sums of squares and products, by window.
    squares: [f64; 3],
    undivided: f64,
}

impl WaitingWindows {
    /// Adds a step's lane time in operators. A step of which most is undivided ends a window.
    pub(crate) fn add(&mut self, work: u64, waiting: u64, undivided: u64) {
        let divided = work.saturating_sub(undivided).saturating_add(waiting);
        self.undivided += undivided as f64;
        if divided > undivided {
            let open = self.open.get_or_insert_default();
            open.0 += divided as f64;
            open.1 += waiting as f64;
        } else {
            *self = self.closed();
        }
    }

    fn closed(mut self) -> Self {
        if let Some((time, waiting)) = self.open.take() {
            self.count += 1.0;
            self.time += time;
            self.waiting += waiting;
            let squares = [time * time, time * waiting, waiting * waiting];
            self.squares.iter_mut().zip(squares).for_each(|(sum, square)| *sum += square);
        }
        self
    }

    /// Windows in which waiting was recorded.
    pub fn count(&self) -> u64 {
        self.closed().count as u64
    }

    /// Half the width of the 95 % confidence interval around the estimated waiting, ns: by the differences between
    /// windows. `None` where there are fewer than two windows, or nothing was estimated.
    pub fn half_width(&self) -> Option<f64> {
        let of = self.closed();
        if of.count < 2.0 || of.time <= 0.0 || of.undivided <= 0.0 {
            return None;
        }
        let share = of.waiting / of.time;
        let [times, products, waitings] = of.squares;
        let off = (waitings - 2.0 * share * products + share * share * times).max(0.0);
        let variance = of.count / (of.count - 1.0) * off / (of.time * of.time);
        Some(t_of(of.count as usize - 1) * variance.sqrt() * of.undivided)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn undivided_time_is_divided_as_the_rest() {
        let of = |work, waiting, undivided| Divided::new(work, waiting, undivided);
        assert_eq!(of(80, 20, 0), Divided { work: 80, waiting: Some(20), estimated: false });
        assert_eq!(of(880, 20, 800), Divided { work: 720, waiting: Some(180), estimated: true });
        assert_eq!(of(800, 0, 800), Divided { work: 800, waiting: None, estimated: false });
        assert_eq!(of(0, 0, 0), Divided { work: 0, waiting: Some(0), estimated: false });
        assert_eq!(of(u64::MAX, u64::MAX, u64::MAX).waiting, Some(u64::MAX), "no overflow");
    }

    #[test]
    fn the_interval_contains_the_truth_as_often_as_nominal() {
        let mut random = fastrand::Rng::with_seed(3);
        let (mut hits, rounds) = (0, 400);
        for _ in 0..rounds {
            let (mut windows, mut truth, mut sums) = (WaitingWindows::default(), 0.0, (0_u64, 0_u64, 0_u64));
            // A share that wanders, and steps that differ; one window of 10 steps in about 100.
            let (mut share, mut left, mut recorded) = (0.2, 10_u32, true);
            for _ in 0..8000 {
                share = (share + (random.f64() - 0.5) * 0.02 + (0.2 - share) * 0.05).clamp(0.01, 0.9);
                let time = 1e6 * (1.0 + random.f64());
                let waiting = time * share * random.f64() * 2.0;
                truth += waiting;
                if left == 0 {
                    recorded = !recorded;
                    left = if recorded { 10 } else { 1 + (-90.0 * random.f64().max(1e-9).ln()) as u32 };
                }
                left -= 1;
                let (time, waiting) = (time as u64, waiting as u64);
                let of = if recorded { (time - waiting, waiting, 0) } else { (time, 0, time) };
                windows.add(of.0, of.1, of.2);
                sums = (sums.0 + of.0, sums.1 + of.1, sums.2 + of.2);
            }
            let estimate = Divided::new(sums.0, sums.1, sums.2).waiting.unwrap_or(0) as f64;
            let half = windows.half_width().unwrap_or(0.0);
            hits += u32::from((estimate - truth).abs() <= half);
        }
        assert!((355..=395).contains(&hits), "{hits} of {rounds}");
    }

    #[test]
    fn one_window_has_no_interval() {
        let mut windows = WaitingWindows::default();
        windows.add(80, 20, 0);
        windows.add(100, 0, 100);
        assert_eq!((windows.count(), windows.half_width()), (1, None));
    }
}
