//! Durations for percentiles, in bounded memory: each one up to a bound, beyond it a histogram with three significant
//! digits. Then the percentiles of the [`Distribution`] are estimates.

use super::distribution::Distribution;
use hdrhistogram::Histogram;

/// Durations that are stored one by one: their percentiles are exact.
pub(crate) const MAX_EXACT: usize = 100_000;
/// Significant digits of a bucket.
const DIGITS: u8 = 3;
/// A percentile of counted durations is off by no more than this part of it: a bucket is 1/1024 of its least at most.
pub const PERCENTILE_ERROR: f64 = 0.001;

/// Durations, ns.
#[derive(Debug, Clone, Default)]
pub(crate) struct Durations {
    exact: Vec<u64>,
    counted: Option<Box<Counted>>,
}

/// Durations in a histogram.
#[derive(Debug, Clone)]
struct Counted {
    histogram: Histogram<u64>,
    count: u64,
    total: u64,
    sum: f64,
    least: u64,
    most: u64,
}

impl Counted {
    fn new() -> Option<Self> {
        let histogram = Histogram::new(DIGITS).ok()?;
        Some(Self { histogram, count: 0, total: 0, sum: 0.0, least: u64::MAX, most: 0 })
    }

    fn push(&mut self, duration: u64) {
        // It grows to any number of 64 bits; were there no bucket all the same, the last one takes it.
        if self.histogram.record(duration).is_err() {
            self.histogram.saturating_record(duration);
        }
        self.count += 1;
        self.total = self.total.saturating_add(duration);
        self.sum += duration as f64;
        (self.least, self.most) = (self.least.min(duration), self.most.max(duration));
    }

    /// By nearest rank, within the exact bounds.
    fn percentile(&self, percent: u64) -> u64 {
        let rank = (u128::from(self.count) * u128::from(percent)).div_ceil(100).max(1);
        let mut passed = 0;
        for bucket in self.histogram.iter_recorded() {
            passed += u128::from(bucket.count_since_last_iteration());
            if passed >= rank {
                let middle = self.histogram.median_equivalent(bucket.value_iterated_to());
                return middle.clamp(self.least, self.most);
            }
        }
        self.most
    }
}

impl Durations {
    /// Adds one.
    pub(crate) fn push(&mut self, duration: u64) {
        if let Some(counted) = &mut self.counted {
            return counted.push(duration);
        }
        self.exact.push(duration);
        if self.exact.len() > MAX_EXACT {
            self.counted = Counted::new().map(Box::new);
            if let Some(counted) = &mut self.counted {
                std::mem::take(&mut self.exact).into_iter().for_each(|duration| counted.push(duration));
            }
        }
    }

    /// Those of both.
    pub(crate) fn merge(&mut self, other: &Self) {
        other.exact.iter().for_each(|duration| self.push(*duration));
        let Some(more) = &other.counted else { return };
        let mine = std::mem::take(&mut self.exact);
        let Some(counted) = self.counted.take().or_else(|| Counted::new().map(Box::new)) else { return };
        let mut counted = counted;
        mine.into_iter().for_each(|duration| counted.push(duration));
        // Both take any number, and grow as they need to.
        let _ = counted.histogram.add(&more.histogram);
        counted.count = counted.count.saturating_add(more.count);
        counted.total = counted.total.saturating_add(more.total);
        counted.sum += more.sum;
        (counted.least, counted.most) = (counted.least.min(more.least), counted.most.max(more.most));
        self.counted = Some(counted);
    }

    /// How many.
    pub(crate) fn count(&self) -> u64 {
        self.counted.as_ref().map_or(self.exact.len() as u64, |counted| counted.count)
    }

    /// Their distribution.
    pub(crate) fn distribution(&self) -> Distribution {
        let Some(counted) = &self.counted else { return Distribution::of(self.exact.clone()) };
        Distribution {
            count: counted.count,
            total_ns: counted.total,
            mean_ns: counted.sum / counted.count.max(1) as f64,
            min_ns: counted.least.min(counted.most),
            p50_ns: counted.percentile(50),
            p90_ns: counted.percentile(90),
            p99_ns: counted.percentile(99),
            max_ns: counted.most,
            percentile_error: Some(PERCENTILE_ERROR),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(durations: &[u64]) -> (Distribution, Distribution) {
        let mut pushed = Durations::default();
        durations.iter().for_each(|duration| pushed.push(*duration));
        (Distribution::of(durations.to_vec()), pushed.distribution())
    }

    fn near(exact: u64, estimated: u64) -> bool {
        exact.abs_diff(estimated) as f64 <= PERCENTILE_ERROR * exact as f64
    }

    fn assert_near(exact: &Distribution, estimated: &Distribution) {
        let bounds = |d: &Distribution| (d.count, d.total_ns, d.min_ns, d.max_ns);
        assert_eq!(bounds(exact), bounds(estimated));
        assert!((exact.mean_ns - estimated.mean_ns).abs() <= 1e-9 * exact.mean_ns, "{exact:?} {estimated:?}");
        let pairs =
            [(exact.p50_ns, estimated.p50_ns), (exact.p90_ns, estimated.p90_ns), (exact.p99_ns, estimated.p99_ns)];
        assert!(pairs.iter().all(|(exact, estimated)| near(*exact, *estimated)), "{exact:?} {estimated:?}");
        assert_eq!(estimated.percentile_error, Some(PERCENTILE_ERROR));
    }

    #[test]
    fn up_to_the_bound_percentiles_are_exact() {
        let (exact, pushed) = both(&(1..=MAX_EXACT as u64).rev().collect::<Vec<_>>());
        assert_eq!(exact, pushed);
        assert_eq!(pushed.percentile_error, None);
        assert_eq!(Durations::default().distribution(), Distribution::default());
    }

    #[test]
    fn beyond_it_they_are_within_the_stated_error() {
        let mut random = fastrand::Rng::with_seed(5);
        let count = MAX_EXACT + 50_000;
        type Draw = fn(&mut fastrand::Rng) -> u64;
        let draws: [Draw; 6] = [
            |random| random.u64(1..1000),
            |random| 1 + (1e4 * random.f64().powi(8).recip().min(1e9)) as u64,
            |random| 1_u64 << random.u32(0..60),
            |random| if random.u32(0..100) == 0 { random.u64(..) / 2 + 1 } else { 1_000_000 },
            |_| 7,
            |random| 20_000 + random.u64(0..30) * random.u64(0..30) * 1000,
        ];
        for draw in draws {
            let durations: Vec<u64> = (0..count).map(|_| draw(&mut random)).collect();
            let (exact, estimated) = both(&durations);
            assert_near(&exact, &estimated);
            // Merged of parts, it is the same.
            let (few, many) = durations.split_at(1000);
            let part = |durations: &[u64]| {
                let mut part = Durations::default();
                durations.iter().for_each(|duration| part.push(*duration));
                part
            };
            for (mut into, from) in [(part(few), part(many)), (part(many), part(few)), (part(many), part(many))] {
                into.merge(&from);
                let mut all = durations.clone();
                if into.distribution().count as usize == 2 * many.len() {
                    all = [many, many].concat();
                }
                assert_near(&Distribution::of(all), &into.distribution());
            }
        }
    }

    #[test]
    fn the_greatest_numbers_do_not_panic() {
        let (exact, estimated) = both(&vec![u64::MAX; MAX_EXACT + 1]);
        assert_eq!((exact.max_ns, exact.p50_ns), (estimated.max_ns, estimated.p50_ns));
        let (_, zeros) = both(&vec![0; MAX_EXACT + 1]);
        assert_eq!((zeros.p99_ns, zeros.max_ns), (0, 0));
    }
}
