//! What a comparison needs of one trace: sums by operator and layer, step after step. Steps that follow one another are
//! put together to blocks, of which there are at most [`BLOCKS`] a phase: what is kept grows with the distinct
//! operators, not with the trace. It knows one trace only.

use crate::analysis::catalogue::{Catalogue, Kind, KindId, collapse_digits};
use crate::analysis::counters::Count;
use crate::analysis::fields::Decoder;
use crate::analysis::hash::FastMap;
use crate::analysis::rules::Rules;
use crate::analysis::sampled::Recorded;
use crate::analysis::step::{Phase, Step};
use crate::analysis::timeline::Visitor;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// Blocks of steps of a phase that are kept.
pub(super) const BLOCKS: usize = 64;

/// Distinct operators of a phase that are kept apart.
const MAX_ROWS: usize = 1 << 14;

/// Counters that are compared.
const MAX_COUNTERS: usize = 16;

/// Columns before those of the counters: time on the clock, work, waiting, how many.
const FIXED: usize = 4;

/// What an operator is known by in both traces.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Key {
    /// Its type.
    pub op: Arc<str>,
    /// Its name, without its layer's number.
    pub name: Arc<str>,
    /// What was computed along with it, the same way.
    pub covers: Option<Arc<str>>,
    /// Its layer.
    pub layer: Option<Arc<str>>,
}

impl Key {
    fn new(kind: &Kind) -> Self {
        let covers = kind.covers.as_ref().map(|covers| collapse_digits(covers, kind.layer.as_deref()).into());
        Self { op: Arc::clone(&kind.op), name: Arc::clone(&kind.pattern), covers, layer: kind.layer.clone() }
    }
}

/// Sums by block.
pub(super) type Blocks = Vec<f64>;

/// An operator of a phase.
#[derive(Debug, Default)]
pub(super) struct Row {
    /// Its sums: `columns` for each block, as far as it was seen.
    sums: Vec<f64>,
    /// Counters that were counted every time.
    counted: u64,
    pub(super) shapes: BTreeSet<Arc<[i64]>>,
    pub(super) dtypes: BTreeSet<Arc<str>>,
    pub(super) backends: BTreeSet<Arc<str>>,
    /// Types of the model's weights that it reads, by their places among the probeset's types; and their names.
    weight_types: BTreeSet<u16>,
    pub(super) weights: BTreeSet<String>,
}

/// Distinct shapes, types and backends of one operator that are kept.
const MAX_DISTINCT: usize = 8;

/// A phase of a trace.
#[derive(Debug, Default)]
pub(super) struct PhaseSeries {
    columns: usize,
    /// Steps of a full block.
    per_block: u64,
    /// Steps of each block.
    pub(super) steps: Blocks,
    /// Time of the steps.
    pub(super) time: Blocks,
    /// Of it: in graphs, but in no operator.
    pub(super) between: Blocks,
    /// Of it: in no graph.
    pub(super) outside: Blocks,
    /// Complete steps, and those of them that were recorded whole.
    pub(super) all: u64,
    pub(super) whole: u64,
    pub(super) tokens: Option<u64>,
    pub(super) lanes: u64,
    pub(super) rows: Vec<(Key, Row)>,
    by_key: HashMap<Key, u32>,
    by_kind: FastMap<KindId, u32>,
    /// The rows in the order of execution.
    order: Vec<u32>,
    /// Operators beyond the rows that are kept.
    pub(super) left_out: u64,
}

/// A visitor that gathers what a comparison needs.
#[derive(Debug, Default)]
pub struct Series {
    pub(super) phases: BTreeMap<Phase, PhaseSeries>,
    /// Names of the counters.
    pub(super) counters: Vec<Arc<str>>,
    own: Vec<u64>,
    open: Vec<(usize, u64)>,
}

impl Series {
    /// Names the types of weights, when all steps were seen.
    pub fn name_types(&mut self, rules: &Rules) {
        for (_, row) in self.phases.values_mut().flat_map(|phase| &mut phase.rows) {
            let names = row.weight_types.iter().filter_map(|place| rules.dtype(*place));
            row.weights = names.map(|(name, _)| name.to_owned()).collect();
        }
    }

    /// The types of the model's weights that operators read, as far as that is known.
    pub fn types_of_weights(&self) -> BTreeSet<&str> {
        let rows = self.phases.values().flat_map(|phase| &phase.rows);
        rows.flat_map(|(_, row)| &row.weights).map(String::as_str).collect()
    }
}

impl Visitor for Series {
    fn step(&mut self, step: &Step, catalogue: &Catalogue, decoder: &Decoder) {
        let phase = step.phase.unwrap_or(Phase::Outside);
        if phase == Phase::Outside || !step.complete {
            return;
        }
        if self.counters.is_empty() {
            self.counters = decoder.counters().iter().take(MAX_COUNTERS).cloned().collect();
        }
        let columns = FIXED + self.counters.len();
        let series = self.phases.entry(phase).or_default();
        series.columns = columns;
        series.all += 1;
        if step.recorded != Recorded::Whole {
            return;
        }
        let covered = own_times(step, &mut self.open, &mut self.own);
        series.add_step(step, covered);
        series.add_operators(step, &self.own, catalogue);
    }
}

impl PhaseSeries {
    fn add_step(&mut self, step: &Step, covered: u64) {
        self.whole += 1;
        self.lanes = self.lanes.max(step.lane_numbers.len() as u64);
        self.tokens = match (self.tokens, step.tokens) {
            (None, Some(tokens)) if self.whole == 1 => Some(tokens),
            (Some(sum), Some(tokens)) => Some(sum.saturating_add(tokens)),
            _ => None,
        };
        self.per_block = self.per_block.max(1);
        if self.steps.last().is_none_or(|steps| *steps >= self.per_block as f64) {
            if self.steps.len() == BLOCKS {
                self.halve();
            }
            for series in [&mut self.steps, &mut self.time, &mut self.between, &mut self.outside] {
                series.push(0.0);
            }
        }
        let time = step.duration();
        let rest = time.saturating_sub(covered);
        let outside = if step.graphs.is_empty() { 0 } else { time.saturating_sub(step.in_graphs).min(rest) };
        let parts = [1, time, rest - outside, outside];
        for (series, part) in
            [&mut self.steps, &mut self.time, &mut self.between, &mut self.outside].into_iter().zip(parts)
        {
            if let Some(last) = series.last_mut() {
                *last += part as f64;
            }
        }
    }

    /// Puts each two blocks together.
    fn halve(&mut self) {
        self.per_block = self.per_block.saturating_mul(2);
        for series in [&mut self.steps, &mut self.time, &mut self.between, &mut self.outside] {
            *series = coarser(series, 2);
        }
        for (_, row) in &mut self.rows {
            row.sums.resize(row.sums.len().next_multiple_of(2 * self.columns), 0.0);
            let pairs = row.sums.chunks_exact(2 * self.columns);
            row.sums = pairs.flat_map(|pair| (0..self.columns).map(|c| pair[c] + pair[self.columns + c])).collect();
        }
    }

    fn add_operators(&mut self, step: &Step, own: &[u64], catalogue: &Catalogue) {
        let block = self.steps.len().saturating_sub(1) * self.columns;
        let mut before = None;
        for (operator, own) in step.operators.iter().zip(own) {
            let row = match self.by_kind.get(&operator.kind) {
                Some(row) => *row,
                None => match self.row_of(operator.kind, catalogue, before) {
                    Some(row) => row,
                    None => continue,
                },
            };
            before = Some(row);
            let Some((_, row)) = self.rows.get_mut(row as usize) else { continue };
            let backend = operator.graph.and_then(|graph| step.graphs.get(graph as usize)).map(|graph| graph.backend);
            if let Some(backend) = backend.map(|backend| catalogue.text(backend))
                && row.backends.len() < MAX_DISTINCT
                && !row.backends.contains(backend)
            {
                row.backends.insert(Arc::clone(backend));
            }
            if let Some(weights) = operator.cost.weights
                && row.weight_types.len() < MAX_DISTINCT
            {
                row.weight_types.insert(weights.dtype);
            }
            row.sums.resize(block + self.columns, 0.0);
            let sums = &mut row.sums[block..];
            for (sum, part) in sums.iter_mut().zip([*own, operator.work, operator.waiting, 1]) {
                *sum += part as f64;
            }
            for (column, sum) in sums[FIXED..].iter_mut().enumerate() {
                let of_share = |count: Count, share| count.plus(step.count_of(share, column));
                match step.lanes_of(operator).iter().fold(Count::ZERO, of_share).value() {
                    Some(value) => *sum += value as f64,
                    None => row.counted &= !(1 << column),
                }
            }
        }
    }

    /// The row of a kind that has none yet; it is executed after the row `before`.
    fn row_of(&mut self, id: KindId, catalogue: &Catalogue, before: Option<u32>) -> Option<u32> {
        let kind = catalogue.kind(id);
        let key = Key::new(kind);
        let row = match self.by_key.get(&key) {
            Some(row) => *row,
            None if self.rows.len() >= MAX_ROWS => {
                self.left_out += 1;
                return None;
            }
            None => {
                let new = u32::try_from(self.rows.len()).unwrap_or(u32::MAX);
                let place = before.and_then(|before| self.order.iter().rposition(|row| *row == before));
                self.order.insert(place.map_or(0, |place| place + 1), new);
                self.rows.push((key.clone(), Row { counted: u64::MAX, ..Row::default() }));
                self.by_key.insert(key, new);
                new
            }
        };
        self.by_kind.insert(id, row);
        let (_, described) = self.rows.get_mut(row as usize)?;
        if described.shapes.len() < MAX_DISTINCT {
            described.shapes.insert(Arc::clone(&kind.shape));
        }
        if described.dtypes.len() < MAX_DISTINCT {
            described.dtypes.extend(kind.dtype.clone());
        }
        Some(row)
    }

    /// The rows that another trace's rows are called in this one.
    pub(super) fn same_rows(&self, other: &Self, rows: &[usize]) -> Vec<usize> {
        let keys = rows.iter().filter_map(|row| other.rows.get(*row)).map(|(key, _)| key);
        keys.filter_map(|key| self.by_key.get(key)).map(|row| *row as usize).collect()
    }

    /// Time of rows on the clock, a step.
    pub(super) fn mean_time_of(&self, rows: &[usize]) -> f64 {
        self.mean(&self.time_of(rows))
    }

    /// The mean of sums by block, a step.
    pub(super) fn mean(&self, sums: &[f64]) -> f64 {
        if self.whole == 0 { 0.0 } else { sums.iter().sum::<f64>() / self.whole as f64 }
    }

    /// The rows in the order of execution.
    pub(super) fn in_order(&self) -> impl Iterator<Item = (usize, &Key, &Row)> {
        self.order.iter().filter_map(|row| {
            let at = *row as usize;
            self.rows.get(at).map(|(key, row)| (at, key, row))
        })
    }

    /// Sums of rows by block: of time on the clock.
    pub(super) fn time_of(&self, rows: &[usize]) -> Blocks {
        self.sums_of(rows, 0)
    }

    /// Work, waiting and number of rows, summed up.
    pub(super) fn totals_of(&self, rows: &[usize]) -> [f64; 3] {
        [1, 2, 3].map(|column| self.sums_of(rows, column).iter().sum())
    }

    /// A counter's sums by block; `None` where some part was not counted.
    pub(super) fn counts_of(&self, rows: &[usize], counter: usize) -> Option<Blocks> {
        let counted = |row: &usize| self.rows.get(*row).is_some_and(|(_, row)| row.counted & (1 << counter) != 0);
        let known = !rows.is_empty() && FIXED + counter < self.columns && rows.iter().all(counted);
        known.then(|| self.sums_of(rows, FIXED + counter))
    }

    fn sums_of(&self, rows: &[usize], column: usize) -> Blocks {
        let mut sums = vec![0.0; self.steps.len()];
        for (_, row) in rows.iter().filter_map(|row| self.rows.get(*row)) {
            let blocks = row.sums.chunks_exact(self.columns.max(1));
            sums.iter_mut().zip(blocks).for_each(|(sum, block)| *sum += block.get(column).copied().unwrap_or(0.0));
        }
        sums
    }
}

/// Sums of so many blocks each.
pub(super) fn coarser(blocks: &[f64], factor: usize) -> Blocks {
    blocks.chunks(factor.max(1)).map(|blocks| blocks.iter().sum()).collect()
}

/// Deals a step's time out to its operators, so that their parts never add up to more than the step: each instant
/// belongs to the operator that began last of those going on. Gives what belongs to any.
fn own_times(step: &Step, open: &mut Vec<(usize, u64)>, own: &mut Vec<u64>) -> u64 {
    own.clear();
    own.resize(step.operators.len(), 0);
    open.clear();
    let mut now = step.start;
    let mut spend = |open: &mut Vec<(usize, u64)>, until: u64| {
        while let Some((operator, end)) = open.last().copied() {
            let part = end.min(until);
            if part > now {
                own[operator] += part - now;
                now = part;
            }
            if end > until {
                break;
            }
            open.pop();
        }
        now = now.max(until);
    };
    for (index, operator) in step.operators.iter().enumerate() {
        spend(open, operator.start.clamp(step.start, step.end));
        open.push((index, operator.end.min(step.end)));
    }
    spend(open, step.end);
    own.iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::step::Operator;
    use crate::analysis::testing::{Put, Records};
    use crate::analysis::{Rules, Timeline};

    fn kind() -> KindId {
        let mut catalogue = Catalogue::default();
        catalogue.combine(0, 0, 0, (0, &"probe".into()))
    }

    #[test]
    fn each_instant_of_a_step_belongs_to_one_operator() {
        let operator = |(start, end): (u64, u64)| Operator {
            kind: kind(),
            object: None,
            graph: None,
            start,
            end,
            work: 0,
            waiting: 0,
            lanes: 0..0,
            cost: Default::default(),
        };
        // One after another; one within another; two that overlap; one that outlasts the step.
        let spans = [(10, 20), (20, 50), (30, 40), (60, 80), (70, 75), (72, 90), (95, 200)];
        let step = Step { start: 0, end: 100, operators: spans.map(operator).to_vec(), ..Step::default() };
        let (mut open, mut own) = (Vec::new(), Vec::new());
        let covered = own_times(&step, &mut open, &mut own);
        assert_eq!(own, [10, 20, 10, 10, 2, 18, 5]);
        assert_eq!(covered, 75);
    }

    #[test]
    fn blocks_are_bounded_and_lose_nothing() {
        let mut records = Records::default();
        records.push("thread", 1, (0, 0), &[("pid", Put::Int(100))]);
        for number in 0..1000_u64 {
            let at = number * 1000;
            records.push("kernel", 1, (at + 20, at + 50 + number % 7), &[]);
            records.push("step", 1, (at, at + 100), &[("tokens", Put::Int(1))]);
        }
        let mut timeline = Timeline::new(&records.schema, Rules::default(), 100);
        let mut series = Series::default();
        records.records.iter().for_each(|record| timeline.record(record, &mut series));
        timeline.finish(&mut series);
        let decode = &series.phases[&Phase::Decode];
        assert!(decode.steps.len() <= BLOCKS && decode.steps.len() >= BLOCKS / 2, "{}", decode.steps.len());
        assert_eq!((decode.whole, decode.steps.iter().sum::<f64>()), (1000, 1000.0));
        let operators: f64 = decode.time_of(&[0]).iter().sum();
        assert_eq!(operators, (0..1000).map(|n| 30.0 + f64::from(n % 7)).sum::<f64>());
        assert_eq!(operators + decode.between.iter().sum::<f64>(), 1000.0 * 100.0);
        assert_eq!(decode.totals_of(&[0])[2], 1000.0);
    }
}
