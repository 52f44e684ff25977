//! How exact a share is that samples give.

/// The normal distribution's quantile for an interval of 95 %.
const Z: f64 = 1.96;

/// Wilson's 95 % interval of a share, of `of` samples that are independent.
#[allow(clippy::cast_precision_loss, reason = "an interval needs no more")]
pub(crate) fn wilson(count: u64, of: u64) -> (f64, f64) {
    if of == 0 {
        return (0.0, 1.0);
    }
    let (n, share) = (of as f64, count as f64 / of as f64);
    let middle = share + Z * Z / (2.0 * n);
    let half = Z * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    let scale = 1.0 + Z * Z / n;
    (((middle - half) / scale).max(0.0), ((middle + half) / scale).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_of_a_textbook() {
        let near = |(low, high): (f64, f64), expected: (f64, f64)| {
            assert!((low - expected.0).abs() < 5e-4 && (high - expected.1).abs() < 5e-4, "{low} {high}");
        };
        near(wilson(10, 100), (0.0552, 0.1744));
        near(wilson(0, 20), (0.0, 0.1611));
        near(wilson(81, 263), (0.2553, 0.3662));
        near(wilson(0, 0), (0.0, 1.0));
    }
}
