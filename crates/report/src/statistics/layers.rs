//! Layers beside one another, and the odd one out: called so where it stands out of the others and of chance.

use super::Given;
use crate::numbers::ratios::natural_order;
use crate::numbers::table::{Align, Table};
use crate::numbers::units::time_f64;
use crate::text::TextStyle;
use Align::{Flexible, Left, Right};
use profinfer_analysis::{JudgedLayer, LayerSeries, Phase, judge_layers, median};
use serde::Serialize;
use std::collections::BTreeMap;

/// Layers that are listed.
const MOST_ROWS: usize = 2048;
/// Layers that are shown.
const SHOWN: usize = 12;

/// The section.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LayersSection {
    /// By phase and model, in the order of the model.
    pub layers: Vec<LayerStatistics>,
    /// Layers beyond those.
    pub left_out: u64,
    /// Why there is nothing.
    pub absent: Option<String>,
}

/// A layer in a phase.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LayerStatistics {
    /// `prefill` or `decode`.
    pub phase: &'static str,
    /// Which model: an index into `models.models`.
    pub model: u32,
    /// The layer.
    pub layer: String,
    /// Steps.
    pub steps: u64,
    /// Mean work in a step, all lanes together, ns.
    pub work_ns: f64,
    /// How much more that is than in the median layer of the same step, as a part of it.
    pub off: f64,
    /// Half the width of its 95 % interval; `None` where there are too few steps.
    pub off_half_width: Option<f64>,
    /// `off` less the median of all layers, in standard deviations as the layers' median deviation gives them.
    pub z: f64,
    /// It is odd: beyond 3.5 of these, by more than 5 %, and not by chance.
    pub odd: bool,
    /// How much more it has to do than the median layer, by the probeset's costs (operations, or bytes where that is
    /// more); `None` where these are not available.
    pub work_off: Option<f64>,
    /// Where most of the difference is; for odd layers only.
    pub because: Option<OddOperator>,
}

/// An operator of an odd layer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OddOperator {
    /// Name, numbers as `*`.
    pub name: String,
    /// Type.
    pub op: String,
    /// Its work in a step, less that of the median layer, ns.
    pub more_ns: f64,
}

impl LayersSection {
    pub(super) fn new(given: &Given<'_>) -> Self {
        let mut groups: BTreeMap<(Phase, u32), Vec<(&str, &LayerSeries)>> = BTreeMap::new();
        for (phase, model, layer, series) in given.study.layers.all() {
            groups.entry((phase, model)).or_default().push((&**layer, series));
        }
        let mut rows = Vec::new();
        for ((phase, model), mut layers) in groups {
            layers.sort_by(|a, b| natural_order(Some(a.0), Some(b.0)));
            rows.extend(judge(phase, model, &layers));
        }
        for row in rows.iter_mut().filter(|row| row.odd) {
            row.because = because(given, row);
        }
        let left_out = rows.len().saturating_sub(MOST_ROWS) as u64;
        rows.truncate(MOST_ROWS);
        let why = "No step has four layers or more whose operators were recorded.";
        Self { absent: rows.is_empty().then(|| why.to_owned()), layers: rows, left_out }
    }

    pub(super) fn text(&self, out: &mut String, style: &TextStyle) {
        if let Some(why) = &self.absent {
            return super::absent(out, style, "Layers", why);
        }
        let mut table = Table::new(&[
            ("phase", Left),
            ("model", Right),
            ("layer", Right),
            ("steps", Right),
            ("mean", Right),
            ("off the median", Right),
            ("±", Right),
            ("z", Right),
            ("work to do", Right),
            ("", Left),
            ("mostly", Flexible),
        ]);
        let odd = self.layers.iter().filter(|row| row.odd).count();
        let several = self.layers.iter().any(|row| row.model > 0);
        let mut order: Vec<&LayerStatistics> = self.layers.iter().collect();
        // Layers with too few steps come last.
        let has_interval = |row: &LayerStatistics| row.off_half_width.is_some();
        let by_size = |a: &LayerStatistics, b: &LayerStatistics| b.off.abs().total_cmp(&a.off.abs());
        order.sort_by(|a, b| (b.odd, has_interval(b)).cmp(&(a.odd, has_interval(a))).then_with(|| by_size(a, b)));
        for row in order.iter().take(SHOWN.max(odd.min(2 * SHOWN))) {
            let because = row.because.as_ref().map(|because| {
                let sign = if because.more_ns < 0.0 { "−" } else { "+" };
                format!("{} ({sign}{})", because.name, time_f64(because.more_ns.abs()))
            });
            table.row(vec![
                row.phase.to_owned(),
                if several { row.model.to_string() } else { String::new() },
                row.layer.clone(),
                profinfer_analysis::group_digits(row.steps),
                time_f64(row.work_ns),
                super::signed_share(row.off),
                row.off_half_width.map(crate::numbers::units::share).unwrap_or_default(),
                format!("{:.1}", row.z),
                row.work_off.map(super::signed_share).unwrap_or_default(),
                if row.odd { "odd".to_owned() } else { String::new() },
                because.unwrap_or_default(),
            ]);
        }
        let more = self.layers.len().saturating_sub(order.len().min(SHOWN.max(odd.min(2 * SHOWN))));
        let more = (more > 0).then(|| format!("… and {more} more; `--json` lists all"));
        style.table(out, "Layers (work beside the median layer of the same step)", &table, more);
        if odd == 0 {
            out.push_str("  No layer is odd: no difference exceeds that of the others and of chance.\n");
        }
    }
}

fn judge(phase: Phase, model: u32, layers: &[(&str, &LayerSeries)]) -> Vec<LayerStatistics> {
    let steps = |series: &LayerSeries| series.off.all().n;
    let typical = |of: fn(&LayerSeries) -> Option<f64>| {
        let values: Option<Vec<f64>> =
            layers.iter().map(|(_, series)| Some(of(series)? / steps(series).max(1.0))).collect();
        median(&mut values?).filter(|median| *median > 0.0)
    };
    let (flops, bytes) = (typical(|series| series.flops), typical(|series| series.bytes));
    let row = |((layer, series), judged): (&(&str, &LayerSeries), JudgedLayer)| {
        let JudgedLayer { off, off_half_width, z, odd } = judged;
        let n = steps(series).max(1.0);
        let of = |sum: Option<f64>, typical: Option<f64>| Some(sum? / n / typical? - 1.0);
        let work = [of(series.flops, flops), of(series.bytes, bytes)];
        LayerStatistics {
            phase: phase.as_str(),
            model,
            layer: (*layer).to_owned(),
            steps: steps(series) as u64,
            work_ns: series.work as f64 / n,
            off,
            off_half_width,
            z,
            odd,
            work_off: work.into_iter().flatten().max_by(|a, b| a.abs().total_cmp(&b.abs())),
            because: None,
        }
    };
    layers.iter().zip(judge_layers(layers.iter().map(|(_, series)| *series))).map(row).collect()
}

/// The operator that differs most from what it is in the median layer.
fn because(given: &Given<'_>, row: &LayerStatistics) -> Option<OddOperator> {
    let mut by_operator: BTreeMap<(&str, &str), BTreeMap<&str, f64>> = BTreeMap::new();
    for (id, _, phase, totals) in given.statistics.operators() {
        let kind = given.catalogue.kind(id);
        if let (Some(layer), true) = (kind.layer.as_deref(), phase.as_str() == row.phase) {
            let layers = by_operator.entry((&*kind.pattern, &*kind.op)).or_default();
            *layers.entry(layer).or_default() += totals.work as f64;
        }
    }
    let mut most: Option<OddOperator> = None;
    for ((name, op), layers) in by_operator {
        let mut values: Vec<f64> = layers.values().copied().collect();
        let (Some(time), Some(typical)) = (layers.get(row.layer.as_str()), median(&mut values)) else { continue };
        let more_ns = (time - typical) / row.steps.max(1) as f64;
        // It must differ in the direction in which the layer does.
        if more_ns * row.off > 0.0 && most.as_ref().is_none_or(|most| more_ns.abs() > most.more_ns.abs()) {
            most = Some(OddOperator { name: name.to_owned(), op: op.to_owned(), more_ns });
        }
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layers(of: impl Fn(usize, f64) -> f64) -> Vec<LayerSeries> {
        let series = |layer: usize| {
            let mut series = LayerSeries::default();
            (0..100).for_each(|i| series.off.push(f64::from(i), of(layer, f64::from(i))));
            series
        };
        (0..12).map(series).collect()
    }

    fn odd(layers: &[LayerSeries]) -> Vec<String> {
        let names: Vec<String> = (0..layers.len()).map(|i| i.to_string()).collect();
        let named: Vec<(&str, &LayerSeries)> = names.iter().map(String::as_str).zip(layers).collect();
        let rows = judge(Phase::Decode, 0, &named);
        rows.into_iter().filter(|row| row.odd).map(|row| row.layer).collect()
    }

    #[test]
    fn a_layer_is_odd_where_it_stands_out_of_the_others_and_of_chance() {
        let noise = |layer: usize, i: f64| 0.02 * ((layer as f64 + 1.3) * i).sin();
        assert_eq!(odd(&layers(|layer, i| noise(layer, i) + if layer == 7 { 0.3 } else { 0.0 })), ["7"]);
        assert_eq!(odd(&layers(noise)), Vec::<String>::new());
        // Three steps of a hundred were disturbed, and that is no property of the layer.
        let disturbed = |layer: usize, i: f64| noise(layer, i) + if layer == 7 && i < 3.0 { 9.0 } else { 0.0 };
        assert_eq!(odd(&layers(disturbed)), Vec::<String>::new());
        // All differ from one another as much.
        assert_eq!(odd(&layers(|layer, i| noise(layer, i) + 0.1 * layer as f64)), Vec::<String>::new());
    }

    #[test]
    fn a_layer_that_has_more_to_do_is_said_to() {
        let mut layers = layers(|layer, _| if layer == 7 { 0.5 } else { 0.0 });
        for (layer, series) in layers.iter_mut().enumerate() {
            series.flops = Some(if layer == 7 { 150.0 } else { 100.0 });
            series.bytes = Some(if layer == 7 { 100.0 } else { 80.0 });
        }
        let names: Vec<String> = (0..layers.len()).map(|i| i.to_string()).collect();
        let of = |layers: &[LayerSeries]| {
            let named: Vec<(&str, &LayerSeries)> = names.iter().map(String::as_str).zip(layers).collect();
            judge(Phase::Decode, 0, &named).into_iter().map(|row| row.work_off).collect::<Vec<_>>()
        };
        assert_eq!((of(&layers)[7], of(&layers)[0]), (Some(0.5), Some(0.0)), "by operations, of which it has more");
        layers[3].flops = None;
        assert_eq!(of(&layers)[7], Some(0.25), "by bytes, where not all have operations");
    }
}
