//! Too few steps to compare: then the operators of these steps, one by one, show whether a difference is more than one
//! disturbance. It works on numbers only.

use super::resample::{Change, Draws};

/// A difference below this part is let pass between so few steps.
pub(super) const NOISE_OF_FEW: f64 = 0.1;
/// Operators that a comparison needs, the longest counting most.
const ENOUGH: f64 = 4.0;

/// Compares a quantity by its pieces: first, second. Differences of the part `noise` are let pass.
pub(super) fn compare(pieces: &[(f64, f64)], noise: f64) -> Change {
    let (a, b) = pieces.iter().fold((0.0, 0.0), |sum, piece| (sum.0 + piece.0, sum.1 + piece.1));
    let mut change = Change { a, b, ..Change::default() };
    let squares: f64 = pieces.iter().map(|(a, b)| (a + b).powi(2)).sum();
    let effective = if squares > 0.0 { (a + b).powi(2) / squares } else { 0.0 };
    if effective < ENOUGH || a <= 0.0 || b <= 0.0 {
        return change;
    }
    let draws = Draws::new(pieces.len());
    let ratios: Vec<f64> = draws.sums(pieces).filter(|(a, b)| *a > 0.0 && *b > 0.0).map(|(a, b)| b / a - 1.0).collect();
    let found = b / a - 1.0;
    let Some((low, high, spread)) = super::resample::spread(&ratios, found) else { return change };
    let widened = (effective / (effective - 1.0)).sqrt();
    change.relative_interval = Some((low, high));
    change.interval = Some((low * a, high * a));
    let beyond = found.abs() - noise.max(NOISE_OF_FEW) * a.max(b) / a;
    change.chance = Some(super::resample::chance(beyond, spread * widened, effective as usize - 1));
    change
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_all_operators_is_found_and_one_disturbance_is_not() {
        let mut random = fastrand::Rng::with_seed(5);
        let mut pieces = |factor: f64| -> Vec<(f64, f64)> {
            let piece = |_| {
                let a = random.f64() * 100.0 + 20.0;
                (a, a * factor * (0.95 + random.f64() / 10.0))
            };
            (0..60).map(piece).collect()
        };
        let change = compare(&pieces(1.86), 0.02);
        assert!(change.chance.unwrap() < 0.001, "{change:?}");
        assert!((change.relative().unwrap() - 0.86).abs() < 0.05, "{change:?}");
        for _ in 0..20 {
            assert!(compare(&pieces(1.05), 0.02).chance.unwrap() > 0.5);
        }
        let mut disturbed = pieces(1.0);
        disturbed[7].1 += 3000.0;
        assert!(compare(&disturbed, 0.02).chance.unwrap() > 0.05, "{:?}", compare(&disturbed, 0.02));
    }

    #[test]
    fn a_single_operator_shows_nothing() {
        assert_eq!(compare(&[(100.0, 300.0), (1.0, 1.0), (1.0, 1.0), (1.0, 1.0)], 0.02).chance, None);
        assert_eq!(compare(&[], 0.02), Change::default());
    }
}
