//! Medians, their intervals, and chance.

/// An estimate with its 95 % interval.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Estimate {
    pub(crate) value: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Estimate {
    /// The same through a function that keeps the order.
    pub(crate) fn map(self, change: impl Fn(f64) -> f64) -> Self {
        Self { value: change(self.value), low: change(self.low), high: change(self.high) }
    }
}

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

/// The geometric mean of the groups' medians, with the middle 95 % of what 2,000 samples drawn with replacement within
/// each group give (percentile bootstrap). Each group is of one of the two copies traced: what one copy is faster by,
/// traced or not, cancels.
pub(crate) fn ratio(groups: &[Vec<f64>], random: &mut Random) -> Estimate {
    let mut draws: Vec<f64> = (0..2000)
        .map(|_| centre(groups, |group| (0..group.len()).map(|_| group[random.below(group.len())]).collect()))
        .collect();
    draws.sort_unstable_by(f64::total_cmp);
    Estimate { value: centre(groups, Clone::clone), low: draws[50], high: draws[1949] }
}

fn centre(groups: &[Vec<f64>], mut sample: impl FnMut(&Vec<f64>) -> Vec<f64>) -> f64 {
    let medians: Vec<f64> = groups.iter().filter(|group| !group.is_empty()).map(|g| median(sample(g)).ln()).collect();
    (medians.iter().sum::<f64>() / medians.len() as f64).exp()
}

/// A linear congruential generator (Knuth's MMIX constants): order and samples need no better.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed ^ 0x9e37_79b9_7f4a_7c15)
    }

    /// A number below the bound.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % bound
    }

    /// Puts the elements in random order (Fisher and Yates).
    pub(crate) fn shuffle<T>(&mut self, of: &mut [T]) {
        for at in (1..of.len()).rev() {
            of.swap(at, self.below(at + 1));
        }
    }
}
