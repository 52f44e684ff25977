//! Sums over operators: counts, costs and times. Operators differ in which quantities are available, so there is a sum
//! for each set of quantities; a ratio is taken of sums over the same operators.

use crate::catalogue::Cost;
use crate::ids::{ByKind, Phase, TextId};
use crate::raw::Count;
use crate::step::{Operator, Step};
use std::collections::BTreeMap;

/// A set of available quantities: bit i is counter i.
pub type Available = u64;
/// Its floating-point operations.
pub(crate) const FLOPS: Available = 1 << 62;
/// Its bytes.
pub(crate) const BYTES: Available = 1 << 63;

/// Sums over operators with the same available quantities.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sums {
    /// Which of the sums below are available.
    pub available: Available,
    /// Which of them are estimates.
    pub estimated: Available,
    /// Which of them are upper bounds.
    pub bounded: Available,
    /// How many operators (or shares of operators, or steps).
    pub count: u64,
    /// Lanes' shares of them.
    pub shares: u64,
    /// ns of work, all lanes together.
    pub work: u64,
    /// ns from the first lane's start to the last lane's end of work, summed.
    pub elapsed: u64,
    /// By column of the trace's counters.
    pub counts: Vec<u64>,
    /// Floating-point operations.
    pub flops: f64,
    /// Bytes.
    pub bytes: f64,
}

impl Sums {
    /// The operations or the bytes are of the most experts that could be used.
    pub fn costs_are_bounds(&self) -> bool {
        self.bounded & (FLOPS | BYTES) != 0
    }

    fn add(&mut self, other: &Self) {
        self.estimated |= other.estimated;
        self.bounded |= other.bounded;
        self.count = self.count.saturating_add(other.count);
        self.shares = self.shares.saturating_add(other.shares);
        self.work = self.work.saturating_add(other.work);
        self.elapsed = self.elapsed.saturating_add(other.elapsed);
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        self.counts.iter_mut().zip(&other.counts).for_each(|(sum, count)| *sum = sum.saturating_add(*count));
        self.flops += other.flops;
        self.bytes += other.bytes;
    }
}

/// Sums, one for each set of available quantities.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Quantities {
    groups: Vec<Sums>,
}

impl Quantities {
    /// Of one operator of a step.
    pub fn of(step: &Step, operator: &Operator) -> Self {
        let mut one = Sums::default();
        one.take_operator(step, operator);
        Self { groups: vec![one] }
    }

    /// Of an operator that a device computed in so many ns.
    pub(crate) fn of_device(cost: &Cost, ns: u64) -> Self {
        let mut one = Sums { count: 1, work: ns, elapsed: ns, ..Sums::default() };
        one.take_cost(cost);
        Self { groups: vec![one] }
    }

    /// Adds others.
    pub fn merge(&mut self, other: &Self) {
        other.groups.iter().for_each(|sums| self.add(sums));
    }

    fn add(&mut self, sums: &Sums) {
        match self.groups.iter_mut().find(|group| group.available == sums.available) {
            Some(group) => group.add(sums),
            None => self.groups.push(sums.clone()),
        }
    }

    /// The sums over all operators with these quantities; `None` if there is no such operator.
    pub fn over(&self, needed: Available) -> Option<Sums> {
        let mut groups = self.groups.iter().filter(|group| group.available & needed == needed);
        let mut total = groups.next()?.clone();
        for group in groups {
            total.add(group);
            total.available &= group.available;
        }
        Some(total)
    }

    /// The sums over all operators with floating-point operations.
    pub fn with_flops(&self) -> Option<Sums> {
        self.over(FLOPS)
    }

    /// The sums over all operators with bytes.
    pub fn with_bytes(&self) -> Option<Sums> {
        self.over(BYTES)
    }

    /// The sums over all operators with operations and bytes.
    pub fn costs(&self) -> Option<Sums> {
        self.over(FLOPS | BYTES)
    }

    /// The sum of a counter, if every operator has it.
    pub fn count(&self, column: usize) -> Count {
        let bit = 1 << column;
        if self.groups.iter().any(|group| group.available & bit == 0) {
            return Count::Absent;
        }
        let Some(total) = self.over(bit) else { return Count::Absent };
        let value = total.counts.get(column).copied().unwrap_or(0);
        if total.estimated & bit != 0 { Count::Estimate(value) } else { Count::Exact(value) }
    }
}

/// Sums of a trace: by operator, lane and phase, and of the steps' threads.
#[derive(Debug, Default)]
pub(crate) struct AllQuantities {
    pub(crate) operators: ByKind<(Option<TextId>, Phase), Quantities>,
    pub(crate) lanes: BTreeMap<(Phase, u32), Quantities>,
    pub(crate) steps: BTreeMap<Phase, Quantities>,
    /// Bytes of weights that were read, by their type.
    pub(crate) weights: ByKind<(Phase, u16), f64>,
    one: Sums,
}

impl AllQuantities {
    /// Adds a step's operators.
    pub(crate) fn add_operators(&mut self, step: &Step, phase: Phase) {
        let columns = step.counter_columns;
        for operator in &step.operators {
            let shares = step.lanes_of(operator);
            let one = &mut self.one;
            one.take_operator(step, operator);
            if let Some(weights) = operator.cost.weights {
                *self.weights.entry(operator.kind, (phase, weights.dtype)) += weights.bytes;
            }
            let backend = operator.graph.and_then(|g| step.graphs.get(g as usize)).map(|g| g.backend);
            self.operators.entry(operator.kind, (backend, phase)).add(one);
            // Lanes have counts only.
            for share in shares.iter().filter(|_| columns > 0) {
                let one = &mut self.one;
                one.begin(columns);
                one.shares = 1;
                (one.work, one.elapsed) = (share.work(), share.work());
                for column in 0..columns {
                    one.take_count(column, step.count_of(share, column));
                }
                self.lanes.entry((phase, share.lane)).or_default().add(one);
            }
        }
        if columns > 0 && !step.own_counts.is_empty() {
            let one = &mut self.one;
            one.begin(columns);
            one.shares = 1;
            (one.work, one.elapsed) = (step.duration(), step.duration());
            for (column, count) in step.own_counts.iter().enumerate() {
                one.take_count(column, *count);
            }
            self.steps.entry(phase).or_default().add(one);
        }
    }
}

/// Filling in the sums of one.
impl Sums {
    fn begin(&mut self, columns: usize) {
        let mut counts = std::mem::take(&mut self.counts);
        counts.clear();
        counts.resize(columns, 0);
        *self = Self { count: 1, counts, ..Self::default() };
    }

    fn take_operator(&mut self, step: &Step, operator: &Operator) {
        let shares = step.lanes_of(operator);
        self.begin(step.counter_columns);
        self.shares = shares.len() as u64;
        self.work = operator.work;
        self.elapsed = operator.end.saturating_sub(operator.start);
        if !operator.gives_work {
            self.take_cost(&operator.cost);
        }
        for column in 0..step.counter_columns {
            let of_share = |count: Count, share| count.plus(step.count_of(share, column));
            self.take_count(column, shares.iter().fold(Count::ZERO, of_share));
        }
    }

    fn take_count(&mut self, column: usize, count: Count) {
        let (Some(value), bit) = (count.value(), 1 << column) else { return };
        self.counts[column] = value;
        self.available |= bit;
        self.estimated |= if count.is_estimate() { bit } else { 0 };
    }

    fn take_cost(&mut self, cost: &Cost) {
        for (value, bound, bit) in [(cost.flops, cost.flops_bound, FLOPS), (cost.bytes, cost.bytes_bound, BYTES)] {
            self.available |= if value.is_some() { bit } else { 0 };
            self.bounded |= if bound { bit } else { 0 };
        }
        self.flops = cost.flops.unwrap_or(0.0);
        self.bytes = cost.bytes.unwrap_or(0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_of_the_most_experts_are_bounds_on_a_device_too() {
        let cost = Cost { flops: Some(2.0), bytes: Some(8.0), bytes_bound: true, ..Cost::default() };
        let sums = Quantities::of_device(&cost, 5).costs().unwrap();
        assert!(sums.costs_are_bounds() && (sums.flops, sums.bytes, sums.work) == (2.0, 8.0, 5));
    }
}
