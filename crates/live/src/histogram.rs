//! Cumulative histograms with the bounds of OpenTelemetry's GenAI conventions, as Prometheus takes them.

use serde::Serialize;

/// Bounds of `gen_ai.server.time_to_first_token`, s.
pub const TIME_TO_FIRST_TOKEN: &[f64] =
    &[0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0];
/// Bounds of `gen_ai.server.time_per_output_token`, s.
pub const TIME_PER_OUTPUT_TOKEN: &[f64] = &[0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5];
/// Bounds of `gen_ai.server.request.duration`, s.
pub const REQUEST_DURATION: &[f64] =
    &[0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
/// Bounds of the durations of steps, s.
pub const STEP_DURATION: &[f64] = &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Durations, counted.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Histogram {
    /// Upper bounds, s; the last bucket has none.
    pub bounds: &'static [f64],
    /// How many are in each bucket: one more than there are bounds.
    pub counts: Vec<u64>,
    /// Of all, ns.
    pub sum_ns: u64,
    /// How many.
    pub count: u64,
}

impl Histogram {
    /// An empty one with these bounds.
    pub fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, counts: vec![0; bounds.len() + 1], sum_ns: 0, count: 0 }
    }

    /// Adds a duration.
    pub fn add(&mut self, ns: u64) {
        let seconds = ns as f64 / 1e9;
        let bucket = self.bounds.partition_point(|bound| *bound < seconds);
        if let Some(count) = self.counts.get_mut(bucket) {
            *count += 1;
        }
        self.sum_ns = self.sum_ns.saturating_add(ns);
        self.count += 1;
    }

    /// Their mean, ns; `None` of nothing.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_ns as f64 / self.count as f64)
    }

    /// Counts up to each bound, and of all: what Prometheus calls `le`.
    pub fn cumulative(&self) -> impl Iterator<Item = (Option<f64>, u64)> {
        let bounds = self.bounds.iter().copied().map(Some).chain([None]);
        bounds.zip(&self.counts).scan(0, |sum, (bound, count)| {
            *sum += count;
            Some((bound, *sum))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_belongs_to_its_bucket() {
        let mut histogram = Histogram::new(&[0.001, 0.01]);
        for ns in [0, 1_000_000, 1_000_001, 10_000_000, 11_000_000] {
            histogram.add(ns);
        }
        assert_eq!(histogram.counts, [2, 2, 1]);
        let cumulative: Vec<_> = histogram.cumulative().collect();
        assert_eq!(cumulative, [(Some(0.001), 2), (Some(0.01), 4), (None, 5)]);
        assert_eq!((histogram.count, histogram.sum_ns), (5, 23_000_001 - 1_000_000 + 1_000_000));
        assert_eq!(Histogram::new(STEP_DURATION).mean_ns(), None);
    }

    #[test]
    fn bounds_grow() {
        for bounds in [TIME_TO_FIRST_TOKEN, TIME_PER_OUTPUT_TOKEN, REQUEST_DURATION, STEP_DURATION] {
            assert!(bounds.windows(2).all(|pair| pair[0] < pair[1]));
        }
    }
}
