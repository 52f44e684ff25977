//! Layers compared: how much longer each takes than the median layer of the same step, and which are outliers.

use super::blocks::Blocks;
use crate::catalogue::Catalogue;
use crate::ids::KindId;
use crate::ids::Phase;
use crate::numbers::median;
use crate::step::Step;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Layers in memory.
const MAX_LAYERS: usize = 1 << 12;
/// With fewer layers none is an outlier.
const MIN_LAYERS: usize = 4;

/// Standard deviations from which on a layer is an outlier.
const FAR: f64 = 3.5;
/// The smallest difference that counts, as a part of the median layer.
const MIN_DIFFERENCE: f64 = 0.05;
/// Lower bound of the median deviation: rounding makes no outliers.
const MIN_DEVIATION: f64 = 0.01;

/// One layer, over steps.
#[derive(Debug, Clone, Default)]
pub struct LayerSeries {
    /// Its work by that of the step's median layer, less one; against the number of the step.
    pub off: Blocks,
    /// Its work, ns.
    pub work: u64,
    /// Its floating-point operations, if all of its operators have them.
    pub flops: Option<f64>,
    /// Its bytes, if all of its operators have them.
    pub bytes: Option<f64>,
}

/// How a layer stands beside the others of its phase and model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JudgedLayer {
    /// How much more it takes than the median layer of the same step, as a part of it: the mean over steps.
    pub off: f64,
    /// Half the width of its 95 % interval; `None` where there are too few steps.
    pub off_half_width: Option<f64>,
    /// `off` less the median of all layers, in standard deviations as the layers' median deviation gives them.
    pub z: f64,
    /// It is odd: beyond 3.5 of these, by more than 5 %, and not by chance.
    pub odd: bool,
}

/// Judges the layers of one phase and model, each of them in their order.
pub fn judge_layers<'a>(layers: impl IntoIterator<Item = &'a LayerSeries>) -> Vec<JudgedLayer> {
    let means: Vec<(f64, Option<f64>)> = layers.into_iter().map(|series| series.off.mean()).collect();
    let middle = median(&mut means.iter().map(|(off, _)| *off).collect::<Vec<f64>>()).unwrap_or(0.0);
    let mut away: Vec<f64> = means.iter().map(|(off, _)| (off - middle).abs()).collect();
    // 0.6745: of a normal distribution, half lies within so many standard deviations.
    let scale = median(&mut away).unwrap_or(0.0).max(MIN_DEVIATION) / 0.6745;
    let judged = |(off, half): (f64, Option<f64>)| {
        let beyond = off - middle;
        let z = beyond / scale;
        let odd = z.abs() > FAR && half.is_some_and(|half| beyond.abs() - half > MIN_DIFFERENCE);
        JudgedLayer { off, off_half_width: half, z, odd }
    };
    means.into_iter().map(judged).collect()
}

/// Layers by phase and model.
#[derive(Debug, Default)]
pub struct Layers {
    layers: BTreeMap<(Phase, u32, u32), LayerSeries>,
    names: Vec<Arc<str>>,
    of_kind: FxHashMap<u32, Option<u32>>,
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
        if self.scratch.len() < MIN_LAYERS {
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

    /// The odd ones of a model with exactly these layers, the furthest off first. Of several models with such layers it is
    /// unclear which is meant: none is odd then.
    pub fn odd(&self, phase: Phase, layers: &BTreeSet<&str>) -> Vec<&str> {
        let mut models: BTreeMap<u32, Vec<(&str, &LayerSeries)>> = BTreeMap::new();
        for (_, model, name, series) in self.all().filter(|(of, ..)| *of == phase) {
            models.entry(model).or_default().push((name, series));
        }
        let same = |of: &&Vec<(&str, &LayerSeries)>| {
            of.len() == layers.len() && of.iter().all(|(name, _)| layers.contains(name))
        };
        let mut same = models.values().filter(same);
        let (Some(model), None) = (same.next(), same.next()) else { return Vec::new() };
        let judged = judge_layers(model.iter().map(|(_, series)| *series));
        let mut odd: Vec<(f64, &str)> = (model.iter().zip(judged).filter(|(_, judged)| judged.odd))
            .map(|((name, _), judged)| (judged.z.abs(), *name))
            .collect();
        odd.sort_by(|a, b| b.0.total_cmp(&a.0));
        odd.into_iter().map(|(_, name)| name).collect()
    }

    /// Every layer: phase, model, name.
    pub fn all(&self) -> impl Iterator<Item = (Phase, u32, &Arc<str>, &LayerSeries)> {
        self.layers.iter().filter_map(|((phase, model, layer), series)| {
            Some((*phase, *model, self.names.get(*layer as usize)?, series))
        })
    }
}
