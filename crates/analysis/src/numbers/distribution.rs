//! Percentiles of durations: exact ones of a few numbers.

use serde::Serialize;

/// Of a set of durations in ns. Percentiles are by nearest rank: each is one of the numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Distribution {
    /// How many.
    pub count: u64,
    /// Their sum, ns.
    pub total_ns: u64,
    /// ns.
    pub mean_ns: f64,
    /// ns.
    pub min_ns: u64,
    /// ns.
    pub p50_ns: u64,
    /// ns.
    pub p90_ns: u64,
    /// ns.
    pub p99_ns: u64,
    /// ns.
    pub max_ns: u64,
    /// The percentiles are estimates with at most this relative error. `None` if they are exact.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percentile_error: Option<f64>,
}

impl Distribution {
    /// Of these numbers; all zero where there is none.
    #[allow(clippy::cast_precision_loss)]
    pub fn of(mut numbers: Vec<u64>) -> Self {
        numbers.sort_unstable();
        let count = numbers.len();
        let total = numbers.iter().fold(0_u64, |a, b| a.saturating_add(*b));
        let mean = if count == 0 { 0.0 } else { numbers.iter().map(|n| *n as f64).sum::<f64>() / count as f64 };
        let percentile = |p: usize| numbers.get((p * count).div_ceil(100).saturating_sub(1)).copied().unwrap_or(0);
        Self {
            count: count as u64,
            total_ns: total,
            mean_ns: mean,
            min_ns: numbers.first().copied().unwrap_or(0),
            p50_ns: percentile(50),
            p90_ns: percentile(90),
            p99_ns: percentile(99),
            max_ns: numbers.last().copied().unwrap_or(0),
            percentile_error: None,
        }
    }
}

/// The median; `None` of nothing.
pub fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() {
        0 => None,
        n if n % 2 == 1 => Some(values[half]),
        _ => Some(f64::midpoint(values[half - 1], values[half])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_numbers_of_the_set() {
        let d = Distribution::of((1..=200).rev().collect());
        assert_eq!((d.p50_ns, d.p90_ns, d.p99_ns), (100, 180, 198));
        assert_eq!((d.count, d.min_ns, d.max_ns), (200, 1, 200));
        assert!((d.mean_ns - 100.5).abs() < 1e-9);
        let one = Distribution::of(vec![7]);
        assert_eq!((one.p50_ns, one.p90_ns, one.p99_ns), (7, 7, 7));
    }

    #[test]
    fn nothing_and_huge_numbers_do_not_panic() {
        assert_eq!(Distribution::of(Vec::new()), Distribution::default());
        assert_eq!(Distribution::of(vec![u64::MAX, u64::MAX]).total_ns, u64::MAX);
    }
}
