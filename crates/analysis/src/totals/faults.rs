//! What was fetched during steps, by operator, part of memory, layer and step.

use crate::catalogue::Catalogue;
use crate::ids::{KindId, Phase};
use crate::step::{FetchTotals, Fetched, Operator, Part, Step};
use profinfer_schema::{Role, Schema};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Parts of memory that are counted apart.
const MAX_PARTS: usize = 1 << 20;
/// Steps that are listed: those that waited longest.
const SLOWEST: usize = 16;

/// The layer that something fetched is of: its memory's, else that of the operator that touched it.
fn layer_of(fetched: &Fetched, operators: &[Operator], catalogue: &Catalogue) -> Option<Arc<str>> {
    let of_memory = fetched.part.as_ref().and_then(|part| part.owner.layer.clone());
    let operator = || operators.get(fetched.operator? as usize).map(|operator| operator.kind);
    of_memory.or_else(|| operator().and_then(|kind| catalogue.kind(kind).layer.clone()))
}

/// What was fetched of one part in one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepPart {
    /// The owner of the memory, if found.
    pub part: Option<Part>,
    /// Its layer, if found.
    pub layer: Option<Arc<str>>,
    /// How much.
    pub totals: FetchTotals,
}

/// A step that waited for what it touched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingStep {
    /// Its number.
    pub number: u64,
    /// What it was.
    pub phase: Phase,
    /// ns.
    pub duration: u64,
    /// The lanes that it had.
    pub lanes: u64,
    /// All of it.
    pub totals: FetchTotals,
    /// By part, what was waited for longest first.
    pub parts: Vec<StepPart>,
}

/// Of a part of memory, and the layer that it is of.
type PartOfLayer = (Option<Part>, Option<Arc<str>>);

/// Everything that was fetched during steps that were recorded whole.
#[derive(Debug, Default)]
pub struct Faults {
    phases: BTreeMap<Phase, (u64, FetchTotals)>,
    parts: HashMap<(PartOfLayer, Phase), FetchTotals>,
    layers: BTreeMap<(Option<Arc<str>>, Phase), FetchTotals>,
    operators: FxHashMap<(Option<KindId>, Phase), FetchTotals>,
    slowest: Vec<WaitingStep>,
    left_out: u64,
}

impl Faults {
    /// Whether a trace of a schema has major faults, and whether it has what came into the page cache.
    pub fn recorded_by(schema: &Schema) -> (bool, bool) {
        (schema.has_role(Role::Fault), schema.has_role(Role::PageCache))
    }

    /// Takes a step.
    pub(crate) fn add(&mut self, step: &Step, phase: Phase, catalogue: &Catalogue) {
        if step.fetched.is_empty() {
            return;
        }
        let mut all = FetchTotals::default();
        let mut parts: HashMap<PartOfLayer, FetchTotals> = HashMap::new();
        for fetched in &step.fetched {
            all.merge(&fetched.totals);
            let layer = layer_of(fetched, &step.operators, catalogue);
            self.layers.entry((layer.clone(), phase)).or_default().merge(&fetched.totals);
            let operator = fetched.operator.and_then(|o| step.operators.get(o as usize)).map(|o| o.kind);
            self.operators.entry((operator, phase)).or_default().merge(&fetched.totals);
            parts.entry((fetched.part.clone(), layer)).or_default().merge(&fetched.totals);
        }
        for ((part, layer), totals) in &parts {
            let key = ((part.clone(), layer.clone()), phase);
            if self.parts.len() >= MAX_PARTS && !self.parts.contains_key(&key) {
                self.left_out += totals.faults;
                continue;
            }
            self.parts.entry(key).or_default().merge(totals);
        }
        let (steps, totals) = self.phases.entry(phase).or_default();
        *steps += u64::from(all.faults > 0);
        totals.merge(&all);
        if phase != Phase::Outside && all.faults > 0 {
            self.add_slowest(step, phase, all, parts);
        }
    }

    fn add_slowest(
        &mut self,
        step: &Step,
        phase: Phase,
        totals: FetchTotals,
        parts: HashMap<PartOfLayer, FetchTotals>,
    ) {
        let shorter = |other: &WaitingStep| (other.totals.waited, other.totals.faults) < (totals.waited, totals.faults);
        let place = self.slowest.iter().position(shorter).unwrap_or(self.slowest.len());
        if place >= SLOWEST {
            return;
        }
        let mut parts: Vec<StepPart> =
            parts.into_iter().map(|((part, layer), totals)| StepPart { part, layer, totals }).collect();
        parts.sort_by(|a, b| a.totals.longest_first(&b.totals).then_with(|| a.part.cmp(&b.part)));
        let (number, duration, lanes) = (step.number, step.duration(), step.lane_numbers.len() as u64);
        self.slowest.insert(place, WaitingStep { number, phase, duration, lanes, totals, parts });
        self.slowest.truncate(SLOWEST);
    }

    /// Steps of a phase that had faults, and what was fetched in all of it.
    pub fn phase(&self, phase: Phase) -> Option<(u64, FetchTotals)> {
        self.phases.get(&phase).copied()
    }

    /// By part of memory and its layer.
    pub fn parts(&self, phases: &[Phase]) -> Vec<StepPart> {
        let mut sums: HashMap<PartOfLayer, FetchTotals> = HashMap::new();
        for ((part, _), totals) in self.parts.iter().filter(|((_, phase), _)| phases.contains(phase)) {
            sums.entry(part.clone()).or_default().merge(totals);
        }
        let mut parts: Vec<StepPart> =
            sums.into_iter().map(|((part, layer), totals)| StepPart { part, layer, totals }).collect();
        parts.sort_by(|a, b| a.totals.longest_first(&b.totals).then_with(|| a.part.cmp(&b.part)));
        parts
    }

    /// By layer, in no order that means anything.
    pub fn layers(&self, phases: &[Phase]) -> BTreeMap<Option<Arc<str>>, FetchTotals> {
        let mut sums: BTreeMap<Option<Arc<str>>, FetchTotals> = BTreeMap::new();
        for ((layer, _), totals) in self.layers.iter().filter(|((_, phase), _)| phases.contains(phase)) {
            sums.entry(layer.clone()).or_default().merge(totals);
        }
        sums
    }

    /// By operator; `None`: outside of any.
    pub fn operators(&self, phases: &[Phase]) -> BTreeMap<Option<KindId>, FetchTotals> {
        let mut sums: BTreeMap<Option<KindId>, FetchTotals> = BTreeMap::new();
        for ((kind, _), totals) in self.operators.iter().filter(|((_, phase), _)| phases.contains(phase)) {
            sums.entry(*kind).or_default().merge(totals);
        }
        sums
    }

    /// The steps that waited longest, the longest first.
    pub fn slowest(&self) -> &[WaitingStep] {
        &self.slowest
    }

    /// Faults in parts of memory beyond the bound.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }
}
