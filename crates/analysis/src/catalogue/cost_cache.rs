//! Costs that were evaluated before.

use super::costs::{Cost, Costs, Input};
use super::kind::NO_INPUT;
use super::objects::Catalogue;
use crate::ids::{InlineId, KindId};
use rustc_hash::FxHashMap;

/// Entries; when full, the cache is cleared.
const MAX_ENTRIES: usize = 1 << 16;
/// Key where the number of experts is not recorded.
const NO_EXPERTS: u32 = u32::MAX;

/// Costs that were worked out already, by operator, its inputs' descriptions, and how many experts it used.
#[derive(Debug, Default)]
pub(crate) struct CostCache {
    costs: FxHashMap<Box<[u32]>, Cost>,
    key: Vec<u32>,
}

impl CostCache {
    /// What an operator with these inputs costs. `experts`: how many it used, where that is recorded.
    pub(crate) fn of(
        &mut self,
        kind: KindId,
        inputs: &[InlineId],
        experts: Option<u32>,
        costs: &Costs,
        catalogue: &Catalogue,
    ) -> Cost {
        let described = catalogue.kind(kind);
        if !costs.applies_to(&described.op) {
            return Cost::default();
        }
        // A span's own list takes precedence, as all of its description does.
        let inputs = if described.inputs.is_empty() { inputs } else { &described.inputs };
        self.key.clear();
        self.key.extend([kind.0, experts.unwrap_or(NO_EXPERTS)]);
        self.key.extend(inputs);
        if let Some(cost) = self.costs.get(self.key.as_slice()) {
            return *cost;
        }
        let input = |id: &InlineId| match *id {
            NO_INPUT => Input::Null,
            id => catalogue.described_as(id).map_or(Input::Unknown, Input::Described),
        };
        let inputs = inputs.iter().map(input).collect();
        let cost = costs.of(described, inputs, experts);
        if self.costs.len() >= MAX_ENTRIES {
            self.costs.clear();
        }
        self.costs.insert(self.key.as_slice().into(), cost);
        cost
    }
}
