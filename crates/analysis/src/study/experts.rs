//! How experts are used again: for each layer and expert how many tokens lie between two uses, and what the operators
//! and the disk had to do with experts that were not used for long.

use crate::catalogue::Catalogue;
use crate::ids::KindId;
use crate::step::{Experts, Step};
use rustc_hash::FxHashMap;
use std::collections::HashMap;
use std::sync::Arc;

/// Layers in memory.
const MAX_LAYERS: usize = 1 << 12;
/// Experts of all layers in memory.
const MAX_EXPERTS: usize = 1 << 18;
/// Stretches of tokens for a layer's uses.
const MAX_BINS: usize = 32;
/// Counts of all layers and stretches.
const MAX_COUNTS: usize = 1 << 22;
/// Buckets of distances: not used before; then 1, 2–3, 4–7 … tokens.
const BUCKETS: usize = 32;

/// Uses of experts after about so many tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReuseBucket {
    /// Uses of an expert for a token.
    pub uses: u64,
    /// Of these, major faults on the expert's memory in the same step.
    pub faults: u64,
    /// ns that threads waited for them.
    pub waited: u64,
    /// Operators of steps of one token, all of whose experts were used within that many tokens.
    pub operators: u64,
    /// Their work, ns.
    pub work: u64,
}

/// One expert of one layer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExpertUse {
    /// Uses for a token.
    pub uses: u64,
    /// Sum of the tokens between two uses.
    pub distance: u64,
    /// The most of them.
    pub longest: u64,
    /// Major faults on its memory.
    pub faults: u64,
    last: u64,
    step: u64,
    bucket: u8,
}

/// One layer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LayerUse {
    /// Tokens that experts were chosen for.
    pub tokens: u64,
    /// Its experts, by number.
    pub experts: Vec<ExpertUse>,
    /// Uses by stretch of tokens, and by expert in it.
    pub bins: Vec<Vec<u32>>,
    /// Tokens of a stretch.
    pub bin_tokens: u64,
    counts: usize,
    full: bool,
}

/// A layer of a model in a process.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct LayerKey {
    pid: u32,
    model: u32,
    layer: Option<Arc<str>>,
}

/// How experts are used again, over all complete steps that were recorded whole.
#[derive(Debug, Default)]
pub struct ReuseOfExperts {
    layers: HashMap<LayerKey, LayerUse>,
    buckets: [ReuseBucket; BUCKETS],
    experts: usize,
    counts: usize,
    steps: u64,
    left_out: u64,
    without_tokens: u64,
}

/// The bucket of a distance in tokens.
fn bucket_of(distance: u64) -> u8 {
    u8::try_from(distance.checked_ilog2().map_or(0, |log| log + 1)).unwrap_or(0).min(BUCKETS as u8 - 1)
}

impl ReuseOfExperts {
    /// Adds a step that was recorded whole.
    pub(super) fn add(&mut self, step: &Step, model: Option<u32>, catalogue: &Catalogue) {
        if step.experts.is_empty() {
            return;
        }
        self.steps += 1;
        let model = model.unwrap_or(0);
        // An expert is several matrices, chosen together: the first operator of a layer speaks for all of them.
        let mut speakers: FxHashMap<Option<&Arc<str>>, KindId> = FxHashMap::default();
        let mut slowest: FxHashMap<Option<&Arc<str>>, (u8, u64)> = FxHashMap::default();
        for experts in &step.experts {
            let kind = catalogue.kind(experts.kind);
            let layer = kind.layer.as_ref();
            if !catalogue.kind(*speakers.entry(layer).or_insert(experts.kind)).is_same_operator(kind) {
                continue;
            }
            if let Some((bucket, rows)) =
                self.add_uses(LayerKey { pid: step.pid, model, layer: layer.cloned() }, experts, step)
            {
                let entry = slowest.entry(layer).or_insert((0, 0));
                *entry = (entry.0.max(bucket), entry.1 + rows);
            }
        }
        for experts in &step.experts {
            let layer = catalogue.kind(experts.kind).layer.as_ref();
            let (Some((bucket, 1)), Some(operator)) = (slowest.get(&layer), experts.operator) else { continue };
            let Some(operator) = step.operators.get(operator as usize) else { continue };
            let bucket = &mut self.buckets[usize::from(*bucket)];
            bucket.operators += 1;
            bucket.work = bucket.work.saturating_add(operator.work);
        }
        self.add_faults(step, model);
    }

    /// Adds the uses of one record; returns the bucket of the expert with the longest distance (a first use counts as
    /// longest), and the number of tokens.
    fn add_uses(&mut self, layer: LayerKey, record: &Experts, step: &Step) -> Option<(u8, u64)> {
        let Some(per_token) = per_token(record, step).filter(|n| *n > 0) else {
            self.without_tokens += 1;
            return None;
        };
        if self.layers.len() >= MAX_LAYERS && !self.layers.contains_key(&layer) {
            self.left_out += 1;
            return None;
        }
        let layer = self.layers.entry(layer).or_default();
        let (mut longest, mut never, mut rows) = (0, false, 0);
        for row in record.ids.chunks(per_token) {
            layer.tokens += 1;
            rows += 1;
            let bin = layer.bin(&mut self.counts);
            for id in row {
                let at = *id as usize;
                if at >= layer.experts.len() {
                    let more = at + 1 - layer.experts.len();
                    if self.experts.saturating_add(more) > MAX_EXPERTS {
                        self.left_out += 1;
                        continue;
                    }
                    self.experts += more;
                    layer.experts.resize(at + 1, ExpertUse::default());
                }
                let expert = &mut layer.experts[at];
                if expert.last == layer.tokens {
                    continue;
                }
                let distance = if expert.last == 0 { 0 } else { layer.tokens - expert.last };
                let bucket = bucket_of(distance);
                expert.uses += 1;
                expert.distance = expert.distance.saturating_add(distance);
                expert.longest = expert.longest.max(distance);
                if expert.step != self.steps {
                    (expert.step, expert.bucket) = (self.steps, bucket);
                }
                expert.last = layer.tokens;
                (longest, never) = (longest.max(bucket), never || distance == 0);
                self.buckets[usize::from(bucket)].uses += 1;
                if let Some(bin) = bin {
                    count(&mut layer.bins, bin, at, &mut self.counts, &mut layer.counts);
                }
            }
        }
        Some((if never { 0 } else { longest }, rows))
    }

    fn add_faults(&mut self, step: &Step, model: u32) {
        for fetched in step.fetched.iter().filter(|fetched| fetched.totals.faults > 0) {
            let Some(part) = &fetched.part else { continue };
            let Some(expert) = part.expert else { continue };
            let key = LayerKey { pid: step.pid, model, layer: part.owner.layer.clone() };
            let of_layer = self.layers.get_mut(&key);
            let Some(of) = of_layer.and_then(|layer| layer.experts.get_mut(expert as usize)) else { continue };
            of.faults = of.faults.saturating_add(fetched.totals.faults);
            if of.step == self.steps {
                let bucket = &mut self.buckets[usize::from(of.bucket)];
                bucket.faults = bucket.faults.saturating_add(fetched.totals.faults);
                bucket.waited = bucket.waited.saturating_add(fetched.totals.waited);
            }
        }
    }

    /// The layers: process, model, name.
    pub fn layers(&self) -> impl Iterator<Item = (u32, u32, Option<&Arc<str>>, &LayerUse)> {
        self.layers.iter().map(|(key, uses)| (key.pid, key.model, key.layer.as_ref(), uses))
    }

    /// By distance: from, to (tokens, both included; 0 is an expert that was not used before).
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, &ReuseBucket)> {
        self.buckets.iter().enumerate().filter(|(_, bucket)| **bucket != ReuseBucket::default()).map(|(i, bucket)| {
            let from = if i == 0 { 0 } else { 1_u64 << (i - 1) };
            (from, from.saturating_mul(2).saturating_sub(1), bucket)
        })
    }

    /// Records beyond the bound of experts.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Records with an unknown number of experts for each token.
    pub fn without_tokens(&self) -> u64 {
        self.without_tokens
    }
}

impl LayerUse {
    /// The stretch of the latest token; `None` beyond the bound of counts.
    fn bin(&mut self, counts: &mut usize) -> Option<usize> {
        if self.full || *counts >= MAX_COUNTS {
            self.full = true;
            *counts = counts.saturating_sub(self.counts);
            self.counts = 0;
            self.bins = Vec::new();
            return None;
        }
        self.bin_tokens = self.bin_tokens.max(1);
        let bin = |layer: &Self| usize::try_from((layer.tokens - 1) / layer.bin_tokens).unwrap_or(usize::MAX);
        if bin(self) >= MAX_BINS {
            self.bin_tokens *= 2;
            let mut bins: Vec<Vec<u32>> = Vec::with_capacity(MAX_BINS);
            for pair in self.bins.chunks(2) {
                let length = pair.iter().map(Vec::len).max().unwrap_or(0);
                let at = |i: usize| pair.iter().filter_map(|bin| bin.get(i)).fold(0, |a: u32, b| a.saturating_add(*b));
                bins.push((0..length).map(at).collect());
            }
            let merged = bins.iter().map(Vec::len).sum();
            *counts = counts.saturating_sub(self.counts).saturating_add(merged);
            self.counts = merged;
            self.bins = bins;
        }
        let bin = bin(self);
        if bin >= self.bins.len() && bin < MAX_BINS {
            self.bins.resize(bin + 1, Vec::new());
        }
        (bin < self.bins.len()).then_some(bin)
    }
}

fn count(bins: &mut [Vec<u32>], bin: usize, expert: usize, counts: &mut usize, layer_counts: &mut usize) {
    let Some(bin) = bins.get_mut(bin) else { return };
    if expert >= bin.len() {
        let more = expert + 1 - bin.len();
        *counts += more;
        *layer_counts += more;
        bin.resize(expert + 1, 0);
    }
    bin[expert] = bin[expert].saturating_add(1);
}

/// How many experts each token of a record has.
fn per_token(record: &Experts, step: &Step) -> Option<usize> {
    let recorded = record.per_token.and_then(|n| usize::try_from(n).ok());
    let by_tokens = || {
        let tokens = usize::try_from(step.tokens?).ok().filter(|tokens| *tokens > 0)?;
        record.ids.len().is_multiple_of(tokens).then(|| record.ids.len() / tokens)
    };
    recorded.or_else(by_tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_dealt_out_by_powers_of_two() {
        assert_eq!([0, 1, 2, 3, 4, 7, 8, u64::MAX].map(bucket_of), [0, 1, 2, 2, 3, 3, 4, 31]);
    }

    #[test]
    fn a_hostile_trace_keeps_within_bounds() {
        let mut reuse = ReuseOfExperts::default();
        let step = Step { tokens: Some(1), ..Step::default() };
        for expert in [0, u32::MAX, 1 << 17, 1 << 19] {
            let record = Experts { kind: KindId(0), operator: None, per_token: Some(1), ids: vec![expert] };
            reuse.add_uses(LayerKey { pid: 1, model: 0, layer: None }, &record, &step);
        }
        assert!(reuse.experts <= MAX_EXPERTS && reuse.left_out == 2, "{}", reuse.left_out);
        for _ in 0..10_000 {
            let record = Experts { kind: KindId(0), operator: None, per_token: Some(1), ids: vec![200_000] };
            reuse.add_uses(LayerKey { pid: 1, model: 0, layer: None }, &record, &step);
        }
        assert!(reuse.counts <= 2 * MAX_COUNTS);
        let layer = reuse.layers.values().next().unwrap();
        assert_eq!((layer.tokens, layer.bins.len() <= MAX_BINS), (10_004, true));
    }
}
