//! Two traces, compared: how long a step of each phase takes, and where the difference comes from, by operator and by
//! layer; and of each difference whether it is more than noise. It knows no text and no file.

mod align;
mod resample;
mod series;

pub use align::Fit;
pub use resample::Change;
pub use series::Series;

use super::step::Phase;
use align::{Item, Pattern, Shapes, align};
use indexmap::IndexMap;
use resample::{Resampler, among_many};
use series::{Blocks, Key, PhaseSeries};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A difference that chance makes as often as this is not significant.
pub const SIGNIFICANT: f64 = 0.05;

/// What a difference amounts to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Judgement {
    /// The second takes longer (or counts more), and that is more than noise.
    More,
    /// It takes less, and that is more than noise.
    Less,
    /// What there is may be noise.
    NotSignificant,
    /// Too few steps to tell.
    Unknown,
}

impl Judgement {
    /// `more`, `less`, `not_significant`, `unknown`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::More => "more",
            Self::Less => "less",
            Self::NotSignificant => "not_significant",
            Self::Unknown => "unknown",
        }
    }
}

/// A change, judged among all others of its kind.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judged {
    /// The change.
    pub change: Change,
    /// How likely chance makes one as large among so many.
    pub chance: Option<f64>,
    /// What it amounts to.
    pub judgement: Judgement,
}

/// What operators of one trace are described as.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
pub struct ComparedOperator {
    /// Type.
    pub op: String,
    /// Name, its layer's number as `*`.
    pub name: String,
    /// What was computed along with it.
    pub covers: Option<String>,
    /// Shapes, the first few.
    pub shapes: Vec<Vec<i64>>,
    /// Element types.
    pub dtypes: Vec<String>,
    /// Backends.
    pub backends: Vec<String>,
    /// Types of the model's weights among its inputs, where the probeset says what these are.
    pub weights: Vec<String>,
}

/// A counter of operators.
#[derive(Debug, Clone, PartialEq)]
pub struct CounterChange {
    /// Its name.
    pub counter: Arc<str>,
    /// A step.
    pub change: Change,
}

/// Operators that go together in both traces.
#[derive(Debug, Clone, PartialEq)]
pub struct OperatorChange {
    /// How they were matched.
    pub fit: Fit,
    /// In the first trace.
    pub a: Vec<ComparedOperator>,
    /// In the second.
    pub b: Vec<ComparedOperator>,
    /// Time on the clock, ns a step.
    pub time: Judged,
    /// How many are computed a step: first, second.
    pub calls: [f64; 2],
    /// Work of all lanes together, ns a step.
    pub work: [f64; 2],
    /// Waiting of all lanes together, ns a step.
    pub waiting: [f64; 2],
    /// Counters that both traces have, or one where the operators are in one only.
    pub counters: Vec<CounterChange>,
    /// The same time by layer, in the order of the layers.
    pub layers: Vec<LayerChange>,
}

/// A layer of the model.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerChange {
    /// Its name; `None` for operators of no layer.
    pub layer: Option<Arc<str>>,
    /// Time on the clock, ns a step.
    pub time: Judged,
}

/// One trace's side of a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PhaseSide {
    /// Complete steps.
    pub steps: u64,
    /// Of them, those that were recorded whole, which all else is of.
    pub whole_steps: u64,
    /// Their tokens, where each says them.
    pub tokens: Option<u64>,
    /// The most lanes that a step had.
    pub lanes: u64,
    /// Operators beyond those that are kept apart.
    pub left_out: u64,
}

/// A phase in both traces.
#[derive(Debug, Clone, PartialEq)]
pub struct PhaseChange {
    /// Which.
    pub phase: Phase,
    /// First and second.
    pub sides: [PhaseSide; 2],
    /// The steps of both are the same one by one, and were compared so.
    pub paired: bool,
    /// Duration of a step, ns.
    pub time: Judged,
    /// Of it: in graphs, but in no operator.
    pub between: Judged,
    /// Of it: in no graph.
    pub outside: Judged,
    /// By operator, the largest difference first.
    pub operators: Vec<OperatorChange>,
    /// By layer, in the order of the model.
    pub layers: Vec<LayerChange>,
}

/// Compares two traces, phase by phase. Differences of less than the part `noise` are let pass, and those that are no
/// larger than the ones between the first trace and further runs of the same.
pub fn compare(a: &Series, b: &Series, again: &[&Series], noise: f64) -> Vec<PhaseChange> {
    let none = PhaseSeries::default();
    let phases = [Phase::Prefill, Phase::Decode].into_iter().filter_map(|phase| {
        let sides = [a, b].map(|side| side.phases.get(&phase));
        sides.iter().flatten().next()?;
        let [of_a, of_b] = sides.map(|side| side.unwrap_or(&none));
        let again = again.iter().filter_map(|again| again.phases.get(&phase)).collect();
        Some(PhaseComparison::new(of_a, of_b, again, noise).change(phase, [a, b]))
    });
    let mut phases: Vec<PhaseChange> = phases.collect();
    judge_all(phases.iter_mut().map(|phase| &mut phase.time).collect());
    phases
}

/// A phase of both traces while it is compared.
struct PhaseComparison<'a> {
    a: &'a PhaseSeries,
    b: &'a PhaseSeries,
    again: Vec<&'a PhaseSeries>,
    noise: f64,
    resampler: Resampler,
}

impl<'a> PhaseComparison<'a> {
    fn new(a: &'a PhaseSeries, b: &'a PhaseSeries, again: Vec<&'a PhaseSeries>, noise: f64) -> Self {
        let all_whole = a.all == a.whole && b.all == b.whole;
        let paired = all_whole && a.steps == b.steps && a.tokens == b.tokens;
        let resampler = Resampler::new((&a.steps, &a.time), (&b.steps, &b.time), paired);
        Self { a, b, again, noise, resampler }
    }

    /// Compares what each trace has of a quantity.
    fn of_all(&self, of: fn(&PhaseSeries) -> &Blocks) -> Judged {
        let first = self.a.mean(of(self.a));
        let others = self.again.iter().map(|again| again.mean(of(again)));
        judged(self.resampler.compare(of(self.a), of(self.b), self.noise_of(first, others)))
    }

    /// Compares the time of rows.
    fn of_rows(&self, a: &[usize], b: &[usize]) -> Judged {
        let others = self.again.iter().map(|again| again.mean_time_of(&again.same_rows(self.a, a)));
        let noise = self.noise_of(self.a.mean_time_of(a), others);
        judged(self.resampler.compare(&self.a.time_of(a), &self.b.time_of(b), noise))
    }

    /// The part by which further runs differ from the first trace, and no less than what is let pass anyway.
    fn noise_of(&self, first: f64, others: impl Iterator<Item = f64>) -> f64 {
        let largest = |other: f64| other.max(first);
        let part = |other: f64| if largest(other) > 0.0 { (other - first).abs() / largest(other) } else { 0.0 };
        others.map(part).fold(self.noise, f64::max)
    }

    fn change(&self, phase: Phase, sides: [&Series; 2]) -> PhaseChange {
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
        let (mut between, mut outside) = (self.of_all(|of| &of.between), self.of_all(|of| &of.outside));
        let mut layers = self.layers(&(0..a.rows.len()).collect::<Vec<_>>(), &(0..b.rows.len()).collect::<Vec<_>>());
        judge_all(operators.iter_mut().map(|o| &mut o.time).chain([&mut between, &mut outside]).collect());
        judge_all(operators.iter_mut().flat_map(|o| &mut o.layers).map(|layer| &mut layer.time).collect());
        judge_all(layers.iter_mut().map(|layer| &mut layer.time).collect());
        PhaseChange {
            phase,
            sides: [side(a), side(b)],
            paired: self.resampler.paired,
            time: self.of_all(|of| &of.time),
            between,
            outside,
            operators,
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
        let a_step = |total: f64, of: &PhaseSeries| if of.whole > 0 { total / of.whole as f64 } else { 0.0 };
        let totals_a = self.a.totals_of(rows_a).map(|total| a_step(total, self.a));
        let totals_b = self.b.totals_of(rows_b).map(|total| a_step(total, self.b));
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
        let of = |name: &Arc<str>, side: &Series, series: &PhaseSeries, rows: &[usize]| {
            let column = side.counters.iter().position(|counter| counter == name)?;
            if rows.is_empty() { Some(vec![0.0; series.steps.len()]) } else { series.counts_of(rows, column) }
        };
        let change = |name: &Arc<str>| {
            let (a, b) = (of(name, a, self.a, rows_a)?, of(name, b, self.b, rows_b)?);
            Some(CounterChange { counter: Arc::clone(name), change: self.resampler.compare(&a, &b, self.noise) })
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

fn judged(change: Change) -> Judged {
    let mut judged = Judged { change, chance: change.chance, judgement: Judgement::Unknown };
    judged.judge();
    judged
}

impl Judged {
    fn judge(&mut self) {
        self.judgement = match self.chance {
            None => Judgement::Unknown,
            Some(chance) if chance > SIGNIFICANT => Judgement::NotSignificant,
            Some(_) if self.change.difference() > 0.0 => Judgement::More,
            Some(_) => Judgement::Less,
        };
    }
}

/// Judges each among all of them.
fn judge_all(mut all: Vec<&mut Judged>) {
    let chances: Vec<Option<f64>> = all.iter().map(|judged| judged.change.chance).collect();
    for (judged, chance) in all.iter_mut().zip(among_many(&chances)) {
        judged.chance = chance;
        judged.judge();
    }
}
