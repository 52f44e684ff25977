//! A line through points in sequence, in bounded memory. The points are in stretches of neighbours; the interval is a
//! jackknife over stretches, so that neighbours may be correlated.

use crate::numbers::median;
use crate::numbers::t_of;

/// Stretches in memory; at this number pairs of them are merged.
const MAX_STRETCHES: usize = 64;
/// Stretches that an interval needs.
const MIN_STRETCHES: usize = 6;

/// Means and sums of squares of some points.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Moments {
    /// How many.
    pub n: f64,
    /// Mean of x.
    pub x: f64,
    /// Mean of y.
    pub y: f64,
    xx: f64,
    xy: f64,
    yy: f64,
}

impl Moments {
    /// One point.
    pub fn point(x: f64, y: f64) -> Self {
        Self::weighted(x, y, 1.0)
    }

    /// One point that counts so much.
    pub fn weighted(x: f64, y: f64, weight: f64) -> Self {
        Self { n: weight, x, y, ..Self::default() }
    }

    /// Both together.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let n = self.n + other.n;
        if n <= 0.0 {
            return Self::default();
        }
        let (dx, dy, part) = (other.x - self.x, other.y - self.y, other.n / n);
        let cross = self.n * part;
        Self {
            n,
            x: self.x + dx * part,
            y: self.y + dy * part,
            xx: self.xx + other.xx + dx * dx * cross,
            xy: self.xy + other.xy + dx * dy * cross,
            yy: self.yy + other.yy + dy * dy * cross,
        }
    }

    /// y by x, by least squares: slope, intercept, R². `None` where x does not vary.
    pub fn line(&self) -> Option<Line> {
        // Rounding alone must not make a line.
        let varies = self.xx > 1e-20 * self.n * (self.x * self.x).max(1e-300);
        if !varies {
            return None;
        }
        let slope = self.xy / self.xx;
        let explained = if self.yy > 0.0 { (self.xy * slope / self.yy).clamp(0.0, 1.0) } else { 0.0 };
        Some(Line { slope, intercept: self.y - slope * self.x, r2: explained })
    }
}

/// A line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Line {
    /// y for one more of x.
    pub slope: f64,
    /// y where x is 0.
    pub intercept: f64,
    /// The part of y's variance that it explains.
    pub r2: f64,
}

impl Line {
    /// y at an x.
    pub fn at(&self, x: f64) -> f64 {
        self.slope.mul_add(x, self.intercept)
    }
}

/// A line, and how sure it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trend {
    /// By least squares.
    pub line: Line,
    /// Half the width of the 95 % interval around the slope; `None` with too few stretches.
    pub half_width: Option<f64>,
    /// The median of the slopes between any two stretches: robust against outliers.
    pub robust_slope: Option<f64>,
}

/// Points in the order of their coming.
#[derive(Debug, Clone)]
pub struct Blocks {
    blocks: Vec<Moments>,
    /// Points of a full stretch.
    each: f64,
    low: f64,
    high: f64,
}

impl Default for Blocks {
    fn default() -> Self {
        Self { blocks: Vec::new(), each: 1.0, low: f64::INFINITY, high: f64::NEG_INFINITY }
    }
}

impl Blocks {
    /// Adds a point.
    pub fn push(&mut self, x: f64, y: f64) {
        (self.low, self.high) = (self.low.min(x), self.high.max(x));
        let point = Moments::point(x, y);
        match self.blocks.last_mut() {
            Some(last) if last.n < self.each => *last = last.plus(&point),
            _ => {
                if self.blocks.len() >= MAX_STRETCHES {
                    self.halve();
                }
                self.blocks.push(point);
            }
        }
    }

    fn halve(&mut self) {
        let pair = |pair: &[Moments]| pair.iter().fold(Moments::default(), |sum, one| sum.plus(one));
        self.blocks = self.blocks.chunks(2).map(pair).collect();
        self.each *= 2.0;
    }

    /// All points together.
    pub fn all(&self) -> Moments {
        self.blocks.iter().fold(Moments::default(), |sum, one| sum.plus(one))
    }

    /// The least and the greatest x; `None` where there is no point.
    pub fn range(&self) -> Option<(f64, f64)> {
        (self.low <= self.high).then_some((self.low, self.high))
    }

    /// The stretches: points, mean of x, mean of y.
    pub fn stretches(&self) -> impl Iterator<Item = (f64, f64, f64)> {
        self.blocks.iter().map(|block| (block.n, block.x, block.y))
    }

    /// How y goes with x.
    pub fn trend(&self) -> Option<Trend> {
        let line = self.all().line()?;
        Some(Trend { line, half_width: self.half_width(), robust_slope: self.robust_slope() })
    }

    /// The mean of y, and half the width of the 95 % interval around it.
    pub fn mean(&self) -> (f64, Option<f64>) {
        let all = self.all();
        let without = self.without_each(|moments| Some(moments.y));
        (all.y, without.and_then(|without| interval(&without)))
    }

    /// By leaving out each stretch in turn (the jackknife).
    fn half_width(&self) -> Option<f64> {
        let slopes = self.without_each(|moments| moments.line().map(|line| line.slope))?;
        interval(&slopes)
    }

    fn without_each(&self, of: impl Fn(&Moments) -> Option<f64>) -> Option<Vec<f64>> {
        if self.blocks.len() < MIN_STRETCHES {
            return None;
        }
        // Sums of what comes before and after each: no sum is taken apart, which would lose digits.
        let mut after = vec![Moments::default(); self.blocks.len() + 1];
        for (i, block) in self.blocks.iter().enumerate().rev() {
            after[i] = after[i + 1].plus(block);
        }
        let mut before = Moments::default();
        let mut values = Vec::with_capacity(self.blocks.len());
        for (block, after) in self.blocks.iter().zip(after.iter().skip(1)) {
            values.push(of(&before.plus(after))?);
            before = before.plus(block);
        }
        Some(values)
    }

    fn robust_slope(&self) -> Option<f64> {
        let (low, high) = self.range()?;
        // Two stretches that are hardly apart have any slope.
        let apart = (high - low) / 100.0;
        let mut slopes = Vec::new();
        for (i, a) in self.blocks.iter().enumerate() {
            let others = self.blocks.iter().skip(i + 1).filter(|b| (b.x - a.x).abs() > apart);
            slopes.extend(others.map(|b| (b.y - a.y) / (b.x - a.x)));
        }
        median(&mut slopes)
    }
}

/// Half the width of the 95 % interval, of what an estimate comes to without each stretch.
fn interval(without: &[f64]) -> Option<f64> {
    let n = without.len() as f64;
    let mean = without.iter().sum::<f64>() / n;
    let off: f64 = without.iter().map(|value| (value - mean).powi(2)).sum();
    let error = ((n - 1.0) / n * off).sqrt();
    error.is_finite().then(|| t_of(without.len() - 1) * error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_straight_line_is_found_exactly_however_many_points_it_has() {
        for count in [3, 100, 10_000] {
            let mut blocks = Blocks::default();
            (0..count).for_each(|i| blocks.push(f64::from(i) + 1e6, 3.0 * (f64::from(i) + 1e6) + 7.0));
            let trend = blocks.trend().unwrap();
            assert!((trend.line.slope - 3.0).abs() < 1e-6, "{count}: {trend:?}");
            assert!((trend.line.at(1e6) - 3_000_007.0).abs() < 1e-3 && trend.line.r2 > 0.999_999, "{trend:?}");
            assert!(blocks.blocks.len() <= MAX_STRETCHES);
            assert_eq!(blocks.all().n, f64::from(count));
            assert_eq!(blocks.range(), Some((1e6, 1e6 + f64::from(count - 1))));
        }
    }

    #[test]
    fn the_interval_contains_the_slope_as_often_as_nominal() {
        let mut random = fastrand::Rng::with_seed(3);
        let (mut hits, mut none) = (0, 0);
        for _ in 0..300 {
            let (mut blocks, mut flat) = (Blocks::default(), Blocks::default());
            for i in 0..500 {
                // Now and then a step is disturbed.
                let noise = 20.0 * random.f64() + if random.u32(0..50) == 0 { 300.0 } else { 0.0 };
                blocks.push(f64::from(i), 100.0 + 0.5 * f64::from(i) + noise);
                flat.push(f64::from(i), 100.0 + noise);
            }
            let trend = blocks.trend().unwrap();
            hits += usize::from((trend.line.slope - 0.5).abs() <= trend.half_width.unwrap());
            let flat = flat.trend().unwrap();
            none += usize::from(flat.line.slope.abs() <= flat.half_width.unwrap());
        }
        assert!((270..=297).contains(&hits) && (270..=297).contains(&none), "{hits} {none}");
    }

    #[test]
    fn a_few_disturbed_stretches_do_not_change_the_robust_slope() {
        let mut blocks = Blocks::default();
        (0..60).for_each(|i| blocks.push(f64::from(i), if i > 55 { 900.0 } else { 10.0 + f64::from(i % 2) }));
        let trend = blocks.trend().unwrap();
        assert!(trend.line.slope > 1.0 && trend.robust_slope.unwrap().abs() < 0.05, "{trend:?}");
    }

    #[test]
    fn without_spread_or_points_there_is_no_line() {
        let mut blocks = Blocks::default();
        assert!(blocks.trend().is_none() && blocks.range().is_none());
        (0..100).for_each(|i| blocks.push(256.0, f64::from(i)));
        assert!(blocks.trend().is_none());
        let (mean, half) = blocks.mean();
        assert!((mean - 49.5).abs() < 1e-9 && half.unwrap() > 0.0);
        let mut few = Blocks::default();
        (0..4).for_each(|i| few.push(f64::from(i), 1.0));
        assert_eq!(few.trend().unwrap().half_width, None);
    }
}
