//! Costs of operators that call others. A rule gives what an operator costs with all that it calls, while its time is
//! its own: each cost is left to the operator in whose time the work is done.

use super::model::Operator;
use crate::catalogue::Cost;

/// Takes out of each operator's cost what the operators that it calls cost. `calls`: indices of an operator and of the
/// one that calls it, any number of times for one pair.
pub(super) fn take_out(operators: &mut [Operator], calls: impl Iterator<Item = (u32, u32)>) {
    // Operators are in the order of their starts; those of several threads may call each other in a circle.
    let mut calls: Vec<(u32, u32)> = calls.filter(|(inner, outer)| inner > outer).collect();
    if calls.is_empty() {
        return;
    }
    // The last ones first: what an operator calls comes before it. One that several lanes share costs once.
    calls.sort_unstable_by(|a, b| b.cmp(a));
    calls.dedup_by_key(|(inner, _)| *inner);
    let mut called = vec![Called::default(); operators.len()];
    for (inner, outer) in calls {
        let (inner, outer) = (inner as usize, outer as usize);
        let (Some(operator), Some(of_inner)) = (operators.get(inner), called.get(inner)) else { continue };
        let whole = of_inner.within(&operator.cost);
        if let Some(of_outer) = called.get_mut(outer) {
            of_outer.flops += whole.flops;
            of_outer.bytes += whole.bytes;
        }
    }
    for (operator, called) in operators.iter_mut().zip(called) {
        called.take_out_of(&mut operator.cost);
    }
}

/// What the operators cost that one calls, as far as their costs are available.
#[derive(Debug, Clone, Copy, Default)]
struct Called {
    flops: f64,
    bytes: f64,
}

impl Called {
    /// Of an operator with all that it calls.
    fn within(&self, cost: &Cost) -> Self {
        let most = |own: Option<f64>, called: f64| own.unwrap_or(0.0).max(called);
        Self { flops: most(cost.flops, self.flops), bytes: most(cost.bytes, self.bytes) }
    }

    fn take_out_of(&self, cost: &mut Cost) {
        let rest = |own: f64, called: f64| (own - called).max(0.0);
        cost.flops = cost.flops.map(|own| rest(own, self.flops));
        cost.bytes = cost.bytes.map(|own| rest(own, self.bytes));
        if let (Some(weights), Some(bytes)) = (&mut cost.weights, cost.bytes) {
            weights.bytes = weights.bytes.min(bytes);
        }
    }
}
