//! A phase of both traces while it is compared.

use super::align::{Fit, Item, Pattern, Shapes, align};
use super::causes::{KernelShares, Measured, Weights, barrier_share, kernel_of_both, weights};
use super::changes::{
    CauseChange, ComparedOperator, CounterChange, Judged, LayerChange, OperatorChange, PhaseChange, PhaseSide, judged,
};
use super::pieces;
use super::resample::{Allowed, Resampler, Steps};
use super::series::{Block, Key, PhaseSeries, Series};
use super::size::{Chosen, Compared, choose};
use crate::ids::Phase;
use indexmap::IndexMap;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A phase of both traces while it is compared.
pub(super) struct PhaseComparison<'a> {
    a: &'a PhaseSeries,
    b: &'a PhaseSeries,
    again: Vec<&'a PhaseSeries>,
    noise: f64,
    shares: [KernelShares; 2],
    compared: Compared,
    chosen: [Chosen; 2],
    resampler: Resampler,
}

impl<'a> PhaseComparison<'a> {
    pub(super) fn new(
        a: &'a PhaseSeries,
        b: &'a PhaseSeries,
        again: Vec<&'a PhaseSeries>,
        noise: f64,
        shares: [KernelShares; 2],
    ) -> Self {
        let all_whole = a.all == a.whole && b.all == b.whole;
        let (of_a, of_b) = (a.sized(), b.sized());
        let paired = all_whole && of_a == of_b && a.tokens == b.tokens;
        let (compared, chosen) = choose(&of_a, &of_b, paired);
        let of = |side: &PhaseSeries, chosen: &Chosen| {
            (side.values(chosen, |block| block.steps), side.values(chosen, |block| block.time))
        };
        let (steps_a, steps_b) = (of(a, &chosen[0]), of(b, &chosen[1]));
        let resampler = Resampler::new(
            Steps { steps: &steps_a.0, time: &steps_a.1, groups: &chosen[0].groups },
            Steps { steps: &steps_b.0, time: &steps_b.1, groups: &chosen[1].groups },
            paired,
        );
        Self { a, b, again, noise, shares, compared, chosen, resampler }
    }

    /// Compares what each trace has of a quantity.
    fn of_all(&self, of: fn(&Block) -> f64) -> Judged {
        let first = self.a.mean(of);
        let others = self.again.iter().map(|again| again.mean(of));
        let allowed = Allowed { part: self.noise_of(first, others), ..Allowed::default() };
        let (a, b) = (self.a.values(&self.chosen[0], of), self.b.values(&self.chosen[1], of));
        judged(self.resampler.compare(&a, &b, allowed))
    }

    /// Compares the time of rows; of too few steps, row by row.
    fn of_rows(&self, a: &[usize], b: &[usize]) -> Judged {
        let others = self.again.iter().map(|again| again.mean_time_of(&again.same_rows(self.a, a)));
        let noise = self.noise_of(self.a.mean_time_of(a), others);
        if self.few() {
            return judged(pieces::compare(&self.pieces(a, b, false), noise));
        }
        let (of_a, of_b) = (self.a.time_of(a, &self.chosen[0]), self.b.time_of(b, &self.chosen[1]));
        judged(self.resampler.compare(&of_a, &of_b, Allowed { part: noise, ..Allowed::default() }))
    }

    /// Duration of a step.
    fn of_time(&self) -> Judged {
        let found = self.of_all(|block| block.time);
        if !self.few() {
            return found;
        }
        let others = self.again.iter().map(|again| again.mean(|block| block.time));
        let noise = self.noise_of(self.a.mean(|block| block.time), others);
        let (a, b): (Vec<usize>, Vec<usize>) = ((0..self.a.rows.len()).collect(), (0..self.b.rows.len()).collect());
        judged(pieces::compare(&self.pieces(&a, &b, true), noise))
    }

    fn few(&self) -> bool {
        self.resampler.has_too_few()
    }

    /// Time of the rows that are in both traces, and what is in one only as one more piece; with `rest` all else of a
    /// step, too. ns of a step.
    fn pieces(&self, a: &[usize], b: &[usize], rest: bool) -> Vec<(f64, f64)> {
        let sum = |side: &PhaseSeries, at: usize, rows: &[usize]| -> f64 {
            let steps: f64 = side.values(&self.chosen[at], |block| block.steps).iter().sum();
            if steps > 0.0 { side.time_of(rows, &self.chosen[at]).iter().sum::<f64>() / steps } else { 0.0 }
        };
        let mut left: BTreeSet<usize> = b.iter().copied().collect();
        let (mut pieces, mut alone) = (Vec::new(), (0.0, 0.0));
        for row in a {
            let time = sum(self.a, 0, &[*row]);
            match self.b.same_rows(self.a, &[*row]).first().filter(|same| left.remove(same)) {
                Some(same) => pieces.push((time, sum(self.b, 1, &[*same]))),
                None => alone.0 += time,
            }
        }
        alone.1 += left.iter().map(|row| sum(self.b, 1, &[*row])).sum::<f64>();
        if rest {
            let whole = self.of_all(|block| block.time).change;
            let covered = pieces.iter().fold(alone, |sum, piece| (sum.0 + piece.0, sum.1 + piece.1));
            alone = (alone.0 + (whole.a - covered.0).max(0.0), alone.1 + (whole.b - covered.1).max(0.0));
        }
        pieces.push(alone);
        pieces
    }

    /// Where a step's time went. What is let pass is a part of the step: a small cause may double by chance.
    fn causes(&self, time: &Judged) -> Vec<CauseChange> {
        if self.a.unmeasured || self.b.unmeasured || self.a.whole == 0 || self.b.whole == 0 {
            return Vec::new();
        }
        let kernel = kernel_of_both(&self.shares[0], &self.shares[1]);
        let whole = time.change.a.max(time.change.b);
        let mean = |side: &PhaseSeries, at: usize| -> Measured {
            let steps: f64 = side.values(&self.chosen[at], |block| block.steps).iter().sum();
            std::array::from_fn(|place| {
                let sum: f64 = side.values(&self.chosen[at], |block| block.measured[place]).iter().sum();
                if steps > 0.0 { sum / steps } else { 0.0 }
            })
        };
        let (mean_a, mean_b) = (mean(self.a, 0), mean(self.b, 1));
        let barriers = barrier_share(&mean_a).zip(barrier_share(&mean_b));
        let of_a = weights(&self.shares[0], kernel, barriers.map(|(a, _)| a));
        let of_b = weights(&self.shares[1], kernel, barriers.map(|(_, b)| b));
        let cause = |(of_a, of_b): (Weights, Weights)| {
            let first = self.a.mean(|block| of_a.apply(&block.measured));
            let other = |again: &&PhaseSeries| (again.mean(|block| of_a.apply(&block.measured)) - first).abs();
            let noise = self.again.iter().map(|again| other(again) / whole.max(1.0)).fold(self.noise, f64::max);
            let variance = of_a.variance(&mean_a) + of_b.variance(&mean_b);
            let allowed = Allowed { part: noise, of: Some(whole), variance };
            let values_a = self.a.values(&self.chosen[0], |block| of_a.apply(&block.measured));
            let values_b = self.b.values(&self.chosen[1], |block| of_b.apply(&block.measured));
            let change = self.resampler.compare(&values_a, &values_b, allowed);
            CauseChange { cause: of_a.cause, time: judged(change), estimate: of_a.estimate || of_b.estimate }
        };
        of_a.into_iter().zip(of_b).map(cause).collect()
    }

    /// The part by which further runs differ from the first trace, at least the ignored difference.
    fn noise_of(&self, first: f64, others: impl Iterator<Item = f64>) -> f64 {
        let largest = |other: f64| other.max(first);
        let part = |other: f64| if largest(other) > 0.0 { (other - first).abs() / largest(other) } else { 0.0 };
        others.map(part).fold(self.noise, f64::max)
    }

    pub(super) fn change(&self, phase: Phase, sides: [&Series; 2]) -> PhaseChange {
        let (a, b) = (self.a, self.b);
        let side = |of: &PhaseSeries| PhaseSide {
            steps: of.all,
            whole_steps: of.whole,
            tokens: of.tokens,
            lanes: of.lanes,
            left_out: of.left_out,
        };
        let (items_a, rows_a) = patterns(a);
        let (items_b, rows_b) = patterns(b);
        let rows = |at: &[usize], rows: &[Vec<usize>]| at.iter().flat_map(|at| rows[*at].clone()).collect::<Vec<_>>();
        let mut operators: Vec<OperatorChange> = align(&items_a, &items_b)
            .into_iter()
            .map(|found| {
                let (of_a, of_b) = (rows(&found.a, &rows_a), rows(&found.b, &rows_b));
                let described = |at: &[usize], items: &[Item], rows: &[Vec<usize>], of: &PhaseSeries| {
                    at.iter().map(|at| describe(&items[*at], &rows[*at], of)).collect()
                };
                self.operator(
                    found.fit,
                    (described(&found.a, &items_a, &rows_a, a), &of_a),
                    (described(&found.b, &items_b, &rows_b, b), &of_b),
                    sides,
                )
            })
            .collect();
        operators.sort_by(|x, y| {
            let size = |of: &OperatorChange| of.time.change.difference().abs();
            let names = |of: &OperatorChange| of.a.iter().chain(&of.b).map(|of| of.name.clone()).collect::<Vec<_>>();
            size(y).total_cmp(&size(x)).then_with(|| names(x).cmp(&names(y)))
        });
        let layers = self.layers(&(0..a.rows.len()).collect::<Vec<_>>(), &(0..b.rows.len()).collect::<Vec<_>>());
        let time = self.of_time();
        PhaseChange {
            phase,
            sides: [side(a), side(b)],
            paired: self.resampler.paired,
            compared: self.compared,
            few: self.few(),
            causes: self.causes(&time),
            time,
            between: self.of_all(|block| block.between),
            outside: self.of_all(|block| block.outside),
            operators,
            odd: Vec::new(),
            layers,
        }
    }

    fn operator(
        &self,
        fit: Fit,
        (a, rows_a): (Vec<ComparedOperator>, &[usize]),
        (b, rows_b): (Vec<ComparedOperator>, &[usize]),
        sides: [&Series; 2],
    ) -> OperatorChange {
        let time = self.of_rows(rows_a, rows_b);
        let totals = |side: &PhaseSeries, at: usize, rows: &[usize]| {
            let steps: f64 = side.values(&self.chosen[at], |block| block.steps).iter().sum();
            side.totals_of(rows, &self.chosen[at]).map(|total| if steps > 0.0 { total / steps } else { 0.0 })
        };
        let (totals_a, totals_b) = (totals(self.a, 0, rows_a), totals(self.b, 1, rows_b));
        let both = |at: usize| [totals_a[at], totals_b[at]];
        OperatorChange {
            fit,
            a,
            b,
            time,
            work: both(0),
            waiting: both(1),
            calls: both(2),
            counters: self.counters(rows_a, rows_b, sides),
            layers: self.layers(rows_a, rows_b),
        }
    }

    /// Counters by name. Where there is no operator in a trace, its count is 0 as its time is.
    fn counters(&self, rows_a: &[usize], rows_b: &[usize], [a, b]: [&Series; 2]) -> Vec<CounterChange> {
        let names: BTreeSet<&Arc<str>> = a.counters.iter().chain(&b.counters).collect();
        let of = |name: &Arc<str>, side: &Series, series: &PhaseSeries, rows: &[usize], chosen: &Chosen| {
            let column = side.counters.iter().position(|counter| counter == name)?;
            if rows.is_empty() { Some(vec![0.0; chosen.blocks.len()]) } else { series.counts_of(rows, column, chosen) }
        };
        let allowed = Allowed { part: self.noise, ..Allowed::default() };
        let change = |name: &Arc<str>| {
            let of_a = of(name, a, self.a, rows_a, &self.chosen[0])?;
            let of_b = of(name, b, self.b, rows_b, &self.chosen[1])?;
            Some(CounterChange {
                counter: Arc::clone(name),
                count: judged(self.resampler.compare(&of_a, &of_b, allowed)),
            })
        };
        names.into_iter().filter_map(change).collect()
    }

    fn layers(&self, rows_a: &[usize], rows_b: &[usize]) -> Vec<LayerChange> {
        let mut layers: BTreeMap<Option<&Arc<str>>, [Vec<usize>; 2]> = BTreeMap::new();
        for (side, series, rows) in [(0, self.a, rows_a), (1, self.b, rows_b)] {
            for (at, (Key { layer, .. }, _)) in rows.iter().filter_map(|at| Some((*at, series.rows.get(*at)?))) {
                layers.entry(layer.as_ref()).or_default()[side].push(at);
            }
        }
        let change = |(layer, [a, b]): (Option<&Arc<str>>, [Vec<usize>; 2])| LayerChange {
            layer: layer.cloned(),
            time: self.of_rows(&a, &b),
        };
        let mut layers: Vec<LayerChange> = layers.into_iter().map(change).collect();
        let number = |layer: &LayerChange| {
            let name = layer.layer.as_deref();
            (name.is_none(), name.map_or(Ok(0), str::parse::<u64>).unwrap_or(u64::MAX))
        };
        layers.sort_by_key(number);
        layers
    }
}

/// The distinct operators of a phase whatever their layer, in the order of execution, and the rows of each.
fn patterns(series: &PhaseSeries) -> (Vec<Item>, Vec<Vec<usize>>) {
    let mut items: IndexMap<Pattern, (Shapes, Vec<usize>)> = IndexMap::new();
    for (at, key, row) in series.in_order() {
        let pattern = Pattern { op: key.op.clone(), name: key.name.clone(), covers: key.covers.clone() };
        let (shapes, rows) = items.entry(pattern).or_default();
        shapes.extend(row.shapes.iter().cloned());
        rows.push(at);
    }
    items.into_iter().map(|(pattern, (shapes, rows))| (Item { pattern, shapes }, rows)).unzip()
}

fn describe(item: &Item, rows: &[usize], of: &PhaseSeries) -> ComparedOperator {
    let text = |text: &Arc<str>| text.to_string();
    let rows = || rows.iter().filter_map(|at| of.rows.get(*at)).map(|(_, row)| row);
    let dtypes: BTreeSet<&Arc<str>> = rows().flat_map(|row| &row.dtypes).collect();
    let backends: BTreeSet<&Arc<str>> = rows().flat_map(|row| &row.backends).collect();
    let weights: BTreeSet<&String> = rows().flat_map(|row| &row.weights).collect();
    ComparedOperator {
        op: text(&item.pattern.op),
        name: text(&item.pattern.name),
        covers: item.pattern.covers.as_ref().map(text),
        shapes: item.shapes.iter().take(4).map(|shape| shape.to_vec()).collect(),
        dtypes: dtypes.into_iter().map(text).collect(),
        backends: backends.into_iter().map(text).collect(),
        weights: weights.into_iter().cloned().collect(),
    }
}
