//! Layers beside one another: how much longer each takes than the median layer of the same step.

use super::blocks::Blocks;
use crate::analysis::catalogue::{Catalogue, KindId};
use crate::analysis::distribution::median;
use crate::analysis::hash::FastMap;
use crate::analysis::step::{Phase, Step};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Layers that are told apart.
const MAX_LAYERS: usize = 1 << 12;
/// Of fewer layers none is odd.
const FEWEST: usize = 4;

/// One layer, over steps.
#[derive(Debug, Clone, Default)]
pub struct LayerSeries {
    /// Its work by that of the step's median layer, less one; against the number of the step.
    pub off: Blocks,
    /// Its work, ns.
    pub work: u64,
    /// Its floating-point operations, where all of its operators' are known.
    pub flops: Option<f64>,
    /// Its bytes, where all of its operators' are known.
    pub bytes: Option<f64>,
}

/// Layers by phase and model.
#[derive(Debug, Default)]
pub struct Layers {
    layers: BTreeMap<(Phase, u32, u32), LayerSeries>,
    names: Vec<Arc<str>>,
    of_kind: FastMap<u32, Option<u32>>,
    ids: std::collections::HashMap<Arc<str>, u32>,
    scratch: BTreeMap<u32, (u64, Option<f64>, Option<f64>)>,
}

impl Layers {
    /// Adds a step that was recorded whole.
    pub(super) fn add(&mut self, step: &Step, phase: Phase, model: Option<u32>, catalogue: &Catalogue) {
        if phase == Phase::Outside {
            return;
        }
        self.scratch.clear();
        for operator in &step.operators {
            let Some(layer) = self.layer(operator.kind, catalogue) else { continue };
            let (work, flops, bytes) = self.scratch.entry(layer).or_insert((0, Some(0.0), Some(0.0)));
            *work = work.saturating_add(operator.work);
            *flops = flops.zip(operator.cost.flops).map(|(a, b)| a + b);
            *bytes = bytes.zip(operator.cost.bytes).map(|(a, b)| a + b);
        }
        if self.scratch.len() < FEWEST {
            return;
        }
        let mut works: Vec<f64> = self.scratch.values().map(|(work, ..)| *work as f64).collect();
        let Some(middle) = median(&mut works).filter(|middle| *middle > 0.0) else { return };
        for (layer, (work, flops, bytes)) in &self.scratch {
            let fresh = || LayerSeries { flops: Some(0.0), bytes: Some(0.0), ..LayerSeries::default() };
            let series = self.layers.entry((phase, model.unwrap_or(0), *layer)).or_insert_with(fresh);
            series.off.push(step.number as f64, *work as f64 / middle - 1.0);
            series.work = series.work.saturating_add(*work);
            series.flops = series.flops.zip(*flops).map(|(a, b)| a + b);
            series.bytes = series.bytes.zip(*bytes).map(|(a, b)| a + b);
        }
    }

    fn layer(&mut self, kind: KindId, catalogue: &Catalogue) -> Option<u32> {
        if let Some(layer) = self.of_kind.get(&kind.0) {
            return *layer;
        }
        let layer = catalogue.kind(kind).layer.clone().and_then(|name| {
            let next = u32::try_from(self.names.len()).ok()?;
            if self.names.len() >= MAX_LAYERS && !self.ids.contains_key(&name) {
                return None;
            }
            let id = *self.ids.entry(Arc::clone(&name)).or_insert(next);
            if id == next {
                self.names.push(name);
            }
            Some(id)
        });
        self.of_kind.insert(kind.0, layer);
        layer
    }

    /// Every layer: phase, model, name.
    pub fn all(&self) -> impl Iterator<Item = (Phase, u32, &Arc<str>, &LayerSeries)> {
        self.layers.iter().filter_map(|((phase, model, layer), series)| {
            Some((*phase, *model, self.names.get(*layer as usize)?, series))
        })
    }
}
