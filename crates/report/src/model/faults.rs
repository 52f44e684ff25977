//! The report's section on memory that had to be fetched: which phases, operators, layers, tensors and experts waited
//! for the disk, and the steps that did so longest, each in a sentence.

use crate::numbers::ratios::natural_order;
use crate::numbers::units::time;
use profinfer_analysis::{Catalogue, Faults, FetchTotals, KindId, Phase, StepPart, WaitingStep, counted, group_digits};
use profinfer_trace::Meta;
use serde::Serialize;
use std::collections::BTreeMap;

/// Parts of a step that its sentence names.
const PARTS_OF_A_STEP: usize = 3;

/// What had to be fetched during steps that were recorded whole.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FaultsReport {
    /// Major faults were recorded.
    pub faults_recorded: bool,
    /// What came into the page cache was recorded.
    pub page_cache_recorded: bool,
    /// By phase; only those that occur.
    pub phases: Vec<FaultPhaseRow>,
    /// By tensor and expert, what was waited for longest first.
    pub tensors: Vec<FaultRow>,
    /// By layer, in the order of the model.
    pub layers: Vec<FaultRow>,
    /// By operator that was being computed.
    pub operators: Vec<FaultRow>,
    /// The steps that waited longest, the longest first.
    pub steps: Vec<WaitingStepRow>,
}

/// How much was fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct FetchFigures {
    /// Pages that a thread touched and had to wait for; `None` where that was not recorded.
    pub faults: Option<u64>,
    /// ns that threads waited for them, all threads together; `None` where it was recorded for none of them.
    pub waited_ns: Option<u64>,
    /// Faults whose waiting time was not recorded: `waited_ns` is without them.
    pub untimed_faults: u64,
    /// Bytes that came into the page cache; `None` where that was not recorded.
    pub bytes: Option<u64>,
}

/// A phase.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FaultPhaseRow {
    /// `prefill`, `decode`, `outside`.
    pub phase: &'static str,
    /// Steps of it that had faults.
    pub steps: u64,
    /// How much.
    #[serde(flatten)]
    pub fetched: FetchFigures,
}

/// A tensor or an expert of it, a layer, or an operator. What the table is not by, or was not recorded, is `None`.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct FaultRow {
    /// The tensor whose memory it was, or the operator.
    pub name: Option<String>,
    /// The expert whose part of it.
    pub expert: Option<u32>,
    /// The layer of the model.
    pub layer: Option<String>,
    /// Pages that a thread touched and had to wait for; `None` where that was not recorded.
    pub faults: Option<u64>,
    /// ns that threads waited for them, all threads together.
    pub waited_ns: Option<u64>,
    /// Faults whose waiting time was not recorded.
    pub untimed_faults: u64,
    /// Bytes that came into the page cache.
    pub bytes: Option<u64>,
}

/// A step that waited.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WaitingStepRow {
    /// Its number.
    pub step: u64,
    /// `prefill` or `decode`.
    pub phase: &'static str,
    /// ns.
    pub duration_ns: u64,
    /// The lanes whose waiting is added up.
    pub lanes: u64,
    /// How much.
    #[serde(flatten)]
    pub fetched: FetchFigures,
    /// By tensor and expert, what was waited for longest first.
    pub parts: Vec<FaultRow>,
    /// The same in one sentence.
    pub sentence: String,
}

/// What of it was recorded.
#[derive(Debug, Clone, Copy)]
struct Recorded {
    faults: bool,
    page_cache: bool,
}

impl Recorded {
    fn figures(self, totals: &FetchTotals) -> FetchFigures {
        FetchFigures {
            faults: self.faults.then_some(totals.faults),
            waited_ns: (totals.timed > 0).then_some(totals.waited),
            untimed_faults: totals.faults.saturating_sub(totals.timed),
            bytes: self.page_cache.then_some(totals.bytes),
        }
    }

    fn row(self, name: Option<String>, layer: Option<String>, totals: &FetchTotals) -> FaultRow {
        let FetchFigures { faults, waited_ns, untimed_faults, bytes } = self.figures(totals);
        FaultRow { name, expert: None, layer, faults, waited_ns, untimed_faults, bytes }
    }

    fn part(self, part: &StepPart) -> FaultRow {
        let name = part.part.as_ref().map(|part| part.owner.name.to_string());
        let expert = part.part.as_ref().and_then(|part| part.expert);
        FaultRow { expert, ..self.row(name, part.layer.as_ref().map(ToString::to_string), &part.totals) }
    }

    fn step(self, step: &WaitingStep) -> WaitingStepRow {
        let mut row = WaitingStepRow {
            step: step.number,
            phase: step.phase.as_str(),
            duration_ns: step.duration,
            lanes: step.lanes,
            fetched: self.figures(&step.totals),
            parts: step.parts.iter().map(|part| self.part(part)).collect(),
            sentence: String::new(),
        };
        row.sentence = sentence(&row);
        row
    }
}

impl FaultsReport {
    /// Of a trace that was read to its end; `None` where it has no such records at all.
    pub(crate) fn new(meta: &Meta, faults: &Faults, catalogue: &Catalogue, phases: &[Phase]) -> Option<Self> {
        let (faults_recorded, page_cache_recorded) = Faults::recorded_by(&meta.schema);
        let recorded = Recorded { faults: faults_recorded, page_cache: page_cache_recorded };
        if !recorded.faults && !recorded.page_cache {
            return None;
        }
        let phase_row = |phase: &Phase| {
            let (steps, totals) = faults.phase(*phase)?;
            Some(FaultPhaseRow { phase: phase.as_str(), steps, fetched: recorded.figures(&totals) })
        };
        let text = |layer: &Option<std::sync::Arc<str>>| layer.as_ref().map(ToString::to_string);
        let mut layers: Vec<FaultRow> =
            faults.layers(phases).iter().map(|(layer, totals)| recorded.row(None, text(layer), totals)).collect();
        layers.sort_by(|a, b| natural_order(a.layer.as_deref(), b.layer.as_deref()));
        Some(Self {
            faults_recorded: recorded.faults,
            page_cache_recorded: recorded.page_cache,
            phases: Phase::ALL.iter().filter_map(phase_row).collect(),
            tensors: faults.parts(phases).iter().map(|part| recorded.part(part)).collect(),
            layers,
            operators: operators(&faults.operators(phases), catalogue, recorded),
            steps: faults.slowest().iter().map(|step| recorded.step(step)).collect(),
        })
    }
}

/// Operators by name, without the layer.
fn operators(
    totals: &BTreeMap<Option<KindId>, FetchTotals>,
    catalogue: &Catalogue,
    recorded: Recorded,
) -> Vec<FaultRow> {
    let mut sums: BTreeMap<Option<String>, FetchTotals> = BTreeMap::new();
    for (kind, totals) in totals {
        let name = kind.map(|kind| catalogue.kind(kind).pattern.to_string());
        sums.entry(name).or_default().merge(totals);
    }
    let mut sums: Vec<(Option<String>, FetchTotals)> = sums.into_iter().collect();
    sums.sort_by(|(_, a), (_, b)| a.longest_first(b));
    sums.into_iter().map(|(name, totals)| recorded.row(name, None, &totals)).collect()
}

/// `step 7 waited 12.3 ms for the disk: 8.10 ms for expert 5 of layer 7 (blk.7.ffn_up_exps.weight), …`
fn sentence(row: &WaitingStepRow) -> String {
    let faults = row.fetched.faults.unwrap_or(0);
    let together = if row.lanes > 1 { format!(" (sum of {} lanes)", row.lanes) } else { String::new() };
    let start = match row.fetched.waited_ns {
        Some(waited) => format!("step {} waited {} for the disk{together}", row.step, time(waited)),
        None => format!("step {} waited {} for the disk", row.step, times(faults)),
    };
    let named: Vec<&FaultRow> =
        row.parts.iter().filter(|part| part.faults > Some(0) && part.waited_ns != Some(0)).collect();
    let mut parts: Vec<String> = named.iter().take(PARTS_OF_A_STEP).map(|part| part_text(part)).collect();
    if named.len() > parts.len() {
        parts.push(format!("and for {} more", counted((named.len() - parts.len()) as u64, "part")));
    }
    format!("{start}: {}", parts.join(", "))
}

fn times(faults: u64) -> String {
    if faults == 1 { "once".to_owned() } else { format!("{} times", group_digits(faults)) }
}

fn part_text(part: &FaultRow) -> String {
    let much = part.waited_ns.map_or_else(|| times(part.faults.unwrap_or(0)), time);
    let layer = part.layer.as_ref().map(|layer| format!("layer {layer}"));
    let expert = part.expert.map(|expert| format!("expert {expert}"));
    let place: Vec<String> = [expert, layer].into_iter().flatten().collect();
    match (place.join(" of "), &part.name) {
        (place, None) if place.is_empty() => format!("{much} for memory of an unknown tensor"),
        (place, None) => format!("{much} for memory of an unknown tensor in {place}"),
        (place, Some(name)) if place.is_empty() => format!("{much} for {name}"),
        (place, Some(name)) => format!("{much} for {place} ({name})"),
    }
}
