//! Layers that changed unlike the others: what all layers have in common is of the whole, not of a layer.

use super::changes::{Judgement, LayerChange, OddLayer};
use crate::numbers::median;

/// So many median deviations from the median are odd.
const FAR: f64 = 3.5;
/// Layers that show what is usual.
const ENOUGH: usize = 4;

/// The layers whose relative change is far from that of the others, by more than the part `noise`.
pub(super) fn layers(layers: &[LayerChange], noise: f64) -> Vec<OddLayer> {
    let relative = |of: &LayerChange| of.layer.as_ref().and_then(|_| of.time.change.relative());
    let changes: Vec<(usize, f64)> =
        layers.iter().enumerate().filter_map(|(at, of)| Some((at, relative(of)?))).collect();
    if changes.len() < ENOUGH {
        return Vec::new();
    }
    let middle = |mut of: Vec<f64>| median(&mut of).unwrap_or(0.0);
    let usual = middle(changes.iter().map(|(_, change)| *change).collect());
    let deviation = middle(changes.iter().map(|(_, change)| (change - usual).abs()).collect());
    let is_odd = |(at, change): &(usize, f64)| {
        let significant = matches!(layers[*at].time.judgement, Judgement::More | Judgement::Less);
        // As a part of the larger time, as the ignored difference is.
        let apart = (change - usual).abs() / (1.0 + change.max(usual)).max(f64::MIN_POSITIVE);
        significant && apart > noise && (change - usual).abs() > FAR * deviation
    };
    let odd = changes.iter().filter(|change| is_odd(change));
    odd.map(|(at, _)| OddLayer { layer: *at, others: usual }).collect()
}

#[cfg(test)]
mod tests {
    use super::super::changes::Judged;
    use super::super::resample::Change;
    use super::*;

    fn layer(number: usize, change: f64, judgement: Judgement) -> LayerChange {
        let change = Change { a: 100.0, b: 100.0 * (1.0 + change), ..Change::default() };
        LayerChange { layer: Some(number.to_string().into()), time: Judged { change, chance: None, judgement } }
    }

    #[test]
    fn one_layer_of_sixteen_is_odd_and_all_of_them_are_not() {
        let mut of: Vec<LayerChange> =
            (0..16).map(|number| layer(number, 0.002 * number as f64, Judgement::NotSignificant)).collect();
        assert_eq!(layers(&of, 0.02), []);
        of[7] = layer(7, 0.457, Judgement::More);
        let [odd] = layers(&of, 0.02)[..] else { panic!() };
        assert!(odd.layer == 7 && (odd.others - 0.016).abs() < 0.01, "{odd:?}");
        assert_eq!(layers(&of, 0.5), []);
        of[7] = layer(7, 0.457, Judgement::NotSignificant);
        assert_eq!(layers(&of, 0.02), []);
        let slower: Vec<LayerChange> = (0..16).map(|number| layer(number, 0.45, Judgement::More)).collect();
        assert_eq!(layers(&slower, 0.02), []);
        assert_eq!(layers(&of[..3], 0.02), []);
    }
}
