//! Sums of the last seconds.

use super::seconds::{LATEST, SECOND, Seconds};

/// Seconds that rates are computed over.
pub(crate) const SECONDS: u64 = 10;
/// Slots: the window, and what comes after the last time up to which all is there.
const SLOTS: usize = 64;

const _: () = assert!(SECONDS + LATEST + 1 < SLOTS as u64);

/// What a second has.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Sums {
    pub(crate) steps: u64,
    pub(crate) prefill_tokens: u64,
    pub(crate) decode_tokens: u64,
    /// Steps of decode with and without a number of tokens.
    pub(crate) counted: u64,
    pub(crate) uncounted: u64,
    /// Time in steps, ns.
    pub(crate) step_ns: u64,
    pub(crate) first_tokens: u64,
    pub(crate) first_token_ns: u64,
    pub(crate) next_tokens: u64,
    pub(crate) next_token_ns: u64,
    pub(crate) major_faults: u64,
    pub(crate) cpu_ns: u64,
    /// Time in which nothing was recorded, ns.
    pub(crate) unseen_ns: u64,
    /// Time before the first step, ns.
    pub(crate) before_ns: u64,
}

impl Sums {
    /// Tokens of a step of decode that has a number of them; `None` if there are only others.
    pub(crate) fn mean_decode_tokens(&self) -> Option<f64> {
        match (self.counted, self.uncounted) {
            (0, 1..) => None,
            (steps, _) => Some(self.decode_tokens as f64 / steps.max(1) as f64),
        }
    }

    fn plus(&mut self, other: &Self) {
        self.steps += other.steps;
        self.prefill_tokens = self.prefill_tokens.saturating_add(other.prefill_tokens);
        self.decode_tokens = self.decode_tokens.saturating_add(other.decode_tokens);
        self.counted += other.counted;
        self.uncounted += other.uncounted;
        self.step_ns = self.step_ns.saturating_add(other.step_ns);
        self.first_tokens += other.first_tokens;
        self.first_token_ns = self.first_token_ns.saturating_add(other.first_token_ns);
        self.next_tokens += other.next_tokens;
        self.next_token_ns = self.next_token_ns.saturating_add(other.next_token_ns);
        self.major_faults = self.major_faults.saturating_add(other.major_faults);
        self.cpu_ns = self.cpu_ns.saturating_add(other.cpu_ns);
        self.unseen_ns = self.unseen_ns.saturating_add(other.unseen_ns);
        self.before_ns = self.before_ns.saturating_add(other.before_ns);
    }
}

/// The last seconds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Recent {
    seconds: Seconds<Sums, SLOTS>,
}

impl Recent {
    /// The sums of the second of a time (ns); `None` where that is older than what is in memory.
    pub(crate) fn at(&mut self, time: u64) -> Option<&mut Sums> {
        self.seconds.at(time / SECOND)
    }

    /// Adds amounts that came evenly in a time (ns) to its seconds.
    pub(crate) fn spread<const N: usize>(
        &mut self,
        (from, to): (u64, u64),
        amounts: [u64; N],
        add: impl Fn(&mut Sums, [u64; N]),
    ) {
        let last = to / SECOND;
        let first = (from.min(to) / SECOND).max(last.saturating_sub(SLOTS as u64 - 1));
        let length = u128::from(to.saturating_sub(from)).max(1);
        let until =
            |end: u64| amounts.map(|all| (u128::from(all) * u128::from(end.saturating_sub(from)) / length) as u64);
        for second in first..=last {
            let begin = second * SECOND;
            let before = until(begin.min(to));
            // All of what came at one moment, too.
            let after = if second == last { amounts } else { until(begin + SECOND) };
            if let Some(sums) = self.seconds.at(second) {
                add(sums, std::array::from_fn(|index| after[index].saturating_sub(before[index])));
            }
        }
    }

    /// The sums of the whole seconds before a time.
    pub(crate) fn until(&self, time: u64) -> Sums {
        let mut all = Sums::default();
        self.before(time / SECOND).for_each(|(_, sums)| all.plus(sums));
        all
    }

    /// Of the last `seconds` before a time, those in which everything was recorded, and the others: also those since nothing
    /// is recorded any more (ns).
    pub(crate) fn split(&self, time: u64, seconds: u64, unseen_since: Option<u64>) -> (Sums, PartlySeen) {
        let end = time / SECOND;
        let since = unseen_since.unwrap_or(u64::MAX).max(end.saturating_sub(seconds) * SECOND);
        let unseen_ns = (end * SECOND).saturating_sub(since);
        let mut whole = Sums::default();
        let mut partly = PartlySeen { sums: Sums::default(), seconds: end.saturating_sub(since / SECOND), unseen_ns };
        for (second, sums) in self.before(end) {
            let is_since = *second >= since / SECOND;
            if is_since || sums.unseen_ns > 0 {
                partly.sums.plus(sums);
                partly.seconds += u64::from(!is_since);
            } else {
                whole.plus(sums);
            }
        }
        partly.unseen_ns = partly.unseen_ns.saturating_add(partly.sums.unseen_ns);
        (whole, partly)
    }

    fn before(&self, end: u64) -> impl Iterator<Item = &(u64, Sums)> {
        let from = end.saturating_sub(SECONDS);
        self.seconds.iter().filter(move |(second, _)| (from..end).contains(second))
    }
}

/// Seconds of which a part was not recorded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PartlySeen {
    pub(crate) sums: Sums,
    pub(crate) seconds: u64,
    /// That part, ns.
    pub(crate) unseen_ns: u64,
}

impl PartlySeen {
    /// The part that was recorded, and not before the first step, seconds.
    pub(crate) fn seen(&self) -> f64 {
        (self.seconds * SECOND).saturating_sub(self.unseen_ns).saturating_sub(self.sums.before_ns) as f64 / 1e9
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_that_is_over_is_replaced_and_old_news_are_dropped() {
        let mut recent = Recent::default();
        for second in 0..100 {
            recent.at(second * SECOND + 5).unwrap().steps += second;
        }
        assert_eq!(recent.until(100 * SECOND).steps, (90..100).sum::<u64>());
        assert_eq!(recent.until(95 * SECOND + 999).steps, (85..95).sum::<u64>());
        assert_eq!(recent.at(30 * SECOND), None);
        assert_eq!(recent.until(0), Sums::default());
        assert_eq!(recent.until(500 * SECOND), Sums::default());
        assert!(recent.at(u64::MAX).is_some());
    }

    #[test]
    fn seconds_that_were_recorded_in_part_are_told_apart() {
        let mut recent = Recent::default();
        for second in 10..20 {
            recent.at(second * SECOND).unwrap().steps = second;
        }
        recent.at(14 * SECOND).unwrap().unseen_ns = SECOND / 2;
        let steps = |split: (Sums, PartlySeen)| (split.0.steps, split.1.sums.steps, split.1.seconds, split.1.seen());
        let all = (10..20).sum::<u64>();
        assert_eq!(steps(recent.split(20 * SECOND + 7, 10, None)), (all - 14, 14, 1, 0.5));
        // Nothing is recorded since the middle of second 18: also in seconds in which nothing came.
        let since = Some(18 * SECOND + SECOND / 2);
        assert_eq!(steps(recent.split(20 * SECOND, 10, since)), (all - 14 - 18 - 19, 14 + 18 + 19, 3, 1.0));
        assert_eq!(steps(recent.split(24 * SECOND, 10, since)).2, 7);
        assert_eq!(steps(recent.split(60 * SECOND, 10, since)), (0, 0, 10, 0.0));
    }

    #[test]
    fn what_comes_in_a_time_is_spread_over_it() {
        let spread = |from, to, amount| {
            let mut recent = Recent::default();
            recent.spread((from, to), [amount, 1], |sums, [cpu, faults]| {
                (sums.cpu_ns, sums.major_faults) = (sums.cpu_ns + cpu, sums.major_faults + faults);
            });
            let mut seconds: Vec<(u64, u64)> = recent.seconds.iter().map(|(of, sums)| (*of, sums.cpu_ns)).collect();
            seconds.retain(|(_, cpu_ns)| *cpu_ns > 0);
            seconds.sort_unstable();
            (seconds, recent.seconds.iter().map(|(_, sums)| sums.major_faults).sum::<u64>())
        };
        let half = SECOND / 2;
        assert_eq!(spread(5 * SECOND + half, 8 * SECOND, 1000), (vec![(5, 200), (6, 400), (7, 400)], 1));
        assert_eq!(spread(5 * SECOND, 5 * SECOND + 5, 7), (vec![(5, 7)], 1));
        // At one moment, and a time that ends before it begins.
        assert_eq!(spread(5 * SECOND, 5 * SECOND, 7), (vec![(5, 7)], 1));
        assert_eq!(spread(9 * SECOND, 5 * SECOND, 7), (vec![(5, 7)], 1));
        // Of a long time the last seconds are there.
        let (seconds, _) = spread(0, 1000 * SECOND, 1_000_000);
        assert_eq!((seconds.len(), seconds[0]), (SLOTS - 1, (1000 - SLOTS as u64 + 1, 1000)));
        spread(0, u64::MAX, u64::MAX);
    }

    #[test]
    fn steps_without_a_number_of_tokens_count_as_the_others() {
        let sums = |decode_tokens, counted, uncounted| Sums { decode_tokens, counted, uncounted, ..Sums::default() };
        assert_eq!(sums(6, 3, 0).mean_decode_tokens(), Some(2.0));
        assert_eq!(sums(6, 3, 12).mean_decode_tokens(), Some(2.0));
        assert_eq!((sums(0, 0, 5).mean_decode_tokens(), sums(0, 0, 0).mean_decode_tokens()), (None, Some(0.0)));
    }
}
