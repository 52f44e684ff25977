//! Models and sequences of steps. A model is identified by the step's field `instance`; without it by the depth and width
//! of its graphs: then two models of equal depth and width count as one.

use crate::catalogue::Catalogue;
use crate::ids::Phase;
use crate::raw::{Decoder, Header};
use crate::step::Step;
use profinfer_schema::FieldMeaning;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Models in memory.
const MAX_MODELS: usize = 64;
/// Distinct numbers of sequences in memory.
const MAX_SEQUENCES: usize = 1024;
/// Graphs and regions of a step that are searched for a field.
const MAX_SEARCHED: usize = 256;
/// Threads whose rounds are tracked at a time.
const MAX_THREADS: usize = 1 << 12;

/// How models are identified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum InstanceSource {
    /// The step's field `instance`.
    Instance,
    /// Layers, and the most common first extent of operators in layers.
    Graph,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum ModelKey {
    Instance(u32, i64),
    Graph(u32, usize, i64),
}

/// One model.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelTotals {
    /// The process.
    pub pid: u32,
    /// Its layers, as far as they were seen.
    pub layers: u64,
    /// The most common first extent of operators in layers.
    pub width: Option<i64>,
    /// Steps.
    pub steps: u64,
    /// Their tokens, of steps with a token count.
    pub tokens: u64,
    /// Their time, ns.
    pub time: u64,
    /// Of the steps, those of one token.
    pub single_steps: u64,
    /// Their time, ns.
    pub single_time: u64,
}

/// Steps that advance the same number of sequences.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SequenceTotals {
    /// Steps.
    pub steps: u64,
    /// Of them, decode steps and others whose tokens are as many as their sequences.
    pub one_each: u64,
    /// Their tokens, of steps with a token count.
    pub tokens: u64,
    /// Their time, ns.
    pub time: u64,
    /// Time of `one_each`, ns.
    pub one_each_time: u64,
}

/// Rounds in which one model drafted and another verified.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rounds {
    /// How many: steps of several tokens of the verifying model, right after steps of the other.
    pub rounds: u64,
    /// Steps of the drafting model in them.
    pub draft_steps: u64,
    /// Their time, ns.
    pub draft_time: u64,
    /// Tokens that were verified: all of each step but the first of each sequence.
    pub drafted: u64,
    /// Time of the verifying steps, ns.
    pub verify_time: u64,
    /// Rounds with a recorded number of accepted tokens.
    pub resolved: u64,
    /// Tokens verified in these.
    pub resolved_drafted: u64,
    /// Of them, accepted.
    pub accepted: u64,
}

/// The latest of a thread: steps of one model that follow one another.
#[derive(Debug, Clone, Default)]
struct Latest {
    model: u32,
    steps: u64,
    time: u64,
    /// Positions of the first and the last of these steps, if recorded.
    positions: Option<(u64, u64)>,
    /// The latest verification of each model.
    verified: Vec<Verified>,
}

/// A step that verified drafts; the position of the next step of its model gives the accepted tokens.
#[derive(Debug, Clone, Copy)]
struct Verified {
    draft: u32,
    verify: u32,
    /// Of its first token.
    position: u64,
    drafted: u64,
}

impl Latest {
    fn begin(&mut self, model: u32, step: &Step, position: Option<u64>) {
        (self.model, self.steps, self.time, self.positions) = (model, 0, 0, None);
        self.go_on(step, position);
    }

    fn go_on(&mut self, step: &Step, position: Option<u64>) {
        self.steps += 1;
        self.time = self.time.saturating_add(step.duration());
        if let Some(at) = position {
            let (from, to) = self.positions.unwrap_or((at, at));
            self.positions = Some((from.min(at), to.max(at)));
        }
    }

    /// Whether a step of another model may verify what these drafted. Each of them gives a token a sequence at most: what
    /// has more tokens reads a prompt, or catches up. And it stands where they do.
    fn may_have_drafted(&self, drafted: u64, sequences: u64, position: Option<u64>) -> bool {
        let near = |(from, to): (u64, u64)| {
            position.is_none_or(|at| (from.saturating_sub(1)..=to.saturating_add(1)).contains(&at))
        };
        drafted > 0 && drafted <= self.steps.saturating_mul(sequences) && self.positions.is_none_or(near)
    }
}

/// What a step is a part of.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Stream {
    pub(super) model: Option<u32>,
    pub(super) sequences: Option<u64>,
    pub(super) position: Option<u64>,
}

/// Models and sequences.
#[derive(Debug, Default)]
pub struct Streams {
    models: Vec<ModelTotals>,
    ids: HashMap<ModelKey, u32>,
    by_graph: bool,
    sequences: BTreeMap<u64, SequenceTotals>,
    rounds: BTreeMap<(u32, u32), Rounds>,
    latest: FxHashMap<(u32, u32), Latest>,
}

impl Streams {
    pub(super) fn add(&mut self, step: &Step, phase: Phase, catalogue: &Catalogue, decoder: &Decoder) -> Stream {
        if phase == Phase::Outside {
            return Stream::default();
        }
        let sequences = number_in(step, decoder, FieldMeaning::SequenceCount).filter(|n| *n > 0);
        let position = number_in(step, decoder, FieldMeaning::Position);
        let model = self.model(step, catalogue, decoder);
        let stream = Stream {
            model,
            sequences: sequences.and_then(|n| u64::try_from(n).ok()),
            position: position.and_then(|n| u64::try_from(n).ok()),
        };
        if let Some(model) = model {
            self.add_to_model(model, step);
            self.follow(model, step, stream);
        }
        if let Some(sequences) = stream.sequences {
            self.add_sequences(sequences, step);
        }
        stream
    }

    fn model(&mut self, step: &Step, catalogue: &Catalogue, decoder: &Decoder) -> Option<u32> {
        let key = match step_number(step, decoder, FieldMeaning::Instance) {
            Some(instance) => ModelKey::Instance(step.pid, instance),
            None => {
                let Some((layers, width)) = dimensions_of(step, catalogue) else {
                    // A step without operators: of the only model, or of an unknown one.
                    return (self.models.len() == 1).then_some(0);
                };
                self.by_graph = true;
                ModelKey::Graph(step.pid, layers, width)
            }
        };
        if let Some(model) = self.ids.get(&key) {
            return Some(*model);
        }
        if self.models.len() >= MAX_MODELS {
            return None;
        }
        let model = u32::try_from(self.models.len()).ok()?;
        self.models.push(ModelTotals { pid: step.pid, ..ModelTotals::default() });
        self.ids.insert(key, model);
        if let Some((layers, width)) = dimensions_of(step, catalogue) {
            self.set_dimensions(model, layers, width);
        }
        Some(model)
    }

    fn set_dimensions(&mut self, model: u32, layers: usize, width: i64) {
        if let Some(totals) = self.models.get_mut(model as usize) {
            totals.layers = totals.layers.max(layers as u64);
            totals.width = totals.width.or(Some(width));
        }
    }

    fn add_to_model(&mut self, model: u32, step: &Step) {
        let Some(totals) = self.models.get_mut(model as usize) else { return };
        totals.steps += 1;
        totals.tokens = totals.tokens.saturating_add(step.tokens.unwrap_or(0));
        totals.time = totals.time.saturating_add(step.duration());
        if step.tokens == Some(1) {
            totals.single_steps += 1;
            totals.single_time = totals.single_time.saturating_add(step.duration());
        }
    }

    fn add_sequences(&mut self, sequences: u64, step: &Step) {
        if self.sequences.len() >= MAX_SEQUENCES && !self.sequences.contains_key(&sequences) {
            return;
        }
        let totals = self.sequences.entry(sequences).or_default();
        totals.steps += 1;
        totals.tokens = totals.tokens.saturating_add(step.tokens.unwrap_or(0));
        totals.time = totals.time.saturating_add(step.duration());
        if step.tokens == Some(sequences) {
            totals.one_each += 1;
            totals.one_each_time = totals.one_each_time.saturating_add(step.duration());
        }
    }

    /// Steps of one model, then a step of several tokens of another on the same thread: a round.
    fn follow(&mut self, model: u32, step: &Step, stream: Stream) {
        let key = (step.pid, step.tid);
        if self.latest.len() >= MAX_THREADS && !self.latest.contains_key(&key) {
            self.latest.clear();
        }
        let latest = self.latest.entry(key).or_insert(Latest { model, ..Latest::default() });
        let sequences = stream.sequences.unwrap_or(1).max(1);
        // With several sequences the position is that of the first only.
        let position = stream.position.filter(|_| sequences == 1);
        // The position of the next step of the verifying model gives the number of accepted tokens.
        if let Some(at) = latest.verified.iter().position(|verified| verified.verify == model) {
            let verified = latest.verified.swap_remove(at);
            let moved = position.and_then(|now| now.checked_sub(verified.position));
            let accepted =
                moved.and_then(|moved| moved.checked_sub(1)).filter(|accepted| *accepted <= verified.drafted);
            if let Some(accepted) = accepted {
                let rounds = self.rounds.entry((verified.draft, model)).or_default();
                rounds.resolved += 1;
                rounds.resolved_drafted = rounds.resolved_drafted.saturating_add(verified.drafted);
                rounds.accepted = rounds.accepted.saturating_add(accepted);
            }
        }
        if latest.model == model {
            return latest.go_on(step, position);
        }
        // One token of each sequence is not a draft.
        let drafted = step.tokens.unwrap_or(1).saturating_sub(sequences);
        if latest.may_have_drafted(drafted, sequences, position) {
            let rounds = self.rounds.entry((latest.model, model)).or_default();
            rounds.rounds += 1;
            rounds.draft_steps = rounds.draft_steps.saturating_add(latest.steps);
            rounds.draft_time = rounds.draft_time.saturating_add(latest.time);
            rounds.drafted = rounds.drafted.saturating_add(drafted);
            rounds.verify_time = rounds.verify_time.saturating_add(step.duration());
            if let Some(position) = position {
                latest.verified.push(Verified { draft: latest.model, verify: model, position, drafted });
            }
        }
        latest.begin(model, step, position);
    }

    /// The models, in the order of their first steps.
    pub fn models(&self) -> &[ModelTotals] {
        &self.models
    }

    /// How models are identified.
    pub fn told_by(&self) -> InstanceSource {
        if self.by_graph { InstanceSource::Graph } else { InstanceSource::Instance }
    }

    /// Steps by the number of sequences that they advance.
    pub fn sequences(&self) -> &BTreeMap<u64, SequenceTotals> {
        &self.sequences
    }

    /// Rounds of drafting and verifying: drafting model, verifying model. Of two models, the one whose steps of one
    /// token are shorter drafts, or the only one that has such steps; rounds the other way do not count.
    pub fn rounds(&self) -> Vec<(u32, u32, Rounds)> {
        let single = |model: u32| {
            let totals = self.models.get(model as usize).filter(|totals| totals.single_steps > 0)?;
            Some(totals.single_time as f64 / totals.single_steps as f64)
        };
        let any = |model: u32| {
            let totals = self.models.get(model as usize)?;
            let tokens = totals.tokens.max(totals.steps);
            (tokens > 0).then(|| totals.time as f64 / tokens as f64)
        };
        let drafts = |draft: u32, verify: u32| match (single(draft), single(verify)) {
            (Some(draft), Some(verify)) => draft < verify,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => any(draft).zip(any(verify)).is_some_and(|(draft, verify)| draft < verify),
        };
        let found = self.rounds.iter().filter(|((draft, verify), rounds)| rounds.rounds > 1 && drafts(*draft, *verify));
        found.map(|((draft, verify), rounds)| (*draft, *verify, *rounds)).collect()
    }
}

/// How many layers there are, and the most common first extent in them.
fn dimensions_of(step: &Step, catalogue: &Catalogue) -> Option<(usize, i64)> {
    let mut layers: Vec<*const u8> = Vec::new();
    let mut extents: Vec<(i64, u32)> = Vec::new();
    for operator in &step.operators {
        let kind = catalogue.kind(operator.kind);
        let Some(layer) = &kind.layer else { continue };
        // Equal texts are one text in a catalogue.
        let place = Arc::as_ptr(layer).cast::<u8>();
        if layers.last() != Some(&place) {
            layers.push(place);
        }
        let Some(extent) = kind.shape.first() else { continue };
        match extents.iter().position(|(of, _)| of == extent) {
            Some(at) => extents[at].1 += 1,
            None if extents.len() < MAX_SEARCHED => extents.push((*extent, 1)),
            None => {}
        }
    }
    layers.sort_unstable();
    layers.dedup();
    let width = extents.iter().max_by_key(|(extent, count)| (*count, *extent)).map(|(extent, _)| *extent);
    (!layers.is_empty()).then_some((layers.len(), width.unwrap_or(0)))
}

/// A number of the step's record.
fn step_number(step: &Step, decoder: &Decoder, meaning: FieldMeaning) -> Option<i64> {
    number_of(&step.record, decoder, meaning)
}

fn number_of(record: &[u8], decoder: &Decoder, meaning: FieldMeaning) -> Option<i64> {
    let header = Header::read(record)?;
    match decoder.value_of(&header, record, meaning)? {
        profinfer_probeset::path::Value::Object(address) => Some(address.cast_signed()),
        value => value.as_int(),
    }
}

/// A number of the step's record, or the greatest in its graphs and regions; for a position the least,
/// which is the first token's.
fn number_in(step: &Step, decoder: &Decoder, meaning: FieldMeaning) -> Option<i64> {
    if let Some(number) = step_number(step, decoder, meaning) {
        return Some(number);
    }
    let graphs = step.graphs.iter().take(MAX_SEARCHED).map(|graph| &graph.record);
    let outside = step.regions.iter().filter(|region| region.operator.is_none()).take(MAX_SEARCHED);
    let records = graphs.chain(outside.filter_map(|region| region.record.as_ref()));
    let numbers = records.filter_map(|record| number_of(record, decoder, meaning));
    if meaning == FieldMeaning::Position { numbers.min() } else { numbers.max() }
}
