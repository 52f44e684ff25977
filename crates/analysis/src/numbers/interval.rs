//! Intervals of confidence.

/// Student's t for an interval of 95 %, by degrees of freedom from 1.
const T: [f64; 31] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042, 2.040,
];

/// Student's t for an interval of 95 %.
pub(crate) fn t_of(freedom: usize) -> f64 {
    T.get(freedom.clamp(1, T.len()) - 1).copied().unwrap_or(2.0)
}
