//! What a comparison needs of one trace: sums by operator and layer, step after step. Steps of one size that follow one
//! another are put together to blocks, of which there are at most [`BLOCKS`] a phase: memory grows with the distinct
//! operators, not with the trace.

use super::causes::{MEASURED, Measured, measure};
use super::self_times::self_times;
use super::size::{Chosen, MAX_SIZES, Size, Sized};
use crate::catalogue::Rules;
use crate::catalogue::{Catalogue, Kind, collapse_digits};
use crate::ids::KindId;
use crate::ids::Phase;
use crate::raw::Count;
use crate::raw::Decoder;
use crate::sampling::{Divided, Recorded};
use crate::step::Step;
use crate::step::Visitor;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// Blocks of steps of a phase.
pub(super) const BLOCKS: usize = 128;

/// Sums of all blocks of a phase: of many operators there are fewer blocks.
const MAX_SUMS: usize = 1 << 23;

/// Distinct operators of a phase.
const MAX_ROWS: usize = 1 << 14;

/// Counters that are compared.
const MAX_COUNTERS: usize = 16;

/// Columns before those of the counters: wall time, work, waiting, how many, and the work of lanes whose waiting was not
/// recorded.
const FIXED: usize = 5;

/// The identity of an operator in both traces.
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

/// Distinct shapes, types and backends of one operator.
const MAX_DISTINCT: usize = 8;

/// Some steps of one size, added up. Times are ns.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Block {
    /// Its place among the sizes.
    size: u16,
    pub(super) steps: f64,
    pub(super) time: f64,
    /// Of it: in graphs, but in no operator.
    pub(super) between: f64,
    /// Of it: in no graph.
    pub(super) outside: f64,
    /// Where the time went.
    pub(super) measured: Measured,
}

impl Block {
    fn add(&mut self, other: &Self) {
        self.steps += other.steps;
        self.time += other.time;
        self.between += other.between;
        self.outside += other.outside;
        self.measured.iter_mut().zip(other.measured).for_each(|(sum, ns)| *sum += ns);
    }
}

/// A phase of a trace.
#[derive(Debug, Default)]
pub(super) struct PhaseSeries {
    columns: usize,
    /// Steps of a full block.
    per_block: f64,
    pub(super) blocks: Vec<Block>,
    /// The sizes of steps, and of each the block that is not full.
    sizes: Vec<(Size, Option<usize>)>,
    by_size: FxHashMap<Size, u16>,
    /// Some step does not tell where its time went.
    pub(super) unmeasured: bool,
    /// Complete steps, and those of them that were recorded whole.
    pub(super) all: u64,
    pub(super) whole: u64,
    pub(super) tokens: Option<u64>,
    pub(super) lanes: u64,
    pub(super) rows: Vec<(Key, Row)>,
    by_key: HashMap<Key, u32>,
    by_kind: FxHashMap<KindId, u32>,
    /// The rows in the order of execution.
    order: Vec<u32>,
    /// Operators beyond the bound of rows.
    pub(super) left_out: u64,
}

/// A visitor that gathers what a comparison needs.
#[derive(Debug, Default)]
pub struct Series {
    pub(super) phases: BTreeMap<Phase, PhaseSeries>,
    /// Names of the counters.
    pub(super) counters: Vec<Arc<str>>,
    self_times: Vec<u64>,
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

    /// The types of the model's weights that operators read, if recorded.
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
        let covered = self_times(step, &mut self.open, &mut self.self_times);
        let block = series.add_step(step, covered);
        series.add_operators(step, block, &self.self_times, catalogue);
    }
}

impl PhaseSeries {
    /// Adds a step's sums; gives its block.
    fn add_step(&mut self, step: &Step, covered: u64) -> usize {
        self.whole += 1;
        self.lanes = self.lanes.max(step.lane_numbers.len() as u64);
        self.tokens = match (self.tokens, step.tokens) {
            (None, Some(tokens)) if self.whole == 1 => Some(tokens),
            (Some(sum), Some(tokens)) => Some(sum.saturating_add(tokens)),
            _ => None,
        };
        let time = step.duration();
        let rest = time.saturating_sub(covered);
        let outside = if step.graphs.is_empty() { 0 } else { time.saturating_sub(step.in_graphs).min(rest) };
        let measured = measure(step);
        self.unmeasured |= measured.is_none();
        let size = self.size_of(Size::of(step));
        let at = self.block_for(size);
        let new = Block {
            size,
            steps: 1.0,
            time: time as f64,
            between: (rest - outside) as f64,
            outside: outside as f64,
            measured: measured.unwrap_or([0.0; MEASURED]),
        };
        if let Some(block) = self.blocks.get_mut(at) {
            block.add(&new);
        }
        at
    }

    fn size_of(&mut self, size: Size) -> u16 {
        if let Some(place) = self.by_size.get(&size) {
            return *place;
        }
        let size = if self.sizes.len() < MAX_SIZES { size } else { Size::of_the_rest() };
        if let Some(other) = self.by_size.get(&size) {
            return *other;
        }
        let new = u16::try_from(self.sizes.len()).unwrap_or(u16::MAX);
        self.sizes.push((size, None));
        self.by_size.insert(size, new);
        new
    }

    /// The block that takes the next step of a size.
    fn block_for(&mut self, size: u16) -> usize {
        self.per_block = self.per_block.max(1.0);
        let open = self.sizes.get(usize::from(size)).and_then(|(_, open)| *open);
        if let Some(open) = open.filter(|at| self.blocks.get(*at).is_some_and(|block| block.steps < self.per_block)) {
            return open;
        }
        // Each size needs one of its own.
        let most = (MAX_SUMS / (self.rows.len() * self.columns).max(1)).clamp(2 * MAX_SIZES, BLOCKS);
        while self.blocks.len() >= most {
            self.merge_pairs();
        }
        let open = self.sizes.get(usize::from(size)).and_then(|(_, open)| *open);
        if let Some(open) = open.filter(|at| self.blocks.get(*at).is_some_and(|block| block.steps < self.per_block)) {
            return open;
        }
        self.blocks.push(Block { size, ..Block::default() });
        let new = self.blocks.len() - 1;
        if let Some((_, open)) = self.sizes.get_mut(usize::from(size)) {
            *open = Some(new);
        }
        new
    }

    /// Puts each two blocks of a size together.
    fn merge_pairs(&mut self) {
        self.per_block *= 2.0;
        let mut merged: Vec<Block> = Vec::new();
        let mut new_places = Vec::with_capacity(self.blocks.len());
        let mut single: Vec<Option<usize>> = vec![None; self.sizes.len()];
        for block in &self.blocks {
            let waits = &mut single[usize::from(block.size)];
            match waits.take() {
                Some(at) => {
                    merged[at].add(block);
                    new_places.push(at);
                }
                None => {
                    *waits = Some(merged.len());
                    new_places.push(merged.len());
                    merged.push(*block);
                }
            }
        }
        for ((_, open), single) in self.sizes.iter_mut().zip(single) {
            *open = single;
        }
        let columns = self.columns.max(1);
        for (_, row) in &mut self.rows {
            let mut sums = vec![0.0; merged.len() * columns];
            for (old, new) in row.sums.chunks(columns).zip(&new_places) {
                sums[new * columns..].iter_mut().zip(old).for_each(|(sum, old)| *sum += old);
            }
            row.sums = sums;
        }
        self.blocks = merged;
    }

    fn add_operators(&mut self, step: &Step, block: usize, self_times: &[u64], catalogue: &Catalogue) {
        let block = block * self.columns;
        let mut before = None;
        for (operator, self_time) in step.operators.iter().zip(self_times) {
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
            row.sums.resize(row.sums.len().max(block + self.columns), 0.0);
            let sums = &mut row.sums[block..block + self.columns];
            for (sum, part) in sums.iter_mut().zip([*self_time, operator.work, operator.waiting, 1, operator.undivided])
            {
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

    /// The sizes of its blocks.
    pub(super) fn sized(&self) -> Vec<Sized> {
        let size = |block: &Block| self.sizes.get(usize::from(block.size)).map_or(Size::default(), |(size, _)| *size);
        self.blocks.iter().map(|block| (size(block), block.steps)).collect()
    }

    /// Of blocks that were chosen, something of each.
    pub(super) fn values(&self, chosen: &Chosen, of: impl Fn(&Block) -> f64) -> Blocks {
        let weighted = |(at, weight): &(usize, f64)| self.blocks.get(*at).map_or(0.0, |block| of(block) * weight);
        chosen.blocks.iter().map(weighted).collect()
    }

    /// The mean of something of all steps.
    pub(super) fn mean(&self, of: impl Fn(&Block) -> f64) -> f64 {
        if self.whole == 0 { 0.0 } else { self.blocks.iter().map(of).sum::<f64>() / self.whole as f64 }
    }

    /// Wall time of rows, the mean of all steps.
    pub(super) fn mean_time_of(&self, rows: &[usize]) -> f64 {
        let sum: f64 = rows.iter().filter_map(|row| self.rows.get(*row)).map(|(_, row)| row.sum(0, self.columns)).sum();
        if self.whole == 0 { 0.0 } else { sum / self.whole as f64 }
    }

    /// The rows in the order of execution.
    pub(super) fn in_order(&self) -> impl Iterator<Item = (usize, &Key, &Row)> {
        self.order.iter().filter_map(|row| {
            let at = *row as usize;
            self.rows.get(at).map(|(key, row)| (at, key, row))
        })
    }

    /// Sums of rows by block: of wall time.
    pub(super) fn time_of(&self, rows: &[usize], chosen: &Chosen) -> Blocks {
        self.sums_of(rows, 0, chosen)
    }

    /// Work, waiting and number of rows, summed up.
    pub(super) fn totals_of(&self, rows: &[usize], chosen: &Chosen) -> [f64; 3] {
        let [work, waiting, count, undivided]: [f64; 4] =
            [1, 2, 3, 4].map(|column| self.sums_of(rows, column, chosen).iter().sum());
        let divided = Divided::new(work as u64, waiting as u64, undivided as u64);
        [divided.work as f64, divided.waiting.unwrap_or(0) as f64, count]
    }

    /// A counter's sums by block; `None` where some part was not counted.
    pub(super) fn counts_of(&self, rows: &[usize], counter: usize, chosen: &Chosen) -> Option<Blocks> {
        let counted = |row: &usize| self.rows.get(*row).is_some_and(|(_, row)| row.counted & (1 << counter) != 0);
        let complete = !rows.is_empty() && FIXED + counter < self.columns && rows.iter().all(counted);
        complete.then(|| self.sums_of(rows, FIXED + counter, chosen))
    }

    fn sums_of(&self, rows: &[usize], column: usize, chosen: &Chosen) -> Blocks {
        let mut sums = vec![0.0; chosen.blocks.len()];
        for (_, row) in rows.iter().filter_map(|row| self.rows.get(*row)) {
            for (sum, (block, weight)) in sums.iter_mut().zip(&chosen.blocks) {
                *sum += row.sums.get(block * self.columns + column).copied().unwrap_or(0.0) * weight;
            }
        }
        sums
    }
}

impl Row {
    /// A column of all blocks.
    fn sum(&self, column: usize, columns: usize) -> f64 {
        self.sums.chunks(columns.max(1)).filter_map(|block| block.get(column)).sum()
    }
}

/// Sums of so many blocks each.
pub(super) fn coarser(blocks: &[f64], factor: usize) -> Blocks {
    blocks.chunks(factor.max(1)).map(|blocks| blocks.iter().sum()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Put, Records};
    use crate::{Rules, Timeline};

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
        let blocks = decode.blocks.len();
        assert!((BLOCKS / 2..=BLOCKS).contains(&blocks), "{blocks}");
        let all = crate::comparison::size::all(blocks);
        let sum = |of: fn(&Block) -> f64| decode.values(&all, of).iter().sum::<f64>();
        assert_eq!((decode.whole, sum(|block| block.steps)), (1000, 1000.0));
        let operators: f64 = decode.time_of(&[0], &all).iter().sum();
        assert_eq!(operators, (0..1000).map(|n| 30.0 + f64::from(n % 7)).sum::<f64>());
        assert_eq!(operators + sum(|block| block.between), 1000.0 * 100.0);
        assert_eq!(decode.totals_of(&[0], &all)[2], 1000.0);
        assert_eq!(decode.mean_time_of(&[0]), operators / 1000.0);
    }

    /// Steps of many sizes in turn: each block is of one size, and nothing is lost where sizes are too many.
    #[test]
    fn blocks_are_of_one_size() {
        let mut series = PhaseSeries { columns: FIXED, ..PhaseSeries::default() };
        for number in 0..5000_u64 {
            let tokens = if number < 4000 { number % 3 } else { number };
            let step = Step { end: tokens + 1, tokens: Some(tokens), ..Step::default() };
            series.add_step(&step, 0);
        }
        assert!(series.blocks.len() <= BLOCKS, "{}", series.blocks.len());
        assert_eq!(series.blocks.iter().map(|block| block.steps).sum::<f64>(), 5000.0);
        let sized = series.sized();
        for tokens in 0..3 {
            let of = |step: &Step| Size::of(step);
            let wanted = of(&Step { tokens: Some(tokens), ..Step::default() });
            let blocks = series.blocks.iter().zip(&sized).filter(|(_, (size, _))| *size == wanted);
            let (steps, time) = blocks.fold((0.0, 0.0), |sum, (block, _)| (sum.0 + block.steps, sum.1 + block.time));
            assert_eq!(time, steps * (tokens + 1) as f64);
            assert!(steps >= 1333.0, "{steps}");
        }
        assert!(sized.iter().any(|(size, _)| *size == Size::of_the_rest()));
    }
}
