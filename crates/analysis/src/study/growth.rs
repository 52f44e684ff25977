//! Growth with the context: for each distinct operator of all layers, its work in a decode step against the tokens that
//! the step attends to.

use super::blocks::{Blocks, Moments, Trend};
use super::streams::Stream;
use crate::catalogue::Catalogue;
use crate::ids::KindId;
use crate::ids::Phase;
use crate::numbers::median;
use crate::step::Step;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Distinct operators in memory.
const MAX_GROUPS: usize = 1 << 14;
/// Pairs of thread and model whose tokens are counted at a time.
const MAX_STREAMS: usize = 1 << 12;
/// The smallest growth, as a part of an operator's time over all contexts.
const MIN_GROWTH: f64 = 0.05;
/// The largest change of a constant operator, beyond the machine's drift.
const MAX_CONSTANT: f64 = 0.10;
/// The 99.9 % interval by that of 95 %.
const WIDER: f64 = 1.75;
/// What an operator has to do is constant where it changes by no more than this part.
const SAME_WORK: f64 = 0.001;

/// Where the number of tokens behind a step is taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ContextSource {
    /// A field `position` of the step.
    Position,
    /// The probeset's `context`: the shapes that operators work on.
    Operators,
    /// Tokens of the generation so far, counted from its prefill on.
    Tokens,
}

/// One operator, in one step.
#[derive(Debug, Clone, Copy, Default)]
struct InStep {
    work: u64,
    flops: Option<f64>,
    bytes: Option<f64>,
}

/// One operator, whatever its layer.
#[derive(Debug)]
struct Group {
    kind: KindId,
    model: u32,
    time: Blocks,
    flops: Moments,
    bytes: Moments,
}

/// A generation as its tokens are counted.
#[derive(Debug, Clone, Copy, Default)]
struct Counting {
    /// `None`: its beginning was not seen.
    tokens: Option<u64>,
    prefill: bool,
}

/// Name, type, what is computed along with it, model.
type GroupKey = (Arc<str>, Arc<str>, bool, u32);

/// Sums over decode steps.
#[derive(Debug, Default)]
pub struct Growth {
    groups: Vec<Group>,
    ids: HashMap<GroupKey, u32>,
    of_kind: FxHashMap<(u32, u32), u32>,
    steps: BTreeMap<u32, Blocks>,
    source: Option<ContextSource>,
    without: u64,
    left_out: u64,
    counting: FxHashMap<(u32, u32, Option<u32>), Counting>,
    scratch: Vec<(u32, InStep)>,
    place: FxHashMap<u32, u32>,
}

/// How one operator's work goes with the context.
#[derive(Debug, Clone)]
pub struct GrowthOf<'a> {
    /// One of the operators: its name and type are those of all.
    pub kind: KindId,
    /// Which model: an index into the models of [`super::Streams`].
    pub model: u32,
    /// Its work by step, ns, against the context.
    pub time: &'a Blocks,
    /// Floating-point operations by step for each token of context; `None`: unknown.
    pub flops: Option<f64>,
    /// Bytes by step for each token of context; `None`: unknown.
    pub bytes: Option<f64>,
    /// Its operations or bytes depend on the context; `None`: unknown.
    pub work_grows: Option<bool>,
}

impl Growth {
    /// Counts a step's tokens; gives how many its generation has with them.
    pub(super) fn count_tokens(&mut self, step: &Step, phase: Phase, stream: &Stream) -> Option<u64> {
        if phase == Phase::Outside {
            return None;
        }
        let key = (step.pid, step.tid, stream.model);
        if self.counting.len() >= MAX_STREAMS && !self.counting.contains_key(&key) {
            self.counting.clear();
        }
        let counting = self.counting.entry(key).or_default();
        let prefill = phase == Phase::Prefill;
        if prefill && !counting.prefill {
            counting.tokens = Some(0);
        }
        counting.prefill = prefill;
        let tokens = if prefill { step.tokens } else { Some(step.tokens.unwrap_or(1)) };
        // With several sequences in one step, their contexts differ.
        let one = prefill || stream.sequences.is_none_or(|sequences| sequences <= 1);
        counting.tokens = counting.tokens.zip(tokens).filter(|_| one).map(|(sum, more)| sum.saturating_add(more));
        counting.tokens
    }

    /// Adds a decode step that was recorded whole.
    pub(super) fn add(&mut self, step: &Step, stream: &Stream, counted: Option<u64>, catalogue: &Catalogue) {
        let by_operators = step.context_by_operators();
        let sources = [
            (ContextSource::Position, step.context_by_position()),
            (ContextSource::Operators, by_operators),
            (ContextSource::Tokens, counted),
        ];
        // Numbers of two kinds make no line together: the first step's is that of all.
        let mut sources = sources.into_iter().filter(|(source, _)| self.source.is_none_or(|first| first == *source));
        let Some((source, context)) = sources.find_map(|(source, tokens)| Some((source, tokens?))) else {
            self.without += 1;
            return;
        };
        self.source = Some(source);
        let (context, model) = (context as f64, stream.model.unwrap_or(0));
        // What an operator has to do goes with its shapes, which engines round up.
        let in_shapes = by_operators.map_or(context, |tokens| tokens as f64);
        self.steps.entry(model).or_default().push(context, step.duration() as f64);
        self.sum_up(step, model, catalogue);
        for (group, sums) in self.scratch.drain(..) {
            let Some(group) = self.groups.get_mut(group as usize) else { continue };
            group.time.push(context, sums.work as f64);
            for (moments, value) in [(&mut group.flops, sums.flops), (&mut group.bytes, sums.bytes)] {
                if let Some(value) = value {
                    *moments = moments.plus(&Moments::point(in_shapes, value));
                }
            }
        }
    }

    fn sum_up(&mut self, step: &Step, model: u32, catalogue: &Catalogue) {
        self.scratch.clear();
        self.place.clear();
        for operator in &step.operators {
            let Some(group) = self.group(operator.kind, model, catalogue) else {
                self.left_out += 1;
                continue;
            };
            let next = u32::try_from(self.scratch.len()).unwrap_or(u32::MAX);
            let at = *self.place.entry(group).or_insert(next);
            if at == next {
                self.scratch.push((group, InStep { work: 0, flops: Some(0.0), bytes: Some(0.0) }));
            }
            let Some((_, sums)) = self.scratch.get_mut(at as usize) else { continue };
            sums.work = sums.work.saturating_add(operator.work);
            sums.flops = sums.flops.zip(operator.cost.flops).map(|(a, b)| a + b);
            sums.bytes = sums.bytes.zip(operator.cost.bytes).map(|(a, b)| a + b);
        }
    }

    fn group(&mut self, kind: KindId, model: u32, catalogue: &Catalogue) -> Option<u32> {
        if let Some(group) = self.of_kind.get(&(model, kind.0)) {
            return Some(*group);
        }
        let described = catalogue.kind(kind);
        let key = (Arc::clone(&described.pattern), Arc::clone(&described.op), described.covers.is_some(), model);
        let next = u32::try_from(self.groups.len()).ok()?;
        if self.groups.len() >= MAX_GROUPS && !self.ids.contains_key(&key) {
            return None;
        }
        let group = *self.ids.entry(key).or_insert(next);
        if group == next {
            let (flops, bytes) = (Moments::default(), Moments::default());
            self.groups.push(Group { kind, model, time: Blocks::default(), flops, bytes });
        }
        self.of_kind.insert((model, kind.0), group);
        Some(group)
    }

    /// Where the number of tokens is taken from; `None` where no step has any.
    pub fn source(&self) -> Option<ContextSource> {
        self.source
    }

    /// Decode steps with an unknown context.
    pub fn without(&self) -> u64 {
        self.without
    }

    /// Operators beyond the bound.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Durations of decode steps against the context, by model.
    pub fn steps(&self) -> impl Iterator<Item = (u32, &Blocks)> {
        self.steps.iter().map(|(model, blocks)| (*model, blocks))
    }

    /// Every operator.
    pub fn operators(&self) -> impl Iterator<Item = GrowthOf<'_>> {
        self.groups.iter().map(|group| {
            let range = group.time.range().map_or(0.0, |(low, high)| high - low);
            let steps = group.time.all().n;
            // Values of some steps only give no slope.
            let complete = |moments: &Moments| moments.n >= steps && steps > 0.0;
            let slope = |moments: &Moments| complete(moments).then(|| moments.line().map_or(0.0, |line| line.slope));
            let changes =
                |moments: &Moments| slope(moments).map(|slope| (slope * range).abs() > SAME_WORK * moments.y.abs());
            let (flops, bytes) = (changes(&group.flops), changes(&group.bytes));
            let work_grows = match (flops, bytes) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            };
            GrowthOf {
                kind: group.kind,
                model: group.model,
                time: &group.time,
                flops: slope(&group.flops),
                bytes: slope(&group.bytes),
                work_grows,
            }
        })
    }

    /// The change over time of operators whose operations and bytes do not depend on the context; `None` if there are
    /// none.
    pub fn drift(&self) -> Option<Drift> {
        let constant = self.operators().filter(|of| of.work_grows == Some(false));
        let mut changes: Vec<f64> = constant.filter_map(|of| relative(of.time)).map(|(change, ..)| change).collect();
        let middle = median(&mut changes)?;
        let mut away: Vec<f64> = changes.iter().map(|change| (change - middle).abs()).collect();
        Some(Drift { part: middle, spread: median(&mut away)? })
    }
}

/// Drift of the machine: how the time of operators changed whose work does not depend on the context.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Drift {
    /// The median change, as a part of the time.
    pub part: f64,
    /// The median deviation from it.
    pub spread: f64,
}

impl Drift {
    /// A change within this is the machine's.
    fn limit(self) -> f64 {
        self.part.abs() + 2.0 * self.spread
    }
}

/// Whether an operator's time depends on the context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GrowthFound {
    /// It grows.
    Grows,
    /// It shrinks.
    Shrinks,
    /// It does not change by more than a tenth beyond what the machine drifted.
    Constant,
    /// The steps differ too much, or there are too few.
    Unclear,
    /// The context did not change.
    NoSpread,
}

/// The verdict on an operator.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JudgedGrowth {
    /// Whether it changes.
    pub change: GrowthFound,
    /// By which part of its mean time, from the shortest context to the longest.
    pub part: Option<f64>,
}

/// GrowthFound over the range as a part of the mean; half the width of its interval; the same of the robust slope.
fn relative(time: &Blocks) -> Option<(f64, Option<f64>, f64)> {
    let Trend { line, half_width, robust_slope } = time.trend()?;
    let ((low, high), mean) = (time.range()?, time.all().y);
    let scale = (mean > 0.0).then(|| (high - low) / mean)?;
    Some((line.slope * scale, half_width.map(|half| half * scale), robust_slope.unwrap_or(line.slope) * scale))
}

/// An operator grows if the whole 99.9 % interval of the slope is positive (of many operators, one in twenty would be
/// beyond that of 95 % by chance), beyond the machine's drift, and if the robust slope agrees.
pub fn judge(time: &Blocks, drift: Option<Drift>) -> JudgedGrowth {
    let Some((part, half, robust)) = relative(time) else {
        return JudgedGrowth { change: GrowthFound::NoSpread, part: None };
    };
    let drift = drift.map_or(0.0, Drift::limit);
    let least = MIN_GROWTH + drift;
    let change = match half {
        None => GrowthFound::Unclear,
        Some(half) if part - WIDER * half > least && robust > least / 2.0 => GrowthFound::Grows,
        Some(half) if part + WIDER * half < -least && robust < -least / 2.0 => GrowthFound::Shrinks,
        Some(half) if part.abs() + half <= MAX_CONSTANT + drift => GrowthFound::Constant,
        Some(_) => GrowthFound::Unclear,
    };
    JudgedGrowth { change, part: Some(part) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(of: impl Fn(f64) -> f64) -> Blocks {
        let mut blocks = Blocks::default();
        (1..=400).for_each(|i| blocks.push(f64::from(i), of(f64::from(i))));
        blocks
    }

    #[test]
    fn growth_must_stand_out_of_noise_drift_and_single_stretches() {
        let wave = |i: f64| (i * 1.7).sin();
        assert_eq!(judge(&blocks(|i| 100.0 + i + 5.0 * wave(i)), None).change, GrowthFound::Grows);
        assert_eq!(judge(&blocks(|i| 500.0 - i + 5.0 * wave(i)), None).change, GrowthFound::Shrinks);
        assert_eq!(judge(&blocks(|i| 100.0 + 5.0 * wave(i)), None).change, GrowthFound::Constant);
        // The machine became 30 % slower meanwhile: so did this one, and no more.
        let slower = blocks(|i| 100.0 + 0.075 * i + wave(i));
        assert_eq!(judge(&slower, Some(Drift { part: 0.26, spread: 0.01 })).change, GrowthFound::Constant);
        assert_eq!(judge(&slower, None).change, GrowthFound::Grows);
        // Others that have the same to do changed by as much, some up and some down.
        assert_ne!(judge(&slower, Some(Drift { part: 0.02, spread: 0.13 })).change, GrowthFound::Grows);
        // Four steps in a row were disturbed.
        let disturbed = blocks(|i| if i > 396.0 { 2000.0 } else { 100.0 });
        assert!(matches!(judge(&disturbed, None).change, GrowthFound::Unclear | GrowthFound::Constant));
        let mut few = Blocks::default();
        (0..3).for_each(|i| few.push(f64::from(i), f64::from(i)));
        assert_eq!(judge(&few, None).change, GrowthFound::Unclear);
        assert_eq!(judge(&Blocks::default(), None).change, GrowthFound::NoSpread);
    }
}
